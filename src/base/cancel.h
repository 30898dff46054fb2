// A stop request that any thread may raise and every long loop reads.
#ifndef LITHIFY_BASE_CANCEL_H_
#define LITHIFY_BASE_CANCEL_H_

#include <atomic>

#include "base/result.h"

namespace lithify {

// Thread-safe; Request() is async-signal-safe (a lock-free atomic store).
class CancelFlag {
 public:
  void Request() noexcept { flag_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return flag_.load(std::memory_order_relaxed); }
  // kCancelled once a stop was asked for.
  Status Check() const {
    if (requested()) return Fail(Code::kCancelled, "stopped on request");
    return {};
  }

 private:
  std::atomic<bool> flag_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace lithify

#endif  // LITHIFY_BASE_CANCEL_H_
