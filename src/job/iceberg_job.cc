#include "job/iceberg_job.h"

#include <utility>

#include "commit/iceberg_commit.h"
#include "group/live_files.h"
#include "group/target.h"
#include "job/iceberg_audit.h"
#include "job/iceberg_load.h"
#include "job/iceberg_rewrite.h"
#include "table/iceberg_value.h"

namespace lithify::job {
namespace {

// Ends the call's record with what `changed` says.
template <typename T>
Result<T> Ended(AuditedCall& call, Result<T> changed, int64_t snapshot_id) {
  call.End(changed ? nullptr : &changed.error(), snapshot_id, snapshot_id != 0);
  return changed;
}

// The column by which rows are sorted in the first place, if bounds of files say something of its
// order; else null.
const iceberg::Field* SortKeyOf(const iceberg::TableMetadata& table) {
  const iceberg::SortOrder* order = table.FindSortOrder(table.default_sort_order_id);
  if (order == nullptr || order->fields.empty()) return nullptr;
  const iceberg::SortField& first = order->fields.front();
  using enum table::Transform::Kind;
  const auto kind = table::ParseTransform(first.transform).kind;
  const bool ordered = kind == kIdentity || kind == kTruncate || kind == kYear || kind == kMonth ||
                       kind == kDay || kind == kHour;
  if (!ordered || first.source_ids.size() != 1) return nullptr;
  const iceberg::Field* field = iceberg::FindField(table.schema(), first.source_ids.front());
  return field != nullptr && field->type.primitive() ? field : nullptr;
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
  const plan::RewriteOptions resolved = WithTableDefaults(options, table.metadata);
  LITHIFY_TRY(plan::CheckOptions(resolved));
  if (const iceberg::Snapshot* head = table.metadata.RefSnapshot("main")) {
    const group::LiveSetOptions load{.filter = nullptr,
                                     .key = with_plan ? SortKeyOf(table.metadata) : nullptr,
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
    result.plan = plan::PlanRewrite(result.live, index, resolved);
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
  return IcebergRewrite(services_, settings_, request, cancel).Run();
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
