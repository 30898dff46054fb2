// One worker, as the dispatcher speaks with it: over Arrow Flight (flight_link.h), or with a
// simulated one. Times, retries and placement are the dispatcher's.
#ifndef LITHIFY_FLEET_WORKER_LINK_H_
#define LITHIFY_FLEET_WORKER_LINK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "group/table_group.h"
#include "storage/s3_loan.h"

namespace lithify::fleet {

struct WorkerStatus {
  std::string id;  // The worker's own, of this life: another one after a restart.
  std::string version;
  int inflight = 0;
  int max_inflight_groups = 1;
  int64_t memory_bytes = 0;  // Of all groups together.
  bool draining = false;
};

// Why a call did not give what it should (R127). Transport: refused, reset, silent for too long,
// the worker went away: the group goes to another worker, and this one rests. Transport and kLimit:
// the worker drains or is full, and has not begun; that is no failure of either. Application: the
// worker answered, and says that the group must not be done: bad signature, a conflict, a failed
// check; no other worker is asked.
struct LinkError {
  bool transport = false;
  Error error;
};
template <typename T>
using LinkResult = std::expected<T, LinkError>;

// One attempt at one group on one worker.
struct GroupOrder {
  group::GroupTask task;
  std::string attempt;  // A UUIDv7 of its own: the same group may be with two workers at a time.
  std::vector<storage::Loan> loans;
  int64_t memory_bytes = 0;
};

struct LinkTimes {
  Duration silence = std::chrono::seconds(120);  // Re-armed by each frame (R132).
  Duration attempt = std::chrono::hours(1);
};

// Thread-safe; calls may run at the same time.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual LinkResult<WorkerStatus> AskStatus(Duration timeout) = 0;
  // Blocks until the group is done or has failed. The outputs are the worker's until Adopt():
  // unadopted ones it removes itself after a time, and on Drop(). `cancel` is heard within a
  // second.
  using OnProgress = std::function<void(int64_t bytes_of_input)>;
  virtual LinkResult<group::GroupResult> Compact(const GroupOrder& order, const LinkTimes& times,
                                                 const OnProgress& on_progress,
                                                 const CancelFlag& cancel) = 0;
  // Takes the outputs of a finished attempt over. Success: the worker will never remove them. An
  // application error of kNotFound: it has removed them already. After a transport error nobody
  // knows: the result must not be used, and nothing of it may be removed (a later sweep does).
  virtual LinkResult<void> Adopt(const std::string& attempt, Duration timeout) = 0;
  // Stops an attempt, running or finished, and removes its outputs. Best effort.
  virtual LinkResult<void> Drop(const std::string& attempt, Duration timeout) = 0;
  // Fresh keys for a running attempt.
  virtual LinkResult<void> Refresh(const std::string& attempt,
                                   const std::vector<storage::Loan>& loans, Duration timeout) = 0;
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_WORKER_LINK_H_
