// Groups of a table: deleted rows, columns by field id, row lineage (I22, I24, I26; P6, P22; R100).
// What comes out is judged by Arrow's own reader. Schema shapes that Arrow does not write are in
// table_types_test.cc.
#include <parquet/file_reader.h>

#include <cstdint>
#include <functional>
#include <map>

#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using arrow::schema;
using iceberg::TypeKind;
using iceberg::Value;

std::shared_ptr<PositionSet> Deleted(std::initializer_list<int64_t> positions) {
  auto set = std::make_shared<PositionSet>();
  for (const int64_t position : positions) set->Add(position);
  return set;
}

iceberg::Type MapOf(iceberg::Field key, iceberg::Field value) {
  iceberg::Type type = Primitive(TypeKind::kMap);
  type.fields = {std::move(key), std::move(value)};
  return type;
}

std::string Numbers(int64_t first, int64_t end) {
  std::string json = "[";
  for (int64_t i = first; i < end; ++i) json += (i > first ? "," : "") + std::to_string(i);
  return json + "]";
}

class TableTargetTest : public RunnerTest {
 protected:
  InputFile& PutTable(const std::shared_ptr<arrow::Schema>& s, const std::vector<std::string>& json,
                      int64_t row_group_rows = 1 << 20) {
    Put("in" + std::to_string(inputs_++) + ".parquet",
        WriteParquet(*MakeTable(s, json), row_group_rows));
    return request_.inputs.back();
  }
  // Runs and compares the outputs with `expected`; then reads them back once more.
  void ExpectOutput(const std::shared_ptr<arrow::Schema>& s, const std::vector<std::string>& json) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    const auto actual = Output(*report);
    const auto expected = MakeTable(s, json);
    EXPECT_TRUE(actual->schema()->Equals(*s, false)) << actual->schema()->ToString();
    EXPECT_TRUE(actual->Equals(*expected, false)) << actual->ToString();
    EXPECT_EQ(report->rows_out, expected->num_rows());
    EXPECT_EQ(report->rows_out, report->rows_in - report->rows_deleted);
    for (const OutputFile& output : report->outputs) {
      const auto verified = runner_->VerifyFile("p/" + output.name, RowRule{}, cancel_);
      ASSERT_TRUE(verified) << verified.error().ToString();
      EXPECT_EQ(verified->digest, output.digest);
    }
  }
  void ExpectError(Code code, const std::vector<std::string>& parts) {
    const auto keys = store_.Keys();
    const auto report = Run();
    ASSERT_FALSE(report);
    const std::string text = report.error().ToString();
    EXPECT_EQ(report.error().code, code) << text;
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(store_.Keys(), keys) << "a refused group must leave nothing behind";
  }
  std::shared_ptr<parquet::FileMetaData> Footer(const std::string& name) {
    return parquet::ParquetFileReader::Open(
               std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(Bytes(name))))
        ->metadata();
  }
};

// --- deleted rows ------------------------------------------------------------------------------

TEST_F(TableTargetTest, R093_DeletedRowsAreLeftOutWithoutATableToo) {
  const auto s = schema({arrow::field("a", arrow::int64(), false), arrow::field("t", arrow::utf8()),
                         arrow::field("l", arrow::list(arrow::field("element", arrow::int32())))});
  PutTable(s,
           {"[0, 1, 2, 3, 4, 5, 6]", R"(["a", null, "c", null, "e", "f", null])",
            "[[1, null], null, [], [4, 5, 6], [null], [7], [8, 9]]"},
           3)
      .deleted = Deleted({0, 3, 6});
  PutTable(s, {"[7]", R"([null])", "[[10]]"});
  Request();
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->rows_in, 8);
  EXPECT_EQ(report->rows_deleted, 3);
  EXPECT_EQ(report->rows_out, 5);
  EXPECT_EQ(report->rows_per_input, (std::vector<int64_t>{7, 1}));
  EXPECT_EQ(report->digest_in.rows, 5);
  ExpectOutput(
      s, {"[1, 2, 4, 5, 7]", R"([null, "c", "e", "f", null])", "[null, [], [null], [7], [10]]"});
}

TEST_F(TableTargetTest, R093_DigestsAreThoseOfTheSurvivors) {
  const auto s = schema({arrow::field("a", arrow::int64()),
                         arrow::field("l", arrow::list(arrow::field("element", arrow::int64())))});
  PutTable(s, {"[1, 2, 3]", "[[1], [2, 2], [3]]"}).deleted = Deleted({1});
  const auto with_delete = Run();
  ASSERT_TRUE(with_delete) << with_delete.error().ToString();
  request_.inputs.clear();
  PutTable(s, {"[3, 1]", "[[3], [1]]"});
  const auto without = Run();
  ASSERT_TRUE(without) << without.error().ToString();
  EXPECT_EQ(with_delete->digest_in, without->digest_in);
}

// Whole row groups, whole pages, and single rows, over many batches of entries.
TEST_F(TableTargetTest, R093_LongRunsOfDeletedRowsAcrossPagesAndRowGroups) {
  constexpr int64_t kRows = 100'000;
  arrow::Int64Builder numbers;
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int64Builder>());
  auto& items = static_cast<arrow::Int64Builder&>(*lists.value_builder());
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_TRUE((i % 7 == 0 ? numbers.AppendNull() : numbers.Append(i)).ok());
    ASSERT_TRUE(lists.Append().ok());
    for (int64_t k = 0; k < i % 4; ++k) ASSERT_TRUE(items.Append(i * 10 + k).ok());
  }
  const auto s = schema({arrow::field("a", arrow::int64()),
                         arrow::field("l", arrow::list(arrow::field("element", arrow::int64())))});
  const auto whole =
      arrow::Table::Make(s, {numbers.Finish().ValueOrDie(),
                             lists.Finish().ValueOrDie()->View(s->field(1)->type()).ValueOrDie()});
  parquet::WriterProperties::Builder small;
  small.data_pagesize(4096)->write_batch_size(500)->disable_dictionary();
  const std::vector<std::pair<int64_t, int64_t>> gone = {{0, 9'000},       {9'001, 9'003},
                                                         {20'000, 40'000}, {45'000, 55'000},
                                                         {55'001, 55'002}, {90'000, kRows}};
  auto deleted = std::make_shared<PositionSet>();
  std::vector<std::shared_ptr<arrow::Table>> kept;
  int64_t at = 0;
  for (const auto& [begin, end] : gone) {
    deleted->AddRange(begin, end);
    kept.push_back(whole->Slice(at, begin - at));
    at = end;
  }
  Put("big.parquet", WriteParquet(*whole, 10'000, small.build()));
  request_.inputs.back().deleted = deleted;
  request_.inputs.back().records = kRows;
  Request();
  request_.threads = 2;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  const auto expected = arrow::ConcatenateTables(kept).ValueOrDie()->CombineChunks().ValueOrDie();
  EXPECT_TRUE(Output(*report)->Equals(*expected, false));
  EXPECT_EQ(report->rows_deleted, deleted->size());
}

TEST_F(TableTargetTest, I26_AllRowsDeletedGiveNoOutputAndAWholeReport) {
  const auto s = schema({IdField(1, "a", arrow::int64()), IdField(2, "b", arrow::utf8())});
  Table({Column(1, "a", TypeKind::kLong), Column(2, "b", TypeKind::kString)});
  PutTable(s, {"[1, 2, 3]", R"(["x", "y", "z"])"}, 2).deleted = Deleted({0, 1, 2});
  PutTable(s, {"[4]", "[null]"}).deleted = Deleted({0});
  const auto keys = store_.Keys();
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(report->outputs.empty());
  EXPECT_EQ(report->rows_in, 4);
  EXPECT_EQ(report->rows_deleted, 4);
  EXPECT_EQ(report->rows_out, 0);
  EXPECT_EQ(report->rows_per_input, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(store_.Keys(), keys);
}

TEST_F(TableTargetTest, R100_WhatTheMetadataClaimsMustBeSo) {
  const auto s = schema({IdField(1, "a", arrow::int64())});
  Table({Column(1, "a", TypeKind::kLong)});
  PutTable(s, {"[1, 2, 3]"}).deleted = Deleted({3});
  ExpectError(Code::kCorrupt, {"p/in0.parquet", "row 3 is deleted", "3 rows"});
  request_.inputs.front().deleted = Deleted({2});
  request_.inputs.front().records = 4;
  ExpectError(Code::kCorrupt, {"p/in0.parquet", "says 4 rows", "has 3"});
  request_.inputs.front().records = 3;
  EXPECT_TRUE(Run());
}

// As in FlippedBytesNeverGiveOtherRows, with deletes: pages that are passed over included.
TEST_F(TableTargetTest, R309_FlippedBytesNeverGiveOtherRowsOfATable) {
  parquet::WriterProperties::Builder builder;
  builder.enable_page_checksum()->data_pagesize(256)->write_batch_size(20);
  const auto list = arrow::list(IdField(3, "element", arrow::int64(), false));
  std::string lists = "[";
  for (int i = 0; i < 300; ++i) lists += (i > 0 ? ",[" : "[") + std::to_string(i) + ",1]";
  const auto file_schema =
      schema({IdField(1, "a", arrow::int64(), false), IdField(2, "l", list, false)});
  const std::string whole =
      WriteParquet(*MakeTable(file_schema, {Numbers(0, 300), lists + "]"}), 100, builder.build());
  auto deleted = Deleted({0, 299});
  deleted->AddRange(50, 230);
  Table({Column(1, "a", TypeKind::kLong, true),
         Column(2, "l", ListType(Column(3, "element", TypeKind::kLong, true)), true)});
  const auto run = [&](const std::string& bytes) {
    request_.inputs.clear();
    Put("f" + std::to_string(inputs_++) + ".parquet", bytes);
    request_.inputs.back().deleted = deleted;
    request_.inputs.back().records = 300;
    return Run();
  };
  const auto intact = run(whole);
  ASSERT_TRUE(intact) << intact.error().ToString();
  const auto expected = Output(*intact);
  ASSERT_EQ(expected->num_rows(), 118);
  uint64_t random = 42;
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    std::string damaged = whole;
    damaged[(random >> 20) % damaged.size()] ^= static_cast<char>(1 << (random >> 61));
    const auto report = run(damaged);
    if (!report) {
      ++refused;
      continue;
    }
    EXPECT_TRUE(Output(*report)->Equals(*expected, false)) << round;
  }
  EXPECT_GT(refused, 100);
}

// --- schema by field id ------------------------------------------------------------------------

TEST_F(TableTargetTest, I24_ColumnsGoByFieldIdWhateverTheirNames) {
  // 1 renamed and promoted; "b" dropped as 2 and added again as 5; 3 and 4 promoted; 9 dropped.
  PutTable(schema({IdField(2, "b", arrow::utf8()), IdField(1, "a", arrow::int32()),
                   IdField(3, "f", arrow::float32()), IdField(4, "d", arrow::decimal128(9, 2)),
                   IdField(9, "gone", arrow::int64())}),
           {R"(["old"])", "[-7]", "[1.5]", R"(["-1234567.89"])", "[1]"});
  PutTable(schema({IdField(4, "d", arrow::decimal128(18, 2)), IdField(5, "b", arrow::utf8()),
                   IdField(3, "f", arrow::float64()), IdField(1, "id", arrow::int64())}),
           {R"(["1.25"])", R"(["new"])", "[0.1]", "[9223372036854775807]"});
  Table({Column(1, "id", TypeKind::kLong), Column(5, "b", TypeKind::kString),
         Column(3, "f", TypeKind::kDouble), Column(4, "d", DecimalType(18, 2)),
         Column(6, "never_written", TypeKind::kString)});
  ExpectOutput(
      schema({arrow::field("id", arrow::int64()), arrow::field("b", arrow::utf8()),
              arrow::field("f", arrow::float64()), arrow::field("d", arrow::decimal128(18, 2))}),
      {"[-7, 9223372036854775807]", R"([null, "new"])", "[1.5, 0.1]",
       R"(["-1234567.89", "1.25"])"});
  const auto footer = Footer("out0.parquet");
  const auto* root = footer->schema()->group_node();
  const std::vector<int> ids = {1, 5, 3, 4};
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(root->field(static_cast<int>(i))->field_id(), ids[i]);
  }
}

TEST_F(TableTargetTest, I24_DecimalsWidenThroughEveryWidth) {
  const std::vector<int> precisions = {7, 15, 19, 38};
  std::string expected = "[";
  for (const int precision : precisions) {
    PutTable(schema({IdField(1, "d", arrow::decimal128(precision, 2))}),
             {R"(["-12345.67", null])"});
    expected += R"("-12345.67", null,)";
  }
  expected.back() = ']';
  Table({Column(1, "d", DecimalType(38, 2))});
  ExpectOutput(schema({arrow::field("d", arrow::decimal128(38, 2))}), {expected});
}

TEST_F(TableTargetTest, I24_NestedFieldsGoByTheirIdsToo) {
  const auto old_item =
      arrow::struct_({IdField(11, "x", arrow::int32(), false), IdField(12, "gone", arrow::utf8())});
  const auto old_value = arrow::struct_({IdField(22, "v", arrow::float32())});
  PutTable(
      schema({IdField(1, "l", arrow::list(IdField(10, "element", old_item))),
              IdField(2, "m",
                      std::make_shared<arrow::MapType>(IdField(20, "key", arrow::utf8(), false),
                                                       IdField(21, "value", old_value)))}),
      {R"([[[1, "q"], null, [2, null]], null, []])", R"([[["k", [1.5]], ["n", null]], [], null])"},
      2)
      .deleted = Deleted({2});
  Table({Column(2, "map",
                MapOf(Column(20, "key", TypeKind::kString, true),
                      Column(21, "value",
                             StructType({Column(23, "w", TypeKind::kInt),
                                         Column(22, "v", TypeKind::kDouble)})))),
         Column(1, "items",
                ListType(Column(10, "element",
                                StructType({Column(13, "gone", TypeKind::kString),
                                            Column(11, "renamed", TypeKind::kLong, true)}))))});
  // 13 and 23 are in no file, so they stay out [Column Projection].
  const auto item = arrow::struct_({arrow::field("renamed", arrow::int64(), false)});
  const auto value = arrow::struct_({arrow::field("v", arrow::float64())});
  ExpectOutput(schema({arrow::field("map", arrow::map(arrow::utf8(), arrow::field("value", value))),
                       arrow::field("items", arrow::list(arrow::field("element", item)))}),
               {R"([[["k", [1.5]], ["n", null]], []])", R"([[[1], null, [2]], null])"});
  const auto footer = Footer("out0.parquet");
  std::map<std::string, int> ids;
  const std::function<void(const parquet::schema::Node&)> walk = [&](const auto& node) {
    if (node.field_id() >= 0) ids[node.path()->ToDotString()] = node.field_id();
    if (node.is_primitive()) return;
    const auto& group = static_cast<const parquet::schema::GroupNode&>(node);
    for (int i = 0; i < group.field_count(); ++i) walk(*group.field(i));
  };
  walk(*footer->schema()->group_node());
  const std::map<std::string, int> expected = {{"map", 2},
                                               {"map.key_value.key", 20},
                                               {"map.key_value.value", 21},
                                               {"map.key_value.value.v", 22},
                                               {"items", 1},
                                               {"items.list.element", 10},
                                               {"items.list.element.renamed", 11}};
  EXPECT_EQ(ids, expected);
}

TEST_F(TableTargetTest, I24_DefaultsStandInForColumnsThatAFileLacks) {
  const auto narrow = arrow::struct_({IdField(3, "x", arrow::int32())});
  const auto wide =
      arrow::struct_({IdField(3, "x", arrow::int32()), IdField(4, "y", arrow::int64(), false)});
  PutTable(schema({IdField(1, "s", narrow)}), {"[[1], null, [2]]"}).deleted = Deleted({0});
  PutTable(schema({IdField(1, "s", wide), IdField(5, "t", arrow::utf8(), false)}),
           {"[[3, 30]]", R"(["own"])"});
  auto y = Column(4, "y", TypeKind::kLong, true);
  y.initial_default = Value(int64_t{-5});
  auto t = Column(5, "t", TypeKind::kString, true);
  t.initial_default = Value(std::string("default"));
  auto b = Column(6, "b", TypeKind::kBoolean);
  b.initial_default = Value(true);
  Table({Column(1, "s", StructType({Column(3, "x", TypeKind::kInt), y})), t, b});
  const auto out =
      arrow::struct_({arrow::field("x", arrow::int32()), arrow::field("y", arrow::int64(), false)});
  ExpectOutput(
      schema({arrow::field("s", out), arrow::field("t", arrow::utf8(), false),
              arrow::field("b", arrow::boolean())}),
      {"[null, [2, -5], [3, 30]]", R"(["default", "default", "own"])", "[true, true, true]"});
}

TEST_F(TableTargetTest, ColumnProjection_PartitionValuesComeBeforeDefaults) {
  const auto s = schema({IdField(1, "a", arrow::int32())});
  PutTable(s, {"[1, 2]"}).constants = {{2, Value(std::string("eu"))}, {1, Value(int64_t{99})}};
  PutTable(s, {"[3]"}).constants = {{2, Value()}};
  PutTable(s, {"[4]"});
  auto region = Column(2, "region", TypeKind::kString);
  region.initial_default = Value(std::string("none"));
  Table({Column(1, "a", TypeKind::kInt), region});
  ExpectOutput(schema({arrow::field("a", arrow::int32()), arrow::field("region", arrow::utf8())}),
               {"[1, 2, 3, 4]", R"(["eu", "eu", null, "none"])"});
}

TEST_F(TableTargetTest, P6_RequiredOnlyIfTheTableAndEveryFileSaySo) {
  PutTable(schema({IdField(1, "a", arrow::int32(), false), IdField(2, "b", arrow::int32(), false),
                   IdField(3, "c", arrow::int32(), false)}),
           {"[1]", "[2]", "[3]"});
  PutTable(schema({IdField(1, "a", arrow::int32(), false), IdField(2, "b", arrow::int32()),
                   IdField(3, "c", arrow::int32(), false)}),
           {"[4]", "[5]", "[6]"});
  Table({Column(1, "a", TypeKind::kInt, true), Column(2, "b", TypeKind::kInt, true),
         Column(3, "c", TypeKind::kInt)});
  ExpectOutput(schema({arrow::field("a", arrow::int32(), false), arrow::field("b", arrow::int32()),
                       arrow::field("c", arrow::int32())}),
               {"[1, 4]", "[2, 5]", "[3, 6]"});
  request_.inputs.resize(1);
  PutTable(schema({IdField(1, "a", arrow::int32(), false)}), {"[7]"});
  ExpectError(Code::kUnsupported, {"p/in2.parquet", "column b", "required", "without a default"});
}

TEST_F(TableTargetTest, I24_RowsOutliveEveryColumnThatWasDropped) {
  const auto old = arrow::struct_({IdField(2, "x", arrow::int32())});
  PutTable(schema({IdField(1, "s", old), IdField(5, "k", arrow::int64())}),
           {"[[1], null, [2]]", "[1, 2, 3]"});
  Table({Column(1, "s", StructType({Column(3, "y", TypeKind::kInt)}))});
  const auto out = arrow::struct_({arrow::field("y", arrow::int32())});
  ExpectOutput(schema({arrow::field("s", out)}), {"[[null], null, [null]]"});
  request_.inputs.front().deleted = Deleted({1});
  Table({Column(9, "n", TypeKind::kInt)});
  ExpectOutput(schema({arrow::field("n", arrow::int32())}), {"[null, null]"});
}

TEST_F(TableTargetTest, P8_NamesThatDifferInCaseAreTwoColumnsOfATable) {
  PutTable(schema({IdField(1, "a", arrow::int32()), IdField(2, "A", arrow::int32())}),
           {"[1]", "[2]"});
  Table({Column(1, "a", TypeKind::kInt), Column(2, "A", TypeKind::kInt)});
  ExpectOutput(schema({arrow::field("a", arrow::int32()), arrow::field("A", arrow::int32())}),
               {"[1]", "[2]"});
}

TEST_F(TableTargetTest, ColumnProjection_FilesWithoutIdsGoByTheNameMapping) {
  const auto item = arrow::struct_({arrow::field("x", arrow::int32())});
  const auto s = schema({arrow::field("old", arrow::int32()), arrow::field("other", arrow::int32()),
                         arrow::field("l", arrow::list(arrow::field("array", item))),
                         arrow::field("region", arrow::utf8())});
  PutTable(s, {"[1, 2]", "[8, 9]", "[[[5]], null]", R"(["x", "y"])"}).constants = {
      {5, Value(std::string("eu"))}};
  auto& table = Table(
      {Column(1, "a", TypeKind::kInt), Column(5, "region", TypeKind::kString),
       Column(2, "l",
              ListType(Column(3, "element", StructType({Column(4, "y", TypeKind::kLong)}))))});
  ExpectError(Code::kUnsupported, {"p/in0.parquet", "no field ids", "schema.name-mapping.default"});
  const iceberg::NameMapping x{{"x", "y"}, 4, {}};
  const iceberg::NameMapping element{{"element"}, 3, {x}};
  table.name_mapping = {{{"a", "old"}, 1, {}},
                        {{"l"}, 2, {element}},
                        {{"other"}, std::nullopt, {}},
                        {{"region"}, 5, {}}};
  const auto out = arrow::struct_({arrow::field("y", arrow::int64())});
  ExpectOutput(schema({arrow::field("a", arrow::int32()), arrow::field("region", arrow::utf8()),
                       arrow::field("l", arrow::list(arrow::field("element", out)))}),
               {"[1, 2]", R"(["eu", "eu"])", "[[[5]], null]"});
}

TEST_F(TableTargetTest, P22_FieldIdsThatDoNotTellColumnsApartAreRefused) {
  Table({Column(1, "a", TypeKind::kInt)});
  PutTable(schema({IdField(1, "a", arrow::int32()), arrow::field("b", arrow::int32())}),
           {"[1]", "[1]"});
  ExpectError(Code::kUnsupported, {"p/in0.parquet", "b: has no field id"});
  request_.inputs.clear();
  PutTable(schema({IdField(1, "a", arrow::int32()), IdField(1, "b", arrow::int32())}),
           {"[1]", "[1]"});
  ExpectError(Code::kUnsupported, {"p/in1.parquet", "two columns have field id 1"});
}

TEST_F(TableTargetTest, I24_TypesThatTheTableDoesNotReadAreRefusedByName) {
  struct Case {
    std::shared_ptr<arrow::DataType> file;
    std::string json;
    iceberg::Type table;
  };
  iceberg::Type list = ListType(Column(3, "element", TypeKind::kInt));
  const std::vector<Case> cases = {
      {arrow::int64(), "[1]", Primitive(TypeKind::kInt)},
      {arrow::uint32(), "[1]", Primitive(TypeKind::kInt)},
      {arrow::float64(), "[1]", Primitive(TypeKind::kFloat)},
      {arrow::int32(), "[1]", Primitive(TypeKind::kFloat)},
      {arrow::utf8(), R"(["1"])", Primitive(TypeKind::kLong)},
      {arrow::decimal128(9, 3), R"(["1.000"])", DecimalType(9, 2)},
      {arrow::decimal128(10, 2), R"(["1.00"])", DecimalType(9, 2)},
      {arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[1]", Primitive(TypeKind::kTimestamp)},
      {arrow::timestamp(arrow::TimeUnit::NANO), "[1]", Primitive(TypeKind::kTimestamp)},
      {arrow::date32(), "[1]", Primitive(TypeKind::kTimestamptz)},
      {arrow::fixed_size_binary(2), R"(["ab"])", Primitive(TypeKind::kFixed, 3)},
      {arrow::fixed_size_binary(2), R"(["ab"])", Primitive(TypeKind::kBinary)},
      {arrow::int32(), "[1]", list},
      {arrow::list(IdField(4, "element", arrow::int32())), "[[1]]", list},
      {arrow::int32(), "[1]", Primitive(TypeKind::kVariant)},
      {arrow::utf8(), R"(["x"])", Primitive(TypeKind::kGeometry)},
      {arrow::fixed_size_binary(2), R"(["ab"])", Primitive(TypeKind::kGeography)},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.file->ToString());
    request_.inputs.clear();
    PutTable(schema({IdField(7, "bad", each.file)}), {each.json});
    Table({Column(7, "bad", each.table)});
    ExpectError(Code::kUnsupported, {"column bad"});
  }
}

TEST_F(TableTargetTest, AppendixA_UnknownColumnsAreLeftOutAndUnusedTypesDoNotMatter) {
  PutTable(schema({IdField(1, "a", arrow::int32())}), {"[1]"});
  Table({Column(2, "u", TypeKind::kUnknown), Column(1, "a", TypeKind::kInt),
         Column(3, "v", TypeKind::kVariant)});
  ExpectOutput(schema({arrow::field("a", arrow::int32())}), {"[1]"});
}

TEST_F(TableTargetTest, DefaultsOfNestedColumnsAreRefusedWhereTheyWouldBeNeeded) {
  auto s = Column(2, "s", StructType({Column(3, "x", TypeKind::kInt)}));
  s.unsupported_default = true;
  PutTable(schema({IdField(1, "a", arrow::int32())}), {"[1]"});
  Table({Column(1, "a", TypeKind::kInt), s});
  // No file has it: the reader puts its default there, before and after.
  ExpectOutput(schema({arrow::field("a", arrow::int32())}), {"[1]"});
  PutTable(schema({IdField(1, "a", arrow::int32()),
                   IdField(2, "s", arrow::struct_({IdField(3, "x", arrow::int32())}))}),
           {"[2]", "[[3]]"});
  ExpectError(Code::kUnsupported, {"p/in0.parquet", "column s", "is missing in the file"});
}

// --- row lineage -------------------------------------------------------------------------------

TEST_F(TableTargetTest, I22_RowIdsAndSequenceNumbersSurvive) {
  auto& table = Table({Column(1, "a", TypeKind::kInt)});
  table.row_lineage = true;
  // Positions are those in the file, deletes or not.
  auto& first = PutTable(schema({IdField(1, "a", arrow::int32())}), {"[0, 1, 2, 3, 4]"}, 2);
  first.first_row_id = 1000;
  first.data_sequence_number = 5;
  first.deleted = Deleted({1, 2});
  auto& second = PutTable(schema({IdField(iceberg::kLastUpdatedFieldId,
                                          "_last_updated_sequence_number", arrow::int64()),
                                  IdField(1, "a", arrow::int32()),
                                  IdField(iceberg::kRowIdFieldId, "_row_id", arrow::int64())}),
                          {"[3, null, null, 4]", "[5, 6, 7, 8]", "[null, 17, null, 18]"});
  second.first_row_id = 2000;
  second.data_sequence_number = 9;
  second.deleted = Deleted({0});
  ExpectOutput(schema({arrow::field("a", arrow::int32()), arrow::field("_row_id", arrow::int64()),
                       arrow::field("_last_updated_sequence_number", arrow::int64())}),
               {"[0, 3, 4, 6, 7, 8]", "[1000, 1003, 1004, 17, 2002, 18]", "[5, 5, 5, 9, 9, 4]"});
  const auto footer = Footer("out0.parquet");
  const auto* root = footer->schema()->group_node();
  EXPECT_EQ(root->field(1)->field_id(), 2147483540);
  EXPECT_EQ(root->field(2)->field_id(), 2147483539);
}

// The rewrite of a rewrite keeps them too, and digests see them.
TEST_F(TableTargetTest, I22_LineageTakesPartInTheDigest) {
  auto& table = Table({Column(1, "a", TypeKind::kInt)});
  table.row_lineage = true;
  auto& file = PutTable(schema({IdField(1, "a", arrow::int32())}), {"[7, 8]"});
  file.first_row_id = 100;
  file.data_sequence_number = 3;
  const auto once = Run();
  ASSERT_TRUE(once) << once.error().ToString();
  const OutputFile& output = once->outputs.at(0);
  InputFile rewritten{"p/" + output.name, output.size};
  rewritten.first_row_id = 5000;
  rewritten.data_sequence_number = 77;
  request_.inputs = {rewritten};
  const auto twice = Run();
  ASSERT_TRUE(twice) << twice.error().ToString();
  EXPECT_EQ(twice->digest_in, once->digest_in);
  EXPECT_TRUE(Output(*twice)->Equals(*Output(*once), false));
  EXPECT_TRUE(twice->digest_in.columns.contains("_row_id"));
}

TEST_F(TableTargetTest, I22_AFileWithoutRowIdsIsRefused) {
  auto& table = Table({Column(1, "a", TypeKind::kInt)});
  table.row_lineage = true;
  PutTable(schema({IdField(1, "a", arrow::int32())}), {"[7]"});
  ExpectError(Code::kUnsupported, {"p/in0.parquet", "no first row id"});
  request_.inputs.front().first_row_id = 0;
  EXPECT_TRUE(Run());
  request_.inputs.front().first_row_id = INT64_MAX;
  ExpectError(Code::kCorrupt, {"p/in0.parquet", "_row_id"});
}

// --- what an output carries --------------------------------------------------------------------

TEST_F(TableTargetTest, OutputsTellTheirSplitOffsetsMetricsAndNoStaleSchema) {
  const auto s =
      schema({IdField(1, "a", arrow::int64())},
             arrow::key_value_metadata({"iceberg.schema", "pandas", "mine"}, {"{}", "{}", "kept"}));
  for (int f = 0; f < 2; ++f) PutTable(s, {Numbers(f * 100, f * 100 + 100)}, 50);
  Table({Column(1, "a", TypeKind::kLong)});
  Request();
  request_.shape.row_group_rows = 50;
  request_.inputs.front().deleted = Deleted({0});
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  const OutputFile& output = report->outputs.at(0);
  const auto footer = Footer(output.name);
  ASSERT_EQ(footer->num_row_groups(), 4);
  ASSERT_EQ(output.split_offsets.size(), 4U);
  EXPECT_EQ(output.split_offsets.front(), 4);
  for (int g = 0; g < 4; ++g) {
    const auto chunk = footer->RowGroup(g)->ColumnChunk(0);
    const int64_t offset = output.split_offsets[static_cast<size_t>(g)];
    EXPECT_EQ(offset, chunk->has_dictionary_page() ? chunk->dictionary_page_offset()
                                                   : chunk->data_page_offset());
  }
  EXPECT_EQ(output.metrics.value_counts, (iceberg::ByField<int64_t>{{1, 199}}));
  EXPECT_EQ(output.metrics.null_value_counts, (iceberg::ByField<int64_t>{{1, 0}}));
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(output.metrics.lower_bounds, (iceberg::ByField<std::string>{{1, one}}));
  const auto pairs = footer->key_value_metadata();
  EXPECT_EQ(pairs->Get("mine").ValueOrDie(), "kept");
  for (const char* key : {"iceberg.schema", "ARROW:schema", "pandas"}) {
    EXPECT_FALSE(pairs->Contains(key)) << key;
  }
}

// Inputs of a table may lie outside of the folder that its outputs go to, and no path is checked.
TEST_F(TableTargetTest, InputsMayLieAnywhereAndPathsSayNothing) {
  const auto bytes =
      WriteParquet(*MakeTable(schema({IdField(1, "tenant", arrow::utf8())}), {R"(["x"])"}));
  ASSERT_TRUE(store_.PutNew("q", bytes));
  Request();
  request_.partition = "elsewhere/data/";
  request_.inputs = {InputFile{"q", static_cast<int64_t>(bytes.size())}};
  request_.rows.tenant_column = "tenant";
  request_.rows.tenant = "other";
  Table({Column(1, "tenant", TypeKind::kString)});
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  const auto facts = runner_->Inspect({.key = "elsewhere/data/" + report->outputs.at(0).name});
  ASSERT_TRUE(facts) << facts.error().ToString();
  EXPECT_EQ(facts->mark->job_id, "job");
  EXPECT_TRUE(facts->mark->inputs.empty());
}

TEST_F(TableTargetTest, VerificationBySampleWorksForTables) {
  auto& table = Table({Column(1, "a", TypeKind::kLong)});
  table.row_lineage = true;
  auto& file = PutTable(schema({IdField(1, "a", arrow::int64())}), {Numbers(0, 1000)}, 10);
  file.first_row_id = 0;
  file.deleted = Deleted({5, 500, 999});
  Request();
  request_.shape.row_group_rows = 10;
  for (const Verify verify : {Verify::kCounts, Verify::kSample, Verify::kFull}) {
    request_.verify = verify;
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report->rows_out, 997);
    EXPECT_EQ(report->rows_deleted, 3);
  }
}

}  // namespace
}  // namespace lithify::rewrite
