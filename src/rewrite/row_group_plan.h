// Which rows of the inputs make up each row group of the outputs.
#ifndef LITHIFY_REWRITE_ROW_GROUP_PLAN_H_
#define LITHIFY_REWRITE_ROW_GROUP_PLAN_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "rewrite/column_splice.h"
#include "rewrite/open_group.h"

namespace lithify::rewrite {

// One row group to write.
struct RowGroupPlan {
  int64_t rows = 0;            // That survive.
  int64_t bytes = 0;           // Uncompressed.
  int64_t input_bytes = 0;     // As they lie in the inputs, of the rows that survive.
  int64_t progress_bytes = 0;  // Likewise, of all rows.
  // The inputs' row groups that it has all surviving rows of, and whether it has no other rows.
  // Those of which no row survives are not among them.
  std::vector<GroupPlace> places;
  bool whole = true;
};

// About how many of the bytes are those of `rows` out of `rows_in`.
int64_t ShareOf(int64_t bytes, int64_t rows, int64_t rows_in);

int64_t DeletedRows(const InputSource& in, int64_t first, int64_t rows);

// Row groups in rows that survive: whole input row groups together up to the bounds of the
// request's shape, larger ones cut. Where several files of a table are made, input row groups are
// also cut to fill each up to the bounds, but for small ones, whose pages had better stay whole:
// files can end only between row groups, and must come out equal.
Result<std::vector<RowGroupPlan>> PlanRowGroups(const OpenedGroup& group,
                                                const GroupRequest& request);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_GROUP_PLAN_H_
