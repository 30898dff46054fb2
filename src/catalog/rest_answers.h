// What a REST catalog's answers say: pure functions from text to values.
#ifndef LITHIFY_CATALOG_REST_ANSWERS_H_
#define LITHIFY_CATALOG_REST_ANSWERS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/catalog.h"
#include "net/http.h"

namespace lithify::catalog::rest {

// CatalogConfig, merged.
struct Config {
  std::map<std::string, std::string> properties;  // Defaults, then the client's, then overrides.
  std::string prefix;                             // For paths: "" or "prefix/".
  std::string separator = "%1F";                  // Between namespace parts, URL-encoded.
  std::string plain_separator = "\x1f";
  bool idempotency = false;                        // The server knows Idempotency-Key.
  std::optional<std::set<std::string>> endpoints;  // Unset: the specification's default set.

  // "POST /v1/{prefix}/…", as the specification writes it.
  bool Supports(const std::string& endpoint) const {
    return !endpoints || endpoints->contains(endpoint);
  }
};
// `uri` is the configured one: an override of it may not lead to another origin (kInvalid).
Result<Config> ParseConfig(std::string_view body, const std::string& uri,
                           const std::map<std::string, std::string>& client_properties);

// One path segment; "." and ".." are encoded too, as they would be taken for steps.
std::string EncodeSegment(std::string_view text);
// kInvalid for no part, an empty part, or one with the separator in it.
Result<std::string> EncodeNamespace(const Config& config, const std::vector<std::string>& parts);

struct NamespacePage {
  std::vector<std::vector<std::string>> namespaces;
  std::string next_token;  // Empty: the last page.
};
Result<NamespacePage> ParseNamespaces(std::string_view body);

struct TablePage {
  std::vector<TableIdent> tables;
  std::string next_token;
};
Result<TablePage> ParseTables(std::string_view body);

// LoadTableResult and CommitTableResponse. The metadata is cut out of `body` as it is, byte by
// byte, so that nothing in it is changed by reading it.
Result<LoadedTable> ParseTable(std::string_view body, const TableIdent& ident,
                               const Config& config);

// Members of a JSON object with their values as they are written. Members are checked only as far
// as needed to tell where they end.
Result<std::map<std::string, std::string_view>> SplitObject(std::string_view text);

enum class Call { kRead, kCommit };
// An answer that is not a success, as the table in rest_catalog.h says.
Error ErrorOf(const net::HttpResponse& response, Call call);

}  // namespace lithify::catalog::rest

#endif  // LITHIFY_CATALOG_REST_ANSWERS_H_
