#include "job/iceberg_load.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "commit/iceberg_commit.h"
#include "job/iceberg_job.h"
#include "job/parallel.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_value.h"

namespace lithify::job {
namespace {

using iceberg::DataFile;
using iceberg::FileContent;
using iceberg::LiveDataFile;
using iceberg::LiveDeleteFile;
using iceberg::LiveSet;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::PartitionKey;

// Files of one manifest; `partition` counts in its own list until the parts are put together.
struct Part {
  std::vector<PartitionKey> partitions;
  std::vector<LiveDataFile> data_files;
  std::vector<LiveDeleteFile> delete_files;
};

// Numbers partitions in the order of their first file. Neighbours are mostly of one partition.
class PartitionNumbers {
 public:
  explicit PartitionNumbers(std::vector<PartitionKey>& keys) : keys_(keys) {}

  int32_t Of(PartitionKey key) {
    if (last_ >= 0 && keys_[static_cast<size_t>(last_)] == key) return last_;
    const auto [at, added] = numbers_.try_emplace(key, static_cast<int32_t>(keys_.size()));
    if (added) keys_.push_back(std::move(key));
    last_ = at->second;
    return last_;
  }

 private:
  std::vector<PartitionKey>& keys_;
  std::map<PartitionKey, int32_t> numbers_;
  int32_t last_ = -1;
};

// Why lithify leaves a file alone; a literal, or empty.
std::string_view Unsupported(const DataFile& file, int format_version) {
  if (file.key_metadata) return "encrypted";
  if (file.file_format == "PARQUET") {
    // Without it, row ids would be lost (I22); a table that came from version 2 may have such.
    const bool lineage = format_version >= 3 && file.content == FileContent::kData;
    return lineage && !file.first_row_id ? "no row ids yet" : std::string_view();
  }
  if (file.deletion_vector()) return {};
  if (file.file_format == "AVRO") return "Avro file";
  if (file.file_format == "ORC") return "ORC file";
  return "unknown file format";
}

const std::string* BoundOf(const iceberg::ByField<std::string>& bounds, int field_id) {
  for (const auto& [id, bound] : bounds) {
    if (id == field_id) return &bound;
  }
  return nullptr;
}

LiveDeleteFile ToDelete(ManifestEntry&& entry, int format_version) {
  DataFile& file = entry.file;
  LiveDeleteFile out;
  out.content = file.content;
  out.deletion_vector = file.deletion_vector();
  out.size = file.file_size_in_bytes;
  out.records = file.record_count;
  out.sequence_number = entry.sequence_number;
  out.unsupported = Unsupported(file, format_version);
  out.equality_ids = std::move(file.equality_ids);
  out.content_offset = file.content_offset.value_or(0);
  out.content_size = file.content_size_in_bytes.value_or(0);
  if (file.referenced_data_file) {
    out.referenced_data_file = std::move(*file.referenced_data_file);
  } else if (file.content == FileContent::kPositionDeletes) {
    const std::string* lower = BoundOf(file.lower_bounds, iceberg::kFilePathFieldId);
    const std::string* upper = BoundOf(file.upper_bounds, iceberg::kFilePathFieldId);
    if (lower != nullptr) out.lower_path = *lower;
    if (upper != nullptr) out.upper_path = *upper;
    // Equal bounds may both be the cut beginning of many paths. A whole path is never cut to equal
    // bounds, since a cut upper bound is raised above every path that begins so.
    if (lower != nullptr && upper != nullptr && *lower == *upper) out.referenced_data_file = *lower;
  }
  out.path = std::move(file.file_path);
  return out;
}

LiveDataFile ToData(ManifestEntry&& entry, int format_version, bool may_match) {
  LiveDataFile out;
  out.size = entry.file.file_size_in_bytes;
  out.records = entry.file.record_count;
  out.sequence_number = entry.sequence_number;
  out.first_row_id = entry.file.first_row_id;
  out.sort_order_id = entry.file.sort_order_id;
  out.unsupported = Unsupported(entry.file, format_version);
  out.may_match = may_match;
  out.path = std::move(entry.file.file_path);
  return out;
}

Status ReadPart(storage::Locations& locations, const iceberg::TableMetadata& table,
                const ManifestFile& manifest, const LiveSetOptions& options, Part& part) {
  if (options.cancel != nullptr) LITHIFY_TRY(options.cancel->Check());
  LITHIFY_TRY_ASSIGN(const std::string bytes,
                     commit::ReadMetadataFile(locations, manifest.manifest_path));
  const iceberg::PartitionSpec* spec = table.FindSpec(manifest.partition_spec_id);
  if (spec == nullptr) {
    return Fail(Code::kCorrupt,
                "partition spec " + std::to_string(manifest.partition_spec_id) +
                    " is not in the table's metadata",
                manifest.manifest_path);
  }
  const table::FileFilter* filter = options.filter;
  table::ManifestReadOptions read{.metrics = filter != nullptr, .live_only = true, .bounds_of = {}};
  read.bounds_of.push_back(iceberg::kFilePathFieldId);
  PartitionNumbers numbers(part.partitions);
  return table::ReadManifest(bytes, manifest, table, read, [&](ManifestEntry&& entry) -> Status {
    const int32_t partition =
        numbers.Of({.spec_id = entry.file.spec_id, .values = std::move(entry.file.partition)});
    if (entry.file.content == FileContent::kData) {
      bool may_match = true;
      if (filter != nullptr) {
        entry.file.partition = part.partitions[static_cast<size_t>(partition)].values;
        may_match = filter->MayMatch(entry.file, *spec);
      }
      part.data_files.push_back(ToData(std::move(entry), table.format_version, may_match));
      part.data_files.back().partition = partition;
    } else {
      part.delete_files.push_back(ToDelete(std::move(entry), table.format_version));
      part.delete_files.back().partition = partition;
    }
    return {};
  });
}

bool IsUnpartitioned(const iceberg::PartitionSpec* spec) {
  return spec != nullptr && std::ranges::all_of(spec->fields, [](const auto& field) {
           return table::ParseTransform(field.transform).kind == table::Transform::Kind::kVoid;
         });
}

LiveSet PutTogether(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot,
                    std::vector<Part>& parts) {
  LiveSet live;
  live.snapshot_id = snapshot.snapshot_id;
  live.sequence_number = snapshot.sequence_number;
  size_t data = 0;
  size_t deletes = 0;
  for (const Part& part : parts) {
    data += part.data_files.size();
    deletes += part.delete_files.size();
  }
  live.data_files.reserve(data);
  live.delete_files.reserve(deletes);
  PartitionNumbers numbers(live.partitions);
  for (Part& part : parts) {
    std::vector<int32_t> number;
    number.reserve(part.partitions.size());
    for (PartitionKey& key : part.partitions) number.push_back(numbers.Of(std::move(key)));
    for (LiveDataFile& file : part.data_files) {
      file.partition = number[static_cast<size_t>(file.partition)];
      live.data_files.push_back(std::move(file));
    }
    for (LiveDeleteFile& file : part.delete_files) {
      file.partition = number[static_cast<size_t>(file.partition)];
      live.delete_files.push_back(std::move(file));
    }
    part = {};
  }
  for (const PartitionKey& key : live.partitions) {
    live.unpartitioned.push_back(IsUnpartitioned(table.FindSpec(key.spec_id)));
  }
  return live;
}

}  // namespace

Result<LiveSet> LoadLiveFiles(storage::Locations& locations, const iceberg::TableMetadata& table,
                              const iceberg::Snapshot& snapshot, const LiveSetOptions& options) {
  LITHIFY_TRY_ASSIGN(const auto manifests, commit::SnapshotManifests(locations, table, snapshot));
  std::vector<Part> parts(manifests.size());
  std::mutex mutex;
  std::optional<Error> first;  // Of the first manifest that failed, in time.
  ForEach(manifests.size(), options.threads, [&](size_t i) {
    {
      std::lock_guard lock(mutex);
      if (first) return;
    }
    Status read;
    try {
      read = ReadPart(locations, table, manifests[i], options, parts[i]);
    } catch (const std::exception& e) {
      read = Fail(FromException(e, manifests[i].manifest_path));
    }
    if (read) return;
    std::lock_guard lock(mutex);
    if (!first) first = std::move(read.error());
  });
  if (first) return Fail(std::move(*first));
  return PutTogether(table, snapshot, parts);
}

Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error) {
  if (error.code != Code::kNotFound) return error;
  const auto now = services.catalog.LoadTable(seen.ident);
  if (!now || now->metadata_location == seen.metadata_location) return error;
  return {Code::kConflict, "the table changed while it was read: " + error.ToString(),
          seen.ident.ToString(), "try again"};
}

Result<LiveSet> LoadLiveSet(storage::Locations& locations, const iceberg::TableMetadata& table,
                            const iceberg::Snapshot& snapshot, const std::string& where) {
  auto live = LoadLiveFiles(locations, table, snapshot, {});
  if (!live) return Fail(std::move(live.error()).In(where));
  return live;
}

}  // namespace lithify::job
