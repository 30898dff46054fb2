// The statements that run: how many a caller may have, and how one is stopped.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_RUNNING_STATEMENTS_H_
#define LITHIFY_SERVE_RUNNING_STATEMENTS_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::serve {

// One of them.
struct RunningStatement {
  std::string owner;
  std::string handle;
  std::function<void()> stop;
};

class RunningStatements {
 public:
  struct Limits {
    size_t all = 256;
    size_t of_owner = 64;
  };
  explicit RunningStatements(Limits limits) : limits_(limits) {}

  // A statement that counts until this goes. Does not outlive its RunningStatements.
  class Slot {
   public:
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    friend class RunningStatements;
    Slot(RunningStatements& running, std::list<RunningStatement>::iterator at);
    RunningStatements& running_;
    std::list<RunningStatement>::iterator at_;
  };

  // `handle`: of its ticket; empty: nobody can ask for it. `stop` is called by any thread, under
  // the lock: it only raises a flag. kTransient: as many run as may, or the server ends.
  Result<std::unique_ptr<Slot>> Begin(const std::string& owner, const std::string& handle,
                                      std::function<void()> stop);
  // Whether there was one of that handle, and of that owner, to stop.
  bool Stop(const std::string& owner, const std::string& handle);
  // None begins from now on; waits so long for those that run.
  bool Drain(Duration wait);
  void StopAll();
  bool draining() const;
  size_t count() const;

 private:
  friend class Slot;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::list<RunningStatement> running_;
  std::map<std::string, size_t> by_owner_;
  bool draining_ = false;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_RUNNING_STATEMENTS_H_
