// rewrite_data_files with groups that go to workers: the same results as in this process, and no
// result that is not right reaches the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "group/fleet.h"
#include "job/iceberg_job.h"
#include "job/parquet_table_fixture.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "rewrite/parquet_runner.h"

namespace lithify::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A worker that shares nothing with the coordinator but the store: it reads the table's metadata
// itself. What it answers may be changed on the way.
class NearFleet final : public group::Fleet {
 public:
  explicit NearFleet(const group::GroupServices& services) : services_(services) {}

  Result<group::Placement> Place(std::optional<group::Distribution> wanted,
                                 const CancelFlag& /*cancel*/) override {
    asked = wanted;
    if (!place) return group::Placement{group::Placement::Where::kFleet, "1 of 1 is healthy", 1};
    return place();
  }

  Status Run(const std::vector<group::FleetGroup>& groups, const group::FleetJob& job,
             const Done& done, const CancelFlag& cancel) override {
    ++runs;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (before) before();
      auto result = One(groups[i].task, job, cancel);
      if (result && lie) lie(i, *result);
      given.push_back(groups[i].task.data_files);
      if (!done(i, std::move(result))) break;
    }
    return {};
  }

  std::function<Result<group::Placement>()> place;
  std::function<void()> before;  // Each group.
  std::function<void(size_t, group::GroupResult&)> lie;
  std::optional<Error> fails;
  std::optional<group::Distribution> asked;
  std::vector<std::vector<std::string>> given;
  int runs = 0;

 private:
  Result<group::GroupResult> One(const group::GroupTask& task, const group::FleetJob& job,
                                 const CancelFlag& cancel) {
    if (fails) return Fail(Error(*fails));
    LITHIFY_TRY_ASSIGN(const auto table,
                       group::OpenedTable::Open(services_.locations, task.metadata_location,
                                                task.snapshot_id, 2, cancel));
    LITHIFY_TRY_ASSIGN(const auto files, group::FindFiles(table->view(), task));
    const group::GroupBounds bounds{
        .threads = 2, .memory_bytes = 64 * kMiB, .on_progress = job.on_progress};
    return group::RewriteGroup(services_, table->view(), task, files, bounds, cancel);
  }

  group::GroupServices services_;
};

class FleetJobTest : public ParquetTable {
 protected:
  // Four files in each of two partitions; rows 3 and 4 of the first are deleted.
  void Fill() {
    Create(3);
    std::vector<iceberg::DataFile> files;
    for (int64_t i = 0; i < 8; ++i) {
      files.push_back(Rows("f" + std::to_string(i) + ".parquet", i * 100, 10, 1 + i / 4));
    }
    Append(files);
    Append({DeletedRows("dv.puffin", "f0.parquet", {3, 4})});
  }
  group::GroupServices Parts() {
    return {*locations_,
            [](storage::Store& store) { return rewrite::MakeParquetRunner(store, 64 * kMiB); },
            clock_, random_};
  }
  IcebergServices Services(group::Fleet* fleet) {
    return {.catalog = catalog_,
            .locations = *locations_,
            .make_runner = Parts().make_runner,
            .clock = clock_,
            .random = random_,
            .audit = *audit_,
            .progress = *progress_,
            .fleet = fleet};
  }
  RewriteRequest Request() {
    RewriteRequest request;
    request.ident = ident_;
    request.options.min_input_files = 2;
    return request;
  }
  Result<RewriteResult> Rewrite(group::Fleet* fleet, const RewriteRequest& request,
                                const std::string& trigger = "manual") {
    IcebergSettings settings;
    settings.trigger = trigger;
    settings.verify = rewrite::Verify::kFull;
    return IcebergJob(Services(fleet), settings).RewriteDataFiles(request, cancel_);
  }
  std::vector<std::string> Phases() {
    std::vector<std::string> phases;
    const auto records = audit_->ReadAll().value();
    for (const auto& record : records) phases.emplace_back(PhaseName(record.event.phase));
    return phases;
  }
  size_t DataFiles() {
    return static_cast<size_t>(std::ranges::count_if(
        store_->Keys(), [](const std::string& key) { return key.ends_with(".parquet"); }));
  }

  std::unique_ptr<observe::AuditLog> audit_ = observe::OpenMemoryAuditLog();
  std::unique_ptr<observe::Progress> progress_ =
      observe::MakeProgress(2, observe::ProgressMode::kNone, clock_, "test");
};

class Parity : public FleetJobTest, public testing::WithParamInterface<bool> {};

TEST_P(Parity, R140TheSameWhereverGroupsAreRewritten) {
  Fill();
  NearFleet fleet(Parts());
  const auto result = Rewrite(GetParam() ? &fleet : nullptr, Request());
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->status, RewriteStatus::kCommitted);
  EXPECT_EQ(result->distributed, GetParam());
  EXPECT_EQ(result->groups, 2);
  EXPECT_EQ(result->files_rewritten, 8);
  EXPECT_EQ(result->files_added, 2);
  EXPECT_EQ(result->rows_in, 80);
  EXPECT_EQ(result->rows_out, 78);
  EXPECT_EQ(result->rows_removed, 2);
  EXPECT_EQ(result->delete_files_removed, 1);
  EXPECT_THAT(Phases(), ElementsAre("intent", "committed"));
  const auto live =
      LoadLiveSet(*locations_, Load().metadata, *Load().metadata.RefSnapshot("main"), "t").value();
  ASSERT_EQ(live.data_files.size(), 2u);
  EXPECT_EQ(live.data_files[0].records + live.data_files[1].records, 78);
  EXPECT_THAT(live.delete_files, IsEmpty());
  EXPECT_EQ(fleet.runs, GetParam() ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Fleet, Parity, testing::Bool(),
                         [](const auto& of) { return of.param ? "Workers" : "Here"; });

TEST_F(FleetJobTest, R141NoResultThatIsNotRightReachesTheTable) {
  using Lie = std::function<void(group::GroupResult&)>;
  const std::vector<std::pair<std::string, Lie>> lies = {
      {"7 inputs instead of", [](auto& r) { r.inputs.resize(7); }},
      {"inputs instead of", [](auto& r) { r.inputs.clear(); }},
      {"another input than", [](auto& r) { std::swap(r.inputs[0], r.inputs[1]); }},
      {"other rows or another partition", [](auto& r) { ++r.inputs[1].records; }},
      {"other rows or another partition",
       [](auto& r) { r.inputs[0].partition.values = {iceberg::Value(int64_t{9})}; }},
      {"rows were left out", [](auto& r) { r.inputs[0].rows_deleted = -1; }},
      {"deletes name 0 at most", [](auto& r) { r.inputs[1].rows_deleted = 1; }},
      {"deletes name 2 at most", [](auto& r) { r.inputs[0].rows_deleted = 3; }},
      {"deletes name 2 at least", [](auto& r) { r.inputs[0].rows_deleted = 1; }},
      {"deletes name 2 at least",
       [](auto& r) {  // Right in every other way: nothing was deleted.
         r.inputs[0].rows_deleted = r.rows_deleted = 0;
         r.report.rows_out = r.report.rows_in;
       }},
      {"rows in", [](auto& r) { --r.report.rows_out; }},
      {"rows in", [](auto& r) { --r.report.rows_in; }},
      {"rows in", [](auto& r) { ++r.rows_deleted; }},
      {"another partition than its group",
       [](auto& r) { r.outputs[0].partition = {iceberg::Value(int64_t{2})}; }},
      {"another partition than its group",
       [](auto& r) { r.outputs[0].spec_id = 1, r.outputs[0].partition.clear(); }},
      {"is not in", [](auto& r) { r.outputs[0].file_path = "s3://b/other/x.parquet"; }},
      {"is not in", [](auto& r) { r.outputs[0].file_path = "s3://b/t/data/f1.parquet"; }},
      {"is not in",
       [](auto& r) { r.outputs[0].file_path = "s3://b/t/data/day=1/../day=2/x.parquet"; }},
      {"is not there", [](auto& r) { r.outputs[0].file_path = "s3://b/t/data/day=1/x.parquet"; }},
      {"no Parquet file with rows",
       [](auto& r) { r.outputs[0].content = iceberg::FileContent::kPositionDeletes; }},
      {"no Parquet file with rows", [](auto& r) { r.outputs[0].file_format = "ORC"; }},
      {"no Parquet file with rows", [](auto& r) { r.outputs[0].record_count = 0; }},
      {"named twice", [](auto& r) { r.outputs.push_back(r.outputs[0]); }},
      {"footer has 38 rows", [](auto& r) { ++r.outputs[0].record_count; }},
      {"the outputs have 0 rows", [](auto& r) { r.outputs.clear(); }},
  };
  Fill();
  const auto before = Load().metadata.current_snapshot_id;
  for (const auto& [says, lie] : lies) {
    SCOPED_TRACE(says);
    NearFleet fleet(Parts());
    fleet.lie = [&](size_t i, group::GroupResult& result) {
      if (i == 0) lie(result);
    };
    const size_t files = DataFiles();
    auto request = Request();
    request.options.only_partitions = {{.spec_id = 0, .values = {iceberg::Value(int64_t{1})}}};
    const auto result = Rewrite(&fleet, request);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_THAT(result.error().ToString(), HasSubstr(says));
    EXPECT_EQ(Load().metadata.current_snapshot_id, before);
    EXPECT_EQ(DataFiles(), files + 1) << "what the worker wrote is evidence";
  }
}

// An output of another job, right in every other way.
TEST_F(FleetJobTest, R141AnOutputOfAnotherJobIsRefused) {
  Fill();
  NearFleet fleet(Parts());
  std::optional<iceberg::DataFile> other;
  fleet.lie = [&](size_t i, group::GroupResult& result) {
    if (i > 0) return;
    if (other)
      result.outputs[0] = *other;
    else
      other = result.outputs[0], result.inputs.clear();
  };
  EXPECT_FALSE(Rewrite(&fleet, Request()));
  const auto result = Rewrite(&fleet, Request());
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().ToString(), HasSubstr("not of this job"));
}

TEST_F(FleetJobTest, R287AConflictGivesEverythingOutAnew) {
  Fill();
  NearFleet fleet(Parts());
  fleet.before = [&, done = false]() mutable {
    if (std::exchange(done, true)) return;
    Append({DeletedRows("dv2.puffin", "f5.parquet", {0})});
  };
  const auto result = Rewrite(&fleet, Request());
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->attempts, 2);
  EXPECT_EQ(fleet.runs, 2);
  EXPECT_EQ(result->rows_removed, 3);
  EXPECT_EQ(result->rows_out, 77);
  EXPECT_EQ(DataFiles(), 8u + 2u) << "the first attempt's outputs are removed";
}

TEST_F(FleetJobTest, R127AnApplicationErrorEndsTheJob) {
  Fill();
  NearFleet fleet(Parts());
  fleet.fails = Error{Code::kDenied, "bad signature", "worker-1", ""};
  const auto result = Rewrite(&fleet, Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDenied);
  EXPECT_EQ(fleet.given.size(), 1u) << "the second group is not tried";
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted"));
  EXPECT_EQ(DataFiles(), 8u);
}

TEST_F(FleetJobTest, R291TooFewWorkers) {
  Fill();
  NearFleet fleet(Parts());
  fleet.place = [] {
    return Fail(Code::kLimit, "insufficient_workers: 1 of 3 is healthy, 2 are needed");
  };
  const auto manual = Rewrite(&fleet, Request());
  ASSERT_FALSE(manual);
  EXPECT_EQ(manual.error().code, Code::kLimit);
  const auto scheduled = Rewrite(&fleet, Request(), "scheduled");
  ASSERT_TRUE(scheduled) << scheduled.error().ToString();
  EXPECT_EQ(scheduled->status, RewriteStatus::kSkipped);
  EXPECT_THAT(scheduled->reason, HasSubstr("insufficient_workers"));
  EXPECT_THAT(Phases(), ElementsAre("aborted"));
  EXPECT_EQ(fleet.runs, 0);
}

TEST_F(FleetJobTest, R136WhatIsAskedForReachesTheFleet) {
  Fill();
  auto request = Request();
  request.distribution = group::Distribution::kRequire;
  const auto nobody = Rewrite(nullptr, request);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Code::kUnsupported);
  NearFleet fleet(Parts());
  fleet.place = [] {
    return group::Placement{group::Placement::Where::kLocal, "0 of 1 is healthy", 0};
  };
  const auto here = Rewrite(&fleet, request);
  ASSERT_TRUE(here) << here.error().ToString();
  EXPECT_EQ(fleet.asked, group::Distribution::kRequire);
  EXPECT_FALSE(here->distributed);
  EXPECT_THAT(here->notes, testing::Contains("in this process: 0 of 1 is healthy"));
  EXPECT_EQ(fleet.runs, 0);
}

}  // namespace
}  // namespace lithify::job
