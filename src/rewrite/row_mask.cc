#include "rewrite/row_mask.h"

namespace lithify::rewrite {

void RowMask::FindRuns(const PositionSet& deleted, int64_t first, int64_t rows) {
  runs_.clear();
  kept_.clear();
  dropped_ = 0;
  deleted.ForEachRange(first, first + rows, [&](int64_t begin, int64_t end) {
    runs_.push_back(EntryRange{begin - first, end - first});
    dropped_ += end - begin;
  });
}

std::span<const EntryRange> RowMask::KeepFlat(const PositionSet& deleted, int64_t first,
                                              int64_t entries) {
  FindRuns(deleted, first, entries);
  int64_t at = 0;
  for (const EntryRange& run : runs_) {
    if (run.begin > at) kept_.push_back(EntryRange{at, run.begin});
    at = run.end;
  }
  if (at < entries) kept_.push_back(EntryRange{at, entries});
  return kept_;
}

std::span<const EntryRange> RowMask::KeepRepeated(const PositionSet& deleted, int64_t first,
                                                  std::span<const int16_t> repetition) {
  const auto entries = std::ssize(repetition);
  FindRuns(deleted, first, std::count(repetition.begin(), repetition.end(), int16_t{0}));
  if (runs_.empty() && !in_deleted_row_) {
    if (entries > 0) kept_.push_back(EntryRange{0, entries});
    return kept_;
  }
  int64_t row = -1;  // Counted from `first`.
  int64_t begin = 0;
  auto run = runs_.begin();
  for (int64_t i = 0; i < entries; ++i) {
    if (repetition[static_cast<size_t>(i)] != 0) continue;
    ++row;
    while (run != runs_.end() && run->end <= row) ++run;
    const bool gone = run != runs_.end() && run->begin <= row;
    if (gone == in_deleted_row_) continue;
    if (gone && i > begin) kept_.push_back(EntryRange{begin, i});
    if (!gone) begin = i;
    in_deleted_row_ = gone;
  }
  if (!in_deleted_row_ && entries > begin) kept_.push_back(EntryRange{begin, entries});
  return kept_;
}

int64_t DeletedFrom(const PositionSet& deleted, int64_t first, int64_t rows, int64_t step) {
  const int64_t before = deleted.CountBelow(first);
  const auto all_gone = [&](int64_t n) { return deleted.CountBelow(first + n) - before == n; };
  int64_t gone = 0;
  for (int64_t n = std::min(rows, step); n > gone && all_gone(n); n = std::min(rows, 2 * n)) {
    gone = n;
  }
  return gone;
}

}  // namespace lithify::rewrite
