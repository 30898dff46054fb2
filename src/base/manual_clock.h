// A clock that only Sleep() moves, for tests.
#ifndef LITHIFY_BASE_MANUAL_CLOCK_H_
#define LITHIFY_BASE_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace lithify {

// Thread-safe.
class ManualClock final : public Clock {
 public:
  Time Now() const override { return Time{std::chrono::seconds(1'800'000'000)} + Monotonic(); }
  Duration Monotonic() const override { return Duration(micros_.load()); }
  void Sleep(Duration d) override { micros_ += d.count(); }

 private:
  std::atomic<int64_t> micros_{0};
};

}  // namespace lithify

#endif  // LITHIFY_BASE_MANUAL_CLOCK_H_
