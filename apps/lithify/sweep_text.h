// A sweep as text and as JSON. Pure.
#ifndef LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_
#define LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_

#include <cstdint>
#include <string>

#include "job/hive_job.h"
#include "plan/estimate.h"
#include "session.h"

namespace lithify::cli {

using plan::CostModel;

// "committed  data/…/  32 -> 1 files  485.2 MiB -> 456.7 MiB  153,600 rows  generation 2  2.9 s".
std::string PartitionLine(const job::PartitionOutcome& outcome);

// One row per partition, and the totals.
std::string DryRunText(const job::SweepReport& report, const CostModel& model, bool colour);
// What was done, a few lines.
std::string SweepText(const job::SweepReport& report, bool colour);

Json SweepJson(const job::SweepReport& report, const std::string& root, bool dry_run,
               const CostModel& model);
Json GcJson(const job::GcReport& report);
std::string GcText(const job::GcReport& report, bool dry_run, bool colour);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_SWEEP_TEXT_H_
