// The recode tier: whole groups, decoded and encoded again column by column
// (docs/ARCHITECTURE.md, "The rewrite engine").
#ifndef LITHIFY_REWRITE_RECODE_H_
#define LITHIFY_REWRITE_RECODE_H_

#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/column_copy.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::rewrite {

// Digests of one written row group, for the sampled verification.
struct RowGroupDigest {
  int output = 0;
  int row_group = 0;
  ContentDigest digest;
};

struct RecodeResult {
  GroupReport report;                                     // Outputs complete, not yet published.
  std::vector<std::unique_ptr<storage::Writer>> writers;  // One per output, in order.
  std::vector<RowGroupDigest> row_groups;
};

// Parses every input's footer, checks that all can be read, and unites their schemas.
struct OpenedGroup {
  std::vector<std::unique_ptr<InputSource>> inputs;
  std::unique_ptr<SchemaNode> output_schema;
  std::vector<OutputLeaf> leaves;
  std::vector<std::string> notes;
  bool one_schema = true;
};
Result<OpenedGroup> OpenGroup(ReaderCache& cache, const std::vector<InputFile>& inputs,
                              BoundedPool& pool, const CancelFlag* cancel);

// Writes the outputs without publishing them; rows_out == rows_in holds on success.
Result<RecodeResult> Recode(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                            BoundedPool& pool, const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RECODE_H_
