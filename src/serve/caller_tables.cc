#include "serve/caller_tables.h"

#include <utility>

#include "serve/executor.h"
#include "serve/iceberg_table.h"
#include "serve/row_table.h"
#include "serve/views.h"

namespace lithify::serve {
Result<std::shared_ptr<TableSource>> CallerTables::FindView(const std::string& view) {
  if (view == "jobs") return MakeRowTable(JobRows(jobs_.List(call_.caller)));
  for (const View& known : Views()) {
    if (view != known.name) continue;
    // Not `this`, which is gone while the statement's later parts are read.
    return MakeRowTable(known.columns,
                        [&known, &access = access_, &call = call_, &cancel = cancel_] {
                          return known.make(access, call, cancel);
                        });
  }
  std::string names = "jobs";
  for (const View& known : Views()) names += ", " + std::string(known.name);
  return Fail(Code::kNotFound, "there is no system." + view + "; there are: " + names);
}

Result<std::shared_ptr<TableSource>> CallerTables::Find(const TableName& name) {
  const bool view = name.parts.size() == 2 && name.parts.front() == kViewSchema;
  asked_.push_back(name.parts);
  return view ? FindView(name.parts.back()) : FindTable(name);
}

Result<std::shared_ptr<TableSource>> CallerTables::FindTable(const TableName& name) {
  LITHIFY_TRY_ASSIGN(const ResolvedTable table, access_.Resolve(name.parts, call_));
  LITHIFY_TRY_ASSIGN(std::shared_ptr<embed::IcebergSession> session,
                     access_.Open(table.catalog, "select", table.ident, call_,
                                  [&cancel = cancel_] { return cancel.requested(); }));
  auto loaded = session->catalog().LoadTable(table.ident);
  if (!loaded) return Fail(std::move(loaded.error()).In(table.ident.ToString()));
  // The session lives as long as somebody reads from its storage.
  std::shared_ptr<storage::Locations> locations(session, &session->locations());
  return MakeIcebergTable(std::move(locations), *std::move(loaded), name.version,
                          access_.config().server.statement_memory_bytes);
}

}  // namespace lithify::serve
