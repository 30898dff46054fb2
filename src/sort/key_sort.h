// Sorts keys that are in memory: by digits of their prefixes from the highest bits that differ, so
// that a key is looked at about three times whatever its length; by their rests only where prefixes
// are equal, eight bytes at a time in the same way.
//
// Thread safety: one call at a time per store; it uses several threads itself.
#ifndef LITHIFY_SORT_KEY_SORT_H_
#define LITHIFY_SORT_KEY_SORT_H_

#include <cstdint>
#include <cstring>
#include <span>

#include "base/cancel.h"
#include "base/result.h"
#include "sort/key_store.h"
#include "sort/pages.h"

namespace lithify::sort {

// Twelve bytes: what is sorted is moved a few times.
class KeyRow {
 public:
  uint64_t prefix() const {
    uint64_t out;
    std::memcpy(&out, prefix_, sizeof(out));
    return out;
  }
  void set_prefix(uint64_t prefix) { std::memcpy(prefix_, &prefix, sizeof(prefix)); }
  uint32_t row() const { return row_; }
  void set_row(uint32_t row) { row_ = row; }

 private:
  uint32_t prefix_[2];
  uint32_t row_;
};
static_assert(sizeof(KeyRow) == 12);

struct RowRange {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Memory per row that SortKeys() takes at most, that of the row's prefix in the store included.
inline constexpr int64_t kSortRowBytes = 2 * sizeof(KeyRow);

// Returns the rows of `ranges`, which are in ascending order, as KeyRows, sorted; equal keys by
// row. Chunks of prefixes that lie in `ranges` as a whole are dropped from the store. kCancelled,
// kLimit.
Result<Pages> SortKeys(KeyStore& store, std::span<const RowRange> ranges, int threads,
                       const CancelFlag* cancel);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_SORT_H_
