// One partition as it is now: a listing, then the manifest, then the footers of files that nobody
// lists (T23, Q4). Private to this module.
#ifndef LITHIFY_JOB_HIVE_LOAD_H_
#define LITHIFY_JOB_HIVE_LOAD_H_

#include <optional>
#include <string>
#include <vector>

#include "base/hive.h"
#include "base/result.h"
#include "job/hive_job.h"
#include "rewrite/group_runner.h"

namespace lithify::job {

struct LoadedPartition {
  HivePartitionState state;
  // Unlisted files that a foreign manifest leaves undecided; recorded as such by the first
  // publication over it (T22).
  std::vector<std::string> foreign;
  // The first file that nobody can place: the partition is not compacted while it is there.
  std::optional<Error> trouble;
  // The trouble is a link or special file that readers without a manifest follow: nothing is
  // published here while it is there.
  bool irregular = false;
  std::vector<std::string> notes;

  uint64_t generation() const { return state.manifest ? state.manifest->manifest.generation : 0; }
  std::vector<std::string> Names(FileState wanted) const;
};

// How many footers are read together by who has so many threads.
int FootersAtOnce(const HiveServices& services, const HiveSettings& settings, int threads);

// Retired times are repaired, see RepairRetiredTimes.
//
// kCorrupt for a bad manifest, or one that names a file which is not there; kConflict if the
// partition kept changing while it was read. Footers are read by `threads` threads.
Result<LoadedPartition> LoadPartition(const HiveServices& services,
                                      const plan::HiveOptions& options, const PartitionId& id,
                                      int threads);

// Moves the times of files that this manifest's own job retired forward to the manifest's time: a
// compactor may have read its clock long before its swap was applied, and the grace of readers
// counts from the swap (H3). Publishing over the snapshot keeps the repaired times. `published`:
// the manifest's time, where it is known to be that of this version; else the store is asked.
Status RepairRetiredTimes(storage::Store& store, HivePartitionState& state,
                          std::optional<Time> published = {});

// Reads the footer of every live file (rows, what cannot be rewritten). kCorrupt if one is no
// Parquet, or if there is no manifest although a file is a compaction's output: then the manifest
// was lost, and reading all files would show rows twice. Footers are read by `threads` threads.
Status InspectLive(const HiveServices& services, LoadedPartition& loaded, int threads);

// Names of retired records that the listing does not show. The committer looks at each before it
// drops the record: the listing is older than the manifest, so that a file may have been written,
// adopted and retired in between.
std::vector<std::string> FindGone(const HivePartitionState& state);

// The layout that `id` belongs to. Its series must be one of the settings'.
const SeriesLayout& LayoutOf(const HiveSettings& settings, const PartitionId& id);

// What every row of the partition must agree with (R222).
rewrite::RowRule MakeRowRule(const SeriesLayout& layout, const PartitionId& id);

bool IsLive(const HiveManifest& manifest, const std::string& name);
const RetiredFile* FindRetired(const HiveManifest& manifest, const std::string& name);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_LOAD_H_
