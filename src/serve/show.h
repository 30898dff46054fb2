// SHOW, DESCRIBE and ALTER TABLE … TBLPROPERTIES, and what clients ask of catalogs, schemas and
// tables, as the caller. All as rows; docs/SQL.md has the columns.
//
// A namespace that the caller may not look into counts as empty; that the catalog does not take the
// token at all is an error of every function (kDenied).
//
// Thread safety: free functions.
#ifndef LITHIFY_SERVE_SHOW_H_
#define LITHIFY_SERVE_SHOW_H_

#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "flightsql/messages.h"
#include "serve/rows.h"
#include "serve/table_access.h"
#include "sql/statement.h"

namespace lithify::serve {

// The columns of a SHOW, DESCRIBE or ALTER statement's result; empty for all other statements.
std::vector<Column> ShowColumns(const sql::Statement& statement);

Result<Rows> RunShow(const sql::Statement& statement, const TableAccess& access,
                     const CallContext& call, const CancelFlag& cancel);

// "lake" or "lake.sales" as a catalog and a namespace; a first part that is no catalog belongs to
// the namespace.
struct Scope {
  std::string catalog;
  std::vector<std::string> parts;
};
Result<Scope> ReadScope(const std::vector<std::string>& written, const TableAccess& access,
                        const CallContext& call);

// All tables of a catalog that the caller may list, by namespace and name.
Result<std::vector<ResolvedTable>> ListTables(const TableAccess& access, const std::string& catalog,
                                              const CallContext& call, const CancelFlag& cancel);
// Of SHOW SNAPSHOTS.
const std::vector<Column>& SnapshotColumns();
void AddSnapshots(const iceberg::TableMetadata& table, const std::vector<Cell>& before, Rows& rows);

// "decimal(9, 2)", "list<string>", "struct<a: int, b: string>" [Iceberg's names of types].
std::string TypeText(const iceberg::Type& type);

// --- Flight SQL's own questions [format/FlightSql.proto] ----------------------------------------

// Serialised Arrow schema of a table.
using TableSchema = std::function<Result<std::string>(const iceberg::Schema&)>;

std::vector<Column> AnswerColumns(const flightsql::Command& question);
// Of GetCatalogs, GetDbSchemas, GetTables, GetTableTypes and GetKeys.
Result<Rows> AnswerQuestion(const flightsql::Command& question, const TableAccess& access,
                            const CallContext& call, const TableSchema& table_schema,
                            const CancelFlag& cancel);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SHOW_H_
