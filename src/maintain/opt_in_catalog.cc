#include "maintain/opt_in_catalog.h"

#include <utility>

namespace lithify::maintain {

OptInCatalog::OptInCatalog(catalog::Catalog& catalog, Rules rules)
    : catalog_(catalog), rules_(std::move(rules)) {}

std::unexpected<Error> OptInCatalog::Withdrawn(const catalog::TableIdent& ident) const {
  return Fail(Code::kUnsupported,
              "the table is not opted in: " + rules_.property + " is not \"true\"",
              ident.ToString(), "its owner decides; nothing was changed");
}

Result<catalog::LoadedTable> OptInCatalog::Look(const catalog::TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(auto table, catalog_.LoadTable(ident));
  // Neighbours are looked at, too, before files are removed.
  if (ident == rules_.ident) opted_in_ = rules_.is_opted_in(table.metadata.properties);
  return table;
}

Result<std::vector<std::vector<std::string>>> OptInCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  return catalog_.ListNamespaces(parent);
}

Result<std::vector<catalog::TableIdent>> OptInCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  return catalog_.ListTables(namespace_parts);
}

Result<catalog::LoadedTable> OptInCatalog::LoadTable(const catalog::TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(auto table, Look(ident));
  if (ident == rules_.ident && !opted_in_ && !sent_) return Withdrawn(ident);
  return table;
}

Result<std::string> OptInCatalog::MetadataLocation(const catalog::TableIdent& ident) {
  return catalog_.MetadataLocation(ident);
}

Status OptInCatalog::MayCommit() {
  LITHIFY_TRY(Look(rules_.ident));
  if (!opted_in_) return Withdrawn(rules_.ident);
  if (rules_.renew) LITHIFY_TRY(rules_.renew());
  return catalog_.MayCommit();
}

Status OptInCatalog::CheckMayWrite(const catalog::LoadedTable& table) {
  if (table.ident != rules_.ident || !opted_in_) return Withdrawn(table.ident);
  return catalog_.CheckMayWrite(table);
}

Result<catalog::LoadedTable> OptInCatalog::CommitTable(
    const catalog::TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  if (ident != rules_.ident || !opted_in_) return Withdrawn(ident);
  sent_ = true;
  return catalog_.CommitTable(ident, requirements, updates);
}

bool OptInCatalog::AnswersOnce() const { return catalog_.AnswersOnce(); }

std::string OptInCatalog::Describe() const { return catalog_.Describe(); }

}  // namespace lithify::maintain
