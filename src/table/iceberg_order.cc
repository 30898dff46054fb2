#include "table/iceberg_order.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/order_text.h"
#include "base/text.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using Kind = Transform::Kind;

constexpr const char* kWaysOut =
    "name the columns, sort_order => 'region, ts DESC', or declare an order for the table, in "
    "Spark "
    "ALTER TABLE … WRITE ORDERED BY …";

struct Column {
  std::string name;  // Dotted.
  const Field* field = nullptr;
  bool repeated = false;  // In a list or map.
};

void CollectColumns(const std::vector<Field>& fields, const std::string& prefix, bool repeated,
                    std::vector<Column>& out) {
  for (const Field& field : fields) {
    const std::string name = prefix + field.name;
    out.push_back({name, &field, repeated});
    const bool many = field.type.kind == TypeKind::kList || field.type.kind == TypeKind::kMap;
    CollectColumns(field.type.fields, name + ".", repeated || many, out);
  }
}

bool HasOrder(const iceberg::Type& type) {
  return type.primitive() && type.kind != TypeKind::kUnknown && type.kind != TypeKind::kGeometry &&
         type.kind != TypeKind::kGeography;
}

bool IsTimestamp(TypeKind kind) {
  return kind == TypeKind::kTimestamp || kind == TypeKind::kTimestamptz ||
         kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestamptzNs;
}

bool Takes(const Transform& transform, TypeKind kind) {
  switch (transform.kind) {
    case Kind::kIdentity:
    case Kind::kVoid: return true;
    case Kind::kBucket:
      return transform.parameter > 0 && kind != TypeKind::kBoolean && kind != TypeKind::kFloat &&
             kind != TypeKind::kDouble;
    case Kind::kTruncate:
      return transform.parameter > 0 &&
             (kind == TypeKind::kInt || kind == TypeKind::kLong || kind == TypeKind::kDecimal ||
              kind == TypeKind::kString || kind == TypeKind::kBinary);
    case Kind::kYear:
    case Kind::kMonth:
    case Kind::kDay: return kind == TypeKind::kDate || IsTimestamp(kind);
    case Kind::kHour: return IsTimestamp(kind);
    case Kind::kUnknown: return false;
  }
  return false;
}

Status CheckField(const OrderField& field, const Column& column) {
  const std::string name = JsonQuote(field.column);
  if (column.repeated) {
    return Fail(Code::kUnsupported,
                "rows cannot be ordered by " + name + ": it has many values per row", "sort_order",
                "name a column outside of lists and maps");
  }
  if (!HasOrder(column.field->type)) {
    const bool parent = column.field->type.kind == TypeKind::kStruct;
    return Fail(Code::kUnsupported, "rows cannot be ordered by " + name + ": its type has no order",
                "sort_order",
                parent ? "name a field of it, like " + name + "." +
                             JsonQuote(column.field->type.fields.empty()
                                           ? "field"
                                           : column.field->type.fields.front().name)
                       : "name another column");
  }
  if (!Takes(ParseTransform(field.transform), column.field->type.kind)) {
    return Fail(Code::kUnsupported,
                "the transform " + JsonQuote(field.transform) + " does not take " + name,
                "sort_order", "order by the column itself, or by another transform of it");
  }
  return {};
}

Status BindField(const std::vector<Column>& columns, OrderField& field) {
  const auto found = std::ranges::find(columns, field.column, &Column::name);
  if (found == columns.end()) {
    std::vector<std::string_view> names;
    for (const Column& column : columns) {
      if (!column.repeated && HasOrder(column.field->type)) names.push_back(column.name);
    }
    std::string hint = "names are case-sensitive";
    if (const std::string_view nearest = Nearest(field.column, names); !nearest.empty()) {
      hint = "did you mean " + JsonQuote(nearest) + "?";
    }
    return Fail(Code::kInvalid, "no column " + JsonQuote(field.column), "sort_order",
                std::move(hint));
  }
  field.field_id = found->field->id;
  return CheckField(field, *found);
}

// Of a declared order, as far as it can be followed.
Result<RowOrder> OrderOf(const iceberg::SortOrder& declared, const std::vector<Column>& columns) {
  RowOrder order;
  for (const iceberg::SortField& by : declared.fields) {
    const auto column = std::ranges::find_if(columns, [&](const Column& c) {
      return by.source_ids.size() == 1 && c.field->id == by.source_ids.front();
    });
    const std::string where = "sort order " + std::to_string(declared.order_id);
    if (by.source_ids.size() != 1) {
      return Fail(Code::kUnsupported, "a transform of several columns cannot be followed", where,
                  kWaysOut);
    }
    if (column == columns.end()) {
      return Fail(Code::kUnsupported,
                  "field " + std::to_string(by.source_ids.front()) +
                      ", by which rows are ordered, is in the schema no more",
                  where, kWaysOut);
    }
    OrderField field{.field_id = column->field->id,
                     .column = column->name,
                     .transform = by.transform,
                     .ascending = by.ascending,
                     .nulls_first = by.nulls_first};
    if (Status fit = CheckField(field, *column); !fit) {
      Error error = std::move(fit.error());
      error.context = where;
      error.hint = kWaysOut;
      return Fail(std::move(error));
    }
    order.fields.push_back(std::move(field));
  }
  return order;
}

bool OrdersNothing(const RowOrder& order) {
  return std::ranges::all_of(order.fields, [](const OrderField& field) {
    return ParseTransform(field.transform).kind == Kind::kVoid;
  });
}

std::vector<Column> ColumnsOf(const iceberg::TableMetadata& table) {
  std::vector<Column> columns;
  CollectColumns(table.schema().fields, "", false, columns);
  return columns;
}

// The default one, if it is among several that are the same.
std::optional<int> DeclaredId(const RowOrder& order, const iceberg::TableMetadata& table,
                              const std::vector<Column>& columns) {
  if (order.curve != Curve::kNone) return std::nullopt;
  std::optional<int> id;
  for (const iceberg::SortOrder& declared : table.sort_orders) {
    const auto same = OrderOf(declared, columns);
    if (!same || *same != order) continue;
    if (!id || declared.order_id == table.default_sort_order_id) id = declared.order_id;
  }
  return id;
}

}  // namespace

Result<TableOrder> BindOrder(const RowOrder& order, const iceberg::TableMetadata& table) {
  const std::vector<Column> columns = ColumnsOf(table);
  TableOrder bound{.order = order, .sort_order_id = std::nullopt};
  for (OrderField& field : bound.order.fields) LITHIFY_TRY(BindField(columns, field));
  bound.sort_order_id = DeclaredId(bound.order, table, columns);
  return bound;
}

Result<TableOrder> DeclaredOrder(const iceberg::TableMetadata& table) {
  const iceberg::SortOrder* declared = table.FindSortOrder(table.default_sort_order_id);
  if (declared == nullptr || declared->fields.empty()) {
    return Fail(Code::kInvalid, "the table declares no sort order (its order is 0, unsorted)",
                "sort_order", kWaysOut);
  }
  LITHIFY_TRY_ASSIGN(RowOrder order, OrderOf(*declared, ColumnsOf(table)));
  if (OrdersNothing(order)) {
    return Fail(Code::kInvalid, "the table's sort order orders nothing: all of it is void",
                "sort order " + std::to_string(declared->order_id), kWaysOut);
  }
  return TableOrder{.order = std::move(order), .sort_order_id = declared->order_id};
}

Result<RowOrder> OrderWithId(int order_id, const iceberg::TableMetadata& table) {
  const iceberg::SortOrder* declared = table.FindSortOrder(order_id);
  if (declared == nullptr || declared->fields.empty()) {
    return Fail(Code::kNotFound, "the table has no sort order " + std::to_string(order_id));
  }
  return OrderOf(*declared, ColumnsOf(table));
}

Result<TableOrder> AlongCurve(TableOrder order, Curve curve) {
  if (order.order.fields.size() > kCurveColumnsMax) {
    return Fail(Code::kInvalid,
                "a curve takes " + std::to_string(kCurveColumnsMax) + " columns at most, not " +
                    std::to_string(order.order.fields.size()),
                "sort_order", "name those that queries filter by: sort_order => 'zorder(a, b)'");
  }
  RowOrder along{.fields = {}, .curve = curve};
  for (const OrderField& field : order.order.fields) {
    if (ParseTransform(field.transform).kind == Kind::kVoid) continue;
    OrderField plain{.field_id = field.field_id, .column = field.column};
    if (std::ranges::find(along.fields, plain) == along.fields.end()) {
      along.fields.push_back(std::move(plain));
    }
  }
  return TableOrder{.order = std::move(along), .sort_order_id = std::nullopt};
}

const OrderField* RangeField(const RowOrder& order) {
  if (order.curve != Curve::kNone) return nullptr;
  for (const OrderField& field : order.fields) {
    switch (ParseTransform(field.transform).kind) {
      case Kind::kVoid: continue;
      case Kind::kBucket:
      case Kind::kUnknown: return nullptr;
      default: return &field;
    }
  }
  return nullptr;
}

}  // namespace lithify::table
