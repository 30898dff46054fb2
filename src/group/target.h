// What the outputs of a rewrite look like, from the table's own properties (I31).
#ifndef LITHIFY_GROUP_TARGET_H_
#define LITHIFY_GROUP_TARGET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_sizes.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/group_runner.h"

namespace lithify::group {

// Schema, name mapping, row lineage, metrics modes (write.metadata.metrics.*).
Result<std::shared_ptr<const rewrite::TableTarget>> MakeTarget(const iceberg::TableMetadata& table);

// The same, with the columns that the table has dropped as well: an equality delete may compare
// one.
rewrite::TableTarget WithDroppedColumns(const rewrite::TableTarget& target,
                                        const iceberg::TableMetadata& table);

// write.parquet.*: codec and level, row groups, pages, Bloom filters. What it cannot follow is a
// note. `outputs` is left to the plan.
rewrite::OutputShape MakeShape(const iceberg::TableMetadata& table, const FileSizes& sizes,
                               std::vector<std::string>& notes);

// Where new data files of a partition go, as a location with a trailing slash (write.data.path).
std::string DataLocation(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key);

// "day=2026-11-29"; "(unpartitioned)". For people.
std::string PartitionName(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key);

// The values of identity partition fields, which a file need not hold (Column Projection).
std::vector<std::pair<int, iceberg::Value>> IdentityValues(const iceberg::TableMetadata& table,
                                                           const iceberg::PartitionKey& key);

// Sizes that nobody asked for (0) as the table has them: the target from
// write.target-file-size-bytes, and 75 % and 180 % of it.
FileSizes WithTableDefaults(FileSizes asked, const iceberg::TableMetadata& table);

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_TARGET_H_
