// Every Iceberg type as Parquet [Iceberg, Appendix A], and what older files hold in its place:
// promoted types [Schema Evolution], and what other engines write. Judged by Arrow's reader.
#include "rewrite/table_types.h"

#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>

#include "rewrite/decimal_bytes.h"
#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using arrow::schema;
using iceberg::TypeKind;
using iceberg::Value;
using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::PrimitiveNode;

class TableTypesTest : public RunnerTest {
 protected:
  void SetTable(std::vector<iceberg::Field> fields) {
    auto table = std::make_shared<TableTarget>();
    table->schema.fields = std::move(fields);
    request_.table = std::move(table);
  }
  void PutNext(const std::string& bytes) {
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
  }
  // One required column "c" with field id 1, written as it is.
  template <typename ParquetType>
  void PutColumn(std::shared_ptr<const LogicalType> logical, int length,
                 std::vector<typename ParquetType::c_type> values) {
    auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
    const auto root = std::static_pointer_cast<GroupNode>(
        GroupNode::Make("schema", Repetition::REQUIRED,
                        {PrimitiveNode::Make("c", Repetition::REQUIRED, std::move(logical),
                                             ParquetType::type_num, length, 1)}));
    auto writer = parquet::ParquetFileWriter::Open(sink, root);
    auto* group = writer->AppendRowGroup();
    auto* column = static_cast<parquet::TypedColumnWriter<ParquetType>*>(group->NextColumn());
    column->WriteBatch(static_cast<int64_t>(values.size()), nullptr, nullptr, values.data());
    column->Close();
    writer->Close();
    PutNext(sink->Finish().ValueOrDie()->ToString());
  }
  void ExpectColumn(const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    const auto actual = Output(*report);
    const auto expected = MakeTable(schema({arrow::field("c", type)}), {json});
    EXPECT_TRUE(actual->column(0)->Equals(*expected->column(0))) << actual->ToString();
  }
  void ExpectError(Code code, const std::string& part) {
    const auto report = Run();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, code) << report.error().ToString();
    EXPECT_NE(report.error().ToString().find(part), std::string::npos) << report.error().ToString();
  }
};

TEST_F(TableTypesTest, AppendixA_EveryTypeHasItsPhysicalAndLogicalType) {
  using Unit = LogicalType::TimeUnit;
  struct Case {
    iceberg::Type type;
    std::shared_ptr<arrow::DataType> arrow;
    std::string json;
    Type::type physical;
    int length;
    std::shared_ptr<const LogicalType> logical;
  };
  const auto none = LogicalType::None();
  const auto fixed = Type::FIXED_LEN_BYTE_ARRAY;
  const std::vector<Case> cases = {
      {Primitive(TypeKind::kBoolean), arrow::boolean(), "[true]", Type::BOOLEAN, -1, none},
      {Primitive(TypeKind::kInt), arrow::int32(), "[1]", Type::INT32, -1, none},
      {Primitive(TypeKind::kLong), arrow::int64(), "[1]", Type::INT64, -1, none},
      {Primitive(TypeKind::kFloat), arrow::float32(), "[1]", Type::FLOAT, -1, none},
      {Primitive(TypeKind::kDouble), arrow::float64(), "[1]", Type::DOUBLE, -1, none},
      {DecimalType(9, 2), arrow::decimal128(9, 2), R"(["-1.25"])", Type::INT32, -1,
       LogicalType::Decimal(9, 2)},
      {DecimalType(18, 2), arrow::decimal128(18, 2), R"(["-1.25"])", Type::INT64, -1,
       LogicalType::Decimal(18, 2)},
      {DecimalType(19, 2), arrow::decimal128(19, 2), R"(["-1.25"])", fixed, 9,
       LogicalType::Decimal(19, 2)},
      {DecimalType(38, 38), arrow::decimal128(38, 38), "[null]", fixed, 16,
       LogicalType::Decimal(38, 38)},
      {Primitive(TypeKind::kDate), arrow::date32(), "[-1]", Type::INT32, -1, LogicalType::Date()},
      {Primitive(TypeKind::kTime), arrow::time64(arrow::TimeUnit::MICRO), "[5]", Type::INT64, -1,
       LogicalType::Time(false, Unit::MICROS)},
      {Primitive(TypeKind::kTimestamp), arrow::timestamp(arrow::TimeUnit::MICRO), "[-5]",
       Type::INT64, -1, LogicalType::Timestamp(false, Unit::MICROS)},
      {Primitive(TypeKind::kTimestamptz), arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[5]",
       Type::INT64, -1, LogicalType::Timestamp(true, Unit::MICROS)},
      {Primitive(TypeKind::kTimestampNs), arrow::timestamp(arrow::TimeUnit::NANO), "[5]",
       Type::INT64, -1, LogicalType::Timestamp(false, Unit::NANOS)},
      {Primitive(TypeKind::kTimestamptzNs), arrow::timestamp(arrow::TimeUnit::NANO, "UTC"), "[5]",
       Type::INT64, -1, LogicalType::Timestamp(true, Unit::NANOS)},
      {Primitive(TypeKind::kString), arrow::utf8(), R"(["é"])", Type::BYTE_ARRAY, -1,
       LogicalType::String()},
      {Primitive(TypeKind::kUuid), arrow::fixed_size_binary(16), R"(["0123456789abcdef"])", fixed,
       16, LogicalType::UUID()},
      {Primitive(TypeKind::kFixed, 3), arrow::fixed_size_binary(3), R"(["abc"])", fixed, 3, none},
      {Primitive(TypeKind::kBinary), arrow::binary(), R"(["x"])", Type::BYTE_ARRAY, -1, none},
  };
  arrow::FieldVector fields;
  std::vector<iceberg::Field> columns;
  std::vector<std::string> json;
  for (const Case& each : cases) {
    const auto id = static_cast<int>(columns.size()) + 1;
    fields.push_back(IdField(id, "c" + std::to_string(id), each.arrow));
    columns.push_back(Column(id, "c" + std::to_string(id), each.type));
    json.push_back(each.json);
  }
  PutNext(WriteParquet(*MakeTable(schema(fields), json)));
  SetTable(columns);
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  const auto reader = parquet::ParquetFileReader::Open(std::make_shared<arrow::io::BufferReader>(
      arrow::Buffer::FromString(Bytes(report->outputs.at(0).name))));
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& each = cases[i];
    SCOPED_TRACE(IcebergTypeText(each.type));
    const auto* leaf = reader->metadata()->schema()->Column(static_cast<int>(i));
    EXPECT_EQ(leaf->physical_type(), each.physical);
    if (each.length > 0) {
      EXPECT_EQ(leaf->type_length(), each.length);
    }
    EXPECT_TRUE(leaf->logical_type()->Equals(*each.logical)) << leaf->logical_type()->ToString();
    const auto column = Output(*report)->column(static_cast<int>(i))->chunk(0);
    const auto wanted = FromJson(each.arrow, each.json);
    // Arrow may read an annotated uuid as an extension of the same bytes.
    EXPECT_EQ(column->data()->buffers.back()->ToString(),
              wanted->data()->buffers.back()->ToString())
        << column->ToString();
  }
}

TEST_F(TableTypesTest, SchemaEvolution_DatesBecomeTimestamps) {
  PutNext(WriteParquet(
      *MakeTable(schema({IdField(1, "c", arrow::date32())}), {"[0, -1, null, 19000]"})));
  SetTable({Column(1, "c", TypeKind::kTimestamp)});
  ExpectColumn(arrow::timestamp(arrow::TimeUnit::MICRO),
               "[0, -86400000000, null, 1641600000000000]");
  SetTable({Column(1, "c", TypeKind::kTimestampNs)});
  ExpectColumn(arrow::timestamp(arrow::TimeUnit::NANO),
               "[0, -86400000000000, null, 1641600000000000000]");
  request_.inputs.clear();
  PutNext(WriteParquet(*MakeTable(schema({IdField(1, "c", arrow::date32())}), {"[200000]"})));
  ExpectError(Code::kUnsupported, "does not fit");
}

TEST_F(TableTypesTest, UnitsOfOtherEngines) {
  PutNext(WriteParquet(*MakeTable(
      schema({IdField(1, "c", arrow::timestamp(arrow::TimeUnit::MILLI))}), {"[-1, 2]"})));
  SetTable({Column(1, "c", TypeKind::kTimestamp)});
  ExpectColumn(arrow::timestamp(arrow::TimeUnit::MICRO), "[-1000, 2000]");
  request_.inputs.clear();
  PutNext(WriteParquet(
      *MakeTable(schema({IdField(1, "c", arrow::time32(arrow::TimeUnit::MILLI))}), {"[7, null]"})));
  SetTable({Column(1, "c", TypeKind::kTime)});
  ExpectColumn(arrow::time64(arrow::TimeUnit::MICRO), "[7000, null]");
  request_.inputs.clear();
  PutNext(WriteParquet(*MakeTable(schema({IdField(1, "c", arrow::uint32())}), {"[4294967295]"})));
  SetTable({Column(1, "c", TypeKind::kLong)});
  ExpectColumn(arrow::int64(), "[4294967295]");
}

TEST_F(TableTypesTest, P12_Int96BecomesATimestampOrIsRefused) {
  // 1969-12-31T23:59:59.999999 and 9999-12-31T00:00.
  const uint64_t late = 86'399'999'999'000ULL;
  const parquet::Int96 before{
      {static_cast<uint32_t>(late), static_cast<uint32_t>(late >> 32), 2'440'587}};
  const parquet::Int96 far{{0, 0, 2'440'588 + 2'932'896}};
  PutColumn<parquet::Int96Type>(LogicalType::None(), -1, {before, far});
  SetTable({Column(1, "c", TypeKind::kTimestamptz)});
  ExpectColumn(arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[-1, 253402214400000000]");
  SetTable({Column(1, "c", TypeKind::kTimestamptzNs)});
  ExpectError(Code::kUnsupported, "does not fit");
  request_.inputs.clear();
  const parquet::Int96 fine{{1, 0, 2'440'588}};
  PutColumn<parquet::Int96Type>(LogicalType::None(), -1, {fine});
  ExpectColumn(arrow::timestamp(arrow::TimeUnit::NANO, "UTC"), "[1]");
  SetTable({Column(1, "c", TypeKind::kTimestamptz)});
  ExpectError(Code::kUnsupported, "does not fit");
}

TEST_F(TableTypesTest, DecimalsInBytesTakeTheTypeOfTheTable) {
  const std::string minus("\xff\xff\xff\xff\xff\x85", 6);  // -123, with bytes to spare.
  const std::string one("\x01", 1);
  const std::string fixed_minus("\xff\xff\xff\xff\xff\xff\xff\xff\x85", 9);
  for (const int precision : {5, 12, 30}) {
    SCOPED_TRACE(precision);
    request_.inputs.clear();
    PutColumn<parquet::ByteArrayType>(
        LogicalType::Decimal(5, 2), -1,
        {parquet::ByteArray(std::string_view(minus)), parquet::ByteArray(std::string_view(one))});
    PutColumn<parquet::FLBAType>(
        LogicalType::Decimal(5, 2), 9,
        {parquet::FixedLenByteArray(reinterpret_cast<const uint8_t*>(fixed_minus.data()))});
    PutColumn<parquet::Int64Type>(LogicalType::Decimal(5, 2), -1, {99999});
    PutColumn<parquet::Int32Type>(LogicalType::Decimal(5, 2), -1, {-99999});
    SetTable({Column(1, "c", DecimalType(precision, 2))});
    ExpectColumn(arrow::decimal128(precision, 2),
                 R"(["-1.23", "0.01", "-1.23", "999.99", "-999.99"])");
  }
  request_.inputs.clear();
  const std::string huge("\x01\x00\x00\x00\x00", 5);
  PutColumn<parquet::ByteArrayType>(LogicalType::Decimal(5, 2), -1,
                                    {parquet::ByteArray(std::string_view(huge))});
  SetTable({Column(1, "c", DecimalType(5, 2))});
  ExpectError(Code::kCorrupt, "more digits");
  request_.inputs.clear();
  PutColumn<parquet::ByteArrayType>(LogicalType::Decimal(5, 2), -1,
                                    {parquet::ByteArray(0, nullptr)});
  ExpectError(Code::kCorrupt, "more digits");
}

TEST_F(TableTypesTest, DefaultsOfEveryType) {
  struct Case {
    iceberg::Type type;
    Value value;
    std::shared_ptr<arrow::DataType> arrow;
    std::string json;
  };
  const std::string uuid = "0123456789abcdef";
  const std::vector<Case> cases = {
      {Primitive(TypeKind::kBoolean), Value(false), arrow::boolean(), "false"},
      {Primitive(TypeKind::kInt), Value(int64_t{-1}), arrow::int32(), "-1"},
      {Primitive(TypeKind::kLong), Value(INT64_MIN), arrow::int64(), "-9223372036854775808"},
      {Primitive(TypeKind::kFloat), Value(1.5F), arrow::float32(), "1.5"},
      {Primitive(TypeKind::kDouble), Value(1.5F), arrow::float64(), "1.5"},
      {Primitive(TypeKind::kDouble), Value(-0.5), arrow::float64(), "-0.5"},
      {DecimalType(9, 2), Value(iceberg::Decimal{-123}), arrow::decimal128(9, 2), R"("-1.23")"},
      {DecimalType(18, 2), Value(iceberg::Decimal{-123}), arrow::decimal128(18, 2), R"("-1.23")"},
      {DecimalType(20, 2), Value(iceberg::Decimal{-123}), arrow::decimal128(20, 2), R"("-1.23")"},
      {Primitive(TypeKind::kDate), Value(int64_t{3}), arrow::date32(), "3"},
      {Primitive(TypeKind::kTimestamp), Value(int64_t{3}), arrow::timestamp(arrow::TimeUnit::MICRO),
       "3"},
      {Primitive(TypeKind::kString), Value(std::string()), arrow::utf8(), R"("")"},
      {Primitive(TypeKind::kFixed, 2), Value(std::string("ab")), arrow::fixed_size_binary(2),
       R"("ab")"},
      {Primitive(TypeKind::kBinary), Value(std::string("b")), arrow::binary(), R"("b")"},
  };
  PutNext(WriteParquet(*MakeTable(schema({IdField(9, "k", arrow::int32())}), {"[1, 2]"})));
  for (const Case& each : cases) {
    SCOPED_TRACE(IcebergTypeText(each.type));
    auto column = Column(1, "c", each.type, true);
    column.initial_default = each.value;
    SetTable({column});
    ExpectColumn(each.arrow, "[" + each.json + "," + each.json + "]");
  }
  auto column = Column(1, "c", TypeKind::kInt);
  column.initial_default = Value(int64_t{1} << 40);
  SetTable({column});
  ExpectError(Code::kCorrupt, "column c");
  column.initial_default = Value(std::string("text"));
  SetTable({column});
  ExpectError(Code::kCorrupt, "column c");
}

TEST(DecimalBytesTest, NarrowingKeepsValuesOrFails) {
  const auto read = [](std::vector<uint8_t> bytes) {
    int32_t out = 0;
    return ReadDecimal(bytes, out) ? std::optional(out) : std::nullopt;
  };
  EXPECT_EQ(read({0x80}), -128);
  EXPECT_EQ(read({0x00, 0x7f, 0xff, 0xff, 0xff}), INT32_MAX);
  EXPECT_EQ(read({0x00, 0x80, 0x00, 0x00, 0x00}), std::nullopt);
  EXPECT_EQ(read({0xff, 0x80, 0x00, 0x00, 0x00}), INT32_MIN);
  EXPECT_EQ(read({0xff, 0x7f, 0xff, 0xff, 0xff}), std::nullopt);
  EXPECT_EQ(read({0x01, 0x00, 0x00, 0x00, 0x00}), std::nullopt);
  EXPECT_EQ(read({}), std::nullopt);
}

}  // namespace
}  // namespace lithify::rewrite
