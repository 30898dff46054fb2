#include "catalog/catalog.h"

#include <utility>

#include "base/text.h"

namespace lithify::catalog {
namespace {

std::unexpected<Error> Bad(std::string_view text, std::string problem) {
  return Fail(Code::kInvalid, std::move(problem), JsonQuote(text.substr(0, 1000)),
              "write namespace.table, with parts that hold a dot in double quotes");
}

// The part at the front, and after it nothing or a dot.
Result<std::string> TakePart(std::string_view whole, std::string_view& rest) {
  std::string part;
  if (rest.starts_with('"') || rest.starts_with('`')) {
    const char quote = rest.front();
    size_t at = 1;
    for (;; ++at) {
      if (at >= rest.size()) return Bad(whole, "a quoted part of the table's name does not end");
      if (rest[at] != quote) {
        part += rest[at];
        continue;
      }
      // A doubled quote is one of the name's own.
      if (at + 1 >= rest.size() || rest[at + 1] != quote) break;
      part += rest[++at];
    }
    rest.remove_prefix(at + 1);
    if (!rest.empty() && rest.front() != '.') {
      return Bad(whole, "something other than a dot follows a quoted part of the table's name");
    }
  } else {
    part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(part.size());
  }
  if (part.empty()) return Bad(whole, "a part of the table's name is empty");
  if (part.find('\0') != std::string::npos) return Bad(whole, "the table's name has a NUL byte");
  return part;
}

std::string QuotedIfNeeded(const std::string& part) {
  if (part.find_first_of(".\"`") == std::string::npos && !part.empty()) return part;
  std::string quoted = "\"";
  for (const char c : part) {
    if (c == '"') quoted += c;
    quoted += c;
  }
  return quoted + '"';
}

constexpr size_t kNamespacesMax = 100'000;

}  // namespace

std::string TableIdent::ToString() const {
  std::string text = NamespaceName(namespace_parts);
  if (!text.empty()) text += ".";
  return text + QuotedIfNeeded(name);
}

std::string NamespaceName(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ".") + QuotedIfNeeded(part);
  return text;
}

Result<TableIdent> ParseTableIdent(std::string_view text) {
  TableIdent ident;
  std::string_view rest = text;
  for (;;) {
    LITHIFY_TRY_ASSIGN(ident.name, TakePart(text, rest));
    if (rest.empty()) break;
    rest.remove_prefix(1);
    ident.namespace_parts.push_back(std::move(ident.name));
  }
  if (ident.namespace_parts.empty()) ident.namespace_parts.emplace_back("default");
  return ident;
}

Result<bool> Catalog::CreateNamespace(const std::vector<std::string>& /*parts*/,
                                      const std::map<std::string, std::string>& /*properties*/) {
  return Fail(Code::kUnsupported, "no namespace is made through this catalog", Describe());
}

Result<LoadedTable> Catalog::CreateTable(const TableIdent& ident, const TableDraft& /*draft*/) {
  return Fail(Code::kUnsupported, "no table is made through this catalog", ident.ToString());
}

Result<std::string> Catalog::MetadataLocation(const TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(LoadedTable table, LoadTable(ident));
  return std::move(table.metadata_location);
}

Result<std::vector<std::vector<std::string>>> AllNamespaces(
    Catalog& catalog, const std::vector<std::string>& parent) {
  std::vector<std::vector<std::string>> all;
  if (!parent.empty()) all.push_back(parent);
  LITHIFY_TRY_ASSIGN(auto level, catalog.ListNamespaces(parent));
  while (!level.empty()) {
    std::vector<std::vector<std::string>> next;
    for (auto& parts : level) {
      auto children = catalog.ListNamespaces(parts);
      // Whoever may see a namespace need not see what is in it.
      const bool hidden = !children && (children.error().code == Code::kDenied ||
                                        children.error().code == Code::kNotFound);
      if (!children && !hidden) return Fail(std::move(children.error()));
      all.push_back(std::move(parts));
      if (all.size() > kNamespacesMax) {
        return Fail(Code::kLimit, "there are more than 100,000 namespaces", {}, "name one of them");
      }
      if (hidden) continue;
      for (auto& child : *children) next.push_back(std::move(child));
    }
    level = std::move(next);
  }
  return all;
}

}  // namespace lithify::catalog
