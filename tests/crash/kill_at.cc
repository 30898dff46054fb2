// LD_PRELOAD library of the crash matrix: counts the calls that change files below a directory, and
// kills the process (SIGKILL) at a chosen one.
//
//   KILL_AT_ROOT  Absolute path; calls elsewhere pass uncounted. Unset: nothing is counted.
//   KILL_AT_N     Number of the call to die at, from 1. Unset or 0: never.
//   KILL_AT_WHEN  before (default) | after | torn: a write does half of its bytes first (other
//                 calls: as before) | fail: no kill, the call fails with errno KILL_AT_ERRNO.
//   KILL_AT_LOG   Here each counted call is appended at exit as "n call path", with
//                 "n call from -> to" for renames and links, in order; not after a kill.
//
// Counted: open* that may create, write, writev, pwrite, fsync, fdatasync, ftruncate, link*,
// rename*, unlink*, mkdir*, flock. Calls inside the C library itself (fopen) are not seen.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

namespace {

struct State {
  std::string root;
  long kill_at = 0;
  std::string when;
  int error = 0;
  std::string log;
  std::mutex mutex;
  long count = 0;
  std::vector<std::string> lines;
};

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Never destroyed: calls may come until the very end of the process.
State& TheState() {
  static State* state = [] {
    auto* s = new State;
    s->root = Variable("KILL_AT_ROOT");
    while (s->root.size() > 1 && s->root.back() == '/') s->root.pop_back();
    s->kill_at = atol(Variable("KILL_AT_N").c_str());
    s->when = Variable("KILL_AT_WHEN");
    s->error = atoi(Variable("KILL_AT_ERRNO").c_str());
    s->log = Variable("KILL_AT_LOG");
    return s;
  }();
  return *state;
}

std::string PathOf(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char target[PATH_MAX];
  const ssize_t n = readlink(link.c_str(), target, sizeof(target));
  return n < 0 ? "" : std::string(target, static_cast<size_t>(n));
}

std::string PathOf(int dir, const char* path) {
  if (path[0] == '/') return path;
  char cwd[PATH_MAX];
  const std::string base =
      dir != AT_FDCWD ? PathOf(dir) : (getcwd(cwd, sizeof(cwd)) == nullptr ? "" : cwd);
  return base + "/" + path;
}

bool Inside(const std::string& path) {
  const std::string& root = TheState().root;
  return !root.empty() && path.starts_with(root) &&
         (path.size() == root.size() || path[root.size()] == '/');
}

[[noreturn]] void Die() {
  while (true) syscall(SYS_kill, getpid(), SIGKILL);
}

// One counted call: dies before it, or remembers what to do instead of it or after it.
class Call {
 public:
  Call(const char* name, const std::string& path, const std::string& to = "") {
    if (!Inside(path) && (to.empty() || !Inside(to))) return;
    State& state = TheState();
    const std::lock_guard lock(state.mutex);
    const long n = ++state.count;
    if (!state.log.empty()) {
      state.lines.push_back(std::to_string(n) + " " + name + " " + path +
                            (to.empty() ? "" : " -> " + to));
    }
    if (n != state.kill_at) return;
    after_ = state.when == "after";
    torn_ = state.when == "torn" && strstr(name, "write") != nullptr;
    fail_ = state.when == "fail";
    if (!after_ && !torn_ && !fail_) Die();
  }
  bool torn() const { return torn_; }
  template <typename F>
  auto Do(F call) -> decltype(call()) {
    if (fail_) {
      errno = TheState().error;
      return -1;
    }
    const auto result = call();
    if (after_ || torn_) Die();
    return result;
  }

 private:
  bool after_ = false;
  bool torn_ = false;
  bool fail_ = false;
};

template <typename F>
F* Next(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
// The C library's own function of this name.
#define NEXT(name)                                                                  \
  [] {                                                                              \
    static auto* const next = Next(static_cast<decltype(::name)*>(nullptr), #name); \
    return next;                                                                    \
  }()

__attribute__((destructor)) void WriteLog() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (state.log.empty()) return;
  std::string text;
  for (const std::string& line : state.lines) text += line + "\n";
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, state.log.c_str(),
                                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (fd < 0) return;
  for (size_t done = 0; done < text.size();) {
    const long n = syscall(SYS_write, fd, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  syscall(SYS_close, fd);
}

int OpenAt(const char* name, int dir, const char* path, int flags, mode_t mode) {
  const auto open_it = [&] {
    return static_cast<int>(syscall(SYS_openat, dir, path, flags, mode));
  };
  if ((flags & (O_CREAT | O_TRUNC)) == 0) return open_it();
  Call call(name, PathOf(dir, path));
  return call.Do(open_it);
}

mode_t ModeOf(int flags, va_list& args) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(args, unsigned)) : 0;
}

}  // namespace

extern "C" {

#define DEFINE_OPEN(name)                              \
  int name(const char* path, int flags, ...) {         \
    va_list args;                                      \
    va_start(args, flags);                             \
    const mode_t mode = ModeOf(flags, args);           \
    va_end(args);                                      \
    return OpenAt(#name, AT_FDCWD, path, flags, mode); \
  }
#define DEFINE_OPENAT(name)                             \
  int name(int dir, const char* path, int flags, ...) { \
    va_list args;                                       \
    va_start(args, flags);                              \
    const mode_t mode = ModeOf(flags, args);            \
    va_end(args);                                       \
    return OpenAt(#name, dir, path, flags, mode);       \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int creat(const char* path, mode_t mode) {
  return OpenAt("creat", AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  Call call("write", PathOf(fd));
  return call.Do([&] { return NEXT(write)(fd, data, call.torn() ? size / 2 : size); });
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  Call call("writev", PathOf(fd));
  return call.Do([&] { return NEXT(writev)(fd, parts, call.torn() ? (count + 1) / 2 : count); });
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  Call call("pwrite", PathOf(fd));
  return call.Do([&] { return NEXT(pwrite)(fd, data, call.torn() ? size / 2 : size, offset); });
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  Call call("pwrite", PathOf(fd));
  return call.Do([&] { return NEXT(pwrite64)(fd, data, call.torn() ? size / 2 : size, offset); });
}

int fsync(int fd) {
  Call call("fsync", PathOf(fd));
  return call.Do([&] { return NEXT(fsync)(fd); });
}

int fdatasync(int fd) {
  Call call("fdatasync", PathOf(fd));
  return call.Do([&] { return NEXT(fdatasync)(fd); });
}

int ftruncate(int fd, off_t size) noexcept {
  Call call("ftruncate", PathOf(fd));
  return call.Do([&] { return NEXT(ftruncate)(fd, size); });
}

int ftruncate64(int fd, off64_t size) noexcept {
  Call call("ftruncate", PathOf(fd));
  return call.Do([&] { return NEXT(ftruncate64)(fd, size); });
}

int flock(int fd, int operation) noexcept {
  Call call("flock", PathOf(fd));
  return call.Do([&] { return NEXT(flock)(fd, operation); });
}

int link(const char* from, const char* to) noexcept {
  Call call("link", PathOf(AT_FDCWD, from), PathOf(AT_FDCWD, to));
  return call.Do([&] { return NEXT(link)(from, to); });
}

int linkat(int from_dir, const char* from, int to_dir, const char* to, int flags) noexcept {
  Call call("linkat", PathOf(from_dir, from), PathOf(to_dir, to));
  return call.Do([&] { return NEXT(linkat)(from_dir, from, to_dir, to, flags); });
}

int rename(const char* from, const char* to) noexcept {
  Call call("rename", PathOf(AT_FDCWD, from), PathOf(AT_FDCWD, to));
  return call.Do([&] { return NEXT(rename)(from, to); });
}

int renameat(int from_dir, const char* from, int to_dir, const char* to) noexcept {
  Call call("renameat", PathOf(from_dir, from), PathOf(to_dir, to));
  return call.Do([&] { return NEXT(renameat)(from_dir, from, to_dir, to); });
}

int renameat2(int from_dir, const char* from, int to_dir, const char* to,
              unsigned int flags) noexcept {
  Call call("renameat2", PathOf(from_dir, from), PathOf(to_dir, to));
  return call.Do([&] { return NEXT(renameat2)(from_dir, from, to_dir, to, flags); });
}

int unlink(const char* path) noexcept {
  Call call("unlink", PathOf(AT_FDCWD, path));
  return call.Do([&] { return NEXT(unlink)(path); });
}

int unlinkat(int dir, const char* path, int flags) noexcept {
  Call call("unlinkat", PathOf(dir, path));
  return call.Do([&] { return NEXT(unlinkat)(dir, path, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  Call call("mkdir", PathOf(AT_FDCWD, path));
  return call.Do([&] { return NEXT(mkdir)(path, mode); });
}

int mkdirat(int dir, const char* path, mode_t mode) noexcept {
  Call call("mkdirat", PathOf(dir, path));
  return call.Do([&] { return NEXT(mkdirat)(dir, path, mode); });
}

}  // extern "C"
