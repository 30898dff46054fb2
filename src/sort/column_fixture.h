// For tests: columns of values, drawn so that what is hard to order comes up, as encoders take
// them.
#ifndef LITHIFY_SORT_COLUMN_FIXTURE_H_
#define LITHIFY_SORT_COLUMN_FIXTURE_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "base/random.h"
#include "sort/key_encoder.h"

namespace lithify::sort {

inline iceberg::Type TypeOf(iceberg::TypeKind kind, int precision = 0, int length = 0) {
  iceberg::Type type;
  type.kind = kind;
  type.precision = precision;
  type.length = length;
  return type;
}

// Keeps the arrays that a KeyColumn points to.
class ValueColumn {
 public:
  ValueColumn(const iceberg::Type& type, std::vector<iceberg::Value> all) : values(std::move(all)) {
    const bool decimal = type.kind == iceberg::TypeKind::kDecimal;
    const bool text =
        type.kind == iceberg::TypeKind::kString || type.kind == iceberg::TypeKind::kUuid ||
        type.kind == iceberg::TypeKind::kFixed || type.kind == iceberg::TypeKind::kBinary;
    for (const iceberg::Value& value : values) {
      valid_.push_back(iceberg::IsNull(value) ? 0 : 1);
      any_null_ |= iceberg::IsNull(value);
      if (decimal) {
        const auto* v = std::get_if<iceberg::Decimal>(&value);
        decimals_.push_back(v == nullptr ? iceberg::Int128{-77} : v->unscaled);
      } else if (text) {
        const auto* v = std::get_if<std::string>(&value);
        bytes_.push_back(v == nullptr ? Nowhere() : std::string_view(*v));
      } else {
        words_.push_back(WordOf(value));
      }
    }
  }
  ValueColumn(ValueColumn&&) = default;

  KeyColumn rows(size_t begin = 0) const {
    return {any_null_ ? valid_.data() + begin : nullptr,
            words_.empty() ? nullptr : words_.data() + begin,
            decimals_.empty() ? nullptr : decimals_.data() + begin,
            bytes_.empty() ? nullptr : bytes_.data() + begin};
  }

  std::vector<iceberg::Value> values;

 private:
  // What must not be looked at.
  static std::string_view Nowhere() { return {reinterpret_cast<const char*>(16), 7}; }
  static int64_t WordOf(const iceberg::Value& value) {
    if (const bool* v = std::get_if<bool>(&value)) return *v ? 1 : 0;
    if (const auto* v = std::get_if<int64_t>(&value)) return *v;
    // The upper half of the word says nothing.
    if (const auto* v = std::get_if<float>(&value)) {
      return static_cast<int64_t>(0xABCD'0000'0000'0000 | std::bit_cast<uint32_t>(*v));
    }
    if (const auto* v = std::get_if<double>(&value)) return std::bit_cast<int64_t>(*v);
    return INT64_MIN;  // Null.
  }

  std::vector<uint8_t> valid_;
  std::vector<int64_t> words_;
  std::vector<iceberg::Int128> decimals_;
  std::vector<std::string_view> bytes_;
  bool any_null_ = false;
};

class ValueSource {
 public:
  explicit ValueSource(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_.Next() % bound; }

  // One in `null_in` is null; 0: none.
  iceberg::Value Draw(const iceberg::Type& type, uint64_t null_in) {
    if (null_in > 0 && Below(null_in) == 0) return {};
    using enum iceberg::TypeKind;
    switch (type.kind) {
      case kBoolean: return Below(2) == 0;
      case kInt:
      case kDate: return int64_t{static_cast<int32_t>(Whole(INT32_MIN, INT32_MAX))};
      case kFloat: return Floating<float>();
      case kDouble: return Floating<double>();
      case kDecimal: return iceberg::Decimal{Unscaled(type.precision)};
      case kString: return Text(false);
      case kBinary: return Text(true);
      case kUuid: return Fixed(16);
      case kFixed: return Fixed(static_cast<size_t>(type.length));
      default: return Whole(INT64_MIN, INT64_MAX);
    }
  }

  ValueColumn Column(const iceberg::Type& type, size_t rows, uint64_t null_in) {
    std::vector<iceberg::Value> values;
    for (size_t i = 0; i < rows; ++i) values.push_back(Draw(type, null_in));
    return {type, std::move(values)};
  }

 private:
  int64_t Whole(int64_t lowest, int64_t highest) {
    const auto near = static_cast<int64_t>(Below(4));
    switch (Below(6)) {
      case 0: return lowest + near;
      case 1: return highest - near;
      case 2: return near - 2;
      case 3: return static_cast<int64_t>(Below(100'000)) - 50'000;
      default: return static_cast<int64_t>(random_.Next());
    }
  }

  template <typename T>
  T Floating() {
    using Limits = std::numeric_limits<T>;
    const T kSome[] = {T{0},
                       -T{0},
                       T{1},
                       -T{1},
                       Limits::infinity(),
                       -Limits::infinity(),
                       Limits::quiet_NaN(),
                       -Limits::quiet_NaN(),
                       Limits::denorm_min(),
                       -Limits::denorm_min(),
                       Limits::max(),
                       Limits::lowest()};
    if (Below(2) == 0) return kSome[Below(std::size(kSome))];
    if constexpr (sizeof(T) == 4) {  // Any bits: other NaN, too.
      return std::bit_cast<T>(static_cast<uint32_t>(random_.Next()));
    } else {
      return std::bit_cast<T>(random_.Next());
    }
  }

  // One in eight has more digits than its type.
  iceberg::Int128 Unscaled(int precision) {
    iceberg::Int128 bound = 1;
    for (int i = 0; i < precision; ++i) bound *= 10;
    const iceberg::Int128 near = static_cast<int>(Below(3));
    const iceberg::Int128 any = iceberg::Int128{static_cast<int64_t>(random_.Next())} << 64 |
                                iceberg::Int128{random_.Next()};
    switch (Below(8)) {
      case 0: return bound - 1 - near;
      case 1: return 1 - bound + near;
      case 2: return near - 1;
      case 3: return any;
      default: return any % bound;
    }
  }

  std::string Text(bool binary) {
    static constexpr std::string_view kPieces[] = {"a", "b",  "abcdefgh", "https://example.org/",
                                                   "é", "😀", "\x7f",     "z"};
    static constexpr char kBytes[] = {0, 1, 2, 3, '\x7f', '\x80', '\xfc', '\xfd', '\xfe', '\xff'};
    std::string text;
    for (uint64_t n = Below(5); n > 0; --n) {
      if (binary || Below(3) == 0) {
        text += kBytes[Below(binary ? 10 : 4)];
      } else {
        text += kPieces[Below(std::size(kPieces))];
      }
    }
    if (Below(20) == 0) text += std::string(Below(60), 'x');
    return text;
  }

  std::string Fixed(size_t size) {
    static constexpr char kBytes[] = {0, 0, 1, '\x7f', '\x80', '\xfe', '\xff', '\xff'};
    const char most = kBytes[Below(8)];
    std::string bytes(size, most);
    for (uint64_t n = Below(4); n > 0; --n) bytes[Below(size)] = kBytes[Below(8)];
    if (Below(3) == 0) bytes.back() = static_cast<char>(Below(256));
    return bytes;
  }

  SeededRandom random_;
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_COLUMN_FIXTURE_H_
