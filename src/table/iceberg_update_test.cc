#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "table/iceberg_metadata.h"

namespace lithify::table {
namespace {

using iceberg::TableMetadata;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr std::string_view kPrevious = "file:///lake/t/metadata/00007-a.metadata.json";

Time AtMs(int64_t ms) { return Time(std::chrono::milliseconds(ms)); }

std::string Fixture(const std::string& name) {
  std::ifstream file(LITHIFY_TEST_DATA "/iceberg/pyiceberg/" + name + ".metadata.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Snapshots 1, 2 and 3 in a line, tags on 1 and 2, statistics of each, and members that nobody
// knows.
std::string Table(int version, const std::string& properties = "{}") {
  std::string snapshots, log, statistics;
  for (int i = 1; i <= 3; ++i) {
    const std::string id = std::to_string(i);
    const std::string comma = i == 1 ? "" : ",";
    snapshots += comma + R"({"snapshot-id":)" + id + R"(,"timestamp-ms":10)" + id +
                 (version > 1 ? R"(,"sequence-number":)" + id : "") +
                 R"(,"summary":{"operation":"append"},"manifest-list":"file:///l)" + id +
                 R"(.avro","x-future":{"b":1.10,"a":[12345678901234567890123]}})";
    log += comma + R"({"timestamp-ms":10)" + id + R"(,"snapshot-id":)" + id + "}";
    statistics += comma + R"({"snapshot-id":)" + id + R"(,"statistics-path":"file:///s)" + id +
                  R"(.puffin","file-size-in-bytes":1,"blob-metadata":[]})";
  }
  return R"({"x-first":18446744073709551615,"format-version":)" + std::to_string(version) +
         R"(,"table-uuid":"u-1","location":"file:///lake/t","last-updated-ms":103,)"
         R"("last-column-id":1,"schemas":[{"type":"struct","schema-id":4,"fields":[{"id":1,)"
         R"("name":"c","required":false,"type":"int"}]}],"current-schema-id":4,)"
         R"("partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,)"
         R"("last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],)"
         R"("default-sort-order-id":0,"last-sequence-number":3,"next-row-id":30,"properties":)" +
         properties + R"(,"current-snapshot-id":3,"snapshots":[)" + snapshots +
         R"(],"snapshot-log":[)" + log +
         R"(],"metadata-log":[],"refs":{"main":{"snapshot-id":3,)"
         R"("type":"branch","x-ref":true},"one":{"snapshot-id":1,"type":"tag"},"two":)"
         R"({"snapshot-id":2,"type":"tag"}},"statistics":[)" +
         statistics +
         R"(],"partition-statistics":[{"snapshot-id":1,"statistics-path":"file:///p1.parquet",)"
         R"("file-size-in-bytes":1}],"x-last":{"keep":[1,2.50,"é\u0007"],"deep":{"n":null}}})";
}

iceberg::Snapshot New(int version) {
  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = 8;
  snapshot.parent_snapshot_id = 3;
  snapshot.sequence_number = version > 1 ? 4 : 0;
  snapshot.timestamp_ms = 200;
  snapshot.manifest_list = "file:///l8.avro";
  snapshot.summary = {{"operation", "replace"}, {"lithify.job-id", "j"}};
  snapshot.schema_id = 4;
  if (version == 3) {
    snapshot.first_row_id = 30;
    snapshot.added_rows = 5;
  }
  return snapshot;
}

Result<std::string> Apply(const std::string& text, const std::vector<TableUpdate>& updates,
                          int64_t now_ms = 201) {
  return ApplyUpdates(text, updates, AtMs(now_ms), std::string(kPrevious));
}

TableMetadata Applied(const std::string& text, const std::vector<TableUpdate>& updates,
                      int64_t now_ms = 201) {
  const Result<std::string> next = Apply(text, updates, now_ms);
  EXPECT_TRUE(next) << next.error().ToString();
  if (!next) return {};
  return ParseTableMetadata(*next, "next").value();
}

void Refused(const std::string& text, const std::vector<TableUpdate>& updates,
             const std::string& expected, Code code = Code::kInvalid) {
  const Result<std::string> next = Apply(text, updates);
  ASSERT_FALSE(next) << expected;
  EXPECT_EQ(next.error().code, code) << next.error().ToString();
  EXPECT_THAT(next.error().ToString(), HasSubstr(expected));
}

const SetSnapshotRef kMainToNew{"main", {8, true, {}, {}, {}}};

TEST(ApplyUpdates, ANewSnapshotBecomesCurrentInEveryVersion) {
  for (const int version : {1, 2, 3}) {
    const TableMetadata table = Applied(Table(version), {AddSnapshot{New(version)}, kMainToNew});
    ASSERT_EQ(table.snapshots.size(), 4);
    EXPECT_EQ(table.snapshots.back(), New(version));
    EXPECT_EQ(table.current_snapshot_id, 8);
    EXPECT_EQ(table.refs.at("main").snapshot_id, 8);
    EXPECT_EQ(table.last_sequence_number, version > 1 ? 4 : 0);
    EXPECT_EQ(table.next_row_id, version == 3 ? 35 : 0);
    EXPECT_EQ(table.last_updated_ms, 201);
    EXPECT_EQ(table.snapshot_log.back(), (iceberg::SnapshotLogEntry{8, 200}));
    EXPECT_EQ(table.snapshot_log.size(), 4);
    EXPECT_THAT(table.metadata_log,
                ElementsAre(iceberg::MetadataLogEntry{std::string(kPrevious), 103}));
  }
}

TEST(ApplyUpdates, MembersThatNobodyKnowsSurviveWithTheirDigits) {
  const std::string next = Apply(Table(2), {AddSnapshot{New(2)}, kMainToNew}).value();
  EXPECT_THAT(next, testing::StartsWith(R"({"x-first":18446744073709551615,"format-version":2,)"));
  EXPECT_THAT(next, HasSubstr(R"("x-future":{"b":1.10,"a":[12345678901234567890123]}})"));
  EXPECT_THAT(next, HasSubstr(R"("x-ref":true)"));
  EXPECT_THAT(next, HasSubstr(R"("x-last":{"keep":[1,2.50,"é\u0007"],"deep":{"n":null}}})"));
  // Nothing but what an empty commit changes.
  std::string expected = Table(2);
  const auto replace = [&expected](const std::string& from, const std::string& to) {
    expected.replace(expected.find(from), from.size(), to);
  };
  replace(R"("last-updated-ms":103)", R"("last-updated-ms":201)");
  replace(R"("metadata-log":[])", R"("metadata-log":[{"metadata-file":")" + std::string(kPrevious) +
                                      R"(","timestamp-ms":103}])");
  EXPECT_EQ(Apply(Table(2), {}).value(), expected);
}

TEST(ApplyUpdates, TimeNeverGoesBack) {
  EXPECT_EQ(Applied(Table(2), {}, 50).last_updated_ms, 103);
  iceberg::Snapshot early = New(2);
  early.timestamp_ms = 20;
  const TableMetadata table = Applied(Table(2), {AddSnapshot{early}, kMainToNew}, 30);
  EXPECT_EQ(table.last_updated_ms, 103);
  EXPECT_EQ(table.snapshot_log.back(), (iceberg::SnapshotLogEntry{8, 103}));
}

TEST(ApplyUpdates, SnapshotsThatBreakTheNumbersAreRefused) {
  iceberg::Snapshot bad = New(2);
  bad.sequence_number = 3;
  Refused(Table(2), {AddSnapshot{bad}}, "sequence number 3, and the table is at 3",
          Code::kConflict);
  bad = New(2);
  bad.snapshot_id = 2;
  Refused(Table(2), {AddSnapshot{bad}}, "snapshot 2 is in the table already");
  bad = New(2);
  bad.schema_id = 9;
  Refused(Table(2), {AddSnapshot{bad}}, "schema 9");
  bad = New(2);
  bad.manifest_list.clear();
  Refused(Table(2), {AddSnapshot{bad}}, "no manifest list");
  bad = New(2);
  bad.summary.clear();
  Refused(Table(2), {AddSnapshot{bad}}, "names no operation");
  Refused(Table(2), {AddSnapshot{New(3)}}, "row ids, in v2");
  Refused(Table(1), {AddSnapshot{New(2)}}, "sequence number, in v1");
  Refused(Table(3), {AddSnapshot{New(2)}}, "first-row-id, added-rows");
  bad = New(3);
  bad.first_row_id = 29;
  Refused(Table(3), {AddSnapshot{bad}}, "starts at row id 29, and the table is at 30",
          Code::kConflict);
  bad = New(3);
  bad.added_rows = INT64_MAX - 29;
  Refused(Table(3), {AddSnapshot{bad}}, "more row ids than there are");
  // The second of one commit is judged after the first.
  Refused(Table(2), {AddSnapshot{New(2)}, AddSnapshot{New(2)}}, "in the table already");
}

TEST(ApplyUpdates, RefsAndTheCurrentSnapshotStayInStep) {
  const TableMetadata back = Applied(Table(2), {SetSnapshotRef{"main", {2, true, 5, {}, {}}},
                                                SetSnapshotRef{"audit", {3, true, {}, 7, 9}}});
  EXPECT_EQ(back.current_snapshot_id, 2);
  EXPECT_EQ(back.refs.at("main").min_snapshots_to_keep, 5);
  EXPECT_EQ(back.refs.at("audit"), (iceberg::SnapshotRef{3, true, {}, 7, 9}));
  EXPECT_EQ(back.snapshot_log.back(), (iceberg::SnapshotLogEntry{2, 201}));
  // Retention alone is no move.
  EXPECT_EQ(Applied(Table(2), {SetSnapshotRef{"main", {3, true, 5, {}, {}}}}).snapshot_log.size(),
            3);
  EXPECT_EQ(Applied(Table(2), {RemoveSnapshotRef{"one"}, RemoveSnapshotRef{"none"}}).refs.size(),
            2);
  Refused(Table(2), {SetSnapshotRef{"x", {77, true, {}, {}, {}}}}, "snapshot 77");
  Refused(Table(2), {SetSnapshotRef{"main", {2, false, {}, {}, {}}}}, "main cannot be a tag");
  Refused(Table(2), {SetSnapshotRef{"x", {2, false, 1, {}, {}}}}, "how many snapshots to keep");
  Refused(Table(2), {RemoveSnapshotRef{"main"}}, "main cannot be removed");
}

TEST(ApplyUpdates, OnlyTheLastCurrentSnapshotOfACommitIsLogged) {
  iceberg::Snapshot second = New(2);
  second.snapshot_id = 9;
  second.sequence_number = 5;
  const TableMetadata table =
      Applied(Table(2), {AddSnapshot{New(2)}, kMainToNew, AddSnapshot{second},
                         SetSnapshotRef{"main", {9, true, {}, {}, {}}}});
  EXPECT_EQ(table.snapshot_log.size(), 4);
  EXPECT_EQ(table.snapshot_log.back().snapshot_id, 9);
}

TEST(ApplyUpdates, V1WithoutRefsGetsThemWithMain) {
  std::string text = Fixture("v1_rows");
  const TableMetadata before = ParseTableMetadata(text, "v1").value();
  const size_t refs = text.find(R"("refs":{)");
  text.erase(refs, text.find("}},", refs) + 3 - refs);
  ASSERT_THAT(text, Not(HasSubstr("refs")));
  const int64_t old = before.snapshots[0].snapshot_id;
  const std::string next = Apply(text, {SetSnapshotRef{"keep", {old, false, {}, {}, {}}}}).value();
  EXPECT_THAT(next, HasSubstr(R"("refs":{"main":{"snapshot-id":)" +
                              std::to_string(*before.current_snapshot_id)));
  const TableMetadata after = ParseTableMetadata(next, "next").value();
  EXPECT_EQ(after.refs.size(), 2);
  EXPECT_EQ(after.snapshot_log, before.snapshot_log);
}

TEST(ApplyUpdates, ARemovedSnapshotTakesItsTracesAlong) {
  const TableMetadata table =
      Applied(Table(2), {RemoveSnapshotRef{"two"}, RemoveSnapshots{{2, 55}}});
  EXPECT_EQ(table.FindSnapshot(2), nullptr);
  EXPECT_EQ(table.snapshots.size(), 2);
  EXPECT_TRUE(table.refs.contains("one"));
  // Not [1, 3]: 1 would look current until 3 was made.
  EXPECT_THAT(table.snapshot_log, ElementsAre(iceberg::SnapshotLogEntry{3, 103}));
  EXPECT_EQ(table.statistics.size(), 2);
  EXPECT_EQ(table.partition_statistics.size(), 1);
  EXPECT_THAT(
      Applied(Table(2), {RemoveSnapshots{{1}}, RemoveSnapshotRef{"one"}}).partition_statistics,
      IsEmpty());
  Refused(Table(2), {RemoveSnapshots{{3}}}, "snapshot 3 is the current one");
  // Not current any more in the same commit.
  EXPECT_EQ(Applied(Table(2), {SetSnapshotRef{"main", {2, true, {}, {}, {}}}, RemoveSnapshots{{3}}})
                .snapshots.size(),
            2);
  EXPECT_EQ(
      Applied(Table(2), {RemoveStatistics{1}, RemovePartitionStatistics{1}}).statistics.size(), 2);
}

TEST(ApplyUpdates, I14ARefThatIsNotRemovedKeepsItsSnapshot) {
  const std::string expected = R"(ref "two" points to snapshot 2)";
  Refused(Table(2), {RemoveSnapshots{{2}}}, expected, Code::kConflict);
  Refused(Table(2), {RemoveSnapshotRef{"one"}, RemoveSnapshots{{1, 2}}}, expected, Code::kConflict);
  // A ref that moves away in the same commit does not hold it.
  const TableMetadata moved =
      Applied(Table(2), {RemoveSnapshots{{2}}, SetSnapshotRef{"two", {3, false, {}, {}, {}}}});
  EXPECT_EQ(moved.refs.at("two").snapshot_id, 3);
  EXPECT_EQ(moved.snapshots.size(), 2);
}

TEST(ApplyUpdates, PropertiesAndTheMetadataLogsBound) {
  std::string text = Table(2, R"({"write.metadata.previous-versions-max":"2","a":"1"})");
  for (int i = 0; i < 3; ++i) {
    text = ApplyUpdates(text, {}, AtMs(300 + i), "file:///m" + std::to_string(i)).value();
  }
  TableMetadata table = ParseTableMetadata(text, "m").value();
  EXPECT_THAT(table.metadata_log, ElementsAre(iceberg::MetadataLogEntry{"file:///m1", 300},
                                              iceberg::MetadataLogEntry{"file:///m2", 301}));
  table = Applied(text, {SetProperties{{{"b", "2"}, {"write.metadata.previous-versions-max", "0"}}},
                         RemoveProperties{{"a", "z"}}});
  EXPECT_THAT(table.properties,
              ElementsAre(Pair("b", "2"), Pair("write.metadata.previous-versions-max", "0")));
  EXPECT_EQ(table.metadata_log.size(), 1);
  // 100 unless it is a number.
  text = Table(2, R"({"write.metadata.previous-versions-max":"many"})");
  for (int i = 0; i < 102; ++i) text = Apply(text, {}).value();
  EXPECT_EQ(ParseTableMetadata(text, "m")->metadata_log.size(), 100);
}

TEST(ApplyUpdates, MembersThatAreMissingAreAdded) {
  const TableMetadata table = Applied(
      R"({"format-version":1,"location":"file:///t","last-updated-ms":5,"last-column-id":1,)"
      R"("schema":{"type":"struct","schema-id":4,"fields":[]},"partition-spec":[]})",
      {AddSnapshot{New(1)}, kMainToNew, SetProperties{{{"a", "b"}}}, RemoveSnapshots{{1}}});
  EXPECT_EQ(table.current_snapshot_id, 8);
  EXPECT_EQ(table.refs.size(), 1);
  EXPECT_EQ(table.snapshot_log.size(), 1);
  EXPECT_THAT(table.metadata_log,
              ElementsAre(iceberg::MetadataLogEntry{std::string(kPrevious), 5}));
  EXPECT_THAT(table.properties, ElementsAre(Pair("a", "b")));
}

TEST(ApplyUpdates, WhatIsNoMetadataIsCorrupt) {
  EXPECT_EQ(Apply("{}", {}).error().code, Code::kCorrupt);
  EXPECT_THAT(Apply("{}", {}).error().ToString(), HasSubstr(kPrevious));
}

TEST(CheckRequirements, R115EachKind) {
  const TableMetadata table = ParseTableMetadata(Table(2), "m").value();
  const auto check = [&table](const TableRequirement& requirement) {
    return CheckRequirements(table, std::vector<TableRequirement>{requirement});
  };
  EXPECT_TRUE(CheckRequirements(
      table, std::vector<TableRequirement>{AssertTableUuid{"U-1"}, AssertRefSnapshotId{"main", 3},
                                           AssertRefSnapshotId{"none", std::nullopt},
                                           AssertCurrentSchemaId{4}, AssertDefaultSpecId{0},
                                           AssertDefaultSortOrderId{0}}));
  const std::vector<std::pair<TableRequirement, std::string>> broken = {
      {AssertTableUuid{"u-2"}, R"(table-uuid was to be "u-2" and is "u-1")"},
      {AssertRefSnapshotId{"main", 2}, R"(ref "main" was to be 2 and is 3)"},
      {AssertRefSnapshotId{"main", std::nullopt}, R"(ref "main" was to be absent and is 3)"},
      {AssertRefSnapshotId{"none", 2}, R"(ref "none" was to be 2 and is absent)"},
      {AssertCurrentSchemaId{5}, "current-schema-id was to be 5 and is 4"},
      {AssertDefaultSpecId{1}, "default-spec-id was to be 1 and is 0"},
      {AssertDefaultSortOrderId{1}, "default-sort-order-id was to be 1 and is 0"}};
  for (const auto& [requirement, expected] : broken) {
    const Status status = check(requirement);
    ASSERT_FALSE(status) << expected;
    EXPECT_EQ(status.error().code, Code::kConflict);
    EXPECT_THAT(status.error().message, HasSubstr(expected));
  }
}

// CommitTableRequest of the REST catalog's OpenAPI document.
TEST(CommitToJson, EachRequirementAndUpdate) {
  const std::vector<TableRequirement> requirements = {
      AssertTableUuid{"u"},
      AssertRefSnapshotId{"main", 3055729675574597004},
      AssertRefSnapshotId{"b", std::nullopt},
      AssertCurrentSchemaId{1},
      AssertDefaultSpecId{2},
      AssertDefaultSortOrderId{3}};
  EXPECT_EQ(CommitToJson(requirements, {}),
            R"({"requirements":[{"type":"assert-table-uuid","uuid":"u"},)"
            R"({"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":3055729675574597004},)"
            R"({"type":"assert-ref-snapshot-id","ref":"b","snapshot-id":null},)"
            R"({"type":"assert-current-schema-id","current-schema-id":1},)"
            R"({"type":"assert-default-spec-id","default-spec-id":2},)"
            R"({"type":"assert-default-sort-order-id","default-sort-order-id":3}],"updates":[]})");
  const std::vector<TableUpdate> updates = {AddSnapshot{New(3)},
                                            SetSnapshotRef{"main", {8, true, 1, 2, 3}},
                                            SetSnapshotRef{"t", {8, false, {}, {}, {}}},
                                            RemoveSnapshots{{1, 2}},
                                            RemoveSnapshotRef{"one"},
                                            SetProperties{{{"a", "b"}}},
                                            SetProperties{},
                                            RemoveProperties{{"c"}},
                                            RemoveStatistics{1},
                                            RemovePartitionStatistics{2}};
  EXPECT_EQ(
      CommitToJson({}, updates),
      R"({"requirements":[],"updates":[{"action":"add-snapshot","snapshot":{"sequence-number":4,)"
      R"("snapshot-id":8,"parent-snapshot-id":3,"timestamp-ms":200,)"
      R"("summary":{"lithify.job-id":"j",)"
      R"("operation":"replace"},"manifest-list":"file:///l8.avro","schema-id":4,"first-row-id":30,)"
      R"("added-rows":5}},{"action":"set-snapshot-ref","ref-name":"main","snapshot-id":8,)"
      R"("type":"branch","min-snapshots-to-keep":1,"max-snapshot-age-ms":2,"max-ref-age-ms":3},)"
      R"({"action":"set-snapshot-ref","ref-name":"t","snapshot-id":8,"type":"tag"},)"
      R"({"action":"remove-snapshots","snapshot-ids":[1]},)"
      R"({"action":"remove-snapshots","snapshot-ids":[2]},)"
      R"({"action":"remove-snapshot-ref","ref-name":"one"},)"
      R"({"action":"set-properties","updates":{"a":"b"}},)"
      R"({"action":"set-properties","updates":{}},)"
      R"({"action":"remove-properties","removals":["c"]},)"
      R"({"action":"remove-statistics","snapshot-id":1},)"
      R"({"action":"remove-partition-statistics","snapshot-id":2}]})");
}

}  // namespace
}  // namespace lithify::table
