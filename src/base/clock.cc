#include "base/clock.h"

#include <thread>

namespace lithify {

Time SystemClock::Now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Duration SystemClock::Monotonic() const {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

void SystemClock::Sleep(Duration d) { std::this_thread::sleep_for(d); }

}  // namespace lithify
