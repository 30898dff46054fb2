#include "job/iceberg_audit.h"

namespace lithify::job {
namespace {

using Phase = observe::AuditEvent::Phase;

// What happened has happened, also where it cannot be written down.
void AppendOutcome(const IcebergServices& services, observe::AuditEvent& event) {
  event.time = services.clock.Now();
  if (Status audited = services.audit.Append(event); !audited) {
    services.progress.Line("audit log: " + audited.error().ToString());
  }
}

}  // namespace

std::string JobId(const IcebergServices& services, const IcebergSettings& settings) {
  return settings.job_id.empty() ? MakeUuidV7(services.clock, services.random) : settings.job_id;
}

observe::AuditEvent MakeEvent(const IcebergServices& services, const IcebergSettings& settings,
                              const catalog::TableIdent& ident, std::string procedure,
                              std::string job_id) {
  observe::AuditEvent event;
  event.time = services.clock.Now();
  event.job_id = std::move(job_id);
  event.procedure = std::move(procedure);
  event.table = ident.ToString();
  event.catalog = services.catalog.Describe();
  event.actor = settings.principal;
  return event;
}

bool IsRefusal(const Error& error) {
  return error.code == Code::kDenied || error.code == Code::kNotFound;
}

Result<catalog::LoadedTable> LoadAudited(const IcebergServices& services,
                                         const catalog::TableIdent& ident,
                                         observe::AuditEvent event) {
  auto loaded = services.catalog.LoadTable(ident);
  if (!loaded) RecordRefusal(services, loaded.error(), std::move(event));
  return loaded;
}

void RecordRefusal(const IcebergServices& services, const Error& error, observe::AuditEvent event) {
  if (!IsRefusal(error)) return;
  event.phase = Phase::kAborted;
  event.error = error.ToString();
  AppendOutcome(services, event);
}

Status AuditedCall::Begin() {
  if (begun_) return {};
  event_.phase = Phase::kIntent;
  LITHIFY_TRY(services_.audit.Append(event_));
  begun_ = true;
  return {};
}

void AuditedCall::End(const Error* error, int64_t snapshot_id, bool changed) {
  if (!begun_ && (error == nullptr || !IsRefusal(*error))) return;
  event_.phase = Phase::kCommitted;
  event_.snapshot_id = snapshot_id;
  if (error != nullptr) {
    event_.phase = error->code == Code::kUnknownOutcome ? Phase::kUnknown : Phase::kAborted;
    event_.error = error->ToString();
  } else if (!changed) {
    event_.phase = Phase::kAborted;
    event_.error = "there was nothing to change any more";
  }
  AppendOutcome(services_, event_);
}

}  // namespace lithify::job
