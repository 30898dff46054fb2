// What became of compactions whose process died between intent and outcome (T25, R247). Private to
// this module.
#ifndef LITHIFY_JOB_HIVE_RECONCILE_H_
#define LITHIFY_JOB_HIVE_RECONCILE_H_

#include "base/cancel.h"
#include "job/hive_job.h"

namespace lithify::job {

// Reads the audit log; writes the missing outcomes, then the missing Parquet events. Adds what goes
// wrong to report.errors and counts into report.reconciled. Idempotent: two processes may do it at
// once, and then write the same outcome twice.
void Reconcile(const HiveServices& services, const HiveSettings& settings, const CancelFlag& cancel,
               SweepReport& report);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_RECONCILE_H_
