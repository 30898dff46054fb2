#include "sort/key_transform.h"

#include <bit>
#include <cmath>

#include "table/iceberg_transform.h"

namespace lithify::sort {
namespace {

using iceberg::TypeKind;
using Kind = table::Transform::Kind;

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerHour = 3600;
constexpr int64_t kSecondsPerDay = 86'400;
constexpr int64_t kDaysPerEra = 146'097;  // Of 400 years.

// By constants: the compiler multiplies instead.
template <int64_t kBy>
int64_t FloorDiv(int64_t a) {
  return a / kBy - (a % kBy < 0 ? 1 : 0);
}
template <int64_t kBy>
int64_t FloorMod(int64_t a) {
  return a % kBy < 0 ? a % kBy + kBy : a % kBy;
}

template <typename F>
void Map(const int64_t* words, size_t n, int64_t* values, const F& of) {
  for (size_t i = 0; i < n; ++i) values[i] = of(words[i]);
}

bool IsNanos(TypeKind kind) {
  return kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestamptzNs;
}

// Days since 1970 to years, or months, since then. The year begins with March here, so that the
// day that some years have more is its last one.
int64_t MonthsOf(int64_t days) {
  constexpr uint32_t kDaysUntil1970 = 719'468;  // From 0000-03-01.
  const int64_t eras = FloorDiv<kDaysPerEra>(days);
  const auto day = static_cast<uint32_t>(FloorMod<kDaysPerEra>(days)) + kDaysUntil1970;
  const uint32_t era = day / kDaysPerEra;
  const uint32_t of_era = day % kDaysPerEra;
  const uint32_t year = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
  const uint32_t month = (5 * of_year + 2) / 153;  // 0 is March.
  const int64_t years = (eras + era) * 400 + year - 1970;
  return years * 12 + month + 2;
}
int64_t YearsOf(int64_t days) { return FloorDiv<12>(MonthsOf(days)); }

template <int64_t kPerSecond>
void TimestampParts(Kind kind, const int64_t* words, size_t n, int64_t* values) {
  constexpr int64_t kDay = kSecondsPerDay * kPerSecond;
  switch (kind) {
    case Kind::kHour: return Map(words, n, values, FloorDiv<kSecondsPerHour * kPerSecond>);
    case Kind::kDay: return Map(words, n, values, FloorDiv<kDay>);
    case Kind::kMonth:
      return Map(words, n, values, [](int64_t v) { return MonthsOf(FloorDiv<kDay>(v)); });
    default: return Map(words, n, values, [](int64_t v) { return YearsOf(FloorDiv<kDay>(v)); });
  }
}

void DateParts(Kind kind, const int64_t* words, size_t n, int64_t* values) {
  switch (kind) {
    case Kind::kDay: return Map(words, n, values, [](int64_t v) { return v; });
    case Kind::kMonth: return Map(words, n, values, MonthsOf);
    default: return Map(words, n, values, YearsOf);
  }
}

void Truncate(TypeKind source, int64_t width, const int64_t* words, size_t n, int64_t* values) {
  const auto truncated = [width](int64_t v) {
    const int64_t rest = v % width < 0 ? v % width + width : v % width;
    return static_cast<int64_t>(static_cast<uint64_t>(v) - static_cast<uint64_t>(rest));
  };
  if (source != TypeKind::kInt) return Map(words, n, values, truncated);
  // Wraps as Java's int does.
  Map(words, n, values, [&](int64_t v) { return int64_t{static_cast<int32_t>(truncated(v))}; });
}

void Bucket(TypeKind source, int buckets, const int64_t* words, size_t n, int64_t* values) {
  if (IsNanos(source)) {
    return Map(words, n, values, [buckets](int64_t v) {
      return table::BucketOf(table::BucketHash(FloorDiv<1000>(v)), buckets);
    });
  }
  Map(words, n, values,
      [buckets](int64_t v) { return table::BucketOf(table::BucketHash(v), buckets); });
}

// Negative numbers have their bits turned, so that they fall where they grow.
int64_t DoubleOrder(int64_t bits) {
  if (std::isnan(std::bit_cast<double>(bits))) bits = 0x7FF8'0000'0000'0000;
  return bits ^ ((bits >> 63) & INT64_MAX);
}
int64_t FloatOrder(int64_t word) {
  auto bits = static_cast<int32_t>(word);
  if (std::isnan(std::bit_cast<float>(bits))) bits = 0x7FC0'0000;
  return bits ^ ((bits >> 31) & INT32_MAX);
}

void Identity(TypeKind source, const int64_t* words, size_t n, int64_t* values) {
  switch (source) {
    case TypeKind::kBoolean:
      return Map(words, n, values, [](int64_t v) { return int64_t{v != 0}; });
    case TypeKind::kFloat: return Map(words, n, values, FloatOrder);
    case TypeKind::kDouble: return Map(words, n, values, DoubleOrder);
    default: return Map(words, n, values, [](int64_t v) { return v; });
  }
}

}  // namespace

void TransformWords(const table::Transform& transform, TypeKind source, const int64_t* words,
                    size_t n, int64_t* values) {
  switch (transform.kind) {
    case Kind::kIdentity: return Identity(source, words, n, values);
    case Kind::kBucket: return Bucket(source, transform.parameter, words, n, values);
    case Kind::kTruncate: return Truncate(source, transform.parameter, words, n, values);
    default:
      if (source == TypeKind::kDate) return DateParts(transform.kind, words, n, values);
      if (IsNanos(source)) {
        return TimestampParts<kNanosPerSecond>(transform.kind, words, n, values);
      }
      return TimestampParts<kMicrosPerSecond>(transform.kind, words, n, values);
  }
}

}  // namespace lithify::sort
