// Manifests, manifest lists and metadata.json of the Go implementation, byte for byte as it writes
// them (tests/data/iceberg/go). tests/services/test_go.py is the same with whole tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "table/iceberg_manifest.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::DataFile;
using iceberg::Decimal;
using iceberg::EntryStatus;
using iceberg::FieldSummary;
using iceberg::FileContent;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::TableMetadata;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;
using testing::ElementsAre;
using testing::StartsWith;

std::string Fixture(const std::string& name) {
  std::ifstream in(std::string(LITHIFY_TEST_DATA) + "/iceberg/go/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<ManifestFile> List(const std::string& name) {
  const auto list = ReadManifestList(Fixture(name), name);
  EXPECT_TRUE(list) << list.error().ToString();
  return list ? *list : std::vector<ManifestFile>();
}

std::vector<ManifestEntry> Entries(const std::string& name, const ManifestFile& manifest,
                                   const TableMetadata& table) {
  std::vector<ManifestEntry> entries;
  const Status read =
      ReadManifest(Fixture(name), manifest, table, {}, [&](ManifestEntry&& entry) -> Status {
        entries.push_back(std::move(entry));
        return {};
      });
  EXPECT_TRUE(read) << read.error().ToString();
  return entries;
}

template <typename T>
std::string LittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// --- manifests of every form of value (tests/go/manifests.go) -----------------------------------

struct Part {
  std::string name;
  Type type;
  std::string transform;
  Value value;
};

Type Of(TypeKind kind, int precision = 0, int scale = 0, int length = 0) {
  Type type;
  type.kind = kind;
  type.precision = precision;
  type.scale = scale;
  type.length = length;
  return type;
}

// The partition fields, each with a column of its own, and the value of most files.
std::vector<Part> Parts(int version) {
  std::vector<Part> parts = {
      {"region", Of(TypeKind::kString), "identity", "eu"},
      {"id", Of(TypeKind::kLong), "identity", int64_t{-5'000'000'000}},
      {"count", Of(TypeKind::kInt), "identity", int64_t{-7}},
      {"ok", Of(TypeKind::kBoolean), "identity", true},
      {"ratio", Of(TypeKind::kFloat), "identity", -0.5F},
      {"score", Of(TypeKind::kDouble), "identity", std::nan("")},
      {"price", Of(TypeKind::kDecimal, 9, 2), "identity", Decimal{-1420}},
      {"day", Of(TypeKind::kDate), "identity", int64_t{17486}},
      {"at", Of(TypeKind::kTime), "identity", int64_t{81'068'000'001}},
      {"naive", Of(TypeKind::kTimestamp), "identity", int64_t{-1}},
      {"ts", Of(TypeKind::kTimestamptz), "identity", int64_t{1'510'871'468'000'001}},
      {"key", Of(TypeKind::kUuid), "identity",
       *ParseValue(Of(TypeKind::kUuid), "f79c3e09-677c-4bbd-a479-3f349cb785e7")},
      {"code", Of(TypeKind::kFixed, 0, 0, 3), "identity", std::string("\0\xFF\7", 3)},
      {"blob", Of(TypeKind::kBinary), "identity", std::string()},
      {"region_bucket", Of(TypeKind::kString), "bucket[16]", int64_t{11}},
      {"region_start", Of(TypeKind::kString), "truncate[1]", "e"},
      {"ts_year", Of(TypeKind::kTimestamptz), "year", int64_t{47}},
      {"ts_month", Of(TypeKind::kTimestamptz), "month", int64_t{574}},
      {"ts_day", Of(TypeKind::kTimestamptz), "day", int64_t{17486}},
      {"ts_hour", Of(TypeKind::kTimestamptz), "hour", int64_t{419'686}},
      {"nothing", Of(TypeKind::kLong), "void", Value()}};
  if (version == 3) {
    parts.push_back({"nanos", Of(TypeKind::kTimestampNs), "identity", int64_t{-1}});
  }
  return parts;
}

TableMetadata EveryKind(int version) {
  TableMetadata table;
  table.format_version = version;
  iceberg::Schema schema;
  iceberg::PartitionSpec spec;
  spec.spec_id = 3;
  for (const Part& part : Parts(version)) {
    iceberg::Field column;
    column.id = static_cast<int>(schema.fields.size()) + 1;
    column.name = part.name;
    column.type = part.type;
    spec.fields.push_back({{column.id}, 999 + column.id, part.name, part.transform});
    schema.fields.push_back(column);
  }
  table.schemas = {schema};
  table.partition_specs = {spec};
  return table;
}

// The only NaN becomes comparable.
void TakeNaN(std::vector<Value>& partition) {
  ASSERT_GT(partition.size(), 5U);
  ASSERT_TRUE(std::holds_alternative<double>(partition[5]));
  EXPECT_TRUE(std::isnan(std::get<double>(partition[5])));
  partition[5] = Value();
}

DataFile File(int number, int version, bool null_partition, bool metrics) {
  DataFile file;
  file.file_path = "s3://bucket/t/data/0000" + std::to_string(number) + ".PARQUET";
  file.file_format = "PARQUET";
  file.spec_id = 3;
  for (const Part& part : Parts(version)) {
    file.partition.push_back(null_partition ? Value() : part.value);
  }
  if (!null_partition) TakeNaN(file.partition);
  file.record_count = 100 + number;
  file.file_size_in_bytes = 10000 + number;
  if (!metrics) return file;
  file.column_sizes = {{1, 400}, {2, 500 + number}};
  file.value_counts = {{1, 100 + number}, {2, 100 + number}, {6, 100 + number}};
  file.null_value_counts = {{1, number}, {2, 0}};
  file.nan_value_counts = {{6, 1}};
  file.lower_bounds = {{1, "eu"}, {2, LittleEndian<int64_t>(-number)}};
  file.upper_bounds = {{1, "ev"}, {2, LittleEndian<int64_t>(number)}};
  file.split_offsets = {4, 5000};
  file.sort_order_id = 1;
  return file;
}

ManifestEntry Entry(EntryStatus status, int version, DataFile file) {
  const bool added = status == EntryStatus::kAdded;
  ManifestEntry entry;
  entry.status = status;
  entry.snapshot_id = status == EntryStatus::kExisting ? 66 : 77;
  entry.sequence_number = version == 1 ? 0 : added ? 9 : 5;
  entry.file_sequence_number = version == 1 ? 0 : added ? 9 : 4;
  entry.file = std::move(file);
  return entry;
}

void ExpectEntries(std::vector<ManifestEntry> found, const std::vector<ManifestEntry>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (!iceberg::IsNull(found[i].file.partition[0])) TakeNaN(found[i].file.partition);
    EXPECT_EQ(found[i], expected[i]) << i;
  }
}

std::string Name(int version, const std::string& what) {
  return "v" + std::to_string(version) + "-" + what + ".avro";
}

TEST(GoManifests, DataFilesOfEachVersion) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    const std::vector<ManifestFile> list = List(Name(version, "list"));
    ASSERT_FALSE(list.empty());
    std::vector<ManifestEntry> expected = {
        Entry(EntryStatus::kAdded, version, File(0, version, false, true)),
        Entry(EntryStatus::kAdded, version, File(1, version, true, false)),
        Entry(EntryStatus::kExisting, version, File(2, version, false, true)),
        Entry(EntryStatus::kDeleted, version, File(3, version, false, true)),
        Entry(EntryStatus::kAdded, version, File(4, version, true, true))};
    expected[0].file.key_metadata = std::string("\0key", 4);
    if (version == 3) {  // [First Row ID Inheritance]
      expected[0].file.first_row_id = 1000;
      expected[1].file.first_row_id = 1100;
      expected[2].file.first_row_id = 4000;
      expected[4].file.first_row_id = 1201;
    }
    ExpectEntries(Entries(Name(version, "data"), list[0], EveryKind(version)), expected);
  }
}

TEST(GoManifests, DeleteFilesOfEachVersion) {
  const std::string referenced = "s3://bucket/t/data/00000.PARQUET";
  for (const int version : {2, 3}) {
    SCOPED_TRACE(version);
    const std::vector<ManifestFile> list = List(Name(version, "list"));
    ASSERT_GT(list.size(), 1U);
    std::vector<ManifestEntry> expected = {
        Entry(EntryStatus::kAdded, version, File(5, version, false, false)),
        Entry(EntryStatus::kExisting, version, File(6, version, false, true))};
    expected[0].file.content = FileContent::kPositionDeletes;
    expected[0].file.lower_bounds = {{iceberg::kFilePathFieldId, referenced}};
    expected[0].file.upper_bounds = {{iceberg::kFilePathFieldId, referenced}};
    expected[1].file.content = FileContent::kEqualityDeletes;
    expected[1].file.equality_ids = {2, 1};
    if (version == 3) {  // Its v2 manifests have no such field.
      expected[0].file.referenced_data_file = referenced;
      ManifestEntry vector = Entry(EntryStatus::kAdded, version, File(7, version, false, false));
      vector.file.content = FileContent::kPositionDeletes;
      vector.file.file_path = "s3://bucket/t/data/00007.PUFFIN";
      vector.file.file_format = "PUFFIN";
      vector.file.referenced_data_file = referenced;
      vector.file.content_offset = 4;
      vector.file.content_size_in_bytes = 44;
      expected.push_back(vector);
    }
    ExpectEntries(Entries(Name(version, "deletes"), list[1], EveryKind(version)), expected);
  }
}

void ExpectSummaries(const std::vector<FieldSummary>& found, bool null, int version) {
  const std::string e = std::string("e");
  std::vector<FieldSummary> expected(Parts(version).size());
  const std::vector<std::string> bounds = {"eu",
                                           LittleEndian<int64_t>(-5'000'000'000),
                                           LittleEndian<int32_t>(-7),
                                           "\1",
                                           LittleEndian(-0.5F),
                                           "",
                                           "\xFA\x74",
                                           LittleEndian<int32_t>(17486),
                                           LittleEndian<int64_t>(81'068'000'001),
                                           LittleEndian<int64_t>(-1),
                                           LittleEndian<int64_t>(1'510'871'468'000'001),
                                           std::get<std::string>(Parts(version)[11].value),
                                           std::string("\0\xFF\7", 3),
                                           "",
                                           LittleEndian<int32_t>(11),
                                           "e",
                                           LittleEndian<int32_t>(47),
                                           LittleEndian<int32_t>(574),
                                           LittleEndian<int32_t>(17486),
                                           LittleEndian<int32_t>(419'686),
                                           "",
                                           LittleEndian<int64_t>(-1)};
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = {null, false, bounds[i], bounds[i]};
  }
  expected[5] = {null, true, std::nullopt, std::nullopt};    // All NaN.
  expected[20] = {true, false, std::nullopt, std::nullopt};  // All null.
  EXPECT_EQ(found, expected);
}

TEST(GoManifests, ListsOfEachVersion) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    const std::vector<ManifestFile> list = List(Name(version, "list"));
    ASSERT_EQ(list.size(), version == 1 ? 2U : 3U);
    ManifestFile data;
    data.manifest_path = "s3://bucket/t/metadata/" + Name(version, "data");
    data.manifest_length = static_cast<int64_t>(Fixture(Name(version, "data")).size());
    data.partition_spec_id = 3;
    data.sequence_number = version == 1 ? 0 : 9;
    data.min_sequence_number = version == 1 ? 0 : 5;
    data.added_snapshot_id = 77;
    data.added_files_count = 3;
    data.existing_files_count = 1;
    data.deleted_files_count = 1;
    data.added_rows_count = 305;
    data.existing_rows_count = 102;
    data.deleted_rows_count = 103;
    data.partitions = list[0].partitions;
    if (version == 3) data.first_row_id = 1000;
    EXPECT_EQ(list[0], data);
    ExpectSummaries(list[0].partitions, true, version);

    ManifestFile old;
    old.manifest_path = "s3://bucket/t/metadata/old.avro";
    old.manifest_length = 4321;
    old.partition_spec_id = 3;
    old.sequence_number = version == 1 ? 0 : 5;
    old.min_sequence_number = version == 1 ? 0 : 4;
    old.added_snapshot_id = 66;
    old.added_files_count = 1;
    old.existing_files_count = 2;
    old.deleted_files_count = 3;
    old.added_rows_count = 10;
    old.existing_rows_count = 20;
    old.deleted_rows_count = 30;
    old.key_metadata = "\xFFkey";
    if (version == 3) old.first_row_id = 1407;  // After the 407 rows of the first.
    EXPECT_EQ(list.back(), old);

    if (version == 1) continue;
    EXPECT_EQ(list[1].manifest_path, "s3://bucket/t/metadata/" + Name(version, "deletes"));
    EXPECT_EQ(list[1].content, ManifestContent::kDeletes);
    EXPECT_EQ(list[1].min_sequence_number, 5);
    EXPECT_EQ(list[1].added_files_count, version == 3 ? 2 : 1);
    EXPECT_EQ(list[1].added_rows_count, version == 3 ? 212 : 105);
    EXPECT_EQ(list[1].first_row_id, std::nullopt);
    ExpectSummaries(list[1].partitions, false, version);
  }
}

// --- whole tables (make_fixtures.py) ------------------------------------------------------------

// Two appends, then rows 2 and 3 deleted, and in v2 and v3 row 8 by equality.
struct GoTable {
  int version = 0;
  TableMetadata metadata;
  std::vector<ManifestFile> list;  // The newest first.
  std::vector<std::vector<ManifestEntry>> entries;
};

GoTable Read(int version) {
  GoTable table;
  table.version = version;
  const std::string name = "v" + std::to_string(version) + "_rows";
  const auto metadata = ParseTableMetadata(Fixture(name + ".metadata.json"), name);
  EXPECT_TRUE(metadata) << metadata.error().ToString();
  if (!metadata) return table;
  table.metadata = *metadata;
  table.list = List(name + "-list.avro");
  for (size_t i = 0; i < table.list.size(); ++i) {
    const std::string file = name + "-m" + std::to_string(i) + ".avro";
    EXPECT_EQ(table.list[i].manifest_length, static_cast<int64_t>(Fixture(file).size()));
    table.entries.push_back(Entries(file, table.list[i], table.metadata));
    for (const ManifestEntry& entry : table.entries.back()) {
      EXPECT_THAT(entry.file.file_path, StartsWith(table.metadata.location + "/data/"));
    }
  }
  return table;
}

TEST(GoTables, Metadata) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    const TableMetadata table = Read(version).metadata;
    EXPECT_EQ(table.format_version, version);
    EXPECT_EQ(table.location, "file:///lake/sales.db/v" + std::to_string(version) + "_rows");
    EXPECT_EQ(table.last_column_id, 5);
    EXPECT_EQ(table.last_partition_id, 1001);
    ASSERT_EQ(table.schema().fields.size(), 5U);
    EXPECT_TRUE(table.schema().fields[0].required);
    EXPECT_EQ(table.schema().fields[3].type, Of(TypeKind::kDecimal, 9, 2));
    EXPECT_EQ(table.partition_specs,
              (std::vector<iceberg::PartitionSpec>{
                  {0, {{{2}, 1000, "region", "identity"}, {{3}, 1001, "at_day", "day"}}}}));
    EXPECT_EQ(table.sort_orders, std::vector<iceberg::SortOrder>{{}});
    EXPECT_EQ(table.properties.at("write.delete.mode"),
              version == 1 ? "copy-on-write" : "merge-on-read");
    const size_t snapshots = version == 1 ? 3 : 4;
    ASSERT_EQ(table.snapshots.size(), snapshots);
    EXPECT_EQ(table.current_snapshot_id, table.snapshots.back().snapshot_id);
    EXPECT_EQ(table.refs.at("main").snapshot_id, table.current_snapshot_id);
    EXPECT_EQ(table.snapshot_log.size(), snapshots);
    EXPECT_EQ(table.metadata_log.size(), snapshots);
    EXPECT_EQ(table.last_sequence_number, version == 1 ? 0 : 4);
    EXPECT_EQ(table.next_row_id, version == 3 ? 12 : 0);
    for (size_t i = 0; i < snapshots; ++i) {
      const iceberg::Snapshot& snapshot = table.snapshots[i];
      EXPECT_EQ(snapshot.sequence_number, version == 1 ? 0 : static_cast<int64_t>(i) + 1);
      EXPECT_EQ(snapshot.schema_id, 0);
      EXPECT_EQ(snapshot.summary.at("operation"), i < 2 ? "append" : "delete");
      EXPECT_EQ(snapshot.summary.at("total-records"), i == 0                  ? "8"
                                                      : i > 1 && version == 1 ? "10"
                                                                              : "12");
      if (i == 0) {
        EXPECT_EQ(snapshot.parent_snapshot_id, std::nullopt);
      } else {
        EXPECT_EQ(snapshot.parent_snapshot_id, table.snapshots[i - 1].snapshot_id);
      }
      if (version < 3) continue;
      EXPECT_EQ(snapshot.first_row_id, i == 0 ? 0 : i == 1 ? 8 : 12);
      EXPECT_EQ(snapshot.added_rows, i == 0 ? 8 : i == 1 ? 4 : 0);
    }
  }
}

// Rows `first`, `first` + 2, …: even ones have a region and a day, odd ones neither.
DataFile AppendedFile(int64_t first, int64_t last, int64_t count) {
  DataFile file;
  file.file_format = "PARQUET";
  file.record_count = count;
  file.value_counts = {{1, count}, {2, count}, {3, count}, {4, count}, {5, count}};
  file.split_offsets = {4};
  file.lower_bounds = {{1, LittleEndian(first)}};
  file.upper_bounds = {{1, LittleEndian(last)}};
  if (first % 2 != 0) {  // NaNs have no bounds, and nobody counts them.
    file.partition = {Value(), Value()};
    file.null_value_counts = {{1, 0}, {2, count}, {3, count}, {4, count}, {5, 0}};
    return file;
  }
  const auto at = LittleEndian(int64_t{20454} * 86'400'000'000);
  const auto quarters = [](int64_t id) {
    const std::string unscaled(1, static_cast<char>(id * 25));
    return id * 25 > 127 ? std::string(1, '\0') + unscaled : unscaled;
  };
  file.partition = {Value("eu"), Value(int64_t{20454})};
  file.null_value_counts = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}};
  const double lowest = first == 0 ? -0.0 : static_cast<double>(first) / 2;
  file.lower_bounds.insert(file.lower_bounds.end(),
                           {{2, "eu"}, {3, at}, {4, quarters(first)}, {5, LittleEndian(lowest)}});
  file.upper_bounds.insert(
      file.upper_bounds.end(),
      {{2, "eu"}, {3, at}, {4, quarters(last)}, {5, LittleEndian(static_cast<double>(last) / 2)}});
  return file;
}

// The entries of one manifest, that of the region first; both of one status, snapshot and number.
void ExpectPair(const GoTable& table, size_t manifest, EntryStatus status, size_t snapshot,
                std::vector<DataFile> files) {
  SCOPED_TRACE(manifest);
  std::vector<ManifestEntry> found = table.entries.at(manifest);
  ASSERT_EQ(found.size(), 2U);
  const std::optional<int64_t> first = table.list[manifest].first_row_id;
  if (first) {  // In the order of the file.
    EXPECT_EQ(found[0].file.first_row_id, *first);
    EXPECT_EQ(found[1].file.first_row_id, *first + found[0].file.record_count);
  }
  if (iceberg::IsNull(found[0].file.partition.at(0))) std::swap(found[0], found[1]);
  for (size_t i = 0; i < 2; ++i) {
    files[i].file_path = found[i].file.file_path;
    files[i].file_size_in_bytes = found[i].file.file_size_in_bytes;
    files[i].first_row_id = found[i].file.first_row_id;
    EXPECT_EQ(found[i].file.column_sizes.size(), 5U);
    files[i].column_sizes = found[i].file.column_sizes;
    EXPECT_GT(files[i].file_size_in_bytes, 1000);
    const int64_t number =
        table.version == 1 ? 0 : table.metadata.snapshots[snapshot].sequence_number;
    EXPECT_EQ(found[i], (ManifestEntry{status, table.metadata.snapshots[snapshot].snapshot_id,
                                       number, number, files[i]}));
  }
}

TEST(GoTables, CopyOnWrite) {
  const GoTable table = Read(1);
  ASSERT_EQ(table.entries.size(), 3U);
  ExpectPair(table, 0, EntryStatus::kAdded, 2, {AppendedFile(0, 6, 3), AppendedFile(1, 7, 3)});
  ExpectPair(table, 1, EntryStatus::kDeleted, 2, {AppendedFile(0, 6, 4), AppendedFile(1, 7, 4)});
  ExpectPair(table, 2, EntryStatus::kAdded, 1, {AppendedFile(8, 10, 2), AppendedFile(9, 11, 2)});
}

TEST(GoTables, MergeOnRead) {
  for (const int version : {2, 3}) {
    SCOPED_TRACE(version);
    const GoTable table = Read(version);
    ASSERT_EQ(table.entries.size(), 4U);
    EXPECT_EQ(table.list[2].first_row_id, version == 3 ? std::optional<int64_t>(8) : std::nullopt);
    EXPECT_EQ(table.list[3].first_row_id, version == 3 ? std::optional<int64_t>(0) : std::nullopt);
    ExpectPair(table, 2, EntryStatus::kAdded, 1, {AppendedFile(8, 10, 2), AppendedFile(9, 11, 2)});
    ExpectPair(table, 3, EntryStatus::kAdded, 0, {AppendedFile(0, 6, 4), AppendedFile(1, 7, 4)});

    ASSERT_EQ(table.entries[0].size(), 1U);
    EXPECT_EQ(table.list[0].content, ManifestContent::kDeletes);
    const ManifestEntry& equality = table.entries[0][0];
    EXPECT_EQ(equality.sequence_number, 4);
    EXPECT_EQ(equality.snapshot_id, table.metadata.current_snapshot_id);
    EXPECT_EQ(equality.file.content, FileContent::kEqualityDeletes);
    EXPECT_THAT(equality.file.equality_ids, ElementsAre(1));
    EXPECT_THAT(equality.file.partition, ElementsAre(Value("eu"), Value(int64_t{20454})));
    EXPECT_EQ(equality.file.record_count, 1);
    EXPECT_EQ(equality.file.lower_bounds,
              (iceberg::ByField<std::string>{{1, LittleEndian(int64_t{8})}}));
  }
}

TEST(GoTables, PositionDeletes) {
  const GoTable table = Read(2);
  ASSERT_EQ(table.entries.size(), 4U);
  ASSERT_EQ(table.entries[1].size(), 2U);
  EXPECT_EQ(table.list[1].content, ManifestContent::kDeletes);
  for (const ManifestEntry& entry : table.entries[1]) {
    EXPECT_EQ(entry.status, EntryStatus::kAdded);
    EXPECT_EQ(entry.sequence_number, 3);
    EXPECT_EQ(entry.file.content, FileContent::kPositionDeletes);
    EXPECT_EQ(entry.file.file_format, "PARQUET");
    EXPECT_EQ(entry.file.record_count, 1);
    EXPECT_EQ(entry.file.referenced_data_file, std::nullopt);
    // Paths are cut like other strings: the bounds never tell that there is only one.
    EXPECT_EQ(entry.file.lower_bounds,
              (iceberg::ByField<std::string>{{iceberg::kPosFieldId, LittleEndian(int64_t{1})},
                                             {iceberg::kFilePathFieldId, "file:///lake/sal"}}));
    EXPECT_EQ(entry.file.upper_bounds,
              (iceberg::ByField<std::string>{{iceberg::kPosFieldId, LittleEndian(int64_t{1})},
                                             {iceberg::kFilePathFieldId, "file:///lake/sam"}}));
  }
}

TEST(GoTables, DeletionVectors) {
  const GoTable table = Read(3);
  ASSERT_EQ(table.entries.size(), 4U);
  const std::vector<ManifestEntry>& vectors = table.entries[1];
  ASSERT_EQ(vectors.size(), 2U);
  EXPECT_EQ(vectors[0].file.file_path, vectors[1].file.file_path);
  for (size_t i = 0; i < 2; ++i) {
    const DataFile& file = vectors[i].file;
    EXPECT_TRUE(file.deletion_vector());
    EXPECT_EQ(vectors[i].sequence_number, 3);
    EXPECT_EQ(file.record_count, 1);
    EXPECT_EQ(file.content_offset, i == 0 ? 4 : 46);
    EXPECT_EQ(file.content_size_in_bytes, 42);
    EXPECT_EQ(file.first_row_id, std::nullopt);
    size_t referenced = 0;
    for (const ManifestEntry& data : table.entries[3]) {
      if (data.file.file_path != file.referenced_data_file) continue;
      ++referenced;
      EXPECT_EQ(data.file.partition, file.partition);
    }
    EXPECT_EQ(referenced, 1U);
  }
}

}  // namespace
}  // namespace lithify::table
