// The GroupRunner that this process runs itself, on real Parquet.
#ifndef LITHIFY_REWRITE_PARQUET_RUNNER_H_
#define LITHIFY_REWRITE_PARQUET_RUNNER_H_

#include <memory>

#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::rewrite {

// Borrows `store` for its lifetime. Thread-safe. Group memory is bounded by
// GroupRequest::memory_bytes; Inspect and VerifyFile use up to `memory_bytes`.
std::unique_ptr<GroupRunner> MakeParquetRunner(storage::Store& store,
                                               int64_t memory_bytes = int64_t{1} << 30);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PARQUET_RUNNER_H_
