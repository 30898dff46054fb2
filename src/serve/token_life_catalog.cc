#include "serve/token_life_catalog.h"

namespace lithify::serve {

TokenLifeCatalog::TokenLifeCatalog(catalog::Catalog& catalog, const Caller& caller,
                                   const Clock& clock, Duration needed)
    : catalog_(catalog), clock_(clock), needed_(needed) {
  caller_.name = caller.name;
  caller_.expires_at = caller.expires_at;
}

Result<std::vector<std::vector<std::string>>> TokenLifeCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  return catalog_.ListNamespaces(parent);
}

Result<std::vector<catalog::TableIdent>> TokenLifeCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  return catalog_.ListTables(namespace_parts);
}

Result<catalog::LoadedTable> TokenLifeCatalog::LoadTable(const catalog::TableIdent& ident) {
  return catalog_.LoadTable(ident);
}

Result<std::string> TokenLifeCatalog::MetadataLocation(const catalog::TableIdent& ident) {
  return catalog_.MetadataLocation(ident);
}

Status TokenLifeCatalog::MayCommit() {
  LITHIFY_TRY(CheckTokenLife(caller_, clock_.Now(), needed_));
  return catalog_.MayCommit();
}

Status TokenLifeCatalog::CheckMayWrite(const catalog::LoadedTable& table) {
  return catalog_.CheckMayWrite(table);
}

// Who does not ask MayCommit() is held here, too.
Result<catalog::LoadedTable> TokenLifeCatalog::CommitTable(
    const catalog::TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  LITHIFY_TRY(CheckTokenLife(caller_, clock_.Now(), needed_));
  return catalog_.CommitTable(ident, requirements, updates);
}

bool TokenLifeCatalog::AnswersOnce() const { return catalog_.AnswersOnce(); }

std::string TokenLifeCatalog::Describe() const { return catalog_.Describe(); }

}  // namespace lithify::serve
