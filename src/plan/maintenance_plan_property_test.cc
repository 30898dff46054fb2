// What must hold of the choice for any candidates, budgets and rates.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/draw.h"
#include "base/text.h"
#include "plan/maintenance_plan.h"

namespace lithify::plan {
namespace {

constexpr double kDay = 86'400;
using Result = MaintenanceOutcome::Result;

class Draw : public lithify::Draw {
 public:
  using lithify::Draw::Draw;
  // Of any magnitude between the two.
  double Spread(double low, double high) { return low * std::pow(high / low, Unit()); }
};

std::vector<MaintenanceCandidate> DrawCandidates(Draw& draw) {
  std::vector<MaintenanceCandidate> candidates;
  const int64_t tables = draw.Between(1, 8);
  for (int64_t t = 0; t < tables; ++t) {
    const int64_t partitions = draw.Between(1, draw.OneIn(3) ? 20 : 3);
    for (int64_t p = 0; p < partitions; ++p) {
      MaintenanceCandidate c;
      c.name_space = "ns" + std::to_string(t % 3);
      c.table = "t" + std::to_string(t);
      c.partition = "p" + std::to_string(p);
      c.files_in = draw.OneIn(10) ? 0 : draw.Between(2, 500);
      c.bytes_in = c.files_in * static_cast<int64_t>(draw.Spread(1e3, 1e9));
      c.outputs = draw.Between(1, std::max<int64_t>(1, c.files_in / 2));
      c.again_bytes = draw.OneIn(2) ? c.bytes_in : 0;
      if (draw.OneIn(3)) {
        c.delete_files = draw.Between(1, 100);
        c.delete_rows = draw.Between(1, 10'000'000);
      }
      if (!draw.OneIn(3)) {
        c.read_days = 7;
        c.reads = draw.OneIn(5) ? 0 : draw.Spread(0.1, 1e4);
      }
      if (!draw.OneIn(3)) c.commits_per_hour = draw.Spread(1e-3, 1e4);
      if (draw.OneIn(2)) c.append_share = draw.OneIn(2) ? 1 : 0.5;
      if (draw.OneIn(2)) c.files_per_hour = draw.OneIn(2) ? 0 : draw.Spread(1e-3, 1e3);
      if (draw.OneIn(2)) c.seconds_since_write = draw.Spread(1, 1e7);
      if (draw.OneIn(2)) c.seconds_since_compaction = draw.Spread(1, 1e7);
      if (draw.OneIn(4)) c.seconds_to_expiry = draw.Spread(1, 1e7);
      if (draw.OneIn(4)) c.read_life_days = draw.Spread(0.1, 1e3);
      if (draw.OneIn(3)) {
        c.files_per_key = FilesPerKey{.before = draw.Spread(1, 100), .after = draw.Spread(1, 100)};
      }
      c.waiting_seconds = draw.OneIn(2) ? 0 : draw.Spread(1, 1e7);
      if (draw.OneIn(20)) c.backing_off_seconds = 60;
      if (draw.OneIn(20)) c.breaker = "open";
      candidates.push_back(c);
    }
  }
  return candidates;
}

MaintenanceBudget DrawBudget(Draw& draw) {
  MaintenanceBudget budget;
  if (draw.OneIn(2)) budget.bytes = static_cast<int64_t>(draw.Spread(1e6, 1e12));
  if (draw.OneIn(2)) budget.seconds = draw.Spread(0.1, 1e4);
  if (draw.OneIn(3)) budget.commits = draw.Between(1, 5);
  return budget;
}

MaintenanceOptions DrawOptions(Draw& draw) {
  MaintenanceOptions options;
  options.per_run = DrawBudget(draw);
  if (draw.OneIn(2)) options.per_namespace = DrawBudget(draw);
  if (draw.OneIn(2)) options.of_namespace["ns1"] = DrawBudget(draw);
  options.threshold = draw.OneIn(2) ? 1 : draw.Spread(0.01, 100);
  options.overdue_share = draw.OneIn(3) ? 0 : draw.OneIn(2) ? 0.05 : 1;
  options.model.threads = static_cast<int>(draw.Between(1, 16));
  options.model.partitions_at_once = static_cast<int>(draw.Between(1, 8));
  return options;
}

MaintenancePriors DrawPriors(Draw& draw) {
  MaintenancePriors priors;
  if (draw.OneIn(2)) priors.conflict_share = draw.Spread(0.001, 1);
  if (draw.OneIn(2)) priors.seconds_per_commit = draw.Spread(0.1, 100);
  if (draw.OneIn(2)) priors.read_seconds_per_file = draw.Spread(0.001, 1);
  if (draw.OneIn(2)) priors.overdue_credit = draw.Spread(0.01, 1);
  return priors;
}

struct Spent {
  int64_t bytes = 0;
  double seconds = 0;
  int64_t commits = 0;
};

bool Within(const Spent& spent, const MaintenanceBudget& budget) {
  return (budget.bytes == 0 || spent.bytes <= budget.bytes) &&
         (budget.seconds == 0 || spent.seconds <= budget.seconds * (1 + 1e-9)) &&
         (budget.commits == 0 || spent.commits <= budget.commits);
}

// What is broken, or nothing.
std::string CheckPlan(const std::vector<MaintenanceCandidate>& candidates,
                      const MaintenanceOptions& options, const MaintenancePriors& priors,
                      const MaintenancePlan& plan) {
  if (plan.decisions.size() != candidates.size()) return "not one decision per candidate";
  std::map<std::string, Spent> spent;
  Spent all;
  std::vector<int> jobs_of(candidates.size(), 0);
  for (const MaintenanceJob& job : plan.jobs) {
    if (job.candidates.empty()) return "an empty job";
    Spent mine{.bytes = 0, .seconds = priors.seconds_per_commit, .commits = 1};
    for (const size_t at : job.candidates) {
      if (candidates[at].table != job.table || candidates[at].name_space != job.name_space) {
        return "a job of two tables";
      }
      ++jobs_of[at];
      mine.bytes += candidates[at].bytes_in;
      mine.seconds += plan.decisions[at].compute_seconds;
    }
    if (std::abs(mine.seconds - job.compute_seconds) > 1e-6 * mine.seconds ||
        mine.bytes != job.bytes) {
      return "wrong sums";
    }
    if (!(job.survival >= 0 && job.survival <= 1)) return "a survival that is none";
    if (job.score < options.threshold * (1 - 1e-6)) {
      return "a job that does not pay: " + std::to_string(job.score);
    }
    for (Spent* sum : {&all, &spent[job.name_space]}) {
      sum->bytes += mine.bytes;
      sum->seconds += mine.seconds;
      ++sum->commits;
    }
  }
  if (!Within(all, options.per_run)) return "over the run's budget";
  for (const auto& [name, sum] : spent) {
    const auto own = options.of_namespace.find(name);
    if (!Within(sum, own == options.of_namespace.end() ? options.per_namespace : own->second)) {
      return "over the budget of " + name;
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    const MaintenanceDecision& decision = plan.decisions[i];
    const bool runs = decision.verdict == MaintenanceVerdict::kRun;
    if (decision.reason.empty()) return "no reason";
    if (jobs_of[i] != (runs ? 1 : 0)) return "verdict and jobs disagree";
    if (runs && decision.score < options.threshold * (1 - 1e-6)) {
      return "runs below the threshold: " + candidates[i].table + " " + decision.reason;
    }
    if (!std::isfinite(decision.score)) return "a score that is none";
  }
  return "";
}

using Identity = std::tuple<std::string, std::string, std::string>;
Identity IdentityOf(const MaintenanceCandidate& c) { return {c.name_space, c.table, c.partition}; }

constexpr uint64_t kSeeds = 3000;

TEST(MaintenancePlanProperty, BudgetsAreStrictAndEachCandidateHasOneVerdict) {
  int runs = 0;
  std::map<MaintenanceVerdict, int> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    const auto candidates = DrawCandidates(draw);
    const MaintenanceOptions options = DrawOptions(draw);
    const MaintenancePriors priors = DrawPriors(draw);
    ASSERT_TRUE(CheckMaintenanceOptions(options)) << "seed " << seed;
    const MaintenancePlan plan = PlanMaintenance(candidates, options, priors);
    ASSERT_EQ(CheckPlan(candidates, options, priors, plan), "") << "seed " << seed;
    runs += static_cast<int>(plan.jobs.size());
    for (const MaintenanceDecision& decision : plan.decisions) ++seen[decision.verdict];
  }
  EXPECT_GT(runs, static_cast<int>(kSeeds));
  EXPECT_EQ(seen.size(), 12U) << "a verdict that never comes";
}

TEST(MaintenancePlanProperty, TheOrderOfTheInputDoesNotMatter) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    const auto candidates = DrawCandidates(draw);
    const MaintenanceOptions options = DrawOptions(draw);
    const MaintenancePriors priors = DrawPriors(draw);
    auto shuffled = candidates;
    for (size_t i = shuffled.size(); i > 1; --i) {
      std::swap(shuffled[i - 1],
                shuffled[static_cast<size_t>(draw.Between(0, static_cast<int64_t>(i) - 1))]);
    }
    const MaintenancePlan a = PlanMaintenance(candidates, options, priors);
    const MaintenancePlan b = PlanMaintenance(shuffled, options, priors);
    std::map<Identity, const MaintenanceDecision*> by_name;
    for (size_t i = 0; i < candidates.size(); ++i) {
      by_name[IdentityOf(candidates[i])] = &a.decisions[i];
    }
    for (size_t i = 0; i < shuffled.size(); ++i) {
      const MaintenanceDecision& other = *by_name.at(IdentityOf(shuffled[i]));
      ASSERT_EQ(b.decisions[i].verdict, other.verdict) << "seed " << seed;
      ASSERT_EQ(b.decisions[i].reason, other.reason) << "seed " << seed;
      ASSERT_EQ(b.decisions[i].rank, other.rank) << "seed " << seed;
    }
    ASSERT_EQ(a.jobs.size(), b.jobs.size());
    for (size_t i = 0; i < a.jobs.size(); ++i) {
      ASSERT_EQ(a.jobs[i].table, b.jobs[i].table) << "seed " << seed;
      ASSERT_EQ(a.jobs[i].candidates.size(), b.jobs[i].candidates.size()) << "seed " << seed;
    }
  }
}

TEST(MaintenancePlanProperty, MoreReadsNeverRankLower) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    auto candidates = DrawCandidates(draw);
    const MaintenanceOptions options = DrawOptions(draw);
    const MaintenancePriors priors = DrawPriors(draw);
    const MaintenancePlan before = PlanMaintenance(candidates, options, priors);
    const auto at =
        static_cast<size_t>(draw.Between(0, static_cast<int64_t>(candidates.size()) - 1));
    candidates[at].reads = candidates[at].reads * draw.Spread(1, 100) + draw.Spread(0.01, 100);
    const MaintenancePlan after = PlanMaintenance(candidates, options, priors);
    const int64_t was = before.decisions[at].rank;
    const int64_t is = after.decisions[at].rank;
    ASSERT_TRUE(was == 0 || (is > 0 && is <= was)) << "seed " << seed;
    // And never less of it is worth it, where no budget interferes.
    MaintenanceOptions free = options;
    free.per_run = free.per_namespace = {};
    free.of_namespace.clear();
    const MaintenancePlan all = PlanMaintenance(candidates, free, priors);
    if (before.decisions[at].verdict == MaintenanceVerdict::kRun) {
      ASSERT_EQ(all.decisions[at].verdict, MaintenanceVerdict::kRun) << "seed " << seed;
    }
  }
}

// Shrinks to a small counterexample. A poor candidate that is worth it, in runs that better ones
// fill: its turn comes when it is overdue and has saved up for what it costs.
TEST(MaintenancePlanProperty, NobodyStarves) {
  EXPECT_TRUE(rc::check("runs in time", [](uint8_t size, uint8_t share, uint8_t rich) {
    MaintenanceOptions options;
    options.per_run.seconds = 30;
    options.overdue_share = (1 + share % 20) / 100.0;
    MaintenancePriors priors;
    MaintenanceCandidate poor;
    poor.table = "poor";
    poor.files_in = 10;
    poor.outputs = 1;
    poor.reads = 700;
    poor.read_days = 7;
    poor.commits_per_hour = 0;
    poor.files_per_hour = 0;
    poor.bytes_in = (1 + size % 25) * kBytesPerSecondPerThread;  // 3 to 28 s with the commit.
    int run = 0;
    const int due = 7 + static_cast<int>(std::ceil(1 / options.overdue_share)) + 1;
    for (;; ++run) {
      RC_ASSERT(run <= due);
      std::vector<MaintenanceCandidate> candidates{poor};
      candidates[0].waiting_seconds = run * kDay;
      for (int i = 0; i < 20 + rich % 20; ++i) {
        candidates.push_back(poor);
        candidates.back().table = "rich" + std::to_string(i);
        candidates.back().reads = 1e9;
        candidates.back().bytes_in = kBytesPerSecondPerThread / 10;
      }
      const MaintenancePlan plan = PlanMaintenance(candidates, options, priors);
      priors.overdue_credit = plan.overdue_credit;
      if (plan.decisions[0].verdict == MaintenanceVerdict::kRun) break;
    }
    RC_ASSERT(run > 7);  // And not before: the others were better.
  }));
}

TEST(MaintenancePlanProperty, WhateverHappensRatesStayInRange) {
  const auto prior = PriorsToNumbers({});
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    MaintenancePriors priors;
    for (int i = 0; i < 50; ++i) {
      MaintenanceOutcome outcome;
      outcome.result = draw.OneIn(3) ? Result::kConflict : Result::kCommitted;
      outcome.partitions = draw.Between(-1, 100);
      outcome.files = draw.Between(-1, 10'000);
      outcome.bytes = draw.Between(-1, int64_t{1} << 50);
      outcome.compute_seconds = draw.OneIn(10) ? std::nan("") : draw.Spread(1e-9, 1e12);
      outcome.wall_seconds = draw.Spread(1e-9, 1e12);
      outcome.commits_per_hour = draw.Spread(1e-9, 1e12);
      outcome.files_removed = draw.Between(-1, 1000);
      if (draw.OneIn(2)) outcome.saved_per_read = draw.Spread(1e-9, 1e9) - 1e-3;
      outcome.predicted_reads = draw.Spread(1e-9, 1e9);
      if (draw.OneIn(2)) outcome.actual_reads = draw.Spread(1e-9, 1e9);
      priors = Calibrate(priors, outcome);
    }
    for (const auto& [name, value] : PriorsToNumbers(priors)) {
      if (name == "outcomes" || name == "overdue_credit") continue;
      ASSERT_TRUE(value >= prior.at(name) / kPriorRange * (1 - 1e-9) &&
                  value <= prior.at(name) * kPriorRange * (1 + 1e-9))
          << name << " " << value << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lithify::plan
