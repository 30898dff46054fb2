// Looks after calls that work for a client without sending anything yet: one that the client has
// left, or that takes longer than statements may, is told to stop. Private to this module.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_CALL_WATCH_H_
#define LITHIFY_SERVE_CALL_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cancel.h"
#include "base/clock.h"

namespace lithify::serve {

class CallWatch {
 private:
  struct Call {
    std::function<bool()> gone;
    CancelFlag* stop = nullptr;
    std::optional<Duration> deadline;  // Monotonic.
    std::atomic<bool> late{false};
  };

 public:
  // `clock` outlives it.
  explicit CallWatch(const Clock& clock);
  // After all that it looks after.
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // A call that is looked after until this goes.
  class Watched {
   public:
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    // It was stopped since its time was over.
    bool late() const { return at_->late.load(std::memory_order_relaxed); }

   private:
    friend class CallWatch;
    Watched(CallWatch& watch, std::list<Call>::iterator at) : watch_(watch), at_(at) {}
    CallWatch& watch_;
    const std::list<Call>::iterator at_;
  };

  // Raises `stop`, which outlives the result, soon after `gone`, called by another thread, says so,
  // or after `time_max` (zero: there is no bound).
  std::unique_ptr<Watched> Begin(std::function<bool()> gone, CancelFlag& stop, Duration time_max);

 private:
  void Run();

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Call> calls_;
  bool ending_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_CALL_WATCH_H_
