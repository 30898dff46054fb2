#include "maintain/tree_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::maintain {
namespace {

using sim::JobWorld;
using storage::FaultyStore;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Rows = std::multiset<std::string>;

const std::string kRoot = "/data/lake";
const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};

// A tree in memory, through a store that fails on demand.
struct TestTree {
  JobWorld world;
  std::optional<Error> fault;  // Of every listing.
  FaultyStore store{world.store,
                    [this](std::string_view op, const std::string&, bool before) -> Status {
                      if (fault && before && op == "List") return Fail(*fault);
                      return {};
                    }};
  int looks = 0;
  int sweeps = 0;
  std::function<void(const CancelFlag&)> on_sweep;
};

class Opened final : public Tree {
 public:
  explicit Opened(TestTree& tree) : tree_(tree) {}
  Result<job::StatusReport> Look(const CancelFlag& cancel) override {
    ++tree_.looks;
    if (tree_.fault) return Fail(*tree_.fault);
    return tree_.world.Job(tree_.store).GetStatus({}, cancel);
  }
  Result<job::SweepReport> Sweep(std::vector<job::ChosenPartition> chosen,
                                 const CancelFlag& cancel) override {
    ++tree_.sweeps;
    if (tree_.on_sweep) tree_.on_sweep(cancel);
    tree_.world.settings.only_partitions = std::move(chosen);
    return tree_.world.Job(tree_.store).Sweep({}, false, cancel);
  }
  int threads() const override { return 1; }
  int threads_per_partition() const override { return 1; }
  const plan::HiveOptions& options() const override { return tree_.world.settings.options; }

 private:
  TestTree& tree_;
};

class TreeSchedulerTest : public testing::Test {
 protected:
  TreeSchedulerTest() {
    options.roots = {kRoot};
    options.schedule.jitter = Duration::zero();
    options.schedule.backoff_min = std::chrono::minutes(5);
    options.ranking.threshold = 1e-9;
    trees.emplace(kRoot, std::make_unique<TestTree>());
  }
  JobWorld& world(const std::string& root = kRoot) { return trees.at(root)->world; }

  TickReport Tick(bool acts = true, bool on_demand = false) {
    if (!scheduler) {
      scheduler = std::make_unique<TreeScheduler>(
          options,
          [this](const std::string& root) -> Result<std::unique_ptr<Tree>> {
            ++opened;
            if (root == throwing) throw std::runtime_error("thrown");
            const auto found = trees.find(root);
            if (found == trees.end()) return Fail(Code::kNotFound, "no such directory", root);
            return std::make_unique<Opened>(*found->second);
          },
          clock);
    }
    TickReport report;
    loud.clear();
    scheduler->Tick({.on_demand = on_demand,
                     .acts = acts,
                     .looks_at_all = !acts,
                     .state = state,
                     .report = report,
                     .new_job_id = [] { return std::string("job"); },
                     .running =
                         [&](const std::string& key, Time started) {
                           EXPECT_EQ(started, clock.Now());
                           state.running[key] = started;
                           marked.push_back(key);
                         },
                     .done = [&](JobLine line) { report.jobs.push_back(std::move(line)); },
                     .shout = [&](const LoudLine& line, const Error&) { loud.push_back(line); },
                     .cancel = cancel});
    return report;
  }
  TickReport Demand() { return Tick(true, true); }
  void Advance(Duration d) {
    clock.Advance(d);
    for (auto& [root, tree] : trees) tree->world.clock.Advance(d);
  }

  std::map<std::string, std::unique_ptr<TestTree>> trees;
  std::string throwing;
  int opened = 0;
  TreeOptions options;
  sim::SimClock clock{*ParseTime("2026-11-29T12:00")};
  CancelFlag cancel;
  MaintenanceState state;
  std::vector<LoudLine> loud;
  std::vector<std::string> marked;  // As running.
  std::unique_ptr<TreeScheduler> scheduler;
};

MATCHER_P(Has, status, "") { return arg.status == status; }

std::map<std::string, std::string> Verdicts(const TickReport& report) {
  std::map<std::string, std::string> verdicts;
  for (const PlanLine& line : report.plan) verdicts[line.partition] = line.verdict;
  return verdicts;
}

TEST_F(TreeSchedulerTest, WhatNobodyWillReadIsLeftAlone) {
  options.read_life = std::chrono::hours(24);
  world().WriteFive(JobWorld::Hour("10"));  // Over an hour ago.
  const TickReport now = Tick(false);
  EXPECT_EQ(Verdicts(now).at(JobWorld::Hour("10")), "run");
  EXPECT_LE(now.plan.at(0).life_days, 23.0 / 24);
  Advance(std::chrono::hours(24));
  const TickReport later = Tick(false);
  EXPECT_EQ(Verdicts(later).at(JobWorld::Hour("10")), "too_little_gain");
  EXPECT_THAT(later.plan.at(0).reason, HasSubstr("then nobody reads it any more"));
}

TEST_F(TreeSchedulerTest, ASweepThatTakesMuchLongerThanPredictedIsStopped) {
  options.overrun = {.factor = 1, .at_least = Duration::zero()};
  world().WriteFive(JobWorld::Hour("10"));
  bool stopped = false;
  trees.at(kRoot)->on_sweep = [&](const CancelFlag& cancelled) {
    for (int i = 0; i < 500 && !cancelled.requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stopped = cancelled.requested();
    clock.Advance(std::chrono::hours(1));
  };
  const auto before = plan::PriorsToNumbers(state.tree_priors);
  const TickReport report = Demand();
  EXPECT_TRUE(stopped);
  ASSERT_THAT(report.jobs, ElementsAre(Has("failed")));
  EXPECT_THAT(report.jobs[0].reason, HasSubstr("stopped before its commit"));
  EXPECT_EQ(state.tables.at(TreeKey(kRoot)).last_code, Code::kLimit);
  EXPECT_EQ(state.tables.at(TreeKey(kRoot)).failures_in_row, 1);
  EXPECT_GT(plan::PriorsToNumbers(state.tree_priors).at("seconds_per_commit"),
            before.at("seconds_per_commit"));
  EXPECT_THAT(world().LiveRows(JobWorld::Hour("10")), IsEmpty());  // No manifest is there.
}

TEST_F(TreeSchedulerTest, ATreeIsDueByItsScheduleAndOnce) {
  world().WriteFive(JobWorld::Hour("10"));
  EXPECT_THAT(Tick().jobs, IsEmpty());  // Seen at noon, due at two.
  EXPECT_EQ(trees.at(kRoot)->looks, 0);
  Advance(std::chrono::hours(14));
  const TickReport report = Tick();
  ASSERT_THAT(report.jobs, ElementsAre(Has("success")));
  const JobLine& line = report.jobs[0];
  EXPECT_EQ(line.table, kRoot);
  EXPECT_EQ(line.procedure, "compact");
  EXPECT_EQ(line.files_in, 5);
  EXPECT_EQ(line.files_out, 1);
  EXPECT_GT(line.bytes_in, 0);
  EXPECT_THAT(line.reason, HasSubstr("1 partition compacted"));
  EXPECT_EQ(world().LiveRows(JobWorld::Hour("10")), kFiveRows);
  EXPECT_EQ(Verdicts(report).at(JobWorld::Hour("10")), "run");
  ASSERT_THAT(report.tables, SizeIs(1));
  EXPECT_EQ(report.tables[0].due, "due");
  EXPECT_EQ(report.tables[0].small_files, 5);
  EXPECT_THAT(marked, ElementsAre(TreeKey(kRoot)));
  EXPECT_THAT(state.running, IsEmpty());
  EXPECT_EQ(state.run.all.commits, 1);
  EXPECT_EQ(state.run.all.bytes, line.bytes_in);

  const TickReport again = Tick();
  EXPECT_EQ(again.tables[0].due, "not_yet");
  EXPECT_THAT(again.jobs, IsEmpty());
  EXPECT_EQ(trees.at(kRoot)->sweeps, 1);
  // In order: the next fire finds nothing to do.
  Advance(std::chrono::hours(24));
  const TickReport next = Tick();
  ASSERT_THAT(next.jobs, ElementsAre(Has("success")));  // The inputs of yesterday are removed.
  EXPECT_THAT(next.jobs[0].reason, HasSubstr("dead files removed"));
  EXPECT_EQ(next.jobs[0].files_in, 0);
  Advance(std::chrono::hours(24));
  const TickReport idle = Tick();
  ASSERT_THAT(idle.jobs, ElementsAre(Has("skipped")));
  EXPECT_FALSE(idle.jobs[0].reason.empty());
}

TEST_F(TreeSchedulerTest, WhoDoesNotActChangesNothing) {
  world().WriteFive(JobWorld::Hour("10"));
  const auto before = world().Names(JobWorld::Hour("10"));
  const TickReport report = Tick(false);
  EXPECT_THAT(report.jobs, IsEmpty());
  EXPECT_EQ(Verdicts(report).at(JobWorld::Hour("10")), "run");
  EXPECT_EQ(report.tables[0].small_files, 5);
  EXPECT_EQ(world().Names(JobWorld::Hour("10")), before);
  EXPECT_THAT(world().Phases(), IsEmpty());
  EXPECT_EQ(trees.at(kRoot)->sweeps, 0);
  // A look that changes nothing holds for a while, however often the tick comes.
  Tick(false);
  EXPECT_EQ(trees.at(kRoot)->looks, 1);
  Advance(TreeScheduler::kLookLife);
  Tick(false);
  EXPECT_EQ(trees.at(kRoot)->looks, 2);
}

TEST_F(TreeSchedulerTest, BudgetsAreStrictAndLastUntilTheNextFire) {
  for (const char* hour : {"01", "02", "03"}) world().WriteFive(JobWorld::Hour(hour));
  options.ranking.per_run.commits = 2;
  TickReport report = Demand();
  EXPECT_THAT(world().Events(), SizeIs(4));  // Intent and commit of two.
  EXPECT_THAT(report.jobs, ElementsAre(Has("success")));
  EXPECT_EQ(state.run.all.commits, 2);
  report = Demand();
  EXPECT_THAT(world().Events(), SizeIs(4));
  EXPECT_THAT(Verdicts(report), Contains(testing::Pair(testing::_, HasSubstr("over_run"))));
  Advance(std::chrono::hours(24));
  Demand();
  EXPECT_EQ(world().LiveRows(JobWorld::Hour("03")), kFiveRows);
  EXPECT_EQ(world().LiveRows(JobWorld::Hour("01")), kFiveRows);
}

TEST_F(TreeSchedulerTest, BytesAndSharesOfOneTreeAreBounded) {
  for (const char* hour : {"01", "02", "03"}) world().WriteFive(JobWorld::Hour(hour));
  trees.emplace("/other", std::make_unique<TestTree>());
  world("/other").WriteFive(JobWorld::Hour("01"));
  options.roots = {kRoot, "/other"};
  // A file has a header and a row: five of them are below 1000 bytes in all.
  const int64_t one = world().Job().GetStatus({}, CancelFlag())->partitions.front().plan.bytes_in;
  ASSERT_GT(one, 0);
  options.ranking.per_namespace.bytes = one;
  const TickReport report = Demand();
  EXPECT_THAT(report.jobs, SizeIs(2));
  EXPECT_THAT(world().Events(), SizeIs(2));
  EXPECT_THAT(world("/other").Events(), SizeIs(2));
  EXPECT_THAT(Verdicts(report), Contains(testing::Pair(testing::_, "over_namespace_bytes")));
}

// A late file is shown at once, whatever the budget says.
TEST_F(TreeSchedulerTest, LateFilesAreAdoptedWhereNothingIsRewritten) {
  const std::string hour = JobWorld::Hour("10");
  world().WriteFive(hour);
  Demand();
  for (const char* name : {"l1", "l2", "l3", "l4", "l5"}) world().Write(hour, name, {name});
  options.ranking.per_run.commits = 1;  // Used up.
  scheduler.reset();
  const TickReport report = Demand();
  ASSERT_THAT(report.jobs, ElementsAre(Has("success")));
  EXPECT_THAT(report.jobs[0].reason, HasSubstr("5 late files adopted"));
  EXPECT_EQ(report.jobs[0].files_in, 0);
  EXPECT_THAT(world().LiveRows(hour), SizeIs(10));
}

TEST_F(TreeSchedulerTest, ABrokenPartitionStopsNoOtherAndIsLeftAlone) {
  const std::string good = JobWorld::Hour("10");
  const std::string bad = JobWorld::Hour("09");
  world().WriteFive(good);
  world().WriteFive(bad);
  ASSERT_TRUE(world().store.PutNew(bad + "f9.parquet", "no Parquet"));
  TickReport report = Demand();
  ASSERT_THAT(report.jobs, ElementsAre(Has("partial")));
  EXPECT_THAT(report.jobs[0].reason, AllOf(HasSubstr("1 partition compacted"),
                                           HasSubstr("1 failed"), HasSubstr("hour=09")));
  EXPECT_EQ(world().LiveRows(good), kFiveRows);
  // Its breaker is open at once, and the tree's is not.
  Advance(std::chrono::hours(1));
  world().WriteFive(JobWorld::Hour("08"));
  report = Demand();
  EXPECT_EQ(report.tables[0].due, "due");
  EXPECT_EQ(Verdicts(report).at(bad), "breaker_open");
  EXPECT_EQ(Verdicts(report).at(JobWorld::Hour("08")), "run");
  EXPECT_EQ(world().LiveRows(JobWorld::Hour("08")), kFiveRows);
  EXPECT_THAT(report.jobs, ElementsAre(Has("success")));
  // One try a day. Repaired, it is in order, and nothing is remembered.
  ASSERT_TRUE(world().store.Remove(bad + "f9.parquet"));
  Advance(std::chrono::hours(25));
  report = Demand();
  EXPECT_EQ(Verdicts(report).at(bad), "run");
  EXPECT_EQ(world().LiveRows(bad), kFiveRows);
  EXPECT_FALSE(state.tables.contains(TreeKey(kRoot) + "\n" + bad));
}

TEST_F(TreeSchedulerTest, ATreeThatCannotBeOpenedStopsNoOther) {
  options.roots = {"/gone", "/thrown", kRoot};
  throwing = "/thrown";
  world().WriteFive(JobWorld::Hour("10"));
  const TickReport report = Demand();
  EXPECT_THAT(report.jobs, ElementsAre(Has("failed"), Has("failed"), Has("success")));
  EXPECT_THAT(report.jobs[0].reason, HasSubstr("no such directory"));
  EXPECT_THAT(report.jobs[1].reason, HasSubstr("thrown"));
  EXPECT_THAT(loud,
              UnorderedElementsAre(
                  AllOf(Field(&LoudLine::what, "unreadable_tree"), Field(&LoudLine::where, "/gone"),
                        Field(&LoudLine::next, HasSubstr("maintenance.trees"))),
                  Field(&LoudLine::where, "/thrown")));
  EXPECT_EQ(world().LiveRows(JobWorld::Hour("10")), kFiveRows);
  // What threw may not be repeated; what is not there may come.
  EXPECT_EQ(Demand().tables[1].due, "breaker_open");
}

TEST_F(TreeSchedulerTest, ATreeThatFailsBacksOffAndItsBreakerOpens) {
  world().WriteFive(JobWorld::Hour("10"));
  options.schedule.breaker_failures = 2;
  trees.at(kRoot)->fault = Error{Code::kTransient, "the disk is away", {}, {}};
  EXPECT_THAT(Demand().jobs, ElementsAre(Has("failed")));
  EXPECT_EQ(opened, 1);
  TickReport report = Demand();
  EXPECT_EQ(report.tables[0].due, "backing_off");
  EXPECT_THAT(report.jobs, IsEmpty());
  Advance(std::chrono::minutes(6));
  EXPECT_THAT(Demand().jobs, ElementsAre(Has("failed")));
  EXPECT_EQ(opened, 2);  // What was open is not trusted.
  Advance(std::chrono::hours(12));
  report = Demand();
  EXPECT_EQ(report.tables[0].due, "breaker_open");
  EXPECT_THAT(report.tables[0].reason, HasSubstr("the disk is away"));
  trees.at(kRoot)->fault.reset();
  EXPECT_THAT(Demand().jobs, IsEmpty());
  Advance(std::chrono::hours(13));
  EXPECT_THAT(Demand().jobs, ElementsAre(Has("success")));
  EXPECT_EQ(Demand().tables[0].due, "due");
}

TEST_F(TreeSchedulerTest, ATreeThatMayNotBeReadIsToldAtEveryTick) {
  trees.at(kRoot)->fault = Error{Code::kDenied, "not yours", {}, {}};
  for (int i = 0; i < 2; ++i) {
    const TickReport report = Demand();
    EXPECT_THAT(report.jobs, SizeIs(i == 0 ? 1 : 0));
    EXPECT_THAT(loud, ElementsAre(AllOf(Field(&LoudLine::what, "unreadable_tree"),
                                        Field(&LoudLine::why, HasSubstr("not yours")))));
  }
}

TEST_F(TreeSchedulerTest, AStopIsNoFailure) {
  world().WriteFive(JobWorld::Hour("10"));
  cancel.Request();
  EXPECT_THAT(Demand().jobs, IsEmpty());
  EXPECT_THAT(world().Phases(), IsEmpty());
}

TEST_F(TreeSchedulerTest, OfTreesAndPartitionsThatAreGoneNothingIsKept) {
  world().WriteFive(JobWorld::Hour("10"));
  state.tables["tree:/old"].failures_in_row = 3;
  state.tables["tree:/old\np"].failures_in_row = 3;
  state.tables[TreeKey(kRoot) + "\ngone/"].failures_in_row = 3;
  state.tables["lake.sales.t"].failures_in_row = 1;
  state.waiting_since["tree:/old\np"] = clock.Now();
  state.waiting_since[TreeKey(kRoot) + "\ngone/"] = clock.Now();
  state.waiting_since["lake.sales.t\np"] = clock.Now();
  Demand();
  std::vector<std::string> kept;
  for (const auto& [key, history] : state.tables) kept.push_back(key);
  EXPECT_THAT(kept, ElementsAre("lake.sales.t", TreeKey(kRoot)));
  EXPECT_THAT(state.waiting_since, SizeIs(1));
}

TEST_F(TreeSchedulerTest, OnlyOfBucketsTheLogOfOthersIsOurs) {
  options.roots = {kRoot, "s3://bucket/lake", "file:///x"};
  trees.emplace("s3://bucket/lake", std::make_unique<TestTree>());
  Tick();
  EXPECT_TRUE(scheduler->IsShared("s3://bucket/lake"));
  EXPECT_FALSE(scheduler->IsShared("s3://bucket/other"));
  EXPECT_FALSE(scheduler->IsShared(kRoot));
  EXPECT_FALSE(scheduler->IsShared("file:///x"));
  EXPECT_TRUE(IsTreeKey("tree:/data"));
  EXPECT_FALSE(IsTreeKey("tree.sales.t"));
}

}  // namespace
}  // namespace lithify::maintain
