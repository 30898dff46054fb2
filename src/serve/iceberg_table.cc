#include "serve/iceberg_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "job/iceberg_scan.h"
#include "rewrite/table_batches.h"

namespace lithify::serve {
namespace {

class ScanStream final : public TableStream {
 public:
  explicit ScanStream(std::unique_ptr<job::IcebergScan> scan) : scan_(std::move(scan)) {}
  Result<bool> Next(ArrowArray* out) override { return scan_->Next(out); }

 private:
  const std::unique_ptr<job::IcebergScan> scan_;
};

class IcebergTable final : public TableSource {
 public:
  IcebergTable(std::shared_ptr<storage::Locations> locations, catalog::LoadedTable table,
               int64_t memory_bytes)
      : locations_(std::move(locations)), table_(std::move(table)), memory_bytes_(memory_bytes) {}

  Status Open(std::string_view version) {
    LITHIFY_TRY_ASSIGN(version_, job::FindVersion(table_.metadata, version));
    columns_ = job::ScanColumns(*version_.schema);
    if (columns_.empty()) {
      return Fail(Code::kUnsupported, "the table has no column that can be read here");
    }
    return {};
  }

  Status GetSchema(ArrowSchema* out) override { return rewrite::ExportTableSchema(columns_, out); }

  Result<std::unique_ptr<TableStream>> Open(const TableRead& read) override {
    job::ScanRequest request;
    for (const int column : read.columns) {
      request.field_ids.push_back(columns_[static_cast<size_t>(column)].id);
    }
    request.where = read.filter;
    request.threads = read.threads;
    request.memory_bytes = memory_bytes_;
    request.cancel = read.cancel;
    auto scan = job::OpenScan(*locations_, table_.metadata, version_, request);
    if (!scan) return Fail(std::move(scan.error()).In(table_.ident.ToString()));
    return std::make_unique<ScanStream>(std::move(*scan));
  }

  Result<std::optional<TablePlan>> Plan(const TableRead& read) override {
    job::ScanRequest request;
    request.where = read.filter;
    request.threads = read.threads;
    request.cancel = read.cancel;
    auto plan = job::PlanScan(*locations_, table_.metadata, version_, request);
    if (!plan) return Fail(std::move(plan.error()).In(table_.ident.ToString()));
    TablePlan out{.snapshot_id = {},
                  .files_live = plan->files_live,
                  .files = plan->files,
                  .bytes = plan->bytes,
                  .records = plan->records,
                  .delete_files = plan->delete_files};
    if (version_.snapshot != nullptr) out.snapshot_id = version_.snapshot->snapshot_id;
    return out;
  }

  std::optional<int64_t> rows() const override {
    if (version_.snapshot == nullptr) return 0;
    const auto total = version_.snapshot->summary.find("total-records");
    if (total == version_.snapshot->summary.end()) return std::nullopt;
    return std::strtoll(total->second.c_str(), nullptr, 10);
  }

 private:
  const std::shared_ptr<storage::Locations> locations_;
  const catalog::LoadedTable table_;
  const int64_t memory_bytes_;
  job::ScanVersion version_;
  std::vector<iceberg::Field> columns_;
};

}  // namespace

Result<std::shared_ptr<TableSource>> MakeIcebergTable(std::shared_ptr<storage::Locations> locations,
                                                      catalog::LoadedTable table,
                                                      std::string_view version,
                                                      int64_t memory_bytes) {
  const std::string name = table.ident.ToString();
  auto out = std::make_shared<IcebergTable>(std::move(locations), std::move(table), memory_bytes);
  if (auto opened = out->Open(version); !opened) return Fail(std::move(opened.error()).In(name));
  return out;
}

}  // namespace lithify::serve
