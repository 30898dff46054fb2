#include "daemon/daemon.h"

#include <malloc.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "daemon/wiping_free.h"

namespace lithify::daemon {

int Run(const char* program, const std::function<int()>& main) {
  // Tokens are in memory while work is done for them: no core file, and nobody else's look into it
  // (R267).
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Nothing of them stays in what is freed.
  UseWipingFree();
  // By default threads spread over eight arenas for each processor, and what one of them once held
  // stays with it: the process grew for as long as threads came and went, while no more was in use
  // (bench/SERVER.md). MALLOC_ARENA_MAX says otherwise.
  if (std::getenv("MALLOC_ARENA_MAX") ==
      nullptr) {  // NOLINT(concurrency-mt-unsafe): no threads yet.
    mallopt(M_ARENA_MAX, static_cast<int>(std::max(2U, std::thread::hardware_concurrency())));
  }
  // Nobody reads our warnings any more: no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
  // A write over the limit of a file's size is an error that says so.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return main();
  } catch (const std::exception& error) {
    Tell(program, std::string("internal: ") + error.what());
    return kFailed;
  }
}

void Tell(const char* program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program, what.c_str());
}

void Warn(const char* program, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) Tell(program, "warning: " + warning);
}

int Finish(const char* program, const Status& status) {
  if (status) return kDone;
  Tell(program, status.error().ToString());
  return status.error().code == Code::kInvalid ? kUsage : kFailed;
}

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void StopSignals::Wait() const {
  // Meanwhile what a busy hour left free goes back to the system.
  constexpr timespec kMinute = {60, 0};
  while (sigtimedwait(&signals_, nullptr, &kMinute) < 0) malloc_trim(0);
}

}  // namespace lithify::daemon
