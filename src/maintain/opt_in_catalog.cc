#include "maintain/opt_in_catalog.h"

#include <utility>

namespace lithify::maintain {

OptInCatalog::OptInCatalog(catalog::Catalog& catalog, Rules rules)
    : ForwardingCatalog(catalog), rules_(std::move(rules)) {}

std::unexpected<Error> OptInCatalog::Withdrawn(const catalog::TableIdent& ident) const {
  return Fail(Code::kUnsupported,
              "the table is not opted in: " + rules_.property + " is not \"true\"",
              ident.ToString(), "its owner decides; nothing was changed");
}

Result<catalog::LoadedTable> OptInCatalog::Look(const catalog::TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(auto table, catalog().LoadTable(ident));
  // Neighbours are looked at, too, before files are removed.
  if (ident == rules_.ident) opted_in_ = rules_.is_opted_in(table.metadata.properties);
  return table;
}

Result<catalog::LoadedTable> OptInCatalog::LoadTable(const catalog::TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(auto table, Look(ident));
  if (ident == rules_.ident && !opted_in_ && !sent_) return Withdrawn(ident);
  return table;
}

Status OptInCatalog::MayCommit() {
  LITHIFY_TRY(Look(rules_.ident));
  if (!opted_in_) return Withdrawn(rules_.ident);
  if (rules_.may_commit) LITHIFY_TRY(rules_.may_commit());
  if (rules_.renew) LITHIFY_TRY(rules_.renew());
  return catalog().MayCommit();
}

Status OptInCatalog::CheckMayWrite(const catalog::LoadedTable& table) {
  if (table.ident != rules_.ident || !opted_in_) return Withdrawn(table.ident);
  return catalog().CheckMayWrite(table);
}

Result<catalog::LoadedTable> OptInCatalog::CommitTable(
    const catalog::TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  if (ident != rules_.ident || !opted_in_) return Withdrawn(ident);
  sent_ = true;
  return catalog().CommitTable(ident, requirements, updates);
}

}  // namespace lithify::maintain
