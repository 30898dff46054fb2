// The groups of one job rewritten by workers: what the loop (job) sees of a fleet. The
// implementation is in module fleet; simulations have their own.
#ifndef LITHIFY_GROUP_FLEET_H_
#define LITHIFY_GROUP_FLEET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "group/table_group.h"
#include "storage/s3_loan.h"

namespace lithify::group {

inline constexpr std::string_view kInsufficientWorkers = "insufficient_workers";

// How many results of one job are looked at at a time: each costs requests to the store, of whose
// time one after the other a large fleet would have nothing to do.
inline constexpr int kResultsAtOnce = 8;

// Whether a job goes to workers (R136): where there are enough healthy ones, never, or always, as
// an error where there are not.
enum class Distribution { kAuto, kLocal, kRequire };

// Where the groups of a job are rewritten, and the number that decided.
struct Placement {
  enum class Where { kLocal, kFleet };
  Where where = Where::kLocal;
  std::string reason;  // "4 of 4 workers are healthy, 1 needed".
  int healthy = 0;
};

// One group of a job for the fleet.
struct FleetGroup {
  GroupTask task;
  int64_t bytes = 0;         // Of the inputs, by metadata: the largest go first (R127).
  int64_t memory_bytes = 0;  // That its rewrite may hold; a worker takes what fits its own bound.
};

// How one group came to its result; for reports.
struct GroupStory {
  int64_t number = 0;  // Of its task.
  std::string worker;  // "10.0.0.3:9140 (id)"; empty: it has none.
  int64_t bytes = 0;   // As of FleetGroup.
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  Duration took{};                         // On that worker, from its order to its result.
  int attempts = 0;                        // Orders of it, to whomever.
  bool repeated = false;                   // It lagged behind, and was given to a second worker.
  std::vector<std::string> failures = {};  // "10.0.0.4:9140: connection reset", in order.
};

struct FleetStory {
  std::string job_id;
  std::vector<GroupStory> groups;  // As they were given.
  std::vector<std::string> notes;  // Of discovery and of keys.
  Duration took{};                 // From the first order to the last result that was looked at.
};

struct FleetJob {
  // Keys for the table's files alone, as fresh as they can be had; called once per job and again
  // before what it gave last runs out; from any thread, one call at a time. Never a token of the
  // catalog (Q13). Empty: workers use keys of their own configuration, where they have any.
  std::function<Result<std::vector<storage::Loan>>()> loans = {};
  std::function<void(int64_t)> on_progress = {};  // Bytes of input; any thread.
  // Once, before Run() returns, on its thread.
  std::function<void(const FleetStory&)> on_end = {};
};

// How one worker is, for people who look on: who and where it is, is not said.
struct FleetWorker {
  std::string state;  // "healthy", "draining", ….
  int groups = 0;     // That it works on, of anybody's.
  int slots = 0;      // That it takes at a time.
};

// Thread-safe: jobs may run at the same time; they share the workers' capacity.
class Fleet {
 public:
  virtual ~Fleet() = default;

  // Asks the workers how they are, within a bounded time. kLimit, its message beginning with
  // kInsufficientWorkers: they are required, and there are fewer healthy ones than that (R291).
  // `asked`: of this job, above what is configured.
  virtual Result<Placement> Place(std::optional<Distribution> asked, const CancelFlag& cancel) = 0;

  // As they were when a job last asked them; asks nobody.
  virtual std::vector<FleetWorker> Workers() const { return {}; }

  // Runs every group. `done` is called once per group, with its result once the worker has given
  // the outputs into the caller's hands (they are the caller's to remove or to commit from then on,
  // never the worker's), or with the error that ended it. Calls are for different groups, from any
  // threads, in any order, and up to kResultsAtOnce of them at a time with a result; one with an
  // error waits for none of those. An error of kind application (anything but a failure of
  // transport) is not tried elsewhere (R127); whether the others go on is what `done` returns:
  // false stops the job, and what is in flight is told to stop. From then on, and once `cancel` is
  // set, it is called only for outputs that came into the caller's hands, to be removed. It throws
  // nothing. Returns after the last call of `done` has; kCancelled if `cancel` was set.
  using Done = std::function<bool(size_t index, Result<GroupResult> result)>;
  virtual Status Run(const std::vector<FleetGroup>& groups, const FleetJob& job, const Done& done,
                     const CancelFlag& cancel) = 0;
};

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_FLEET_H_
