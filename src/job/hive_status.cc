#include <algorithm>
#include <map>
#include <utility>

#include "base/parallel.h"
#include "job/hive_job.h"
#include "job/hive_load.h"

namespace lithify::job {
namespace {

// Time of the last commit per partition, by the audit log. A log that cannot be read is an error of
// the report, not of the partitions.
std::map<std::string, Time> LastCommits(observe::AuditLog& audit, const std::string& tree,
                                        std::vector<Error>& errors) {
  std::map<std::string, Time> last;
  auto records = audit.ReadAll();
  if (!records) {
    errors.push_back(std::move(records.error()).In("audit log"));
    return last;
  }
  for (const observe::AuditRecord& record : *records) {
    if (record.event.phase != observe::AuditEvent::Phase::kCommitted) continue;
    if (record.event.tree != tree) continue;
    Time& time = last[record.event.partition];
    time = std::max(time, record.event.time);
  }
  return last;
}

std::optional<Time> LastCompaction(const HivePartitionState& state,
                                   const std::map<std::string, Time>& commits) {
  std::optional<Time> last;
  if (const auto found = commits.find(state.id.key_prefix); found != commits.end()) {
    last = found->second;
  }
  if (!state.manifest) return last;
  for (const RetiredFile& file : state.manifest->manifest.retired) {
    if (file.reason != RetiredFile::Reason::kSuperseded) continue;
    if (!last || *last < file.at) last = file.at;
  }
  return last;
}

}  // namespace

Result<StatusReport> HiveJob::GetStatus(const table::PartitionFilter& filter,
                                        const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(auto found,
                     table::FindPartitions(services_.store, settings_.series, filter, cancel));
  StatusReport report;
  report.skipped_paths = std::move(found.skipped);
  report.errors = std::move(found.errors);
  const auto commits = LastCommits(services_.audit, settings_.audit_tree, report.errors);
  const std::vector<PartitionId>& ids = found.partitions;
  report.partitions.resize(ids.size());
  const int at_once = services_.store.small_reads_are_cheap() ? 1 : settings_.looks_at_once;
  const auto look = [&](size_t i) -> Status {
    LITHIFY_TRY(cancel.Check());
    PartitionStatus& status = report.partitions[i];
    status.state.id = ids[i];
    auto loaded = LoadPartition(services_, settings_.options, ids[i],
                                FootersAtOnce(services_, settings_, settings_.threads));
    if (!loaded) {
      status.error = std::move(loaded.error());
      return {};
    }
    status.state = std::move(loaded->state);
    status.error = std::move(loaded->trouble);
    const Time now = plan::SealingNow(services_.clock.Now(), status.state);
    status.plan = plan::PlanPartition(status.state, settings_.options, now);
    status.last_compaction = LastCompaction(status.state, commits);
    return {};
  };
  LITHIFY_TRY(TryForEach(ids.size(), at_once, look));
  return report;
}

Result<HivePartitionState> HiveJob::LiveFiles(const std::string& key_prefix) {
  std::string prefix = key_prefix;
  if (!prefix.ends_with('/')) prefix += '/';
  std::optional<Error> problem;
  for (const SeriesLayout& layout : settings_.series) {
    const std::string root = layout.prefix.empty() ? "" : layout.prefix + "/";
    if (!prefix.starts_with(root)) continue;
    auto id = table::ParsePartition(layout, prefix);
    if (!id) {
      problem = std::move(id.error());
      continue;
    }
    LITHIFY_TRY_ASSIGN(LoadedPartition loaded,
                       LoadPartition(services_, settings_.options, *id, settings_.threads));
    if (loaded.state.files.empty() && !loaded.state.manifest) {
      return Fail(Code::kNotFound, "there is no such partition",
                  services_.store.Describe() + "/" + prefix);
    }
    return std::move(loaded.state);
  }
  if (problem) return Fail(std::move(*problem));
  return Fail(Code::kInvalid, "this is in no configured series", prefix,
              "give the path of a partition below the root, such as "
              "data/tenant_id=a/year=2026/month=11/day=29/hour=07");
}

}  // namespace lithify::job
