// Rewrites a group in an order of its own (GroupRequest::ordering). Only keys are sorted: they give
// each row its rank. Then one column after the other is decoded as a whole, in the inputs' order,
// and encoded in that of the ranks, row group by row group of the outputs; what does not fit the
// memory waits on a local disk. So each value is decoded once and encoded once, however much there
// is, and no row is ever put together.
#ifndef LITHIFY_REWRITE_SORTED_REWRITE_H_
#define LITHIFY_REWRITE_SORTED_REWRITE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"
#include "rewrite/recode.h"
#include "sort/row_sorter.h"
#include "storage/store.h"

namespace lithify::rewrite {

// As Recode(), which does it where the rows come in order. kLimit, besides: the memory does not
// hold the ranks, or the disk what does not fit.
Result<RecodeResult> RewriteSorted(storage::Store& store, OpenedGroup& group,
                                   const GroupRequest& request, BoundedPool& pool,
                                   const CancelFlag& cancel);

// Where row groups begin and end, in ranks: of about equal size, as many for each of `outputs`
// files, none with more than `rows_max` rows by much. They end where a key does, if one ends close
// by, so that no key is in two of them. `key_begins` as sort::SortedRows.
std::vector<std::pair<int64_t, int64_t>> CutRanks(const sort::RowBits& key_begins, int64_t rows_max,
                                                  int outputs);

// How many of the row groups, which have so many bytes, go into each file: `files` at most, unless
// none may have more than `bytes_max` (0: any).
std::vector<size_t> ShareRowGroups(std::span<const int64_t> bytes, int files, int64_t bytes_max);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_SORTED_REWRITE_H_
