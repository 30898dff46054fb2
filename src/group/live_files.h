// The live set of one snapshot, read from its manifests only (R082).
#ifndef LITHIFY_GROUP_LIVE_FILES_H_
#define LITHIFY_GROUP_LIVE_FILES_H_

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "table/iceberg_filter.h"
#include "table/metadata_cache.h"

namespace lithify::group {

struct LiveSetOptions {
  const table::FileFilter* filter = nullptr;  // Sets LiveDataFile::may_match; null: all match.
  // Manifests of data that cannot hold a matching file are not read, and their files not told of.
  bool matching_only = false;
  // The column of LiveSet::key_ranges, of a primitive type; null: none.
  const iceberg::Field* key = nullptr;
  // That the bounds go through; one that keeps the order of values.
  std::string key_transform = "identity";
  int threads = 1;
  const CancelFlag* cancel = nullptr;
};

// The files are in the order of the snapshot's manifests. kCorrupt, kUnsupported, and what the
// store gives, with the manifest's name.
Result<iceberg::LiveSet> LoadLiveFiles(const table::MetadataSource& source,
                                       const iceberg::TableMetadata& table,
                                       const iceberg::Snapshot& snapshot,
                                       const LiveSetOptions& options);

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_LIVE_FILES_H_
