#include "storage/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/secret.h"

extern "C" char** environ;

namespace lithify::storage {
namespace {

constexpr int kPollMs = 50;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// A process that was started, and its group.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Whether it has ended.
  bool Look() {
    if (ended_) return true;
    int status = 0;
    const pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_) status_ = status;
    // Where this process ignores SIGCHLD, nothing is left to ask.
    ended_ = got == pid_ || (got < 0 && errno == ECHILD);
    return ended_;
  }

  // Why it is no success; empty: it is one, as far as is known.
  std::string Complaint() const {
    if (!status_) return {};
    if (WIFSIGNALED(*status_))
      return "it was ended by signal " + std::to_string(WTERMSIG(*status_));
    if (WEXITSTATUS(*status_) == 0) return {};
    return "it ended with status " + std::to_string(WEXITSTATUS(*status_));
  }

 private:
  // While it has not been waited for, its number is nobody else's.
  void End() {
    if (Look()) return;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
  }

  const pid_t pid_;
  bool ended_ = false;
  std::optional<int> status_;
};

// Its number, or an errno as a negative one.
pid_t Spawn(const std::vector<std::string>& words, int output) {
  std::vector<std::string> copies = words;  // The call takes them as if it altered them.
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD, SIGXFSZ}) sigaddset(&usual, signal);
  int error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (error == 0) error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (error == 0) error = posix_spawnattr_setpgroup(&attributes, 0);
  if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &none);
  if (error == 0) error = posix_spawnattr_setsigdefault(&attributes, &usual);
  if (error == 0) {
    error = posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  pid_t pid = 0;
  if (error == 0) {
    error = posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : -error;
}

// What is there to read, up to the bound and one byte more. False: it is all.
bool Drain(int fd, size_t bytes_max, std::string& output) {
  std::array<char, 4096> some;
  bool more = true;
  while (more && output.size() <= bytes_max) {
    const size_t room = std::min(some.size(), bytes_max + 1 - output.size());
    const ssize_t got = read(fd, some.data(), room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    more = got > 0;
    if (more) output.append(some.data(), static_cast<size_t>(got));
  }
  std::ranges::fill(some, '\0');
  return more;
}

}  // namespace

Result<std::vector<std::string>> SplitCommand(std::string_view command) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  const auto broken = [](const char* what) {
    return Fail(Code::kInvalid, std::string("the command ends within ") + what);
  };
  for (size_t at = 0; at < command.size(); ++at) {
    const char c = command[at];
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote == 0 && space) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes = c == '\\' && quote != '\'';
    if (escapes && at + 1 == command.size()) return broken("an escape");
    const char next = escapes ? command[at + 1] : '\0';
    if (escapes && (quote == 0 || next == '"' || next == '\\')) {
      words.back() += next;
      ++at;
    } else if (quote != 0 ? c == quote : (c == '"' || c == '\'')) {
      quote = quote == 0 ? c : '\0';
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return broken("quotes");
  if (words.empty() || words.front().empty()) {
    return Fail(Code::kInvalid, "the command names no program");
  }
  return words;
}

Result<std::string> OutputOf(const std::vector<std::string>& words, const ProgramLimits& limits,
                             const Clock& clock) {
  const std::string& name = words.front();
  const std::string hint = "run it by hand to see what it says";
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Fail(Code::kInternal, std::string("no pipe: ") + std::strerror(errno), name);
  }
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  fcntl(from.get(), F_SETFL, O_NONBLOCK);
  const Duration until = clock.Monotonic() + limits.time;
  const pid_t pid = Spawn(words, to.get());
  if (pid < 0) {
    return Fail(Code::kInvalid, std::string("it cannot be run: ") + std::strerror(-pid), name);
  }
  to.Close();
  Child child(pid);
  const auto bytes_max = static_cast<size_t>(limits.bytes);
  std::string output;
  output.reserve(bytes_max + 1);  // No copy of it is left behind by growing.
  const auto give_up = [&](Code code, std::string why) {
    Wipe(output);
    return Fail(code, std::move(why), name, code == Code::kCancelled ? "" : hint);
  };
  for (bool open = true;;) {
    // Looked at before it is read from: what it wrote at its end is there by then.
    const bool ended = child.Look();
    if (open) open = Drain(from.get(), bytes_max, output);
    if (output.size() > bytes_max) {
      return give_up(Code::kDenied,
                     "it writes more than " + std::to_string(limits.bytes) + " bytes");
    }
    if (ended) break;
    if (limits.stop && limits.stop()) return give_up(Code::kCancelled, "stopped on request");
    if (clock.Monotonic() >= until) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(limits.time).count();
      return give_up(Code::kDenied, "it takes longer than " + std::to_string(seconds) + " s");
    }
    pollfd waiting{open ? from.get() : -1, POLLIN, 0};
    poll(&waiting, 1, kPollMs);
  }
  if (std::string complaint = child.Complaint(); !complaint.empty()) {
    return give_up(Code::kDenied, std::move(complaint));
  }
  return output;
}

}  // namespace lithify::storage
