// Tiers of the rewrite engine and reasons, as reports and dry runs print them (docs/CLI.md,
// "Tiers").
#ifndef LITHIFY_APPS_LITHIFY_TIER_TEXT_H_
#define LITHIFY_APPS_LITHIFY_TIER_TEXT_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "rewrite/group_runner.h"

namespace lithify::cli {

using TierCounts = std::map<std::string, int64_t>;

// Adds each number of `from`.
void AddCounts(TierCounts& to, const TierCounts& from);

// "splice 120, recode 24: another codec 20, an input lacks it 4", reasons by size. With `planned`
// "splice up to 120": pages decide. Empty for no chunks.
std::string TierText(const TierCounts& tiers, const TierCounts& recoded, bool planned);

// Null for none.
nlohmann::ordered_json TierPlanJson(const std::optional<rewrite::TierPlan>& plan);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_TIER_TEXT_H_
