#include "serve/rows.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <utility>

namespace lithify::serve {
namespace {

std::shared_ptr<arrow::DataType> TypeOf(ColumnType type) {
  switch (type) {
    case ColumnType::kText: return arrow::utf8();
    case ColumnType::kInt: return arrow::int64();
    case ColumnType::kInt32: return arrow::int32();
    case ColumnType::kByte: return arrow::uint8();
    case ColumnType::kDouble: return arrow::float64();
    case ColumnType::kBool: return arrow::boolean();
    // Without a zone: JDBC's driver gives no objects for times with one.
    case ColumnType::kTime: return arrow::timestamp(arrow::TimeUnit::MICRO);
    case ColumnType::kBytes: return arrow::binary();
    case ColumnType::kTexts: return arrow::list(arrow::utf8());
  }
  return arrow::utf8();
}

// std::get_if, or an error for a cell of another type.
template <typename T>
arrow::Result<const T*> As(const Cell& cell) {
  const T* value = std::get_if<T>(&cell);
  if (value == nullptr) return arrow::Status::TypeError("a cell of another type");
  return value;
}

template <typename Builder, typename T>
arrow::Status AppendTo(arrow::ArrayBuilder& builder, const Cell& cell) {
  ARROW_ASSIGN_OR_RAISE(const T* value, As<T>(cell));
  if constexpr (requires { typename Builder::value_type; }) {
    return static_cast<Builder&>(builder).Append(static_cast<Builder::value_type>(*value));
  } else {
    return static_cast<Builder&>(builder).Append(*value);
  }
}

arrow::Status AppendTexts(arrow::ArrayBuilder& builder, const Cell& cell) {
  ARROW_ASSIGN_OR_RAISE(const auto* texts, As<std::vector<std::string>>(cell));
  auto& list = static_cast<arrow::ListBuilder&>(builder);
  ARROW_RETURN_NOT_OK(list.Append());
  auto& items = static_cast<arrow::StringBuilder&>(*list.value_builder());
  for (const std::string& text : *texts) ARROW_RETURN_NOT_OK(items.Append(text));
  return arrow::Status::OK();
}

arrow::Status Append(ColumnType type, arrow::ArrayBuilder& builder, const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return builder.AppendNull();
  switch (type) {
    case ColumnType::kText: return AppendTo<arrow::StringBuilder, std::string>(builder, cell);
    case ColumnType::kBytes: return AppendTo<arrow::BinaryBuilder, std::string>(builder, cell);
    case ColumnType::kInt: return AppendTo<arrow::Int64Builder, int64_t>(builder, cell);
    case ColumnType::kInt32: return AppendTo<arrow::Int32Builder, int64_t>(builder, cell);
    case ColumnType::kByte: return AppendTo<arrow::UInt8Builder, int64_t>(builder, cell);
    case ColumnType::kDouble: return AppendTo<arrow::DoubleBuilder, double>(builder, cell);
    case ColumnType::kBool: return AppendTo<arrow::BooleanBuilder, bool>(builder, cell);
    case ColumnType::kTime: {
      ARROW_ASSIGN_OR_RAISE(const Time* time, As<Time>(cell));
      return static_cast<arrow::TimestampBuilder&>(builder).Append(
          time->time_since_epoch().count());
    }
    case ColumnType::kTexts: return AppendTexts(builder, cell);
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Build(
    const std::shared_ptr<arrow::Schema>& schema, const std::vector<Column>& columns,
    const std::vector<std::vector<Cell>>& rows) {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (size_t i = 0; i < columns.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(auto builder, arrow::MakeBuilder(TypeOf(columns[i].type)));
    for (const auto& row : rows) {
      ARROW_RETURN_NOT_OK(Append(columns[i].type, *builder, row[i]));
    }
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), builder->Finish());
  }
  return arrow::RecordBatch::Make(schema, static_cast<int64_t>(rows.size()), std::move(arrays));
}

}  // namespace

void Rows::Add(std::vector<Cell> row) {
  LITHIFY_CHECK(row.size() == columns_.size(), "a row has as many cells as there are columns");
  rows_.push_back(std::move(row));
}

void Rows::Sort() { std::ranges::stable_sort(rows_); }

std::shared_ptr<arrow::Schema> Rows::schema() const {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  fields.reserve(columns_.size());
  for (const Column& column : columns_) {
    fields.push_back(arrow::field(column.name, TypeOf(column.type), column.nullable));
  }
  return arrow::schema(std::move(fields));
}

Result<std::shared_ptr<arrow::RecordBatch>> Rows::ToBatch() const {
  auto batch = Build(schema(), columns_, rows_);
  if (!batch.ok()) return Fail(Code::kInternal, batch.status().ToString());
  return *std::move(batch);
}

}  // namespace lithify::serve
