// Big-endian two's-complement decimals of any width, and INT96 timestamps: what conversions need.
#ifndef LITHIFY_REWRITE_DECIMAL_BYTES_H_
#define LITHIFY_REWRITE_DECIMAL_BYTES_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace lithify::rewrite {

inline void PutBigEndian(int64_t value, uint8_t* out, int length) {
  std::memset(out, value < 0 ? 0xff : 0, static_cast<size_t>(length));
  const auto bits = static_cast<uint64_t>(value);
  for (int i = 0; i < 8 && i < length; ++i) {
    out[length - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  }
}

// False unless the last `length` of the bytes say it all.
inline bool FitsBytes(std::span<const uint8_t> bytes, size_t length) {
  if (bytes.empty()) return false;
  if (bytes.size() <= length) return true;
  const uint8_t sign = (bytes.front() & 0x80) != 0 ? 0xff : 0;
  const size_t extra = bytes.size() - length;
  for (size_t i = 0; i < extra; ++i) {
    if (bytes[i] != sign) return false;
  }
  return (bytes[extra] & 0x80) == (sign & 0x80);
}

inline bool CopyDecimal(std::span<const uint8_t> bytes, uint8_t* out, int length) {
  const auto width = static_cast<size_t>(length);
  if (!FitsBytes(bytes, width)) return false;
  if (bytes.size() >= width) {
    std::memcpy(out, bytes.data() + (bytes.size() - width), width);
    return true;
  }
  const size_t pad = width - bytes.size();
  std::memset(out, (bytes.front() & 0x80) != 0 ? 0xff : 0, pad);
  std::memcpy(out + pad, bytes.data(), bytes.size());
  return true;
}

template <typename T>
bool ReadDecimal(std::span<const uint8_t> bytes, T& out) {
  std::array<uint8_t, sizeof(T)> fixed;
  if (!CopyDecimal(bytes, fixed.data(), sizeof(T))) return false;
  std::make_unsigned_t<T> bits = 0;
  for (const uint8_t byte : fixed) bits = static_cast<std::make_unsigned_t<T>>(bits << 8 | byte);
  out = static_cast<T>(bits);
  return true;
}

// Nanoseconds of the day in the first two words, the Julian day number in the third. False if the
// instant does not fit, or is finer than `unit_nanos`.
inline bool TimestampOfInt96(const std::array<uint32_t, 3>& words, int64_t unit_nanos,
                             int64_t& out) {
  constexpr int64_t kEpochJulianDay = 2'440'588;
  constexpr int64_t kNanosPerDay = 86'400'000'000'000;
  const uint64_t nanos = uint64_t{words[1]} << 32 | words[0];
  if (nanos > static_cast<uint64_t>(kNanosPerDay)) return false;
  const auto of_day = static_cast<int64_t>(nanos);
  if (of_day % unit_nanos != 0) return false;
  return !__builtin_mul_overflow(int64_t{words[2]} - kEpochJulianDay, kNanosPerDay / unit_nanos,
                                 &out) &&
         !__builtin_add_overflow(out, of_day / unit_nanos, &out);
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_DECIMAL_BYTES_H_
