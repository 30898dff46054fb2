// A column that does not fit the memory, on its way into another order of rows: as its rows come,
// each goes to the part of the ranks that it belongs to, on a local disk; then one part after the
// other is held in memory.
#ifndef LITHIFY_REWRITE_SCATTERED_COLUMN_H_
#define LITHIFY_REWRITE_SCATTERED_COLUMN_H_

#include <arrow/memory_pool.h>
#include <parquet/schema.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "rewrite/column_encoder.h"
#include "rewrite/held_column.h"
#include "sort/spill.h"

namespace lithify::rewrite {

// The rows of one part; rows[i] is the number in `column` of the i-th by rank.
struct HeldPart {
  std::unique_ptr<HeldColumn> column;
  std::vector<uint32_t> rows;
};

// Throws Parquet's exceptions, and std::bad_alloc where the pool is full. One thread at a time.
class ScatteredColumn {
 public:
  virtual ~ScatteredColumn() = default;
  // As of HeldColumn. Errors of the disk are thrown.
  virtual ColumnEncoder& collector() = 0;
  // After Finish(). kCorrupt: what comes back from the disk is not what was put there.
  virtual Result<HeldPart> Take(size_t part) = 0;
};

// `ranks`, by row, and `file` outlive it. Part p has the ranks from bounds[p] to bounds[p + 1], of
// which there is none besides. `buffer_bytes`: about what waits in memory until it is put on the
// disk, of all parts together.
std::unique_ptr<ScatteredColumn> ScatterColumn(const parquet::ColumnDescriptor* column,
                                               std::span<const uint32_t> ranks,
                                               std::vector<int64_t> bounds, sort::SpillFile& file,
                                               arrow::MemoryPool* pool, int64_t buffer_bytes);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_SCATTERED_COLUMN_H_
