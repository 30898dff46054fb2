#include "table/iceberg_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "base/random.h"
#include "table/avro.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::DataFile;
using iceberg::Decimal;
using iceberg::EntryStatus;
using iceberg::FileContent;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;
using testing::HasSubstr;

std::string Fixture(const std::string& name) {
  std::ifstream in(std::string(LITHIFY_TEST_DATA) + "/iceberg/pyiceberg/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

iceberg::Field Column(int id, const std::string& name, TypeKind kind) {
  iceberg::Field field;
  field.id = id;
  field.name = name;
  field.type.kind = kind;
  return field;
}

// The schema and specs of the fixtures, and a few more columns.
iceberg::TableMetadata Table() {
  iceberg::TableMetadata table;
  iceberg::Schema schema;
  schema.fields = {
      Column(1, "id", TypeKind::kLong),          Column(2, "region", TypeKind::kString),
      Column(3, "ts", TypeKind::kTimestamptz),   Column(4, "price", TypeKind::kDecimal),
      Column(5, "key", TypeKind::kUuid),         Column(6, "score", TypeKind::kDouble),
      Column(7, "day", TypeKind::kDate),         Column(8, "ok", TypeKind::kBoolean),
      Column(9, "ratio", TypeKind::kFloat),      Column(10, "blob", TypeKind::kBinary),
      Column(11, "code", TypeKind::kFixed),      Column(12, "at", TypeKind::kTime),
      Column(13, "naive", TypeKind::kTimestamp), Column(14, "nanos", TypeKind::kTimestampNs),
      Column(15, "wide", TypeKind::kDecimal)};
  schema.fields[3].type.precision = 9;
  schema.fields[3].type.scale = 2;
  schema.fields[10].type.length = 3;
  schema.fields[14].type.precision = 38;
  schema.fields[14].type.scale = 10;
  table.schemas = {schema};
  iceberg::PartitionSpec fixtures;
  fixtures.spec_id = 3;
  fixtures.fields = {{{2}, 1000, "region", "identity"},      {{3}, 1001, "ts_day", "day"},
                     {{1}, 1002, "id_bucket", "bucket[16]"}, {{4}, 1003, "price", "identity"},
                     {{5}, 1004, "key", "identity"},         {{6}, 1005, "score", "identity"},
                     {{7}, 1006, "day", "identity"},         {{8}, 1007, "ok", "identity"}};
  iceberg::PartitionSpec foreign;
  foreign.spec_id = 4;
  foreign.fields = {{{1}, 1000, "id_bucket", "bucket[16]"}, {{99}, 1001, "money", "identity"}};
  iceberg::PartitionSpec every;
  every.spec_id = 5;
  for (int id = 1; id <= 15; ++id) {
    every.fields.push_back({{id}, 999 + id, "p " + std::to_string(id), "identity"});
  }
  every.fields.push_back({{1}, 1015, "nothing", "void"});
  iceberg::PartitionSpec none;
  table.partition_specs = {none, fixtures, foreign, every};
  return table;
}

Result<std::vector<ManifestEntry>> Entries(std::string_view bytes, const ManifestFile& manifest,
                                           const iceberg::TableMetadata& table,
                                           const ManifestReadOptions& options = {}) {
  std::vector<ManifestEntry> entries;
  LITHIFY_TRY(ReadManifest(bytes, manifest, table, options, [&](ManifestEntry&& entry) -> Status {
    entries.push_back(std::move(entry));
    return {};
  }));
  return entries;
}

std::string Uuid() {
  Type type;
  type.kind = TypeKind::kUuid;
  return std::get<std::string>(*ParseValue(type, "f79c3e09-677c-4bbd-a479-3f349cb785e7"));
}

std::string LittleEndian(int64_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// What make_manifests.py writes.
ManifestEntry FixtureEntry(int number, bool v1) {
  ManifestEntry entry;
  const bool added = number < 6;
  entry.status = added ? EntryStatus::kAdded : EntryStatus::kExisting;
  entry.snapshot_id = added ? 77 : 66;
  entry.sequence_number = v1 ? 0 : added ? 9 : 5;
  entry.file_sequence_number = v1 ? 0 : added ? 9 : 4;
  DataFile& file = entry.file;
  file.file_path = "s3://bucket/t/data/region=eu/0000" + std::to_string(number) + ".parquet";
  file.file_format = "PARQUET";
  file.spec_id = 3;
  file.partition = {number % 2 == 0 ? Value(std::string("eu")) : Value(),
                    int64_t{17486},
                    int64_t{number},
                    Decimal{-1420},
                    Uuid(),
                    0.5,
                    int64_t{17486},
                    true};
  file.record_count = 100 + number;
  file.file_size_in_bytes = 10000 + number;
  file.column_sizes = {{1, 400}, {2, 500 + number}};
  file.value_counts = {{1, 100 + number}, {2, 100 + number}};
  file.null_value_counts = {{1, 0}, {2, number}};
  file.nan_value_counts = {{6, 1}};
  file.lower_bounds = {{1, LittleEndian(number)}, {2, "eu"}};
  file.upper_bounds = {{1, LittleEndian(number + 100)}, {2, "ev"}};
  file.split_offsets = {4, 5000};
  file.sort_order_id = 1;
  return entry;
}

ManifestFile FixtureManifest(bool v1) {
  ManifestFile manifest;
  manifest.manifest_path = "m0.avro";
  manifest.partition_spec_id = 3;
  manifest.sequence_number = v1 ? 0 : 9;
  manifest.added_snapshot_id = 77;
  return manifest;
}

TEST(ReadManifest, PyicebergOfEachVersionAndCodec) {
  for (const std::string name :
       {"v1-null", "v1-deflate", "v2-null", "v2-deflate", "v2-zstandard"}) {
    const bool v1 = name.starts_with("v1");
    const auto entries = Entries(Fixture(name + "-m0.avro"), FixtureManifest(v1), Table());
    ASSERT_TRUE(entries) << name << ": " << entries.error().ToString();
    ASSERT_EQ(entries->size(), 8U);
    for (int i = 0; i < 8; ++i) EXPECT_EQ((*entries)[i], FixtureEntry(i, v1)) << name << i;
  }
}

TEST(ReadManifestList, PyicebergV2) {
  const auto list = ReadManifestList(Fixture("v2-list.avro"), "v2-list.avro");
  ASSERT_TRUE(list) << list.error().ToString();
  ASSERT_EQ(list->size(), 3U);
  const ManifestFile& manifest = (*list)[0];
  EXPECT_EQ(manifest.manifest_path, "s3://bucket/t/metadata/v2-null-m0.avro");
  EXPECT_EQ(manifest.manifest_length, 7497);
  EXPECT_EQ(manifest.partition_spec_id, 3);
  EXPECT_EQ(manifest.content, ManifestContent::kData);
  EXPECT_EQ(manifest.sequence_number, 9);
  EXPECT_EQ(manifest.min_sequence_number, 5);
  EXPECT_EQ(manifest.added_snapshot_id, 77);
  EXPECT_EQ(manifest.added_files_count, 6);
  EXPECT_EQ(manifest.existing_files_count, 2);
  EXPECT_EQ(manifest.deleted_files_count, 0);
  EXPECT_EQ(manifest.added_rows_count, 615);
  EXPECT_EQ(manifest.existing_rows_count, 213);
  EXPECT_EQ(manifest.deleted_rows_count, 0);
  EXPECT_EQ(manifest.key_metadata, std::nullopt);
  EXPECT_EQ(manifest.first_row_id, std::nullopt);
  ASSERT_EQ(manifest.partitions.size(), 8U);
  EXPECT_TRUE(manifest.partitions[0].contains_null);
  EXPECT_EQ(manifest.partitions[0].contains_nan, false);
  EXPECT_EQ(manifest.partitions[0].lower_bound, "eu");
  EXPECT_FALSE(manifest.partitions[3].contains_null);
  EXPECT_EQ(manifest.partitions[3].upper_bound, "\xFA\x74");
}

TEST(ReadManifestList, PyicebergV1HasDefaults) {
  const auto list = ReadManifestList(Fixture("v1-list.avro"), "v1-list.avro");
  ASSERT_TRUE(list) << list.error().ToString();
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ((*list)[1].manifest_path, "s3://bucket/t/metadata/v1-deflate-m0.avro");
  EXPECT_EQ((*list)[1].content, ManifestContent::kData);
  EXPECT_EQ((*list)[1].sequence_number, 0);
  EXPECT_EQ((*list)[1].min_sequence_number, 0);
  EXPECT_EQ((*list)[1].added_snapshot_id, 77);
}

ManifestFile ForeignManifest() {
  ManifestFile manifest;
  manifest.manifest_path = "foreign.avro";
  manifest.partition_spec_id = 4;
  manifest.sequence_number = 8;
  manifest.added_snapshot_id = 88;
  manifest.first_row_id = 1000;
  return manifest;
}

TEST(ReadManifest, IdsCountAndNotNames) {
  for (const std::string codec : {"null", "deflate", "snappy", "zstandard"}) {
    const auto entries =
        Entries(Fixture("v3-" + codec + "-fastavro.avro"), ForeignManifest(), Table());
    ASSERT_TRUE(entries) << codec << ": " << entries.error().ToString();
    ASSERT_EQ(entries->size(), 7U);
    const iceberg::Int128 money = -(iceberg::Int128{12345678901234567} * 1000 + 890);
    for (int i = 0; i < 7; ++i) {
      const ManifestEntry& entry = (*entries)[i];
      EXPECT_EQ(entry.status, i == 3  ? EntryStatus::kDeleted
                              : i < 5 ? EntryStatus::kAdded
                                      : EntryStatus::kExisting);
      EXPECT_EQ(entry.snapshot_id, i < 3 ? 88 : 55);
      EXPECT_EQ(entry.sequence_number, i < 3 ? 8 : 6);
      EXPECT_EQ(entry.file_sequence_number, i < 3 ? 8 : 6);
      EXPECT_EQ(entry.file.file_path, "s3://bucket/t/" + std::to_string(i) + ".parquet");
      EXPECT_EQ(entry.file.file_format, "PARQUET");
      EXPECT_EQ(entry.file.spec_id, 4);
      EXPECT_EQ(entry.file.partition, (std::vector<Value>{int64_t{i}, Decimal{money}}));
      EXPECT_EQ(entry.file.record_count, 10 * (i + 1));
      EXPECT_EQ(entry.file.lower_bounds,
                (iceberg::ByField<std::string>{{1, "a"}, {2, "b"}}));  // Sorted.
      EXPECT_EQ(entry.file.value_counts, (iceberg::ByField<int64_t>{{7, 70}}));
      EXPECT_EQ(entry.file.split_offsets, std::vector<int64_t>{4});
    }
    // [First Row ID Inheritance]: 10 + 20 (has its own) + 30 + 40 (deleted) + 50 + 60 + 70 rows.
    EXPECT_EQ((*entries)[0].file.first_row_id, 1000);
    EXPECT_EQ((*entries)[1].file.first_row_id, 5000);
    EXPECT_EQ((*entries)[2].file.first_row_id, 1010);
    EXPECT_EQ((*entries)[3].file.first_row_id, std::nullopt);
    EXPECT_EQ((*entries)[4].file.first_row_id, 1040);
    EXPECT_EQ((*entries)[5].file.first_row_id, 1090);
    EXPECT_EQ((*entries)[6].file.first_row_id, 1150);
  }
}

TEST(ReadManifest, WithoutFirstRowIdOfTheManifestNoFileHasOne) {
  ManifestFile manifest = ForeignManifest();
  manifest.first_row_id.reset();
  const auto entries = Entries(Fixture("v3-null-fastavro.avro"), manifest, Table());
  ASSERT_TRUE(entries);
  for (const ManifestEntry& entry : *entries) {
    EXPECT_EQ(entry.file.first_row_id, std::nullopt);
  }
}

TEST(ReadManifest, OptionsLeaveThingsOut) {
  ManifestReadOptions options;
  options.metrics = false;
  options.live_only = true;
  options.bounds_of = {2};
  const auto entries =
      Entries(Fixture("v3-snappy-fastavro.avro"), ForeignManifest(), Table(), options);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 6U);
  EXPECT_EQ((*entries)[3].file.file_path, "s3://bucket/t/4.parquet");
  EXPECT_EQ((*entries)[3].file.first_row_id, 1040);
  for (const ManifestEntry& entry : *entries) {
    EXPECT_TRUE(entry.file.value_counts.empty());
    EXPECT_EQ(entry.file.lower_bounds, (iceberg::ByField<std::string>{{2, "b"}}));
    EXPECT_EQ(entry.file.split_offsets, std::vector<int64_t>{4});
  }
}

TEST(ReadManifest, CountsOfNullsOfSomeFieldsAlone) {
  ManifestReadOptions options;
  options.metrics = false;
  options.null_counts = true;
  for (const int field : {2, 6}) {
    options.bounds_of = {field};
    const auto entries =
        Entries(Fixture("v2-deflate-m0.avro"), FixtureManifest(false), Table(), options);
    ASSERT_TRUE(entries) << entries.error().ToString();
    for (int i = 0; i < 8; ++i) {
      const DataFile& file = (*entries)[static_cast<size_t>(i)].file;
      const iceberg::ByField<int64_t> nulls = {{2, i}};
      const iceberg::ByField<int64_t> nans = {{6, 1}};
      EXPECT_EQ(file.null_value_counts, field == 2 ? nulls : iceberg::ByField<int64_t>());
      EXPECT_EQ(file.nan_value_counts, field == 6 ? nans : iceberg::ByField<int64_t>());
      EXPECT_TRUE(file.value_counts.empty());
      EXPECT_TRUE(file.column_sizes.empty());
    }
  }
}

TEST(ReadManifest, AnErrorOfTheVisitorEndsIt) {
  int calls = 0;
  const Status status = ReadManifest(Fixture("v3-null-fastavro.avro"), ForeignManifest(), Table(),
                                     {}, [&](ManifestEntry&&) -> Status {
                                       if (++calls == 2) return Fail(Code::kCancelled, "stop");
                                       return {};
                                     });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(calls, 2);
}

TEST(ManifestPartitionTypes, OfTheSchemaOrElseOfTheManifest) {
  const auto types =
      ManifestPartitionTypes(Fixture("v3-null-fastavro.avro"), ForeignManifest(), Table());
  ASSERT_TRUE(types) << types.error().ToString();
  ASSERT_EQ(types->size(), 2U);
  EXPECT_EQ((*types)[0].kind, TypeKind::kInt);
  EXPECT_EQ((*types)[1].kind, TypeKind::kDecimal);
  EXPECT_EQ((*types)[1].precision, 20);
  EXPECT_EQ((*types)[1].scale, 3);
}

TEST(ReadManifest, SaysWhatContradictsTheList) {
  const std::string bytes = Fixture("v2-null-m0.avro");
  const auto fails = [&](const std::function<void(ManifestFile&)>& change) {
    ManifestFile manifest = FixtureManifest(false);
    change(manifest);
    const auto entries = Entries(bytes, manifest, Table());
    EXPECT_FALSE(entries);
    return entries ? "" : entries.error().ToString();
  };
  EXPECT_EQ(fails([](ManifestFile& m) { m.partition_spec_id = 7; }),
            "corrupt: m0.avro: the table has no partition spec 7");
  EXPECT_EQ(fails([](ManifestFile& m) { m.partition_spec_id = 4; }),
            "corrupt: m0.avro: its header says partition spec 3, the manifest list says 4");
  EXPECT_EQ(fails([](ManifestFile& m) { m.content = ManifestContent::kDeletes; }),
            "corrupt: m0.avro: its header says content \"data\", the manifest list says deletes");
  EXPECT_EQ(fails([](ManifestFile& m) { m.manifest_length = 7498; }),
            "corrupt: m0.avro: it has 7497 bytes, the manifest list says 7498: it was cut short");
  EXPECT_EQ(fails([](ManifestFile& m) { m.key_metadata = "k"; }),
            "unsupported: m0.avro: the manifest is encrypted");
  EXPECT_EQ(fails([](ManifestFile& m) {
              m.added_files_count = 6;
              m.existing_files_count = 2;
              m.deleted_files_count = 1;
            }),
            "corrupt: m0.avro: it has 8 entries, fewer than the manifest list claims: it may have "
            "been cut short");
}

// --- hand-made schemas -------------------------------------------------------------------------

std::string Handmade(std::string_view schema, const std::function<void(AvroEncoder&)>& record,
                     std::map<std::string, std::string> metadata = {}) {
  auto writer = AvroWriter::Open(schema, std::move(metadata), "null");
  EXPECT_TRUE(writer);
  record(writer->record());
  EXPECT_TRUE(writer->EndRecord());
  auto bytes = writer->Finish();
  EXPECT_TRUE(bytes);
  return *bytes;
}

TEST(ReadManifest, NamesWhereThereAreNoIds) {
  const std::string bytes = Handmade(
      R"({"type":"record","name":"manifest_entry","fields":[
        {"name":"status","type":"int"},{"name":"snapshot_id","type":"long"},
        {"name":"data_file","type":{"type":"record","name":"r2","fields":[
          {"name":"file_path","type":"string"},{"name":"file_format","type":"bytes"},
          {"name":"partition","type":{"type":"record","name":"r102","fields":[
            {"name":"money","type":["null","string"]},{"name":"id_bucket","type":"long"}]}},
          {"name":"record_count","type":"int"},{"name":"file_size_in_bytes","type":"long"}]}}]})",
      [](AvroEncoder& out) {
        out.Int(1);
        out.Long(5);
        out.Bytes("p");
        out.Bytes("orc");
        out.Present(true);
        out.Bytes("much");
        out.Long(3);
        out.Int(9);
        out.Long(90);
      });
  ManifestFile manifest = ForeignManifest();
  const auto entries = Entries(bytes, manifest, Table());
  ASSERT_TRUE(entries) << entries.error().ToString();
  ASSERT_EQ(entries->size(), 1U);
  const ManifestEntry& entry = (*entries)[0];
  EXPECT_EQ(entry.snapshot_id, 5);
  EXPECT_EQ(entry.file.file_format, "ORC");
  EXPECT_EQ(entry.file.record_count, 9);
  EXPECT_EQ(entry.file.partition, (std::vector<Value>{int64_t{3}, std::string("much")}));
  // A v1 manifest has no sequence number column: 0, whatever the list says.
  EXPECT_EQ(entry.sequence_number, 0);
  EXPECT_EQ(entry.file_sequence_number, 0);
}

// Value of one entry with one changed field, or the error.
std::string Message(const std::string& fields, const std::function<void(AvroEncoder&)>& record) {
  ManifestFile manifest = ForeignManifest();
  manifest.partition_spec_id = 0;
  const auto entries = Entries(Handmade(R"({"type":"record","name":"e","fields":[)" + fields + "]}",
                                        record, {{"format-version", "2"}}),
                               manifest, Table());
  return entries ? "" : entries.error().ToString();
}

constexpr char kFile[] =
    R"({"name":"f","field-id":2,"type":{"type":"record","name":"r2","fields":[
        {"name":"a","field-id":100,"type":["null","string"]},
        {"name":"b","field-id":101,"type":"string"},
        {"name":"c","field-id":103,"type":"long"},
        {"name":"d","field-id":104,"type":"long"},
        {"name":"e","field-id":134,"type":"int"}]}})";

void PutFile(AvroEncoder& out, bool path, int64_t size, int content) {
  out.Present(path);
  if (path) out.Bytes("p");
  out.Bytes("parquet");
  out.Long(1);
  out.Long(size);
  out.Int(content);
}

TEST(ReadManifest, ErrorsNameEntryAndField) {
  const std::string status = R"({"name":"s","field-id":0,"type":"int"},)";
  const auto with = [&](int state, bool path, int64_t size, int content) {
    return Message(status + kFile, [&](AvroEncoder& out) {
      out.Int(state);
      PutFile(out, path, size, content);
    });
  };
  EXPECT_EQ(with(1, true, 5, 0), "");
  EXPECT_EQ(with(1, false, 5, 0), "corrupt: foreign.avro: entry 0, field file_path: it is null");
  EXPECT_EQ(with(1, true, -5, 0),
            "corrupt: foreign.avro: entry 0, field file_size_in_bytes: it is negative");
  EXPECT_EQ(with(3, true, 5, 0),
            "corrupt: foreign.avro: entry 0, field status: it is not 0, 1 or 2");
  EXPECT_EQ(with(1, true, 5, 3),
            "corrupt: foreign.avro: entry 0, field content: it is not 0, 1 or 2");
  EXPECT_EQ(with(1, true, 5, 1),
            "corrupt: foreign.avro: entry 0, field content: data and delete files in one manifest");
  EXPECT_EQ(with(0, true, 5, 0),
            "corrupt: foreign.avro: entry 0, field sequence_number: it is null for an existing "
            "file");
  EXPECT_EQ(Message(kFile, [](AvroEncoder& out) { PutFile(out, true, 5, 0); }),
            "corrupt: foreign.avro: the Avro schema has no field status (0)");
  EXPECT_EQ(Message(R"({"name":"s","field-id":0,"type":"string"},)" + std::string(kFile),
                    [](AvroEncoder& out) { out.Bytes("x"); }),
            "corrupt: foreign.avro: field status (0) has an Avro type that does not fit: string");
}

// --- written by us -----------------------------------------------------------------------------

iceberg::Int128 Wide() {
  iceberg::Int128 value = -1;
  for (int i = 0; i < 37; ++i) value = value * 10 - 3;
  return value;
}

DataFile EveryKind(int number) {
  DataFile file;
  file.file_path = "file:///t/data/" + std::to_string(number) + ".parquet";
  file.file_format = "PARQUET";
  file.spec_id = 5;
  file.partition = {int64_t{1} << 40,
                    std::string("r\xC3\xA9gion"),
                    int64_t{1'510'871'468'000'001},
                    Decimal{-999999999},
                    Uuid(),
                    -0.0,
                    int64_t{-3},
                    false,
                    0.25F,
                    std::string("\0\xFF", 2),
                    std::string("abc"),
                    int64_t{81'068'000'000},
                    int64_t{-1},
                    int64_t{1},
                    Decimal{Wide()},
                    Value()};
  file.record_count = 1000 + number;
  file.file_size_in_bytes = 5000 + number;
  file.column_sizes = {{1, 10}, {2, 20}};
  file.value_counts = {{1, 30}};
  file.null_value_counts = {{1, 0}};
  file.nan_value_counts = {{6, 2}};
  file.lower_bounds = {{1, LittleEndian(7)}, {2, ""}};
  file.upper_bounds = {{1, LittleEndian(9)}};
  file.split_offsets = {4, 400};
  file.sort_order_id = 2;
  return file;
}

ManifestWriteOptions WriteOptions(int version, const std::string& codec) {
  ManifestWriteOptions options;
  options.format_version = version;
  options.spec = *Table().FindSpec(5);
  options.schema = Table().schema();
  options.snapshot_id = 42;
  options.codec = codec;
  return options;
}

std::vector<ManifestEntry> SampleEntries() {
  std::vector<ManifestEntry> entries(4);
  for (int i = 0; i < 4; ++i) entries[i].file = EveryKind(i);
  entries[0].status = EntryStatus::kAdded;  // Inherits.
  entries[0].snapshot_id = 42;
  entries[0].sequence_number = entries[0].file_sequence_number = kInheritSequenceNumber;
  entries[1].status = EntryStatus::kAdded;  // With the planned data sequence number (R110).
  entries[1].snapshot_id = 42;
  entries[1].sequence_number = 17;
  entries[2].status = EntryStatus::kExisting;
  entries[2].snapshot_id = 30;
  entries[2].sequence_number = 12;
  entries[2].file_sequence_number = 13;
  entries[3].status = EntryStatus::kDeleted;
  entries[3].snapshot_id = 42;
  entries[3].sequence_number = 3;
  entries[3].file_sequence_number = 4;
  for (Value& value : entries[2].file.partition) value = Value();
  entries[2].file.partition[5] = std::numeric_limits<double>::quiet_NaN();
  return entries;
}

// NaN is not equal to itself.
void ExpectEqual(ManifestEntry a, ManifestEntry b) {
  for (ManifestEntry* entry : {&a, &b}) {
    if (const double* score = std::get_if<double>(&entry->file.partition[5])) {
      if (*score != *score) entry->file.partition[5] = std::string("NaN");
    }
  }
  EXPECT_EQ(a, b) << a.file.file_path;
}

TEST(WriteManifest, RoundTripOfEachVersionAndCodec) {
  for (const int version : {1, 2, 3}) {
    for (const std::string codec : {"null", "deflate", "zstandard", "snappy"}) {
      std::vector<ManifestEntry> entries = SampleEntries();
      if (version >= 2) entries[2].file.referenced_data_file = "f";
      if (version == 3) entries[2].file.first_row_id = 70;
      auto written = WriteManifest(entries, WriteOptions(version, codec));
      ASSERT_TRUE(written) << written.error().ToString();
      ManifestFile& manifest = written->file;
      EXPECT_EQ(manifest.manifest_length, static_cast<int64_t>(written->bytes.size()));
      EXPECT_EQ(manifest.added_snapshot_id, 42);
      EXPECT_EQ(manifest.added_files_count, 2);
      EXPECT_EQ(manifest.existing_files_count, 1);
      EXPECT_EQ(manifest.deleted_files_count, 1);
      EXPECT_EQ(manifest.added_rows_count, 2001);
      EXPECT_EQ(manifest.existing_rows_count, 1002);
      EXPECT_EQ(manifest.deleted_rows_count, 1003);
      EXPECT_EQ(manifest.sequence_number, 0);
      EXPECT_EQ(manifest.min_sequence_number, version == 1 ? 0 : 12);  // Live ones only.
      manifest.manifest_path = "m";
      manifest.sequence_number = version == 1 ? 0 : 20;
      if (version == 3) manifest.first_row_id = 500;
      const auto back = Entries(written->bytes, manifest, Table());
      ASSERT_TRUE(back) << back.error().ToString();
      ASSERT_EQ(back->size(), 4U);
      for (size_t i = 0; i < 4; ++i) {
        ManifestEntry& expected = entries[i];
        if (version == 1) expected.sequence_number = expected.file_sequence_number = 0;
        if (expected.sequence_number == kInheritSequenceNumber) expected.sequence_number = 20;
        if (version > 1 && expected.status == EntryStatus::kAdded) {
          expected.file_sequence_number = 20;
        }
        if (version == 3 && i == 0) expected.file.first_row_id = 500;
        if (version == 3 && i == 1) expected.file.first_row_id = 1500;
        ExpectEqual((*back)[i], expected);
      }
    }
  }
}

TEST(WriteManifest, HeaderAndSummaries) {
  const auto written = WriteManifest(SampleEntries(), WriteOptions(3, "deflate"));
  ASSERT_TRUE(written);
  const auto reader = AvroReader::Open(written->bytes);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->Metadata("format-version"), "3");
  EXPECT_EQ(reader->Metadata("partition-spec-id"), "5");
  EXPECT_EQ(reader->Metadata("schema-id"), "0");
  EXPECT_EQ(reader->Metadata("content"), "data");
  EXPECT_TRUE(reader->Metadata("schema").starts_with("{"));
  EXPECT_TRUE(reader->Metadata("partition-spec").starts_with("[{"));
  const auto& summaries = written->file.partitions;
  ASSERT_EQ(summaries.size(), 16U);
  EXPECT_TRUE(summaries[0].contains_null);
  EXPECT_EQ(summaries[0].contains_nan, false);
  EXPECT_EQ(summaries[0].lower_bound, LittleEndian(int64_t{1} << 40));
  EXPECT_FALSE(summaries[5].contains_null);
  EXPECT_EQ(summaries[5].contains_nan, true);
  EXPECT_EQ(summaries[5].upper_bound, std::string("\0\0\0\0\0\0\0\x80", 8));
  EXPECT_TRUE(summaries[15].contains_null);
  EXPECT_EQ(summaries[15].lower_bound, std::nullopt);
}

TEST(WriteManifest, DeletesOfEachKind) {
  std::vector<ManifestEntry> entries(3);
  for (ManifestEntry& entry : entries) {
    entry.status = EntryStatus::kAdded;
    entry.sequence_number = kInheritSequenceNumber;
    entry.file = EveryKind(0);
    entry.file.content = FileContent::kPositionDeletes;
  }
  entries[1].file.content = FileContent::kEqualityDeletes;
  entries[1].file.equality_ids = {1, 4};
  entries[2].file.file_format = "PUFFIN";
  entries[2].file.referenced_data_file = "file:///t/data/0.parquet";
  entries[2].file.content_offset = 4;
  entries[2].file.content_size_in_bytes = 44;
  ManifestWriteOptions options = WriteOptions(3, "deflate");
  options.content = ManifestContent::kDeletes;
  auto written = WriteManifest(entries, options);
  ASSERT_TRUE(written) << written.error().ToString();
  EXPECT_EQ(written->file.content, ManifestContent::kDeletes);
  EXPECT_EQ(written->file.min_sequence_number, kInheritSequenceNumber);
  written->file.sequence_number = 6;
  const auto back = Entries(written->bytes, written->file, Table());
  ASSERT_TRUE(back) << back.error().ToString();
  for (size_t i = 0; i < 3; ++i) {
    entries[i].snapshot_id = 42;
    entries[i].sequence_number = entries[i].file_sequence_number = 6;
    EXPECT_EQ((*back)[i], entries[i]);
  }
  // A deletion vector is nothing for v2.
  options.format_version = 2;
  const auto refused = WriteManifest(entries, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

// The bytes of the written manifest with one text in place of another of the same length.
std::string Replaced(std::string bytes, const std::string& from, const std::string& to) {
  EXPECT_EQ(from.size(), to.size());
  const size_t at = bytes.rfind(from);
  EXPECT_NE(at, std::string::npos);
  return at == std::string::npos ? bytes : bytes.replace(at, from.size(), to);
}

TEST(ReadManifest, DeletionVectorsWithoutFileOffsetOrSizeAreCorrupt) {
  // The writer refuses them: what it wrote in another format is given the name of this one.
  struct Case {
    std::function<void(DataFile&)> change;
    const char* expected;
  };
  const std::vector<Case> cases{
      {[](DataFile& f) { f.referenced_data_file.reset(); }, "referenced_data_file"},
      {[](DataFile& f) { f.referenced_data_file = ""; }, "referenced_data_file"},
      {[](DataFile& f) { f.content_offset.reset(); }, "content_offset"},
      {[](DataFile& f) { f.content_size_in_bytes.reset(); }, "content_size_in_bytes"},
      {[](DataFile&) {}, ""},
  };
  for (const Case& c : cases) {
    ManifestEntry entry;
    entry.status = EntryStatus::kAdded;
    entry.sequence_number = kInheritSequenceNumber;
    entry.file = EveryKind(0);
    entry.file.content = FileContent::kPositionDeletes;
    entry.file.file_format = "NIFFUP";
    entry.file.referenced_data_file = "file:///t/data/0.parquet";
    entry.file.content_offset = 4;
    entry.file.content_size_in_bytes = 44;
    c.change(entry.file);
    ManifestWriteOptions options = WriteOptions(3, "null");
    options.content = ManifestContent::kDeletes;
    const auto written = WriteManifest(std::vector<ManifestEntry>{entry}, options);
    ASSERT_TRUE(written) << written.error().ToString();
    ManifestFile manifest = written->file;
    manifest.sequence_number = 6;
    EXPECT_TRUE(Entries(written->bytes, manifest, Table()));
    for (const bool metrics : {true, false}) {
      ManifestReadOptions read;
      read.metrics = metrics;
      const auto entries =
          Entries(Replaced(written->bytes, "NIFFUP", "PUFFIN"), manifest, Table(), read);
      ASSERT_EQ(entries.has_value(), *c.expected == 0) << c.expected;
      if (entries) continue;
      EXPECT_EQ(entries.error().code, Code::kCorrupt);
      EXPECT_THAT(entries.error().ToString(), HasSubstr(c.expected));
      EXPECT_THAT(entries.error().ToString(), HasSubstr("a deletion vector without it"));
    }
  }
}

TEST(WriteManifest, HostileCountsThatOverflowAreCorrupt) {
  std::vector<ManifestEntry> entries{SampleEntries()[2], SampleEntries()[2]};
  for (ManifestEntry& entry : entries) {
    entry.file.record_count = std::numeric_limits<int64_t>::max();
  }
  const auto written = WriteManifest(entries, WriteOptions(2, "null"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kCorrupt);
  EXPECT_THAT(written.error().ToString(), HasSubstr("more than 64 bits"));
}

TEST(WriteManifest, RefusesWhatTheVersionOrTheSpecDoesNotAllow) {
  const auto fails = [](int version, const std::function<void(ManifestEntry&)>& change) {
    std::vector<ManifestEntry> entries{SampleEntries()[2]};
    change(entries[0]);
    const auto written = WriteManifest(entries, WriteOptions(version, "null"));
    EXPECT_FALSE(written);
    if (!written) {
      EXPECT_EQ(written.error().code, Code::kInvalid);
    }
    return written ? "" : written.error().message;
  };
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.first_row_id = 1; }),
            "row ids and deletion vectors need format version 3");
  EXPECT_EQ(fails(1, [](ManifestEntry& e) { e.file.referenced_data_file = "f"; }),
            "format version 1 has no referenced_data_file");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.content = FileContent::kPositionDeletes; }),
            "data and delete files do not go into one manifest");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.equality_ids = {1}; }),
            "equality_ids are for equality deletes, which need them");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.spec_id = 4; }),
            "its partition is not of spec 5");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.partition.pop_back(); }),
            "its partition is not of spec 5");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.partition[0] = std::string("x"); }),
            "the value of partition field \"p 1\" is not of its type");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.partition[10] = std::string("too long"); }),
            "the value of partition field \"p 11\" is not of its type");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.partition[6] = int64_t{1} << 40; }),
            "the value of partition field \"p 7\" is not of its type");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.file.partition[3] = Decimal{Wide()}; }),
            "the value of partition field \"p 4\" is not of its type");
  EXPECT_EQ(fails(2, [](ManifestEntry& e) { e.sequence_number = kInheritSequenceNumber; }),
            "only added files inherit their sequence numbers");
  EXPECT_EQ(fails(2,
                  [](ManifestEntry& e) {
                    e.status = EntryStatus::kAdded;
                    e.sequence_number = kInheritSequenceNumber;
                  }),
            "a file of snapshot 30 cannot inherit the sequence number of another");
  EXPECT_EQ(fails(4, [](ManifestEntry&) {}), "format version 4 cannot be written");
  EXPECT_FALSE(WriteManifest({}, WriteOptions(2, "null")));
}

TEST(WriteManifest, TypesOfADroppedColumnAreKept) {
  // Read with the manifest's own type, written with it again, read back equal.
  const iceberg::TableMetadata table = Table();
  const std::string bytes = Fixture("v3-null-fastavro.avro");
  ManifestFile manifest = ForeignManifest();
  const auto entries =
      Entries(bytes, manifest, table, {.metrics = true, .live_only = true, .bounds_of = {}});
  const auto types = ManifestPartitionTypes(bytes, manifest, table);
  ASSERT_TRUE(entries && types);
  ManifestWriteOptions options = WriteOptions(3, "deflate");
  options.spec = *table.FindSpec(4);
  std::vector<ManifestEntry> existing = *entries;
  for (ManifestEntry& entry : existing) entry.status = EntryStatus::kExisting;
  EXPECT_FALSE(WriteManifest(existing, options));
  options.partition_types = *types;
  auto written = WriteManifest(existing, options);
  ASSERT_TRUE(written) << written.error().ToString();
  written->file.first_row_id = 1;
  const auto back = Entries(written->bytes, written->file, table);
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(*back, existing);
  EXPECT_EQ(*ManifestPartitionTypes(written->bytes, written->file, table), *types);
}

TEST(ReadManifest, PartitionValuesArePromotedWithTheirColumn) {
  iceberg::TableMetadata old_table = Table();
  std::vector<iceberg::Field>& columns = old_table.schemas[0].fields;
  columns[0].type.kind = TypeKind::kInt;    // Now long.
  columns[5].type.kind = TypeKind::kFloat;  // Now double.
  columns[3].type.precision = 4;            // Now 9.
  columns[12].type.kind = TypeKind::kDate;  // Now timestamp.
  ManifestWriteOptions options = WriteOptions(3, "null");
  options.schema = old_table.schema();
  std::vector<ManifestEntry> entries{SampleEntries()[0]};
  std::vector<Value>& tuple = entries[0].file.partition;
  tuple[0] = int64_t{-5};
  tuple[5] = 0.5F;
  tuple[3] = Decimal{9999};
  tuple[12] = int64_t{2};
  const auto written = WriteManifest(entries, options);
  ASSERT_TRUE(written) << written.error().ToString();
  const auto back = Entries(written->bytes, written->file, Table());
  ASSERT_TRUE(back) << back.error().ToString();
  tuple[5] = 0.5;
  tuple[12] = int64_t{2 * 86'400'000'000};
  EXPECT_EQ((*back)[0].file.partition, tuple);
}

// --- manifest lists ----------------------------------------------------------------------------

ManifestFile SampleManifest(int number) {
  ManifestFile manifest;
  manifest.manifest_path = "file:///t/metadata/m" + std::to_string(number) + ".avro";
  manifest.manifest_length = 1000 + number;
  manifest.partition_spec_id = number;
  manifest.sequence_number = 10 + number;
  manifest.min_sequence_number = 5 + number;
  manifest.added_snapshot_id = 42;
  manifest.added_files_count = 1;
  manifest.existing_files_count = 2;
  manifest.deleted_files_count = 3;
  manifest.added_rows_count = 100;
  manifest.existing_rows_count = 200;
  manifest.deleted_rows_count = 300;
  manifest.partitions = {{true, false, "a", "b"},
                         {false, std::nullopt, std::nullopt, std::nullopt}};
  return manifest;
}

ManifestListHeader Header(int version, const std::string& codec = "deflate") {
  ManifestListHeader header;
  header.format_version = version;
  header.snapshot_id = 42;
  header.parent_snapshot_id = 41;
  header.sequence_number = 11;
  header.codec = codec;
  if (version == 3) header.first_row_id = 7000;
  return header;
}

TEST(WriteManifestList, RoundTripOfEachVersionAndCodec) {
  for (const int version : {1, 2, 3}) {
    for (const std::string codec : {"null", "deflate", "zstandard", "snappy"}) {
      std::vector<ManifestFile> manifests{SampleManifest(0), SampleManifest(1), SampleManifest(2)};
      manifests[1].key_metadata = "key";
      manifests[1].partitions.clear();
      if (version >= 2) manifests[2].content = ManifestContent::kDeletes;
      const auto written = WriteManifestList(manifests, Header(version, codec));
      ASSERT_TRUE(written) << written.error().ToString();
      if (version == 1) {
        for (ManifestFile& m : manifests) m.sequence_number = m.min_sequence_number = 0;
      }
      if (version == 3) {
        manifests[0].first_row_id = 7000;
        manifests[1].first_row_id = 7300;
      }
      EXPECT_EQ(written->next_row_id, version == 3 ? 7600 : 0);
      const auto back = ReadManifestList(written->bytes, "list");
      ASSERT_TRUE(back) << back.error().ToString();
      EXPECT_EQ(*back, manifests);
      const auto reader = AvroReader::Open(written->bytes);
      ASSERT_TRUE(reader);
      EXPECT_EQ(reader->Metadata("snapshot-id"), "42");
      EXPECT_EQ(reader->Metadata("parent-snapshot-id"), "41");
      EXPECT_EQ(reader->Metadata("format-version"), std::to_string(version));
      EXPECT_EQ(reader->Metadata("sequence-number"), version >= 2 ? "11" : "");
      EXPECT_EQ(reader->Metadata("first-row-id"), version == 3 ? "7000" : "");
    }
  }
}

TEST(WriteManifestList, EmptyListAndNoParent) {
  ManifestListHeader header = Header(3);
  header.parent_snapshot_id.reset();
  const auto written = WriteManifestList({}, header);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->next_row_id, 7000);
  EXPECT_EQ(AvroReader::Open(written->bytes)->Metadata("parent-snapshot-id"), "null");
  const auto back = ReadManifestList(written->bytes, "list");
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->empty());
}

TEST(WriteManifestList, RowIdsOfOlderManifestsStay) {
  std::vector<ManifestFile> manifests{SampleManifest(0), SampleManifest(1)};
  manifests[0].first_row_id = 3;
  const auto written = WriteManifestList(manifests, Header(3));
  ASSERT_TRUE(written);
  const auto back = ReadManifestList(written->bytes, "list");
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].first_row_id, 3);
  EXPECT_EQ((*back)[1].first_row_id, 7000);
  EXPECT_EQ(written->next_row_id, 7300);
}

TEST(WriteManifestList, InheritedSequenceNumbersBecomeTheHeaders) {
  ManifestFile manifest = SampleManifest(0);
  manifest.sequence_number = manifest.min_sequence_number = kInheritSequenceNumber;
  const auto written = WriteManifestList({&manifest, 1}, Header(2));
  ASSERT_TRUE(written);
  const auto back = ReadManifestList(written->bytes, "list");
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].sequence_number, 11);
  EXPECT_EQ((*back)[0].min_sequence_number, 11);
  manifest.added_snapshot_id = 40;
  EXPECT_FALSE(WriteManifestList({&manifest, 1}, Header(2)));
}

TEST(WriteManifestList, RefusesWhatTheVersionDoesNotAllow) {
  const auto fails = [](int version, const std::function<void(ManifestFile&)>& change) {
    ManifestFile manifest = SampleManifest(0);
    change(manifest);
    const auto written = WriteManifestList({&manifest, 1}, Header(version));
    EXPECT_FALSE(written);
    return written ? "" : written.error().message;
  };
  EXPECT_EQ(fails(1, [](ManifestFile& m) { m.content = ManifestContent::kDeletes; }),
            "format version 1 has no delete manifests");
  EXPECT_EQ(fails(2, [](ManifestFile& m) { m.first_row_id = 1; }), "row ids need format version 3");
  EXPECT_EQ(fails(2, [](ManifestFile& m) { m.added_files_count.reset(); }),
            "its counts of files and rows are unknown (format version 1 may leave them out)");
  EXPECT_EQ(fails(3, [](ManifestFile& m) { m.added_rows_count = INT64_MAX; }),
            "row ids beyond 64 bits");
  EXPECT_EQ(fails(2, [](ManifestFile& m) { m.manifest_path.clear(); }),
            "a manifest without a path");
  EXPECT_EQ(fails(2, [](ManifestFile& m) { m.added_files_count = int64_t{1} << 31; }),
            "a count of 2147483648 files");
  ManifestListHeader header = Header(3);
  header.first_row_id.reset();
  EXPECT_FALSE(WriteManifestList({}, header));
}

// --- hostile bytes -----------------------------------------------------------------------------

constexpr const char* kFixtures[] = {"v1-null-m0.avro",
                                     "v1-deflate-m0.avro",
                                     "v2-null-m0.avro",
                                     "v2-deflate-m0.avro",
                                     "v2-zstandard-m0.avro",
                                     "v1-list.avro",
                                     "v2-list.avro",
                                     "v3-null-fastavro.avro",
                                     "v3-deflate-fastavro.avro",
                                     "v3-snappy-fastavro.avro",
                                     "v3-zstandard-fastavro.avro"};

std::string Mutated(std::string bytes, SeededRandom& random) {
  for (uint64_t changes = random.Next() % 4 + 1; changes > 0 && !bytes.empty(); --changes) {
    const size_t at = random.Next() % bytes.size();
    switch (random.Next() % 5) {
      case 0: bytes[at] = static_cast<char>(random.Next()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Next() % 8)); break;
      case 2: bytes.erase(at, random.Next() % 9 + 1); break;
      case 3:
        bytes.insert(at, std::string(random.Next() % 9 + 1, static_cast<char>(random.Next())));
        break;
      default:
        if (random.Next() % 8 == 0) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

// Each mutation gives values or an error, never a crash; sanitizers see the rest.
class HostileBytes : public testing::TestWithParam<const char*> {};

TEST_P(HostileBytes, AreReadOrRefused) {
  const std::string name = GetParam();
  const std::string bytes = Fixture(name);
  const iceberg::TableMetadata table = Table();
  SeededRandom random(20261129);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string mutated = Mutated(bytes, random);
    if (name.find("list") != std::string::npos) {
      refused += ReadManifestList(mutated, name) ? 0 : 1;
      continue;
    }
    const ManifestFile manifest =
        name.starts_with("v3") ? ForeignManifest() : FixtureManifest(name.starts_with("v1"));
    ManifestReadOptions options;
    options.metrics = i % 2 == 0;
    refused += Entries(mutated, manifest, table, options) ? 0 : 1;
    (void)ManifestPartitionTypes(mutated, manifest, table);
  }
  EXPECT_GT(refused, 500);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HostileBytes, testing::ValuesIn(kFixtures));

}  // namespace
}  // namespace lithify::table
