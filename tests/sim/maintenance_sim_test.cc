#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "maintenance_rules.h"

namespace lithify::sim {
namespace {

TEST(MaintenanceSim, Explore) {
  const auto number = [](const char* name, double otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atof(text);
  };
  FleetShape shape;
  shape.seed = static_cast<uint64_t>(number("S", 1));
  shape.tables = static_cast<int>(number("T", 500));
  shape.budget_share = number("B", 0.25);
  const Fleet fleet = MakeFleet(shape);
  const auto rule = MakeNone();
  const FleetReport none = RunFleet(fleet, *rule, nullptr);
  std::printf("budget %.0f s/day, none: %.0f query s\n", fleet.budget_per_day, none.query_seconds);
  std::vector<std::unique_ptr<Rule>> rules;
  OursOptions ours;
  rules.push_back(MakeOurs(fleet, ours));
  ours.learn = false;
  rules.push_back(MakeOurs(fleet, ours));
  ours.learn = true;
  ours.overdue_share = 0;
  rules.push_back(MakeOurs(fleet, ours));
  ours.log = false;
  rules.push_back(MakeOurs(fleet, ours));
  rules.push_back(MakeOracle(fleet));
  for (const int files : {5, 20, 100}) {
    for (const int deletes : {10, 100}) rules.push_back(MakeThreshold(files, deletes));
  }
  for (const double weight : {0.5, 0.7, 0.9}) {
    rules.push_back(MakeWeighted(weight, false));
    rules.push_back(MakeWeighted(weight, true));
  }
  rules.push_back(MakeReductionPerCost());
  for (const int fragments : {6, 12, 48}) rules.push_back(MakeQuota(fragments));
  rules.push_back(MakeRandom(1));
  for (const auto& each : rules) {
    const FleetReport r = RunFleet(fleet, *each, &none);
    std::printf(
        "%-45s saved %12.0f (%4.1f %%) compute %10.0f ratio %8.1f wasted %4.1f %% (%4.1f "
        "conflicts) jobs %6ld conflicts %5ld parts %7ld wait %4.0f p99 %4.0f\n",
        r.rule.c_str(), r.saved, 100 * r.saved / none.query_seconds, r.compute,
        r.seconds_saved_per_second(), 100 * r.wasted_share(),
        100 * r.lost_to_conflicts / std::max(1.0, r.compute), r.jobs, r.conflicts, r.rewrites,
        r.longest_wait, r.wait_p99);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lithify::sim
