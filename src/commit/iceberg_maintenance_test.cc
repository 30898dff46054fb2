// Rewritten manifests, expiry of snapshots, rollback.
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using catalog::MemoryCatalog;
using iceberg::EntryStatus;
using iceberg::ManifestContent;
using testing::ElementsAre;
using testing::HasSubstr;

// --- manifests -----------------------------------------------------------------------------------

class IcebergManifests : public IcebergTable {
 protected:
  Result<IcebergCommitter::ManifestRewriteResult> Merge(std::optional<int> spec_id = {},
                                                        int64_t target = int64_t{8} << 20) {
    IcebergCommitter::ManifestRewrite request;
    request.ident = ident_;
    request.job_id = "job-" + std::to_string(++jobs_);
    request.spec_id = spec_id;
    request.target_size_bytes = target;
    return Committer().RewriteManifests(request, cancel_);
  }

  // Everything about each live file but the status, which becomes EXISTING.
  Entries AsExisting(Entries entries) {
    for (auto& [name, entry] : entries) entry.status = EntryStatus::kExisting;
    return entries;
  }

  int jobs_ = 0;
};

TEST_F(IcebergManifests, I10MergedEntriesKeepTheirNumbers) {
  Create();
  Append({Data("a"), Data("b")});
  Append({Data("c", 10, 2)});
  Delete({Equality("e")});
  ASSERT_TRUE(Run(Plan({"a", "b"})));  // Data sequence 3 in a snapshot of sequence 4.
  Delete({Positions("p", "out")});
  const Entries before = Live();
  EXPECT_EQ(before.at("out").sequence_number, 3);
  EXPECT_EQ(before.at("out").file_sequence_number, 4);

  const auto result = Merge().value();
  EXPECT_EQ(result.rewritten, 4);  // The fifth had nothing live: dropped on the way.
  EXPECT_EQ(result.added, 2);
  EXPECT_EQ(result.snapshot_id, Head().snapshot_id);
  EXPECT_EQ(Manifests(Head()).size(), 2u);
  EXPECT_EQ(Live(), AsExisting(before));
  for (const iceberg::ManifestFile& manifest : Manifests(Head())) {
    const bool data = manifest.content == ManifestContent::kData;
    EXPECT_EQ(manifest.min_sequence_number, data ? 2 : 3);
    EXPECT_EQ(manifest.sequence_number, 6);
    EXPECT_EQ(manifest.added_files_count, 0);
  }
  const auto summary = Head().summary;
  EXPECT_EQ(summary.at("operation"), "replace");
  EXPECT_EQ(summary.at("manifests-replaced"), "4");
  EXPECT_EQ(summary.at("entries-processed"), "4");
  EXPECT_EQ(summary.at("total-data-files"), "2");
  EXPECT_EQ(summary.at("lithify.job-id"), "job-1");
  EXPECT_FALSE(summary.contains("sqe.maintenance.job-id"));  // R078: no compaction.
}

TEST_F(IcebergManifests, NothingToGainIsNoCommit) {
  Create();
  EXPECT_FALSE(Merge().value().snapshot_id);  // No snapshot at all.
  Append({Data("a")});
  EXPECT_FALSE(Merge().value().snapshot_id);
  Append({Data("b")});
  EXPECT_TRUE(Merge().value().snapshot_id);
  const std::set<std::string> keys = MetadataKeys();
  EXPECT_FALSE(Merge().value().snapshot_id);  // The fixed point.
  EXPECT_EQ(MetadataKeys(), keys);
}

TEST_F(IcebergManifests, MergedBySomebodyElseMeanwhileIsNothingToGain) {
  Create();
  Append({Data("a")});
  Append({Data("b")});
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) {
      EXPECT_TRUE(Merge().value().snapshot_id);
    }
  };
  catalog_.set_hooks(std::move(hooks));
  const auto merged = Merge().value();
  EXPECT_FALSE(merged.snapshot_id);
  EXPECT_EQ(merged.rewritten, 0);
  EXPECT_EQ(merged.added, 0);
  EXPECT_EQ(Load().metadata.snapshots.size(), 3u);
}

TEST_F(IcebergManifests, I8SameRequestAgainTellsTheSame) {
  Create();
  Append({Data("a")});
  Append({Data("b")});
  const auto first = Merge().value();
  --jobs_;
  const auto again = Merge().value();
  EXPECT_EQ(again.snapshot_id, first.snapshot_id);
  EXPECT_EQ(first.rewritten, 2);
  EXPECT_EQ(again.rewritten, 2);
  EXPECT_EQ(first.added, 1);
  EXPECT_EQ(again.added, 1);
}

TEST_F(IcebergManifests, SpecsStayApartAndMayBeChosen) {
  Create();
  for (const char* name : {"a", "b", "c"}) Append({Data(name)});
  for (const char* name : {"x", "y"}) Append({Unpartitioned(Data(name))});
  const auto result = Merge(1).value();
  EXPECT_EQ(result.rewritten, 2);
  EXPECT_EQ(result.added, 1);
  EXPECT_EQ(Manifests(Head()).size(), 4u);
  EXPECT_EQ(Merge().value().rewritten, 3);
  EXPECT_EQ(Manifests(Head()).size(), 2u);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c", "x", "y"));
}

TEST_F(IcebergManifests, EntriesAreSortedByPartition) {
  Create();
  Append({Data("f2", 10, 2), Data("f1", 10, 1)});
  Append({Data("g2", 10, 2), Data("g1", 10, 1)});
  ASSERT_TRUE(Merge());
  std::vector<std::string> names;
  for (const auto& entry : EntriesOf(Manifests(Head()).front()))
    names.push_back(NameOf(entry.file));
  EXPECT_THAT(names, ElementsAre("f1", "g1", "f2", "g2"));
}

TEST_F(IcebergManifests, SmallTargetsGiveSeveralManifests) {
  Create();
  for (int i = 0; i < 12; ++i) Append({Data("f" + std::to_string(i))});
  const int64_t one = Manifests(Head()).front().manifest_length;
  const auto result = Merge({}, one * 4).value();
  EXPECT_EQ(result.rewritten, 12);
  EXPECT_EQ(result.added, 3);
  EXPECT_EQ(LiveNames().size(), 12u);
}

TEST_F(IcebergManifests, RowIdsSurviveInVersion3) {
  Create(3);
  Append({Data("a")});
  Append({Data("b")});
  const Entries before = Live();
  EXPECT_EQ(before.at("b").file.first_row_id, 10);
  ASSERT_TRUE(Merge().value().snapshot_id);
  EXPECT_EQ(Live(), AsExisting(before));
}

TEST_F(IcebergManifests, RacingAppendIsKept) {
  Create();
  Append({Data("a")});
  Append({Data("b")});
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) Append({Data("c")});
  };
  catalog_.set_hooks(std::move(hooks));
  const auto result = Merge().value();
  EXPECT_EQ(result.rewritten, 3);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c"));
}

TEST_F(IcebergManifests, CompactionPlannedBeforeAMergeStillCommits) {
  Create();
  Append({Data("a"), Data("b")});
  Delete({Positions("p", "a"), Positions("q")});
  Append({Data("c")});
  Delete({Positions("r", "c")});
  RewriteCommit request = Plan({"a", "b"}, "out", 2);
  ASSERT_TRUE(Merge().value().snapshot_id);
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("c", "out", "p", "q", "r"));
}

// --- expiry --------------------------------------------------------------------------------------

class IcebergExpiry : public IcebergTable {
 protected:
  void SetUp() override {
    Create();
    for (const char* name : {"a", "b", "c"}) ids_.push_back(Append({Data(name)}));
  }
  IcebergCommitter::Expiry Request(std::vector<int64_t> ids, std::vector<std::string> refs = {}) {
    return {ident_, Load().metadata_location, std::move(ids), std::move(refs)};
  }
  std::vector<int64_t> SnapshotIds() {
    std::vector<int64_t> ids;
    for (const auto& snapshot : Load().metadata.snapshots) ids.push_back(snapshot.snapshot_id);
    return ids;
  }
  std::vector<int64_t> ids_;
};

TEST_F(IcebergExpiry, R187SnapshotsAndRefsGoAndNoFileDoes) {
  SetRef("old", ids_[0], false);
  const std::set<std::string> keys = MetadataKeys();
  const auto table = Committer().CommitExpiry(Request({ids_[0], ids_[1]}, {"old"})).value();
  EXPECT_THAT(SnapshotIds(), ElementsAre(ids_[2]));
  EXPECT_EQ(table.metadata.snapshots.size(), 1u);
  EXPECT_FALSE(Load().metadata.refs.contains("old"));
  EXPECT_EQ(MetadataKeys(), keys);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c"));
}

TEST_F(IcebergExpiry, I14HeadsOfRefsDoNotExpire) {
  SetRef("tag", ids_[0], false);
  SetRef("branch", ids_[1]);
  IcebergCommitter committer = Committer();
  ExpectFails(committer.CommitExpiry(Request({ids_[0]})), Code::kInvalid, "the head of tag");
  ExpectFails(committer.CommitExpiry(Request({ids_[1]})), Code::kInvalid, "the head of branch");
  ExpectFails(committer.CommitExpiry(Request({ids_[2]})), Code::kInvalid, "the head of main");
  ExpectFails(committer.CommitExpiry(Request({}, {"main"})), Code::kInvalid, "main");
  ExpectFails(committer.CommitExpiry(Request({77})), Code::kInvalid, "no snapshot 77");
  ExpectFails(committer.CommitExpiry(Request({}, {"none"})), Code::kInvalid, "no ref none");
  EXPECT_THAT(SnapshotIds(), ElementsAre(ids_[0], ids_[1], ids_[2]));
}

TEST_F(IcebergExpiry, TableThatMovedOnIsAConflict) {
  const auto request = Request({ids_[0]});
  Append({Data("d")});
  ExpectFails(Committer().CommitExpiry(request), Code::kConflict, "after the expiry was planned");
}

TEST_F(IcebergExpiry, RefThatMovesDuringTheCommitIsAConflict) {
  const auto request = Request({ids_[0], ids_[1]});
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) SetRef("main", ids_[1]);
  };
  catalog_.set_hooks(std::move(hooks));
  ExpectFails(Committer().CommitExpiry(request), Code::kConflict, "");
  EXPECT_EQ(SnapshotIds().size(), 3u);
}

TEST_F(IcebergExpiry, I14TagMadeDuringTheCommitIsAConflictAndStays) {
  const auto request = Request({ids_[0]});
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) SetRef("new", ids_[0], false);
  };
  catalog_.set_hooks(std::move(hooks));
  ExpectFails(Committer().CommitExpiry(request), Code::kConflict, "ref \"new\"");
  EXPECT_EQ(Load().metadata.refs.at("new").snapshot_id, ids_[0]);
  EXPECT_EQ(SnapshotIds().size(), 3u);
}

TEST_F(IcebergExpiry, I8LostRepliesAreResolved) {
  using Fault = MemoryCatalog::Fault;
  for (const Fault fault : {Fault::kLostAfterApply, Fault::kLostBeforeApply}) {
    const auto request = Request({SnapshotIds().front()});
    bool once = true;
    MemoryCatalog::Hooks hooks;
    hooks.fault = [&](const catalog::TableIdent&) {
      return std::exchange(once, false) ? fault : Fault::kNone;
    };
    catalog_.set_hooks(std::move(hooks));
    EXPECT_TRUE(Committer().CommitExpiry(request));
  }
  EXPECT_THAT(SnapshotIds(), ElementsAre(ids_[2]));
  const auto request = Request({ids_[2]});
  MemoryCatalog::Hooks hooks;
  hooks.fault = [](const catalog::TableIdent&) { return Fault::kLostBeforeApply; };
  catalog_.set_hooks({});
  Append({Data("d")});
  const auto last = Request({ids_[2]});
  catalog_.set_hooks(std::move(hooks));
  ExpectFails(Committer().CommitExpiry(last), Code::kUnknownOutcome, "it is not there yet");
}

// --- rollback ------------------------------------------------------------------------------------

TEST_F(IcebergExpiry, I15RollbackToAnAncestor) {
  const auto table = Committer().Rollback(ident_, "main", ids_[0]).value();
  EXPECT_EQ(table.metadata.current_snapshot_id, ids_[0]);
  EXPECT_EQ(Head().snapshot_id, ids_[0]);
  EXPECT_THAT(LiveNames(), ElementsAre("a"));
  EXPECT_EQ(SnapshotIds().size(), 3u);  // The others stay until they expire.
  // Not an ancestor any more.
  ExpectFails(Committer().Rollback(ident_, "main", ids_[2]), Code::kInvalid, "is no ancestor");
  ExpectFails(Committer().Rollback(ident_, "main", 77), Code::kInvalid, "is no ancestor");
  // To where it is: nothing changes.
  const std::string location = Load().metadata_location;
  EXPECT_TRUE(Committer().Rollback(ident_, "main", ids_[0]));
  EXPECT_EQ(Load().metadata_location, location);
}

TEST_F(IcebergExpiry, I15CompactionIsReversible) {
  ASSERT_TRUE(Run(Plan({"a", "b"})));
  EXPECT_THAT(LiveNames(), ElementsAre("c", "out"));
  ASSERT_TRUE(Committer().Rollback(ident_, "main", ids_[2]));
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c"));
  Append({Data("d")});
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(IcebergExpiry, RollbackRacesAndLostReplies) {
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) Append({Data("d")});
  };
  catalog_.set_hooks(std::move(hooks));
  ExpectFails(Committer().Rollback(ident_, "main", ids_[0]), Code::kConflict, "");
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c", "d"));
  once = true;
  hooks = {};
  hooks.fault = [&](const catalog::TableIdent&) {
    return std::exchange(once, false) ? MemoryCatalog::Fault::kLostAfterApply
                                      : MemoryCatalog::Fault::kNone;
  };
  catalog_.set_hooks(std::move(hooks));
  EXPECT_TRUE(Committer().Rollback(ident_, "main", ids_[0]));
  EXPECT_THAT(LiveNames(), ElementsAre("a"));
}

// --- properties ----------------------------------------------------------------------------------

TEST_F(IcebergExpiry, PropertiesAreSetAndRemoved) {
  auto table = Committer().ChangeProperties(ident_, {{"a", "1"}, {"b", "2"}}, {}).value().table;
  EXPECT_EQ(table.metadata.Property("a", ""), "1");
  EXPECT_EQ(table.metadata.Property("b", ""), "2");
  EXPECT_TRUE(Committer().ChangeProperties(ident_, {{"a", "3"}}, {"b", "never"}).value().changed);
  EXPECT_EQ(Load().metadata.Property("a", ""), "3");
  EXPECT_FALSE(Load().metadata.properties.contains("b"));
  EXPECT_EQ(SnapshotIds().size(), 3u);
  // As it is already: nothing changes.
  const std::string location = Load().metadata_location;
  EXPECT_FALSE(Committer().ChangeProperties(ident_, {{"a", "3"}}, {"b"})->changed);
  EXPECT_FALSE(Committer().ChangeProperties(ident_, {}, {})->changed);
  EXPECT_EQ(Load().metadata_location, location);
  ExpectFails(Committer().ChangeProperties(ident_, {{"a", "1"}}, {"a"}), Code::kInvalid,
              "cannot be set and removed");
}

TEST_F(IcebergExpiry, PropertiesMeetOtherWritersAndLostReplies) {
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) Append({Data("d")});
  };
  catalog_.set_hooks(std::move(hooks));
  EXPECT_TRUE(Committer().ChangeProperties(ident_, {{"a", "1"}}, {}));
  EXPECT_EQ(Load().metadata.Property("a", ""), "1");
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b", "c", "d"));
  once = true;
  hooks = {};
  hooks.fault = [&](const catalog::TableIdent&) {
    return std::exchange(once, false) ? MemoryCatalog::Fault::kLostAfterApply
                                      : MemoryCatalog::Fault::kNone;
  };
  catalog_.set_hooks(std::move(hooks));
  EXPECT_TRUE(Committer().ChangeProperties(ident_, {}, {"a"}));
  EXPECT_FALSE(Load().metadata.properties.contains("a"));
}

}  // namespace
}  // namespace lithify::commit
