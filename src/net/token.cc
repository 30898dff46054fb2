#include "net/token.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace lithify::net {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxAnswerBytes = 256 * 1024;
constexpr size_t kMaxWords = 500;  // Of a server's own words in an error.
// No second attempt at a renewal before that, as long as the old token is valid.
constexpr Duration kRenewalPause = std::chrono::seconds(5);

bool IsHeaderSafe(std::string_view token) {
  return !token.empty() && std::all_of(token.begin(), token.end(),
                                       [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

struct IssuedToken {
  Secret token;
  std::optional<Duration> lifetime;
};

std::string Words(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return {};
  std::string text = at->get<std::string>().substr(0, kMaxWords);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// expires_in: seconds, which some servers write as a string.
Result<std::optional<Duration>> Lifetime(const Json& answer, const std::string& where) {
  const auto at = answer.find("expires_in");
  if (at == answer.end() || at->is_null()) return std::nullopt;
  double seconds = -1;
  if (at->is_number()) {
    seconds = at->get<double>();
  } else if (at->is_string()) {
    const auto& text = at->get_ref<const std::string&>();
    const bool digits = !text.empty() && text.size() < 12 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (digits) seconds = std::stod(text);
  }
  if (!(seconds >= 0) || seconds > 1e10) {
    return Fail(Code::kCorrupt, "expires_in is not a number of seconds", where);
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

Result<IssuedToken> ParseToken(const std::string& body, const std::string& where) {
  const Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Fail(Code::kCorrupt, "the answer is not a JSON object", where);
  const auto token = answer.find("access_token");
  if (token == answer.end() || !token->is_string() ||
      !IsHeaderSafe(token->get_ref<const std::string&>())) {
    return Fail(Code::kCorrupt, "the answer has no usable access_token", where);
  }
  std::string type = Words(answer, "token_type");
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!type.empty() && type != "bearer") {
    return Fail(Code::kUnsupported, "token_type is '" + type + "', not bearer", where);
  }
  IssuedToken issued;
  issued.token = Secret(token->get_ref<const std::string&>());
  LITHIFY_TRY_ASSIGN(issued.lifetime, Lifetime(answer, where));
  return issued;
}

// An answer other than 200 as an error [RFC 6749, 5.2].
std::unexpected<Error> Refusal(const HttpResponse& response, const ClientCredentials& credentials,
                               const std::string& where) {
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  std::string words;
  if (body.is_object()) {
    words = Words(body, "error");
    const std::string more = Words(body, "error_description");
    if (!more.empty()) words += (words.empty() ? "" : ": ") + more;
  }
  std::string message = "status " + std::to_string(response.status);
  if (!words.empty()) message += ": " + credentials.client_secret.HideIn(words);
  const int status = response.status;
  if (status == 429 || status == 408 || status >= 500) {
    return Fail(Code::kTransient, std::move(message), where);
  }
  if (status == 400 || status == 401 || status == 403) {
    return Fail(Code::kDenied, "client '" + credentials.client_id + "' gets no token: " + message,
                where, "check the client id, its secret and the scope");
  }
  return Fail(Code::kInvalid, std::move(message), where, "check the token endpoint's URL");
}

class ClientCredentialsSource final : public TokenSource {
 public:
  ClientCredentialsSource(ClientCredentials credentials, HttpClient& http, const Clock& clock)
      : credentials_(std::move(credentials)), http_(http), clock_(clock) {}

  Result<Secret> Token() override;
  Status Invalidate(const Secret& token) override;

 private:
  Result<IssuedToken> Fetch() const;
  bool Valid() const {
    return !token_.empty() && (!expires_at_ || clock_.Monotonic() < *expires_at_);
  }
  bool Fresh() const { return !token_.empty() && (!renew_at_ || clock_.Monotonic() < *renew_at_); }
  // The outcome of a fetch that began at `began`. Needs mutex_.
  void Keep(Result<IssuedToken> issued, Duration began);

  const ClientCredentials credentials_;
  HttpClient& http_;
  const Clock& clock_;

  std::mutex mutex_;
  std::condition_variable landed_;
  bool in_flight_ = false;
  uint64_t flights_ = 0;        // That have landed.
  std::optional<Error> error_;  // Of the last flight.
  Secret token_;
  std::optional<Duration> expires_at_;  // Monotonic, so that a wall clock's jump does no harm.
  std::optional<Duration> renew_at_;
};

Result<IssuedToken> ClientCredentialsSource::Fetch() const {
  const std::string where = "token endpoint " + UrlForMessages(credentials_.token_endpoint);
  std::vector<std::pair<std::string, std::string>> fields{{"grant_type", "client_credentials"}};
  if (!credentials_.scope.empty()) fields.emplace_back("scope", credentials_.scope);
  for (const auto& [name, value] : credentials_.parameters) fields.emplace_back(name, value);
  HttpRequest request;
  request.method = HttpMethod::kPost;
  request.url = credentials_.token_endpoint;
  request.headers = {{"Accept", "application/json"},
                     {"Content-Type", "application/x-www-form-urlencoded"}};
  if (credentials_.authentication == ClientCredentials::Authentication::kBasic) {
    // Both parts are form-encoded before they are joined [RFC 6749, 2.3.1].
    std::string pair = PercentEncode(credentials_.client_id) + ":" +
                       PercentEncode(credentials_.client_secret.Reveal());
    std::string basic = "Basic " + EncodeBase64(pair);
    request.authorization = Secret(basic);
    Wipe(pair);
    Wipe(basic);
  } else {
    fields.emplace_back("client_id", credentials_.client_id);
    fields.emplace_back("client_secret", credentials_.client_secret.Reveal());
  }
  request.body = EncodeForm(fields);
  for (auto& [name, value] : fields) Wipe(value);
  Result<HttpResponse> response =
      http_.Send(request, HttpLimits(credentials_.timeout, credentials_.timeout, kMaxAnswerBytes));
  Wipe(request.body);
  if (!response) {
    Error error = std::move(response.error());
    // A token that was issued and got lost does no harm: ask again.
    if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
    return Fail(std::move(error).In("token endpoint"));
  }
  if (response->status != 200) return Refusal(*response, credentials_, where);
  Result<IssuedToken> issued = ParseToken(response->body, where);
  Wipe(response->body);
  return issued;
}

void ClientCredentialsSource::Keep(Result<IssuedToken> issued, Duration began) {
  if (!issued) {
    error_ = std::move(issued.error());
    // The old token serves on while it is valid; the next attempt can wait.
    if (Valid()) renew_at_ = clock_.Monotonic() + kRenewalPause;
    return;
  }
  error_.reset();
  token_ = std::move(issued->token);
  expires_at_.reset();
  renew_at_.reset();
  if (issued->lifetime) {
    expires_at_ = began + *issued->lifetime;
    renew_at_ = *expires_at_ - std::min(credentials_.refresh_skew, *issued->lifetime / 2);
  }
}

Result<Secret> ClientCredentialsSource::Token() {
  std::unique_lock lock(mutex_);
  while (!Fresh() && in_flight_ && !Valid()) {
    const uint64_t before = flights_;
    landed_.wait(lock, [&] { return flights_ != before; });
    if (error_) return Fail(*error_);  // One failure answers all that waited for it.
    // What has just come is new enough, even if it is already running out; unless it was refused
    // in the meantime.
    if (!token_.empty()) return token_;
  }
  if (Fresh() || in_flight_) return token_;
  in_flight_ = true;
  const Duration began = clock_.Monotonic();
  lock.unlock();
  Result<IssuedToken> issued = Fetch();
  lock.lock();
  Keep(std::move(issued), began);
  in_flight_ = false;
  ++flights_;
  landed_.notify_all();
  if (error_ && !Valid()) return Fail(*error_);
  return token_;
}

Status ClientCredentialsSource::Invalidate(const Secret& token) {
  std::lock_guard lock(mutex_);
  if (token_ == token) token_ = Secret();
  return {};
}

}  // namespace

Result<Secret> StaticToken::Token() {
  if (!IsHeaderSafe(token_.Reveal())) {
    return Fail(Code::kInvalid, "the token is empty or has characters that no token has");
  }
  return token_;
}

Status StaticToken::Invalidate(const Secret& token) {
  if (token != token_) return {};
  return Fail(Code::kDenied, "the token is refused, and a fixed token can't be renewed", {},
              "give a new token");
}

std::unique_ptr<TokenSource> MakeClientCredentialsSource(ClientCredentials credentials,
                                                         HttpClient& http, const Clock& clock) {
  return std::make_unique<ClientCredentialsSource>(std::move(credentials), http, clock);
}

}  // namespace lithify::net
