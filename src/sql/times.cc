#include "sql/times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "base/text.h"
#include "sql/lexer.h"
#include "sql/statement.h"

namespace lithify::sql {
namespace {

// Largest first.
constexpr std::array<std::pair<std::string_view, int64_t>, 7> kUnits = {{
    {"WEEK", int64_t{7} * 86400 * 1'000'000},
    {"DAY", int64_t{86400} * 1'000'000},
    {"HOUR", int64_t{3600} * 1'000'000},
    {"MINUTE", int64_t{60} * 1'000'000},
    {"SECOND", 1'000'000},
    {"MILLISECOND", 1000},
    {"MICROSECOND", 1},
}};

// Takes digits from the front: as many as asked for, or nothing.
std::optional<int> TakeDigits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool TakeChar(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// ".123456", digits beyond microseconds dropped; zero if there is none.
std::optional<Duration> TakeFraction(std::string_view& text) {
  if (!TakeChar(text, '.')) return Duration::zero();
  int64_t micros = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits < 6) micros = micros * 10 + (text[digits] - '0');
  }
  if (digits == 0 || digits > 9) return std::nullopt;
  for (size_t i = digits; i < 6; ++i) micros *= 10;
  text.remove_prefix(digits);
  return Duration(micros);
}

// "Z", "UTC", "+02:00", "-0530", "+02", with a blank before it, or nothing: how far ahead of UTC.
std::optional<Duration> TakeZone(std::string_view& text) {
  using std::chrono::hours;
  using std::chrono::minutes;
  if (text.empty()) return Duration::zero();
  (void)TakeChar(text, ' ');
  const std::string zone = UpperCase(text);
  if (zone == "Z" || zone == "UTC") {
    text = {};
    return Duration::zero();
  }
  const bool behind = text.starts_with('-');
  if (!TakeChar(text, '+') && !TakeChar(text, '-')) return std::nullopt;
  const auto hour = TakeDigits(text, 2);
  const bool colon = TakeChar(text, ':');
  const auto minute = text.empty() && !colon ? std::optional<int>(0) : TakeDigits(text, 2);
  if (!hour || !minute || *hour > 18 || *minute > 59) return std::nullopt;
  const Duration ahead = hours(*hour) + minutes(*minute);
  return behind ? -ahead : ahead;
}

std::optional<Time> ParseTimestampOrNothing(std::string_view text) {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  const auto year = TakeDigits(text, 4);
  if (!year || *year == 0 || !TakeChar(text, '-')) return std::nullopt;
  const auto month = TakeDigits(text, 2);
  if (!month || !TakeChar(text, '-')) return std::nullopt;
  const auto day = TakeDigits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const Time midnight = std::chrono::sys_days(date);
  if (text.empty()) return midnight;
  if (!TakeChar(text, ' ') && !TakeChar(text, 'T') && !TakeChar(text, 't')) return std::nullopt;
  const auto hour = TakeDigits(text, 2);
  if (!hour || *hour > 23 || !TakeChar(text, ':')) return std::nullopt;
  const auto minute = TakeDigits(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  const auto second = TakeChar(text, ':') ? TakeDigits(text, 2) : std::optional<int>(0);
  if (!second || *second > 59) return std::nullopt;
  const auto fraction = TakeFraction(text);
  const auto ahead = TakeZone(text);
  if (!fraction || !ahead || !text.empty()) return std::nullopt;
  return midnight + hours(*hour) + minutes(*minute) + seconds(*second) + *fraction - *ahead;
}

std::optional<std::string_view> TakeWord(std::string_view& text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

Result<int64_t> UnitMicros(std::string_view word) {
  std::string unit = UpperCase(word);
  if (unit.ends_with('S')) unit.pop_back();
  for (const auto& [name, micros] : kUnits) {
    if (name == unit) return micros;
  }
  if (unit == "MONTH" || unit == "YEAR" || unit == "QUARTER") {
    return Fail(Code::kInvalid, "a " + LowerCase(unit) + " has no fixed length", {},
                "write it in days");
  }
  return Fail(Code::kInvalid, Shown(word) + " is no unit of time", {},
              "units are WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND");
}

}  // namespace

Result<Time> ParseTimestamp(std::string_view text) {
  if (const auto time = ParseTimestampOrNothing(text)) return *time;
  return Fail(Code::kInvalid, Shown(text) + " is no time", {},
              "write it like '2026-11-29 16:20:00' (UTC) or '2026-11-29T16:20:00+01:00'");
}

Result<Duration> ParseIntervalText(std::string_view text) {
  const auto bad = [](std::string message) {
    return Fail(Code::kInvalid, std::move(message), {}, "write INTERVAL '7' DAY");
  };
  int64_t total = 0;
  const std::string_view all = text;
  auto number = TakeWord(text);
  if (!number) return bad("an empty interval");
  for (; number; number = TakeWord(text)) {
    int64_t count = 0;
    const auto [end, error] =
        std::from_chars(number->data(), number->data() + number->size(), count);
    if (error != std::errc() || end != number->data() + number->size()) {
      return bad(Shown(*number) + " is no whole number of an interval");
    }
    const auto unit = TakeWord(text);
    if (!unit) return bad("the interval " + Shown(all) + " has no unit of time");
    LITHIFY_TRY_ASSIGN(const int64_t micros, UnitMicros(*unit));
    if (__builtin_mul_overflow(count, micros, &count) ||
        __builtin_add_overflow(total, count, &total)) {
      return bad("the interval " + Shown(all) + " is too long");
    }
  }
  return Duration(total);
}

std::string IntervalSql(Duration duration) {
  for (const auto& [name, micros] : kUnits) {
    if (duration.count() == 0 || duration.count() % micros != 0) continue;
    return "INTERVAL '" + std::to_string(duration.count() / micros) + "' " + std::string(name);
  }
  return "INTERVAL '0' DAY";
}

}  // namespace lithify::sql
