// Bytes that wait on a local disk until they are needed again: files without a name in one
// directory, which vanish with the process however it ends, and which together never grow over a
// bound.
//
// Thread safety: a directory is thread-safe, a file is one thread's at a time, but for Read(),
// which any number of threads may call once all is appended.
#ifndef LITHIFY_SORT_SPILL_H_
#define LITHIFY_SORT_SPILL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace lithify::sort {

class SpillFile {
 public:
  virtual ~SpillFile() = default;  // Gives its bytes back.
  // Returns the offset that `bytes` begin at. kLimit: the directory's bound, or the disk is full;
  // the message tells which, how much is held, and what to set.
  virtual Result<int64_t> Append(std::span<const uint8_t> bytes) = 0;
  // kCorrupt if the file has not so many bytes there.
  virtual Status Read(int64_t offset, std::span<uint8_t> into) const = 0;
  virtual int64_t size() const = 0;
};

class SpillDirectory {
 public:
  // `path` is made if it is not there, and must be a directory of this user's that nobody else may
  // write to; `bytes_max` 0: no bound but the disk's. kInvalid, kDenied with the path.
  static Result<std::shared_ptr<SpillDirectory>> Open(const std::string& path, int64_t bytes_max);
  virtual ~SpillDirectory() = default;
  virtual Result<std::unique_ptr<SpillFile>> Create() = 0;
  virtual int64_t bytes() const = 0;       // Held now, in all files.
  virtual int64_t bytes_most() const = 0;  // Ever held at a time.
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_SPILL_H_
