#include "maintain/job_watch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "base/text.h"

namespace lithify::maintain {
namespace {

// A stop that is asked for is passed on after so long.
constexpr auto kLook = std::chrono::milliseconds(100);
// Longer ones are none.
constexpr double kSecondsMax = 10.0 * 366 * 86'400;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::optional<Duration> OverrunLimit(const OverrunLimits& limits, double predicted_seconds) {
  if (!(limits.factor > 0) || !std::isfinite(predicted_seconds)) return std::nullopt;
  const double seconds = limits.factor * std::max(predicted_seconds, 0.0);
  if (seconds > kSecondsMax) return std::nullopt;
  return std::max(limits.at_least, FromSeconds(seconds));
}

JobWatch::JobWatch(const Clock& clock, const OverrunLimits& limits, double predicted_seconds,
                   const CancelFlag& outer)
    : clock_(clock),
      limits_(limits),
      predicted_seconds_(predicted_seconds),
      outer_(outer),
      limit_(OverrunLimit(limits, predicted_seconds)),
      began_(clock.Monotonic()),
      thread_([this] { Watch(); }) {}

JobWatch::~JobWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// By the machine's own time: it only saves work. What counts is Check().
void JobWatch::Watch() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return ending_; })) {
    if (limit_ && std::chrono::steady_clock::now() - begin > *limit_) over_.Request();
    if (!outer_.requested() && !over_.requested()) continue;
    cancel_.Request();
    return;
  }
}

Error JobWatch::Over() const {
  char factor[32];
  std::snprintf(factor, sizeof factor, "%g", limits_.factor);
  return {Code::kLimit,
          "stopped before its commit: it works for more than " + FormatDuration(*limit_) +
              ", and was expected to take " + FormatDuration(FromSeconds(predicted_seconds_)) +
              " (" + factor + " times as long are allowed, and " +
              FormatDuration(limits_.at_least) + " always)",
          {},
          "the next prediction is longer; or set maintenance.budget.overrun_factor"};
}

Status JobWatch::Check() const {
  if (!limit_) return {};
  if (over_.requested() || clock_.Monotonic() - began_ > *limit_) return Fail(Over());
  return {};
}

Error JobWatch::Explained(Error error) const {
  if (error.code != Code::kCancelled || outer_.requested() || !over_.requested()) return error;
  return Over();
}

}  // namespace lithify::maintain
