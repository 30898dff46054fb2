// The fleet as a job sees it: its groups rewritten by workers. What is done when is decided by
// Placement; this carries it out over WorkerLinks, and tells it what came of it.
#ifndef LITHIFY_FLEET_DISPATCHER_H_
#define LITHIFY_FLEET_DISPATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "fleet/calls.h"
#include "fleet/discovery.h"
#include "fleet/placement.h"
#include "fleet/worker_link.h"
#include "group/fleet.h"

namespace lithify::fleet {

inline constexpr Duration kQueuePeriod = std::chrono::seconds(10);

struct DispatcherOptions {
  group::Distribution distribution = group::Distribution::kAuto;
  int min_workers = 1;
  PlacementOptions placement;
  LinkTimes times;
  Duration status_timeout = std::chrono::seconds(3);
  Duration control_timeout = std::chrono::seconds(10);  // Of adoptions and the like.
  Duration place_timeout = std::chrono::seconds(10);
  Duration discovery_period = std::chrono::seconds(10);
  // {"waiting_groups": N, "waiting_bytes": B, "running_groups": M, "written_at_ms": T} for whoever
  // adds workers; empty: none. While there is a job it is written anew whenever it changes, at most
  // once a second, and at least once per kQueuePeriod: an older one is of somebody who died. With
  // the last job it is removed. Best effort.
  std::string queue_file;
};

struct DispatcherServices {
  std::unique_ptr<Discovery> discovery;
  // Quick and without I/O: what cannot be reached says so when it is called. On an error there is
  // no such worker. Any thread.
  std::function<Result<std::unique_ptr<WorkerLink>>(const std::string& address)> make_link;
  const Clock& clock;
  Random& random;
  std::unique_ptr<Calls> calls;
  // Called once per Run(), before it returns, on its thread.
  std::function<void(const group::FleetStory&)> on_job = {};
};

class Dispatcher final : public group::Fleet {
 public:
  // Nothing is asked yet.
  Dispatcher(DispatcherServices services, DispatcherOptions options);
  // No Run() or Place() may be at work. Waits two seconds at most for workers to be told what to
  // drop, and for calls that were cancelled.
  ~Dispatcher() override;

  Result<group::Placement> Place(std::optional<group::Distribution> asked,
                                 const CancelFlag& cancel) override;
  // As group::Fleet says. Once the job is stopped, by `done` or `cancel`, `done` is called only for
  // outputs that came into the caller's hands, so that they can be removed.
  Status Run(const std::vector<group::FleetGroup>& groups, const group::FleetJob& job,
             const Done& done, const CancelFlag& cancel) override;

  // Run() and Place() end as if they were cancelled, now and later. Any thread.
  void Stop();

  std::vector<WorkerView> workers() const;
  std::vector<group::FleetWorker> Workers() const override;
  PlacementCounters counters() const;
  QueueLengths queue() const;

 private:
  struct Job;
  struct Attempt;

  Duration Now() const { return services_.clock.Monotonic(); }
  // All below: with the lock held, unless they say otherwise.
  void Apply(const Actions& actions);
  void ApplyOne(const Action& action);
  void BeginProbe(int worker);
  void BeginCompact(const Action& action);
  void BeginAdopt(const Action& action);
  void BeginDrop(int worker, int64_t attempt);
  void BeginRefresh(int worker, int64_t id, Attempt& attempt);
  void BeginDiscovery();
  void GroupDone(const Action& action);
  void Compact(int64_t id, const std::shared_ptr<Attempt>& attempt, WorkerLink& link);  // Unlocked.
  void CompactEnded(int64_t id, Attempt& attempt, LinkResult<group::GroupResult> result);
  std::shared_ptr<WorkerLink> LinkOf(int worker);
  void Control(int worker, std::function<void(WorkerLink&)> call);
  void Tick();
  void OfferKeys();
  void TendQueueFile();
  void Note(const std::string& text);
  bool DueForDiscovery() const;
  group::Placement Judge(int healthy, int listed) const;
  bool Enough() const;
  bool WaitForWorkers(std::unique_lock<std::mutex>& lock, const CancelFlag& cancel);
  Status Loop(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Job>& job, const Done& done,
              const CancelFlag& cancel);
  void Deliver(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Job>& job,
               const Done& done);
  void TakeResult(Job& job, size_t group, group::GroupResult result,
                  const Done& done);  // Unlocked.
  void Decided(Job& job, bool failed, bool go_on);
  void RenewLoans(std::unique_lock<std::mutex>& lock, Job& job);
  void SetLoans(Job& job, std::vector<storage::Loan> loans);

  DispatcherServices services_;
  const DispatcherOptions options_;
  mutable std::mutex mutex_;
  Placement placement_;
  std::map<int, std::shared_ptr<WorkerLink>> links_;
  std::map<int64_t, std::shared_ptr<Job>> jobs_;
  std::map<int64_t, std::shared_ptr<Attempt>> attempts_;
  std::map<int64_t, std::string> names_;  // Of attempts, also of those that ended.
  std::set<int> probing_;
  std::set<std::string> notes_;  // Said once each.
  bool stopping_ = false;
  bool discovering_ = false;
  std::optional<Duration> discovered_;  // When it was asked last.
  std::optional<Duration> ticked_;
  bool writing_queue_ = false;
  std::optional<QueueLengths> written_;  // Nothing: the file is not there.
  Duration written_at_{};
  int controls_ = 0;  // Calls that are not back.
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_DISPATCHER_H_
