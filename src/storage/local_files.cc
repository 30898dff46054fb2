#include "storage/local_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "base/random.h"

namespace lithify::storage {
namespace {

std::string Join(const std::string& directory, std::string_view name) {
  return directory.ends_with('/') ? directory + std::string(name)
                                  : directory + "/" + std::string(name);
}

std::string HintFor(int err, Code code) {
  if (err == EFBIG) return "raise the file size limit of the process or the file system";
  if (err == EROFS) return "mount the file system for writing";
  if (err == EIO) return "look for disk errors in the kernel log, then run it again";
  if (err == EMFILE || err == ENFILE) return "raise the limit of open files";
  if (code == Code::kLimit) return "free some space or raise the quota, then run it again";
  if (code == Code::kDenied) return "run it as a user who may read and write there";
  return {};
}

Code CodeFor(int err) {
  switch (err) {
    case ENOENT: return Code::kNotFound;
    case EACCES:
    case EPERM:
    case ELOOP:
    case EROFS: return Code::kDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMLINK: return Code::kLimit;
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR: return Code::kInvalid;
    case ENOSYS:
    case EOPNOTSUPP: return Code::kUnsupported;
    case EBADF:
    case EFAULT:
    case EINVAL: return Code::kInternal;
    default: return Code::kTransient;
  }
}

std::unexpected<Error> Refused(const std::string& where, std::string_view what) {
  return Fail(Code::kDenied, std::string(what) + " is in the way; it is not followed or opened",
              where, "put a real file or directory there, or bind-mount the place it points to");
}

// What `name` is, once opening it as a directory has failed.
std::unexpected<Error> NoDirectory(int parent, const std::string& name, const std::string& where) {
  struct stat info{};
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode)) {
    return Refused(where, "a symbolic link");
  }
  return Fail(Code::kNotFound, "no such directory", where);
}

// The whole way in one call, where the kernel has it (Linux 5.6) and lets us; what it refuses, for
// whatever reason, the walk step by step finds out again and names.
Fd OpenBelow(int root_fd, std::string_view relative, int flags) {
  const std::string path(relative.empty() ? "." : relative);
  struct open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return Fd(static_cast<int>(syscall(SYS_openat2, root_fd, path.c_str(), &how, sizeof(how))));
}

int Fsync(int fd) {
  int rc = 0;
  do {
    rc = fsync(fd);
  } while (rc != 0 && errno == EINTR);
  return rc;
}

Status SyncDirectoryFd(int fd, const std::string& where) {
  // EINVAL: this file system (some FUSE ones) does not sync directories; nothing more can be done.
  if (Fsync(fd) == 0 || errno == EINVAL) return {};
  return Fail(ErrnoError(errno, "make the directory entry durable", where));
}

Status MakeDirectory(int parent, const std::string& name, const std::string& where, bool sync) {
  // Whoever made it a moment ago may not have synced it yet: sync in either case.
  if (mkdirat(parent, name.c_str(), 0777) != 0 && errno != EEXIST) {
    return Fail(ErrnoError(errno, "make directory", where));
  }
  if (sync) LITHIFY_TRY(SyncDirectoryFd(parent, where));
  return {};
}

Status JudgeRegular(const struct stat& info, const std::string& where) {
  if (S_ISREG(info.st_mode)) return {};
  if (S_ISDIR(info.st_mode)) return Fail(Code::kNotFound, "a directory is no object", where);
  return Refused(where, S_ISLNK(info.st_mode) ? "a symbolic link" : "a device, socket or pipe");
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::Close() noexcept {
  // Errors of close() tell nothing new: all that matters was fsynced before.
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Error ErrnoError(int err, std::string_view doing, std::string where) {
  const Code code = CodeFor(err);
  const std::string reason = err == ENOSPC || err == EDQUOT
                                 ? "no space left (" + std::generic_category().message(err) + ")"
                                 : std::generic_category().message(err);
  return {code, "cannot " + std::string(doing) + ": " + reason, std::move(where),
          HintFor(err, code)};
}

Result<Directory> OpenDirectory(int root_fd, const std::string& root_path,
                                std::string_view relative, bool create, bool sync) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  if (Fd at_once = OpenBelow(root_fd, relative, kFlags); at_once.valid()) {
    return Directory{std::move(at_once), relative.empty() ? root_path : Join(root_path, relative)};
  }
  Directory at{Fd(openat(root_fd, ".", kFlags)), root_path};
  if (!at.fd.valid()) return Fail(ErrnoError(errno, "open directory", at.path));
  while (!relative.empty()) {
    const size_t slash = relative.find('/');
    const std::string name(relative.substr(0, slash));
    relative.remove_prefix(slash == std::string_view::npos ? relative.size() : slash + 1);
    const std::string path = Join(at.path, name);
    Fd next(openat(at.fd.get(), name.c_str(), kFlags));
    if (!next.valid() && errno == ENOENT && create) {
      LITHIFY_TRY(MakeDirectory(at.fd.get(), name, path, sync));
      next = Fd(openat(at.fd.get(), name.c_str(), kFlags));
    }
    if (!next.valid()) {
      const int err = errno;
      if (err != ENOENT && err != ENOTDIR && err != ELOOP) {
        return Fail(ErrnoError(err, "open directory", path));
      }
      auto failure = NoDirectory(at.fd.get(), name, path);
      if (create && failure.error().code == Code::kNotFound) {
        return Fail(Code::kInvalid, "a file is where a directory is needed", path);
      }
      return failure;
    }
    at = Directory{std::move(next), path};
  }
  return at;
}

Result<DirectoryLock> DirectoryLock::Acquire(const Directory& directory, Duration wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  auto pause = std::chrono::microseconds(100);
  while (flock(directory.fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const int err = errno;
    if (err == EINTR) continue;
    if (err != EWOULDBLOCK) {
      return Fail(
          Code::kUnsupported,
          "the file system does not lock directories: " + std::generic_category().message(err),
          directory.path,
          "keep the tree on a local file system (ext4, xfs, btrfs, tmpfs); without the "
          "lock two writers could overwrite each other");
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Fail(Code::kTransient, "another process holds the lock of this directory",
                  directory.path, "see who has it open (lsof), or run it again later");
    }
    std::this_thread::sleep_for(pause);
    if (pause < std::chrono::milliseconds(5)) pause *= 2;
  }
  return DirectoryLock(directory.fd.get());
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) flock(fd_, LOCK_UN);
}

Status StatRegular(const Directory& directory, const std::string& name, struct stat* info) {
  const std::string where = Join(directory.path, name);
  if (fstatat(directory.fd.get(), name.c_str(), info, AT_SYMLINK_NOFOLLOW) != 0) {
    return Fail(ErrnoError(errno, "stat", where));
  }
  return JudgeRegular(*info, where);
}

Result<Fd> OpenRegular(const Directory& directory, const std::string& name, struct stat* info) {
  const std::string where = Join(directory.path, name);
  // O_NONBLOCK: a named pipe must not hang us; it means nothing for regular files.
  Fd fd(openat(directory.fd.get(), name.c_str(),
               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    const int err = errno;
    if (err == ELOOP || err == ENXIO) return Refused(where, "a link, socket or pipe");
    return Fail(ErrnoError(err, "open", where));
  }
  if (fstat(fd.get(), info) != 0) return Fail(ErrnoError(errno, "stat", where));
  LITHIFY_TRY(JudgeRegular(*info, where));
  return fd;
}

Result<int64_t> ReadFully(int fd, int64_t offset, std::span<std::byte> out,
                          const std::string& where) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(fd, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(ErrnoError(errno, "read", where));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

Status WriteFully(int fd, int64_t offset, std::span<const std::byte> bytes,
                  const std::string& where) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Fail(ErrnoError(errno, "write", where));
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += put;
  }
  return {};
}

Status TouchFile(int fd, const std::string& where) {
  if (futimens(fd, nullptr) != 0) return Fail(ErrnoError(errno, "set the time of", where));
  return {};
}

Status SyncFile(int fd, const std::string& where) {
  // After a failed fsync the kernel may forget that the pages were dirty: it is never retried.
  if (Fsync(fd) != 0) return Fail(ErrnoError(errno, "make durable", where));
  return {};
}

Status SyncDirectory(const Directory& directory) {
  return SyncDirectoryFd(directory.fd.get(), directory.path);
}

Result<Temporary> MakeTemporary(const Directory& directory, const std::string& name) {
  SystemRandom random;
  std::array<char, 32> suffix;
  std::snprintf(suffix.data(), suffix.size(), ".%016llx.tmp",
                static_cast<unsigned long long>(random.Next()));
  Temporary out{name + suffix.data(), {}};
  out.fd = Fd(openat(directory.fd.get(), out.name.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!out.fd.valid()) {
    const int err = errno;
    // ENOENT: the directory itself was removed just now. EEXIST: 64 random bits hit a name.
    if (err == ENOENT || err == EEXIST) {
      return Fail(Code::kTransient, "cannot create: " + std::generic_category().message(err),
                  Join(directory.path, out.name));
    }
    return Fail(ErrnoError(err, "create", Join(directory.path, out.name)));
  }
  return out;
}

Status RenameTemporary(const Directory& directory, const std::string& temporary,
                       const std::string& name, bool replace) {
  const int dir = directory.fd.get();
  const char* from = temporary.c_str();
  const std::string where = Join(directory.path, name);
  int rc = replace ? renameat(dir, from, dir, name.c_str())
                   : renameat2(dir, from, dir, name.c_str(), RENAME_NOREPLACE);
  if (rc != 0 && !replace && (errno == EINVAL || errno == ENOSYS)) {
    // A file system without RENAME_NOREPLACE: link() is exclusive everywhere it exists. A crash
    // between the two calls leaves a second name of the same file, which ends in ".tmp".
    rc = linkat(dir, from, dir, name.c_str(), 0);
    if (rc == 0) RemoveTemporary(directory, temporary);
  }
  if (rc == 0) return {};
  const int err = errno;
  if (err == EEXIST && !replace) return Fail(Code::kConflict, "it exists already", where);
  if (err == EIO || err == ESTALE || err == ETIMEDOUT) {
    return Fail(Code::kUnknownOutcome,
                "publishing failed half-way: " + std::generic_category().message(err), where,
                "look whether it is there before anything else");
  }
  if (err == ENOENT) {
    return Fail(Code::kTransient, "the temporary file was removed by somebody else", where,
                "check that no other clean-up runs on this tree");
  }
  return Fail(ErrnoError(err, "publish", where));
}

void RemoveTemporary(const Directory& directory, const std::string& temporary) noexcept {
  unlinkat(directory.fd.get(), temporary.c_str(), 0);
}

namespace {

Time ToTime(const timespec& time) {
  return Time(std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_nsec / 1000));
}

}  // namespace

Time ModifiedTime(const struct stat& info) { return ToTime(info.st_mtim); }
Time ChangedTime(const struct stat& info) { return ToTime(info.st_ctim); }

}  // namespace lithify::storage
