// One partition in one sweep: load, collect, adopt, plan, rewrite, commit. Private to this module.
#ifndef LITHIFY_JOB_HIVE_PARTITION_RUN_H_
#define LITHIFY_JOB_HIVE_PARTITION_RUN_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "base/turns.h"
#include "commit/hive_commit.h"
#include "job/hive_claim.h"
#include "job/hive_job.h"
#include "job/hive_load.h"

namespace lithify::job {

// This run's part of what all running partitions share.
struct RunShare {
  int threads = 1;
  int64_t memory_bytes = 0;
  Turns* loads = nullptr;  // Who waits for which outlives the run. Null: nobody.
  // Of a dry run: files that may still be opened to explain tiers; never null then.
  std::atomic<int64_t>* explained_files_left = nullptr;
};

// One thread, one use of one of the verbs. None fails as a whole: the outcome says what happened.
class PartitionRun {
 public:
  PartitionRun(const HiveServices& services, const HiveSettings& settings, const PartitionId& id,
               RunShare share, bool dry_run, const CancelFlag& cancel);

  // Garbage goes to `gc`.
  PartitionOutcome Run(GcReport& gc);

  struct Looked {
    PartitionOutcome outcome;  // Of a candidate: what there is to tell so far.
    bool candidate = false;
  };
  // The same, but a candidate for a rewrite is left to Resume(), with nothing of it read but the
  // footers of late files.
  Looked Look(GcReport& gc);
  // What another run's look at this partition left, which is loaded anew: a look may be long ago.
  PartitionOutcome Resume(PartitionOutcome looked);

 private:
  // Up to a plan. Null: garbage was collected before.
  Status Prepare(GcReport* gc);
  Status CarryOut();
  PartitionOutcome End(Status done);
  // Adopts and plans what was loaded.
  Status Decide();
  Status Load();
  Status Collect(GcReport& gc);
  // Makes late files visible, at once, sealed or not (Q4, H1).
  Status Adopt();
  Status AdoptOnce(const std::vector<std::string>& late);
  // What is announced and recorded of an adoption of `late`.
  observe::AuditEvent MakeAdoption(const std::vector<std::string>& late) const;
  void RecordFailedAdoption(observe::AuditEvent event, const Error& error);
  // First publication over another writer's manifest (T22).
  Status TakeOver();
  Status Plan();
  // Leaves a candidate that the caller has not chosen.
  void Choose();
  // Skips a partition that somebody else has claimed, else claims it (Q3) and plans again if it
  // changed meanwhile: the verdict says what came of it.
  Status Claim();
  // The error of an earlier sweep, if this one would only repeat it.
  Status CheckFailedBefore();
  void RememberFailure(const Error& error);
  // Of all that a rewrite depends on: the inputs and the generation.
  uint64_t PlanIdentity() const;
  // Of a dry run.
  Status Explain();
  Status Rewrite();
  // GroupRequest::before_publish: the last moment at which nothing of ours is visible.
  Status BeforePublish();
  Status Bootstrap();
  Status CheckUnmoved();
  // Takes the manifest as it is now for the new base, if another compactor has only added to what
  // we planned on, such as late files: our inputs are all live still, and nobody has fenced or
  // removed one of `outputs`. Otherwise kConflict. Without it, a trickle of late files and a second
  // compactor that adopts them would make every rewrite futile.
  Status Rebase(const std::vector<std::string>& outputs);
  rewrite::GroupRequest MakeRequest();
  Status Commit(const rewrite::GroupReport& report);
  // Each attempt on a new base has its own intent: `event` is that of the last.
  Result<ManifestSnapshot> Swap(const rewrite::GroupReport& report, observe::AuditEvent& event);
  Status RecordRebase(observe::AuditEvent& event, const Error& why);
  Status SwapFailed(Error error, observe::AuditEvent event);
  Status Finish(ManifestSnapshot published, observe::AuditEvent event);
  void Append(const observe::AuditEvent& event);  // A failure becomes a note.
  // The error of a vanished file: a lost race if the manifest moved on (R313).
  Error Vanished(Error error) const;

  // PartitionOutcome::live_file_bytes.
  std::vector<int64_t> LiveFileBytes() const;
  commit::CommitScope Scope() const;
  observe::AuditEvent MakeEvent(observe::AuditEvent::Phase phase) const;

  const HiveServices& services_;
  const HiveSettings& settings_;
  const PartitionId& id_;
  const RunShare share_;
  const int footers_at_once_;
  const bool dry_run_;
  const CancelFlag& cancel_;
  const std::string job_id_;
  commit::HiveCommitter committer_;
  LoadedPartition loaded_;
  std::optional<PartitionClaim> claim_;
  const Duration begin_;
  bool only_looks_ = false;
  bool rewriting_ = false;
  std::vector<storage::ObjectInfo> inputs_as_planned_;
  int rebases_ = 0;
  std::vector<int64_t> output_bytes_;  // Of the rewrite, file by file.
  PartitionOutcome outcome_;
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_PARTITION_RUN_H_
