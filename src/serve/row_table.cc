#include "serve/row_table.h"

#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace lithify::serve {
namespace {

constexpr int64_t kBatchRows = 2048;

std::unexpected<Error> Internal(const arrow::Status& status) {
  return Fail(Code::kInternal, status.ToString());
}

class RowStream final : public TableStream {
 public:
  explicit RowStream(std::shared_ptr<arrow::RecordBatch> batch) : batch_(std::move(batch)) {}

  Result<bool> Next(ArrowArray* out) override {
    const int64_t first = next_.fetch_add(kBatchRows);
    if (first >= batch_->num_rows()) return false;
    const auto status = arrow::ExportRecordBatch(*batch_->Slice(first, kBatchRows), out);
    if (!status.ok()) return Internal(status);
    return true;
  }

 private:
  const std::shared_ptr<arrow::RecordBatch> batch_;
  std::atomic<int64_t> next_{0};
};

class RowTable final : public TableSource {
 public:
  RowTable(std::vector<Column> columns, std::function<Result<Rows>()> make)
      : schema_(Rows(std::move(columns)).schema()), make_(std::move(make)) {}
  explicit RowTable(std::shared_ptr<arrow::RecordBatch> batch)
      : schema_(batch->schema()), batch_(std::move(batch)) {}

  Status GetSchema(ArrowSchema* out) override {
    const auto status = arrow::ExportSchema(*schema_, out);
    if (!status.ok()) return Internal(status);
    return {};
  }

  Result<std::unique_ptr<TableStream>> Open(const TableRead& read) override {
    LITHIFY_TRY_ASSIGN(const auto batch, Batch());
    auto columns = batch->SelectColumns(read.columns);
    if (!columns.ok()) return Internal(columns.status());
    return std::make_unique<RowStream>(*std::move(columns));
  }

  std::optional<int64_t> rows() const override {
    const std::lock_guard lock(mutex_);
    return batch_ ? std::optional(batch_->num_rows()) : std::nullopt;
  }

 private:
  Result<std::shared_ptr<arrow::RecordBatch>> Batch() {
    const std::lock_guard lock(mutex_);
    if (!batch_) {
      LITHIFY_TRY_ASSIGN(const Rows rows, make_());
      LITHIFY_TRY_ASSIGN(batch_, rows.ToBatch());
    }
    return batch_;
  }

  const std::shared_ptr<arrow::Schema> schema_;
  const std::function<Result<Rows>()> make_;
  mutable std::mutex mutex_;
  std::shared_ptr<arrow::RecordBatch> batch_;
};

}  // namespace

Result<std::shared_ptr<TableSource>> MakeRowTable(const Rows& rows) {
  LITHIFY_TRY_ASSIGN(auto batch, rows.ToBatch());
  return std::make_shared<RowTable>(std::move(batch));
}

std::shared_ptr<TableSource> MakeRowTable(std::vector<Column> columns,
                                          std::function<Result<Rows>()> make) {
  return std::make_shared<RowTable>(std::move(columns), std::move(make));
}

}  // namespace lithify::serve
