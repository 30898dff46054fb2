#include "rewrite/metadata_merge.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace lithify::rewrite {
namespace {

constexpr std::array<std::string_view, 7> kSchemaKeys = {
    "ARROW:schema",
    "pandas",
    "org.apache.spark.sql.parquet.row.metadata",
    "iceberg.schema",
    "parquet.avro.schema",
    "avro.schema",
    "parquet.proto.descriptor"};

// pandas records the number of rows of the file in its range index; it would be wrong here.
bool CountsRows(const std::string& key, const std::string& value) {
  return key == "pandas" && value.find("\"kind\": \"range\"") != std::string::npos;
}

}  // namespace

bool DescribesSchema(const std::string& key) {
  return std::ranges::find(kSchemaKeys, key) != kSchemaKeys.end();
}

std::map<std::string, std::string> MergeMetadata(
    const std::vector<std::map<std::string, std::string>>& inputs, bool one_schema,
    std::vector<std::string>* notes) {
  std::map<std::string, std::string> kept;
  std::set<std::string> dropped;
  for (const auto& input : inputs) {
    for (const auto& [key, value] : input) {
      if (key.starts_with("lithify.") || kept.contains(key)) continue;
      const bool same = std::ranges::all_of(inputs, [&](const auto& other) {
        const auto found = other.find(key);
        return found != other.end() && found->second == value;
      });
      const bool of_schema = DescribesSchema(key);
      if (same && (!of_schema || one_schema) && !CountsRows(key, value)) {
        kept[key] = value;
      } else if (dropped.insert(key).second) {
        notes->push_back("metadata key " + key + " dropped: " +
                         (same ? "it describes one file's schema or rows"
                               : "its values differ between the inputs"));
      }
    }
  }
  return kept;
}

}  // namespace lithify::rewrite
