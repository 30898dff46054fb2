#include "status_text.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

using plan::Verdict;

bool IsLive(const HiveFile& file) {
  return file.state == FileState::kLive || file.state == FileState::kLate;
}

Tone ToneOf(const job::PartitionStatus& status) {
  if (status.error) return Tone::kBad;
  switch (status.plan.verdict) {
    case Verdict::kCandidate: return Tone::kWarn;
    case Verdict::kNothingToGain: return Tone::kGood;
    case Verdict::kUnsupported: return Tone::kBad;
    default: return Tone::kDim;
  }
}

std::string Words(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', ' ');
  return out;
}

uint64_t Generation(const job::PartitionStatus& status) {
  return status.state.manifest ? status.state.manifest->manifest.generation : 0;
}

// Tenants, by series and name.
using Groups = std::map<std::pair<std::string, std::string>, StatusTotals>;

Groups GroupByTenant(const job::StatusReport& report) {
  Groups groups;
  for (const job::PartitionStatus& status : report.partitions) {
    groups[{status.state.id.series, status.state.id.tenant}].Add(status);
  }
  return groups;
}

std::string PartitionTable(const job::StatusReport& report, bool colour) {
  TextTable table({{"partition"},
                   {"files", Align::kRight},
                   {"bytes", Align::kRight},
                   {"small", Align::kRight},
                   {"generation", Align::kRight},
                   {"last compaction"},
                   {"state"},
                   {"reason"}});
  for (const job::PartitionStatus& status : report.partitions) {
    table.AddRow(
        {{status.state.id.key_prefix},
         {FormatCount(status.plan.live_files)},
         {FormatBytes(status.plan.live_bytes)},
         {FormatCount(status.plan.small_files)},
         {Generation(status) == 0 ? "-" : std::to_string(Generation(status))},
         {TimeOrDash(status.last_compaction)},
         {status.error ? "error" : Words(plan::VerdictName(status.plan.verdict)), ToneOf(status)},
         {status.error ? status.error->message : status.plan.reason}});
  }
  return table.Render(colour);
}

std::string TenantTable(const job::StatusReport& report, bool colour) {
  TextTable table({{"series"},
                   {"tenant"},
                   {"partitions", Align::kRight},
                   {"files", Align::kRight},
                   {"bytes", Align::kRight},
                   {"small", Align::kRight},
                   {"share", Align::kRight},
                   {"irreducible", Align::kRight},
                   {"backlog", Align::kRight}});
  const auto row = [&](const std::string& series, const std::string& tenant,
                       const StatusTotals& totals) {
    table.AddRow({{series},
                  {tenant},
                  {FormatCount(totals.partitions)},
                  {FormatCount(totals.files)},
                  {FormatBytes(totals.bytes)},
                  {FormatCount(totals.small_files)},
                  {FormatShare(totals.small_files, totals.files)},
                  {FormatCount(totals.irreducible_files)},
                  {FormatCount(totals.backlog), totals.backlog > 0 ? Tone::kWarn : Tone::kGood}});
  };
  const Groups groups = GroupByTenant(report);
  StatusTotals all;
  for (const job::PartitionStatus& status : report.partitions) all.Add(status);
  for (const auto& [key, totals] : groups) row(key.first, key.second, totals);
  if (groups.size() > 1) row("all", "", all);
  return table.Render(colour);
}

Json TotalsJson(const StatusTotals& totals) {
  return {{"partitions", totals.partitions},
          {"live_files", totals.files},
          {"live_bytes", totals.bytes},
          {"small_files", totals.small_files},
          {"small_share", totals.files == 0 ? 0.0
                                            : static_cast<double>(totals.small_files) /
                                                  static_cast<double>(totals.files)},
          {"irreducible_small_files", totals.irreducible_files},
          {"backlog", totals.backlog},
          {"errors", totals.errors}};
}

}  // namespace

void StatusTotals::Add(const job::PartitionStatus& status) {
  partitions += 1;
  errors += status.error ? 1 : 0;
  files += status.plan.live_files;
  bytes += status.plan.live_bytes;
  const bool irreducible = status.plan.verdict == Verdict::kIrreducible;
  (irreducible ? irreducible_files : small_files) += status.plan.small_files;
  backlog += status.plan.verdict == Verdict::kCandidate ? 1 : 0;
}

std::string StatusText(const job::StatusReport& report, bool colour, bool unicode) {
  if (report.partitions.empty()) return "no partitions found\n";
  SizeHistogram histogram;
  for (const job::PartitionStatus& status : report.partitions) {
    for (const HiveFile& file : status.state.files) {
      if (IsLive(file)) histogram.Add(file.size);
    }
  }
  std::string out = PartitionTable(report, colour) + "\n" + TenantTable(report, colour);
  if (const std::string text = histogram.Render(unicode); !text.empty()) out += "\n" + text;
  for (const table::SkippedPath& path : report.skipped_paths) {
    out += "left alone: " + Printable(path.key) + ": " + Printable(path.reason) + "\n";
  }
  return out;
}

Json StatusJson(const job::StatusReport& report, const std::string& root) {
  Json partitions = Json::array();
  for (const job::PartitionStatus& status : report.partitions) {
    Json item = ToJson(status.state.id);
    item["live_files"] = status.plan.live_files;
    item["live_bytes"] = status.plan.live_bytes;
    item["small_files"] = status.plan.small_files;
    item["verdict"] = plan::VerdictName(status.plan.verdict);
    item["reason"] = status.plan.reason;
    item["generation"] = Generation(status);
    item["last_compaction"] =
        status.last_compaction ? Json(FormatTime(*status.last_compaction)) : Json();
    Json sizes = Json::array();
    for (const HiveFile& file : status.state.files) {
      if (IsLive(file)) sizes.push_back(file.size);
    }
    item["file_sizes"] = std::move(sizes);
    item["error"] = status.error ? ToJson(*status.error) : Json();
    partitions.push_back(std::move(item));
  }
  Json tenants = Json::array();
  StatusTotals all;
  for (const auto& [key, totals] : GroupByTenant(report)) {
    Json item = {{"series", key.first}, {"tenant", key.second}};
    item.update(TotalsJson(totals));
    tenants.push_back(std::move(item));
  }
  for (const job::PartitionStatus& status : report.partitions) all.Add(status);
  Json errors = Json::array();
  for (const Error& error : report.errors) errors.push_back(ToJson(error));
  return {{"root", root},
          {"totals", TotalsJson(all)},
          {"tenants", std::move(tenants)},
          {"partitions", std::move(partitions)},
          {"skipped_paths", ToJson(report.skipped_paths)},
          {"errors", std::move(errors)}};
}

}  // namespace lithify::cli
