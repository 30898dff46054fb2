// The order of many rows from their keys, in bounded memory: runs of keys are sorted, those that do
// not fit are spilled, compressed, and merged by a tree of losers. Rows that come in order already,
// file by file, are runs as they are. Only keys come here; the rows themselves stay where they are.
//
// Thread safety: one thread at a time; Finish() may use several itself.
#ifndef LITHIFY_SORT_ROW_SORTER_H_
#define LITHIFY_SORT_ROW_SORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "sort/key_rows.h"
#include "sort/spill.h"

namespace lithify::sort {

struct RowSorterOptions {
  int64_t memory_bytes = 0;  // Of keys and of what sorting them takes; the result comes on top.
  int threads = 1;
  SpillDirectory* spill = nullptr;     // Null: kLimit where the memory does not do.
  const CancelFlag* cancel = nullptr;  // May be null.
};

// Rows by rank. Rows are numbered as they were added, from 0.
struct SortedRows {
  std::vector<uint32_t> rows;  // rows[rank]: each number once.
  // By rank: whether the row's key differs from that of the rank before it; true for rank 0.
  std::vector<bool> key_begins;
  bool in_order = false;  // rows[i] == i for all: they came in order.
  int64_t runs = 0;       // That were merged, those that came in order among them.
  int64_t runs_spilled = 0;
};

class RowSorter {
 public:
  virtual ~RowSorter() = default;
  // The next rows; equal keys keep the order they were added in. `keys` may be moved from.
  // `begins`: they are the first of another input, which is likely to come in order by itself.
  virtual Status Add(KeyRows& keys, bool begins) = 0;
  // kLimit: more than 2^32 - 1 rows, or as SpillFile::Append().
  virtual Result<SortedRows> Finish() = 0;
};

std::unique_ptr<RowSorter> MakeRowSorter(const RowSorterOptions& options);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_ROW_SORTER_H_
