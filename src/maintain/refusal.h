// Who refused what (kDenied): a catalog that grants nothing is helped by other words than a bucket
// that lets nobody in. Where a refusal comes from is put before its context, as words that stay
// with it however far it goes: through the jobs, into the state file, and back out of it.
#ifndef LITHIFY_MAINTAIN_REFUSAL_H_
#define LITHIFY_MAINTAIN_REFUSAL_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/forwarding_catalog.h"
#include "maintain/report.h"
#include "storage/locations.h"

namespace lithify::maintain {

enum class Refuser {
  kPrincipal,     // The identity provider gave no token.
  kCatalogToken,  // The catalog does not take the one it gave.
  kCatalog,       // A grant is missing.
  kStorage,       // The store of a table's files, or of credentials for it.
  kOther,         // No grant of anybody helps: a property, a limit, a certificate, …
};

// Of an error's text, as ToString() has it.
Refuser RefuserOf(std::string_view text);
// The line that tells it: `grant` is what helps where the catalog's grant is missing.
LoudLine TellRefusal(std::string where, std::string why, std::string_view grant);

// The same error; if it is a refusal of the catalog, it says so.
Error OfCatalog(Error error);

// Forwards; refusals say that they are the catalog's.
class RefusalCatalog final : public catalog::ForwardingCatalog {
 public:
  using catalog::ForwardingCatalog::ForwardingCatalog;

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
};

// What reaches a location: "the keys of [s3]".
using DescribeAccess = std::function<std::string(std::string_view location)>;

// Refusals say that they are the storage's, what they refuse (to read, list, write or remove), and
// with which kind of credentials; those of a catalog that was asked to lend some are its own.
std::unique_ptr<storage::Locations> MakeRefusalLocations(
    std::unique_ptr<storage::Locations> locations, DescribeAccess access);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_REFUSAL_H_
