// The audit log as a file of JSON lines that several processes append to.
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "observe/audit_line.h"
#include "observe/audit_log.h"

namespace lithify::observe {
namespace {

constexpr size_t kTailChunk = 64 * 1024;

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

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

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

// Like `mkdir -p`, each new directory made durable in its parent.
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

// The end of the file: the last record, and what follows it.
struct Tail {
  ChainHead head;
  std::optional<std::string> fragment;  // Bytes after the last record, without a last newline.
  bool fragment_ended = false;          // It has its torn mark and newline already.
};

std::unexpected<Error> FailChain(std::string why, const std::string& where) {
  return Fail(Code::kCorrupt, std::move(why), where,
              "keep the file as evidence and find out who changed it; moving it away starts a "
              "new chain");
}

class FileAuditLog final : public AuditLog {
 public:
  explicit FileAuditLog(std::string path) : path_(std::move(path)) {}

  Status Append(const AuditEvent& event) override {
    LITHIFY_TRY_ASSIGN(const Descriptor fd, OpenLocked());
    struct stat info{};
    if (fstat(fd.get(), &info) != 0) return FailErrno(errno, "cannot stat the audit log", path_);
    const int64_t size = info.st_size;
    LITHIFY_TRY_ASSIGN(Tail tail, ReadTail(fd.get(), size));

    std::string text;
    std::string torn_hash;
    if (tail.fragment) {
      if (!tail.fragment_ended) {
        tail.fragment->append(kTornMark);
        text.append(kTornMark).append("\n");
      }
      torn_hash = Sha256Hex(*tail.fragment);
    }
    const AuditEvent named = PrepareAuditEvent(event);
    text += MakeAuditLine(named, torn_hash, tail.head);
    text += '\n';

    // One write for the line. What a failed one left goes away again, so that a full disk leaves
    // no fragment; where that fails too, the next append repairs it.
    if (Status written = WriteAll(fd.get(), text, path_); !written) {
      [[maybe_unused]] const int undone = ftruncate(fd.get(), size);
      return written;
    }
    if (fsync(fd.get()) != 0) return FailErrno(errno, "cannot sync the audit log", path_);
    // An empty file may be new: its name must survive a crash too.
    if (size == 0) LITHIFY_TRY(SyncDirectory(DirectoryOf(path_)));
    return {};
  }

  Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail) override {
    if (torn_tail != nullptr) *torn_tail = false;
    const Descriptor fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0 && errno == ENOENT) return std::vector<AuditRecord>{};
    if (fd.get() < 0) return FailErrno(errno, "cannot open the audit log", path_);
    // Shared: no half-written line of a living process is seen.
    LITHIFY_TRY(Lock(fd.get(), LOCK_SH, path_));
    struct stat info{};
    if (fstat(fd.get(), &info) != 0) return FailErrno(errno, "cannot stat the audit log", path_);
    LITHIFY_TRY_ASSIGN(const std::string text, ReadRange(fd.get(), 0, info.st_size, path_));
    return ReadLines(text, torn_tail);
  }

 private:
  // Opens and locks the file that `path_` names now: it may be moved away while we wait.
  Result<Descriptor> OpenLocked() {
    for (;;) {
      int raw = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      if (raw < 0 && errno == ENOENT) {
        LITHIFY_TRY(MakeDirectories(DirectoryOf(path_)));
        raw = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      }
      if (raw < 0) return FailErrno(errno, "cannot open the audit log", path_);
      Descriptor fd(raw);
      LITHIFY_TRY(Lock(fd.get(), LOCK_EX, path_));
      struct stat opened{};
      struct stat named{};
      if (fstat(fd.get(), &opened) != 0) {
        return FailErrno(errno, "cannot stat the audit log", path_);
      }
      if (stat(path_.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
          named.st_dev == opened.st_dev) {
        return fd;
      }
    }
  }

  // Reads back from the end until the last record is found.
  Result<Tail> ReadTail(int fd, int64_t size) {
    int64_t span = static_cast<int64_t>(kTailChunk);
    for (;; span *= 4) {
      const int64_t from = std::max<int64_t>(0, size - span);
      LITHIFY_TRY_ASSIGN(const std::string text, ReadRange(fd, from, size, path_));
      LITHIFY_TRY_ASSIGN(std::optional<Tail> tail, FindTail(text, from == 0));
      if (tail) return std::move(*tail);
    }
  }

  // nullopt: the last record begins before `text`.
  Result<std::optional<Tail>> FindTail(std::string_view text, bool whole) {
    Tail tail;
    size_t end = text.size();  // Lines at and after it are fragments.
    const bool ended = text.empty() || text.back() == '\n';
    if (!ended) end = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
    while (end > 0) {
      const size_t before = text.substr(0, end - 1).rfind('\n');
      if (before == std::string_view::npos && !whole) return std::nullopt;
      const size_t begin = before == std::string_view::npos ? 0 : before + 1;
      const std::string_view line = text.substr(begin, end - 1 - begin);
      if (!line.ends_with(kTornMark)) {
        auto parsed = ParseAuditLine(line);
        if (!parsed) return FailChain(parsed.error().message, path_ + ": last record");
        tail.head = {.next_seq = parsed->record.seq + 1, .hash = parsed->record.hash};
        break;
      }
      end = begin;
    }
    if (end == 0 && !whole) return std::nullopt;
    if (end < text.size()) {
      tail.fragment = std::string(text.substr(end));
      tail.fragment_ended = ended;
      if (ended) tail.fragment->pop_back();
    }
    return tail;
  }

  Result<std::vector<AuditRecord>> ReadLines(std::string_view text, bool* torn_tail) {
    std::vector<AuditRecord> records;
    ChainHead head;
    std::optional<std::string> fragment;
    size_t begin = 0;
    for (int64_t number = 1; begin < text.size(); ++number) {
      const size_t newline = text.find('\n', begin);
      const bool ended = newline != std::string_view::npos;
      const std::string_view line = text.substr(begin, ended ? newline - begin : newline);
      begin = ended ? newline + 1 : text.size();
      if (!ended || line.ends_with(kTornMark)) {
        if (fragment) {
          fragment->append("\n").append(line);
        } else {
          fragment = std::string(line);
        }
        continue;
      }
      const std::string where = path_ + ": line " + std::to_string(number);
      auto parsed = ParseAuditLine(line);
      if (!parsed) return FailChain(parsed.error().message, where);
      if (Status chained = Continue(*parsed, fragment, head); !chained) {
        return FailChain(chained.error().message, where);
      }
      fragment.reset();
      records.push_back(std::move(parsed->record));
    }
    if (torn_tail != nullptr) *torn_tail = fragment.has_value();
    return records;
  }

  const std::string path_;
};

}  // namespace

std::string UserOfThisProcess() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_name;
  }
  return "uid-" + std::to_string(geteuid());
}

std::unique_ptr<AuditLog> OpenFileAuditLog(std::string path) {
  return std::make_unique<FileAuditLog>(std::move(path));
}

}  // namespace lithify::observe
