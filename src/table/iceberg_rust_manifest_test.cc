// Manifests, manifest lists and metadata.json of the Rust implementation: tests/rust_iceberg writes
// them (src/fixtures.rs), tests/data/iceberg/rust has them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "table/iceberg_manifest.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::ByField;
using iceberg::DataFile;
using iceberg::Decimal;
using iceberg::EntryStatus;
using iceberg::FieldSummary;
using iceberg::FileContent;
using iceberg::Int128;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

constexpr int64_t kFirst = 6'600'000'000'000'000'001;
constexpr int64_t kSecond = 7'700'000'000'000'000'002;
constexpr int64_t kHour = 3'600'000'000;  // Microseconds.
constexpr Int128 kWide = -(Int128{12'345'678'901'234'567} * 1000 + 890);
constexpr char kUuidText[] = "f79c3e09-677c-4bbd-a479-3f349cb785e7";

std::string Fixture(int version, const std::string& name) {
  const std::string path =
      std::string(LITHIFY_TEST_DATA) + "/iceberg/rust/v" + std::to_string(version) + name;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string Location(int version, const std::string& name) {
  return "file:///lake/v" + std::to_string(version) + "/" + name;
}

iceberg::TableMetadata Table(int version) {
  const auto table = ParseTableMetadata(Fixture(version, ".metadata.json"), "metadata.json");
  EXPECT_TRUE(table) << table.error().ToString();
  return table ? *table : iceberg::TableMetadata();
}

// The manifests of the second snapshot: of data, and in versions 2 and 3 of deletes.
std::vector<ManifestFile> Manifests(int version) {
  const auto list = ReadManifestList(Fixture(version, "-list.avro"), "list.avro");
  EXPECT_TRUE(list) << list.error().ToString();
  if (!list) return {};
  EXPECT_EQ(list->size(), version == 1 ? 1U : 2U);
  return *list;
}

std::vector<ManifestEntry> Entries(int version, int number) {
  std::vector<ManifestEntry> entries;
  const std::vector<ManifestFile> manifests = Manifests(version);
  if (manifests.size() <= static_cast<size_t>(number)) return entries;
  const Status read =
      ReadManifest(Fixture(version, "-m" + std::to_string(number) + ".avro"), manifests[number],
                   Table(version), {}, [&](ManifestEntry&& entry) -> Status {
                     entries.push_back(std::move(entry));
                     return {};
                   });
  EXPECT_TRUE(read) << read.error().ToString();
  return entries;
}

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string Uuid() {
  Type type;
  type.kind = TypeKind::kUuid;
  return std::get<std::string>(*ParseValue(type, kUuidText));
}

bool IsNan(const Value& value) {
  const double* number = std::get_if<double>(&value);
  return number != nullptr && std::isnan(*number);
}

std::vector<Value> Partition() {
  using namespace std::string_literals;
  return {"eu"s,
          int64_t{17486},
          int64_t{11},
          Decimal{-1420},
          int64_t{3},
          0.5,
          int64_t{17486},
          true,
          -0.25F,
          "\0\xFF\7"s,
          "\1\2\3"s,
          kHour + 5,
          int64_t{419'673},
          int64_t{-20},
          int64_t{574},
          Decimal{kWide},
          Value()};
}

std::vector<Value> OddPartition() {
  std::vector<Value> values = Partition();
  values[0] = std::string();
  values[1] = int64_t{-1};
  values[3] = Decimal{127};
  values[5] = std::numeric_limits<double>::quiet_NaN();
  values[8] = -0.0F;
  values[9] = std::string();
  values[12] = int64_t{-1};
  values[15] = Decimal{0};
  return values;
}

ByField<std::string> Bounds(int version, int64_t at) {
  using namespace std::string_literals;
  ByField<std::string> bounds{{1, Bytes(at)},
                              {2, "eu" + std::to_string(at)},
                              {3, Bytes(int64_t{1'510'871'468'000'000} + at)},
                              {4, "\xFA\x74"s},
                              {5, Uuid()},
                              {6, Bytes(0.5)},
                              {7, Bytes(int32_t{17486})},
                              {8, Bytes(at > 0)},
                              {9, Bytes(-0.25F)},
                              {10, "\0\xFF"s},
                              {11, "\1\2\3"s},
                              {12, Bytes(kHour)},
                              {13, Bytes(-at)},
                              {14, Bytes(static_cast<int32_t>(at))},
                              {15, "\xFF\x7F"s}};
  if (version == 3) bounds.emplace_back(16, Bytes(int64_t{1'510'871'468'000'000'001}));
  return bounds;
}

// The entry of file `number`, without what only some of them have.
ManifestEntry Entry(int version, int number, EntryStatus status, std::vector<Value> partition) {
  ManifestEntry entry;
  entry.status = status;
  entry.snapshot_id = status == EntryStatus::kExisting ? kFirst : kSecond;
  entry.sequence_number = version == 1 ? 0 : status == EntryStatus::kAdded ? 2 : 1;
  entry.file_sequence_number = entry.sequence_number;
  entry.file.file_path = Location(version, "data/" + std::to_string(number) + ".parquet");
  entry.file.file_format = "PARQUET";
  entry.file.partition = std::move(partition);
  entry.file.record_count = 100 + number;
  entry.file.file_size_in_bytes = 10'000 + number;
  return entry;
}

std::vector<Value> Nulls() { return std::vector<Value>(Partition().size()); }

ManifestEntry WholeEntry(int version) {
  ManifestEntry entry = Entry(version, 0, EntryStatus::kAdded, Partition());
  DataFile& file = entry.file;
  file.column_sizes = {{1, 400}, {2, 500}};
  file.value_counts = {{1, 100}, {2, 100}, {6, 100}};
  file.null_value_counts = {{1, 0}, {2, 3}};
  file.nan_value_counts = {{6, 1}};
  file.lower_bounds = Bounds(version, 0);
  file.upper_bounds = Bounds(version, 100);
  file.split_offsets = {4, 5000};
  file.sort_order_id = 1;
  return entry;
}

class RustFixtures : public testing::TestWithParam<int> {};

TEST_P(RustFixtures, DataManifest) {
  const int version = GetParam();
  std::vector<ManifestEntry> expected{WholeEntry(version),
                                      Entry(version, 1, EntryStatus::kAdded, Nulls()),
                                      Entry(version, 2, EntryStatus::kExisting, OddPartition()),
                                      Entry(version, 3, EntryStatus::kDeleted, Partition())};
  if (version == 3) {  // [First Row ID Inheritance]: one has its own, one is deleted.
    expected[0].file.first_row_id = 1000;
    expected[1].file.first_row_id = 1100;
    expected[2].file.first_row_id = 5000;
  }
  std::vector<ManifestEntry> entries = Entries(version, 0);
  ASSERT_EQ(entries.size(), 4U);
  // A NaN is equal to nothing; a zero below zero is equal to zero.
  std::vector<Value>& odd = entries[2].file.partition;
  ASSERT_EQ(odd.size(), expected[2].file.partition.size());
  EXPECT_TRUE(IsNan(odd[5]));
  EXPECT_EQ(CompareValues(odd[8], expected[2].file.partition[8]), 0);
  odd[5] = expected[2].file.partition[5] = Value();
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(entries[i], expected[i]) << i;
}

class RustDeleteFixtures : public testing::TestWithParam<int> {};

TEST_P(RustDeleteFixtures, DeleteManifest) {
  const int version = GetParam();
  ManifestEntry positions = Entry(version, 4, EntryStatus::kAdded, Partition());
  const std::string target = Location(version, "data/0.parquet");
  positions.file.content = FileContent::kPositionDeletes;
  positions.file.referenced_data_file = target;
  if (version == 3) {
    positions.file.file_path = Location(version, "data/4.puffin");
    positions.file.file_format = "PUFFIN";
    positions.file.content_offset = 4;
    positions.file.content_size_in_bytes = 44;
  } else {
    positions.file.lower_bounds = {{iceberg::kFilePathFieldId, target}};
    positions.file.upper_bounds = positions.file.lower_bounds;
  }
  ManifestEntry equal = Entry(version, 5, EntryStatus::kExisting, Nulls());
  equal.file.content = FileContent::kEqualityDeletes;
  equal.file.equality_ids = {1, 2};
  EXPECT_EQ(Entries(version, 1), (std::vector<ManifestEntry>{positions, equal}));
}

TEST_P(RustFixtures, ManifestList) {
  const int version = GetParam();
  const std::vector<ManifestFile> manifests = Manifests(version);
  ASSERT_FALSE(manifests.empty());
  ManifestFile data;
  data.manifest_path = Location(version, "metadata/m0.avro");
  data.manifest_length = static_cast<int64_t>(Fixture(version, "-m0.avro").size());
  data.sequence_number = version == 1 ? 0 : 2;
  data.min_sequence_number = version == 1 ? 0 : 1;
  data.added_snapshot_id = kSecond;
  data.added_files_count = 2;
  data.existing_files_count = 1;
  data.deleted_files_count = 1;
  data.added_rows_count = 201;
  data.existing_rows_count = 102;
  data.deleted_rows_count = 103;
  if (version == 3) data.first_row_id = 1000;
  data.partitions = manifests[0].partitions;  // Another test.
  EXPECT_EQ(manifests[0], data);
  if (version == 1) return;
  ManifestFile deletes = data;
  deletes.manifest_path = Location(version, "metadata/m1.avro");
  deletes.manifest_length = static_cast<int64_t>(Fixture(version, "-m1.avro").size());
  deletes.content = ManifestContent::kDeletes;
  deletes.added_files_count = 1;
  deletes.deleted_files_count = 0;
  deletes.added_rows_count = 104;
  deletes.existing_rows_count = 105;
  deletes.deleted_rows_count = 0;
  deletes.first_row_id.reset();
  deletes.partitions = manifests[1].partitions;
  EXPECT_EQ(manifests[1], deletes);
}

TEST_P(RustFixtures, PartitionSummaries) {
  using namespace std::string_literals;
  const auto bounds = [](std::string lower, std::string upper) {
    return FieldSummary{true, false, std::move(lower), std::move(upper)};
  };
  const auto same = [&](const std::string& value) { return bounds(value, value); };
  std::vector<FieldSummary> expected{bounds("", "eu"),
                                     bounds(Bytes(int32_t{-1}), Bytes(int32_t{17486})),
                                     same(Bytes(int32_t{11})),
                                     bounds("\xFA\x74", "\x7F"),
                                     same(Bytes(int32_t{3})),
                                     same(Bytes(0.5)),
                                     same(Bytes(int32_t{17486})),
                                     same("\1"),
                                     bounds(Bytes(-0.25F), Bytes(-0.0F)),
                                     bounds("", "\0\xFF\7"s),
                                     same("\1\2\3"),
                                     same(Bytes(kHour + 5)),
                                     bounds(Bytes(int32_t{-1}), Bytes(int32_t{419'673})),
                                     same(Bytes(int64_t{-20})),
                                     same(Bytes(int32_t{574})),
                                     bounds("\xFF\x54\xAB\x56\x73\x14\xE0\xF5\x2E", "\0"s),
                                     {true, false, std::nullopt, std::nullopt}};
  expected[5].contains_nan = true;
  const std::vector<FieldSummary> summaries = Manifests(GetParam())[0].partitions;
  ASSERT_EQ(summaries.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(summaries[i].contains_null, expected[i].contains_null) << i;
    EXPECT_EQ(summaries[i].contains_nan, expected[i].contains_nan) << i;
    EXPECT_EQ(summaries[i].lower_bound, expected[i].lower_bound) << i;
    EXPECT_EQ(summaries[i].upper_bound, expected[i].upper_bound) << i;
  }
}

TEST_P(RustFixtures, WrittenAgain) {
  const int version = GetParam();
  const iceberg::TableMetadata table = Table(version);
  for (int number = 0; number < (version == 1 ? 1 : 2); ++number) {
    std::vector<ManifestEntry> entries = Entries(version, number);
    ASSERT_GE(entries.size(), 2U);
    for (ManifestEntry& entry : entries) {
      if (entry.status == EntryStatus::kAdded) entry.status = EntryStatus::kExisting;
      if (IsNan(entry.file.partition[5])) entry.file.partition[5] = Value();
    }
    ManifestWriteOptions options;
    options.format_version = version;
    options.spec = *table.FindSpec(0);
    options.schema = table.schema();
    options.content = number == 0 ? ManifestContent::kData : ManifestContent::kDeletes;
    options.snapshot_id = kSecond;
    auto written = WriteManifest(entries, options);
    ASSERT_TRUE(written) << written.error().ToString();
    written->file.manifest_path = "m.avro";
    written->file.first_row_id = Manifests(version)[number].first_row_id;
    std::vector<ManifestEntry> back;
    ASSERT_TRUE(ReadManifest(written->bytes, written->file, table, {},
                             [&](ManifestEntry&& entry) -> Status {
                               back.push_back(std::move(entry));
                               return {};
                             }));
    EXPECT_EQ(back, entries);
  }
}

TEST_P(RustFixtures, TableMetadata) {
  const int version = GetParam();
  const iceberg::TableMetadata table = Table(version);
  EXPECT_EQ(table.format_version, version);
  EXPECT_EQ(table.table_uuid, kUuidText);
  EXPECT_EQ(table.location, "file:///lake/v" + std::to_string(version));
  EXPECT_EQ(table.last_sequence_number, version == 1 ? 0 : 2);
  EXPECT_EQ(table.last_updated_ms, 1'760'000'060'000);
  EXPECT_EQ(table.last_column_id, version == 3 ? 16 : 15);
  EXPECT_EQ(table.last_partition_id, 1016);
  EXPECT_EQ(table.properties, (std::map<std::string, std::string>{{"owner", "rust"}}));
  EXPECT_EQ(table.schema().identifier_field_ids, std::vector<int>{1});
  EXPECT_EQ(table.schema().fields.size(), version == 3 ? 16U : 15U);
  EXPECT_TRUE(table.schema().fields[0].required);
  EXPECT_EQ(FindField(table.schema(), "price")->type.scale, 2);
  EXPECT_EQ(FindField(table.schema(), "code")->type.length, 3);
  EXPECT_EQ(table.FindSpec(0)->fields[2],
            (iceberg::PartitionField{{1}, 1002, "id_bucket", "bucket[16]"}));
  EXPECT_EQ(table.FindSpec(0)->fields[16],
            (iceberg::PartitionField{{14}, 1016, "count_gone", "void"}));
  const iceberg::SortOrder* order = table.FindSortOrder(table.default_sort_order_id);
  ASSERT_NE(order, nullptr);
  EXPECT_EQ(order->order_id, 1);
  EXPECT_EQ(order->fields, (std::vector<iceberg::SortField>{{{2}, "identity", false, false}}));

  ASSERT_EQ(table.snapshots.size(), 2U);
  const iceberg::Snapshot* second = table.RefSnapshot("main");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(table.current_snapshot_id, kSecond);
  EXPECT_EQ(second->snapshot_id, kSecond);
  EXPECT_EQ(second->parent_snapshot_id, kFirst);
  EXPECT_EQ(second->sequence_number, version == 1 ? 0 : 2);
  EXPECT_EQ(second->timestamp_ms, 1'760'000'060'000);
  EXPECT_EQ(second->manifest_list, Location(version, "metadata/list.avro"));
  EXPECT_EQ(second->summary.at("operation"), "append");
  EXPECT_EQ(second->schema_id, 0);
  // Rust leaves out refs in version 1, where they are optional.
  ASSERT_EQ(table.refs.size(), version == 1 ? 1U : 2U);
  if (version >= 2) {
    EXPECT_EQ(table.refs.at("first").snapshot_id, kFirst);
    EXPECT_FALSE(table.refs.at("first").is_branch);
    EXPECT_EQ(table.refs.at("first").max_ref_age_ms, 9);
  }
  ASSERT_EQ(table.snapshot_log.size(), 2U);
  EXPECT_EQ(table.snapshot_log[0].snapshot_id, kFirst);
  ASSERT_EQ(table.metadata_log.size(), 1U);
  EXPECT_EQ(table.metadata_log[0].metadata_file,
            Location(version, "metadata/00001-a.metadata.json"));
  ASSERT_EQ(table.statistics.size(), 1U);
  EXPECT_EQ(table.statistics[0].path, Location(version, "metadata/s.stats"));
  if (version == 3) {
    EXPECT_EQ(table.next_row_id, 1303);
    EXPECT_EQ(second->first_row_id, 1000);
    EXPECT_EQ(second->added_rows, 303);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, RustFixtures, testing::Values(1, 2, 3));
INSTANTIATE_TEST_SUITE_P(Versions, RustDeleteFixtures, testing::Values(2, 3));

}  // namespace
}  // namespace lithify::table
