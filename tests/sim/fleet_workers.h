// Workers of a simulated world, and the network between them and its coordinators: killed, silent,
// slow, cut off, full, restarted under the same address, with answers that are lost on the way
// back, and some that lie. They rewrite with the code of a real worker, on the world's store, and
// remove what nobody takes over in time.
//
// A coordinator runs the real dispatcher; only its calls are made one after the other, in an order
// and at times that the dice give. All of it happens in the thread that holds the baton.
#ifndef LITHIFY_TESTS_SIM_FLEET_WORKERS_H_
#define LITHIFY_TESTS_SIM_FLEET_WORKERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "fleet/calls.h"
#include "fleet/dispatcher.h"
#include "sim_scheduler.h"
#include "storage/locations.h"

namespace lithify::sim {

struct FleetCounts {
  uint64_t groups = 0;  // Rewritten by workers.
  uint64_t failures = 0;
  uint64_t refusals = 0;
  uint64_t killed = 0;
  uint64_t lost_answers = 0;
  uint64_t adoptions = 0;
  uint64_t lost_adoptions = 0;
  uint64_t lies = 0;
  uint64_t misleading = 0;  // Answers that lie about what delete files name.
  uint64_t dropped = 0;
  uint64_t reaped = 0;
  uint64_t retries = 0;
  uint64_t hedges = 0;
  void Add(const FleetCounts& other);
};

// One process at work for a worker, as its world made it.
struct WorkerProcess {
  storage::Locations* locations = nullptr;
  std::function<bool()> crashed;
};

struct FleetHooks {
  std::function<void(const std::string&)> violate;
  std::function<void(int actor, const std::string&)> trace;
  // On the thread of this actor.
  std::function<WorkerProcess(int actor)> new_process;
};

class SimWorkers {
 public:
  SimWorkers(Dice& dice, SimClock& clock, Random& random, FleetHooks hooks);

  std::vector<std::string> addresses() const;
  const FleetCounts& counts() const { return counts_; }
  FleetCounts& counts() { return counts_; }

  // A coordinator, as long as its process lives.
  class Coordinator {
   public:
    virtual ~Coordinator() = default;
    virtual group::Fleet& fleet() = 0;
    // The process is gone: nothing of it is sent any more.
    virtual void Kill() = 0;
    // Whether a worker has lied to it.
    virtual bool deceived() const = 0;
  };
  struct Process {
    int actor = -1;
    const Clock& clock;
    // Others run; false: the process is dead.
    std::function<bool()> step;
  };
  std::unique_ptr<Coordinator> NewCoordinator(Process process);

  // What happens to workers: one is killed, cut off, slowed down, or comes back.
  void Shake();
  // A worker removes what was not taken over in time; `all`: also what is young.
  void Reap(int actor, bool all);

 private:
  class Link;
  class QueuedCalls;
  class RealCoordinator;

  // An attempt as its worker knows it.
  struct Attempt {
    std::vector<iceberg::DataFile> outputs;
    Time done;
    bool adopted = false;
  };
  struct Worker {
    int life = 0;
    int cap = 1;
    bool broken = false;  // Answers, but never ends a group.
    bool liar = false;
    bool misleads = false;  // About what delete files name.
    bool cut_off = false;
    int slow = 1;
    int running = 0;
    std::map<std::string, Attempt> attempts;
    std::set<std::string> dropped;
  };
  std::string IdOf(int worker) const;
  void Kill(Worker& worker);
  Result<group::GroupResult> Rewrite(const fleet::GroupOrder& order, const WorkerProcess& process);
  bool Lie(group::GroupResult& result);
  void Mislead(group::GroupResult& result);
  void Remove(int actor, const std::vector<iceberg::DataFile>& outputs);

  Dice& dice_;
  SimClock& clock_;
  Random& random_;
  FleetHooks hooks_;
  std::vector<Worker> workers_;
  FleetCounts counts_;
  // Of each group: the lives of workers that failed with it.
  std::set<std::tuple<std::string, std::string, int64_t, std::string>> failed_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_FLEET_WORKERS_H_
