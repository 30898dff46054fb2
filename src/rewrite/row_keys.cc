#include "rewrite/row_keys.h"

#include <parquet/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/arrow_io.h"
#include "rewrite/leaf_scan.h"
#include "rewrite/schema_tree.h"
#include "sort/curve.h"
#include "sort/key_encoder.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;

constexpr size_t kCurveSamples = 200'000;

// What values of plain Parquet's leaf compare like; nullopt: they have no order, or none that is
// known here.
std::optional<iceberg::Type> TypeOf(const SchemaNode& leaf) {
  const auto is = [](TypeKind kind) {
    iceberg::Type type;
    type.kind = kind;
    return type;
  };
  const parquet::LogicalType& logical = *leaf.logical;
  if (logical.is_decimal()) {
    const auto& decimal = static_cast<const parquet::DecimalLogicalType&>(logical);
    iceberg::Type type = is(TypeKind::kDecimal);
    type.precision = decimal.precision();
    type.scale = decimal.scale();
    return type;
  }
  if (logical.is_string() || logical.is_enum() || logical.is_JSON()) return is(TypeKind::kString);
  if (logical.is_date()) return is(TypeKind::kDate);
  // In whatever unit.
  if (TimestampUnit(leaf) || logical.is_time()) {
    if (leaf.physical == parquet::Type::INT96) return std::nullopt;
    return is(leaf.physical == parquet::Type::INT64 ? TypeKind::kLong : TypeKind::kInt);
  }
  if (const auto integer = AsInt(leaf)) {
    if (!integer->is_signed) return std::nullopt;
    return is(integer->bits == 64 ? TypeKind::kLong : TypeKind::kInt);
  }
  if (!logical.is_none()) return std::nullopt;
  switch (leaf.physical) {
    case parquet::Type::BOOLEAN: return is(TypeKind::kBoolean);
    case parquet::Type::FLOAT: return is(TypeKind::kFloat);
    case parquet::Type::DOUBLE: return is(TypeKind::kDouble);
    case parquet::Type::BYTE_ARRAY: return is(TypeKind::kBinary);
    default: return std::nullopt;
  }
}

// The leaf of that dotted path that lies in no list or map, or null.
const SchemaNode* FindLeafNode(const SchemaNode& root, std::string_view path) {
  for (const auto& child : root.children) {
    if (path == child->name) return child->kind == SchemaNode::Kind::kLeaf ? child.get() : nullptr;
    const bool below = child->kind == SchemaNode::Kind::kStruct &&
                       path.size() > child->name.size() && path.starts_with(child->name) &&
                       path[child->name.size()] == '.';
    if (!below) continue;
    if (const auto* leaf = FindLeafNode(*child, path.substr(child->name.size() + 1))) return leaf;
  }
  return nullptr;
}

class KeyScan {
 public:
  KeyScan(const OpenedGroup& group, const GroupRequest& request, BoundedPool& pool,
          const CancelFlag& cancel)
      : group_(group), request_(request), pool_(pool), cancel_(cancel) {}

  Result<sort::SortedRows> Run(const sort::RowSorterOptions& options) {
    LITHIFY_TRY(FindFields());
    LITHIFY_TRY_ASSIGN(const auto encoder, MakeEncoder());
    const auto sorter = sort::MakeRowSorter(options);
    sort::KeyRows keys;
    bool begins = true;
    const auto add = [&](std::span<const sort::KeyColumn> columns, size_t rows) -> Status {
      encoder->Append(columns, rows, keys);
      if (keys.size() < kKeysAtATime) return {};
      LITHIFY_TRY(sorter->Add(keys, std::exchange(begins, false)));
      keys.Clear();
      return {};
    };
    for (size_t i = 0; i < group_.inputs.size(); ++i) {
      begins = true;
      LITHIFY_TRY(Scan(i, add));
      if (keys.size() > 0) LITHIFY_TRY(sorter->Add(keys, begins));
      keys.Clear();
    }
    return sorter->Finish();
  }

 private:
  static constexpr size_t kKeysAtATime = 16'384;
  using Rows = std::function<Status(std::span<const sort::KeyColumn> columns, size_t rows)>;

  // Where a key's values come from.
  struct KeyField {
    std::vector<const iceberg::Field*> path;  // Of a table.
    int leaf = -1;                            // Of plain Parquet, of the output.
    iceberg::Type type;
  };

  Status FindFields() {
    for (const OrderField& field : request_.ordering->order.fields) {
      KeyField& key = fields_.emplace_back();
      if (request_.table != nullptr) {
        LITHIFY_TRY_ASSIGN(key.path, PathToField(request_.table->schema, field.field_id));
        key.type = key.path.back()->type;
        continue;
      }
      const SchemaNode* leaf = FindLeafNode(*group_.output_schema, field.column);
      if (leaf == nullptr) {
        return Fail(Code::kUnsupported, "rows are to be ordered by a column that the files lack",
                    "column " + field.column, "name a column of the files that is in no list");
      }
      const auto type = TypeOf(*leaf);
      if (!type) {
        return Fail(Code::kUnsupported, "rows are not ordered by values of type " + TypeText(*leaf),
                    "column " + field.column, "order by another column");
      }
      key.leaf = leaf->leaf_index;
      key.type = *type;
    }
    return {};
  }

  Result<std::unique_ptr<sort::KeyEncoder>> MakeEncoder() {
    const RowOrder& order = request_.ordering->order;
    std::vector<iceberg::Type> types;
    for (const KeyField& field : fields_) types.push_back(field.type);
    if (order.curve == Curve::kNone) return sort::MakeKeyEncoder(order, types);
    LITHIFY_TRY_ASSIGN(const auto samples, sort::MakeCurveSamples(order, types, kCurveSamples));
    const auto add = [&](std::span<const sort::KeyColumn> columns, size_t rows) -> Status {
      samples->Add(columns, rows);
      return {};
    };
    for (size_t i = 0; i < group_.inputs.size(); ++i) LITHIFY_TRY(Scan(i, add));
    return samples->Finish();
  }

  // Calls `rows` for all rows of an input that are not deleted, in their order.
  Status Scan(size_t input, const Rows& rows) {
    const InputSource& in = *group_.inputs[input];
    return GuardParquet(in.key, [&]() -> Status {
      const ScanFile file{in.key, in.footer, in.file, in.size, in.pool, in.Pages().read_bytes};
      std::vector<std::unique_ptr<LeafCursor>> cursors;
      for (const KeyField& field : fields_) {
        LITHIFY_TRY_ASSIGN(cursors.emplace_back(), OpenCursor(file, input, field));
      }
      int64_t first = 0;
      for (int g = 0; g < in.footer->num_row_groups(); ++g) {
        LITHIFY_TRY(cancel_.Check());
        const int64_t count = in.footer->row_group(g).num_rows;
        LITHIFY_TRY(ScanRowGroup(in, g, first, count, cursors, rows));
        first += count;
      }
      return {};
    });
  }

  Result<std::unique_ptr<LeafCursor>> OpenCursor(const ScanFile& file, size_t input,
                                                 const KeyField& field) {
    if (request_.table != nullptr) {
      return MakeTableCursor(file, request_.inputs[input], field.path,
                             request_.table->name_mapping);
    }
    const LeafSource& source = group_.inputs[input]->leaves[static_cast<size_t>(field.leaf)];
    if (source.levels_only || source.input_leaf < 0 || source.must_be_null) {
      iceberg::Field absent;
      absent.type = field.type;
      return MakeConstantCursor(file, absent, iceberg::Value());
    }
    if (field.type.kind == TypeKind::kDecimal) {
      return MakeLeafCursor(file, source.input_leaf, field.type);
    }
    // As it is converted for the output.
    LeafReading reading;
    reading.form = FormOf(field.type);
    switch (source.conversion) {
      case Conversion::kFloatToDouble: reading.widen_float = true; break;
      case Conversion::kScaleInt32:
      case Conversion::kScaleInt64: reading.multiply = source.factor; break;
      case Conversion::kInt96ToInt64: reading.nanoseconds_per_unit = source.factor; break;
      default: break;
    }
    return MakeLeafCursor(file, source.input_leaf, reading);
  }

  Status ScanRowGroup(const InputSource& in, int row_group, int64_t first, int64_t count,
                      const std::vector<std::unique_ptr<LeafCursor>>& cursors, const Rows& rows) {
    for (const auto& cursor : cursors) LITHIFY_TRY(cursor->OpenGroup(row_group));
    for (int64_t at = 0; at < count;) {
      auto some = static_cast<size_t>(count - at);
      for (const auto& cursor : cursors) {
        if (cursor->available() == 0) LITHIFY_TRY(cursor->Fill());
        some = std::min(some, cursor->available());
      }
      if (some == 0) {
        return Fail(Code::kCorrupt, "a column has fewer rows than its row group claims", "",
                    "restore the file from its source");
      }
      LITHIFY_TRY(PassOn(in, first + at, some, cursors, rows));
      for (const auto& cursor : cursors) cursor->Advance(some);
      at += static_cast<int64_t>(some);
      LITHIFY_TRY(pool_.Check());
    }
    for (const auto& cursor : cursors) LITHIFY_TRY(cursor->CloseGroup());
    return {};
  }

  // Those of `count` rows, the first of them row `first` of the file, that are not deleted.
  Status PassOn(const InputSource& in, int64_t first, size_t count,
                const std::vector<std::unique_ptr<LeafCursor>>& cursors, const Rows& rows) {
    if (in.deleted == nullptr) return PassOn(0, count, cursors, rows);
    size_t at = 0;
    Status status;
    in.deleted->ForEachRange(first, first + static_cast<int64_t>(count),
                             [&](int64_t begin, int64_t end) {
                               const auto gone = static_cast<size_t>(begin - first);
                               if (status && gone > at) status = PassOn(at, gone, cursors, rows);
                               at = static_cast<size_t>(end - first);
                             });
    if (status && at < count) status = PassOn(at, count, cursors, rows);
    return status;
  }

  Status PassOn(size_t begin, size_t end, const std::vector<std::unique_ptr<LeafCursor>>& cursors,
                const Rows& rows) {
    columns_.clear();
    for (size_t i = 0; i < cursors.size(); ++i) {
      const LeafCursor& cursor = *cursors[i];
      const size_t at = cursor.at() + begin;
      sort::KeyColumn& column = columns_.emplace_back();
      column.valid = cursor.valids() + at;
      switch (FormOf(fields_[i].type)) {
        case LeafForm::kWord: column.words = cursor.words() + at; break;
        case LeafForm::kDecimal: column.decimals = cursor.decimals() + at; break;
        case LeafForm::kBytes: column.bytes = cursor.bytes() + at; break;
      }
    }
    return rows(columns_, end - begin);
  }

  const OpenedGroup& group_;
  const GroupRequest& request_;
  BoundedPool& pool_;
  const CancelFlag& cancel_;
  std::vector<KeyField> fields_;
  std::vector<sort::KeyColumn> columns_;
};

}  // namespace

Result<sort::SortedRows> OrderRows(const OpenedGroup& group, const GroupRequest& request,
                                   const sort::RowSorterOptions& options, BoundedPool& pool,
                                   const CancelFlag& cancel) {
  return KeyScan(group, request, pool, cancel).Run(options);
}

}  // namespace lithify::rewrite
