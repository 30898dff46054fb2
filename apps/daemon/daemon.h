// What the programs that run for long and hold tokens do alike: lithify-serve, lithify-maintain,
// lithifyd. Nothing here knows what they do, so that it joins nothing.
#ifndef LITHIFY_APPS_DAEMON_DAEMON_H_
#define LITHIFY_APPS_DAEMON_DAEMON_H_

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lithify::daemon {

// As those of the command line (docs/CLI.md).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

// Runs `main` with the process made safe for tokens before it, and exceptions told after it.
int Run(const char* program, const std::function<int()>& main);

// On standard error: "lithify-serve: <what>".
void Tell(const char* program, const std::string& what);
void Warn(const char* program, const std::vector<std::string>& warnings);
// What the process ends with; an error is told.
int Finish(const char* program, const Status& status);

// SIGTERM and SIGINT come to who waits for them, and to no other thread. Made before all other
// threads are.
class StopSignals {
 public:
  StopSignals();
  // Blocks until one has come; looks after the heap while it waits.
  void Wait() const;

 private:
  sigset_t signals_{};
};

}  // namespace lithify::daemon

#endif  // LITHIFY_APPS_DAEMON_DAEMON_H_
