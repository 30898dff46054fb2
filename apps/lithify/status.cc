// lithify status: what a tree looks like now, as text, as JSON, or as a page.
#include <unistd.h>

#include <memory>

#include "commands.h"
#include "html/write_page.h"
#include "status_text.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;
  FilterOptions filters;
  std::string html;  // Empty: no page.
};

// True: it was written.
bool WriteHtml(const std::string& path, const Json& status) {
  const Status written =
      apps::WritePage(path, {.kind = "tree",
                             .key = "status",
                             .json = status.dump(-1, ' ', false, Json::error_handler_t::replace),
                             .program = "lithify " LITHIFY_VERSION});
  if (!written) PrintError(written.error());
  return written.has_value();
}

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
  if (!options.html.empty()) {
    const bool written = WriteHtml(options.html, StatusJson(*report, session->root()));
    return failed || !written ? kFailed : kDone;
  }
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
  command->add_option("--html", options->html, "Write a page to FILE instead")
      ->type_name("FILE")
      ->excludes("--json");
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
