#include "serve/select_parameters.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>

#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/text.h"

namespace lithify::serve {
namespace {

// Microseconds; false: more than fit.
bool ToMicros(int64_t value, arrow::TimeUnit::type unit, int64_t* micros) {
  switch (unit) {
    case arrow::TimeUnit::SECOND: return !__builtin_mul_overflow(value, 1'000'000, micros);
    case arrow::TimeUnit::MILLI: return !__builtin_mul_overflow(value, 1'000, micros);
    case arrow::TimeUnit::MICRO: *micros = value; return true;
    // What is finer would be lost.
    case arrow::TimeUnit::NANO: *micros = value / 1'000; return value % 1'000 == 0;
  }
  return false;
}

template <typename ArrayType>
auto ValueOf(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array).Value(0);
}

template <typename ArrayType>
duckdb_state BindBytes(duckdb_prepared_statement statement, idx_t i, const arrow::Array& array,
                       bool text) {
  const auto bytes = static_cast<const ArrayType&>(array).GetView(0);
  return text ? duckdb_bind_varchar_length(statement, i, bytes.data(), bytes.size())
              : duckdb_bind_blob(statement, i, bytes.data(), bytes.size());
}

duckdb_state BindTimestamp(duckdb_prepared_statement statement, idx_t i,
                           const arrow::Array& array) {
  const auto& type = static_cast<const arrow::TimestampType&>(*array.type());
  duckdb_timestamp value = {};
  if (!ToMicros(ValueOf<arrow::TimestampArray>(array), type.unit(), &value.micros)) {
    return DuckDBError;
  }
  return type.timezone().empty() ? duckdb_bind_timestamp(statement, i, value)
                                 : duckdb_bind_timestamp_tz(statement, i, value);
}

duckdb_state BindDecimal(duckdb_prepared_statement statement, idx_t i, const arrow::Array& array) {
  const auto& type = static_cast<const arrow::Decimal128Type&>(*array.type());
  const arrow::Decimal128 value(static_cast<const arrow::Decimal128Array&>(array).GetValue(0));
  duckdb_decimal decimal = {};
  decimal.width = static_cast<uint8_t>(type.precision());
  decimal.scale = static_cast<uint8_t>(type.scale());
  decimal.value.lower = value.low_bits();
  decimal.value.upper = value.high_bits();
  return duckdb_bind_decimal(statement, i, decimal);
}

duckdb_state BindOne(duckdb_prepared_statement statement, idx_t i, const arrow::Array& array) {
  if (array.IsNull(0)) return duckdb_bind_null(statement, i);
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return duckdb_bind_boolean(statement, i, ValueOf<arrow::BooleanArray>(array));
    case arrow::Type::INT8: return duckdb_bind_int8(statement, i, ValueOf<arrow::Int8Array>(array));
    case arrow::Type::INT16:
      return duckdb_bind_int16(statement, i, ValueOf<arrow::Int16Array>(array));
    case arrow::Type::INT32:
      return duckdb_bind_int32(statement, i, ValueOf<arrow::Int32Array>(array));
    case arrow::Type::INT64:
      return duckdb_bind_int64(statement, i, ValueOf<arrow::Int64Array>(array));
    case arrow::Type::UINT8:
      return duckdb_bind_uint8(statement, i, ValueOf<arrow::UInt8Array>(array));
    case arrow::Type::UINT16:
      return duckdb_bind_uint16(statement, i, ValueOf<arrow::UInt16Array>(array));
    case arrow::Type::UINT32:
      return duckdb_bind_uint32(statement, i, ValueOf<arrow::UInt32Array>(array));
    case arrow::Type::UINT64:
      return duckdb_bind_uint64(statement, i, ValueOf<arrow::UInt64Array>(array));
    case arrow::Type::FLOAT:
      return duckdb_bind_float(statement, i, ValueOf<arrow::FloatArray>(array));
    case arrow::Type::DOUBLE:
      return duckdb_bind_double(statement, i, ValueOf<arrow::DoubleArray>(array));
    case arrow::Type::STRING: return BindBytes<arrow::StringArray>(statement, i, array, true);
    case arrow::Type::LARGE_STRING:
      return BindBytes<arrow::LargeStringArray>(statement, i, array, true);
    case arrow::Type::BINARY: return BindBytes<arrow::BinaryArray>(statement, i, array, false);
    case arrow::Type::LARGE_BINARY:
      return BindBytes<arrow::LargeBinaryArray>(statement, i, array, false);
    case arrow::Type::DATE32:
      return duckdb_bind_date(statement, i, {ValueOf<arrow::Date32Array>(array)});
    case arrow::Type::TIME64: {
      const auto& type = static_cast<const arrow::Time64Type&>(*array.type());
      duckdb_time time = {};
      if (!ToMicros(ValueOf<arrow::Time64Array>(array), type.unit(), &time.micros)) {
        return DuckDBError;
      }
      return duckdb_bind_time(statement, i, time);
    }
    case arrow::Type::TIMESTAMP: return BindTimestamp(statement, i, array);
    case arrow::Type::DECIMAL128: return BindDecimal(statement, i, array);
    default: return DuckDBError;
  }
}

ParameterValue ValueOfOne(const arrow::Array& array) {
  if (array.IsNull(0)) return {};
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return {"BOOLEAN", ValueOf<arrow::BooleanArray>(array) ? "true" : "false"};
    case arrow::Type::INT8: return {"BIGINT", std::to_string(ValueOf<arrow::Int8Array>(array))};
    case arrow::Type::INT16: return {"BIGINT", std::to_string(ValueOf<arrow::Int16Array>(array))};
    case arrow::Type::INT32: return {"BIGINT", std::to_string(ValueOf<arrow::Int32Array>(array))};
    case arrow::Type::INT64: return {"BIGINT", std::to_string(ValueOf<arrow::Int64Array>(array))};
    case arrow::Type::STRING:
      return {"VARCHAR", static_cast<const arrow::StringArray&>(array).GetString(0)};
    case arrow::Type::DATE32: {
      const std::chrono::sys_days day{std::chrono::days(ValueOf<arrow::Date32Array>(array))};
      const std::string text = FormatTime(std::chrono::time_point_cast<Duration>(day));
      return {"DATE", text.substr(0, 10)};
    }
    case arrow::Type::TIMESTAMP: {
      const auto& type = static_cast<const arrow::TimestampType&>(*array.type());
      int64_t micros = 0;
      // As with literals, a zone's column is compared with what has no zone as with UTC.
      if (!type.timezone().empty() ||
          !ToMicros(ValueOf<arrow::TimestampArray>(array), type.unit(), &micros)) {
        return {};
      }
      const std::string text = FormatTime(Time(Duration(micros)));
      return {"TIMESTAMP", text.substr(0, text.find('Z'))};
    }
    default: return {};
  }
}

}  // namespace

std::vector<ParameterValue> ParameterValues(const std::shared_ptr<arrow::RecordBatch>& parameters) {
  std::vector<ParameterValue> values;
  if (parameters == nullptr || parameters->num_rows() != 1) return values;
  for (const auto& column : parameters->columns()) values.push_back(ValueOfOne(*column));
  return values;
}

Status BindParameters(duckdb_prepared_statement statement,
                      const std::shared_ptr<arrow::RecordBatch>& parameters) {
  const auto wanted = static_cast<int64_t>(duckdb_nparams(statement));
  const int64_t given = parameters == nullptr ? 0 : parameters->num_columns();
  if (given != wanted) {
    return Fail(Code::kInvalid, "the statement has " + std::to_string(wanted) +
                                    " parameters, and " + std::to_string(given) + " are given");
  }
  if (wanted == 0) return {};
  if (parameters->num_rows() != 1) {
    return Fail(Code::kInvalid,
                "the parameters are " + std::to_string(parameters->num_rows()) + " rows, not one",
                "", "run it once for each of them");
  }
  for (int i = 0; i < parameters->num_columns(); ++i) {
    const arrow::Array& array = *parameters->column(i);
    if (BindOne(statement, static_cast<idx_t>(i) + 1, array) != DuckDBSuccess) {
      return Fail(Code::kInvalid,
                  "the value of type " + array.type()->ToString() + " cannot be a parameter",
                  "parameter " + std::to_string(i + 1), "CAST it before");
    }
  }
  return {};
}

}  // namespace lithify::serve
