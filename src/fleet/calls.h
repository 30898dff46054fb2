// Where the dispatcher's calls to workers run: on threads, or, in simulations, one after the other
// in an order and at times of their own.
#ifndef LITHIFY_FLEET_CALLS_H_
#define LITHIFY_FLEET_CALLS_H_

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace lithify::fleet {

// Thread-safe.
class Calls {
 public:
  // Kinds do not wait for each other: a rewrite takes hours, and a silent worker must not keep
  // another one's outputs from being taken over. kResult: a result is looked at.
  enum class Kind { kCompact, kControl, kProbe, kResult };
  struct Call {
    Kind kind = Kind::kProbe;
    int worker = -1;  // Whom it is for; -1: nobody.
    int64_t bytes = 0;
    std::function<void()> run;  // Throws nothing.
  };

  virtual ~Calls() = default;
  // Returns at once; `run` is called later and not before the caller has left its lock.
  virtual void Begin(Call call) = 0;
  // Gives the lock away until Wake(), or for `at_most`.
  virtual void Wait(std::unique_lock<std::mutex>& lock, Duration at_most) = 0;
  virtual void Wake() = 0;
  // Lets what runs come to its end; what waits, or comes later, is never begun.
  virtual void Close() = 0;
};

struct CallThreads {
  int compact = 1024;
  int control = 16;
  int probe = 32;
  int result = 64;  // Of several jobs: one that waits for its store keeps no other from its own.
};

// Threads are started as they are needed, up to those bounds; what is beyond waits its turn.
class ThreadCalls final : public Calls {
 public:
  explicit ThreadCalls(CallThreads threads);
  ~ThreadCalls() override;
  void Begin(Call call) override;
  void Wait(std::unique_lock<std::mutex>& lock, Duration at_most) override;
  void Wake() override;
  void Close() override;

 private:
  class Pool {
   public:
    explicit Pool(int most) : most_(most) {}
    void Begin(std::function<void()> run);
    void Close();

   private:
    void Loop();

    const int most_;
    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<std::function<void()>> waiting_;
    int idle_ = 0;
    bool closing_ = false;
    std::vector<std::thread> threads_;
  };

  std::condition_variable woken_;
  Pool compact_;
  Pool control_;
  Pool probe_;
  Pool result_;
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_CALLS_H_
