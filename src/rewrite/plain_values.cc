#include "rewrite/plain_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace lithify::rewrite {
namespace {

void Append(std::span<const uint8_t> bytes, std::string* out) {
  if (out != nullptr) out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Calls `each(begin, end, whether kept)` for the stretches that [0, count) falls into.
template <typename Each>
Status ForEachStretch(int64_t count, std::span<const EntryRange> keep, Each&& each) {
  int64_t at = 0;
  for (const EntryRange& range : keep) {
    if (range.begin > at) LITHIFY_TRY(each(at, range.begin, false));
    if (range.end > range.begin) LITHIFY_TRY(each(range.begin, range.end, true));
    at = range.end;
  }
  if (count > at) LITHIFY_TRY(each(at, count, false));
  return {};
}

// Bits, the first in the lowest place of its byte.
class BitWriter {
 public:
  explicit BitWriter(std::string* out) : out_(out) {}
  void Put(bool bit) {
    if (out_ == nullptr) return;
    if (used_ == 0) out_->push_back('\0');
    if (bit) out_->back() = static_cast<char>(static_cast<uint8_t>(out_->back()) | 1U << used_);
    used_ = (used_ + 1) % 8;
  }

 private:
  std::string* const out_;
  unsigned used_ = 0;
};

bool Bit(std::span<const uint8_t> bits, int64_t i) {
  return (bits[static_cast<size_t>(i / 8)] >> (i % 8) & 1U) != 0;
}

Status SplitBooleans(std::span<const uint8_t> plain, int64_t count,
                     std::span<const EntryRange> keep, std::string* kept, std::string* left) {
  if ((count + 7) / 8 > std::ssize(plain)) return ValuesCutOff();
  BitWriter kept_bits(kept);
  BitWriter left_bits(left);
  return ForEachStretch(count, keep, [&](int64_t begin, int64_t end, bool is_kept) -> Status {
    BitWriter& to = is_kept ? kept_bits : left_bits;
    for (int64_t i = begin; i < end; ++i) to.Put(Bit(plain, i));
    return {};
  });
}

Status SplitByteArrays(std::span<const uint8_t> plain, int64_t count,
                       std::span<const EntryRange> keep, std::string* kept, std::string* left) {
  size_t at = 0;
  return ForEachStretch(count, keep, [&](int64_t begin, int64_t end, bool is_kept) -> Status {
    const size_t from = at;
    for (int64_t i = begin; i < end; ++i) {
      at = NextByteArray(plain, at);
      if (at == 0) return ValuesCutOff();
    }
    Append(plain.subspan(from, at - from), is_kept ? kept : left);
    return {};
  });
}

template <typename T>
T Load(const uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename T>
bool LessNumber(std::string_view a, std::string_view b) {
  return Load<T>(reinterpret_cast<const uint8_t*>(a.data())) <
         Load<T>(reinterpret_cast<const uint8_t*>(b.data()));
}

}  // namespace

std::unexpected<Error> ValuesCutOff() {
  return Fail(Code::kCorrupt, "the values of a page are cut off", "page body",
              "restore the file from its source");
}

size_t NextByteArray(std::span<const uint8_t> plain, size_t at) {
  uint32_t length = 0;
  if (plain.size() - at < sizeof length) return 0;
  std::memcpy(&length, plain.data() + at, sizeof length);
  at += sizeof length;
  return length > plain.size() - at ? 0 : at + length;
}

Status SplitPlain(const PlainForm& form, std::span<const uint8_t> plain, int64_t count,
                  std::span<const EntryRange> keep, std::string* kept, std::string* left) {
  switch (form.kind) {
    case PlainForm::Kind::kBoolean: return SplitBooleans(plain, count, keep, kept, left);
    case PlainForm::Kind::kByteArray: return SplitByteArrays(plain, count, keep, kept, left);
    case PlainForm::Kind::kFixed: break;
  }
  if (count > std::ssize(plain) / form.bytes) return ValuesCutOff();
  return ForEachStretch(count, keep, [&](int64_t begin, int64_t end, bool is_kept) -> Status {
    const auto width = static_cast<size_t>(form.bytes);
    Append(
        plain.subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(end - begin) * width),
        is_kept ? kept : left);
    return {};
  });
}

bool ValueBounds::Less(std::string_view a, std::string_view b) const {
  const bool wide = form_.bytes == 8;
  switch (order_) {
    case ValueOrder::kNone: return false;
    case ValueOrder::kSigned: return wide ? LessNumber<int64_t>(a, b) : LessNumber<int32_t>(a, b);
    case ValueOrder::kUnsigned:
      if (form_.kind == PlainForm::Kind::kBoolean) return a[0] < b[0];
      return wide ? LessNumber<uint64_t>(a, b) : LessNumber<uint32_t>(a, b);
    case ValueOrder::kFloat: return wide ? LessNumber<double>(a, b) : LessNumber<float>(a, b);
    case ValueOrder::kBytes: return a < b;
    case ValueOrder::kSignedBytes: {
      const auto sign = [](std::string_view value) { return (value[0] & '\x80') != 0; };
      return sign(a) != sign(b) ? sign(a) : a < b;
    }
  }
  return false;
}

void ValueBounds::AddValue(std::string_view value) {
  if (!ordered()) return;
  if (order_ == ValueOrder::kFloat) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(value.data());
    if (form_.bytes == 8 ? std::isnan(Load<double>(bytes)) : std::isnan(Load<float>(bytes))) return;
  }
  if (!min_ || Less(value, *min_)) min_ = std::string(value);
  if (!max_ || Less(*max_, value)) max_ = std::string(value);
}

void ValueBounds::Add(const ValueBounds& other) {
  if (other.min_) AddValue(*other.min_);
  if (other.max_) AddValue(*other.max_);
}

template <typename T>
void ValueBounds::AddNumbers(std::span<const uint8_t> plain, int64_t count) {
  const uint8_t* at = plain.data();
  const uint8_t* const end = at + count * static_cast<int64_t>(sizeof(T));
  if constexpr (std::is_floating_point_v<T>) {
    while (at != end && std::isnan(Load<T>(at))) at += sizeof(T);
  }
  if (at == end) return;
  T min = Load<T>(at);
  T max = min;
  // A NaN is neither less nor greater.
  for (; at != end; at += sizeof(T)) {
    const T value = Load<T>(at);
    min = value < min ? value : min;
    max = max < value ? value : max;
  }
  AddValue(Bytes(min));
  AddValue(Bytes(max));
}

void ValueBounds::AddBooleans(std::span<const uint8_t> plain, int64_t count) {
  for (int64_t i = 0; i < count; ++i) AddValue(Bit(plain, i) ? "\1" : std::string_view("\0", 1));
}

Status ValueBounds::Add(std::span<const uint8_t> plain, int64_t count) {
  if (!ordered() || count == 0) return {};
  if (form_.kind == PlainForm::Kind::kByteArray) {
    std::string_view min;
    std::string_view max;
    size_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const size_t next = NextByteArray(plain, at);
      if (next == 0) return ValuesCutOff();
      at += sizeof(uint32_t);
      const std::string_view value(reinterpret_cast<const char*>(plain.data()) + at, next - at);
      at = next;
      if (i == 0 || value < min) min = value;
      if (i == 0 || max < value) max = value;
    }
    AddValue(min);
    AddValue(max);
    return {};
  }
  if (form_.kind == PlainForm::Kind::kBoolean) {
    if ((count + 7) / 8 > std::ssize(plain)) return ValuesCutOff();
    AddBooleans(plain, count);
    return {};
  }
  if (count > std::ssize(plain) / form_.bytes) return ValuesCutOff();
  const bool wide = form_.bytes == 8;
  switch (order_) {
    case ValueOrder::kNone: break;
    case ValueOrder::kSigned:
      wide ? AddNumbers<int64_t>(plain, count) : AddNumbers<int32_t>(plain, count);
      break;
    case ValueOrder::kUnsigned:
      wide ? AddNumbers<uint64_t>(plain, count) : AddNumbers<uint32_t>(plain, count);
      break;
    case ValueOrder::kFloat:
      wide ? AddNumbers<double>(plain, count) : AddNumbers<float>(plain, count);
      break;
    case ValueOrder::kBytes:
    case ValueOrder::kSignedBytes: {
      const auto width = static_cast<size_t>(form_.bytes);
      for (int64_t i = 0; i < count; ++i) {
        const auto value = plain.subspan(static_cast<size_t>(i) * width, width);
        AddValue({reinterpret_cast<const char*>(value.data()), value.size()});
      }
    }
  }
  return {};
}

}  // namespace lithify::rewrite
