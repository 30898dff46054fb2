// Which rows of a group go to which partition of another spec, as rewrites of their own. The scan
// that tells the rows apart is tested with rewrite/partition_scan.h.
#include "group/repartition.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lithify::group {
namespace {

using iceberg::TypeKind;
using iceberg::Value;

iceberg::TableMetadata Table() {
  iceberg::TableMetadata table;
  iceberg::Schema schema;
  for (const auto& [id, name, kind] :
       {std::tuple(1, "id", TypeKind::kLong), std::tuple(2, "at", TypeKind::kTimestamp)}) {
    iceberg::Field field;
    field.id = id;
    field.name = name;
    field.type.kind = kind;
    schema.fields.push_back(std::move(field));
  }
  table.schemas = {schema};
  const auto field = [](int source, const std::string& transform) {
    return iceberg::PartitionField{
        .source_ids = {source}, .field_id = 1000, .name = "p", .transform = transform};
  };
  table.partition_specs = {
      {.spec_id = 0, .fields = {}},
      {.spec_id = 1, .fields = {field(1, "bucket[16]"), field(9, "void"), field(2, "day")}},
      {.spec_id = 2, .fields = {field(1, "spiral[3]")}},
      {.spec_id = 3, .fields = {field(9, "identity")}},
      {.spec_id = 4, .fields = {field(1, "day")}}};
  return table;
}

std::string ErrorOf(const Result<rewrite::PartitionRule>& rule) {
  return rule ? "" : rule.error().ToString();
}

TEST(PartitionRule, HasASourceForEachFieldButVoidOnes) {
  const iceberg::TableMetadata table = Table();
  const auto rule = MakePartitionRule(table, 1, 7);
  ASSERT_TRUE(rule) << rule.error().ToString();
  EXPECT_EQ(rule->partitions_max, 7);
  EXPECT_EQ(rule->sources, (std::vector<std::optional<int>>{1, std::nullopt, 2}));
  EXPECT_EQ(rule->transform(0, Value(int64_t{34})).value(), Value(int64_t{3}));
  EXPECT_EQ(rule->transform(0, Value()).value(), Value());
  EXPECT_EQ(rule->transform(1, Value()).value(), Value());
  EXPECT_EQ(rule->transform(2, Value(int64_t{-1})).value(), Value(int64_t{-1}));
}

TEST(PartitionRule, RefusesSpecsThatNoRowCanBeWrittenUnder) {
  const iceberg::TableMetadata table = Table();
  EXPECT_EQ(ErrorOf(MakePartitionRule(table, 5, 7)),
            "invalid: output-spec-id: the table has no partition spec 5 (next: its specs are "
            "0 (unpartitioned), 1 (bucket[16](id), void(p), day(at)), 2 (spiral[3](id)), "
            "3 (identity(p)), 4 (day(id)))");
  EXPECT_NE(ErrorOf(MakePartitionRule(table, 2, 7)).find("unknown transform spiral[3]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(MakePartitionRule(table, 3, 7)).find("is not in the table any more"),
            std::string::npos);
  EXPECT_NE(ErrorOf(MakePartitionRule(table, 0, 0)).find("max-output-partitions"),
            std::string::npos);
  // A transform that does not take the type tells so with the first value.
  const auto rule = MakePartitionRule(table, 4, 7);
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->transform(0, Value(int64_t{1})).error().code, Code::kUnsupported);
}

PositionSet Set(std::initializer_list<int64_t> rows) {
  PositionSet set;
  for (const int64_t row : rows) set.Add(row);
  return set;
}

// Three files of 4, 3 and 2 rows; row 1 of the first and the whole third are deleted.
struct Group {
  std::vector<rewrite::InputFile> inputs = std::vector<rewrite::InputFile>(3);
  rewrite::SplitRows split;

  Group() {
    inputs[0].key = "a";
    inputs[0].deleted = std::make_shared<PositionSet>(Set({1}));
    inputs[1].key = "b";
    inputs[2].key = "c";
    inputs[2].deleted = std::make_shared<PositionSet>(Set({0, 1}));
    split.rows_per_file = {4, 3, 2};
    rewrite::PartitionRows one{.values = {Value(int64_t{1})}, .files = {}, .rows = 2};
    one.files[0] = Set({0, 3});
    rewrite::PartitionRows two{.values = {Value(int64_t{2})}, .files = {}, .rows = 4};
    two.files[0] = Set({2});
    two.files[1] = Set({0, 1, 2});
    split.partitions = {one, two};
  }
};

TEST(PartitionParts, R100EachLiveRowStaysInOnePart) {
  const Group group;
  ASSERT_EQ(PartsOf(group.split), 2U);
  std::set<std::pair<size_t, int64_t>> live;
  std::set<size_t> read;
  for (size_t number = 0; number < 2; ++number) {
    const PartitionPart part = MakePart(group.split, number, 7, group.inputs);
    EXPECT_EQ(part.key.spec_id, 7);
    EXPECT_EQ(part.key.values, group.split.partitions[number].values);
    ASSERT_EQ(part.files.size(), part.inputs.size());
    int64_t rows = 0;
    for (size_t i = 0; i < part.files.size(); ++i) {
      const size_t file = part.files[i];
      read.insert(file);
      EXPECT_EQ(part.inputs[i].key, group.inputs[file].key);
      for (int64_t row = 0; row < group.split.rows_per_file[file]; ++row) {
        if (part.inputs[i].deleted != nullptr && part.inputs[i].deleted->Contains(row)) continue;
        ++rows;
        EXPECT_TRUE(live.emplace(file, row).second) << "row " << row << " of file " << file;
      }
    }
    EXPECT_EQ(rows, part.rows);
  }
  EXPECT_EQ(live,
            (std::set<std::pair<size_t, int64_t>>{{0, 0}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(read, (std::set<size_t>{0, 1, 2}));
}

TEST(PartitionParts, FilesWithoutLiveRowsGoWithTheFirst) {
  const Group group;
  EXPECT_EQ(MakePart(group.split, 0, 7, group.inputs).files, (std::vector<size_t>{0, 2}));
  const PartitionPart second = MakePart(group.split, 1, 7, group.inputs);
  EXPECT_EQ(second.files, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(second.inputs[1].deleted, nullptr);  // All of its rows are of this partition.
}

TEST(PartitionParts, NoRowIsLeft) {
  Group group;
  group.split.partitions.clear();
  ASSERT_EQ(PartsOf(group.split), 1U);
  const PartitionPart part = MakePart(group.split, 0, 7, group.inputs);
  EXPECT_EQ(part.files, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(part.rows, 0);
  EXPECT_EQ(part.inputs[2].deleted, group.inputs[2].deleted);
}

}  // namespace
}  // namespace lithify::group
