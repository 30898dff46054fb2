// The recode tier: whole groups, decoded and encoded again column by column
// (docs/ARCHITECTURE.md, "The rewrite engine").
#ifndef LITHIFY_REWRITE_RECODE_H_
#define LITHIFY_REWRITE_RECODE_H_

#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"
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

// Writes the outputs without publishing them; rows_out == rows_in - rows_deleted holds on success.
Result<RecodeResult> Recode(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                            BoundedPool& pool, const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RECODE_H_
