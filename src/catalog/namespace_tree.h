// Namespaces as paths, for catalogs that hold them all.
#ifndef LITHIFY_CATALOG_NAMESPACE_TREE_H_
#define LITHIFY_CATALOG_NAMESPACE_TREE_H_

#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace lithify::catalog {

using NamespacePath = std::vector<std::string>;

// Whether it, or one below it, is in `all`.
bool NamespaceExists(const std::set<NamespacePath>& all, const NamespacePath& path);

// Children of `parent` as full paths, sorted. kNotFound if there is no such parent.
Result<std::vector<NamespacePath>> ChildNamespaces(const std::set<NamespacePath>& all,
                                                   const NamespacePath& parent);

std::unexpected<Error> NoSuchNamespace(const NamespacePath& path);

// kInvalid without parts, or with an empty one.
Status CheckNamespaceParts(const NamespacePath& path);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_NAMESPACE_TREE_H_
