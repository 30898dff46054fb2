// Metadata files of a table, below the commit: read one at a time, and written under new names.
//
// Errors: kConflict where a file that the newest metadata names is gone: somebody expired it while
// it was being read. Thread safety: MetadataFiles belongs to one thread.
#ifndef LITHIFY_COMMIT_ICEBERG_MANIFESTS_H_
#define LITHIFY_COMMIT_ICEBERG_MANIFESTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "storage/locations.h"
#include "table/iceberg_manifest.h"
#include "table/metadata_cache.h"

namespace lithify::commit {

// table::SnapshotManifests() for a snapshot that the newest metadata has.
Result<std::vector<iceberg::ManifestFile>> ManifestsOf(const table::MetadataSource& source,
                                                       const iceberg::TableMetadata& table,
                                                       const iceberg::Snapshot& snapshot);

// Calls `visit` for each entry of a manifest, which is read whole.
Status ForEachEntry(const table::MetadataSource& source, const iceberg::TableMetadata& table,
                    const iceberg::ManifestFile& manifest,
                    const table::ManifestReadOptions& options,
                    const std::function<Status(iceberg::ManifestEntry&&)>& visit);

// All live entries of a manifest, and the types of its partition tuple, which a rewritten manifest
// keeps.
struct LiveEntries {
  std::vector<iceberg::ManifestEntry> entries;
  std::vector<iceberg::Type> partition_types;
};
Result<LiveEntries> ReadLiveEntries(const table::MetadataSource& source,
                                    const iceberg::TableMetadata& table,
                                    const iceberg::ManifestFile& manifest);

// False only if the partition summaries show that no file of the partition is in the manifest.
bool MayHold(const iceberg::TableMetadata& table, const iceberg::ManifestFile& manifest,
             const iceberg::PartitionKey& partition);

// The new metadata files of one attempt.
class MetadataFiles {
 public:
  // What it writes is kept by the source's cache.
  MetadataFiles(const table::MetadataSource& source, const iceberg::TableMetadata& table,
                const Clock& clock, Random& random);

  // "<uuid>-m<N>.avro" and "snap-<id>-<attempt>-<uuid>.avro" in the metadata directory.
  std::string NextManifest();
  std::string ManifestList(int64_t snapshot_id, int attempt) const;
  // Writes a new file, and reads it back: kCorrupt if it is not what was written.
  Status Put(const std::string& location, std::string_view bytes);
  // Removes all of them, as far as it can. Only if no commit can refer to them.
  void Remove() noexcept;

  const std::vector<std::string>& written() const { return written_; }

 private:
  storage::Locations* locations_;
  table::MetadataCache* cache_;
  std::string directory_;
  std::string uuid_;
  int manifests_ = 0;
  std::vector<std::string> written_;
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_MANIFESTS_H_
