// IcebergCommitter::CommitAppend: what is in the table after it, in each outcome.
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using catalog::MemoryCatalog;
using testing::ElementsAre;
using testing::IsEmpty;
using Fault = MemoryCatalog::Fault;

constexpr const char* kUuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1";

class IcebergAppend : public IcebergTable {
 protected:
  AppendCommit Request(const std::string& name, int64_t rows = 10) {
    AppendCommit request;
    request.ident = ident_;
    request.job_id = "0193a1b2-0000-7000-8000-00000000000" + std::to_string(++jobs_);
    request.trigger = "scheduled";
    request.principal = "sqe";
    request.table_uuid = kUuid;
    request.files = {Data(name, rows)};
    EXPECT_TRUE(store_->PutNew("t/data/" + name, std::string(100, 'x')));
    return request;
  }
  Result<CommittedSnapshot> RunAppend(const AppendCommit& request) {
    return Committer().CommitAppend(request, cancel_);
  }
  std::optional<int64_t> Current() { return Load().metadata.current_snapshot_id; }

  // The first commit of the code under test meets the fault; `then` runs before it is answered.
  void FaultOnce(Fault fault, std::function<void()> then = {}) {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this, fault, then](const catalog::TableIdent&) {
      if (std::exchange(faulted_, true)) return Fault::kNone;
      if (then) then();
      return fault;
    };
    catalog_.set_hooks(std::move(hooks));
  }

  int jobs_ = 0;
  bool faulted_ = false;
};

TEST_F(IcebergAppend, TheFirstSnapshotOfATable) {
  Create();
  AppendCommit request = Request("a", 7);
  request.expected = AppendCommit::Head{};
  const auto done = RunAppend(request);
  ASSERT_TRUE(done) << done.error().ToString();
  const iceberg::Snapshot head = Head();
  EXPECT_EQ(head.snapshot_id, done->snapshot_id);
  EXPECT_EQ(head.parent_snapshot_id, std::nullopt);
  EXPECT_EQ(head.sequence_number, 1);
  const std::map<std::string, std::string> summary = {
      {"operation", "append"},
      {"engine-name", "lithify"},
      {"added-data-files", "1"},
      {"added-records", "7"},
      {"added-files-size", "100"},
      {"changed-partition-count", "1"},
      {"total-data-files", "1"},
      {"total-records", "7"},
      {"total-files-size", "100"},
      {"total-delete-files", "0"},
      {"total-position-deletes", "0"},
      {"total-equality-deletes", "0"},
      {"manifests-created", "1"},
      {"manifests-kept", "0"},
      {"manifests-replaced", "0"},
      {"lithify.job-id", request.job_id},
      {"lithify.trigger", "scheduled"},
      {"lithify.principal", "sqe"},
      {"lithify.commit-id", head.summary.at("lithify.commit-id")}};
  EXPECT_EQ(head.summary, summary);
  const Entries live = Live();
  ASSERT_EQ(live.size(), 1);
  EXPECT_EQ(live.at("a").sequence_number, 1);
  EXPECT_EQ(live.at("a").snapshot_id, head.snapshot_id);
  EXPECT_EQ(live.at("a").status, iceberg::EntryStatus::kAdded);
}

TEST_F(IcebergAppend, OnTopOfWhatThereIsAndNothingElseChanges) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    ident_.name = "v" + std::to_string(version);
    Create(version);
    const std::string v = std::to_string(version);
    Append({Data("a" + v), Data("b" + v, 5)});
    if (version == 2) Delete({Positions("d" + v, "a" + v)});
    const Entries before = Live();
    const iceberg::Snapshot parent = Head();
    const size_t manifests = Manifests(parent).size();
    AppendCommit request = Request("new" + v, 3);
    request.expected = AppendCommit::Head{parent.snapshot_id};
    const auto done = RunAppend(request);
    ASSERT_TRUE(done) << done.error().ToString();
    const iceberg::Snapshot head = Head();
    EXPECT_EQ(head.parent_snapshot_id, parent.snapshot_id);
    EXPECT_EQ(head.summary.at("operation"), "append");
    EXPECT_EQ(head.summary.at("total-data-files"), "3");
    EXPECT_EQ(Manifests(head).size(), manifests + 1);
    Entries after = Live();
    const auto added = after.extract("new" + v);
    ASSERT_FALSE(added.empty());
    EXPECT_EQ(added.mapped().sequence_number, version == 1 ? 0 : head.sequence_number);
    EXPECT_EQ(after, before);
    if (version < 3) continue;
    // [Row Lineage]: 15 rows came before.
    EXPECT_EQ(head.first_row_id, 15);
    EXPECT_EQ(head.added_rows, 3);
    EXPECT_EQ(added.mapped().file.first_row_id, 15);
    EXPECT_EQ(Load().metadata.next_row_id, 18);
  }
}

TEST_F(IcebergAppend, R152OnAnotherHeadNothingHappens) {
  Create();
  AppendCommit first = Request("a");
  first.expected = AppendCommit::Head{};
  AppendCommit late = Request("late");
  late.expected = AppendCommit::Head{};
  ASSERT_TRUE(RunAppend(first));
  const auto metadata = MetadataKeys();
  ExpectFails(RunAppend(late), Code::kConflict, "there was no snapshot, and there is snapshot");
  EXPECT_THAT(LiveNames(), ElementsAre("a"));
  EXPECT_EQ(MetadataKeys(), metadata);
  late.expected = AppendCommit::Head{Current()};
  EXPECT_TRUE(RunAppend(late));
  EXPECT_THAT(LiveNames(), ElementsAre("a", "late"));
}

// The other commit comes after our look at the table: the catalog refuses.
TEST_F(IcebergAppend, R152ARaceInTheCatalogIsLostOnce) {
  Create();
  AppendCommit ours = Request("ours");
  ours.expected = AppendCommit::Head{};
  AppendCommit theirs = Request("theirs");
  theirs.expected = AppendCommit::Head{};
  FaultOnce(Fault::kNone, [&] { EXPECT_TRUE(RunAppend(theirs)); });
  ExpectFails(RunAppend(ours), Code::kConflict, "somebody else was first");
  EXPECT_THAT(LiveNames(), ElementsAre("theirs"));
}

TEST_F(IcebergAppend, WithoutAnExpectationConflictsAreTriedAgain) {
  Create();
  const AppendCommit ours = Request("ours");
  const AppendCommit theirs = Request("theirs");
  FaultOnce(Fault::kNone, [&] { EXPECT_TRUE(RunAppend(theirs)); });
  const auto done = RunAppend(ours);
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_EQ(done->attempts, 2);
  EXPECT_THAT(LiveNames(), ElementsAre("ours", "theirs"));
}

TEST_F(IcebergAppend, R302ALostReplyIsFoundAlsoWhenOthersFollow) {
  Create();
  AppendCommit ours = Request("ours");
  ours.expected = AppendCommit::Head{};
  AppendCommit theirs = Request("theirs");
  FaultOnce(Fault::kLostAfterApply);
  on_sleep_ = [&, once = false]() mutable {
    if (std::exchange(once, true)) return;
    EXPECT_TRUE(RunAppend(theirs));
  };
  const auto done = RunAppend(ours);
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_TRUE(done->found_after_unknown);
  EXPECT_THAT(LiveNames(), ElementsAre("ours", "theirs"));
}

TEST_F(IcebergAppend, R302ALostRequestIsSentAgainAndNeverTwice) {
  Create();
  AppendCommit ours = Request("ours");
  ours.expected = AppendCommit::Head{};
  FaultOnce(Fault::kLostBeforeApply);
  ASSERT_TRUE(RunAppend(ours));
  EXPECT_THAT(LiveNames(), ElementsAre("ours"));
  // The same request again is the same success.
  const auto again = RunAppend(ours);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_TRUE(again->found_after_unknown);
  EXPECT_THAT(LiveNames(), ElementsAre("ours"));
}

// The first snapshot of a table has no parent to look for: the history that is whole tells.
TEST_F(IcebergAppend, R302ALostFirstSnapshotThatAnotherTookThePlaceOf) {
  Create();
  AppendCommit ours = Request("ours");
  ours.expected = AppendCommit::Head{};
  AppendCommit theirs = Request("theirs");
  FaultOnce(Fault::kLostBeforeApply, [&] { EXPECT_TRUE(RunAppend(theirs)); });
  ExpectFails(RunAppend(ours), Code::kConflict, "somebody else was first");
  EXPECT_THAT(LiveNames(), ElementsAre("theirs"));
  // Nothing of the dead attempt is left but the data file, which is the caller's.
  EXPECT_EQ(MetadataKeys().size(), 2);
  EXPECT_THAT(store_->Keys(), testing::Contains("t/data/ours"));
}

TEST_F(IcebergAppend, R302UnknownWhereTheHistoryIsGone) {
  Create();
  AppendCommit ours = Request("ours");
  ours.expected = AppendCommit::Head{};
  FaultOnce(Fault::kLostBeforeApply, [&] {
    EXPECT_TRUE(RunAppend(Request("b")));
    const int64_t root = *Current();
    EXPECT_TRUE(RunAppend(Request("c")));
    Expire(root);
  });
  ExpectFails(RunAppend(ours), Code::kUnknownOutcome, "may or may not be applied");
}

TEST_F(IcebergAppend, R304WhatTheFilesWereMadeForMustStillBe) {
  Create();
  Append({Data("a")});
  AppendCommit request = Request("b");
  request.schema_id = 1;
  ExpectFails(RunAppend(request), Code::kConflict, "schema changed from 1 to 0");
  request.schema_id = 0;
  request.table_uuid = "6e0f3a6c-8d6f-4d43-9c3c-a5c2c5d9a2f4";
  ExpectFails(RunAppend(request), Code::kConflict, "another table");
  request.table_uuid = kUuid;
  request.branch = "other";
  ExpectFails(RunAppend(request), Code::kConflict, "no branch other");
  request.branch = "main";
  request.files[0].file_size_in_bytes = 99;
  ExpectFails(RunAppend(request), Code::kCorrupt, "100 bytes instead of 99");
  request.files[0] = Data("none");
  ExpectFails(RunAppend(request), Code::kCorrupt, "is gone");
  request.files[0].content = iceberg::FileContent::kEqualityDeletes;
  ExpectFails(RunAppend(request), Code::kInternal, "an append of deletes");
  request.files.clear();
  ExpectFails(RunAppend(request), Code::kInternal, "append of nothing");
  EXPECT_THAT(LiveNames(), ElementsAre("a"));
}

TEST_F(IcebergAppend, I35DeniedLeavesNothingButTheCallersFile) {
  Create();
  FaultOnce(Fault::kDenied);
  ExpectFails(RunAppend(Request("a")), Code::kDenied, "told to deny");
  EXPECT_THAT(MetadataKeys(), IsEmpty());
  EXPECT_EQ(Current(), std::nullopt);
}

}  // namespace
}  // namespace lithify::commit
