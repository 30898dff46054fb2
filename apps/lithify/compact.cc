// lithify compact: one sweep, a dry run, or sweeps for ever.
#include <unistd.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "sweep_text.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;
  FilterOptions filters;
  bool watch = false;
  bool dry_run = false;
};

class Compact {
 public:
  Compact(const Options& options, embed::HiveSession& session, table::PartitionFilter filter,
          const CancelFlag& cancel)
      : options_(options),
        session_(session),
        filter_(std::move(filter)),
        cancel_(cancel),
        model_{.threads = session.threads(),
               .partitions_at_once = session.partitions_at_once(),
               .io_limit_bytes_per_second = session.config().io_limit_bytes_per_second} {}

  int Once() {
    const auto progress =
        StartProgress(options_.common, session_.clock(), options_.dry_run ? "plan" : "compact");
    const auto work = session_.Begin(*progress, cancel_);
    const auto report =
        work->job().Sweep(filter_, options_.dry_run, cancel_,
                          [&](const job::PartitionOutcome& outcome) { Tell(outcome, *progress); });
    progress->Finish();
    if (!report) return Report(report.error());
    for (const auto& partition : report->partitions) {
      // Told already, above the bar, unless this was a dry run.
      if (partition.error && options_.dry_run) PrintUnlessStopped(*partition.error);
    }
    for (const Error& error : report->errors) PrintUnlessStopped(error);
    for (const Error& error : report->gc.errors) PrintUnlessStopped(error);
    const bool printed = Show(*report);
    if (report->cancelled || cancel_.requested()) return kStopped;
    return report->failed() || !report->gc.errors.empty() || !printed ? kFailed : kDone;
  }

  int Watch() {
    for (;;) {
      const int code = Once();
      if (code == kUsage) return code;
      if (cancel_.requested()) return kStopped;
      if (!Wait(session_.config().interval)) return kStopped;
    }
  }

 private:
  // Stopping on request is no error; the last line says it.
  static void PrintUnlessStopped(const Error& error) {
    if (error.code != Code::kCancelled) PrintError(error);
  }

  // False when the user asked to stop.
  bool Wait(Duration interval) {
    constexpr Duration kSlice = std::chrono::milliseconds(100);
    const Duration end = session_.clock().Monotonic() + interval;
    while (!cancel_.requested()) {
      const Duration left = end - session_.clock().Monotonic();
      if (left <= Duration::zero()) return true;
      session_.clock().Sleep(std::min(left, kSlice));
    }
    return false;
  }

  void Tell(const job::PartitionOutcome& outcome, observe::Progress& progress) const {
    if (options_.dry_run) return;
    if (outcome.error && outcome.error->code != Code::kCancelled) {
      // Most errors name a file of the partition already.
      const bool placed = outcome.error->context.starts_with(outcome.id.key_prefix);
      progress.Line("lithify: " + (placed ? "" : Printable(outcome.id.key_prefix) + ": ") +
                    ErrorText(*outcome.error));
    } else if (outcome.plan.verdict == plan::Verdict::kUnsupported) {
      // No failure, but the user should know that this partition stays as it is, and why.
      progress.Line(PartitionLine(outcome));
    } else if (outcome.outcome != job::Outcome::kSkipped && !options_.common.quiet) {
      progress.Line(PartitionLine(outcome));
      for (const std::string& note : outcome.notes) progress.Line("  note: " + Printable(note));
    }
  }

  bool Show(const job::SweepReport& report) const {
    if (options_.common.json) {
      return PrintJson(SweepJson(report, session_.root(), options_.dry_run, model_));
    }
    if (options_.common.quiet) return true;
    const bool colour = ColourOn(STDOUT_FILENO);
    return Print(options_.dry_run ? DryRunText(report, model_, colour) : SweepText(report, colour));
  }

  const Options& options_;
  embed::HiveSession& session_;
  const table::PartitionFilter filter_;
  const CancelFlag& cancel_;
  const CostModel model_;
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
  Compact compact(options, *session, std::move(*filter), cancel);
  return options.watch ? compact.Watch() : compact.Once();
}

}  // namespace

void AddCompact(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("compact", "Compact the partitions that need it");
  const auto options = std::make_shared<Options>();
  AddRoot(*command, options->common);
  CLI::Option* dry_run = command->add_flag("--dry-run", options->dry_run,
                                           "Change nothing; print the verdict on every partition");
  command->add_flag("--watch", options->watch, "Sweep again and again, every compaction.interval")
      ->excludes(dry_run);
  AddFilters(*command, options->filters);
  AddOverride(*command, options->common, "--jobs", "limits.jobs", "Threads; 0: all cores");
  AddOverride(*command, options->common, "--memory", "limits.memory", "Memory bound, like 1GiB");
  AddOverride(*command, options->common, "--io-limit", "limits.io_limit",
              "Bytes per second, read and written together, like 50MiB");
  AddOverride(*command, options->common, "--verify", "compaction.verify",
              "full, sample or counts: how outputs are checked");
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  AddProgressOptions(*command, options->common);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
