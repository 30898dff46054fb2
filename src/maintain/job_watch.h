// A job that takes much longer than it was expected to is stopped before its commit: what it was
// chosen for is not true any more, and others wait for their turn.
#ifndef LITHIFY_MAINTAIN_JOB_WATCH_H_
#define LITHIFY_MAINTAIN_JOB_WATCH_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"

namespace lithify::maintain {

struct OverrunLimits {
  double factor = 4;                             // Of what was predicted. 0: no limit.
  Duration at_least = std::chrono::minutes(10);  // No job is stopped before it.
};
// nullopt: there is none.
std::optional<Duration> OverrunLimit(const OverrunLimits& limits, double predicted_seconds);

// For as long as a job works. Thread-safe.
class JobWatch {
 public:
  // `clock` and `outer` outlive it. `predicted_seconds` by the wall's clock.
  JobWatch(const Clock& clock, const OverrunLimits& limits, double predicted_seconds,
           const CancelFlag& outer);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // Requested when `outer` is, or once the time is over.
  const CancelFlag& cancel() const { return cancel_; }
  // kLimit once the time is over. For a last look before the commit.
  Status Check() const;
  // What the job's error means: that it was stopped by this is kLimit.
  Error Explained(Error error) const;

 private:
  void Watch();
  Error Over() const;

  const Clock& clock_;
  const OverrunLimits limits_;
  const double predicted_seconds_;
  const CancelFlag& outer_;
  const std::optional<Duration> limit_;
  const Duration began_;
  CancelFlag cancel_;
  CancelFlag over_;  // Requested by the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_JOB_WATCH_H_
