// The procedures on Iceberg tables: rewrite_data_files, table_health, expire_snapshots,
// remove_orphan_files, rewrite_manifests, rollback_to_snapshot. The command line, the server and
// the scheduler call the same functions with a Catalog that they opened themselves: no credential
// passes here.
//
// Every call that changes something writes an intent to the audit log first and the outcome in
// every branch (R056, R178); one that finds nothing to change writes nothing. That the catalog
// withholds the table (kDenied, kNotFound) is on record for every call (R168).
//
// Thread safety: an IcebergJob may run one call at a time.
#ifndef LITHIFY_JOB_ICEBERG_JOB_H_
#define LITHIFY_JOB_ICEBERG_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "base/trace_context.h"
#include "catalog/catalog.h"
#include "group/fleet.h"
#include "job/fleet_report.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "observe/telemetry.h"
#include "plan/iceberg_plan.h"
#include "plan/iceberg_retention.h"
#include "rewrite/group_runner.h"
#include "storage/locations.h"
#include "storage/s3_loan.h"

namespace lithify::job {

struct IcebergServices {
  catalog::Catalog& catalog;
  storage::Locations& locations;
  // A runner for the store that a table's files are in.
  std::function<std::unique_ptr<rewrite::GroupRunner>(storage::Store&)> make_runner;
  Clock& clock;
  Random& random;
  observe::AuditLog& audit;
  observe::Progress& progress;
  // Workers that groups may go to; null: there are none.
  group::Fleet* fleet = nullptr;
  observe::Telemetry* telemetry = nullptr;  // Null: no spans.
  // FleetJob::loans of this catalog's tables. Empty: workers have keys of their own.
  std::function<Result<std::vector<storage::Loan>>(const catalog::TableIdent&)> loans = {};
};

struct IcebergSettings {
  std::string trigger = "manual";              // manual | scheduled
  std::string principal;                       // For the audit log and the snapshot summary.
  std::map<std::string, std::string> summary;  // RewriteCommit::summary.
  TraceContext trace = {};                     // What the call is part of.
  std::string job_id;                          // Of the next call alone. Empty: each has a new one.
  rewrite::Verify verify = rewrite::Verify::kSample;
  int threads = 1;
  int64_t memory_bytes = int64_t{1} << 30;
  // Where sorting keeps what does not fit the memory, as of rewrite::Ordering. Of this process:
  // workers have their own.
  std::string spill_directory;
  int64_t spill_bytes_max = 0;
};

struct RewriteRequest {
  catalog::TableIdent ident;
  std::string branch = "main";
  plan::RewriteOptions options;
  std::string where;  // File filter (I3), "" none: see table/iceberg_filter.h.
  bool partial_progress = false;
  int partial_progress_max_commits = 10;
  int max_attempts = 4;  // Whole re-plans after a conflict (R118).
  bool remove_dangling_deletes = false;
  int groups_at_once_max = 0;  // 0: as threads and memory allow. Of this process alone.
  // Above what the fleet is configured to; kRequire without a fleet is kUnsupported.
  std::optional<group::Distribution> distribution = {};
  // Rows of every other spec move to this one; at most so many partitions of it per group, since
  // each reads its files again.
  std::optional<int> output_spec_id;
  int64_t max_output_partitions = 1000;
  bool dry_run = false;
};

enum class RewriteStatus { kCommitted, kPartial, kSkipped, kPlanned, kFailed };
std::string_view RewriteStatusName(RewriteStatus status);  // "committed".

// One row, always, also for a skip (R068).
struct RewriteResult {
  std::string procedure = "rewrite_data_files";
  std::string table;
  RewriteStatus status = RewriteStatus::kSkipped;
  std::string reason;
  int64_t files_rewritten = 0;
  int64_t files_added = 0;
  int64_t delete_files_removed = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t rows_in = 0;
  int64_t rows_out = 0;
  int64_t rows_removed = 0;
  int64_t groups = 0;
  std::optional<int64_t> snapshot_id;  // The last of:
  std::vector<int64_t> snapshot_ids;   // Every commit of this job, oldest first.
  std::string job_id;
  bool distributed = false;
  std::optional<FleetReport> fleet;  // Of the last attempt, where it was distributed.
  int attempts = 0;

  plan::RewritePlan plan;                    // Of the last attempt.
  iceberg::LiveSet live;                     // What the plan's indices point into.
  std::vector<std::string> partition_names;  // Of LiveSet::partitions: "day=2026-11-29".
  std::map<std::string, int64_t> tiers;
  std::map<std::string, int64_t> splices;  // Those of tier splice, by way.
  std::map<std::string, int64_t> recoded;  // Those of tier recode, by reason.
  // Of a dry run, by group of the plan; none where notes say so.
  std::vector<std::optional<rewrite::TierPlan>> tier_plans;
  std::vector<std::string> notes;
};

struct HealthResult {
  std::string table;
  plan::TableHealth health;
  int64_t snapshot_id = 0;  // 0: the table has none.
  Duration took = Duration::zero();
};

// What a rewrite would find to do, from the manifests alone: no data file is opened.
struct DebtResult {
  HealthResult health;
  plan::RewritePlan plan;
  iceberg::LiveSet live;                     // What the plan's indices point into.
  std::vector<std::string> partition_names;  // Of LiveSet::partitions: "day=2026-11-29".
  iceberg::TableMetadata metadata;
};

struct RemovedFiles {
  std::string procedure;
  std::string table;
  std::string status;
  bool dry_run = false;
  std::string job_id;
  int64_t snapshots_removed = 0;  // expire_snapshots.
  std::vector<std::string> refs_removed;
  int64_t files_removed = 0;  // Dry run: would be removed.
  // Their locations, the first kFilesListedMax of an expiry; the audit log has all.
  std::vector<std::string> files;
  static constexpr size_t kFilesListedMax = 100'000;
  std::map<std::string, int64_t> by_kind;  // data, position_deletes, equality_deletes, manifest, …
  int64_t bytes = 0;
  std::vector<Error> failed;  // Files that could not be removed (I21).
  std::vector<std::string> notes;
  plan::OrphanPlan orphans;  // remove_orphan_files.
};

struct ManifestsResult {
  std::string table;
  std::string job_id;
  std::optional<int64_t> snapshot_id;
  int64_t rewritten = 0;
  int64_t added = 0;
};

struct ChangedProperties {
  std::map<std::string, std::string> properties;  // All, as they are now.
  bool changed = false;                           // False: they were so already.
};

class IcebergJob {
 public:
  IcebergJob(IcebergServices services, IcebergSettings settings)
      : services_(std::move(services)), settings_(std::move(settings)) {}

  // An error after some commits of partial progress landed names their snapshots.
  Result<RewriteResult> RewriteDataFiles(const RewriteRequest& request, const CancelFlag& cancel);
  Result<HealthResult> GetTableHealth(const catalog::TableIdent& ident,
                                      const plan::RewriteOptions& options);
  // The same look, with the plan of a rewrite.
  Result<DebtResult> GetTableDebt(const catalog::TableIdent& ident,
                                  const plan::RewriteOptions& options);
  Result<RemovedFiles> ExpireSnapshots(const catalog::TableIdent& ident,
                                       const plan::ExpireOptions& options, bool dry_run,
                                       const CancelFlag& cancel);
  Result<RemovedFiles> RemoveOrphanFiles(const catalog::TableIdent& ident,
                                         const plan::OrphanOptions& options, bool dry_run,
                                         const CancelFlag& cancel);
  Result<ManifestsResult> RewriteManifests(const catalog::TableIdent& ident,
                                           const CancelFlag& cancel);
  // Of branch main. Returns the snapshot that was current before.
  Result<int64_t> RollbackToSnapshot(const catalog::TableIdent& ident, int64_t snapshot_id);
  // ALTER TABLE … SET | UNSET TBLPROPERTIES. Who may not write is refused even where there is
  // nothing to change, as far as the catalog can be asked.
  Result<ChangedProperties> ChangeProperties(const catalog::TableIdent& ident,
                                             const std::map<std::string, std::string>& set,
                                             const std::vector<std::string>& remove);

 private:
  IcebergServices services_;
  IcebergSettings settings_;
};

// --- parts that tests and the server use -------------------------------------------------------

// All live files of a snapshot, from its manifests only (R082).
Result<iceberg::LiveSet> LoadLiveSet(storage::Locations& locations,
                                     const iceberg::TableMetadata& table,
                                     const iceberg::Snapshot& snapshot, const std::string& where);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_JOB_H_
