// A column on its way into another order of rows: held in memory as long as it fits there, and
// scattered to a local disk from then on.
#ifndef LITHIFY_REWRITE_SPILLING_COLUMN_H_
#define LITHIFY_REWRITE_SPILLING_COLUMN_H_

#include <arrow/memory_pool.h>
#include <parquet/schema.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "rewrite/column_encoder.h"
#include "rewrite/held_column.h"
#include "rewrite/scattered_column.h"

namespace lithify::rewrite {

struct SpillingColumnOptions {
  const parquet::ColumnDescriptor* column = nullptr;  // Outlives the column.
  int64_t rows = 0;
  int64_t held_bytes_max = 0;  // 0: it is scattered from the start.
  arrow::MemoryPool* pool = nullptr;
  // Where it goes when it does not fit: it will take about so many bytes. Null: it is held however
  // large it gets, up to what the pool gives.
  std::function<std::unique_ptr<ScatteredColumn>(int64_t bytes)> scatter;
};

// One thread at a time. Throws as the two kinds do.
class SpillingColumn {
 public:
  virtual ~SpillingColumn() = default;
  virtual ColumnEncoder& collector() = 0;
  // After the collector's Finish(): one of the two is there.
  virtual const HeldColumn* held() const = 0;
  virtual ScatteredColumn* scattered() const = 0;
};

std::unique_ptr<SpillingColumn> MakeSpillingColumn(const SpillingColumnOptions& options);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_SPILLING_COLUMN_H_
