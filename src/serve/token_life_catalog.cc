#include "serve/token_life_catalog.h"

namespace lithify::serve {

TokenLifeCatalog::TokenLifeCatalog(catalog::Catalog& catalog, const Caller& caller,
                                   const Clock& clock, Duration needed)
    : ForwardingCatalog(catalog), clock_(clock), needed_(needed) {
  caller_.name = caller.name;
  caller_.expires_at = caller.expires_at;
}

Status TokenLifeCatalog::MayCommit() {
  LITHIFY_TRY(CheckTokenLife(caller_, clock_.Now(), needed_));
  return catalog().MayCommit();
}

// Who does not ask MayCommit() is held here, too.
Result<catalog::LoadedTable> TokenLifeCatalog::CommitTable(
    const catalog::TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  LITHIFY_TRY(CheckTokenLife(caller_, clock_.Now(), needed_));
  return catalog().CommitTable(ident, requirements, updates);
}

}  // namespace lithify::serve
