#include "fleet/calls.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/result.h"

namespace lithify::fleet {

void ThreadCalls::Pool::Close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    waiting_.clear();
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadCalls::Pool::Begin(std::function<void()> run) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  waiting_.push_back(std::move(run));
  if (std::ssize(waiting_) > idle_ && std::ssize(threads_) < most_) {
    try {
      threads_.emplace_back([this] { Loop(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that run do all the work.
      LITHIFY_CHECK(!threads_.empty(), "not one thread can be started");
    }
  }
  ready_.notify_one();
}

void ThreadCalls::Pool::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    ready_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    --idle_;
    if (closing_) return;
    const auto run = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    run();
    lock.lock();
  }
}

ThreadCalls::ThreadCalls(CallThreads threads)
    : compact_(std::max(1, threads.compact)),
      control_(std::max(1, threads.control)),
      probe_(std::max(1, threads.probe)),
      result_(std::max(1, threads.result)) {}

ThreadCalls::~ThreadCalls() { ThreadCalls::Close(); }

void ThreadCalls::Begin(Call call) {
  switch (call.kind) {
    case Kind::kCompact: return compact_.Begin(std::move(call.run));
    case Kind::kControl: return control_.Begin(std::move(call.run));
    case Kind::kProbe: return probe_.Begin(std::move(call.run));
    case Kind::kResult: return result_.Begin(std::move(call.run));
  }
}

void ThreadCalls::Wait(std::unique_lock<std::mutex>& lock, Duration at_most) {
  woken_.wait_for(lock, at_most);
}

void ThreadCalls::Wake() { woken_.notify_all(); }

void ThreadCalls::Close() {
  compact_.Close();
  control_.Close();
  probe_.Close();
  result_.Close();
}

}  // namespace lithify::fleet
