// Small tables of our own, row by row: a whole Parquet file from values, and batches of a scan back
// to values. For thousands of rows, not for millions.
#ifndef LITHIFY_REWRITE_ROW_FILE_H_
#define LITHIFY_REWRITE_ROW_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "rewrite/table_batches.h"

namespace lithify::rewrite {

// One value per column: int64_t for type long, std::string for string, null.
using Row = std::vector<iceberg::Value>;

struct EncodedRows {
  std::string bytes;  // The file, zstd-compressed, with field ids.
  ColumnMetrics metrics;
  std::vector<int64_t> split_offsets;
};

// A file of these rows, at least one. `columns` are top-level columns of `table`'s schema, of type
// long or string; those that are left out must not be required. kInternal for a value that does not
// fit its column.
Result<EncodedRows> EncodeRows(const TableTarget& table, std::span<const int> columns,
                               std::span<const Row> rows);

// The rows of a batch whose columns are `fields`, of type long or string. The batch is used up.
// kCorrupt if it is not what the fields say.
Result<std::vector<Row>> DecodeRows(ArrowBatch batch, const std::vector<iceberg::Field>& fields);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_FILE_H_
