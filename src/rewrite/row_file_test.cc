#include "rewrite/row_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "storage/memory_store.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using iceberg::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Field Column(int id, const char* name, TypeKind kind, bool required) {
  Field field;
  field.id = id;
  field.name = name;
  field.required = required;
  field.type.kind = kind;
  return field;
}

TableTarget Target() {
  TableTarget target;
  target.schema.fields = {
      Column(7, "key", TypeKind::kString, true), Column(3, "other", TypeKind::kDouble, false),
      Column(9, "at", TypeKind::kLong, false), Column(4, "note", TypeKind::kString, false)};
  return target;
}

std::string Long(int64_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// By field id, whatever the order in schema and file.
TEST(RowFile, RowsComeBackByFieldIdWithTheirMetrics) {
  const TableTarget target = Target();
  const std::vector<Row> rows = {{int64_t{5}, std::string("b"), Value()},
                                 {int64_t{-7}, std::string("a"), std::string("x\0y", 3)},
                                 {Value(), std::string(), std::string("é")}};
  const std::vector<int> columns = {9, 7, 4};
  const auto encoded = EncodeRows(target, columns, rows);
  ASSERT_TRUE(encoded) << encoded.error().ToString();
  EXPECT_THAT(encoded->split_offsets, ElementsAre(4));
  EXPECT_THAT(encoded->metrics.value_counts, ElementsAre(Pair(4, 3), Pair(7, 3), Pair(9, 3)));
  EXPECT_THAT(encoded->metrics.null_value_counts, ElementsAre(Pair(4, 1), Pair(7, 0), Pair(9, 1)));
  EXPECT_THAT(encoded->metrics.lower_bounds,
              ElementsAre(Pair(4, std::string("x\0y", 3)), Pair(7, ""), Pair(9, Long(-7))));
  EXPECT_THAT(encoded->metrics.upper_bounds,
              ElementsAre(Pair(4, "é"), Pair(7, "b"), Pair(9, Long(5))));
  EXPECT_EQ(encoded->metrics.column_sizes.size(), 3);

  SystemClock clock;
  storage::MemoryStore store(clock);
  ASSERT_TRUE(store.PutNew("f.parquet", encoded->bytes));
  InputFile file;
  file.key = "f.parquet";
  file.size = std::ssize(encoded->bytes);
  file.records = 3;
  TableTarget wanted = target;
  wanted.schema.fields = {target.schema.fields[3], target.schema.fields[2],
                          target.schema.fields[0]};
  const auto batches = OpenFileBatches(
      store, file, wanted, {.memory_bytes = 64 << 20, .batch_bytes = 1 << 20, .batch_rows = 2});
  ASSERT_TRUE(batches) << batches.error().ToString();
  std::vector<Row> read;
  for (;;) {
    auto batch = (*batches)->Next();
    ASSERT_TRUE(batch) << batch.error().ToString();
    if (!*batch) break;
    const auto decoded = DecodeRows(std::move(*batch), wanted.schema.fields);
    ASSERT_TRUE(decoded) << decoded.error().ToString();
    for (const Row& row : *decoded) read.push_back(row);
  }
  const std::vector<Row> expected = {{Value(), int64_t{5}, std::string("b")},
                                     {std::string("x\0y", 3), int64_t{-7}, std::string("a")},
                                     {std::string("é"), Value(), std::string()}};
  EXPECT_EQ(read, expected);
}

TEST(RowFile, WhatDoesNotFitIsRefused) {
  const TableTarget target = Target();
  const auto refusal = [&](const std::vector<int>& columns, const std::vector<Row>& rows) {
    const auto encoded = EncodeRows(target, columns, rows);
    EXPECT_FALSE(encoded);
    if (encoded) return std::string();
    EXPECT_EQ(encoded.error().code, Code::kInternal);
    return encoded.error().ToString();
  };
  const std::vector<Row> key = {{std::string("a")}};
  EXPECT_THAT(refusal(std::vector{7}, {}), HasSubstr("without rows"));
  EXPECT_THAT(refusal(std::vector{7}, {{Value()}}), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(std::vector{7}, {{int64_t{1}}}), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(std::vector{7, 9}, key), HasSubstr("another length"));
  EXPECT_THAT(refusal(std::vector{9}, {{int64_t{1}}}), HasSubstr("required column"));
  EXPECT_THAT(refusal(std::vector{7, 3}, {{std::string("a"), Value()}}),
              HasSubstr("only longs and strings"));
  EXPECT_THAT(refusal(std::vector{7, 8}, key), HasSubstr("no column 8"));
}

}  // namespace
}  // namespace lithify::rewrite
