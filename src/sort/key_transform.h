// Transforms over columns: numbers to numbers whose order as int64 is that of the results.
//
// Thread safety: pure functions.
#ifndef LITHIFY_SORT_KEY_TRANSFORM_H_
#define LITHIFY_SORT_KEY_TRANSFORM_H_

#include <cstddef>
#include <cstdint>

#include "base/iceberg.h"
#include "table/iceberg_value.h"

namespace lithify::sort {

// `words` are as in KeyColumn, of a type that has words and that the transform takes
// (table::ApplyTransform() says which). Booleans become 0 and 1; the bits of floats and doubles
// numbers in their order, one of all NaN.
void TransformWords(const table::Transform& transform, iceberg::TypeKind source,
                    const int64_t* words, size_t n, int64_t* values);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_TRANSFORM_H_
