#include "storage/local_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include "storage/local_files.h"
#include "storage/local_stream.h"
#include "storage/object_version.h"

namespace lithify::storage {
namespace {

// A key's directory, opened, and its name in it.
struct Place {
  Directory directory;
  std::string name;
  std::string path() const { return directory.path + "/" + name; }
};

ObjectInfo InfoOf(std::string key, const struct stat& info) {
  return {.key = std::move(key),
          .size = info.st_size,
          .modified = ModifiedTime(info),
          .changed = ChangedTime(info)};
}

class LocalReader final : public Reader {
 public:
  LocalReader(Fd fd, int64_t size, std::string where)
      : fd_(std::move(fd)), size_(size), where_(std::move(where)) {}

  int64_t size() const override { return size_; }

  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    if (offset < 0) return Fail(Code::kInvalid, "negative offset", where_);
    if (offset >= size_) return 0;
    out = out.first(
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(out.size()), size_ - offset)));
    LITHIFY_TRY_ASSIGN(const int64_t got, ReadFully(fd_.get(), offset, out, where_));
    if (got < static_cast<int64_t>(out.size())) {
      return Fail(Code::kCorrupt,
                  "it had " + std::to_string(size_) + " bytes when it was opened and now ends at " +
                      std::to_string(offset + got),
                  where_, "find out what cuts files short in place; nothing may do that here");
    }
    return got;
  }

 private:
  Fd fd_;
  int64_t size_;
  std::string where_;
};

class LocalWriter final : public Writer {
 public:
  LocalWriter(Place place, Temporary temporary, const LocalStoreOptions& options)
      : place_(std::move(place)),
        temporary_(std::move(temporary)),
        sync_(options.sync),
        stream_(temporary_.fd.get(), place_.path(), ModeOf(options)) {}
  ~LocalWriter() override { Discard(); }

  int64_t size() const override { return stream_.size(); }

  Status Append(std::span<const std::byte> bytes) override {
    LITHIFY_TRY(CheckOpen());
    return Keep(stream_.Append(bytes));
  }

  Status Flush() override {
    LITHIFY_TRY(CheckOpen());
    return Keep(stream_.Finish());
  }

  // No directory lock: RENAME_NOREPLACE alone decides who comes first, and a PutIf of this key
  // that runs meanwhile sees either no object or ours.
  Status Publish() override {
    LITHIFY_TRY(CheckOpen());
    LITHIFY_TRY(Keep(stream_.Finish()));
    // An output may wait long for its siblings: its grace counts from when it becomes visible.
    LITHIFY_TRY(Keep(TouchFile(temporary_.fd.get(), place_.path())));
    if (sync_) LITHIFY_TRY(Keep(SyncFile(temporary_.fd.get(), place_.path())));
    Status renamed = RenameTemporary(place_.directory, temporary_.name, place_.name, false);
    if (!renamed) {
      // With an unknown outcome the bytes stay, under whichever name.
      if (renamed.error().code == Code::kUnknownOutcome) Close();
      failure_ = renamed.error();
      return renamed;
    }
    Close();
    if (!sync_) return {};
    return SyncedOrUnknown(place_);
  }

  void Discard() noexcept override {
    if (!temporary_.fd.valid()) return;
    RemoveTemporary(place_.directory, temporary_.name);
    Close();
  }

  // The name is visible; without the directory's fsync a power loss may still take it back.
  static Status SyncedOrUnknown(const Place& place) {
    Status synced = SyncDirectory(place.directory);
    if (synced) return {};
    Error error = synced.error();
    error.code = Code::kUnknownOutcome;
    error.context = place.path();
    error.message = "it was published, but " + error.message;
    error.hint = "it may be gone after a power loss: check the disk, then look for it again";
    return Fail(std::move(error));
  }

 private:
  static LocalStream::Mode ModeOf(const LocalStoreOptions& options) {
    if (!options.sync) return LocalStream::Mode::kCached;
    return options.direct ? LocalStream::Mode::kDirect : LocalStream::Mode::kWriteBack;
  }

  // The first error is the last: no other call succeeds.
  Status Keep(Status status) {
    if (!status) failure_ = status.error();
    return status;
  }

  Status CheckOpen() const {
    if (failure_) return Fail(*failure_);
    if (!temporary_.fd.valid()) {
      return Fail(Code::kInternal, "the writer is closed already", place_.path());
    }
    return {};
  }

  // Its number may be another file's in a moment: nobody may be writing to it by then.
  void Close() noexcept {
    stream_.Abandon();
    temporary_.fd.Close();
  }

  Place place_;
  Temporary temporary_;
  const bool sync_;
  std::optional<Error> failure_;
  LocalStream stream_;
};

class LocalStore final : public Store {
 public:
  LocalStore(Fd root_fd, std::string root, LocalStoreOptions options)
      : root_fd_(std::move(root_fd)), root_(std::move(root)), options_(options) {}

  Result<ObjectInfo> Stat(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(const Place place, Find(key, false));
    struct stat info{};
    LITHIFY_TRY(StatRegular(place.directory, place.name, &info));
    return InfoOf(key, info);
  }

  Result<Blob> Get(const std::string& key, int64_t max_bytes) override {
    LITHIFY_TRY_ASSIGN(const Place place, Find(key, false));
    struct stat info{};
    LITHIFY_TRY_ASSIGN(const Fd fd, OpenRegular(place.directory, place.name, &info));
    if (info.st_size > max_bytes) {
      return Fail(Code::kLimit,
                  "it has " + std::to_string(info.st_size) + " bytes; at most " +
                      std::to_string(max_bytes) + " are read",
                  place.path());
    }
    return ReadBlob(fd.get(), info.st_size, place.path());
  }

  Result<std::unique_ptr<Reader>> Open(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(const Place place, Find(key, false));
    struct stat info{};
    LITHIFY_TRY_ASSIGN(Fd fd, OpenRegular(place.directory, place.name, &info));
    return std::make_unique<LocalReader>(std::move(fd), info.st_size, place.path());
  }

  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override;

  Status PutNew(const std::string& key, std::string_view bytes) override {
    LITHIFY_TRY_ASSIGN(const Place place, Find(key, true));
    LITHIFY_TRY_ASSIGN(const DirectoryLock lock,
                       DirectoryLock::Acquire(place.directory, options_.lock_wait));
    struct stat info{};
    if (fstatat(place.directory.fd.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      return Fail(Code::kConflict, "it exists already", place.path());
    }
    return Put(place, bytes, false);
  }

  Status PutIf(const std::string& key, std::string_view bytes,
               const std::string& version) override {
    auto found = Find(key, false);
    if (!found) return AbsentIsConflict(std::move(found.error()));
    const Place& place = *found;
    // Between the check and the rename nobody else may come: PutNew, PutIf and Remove all take it.
    LITHIFY_TRY_ASSIGN(const DirectoryLock lock,
                       DirectoryLock::Acquire(place.directory, options_.lock_wait));
    struct stat info{};
    const auto fd = OpenRegular(place.directory, place.name, &info);
    if (!fd) return AbsentIsConflict(fd.error());
    const auto changed = [&] {
      return Fail(Code::kConflict, "somebody else changed it meanwhile", place.path());
    };
    if (!VersionMayHaveSize(version, info.st_size)) return changed();
    LITHIFY_TRY_ASSIGN(const Blob current, ReadBlob(fd->get(), info.st_size, place.path()));
    if (current.version != version) return changed();
    return Put(place, bytes, true);
  }

  Result<std::unique_ptr<Writer>> Create(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(Place place, Find(key, true));
    LITHIFY_TRY_ASSIGN(Temporary temporary, MakeTemporary(place.directory, place.name));
    return std::make_unique<LocalWriter>(std::move(place), std::move(temporary), options_);
  }

  // The directory is not fsynced. A removed object that comes back after a power loss is harmless:
  // only retired or never published files are removed, no manifest names them, and the next
  // collection finds them again.
  Status Remove(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(const Place place, Find(key, false));
    const auto lock = DirectoryLock::Acquire(place.directory, options_.lock_wait);
    // Without locks there is no PutIf that this could disturb.
    if (!lock && lock.error().code != Code::kUnsupported) return Fail(lock.error());
    struct stat info{};
    LITHIFY_TRY(StatRegular(place.directory, place.name, &info));
    if (unlinkat(place.directory.fd.get(), place.name.c_str(), 0) != 0) {
      return Fail(ErrnoError(errno, "remove", place.path()));
    }
    return {};
  }

  bool small_reads_are_cheap() const override { return true; }
  int64_t writer_buffer_bytes() const override { return LocalStream::kMemoryBytes; }
  std::string Describe() const override { return root_; }

 private:
  // Gives what lies immediately below `prefix`.
  Status ListDirectory(const std::string& prefix, const std::function<Status(ObjectInfo)>& give);

  Result<Place> Find(const std::string& key, bool create) {
    LITHIFY_TRY(CheckKey(key));
    const size_t slash = key.rfind('/');
    const std::string_view parent =
        slash == std::string::npos ? std::string_view() : std::string_view(key).substr(0, slash);
    LITHIFY_TRY_ASSIGN(Directory directory,
                       OpenDirectory(root_fd_.get(), root_, parent, create, options_.sync));
    return Place{std::move(directory), key.substr(slash == std::string::npos ? 0 : slash + 1)};
  }

  static Status AbsentIsConflict(Error error) {
    if (error.code == Code::kNotFound) {
      error.code = Code::kConflict;
      error.message = "it does not exist (any more)";
    }
    return Fail(std::move(error));
  }

  static Result<Blob> ReadBlob(int fd, int64_t size, const std::string& where) {
    Blob blob;
    blob.bytes.resize(static_cast<size_t>(size));
    LITHIFY_TRY_ASSIGN(const int64_t got,
                       ReadFully(fd, 0, std::as_writable_bytes(std::span(blob.bytes)), where));
    blob.bytes.resize(static_cast<size_t>(got));
    blob.version = VersionOf(blob.bytes);
    return blob;
  }

  Status Put(const Place& place, std::string_view bytes, bool replace) {
    LITHIFY_TRY_ASSIGN(Temporary temporary, MakeTemporary(place.directory, place.name));
    const std::string where = place.path();
    Status done = WriteFully(temporary.fd.get(), 0, std::as_bytes(std::span(bytes)), where);
    if (done && options_.sync) done = SyncFile(temporary.fd.get(), where);
    if (done) done = RenameTemporary(place.directory, temporary.name, place.name, replace);
    if (!done) {
      if (done.error().code != Code::kUnknownOutcome) {
        RemoveTemporary(place.directory, temporary.name);
      }
      return done;
    }
    if (!options_.sync) return {};
    return LocalWriter::SyncedOrUnknown(place);
  }

  Fd root_fd_;
  std::string root_;
  const LocalStoreOptions options_;
};

Status LocalStore::ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) {
  LITHIFY_TRY(CheckPrefix(prefix));
  std::vector<ObjectInfo> page;
  std::vector<std::string> pending = {prefix};
  while (!pending.empty()) {
    const std::string below = std::move(pending.back());
    pending.pop_back();
    LITHIFY_TRY(ListDirectory(below, [&](ObjectInfo info) -> Status {
      if (depth == ListDepth::kAll && info.key.ends_with('/')) {
        pending.push_back(std::move(info.key));
        return {};
      }
      page.push_back(std::move(info));
      if (page.size() < kListPage) return {};
      return visit(std::exchange(page, {}));
    }));
  }
  return page.empty() ? Status() : visit(std::move(page));
}

Status LocalStore::ListDirectory(const std::string& prefix,
                                 const std::function<Status(ObjectInfo)>& give) {
  const std::string_view relative =
      std::string_view(prefix).substr(0, prefix.empty() ? 0 : prefix.size() - 1);
  auto directory = OpenDirectory(root_fd_.get(), root_, relative, false, false);
  if (!directory) {
    if (directory.error().code == Code::kNotFound) return {};
    return Fail(std::move(directory.error()));
  }
  const std::string path = directory->path;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(directory->fd.get()), closedir);
  if (!stream) return Fail(ErrnoError(errno, "list", path));
  const int fd = directory->fd.Release();  // Owned by the stream now.
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return Fail(ErrnoError(errno, "list", path));
      return {};
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (entry->d_type == DT_DIR) {
      LITHIFY_TRY(give({prefix + name + "/", 0, {}}));
      continue;
    }
    struct stat info{};
    if (fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // Removed since readdir() saw it.
      return Fail(ErrnoError(errno, "stat", path + "/" + name));
    }
    if (S_ISDIR(info.st_mode)) {
      LITHIFY_TRY(give({prefix + name + "/", 0, {}}));
    } else if (S_ISREG(info.st_mode)) {
      LITHIFY_TRY(give(InfoOf(prefix + name, info)));
    } else {
      LITHIFY_TRY(give({.key = prefix + name, .size = 0, .modified = {}, .regular = false}));
    }
  }
}

}  // namespace

Result<std::unique_ptr<Store>> OpenLocalStore(std::string root, LocalStoreOptions options) {
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  Fd fd(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int err = errno;
    if (err == ENOENT) {
      return Fail(Code::kNotFound, "no such directory", root, "check the path, or create it");
    }
    if (err == ENOTDIR) {
      return Fail(Code::kInvalid, "not a directory", root, "name the directory of the tree");
    }
    return Fail(ErrnoError(err, "open directory", root));
  }
  return std::make_unique<LocalStore>(std::move(fd), std::move(root), options);
}

}  // namespace lithify::storage
