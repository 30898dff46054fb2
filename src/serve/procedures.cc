#include "serve/procedures.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.h"
#include "job/iceberg_job.h"
#include "plan/estimate.h"
#include "serve/maintenance.h"

namespace lithify::serve {
namespace {

using enum ColumnType;

// More of them are counted, and named by the audit log and the catalog's history.
constexpr size_t kFilesListedMax = 1000;

const std::vector<Column> kRewriteColumns = {
    {"procedure", kText, false},
    {"table", kText, false},
    {"status", kText, false},
    {"reason", kText, false},
    {"files_rewritten", kInt, false},
    {"files_added", kInt, false},
    {"delete_files_removed", kInt, false},
    {"bytes_in", kInt, false},
    {"bytes_out", kInt, false},
    {"rows_in", kInt, false},
    {"rows_out", kInt, false},
    {"rows_removed", kInt, false},
    {"groups", kInt, false},
    {"snapshot_id", kInt, true},
    {"job_id", kText, false},
    {"distributed", kBool, false},
    {"attempts", kInt, false},
    {"notes", kTexts, false},
};

const std::vector<Column> kRewritePlanColumns = {
    {"partition", kText, true},
    {"verdict", kText, false},
    {"reason", kText, false},
    {"files", kInt, false},
    {"bytes", kInt, false},
    {"groups", kInt, false},
    {"group_files", kInt, false},
    {"group_bytes", kInt, false},
    {"outputs", kInt, false},
    {"row_groups", kInt, true},
    {"tiers", kText, true},
    {"recoded", kText, true},
    {"est_seconds", kDouble, true},
    {"files_per_key", kDouble, true},
    {"files_per_key_after", kDouble, true},
};

const std::vector<Column> kHealthColumns = {
    {"table", kText, false},
    {"small_files", kInt, false},
    {"avg_file_mb", kDouble, false},
    {"delete_ratio", kDouble, false},
    {"eligible_groups", kInt, false},
    {"opted_in", kBool, false},
    {"live_data_files", kInt, false},
    {"avg_file_bytes", kInt, false},
    {"p50_file_bytes", kInt, false},
    {"total_bytes", kInt, false},
    {"total_records", kInt, false},
    {"delete_files", kInt, false},
    {"delete_heavy_files", kInt, false},
    {"dangling_delete_files", kInt, false},
    {"est_rewrite_bytes", kInt, false},
    {"last_compaction_snapshot_ms", kInt, true},
    {"snapshot_id", kInt, true},
};

const std::vector<Column> kExpireColumns = {
    {"procedure", kText, false},        {"table", kText, false},
    {"status", kText, false},           {"dry_run", kBool, false},
    {"snapshots_removed", kInt, false}, {"refs_removed", kTexts, false},
    {"files_removed", kInt, false},     {"files", kTexts, false},
    {"failed", kTexts, false},          {"job_id", kText, false},
    {"notes", kTexts, false},
};

const std::vector<Column> kOrphanColumns = {
    {"procedure", kText, false}, {"table", kText, false},        {"status", kText, false},
    {"dry_run", kBool, false},   {"listed", kInt, false},        {"referenced", kInt, false},
    {"young", kInt, false},      {"unknown_age", kInt, false},   {"over_limit", kInt, false},
    {"bytes", kInt, false},      {"files_removed", kInt, false}, {"files", kTexts, false},
    {"failed", kTexts, false},   {"job_id", kText, false},       {"notes", kTexts, false},
};

const std::vector<Column> kManifestColumns = {
    {"procedure", kText, false},      {"table", kText, false},
    {"status", kText, false},         {"manifests_rewritten", kInt, false},
    {"manifests_added", kInt, false}, {"snapshot_id", kInt, true},
    {"job_id", kText, false},
};

const std::vector<Column> kRollbackColumns = {
    {"procedure", kText, false},
    {"table", kText, false},
    {"status", kText, false},
    {"previous_snapshot_id", kInt, true},
    {"current_snapshot_id", kInt, false},
};

Cell OrNull(const std::optional<int64_t>& value) { return value ? Cell(*value) : Cell(); }

template <typename T>
void Set(T& to, const std::optional<int64_t>& value) {
  if (value) to = static_cast<T>(*value);
}

// The candidates of a rewrite, and of health (R079, T11).
void ReadCandidates(const sql::BoundCall& call, plan::RewriteOptions& out) {
  out.target_file_size_bytes = call.Integer("target_file_size_bytes").value_or(0);
  Set(out.min_file_size_bytes, call.Integer("min_file_size_bytes"));
  Set(out.max_file_size_bytes, call.Integer("max_file_size_bytes"));
  Set(out.min_input_files, call.Integer("min_input_files"));
  Set(out.delete_file_threshold, call.Integer("delete_file_threshold"));
  if (const auto ratio = call.Number("delete_ratio_threshold")) out.delete_ratio_threshold = *ratio;
}

plan::JobOrder ReadOrder(const std::string& text) {
  if (text == "bytes-asc") return plan::JobOrder::kBytesAsc;
  if (text == "bytes-desc") return plan::JobOrder::kBytesDesc;
  if (text == "files-asc") return plan::JobOrder::kFilesAsc;
  if (text == "files-desc") return plan::JobOrder::kFilesDesc;
  return plan::JobOrder::kNone;
}

std::optional<group::Distribution> ReadDistribution(const std::string& text) {
  if (text == "auto") return group::Distribution::kAuto;
  if (text == "local") return group::Distribution::kLocal;
  if (text == "require") return group::Distribution::kRequire;
  return std::nullopt;
}

job::RewriteRequest ReadRewrite(const sql::BoundCall& call, const catalog::TableIdent& ident) {
  job::RewriteRequest request;
  request.ident = ident;
  ReadCandidates(call, request.options);
  request.options.rewrite_all = call.Boolean("rewrite_all").value_or(false);
  Set(request.options.max_file_group_size_bytes, call.Integer("max_file_group_size_bytes"));
  request.options.rewrite_job_order = ReadOrder(call.Text("rewrite_job_order").value_or(""));
  request.where = call.Text("where").value_or("");
  request.partial_progress = call.Boolean("partial_progress").value_or(false);
  Set(request.partial_progress_max_commits, call.Integer("partial_progress_max_commits"));
  Set(request.max_attempts, call.Integer("max_attempts"));
  request.remove_dangling_deletes = call.Boolean("remove_dangling_deletes").value_or(false);
  Set(request.groups_at_once_max, call.Integer("max_concurrent_file_group_rewrites"));
  if (const auto spec = call.Integer("output_spec_id")) {
    request.output_spec_id = static_cast<int>(*spec);
  }
  Set(request.max_output_partitions, call.Integer("max_output_partitions"));
  if (const auto branch = call.Text("branch")) request.branch = *branch;
  request.distribution = ReadDistribution(call.Text("distributed").value_or(""));
  request.dry_run = call.Boolean("dry_run").value_or(false);
  // Only an order implies a sort (R103).
  request.options.sort_order = call.Text("sort_order").value_or("");
  const std::string implied = request.options.sort_order.empty() ? "binpack" : "sort";
  request.options.strategy = plan::ParseStrategy(call.Text("strategy").value_or(implied))
                                 .value_or(plan::Strategy::kBinpack);
  Set(request.options.min_overlap_depth, call.Integer("min_overlap_depth"));
  return request;
}

CallLimits ReadLimits(const sql::BoundCall& call) {
  CallLimits limits;
  if (call.procedure().name != "rewrite_data_files") return limits;
  Set(limits.jobs, call.Integer("jobs"));
  Set(limits.memory_bytes, call.Integer("memory"));
  limits.verify = call.Text("verify").value_or("");
  return limits;
}

Rows RewriteRow(const job::RewriteResult& r) {
  Rows rows(kRewriteColumns);
  rows.Add({r.procedure, r.table, std::string(job::RewriteStatusName(r.status)), r.reason,
            r.files_rewritten, r.files_added, r.delete_files_removed, r.bytes_in, r.bytes_out,
            r.rows_in, r.rows_out, r.rows_removed, r.groups, OrNull(r.snapshot_id), r.job_id,
            r.distributed, int64_t{r.attempts}, r.notes});
  return rows;
}

// Of one partition, or of the groups whose rows move to others.
struct PlannedGroups {
  int64_t groups = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t outputs = 0;
  std::optional<int64_t> row_groups;  // Unset: some group was not explained.
  std::map<std::string, int64_t> tiers;
  std::map<std::string, int64_t> recoded;

  void Add(const plan::FileGroup& group, const std::optional<rewrite::TierPlan>& explained) {
    if (groups == 0) row_groups = 0;
    ++groups;
    files += std::ssize(group.data_files);
    bytes += group.bytes;
    outputs += group.outputs;
    if (!explained || !row_groups) {
      row_groups.reset();
      return;
    }
    *row_groups += explained->row_groups;
    for (const auto& [tier, chunks] : explained->tiers) tiers[tier] += chunks;
    for (const auto& [reason, chunks] : explained->recoded) recoded[reason] += chunks;
  }

  std::vector<Cell> Cells(const plan::CostModel& model) const {
    const auto json = [](const auto& counts) {
      return counts.empty() ? Cell() : Cell(nlohmann::ordered_json(counts).dump());
    };
    const Duration time =
        plan::EstimateTime({.partitions = 1, .files = files, .bytes = bytes}, model);
    return {groups,
            files,
            bytes,
            outputs,
            groups == 0 ? Cell() : OrNull(row_groups),
            json(tiers),
            json(recoded),
            groups == 0 ? Cell() : Cell(std::chrono::duration<double>(time).count())};
  }
};

Rows RewritePlanRows(const job::RewriteResult& r, const plan::CostModel& model) {
  std::map<int32_t, PlannedGroups> by_partition;
  PlannedGroups moved;
  for (size_t g = 0; g < r.plan.groups.size(); ++g) {
    const plan::FileGroup& group = r.plan.groups[g];
    const auto& explained = g < r.tier_plans.size() ? r.tier_plans[g] : std::nullopt;
    (group.moves ? moved : by_partition[group.partition]).Add(group, explained);
  }
  Rows rows(kRewritePlanColumns);
  const auto add = [&](std::vector<Cell> row, const PlannedGroups& planned,
                       const std::optional<plan::FilesPerKey>& keys = {}) {
    for (Cell& cell : planned.Cells(model)) row.push_back(std::move(cell));
    row.resize(row.size() + 2);  // Null.
    if (keys) {
      row[row.size() - 2] = keys->before;
      row[row.size() - 1] = keys->after;
    }
    rows.Add(std::move(row));
  };
  for (const plan::PartitionVerdict& verdict : r.plan.partitions) {
    add({r.partition_names.at(static_cast<size_t>(verdict.partition)),
         std::string(plan::PartitionStateName(verdict.state)), verdict.reason, verdict.files,
         verdict.bytes},
        by_partition[verdict.partition], verdict.files_per_key);
  }
  if (moved.groups > 0) {
    add({Cell(), std::string("candidate"), std::string("rows move to another partition spec"),
         moved.files, moved.bytes},
        moved);
  }
  if (rows.rows().empty()) {
    add({Cell(), std::string("skipped"), r.reason, int64_t{0}, int64_t{0}}, {});
  }
  return rows;
}

Rows RemovedRow(const job::RemovedFiles& r) {
  std::vector<std::string> failed;
  for (const Error& error : r.failed) failed.push_back(error.ToString());
  std::vector<std::string> files = r.files;
  files.resize(std::min(files.size(), kFilesListedMax));
  const bool expiry = r.procedure == "expire_snapshots";
  Rows rows(expiry ? kExpireColumns : kOrphanColumns);
  if (expiry) {
    rows.Add({r.procedure, r.table, r.status, r.dry_run, r.snapshots_removed, r.refs_removed,
              r.files_removed, std::move(files), std::move(failed), r.job_id, r.notes});
  } else {
    const plan::OrphanPlan& o = r.orphans;
    rows.Add({r.procedure, r.table, r.status, r.dry_run, o.listed, o.referenced, o.young,
              o.unknown_age, o.over_limit, r.bytes, r.files_removed, std::move(files),
              std::move(failed), r.job_id, r.notes});
  }
  return rows;
}

// One call, with what it was opened for.
class Run {
 public:
  Run(const sql::BoundCall& call, bool explain, job::IcebergJob& job, ResolvedTable table, Time now,
      const plan::CostModel& model, const CancelFlag& cancel)
      : call_(call),
        explain_(explain),
        job_(job),
        table_(std::move(table)),
        now_(now),
        model_(model),
        cancel_(cancel) {}

  Result<Rows> Go() {
    const std::string_view name = call_.procedure().name;
    if (name == "rewrite_data_files") return Rewrite();
    if (name == "table_health") return Health();
    if (name == "expire_snapshots") return Expire();
    if (name == "remove_orphan_files") return Orphans();
    if (name == "rewrite_manifests") return Manifests();
    return Rollback();
  }

 private:
  std::string procedure() const { return std::string(call_.procedure().name); }

  Result<Rows> Rewrite() {
    job::RewriteRequest request = ReadRewrite(call_, table_.ident);
    request.dry_run = request.dry_run || explain_;
    LITHIFY_TRY_ASSIGN(const auto result, job_.RewriteDataFiles(request, cancel_));
    return explain_ ? RewritePlanRows(result, model_) : RewriteRow(result);
  }

  Result<Rows> Health() {
    plan::RewriteOptions options;
    ReadCandidates(call_, options);
    LITHIFY_TRY_ASSIGN(const auto result, job_.GetTableHealth(table_.ident, options));
    Rows rows(kHealthColumns);
    rows.Add(HealthCells(result));
    return rows;
  }

  Result<Rows> Expire() {
    plan::ExpireOptions options;
    if (const auto bound = call_.Bound("older_than")) options.older_than = bound->Resolve(now_);
    if (const auto n = call_.Integer("retain_last")) options.retain_last = static_cast<int>(*n);
    options.snapshot_ids = call_.Integers("snapshot_ids");
    LITHIFY_TRY_ASSIGN(const auto removed,
                       job_.ExpireSnapshots(table_.ident, options, DryRun(), cancel_));
    return RemovedRow(removed);
  }

  Result<Rows> Orphans() {
    plan::OrphanOptions options;
    if (const auto bound = call_.Bound("older_than")) options.older_than = bound->Resolve(now_);
    Set(options.deletes_max, call_.Integer("max_deletes"));
    options.other_locations = call_.Boolean("other_locations").value_or(false);
    options.force = call_.Boolean("force").value_or(false);
    LITHIFY_TRY_ASSIGN(const auto removed,
                       job_.RemoveOrphanFiles(table_.ident, options, DryRun(), cancel_));
    return RemovedRow(removed);
  }

  Result<Rows> Manifests() {
    LITHIFY_TRY_ASSIGN(const auto done, job_.RewriteManifests(table_.ident, cancel_));
    Rows rows(kManifestColumns);
    rows.Add({procedure(), done.table, std::string(done.snapshot_id ? "committed" : "skipped"),
              done.rewritten, done.added, OrNull(done.snapshot_id), done.job_id});
    return rows;
  }

  Result<Rows> Rollback() {
    const int64_t wanted = call_.Integer("snapshot_id").value_or(0);
    LITHIFY_TRY_ASSIGN(const int64_t before, job_.RollbackToSnapshot(table_.ident, wanted));
    Rows rows(kRollbackColumns);
    rows.Add({procedure(), table_.ident.ToString(),
              std::string(before != wanted ? "committed" : "skipped"),
              before != 0 ? Cell(before) : Cell(), wanted});
    return rows;
  }

  bool DryRun() const { return explain_ || call_.Boolean("dry_run").value_or(false); }

  const sql::BoundCall& call_;
  const bool explain_;
  job::IcebergJob& job_;
  const ResolvedTable table_;
  const Time now_;
  const plan::CostModel model_;
  const CancelFlag& cancel_;
};

}  // namespace

const std::vector<Column>& HealthColumns() { return kHealthColumns; }

std::vector<Cell> HealthCells(const job::HealthResult& r) {
  const plan::TableHealth& h = r.health;
  return {r.table,
          h.small_files,
          h.avg_file_mb,
          h.delete_ratio,
          h.eligible_groups,
          h.opted_in,
          h.live_data_files,
          h.avg_file_bytes,
          h.p50_file_bytes,
          h.total_bytes,
          h.total_records,
          h.delete_files,
          h.delete_heavy_files,
          h.dangling_delete_files,
          h.est_rewrite_bytes,
          OrNull(h.last_compaction_snapshot_ms),
          r.snapshot_id != 0 ? Cell(r.snapshot_id) : Cell()};
}

Result<std::vector<Column>> ProcedureColumns(const sql::BoundCall& call, bool explain) {
  const std::string_view name = call.procedure().name;
  if (name == "rewrite_data_files") return explain ? kRewritePlanColumns : kRewriteColumns;
  if (name == "table_health") return kHealthColumns;
  if (name == "expire_snapshots") return kExpireColumns;
  if (name == "remove_orphan_files") return kOrphanColumns;
  const bool known = name == "rewrite_manifests" || name == "rollback_to_snapshot";
  if (known && explain) {
    return Fail(Code::kUnsupported, std::string(name) + " cannot be explained: it has no dry run");
  }
  if (name == "rewrite_manifests") return kManifestColumns;
  if (name == "rollback_to_snapshot") return kRollbackColumns;
  if (name == "run_maintenance") return MaintenanceRunColumns();
  return Fail(Code::kUnsupported, "this server does not run " + std::string(name));
}

Result<Rows> RunProcedure(const sql::BoundCall& call, bool explain, const TableAccess& access,
                          const CallContext& context, observe::Progress& progress,
                          const CancelFlag& cancel) {
  if (call.procedure().name == "run_maintenance") {
    return RunMaintenance(call, explain, access, context, progress, cancel);
  }
  const auto named = call.Table();
  if (!named) return Fail(Code::kInvalid, "the procedure needs a table");
  CallContext at = context;
  if (call.procedure().changes && !explain) LITHIFY_TRY(access.CheckToken(context));
  if (!call.catalog().empty()) at.catalog = call.catalog();
  LITHIFY_TRY_ASSIGN(ResolvedTable table, access.Resolve(named->parts, at));
  LITHIFY_TRY_ASSIGN(const auto session,
                     access.Open(
                         table.catalog, std::string(call.procedure().name), table.ident, context,
                         [&cancel] { return cancel.requested(); }, ReadLimits(call)));
  auto job = session->MakeJob(progress, context.caller.name, context.job_id);
  const Time now = session->clock().Now();
  const plan::CostModel model{.threads = access.Threads(ReadLimits(call))};
  return Run(call, explain, job, std::move(table), now, model, cancel).Go();
}

}  // namespace lithify::serve
