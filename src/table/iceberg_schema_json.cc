// Schemas, partition fields and name mappings [Appendix C: JSON serialization].
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/text.h"
#include "table/iceberg_json.h"
#include "table/iceberg_metadata.h"

namespace lithify::table {
namespace iceberg_json {
namespace {

using iceberg::Field;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeKind;

struct TypeName {
  std::string_view name;
  TypeKind kind;
};
constexpr std::array<TypeName, 19> kTypeNames = {{{"boolean", TypeKind::kBoolean},
                                                  {"int", TypeKind::kInt},
                                                  {"long", TypeKind::kLong},
                                                  {"float", TypeKind::kFloat},
                                                  {"double", TypeKind::kDouble},
                                                  {"date", TypeKind::kDate},
                                                  {"time", TypeKind::kTime},
                                                  {"timestamp", TypeKind::kTimestamp},
                                                  {"timestamptz", TypeKind::kTimestamptz},
                                                  {"timestamp_ns", TypeKind::kTimestampNs},
                                                  {"timestamptz_ns", TypeKind::kTimestamptzNs},
                                                  {"string", TypeKind::kString},
                                                  {"uuid", TypeKind::kUuid},
                                                  {"binary", TypeKind::kBinary},
                                                  {"unknown", TypeKind::kUnknown},
                                                  {"variant", TypeKind::kVariant},
                                                  {"geometry", TypeKind::kGeometry},
                                                  {"geography", TypeKind::kGeography},
                                                  {"fixed", TypeKind::kFixed}}};

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// A number from 0 to `max` and nothing else; -1 otherwise.
int ParseCount(std::string_view text, int max) {
  text = Trimmed(text);
  int value = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return -1;
  return value < 0 || value > max ? -1 : value;
}

// "decimal(9, 2)", "fixed[16]", "geometry(srid:3857)" and all that have no parameters.
Result<Type> ReadPrimitive(const Node& node) {
  const std::string_view text = Trimmed(node.json().get_ref<const std::string&>());
  const size_t bracket = text.find_first_of("([");
  const std::string name = Lower(Trimmed(text.substr(0, bracket)));
  std::string_view inner;
  char open = ' ';
  if (bracket != std::string_view::npos) {
    open = text[bracket];
    if (text.back() != (open == '(' ? ')' : ']')) return node.Bad("is a type without its bracket");
    inner = text.substr(bracket + 1, text.size() - bracket - 2);
  }
  Type type;
  if (name == "decimal") {
    const size_t comma = inner.find(',');
    type.kind = TypeKind::kDecimal;
    if (open == '(' && comma != std::string_view::npos) {
      type.precision = ParseCount(inner.substr(0, comma), 38);
      type.scale = ParseCount(inner.substr(comma + 1), type.precision);
    }
    if (type.precision < 1 || type.scale < 0) {
      return node.Bad("is not decimal(P, S) with a precision of 1 to 38 and a scale up to it");
    }
    return type;
  }
  for (const TypeName& known : kTypeNames) {
    if (known.name != name) continue;
    type.kind = known.kind;
    if (type.kind == TypeKind::kFixed) {
      type.length = open == '[' ? ParseCount(inner, 1 << 30) : -1;
      if (type.length < 0) return node.Bad("is not fixed[L] with a length");
    } else if (type.kind == TypeKind::kGeometry || type.kind == TypeKind::kGeography) {
      if (open == '[') return node.Bad("is a type with the wrong brackets");
      if (!Trimmed(inner).empty()) type.parameters = text.substr(bracket);
    } else if (open != ' ') {
      return node.Bad("is a type that takes no parameters");
    }
    return type;
  }
  return node.Fault(Code::kUnsupported,
                    "is a type that is not known: " + JsonQuote(text.substr(0, 120)));
}

Result<Type> ReadType(const Node& node);

Result<std::vector<Field>> ReadFields(const Node& parent);

Result<Field> ReadInner(const Node& parent, const char* name, const char* id_key,
                        const char* required_key) {
  Field field;
  field.name = name;
  LITHIFY_TRY_ASSIGN(field.id, parent.Int32(id_key));
  field.required = true;
  if (required_key != nullptr) {
    LITHIFY_TRY_ASSIGN(const Node required, parent.Member(required_key));
    LITHIFY_TRY_ASSIGN(field.required, required.Bool());
  }
  LITHIFY_TRY_ASSIGN(const Node type, parent.Member(name));
  LITHIFY_TRY_ASSIGN(field.type, ReadType(type));
  return field;
}

// Recursion is bounded by the depth that Parse() allows.
Result<Type> ReadType(const Node& node) {
  if (node.json().is_string()) return ReadPrimitive(node);
  LITHIFY_TRY_ASSIGN(const std::string name, node.Text("type"));
  Type type;
  if (name == "struct") {
    type.kind = TypeKind::kStruct;
    LITHIFY_TRY_ASSIGN(type.fields, ReadFields(node));
  } else if (name == "list") {
    type.kind = TypeKind::kList;
    type.fields.resize(1);
    LITHIFY_TRY_ASSIGN(type.fields[0],
                       ReadInner(node, "element", "element-id", "element-required"));
  } else if (name == "map") {
    type.kind = TypeKind::kMap;
    type.fields.resize(2);
    LITHIFY_TRY_ASSIGN(type.fields[0], ReadInner(node, "key", "key-id", nullptr));
    LITHIFY_TRY_ASSIGN(type.fields[1], ReadInner(node, "value", "value-id", "value-required"));
  } else {
    return node.Fault(Code::kUnsupported,
                      "is a type that is not known: " + JsonQuote(name.substr(0, 120)));
  }
  return type;
}

Status ReadDefault(const Node& node, const char* key, Field& field,
                   std::optional<iceberg::Value>& value) {
  const std::optional<Node> found = node.Find(key);
  if (!found) return {};
  LITHIFY_TRY_ASSIGN(value, ReadSingleValue(field.type, *found));
  if (!value) field.unsupported_default = true;
  return {};
}

Result<Field> ReadField(const Node& node) {
  Field field;
  LITHIFY_TRY_ASSIGN(field.id, node.Int32("id"));
  LITHIFY_TRY_ASSIGN(field.name, node.Text("name"));
  LITHIFY_TRY_ASSIGN(const Node required, node.Member("required"));
  LITHIFY_TRY_ASSIGN(field.required, required.Bool());
  LITHIFY_TRY_ASSIGN(const Node type, node.Member("type"));
  LITHIFY_TRY_ASSIGN(field.type, ReadType(type));
  LITHIFY_TRY_ASSIGN(const std::optional<std::string> doc, node.OptionalText("doc"));
  field.doc = doc.value_or("");
  LITHIFY_TRY(ReadDefault(node, "initial-default", field, field.initial_default));
  LITHIFY_TRY(ReadDefault(node, "write-default", field, field.write_default));
  return field;
}

Result<std::vector<Field>> ReadFields(const Node& parent) {
  LITHIFY_TRY_ASSIGN(const Node list, parent.Member("fields"));
  LITHIFY_TRY_ASSIGN(const size_t size, list.ArraySize());
  std::vector<Field> fields;
  fields.reserve(size);
  std::set<std::string_view> names;
  for (size_t i = 0; i < size; ++i) {
    const Node node = list.At(i);
    LITHIFY_TRY_ASSIGN(Field field, ReadField(node));
    fields.push_back(std::move(field));
    if (!names.insert(fields.back().name).second) {
      return node.Bad("has the name of another field: " + JsonQuote(fields.back().name));
    }
  }
  return fields;
}

Status CheckIds(const std::vector<Field>& fields, const Node& node, std::set<int>& ids) {
  for (const Field& field : fields) {
    if (!ids.insert(field.id).second) {
      return node.Bad("has field id " + std::to_string(field.id) + " twice");
    }
    LITHIFY_TRY(CheckIds(field.type.fields, node, ids));
  }
  return {};
}

Json TypeJson(const Type& type);

Json FieldsJson(const std::vector<Field>& fields) {
  Json list = Json::array();
  for (const Field& field : fields) {
    Json json = Json::object();
    json["id"] = field.id;
    json["name"] = field.name;
    json["required"] = field.required;
    json["type"] = TypeJson(field.type);
    if (!field.doc.empty()) json["doc"] = field.doc;
    if (field.initial_default) {
      json["initial-default"] = SingleValueJson(field.type, *field.initial_default);
    }
    if (field.write_default) {
      json["write-default"] = SingleValueJson(field.type, *field.write_default);
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json TypeJson(const Type& type) {
  Json json = Json::object();
  switch (type.kind) {
    case TypeKind::kDecimal:
      return "decimal(" + std::to_string(type.precision) + ", " + std::to_string(type.scale) + ")";
    case TypeKind::kFixed: return "fixed[" + std::to_string(type.length) + "]";
    case TypeKind::kStruct:
      json["type"] = "struct";
      json["fields"] = FieldsJson(type.fields);
      return json;
    case TypeKind::kList:
      json["type"] = "list";
      json["element-id"] = type.fields.at(0).id;
      json["element"] = TypeJson(type.fields.at(0).type);
      json["element-required"] = type.fields.at(0).required;
      return json;
    case TypeKind::kMap:
      json["type"] = "map";
      json["key-id"] = type.fields.at(0).id;
      json["key"] = TypeJson(type.fields.at(0).type);
      json["value-id"] = type.fields.at(1).id;
      json["value"] = TypeJson(type.fields.at(1).type);
      json["value-required"] = type.fields.at(1).required;
      return json;
    default: break;
  }
  for (const TypeName& known : kTypeNames) {
    if (known.kind == type.kind) return std::string(known.name) + type.parameters;
  }
  return "unknown";
}

Result<iceberg::NameMapping> ReadMapping(const Node& node);

Result<std::vector<iceberg::NameMapping>> ReadMappings(const Node& list) {
  LITHIFY_TRY_ASSIGN(const size_t size, list.ArraySize());
  std::vector<iceberg::NameMapping> mappings;
  mappings.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const Node node = list.At(i);
    LITHIFY_TRY_ASSIGN(iceberg::NameMapping mapping, ReadMapping(node));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

Result<iceberg::NameMapping> ReadMapping(const Node& node) {
  iceberg::NameMapping mapping;
  LITHIFY_TRY(node.IsObject());
  LITHIFY_TRY_ASSIGN(mapping.field_id, node.OptionalInt32("field-id"));
  if (const std::optional<Node> names = node.Find("names")) {
    LITHIFY_TRY_ASSIGN(const size_t size, names->ArraySize());
    for (size_t i = 0; i < size; ++i) {
      LITHIFY_TRY_ASSIGN(std::string name, names->At(i).Text());
      mapping.names.push_back(std::move(name));
    }
  }
  if (const std::optional<Node> fields = node.Find("fields")) {
    LITHIFY_TRY_ASSIGN(mapping.fields, ReadMappings(*fields));
  }
  return mapping;
}

}  // namespace

Result<Schema> ReadSchema(const Node& node) {
  Schema schema;
  LITHIFY_TRY(node.IsObject());
  LITHIFY_TRY_ASSIGN(const std::optional<int> id, node.OptionalInt32("schema-id"));
  schema.schema_id = id.value_or(0);
  LITHIFY_TRY_ASSIGN(schema.fields, ReadFields(node));
  std::set<int> ids;
  LITHIFY_TRY(CheckIds(schema.fields, node, ids));
  if (const std::optional<Node> identifiers = node.Find("identifier-field-ids")) {
    LITHIFY_TRY_ASSIGN(const size_t size, identifiers->ArraySize());
    for (size_t i = 0; i < size; ++i) {
      const Node identifier = identifiers->At(i);
      LITHIFY_TRY_ASSIGN(const int field_id, identifier.Int32());
      if (!ids.contains(field_id)) return identifier.Bad("is the id of no field");
      schema.identifier_field_ids.push_back(field_id);
    }
  }
  return schema;
}

Json SchemaJson(const Schema& schema) {
  Json json = Json::object();
  json["type"] = "struct";
  json["schema-id"] = schema.schema_id;
  if (!schema.identifier_field_ids.empty()) {
    json["identifier-field-ids"] = schema.identifier_field_ids;
  }
  json["fields"] = FieldsJson(schema.fields);
  return json;
}

Json PartitionFieldsJson(const iceberg::PartitionSpec& spec) {
  Json list = Json::array();
  for (const iceberg::PartitionField& field : spec.fields) {
    Json json = Json::object();
    json["name"] = field.name;
    json["transform"] = field.transform;
    if (field.source_ids.size() == 1) {
      json["source-id"] = field.source_ids.front();
    } else {
      json["source-ids"] = field.source_ids;
    }
    json["field-id"] = field.field_id;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace iceberg_json

Result<iceberg::Schema> ParseSchemaJson(std::string_view text, std::string_view where) {
  LITHIFY_TRY_ASSIGN(const iceberg_json::Json json, iceberg_json::Parse(text, where));
  Result<iceberg::Schema> schema = iceberg_json::ReadSchema(iceberg_json::Node(json));
  if (!schema) return Fail(std::move(schema.error()).In(where));
  return schema;
}

std::string SchemaToJson(const iceberg::Schema& schema) {
  return iceberg_json::Write(iceberg_json::SchemaJson(schema));
}

std::string PartitionFieldsToJson(const iceberg::PartitionSpec& spec) {
  return iceberg_json::Write(iceberg_json::PartitionFieldsJson(spec));
}

Result<std::vector<iceberg::NameMapping>> ParseNameMapping(std::string_view text) {
  constexpr std::string_view kWhere = "property schema.name-mapping.default";
  LITHIFY_TRY_ASSIGN(const iceberg_json::Json json, iceberg_json::Parse(text, kWhere));
  auto mappings = iceberg_json::ReadMappings(iceberg_json::Node(json));
  if (!mappings) return Fail(std::move(mappings.error()).In(kWhere));
  return mappings;
}

}  // namespace lithify::table
