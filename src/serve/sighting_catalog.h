// A catalog as a caller's statement uses it, that tells of each table which it loads (T2): what
// works on nobody's behalf in this process knows of tables by that alone. Private to this module.
#ifndef LITHIFY_SERVE_SIGHTING_CATALOG_H_
#define LITHIFY_SERVE_SIGHTING_CATALOG_H_

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "catalog/forwarding_catalog.h"
#include "job/table_sightings.h"

namespace lithify::serve {

// Forwards. `sightings` and `clock` outlive it; thread-safe as `inner` is.
class SightingCatalog final : public catalog::ForwardingCatalog {
 public:
  SightingCatalog(std::unique_ptr<catalog::Catalog> inner, std::string name,
                  job::TableSightings& sightings, const Clock& clock)
      : ForwardingCatalog(*inner),
        inner_(std::move(inner)),
        name_(std::move(name)),
        sightings_(sightings),
        clock_(clock) {}

  Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override {
    return Told(catalog().LoadTable(ident));
  }
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override {
    return Told(catalog().CommitTable(ident, requirements, updates));
  }

 private:
  Result<catalog::LoadedTable> Told(Result<catalog::LoadedTable> table) {
    if (table) sightings_.Saw(name_, *table, clock_.Now());
    return table;
  }

  const std::unique_ptr<catalog::Catalog> inner_;
  const std::string name_;
  job::TableSightings& sightings_;
  const Clock& clock_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SIGHTING_CATALOG_H_
