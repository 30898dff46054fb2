// Bytes that wait on a local disk until they are needed again: files without a name in one
// directory, which vanish with the process however it ends, and which together never grow over a
// bound.
//
// Thread safety: a directory is thread-safe, a file is one thread's at a time, but for Read() and
// WillRead(), which any number of threads may call once all is appended.
#ifndef LITHIFY_SORT_SPILL_H_
#define LITHIFY_SORT_SPILL_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace lithify::sort {

class SpillFile {
 public:
  virtual ~SpillFile() = default;  // Gives its bytes back.
  // Returns the offset that `bytes` begin at. After an error the file is as it was before. kLimit:
  // the directory's bound, the process's bound on files, or the disk is full; the message tells
  // which and how much is held, the hint what to set. kTransient: the disk failed.
  virtual Result<int64_t> Append(std::span<const uint8_t> bytes) = 0;
  // kCorrupt if the file has not so many bytes there. What a disk lost after it had taken it is not
  // noticed here: whoever cannot bear that checks sums.
  virtual Status Read(int64_t offset, std::span<uint8_t> into) const = 0;
  // These bytes are read soon: the system may fetch them meanwhile.
  virtual void WillRead(int64_t offset, int64_t bytes) const = 0;
  virtual int64_t size() const = 0;
};

// What is asked of the system, for tests that have it fail. Thread-safe. As the calls of the C
// library: -1 and errno.
class SpillSystem {
 public:
  virtual ~SpillSystem() = default;
  virtual int OpenUnnamed(int directory);
  virtual int OpenNamed(int directory, const char* name);
  virtual ssize_t Write(int fd, const void* bytes, size_t size, int64_t offset);
  virtual ssize_t Read(int fd, void* into, size_t size, int64_t offset);
};

class SpillDirectory {
 public:
  // `path` is made if it is not there, with what is missing above it, for this user alone. It must
  // be a directory of this user's that nobody else may write to, and no symbolic link; what is
  // above it is not looked at, and nothing below `path` is ever followed. `bytes_max` 0: no bound
  // but the disk's. kInvalid, kDenied with the path. `system` null: the real one.
  static Result<std::shared_ptr<SpillDirectory>> Open(const std::string& path, int64_t bytes_max,
                                                      SpillSystem* system = nullptr);
  virtual ~SpillDirectory() = default;
  // kLimit: no more open files, or a full disk; kDenied, kInvalid: the directory is not what it
  // was. A file may outlive the directory.
  virtual Result<std::unique_ptr<SpillFile>> Create() = 0;
  virtual int64_t bytes() const = 0;       // Held now, in all files.
  virtual int64_t bytes_most() const = 0;  // Ever held at a time.
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_SPILL_H_
