// rewrite_data_files: load, plan, rewrite, commit, and again after a conflict. Private to this
// module.
#ifndef LITHIFY_JOB_ICEBERG_REWRITE_H_
#define LITHIFY_JOB_ICEBERG_REWRITE_H_

#include <atomic>
#include <cstdint>
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
#include "job/iceberg_deletes.h"
#include "job/iceberg_job.h"

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
    std::shared_ptr<storage::Store> store;
    std::vector<std::string> output_keys;
    std::vector<commit::RewriteCommit::Input> inputs;
    std::vector<iceberg::DataFile> outputs;
    std::map<int32_t, std::vector<std::string>> named_paths;
    rewrite::GroupReport report;
    int64_t rows_deleted = 0;
  };

  // True when the result is final.
  Result<bool> Attempt();
  Status Load();
  bool NothingToDo();
  Status RewriteGroups();
  GroupWork RewriteGroup(const plan::FileGroup& group, int threads, int64_t memory_bytes);
  Status RewriteInto(const plan::FileGroup& group, int threads, int64_t memory_bytes,
                     GroupWork& work);
  Result<std::vector<rewrite::InputFile>> MakeInputs(const plan::FileGroup& group,
                                                     std::shared_ptr<storage::Store>& store);
  iceberg::DataFile ToDataFile(const plan::FileGroup& group, const std::string& location,
                               const rewrite::OutputFile& output) const;
  // Groups that failed while others may go on; an error if the job cannot.
  Status SortFailures();
  Result<bool> CommitAll();
  Result<bool> CommitDangling();
  Result<commit::CommittedSnapshot> CommitGroups(const std::vector<size_t>& groups);
  // Deletes that reach no data file any more once these groups are replaced (R101, R102).
  std::vector<commit::DeleteRef> Covered(const std::vector<size_t>& groups) const;
  Result<bool> PartialCommits(std::vector<std::vector<size_t>> batches);
  // After a conflict: what the next attempt leaves out (I33).
  void LearnFromConflict();
  void Count(const std::vector<size_t>& groups, const commit::CommittedSnapshot& committed);
  // Only after a failure that is known (I8).
  void RemoveOutputs(GroupWork& work);
  Status Audit(observe::AuditEvent::Phase phase, const std::string& error = {});

  const IcebergServices& services_;
  const IcebergSettings& settings_;
  const RewriteRequest& request_;
  const CancelFlag& cancel_;
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
  std::atomic<bool> stop_{false};  // A group failed in a way that ends the job.
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_REWRITE_H_
