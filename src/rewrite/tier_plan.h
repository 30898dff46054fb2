// What footers tell of the tiers that the columns of a group will go by, for dry runs.
#ifndef LITHIFY_REWRITE_TIER_PLAN_H_
#define LITHIFY_REWRITE_TIER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"
#include "rewrite/row_group_plan.h"

namespace lithify::rewrite {

// Why all columns of a row group to write are decoded; empty: each has its own way. `whole` as in
// RowGroupPlan.
std::string WhyRecoded(const GroupRequest& request, bool whole);

// Row groups of the inputs of which rows survive, and that `plan` has nowhere as a whole.
int64_t CutRowGroups(const OpenedGroup& group, const std::vector<RowGroupPlan>& plan);

// Reads no page: see TierPlan.
Result<TierPlan> ExplainTiers(const OpenedGroup& group, const GroupRequest& request,
                              BoundedPool& pool);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TIER_PLAN_H_
