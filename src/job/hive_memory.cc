#include "job/hive_memory.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace lithify::job {
namespace {

// Sweeps that are passed over after so many failures in a row.
uint64_t BackOff(int attempts) { return uint64_t{1} << std::clamp(attempts - 1, 0, 20); }

}  // namespace

SweepMemory::SweepMemory(std::string holder, std::function<bool(const std::string&)> is_gone)
    : holder_(std::move(holder)), is_gone_(std::move(is_gone)) {}

void SweepMemory::BeginWork(const std::string& job_id) {
  const std::lock_guard lock(mutex_);
  at_work_.insert(job_id);
}

void SweepMemory::EndWork(const std::string& job_id) {
  const std::lock_guard lock(mutex_);
  at_work_.erase(job_id);
}

bool SweepMemory::IsAbandoned(const table::HiveClaim& claim) const {
  if (claim.holder != holder_) return is_gone_ && is_gone_(claim.holder);
  const std::lock_guard lock(mutex_);
  return !at_work_.contains(claim.job_id);
}

std::optional<Error> SweepMemory::Recall(const std::string& partition, uint64_t identity,
                                         Duration now) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(partition);
  if (found == failures_.end()) return std::nullopt;
  Failure& failure = found->second;
  if (failure.identity != identity) {
    failures_.erase(found);
    return std::nullopt;
  }
  const uint64_t wait = BackOff(failure.attempts);
  if (failure.passed_over >= wait || now - failure.tried >= kRetryAfter) return std::nullopt;
  ++failure.passed_over;
  const uint64_t left = wait - failure.passed_over;
  Error error = failure.error;
  error.message =
      "failed before (at " + FormatTime(failure.at) + "), unchanged since: " + error.message +
      "; tried again " +
      (left == 0 ? "in the next sweep"
                 : "after " + std::to_string(left) + (left == 1 ? " more sweep" : " more sweeps") +
                       ", or after " + FormatDuration(kRetryAfter));
  return error;
}

void SweepMemory::Remember(const std::string& partition, uint64_t identity, const Error& error,
                           Time at, Duration now) {
  const std::lock_guard lock(mutex_);
  Failure& failure = failures_[partition];
  if (failure.identity != identity) failure.attempts = 0;
  failure.identity = identity;
  failure.error = error;
  failure.at = at;
  failure.tried = now;
  failure.attempts += 1;
  failure.passed_over = 0;
}

void SweepMemory::Forget(const std::string& partition) {
  const std::lock_guard lock(mutex_);
  failures_.erase(partition);
}

}  // namespace lithify::job
