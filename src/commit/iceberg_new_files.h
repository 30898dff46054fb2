// The last look at data files before a commit adds them.
#ifndef LITHIFY_COMMIT_ICEBERG_NEW_FILES_H_
#define LITHIFY_COMMIT_ICEBERG_NEW_FILES_H_

#include <span>

#include "base/iceberg.h"
#include "base/result.h"
#include "storage/locations.h"

namespace lithify::commit {

// The files lie under the table's data location, exist, have the stated size, and fit a spec that
// files may be written under. kCorrupt, kInternal, kUnsupported; what the store says otherwise.
// Thread safety: as the locations.
Status CheckNewDataFiles(storage::Locations& locations, const iceberg::TableMetadata& table,
                         std::span<const iceberg::DataFile> files);

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_NEW_FILES_H_
