#include "report_text.h"

#include <cstdio>
#include <map>
#include <optional>
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

std::string Loud(const TickReport& report, bool colour) {
  std::string out;
  for (const maintain::LoudLine& line : report.loud) {
    out += Paint("! " + Printable(line.what) +
                     (line.where.empty() ? "" : " " + Printable(line.where)) + ": " +
                     Printable(line.why),
                 Tone::kBad, colour) +
           "\n";
    if (!line.next.empty()) out += "  next: " + Printable(line.next) + "\n";
  }
  for (const std::string& warning : report.warnings) {
    out += Paint("warning: " + Printable(warning), Tone::kWarn, colour) + "\n";
  }
  return out;
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
std::string SightedText(const TickReport& report, bool colour) {
  TextTable table({{"TABLE"},
                   {"GATE"},
                   {"FILES", Align::kRight},
                   {"AVERAGE", Align::kRight},
                   {"SMALL FILES"},
                   {"DELETE FILES", Align::kRight},
                   {"SEEN"}});
  for (const maintain::TableReport& one : report.tables) {
    const auto count = [](const std::optional<int64_t>& n) { return n ? FormatCount(*n) : ""; };
    table.AddRow({{Printable(one.table)},
                  {Gate(one)},
                  {count(one.data_files)},
                  {one.file_bytes_average ? FormatBytes(*one.file_bytes_average) : ""},
                  {"not known", Tone::kDim},
                  {count(one.delete_files)},
                  {ShortTime(one.seen)}});
  }
  return table.empty() ? std::string("no tables\n") : table.Render(colour);
}

}  // namespace

std::string PlanText(const TickReport& report, bool colour) {
  std::string out = Head(report) + Loud(report, colour);
  TextTable table({{"RANK", Align::kRight},
                   {"TABLE"},
                   {"PARTITION"},
                   {"VERDICT"},
                   {"FILES", Align::kRight},
                   {"SIZE", Align::kRight},
                   {"SCORE", Align::kRight},
                   {"WHY"}});
  for (const maintain::PlanLine& line : report.plan) {
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
             : table.Render(colour);
  return out;
}

std::string RunText(const TickReport& report, bool colour) {
  std::string out = Loud(report, colour);
  if (!report.limits.empty())
    return out + Printable(report.limits) + "\n" + SightedText(report, colour);
  TextTable table({{"TABLE"},
                   {"PROCEDURE"},
                   {"STATUS"},
                   {"FILES"},
                   {"SIZE"},
                   {"ROWS REMOVED", Align::kRight},
                   {"WHY"}});
  for (const maintain::JobLine& job : report.jobs) {
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
  out += table.Render(colour);
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

std::string StatusText(const TickReport& report, bool colour) {
  std::string out = Head(report) + Loud(report, colour);
  if (!report.limits.empty()) return out + SightedText(report, colour);
  TextTable table({{"TABLE"},
                   {"GATE"},
                   {"DUE"},
                   {"NEXT"},
                   {"SMALL FILES", Align::kRight},
                   {"DELETE FILES", Align::kRight},
                   {"DEBT", Align::kRight},
                   {"WHY"}});
  for (const maintain::TableReport& one : report.tables) {
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
  out += table.empty() ? std::string("no tables\n") : table.Render(colour);
  return out;
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
  for (const maintain::JobLine& job : report.jobs) {
    if (job.status == "failed") {
      line += "failed: " + Printable(job.table) + ": " + Printable(job.reason) + "\n";
    }
  }
  return line + Loud(report, false);
}

}  // namespace lithify
