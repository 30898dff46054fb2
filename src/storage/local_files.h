// System calls of LocalStore as Results: descriptors, safe walking below a root, the directory
// lock, temporaries. Only local_store.cc includes this.
//
// These are plain calls of the C library, so that the crash matrix can interpose each of them
// (tests/crash/kill_at.cc).
#ifndef LITHIFY_STORAGE_LOCAL_FILES_H_
#define LITHIFY_STORAGE_LOCAL_FILES_H_

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::storage {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close() noexcept;

 private:
  int fd_ = -1;
};

// The decision for an errno, with its text: "cannot write: no space left on device".
Error ErrnoError(int err, std::string_view doing, std::string where);

// A directory below the root, reached without following any symbolic link.
struct Directory {
  Fd fd;
  std::string path;  // For messages.
};

// Opens `relative` ("a/b", or "" for the root itself) for reading, locking and syncing. With
// `create`, makes what is missing and, with `sync`, makes each new entry durable. kNotFound if it
// is absent or something else than a directory; kDenied if a symbolic link is in the way.
Result<Directory> OpenDirectory(int root_fd, const std::string& root_path,
                                std::string_view relative, bool create, bool sync);

// An advisory exclusive lock on the directory itself, free at destruction.
//
// It is flock() on the directory's descriptor, not a lock file: a lock file has to be removed some
// day, and then two processes can each hold "the" lock on different files of one name; left in
// place, it would litter every partition that readers glob. It orders processes of one machine
// (T27): rename() alone lets two of them overwrite each other's manifest. The kernel frees it when
// a process dies, so there is no stale lock either.
class DirectoryLock {
 public:
  // kTransient after `wait`; kUnsupported where the file system has no such locks.
  static Result<DirectoryLock> Acquire(const Directory& directory, Duration wait);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

// Opens a regular file for reading, and `info` tells about it. Directories are kNotFound, links
// and devices kDenied.
Result<Fd> OpenRegular(const Directory& directory, const std::string& name, struct stat* info);
// fstatat() with the same judgement.
Status StatRegular(const Directory& directory, const std::string& name, struct stat* info);

// Fills `out` unless the file ends before; returns bytes read.
Result<int64_t> ReadFully(int fd, int64_t offset, std::span<std::byte> out,
                          const std::string& where);
Status WriteFully(int fd, int64_t offset, std::span<const std::byte> bytes,
                  const std::string& where);
// Its time of modification becomes now.
Status TouchFile(int fd, const std::string& where);
Status SyncFile(int fd, const std::string& where);
Status SyncDirectory(const Directory& directory);

// A file of its own name "<name>.<16 hexadecimal digits>.tmp" beside `name`, open for writing.
struct Temporary {
  std::string name;
  Fd fd;
};
Result<Temporary> MakeTemporary(const Directory& directory, const std::string& name);

// Gives `temporary` the name `name`. Not `replace`: only if that is free (kConflict). On any error
// but kUnknownOutcome nothing has happened.
Status RenameTemporary(const Directory& directory, const std::string& temporary,
                       const std::string& name, bool replace);
// Best effort: a left-over is found by its ".tmp" and collected once it is old (R238).
void RemoveTemporary(const Directory& directory, const std::string& temporary) noexcept;

Time ModifiedTime(const struct stat& info);
// Of the inode: nobody can set it back.
Time ChangedTime(const struct stat& info);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_LOCAL_FILES_H_
