#include "job/maintenance_candidates.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/delete_index.h"
#include "plan/partition_time.h"
#include "plan/write_rates.h"

namespace lithify::job {

Result<TableDebt> LoadTableDebt(IcebergJob& job, const catalog::TableIdent& ident,
                                const plan::RewriteOptions& options, const Clock& clock) {
  LITHIFY_TRY_ASSIGN(const auto loaded, job.GetTableDebt(ident, options));
  TableDebt debt;
  debt.snapshot_id = loaded.health.snapshot_id;
  debt.looked_at = clock.Now();
  debt.options = options;
  debt.small_files = loaded.health.health.small_files;
  debt.delete_files = loaded.health.health.delete_files;
  debt.rewrite_bytes = loaded.health.health.est_rewrite_bytes;
  const iceberg::DeleteIndex deletes(loaded.live);
  auto candidates =
      plan::CandidatesOf(catalog::NamespaceName(ident.namespace_parts), ident.name, loaded.plan,
                         loaded.live, deletes, options, loaded.partition_names);
  const auto rates = plan::WriteRatesOf(loaded.metadata, loaded.live, debt.looked_at);
  std::optional<size_t> idle;
  for (size_t i = 0; i < candidates.size(); ++i) {
    plan::MaintenanceCandidate& candidate = candidates[i];
    const auto partition = static_cast<size_t>(loaded.plan.partitions[i].partition);
    if (candidate.files_in == 0) {
      if (!idle) idle = i;
      continue;
    }
    const plan::WriteRates& rate = rates[partition];
    candidate.commits_per_hour = rate.commits_per_hour;
    candidate.append_share = rate.append_share;
    candidate.files_per_hour = rate.files_per_hour;
    candidate.seconds_since_write = rate.seconds_since_write;
    candidate.seconds_since_compaction = rate.seconds_since_compaction;
    debt.partitions.push_back(loaded.live.partitions[partition]);
    debt.candidates.push_back(std::move(candidate));
  }
  if (debt.candidates.empty() && idle) {
    const auto partition = static_cast<size_t>(loaded.plan.partitions[*idle].partition);
    debt.partitions.push_back(loaded.live.partitions[partition]);
    debt.candidates.push_back(std::move(candidates[*idle]));
  }
  for (const iceberg::PartitionKey& partition : debt.partitions) {
    debt.ends.push_back(plan::PartitionEnd(loaded.metadata, partition));
  }
  return debt;
}

std::vector<plan::MaintenanceCandidate> TableDebt::At(Time now, const TableReads& reads) const {
  const double later = std::max(0.0, std::chrono::duration<double>(now - looked_at).count());
  std::vector<plan::MaintenanceCandidate> then = candidates;
  for (size_t i = 0; i < then.size(); ++i) {
    plan::MaintenanceCandidate& candidate = then[i];
    if (reads.life && ends[i]) {
      constexpr double kDay = 86'400;
      candidate.read_life_days =
          std::max(0.0, std::chrono::duration<double>(*ends[i] + *reads.life - now).count() / kDay);
    }
    candidate.reads = reads.reads;
    candidate.read_days = reads.days;
    if (candidate.seconds_since_write) *candidate.seconds_since_write += later;
    if (candidate.seconds_since_compaction) *candidate.seconds_since_compaction += later;
  }
  return then;
}

}  // namespace lithify::job
