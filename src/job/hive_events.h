// Compactions as Parquet events in the audit series (R243-R248). The file of an event is named by
// the intent, before the commit, so that whoever finds a commit without its event writes the very
// same file, and a second time finds it there. Private to this module.
#ifndef LITHIFY_JOB_HIVE_EVENTS_H_
#define LITHIFY_JOB_HIVE_EVENTS_H_

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "job/hive_job.h"
#include "observe/audit_log.h"

namespace lithify::job {

// kInvalid, naming the problem: no such series, no tenant or no day in it, no encoder.
Status CheckAuditSeries(const HiveServices& services, const HiveSettings& settings);

// Key of a new event file, by the event's tenant and time; empty if there is no audit series.
// Events of a series without tenants belong to the tenant "default".
Result<std::string> MakeEventKey(const HiveServices& services, const HiveSettings& settings,
                                 const std::string& tenant, Time time);

// Writes the event of `committed` (with its emitted_file), if it is not there, and records that.
// `time` is that of the intent.
Status EmitEvent(const HiveServices& services, const observe::AuditEvent& committed, Time time);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_EVENTS_H_
