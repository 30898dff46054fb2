// The live rows of one snapshot as Arrow batches, for queries: every delete is applied, and columns
// are those of the schema, whatever the files have. Nothing is changed, and nobody but the caller
// knows of it: the locations that the caller brings decide which files can be read.
#ifndef LITHIFY_JOB_ICEBERG_SCAN_H_
#define LITHIFY_JOB_ICEBERG_SCAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "storage/locations.h"

struct ArrowArray;

namespace lithify::job {

// What a table is read as.
struct ScanVersion {
  const iceberg::Snapshot* snapshot = nullptr;  // Null: the table has none, and no rows.
  const iceberg::Schema* schema = nullptr;
};
// `version` is a snapshot's number or the name of a branch or tag; empty: the current one. The
// schema is the snapshot's own where a version is named. kNotFound.
Result<ScanVersion> FindVersion(const iceberg::TableMetadata& table, std::string_view version);

// The columns that can be read, in the schema's order: of those in types without Arrow form
// (variants) nothing is told.
std::vector<iceberg::Field> ScanColumns(const iceberg::Schema& schema);

struct ScanRequest {
  std::vector<int> field_ids;  // Of top-level columns, in the order wanted; none: rows alone.
  // Files whose metadata shows that no row can match are left out (table/iceberg_filter.h). What
  // cannot be parsed rules nothing out: this is no condition on rows.
  std::string where;
  // False: manifests without a file that may match are not read, nor counted in files_live().
  bool count_live = true;
  int threads = 1;
  int64_t memory_bytes = int64_t{256} << 20;  // Of all threads' buffers.
  const CancelFlag* cancel = nullptr;         // Outlives the scan.
};

// What a scan would read.
struct ScanPlan {
  int64_t files_live = 0;    // Data files of the snapshot.
  int64_t files = 0;         // Those that the condition leaves;
  int64_t bytes = 0;         // their sizes, whole, whatever columns are wanted;
  int64_t records = 0;       // their rows, with those that deletes remove;
  int64_t delete_files = 0;  // the delete files that apply to them.
};
// Reads the snapshot's manifests, and no file of data or deletes.
Result<ScanPlan> PlanScan(storage::Locations& locations, const iceberg::TableMetadata& table,
                          const ScanVersion& version, const ScanRequest& request);

// Batches in no certain order. Threads of its own read several files ahead. Any thread may call,
// several at once.
class IcebergScan {
 public:
  virtual ~IcebergScan() = default;
  // The next batch, a struct of the columns, which the caller releases; without columns, one of a
  // length alone. False at the end, when every row of every file was read. After an error it is
  // given again: kCorrupt, kUnsupported (a file or delete that is not read), kNotFound (a file that
  // an expiry has removed meanwhile), kLimit, kCancelled, what the store gives.
  virtual Result<bool> Next(ArrowArray* out) = 0;

  virtual int64_t files_live() const = 0;  // Of the snapshot, as far as they were counted.
  virtual int64_t files_read() const = 0;  // That the filter leaves.
};

// Reads the snapshot's manifests. `table` and `version` are copied as far as they are needed;
// `locations` outlive the scan.
Result<std::unique_ptr<IcebergScan>> OpenScan(storage::Locations& locations,
                                              const iceberg::TableMetadata& table,
                                              const ScanVersion& version,
                                              const ScanRequest& request);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_SCAN_H_
