#include "table/avro.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lithify::table {
namespace {

Result<AvroSchema> Schema(std::string_view json) { return AvroSchema::Parse(json); }

std::string Encoded(int64_t value) {
  AvroEncoder out;
  out.Long(value);
  return out.out();
}

TEST(AvroDecoder, LongsOfTheSpecification) {
  // Avro specification, "Primitive Types": zig-zag and variable length.
  EXPECT_EQ(Encoded(0), std::string("\0", 1));
  EXPECT_EQ(Encoded(-1), "\x01");
  EXPECT_EQ(Encoded(1), "\x02");
  EXPECT_EQ(Encoded(-64), "\x7F");
  EXPECT_EQ(Encoded(64), "\x80\x01");
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{63}, int64_t{-8193}, INT64_MAX,
                              INT64_MIN, int64_t{INT32_MAX}, int64_t{INT32_MIN}}) {
    const std::string bytes = Encoded(value);
    AvroDecoder in(bytes);
    EXPECT_EQ(in.Long(), value);
    EXPECT_TRUE(in.ok());
    EXPECT_EQ(in.remaining(), 0U);
  }
}

TEST(AvroDecoder, ValuesComeBack) {
  AvroEncoder out;
  out.Boolean(true);
  out.Float(-0.0F);
  out.Double(1.5);
  out.Bytes("text");
  out.Fixed("abcd");
  out.Int(INT32_MIN);
  AvroDecoder in(out.out());
  EXPECT_TRUE(in.Boolean());
  EXPECT_TRUE(std::signbit(in.Float()));
  EXPECT_EQ(in.Double(), 1.5);
  EXPECT_EQ(in.Bytes(), "text");
  EXPECT_EQ(in.Fixed(4), "abcd");
  EXPECT_EQ(in.Int(), INT32_MIN);
  EXPECT_TRUE(in.ok());
}

TEST(AvroDecoder, FirstProblemSticks) {
  AvroDecoder in(
      std::string_view("\x08"
                       "ab",
                       3));  // Four bytes promised.
  EXPECT_EQ(in.Bytes(), "");
  EXPECT_STREQ(in.problem(), "it ends in the middle of a value");
  EXPECT_EQ(in.Long(), 0);
  EXPECT_EQ(in.remaining(), 0U);
}

TEST(AvroDecoder, RefusesWhatCannotBe) {
  AvroDecoder too_long(std::string_view("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10));
  too_long.Long();
  EXPECT_STREQ(too_long.problem(), "an integer beyond 64 bits");
  const std::string wide = Encoded(int64_t{INT32_MAX} + 1);
  AvroDecoder wide_int(wide);
  wide_int.Int();
  EXPECT_STREQ(wide_int.problem(), "an int beyond 32 bits");
  AvroDecoder negative(std::string_view("\x01", 1));
  negative.Bytes();
  EXPECT_STREQ(negative.problem(), "a negative length");
  AvroDecoder flag(std::string_view("\x02", 1));
  flag.Boolean();
  EXPECT_STREQ(flag.problem(), "a boolean that is neither 0 nor 1");
}

TEST(AvroDecoder, BlockCountIsBoundedByTheBytes) {
  const auto schema = Schema(R"({"type":"array","items":"double"})");
  ASSERT_TRUE(schema);
  const AvroType& item = *schema->root().children[0];
  const std::string honest = Encoded(2) + std::string(16, '\0');
  AvroDecoder in(honest);
  EXPECT_EQ(in.BlockCount(item), 2);
  const std::string huge = Encoded(int64_t{1} << 40) + std::string(16, '\0');
  AvroDecoder bad(huge);
  EXPECT_EQ(bad.BlockCount(item), 0);
  EXPECT_STREQ(bad.problem(), "more items than bytes");
  // A negative count has the block's size in bytes after it.
  const std::string sized = Encoded(-2) + Encoded(16) + std::string(16, '\0');
  AvroDecoder with_size(sized);
  EXPECT_EQ(with_size.BlockCount(item), 2);
  EXPECT_EQ(with_size.remaining(), 16U);
  const std::string least = Encoded(INT64_MIN);
  AvroDecoder minimum(least);
  EXPECT_EQ(minimum.BlockCount(item), 0);
  EXPECT_FALSE(minimum.ok());
}

TEST(AvroDecoder, SkipsEveryType) {
  const auto schema = Schema(R"({"type":"record","name":"r","fields":[
    {"name":"a","type":"null"},{"name":"b","type":"boolean"},{"name":"c","type":"int"},
    {"name":"d","type":"long"},{"name":"e","type":"float"},{"name":"f","type":"double"},
    {"name":"g","type":"bytes"},{"name":"h","type":"string"},
    {"name":"i","type":{"type":"fixed","name":"four","size":4}},
    {"name":"j","type":{"type":"enum","name":"e","symbols":["X","Y"]}},
    {"name":"k","type":{"type":"array","items":"four"}},
    {"name":"l","type":{"type":"map","values":["null","string","long"]}},
    {"name":"m","type":{"type":"array","items":{"type":"record","name":"kv","fields":[
       {"name":"key","type":"int"},{"name":"value","type":"long"}]}}},
    {"name":"n","type":{"type":"array","items":"null"}}]})");
  ASSERT_TRUE(schema) << schema.error().ToString();
  AvroEncoder out;
  out.Boolean(true);
  out.Int(-5);
  out.Long(INT64_MIN);
  out.Float(1);
  out.Double(2);
  out.Bytes("xyz");
  out.Bytes("");
  out.Fixed("abcd");
  out.Long(1);
  for (const int64_t count : {int64_t{2}, int64_t{-1}}) {  // Two blocks, one with its size.
    out.Long(count);
    if (count < 0) out.Long(4);
    out.Fixed(count < 0 ? "1234" : "12345678");
  }
  out.Long(0);
  out.Long(3);
  for (int branch = 0; branch < 3; ++branch) {
    out.Bytes("key");
    out.Long(branch);
    if (branch == 1) out.Bytes("text");
    if (branch == 2) out.Long(1000);
  }
  out.Long(0);
  out.Long(2);
  for (const int64_t value : {1, 1000000, 2, -7}) out.Long(value);
  out.Long(0);
  out.Long(int64_t{1} << 60);  // Nulls take no bytes and no time.
  out.Long(0);
  out.Bytes("end");
  AvroDecoder in(out.out());
  in.Skip(schema->root());
  EXPECT_TRUE(in.ok()) << in.problem();
  EXPECT_EQ(in.Bytes(), "end");
  // Cut anywhere, it says so.
  const std::string whole = out.out().substr(0, out.out().size() - 4);
  for (size_t length = 0; length < whole.size(); ++length) {
    AvroDecoder cut(std::string_view(whole).substr(0, length));
    cut.Skip(schema->root());
    EXPECT_FALSE(cut.ok()) << length;
  }
}

TEST(AvroSchema, IdsAndLogicalTypes) {
  const auto schema = Schema(R"({"type":"record","name":"a.b.r","fields":[
    {"name":"x","field-id":7,"type":["null",{"type":"fixed","name":"dec","size":4,
      "logicalType":"decimal","precision":9,"scale":2}],"default":null},
    {"name":"_x20y","iceberg-field-name":" y","type":["dec","null"]},
    {"name":"t","field-id":9,"type":{"type":"long","logicalType":"timestamp-micros",
      "adjust-to-utc":true}},
    {"name":"l","field-id":10,"type":{"type":"array","items":"int","element-id":11}},
    {"name":"m","field-id":12,"type":{"type":"map","values":"int","key-id":13,"value-id":14}}]})");
  ASSERT_TRUE(schema) << schema.error().ToString();
  const AvroType& root = schema->root();
  ASSERT_EQ(root.fields.size(), 5U);
  EXPECT_EQ(root.fields[0].id, 7);
  EXPECT_EQ(root.fields[0].type->null_branch, 0);
  const AvroType& decimal = *root.fields[0].type->children[1];
  EXPECT_EQ(decimal.logical_type, "decimal");
  EXPECT_EQ(decimal.precision, 9);
  EXPECT_EQ(decimal.scale, 2);
  EXPECT_EQ(decimal.fixed_size, 4);
  EXPECT_EQ(root.fields[1].id, std::nullopt);
  EXPECT_EQ(root.fields[1].name, " y");
  EXPECT_EQ(root.fields[1].type->null_branch, 1);
  EXPECT_EQ(root.fields[1].type->children[0], &decimal);
  EXPECT_TRUE(root.fields[2].type->adjust_to_utc);
  EXPECT_EQ(root.fields[2].type->logical_type, "timestamp-micros");
  EXPECT_EQ(root.fields[3].type->element_id, 11);
  EXPECT_EQ(root.fields[4].type->key_id, 13);
  EXPECT_EQ(root.fields[4].type->value_id, 14);
}

TEST(AvroSchema, RefusesBadOnes) {
  for (const std::string_view json :
       {"", "{", "[]", "17", "\"text\"", R"({"type":"record","name":"r"})", R"({"name":"r"})",
        R"({"type":"record","fields":[]})", R"({"type":"fixed","name":"f","size":-1})",
        R"({"type":"fixed","name":"f","size":99999999999})", R"({"type":"array"})",
        R"({"type":"enum","name":"e"})", R"({"type":"record","name":"r","fields":[{"name":"x"}]})",
        R"({"type":"record","name":"r","fields":[{"type":"int"}]})"}) {
    const auto schema = Schema(json);
    ASSERT_FALSE(schema) << json;
    EXPECT_EQ(schema.error().code, Code::kCorrupt) << json;
  }
}

TEST(AvroSchema, RefusesRecursionAndExplosion) {
  const auto recursive =
      Schema(R"({"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]}]})");
  ASSERT_FALSE(recursive);
  EXPECT_EQ(recursive.error().code, Code::kUnsupported);

  std::string deep = "\"int\"";
  for (int i = 0; i < 100; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  const auto too_deep = Schema(deep);
  ASSERT_FALSE(too_deep);
  EXPECT_EQ(too_deep.error().message, "the schema nests too deeply");

  // Each record holds the one before twice: 2^25 values of no bytes.
  std::string fields = R"({"name":"f0","type":{"type":"record","name":"r0","fields":[]}})";
  for (int i = 1; i <= 25; ++i) {
    const std::string inner = "\"r" + std::to_string(i - 1) + "\"";
    fields += R"(,{"name":"f)" + std::to_string(i) + R"(","type":{"type":"record","name":"r)" +
              std::to_string(i) + R"(","fields":[{"name":"a","type":)" + inner +
              R"(},{"name":"b","type":)" + inner + "}]}}";
  }
  const auto laughs = Schema(R"({"type":"record","name":"all","fields":[)" + fields + "]}");
  ASSERT_FALSE(laughs);
  EXPECT_EQ(laughs.error().message, "the schema has too many types");
}

constexpr std::string_view kTwoFields = R"({"type":"record","name":"r","fields":[
  {"name":"n","type":"long"},{"name":"s","type":"string"}]})";

std::string File(const std::string& codec, int records) {
  auto writer = AvroWriter::Open(kTwoFields, {{"key", "value"}}, codec);
  EXPECT_TRUE(writer);
  for (int i = 0; i < records; ++i) {
    writer->record().Long(i);
    writer->record().Bytes("some text that repeats " + std::to_string(i % 7));
    EXPECT_TRUE(writer->EndRecord());
  }
  auto bytes = writer->Finish();
  EXPECT_TRUE(bytes);
  return *bytes;
}

// The records, or the problem.
Result<std::vector<std::pair<int64_t, std::string>>> Records(std::string_view bytes) {
  LITHIFY_TRY_ASSIGN(AvroReader reader, AvroReader::Open(bytes));
  std::vector<std::pair<int64_t, std::string>> records;
  while (true) {
    LITHIFY_TRY_ASSIGN(const auto block, reader.NextBlock());
    if (!block) return records;
    AvroDecoder in(block->bytes);
    for (int64_t i = 0; i < block->records && in.ok(); ++i) {
      const int64_t number = in.Long();
      records.emplace_back(number, in.Bytes());
    }
    if (!in.ok()) return Fail(Code::kCorrupt, in.problem());
  }
}

class AvroCodecs : public testing::TestWithParam<std::string> {};

TEST_P(AvroCodecs, RoundTripOverManyBlocks) {
  const std::string bytes = File(GetParam(), 30000);
  const auto reader = AvroReader::Open(bytes);
  ASSERT_TRUE(reader) << reader.error().ToString();
  EXPECT_EQ(reader->Metadata("key"), "value");
  EXPECT_EQ(reader->Metadata("avro.codec"), GetParam());
  EXPECT_EQ(reader->schema().root().fields[1].name, "s");
  const auto records = Records(bytes);
  ASSERT_TRUE(records) << records.error().ToString();
  ASSERT_EQ(records->size(), 30000U);
  EXPECT_EQ((*records)[29999],
            std::make_pair(int64_t{29999}, std::string("some text that repeats 4")));
  EXPECT_EQ(File(GetParam(), 30000), bytes);
}

TEST_P(AvroCodecs, EmptyFile) {
  const auto records = Records(File(GetParam(), 0));
  ASSERT_TRUE(records);
  EXPECT_TRUE(records->empty());
}

TEST_P(AvroCodecs, EveryCutIsSeenButBetweenBlocks) {
  const std::string bytes = File(GetParam(), 20);
  const size_t header = File(GetParam(), 0).size();
  for (size_t length = 0; length < bytes.size(); ++length) {
    if (length == header) continue;
    const auto records = Records(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(records) << length;
    EXPECT_EQ(records.error().code, Code::kCorrupt) << length;
  }
}

TEST_P(AvroCodecs, TrailingGarbageIsSeen) { EXPECT_FALSE(Records(File(GetParam(), 20) + "x")); }

INSTANTIATE_TEST_SUITE_P(All, AvroCodecs,
                         testing::Values("null", "deflate", "zstandard", "snappy"));

TEST(AvroReader, SnappyChecksumIsChecked) {
  std::string bytes = File("snappy", 20);
  bytes[bytes.size() - 17] ^= 1;  // The last byte before the final sync marker.
  const auto records = Records(bytes);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().message, "a snappy block's checksum is wrong");
  EXPECT_EQ(records.error().context, "Avro block 0");
}

TEST(AvroReader, UnknownCodecs) {
  std::string bytes = File("null", 20);
  const size_t at = bytes.find("avro.codec");
  ASSERT_EQ(bytes.substr(at + 10, 5), "\x08null");
  bytes.replace(at + 11, 4, "lzma");
  const auto reader = AvroReader::Open(bytes);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::kUnsupported);
  const auto writer = AvroWriter::Open(kTwoFields, {}, "lzma");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kInvalid);
}

// A block that says it unpacks to far more than its size allows gets no memory for it.
TEST(AvroReader, BombsAreRefused) {
  for (const std::string codec : {"zstandard", "deflate"}) {
    auto writer = AvroWriter::Open(kTwoFields, {}, codec);
    ASSERT_TRUE(writer);
    writer->record().Long(1);
    writer->record().Bytes(std::string(size_t{32} << 20, 'a'));
    ASSERT_TRUE(writer->EndRecord());
    const auto bytes = writer->Finish();
    ASSERT_TRUE(bytes);
    const auto records = Records(*bytes);
    if (codec == "deflate") {
      EXPECT_TRUE(records) << records.error().ToString();  // It cannot exceed 1032 times.
    } else {
      ASSERT_FALSE(records);
      EXPECT_EQ(records.error().message, "a zstandard block is too large");
    }
  }
}

}  // namespace
}  // namespace lithify::table
