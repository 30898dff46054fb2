#include "maintain/run_budget.h"

#include <algorithm>
#include <cstdint>

namespace lithify::maintain {
namespace {

// 0 means no bound: what is used up leaves the least that is one.
void Take(plan::MaintenanceBudget& budget, const BudgetUse& use) {
  if (budget.bytes > 0) budget.bytes = std::max<int64_t>(1, budget.bytes - use.bytes);
  if (budget.seconds > 0) budget.seconds = std::max(1e-9, budget.seconds - use.seconds);
  if (budget.commits > 0 && use.commits >= budget.commits) {
    budget.commits = 1;
    budget.bytes = 1;
  } else if (budget.commits > 0) {
    budget.commits -= use.commits;
  }
}

}  // namespace

plan::MaintenanceOptions RemainingOf(const plan::MaintenanceOptions& all, const plan::Cron& cron,
                                     Time now, RunUse& run) {
  const Time begun = plan::LastFire(cron, now).value_or(Time());
  // A clock that was set back begins no run anew.
  if (begun > run.since) run = RunUse{.since = begun, .all = {}, .of_namespace = {}};
  plan::MaintenanceOptions left = all;
  Take(left.per_run, run.all);
  for (const auto& [name, use] : run.of_namespace) {
    const auto own = left.of_namespace.find(name);
    plan::MaintenanceBudget budget =
        own != left.of_namespace.end() ? own->second : left.per_namespace;
    Take(budget, use);
    left.of_namespace[name] = budget;
  }
  return left;
}

void Spend(RunUse& run, const std::string& name_space, const BudgetUse& use) {
  for (BudgetUse* of : {&run.all, &run.of_namespace[name_space]}) {
    of->bytes += use.bytes;
    of->seconds += use.seconds;
    of->commits += use.commits;
  }
}

}  // namespace lithify::maintain
