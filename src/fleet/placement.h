// Which worker does which group, and when: a state machine without I/O, clock or threads. What
// happened goes in, with the time; what is to be done next comes out, in order. The same events
// give the same actions.
//
// Rules: the largest group first; every worker filled up to its cap and its memory, a freed slot
// filled at once (R127, R135); jobs share the slots. A failure of transport sends the group to a
// different worker and rests the one that failed, with growing pauses, until it answers again
// (R133); a group that no worker may take, or that failed too often, fails (R290); one that its
// worker refuses for good fails at once (R127). Near the end idle workers repeat groups that lag
// behind; of several results the first that is adopted counts.
//
// Thread safety: none; times are of Clock::Monotonic().
#ifndef LITHIFY_FLEET_PLACEMENT_H_
#define LITHIFY_FLEET_PLACEMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::fleet {

struct PlacementOptions {
  int max_inflight_groups_per_worker = 0;  // 0: as each worker says.
  int group_attempts = 3;                  // That may fail, of one group.
  int attempts_max = 1024;                 // At once, on all workers.
  bool hedge = true;
  // A lagging group is repeated if that is expected to save so much.
  Duration hedge_gain = std::chrono::seconds(10);
  Duration probe_period = std::chrono::seconds(5);  // Of workers that do well.
  Duration backoff_min = std::chrono::seconds(5);   // Of those that failed; doubled each time.
  Duration backoff_max = std::chrono::minutes(1);
  // How long a group waits for a worker that may take it to come, or to come back.
  Duration patience = std::chrono::seconds(30);
  int adopt_tries = 3;
};

// What a worker says of itself.
struct WorkerFacts {
  std::string id;  // Another one after a restart.
  int inflight = 0;
  int max_inflight_groups = 1;
  int64_t memory_bytes = 0;  // Of all groups together; 0: no bound.
  bool draining = false;
};

enum class Health { kUnknown, kHealthy, kUnhealthy };
std::string_view HealthName(Health health);

// One worker as the coordinator sees it; for status pages, metrics and tests.
struct WorkerView {
  std::string address;
  std::string id;
  Health health = Health::kUnknown;
  bool listed = true;  // By discovery; the others only finish what they have.
  bool draining = false;
  int cap = 0;
  int running = 0;  // Attempts of ours.
  int others = 0;   // Of other coordinators, as of the last answer.
  int64_t memory_bytes = 0;
  int64_t memory_used = 0;
  double bytes_per_second = 0;  // Of one group, as observed; 0: not known.
  int64_t groups_done = 0;
  int64_t bytes_done = 0;
  std::string last_error;
};

struct PlacementCounters {
  int64_t attempts = 0;
  int64_t retries = 0;     // Attempts at groups that failed before.
  int64_t hedges = 0;      // Attempts at groups that lagged behind.
  int64_t hedges_won = 0;  // Of them, those whose result was used.
  int64_t transport_failures = 0;
  int64_t application_failures = 0;
  int64_t refusals = 0;  // Of workers that were full or draining.
  int64_t restarts = 0;  // Workers that came back as others.
  int64_t adoptions_failed = 0;
  int64_t groups_done = 0;
  int64_t groups_failed = 0;
  int64_t bytes_done = 0;
};

// What waits, for those who add workers.
struct QueueLengths {
  int64_t waiting_groups = 0;
  int64_t waiting_bytes = 0;
  int64_t running_groups = 0;
  bool operator==(const QueueLengths&) const = default;
};

struct GroupSize {
  int64_t bytes = 0;
  int64_t memory_bytes = 0;  // 0: its share of the worker's.
};

struct Action {
  enum class Kind {
    kProbe,        // Ask `worker` how it is: OnStatus() or OnProbeFailed().
    kStart,        // `attempt` at `group` on `worker`: OnFinished(), OnRefused() or OnFailed().
    kCancel,       // Stop the call of `attempt`, which still answers as above.
    kDrop,         // Tell `worker` to forget `attempt` and its outputs. Best effort.
    kAdopt,        // Take over the outputs of `attempt`: OnAdopted() or OnAdoptFailed().
    kGroupDone,    // The result of `attempt` is that of `group`.
    kGroupFailed,  // With `error`. GoOn() or StopJob().
    kJobEnded,     // Nothing of `job` is to come but ends of calls that were cancelled.
  };
  Kind kind = Kind::kProbe;
  int worker = -1;
  int64_t job = -1;
  int64_t group = -1;
  int64_t attempt = -1;
  int64_t memory_bytes = 0;  // kStart: what the group may hold there.
  bool hedge = false;        // kStart.
  Error error = {};          // kGroupFailed.
};
using Actions = std::vector<Action>;

class Placement {
 public:
  explicit Placement(PlacementOptions options) : options_(options) {}

  // The addresses that discovery knows now. Those no longer among them get nothing new.
  Actions SetWorkers(const std::vector<std::string>& addresses, Duration now);
  // Probes all listed workers not heard of for `age`; one that is being asked is not asked again.
  Actions ProbeAll(Duration now, Duration age);
  Actions OnStatus(int worker, const WorkerFacts& facts, Duration now);
  Actions OnProbeFailed(int worker, const std::string& why, Duration now);

  // Jobs and attempts are numbered, from 0.
  std::pair<int64_t, Actions> AddJob(const std::vector<GroupSize>& groups, Duration now);
  // After a kGroupFailed, none of its groups is begun before this was called for it.
  Actions GoOn(int64_t job, Duration now);
  // No group of it is started any more, and what runs is stopped. What is being adopted still
  // becomes kGroupDone or nothing; then kJobEnded follows.
  Actions StopJob(int64_t job, Duration now);
  // Ends without waiting for adoptions: their outcome stays unknown, nothing of them is used.
  Actions AbandonJob(int64_t job, Duration now);

  void OnProgress(int64_t attempt, int64_t bytes, Duration now);  // In all, so far.
  Actions OnFinished(int64_t attempt, Duration now);
  // The worker did not begin: it is full, or drains. Says nothing about its health.
  Actions OnRefused(int64_t attempt, const Error& error, Duration now);
  Actions OnFailed(int64_t attempt, bool transport, const Error& error, Duration now);
  Actions OnAdopted(int64_t attempt, Duration now);
  // `transport`: nobody knows. Else the worker has removed the outputs.
  Actions OnAdoptFailed(int64_t attempt, bool transport, const Error& error, Duration now);
  // Time has passed: probes, adoptions tried again, groups that nobody can take, repeats. About
  // once a second while there is a job.
  Actions Tick(Duration now);

  // Listed workers that are well and not draining, each once.
  int healthy() const;
  int listed() const;
  const std::string& AddressOf(int worker) const { return At(worker).view.address; }
  const WorkerView& ViewOf(int worker) const { return At(worker).view; }
  std::vector<WorkerView> workers() const;
  const PlacementCounters& counters() const { return counters_; }
  QueueLengths queue() const;

 private:
  struct Worker {
    WorkerView view;
    bool probing = false;
    int64_t failures = 0;        // In all;
    int64_t failures_asked = 0;  // when it was asked last.
    bool refusing = false;       // Until it says how it is.
    int life_doubts = 0;         // Answers to wait for before it counts as the one it was.
    int refusals_in_row = 0;
    int failures_in_row = 0;
    std::optional<Duration> heard;
    Duration next_probe{};
    std::vector<int64_t> owed;  // Attempts that it was not told to drop.
    bool well() const { return view.listed && view.health == Health::kHealthy && !view.draining; }
  };
  enum class Stage { kRunning, kFinished, kAdopting, kCancelled };
  struct Attempt {
    int64_t job = 0;
    int64_t group = 0;
    int worker = 0;
    std::string life;  // Id of the worker when it was started.
    Stage stage = Stage::kRunning;
    bool calling = true;  // The call has not returned.
    bool hedge = false;
    bool adopt_asked = false;
    int adopt_tries = 0;
    std::optional<Duration> adopt_again;
    int64_t memory = 0;
    int64_t progress = 0;
    Duration started{};
    Duration ended{};
  };
  struct Group {
    GroupSize size;
    bool settled = false;
    bool hedged = false;
    int failures = 0;
    std::set<std::pair<int, std::string>> failed_on;  // Workers by life.
    std::vector<int64_t> attempts;                    // That may still give a result.
    std::optional<Duration> stuck_since;
    Error last_error;
  };
  struct Job {
    std::vector<Group> groups;
    std::set<std::pair<int64_t, int64_t>> pending;  // (-bytes, index): the largest first.
    std::set<int64_t> suspects;                     // Groups that failed before.
    int64_t unsettled = 0;
    int64_t pending_bytes = 0;
    int running = 0;
    int adopting = 0;
    int undecided = 0;  // Failures after which nobody has said to go on.
    bool stopped = false;
  };

  Worker& At(int worker) { return workers_[static_cast<size_t>(worker)]; }
  const Worker& At(int worker) const { return workers_[static_cast<size_t>(worker)]; }
  Group& GroupOf(const Attempt& attempt) {
    return jobs_.at(attempt.job).groups[static_cast<size_t>(attempt.group)];
  }
  bool IsAlias(int worker) const;
  bool HasSlot(const Worker& worker) const;
  static int64_t MemoryOn(const Worker& worker, const GroupSize& size);
  bool MayTake(int worker, const Group& group) const;
  std::optional<int> Choose(const Group& group, std::set<int>& held) const;

  void Fill(Duration now, Actions& out);
  bool FillOne(Job& job, int64_t id, std::set<int>& held, Duration now, Actions& out);
  void Start(int64_t job, int64_t group, int worker, bool hedge, Duration now, Actions& out);
  void Enqueue(Job& job, int64_t group);
  void Dequeue(Job& job, int64_t group);

  void ProbeDue(Duration now, Actions& out);
  void Probe(int worker, Actions& out);
  void NameWorker(int worker, const std::string& id);
  void Rest(Worker& worker, const std::string& why, Duration now);
  void Restarted(int worker, Actions& out);
  void CallEnded(Attempt& attempt);
  // The attempt gives no result any more: it is no longer its group's. What of it is left are the
  // end of its call and, if asked, what its worker is told.
  void Detach(int64_t id);
  void Discard(int64_t id, Actions& out);
  void AttemptFailed(int64_t id, const Error& error, Actions& out);
  void TryNext(int64_t job, int64_t group, Actions& out);
  void Adopt(int64_t id, Actions& out);
  void UseResult(int64_t id, Actions& out);
  void FailGroup(int64_t job, int64_t group, Error error, Actions& out);
  void MaybeEnd(int64_t job, Actions& out);
  // Of a group that failed before. nullopt: some worker may take it, now or later.
  std::optional<Error> WhyStuck(Group& group, Duration now) const;
  Error WhyDark(const Group& group) const;
  void FailStuck(Duration now, Actions& out);
  void Hedge(Duration now, Actions& out);
  double MedianRate() const;
  // Expected time until the attempt ends; nullopt: there is nothing to tell it by.
  std::optional<double> SecondsLeft(const Attempt& attempt, double median, Duration now) const;
  std::optional<int> IdleWorker(const Group& group) const;

  PlacementOptions options_;
  std::vector<Worker> workers_;
  std::map<std::string, int> by_address_;
  std::map<std::string, std::set<int>> by_id_;
  std::optional<Duration> dark_since_;  // Since when no worker is well, while there is a job.
  std::map<int64_t, Job> jobs_;
  std::map<int64_t, Attempt> attempts_;
  int64_t next_job_ = 0;
  int64_t next_attempt_ = 0;
  int active_ = 0;  // Attempts whose call has not returned.
  PlacementCounters counters_;
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_PLACEMENT_H_
