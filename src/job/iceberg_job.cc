#include "job/iceberg_job.h"

#include <utility>

#include "commit/iceberg_commit.h"
#include "job/iceberg_load.h"
#include "job/iceberg_rewrite.h"
#include "job/iceberg_target.h"

namespace lithify::job {
namespace {

using Phase = observe::AuditEvent::Phase;

observe::AuditEvent MakeEvent(const IcebergServices& services, const IcebergSettings& settings,
                              const catalog::TableIdent& ident, std::string procedure) {
  observe::AuditEvent event;
  event.time = services.clock.Now();
  event.job_id = MakeUuidV7(services.clock, services.random);
  event.procedure = std::move(procedure);
  event.table = ident.ToString();
  event.catalog = services.catalog.Describe();
  event.actor = settings.principal;
  return event;
}

// Intent, the change, its outcome: in every branch.
template <typename Change>
auto Audited(const IcebergServices& services, observe::AuditEvent event, Change change)
    -> decltype(change(event)) {
  event.phase = Phase::kIntent;
  LITHIFY_TRY(services.audit.Append(event));
  auto changed = change(event);
  event.phase = Phase::kCommitted;
  if (!changed) {
    const bool unknown = changed.error().code == Code::kUnknownOutcome;
    event.phase = unknown ? Phase::kUnknown : Phase::kAborted;
    event.error = changed.error().ToString();
  }
  event.time = services.clock.Now();
  // What happened has happened, also where it cannot be written down.
  if (Status audited = services.audit.Append(event); !audited) {
    services.progress.Line("audit log: " + audited.error().ToString());
  }
  return changed;
}

}  // namespace

Result<RewriteResult> IcebergJob::RewriteDataFiles(const RewriteRequest& request,
                                                   const CancelFlag& cancel) {
  if (settings_.threads < 1 || settings_.memory_bytes < 1) {
    return Fail(Code::kInvalid, "threads and memory must be positive");
  }
  return IcebergRewrite(services_, settings_, request, cancel).Run();
}

Result<HealthResult> IcebergJob::GetTableHealth(const catalog::TableIdent& ident,
                                                const plan::RewriteOptions& options) {
  const Duration begin = services_.clock.Monotonic();
  HealthResult result;
  result.table = ident.ToString();
  LITHIFY_TRY_ASSIGN(const auto table, services_.catalog.LoadTable(ident));
  const plan::RewriteOptions resolved = WithTableDefaults(options, table.metadata);
  LITHIFY_TRY(plan::CheckOptions(resolved));
  iceberg::LiveSet live;
  if (const iceberg::Snapshot* head = table.metadata.RefSnapshot("main")) {
    const LiveSetOptions load{.filter = nullptr, .threads = settings_.threads, .cancel = nullptr};
    auto loaded = LoadLiveFiles(services_.locations, table.metadata, *head, load);
    if (!loaded) {
      return Fail(IfMovedOn(services_, table, std::move(loaded.error())).In(result.table));
    }
    live = std::move(*loaded);
    result.snapshot_id = head->snapshot_id;
  }
  const iceberg::DeleteIndex index(live);
  result.health = plan::AssessHealth(table.metadata, live, index, resolved);
  result.took = services_.clock.Monotonic() - begin;
  return result;
}

Result<ManifestsResult> IcebergJob::RewriteManifests(const catalog::TableIdent& ident,
                                                     const CancelFlag& cancel) {
  auto event = MakeEvent(services_, settings_, ident, "rewrite_manifests");
  commit::IcebergCommitter committer({services_.catalog, services_.locations, services_.clock,
                                      services_.random,
                                      [this](Duration d) { services_.clock.Sleep(d); }});
  return Audited(services_, event, [&](observe::AuditEvent& done) -> Result<ManifestsResult> {
    LITHIFY_TRY_ASSIGN(const auto committed,
                       committer.RewriteManifests({.ident = ident,
                                                   .branch = "main",
                                                   .job_id = done.job_id,
                                                   .trigger = settings_.trigger,
                                                   .principal = settings_.principal,
                                                   .spec_id = std::nullopt},
                                                  cancel));
    done.snapshot_id = committed.snapshot_id.value_or(0);
    return ManifestsResult{.table = ident.ToString(),
                           .job_id = done.job_id,
                           .snapshot_id = committed.snapshot_id,
                           .rewritten = committed.rewritten,
                           .added = committed.added};
  });
}

Result<int64_t> IcebergJob::RollbackToSnapshot(const catalog::TableIdent& ident,
                                               int64_t snapshot_id) {
  auto event = MakeEvent(services_, settings_, ident, "rollback_to_snapshot");
  commit::IcebergCommitter committer({services_.catalog, services_.locations, services_.clock,
                                      services_.random,
                                      [this](Duration d) { services_.clock.Sleep(d); }});
  return Audited(services_, event, [&](observe::AuditEvent& done) -> Result<int64_t> {
    LITHIFY_TRY_ASSIGN(const auto before, services_.catalog.LoadTable(ident));
    LITHIFY_TRY(committer.Rollback(ident, "main", snapshot_id));
    done.snapshot_id = snapshot_id;
    return before.metadata.current_snapshot_id.value_or(0);
  });
}

}  // namespace lithify::job
