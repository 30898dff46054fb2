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

// Which columns of a row group are read: one per leaf. Empty: all of them.
using WantedColumns = std::function<std::vector<bool>(int row_group)>;

// What was read of one row group.
struct RowGroupRead {
  ContentDigest digest;
  uint64_t places = 0;  // RowGroupRows::PlaceSum() of the columns read.
};

// Reads the wanted columns of each row group, and checks the rows of those that are read whole
// against `rule`. The result has one entry per row group; of those where nothing is wanted it is
// empty with rows == -1, and of those read in part it has no digest of whole rows. kLimit if the
// hashes of one row group's rows would take more than `bytes_max`. `threads` threads read, each a
// column.
Result<std::vector<RowGroupRead>> DigestRowGroups(OpenedGroup& file, const RowRule& rule,
                                                  const WantedColumns& wanted, int64_t bytes_max,
                                                  int threads, BoundedPool& pool,
                                                  const CancelFlag& cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_VERIFY_H_
