// Seeded simulation of the Iceberg job (issue 4; I1, I4-I6, I8-I11, I14, I15, I22, I26, I27, I30;
// T1, T5-T8, T12-T14, T31-T33; R115-R121, R302).
// LITHIFY_SIM_SEEDS: how many seeds; LITHIFY_SIM_SEED: only this one, with its trace.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>

#include "env_number.h"
#include "iceberg_world.h"

namespace lithify::sim {
namespace {

std::string Replay(uint64_t seed) {
  const IcebergReport report = RunIcebergWorld(seed, true);
  std::string text = "seed " + std::to_string(seed) + ": " +
                     report.violation.value_or("no violation") +
                     "\nreplay with LITHIFY_SIM_SEED=" + std::to_string(seed) + "\n";
  const size_t shown = std::min<size_t>(report.trace.size(), 600);
  for (size_t i = report.trace.size() - shown; i < report.trace.size(); ++i) {
    text += report.trace[i] + "\n";
  }
  return text;
}

TEST(IcebergSim, EveryWorldKeepsItsRows) {
  if (const auto seed = EnvNumber("LITHIFY_SIM_SEED")) {
    std::cout << Replay(*seed);
    EXPECT_FALSE(RunIcebergWorld(*seed, false).violation.has_value());
    return;
  }
  const uint64_t seeds = EnvNumber("LITHIFY_SIM_SEEDS").value_or(150);
  IcebergReport total;
  const auto failed = RunIcebergSeeds(1, seeds, total);
  ASSERT_FALSE(failed.has_value()) << *total.violation << "\n" << Replay(*failed);
  std::cout << seeds << " worlds: " << total.steps << " steps, " << total.commits << " commits, "
            << total.replaces << " of lithify, " << total.rewrites << " rewrites, " << total.retries
            << " retries, " << total.lost_races << " lost races, " << total.unknown_outcomes
            << " unknown outcomes, " << total.late_commits << " late commits, " << total.crashes
            << " crashes, " << total.snapshots_expired << " snapshots and " << total.files_expired
            << " files expired, " << total.orphans << " orphans\n";
  // A simulation in which nothing happens proves nothing.
  if (seeds < 100) return;
  EXPECT_GT(total.rewrites, seeds);
  EXPECT_GT(total.retries, seeds / 10);
  EXPECT_GT(total.lost_races, seeds);
  EXPECT_GT(total.unknown_outcomes, seeds / 2);
  EXPECT_GT(total.late_commits, seeds / 50);
  EXPECT_GT(total.crashes, seeds / 2);
  EXPECT_GT(total.snapshots_expired, seeds);
  EXPECT_GT(total.files_expired, seeds);
  EXPECT_GT(total.orphans, seeds / 2);
}

// The same seed must give the same world, or no failure could be replayed.
TEST(IcebergSim, IsDeterministic) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const IcebergReport one = RunIcebergWorld(seed, true);
    const IcebergReport two = RunIcebergWorld(seed, true);
    EXPECT_EQ(one.trace, two.trace) << "seed " << seed;
    EXPECT_GT(one.trace.size(), 100U);
  }
}

}  // namespace
}  // namespace lithify::sim
