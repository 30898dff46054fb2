#include "observe/otlp.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hive.h"

namespace lithify::observe {
namespace {

// Wire types of protobuf.
constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

constexpr std::string_view kScopeName = "lithify";

class Message {
 public:
  void Varint(int field, uint64_t value) {
    Tag(field, kVarint);
    Raw(value);
  }
  void Fixed64(int field, uint64_t value) {
    Tag(field, kFixed64);
    Word(value);
  }
  void Double(int field, double value) { Fixed64(field, std::bit_cast<uint64_t>(value)); }
  void Fixed32(int field, uint32_t value) {
    Tag(field, kFixed32);
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void Bytes(int field, std::string_view bytes) {
    Tag(field, kBytes);
    Raw(bytes.size());
    bytes_ += bytes;
  }
  // A text must be UTF-8: what is none would make a receiver refuse all that is sent with it.
  void Text(int field, std::string_view text) {
    if (text.empty()) return;
    if (IsUtf8(text)) return Bytes(field, text);
    std::string ascii(text);
    std::ranges::replace_if(
        ascii, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    Bytes(field, ascii);
  }
  void Nested(int field, const Message& message) { Bytes(field, message.bytes_); }
  void Packed(int field, std::span<const uint64_t> words) {
    Tag(field, kBytes);
    Raw(words.size() * 8);
    for (const uint64_t word : words) Word(word);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Tag(int field, int type) { Raw(static_cast<uint64_t>(field) << 3 | unsigned(type)); }
  void Raw(uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  void Word(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string bytes_;
};

uint64_t Nanos(Time time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

std::string FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  }
  return bytes;
}

Message AnyValue(const AttributeValue& value) {
  Message any;
  if (const auto* text = std::get_if<std::string>(&value)) {
    // An empty text is a value, too: the field is there.
    if (text->empty()) {
      any.Bytes(1, "");
    } else {
      any.Text(1, *text);
    }
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    any.Varint(2, *truth ? 1 : 0);
  } else {
    any.Varint(3, static_cast<uint64_t>(std::get<int64_t>(value)));
  }
  return any;
}

void PutAttribute(Message& message, int field, const std::string& key,
                  const AttributeValue& value) {
  Message pair;
  pair.Text(1, key);
  pair.Nested(2, AnyValue(value));
  message.Nested(field, pair);
}

Message ResourceOf(const ExportScope& scope) {
  Message resource;
  for (const auto& [key, value] : scope.resource) PutAttribute(resource, 1, key, value);
  return resource;
}

Message ScopeOf(const ExportScope& scope) {
  Message out;
  out.Text(1, kScopeName);
  out.Text(2, scope.version);
  return out;
}

// The shape that requests of all signals have: resource, scope, items.
std::string Request(const ExportScope& scope, Message&& items) {
  Message of_resource;
  of_resource.Nested(1, ResourceOf(scope));
  of_resource.Nested(2, items);
  Message request;
  request.Nested(1, of_resource);
  return std::move(request).Take();
}

Message NumberPoint(const MetricPoint& point, Time start, Time now) {
  Message out;
  out.Fixed64(2, Nanos(start));
  out.Fixed64(3, Nanos(now));
  out.Fixed64(6, static_cast<uint64_t>(std::llround(point.value)));
  for (const auto& [key, value] : point.attributes) PutAttribute(out, 7, key, value);
  return out;
}

Message HistogramPoint(const MetricPoint& point, Time start, Time now, bool extremes) {
  Message out;
  out.Fixed64(2, Nanos(start));
  out.Fixed64(3, Nanos(now));
  out.Fixed64(4, point.count);
  out.Double(5, point.value);
  out.Packed(6, point.bucket_counts);
  std::vector<uint64_t> bounds;
  for (const double bound : point.instrument->buckets) {
    bounds.push_back(std::bit_cast<uint64_t>(bound));
  }
  out.Packed(7, bounds);
  for (const auto& [key, value] : point.attributes) PutAttribute(out, 9, key, value);
  if (extremes && point.count > 0) {
    out.Double(11, point.min);
    out.Double(12, point.max);
  }
  return out;
}

// All points of one instrument.
Message MetricOf(std::span<const MetricPoint> points, Temporality temporality, Time start,
                 Time now) {
  const metric::Instrument& instrument = *points.front().instrument;
  const uint64_t code = temporality == Temporality::kDelta ? 1 : 2;
  constexpr uint64_t kCumulative = 2;
  Message data;
  for (const MetricPoint& point : points) {
    data.Nested(1, instrument.kind == metric::Kind::kHistogram
                       ? HistogramPoint(point, start, now, temporality == Temporality::kCumulative)
                       : NumberPoint(point, start, now));
  }
  Message out;
  out.Text(1, instrument.name);
  out.Text(2, instrument.brief);
  out.Text(3, instrument.unit);
  switch (instrument.kind) {
    case metric::Kind::kGauge: out.Nested(5, data); break;
    case metric::Kind::kCounter:
      data.Varint(2, code);
      data.Varint(3, 1);
      out.Nested(7, data);
      break;
    case metric::Kind::kUpDownCounter:
      data.Varint(2, kCumulative);
      out.Nested(7, data);
      break;
    case metric::Kind::kHistogram:
      data.Varint(2, code);
      out.Nested(9, data);
      break;
  }
  return out;
}

Message SpanOf(const SpanData& span) {
  Message out;
  out.Bytes(1, FromHex(span.context.trace_id));
  out.Bytes(2, FromHex(span.context.span_id));
  if (!span.parent_span_id.empty()) out.Bytes(4, FromHex(span.parent_span_id));
  out.Text(5, span.name);
  out.Varint(6, static_cast<uint64_t>(span.kind));
  out.Fixed64(7, Nanos(span.start));
  out.Fixed64(8, Nanos(span.end));
  for (const auto& [key, value] : span.attributes) PutAttribute(out, 9, key, value);
  Message status;
  if (span.failed) {
    status.Text(2, span.error);
    status.Varint(3, 2);
  }
  out.Nested(15, status);
  out.Fixed32(16, span.context.sampled ? 1 : 0);
  return out;
}

Message LogOf(const LogRecord& record) {
  Message out;
  out.Fixed64(1, Nanos(record.time));
  out.Varint(2, static_cast<uint64_t>(record.severity));
  switch (record.severity) {
    case LogRecord::Severity::kInfo: out.Text(3, "INFO"); break;
    case LogRecord::Severity::kWarn: out.Text(3, "WARN"); break;
    case LogRecord::Severity::kError: out.Text(3, "ERROR"); break;
  }
  out.Nested(5, AnyValue(record.body));
  for (const auto& [key, value] : record.attributes) PutAttribute(out, 6, key, value);
  if (record.context.valid()) {
    out.Fixed32(8, record.context.sampled ? 1 : 0);
    out.Bytes(9, FromHex(record.context.trace_id));
    out.Bytes(10, FromHex(record.context.span_id));
  }
  out.Fixed64(11, Nanos(record.time));
  out.Text(12, record.event);
  return out;
}

// nullopt where the bytes end first.
std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // Of a varint.
  std::string_view bytes;  // Of bytes.
};

// The next field of a message; nullopt at its end, and where it is broken.
std::optional<WireField> TakeField(std::string_view& message) {
  const auto tag = TakeVarint(message);
  if (!tag) return std::nullopt;
  WireField field{.number = *tag >> 3, .value = 0, .bytes = {}};
  const auto type = static_cast<int>(*tag & 7);
  if (type == kFixed64 || type == kFixed32) {
    const size_t size = type == kFixed64 ? 8 : 4;
    if (message.size() < size) return std::nullopt;
    message.remove_prefix(size);
    return field;
  }
  const auto value = TakeVarint(message);
  if (!value || (type != kVarint && type != kBytes)) return std::nullopt;
  field.value = *value;
  if (type == kVarint) return field;
  if (*value > message.size()) return std::nullopt;
  field.bytes = message.substr(0, *value);
  message.remove_prefix(*value);
  return field;
}

}  // namespace

std::string EncodeMetrics(const ExportScope& scope, std::span<const MetricPoint> points,
                          Temporality temporality, Time start, Time now) {
  Message of_scope;
  of_scope.Nested(1, ScopeOf(scope));
  while (!points.empty()) {
    const auto other = std::ranges::find_if(points, [&](const MetricPoint& point) {
      return point.instrument != points.front().instrument;
    });
    const auto of_one = points.first(static_cast<size_t>(other - points.begin()));
    points = points.subspan(of_one.size());
    of_scope.Nested(2, MetricOf(of_one, temporality, start, now));
  }
  return Request(scope, std::move(of_scope));
}

std::string EncodeSpans(const ExportScope& scope, std::span<const SpanData> spans) {
  Message of_scope;
  of_scope.Nested(1, ScopeOf(scope));
  for (const SpanData& span : spans) of_scope.Nested(2, SpanOf(span));
  return Request(scope, std::move(of_scope));
}

std::string EncodeLogs(const ExportScope& scope, std::span<const LogRecord> records) {
  Message of_scope;
  of_scope.Nested(1, ScopeOf(scope));
  for (const LogRecord& record : records) of_scope.Nested(2, LogOf(record));
  return Request(scope, std::move(of_scope));
}

int64_t RejectedItems(std::string_view response) {
  while (const auto field = TakeField(response)) {
    if (field->number != 1) continue;
    std::string_view partial = field->bytes;
    while (const auto inner = TakeField(partial)) {
      if (inner->number == 1) return std::max<int64_t>(0, static_cast<int64_t>(inner->value));
    }
  }
  return 0;
}

}  // namespace lithify::observe
