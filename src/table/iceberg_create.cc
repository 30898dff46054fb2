// New tables: as the first metadata.json, and as the REST catalog's JSON.
#include <algorithm>
#include <chrono>
#include <utility>

#include "table/iceberg_json.h"
#include "table/iceberg_metadata.h"

namespace lithify::table {
namespace {

using iceberg_json::Json;

constexpr int kLastPartitionIdOfNone = 999;

int LastColumnId(const std::vector<iceberg::Field>& fields) {
  int last = 0;
  for (const iceberg::Field& field : fields) {
    last = std::max({last, field.id, LastColumnId(field.type.fields)});
  }
  return last;
}

Json SpecJson(const iceberg::PartitionSpec& spec) {
  Json json = Json::object();
  json["spec-id"] = spec.spec_id;
  json["fields"] = iceberg_json::PartitionFieldsJson(spec);
  return json;
}

Json NoOrder() {
  Json order = Json::object();
  order["order-id"] = 0;
  order["fields"] = Json::array();
  return order;
}

}  // namespace

Result<std::string> FirstMetadata(const NewTable& table, Time now) {
  if (table.format_version != 2 && table.format_version != 3) {
    return Fail(Code::kInvalid,
                "no table of format version " + std::to_string(table.format_version) + " is made",
                table.location, "use 2 or 3");
  }
  iceberg::Schema schema = table.schema;
  schema.schema_id = 0;
  iceberg::PartitionSpec spec = table.spec;
  spec.spec_id = 0;
  int last_partition_id = kLastPartitionIdOfNone;
  for (const auto& field : spec.fields) {
    last_partition_id = std::max(last_partition_id, field.field_id);
  }
  std::string location = table.location;
  while (location.size() > 1 && location.ends_with('/')) location.pop_back();

  Json json = Json::object();
  json["format-version"] = table.format_version;
  json["table-uuid"] = table.uuid;
  json["location"] = location;
  json["last-sequence-number"] = 0;
  json["last-updated-ms"] =
      std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
  json["last-column-id"] = LastColumnId(schema.fields);
  json["current-schema-id"] = 0;
  json["schemas"] = Json::array({iceberg_json::SchemaJson(schema)});
  json["default-spec-id"] = 0;
  json["partition-specs"] = Json::array({SpecJson(spec)});
  json["last-partition-id"] = last_partition_id;
  json["default-sort-order-id"] = 0;
  json["sort-orders"] = Json::array({NoOrder()});
  json["properties"] = table.properties;
  if (table.format_version >= 3) json["next-row-id"] = 0;
  json["refs"] = Json::object();
  json["snapshots"] = Json::array();
  json["snapshot-log"] = Json::array();
  json["metadata-log"] = Json::array();
  // What we publish is what we would accept.
  auto check = iceberg_json::ReadTableMetadata(iceberg_json::Node(json));
  if (!check) {
    Error error = std::move(check.error()).In("the first metadata of " + location);
    error.code = Code::kInvalid;
    return Fail(std::move(error));
  }
  return iceberg_json::Write(json);
}

std::string CreateNamespaceToJson(const std::vector<std::string>& parts,
                                  const std::map<std::string, std::string>& properties) {
  Json json = Json::object();
  json["namespace"] = parts;
  json["properties"] = properties;
  return iceberg_json::Write(json);
}

std::string CreateTableToJson(const std::string& name, const std::string& location,
                              const iceberg::Schema& schema, const iceberg::PartitionSpec& spec,
                              const std::map<std::string, std::string>& properties) {
  Json json = Json::object();
  json["name"] = name;
  if (!location.empty()) json["location"] = location;
  json["schema"] = iceberg_json::SchemaJson(schema);
  json["partition-spec"] = SpecJson(spec);
  json["write-order"] = NoOrder();
  json["stage-create"] = false;
  json["properties"] = properties;
  return iceberg_json::Write(json);
}

}  // namespace lithify::table
