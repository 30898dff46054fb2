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
  bool moved = false;  // It is one well-sized row group of an input.
};

// About how many of the bytes are those of `rows` out of `rows_in`.
int64_t ShareOf(int64_t bytes, int64_t rows, int64_t rows_in);

int64_t DeletedRows(const InputSource& in, int64_t first, int64_t rows);

// What the footers tell of a column's options. `codec` is the output's.
ColumnSpliceOptions FooterOptions(const OpenedGroup& group, const OutputShape& shape,
                                  arrow::Compression::type codec, size_t leaf);

// Row groups in rows that survive: whole input row groups together up to the bounds of the request,
// larger ones cut. Where several files of a table are made, they can end only between row groups,
// and must come out equal: input row groups are also cut to fill each up to the bounds, but for
// small ones, whose pages had better stay whole.
//
// A well-sized input row group without deleted rows gets a row group of its own, so that it can be
// moved: one of more than half of the bounds, by bytes or by rows, and of up to twice the bytes and
// four times the rows, since to cut it is to decode it; but no more than several files of equal
// size allow, and only if, by its footer, at least half of its bytes can be moved. Less than an
// eighth of the bounds that is left over in front of one is united with it, if both fit.
Result<std::vector<RowGroupPlan>> PlanRowGroups(const OpenedGroup& group,
                                                const GroupRequest& request);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_GROUP_PLAN_H_
