// Which key-value metadata of the inputs an output keeps (P9; docs/FORMATS.md has the rule).
#ifndef LITHIFY_REWRITE_METADATA_MERGE_H_
#define LITHIFY_REWRITE_METADATA_MERGE_H_

#include <map>
#include <string>
#include <vector>

namespace lithify::rewrite {

// A key is kept if every input has it with the same value. Keys that describe the schema or the
// rows of one file (ARROW:schema, pandas, …) are kept only if, besides, all inputs and the output
// have one schema. "lithify.*" keys never pass. Appends one note per dropped key.
std::map<std::string, std::string> MergeMetadata(
    const std::vector<std::map<std::string, std::string>>& inputs, bool one_schema,
    std::vector<std::string>* notes);

// True for keys that describe the schema or the rows of one file.
bool DescribesSchema(const std::string& key);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_METADATA_MERGE_H_
