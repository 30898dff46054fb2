// Moving rows to another partition spec of their table (rewrite_data_files, output-spec-id): which
// rows of a group go to which partition.
#ifndef LITHIFY_GROUP_REPARTITION_H_
#define LITHIFY_GROUP_REPARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "rewrite/partition_scan.h"

namespace lithify::group {

// What the spec makes of a row of the current schema. kInvalid, with the table's specs, if it has
// none such; kUnsupported for transforms that cannot be evaluated and sources that were dropped.
// `table` outlives the rule.
Result<rewrite::PartitionRule> MakePartitionRule(const iceberg::TableMetadata& table, int spec_id,
                                                 int64_t partitions_max);

// The rows of a group that go to one partition, as a rewrite of their own: all other rows of the
// inputs are left out like deleted ones.
struct PartitionPart {
  iceberg::PartitionKey key;
  std::vector<size_t> files;               // Indices into the group's inputs.
  std::vector<rewrite::InputFile> inputs;  // One per file, with the rows of others as deleted.
  int64_t rows = 0;                        // That stay.
};

// Part `number` of the split: one per partition, or a single one where no row is left. Inputs
// without any live row go with the first, so that each input is read (R100).
size_t PartsOf(const rewrite::SplitRows& split);
PartitionPart MakePart(const rewrite::SplitRows& split, size_t number, int spec_id,
                       const std::vector<rewrite::InputFile>& inputs);

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_REPARTITION_H_
