#include "plan/cron.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"

namespace lithify::plan {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::sys_days;
using std::chrono::weekday;
using std::chrono::year_month_day;

constexpr sys_days kFirstDay{days(0)};
constexpr sys_days kLastDay = std::chrono::year(9999) / 12 / 31;
// All 60 minutes as a list, and as much again for each of the others: far more than anybody writes.
constexpr size_t kTextBytesMax = 1000;

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"sun", "mon", "tue", "wed",
                                                       "thu", "fri", "sat"};
// How many days each month can have.
constexpr std::array<int, 13> kDaysMax = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

struct Field {
  std::string_view name;
  int min;
  int max;
  std::string_view range;  // For messages.
  std::span<const std::string_view> names = {};
};
constexpr std::array<Field, 5> kFields{{
    {"minute", 0, 59, "0 to 59"},
    {"hour", 0, 23, "0 to 23"},
    {"day-of-month", 1, 31, "1 to 31"},
    {"month", 1, 12, "1 to 12 or jan to dec", kMonths},
    {"day-of-week", 0, 7, "0 to 7 or sun to sat, 0 and 7 are Sunday", kWeekdays},
}};
constexpr size_t kDayOfWeek = 4;
constexpr std::string_view kFieldNames = "minute hour day-of-month month day-of-week";

struct Shorthand {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Shorthand, 7> kShorthands{{{"@hourly", "0 * * * *"},
                                                {"@daily", "0 0 * * *"},
                                                {"@midnight", "0 0 * * *"},
                                                {"@weekly", "0 0 * * 0"},
                                                {"@monthly", "0 0 1 * *"},
                                                {"@yearly", "0 0 1 1 *"},
                                                {"@annually", "0 0 1 1 *"}}};

constexpr bool Has(uint64_t bits, unsigned n) { return (bits >> n & 1) != 0; }

bool EqualIgnoringCase(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

std::vector<std::string_view> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::unexpected<Error> Bad(const Field& field, std::string_view part, const std::string& why,
                           std::string hint = {}) {
  return Fail(Code::kInvalid,
              JsonQuote(part) + " " + why + "; allowed is " + std::string(field.range),
              std::string(field.name), std::move(hint));
}

// A number of at most three digits: more are out of every range.
std::optional<int> Number(std::string_view text) {
  if (text.empty() || text.size() > 3) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

Result<int> ParseValue(const Field& field, std::string_view part, std::string_view text) {
  for (size_t i = 0; i < field.names.size(); ++i) {
    if (EqualIgnoringCase(text, field.names[i])) return field.min + static_cast<int>(i);
  }
  const auto value = Number(text);
  if (!value) return Bad(field, part, text.empty() ? "lacks a value" : "is no value of it");
  if (*value < field.min || *value > field.max) return Bad(field, part, "is out of range");
  return *value;
}

// One entry of a list, as bits.
Result<uint64_t> ParsePart(const Field& field, std::string_view part) {
  const size_t slash = part.find('/');
  const std::string_view range = part.substr(0, slash);
  int first = field.min;
  int last = field.max;
  if (range != "*") {
    const size_t dash = range.find('-');
    LITHIFY_TRY_ASSIGN(first, ParseValue(field, part, range.substr(0, dash)));
    last = first;
    if (dash != std::string_view::npos) {
      const std::string_view end = range.substr(dash + 1);
      LITHIFY_TRY_ASSIGN(last, ParseValue(field, part, end));
      // "fri-sun": as the end of a range, Sunday is the seventh day.
      if (last == 0 && first > 0 && EqualIgnoringCase(end, "sun")) last = 7;
    } else if (slash != std::string_view::npos) {
      return Bad(field, part, "steps from a single value",
                 "write a range before the step, like " + std::to_string(first) + "-" +
                     std::to_string(field.max) + std::string(part.substr(slash)));
    }
    if (last < first) {
      return Bad(field, part, "runs backwards", "write it as two ranges, with a comma between");
    }
  }
  int step = 1;
  if (slash != std::string_view::npos) {
    const auto number = Number(part.substr(slash + 1));
    if (!number || *number < 1 || *number > field.max) {
      return Bad(field, part, "needs a step of 1 to " + std::to_string(field.max));
    }
    step = *number;
  }
  uint64_t bits = 0;
  for (int value = first; value <= last; value += step) bits |= uint64_t{1} << value;
  return bits;
}

Result<uint64_t> ParseField(const Field& field, std::string_view text) {
  uint64_t bits = 0;
  for (const std::string_view part : Split(text, ",")) {
    LITHIFY_TRY_ASSIGN(const uint64_t more, ParsePart(field, part));
    bits |= more;
  }
  return bits;
}

Result<std::string_view> Expand(std::string_view text) {
  if (!text.starts_with('@')) return text;
  for (const Shorthand& shorthand : kShorthands) {
    if (EqualIgnoringCase(text, shorthand.name)) return shorthand.text;
  }
  return Fail(
      Code::kInvalid, JsonQuote(text) + " is no schedule", {},
      "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or five fields: " +
          std::string(kFieldNames));
}

// With both day fields restricted every week has a fire, and every day of the month that exists
// falls on every day of the week at some time within 400 years, 29 February too.
bool EverFires(const Cron& cron) {
  if (cron.either_day) return true;
  for (unsigned month = 1; month <= 12; ++month) {
    if (Has(cron.months, month) && (cron.days & ((uint64_t{2} << kDaysMax[month]) - 1)) != 0) {
      return true;
    }
  }
  return false;
}

bool DayMatches(const Cron& cron, sys_days day, const year_month_day& date) {
  const bool by_month = Has(cron.days, static_cast<unsigned>(date.day()));
  const bool by_week = Has(cron.weekdays, weekday(day).c_encoding());
  return cron.either_day ? by_month || by_week : by_month && by_week;
}

bool MonthMatches(const Cron& cron, const year_month_day& date) {
  return Has(cron.months, static_cast<unsigned>(date.month()));
}

// The first day with a fire, at or after `day`.
std::optional<sys_days> DayFrom(const Cron& cron, sys_days day) {
  while (day <= kLastDay) {
    const year_month_day date(day);
    if (!MonthMatches(cron, date)) {
      day = date.year() / date.month() / std::chrono::last;
    } else if (DayMatches(cron, day, date)) {
      return day;
    }
    day += days(1);
  }
  return std::nullopt;
}

// The last day with a fire, at or before `day`.
std::optional<sys_days> DayUpTo(const Cron& cron, sys_days day) {
  while (day >= kFirstDay) {
    const year_month_day date(day);
    if (!MonthMatches(cron, date)) {
      day = date.year() / date.month() / 1;
    } else if (DayMatches(cron, day, date)) {
      return day;
    }
    day -= days(1);
  }
  return std::nullopt;
}

// Minutes of the day; -1: none.
int FirstMinute(const Cron& cron) {
  return std::countr_zero(cron.hours) * 60 + std::countr_zero(cron.minutes);
}

int LastMinute(const Cron& cron) {
  return (31 - std::countl_zero(cron.hours)) * 60 + 63 - std::countl_zero(cron.minutes);
}

int MinuteFrom(const Cron& cron, int minute) {
  const int hour = minute / 60;
  const uint64_t later_minutes = cron.minutes >> (minute % 60);
  if (Has(cron.hours, static_cast<unsigned>(hour)) && later_minutes != 0) {
    return minute + std::countr_zero(later_minutes);
  }
  const uint32_t later_hours = cron.hours >> (hour + 1);
  if (later_hours == 0) return -1;
  return (hour + 1 + std::countr_zero(later_hours)) * 60 + std::countr_zero(cron.minutes);
}

int MinuteUpTo(const Cron& cron, int minute) {
  const int hour = minute / 60;
  const uint64_t earlier_minutes = cron.minutes & ((uint64_t{2} << (minute % 60)) - 1);
  if (Has(cron.hours, static_cast<unsigned>(hour)) && earlier_minutes != 0) {
    return hour * 60 + 63 - std::countl_zero(earlier_minutes);
  }
  const uint32_t earlier_hours = cron.hours & ((uint32_t{1} << hour) - 1);
  if (earlier_hours == 0) return -1;
  return (31 - std::countl_zero(earlier_hours)) * 60 + 63 - std::countl_zero(cron.minutes);
}

}  // namespace

Result<Cron> ParseCron(std::string_view text) {
  if (text.size() > kTextBytesMax) {
    return Fail(Code::kInvalid, "a schedule has at most " + FormatCount(kTextBytesMax) +
                                    " bytes, not " + FormatCount(std::ssize(text)));
  }
  std::vector<std::string_view> written = Split(text, " \t");
  std::erase_if(written, [](std::string_view part) { return part.empty(); });
  Cron cron;
  cron.text.clear();
  for (const std::string_view part : written) {
    cron.text += (cron.text.empty() ? "" : " ") + std::string(part);
  }
  LITHIFY_TRY_ASSIGN(const std::string_view expanded, Expand(cron.text));
  const auto fields = Split(expanded, " ");
  if (fields.size() != kFields.size() || fields[0].empty()) {
    return Fail(Code::kInvalid,
                JsonQuote(text) + " has " + FormatCount(std::ssize(written)) +
                    " fields, and a schedule has five: " + std::string(kFieldNames),
                {}, "like \"0 2 * * *\": at two o'clock (UTC) every day");
  }
  std::array<uint64_t, 5> bits{};
  for (size_t i = 0; i < kFields.size(); ++i) {
    LITHIFY_TRY_ASSIGN(bits[i], ParseField(kFields[i], fields[i]));
  }
  bits[kDayOfWeek] = (bits[kDayOfWeek] | bits[kDayOfWeek] >> 7) & 0x7f;
  cron.minutes = bits[0];
  cron.hours = static_cast<uint32_t>(bits[1]);
  cron.days = static_cast<uint32_t>(bits[2]);
  cron.months = static_cast<uint32_t>(bits[3]);
  cron.weekdays = static_cast<uint32_t>(bits[kDayOfWeek]);
  cron.either_day = !fields[2].starts_with('*') && !fields[kDayOfWeek].starts_with('*');
  if (!EverFires(cron)) {
    return Fail(Code::kInvalid,
                JsonQuote(fields[2]) + " never comes in month " + JsonQuote(fields[3]) +
                    ": February has 1 to 29, April, June, September and November 1 to 30",
                std::string(kFields[2].name));
  }
  return cron;
}

std::optional<Time> LastFire(const Cron& cron, Time at_or_before) {
  if (at_or_before < kFirstDay) return std::nullopt;
  const Time until = std::min<Time>(at_or_before, kLastDay + hours(24) - Duration(1));
  const sys_days today = std::chrono::floor<days>(until);
  const auto day = DayUpTo(cron, today);
  if (day == today) {
    const int minute =
        MinuteUpTo(cron, static_cast<int>(std::chrono::floor<minutes>(until - today).count()));
    if (minute >= 0) return today + minutes(minute);
  } else if (day) {
    return *day + minutes(LastMinute(cron));
  }
  const auto before = DayUpTo(cron, today - days(1));
  if (!before) return std::nullopt;
  return *before + minutes(LastMinute(cron));
}

std::optional<Time> NextFire(const Cron& cron, Time after) {
  if (after >= kLastDay + hours(24)) return std::nullopt;
  const Time from =
      after < kFirstDay ? Time(kFirstDay) : Time(std::chrono::floor<minutes>(after) + minutes(1));
  const sys_days today = std::chrono::floor<days>(from);
  const auto day = DayFrom(cron, today);
  if (day == today) {
    const int minute =
        MinuteFrom(cron, static_cast<int>(std::chrono::floor<minutes>(from - today).count()));
    if (minute >= 0) return today + minutes(minute);
  } else if (day) {
    return *day + minutes(FirstMinute(cron));
  }
  const auto later = DayFrom(cron, today + days(1));
  if (!later) return std::nullopt;
  return *later + minutes(FirstMinute(cron));
}

int64_t FiresPer400Years(const Cron& cron) {
  constexpr sys_days kFrom = std::chrono::year(2000) / 1 / 1;
  constexpr sys_days kTo = std::chrono::year(2400) / 1 / 1;
  int64_t with_fires = 0;
  for (auto day = DayFrom(cron, kFrom); day && *day < kTo; day = DayFrom(cron, *day + days(1))) {
    ++with_fires;
  }
  return with_fires * std::popcount(cron.minutes) * std::popcount(cron.hours);
}

}  // namespace lithify::plan
