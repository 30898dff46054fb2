// Shapes, annotations and codecs that Arrow's high-level writer never makes: legacy lists and maps
// (P23), LZ4 in Hadoop's framing (P10), INT96 (P12), UUID and Float16 (P25). Written level by level
// with the low-level writer, merged, and read back by Arrow.
#include <arrow/util/compression.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>

#include "rewrite/file_footer.h"
#include "rewrite/footer.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {
namespace {

using arrow::field;
using arrow::schema;
using parquet::ConvertedType;
using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::NodeVector;
using parquet::schema::PrimitiveNode;
using Levels = std::vector<int16_t>;
using Column = std::function<void(parquet::ColumnWriter&)>;
using Cells = std::vector<std::optional<std::string>>;  // Raw bytes per entry.

// A column's entries as they go to disk; no levels for a required one.
template <typename T>
Column Entries(Levels definition, Levels repetition, std::vector<typename T::c_type> values) {
  return [=](parquet::ColumnWriter& writer) {
    const size_t count = definition.empty() ? values.size() : definition.size();
    static_cast<parquet::TypedColumnWriter<T>&>(writer).WriteBatch(
        static_cast<int64_t>(count), definition.empty() ? nullptr : definition.data(),
        repetition.empty() ? nullptr : repetition.data(), values.data());
  };
}

Column Ints(Levels definition, Levels repetition, std::vector<int32_t> values) {
  return Entries<parquet::Int32Type>(std::move(definition), std::move(repetition),
                                     std::move(values));
}

Column Texts(Levels definition, Levels repetition, const std::vector<std::string_view>& texts) {
  std::vector<parquet::ByteArray> values(texts.begin(), texts.end());
  return Entries<parquet::ByteArrayType>(std::move(definition), std::move(repetition), values);
}

std::shared_ptr<GroupNode> Root(const NodeVector& fields) {
  return std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", Repetition::REQUIRED, fields));
}

// One row group; one Column per leaf.
std::string WriteLevels(
    const NodeVector& fields, const std::vector<Column>& columns,
    std::shared_ptr<parquet::WriterProperties> properties = parquet::default_writer_properties()) {
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  auto writer = parquet::ParquetFileWriter::Open(sink, Root(fields), properties);
  auto* group = writer->AppendRowGroup();
  for (const Column& column : columns) {
    auto* chunk = group->NextColumn();
    column(*chunk);
    chunk->Close();
  }
  group->Close();
  writer->Close();
  return sink->Finish().ValueOrDie()->ToString();
}

std::unique_ptr<parquet::ParquetFileReader> OpenBytes(const std::string& bytes) {
  return parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
}

// All entries of a flat leaf, bit by bit.
template <typename T>
Cells ReadCells(const std::string& bytes, int leaf) {
  const auto reader = OpenBytes(bytes);
  const auto* descr = reader->metadata()->schema()->Column(leaf);
  Cells cells;
  for (int g = 0; g < reader->metadata()->num_row_groups(); ++g) {
    const auto column = reader->RowGroup(g)->Column(leaf);
    auto& typed = static_cast<parquet::TypedColumnReader<T>&>(*column);
    while (typed.HasNext()) {
      int16_t definition = 0;
      typename T::c_type value{};
      int64_t values_read = 0;
      typed.ReadBatch(1, &definition, nullptr, &value, &values_read);
      if (values_read == 0) {
        cells.emplace_back();
      } else if constexpr (std::is_same_v<T, parquet::FLBAType>) {
        cells.emplace_back(std::string(reinterpret_cast<const char*>(value.ptr),
                                       static_cast<size_t>(descr->type_length())));
      } else {
        cells.emplace_back(std::string(reinterpret_cast<const char*>(&value), sizeof value));
      }
    }
  }
  return cells;
}

NodePtr Leaf(const char* name, Repetition::type repetition) {
  return PrimitiveNode::Make(name, repetition, LogicalType::None(), Type::INT32);
}
NodePtr Text(const char* name, Repetition::type repetition) {
  return PrimitiveNode::Make(name, repetition, LogicalType::String(), Type::BYTE_ARRAY);
}
NodePtr Repeated(const char* name, const NodeVector& fields) {
  return GroupNode::Make(name, Repetition::REPEATED, fields);
}
NodePtr ListOf(const NodePtr& repeated) {
  return GroupNode::Make("c", Repetition::OPTIONAL, {repeated}, LogicalType::List());
}

class SchemaShapesTest : public RunnerTest {
 protected:
  struct Shape {
    const char* what;
    NodePtr node;
    std::vector<Column> columns;
    std::string json;  // The same values.
  };

  // Merges the legacy file with a standard one of `type`, in both orders: the values of both, in
  // the standard form.
  void ExpectMerged(const Shape& shape, const std::shared_ptr<arrow::DataType>& type,
                    const std::string& standard_json, const std::vector<std::string>& paths) {
    SCOPED_TRACE(shape.what);
    const std::string legacy = WriteLevels({shape.node}, shape.columns);
    const auto s = schema({field("c", type)});
    const std::string standard = WriteParquet(*MakeTable(s, {standard_json}));
    for (const bool legacy_first : {true, false}) {
      request_.inputs.clear();
      PutNumbered(legacy_first ? legacy : standard);
      PutNumbered(legacy_first ? standard : legacy);
      const auto report = Run();
      ASSERT_TRUE(report) << report.error().ToString();
      const auto old_rows = MakeTable(s, {shape.json});
      const auto new_rows = MakeTable(s, {standard_json});
      const auto expected = arrow::ConcatenateTables(legacy_first ? std::vector{old_rows, new_rows}
                                                                  : std::vector{new_rows, old_rows})
                                .ValueOrDie()
                                ->CombineChunks()
                                .ValueOrDie();
      const auto actual = Output(*report);
      EXPECT_TRUE(actual->schema()->Equals(*s, false)) << actual->schema()->ToString();
      EXPECT_TRUE(actual->Equals(*expected, false)) << actual->ToString();
      const auto reader = OpenBytes(Bytes(report->outputs.at(0).name));
      const auto* out = reader->metadata()->schema();
      ASSERT_EQ(static_cast<size_t>(out->num_columns()), paths.size());
      for (size_t i = 0; i < paths.size(); ++i) {
        EXPECT_EQ(out->Column(static_cast<int>(i))->path()->ToDotString(), paths[i]);
      }
    }
  }

  void PutNumbered(const std::string& bytes) {
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
  }
};

TEST_F(SchemaShapesTest, P23_LegacyListsOfValues) {
  // Null list, empty list; null elements where the form has them.
  const std::string no_nulls = "[[10, 11], null, [], [12]]";
  const std::string nulls = "[[10, null], null, [], [12]]";
  const Column two_level = Ints({2, 2, 0, 1, 2}, {0, 1, 0, 0, 0}, {10, 11, 12});
  const Column three_level = Ints({3, 2, 0, 1, 3}, {0, 1, 0, 0, 0}, {10, 12});
  const std::vector<Shape> shapes = {
      {"repeated int32 array", ListOf(Leaf("array", Repetition::REPEATED)), {two_level}, no_nulls},
      {"repeated int32 element",
       ListOf(Leaf("element", Repetition::REPEATED)),
       {two_level},
       no_nulls},
      {"list.item",
       ListOf(Repeated("list", {Leaf("item", Repetition::OPTIONAL)})),
       {three_level},
       nulls},
      {"bag.array_element",
       ListOf(Repeated("bag", {Leaf("array_element", Repetition::OPTIONAL)})),
       {three_level},
       nulls},
      {"element.element",
       ListOf(Repeated("element", {Leaf("element", Repetition::OPTIONAL)})),
       {three_level},
       nulls},
      {"required list.item",
       ListOf(Repeated("list", {Leaf("item", Repetition::REQUIRED)})),
       {two_level},
       no_nulls},
      {"bare repeated field",
       Leaf("c", Repetition::REPEATED),
       {Ints({1, 1, 0, 1}, {0, 1, 0, 0}, {10, 11, 12})},
       "[[10, 11], [], [12]]"},
  };
  for (const Shape& shape : shapes) {
    ExpectMerged(shape, arrow::list(field("element", arrow::int32())),
                 "[[1, null], null, [], [null], [2, 3]]", {"c.list.element"});
  }
}

TEST_F(SchemaShapesTest, P23_LegacyListsOfStructs) {
  const std::vector<Column> columns = {Ints({2, 2, 0, 1, 2}, {0, 1, 0, 0, 0}, {10, 11, 12})};
  const std::string json = "[[[10], [11]], null, [], [[12]]]";
  const NodePtr x = Leaf("x", Repetition::REQUIRED);
  const std::vector<Shape> shapes = {
      {"group array", ListOf(Repeated("array", {x})), columns, json},
      {"group c_tuple", ListOf(Repeated("c_tuple", {x})), columns, json},
      {"bare repeated group",
       Repeated("c", {x}),
       {Ints({1, 1, 0, 1}, {0, 1, 0, 0}, {10, 11, 12})},
       "[[[10], [11]], [], [[12]]]"},
  };
  for (const Shape& shape : shapes) {
    ExpectMerged(shape, arrow::list(field("element", arrow::struct_({field("x", arrow::int32())}))),
                 "[[[1], null], null, [], [[null]]]", {"c.list.element.x"});
  }
  // Two fields: whatever its name, the repeated group is the element.
  const Shape two = {"group of two fields",
                     ListOf(Repeated("list", {x, Text("y", Repetition::OPTIONAL)})),
                     {Ints({2, 2, 0, 1, 2}, {0, 1, 0, 0, 0}, {10, 11, 12}),
                      Texts({3, 2, 0, 1, 3}, {0, 1, 0, 0, 0}, {"a", "b"})},
                     R"([[[10, "a"], [11, null]], null, [], [[12, "b"]]])"};
  ExpectMerged(
      two,
      arrow::list(field("element",
                        arrow::struct_({field("x", arrow::int32()), field("y", arrow::utf8())}))),
      R"([[[1, "z"], null], null, [], [[null, null]]])", {"c.list.element.x", "c.list.element.y"});
}

TEST_F(SchemaShapesTest, P23_LegacyListsOfLists) {
  const NodePtr inner = GroupNode::Make("array", Repetition::REPEATED,
                                        {Leaf("array", Repetition::REPEATED)}, LogicalType::List());
  // [[1, 2], []], null, [], [[3]]
  const Shape shape = {"list of lists",
                       ListOf(inner),
                       {Ints({3, 3, 2, 0, 1, 3}, {0, 2, 1, 0, 0, 0}, {1, 2, 3})},
                       "[[[1, 2], []], null, [], [[3]]]"};
  ExpectMerged(shape, arrow::list(field("element", arrow::list(field("element", arrow::int32())))),
               "[[[7, null], null], null, [], [[]]]", {"c.list.element.list.element"});
}

TEST_F(SchemaShapesTest, P23_LegacyMaps) {
  const auto map = [](ConvertedType::type outer, const char* entry, ConvertedType::type inner,
                      const char* key, const char* value) {
    return GroupNode::Make(
        "c", Repetition::OPTIONAL,
        {GroupNode::Make(entry, Repetition::REPEATED,
                         {Text(key, Repetition::REQUIRED), Leaf(value, Repetition::OPTIONAL)},
                         inner)},
        outer);
  };
  using enum ConvertedType::type;
  const std::vector<Column> columns = {Texts({2, 2, 0, 1, 2}, {0, 1, 0, 0, 0}, {"a", "b", "c"}),
                                       Ints({3, 2, 0, 1, 3}, {0, 1, 0, 0, 0}, {10, 12})};
  const std::string json = R"([[["a", 10], ["b", null]], null, [], [["c", 12]]])";
  const std::vector<Shape> shapes = {
      {"MAP, map (MAP_KEY_VALUE)", map(MAP, "map", MAP_KEY_VALUE, "key", "value"), columns, json},
      {"MAP_KEY_VALUE, map", map(MAP_KEY_VALUE, "map", NONE, "key", "value"), columns, json},
      {"MAP, entries.k/v", map(MAP, "entries", NONE, "k", "v"), columns, json},
      {"MAP, key_value", map(MAP, "key_value", NONE, "key", "value"), columns, json},
  };
  for (const Shape& shape : shapes) {
    ExpectMerged(shape, arrow::map(arrow::utf8(), arrow::int32()),
                 R"([[["x", null]], null, [], [["y", 1], ["y", 2]]])",
                 {"c.key_value.key", "c.key_value.value"});
  }
}

// What no input can hold, the output does not promise: elements stay required.
TEST_F(SchemaShapesTest, P23_TwoLevelListsAloneKeepRequiredElements) {
  for (int i = 0; i < 2; ++i) {
    PutNumbered(WriteLevels({ListOf(Leaf("array", Repetition::REPEATED))},
                            {Ints({2, 2, 0, 1}, {0, 1, 0, 0}, {10 + i, 11})}));
  }
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  const auto s = schema({field("c", arrow::list(field("element", arrow::int32(), false)))});
  const auto actual = Output(*report);
  EXPECT_TRUE(actual->schema()->Equals(*s, false)) << actual->schema()->ToString();
  EXPECT_TRUE(actual->Equals(*MakeTable(s, {"[[10, 11], null, [], [11, 11], null, []]"}), false));
}

// ------------------------------------------------------------------------------------ codecs

std::string PlainInts(int64_t begin, int64_t end) {
  std::string body;
  for (int64_t i = begin; i < end; ++i) {
    body.append(reinterpret_cast<const char*>(&i), sizeof i);
  }
  return body;
}

std::string BigEndian(size_t value) {
  const auto v = static_cast<uint32_t>(value);
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}

// A block of Hadoop's Lz4Codec: both sizes, then raw LZ4.
std::string HadoopBlock(const std::string& body) {
  const auto codec = arrow::util::Codec::Create(arrow::Compression::LZ4).ValueOrDie();
  const auto* data = reinterpret_cast<const uint8_t*>(body.data());
  const auto size = static_cast<int64_t>(body.size());
  std::string out(static_cast<size_t>(codec->MaxCompressedLen(size, data)), '\0');
  const auto written = codec->Compress(size, data, static_cast<int64_t>(out.size()),
                                       reinterpret_cast<uint8_t*>(out.data()));
  out.resize(static_cast<size_t>(written.ValueOrDie()));
  return BigEndian(body.size()) + BigEndian(out.size()) + out;
}

// A file of one required INT64 column in one plain page; `page` is what the codec made of `rows`
// values.
std::string FileOfOnePage(const std::string& page, int32_t rows,
                          arrow::Compression::type compression) {
  const auto root =
      Root({PrimitiveNode::Make("c", Repetition::REQUIRED, LogicalType::None(), Type::INT64)});
  parquet::SchemaDescriptor descr;
  descr.Init(root);
  const auto properties = parquet::WriterProperties::Builder().compression(compression)->build();
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  EXPECT_TRUE(sink->Write("PAR1").ok());
  const auto file = parquet::FileMetaDataBuilder::Make(&descr, properties);
  auto* group = file->AppendRowGroup();
  auto* chunk = group->NextColumnChunk();
  const auto pages = parquet::PageWriter::Open(sink, arrow::Compression::UNCOMPRESSED, chunk);
  const int64_t size = pages->WriteDataPage(
      parquet::DataPageV1(arrow::Buffer::FromString(page), rows, parquet::Encoding::PLAIN,
                          parquet::Encoding::RLE, parquet::Encoding::RLE, int64_t{8} * rows));
  pages->Close(false, false);
  group->set_num_rows(rows);
  group->Finish(size, 0);
  parquet::WriteFileMetaData(*file->Finish(), sink.get());
  return sink->Finish().ValueOrDie()->ToString();
}

class Lz4Test : public SchemaShapesTest {
 protected:
  // Merges what was put: 0 … rows-1 in order, as ZSTD.
  void ExpectCounted(int64_t rows) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    const auto actual = Output(*report);
    ASSERT_EQ(actual->num_rows(), rows);
    const auto& values = static_cast<const arrow::Int64Array&>(*actual->column(0)->chunk(0));
    EXPECT_EQ(values.null_count(), 0);
    for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(values.Value(i), i);
    const auto out = OpenBytes(Bytes(report->outputs.at(0).name));
    EXPECT_EQ(out->metadata()->RowGroup(0)->ColumnChunk(0)->compression(),
              arrow::Compression::ZSTD);
  }
};

TEST_F(Lz4Test, P10_BothFramingsOfArrowsWriter) {
  int64_t next = 0;
  for (const auto compression : {arrow::Compression::LZ4_HADOOP, arrow::Compression::LZ4}) {
    std::vector<int64_t> values(1000);
    for (int64_t& value : values) value = next++;
    const std::string bytes = WriteLevels(
        {PrimitiveNode::Make("c", Repetition::REQUIRED, LogicalType::None(), Type::INT64)},
        {Entries<parquet::Int64Type>({}, {}, values)},
        parquet::WriterProperties::Builder().compression(compression)->build());
    ASSERT_EQ(OpenBytes(bytes)->metadata()->RowGroup(0)->ColumnChunk(0)->compression(),
              compression);
    PutNumbered(bytes);
  }
  ExpectCounted(2000);
}

TEST_F(Lz4Test, P10_SeveralHadoopBlocksInAPage) {
  PutNumbered(FileOfOnePage(HadoopBlock(PlainInts(0, 600)) + HadoopBlock(PlainInts(600, 601)) +
                                HadoopBlock(PlainInts(601, 1000)),
                            1000, arrow::Compression::LZ4_HADOOP));
  PutNumbered(
      FileOfOnePage(HadoopBlock(PlainInts(1000, 1500)), 500, arrow::Compression::LZ4_HADOOP));
  ExpectCounted(1500);
}

// Old writers put raw LZ4 under the codec that means Hadoop's framing.
TEST_F(Lz4Test, P10_RawBlocksUnderTheDeprecatedCodec) {
  PutNumbered(FileOfOnePage(HadoopBlock(PlainInts(0, 1000)).substr(8), 1000,
                            arrow::Compression::LZ4_HADOOP));
  ExpectCounted(1000);
}

TEST_F(Lz4Test, P10_AMissingBlockIsDamage) {
  PutNumbered(FileOfOnePage(HadoopBlock(PlainInts(0, 600)), 1000, arrow::Compression::LZ4_HADOOP));
  const auto keys = store_.Keys();
  const auto report = Run();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
  EXPECT_NE(report.error().ToString().find("in0.parquet"), std::string::npos)
      << report.error().ToString();
  EXPECT_EQ(store_.Keys(), keys);
}

// ------------------------------------------------------------------------------- annotations

TEST_F(SchemaShapesTest, P12_Int96ComesOutBitByBit) {
  const auto at = [](uint32_t julian_day, uint64_t nanos) {
    return parquet::Int96{
        {static_cast<uint32_t>(nanos), static_cast<uint32_t>(nanos >> 32), julian_day}};
  };
  constexpr uint64_t kLastNano = 86'399'999'999'999;
  const std::vector<parquet::Int96> values = {
      at(1'721'426, 0),          // 0001-01-01
      at(5'373'484, kLastNano),  // 9999-12-31T23:59:59.999999999
      at(2'440'587, kLastNano),  // The last nanosecond before 1970.
      at(2'440'588, 0),
      at(0, 1),                     // Before the common era.
      at(0xFFFFFFFF, ~uint64_t{0})  // No point in time at all.
  };
  const NodePtr node =
      PrimitiveNode::Make("t", Repetition::OPTIONAL, LogicalType::None(), Type::INT96);
  const Levels definition = {1, 0, 1, 1, 1, 1, 1};
  const Column column = Entries<parquet::Int96Type>(definition, {}, values);
  parquet::WriterProperties::Builder plain;
  PutNumbered(WriteLevels({node}, {column}));
  PutNumbered(WriteLevels({node}, {column}, plain.disable_dictionary()->build()));
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  const std::string out = Bytes(report->outputs.at(0).name);
  Cells expected;
  for (int file = 0; file < 2; ++file) {
    size_t next = 0;
    for (const int16_t level : definition) {
      if (level == 0) {
        expected.emplace_back();
      } else {
        expected.emplace_back(std::string(reinterpret_cast<const char*>(&values[next++]), 12));
      }
    }
  }
  EXPECT_EQ(ReadCells<parquet::Int96Type>(out, 0), expected);
  // Their order is not defined, so a bound would be a lie.
  const auto reader = OpenBytes(out);
  const auto stats = reader->metadata()->RowGroup(0)->ColumnChunk(0)->statistics();
  if (stats != nullptr) {
    EXPECT_FALSE(stats->HasMinMax());
    EXPECT_TRUE(!stats->HasNullCount() || stats->null_count() == 2) << stats->null_count();
  }
}

TEST_F(SchemaShapesTest, P25_UuidAndFloat16KeepTheirAnnotation) {
  const NodeVector fields = {PrimitiveNode::Make("u", Repetition::OPTIONAL, LogicalType::UUID(),
                                                 Type::FIXED_LEN_BYTE_ARRAY, 16),
                             PrimitiveNode::Make("h", Repetition::REQUIRED, LogicalType::Float16(),
                                                 Type::FIXED_LEN_BYTE_ARRAY, 2),
                             PrimitiveNode::Make("f", Repetition::REQUIRED, LogicalType::None(),
                                                 Type::FIXED_LEN_BYTE_ARRAY, 16)};
  const std::string ids = "0123456789abcdef\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8qrstuvwx";
  // 1.0, NaN, -0.0.
  const std::string halves("\x00\x3c\x01\x7e\x00\x80", 6);
  const auto at = [](const std::string& bytes, size_t offset) {
    return parquet::FixedLenByteArray(reinterpret_cast<const uint8_t*>(bytes.data()) + offset);
  };
  using Fixed = parquet::FLBAType;
  const std::vector<Column> columns = {
      Entries<Fixed>({1, 0, 1}, {}, {at(ids, 0), at(ids, 16)}),
      Entries<Fixed>({}, {}, {at(halves, 0), at(halves, 2), at(halves, 4)}),
      Entries<Fixed>({}, {}, {at(ids, 16), at(ids, 0), at(ids, 8)})};
  PutNumbered(WriteLevels(fields, columns));
  PutNumbered(WriteLevels(fields, columns));
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  const std::string out = Bytes(report->outputs.at(0).name);
  const auto reader = OpenBytes(out);
  const auto* descr = reader->metadata()->schema();
  EXPECT_TRUE(descr->Column(0)->logical_type()->is_UUID());
  EXPECT_TRUE(descr->Column(1)->logical_type()->is_float16());
  EXPECT_TRUE(descr->Column(2)->logical_type()->is_none());
  for (const auto& [leaf, length] : {std::pair{0, 16}, std::pair{1, 2}, std::pair{2, 16}}) {
    EXPECT_EQ(descr->Column(leaf)->physical_type(), Type::FIXED_LEN_BYTE_ARRAY);
    EXPECT_EQ(descr->Column(leaf)->type_length(), length);
  }
  const auto twice = [](Cells cells) {
    const Cells once = cells;
    cells.insert(cells.end(), once.begin(), once.end());
    return cells;
  };
  EXPECT_EQ(ReadCells<Fixed>(out, 0), twice({ids.substr(0, 16), std::nullopt, ids.substr(16, 16)}));
  EXPECT_EQ(ReadCells<Fixed>(out, 1),
            twice({halves.substr(0, 2), halves.substr(2, 2), halves.substr(4, 2)}));
  EXPECT_EQ(ReadCells<Fixed>(out, 2),
            twice({ids.substr(16, 16), ids.substr(0, 16), ids.substr(8, 16)}));
}

// A UUID and sixteen plain bytes are different types: nothing is guessed.
// Readers that know the older annotations only would take them for plain numbers.
TEST_F(SchemaShapesTest, LocalTimesKeepTheOlderAnnotation) {
  using Unit = LogicalType::TimeUnit;
  const auto time = [](const char* name, Unit::unit unit, bool both) {
    return PrimitiveNode::Make(name, Repetition::REQUIRED,
                               LogicalType::Timestamp(false, unit, false, both), Type::INT64);
  };
  const NodeVector parts = {time("both", Unit::MILLIS, true)};
  const NodeVector fields = {GroupNode::Make("group", Repetition::REQUIRED, parts),
                             time("both", Unit::MICROS, true), time("alone", Unit::MICROS, false),
                             time("nanos", Unit::NANOS, false)};
  const std::vector<Column> columns(4, Entries<parquet::Int64Type>({}, {}, {1, 2}));
  for (int i = 0; i < 2; ++i) PutNumbered(WriteLevels(fields, columns));
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(report->notes.empty());
  const std::string out = Bytes(report->outputs.at(0).name);
  const auto reader = OpenBytes(out);
  const auto* schema = reader->metadata()->schema();
  for (int i = 0; i < 4; ++i) {
    const auto& type = *schema->Column(i)->logical_type();
    ASSERT_TRUE(type.is_timestamp());
    EXPECT_FALSE(static_cast<const parquet::TimestampLogicalType&>(type).is_adjusted_to_utc());
  }
  // Arrow does not show the older annotation where there is the newer one; our reader does.
  FileKinds kinds;
  arrow::io::BufferReader bytes(arrow::Buffer::FromString(out));
  const auto tree = ReadFooter(bytes, std::ssize(out), kinds).value()->kind().Tree().value();
  const auto both = [](const SchemaNode& leaf) {
    return static_cast<const parquet::TimestampLogicalType&>(*leaf.logical)
        .force_set_converted_type();
  };
  EXPECT_TRUE(both(*tree->children[0]->children[0]));
  EXPECT_TRUE(both(*tree->children[1]));
  EXPECT_FALSE(both(*tree->children[2]));
  EXPECT_FALSE(both(*tree->children[3]));
}

TEST_F(SchemaShapesTest, WhatGoesWithoutSayingWidensNothing) {
  for (const auto& type : {LogicalType::Int(64, true), LogicalType::None()}) {
    const NodeVector fields = {PrimitiveNode::Make("n", Repetition::REQUIRED, type, Type::INT64)};
    PutNumbered(WriteLevels(fields, {Entries<parquet::Int64Type>({}, {}, {1, 2})}));
  }
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(report->notes.empty()) << report->notes.front();
}

TEST_F(SchemaShapesTest, P25_AUuidAndPlainBytesAreNotMerged) {
  const std::string id = "0123456789abcdef";
  const parquet::FixedLenByteArray value(reinterpret_cast<const uint8_t*>(id.data()));
  for (const auto& logical : {LogicalType::UUID(), LogicalType::None()}) {
    PutNumbered(WriteLevels(
        {PrimitiveNode::Make("u", Repetition::REQUIRED, logical, Type::FIXED_LEN_BYTE_ARRAY, 16)},
        {Entries<parquet::FLBAType>({}, {}, {value})}));
  }
  const auto report = Run();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported) << report.error().ToString();
}

}  // namespace
}  // namespace lithify::rewrite
