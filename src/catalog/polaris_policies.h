// Policies of Apache Polaris [apache/polaris, spec/polaris-catalog-apis/policy-apis.yaml,
// getApplicablePolicies]: which system.data-compaction policy applies to a table, itself or by
// inheritance. The server resolves the inheritance: a table's own policy stands above those of its
// namespaces, the nearest first, and these above the catalog's.
#ifndef LITHIFY_CATALOG_POLARIS_POLICIES_H_
#define LITHIFY_CATALOG_POLARIS_POLICIES_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/rest_catalog.h"

namespace lithify::catalog {

// system.data-compaction, schema 2025-02-03.
struct CompactionPolicy {
  std::string name;
  bool enable = true;
  std::optional<double> target_file_size_bytes;
  std::map<std::string, std::string> config;  // Scalars as text.
  bool inherited = false;                     // From a namespace or the catalog.
  bool operator==(const CompactionPolicy&) const = default;
};

struct AppliedPolicy {
  std::optional<CompactionPolicy> policy;  // Unset: none applies.
  // Each names the policy: what of it was not taken, and what holds instead.
  std::vector<std::string> warnings;
};

// The one that applies among those of all pages. One whose content cannot be read, or does not say
// whether compaction is on, is taken as `enable = false`: a table is better left alone than
// compacted against its catalog's word. Of several on the same level the first that says no, else
// the first.
AppliedPolicy ChoosePolicy(std::vector<AppliedPolicy> found);

struct PolicyPage {
  std::vector<AppliedPolicy> policies;  // Each with its policy; of other types there are none.
  std::string next_token;
};
// kCorrupt for a text that is no GetApplicablePoliciesResponse.
Result<PolicyPage> ParseApplicablePolicies(std::string_view body);

// Asks the catalog. kNotFound: neither table nor API is there; kDenied: Polaris wants the privilege
// to read the table's policies; kUnsupported: the catalog does not offer it; otherwise as every
// read.
Result<AppliedPolicy> GetCompactionPolicy(RestCatalog& catalog, const TableIdent& ident);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_POLARIS_POLICIES_H_
