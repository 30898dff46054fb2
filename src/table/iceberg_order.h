// Orders of rows and a table: names to fields of its schema, and which of its declared sort orders
// an order is.
//
// Thread safety: pure functions.
#ifndef LITHIFY_TABLE_ICEBERG_ORDER_H_
#define LITHIFY_TABLE_ICEBERG_ORDER_H_

#include <optional>

#include "base/iceberg.h"
#include "base/result.h"
#include "base/row_order.h"

namespace lithify::table {

struct TableOrder {
  RowOrder order;  // With field ids, and columns as the schema names them.
  // Of the table's sort orders the one that `order` is, field by field: what a file in it may be
  // stamped with. Unset: none of them.
  std::optional<int> sort_order_id;
  bool operator==(const TableOrder&) const = default;
};

// An order by names (base/order_text.h) on the current schema. kInvalid, naming the column and the
// nearest one: no such column. kUnsupported: one without an order (a struct, a variant, a
// geometry), one with many values per row (in a list or map), a transform that does not take its
// type.
Result<TableOrder> BindOrder(const RowOrder& order, const iceberg::TableMetadata& table);

// The table's default sort order. kInvalid, with both ways out: it has none. kUnsupported, naming
// the field: one that cannot be followed (an unknown transform, a column that is gone).
Result<TableOrder> DeclaredOrder(const iceberg::TableMetadata& table);

// One of the table's sort orders. kNotFound: it has none with this id. kUnsupported: as above.
Result<RowOrder> OrderWithId(int order_id, const iceberg::TableMetadata& table);

// The same columns along a curve. kInvalid: they are more than a curve takes.
Result<TableOrder> AlongCurve(TableOrder order, Curve curve);

// The first field, if bounds of its column tell where in the order a file lies: no curve, and a
// transform that keeps the order of values. Else null.
const OrderField* RangeField(const RowOrder& order);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_ORDER_H_
