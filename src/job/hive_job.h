// The loop of the plain-Parquet job: load, plan, rewrite, commit; garbage collection; status,
// verification and history. The same functions serve the command line, the daemon, an embedding
// process and (later) the server.
//
// Thread safety: a HiveJob may run one call at a time; several HiveJobs, in one process or many,
// may work on one tree at once (R218, T23, T27).
#ifndef LITHIFY_JOB_HIVE_JOB_H_
#define LITHIFY_JOB_HIVE_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/hive.h"
#include "base/random.h"
#include "base/result.h"
#include "base/trace_context.h"
#include "job/hive_memory.h"
#include "observe/audit_log.h"
#include "observe/metrics.h"
#include "observe/progress.h"
#include "observe/telemetry.h"
#include "plan/hive_plan.h"
#include "rewrite/event_file.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"
#include "table/hive_layout.h"

namespace lithify::job {

// Everything external, borrowed for the job's lifetime.
struct HiveServices {
  storage::Store& store;
  rewrite::GroupRunner& runner;
  const Clock& clock;
  Random& random;
  observe::AuditLog& audit;
  observe::Progress& progress;
  // Makes the bytes of one Parquet event file: rewrite::EncodeCompactionEvents, except in tests.
  // Must be set when HiveSettings::audit_series is (kInvalid otherwise).
  std::function<Result<std::string>(std::span<const rewrite::CompactionEvent>)> encode_events = {};
  // Shared by all jobs of this process on this tree. Null: the job has one of its own.
  std::shared_ptr<SweepMemory> memory = {};
  // Where sweeps that are no dry runs are counted (R250-R260); null: nowhere.
  observe::Metrics* metrics = nullptr;
  observe::Telemetry* telemetry = nullptr;  // Null: no spans, no events.
  TraceContext trace = {};                  // What the job is part of.
};

// A partition that may be rewritten, and how much of it.
struct ChosenPartition {
  std::string key_prefix;  // As PartitionId has it.
  int64_t bytes_max = 0;   // Of inputs: a plan that has grown beyond it is left to the next choice.
};

struct HiveSettings {
  std::vector<SeriesLayout> series;
  plan::HiveOptions options;
  // A partition is claimed for so long while it is rewritten, and again when half of it is over
  // (Q3). Zero: no claims are made, and none are heeded.
  Duration claim_ttl = std::chrono::minutes(15);
  rewrite::OutputShape shape;  // `outputs` is set per plan.
  // Rows of each rewrite are brought into it; null: they stay as they are. What is rewritten does
  // not depend on it (docs/COMPACTION.md).
  std::shared_ptr<const rewrite::Ordering> ordering = {};
  rewrite::Verify verify = rewrite::Verify::kSample;
  int threads = 1;             // --jobs: all worker threads together.
  int partitions_at_once = 1;  // Bounded by threads.
  // Where each request is a round trip, so many partitions are looked at together, before those
  // that need a rewrite get one, partitions_at_once of them together; and so many footers of one
  // are read together. Looking is waiting: threads do not bound it.
  int looks_at_once = 8;
  int64_t memory_bytes = kGiB;  // --memory: all groups together.
  // Series that committed compactions are recorded in as Parquet (R244); empty: none. Its layout
  // must have a tenant and a day.
  std::string audit_series;
  // Set: no other partition is rewritten, whatever is to be gained there: its verdict is
  // kNotChosen. Late files are adopted and garbage is collected everywhere.
  std::optional<std::vector<ChosenPartition>> only_partitions;
  // Written into every record of the audit log, and records of other trees are not ours: for a log
  // that several trees share. Empty for a log of one tree.
  std::string audit_tree;
};

enum class Outcome {
  kCommitted,
  kPlanned,   // Dry run: would be rewritten.
  kSkipped,   // The plan's verdict says why.
  kAdopted,   // Nothing to rewrite, but late files became visible.
  kLostRace,  // Another compactor published first: nothing of ours is visible (R310).
  kFailed,    // `error`; the partition is as it was, unless it says otherwise.
  kCancelled,
};
std::string_view OutcomeName(Outcome outcome);

struct PartitionOutcome {
  PartitionId id;
  plan::PartitionPlan plan;
  Outcome outcome = Outcome::kSkipped;
  std::optional<Error> error;
  uint64_t generation = 0;  // Live one after this call; 0: no manifest.
  std::vector<std::string> outputs;
  std::vector<std::string> adopted;
  int64_t rows = 0;
  int64_t bytes_out = 0;
  Duration took = Duration::zero();
  std::map<std::string, int64_t> tiers;
  std::map<std::string, int64_t> splices;      // Those of tier splice, by way.
  std::map<std::string, int64_t> recoded;      // Those of tier recode, by reason.
  std::optional<rewrite::TierPlan> tier_plan;  // Of kPlanned; else, or where notes say so, none.
  std::vector<std::string> notes;
  // Bytes of each live file as the sweep left it; only where HiveServices::metrics is set.
  std::vector<int64_t> live_file_bytes;
};

struct GcReport {
  struct Item {
    std::string key;
    int64_t size = 0;
    std::string reason;
  };
  std::vector<Item> removed;  // Dry run: would be removed.
  std::vector<Item> kept;     // Young or ambiguous, with the reason.
  std::vector<Error> errors;
  int64_t unremoved = 0;  // Files that were to go and would not.
};

struct SweepReport {
  std::vector<PartitionOutcome> partitions;
  std::vector<table::SkippedPath> skipped_paths;
  std::vector<Error> errors;  // Not tied to one partition's outcome.
  GcReport gc;
  int64_t reconciled = 0;  // Intents of dead processes whose outcome was found (T25).
  Duration took = Duration::zero();
  bool cancelled = false;
  bool whole = false;  // Of all the tree, not of what a filter chose.

  int64_t Count(Outcome outcome) const;
  bool failed() const;  // Any kFailed or error.
};

struct PartitionStatus {
  HivePartitionState state;
  plan::PartitionPlan plan;
  std::optional<Error> error;
  std::optional<Time> last_compaction;  // From the manifest's lineage or the audit log.
};

struct StatusReport {
  std::vector<PartitionStatus> partitions;
  std::vector<table::SkippedPath> skipped_paths;
  std::vector<Error> errors;
};

struct VerifyItem {
  std::string key;
  int64_t rows = 0;
  bool digest_recorded = false;
  std::optional<Error> error;
};

struct VerifyTreeReport {
  std::vector<VerifyItem> files;
  std::vector<Error> errors;  // Manifests, listings, audit chain.
  int64_t partitions = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  bool ok() const;
};

class HiveJob {
 public:
  HiveJob(HiveServices services, HiveSettings settings);

  // One pass over the tree: reconcile, collect garbage, adopt late files, compact candidates.
  // `dry_run` changes nothing at all; tiers are explained for as many partitions as docs/CLI.md
  // says. An error only if the tree itself cannot be listed or the settings are wrong.
  //
  // Reports are in the order of partitions. `on_partition` is called as each of them ends, one call
  // at a time, by any thread.
  Result<SweepReport> Sweep(const table::PartitionFilter& filter, bool dry_run,
                            const CancelFlag& cancel,
                            const std::function<void(const PartitionOutcome&)>& on_partition = {});

  Result<StatusReport> GetStatus(const table::PartitionFilter& filter, const CancelFlag& cancel);

  // The live set of one partition, by key prefix below the root.
  Result<HivePartitionState> LiveFiles(const std::string& key_prefix);

  Result<VerifyTreeReport> Verify(const table::PartitionFilter& filter, const CancelFlag& cancel);

  Result<GcReport> Collect(const table::PartitionFilter& filter, bool dry_run,
                           const CancelFlag& cancel);

 private:
  Result<SweepReport> SweepUncounted(
      const table::PartitionFilter& filter, bool dry_run, const CancelFlag& cancel,
      const std::function<void(const PartitionOutcome&)>& on_partition);

  HiveServices services_;
  HiveSettings settings_;
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_JOB_H_
