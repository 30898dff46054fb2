#include "daemon/daemon.h"

#include <malloc.h>
#include <sys/prctl.h>

#include <cstdio>
#include <exception>

namespace lithify::daemon {

int Run(const char* program, const std::function<int()>& main) {
  // Tokens are in memory while work is done for them: no core file, and nobody else's look into it
  // (R267).
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Memory that is freed is overwritten, that of the libraries too, through which tokens pass:
  // nothing of them stays. A rewrite takes 2 to 4 % more processor time by it.
  mallopt(M_PERTURB, 0xa5);
  // Nobody reads our warnings any more: no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
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
  int signal = 0;
  sigwait(&signals_, &signal);
}

}  // namespace lithify::daemon
