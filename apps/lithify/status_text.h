// `lithify status` as text and as JSON. Pure.
#ifndef LITHIFY_APPS_LITHIFY_STATUS_TEXT_H_
#define LITHIFY_APPS_LITHIFY_STATUS_TEXT_H_

#include <string>

#include "job/hive_job.h"
#include "session.h"

namespace lithify::cli {

// Sums over partitions. Small files of partitions that no plan can improve are counted apart
// (T19): RFC0009.1 is about the others.
struct StatusTotals {
  int64_t partitions = 0;
  int64_t files = 0;  // Live.
  int64_t bytes = 0;
  int64_t small_files = 0;        // Below the threshold, and not irreducible.
  int64_t irreducible_files = 0;  // Below the threshold, in partitions with verdict irreducible.
  int64_t backlog = 0;            // Sealed partitions that wait for compaction.
  int64_t errors = 0;

  void Add(const job::PartitionStatus& status);
};

std::string StatusText(const job::StatusReport& report, bool colour, bool unicode);
Json StatusJson(const job::StatusReport& report, const std::string& root);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_STATUS_TEXT_H_
