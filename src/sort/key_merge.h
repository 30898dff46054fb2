// Merges runs by a tree of losers. What follows each other within one run is moved as a whole, and
// blocks that nothing else reaches into are not even read.
//
// Thread safety: functions; the first one uses several threads itself.
#ifndef LITHIFY_SORT_KEY_MERGE_H_
#define LITHIFY_SORT_KEY_MERGE_H_

#include <cstdint>
#include <span>

#include "base/cancel.h"
#include "base/result.h"
#include "sort/key_runs.h"
#include "sort/key_store.h"
#include "sort/row_sorter.h"

namespace lithify::sort {

struct MergeOptions {
  const KeyStore* store = nullptr;  // Of the blocks that are in memory.
  const RowBits* differ = nullptr;  // By row: whether its key is another than the row's before.
  int threads = 1;
  const CancelFlag* cancel = nullptr;
};

// Fills rows and key_begins. Each thread holds a block of each run that is spilled or was sorted.
Status MergeToRows(std::span<const Run> runs, const MergeOptions& options, SortedRows& out);

// Likewise to a run, by one thread.
Status MergeToRun(std::span<const Run> runs, const MergeOptions& options, RunWriter& out);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_MERGE_H_
