// The order that the rows of a group are to be written in: reads the columns that it goes by, and
// no others.
#ifndef LITHIFY_REWRITE_ROW_KEYS_H_
#define LITHIFY_REWRITE_ROW_KEYS_H_

#include "base/cancel.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"
#include "sort/row_sorter.h"

namespace lithify::rewrite {

// Rows of the inputs that are not deleted, in their order, are numbered from 0. `request` has an
// Ordering. kUnsupported, with the column: it is not there, lies in a list or map, or its type has
// no order; else as of sort::RowSorter and of reading.
Result<sort::SortedRows> OrderRows(const OpenedGroup& group, const GroupRequest& request,
                                   const sort::RowSorterOptions& options, BoundedPool& pool,
                                   const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_KEYS_H_
