// The order of the rows of outputs: by fields, or along a space-filling curve.
#ifndef LITHIFY_BASE_ROW_ORDER_H_
#define LITHIFY_BASE_ROW_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lithify {

enum class Curve { kNone, kZOrder, kHilbert };

// One key of the order. Of tables the field id counts, of plain Parquet the dotted path.
struct OrderField {
  int field_id = 0;
  std::string column;                  // "location.lat"; of tables for messages only.
  std::string transform = "identity";  // As Iceberg writes it: "bucket[16]", "day", ….
  bool ascending = true;
  bool nulls_first = true;
  bool operator==(const OrderField&) const = default;
};

// Rows that are equal in all fields stay in the order of the inputs and of their rows (R232).
struct RowOrder {
  std::vector<OrderField> fields;  // At least one; with a curve at most 8, of identity.
  Curve curve = Curve::kNone;
  bool operator==(const RowOrder&) const = default;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_ROW_ORDER_H_
