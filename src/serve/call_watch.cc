#include "serve/call_watch.h"

#include <chrono>
#include <utility>

namespace lithify::serve {
namespace {

constexpr std::chrono::milliseconds kLook(100);

}  // namespace

CallWatch::CallWatch(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CallWatch::Watched::~Watched() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.calls_.erase(at_);
}

std::unique_ptr<CallWatch::Watched> CallWatch::Begin(std::function<bool()> gone, CancelFlag& stop,
                                                     Duration time_max) {
  const std::lock_guard lock(mutex_);
  const bool asleep = calls_.empty();
  Call& call = calls_.emplace_back();
  call.gone = std::move(gone);
  call.stop = &stop;
  if (time_max > Duration::zero()) call.deadline = clock_.Monotonic() + time_max;
  if (asleep) changed_.notify_all();
  return std::unique_ptr<Watched>(new Watched(*this, std::prev(calls_.end())));
}

void CallWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    // Most calls are over before they are looked at once.
    changed_.wait_for(lock, kLook, [this] { return ending_; });
    const Duration now = clock_.Monotonic();
    for (Call& call : calls_) {
      if (call.stop->requested()) continue;
      const bool late = call.deadline && now >= *call.deadline;
      if (late) call.late.store(true, std::memory_order_relaxed);
      if (late || call.gone()) call.stop->Request();
    }
  }
}

}  // namespace lithify::serve
