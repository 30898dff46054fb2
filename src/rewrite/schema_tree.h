// Parquet schemas in one canonical shape, and their union (R221, R225-R228; P4-P6, P8, P22, P23).
//
// Lists of every historic form (two-level, "array", "item", bare repeated fields) and maps become
// the three-level form of the Parquet LogicalTypes page; the definition and repetition levels of
// the canonical tree are those of the file, since a legacy form differs only in names and in
// fields that are required. Columns are matched by field id where every field of every input at
// that level has one of its own, else by name, case-sensitively; an id that goes with two names is
// refused, since readers of plain files go by name. What cannot be merged without a chance of
// changing a value is refused with the reason.
#ifndef LITHIFY_REWRITE_SCHEMA_TREE_H_
#define LITHIFY_REWRITE_SCHEMA_TREE_H_

#include <parquet/schema.h>
#include <parquet/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lithify::rewrite {

inline constexpr int kSchemaDepthMax = 64;

struct SchemaNode {
  enum class Kind { kLeaf, kStruct, kList, kMap };
  Kind kind = Kind::kLeaf;
  std::string name;
  int field_id = -1;
  bool required = false;  // Of the field itself; a list's or map's repeated level is implied.
  std::shared_ptr<const parquet::LogicalType> logical;  // Leaves, and annotated structs.
  // Leaves.
  parquet::Type::type physical = parquet::Type::BOOLEAN;
  int type_length = -1;
  int leaf_index = -1;          // Column index in its own file (inputs) or in the output.
  bool children_by_id = false;  // Unions: how the fields of a struct were matched.
  // kStruct: fields. kList: the element. kMap: key and value.
  std::vector<std::unique_ptr<SchemaNode>> children;

  bool null_type() const { return kind == Kind::kLeaf && logical->is_null(); }
  // Same shape, names, ids and types; `with_required` false overlooks the node's own repetition.
  bool SameAs(const SchemaNode& other, bool with_required = true) const;
};

// What a leaf's type is as an integer; nullopt if it is none.
struct IntType {
  int bits;
  bool is_signed;
};
std::optional<IntType> AsInt(const SchemaNode& node);
// The unit of a timestamp leaf, in nanoseconds; nullopt if it is none.
std::optional<int64_t> TimestampUnit(const SchemaNode& node);
// "INT64 (Timestamp(…))", for messages.
std::string TypeText(const SchemaNode& node);

// The root is a required struct. kUnsupported for shapes that are not understood.
Result<std::unique_ptr<SchemaNode>> ParseSchema(const parquet::SchemaDescriptor& schema);

// The union of at least one tree; leaf_index is numbered anew. kUnsupported with the column's path
// and the reason where the inputs cannot be merged. Appends to `notes` what was widened or renamed.
// `fold_case`: names that differ in nothing but case are refused (P8).
Result<std::unique_ptr<SchemaNode>> UniteSchemas(const std::vector<const SchemaNode*>& inputs,
                                                 std::vector<std::string>* notes,
                                                 bool fold_case = true);

// As a Parquet schema, lists and maps in the standard three-level form.
std::shared_ptr<parquet::schema::GroupNode> ToParquet(const SchemaNode& root);

struct OutputLeaf {
  std::string path;  // Dotted, of the Parquet schema ("tags.list.element").
  parquet::Type::type physical = parquet::Type::BOOLEAN;
  int type_length = -1;
  int16_t definition_max = 0;
  int16_t repetition_max = 0;
};

std::vector<OutputLeaf> OutputLeaves(const SchemaNode& output);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_SCHEMA_TREE_H_
