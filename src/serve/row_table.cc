#include "serve/row_table.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <atomic>
#include <utility>

namespace lithify::serve {
namespace {

constexpr int64_t kBatchRows = 2048;

Error Internal(const std::string& what) { return Error{Code::kInternal, what, "", ""}; }
Error Internal(const arrow::Status& status) { return Internal(status.ToString()); }

std::shared_ptr<arrow::DataType> TypeOf(CellType type) {
  switch (type) {
    case CellType::kBool: return arrow::boolean();
    case CellType::kInt64: return arrow::int64();
    case CellType::kDouble: return arrow::float64();
    case CellType::kText: return arrow::utf8();
    case CellType::kTimestamp: return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  }
  return arrow::null();
}

template <typename T, typename Builder>
Result<std::shared_ptr<arrow::Array>> Column(Builder&& builder, size_t column,
                                             const std::vector<std::vector<Cell>>& rows) {
  for (const auto& row : rows) {
    const Cell& cell = row[column];
    arrow::Status status;
    if (std::holds_alternative<std::monostate>(cell)) {
      status = builder.AppendNull();
    } else if (const T* value = std::get_if<T>(&cell)) {
      if constexpr (std::is_same_v<T, Time>) {
        status = builder.Append(value->time_since_epoch().count());
      } else {
        status = builder.Append(*value);
      }
    } else {
      return Fail(Internal("a cell is not of its column's type"));
    }
    if (!status.ok()) return Fail(Internal(status));
  }
  auto array = builder.Finish();
  if (!array.ok()) return Fail(Internal(array.status()));
  return *std::move(array);
}

Result<std::shared_ptr<arrow::Array>> Column(const RowColumn& of, size_t column,
                                             const std::vector<std::vector<Cell>>& rows) {
  switch (of.type) {
    case CellType::kBool: return Column<bool>(arrow::BooleanBuilder(), column, rows);
    case CellType::kInt64: return Column<int64_t>(arrow::Int64Builder(), column, rows);
    case CellType::kDouble: return Column<double>(arrow::DoubleBuilder(), column, rows);
    case CellType::kText: return Column<std::string>(arrow::StringBuilder(), column, rows);
    case CellType::kTimestamp:
      return Column<Time>(arrow::TimestampBuilder(TypeOf(of.type), arrow::default_memory_pool()),
                          column, rows);
  }
  return Fail(Internal("a column without a type"));
}

class RowStream final : public TableStream {
 public:
  explicit RowStream(std::shared_ptr<arrow::RecordBatch> batch) : batch_(std::move(batch)) {}

  Result<bool> Next(ArrowArray* out) override {
    const int64_t first = next_.fetch_add(kBatchRows);
    if (first >= batch_->num_rows()) return false;
    const auto status = arrow::ExportRecordBatch(*batch_->Slice(first, kBatchRows), out);
    if (!status.ok()) return Fail(Internal(status));
    return true;
  }

 private:
  const std::shared_ptr<arrow::RecordBatch> batch_;
  std::atomic<int64_t> next_{0};
};

class RowTable final : public TableSource {
 public:
  explicit RowTable(std::shared_ptr<arrow::RecordBatch> batch) : batch_(std::move(batch)) {}

  Status GetSchema(ArrowSchema* out) override {
    const auto status = arrow::ExportSchema(*batch_->schema(), out);
    if (!status.ok()) return Fail(Internal(status));
    return {};
  }
  Result<std::unique_ptr<TableStream>> Open(const TableRead& read) override {
    auto columns = batch_->SelectColumns(read.columns);
    if (!columns.ok()) return Fail(Internal(columns.status()));
    return std::make_unique<RowStream>(*std::move(columns));
  }
  std::optional<int64_t> rows() const override { return batch_->num_rows(); }

 private:
  const std::shared_ptr<arrow::RecordBatch> batch_;
};

}  // namespace

Result<std::shared_ptr<TableSource>> MakeRowTable(const std::vector<RowColumn>& columns,
                                                  const std::vector<std::vector<Cell>>& rows) {
  for (const auto& row : rows) {
    if (row.size() != columns.size()) return Fail(Internal("a row with other columns"));
  }
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (size_t i = 0; i < columns.size(); ++i) {
    fields.push_back(arrow::field(columns[i].name, TypeOf(columns[i].type)));
    LITHIFY_TRY_ASSIGN(auto array, Column(columns[i], i, rows));
    arrays.push_back(std::move(array));
  }
  return std::make_shared<RowTable>(arrow::RecordBatch::Make(
      arrow::schema(std::move(fields)), static_cast<int64_t>(rows.size()), std::move(arrays)));
}

}  // namespace lithify::serve
