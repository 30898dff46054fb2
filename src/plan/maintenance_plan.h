// What to compact first: which of many candidates, of many tables, are worth the seconds that they
// cost, within strict budgets. Pure functions of plain values: no I/O, clock or threads.
//
// A candidate is one partition and what the planner of the rewrite would do there
// (plan/iceberg_plan.h, plan/hive_plan.h): its files, bytes and outputs are theirs, so ranking and
// rewriting cannot disagree. Its score is
//   expected query seconds saved / compute seconds spent,
// and it gets exactly one verdict, with the number that decided. docs/COMPACTION.md ("What is
// compacted first") states the formula, the priors and the budgets.
//
// How it is used, once a run:
//   1. CandidatesOf(plan of each table), with what is known of reads and writes filled in;
//   2. PlanMaintenance; the decisions are what `system.maintenance_plan` shows;
//   3. each job, in order, is one rewrite of one table: the partitions of its candidates, one
//   commit;
//   4. priors.overdue_credit = plan.overdue_credit, and priors = Calibrate(priors, outcome) for
//   each
//      job that ran; the priors are kept as plain numbers (PriorsToNumbers, PriorsFromNumbers).
#ifndef LITHIFY_PLAN_MAINTENANCE_PLAN_H_
#define LITHIFY_PLAN_MAINTENANCE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/delete_index.h"
#include "base/iceberg.h"
#include "plan/estimate.h"
#include "plan/hive_plan.h"
#include "plan/iceberg_plan.h"
#include "plan/key_overlap.h"

namespace lithify::plan {

enum class MaintenanceKind { kRewriteDataFiles, kRewriteManifests };
std::string_view MaintenanceKindName(MaintenanceKind kind);  // "rewrite_data_files", ….

struct MaintenanceCandidate {
  // (namespace, table, partition, kind) is the identity, and breaks ties. No two are the same.
  std::string name_space;  // "sales.eu".
  std::string table;       // Without the namespace.
  std::string partition;   // As shown to people; empty: the whole table.
  MaintenanceKind kind = MaintenanceKind::kRewriteDataFiles;

  // From the planner. files_in 0: it plans nothing there, and `planner_reason` says why.
  int64_t files_in = 0;
  int64_t bytes_in = 0;
  int64_t rows = 0;
  int64_t outputs = 0;
  // What each reader of these files has to merge today and will not afterwards.
  int64_t delete_rows = 0;  // Rows of position and equality deletes, once for each file they reach.
  int64_t delete_files = 0;  // Those that a reader opens for these files.
  // Of bytes_in, what the next rewrite of the partition reads again if writers go on: outputs that
  // stay below the size of a good file, and all that new deletes reach.
  int64_t again_bytes = 0;
  std::string planner_reason;
  // Files of the partition that a read of one key opens, now and afterwards (plan/key_overlap.h);
  // unset: the table has no sort order, or its files no bounds.
  std::optional<FilesPerKey> files_per_key;

  // Reads of the partition that a query log counts over so many days; 0 days: there is no log. The
  // prior rate counts like `prior_days` of log, so that a young log is not believed at once.
  double reads = 0;
  double read_days = 0;
  // How many days' reads at that rate are still to come, if the log tells: of a partition by time,
  // the reads of all partitions of its table that are as old or older, divided by those of one that
  // is as old. nullopt: the prior life.
  std::optional<double> read_life_days;
  // Commits per hour that touch the partition; nullopt: unknown, the prior holds.
  std::optional<double> commits_per_hour;
  // The share of them that only append files: those never conflict with a rewrite. 0 to 1.
  double append_share = 0;
  // Data files per hour that writers add to the partition; 0 if its period is over. nullopt: from
  // seconds_since_compaction.
  std::optional<double> files_per_hour;
  // Since the last commit that touched it. A partition that is silent for longer than its rates
  // explain is taken as sealed: both rates count at most one commit per this time.
  std::optional<double> seconds_since_write;
  // Since the last rewrite of all of it that its plan took.
  std::optional<double> seconds_since_compaction;
  // Until retention removes the rows.
  std::optional<double> seconds_to_expiry;
  // Since it became a candidate.
  double waiting_seconds = 0;

  // Set by the caller's own state: these are not even ranked.
  double backing_off_seconds = 0;  // > 0: not before so many seconds.
  std::string breaker;             // Not empty: the table's breaker is open, and why.
};

// What is learned, and what it starts from. Doubles only: docs/COMPACTION.md says where each prior
// comes from. Calibrate never moves a learned one further than a factor of kPriorRange from here.
struct MaintenancePriors {
  // Compute seconds of a job: the constants of plan/estimate.h, learned.
  double seconds_per_byte = 1.0 / static_cast<double>(kBytesPerSecondPerThread);
  double seconds_per_file = std::chrono::duration<double>(kTimePerFile).count();
  double seconds_per_partition = std::chrono::duration<double>(kTimePerPartition).count();
  double seconds_per_commit = 2.0;  // Loading, planning, committing: once a job.
  // What a reader pays for each read of a partition.
  double read_seconds_per_file = 0.02;
  double read_seconds_per_delete_row = 2e-7;
  double read_seconds_per_delete_file = 0.03;
  // Of the commits that do more than append to a partition while it is rewritten: how many make
  // ours a conflict.
  double conflict_share = 0.1;
  // Reads that came / reads that were predicted, by hindsight.
  double reads_factor = 1.0;

  // Not learned.
  double reads_per_day = 1.0;      // Of a partition of which nothing is known.
  double prior_days = 1.0;         // So much of a log the line above counts for.
  double commits_per_hour = 0.05;  // Of a partition of which nothing is known.
  double life_days = 30.0;         // No benefit is counted beyond.
  // Of the reads of a table with a sort order: those that look for few keys, and open the files
  // only that may have them. The others open all.
  double selective_share = 0.5;

  // Kept here since they are to survive as well: how many outcomes were taken in, and what the
  // overdue have saved up, in budgets of a run (0 to 1): the caller sets it from each plan.
  double outcomes = 0;
  double overdue_credit = 0;
};
inline constexpr double kPriorRange = 100;

// By field name, for a file or a log row. Reading: a name that is missing or no finite number above
// 0 leaves the default, and a learned one is put into its range; unknown names are ignored.
std::map<std::string, double> PriorsToNumbers(const MaintenancePriors& priors);
MaintenancePriors PriorsFromNumbers(const std::map<std::string, double>& numbers);

// Strict: what is chosen never exceeds one of them. 0: no bound.
struct MaintenanceBudget {
  int64_t bytes = 0;   // Of inputs.
  double seconds = 0;  // Compute seconds: of all threads, so 4 threads spend 4 of them a second.
  int64_t commits = 0;
};

struct MaintenanceOptions {
  MaintenanceBudget per_run = {};
  MaintenanceBudget per_namespace = {};  // Of each that is not named below.
  std::map<std::string, MaintenanceBudget> of_namespace = {};
  // A candidate runs only if it saves so many query seconds per compute second.
  double threshold = 1.0;
  // Against starvation: those that are worth it and wait longer than this go first, the longest
  // first, for this share of the budget. One that costs more saves up for it over several runs
  // (MaintenancePriors::overdue_credit). Share 0: never.
  double overdue_days = 7.0;
  double overdue_share = 0.05;
  // Threads and limits of a job: how long it takes by the clock, one partition after the other, and
  // so whether its commit survives.
  CostModel model = {};
};
// kInvalid, naming the option and the allowed range.
Status CheckMaintenanceOptions(const MaintenanceOptions& options);

enum class MaintenanceVerdict {
  kRun,
  kNothingPlanned,  // The planner of the rewrite has nothing to do there.
  kTooLittleGain,   // "Do nothing" wins.
  kHot,             // Worth it, if writers did not break the commit.
  kOverRunBytes,    // Worth it, but the run's budget went to better ones, or is too small.
  kOverRunSeconds,
  kOverRunCommits,
  kOverNamespaceBytes,  // Likewise the namespace's.
  kOverNamespaceSeconds,
  kOverNamespaceCommits,
  kBackingOff,
  kBreakerOpen,
};
std::string_view MaintenanceVerdictName(MaintenanceVerdict verdict);  // "too_little_gain", ….

// Why a gain is not counted for longer.
enum class LifeBound {
  kNone,     // MaintenancePriors::life_days.
  kExpiry,   // The rows expire.
  kReads,    // Nobody is expected to read them any more.
  kRewrite,  // As much is written anew, and the next rewrite spends as much again.
};

struct MaintenanceDecision {
  MaintenanceVerdict verdict = MaintenanceVerdict::kNothingPlanned;
  std::string reason;  // The number that decided: "saves 12.4 s of queries per s of work, …".
  // 1: first. By aged score, then name; of those that are ranked at all (score > 0, not backing
  // off, no breaker). 0: not ranked.
  int64_t rank = 0;
  // Query seconds saved per compute second, as it is chosen: with its table's others, if they share
  // the commit; else alone.
  double score = 0;
  double expected_saved_seconds = 0;  // survival * saved_per_read * reads_per_day * life_days.
  double compute_seconds = 0;         // Of this candidate, without the commit.
  double saved_per_read = 0;          // Seconds.
  double reads_per_day = 0;
  double life_days = 0;
  LifeBound life_bound = LifeBound::kNone;
  double survival = 1;  // Of the commit of its job, or alone if it does not run. 0 to 1.
};

// One rewrite of one table, one commit.
struct MaintenanceJob {
  std::string name_space;
  std::string table;
  MaintenanceKind kind = MaintenanceKind::kRewriteDataFiles;
  std::vector<size_t> candidates;  // Indices into the input, best first.
  int64_t files = 0;
  int64_t bytes = 0;
  double compute_seconds = 0;  // With the commit.
  double wall_seconds = 0;
  double survival = 1;
  double expected_saved_seconds = 0;
  double score = 0;
};

struct MaintenancePlan {
  std::vector<MaintenanceDecision> decisions;  // One per candidate, in input order.
  std::vector<MaintenanceJob> jobs;            // In the order to run them.
  int64_t bytes = 0;
  double compute_seconds = 0;
  double expected_saved_seconds = 0;
  double overdue_credit = 0;  // For the next run.
};

// Does not depend on the order of the candidates. Requires CheckMaintenanceOptions. Numbers of a
// candidate that are negative or not finite count as 0.
MaintenancePlan PlanMaintenance(const std::vector<MaintenanceCandidate>& candidates,
                                const MaintenanceOptions& options, const MaintenancePriors& priors);

// Files that the average read of the candidate's partition opens now, and not after the rewrite.
double FilesSavedPerRead(const MaintenanceCandidate& candidate, const MaintenancePriors& priors);

// What a job did, for the log and for the next run.
struct MaintenanceOutcome {
  enum class Result {
    kCommitted,
    kConflict,
    kFailed,
    kOverran,  // Stopped since it took too long: it would have taken more than `compute_seconds`.
  };
  Result result = Result::kCommitted;
  // Of the job: what was done, what it took.
  int64_t partitions = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  double compute_seconds = 0;  // 0: unknown.
  double wall_seconds = 0;
  // Commits per hour that touch its partitions and do more than append, all together.
  double commits_per_hour = 0;
  // Of what a read of these partitions had to do before, and does not now.
  int64_t files_removed = 0;
  int64_t delete_rows_removed = 0;
  int64_t delete_files_removed = 0;
  // Seconds by which a read of all these partitions became shorter, if somebody measured it.
  std::optional<double> saved_per_read;
  // By hindsight: reads that were predicted for some time, and those that came.
  double predicted_reads = 0;
  std::optional<double> actual_reads;
};

// What the plan expects of a job with these numbers, for the record of predicted against actual.
double PredictedComputeSeconds(const MaintenancePriors& priors, const MaintenanceOutcome& outcome);
double PredictedSavedPerRead(const MaintenancePriors& priors, const MaintenanceOutcome& outcome);

// A bounded step in log space towards what was seen, divided among the rates by their share of the
// prediction, so that one outlier moves little and nothing leaves its range. A failed job teaches
// nothing; a conflict teaches its time, too, and the conflict share; one that was stopped for its
// time teaches that alone, and never that jobs are quicker.
MaintenancePriors Calibrate(const MaintenancePriors& priors, const MaintenanceOutcome& outcome);

// One candidate per partition of a plan of the rewrite, also of those where it plans nothing, with
// all fields that the plan and the live set know. `names` has the partitions' names by index into
// live.partitions; `options` are those of the plan.
std::vector<MaintenanceCandidate> CandidatesOf(const std::string& name_space,
                                               const std::string& table, const RewritePlan& plan,
                                               const iceberg::LiveSet& live,
                                               const iceberg::DeleteIndex& deletes,
                                               const RewriteOptions& options,
                                               const std::vector<std::string>& names);
// The same of one hive partition.
MaintenanceCandidate CandidateOf(const std::string& name_space, const std::string& table,
                                 const std::string& partition, const PartitionPlan& plan,
                                 const HiveOptions& options);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_MAINTENANCE_PLAN_H_
