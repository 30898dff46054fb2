// What a catalog's own policies say of tables ([maintenance.polaris] policies), asked for now and
// then.
#ifndef LITHIFY_MAINTAIN_CATALOG_POLICIES_H_
#define LITHIFY_MAINTAIN_CATALOG_POLICIES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "catalog/polaris_policies.h"
#include "plan/maintenance_policy.h"

namespace lithify::maintain {

// One thread.
class CatalogPolicies {
 public:
  static constexpr Duration kLife = std::chrono::minutes(5);  // Of an answer.

  struct Answer {
    std::optional<plan::CatalogPolicy> policy;
    std::vector<std::string> warnings;
  };
  using Ask = std::function<Result<catalog::AppliedPolicy>()>;

  // Of the table `key`. `ask` is called once, or not at all while an answer is young. That there is
  // no such API, or no right to read it, is an answer, with a warning. An error means that nothing
  // is known: the table's policy may be that it is left alone.
  Result<Answer> Of(const std::string& key, Time now, const Ask& ask);
  // Drops what is known of other tables.
  void Keep(const std::function<bool(const std::string& key)>& is_there);

 private:
  struct Known {
    Time at;
    Answer answer;
  };
  std::map<std::string, Known> known_;
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_CATALOG_POLICIES_H_
