// Values of columns to keys whose bytes compare as the rows are to be ordered: Iceberg's order of
// values [Sorting] (numbers; strings and binary as unsigned bytes; false before true; -0.0 before
// +0.0, NaN above everything: -NaN is NaN), with a direction, a place of nulls and a transform per
// field. For any types that Iceberg can compare.
//
// Thread safety: an encoder serves one thread at a time.
#ifndef LITHIFY_SORT_KEY_ENCODER_H_
#define LITHIFY_SORT_KEY_ENCODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "base/row_order.h"
#include "sort/key_rows.h"

namespace lithify::sort {

// Some rows of one column, in the forms of rewrite/leaf_value.h: of the three arrays only the one
// of the column's type is there. Words are 64 bits: boolean, int, long, date, time, timestamps, and
// the bits of floats (the lower 32) and doubles. Decimals are unscaled. Bytes: string, uuid, fixed,
// binary; those of a null are not looked at.
struct KeyColumn {
  const uint8_t* valid = nullptr;  // 0: null; of all arrays one entry per row. No array: no null.
  const int64_t* words = nullptr;
  const iceberg::Int128* decimals = nullptr;
  const std::string_view* bytes = nullptr;

  KeyColumn From(size_t row) const {
    const auto from = [row](auto* all) { return all == nullptr ? all : all + row; };
    return {from(valid), from(words), from(decimals), from(bytes)};
  }
};

class KeyEncoder {
 public:
  virtual ~KeyEncoder() = default;
  // Appends the keys of `rows` rows; `columns` has one entry per field of the order.
  virtual void Append(std::span<const KeyColumn> columns, size_t rows, KeyRows& out) = 0;
  // Bytes of a key, to estimate with; 0: that depends on texts. Null, and values at the ends of
  // what a type can say, may have a few less or more (sort/key_field.h): keys of eight bytes have a
  // rest then, and only then. The key of a row does not depend on the rows that it is encoded with.
  virtual size_t key_bytes() const = 0;
};

// For an order without a curve. `types` are the source types of the fields. kUnsupported, naming
// the field: a type without an order (geometry, variant, unknown, structs), an unknown transform,
// or one that does not take the type. kInvalid: no field. A "void" field orders nothing, whatever
// its type, and its column may have no arrays.
Result<std::unique_ptr<KeyEncoder>> MakeKeyEncoder(const RowOrder& order,
                                                   std::span<const iceberg::Type> types);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_ENCODER_H_
