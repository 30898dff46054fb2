// Test-only: Parquet files with Iceberg field ids, and the schemas that go with them.
#ifndef LITHIFY_REWRITE_TABLE_FIXTURE_H_
#define LITHIFY_REWRITE_TABLE_FIXTURE_H_

#include <arrow/util/key_value_metadata.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {

// An Arrow field that is written with a Parquet field id.
inline std::shared_ptr<arrow::Field> IdField(int id, const std::string& name,
                                             const std::shared_ptr<arrow::DataType>& type,
                                             bool nullable = true) {
  return arrow::field(name, type, nullable,
                      arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
}

inline iceberg::Type Primitive(iceberg::TypeKind kind, int length = 0) {
  iceberg::Type type;
  type.kind = kind;
  type.length = length;
  return type;
}

inline iceberg::Type DecimalType(int precision, int scale) {
  iceberg::Type type = Primitive(iceberg::TypeKind::kDecimal);
  type.precision = precision;
  type.scale = scale;
  return type;
}

inline iceberg::Field Column(int id, const std::string& name, iceberg::Type type,
                             bool required = false) {
  iceberg::Field field;
  field.id = id;
  field.name = name;
  field.type = std::move(type);
  field.required = required;
  return field;
}

inline iceberg::Field Column(int id, const std::string& name, iceberg::TypeKind kind,
                             bool required = false) {
  return Column(id, name, Primitive(kind), required);
}

inline iceberg::Type StructType(std::vector<iceberg::Field> fields) {
  iceberg::Type type = Primitive(iceberg::TypeKind::kStruct);
  type.fields = std::move(fields);
  return type;
}

inline iceberg::Type ListType(iceberg::Field element) {
  iceberg::Type type = Primitive(iceberg::TypeKind::kList);
  type.fields = {std::move(element)};
  return type;
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TABLE_FIXTURE_H_
