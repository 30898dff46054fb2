#include "net/jwks.h"

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace lithify::net {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxDiscoveryBytes = 256 * 1024;

Result<std::string> Get(const std::string& url, HttpClient& http, Duration timeout,
                        int64_t max_bytes) {
  HttpRequest request;
  request.url = url;
  request.headers = {{"Accept", "application/json"}};
  auto response = http.Send(request, HttpLimits(timeout, timeout, max_bytes));
  if (!response) {
    Error error = std::move(response.error());
    // A GET changes nothing.
    if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
    return Fail(std::move(error));
  }
  if (response->status == 200) return std::move(response->body);
  const int status = response->status;
  const bool later = status == 408 || status == 429 || status >= 500;
  return Fail(later ? Code::kTransient : Code::kInvalid, "status " + std::to_string(status),
              "GET " + UrlForMessages(url), later ? "" : "check the URL");
}

class JwksSource final : public KeySource {
 public:
  JwksSource(JwksOptions options, HttpClient& http, const Clock& clock)
      : options_(std::move(options)), http_(http), clock_(clock), url_(options_.jwks_url) {}

  Result<JsonWebKey> Find(const std::string& id, const std::string& algorithm) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  bool Usable() const {
    return fetched_at_ && clock_.Monotonic() - *fetched_at_ < options_.life_max;
  }
  bool Fresh() const { return fetched_at_ && clock_.Monotonic() - *fetched_at_ < options_.life; }
  bool MayAsk() const { return !asked_at_ || clock_.Monotonic() - *asked_at_ >= options_.pause; }
  // Fetches, or waits for whoever does.
  void Renew(Lock& lock);
  Result<std::vector<JsonWebKey>> Fetch(std::string& url) const;

  const JwksOptions options_;
  HttpClient& http_;
  const Clock& clock_;

  std::mutex mutex_;
  std::condition_variable landed_;
  bool in_flight_ = false;
  uint64_t flights_ = 0;
  std::string url_;
  std::vector<JsonWebKey> keys_;
  std::optional<Duration> fetched_at_;  // Monotonic, like all of them.
  std::optional<Duration> asked_at_;
  std::optional<Error> error_;  // Of the last fetch.
};

Result<std::vector<JsonWebKey>> JwksSource::Fetch(std::string& url) const {
  if (url.empty()) {
    LITHIFY_TRY_ASSIGN(auto metadata, Discover(options_.issuer, http_, options_.timeout));
    url = std::move(metadata.jwks_uri);
  }
  LITHIFY_TRY_ASSIGN(const std::string body, Get(url, http_, options_.timeout, options_.max_bytes));
  auto keys = ParseJwks(body);
  if (!keys) return Fail(std::move(keys.error()).In("GET " + UrlForMessages(url)));
  return keys;
}

void JwksSource::Renew(Lock& lock) {
  if (in_flight_) {
    const uint64_t before = flights_;
    landed_.wait(lock, [&] { return flights_ != before; });
    return;
  }
  in_flight_ = true;
  asked_at_ = clock_.Monotonic();
  std::string url = url_;
  lock.unlock();
  Result<std::vector<JsonWebKey>> keys = Fetch(url);
  lock.lock();
  if (keys) {
    keys_ = std::move(*keys);
    url_ = std::move(url);
    fetched_at_ = asked_at_;
    error_.reset();
  } else {
    error_ = std::move(keys.error()).In("the issuer's keys");
    url_ = options_.jwks_url;  // The issuer may have moved them.
  }
  in_flight_ = false;
  ++flights_;
  landed_.notify_all();
}

Result<JsonWebKey> JwksSource::Find(const std::string& id, const std::string& algorithm) {
  Lock lock(mutex_);
  if (!Fresh()) {
    // Who has keys that serve on does not wait for others' fetch.
    const bool waits = !Usable() || !in_flight_;
    if (waits && (in_flight_ || MayAsk())) Renew(lock);
  }
  if (!Usable()) {
    if (error_) return Fail(*error_);
    return Fail(Code::kTransient, "they ran out and could not be renewed", "the issuer's keys");
  }
  auto found = ChooseKey(keys_, id, algorithm);
  if (found || id.empty()) return found;
  if (in_flight_ || MayAsk()) Renew(lock);
  if (error_) return Fail(*error_);  // It may be a good key: not known is not denied.
  return ChooseKey(keys_, id, algorithm);
}

std::optional<std::string> TextMember(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

}  // namespace

bool IsPrivateUrl(std::string_view url) {
  const auto origin = UrlOrigin(url);
  if (!origin) return false;
  if (origin->starts_with("https://")) return true;
  const std::string host = origin->substr(std::string_view("http://").size());
  for (const std::string_view own : {"127.0.0.1", "[::1]", "localhost"}) {
    if (host == own || host.starts_with(std::string(own) + ":")) return true;
  }
  return false;
}

Result<IssuerMetadata> Discover(const std::string& issuer, HttpClient& http, Duration timeout) {
  std::string url = issuer;
  while (url.ends_with('/')) url.pop_back();
  url += "/.well-known/openid-configuration";
  const std::string where = "GET " + UrlForMessages(url);
  LITHIFY_TRY_ASSIGN(const std::string body, Get(url, http, timeout, kMaxDiscoveryBytes));
  const Json document = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return Fail(Code::kCorrupt, "the answer is not JSON", where);
  if (TextMember(document, "issuer") != issuer) {
    return Fail(Code::kCorrupt, "it is the document of another issuer", where,
                "write the issuer as it writes itself");
  }
  IssuerMetadata out;
  out.jwks_uri = TextMember(document, "jwks_uri").value_or("");
  out.token_endpoint = TextMember(document, "token_endpoint").value_or("");
  if (!IsPrivateUrl(out.jwks_uri)) {
    return Fail(Code::kCorrupt, "\"jwks_uri\" is no https URL", where);
  }
  if (!out.token_endpoint.empty() && !IsPrivateUrl(out.token_endpoint)) {
    return Fail(Code::kCorrupt, "\"token_endpoint\" is no https URL", where);
  }
  return out;
}

std::unique_ptr<KeySource> MakeJwksSource(JwksOptions options, HttpClient& http,
                                          const Clock& clock) {
  return std::make_unique<JwksSource>(std::move(options), http, clock);
}

}  // namespace lithify::net
