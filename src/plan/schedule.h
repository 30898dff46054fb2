// When a table is due for maintenance: pure functions of (history, options, name, now). Nothing
// here asks a clock, and no fire is lost to a late tick, a restart or a clock that jumps (T18).
//
// docs/MAINTENANCE.md, "When a table is compacted", says the same in words.
//
// How it is driven, by a tick of any length:
//   Observe(history, options, what the tick saw);
//   DueVerdict verdict = DecideDue(history, options, table, now);
//   if (verdict.due == Due::kDue) { run; Record(history, options, outcome); }
// and the history is kept where it survives a restart (HistoryFields). Runs of one table follow
// each other: the caller lets no two overlap.
#ifndef LITHIFY_PLAN_SCHEDULE_H_
#define LITHIFY_PLAN_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "plan/cron.h"

namespace lithify::plan {

struct ScheduleOptions {
  Cron cron;
  // Each fire is put off by FNV-1a(table) mod so many seconds (R155); below one second: not at all.
  Duration jitter = std::chrono::seconds(900);
  // A fire that nobody ran within so long is let go; the next one comes. At least a minute; ticks
  // that are further apart than this lose fires.
  Duration catch_up = std::chrono::hours(24);
  // How far clocks may differ: a time of the history later than now + skew is not believed.
  Duration skew = std::chrono::minutes(5);
  // A table that nobody ever ran is due for fires after it was first seen; with this, also for the
  // last one before that.
  bool new_tables_at_once = false;

  // Quiet window (R159): while the newest snapshot is younger, wait; but no longer than
  // `quiet_wait_max` (at most half of the catch-up window) from when the table became due, or a
  // busy table would never be run. 0: none.
  Duration quiet = std::chrono::seconds(60);
  Duration quiet_wait_max = std::chrono::hours(1);

  // On-event trigger: a table whose snapshot is not the one that its last settled run dealt with is
  // due without a fire, at most every `min_interval`, counted from the start of the last run.
  bool on_event = false;
  Duration min_interval = std::chrono::hours(1);
  // Due now, whatever the schedule and the quiet window say (run-once, CALL run_maintenance):
  // back-off and breaker still hold.
  bool on_demand = false;

  // After the n-th attempt in a row that did not settle a fire: min * 2^(n-1), at least a second
  // and at most max, less up to a quarter by a stable hash of the table and n.
  Duration backoff_min = std::chrono::minutes(1);
  Duration backoff_max = std::chrono::hours(6);

  // So many failures in a row open the table's breaker; after the cool-down one try is let
  // through. 0: there is no breaker.
  int breaker_failures = 5;
  Duration breaker_cooldown = std::chrono::hours(24);
};

// kInvalid, naming the option and the allowed range: durations are not negative and at most ten
// years, breaker_failures is not negative.
Status CheckSchedule(const ScheduleOptions& options);

// What an attempt means for the schedule.
enum class OutcomeClass {
  kSuccess,  // The fire is settled, back-off ends, the breaker closes.
  kSettled,  // A retry gives the same until the table or the configuration changes: the next fire
             // tries again. kInvalid, kNotFound, kUnsupported.
  kRetry,    // Back-off; nothing is wrong with the table or with us, so no failure for the
             // breaker. kConflict (the table is hot), kDenied (waits for a grant), kCancelled.
  kFailure,  // Back-off, and one more failure. kTransient, kUnknownOutcome, kLimit.
  kBroken,   // Opens the breaker at once: going on may do harm. kCorrupt, kInternal.
};
OutcomeClass ClassOf(std::optional<Code> code);  // Unset: it ended well.

// All that is kept of a table. Plain numbers and texts: see HistoryFields.
struct TableHistory {
  // Fires in (from, to] are settled: run, or coalesced into a run that started at `to`. Sorted, at
  // most four: what clocks that jump leave between them is open.
  struct Span {
    Time from;
    Time to;
    bool operator==(const Span&) const = default;
  };
  std::vector<Span> settled;
  std::optional<Time> first_seen;
  std::optional<Time> last_ended;  // Of the last attempt, however it ended.
  int attempts_in_row = 0;         // That settled nothing. Drives the back-off.
  int failures_in_row = 0;         // Drives the breaker.
  std::optional<Time> failed_at;   // The last failure that counted: the cool-down starts there.
  std::optional<Code> last_code;   // Of the last attempt; unset: it ended well.
  std::string last_reason;         // Of the last attempt that did not end well.

  std::optional<int64_t> snapshot_id;       // Current, as seen at the last look.
  std::optional<Time> snapshot_at;          // Its time, by its writer's clock.
  std::optional<Time> snapshot_seen;        // When we first saw it, by ours.
  std::optional<int64_t> handled_snapshot;  // The current one as the last settled run left it.
  std::optional<Time> changed_at;           // First look at which the two differed.

  // Start of the last settled run.
  std::optional<Time> last_run() const {
    return settled.empty() ? std::nullopt : std::optional(settled.back().to);
  }
  bool operator==(const TableHistory&) const = default;
};

// What a tick sees of a table. An empty table has no snapshot.
struct Sighting {
  Time now;
  std::optional<int64_t> snapshot_id = {};
  std::optional<Time> snapshot_at = {};
};
// Call it at every tick before DecideDue. Times that this clock cannot have seen (later than now +
// skew: it jumped back, or another one runs ahead) are forgotten: what was settled before now stays
// settled, what lies after it is open again, waits count from now. Returns one sentence on what was
// forgotten, for the log; else empty.
std::string Observe(TableHistory& history, const ScheduleOptions& options,
                    const Sighting& sighting);

struct RunOutcome {
  Time started;  // The `now` of the verdict that started it.
  Time ended;
  std::optional<Code> code = {};  // Unset: it ended well, whether or not there was anything to do.
  std::string reason = {};        // Of the error.
  // What the run has dealt with: its own snapshot, if that one's parent is the snapshot that the
  // plan was made on; else the latter, so that what others committed meanwhile counts as a change.
  // Unset: the one of the last look.
  std::optional<int64_t> snapshot_id = {};
};
// An attempt whose process died is kTransient, ended when somebody noticed: a table that kills its
// process is backed off from, like any other that fails.
void Record(TableHistory& history, const ScheduleOptions& options, const RunOutcome& outcome);

// Somebody says that what was wrong is mended: breaker and back-off end, what was settled stays so.
void ForgetFailures(TableHistory& history);

// Of a table that is known from its log rows alone, in any order: a run that started then has
// settled its fires.
void RecordSettled(TableHistory& history, const ScheduleOptions& options, Time started);

enum class Due {
  kDue,
  kNotYet,       // No fire since the last run.
  kLetGo,        // The last fire is older than the catch-up window.
  kTooSoon,      // Changed, but within min_interval of the last run.
  kNotQuiet,     // Due, but the newest snapshot is younger than the quiet window.
  kBackingOff,   // Due, but an attempt has just failed.
  kBreakerOpen,  // Too many failures in a row, or one that must not be repeated.
};
std::string_view DueName(Due due);  // "due", "not_yet", "breaker_open", ….

enum class Trigger { kNone, kFire, kEvent, kDemand };
std::string_view TriggerName(Trigger trigger);  // "fire", ….

struct DueVerdict {
  Due due = Due::kNotYet;
  Trigger trigger = Trigger::kNone;  // What makes, or would make, it due.
  std::string reason;                // One sentence with the number that decided.
  // With the same history and options, and without a warning, `due` is the same at every time from
  // now until just before it. Unset: nothing changes by itself.
  std::optional<Time> until;
  std::optional<Time> fire;       // The last one that is not settled, with jitter.
  std::optional<Time> next_fire;  // The first one after now, with jitter; for display.
  int64_t coalesced = 0;          // Missed fires that the same run settles, besides `fire`.
  int64_t let_go = 0;             // Fires that nobody will run; both stop counting at 1,000.
  bool half_open = false;         // kDue as the one try after a cool-down.
  std::string warning;            // Times of the history that were not believed; else empty.
};
// Exactly one verdict. A table is due for a fire if that fire is not settled, lies within the
// catch-up window, and is the last one at or before now (R157): missed ones coalesce into it.
// Order: breaker, then not due, then back-off, then quiet window. `table` is its full name, of
// which the hashes are made. Requires CheckSchedule.
DueVerdict DecideDue(const TableHistory& history, const ScheduleOptions& options,
                     std::string_view table, Time now);

// FNV-1a, 64 bits.
uint64_t StableHash(std::string_view text);
Duration JitterOf(std::string_view table, Duration jitter);
// After the n-th attempt in a row (n >= 1): within (3/4 d, d] of d = min * 2^(n-1) in its bounds.
Duration BackoffOf(std::string_view table, int attempts, const ScheduleOptions& options);

// The history as texts by name and back: times as microseconds since 1970, codes by CodeName.
// What is unset is left out, and unknown names are ignored, so that versions can differ. kCorrupt,
// naming the field, for a value that is none.
std::map<std::string, std::string> HistoryFields(const TableHistory& history);
Result<TableHistory> HistoryFromFields(const std::map<std::string, std::string>& fields);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_SCHEDULE_H_
