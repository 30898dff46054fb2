#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "job/explained_files.h"
#include "job/from_exception.h"
#include "job/hive_events.h"
#include "job/hive_gc.h"
#include "job/hive_job.h"
#include "job/hive_load.h"
#include "job/hive_partition_run.h"
#include "job/hive_reconcile.h"

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
  if (settings.threads < 1 || settings.partitions_at_once < 1 || settings.memory_bytes < 1) {
    return Fail(Code::kInvalid, "threads, partitions at once and memory must be positive");
  }
  return CheckAuditSeries(services, settings);
}

// What third-party code throws ends one partition, not the process.
PartitionOutcome RunPartition(const HiveServices& services, const HiveSettings& settings,
                              const PartitionId& id, RunShare share, bool dry_run,
                              const CancelFlag& cancel, GcReport& gc) {
  try {
    return PartitionRun(services, settings, id, share, dry_run, cancel).Run(gc);
  } catch (const std::exception& e) {
    PartitionOutcome outcome;
    outcome.id = id;
    outcome.outcome = Outcome::kFailed;
    outcome.error = FromException(e, id.key_prefix);
    return outcome;
  }
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
}

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
  LITHIFY_TRY(CheckSettings(services_, settings_));
  const Duration begin = services_.clock.Monotonic();
  SweepReport report;
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
  const int at_once = PartitionsAtOnce(services_.store, settings_, ids.size());
  std::atomic<int64_t> explained_files_left{kExplainedFilesMax};
  const RunShare share{.threads = settings_.threads / at_once,
                       .memory_bytes = std::max<int64_t>(1, settings_.memory_bytes / at_once),
                       .explained_files_left = &explained_files_left};
  report.partitions.resize(ids.size());
  std::mutex mutex;  // Guards report.gc and the callback.
  ForEach(ids.size(), at_once, [&](size_t i) {
    GcReport gc;
    // One bad partition never stops the others (R240).
    report.partitions[i] = RunPartition(services_, settings_, ids[i], share, dry_run, cancel, gc);
    services_.progress.AddItem();
    std::lock_guard lock(mutex);
    try {
      Merge(report.gc, std::move(gc));
      if (on_partition) on_partition(report.partitions[i]);
    } catch (const std::exception& e) {
      report.errors.push_back(FromException(e, ids[i].key_prefix));
    }
  });
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
  for (const PartitionId& id : found.partitions) {
    LITHIFY_TRY(cancel.Check());
    auto loaded = LoadPartition(services_, settings_.options, id, settings_.threads);
    if (!loaded) {
      // Somebody is busy there: nothing that cannot wait.
      if (loaded.error().code != Code::kConflict) {
        report.errors.push_back(std::move(loaded.error()));
      }
      continue;
    }
    CollectPartition(services_, settings_, *loaded, MakeUuidV7(services_.clock, services_.random),
                     dry_run, cancel, report);
  }
  CollectUploads(services_, settings_, found.partitions, dry_run, report);
  return report;
}

}  // namespace lithify::job
