// Values of one Parquet column as values of an Iceberg primitive type (Iceberg, Appendix A
// "Parquet"), type promotions included ("Schema Evolution"), and the order-free forms that they are
// compared and bounded in.
//
// Thread safety: pure functions.
#ifndef LITHIFY_REWRITE_LEAF_VALUE_H_
#define LITHIFY_REWRITE_LEAF_VALUE_H_

#include <parquet/schema.h>
#include <parquet/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::rewrite {

enum class LeafForm {
  kWord,     // 64 bits: boolean, int, long, date, time, timestamps, and the bits of floats.
  kDecimal,  // Int128, unscaled.
  kBytes,    // string, uuid, fixed, binary.
};

// What turns a stored value into one of the table's type now.
struct LeafReading {
  LeafForm form = LeafForm::kWord;
  bool widen_float = false;          // FLOAT column of type double.
  int64_t multiply = 1;              // Integers, to a finer unit of time.
  int64_t divide = 1;                // Integers, to a coarser one, rounded down.
  iceberg::Int128 rescale = 1;       // Decimals of a smaller scale.
  int64_t nanoseconds_per_unit = 1;  // INT96.
};

// kUnsupported, with the types, where the column's values are none of that type.
Result<LeafReading> ReadLeafAs(const parquet::ColumnDescriptor& column, const iceberg::Type& type);

// nullopt where the value does not fit the type.
std::optional<int64_t> IntegerOf(const LeafReading& reading, int64_t stored);
std::optional<int64_t> IntegerOf(const LeafReading& reading, const parquet::Int96& stored);
std::optional<iceberg::Int128> DecimalOf(const LeafReading& reading, iceberg::Int128 stored);
// From two's complement, most significant byte first, of any length.
std::optional<iceberg::Int128> DecimalFromBigEndian(std::string_view bytes);

// Binary single-value serialization (Iceberg, Appendix D); null gives an empty text.
std::string SingleValueBytes(const iceberg::Type& type, const iceberg::Value& value);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_LEAF_VALUE_H_
