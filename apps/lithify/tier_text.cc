#include "tier_text.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace lithify::cli {
namespace {

std::string Reasons(const TierCounts& recoded) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [why, chunks] : recoded) sorted.emplace_back(chunks, why);
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& each) { return each.first; });
  std::string out;
  for (const auto& [chunks, why] : sorted) {
    out += (out.empty() ? ": " : ", ") + why + " " + FormatCount(chunks);
  }
  return out;
}

}  // namespace

void AddCounts(TierCounts& to, const TierCounts& from) {
  for (const auto& [name, count] : from) to[name] += count;
}

std::string TierText(const TierCounts& tiers, const TierCounts& recoded, bool planned) {
  std::string out;
  const auto add = [&](const std::string& name, int64_t chunks) {
    const char* up_to = planned && name == "splice" ? " up to " : " ";
    out += (out.empty() ? "" : ", ") + name + up_to + FormatCount(chunks);
  };
  for (const auto& [name, chunks] : tiers) {
    if (name != "recode") add(name, chunks);
  }
  if (const auto found = tiers.find("recode"); found != tiers.end()) {
    add(found->first, found->second);
    out += Reasons(recoded);
  }
  return out;
}

nlohmann::ordered_json TierPlanJson(const std::optional<rewrite::TierPlan>& plan) {
  using Json = nlohmann::ordered_json;
  if (!plan) return {};
  Json columns = Json::array();
  for (const rewrite::ColumnTiers& column : plan->columns) {
    columns.push_back(
        {{"column", column.path}, {"tiers", column.tiers}, {"recoded", column.recoded}});
  }
  return {{"row_groups", plan->row_groups},
          {"tiers", plan->tiers},
          {"recoded", plan->recoded},
          {"columns", std::move(columns)}};
}

}  // namespace lithify::cli
