// Manifests and manifest lists, versions 1 to 3, as written by any writer; written as version 2 or
// 3 by us (a v1 table gets v1) [Manifests], [Manifest Lists].
//
// Reading resolves the file's Avro schema by field id, so that the names other writers chose do not
// matter; fields that are not known are skipped. Inherited values are filled in.
//
// Errors: kCorrupt with file and field; kUnsupported for encrypted manifests and unknown codecs;
// what the store gives. Thread safety: pure functions.
#ifndef LITHIFY_TABLE_ICEBERG_MANIFEST_H_
#define LITHIFY_TABLE_ICEBERG_MANIFEST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table {

// `bytes` is the whole Avro file; `where` names it in errors.
Result<std::vector<iceberg::ManifestFile>> ReadManifestList(std::string_view bytes,
                                                            std::string_view where);

struct ManifestReadOptions {
  bool metrics = true;     // Off skips column sizes, counts and bounds: planning is faster.
  bool live_only = false;  // Leaves out entries of status DELETED.
  // Keep the bounds of these fields even with metrics off: file_path of position deletes, and the
  // columns of a filter.
  std::vector<int> bounds_of;
  bool null_counts = false;  // Keep their counts of nulls and NaNs, too.
};

// Calls `visit` for each entry in order; it may move from the entry, and an error from it ends the
// reading. The types of the partition tuple are those of ManifestPartitionTypes; values written
// before a promotion are promoted, and void fields are null.
// v3: first_row_id is inherited from manifest.first_row_id for live data files that have none; if
// the manifest has none, no file has one [First Row ID Inheritance].
// kCorrupt also: fewer entries than the manifest list claims (a file cut between two blocks), a
// spec or content that the list tells otherwise, a delete file among data files.
// record_count may be -1: some importers of Avro data do not count.
Status ReadManifest(std::string_view bytes, const iceberg::ManifestFile& manifest,
                    const iceberg::TableMetadata& table, const ManifestReadOptions& options,
                    const std::function<Status(iceberg::ManifestEntry&&)>& visit);

// Types of the partition tuple, one per field of the manifest's spec: from the table's current
// schema, and for a source column that is gone from it, or an unknown transform, from the
// manifest's own Avro schema. A rewritten manifest keeps them (ManifestWriteOptions).
Result<std::vector<iceberg::Type>> ManifestPartitionTypes(std::string_view bytes,
                                                          const iceberg::ManifestFile& manifest,
                                                          const iceberg::TableMetadata& table);

struct ManifestWriteOptions {
  int format_version = 2;
  iceberg::PartitionSpec spec;
  iceberg::Schema schema;  // Goes into the header; gives the partition tuple's types.
  // The types of the partition tuple instead, one per field of `spec`: needed where a source column
  // is gone from `schema`. Empty: from `schema`.
  std::vector<iceberg::Type> partition_types;
  iceberg::ManifestContent content = iceberg::ManifestContent::kData;
  int64_t snapshot_id = 0;        // The snapshot being made.
  std::string codec = "deflate";  // null | deflate | zstandard | snappy
};

// One manifest with these entries. Entries of status ADDED whose sequence_number is
// kInheritSequenceNumber get a null one in the file (inherited at commit); all others are written
// out. The file_sequence_number of ADDED entries is always inherited. A snapshot_id of 0 stands for
// that of `options`. The returned ManifestFile lacks path and sequence numbers of the new snapshot,
// which the caller sets: sequence_number stays 0 and min_sequence_number is the least of the live
// entries that are written out (or kInheritSequenceNumber if none is).
// kInvalid for what the format version, the spec or the content does not allow.
inline constexpr int64_t kInheritSequenceNumber = -1;
struct WrittenManifest {
  std::string bytes;
  iceberg::ManifestFile file;
};
Result<WrittenManifest> WriteManifest(std::span<const iceberg::ManifestEntry> entries,
                                      const ManifestWriteOptions& options);

struct ManifestListHeader {
  int format_version = 2;
  int64_t snapshot_id = 0;
  std::optional<int64_t> parent_snapshot_id;
  int64_t sequence_number = 0;
  std::optional<int64_t> first_row_id;  // v3: the table's next-row-id when the snapshot is made.
  std::string codec = "deflate";
};
// A sequence_number or min_sequence_number of kInheritSequenceNumber becomes the header's, for
// manifests of the header's snapshot.
// v3: gives a first_row_id to each data manifest without one, from the header's on, and tells in
// `next_row_id` where the table's counter stands afterwards.
// kInvalid for what the format version does not allow, and for manifests without counts (v1) in v2
// and v3 lists.
struct WrittenManifestList {
  std::string bytes;
  int64_t next_row_id = 0;
};
Result<WrittenManifestList> WriteManifestList(std::span<const iceberg::ManifestFile> manifests,
                                              const ManifestListHeader& header);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_MANIFEST_H_
