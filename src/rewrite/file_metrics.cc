#include "rewrite/file_metrics.h"

#include <parquet/statistics.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/leaf_value.h"

namespace lithify::rewrite {
namespace {

using iceberg::CompareValues;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

// ------------------------------------------------------------------------------------ modes

struct Mode {
  enum class Kind { kNone, kCounts, kTruncate, kFull };
  Kind kind = Kind::kTruncate;
  size_t length = 16;
};

Mode ParseMode(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "none") return {Mode::Kind::kNone, 0};
  if (lower == "counts") return {Mode::Kind::kCounts, 0};
  if (lower == "full") return {Mode::Kind::kFull, std::numeric_limits<size_t>::max()};
  constexpr std::string_view kTruncate = "truncate(";
  if (lower.starts_with(kTruncate) && lower.ends_with(')')) {
    const char* first = lower.data() + kTruncate.size();
    const char* last = lower.data() + lower.size() - 1;
    uint32_t length = 0;
    const auto parsed = std::from_chars(first, last, length);
    if (parsed.ec == std::errc() && parsed.ptr == last && length > 0) {
      return {Mode::Kind::kTruncate, length};
    }
  }
  return {};
}

Mode ModeOf(const TableTarget& table, int field_id) {
  const auto found = table.metrics_modes.find(field_id);
  return ParseMode(found == table.metrics_modes.end() ? table.metrics_mode : found->second);
}

// ------------------------------------------------------------------------------- truncation

constexpr uint32_t kCodePointMax = 0x10FFFF;

// The code point at the front of `text` and its length in bytes; 0 for what is not UTF-8.
size_t DecodeUtf8(std::string_view text, uint32_t& code_point) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    code_point = lead;
    return 1;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  code_point = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code_point = code_point << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kLowest[length] || code_point > kCodePointMax || surrogate) return 0;
  return length;
}

void AppendUtf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Bytes of the first `code_points` code points, or of those before the first damage: a statistic
// that its writer cut may end within one.
size_t PrefixBytes(std::string_view text, size_t code_points) {
  size_t bytes = 0;
  while (code_points > 0 && bytes < text.size()) {
    uint32_t ignored = 0;
    const size_t length = DecodeUtf8(text.substr(bytes), ignored);
    if (length == 0) break;
    bytes += length;
    --code_points;
  }
  return bytes;
}

// The least text above every one that begins with the valid UTF-8 `prefix`; nullopt: there is none.
std::optional<std::string> IncrementUtf8(std::string_view prefix) {
  while (!prefix.empty()) {
    size_t start = prefix.size() - 1;
    while ((static_cast<uint8_t>(prefix[start]) & 0xC0) == 0x80) --start;
    uint32_t code_point = 0;
    (void)DecodeUtf8(prefix.substr(start), code_point);
    prefix = prefix.substr(0, start);
    if (code_point == kCodePointMax) continue;
    std::string out(prefix);
    AppendUtf8(out, code_point == 0xD7FF ? 0xE000 : code_point + 1);
    return out;
  }
  return std::nullopt;
}

std::optional<std::string> IncrementBytes(std::string_view prefix) {
  while (!prefix.empty()) {
    if (static_cast<uint8_t>(prefix.back()) != 0xFF) {
      std::string out(prefix);
      out.back() = static_cast<char>(static_cast<uint8_t>(out.back()) + 1);
      return out;
    }
    prefix.remove_suffix(1);
  }
  return std::nullopt;
}

std::optional<Value> Truncate(const Type& type, const Mode& mode, Value value, bool upper) {
  const bool is_text = type.kind == TypeKind::kString;
  if (!is_text && type.kind != TypeKind::kBinary) return value;
  const std::string& whole = std::get<std::string>(value);
  const size_t keep =
      is_text ? PrefixBytes(whole, mode.length) : std::min(whole.size(), mode.length);
  if (keep == whole.size()) return value;
  if (keep == 0) return std::nullopt;
  const std::string_view prefix = std::string_view(whole).substr(0, keep);
  if (!upper) return Value(std::string(prefix));
  auto raised = is_text ? IncrementUtf8(prefix) : IncrementBytes(prefix);
  if (!raised) return std::nullopt;
  return Value(std::move(*raised));
}

// ------------------------------------------------------------------------------- statistics

template <typename T>
std::optional<T> Plain(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// A statistic as stored, to a value of the type; nullopt where it is not understood.
std::optional<Value> FromStatistic(const parquet::ColumnDescriptor& column,
                                   const LeafReading& reading, const Type& type,
                                   const std::string& bytes) {
  std::optional<int64_t> integer;
  std::optional<double> real;
  std::optional<iceberg::Int128> decimal;
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      if (bytes.size() != 1) return std::nullopt;
      return Value(bytes[0] != 0);
    case parquet::Type::INT32: integer = Plain<int32_t>(bytes); break;
    case parquet::Type::INT64: integer = Plain<int64_t>(bytes); break;
    case parquet::Type::FLOAT: real = Plain<float>(bytes); break;
    case parquet::Type::DOUBLE: real = Plain<double>(bytes); break;
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (bytes.size() != static_cast<size_t>(column.type_length())) return std::nullopt;
      [[fallthrough]];
    case parquet::Type::BYTE_ARRAY:
      if (reading.form == LeafForm::kBytes) return Value(bytes);
      decimal = DecimalFromBigEndian(bytes);
      break;
    default: return std::nullopt;
  }
  if (reading.form == LeafForm::kDecimal) {
    if (integer) decimal = *integer;
    if (decimal) decimal = DecimalOf(reading, *decimal);
    if (!decimal) return std::nullopt;
    return Value(iceberg::Decimal{*decimal});
  }
  if (integer && reading.divide == 1) integer = IntegerOf(reading, *integer);
  if (integer && reading.divide == 1) return Value(*integer);
  if (!real || std::isnan(*real)) return std::nullopt;
  if (type.kind == TypeKind::kFloat) return Value(static_cast<float>(*real));
  return Value(*real);
}

// Zero has two forms and a statistic may hold either (Parquet, "ColumnOrder").
Value WidenZero(Value value, bool upper) {
  if (auto* f = std::get_if<float>(&value); f != nullptr && *f == 0) *f = upper ? 0.0F : -0.0F;
  if (auto* d = std::get_if<double>(&value); d != nullptr && *d == 0) *d = upper ? 0.0 : -0.0;
  return value;
}

// One column over all row groups. What once became unknown stays so.
struct Tally {
  int64_t size = 0;
  int64_t values = 0;
  std::optional<int64_t> nulls = 0;
  bool lower_known = true;
  bool upper_known = true;
  std::optional<Value> lower;
  std::optional<Value> upper;
};

void AddBounds(const parquet::ColumnDescriptor& column, const LeafReading& reading,
               const Type& type, const parquet::EncodedStatistics* statistics, Tally& tally) {
  std::optional<Value> lower;
  std::optional<Value> upper;
  if (statistics != nullptr && statistics->has_min) {
    lower = FromStatistic(column, reading, type, statistics->min());
  }
  if (statistics != nullptr && statistics->has_max) {
    upper = FromStatistic(column, reading, type, statistics->max());
  }
  // Whether a statistic is exact does not matter for a bound.
  if (lower) lower = WidenZero(std::move(*lower), false);
  if (upper) upper = WidenZero(std::move(*upper), true);
  if (lower && upper && CompareValues(*lower, *upper) > 0) lower = upper = std::nullopt;
  tally.lower_known = tally.lower_known && lower;
  tally.upper_known = tally.upper_known && upper;
  if (lower && (!tally.lower || CompareValues(*lower, *tally.lower) < 0)) {
    tally.lower = std::move(lower);
  }
  if (upper && (!tally.upper || CompareValues(*upper, *tally.upper) > 0)) {
    tally.upper = std::move(upper);
  }
}

void AddChunk(const parquet::ColumnChunkMetaData& chunk, const parquet::ColumnDescriptor& column,
              const std::optional<LeafReading>& reading, const Type& type, Tally& tally) {
  tally.size += chunk.total_compressed_size();
  const int64_t values = chunk.num_values();
  tally.values += values;
  if (values == 0) return;
  const auto statistics = chunk.is_stats_set() ? chunk.encoded_statistics() : nullptr;
  std::optional<int64_t> nulls;
  if (statistics != nullptr && statistics->has_null_count) nulls = statistics->null_count;
  if (column.max_definition_level() == 0) nulls = 0;
  if (nulls && (*nulls < 0 || *nulls > values)) nulls = std::nullopt;
  if (!nulls) tally.nulls = std::nullopt;
  if (tally.nulls) *tally.nulls += *nulls;
  if (nulls == values) return;
  if (!reading) {
    tally.lower_known = tally.upper_known = false;
    return;
  }
  AddBounds(column, *reading, type, statistics.get(), tally);
}

// Java readers order uuids as two signed numbers, all others as bytes: both agree on bounds where
// all values lie in one half of the range.
bool Ambiguous(const Type& type, const Tally& tally) {
  if (type.kind != TypeKind::kUuid || !tally.lower || !tally.upper) return false;
  const auto half = [](const Value& value) { return std::get<std::string>(value)[0] & '\x80'; };
  return half(*tally.lower) != half(*tally.upper);
}

void PutBounds(int id, const Type& type, const Mode& mode, const Tally& tally,
               ColumnMetrics& metrics) {
  if (type.kind == TypeKind::kUuid && !(tally.lower_known && tally.upper_known)) return;
  if (Ambiguous(type, tally)) return;
  if (tally.lower_known && tally.lower) {
    if (const auto bound = Truncate(type, mode, *tally.lower, false)) {
      metrics.lower_bounds.emplace_back(id, SingleValueBytes(type, *bound));
    }
  }
  if (tally.upper_known && tally.upper) {
    if (const auto bound = Truncate(type, mode, *tally.upper, true)) {
      metrics.upper_bounds.emplace_back(id, SingleValueBytes(type, *bound));
    }
  }
}

// The type of a field, or nullptr for a column that the table does not have.
const Type* TypeOf(const TableTarget& table, int field_id) {
  static const Type kLong = [] {
    Type type;
    type.kind = TypeKind::kLong;
    return type;
  }();
  if (field_id == iceberg::kRowIdFieldId || field_id == iceberg::kLastUpdatedFieldId) {
    return &kLong;
  }
  const iceberg::Field* field = iceberg::FindField(table.schema, field_id);
  return field != nullptr && field->type.primitive() ? &field->type : nullptr;
}

Result<Tally> TallyColumn(const parquet::FileMetaData& footer, int c, const Type& type) {
  const parquet::ColumnDescriptor& column = *footer.schema()->Column(c);
  std::optional<LeafReading> reading;
  if (auto found = ReadLeafAs(column, type)) reading = *found;
  Tally tally;
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    const auto group = footer.RowGroup(g);
    const auto chunk = group->ColumnChunk(c);
    AddChunk(*chunk, column, reading, type, tally);
    if (column.max_repetition_level() == 0 && chunk->num_values() != group->num_rows()) {
      return Fail(Code::kCorrupt,
                  "the footer claims " + std::to_string(chunk->num_values()) + " values in a " +
                      "row group of " + std::to_string(group->num_rows()) + " rows",
                  "column " + column.path()->ToDotString());
    }
  }
  return tally;
}

Result<ColumnMetrics> Collect(const parquet::FileMetaData& footer, const TableTarget& table) {
  std::map<int, int> columns;  // Field id to column, so that the metrics come out sorted.
  for (int c = 0; c < footer.num_columns(); ++c) {
    const int id = footer.schema()->Column(c)->schema_node()->field_id();
    if (id < 0 || TypeOf(table, id) == nullptr) continue;
    if (!columns.emplace(id, c).second) {
      return Fail(Code::kCorrupt, "two columns have the field id " + std::to_string(id),
                  "column " + footer.schema()->Column(c)->path()->ToDotString());
    }
  }
  ColumnMetrics metrics;
  for (const auto& [id, c] : columns) {
    const Mode mode = ModeOf(table, id);
    if (mode.kind == Mode::Kind::kNone) continue;
    const Type& type = *TypeOf(table, id);
    LITHIFY_TRY_ASSIGN(const Tally tally, TallyColumn(footer, c, type));
    metrics.column_sizes.emplace_back(id, tally.size);
    if (footer.schema()->Column(c)->max_repetition_level() > 0) continue;
    metrics.value_counts.emplace_back(id, tally.values);
    if (tally.nulls) metrics.null_value_counts.emplace_back(id, *tally.nulls);
    if (mode.kind != Mode::Kind::kCounts) PutBounds(id, type, mode, tally, metrics);
  }
  return metrics;
}

}  // namespace

Result<ColumnMetrics> MetricsOf(const parquet::FileMetaData& footer, const TableTarget& table) {
  return GuardParquet("footer", [&] { return Collect(footer, table); });
}

}  // namespace lithify::rewrite
