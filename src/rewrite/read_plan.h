// Which requests bring what a rewrite reads, on stores where each read is one.
#ifndef LITHIFY_REWRITE_READ_PLAN_H_
#define LITHIFY_REWRITE_READ_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rewrite/open_group.h"
#include "rewrite/row_group_plan.h"
#include "storage/read_ahead.h"

namespace lithify::rewrite {

// Parts that lie so close together come in one request: what lies between them takes no longer than
// another round trip, at some ten MB/s and some ten milliseconds.
inline constexpr int64_t kGapBytes = int64_t{1} << 20;

// What the row groups of `plan` are made of: round i is its number i. Columns are read in the order
// of `order`, which has each leaf of the outputs once. `pages_move`: pages may be moved, for which
// page indexes and filters are read, too. Inputs that are in memory are left out.
std::vector<storage::Extent> PlanReads(const OpenedGroup& group,
                                       const std::vector<RowGroupPlan>& plan,
                                       const std::vector<size_t>& order, bool pages_move,
                                       int64_t extent_bytes_max);

// Before all other rounds.
inline constexpr int64_t kFirstHeadersRound = -1;
// The first pages' headers of the chunks in the file's first row group, of leaves that are read.
std::vector<storage::Extent> PlanFirstHeaders(const InputSource& in, int64_t extent_bytes_max);

// The rows of one leaf, from the beginning of `start` on, in round `round`.
std::vector<storage::Extent> PlanColumn(const OpenedGroup& group, size_t leaf,
                                        const GroupPlace& start, int64_t rows, int64_t round,
                                        int64_t extent_bytes_max);

// Of a group of one file, per row group those leaves that are `wanted`: round i is number i.
std::vector<storage::Extent> PlanReading(const OpenedGroup& file,
                                         const std::vector<std::vector<bool>>& wanted,
                                         int64_t extent_bytes_max);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_READ_PLAN_H_
