// The parts of transforms that loops over whole columns share with table/iceberg_value.h.
//
// Thread safety: pure functions.
#ifndef LITHIFY_TABLE_ICEBERG_TRANSFORM_H_
#define LITHIFY_TABLE_ICEBERG_TRANSFORM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/iceberg.h"

namespace lithify::table {

__extension__ typedef unsigned __int128 UInt128;

inline uint32_t Murmur3Rotate(uint32_t value, int by) {
  return (value << by) | (value >> (32 - by));
}
inline uint32_t Murmur3Scramble(uint32_t block) {
  return Murmur3Rotate(block * 0xCC9E2D51U, 15) * 0x1B873593U;
}
inline uint32_t Murmur3Step(uint32_t hash, uint32_t block) {
  return Murmur3Rotate(hash ^ Murmur3Scramble(block), 13) * 5 + 0xE6546B64U;
}
inline uint32_t Murmur3End(uint32_t hash, uint32_t size) {
  hash ^= size;
  hash ^= hash >> 16;
  hash *= 0x85EBCA6BU;
  hash ^= hash >> 13;
  hash *= 0xC2B2AE35U;
  return hash ^ (hash >> 16);
}

// The hash of "bucket": Murmur3, 32 bits, x86 variant, seed 0 [Appendix B].
inline uint32_t BucketHash(std::string_view bytes) {
  uint32_t hash = 0;
  std::string_view rest = bytes;
  for (; rest.size() >= 4; rest.remove_prefix(4)) {
    uint32_t block = 0;
    std::memcpy(&block, rest.data(), sizeof block);
    hash = Murmur3Step(hash, block);
  }
  uint32_t tail = 0;
  for (size_t i = rest.size(); i > 0; --i) tail = (tail << 8) | static_cast<uint8_t>(rest[i - 1]);
  if (!rest.empty()) hash ^= Murmur3Scramble(tail);
  return Murmur3End(hash, static_cast<uint32_t>(bytes.size()));
}
// Of a long; ints and dates hash as longs do, timestamps of nanoseconds as their microseconds.
inline uint32_t BucketHash(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  const uint32_t hash = Murmur3Step(0, static_cast<uint32_t>(bits));
  return Murmur3End(Murmur3Step(hash, static_cast<uint32_t>(bits >> 32)), 8);
}

// An unscaled decimal in the fewest bytes of two's complement, most significant first.
struct DecimalBytes {
  explicit DecimalBytes(iceberg::Int128 unscaled) {
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<char>(static_cast<UInt128>(unscaled) >> (120 - 8 * i));
    }
    while (skip + 1 < all.size()) {
      const bool next_negative = (static_cast<uint8_t>(all[skip + 1]) & 0x80) != 0;
      if (all[skip] != (next_negative ? '\xFF' : '\0')) break;
      ++skip;
    }
  }
  std::string_view view() const { return std::string_view(all.data(), all.size()).substr(skip); }
  std::array<char, 16> all{};
  size_t skip = 0;
};
inline uint32_t BucketHash(iceberg::Int128 unscaled) {
  return BucketHash(DecimalBytes(unscaled).view());
}

inline int64_t BucketOf(uint32_t hash, int buckets) {
  return int64_t{(hash & 0x7FFFFFFFU) % static_cast<uint32_t>(buckets)};
}

// The first `characters` code points of UTF-8.
inline std::string_view TruncateUtf8(std::string_view text, int characters) {
  size_t end = 0;
  while (end < text.size()) {
    const bool starts = (static_cast<uint8_t>(text[end]) & 0xC0) != 0x80;
    if (starts && characters-- == 0) break;
    ++end;
  }
  return text.substr(0, end);
}

inline iceberg::Int128 TruncateDecimal(iceberg::Int128 unscaled, int width) {
  const iceberg::Int128 rest = ((unscaled % width) + width) % width;
  return static_cast<iceberg::Int128>(static_cast<UInt128>(unscaled) - static_cast<UInt128>(rest));
}

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_TRANSFORM_H_
