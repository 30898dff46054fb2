#include "plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"

namespace lithify::plan {

void PrintTo(Due due, std::ostream* os) { *os << DueName(due); }
void PrintTo(Trigger trigger, std::ostream* os) { *os << TriggerName(trigger); }

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kTable = "lake.sales.orders";

Time At(std::string_view text) { return ParseTime(text).value(); }

// "0 2 * * *" without jitter and quiet window.
ScheduleOptions Nightly() {
  ScheduleOptions options;
  options.jitter = Duration::zero();
  options.quiet = Duration::zero();
  return options;
}

ScheduleOptions On(std::string_view cron) {
  ScheduleOptions options = Nightly();
  options.cron = ParseCron(cron).value();
  return options;
}

TableHistory RunAt(std::string_view started, const ScheduleOptions& options = Nightly()) {
  TableHistory history;
  RecordSettled(history, options, At(started));
  return history;
}

DueVerdict Decide(const TableHistory& history, const ScheduleOptions& options,
                  std::string_view now) {
  return DecideDue(history, options, kTable, At(now));
}

void Fail(TableHistory& history, const ScheduleOptions& options, std::string_view ended, Code code,
          std::string reason = "no answer") {
  Record(history, options,
         {.started = At(ended) - seconds(10), .ended = At(ended), .code = code, .reason = reason});
}

TEST(Schedule, R157DueOnceAFireIsNotSettled) {
  const ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-29T02:00:30Z");
  DueVerdict verdict = Decide(history, options, "2026-11-30T01:59:59Z");
  EXPECT_EQ(verdict.due, Due::kNotYet);
  EXPECT_EQ(verdict.trigger, Trigger::kNone);
  EXPECT_EQ(verdict.until, At("2026-11-30T02:00:00Z"));
  EXPECT_EQ(verdict.reason,
            "the next fire is at 2026-11-30T02:00:00Z, in 1.0 s; last run 2026-11-29T02:00:30Z");

  verdict = Decide(history, options, "2026-11-30T02:00:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.trigger, Trigger::kFire);
  EXPECT_EQ(verdict.fire, At("2026-11-30T02:00:00Z"));
  EXPECT_EQ(verdict.next_fire, At("2026-12-01T02:00:00Z"));
  EXPECT_EQ(verdict.coalesced, 0);
  EXPECT_EQ(verdict.let_go, 0);
  EXPECT_EQ(verdict.warning, "");

  Record(history, options,
         {.started = At("2026-11-30T02:00:00Z"), .ended = At("2026-11-30T02:20:00Z")});
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:20:00Z").due, Due::kNotYet);
  EXPECT_EQ(Decide(history, options, "2026-12-01T01:59:59Z").due, Due::kNotYet);
  EXPECT_EQ(Decide(history, options, "2026-12-01T02:00:00Z").due, Due::kDue);
}

// T18: a late tick, or a process that was down, loses nothing.
TEST(Schedule, T18LateTickIsStillDue) {
  const TableHistory history = RunAt("2026-11-29T02:00:30Z");
  const DueVerdict verdict = Decide(history, Nightly(), "2026-11-30T17:00:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.reason,
            "the fire of 2026-11-30T02:00:00Z, 15 h 00 min ago, was not run; "
            "last run 2026-11-29T02:00:30Z");
  EXPECT_EQ(verdict.until, At("2026-12-01T02:00:00.000001Z"));  // Too old from then on.
}

TEST(Schedule, FireDuringARunIsNotSettledByIt) {
  const ScheduleOptions options = On("0 * * * *");
  TableHistory history;
  Record(history, options,
         {.started = At("2026-11-30T01:59:00Z"), .ended = At("2026-11-30T02:30:00Z")});
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:30:00Z").fire, At("2026-11-30T02:00:00Z"));
}

TEST(Schedule, MissedFiresCoalesce) {
  const ScheduleOptions options = On("0 * * * *");
  TableHistory history = RunAt("2026-11-29T20:00:10Z", options);
  const DueVerdict verdict = Decide(history, options, "2026-11-30T05:30:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.fire, At("2026-11-30T05:00:00Z"));
  EXPECT_EQ(verdict.coalesced, 8);
  EXPECT_EQ(verdict.let_go, 0);
  EXPECT_THAT(verdict.reason, HasSubstr("settles 8 earlier fires, too"));
  RecordSettled(history, options, At("2026-11-30T05:30:00Z"));
  EXPECT_EQ(Decide(history, options, "2026-11-30T05:59:00Z").due, Due::kNotYet);
}

TEST(Schedule, FiresBeyondTheWindowAreLetGo) {
  ScheduleOptions options = On("0 * * * *");
  options.catch_up = hours(3);
  options.quiet_wait_max = hours(1);
  const TableHistory history = RunAt("2026-11-29T20:00:10Z", options);
  DueVerdict verdict = Decide(history, options, "2026-11-30T05:30:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.coalesced, 2);  // 03:00, 04:00.
  EXPECT_EQ(verdict.let_go, 6);     // 21:00 to 02:00.
  EXPECT_THAT(verdict.reason, HasSubstr("6 older than 3 h 00 min are let go"));

  // No fire within the window: told, with the number.
  options.cron = ParseCron("0 2 * * *").value();
  verdict = Decide(history, options, "2026-11-30T05:00:00.000001Z");
  EXPECT_EQ(verdict.due, Due::kLetGo);
  EXPECT_EQ(verdict.let_go, 1);
  EXPECT_EQ(verdict.until, At("2026-12-01T02:00:00Z"));
  EXPECT_EQ(verdict.reason,
            "the fire of 2026-11-30T02:00:00Z is 3 h 00 min old, beyond the catch-up window of "
            "3 h 00 min: 1 fire is let go; the next fire is at 2026-12-01T02:00:00Z, in 21 h 00 "
            "min");
  EXPECT_EQ(Decide(history, options, "2026-11-30T05:00:00Z").due, Due::kDue);
}

TEST(Schedule, BoundsThatDoNotFitTogether) {
  ScheduleOptions options = On("* * * * *");
  options.catch_up = Duration::zero();  // A minute all the same.
  options.backoff_min = Duration::zero();
  options.backoff_max = Duration::zero();
  options.quiet = hours(1);
  const TableHistory history = RunAt("2026-11-30T02:00:00Z", options);
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:01:59Z").due, Due::kDue);
  EXPECT_EQ(BackoffOf(kTable, 1000, options).count() / 1'000'000, 0);
  EXPECT_GT(BackoffOf(kTable, 1000, options), std::chrono::milliseconds(750));
  TableHistory busy = history;
  Observe(busy, options,
          {.now = At("2026-11-30T02:01:20Z"),
           .snapshot_id = 1,
           .snapshot_at = At("2026-11-30T02:01:20Z")});
  EXPECT_EQ(Decide(busy, options, "2026-11-30T02:01:20Z").until, At("2026-11-30T02:01:30Z"));
}

// Rows of a log come in any order.
TEST(Schedule, SettledRunsAreSorted) {
  const ScheduleOptions options = Nightly();
  TableHistory history;
  for (const char* started :
       {"2026-11-28T02:00:00Z", "2026-11-30T02:00:00Z", "2026-11-20T02:00:00Z",
        "2026-11-29T02:00:00Z", "2026-11-10T02:00:00Z", "2026-10-10T02:00:00Z",
        "2026-11-21T12:00:00Z", "2026-10-01T02:00:00Z"}) {
    RecordSettled(history, options, At(started));
  }
  EXPECT_EQ(history.last_run(), At("2026-11-30T02:00:00Z"));
  ASSERT_EQ(history.settled.size(), 4U);
  EXPECT_EQ(history.settled[3].from, At("2026-11-19T02:00:00Z"));  // Joined: 6 days apart.
  EXPECT_EQ(history.settled[2].to, At("2026-11-10T02:00:00Z"));
  EXPECT_EQ(history.settled[0].from, At("2026-09-30T02:00:00Z"));
  EXPECT_TRUE(std::ranges::is_sorted(history.settled, {}, &TableHistory::Span::from));
}

// A run stands for the last fire before it, even for one that had been let go.
TEST(Schedule, RunOfAnotherCauseSettlesWhatWasLetGo) {
  const ScheduleOptions options = On("0 2 * * 0");  // 2026-11-29 is a Sunday.
  TableHistory history = RunAt("2026-11-22T02:00:10Z", options);
  EXPECT_EQ(Decide(history, options, "2026-12-02T12:00:00Z").due, Due::kLetGo);
  RecordSettled(history, options, At("2026-12-02T12:00:00Z"));
  EXPECT_EQ(Decide(history, options, "2026-12-02T12:30:00Z").due, Due::kNotYet);
}

TEST(Schedule, CountingStopsAtAThousand) {
  const ScheduleOptions options = On("* * * * *");
  const TableHistory history = RunAt("2026-11-01T00:00:30Z", options);
  const DueVerdict verdict = Decide(history, options, "2026-11-30T00:00:30Z");
  EXPECT_EQ(verdict.coalesced + verdict.let_go, 1000);
  EXPECT_THAT(verdict.reason, HasSubstr("settles 1,000 or more earlier fires"));
}

TEST(Schedule, NewTableWaitsForItsFirstFire) {
  ScheduleOptions options = Nightly();
  TableHistory history;
  EXPECT_EQ(Observe(history, options, {.now = At("2026-11-29T14:00:00Z")}), "");
  EXPECT_EQ(history.first_seen, At("2026-11-29T14:00:00Z"));
  EXPECT_EQ(Observe(history, options, {.now = At("2026-11-29T15:00:00Z")}), "");
  EXPECT_EQ(history.first_seen, At("2026-11-29T14:00:00Z"));
  const DueVerdict verdict = Decide(history, options, "2026-11-29T15:00:00Z");
  EXPECT_EQ(verdict.due, Due::kNotYet);
  EXPECT_THAT(verdict.reason, HasSubstr("; never run"));
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:00:00Z").due, Due::kDue);
  EXPECT_EQ(Decide(history, options, "2026-11-30T09:00:00Z").due, Due::kDue);

  options.new_tables_at_once = true;
  EXPECT_EQ(Decide(history, options, "2026-11-29T15:00:00Z").fire, At("2026-11-29T02:00:00Z"));
  // Nothing at all is known: rather once too often.
  EXPECT_EQ(Decide({}, Nightly(), "2026-11-29T15:00:00Z").due, Due::kDue);
}

TEST(Schedule, R155JitterIsStableAndWithinItsBound) {
  ScheduleOptions options = Nightly();
  options.jitter = seconds(900);
  const Duration jitter = JitterOf(kTable, options.jitter);
  EXPECT_EQ(jitter, seconds(StableHash(kTable) % 900));
  EXPECT_GT(jitter, Duration::zero());
  const Time fire = At("2026-11-30T02:00:00Z") + jitter;
  const TableHistory history = RunAt("2026-11-29T12:00:00Z", options);
  EXPECT_EQ(DecideDue(history, options, kTable, fire - Duration(1)).due, Due::kNotYet);
  EXPECT_EQ(DecideDue(history, options, kTable, fire - Duration(1)).next_fire, fire);
  EXPECT_EQ(DecideDue(history, options, kTable, fire).fire, fire);
  std::set<Duration> all;
  for (int i = 0; i < 1000; ++i) {
    const Duration one = JitterOf("lake.ns.t" + std::to_string(i), options.jitter);
    EXPECT_LT(one, options.jitter);
    EXPECT_GE(one, Duration::zero());
    all.insert(one);
  }
  EXPECT_GT(all.size(), 500U);  // Spread.
  EXPECT_EQ(JitterOf(kTable, Duration::zero()), Duration::zero());
  EXPECT_EQ(JitterOf(kTable, std::chrono::milliseconds(999)), Duration::zero());
}

// Vectors of the FNV authors.
TEST(Schedule, StableHashIsFnv1a) {
  EXPECT_EQ(StableHash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(StableHash("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(StableHash("foobar"), 0x85944171f73967e8U);
}

// A last run later than now + skew is unknown; what was settled before now stays settled.
TEST(Schedule, ClockThatJumpsBack) {
  const ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-28T02:00:10Z");
  RecordSettled(history, options, At("2026-11-29T02:00:10Z"));
  RecordSettled(history, options, At("2099-01-01T02:00:10Z"));  // By a clock that was wrong.
  const DueVerdict verdict = Decide(history, options, "2026-11-30T03:00:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.fire, At("2026-11-30T02:00:00Z"));
  EXPECT_THAT(verdict.warning,
              AllOf(HasSubstr("a run is of 2099-01-01T02:00:10Z"),
                    HasSubstr("clocks may differ by 5 min 00 s"), HasSubstr("taken as unknown")));
  // The fire before that had been run.
  EXPECT_EQ(Decide(history, options, "2026-11-30T01:00:00Z").due, Due::kNotYet);

  EXPECT_EQ(Observe(history, options, {.now = At("2026-11-30T03:00:00Z")}), verdict.warning);
  EXPECT_EQ(history.last_run(), At("2026-11-29T02:00:10Z"));
  EXPECT_EQ(Decide(history, options, "2026-11-30T03:00:00Z").warning, "");
  EXPECT_EQ(Decide(history, options, "2026-11-30T03:00:00Z").due, Due::kDue);
}

TEST(Schedule, ClocksThatDifferByLessThanTheSkew) {
  const ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-30T02:03:00Z");
  EXPECT_EQ(Observe(history, options, {.now = At("2026-11-30T01:58:00Z")}), "");
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:01:00Z").due, Due::kNotYet);
  EXPECT_EQ(Decide(history, options, "2026-12-01T02:00:00Z").due, Due::kDue);
  EXPECT_NE(Observe(history, options, {.now = At("2026-11-30T01:57:59Z")}), "");
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:01:00Z").due, Due::kDue);
}

TEST(Schedule, ClockThatJumpsAheadAndBack) {
  const ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-30T02:00:10Z");
  const DueVerdict ahead = Decide(history, options, "2027-06-01T14:00:00Z");
  EXPECT_EQ(ahead.due, Due::kDue);
  EXPECT_EQ(ahead.coalesced, 0);
  EXPECT_EQ(ahead.let_go, 182);
  RecordSettled(history, options, At("2027-06-01T14:00:00Z"));
  Observe(history, options, {.now = At("2026-11-30T15:00:00Z")});
  EXPECT_EQ(Decide(history, options, "2026-11-30T15:00:00Z").due, Due::kNotYet);
  EXPECT_EQ(Decide(history, options, "2026-12-01T02:00:00Z").due, Due::kDue);
}

TEST(Schedule, WaitsOfAWrongClockAreCounted) {
  ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-29T02:00:10Z");
  for (int i = 0; i < 5; ++i) Fail(history, options, "2031-01-01T00:00:00Z", Code::kTransient);
  EXPECT_THAT(Observe(history, options, {.now = At("2026-11-30T03:00:00Z")}),
              HasSubstr("(1 more such times)"));
  EXPECT_EQ(Decide(history, options, "2026-11-30T03:00:00Z").until, At("2026-12-01T03:00:00Z"));
}

TEST(Schedule, R159QuietWindow) {
  ScheduleOptions options = Nightly();
  options.quiet = minutes(2);
  TableHistory history = RunAt("2026-11-29T02:00:10Z");
  const auto look = [&](std::string_view now, int64_t id, std::string_view of) {
    Observe(history, options, {.now = At(now), .snapshot_id = id, .snapshot_at = At(of)});
    return Decide(history, options, now);
  };
  DueVerdict verdict = look("2026-11-30T02:00:00Z", 1, "2026-11-30T01:59:30Z");
  EXPECT_EQ(verdict.due, Due::kNotQuiet);
  EXPECT_EQ(verdict.trigger, Trigger::kFire);
  EXPECT_EQ(verdict.until, At("2026-11-30T02:01:30Z"));
  EXPECT_EQ(verdict.reason,
            "the newest snapshot is 30.0 s old, younger than the quiet window of 2 min 00 s: "
            "waits until 2026-11-30T02:01:30Z, in 1 min 30 s, at most 1 h 00 min in all");
  verdict = look("2026-11-30T02:01:30Z", 2, "2026-11-30T02:01:00Z");
  EXPECT_EQ(verdict.until, At("2026-11-30T02:03:00Z"));
  EXPECT_EQ(look("2026-11-30T02:03:00Z", 2, "2026-11-30T02:01:00Z").due, Due::kDue);
  // A table that is never quiet waits no longer than so.
  verdict = look("2026-11-30T02:59:00Z", 3, "2026-11-30T02:58:59Z");
  EXPECT_EQ(verdict.until, At("2026-11-30T03:00:00Z"));
  EXPECT_EQ(look("2026-11-30T03:00:00Z", 4, "2026-11-30T03:00:00Z").due, Due::kDue);
}

TEST(Schedule, QuietWaitIsBoundedFromTheOldestOpenFire) {
  ScheduleOptions options = On("* * * * *");
  options.quiet = minutes(2);
  TableHistory history = RunAt("2026-11-30T02:00:00Z", options);
  int64_t id = 0;
  Time now = At("2026-11-30T02:00:30Z");
  DueVerdict verdict;
  do {  // A commit every half a minute, a fire every minute.
    now += seconds(30);
    Observe(history, options, {.now = now, .snapshot_id = ++id, .snapshot_at = now});
    verdict = DecideDue(history, options, kTable, now);
    ASSERT_LE(now, At("2026-11-30T03:01:00Z"));
  } while (verdict.due != Due::kDue);
  EXPECT_EQ(now, At("2026-11-30T03:01:00Z"));
}

TEST(Schedule, WriterWhoseClockIsAhead) {
  ScheduleOptions options = Nightly();
  options.quiet = minutes(2);
  TableHistory history = RunAt("2026-11-29T02:00:10Z");
  Observe(history, options,
          {.now = At("2026-11-30T02:00:00Z"), .snapshot_id = 1, .snapshot_at = At("2027-01-01")});
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:00:00Z").until, At("2026-11-30T02:02:00Z"));
  Observe(history, options,
          {.now = At("2026-11-30T02:01:00Z"),
           .snapshot_id = 2,
           .snapshot_at = Time::max() - Duration(1)});
  EXPECT_EQ(history.snapshot_at, std::nullopt);
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:01:00Z").until, At("2026-11-30T02:03:00Z"));
}

TEST(Schedule, OnEvent) {
  ScheduleOptions options = Nightly();
  options.on_event = true;
  TableHistory history;
  const auto look = [&](std::string_view now, int64_t id) {
    Observe(history, options, {.now = At(now), .snapshot_id = id, .snapshot_at = At(now)});
    return Decide(history, options, now);
  };
  Record(history, options,
         {.started = At("2026-11-30T02:00:00Z"),
          .ended = At("2026-11-30T02:05:00Z"),
          .snapshot_id = 7});
  EXPECT_EQ(look("2026-11-30T02:06:00Z", 7).due, Due::kNotYet);  // Its own commit.
  const DueVerdict soon = look("2026-11-30T02:10:00Z", 8);
  EXPECT_EQ(soon.due, Due::kTooSoon);
  EXPECT_EQ(soon.until, At("2026-11-30T03:00:00Z"));
  EXPECT_EQ(soon.reason,
            "the table has changed, but it is run at most every 1 h 00 min: again at "
            "2026-11-30T03:00:00Z, in 50 min 00 s");
  const DueVerdict due = look("2026-11-30T03:00:00Z", 8);
  EXPECT_EQ(due.due, Due::kDue);
  EXPECT_EQ(due.trigger, Trigger::kEvent);
  EXPECT_EQ(due.until, std::nullopt);
  EXPECT_THAT(due.reason, HasSubstr("the table has changed: snapshot 8; last run"));
  // Others committed while it ran: it dealt with 8 only.
  Record(history, options,
         {.started = At("2026-11-30T03:00:00Z"),
          .ended = At("2026-11-30T03:05:00Z"),
          .snapshot_id = 8});
  EXPECT_EQ(look("2026-11-30T03:06:00Z", 10).due, Due::kTooSoon);
  EXPECT_EQ(look("2026-11-30T04:00:00Z", 10).due, Due::kDue);
  options.on_event = false;
  EXPECT_EQ(Decide(history, options, "2026-11-30T04:00:00Z").due, Due::kNotYet);
}

TEST(Schedule, OnEventAfterTheQuietWindow) {
  ScheduleOptions options = Nightly();
  options.on_event = true;
  options.quiet = minutes(1);
  TableHistory history;
  Observe(history, options,
          {.now = At("2026-11-30T12:00:00Z"),
           .snapshot_id = 1,
           .snapshot_at = At("2026-11-30T11:59:30Z")});
  const DueVerdict verdict = Decide(history, options, "2026-11-30T12:00:00Z");
  EXPECT_EQ(verdict.due, Due::kNotQuiet);
  EXPECT_EQ(verdict.trigger, Trigger::kEvent);
  EXPECT_EQ(verdict.until, At("2026-11-30T12:00:30Z"));
  EXPECT_EQ(Decide(history, options, "2026-11-30T12:00:30Z").due, Due::kDue);
  // An empty table has nothing to do.
  Observe(history, options, {.now = At("2026-11-30T12:01:00Z")});
  EXPECT_EQ(Decide(history, options, "2026-11-30T12:01:00Z").due, Due::kNotYet);
}

TEST(Schedule, OnDemand) {
  ScheduleOptions options = Nightly();
  options.on_demand = true;
  options.quiet = minutes(1);
  TableHistory history = RunAt("2026-11-30T02:00:10Z");
  Observe(history, options,
          {.now = At("2026-11-30T12:00:00Z"),
           .snapshot_id = 1,
           .snapshot_at = At("2026-11-30T12:00:00Z")});
  const DueVerdict verdict = Decide(history, options, "2026-11-30T12:00:00Z");
  EXPECT_EQ(verdict.due, Due::kDue);
  EXPECT_EQ(verdict.trigger, Trigger::kDemand);
  EXPECT_EQ(verdict.reason, "asked for; last run 2026-11-30T02:00:10Z");
  Fail(history, options, "2026-11-30T12:01:00Z", Code::kTransient);
  EXPECT_EQ(Decide(history, options, "2026-11-30T12:01:10Z").due, Due::kBackingOff);
}

TEST(Schedule, BackoffDoublesWithinItsBounds) {
  ScheduleOptions options = Nightly();
  for (const int n : {1, 2, 3, 9, 10, 1000, std::numeric_limits<int>::max()}) {
    const Duration full = n > 9 ? options.backoff_max
                                : std::min<Duration>(options.backoff_max, minutes(1 << (n - 1)));
    const Duration delay = BackoffOf(kTable, n, options);
    EXPECT_LE(delay, full) << n;
    EXPECT_GT(delay, full / 4 * 3) << n;
    EXPECT_EQ(delay, BackoffOf(kTable, n, options));
  }
  EXPECT_NE(BackoffOf("a", 3, options), BackoffOf("b", 3, options));
}

TEST(Schedule, FailedFireIsTriedAgain) {
  ScheduleOptions options = Nightly();
  TableHistory history = RunAt("2026-11-29T02:00:10Z");
  Fail(history, options, "2026-11-30T02:00:20Z", Code::kTransient, "503 from the catalog");
  Fail(history, options, "2026-11-30T02:02:00Z", Code::kTransient, "503 from the catalog");
  const Time again = At("2026-11-30T02:02:00Z") + BackoffOf(kTable, 2, options);
  const DueVerdict verdict = Decide(history, options, "2026-11-30T02:02:00Z");
  EXPECT_EQ(verdict.due, Due::kBackingOff);
  EXPECT_EQ(verdict.until, again);
  EXPECT_THAT(verdict.reason,
              HasSubstr("2 attempts in a row without an end (the last attempt: transient: 503 from "
                        "the catalog): again at 2026-11-30T02:0"));
  const DueVerdict retry = DecideDue(history, options, kTable, again);
  EXPECT_EQ(retry.due, Due::kDue);
  EXPECT_EQ(retry.fire, At("2026-11-30T02:00:00Z"));
  Record(history, options, {.started = again, .ended = again + minutes(1)});
  EXPECT_EQ(history.attempts_in_row, 0);
  EXPECT_EQ(history.failures_in_row, 0);
  EXPECT_EQ(history.last_reason, "");
  EXPECT_EQ(Decide(history, options, "2026-11-30T12:00:00Z").due, Due::kNotYet);
}

TEST(Schedule, BreakerOpensHalfOpensAndCloses) {
  ScheduleOptions options = On("0 * * * *");
  options.breaker_failures = 3;
  options.breaker_cooldown = hours(12);
  TableHistory history = RunAt("2026-11-29T02:00:10Z", options);
  Fail(history, options, "2026-11-30T02:00:00Z", Code::kTransient);
  Fail(history, options, "2026-11-30T03:00:00Z", Code::kTransient);
  EXPECT_EQ(Decide(history, options, "2026-11-30T04:00:00Z").due, Due::kDue);
  Fail(history, options, "2026-11-30T04:00:00Z", Code::kTransient, "disk full");
  const DueVerdict open = Decide(history, options, "2026-11-30T15:59:59Z");
  EXPECT_EQ(open.due, Due::kBreakerOpen);
  EXPECT_EQ(open.until, At("2026-11-30T16:00:00Z"));
  EXPECT_EQ(open.reason,
            "the breaker is open after 3 failures in a row (the last attempt: transient: disk "
            "full): one try at 2026-11-30T16:00:00Z, in 1.0 s");
  const DueVerdict half = Decide(history, options, "2026-11-30T16:00:00Z");
  EXPECT_EQ(half.due, Due::kDue);
  EXPECT_TRUE(half.half_open);
  EXPECT_THAT(half.reason, HasSubstr("the one try after 3 failures in a row"));

  TableHistory failed = history;
  Fail(failed, options, "2026-11-30T16:10:00Z", Code::kTransient);
  EXPECT_EQ(Decide(failed, options, "2026-11-30T18:00:00Z").until, At("2026-12-01T04:10:00Z"));
  EXPECT_EQ(Decide(failed, options, "2026-11-30T18:00:00Z").due, Due::kBreakerOpen);

  Record(history, options,
         {.started = At("2026-11-30T16:00:00Z"), .ended = At("2026-11-30T16:10:00Z")});
  const DueVerdict closed = Decide(history, options, "2026-11-30T17:00:00Z");
  EXPECT_EQ(closed.due, Due::kDue);
  EXPECT_FALSE(closed.half_open);

  options.breaker_failures = 0;  // There is none.
  EXPECT_EQ(Decide(failed, options, "2026-11-30T22:30:00Z").due, Due::kDue);
}

TEST(Schedule, WhoMendedItNeedNotWait) {
  ScheduleOptions options = On("0 2 * * *");
  options.breaker_failures = 2;
  TableHistory history;
  for (const char* at : {"2026-11-29T02:00:00Z", "2026-11-29T09:00:00Z"}) {
    Record(history, options, {.started = At(at), .ended = At(at), .code = Code::kTransient});
  }
  TableHistory before = history;
  EXPECT_EQ(Decide(history, options, "2026-11-29T10:00:00Z").due, Due::kBreakerOpen);
  ForgetFailures(history);
  EXPECT_EQ(Decide(history, options, "2026-11-29T10:00:00Z").due, Due::kDue);
  EXPECT_EQ(history.settled, before.settled);
  EXPECT_EQ(history.last_code, before.last_code);  // It is known what went wrong.
  // The next failure is the first one.
  Record(history, options,
         {.started = At("2026-11-29T10:00:00Z"),
          .ended = At("2026-11-29T10:00:00Z"),
          .code = Code::kTransient});
  EXPECT_EQ(Decide(history, options, "2026-11-29T10:00:01Z").due, Due::kBackingOff);
}

TEST(Schedule, ConflictsAndDenialsBackOffButDoNotOpenTheBreaker) {
  const ScheduleOptions options = Nightly();
  for (const Code code : {Code::kConflict, Code::kDenied}) {
    TableHistory history = RunAt("2026-11-29T02:00:10Z");
    for (int i = 0; i < 20; ++i) Fail(history, options, "2026-11-30T02:00:00Z", code);
    EXPECT_EQ(history.failures_in_row, 0);
    const DueVerdict verdict = Decide(history, options, "2026-11-30T03:00:00Z");
    EXPECT_EQ(verdict.due, Due::kBackingOff) << CodeName(code);
    EXPECT_LE(*verdict.until, At("2026-11-30T02:00:00Z") + options.backoff_max);
  }
  // A stop is no failure: the fire is not lost, and tried again soon.
  TableHistory history = RunAt("2026-11-29T02:00:10Z");
  for (int i = 0; i < 20; ++i) {
    Fail(history, options, "2026-11-30T02:00:00Z", Code::kCancelled);
  }
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:00:00Z").due, Due::kBackingOff);
  EXPECT_EQ(Decide(history, options, "2026-11-30T02:01:00Z").due, Due::kDue);
}

TEST(Schedule, WhatARetryCannotMendIsSettled) {
  const ScheduleOptions options = Nightly();
  for (const Code code : {Code::kUnsupported, Code::kInvalid, Code::kNotFound}) {
    TableHistory history = RunAt("2026-11-29T02:00:10Z");
    Fail(history, options, "2026-11-30T02:00:20Z", code, "a nested map");
    EXPECT_EQ(Decide(history, options, "2026-11-30T02:00:20Z").due, Due::kNotYet) << CodeName(code);
    EXPECT_EQ(history.failures_in_row, 0);
    EXPECT_EQ(history.last_reason, "a nested map");
    EXPECT_EQ(Decide(history, options, "2026-12-01T02:00:00Z").due, Due::kDue);
  }
}

TEST(Schedule, DamageAndBugsOpenTheBreakerAtOnce) {
  const ScheduleOptions options = Nightly();
  for (const Code code : {Code::kCorrupt, Code::kInternal}) {
    TableHistory history = RunAt("2026-11-29T02:00:10Z");
    Fail(history, options, "2026-11-30T02:00:20Z", code, "rows are missing");
    const DueVerdict verdict = Decide(history, options, "2026-11-30T12:00:00Z");
    EXPECT_EQ(verdict.due, Due::kBreakerOpen) << CodeName(code);
    EXPECT_THAT(verdict.reason, HasSubstr("rows are missing"));
  }
}

TEST(Schedule, EveryCodeHasAClass) {
  EXPECT_EQ(ClassOf({}), OutcomeClass::kSuccess);
  EXPECT_EQ(ClassOf(Code::kUnknownOutcome), OutcomeClass::kFailure);
  EXPECT_EQ(ClassOf(Code::kLimit), OutcomeClass::kFailure);
  EXPECT_EQ(ClassOf(Code::kUnsupported), OutcomeClass::kSettled);
  EXPECT_EQ(ClassOf(Code::kDenied), OutcomeClass::kRetry);
  EXPECT_EQ(ClassOf(Code::kCorrupt), OutcomeClass::kBroken);
}

TEST(Schedule, CheckScheduleNamesOptionAndRange) {
  EXPECT_TRUE(CheckSchedule({}));
  const auto refused = [](const std::function<void(ScheduleOptions&)>& change) {
    ScheduleOptions options;
    change(options);
    const Status status = CheckSchedule(options);
    return status ? "accepted" : status.error().ToString();
  };
  EXPECT_EQ(refused([](auto& o) { o.catch_up = hours(24 * 3661); }),
            "invalid: catch_up: must be between 0 s and 87840 h 00 min, not 87864 h 00 min");
  EXPECT_THAT(refused([](auto& o) { o.jitter = -seconds(1); }), HasSubstr("jitter: must be"));
  EXPECT_THAT(refused([](auto& o) { o.backoff_max = Duration::min(); }), HasSubstr("backoff_max"));
  EXPECT_THAT(refused([](auto& o) { o.breaker_failures = -1; }), HasSubstr("breaker_failures"));
  EXPECT_THAT(refused([](auto& o) { o.skew = Duration::max(); }), HasSubstr("skew: must be"));
}

TEST(Schedule, FieldsKeepAllOfTheHistory) {
  ScheduleOptions options = Nightly();
  options.on_event = true;
  TableHistory history;
  EXPECT_EQ(HistoryFields(history).size(), 0U);
  EXPECT_EQ(HistoryFromFields({}).value(), history);
  Observe(history, options,
          {.now = At("2026-11-28"), .snapshot_id = -5, .snapshot_at = At("2026-11-27")});
  RecordSettled(history, options, At("2026-11-28T02:00:00Z"));
  RecordSettled(history, options, At("2099-11-28T02:00:00Z"));
  Fail(history, options, "2026-11-30T02:00:20Z", Code::kUnknownOutcome, "no \"answer\"\n");
  history.handled_snapshot = std::numeric_limits<int64_t>::min();
  const auto fields = HistoryFields(history);
  EXPECT_EQ(fields.size(), 13U);
  EXPECT_EQ(fields.at("last_code"), "unknown_outcome");
  EXPECT_EQ(HistoryFromFields(fields).value(), history);
}

TEST(Schedule, FieldsThatAreDamagedAreRefused) {
  const auto error = [](const char* name, std::string value) {
    const auto history = HistoryFromFields({{name, std::move(value)}});
    return history ? "accepted" : history.error().ToString();
  };
  EXPECT_EQ(error("first_seen", "soon"),
            "corrupt: table history: first_seen: \"soon\" is no value of it (next: without its "
            "history the table counts as never run)");
  EXPECT_THAT(error("last_ended", "9223372036854775807"), HasSubstr("last_ended"));
  EXPECT_THAT(error("last_ended", "-1"), HasSubstr("last_ended"));
  EXPECT_THAT(error("attempts_in_row", "-1"), HasSubstr("attempts_in_row"));
  EXPECT_THAT(error("attempts_in_row", ""), HasSubstr("attempts_in_row"));
  EXPECT_THAT(error("last_code", "great"), HasSubstr("last_code: \"great\""));
  for (const char* spans :
       {"1", "1:", ":1", "2:1", "1:2  3:4", "x", "1:2:3", "1:2 1:2 1:2 1:2 1:2"}) {
    EXPECT_THAT(error("settled", spans), HasSubstr("corrupt: table history: settled")) << spans;
  }
  EXPECT_EQ(error("settled", "-1:2 3:4"), "accepted");
  EXPECT_EQ(error("of_a_later_version", "x"), "accepted");
}

TEST(Schedule, LongReasonsAreCut) {
  TableHistory history;
  std::string reason;
  for (int i = 0; i < 2000; ++i) reason += "ä";
  Fail(history, Nightly(), "2026-11-30T02:00:20Z", Code::kTransient, "x" + reason);
  EXPECT_EQ(history.last_reason.size(), 999 + std::string(" …").size());
  EXPECT_TRUE(history.last_reason.ends_with("ä …"));
}

}  // namespace
}  // namespace lithify::plan
