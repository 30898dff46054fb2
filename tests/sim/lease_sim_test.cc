// Seeded simulation of coordinators with and without leases (R142-R152, R292-R296).
// LITHIFY_SIM_SEEDS: how many seeds of each kind; LITHIFY_SIM_SEED: only this one, with its trace.

#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "env_number.h"
#include "lease_world.h"

namespace lithify::sim {
namespace {

uint64_t Seeds() { return EnvNumber("LITHIFY_SIM_SEEDS").value_or(60); }

std::string Replay(LeaseKind kind, uint64_t seed) {
  const LeaseReport report = RunLeaseWorld(kind, seed, true);
  std::string text = "seed " + std::to_string(seed) + ": " +
                     report.violation.value_or("no violation") +
                     "\nreplay with LITHIFY_SIM_SEED=" + std::to_string(seed) + "\n";
  const size_t shown = std::min<size_t>(report.trace.size(), 400);
  for (size_t i = report.trace.size() - shown; i < report.trace.size(); ++i) {
    text += report.trace[i] + "\n";
  }
  return text;
}

LeaseReport RunAll(LeaseKind kind, const char* name) {
  LeaseReport total;
  if (const auto seed = EnvNumber("LITHIFY_SIM_SEED")) {
    std::cout << Replay(kind, *seed);
    EXPECT_FALSE(RunLeaseWorld(kind, *seed, false).violation.has_value());
    return total;
  }
  const auto failed = RunLeaseSeeds(kind, 1, Seeds(), total);
  EXPECT_FALSE(failed.has_value()) << *total.violation << "\n" << Replay(kind, *failed);
  std::cout << name << ", " << Seeds() << " worlds: " << total.steps << " steps, " << total.acquired
            << " acquired, " << total.reacquired << " again, " << total.stolen << " stolen, "
            << total.held << " held, " << total.lost << " lost, " << total.errors << " errors, "
            << total.jobs << " jobs, " << total.overlapping << " overlapping, " << total.commits
            << " commits, " << total.wasted << " wasted, " << total.unknown_outcomes
            << " unknown outcomes, " << total.late_commits << " late commits, " << total.crashes
            << " crashes\n";
  return total;
}

bool Enough() { return Seeds() >= 50 && !EnvNumber("LITHIFY_SIM_SEED"); }

TEST(LeaseSim, R142AtMostOneHolderAtAnyMoment) {
  const LeaseReport total = RunAll(LeaseKind::kCatalog, "catalog");
  // A simulation in which nothing happens proves nothing.
  if (!Enough()) return;
  EXPECT_GT(total.acquired, Seeds() * 2);
  EXPECT_GT(total.held, Seeds() / 2);
  EXPECT_GT(total.stolen, Seeds() / 4);
  EXPECT_GT(total.lost, Seeds() / 20);
  EXPECT_GT(total.errors, Seeds() / 10);
  EXPECT_GT(total.commits, Seeds());
  EXPECT_GT(total.crashes, Seeds() / 4);
  EXPECT_GT(total.unknown_outcomes, Seeds() / 4);
  EXPECT_GT(total.late_commits, 0u);
}

// R143, R145, R292, R294: whatever the lease says, the table is right.
TEST(LeaseSim, R145NothingDependsOnIt) {
  for (const auto& [kind, name] :
       {std::pair(LeaseKind::kNone, "none"), std::pair(LeaseKind::kFailing, "failing"),
        std::pair(LeaseKind::kLying, "lying")}) {
    const LeaseReport total = RunAll(kind, name);
    if (!Enough()) continue;
    EXPECT_GT(total.jobs, Seeds() * 4);
    EXPECT_GT(total.overlapping, Seeds());
    EXPECT_GT(total.commits, Seeds());
    EXPECT_GT(total.wasted, Seeds() / 4);
    EXPECT_EQ(total.held + total.lost + total.stolen, 0u);
  }
}

// The same seed must give the same world, or no failure could be replayed.
TEST(LeaseSim, IsDeterministic) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const LeaseReport one = RunLeaseWorld(LeaseKind::kCatalog, seed, true);
    const LeaseReport two = RunLeaseWorld(LeaseKind::kCatalog, seed, true);
    EXPECT_EQ(one.trace, two.trace) << "seed " << seed;
    EXPECT_GT(one.trace.size(), 50u);
  }
}

}  // namespace
}  // namespace lithify::sim
