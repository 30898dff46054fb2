// A catalog in front of another: for those that change a few of its calls.
#ifndef LITHIFY_CATALOG_FORWARDING_CATALOG_H_
#define LITHIFY_CATALOG_FORWARDING_CATALOG_H_

#include <span>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace lithify::catalog {

// Forwards every call but those that make namespaces and tables: who stands in front of a catalog
// is there for tables that exist. Thread-safe as `catalog` is, which must outlive it.
class ForwardingCatalog : public Catalog {
 public:
  explicit ForwardingCatalog(Catalog& catalog) : catalog_(catalog) {}
  // Around another one, and never a copy of it: a derived class would be copied without a word.
  ForwardingCatalog(const ForwardingCatalog&) = delete;
  ForwardingCatalog& operator=(const ForwardingCatalog&) = delete;

  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return catalog_.ListNamespaces(parent);
  }
  Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override {
    return catalog_.ListTables(namespace_parts);
  }
  Result<LoadedTable> LoadTable(const TableIdent& ident) override {
    return catalog_.LoadTable(ident);
  }
  Result<std::string> MetadataLocation(const TableIdent& ident) override {
    return catalog_.MetadataLocation(ident);
  }
  Status MayCommit() override { return catalog_.MayCommit(); }
  Status CheckMayWrite(const LoadedTable& table) override { return catalog_.CheckMayWrite(table); }
  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override {
    return catalog_.CommitTable(ident, requirements, updates);
  }
  bool AnswersOnce() const override { return catalog_.AnswersOnce(); }
  std::string Describe() const override { return catalog_.Describe(); }

 protected:
  Catalog& catalog() { return catalog_; }

 private:
  Catalog& catalog_;
};

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_FORWARDING_CATALOG_H_
