#include "arrow_text.h"

#include <arrow/array.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <cmath>

namespace lithify::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string ScalarText(const arrow::Array& column, int64_t row) {
  const auto scalar = column.GetScalar(row);
  return scalar.ok() ? (*scalar)->ToString() : scalar.status().ToString();
}

Json ListJson(const arrow::Array& values, int64_t begin, int64_t end) {
  Json out = Json::array();
  for (int64_t i = begin; i < end; ++i) out.push_back(CellJson(values, i));
  return out;
}

template <typename Numbers>
Json NumberJson(const arrow::Array& column, int64_t row) {
  const auto value = static_cast<const Numbers&>(column).Value(row);
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    if (!std::isfinite(value)) return nullptr;
  }
  return value;
}

}  // namespace

std::string CellText(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return "NULL";
  switch (column.type_id()) {
    case arrow::Type::STRING:
      return std::string(static_cast<const arrow::StringArray&>(column).GetView(row));
    case arrow::Type::LIST:
    case arrow::Type::STRUCT:
    case arrow::Type::MAP:
      return CellJson(column, row).dump(-1, ' ', false, Json::error_handler_t::replace);
    default: return ScalarText(column, row);
  }
}

Json CellJson(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return nullptr;
  switch (column.type_id()) {
    case arrow::Type::BOOL: return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::INT8: return NumberJson<arrow::Int8Array>(column, row);
    case arrow::Type::INT16: return NumberJson<arrow::Int16Array>(column, row);
    case arrow::Type::INT32: return NumberJson<arrow::Int32Array>(column, row);
    case arrow::Type::INT64: return NumberJson<arrow::Int64Array>(column, row);
    case arrow::Type::UINT8: return NumberJson<arrow::UInt8Array>(column, row);
    case arrow::Type::UINT16: return NumberJson<arrow::UInt16Array>(column, row);
    case arrow::Type::UINT32: return NumberJson<arrow::UInt32Array>(column, row);
    case arrow::Type::UINT64: return NumberJson<arrow::UInt64Array>(column, row);
    case arrow::Type::FLOAT: return NumberJson<arrow::FloatArray>(column, row);
    case arrow::Type::DOUBLE: return NumberJson<arrow::DoubleArray>(column, row);
    case arrow::Type::STRING: return static_cast<const arrow::StringArray&>(column).GetString(row);
    case arrow::Type::MAP:
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(column);
      return ListJson(*list.values(), list.value_offset(row), list.value_offset(row + 1));
    }
    case arrow::Type::STRUCT: {
      const auto& fields = static_cast<const arrow::StructArray&>(column);
      Json out = Json::object();
      for (int i = 0; i < fields.num_fields(); ++i) {
        out[fields.type()->field(i)->name()] = CellJson(*fields.field(i), row);
      }
      return out;
    }
    default: return ScalarText(column, row);
  }
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace lithify::cli
