#include "job/sweep_metrics.h"

#include <map>
#include <string>
#include <utility>

#include "base/metric_names.h"

namespace lithify::job {
namespace {

const char* ResultOf(const Result<SweepReport>& report) {
  if (!report || report->failed()) return attribute::kOuriosCompactionResultError;
  return report->Count(Outcome::kCommitted) > 0 ? attribute::kOuriosCompactionResultCommitted
                                                : attribute::kOuriosCompactionResultNoop;
}

// Sealed and uncompacted: what this sweep could not do, or left to others.
bool IsBacklog(const PartitionOutcome& partition) {
  switch (partition.plan.verdict) {
    case plan::Verdict::kCandidate: return partition.outcome != Outcome::kCommitted;
    case plan::Verdict::kClaimed:
    case plan::Verdict::kNotChosen: return true;
    default: return false;
  }
}

const char* ConditionOf(const PartitionOutcome& partition, int64_t bytes) {
  if (bytes >= kSmallFileBytes) return attribute::kLithifyFileConditionSized;
  if (partition.plan.verdict == plan::Verdict::kNotSealed) {
    return attribute::kLithifyFileConditionOpen;
  }
  const bool lone = partition.live_file_bytes.size() == 1;
  return lone || partition.plan.verdict == plan::Verdict::kIrreducible
             ? attribute::kLithifyFileConditionIrreducible
             : attribute::kLithifyFileConditionSmall;
}

void CountTree(observe::Metrics& metrics, const SweepReport& report) {
  std::map<std::string, int64_t> backlog;
  std::map<std::pair<std::string, std::string>, int64_t> files;
  for (const PartitionOutcome& partition : report.partitions) {
    backlog[partition.id.tenant] += IsBacklog(partition) ? 1 : 0;
    for (const int64_t bytes : partition.live_file_bytes) {
      if (bytes > 0) ++files[{partition.id.tenant, ConditionOf(partition, bytes)}];
    }
  }
  metrics.Forget(metric::kOuriosCompactionBacklog);
  metrics.Forget(metric::kLithifyStorageParquetFiles);
  for (const auto& [tenant, partitions] : backlog) {
    metrics.Set(metric::kOuriosCompactionBacklog, static_cast<double>(partitions),
                {{attribute::kOuriosTenant, tenant}});
    // Each condition, so that none is missing from a sum.
    for (const char* condition :
         {attribute::kLithifyFileConditionSized, attribute::kLithifyFileConditionSmall,
          attribute::kLithifyFileConditionOpen, attribute::kLithifyFileConditionIrreducible}) {
      metrics.Set(
          metric::kLithifyStorageParquetFiles, static_cast<double>(files[{tenant, condition}]),
          {{attribute::kOuriosTenant, tenant}, {attribute::kLithifyFileCondition, condition}});
    }
  }
}

}  // namespace

void SeedSweepMetrics(observe::Metrics& metrics) {
  for (const metric::Instrument* instrument : metric::kAll) {
    if (instrument->zero) metrics.Add(*instrument, 0);
  }
}

void CountSweep(observe::Metrics& metrics, const Result<SweepReport>& report, Duration took) {
  const observe::Attributes result{{attribute::kOuriosCompactionResult, ResultOf(report)}};
  metrics.Add(metric::kOuriosCompactionSweeps, 1, result);
  metrics.Record(metric::kOuriosCompactionDuration, std::chrono::duration<double>(took).count(),
                 result);
  SeedSweepMetrics(metrics);
  if (!report) return;
  for (const PartitionOutcome& partition : report->partitions) {
    for (const int64_t bytes : partition.live_file_bytes) {
      if (bytes == 0) continue;
      metrics.Record(metric::kOuriosStorageParquetFileSize, static_cast<double>(bytes),
                     {{attribute::kOuriosTenant, partition.id.tenant}});
    }
    if (partition.outcome != Outcome::kCommitted) continue;
    metrics.Add(metric::kOuriosCompactionPartitions, 1);
    metrics.Add(metric::kOuriosCompactionFiles, static_cast<double>(partition.plan.inputs.size()));
    metrics.Add(metric::kOuriosCompactionRows, static_cast<double>(partition.rows));
    metrics.Add(metric::kOuriosCompactionIo, static_cast<double>(partition.plan.bytes_in),
                {{attribute::kOuriosIoDirection, attribute::kOuriosIoDirectionRead}});
    metrics.Add(metric::kOuriosCompactionIo, static_cast<double>(partition.bytes_out),
                {{attribute::kOuriosIoDirection, attribute::kOuriosIoDirectionWrite}});
  }
  metrics.Add(metric::kOuriosCompactionOrphanFiles, static_cast<double>(report->gc.unremoved));
  if (report->whole && !report->cancelled) CountTree(metrics, *report);
}

void TellSweep(observe::Telemetry& telemetry, const Result<SweepReport>& report,
               observe::Span& span) {
  const auto tell = [&](const std::string& tenant, const Error& error) {
    telemetry.Emit(observe::LogRecord{
        .time = telemetry.Now(),
        .severity = observe::LogRecord::Severity::kError,
        .event = event::kOuriosCompactionSweepError,
        .body = error.ToString(),
        .attributes = {{attribute::kOuriosTenant, tenant},
                       {attribute::kErrorType, std::string(CodeName(error.code))}},
        .context = span.context()});
  };
  span.Set(attribute::kOuriosCompactionResult, std::string(ResultOf(report)));
  if (!report) {
    span.Fail(report.error());
    return tell("", report.error());
  }
  for (const Error& error : report->errors) tell("", error);
  for (const PartitionOutcome& partition : report->partitions) {
    if (partition.outcome == Outcome::kFailed && partition.error) {
      tell(partition.id.tenant, *partition.error);
    }
  }
}

}  // namespace lithify::job
