// Client of the Iceberg REST catalog [apache/iceberg, open-api/rest-catalog-open-api.yaml].
//
// What a commit's answer means decides whether files may be removed later (I35, R115, R302):
//   2xx                          applied
//   409, 412                     kConflict
//   400 of a lost race           kConflict; Polaris says so where Iceberg's own server says 409
//   400, 422, other 4xx          kInvalid
//   401, 419                     the token is renewed once, then kDenied; 403 kDenied
//   404                          kNotFound; 406, 501 kUnsupported
//   408, 429, 3xx, other 5xx     kUnknownOutcome: a gateway or the catalog's storage may have said
//                                so after the change was made
//   an answer cut off or unreadable, or none  kUnknownOutcome
//   never sent                   retried, then kTransient; kCancelled where the HTTP client was
//                                told to stop. A commit that is under way then is given its grace.
// Reads are retried on 408, 429, 502, 503, 504 and lost connections, with Retry-After or a growing
// pause, within bounds, then kTransient. kLimit where an answer is larger than allowed; kCorrupt
// for an answer that breaks the protocol.
//
// An Idempotency-Key goes with a commit if the catalog's configuration announces it; a commit is
// all the same never sent again once it may have arrived, since a catalog that forgot the key would
// answer 409 to the second try of what it had applied.
#ifndef LITHIFY_CATALOG_REST_CATALOG_H_
#define LITHIFY_CATALOG_REST_CATALOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "catalog/catalog.h"
#include "catalog/table_cache.h"
#include "net/http.h"
#include "net/token.h"

namespace lithify::catalog {

struct RestOptions {
  std::string uri;        // What "/v1/config" is put after: "https://host/api/catalog".
  std::string warehouse;  // Polaris: the catalog's name. Empty: not sent.
  // The client's properties: above the server's defaults, below its overrides.
  std::map<std::string, std::string> properties;
  // On every request; Polaris: {"Polaris-Realm", "…"}.
  std::vector<std::pair<std::string, std::string>> headers;
  // Of tables that were loaded; null: one of this catalog's own.
  std::shared_ptr<TableCache> cache = {};
  bool vended_credentials = false;  // Ask for storage credentials with each load.

  Duration connect_timeout = std::chrono::seconds(10);
  Duration read_timeout = std::chrono::seconds(60);     // Of one GET.
  Duration commit_timeout = std::chrono::seconds(300);  // Patience saves a search for the outcome.
  int64_t max_metadata_bytes = kGiB;                    // Of an answer with a table's metadata.
  int64_t max_list_bytes = 64 * kMiB;                   // Of every other answer.
  int max_attempts = 5;
  Duration first_pause = std::chrono::milliseconds(200);
  Duration longest_pause = std::chrono::seconds(30);  // A longer Retry-After ends the attempts.
  // Whether pauses between tries are to end; requests are the HTTP client's. Empty: never.
  std::function<bool()> stop;
  int page_size = 1000;
  int64_t max_entries = 1'000'000;  // Of one listing, over all its pages.
};

// A catalog whose server may have more to read beside the specification's own paths. Reads of it go
// as all others do: token, headers, retries, bounds, errors as above.
class RestCatalog : public Catalog {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;
  // Reads one page and gives the token of the next, "" after the last.
  using TakePage = std::function<Result<std::string>(const std::string& body)>;

  // GET {uri}/{api}/v1/{prefix}/{path}?{query}, page after page: the tokens and the size of a page
  // are added to the query. kUnsupported, without a request, if the server lists its endpoints and
  // this is none of them.
  virtual Status GetPages(const std::string& api, const std::string& path, const Query& query,
                          const TakePage& take) = 0;
  // Its parts with the server's separator between them, as a value of a query; not URL-encoded.
  // kInvalid for what cannot be named so.
  virtual Result<std::string> JoinNamespace(const std::vector<std::string>& parts) const = 0;
};

// Reads GET /v1/config. `tokens` may be null: no authentication. All of them must outlive the
// catalog. kInvalid for a wrong URI, or if the server's configuration points to another host.
//
// LoadedTable::config is the catalog's properties with the table's above them, without tokens.
// An ETag saves sending unchanged metadata again, unless credentials are vended.
// kUnsupported from LoadTable if the catalog lets the principal read only part of the table
// (read-restrictions): a rewrite would lose the rest.
Result<std::unique_ptr<RestCatalog>> OpenRestCatalog(RestOptions options, net::HttpClient& http,
                                                     net::TokenSource* tokens, Clock& clock,
                                                     Random& random);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_REST_CATALOG_H_
