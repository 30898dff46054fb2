// Which snapshots and refs have expired, and which files are nobody's: pure functions.
#ifndef LITHIFY_PLAN_ICEBERG_RETENTION_H_
#define LITHIFY_PLAN_ICEBERG_RETENTION_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::plan {

// kDenied if the table property gc.enabled is anything but true: its files may be used by other
// tables, so neither procedure may remove one (R187).
Status CheckGcAllowed(const iceberg::TableMetadata& table);

// Unset options come from the table: history.expire.max-snapshot-age-ms (5 days),
// history.expire.min-snapshots-to-keep (1), history.expire.max-ref-age-ms (never), each of which a
// ref may override ("Snapshot Retention Policy" of the table spec).
struct ExpireOptions {
  std::optional<Time> older_than;
  std::optional<int> retain_last;
  // Only these, whatever their age, and no ref; kInvalid if one is the head of a ref, or with one
  // of the other two.
  std::vector<int64_t> snapshot_ids;
};

struct ExpirePlan {
  std::vector<int64_t> snapshot_ids;  // To remove, oldest first.
  std::vector<std::string> refs;      // To remove: older than their max-ref-age. Never "main".
  std::vector<std::string> notes;     // Why what a user may expect to go stays.
};

// Kept: the head of every ref; of each branch its newest retain_last ancestors and those younger
// than older_than; every snapshot on no branch that is younger than older_than (I14, I15, R060).
// What a ref says of itself goes before the options. kDenied: see CheckGcAllowed. kInvalid for a
// property that is no number; kCorrupt if the current snapshot is not among the snapshots.
Result<ExpirePlan> PlanExpiry(const iceberg::TableMetadata& table, const ExpireOptions& options,
                              Time now);

struct ListedFile {
  std::string location;  // Canonical.
  int64_t size = 0;
  std::optional<Time> modified;  // Unset or the epoch: unknown age, kept (I19).
};

struct OrphanOptions {
  std::optional<Time> older_than;             // Default: now - 3 days.
  Duration age_min = std::chrono::hours(24);  // The floor; a younger bound is kInvalid (I19).
  // More orphans than this share of all listed files are refused without `force` (R185).
  double share_max = 0.5;
  bool force = false;
  int64_t deletes_max = 0;  // 0: no bound.
  // Also below write.data.path and the like where they lie outside the table's location. Tables of
  // other catalogs may use them too, which nobody can see.
  bool other_locations = false;
};

struct OrphanPlan {
  std::vector<ListedFile> orphans;  // Sorted by location.
  int64_t listed = 0;
  int64_t referenced = 0;   // Listed and referenced.
  int64_t young = 0;        // Unreferenced, kept for their age.
  int64_t unknown_age = 0;  // Unreferenced, kept since nobody knows their age.
  int64_t over_limit = 0;   // Orphans left for the next run by deletes_max.
};

// `referenced` holds canonical locations. An orphan is listed, not referenced, and was modified
// before the bound. kInvalid for a bound in the future or under the floor; kDenied for too large a
// share, and if nothing at all is referenced. Callers check CheckGcAllowed first.
Result<OrphanPlan> PlanOrphans(const std::vector<ListedFile>& listed,
                               const std::unordered_set<std::string>& referenced,
                               const OrphanOptions& options, Time now);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_ICEBERG_RETENTION_H_
