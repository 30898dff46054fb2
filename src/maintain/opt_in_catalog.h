// A catalog as one autonomous job may use it: for the table that its owner opted in, as long as the
// owner does (R023, R026), and with a credential that was renewed right before a commit (T9).
#ifndef LITHIFY_MAINTAIN_OPT_IN_CATALOG_H_
#define LITHIFY_MAINTAIN_OPT_IN_CATALOG_H_

#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "catalog/forwarding_catalog.h"

namespace lithify::maintain {

// Forwards, with these differences; other tables can be loaded, and not changed:
// - CommitTable() is kUnsupported unless the newest table that was loaded here is opted in;
// - MayCommit() loads the table of the job anew, and is kUnsupported if it is not; then it renews
//   the credential, whose error is given on: nothing was sent;
// - LoadTable() is kUnsupported for a table that is not opted in, until a commit was sent: from
// then
//   on looking for its outcome matters more than anything.
// A job that gets it removes its own outputs and changes nothing. Between the last load and
// the catalog's commit the property may still be taken away: the catalog has no requirement on
// properties, so that such a commit is as if it had come a moment earlier.
//
// Thread-safe as `catalog` is, which must outlive it.
class OptInCatalog final : public catalog::ForwardingCatalog {
 public:
  using Properties = std::map<std::string, std::string>;
  struct Rules {
    catalog::TableIdent ident;                           // The table of the job.
    std::function<bool(const Properties&)> is_opted_in;  // To what the job is about to do.
    std::string property;                                // For messages: what must be "true".
    std::function<Status()> renew;                       // Empty: there is nothing to renew.
    // Asked right before a commit, for what else may forbid it. Empty: nothing.
    std::function<Status()> may_commit = {};
  };
  OptInCatalog(catalog::Catalog& catalog, Rules rules);

  Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override;
  Status MayCommit() override;
  Status CheckMayWrite(const catalog::LoadedTable& table) override;
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override;

 private:
  Result<catalog::LoadedTable> Look(const catalog::TableIdent& ident);
  std::unexpected<Error> Withdrawn(const catalog::TableIdent& ident) const;

  const Rules rules_;
  std::atomic<bool> opted_in_{false};  // As the newest load has it.
  std::atomic<bool> sent_{false};
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_OPT_IN_CATALOG_H_
