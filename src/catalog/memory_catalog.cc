#include "catalog/memory_catalog.h"

#include <utility>

#include "catalog/metadata_file.h"
#include "catalog/namespace_tree.h"

namespace lithify::catalog {
namespace {

void Run(const std::function<void(const TableIdent&)>& hook, const TableIdent& ident) {
  if (hook) hook(ident);
}

}  // namespace

std::set<NamespacePath> MemoryCatalog::Namespaces() const {
  std::set<NamespacePath> all;
  for (const auto& [ident, table] : tables_) all.insert(ident.namespace_parts);
  for (const auto& [path, properties] : namespaces_) all.insert(path);
  return all;
}

Result<std::vector<std::vector<std::string>>> MemoryCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  const std::lock_guard lock(mutex_);
  return ChildNamespaces(Namespaces(), parent);
}

Result<std::vector<TableIdent>> MemoryCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  const std::lock_guard lock(mutex_);
  if (!NamespaceExists(Namespaces(), namespace_parts)) {
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
    bool swapped = false;
    {
      const std::lock_guard lock(mutex_);
      LoadedTable& held = tables_.at(ident);
      swapped = held.metadata_location == current.metadata_location;
      if (swapped) held = next;
    }
    if (swapped) {
      RemoveDropped(locations_, current, next);
      return next;
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

Result<bool> MemoryCatalog::CreateNamespace(const std::vector<std::string>& parts,
                                            const std::map<std::string, std::string>& properties) {
  LITHIFY_TRY(CheckNamespaceParts(parts));
  const std::lock_guard lock(mutex_);
  if (NamespaceExists(Namespaces(), parts)) return false;
  namespaces_.emplace(parts, properties);
  return true;
}

Result<LoadedTable> MemoryCatalog::CreateTable(const TableIdent& ident, const TableDraft& draft) {
  const auto check = [&]() -> Status {
    const std::lock_guard lock(mutex_);
    if (!NamespaceExists(Namespaces(), ident.namespace_parts)) {
      return NoSuchNamespace(ident.namespace_parts);
    }
    if (tables_.contains(ident)) return TableExists(ident);
    return {};
  };
  LITHIFY_TRY(check());
  LITHIFY_TRY_ASSIGN(LoadedTable table,
                     StageTable(locations_, clock_, random_, ident, draft, warehouse_));
  Run(hooks_.before_swap, ident);
  {
    const std::lock_guard lock(mutex_);
    if (tables_.emplace(ident, table).second) return table;
  }
  Unstage(locations_, table.metadata_location);
  return TableExists(ident);
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
