// Work on several threads, and what third-party code throws, as an error. Private to this module.
#ifndef LITHIFY_JOB_PARALLEL_H_
#define LITHIFY_JOB_PARALLEL_H_

#include <atomic>
#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/result.h"

namespace lithify::job {

// Runs `work(0 … count - 1)`, started in that order, on `threads` threads, or as many as there can
// be; returns when all is done. `work` throws nothing.
template <typename F>
void ForEach(size_t count, int threads, F work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(loop);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that run do all the work.
  }
  loop();
}

inline Error FromException(const std::exception& e, const std::string& where) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return {Code::kLimit, "out of memory", where, "lower limits.memory or limits.jobs"};
  }
  return {Code::kInternal, std::string("unexpected exception: ") + e.what(), where,
          "please report this"};
}

}  // namespace lithify::job

#endif  // LITHIFY_JOB_PARALLEL_H_
