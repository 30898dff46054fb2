// The metadata files of a snapshot, read from where the table says they are.
// Errors: what the store gives, with the location; kCorrupt and kUnsupported for what is in them.
// Thread-safe.
#ifndef LITHIFY_TABLE_ICEBERG_SNAPSHOT_H_
#define LITHIFY_TABLE_ICEBERG_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "storage/locations.h"
#include "table/metadata_cache.h"

namespace lithify::table {

// Of one metadata file: a manifest of a million files with bounds for a hundred columns has about
// this.
inline constexpr int64_t kMetadataBytesMax = int64_t{1} << 30;

// A whole metadata file, as bytes. kLimit for more than kMetadataBytesMax.
Result<std::string> ReadMetadataFile(storage::Locations& locations, const std::string& location);

// All manifests of a snapshot, from its list, or from the v1 list of manifest locations.
Result<std::vector<iceberg::ManifestFile>> SnapshotManifests(const MetadataSource& source,
                                                             const iceberg::TableMetadata& table,
                                                             const iceberg::Snapshot& snapshot);

// False only if the list says that no entry is live.
bool HasLiveFiles(const iceberg::ManifestFile& manifest);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_SNAPSHOT_H_
