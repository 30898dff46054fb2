// Test-only: one SELECT on the tables of a SQLite catalog, without a server. The rows go to a file
// as an Arrow stream; an error is one line of text.
//
//   select_tool CATALOG_URI OUT.arrow THREADS SQL
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/config.h"
#include "embed/iceberg_session.h"
#include "serve/iceberg_table.h"
#include "serve/select.h"

namespace lithify {
namespace {

// "sales.t" and "lake.sales.t".
class SqliteTables final : public serve::TableProvider {
 public:
  explicit SqliteTables(std::string uri) : uri_(std::move(uri)) {}

  Result<std::shared_ptr<serve::TableSource>> Find(const serve::TableName& name) override {
    if (name.parts.size() < 2) return nullptr;
    catalog::TableIdent ident{{name.parts[name.parts.size() - 2]}, name.parts.back()};
    config::CatalogConfig catalog;
    catalog.uri = uri_;
    const config::HiveConfig config;
    LITHIFY_TRY_ASSIGN(
        std::shared_ptr<embed::IcebergSession> session,
        embed::IcebergSession::Open(config, catalog, {.procedure = "select", .ident = ident},
                                    embed::ProcessEnvironment()));
    auto table = session->catalog().LoadTable(ident);
    if (!table && table.error().code == Code::kNotFound) return nullptr;
    if (!table) return Fail(std::move(table.error()));
    std::shared_ptr<storage::Locations> locations(session, &session->locations());
    return serve::MakeIcebergTable(std::move(locations), std::move(*table), name.version,
                                   64 * kMiB);
  }

 private:
  const std::string uri_;
};

Error FromArrow(const arrow::Status& status) {
  return Error{Code::kInternal, status.ToString(), "", ""};
}

Status Run(const std::string& uri, const std::string& path, int threads, const std::string& sql) {
  SqliteTables tables(uri);
  serve::SelectLimits limits;
  limits.threads = threads;
  const CancelFlag cancel;
  serve::SelectEngine engine;
  LITHIFY_TRY_ASSIGN(const auto result, engine.Run(sql, nullptr, tables, limits, cancel));
  auto file = arrow::io::FileOutputStream::Open(path);
  if (!file.ok()) return Fail(FromArrow(file.status()));
  auto writer = arrow::ipc::MakeStreamWriter(*file, result->schema());
  if (!writer.ok()) return Fail(FromArrow(writer.status()));
  while (true) {
    LITHIFY_TRY_ASSIGN(const auto batch, result->Next());
    if (batch == nullptr) break;
    if (const auto valid = batch->ValidateFull(); !valid.ok()) return Fail(FromArrow(valid));
    if (const auto status = (*writer)->WriteRecordBatch(*batch); !status.ok()) {
      return Fail(FromArrow(status));
    }
  }
  auto closed = (*writer)->Close();
  if (closed.ok()) closed = (*file)->Close();
  if (!closed.ok()) return Fail(FromArrow(closed));
  return {};
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: select_tool CATALOG_URI OUT.arrow THREADS SQL\n", stderr);
    return 2;
  }
  const auto done = lithify::Run(argv[1], argv[2], std::atoi(argv[3]), argv[4]);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
  return 1;
}
