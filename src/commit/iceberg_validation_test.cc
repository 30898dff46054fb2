#include "commit/iceberg_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lithify::commit {
namespace {

using iceberg::FileContent;
using iceberg::PartitionKey;
using iceberg::Value;
using testing::HasSubstr;

// "s3a:" and "s3:" are one; all else is as written.
std::string Canonical1(std::string_view path) {
  if (path.starts_with("s3a:")) return "s3:" + std::string(path.substr(4));
  return std::string(path);
}

PartitionKey Part(int64_t day, int spec = 0) { return PartitionKey{spec, {Value(day)}}; }

DeleteFacts Positions(int64_t sequence, PartitionKey partition, std::string referenced = {},
                      std::string path = "P") {
  DeleteFacts facts;
  facts.path = std::move(path);
  facts.sequence_number = sequence;
  facts.partition = std::move(partition);
  facts.referenced = std::move(referenced);
  return facts;
}

DeleteFacts Vector(int64_t sequence, std::string referenced, int64_t offset = 4) {
  DeleteFacts facts = Positions(sequence, Part(1), std::move(referenced), "dv.puffin");
  facts.content_offset = offset;
  return facts;
}

DeleteFacts Equality(int64_t sequence, PartitionKey partition, bool everywhere = false) {
  DeleteFacts facts;
  facts.content = FileContent::kEqualityDeletes;
  facts.path = "E";
  facts.sequence_number = sequence;
  facts.partition = std::move(partition);
  facts.unpartitioned = everywhere;
  return facts;
}

iceberg::DataFile Output(std::string path, int64_t rows, int64_t bytes = 100) {
  iceberg::DataFile file;
  file.file_path = std::move(path);
  file.file_format = "PARQUET";
  file.record_count = rows;
  file.file_size_in_bytes = bytes;
  return file;
}

RewriteCommit Request() {
  RewriteCommit request;
  request.job_id = "job";
  request.inputs = {{"a", 10, 1}, {"b", 5, 0}};
  request.outputs = {Output("x", 14)};
  return request;
}

template <typename T>
void ExpectFails(const T& result, Code code, const std::string& message) {
  ASSERT_FALSE(result);
  EXPECT_EQ(CodeName(result.error().code), CodeName(code)) << result.error().ToString();
  EXPECT_THAT(result.error().ToString(), HasSubstr(message));
}

// --- the request -------------------------------------------------------------------------------

TEST(RewriteClaims, T33RowsAreConservedExactly) {
  EXPECT_TRUE(CheckRewriteClaims(Request()));
  for (const int64_t rows : {13, 15}) {
    RewriteCommit request = Request();
    request.outputs[0].record_count = rows;
    ExpectFails(CheckRewriteClaims(request), Code::kCorrupt,
                "14 must stay, the outputs hold " + std::to_string(rows));
  }
}

TEST(RewriteClaims, I26AllRowsDeletedNeedsNoOutput) {
  RewriteCommit request = Request();
  request.inputs = {{"a", 10, 10}, {"b", 5, 5}};
  request.outputs.clear();
  EXPECT_TRUE(CheckRewriteClaims(request));
  request.outputs = {Output("x", 0)};  // No empty file.
  ExpectFails(CheckRewriteClaims(request), Code::kCorrupt, "0 rows");
}

TEST(RewriteClaims, ImpossibleCountsAndNamesAreRefused) {
  RewriteCommit request = Request();
  request.inputs[0].rows_deleted = 11;
  ExpectFails(CheckRewriteClaims(request), Code::kCorrupt, "11 rows of 10");
  request = Request();
  request.inputs[1].path = "a";
  ExpectFails(CheckRewriteClaims(request), Code::kInternal, "given twice");
  request = Request();
  request.outputs[0].file_path = "b";
  ExpectFails(CheckRewriteClaims(request), Code::kInternal, "an input or given twice");
  request = Request();
  request.outputs[0].content = FileContent::kPositionDeletes;
  ExpectFails(CheckRewriteClaims(request), Code::kInternal, "not a Parquet data file");
  request = Request();
  request.inputs.clear();
  ExpectFails(CheckRewriteClaims(request), Code::kInternal, "without inputs");
  request = Request();
  request.job_id.clear();
  ExpectFails(CheckRewriteClaims(request), Code::kInternal, "job id");
}

TEST(RewriteClaims, I30FingerprintTellsTheBatchesOfAJobApart) {
  RewriteCommit one = Request();
  RewriteCommit same = Request();
  std::swap(same.inputs[0], same.inputs[1]);
  same.trigger = "scheduled";
  EXPECT_EQ(RewriteFingerprint(one), RewriteFingerprint(same));
  EXPECT_EQ(RewriteFingerprint(one).size(), 32u);
  RewriteCommit other = Request();
  other.inputs[0].path = "c";
  EXPECT_NE(RewriteFingerprint(one), RewriteFingerprint(other));
  other = Request();
  other.outputs[0].file_path = "y";
  EXPECT_NE(RewriteFingerprint(one), RewriteFingerprint(other));
  other = Request();
  other.job_id = "job2";
  EXPECT_NE(RewriteFingerprint(one), RewriteFingerprint(other));
}

// --- history -------------------------------------------------------------------------------------

class History : public testing::Test {
 protected:
  // 1 <- 2 <- 3 on main; 4 on top of 2, on no branch.
  void SetUp() override {
    Add(1, {}, 1);
    Add(2, 1, 2);
    Add(3, 2, 3);
    Add(4, 2, 4);
    table_.last_sequence_number = 4;
    SetMain(3);
  }
  void Add(int64_t id, std::optional<int64_t> parent, int64_t sequence) {
    iceberg::Snapshot snapshot;
    snapshot.snapshot_id = id;
    snapshot.parent_snapshot_id = parent;
    snapshot.sequence_number = sequence;
    table_.snapshots.push_back(snapshot);
  }
  void Remove(int64_t id) {
    std::erase_if(table_.snapshots, [&](const auto& s) { return s.snapshot_id == id; });
  }
  void SetMain(int64_t id) {
    table_.current_snapshot_id = id;
    table_.refs["main"].snapshot_id = id;
  }
  const iceberg::Snapshot& Get(int64_t id) { return *table_.FindSnapshot(id); }

  iceberg::TableMetadata table_;
};

TEST_F(History, I9WalksFromTheHeadToThePlannedSnapshot) {
  const auto after = SnapshotsAfter(table_, Get(3), 1).value();
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0]->snapshot_id, 3);
  EXPECT_EQ(after[1]->snapshot_id, 2);
  EXPECT_TRUE(SnapshotsAfter(table_, Get(3), 3).value().empty());
}

TEST_F(History, I9ExpiredOrForeignSnapshotsAreAConflict) {
  ExpectFails(SnapshotsAfter(table_, Get(3), 4), Code::kConflict, "not an ancestor");
  ExpectFails(SnapshotsAfter(table_, Get(3), 9), Code::kConflict, "has been expired");
  Remove(2);  // The planned snapshot is there, but nothing leads to it.
  ExpectFails(SnapshotsAfter(table_, Get(3), 1), Code::kConflict, "not an ancestor");
}

TEST_F(History, CyclesInDamagedMetadataEnd) {
  table_.snapshots[0].parent_snapshot_id = 3;
  ExpectFails(SnapshotsAfter(table_, Get(3), 4), Code::kConflict, "not an ancestor");
}

TEST_F(History, I8OwnSnapshotIsFoundOnNoBranchToo) {
  const CommitMark mark{"job", "f1"};
  EXPECT_EQ(FindMarked(table_, mark), nullptr);
  table_.snapshots[3].summary = {{"lithify.job-id", "job"}, {"lithify.commit-id", "f1"}};
  ASSERT_NE(FindMarked(table_, mark), nullptr);
  EXPECT_EQ(FindMarked(table_, mark)->snapshot_id, 4);
  EXPECT_EQ(FindMarked(table_, CommitMark{"job", "f2"}), nullptr);
  EXPECT_EQ(FindMarked(table_, CommitMark{"job2", "f1"}), nullptr);
}

TEST_F(History, R302FateOfALostAttempt) {
  // Sequence 5 is still free: it may land.
  EXPECT_EQ(FateOf({3, 5}, table_, "main"), Fate::kOpen);
  // Even if somebody rolled the branch back meanwhile.
  SetMain(2);
  EXPECT_EQ(FateOf({3, 5}, table_, "main"), Fate::kOpen);
  // Sequence 5 was given to somebody else on top of the base.
  SetMain(3);
  Add(5, 3, 5);
  SetMain(5);
  table_.last_sequence_number = 5;
  EXPECT_EQ(FateOf({3, 5}, table_, "main"), Fate::kDead);
  // Or on another branch.
  SetMain(3);
  EXPECT_EQ(FateOf({3, 5}, table_, "main"), Fate::kDead);
  // The way back to the base is gone: ours may have been in between.
  Add(6, 5, 6);
  SetMain(6);
  table_.last_sequence_number = 6;
  Remove(5);
  EXPECT_EQ(FateOf({3, 5}, table_, "main"), Fate::kUnknown);
  EXPECT_EQ(FateOf({3, 5}, table_, "gone"), Fate::kUnknown);
}

TEST_F(History, R302FateInAVersion1Table) {
  table_.format_version = 1;
  table_.last_sequence_number = 0;
  EXPECT_EQ(FateOf({3, 0}, table_, "main"), Fate::kOpen);
  // Nothing shuts it out: somebody may roll back to 2.
  EXPECT_EQ(FateOf({2, 0}, table_, "main"), Fate::kOpen);
  Remove(2);
  EXPECT_EQ(FateOf({2, 0}, table_, "main"), Fate::kUnknown);
}

// --- what deletes reach --------------------------------------------------------------------------

class Reaches : public testing::Test {
 protected:
  void SetUp() override {
    index_.Add("s3a://b/f1", Part(1), 3);
    index_.Add("s3a://b/f2", Part(1), 5);
    index_.Add("s3a://b/g", Part(2), 4);
  }
  InputIndex index_{Canonical1};
};

TEST_F(Reaches, I4ReferencedFileInAnySpelling) {
  EXPECT_TRUE(index_.Reaches(Positions(6, Part(1), "s3a://b/f1")));
  EXPECT_TRUE(index_.Reaches(Positions(6, Part(1), "s3://b/f1")));
  EXPECT_FALSE(index_.Reaches(Positions(6, Part(1), "s3a://b/other")));
  EXPECT_TRUE(index_.Reaches(Vector(6, "s3a://b/f2")));
  EXPECT_FALSE(index_.Reaches(Vector(6, "s3a://b/f3")));
}

TEST_F(Reaches, PositionDeletesApplyFromTheirOwnSequenceNumberOn) {
  EXPECT_TRUE(index_.Reaches(Positions(5, Part(1), "s3a://b/f2")));
  EXPECT_FALSE(index_.Reaches(Positions(4, Part(1), "s3a://b/f2")));
  EXPECT_TRUE(index_.Reaches(Positions(3, Part(1))));
  EXPECT_FALSE(index_.Reaches(Positions(2, Part(1))));
}

TEST_F(Reaches, T14PartitionWideDeletesByPartitionAndBounds) {
  EXPECT_TRUE(index_.Reaches(Positions(9, Part(1))));
  EXPECT_FALSE(index_.Reaches(Positions(9, Part(3))));
  EXPECT_FALSE(index_.Reaches(Positions(9, Part(1, 7))));  // Another spec.
  DeleteFacts bounded = Positions(9, Part(1));
  bounded.lower_path = "s3a://b/f3";
  bounded.upper_path = "s3a://b/f9";
  EXPECT_FALSE(index_.Reaches(bounded));
  bounded.lower_path = "s3a://b/f2";
  EXPECT_TRUE(index_.Reaches(bounded));
  // An upper bound that was cut short.
  bounded.lower_path = "s3a://b/a";
  bounded.upper_path = "s3a://b/f";
  EXPECT_TRUE(index_.Reaches(bounded));
  // Bounds in another spelling.
  bounded.lower_path = "s3://b/f1";
  bounded.upper_path = "s3://b/f1";
  EXPECT_TRUE(index_.Reaches(bounded));
}

// The facts of a position delete in the manifest of another partition than the inputs'.
DeleteFacts WithBounds(const std::string& lower, const std::string& upper) {
  iceberg::ManifestEntry entry;
  entry.file.content = FileContent::kPositionDeletes;
  entry.file.file_path = "P";
  entry.file.partition = {Value(int64_t{3})};
  entry.file.lower_bounds = {{iceberg::kFilePathFieldId, lower}};
  entry.file.upper_bounds = {{iceberg::kFilePathFieldId, upper}};
  entry.sequence_number = 6;
  iceberg::PartitionSpec spec;
  spec.fields = {{{1}, 1000, "day", "identity"}};
  return MakeDeleteFacts(entry, spec);
}

TEST_F(Reaches, I4EqualBoundsReferenceAFileInAnyPartition) {
  const DeleteFacts facts = WithBounds("s3a://b/f1", "s3a://b/f1");
  EXPECT_EQ(facts.partition, Part(3));
  EXPECT_EQ(facts.referenced, "s3a://b/f1");
  EXPECT_TRUE(index_.Reaches(facts));
  EXPECT_TRUE(index_.Reaches(WithBounds("s3://b/f1", "s3://b/f1")));
  EXPECT_FALSE(index_.Reaches(WithBounds("s3a://b/f3", "s3a://b/f3")));
  // Too old for it.
  DeleteFacts old = facts;
  old.sequence_number = 2;
  EXPECT_FALSE(index_.Reaches(old));
  // A vector reaches what it references, too.
  DeleteFacts vector = Vector(6, "s3a://b/g");
  vector.partition = Part(3);
  EXPECT_TRUE(index_.Reaches(vector));
  // Of several files: those of its partition.
  EXPECT_FALSE(index_.Reaches(WithBounds("s3a://b/f1", "s3a://b/g")));
  EXPECT_EQ(WithBounds("s3a://b/f1", "s3a://b/g").referenced, "");
  EXPECT_EQ(WithBounds("", "").referenced, "");
}

TEST_F(Reaches, T14EqualBoundsThatWereCutShortReachTheirPartition) {
  DeleteFacts cut = WithBounds("s3a://b/f", "s3a://b/f");
  EXPECT_FALSE(index_.Reaches(cut));
  cut.partition = Part(1);
  EXPECT_TRUE(index_.Reaches(cut));
}

TEST_F(Reaches, EqualityDeletesReachStrictlyOlderData) {
  EXPECT_FALSE(index_.Reaches(Equality(3, Part(1))));
  EXPECT_TRUE(index_.Reaches(Equality(4, Part(1))));
  EXPECT_FALSE(index_.Reaches(Equality(9, Part(3))));
  EXPECT_TRUE(index_.Reaches(Equality(4, PartitionKey{5, {}}, true)));
  EXPECT_FALSE(index_.Reaches(Equality(3, PartitionKey{5, {}}, true)));
}

TEST_F(Reaches, NanPartitionsAreOnePartition) {
  InputIndex index(Canonical1);
  const PartitionKey nan{0, {Value(std::numeric_limits<double>::quiet_NaN())}};
  index.Add("f", nan, 1);
  EXPECT_TRUE(index.Reaches(Positions(2, nan)));
}

TEST(DeleteChanges, I4AnyNewPositionDeleteIsAConflict) {
  DeleteRules rules{5, [](const PartitionKey&) { return true; },
                    [](const DeleteFacts&) { return false; }};
  EXPECT_TRUE(CheckDeleteChanges({}, rules));
  ExpectFails(CheckDeleteChanges({{Positions(6, Part(1))}, {}}, rules), Code::kConflict,
              "added after the plan");
  ExpectFails(CheckDeleteChanges({{Vector(6, "f")}, {}}, rules), Code::kConflict,
              "deletion vector dv.puffin at 4");
}

TEST(DeleteChanges, I1NewEqualityDeletesAreHarmlessAboveThePlan) {
  bool stays = true;
  DeleteRules rules{5, [&](const PartitionKey&) { return stays; },
                    [](const DeleteFacts&) { return false; }};
  EXPECT_TRUE(CheckDeleteChanges({{Equality(6, Part(1))}, {}}, rules));
  // One with an older number would reach the inputs, but not the outputs.
  ExpectFails(CheckDeleteChanges({{Equality(5, Part(1))}, {}}, rules), Code::kConflict, "E");
  // The rows move to another partition, where a delete of this one does not reach them.
  stays = false;
  ExpectFails(CheckDeleteChanges({{Equality(6, Part(1))}, {}}, rules), Code::kConflict, "E");
  EXPECT_TRUE(CheckDeleteChanges({{Equality(6, PartitionKey{}, true)}, {}}, rules));
}

TEST(DeleteChanges, I4RemovedDeletesAreAConflictUnlessThisJobRemovedThem) {
  bool own = false;
  DeleteRules rules{5, [](const PartitionKey&) { return true; },
                    [&](const DeleteFacts&) { return own; }};
  ExpectFails(CheckDeleteChanges({{}, {Positions(4, Part(1))}}, rules), Code::kConflict,
              "removed or replaced");
  ExpectFails(CheckDeleteChanges({{}, {Equality(4, Part(1))}}, rules), Code::kConflict,
              "removed or replaced");
  own = true;
  EXPECT_TRUE(CheckDeleteChanges({{}, {Positions(4, Part(1))}}, rules));
}

TEST(PartitionBalance, RowsStayOrMove) {
  PartitionBalance balance;
  balance.Out(Part(1), 10);
  balance.In(Part(1), 10);
  balance.Out(Part(2), 3);
  balance.In(Part(2, 1), 3);
  EXPECT_TRUE(balance.StaysIn(Part(1)));
  EXPECT_FALSE(balance.StaysIn(Part(2)));
  EXPECT_FALSE(balance.StaysIn(Part(2, 1)));
  EXPECT_TRUE(balance.StaysIn(Part(9)));
}

// --- covered deletes -----------------------------------------------------------------------------

class Covered : public testing::Test {
 protected:
  void SetUp() override { inputs_.Add("f1"); }
  size_t Removable() { return covered_.Removable().size(); }
  PathSet inputs_{Canonical1};
  CoveredDeletes covered_{inputs_, Canonical1};
};

TEST_F(Covered, R101DeleteOfAnInputIsCoveredWithoutReadingData) {
  covered_.Add(Vector(4, "f1"), {});
  covered_.Add(Positions(4, Part(1), "f1"), {});
  EXPECT_FALSE(covered_.open());
  EXPECT_EQ(Removable(), 2u);
}

TEST_F(Covered, I6DeleteThatNamesAFileThatStaysIsNeeded) {
  const std::vector<std::string> paths = {"f1", "s3a://b/f2"};
  covered_.Add(Positions(4, Part(1)), paths);
  EXPECT_TRUE(covered_.open());
  EXPECT_EQ(Removable(), 1u);               // f2 may be gone.
  covered_.Stays("s3://b/f2", Part(1), 5);  // Newer than the delete: it does not apply.
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("s3://b/f2", Part(1), 4);
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, I6WithoutPathsThePartitionDecides) {
  covered_.Add(Positions(4, Part(1)), {});
  covered_.Stays("f2", Part(2), 1);
  covered_.Stays("f3", Part(1), 5);
  EXPECT_EQ(Removable(), 1u);
  covered_.Output(Part(1), 2);  // New names are in no delete file.
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("f2", Part(1), 4);
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, I6EqualBoundsNeedTheirFileInAnyPartition) {
  covered_.Add(WithBounds("s3a://b/f2", "s3a://b/f2"), {});
  EXPECT_TRUE(covered_.open());
  EXPECT_TRUE(covered_.MayNeed(6, [](const PartitionKey&) { return false; }));
  covered_.Stays("s3a://b/f9", Part(1), 4);
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("s3a://b/f2", Part(1), 7);  // Newer than the delete: it does not apply.
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("s3://b/f2", Part(1), 4);
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, I6EqualBoundsThatWereCutShortNeedTheirPartition) {
  covered_.Add(WithBounds("f", "f"), {});
  covered_.Stays("f2", Part(1), 4);
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("f2", Part(3), 4);
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, R102EqualityDeleteGoesWithTheLastOlderFileOfItsScope) {
  covered_.Add(Equality(4, Part(1)), {});
  covered_.Stays("f2", Part(1), 4);
  covered_.Stays("f3", Part(2), 1);
  EXPECT_EQ(Removable(), 1u);
  covered_.Output(Part(1), 3);  // It would apply to an output.
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, R102GlobalEqualityDeletesLookEverywhere) {
  covered_.Add(Equality(4, PartitionKey{9, {}}, true), {});
  EXPECT_EQ(Removable(), 1u);
  covered_.Stays("f3", Part(2), 3);
  EXPECT_EQ(Removable(), 0u);
}

TEST_F(Covered, ManifestsThatCannotMatterAreNotRead) {
  covered_.Add(Equality(4, Part(1)), {});
  const auto only_1 = [](const PartitionKey& key) { return key == Part(1); };
  EXPECT_TRUE(covered_.MayNeed(3, only_1));
  EXPECT_FALSE(covered_.MayNeed(5, only_1));
  EXPECT_FALSE(covered_.MayNeed(3, [](const PartitionKey&) { return false; }));
  covered_.Add(Positions(6, Part(2), "f7"), {});
  EXPECT_TRUE(covered_.MayNeed(6, [](const PartitionKey&) { return false; }));
  EXPECT_FALSE(covered_.MayNeed(7, [](const PartitionKey&) { return false; }));
}

}  // namespace
}  // namespace lithify::commit
