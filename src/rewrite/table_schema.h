// What a table's schema makes of its files: columns go by field id, in the table's order and under
// its names [Iceberg, Column Projection; Schema Evolution] (I24, P22).
#ifndef LITHIFY_REWRITE_TABLE_SCHEMA_H_
#define LITHIFY_REWRITE_TABLE_SCHEMA_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/group_runner.h"
#include "rewrite/leaf_map.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// Gives the fields of a file without ids those of `mapping`; fields that it does not name get none.
// Of the fields that get theirs so, `constants` take precedence and leave them without [Column
// Projection]. kUnsupported if the file has no ids and the mapping is empty, or if some of its
// fields have ids and some do not.
Status ResolveFieldIds(SchemaNode& file, const std::vector<iceberg::NameMapping>& mapping,
                       const std::vector<std::pair<int, iceberg::Value>>& constants);

// One input, as the target's schema needs it.
struct TableInput {
  const InputFile* file = nullptr;
  const SchemaNode* schema = nullptr;  // With field ids.
  // Set by MakeTargetSchema: what columns that the file lacks hold, by field id (MapLeaves).
  std::map<int, std::string> fills;
};

// The schema of the outputs, for MapLeaves. A field is REQUIRED only if it is in the table and in
// every input, or has a value there (P6). kUnsupported, naming column and file, where a file's type
// is none that the table's reads, a required column is missing without a default, or the table has
// types that are not written here.
Result<std::unique_ptr<SchemaNode>> MakeTargetSchema(const iceberg::Schema& schema,
                                                     std::vector<TableInput>& inputs);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TABLE_SCHEMA_H_
