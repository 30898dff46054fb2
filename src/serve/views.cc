#include "serve/views.h"

#include <algorithm>
#include <string>
#include <utility>

#include "serve/maintenance.h"
#include "serve/procedures.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

using enum ColumnType;

const std::vector<Column> kTableColumns = {
    {"catalog", kText, false}, {"namespace", kText, false}, {"name", kText, false}};

std::vector<Column> After(std::vector<Column> before, const std::vector<Column>& more) {
  before.insert(before.end(), more.begin(), more.end());
  return before;
}

std::vector<Cell> NameCells(const ResolvedTable& table) {
  return {table.catalog, catalog::NamespaceName(table.ident.namespace_parts), table.ident.name};
}

// `add` for each table of all catalogs, as the caller.
template <typename AddTable>
Result<Rows> ForEachTable(std::vector<Column> columns, const TableAccess& access,
                          const CallContext& call, const CancelFlag& cancel, AddTable add) {
  Rows rows(std::move(columns));
  for (const std::string& catalog : access.catalogs()) {
    LITHIFY_TRY_ASSIGN(const auto tables, ListTables(access, catalog, call, cancel));
    for (const ResolvedTable& table : tables) {
      LITHIFY_TRY(cancel.Check());
      const Status added = add(table, rows);
      if (added) continue;
      const Code code = added.error().code;
      const bool hidden = code == Code::kNotFound || code == Code::kDenied;
      if (!hidden || call.token->refused()) return Fail(added.error());
    }
  }
  return rows;
}

// A table loaded as the caller, with the session that it came from.
Result<std::unique_ptr<embed::IcebergSession>> Open(const ResolvedTable& table,
                                                    const TableAccess& access,
                                                    const CallContext& call,
                                                    const std::string& what,
                                                    const CancelFlag& cancel) {
  return access.Open(table.catalog, what, table.ident, call,
                     [&cancel] { return cancel.requested(); });
}

Result<Rows> Tables(const TableAccess& access, const CallContext& call, const CancelFlag& cancel) {
  return ForEachTable(kTableColumns, access, call, cancel,
                      [](const ResolvedTable& table, Rows& rows) -> Status {
                        rows.Add(NameCells(table));
                        return {};
                      });
}

Result<Rows> Health(const TableAccess& access, const CallContext& call, const CancelFlag& cancel) {
  const auto add = [&](const ResolvedTable& table, Rows& rows) -> Status {
    LITHIFY_TRY_ASSIGN(const auto session, Open(table, access, call, "table_health", cancel));
    const auto progress = observe::MakeSilentProgress();
    auto job = session->MakeJob(*progress, call.caller.name);
    plan::RewriteOptions options;
    options.target_file_size_bytes = 0;  // The table's own.
    LITHIFY_TRY_ASSIGN(const auto health, job.GetTableHealth(table.ident, options));
    std::vector<Cell> row = NameCells(table);
    for (Cell& cell : HealthCells(health)) row.push_back(std::move(cell));
    rows.Add(std::move(row));
    return {};
  };
  return ForEachTable(After(kTableColumns, HealthColumns()), access, call, cancel, add);
}

Result<Rows> Snapshots(const TableAccess& access, const CallContext& call,
                       const CancelFlag& cancel) {
  const auto add = [&](const ResolvedTable& table, Rows& rows) -> Status {
    LITHIFY_TRY_ASSIGN(const auto session, Open(table, access, call, "show_snapshots", cancel));
    LITHIFY_TRY_ASSIGN(const auto loaded, session->catalog().LoadTable(table.ident));
    AddSnapshots(loaded.metadata, NameCells(table), rows);
    return {};
  };
  return ForEachTable(After(kTableColumns, SnapshotColumns()), access, call, cancel, add);
}

}  // namespace

std::span<const View> Views() {
  static const std::vector<View> views = {
      {"maintenance_plan", MaintenancePlanColumns(), PlanMaintenance},
      {"snapshots", After(kTableColumns, SnapshotColumns()), Snapshots},
      {"table_health", After(kTableColumns, HealthColumns()), Health},
      {"tables", kTableColumns, Tables},
  };
  return views;
}

}  // namespace lithify::serve
