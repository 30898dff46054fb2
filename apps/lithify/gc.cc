// lithify gc: removes what no reader can need any more.
#include <unistd.h>

#include <memory>

#include "commands.h"
#include "sweep_text.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;
  FilterOptions filters;
  bool dry_run = false;
};

int Run(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  int code = kDone;
  const auto session = OpenSession(options.common, code);
  if (!session) return code;
  auto filter = MakeFilter(options.filters, session->root());
  if (!filter) return Report(filter.error());
  if (!options.dry_run) {
    if (Status writable = session->CheckWrites(); !writable) return Report(writable.error());
  }
  const auto progress = StartProgress(options.common, session->clock(), "gc");
  const auto work = session->Begin(*progress, cancel);
  const auto report = work->job().Collect(*filter, options.dry_run, cancel);
  progress->Finish();
  if (!report) return Report(report.error());
  for (const Error& error : report->errors) PrintError(error);
  bool printed = true;
  if (options.common.json) {
    Json out = {{"root", session->root()}, {"dry_run", options.dry_run}};
    out.update(GcJson(*report));
    printed = PrintJson(out);
  } else if (!options.common.quiet) {
    printed = Print(GcText(*report, options.dry_run, ColourOn(STDOUT_FILENO)));
  }
  if (cancel.requested()) return kStopped;
  return !report->errors.empty() || !printed ? kFailed : kDone;
}

}  // namespace

void AddGc(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "gc", "Remove replaced files and leftovers that are past their grace (compact does it too)");
  const auto options = std::make_shared<Options>();
  AddRoot(*command, options->common);
  command->add_flag("--dry-run", options->dry_run, "Change nothing; print what would go, and why");
  AddFilters(*command, options->filters);
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  AddProgressOptions(*command, options->common);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
