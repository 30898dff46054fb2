// A catalog as a caller whose token ends: no change is sent that the token might not outlive (Q14,
// T9). Nothing can renew it, since nobody's secret is here.
#ifndef LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_
#define LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_

#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "serve/caller.h"

namespace lithify::serve {

// What a commit takes, from the last look at the clock to the catalog's.
inline constexpr Duration kCommitTokenLife = std::chrono::seconds(10);

// Forwards, but for MayCommit() and CommitTable(), which give CheckTokenLife()'s kDenied. A job
// that gets it removes its own outputs. Thread-safe as `catalog` is, which must outlive it, as must
// `clock`.
class TokenLifeCatalog final : public catalog::Catalog {
 public:
  TokenLifeCatalog(catalog::Catalog& catalog, const Caller& caller, const Clock& clock,
                   Duration needed = kCommitTokenLife);

  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override;
  Result<std::vector<catalog::TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override;
  Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override;
  Result<std::string> MetadataLocation(const catalog::TableIdent& ident) override;
  Status MayCommit() override;
  Status CheckMayWrite(const catalog::LoadedTable& table) override;
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override;
  bool AnswersOnce() const override;
  std::string Describe() const override;

 private:
  catalog::Catalog& catalog_;
  Caller caller_;  // Without the token.
  const Clock& clock_;
  const Duration needed_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_TOKEN_LIFE_CATALOG_H_
