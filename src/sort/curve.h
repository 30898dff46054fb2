// Keys along a space-filling curve: rows that are near each other in several columns come to lie
// near each other. Each column's values are replaced by their quantile among samples of the data,
// so that skewed columns still cluster: raw bits would leave most of the curve's cells empty.
//
// Thread safety: an encoder serves one thread at a time; samples are one thread's.
#ifndef LITHIFY_SORT_CURVE_H_
#define LITHIFY_SORT_CURVE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "base/row_order.h"
#include "sort/key_encoder.h"

namespace lithify::sort {

// Collects what the quantiles come from. Which rows are kept follows from their number and the seed
// alone, so that equal inputs give equal curves (R232).
class CurveSamples {
 public:
  virtual ~CurveSamples() = default;
  // As KeyEncoder::Append(): any rows, in any number of calls.
  virtual void Add(std::span<const KeyColumn> columns, size_t rows) = 0;
  // After all: encodes rows to keys of 8 bytes, or of 16 for more than four columns. The null of a
  // column comes before its values (R106), in a cell of its own. Rows of one cell in all columns
  // have equal keys. The samples are used up.
  virtual Result<std::unique_ptr<KeyEncoder>> Finish() = 0;
};

// For an order with a curve. Errors as of MakeKeyEncoder(); kInvalid: no field, more than eight, or
// one with a transform, a direction or nulls last. `samples_max` rows are kept at most, of each
// value some 256 bytes: cells are as exact as these are many, up to 2^16. One column needs none: it
// is simply ordered, and its keys are those of MakeKeyEncoder().
Result<std::unique_ptr<CurveSamples>> MakeCurveSamples(const RowOrder& order,
                                                       std::span<const iceberg::Type> types,
                                                       size_t samples_max);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_CURVE_H_
