// What is counted of sweeps: the metrics ourios.* (R250-R260), and the files by what their size
// says.
#ifndef LITHIFY_JOB_SWEEP_METRICS_H_
#define LITHIFY_JOB_SWEEP_METRICS_H_

#include <cstdint>

#include "base/clock.h"
#include "base/result.h"
#include "job/hive_job.h"
#include "observe/metrics.h"
#include "observe/telemetry.h"

namespace lithify::job {

// Below it a file is small, whatever the configuration calls so: alerts compare trees (R258).
inline constexpr int64_t kSmallFileBytes = int64_t{128} << 20;

// What begins at zero is told before anything happens, so that the first one is seen as a change.
void SeedSweepMetrics(observe::Metrics& metrics);

// One sweep that was no dry run. Of a part of the tree, of a sweep that was stopped and of one that
// failed as a whole, what is told of the whole tree stays as it was.
void CountSweep(observe::Metrics& metrics, const Result<SweepReport>& report, Duration took);

// What `span`, of the sweep, is told of it, and an event for each thing that failed.
void TellSweep(observe::Telemetry& telemetry, const Result<SweepReport>& report,
               observe::Span& span);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_SWEEP_METRICS_H_
