// A sweep as text and as JSON. Pure.
#ifndef LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_
#define LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_

#include <cstdint>
#include <string>

#include "job/hive_job.h"
#include "session.h"

namespace lithify::cli {

// What the time of a dry run is computed from; an estimate that says so.
struct CostModel {
  int threads = 1;
  int partitions_at_once = 1;
  int64_t io_limit_bytes_per_second = 0;  // Read and written together; 0: none.
};
// Input bytes per second and thread: between the shapes of bench/RESULTS.md (38 to 180 MiB/s).
inline constexpr int64_t kBytesPerSecondPerThread = 80 * kMiB;
// What it costs besides: syncs of claim, manifest, audit log and outputs per partition, an open
// file and its footer per input. Measured roughly, with files of 20 rows, --jobs 1, on a busy
// machine: 100 partitions of 6 files took 100 to 114 ms each, of 30 files 168 ms, one of 1,000
// files 2 to 4 s.
inline constexpr Duration kTimePerPartition = std::chrono::milliseconds(100);
inline constexpr Duration kTimePerFile = std::chrono::milliseconds(2);

// What is to be moved.
struct Work {
  int64_t partitions = 0;
  int64_t files = 0;  // Inputs.
  int64_t bytes = 0;  // Of inputs.
};
// The bytes at their rate, and the fixed costs, of which partitions that run at once share the
// time.
Duration EstimateTime(const Work& work, const CostModel& model);

// "committed  data/…/  32 -> 1 files  485.2 MiB -> 456.7 MiB  153,600 rows  generation 2  2.9 s".
std::string PartitionLine(const job::PartitionOutcome& outcome);

// One row per partition, and the totals.
std::string DryRunText(const job::SweepReport& report, const CostModel& model, bool colour);
// What was done, a few lines.
std::string SweepText(const job::SweepReport& report, bool colour);

Json SweepJson(const job::SweepReport& report, const std::string& root, bool dry_run,
               const CostModel& model);
Json GcJson(const job::GcReport& report);
std::string GcText(const job::GcReport& report, bool dry_run, bool colour);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_
