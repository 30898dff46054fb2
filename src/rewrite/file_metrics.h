// What a table's manifests hold of a data file, taken from its Parquet footer (Iceberg, "Data File
// Fields" and "Bound serialization").
//
//   - Columns by field id: those of the table's schema, and the row lineage columns.
//   - column_sizes: compressed bytes. value_counts and null_value_counts: of columns outside of
//     lists and maps, where a Parquet column's own counts are those of the field.
//   - Bounds: of columns outside of lists and maps. Statistics leave NaN out and so do bounds, as
//     the table specification says; zeros are widened to -0.0 and +0.0. Strings are cut after n
//     code points and binary after n bytes, an upper bound then rounded up or left out. None for
//     geometry, geography, variant, INT96, nor for uuids of both halves of the range, which Java
//     readers order differently (signed).
//   - nan_value_counts: never; a footer does not tell.
// A number that the footer lacks, or has in a form that is not understood, is left out.
#ifndef LITHIFY_REWRITE_FILE_METRICS_H_
#define LITHIFY_REWRITE_FILE_METRICS_H_

#include <parquet/metadata.h>

#include "base/result.h"
#include "rewrite/group_runner.h"

namespace lithify::rewrite {

// An unknown metrics mode counts as truncate(16), the default. kCorrupt: two columns have one field
// id, or the footer's counts disagree. Thread safety: pure.
Result<ColumnMetrics> MetricsOf(const parquet::FileMetaData& footer, const TableTarget& table);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FILE_METRICS_H_
