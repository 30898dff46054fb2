// Rows by the partition of another spec. Numbers (R…) are those of the requirements that a test
// restates. The transforms themselves are tested with table/iceberg_value.h.
#include "rewrite/partition_scan.h"

#include <cmath>
#include <limits>
#include <set>

#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using iceberg::Value;
using Positions = std::vector<int64_t>;

Positions Members(const PositionSet& set) {
  Positions members;
  set.ForEachRange(0, std::numeric_limits<int64_t>::max(), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) members.push_back(p);
  });
  return members;
}

class PartitionScanTest : public testing::Test {
 protected:
  PartitionScanTest() {
    table_.schema.fields = {Column(1, "id", TypeKind::kLong), Column(2, "name", TypeKind::kString),
                            Column(3, "x", TypeKind::kDouble)};
    rule_.sources = {1};
    rule_.transform = [](size_t, const Value& value) { return Result<Value>(value); };
  }

  static arrow::FieldVector Ids() { return {IdField(1, "id", arrow::int64())}; }
  static arrow::FieldVector IdsAndNames() {
    return {IdField(1, "id", arrow::int64()), IdField(2, "name", arrow::utf8())};
  }

  void Put(const std::string& key, const arrow::FieldVector& fields,
           const std::vector<std::string>& columns, int64_t row_group_rows = 1 << 20) {
    const std::string bytes =
        WriteParquet(*MakeTable(arrow::schema(fields), columns), row_group_rows);
    ASSERT_TRUE(store_.PutNew(key, bytes)) << key;
    InputFile file;
    file.key = key;
    file.size = static_cast<int64_t>(bytes.size());
    files_.push_back(std::move(file));
  }

  void Delete(size_t file, const Positions& rows) {
    auto set = std::make_shared<PositionSet>();
    set->AddMany(rows);
    files_[file].deleted = std::move(set);
  }

  Result<SplitRows> Split() { return SplitByPartition(store_, table_, rule_, files_, bounds_); }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  TableTarget table_;
  PartitionRule rule_;
  std::vector<InputFile> files_;
  ScanBounds bounds_;
};

TEST_F(PartitionScanTest, R100_EveryLiveRowIsInOnePartition) {
  Put("a.parquet", Ids(), {"[7, 8, 7, null, 7]"}, 2);
  Put("b.parquet", Ids(), {"[8, 9]"});
  Delete(0, {2});
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  EXPECT_EQ(split->rows_per_file, (std::vector<int64_t>{5, 2}));
  ASSERT_EQ(split->partitions.size(), 4U);
  const auto& null = split->partitions[0];  // Null comes first.
  EXPECT_EQ(null.values, std::vector<Value>{Value()});
  ASSERT_EQ(null.files.size(), 1U);
  EXPECT_EQ(Members(null.files.at(0)), Positions{3});
  EXPECT_EQ(split->partitions[1].values, std::vector<Value>{int64_t{7}});
  EXPECT_EQ(Members(split->partitions[1].files.at(0)), (Positions{0, 4}));
  EXPECT_EQ(split->partitions[1].rows, 2);
  EXPECT_EQ(split->partitions[2].values, std::vector<Value>{int64_t{8}});
  EXPECT_EQ(Members(split->partitions[2].files.at(0)), Positions{1});
  EXPECT_EQ(Members(split->partitions[2].files.at(1)), Positions{0});
  EXPECT_EQ(split->partitions[2].rows, 2);
  EXPECT_EQ(split->partitions[3].values, std::vector<Value>{int64_t{9}});
  EXPECT_EQ(Members(split->partitions[3].files.at(1)), Positions{1});
}

TEST_F(PartitionScanTest, RunsAndSingleRowsOfManyBatches) {
  // Runs of every length around the one from which they are added whole, over batches and groups.
  std::string json = "[";
  std::vector<int64_t> ids;
  for (int64_t run = 0; ids.size() < 20'000; ++run) {
    for (int64_t i = 0; i <= run % 90; ++i) ids.push_back(run % 7);
  }
  for (const int64_t id : ids) json += (json.size() > 1 ? "," : "") + std::to_string(id);
  Put("a.parquet", Ids(), {json + "]"}, 6000);
  Positions deleted;
  for (int64_t row = 0; row < std::ssize(ids); row += 11) deleted.push_back(row);
  Delete(0, deleted);
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  std::map<int64_t, Positions> expected;
  for (int64_t row = 0; row < std::ssize(ids); ++row) {
    if (row % 11 != 0) expected[ids[static_cast<size_t>(row)]].push_back(row);
  }
  ASSERT_EQ(split->partitions.size(), 7U);
  for (const PartitionRows& partition : split->partitions) {
    const auto id = std::get<int64_t>(partition.values[0]);
    EXPECT_EQ(Members(partition.files.at(0)), expected[id]) << id;
    EXPECT_EQ(partition.rows, std::ssize(expected[id]));
  }
}

TEST_F(PartitionScanTest, SeveralFieldsOfOneSourceAndVoid) {
  Put("a.parquet", IdsAndNames(), {"[1, 3, 5]", R"(["b", "b", null])"});
  rule_.sources = {1, std::nullopt, 1, 2};
  rule_.transform = [](size_t field, const Value& value) -> Result<Value> {
    const auto* id = std::get_if<int64_t>(&value);
    if (field == 0 && id != nullptr) return Value(*id % 2);
    if (field == 2 && id != nullptr) return Value(*id / 4);
    return value;
  };
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  ASSERT_EQ(split->partitions.size(), 2U);
  EXPECT_EQ(split->partitions[0].values,
            (std::vector<Value>{int64_t{1}, Value(), int64_t{0}, std::string("b")}));
  EXPECT_EQ(Members(split->partitions[0].files.at(0)), (Positions{0, 1}));
  EXPECT_EQ(split->partitions[1].values,
            (std::vector<Value>{int64_t{1}, Value(), int64_t{1}, Value()}));
}

TEST_F(PartitionScanTest, NoFieldIsOnePartition) {
  Put("a.parquet", Ids(), {"[1, 2, 3]"});
  Delete(0, {1});
  rule_.sources = {};
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  ASSERT_EQ(split->partitions.size(), 1U);
  EXPECT_EQ(split->partitions[0].values, std::vector<Value>{});
  EXPECT_EQ(Members(split->partitions[0].files.at(0)), (Positions{0, 2}));
}

TEST_F(PartitionScanTest, AllRowsDeletedIsNoPartition) {
  Put("a.parquet", Ids(), {"[1, 2]"});
  Delete(0, {0, 1});
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  EXPECT_TRUE(split->partitions.empty());
  EXPECT_EQ(split->rows_per_file, std::vector<int64_t>{2});
}

TEST_F(PartitionScanTest, ZerosDifferAndNaNsDoNot) {
  Put("a.parquet", {IdField(3, "x", arrow::float64())}, {"[0.0, -0.0, NaN, NaN, 0.0]"});
  rule_.sources = {3};
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  ASSERT_EQ(split->partitions.size(), 3U);
  EXPECT_TRUE(std::signbit(std::get<double>(split->partitions[0].values[0])));
  EXPECT_EQ(Members(split->partitions[0].files.at(0)), Positions{1});
  EXPECT_FALSE(std::signbit(std::get<double>(split->partitions[1].values[0])));
  EXPECT_EQ(Members(split->partitions[1].files.at(0)), (Positions{0, 4}));
  EXPECT_TRUE(std::isnan(std::get<double>(split->partitions[2].values[0])));
  EXPECT_EQ(Members(split->partitions[2].files.at(0)), (Positions{2, 3}));
}

TEST_F(PartitionScanTest, WhatAFileLacksComesFromItsPartitionOrTheDefault) {
  Put("a.parquet", {IdField(2, "name", arrow::utf8())}, {R"(["a", "b"])"});
  Put("b.parquet", {IdField(2, "name", arrow::utf8())}, {R"(["c"])"});
  files_[0].constants = {{1, Value(int64_t{42})}};
  table_.schema.fields[0].initial_default = Value(int64_t{5});
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  ASSERT_EQ(split->partitions.size(), 2U);
  EXPECT_EQ(split->partitions[0].values, std::vector<Value>{int64_t{5}});
  EXPECT_EQ(Members(split->partitions[0].files.at(1)), Positions{0});
  EXPECT_EQ(split->partitions[1].values, std::vector<Value>{int64_t{42}});
  EXPECT_EQ(Members(split->partitions[1].files.at(0)), (Positions{0, 1}));
}

TEST_F(PartitionScanTest, APartitionValueHidesAColumnThatIsKnownByNameOnly) {
  Put("a.parquet", {arrow::field("id", arrow::int64())}, {"[1, 2]"});
  table_.name_mapping = {{.names = {"id"}, .field_id = 1, .fields = {}}};
  auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  EXPECT_EQ(split->partitions.size(), 2U);
  files_[0].constants = {{1, Value(int64_t{42})}};
  split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  ASSERT_EQ(split->partitions.size(), 1U);
  EXPECT_EQ(split->partitions[0].values, std::vector<Value>{int64_t{42}});
}

TEST_F(PartitionScanTest, PromotedColumnsAreOfTheTypeNow) {
  Put("a.parquet", {IdField(1, "id", arrow::int32()), IdField(3, "x", arrow::float32())},
      {"[1]", "[0.5]"});
  rule_.sources = {1, 3};
  const auto split = Split();
  ASSERT_TRUE(split) << split.error().ToString();
  EXPECT_EQ(split->partitions[0].values, (std::vector<Value>{int64_t{1}, 0.5}));
}

TEST_F(PartitionScanTest, RefusesWhatItCannotDo) {
  Put("a.parquet", Ids(), {"[1, 2, 3]"});
  const auto expect = [&](Code code, const std::string& part) {
    const auto split = Split();
    ASSERT_FALSE(split);
    EXPECT_EQ(split.error().code, code) << split.error().ToString();
    EXPECT_NE(split.error().ToString().find(part), std::string::npos) << split.error().ToString();
  };
  rule_.partitions_max = 2;
  expect(Code::kLimit, "output-spec-id: the rows of one group belong to more than 2 partitions");
  rule_.partitions_max = 3;
  EXPECT_TRUE(Split());
  Delete(0, {3});
  expect(Code::kCorrupt, "row 3 is deleted, the file has 3 rows");
  files_[0].deleted = nullptr;
  files_[0].records = 4;
  expect(Code::kCorrupt, "the table's metadata says 4");
  files_[0].records = -1;
  rule_.sources = {99};
  expect(Code::kUnsupported, "field id 99");
  rule_.sources = {1};
  rule_.transform = [](size_t, const Value&) -> Result<Value> {
    return Fail(Code::kUnsupported, "no such transform");
  };
  expect(Code::kUnsupported, "a.parquet: no such transform");
  CancelFlag cancel;
  cancel.Request();
  bounds_.cancel = &cancel;
  expect(Code::kCancelled, "");
}

TEST_F(PartitionScanTest, PositionsAreBounded) {
  std::string json = "[";
  for (int i = 0; i < 60'000; ++i) {
    json += (i > 0 ? "," : "") + std::to_string(i * 7919 % 900);
  }
  Put("a.parquet", Ids(), {json + "]"});
  EXPECT_TRUE(Split());
  bounds_.memory_bytes = 256 << 10;
  const auto split = Split();
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, Code::kLimit) << split.error().ToString();
}

}  // namespace
}  // namespace lithify::rewrite
