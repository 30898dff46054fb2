// rewrite_data_files: load, plan, rewrite, commit, and again after a conflict. Private to this
// module.
#ifndef LITHIFY_JOB_ICEBERG_REWRITE_H_
#define LITHIFY_JOB_ICEBERG_REWRITE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/delete_index.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "commit/iceberg_commit.h"
#include "group/table_group.h"
#include "job/fleet_result.h"
#include "job/iceberg_job.h"
#include "table/metadata_cache.h"

namespace lithify::job {

// One thread, one use.
class IcebergRewrite {
 public:
  IcebergRewrite(const IcebergServices& services, const IcebergSettings& settings,
                 const RewriteRequest& request, const CancelFlag& cancel);

  Result<RewriteResult> Run();

 private:
  // What was written for one group of the plan.
  struct GroupWork {
    bool done = false;
    bool committed = false;
    std::optional<Error> error;  // Known failure: nothing of the group is left.
    // As evidence against the worker that wrote them.
    bool keep_outputs = false;
    Duration checked{};
    group::GroupResult result;  // Its outputs are there until they are committed or removed.
  };

  // True when the result is final.
  Result<bool> Attempt();
  // Fails with the conflict, or for good, unless it may be worth to plan again.
  Status CheckMovedOn(const Error& conflict);
  Status Load();
  Status Resolve(const iceberg::TableMetadata& metadata);
  bool NothingToDo();
  int64_t WriterBytes() const;
  int GroupsAtOnce() const;
  int64_t GroupMemory() const;
  // Of a dry run: what footers tell of the tiers of each group.
  Status Explain();
  Result<rewrite::TierPlan> ExplainGroup(size_t g);
  // Group `g` of the plan, by names.
  group::GroupTask Task(size_t g) const;
  group::TableView View() const;
  group::GroupServices GroupParts() const;
  enum class Way { kHere, kFleet, kNotNow };
  // Where this attempt's groups are rewritten; kLimit where workers are required and missing.
  Result<Way> PlaceGroups();
  Status RewriteGroups();
  Status RewriteOnFleet();
  void TakeResult(const group::GroupTask& task, Result<group::GroupResult> result);
  Status NamePathsHere();
  void CheckTogether(const NamedPaths& named);
  GroupWork RewriteGroup(size_t g, const group::GroupBounds& bounds);
  Error WithHint(Error error) const;
  // Groups that failed while others may go on; an error if the job cannot.
  Status SortFailures();
  Result<bool> CommitAll();
  Result<bool> CommitDangling();
  Result<commit::CommittedSnapshot> CommitGroups(const std::vector<size_t>& groups);
  // Deletes that reach no data file any more once these groups are replaced (R101, R102).
  std::vector<commit::DeleteRef> Covered(const std::vector<size_t>& groups) const;
  Result<bool> PartialCommits(const std::vector<std::vector<size_t>>& batches);
  // After a conflict: what the next attempt leaves out (I33).
  void LearnFromConflict();
  void Count(const std::vector<size_t>& groups, const commit::CommittedSnapshot& committed);
  // Only after a failure that is known (I8).
  void RemoveOutputs(GroupWork& work);
  // Which commits of partial progress are in the table.
  std::string Landed() const;
  observe::AuditEvent Event(observe::AuditEvent::Phase phase) const;
  Status Audit(observe::AuditEvent::Phase phase, const std::string& error = {});

  const IcebergServices& services_;
  const IcebergSettings& settings_;
  const RewriteRequest& request_;
  const CancelFlag& cancel_;
  table::MetadataCache metadata_;  // What this job has read of manifests, in all attempts.
  commit::IcebergCommitter committer_;

  RewriteResult result_;
  plan::RewriteOptions options_;  // Narrowed by conflicts.
  catalog::LoadedTable table_;
  iceberg::Snapshot snapshot_;
  std::shared_ptr<const rewrite::TableTarget> target_;
  rewrite::TableTarget delete_target_;  // With the columns that only deletes may still compare.
  std::optional<iceberg::DeleteIndex> index_;
  std::vector<GroupWork> work_;  // By group of the plan.
  std::map<iceberg::PartitionKey, int> conflicts_;
  int64_t writer_bytes_ = 0;       // What the writer of an output holds.
  std::atomic<bool> stop_{false};  // A group failed in a way that ends the job.
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_REWRITE_H_
