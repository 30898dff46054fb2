// What to compact first, by several rules, for the fleet of maintenance_world.h.
#ifndef LITHIFY_TESTS_SIM_MAINTENANCE_RULES_H_
#define LITHIFY_TESTS_SIM_MAINTENANCE_RULES_H_

#include <memory>
#include <string>
#include <vector>

#include "maintenance_world.h"
#include "plan/maintenance_plan.h"

namespace lithify::sim {

// Never does anything.
std::unique_ptr<Rule> MakeNone();
// plan::PlanMaintenance, learning from what it did.
struct OursOptions {
  bool learn = true;
  bool log = true;      // False: as if there were no query log at all.
  bool overlap = true;  // False: as if no table had a sort order.
  double overdue_share = 0.05;
  plan::MaintenancePriors priors = {};
};
std::unique_ptr<Rule> MakeOurs(const Fleet& fleet, const OursOptions& options);
// Fixed thresholds, as AWS Glue documents its own: a partition with at least so many small files,
// or so many delete files, is compacted, in the order in which they came to it.
std::unique_ptr<Rule> MakeThreshold(int files, int delete_files);
// As AutoComp (arXiv 2504.04186) describes its decision: file count reduction against compute cost,
// each scaled to [0, 1] over all candidates, weighted sum, the best until the budget is spent.
// `by_table`: candidates are whole tables.
std::unique_ptr<Rule> MakeWeighted(double weight, bool by_table);
// File count reduction / bytes to rewrite: the same traits as a quotient.
std::unique_ptr<Rule> MakeReductionPerCost();
// As Apache Amoro documents its own: a partition with so many fragments (below an eighth of the
// target), or a tenth of deleted rows, is a candidate; tables that used the least time so far go
// first, each with a quota of a run; in a table the partitions with most work first.
std::unique_ptr<Rule> MakeQuota(int fragments);
std::unique_ptr<Rule> MakeRandom(uint64_t seed);
// Knows all true costs, conflicts and future reads: takes by true gain until the end per true
// second, a table's best beginning together, greedily; only what gains more than it costs. Greedy,
// so no bound for every possible rule. `patient`: where writers go on, it also knows that what has
// to be done again gains only until then.
std::unique_ptr<Rule> MakeOracle(const Fleet& fleet, bool patient);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_MAINTENANCE_RULES_H_
