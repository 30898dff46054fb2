#include "serve/audit_resources.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "serve/caller_tables.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

class Collector {
 public:
  Collector(const TableAccess& access, const CallContext& call) : access_(access), call_(call) {}

  void operator()(const sql::Query&) {}  // Its names come from DuckDB's parser.
  void operator()(const sql::Call& call) { AddCall(call); }
  void operator()(const sql::ExplainCall& explain) { AddCall(explain.call); }
  void operator()(const sql::SetProperties& alter) { AddTable(alter.table.parts, call_); }
  void operator()(const sql::UnsetProperties& alter) { AddTable(alter.table.parts, call_); }
  void operator()(const sql::ShowProperties& show) { AddTable(show.table.parts, call_); }
  void operator()(const sql::ShowSnapshots& show) { AddTable(show.table.parts, call_); }
  void operator()(const sql::Describe& describe) { AddTable(describe.table.parts, call_); }
  void operator()(const sql::ShowTables& show) { AddNamespace(show.namespace_parts); }
  void operator()(const sql::ShowNamespaces& show) { AddNamespace(show.parent); }
  void operator()(const sql::ShowJobs&) {}
  void operator()(const sql::CancelJob& cancel) { Add({.name = cancel.id, .object_type = "job"}); }

  // Of a query.
  void AddRead(const std::vector<std::string>& parts) {
    if (parts.size() == 2 && parts.front() == kViewSchema) {
      Add({.namespace_parts = {parts.front()}, .name = parts.back(), .object_type = "view"});
    } else {
      AddTable(parts, call_);
    }
  }

  std::vector<observe::AuditResource> Take() { return std::move(found_); }

 private:
  // One table may be read at several versions.
  void Add(observe::AuditResource one) {
    if (std::ranges::find(found_, one) == found_.end()) found_.push_back(std::move(one));
  }

  void AddTable(const std::vector<std::string>& parts, const CallContext& at) {
    auto table = access_.Resolve(parts, at);
    if (!table) return;
    Add({.catalog = std::move(table->catalog),
         .namespace_parts = std::move(table->ident.namespace_parts),
         .name = std::move(table->ident.name),
         .object_type = "table"});
  }

  void AddNamespace(const std::vector<std::string>& written) {
    auto scope = ReadScope(written, access_, call_);
    if (!scope) return;
    Add({.catalog = std::move(scope->catalog),
         .namespace_parts = std::move(scope->parts),
         .object_type = "namespace"});
  }

  // Also where it has arguments that it should not have.
  void AddCall(const sql::Call& call) {
    CallContext at = call_;
    if (!call.catalog.empty()) at.catalog = call.catalog;
    for (const sql::Argument& argument : call.arguments) {
      const auto* text = std::get_if<std::string>(&argument.value.value);
      if (argument.name != "table" || text == nullptr) continue;
      if (const auto name = sql::ParseTableName(*text)) AddTable(name->parts, at);
    }
  }

  const TableAccess& access_;
  const CallContext& call_;
  std::vector<observe::AuditResource> found_;
};

}  // namespace

std::vector<observe::AuditResource> ResourcesOf(const PlannedStatement& planned,
                                                const TableAccess& access,
                                                const CallContext& call) {
  Collector collector(access, call);
  std::visit(collector, planned.statement);
  for (const auto& parts : planned.tables) collector.AddRead(parts);
  return collector.Take();
}

std::vector<observe::AuditResource> ResourcesOf(const flightsql::Command& question,
                                                const TableAccess& access) {
  std::optional<std::string> catalog;
  std::optional<std::string> pattern;
  if (const auto* schemas = std::get_if<flightsql::GetDbSchemas>(&question)) {
    catalog = schemas->catalog;
    pattern = schemas->schema_pattern;
  } else if (const auto* tables = std::get_if<flightsql::GetTables>(&question)) {
    catalog = tables->catalog;
    pattern = tables->schema_pattern;
  }
  std::vector<observe::AuditResource> found;
  for (const std::string& name : access.catalogs()) {
    if (catalog && *catalog != name) continue;
    observe::AuditResource one{.catalog = name, .object_type = "namespace"};
    if (pattern) one.namespace_parts = {*pattern};
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace lithify::serve
