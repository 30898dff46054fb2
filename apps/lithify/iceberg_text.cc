#include "iceberg_text.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "text/text_table.h"
#include "tier_text.h"

namespace lithify::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFilesShown = 20;

std::string OneDecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string TwoDecimals(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

Json FilesPerKeyJson(const std::optional<plan::FilesPerKey>& files) {
  return files ? Json({{"before", files->before}, {"after", files->after}}) : Json();
}

Json PlanJson(const job::RewriteResult& result) {
  Json groups = Json::array();
  for (size_t g = 0; g < result.plan.groups.size(); ++g) {
    const plan::FileGroup& group = result.plan.groups[g];
    Json files = Json::array();
    for (const int32_t index : group.data_files) {
      files.push_back(result.live.data_files[static_cast<size_t>(index)].path);
    }
    const std::string& name = result.partition_names.at(static_cast<size_t>(group.partition));
    groups.push_back({{"partition", group.moves ? Json() : Json(name)},
                      {"files", std::move(files)},
                      {"bytes", group.bytes},
                      {"records", group.records},
                      {"live_records", group.live_records},
                      {"outputs", group.outputs},
                      {"reason", group.reason},
                      {"tier_plan", TierPlanJson(result.tier_plans.at(g))}});
  }
  Json partitions = Json::array();
  for (const plan::PartitionVerdict& verdict : result.plan.partitions) {
    partitions.push_back(
        {{"partition", result.partition_names.at(static_cast<size_t>(verdict.partition))},
         {"state", plan::PartitionStateName(verdict.state)},
         {"files", verdict.files},
         {"bytes", verdict.bytes},
         {"reason", verdict.reason},
         {"files_per_key", FilesPerKeyJson(verdict.files_per_key)}});
  }
  return {{"groups", std::move(groups)}, {"partitions", std::move(partitions)}};
}

// Of some groups of a plan, together.
struct Planned {
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t outputs = 0;
  int64_t row_groups = 0;
  TierCounts tiers;
  TierCounts recoded;
  void Add(const plan::FileGroup& group, const std::optional<rewrite::TierPlan>& explained) {
    files += static_cast<int64_t>(group.data_files.size());
    bytes += group.bytes;
    outputs += group.outputs;
    if (!explained) return;
    row_groups += explained->row_groups;
    AddCounts(tiers, explained->tiers);
    AddCounts(recoded, explained->recoded);
  }
};

std::string DryRunText(const job::RewriteResult& result, bool colour) {
  TextTable table({{"partition"},
                   {"verdict"},
                   {"files", Align::kRight},
                   {"size", Align::kRight},
                   {"outputs", Align::kRight},
                   {"row groups", Align::kRight},
                   {"tiers, in column chunks"},
                   {"reason"}});
  std::map<int32_t, Planned> by_partition;
  Planned all;
  for (size_t g = 0; g < result.plan.groups.size(); ++g) {
    const plan::FileGroup& group = result.plan.groups[g];
    if (!group.moves) by_partition[group.partition].Add(group, result.tier_plans.at(g));
    all.Add(group, result.tier_plans.at(g));
  }
  for (const plan::PartitionVerdict& verdict : result.plan.partitions) {
    const bool candidate = verdict.state == plan::PartitionState::kCandidate;
    const Planned planned = by_partition[verdict.partition];
    std::string reason = verdict.reason;
    if (candidate && verdict.files_per_key) {
      reason += "; a read of one key opens " + TwoDecimals(verdict.files_per_key->before) + " -> " +
                TwoDecimals(verdict.files_per_key->after) + " files";
    }
    table.AddRow({{Printable(result.partition_names.at(static_cast<size_t>(verdict.partition)))},
                  {std::string(plan::PartitionStateName(verdict.state)),
                   candidate ? Tone::kGood : Tone::kDim},
                  {FormatCount(verdict.files)},
                  {FormatBytes(verdict.bytes)},
                  {planned.outputs == 0 ? "" : FormatCount(planned.outputs)},
                  {planned.row_groups == 0 ? "" : FormatCount(planned.row_groups)},
                  {TierText(planned.tiers, planned.recoded, true)},
                  {Printable(reason)}});
  }
  std::string out = table.Render(colour) + "\nwould rewrite " + FormatCount(all.files) +
                    " files, " + FormatBytes(all.bytes) + ", in " +
                    FormatCount(static_cast<int64_t>(result.plan.groups.size())) + " groups\n";
  if (!all.tiers.empty()) {
    out += "column chunks by tier: " + TierText(all.tiers, all.recoded, true) + "\n";
  }
  return out;
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Json FleetJson(const job::FleetReport& report) {
  const job::FleetSums sum = job::SumUp(report.story);
  Json workers = Json::array();
  for (const auto& [name, worker] : sum.workers) {
    workers.push_back({{"worker", name},
                       {"groups", worker.groups},
                       {"bytes_in", worker.bytes_in},
                       {"bytes_out", worker.bytes_out}});
  }
  Json groups = Json::array();
  for (const group::GroupStory& group : report.story.groups) {
    groups.push_back({{"group", group.number},
                      {"worker", group.worker.empty() ? Json() : Json(group.worker)},
                      {"attempts", group.attempts},
                      {"hedged", group.repeated},
                      {"failures", group.failures},
                      {"bytes_in", group.bytes_in},
                      {"bytes_out", group.bytes_out},
                      {"seconds", Seconds(group.took)}});
  }
  return {{"workers", workers},
          {"groups", groups},
          {"attempts", sum.attempts},
          {"hedged", sum.hedged},
          {"failed_over", sum.failed_over},
          {"seconds", Seconds(report.story.took)},
          {"check_seconds", Seconds(report.checked)}};
}

}  // namespace

Json RewriteJson(const job::RewriteResult& result) {
  Json out = {{"procedure", result.procedure},
              {"table", result.table},
              {"status", job::RewriteStatusName(result.status)},
              {"reason", result.reason},
              {"files_rewritten", result.files_rewritten},
              {"files_added", result.files_added},
              {"delete_files_removed", result.delete_files_removed},
              {"bytes_in", result.bytes_in},
              {"bytes_out", result.bytes_out},
              {"rows_in", result.rows_in},
              {"rows_out", result.rows_out},
              {"rows_removed", result.rows_removed},
              {"groups", result.groups},
              {"snapshot_id", result.snapshot_id ? Json(*result.snapshot_id) : Json()},
              {"snapshot_ids", result.snapshot_ids},
              {"job_id", result.job_id},
              {"distributed", result.distributed},
              {"fleet", result.fleet ? FleetJson(*result.fleet) : Json()},
              {"attempts", result.attempts},
              {"tiers", result.tiers},
              {"splices", result.splices},
              {"recoded", result.recoded},
              {"notes", result.notes}};
  if (result.status == job::RewriteStatus::kPlanned) out["plan"] = PlanJson(result);
  return out;
}

std::string RewriteText(const job::RewriteResult& result, bool colour) {
  std::string out;
  if (result.status == job::RewriteStatus::kPlanned) {
    out = DryRunText(result, colour);
  } else if (result.status == job::RewriteStatus::kSkipped) {
    out = "skipped: " + Printable(result.reason) + "\n";
  } else {
    const bool whole = result.status == job::RewriteStatus::kCommitted;
    out = Paint(whole ? "committed" : "partial", whole ? Tone::kGood : Tone::kWarn, colour) + "  " +
          FormatCount(result.files_rewritten) + " -> " + FormatCount(result.files_added) +
          " files, " + FormatBytes(result.bytes_in) + " -> " + FormatBytes(result.bytes_out) +
          ", " + FormatCount(result.rows_out) + " rows";
    if (result.rows_removed > 0) {
      out += ", " + FormatCount(result.rows_removed) + " deleted rows left out";
    }
    if (result.delete_files_removed > 0) {
      out += ", " + FormatCount(result.delete_files_removed) + " delete files dropped";
    }
    for (const int64_t id : result.snapshot_ids) out += "\nsnapshot " + std::to_string(id);
    out += "\n";
    if (!result.tiers.empty()) {
      out += "column chunks by tier: " + TierText(result.tiers, result.recoded, false) + "\n";
    }
    if (!whole) out += "  " + Printable(result.reason) + "\n";
  }
  for (const std::string& note : result.notes) out += "  note: " + Printable(note) + "\n";
  return out;
}

Json HealthJson(const job::HealthResult& result) {
  const plan::TableHealth& health = result.health;
  return {{"table", result.table},
          {"small_files", health.small_files},
          {"avg_file_mb", health.avg_file_mb},
          {"delete_ratio", health.delete_ratio},
          {"eligible_groups", health.eligible_groups},
          {"opted_in", health.opted_in},
          {"live_data_files", health.live_data_files},
          {"avg_file_bytes", health.avg_file_bytes},
          {"p50_file_bytes", health.p50_file_bytes},
          {"total_bytes", health.total_bytes},
          {"total_records", health.total_records},
          {"delete_files", health.delete_files},
          {"delete_heavy_files", health.delete_heavy_files},
          {"dangling_delete_files", health.dangling_delete_files},
          {"est_rewrite_bytes", health.est_rewrite_bytes},
          {"last_compaction_snapshot_ms",
           health.last_compaction_snapshot_ms ? Json(*health.last_compaction_snapshot_ms) : Json()},
          {"snapshot_id", result.snapshot_id != 0 ? Json(result.snapshot_id) : Json()}};
}

std::string HealthText(const job::HealthResult& result, bool colour) {
  const plan::TableHealth& health = result.health;
  TextTable table({{"table"},
                   {"small_files", Align::kRight},
                   {"avg_file_mb", Align::kRight},
                   {"delete_ratio", Align::kRight},
                   {"eligible_groups", Align::kRight},
                   {"opted_in"}});
  table.AddRow({{Printable(result.table)},
                {std::to_string(health.small_files)},
                {OneDecimal(health.avg_file_mb)},
                {TwoDecimals(health.delete_ratio)},
                {std::to_string(health.eligible_groups),
                 health.eligible_groups > 0 ? Tone::kWarn : Tone::kGood},
                {health.opted_in ? "true" : "false"}});
  std::string out = table.Render(colour);
  out += "\nlive data files    " + FormatCount(health.live_data_files) + ", " +
         FormatBytes(health.total_bytes) + ", " + FormatCount(health.total_records) + " records";
  out += "\nfile size          " + FormatBytes(health.avg_file_bytes) + " on average, " +
         FormatBytes(health.p50_file_bytes) + " median";
  out += "\ndelete files       " + FormatCount(health.delete_files) + ", " +
         FormatCount(health.dangling_delete_files) + " of them apply to nothing";
  out += "\ndelete-heavy files " + FormatCount(health.delete_heavy_files);
  out += "\na rewrite reads    " + FormatBytes(health.est_rewrite_bytes);
  out += "\nlast compaction    ";
  if (health.last_compaction_snapshot_ms) {
    const Time at{std::chrono::milliseconds(*health.last_compaction_snapshot_ms)};
    out += FormatTime(at).substr(0, 19) + "Z";
  } else {
    out += "-";
  }
  return out + "\n";
}

Json RemovedJson(const job::RemovedFiles& removed) {
  Json failed = Json::array();
  for (const Error& error : removed.failed) failed.push_back(error.ToString());
  Json out = {{"procedure", removed.procedure},
              {"table", removed.table},
              {"status", removed.status},
              {"dry_run", removed.dry_run},
              {"job_id", removed.job_id}};
  if (removed.procedure == "expire_snapshots") {
    out["snapshots_removed"] = removed.snapshots_removed;
    out["refs_removed"] = removed.refs_removed;
    out["files_by_kind"] = removed.by_kind;
  } else {
    out["listed"] = removed.orphans.listed;
    out["referenced"] = removed.orphans.referenced;
    out["young"] = removed.orphans.young;
    out["unknown_age"] = removed.orphans.unknown_age;
    out["over_limit"] = removed.orphans.over_limit;
    out["bytes"] = removed.bytes;
  }
  out["files_removed"] = removed.files_removed;
  out["files"] = removed.files;
  out["failed"] = std::move(failed);
  out["notes"] = removed.notes;
  return out;
}

std::string RemovedText(const job::RemovedFiles& removed, bool colour) {
  std::string out;
  const std::string verb = removed.dry_run ? "would remove " : "removed ";
  const int64_t files = removed.files_removed;
  if (removed.procedure == "expire_snapshots") {
    out = verb + FormatCount(removed.snapshots_removed) + " snapshots";
    if (!removed.refs_removed.empty()) {
      out += ", " + FormatCount(static_cast<int64_t>(removed.refs_removed.size())) + " refs";
    }
    out += " and " + FormatCount(files) + " files\n";
    for (const auto& [kind, count] : removed.by_kind) {
      out += "  " + kind + ": " + FormatCount(count) + "\n";
    }
  } else {
    out = verb + FormatCount(files) + " of " + FormatCount(removed.orphans.listed) + " files, " +
          FormatBytes(removed.bytes) + "\n";
    out += "  kept: " + FormatCount(removed.orphans.referenced) + " in use, " +
           FormatCount(removed.orphans.young) + " too young, " +
           FormatCount(removed.orphans.unknown_age) + " of unknown age\n";
  }
  if (removed.dry_run) {
    for (size_t i = 0; i < removed.files.size() && i < kFilesShown; ++i) {
      out += "  " + Paint(Printable(removed.files[i]), Tone::kDim, colour) + "\n";
    }
    if (removed.files.size() > kFilesShown) out += "  … (--json lists more)\n";
  }
  for (const std::string& note : removed.notes) out += "  note: " + Printable(note) + "\n";
  return out;
}

}  // namespace lithify::cli
