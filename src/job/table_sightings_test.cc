#include "job/table_sightings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace lithify::job {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::SizeIs;

const Time kNow = Time(std::chrono::hours(500'000));

catalog::LoadedTable Table(const std::string& name, int64_t snapshot_id) {
  catalog::LoadedTable table;
  table.ident = {.namespace_parts = {"sales"}, .name = name};
  table.metadata.table_uuid = "uuid of " + name;
  table.metadata.properties = {
      {"owner", "secret"}, {"sqe.maintenance.enabled", "true"}, {"sqe.maintenanceother", "no"}};
  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = snapshot_id;
  snapshot.timestamp_ms = 7;
  snapshot.summary = {{"operation", "append"}, {"total-data-files", "6"}};
  table.metadata.snapshots = {snapshot};
  table.metadata.current_snapshot_id = snapshot_id;
  table.metadata.refs["main"].snapshot_id = snapshot_id;
  return table;
}

std::vector<std::string> Names(const std::vector<TableSighting>& sightings) {
  std::vector<std::string> names;
  for (const TableSighting& one : sightings) names.push_back(one.look.ident.name);
  return names;
}

TEST(TableSightings, KeepWhatIsNeededAndNoMore) {
  TableSightings sightings({"sqe.maintenance"});
  sightings.Saw("lake", Table("t", 5), kNow);
  const auto found = sightings.Of("lake");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].seen, kNow);
  EXPECT_EQ(found[0].look.table_uuid, "uuid of t");
  EXPECT_EQ(found[0].look.snapshot_id, 5);
  EXPECT_EQ(found[0].look.snapshot_ms, 7);
  EXPECT_THAT(found[0].look.summary, ElementsAre(Pair("total-data-files", "6")));
  EXPECT_THAT(found[0].look.properties, ElementsAre(Pair("sqe.maintenance.enabled", "true")));
}

TEST(TableSightings, TheNewestOfATableAndOfItsOwnCatalog) {
  TableSightings sightings({"sqe.maintenance"});
  sightings.Saw("lake", Table("t", 5), kNow);
  sightings.Saw("other", Table("t", 6), kNow);
  sightings.Saw("lake", Table("a", 1), kNow);
  sightings.Saw("lake", Table("t", 7), kNow + std::chrono::seconds(1));
  const auto found = sightings.Of("lake");
  ASSERT_THAT(Names(found), ElementsAre("a", "t"));
  EXPECT_EQ(found[1].look.snapshot_id, 7);
  EXPECT_EQ(found[1].seen, kNow + std::chrono::seconds(1));
  EXPECT_THAT(sightings.Of("other"), SizeIs(1));
  EXPECT_THAT(sightings.Of("lak"), SizeIs(0));
}

TEST(TableSightings, WhatWasSeenLongestAgoGoes) {
  TableSightings sightings({}, 3);
  for (const char* name : {"a", "b", "c"}) sightings.Saw("lake", Table(name, 1), kNow);
  sightings.Saw("lake", Table("a", 2), kNow);
  sightings.Saw("lake", Table("d", 1), kNow);
  EXPECT_THAT(Names(sightings.Of("lake")), ElementsAre("a", "c", "d"));
  sightings.Saw("lake", Table("e", 1), kNow);
  EXPECT_THAT(Names(sightings.Of("lake")), ElementsAre("a", "d", "e"));
}

TEST(TableSightings, HugeAndManyValuesAreNotKept) {
  TableSightings sightings({"sqe.maintenance"});
  catalog::LoadedTable table = Table("t", 1);
  table.metadata.properties["sqe.maintenance.huge"] = std::string(100'000, 'x');
  for (int i = 0; i < 1000; ++i) {
    table.metadata.properties["sqe.maintenance.x" + std::to_string(i)] = "1";
  }
  sightings.Saw("lake", table, kNow);
  const auto found = sightings.Of("lake");
  EXPECT_THAT(found[0].look.properties, SizeIs(TableSightings::kValuesMax));
  EXPECT_FALSE(found[0].look.properties.contains("sqe.maintenance.huge"));
}

}  // namespace
}  // namespace lithify::job
