#include "iceberg_table.h"

#include <cstdio>
#include <utility>

#include "base/text.h"

namespace lithify::cli {

void AddTable(CLI::App& command, TableOptions& options) {
  command.add_option("TABLE", options.table, "CATALOG.NAMESPACE.TABLE, like lake.sales.orders")
      ->required();
  command.add_option("--catalog-uri", options.catalog_uri,
                     "sqlite:///path/to/catalog.db, or a REST catalog's http(s)://host/…; default: "
                     "[catalogs.CATALOG] of the configuration");
  command.add_option("--warehouse", options.warehouse, "Warehouse of a REST catalog");
  AddConfigOptions(command, options.common);
  AddJson(command, options.common);
  AddProgressOptions(command, options.common);
  AddOverride(command, options.common, "--audit-log", "audit_log.path",
              "Where the audit log is (default: beside a SQLite catalog)");
}

void AddLimits(CLI::App& command, TableOptions& options) {
  AddOverride(command, options.common, "--jobs", "limits.jobs", "Threads; 0: all cores");
  AddOverride(command, options.common, "--memory", "limits.memory", "Memory bound, like 1GiB");
  AddOverride(command, options.common, "--verify", "compaction.verify",
              "full, sample or counts: how outputs are checked");
}

Result<OpenedTable> OpenTable(const TableOptions& options, const std::string& procedure) {
  LITHIFY_TRY_ASSIGN(const auto name, embed::ParseTableName(options.table));
  LITHIFY_TRY_ASSIGN(const auto config, LoadConfig(options.common));
  LITHIFY_TRY_ASSIGN(auto chosen, embed::ChooseCatalog(config, name.catalog, options.catalog_uri,
                                                       options.warehouse));
  std::unique_ptr<apps::OpenedFleet> workers;
  if (procedure == "rewrite_data_files") {
    LITHIFY_TRY_ASSIGN(workers, apps::OpenFleet(config.fleet, [](const std::string& line) {
                         std::fprintf(stderr, "workers: %s\n", line.c_str());
                       }));
  }
  LITHIFY_TRY_ASSIGN(auto session,
                     embed::IcebergSession::Open(
                         config, chosen,
                         {.procedure = procedure,
                          .ident = name.ident,
                          .stop = [&cancel = CatchSignals()] { return cancel.requested(); },
                          .fleet = workers ? &workers->fleet() : nullptr,
                          .telemetry = ProcessTelemetry().telemetry(),
                          .on_audit_error = PrintUnrecorded},
                         embed::ProcessEnvironment()));
  if (config.low_priority) embed::LowerThreadPriority();
  return OpenedTable{
      .workers = std::move(workers), .session = std::move(session), .ident = name.ident};
}

int TableExit(const Error& error) {
  switch (error.code) {
    case Code::kInvalid: return kUsage;
    case Code::kCancelled: return kStopped;
    default: return kFailed;
  }
}

std::string TableInReports(const TableOptions& options) {
  const auto name = embed::ParseTableName(options.table);
  return name ? name->ident.ToString() : options.table;
}

int ReportTable(const TableOptions& options, const std::string& procedure, const Error& error) {
  PrintError(error);
  if (options.common.json) {
    PrintJson({{"procedure", procedure},
               {"table", TableInReports(options)},
               {"status", "failed"},
               {"reason", error.ToString()},
               {"error", ToJson(error)}});
  }
  return TableExit(error);
}

Result<Time> ParseTimeOrAge(const std::string& text, Time now) {
  if (text == "now") return now;
  if (auto age = ParseDuration(text)) return now - *age;
  return ParseTime(text);
}

Result<int64_t> ParseSize(const std::string& text, const std::string& flag) {
  auto size = ParseBytes(text);
  if (!size) return Fail(std::move(size.error()).In(flag));
  return size;
}

}  // namespace lithify::cli
