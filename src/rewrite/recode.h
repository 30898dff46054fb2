// Rewrites whole groups, column by column: each spliced where that is right, else decoded and
// encoded again (docs/ARCHITECTURE.md, "The rewrite engine").
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

// Digests of one written row group, for the verification.
struct RowGroupDigest {
  int output = 0;
  int row_group = 0;
  ContentDigest digest;  // Of the columns that were decoded.
  uint64_t places = 0;   // Their RowGroupRows::PlaceSum().
  bool complete = true;  // All were, and the digest has one of whole rows.
  // The digest is of whole rows, and of no column by itself.
  bool rows_only = false;
};

// Of one column of a row group that was spliced, as read from the inputs.
struct ChunkDigest {
  int output = 0;
  int row_group = 0;
  size_t leaf = 0;
  Digest128 digest;
  uint64_t places = 0;  // RowGroupRows::PlaceSum() of this column alone.
};

struct RecodeResult {
  GroupReport report;                                     // Outputs complete, not yet published.
  std::vector<std::unique_ptr<storage::Writer>> writers;  // One per output, in order.
  std::vector<RowGroupDigest> row_groups;                 // None with Verify::kCounts.
  std::vector<ChunkDigest> samples;                       // Likewise.
};

// Writes the outputs without publishing them; rows_out == rows_in - rows_deleted holds on success.
Result<RecodeResult> Recode(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                            BoundedPool& pool, const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RECODE_H_
