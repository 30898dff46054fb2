// lithify verify: re-reads everything that is live.
#include <unistd.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;
  FilterOptions filters;
};

Json ReportJson(const job::VerifyTreeReport& report, const std::string& root) {
  Json files = Json::array();
  for (const job::VerifyItem& item : report.files) {
    files.push_back({{"key", item.key},
                     {"rows", item.rows},
                     {"digest_recorded", item.digest_recorded},
                     {"error", item.error ? ToJson(*item.error) : Json()}});
  }
  Json errors = Json::array();
  for (const Error& error : report.errors) errors.push_back(ToJson(error));
  return {{"root", root},
          {"ok", report.ok()},
          {"partitions", report.partitions},
          {"rows", report.rows},
          {"bytes", report.bytes},
          {"files", std::move(files)},
          {"errors", std::move(errors)}};
}

std::string ReportText(const job::VerifyTreeReport& report, bool colour) {
  int64_t bad = 0;
  int64_t recorded = 0;
  for (const job::VerifyItem& item : report.files) {
    bad += item.error ? 1 : 0;
    recorded += item.digest_recorded ? 1 : 0;
  }
  std::string out = Paint(report.ok() ? "verified" : "NOT verified",
                          report.ok() ? Tone::kGood : Tone::kBad, colour);
  out += ": " + FormatCount(report.partitions) + " partitions, " +
         FormatCount(static_cast<int64_t>(report.files.size())) + " live files, " +
         FormatCount(report.rows) + " rows, " + FormatBytes(report.bytes) + "; " +
         FormatCount(recorded) + " files have a digest from their compaction";
  if (!report.ok()) {
    out += "; " + FormatCount(bad) + " files and " +
           FormatCount(static_cast<int64_t>(report.errors.size())) + " other checks failed";
  }
  return out + "\n";
}

// A finding about the data, as opposed to data that could not be looked at.
bool IsMismatch(const Error& error) {
  return error.code == Code::kCorrupt || error.code == Code::kInvalid;
}

int ExitOf(const job::VerifyTreeReport& report) {
  if (report.ok()) return kDone;
  for (const job::VerifyItem& item : report.files) {
    if (item.error && IsMismatch(*item.error)) return kMismatch;
  }
  for (const Error& error : report.errors) {
    if (IsMismatch(error)) return kMismatch;
  }
  return kFailed;
}

int Run(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  int code = kDone;
  const auto session = OpenSession(options.common, code);
  if (!session) return code;
  auto filter = MakeFilter(options.filters, session->root());
  if (!filter) return Report(filter.error());
  const auto progress = StartProgress(options.common, session->clock(), "verify");
  const auto work = session->Begin(*progress, cancel);
  const auto report = work->job().Verify(*filter, cancel);
  progress->Finish();
  if (!report) return Report(report.error());
  for (const job::VerifyItem& item : report->files) {
    if (item.error) PrintError(*item.error);
  }
  for (const Error& error : report->errors) PrintError(error);
  bool printed = true;
  if (options.common.json) {
    printed = PrintJson(ReportJson(*report, session->root()));
  } else if (!options.common.quiet) {
    printed = Print(ReportText(*report, ColourOn(STDOUT_FILENO)));
  }
  if (cancel.requested()) return kStopped;
  const int exit_code = ExitOf(*report);
  return exit_code == kDone && !printed ? kFailed : exit_code;
}

}  // namespace

void AddVerify(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "verify", "Re-read all live files: rows match their path, counts and digests hold");
  const auto options = std::make_shared<Options>();
  AddRoot(*command, options->common);
  AddFilters(*command, options->filters);
  AddOverride(*command, options->common, "--jobs", "limits.jobs", "Threads; 0: all cores");
  AddOverride(*command, options->common, "--memory", "limits.memory", "Memory bound, like 1GiB");
  AddOverride(*command, options->common, "--io-limit", "limits.io_limit",
              "Bytes per second read, like 50MiB");
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  AddProgressOptions(*command, options->common);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
