#include "embed/claim_holder.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace lithify::embed {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  // Possibly cut short, then without its end.
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  std::string host(name.data());
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  for (char& c : host) {
    if (!kAllowed.contains(c)) c = '_';
  }
  return host.empty() ? "unknown-host" : host;
}

std::string Hex(uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

constexpr size_t kHalf = 8;

std::string_view ProcessDigits() {
  static const std::string digits = [] {
    SystemRandom random;
    return Hex(random.Next()).substr(0, kHalf);
  }();
  return digits;
}

}  // namespace

std::string MakeClaimHolder(Random& random) {
  return HostName() + "-" + std::to_string(getpid()) + "-" + std::string(ProcessDigits()) +
         Hex(random.Next()).substr(0, kHalf);
}

bool IsHolderGone(const std::string& holder) {
  const std::string host = HostName() + "-";
  if (!holder.starts_with(host)) return false;
  const char* begin = holder.data() + host.size();
  const char* end = holder.data() + holder.size();
  pid_t pid = 0;
  const auto [rest, error] = std::from_chars(begin, end, pid);
  // Nothing but "-<digits>" may follow, or it is another host's name that begins like ours.
  const std::string_view tail(rest, static_cast<size_t>(end - rest));
  if (error != std::errc() || pid <= 0 || tail.size() != 1 + 2 * kHalf || tail[0] != '-') {
    return false;
  }
  if (pid == getpid()) return tail.substr(1, kHalf) != ProcessDigits();
  return kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace lithify::embed
