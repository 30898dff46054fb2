#include "table/iceberg_snapshot.h"

#include <utility>

#include "table/iceberg_manifest.h"

namespace lithify::table {
namespace {

using iceberg::ManifestFile;
using iceberg::TableMetadata;

// The v1 form of a snapshot that lists its manifests itself, without their facts.
Result<std::vector<ManifestFile>> ListedManifests(storage::Locations& locations,
                                                  const TableMetadata& table,
                                                  const iceberg::Snapshot& snapshot) {
  if (!snapshot.manifests.empty() && table.partition_specs.size() != 1) {
    return Fail(Code::kUnsupported,
                "a snapshot without a manifest list in a table of several partition specs",
                "snapshot " + std::to_string(snapshot.snapshot_id),
                "expire it, or write a snapshot with another engine first");
  }
  std::vector<ManifestFile> manifests;
  for (const std::string& location : snapshot.manifests) {
    LITHIFY_TRY_ASSIGN(const storage::Place place, locations.Resolve(location));
    LITHIFY_TRY_ASSIGN(const storage::ObjectInfo info, place.store->Stat(place.key));
    ManifestFile manifest;
    manifest.manifest_path = location;
    manifest.manifest_length = info.size;
    manifest.partition_spec_id = table.partition_specs.front().spec_id;
    manifest.added_snapshot_id = snapshot.snapshot_id;
    manifests.push_back(std::move(manifest));
  }
  return manifests;
}

}  // namespace

Result<std::string> ReadMetadataFile(storage::Locations& locations, const std::string& location) {
  LITHIFY_TRY_ASSIGN(const storage::Place place, locations.Resolve(location));
  auto blob = place.store->Get(place.key, kMetadataBytesMax);
  if (blob) return std::move(blob->bytes);
  return Fail(std::move(blob.error()).In(location));
}

Result<std::vector<ManifestFile>> SnapshotManifests(const MetadataSource& source,
                                                    const TableMetadata& table,
                                                    const iceberg::Snapshot& snapshot) {
  if (!snapshot.key_id.empty()) {
    return Fail(Code::kUnsupported, "the manifest list is encrypted", snapshot.manifest_list);
  }
  if (snapshot.manifest_list.empty()) return ListedManifests(source.locations, table, snapshot);
  LITHIFY_TRY_ASSIGN(const auto bytes, source.Read(snapshot.manifest_list));
  return ReadManifestList(*bytes, snapshot.manifest_list);
}

bool HasLiveFiles(const ManifestFile& manifest) {
  return manifest.added_files_count.value_or(1) != 0 ||
         manifest.existing_files_count.value_or(1) != 0;
}

}  // namespace lithify::table
