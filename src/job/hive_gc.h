// Garbage of one partition: what the plan justifies, each removal after another look at the
// manifest (R235-R238, R241, T22-T24). Private to this module.
#ifndef LITHIFY_JOB_HIVE_GC_H_
#define LITHIFY_JOB_HIVE_GC_H_

#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "job/hive_job.h"
#include "job/hive_load.h"

namespace lithify::job {

// Adds to `report`; failures are counted there and stop nothing. True if the manifest was replaced,
// so that `loaded` must be loaded again.
bool CollectPartition(const HiveServices& services, const HiveSettings& settings,
                      const LoadedPartition& loaded, const std::string& job_id, bool dry_run,
                      const CancelFlag& cancel, GcReport& report);

// Uploads into `partitions` that some compactor began and never completed, past the grace (T28).
// Adds to `report`, likewise.
void CollectUploads(const HiveServices& services, const HiveSettings& settings,
                    const std::vector<PartitionId>& partitions, bool dry_run, GcReport& report);

// Removes outputs of an attempt that is known not to have committed. What cannot be removed is
// said in `notes` and left to the garbage collection.
void DiscardOutputs(const HiveServices& services, const PartitionId& id,
                    const std::vector<std::string>& names, std::vector<std::string>& notes);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_GC_H_
