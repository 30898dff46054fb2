// What the procedures tell: the audit log, results and errors, when something goes wrong. The
// catalog and the files are in memory, and rows are only counted.
#include "job/iceberg_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commit/iceberg_fixture.h"
#include "job/iceberg_files.h"
#include "storage/faulty_store.h"
#include "storage/forwarding_store.h"

namespace lithify::job {
namespace {

namespace fs = std::filesystem;
using catalog::LoadedTable;
using catalog::MemoryCatalog;
using catalog::TableIdent;
using commit::Path;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Fault = MemoryCatalog::Fault;
using Phase = observe::AuditEvent::Phase;

// Writes one file of 100 bytes with the rows that the metadata tells of.
class CountingRunner final : public rewrite::GroupRunner {
 public:
  struct State {
    std::atomic<int> runs = 0;
    std::function<std::optional<Error>(const rewrite::GroupRequest&)> fail;
  };
  CountingRunner(storage::Store& store, State& state) : store_(store), state_(state) {}

  Result<rewrite::FileFacts> Inspect(const storage::ObjectInfo&, int64_t) override {
    return rewrite::FileFacts();
  }
  Result<rewrite::TierPlan> Explain(const rewrite::GroupRequest& request,
                                    const CancelFlag&) override {
    if (state_.fail) {
      if (auto error = state_.fail(request)) return Fail(std::move(*error));
    }
    return rewrite::TierPlan{
        .row_groups = std::ssize(request.inputs), .tiers = {}, .recoded = {}, .columns = {}};
  }
  Result<rewrite::GroupReport> Run(const rewrite::GroupRequest& request,
                                   const CancelFlag&) override {
    ++state_.runs;
    if (state_.fail) {
      if (auto error = state_.fail(request)) return Fail(std::move(*error));
    }
    rewrite::GroupReport report;
    for (const rewrite::InputFile& input : request.inputs) {
      report.rows_per_input.push_back(input.records);
      report.rows_in += input.records;
      report.bytes_in += input.size;
    }
    rewrite::OutputFile output;
    output.name = request.new_name();
    output.size = report.bytes_out = 100;
    output.rows = report.rows_out = report.rows_in;
    LITHIFY_TRY(store_.PutNew(request.partition + output.name, std::string(100, 'x')));
    report.outputs.push_back(std::move(output));
    return report;
  }
  Result<rewrite::VerifyReport> VerifyFile(const std::string&, const rewrite::RowRule&,
                                           const CancelFlag&) override {
    return rewrite::VerifyReport();
  }

 private:
  storage::Store& store_;
  State& state_;
};

// Forwards, but for what it was told.
class ToldCatalog final : public catalog::Catalog {
 public:
  explicit ToldCatalog(catalog::Catalog& real) : real_(real) {}
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return real_.ListNamespaces(parent);
  }
  Result<std::vector<TableIdent>> ListTables(const std::vector<std::string>& parts) override {
    return real_.ListTables(parts);
  }
  Result<LoadedTable> LoadTable(const TableIdent& ident) override {
    if (const auto told = load_errors.find(ident); told != load_errors.end()) {
      return Fail(Code(told->second), "told so", ident.ToString());
    }
    auto loaded = real_.LoadTable(ident);
    if (loaded && replaced) loaded->metadata.table_uuid = "6e0f3a6c-8d6f-4d43-9c3c-a5c2c5d9a2f4";
    return loaded;
  }
  Result<std::string> MetadataLocation(const TableIdent& ident) override {
    if (const auto told = metadata.find(ident); told != metadata.end()) return told->second;
    return Catalog::MetadataLocation(ident);
  }
  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override {
    ++commits;
    if (!replace_at_commit) return real_.CommitTable(ident, requirements, updates);
    replaced = true;
    return Fail(Code::kConflict, "told so");
  }
  Status MayCommit() override {
    ++asked;
    if (asked < denied_from) return {};
    return Fail(Code::kDenied, "token expires before the commit");
  }
  Status CheckMayWrite(const LoadedTable&) override {
    if (may_write) return {};
    return Fail(Code::kDenied, "not permitted to update the table");
  }
  std::string Describe() const override { return "told:"; }

  bool may_write = true;
  int asked = 0;  // MayCommit.
  int denied_from = std::numeric_limits<int>::max();
  std::map<TableIdent, Code> load_errors;
  std::map<TableIdent, std::string> metadata;
  bool replace_at_commit = false;
  bool replaced = false;
  int commits = 0;

 private:
  catalog::Catalog& real_;
};

// A store each of whose requests is a round trip.
class FarStore final : public storage::ForwardingStore {
 public:
  FarStore(std::shared_ptr<storage::Store> store, std::vector<size_t>& batches,
           const Duration& skew)
      : ForwardingStore(*store), kept_(std::move(store)), batches_(batches), skew_(skew) {}
  bool small_reads_are_cheap() const override { return false; }
  Duration clock_skew() const override { return skew_; }
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override {
    batches_.push_back(keys.size());
    return kept_->RemoveMany(keys);
  }

 private:
  const std::shared_ptr<storage::Store> kept_;
  std::vector<size_t>& batches_;
  const Duration& skew_;
};

// A store whose writers hold so much.
class HoldingStore final : public storage::ForwardingStore {
 public:
  HoldingStore(storage::Store& store, int64_t bytes) : ForwardingStore(store), bytes_(bytes) {}
  int64_t writer_buffer_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

class IcebergProcedures : public commit::IcebergTable {
 protected:
  IcebergServices Services() {
    return {.catalog = told_,
            .locations = faulty_ ? *faulty_ : *locations_,
            .make_runner =
                [this](storage::Store& store) {
                  return std::make_unique<CountingRunner>(store, runner_);
                },
            .clock = clock_,
            .random = random_,
            .audit = *audit_,
            .progress = *progress_};
  }
  IcebergJob Job(int64_t memory_bytes = kGiB) {
    IcebergSettings settings;
    settings.principal = "alice";
    settings.memory_bytes = memory_bytes;
    return IcebergJob(Services(), settings);
  }

  // Two small files in each of so many partitions.
  void Fill(int partitions) {
    Create();
    std::vector<iceberg::DataFile> files;
    for (int day = 1; day <= partitions; ++day) {
      files.push_back(Data("a" + std::to_string(day), 10, day));
      files.push_back(Data("b" + std::to_string(day), 10, day));
    }
    Append(files);
  }
  RewriteRequest Request() {
    RewriteRequest request;
    request.ident = ident_;
    request.options.min_input_files = 2;
    return request;
  }
  Result<RewriteResult> Rewrite(const RewriteRequest& request) {
    return Job().RewriteDataFiles(request, cancel_);
  }
  // The n-th commit, from 0, and all after it.
  void FaultFrom(int n, Fault fault) {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this, n, fault](const TableIdent&) {
      return commits_++ < n ? Fault::kNone : fault;
    };
    catalog_.set_hooks(std::move(hooks));
  }

  std::vector<observe::AuditEvent> Events() {
    std::vector<observe::AuditEvent> events;
    auto records = audit_->ReadAll().value();
    for (auto& record : records) events.push_back(std::move(record.event));
    return events;
  }
  std::vector<std::string> Phases() {
    std::vector<std::string> phases;
    for (const auto& event : Events()) phases.emplace_back(observe::PhaseName(event.phase));
    return phases;
  }
  // Data files that were written here.
  size_t Outputs() {
    size_t count = 0;
    for (const std::string& key : store_->Keys()) count += key.ends_with(".parquet") ? 1 : 0;
    return count;
  }

  // From now on the hook decides how removals end.
  void FailRemovals(std::function<Status(const std::string& key)> hook) {
    auto over = std::make_shared<storage::FaultyStore>(
        *store_,
        [hook = std::move(hook)](std::string_view op, const std::string& key, bool before)
            -> Status { return op == "Remove" && before ? hook(key) : Status(); });
    if (far_) {
      faulty_ = storage::MakeStoreLocations(
          std::make_shared<FarStore>(std::move(over), batches_, skew_), "s3", "b");
      return;
    }
    faulty_ = storage::MakeStoreLocations(std::move(over), "s3", "b");
  }

  // Of the files a1 to a4 the first fails once, the next always, the third for good.
  std::map<std::string, int> I21Run() {
    Fill(40);
    EXPECT_EQ(Rewrite(Request()).value().status, RewriteStatus::kCommitted);
    Append({Data("late", 10, 1)});
    for (const std::string name : {"a1", "a2", "a3", "a4"}) {
      EXPECT_TRUE(store_->PutNew("t/data/" + name, "x"));
    }
    plan::ExpireOptions options;
    options.older_than = clock_.Now() + std::chrono::hours(1);
    const auto all = Job().ExpireSnapshots(ident_, options, true, cancel_).value();
    std::map<std::string, int> tried;
    FailRemovals([&tried](const std::string& key) -> Status {
      const int tries = ++tried[key];
      if (key == "t/data/a1" && tries == 1) return Fail(Code::kTransient, "slow down");
      if (key == "t/data/a2") return Fail(Code::kTransient, "slow down");
      if (key == "t/data/a3") return Fail(Code::kDenied, "not that one");
      return {};
    });
    const auto removed = Job().ExpireSnapshots(ident_, options, false, cancel_).value();
    EXPECT_EQ(removed.files_removed, all.files_removed - 2);
    EXPECT_EQ(std::ssize(removed.files), removed.files_removed);
    EXPECT_EQ(removed.by_kind.at("data"), 78);
    EXPECT_EQ(removed.failed.size(), 2u);
    if (removed.failed.size() == 2u) {
      EXPECT_THAT(removed.failed[0].ToString(), HasSubstr("s3://b/t/data/a3: not that one"));
      EXPECT_THAT(removed.failed[1].ToString(), HasSubstr("s3://b/t/data/a2: slow down"));
    }
    EXPECT_FALSE(store_->Stat("t/data/a1"));
    EXPECT_TRUE(store_->Stat("t/data/a2"));
    EXPECT_TRUE(store_->Stat("t/data/a3"));
    EXPECT_FALSE(store_->Stat("t/data/a4"));
    return tried;
  }

  std::vector<size_t> batches_;  // Of removals, where the store is far.
  bool far_ = false;
  Duration skew_{};                             // Of the far store's clock.
  std::unique_ptr<storage::Locations> faulty_;  // Null: nothing fails.
  CountingRunner::State runner_;
  ToldCatalog told_{catalog_};
  std::unique_ptr<observe::AuditLog> audit_ = observe::OpenMemoryAuditLog();
  std::unique_ptr<observe::Progress> progress_ =
      observe::MakeProgress(2, observe::ProgressMode::kNone, clock_, "test");
  int commits_ = 0;
};

// --- memory ----------------------------------------------------------------------------------

// As many groups at once as pay for what a writer holds with a quarter of their share.
TEST_F(IcebergProcedures, FewerGroupsAtOnceWhereWritersHoldMuch) {
  Fill(8);
  for (const auto& [bytes, at_once] :
       {std::pair<int64_t, int>{0, 8}, {32 * kMiB, 8}, {48 * kMiB, 5}, {kGiB, 1}}) {
    faulty_ =
        storage::MakeStoreLocations(std::make_shared<HoldingStore>(*store_, bytes), "s3", "b");
    std::mutex mutex;
    std::set<int64_t> memory;
    std::set<int> threads;
    runner_.fail = [&](const rewrite::GroupRequest& request) -> std::optional<Error> {
      const std::lock_guard lock(mutex);
      memory.insert(request.memory_bytes);
      threads.insert(request.threads);
      return Error{Code::kUnsupported, "only looked at", {}, {}};
    };
    runner_.runs = 0;
    IcebergSettings settings;
    settings.memory_bytes = kGiB;
    settings.threads = 16;
    EXPECT_FALSE(IcebergJob(Services(), settings).RewriteDataFiles(Request(), cancel_));
    EXPECT_EQ(runner_.runs, 8);
    EXPECT_EQ(memory, std::set<int64_t>{kGiB / at_once});
    EXPECT_EQ(threads, std::set<int>{16 / at_once});
    if (bytes < kGiB) {
      EXPECT_GE(kGiB / at_once / 4, bytes);
    }
  }
}

// Of two groups one loads at a time, so that it reads while the other writes.
TEST_F(IcebergProcedures, GroupsTakeTurnsAtLoading) {
  Fill(4);
  std::mutex mutex;
  int free = 0;
  int taken = 0;
  std::vector<Turns::Turn> held;
  runner_.fail = [&](const rewrite::GroupRequest& request) -> std::optional<Error> {
    CancelFlag at_once;
    at_once.Request();
    const std::lock_guard lock(mutex);
    if (auto turn = request.turn_to_load(at_once)) {
      ++free;
      held.push_back(std::move(*turn));  // Until another one has asked.
    } else {
      ++taken;
      held.clear();
    }
    return std::nullopt;
  };
  IcebergSettings settings;
  settings.memory_bytes = kGiB;
  settings.threads = 2;
  EXPECT_TRUE(IcebergJob(Services(), settings).RewriteDataFiles(Request(), cancel_));
  EXPECT_EQ(free, 2);
  EXPECT_EQ(taken, 2);
}

// --- partial progress ------------------------------------------------------------------------

TEST_F(IcebergProcedures, R121EveryCommitOfPartialProgressIsNamed) {
  Fill(3);
  RewriteRequest request = Request();
  request.partial_progress = true;
  const RewriteResult result = Rewrite(request).value();
  EXPECT_EQ(result.status, RewriteStatus::kCommitted);
  std::vector<int64_t> ours;
  for (const auto& snapshot : Load().metadata.snapshots) {
    if (snapshot.summary.at("operation") == "replace") ours.push_back(snapshot.snapshot_id);
  }
  ASSERT_EQ(ours.size(), 3u);
  EXPECT_EQ(result.snapshot_ids, ours);
  EXPECT_EQ(result.snapshot_id, ours[2]);
  const auto events = Events();
  ASSERT_THAT(Phases(), ElementsAre("intent", "committed", "committed", "committed"));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i + 1].snapshot_id, ours[i]);
    EXPECT_EQ(events[i + 1].rows, 20);  // Its own.
    EXPECT_EQ(events[i + 1].bytes_in, 200);
    EXPECT_EQ(events[i + 1].bytes_out, 100);
  }
}

TEST_F(IcebergProcedures, R302PartialProgressThatEndsUnknownSaysWhatLanded) {
  Fill(4);
  RewriteRequest request = Request();
  request.partial_progress = true;
  FaultFrom(2, Fault::kLostBeforeApply);
  const auto result = Rewrite(request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnknownOutcome);
  const auto& snapshots = Load().metadata.snapshots;
  ASSERT_EQ(snapshots.size(), 3u);
  const std::string landed = "snapshots " + std::to_string(snapshots[1].snapshot_id) + ", " +
                             std::to_string(snapshots[2].snapshot_id);
  EXPECT_THAT(result.error().ToString(), HasSubstr(landed));
  const auto events = Events();
  ASSERT_THAT(Phases(), ElementsAre("intent", "committed", "committed", "unknown"));
  EXPECT_EQ(events[1].snapshot_id, snapshots[1].snapshot_id);
  EXPECT_EQ(events[2].snapshot_id, snapshots[2].snapshot_id);
  EXPECT_EQ(events[3].snapshot_id, 0);
  EXPECT_EQ(events[3].rows, 0);
  EXPECT_THAT(events[3].error, HasSubstr(landed));
  // Two are the table's, one is in doubt, and the fourth was never tried.
  EXPECT_EQ(Outputs(), 3u);
}

TEST_F(IcebergProcedures, R121PartialProgressThatFailsLateSaysWhatLanded) {
  Fill(3);
  RewriteRequest request = Request();
  request.partial_progress = true;
  FaultFrom(1, Fault::kDenied);
  const RewriteResult result = Rewrite(request).value();
  EXPECT_EQ(result.status, RewriteStatus::kPartial);
  EXPECT_THAT(result.snapshot_ids, ElementsAre(Head().snapshot_id));
  EXPECT_THAT(result.reason, HasSubstr("told to deny"));
  EXPECT_EQ(Outputs(), 1u);
}

// --- dry runs ----------------------------------------------------------------------------------

TEST_F(IcebergProcedures, ADryRunExplainsTheTiersOfEachGroup) {
  Fill(2);
  runner_.fail = [](const rewrite::GroupRequest& group) -> std::optional<Error> {
    if (!group.inputs.front().key.ends_with("a2")) return std::nullopt;
    return Error{Code::kUnsupported, "told so", "", ""};
  };
  RewriteRequest request = Request();
  request.dry_run = true;
  const RewriteResult result = Rewrite(request).value();
  EXPECT_EQ(result.status, RewriteStatus::kPlanned);
  ASSERT_EQ(result.tier_plans.size(), 2u);
  ASSERT_TRUE(result.tier_plans[0]);
  EXPECT_EQ(result.tier_plans[0]->row_groups, 2);
  EXPECT_FALSE(result.tier_plans[1]);
  EXPECT_THAT(result.notes, ElementsAre("a rewrite would fail: unsupported: told so"));
  EXPECT_EQ(runner_.runs, 0);
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(IcebergProcedures, ADryRunOpensABoundedNumberOfFilesToExplainTiers) {
  Create();
  std::vector<iceberg::DataFile> files;
  for (int i = 0; i < 10'000; ++i) files.push_back(Data("a" + std::to_string(i), 10, 1));
  for (int i = 0; i < 2; ++i) files.push_back(Data("b" + std::to_string(i), 10, 2));
  Append(files);
  RewriteRequest request = Request();
  request.dry_run = true;
  const RewriteResult result = Rewrite(request).value();
  ASSERT_EQ(result.tier_plans.size(), 2u);
  EXPECT_EQ(result.tier_plans[0]->row_groups, 10'000);
  EXPECT_FALSE(result.tier_plans[1]);
  EXPECT_THAT(result.notes, ElementsAre("tiers are not explained: 10,000 files were opened for "
                                        "others; ask for fewer at once"));
}

// --- conflicts that planning again does not solve ----------------------------------------------

TEST_F(IcebergProcedures, R118ACatalogThatRefusesAnUnchangedTableIsNotPlannedForAgain) {
  Fill(1);
  FaultFrom(0, Fault::kConflict);
  const auto result = Rewrite(Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kConflict);
  EXPECT_THAT(result.error().ToString(), HasSubstr("although the table did not change"));
  EXPECT_EQ(runner_.runs, 1);
  EXPECT_EQ(told_.commits, 4);
  EXPECT_EQ(Outputs(), 0u);
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted"));
}

// At the first question, or right before sending: nothing of the job is left.
TEST_F(IcebergProcedures, Q14WhoseTokenEndsTooSoonLeavesNothing) {
  Fill(2);
  const auto before = store_->Keys();
  const int64_t head = Head().snapshot_id;
  for (const int denied_from : {1, 2}) {
    told_.asked = 0;
    told_.denied_from = denied_from;
    runner_.runs = 0;
    const auto result = Rewrite(Request());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kDenied);
    EXPECT_THAT(result.error().ToString(), HasSubstr("token expires before the commit"));
    EXPECT_EQ(told_.asked, denied_from);
    EXPECT_EQ(runner_.runs, 2);
    EXPECT_EQ(told_.commits, 0);
    EXPECT_EQ(store_->Keys(), before);
    EXPECT_EQ(Head().snapshot_id, head);
  }
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted", "intent", "aborted"));
}

// What was sent before may still land.
TEST_F(IcebergProcedures, Q14AfterALostAnswerNothingIsRemoved) {
  Fill(1);
  told_.denied_from = 3;
  FaultFrom(0, Fault::kLostBeforeApply);
  const auto result = Rewrite(Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnknownOutcome);
  EXPECT_THAT(result.error().ToString(), HasSubstr("token expires before the commit"));
  EXPECT_EQ(told_.commits, 1);
  EXPECT_EQ(Outputs(), 1u);
}

TEST_F(IcebergProcedures, Q14AnExpiryIsNotSentEither) {
  Fill(1);
  Append({Data("late", 10, 1)});
  told_.denied_from = 1;
  plan::ExpireOptions options;
  options.older_than = clock_.Now() + std::chrono::hours(1);
  const size_t snapshots = Load().metadata.snapshots.size();
  const auto result = Job().ExpireSnapshots(ident_, options, false, cancel_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDenied);
  EXPECT_EQ(told_.commits, 0);
  EXPECT_EQ(Load().metadata.snapshots.size(), snapshots);
}

TEST_F(IcebergProcedures, R115ATableThatTookTheNameIsNotRewritten) {
  Fill(1);
  told_.replace_at_commit = true;
  const auto result = Rewrite(Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kConflict);
  EXPECT_THAT(result.error().ToString(), HasSubstr("another table has this name now"));
  EXPECT_EQ(runner_.runs, 1);
  EXPECT_EQ(told_.commits, 1);
  EXPECT_EQ(Outputs(), 0u);
}

// --- expire_snapshots --------------------------------------------------------------------------

// Names of half a kilobyte each in half of the memory: 20 of 160 at a time.
TEST_F(IcebergProcedures, ExpiryLooksAtSharesOfTheNamesWhereMemoryIsShort) {
  constexpr int64_t kShort = 20 << 10;
  Fill(40);
  ASSERT_EQ(Rewrite(Request()).value().status, RewriteStatus::kCommitted);
  Append({Data("late", 10, 1)});
  audit_ = observe::OpenMemoryAuditLog();
  plan::ExpireOptions options;
  options.older_than = clock_.Now() + std::chrono::hours(1);
  const auto all = Job().ExpireSnapshots(ident_, options, true, cancel_).value();
  const auto shares = Job(kShort).ExpireSnapshots(ident_, options, true, cancel_).value();
  EXPECT_EQ(all.snapshots_removed, 2);
  EXPECT_EQ(all.by_kind.at("data"), 80);
  EXPECT_EQ(shares.files, all.files);
  EXPECT_EQ(shares.by_kind, all.by_kind);
  EXPECT_EQ(shares.files_removed, std::ssize(all.files));

  auto removed = Job(kShort).ExpireSnapshots(ident_, options, false, cancel_).value();
  EXPECT_EQ(removed.by_kind, all.by_kind);
  EXPECT_EQ(Outputs(), 40u);
  std::vector<std::string> recorded;
  size_t passes = 0;
  for (const auto& event : Events()) {
    if (event.phase != Phase::kCollected) continue;
    ++passes;
    recorded.insert(recorded.end(), event.inputs.begin(), event.inputs.end());
    // What names files goes when all that it names are gone.
    const bool lists = std::ranges::any_of(
        event.inputs, [](const std::string& path) { return path.ends_with(".avro"); });
    EXPECT_EQ(lists, recorded.size() == all.files.size());
  }
  EXPECT_GT(passes, 4u);
  std::ranges::sort(recorded);
  EXPECT_EQ(recorded, all.files);
  std::ranges::sort(removed.files);
  EXPECT_EQ(removed.files, all.files);
}

TEST(PassesFor, ASharePerPassAndNeverWithoutEnd) {
  EXPECT_EQ(PassesFor(0, kGiB), 1u);
  EXPECT_EQ(PassesFor(1'000'000, kGiB), 1u);
  EXPECT_EQ(PassesFor(160, 20 << 10), 9u);
  EXPECT_EQ(PassesFor(std::numeric_limits<int64_t>::max(), 1), 1000u);
  EXPECT_EQ(PassesFor(-1, kGiB), 1u);
}

// What was removed is counted as it was, what was not is named, and what may pass is tried again.
TEST_F(IcebergProcedures, I21RemovalsThatFailAreNamedAndTriedAgain) {
  auto tried = I21Run();
  EXPECT_EQ(tried["t/data/a1"], 2);
  EXPECT_EQ(tried["t/data/a2"], 4);
  EXPECT_EQ(tried["t/data/a3"], 1);
}

// Where each request is a round trip, many go with one; what names others goes after them.
TEST_F(IcebergProcedures, I21RemovalsOfAFarStoreGoTogether) {
  far_ = true;
  auto tried = I21Run();
  EXPECT_EQ(tried["t/data/a1"], 2);
  EXPECT_EQ(tried["t/data/a2"], 4);
  EXPECT_EQ(tried["t/data/a3"], 1);
  ASSERT_EQ(batches_.size(), 6u);
  EXPECT_EQ(batches_[0], 80u);
  EXPECT_EQ(batches_[3], 2u);  // Again.
  EXPECT_EQ(batches_[5], 1u);
}

// R184: the names are long enough not to survive a careless move.
TEST_F(IcebergProcedures, R184OrphansOfAFarStoreAreLookedAtAgain) {
  far_ = true;
  Fill(300);
  const std::string base = "t/data/an-orphan-with-a-name-of-more-than-some-letters-";
  for (int i = 0; i < 250; ++i) ASSERT_TRUE(store_->PutNew(base + std::to_string(i), "x"));
  clock_.Sleep(std::chrono::hours(100));
  const std::string replaced = base + "7";
  bool once = false;
  FailRemovals([&](const std::string&) -> Status {
    // A writer comes with another file under a name that was listed, before its batch's turn.
    if (!std::exchange(once, true)) {
      EXPECT_TRUE(store_->Remove(replaced));
      EXPECT_TRUE(store_->PutNew(replaced, "another"));
    }
    return {};
  });
  plan::OrphanOptions options;
  options.force = true;
  const auto removed = Job().RemoveOrphanFiles(ident_, options, false, cancel_);
  ASSERT_TRUE(removed) << removed.error().ToString();
  EXPECT_EQ(removed->files_removed, 249);
  EXPECT_THAT(removed->notes, testing::Contains(HasSubstr("it changed since it was listed")));
  EXPECT_EQ(store_->Get(replaced, 100)->bytes, "another");
  EXPECT_FALSE(store_->Stat(base + "249"));
  EXPECT_EQ(batches_, (std::vector<size_t>{100, 100, 49}));
}

// By a clock that is wrong, files of today are old.
TEST_F(IcebergProcedures, NothingIsRemovedByAWrongClock) {
  far_ = true;
  Fill(40);
  ASSERT_EQ(Rewrite(Request()).value().status, RewriteStatus::kCommitted);
  ASSERT_TRUE(store_->PutNew("t/data/orphan", "x"));
  clock_.Sleep(std::chrono::hours(100));
  FailRemovals([](const std::string&) { return Status(); });
  plan::ExpireOptions expire;
  expire.older_than = clock_.Now();
  for (const Duration skew : {std::chrono::minutes(5), std::chrono::minutes(-5)}) {
    skew_ = skew;
    const auto orphans = Job().RemoveOrphanFiles(ident_, {}, false, cancel_);
    ASSERT_FALSE(orphans);
    EXPECT_THAT(orphans.error().ToString(), HasSubstr("the store's clock is 5 min"));
    const auto expired = Job().ExpireSnapshots(ident_, expire, false, cancel_);
    ASSERT_FALSE(expired);
    EXPECT_EQ(expired.error().code, Code::kInvalid);
    EXPECT_TRUE(store_->Stat("t/data/orphan"));
  }
  skew_ = std::chrono::minutes(3);
  EXPECT_EQ(Job().RemoveOrphanFiles(ident_, {}, false, cancel_)->files_removed, 1);
}

// --- the audit log -----------------------------------------------------------------------------

TEST_F(IcebergProcedures, R168ATableThatTheCatalogWithholdsIsOnRecord) {
  Fill(1);
  const std::map<std::string, std::function<Error()>> calls = {
      {"rewrite_data_files", [&] { return Rewrite(Request()).error(); }},
      {"table_health", [&] { return Job().GetTableHealth(ident_, {}).error(); }},
      {"expire_snapshots",
       [&] { return Job().ExpireSnapshots(ident_, {}, false, cancel_).error(); }},
      {"remove_orphan_files",
       [&] { return Job().RemoveOrphanFiles(ident_, {}, true, cancel_).error(); }},
      {"rewrite_manifests", [&] { return Job().RewriteManifests(ident_, cancel_).error(); }},
      {"rollback_to_snapshot", [&] { return Job().RollbackToSnapshot(ident_, 1).error(); }},
  };
  for (const Code code : {Code::kDenied, Code::kNotFound}) {
    told_.load_errors[ident_] = code;
    for (const auto& [procedure, call] : calls) {
      audit_ = observe::OpenMemoryAuditLog();
      EXPECT_EQ(call().code, code) << procedure;
      const auto events = Events();
      ASSERT_EQ(events.size(), 1u) << procedure;
      EXPECT_EQ(events[0].phase, Phase::kAborted);
      EXPECT_EQ(events[0].procedure, procedure);
      EXPECT_EQ(events[0].table, "sales.orders");
      EXPECT_EQ(events[0].catalog, "told:");
      EXPECT_EQ(events[0].actor, "alice");
      EXPECT_EQ(events[0].job_id.size(), 36u);
      EXPECT_THAT(events[0].error, StartsWith(std::string(CodeName(code)) + ": "));
      EXPECT_THAT(events[0].error, HasSubstr("told so"));
    }
  }
  // A catalog that cannot be reached has refused nobody.
  told_.load_errors[ident_] = Code::kTransient;
  audit_ = observe::OpenMemoryAuditLog();
  for (const auto& [procedure, call] : calls) EXPECT_EQ(call().code, Code::kTransient);
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(IcebergProcedures, R178NothingIsOnRecordOfACallThatFindsNothingToDo) {
  Create();
  Append({Data("a"), Data("b")});
  const int64_t head = Head().snapshot_id;
  EXPECT_EQ(Job().RewriteManifests(ident_, cancel_)->snapshot_id, std::nullopt);
  EXPECT_EQ(*Job().RollbackToSnapshot(ident_, head), head);
  EXPECT_EQ(Head().snapshot_id, head);
  EXPECT_THAT(Events(), IsEmpty());

  Append({Data("c")});
  const auto merged = Job().RewriteManifests(ident_, cancel_);
  ASSERT_TRUE(merged) << merged.error().ToString();
  EXPECT_EQ(merged->rewritten, 2);
  ASSERT_THAT(Phases(), ElementsAre("intent", "committed"));
  EXPECT_EQ(Events()[0].job_id, merged->job_id);
  EXPECT_EQ(Events()[1].snapshot_id, merged->snapshot_id);
  EXPECT_TRUE(Job().RollbackToSnapshot(ident_, head));
  ASSERT_THAT(Phases(), ElementsAre("intent", "committed", "intent", "committed"));
  EXPECT_EQ(Events()[3].snapshot_id, head);
  EXPECT_FALSE(Job().RollbackToSnapshot(ident_, 12345));
  EXPECT_EQ(Phases().back(), "aborted");
}

TEST_F(IcebergProcedures, R056AChangeOfPropertiesIsOnRecordAsWhatItWas) {
  Create();
  const auto set = [this] { return Job().ChangeProperties(ident_, {{"a", "1"}}, {}); };
  EXPECT_TRUE(set().value().changed);
  EXPECT_THAT(Phases(), ElementsAre("intent", "committed"));
  EXPECT_EQ(Events()[1].error, "");
  // So already: nothing is sent, nothing is on record.
  EXPECT_FALSE(set().value().changed);
  EXPECT_EQ(Phases().size(), 2u);
  FaultFrom(0, Fault::kDenied);
  EXPECT_EQ(Job().ChangeProperties(ident_, {{"a", "2"}}, {}).error().code, Code::kDenied);
  EXPECT_THAT(Phases(), ElementsAre("intent", "committed", "intent", "aborted"));
}

// R305: that there is nothing to change, or nothing that the catalog would see, is no right to it.
TEST_F(IcebergProcedures, R305TheCatalogIsAskedWhereNoCommitWouldAskIt) {
  Create();
  ASSERT_TRUE(Job().ChangeProperties(ident_, {{"a", "1"}}, {}));
  ASSERT_TRUE(store_->PutNew("t/data/orphan", "x"));
  clock_.Sleep(std::chrono::hours(100));
  plan::OrphanOptions options;
  options.force = true;
  told_.may_write = false;
  audit_ = observe::OpenMemoryAuditLog();
  const auto unchanged = Job().ChangeProperties(ident_, {{"a", "1"}}, {"never"});
  ASSERT_FALSE(unchanged);
  EXPECT_EQ(unchanged.error().code, Code::kDenied);
  EXPECT_THAT(Phases(), ElementsAre("aborted"));
  const auto orphans = Job().RemoveOrphanFiles(ident_, options, false, cancel_);
  ASSERT_FALSE(orphans);
  EXPECT_EQ(orphans.error().code, Code::kDenied);
  EXPECT_THAT(Phases(), ElementsAre("aborted", "aborted"));
  EXPECT_TRUE(store_->Stat("t/data/orphan"));
  // To look is no change.
  EXPECT_EQ(Job().RemoveOrphanFiles(ident_, options, true, cancel_)->files_removed, 1);
  told_.may_write = true;
  EXPECT_EQ(Job().RemoveOrphanFiles(ident_, options, false, cancel_)->files_removed, 1);
}

TEST_F(IcebergProcedures, R056AMergeOfManifestsThatFailsIsOnRecord) {
  Create();
  Append({Data("a")});
  Append({Data("b")});
  FaultFrom(0, Fault::kDenied);
  EXPECT_EQ(Job().RewriteManifests(ident_, cancel_).error().code, Code::kDenied);
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted"));
  FaultFrom(0, Fault::kLostBeforeApply);
  EXPECT_EQ(Job().RewriteManifests(ident_, cancel_).error().code, Code::kUnknownOutcome);
  EXPECT_THAT(Phases(), ElementsAre("intent", "aborted", "intent", "unknown"));
}

// --- errors ------------------------------------------------------------------------------------

// A file that is gone is a conflict if the table moved on, and lost if it did not. Where the
// catalog does not answer, neither is known.
TEST_F(IcebergProcedures, I9AFileThatIsGoneIsNotCalledLostUnseen) {
  Fill(1);
  for (const std::string& key : store_->Keys()) {
    if (key.ends_with(".avro")) {
      ASSERT_TRUE(store_->Remove(key));
    }
  }
  const auto lost = Job().GetTableHealth(ident_, {});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kNotFound);

  MemoryCatalog::Hooks hooks;
  hooks.before_load = [&](const TableIdent&) { told_.load_errors[ident_] = Code::kTransient; };
  catalog_.set_hooks(std::move(hooks));
  const auto unseen = Job().GetTableHealth(ident_, {});
  ASSERT_FALSE(unseen);
  EXPECT_EQ(unseen.error().code, Code::kTransient);
  EXPECT_THAT(unseen.error().message, HasSubstr(".avro"));
}

TEST_F(IcebergProcedures, DamagedFilesAreNamedByTheirLocationAndWithAWayOut) {
  Fill(1);
  runner_.fail = [](const rewrite::GroupRequest& request) {
    return Error{Code::kCorrupt, "the file is cut off", request.inputs[1].key + ": column id",
                 "move it out of the partition"};
  };
  const auto result = Rewrite(Request());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().context, Path("b1") + ": column id");
  EXPECT_THAT(result.error().hint, HasSubstr("roll back to a snapshot without it"));
  EXPECT_THAT(result.error().hint, Not(HasSubstr("partition")));

  // An output has a location, too, and a hint of its own stays.
  runner_.fail = [](const rewrite::GroupRequest& request) {
    return Error{Code::kLimit, "no space left", request.partition + "x.parquet", "make room"};
  };
  const auto full = Rewrite(Request());
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().context, commit::kRoot + "/data/day=1/x.parquet");
  EXPECT_EQ(full.error().hint, "make room");
}

// --- remove_orphan_files -----------------------------------------------------------------------

class Neighbours : public IcebergProcedures {
 protected:
  void SetUp() override {
    Create();
    Append({Data("a")});
  }
  // A table of its own, whose metadata can be read, with these members of its metadata.
  void Neighbour(const std::string& location, const std::string& properties = {}) {
    const Status created = catalog_.CreateTable(
        other_,
        R"({"format-version":2,"table-uuid":"0b7a3c1e-3a3e-4b7c-9a52-1f2d9c0f8a11","location":")" +
            location +
            R"(","last-updated-ms":1,"last-column-id":0,"last-sequence-number":0,"schemas":[)"
            R"({"schema-id":0,"type":"struct","fields":[]}],"current-schema-id":0,)"
            R"("partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,)"
            R"("last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],)"
            R"("default-sort-order-id":0,"snapshots":[],"properties":{)" +
            R"("write.metadata.path":"s3://b/elsewhere/metadata")" + properties + "}}");
    ASSERT_TRUE(created) << created.error().ToString();
  }
  Result<RemovedFiles> Sweep() {
    return Job().RemoveOrphanFiles(ident_, {}, /*dry_run=*/true, cancel_);
  }

  const TableIdent other_{{"sales"}, "other"};
};

TEST_F(Neighbours, R188ATableInAnotherStorageIsNoNeighbour) {
  Neighbour("file:///lake/other");
  const auto swept = Sweep();
  ASSERT_TRUE(swept) << swept.error().ToString();
  EXPECT_THAT(swept->notes, IsEmpty());
}

TEST_F(Neighbours, R188ATableWhoseMetadataIsInAnotherStorageIsNoNeighbour) {
  Neighbour("s3://b/apart");
  told_.load_errors[other_] = Code::kUnsupported;
  told_.metadata[other_] = "file:///lake/other/metadata/00001-x.metadata.json";
  const auto swept = Sweep();
  ASSERT_TRUE(swept) << swept.error().ToString();
  ASSERT_EQ(swept->notes.size(), 1u);
  EXPECT_THAT(swept->notes[0], HasSubstr("1 other tables are in another storage"));
  // In this storage, or one that nobody knows, it might be here.
  for (const char* doubt : {"s3://b/t/metadata/x.json", "dbfs:/t/metadata/x.json"}) {
    told_.metadata[other_] = doubt;
    const auto refused = Sweep();
    ASSERT_FALSE(refused) << doubt;
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_THAT(refused.error().ToString(), HasSubstr("sales.other"));
    EXPECT_THAT(refused.error().hint, HasSubstr("nothing was removed"));
  }
}

TEST_F(Neighbours, R183WhereItIsInDoubtTheTableIsNamed) {
  Neighbour("s3://b/apart", R"(,"write.data.path":"s3://other-bucket/t")");
  const auto swept = Sweep();
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().code, Code::kDenied);
  EXPECT_THAT(swept.error().message, HasSubstr("table sales.other uses s3://other-bucket/t"));
  EXPECT_THAT(swept.error().hint, HasSubstr("nothing was removed"));
  EXPECT_THAT(swept.error().hint, HasSubstr("set the location of table sales.other"));
  EXPECT_THAT(swept.error().hint, HasSubstr(commit::kRoot));
}

TEST_F(Neighbours, I18OverlapIsRefused) {
  Neighbour("s3a://b/t/inner");
  const auto swept = Sweep();
  ASSERT_FALSE(swept);
  EXPECT_THAT(swept.error().message, HasSubstr("overlaps " + commit::kRoot));
}

// What is named percent-encoded stays, whichever of the two files is meant.
TEST_F(IcebergProcedures, I18BothReadingsOfALocationAreKept) {
  std::vector<std::string> seen;
  const auto visit = BothReadings([&](const std::string& path, FileKind) { seen.push_back(path); });
  for (const char* path : {"file:///a b+", "file:///%3Ax%2f%zz%4%", "s3://b/%253A%41"}) {
    visit(path, FileKind::kData);
  }
  EXPECT_THAT(seen, ElementsAre("file:///a b+", "file:///%3Ax%2f%zz%4%", "file:///:x/%zz%4%",
                                "s3://b/%253A%41", "s3://b/%3AA"));

  Create();
  Append({Data("x%3Ay")});
  const IcebergServices services = Services();
  ReachWalk walk(*locations_, cancel_);
  Doomed doomed = {{Path("x%3Ay"), {}}, {Path("x:y"), {}}, {Path("z"), {}}};
  RemovedFiles report;
  const auto removed = RemoveUnreached(services, services.catalog.LoadTable(ident_).value(), walk,
                                       doomed, cancel_, report);
  ASSERT_TRUE(removed) << removed.error().ToString();
  EXPECT_THAT(report.files, ElementsAre(Path("z")));
}

// Now, plus what it was set to.
class LaterClock final : public Clock {
 public:
  Time Now() const override { return SystemClock().Now() + later; }
  Duration Monotonic() const override { return SystemClock().Monotonic(); }
  void Sleep(Duration) override {}
  Duration later = Duration::zero();
};

TEST(OrphansOnDisk, I19AFileThatWasMovedInWithAnOldTimeIsYoung) {
  std::string root = testing::TempDir() + "/orphans-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  root = fs::canonical(root).string();
  LaterClock clock;
  SeededRandom random(7);
  const auto locations = storage::MakeLocalLocations();
  MemoryCatalog catalog(*locations, clock, random);
  const TableIdent ident{{"sales"}, "orders"};
  fs::create_directories(root + "/t/data");
  ASSERT_TRUE(catalog.CreateTable(
      ident,
      R"({"format-version":1,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":")" +
          root +
          R"(/t","last-updated-ms":5,"last-column-id":0,"schema":{"type":"struct","fields":[]},)"
          R"("partition-spec":[]})"));
  const std::string moved = root + "/t/data/moved.parquet";
  std::ofstream(root + "/moved.parquet") << "rows";
  const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (root + "/moved.parquet").c_str(), times, 0), 0);
  fs::rename(root + "/moved.parquet", moved);

  const auto audit = observe::OpenMemoryAuditLog();
  const auto progress = observe::MakeProgress(2, observe::ProgressMode::kNone, clock, "test");
  IcebergJob job({.catalog = catalog,
                  .locations = *locations,
                  .make_runner = {},
                  .clock = clock,
                  .random = random,
                  .audit = *audit,
                  .progress = *progress},
                 {});
  const CancelFlag cancel;
  plan::OrphanOptions options;
  options.force = true;
  auto swept = job.RemoveOrphanFiles(ident, options, false, cancel);
  ASSERT_TRUE(swept) << swept.error().ToString();
  EXPECT_EQ(swept->orphans.young, 1);
  EXPECT_THAT(swept->files, IsEmpty());
  EXPECT_TRUE(fs::exists(moved));

  // Four days later it has been there for four days.
  clock.later = std::chrono::hours(96);
  swept = job.RemoveOrphanFiles(ident, options, false, cancel);
  ASSERT_TRUE(swept) << swept.error().ToString();
  EXPECT_THAT(swept->files, ElementsAre("file://" + moved));
  EXPECT_FALSE(fs::exists(moved));
  fs::remove_all(root);
}

}  // namespace
}  // namespace lithify::job
