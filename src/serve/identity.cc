#include "serve/identity.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "net/http.h"
#include "net/jwks.h"
#include "net/jwt.h"
#include "net/user_grant.h"
#include "serve/keyed_hash.h"

namespace lithify::serve {
namespace {

using config::AuthConfig;
using config::AuthProvider;
using Kind = Credentials::Kind;

constexpr size_t kHeaderBytesMax = size_t{24} * 1024;
constexpr size_t kUserBytesMax = 512;
constexpr Duration kDiscoveryTimeout = std::chrono::seconds(5);
// Tokens that were exchanged are used again for a while: a client sends its own with each call.
constexpr Duration kExchangedLifeMax = std::chrono::seconds(60);
constexpr size_t kExchangedMax = 1000;

bool IsOneWord(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Result<Credentials> ParseBasic(std::string_view encoded) {
  std::string padded(encoded);
  // Arrow's Go client, and with it ADBC, leaves the padding out.
  while (padded.size() % 4 != 0 && padded.size() < encoded.size() + 2) padded += '=';
  auto pair = net::DecodeBase64(padded);
  Wipe(padded);
  const size_t colon = pair ? pair->find(':') : std::string::npos;
  Credentials out;
  out.kind = Kind::kBasic;
  if (colon != std::string::npos) {
    out.user = pair->substr(0, colon);
    out.password = Secret(std::string_view(*pair).substr(colon + 1));
  }
  if (pair) Wipe(*pair);
  const bool plain =
      std::ranges::none_of(out.user, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (out.user.empty() || out.user.size() > kUserBytesMax || !plain) {
    return Fail(Code::kDenied, "it is no user and password", "authorization");
  }
  return out;
}

// What is common to all providers of one configuration.
class Basis {
 public:
  Basis(AuthConfig config, std::unique_ptr<net::HttpClient> client, const Clock& wall,
        Random& random)
      : auth(std::move(config)), http(std::move(client)), clock(wall), hash(random) {
    rules.issuer = auth.issuer;
    rules.audience = auth.audience;
    rules.leeway = auth.leeway;
    rules.subject_claim = auth.subject_claim;
    rules.username_claim = auth.username_claim;
    rules.email_claim = auth.email_claim;
    rules.roles_claim = auth.roles_claim;
    rules.groups_claim = auth.groups_claim;
    if (!auth.Verifies()) return;
    net::JwksOptions options;
    options.jwks_url = auth.jwks_url;
    options.issuer = auth.issuer;
    options.life = auth.keys_life;
    options.life_max = auth.keys_life_max;
    keys = net::MakeJwksSource(std::move(options), *http, clock);
  }

  // The caller that a token says, checked; or unknown, where tokens are not checked here.
  Result<Caller> Identify(const Secret& token) const {
    Caller caller;
    caller.token = token;
    if (!keys) {
      caller.name = kUnknownCaller;
      caller.owner = "token:" + hash.Of(token.Reveal());
      caller.expires_at = net::UnverifiedJwtExpiry(token.Reveal());
      return caller;
    }
    LITHIFY_TRY_ASSIGN(net::JwtClaims claims,
                       net::VerifyJwt(token.Reveal(), *keys, rules, clock.Now()));
    caller.verified = true;
    caller.name = !claims.username.empty() ? claims.username
                  : !claims.email.empty()  ? claims.email
                                           : claims.subject;
    // Lengths keep two pairs apart whose texts joined are one.
    caller.owner =
        "subject:" + std::to_string(claims.issuer.size()) + ":" + claims.issuer + claims.subject;
    caller.subject = std::move(claims.subject);
    caller.issuer = std::move(claims.issuer);
    caller.email = std::move(claims.email);
    caller.roles = std::move(claims.roles);
    caller.groups = std::move(claims.groups);
    caller.expires_at = claims.expires_at;
    return caller;
  }

  // As the configuration or the issuer says.
  Result<net::GrantClient> Client() {
    net::GrantClient client;
    client.client_id = auth.client_id;
    client.client_secret = auth.client_secret;
    client.token_endpoint = auth.token_endpoint;
    if (!client.token_endpoint.empty()) return client;
    {
      std::lock_guard lock(mutex_);
      client.token_endpoint = discovered_;
    }
    if (!client.token_endpoint.empty()) return client;
    LITHIFY_TRY_ASSIGN(const auto metadata, net::Discover(auth.issuer, *http, kDiscoveryTimeout));
    // Passwords go to the host that was configured, unless another one is, too.
    const auto endpoint = net::UrlOrigin(metadata.token_endpoint);
    const auto home = net::UrlOrigin(auth.issuer);
    if (!endpoint || !home || *endpoint != *home) {
      return Fail(Code::kInvalid, "the issuer names no token endpoint on its own host",
                  "auth.issuer", "set auth.token_endpoint");
    }
    client.token_endpoint = metadata.token_endpoint;
    std::lock_guard lock(mutex_);
    discovered_ = metadata.token_endpoint;
    return client;
  }

  // What the identity provider gave, which must be as good as one that a client brings.
  Result<Caller> IdentifyIssued(const net::IssuedToken& issued) const {
    auto caller = Identify(issued.token);
    if (!caller) return Fail(std::move(caller.error()).In("the identity provider's answer"));
    if (!caller->verified && !caller->expires_at && issued.lifetime) {
      caller->expires_at = clock.Now() + *issued.lifetime;
    }
    return caller;
  }

  const AuthConfig auth;
  const std::unique_ptr<net::HttpClient> http;
  const Clock& clock;
  const KeyedHash hash;
  net::JwtRules rules;
  std::unique_ptr<net::KeySource> keys;

 private:
  std::mutex mutex_;
  std::string discovered_;  // The token endpoint.
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual Kind takes() const = 0;
  virtual Result<Caller> Authenticate(const Credentials& credentials) = 0;
};

class Bearer final : public Provider {
 public:
  explicit Bearer(const Basis& basis) : basis_(basis) {}
  Kind takes() const override { return Kind::kBearer; }
  Result<Caller> Authenticate(const Credentials& credentials) override {
    return basis_.Identify(credentials.token);
  }

 private:
  const Basis& basis_;
};

class OidcPassword final : public Provider {
 public:
  explicit OidcPassword(Basis& basis) : basis_(basis) {}
  Kind takes() const override { return Kind::kBasic; }
  Result<Caller> Authenticate(const Credentials& credentials) override {
    LITHIFY_TRY_ASSIGN(const auto client, basis_.Client());
    LITHIFY_TRY_ASSIGN(const auto issued,
                       net::GetTokenByPassword(*basis_.http, client, credentials.user,
                                               credentials.password, basis_.auth.scope));
    LITHIFY_TRY_ASSIGN(Caller caller, basis_.IdentifyIssued(issued));
    caller.issued = true;
    // The identity provider itself has said so. The owner is the token's all the same: the client
    // comes back with nothing else.
    if (!caller.verified) caller.name = credentials.user;
    return caller;
  }

 private:
  Basis& basis_;
};

class TokenExchange final : public Provider {
 public:
  explicit TokenExchange(Basis& basis) : basis_(basis) {}
  Kind takes() const override { return Kind::kBearer; }
  Result<Caller> Authenticate(const Credentials& credentials) override {
    const std::string presented = basis_.hash.Of(credentials.token.Reveal());
    if (auto kept = Kept(presented)) return std::move(*kept);
    LITHIFY_TRY_ASSIGN(const auto client, basis_.Client());
    LITHIFY_TRY_ASSIGN(const auto issued,
                       net::ExchangeToken(*basis_.http, client, credentials.token,
                                          basis_.auth.audience, basis_.auth.scope));
    LITHIFY_TRY_ASSIGN(Caller caller, basis_.IdentifyIssued(issued));
    if (!caller.verified) caller.owner = "token:" + presented;
    Keep(presented, caller);
    return caller;
  }

 private:
  struct Entry {
    Caller caller;
    Duration until;  // Monotonic.
  };

  std::optional<Caller> Kept(const std::string& presented) {
    std::lock_guard lock(mutex_);
    const Duration now = basis_.clock.Monotonic();
    std::erase_if(kept_, [&](const auto& entry) { return entry.second.until <= now; });
    const auto at = kept_.find(presented);
    if (at == kept_.end()) return std::nullopt;
    return at->second.caller;
  }

  void Keep(const std::string& presented, const Caller& caller) {
    Duration life = kExchangedLifeMax;
    if (caller.expires_at) life = std::min(life, (*caller.expires_at - basis_.clock.Now()) / 2);
    if (life <= Duration::zero()) return;
    std::lock_guard lock(mutex_);
    if (kept_.size() >= kExchangedMax) return;
    kept_.insert_or_assign(presented, Entry{caller, basis_.clock.Monotonic() + life});
  }

  Basis& basis_;
  std::mutex mutex_;
  std::map<std::string, Entry> kept_;  // By the hash of what was presented.
};

class Anonymous final : public Provider {
 public:
  explicit Anonymous(const Basis& basis) : basis_(basis) {}
  Kind takes() const override { return Kind::kNone; }
  Result<Caller> Authenticate(const Credentials&) override {
    Caller caller;
    caller.name = basis_.auth.anonymous_user;
    caller.roles = basis_.auth.anonymous_roles;
    caller.anonymous = true;
    caller.owner = "anonymous";
    return caller;
  }

 private:
  const Basis& basis_;
};

// The whole enumeration: whoever adds to it adds to config::AuthProvider (R003).
std::unique_ptr<Provider> MakeProvider(AuthProvider provider, Basis& basis) {
  switch (provider) {
    case AuthProvider::kBearer: return std::make_unique<Bearer>(basis);
    case AuthProvider::kOidcPassword: return std::make_unique<OidcPassword>(basis);
    case AuthProvider::kTokenExchange: return std::make_unique<TokenExchange>(basis);
    case AuthProvider::kAnonymous: return std::make_unique<Anonymous>(basis);
  }
  return nullptr;
}

std::string_view Schemes(const AuthConfig& auth) {
  const bool basic = auth.Uses(AuthProvider::kOidcPassword);
  const bool bearer = auth.Uses(AuthProvider::kBearer) || auth.Uses(AuthProvider::kTokenExchange);
  if (basic && bearer) return "a bearer token, or a user and a password";
  return basic ? "a user and a password" : bearer ? "a bearer token" : "no credentials";
}

class Chain final : public Authenticator {
 public:
  explicit Chain(std::unique_ptr<Basis> basis) : basis_(std::move(basis)) {
    for (const AuthProvider provider : basis_->auth.providers) {
      providers_.emplace_back(provider, MakeProvider(provider, *basis_));
    }
  }

  Result<Caller> Authenticate(const Credentials& credentials) override {
    std::optional<Error> refusal;
    for (const auto& [name, provider] : providers_) {
      if (provider->takes() != credentials.kind) continue;
      auto caller = provider->Authenticate(credentials);
      if (caller) return caller;
      Error error = std::move(caller.error()).In(config::AuthProviderName(name));
      if (error.code != Code::kDenied) return Fail(std::move(error));
      if (refusal) error.message = refusal->ToString() + "; " + error.message;
      refusal = std::move(error);
    }
    if (refusal) return Fail(std::move(*refusal));
    const bool none = credentials.kind == Kind::kNone;
    return Fail(Code::kDenied,
                none ? "no credentials were sent" : "credentials of this kind are not taken",
                "authorization", "send " + std::string(Schemes(basis_->auth)));
  }

  std::vector<std::string> Warnings() const override {
    const AuthConfig& auth = basis_->auth;
    std::vector<std::string> out;
    if (auth.Uses(AuthProvider::kAnonymous)) {
      out.push_back(
          "auth: everybody who reaches this server may use it without credentials, as \"" +
          auth.anonymous_user + "\" (provider \"anonymous\", for development)");
    }
    if (auth.Verifies() && auth.audience.empty()) {
      out.push_back(
          "auth: without auth.audience a token that the issuer made for any other service is "
          "taken, too");
    }
    if (auth.Verifies() && auth.issuer.empty()) {
      out.push_back(
          "auth: without auth.issuer a token is taken whatever issuer it names, if a key of "
          "auth.jwks_url signed it");
    }
    if (!auth.client_secret.empty()) {
      out.push_back("auth: this server holds the secret of client \"" + auth.client_id +
                    "\"; a public client needs none. Do not allow it client credentials");
    }
    return out;
  }

 private:
  const std::unique_ptr<Basis> basis_;
  std::vector<std::pair<AuthProvider, std::unique_ptr<Provider>>> providers_;
};

}  // namespace

Result<Credentials> ParseAuthorization(std::string_view value) {
  if (value.empty()) return Credentials{};
  if (value.size() > kHeaderBytesMax) {
    return Fail(Code::kDenied, "it is too long", "authorization");
  }
  const size_t space = value.find(' ');
  std::string scheme(value.substr(0, space));
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string_view rest = space == std::string_view::npos ? "" : value.substr(space + 1);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (scheme == "basic") return ParseBasic(rest);
  if (scheme == "bearer" && IsOneWord(rest)) {
    Credentials out;
    out.kind = Kind::kBearer;
    out.token = Secret(rest);
    return out;
  }
  return Fail(Code::kDenied, "it is neither a bearer token nor a user and a password",
              "authorization");
}

Result<std::unique_ptr<Authenticator>> MakeAuthenticator(const AuthConfig& auth, const Clock& clock,
                                                         Random& random,
                                                         std::optional<std::string> proxy) {
  net::HttpOptions options;
  options.ca_file = auth.ca_file;
  options.proxy = std::move(proxy);
  LITHIFY_TRY_ASSIGN(auto http, net::OpenHttpClient(std::move(options)));
  return std::make_unique<Chain>(std::make_unique<Basis>(auth, std::move(http), clock, random));
}

}  // namespace lithify::serve
