#include "catalog/rest_catalog.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <set>

#include "catalog/rest_answers.h"

namespace lithify::catalog {
namespace {

using net::HttpLimits;
using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;
using rest::Call;

constexpr size_t kMaxPages = 10'000;

// As the specification writes them.
constexpr char kListNamespaces[] = "GET /v1/{prefix}/namespaces";
constexpr char kListTables[] = "GET /v1/{prefix}/namespaces/{namespace}/tables";
constexpr char kLoadTable[] = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}";
constexpr char kCreateNamespace[] = "POST /v1/{prefix}/namespaces";
constexpr char kCreateTable[] = "POST /v1/{prefix}/namespaces/{namespace}/tables";
constexpr char kCommitTable[] = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}";

bool MayTryAgain(int status) {
  return status == 408 || status == 429 || status == 502 || status == 503 || status == 504;
}

class HttpRestCatalog final : public RestCatalog {
 public:
  HttpRestCatalog(RestOptions options, net::HttpClient& http, net::TokenSource* tokens,
                  Clock& clock, Random& random)
      : options_(std::move(options)),
        cache_(options_.cache ? options_.cache
                              : std::make_shared<TableCache>(TableCache::Bounds())),
        http_(http),
        tokens_(tokens),
        clock_(clock),
        random_(random) {}

  Status Open();
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override;
  Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override;
  Result<LoadedTable> LoadTable(const TableIdent& ident) override;
  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override;
  Status CheckMayWrite(const LoadedTable& table) override;
  Result<bool> CreateNamespace(const std::vector<std::string>& parts,
                               const std::map<std::string, std::string>& properties) override;
  Result<LoadedTable> CreateTable(const TableIdent& ident, const TableDraft& draft) override;
  Status GetPages(const std::string& api, const std::string& path, const Query& query,
                  const TakePage& take) override;
  Result<std::string> JoinNamespace(const std::vector<std::string>& parts) const override;
  std::string Describe() const override { return options_.uri; }

 private:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // Any status is a result; for kRead only after the retries that it allows.
  Result<HttpResponse> Send(HttpRequest request, const HttpLimits& limits, Call call);
  // One try with the present token, which is handed out.
  Result<HttpResponse> SendOnce(HttpRequest& request, const HttpLimits& limits, Secret* token);
  // Drops the refused token; false if there is no other.
  bool Renew(const Secret& token);
  void Pause(int attempt);
  void Sleep(Duration d);
  // A GET that gives 200 (or 304, if `if_none_match` is there).
  Result<HttpResponse> Get(const std::string& url, const Headers& headers, int64_t max_bytes);
  // A POST of `path` below the prefix, sent once; any status is a result.
  Result<HttpResponse> Post(const std::string& path, Headers headers, std::string body,
                            int64_t max_bytes);
  // The table in the answer to a change that was made: what cannot be read is an unknown outcome.
  Result<LoadedTable> TableIn(const HttpResponse& response, const TableIdent& ident,
                              const std::string& path) const;
  Status Pages(const std::string& url, const Query& query, const TakePage& take);
  Status Require(const char* endpoint) const;
  Result<std::string> TablePath(const TableIdent& ident) const;
  std::string Url(const std::string& path) const {
    return options_.uri + "/v1/" + config_.prefix + path;
  }

  RestOptions options_;
  const std::shared_ptr<TableCache> cache_;
  net::HttpClient& http_;
  net::TokenSource* const tokens_;
  Clock& clock_;
  Random& random_;
  rest::Config config_;  // Constant once open.
};

Result<HttpResponse> HttpRestCatalog::SendOnce(HttpRequest& request, const HttpLimits& limits,
                                               Secret* token) {
  if (tokens_ != nullptr) {
    Result<Secret> got = tokens_->Token();
    if (!got) {
      Error error = std::move(got.error());
      // Whatever became of the token request, ours was not sent.
      if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
      return Fail(std::move(error).In("catalog " + options_.uri));
    }
    *token = std::move(*got);
    std::string bearer = "Bearer " + token->Reveal();
    request.authorization = Secret(bearer);
    Wipe(bearer);
  }
  return http_.Send(request, limits);
}

bool HttpRestCatalog::Renew(const Secret& token) {
  return tokens_ != nullptr && tokens_->Invalidate(token).has_value();
}

void HttpRestCatalog::Pause(int attempt) {
  Duration pause = options_.first_pause;
  for (int i = 1; i < attempt && pause < options_.longest_pause; ++i) pause *= 2;
  pause = std::min(pause, options_.longest_pause);
  // Between half of it and all of it, so that clients that failed together do not return together.
  const int64_t half = pause.count() / 2;
  const int64_t extra =
      half > 0 ? static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(half)) : 0;
  Sleep(Duration(half + extra));
}

void HttpRestCatalog::Sleep(Duration d) {
  if (!options_.stop) return clock_.Sleep(d);
  constexpr Duration kSlice = std::chrono::milliseconds(100);
  for (; d > Duration::zero() && !options_.stop(); d -= kSlice) clock_.Sleep(std::min(d, kSlice));
}

Result<HttpResponse> HttpRestCatalog::Send(HttpRequest request, const HttpLimits& limits,
                                           Call call) {
  const bool read = call == Call::kRead;
  for (const auto& header : options_.headers) request.headers.push_back(header);
  request.publishes = !read;
  bool renewed = false;
  for (int attempt = 1;; ++attempt) {
    Secret token;
    Result<HttpResponse> response = SendOnce(request, limits, &token);
    const bool last = attempt >= options_.max_attempts;
    if (!response) {
      Error error = std::move(response.error());
      if (read && error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
      if (error.code != Code::kTransient || last) return Fail(std::move(error));
      Pause(attempt);
      continue;
    }
    const int status = response->status;
    if ((status == 401 || status == 419) && !renewed && Renew(token)) {
      renewed = true;
      continue;
    }
    if (status >= 300 && response->body.size() <= static_cast<size_t>(kMiB)) {
      response->body = token.HideIn(std::move(response->body));
    }
    if (!read || !MayTryAgain(status) || last) return response;
    const auto header = response->Header("retry-after");
    const auto wait = header ? net::ParseRetryAfter(*header, clock_.Now()) : std::nullopt;
    if (!wait) {
      Pause(attempt);
    } else if (*wait <= options_.longest_pause) {
      Sleep(*wait);
    } else {
      return response;
    }
  }
}

Result<HttpResponse> HttpRestCatalog::Get(const std::string& url, const Headers& headers,
                                          int64_t max_bytes) {
  HttpRequest request;
  request.method = HttpMethod::kGet;
  request.url = url;
  request.headers = headers;
  request.headers.emplace_back("Accept", "application/json");
  const std::string where = "GET " + net::UrlForMessages(request.url);
  LITHIFY_TRY_ASSIGN(
      HttpResponse response,
      Send(std::move(request),
           HttpLimits(options_.connect_timeout, options_.read_timeout, max_bytes), Call::kRead));
  const bool conditional = std::ranges::any_of(
      headers, [](const auto& header) { return header.first == "If-None-Match"; });
  if (response.status == 200 || (response.status == 304 && conditional)) return response;
  Error error = rest::ErrorOf(response, Call::kRead);
  const auto retry_after = response.Header("retry-after");
  if (error.code == Code::kTransient && retry_after) {
    error.message += "; retry after " + retry_after->substr(0, 40);
  }
  return Fail(std::move(error).In(where));
}

Status HttpRestCatalog::Require(const char* endpoint) const {
  if (config_.Supports(endpoint)) return {};
  return Fail(Code::kUnsupported, std::string("the catalog does not offer ") + endpoint,
              "catalog " + options_.uri);
}

Status HttpRestCatalog::Open() {
  while (options_.uri.ends_with('/')) options_.uri.pop_back();
  LITHIFY_TRY(net::UrlOrigin(options_.uri));
  if (options_.uri.find('?') != std::string::npos) {
    return Fail(Code::kInvalid, "the catalog's uri has a query", net::UrlForMessages(options_.uri));
  }
  if (options_.max_attempts < 1 || options_.page_size < 1 || options_.max_entries < 1) {
    return Fail(Code::kInvalid, "attempts, page size and entries must be above zero",
                "catalog " + options_.uri);
  }
  const std::string query =
      options_.warehouse.empty() ? "" : "?" + net::EncodeForm({{"warehouse", options_.warehouse}});
  LITHIFY_TRY_ASSIGN(const HttpResponse response,
                     Get(options_.uri + "/v1/config" + query, {}, options_.max_list_bytes));
  Result<rest::Config> config = rest::ParseConfig(response.body, options_.uri, options_.properties);
  if (!config) return Fail(std::move(config.error()).In("catalog " + options_.uri));
  config_ = std::move(*config);
  const auto uri = config_.properties.find("uri");
  if (uri != config_.properties.end()) {
    options_.uri = uri->second;
    while (options_.uri.ends_with('/')) options_.uri.pop_back();
  }
  return {};
}

Status HttpRestCatalog::Pages(const std::string& url, const Query& query, const TakePage& take) {
  // An empty token asks for pages; servers without them send everything at once.
  std::string token;
  std::set<std::string> seen;
  do {
    Query fields = query;
    fields.emplace_back("pageToken", token);
    fields.emplace_back("pageSize", std::to_string(options_.page_size));
    LITHIFY_TRY_ASSIGN(const HttpResponse response,
                       Get(url + "?" + net::EncodeForm(fields), {}, options_.max_list_bytes));
    Result<std::string> next = take(response.body);
    if (!next) return Fail(std::move(next.error()).In("GET " + url));
    token = std::move(*next);
    if (!token.empty() && !seen.insert(token).second) {
      return Fail(Code::kCorrupt, "the catalog gives the same next-page-token twice", "GET " + url);
    }
    if (seen.size() >= kMaxPages) {
      return Fail(Code::kLimit, "the listing has more than " + std::to_string(kMaxPages) + " pages",
                  "GET " + url);
    }
  } while (!token.empty());
  return {};
}

Status HttpRestCatalog::GetPages(const std::string& api, const std::string& path,
                                 const Query& query, const TakePage& take) {
  const std::string endpoint = api + "/v1/{prefix}/" + path;
  // Some servers leave out the slash.
  if (!config_.Supports("GET /" + endpoint)) {
    if (Status offered = Require(("GET " + endpoint).c_str()); !offered) return offered;
  }
  return Pages(options_.uri + "/" + api + "/v1/" + config_.prefix + path, query, take);
}

Result<std::string> HttpRestCatalog::JoinNamespace(const std::vector<std::string>& parts) const {
  LITHIFY_TRY(rest::EncodeNamespace(config_, parts));
  std::string joined;
  for (const std::string& part : parts) {
    joined += (joined.empty() ? "" : config_.plain_separator) + part;
  }
  return joined;
}

Result<std::vector<std::vector<std::string>>> HttpRestCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  LITHIFY_TRY(Require(kListNamespaces));
  std::vector<std::vector<std::string>> out;
  Query query;
  if (!parent.empty()) {
    LITHIFY_TRY_ASSIGN(std::string joined, JoinNamespace(parent));
    query.emplace_back("parent", std::move(joined));
  }
  LITHIFY_TRY(Pages(Url("namespaces"), query, [&](const std::string& body) -> Result<std::string> {
    LITHIFY_TRY_ASSIGN(rest::NamespacePage page, rest::ParseNamespaces(body));
    for (auto& child : page.namespaces) {
      // A server that does not know `parent` would send a walk through the tree in circles.
      if (child.size() != parent.size() + 1 ||
          !std::equal(parent.begin(), parent.end(), child.begin())) {
        return Fail(Code::kCorrupt, "the catalog lists a namespace that is no child of the parent");
      }
      out.push_back(std::move(child));
    }
    if (static_cast<int64_t>(out.size()) > options_.max_entries) {
      return Fail(Code::kLimit,
                  "more than " + std::to_string(options_.max_entries) + " namespaces");
    }
    return std::move(page.next_token);
  }));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<std::vector<TableIdent>> HttpRestCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  LITHIFY_TRY(Require(kListTables));
  LITHIFY_TRY_ASSIGN(const std::string encoded, rest::EncodeNamespace(config_, namespace_parts));
  std::vector<TableIdent> out;
  LITHIFY_TRY(
      Pages(Url("namespaces/" + encoded + "/tables"), {},
            [&](const std::string& body) -> Result<std::string> {
              LITHIFY_TRY_ASSIGN(rest::TablePage page, rest::ParseTables(body));
              for (TableIdent& ident : page.tables) {
                if (ident.namespace_parts != namespace_parts) {
                  return Fail(Code::kCorrupt, "the catalog lists a table of another namespace");
                }
                out.push_back(std::move(ident));
              }
              if (static_cast<int64_t>(out.size()) > options_.max_entries) {
                return Fail(Code::kLimit,
                            "more than " + std::to_string(options_.max_entries) + " tables");
              }
              return std::move(page.next_token);
            }));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<std::string> HttpRestCatalog::TablePath(const TableIdent& ident) const {
  LITHIFY_TRY_ASSIGN(const std::string encoded,
                     rest::EncodeNamespace(config_, ident.namespace_parts));
  if (ident.name.empty()) return Fail(Code::kInvalid, "the table's name is empty");
  return "namespaces/" + encoded + "/tables/" + rest::EncodeSegment(ident.name);
}

Result<LoadedTable> HttpRestCatalog::LoadTable(const TableIdent& ident) {
  LITHIFY_TRY(Require(kLoadTable));
  const auto in_table = [&](Error error) { return Fail(std::move(error).In(ident.ToString())); };
  LITHIFY_TRY_ASSIGN(const std::string path, TablePath(ident));
  Headers headers;
  std::optional<TableCache::Entry> cached;
  if (options_.vended_credentials) {
    headers.emplace_back("X-Iceberg-Access-Delegation", "vended-credentials");
  } else {
    cached = cache_->Find(ident);  // Not with credentials: those of an old answer run out.
    if (cached) headers.emplace_back("If-None-Match", cached->etag);
  }
  Result<HttpResponse> response =
      Get(Url(path) + "?snapshots=all", headers, options_.max_metadata_bytes);
  if (!response) return in_table(std::move(response.error()));
  if (response->status == 304) return *cached->table;
  Result<LoadedTable> table = rest::ParseTable(response->body, ident, config_);
  if (!table) return in_table(std::move(table.error()));
  const auto etag = response->Header("etag");
  if (etag && !etag->empty() && !options_.vended_credentials && table->credentials.empty()) {
    cache_->Put({*etag, std::make_shared<const LoadedTable>(*table)});
  }
  return table;
}

Result<LoadedTable> HttpRestCatalog::CommitTable(
    const TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  LITHIFY_TRY(Require(kCommitTable));
  const auto in_table = [&](Error error) { return Fail(std::move(error).In(ident.ToString())); };
  LITHIFY_TRY_ASSIGN(const std::string path, TablePath(ident));
  Result<HttpResponse> response =
      Post(path, {}, table::CommitToJson(requirements, updates), options_.max_metadata_bytes);
  if (!response) return in_table(std::move(response.error()));
  Result<LoadedTable> table = TableIn(*response, ident, path);
  if (!table) return in_table(std::move(table.error()));
  return table;
}

Result<HttpResponse> HttpRestCatalog::Post(const std::string& path, Headers headers,
                                           std::string body, int64_t max_bytes) {
  HttpRequest request;
  request.method = HttpMethod::kPost;
  request.url = Url(path);
  request.headers = std::move(headers);
  request.headers.emplace_back("Accept", "application/json");
  request.headers.emplace_back("Content-Type", "application/json");
  if (config_.idempotency) {
    request.headers.emplace_back("Idempotency-Key", MakeUuidV7(clock_, random_));
  }
  request.body = std::move(body);
  return Send(std::move(request),
              HttpLimits(options_.connect_timeout, options_.commit_timeout, max_bytes),
              Call::kCommit);
}

Result<LoadedTable> HttpRestCatalog::TableIn(const HttpResponse& response, const TableIdent& ident,
                                             const std::string& path) const {
  const std::string where = "POST " + net::UrlForMessages(Url(path));
  if (response.status < 200 || response.status >= 300) {
    return Fail(rest::ErrorOf(response, Call::kCommit).In(where));
  }
  Result<LoadedTable> table = rest::ParseTable(response.body, ident, config_);
  if (table) return table;
  Error error = std::move(table.error()).In(where);
  error.code = Code::kUnknownOutcome;
  error.message = "the catalog answered " + std::to_string(response.status) +
                  ", but not with the table as it is now: " + error.message;
  error.hint = "load the table and look at it; remove nothing";
  return Fail(std::move(error));
}

Result<bool> HttpRestCatalog::CreateNamespace(
    const std::vector<std::string>& parts, const std::map<std::string, std::string>& properties) {
  LITHIFY_TRY(Require(kCreateNamespace));
  LITHIFY_TRY(rest::EncodeNamespace(config_, parts));  // Whether they can be named.
  LITHIFY_TRY_ASSIGN(const HttpResponse response,
                     Post("namespaces", {}, table::CreateNamespaceToJson(parts, properties),
                          options_.max_list_bytes));
  if (response.status >= 200 && response.status < 300) return true;
  if (response.status == 409) return false;
  return Fail(
      rest::ErrorOf(response, Call::kCommit).In("POST " + net::UrlForMessages(Url("namespaces"))));
}

Result<LoadedTable> HttpRestCatalog::CreateTable(const TableIdent& ident, const TableDraft& draft) {
  LITHIFY_TRY(Require(kCreateTable));
  const auto in_table = [&](Error error) { return Fail(std::move(error).In(ident.ToString())); };
  LITHIFY_TRY_ASSIGN(const std::string encoded,
                     rest::EncodeNamespace(config_, ident.namespace_parts));
  if (ident.name.empty()) return Fail(Code::kInvalid, "the table's name is empty");
  Headers headers;
  if (options_.vended_credentials) {
    headers.emplace_back("X-Iceberg-Access-Delegation", "vended-credentials");
  }
  const std::string path = "namespaces/" + encoded + "/tables";
  Result<HttpResponse> response =
      Post(path, std::move(headers),
           table::CreateTableToJson(ident.name, draft.location, draft.schema, draft.spec,
                                    draft.properties),
           options_.max_metadata_bytes);
  if (!response) return in_table(std::move(response.error()));
  Result<LoadedTable> table = TableIn(*response, ident, path);
  if (!table) return in_table(std::move(table.error()));
  return table;
}

// A commit that asks for nothing: the catalog decides whether we may before it looks at what, and
// makes no new metadata of it.
Status HttpRestCatalog::CheckMayWrite(const LoadedTable& table) {
  const std::vector<table::TableRequirement> same = {
      table::AssertTableUuid{table.metadata.table_uuid}};
  const auto answer = CommitTable(table.ident, same, {});
  if (answer) return {};
  const Error& error = answer.error();
  switch (error.code) {
    case Code::kDenied:
    case Code::kCancelled: return Fail(error);
    // It was looked at, so it was allowed; or it is not a question that this catalog understands.
    case Code::kConflict:
    case Code::kInvalid:
    case Code::kUnsupported: return {};
    case Code::kNotFound: return Fail(error);
    // Whatever became of it, nothing was changed by it.
    default: return Fail(Code::kTransient, error.message, error.context, error.hint);
  }
}

}  // namespace

Result<std::unique_ptr<RestCatalog>> OpenRestCatalog(RestOptions options, net::HttpClient& http,
                                                     net::TokenSource* tokens, Clock& clock,
                                                     Random& random) {
  auto catalog = std::make_unique<HttpRestCatalog>(std::move(options), http, tokens, clock, random);
  LITHIFY_TRY(catalog->Open());
  return catalog;
}

}  // namespace lithify::catalog
