// What a worker does with orders, apart from how they come in: it takes as many as it has room for,
// runs each on a thread of its own, and keeps the outputs of those that are done until somebody
// takes them over. Nobody else knows of them until then, so that they are the worker's to remove:
// on request, after a time, or when it stops. Exactly one of both happens to each: adopted, or
// removed.
//
// Thread-safe.
#ifndef LITHIFY_FLEET_WORKER_SERVICE_H_
#define LITHIFY_FLEET_WORKER_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "fleet/wire.h"
#include "fleet/worker_link.h"
#include "group/table_group.h"

namespace lithify::fleet {

// One attempt at a group, with the keys and the access that it has.
class GroupAttempt {
 public:
  virtual ~GroupAttempt() = default;
  // Called with the bytes of input done since the last call, and with 0 for each other step that
  // shows that it moves: a request to the store that came back. By any thread.
  using OnProgress = std::function<void(int64_t)>;
  // Once. On an error nothing of the group is left.
  virtual Result<group::GroupResult> Run(const OnProgress& on_progress,
                                         const CancelFlag& cancel) = 0;
  // Fresh keys; by any thread, also while it runs.
  virtual void Refresh(const std::vector<storage::Loan>& loans) = 0;
  // After Run(). What stays, in words.
  virtual std::vector<std::string> RemoveOutputs(const group::GroupResult& result) = 0;
};

// What one attempt may take of the worker.
struct GroupGrant {
  int threads = 1;
  int64_t memory_bytes = 0;
  rewrite::TurnToLoad turn_to_load = {};
};

struct WorkerOptions {
  std::string id;  // Of this life.
  std::string version;
  int max_inflight_groups = 2;
  int threads = 1;           // Of all groups together; each gets its share, at least one.
  int64_t memory_bytes = 0;  // Likewise.
  Duration unadopted = std::chrono::minutes(10);      // Outputs that nobody takes are removed then.
  std::function<void(const std::string&)> told = {};  // A line of the log; any thread.
};

class WorkerService {
 public:
  // Makes what runs an order, without asking the store for anything. kInvalid, kDenied: what this
  // worker does not do.
  using OpenAttempt =
      std::function<Result<std::unique_ptr<GroupAttempt>>(const GroupOrder&, const GroupGrant&)>;

  // An attempt as who ordered it follows it. One that is dropped before it gave its last frame
  // takes the attempt with it: nobody will ever know what came of it.
  class Follower {
   public:
    virtual ~Follower() = default;
    // Within `wait`: the last frame (DoneFrame or FailedFrame), as soon as there is one; else how
    // far it is. nullopt: the last one was given.
    virtual std::optional<Frame> Next(Duration wait) = 0;
  };

  virtual ~WorkerService() = default;
  // `clock` outlives it.
  static std::unique_ptr<WorkerService> Make(WorkerOptions options, OpenAttempt open,
                                             const Clock& clock);

  // Transport: it is full, has no memory left, or stops. Application: kInvalid for an attempt that
  // is known already, and what `open` fails with.
  virtual LinkResult<std::unique_ptr<Follower>> Begin(const GroupOrder& order) = 0;
  // As of WorkerLink. Adopt: kNotFound also where the worker was started anew; kInvalid: it runs.
  virtual LinkResult<void> Adopt(const std::string& attempt) = 0;
  // kInvalid: it was adopted.
  virtual LinkResult<void> Drop(const std::string& attempt) = 0;
  virtual LinkResult<void> Refresh(const std::string& attempt,
                                   const std::vector<storage::Loan>& loans) = 0;
  virtual WorkerStatus AskStatus() const = 0;

  // Takes no more orders. What runs may end, and what is done may be adopted, for so long; then the
  // former is stopped and the latter removed. Blocks. The destructor drains without waiting.
  virtual void Drain(Duration patience) = 0;
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_WORKER_SERVICE_H_
