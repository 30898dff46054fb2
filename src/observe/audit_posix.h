// The file system, as the audit log uses it, and the files that one log is made of. Private to this
// module.
#ifndef LITHIFY_OBSERVE_AUDIT_POSIX_H_
#define LITHIFY_OBSERVE_AUDIT_POSIX_H_

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lithify::observe {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<Error> FailErrno(int error, std::string_view doing, const std::string& path);

std::string DirectoryOf(const std::string& path);
Status SyncDirectory(const std::string& path);
// Like `mkdir -p`, each new directory made durable in its parent.
Status MakeDirectories(const std::string& path);

// flock(); waits.
Status Lock(int fd, int operation, const std::string& path);
// Whether `path` is the name of what `fd` has open.
Result<bool> IsNamed(int fd, const std::string& path);

Result<int64_t> SizeOf(int fd, const std::string& path);
// Shorter where the file is.
Result<std::string> ReadRange(int fd, int64_t from, int64_t to, const std::string& path);
Status WriteAll(int fd, std::string_view bytes, const std::string& path);

// The lines of a file, in pieces: a log may be larger than the memory.
class LogLines {
 public:
  // The first `bytes` of it.
  LogLines(int fd, int64_t bytes, const std::string& path) : fd_(fd), bytes_(bytes), path_(path) {}
  // The next line; false: there is none.
  Result<bool> Next();
  std::string_view line() const { return line_; }  // Without its newline; until Next().
  bool ended() const { return ended_; }            // It has one.
  int64_t number() const { return number_; }       // From 1.
  int64_t read() const { return read_; }           // Bytes that were taken from the file.

 private:
  const int fd_;
  const int64_t bytes_;
  const std::string& path_;
  std::string buffer_;
  size_t at_ = 0;  // Of what is left of the buffer.
  std::string_view line_;
  bool ended_ = false;
  int64_t number_ = 0;
  int64_t read_ = 0;
};

// Opens for appending, with the directories above it if need be.
Result<Descriptor> OpenToAppend(const std::string& path);

// A log that became too large goes on in a new file: "<log>.<20 digits>" are its older parts, named
// by the seq of their first record; "<log>" is the one that is written.
std::string OlderPart(const std::string& path, uint64_t first_seq);
// In order; empty if there are none.
Result<std::vector<std::string>> OlderParts(const std::string& path);
// Of an older part's name.
uint64_t FirstSeqOf(const std::string& part);

// The files of a log at one moment, oldest first.
struct LogFiles {
  std::vector<std::string> older;
  Descriptor active{-1};  // -1: there is none.
  int64_t active_bytes = 0;
};
// While no process is in the middle of an append. What comes later is not seen.
Result<LogFiles> OpenLogFiles(const std::string& path);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_POSIX_H_
