#include "net/token.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/text.h"
#include "net/token_endpoint.h"

namespace lithify::net {
namespace {

// No second attempt at a renewal before that, as long as the old token is valid.
constexpr Duration kRenewalPause = std::chrono::seconds(5);

class ClientCredentialsSource final : public RenewableTokenSource {
 public:
  ClientCredentialsSource(ClientCredentials credentials, HttpClient& http, const Clock& clock)
      : credentials_(std::move(credentials)), http_(http), clock_(clock) {}

  Result<Secret> Token() override;
  Status Invalidate(const Secret& token) override;
  Status Renew(Duration minimum_life) override;

 private:
  Result<IssuedToken> Fetch() const;
  // Fetches and keeps. `lock` holds mutex_, but not while it waits for the endpoint.
  void Fly(std::unique_lock<std::mutex>& lock);
  bool Valid() const {
    return !token_.empty() && (!expires_at_ || clock_.Monotonic() < *expires_at_);
  }
  bool LivesFor(Duration life) const {
    return !token_.empty() && (!expires_at_ || clock_.Monotonic() + life <= *expires_at_);
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

TokenRequest::Authentication AuthenticationOf(ClientCredentials::Authentication how) {
  switch (how) {
    case ClientCredentials::Authentication::kBasic: return TokenRequest::Authentication::kBasic;
    case ClientCredentials::Authentication::kForm: return TokenRequest::Authentication::kForm;
    case ClientCredentials::Authentication::kAssertion: break;
  }
  return TokenRequest::Authentication::kAssertion;
}

Result<IssuedToken> ClientCredentialsSource::Fetch() const {
  TokenRequest request;
  request.endpoint = credentials_.token_endpoint;
  request.fields = {{"grant_type", "client_credentials"}};
  if (!credentials_.scope.empty()) request.fields.emplace_back("scope", credentials_.scope);
  for (const auto& [name, value] : credentials_.parameters)
    request.fields.emplace_back(name, value);
  request.client_id = credentials_.client_id;
  request.client_secret = credentials_.client_secret;
  if (credentials_.proof) {
    LITHIFY_TRY_ASSIGN(request.client_secret, credentials_.proof());
  }
  request.authentication = AuthenticationOf(credentials_.authentication);
  request.timeout = credentials_.timeout;
  request.who = "client '" + credentials_.client_id + "'";
  request.hint_when_denied = "check the client id, its secret and the scope";
  return AskTokenEndpoint(http_, std::move(request));
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
  Fly(lock);
  if (error_ && !Valid()) return Fail(*error_);
  return token_;
}

void ClientCredentialsSource::Fly(std::unique_lock<std::mutex>& lock) {
  in_flight_ = true;
  const Duration began = clock_.Monotonic();
  lock.unlock();
  Result<IssuedToken> issued = Fetch();
  lock.lock();
  Keep(std::move(issued), began);
  in_flight_ = false;
  ++flights_;
  landed_.notify_all();
}

Status ClientCredentialsSource::Renew(Duration minimum_life) {
  std::unique_lock lock(mutex_);
  if (in_flight_) {
    const uint64_t before = flights_;
    landed_.wait(lock, [&] { return flights_ != before; });
  } else {
    Fly(lock);
  }
  if (error_) {
    if (error_->code == Code::kTransient && LivesFor(minimum_life)) return {};
    return Fail(*error_);
  }
  if (LivesFor(minimum_life)) return {};
  const std::string where = "token endpoint " + UrlForMessages(credentials_.token_endpoint);
  if (token_.empty()) return Fail(Code::kTransient, "the new token was refused at once", where);
  return Fail(
      Code::kLimit,
      "a new token lives for less than the " + FormatDuration(minimum_life) + " that are needed",
      where,
      "let the identity provider give client '" + credentials_.client_id +
          "' tokens that live longer");
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

std::unique_ptr<RenewableTokenSource> MakeClientCredentialsSource(ClientCredentials credentials,
                                                                  HttpClient& http,
                                                                  const Clock& clock) {
  return std::make_unique<ClientCredentialsSource>(std::move(credentials), http, clock);
}

}  // namespace lithify::net
