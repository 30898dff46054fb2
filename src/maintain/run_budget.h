// What is left of the budgets of a run, which lasts from one fire of the configuration's schedule
// to the next. Tables and trees spend the same budgets.
#ifndef LITHIFY_MAINTAIN_RUN_BUDGET_H_
#define LITHIFY_MAINTAIN_RUN_BUDGET_H_

#include <string>

#include "base/clock.h"
#include "maintain/state.h"
#include "plan/cron.h"
#include "plan/maintenance_plan.h"

namespace lithify::maintain {

// `all` with its budgets less what the run that `cron` began has used; a new run has used nothing.
plan::MaintenanceOptions RemainingOf(const plan::MaintenanceOptions& all, const plan::Cron& cron,
                                     Time now, RunUse& run);

// What was spent is spent, whatever became of it.
void Spend(RunUse& run, const std::string& name_space, const BudgetUse& use);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_RUN_BUDGET_H_
