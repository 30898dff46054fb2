#include "plan/write_rates.h"

#include <gmock/gmock.h>

#include "base/text.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

const Time kNow = ParseTime("2026-11-30T12:00:00Z").value();

int64_t Ago(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>((kNow - d).time_since_epoch())
      .count();
}

iceberg::Snapshot Made(int64_t sequence_number, Duration ago,
                       const std::string& operation = "append") {
  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = sequence_number;
  snapshot.sequence_number = sequence_number;
  snapshot.timestamp_ms = Ago(ago);
  snapshot.summary = {{"operation", operation}};
  return snapshot;
}

class WriteRatesOfTable : public testing::Test {
 protected:
  WriteRatesOfTable() {
    table_.format_version = 2;
    live_.partitions.resize(2);
  }
  void Add(int32_t partition, int64_t sequence_number, int count = 1) {
    for (int i = 0; i < count; ++i) {
      iceberg::LiveDataFile file;
      file.partition = partition;
      file.sequence_number = sequence_number;
      live_.data_files.push_back(file);
    }
  }
  std::vector<WriteRates> Rates() { return WriteRatesOf(table_, live_, kNow); }

  iceberg::TableMetadata table_;
  iceberg::LiveSet live_;
};

using std::chrono::hours;

TEST_F(WriteRatesOfTable, CommitsAndFilesOfADay) {
  table_.snapshots = {Made(1, hours(100)), Made(2, hours(12)), Made(3, hours(6)),
                      Made(4, hours(1))};
  Add(0, 1, 50);  // Before the window.
  Add(0, 2, 6);
  Add(0, 3, 6);
  Add(1, 4);
  const auto rates = Rates();
  EXPECT_DOUBLE_EQ(*rates[0].commits_per_hour, 2.0 / 24);
  EXPECT_DOUBLE_EQ(*rates[0].files_per_hour, 12.0 / 24);
  EXPECT_DOUBLE_EQ(rates[0].append_share, 1);
  EXPECT_DOUBLE_EQ(*rates[0].seconds_since_write, 6 * 3600);
  EXPECT_FALSE(rates[0].seconds_since_compaction);
  EXPECT_DOUBLE_EQ(*rates[1].commits_per_hour, 1.0 / 24);
  EXPECT_DOUBLE_EQ(*rates[1].seconds_since_write, 3600);
}

TEST_F(WriteRatesOfTable, DeletesAreCommitsToo) {
  table_.snapshots = {Made(1, hours(30)), Made(2, hours(2), "delete")};
  iceberg::LiveDeleteFile file;
  file.partition = 1;
  file.sequence_number = 2;
  live_.delete_files = {file};
  const auto rates = Rates();
  EXPECT_DOUBLE_EQ(*rates[1].commits_per_hour, 1.0 / 24);
  EXPECT_DOUBLE_EQ(*rates[1].files_per_hour, 0);
  EXPECT_DOUBLE_EQ(rates[1].append_share, 0);
}

TEST_F(WriteRatesOfTable, NothingIsSeenBeyondACompaction) {
  table_.snapshots = {Made(1, hours(20)), Made(2, hours(4), "replace"), Made(3, hours(1))};
  Add(0, 1);
  Add(0, 3, 2);
  const auto rates = Rates();
  EXPECT_DOUBLE_EQ(*rates[0].commits_per_hour, 1.0 / 4);
  EXPECT_DOUBLE_EQ(*rates[0].files_per_hour, 2.0 / 4);
  EXPECT_DOUBLE_EQ(*rates[0].seconds_since_compaction, 4 * 3600);
}

TEST_F(WriteRatesOfTable, AYoungTableDoesNotLookHotForever) {
  table_.snapshots = {Made(1, std::chrono::seconds(1))};
  Add(0, 1);
  EXPECT_DOUBLE_EQ(*Rates()[0].commits_per_hour, 6.0);  // One in ten minutes.
}

TEST_F(WriteRatesOfTable, WhatIsNotToldIsUnset) {
  EXPECT_FALSE(Rates()[0].commits_per_hour);
  table_.snapshots = {Made(0, hours(1))};
  table_.format_version = 1;
  EXPECT_FALSE(Rates()[0].commits_per_hour);
  table_.format_version = 2;
  Add(0, 77);  // Its snapshot is expired.
  EXPECT_DOUBLE_EQ(*Rates()[0].commits_per_hour, 0);
  EXPECT_FALSE(Rates()[0].seconds_since_write);
}

TEST_F(WriteRatesOfTable, AWriterWhoseClockIsAheadIsNoTimeBeforeNow) {
  table_.snapshots = {Made(1, -hours(1))};
  Add(0, 1);
  EXPECT_DOUBLE_EQ(*Rates()[0].seconds_since_write, 0);
}

TEST_F(WriteRatesOfTable, T18ACompactionByAClockThatWasAheadIsNotBelieved) {
  table_.snapshots = {Made(1, hours(20)), Made(2, hours(4), "replace"),
                      Made(3, -hours(9000), "replace")};
  Add(0, 1);
  EXPECT_DOUBLE_EQ(*Rates()[0].seconds_since_compaction, 4 * 3600);
  table_.snapshots[1] = Made(2, -std::chrono::minutes(4), "replace");
  EXPECT_DOUBLE_EQ(*Rates()[0].seconds_since_compaction, 0);
}

}  // namespace
}  // namespace lithify::plan
