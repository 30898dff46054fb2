// expire_snapshots: the metadata commit first, then the files that nothing reaches any more.
//
// Their names are held in memory, with those of all files of the removed snapshots. Where these are
// too many, several passes each look at a share of the names; what names files is removed in the
// last one, so that every pass can read it.
#include <algorithm>
#include <functional>
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
constexpr size_t kFailedListedMax = 10'000;

class Expire {
 public:
  Expire(const IcebergServices& services, const IcebergSettings& settings,
         const catalog::TableIdent& ident, const CancelFlag& cancel)
      : services_(services), settings_(settings), ident_(ident), cancel_(cancel) {
    report_.procedure = "expire_snapshots";
    report_.table = ident.ToString();
    report_.job_id = JobId(services, settings);
  }

  Result<RemovedFiles> Run(const plan::ExpireOptions& options, bool dry_run) {
    report_.dry_run = dry_run;
    for (int attempt = 1;; ++attempt) {
      LITHIFY_TRY_ASSIGN(table_, LoadAudited(services_, ident_, Event()));
      LITHIFY_TRY_ASSIGN(plan_, plan::PlanExpiry(table_.metadata, options, services_.clock.Now()));
      expired_ = {plan_.snapshot_ids.begin(), plan_.snapshot_ids.end()};
      report_.notes = plan_.notes;
      report_.snapshots_removed = static_cast<int64_t>(plan_.snapshot_ids.size());
      report_.refs_removed = plan_.refs;
      if (plan_.snapshot_ids.empty() && plan_.refs.empty()) {
        report_.status = "snapshots_removed=0";
        return std::move(report_);
      }
      LITHIFY_TRY(ChoosePasses());
      if (dry_run) return DryRun();
      // Before the commit: who is stopped here has changed nothing.
      LITHIFY_TRY(FindDoomed(0));
      LITHIFY_TRY(CheckClock(services_.locations, table_.metadata));
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
    if (Status removed = RemovePasses(); !removed) {
      // The snapshots are gone; what was not removed is for remove_orphan_files.
      report_.failed.push_back(std::move(removed.error()));
      report_.notes.emplace_back("files that are left go with remove_orphan_files");
    }
    report_.status = "snapshots_removed=" + std::to_string(report_.snapshots_removed);
    NoteUnlisted();
    return std::move(report_);
  }

 private:
  bool IsExpired(int64_t snapshot_id) const { return expired_.contains(snapshot_id); }

  // So many that the names of one fit half of the memory.
  Status ChoosePasses() {
    ReachWalk walk(services_.locations, cancel_);
    int64_t names = 0;
    for (const iceberg::Snapshot& snapshot : table_.metadata.snapshots) {
      if (!IsExpired(snapshot.snapshot_id)) continue;
      const auto entries = walk.CountEntries(table_.metadata, snapshot);
      if (entries) {
        names += *entries;
      } else if (entries.error().code == Code::kCancelled) {
        return Fail(entries.error());
      }
    }
    passes_ = PassesFor(names, settings_.memory_bytes);
    return {};
  }

  bool IsOfPass(const std::string& path, FileKind kind, size_t pass) const {
    if (RemovalRank(kind) > 0) return pass + 1 == passes_;
    return std::hash<std::string>()(path) % passes_ == pass;
  }

  // What the removed snapshots reach; what is kept is taken out again when it is removed.
  Status FindDoomed(size_t pass) {
    doomed_.clear();
    ReachWalk walk(services_.locations, cancel_);
    const auto add = [&](const std::string& path, FileKind kind) {
      if (IsOfPass(path, kind, pass)) doomed_.emplace(path, DoomedFile{.kind = kind});
    };
    for (const iceberg::Snapshot& snapshot : table_.metadata.snapshots) {
      if (!IsExpired(snapshot.snapshot_id)) continue;
      Status walked = walk.Snapshot(table_.metadata, snapshot, add);
      if (walked) continue;
      // Damaged or lost metadata of a snapshot that is to go: it goes, its files stay.
      if (walked.error().code == Code::kCancelled) return Fail(std::move(walked.error()));
      const std::string note = "snapshot " + std::to_string(snapshot.snapshot_id) +
                               " cannot be read, its files are left for remove_orphan_files: " +
                               walked.error().ToString();
      if (std::ranges::find(report_.notes, note) == report_.notes.end()) {
        report_.notes.push_back(note);
      }
    }
    for (const auto* statistics :
         {&table_.metadata.statistics, &table_.metadata.partition_statistics}) {
      for (const iceberg::StatisticsFile& file : *statistics) {
        if (!IsExpired(file.snapshot_id)) continue;
        LITHIFY_TRY_ASSIGN(const auto path, services_.locations.Canonical(file.path));
        add(path, FileKind::kStatistics);
      }
    }
    return {};
  }

  Status RemovePasses() {
    for (size_t pass = 0; pass < passes_; ++pass) {
      if (pass > 0) LITHIFY_TRY(FindDoomed(pass));
      RemovedFiles part;
      ReachWalk walk(services_.locations, cancel_);
      Status removed = RemoveUnreached(services_, after_, walk, doomed_, cancel_, part);
      // Also what was removed before something went wrong is on record (R056, R178).
      AuditOutcome(Phase::kCollected, removed ? "" : removed.error().ToString(), part.files);
      Add(std::move(part));
      LITHIFY_TRY(std::move(removed));
    }
    return {};
  }

  void Add(RemovedFiles part) {
    report_.files_removed += part.files_removed;
    for (const auto& [kind, count] : part.by_kind) report_.by_kind[kind] += count;
    for (std::string& path : part.files) {
      if (report_.files.size() == RemovedFiles::kFilesListedMax) break;
      report_.files.push_back(std::move(path));
    }
    for (Error& error : part.failed) {
      if (report_.failed.size() == kFailedListedMax) break;
      report_.failed.push_back(std::move(error));
    }
    std::ranges::move(part.notes, std::back_inserter(report_.notes));
  }

  void NoteUnlisted() {
    if (report_.files_removed <= std::ssize(report_.files)) return;
    report_.notes.push_back(
        "the first " + std::to_string(report_.files.size()) + " files are listed, " +
        (report_.dry_run ? "of those that would go" : "all of them are in the audit log"));
  }

  Result<RemovedFiles> DryRun() {
    iceberg::TableMetadata after = table_.metadata;
    const auto gone = [&](const auto& item) { return IsExpired(item.snapshot_id); };
    std::erase_if(after.snapshots, gone);
    std::erase_if(after.statistics, gone);
    std::erase_if(after.partition_statistics, gone);
    for (size_t pass = 0; pass < passes_; ++pass) {
      LITHIFY_TRY(FindDoomed(pass));
      ReachWalk walk(services_.locations, cancel_);
      LITHIFY_TRY(walk.Table(
          after, table_.metadata_location,
          BothReadings([&](const std::string& path, FileKind) { doomed_.erase(path); })));
      RemovedFiles part;
      for (const auto& [path, file] : doomed_) {
        part.files.push_back(path);
        ++part.files_removed;
        ++part.by_kind[std::string(FileKindName(file.kind))];
      }
      Add(std::move(part));
    }
    std::ranges::sort(report_.files);
    report_.status = "dry run";
    NoteUnlisted();
    return std::move(report_);
  }

  // What happened has happened, also where it cannot be written down.
  void AuditOutcome(Phase phase, const std::string& error,
                    const std::vector<std::string>& removed = {}) {
    if (Status audited = Audit(phase, error, removed); !audited) {
      report_.notes.push_back("audit log: " + audited.error().ToString());
    }
  }

  observe::AuditEvent Event() const {
    return MakeEvent(services_, settings_, ident_, report_.procedure, report_.job_id);
  }

  Status Audit(Phase phase, const std::string& error,
               const std::vector<std::string>& removed = {}) {
    observe::AuditEvent event = Event();
    event.phase = phase;
    event.error = error;
    for (const int64_t id : plan_.snapshot_ids) {
      if (phase == Phase::kIntent) event.inputs.push_back("snapshot " + std::to_string(id));
    }
    if (phase == Phase::kCollected) event.inputs = removed;
    return services_.audit.Append(event);
  }

  const IcebergServices& services_;
  const IcebergSettings& settings_;
  const catalog::TableIdent& ident_;
  const CancelFlag& cancel_;
  catalog::LoadedTable table_;
  catalog::LoadedTable after_;  // As the commit left it.
  plan::ExpirePlan plan_;
  std::set<int64_t> expired_;
  size_t passes_ = 1;
  Doomed doomed_;  // Of one pass.
  RemovedFiles report_;
};

}  // namespace

Result<RemovedFiles> IcebergJob::ExpireSnapshots(const catalog::TableIdent& ident,
                                                 const plan::ExpireOptions& options, bool dry_run,
                                                 const CancelFlag& cancel) {
  return Expire(services_, settings_, ident, cancel).Run(options, dry_run);
}

}  // namespace lithify::job
