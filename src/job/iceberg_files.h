// Which files a table's metadata reaches, and the removal of those it does not. Private to this
// module.
//
// Every removal is justified by metadata that was read just before it: the table is loaded again
// for each batch, and what it reaches by then is left alone (R184).
#ifndef LITHIFY_JOB_ICEBERG_FILES_H_
#define LITHIFY_JOB_ICEBERG_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "job/iceberg_job.h"
#include "storage/locations.h"

namespace lithify::job {

enum class FileKind {
  kData,
  kPositionDeletes,
  kEqualityDeletes,
  kManifest,
  kManifestList,
  kStatistics,
  kMetadata,
  kOther,
};
std::string_view FileKindName(FileKind kind);
// Content first (0), then what names it: a run that is cut off leaves nothing that names lost files
// and cannot be found again.
int RemovalRank(FileKind kind);

// Visits what a table reaches, each manifest once however often it is asked for newer metadata.
class ReachWalk {
 public:
  // `visit` gets each location, canonical; the same one may come several times.
  using Visit = std::function<void(const std::string& canonical, FileKind kind)>;
  ReachWalk(storage::Locations& locations, const CancelFlag& cancel)
      : locations_(locations), cancel_(cancel) {}

  // Manifest lists, manifests, all files that their entries name, statistics, metadata files and
  // the metadata log. kInvalid or kUnsupported, with the location, if one cannot be made canonical:
  // nothing may be called unreachable then (I17).
  Status Table(const iceberg::TableMetadata& table, const std::string& metadata_location,
               const Visit& visit);
  // How many files the entries of a snapshot's manifests name, about; manifests that this walk has
  // counted already are left out.
  Result<int64_t> CountEntries(const iceberg::TableMetadata& table,
                               const iceberg::Snapshot& snapshot);
  // The manifest list, manifests and files of one snapshot.
  Status Snapshot(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot,
                  const Visit& visit);

 private:
  Status Manifest(const iceberg::TableMetadata& table, const iceberg::ManifestFile& manifest,
                  const Visit& visit);
  Status One(const std::string& location, FileKind kind, const Visit& visit);

  storage::Locations& locations_;
  const CancelFlag& cancel_;
  std::unordered_set<std::string> seen_;  // Manifests and lists.
};

// `visit`, and where a location has percent signs a second time with what they encode: iceberg-go
// takes locations of local files for URLs, names "%3A" and creates ":". For sets of what must stay,
// since nobody knows which file is meant.
ReachWalk::Visit BothReadings(ReachWalk::Visit visit);

// Canonical location -> kind, of files that are to go.
struct DoomedFile {
  FileKind kind = FileKind::kOther;
  bool kept = false;  // Something reaches it after all.
  // As it was listed: a file that is another one by now is left alone. Unset: not compared.
  std::optional<plan::ListedFile> listed = {};
};
using Doomed = std::unordered_map<std::string, DoomedFile>;

// `seen` is the table as the caller saw it last; what it reaches is left alone as well, and a table
// of another uuid under the same name is kConflict: it tells nothing of this one's files. Removes
// `doomed` in batches; before each, the table is loaded again and everything that it reaches is
// taken out of `doomed` or marked as kept. Stops at the first error of that kind. Files that cannot
// be removed, also not when it is tried again where that may help, are in `report.failed`; those
// that are gone already count as removed (I21).
Status RemoveUnreached(const IcebergServices& services, const catalog::LoadedTable& seen,
                       ReachWalk& walk, Doomed& doomed, const CancelFlag& cancel,
                       RemovedFiles& report);

// How often somebody has to go through `names` names, each time with a share of them, so that one
// share fits half of the memory. At most 1,000 times, whatever damaged metadata claims.
size_t PassesFor(int64_t names, int64_t memory_bytes);

// kConflict if the name stands for another table by now.
Status SameTable(const catalog::LoadedTable& seen, const catalog::LoadedTable& now);

// storage::CheckClock() of where a table is.
Status CheckClock(storage::Locations& locations, const iceberg::TableMetadata& table);

// Everything below a location, recursively. Links and special files are left out and counted.
struct Listing {
  std::vector<plan::ListedFile> files;
  int64_t irregular = 0;
};
Status ListBelow(storage::Locations& locations, const std::string& location,
                 const CancelFlag& cancel, Listing& listing);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_FILES_H_
