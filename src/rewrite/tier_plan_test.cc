// Why columns are decoded: what a report counts, and what footers alone tell before.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>

#include "rewrite/table_fixture.h"
#include "storage/forwarding_store.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using iceberg::Value;
using parquet::WriterProperties;
using Counts = std::map<std::string, int64_t>;

constexpr int kRows = 5000;

std::shared_ptr<arrow::Array> Longs(int rows = kRows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(i).ok());
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> Ints(int rows = kRows) {
  arrow::Int32Builder builder;
  for (int i = 0; i < rows; ++i) EXPECT_TRUE(builder.Append(i).ok());
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<WriterProperties> Plain(
    const std::function<void(WriterProperties::Builder&)>& with = {}) {
  WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD)->disable_dictionary();
  if (with) with(builder);
  return builder.build();
}

int64_t SumOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t sum, const auto& each) { return sum + each.second; });
}

int64_t At(const Counts& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

// Knows how far from its end any object was read.
class EndOfFiles final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& known) override {
    LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
    return std::unique_ptr<storage::Reader>(std::make_unique<Watched>(std::move(reader), farthest));
  }

  int64_t farthest = 0;

 private:
  class Watched final : public storage::Reader {
   public:
    Watched(std::unique_ptr<storage::Reader> reader, int64_t& farthest)
        : reader_(std::move(reader)), farthest_(farthest) {}
    int64_t size() const override { return reader_->size(); }
    Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
      farthest_ = std::max(farthest_, size() - offset);
      return reader_->ReadAt(offset, out);
    }

   private:
    const std::unique_ptr<storage::Reader> reader_;
    int64_t& farthest_;
  };
};

class TierPlanTest : public RunnerTest {
 protected:
  using Columns = std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>;

  InputFile& PutColumns(const Columns& columns, const std::shared_ptr<WriterProperties>& properties,
                        int64_t row_group_rows = 1 << 20) {
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (const auto& [name, array] : columns) {
      const int id = static_cast<int>(fields.size()) + 1;
      fields.push_back(IdField(id, name, array->type()));
      arrays.push_back(array);
    }
    return PutTable(arrow::Table::Make(arrow::schema(fields), arrays), properties, row_group_rows);
  }
  InputFile& PutTable(const std::shared_ptr<arrow::Table>& table,
                      const std::shared_ptr<WriterProperties>& properties,
                      int64_t row_group_rows = 1 << 20) {
    Put("in" + std::to_string(inputs_++) + ".parquet",
        WriteParquet(*table, row_group_rows, properties));
    return request_.inputs.back();
  }

  // Explains and runs. What the footers decide is counted alike before and after, and of the rest
  // nothing but the tier is open.
  void ExpectTiers(const Counts& planned, const Counts& forbidden, const Counts& recoded) {
    const auto keys = store_.Keys();
    const auto plan = runner_->Explain(request_, cancel_);
    ASSERT_TRUE(plan) << plan.error().ToString();
    EXPECT_EQ(store_.Keys(), keys);
    EXPECT_EQ(plan->tiers, planned);
    EXPECT_EQ(plan->recoded, forbidden);
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report->recoded, recoded);
    EXPECT_EQ(At(report->tiers, "recode"), SumOf(recoded));
    EXPECT_EQ(At(report->tiers, "splice"), SumOf(report->splices));
    EXPECT_EQ(SumOf(report->tiers), SumOf(plan->tiers));
    int64_t row_groups = 0;
    for (const OutputFile& output : report->outputs) row_groups += output.row_groups;
    EXPECT_EQ(plan->row_groups, row_groups);
    plan_ = *plan;
  }

  TierPlan plan_;
};

TEST_F(TierPlanTest, WhatMayBeSplicedIsNotCountedTwice) {
  for (int i = 0; i < 3; ++i) PutColumns({{"a", Longs()}, {"b", Ints()}}, Plain());
  Request();
  ExpectTiers({{"splice", 6}}, {}, {});
  EXPECT_EQ(plan_.row_groups, 1);
  ASSERT_EQ(plan_.columns.size(), 2U);
  EXPECT_EQ(plan_.columns[0].path, "a");
  EXPECT_EQ(plan_.columns[1].path, "b");
  EXPECT_EQ(plan_.columns[1].tiers, (Counts{{"splice", 3}}));
}

TEST_F(TierPlanTest, AnotherCodecIsNoReason) {
  PutColumns({{"a", Longs()}}, Plain());
  PutColumns({{"a", Longs()}}, Plain([](auto& b) { b.compression(arrow::Compression::SNAPPY); }));
  Request();
  ExpectTiers({{"splice", 2}}, {}, {});
}

TEST_F(TierPlanTest, PagesDecideOfFiltersAndSmallPages) {
  const auto delta = Plain([](auto& b) { b.encoding(parquet::Encoding::DELTA_BINARY_PACKED); });
  PutColumns({{"a", Longs()}}, delta);
  Request().shape.bloom_columns = {"a"};
  ExpectTiers({{"splice", 1}}, {}, {{"a filter is made of its values", 1}});
  request_ = GroupRequest{};
  for (int i = 0; i < 2; ++i) PutColumns({{"a", Longs(100)}}, delta);
  Request();
  ExpectTiers({{"splice", 2}}, {}, {{"its pages are small", 2}});
}

TEST_F(TierPlanTest, TypesAndColumnsThatDiffer) {
  PutColumns({{"a", Ints()}, {"b", Longs()}}, Plain());
  PutColumns({{"a", Longs()}}, Plain());
  Request();
  const Counts why{{"another type", 2}, {"an input lacks it", 2}};
  ExpectTiers({{"recode", 4}}, why, why);
  EXPECT_EQ(plan_.columns[0].recoded, (Counts{{"another type", 2}}));
  EXPECT_EQ(plan_.columns[1].recoded, (Counts{{"an input lacks it", 2}}));
}

TEST_F(TierPlanTest, NullTypesAreAReasonPartsThatAreRequiredAreNot) {
  const auto list = [](bool nullable) {
    const auto type = arrow::list(arrow::field("element", arrow::int64(), nullable));
    return FromJson(type, "[[1, 2], [3]]");
  };
  PutColumns({{"l", list(true)}, {"n", arrow::MakeArrayOfNull(arrow::null(), 2).ValueOrDie()}},
             Plain());
  PutColumns({{"l", list(false)}, {"n", Longs(2)}}, Plain());
  Request();
  const Counts why{{"its type is null", 2}};
  ExpectTiers({{"recode", 2}, {"splice", 2}}, why, why);
}

TEST_F(TierPlanTest, VersionsThatReadersMend) {
  PutColumns({{"a", Longs()}}, Plain([](auto& b) { b.created_by("parquet-mr version 1.7.0"); }));
  PutColumns({{"a", Longs()}}, Plain());
  Request();
  const Counts why{{"written by a version whose values readers mend", 2}};
  ExpectTiers({{"recode", 2}}, why, why);
}

TEST_F(TierPlanTest, DefaultsAndRowLineage) {
  TableTarget& table = Table({Column(1, "a", TypeKind::kLong), Column(2, "b", TypeKind::kLong)});
  table.row_lineage = true;
  for (int i = 0; i < 2; ++i) {
    InputFile& input = PutColumns({{"a", Longs()}}, Plain());
    input.constants = {{2, Value(int64_t{7})}};
    input.first_row_id = i * kRows;
  }
  Request();
  const Counts why{{"a default fills it", 2}, {"row lineage is added", 4}};
  ExpectTiers({{"recode", 6}, {"splice", 2}}, why, why);
  ASSERT_EQ(plan_.columns.size(), 4U);
  EXPECT_EQ(plan_.columns[2].path, "_row_id");
}

TEST_F(TierPlanTest, RowGroupsThatAreCut) {
  PutColumns({{"a", Longs()}, {"b", Longs()}}, Plain());
  PutColumns({{"a", Longs(2000)}, {"b", Longs(2000)}}, Plain());
  // Of four times as many rows and more; the other one is moved.
  Request().shape.row_group_rows = 1200;
  const Counts why{{"row groups are cut", 2}};
  ExpectTiers({{"copy", 2}, {"recode", 2}}, why, why);
  EXPECT_EQ(plan_.row_groups, 6);
}

// Equal files of a table: row groups are filled up with the first rows of the next one (I27).
TEST_F(TierPlanTest, I27_RowGroupsThatAreFilledUp) {
  Table({Column(1, "a", TypeKind::kLong)});
  for (int i = 0; i < 3; ++i) PutColumns({{"a", Longs()}}, Plain());
  Request().shape.outputs = 2;
  const Counts why{{"row groups are cut", 3}};
  ExpectTiers({{"recode", 3}}, why, why);
  EXPECT_EQ(plan_.row_groups, 9);
}

TEST_F(TierPlanTest, SpliceIsOff) {
  PutColumns({{"a", Longs()}}, Plain());
  Request().shape.splice = false;
  request_.shape.row_group_rows = 2000;
  const Counts why{{"output.splice is off", 1}};
  ExpectTiers({{"recode", 1}}, why, why);
}

// One chunk per row group that rows survive of.
TEST_F(TierPlanTest, DeletedRowGroupsDoNotCount) {
  auto deleted = std::make_shared<PositionSet>();
  for (int64_t row = 0; row < 1000; ++row) deleted->Add(row);
  deleted->Add(2500);
  PutColumns({{"a", Longs()}}, Plain(), 1000).deleted = deleted;
  PutColumns({{"a", Ints()}}, Plain());
  Request();
  ExpectTiers({{"recode", 5}}, {{"another type", 5}}, {{"another type", 5}});
  EXPECT_EQ(plan_.row_groups, 1);
}

TEST_F(TierPlanTest, ReadsNoPage) {
  for (int i = 0; i < 2; ++i) {
    PutColumns({{"a", Longs(50'000)}},
               Plain([](auto& b) { b.compression(arrow::Compression::UNCOMPRESSED); }));
  }
  EndOfFiles ends(store_);
  runner_ = MakeParquetRunner(ends);
  Request().shape.codec = "none";
  const auto plan = runner_->Explain(request_, cancel_);
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->tiers, (Counts{{"splice", 2}}));
  EXPECT_GT(request_.inputs[0].size, 400'000);
  EXPECT_LE(ends.farthest, 32 * 1024);
  ASSERT_TRUE(runner_->Run(request_, cancel_));
  EXPECT_GT(ends.farthest, 400'000);
}

TEST_F(TierPlanTest, ErrorsAreThoseOfARun) {
  PutColumns({{"a", Longs(3)}}, Plain());
  Request().inputs.push_back(InputFile{"p/gone.parquet", 100});
  EXPECT_EQ(runner_->Explain(request_, cancel_).error().code, Code::kNotFound);
  EXPECT_EQ(runner_->Run(request_, cancel_).error().code, Code::kNotFound);
  request_.inputs.pop_back();
  Put("junk.parquet", std::string(100, 'x'));
  EXPECT_EQ(runner_->Explain(request_, cancel_).error().code, Code::kCorrupt);
  request_.inputs.pop_back();
  PutColumns({{"a", FromJson(arrow::utf8(), R"(["x"])")}}, Plain());
  const auto plan = runner_->Explain(request_, cancel_);
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(plan);
  ASSERT_FALSE(report);
  EXPECT_EQ(plan.error().ToString(), report.error().ToString());
  cancel_.Request();
  EXPECT_EQ(runner_->Explain(request_, cancel_).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace lithify::rewrite
