// Seeded histories: late ticks, restarts, failures, clocks that jump. What must hold in all of
// them: no fire is lost, none is run twice, a table that is due is run at the next tick.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/draw.h"
#include "base/text.h"
#include "plan/schedule.h"

namespace lithify::plan {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr uint64_t kSeeds = 2000;
const Time kBegin = ParseTime("2026-11-30T12:34:56Z").value();

class Draw : public lithify::Draw {
 public:
  using lithify::Draw::Draw;
  Duration UpTo(Duration most) { return Duration(Between(0, most.count())); }
};

ScheduleOptions DrawOptions(Draw& draw) {
  static const char* const kCrons[] = {"0 2 * * *",       "*/20 * * * *", "17 */3 * * *", "@weekly",
                                       "30 1,13 * * 1-5", "*/5 * * * *",  "0 0 1 * *"};
  ScheduleOptions options;
  options.cron = ParseCron(kCrons[draw.Between(0, 6)]).value();
  options.jitter = draw.OneIn(3) ? Duration::zero() : draw.UpTo(hours(2));
  options.catch_up = hours(1) + draw.UpTo(days(3));
  options.quiet_wait_max = draw.UpTo(options.catch_up / 2);
  options.quiet = Duration::zero();
  return options;
}

// A process that keeps nothing but what it wrote down.
void Restart(TableHistory& history) { history = HistoryFromFields(HistoryFields(history)).value(); }

// All fires, by stepping from one to the next.
class Fires {
 public:
  Fires(const ScheduleOptions& options, std::string_view table, Time begin) : options_(options) {
    jitter_ = JitterOf(table, options.jitter);
    for (const Duration back : {hours(8), hours(24 * 8), hours(24 * 40)}) {
      const auto first = NextFire(options.cron, begin - back - jitter_);
      if (all_.empty() && first && *first + jitter_ <= begin) all_.push_back(*first + jitter_);
    }
  }

  // Those in (since, now], oldest first.
  std::span<const Time> In(Time since, Time now) {
    while (all_.back() <= now) {
      all_.push_back(NextFire(options_.cron, all_.back() - jitter_).value() + jitter_);
    }
    const auto begin = std::ranges::upper_bound(all_, since);
    return {begin, std::max(begin, std::ranges::upper_bound(all_, now))};
  }

  std::optional<Time> Last(Time now) {
    const auto some = In(Time::min(), now);
    return some.empty() ? std::nullopt : std::optional(some.back());
  }

 private:
  const ScheduleOptions& options_;
  Duration jitter_{};
  std::vector<Time> all_;
};

// Right clock, every run succeeds: due exactly if a fire has come since the last run, and the
// newest one is not older than the window.
std::string CheckLateTicks(uint64_t seed) {
  Draw draw(seed);
  const ScheduleOptions options = DrawOptions(draw);
  const std::string table = "t" + std::to_string(seed);
  Fires fires(options, table, kBegin);
  TableHistory history;
  Time now = kBegin;
  Time since = kBegin;  // First look, then start of the last run.
  for (int tick = 0; tick < 60; ++tick) {
    Observe(history, options, {.now = now});
    const DueVerdict verdict = DecideDue(history, options, table, now);
    const auto open = fires.In(since, now);
    const auto young =
        std::ranges::count_if(open, [&](Time fire) { return fire >= now - options.catch_up; });
    const Due expected = open.empty() ? Due::kNotYet : young == 0 ? Due::kLetGo : Due::kDue;
    const std::string where = " at " + FormatTime(now) + ": " + verdict.reason;
    if (verdict.due != expected) return std::string(DueName(verdict.due)) + where;
    if (!verdict.warning.empty()) return verdict.warning + where;
    if (!open.empty()) {
      if (verdict.fire != open.back()) return "fire" + where;
      const int64_t counted = verdict.coalesced + verdict.let_go + (young > 0);
      if (counted != std::min<int64_t>(std::ssize(open), 1000 + (young > 0))) return "n" + where;
    }
    if (verdict.due == Due::kDue) {
      since = now;
      now += draw.UpTo(hours(2));
      Record(history, options, {.started = since, .ended = now});
    }
    if (draw.OneIn(5)) Restart(history);
    now += draw.OneIn(20) ? draw.UpTo(options.catch_up * 3) : Duration(1) + draw.UpTo(hours(1));
  }
  return "";
}

TEST(ScheduleProperty, T18NoFireIsLostOrRunTwice) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(CheckLateTicks(seed), "") << "seed " << seed;
  }
}

// What outcomes do, counted apart from the code under test.
struct Outcomes {
  int failures = 0;
  bool tried = false;
  Time ended;
  Time failed;

  void Add(std::optional<Code> code, Time at, const ScheduleOptions& options) {
    tried = code.has_value() && ClassOf(code) != OutcomeClass::kSettled;
    ended = at;
    if (!code) failures = 0;
    if (code == Code::kTransient || code == Code::kUnknownOutcome) ++failures;
    if (code == Code::kCorrupt) failures = std::max(failures + 1, options.breaker_failures);
    if (code == Code::kTransient || code == Code::kUnknownOutcome || code == Code::kCorrupt) {
      failed = at;
    }
  }
};

std::optional<Code> DrawCode(Draw& draw, bool only_hot) {
  if (only_hot) return draw.OneIn(2) ? Code::kConflict : Code::kDenied;
  switch (draw.Between(0, 11)) {
    case 0: return Code::kConflict;
    case 1: return Code::kDenied;
    case 2: return Code::kUnsupported;
    case 3: return draw.OneIn(4) ? Code::kCorrupt : Code::kUnknownOutcome;
    case 4: return Code::kCancelled;
    case 5: return std::nullopt;
    default: return Code::kTransient;
  }
}

// Attempts fail: a fire within the window is tried again, never before the back-off, never while
// the breaker is open, and at the first tick after both.
std::string CheckFailures(uint64_t seed) {
  Draw draw(seed);
  ScheduleOptions options = DrawOptions(draw);
  options.backoff_min = seconds(draw.Between(1, 600));
  options.backoff_max = options.backoff_min * draw.Between(1, 100);
  options.breaker_failures = static_cast<int>(draw.Between(0, 6));
  options.breaker_cooldown = draw.UpTo(hours(30));
  const bool only_hot = draw.OneIn(3);
  const std::string table = "t" + std::to_string(seed);
  Fires fires(options, table, kBegin);
  TableHistory history;
  Outcomes outcomes;
  Time now = kBegin;
  Time since = kBegin;
  for (int tick = 0; tick < 100; ++tick) {
    Observe(history, options, {.now = now});
    const DueVerdict verdict = DecideDue(history, options, table, now);
    const std::string where = " at " + FormatTime(now) + ": " + verdict.reason;
    const bool tripped =
        options.breaker_failures > 0 && outcomes.failures >= options.breaker_failures;
    const bool open = tripped && now < outcomes.failed + options.breaker_cooldown;
    if (open != (verdict.due == Due::kBreakerOpen)) return "breaker" + where;
    if (open && only_hot) return "opened by conflicts" + where;
    const auto last = fires.Last(now);
    const bool due = last && *last > since && *last >= now - options.catch_up;
    const bool early = outcomes.tried && now < outcomes.ended + options.backoff_min * 3 / 4;
    const bool late = !outcomes.tried || now >= outcomes.ended + options.backoff_max;
    if (verdict.due == Due::kDue && (!due || early)) return "not to be run" + where;
    if (verdict.due != Due::kDue && due && late && !open) return "to be run" + where;
    if (verdict.due == Due::kDue && verdict.half_open != tripped) return "half open" + where;
    if (verdict.due == Due::kDue) {
      const Time started = now;
      now += draw.UpTo(minutes(30));
      const auto code = DrawCode(draw, only_hot);
      Record(history, options, {.started = started, .ended = now, .code = code, .reason = "x"});
      outcomes.Add(code, now, options);
      if (!outcomes.tried) since = started;
    }
    if (draw.OneIn(5)) Restart(history);
    now += draw.OneIn(10) ? draw.UpTo(hours(10)) : Duration(1) + draw.UpTo(minutes(20));
  }
  return "";
}

TEST(ScheduleProperty, FailuresAreTriedAgainWithinBounds) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(CheckFailures(seed), "") << "seed " << seed;
  }
}

// One run, as the clock of its time told it.
struct Run {
  Time started;
  Time fire;
  size_t tick = 0;
};

// A world whose clock jumps three times and is right in the end.
class JumpingClock {
 public:
  explicit JumpingClock(uint64_t seed)
      : draw_(seed),
        options_(DrawOptions(draw_)),
        table_("t" + std::to_string(seed)),
        fires_(options_, table_, kBegin) {}

  std::string Check() {
    Duration offset = Jump();
    for (int phase = 0; phase < 4; ++phase) {
      for (int64_t ticks = draw_.Between(1, 25); ticks > 0; --ticks) {
        if (std::string wrong = Tick(offset); !wrong.empty()) return wrong;
      }
      offset = phase == 2 ? Duration::zero() : Jump();
      if (phase == 2) right_since_ = true_now_;
    }
    return "";
  }

 private:
  Duration Jump() {
    const int64_t sign = draw_.OneIn(2) ? -1 : 1;
    switch (draw_.Between(0, 4)) {
      case 0: return Duration::zero();
      case 1: return sign * draw_.UpTo(options_.skew / 2);
      case 2: return sign * draw_.UpTo(hours(5));
      case 3: return sign * draw_.UpTo(days(5));
      default: return draw_.UpTo(days(20'000));
    }
  }

  std::string Tick(Duration offset) {
    const Time now = true_now_ + offset;
    if (clocks_.empty()) first_look_ = now;
    clocks_.push_back(now);
    Observe(history_, options_, {.now = now});
    const DueVerdict verdict = DecideDue(history_, options_, table_, now);
    const std::string where = " at " + FormatTime(now) + ": " + verdict.reason;
    if (!verdict.warning.empty()) return "warns after Observe" + where;
    if (verdict.due == Due::kDue) {
      const Run run{.started = now, .fire = *verdict.fire, .tick = clocks_.size() - 1};
      for (const Run& before : runs_) {
        if (IsRunTwice(before, run)) return "run twice" + where;
      }
      runs_.push_back(run);
      Record(history_, options_, {.started = now, .ended = now});
    } else if (verdict.due == Due::kNotYet && offset == Duration::zero()) {
      if (std::string wrong = CheckServed(now); !wrong.empty()) return wrong + where;
    }
    if (draw_.OneIn(5)) Restart(history_);
    true_now_ += Duration(1) + draw_.UpTo(draw_.OneIn(5) ? hours(20) : hours(1));
    return "";
  }

  // A fire that `before` settled may be run again only if the clock went back to before that fire,
  // and further than clocks may differ, from where that run or a later one had seen it.
  bool IsRunTwice(const Run& before, const Run& run) const {
    const bool settled =
        run.fire <= before.started && run.fire > before.started - options_.catch_up;
    return settled && std::ranges::none_of(runs_, [&](const Run& seen) {
             if (seen.tick < before.tick) return false;
             const auto since = clocks_.begin() + static_cast<std::ptrdiff_t>(seen.tick);
             const Time back = *std::min_element(since, clocks_.end());
             return back < seen.started - options_.skew && back < run.fire;
           });
  }

  // The last fire by the right clock was run, by whatever clock, or came before the first look.
  std::string CheckServed(Time now) {
    const auto last = fires_.Last(now);
    if (!last || *last < now - options_.catch_up || *last <= first_look_) return "";
    const bool served = std::ranges::any_of(runs_, [&](const Run& run) {
      return run.started >= *last && run.started - *last <= days(40);
    });
    if (!served) return "the fire of " + FormatTime(*last) + " is lost";
    // By the right clock alone: at a tick after it came.
    if (right_since_ && *last > *right_since_ + options_.skew) {
      const bool on_time =
          std::ranges::any_of(runs_, [&](const Run& run) { return run.fire == *last; });
      if (!on_time) return "the fire of " + FormatTime(*last) + " was not run by the right clock";
    }
    return "";
  }

  Draw draw_;
  const ScheduleOptions options_;
  const std::string table_;
  Fires fires_;
  TableHistory history_;
  Time true_now_ = kBegin;
  Time first_look_;
  std::optional<Time> right_since_;
  std::vector<Time> clocks_;  // By tick.
  std::vector<Run> runs_;
};

TEST(ScheduleProperty, T18ClocksThatJump) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(JumpingClock(seed).Check(), "") << "seed " << seed;
  }
}

// Everything at once: events, quiet windows, failures. A verdict holds until it says, and a busy
// table is run all the same.
class BusyTable {
 public:
  explicit BusyTable(uint64_t seed) : draw_(seed), options_(DrawOptions(draw_)) {
    options_.quiet = draw_.UpTo(minutes(10));
    options_.on_event = draw_.OneIn(2);
    options_.min_interval = draw_.UpTo(hours(3));
    options_.on_demand = draw_.OneIn(10);
    commit_every_ = minutes(1) + draw_.UpTo(hours(2));
    fails_ = draw_.OneIn(2);
  }

  std::string Check() {
    Time now = kBegin;
    for (int tick = 0; tick < 60; ++tick) {
      while (committed_ + commit_every_ <= now) {
        committed_ += commit_every_;
        ++snapshot_;
      }
      Observe(history_, options_,
              {.now = now, .snapshot_id = snapshot_, .snapshot_at = committed_});
      const DueVerdict verdict = DecideDue(history_, options_, "t", now);
      const std::string where = " at " + FormatTime(now) + ": " + verdict.reason;
      if (std::string wrong = Holds(verdict, now); !wrong.empty()) return wrong + where;
      if (verdict.reason.empty()) return "no reason" + where;
      if (verdict.due == Due::kNotQuiet && *verdict.until > now + options_.quiet_wait_max) {
        return "waits too long" + where;
      }
      if (verdict.due == Due::kDue) now = Run(now);
      if (draw_.OneIn(5)) Restart(history_);
      now += Duration(1) + draw_.UpTo(draw_.OneIn(10) ? hours(30) : minutes(20));
    }
    return "";
  }

 private:
  std::string Holds(const DueVerdict& verdict, Time now) {
    if (verdict.until && *verdict.until <= now) return "until has passed";
    const Duration span = verdict.until ? *verdict.until - now - Duration(1) : Duration(days(9));
    for (const Time at : {now + draw_.UpTo(span), now + span}) {
      const DueVerdict later = DecideDue(history_, options_, "t", at);
      if (later.due != verdict.due) {
        return std::string(DueName(later.due)) + " already at " + FormatTime(at) + ", not " +
               std::string(DueName(verdict.due));
      }
    }
    return "";
  }

  Time Run(Time now) {
    const Time ended = now + draw_.UpTo(minutes(30));
    const auto code = fails_ ? DrawCode(draw_, false) : std::nullopt;
    if (!code) {
      committed_ = ended;
      ++snapshot_;
    }
    Record(history_, options_,
           {.started = now, .ended = ended, .code = code, .reason = "x", .snapshot_id = snapshot_});
    return ended;
  }

  Draw draw_;
  ScheduleOptions options_;
  TableHistory history_;
  Duration commit_every_{};
  bool fails_ = false;
  Time committed_ = kBegin - hours(5);
  int64_t snapshot_ = 1;
};

TEST(ScheduleProperty, VerdictsHoldUntilTheySay) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(BusyTable(seed).Check(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace lithify::plan
