// A seeded scheduler: actors run on threads of their own, but only the one that holds the baton
// runs, and it hands the baton over at each Yield(). The same seed gives the same order of steps.
#ifndef LITHIFY_TESTS_SIM_SIM_SCHEDULER_H_
#define LITHIFY_TESTS_SIM_SIM_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace lithify::sim {

// splitmix64 with the few draws that the simulation needs.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  uint64_t Next();
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low + 1)));
  }

 private:
  uint64_t state_;
};

// Wall time of the simulated world; only the holder of the baton touches it.
class SimClock final : public Clock {
 public:
  explicit SimClock(Time start) : now_(start) {}
  Time Now() const override { return now_; }
  Duration Monotonic() const override { return now_.time_since_epoch(); }
  void Sleep(Duration d) override { now_ += d; }
  void Advance(Duration d) { now_ += d; }

 private:
  Time now_;
};

class Scheduler {
 public:
  Scheduler(Dice& dice, SimClock& clock);

  int Add(std::string name, std::function<void()> body);
  // Runs all actors to their end.
  void Run();
  // Called by the actor that holds the baton: others may run before it returns. Time passes, and
  // now and then the actor is frozen for long, as a process that lost its CPU or network.
  void Yield(int self);
  const std::string& NameOf(int actor) const { return actors_[static_cast<size_t>(actor)]->name; }
  uint64_t steps() const { return steps_; }

 private:
  struct Actor {
    std::string name;
    std::function<void()> body;
    std::binary_semaphore baton{0};
    std::thread thread;
    bool done = false;
    uint64_t frozen_until = 0;
  };

  void PassTime();
  // nullptr if all are done.
  Actor* Pick(Actor* self);

  Dice& dice_;
  SimClock& clock_;
  uint64_t stickiness_;  // One step in so many hands the baton over.
  uint64_t freeze_one_in_;
  uint64_t jump_one_in_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::binary_semaphore all_done_{0};
  uint64_t steps_ = 0;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_SIM_SCHEDULER_H_
