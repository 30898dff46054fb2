// A catalog as a caller whose token ends: no change is sent that the token might not outlive (Q14,
// T9). Nothing can renew it, since nobody's secret is here.
#ifndef LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_
#define LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_

#include <span>

#include "base/clock.h"
#include "catalog/forwarding_catalog.h"
#include "serve/caller.h"

namespace lithify::serve {

// What a commit takes, from the last look at the clock to the catalog's.
inline constexpr Duration kCommitTokenLife = std::chrono::seconds(10);

// Forwards, but for MayCommit() and CommitTable(), which give CheckTokenLife()'s kDenied. A job
// that gets it removes its own outputs. Thread-safe as `catalog` is, which must outlive it, as must
// `clock`.
class TokenLifeCatalog final : public catalog::ForwardingCatalog {
 public:
  TokenLifeCatalog(catalog::Catalog& catalog, const Caller& caller, const Clock& clock,
                   Duration needed = kCommitTokenLife);

  Status MayCommit() override;
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override;

 private:
  Caller caller_;  // Without the token.
  const Clock& clock_;
  const Duration needed_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_
