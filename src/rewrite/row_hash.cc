#include "rewrite/row_hash.h"

// Sanitizers instrument the resolver that picks a clone before they are ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LITHIFY_CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define LITHIFY_CLONES
#endif

namespace lithify::rewrite {

LITHIFY_CLONES void FoldRowHashes(uint64_t* hashes, size_t n, uint64_t seed, Digest128& digest) {
  uint64_t lo = 0;
  uint64_t hi = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t hash = hashes[i];
    lo += hash;
    hi += HashHigh(hash);
    hashes[i] = HashMix(hash ^ seed);
  }
  digest.Add(lo, hi);
}

LITHIFY_CLONES void HashFixed(const int32_t* values, size_t n, uint64_t* hashes) {
  for (size_t i = 0; i < n; ++i) hashes[i] = HashMix(static_cast<uint32_t>(values[i]));
}

LITHIFY_CLONES void HashFixed(const int64_t* values, size_t n, uint64_t* hashes) {
  for (size_t i = 0; i < n; ++i) hashes[i] = HashMix(static_cast<uint64_t>(values[i]));
}

}  // namespace lithify::rewrite
