#include "sort/spill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/random.h"
#include "base/text.h"

namespace lithify::sort {
namespace {

constexpr std::string_view kNamed = ".lithify-spill-";
// Linux moves at most 2 GiB less a page by one call; so much is short enough to be stopped.
constexpr size_t kCallBytesMax = size_t{64} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string Reason(int err) { return std::generic_category().message(err); }

// The decision for an errno, and what to do.
std::pair<Code, std::string> Judge(int err) {
  switch (err) {
    case ENOSPC: return {Code::kLimit, "free some space there, or spill to a larger disk"};
    case EDQUOT: return {Code::kLimit, "raise the quota, or spill to another disk"};
    case EFBIG:
      return {Code::kLimit,
              "raise the largest file size of the process (ulimit -f) or of the disk"};
    case EMFILE:
    case ENFILE: return {Code::kLimit, "raise the limit of open files (ulimit -n)"};
    case EACCES:
    case EPERM:
    case EROFS: return {Code::kDenied, "spill to a directory that this user may write to"};
    case ENOENT:
    case ENOTDIR: return {Code::kInvalid, "make the directory again, or spill to another one"};
    case EIO: return {Code::kTransient, "look for disk errors in the kernel log"};
    default: return {Code::kTransient, "spill to another directory"};
  }
}

std::unexpected<Error> Failed(int err, const std::string& doing, const std::string& path) {
  auto [code, hint] = Judge(err);
  return Fail(code, "cannot " + doing + ": " + Reason(err), path, std::move(hint));
}

class Directory;

class File final : public SpillFile {
 public:
  File(std::shared_ptr<Directory> directory, Descriptor fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() override;

  Result<int64_t> Append(std::span<const uint8_t> bytes) override;
  Status Read(int64_t offset, std::span<uint8_t> into) const override;
  void WillRead(int64_t offset, int64_t bytes) const override;
  int64_t size() const override { return size_; }

 private:
  std::shared_ptr<Directory> directory_;
  Descriptor fd_;
  int64_t size_ = 0;
};

class Directory final : public SpillDirectory, public std::enable_shared_from_this<Directory> {
 public:
  Directory(std::string path, Descriptor fd, int64_t bytes_max, SpillSystem* system)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        bytes_max_(bytes_max),
        system_(system != nullptr ? *system : real_) {}

  Result<std::unique_ptr<SpillFile>> Create() override;
  int64_t bytes() const override { return bytes_.load(std::memory_order_relaxed); }
  int64_t bytes_most() const override { return bytes_most_.load(std::memory_order_relaxed); }

  // Before they are written.
  Status Take(int64_t bytes);
  void Give(int64_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  const std::string& path() const { return path_; }
  SpillSystem& calls() const { return system_; }

 private:
  Result<Descriptor> OpenNamed();

  const std::string path_;
  const Descriptor fd_;
  const int64_t bytes_max_;
  mutable SpillSystem real_;
  SpillSystem& system_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> bytes_most_{0};
};

Status Directory::Take(int64_t bytes) {
  int64_t held = bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes_max_ > 0 && bytes > bytes_max_ - held) {
      return Fail(Code::kLimit,
                  "spilled data would grow over its bound of " + FormatBytes(bytes_max_) + ": " +
                      FormatBytes(held) + " are held, and " + FormatBytes(bytes) +
                      " more are needed",
                  path_, "raise the bound of spilled bytes, or the memory, or do less at a time");
    }
  } while (!bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  int64_t most = bytes_most_.load(std::memory_order_relaxed);
  while (most < held + bytes &&
         !bytes_most_.compare_exchange_weak(most, held + bytes, std::memory_order_relaxed)) {
  }
  return {};
}

// Where the file system has no files without a name: it has one until this returns. A process that
// is killed in between leaves an empty file.
Result<Descriptor> Directory::OpenNamed() {
  SystemRandom random;
  std::array<char, 48> name;
  std::snprintf(name.data(), name.size(), "%s%016llx", kNamed.data(),
                static_cast<unsigned long long>(random.Next()));
  Descriptor fd(system_.OpenNamed(fd_.get(), name.data()));
  if (fd.get() < 0) return Failed(errno, "make a file to spill to", path_);
  if (unlinkat(fd_.get(), name.data(), 0) != 0) {
    return Failed(errno, "take the name from " + std::string(name.data()), path_);
  }
  return fd;
}

Result<std::unique_ptr<SpillFile>> Directory::Create() {
  Descriptor unnamed(system_.OpenUnnamed(fd_.get()));
  if (unnamed.get() >= 0) return std::make_unique<File>(shared_from_this(), std::move(unnamed));
  const int err = errno;
  // Whatever the call says about that: it differs between file systems.
  struct stat info{};
  if (fstat(fd_.get(), &info) == 0 && info.st_nlink == 0) {
    return Failed(ENOENT, "make a file to spill to", path_);
  }
  // EISDIR: a kernel that does not know such files; the others: a file system that does not.
  if (err != EOPNOTSUPP && err != EISDIR && err != EINVAL && err != ENOSYS) {
    return Failed(err, "make a file to spill to", path_);
  }
  LITHIFY_TRY_ASSIGN(Descriptor named, OpenNamed());
  return std::make_unique<File>(shared_from_this(), std::move(named));
}

File::~File() { directory_->Give(size_); }

Result<int64_t> File::Append(std::span<const uint8_t> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  LITHIFY_TRY(directory_->Take(size));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = directory_->calls().Write(fd_.get(), bytes.data() + done,
                                                  std::min(bytes.size() - done, kCallBytesMax),
                                                  size_ + static_cast<int64_t>(done));
    if (put > 0) {
      done += static_cast<size_t>(put);
      continue;
    }
    // Nothing written, and no reason told: a full disk, on some file systems.
    const int err = put == 0 ? ENOSPC : errno;
    if (err == EINTR) continue;
    // What was written of it would hold space. If that fails, the file's end gives it back.
    [[maybe_unused]] const int cut = ftruncate(fd_.get(), size_);
    directory_->Give(size);
    return Failed(err,
                  "spill " + FormatBytes(size) + " more than the " +
                      FormatBytes(directory_->bytes()) + " held",
                  directory_->path());
  }
  return std::exchange(size_, size_ + size);
}

Status File::Read(int64_t offset, std::span<uint8_t> into) const {
  const auto size = static_cast<int64_t>(into.size());
  if (offset < 0 || offset > size_ || size > size_ - offset) {
    return Fail(Code::kCorrupt,
                "no " + std::to_string(size) + " bytes at " + std::to_string(offset) +
                    " of a spilled file of " + std::to_string(size_),
                directory_->path());
  }
  for (size_t done = 0; done < into.size();) {
    const ssize_t got = directory_->calls().Read(fd_.get(), into.data() + done,
                                                 std::min(into.size() - done, kCallBytesMax),
                                                 offset + static_cast<int64_t>(done));
    if (got > 0) {
      done += static_cast<size_t>(got);
      continue;
    }
    if (got == 0) {
      return Fail(Code::kCorrupt, "a spilled file ends before what was written to it",
                  directory_->path(), "look for disk errors in the kernel log");
    }
    if (errno != EINTR) return Failed(errno, "read what was spilled", directory_->path());
  }
  return {};
}

void File::WillRead(int64_t offset, int64_t bytes) const {
  posix_fadvise(fd_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

// Makes `path` and what is missing above it.
Status MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return Failed(errno, "make the directory to spill to", part);
    }
    if (end == std::string::npos) return {};
  }
}

Status JudgeDirectory(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return Failed(errno, "look at the directory to spill to", path);
  if (info.st_uid != geteuid()) {
    return Fail(Code::kDenied,
                "the directory to spill to belongs to user " + std::to_string(info.st_uid) +
                    ", and this is user " + std::to_string(geteuid()),
                path, "spill to a directory of one's own");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(Code::kDenied, "others may write to the directory to spill to", path,
                "chmod 700 it, or spill to a directory of one's own");
  }
  return {};
}

}  // namespace

int SpillSystem::OpenUnnamed(int directory) {
  // O_EXCL: nothing can give it a name later.
  return openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
}

int SpillSystem::OpenNamed(int directory, const char* name) {
  return openat(directory, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

ssize_t SpillSystem::Write(int fd, const void* bytes, size_t size, int64_t offset) {
  return pwrite(fd, bytes, size, offset);
}

ssize_t SpillSystem::Read(int fd, void* into, size_t size, int64_t offset) {
  return pread(fd, into, size, offset);
}

Result<std::shared_ptr<SpillDirectory>> SpillDirectory::Open(const std::string& given,
                                                             int64_t bytes_max,
                                                             SpillSystem* system) {
  if (given.empty()) return Fail(Code::kInvalid, "the directory to spill to has no name");
  if (bytes_max < 0) {
    return Fail(Code::kInvalid, "the bound of spilled bytes is negative", given);
  }
  // A link with a slash after it would be followed.
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = open(path.c_str(), kFlags);
  if (fd < 0 && errno == ENOENT) {
    LITHIFY_TRY(MakeDirectories(path));
    fd = open(path.c_str(), kFlags);
  }
  if (fd < 0) {
    const int err = errno;
    struct stat info{};
    const bool known = lstat(path.c_str(), &info) == 0;
    if (known && S_ISLNK(info.st_mode)) {
      return Fail(Code::kDenied, "the directory to spill to is a symbolic link", path,
                  "name the directory that it points to");
    }
    if (known && !S_ISDIR(info.st_mode)) {
      return Fail(Code::kInvalid, "what is to be spilled to is no directory", path,
                  "name another one");
    }
    return Failed(err, "open the directory to spill to", path);
  }
  Descriptor directory(fd);
  LITHIFY_TRY(JudgeDirectory(fd, path));
  return std::make_shared<Directory>(std::move(path), std::move(directory), bytes_max, system);
}

}  // namespace lithify::sort
