#include "base/turns.h"

#include <algorithm>
#include <chrono>

namespace lithify {
namespace {

// The flag of who cancels wakes nobody.
constexpr auto kLookForCancel = std::chrono::milliseconds(20);

}  // namespace

Turns::Turns(int at_once) : free_(std::max(1, at_once)) {}

Result<Turns::Turn> Turns::Take(const CancelFlag& cancel) {
  std::unique_lock lock(mutex_);
  const uint64_t number = asked_++;
  waiting_.insert(number);
  while (free_ == 0 || *waiting_.begin() != number) {
    if (const Status go_on = cancel.Check(); !go_on) {
      waiting_.erase(number);
      // Whoever is next may have been waiting for this one to go first.
      changed_.notify_all();
      return Fail(Error(go_on.error()));
    }
    changed_.wait_for(lock, kLookForCancel);
  }
  waiting_.erase(number);
  --free_;
  changed_.notify_all();
  lock.unlock();
  return Turn(this, [](Turns* turns) { turns->End(); });
}

int Turns::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(waiting_.size());
}

void Turns::End() {
  {
    const std::lock_guard lock(mutex_);
    ++free_;
  }
  changed_.notify_all();
}

}  // namespace lithify
