// JSON of Iceberg's metadata, for the readers of this module: parsed within bounds, every number
// kept exactly, every error told with the path of its member. Only sources include this.
#ifndef LITHIFY_TABLE_ICEBERG_JSON_H_
#define LITHIFY_TABLE_ICEBERG_JSON_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table::iceberg_json {

// Members keep their order. A number that is no 64-bit integer is held as `binary`: its digits.
using Json = nlohmann::ordered_json;

// Gunzips first if need be. kCorrupt: not JSON, a key twice in one object, nested too deep; kLimit:
// more bytes or values than any table has.
Result<Json> Parse(std::string_view text, std::string_view where);
// Compact; the counterpart of Parse().
std::string Write(const Json& json);

// A number that is written as it is in `digits`.
Json RawNumber(std::string_view digits);

// A value and how one gets to it, for messages; lives on the stack below its parent.
class Node {
 public:
  explicit Node(const Json& json) : json_(&json) {}
  Node(const Json& json, const Node& parent, std::string_view key)
      : json_(&json), parent_(&parent), key_(key) {}
  Node(const Json& json, const Node& parent, size_t index)
      : json_(&json), parent_(&parent), index_(index) {}

  const Json& json() const { return *json_; }
  std::string Path() const;  // "snapshots[3].summary"; empty for the whole.
  std::unexpected<Error> Bad(std::string_view problem) const;  // kCorrupt.
  std::unexpected<Error> Fault(Code code, std::string_view problem) const;

  // Null and absent are the same.
  std::optional<Node> Find(std::string_view key) const;
  Result<Node> Member(std::string_view key) const;  // kCorrupt if absent.

  Status IsObject() const;
  Result<size_t> ArraySize() const;
  Node At(size_t index) const { return Node((*json_)[index], *this, index); }

  Result<bool> Bool() const;
  Result<int64_t> Int64() const;
  Result<int> Int32() const;
  Result<double> Double() const;
  Result<std::string> Text() const;
  // An object whose values are strings; those that are null are left out.
  Result<std::map<std::string, std::string>> TextMap() const;

  Result<int64_t> Int64(std::string_view key) const;
  Result<int> Int32(std::string_view key) const;
  Result<std::string> Text(std::string_view key) const;
  Result<std::optional<int64_t>> OptionalInt64(std::string_view key) const;
  Result<std::optional<int>> OptionalInt32(std::string_view key) const;
  Result<std::optional<std::string>> OptionalText(std::string_view key) const;

 private:
  const Json* json_;
  const Node* parent_ = nullptr;
  std::string_view key_;
  size_t index_ = 0;
};

// --- schemas (iceberg_schema_json.cc) ----------------------------------------------------------

Result<iceberg::Schema> ReadSchema(const Node& node);
Json SchemaJson(const iceberg::Schema& schema);
Json PartitionFieldsJson(const iceberg::PartitionSpec& spec);

// --- default values (iceberg_default_json.cc) [JSON single-value serialization] -----------------

// nullopt: a default of a kind that is not understood.
Result<std::optional<iceberg::Value>> ReadSingleValue(const iceberg::Type& type, const Node& node);
Json SingleValueJson(const iceberg::Type& type, const iceberg::Value& value);

// --- metadata (iceberg_metadata.cc) ------------------------------------------------------------

Result<iceberg::TableMetadata> ReadTableMetadata(const Node& node);

}  // namespace lithify::table::iceberg_json

#endif  // LITHIFY_TABLE_ICEBERG_JSON_H_
