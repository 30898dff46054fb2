// Entries of one column as Arrow's arrays need them, in the place of the pages that ColumnEncoder
// makes of them: what reads a file for rewriting reads it for queries, too.
#ifndef LITHIFY_REWRITE_LEAF_COLLECTOR_H_
#define LITHIFY_REWRITE_LEAF_COLLECTOR_H_

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "rewrite/column_encoder.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// Takes entries as an encoder of the column's physical type, until Take().
class LeafCollector {
 public:
  virtual ~LeafCollector() = default;
  virtual ColumnEncoder* encoder() = 0;

  // Of the entries since the last Take(); of required and flat columns there are none.
  std::span<const int16_t> definition() const { return definition_; }
  std::span<const int16_t> repetition() const { return repetition_; }
  int64_t entries() const { return entries_; }

  // The values as an array of `type`, one for each entry where `slots` is not 0, and null where it
  // is 2; entries that are no slots have no values. Empty `slots`: every entry is one, null unless
  // its definition level is the maximum. Starts anew.
  virtual Result<std::shared_ptr<arrow::Array>> Take(const std::shared_ptr<arrow::DataType>& type,
                                                     std::span<const uint8_t> slots) = 0;

 protected:
  std::vector<int16_t> definition_;
  std::vector<int16_t> repetition_;
  int64_t entries_ = 0;
};

// kLimit comes out of Take() if values of one batch have more bytes than an array's offsets count.
std::unique_ptr<LeafCollector> MakeLeafCollector(const OutputLeaf& leaf);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_LEAF_COLLECTOR_H_
