#include "base/random.h"

#include <sys/random.h>

#include <cstdio>

#include "base/result.h"

namespace lithify {

uint64_t SystemRandom::Next() {
  uint64_t value = 0;
  const ssize_t got = getrandom(&value, sizeof(value), 0);
  LITHIFY_CHECK(got == static_cast<ssize_t>(sizeof(value)), "getrandom gave no bytes");
  return value;
}

uint64_t SeededRandom::Next() {
  std::lock_guard lock(mutex_);
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::string MakeUuidV7(const Clock& clock, Random& random) {
  const auto millis = static_cast<uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(clock.Now()).time_since_epoch().count());
  const uint64_t a = random.Next();
  const uint64_t b = random.Next();
  char text[37];
  std::snprintf(text, sizeof(text), "%08x-%04x-7%03x-%04x-%012llx",
                static_cast<unsigned>((millis >> 16) & 0xffffffffU),
                static_cast<unsigned>(millis & 0xffffU), static_cast<unsigned>(a & 0xfffU),
                static_cast<unsigned>(0x8000U | ((a >> 12) & 0x3fffU)),
                static_cast<unsigned long long>(b & 0xffffffffffffULL));
  return text;
}

std::optional<Time> UuidV7Time(std::string_view text) {
  constexpr std::string_view kSuffix = ".parquet";
  if (text.ends_with(kSuffix)) text.remove_suffix(kSuffix.size());
  if (text.size() != 36 || text[14] != '7') return std::nullopt;
  uint64_t millis = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return std::nullopt;
      continue;
    }
    const bool digit = c >= '0' && c <= '9';
    const bool letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return std::nullopt;
    if (i < 13) {
      millis = millis * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
    }
  }
  return Time(std::chrono::milliseconds(static_cast<int64_t>(millis)));
}

}  // namespace lithify
