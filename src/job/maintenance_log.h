// The table of what maintenance did (R161-R167): one row per job and table, and the rows of leases,
// which maintain/lease.h gives their meaning. By default `sqe_system.maintenance_log`.
//
// Columns go by name in the table's current schema, and from there by field id, never by position
// (T35): a table that somebody else made may have them in another order, with other ids, and
// columns of its own, as long as those may be null. Rows of other writers are read as they are; a
// null where a value belongs reads as "" or 0.
//
// The table is partitioned by trigger and by the day that a row's finished_at_ms is in (T17): a
// reader that names both reads the files of a day or two of one trigger, however many rows were
// ever written. A table that is partitioned otherwise, or not at all, works, and costs more to
// read.
//
// Errors, all calls: kNotFound there is no such table: `lithify init-state` makes it; whoever only
// wanted to write goes on without (R299). kInvalid it is not a maintenance log: the message names
// the columns that are missing or of another type. kDenied, kTransient, kCorrupt, kLimit,
// kCancelled: as from catalog, store and scan.
#ifndef LITHIFY_JOB_MAINTENANCE_LOG_H_
#define LITHIFY_JOB_MAINTENANCE_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "storage/locations.h"

namespace lithify::job {

// Values of LogRow::trigger and LogRow::status that lithify writes (R163).
namespace log_trigger {
inline constexpr std::string_view kScheduler = "scheduler";  // Nothing was done: advice, refusals.
inline constexpr std::string_view kScheduled = "scheduled";  // A job of mode active.
inline constexpr std::string_view kLease = "lease";          // Not a job (R148).
}  // namespace log_trigger
namespace log_status {
inline constexpr std::string_view kAdvisory = "advisory";
inline constexpr std::string_view kSuccess = "success";
inline constexpr std::string_view kFailed = "failed";
inline constexpr std::string_view kSkipped = "skipped";
inline constexpr std::string_view kPartial = "partial";
inline constexpr std::string_view kClaimed = "claimed";
inline constexpr std::string_view kReleased = "released";
}  // namespace log_status

// The 14 columns of R162, in its order. All but the last two are required.
struct LogRow {
  std::string job_id;      // UUIDv7. Of a lease: of the claim, the same in all its rows.
  std::string table_name;  // "catalog.ns.table". Of a lease: its key.
  std::string trigger;
  std::string principal;  // Of a lease: the holder.
  int64_t started_at_ms = 0;
  int64_t finished_at_ms = 0;  // Of a lease: when it ends.
  std::string status;
  int64_t files_in = 0;
  int64_t files_out = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t rows_removed = 0;
  std::optional<int64_t> snapshot_id;
  std::optional<std::string> error;
  bool operator==(const LogRow&) const = default;
};

// Which rows; each condition that is set must hold. Files that cannot hold such a row are not read.
struct LogFilter {
  std::optional<std::string> trigger = {};
  bool leases = true;  // False: rows of jobs alone (R148).
  std::optional<std::string> table_name = {};
  std::optional<int64_t> finished_after_ms = {};  // finished_at_ms > it.
  int64_t rows_max = 1'000'000;                   // More that match are kLimit.
};

struct LogView {
  // The head that was read; unset where the table has no snapshot.
  std::optional<int64_t> snapshot_id;
  std::vector<LogRow> rows;  // In no certain order.
  int64_t files_read = 0;
  // What was looked at, for AppendOn().
  std::shared_ptr<const catalog::LoadedTable> table;
};

struct MaintenanceLogServices {
  catalog::Catalog& catalog;
  storage::Locations& locations;
  const Clock& clock;
  Random& random;
  // Waits before a retry. Unset: the thread sleeps.
  std::function<void(Duration)> sleep = {};
  int threads = 2;  // That read files.
};

// Thread-safe: holds nothing but what it was given.
class MaintenanceLog {
 public:
  MaintenanceLog(MaintenanceLogServices services, catalog::TableIdent ident)
      : services_(std::move(services)), ident_(std::move(ident)) {}

  const catalog::TableIdent& ident() const { return ident_; }

  Result<LogView> Read(const LogFilter& filter, const CancelFlag& cancel);

  // Appends rows, at least one, in one commit, and returns its snapshot. Conflicts with other
  // writers are tried again, a bounded number of times; then kConflict: nothing was written.
  // kUnknownOutcome: they may be there.
  Result<int64_t> Append(std::span<const LogRow> rows, const CancelFlag& cancel);
  // Likewise, but only on top of what was seen: kConflict if it is not the head any more.
  Result<int64_t> AppendOn(const LogView& seen, std::span<const LogRow> rows,
                           const CancelFlag& cancel);

 private:
  Result<int64_t> AppendTo(const catalog::LoadedTable& table, bool expect_head,
                           std::span<const LogRow> rows, const CancelFlag& cancel);

  MaintenanceLogServices services_;
  catalog::TableIdent ident_;
};

// "sqe_system.maintenance_log".
catalog::TableIdent DefaultLogIdent();

struct InitResult {
  bool namespace_created = false;
  bool table_created = false;
  std::string location;
};
// Makes namespace and table where they are missing (R167); called for an operator, who may create
// tables, never for the principal of maintenance. An existing table is never altered. kInvalid if
// it is no maintenance log. `location`: where its files go; empty: where the catalog puts tables.
Result<InitResult> InitMaintenanceLog(catalog::Catalog& catalog, const catalog::TableIdent& ident,
                                      const std::string& location);
// The same as statements for Spark's SQL. `name` is the table as that engine names it, quoted where
// needed: "lake.sqe_system.maintenance_log".
std::string MaintenanceLogDdl(std::string_view name);

// kInvalid, naming them, where columns are missing, of another type, required where rows may have
// no value, or required without being ours.
Status CheckLogSchema(const iceberg::Schema& schema);

// Keeps the table small (Q17): takes files out of it all of whose rows are old, rewrites partitions
// with many small files, merges manifests, expires old snapshots. Call it now and then, from any
// coordinator: it does nothing until there were enough appends since the last time, and to lose a
// race is no error. The log table is never scored as other tables are.
struct LogCompactionOptions {
  int appends_min = 64;  // Since the last compaction; fewer: nothing is done.
  Duration keep_snapshots = std::chrono::minutes(30);
  int keep_snapshots_min = 5;
  // Rows whose finished_at_ms is older than this go, a file at a time: up to a day later, since a
  // file has the rows of a day. Of a table that is not partitioned by it, as its files happen to
  // be cut. 0: all stay.
  Duration keep_rows = Duration::zero();
};
struct LogCompaction {
  bool ran = false;
  int64_t rows_removed = 0;  // Old ones.
  int64_t files_rewritten = 0;
  int64_t files_added = 0;
  int64_t manifests_rewritten = 0;
  int64_t snapshots_expired = 0;
};
Result<LogCompaction> CompactMaintenanceLog(const IcebergServices& services,
                                            const IcebergSettings& settings,
                                            const catalog::TableIdent& ident,
                                            const LogCompactionOptions& options,
                                            const CancelFlag& cancel);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_MAINTENANCE_LOG_H_
