// What a rewrite commit writes, and what stops it.
#include "commit/iceberg_commit.h"

#include <limits>

#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using iceberg::EntryStatus;
using iceberg::ManifestContent;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class IcebergRewrite : public IcebergTable {
 protected:
  // Conflicts, and leaves the table and the metadata directory as they were.
  void ExpectConflict(const RewriteCommit& request, const std::string& message) {
    const std::set<std::string> keys = MetadataKeys();
    const int64_t head = Head().snapshot_id;
    ExpectFails(Run(request), Code::kConflict, message);
    EXPECT_EQ(Head().snapshot_id, head);
    EXPECT_EQ(MetadataKeys(), keys);
  }
};

TEST_F(IcebergRewrite, R108OneSnapshotSwapsInputsForOutputs) {
  Create();
  Append({Data("a"), Data("b"), Data("c", 10, 2)});
  Append({Data("d")});
  RewriteCommit request = Plan({"a", "b"}, "out", 3);
  request.principal = "maintainer";
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.attempts, 1);
  EXPECT_EQ(done.manifests_kept, 1);
  EXPECT_EQ(done.manifests_written, 2);
  EXPECT_FALSE(done.found_after_unknown);
  EXPECT_THAT(LiveNames(), ElementsAre("c", "d", "out"));

  const iceberg::Snapshot head = Head();
  EXPECT_EQ(head.snapshot_id, done.snapshot_id);
  EXPECT_GT(head.snapshot_id, 0);
  EXPECT_EQ(head.sequence_number, 3);
  EXPECT_EQ(head.parent_snapshot_id, request.planned_snapshot_id);
  EXPECT_EQ(head.schema_id, 0);
  EXPECT_FALSE(head.first_row_id);
  const Entries live = Live();
  EXPECT_EQ(live.at("out").sequence_number, 2);  // The planned one (R110).
  EXPECT_EQ(live.at("out").file_sequence_number, 3);
  EXPECT_EQ(live.at("out").status, EntryStatus::kAdded);
  EXPECT_EQ(live.at("out").file, request.outputs[0]);
  EXPECT_EQ(live.at("c").status, EntryStatus::kExisting);
  EXPECT_EQ(live.at("c").snapshot_id, 101);
  EXPECT_EQ(live.at("c").sequence_number, 1);
  EXPECT_EQ(live.at("c").file_sequence_number, 1);
  EXPECT_EQ(live.at("c").file, Data("c", 10, 2));

  // Removed files are listed as such, once, with their numbers.
  std::vector<std::string> removed;
  for (const iceberg::ManifestFile& manifest : Manifests(head)) {
    for (const iceberg::ManifestEntry& entry : EntriesOf(manifest)) {
      if (entry.status != EntryStatus::kDeleted) continue;
      removed.push_back(NameOf(entry.file));
      EXPECT_EQ(entry.snapshot_id, done.snapshot_id);
      EXPECT_EQ(entry.sequence_number, 1);
      EXPECT_EQ(entry.file_sequence_number, 1);
    }
  }
  EXPECT_THAT(removed, UnorderedElementsAre("a", "b"));
}

TEST_F(IcebergRewrite, R112SummaryIsComplete) {
  Create();
  Append({Data("a"), Data("b"), Data("c", 10, 2)});
  RewriteCommit request = Plan({"a", "b"}, "out", 3);
  request.principal = "maintainer";
  request.trigger = "scheduled";
  request.summary = {{"more.of.it", "yes"}, {"operation", "append"}};
  ASSERT_TRUE(Run(request));
  auto summary = Head().summary;
  EXPECT_EQ(summary["more.of.it"], "yes");  // What lithify sets itself stays.
  summary.erase("more.of.it");
  EXPECT_EQ(summary["lithify.commit-id"].size(), 32u);
  summary.erase("lithify.commit-id");
  EXPECT_EQ(summary,
            (std::map<std::string, std::string>{{"operation", "replace"},
                                                {"engine-name", "lithify"},
                                                {"added-data-files", "1"},
                                                {"deleted-data-files", "2"},
                                                {"added-records", "17"},
                                                {"deleted-records", "20"},
                                                {"added-files-size", "100"},
                                                {"removed-files-size", "200"},
                                                {"changed-partition-count", "1"},
                                                {"total-data-files", "2"},
                                                {"total-delete-files", "0"},
                                                {"manifests-created", "2"},
                                                {"manifests-kept", "0"},
                                                {"manifests-replaced", "1"},
                                                {"lithify.job-id", request.job_id},
                                                {"lithify.trigger", "scheduled"},
                                                {"lithify.principal", "maintainer"},
                                                {"sqe.maintenance.job-id", request.job_id},
                                                {"sqe.maintenance.trigger", "scheduled"},
                                                {"sqe.maintenance.principal", "maintainer"}}));
}

TEST_F(IcebergRewrite, MetadataFilesAreNamedAsOtherWritersNameThem) {
  Create();
  Append({Data("a"), Data("b")});
  ASSERT_TRUE(Run(Plan({"a", "b"})));
  const iceberg::Snapshot head = Head();
  EXPECT_THAT(head.manifest_list,
              testing::MatchesRegex("s3://b/t/metadata/snap-" + std::to_string(head.snapshot_id) +
                                    "-1-[0-9a-f-]*[.]avro"));
  for (const iceberg::ManifestFile& manifest : Manifests(head)) {
    EXPECT_THAT(manifest.manifest_path,
                testing::MatchesRegex("s3://b/t/metadata/[0-9a-f-]*-m[01][.]avro"));
  }
}

TEST_F(IcebergRewrite, WriteMetadataPathIsObeyed) {
  Create();
  Update({table::SetProperties{{{"write.metadata.path", "s3://b/elsewhere/"}}}});
  Append({Data("a"), Data("b")});
  ASSERT_TRUE(Run(Plan({"a", "b"})));
  EXPECT_THAT(Head().manifest_list, testing::StartsWith("s3://b/elsewhere/snap-"));
}

// --- deletes that come meanwhile -----------------------------------------------------------------

TEST_F(IcebergRewrite, I1EqualityDeleteAfterThePlanStaysInForce) {
  Create();
  Append({Data("f1")});
  Append({Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Equality("e")});  // Sequence 3.
  ASSERT_TRUE(Run(request));
  Append({Data("later")});
  const Entries live = Live();
  EXPECT_THAT(LiveNames(), ElementsAre("e", "later", "out"));
  EXPECT_EQ(live.at("e").sequence_number, 3);
  EXPECT_EQ(live.at("out").sequence_number, 2);  // Below 3: the delete applies.
  // What other writers judge by when they drop old deletes.
  for (const iceberg::ManifestFile& manifest : Manifests(Head())) {
    if (manifest.content != ManifestContent::kData) continue;
    for (const iceberg::ManifestEntry& entry : EntriesOf(manifest)) {
      if (entry.status == EntryStatus::kDeleted) continue;
      EXPECT_LE(manifest.min_sequence_number, entry.sequence_number) << NameOf(entry.file);
    }
  }
}

TEST_F(IcebergRewrite, I1EqualityDeleteThatWouldMissAMovedRowIsAConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  request.outputs[0] = Unpartitioned(request.outputs[0]);
  Delete({Equality("e")});  // For day 1 of spec 0: it will never reach spec 1.
  ExpectConflict(request, "equality delete file");
}

TEST_F(IcebergRewrite, I1GlobalEqualityDeleteReachesMovedRowsToo) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  request.outputs[0] = Unpartitioned(request.outputs[0]);
  Delete({Unpartitioned(Equality("e"))});
  ASSERT_TRUE(Run(request));
  EXPECT_EQ(Live().at("out").file.spec_id, 1);
  EXPECT_LT(Live().at("out").sequence_number, Live().at("e").sequence_number);
}

TEST_F(IcebergRewrite, I1EqualityDeleteThatWouldMeetAMovedRowIsAConflict) {
  Create();
  Append({Unpartitioned(Data("f1")), Unpartitioned(Data("f2"))});
  RewriteCommit request = Plan({"f1", "f2"});  // To day 1 of spec 0.
  Delete({Equality("e", 1)});                  // Never for rows of spec 1.
  ExpectConflict(request, "equality delete file");
}

TEST_F(IcebergRewrite, I1EqualityDeleteOfAnotherPartitionThanMovedRowsIsNone) {
  Create();
  Append({Unpartitioned(Data("f1")), Unpartitioned(Data("f2")), Data("stays", 10, 2)});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Equality("e", 2)});
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("e", "out", "stays"));
  EXPECT_EQ(Live().at("out").file.spec_id, 0);
}

TEST_F(IcebergRewrite, I4aPositionDeleteOnAnInputIsAConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Positions("p", "f2")});
  ExpectConflict(request, "position delete file s3://b/t/data/p");
}

TEST_F(IcebergRewrite, I4aDeletionVectorOnAnInputIsAConflict) {
  Create(3);
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Vector("v.puffin", "f1")});
  ExpectConflict(request, "deletion vector s3://b/t/data/v.puffin at 4");
}

TEST_F(IcebergRewrite, I4bDeleteOnAnotherFileIsNone) {
  Create();
  Append({Data("f1"), Data("f2"), Data("f3")});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Positions("p", "f3")});
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("f3", "out", "p"));
}

TEST_F(IcebergRewrite, I4cRemovedDeleteFileOfAnInputIsAConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  Delete({Positions("p", "f1")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 1);
  Remove({"p"});  // Its rows are back; the outputs lack them.
  ExpectConflict(request, "removed or replaced");
}

TEST_F(IcebergRewrite, T14ReplacedVectorOfAnInputIsAConflict) {
  Create(3);
  Append({Data("f1"), Data("f2")});
  Delete({Vector("v1.puffin", "f1")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 1);
  Commit({"delete", {Vector("v2.puffin", "f1", 4, 2)}, {"v1.puffin@4"}});
  ExpectConflict(request, "v2.puffin");
}

TEST_F(IcebergRewrite, T14PartitionWideDeleteIsAConflictInItsPartitionOnly) {
  Create();
  Append({Data("f1"), Data("f2"), Data("g", 10, 2)});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Positions("p2", {}, 2)});
  Delete({Positions("p1")});
  ExpectConflict(request, "position delete file s3://b/t/data/p1");
  request = Plan({"f1", "f2"}, "out2");
  Delete({Positions("p3", {}, 2)});
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("g", "out2", "p1", "p2", "p3"));
}

TEST_F(IcebergRewrite, T14BoundsOfPathsDecide) {
  Create();
  Append({Data("f1"), Data("f2"), Data("g1"), Data("g2")});
  RewriteCommit request = Plan({"f1", "f2"});
  iceberg::DataFile bounded = Positions("p");
  bounded.lower_bounds = {{iceberg::kFilePathFieldId, Path("g1")}};
  bounded.upper_bounds = {{iceberg::kFilePathFieldId, Path("g2")}};
  Delete({bounded});
  bounded.file_path = Path("q");
  bounded.lower_bounds = {{iceberg::kFilePathFieldId, Path("f2")}};
  RewriteCommit again = Plan({"f1", "f2"}, "out2");
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("g1", "g2", "out", "p"));
  again.inputs = {{Path("out"), 20, 0}};
  again.planned_snapshot_id = Head().snapshot_id;
  again.planned_sequence_number = Head().sequence_number;
  bounded.upper_bounds = {{iceberg::kFilePathFieldId, Path("z")}};
  Delete({bounded});
  ExpectConflict(again, "data/q");
}

TEST_F(IcebergRewrite, I4EqualBoundsOnAnInputAreAConflictInAnyPartition) {
  Create();
  Append({Data("f1"), Data("f2"), Data("g", 10, 2)});
  RewriteCommit request = Plan({"f1", "f2"});
  iceberg::DataFile one = Positions("p", {}, 2);
  one.lower_bounds = one.upper_bounds = {{iceberg::kFilePathFieldId, Path("f2")}};
  Delete({one});
  ExpectConflict(request, "position delete file s3://b/t/data/p");
}

TEST_F(IcebergRewrite, I6EqualBoundsOfAFileThatStaysAreKeptInAnyPartition) {
  Create();
  Append({Data("f1"), Data("f2"), Data("g", 10, 2)});
  iceberg::DataFile stays = Positions("p", {}, 2);
  stays.lower_bounds = stays.upper_bounds = {{iceberg::kFilePathFieldId, Path("f2")}};
  iceberg::DataFile goes = Positions("q", {}, 2);
  goes.lower_bounds = goes.upper_bounds = {{iceberg::kFilePathFieldId, Path("f1")}};
  Delete({stays, goes});
  RewriteCommit request = Plan({"f1"}, "out", 1);
  request.removed_deletes = {{Path("p"), {}}, {Path("q"), {}}};
  EXPECT_EQ(Run(request).value().delete_files_removed, 1);
  EXPECT_THAT(LiveNames(), ElementsAre("f2", "g", "out", "p"));
}

TEST_F(IcebergRewrite, I11TwoVectorsForOneFileAreAPlainConflict) {
  Create(3);
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Delete({Vector("v1.puffin", "f1")});
  Commit({"delete", {Vector("v2.puffin", "f1", 4, 2)}, {"v1.puffin@4"}});
  ExpectConflict(request, "deletion vector");
}

TEST_F(IcebergRewrite, T14HoldsWithinARetry) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  bool once = true;
  catalog_.set_hooks({.fault = {},
                      .before_load = {},
                      .before_apply =
                          [&](const catalog::TableIdent&) {
                            if (std::exchange(once, false)) Delete({Positions("p", "f1")});
                          },
                      .before_swap = {},
                      .before_answer = {}});
  ExpectFails(Run(request), Code::kConflict, "position delete file s3://b/t/data/p");
  EXPECT_THAT(LiveNames(), ElementsAre("f1", "f2", "p"));
}

// --- inputs that change ----------------------------------------------------------------------

TEST_F(IcebergRewrite, I5InputThatWasDeletedIsAConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Remove({"f2"});
  ExpectConflict(request, "an input is not live any more");
}

TEST_F(IcebergRewrite, I5OtherFileOfThePartitionMayGo) {
  Create();
  Append({Data("f1"), Data("f2"), Data("f3")});
  RewriteCommit request = Plan({"f1", "f2"});
  Remove({"f3"});
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
}

TEST_F(IcebergRewrite, I5InputThatWasAddedAgainIsAConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Remove({"f2"});
  Append({Data("f2")});
  ExpectConflict(request, "removed and added again");
}

TEST_F(IcebergRewrite, R120LoserOfTwoRewritesModifiesNothing) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit first = Plan({"f1", "f2"});
  RewriteCommit second = Plan({"f1", "f2"}, "other");
  second.job_id = "0193a1b2-0000-7000-8000-000000000002";
  ASSERT_TRUE(Run(first));
  ExpectConflict(second, "not live any more");
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
}

TEST_F(IcebergRewrite, I9ExpiredPlannedSnapshotIsAConflict) {
  Create();
  const int64_t planned = Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  Append({Data("f3")});
  Expire(planned);
  ExpectConflict(request, "has been expired");
}

TEST_F(IcebergRewrite, I9RolledBackBranchIsAConflict) {
  Create();
  const int64_t first = Append({Data("f1"), Data("f2")});
  Append({Data("f3")});
  RewriteCommit request = Plan({"f1", "f2"});
  SetRef("main", first);
  ExpectConflict(request, "not an ancestor");
}

TEST_F(IcebergRewrite, DuplicateEntriesAreRefused) {
  Create();
  Append({Data("f1"), Data("f2")});
  Append({Data("f1")});
  ExpectFails(Run(Plan({"f1", "f2"})), Code::kUnsupported, "in the table twice");
}

TEST_F(IcebergRewrite, R304SchemaSpecAndTableChangesAreConflicts) {
  Create();
  Append({Data("f1"), Data("f2")});
  const RewriteCommit request = Plan({"f1", "f2"});
  RewriteCommit other = request;
  other.schema_id = 1;
  ExpectConflict(other, "the schema changed from 1 to 0");
  other = request;
  other.default_spec_id = 1;
  ExpectConflict(other, "the partition spec changed from 1 to 0");
  other = request;
  other.table_uuid = "another";
  ExpectConflict(other, "another table has the name now");
  other.table_uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1";
  other.default_spec_id = 0;
  EXPECT_TRUE(Run(other));
}

TEST_F(IcebergRewrite, I8RepeatedRequestWhoseSnapshotExpiredKeepsItsFiles) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  for (auto& input : request.inputs) input.partition = iceberg::PartitionKey{0, {int64_t{1}}};
  const int64_t own = Run(request).value().snapshot_id;
  Append({Data("f3")});
  Expire(own);
  // Neither "the planned snapshot is not an ancestor", nor "an input is gone".
  ExpectFails(Run(request), Code::kUnknownOutcome, "an output is in the table already");
  request.schema_id = 1;
  ExpectFails(Run(request), Code::kUnknownOutcome, "an output is in the table already");
  RewriteCommit other = Plan({"f3"}, "out3");
  other.outputs = {Data("out", 10)};
  other.inputs[0].partition = iceberg::PartitionKey{0, {int64_t{9}}};
  ExpectFails(Run(other), Code::kUnknownOutcome, "an output is in the table already");
}

// --- covered deletes ---------------------------------------------------------------------------

TEST_F(IcebergRewrite, R101CoveredDeletesGoInTheSameCommit) {
  Create();
  Append({Data("f1"), Data("f2"), Data("f3")});
  Delete({Positions("p1", "f1"), Positions("p3", "f3")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 1);
  request.removed_deletes = {{Path("p1"), {}}};
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.delete_files_removed, 1);
  EXPECT_THAT(LiveNames(), ElementsAre("f3", "out", "p3"));
  const auto summary = Head().summary;
  EXPECT_EQ(summary.at("removed-delete-files"), "1");
  EXPECT_EQ(summary.at("removed-position-delete-files"), "1");
  EXPECT_EQ(summary.at("removed-position-deletes"), "1");
  EXPECT_EQ(summary.at("removed-files-size"), "300");
  EXPECT_EQ(summary.at("total-delete-files"), "1");
  EXPECT_EQ(Live().at("p3").sequence_number, 2);
  EXPECT_EQ(Live().at("p3").status, EntryStatus::kExisting);
}

TEST_F(IcebergRewrite, R101OneVectorOfASharedPuffinGoes) {
  Create(3);
  Append({Data("f1"), Data("f2"), Data("f3")});
  Delete({Vector("v.puffin", "f1", 4), Vector("v.puffin", "f3", 44)});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 1);
  request.removed_deletes = {{Path("v.puffin"), 4}};
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("f3", "out", "v.puffin@44"));
  EXPECT_EQ(Head().summary.at("removed-dvs"), "1");
  EXPECT_EQ(Head().summary.at("removed-files-size"), "240");  // 40 of the vector.
  EXPECT_FALSE(Head().summary.contains("removed-position-delete-files"));
}

TEST_F(IcebergRewrite, I6PartitionWideDeleteOfAFileThatStaysIsKept) {
  Create();
  Append({Data("f1"), Data("f2")});
  Delete({Positions("p")});
  RewriteCommit request = Plan({"f1"}, "out", 1);
  request.removed_deletes = {{Path("p"), {}, {Path("f1"), Path("f2")}}};
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.delete_files_removed, 0);
  EXPECT_THAT(LiveNames(), ElementsAre("f2", "out", "p"));
  // The same without knowing what it names.
  request = Plan({"out"}, "out2", 0);
  request.inputs[0].records = 9;
  request.outputs[0].record_count = 9;
  request.removed_deletes = {{Path("p"), {}}};
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("f2", "out2", "p"));
}

TEST_F(IcebergRewrite, R102PartitionWideDeleteGoesWithTheLastFileItNames) {
  Create();
  Append({Data("f1"), Data("f2"), Data("f3")});
  Delete({Positions("p")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 2);
  request.removed_deletes = {{Path("p"), {}, {Path("f1"), Path("f2")}}};
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("f3", "out"));
}

TEST_F(IcebergRewrite, R102EqualityDeleteGoesOnceNothingOlderIsLeft) {
  Create();
  Append({Data("f1"), Data("f2"), Data("g", 10, 2)});
  Delete({Equality("e"), Equality("e2", 2), Unpartitioned(Equality("everywhere"))});
  Append({Data("f3")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 2);
  request.removed_deletes = {{Path("e"), {}}, {Path("e2"), {}}, {Path("everywhere"), {}}};
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.delete_files_removed, 1);
  EXPECT_THAT(LiveNames(), ElementsAre("e2", "everywhere", "f3", "g", "out"));
  EXPECT_EQ(Head().summary.at("removed-equality-delete-files"), "1");
  EXPECT_EQ(Head().summary.at("removed-equality-deletes"), "1");
}

TEST_F(IcebergRewrite, R102OldFileAppendedMeanwhileKeepsTheDelete) {
  Create();
  Append({Data("f1"), Data("f2")});
  Delete({Equality("e")});
  RewriteCommit request = Plan({"f1", "f2"}, "out", 2);
  request.removed_deletes = {{Path("e"), {}}};
  // Another rewrite's output, with the old number it was given.
  Commit({"replace", {Data("old")}, {}, "main", 1});
  ASSERT_TRUE(Run(request));
  EXPECT_THAT(LiveNames(), ElementsAre("e", "old", "out"));
}

TEST_F(IcebergRewrite, DanglingDeletesGoWithoutARewrite) {
  Create();
  Append({Data("f1"), Data("f2")});
  Delete({Positions("p1", "f1"), Positions("p2", "f2")});
  Remove({"f1"});
  RewriteCommit request = Plan({"f2"});
  request.inputs.clear();
  request.outputs.clear();
  request.removed_deletes = {{Path("p1"), {}}, {Path("p2"), {}}};
  EXPECT_EQ(Run(request).value().delete_files_removed, 1);
  EXPECT_THAT(LiveNames(), ElementsAre("f2", "p2"));
  const int64_t head = Head().snapshot_id;
  request.removed_deletes = {{Path("p2"), {}}};
  EXPECT_EQ(Run(request).value().snapshot_id, 0);  // Needed: nothing to do.
  EXPECT_EQ(Head().snapshot_id, head);
}

TEST_F(IcebergRewrite, I30BatchesOfOneJobDoNotConflict) {
  Create();
  Append({Data("f1"), Data("f2")});
  Append({Data("g1"), Data("g2")});
  Delete({Positions("p")});  // Names f1 and f2 only, but says so nowhere.
  RewriteCommit first = Plan({"f1", "f2"}, "out1", 1);
  first.removed_deletes = {{Path("p"), {}, {Path("f1"), Path("f2")}}};
  RewriteCommit second = Plan({"g1", "g2"}, "out2");
  RewriteCommit foreign = second;
  foreign.job_id = "0193a1b2-0000-7000-8000-000000000009";
  ASSERT_TRUE(Run(first));
  ExpectConflict(foreign, "removed or replaced");
  const CommittedSnapshot done = Run(second).value();
  EXPECT_FALSE(done.found_after_unknown);
  EXPECT_THAT(LiveNames(), ElementsAre("out1", "out2"));
}

TEST_F(IcebergRewrite, I26AllRowsDeletedLeavesNoOutput) {
  Create();
  Append({Data("f1")});
  Delete({Positions("p", "f1")});
  RewriteCommit request = Plan({"f1"}, "none", 10);
  request.removed_deletes = {{Path("p"), {}}};
  const CommittedSnapshot done = Run(request).value();
  EXPECT_THAT(LiveNames(), IsEmpty());
  EXPECT_EQ(done.delete_files_removed, 1);
  EXPECT_EQ(Manifests(Head()).size(), 2u);  // What was removed, for those who expire it.
  Append({Data("f2")});
  EXPECT_THAT(LiveNames(), ElementsAre("f2"));
}

// --- conservation --------------------------------------------------------------------------------

TEST_F(IcebergRewrite, T33CountsMustAgreeWithEachOtherAndTheTable) {
  Create();
  Append({Data("f1"), Data("f2")});
  const RewriteCommit request = Plan({"f1", "f2"});
  const std::set<std::string> keys = MetadataKeys();
  RewriteCommit wrong = request;
  wrong.outputs[0].record_count = 19;
  ExpectFails(Run(wrong), Code::kCorrupt, "rows are not conserved");
  wrong = request;
  wrong.inputs[0].records = 9;
  wrong.inputs[1].records = 11;
  ExpectFails(Run(wrong), Code::kCorrupt, "the table says 10 rows");
  wrong = request;
  wrong.planned_sequence_number = 7;
  ExpectFails(Run(wrong), Code::kInternal, "has sequence number 1, not 7");
  EXPECT_EQ(MetadataKeys(), keys);
}

TEST_F(IcebergRewrite, R141OutputsAreWhatAndWhereTheyClaim) {
  Create();
  Append({Data("f1"), Data("f2"), Data("kept")});
  const RewriteCommit request = Plan({"f1", "f2"});
  RewriteCommit wrong = request;
  wrong.outputs[0].file_size_in_bytes = 99;
  ExpectFails(Run(wrong), Code::kCorrupt, "100 bytes instead of 99");
  wrong = request;
  wrong.outputs[0].file_path = Path("absent");
  ExpectFails(Run(wrong), Code::kCorrupt, "is gone");
  wrong.outputs[0].file_path = "s3://b/t2/data/out";
  ExpectFails(Run(wrong), Code::kInternal, "not below the table's data location");
  wrong.outputs[0].file_path = Path("kept");
  ExpectFails(Run(wrong), Code::kUnknownOutcome, "in the table already");
  wrong = request;
  wrong.outputs[0].partition.clear();
  ExpectFails(Run(wrong), Code::kInternal, "does not fit spec 0");
  wrong = request;
  wrong.outputs[0].spec_id = 9;
  ExpectFails(Run(wrong), Code::kInternal, "does not fit spec 9");
  EXPECT_TRUE(Run(request));
}

TEST_F(IcebergRewrite, ManifestsOfOtherPartitionsAreNotRead) {
  Create();
  Append({Data("g", 10, 2)});
  const iceberg::ManifestFile other = Manifests(Head()).front();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  for (auto& input : request.inputs) input.partition = iceberg::PartitionKey{0, {int64_t{1}}};
  ASSERT_TRUE(store_->Remove(other.manifest_path.substr(7)));
  EXPECT_TRUE(Run(request));
}

TEST_F(IcebergRewrite, LostManifestIsAConflictNotACrash) {
  Create();
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  ASSERT_TRUE(store_->Remove(Manifests(Head()).front().manifest_path.substr(7)));
  ExpectFails(Run(request), Code::kConflict, "was removed while it was needed");
}

// --- format versions and branches ----------------------------------------------------------------

TEST_F(IcebergRewrite, RowIdsOfVersion3) {
  Create(3);
  Append({Data("f1"), Data("f2"), Data("f3")});  // Row ids 0, 10, 20.
  ASSERT_EQ(Load().metadata.next_row_id, 30);
  RewriteCommit request = Plan({"f1", "f2"});
  request.outputs[0].first_row_id = 999;  // Never written: it is assigned.
  ASSERT_TRUE(Run(request));
  const iceberg::Snapshot head = Head();
  EXPECT_EQ(head.first_row_id, 30);
  // 20 rows of the output, and room for those of the rewritten manifest.
  EXPECT_EQ(head.added_rows, 30);
  EXPECT_EQ(Load().metadata.next_row_id, 60);
  const Entries live = Live();
  EXPECT_EQ(live.at("f3").file.first_row_id, 20);
  EXPECT_EQ(live.at("out").file.first_row_id, 30);
  for (const iceberg::ManifestFile& manifest : Manifests(head)) EXPECT_TRUE(manifest.first_row_id);
}

TEST_F(IcebergRewrite, I22FormatVersionThatChangedIsAConflict) {
  Create(3);
  Append({Data("f1"), Data("f2")});
  RewriteCommit request = Plan({"f1", "f2"});
  request.format_version = 2;
  ExpectConflict(request, "the format version changed from 2 to 3");
  request.format_version = 3;
  EXPECT_TRUE(Run(request));
}

TEST_F(IcebergRewrite, HostileSizesThatOverflowAreCorrupt) {
  Create();
  iceberg::DataFile huge = Data("f1");
  huge.file_size_in_bytes = std::numeric_limits<int64_t>::max();
  iceberg::DataFile other = huge;
  other.file_path = Path("f2");
  Append({huge, other});
  const std::set<std::string> keys = MetadataKeys();
  ExpectFails(Run(Plan({"f1", "f2"})), Code::kCorrupt, "more than 64 bits");
  EXPECT_EQ(MetadataKeys(), keys);
}

TEST_F(IcebergRewrite, Version1HasNoSequenceNumbers) {
  Create(1);
  Append({Data("a"), Data("b"), Data("c")});
  RewriteCommit request = Plan({"a", "b"});
  EXPECT_EQ(request.planned_sequence_number, 0);
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.sequence_number, 0);
  EXPECT_THAT(LiveNames(), ElementsAre("c", "out"));
  EXPECT_EQ(Live().at("c").snapshot_id, 101);
}

TEST_F(IcebergRewrite, BranchIsRewrittenAlone) {
  Create();
  const int64_t main = Append({Data("a"), Data("b")});
  SetRef("audit", main);
  Commit({"append", {Data("c")}, {}, "audit"});
  RewriteCommit request = Plan({"a", "b"});
  request.branch = "audit";
  request.planned_snapshot_id = Head("audit").snapshot_id;
  request.planned_sequence_number = Head("audit").sequence_number;
  ASSERT_TRUE(Run(request));
  EXPECT_EQ(Head().snapshot_id, main);
  EXPECT_EQ(Live(Head("audit")).size(), 2u);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b"));
  request.branch = "gone";
  ExpectFails(Run([&] {
                RewriteCommit other = request;
                other.job_id = "x";
                return other;
              }()),
              Code::kConflict, "no snapshot any more");
  SetRef("tag", main, false);
  request.branch = "tag";
  request.job_id = "y";
  ExpectFails(Run(request), Code::kInvalid, "a tag cannot be changed");
}

TEST_F(IcebergRewrite, RetentionOfTheBranchSurvives) {
  Create();
  const int64_t id = Append({Data("a"), Data("b")});
  iceberg::SnapshotRef ref;
  ref.snapshot_id = id;
  ref.min_snapshots_to_keep = 7;
  Update({table::SetSnapshotRef{"main", ref}});
  ASSERT_TRUE(Run(Plan({"a", "b"})));
  EXPECT_EQ(Load().metadata.refs.at("main").min_snapshots_to_keep, 7);
  EXPECT_EQ(Load().metadata.Property("owner", ""), "me");
}

TEST_F(IcebergRewrite, ClockBehindTheTableDoesNotGoBack) {
  Create();
  Append({Data("a"), Data("b")});
  clock_.now = Time(Duration(5));
  const int64_t before = Head().timestamp_ms;
  ASSERT_TRUE(Run(Plan({"a", "b"})));
  EXPECT_GE(Head().timestamp_ms, before);
}

}  // namespace
}  // namespace lithify::commit
