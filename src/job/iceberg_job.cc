#include "job/iceberg_job.h"

#include <algorithm>
#include <utility>

#include "commit/iceberg_commit.h"
#include "group/live_files.h"
#include "group/target.h"
#include "job/iceberg_audit.h"
#include "job/iceberg_load.h"
#include "job/iceberg_rewrite.h"

namespace lithify::job {
namespace {

// Ends the call's record with what `changed` says.
template <typename T>
Result<T> Ended(AuditedCall& call, Result<T> changed, int64_t snapshot_id) {
  call.End(changed ? nullptr : &changed.error(), snapshot_id, snapshot_id != 0);
  return changed;
}

// A plan that does nothing, and says why for each partition.
plan::RewritePlan Unplanned(const iceberg::LiveSet& live, const std::string& why) {
  plan::RewritePlan plan;
  plan.skip_reason = why;
  for (size_t p = 0; p < live.partitions.size(); ++p) {
    plan::PartitionVerdict& verdict = plan.partitions.emplace_back();
    verdict.partition = static_cast<int32_t>(p);
    verdict.state = plan::PartitionState::kUnsupported;
    verdict.reason = why;
  }
  for (const iceberg::LiveDataFile& file : live.data_files) {
    plan::PartitionVerdict& verdict = plan.partitions[static_cast<size_t>(file.partition)];
    ++verdict.files;
    verdict.bytes += std::max<int64_t>(0, file.size);
  }
  return plan;
}

Result<DebtResult> Look(const IcebergServices& services, const IcebergSettings& settings,
                        const catalog::TableIdent& ident, const plan::RewriteOptions& options,
                        bool with_plan) {
  const Duration begin = services.clock.Monotonic();
  DebtResult result;
  result.health.table = ident.ToString();
  LITHIFY_TRY_ASSIGN(auto table, LoadAudited(services, ident,
                                             MakeEvent(services, settings, ident, "table_health",
                                                       JobId(services, settings))));
  plan::RewriteOptions wanted = options;
  auto found = ResolveOptions(wanted, table.metadata);
  std::string unplanned;
  if (!found) {
    // A verdict on the table, and nothing that is wrong with the look (T5).
    unplanned = found.error().ToString();
    wanted.strategy = plan::Strategy::kBinpack;
    found = ResolveOptions(wanted, table.metadata);
  }
  if (!found) return Fail(std::move(found.error()));
  const plan::RewriteOptions& resolved = *found;
  LITHIFY_TRY(plan::CheckOptions(resolved));
  if (const iceberg::Snapshot* head = table.metadata.RefSnapshot("main")) {
    const PlanKey key = with_plan || resolved.sort ? KeyOf(resolved, table.metadata) : PlanKey();
    const group::LiveSetOptions load{.filter = nullptr,
                                     .key = key.field,
                                     .key_transform = key.transform,
                                     .threads = settings.threads,
                                     .cancel = nullptr};
    auto loaded = group::LoadLiveFiles(services.locations, table.metadata, *head, load);
    if (!loaded) {
      return Fail(IfMovedOn(services, table, std::move(loaded.error())).In(result.health.table));
    }
    result.live = std::move(*loaded);
    result.health.snapshot_id = head->snapshot_id;
  }
  const iceberg::DeleteIndex index(result.live);
  result.health.health = plan::AssessHealth(table.metadata, result.live, index, resolved);
  if (with_plan) {
    result.plan = unplanned.empty() ? plan::PlanRewrite(result.live, index, resolved)
                                    : Unplanned(result.live, unplanned);
    for (const iceberg::PartitionKey& key : result.live.partitions) {
      result.partition_names.push_back(group::PartitionName(table.metadata, key));
    }
  }
  result.metadata = std::move(table.metadata);
  result.health.took = services.clock.Monotonic() - begin;
  return result;
}

}  // namespace

std::string_view RewriteStatusName(RewriteStatus status) {
  switch (status) {
    case RewriteStatus::kCommitted: return "committed";
    case RewriteStatus::kPartial: return "partial";
    case RewriteStatus::kSkipped: return "skipped";
    case RewriteStatus::kPlanned: return "planned";
    case RewriteStatus::kFailed: return "failed";
  }
  return "failed";
}

Result<RewriteResult> IcebergJob::RewriteDataFiles(const RewriteRequest& request,
                                                   const CancelFlag& cancel) {
  if (settings_.threads < 1 || settings_.memory_bytes < 1) {
    return Fail(Code::kInvalid, "threads and memory must be positive");
  }
  observe::Span span(services_.telemetry, "rewrite_data_files", settings_.trace);
  span.Set(attribute::kLithifyTable, request.ident.ToString());
  IcebergSettings settings = settings_;
  settings.trace = span.context();
  // Who sees the snapshot finds the trace.
  if (settings.trace.valid()) settings.summary["lithify.trace-id"] = settings.trace.trace_id;
  auto result = IcebergRewrite(services_, settings, request, cancel).Run();
  if (!result) span.Fail(result.error());
  return result;
}

Result<HealthResult> IcebergJob::GetTableHealth(const catalog::TableIdent& ident,
                                                const plan::RewriteOptions& options) {
  LITHIFY_TRY_ASSIGN(DebtResult debt, Look(services_, settings_, ident, options, false));
  return std::move(debt.health);
}

Result<DebtResult> IcebergJob::GetTableDebt(const catalog::TableIdent& ident,
                                            const plan::RewriteOptions& options) {
  return Look(services_, settings_, ident, options, true);
}

Result<ManifestsResult> IcebergJob::RewriteManifests(const catalog::TableIdent& ident,
                                                     const CancelFlag& cancel) {
  AuditedCall call(services_, MakeEvent(services_, settings_, ident, "rewrite_manifests",
                                        JobId(services_, settings_)));
  commit::IcebergCommitter committer({services_.catalog, services_.locations, services_.clock,
                                      services_.random,
                                      [this](Duration d) { services_.clock.Sleep(d); }});
  auto done = committer.RewriteManifests({.ident = ident,
                                          .branch = "main",
                                          .job_id = call.job_id(),
                                          .trigger = settings_.trigger,
                                          .principal = settings_.principal,
                                          .spec_id = std::nullopt,
                                          .before_change = [&call] { return call.Begin(); }},
                                         cancel);
  const int64_t snapshot_id = done ? done->snapshot_id.value_or(0) : 0;
  LITHIFY_TRY_ASSIGN(const auto committed, Ended(call, std::move(done), snapshot_id));
  return ManifestsResult{.table = ident.ToString(),
                         .job_id = call.job_id(),
                         .snapshot_id = committed.snapshot_id,
                         .rewritten = committed.rewritten,
                         .added = committed.added};
}

Result<int64_t> IcebergJob::RollbackToSnapshot(const catalog::TableIdent& ident,
                                               int64_t snapshot_id) {
  AuditedCall call(services_, MakeEvent(services_, settings_, ident, "rollback_to_snapshot",
                                        JobId(services_, settings_)));
  commit::IcebergCommitter committer({services_.catalog, services_.locations, services_.clock,
                                      services_.random,
                                      [this](Duration d) { services_.clock.Sleep(d); }});
  const auto roll_back = [&]() -> Result<int64_t> {
    LITHIFY_TRY_ASSIGN(const auto before, services_.catalog.LoadTable(ident));
    const iceberg::Snapshot* head = before.metadata.RefSnapshot("main");
    if (head != nullptr && head->snapshot_id == snapshot_id) return snapshot_id;
    LITHIFY_TRY(call.Begin());
    LITHIFY_TRY(committer.Rollback(ident, "main", snapshot_id));
    return before.metadata.current_snapshot_id.value_or(0);
  };
  return Ended(call, roll_back(), snapshot_id);
}

Result<ChangedProperties> IcebergJob::ChangeProperties(
    const catalog::TableIdent& ident, const std::map<std::string, std::string>& set,
    const std::vector<std::string>& remove) {
  AuditedCall call(services_, MakeEvent(services_, settings_, ident, "change_properties",
                                        JobId(services_, settings_)));
  commit::IcebergCommitter committer({services_.catalog, services_.locations, services_.clock,
                                      services_.random,
                                      [this](Duration d) { services_.clock.Sleep(d); }});
  auto done = committer.ChangeProperties(ident, set, remove, [&call] { return call.Begin(); });
  call.End(done ? nullptr : &done.error(), 0, done && done->changed);
  if (!done) return Fail(std::move(done.error()));
  return ChangedProperties{std::move(done->table.metadata.properties), done->changed};
}

}  // namespace lithify::job
