// Iceberg data file metrics from Parquet footers ("Data File Fields", "Bound serialization").
#include "rewrite/file_metrics.h"

#include <arrow/util/decimal.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include <limits>

#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using iceberg::ByField;
using iceberg::TypeKind;
using testing::Test;

std::shared_ptr<parquet::FileMetaData> FooterOf(const std::string& bytes) {
  return parquet::ParquetFileReader::Open(
             std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)))
      ->metadata();
}

// Text literals hold zero bytes here.
template <size_t N>
std::string Bytes(const char (&literal)[N]) {
  return std::string(literal, N - 1);
}

template <typename T>
std::string Of(const ByField<T>& values, int id, const std::string& otherwise = "absent")
  requires std::is_same_v<T, std::string>
{
  for (const auto& [field, value] : values) {
    if (field == id) return value;
  }
  return otherwise;
}

class FileMetricsTest : public Test {
 protected:
  ColumnMetrics Metrics(const arrow::FieldVector& fields, const std::vector<std::string>& json,
                        int64_t row_group_rows = 1 << 20) {
    const auto table = MakeTable(arrow::schema(fields), json);
    const auto footer = FooterOf(WriteParquet(*table, row_group_rows));
    auto metrics = MetricsOf(*footer, target_);
    EXPECT_TRUE(metrics) << metrics.error().ToString();
    return metrics ? *metrics : ColumnMetrics();
  }
  // One nullable column with id 1.
  ColumnMetrics One(TypeKind kind, const std::shared_ptr<arrow::DataType>& type,
                    const std::string& json) {
    target_.schema.fields = {Column(1, "c", kind)};
    return Metrics({IdField(1, "c", type)}, {json});
  }

  TableTarget target_;
};

TEST_F(FileMetricsTest, CountsAndBoundsOverRowGroups) {
  target_.schema.fields = {Column(3, "a", TypeKind::kInt), Column(1, "b", TypeKind::kString)};
  const auto m = Metrics({IdField(3, "a", arrow::int32()), IdField(1, "b", arrow::utf8())},
                         {"[5, null, -2, 70000, null]", R"(["m", "b", null, "z", "q"])"}, 2);
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{1, 5}, {3, 5}}));
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{1, 1}, {3, 2}}));
  EXPECT_TRUE(m.nan_value_counts.empty());
  EXPECT_EQ(m.lower_bounds, (ByField<std::string>{{1, "b"}, {3, Bytes("\xFE\xFF\xFF\xFF")}}));
  EXPECT_EQ(m.upper_bounds, (ByField<std::string>{{1, "z"}, {3, Bytes("\x70\x11\x01\x00")}}));
}

TEST_F(FileMetricsTest, ColumnSizesAreTheCompressedBytes) {
  target_.schema.fields = {Column(1, "a", TypeKind::kLong)};
  const auto table =
      MakeTable(arrow::schema({IdField(1, "a", arrow::int64())}), {"[1, 2, 3, 4, 5, 6]"});
  const auto footer = FooterOf(WriteParquet(*table, 2));
  int64_t bytes = 0;
  for (int g = 0; g < 3; ++g) {
    bytes += footer->RowGroup(g)->ColumnChunk(0)->total_compressed_size();
  }
  const auto m = MetricsOf(*footer, target_);
  ASSERT_TRUE(m);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(m->column_sizes, (ByField<int64_t>{{1, bytes}}));
}

TEST_F(FileMetricsTest, BinaryFormOfEachType) {
  const auto bounds = [&](TypeKind kind, const std::shared_ptr<arrow::DataType>& type,
                          const std::string& json) {
    const auto m = One(kind, type, json);
    return std::pair(Of(m.lower_bounds, 1), Of(m.upper_bounds, 1));
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(bounds(TypeKind::kBoolean, arrow::boolean(), "[true, false]"),
            Pair(Bytes("\0"), Bytes("\1")));
  EXPECT_EQ(bounds(TypeKind::kLong, arrow::int64(), "[-1, 258]"),
            Pair(Bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), Bytes("\2\1\0\0\0\0\0\0")));
  EXPECT_EQ(bounds(TypeKind::kFloat, arrow::float32(), "[1.0, -2.0]"),
            Pair(Bytes("\0\0\0\xC0"), Bytes("\0\0\x80\x3F")));
  EXPECT_EQ(bounds(TypeKind::kDouble, arrow::float64(), "[1.0, -2.0]"),
            Pair(Bytes("\0\0\0\0\0\0\0\xC0"), Bytes("\0\0\0\0\0\0\xF0\x3F")));
  EXPECT_EQ(bounds(TypeKind::kDate, arrow::date32(), "[-1, 1]"),
            Pair(Bytes("\xFF\xFF\xFF\xFF"), Bytes("\1\0\0\0")));
  EXPECT_EQ(bounds(TypeKind::kTime, arrow::time64(arrow::TimeUnit::MICRO), "[1, 256]"),
            Pair(Bytes("\1\0\0\0\0\0\0\0"), Bytes("\0\1\0\0\0\0\0\0")));
  EXPECT_EQ(
      bounds(TypeKind::kTimestamptz, arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[3, 4]"),
      Pair(Bytes("\3\0\0\0\0\0\0\0"), Bytes("\4\0\0\0\0\0\0\0")));
  EXPECT_EQ(bounds(TypeKind::kTimestampNs, arrow::timestamp(arrow::TimeUnit::NANO), "[3, 4]"),
            Pair(Bytes("\3\0\0\0\0\0\0\0"), Bytes("\4\0\0\0\0\0\0\0")));
  EXPECT_EQ(bounds(TypeKind::kBinary, arrow::binary(), R"(["b", ""])"), Pair("", "b"));
}

TEST_F(FileMetricsTest, DecimalsAreShortestBigEndian) {
  const auto bounds = [&](int precision, const std::string& json) {
    target_.schema.fields = {Column(1, "c", DecimalType(precision, 2))};
    const auto m = Metrics({IdField(1, "c", arrow::decimal128(precision, 2))}, {json});
    return std::pair(Of(m.lower_bounds, 1), Of(m.upper_bounds, 1));
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(bounds(9, R"(["-1.28", "1.27"])"), Pair(Bytes("\x80"), Bytes("\x7F")));
  EXPECT_EQ(bounds(9, R"(["-1.29", "1.28"])"), Pair(Bytes("\xFF\x7F"), Bytes("\0\x80")));
  EXPECT_EQ(bounds(18, R"(["0.00", "655.36"])"), Pair(Bytes("\0"), Bytes("\1\0\0")));
  EXPECT_EQ(bounds(38, R"(["-0.01", "184467440737095516.16"])"),
            Pair(Bytes("\xFF"), Bytes("\1\0\0\0\0\0\0\0\0")));
}

TEST_F(FileMetricsTest, StringsAreCutByCodePointsAndRoundedUp) {
  target_.metrics_mode = "truncate(2)";
  const auto bounds = [&](const std::string& json) {
    const auto m = One(TypeKind::kString, arrow::utf8(), json);
    return std::pair(Of(m.lower_bounds, 1), Of(m.upper_bounds, 1));
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(bounds(R"(["abc", "xy", "xyz"])"), Pair("ab", "xz"));
  EXPECT_EQ(bounds(R"(["ab", "xy"])"), Pair("ab", "xy")) << "not longer: exact";
  EXPECT_EQ(bounds(R"(["äöü", "äöü"])"), Pair("äö", "ä÷"));
  EXPECT_EQ(bounds(R"(["\u4e2d\ud7ff!"])"), Pair("\u4e2d\ud7ff", "\u4e2d\ue000"))
      << "surrogates are no code points";
  EXPECT_EQ(bounds(R"(["a\udbff\udfffz"])"), Pair("a\U0010FFFF", "b"));
  EXPECT_EQ(bounds(R"(["\udbff\udfff\udbff\udfffz"])"), Pair("\U0010FFFF\U0010FFFF", "absent"));
  target_.metrics_mode = "full";
  EXPECT_EQ(bounds(R"(["a long text that goes on", "x"])"), Pair("a long text that goes on", "x"));
  target_.metrics_mode = "no such mode";
  EXPECT_EQ(bounds(R"(["0123456789abcdefgh"])"), Pair("0123456789abcdef", "0123456789abcdeg"));
}

TEST_F(FileMetricsTest, BinaryIsCutByBytes) {
  target_.metrics_mode = "truncate(2)";
  target_.schema.fields = {Column(1, "c", TypeKind::kBinary)};
  arrow::BinaryBuilder builder;
  ASSERT_TRUE(builder.Append(Bytes("a\xFF\1")).ok());
  const auto write = [&] {
    const auto array = builder.Finish().ValueOrDie();
    const auto table = arrow::Table::Make(arrow::schema({IdField(1, "c", arrow::binary())}),
                                          arrow::ArrayVector{array});
    return MetricsOf(*FooterOf(WriteParquet(*table)), target_).value();
  };
  auto m = write();
  EXPECT_EQ(Of(m.lower_bounds, 1), "a\xFF");
  EXPECT_EQ(Of(m.upper_bounds, 1), "b");
  ASSERT_TRUE(builder.Append("\xFF\xFF\xFF").ok());
  m = write();
  EXPECT_EQ(Of(m.lower_bounds, 1), "\xFF\xFF");
  EXPECT_EQ(Of(m.upper_bounds, 1), "absent");
}

TEST_F(FileMetricsTest, ModesByFieldId) {
  target_.schema.fields = {Column(1, "n", TypeKind::kLong), Column(2, "c", TypeKind::kLong),
                           Column(3, "f", TypeKind::kString), Column(4, "t", TypeKind::kString)};
  target_.metrics_mode = "none";
  target_.metrics_modes = {{2, "counts"}, {3, "full"}, {4, "TRUNCATE(1)"}};
  const auto m = Metrics({IdField(1, "n", arrow::int64()), IdField(2, "c", arrow::int64()),
                          IdField(3, "f", arrow::utf8()), IdField(4, "t", arrow::utf8())},
                         {"[1]", "[1]", R"(["abcdefghijklmnopqrst"])", R"(["bc"])"});
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{2, 1}, {3, 1}, {4, 1}}));
  EXPECT_EQ(m.column_sizes.size(), 3U);
  EXPECT_EQ(m.lower_bounds, (ByField<std::string>{{3, "abcdefghijklmnopqrst"}, {4, "b"}}));
  EXPECT_EQ(m.upper_bounds, (ByField<std::string>{{3, "abcdefghijklmnopqrst"}, {4, "c"}}));
}

TEST_F(FileMetricsTest, P17_NaNIsLeftOutAndZeroIsWidened) {
  target_.schema.fields = {Column(1, "f", TypeKind::kFloat), Column(2, "d", TypeKind::kDouble),
                           Column(3, "n", TypeKind::kDouble)};
  const auto m = Metrics({IdField(1, "f", arrow::float32()), IdField(2, "d", arrow::float64()),
                          IdField(3, "n", arrow::float64())},
                         {"[NaN, 0.0, 2.0]", "[-1.0, -0.0, NaN]", "[NaN, NaN, null]"});
  EXPECT_EQ(Of(m.lower_bounds, 1), Bytes("\0\0\0\x80")) << "-0.0";
  EXPECT_EQ(Of(m.upper_bounds, 1), Bytes("\0\0\0\x40"));
  EXPECT_EQ(Of(m.lower_bounds, 2), Bytes("\0\0\0\0\0\0\xF0\xBF"));
  EXPECT_EQ(Of(m.upper_bounds, 2), Bytes("\0\0\0\0\0\0\0\0")) << "+0.0";
  EXPECT_EQ(Of(m.lower_bounds, 3), "absent");
  EXPECT_EQ(Of(m.upper_bounds, 3), "absent");
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{1, 0}, {2, 0}, {3, 1}}));
}

TEST_F(FileMetricsTest, NestedColumns) {
  target_.schema.fields = {Column(1, "s", StructType({Column(2, "x", TypeKind::kInt)})),
                           Column(3, "l", ListType(Column(4, "element", TypeKind::kInt)))};
  const auto m = Metrics({IdField(1, "s", arrow::struct_({IdField(2, "x", arrow::int32())})),
                          IdField(3, "l", arrow::list(IdField(4, "element", arrow::int32())))},
                         {"[[1], null, [null], [9]]", "[[1, 2], null, [], [null]]"});
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{2, 4}}));
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{2, 2}})) << "a null struct's field is null";
  EXPECT_EQ(m.lower_bounds, (ByField<std::string>{{2, Bytes("\1\0\0\0")}}));
  EXPECT_EQ(m.upper_bounds, (ByField<std::string>{{2, Bytes("\x9\0\0\0")}}));
  ASSERT_EQ(m.column_sizes.size(), 2U);
  EXPECT_EQ(m.column_sizes[1].first, 4);
}

TEST_F(FileMetricsTest, I22_LineageColumnsHaveMetrics) {
  target_.schema.fields = {Column(1, "a", TypeKind::kLong)};
  target_.row_lineage = true;
  const auto m = Metrics(
      {IdField(1, "a", arrow::int64()), IdField(iceberg::kRowIdFieldId, "_row_id", arrow::int64()),
       IdField(iceberg::kLastUpdatedFieldId, "_last_updated_sequence_number", arrow::int64())},
      {"[1, 1]", "[7, 8]", "[2, 3]"});
  EXPECT_EQ(Of(m.lower_bounds, iceberg::kRowIdFieldId), Bytes("\7\0\0\0\0\0\0\0"));
  EXPECT_EQ(Of(m.upper_bounds, iceberg::kLastUpdatedFieldId), Bytes("\3\0\0\0\0\0\0\0"));
  EXPECT_EQ(m.value_counts.size(), 3U);
}

TEST_F(FileMetricsTest, PromotedTypesGiveBoundsOfTheTypeNow) {
  auto m = One(TypeKind::kLong, arrow::int32(), "[-1]");
  EXPECT_EQ(Of(m.lower_bounds, 1), Bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
  m = One(TypeKind::kDouble, arrow::float32(), "[1.0]");
  EXPECT_EQ(Of(m.lower_bounds, 1), Bytes("\0\0\0\0\0\0\xF0\x3F"));
}

TEST_F(FileMetricsTest, WhatIsNotUnderstoodIsLeftOut) {
  // A column of another type, one that the table lacks, and one without an id.
  target_.schema.fields = {Column(1, "a", TypeKind::kString)};
  auto m = Metrics({IdField(1, "a", arrow::int64()), IdField(2, "b", arrow::int64()),
                    arrow::field("c", arrow::int64())},
                   {"[1]", "[1]", "[1]"});
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{1, 1}}));
  EXPECT_TRUE(m.lower_bounds.empty());
  // P12: INT96.
  target_.schema.fields = {Column(1, "t", TypeKind::kTimestamp)};
  const auto table = MakeTable(
      arrow::schema({IdField(1, "t", arrow::timestamp(arrow::TimeUnit::NANO))}), {"[1, 2]"});
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  ASSERT_TRUE(
      parquet::arrow::WriteTable(
          *table, arrow::default_memory_pool(), sink, 10, parquet::default_writer_properties(),
          parquet::ArrowWriterProperties::Builder().enable_deprecated_int96_timestamps()->build())
          .ok());
  m = MetricsOf(*FooterOf(sink->Finish().ValueOrDie()->ToString()), target_).value();
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{1, 2}}));
  EXPECT_TRUE(m.lower_bounds.empty());
  EXPECT_TRUE(m.upper_bounds.empty());
}

TEST_F(FileMetricsTest, P17_WithoutStatisticsOnlyTheCountsOfRowsAreKnown) {
  target_.schema.fields = {Column(1, "a", TypeKind::kLong), Column(2, "r", TypeKind::kLong, true)};
  const auto table = MakeTable(
      arrow::schema({IdField(1, "a", arrow::int64()), IdField(2, "r", arrow::int64(), false)}),
      {"[1, null]", "[1, 2]"});
  const auto properties = parquet::WriterProperties::Builder().disable_statistics()->build();
  const auto m = MetricsOf(*FooterOf(WriteParquet(*table, 10, properties)), target_).value();
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{1, 2}, {2, 2}}));
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{2, 0}})) << "a required column has no null";
  EXPECT_TRUE(m.lower_bounds.empty());
}

TEST_F(FileMetricsTest, P17_ARowGroupWithoutBoundsMakesThemUnknown) {
  // Statistics of values over 4096 bytes are not written; nulls alone do not hide the others.
  target_.schema.fields = {Column(1, "c", TypeKind::kString)};
  const std::string large = "\"" + std::string(5000, 'x') + "\"";
  auto m = Metrics({IdField(1, "c", arrow::utf8())}, {"[\"a\", " + large + "]"}, 1);
  EXPECT_TRUE(m.upper_bounds.empty());
  EXPECT_TRUE(m.lower_bounds.empty());
  m = Metrics({IdField(1, "c", arrow::utf8())}, {"[\"a\", null]"}, 1);
  EXPECT_EQ(m.lower_bounds, (ByField<std::string>{{1, "a"}}));
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{1, 1}}));
}

TEST_F(FileMetricsTest, UuidsOfBothHalvesHaveNoBounds) {
  target_.schema.fields = {Column(1, "u", TypeKind::kUuid)};
  const auto bounds = [&](const std::vector<std::string>& values) {
    arrow::FixedSizeBinaryBuilder builder(arrow::fixed_size_binary(16));
    for (const auto& value : values) EXPECT_TRUE(builder.Append(value).ok());
    const auto table =
        arrow::Table::Make(arrow::schema({IdField(1, "u", arrow::fixed_size_binary(16))}),
                           arrow::ArrayVector{builder.Finish().ValueOrDie()});
    const auto m = MetricsOf(*FooterOf(WriteParquet(*table)), target_).value();
    return std::pair(Of(m.lower_bounds, 1), Of(m.upper_bounds, 1));
  };
  const std::string low(16, '\x10');
  const std::string middle(16, '\x7F');
  const std::string high(16, '\x80');
  EXPECT_EQ(bounds({middle, low}), std::pair(low, middle));
  EXPECT_EQ(bounds({low, high}), std::pair(std::string("absent"), std::string("absent")));
}

TEST_F(FileMetricsTest, TwoColumnsWithOneIdAreRefused) {
  target_.schema.fields = {Column(1, "a", TypeKind::kLong)};
  const auto table =
      MakeTable(arrow::schema({IdField(1, "a", arrow::int64()), IdField(1, "b", arrow::int64())}),
                {"[1]", "[2]"});
  const auto m = MetricsOf(*FooterOf(WriteParquet(*table)), target_);
  ASSERT_FALSE(m);
  EXPECT_EQ(m.error().code, Code::kCorrupt);
  EXPECT_NE(m.error().ToString().find("field id 1"), std::string::npos);
}

TEST_F(FileMetricsTest, AFileWithoutRowsHasCountsOfZero) {
  const auto m = One(TypeKind::kLong, arrow::int64(), "[]");
  EXPECT_TRUE(m.lower_bounds.empty());
  EXPECT_EQ(m.value_counts, (ByField<int64_t>{{1, 0}}));
  EXPECT_EQ(m.null_value_counts, (ByField<int64_t>{{1, 0}}));
}

}  // namespace
}  // namespace lithify::rewrite
