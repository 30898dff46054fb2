// All entries of one output column of a group, held in memory as they come, to be encoded in
// another order of rows. What comes as indices of dictionaries stays folded: rows are then a number
// each.
#ifndef LITHIFY_REWRITE_HELD_COLUMN_H_
#define LITHIFY_REWRITE_HELD_COLUMN_H_

#include <arrow/memory_pool.h>
#include <parquet/schema.h>

#include <cstdint>
#include <memory>
#include <span>

#include "rewrite/column_encoder.h"

namespace lithify::rewrite {

// Throws Parquet's exceptions, and std::bad_alloc where the pool is full.
class HeldColumn {
 public:
  virtual ~HeldColumn() = default;

  // Where the rows go, as into any encoder of the column's physical type (TypedColumnEncoder). Rows
  // are numbered from 0 as they come; Finish() comes after all. One thread at a time.
  virtual ColumnEncoder& collector() = 0;
  virtual int64_t rows() const = 0;
  // What it holds, about, with what it will take for rows that are still to come to have a place.
  virtual int64_t memory_bytes() const = 0;
  // The rows of these numbers, in this order, into an encoder of the same type. After Finish(), any
  // number of threads.
  virtual void Encode(std::span<const uint32_t> rows, ColumnEncoder& encoder) const = 0;
};

// For `rows` rows, which are fewer than 2^32. `column` outlives it; memory is of `pool`.
std::unique_ptr<HeldColumn> HoldColumn(const parquet::ColumnDescriptor* column, int64_t rows,
                                       arrow::MemoryPool* pool);

// Bytes that a row takes besides its values; of a byte array, which may be short, that is most.
int64_t HeldRowBytes(const parquet::ColumnDescriptor& column);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_HELD_COLUMN_H_
