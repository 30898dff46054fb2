// What a process remembers of one tree from sweep to sweep: who it is, which of its jobs hold a
// claim, and which partitions failed in a way that trying again would only repeat.
//
// Nothing here is needed for correctness, and nothing of it survives the process. Thread-safe.
#ifndef LITHIFY_JOB_HIVE_MEMORY_H_
#define LITHIFY_JOB_HIVE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "table/hive_claim.h"

namespace lithify::job {

class SweepMemory {
 public:
  // A failed partition is tried again after 1, 2, 4, … sweeps, and after this at the latest.
  static constexpr Duration kRetryAfter = std::chrono::hours(6);

  // `holder` names this process, unlike any other. `is_gone` tells of another's holder whether that
  // process has certainly ended; empty: one never knows.
  explicit SweepMemory(std::string holder,
                       std::function<bool(const std::string& holder)> is_gone = {});

  const std::string& holder() const { return holder_; }
  // Jobs of this process that are at work under a claim.
  void BeginWork(const std::string& job_id);
  void EndWork(const std::string& job_id);
  // Whoever made this claim is not at work any more, whatever it says.
  bool IsAbandoned(const table::HiveClaim& claim) const;

  // The error to report instead of trying again, or nullopt: try. `identity` stands for all that
  // was decided on; with another one the failure is forgotten. `now` is monotonic. Each call with
  // an error counts as one sweep that was passed over.
  std::optional<Error> Recall(const std::string& partition, uint64_t identity, Duration now);
  void Remember(const std::string& partition, uint64_t identity, const Error& error, Time at,
                Duration now);
  void Forget(const std::string& partition);

 private:
  struct Failure {
    uint64_t identity = 0;
    Error error;
    Time at;
    Duration tried = Duration::zero();
    int attempts = 0;  // In a row.
    uint64_t passed_over = 0;
  };

  const std::string holder_;
  const std::function<bool(const std::string&)> is_gone_;
  mutable std::mutex mutex_;
  std::set<std::string> at_work_;
  std::map<std::string, Failure> failures_;
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_MEMORY_H_
