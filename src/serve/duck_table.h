// A table use of a statement as a table function of DuckDB: lithify_scan(number of the use).
// Private to this module.
#ifndef LITHIFY_SERVE_DUCK_TABLE_H_
#define LITHIFY_SERVE_DUCK_TABLE_H_

#include <arrow/type_fwd.h>
#include <duckdb.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "serve/duck.h"
#include "serve/select.h"
#include "serve/select_statement.h"

namespace lithify::serve {

struct DuckTable {
  std::shared_ptr<TableSource> source;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<UsedColumn> columns;
  std::string filter;
};

// Reads the source's schema.
Result<DuckTable> MakeDuckTable(std::shared_ptr<TableSource> source);

// The function that reads the tables which `duck` has at the time; once for each. `duck` outlives
// its database. `suffix`: of the function's name, where there must be several to tell them apart.
Status RegisterScan(duckdb_connection connection, Duck& duck, const std::string& suffix = {});
// Of table `table`, where each has a function of its own.
std::string ScanName(size_t table);

// The tables of one statement, and what went wrong with one of them. Outlives what runs on the
// database.
class DuckTables {
 public:
  // `second` is a connection that no statement runs on.
  DuckTables(std::vector<DuckTable> tables, int threads, duckdb_connection second);

  // Makes a view "lithify_N" for each table, in a DuckDB whose tables they are. `apart`: each by
  // the function of its own.
  Status MakeViews(duckdb_connection connection, bool apart = false);
  // One for each table; before any is opened.
  void SetFilters(std::vector<std::string> filters);
  // What the statement's streams look at.
  CancelFlag& stopped() { return stopped_; }
  static std::string ViewName(size_t table);
  // Not a column of a table, though plans may name it.
  static bool IsNoColumn(std::string_view name);

  const std::vector<DuckTable>& tables() const { return tables_; }
  int threads() const { return threads_; }
  duckdb_connection second() const { return second_; }
  // The first error that is noted stays.
  void Note(Error error);
  std::optional<Error> error() const;

 private:
  std::vector<DuckTable> tables_;
  const int threads_;
  const duckdb_connection second_;
  CancelFlag stopped_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_DUCK_TABLE_H_
