// The model of Apache Iceberg tables, format versions 1 to 3, as plain values: no I/O, no clock, no
// JSON. Names are those of the Iceberg table specification; section names in brackets are its.
// What decides (src/plan) works on these structs alone.
#ifndef LITHIFY_BASE_ICEBERG_H_
#define LITHIFY_BASE_ICEBERG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"

namespace lithify::iceberg {

// --- types [Schemas and Data Types] ------------------------------------------------------------

enum class TypeKind {
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kTimestamptz,
  kTimestampNs,
  kTimestamptzNs,
  kString,
  kUuid,
  kFixed,
  kBinary,
  kUnknown,
  kVariant,
  kGeometry,
  kGeography,
  kStruct,
  kList,
  kMap,
};

struct Field;

struct Type {
  TypeKind kind = TypeKind::kUnknown;
  int precision = 0;  // kDecimal.
  int scale = 0;      // kDecimal.
  int length = 0;     // kFixed, bytes.
  // kGeometry, kGeography: the parameters as written, e.g. "(srid:3857)"; empty for the default.
  std::string parameters;
  // kStruct: the fields. kList: one, "element". kMap: "key" and "value".
  std::vector<Field> fields;

  bool primitive() const { return kind < TypeKind::kStruct && kind != TypeKind::kVariant; }
  bool operator==(const Type&) const;
};

__extension__ typedef __int128 Int128;

// An unscaled decimal [Binary single-value serialization]; 38 digits fit.
struct Decimal {
  Int128 unscaled = 0;
  bool operator==(const Decimal&) const = default;
};

// One primitive value. Which alternative goes with which type:
//   bool: boolean. int64_t: int, long, date (days), time (us), timestamps (us or ns since 1970).
//   float, double. Decimal. std::string: string (UTF-8), uuid (16 bytes), fixed, binary, geo.
// monostate is null.
using Value = std::variant<std::monostate, bool, int64_t, float, double, Decimal, std::string>;

inline bool IsNull(const Value& value) { return std::holds_alternative<std::monostate>(value); }

// Order of two non-null values of one type: negative, 0 or positive. Strings compare as unsigned
// bytes; -0.0 < +0.0, and NaN is above everything.
int CompareValues(const Value& a, const Value& b);

struct Field {
  int id = 0;
  std::string name;
  bool required = false;
  Type type;
  std::string doc;
  // v3 [Default values]; absent and null are the same. Only primitive defaults are understood;
  // `unsupported_default` tells that there is one of another kind.
  std::optional<Value> initial_default;
  std::optional<Value> write_default;
  bool unsupported_default = false;
  bool operator==(const Field&) const = default;
};

struct Schema {
  int schema_id = 0;
  std::vector<Field> fields;
  std::vector<int> identifier_field_ids;
  bool operator==(const Schema&) const = default;
};

// The field with this id anywhere in the schema (list elements, map keys and values included), or
// null. Pointers live as long as the schema is not changed.
const Field* FindField(const Schema& schema, int field_id);
// By dotted name ("location.lat", "tags.element"); the first match; or null.
const Field* FindField(const Schema& schema, std::string_view dotted_name);

// Reserved field ids [Reserved Field IDs].
inline constexpr int kFilePathFieldId = 2147483546;     // file_path of position deletes.
inline constexpr int kPosFieldId = 2147483545;          // pos of position deletes.
inline constexpr int kDeletedRowFieldId = 2147483544;   // row of position deletes.
inline constexpr int kRowIdFieldId = 2147483540;        // _row_id.
inline constexpr int kLastUpdatedFieldId = 2147483539;  // _last_updated_sequence_number.

// --- partitioning and order [Partitioning], [Sorting] ------------------------------------------

struct PartitionField {
  std::vector<int> source_ids;  // One, but for v3 multi-argument transforms.
  int field_id = 0;
  std::string name;
  std::string transform;  // As written: "identity", "bucket[16]", "truncate[4]", "void", …
  bool operator==(const PartitionField&) const = default;
};

struct PartitionSpec {
  int spec_id = 0;
  std::vector<PartitionField> fields;
  bool operator==(const PartitionSpec&) const = default;
};

struct SortField {
  std::vector<int> source_ids;
  std::string transform;
  bool ascending = true;
  bool nulls_first = true;
  bool operator==(const SortField&) const = default;
};

struct SortOrder {
  int order_id = 0;
  std::vector<SortField> fields;
  bool operator==(const SortOrder&) const = default;
};

// Which partition of which spec a file is in: the group key (R083).
struct PartitionKey {
  int spec_id = 0;
  std::vector<Value> values;  // One per field of the spec, in its order.
  bool operator==(const PartitionKey&) const = default;
};
bool operator<(const PartitionKey& a, const PartitionKey& b);

// --- table metadata [Table Metadata] -----------------------------------------------------------

struct Snapshot {
  int64_t snapshot_id = 0;
  std::optional<int64_t> parent_snapshot_id;
  int64_t sequence_number = 0;  // 0 in format version 1.
  int64_t timestamp_ms = 0;
  std::string manifest_list;           // Location; empty where v1 lists `manifests` instead.
  std::vector<std::string> manifests;  // v1 only: locations of manifests.
  std::map<std::string, std::string> summary;  // With "operation".
  std::optional<int> schema_id;
  std::optional<int64_t> first_row_id;  // v3 [Row Lineage].
  std::optional<int64_t> added_rows;    // v3.
  std::string key_id;                   // v3 encryption; empty: none.
  bool operator==(const Snapshot&) const = default;
};

struct SnapshotRef {
  int64_t snapshot_id = 0;
  bool is_branch = true;  // Else a tag.
  std::optional<int> min_snapshots_to_keep;
  std::optional<int64_t> max_snapshot_age_ms;
  std::optional<int64_t> max_ref_age_ms;
  bool operator==(const SnapshotRef&) const = default;
};

struct SnapshotLogEntry {
  int64_t snapshot_id = 0;
  int64_t timestamp_ms = 0;
  bool operator==(const SnapshotLogEntry&) const = default;
};

struct MetadataLogEntry {
  std::string metadata_file;
  int64_t timestamp_ms = 0;
  bool operator==(const MetadataLogEntry&) const = default;
};

// A statistics or partition-statistics file; only where it lies matters here.
struct StatisticsFile {
  int64_t snapshot_id = 0;
  std::string path;
  int64_t size = 0;  // Bytes.
  bool operator==(const StatisticsFile&) const = default;
};

// The typed view of one metadata.json. What it does not show survives in the text
// (table/iceberg_metadata.h).
struct TableMetadata {
  int format_version = 2;
  std::string table_uuid;
  std::string location;  // Without a trailing slash.
  int64_t last_sequence_number = 0;
  int64_t last_updated_ms = 0;
  int last_column_id = 0;
  std::vector<Schema> schemas;
  int current_schema_id = 0;
  std::vector<PartitionSpec> partition_specs;
  int default_spec_id = 0;
  int last_partition_id = 999;
  std::vector<SortOrder> sort_orders;
  int default_sort_order_id = 0;
  std::map<std::string, std::string> properties;
  std::optional<int64_t> current_snapshot_id;  // -1 in old files is none.
  std::vector<Snapshot> snapshots;
  std::vector<SnapshotLogEntry> snapshot_log;
  std::vector<MetadataLogEntry> metadata_log;
  std::map<std::string, SnapshotRef> refs;  // "main" is always there if there is a snapshot.
  std::vector<StatisticsFile> statistics;
  std::vector<StatisticsFile> partition_statistics;
  int64_t next_row_id = 0;      // v3.
  bool has_encryption = false;  // v3 encryption-keys is not empty.

  const Schema& schema() const;  // The current one.
  const Schema* FindSchema(int schema_id) const;
  const PartitionSpec* FindSpec(int spec_id) const;
  const Snapshot* FindSnapshot(int64_t snapshot_id) const;
  const SortOrder* FindSortOrder(int order_id) const;
  // The snapshot that a branch or tag points to; null where there is none.
  const Snapshot* RefSnapshot(std::string_view ref) const;
  std::string Property(const std::string& key, std::string_view otherwise) const;
};

// --- manifests [Manifests] ---------------------------------------------------------------------

enum class FileContent { kData = 0, kPositionDeletes = 1, kEqualityDeletes = 2 };
enum class EntryStatus { kExisting = 0, kAdded = 1, kDeleted = 2 };

// Per-column numbers by field id, sorted by it.
template <typename T>
using ByField = std::vector<std::pair<int, T>>;

// data_file [Data File Fields]. Bounds are binary single-value serializations.
struct DataFile {
  FileContent content = FileContent::kData;
  std::string file_path;
  std::string file_format;  // Upper case: "PARQUET", "AVRO", "ORC", "PUFFIN".
  int spec_id = 0;          // Of the manifest that it came from.
  std::vector<Value> partition;
  int64_t record_count = 0;
  int64_t file_size_in_bytes = 0;
  ByField<int64_t> column_sizes;
  ByField<int64_t> value_counts;
  ByField<int64_t> null_value_counts;
  ByField<int64_t> nan_value_counts;
  ByField<std::string> lower_bounds;
  ByField<std::string> upper_bounds;
  std::optional<std::string> key_metadata;  // Encrypted, if there is one.
  std::vector<int64_t> split_offsets;
  std::vector<int> equality_ids;
  std::optional<int> sort_order_id;
  std::optional<int64_t> first_row_id;              // v3.
  std::optional<std::string> referenced_data_file;  // Deletes of one data file.
  std::optional<int64_t> content_offset;            // Deletion vectors: the blob in the Puffin.
  std::optional<int64_t> content_size_in_bytes;

  bool deletion_vector() const {
    return content == FileContent::kPositionDeletes && file_format == "PUFFIN";
  }
  bool operator==(const DataFile&) const = default;
};

// manifest_entry. What is null in the file is inherited when it is read [Sequence Number
// Inheritance]; after reading all three numbers are set, but for v1 (0).
struct ManifestEntry {
  EntryStatus status = EntryStatus::kExisting;
  int64_t snapshot_id = 0;
  int64_t sequence_number = 0;       // Data sequence number.
  int64_t file_sequence_number = 0;  // Of the snapshot that added the file.
  DataFile file;
  bool operator==(const ManifestEntry&) const = default;
};

enum class ManifestContent { kData = 0, kDeletes = 1 };

struct FieldSummary {
  bool contains_null = false;
  std::optional<bool> contains_nan;
  std::optional<std::string> lower_bound;  // Binary single-value serialization.
  std::optional<std::string> upper_bound;
  bool operator==(const FieldSummary&) const = default;
};

// manifest_file: one line of a manifest list. Counts that v1 leaves out are unset.
struct ManifestFile {
  std::string manifest_path;
  int64_t manifest_length = 0;
  int partition_spec_id = 0;
  ManifestContent content = ManifestContent::kData;
  int64_t sequence_number = 0;
  int64_t min_sequence_number = 0;
  int64_t added_snapshot_id = 0;
  std::optional<int64_t> added_files_count;
  std::optional<int64_t> existing_files_count;
  std::optional<int64_t> deleted_files_count;
  std::optional<int64_t> added_rows_count;
  std::optional<int64_t> existing_rows_count;
  std::optional<int64_t> deleted_rows_count;
  std::vector<FieldSummary> partitions;
  std::optional<std::string> key_metadata;
  std::optional<int64_t> first_row_id;  // v3.
  bool operator==(const ManifestFile&) const = default;
};

// Property schema.name-mapping.default [Column Projection]: names to field ids, nested.
struct NameMapping {
  std::vector<std::string> names;
  std::optional<int> field_id;
  std::vector<NameMapping> fields;
};

// --- the live set, as planning sees it ---------------------------------------------------------

// What planning keeps of one live data file: small, since a table may have a million.
struct LiveDataFile {
  std::string path;
  int64_t size = 0;             // Bytes.
  int64_t records = 0;          // As the metadata claims.
  int64_t sequence_number = 0;  // Data sequence number.
  int32_t partition = 0;        // Index into LiveSet::partitions.
  std::optional<int64_t> first_row_id;
  std::optional<int> sort_order_id;
  // Why the file cannot be rewritten ("ORC data", "encrypted"); points to a literal; empty: it can.
  std::string_view unsupported;
  // False if a `where` filter shows that no row of the file can match.
  bool may_match = true;
};

struct LiveDeleteFile {
  FileContent content = FileContent::kPositionDeletes;
  bool deletion_vector = false;
  std::string path;
  int64_t size = 0;  // Bytes, of the whole file.
  int64_t records = 0;
  int64_t sequence_number = 0;
  int32_t partition = 0;  // Index into LiveSet::partitions.
  std::vector<int> equality_ids;
  std::string referenced_data_file;  // Or from equal file_path bounds; empty: may name any file.
  // Bounds of file_path, where the metadata has them whole; empty: unknown.
  std::string lower_path;
  std::string upper_path;
  int64_t content_offset = 0;
  int64_t content_size = 0;
  std::string_view unsupported;
};

// What metadata tells of one column in one file. Bounds that are null are not known; they are of
// values alone, and may have been cut: lower ones down, upper ones up.
struct KeyRange {
  Value lower = {};
  Value upper = {};
  bool nulls = false;      // Some rows have none.
  bool nans = false;       // Some rows have NaN.
  bool no_values = false;  // All rows are null or NaN, or there is none.
};

// All live files of one snapshot.
struct LiveSet {
  int64_t snapshot_id = 0;
  int64_t sequence_number = 0;  // Of the snapshot.
  std::vector<PartitionKey> partitions;
  std::vector<bool> unpartitioned;  // By partition: its spec has no field but void ones.
  std::vector<LiveDataFile> data_files;
  std::vector<LiveDeleteFile> delete_files;
  // By data file, of the column that whoever loaded the set asked for; else empty.
  std::vector<KeyRange> key_ranges;
};

}  // namespace lithify::iceberg

#endif  // LITHIFY_BASE_ICEBERG_H_
