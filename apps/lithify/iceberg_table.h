// What the commands on Iceberg tables share: how a table and its catalog are named, the opened
// session, results as JSON.
#ifndef LITHIFY_APPS_LITHIFY_ICEBERG_TABLE_H_
#define LITHIFY_APPS_LITHIFY_ICEBERG_TABLE_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "embed/iceberg_session.h"
#include "job/iceberg_job.h"
#include "session.h"
#include "workers/open_fleet.h"

namespace lithify::cli {

struct TableOptions {
  CommonOptions common;
  std::string table = {};  // "lake.sales.orders".
  std::string catalog_uri = {};
  std::string warehouse = {};
};

void AddTable(CLI::App& command, TableOptions& options);
// --jobs, --memory, --verify.
void AddLimits(CLI::App& command, TableOptions& options);

struct OpenedTable {
  std::unique_ptr<apps::OpenedFleet> workers = {};  // Null: none are configured, or needed.
  std::unique_ptr<embed::IcebergSession> session;
  catalog::TableIdent ident;
};
// kInvalid for wrong names and configurations; what opening the catalog gives. A catalog that
// refuses `procedure` is in the audit log.
Result<OpenedTable> OpenTable(const TableOptions& options, const std::string& procedure);

// The exit code for a procedure that failed: 2 wrong usage, 130 stopped, else 1.
int TableExit(const Error& error);
// The table as results name it, without its catalog; as it was given if that is no name.
std::string TableInReports(const TableOptions& options);
// Prints the error, as a JSON document too if that was asked for, and gives the exit code.
int ReportTable(const TableOptions& options, const std::string& procedure, const Error& error);

// RFC 3339, or "now", or an age: "5d", "12h" (before `now`).
Result<Time> ParseTimeOrAge(const std::string& text, Time now);
// "512MiB" or a number of bytes, for CLI11.
Result<int64_t> ParseSize(const std::string& text, const std::string& flag);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_ICEBERG_TABLE_H_
