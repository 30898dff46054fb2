#include "plan/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/text.h"

namespace lithify::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Time At(std::string_view text) { return ParseTime(text).value(); }
Cron Parsed(std::string_view text) { return ParseCron(text).value(); }

std::string Next(std::string_view cron, std::string_view after) {
  const auto fire = NextFire(Parsed(cron), At(after));
  return fire ? FormatTime(*fire).substr(0, 16) : "none";
}

std::string Last(std::string_view cron, std::string_view at) {
  const auto fire = LastFire(Parsed(cron), At(at));
  return fire ? FormatTime(*fire).substr(0, 16) : "none";
}

TEST(Cron, NextAndLast) {
  EXPECT_EQ(Next("0 2 * * *", "2026-11-30T01:59:59Z"), "2026-11-30T02:00");
  EXPECT_EQ(Next("0 2 * * *", "2026-11-30T02:00:00Z"), "2026-12-01T02:00");
  EXPECT_EQ(Last("0 2 * * *", "2026-11-30T02:00:00Z"), "2026-11-30T02:00");
  EXPECT_EQ(Last("0 2 * * *", "2026-11-30T01:59:59.999999Z"), "2026-11-29T02:00");
  EXPECT_EQ(Next("*/15 8-9 * * *", "2026-11-30T08:45:00Z"), "2026-11-30T09:00");
  EXPECT_EQ(Next("*/15 8-9 * * *", "2026-11-30T09:45:00Z"), "2026-12-01T08:00");
  EXPECT_EQ(Last("5,35 * * * *", "2026-01-01T00:04:00Z"), "2025-12-31T23:35");
  EXPECT_EQ(Next("0 0 1 1 *", "2026-01-01T00:00:00Z"), "2027-01-01T00:00");
}

TEST(Cron, LeapDays) {
  EXPECT_EQ(Next("30 6 29 2 *", "2096-03-01"), "2104-02-29T06:30");  // 2100 has none.
  EXPECT_EQ(Last("30 6 29 2 *", "2104-02-29T06:29"), "2096-02-29T06:30");
  EXPECT_EQ(Next("0 0 29 2 *", "2000-01-01"), "2000-02-29T00:00");
  // On a Sunday, as the day of the week begins with a star: both must match.
  EXPECT_EQ(Next("0 0 29 2 */7", "2088-02-28"), "2088-02-29T00:00");
  EXPECT_EQ(Next("0 0 29 2 */7", "2088-02-29"), "2128-02-29T00:00");
}

// Both restricted: either (as in Vixie's cron). 2026-11-13 is a Friday.
TEST(Cron, EitherDayIfBothAreRestricted) {
  EXPECT_EQ(Next("0 0 13 * fri", "2026-11-01"), "2026-11-06T00:00");
  EXPECT_EQ(Next("0 0 13 * fri", "2026-12-12"), "2026-12-13T00:00");
  EXPECT_EQ(Next("0 0 * * fri", "2026-12-12"), "2026-12-18T00:00");
  EXPECT_EQ(Next("0 0 13 * *", "2026-11-01"), "2026-11-13T00:00");
  // A field that begins with a star does not restrict, though it has a step: both must match.
  EXPECT_EQ(Next("0 0 */10 * fri", "2026-11-01"), "2026-12-11T00:00");
  EXPECT_FALSE(Parsed("0 0 */10 * fri").either_day);
  EXPECT_TRUE(Parsed("0 0 1-31 * fri").either_day);
}

TEST(Cron, NamesAndSunday) {
  EXPECT_EQ(Parsed("0 0 * JAN,mar Mon-FRI").months, (1U << 1 | 1U << 3));
  EXPECT_EQ(Parsed("0 0 * * Mon-FRI").weekdays, 0x3eU);
  EXPECT_EQ(Parsed("0 0 * * 7").weekdays, 1U);
  EXPECT_EQ(Parsed("0 0 * * 0").weekdays, 1U);
  EXPECT_EQ(Parsed("0 0 * * 5-7").weekdays, 0x61U);
  EXPECT_EQ(Parsed("0 0 * * fri-sun").weekdays, 0x61U);
  EXPECT_EQ(Parsed("0 0 * * sun-tue").weekdays, 0x07U);
  EXPECT_EQ(Parsed("0 0 * * *").weekdays, 0x7fU);
  EXPECT_EQ(Parsed("0 0 * * 0-7").weekdays, 0x7fU);
  EXPECT_EQ(Parsed("0-10/5,50 * * * *").minutes, (uint64_t{1} | 1 << 5 | 1 << 10 | 1ULL << 50));
}

TEST(Cron, Shorthands) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"@hourly", "0 * * * *"},    {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
      {"@WEEKLY", "0 0 * * 0"},    {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
      {" @annually ", "0 0 1 1 *"}};
  for (const auto& [name, text] : same) {
    Cron cron = Parsed(name);
    EXPECT_NE(cron.text, text);
    cron.text = text;
    EXPECT_EQ(cron, Parsed(text)) << name;
  }
}

TEST(Cron, DefaultIsTwoOClock) { EXPECT_EQ(Cron{}, Parsed("0 2 * * *")); }

TEST(Cron, KeepsTheTextWithSingleBlanks) {
  EXPECT_EQ(Parsed("  0\t2  *  *   * ").text, "0 2 * * *");
}

TEST(Cron, ErrorsNameTheFieldAndTheRange) {
  const auto error = [](std::string_view text) {
    const auto cron = ParseCron(text);
    return cron ? "accepted" : cron.error().ToString();
  };
  EXPECT_EQ(error("60 2 * * *"), "invalid: minute: \"60\" is out of range; allowed is 0 to 59");
  EXPECT_EQ(error("0 24 * * *"), "invalid: hour: \"24\" is out of range; allowed is 0 to 23");
  EXPECT_THAT(error("0 0 0 * *"),
              HasSubstr("day-of-month: \"0\" is out of range; allowed is 1 to 31"));
  EXPECT_THAT(error("0 0 * 13 *"),
              HasSubstr("month: \"13\" is out of range; allowed is 1 to 12 or"));
  EXPECT_THAT(error("0 0 * * 8"),
              HasSubstr("day-of-week: \"8\" is out of range; allowed is 0 to 7"));
  EXPECT_THAT(error("0 0 * * SUNDAY"), HasSubstr("day-of-week: \"SUNDAY\" is no value of it"));
  EXPECT_THAT(error("0 0 * * ?"), HasSubstr("day-of-week: \"?\" is no value"));
  EXPECT_THAT(error("0 0 mon * *"), HasSubstr("day-of-month: \"mon\" is no value"));
  EXPECT_THAT(error("1,,2 0 * * *"), HasSubstr("minute: \"\" lacks a value"));
  EXPECT_THAT(error("5- 0 * * *"), HasSubstr("minute: \"5-\" lacks a value"));
  EXPECT_THAT(error("-5 0 * * *"), HasSubstr("minute: \"-5\" lacks a value"));
  EXPECT_THAT(error("1-2-3 0 * * *"), HasSubstr("minute: \"1-2-3\" is no value"));
  EXPECT_THAT(error("0 22-2 * * *"), AllOf(HasSubstr("hour: \"22-2\" runs backwards"),
                                           HasSubstr("0 to 23 (next: write it as two ranges")));
  EXPECT_THAT(error("0 0 * * fri-mon"), HasSubstr("day-of-week: \"fri-mon\" runs backwards"));
  EXPECT_THAT(error("*/0 * * * *"), HasSubstr("minute: \"*/0\" needs a step of 1 to 59"));
  EXPECT_THAT(error("*/90 * * * *"), HasSubstr("minute: \"*/90\" needs a step of 1 to 59"));
  EXPECT_THAT(error("*/ * * * *"), HasSubstr("minute: \"*/\" needs a step"));
  EXPECT_THAT(error("*/2/3 * * * *"), HasSubstr("minute: \"*/2/3\" needs a step"));
  EXPECT_THAT(error("5/15 * * * *"), HasSubstr("like 5-59/15"));
  EXPECT_THAT(error("99999999999999999999 * * * *"), HasSubstr("minute"));
  EXPECT_THAT(error(""), HasSubstr("has 0 fields, and a schedule has five: minute hour"));
  EXPECT_THAT(error("0 0 * *"), HasSubstr("has 4 fields"));
  EXPECT_THAT(error("0 0 0 * * *"), HasSubstr("has 6 fields"));
  EXPECT_THAT(error("@reboot"),
              AllOf(HasSubstr("\"@reboot\" is no schedule"), HasSubstr("@hourly")));
  EXPECT_THAT(error("@daily x"), HasSubstr("is no schedule"));
  EXPECT_THAT(error(std::string(1001, '0')), HasSubstr("at most 1,000 bytes, not 1,001"));
  EXPECT_THAT(error("\"\x01 0 * * *"), HasSubstr("\"\\\"\\u0001\" is no value"));
}

TEST(Cron, NeverFires) {
  for (const char* never : {"0 0 31 2 *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 2 */2"}) {
    const auto cron = ParseCron(never);
    ASSERT_FALSE(cron) << never;
    EXPECT_EQ(cron.error().context, "day-of-month");
    EXPECT_THAT(cron.error().message, HasSubstr("February has 1 to 29"));
  }
  EXPECT_TRUE(ParseCron("0 0 31 2,3 *"));
  EXPECT_TRUE(ParseCron("0 0 29 2 *"));
  EXPECT_EQ(Next("0 0 31 2 mon", "2026-11-30"), "2027-02-01T00:00");  // Either day.
}

TEST(Cron, EndsOfTheCalendar) {
  EXPECT_EQ(Next("0 2 * * *", "1969-07-20"), "1970-01-01T02:00");
  EXPECT_EQ(NextFire(Parsed("* * * * *"), Time::min()), Time{});
  EXPECT_EQ(LastFire(Parsed("* * * * *"), Time{}), Time{});
  EXPECT_EQ(LastFire(Parsed("* * * * *"), Time{} - Duration(1)), std::nullopt);
  EXPECT_EQ(LastFire(Parsed("* * * * *"), Time::min()), std::nullopt);
  EXPECT_EQ(Last("0 2 * * *", "1970-01-01T01:59"), "none");
  EXPECT_EQ(Next("59 23 31 12 *", "9999-12-31T23:58"), "9999-12-31T23:59");
  EXPECT_EQ(Next("59 23 31 12 *", "9999-12-31T23:59"), "none");
  EXPECT_EQ(NextFire(Parsed("* * * * *"), Time::max()), std::nullopt);
  EXPECT_EQ(LastFire(Parsed("* * * * *"), Time::max()), At("9999-12-31T23:59:00Z"));
}

TEST(Cron, FiresPer400Years) {
  EXPECT_EQ(FiresPer400Years(Parsed("0 2 * * *")), 146'097);
  EXPECT_EQ(FiresPer400Years(Parsed("*/30 * * * *")), 146'097 * 48);
  EXPECT_EQ(FiresPer400Years(Parsed("0 0 29 2 *")), 97);
  EXPECT_EQ(FiresPer400Years(Parsed("@weekly")), 20'871);
}

// The oracle: a schedule as sets, matched minute by minute, on a calendar that counts on its own.
struct Sets {
  std::array<std::set<int>, 5> values;  // Minute, hour, day, month, day of the week.
  bool day_star = false;
  bool week_star = false;
  std::string text;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int Between(int low, int high) {
    return low + static_cast<int>(random_.Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }

 private:
  SeededRandom random_;
};

constexpr std::array<std::pair<int, int>, 5> kRanges = {
    {{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}};

std::string Named(Draw& draw, size_t field, int value) {
  static const char* const kMonths[] = {"",    "Jan", "FEB", "mar", "apr", "may", "jun",
                                        "jul", "aug", "sep", "oct", "nov", "DEC"};
  static const char* const kDays[] = {"SUN", "Mon", "tue", "wed", "thu", "fri", "sat"};
  if (field == 3 && draw.OneIn(2)) return kMonths[value];
  if (field == 4 && value < 7 && draw.OneIn(2)) return kDays[value];
  return std::to_string(value);
}

std::string DrawPart(Draw& draw, size_t field, std::set<int>& values) {
  const auto [min, max] = kRanges[field];
  const auto add = [&](int value) { values.insert(field == 4 ? value % 7 : value); };
  const int step = draw.OneIn(2) ? 1 : draw.Between(1, max);
  const std::string slash = step == 1 && draw.OneIn(2) ? "" : "/" + std::to_string(step);
  switch (draw.Between(0, 2)) {
    case 0: {
      const int value = draw.Between(min, max);
      add(value);
      return Named(draw, field, value);
    }
    case 1: {
      const int first = draw.Between(min, max);
      const int last = draw.Between(first, max);
      for (int value = first; value <= last; value += step) add(value);
      return Named(draw, field, first) + "-" + Named(draw, field, last) + slash;
    }
    default:
      for (int value = min; value <= max; value += step) add(value);
      return "*" + slash;
  }
}

Sets DrawSets(uint64_t seed) {
  Draw draw(seed);
  Sets sets;
  for (size_t field = 0; field < 5; ++field) {
    std::string text;
    for (int parts = draw.OneIn(3) ? draw.Between(1, 4) : 1; parts > 0; --parts) {
      text += (text.empty() ? "" : ",") + DrawPart(draw, field, sets.values[field]);
    }
    if (field == 2) sets.day_star = text.starts_with('*');
    if (field == 4) sets.week_star = text.starts_with('*');
    sets.text += (field == 0 ? "" : " ") + text;
  }
  return sets;
}

// Steps through the days from 1970 on, by the rule of the leap years alone.
struct Calendar {
  int year = 1970;
  int month = 1;
  int day = 1;
  int week = 4;  // A Thursday.
  int64_t number = 0;

  int DaysInMonth() const {
    if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  }
  void Step() {
    ++number;
    week = (week + 1) % 7;
    if (++day <= DaysInMonth()) return;
    day = 1;
    if (++month <= 12) return;
    month = 1;
    ++year;
  }
};

bool MatchesDay(const Sets& sets, const Calendar& at) {
  if (!sets.values[3].contains(at.month)) return false;
  const bool by_day = sets.values[2].contains(at.day);
  const bool by_week = sets.values[4].contains(at.week);
  return sets.day_star || sets.week_star ? by_day && by_week : by_day || by_week;
}

// All fires of the days [from, to), by number, as minutes since 1970.
std::vector<int64_t> FiresOf(const Sets& sets, int64_t from, int64_t to) {
  std::vector<int64_t> fires;
  for (Calendar at; at.number < to; at.Step()) {
    if (at.number < from || !MatchesDay(sets, at)) continue;
    for (int minute = 0; minute < 24 * 60; ++minute) {
      if (sets.values[0].contains(minute % 60) && sets.values[1].contains(minute / 60)) {
        fires.push_back(at.number * 24 * 60 + minute);
      }
    }
  }
  return fires;
}

Time Minute(int64_t minute) { return Time{std::chrono::minutes(minute)}; }

// Compares every fire of 40 days; what differs, or nothing.
std::string CheckFires(const Sets& sets, int64_t from) {
  const auto cron = ParseCron(sets.text);
  if (!cron) {  // Never fires, it says: so not in 44 years.
    const bool right = cron.error().context == "day-of-month" && FiresOf(sets, 0, 44 * 366).empty();
    return right ? "" : "refused: " + sets.text;
  }
  const std::string where = sets.text + " from day " + std::to_string(from) + ": ";
  const int64_t to = from + 40;
  const std::vector<int64_t> fires = FiresOf(sets, from, to);
  Time at = Minute(from * 24 * 60) - Duration(1);
  for (const int64_t fire : fires) {
    const auto next = NextFire(*cron, at);
    if (next != Minute(fire)) return where + "next is not " + FormatTime(Minute(fire));
    if (LastFire(*cron, *next) != next) return where + "not its own last";
    if (fire != fires.front() && LastFire(*cron, *next - Duration(1)) != at) {
      return where + "last before " + FormatTime(*next);
    }
    at = *next;
  }
  const Time end = Minute(to * 24 * 60);
  if (NextFire(*cron, at) < end) return where + "one too many after " + FormatTime(at);
  if (!fires.empty() && LastFire(*cron, end - Duration(1)) != at) return where + "last of all";
  return "";
}

TEST(CronProperty, AgreesWithSteppingThroughMinutes) {
  EXPECT_TRUE(rc::check("every fire, forwards and backwards", [](uint64_t seed, uint32_t anywhere) {
    for (uint64_t i = 0; i < 20; ++i) {
      RC_ASSERT(CheckFires(DrawSets(seed + i), anywhere % 50'000) == "");  // Up to 2106.
    }
  }));
}

// Over long gaps: the next fire is one, and no day between has any.
TEST(CronProperty, LongGaps) {
  EXPECT_TRUE(rc::check("no fire is passed over", [](uint64_t seed, uint32_t anywhere) {
    Sets sets = DrawSets(seed);
    sets.values[2] = {29};
    sets.values[3] = {2};
    const int step = 1 + static_cast<int>(seed % 7);
    sets.values[4].clear();
    for (int value = 0; value <= 7; value += step) sets.values[4].insert(value % 7);
    sets.day_star = false;
    sets.week_star = true;
    const Cron cron = ParseCron("0 0 29 2 */" + std::to_string(step)).value();
    sets.values[0] = sets.values[1] = {0};
    const int64_t from = anywhere % 120'000;  // Up to 2298.
    const auto next = NextFire(cron, Minute(from * 24 * 60));
    RC_ASSERT(next.has_value());
    const int64_t day = next->time_since_epoch() / std::chrono::days(1);
    RC_ASSERT(day - from < 41 * 366);
    RC_ASSERT(FiresOf(sets, from + 1, day + 1) == std::vector<int64_t>{day * 24 * 60});
    RC_ASSERT(LastFire(cron, *next + std::chrono::hours(1)) == next);
  }));
}

TEST(CronProperty, AnyTextIsReadOrRefused) {
  EXPECT_TRUE(rc::check("no text is harmful", [](const std::vector<uint8_t>& bytes) {
    static constexpr std::string_view kLetters = "0123456789*/,- \t@janmonsufri7";
    std::string text;
    for (const uint8_t byte : bytes) text += kLetters[byte % kLetters.size()];
    const auto cron = ParseCron(text);
    if (!cron) {
      RC_ASSERT(cron.error().code == Code::kInvalid);
      RC_ASSERT(!cron.error().message.empty());
    } else {
      RC_ASSERT(ParseCron(cron->text).value() == *cron);
      RC_ASSERT(NextFire(*cron, Time{}).has_value());
    }
  }));
}

}  // namespace
}  // namespace lithify::plan
