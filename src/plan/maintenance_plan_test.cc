#include "plan/maintenance_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/text.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

using iceberg::DeleteIndex;
using testing::ElementsAre;
using testing::HasSubstr;
using MV = MaintenanceVerdict;

constexpr double kDay = 86'400;

// Round numbers: a candidate of 1 file and 0 bytes costs 1 s, a commit 1 s, an open file 1 s.
MaintenancePriors RoundPriors() {
  MaintenancePriors priors;
  priors.seconds_per_byte = 1.0 / static_cast<double>(kMiB);
  priors.seconds_per_file = 1e-9;
  priors.seconds_per_partition = 1;
  priors.seconds_per_commit = 1;
  priors.read_seconds_per_file = 1;
  priors.read_seconds_per_delete_row = 0.001;
  priors.read_seconds_per_delete_file = 1;
  priors.life_days = 10;
  return priors;
}

// Saves 9 s a read; nobody writes.
MaintenanceCandidate Candidate(const std::string& table, const std::string& partition,
                               double reads_per_day) {
  MaintenanceCandidate candidate;
  candidate.name_space = "ns";
  candidate.table = table;
  candidate.partition = partition;
  candidate.files_in = 10;
  candidate.outputs = 1;
  candidate.reads = reads_per_day * 1e6;  // A log so long that the prior does not count.
  candidate.read_days = 1e6;
  candidate.commits_per_hour = 0;
  candidate.files_per_hour = 0;
  return candidate;
}

MaintenanceDecision Decide(const MaintenanceCandidate& candidate,
                           const MaintenanceOptions& options = {}) {
  return PlanMaintenance({candidate}, options, RoundPriors()).decisions.at(0);
}

std::vector<MV> Verdicts(const MaintenancePlan& plan) {
  std::vector<MV> verdicts;
  for (const MaintenanceDecision& decision : plan.decisions) verdicts.push_back(decision.verdict);
  return verdicts;
}

// --- the score -----------------------------------------------------------------------------------

TEST(PlanMaintenance, SecondsSavedPerSecondSpent) {
  const MaintenanceDecision decision = Decide(Candidate("t", "p", 2));
  EXPECT_EQ(decision.verdict, MV::kRun);
  EXPECT_EQ(decision.reason, "saves 90.0 s of queries per s of work; threshold 1.0");
  EXPECT_NEAR(decision.saved_per_read, 9, 1e-9);
  EXPECT_NEAR(decision.reads_per_day, 2, 1e-5);
  EXPECT_NEAR(decision.life_days, 10, 1e-9);
  EXPECT_NEAR(decision.expected_saved_seconds, 180, 1e-3);
  EXPECT_NEAR(decision.compute_seconds, 1, 1e-6);
  EXPECT_EQ(decision.rank, 1);
}

TEST(PlanMaintenance, DoingNothingWinsWhereItShould) {
  const MaintenanceDecision decision = Decide(Candidate("t", "p", 0.01));  // 0.9 s for 2 s.
  EXPECT_EQ(decision.verdict, MV::kTooLittleGain);
  EXPECT_EQ(decision.reason, "saves 0.5 s of queries per s of work; threshold 1.0");
  EXPECT_EQ(Decide(Candidate("t", "p", 0.01), {.threshold = 0.4}).verdict, MV::kRun);
  // What retention removes tomorrow is not worth what it was.
  MaintenanceCandidate expiring = Candidate("t", "p", 0.1);
  EXPECT_EQ(Decide(expiring).verdict, MV::kRun);
  expiring.seconds_to_expiry = kDay;
  EXPECT_EQ(Decide(expiring).verdict, MV::kTooLittleGain);
  EXPECT_NEAR(Decide(expiring).life_days, 1, 1e-9);
}

TEST(PlanMaintenance, WhatNobodyWillReadIsNotWorthIt) {
  MaintenanceCandidate candidate = Candidate("t", "p", 0.1);  // 9 s for 2 s in ten days.
  candidate.read_life_days = 5;
  EXPECT_EQ(Decide(candidate).verdict, MV::kRun);
  EXPECT_EQ(
      Decide(candidate).reason,
      "saves 2.3 s of queries per s of work; threshold 1.0; counted for 5.0 days, then nobody "
      "reads it any more");
  candidate.read_life_days = 1;
  EXPECT_EQ(Decide(candidate).verdict, MV::kTooLittleGain);
  EXPECT_EQ(Decide(candidate).life_bound, LifeBound::kReads);
  candidate.read_life_days = 0;
  EXPECT_EQ(Decide(candidate).expected_saved_seconds, 0);
  // The nearest bound is the one that is told.
  candidate.read_life_days = 5;
  candidate.seconds_to_expiry = 4 * kDay;
  EXPECT_THAT(Decide(candidate).reason, HasSubstr("counted for 4.0 days, then its rows expire"));
  candidate.read_life_days = 100;
  candidate.seconds_to_expiry.reset();
  EXPECT_EQ(Decide(candidate).life_bound, LifeBound::kNone);
}

TEST(PlanMaintenance, DeletesThatReadersMergeCount) {
  MaintenanceCandidate candidate = Candidate("t", "p", 1);
  candidate.outputs = 10;  // Not one file less.
  EXPECT_EQ(Decide(candidate).verdict, MV::kTooLittleGain);
  candidate.delete_rows = 2000;
  candidate.delete_files = 3;
  EXPECT_NEAR(Decide(candidate).saved_per_read, 5, 1e-9);
  EXPECT_EQ(Decide(candidate).verdict, MV::kRun);
}

TEST(PlanMaintenance, WithoutALogThePriorHolds) {
  MaintenanceCandidate candidate = Candidate("t", "p", 0);
  candidate.reads = candidate.read_days = 0;
  EXPECT_NEAR(Decide(candidate).reads_per_day, 1, 1e-9);
  candidate.read_days = 3;  // A young log says none.
  EXPECT_NEAR(Decide(candidate).reads_per_day, 0.25, 1e-9);
}

// What will be done again at the next time gains only until then.
TEST(PlanMaintenance, WorkThatIsDoneAgainGainsForOnePeriod) {
  MaintenanceCandidate candidate = Candidate("t", "p", 1);
  candidate.bytes_in = 2 * kMiB;  // 3 s of work and 1 s of commit.
  EXPECT_NEAR(Decide(candidate).life_days, 10, 1e-9);
  candidate.files_per_hour = 10;                             // As many files again in one hour.
  EXPECT_NEAR(Decide(candidate).life_days, 2.0 / 24, 1e-6);  // Half of it is spent again.
  candidate.again_bytes = 2 * kMiB;
  EXPECT_NEAR(Decide(candidate).life_days, 1.0 / 24, 1e-6);
  candidate.seconds_since_compaction = 2 * kDay;
  EXPECT_NEAR(Decide(candidate).life_days, 2, 1e-6);
}

// --- writers -------------------------------------------------------------------------------------

TEST(PlanMaintenance, AHotPartitionSaysSo) {
  MaintenanceCandidate candidate = Candidate("t", "p", 0.2);  // 18 s for 2 s.
  candidate.bytes_in = kMiB;                                  // 3 s: 6 times.
  MaintenancePriors priors = RoundPriors();
  priors.conflict_share = 0.5;
  const auto decide = [&] { return PlanMaintenance({candidate}, {}, priors).decisions.at(0); };
  candidate.commits_per_hour = 120;  // One a minute breaks it, of 3 s.
  EXPECT_NEAR(decide().survival, std::exp(-0.05), 1e-6);
  EXPECT_EQ(decide().verdict, MV::kRun);
  candidate.commits_per_hour = 7200;  // One a second.
  EXPECT_EQ(decide().verdict, MV::kHot);
  EXPECT_EQ(
      decide().reason,
      "conflicts cost more than it saves: its commit survives with 5.0 %, at 7200 commits/h "
      "that change it and 3.0 s of work; undisturbed it saves 6.0 s of queries per s of work; "
      "threshold 1.0");
  candidate.append_share = 1;  // Appends never conflict.
  EXPECT_EQ(decide().verdict, MV::kRun);
  candidate.append_share = 0;
  candidate.seconds_since_write = kDay;  // Its writers have left.
  EXPECT_EQ(decide().verdict, MV::kRun);
}

// One hot partition would break the commit of all.
TEST(PlanMaintenance, AHotPartitionIsLeftOutOfTheCommitOfOthers) {
  std::vector<MaintenanceCandidate> candidates;
  for (int i = 0; i < 50; ++i) candidates.push_back(Candidate("t", "p" + std::to_string(i), 1));
  candidates[7].commits_per_hour = 3600;  // Breaks a tenth of a second's work with 1 %.
  EXPECT_EQ(PlanMaintenance({candidates[7]}, {}, RoundPriors()).decisions[0].verdict, MV::kRun);
  const MaintenancePlan plan = PlanMaintenance(candidates, {}, RoundPriors());
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(plan.decisions[i].verdict, i == 7 ? MV::kHot : MV::kRun) << i;
  }
  EXPECT_EQ(plan.jobs.at(0).survival, 1);
}

// --- one commit ----------------------------------------------------------------------------------

TEST(PlanMaintenance, PartitionsOfATableShareTheCommit) {
  // 1.35 s for 1 s of work: not with a commit of its own, but as one of three.
  std::vector<MaintenanceCandidate> candidates{Candidate("t", "a", 0.015)};
  EXPECT_THAT(Verdicts(PlanMaintenance(candidates, {}, RoundPriors())),
              ElementsAre(MV::kTooLittleGain));
  candidates.push_back(Candidate("t", "b", 0.015));
  candidates.push_back(Candidate("t", "c", 0.015));
  const MaintenancePlan plan = PlanMaintenance(candidates, {}, RoundPriors());
  EXPECT_THAT(Verdicts(plan), ElementsAre(MV::kRun, MV::kRun, MV::kRun));
  ASSERT_EQ(plan.jobs.size(), 1);
  EXPECT_THAT(plan.jobs[0].candidates, ElementsAre(0, 1, 2));
  EXPECT_NEAR(plan.jobs[0].compute_seconds, 4, 1e-6);
  EXPECT_NEAR(plan.jobs[0].score, 4.05 / 4, 1e-4);
  candidates[2].table = "u";
  EXPECT_THAT(Verdicts(PlanMaintenance(candidates, {}, RoundPriors())),
              ElementsAre(MV::kTooLittleGain, MV::kTooLittleGain, MV::kTooLittleGain));
}

TEST(PlanMaintenance, ManifestsAreAJobOfTheirOwn) {
  MaintenanceCandidate manifests = Candidate("t", "", 1);
  manifests.kind = MaintenanceKind::kRewriteManifests;
  const MaintenancePlan plan =
      PlanMaintenance({Candidate("t", "p", 1), manifests}, {}, RoundPriors());
  ASSERT_EQ(plan.jobs.size(), 2);
  EXPECT_NE(plan.jobs[0].kind, plan.jobs[1].kind);
}

// --- budgets -------------------------------------------------------------------------------------

TEST(PlanMaintenance, TheBestGoFirstAndBudgetsAreStrict) {
  std::vector<MaintenanceCandidate> candidates{Candidate("a", "p", 1), Candidate("b", "p", 3),
                                               Candidate("c", "p", 2)};
  MaintenanceOptions options{.per_run = {.seconds = 5}};
  MaintenancePlan plan = PlanMaintenance(candidates, options, RoundPriors());
  EXPECT_THAT(Verdicts(plan), ElementsAre(MV::kOverRunSeconds, MV::kRun, MV::kRun));
  EXPECT_EQ(
      plan.decisions[0].reason,
      "saves 45.0 s of queries per s of work, but needs 2.0 s of work, and of the run's 5.0 s "
      "are left 1.0 s");
  EXPECT_EQ(plan.jobs.at(0).table, "b");
  EXPECT_EQ(plan.decisions[1].rank, 1);
  EXPECT_EQ(plan.decisions[0].rank, 3);

  options.per_run = {.commits = 1};
  plan = PlanMaintenance(candidates, options, RoundPriors());
  EXPECT_THAT(Verdicts(plan), ElementsAre(MV::kOverRunCommits, MV::kRun, MV::kOverRunCommits));
  EXPECT_THAT(plan.decisions[0].reason, HasSubstr("needs a commit, and the run's 1 are taken"));

  for (MaintenanceCandidate& candidate : candidates) candidate.bytes_in = kMiB;
  options.per_run = {.bytes = 2 * kMiB + kMiB / 2};
  plan = PlanMaintenance(candidates, options, RoundPriors());
  EXPECT_THAT(Verdicts(plan), ElementsAre(MV::kOverRunBytes, MV::kRun, MV::kRun));
  EXPECT_THAT(plan.decisions[0].reason,
              HasSubstr("needs 1.0 MiB, and of the run's 2.5 MiB are left 512.0 KiB"));
}

TEST(PlanMaintenance, EachNamespaceHasItsOwnBudget) {
  std::vector<MaintenanceCandidate> candidates{Candidate("a", "p", 1), Candidate("b", "p", 3),
                                               Candidate("c", "p", 2), Candidate("d", "p", 1)};
  candidates[2].name_space = candidates[3].name_space = "other";
  MaintenanceOptions options;
  options.per_namespace.commits = 1;
  EXPECT_THAT(
      Verdicts(PlanMaintenance(candidates, options, RoundPriors())),
      ElementsAre(MV::kOverNamespaceCommits, MV::kRun, MV::kRun, MV::kOverNamespaceCommits));
  options.of_namespace["other"] = {.seconds = 1.5};
  EXPECT_THAT(Verdicts(PlanMaintenance(candidates, options, RoundPriors())),
              ElementsAre(MV::kOverNamespaceCommits, MV::kRun, MV::kOverNamespaceSeconds,
                          MV::kOverNamespaceSeconds));
}

// What does not fit lets smaller ones through.
TEST(PlanMaintenance, ALargeOneThatDoesNotFitDoesNotBlock) {
  MaintenanceCandidate large = Candidate("a", "p", 1000);
  large.bytes_in = 100 * kMiB;
  const MaintenanceOptions options{.per_run = {.seconds = 10}};
  EXPECT_THAT(Verdicts(PlanMaintenance({large, Candidate("b", "p", 1)}, options, RoundPriors())),
              ElementsAre(MV::kOverRunSeconds, MV::kRun));
}

// A small one that better ones displace in each run gets its turn, and a large one saves up for it.
TEST(PlanMaintenance, TheOverdueSaveUpForTheirTurn) {
  MaintenanceCandidate poor = Candidate("poor", "p", 0.1);
  poor.bytes_in = 6 * kMiB;  // 8 s with the commit.
  poor.waiting_seconds = 8 * kDay;
  std::vector<MaintenanceCandidate> candidates{poor};
  for (int i = 0; i < 10; ++i) candidates.push_back(Candidate("t" + std::to_string(i), "p", 1000));
  MaintenanceOptions options{.per_run = {.seconds = 16.01}, .overdue_share = 0.25};
  MaintenancePriors priors = RoundPriors();
  MaintenancePlan plan = PlanMaintenance(candidates, options, priors);
  EXPECT_EQ(plan.decisions[0].verdict, MV::kOverRunSeconds);
  EXPECT_NEAR(plan.overdue_credit, 0.25, 1e-9);
  priors.overdue_credit = plan.overdue_credit;
  plan = PlanMaintenance(candidates, options, priors);
  EXPECT_EQ(plan.decisions[0].verdict, MV::kRun);
  EXPECT_NEAR(plan.overdue_credit, 0, 1e-3);
  EXPECT_EQ(plan.jobs.size(), 5);  // The rest of the budget goes to the best.
  options.overdue_share = 0;
  EXPECT_EQ(PlanMaintenance(candidates, options, priors).decisions[0].verdict, MV::kOverRunSeconds);
  candidates[0].waiting_seconds = 6 * kDay;
  options.overdue_share = 0.25;
  EXPECT_EQ(PlanMaintenance(candidates, options, priors).decisions[0].verdict, MV::kOverRunSeconds);
}

TEST(PlanMaintenance, TheCallersStateComesFirst) {
  MaintenanceCandidate broken = Candidate("a", "p", 9);
  broken.breaker = "3 failures in a row, the last one: no space";
  MaintenanceCandidate later = Candidate("b", "p", 9);
  later.backing_off_seconds = 340;
  MaintenanceCandidate nothing = Candidate("c", "p", 9);
  nothing.files_in = 0;
  nothing.planner_reason = "3 candidates, min_input_files is 5";
  const MaintenancePlan plan = PlanMaintenance({broken, later, nothing}, {}, RoundPriors());
  EXPECT_THAT(Verdicts(plan), ElementsAre(MV::kBreakerOpen, MV::kBackingOff, MV::kNothingPlanned));
  EXPECT_EQ(plan.decisions[0].reason,
            "the breaker of the table is open: 3 failures in a row, the last one: no space");
  EXPECT_EQ(plan.decisions[1].reason, "not before 5 min 40 s");
  EXPECT_EQ(plan.decisions[2].reason, "3 candidates, min_input_files is 5");
  for (const MaintenanceDecision& decision : plan.decisions) EXPECT_EQ(decision.rank, 0);
  EXPECT_TRUE(plan.jobs.empty());
}

TEST(PlanMaintenance, NumbersThatAreNoneCountAsZero) {
  MaintenanceCandidate candidate = Candidate("t", "p", 1);
  candidate.reads = std::numeric_limits<double>::quiet_NaN();
  candidate.commits_per_hour = -1;
  candidate.waiting_seconds = std::numeric_limits<double>::infinity();
  candidate.bytes_in = -5;
  const MaintenanceDecision decision = Decide(candidate);
  EXPECT_EQ(decision.verdict, MV::kTooLittleGain);
  EXPECT_TRUE(std::isfinite(decision.score));
}

TEST(CheckMaintenanceOptions, NamesTheOption) {
  EXPECT_TRUE(CheckMaintenanceOptions({}));
  MaintenanceOptions options;
  options.threshold = 0;
  EXPECT_THAT(CheckMaintenanceOptions(options).error().ToString(), HasSubstr("threshold"));
  options = {};
  options.overdue_share = 1.5;
  EXPECT_THAT(CheckMaintenanceOptions(options).error().ToString(), HasSubstr("overdue_share"));
  options = {};
  options.of_namespace["x"].seconds = -1;
  EXPECT_THAT(CheckMaintenanceOptions(options).error().ToString(), HasSubstr("namespace x"));
}

// --- learning ------------------------------------------------------------------------------------

MaintenanceOutcome OutcomeOf(int64_t bytes, double seconds) {
  MaintenanceOutcome outcome;
  outcome.partitions = 1;
  outcome.files = 10;
  outcome.bytes = bytes;
  outcome.compute_seconds = seconds;
  outcome.wall_seconds = seconds;
  outcome.files_removed = 9;
  return outcome;
}

// Small and large jobs tell the fixed cost from the rate.
TEST(Calibrate, FindsTheRates) {
  const auto truth = [](double mib) { return 0.1 + 6 + 0.05 * mib; };
  MaintenancePriors priors;
  for (int i = 0; i < 300; ++i) {
    const int mib = i % 2 == 0 ? 1 : 4000;
    priors = Calibrate(priors, OutcomeOf(mib * kMiB, truth(mib)));
  }
  for (const int mib : {1, 100, 4000}) {
    EXPECT_NEAR(PredictedComputeSeconds(priors, OutcomeOf(mib * kMiB, 0)) / truth(mib), 1, 0.1);
  }
  EXPECT_NEAR(priors.seconds_per_byte * static_cast<double>(kMiB), 0.05, 0.005);
  EXPECT_EQ(priors.outcomes, 300);
  EXPECT_EQ(priors.conflict_share, MaintenancePriors{}.conflict_share);  // Nobody wrote.
}

TEST(Calibrate, OneOutlierMovesLittleAndNothingLeavesItsRange) {
  const MaintenancePriors before;
  MaintenancePriors after = Calibrate(before, OutcomeOf(kGiB, 1e9));
  const double ratio = PredictedComputeSeconds(after, OutcomeOf(kGiB, 0)) /
                       PredictedComputeSeconds(before, OutcomeOf(kGiB, 0));
  EXPECT_GT(ratio, 1.5);
  EXPECT_LT(ratio, 3);
  for (int i = 0; i < 1000; ++i) after = Calibrate(after, OutcomeOf(kGiB, 1e9));
  EXPECT_LE(after.seconds_per_byte, before.seconds_per_byte * kPriorRange);
  for (int i = 0; i < 1000; ++i) after = Calibrate(after, OutcomeOf(kGiB, 1e-9));
  EXPECT_GE(after.seconds_per_byte, before.seconds_per_byte / kPriorRange);
}

TEST(Calibrate, AFailureTeachesNothing) {
  MaintenanceOutcome outcome = OutcomeOf(kGiB, 1000);
  outcome.result = MaintenanceOutcome::Result::kFailed;
  EXPECT_EQ(PriorsToNumbers(Calibrate({}, outcome)), PriorsToNumbers({}));
}

// Every third of jobs with two commits each is broken: 1 - exp(-2 share) = 1/3.
TEST(Calibrate, FindsTheConflictShare) {
  MaintenancePriors priors;
  MaintenanceOutcome outcome = OutcomeOf(kGiB, 3600);
  outcome.compute_seconds = 0;
  outcome.commits_per_hour = 2;
  double sum = 0;
  for (int i = 0; i < 3000; ++i) {
    outcome.result =
        i % 3 == 0 ? MaintenanceOutcome::Result::kConflict : MaintenanceOutcome::Result::kCommitted;
    priors = Calibrate(priors, outcome);
    if (i >= 1500) sum += priors.conflict_share / 1500;
  }
  EXPECT_NEAR(sum, 0.2, 0.02);
}

TEST(Calibrate, FindsWhatReadersPay) {
  MaintenancePriors priors;
  MaintenanceOutcome outcome = OutcomeOf(kGiB, 0);
  outcome.saved_per_read = 9 * 0.08;
  outcome.predicted_reads = 100;
  outcome.actual_reads = 50;
  priors = Calibrate(priors, outcome);
  EXPECT_LT(priors.reads_factor, 1);
  for (int i = 0; i < 100; ++i) priors = Calibrate(priors, outcome);
  EXPECT_NEAR(PredictedSavedPerRead(priors, outcome), 9 * 0.08, 0.01);
}

TEST(Priors, SurviveARestart) {
  MaintenancePriors priors = Calibrate({}, OutcomeOf(kGiB, 100));
  priors.overdue_credit = 0.5;
  const auto numbers = PriorsToNumbers(priors);
  EXPECT_EQ(PriorsToNumbers(PriorsFromNumbers(numbers)), numbers);
  EXPECT_EQ(numbers.size(), sizeof(MaintenancePriors) / sizeof(double));  // None is forgotten.
}

TEST(Priors, AreNotBelievedBeyondTheirRange) {
  const MaintenancePriors read = PriorsFromNumbers({{"seconds_per_file", 1e9},
                                                    {"seconds_per_commit", -1},
                                                    {"life_days", std::nan("")},
                                                    {"read_seconds_per_file", 0.5},
                                                    {"unknown", 3}});
  EXPECT_DOUBLE_EQ(read.seconds_per_file, MaintenancePriors{}.seconds_per_file * kPriorRange);
  EXPECT_EQ(read.seconds_per_commit, MaintenancePriors{}.seconds_per_commit);
  EXPECT_EQ(read.life_days, MaintenancePriors{}.life_days);
  EXPECT_EQ(read.read_seconds_per_file, 0.5);
}

// --- from the planners ---------------------------------------------------------------------------

// --- overlap -------------------------------------------------------------------------------------

TEST(PlanMaintenance, AReadByKeySavesWhatTheRewriteChangesForIt) {
  // Half of the reads open all ten files, which become one: 9 saved.
  MaintenanceCandidate apart = Candidate("t", "p", 2);
  apart.files_per_key = FilesPerKey{.before = 1, .after = 1};
  MaintenanceCandidate over = apart;
  over.files_per_key = FilesPerKey{.before = 7, .after = 2};
  EXPECT_NEAR(Decide(Candidate("t", "p", 2)).saved_per_read, 9, 1e-9);
  EXPECT_NEAR(Decide(apart).saved_per_read, 4.5, 1e-9);
  EXPECT_NEAR(Decide(over).saved_per_read, 4.5 + 2.5, 1e-9);
  EXPECT_EQ(Decide(over).reason,
            "saves 70.0 s of queries per s of work; threshold 1.0; a read by key opens 7.0 files, "
            "2.0 afterwards");
  // What lies far apart is better left so, if nobody reads all of it.
  MaintenanceCandidate worse = apart;
  worse.files_per_key = FilesPerKey{.before = 1, .after = 5};
  EXPECT_NEAR(Decide(worse).saved_per_read, 2.5, 1e-9);
  MaintenancePriors priors = RoundPriors();
  priors.selective_share = 1;
  const auto plan = PlanMaintenance({worse, apart, over}, {}, priors);
  EXPECT_EQ(plan.decisions[0].saved_per_read, 0);
  EXPECT_EQ(plan.decisions[0].verdict, MV::kTooLittleGain);
  EXPECT_EQ(plan.decisions[1].verdict, MV::kTooLittleGain);
  EXPECT_EQ(plan.decisions[2].rank, 1);
}

TEST(Calibrate, AJobThatWasStoppedForItsTimeTakesAtLeastThat) {
  MaintenanceOutcome outcome;
  outcome.result = MaintenanceOutcome::Result::kOverran;
  outcome.partitions = outcome.files = 1;
  outcome.bytes = 100 * kMiB;
  const MaintenancePriors before;
  const double predicted = PredictedComputeSeconds(before, outcome);
  outcome.compute_seconds = 10 * predicted;
  const MaintenancePriors after = Calibrate(before, outcome);
  EXPECT_GT(PredictedComputeSeconds(after, outcome), predicted);
  EXPECT_EQ(after.outcomes, 1);
  EXPECT_EQ(after.conflict_share, before.conflict_share);
  // Nobody knows how much more it would have taken.
  outcome.compute_seconds = predicted / 10;
  EXPECT_EQ(PriorsToNumbers(Calibrate(before, outcome)), PriorsToNumbers(before));
}

TEST(CandidatesOf, KnowsWhatAReadByKeyOpens) {
  World world;
  world.AddPartition();
  world.AddPartition();
  // All over each other in the first one, side by side in the second.
  for (int64_t i = 0; i < 6; ++i) {
    world.AddFile(0, 8 * kMiB, 1000);
    world.live.key_ranges.push_back({iceberg::Value(int64_t{0}), iceberg::Value(int64_t{99})});
    world.AddFile(1, 8 * kMiB, 1000);
    world.live.key_ranges.push_back({iceberg::Value(10 * i), iceberg::Value(10 * i + int64_t{9})});
  }
  const DeleteIndex deletes(world.live);
  const RewriteOptions options;
  const RewritePlan plan = PlanRewrite(world.live, deletes, options);
  const auto of = [&] {
    return CandidatesOf("ns", "t", plan, world.live, deletes, options, {"day=1", "day=2"});
  };
  const auto candidates = of();
  ASSERT_EQ(candidates.size(), 2);
  ASSERT_TRUE(candidates[0].files_per_key);
  EXPECT_EQ(candidates[0].files_per_key->before, 6);
  EXPECT_EQ(candidates[0].files_per_key->after, 1);
  ASSERT_TRUE(candidates[1].files_per_key);
  EXPECT_EQ(candidates[1].files_per_key->before, 1);
  EXPECT_EQ(candidates[1].files_per_key->after, 1);
  world.live.key_ranges.clear();  // No sort order.
  for (const auto& candidate : of()) EXPECT_FALSE(candidate.files_per_key);
}

TEST(CandidatesOf, IsWhatTheRewriteWouldDo) {
  World world;
  world.AddPartition();
  world.AddPartition();
  for (int i = 0; i < 6; ++i) world.AddFile(0, 8 * kMiB, 1000);
  world.AddFile(1, 8 * kMiB, 1000);
  const DeleteIndex deletes(world.live);
  const RewriteOptions options;
  const RewritePlan plan = PlanRewrite(world.live, deletes, options);
  ASSERT_EQ(plan.groups.size(), 1);
  const auto candidates =
      CandidatesOf("ns", "t", plan, world.live, deletes, options, {"day=1", "day=2"});
  ASSERT_EQ(candidates.size(), 2);
  EXPECT_EQ(candidates[0].partition, "day=1");
  EXPECT_EQ(candidates[0].files_in, 6);
  EXPECT_EQ(candidates[0].bytes_in, plan.groups[0].bytes);
  EXPECT_EQ(candidates[0].rows, 6000);
  EXPECT_EQ(candidates[0].outputs, plan.groups[0].outputs);
  EXPECT_EQ(candidates[0].again_bytes, 48 * kMiB);  // One file of 48 MiB is still a small one.
  EXPECT_EQ(candidates[0].planner_reason, plan.groups[0].reason);
  EXPECT_EQ(candidates[1].partition, "day=2");
  EXPECT_EQ(candidates[1].files_in, 0);
  EXPECT_EQ(candidates[1].planner_reason, plan.partitions[1].reason);
  EXPECT_EQ(PlanMaintenance(candidates, {}, {}).decisions[1].verdict, MV::kNothingPlanned);
}

TEST(CandidateOf, IsWhatTheSweepWouldDo) {
  PartitionPlan plan;
  plan.verdict = Verdict::kCandidate;
  plan.inputs = {"a.parquet", "b.parquet", "c.parquet"};
  plan.bytes_in = 3 * kMiB;
  plan.outputs = 1;
  MaintenanceCandidate candidate = CandidateOf("ns", "t", "h=1", plan, {});
  EXPECT_EQ(candidate.files_in, 3);
  EXPECT_EQ(candidate.again_bytes, 3 * kMiB);
  EXPECT_EQ(candidate.outputs, 1);
  plan.verdict = Verdict::kNotSealed;
  plan.reason = "sealed in 3 min";
  candidate = CandidateOf("ns", "t", "h=1", plan, {});
  EXPECT_EQ(candidate.files_in, 0);
  EXPECT_EQ(candidate.planner_reason, "sealed in 3 min");
}

}  // namespace
}  // namespace lithify::plan
