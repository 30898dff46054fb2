// Compaction events as a Parquet file of the audit series (R243-R248; docs/FORMATS.md).
#ifndef LITHIFY_REWRITE_EVENT_FILE_H_
#define LITHIFY_REWRITE_EVENT_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::rewrite {

struct CompactionEvent {
  std::string tenant_id;
  Time timestamp;         // Of the commit.
  std::string partition;  // "year=2026/month=11/day=29/hour=07".
  std::vector<std::string> input_files;
  std::vector<std::string> output_files;
  uint64_t generation = 0;
  uint64_t rows = 0;
};

// A whole Parquet file, one row per event, with the columns of R244 and R248: tenant_id,
// timestamp (ns UTC), event_kind = 3, event_type = "compaction", reason (null), and the
// compaction_* columns. At least one event.
Result<std::string> EncodeCompactionEvents(std::span<const CompactionEvent> events);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_EVENT_FILE_H_
