// LD_PRELOAD library: every positioned read takes LITHIFY_SLOW_READ_MS longer, so that a small job
// lasts long enough to be met while it runs.
#include <dlfcn.h>
#include <sys/types.h>
#include <time.h>

#include <cstdlib>

namespace {

void Wait() {
  static const long millis = [] {
    const char* text = std::getenv("LITHIFY_SLOW_READ_MS");
    return text == nullptr ? 0L : std::strtol(text, nullptr, 10);
  }();
  const timespec pause{millis / 1000, millis % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

using Read = ssize_t (*)(int, void*, size_t, off_t);

ssize_t Slowly(const char* name, int fd, void* buffer, size_t size, off_t offset) {
  Wait();
  return reinterpret_cast<Read>(dlsym(RTLD_NEXT, name))(fd, buffer, size, offset);
}

}  // namespace

extern "C" {

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  return Slowly("pread", fd, buffer, size, offset);
}

ssize_t pread64(int fd, void* buffer, size_t size, off_t offset) {
  return Slowly("pread64", fd, buffer, size, offset);
}

}  // extern "C"
