// What the outputs of a rewrite look like, from the table's own properties (I31). Private to this
// module.
#ifndef LITHIFY_JOB_ICEBERG_TARGET_H_
#define LITHIFY_JOB_ICEBERG_TARGET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "plan/iceberg_plan.h"
#include "rewrite/group_runner.h"

namespace lithify::job {

// Schema, name mapping, row lineage, metrics modes (write.metadata.metrics.*).
Result<std::shared_ptr<const rewrite::TableTarget>> MakeTarget(const iceberg::TableMetadata& table);

// The same, with the columns that the table has dropped as well: an equality delete may compare
// one.
rewrite::TableTarget WithDroppedColumns(const rewrite::TableTarget& target,
                                        const iceberg::TableMetadata& table);

// write.parquet.*: codec and level, row groups, pages, Bloom filters. What it cannot follow is a
// note. `outputs` is left to the plan.
rewrite::OutputShape MakeShape(const iceberg::TableMetadata& table,
                               const plan::RewriteOptions& options,
                               std::vector<std::string>& notes);

// Where new data files of a partition go, as a location with a trailing slash (write.data.path).
std::string DataLocation(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key);

// "day=2026-11-29"; "(unpartitioned)". For people.
std::string PartitionName(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key);

// The values of identity partition fields, which a file need not hold (Column Projection).
std::vector<std::pair<int, iceberg::Value>> IdentityValues(const iceberg::TableMetadata& table,
                                                           const iceberg::PartitionKey& key);

// rewrite_data_files takes what the caller did not set from the table: the target size from
// write.target-file-size-bytes.
plan::RewriteOptions WithTableDefaults(plan::RewriteOptions options,
                                       const iceberg::TableMetadata& table);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_TARGET_H_
