// Preloaded: the clock is CLOCK_AHEAD_SECONDS ahead, for a program that goes by a wrong one.
#include <dlfcn.h>

#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t id, timespec* now) {
  using Real = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const char* const ahead = std::getenv("CLOCK_AHEAD_SECONDS");
  const int result = real(id, now);
  if (result == 0 && id == CLOCK_REALTIME && ahead != nullptr) now->tv_sec += std::atol(ahead);
  return result;
}
