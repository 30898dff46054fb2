// Directed cases of the recode tier: schema union, widening, refusals, row rules, bounds, damage.
// Case numbers (P…) are those of the field cases that the tests restate.
#include <arrow/util/key_value_metadata.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/statistics.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "rewrite/event_file.h"
#include "rewrite/parquet_fixture.h"
#include "storage/forwarding_store.h"
#include "storage/local_store.h"

namespace lithify::rewrite {
namespace {

using arrow::field;
using arrow::schema;

class RecodeTest : public RunnerTest {
 protected:
  void PutTable(const std::shared_ptr<arrow::Schema>& s, const std::vector<std::string>& json) {
    Put("in" + std::to_string(inputs_++) + ".parquet", WriteParquet(*MakeTable(s, json)));
  }
  // Runs and compares the single output with `expected`.
  void ExpectOutput(const std::shared_ptr<arrow::Schema>& s, const std::vector<std::string>& json) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    ASSERT_EQ(report->outputs.size(), 1U);
    const auto actual = Output(*report);
    const auto expected = MakeTable(s, json);
    EXPECT_TRUE(actual->schema()->Equals(*s, false)) << actual->schema()->ToString();
    EXPECT_TRUE(actual->Equals(*expected, false)) << actual->ToString();
    EXPECT_EQ(report->rows_in, expected->num_rows());
    EXPECT_EQ(report->rows_out, expected->num_rows());
  }
  void ExpectError(Code code, const std::string& part) {
    const auto keys = store_.Keys();
    const auto report = Run();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, code) << report.error().ToString();
    EXPECT_NE(report.error().ToString().find(part), std::string::npos) << report.error().ToString();
    EXPECT_EQ(store_.Keys(), keys) << "a refused group must leave nothing behind";
  }
  std::unique_ptr<parquet::ParquetFileReader> OpenOutput(const std::string& name) {
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(Bytes(name))));
  }
};

TEST_F(RecodeTest, P4_UnionByNameFillsMissingColumnsWithNull) {
  PutTable(schema({field("a", arrow::int32()), field("b", arrow::utf8())}),
           {"[1, 2]", R"(["x", null])"});
  PutTable(schema({field("c", arrow::float64()), field("a", arrow::int32())}), {"[1.5]", "[3]"});
  ExpectOutput(
      schema({field("a", arrow::int32()), field("b", arrow::utf8()), field("c", arrow::float64())}),
      {"[1, 2, 3]", R"(["x", null, null])", "[null, null, 1.5]"});
}

TEST_F(RecodeTest, P6_AColumnMissingSomewhereIsNeverRequired) {
  PutTable(schema({field("a", arrow::int32(), false), field("b", arrow::int64(), false)}),
           {"[1]", "[7]"});
  PutTable(schema({field("a", arrow::int32(), false)}), {"[2]"});
  ExpectOutput(schema({field("a", arrow::int32(), false), field("b", arrow::int64(), true)}),
               {"[1, 2]", "[7, null]"});
}

TEST_F(RecodeTest, P4_FieldsMissingInsideStructsAndListsOfStructs) {
  const auto narrow = arrow::struct_({field("x", arrow::int32(), false)});
  const auto wide = arrow::struct_({field("x", arrow::int32(), false),
                                    field("y", arrow::list(field("element", arrow::utf8())))});
  PutTable(schema({field("s", narrow), field("l", arrow::list(field("element", narrow)))}),
           {"[[1], null, [2]]", "[[[1], null, [3]], null, []]"});
  PutTable(schema({field("s", wide), field("l", arrow::list(field("element", wide)))}),
           {R"([[3, ["q", null]], [4, null]])", R"([[[5, []], [6, ["r"]]], [null]])"});
  const auto out = arrow::struct_({field("x", arrow::int32(), false),
                                   field("y", arrow::list(field("element", arrow::utf8())))});
  ExpectOutput(schema({field("s", out), field("l", arrow::list(field("element", out)))}),
               {R"([[1, null], null, [2, null], [3, ["q", null]], [4, null]])",
                R"([[[1, null], null, [3, null]], null, [], [[5, []], [6, ["r"]]], [null]])"});
}

TEST_F(RecodeTest, P5_ANullTypedColumnTakesTheTypeThatAnotherFileKnows) {
  PutTable(
      schema({field("a", arrow::null()), field("l", arrow::list(field("element", arrow::null())))}),
      {"[null, null]", "[[null, null], []]"});
  PutTable(schema({field("a", arrow::utf8()),
                   field("l", arrow::list(field("element", arrow::int64())))}),
           {R"(["x"])", "[[1]]"});
  ExpectOutput(schema({field("a", arrow::utf8()),
                       field("l", arrow::list(field("element", arrow::int64())))}),
               {R"([null, null, "x"])", "[[null, null], [], [1]]"});
}

TEST_F(RecodeTest, P5_ANullTypedColumnTakesAStructToo) {
  const auto s = arrow::struct_({field("x", arrow::int32())});
  PutTable(schema({field("k", arrow::int32()), field("a", arrow::null())}), {"[1]", "[null]"});
  PutTable(schema({field("k", arrow::int32()), field("a", s)}), {"[2]", "[[5]]"});
  ExpectOutput(schema({field("k", arrow::int32()), field("a", s)}), {"[1, 2]", "[null, [5]]"});
}

TEST_F(RecodeTest, R227_SafeWideningKeepsValues) {
  PutTable(
      schema({field("i", arrow::int8()), field("u", arrow::uint32()), field("f", arrow::float32()),
              field("t", arrow::timestamp(arrow::TimeUnit::MILLI, "UTC")),
              field("d", arrow::decimal128(5, 2))}),
      {"[-128, null]", "[4294967295, 0]", "[1.5, -0.0]", "[1000, -1]", R"(["-999.99", "1.00"])"});
  PutTable(
      schema({field("i", arrow::int64()), field("u", arrow::uint64()), field("f", arrow::float64()),
              field("t", arrow::timestamp(arrow::TimeUnit::NANO, "UTC")),
              field("d", arrow::decimal128(30, 2))}),
      {"[9223372036854775807]", "[18446744073709551615]", "[0.1]", "[5]",
       R"(["12345678901234567890.12"])"});
  ExpectOutput(
      schema({field("i", arrow::int64()), field("u", arrow::uint64()), field("f", arrow::float64()),
              field("t", arrow::timestamp(arrow::TimeUnit::NANO, "UTC")),
              field("d", arrow::decimal128(30, 2))}),
      {"[-128, null, 9223372036854775807]", "[4294967295, 0, 18446744073709551615]",
       "[1.5, -0.0, 0.1]", "[1000000000, -1000000, 5]",
       R"(["-999.99", "1.00", "12345678901234567890.12"])"});
}

TEST_F(RecodeTest, P12_ATimestampThatOverflowsTheFinerUnitIsRefused) {
  PutTable(schema({field("t", arrow::timestamp(arrow::TimeUnit::MILLI))}), {"[253402300799999]"});
  PutTable(schema({field("t", arrow::timestamp(arrow::TimeUnit::NANO))}), {"[1]"});
  ExpectError(Code::kUnsupported, "does not fit the finer unit");
}

struct Refusal {
  std::shared_ptr<arrow::DataType> a;
  std::string a_json;
  std::shared_ptr<arrow::DataType> b;
  std::string b_json;
};

TEST_F(RecodeTest, R227_UnsafeTypeChangesAreRefusedWithBothTypesNamed) {
  const std::vector<Refusal> table = {
      {arrow::int32(), "[1]", arrow::utf8(), R"(["1"])"},
      {arrow::int32(), "[1]", arrow::uint32(), "[1]"},
      {arrow::int64(), "[1]", arrow::float64(), "[1]"},
      {arrow::date32(), "[1]", arrow::timestamp(arrow::TimeUnit::MICRO), "[1]"},
      {arrow::timestamp(arrow::TimeUnit::MICRO), "[1]",
       arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[1]"},
      {arrow::decimal128(9, 2), R"(["1.00"])", arrow::decimal128(9, 3), R"(["1.000"])"},
      {arrow::fixed_size_binary(2), R"(["ab"])", arrow::fixed_size_binary(3), R"(["abc"])"},
      {arrow::utf8(), R"(["x"])", arrow::binary(), R"(["x"])"},
      {arrow::int32(), "[1]", arrow::list(arrow::int32()), "[[1]]"},
      {arrow::struct_({field("x", arrow::int32())}), "[[1]]", arrow::list(arrow::int32()), "[[1]]"},
  };
  for (const Refusal& refusal : table) {
    SCOPED_TRACE(refusal.a->ToString() + " and " + refusal.b->ToString());
    request_.inputs.clear();
    PutTable(schema({field("bad", refusal.a)}), {refusal.a_json});
    PutTable(schema({field("bad", refusal.b)}), {refusal.b_json});
    ExpectError(Code::kUnsupported, "bad");
  }
}

TEST_F(RecodeTest, P8_DuplicateAndCaseFoldedNamesAreRefused) {
  PutTable(schema({field("a", arrow::int32()), field("a", arrow::int32())}), {"[1]", "[2]"});
  ExpectError(Code::kUnsupported, "two columns have the name a");
  request_.inputs.clear();
  PutTable(schema({field("a", arrow::int32())}), {"[1]"});
  PutTable(schema({field("A", arrow::int32())}), {"[2]"});
  ExpectError(Code::kUnsupported, "differ in nothing but case");
}

std::shared_ptr<arrow::Field> WithId(const std::shared_ptr<arrow::Field>& f, int id) {
  return f->WithMetadata(arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
}

TEST_F(RecodeTest, P22_FieldIdsMatchColumnsAndSurvive) {
  PutTable(schema({WithId(field("a", arrow::int32()), 7), WithId(field("b", arrow::utf8()), 8)}),
           {"[1]", R"(["x"])"});
  PutTable(schema({WithId(field("b", arrow::utf8()), 8), WithId(field("a", arrow::int32()), 7)}),
           {R"(["y"])", "[2]"});
  ExpectOutput(schema({field("a", arrow::int32()), field("b", arrow::utf8())}),
               {"[1, 2]", R"(["x", "y"])"});
  const auto reader = OpenOutput("out0.parquet");
  EXPECT_EQ(reader->metadata()->schema()->group_node()->field(0)->field_id(), 7);
  EXPECT_EQ(reader->metadata()->schema()->group_node()->field(1)->field_id(), 8);
}

TEST_F(RecodeTest, P22_OneIdWithTwoNamesIsRefusedBecauseReadersGoByName) {
  PutTable(schema({WithId(field("old", arrow::int32()), 7)}), {"[1]"});
  PutTable(schema({WithId(field("new", arrow::int32()), 7)}), {"[2]"});
  ExpectError(Code::kUnsupported, "field id 7 is column old in one file and new in another");
}

TEST_F(RecodeTest, P22_AReaddedNameWithAnotherIdDoesNotPickUpOldValues) {
  PutTable(schema({WithId(field("a", arrow::int32()), 1), WithId(field("k", arrow::int32()), 3)}),
           {"[1]", "[0]"});
  PutTable(schema({WithId(field("b", arrow::int32()), 2), WithId(field("k", arrow::int32()), 3)}),
           {"[2]", "[0]"});
  ExpectOutput(
      schema({field("a", arrow::int32()), field("k", arrow::int32()), field("b", arrow::int32())}),
      {"[1, null]", "[0, 0]", "[null, 2]"});
}

TEST_F(RecodeTest, P9_MetadataKeptIfEqualDroppedAndNamedIfNot) {
  const auto with = [](const std::string& v) {
    return schema({field("a", arrow::int32())},
                  arrow::key_value_metadata({"same", "k", "lithify.format"}, {"1", v, "1"}));
  };
  PutTable(with("1"), {"[1]"});
  PutTable(with("2"), {"[2]"});
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  const auto metadata = OpenOutput("out0.parquet")->metadata()->key_value_metadata();
  EXPECT_EQ(metadata->Get("same").ValueOrDie(), "1");
  EXPECT_FALSE(metadata->Contains("k"));
  EXPECT_EQ(metadata->Get("lithify.job_id").ValueOrDie(), "job");
  const std::vector<std::string> notes = {
      "metadata key ARROW:schema dropped: its values differ between the inputs",
      "metadata key k dropped: its values differ between the inputs"};
  EXPECT_EQ(report->notes, notes);
}

TEST_F(RecodeTest, P19_BloomFiltersAreRebuilt) {
  const auto s = schema({field("id", arrow::int64()), field("v", arrow::int64())});
  for (int f = 0; f < 3; ++f) {
    parquet::WriterProperties::Builder builder;
    builder.enable_bloom_filter("id", parquet::BloomFilterOptions{});
    const std::string id = std::to_string(f * 1000 + 5);
    Put("b" + std::to_string(f) + ".parquet",
        WriteParquet(*MakeTable(s, {"[" + id + "]", "[1]"}), 100, builder.build()));
  }
  ASSERT_TRUE(Run());
  const auto reader = OpenOutput("out0.parquet");
  auto& filters = reader->GetBloomFilterReader();
  const auto filter = filters.RowGroup(0)->GetColumnBloomFilter(0);
  ASSERT_NE(filter, nullptr);
  for (int64_t id : {5, 1005, 2005}) EXPECT_TRUE(filter->FindHash(filter->Hash(id)));
  int false_positives = 0;
  for (int64_t id = 10'000; id < 11'000; ++id)
    false_positives += filter->FindHash(filter->Hash(id)) ? 1 : 0;
  EXPECT_LT(false_positives, 200);
  EXPECT_EQ(filters.RowGroup(0)->GetColumnBloomFilter(1), nullptr);
}

TEST_F(RecodeTest, P20_ZeroRowFilesGiveSchemaOnlyAndNoEmptyOutput) {
  PutTable(schema({field("a", arrow::int32()), field("z", arrow::utf8())}), {"[]", "[]"});
  PutTable(schema({field("a", arrow::int32())}), {"[4]"});
  ExpectOutput(schema({field("a", arrow::int32()), field("z", arrow::utf8())}), {"[4]", "[null]"});
  request_.inputs.resize(1);
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(report->outputs.empty());
  EXPECT_EQ(report->rows_in, 0);
}

TEST_F(RecodeTest, P20_EveryTruncationIsCorruptAndLeavesNothing) {
  const std::string whole =
      WriteParquet(*MakeTable(schema({field("a", arrow::int32())}), {"[1, 2, 3]"}));
  for (size_t n = 0; n < whole.size(); n += n < 16 ? 1 : 7) {
    request_.inputs.clear();
    Put("t" + std::to_string(n) + ".parquet", whole.substr(0, n));
    const auto facts = runner_->Inspect({.key = "p/t" + std::to_string(n) + ".parquet"});
    ASSERT_FALSE(facts) << n;
    EXPECT_EQ(facts.error().code, Code::kCorrupt) << facts.error().ToString();
    EXPECT_FALSE(facts.error().hint.empty());
    ExpectError(Code::kCorrupt, "t" + std::to_string(n) + ".parquet");
  }
}

// A footer is read by everybody who opens the file.
TEST_F(RecodeTest, TheMarkNamesInputsUnlessThereAreVeryMany) {
  const std::string bytes =
      WriteParquet(*MakeTable(schema({field("a", arrow::int32())}), {"[1, 2, 3]"}));
  const auto named = [&](int files) {
    request_.inputs.clear();
    for (int i = 0; i < files; ++i) {
      Put(std::to_string(files) + "-" + std::string(90, 'x') + std::to_string(i) + ".parquet",
          bytes);
    }
    const auto report = Run();
    EXPECT_TRUE(report);
    const auto facts = runner_->Inspect({.key = "p/" + report->outputs.at(0).name});
    EXPECT_TRUE(facts && facts->mark && facts->mark->job_id == "job");
    return facts->mark->inputs;
  };
  const std::vector<std::string> few = named(3);
  ASSERT_EQ(few.size(), 3U);
  EXPECT_EQ(few[2], request_.inputs[2].key.substr(2));
  EXPECT_TRUE(named(50).empty());
}

// Counts what is opened.
class CountingStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& known) override {
    ++opened;
    return store_.OpenKnown(known);
  }
  int opened = 0;
};

TEST(InspectTest, FactsAreKeptUntilTheFileIsReplaced) {
  std::string root = testing::TempDir() + "inspect_XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto write = [&](const char* rows) {
    const std::string bytes =
        WriteParquet(*MakeTable(schema({field("a", arrow::int32())}), {rows}));
    std::ofstream(root + "/a.parquet", std::ios::binary) << bytes;
    return bytes.size();
  };
  const size_t size = write("[1, 2, 3]");
  auto store = storage::OpenLocalStore(root);
  ASSERT_TRUE(store);
  CountingStore counting(**store);
  const auto runner = MakeParquetRunner(counting);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runner->Inspect({.key = "a.parquet"})->rows, 3);
  EXPECT_EQ(counting.opened, 1);
  // In place, with as many bytes and the time that it had: it is another file all the same.
  const auto before = std::filesystem::last_write_time(root + "/a.parquet");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(write("[4, 5, 6]"), size);
  std::filesystem::last_write_time(root + "/a.parquet", before);
  EXPECT_EQ(runner->Inspect({.key = "a.parquet"})->rows, 3);
  EXPECT_EQ(counting.opened, 2);
  write("[1, 2, 3, 4]");
  EXPECT_EQ(runner->Inspect({.key = "a.parquet"})->rows, 4);
  EXPECT_EQ(counting.opened, 3);
  // What could not be read is looked at again.
  std::ofstream(root + "/a.parquet", std::ios::binary) << std::string(100, 'x');
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(runner->Inspect({.key = "a.parquet"}));
  EXPECT_EQ(counting.opened, 5);
  std::filesystem::remove_all(root);
}

// A file with page checksums: no flipped bit may reach an output unseen.
TEST_F(RecodeTest, FlippedBytesNeverGiveOtherRows) {
  std::string numbers = "[";
  for (int i = 0; i < 500; ++i) numbers += (i > 0 ? "," : "") + std::to_string(i * 7919 % 1000);
  numbers += "]";
  const auto table = MakeTable(schema({field("a", arrow::int64())}), {numbers});
  parquet::WriterProperties::Builder builder;
  builder.enable_page_checksum();
  const std::string whole = WriteParquet(*table, 100, builder.build());
  const auto once = ReadParquet(whole);
  const auto expected =
      arrow::ConcatenateTables({once, once}).ValueOrDie()->CombineChunks().ValueOrDie();
  Put("whole.parquet", whole);
  const InputFile intact = request_.inputs.front();
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8));
    request_.inputs = {intact};
    Put("f" + std::to_string(inputs_++) + ".parquet", damaged);
    const auto report = Run();
    if (!report) {
      ++refused;
      continue;
    }
    const auto actual = Output(*report);
    EXPECT_TRUE(actual->column(0)->Equals(*expected->column(0))) << round;
  }
  EXPECT_GT(refused, 100);
}

TEST_F(RecodeTest, H7_SeveralOutputsWhenThePlanSaysSo) {
  for (int f = 0; f < 12; ++f) {
    std::string numbers = "[";
    for (int i = 0; i < 1000; ++i)
      numbers += (i > 0 ? "," : "") + std::to_string((f * 1000 + i) * 2654435761LL);
    PutTable(schema({field("a", arrow::int64())}), {numbers + "]"});
  }
  Request();
  request_.shape.outputs = 3;
  request_.shape.row_group_rows = 1000;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  ASSERT_EQ(report->outputs.size(), 3U);
  for (const auto& output : report->outputs) {
    EXPECT_EQ(output.rows, 4000);
    EXPECT_EQ(output.row_groups, 4);
  }
}

// Row groups as configured would all go to one file: they are cut, one for each file at least.
TEST_F(RecodeTest, H7_RowGroupsAreCutToThePlannedNumberOfOutputs) {
  for (const int rows : {3000, 500, 500, 2000}) {
    std::string numbers = "[";
    for (int i = 0; i < rows; ++i)
      numbers += (i > 0 ? "," : "") + std::to_string((inputs_ * 5000 + i) * 2654435761LL);
    parquet::WriterProperties::Builder builder;
    builder.disable_dictionary();
    Put("in" + std::to_string(inputs_++) + ".parquet",
        WriteParquet(*MakeTable(schema({field("a", arrow::int64())}), {numbers + "]"}), 1 << 20,
                     builder.build()));
  }
  Request();
  request_.shape.outputs = 4;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->outputs.size(), 4U);
  EXPECT_EQ(report->rows_out, 6000);
  for (const auto& output : report->outputs) EXPECT_LE(output.rows, 3000);
}

TEST_F(RecodeTest, R222_RowsMustAgreeWithTheirPath) {
  const auto s =
      schema({field("tenant_id", arrow::utf8()), field("time_unix_nano", arrow::int64()),
              field("observed_time_unix_nano", arrow::timestamp(arrow::TimeUnit::NANO, "UTC")),
              field("region", arrow::int32())});
  Request();
  request_.rows.tenant_column = "tenant_id";
  request_.rows.tenant = "acme";
  request_.rows.time_columns = {"time_unix_nano", "observed_time_unix_nano"};
  request_.rows.start = Time(std::chrono::hours(1));
  request_.rows.end = Time(std::chrono::hours(2));
  request_.rows.path_values = {{"region", "7"}, {"hour", "01"}};
  const std::string hour = std::to_string(3600LL * 1'000'000'000);
  const std::string last = std::to_string(7200LL * 1'000'000'000 - 1);
  PutTable(s, {R"(["acme", "acme", "acme"])", "[" + hour + ", 0, null]",
               "[5, " + last + ", " + hour + "]", "[7, 7, 7]"});
  ASSERT_TRUE(runner_->Run(request_, cancel_));

  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{R"(["other"])", "[" + hour + "]", "[1]", "[7]"}, "tenant_id = \"other\""},
      {{"[null]", "[" + hour + "]", "[1]", "[7]"}, "tenant_id = null"},
      {{R"(["acme"])", "[1]", "[" + hour + "]", "[7]"}, "time_unix_nano = 1"},
      {{R"(["acme"])", "[" + std::to_string(7200LL * 1'000'000'000) + "]", "[1]", "[7]"},
       "time_unix_nano"},
      {{R"(["acme"])", "[0]", "[null]", "[7]"}, "time_unix_nano = 0"},
      {{R"(["acme"])", "[" + hour + "]", "[1]", "[8]"}, "region = 8"},
  };
  for (const auto& [json, part] : bad) {
    request_.inputs.clear();
    PutTable(s, json);
    ExpectError(Code::kCorrupt, part);
  }
}

TEST_F(RecodeTest, R222_ARequiredCheckColumnThatIsAbsentRefusesTheGroup) {
  Request();
  request_.rows.tenant_column = "tenant_id";
  request_.rows.tenant = "acme";
  PutTable(schema({field("a", arrow::int32())}), {"[1]"});
  ExpectError(Code::kUnsupported, "tenant_id");
}

TEST_F(RecodeTest, I32_MillionsOfRowsInTinyFilesStayBounded) {
  auto ones = arrow::MakeArrayFromScalar(arrow::Int64Scalar(42), 1'400'000).ValueOrDie();
  const auto table = arrow::Table::Make(schema({field("a", arrow::int64())}), {ones});
  const std::string bytes = WriteParquet(*table, 1'400'000);
  EXPECT_LT(bytes.size(), 40'000U);
  for (int f = 0; f < 4; ++f) Put("i" + std::to_string(f) + ".parquet", bytes);
  Request();
  request_.memory_bytes = 16 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->rows_out, 5'600'000);
  EXPECT_EQ(report->outputs[0].row_groups, 8);
}

TEST_F(RecodeTest, P14_LongStringsKeepPagesNearTheirSizeAndOverTheBoundIsAClearLimit) {
  std::string json = "[";
  for (int i = 0; i < 24; ++i) {
    json += (i > 0 ? ",\"" : "\"") + std::string(1 << 20, static_cast<char>('a' + i)) + "\"";
  }
  const auto table = MakeTable(schema({field("s", arrow::utf8())}), {json + "]"});
  parquet::WriterProperties::Builder builder;
  builder.disable_dictionary()->write_batch_size(1);
  Put("long.parquet", WriteParquet(*table, 100, builder.build()));
  Request();
  request_.memory_bytes = 24 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(Output(*report)->Equals(*ReadParquet(Bytes("long.parquet")), false));
  request_.memory_bytes = 1 << 20;
  const auto limited = runner_->Run(request_, cancel_);
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, Code::kLimit) << limited.error().ToString();
  EXPECT_NE(limited.error().hint.find("--memory"), std::string::npos);
}

TEST_F(RecodeTest, P29_AnOutputMuchLargerThanItsInputsIsRefused) {
  std::string json = "[";
  for (int i = 0; i < 400'000; ++i) json += (i > 0 ? "," : "") + std::to_string(i % 4 * 1'000'003);
  parquet::WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD);
  Put("z.parquet", WriteParquet(*MakeTable(schema({field("a", arrow::int64())}), {json + "]"}),
                                1 << 20, builder.build()));
  Request();
  request_.shape.codec = "none";
  request_.shape.growth_max = 1.0;
  const InputFile input = request_.inputs[0];
  for (int i = 0; i < 20; ++i) request_.inputs.push_back(input);
  const auto keys = store_.Keys();
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported);
  EXPECT_NE(report.error().hint.find("output.growth_max"), std::string::npos);
  EXPECT_EQ(store_.Keys(), keys);
}

TEST_F(RecodeTest, R232_EqualInputsGiveEqualBytes) {
  PutTable(schema({field("a", arrow::int64()), field("b", arrow::utf8())}),
           {"[1, 2]", R"(["x", "y"])"});
  PutTable(schema({field("a", arrow::int64()), field("b", arrow::utf8())}),
           {"[3, 4]", R"(["z", "y"])"});
  Request();
  request_.threads = 2;
  ASSERT_TRUE(runner_->Run(request_, cancel_));
  ASSERT_TRUE(runner_->Run(request_, cancel_));
  EXPECT_EQ(Bytes("out0.parquet"), Bytes("out1.parquet"));
}

TEST_F(RecodeTest, R215_NothingIsVisibleBeforeTheCallerAgrees) {
  PutTable(schema({field("a", arrow::int64())}), {"[1]"});
  Request();
  bool called = false;
  request_.before_publish = [&]() -> Status {
    called = true;
    EXPECT_FALSE(store_.Stat("p/out0.parquet"));
    return Fail(Code::kConflict, "lost");
  };
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_TRUE(called);
  EXPECT_EQ(report.error().code, Code::kConflict);
  EXPECT_EQ(store_.Keys(), (std::vector<std::string>{"p/in0.parquet"}));
}

TEST_F(RecodeTest, AStopRequestLeavesNothing) {
  PutTable(schema({field("a", arrow::int64())}), {"[1]"});
  cancel_.Request();
  ExpectError(Code::kCancelled, "stopped");
}

TEST_F(RecodeTest, TheRecordedDigestHoldsAndSeesAForgedFooter) {
  PutTable(schema({field("a", arrow::int64())}), {"[1, 2, 3]"});
  ASSERT_TRUE(Run());
  const auto report = runner_->VerifyFile("p/out0.parquet", RowRule{}, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  ASSERT_TRUE(report->recorded.has_value());
  EXPECT_EQ(*report->recorded, report->digest);
  EXPECT_EQ(report->rows, 3);
  std::string forged = Bytes("out0.parquet");
  const std::string digest = report->digest.row.ToHex();
  const size_t at = forged.find(digest);
  ASSERT_NE(at, std::string::npos);
  forged[at] = forged[at] == '0' ? '1' : '0';
  ASSERT_TRUE(store_.PutNew("p/forged.parquet", forged));
  const auto bad = runner_->VerifyFile("p/forged.parquet", RowRule{}, cancel_);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kCorrupt);
}

TEST_F(RecodeTest, P17_StatisticsAreRebuiltFromTheValues) {
  PutTable(schema({field("a", arrow::int64()), field("u", arrow::uint32())}),
           {"[5, null, -3]", "[4294967295, 1, 2]"});
  PutTable(schema({field("a", arrow::int64()), field("u", arrow::uint32())}), {"[11]", "[7]"});
  ASSERT_TRUE(Run());
  const auto reader = OpenOutput("out0.parquet");
  const auto stats = std::static_pointer_cast<parquet::Int64Statistics>(
      reader->metadata()->RowGroup(0)->ColumnChunk(0)->statistics());
  EXPECT_EQ(stats->min(), -3);
  EXPECT_EQ(stats->max(), 11);
  EXPECT_EQ(stats->null_count(), 1);
  const auto unsigned_stats = std::static_pointer_cast<parquet::Int32Statistics>(
      reader->metadata()->RowGroup(0)->ColumnChunk(1)->statistics());
  EXPECT_EQ(unsigned_stats->min(), 1);
  EXPECT_EQ(static_cast<uint32_t>(unsigned_stats->max()), 4294967295U);
}

TEST_F(RecodeTest, AMarkCopiedByAnotherWriterIsNoMark) {
  PutTable(schema({field("a", arrow::int64())}), {"[1, 2, 3]"});
  ASSERT_TRUE(Run());
  ASSERT_TRUE(runner_->Inspect({.key = "p/out0.parquet"})->mark.has_value());
  // As pyarrow does: the metadata of a file read goes into the schema, and with it into new files.
  const auto read = ReadParquet(Bytes("out0.parquet"));
  ASSERT_TRUE(read->schema()->metadata()->Contains("lithify.job_id"));
  const auto late = MakeTable(read->schema(), {"[4, 5]"});
  ASSERT_TRUE(store_.PutNew("p/late.parquet", WriteParquet(*late)));
  const auto facts = runner_->Inspect({.key = "p/late.parquet"});
  ASSERT_TRUE(facts) << facts.error().ToString();
  EXPECT_FALSE(facts->mark.has_value());
}

TEST_F(RecodeTest, T19_AStrongerCodecGivesFewerFilesInsteadOfSmallOnes) {
  for (int f = 0; f < 20; ++f) {
    std::string numbers = "[";
    for (int i = 0; i < 2000; ++i) numbers += (i > 0 ? "," : "") + std::to_string(i % 10);
    parquet::WriterProperties::Builder builder;
    builder.compression(arrow::Compression::UNCOMPRESSED)->disable_dictionary();
    Put("n" + std::to_string(f) + ".parquet",
        WriteParquet(*MakeTable(schema({field("a", arrow::int64())}), {numbers + "]"}), 1 << 20,
                     builder.build()));
  }
  Request();
  request_.shape.row_group_rows = 2000;
  request_.shape.outputs = 5;
  ASSERT_EQ(runner_->Run(request_, cancel_)->outputs.size(), 5U);
  request_.shape.file_size_bytes_target = 64 << 10;
  EXPECT_EQ(runner_->Run(request_, cancel_)->outputs.size(), 1U);
}

TEST_F(RecodeTest, MoreFilesThanAllowedAreRefused) {
  for (int f = 0; f < 4; ++f) PutTable(schema({field("a", arrow::int64())}), {"[1, 2, 3]"});
  Request();
  request_.shape.row_group_rows = 3;
  request_.shape.file_size_bytes_max = 1;
  request_.shape.outputs_max = 3;
  const auto keys = store_.Keys();
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported);
  EXPECT_EQ(report.error().message, "it would make 4 files of 4");
  EXPECT_EQ(store_.Keys(), keys);
}

// Arrow hands out fewer values than levels without a word; what follows in the buffer is other
// data.
TEST_F(RecodeTest, APageWithFewerValuesThanLevelsIsCorrupt) {
  std::string json = "[null";
  for (int i = 0; i < 100; ++i) json += "," + std::to_string(i * i);
  parquet::WriterProperties::Builder builder;
  builder.disable_dictionary()->encoding(parquet::Encoding::DELTA_BINARY_PACKED);
  std::string bytes = WriteParquet(*MakeTable(schema({field("a", arrow::int64())}), {json + "]"}),
                                   1000, builder.build());
  // Block size 256, 4 miniblocks, 100 values: make it 50.
  const size_t at = bytes.find(std::string("\x80\x02\x04\x64", 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = 50;
  Put("short.parquet", bytes);
  PutTable(schema({field("a", arrow::int64())}), {"[1]"});
  ExpectError(Code::kCorrupt, "a page holds 50 values where its levels say 100");
}

TEST_F(RecodeTest, P22_IdsThatDoNotTellFieldsApartAreNotUsed) {
  const auto s =
      schema({WithId(field("a", arrow::int32()), 0), WithId(field("b", arrow::utf8()), 0)});
  PutTable(s, {"[1]", R"(["x"])"});
  PutTable(s, {"[2]", R"(["y"])"});
  ExpectOutput(schema({field("a", arrow::int32()), field("b", arrow::utf8())}),
               {"[1, 2]", R"(["x", "y"])"});
}

TEST_F(RecodeTest, R222_PathValuesMayBeNullAndUnsigned) {
  Request();
  request_.rows.path_values = {{"region", "eu"}, {"shard", "3000000000"}};
  PutTable(schema({field("k", arrow::int32()), field("region", arrow::utf8()),
                   field("shard", arrow::uint32())}),
           {"[1]", R"(["eu"])", "[3000000000]"});
  PutTable(schema({field("k", arrow::int32())}), {"[2]"});
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->rows_out, 2);
}

std::string OneColumnFile(const parquet::schema::NodePtr& node, int rows, int32_t value) {
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto root = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", parquet::Repetition::REQUIRED, {node}));
  auto writer = parquet::ParquetFileWriter::Open(sink, root);
  auto* column = static_cast<parquet::Int32Writer*>(writer->AppendRowGroup()->NextColumn());
  const std::vector<int16_t> levels(static_cast<size_t>(rows), 1);
  const std::vector<int32_t> values(static_cast<size_t>(rows), value);
  column->WriteBatch(rows, levels.data(), nullptr, values.data());
  column->Close();
  writer->Close();
  return sink->Finish().ValueOrDie()->ToString();
}

TEST_F(RecodeTest, P5_AColumnThatClaimsToBeNullAndHoldsValuesIsCorrupt) {
  Put("n.parquet", OneColumnFile(parquet::schema::PrimitiveNode::Make(
                                     "a", parquet::Repetition::OPTIONAL,
                                     parquet::LogicalType::Null(), parquet::Type::INT32),
                                 3, 7));
  PutTable(schema({field("a", arrow::int32())}), {"[1]"});
  ExpectError(Code::kCorrupt, "annotated as always null, and holds values");
}

TEST_F(RecodeTest, P26_VariantsShreddedDifferentlyAreRefused) {
  const auto variant = [](bool shredded) {
    using parquet::schema::GroupNode;
    using parquet::schema::PrimitiveNode;
    parquet::schema::NodeVector fields = {
        PrimitiveNode::Make("metadata", parquet::Repetition::REQUIRED, parquet::Type::BYTE_ARRAY),
        PrimitiveNode::Make("value", parquet::Repetition::OPTIONAL, parquet::Type::BYTE_ARRAY)};
    if (shredded) {
      fields.push_back(
          PrimitiveNode::Make("typed_value", parquet::Repetition::OPTIONAL, parquet::Type::INT64));
    }
    const auto root = GroupNode::Make("schema", parquet::Repetition::REQUIRED,
                                      {GroupNode::Make("v", parquet::Repetition::OPTIONAL, fields,
                                                       parquet::LogicalType::Variant())});
    auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
    auto writer = parquet::ParquetFileWriter::Open(sink, std::static_pointer_cast<GroupNode>(root));
    writer->Close();
    return sink->Finish().ValueOrDie()->ToString();
  };
  Put("a.parquet", variant(false));
  Put("b.parquet", variant(true));
  ExpectError(Code::kUnsupported, "shredded differently");
}

TEST(EventFileTest, R244_EventsReadBackWithTheAdditiveColumns) {
  const std::vector<CompactionEvent> events = {{"acme",
                                                Time(std::chrono::seconds(1)),
                                                "year=1970/month=01/day=01/hour=00",
                                                {"a.parquet", "b.parquet"},
                                                {"c.parquet"},
                                                2,
                                                10},
                                               {"x",
                                                Time(std::chrono::seconds(2)),
                                                "year=1970/month=01/day=01/hour=00",
                                                {"d.parquet"},
                                                {},
                                                3,
                                                0}};
  const auto bytes = EncodeCompactionEvents(events);
  ASSERT_TRUE(bytes) << bytes.error().ToString();
  const auto table = ReadParquet(*bytes);
  const auto json = [&](const char* name) { return table->GetColumnByName(name)->chunk(0); };
  EXPECT_TRUE(json("tenant_id")->Equals(*FromJson(arrow::utf8(), R"(["acme", "x"])")));
  EXPECT_TRUE(json("event_kind")->Equals(*FromJson(arrow::uint8(), "[3, 3]")));
  EXPECT_TRUE(json("timestamp")
                  ->Equals(*FromJson(arrow::timestamp(arrow::TimeUnit::NANO, "UTC"),
                                     "[1000000000, 2000000000]")));
  EXPECT_TRUE(json("compaction_input_files")
                  ->Equals(*FromJson(arrow::list(field("element", arrow::utf8())),
                                     R"([["a.parquet", "b.parquet"], ["d.parquet"]])")));
  EXPECT_TRUE(
      json("compaction_output_file")->Equals(*FromJson(arrow::utf8(), R"(["c.parquet", null])")));
  EXPECT_TRUE(json("compaction_output_files")
                  ->Equals(*FromJson(arrow::list(field("element", arrow::utf8())),
                                     R"([["c.parquet"], []])")));
  EXPECT_TRUE(json("compaction_generation")->Equals(*FromJson(arrow::uint64(), "[2, 3]")));
  EXPECT_TRUE(json("compaction_rows")->Equals(*FromJson(arrow::uint64(), "[10, 0]")));
  EXPECT_EQ(json("reason")->null_count(), 2);
}

}  // namespace
}  // namespace lithify::rewrite
