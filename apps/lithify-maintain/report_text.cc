#include "report_text.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "text/text_table.h"

namespace lithify {
namespace {

using cli::Align;
using cli::Paint;
using cli::Printable;
using cli::TextTable;
using cli::Tone;
using maintain::TickReport;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : "%.0f", value);
  return text;
}

Tone OfStatus(const std::string& status) {
  if (status == "success" || status == "partial") return Tone::kGood;
  return status == "failed" ? Tone::kBad : Tone::kDim;
}

// Empty if all are shown.
std::string More(size_t all, size_t shown, const char* what) {
  if (all <= shown) return {};
  return "… and " + FormatCount(static_cast<int64_t>(all - shown)) + " more " + what +
         " (--all shows them)\n";
}

std::string Loud(const TickReport& report, bool colour, size_t rows_max) {
  std::string out;
  const size_t refusals = std::min(report.loud.size(), rows_max);
  const size_t warnings = std::min(report.warnings.size(), rows_max);
  for (const maintain::LoudLine& line : std::span(report.loud).first(refusals)) {
    out += Paint("! " + Printable(line.what) +
                     (line.where.empty() ? "" : " " + Printable(line.where)) + ": " +
                     Printable(line.why),
                 Tone::kBad, colour) +
           "\n";
    if (!line.next.empty()) out += "  next: " + Printable(line.next) + "\n";
  }
  out += More(report.loud.size(), refusals, "of what keeps maintenance away");
  for (const std::string& warning : std::span(report.warnings).first(warnings)) {
    out += Paint("warning: " + Printable(warning), Tone::kWarn, colour) + "\n";
  }
  return out + More(report.warnings.size(), warnings, "warnings");
}

std::string Head(const TickReport& report) {
  const std::string who = report.principal.empty() ? "nobody" : Printable(report.principal);
  return "mode " + report.mode +
         (report.catalog.empty() ? "" : ", catalog " + Printable(report.catalog)) + ", as " + who +
         ", " + FormatTime(report.ended) + "\n" +
         (report.limits.empty() ? "" : Printable(report.limits) + "\n");
}

std::string ShortTime(const std::optional<Time>& time) {
  return time ? FormatTime(*time).substr(0, 19) + "Z" : std::string();
}

std::string Gate(const maintain::TableReport& one) {
  return std::string(maintain::TableGateName(one.gate));
}

// Of what callers touched: totals, and no more.
std::string SightedText(const TickReport& report, bool colour, size_t rows_max) {
  TextTable table({{"TABLE"},
                   {"GATE"},
                   {"FILES", Align::kRight},
                   {"AVERAGE", Align::kRight},
                   {"SMALL FILES"},
                   {"DELETE FILES", Align::kRight},
                   {"SEEN"}});
  const size_t shown = std::min(report.tables.size(), rows_max);
  for (const maintain::TableReport& one : std::span(report.tables).first(shown)) {
    const auto count = [](const std::optional<int64_t>& n) { return n ? FormatCount(*n) : ""; };
    table.AddRow({{Printable(one.table)},
                  {Gate(one)},
                  {count(one.data_files)},
                  {one.file_bytes_average ? FormatBytes(*one.file_bytes_average) : ""},
                  {"not known", Tone::kDim},
                  {count(one.delete_files)},
                  {ShortTime(one.seen)}});
  }
  if (table.empty()) return "no tables\n";
  return table.Render(colour) + More(report.tables.size(), shown, "tables");
}

// The less, the sooner somebody should look at it.
int Urgency(const maintain::TableReport& table) {
  if (table.gate == maintain::TableGate::kUnreadable || table.due == "breaker_open") return 0;
  if (table.due == "backing_off" || table.due == "let_go" || !table.warnings.empty()) return 1;
  if (table.due == "due") return 2;
  return table.gate == maintain::TableGate::kOptedIn ? 3 : 4;
}

}  // namespace

std::string PlanText(const TickReport& report, bool colour, size_t rows_max) {
  std::string out = Head(report) + Loud(report, colour, rows_max);
  TextTable table({{"RANK", Align::kRight},
                   {"TABLE"},
                   {"PARTITION"},
                   {"VERDICT"},
                   {"FILES", Align::kRight},
                   {"SIZE", Align::kRight},
                   {"SCORE", Align::kRight},
                   {"WHY"}});
  const size_t shown = std::min(report.plan.size(), rows_max);
  for (const maintain::PlanLine& line : std::span(report.plan).first(shown)) {
    const Tone tone = line.verdict == "run" ? Tone::kGood : Tone::kDim;
    table.AddRow({{line.rank > 0 ? std::to_string(line.rank) : ""},
                  {Printable(line.table)},
                  {Printable(line.partition)},
                  {line.verdict, tone},
                  {FormatCount(line.files)},
                  {FormatBytes(line.bytes)},
                  {line.rank > 0 ? Number(line.score) : ""},
                  {Printable(line.reason)}});
  }
  out += table.empty()
             ? std::string("no table is opted in that could be looked into, and no tree\n")
             : table.Render(colour) + More(report.plan.size(), shown, "candidates");
  return out;
}

std::string RunText(const TickReport& report, bool colour, size_t rows_max) {
  std::string out = Loud(report, colour, rows_max);
  if (!report.limits.empty())
    return out + Printable(report.limits) + "\n" + SightedText(report, colour, rows_max);
  TextTable table({{"TABLE"},
                   {"PROCEDURE"},
                   {"STATUS"},
                   {"FILES"},
                   {"SIZE"},
                   {"ROWS REMOVED", Align::kRight},
                   {"WHY"}});
  // Where not all are shown, what failed comes first, and what was left as it is last.
  std::vector<const maintain::JobLine*> jobs;
  for (const maintain::JobLine& job : report.jobs) jobs.push_back(&job);
  if (jobs.size() > rows_max) {
    std::ranges::stable_sort(jobs, std::less(), [](const maintain::JobLine* job) {
      return job->status == "failed" ? 0 : job->status == "skipped" ? 2 : 1;
    });
    jobs.resize(rows_max);
  }
  for (const maintain::JobLine* const at : jobs) {
    const maintain::JobLine& job = *at;
    const bool moved = job.files_in > 0 || job.files_out > 0;
    table.AddRow(
        {{Printable(job.table)},
         {job.procedure},
         {job.status, OfStatus(job.status)},
         {moved ? FormatCount(job.files_in) + " > " + FormatCount(job.files_out) : ""},
         {job.bytes_in > 0 ? FormatBytes(job.bytes_in) + " > " + FormatBytes(job.bytes_out) : ""},
         {job.rows_removed > 0 ? FormatCount(job.rows_removed) : ""},
         {Printable(job.reason)}});
  }
  out += table.Render(colour) + More(report.jobs.size(), jobs.size(), "jobs");
  std::map<std::string, int64_t> left;
  for (const maintain::TableReport& one : report.tables) {
    if (one.gate != maintain::TableGate::kOptedIn) {
      ++left[std::string(maintain::TableGateName(one.gate))];
    } else if (one.due != "due") {
      ++left[one.due];
    }
  }
  for (const auto& [why, tables] : left) {
    out += FormatCount(tables) + (tables == 1 ? " table: " : " tables: ") + why + "\n";
  }
  if (report.jobs.empty() && left.empty() && report.loud.empty()) out += "no tables\n";
  return out;
}

std::string StatusText(const TickReport& report, bool colour, size_t rows_max) {
  std::string out = Head(report) + Loud(report, colour, rows_max);
  if (!report.limits.empty()) return out + SightedText(report, colour, rows_max);
  TextTable table({{"TABLE"},
                   {"GATE"},
                   {"DUE"},
                   {"NEXT"},
                   {"SMALL FILES", Align::kRight},
                   {"DELETE FILES", Align::kRight},
                   {"DEBT", Align::kRight},
                   {"WHY"}});
  std::vector<const maintain::TableReport*> tables;
  for (const maintain::TableReport& one : report.tables) tables.push_back(&one);
  if (tables.size() > rows_max) {
    std::ranges::stable_sort(tables, std::less(),
                             [](const maintain::TableReport* one) { return Urgency(*one); });
    tables.resize(rows_max);
  }
  for (const maintain::TableReport* const at : tables) {
    const maintain::TableReport& one = *at;
    const auto count = [](const std::optional<int64_t>& n) { return n ? FormatCount(*n) : ""; };
    table.AddRow({{Printable(one.table)},
                  {Gate(one), one.gate == maintain::TableGate::kOptedIn      ? Tone::kGood
                              : one.gate == maintain::TableGate::kUnreadable ? Tone::kBad
                                                                             : Tone::kDim},
                  {one.due},
                  {ShortTime(one.next)},
                  {count(one.small_files)},
                  {count(one.delete_files)},
                  {one.est_rewrite_bytes ? FormatBytes(*one.est_rewrite_bytes) : ""},
                  {Printable(one.reason.empty() ? one.gate_reason : one.reason)}});
  }
  if (table.empty()) return out + "no tables\n";
  return out + table.Render(colour) + More(report.tables.size(), tables.size(), "tables");
}

std::string TickLine(const TickReport& report) {
  int64_t done = 0;
  int64_t failed = 0;
  int64_t bytes = 0;
  for (const maintain::JobLine& job : report.jobs) {
    done += job.status == "success" || job.status == "partial" ? 1 : 0;
    failed += job.status == "failed" ? 1 : 0;
    bytes += job.bytes_in;
  }
  if (done == 0 && failed == 0 && report.loud.empty() && report.warnings.empty()) return {};
  std::string line = FormatCount(done) + " jobs done, " + FormatCount(failed) + " failed, " +
                     FormatBytes(bytes) + " rewritten\n";
  size_t told = 0;
  for (const maintain::JobLine& job : report.jobs) {
    if (job.status != "failed" || told == kRowsShown) continue;
    line += "failed: " + Printable(job.table) + ": " + Printable(job.reason) + "\n";
    ++told;
  }
  return line + Loud(report, false, kRowsShown);
}

}  // namespace lithify
