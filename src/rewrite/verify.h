// Reading files back: every value of some row groups, as digests.
#ifndef LITHIFY_REWRITE_VERIFY_H_
#define LITHIFY_REWRITE_VERIFY_H_

#include <functional>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"

namespace lithify::rewrite {

// Reads each row group for which `wanted` is true and checks its rows against `rule`. The result
// has one digest per row group; those not wanted are empty with rows == -1. kLimit if the hashes of
// one row group's rows would take more than `bytes_max`. `threads` threads read, each a column.
Result<std::vector<ContentDigest>> DigestRowGroups(OpenedGroup& file, const RowRule& rule,
                                                   const std::function<bool(int)>& wanted,
                                                   int64_t bytes_max, int threads,
                                                   BoundedPool& pool, const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_VERIFY_H_
