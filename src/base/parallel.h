// Loops over several threads.
#ifndef LITHIFY_BASE_PARALLEL_H_
#define LITHIFY_BASE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lithify {

// Runs `work(0 … count - 1)`, started in that order, on `threads` threads, or as many as there can
// be, the caller's own among them; returns when all is done. `work` throws nothing.
template <typename F>
void ForEach(size_t count, int threads, const F& work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> others;
  try {
    const size_t most = std::min(count, static_cast<size_t>(std::max(threads, 1)));
    for (size_t i = 1; i < most; ++i) others.emplace_back(loop);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that run do all the work.
  }
  loop();
}

// Likewise, of a `work` that returns a Status: once one fails no more are started, and of those
// that failed the first in order is returned.
template <typename F>
Status TryForEach(size_t count, int threads, const F& work) {
  std::atomic<bool> failed{false};
  std::vector<Status> statuses(count);
  ForEach(count, threads, [&](size_t i) {
    if (failed.load(std::memory_order_relaxed)) return;
    statuses[i] = work(i);
    if (!statuses[i]) failed.store(true, std::memory_order_relaxed);
  });
  for (Status& status : statuses) LITHIFY_TRY(std::move(status));
  return {};
}

}  // namespace lithify

#endif  // LITHIFY_BASE_PARALLEL_H_
