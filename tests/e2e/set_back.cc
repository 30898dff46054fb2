// LD_PRELOAD library of the end-to-end tests: a file whose time of modification was set back looks
// as if its last change (ctime) were as old, as it is once the days have really passed. Nobody can
// set that time on a file.
#include <dlfcn.h>
#include <sys/stat.h>

namespace {

template <typename Stat>
int SetBack(int rc, Stat* info) {
  if (rc != 0) return rc;
  const auto& modified = info->st_mtim;
  auto& changed = info->st_ctim;
  if (modified.tv_sec < changed.tv_sec) changed = modified;
  return rc;
}

template <typename F>
F Next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fstatat(int directory, const char* path, struct stat* info, int flags) noexcept {
  static const auto next = Next<int (*)(int, const char*, struct stat*, int)>("fstatat");
  return SetBack(next(directory, path, info, flags), info);
}

int fstatat64(int directory, const char* path, struct stat64* info, int flags) noexcept {
  static const auto next = Next<int (*)(int, const char*, struct stat64*, int)>("fstatat64");
  return SetBack(next(directory, path, info, flags), info);
}

}  // extern "C"
