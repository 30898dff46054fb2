// How long a rewrite may take: an estimate from sizes and counts, for dry runs. Pure.
#ifndef LITHIFY_PLAN_ESTIMATE_H_
#define LITHIFY_PLAN_ESTIMATE_H_

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "base/text.h"

namespace lithify::plan {

// Input bytes per second and thread: between the shapes of bench/RESULTS.md (38 to 180 MiB/s).
inline constexpr int64_t kBytesPerSecondPerThread = 80 * kMiB;
// What it costs besides: syncs of claim, manifest, audit log and outputs per partition, an open
// file and its footer per input. Measured roughly, with files of 20 rows, --jobs 1, on a busy
// machine: 100 partitions of 6 files took 100 to 114 ms each, of 30 files 168 ms, one of 1,000
// files 2 to 4 s.
inline constexpr Duration kTimePerPartition = std::chrono::milliseconds(100);
inline constexpr Duration kTimePerFile = std::chrono::milliseconds(2);

// What a time is computed from; an estimate that says so. The rates are what an outcome may correct
// (plan/maintenance_plan.h).
struct CostModel {
  using Seconds = std::chrono::duration<double>;

  int threads = 1;
  int partitions_at_once = 1;
  int64_t io_limit_bytes_per_second = 0;  // Read and written together; 0: none.
  double bytes_per_second_per_thread = static_cast<double>(kBytesPerSecondPerThread);
  Seconds time_per_partition = kTimePerPartition;
  Seconds time_per_file = kTimePerFile;
};

// What is to be moved.
struct Work {
  int64_t partitions = 0;
  int64_t files = 0;  // Inputs.
  int64_t bytes = 0;  // Of inputs.
};
// The bytes at their rate, and the fixed costs, of which partitions that run at once share the
// time.
double EstimateSeconds(const Work& work, const CostModel& model);
Duration EstimateTime(const Work& work, const CostModel& model);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_ESTIMATE_H_
