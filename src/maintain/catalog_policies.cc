#include "maintain/catalog_policies.h"

#include <utility>

#include "base/text.h"

namespace lithify::maintain {
namespace {

plan::CatalogPolicy ToPlan(catalog::CompactionPolicy policy) {
  return {.name = std::move(policy.name),
          .enable = policy.enable,
          .target_file_size_bytes = policy.target_file_size_bytes,
          .config = std::move(policy.config)};
}

// There is nothing to be read, now and in a minute.
bool IsNone(Code code) {
  return code == Code::kNotFound || code == Code::kDenied || code == Code::kUnsupported;
}

}  // namespace

Result<CatalogPolicies::Answer> CatalogPolicies::Of(const std::string& key, Time now,
                                                    const Ask& ask) {
  const auto known = known_.find(key);
  if (known != known_.end() && known->second.at <= now && now - known->second.at < kLife) {
    return known->second.answer;
  }
  Result<catalog::AppliedPolicy> applied = ask();
  Answer answer;
  if (applied) {
    if (applied->policy) answer.policy = ToPlan(std::move(*applied->policy));
    answer.warnings = std::move(applied->warnings);
  } else if (IsNone(applied.error().code)) {
    answer.warnings.push_back("the catalog's policies hold for nothing here: " +
                              applied.error().ToString());
  } else if (known != known_.end()) {
    answer = known->second.answer;  // As it was; asked again at the next tick.
    answer.warnings.push_back("the catalog's policy as it was at " + FormatTime(known->second.at) +
                              " holds: " + applied.error().ToString());
    return answer;
  } else {
    return Fail(std::move(applied.error()));
  }
  known_[key] = {.at = now, .answer = answer};
  return answer;
}

void CatalogPolicies::Keep(const std::function<bool(const std::string& key)>& is_there) {
  std::erase_if(known_, [&](const auto& one) { return !is_there(one.first); });
}

}  // namespace lithify::maintain
