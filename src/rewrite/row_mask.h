// Leaving deleted rows out of decoded entries: by runs of rows, in place, so that a few deletes
// cost a few moves and never a test per value (R093).
#ifndef LITHIFY_REWRITE_ROW_MASK_H_
#define LITHIFY_REWRITE_ROW_MASK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/position_set.h"

namespace lithify::rewrite {

struct EntryRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Finds which entries of one stretch of a column survive. One per column; keeps its buffers.
class RowMask {
 public:
  // One entry per row, the first of them row `first` of the file.
  std::span<const EntryRange> KeepFlat(const PositionSet& deleted, int64_t first, int64_t entries);
  // Any number of entries per row. Entries before the first with repetition level 0 belong to the
  // row that the last call ended in; `first` is the number of the first row that begins here.
  std::span<const EntryRange> KeepRepeated(const PositionSet& deleted, int64_t first,
                                           std::span<const int16_t> repetition);
  // A new stretch begins, which does not continue a row.
  void Restart() { in_deleted_row_ = false; }
  // Deleted rows that began in the last stretch.
  int64_t dropped() const { return dropped_; }

 private:
  void FindRuns(const PositionSet& deleted, int64_t first, int64_t rows);

  std::vector<EntryRange> runs_;  // Of deleted rows.
  std::vector<EntryRange> kept_;
  int64_t dropped_ = 0;
  bool in_deleted_row_ = false;
};

// How many of the rows from `first` on are deleted without a gap, up to `rows`; exact up to a
// power of two times `step`, never too many.
int64_t DeletedFrom(const PositionSet& deleted, int64_t first, int64_t rows, int64_t step);

// Moves the kept entries to the front; returns their number. Null arrays are left alone. `values`
// is dense: one for each entry whose definition level is `definition_max`.
template <typename T>
int64_t KeepEntries(std::span<const EntryRange> kept, int16_t definition_max, int16_t* definition,
                    int16_t* repetition, T* values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto present = [&](int64_t begin, int64_t end) {
    return definition_max == 0 ? end - begin
                               : static_cast<int64_t>(std::count(definition + begin,
                                                                 definition + end, definition_max));
  };
  int64_t out = 0;
  int64_t at = 0;
  int64_t value_at = 0;
  int64_t value_out = 0;
  for (const EntryRange& range : kept) {
    const int64_t n = range.end - range.begin;
    if (values != nullptr) {
      value_at += present(at, range.begin);
      const int64_t count = present(range.begin, range.end);
      if (value_at != value_out && count > 0) {
        std::memmove(values + value_out, values + value_at, static_cast<size_t>(count) * sizeof(T));
      }
      value_at += count;
      value_out += count;
    }
    if (range.begin != out) {
      const size_t bytes = static_cast<size_t>(n) * sizeof(int16_t);
      if (definition_max > 0) std::memmove(definition + out, definition + range.begin, bytes);
      if (repetition != nullptr) std::memmove(repetition + out, repetition + range.begin, bytes);
    }
    out += n;
    at = range.end;
  }
  return out;
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_MASK_H_
