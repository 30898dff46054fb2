// lithify status: what a tree looks like now.
#include <unistd.h>

#include <memory>

#include "commands.h"
#include "status_text.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;
  FilterOptions filters;
};

int Run(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  int code = kDone;
  const auto session = OpenSession(options.common, code);
  if (!session) return code;
  auto filter = MakeFilter(options.filters, session->root());
  if (!filter) return Report(filter.error());
  const auto progress = StartProgress({.quiet = true}, session->clock(), "status");
  const auto work = session->Begin(*progress, cancel);
  const auto report = work->job().GetStatus(*filter, cancel);
  if (!report) return Report(report.error());
  bool failed = !report->errors.empty();
  for (const auto& status : report->partitions) {
    if (!status.error) continue;
    failed = true;
    PrintError(*status.error);
  }
  for (const Error& error : report->errors) PrintError(error);
  const bool printed = options.common.json
                           ? PrintJson(StatusJson(*report, session->root()))
                           : Print(StatusText(*report, ColourOn(STDOUT_FILENO), UnicodeOn()));
  return failed || !printed ? kFailed : kDone;
}

}  // namespace

void AddStatus(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("status", "Live files, sizes, small-file share and backlog");
  const auto options = std::make_shared<Options>();
  AddRoot(*command, options->common);
  AddFilters(*command, options->filters);
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
