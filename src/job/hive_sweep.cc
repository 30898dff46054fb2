#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "base/from_exception.h"
#include "base/parallel.h"
#include "base/turns.h"
#include "job/explained_files.h"
#include "job/hive_events.h"
#include "job/hive_gc.h"
#include "job/hive_job.h"
#include "job/hive_load.h"
#include "job/hive_partition_run.h"
#include "job/hive_reconcile.h"
#include "job/sweep_metrics.h"

namespace lithify::job {
namespace {

Status CheckSettings(const HiveServices& services, const HiveSettings& settings) {
  if (settings.series.empty()) {
    return Fail(Code::kInvalid, "no series is configured", {}, "name a layout, or a preset");
  }
  for (const SeriesLayout& layout : settings.series) {
    Status checked = table::CheckLayout(layout);
    if (!checked) return Fail(std::move(checked.error()).In("series " + layout.name));
  }
  if (settings.threads < 1 || settings.partitions_at_once < 1 || settings.looks_at_once < 1 ||
      settings.memory_bytes < 1) {
    return Fail(Code::kInvalid, "threads, partitions at once and memory must be positive");
  }
  return CheckAuditSeries(services, settings);
}

// Each writes one output at a time, and needs memory for more than that output's writer.
int PartitionsAtOnce(const storage::Store& store, const HiveSettings& settings, size_t partitions) {
  int64_t most = std::min(settings.partitions_at_once, settings.threads);
  if (const int64_t writer = store.writer_buffer_bytes(); writer > 0) {
    most = std::min(most, settings.memory_bytes / 4 / writer);
  }
  return static_cast<int>(
      std::clamp<int64_t>(most, 1, static_cast<int64_t>(std::clamp<size_t>(partitions, 1, 4096))));
}

void Merge(GcReport& into, GcReport&& from) {
  std::ranges::move(from.removed, std::back_inserter(into.removed));
  std::ranges::move(from.kept, std::back_inserter(into.kept));
  std::ranges::move(from.errors, std::back_inserter(into.errors));
  into.unremoved += from.unremoved;
}

// All partitions of one sweep. One bad partition never stops the others (R240).
class Partitions {
 public:
  Partitions(const HiveServices& services, const HiveSettings& settings,
             const std::vector<PartitionId>& ids, bool dry_run, const CancelFlag& cancel,
             const std::function<void(const PartitionOutcome&)>& on_partition, SweepReport& report)
      : services_(services),
        settings_(settings),
        ids_(ids),
        dry_run_(dry_run),
        cancel_(cancel),
        on_partition_(on_partition),
        report_(report),
        gc_(ids.size()) {
    report_.partitions.resize(ids.size());
  }

  void Run() {
    std::vector<size_t> whole(ids_.size());
    std::iota(whole.begin(), whole.end(), size_t{0});
    const int at_once = PartitionsAtOnce(services_.store, settings_, ids_.size());
    if (services_.store.small_reads_are_cheap() || std::cmp_less_equal(ids_.size(), at_once)) {
      Turns loads(rewrite::LoadsAtOnce(at_once));
      ForEach(whole.size(), at_once, [&](size_t i) {
        Finish(i, Guarded(i, [&] { return Start(i, Share(at_once, &loads)).Run(gc_[i]); }));
      });
    } else {
      RunFarAway();
    }
    for (GcReport& gc : gc_) Merge(report_.gc, std::move(gc));
  }

 private:
  // Most partitions of a tree need nothing, and to know that takes a listing and its manifest, one
  // after the other: what takes long there is not work, but waiting.
  void RunFarAway() {
    std::vector<char> candidate(ids_.size(), 0);
    ForEach(ids_.size(), settings_.looks_at_once, [&](size_t i) {
      bool left = false;
      PartitionOutcome outcome = Guarded(i, [&] {
        PartitionRun::Looked looked =
            Start(i, Share(settings_.partitions_at_once, nullptr)).Look(gc_[i]);
        left = looked.candidate;
        return std::move(looked.outcome);
      });
      if (left) {
        candidate[i] = 1;
        report_.partitions[i] = std::move(outcome);
      } else {
        Finish(i, std::move(outcome));
      }
    });
    std::vector<size_t> left;
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (candidate[i] != 0) left.push_back(i);
    }
    const int at_once = PartitionsAtOnce(services_.store, settings_, left.size());
    Turns loads(rewrite::LoadsAtOnce(at_once));
    ForEach(left.size(), at_once, [&](size_t n) {
      const size_t i = left[n];
      Finish(i, Guarded(i, [&] {
               return Start(i, Share(at_once, &loads)).Resume(std::move(report_.partitions[i]));
             }));
    });
  }

  RunShare Share(int at_once, Turns* loads) {
    return {.threads = std::max(1, settings_.threads / at_once),
            .memory_bytes = std::max<int64_t>(1, settings_.memory_bytes / at_once),
            .loads = loads,
            .explained_files_left = &explained_files_left_};
  }

  PartitionRun Start(size_t i, RunShare share) {
    return {services_, settings_, ids_[i], share, dry_run_, cancel_};
  }

  // What third-party code throws ends one partition, not the process.
  template <typename F>
  PartitionOutcome Guarded(size_t i, const F& run) {
    try {
      return run();
    } catch (const std::exception& e) {
      PartitionOutcome outcome;
      outcome.id = ids_[i];
      outcome.outcome = Outcome::kFailed;
      outcome.error = FromException(e, ids_[i].key_prefix);
      return outcome;
    }
  }

  void Finish(size_t i, PartitionOutcome outcome) {
    report_.partitions[i] = std::move(outcome);
    services_.progress.AddItem();
    const std::lock_guard lock(mutex_);
    try {
      if (on_partition_) on_partition_(report_.partitions[i]);
    } catch (const std::exception& e) {
      report_.errors.push_back(FromException(e, ids_[i].key_prefix));
    }
  }

  const HiveServices& services_;
  const HiveSettings& settings_;
  const std::vector<PartitionId>& ids_;
  const bool dry_run_;
  const CancelFlag& cancel_;
  const std::function<void(const PartitionOutcome&)>& on_partition_;
  SweepReport& report_;
  std::vector<GcReport> gc_;  // By partition, so that their order is that of the partitions.
  std::atomic<int64_t> explained_files_left_{kExplainedFilesMax};
  std::mutex mutex_;  // For the callback and what it throws.
};

}  // namespace

HiveJob::HiveJob(HiveServices services, HiveSettings settings)
    : services_(std::move(services)), settings_(std::move(settings)) {
  if (services_.memory) return;
  services_.memory =
      std::make_shared<SweepMemory>("job-" + MakeUuidV7(services_.clock, services_.random));
}

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCommitted: return "committed";
    case Outcome::kPlanned: return "planned";
    case Outcome::kSkipped: return "skipped";
    case Outcome::kAdopted: return "adopted";
    case Outcome::kLostRace: return "lost_race";
    case Outcome::kFailed: return "failed";
    case Outcome::kCancelled: return "cancelled";
  }
  return "failed";
}

int64_t SweepReport::Count(Outcome outcome) const {
  return std::ranges::count(partitions, outcome, &PartitionOutcome::outcome);
}

bool SweepReport::failed() const {
  return !errors.empty() || !gc.errors.empty() || Count(Outcome::kFailed) > 0;
}

Result<SweepReport> HiveJob::Sweep(
    const table::PartitionFilter& filter, bool dry_run, const CancelFlag& cancel,
    const std::function<void(const PartitionOutcome&)>& on_partition) {
  const Duration begin = services_.clock.Monotonic();
  observe::Span span(services_.telemetry, "sweep", services_.trace);
  const TraceContext outer = std::exchange(services_.trace, span.context());
  auto report = SweepUncounted(filter, dry_run, cancel, on_partition);
  if (services_.metrics != nullptr && !dry_run) {
    CountSweep(*services_.metrics, report, services_.clock.Monotonic() - begin);
  }
  if (services_.telemetry != nullptr) TellSweep(*services_.telemetry, report, span);
  services_.trace = outer;
  return report;
}

Result<SweepReport> HiveJob::SweepUncounted(
    const table::PartitionFilter& filter, bool dry_run, const CancelFlag& cancel,
    const std::function<void(const PartitionOutcome&)>& on_partition) {
  LITHIFY_TRY(CheckSettings(services_, settings_));
  const Duration begin = services_.clock.Monotonic();
  SweepReport report;
  report.whole = filter == table::PartitionFilter();
  auto found = table::FindPartitions(services_.store, settings_.series, filter, cancel);
  if (!found && found.error().code == Code::kCancelled && cancel.requested()) {
    report.cancelled = true;
    return report;
  }
  if (!found) return Fail(std::move(found.error()));
  report.skipped_paths = std::move(found->skipped);
  report.errors = std::move(found->errors);
  if (!dry_run) Reconcile(services_, settings_, cancel, report);

  const std::vector<PartitionId>& ids = found->partitions;
  services_.progress.AddTotal(0, static_cast<int64_t>(ids.size()));
  Partitions(services_, settings_, ids, dry_run, cancel, on_partition, report).Run();
  report.cancelled = cancel.requested();
  if (!report.cancelled && !dry_run) CollectUploads(services_, settings_, ids, false, report.gc);
  report.took = services_.clock.Monotonic() - begin;
  return report;
}

Result<GcReport> HiveJob::Collect(const table::PartitionFilter& filter, bool dry_run,
                                  const CancelFlag& cancel) {
  LITHIFY_TRY(CheckSettings(services_, settings_));
  LITHIFY_TRY_ASSIGN(auto found,
                     table::FindPartitions(services_.store, settings_.series, filter, cancel));
  GcReport report;
  report.errors = std::move(found.errors);
  std::vector<GcReport> gc(found.partitions.size());
  const int at_once = services_.store.small_reads_are_cheap() ? 1 : settings_.looks_at_once;
  const auto collect = [&](size_t i) -> Status {
    LITHIFY_TRY(cancel.Check());
    auto loaded = LoadPartition(services_, settings_.options, found.partitions[i],
                                FootersAtOnce(services_, settings_, settings_.threads));
    if (loaded) {
      CollectPartition(services_, settings_, *loaded, MakeUuidV7(services_.clock, services_.random),
                       dry_run, cancel, gc[i]);
    } else if (loaded.error().code != Code::kConflict) {
      // Else somebody is busy there: nothing that cannot wait.
      gc[i].errors.push_back(std::move(loaded.error()));
    }
    return {};
  };
  LITHIFY_TRY(TryForEach(found.partitions.size(), at_once, collect));
  for (GcReport& part : gc) Merge(report, std::move(part));
  CollectUploads(services_, settings_, found.partitions, dry_run, report);
  return report;
}

}  // namespace lithify::job
