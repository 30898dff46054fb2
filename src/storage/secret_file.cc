#include "storage/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace lithify::storage {
namespace {

constexpr size_t kBytesMax = size_t{64} * 1024;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::unexpected<Error> FailErrno(int error, const std::string& path) {
  return Fail(Code::kDenied,
              "the file with the secret cannot be read: " + std::generic_category().message(error),
              path, "give a file that this user can read");
}

}  // namespace

Result<Secret> ReadSecretFile(const std::string& path) {
  // A pipe must not make this wait for a writer.
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) return FailErrno(errno, path);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return FailErrno(errno, path);
  if (!S_ISREG(info.st_mode)) return Fail(Code::kInvalid, "is no file", path);
  if ((info.st_mode & S_IRWXO) != 0) {
    return Fail(Code::kDenied, "everybody on this machine may read or write the file", path,
                "chmod o-rwx");
  }
  std::string text(kBytesMax + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      Wipe(text);
      return FailErrno(error, path);
    }
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  const bool fits = have > 0 && have <= kBytesMax;
  Secret secret(std::string_view(text).substr(0, fits ? have : 0));
  Wipe(text);
  if (!fits) return Fail(Code::kInvalid, have == 0 ? "is empty" : "is larger than 64 KiB", path);
  return secret;
}

Result<Secret> ReadSecretLine(const std::string& path) {
  LITHIFY_TRY_ASSIGN(const Secret text, ReadSecretFile(path));
  std::string_view line = text.Reveal();
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool one = !line.empty() && std::ranges::all_of(line, [](unsigned char c) {
    return c >= 0x20 && c != 0x7f;
  });
  if (!one) return Fail(Code::kInvalid, "must hold the secret in one line, and nothing else", path);
  return Secret(line);
}

}  // namespace lithify::storage
