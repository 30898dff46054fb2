#include "catalog/namespace_tree.h"

#include <algorithm>

#include "catalog/catalog.h"

namespace lithify::catalog {
namespace {

bool StartsWith(const NamespacePath& path, const NamespacePath& prefix) {
  return path.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), path.begin(),
                    path.begin() + static_cast<std::ptrdiff_t>(prefix.size()));
}

}  // namespace

bool NamespaceExists(const std::set<NamespacePath>& all, const NamespacePath& path) {
  // What begins with it sorts right after it.
  const auto at = all.lower_bound(path);
  return at != all.end() && StartsWith(*at, path);
}

Result<std::vector<NamespacePath>> ChildNamespaces(const std::set<NamespacePath>& all,
                                                   const NamespacePath& parent) {
  if (!parent.empty() && !NamespaceExists(all, parent)) return NoSuchNamespace(parent);
  std::set<NamespacePath> children;
  for (auto at = all.lower_bound(parent); at != all.end() && StartsWith(*at, parent); ++at) {
    if (at->size() == parent.size()) continue;
    children.insert(
        NamespacePath(at->begin(), at->begin() + static_cast<std::ptrdiff_t>(parent.size()) + 1));
  }
  return std::vector<NamespacePath>(children.begin(), children.end());
}

std::unexpected<Error> NoSuchNamespace(const NamespacePath& path) {
  TableIdent ident;
  ident.namespace_parts.assign(path.begin(), path.end() - (path.empty() ? 0 : 1));
  if (!path.empty()) ident.name = path.back();
  return Fail(Code::kNotFound, "there is no such namespace", ident.ToString());
}

Status CheckNamespaceParts(const NamespacePath& path) {
  const bool named =
      std::ranges::none_of(path, [](const std::string& part) { return part.empty(); });
  if (named && !path.empty()) return {};
  return Fail(Code::kInvalid, "a namespace has at least one part, and no empty one");
}

}  // namespace lithify::catalog
