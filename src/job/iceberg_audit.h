// What the Iceberg procedures have in common in the audit log. Private to this module.
#ifndef LITHIFY_JOB_ICEBERG_AUDIT_H_
#define LITHIFY_JOB_ICEBERG_AUDIT_H_

#include <string>
#include <utility>

#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "observe/audit_log.h"

namespace lithify::job {

// That of the settings, or a new one.
std::string JobId(const IcebergServices& services, const IcebergSettings& settings);

// Who does what to which table, now.
observe::AuditEvent MakeEvent(const IcebergServices& services, const IcebergSettings& settings,
                              const catalog::TableIdent& ident, std::string procedure,
                              std::string job_id);

// Whether the catalog withholds the table: it says no, or that there is none, which some say to
// those who may not see it.
bool IsRefusal(const Error& error);

// Loads the table that the event is about. A refusal is on record like that of a commit (R168): one
// event, phase aborted, without an intent, as nothing was about to change.
Result<catalog::LoadedTable> LoadAudited(const IcebergServices& services,
                                         const catalog::TableIdent& ident,
                                         observe::AuditEvent event);

// The same of an error before anything was about to change; one that is no refusal is not on
// record.
void RecordRefusal(const IcebergServices& services, const Error& error, observe::AuditEvent event);

// Intent, the change, its outcome: in every branch. Nothing is on record of a call that finds
// nothing to change.
class AuditedCall {
 public:
  AuditedCall(const IcebergServices& services, observe::AuditEvent event)
      : services_(services), event_(std::move(event)) {}

  // Before the first change. Writes the intent, once; a log that cannot be written stops the call
  // (R178).
  Status Begin();
  // `error`: null for a success. `snapshot_id`: that the table got, 0: it got none. `changed`:
  // false for a success after which the table is as it was.
  void End(const Error* error, int64_t snapshot_id, bool changed);

  const std::string& job_id() const { return event_.job_id; }

 private:
  const IcebergServices& services_;
  observe::AuditEvent event_;
  bool begun_ = false;
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_AUDIT_H_
