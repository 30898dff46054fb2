// A Catalog in memory with the commit rules of a REST catalog: requirements are checked against the
// newest metadata, and a commit that loses a race is tried again by the server as long as they
// hold. Metadata files are written through Locations, so that orphan removal meets real ones.
#ifndef LITHIFY_CATALOG_MEMORY_CATALOG_H_
#define LITHIFY_CATALOG_MEMORY_CATALOG_H_

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "catalog/catalog.h"
#include "storage/locations.h"

namespace lithify::catalog {

class MemoryCatalog final : public Catalog {
 public:
  enum class Fault {
    kNone,
    kConflict,         // kConflict; nothing changed.
    kDenied,           // kDenied; nothing changed.
    kLostBeforeApply,  // kUnknownOutcome; nothing changed.
    kLostAfterApply,   // kUnknownOutcome; it was applied, if its requirements held.
  };

  // Seams of a simulation. They run without a lock held, so that they may let others run, or commit
  // to the same table themselves.
  struct Hooks {
    std::function<Fault(const TableIdent&)> fault;         // Once a commit, first of all.
    std::function<void(const TableIdent&)> before_load;    // LoadTable.
    std::function<void(const TableIdent&)> before_apply;   // Before the requirements are checked.
    std::function<void(const TableIdent&)> before_swap;    // The metadata file is written.
    std::function<void(const TableIdent&)> before_answer;  // The commit is visible, or refused.
  };

  // All of them must outlive the catalog. `warehouse`: where tables without a location of their own
  // go; empty: nowhere.
  MemoryCatalog(storage::Locations& locations, const Clock& clock, Random& random,
                std::string warehouse = {})
      : locations_(locations), clock_(clock), random_(random), warehouse_(std::move(warehouse)) {}

  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override;
  Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override;
  Result<LoadedTable> LoadTable(const TableIdent& ident) override;
  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override;
  Result<bool> CreateNamespace(const std::vector<std::string>& parts,
                               const std::map<std::string, std::string>& properties) override;
  Result<LoadedTable> CreateTable(const TableIdent& ident, const TableDraft& draft) override;
  std::string Describe() const override { return "memory:"; }

  // For tests: writes the text as the table's first metadata file, with its namespaces. kInvalid if
  // the table exists.
  Status CreateTable(const TableIdent& ident, std::string_view metadata_text);
  // Not while a call runs.
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

 private:
  std::set<std::vector<std::string>> Namespaces() const;  // Needs mutex_.
  Result<LoadedTable> Find(const TableIdent& ident) const;
  Result<LoadedTable> Apply(const TableIdent& ident,
                            std::span<const table::TableRequirement> requirements,
                            std::span<const table::TableUpdate> updates);

  storage::Locations& locations_;
  const Clock& clock_;
  Random& random_;
  const std::string warehouse_;
  Hooks hooks_;
  mutable std::mutex mutex_;
  std::map<std::vector<std::string>, std::map<std::string, std::string>> namespaces_;  // Made here.
  std::map<TableIdent, LoadedTable> tables_;
};

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_MEMORY_CATALOG_H_
