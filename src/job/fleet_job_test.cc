// rewrite_data_files with groups that go to workers: the same results as in this process, and no
// result that is not right reaches the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "fleet/packed.h"
#include "fleet/wire.h"
#include "group/fleet.h"
#include "job/iceberg_job.h"
#include "job/parquet_table_fixture.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "rewrite/parquet_runner.h"
#include "storage/forwarding_store.h"

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
    if (at_once > 1) return RunAtOnce(groups, job, done, cancel);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (before) before();
      if (ordered) ordered(groups[i].task);
      auto result = One(groups[i].task, job, cancel);
      if (result && lie) lie(i, *result);
      given.push_back(groups[i].task.data_files);
      if (!done(i, std::move(result))) break;
    }
    return {};
  }

  std::function<Result<group::Placement>()> place;
  std::function<void()> before;  // Each group.
  std::function<void(const group::GroupTask&)> ordered;
  std::function<void(group::GroupTask&)> order;  // As it comes to the worker.
  std::function<void(size_t, group::GroupResult&)> lie;
  std::optional<Error> fails;
  std::optional<group::Distribution> asked;
  std::vector<std::vector<std::string>> given;
  int runs = 0;
  // How many results are handed over at a time, the last group's first; 1: one after the other.
  int at_once = 1;

 private:
  Status RunAtOnce(const std::vector<group::FleetGroup>& groups, const group::FleetJob& job,
                   const Done& done, const CancelFlag& cancel) {
    std::vector<Result<group::GroupResult>> results;
    for (const auto& group : groups) {
      results.push_back(One(group.task, job, cancel));
      if (results.back() && lie) lie(results.size() - 1, *results.back());
    }
    group::FleetStory story;
    for (size_t i = 0; i < groups.size(); ++i) {
      story.groups.push_back({.number = groups[i].task.number,
                              .worker = i % 2 == 0 ? "a" : "b",
                              .bytes = groups[i].bytes,
                              .bytes_in = results[i] ? results[i]->report.bytes_in : 0,
                              .bytes_out = results[i] ? results[i]->report.bytes_out : 0,
                              .attempts = 1});
    }
    story.groups[0].failures = {"b: reset"};
    story.groups[0].attempts = 2;
    story.groups[1].repeated = true;
    story.groups[1].attempts = 2;
    ForEach(groups.size(), at_once, [&](size_t n) {
      const size_t i = groups.size() - 1 - n;
      done(i, std::move(results[i]));
    });
    if (job.on_end) job.on_end(story);
    return {};
  }
  Result<group::GroupResult> One(group::GroupTask task, const group::FleetJob& job,
                                 const CancelFlag& cancel) {
    if (fails) return Fail(Error(*fails));
    if (order) order(task);
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

// Results come in any order and several at a time; what is committed is the same.
TEST_F(FleetJobTest, ResultsThatComeTogetherAreCommittedInThePlansOrder) {
  constexpr int64_t kDays = 24;
  Create(2);
  std::vector<iceberg::DataFile> files;
  for (int64_t i = 0; i < 2 * kDays; ++i) {
    files.push_back(Rows("f" + std::to_string(i) + ".parquet", i * 100, 3, 1 + i / 2));
  }
  Append(files);
  NearFleet fleet(Parts());
  fleet.at_once = group::kResultsAtOnce;
  const auto result = Rewrite(&fleet, Request());
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->groups, kDays);
  EXPECT_EQ(result->rows_out, 6 * kDays);
  const auto live =
      LoadLiveSet(*locations_, Load().metadata, *Load().metadata.RefSnapshot("main"), "t").value();
  std::vector<std::vector<iceberg::Value>> committed;
  for (const auto& file : live.data_files) {
    committed.push_back(live.partitions[static_cast<size_t>(file.partition)].values);
  }
  std::vector<std::vector<iceberg::Value>> planned;
  for (const auto& group : result->plan.groups) {
    const auto& file = result->live.data_files[static_cast<size_t>(group.data_files.front())];
    planned.push_back(result->live.partitions[static_cast<size_t>(file.partition)].values);
  }
  EXPECT_TRUE(committed == planned);

  ASSERT_TRUE(result->fleet);
  const FleetSums sums = SumUp(result->fleet->story);
  EXPECT_EQ(sums.attempts, kDays + 2);
  EXPECT_EQ(sums.hedged, 1);
  EXPECT_EQ(sums.failed_over, 1);
  ASSERT_EQ(sums.workers.size(), 2u);
  EXPECT_EQ(sums.workers.at("a").groups, kDays / 2);
  EXPECT_EQ(sums.workers.at("a").bytes_in + sums.workers.at("b").bytes_in, result->bytes_in);
  EXPECT_EQ(sums.workers.at("a").bytes_out + sums.workers.at("b").bytes_out, result->bytes_out);
  EXPECT_THAT(result->notes, testing::Contains("by 2 workers: 24 groups in 26 attempts, 1 repeated "
                                               "for lagging behind, 1 after a failure"));
}

// One of many that is not right: nothing is committed, what is right is removed, and what is not
// stays as evidence.
TEST_F(FleetJobTest, OneThatIsNotRightAmongThoseThatComeTogether) {
  Create(2);
  std::vector<iceberg::DataFile> files;
  for (int64_t i = 0; i < 24; ++i) {
    files.push_back(Rows("f" + std::to_string(i) + ".parquet", i * 100, 3, 1 + i / 2));
  }
  Append(files);
  const auto before = Load().metadata.current_snapshot_id;
  NearFleet fleet(Parts());
  fleet.at_once = group::kResultsAtOnce;
  fleet.lie = [](size_t i, group::GroupResult& result) {
    if (i == 5) ++result.rows_deleted;
  };
  const auto result = Rewrite(&fleet, Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_EQ(Load().metadata.current_snapshot_id, before);
  EXPECT_EQ(DataFiles(), 24u + 1u);
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted"));
}

TEST_F(FleetJobTest, R141NoResultThatIsNotRightReachesTheTable) {
  using Lie = std::function<void(group::GroupResult&)>;
  const std::vector<std::pair<std::string, Lie>> lies = {
      {"by snapshot ", [](auto& r) { ++r.snapshot_id; }},
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
      {"another sort order", [](auto& r) { r.outputs[0].sort_order_id = 1; }},
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

// Of another group of this job, in the same partition and with as many rows: each result is right
// by itself, and the rows of one would be lost, those of the other there twice.
TEST_F(FleetJobTest, R141AnOutputOfTwoGroupsIsRefused) {
  Fill();
  NearFleet fleet(Parts());
  std::vector<iceberg::DataFile> seen;
  fleet.lie = [&](size_t, group::GroupResult& result) {
    for (const auto& output : seen) {
      const bool same = output.partition == result.outputs[0].partition &&
                        output.record_count == result.outputs[0].record_count;
      if (same) result.outputs[0] = output;
    }
    seen.push_back(result.outputs[0]);
  };
  auto request = Request();
  request.options.max_file_group_files = 2;
  const auto result = Rewrite(&fleet, request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_THAT(result.error().ToString(), HasSubstr("another group's, too"));
}

// By a snapshot before the deletes, a worker finds nothing to leave out.
TEST_F(FleetJobTest, R141AWorkerThatHasNotSeenPositionDeletesIsFound) {
  Create(2);
  Append({Rows("f0.parquet", 0, 10), Rows("f1.parquet", 100, 10)});
  const std::string old = Load().metadata_location;
  const int64_t old_snapshot = *Load().metadata.current_snapshot_id;
  Append({DeletedPositions("deletes.parquet", "f0.parquet", {3})});
  NearFleet fleet(Parts());
  fleet.order = [&](group::GroupTask& task) {
    task.metadata_location = old;
    task.snapshot_id = old_snapshot;
  };
  const auto plain = Rewrite(&fleet, Request());
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().ToString(), HasSubstr("by snapshot " + std::to_string(old_snapshot)));
  const auto current = *Load().metadata.current_snapshot_id;
  fleet.lie = [&](size_t, group::GroupResult& result) { result.snapshot_id = current; };
  const auto before = Load().metadata.current_snapshot_id;
  const auto result = Rewrite(&fleet, Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_THAT(result.error().ToString(), HasSubstr("deletes name 1 at least"));
  EXPECT_EQ(Load().metadata.current_snapshot_id, before);
  fleet.order = {};
  const auto right = Rewrite(&fleet, Request());
  ASSERT_TRUE(right) << right.error().ToString();
  EXPECT_EQ(right->rows_out, 19);
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

// ------------------------------------------------------------------------------------- bytes

// A bucket as a coordinator sees it: reads are requests, and what goes through them is counted.
class MeteredStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  struct Traffic {
    int64_t bytes = 0;  // In both directions.
    int gets = 0;
    int stats = 0;
  };

  Result<storage::ObjectInfo> Stat(const std::string& key) override {
    Count(key, [](Traffic& t) { ++t.stats; });
    return store_.Stat(key);
  }
  Result<storage::Blob> Get(const std::string& key, int64_t max_bytes) override {
    auto blob = store_.Get(key, max_bytes);
    Count(key, [&](Traffic& t) {
      ++t.gets;
      if (blob) t.bytes += std::ssize(blob->bytes);
    });
    return blob;
  }
  Result<std::unique_ptr<storage::Reader>> Open(const std::string& key) override {
    Count(key, [](Traffic& t) { ++t.stats; });
    LITHIFY_TRY_ASSIGN(auto reader, store_.Open(key));
    return std::make_unique<MeteredReader>(*this, key, std::move(reader));
  }
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& known) override {
    LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
    return std::make_unique<MeteredReader>(*this, known.key, std::move(reader));
  }
  Status PutNew(const std::string& key, std::string_view bytes) override {
    Count(key, [&](Traffic& t) { t.bytes += std::ssize(bytes); });
    return store_.PutNew(key, bytes);
  }
  Result<std::unique_ptr<storage::Writer>> Create(const std::string& key) override {
    return Fail(Code::kInternal, "a coordinator streams nothing", key);
  }
  bool small_reads_are_cheap() const override { return false; }

  // Of keys that contain `part`.
  Traffic Of(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    Traffic sum;
    for (const auto& [key, traffic] : traffic_) {
      if (key.find(part) == std::string::npos) continue;
      sum.bytes += traffic.bytes;
      sum.gets += traffic.gets;
      sum.stats += traffic.stats;
    }
    return sum;
  }
  std::map<std::string, Traffic> traffic() const {
    const std::lock_guard lock(mutex_);
    return traffic_;
  }

 private:
  class MeteredReader final : public storage::Reader {
   public:
    MeteredReader(MeteredStore& store, std::string key, std::unique_ptr<storage::Reader> reader)
        : store_(store), key_(std::move(key)), reader_(std::move(reader)) {}
    int64_t size() const override { return reader_->size(); }
    Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
      const auto got = reader_->ReadAt(offset, out);
      store_.Count(key_, [&](Traffic& t) {
        ++t.gets;
        if (got) t.bytes += *got;
      });
      return got;
    }

   private:
    MeteredStore& store_;
    const std::string key_;
    const std::unique_ptr<storage::Reader> reader_;
  };

  void Count(const std::string& key, const std::function<void(Traffic&)>& count) {
    const std::lock_guard lock(mutex_);
    count(traffic_[key]);
  }

  mutable std::mutex mutex_;
  std::map<std::string, Traffic> traffic_;
};

// A table of version 2 in the shape of the benchmark, bench/fleet.py: files of about 1.5 MiB, a
// hundredth of whose rows is deleted by one position delete file per partition.
class CoordinatorBytes : public FleetJobTest {
 protected:
  static constexpr int kDays = 2;
  static constexpr int kFiles = 24;  // Of a day.
  static constexpr int64_t kRows = 190'000;
  static constexpr int64_t kDeleted = kRows / 100;

  void FillLarge() {
    Create(2);
    std::vector<iceberg::DataFile> files;
    std::vector<iceberg::DataFile> deletes;
    for (int day = 1; day <= kDays; ++day) {
      std::vector<std::string> paths;
      for (int f = 0; f < kFiles; ++f) {
        files.push_back(Noise(NameOf(day, f), day));
        paths.push_back(files.back().file_path);
        bytes_ += files.back().file_size_in_bytes;
      }
      deletes.push_back(DeletesOf("deletes-" + std::to_string(day) + ".parquet", paths, day));
    }
    Append(files);
    Delete(deletes);
  }
  // A directory and a random name, as engines make them.
  std::string NameOf(int day, int file) {
    return "day=" + std::to_string(day) + "/" + std::to_string(names_.Next()) + "-" +
           std::to_string(names_.Next()) + "-" + std::to_string(file) + ".parquet";
  }
  iceberg::DataFile Put(const std::string& name, const arrow::Table& table,
                        const parquet::WriterProperties::Builder& builder, int day) {
    parquet::WriterProperties::Builder properties = builder;
    const std::string bytes = rewrite::WriteParquet(table, 1 << 20, properties.build());
    EXPECT_TRUE(store_->PutNew("t/data/" + name, bytes));
    iceberg::DataFile file = Data(name, table.num_rows(), day);
    file.file_size_in_bytes = std::ssize(bytes);
    return file;
  }
  iceberg::DataFile Noise(const std::string& name, int day) {
    arrow::Int64Builder ids;
    arrow::Int32Builder days;
    EXPECT_TRUE(ids.Reserve(kRows).ok() && days.Reserve(kRows).ok());
    for (int64_t i = 0; i < kRows; ++i) {
      ids.UnsafeAppend(static_cast<int64_t>(names_.Next()));
      days.UnsafeAppend(day);
    }
    const auto table =
        arrow::Table::Make(arrow::schema({rewrite::IdField(1, "id", arrow::int64()),
                                          rewrite::IdField(2, "day", arrow::int32())}),
                           arrow::ArrayVector{*ids.Finish(), *days.Finish()});
    parquet::WriterProperties::Builder properties;
    properties.disable_dictionary()->compression(parquet::Compression::UNCOMPRESSED);
    properties.enable_dictionary("day");
    return Put(name, *table, properties, day);
  }
  iceberg::DataFile DeletesOf(const std::string& name, std::vector<std::string> of, int day) {
    std::ranges::sort(of);
    arrow::StringBuilder paths;
    arrow::Int64Builder positions;
    for (const std::string& path : of) {
      for (int64_t i = 0; i < kDeleted; ++i) {
        EXPECT_TRUE(paths.Append(path).ok() && positions.Append(i * 97 + i % 50).ok());
      }
    }
    const auto table = arrow::Table::Make(
        arrow::schema(
            {rewrite::IdField(iceberg::kFilePathFieldId, "file_path", arrow::utf8(), false),
             rewrite::IdField(iceberg::kPosFieldId, "pos", arrow::int64(), false)}),
        arrow::ArrayVector{*paths.Finish(), *positions.Finish()});
    parquet::WriterProperties::Builder properties;
    iceberg::DataFile file =
        Put(name, *table, *properties.compression(parquet::Compression::ZSTD), day);
    file.content = iceberg::FileContent::kPositionDeletes;
    file.lower_bounds.clear();
    return file;
  }
  // With what crosses the wire to workers, in both directions.
  void Wire(NearFleet& fleet) {
    fleet.ordered = [this](const group::GroupTask& task) {
      const auto body = fleet::EncodeOrder({.task = task, .attempt = task.job_id, .loans = {}});
      wire_ += std::ssize(body->Reveal());
    };
    fleet.lie = [this](size_t i, group::GroupResult& result) {
      fleet::DoneFrame done{.group_id = static_cast<int64_t>(i), .result = std::move(result)};
      const std::string frame = fleet::Packed(*fleet::EncodeFrame(done));
      wire_ += std::ssize(frame);
      auto back = fleet::DecodeFrame(*fleet::Unpacked(frame));
      result = std::get<fleet::DoneFrame>(std::move(*back)).result;
    };
  }
  // A coordinator in front of the bucket.
  IcebergServices Far(NearFleet& fleet) {
    return {.catalog = catalog_,
            .locations = *far_locations_,
            .make_runner = Parts().make_runner,
            .clock = clock_,
            .random = random_,
            .audit = *audit_,
            .progress = *progress_,
            .fleet = &fleet};
  }
  Result<RewriteResult> RewriteFar(NearFleet& fleet) {
    auto request = Request();
    request.options.delete_file_threshold = 1;
    request.options.target_file_size_bytes = bytes_ / 6;
    request.options.max_file_group_size_bytes = bytes_ / 6 + bytes_ / 40;
    return IcebergJob(Far(fleet), {}).RewriteDataFiles(request, cancel_);
  }

  SeededRandom names_{11};
  std::shared_ptr<MeteredStore> metered_ = std::make_shared<MeteredStore>(*store_);
  std::unique_ptr<storage::Locations> far_locations_ =
      storage::MakeStoreLocations(metered_, "s3", "b");
  int64_t bytes_ = 0;
  int64_t wire_ = 0;
};

// The gate of the fleet: a thousandth of what is read and written, orders and answers included. The
// catalog's own files are not: most catalogs are no files in the bucket.
TEST_F(CoordinatorBytes, AreAThousandthOfTheData) {
  FillLarge();
  NearFleet fleet(Parts());
  Wire(fleet);
  const auto result = RewriteFar(fleet);
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->status, RewriteStatus::kCommitted);
  EXPECT_EQ(result->rows_removed, kDays * kFiles * kDeleted);
  EXPECT_EQ(result->delete_files_removed, kDays);
  EXPECT_GE(result->groups, 6);
  ASSERT_GT(result->bytes_in, 60 * kMiB);
  const int64_t data = result->bytes_in + result->bytes_out;
  std::string parts = "wire " + std::to_string(wire_);
  for (const auto& [key, traffic] : metered_->traffic()) {
    parts += "\n" + key + " " + std::to_string(traffic.bytes) + " by " +
             std::to_string(traffic.gets) + " reads and " + std::to_string(traffic.stats) +
             " looks";
  }
  EXPECT_LE(metered_->Of("").bytes + wire_, data / 1000) << parts;
  // Of deletes that take 100 KiB and more, footer and paths.
  EXPECT_LE(metered_->Of("deletes-").bytes, kDays * 12 * kKiB) << parts;
  EXPECT_LE(metered_->Of("deletes-").gets, kDays * 2) << parts;
  // Every manifest and list is read once, whoever made it; the commit only looks at what the plan
  // has read.
  for (const auto& [key, traffic] : metered_->traffic()) {
    if (!key.starts_with("t/metadata/")) continue;
    EXPECT_EQ(traffic.gets, 1) << key;
    EXPECT_LE(traffic.stats, 1) << key;
  }
  // Of each output the footer by one read, and a look by the commit.
  for (const auto& [key, traffic] : metered_->traffic()) {
    if (!key.starts_with("t/data/day=") || traffic.gets == 0) continue;
    EXPECT_EQ(traffic.gets, 1) << key;
    EXPECT_LE(traffic.bytes, 8 * kKiB) << key;
  }
}

// Footers are looked for at the end of a file of the size that the worker says.
TEST_F(CoordinatorBytes, R141AnotherSizeOfAnOutputIsFoundByItsFooter) {
  Fill();
  NearFleet fleet(Parts());
  fleet.lie = [](size_t i, group::GroupResult& result) {
    if (i == 0) --result.outputs[0].file_size_in_bytes;
  };
  const auto before = Load().metadata.current_snapshot_id;
  const size_t files = DataFiles();
  auto request = Request();
  request.options.only_partitions = {{.spec_id = 0, .values = {iceberg::Value(int64_t{1})}}};
  const auto result = IcebergJob(Far(fleet), {}).RewriteDataFiles(request, cancel_);
  ExpectFails(result, Code::kCorrupt, "bytes");
  EXPECT_EQ(Load().metadata.current_snapshot_id, before);
  EXPECT_EQ(DataFiles(), files + 1) << "what the worker wrote is evidence";
}

// What a worker says of a footer's size is a hint: with any other the job ends as well.
TEST_F(CoordinatorBytes, WrongSizesOfFootersChangeNothing) {
  Fill();
  for (const int64_t said : {int64_t{0}, int64_t{1}, int64_t{-5}, int64_t{100}, int64_t{1} << 40}) {
    NearFleet fleet(Parts());
    int told = 0;
    fleet.lie = [&](size_t, group::GroupResult& result) {
      for (auto& output : result.report.outputs) {
        EXPECT_GT(output.footer_bytes, 100);
        output.footer_bytes = said;
        ++told;
      }
    };
    auto request = Request();
    request.options.rewrite_all = true;
    const auto result = IcebergJob(Far(fleet), {}).RewriteDataFiles(request, cancel_);
    ASSERT_TRUE(result) << said << ": " << result.error().ToString();
    EXPECT_EQ(result->status, RewriteStatus::kCommitted) << said;
    EXPECT_EQ(told, 2);
  }
}

// Iceberg writes no manifest twice under one name. A writer that does is noticed, as if nothing
// were kept: the commit looks at what the plan has read.
TEST_F(CoordinatorBytes, AManifestThatWasReplacedInPlaceIsReadAgain) {
  Fill();
  const auto replaced = Load().metadata;
  NearFleet fleet(Parts());
  fleet.lie = [&](size_t i, group::GroupResult&) {
    if (i == 0) return;  // Workers have read it all by the last group.
    // The manifest of data now has other rows for its first file, under its old name.
    for (const auto& manifest : Manifests(*replaced.RefSnapshot("main"))) {
      if (manifest.content != iceberg::ManifestContent::kData) continue;
      auto entries = EntriesOf(manifest);
      entries.front().file.record_count = 11;
      table::ManifestWriteOptions options;
      options.format_version = 3;
      options.spec = *replaced.FindSpec(manifest.partition_spec_id);
      options.schema = replaced.schema();
      options.content = manifest.content;
      options.snapshot_id = manifest.added_snapshot_id;
      options.codec = "null";
      const std::string key = manifest.manifest_path.substr(std::string("s3://b/").size());
      ASSERT_TRUE(store_->Remove(key));
      ASSERT_TRUE(store_->PutNew(key, table::WriteManifest(entries, options).value().bytes));
    }
  };
  const auto before = Load().metadata.current_snapshot_id;
  const auto result = IcebergJob(Far(fleet), {}).RewriteDataFiles(Request(), cancel_);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().ToString(), HasSubstr("11 rows"));
  EXPECT_EQ(Load().metadata.current_snapshot_id, before);
}

}  // namespace
}  // namespace lithify::job
