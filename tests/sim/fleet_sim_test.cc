// Seeded simulation of Iceberg jobs whose groups are rewritten by workers (issue 9; R123-R127,
// R133, R141, R286-R290, T31, T33). LITHIFY_SIM_SEEDS: how many seeds; LITHIFY_SIM_SEED: only this
// one, with its trace.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>

#include "env_number.h"
#include "iceberg_world.h"

namespace lithify::sim {
namespace {

std::string Replay(uint64_t seed) {
  const IcebergReport report = RunIcebergWorld(seed, true, Who::kWorkers);
  std::string text = "seed " + std::to_string(seed) + ": " +
                     report.violation.value_or("no violation") +
                     "\nreplay with LITHIFY_SIM_SEED=" + std::to_string(seed) + "\n";
  const size_t shown = std::min<size_t>(report.trace.size(), 600);
  for (size_t i = report.trace.size() - shown; i < report.trace.size(); ++i) {
    text += report.trace[i] + "\n";
  }
  return text;
}

TEST(FleetSim, EveryWorldKeepsItsRows) {
  if (const auto seed = EnvNumber("LITHIFY_SIM_SEED")) {
    std::cout << Replay(*seed);
    EXPECT_FALSE(RunIcebergWorld(*seed, false, Who::kWorkers).violation.has_value());
    return;
  }
  const uint64_t seeds = EnvNumber("LITHIFY_SIM_SEEDS").value_or(300);
  IcebergReport total;
  const auto failed = RunIcebergSeeds(1, seeds, total, Who::kWorkers);
  ASSERT_FALSE(failed.has_value()) << *total.violation << "\n" << Replay(*failed);
  const FleetCounts& fleet = total.fleet;
  std::cout << seeds << " worlds: " << total.steps << " steps, " << total.rewrites << " rewrites, "
            << total.replaces << " commits of them, " << total.retries << " retries, "
            << total.crashes << " crashes, " << total.orphans
            << " orphans; workers: " << fleet.groups << " groups, " << fleet.failures
            << " failures, " << fleet.refusals << " refusals, " << fleet.killed << " killed, "
            << fleet.lost_answers << " lost answers, " << fleet.adoptions << " adoptions, "
            << fleet.lost_adoptions << " of them unheard, " << fleet.lies << " lies, "
            << fleet.misleading << " about deletes, " << fleet.dropped << " dropped, "
            << fleet.reaped << " reaped, " << fleet.retries << " retries, " << fleet.hedges
            << " repeats\n";
  // A simulation in which nothing happens proves nothing.
  if (seeds < 100) return;
  EXPECT_GT(total.rewrites, seeds / 2);
  EXPECT_GT(fleet.groups, seeds);
  EXPECT_GT(fleet.adoptions, seeds);
  EXPECT_GT(fleet.failures, seeds / 4);
  EXPECT_GT(fleet.killed, seeds / 2);
  EXPECT_GT(fleet.retries, seeds / 8);
  EXPECT_GT(fleet.hedges, seeds / 50);
  EXPECT_GT(fleet.lies, seeds / 50);
  EXPECT_GT(fleet.misleading, seeds / 50);
  EXPECT_GT(fleet.reaped, seeds / 50);
  EXPECT_GT(fleet.lost_adoptions, seeds / 50);
  EXPECT_GT(total.crashes, seeds / 2);
}

// Worlds that found something: a worker that was restarted before its result was adopted (428), a
// job that was given up while a result of it was looked at (526), deletes that were expired while
// workers were slow (891).
TEST(FleetSim, WorldsThatFoundSomething) {
  for (const uint64_t seed : {428, 526, 891}) {
    const IcebergReport report = RunIcebergWorld(seed, false, Who::kWorkers);
    EXPECT_FALSE(report.violation.has_value()) << Replay(seed);
  }
}

// The same seed must give the same world, or no failure could be replayed.
TEST(FleetSim, IsDeterministic) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const IcebergReport one = RunIcebergWorld(seed, true, Who::kWorkers);
    const IcebergReport two = RunIcebergWorld(seed, true, Who::kWorkers);
    EXPECT_EQ(one.trace, two.trace) << "seed " << seed;
    EXPECT_GT(one.trace.size(), 100U);
  }
}

}  // namespace
}  // namespace lithify::sim
