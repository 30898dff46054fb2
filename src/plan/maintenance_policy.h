// What maintenance does to one table: its own properties above the catalog's policy above the
// configuration. Pure; JSON is read elsewhere.
//
// docs/MAINTENANCE.md, "Properties of a table", lists them.
#ifndef LITHIFY_PLAN_MAINTENANCE_POLICY_H_
#define LITHIFY_PLAN_MAINTENANCE_POLICY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "plan/cron.h"
#include "plan/iceberg_plan.h"

namespace lithify::plan {

// The values that hold where neither the table nor its catalog says anything (R039, R040). Ranges
// are enforced by config.
struct MaintenanceDefaults {
  // Of the tables' properties, without the dot at their end ([maintenance] property_prefixes).
  std::vector<std::string> prefixes{kMaintenancePrefixes.begin(), kMaintenancePrefixes.end()};
  Cron schedule;
  int64_t target_file_size_bytes = 512 * kMiB;
  int min_input_files = 5;
  int delete_file_threshold = 2;  // 0: off.
  Strategy strategy = Strategy::kBinpack;
  std::string sort_order;  // Empty: the table's own.
  std::optional<int> max_concurrent_file_group_rewrites;
  // Unset: the table's history.expire.* properties, else those of plan/iceberg_retention.h.
  std::optional<Duration> expire_older_than;
  std::optional<int> expire_retain_last;
  Duration orphan_older_than = std::chrono::days(3);
  // How long after its time a partition is read; unset: nobody knows.
  std::optional<Duration> read_life;
};

// A `system.data-compaction` policy of Polaris that applies to the table, itself or by
// inheritance, version 2025-02-03. Its schema has `enable`, which is required,
// `target_file_size_bytes`, a number, and `config`, whose keys are anybody's.
struct CatalogPolicy {
  std::string name;  // For reasons and warnings.
  bool enable = true;
  std::optional<double> target_file_size_bytes;
  // Scalars as text. Read: target_file_size_bytes (where the member is not set: so Polaris'
  // documentation writes it), compaction_strategy, min_input_files, delete_file_threshold,
  // sort_order, max_concurrent_file_group_rewrites; "-" and "_" are the same.
  std::map<std::string, std::string> config;
};

struct PolicyWarning {
  std::string property;  // "sqe.maintenance.compaction.schedule", or "policy NAME: KEY".
  std::string value;
  std::string message;  // Why it was not taken, and what holds instead. Names both of them, too.
};

struct TablePolicy {
  // Gate 2 (R023): OptedIn, and no catalog policy says `"enable": false`. A policy alone never opts
  // a table in: the owner does, by the property.
  bool enabled = false;
  std::string enabled_reason;  // One sentence; names the property or the policy that decided.

  Cron schedule;
  int64_t target_file_size_bytes = 0;
  int min_input_files = 0;
  int delete_file_threshold = 0;
  Strategy strategy = Strategy::kBinpack;
  // As base/order_text.h reads it; empty: the table's own.
  std::string sort_order;
  std::optional<int> max_concurrent_file_group_rewrites;
  std::optional<Duration> read_life;  // As in MaintenanceDefaults.

  // What follows the rewrite, in this order, each by a property of its own, literally "true", and
  // only if `enabled`.
  bool rewrite_manifests = false;
  bool expire_snapshots = false;
  std::optional<Duration> expire_older_than;  // An age; unset: see MaintenanceDefaults.
  std::optional<int> expire_retain_last;
  bool remove_orphan_files = false;
  Duration orphan_older_than = std::chrono::days(3);

  // Where each value comes from, by its short name ("compaction.schedule"): a property's full name,
  // "policy NAME", or "configuration". For `SELECT * FROM system.maintenance_plan`.
  std::map<std::string, std::string> sources;
  // In the order of the properties' names; the same for the same input, so that a caller can tell
  // each of them once. A value that is blank, unreadable or out of range (what comes next in the
  // order of precedence holds instead, R050), two prefixes that disagree, a property that does not
  // exist, an opt-in that is neither "true" nor "false".
  std::vector<PolicyWarning> warnings;
};

// Precedence: property of the table > policy of the catalog > configuration. `target` is also
// taken from the table's write.target-file-size-bytes, between its own property and the policy.
//
// Prefixes that disagree: for opt-ins "false" wins; for the schedule the one with fewer fires, or
// of as many the one of the first prefix; for target-file-size-bytes the smaller, for
// min-input-files the larger, for delete-file-threshold 0 (off), else the larger; for the strategy
// the one that moves less (binpack before sort before zorder); for older-than and retain-last the
// larger; for read-life the smaller. No sort order is more restrictive than another: what comes
// next holds. Of those that cannot be read only the warning stays.
//
// A sort order that the table or the catalog gives, and nobody a strategy, is one to sort by
// (R103).
TablePolicy ResolvePolicy(const std::map<std::string, std::string>& properties,
                          const MaintenanceDefaults& defaults,
                          const std::optional<CatalogPolicy>& catalog_policy);

// For the planner: health and rewrite get the same values (R052). Passes CheckOptions if the
// defaults were in range.
RewriteOptions RewriteOptionsOf(const TablePolicy& policy);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_MAINTENANCE_POLICY_H_
