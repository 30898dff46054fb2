// Hashes behind the content digests (base/digest.h). Fixed-width values go through the splitmix64
// finaliser, a bijection, so that two different 64-bit values never share a hash; byte strings go
// through XXH3.
#ifndef LITHIFY_REWRITE_ROW_HASH_H_
#define LITHIFY_REWRITE_ROW_HASH_H_

#include <parquet/types.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/digest.h"

namespace lithify::rewrite {

inline uint64_t HashMix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

inline uint64_t HashBytes(const void* data, size_t size) { return XXH3_64bits(data, size); }
inline uint64_t HashValue(bool v, int) { return HashMix(v ? 1 : 0); }
inline uint64_t HashValue(int32_t v, int) { return HashMix(static_cast<uint32_t>(v)); }
inline uint64_t HashValue(int64_t v, int) { return HashMix(static_cast<uint64_t>(v)); }
inline uint64_t HashValue(float v, int) { return HashMix(std::bit_cast<uint32_t>(v)); }
inline uint64_t HashValue(double v, int) { return HashMix(std::bit_cast<uint64_t>(v)); }
inline uint64_t HashValue(const parquet::Int96& v, int) { return HashBytes(v.value.data(), 12); }
inline uint64_t HashValue(const parquet::ByteArray& v, int) { return HashBytes(v.ptr, v.len); }
inline uint64_t HashValue(const parquet::FixedLenByteArray& v, int length) {
  return HashBytes(v.ptr, static_cast<size_t>(length));
}

// A missing value, told apart by the level at which it ends (null list, empty list, null item, …).
inline uint64_t HashNull(int16_t definition) {
  return HashMix(0x6c69746869667921ULL + static_cast<uint64_t>(static_cast<uint16_t>(definition)));
}

// Entries of one row of a repeated column, in order.
inline uint64_t HashChain(uint64_t row, uint64_t entry, int16_t repetition) {
  return HashMix((row + static_cast<uint16_t>(repetition) + 1) * 0x9fb21c651e98df25ULL ^ entry);
}

inline uint64_t HashHigh(uint64_t hash) { return HashMix(hash ^ 0x5851f42d4c957f2dULL); }

inline void AddRowHash(Digest128& digest, uint64_t hash) { digest.Add(hash, HashHigh(hash)); }

// Sums into `digest` the row hashes of a flat column, and turns each into its share of the whole
// row's hash, in place. The one loop over all fixed-width values, so it is compiled for several
// instruction sets and picked at start.
void FoldRowHashes(uint64_t* hashes, size_t n, uint64_t seed, Digest128& digest);

// hashes[i] = HashMix(bits of values[i]), for n values.
void HashFixed(const int32_t* values, size_t n, uint64_t* hashes);
void HashFixed(const int64_t* values, size_t n, uint64_t* hashes);

inline uint64_t ColumnSeed(std::string_view path) { return HashBytes(path.data(), path.size()); }

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_HASH_H_
