// The live set of one snapshot, read from its manifests only (R082). Private to this module, but
// for LoadLiveSet (job/iceberg_job.h).
#ifndef LITHIFY_JOB_ICEBERG_LOAD_H_
#define LITHIFY_JOB_ICEBERG_LOAD_H_

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "storage/locations.h"
#include "table/iceberg_filter.h"

namespace lithify::job {

struct LiveSetOptions {
  const table::FileFilter* filter = nullptr;  // Sets LiveDataFile::may_match; null: all match.
  // Manifests of data that cannot hold a matching file are not read, and their files not told of.
  bool matching_only = false;
  int threads = 1;
  const CancelFlag* cancel = nullptr;
};

// The files are in the order of the snapshot's manifests. kCorrupt, kUnsupported, and what the
// store gives, with the manifest's name.
Result<iceberg::LiveSet> LoadLiveFiles(storage::Locations& locations,
                                       const iceberg::TableMetadata& table,
                                       const iceberg::Snapshot& snapshot,
                                       const LiveSetOptions& options);

// For an error of reading what `seen` refers to: kNotFound is a kConflict if the table has moved on
// since, as an expiry removes what only old metadata needs (I9), and what loading the table gave if
// that fails with anything but kNotFound. Other errors stay as they are.
Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_LOAD_H_
