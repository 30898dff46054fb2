#include "table/iceberg_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#define ZLIB_CONST
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"

namespace lithify::table {
namespace {

using iceberg::Decimal;
using iceberg::Field;
using iceberg::Schema;
using iceberg::TableMetadata;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Fixture(const std::string& name) {
  std::ifstream file(LITHIFY_TEST_DATA "/iceberg/pyiceberg/" + name + ".metadata.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TableMetadata Parsed(const std::string& text) {
  Result<TableMetadata> table = ParseTableMetadata(text, "m.json");
  EXPECT_TRUE(table) << table.error().ToString();
  return table ? *table : TableMetadata();
}

std::string Problem(const std::string& text) {
  const Result<TableMetadata> table = ParseTableMetadata(text, "m.json");
  return table ? "no error" : table.error().ToString();
}

// A v2 table with some members replaced or, with "", taken away.
std::string V2(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::vector<std::pair<std::string, std::string>> members = {
      {"format-version", "2"},
      {"table-uuid", R"("9c12d441-03fe-4693-9a96-a0705ddf69c1")"},
      {"location", R"("s3://bucket/t/")"},
      {"last-sequence-number", "34"},
      {"last-updated-ms", "1602638573590"},
      {"last-column-id", "3"},
      {"current-schema-id", "1"},
      {"schemas", R"([{"type":"struct","schema-id":0,"fields":[
         {"id":1,"name":"x","required":true,"type":"long"}]},
         {"type":"struct","schema-id":1,"identifier-field-ids":[1,2],"fields":[
         {"id":1,"name":"x","required":true,"type":"long"},
         {"id":2,"name":"y","required":true,"type":"long","doc":"comment"},
         {"id":3,"name":"z","required":true,"type":"long"}]}])"},
      {"default-spec-id", "0"},
      {"partition-specs",
       R"([{"spec-id":0,"fields":[{"name":"x","transform":"identity","source-id":1,)"
       R"("field-id":1000}]}])"},
      {"last-partition-id", "1000"},
      {"default-sort-order-id", "3"},
      {"sort-orders", R"([{"order-id":3,"fields":[
         {"transform":"identity","source-id":2,"direction":"asc","null-order":"nulls-first"},
         {"transform":"bucket[4]","source-id":3,"direction":"desc","null-order":"nulls-last"}]}])"},
      {"properties", R"({"read.split.target.size":"134217728"})"},
      {"current-snapshot-id", "3055729675574597004"},
      {"snapshots", R"([{"snapshot-id":3051729675574597004,"timestamp-ms":1515100955770,
         "sequence-number":0,"summary":{"operation":"append"},"manifest-list":"s3://a/b/1.avro"},
         {"snapshot-id":3055729675574597004,"parent-snapshot-id":3051729675574597004,
         "timestamp-ms":1555100955770,"sequence-number":1,"summary":{"operation":"append"},
         "manifest-list":"s3://a/b/2.avro","schema-id":1}])"},
      {"snapshot-log", R"([{"snapshot-id":3051729675574597004,"timestamp-ms":1515100955770},
         {"snapshot-id":3055729675574597004,"timestamp-ms":1555100955770}])"},
      {"metadata-log", R"([{"metadata-file":"s3://bucket/v1.json","timestamp-ms":1515100}])"},
      {"refs",
       R"({"test":{"snapshot-id":3051729675574597004,"type":"tag","max-ref-age-ms":10000000}})"},
      {"statistics", R"([{"snapshot-id":3055729675574597004,"statistics-path":"s3://a/b/s.puffin",
         "file-size-in-bytes":413,"file-footer-size-in-bytes":42,"blob-metadata":[]}])"},
      {"partition-statistics", R"([{"snapshot-id":3055729675574597004,
         "statistics-path":"s3://a/b/p.parquet","file-size-in-bytes":43}])"}};
  for (const auto& [key, value] : changes) {
    bool found = false;
    for (auto& member : members) {
      if (member.first == key) member.second = value, found = true;
    }
    if (!found) members.emplace_back(key, value);
  }
  std::string text = "{";
  for (const auto& [key, value] : members) {
    if (value.empty()) continue;
    if (text.size() > 1) text += ",";
    text += "\"" + key + "\":" + value;
  }
  return text + "}";
}

TEST(IcebergMetadata, V2OfTheSpecification) {
  const TableMetadata table = Parsed(V2());
  EXPECT_EQ(table.format_version, 2);
  EXPECT_EQ(table.table_uuid, "9c12d441-03fe-4693-9a96-a0705ddf69c1");
  EXPECT_EQ(table.location, "s3://bucket/t");
  EXPECT_EQ(table.last_sequence_number, 34);
  EXPECT_EQ(table.last_updated_ms, 1602638573590);
  EXPECT_EQ(table.last_column_id, 3);
  ASSERT_EQ(table.schemas.size(), 2);
  EXPECT_EQ(table.current_schema_id, 1);
  EXPECT_THAT(table.schemas[1].identifier_field_ids, ElementsAre(1, 2));
  EXPECT_EQ(table.schemas[1].fields[1].doc, "comment");
  EXPECT_THAT(table.partition_specs,
              ElementsAre(iceberg::PartitionSpec{0, {{{1}, 1000, "x", "identity"}}}));
  EXPECT_THAT(table.sort_orders,
              ElementsAre(iceberg::SortOrder{
                  3, {{{2}, "identity", true, true}, {{3}, "bucket[4]", false, false}}}));
  EXPECT_EQ(table.properties.at("read.split.target.size"), "134217728");
  EXPECT_EQ(table.current_snapshot_id, 3055729675574597004);
  ASSERT_EQ(table.snapshots.size(), 2);
  EXPECT_EQ(table.snapshots[1].parent_snapshot_id, 3051729675574597004);
  EXPECT_EQ(table.snapshots[1].sequence_number, 1);
  EXPECT_EQ(table.snapshots[1].manifest_list, "s3://a/b/2.avro");
  EXPECT_EQ(table.snapshots[1].schema_id, 1);
  EXPECT_THAT(table.snapshot_log,
              ElementsAre(iceberg::SnapshotLogEntry{3051729675574597004, 1515100955770},
                          iceberg::SnapshotLogEntry{3055729675574597004, 1555100955770}));
  EXPECT_THAT(table.metadata_log,
              ElementsAre(iceberg::MetadataLogEntry{"s3://bucket/v1.json", 1515100}));
  // "main" is there although the file does not list it.
  EXPECT_EQ(table.refs.at("main"), (iceberg::SnapshotRef{3055729675574597004, true, {}, {}, {}}));
  EXPECT_EQ(table.refs.at("test"),
            (iceberg::SnapshotRef{3051729675574597004, false, {}, {}, 10000000}));
  EXPECT_THAT(table.statistics,
              ElementsAre(iceberg::StatisticsFile{3055729675574597004, "s3://a/b/s.puffin", 413}));
  EXPECT_THAT(table.partition_statistics,
              ElementsAre(iceberg::StatisticsFile{3055729675574597004, "s3://a/b/p.parquet", 43}));
  EXPECT_FALSE(table.has_encryption);
}

TEST(IcebergMetadata, V1SingleForms) {
  const TableMetadata table = Parsed(R"({"format-version":1,"location":"file:///lake/t",
    "last-updated-ms":5,"last-column-id":2,"schema":{"type":"struct","fields":[
    {"id":1,"name":"x","required":true,"type":"long"},{"id":2,"name":"d","required":false,
    "type":"date"}]},"partition-spec":[{"source-id":1,"name":"x","transform":"identity"},
    {"source-id":2,"name":"d_day","transform":"day"}],"properties":{},"current-snapshot-id":-1,
    "snapshots":[{"snapshot-id":9,"timestamp-ms":4,"manifests":["file:///a.avro","file:///b.avro"]}]})");
  EXPECT_EQ(table.table_uuid, "");
  EXPECT_EQ(table.schema().fields.size(), 2);
  EXPECT_EQ(table.current_schema_id, 0);
  EXPECT_THAT(table.partition_specs,
              ElementsAre(iceberg::PartitionSpec{
                  0, {{{1}, 1000, "x", "identity"}, {{2}, 1001, "d_day", "day"}}}));
  EXPECT_EQ(table.last_partition_id, 1001);
  EXPECT_THAT(table.sort_orders, ElementsAre(iceberg::SortOrder{}));
  EXPECT_EQ(table.current_snapshot_id, std::nullopt);
  EXPECT_THAT(table.refs, IsEmpty());
  EXPECT_THAT(table.snapshots[0].manifests, ElementsAre("file:///a.avro", "file:///b.avro"));
  EXPECT_EQ(table.snapshots[0].manifest_list, "");
}

TEST(IcebergMetadata, V3RowLineageEncryptionAndSeveralSources) {
  const TableMetadata table = Parsed(V2(
      {{"format-version", "3"},
       {"next-row-id", "9223372036854775807"},
       {"encryption-keys", R"([{"key-id":"k","encrypted-key-metadata":"AA=="}])"},
       {"partition-specs", R"([{"spec-id":0,"fields":[{"name":"xy","transform":"zorder",
          "source-ids":[1,2],"field-id":1000}]}])"},
       {"refs", ""},
       {"snapshots", R"([{"snapshot-id":3055729675574597004,"timestamp-ms":1,"sequence-number":34,
          "summary":{"operation":"append"},"manifest-list":"s3://a/l.avro","first-row-id":3,
          "added-rows":4,"key-id":"k"}])"}}));
  EXPECT_EQ(table.next_row_id, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(table.has_encryption);
  EXPECT_THAT(table.partition_specs[0].fields[0].source_ids, ElementsAre(1, 2));
  EXPECT_EQ(table.snapshots[0].first_row_id, 3);
  EXPECT_EQ(table.snapshots[0].added_rows, 4);
  EXPECT_EQ(table.snapshots[0].key_id, "k");
}

TEST(IcebergMetadata, WrittenByPyiceberg) {
  for (const char* name : {"v1", "v2", "v3"}) {
    const TableMetadata table = Parsed(Fixture(name));
    EXPECT_EQ(table.schema().fields.size(), table.format_version == 3 ? 11 : 9) << name;
    EXPECT_EQ(table.FindSpec(0)->fields[0].transform, "day") << name;
    EXPECT_EQ(FindField(table.schema(), "pos.lon")->type.kind, TypeKind::kFloat) << name;
    // Our own text of the schema gives the same schema.
    const Result<Schema> again = ParseSchemaJson(SchemaToJson(table.schema()), "s");
    ASSERT_TRUE(again) << again.error().ToString();
    EXPECT_EQ(*again, table.schema());
  }
  EXPECT_EQ(FindField(Parsed(Fixture("v3")).schema(), "k")->initial_default, Value(int64_t{7}));
  EXPECT_EQ(Parsed(Fixture("v3")).snapshots[0].added_rows, 20);
  for (const char* name : {"v1_rows", "v2_rows"}) {
    const TableMetadata table = Parsed(Fixture(name));
    ASSERT_EQ(table.snapshots.size(), 2);
    EXPECT_EQ(table.refs.at("main").snapshot_id, table.snapshots[1].snapshot_id);
    EXPECT_EQ(table.RefSnapshot("first")->snapshot_id, table.snapshots[0].snapshot_id);
    EXPECT_EQ(table.snapshots[1].sequence_number, table.format_version == 1 ? 0 : 2);
    EXPECT_EQ(table.snapshots[1].summary.at("total-records"), "2");
  }
}

TEST(IcebergMetadata, GzipIsAccepted) {
  const std::string text = V2();
  std::string packed(text.size() + 1000, '\0');
  z_stream stream = {};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  EXPECT_EQ(Parsed(packed).last_sequence_number, 34);
  EXPECT_THAT(Problem(packed.substr(0, packed.size() - 9)),
              HasSubstr("corrupt: m.json: not a whole gzip"));
  EXPECT_THAT(Problem(packed + "x"), HasSubstr("corrupt: m.json: not a whole gzip stream"));
}

TEST(IcebergMetadata, ErrorsNameFileAndMember) {
  struct Case {
    std::string key, value, expected;
  };
  const std::vector<Case> cases = {
      {"format-version", "4", "unsupported: m.json: format-version is 4"},
      {"format-version", "0", "corrupt: m.json: format-version is below 1"},
      {"format-version", R"("2")", "m.json: format-version is not a 32-bit integer"},
      {"table-uuid", "", "m.json: table-uuid is missing"},
      {"location", R"("/")", "m.json: location is empty"},
      {"last-sequence-number", "1.0", "last-sequence-number is not a 64-bit integer"},
      {"last-sequence-number", "9223372036854775808", "last-sequence-number is not a 64-bit"},
      {"last-updated-ms", "null", "last-updated-ms is missing"},
      {"current-schema-id", "7", "current-schema-id is 7, which is none of schemas"},
      {"default-spec-id", "7", "default-spec-id is 7, which is none"},
      {"default-sort-order-id", "7", "default-sort-order-id is 7, which is none"},
      {"current-snapshot-id", "7", "current-snapshot-id is 7, which is none"},
      {"snapshots", R"([{"snapshot-id":1,"timestamp-ms":1}])", "snapshots[0].manifests is missing"},
      {"snapshots", R"([{"snapshot-id":1,"timestamp-ms":1,"manifest-list":3}])",
       "snapshots[0].manifest-list is not a string"},
      {"snapshots", R"([3])", "snapshots[0] is not an object"},
      {"snapshots", R"({})", "snapshots is not an array"},
      {"properties", R"({"a":1})", "properties.a is not a string"},
      {"refs", R"({"r":{"snapshot-id":1,"type":"tag"}})", "refs.r points to snapshot 1"},
      {"refs", R"({"r":{"snapshot-id":3051729675574597004,"type":"x"}})", "refs.r has a type"},
      {"refs", R"({"main":{"snapshot-id":3051729675574597004,"type":"branch"}})",
       "refs.main and current-snapshot-id point to different snapshots"},
      {"refs", R"({"main":{"snapshot-id":3055729675574597004,"type":"tag"}})",
       "refs.main is a tag"},
      {"partition-specs", R"([{"spec-id":0,"fields":[{"name":"x","transform":"identity"}]}])",
       "partition-specs[0].fields[0].source-id is missing"},
      {"schemas", R"([{"schema-id":1,"fields":[{"id":1,"name":"a","required":true,"type":"int"},
         {"id":1,"name":"b","required":true,"type":"int"}]}])",
       "schemas[0] has field id 1 twice"},
      {"schemas", R"([{"schema-id":1,"fields":[{"id":1,"name":"a","required":true,"type":"int"},
         {"id":2,"name":"a","required":true,"type":"int"}]}])",
       "schemas[0].fields[1] has the name of another field"},
      {"schemas",
       R"([{"schema-id":1,"fields":[{"id":1,"name":"a","required":true,"type":"money"}]}])",
       "unsupported: m.json: schemas[0].fields[0].type is a type that is not known: \"money\""}};
  for (const Case& c : cases) {
    EXPECT_THAT(Problem(V2({{c.key, c.value}})), HasSubstr(c.expected)) << c.key << " " << c.value;
  }
  EXPECT_THAT(Problem(""), HasSubstr("corrupt: m.json: not JSON"));
  EXPECT_THAT(Problem("[]"), HasSubstr("corrupt: m.json: is not an object"));
  EXPECT_THAT(Problem(R"({"a":1,"a":2})"), HasSubstr(R"(key "a" occurs twice)"));
  EXPECT_THAT(Problem(std::string(100'000, '[')), HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(Problem("\xEF\xBB\xBF{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(Problem(V2({{"format-version", "3"}})), HasSubstr("next-row-id is missing"));
}

Schema OneField(const std::string& type, const std::string& value) {
  const Result<Schema> schema = ParseSchemaJson(
      R"({"type":"struct","schema-id":0,"fields":[{"id":1,"name":"c","required":false,"type":)" +
          type + R"(,"initial-default":)" + value + "}]}",
      "s");
  EXPECT_TRUE(schema) << schema.error().ToString();
  return schema ? *schema : Schema();
}

TEST(IcebergSchema, EveryTypeAndItsDefaultComesBackTheSame) {
  struct Case {
    std::string type, value;
    TypeKind kind;
    Value expected;
  };
  const std::string bytes16 = "\xf7\x9c\x3e\x09\x67\x7c\x4b\xbd\xa4\x79\x3f\x34\x9c\xb7\x85\xe7";
  const std::vector<Case> cases = {
      {"boolean", "true", TypeKind::kBoolean, true},
      {"int", "-34", TypeKind::kInt, int64_t{-34}},
      {"long", "9223372036854775807", TypeKind::kLong, std::numeric_limits<int64_t>::max()},
      {"float", "1.5", TypeKind::kFloat, 1.5F},
      {"float", "0.1", TypeKind::kFloat, 0.1F},
      {"double", "-0.0", TypeKind::kDouble, -0.0},
      {"double", "1e+300", TypeKind::kDouble, 1e300},
      {"double", R"("-Infinity")", TypeKind::kDouble, -std::numeric_limits<double>::infinity()},
      {"decimal(9, 2)", R"("-14.20")", TypeKind::kDecimal, Decimal{-1420}},
      {"decimal(3, 3)", R"("0.007")", TypeKind::kDecimal, Decimal{7}},
      {"date", R"("2017-11-16")", TypeKind::kDate, int64_t{17486}},
      {"date", R"("1969-12-31")", TypeKind::kDate, int64_t{-1}},
      {"date", R"("2000-02-29")", TypeKind::kDate, int64_t{11016}},
      {"time", R"("22:31:08.123456")", TypeKind::kTime, int64_t{81068123456}},
      {"timestamp", R"("2017-11-16T22:31:08.123456")", TypeKind::kTimestamp,
       int64_t{1510871468123456}},
      {"timestamp", R"("1969-12-31T23:59:59.999999")", TypeKind::kTimestamp, int64_t{-1}},
      {"timestamptz", R"("2017-11-16T22:31:08.123456+00:00")", TypeKind::kTimestamptz,
       int64_t{1510871468123456}},
      {"timestamp_ns", R"("2017-11-16T22:31:08.123456789")", TypeKind::kTimestampNs,
       int64_t{1510871468123456789}},
      {"timestamptz_ns", R"("2017-11-16T22:31:08.123456789+00:00")", TypeKind::kTimestamptzNs,
       int64_t{1510871468123456789}},
      {"string", R"("i\"c\u00e9")", TypeKind::kString, std::string("i\"c\xc3\xa9")},
      {"uuid", R"("f79c3e09-677c-4bbd-a479-3f349cb785e7")", TypeKind::kUuid, bytes16},
      {"fixed[4]", R"("00010aff")", TypeKind::kFixed, std::string("\x00\x01\x0a\xff", 4)},
      {"binary", R"("00ff")", TypeKind::kBinary, std::string("\x00\xff", 2)}};
  for (const Case& c : cases) {
    const Schema schema = OneField("\"" + c.type + "\"", c.value);
    ASSERT_EQ(schema.fields.size(), 1) << c.type;
    EXPECT_EQ(schema.fields[0].type.kind, c.kind) << c.type;
    EXPECT_EQ(schema.fields[0].initial_default, c.expected) << c.type << " " << c.value;
    EXPECT_FALSE(schema.fields[0].unsupported_default);
    const std::string text = SchemaToJson(schema);
    EXPECT_THAT(text, HasSubstr("\"type\":\"" + c.type + "\"")) << text;
    EXPECT_EQ(*ParseSchemaJson(text, "s"), schema) << text;
  }
  EXPECT_TRUE(
      std::signbit(std::get<double>(*OneField(R"("double")", "-0.0").fields[0].initial_default)));
}

TEST(IcebergSchema, NestedAndV3Types) {
  const std::string text =
      R"({"type":"struct","schema-id":3,"fields":[)"
      R"({"id":1,"name":"v","required":false,"type":"variant"},)"
      R"({"id":2,"name":"u","required":false,"type":"unknown"},)"
      R"({"id":3,"name":"g","required":false,"type":"geometry"},)"
      R"t({"id":4,"name":"h","required":false,"type":"geography(srid:4269, karney)"},)t"
      R"({"id":5,"name":"m","required":true,"type":{"type":"map","key-id":6,"key":"string",)"
      R"("value-id":7,"value":{"type":"list","element-id":8,"element":{"type":"struct","fields":[)"
      R"t({"id":9,"name":"d","required":false,"type":"decimal(38, 0)"}]},)t"
      R"t("element-required":true},)t"
      R"("value-required":false}}]})";
  const Result<Schema> schema = ParseSchemaJson(text, "s");
  ASSERT_TRUE(schema) << schema.error().ToString();
  EXPECT_EQ(schema->fields[0].type.kind, TypeKind::kVariant);
  EXPECT_FALSE(schema->fields[0].type.primitive());
  EXPECT_EQ(schema->fields[3].type.parameters, "(srid:4269, karney)");
  EXPECT_EQ(FindField(*schema, 9)->type.precision, 38);
  EXPECT_EQ(SchemaToJson(*schema), text);
  // Spellings that other writers use.
  EXPECT_EQ(OneField(R"t("DECIMAL(9,2)")t", "null").fields[0].type.scale, 2);
  EXPECT_EQ(OneField(R"("fixed[ 7 ]")", "null").fields[0].type.length, 7);
}

TEST(IcebergSchema, DefaultsThatAreNotUnderstoodAreTold) {
  for (const char* type :
       {R"("variant")", R"("unknown")", R"("geometry")", R"({"type":"struct","fields":[]})",
        R"({"type":"list","element-id":2,"element":"int","element-required":true})"}) {
    const Schema schema = OneField(type, "{}");
    EXPECT_TRUE(schema.fields[0].unsupported_default) << type;
    EXPECT_EQ(schema.fields[0].initial_default, std::nullopt);
    EXPECT_FALSE(OneField(type, "null").fields[0].unsupported_default);
  }
}

TEST(IcebergSchema, WrongDefaultsAndTypes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("boolean")", "1"},
      {R"("int")", "2147483648"},
      {R"("int")", "1.5"},
      {R"("long")", R"("1")"},
      {R"("float")", "1e300"},
      {R"t("decimal(9,2)")t", R"("1.234")"},
      {R"t("decimal(4,2)")t", R"("123.00")"},
      {R"t("decimal(4,2)")t", R"("123")"},
      {R"t("decimal(4,2)")t", R"(".")"},
      {R"t("decimal(9,2)")t", "14.2"},
      {R"("date")", R"("2017-02-29")"},
      {R"("date")", R"("2017-11-16x")"},
      {R"("time")", R"("24:00:00")"},
      {R"("timestamp")", R"("2017-11-16T22:31:08.1234567")"},
      {R"("timestamp")", R"("2017-11-16T22:31:08+00:00")"},
      {R"("timestamptz")", R"("2017-11-16T22:31:08+01:00")"},
      {R"("timestamp_ns")", R"("2400-01-01T00:00:00")"},
      {R"("uuid")", R"("f79c3e09677c4bbda4793f349cb785e7")"},
      {R"("fixed[4]")", R"("0001")"},
      {R"("binary")", R"("0g")"},
      {R"t("decimal(39,2)")t", "null"},
      {R"t("decimal(3,4)")t", "null"},
      {R"("decimal[9,2]")", "null"},
      {R"t("fixed(4)")t", "null"},
      {R"t("int(4)")t", "null"},
      {R"("geometry(x")", "null"},
      {R"({"type":"list","element":"int","element-required":true})", "null"}};
  for (const auto& [type, value] : cases) {
    const Result<Schema> schema =
        ParseSchemaJson(R"({"fields":[{"id":1,"name":"c","required":false,"type":)" + type +
                            R"(,"initial-default":)" + value + "}]}",
                        "s");
    ASSERT_FALSE(schema) << type << " " << value;
    EXPECT_EQ(schema.error().code, Code::kCorrupt) << type << " " << value;
    EXPECT_THAT(schema.error().ToString(), HasSubstr("s: fields[0].")) << type;
  }
}

TEST(IcebergSchema, PartitionFieldsOfAManifestHeader) {
  EXPECT_EQ(PartitionFieldsToJson({0, {{{1}, 1000, "x", "bucket[4]"}, {{2, 3}, 1001, "z", "z"}}}),
            R"([{"name":"x","transform":"bucket[4]","source-id":1,"field-id":1000},)"
            R"({"name":"z","transform":"z","source-ids":[2,3],"field-id":1001}])");
  EXPECT_EQ(PartitionFieldsToJson({}), "[]");
}

TEST(IcebergNameMapping, OfTheSpecification) {
  const auto mapping = ParseNameMapping(
      R"([{"field-id":1,"names":["id","record_id"]},{"field-id":2,"names":["data"]},)"
      R"({"field-id":3,"names":["location"],"fields":[{"field-id":4,"names":["latitude","lat"]},)"
      R"({"names":["nothing"]}]}])");
  ASSERT_TRUE(mapping) << mapping.error().ToString();
  ASSERT_EQ(mapping->size(), 3);
  EXPECT_THAT((*mapping)[0].names, ElementsAre("id", "record_id"));
  EXPECT_EQ((*mapping)[2].fields[0].field_id, 4);
  EXPECT_EQ((*mapping)[2].fields[1].field_id, std::nullopt);
  EXPECT_THAT(ParseNameMapping(R"([{"names":[1]}])").error().ToString(),
              HasSubstr("schema.name-mapping.default: [0].names[0] is not a string"));
  EXPECT_EQ(ParseNameMapping("{}").error().code, Code::kCorrupt);
}

// Hostile texts: bytes flipped, cut out, doubled. A value or an error, and the value holds
// together.
TEST(IcebergMetadata, DamagedTextsGiveAValueOrAnError) {
  SeededRandom random(4);
  const std::vector<std::string> seeds = {V2(), Fixture("v1_rows"), Fixture("v2_rows"),
                                          Fixture("v3")};
  constexpr std::string_view kBytes = "0123456789-.eE\"{}[]:, nulltrue\\";
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random.Next() % seeds.size()];
    for (uint64_t change = 1 + random.Next() % 3; change > 0; --change) {
      const size_t at = random.Next() % text.size();
      const size_t length = 1 + random.Next() % 20;
      switch (random.Next() % 4) {
        case 0: text[at] = static_cast<char>(random.Next()); break;
        case 1: text[at] = kBytes[random.Next() % kBytes.size()]; break;
        case 2: text.erase(at, length); break;
        default: text.insert(at, text.substr(random.Next() % text.size(), length)); break;
      }
    }
    const Result<TableMetadata> table = ParseTableMetadata(text, "m.json");
    if (!table) {
      ++refused;
      EXPECT_THAT(table.error().ToString(), HasSubstr("m.json"));
      continue;
    }
    ++read;
    EXPECT_NE(table->FindSchema(table->current_schema_id), nullptr);
    EXPECT_EQ(*ParseSchemaJson(SchemaToJson(table->schema()), "s"), table->schema());
    ApplyUpdates(text, {}, Time(), "m.json").value();
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lithify::table
