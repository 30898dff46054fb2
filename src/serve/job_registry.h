// The jobs that callers started: what SHOW JOBS shows, and how one is cancelled. Everybody sees and
// cancels their own only (Caller::owner).
#ifndef LITHIFY_SERVE_JOB_REGISTRY_H_
#define LITHIFY_SERVE_JOB_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "observe/progress.h"
#include "serve/caller.h"

namespace lithify::serve {

struct JobLimits {
  size_t running_per_owner = 4;
  size_t running = 16;
  // Those that ended are shown for so long, and the last so many.
  Duration finished_life = std::chrono::hours(1);
  size_t finished = 1000;
};

enum class JobState { kRunning, kDone, kFailed, kCancelled };
std::string_view JobStateName(JobState state);

struct JobInfo {
  std::string id;  // UUIDv7.
  std::string owner_name;
  std::string procedure;  // "rewrite_data_files".
  std::string table;      // "lake.sales.orders".
  JobState state = JobState::kRunning;
  bool cancel_requested = false;
  int64_t bytes_total = 0;  // As far as is known, like all of these.
  int64_t bytes_done = 0;
  int64_t items_total = 0;
  int64_t items_done = 0;
  std::string message;  // The last line of the job's progress.
  Time started;
  std::optional<Time> finished;
  std::string error;  // Of kFailed and kCancelled.
};

class JobRegistry;

// A job while it runs: its progress and its cancel flag. End() says what came of it; a job that
// goes without it has failed. Thread-safe, but for End() and the end of life.
class RunningJob final : public observe::Progress {
 public:
  ~RunningJob() override;
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  const std::string& id() const;
  const CancelFlag& cancel() const;
  // kCancelled is a job that was cancelled; the first call counts.
  void End(const Status& outcome);

  void AddTotal(int64_t bytes, int64_t items) override;
  void AddBytes(int64_t bytes) override;
  void AddItem() override;
  void Line(std::string_view text) override;
  void Finish() override {}

 private:
  friend class JobRegistry;
  struct Record;
  RunningJob(JobRegistry& registry, std::shared_ptr<Record> record);

  JobRegistry& registry_;
  const std::shared_ptr<Record> record_;
};

// Thread-safe.
class JobRegistry {
 public:
  // `clock` and `random` must outlive it, and it the jobs.
  JobRegistry(JobLimits limits, const Clock& clock, Random& random)
      : limits_(limits), clock_(clock), random_(random) {}

  // kLimit: the caller, or everybody together, runs as many as are allowed; kCancelled: after
  // CancelAll().
  Result<std::unique_ptr<RunningJob>> Begin(const Caller& caller, std::string procedure,
                                            std::string table);
  // The caller's own, the newest first.
  std::vector<JobInfo> List(const Caller& caller);
  // Asks the job to stop. kNotFound where it is not there or another's: which is not told;
  // kInvalid where it has ended.
  Status Cancel(const Caller& caller, const std::string& id);
  // Asks all to stop, and lets none begin: the server ends.
  void CancelAll();
  size_t Running() const;

 private:
  friend class RunningJob;
  using Record = RunningJob::Record;

  void End(Record& record, const Status& outcome);
  // Needs mutex_.
  void RemoveOld();
  static JobInfo InfoOf(const Record& record);

  const JobLimits limits_;
  const Clock& clock_;
  Random& random_;

  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::map<std::string, std::shared_ptr<Record>> jobs_;  // By id; ids are in order of time.
  std::map<std::string, size_t> running_by_owner_;
  size_t running_ = 0;
  std::deque<std::string> finished_;  // Ids, in the order in which they ended.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_JOB_REGISTRY_H_
