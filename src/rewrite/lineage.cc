#include "rewrite/lineage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace lithify::rewrite {
namespace {

struct Column {
  const char* name;
  int field_id;
  bool plus_position;
};

constexpr Column kColumns[] = {
    {"_row_id", iceberg::kRowIdFieldId, true},
    {"_last_updated_sequence_number", iceberg::kLastUpdatedFieldId, false},
};

Result<LeafSource> SourceOf(const Column& column, const InputFile& file, const SchemaNode& schema) {
  LeafSource source;
  source.inherited = Inherited{
      column.plus_position ? *file.first_row_id : file.data_sequence_number, column.plus_position};
  const auto found = std::ranges::find_if(
      schema.children, [&](const auto& child) { return child->field_id == column.field_id; });
  if (found == schema.children.end() || (*found)->null_type()) {
    source.levels_only = true;
    source.definition_map = {0};
    return source;
  }
  const SchemaNode& own = **found;
  if (own.kind != SchemaNode::Kind::kLeaf || own.physical != parquet::Type::INT64) {
    return Fail(Code::kUnsupported, "is no long in the file", column.name,
                "rewrite the file with the engine that owns the table");
  }
  source.input_leaf = own.leaf_index;
  if (!own.required) source.definition_map.push_back(0);
  source.definition_map.push_back(1);
  return source;
}

}  // namespace

Status AddLineage(const std::vector<InputFile>& files, SchemaNode& output,
                  const std::vector<std::unique_ptr<InputSource>>& inputs) {
  auto next_leaf = static_cast<int>(OutputLeaves(output).size());
  for (const Column& column : kColumns) {
    for (const auto& child : output.children) {
      if (child->name != column.name && child->field_id != column.field_id) continue;
      return Fail(Code::kUnsupported, "is a column of the table, and reserved for row lineage",
                  column.name, "rename the table's column");
    }
    auto node = std::make_unique<SchemaNode>();
    node->name = column.name;
    node->field_id = column.field_id;
    node->physical = parquet::Type::INT64;
    node->logical = parquet::LogicalType::None();
    node->leaf_index = next_leaf++;
    output.children.push_back(std::move(node));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!files[i].first_row_id) {
        return Fail(Code::kUnsupported,
                    "its rows have no first row id yet, which they must keep in a rewrite",
                    files[i].key, "commit to the table once with format version 3, then run again");
      }
      LITHIFY_TRY_ASSIGN(LeafSource source, SourceOf(column, files[i], *inputs[i]->schema));
      inputs[i]->leaves.push_back(std::move(source));
    }
  }
  return {};
}

}  // namespace lithify::rewrite
