#include "observe/audit_posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace lithify::observe {
namespace {

constexpr size_t kSeqDigits = 20;

bool IsSeq(std::string_view text) {
  return text.size() == kSeqDigits &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::unexpected<Error> FailErrno(int error, std::string_view doing, const std::string& path) {
  const std::string message = std::string(doing) + ": " + std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return Fail(Code::kLimit, message, path, "free space for the audit log");
    case EACCES:
    case EPERM:
    case EROFS:
      return Fail(Code::kDenied, message, path,
                  "allow writing there, or set audit_log.path to a place that can be written");
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Fail(Code::kInvalid, message, path, "set audit_log.path to a file in a directory");
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
      return Fail(Code::kUnsupported, message, path,
                  "set audit_log.path to a local file system, which can lock files");
    default: return Fail(Code::kTransient, message, path);
  }
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SyncDirectory(const std::string& path) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FailErrno(errno, "cannot open the directory", path);
  if (fsync(fd.get()) != 0) return FailErrno(errno, "cannot sync the directory", path);
  return {};
}

Status MakeDirectories(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return SyncDirectory(DirectoryOf(path));
  if (errno == EEXIST) return {};
  if (errno != ENOENT || path == DirectoryOf(path)) {
    return FailErrno(errno, "cannot create the directory", path);
  }
  LITHIFY_TRY(MakeDirectories(DirectoryOf(path)));
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return FailErrno(errno, "cannot create the directory", path);
  }
  return SyncDirectory(DirectoryOf(path));
}

Status Lock(int fd, int operation, const std::string& path) {
  while (flock(fd, operation) != 0) {
    if (errno != EINTR) return FailErrno(errno, "cannot lock the audit log", path);
  }
  return {};
}

Result<std::string> ReadRange(int fd, int64_t from, int64_t to, const std::string& path) {
  std::string bytes(static_cast<size_t>(to - from), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(from + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(errno, "cannot read the audit log", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FailErrno(errno, "cannot append to the audit log", path);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

Result<bool> IsNamed(int fd, const std::string& path) {
  struct stat opened{};
  struct stat named{};
  if (fstat(fd, &opened) != 0) return FailErrno(errno, "cannot stat the audit log", path);
  return stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

Result<int64_t> SizeOf(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return FailErrno(errno, "cannot stat the audit log", path);
  return info.st_size;
}

Result<bool> LogLines::Next() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  size_t searched = at_;
  size_t newline = buffer_.find('\n', searched);
  while (newline == std::string::npos && read_ < bytes_) {
    searched = buffer_.size() - at_;
    buffer_.erase(0, at_);
    at_ = 0;
    LITHIFY_TRY_ASSIGN(const std::string piece,
                       ReadRange(fd_, read_, std::min(bytes_, read_ + kPiece), path_));
    if (piece.empty()) break;
    buffer_ += piece;
    read_ += std::ssize(piece);
    newline = buffer_.find('\n', searched);
  }
  if (at_ == buffer_.size()) return false;
  ended_ = newline != std::string::npos;
  const size_t end = ended_ ? newline : buffer_.size();
  line_ = std::string_view(buffer_).substr(at_, end - at_);
  at_ = ended_ ? end + 1 : end;
  ++number_;
  return true;
}

Result<Descriptor> OpenToAppend(const std::string& path) {
  const auto open_it = [&] {
    return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  };
  int raw = open_it();
  if (raw < 0 && errno == ENOENT) {
    LITHIFY_TRY(MakeDirectories(DirectoryOf(path)));
    raw = open_it();
  }
  if (raw < 0) return FailErrno(errno, "cannot open the audit log", path);
  return Descriptor(raw);
}

std::string OlderPart(const std::string& path, uint64_t first_seq) {
  const std::string digits = std::to_string(first_seq);
  return path + "." + std::string(kSeqDigits - digits.size(), '0') + digits;
}

uint64_t FirstSeqOf(const std::string& part) {
  uint64_t seq = 0;
  const char* const end = part.data() + part.size();
  std::from_chars(end - kSeqDigits, end, seq);
  return seq;
}

Result<std::vector<std::string>> OlderParts(const std::string& path) {
  const std::string directory = DirectoryOf(path);
  const std::string prefix = path.substr(path.find_last_of('/') + 1) + ".";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  std::vector<std::string> parts;
  if (dir == nullptr && errno == ENOENT) return parts;
  if (dir == nullptr) return FailErrno(errno, "cannot list the directory", directory);
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(dir.get());  // NOLINT(concurrency-mt-unsafe): a stream of ours.
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || !IsSeq(name.substr(prefix.size()))) continue;
    parts.push_back(path + "." + std::string(name.substr(prefix.size())));
  }
  if (errno != 0) return FailErrno(errno, "cannot list the directory", directory);
  std::ranges::sort(parts);
  return parts;
}

Result<LogFiles> OpenLogFiles(const std::string& path) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    LogFiles files;
    const int raw = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (raw < 0 && errno != ENOENT) return FailErrno(errno, "cannot open the audit log", path);
    files.active = Descriptor(raw);
    if (files.active.get() < 0) {
      // None yet, or one process is between renaming the old and making the new one: then what is
      // listed might miss a part.
      LITHIFY_TRY_ASSIGN(files.older, OlderParts(path));
      LITHIFY_TRY_ASSIGN(const auto again, OlderParts(path));
      if (files.older == again) return files;
      continue;
    }
    // Shared: nobody appends, so nobody makes an older part of it.
    LITHIFY_TRY(Lock(files.active.get(), LOCK_SH, path));
    LITHIFY_TRY_ASSIGN(const bool named, IsNamed(files.active.get(), path));
    if (!named) continue;
    LITHIFY_TRY_ASSIGN(files.older, OlderParts(path));
    LITHIFY_TRY_ASSIGN(files.active_bytes, SizeOf(files.active.get(), path));
    LITHIFY_TRY(Lock(files.active.get(), LOCK_UN, path));
    return files;
  }
  return Fail(Code::kTransient, "the audit log is replaced all the time", path);
}

}  // namespace lithify::observe
