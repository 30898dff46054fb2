#include "plan/iceberg_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/text.h"

namespace lithify::plan {
namespace {

using iceberg::Snapshot;
using iceberg::SnapshotRef;
using iceberg::TableMetadata;
using std::chrono::days;
using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Time kNow = ParseTime("2026-11-29T12:00:00Z").value();

int64_t Ms(Time t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

// Snapshot `id`, `age` old.
void AddSnapshot(TableMetadata& table, int64_t id, std::optional<int64_t> parent, Duration age) {
  Snapshot snapshot;
  snapshot.snapshot_id = id;
  snapshot.parent_snapshot_id = parent;
  snapshot.sequence_number = id;
  snapshot.timestamp_ms = Ms(kNow - age);
  table.snapshots.push_back(snapshot);
}

void SetRef(TableMetadata& table, const std::string& name, int64_t id, bool is_branch = true) {
  table.refs[name] = SnapshotRef{.snapshot_id = id,
                                 .is_branch = is_branch,
                                 .min_snapshots_to_keep = {},
                                 .max_snapshot_age_ms = {},
                                 .max_ref_age_ms = {}};
  if (name == "main") table.current_snapshot_id = id;
}

// 1 <- 2 <- … <- n on main, the newest one day old, each a day older than the next.
TableMetadata Chain(int64_t n) {
  TableMetadata table;
  for (int64_t id = 1; id <= n; ++id) {
    AddSnapshot(table, id, id > 1 ? std::optional(id - 1) : std::nullopt, days(n - id + 1));
  }
  SetRef(table, "main", n);
  return table;
}

ExpireOptions OlderThan(Time bound, std::optional<int> retain_last = {}) {
  ExpireOptions options;
  options.older_than = bound;
  options.retain_last = retain_last;
  return options;
}

std::vector<int64_t> Expired(const TableMetadata& table, const ExpireOptions& options = {}) {
  return PlanExpiry(table, options, kNow).value().snapshot_ids;
}

TEST(IcebergExpiry, DefaultsAreFiveDaysAndOneSnapshot) {
  // Exactly five days old is not older.
  EXPECT_THAT(Expired(Chain(8)), ElementsAre(1, 2, 3));
  TableMetadata table;
  AddSnapshot(table, 1, {}, days(90));
  SetRef(table, "main", 1);
  EXPECT_THAT(Expired(table), IsEmpty());
  EXPECT_THAT(Expired(TableMetadata{}), IsEmpty());
}

TEST(IcebergExpiry, R187PropertiesOfTheTable) {
  TableMetadata table = Chain(8);
  table.properties["history.expire.max-snapshot-age-ms"] = "172800000";  // Two days.
  EXPECT_THAT(Expired(table), ElementsAre(1, 2, 3, 4, 5, 6));
  table.properties["history.expire.min-snapshots-to-keep"] = "4";
  EXPECT_THAT(Expired(table), ElementsAre(1, 2, 3, 4));
  // Options go before properties.
  EXPECT_THAT(Expired(table, OlderThan(kNow - days(6))), ElementsAre(1, 2));
  EXPECT_THAT(Expired(table, OlderThan(kNow, 1)), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(IcebergExpiry, R187BadPropertiesAreErrorsThatNameThem) {
  for (const char* name :
       {"history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep",
        "history.expire.max-ref-age-ms"}) {
    for (const char* value : {"", "5 days", "-1", "1.5", "99999999999999999999"}) {
      TableMetadata table = Chain(3);
      table.properties[name] = value;
      const auto plan = PlanExpiry(table, {}, kNow);
      ASSERT_FALSE(plan) << name << "=" << value;
      EXPECT_EQ(plan.error().code, Code::kInvalid);
      EXPECT_THAT(plan.error().ToString(), HasSubstr(name));
    }
  }
}

TEST(IcebergExpiry, R187GcEnabledMustBeTrue) {
  TableMetadata table = Chain(8);
  for (const char* value : {"false", "False", "no", "", "0"}) {
    table.properties["gc.enabled"] = value;
    const auto plan = PlanExpiry(table, {}, kNow);
    ASSERT_FALSE(plan) << value;
    EXPECT_EQ(plan.error().code, Code::kDenied);
    EXPECT_EQ(CheckGcAllowed(table).error().code, Code::kDenied);
  }
  table.properties["gc.enabled"] = "TRUE";
  EXPECT_THAT(Expired(table), ElementsAre(1, 2, 3));
}

TEST(IcebergExpiry, R060BothAgeAndCountMustAllowIt) {
  const TableMetadata table = Chain(10);
  EXPECT_THAT(Expired(table, OlderThan(kNow - days(3), 5)), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Expired(table, OlderThan(kNow - days(8), 2)), ElementsAre(1, 2));
  EXPECT_THAT(Expired(table, OlderThan(kNow, 10)), IsEmpty());
  EXPECT_THAT(Expired(table, OlderThan(kNow, std::numeric_limits<int>::max())), IsEmpty());
  const auto none = PlanExpiry(table, OlderThan(kNow, 0), kNow);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().ToString(), "invalid: retain_last: must be at least 1, not 0");
}

TEST(IcebergExpiry, I14HeadsOfTagsAndBranchesStay) {
  TableMetadata table = Chain(5);
  SetRef(table, "audit", 1, false);
  SetRef(table, "dev", 2);
  const ExpirePlan plan = PlanExpiry(table, OlderThan(kNow, 1), kNow).value();
  EXPECT_THAT(plan.snapshot_ids, ElementsAre(3, 4));
  EXPECT_THAT(plan.refs, IsEmpty());
  EXPECT_THAT(plan.notes,
              ElementsAre("snapshot 1 of 2026-11-24T12:00:00.000000Z stays: tag \"audit\" points "
                          "to it",
                          "snapshot 2 of 2026-11-25T12:00:00.000000Z stays: branch \"dev\" points "
                          "to it",
                          "snapshot 5 of 2026-11-28T12:00:00.000000Z stays: branch \"main\" points "
                          "to it"));
}

TEST(IcebergExpiry, I15RollbackAndStagedSnapshots) {
  // main was rolled back from 5 to 3; 6 is staged on 3 (no branch), 7 is an old staged one.
  TableMetadata table = Chain(5);
  SetRef(table, "main", 3);
  AddSnapshot(table, 6, 3, hours(1));
  AddSnapshot(table, 7, 2, days(30));
  EXPECT_THAT(Expired(table, OlderThan(kNow - hours(36))), ElementsAre(7, 1, 2, 4));
  // A cherry-picked original goes as any other snapshot outside of the branches; its files stay as
  // long as the pick refers to them.
  SetRef(table, "main", 3);
  AddSnapshot(table, 8, 3, hours(2));
  table.snapshots.back().summary["source-snapshot-id"] = "7";
  SetRef(table, "main", 8);
  EXPECT_THAT(Expired(table, OlderThan(kNow, 2)), ElementsAre(7, 1, 2, 4, 5, 6));
}

TEST(IcebergExpiry, TheCurrentSnapshotStaysWithoutAnyRef) {
  TableMetadata table = Chain(3);
  table.refs.clear();
  EXPECT_THAT(Expired(table, OlderThan(kNow)), ElementsAre(1, 2));
}

TEST(IcebergExpiry, ARetentionOfItsOwnGoesBeforeTheOptions) {
  TableMetadata table = Chain(8);
  table.refs["main"].min_snapshots_to_keep = 3;
  EXPECT_THAT(Expired(table, OlderThan(kNow, 1)), ElementsAre(1, 2, 3, 4, 5));
  table.refs["main"].max_snapshot_age_ms = int64_t{6} * 24 * 60 * 60 * 1000;
  const ExpirePlan plan = PlanExpiry(table, OlderThan(kNow, 1), kNow).value();
  EXPECT_THAT(plan.snapshot_ids, ElementsAre(1, 2));
  EXPECT_THAT(plan.notes, ElementsAre("branch \"main\" has a retention of its own: snapshots since "
                                      "2026-11-23T12:00:00.000000Z and its newest 3 stay"));
  // Shorter than the table's is honoured as well: 1 to 4 are on the branch, and older.
  table.refs["main"].min_snapshots_to_keep = 1;
  table.refs["main"].max_snapshot_age_ms = int64_t{4} * 24 * 60 * 60 * 1000;
  EXPECT_THAT(Expired(table, OlderThan(kNow - days(90))), ElementsAre(1, 2, 3, 4));
}

TEST(IcebergExpiry, R060AYoungAncestorStaysBehindAnOldOne) {
  TableMetadata table;
  AddSnapshot(table, 1, {}, days(1));  // The clock of its writer was ahead,
  AddSnapshot(table, 2, 1, days(20));  // or that of this one was behind.
  AddSnapshot(table, 3, 2, hours(1));
  SetRef(table, "main", 3);
  EXPECT_THAT(Expired(table), ElementsAre(2));
}

TEST(IcebergExpiry, RefsOlderThanTheirMaximumGo) {
  TableMetadata table = Chain(8);
  SetRef(table, "old", 1, false);
  SetRef(table, "edge", 3);
  SetRef(table, "kept", 2);
  const int64_t day = 24 * 60 * 60 * 1000;
  table.refs["old"].max_ref_age_ms = 7 * day;
  table.refs["edge"].max_ref_age_ms = 6 * day;  // Snapshot 3 is exactly that old.
  table.refs["main"].max_ref_age_ms = 1;        // Never expires.
  ExpirePlan plan = PlanExpiry(table, {}, kNow).value();
  EXPECT_THAT(plan.refs, ElementsAre("old"));
  EXPECT_THAT(plan.snapshot_ids, ElementsAre(1));
  table.properties["history.expire.max-ref-age-ms"] = "1";
  plan = PlanExpiry(table, {}, kNow).value();
  EXPECT_THAT(plan.refs, ElementsAre("kept", "old"));
  EXPECT_THAT(plan.snapshot_ids, ElementsAre(1, 2));
}

TEST(IcebergExpiry, DamagedMetadata) {
  TableMetadata table = Chain(4);
  table.snapshots[0].parent_snapshot_id = 4;  // A circle.
  EXPECT_THAT(Expired(table, OlderThan(kNow, 10)), IsEmpty());
  EXPECT_THAT(Expired(table, OlderThan(kNow, 1)), ElementsAre(1, 2, 3));
  SetRef(table, "gone", 99, false);
  const ExpirePlan plan = PlanExpiry(table, OlderThan(kNow - days(30)), kNow).value();
  EXPECT_THAT(plan.refs, IsEmpty());
  EXPECT_THAT(plan.notes, ElementsAre("tag \"gone\" points to snapshot 99, which the table does "
                                      "not have: left alone"));
  table.snapshots[1].timestamp_ms = std::numeric_limits<int64_t>::min();
  table.snapshots[2].timestamp_ms = std::numeric_limits<int64_t>::max();
  table.properties["history.expire.max-ref-age-ms"] = "9223372036854775807";
  table.properties["history.expire.max-snapshot-age-ms"] = "9223372036854775807";
  EXPECT_THAT(Expired(table), ElementsAre(2));
  SetRef(table, "main", 5);
  const auto corrupt = PlanExpiry(table, {}, kNow);
  ASSERT_FALSE(corrupt);
  EXPECT_EQ(corrupt.error().code, Code::kCorrupt);
  EXPECT_THAT(corrupt.error().message, HasSubstr("current-snapshot-id is 5"));
  table.current_snapshot_id.reset();
  EXPECT_THAT(PlanExpiry(table, {}, kNow).error().message,
              HasSubstr("branch \"main\" points to snapshot 5"));
}

TEST(IcebergExpiry, ListedSnapshotsAndNoOthers) {
  TableMetadata table = Chain(6);
  SetRef(table, "audit", 2, false);
  table.refs["audit"].max_ref_age_ms = 1;
  ExpireOptions options;
  options.snapshot_ids = {5, 1, 5, 77};
  const ExpirePlan plan = PlanExpiry(table, options, kNow).value();
  EXPECT_THAT(plan.snapshot_ids, ElementsAre(1, 5));
  EXPECT_THAT(plan.refs, IsEmpty());
  EXPECT_THAT(plan.notes, ElementsAre("snapshot 77 is not in the table"));
  options.snapshot_ids = {1, 2};
  EXPECT_EQ(PlanExpiry(table, options, kNow).error().ToString(),
            "invalid: snapshot_ids: snapshot 2 cannot go: tag \"audit\" points to it (next: move "
            "or drop that reference first)");
  options.snapshot_ids = {6};
  EXPECT_EQ(PlanExpiry(table, options, kNow).error().code, Code::kInvalid);
  options.snapshot_ids = {1};
  options.retain_last = 1;
  EXPECT_EQ(PlanExpiry(table, options, kNow).error().code, Code::kInvalid);
}

ListedFile File(std::string location, std::optional<Time> modified) {
  return {.location = std::move(location), .size = 10, .modified = modified};
}

std::vector<std::string> Locations(const OrphanPlan& plan) {
  std::vector<std::string> locations;
  for (const ListedFile& file : plan.orphans) locations.push_back(file.location);
  return locations;
}

TEST(IcebergOrphans, I19OldUnreferencedFilesAndNoOthers) {
  const Time old = kNow - days(4);
  const std::vector<ListedFile> listed = {File("s3://b/t/z", old),
                                          File("s3://b/t/a", old),
                                          File("s3://b/t/live", old),
                                          File("s3://b/t/exact", kNow - days(3)),
                                          File("s3://b/t/none", {}),
                                          File("s3://b/t/epoch", Time{}),
                                          File("s3://b/t/young", kNow - std::chrono::minutes(1)),
                                          File("s3://b/t/future", kNow + days(400)),
                                          File("s3://b/t/before", kNow - days(3) - Duration(1)),
                                          File("s3://b/t/negative", Time{} - days(1))};
  const OrphanPlan plan = PlanOrphans(listed, {"s3://b/t/live", "s3://b/t/gone"}, {}, kNow).value();
  EXPECT_THAT(Locations(plan), ElementsAre("s3://b/t/a", "s3://b/t/before", "s3://b/t/z"));
  EXPECT_EQ(plan.listed, 10);
  EXPECT_EQ(plan.referenced, 1);
  EXPECT_EQ(plan.young, 3);
  EXPECT_EQ(plan.unknown_age, 3);
  EXPECT_EQ(plan.over_limit, 0);
}

// By another zone or clock the epoch is some hours off.
TEST(IcebergOrphans, I19ATimeNearTheEpochIsUnknown) {
  const std::vector<ListedFile> listed = {File("s3://b/t/last", Time{} + days(1)),
                                          File("s3://b/t/old", Time{} + days(1) + Duration(1))};
  const OrphanPlan plan = PlanOrphans(listed, {"s3://b/t/gone"}, {}, kNow).value();
  EXPECT_THAT(Locations(plan), ElementsAre("s3://b/t/old"));
  EXPECT_EQ(plan.unknown_age, 1);
}

TEST(IcebergOrphans, I19BadBoundsAreRefused) {
  OrphanOptions options;
  const auto code = [&](Time bound) {
    options.older_than = bound;
    const auto plan = PlanOrphans({}, {"m"}, options, kNow);
    return plan ? std::string("ok") : plan.error().message;
  };
  EXPECT_EQ(code(kNow + Duration(1)), "2026-11-29T12:00:00.000001Z is in the future");
  EXPECT_EQ(code(kNow), "2026-11-29T12:00:00.000000Z is less than 24 h 00 min ago");
  EXPECT_EQ(code(kNow - hours(24) + Duration(1)),
            "2026-11-28T12:00:00.000001Z is less than 24 h 00 min ago");
  EXPECT_EQ(code(kNow - hours(24)), "ok");
  // A floor above the default moves the default.
  options = {};
  options.age_min = days(10);
  const std::vector<ListedFile> listed = {File("a", kNow - days(9)), File("b", kNow - days(11)),
                                          File("m", kNow)};
  EXPECT_THAT(Locations(PlanOrphans(listed, {"m"}, options, kNow).value()), ElementsAre("b"));
  options.age_min = Duration(-1);
  EXPECT_EQ(PlanOrphans({}, {"m"}, options, kNow).error().code, Code::kInvalid);
  options = {};
  options.share_max = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(PlanOrphans({}, {"m"}, options, kNow).error().code, Code::kInvalid);
  options = {};
  options.deletes_max = -1;
  EXPECT_EQ(PlanOrphans({}, {"m"}, options, kNow).error().code, Code::kInvalid);
}

TEST(IcebergOrphans, R185TooLargeAShareIsRefused) {
  const Time old = kNow - days(30);
  std::vector<ListedFile> listed = {File("m", old), File("x", old)};
  EXPECT_EQ(PlanOrphans(listed, {"m"}, {}, kNow).value().orphans.size(), 1);  // Exactly half.
  listed.push_back(File("y", old));
  const auto refused = PlanOrphans(listed, {"m"}, {}, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_EQ(refused.error().message,
            "2 of 3 files (67 %) look like orphans, more than the allowed 50 %");
  OrphanOptions options;
  options.force = true;
  EXPECT_THAT(Locations(PlanOrphans(listed, {"m"}, options, kNow).value()), ElementsAre("x", "y"));
  // Young files are no orphans: they do not count.
  EXPECT_EQ(PlanOrphans({File("m", old), File("x", kNow), File("y", kNow), File("z", old)}, {"m"},
                        {}, kNow)
                .value()
                .orphans.size(),
            1);
  // Without one reference nothing is believed, whatever is forced.
  EXPECT_EQ(PlanOrphans(listed, {}, options, kNow).error().code, Code::kDenied);
}

TEST(IcebergOrphans, R185DeletesMaxLeavesTheRestForTheNextRun) {
  const Time old = kNow - days(30);
  std::vector<ListedFile> listed = {File("m1", old), File("m2", old), File("m3", old)};
  for (const char* name : {"c", "a", "b"}) listed.push_back(File(name, old));
  OrphanOptions options;
  options.deletes_max = 2;
  const OrphanPlan plan = PlanOrphans(listed, {"m1", "m2", "m3"}, options, kNow).value();
  EXPECT_THAT(Locations(plan), ElementsAre("a", "b"));
  EXPECT_EQ(plan.over_limit, 1);
  options.deletes_max = 3;
  EXPECT_EQ(PlanOrphans(listed, {"m1", "m2", "m3"}, options, kNow).value().over_limit, 0);
  // The share is that of all orphans, not of those that the limit lets through.
  options.deletes_max = 1;
  EXPECT_EQ(PlanOrphans(listed, {"m1", "m2"}, options, kNow).error().code, Code::kDenied);
}

TEST(IcebergOrphans, AFileThatIsListedTwiceIsOne) {
  const Time old = kNow - days(30);
  const std::vector<ListedFile> listed = {File("m", old), File("m", old),  File("x", old),
                                          File("x", old), File("y", kNow), File("y", old),
                                          File("z", {}),  File("z", old)};
  const OrphanPlan plan = PlanOrphans(listed, {"m"}, {}, kNow).value();
  EXPECT_THAT(Locations(plan), ElementsAre("x"));
  EXPECT_EQ(plan.listed, 4);
  EXPECT_EQ(plan.referenced, 1);
  EXPECT_EQ(plan.young, 1);
  EXPECT_EQ(plan.unknown_age, 1);
}

}  // namespace
}  // namespace lithify::plan
