// The audit log as files of JSON lines that several processes append to.
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <vector>

#include "observe/audit_checkpoint.h"
#include "observe/audit_line.h"
#include "observe/audit_log.h"
#include "observe/audit_posix.h"

namespace lithify::observe {
namespace {

constexpr int64_t kTailChunk = int64_t{64} * 1024;

// The end of a file: the last record, and what follows it.
struct Tail {
  bool empty = true;  // There is no record in it.
  ChainHead head;
  Time time;                            // Of the last record.
  std::optional<std::string> fragment;  // Bytes after the last record, without a last newline.
  bool fragment_ended = false;          // It has its torn mark and newline already.
};

std::unexpected<Error> FailChain(std::string why, const std::string& where) {
  return Fail(Code::kCorrupt, std::move(why), where,
              "keep the file as evidence and find out who changed it (lithify audit verify); "
              "moving it and its older parts away starts a new chain");
}

// nullopt: the last record begins before `text`.
Result<std::optional<Tail>> FindTail(std::string_view text, bool whole, const std::string& path) {
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
      if (!parsed) return FailChain(parsed.error().message, path + ": last record");
      tail.empty = false;
      tail.head = {.next_seq = parsed->record.seq + 1, .hash = parsed->record.hash};
      tail.time = parsed->record.event.time;
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

// Reads back from the end until the last record is found.
Result<Tail> ReadTail(int fd, int64_t size, const std::string& path) {
  for (int64_t span = kTailChunk;; span *= 4) {
    const int64_t from = std::max<int64_t>(0, size - span);
    LITHIFY_TRY_ASSIGN(const std::string text, ReadRange(fd, from, size, path));
    LITHIFY_TRY_ASSIGN(std::optional<Tail> tail, FindTail(text, from == 0, path));
    if (tail) return std::move(*tail);
  }
}

// The seq of the first record of a file that has one.
Result<uint64_t> ReadFirstSeq(int fd, int64_t size, const std::string& path) {
  for (int64_t span = kTailChunk;; span *= 4) {
    const int64_t to = std::min(size, span);
    LITHIFY_TRY_ASSIGN(const std::string text, ReadRange(fd, 0, to, path));
    for (size_t begin = 0; begin < text.size();) {
      const size_t newline = text.find('\n', begin);
      if (newline == std::string::npos) break;
      const std::string_view line = std::string_view(text).substr(begin, newline - begin);
      begin = newline + 1;
      if (line.ends_with(kTornMark)) continue;
      const auto parsed = ParseAuditLine(line);
      if (!parsed) return FailChain(parsed.error().message, path + ": first record");
      return parsed->record.seq;
    }
    if (to == size) return FailChain("there is no record", path);
  }
}

class FileAuditLog final : public AuditLog {
 public:
  FileAuditLog(std::string path, AuditFileOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}

  ~FileAuditLog() override {
    // What cannot be signed now is by the next that closes the log.
    if (unsigned_records_ > 0) static_cast<void>(SignEnd());
  }

  Status Append(const AuditEvent& event) override {
    const AuditEvent named = PrepareAuditEvent(event);
    for (;;) {
      LITHIFY_TRY_ASSIGN(const Descriptor fd, OpenLocked());
      LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), path_));
      LITHIFY_TRY_ASSIGN(Tail tail, ReadTail(fd.get(), size, path_));
      if (tail.empty) LITHIFY_TRY(ContinueOlder(tail));
      std::string text;
      std::string torn_hash;
      if (tail.fragment) {
        if (!tail.fragment_ended) {
          tail.fragment->append(kTornMark);
          text.append(kTornMark).append("\n");
        }
        torn_hash = Sha256Hex(*tail.fragment);
      }
      text += MakeAuditLine(named, torn_hash, tail.head);
      text += '\n';
      // A fragment is covered first, in the file that it is in.
      if (options_.max_bytes > 0 && !tail.empty && !tail.fragment &&
          size + std::ssize(text) > options_.max_bytes) {
        LITHIFY_TRY(CloseActive(fd.get(), size));
        continue;
      }
      LITHIFY_TRY(Write(fd.get(), size, text));
      return Sign(tail.head, named.time);
    }
  }

  Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail) override {
    if (torn_tail != nullptr) *torn_tail = false;
    LITHIFY_TRY_ASSIGN(const LogFiles files, OpenLogFiles(path_));
    std::vector<AuditRecord> records;
    ChainWalker walker;
    for (const std::string& part : files.older) {
      const Descriptor fd(open(part.c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.get() < 0) return FailErrno(errno, "cannot open a part of the audit log", part);
      LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), part));
      LITHIFY_TRY(ReadLines(fd.get(), size, part, walker, records));
    }
    if (files.active.get() >= 0) {
      LITHIFY_TRY(ReadLines(files.active.get(), files.active_bytes, path_, walker, records));
    }
    if (torn_tail != nullptr) *torn_tail = walker.in_fragment();
    return records;
  }

 private:
  // Opens and locks the file that `path_` names now: it may be moved away while we wait.
  Result<Descriptor> OpenLocked() {
    for (;;) {
      LITHIFY_TRY_ASSIGN(Descriptor fd, OpenToAppend(path_));
      LITHIFY_TRY(Lock(fd.get(), LOCK_EX, path_));
      LITHIFY_TRY_ASSIGN(const bool named, IsNamed(fd.get(), path_));
      if (named) return fd;
    }
  }

  // The chain of a file without a record goes on from the part before it. Under the lock.
  Status ContinueOlder(Tail& tail) {
    LITHIFY_TRY_ASSIGN(const std::vector<std::string> parts, OlderParts(path_));
    if (parts.empty()) return {};
    const std::string& last = parts.back();
    const Descriptor fd(open(last.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return FailErrno(errno, "cannot open a part of the audit log", last);
    LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), last));
    LITHIFY_TRY_ASSIGN(Tail before, ReadTail(fd.get(), size, last));
    if (before.empty || before.fragment) return FailChain("it does not end with a record", last);
    tail.head = std::move(before.head);
    return {};
  }

  // Gives the active file its name among the older parts. Under its lock: whoever waits for that
  // finds that the name is gone, and opens the next file.
  Status CloseActive(int fd, int64_t size) {
    LITHIFY_TRY_ASSIGN(const uint64_t first, ReadFirstSeq(fd, size, path_));
    const std::string part = OlderPart(path_, first);
    struct stat info{};
    if (stat(part.c_str(), &info) == 0) return FailChain("there is such a part already", part);
    if (std::rename(path_.c_str(), part.c_str()) != 0) {
      return FailErrno(errno, "cannot rename the audit log", path_);
    }
    return SyncDirectory(DirectoryOf(path_));
  }

  // One write for the line. What a failed one left goes away again, so that a full disk leaves no
  // fragment; where that fails too, the next append repairs it.
  Status Write(int fd, int64_t size, const std::string& text) {
    if (Status written = WriteAll(fd, text, path_); !written) {
      [[maybe_unused]] const int undone = ftruncate(fd, size);
      return written;
    }
    if (fsync(fd) != 0) return FailErrno(errno, "cannot sync the audit log", path_);
    // An empty file may be new: its name must survive a crash too.
    if (size == 0) LITHIFY_TRY(SyncDirectory(DirectoryOf(path_)));
    return {};
  }

  // After a record, if it is time. Under the lock of the log, so that checkpoints are in order.
  Status Sign(const ChainHead& head, Time time) {
    if (options_.signer == nullptr) return {};
    const std::lock_guard lock(mutex_);
    if (unsigned_records_++ == 0) unsigned_since_ = time;
    const bool due = head.next_seq % options_.checkpoint_records == 0 ||
                     unsigned_records_ >= options_.checkpoint_records ||
                     time - unsigned_since_ >= options_.checkpoint_age;
    if (!due) return {};
    LITHIFY_TRY(WriteCheckpoint(head, time));
    unsigned_records_ = 0;
    return {};
  }

  Status SignEnd() {
    LITHIFY_TRY_ASSIGN(const Descriptor fd, OpenLocked());
    LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), path_));
    LITHIFY_TRY_ASSIGN(const Tail tail, ReadTail(fd.get(), size, path_));
    // Without a record it has just been begun: whoever did that signs.
    if (tail.empty) return {};
    return WriteCheckpoint(tail.head, tail.time);
  }

  Status WriteCheckpoint(const ChainHead& head, Time time) {
    const std::string file = CheckpointFile(path_);
    LITHIFY_TRY_ASSIGN(const Descriptor fd, OpenToAppend(file));
    LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), file));
    LITHIFY_TRY_ASSIGN(const std::string last,
                       ReadRange(fd.get(), std::max<int64_t>(0, size - 1), size, file));
    std::string text = CheckpointLine(options_.signer->Sign(head.next_seq - 1, head.hash, time));
    text += '\n';
    if (!last.empty() && last != "\n") text.insert(0, 1, '\n');  // A process died here.
    if (Status written = WriteAll(fd.get(), text, file); !written) {
      [[maybe_unused]] const int undone = ftruncate(fd.get(), size);
      return written;
    }
    if (fsync(fd.get()) != 0) return FailErrno(errno, "cannot sync the checkpoints", file);
    if (size == 0) LITHIFY_TRY(SyncDirectory(DirectoryOf(file)));
    return {};
  }

  static Status ReadLines(int fd, int64_t size, const std::string& path, ChainWalker& walker,
                          std::vector<AuditRecord>& records) {
    LogLines lines(fd, size, path);
    for (;;) {
      LITHIFY_TRY_ASSIGN(const bool more, lines.Next());
      if (!more) return {};
      auto record = walker.Line(lines.line(), lines.ended());
      if (!record) {
        return FailChain(std::move(record.error().what),
                         path + ": line " + std::to_string(lines.number()));
      }
      if (*record) records.push_back(std::move(**record));
    }
  }

  const std::string path_;
  const AuditFileOptions options_;
  std::mutex mutex_;
  uint64_t unsigned_records_ = 0;
  Time unsigned_since_;
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

std::unique_ptr<AuditLog> OpenFileAuditLog(std::string path, AuditFileOptions options) {
  return std::make_unique<FileAuditLog>(std::move(path), std::move(options));
}

}  // namespace lithify::observe
