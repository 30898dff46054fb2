// Time as an interface, so that sealing, grace periods and races run in simulation (design, "How
// we work" 8). Wall time is UTC microseconds since the Unix epoch.
#ifndef LITHIFY_BASE_CLOCK_H_
#define LITHIFY_BASE_CLOCK_H_

#include <chrono>

namespace lithify {

using Duration = std::chrono::microseconds;
using Time = std::chrono::sys_time<Duration>;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;            // Wall time; may jump.
  virtual Duration Monotonic() const = 0;  // Since an arbitrary origin; never goes back.
  virtual void Sleep(Duration d) = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override;
  Duration Monotonic() const override;
  void Sleep(Duration d) override;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_CLOCK_H_
