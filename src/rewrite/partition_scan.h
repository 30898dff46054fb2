// Which rows of data files belong to which partition of a partition spec, so that they can be
// written under another spec than that of their files. Reads the spec's source columns only.
//
// Errors: kUnsupported for source columns that cannot be read as the table's type now, and what the
// rule gives; kCorrupt for damaged files, and deleted rows that a file does not have; kLimit for
// too many partitions, or positions that do not fit the memory; what the store gives. Thread
// safety: a pure function of files that do not change.
#ifndef LITHIFY_REWRITE_PARTITION_SCAN_H_
#define LITHIFY_REWRITE_PARTITION_SCAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/iceberg.h"
#include "base/position_set.h"
#include "base/result.h"
#include "rewrite/delete_scan.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::rewrite {

struct PartitionRule {
  // Field id of each partition field's source; unset: the field is null in every row.
  std::vector<std::optional<int>> sources;
  // The value of partition field `field` for a value of its source, which may be null.
  std::function<Result<iceberg::Value>(size_t field, const iceberg::Value& source)> transform;
  int64_t partitions_max = 1000;
};

struct PartitionRows {
  std::vector<iceberg::Value> values;   // One per field of the rule.
  std::map<size_t, PositionSet> files;  // By index of the file; none is empty.
  int64_t rows = 0;
};

struct SplitRows {
  std::vector<PartitionRows> partitions;  // By values, ascending.
  std::vector<int64_t> rows_per_file;     // As read, deleted ones included.
};

// Every row that is not in InputFile::deleted is in exactly one partition (R100). -0.0 and 0.0 are
// two partitions, all NaN are one. Of the memory, half is for pages and half for positions.
Result<SplitRows> SplitByPartition(storage::Store& store, const TableTarget& table,
                                   const PartitionRule& rule, const std::vector<InputFile>& files,
                                   const ScanBounds& bounds);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PARTITION_SCAN_H_
