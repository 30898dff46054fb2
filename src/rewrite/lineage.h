// Row lineage [Iceberg, Row Lineage; Reserved Field IDs] (I22): the two columns that follow a row
// from file to file.
#ifndef LITHIFY_REWRITE_LINEAGE_H_
#define LITHIFY_REWRITE_LINEAGE_H_

#include <vector>

#include "base/result.h"
#include "rewrite/column_copy.h"
#include "rewrite/group_runner.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// Adds _row_id and _last_updated_sequence_number to the output, and where they come from to each
// input: its own values, and where those are null or absent what the row inherits. kUnsupported for
// an input without a first row id: its rows have no identity yet, and writing them elsewhere would
// give them one too early or none.
Status AddLineage(const std::vector<InputFile>& files, SchemaNode& output,
                  const std::vector<std::unique_ptr<InputSource>>& inputs);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_LINEAGE_H_
