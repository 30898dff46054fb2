#include "catalog/memory_catalog.h"

#include <utility>

#include "catalog/metadata_file.h"
#include "catalog/namespace_tree.h"

namespace lithify::catalog {
namespace {

void Run(const std::function<void(const TableIdent&)>& hook, const TableIdent& ident) {
  if (hook) hook(ident);
}

std::set<NamespacePath> Namespaces(const std::map<TableIdent, LoadedTable>& tables) {
  std::set<NamespacePath> all;
  for (const auto& [ident, table] : tables) all.insert(ident.namespace_parts);
  return all;
}

}  // namespace

Result<std::vector<std::vector<std::string>>> MemoryCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  const std::lock_guard lock(mutex_);
  return ChildNamespaces(Namespaces(tables_), parent);
}

Result<std::vector<TableIdent>> MemoryCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  const std::lock_guard lock(mutex_);
  if (!NamespaceExists(Namespaces(tables_), namespace_parts)) {
    return NoSuchNamespace(namespace_parts);
  }
  std::vector<TableIdent> idents;
  for (const auto& [ident, table] : tables_) {
    if (ident.namespace_parts == namespace_parts) idents.push_back(ident);
  }
  return idents;
}

Result<LoadedTable> MemoryCatalog::Find(const TableIdent& ident) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(ident);
  if (found == tables_.end()) {
    return Fail(Code::kNotFound, "there is no such table in memory:", ident.ToString());
  }
  return found->second;
}

Result<LoadedTable> MemoryCatalog::LoadTable(const TableIdent& ident) {
  Run(hooks_.before_load, ident);
  return Find(ident);
}

Result<LoadedTable> MemoryCatalog::Apply(const TableIdent& ident,
                                         std::span<const table::TableRequirement> requirements,
                                         std::span<const table::TableUpdate> updates) {
  for (;;) {
    LITHIFY_TRY_ASSIGN(const LoadedTable current, Find(ident));
    LITHIFY_TRY_ASSIGN(LoadedTable next,
                       StageCommit(locations_, clock_, random_, current, requirements, updates));
    Run(hooks_.before_swap, ident);
    {
      const std::lock_guard lock(mutex_);
      LoadedTable& held = tables_.at(ident);
      if (held.metadata_location == current.metadata_location) {
        held = next;
        return next;
      }
    }
    Unstage(locations_, next.metadata_location);
  }
}

Result<LoadedTable> MemoryCatalog::CommitTable(
    const TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  const Fault fault = hooks_.fault ? hooks_.fault(ident) : Fault::kNone;
  const std::string name = ident.ToString();
  switch (fault) {
    case Fault::kConflict: return Fail(Code::kConflict, "the catalog was told to conflict", name);
    case Fault::kDenied: return Fail(Code::kDenied, "the catalog was told to deny", name);
    case Fault::kLostBeforeApply:
      return Fail(Code::kUnknownOutcome, "the catalog's reply was lost", name);
    default: break;
  }
  Run(hooks_.before_apply, ident);
  Result<LoadedTable> applied = Apply(ident, requirements, updates);
  Run(hooks_.before_answer, ident);
  if (fault == Fault::kLostAfterApply) {
    return Fail(Code::kUnknownOutcome, "the catalog's reply was lost", name);
  }
  return applied;
}

Status MemoryCatalog::CreateTable(const TableIdent& ident, std::string_view metadata_text) {
  if (Find(ident)) return Fail(Code::kInvalid, "the table exists already", ident.ToString());
  LoadedTable table;
  table.ident = ident;
  table.metadata_text = metadata_text;
  LITHIFY_TRY_ASSIGN(table.metadata, table::ParseTableMetadata(metadata_text, ident.ToString()));
  table.metadata_location = NextMetadataLocation(table.metadata, "", MakeUuidV7(clock_, random_));
  LITHIFY_TRY_ASSIGN(const storage::Place place, locations_.Resolve(table.metadata_location));
  LITHIFY_TRY(place.store->PutNew(place.key, metadata_text));
  const std::lock_guard lock(mutex_);
  tables_.insert_or_assign(ident, std::move(table));
  return {};
}

}  // namespace lithify::catalog
