// Seeded simulation of the hive job (issue 3; T20, T22-T25, T27, H1-H4, H7; R235-R240, R306, R310).
// LITHIFY_SIM_SEEDS: how many seeds; LITHIFY_SIM_SEED: only this one, with its trace.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string_view>

#include "env_number.h"
#include "hive_world.h"

namespace lithify::sim {
namespace {

std::string Replay(uint64_t seed) {
  const WorldReport report = RunWorld(seed, true);
  std::string text = "seed " + std::to_string(seed) + ": " +
                     report.violation.value_or("no violation") +
                     "\nreplay with LITHIFY_SIM_SEED=" + std::to_string(seed) + "\n";
  const size_t shown = std::min<size_t>(report.trace.size(), 400);
  for (size_t i = report.trace.size() - shown; i < report.trace.size(); ++i) {
    text += report.trace[i] + "\n";
  }
  return text;
}

TEST(HiveSim, EveryWorldKeepsItsRows) {
  if (const auto seed = EnvNumber("LITHIFY_SIM_SEED")) {
    const std::string text = Replay(*seed);
    std::cout << text;
    EXPECT_FALSE(RunWorld(*seed, false).violation.has_value());
    return;
  }
  const uint64_t seeds = EnvNumber("LITHIFY_SIM_SEEDS").value_or(300);
  WorldReport total;
  const auto failed = RunSeeds(1, seeds, total);
  ASSERT_FALSE(failed.has_value()) << Replay(*failed);
  std::cout << seeds << " worlds: " << total.steps << " steps, " << total.generations
            << " generations, " << total.swaps << " swaps, " << total.adoptions << " adoptions, "
            << total.fences << " fenced files, " << total.crashes << " crashes, "
            << total.unknown_outcomes << " unknown outcomes, " << total.lost_races
            << " lost races, " << total.claimed << " passed over for claims, " << total.reads
            << " reads\n";
  // A simulation in which nothing happens proves nothing.
  if (seeds < 100) return;
  EXPECT_GT(total.swaps, seeds);
  EXPECT_GT(total.adoptions, seeds / 4);
  EXPECT_GT(total.fences, seeds / 20);
  EXPECT_GT(total.crashes, seeds / 2);
  EXPECT_GT(total.unknown_outcomes, seeds / 2);
  EXPECT_GT(total.lost_races, seeds / 20);
  EXPECT_GT(total.claimed, seeds / 20);
}

// The same seed must give the same world, or no failure could be replayed.
TEST(HiveSim, IsDeterministic) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const WorldReport one = RunWorld(seed, true);
    const WorldReport two = RunWorld(seed, true);
    EXPECT_EQ(one.trace, two.trace) << "seed " << seed;
    EXPECT_GT(one.trace.size(), 100U);
  }
}

}  // namespace
}  // namespace lithify::sim
