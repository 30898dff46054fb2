// expire_snapshots: the metadata commit first, then the files that nothing reaches any more.
#include <algorithm>
#include <set>
#include <utility>

#include "commit/iceberg_commit.h"
#include "job/iceberg_audit.h"
#include "job/iceberg_files.h"
#include "job/iceberg_job.h"

namespace lithify::job {
namespace {

using Phase = observe::AuditEvent::Phase;

constexpr int kAttempts = 4;

class Expire {
 public:
  Expire(const IcebergServices& services, const IcebergSettings& settings,
         const catalog::TableIdent& ident, const CancelFlag& cancel)
      : services_(services), settings_(settings), ident_(ident), cancel_(cancel) {
    report_.procedure = "expire_snapshots";
    report_.table = ident.ToString();
    report_.job_id = MakeUuidV7(services.clock, services.random);
  }

  Result<RemovedFiles> Run(const plan::ExpireOptions& options, bool dry_run) {
    report_.dry_run = dry_run;
    for (int attempt = 1;; ++attempt) {
      LITHIFY_TRY_ASSIGN(table_, LoadAudited(services_, ident_, Event()));
      LITHIFY_TRY_ASSIGN(plan_, plan::PlanExpiry(table_.metadata, options, services_.clock.Now()));
      report_.notes = plan_.notes;
      report_.snapshots_removed = static_cast<int64_t>(plan_.snapshot_ids.size());
      report_.refs_removed = plan_.refs;
      if (plan_.snapshot_ids.empty() && plan_.refs.empty()) {
        report_.status = "snapshots_removed=0";
        return std::move(report_);
      }
      LITHIFY_TRY(FindDoomed());
      if (dry_run) return DryRun();
      LITHIFY_TRY(Audit(Phase::kIntent, {}));
      auto committed = commit::IcebergCommitter({services_.catalog, services_.locations,
                                                 services_.clock, services_.random,
                                                 [this](Duration d) { services_.clock.Sleep(d); }})
                           .CommitExpiry({.ident = ident_,
                                          .metadata_location = table_.metadata_location,
                                          .snapshot_ids = plan_.snapshot_ids,
                                          .refs = plan_.refs});
      if (committed) {
        after_ = std::move(*committed);
        break;
      }
      const bool unknown = committed.error().code == Code::kUnknownOutcome;
      AuditOutcome(unknown ? Phase::kUnknown : Phase::kAborted, committed.error().ToString());
      if (committed.error().code != Code::kConflict || attempt == kAttempts) {
        return Fail(std::move(committed.error()));
      }
      services_.clock.Sleep(std::chrono::milliseconds(50) * (1 << (attempt - 1)));
      LITHIFY_TRY(cancel_.Check());
    }
    AuditOutcome(Phase::kCommitted, {});
    ReachWalk walk(services_.locations, cancel_);
    Status removed = RemoveUnreached(services_, after_, walk, doomed_, cancel_, report_);
    if (!removed) {
      // The snapshots are gone; what was not removed is for remove_orphan_files.
      report_.failed.push_back(std::move(removed.error()));
      report_.notes.emplace_back("files that are left go with remove_orphan_files");
    }
    AuditOutcome(Phase::kCollected, {});
    report_.status = "snapshots_removed=" + std::to_string(report_.snapshots_removed);
    return std::move(report_);
  }

 private:
  // What the removed snapshots reach; what is kept is taken out again when it is removed.
  Status FindDoomed() {
    doomed_.clear();
    const std::set<int64_t> expired(plan_.snapshot_ids.begin(), plan_.snapshot_ids.end());
    ReachWalk walk(services_.locations, cancel_);
    const auto add = [&](const std::string& path, FileKind kind) {
      doomed_.emplace(path, DoomedFile{kind});
    };
    for (const iceberg::Snapshot& snapshot : table_.metadata.snapshots) {
      if (!expired.contains(snapshot.snapshot_id)) continue;
      Status walked = walk.Snapshot(table_.metadata, snapshot, add);
      if (walked) continue;
      // Damaged or lost metadata of a snapshot that is to go: it goes, its files stay.
      if (walked.error().code == Code::kCancelled) return Fail(std::move(walked.error()));
      report_.notes.push_back("snapshot " + std::to_string(snapshot.snapshot_id) +
                              " cannot be read, its files are left for remove_orphan_files: " +
                              walked.error().ToString());
    }
    for (const auto* statistics :
         {&table_.metadata.statistics, &table_.metadata.partition_statistics}) {
      for (const iceberg::StatisticsFile& file : *statistics) {
        if (!expired.contains(file.snapshot_id)) continue;
        LITHIFY_TRY_ASSIGN(const auto path, services_.locations.Canonical(file.path));
        doomed_.emplace(path, DoomedFile{FileKind::kStatistics});
      }
    }
    return {};
  }

  Result<RemovedFiles> DryRun() {
    iceberg::TableMetadata after = table_.metadata;
    const std::set<int64_t> expired(plan_.snapshot_ids.begin(), plan_.snapshot_ids.end());
    const auto gone = [&](const auto& item) { return expired.contains(item.snapshot_id); };
    std::erase_if(after.snapshots, gone);
    std::erase_if(after.statistics, gone);
    std::erase_if(after.partition_statistics, gone);
    ReachWalk walk(services_.locations, cancel_);
    LITHIFY_TRY(walk.Table(after, table_.metadata_location,
                           [&](const std::string& path, FileKind) { doomed_.erase(path); }));
    for (const auto& [path, file] : doomed_) {
      report_.files.push_back(path);
      ++report_.by_kind[std::string(FileKindName(file.kind))];
    }
    std::ranges::sort(report_.files);
    report_.status = "dry run";
    return std::move(report_);
  }

  // What happened has happened, also where it cannot be written down.
  void AuditOutcome(Phase phase, const std::string& error) {
    if (Status audited = Audit(phase, error); !audited) {
      report_.notes.push_back("audit log: " + audited.error().ToString());
    }
  }

  observe::AuditEvent Event() const {
    return MakeEvent(services_, settings_, ident_, report_.procedure, report_.job_id);
  }

  Status Audit(Phase phase, const std::string& error) {
    observe::AuditEvent event = Event();
    event.phase = phase;
    event.error = error;
    for (const int64_t id : plan_.snapshot_ids) {
      if (phase == Phase::kIntent) event.inputs.push_back("snapshot " + std::to_string(id));
    }
    if (phase == Phase::kCollected) event.inputs = report_.files;
    return services_.audit.Append(event);
  }

  const IcebergServices& services_;
  const IcebergSettings& settings_;
  const catalog::TableIdent& ident_;
  const CancelFlag& cancel_;
  catalog::LoadedTable table_;
  catalog::LoadedTable after_;  // As the commit left it.
  plan::ExpirePlan plan_;
  Doomed doomed_;
  RemovedFiles report_;
};

}  // namespace

Result<RemovedFiles> IcebergJob::ExpireSnapshots(const catalog::TableIdent& ident,
                                                 const plan::ExpireOptions& options, bool dry_run,
                                                 const CancelFlag& cancel) {
  return Expire(services_, settings_, ident, cancel).Run(options, dry_run);
}

}  // namespace lithify::job
