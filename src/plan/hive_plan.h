// What to compact, as a pure function of (state, options, now). No I/O, clock or threads.
// docs/COMPACTION.md states the contract in words: candidate set, fixed point, budget.
#ifndef LITHIFY_PLAN_HIVE_PLAN_H_
#define LITHIFY_PLAN_HIVE_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hive.h"
#include "base/text.h"

namespace lithify::plan {

// Ranges are enforced by config (R048); the defaults are R202, R203, R230, Q5.
struct HiveOptions {
  Duration grace = std::chrono::minutes(15);
  int min_files = 4;                      // More live files than this: candidate.
  int64_t small_file_bytes = 128 * kMiB;  // Any live file below this: candidate.
  int64_t target_file_bytes = 512 * kMiB;
  int64_t file_bytes_min = 256 * kMiB;  // The band that outputs should fall in.
  int64_t file_bytes_max = 2 * kGiB;
  // One plan takes no more than this; the rest waits for the next ones.
  int64_t max_input_files = 10'000;
  int64_t max_input_bytes = 100 * kGiB;
  Duration gc_grace = std::chrono::hours(1);
  // Data that retention removes within a day is not worth moving (H9). Zero: no retention.
  Duration retention = Duration::zero();
};

enum class Verdict {
  kCandidate,
  kNotSealed,      // now < end of bucket + grace.
  kNothingToGain,  // Below both triggers.
  kIrreducible,    // A trigger holds, but no plan gives fewer files (T19).
  kExpiring,       // Retention removes it within a day.
  kUnsupported,    // An input cannot be rewritten, or a file not be named; the reason says which.
  kEmpty,          // No live file.
  // Never of PlanPartition: the job says so.
  kClaimed,    // Another compactor is at it (Q3).
  kNotChosen,  // The caller wants others first.
};
std::string_view VerdictName(Verdict verdict);  // "candidate", "not_sealed", ….

struct PartitionPlan {
  Verdict verdict = Verdict::kEmpty;
  std::string reason;               // One sentence with the number that decided.
  std::vector<std::string> inputs;  // Bare names, in output order (by name, i.e. creation).
  int64_t bytes_in = 0;
  int outputs = 0;
  int64_t live_files = 0;
  int64_t live_bytes = 0;
  int64_t small_files = 0;  // Live, below small_file_bytes.
};

// `now` is what SealingNow gave. Files in state kLate count as live: they are adopted first.
PartitionPlan PlanPartition(const HivePartitionState& state, const HiveOptions& options, Time now);

// Sealing never trusts a slow local clock alone (R315): the newest object time seen may move it
// forward. Returns max(now, newest modification); the caller warns if they differ by > grace.
Time SealingNow(Time now, const HivePartitionState& state);

// Sets each file's state from names, the manifest and times. Files that need a look at their
// footer to tell kLate from kOwnOrphan come back as kLate.
void ClassifyFiles(HivePartitionState& state, Time manifest_modified);

// Names that the manifest calls live and `state.files` does not have: rows are missing, so the
// caller must stop at this partition. In the manifest's order; empty without a manifest.
std::vector<std::string> MissingLiveFiles(const HivePartitionState& state);

// A file that readers without a manifest take as data and that no manifest can name: the first
// generation would hide its rows. nullptr: none, or there is a manifest.
const HiveFile* UnnameableFile(const HivePartitionState& state);

// True if `file`, which has the name of the retired one, was modified after that one was retired
// (superseded or fenced): somebody wrote a new file under its name. What it holds nobody can tell.
bool ReusesName(const HiveFile& file, const RetiredFile& retired);

enum class GcAction {
  kRemove,       // Temporary or retired, past every grace.
  kRemoveClaim,  // A claim past the grace: only if it has expired, which its content tells.
  kFenceRemove,  // Own orphan past the grace: fence the generation first, then remove.
  kKeepYoung,    // Would go later.
  kKeep,         // Live, late, ambiguous, not ours.
};

struct GcDecision {
  std::string name;
  int64_t size = 0;
  GcAction action = GcAction::kKeep;
  std::string reason;
};

// Justified per file (R236-R238, T22-T24); the executor re-reads the manifest before each removal.
// `now` is the clock's time, never SealingNow's: an object time must not shorten a grace.
std::vector<GcDecision> PlanGc(const HivePartitionState& state, const HiveOptions& options,
                               Time now);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_HIVE_PLAN_H_
