#include "plan/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "plan/shortened.h"

namespace lithify::plan {
namespace {

constexpr Duration kTick{1};  // The smallest step of time.
constexpr Duration kDurationMax = std::chrono::days(3660);
constexpr int64_t kCountMax = 1000;
constexpr size_t kSpansMax = 4;
constexpr size_t kReasonBytesMax = 1000;
constexpr int kInARowMax = 1'000'000;
// Times of a history lie in the calendar of the schedules: sums of them never overflow.
constexpr int64_t kTimeMax = 253'402'300'799'999'999;

constexpr std::array<Code, 11> kCodes = {
    Code::kInvalid,        Code::kNotFound,  Code::kDenied,  Code::kConflict,
    Code::kUnknownOutcome, Code::kTransient, Code::kCorrupt, Code::kLimit,
    Code::kUnsupported,    Code::kCancelled, Code::kInternal};

bool IsOfCalendar(Time t) {
  const int64_t micros = t.time_since_epoch().count();
  return micros >= 0 && micros <= kTimeMax;
}

std::string Counted(int64_t n) {
  return n >= kCountMax ? FormatCount(kCountMax) + " or more" : FormatCount(n);
}

// Without the fraction: a fire has none.
std::string ShortTime(Time t) {
  return FormatTime(std::chrono::floor<std::chrono::seconds>(t)).substr(0, 19) + "Z";
}

std::string InTime(Time at, Time now) { return ShortTime(at) + ", in " + FormatDuration(at - now); }

// A fire is of a minute.
Duration CatchUp(const ScheduleOptions& options) {
  return std::max<Duration>(options.catch_up, std::chrono::minutes(1));
}

// What a clock that is right now cannot have seen.
class Disbelief {
 public:
  Disbelief(Time now, Duration skew) : now_(now), limit_(now + skew), skew_(skew) {}

  void Of(std::optional<Time>& time, std::string_view what, Time instead) {
    if (!time || *time <= limit_) return;
    Note(what, *time);
    time = instead;
  }

  void OfSpans(std::vector<TableHistory::Span>& spans) {
    for (auto& span : spans) {
      if (span.to <= limit_) continue;
      Note("a run", span.to);
      span.to = now_;
    }
    std::erase_if(spans, [](const auto& span) { return span.from >= span.to; });
  }

  std::string sentence() const {
    if (count_ == 0) return {};
    std::string text = what_ + " is of " + ShortTime(time_) + ", " + FormatDuration(time_ - now_) +
                       " after now, and clocks may differ by " + FormatDuration(skew_);
    if (count_ > 1) text += " (" + FormatCount(count_ - 1) + " more such times)";
    return text + ": it is taken as unknown";
  }

 private:
  void Note(std::string_view what, Time time) {
    if (count_++ > 0) return;
    what_ = what;
    time_ = time;
  }

  const Time now_;
  const Time limit_;
  const Duration skew_;
  std::string what_;
  Time time_;
  int64_t count_ = 0;
};

std::string Forget(TableHistory& history, const ScheduleOptions& options, Time now) {
  Disbelief disbelief(now, options.skew);
  disbelief.OfSpans(history.settled);
  // Nobody can tell which fires the table has seen: rather one run too many than one too few.
  disbelief.Of(history.first_seen, "the first look at the table", now - CatchUp(options));
  disbelief.Of(history.last_ended, "the end of the last attempt", now);
  disbelief.Of(history.failed_at, "the last failure", now);
  disbelief.Of(history.snapshot_seen, "the last look at the snapshot", now);
  disbelief.Of(history.changed_at, "the last change of the table", now);
  return disbelief.sentence();
}

// What touches becomes one; then, while there are too many, the two neighbours with the least
// between them: what lies between was let go.
void Join(std::vector<TableHistory::Span>& spans) {
  const auto between = [&](size_t i) { return spans[i + 1].from - spans[i].to; };
  const auto join = [&](size_t i) {
    spans[i + 1].from = std::min(spans[i].from, spans[i + 1].from);
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (size_t i = spans.size() - 1; i-- > 0;) {
    if (between(i) <= Duration::zero()) join(i);
  }
  while (spans.size() > kSpansMax) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < spans.size(); ++i) {
      if (between(i) < between(best)) best = i;
    }
    join(best);
  }
}

void Settle(TableHistory& history, const ScheduleOptions& options, Time started) {
  // All that this run stands for: the catch-up window, and the last fire even if it is older.
  Time from = started - CatchUp(options);
  if (const auto fire = LastFire(options.cron, started - options.jitter)) {
    from = std::min(from, *fire - kTick);
  }
  history.settled.push_back({from, started});
  std::ranges::stable_sort(history.settled, {}, &TableHistory::Span::to);
  Join(history.settled);
}

class Decision {
 public:
  Decision(const TableHistory& history, const ScheduleOptions& options, std::string_view table,
           Time now)
      : history_(history), options_(options), table_(table), now_(now) {
    verdict_.warning = Forget(history_, options_, now_);
    jitter_ = JitterOf(table_, options_.jitter);
    catch_up_ = CatchUp(options_);
    // A busy table's fire must not grow too old while it waits.
    quiet_wait_max_ = std::min(options_.quiet_wait_max, catch_up_ / 2);
    window_ = now_ - catch_up_;
  }

  DueVerdict Decide() {
    LookAtFires();
    LookAtEvents();
    if (options_.on_demand) {
      verdict_.trigger = Trigger::kDemand;
    } else if (fire_due_) {
      verdict_.trigger = Trigger::kFire;
    } else if (event_due_) {
      verdict_.trigger = Trigger::kEvent;
    }
    if (BreakerHolds()) return std::move(verdict_);
    if (verdict_.trigger == Trigger::kNone) {
      NotDue();
    } else if (!BackoffHolds() && !QuietHolds()) {
      BeDue();
    }
    return std::move(verdict_);
  }

 private:
  bool IsOld() const { return verdict_.fire && *verdict_.fire < window_; }

  // The first time that may have fires which are not settled, if the last one is not.
  Time OpenSince(Time fire) const {
    Time since = Time::min();
    for (const auto& span : history_.settled) {
      if (span.to < fire) since = std::max(since, span.to);
    }
    if (history_.first_seen && !options_.new_tables_at_once) {
      since = std::max(since, *history_.first_seen);
    }
    return since;
  }

  bool IsSettled(Time fire) const {
    if (history_.first_seen && !options_.new_tables_at_once && fire <= *history_.first_seen) {
      return true;
    }
    return std::ranges::any_of(
        history_.settled, [&](const auto& span) { return span.from < fire && fire <= span.to; });
  }

  std::optional<Time> FireUpTo(Time t) const {
    const auto fire = LastFire(options_.cron, t - jitter_);
    return fire ? std::optional(*fire + jitter_) : std::nullopt;
  }

  std::optional<Time> FireAfter(Time t) const {
    const auto fire = NextFire(options_.cron, t - jitter_);
    return fire ? std::optional(*fire + jitter_) : std::nullopt;
  }

  void LookAtFires() {
    verdict_.next_fire = FireAfter(now_);
    const auto last = FireUpTo(now_);
    if (!last || IsSettled(*last)) return;
    verdict_.fire = last;
    fire_due_ = !IsOld();
    const Time since = OpenSince(*last);
    if (fire_due_) due_since_ = FireAfter(std::max(since, window_ - kTick));
    // Fires of a table that nobody knows anything about were let go by nobody.
    const bool known = since > Time::min();
    std::optional<Time> fire = IsOld() ? last : FireUpTo(*last - kTick);
    for (int64_t n = 0; n < kCountMax && fire && *fire > since; ++n) {
      if (*fire >= window_) {
        ++verdict_.coalesced;
      } else if (known || fire == last) {
        ++verdict_.let_go;
      } else {
        break;
      }
      fire = FireUpTo(*fire - kTick);
    }
  }

  void LookAtEvents() {
    changed_ = options_.on_event && history_.snapshot_id &&
               history_.snapshot_id != history_.handled_snapshot;
    if (!changed_) return;
    event_at_ = history_.changed_at.value_or(now_);
    if (const auto last = history_.last_run()) {
      event_at_ = std::max(event_at_, *last + options_.min_interval);
    }
    event_at_ = std::max(event_at_, Time{});
    event_due_ = event_at_ <= now_;
    if (event_due_) due_since_ = std::min(due_since_.value_or(event_at_), event_at_);
  }

  bool BreakerHolds() {
    if (options_.breaker_failures <= 0 || history_.failures_in_row < options_.breaker_failures) {
      return false;
    }
    verdict_.half_open = true;
    if (!history_.failed_at) return false;
    const Time until = *history_.failed_at + options_.breaker_cooldown;
    if (now_ >= until) return false;
    verdict_.half_open = false;
    verdict_.due = Due::kBreakerOpen;
    verdict_.until = until;
    verdict_.reason =
        "the breaker is open after " + Failures() + ": one try at " + InTime(until, now_);
    return true;
  }

  std::string Failures() const {
    return FormatCount(history_.failures_in_row) +
           (history_.failures_in_row == 1 ? " failure" : " failures in a row") + LastError();
  }

  std::string LastError() const {
    if (!history_.last_code) return {};
    std::string text = " (the last attempt: " + std::string(CodeName(*history_.last_code));
    if (!history_.last_reason.empty()) text += ": " + history_.last_reason;
    return text + ")";
  }

  std::string NextFireText() const {
    if (!verdict_.next_fire) return "there is no fire before the year 10000";
    return "the next fire is at " + InTime(*verdict_.next_fire, now_);
  }

  void NotDue() {
    verdict_.half_open = false;
    verdict_.until = verdict_.next_fire;
    if (changed_) {
      verdict_.due = Due::kTooSoon;
      verdict_.until = std::min(event_at_, verdict_.next_fire.value_or(event_at_));
      verdict_.reason = "the table has changed, but it is run at most every " +
                        FormatDuration(options_.min_interval) + ": again at " +
                        InTime(event_at_, now_);
    } else if (verdict_.fire) {
      verdict_.due = Due::kLetGo;
      verdict_.reason =
          "the fire of " + ShortTime(*verdict_.fire) + " is " +
          FormatDuration(now_ - *verdict_.fire) + " old, beyond the catch-up window of " +
          FormatDuration(catch_up_) + ": " + Counted(verdict_.let_go) +
          (verdict_.let_go == 1 ? " fire is" : " fires are") + " let go; " + NextFireText();
    } else {
      verdict_.due = Due::kNotYet;
      verdict_.reason = NextFireText();
      if (const auto last = history_.last_run()) {
        verdict_.reason += "; last run " + ShortTime(*last);
      } else {
        verdict_.reason += "; never run";
      }
    }
  }

  // A fire that waits may grow too old meanwhile.
  void HoldUntil(std::optional<Time> until) {
    if (verdict_.trigger == Trigger::kFire && !event_due_) {
      const Time lapses = *verdict_.fire + catch_up_ + kTick;
      until = std::min(until.value_or(lapses), lapses);
    }
    verdict_.until = until;
  }

  bool BackoffHolds() {
    if (history_.attempts_in_row <= 0 || !history_.last_ended) return false;
    const Time retry = *history_.last_ended + BackoffOf(table_, history_.attempts_in_row, options_);
    if (now_ >= retry) return false;
    verdict_.half_open = false;
    verdict_.due = Due::kBackingOff;
    HoldUntil(retry);
    verdict_.reason = FormatCount(history_.attempts_in_row) +
                      (history_.attempts_in_row == 1 ? " attempt" : " attempts in a row") +
                      " without an end" + LastError() + ": again at " + InTime(retry, now_);
    return true;
  }

  bool QuietHolds() {
    if (options_.on_demand || !history_.snapshot_id) return false;
    // The writer's clock may run ahead of ours: then what counts is when we first saw it.
    std::optional<Time> newest = history_.snapshot_at;
    if (!newest || (history_.snapshot_seen && *history_.snapshot_seen < *newest)) {
      newest = history_.snapshot_seen;
    }
    if (!newest) return false;
    const Time longest = due_since_.value_or(now_) + quiet_wait_max_;
    const Time until = std::min(*newest + options_.quiet, longest);
    if (now_ >= until) return false;
    verdict_.half_open = false;
    verdict_.due = Due::kNotQuiet;
    HoldUntil(until);
    verdict_.reason = "the newest snapshot is " +
                      FormatDuration(std::max(now_ - *newest, Duration::zero())) +
                      " old, younger than the quiet window of " + FormatDuration(options_.quiet) +
                      ": waits until " + InTime(until, now_) + ", at most " +
                      FormatDuration(quiet_wait_max_) + " in all";
    return true;
  }

  void BeDue() {
    verdict_.due = Due::kDue;
    HoldUntil(std::nullopt);
    if (verdict_.trigger == Trigger::kDemand) {
      verdict_.reason = "asked for";
    } else if (verdict_.trigger == Trigger::kFire) {
      verdict_.reason = "the fire of " + ShortTime(*verdict_.fire) + ", " +
                        FormatDuration(now_ - *verdict_.fire) + " ago, was not run";
    } else {
      verdict_.reason = "the table has changed: snapshot " + std::to_string(*history_.snapshot_id);
    }
    if (const auto last = history_.last_run()) {
      verdict_.reason += "; last run " + ShortTime(*last);
    } else {
      verdict_.reason += "; never run";
    }
    if (verdict_.coalesced > 0) {
      verdict_.reason += "; settles " + Counted(verdict_.coalesced) + " earlier " +
                         (verdict_.coalesced == 1 ? "fire" : "fires") + ", too";
    }
    if (verdict_.let_go > 0) {
      verdict_.reason += "; " + Counted(verdict_.let_go) + " older than " +
                         FormatDuration(catch_up_) + (verdict_.let_go == 1 ? " is" : " are") +
                         " let go";
    }
    if (verdict_.half_open) verdict_.reason += "; the one try after " + Failures();
  }

  TableHistory history_;
  const ScheduleOptions& options_;
  const std::string_view table_;
  const Time now_;
  Duration jitter_{};
  Duration catch_up_{};
  Duration quiet_wait_max_{};
  Time window_;  // Older fires are let go.
  bool fire_due_ = false;
  bool changed_ = false;
  bool event_due_ = false;
  Time event_at_;
  std::optional<Time> due_since_;
  DueVerdict verdict_;
};

Status CheckDuration(Duration value, std::string_view name) {
  if (value >= Duration::zero() && value <= kDurationMax) return {};
  return Fail(
      Code::kInvalid,
      "must be between 0 s and " + FormatDuration(kDurationMax) + ", not " + FormatDuration(value),
      std::string(name));
}

std::string Micros(Time t) { return std::to_string(t.time_since_epoch().count()); }

// Reads fields, and remembers the first that is none.
class FieldReader {
 public:
  explicit FieldReader(const std::map<std::string, std::string>& fields) : fields_(fields) {}

  const std::string* Find(const char* name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? nullptr : &found->second;
  }

  std::optional<int64_t> Number(const char* name, std::string_view text, int64_t min, int64_t max) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= min && value <= max) {
      return value;
    }
    Bad(name, text);
    return std::nullopt;
  }

  void Read(const char* name, std::optional<int64_t>& value) {
    if (const std::string* text = Find(name)) {
      value = Number(name, *text, std::numeric_limits<int64_t>::min(),
                     std::numeric_limits<int64_t>::max());
    }
  }

  void Read(const char* name, std::optional<Time>& time) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    if (const auto value = Number(name, *text, 0, kTimeMax)) time = Time{Duration(*value)};
  }

  void Read(const char* name, int& count) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    if (const auto value = Number(name, *text, 0, kInARowMax)) count = static_cast<int>(*value);
  }

  void Read(const char* name, std::optional<Code>& code) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    const auto found = std::ranges::find(kCodes, *text, CodeName);
    if (found == kCodes.end()) return Bad(name, *text);
    code = *found;
  }

  void Read(const char* name, std::vector<TableHistory::Span>& spans) {
    const std::string* text = Find(name);
    if (text == nullptr) return;
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view span = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t colon = std::min(span.find(':'), span.size());
      const auto from = Number(name, span.substr(0, colon), -kTimeMax, kTimeMax);
      const auto to = Number(name, span.substr(std::min(colon + 1, span.size())), 0, kTimeMax);
      if (!from || !to) return;
      if (*from > *to || spans.size() == kSpansMax) return Bad(name, *text);
      spans.push_back({Time{Duration(*from)}, Time{Duration(*to)}});
    }
  }

  Status status() const { return status_; }

 private:
  void Bad(const char* name, std::string_view text) {
    if (!status_) return;
    status_ = Fail(
        Code::kCorrupt, JsonQuote(Shortened(text, kReasonBytesMax)) + " is no value of it",
        std::string("table history: ") + name, "without its history the table counts as never run");
  }

  const std::map<std::string, std::string>& fields_;
  Status status_;
};

}  // namespace

Status CheckSchedule(const ScheduleOptions& options) {
  LITHIFY_TRY(CheckDuration(options.jitter, "jitter"));
  LITHIFY_TRY(CheckDuration(options.catch_up, "catch_up"));
  LITHIFY_TRY(CheckDuration(options.skew, "skew"));
  LITHIFY_TRY(CheckDuration(options.quiet, "quiet"));
  LITHIFY_TRY(CheckDuration(options.quiet_wait_max, "quiet_wait_max"));
  LITHIFY_TRY(CheckDuration(options.min_interval, "min_interval"));
  LITHIFY_TRY(CheckDuration(options.backoff_min, "backoff_min"));
  LITHIFY_TRY(CheckDuration(options.backoff_max, "backoff_max"));
  LITHIFY_TRY(CheckDuration(options.breaker_cooldown, "breaker_cooldown"));
  if (options.breaker_failures < 0) {
    return Fail(Code::kInvalid, "must be 0 (no breaker) or more", "breaker_failures");
  }
  return {};
}

OutcomeClass ClassOf(std::optional<Code> code) {
  if (!code) return OutcomeClass::kSuccess;
  switch (*code) {
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kUnsupported: return OutcomeClass::kSettled;
    case Code::kDenied:
    case Code::kConflict:
    case Code::kCancelled: return OutcomeClass::kRetry;
    case Code::kUnknownOutcome:
    case Code::kTransient:
    case Code::kLimit: return OutcomeClass::kFailure;
    case Code::kCorrupt:
    case Code::kInternal: return OutcomeClass::kBroken;
  }
  return OutcomeClass::kBroken;
}

std::string Observe(TableHistory& history, const ScheduleOptions& options,
                    const Sighting& sighting) {
  std::string note = Forget(history, options, sighting.now);
  if (!history.first_seen && history.settled.empty() && !history.last_ended) {
    history.first_seen = sighting.now;
  }
  if (history.snapshot_id != sighting.snapshot_id) {
    history.snapshot_id = sighting.snapshot_id;
    history.snapshot_at = sighting.snapshot_at;
    // Metadata may say anything: a time outside of every calendar is none.
    if (history.snapshot_at && !IsOfCalendar(*history.snapshot_at)) history.snapshot_at.reset();
    history.snapshot_seen = sighting.snapshot_id ? std::optional(sighting.now) : std::nullopt;
  }
  if (!history.snapshot_id || history.snapshot_id == history.handled_snapshot) {
    history.changed_at.reset();
  } else if (!history.changed_at) {
    history.changed_at = sighting.now;
  }
  return note;
}

void Record(TableHistory& history, const ScheduleOptions& options, const RunOutcome& outcome) {
  const OutcomeClass result = ClassOf(outcome.code);
  const auto more = [](int& count) { count = std::min(count + 1, kInARowMax); };
  history.last_ended = outcome.ended;
  history.last_code = outcome.code;
  history.last_reason = outcome.code ? Shortened(outcome.reason, kReasonBytesMax) : "";
  if (result == OutcomeClass::kSuccess || result == OutcomeClass::kSettled) {
    Settle(history, options, outcome.started);
    history.attempts_in_row = 0;
    history.changed_at.reset();
    if (outcome.snapshot_id && outcome.snapshot_id != history.snapshot_id) {
      history.snapshot_id = outcome.snapshot_id;
      history.snapshot_at = history.snapshot_seen = outcome.ended;
    }
    history.handled_snapshot = history.snapshot_id;
  } else if (outcome.code == Code::kCancelled) {
    history.attempts_in_row = std::max(history.attempts_in_row, 1);
  } else {
    more(history.attempts_in_row);
  }
  if (result == OutcomeClass::kSuccess) {
    history.failures_in_row = 0;
    history.failed_at.reset();
  } else if (result == OutcomeClass::kFailure || result == OutcomeClass::kBroken) {
    more(history.failures_in_row);
    history.failed_at = outcome.ended;
    if (result == OutcomeClass::kBroken) {
      history.failures_in_row = std::max(history.failures_in_row, options.breaker_failures);
    }
  }
}

void ForgetFailures(TableHistory& history) {
  history.attempts_in_row = 0;
  history.failures_in_row = 0;
  history.failed_at.reset();
}

void RecordSettled(TableHistory& history, const ScheduleOptions& options, Time started) {
  Settle(history, options, started);
}

std::string_view DueName(Due due) {
  switch (due) {
    case Due::kDue: return "due";
    case Due::kNotYet: return "not_yet";
    case Due::kLetGo: return "let_go";
    case Due::kTooSoon: return "too_soon";
    case Due::kNotQuiet: return "not_quiet";
    case Due::kBackingOff: return "backing_off";
    case Due::kBreakerOpen: return "breaker_open";
  }
  return "not_yet";
}

std::string_view TriggerName(Trigger trigger) {
  switch (trigger) {
    case Trigger::kNone: return "none";
    case Trigger::kFire: return "fire";
    case Trigger::kEvent: return "event";
    case Trigger::kDemand: return "demand";
  }
  return "none";
}

DueVerdict DecideDue(const TableHistory& history, const ScheduleOptions& options,
                     std::string_view table, Time now) {
  LITHIFY_CHECK(CheckSchedule(options).has_value(), "options are checked by the caller");
  return Decision(history, options, table, now).Decide();
}

uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

Duration JitterOf(std::string_view table, Duration jitter) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(jitter).count();
  if (seconds < 1) return Duration::zero();
  return std::chrono::seconds(StableHash(table) % static_cast<uint64_t>(seconds));
}

Duration BackoffOf(std::string_view table, int attempts, const ScheduleOptions& options) {
  Duration delay = std::max<Duration>(options.backoff_min, std::chrono::seconds(1));
  const Duration most = std::max(delay, options.backoff_max);
  for (int n = 1; n < attempts && delay < most; ++n) delay *= 2;
  delay = std::min(delay, most);
  const auto quarter = static_cast<uint64_t>(delay.count() / 4);
  const uint64_t hash = StableHash(std::string(table) + "#" + std::to_string(attempts));
  return delay - Duration(hash % quarter);
}

std::map<std::string, std::string> HistoryFields(const TableHistory& history) {
  std::map<std::string, std::string> fields;
  for (const auto& span : history.settled) {
    std::string& text = fields["settled"];
    text += (text.empty() ? "" : " ") + Micros(span.from) + ":" + Micros(span.to);
  }
  const auto time = [&](const char* name, const std::optional<Time>& value) {
    if (value) fields[name] = Micros(*value);
  };
  const auto number = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) fields[name] = std::to_string(*value);
  };
  time("first_seen", history.first_seen);
  time("last_ended", history.last_ended);
  if (history.attempts_in_row > 0) number("attempts_in_row", history.attempts_in_row);
  if (history.failures_in_row > 0) number("failures_in_row", history.failures_in_row);
  time("failed_at", history.failed_at);
  if (history.last_code) fields["last_code"] = CodeName(*history.last_code);
  if (!history.last_reason.empty()) fields["last_reason"] = history.last_reason;
  number("snapshot_id", history.snapshot_id);
  time("snapshot_at", history.snapshot_at);
  time("snapshot_seen", history.snapshot_seen);
  number("handled_snapshot", history.handled_snapshot);
  time("changed_at", history.changed_at);
  return fields;
}

Result<TableHistory> HistoryFromFields(const std::map<std::string, std::string>& fields) {
  TableHistory history;
  FieldReader reader(fields);
  reader.Read("settled", history.settled);
  reader.Read("first_seen", history.first_seen);
  reader.Read("last_ended", history.last_ended);
  reader.Read("attempts_in_row", history.attempts_in_row);
  reader.Read("failures_in_row", history.failures_in_row);
  reader.Read("failed_at", history.failed_at);
  reader.Read("last_code", history.last_code);
  if (const std::string* reason = reader.Find("last_reason")) history.last_reason = *reason;
  reader.Read("snapshot_id", history.snapshot_id);
  reader.Read("snapshot_at", history.snapshot_at);
  reader.Read("snapshot_seen", history.snapshot_seen);
  reader.Read("handled_snapshot", history.handled_snapshot);
  reader.Read("changed_at", history.changed_at);
  LITHIFY_TRY(reader.status());
  return history;
}

}  // namespace lithify::plan
