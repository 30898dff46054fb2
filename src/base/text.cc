#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

namespace lithify {
namespace {

struct Unit {
  std::string_view name;
  int64_t scale;
};

constexpr std::array<Unit, 10> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"K", kKiB},
                                           {"KiB", kKiB},
                                           {"M", kMiB},
                                           {"MiB", kMiB},
                                           {"G", kGiB},
                                           {"GiB", kGiB},
                                           {"T", 1024 * kGiB},
                                           {"TiB", 1024 * kGiB}}};
constexpr int64_t kSecond = 1'000'000;
constexpr std::array<Unit, 7> kDurationUnits{{{"", kSecond},
                                              {"ms", 1000},
                                              {"s", kSecond},
                                              {"m", 60 * kSecond},
                                              {"min", 60 * kSecond},
                                              {"h", 3600 * kSecond},
                                              {"d", 86400 * kSecond}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// "<digits>[.<1 to 6 digits>][ ]<unit>" times the unit's scale, rounded down. With six decimals
// and scales up to 2^40 the products of the fraction stay below 2^63.
Result<int64_t> ParseScaled(std::string_view text, std::span<const Unit> units,
                            std::string_view what, std::string_view examples) {
  const auto bad = [&](std::string_view why) {
    return Fail(Code::kInvalid,
                "'" + std::string(text) + "' is no " + std::string(what) + ": " + std::string(why),
                {}, "write it like " + std::string(examples));
  };
  size_t at = 0;
  int64_t whole = 0;
  for (; at < text.size() && IsDigit(text[at]); ++at) {
    if (__builtin_mul_overflow(whole, 10, &whole) ||
        __builtin_add_overflow(whole, text[at] - '0', &whole)) {
      return bad("too large");
    }
  }
  if (at == 0) return bad("it must start with a digit");
  int64_t fraction = 0;
  int64_t fraction_scale = 1;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && IsDigit(text[at]); ++at) {
      if (fraction_scale == 1'000'000) return bad("more than 6 decimals");
      fraction = fraction * 10 + (text[at] - '0');
      fraction_scale *= 10;
    }
    if (fraction_scale == 1) return bad("a digit must follow the point");
  }
  std::string_view name = text.substr(at);
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (name.empty() && at != text.size()) return bad("it ends in a space");
  for (const Unit& unit : units) {
    if (!EqualIgnoringCase(unit.name, name)) continue;
    if (unit.scale == 1 && fraction_scale != 1) return bad("a fraction of a byte");
    int64_t value = 0;
    if (__builtin_mul_overflow(whole, unit.scale, &value) ||
        __builtin_add_overflow(value, fraction * unit.scale / fraction_scale, &value)) {
      return bad("too large");
    }
    return value;
  }
  return bad("unknown unit '" + std::string(name) + "'");
}

// The magnitude of any int64, its minimum too.
uint64_t Magnitude(int64_t n) {
  return n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
}

template <typename... Args>
std::string Print(const char* format, Args... args) {
  std::array<char, 96> text;
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

// Reads exactly `digits` digits and then moves `text` on.
std::optional<int> TakeNumber(std::string_view& text, size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (!IsDigit(text[i])) return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool Take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// ".5", ".123456" -> microseconds.
std::optional<int> TakeFraction(std::string_view& text) {
  int micros = 0;
  int scale = 100'000;
  size_t digits = 0;
  for (; digits < text.size() && IsDigit(text[digits]); ++digits) {
    if (digits == 6) return std::nullopt;
    micros += (text[digits] - '0') * scale;
    scale /= 10;
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return micros;
}

std::optional<Time> ParseTimeOrNothing(std::string_view text) {
  const auto year = TakeNumber(text, 4);
  if (!year || !Take(text, '-')) return std::nullopt;
  const auto month = TakeNumber(text, 2);
  if (!month || !Take(text, '-')) return std::nullopt;
  const auto day = TakeNumber(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  Time time = std::chrono::sys_days(date);
  if (text.empty()) return time;
  if (!Take(text, 'T')) return std::nullopt;
  const auto hour = TakeNumber(text, 2);
  if (!hour || *hour > 23) return std::nullopt;
  time += std::chrono::hours(*hour);
  if (Take(text, ':')) {
    const auto minute = TakeNumber(text, 2);
    if (!minute || *minute > 59) return std::nullopt;
    time += std::chrono::minutes(*minute);
    if (Take(text, ':')) {
      const auto second = TakeNumber(text, 2);
      if (!second || *second > 59) return std::nullopt;
      time += std::chrono::seconds(*second);
      if (Take(text, '.')) {
        const auto micros = TakeFraction(text);
        if (!micros) return std::nullopt;
        time += Duration(*micros);
      }
    }
  }
  Take(text, 'Z');
  if (!text.empty()) return std::nullopt;
  return time;
}

// How many letters to add, take away or change, to make one of the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  const char* sign = bytes < 0 ? "-" : "";
  const uint64_t n = Magnitude(bytes);
  if (n < 1024) return Print("%s%llu B", sign, static_cast<unsigned long long>(n));
  constexpr std::array<const char*, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  // Tenths, rounded half up; "1024.0 KiB" is never shown. Ten times 2^60 fits 64 bits.
  const auto tenths = [&] {
    const int shift = static_cast<int>(10 * (unit + 1));
    const uint64_t rest = n & ((uint64_t{1} << shift) - 1);
    return (n >> shift) * 10 + ((rest * 10 + (uint64_t{1} << (shift - 1))) >> shift);
  };
  while (unit + 1 < kNames.size() && tenths() >= 10240) ++unit;
  const auto shown = static_cast<unsigned long long>(tenths());
  return Print("%s%llu.%llu %s", sign, shown / 10, shown % 10, kNames[unit]);
}

Result<int64_t> ParseBytes(std::string_view text) {
  return ParseScaled(text, kByteUnits, "size", "4096, 64KiB or 1.5GiB");
}

std::string FormatDuration(Duration d) {
  const char* sign = d.count() < 0 ? "-" : "";
  const unsigned long long micros = Magnitude(d.count());
  const unsigned long long millis = (micros + 500) / 1000;
  if (millis < 1000) return Print("%s%llu ms", sign, millis);
  const unsigned long long tenths = (micros + 50'000) / 100'000;
  if (tenths < 600) return Print("%s%llu.%llu s", sign, tenths / 10, tenths % 10);
  const unsigned long long seconds = (micros + 500'000) / 1'000'000;
  if (seconds < 3600) return Print("%s%llu min %02llu s", sign, seconds / 60, seconds % 60);
  const unsigned long long minutes = (micros + 30'000'000) / 60'000'000;
  return Print("%s%llu h %02llu min", sign, minutes / 60, minutes % 60);
}

Result<Duration> ParseDuration(std::string_view text) {
  LITHIFY_TRY_ASSIGN(const int64_t micros,
                     ParseScaled(text, kDurationUnits, "duration", "500ms, 90s, 15min, 1h or 2d"));
  return Duration(micros);
}

std::string FormatTime(Time t) {
  constexpr int64_t kDay = 86400 * kSecond;
  // std::chrono::year ends at 32767: shift whole 400-year cycles out and back in.
  constexpr int64_t kCycleDays = 146097;
  const auto divide = [](int64_t n, int64_t by) { return n / by - (n % by < 0 ? 1 : 0); };
  const int64_t micros = t.time_since_epoch().count();
  const int64_t day = divide(micros, kDay);
  const int64_t in_day = micros % kDay + (micros % kDay < 0 ? kDay : 0);
  const int64_t cycle = divide(day, kCycleDays);
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(day - cycle * kCycleDays))};
  const long long year = static_cast<int>(date.year()) + cycle * 400;
  const auto seconds = static_cast<int>(in_day / kSecond);
  return Print("%s%04lld-%02u-%02uT%02d:%02d:%02d.%06dZ", year < 0 ? "-" : "",
               year < 0 ? -year : year, static_cast<unsigned>(date.month()),
               static_cast<unsigned>(date.day()), seconds / 3600, seconds / 60 % 60, seconds % 60,
               static_cast<int>(in_day % kSecond));
}

Result<Time> ParseTime(std::string_view text) {
  if (const auto time = ParseTimeOrNothing(text)) return *time;
  return Fail(Code::kInvalid, "'" + std::string(text) + "' is no time in UTC", {},
              "write it like 2026-11-29, 2026-11-29T16 or 2026-11-29T16:20:00Z");
}

std::string FormatCount(int64_t n) {
  std::string digits = std::to_string(Magnitude(n));
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return (n < 0 ? "-" : "") + digits;
}

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += Print("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
  return out;
}

// By table 3-7 of the Unicode standard.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;   // Overlong.
    if (lead == 0xed) high = 0x9f;  // Surrogates.
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;   // Overlong.
    if (lead == 0xf4) high = 0x8f;  // Beyond U+10FFFF.
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

std::string_view Nearest(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr size_t kNameBytesMax = 256;  // The distance takes the product of both lengths.
  if (name.size() > kNameBytesMax) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = Distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace lithify
