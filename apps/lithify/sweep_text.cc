#include "sweep_text.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "text/text_table.h"
#include "tier_text.h"

namespace lithify::cli {
namespace {

using job::Outcome;
using plan::Verdict;

constexpr std::array kVerdicts = {
    Verdict::kCandidate,   Verdict::kNotSealed, Verdict::kNothingToGain,
    Verdict::kIrreducible, Verdict::kExpiring,  Verdict::kUnsupported,
    Verdict::kEmpty,       Verdict::kClaimed,   Verdict::kNotChosen};

Tone ToneOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCommitted:
    case Outcome::kAdopted:
    case Outcome::kPlanned: return Tone::kGood;
    case Outcome::kLostRace:
    case Outcome::kCancelled: return Tone::kWarn;
    case Outcome::kFailed: return Tone::kBad;
    case Outcome::kSkipped: return Tone::kDim;
  }
  return Tone::kPlain;
}

std::string Words(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string Count(int64_t n, std::string_view one, std::string_view many) {
  return FormatCount(n) + " " + std::string(n == 1 ? one : many);
}

struct Totals {
  int64_t partitions = 0;
  int64_t files_in = 0;
  int64_t files_out = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t rows = 0;
  TierCounts tiers;  // As planned, of partitions that are.
  TierCounts recoded;
};

Totals TotalsOf(const job::SweepReport& report, Outcome outcome) {
  Totals totals;
  for (const job::PartitionOutcome& partition : report.partitions) {
    if (partition.outcome != outcome) continue;
    totals.partitions += 1;
    totals.files_in += static_cast<int64_t>(partition.plan.inputs.size());
    totals.files_out += outcome == Outcome::kPlanned
                            ? partition.plan.outputs
                            : static_cast<int64_t>(partition.outputs.size());
    totals.bytes_in += partition.plan.bytes_in;
    totals.bytes_out += partition.bytes_out;
    totals.rows += partition.rows;
    AddCounts(totals.tiers, partition.tier_plan ? partition.tier_plan->tiers : partition.tiers);
    AddCounts(totals.recoded,
              partition.tier_plan ? partition.tier_plan->recoded : partition.recoded);
  }
  return totals;
}

plan::Work WorkOf(const plan::PartitionPlan& plan) {
  return {
      .partitions = 1, .files = static_cast<int64_t>(plan.inputs.size()), .bytes = plan.bytes_in};
}

// "10 nothing to gain, 2 not sealed", of the skipped partitions.
std::string SkippedReasons(const job::SweepReport& report) {
  std::map<Verdict, int64_t> counts;
  for (const job::PartitionOutcome& partition : report.partitions) {
    if (partition.outcome == Outcome::kSkipped) counts[partition.plan.verdict] += 1;
  }
  std::string out;
  for (const Verdict verdict : kVerdicts) {
    if (!counts.contains(verdict)) continue;
    if (!out.empty()) out += ", ";
    out += FormatCount(counts[verdict]) + " " + Words(plan::VerdictName(verdict));
  }
  return out;
}

std::string SkippedPathsText(const job::SweepReport& report) {
  std::string out;
  for (const table::SkippedPath& path : report.skipped_paths) {
    out += "left alone: " + Printable(path.key) + ": " + Printable(path.reason) + "\n";
  }
  return out;
}

// Of partitions that would be rewritten.
std::string PlannedNotes(const job::SweepReport& report) {
  constexpr int kNotesShown = 20;
  std::string out;
  int notes = 0;
  for (const job::PartitionOutcome& partition : report.partitions) {
    if (partition.outcome != Outcome::kPlanned) continue;
    for (const std::string& note : partition.notes) {
      if (++notes > kNotesShown) return out + "… (--json has all notes)\n";
      out += "note: " + Printable(partition.id.key_prefix) + ": " + Printable(note) + "\n";
    }
  }
  return out;
}

Json PartitionJson(const job::PartitionOutcome& partition, const CostModel& model) {
  Json out = ToJson(partition.id);
  out["outcome"] = job::OutcomeName(partition.outcome);
  out["verdict"] = plan::VerdictName(partition.plan.verdict);
  out["reason"] = partition.plan.reason;
  out["generation"] = partition.generation;
  out["live_files"] = partition.plan.live_files;
  out["live_bytes"] = partition.plan.live_bytes;
  out["small_files"] = partition.plan.small_files;
  out["inputs"] = partition.plan.inputs;
  out["bytes_in"] = partition.plan.bytes_in;
  out["outputs_planned"] = partition.plan.outputs;
  if (partition.outcome == Outcome::kPlanned) {
    out["estimated_seconds"] =
        std::chrono::duration<double>(plan::EstimateTime(WorkOf(partition.plan), model)).count();
    out["tier_plan"] = TierPlanJson(partition.tier_plan);
  }
  out["outputs"] = partition.outputs;
  out["adopted"] = partition.adopted;
  out["rows"] = partition.rows;
  out["bytes_out"] = partition.bytes_out;
  out["tiers"] = partition.tiers;
  out["splices"] = partition.splices;
  out["recoded"] = partition.recoded;
  out["took_seconds"] = std::chrono::duration<double>(partition.took).count();
  out["notes"] = partition.notes;
  out["error"] = partition.error ? ToJson(*partition.error) : Json();
  return out;
}

Json ErrorsJson(const std::vector<Error>& errors) {
  Json out = Json::array();
  for (const Error& error : errors) out.push_back(ToJson(error));
  return out;
}

}  // namespace

std::string PartitionLine(const job::PartitionOutcome& outcome) {
  std::string out(Words(job::OutcomeName(outcome.outcome)));
  out.resize(std::max<size_t>(out.size(), 9), ' ');
  out += "  " + Printable(outcome.id.key_prefix);
  if (outcome.outcome == Outcome::kCommitted) {
    out += "  " + FormatCount(static_cast<int64_t>(outcome.plan.inputs.size())) + " -> " +
           Count(static_cast<int64_t>(outcome.outputs.size()), "file", "files");
    out += "  " + FormatBytes(outcome.plan.bytes_in) + " -> " + FormatBytes(outcome.bytes_out);
    out += "  " + Count(outcome.rows, "row", "rows");
    out += "  generation " + std::to_string(outcome.generation);
    out += "  " + FormatDuration(outcome.took);
  }
  if (!outcome.adopted.empty()) {
    out += "  " + Count(static_cast<int64_t>(outcome.adopted.size()), "late file", "late files") +
           " adopted";
  }
  if (outcome.plan.verdict == plan::Verdict::kUnsupported) {
    out += "  unsupported: " + Printable(outcome.plan.reason);
  }
  if (outcome.outcome == Outcome::kLostRace) out += "  another compactor was first";
  return out;
}

std::string DryRunText(const job::SweepReport& report, const CostModel& model, bool colour) {
  TextTable table({{"partition"},
                   {"verdict"},
                   {"files", Align::kRight},
                   {"outputs", Align::kRight},
                   {"to move", Align::kRight},
                   {"row groups", Align::kRight},
                   {"tiers, in column chunks"},
                   {"estimate", Align::kRight},
                   {"reason"}});
  for (const job::PartitionOutcome& partition : report.partitions) {
    const bool planned = partition.outcome == Outcome::kPlanned;
    std::string reason = partition.plan.reason;
    if (partition.error) reason = partition.error->ToString();
    if (!partition.adopted.empty()) {
      reason += "; would adopt " +
                Count(static_cast<int64_t>(partition.adopted.size()), "late file", "late files");
    }
    const bool failed = partition.outcome == Outcome::kFailed;
    const auto& tiers = partition.tier_plan;
    table.AddRow(
        {{partition.id.key_prefix},
         {failed ? "failed" : Words(plan::VerdictName(partition.plan.verdict)),
          ToneOf(partition.outcome)},
         {FormatCount(partition.plan.live_files)},
         {planned ? FormatCount(partition.plan.outputs) : ""},
         {planned ? FormatBytes(partition.plan.bytes_in) : ""},
         {tiers ? FormatCount(tiers->row_groups) : ""},
         {tiers ? TierText(tiers->tiers, tiers->recoded, true) : ""},
         {planned ? FormatDuration(plan::EstimateTime(WorkOf(partition.plan), model)) : ""},
         {std::move(reason)}});
  }
  std::string out = table.empty() ? "no partitions found\n" : table.Render(colour);
  out += SkippedPathsText(report);
  const Totals totals = TotalsOf(report, Outcome::kPlanned);
  out += "\nwould compact " + Count(totals.partitions, "partition", "partitions") + " of " +
         FormatCount(static_cast<int64_t>(report.partitions.size())) + ": " +
         FormatCount(totals.files_in) + " -> " + Count(totals.files_out, "file", "files") +
         ", moving " + FormatBytes(totals.bytes_in) + " in about " +
         FormatDuration(
             plan::EstimateTime({totals.partitions, totals.files_in, totals.bytes_in}, model)) +
         " (estimate, at " + FormatBytes(plan::kBytesPerSecondPerThread) + "/s for each of " +
         Count(model.threads, "thread", "threads") +
         (model.io_limit_bytes_per_second > 0
              ? " and the I/O limit of " + FormatBytes(model.io_limit_bytes_per_second) + "/s"
              : "") +
         ", plus " + FormatDuration(plan::kTimePerPartition) + " per partition and " +
         FormatDuration(plan::kTimePerFile) + " per file)\n";
  if (!totals.tiers.empty()) {
    out += "column chunks by tier: " + TierText(totals.tiers, totals.recoded, true) + "\n";
  }
  out += PlannedNotes(report);
  if (!report.gc.removed.empty()) out += GcText(report.gc, true, colour);
  return out;
}

std::string SweepText(const job::SweepReport& report, bool colour) {
  std::string out;
  const auto line = [&](std::string_view name, Tone tone, const std::string& rest) {
    std::string padded(name);
    padded.resize(std::max<size_t>(padded.size(), 10), ' ');
    out += Paint(padded, tone, colour) + " " + rest + "\n";
  };
  const Totals done = TotalsOf(report, Outcome::kCommitted);
  if (done.partitions > 0) {
    line("compacted", Tone::kGood,
         Count(done.partitions, "partition", "partitions") + ": " + FormatCount(done.files_in) +
             " -> " + Count(done.files_out, "file", "files") + ", " + FormatBytes(done.bytes_in) +
             " -> " + FormatBytes(done.bytes_out) + ", " + Count(done.rows, "row", "rows"));
    if (!done.tiers.empty()) {
      line("tiers", Tone::kPlain, TierText(done.tiers, done.recoded, false));
    }
  }
  if (const int64_t n = report.Count(Outcome::kAdopted); n > 0) {
    line("adopted", Tone::kGood, "late files in " + Count(n, "partition", "partitions"));
  }
  if (const int64_t n = report.Count(Outcome::kLostRace); n > 0) {
    line("lost race", Tone::kWarn,
         Count(n, "partition", "partitions") +
             ": another compactor was first, nothing of ours "
             "is visible");
  }
  if (const int64_t n = report.Count(Outcome::kSkipped); n > 0) {
    line("skipped", Tone::kDim,
         Count(n, "partition", "partitions") + ": " + SkippedReasons(report));
  }
  if (const int64_t n = report.Count(Outcome::kFailed); n > 0) {
    line("failed", Tone::kBad, Count(n, "partition", "partitions") + ", left as they were");
  }
  if (report.reconciled > 0) {
    line("reconciled", Tone::kWarn,
         Count(report.reconciled, "job", "jobs") + " of processes that died");
  }
  if (!report.gc.removed.empty()) {
    int64_t bytes = 0;
    for (const auto& item : report.gc.removed) bytes += item.size;
    line("removed", Tone::kGood,
         Count(static_cast<int64_t>(report.gc.removed.size()), "dead file", "dead files") + ", " +
             FormatBytes(bytes));
  }
  out += SkippedPathsText(report);
  if (report.partitions.empty()) out += "no partitions found\n";
  line(report.cancelled ? "stopped" : "took", report.cancelled ? Tone::kWarn : Tone::kPlain,
       (report.cancelled ? "after " : "") + FormatDuration(report.took));
  return out;
}

Json GcJson(const job::GcReport& report) {
  const auto items = [](const std::vector<job::GcReport::Item>& list) {
    Json out = Json::array();
    for (const auto& item : list) {
      out.push_back({{"key", item.key}, {"bytes", item.size}, {"reason", item.reason}});
    }
    return out;
  };
  return {{"removed", items(report.removed)},
          {"kept", items(report.kept)},
          {"errors", ErrorsJson(report.errors)}};
}

std::string GcText(const job::GcReport& report, bool dry_run, bool colour) {
  TextTable table({{"action"}, {"file"}, {"size", Align::kRight}, {"reason"}});
  int64_t bytes = 0;
  for (const auto& item : report.removed) {
    bytes += item.size;
    table.AddRow({{dry_run ? "would go" : "removed", Tone::kGood},
                  {item.key},
                  {FormatBytes(item.size)},
                  {item.reason}});
  }
  // What stays is told only to who asks for the plan: it can be long.
  for (const auto& item : dry_run ? report.kept : std::vector<job::GcReport::Item>()) {
    table.AddRow({{"kept", Tone::kDim}, {item.key}, {FormatBytes(item.size)}, {item.reason}});
  }
  std::string out = table.empty() ? "" : table.Render(colour) + "\n";
  out += (dry_run ? "would remove " : "removed ") +
         Count(static_cast<int64_t>(report.removed.size()), "file", "files") + ", " +
         FormatBytes(bytes) + "; kept " +
         Count(static_cast<int64_t>(report.kept.size()), "file", "files") +
         " that may go later or not at all\n";
  return out;
}

Json SweepJson(const job::SweepReport& report, const std::string& root, bool dry_run,
               const CostModel& model) {
  Json partitions = Json::array();
  for (const auto& partition : report.partitions) {
    partitions.push_back(PartitionJson(partition, model));
  }
  Json counts = Json::object();
  for (const Outcome outcome :
       {Outcome::kCommitted, Outcome::kPlanned, Outcome::kAdopted, Outcome::kSkipped,
        Outcome::kLostRace, Outcome::kFailed, Outcome::kCancelled}) {
    counts[std::string(job::OutcomeName(outcome))] = report.Count(outcome);
  }
  const Totals totals = TotalsOf(report, dry_run ? Outcome::kPlanned : Outcome::kCommitted);
  return {{"root", root},
          {"dry_run", dry_run},
          {"cancelled", report.cancelled},
          {"took_seconds", std::chrono::duration<double>(report.took).count()},
          {"counts", std::move(counts)},
          {"totals",
           {{"files_in", totals.files_in},
            {"files_out", totals.files_out},
            {"bytes_in", totals.bytes_in},
            {"bytes_out", totals.bytes_out},
            {"rows", totals.rows}}},
          {"reconciled", report.reconciled},
          {"partitions", std::move(partitions)},
          {"skipped_paths", ToJson(report.skipped_paths)},
          {"gc", GcJson(report.gc)},
          {"errors", ErrorsJson(report.errors)}};
}

}  // namespace lithify::cli
