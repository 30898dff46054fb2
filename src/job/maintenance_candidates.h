// What there is to do in one table, as candidates of plan::PlanMaintenance: from its manifests
// alone. The scheduler ranks them for its principal, a caller's own CALL system.run_maintenance for
// that caller.
#ifndef LITHIFY_JOB_MAINTENANCE_CANDIDATES_H_
#define LITHIFY_JOB_MAINTENANCE_CANDIDATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "plan/maintenance_plan.h"

namespace lithify::job {

// Reads of a table, as a query log has them; `days` 0: there is none.
struct TableReads {
  double reads = 0;
  double days = 0;
  // How long after its time a partition is read, as its owner or the configuration says.
  std::optional<Duration> life = {};
};

// Of one snapshot of a table.
struct TableDebt {
  int64_t snapshot_id = 0;  // 0: it has none.
  Time looked_at;
  plan::RewriteOptions options;
  int64_t small_files = 0;
  int64_t delete_files = 0;
  int64_t rewrite_bytes = 0;
  // The partitions in which a rewrite is planned; if there are none, one that says why not.
  std::vector<plan::MaintenanceCandidate> candidates;
  std::vector<iceberg::PartitionKey> partitions;  // Of the candidates.
  std::vector<std::optional<Time>> ends;          // Likewise: plan::PartitionEnd().

  // The candidates some time later, with what is known of reads.
  std::vector<plan::MaintenanceCandidate> At(Time now, const TableReads& reads) const;
};

Result<TableDebt> LoadTableDebt(IcebergJob& job, const catalog::TableIdent& ident,
                                const plan::RewriteOptions& options, const Clock& clock);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_MAINTENANCE_CANDIDATES_H_
