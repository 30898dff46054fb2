// When a schedule fires: five-field cron in UTC. Pure: no clock.
#ifndef LITHIFY_PLAN_CRON_H_
#define LITHIFY_PLAN_CRON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::plan {

// A parsed schedule: bit N of a field is set if N matches it. ParseCron alone makes one that is
// not the default, so every Cron has a fire; the default is "0 2 * * *".
struct Cron {
  uint64_t minutes = 1;            // Bits 0 to 59.
  uint32_t hours = 1 << 2;         // 0 to 23.
  uint32_t days = 0xffff'fffe;     // Of the month, 1 to 31.
  uint32_t months = 0x1ffe;        // 1 to 12.
  uint32_t weekdays = 0x7f;        // 0 to 6, 0 is Sunday.
  bool either_day = false;         // A day matches by `days` or `weekdays`; else by both.
  std::string text = "0 2 * * *";  // As it was written, with single blanks.
  bool operator==(const Cron&) const = default;
};

// minute hour day-of-month month day-of-week (R154): each a list of values, ranges "a-b", "*", and
// steps "*/n" and "a-b/n"; months and days of the week also by their three English letters, in any
// case; 7 is Sunday, too, and "fri-sun" ends with it. Or one of @hourly, @daily, @midnight,
// @weekly, @monthly, @yearly, @annually.
//
// As in Vixie's cron: if neither day field begins with "*", a day that matches either one matches;
// else it must match both.
//
// kInvalid, which names the field and what it may be: for anything else, for ranges that run
// backwards, and for schedules that never fire ("0 0 31 2 *").
Result<Cron> ParseCron(std::string_view text);

// The calendar of both: 1970-01-01 to 9999-12-31. A fire is the first instant of its minute.
// Bounded work: months and days are passed over by their bits, at most a few thousand of them (29
// February on one day of the week is up to 40 years away).
//
// The latest fire at or before the time; nullopt if there is none since 1970.
std::optional<Time> LastFire(const Cron& cron, Time at_or_before);
// The earliest fire after the time; nullopt if there is none before the year 10000.
std::optional<Time> NextFire(const Cron& cron, Time after);

// Days with a fire in 400 years (after which the calendar repeats), times the fires of such a day:
// tells which of two schedules fires less often.
int64_t FiresPer400Years(const Cron& cron);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_CRON_H_
