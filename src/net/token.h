// Where a bearer token comes from. What talks to a service holds a TokenSource, never a token: so
// a token can run out and be renewed, and no configuration struct carries one around.
#ifndef LITHIFY_NET_TOKEN_H_
#define LITHIFY_NET_TOKEN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"

namespace lithify::net {

// Thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // A token that is valid as far as is known. kDenied: the credentials are refused; kTransient:
  // worth a retry; kInvalid: the configuration is wrong; kCorrupt: an answer that is no token.
  virtual Result<Secret> Token() = 0;
  // The service refused `token` (401): the next Token() gives another one. A token that was
  // replaced in the meantime is left alone. kDenied where there can be no other.
  virtual Status Invalidate(const Secret& token) = 0;
};

// One whose token can be renewed before it has to be: for what must not fail half way because the
// token at hand runs out, like a commit at the end of a long job (R012).
class RenewableTokenSource : public TokenSource {
 public:
  // Fetches a new token, which lives for `minimum_life` at least; by one request for all who ask at
  // the same time. While the endpoint is down (kTransient) the token at hand will do if it lives
  // that long; one whose end is not known is taken to. kLimit: the endpoint gives no token that
  // lives so long; otherwise as Token(), also where the token at hand is still good: who is refused
  // a new one has lost its right.
  virtual Status Renew(Duration minimum_life) = 0;
};

// One token for ever. kInvalid from Token() if it is empty or has a character that does not belong
// in a header.
class StaticToken final : public TokenSource {
 public:
  explicit StaticToken(Secret token) : token_(std::move(token)) {}
  Result<Secret> Token() override;
  Status Invalidate(const Secret& token) override;

 private:
  const Secret token_;
};

// OAuth2 client credentials [RFC 6749, 4.4].
struct ClientCredentials {
  std::string token_endpoint;
  std::string client_id;
  Secret client_secret;
  std::string scope;  // Polaris: "PRINCIPAL_ROLE:ALL"; empty: none.
  // How the client shows itself: its secret [RFC 6749, 2.3.1], or what it signed instead, which
  // `proof` gives [RFC 7523, 2.2; net/client_assertion.h].
  enum class Authentication { kBasic, kForm, kAssertion };
  Authentication authentication = Authentication::kBasic;
  // Asked before each request for what is shown, instead of `client_secret`: a file with a secret
  // may be replaced meanwhile. Thread-safe; its errors are those of Token().
  std::function<Result<Secret>()> proof = {};
  std::map<std::string, std::string> parameters;  // More form fields: "audience", "resource".
  Duration timeout = std::chrono::seconds(5);     // Of one request to the token endpoint (R010).
  // A token is renewed that long before it runs out, or in the second half of its life if it lives
  // less than twice that (R010).
  Duration refresh_skew = std::chrono::seconds(60);
};

// Caches the token; while one thread fetches a new one, the others wait for its outcome or go on
// with the old one if that is still valid. When a token runs out is what the endpoint says
// (`expires_in`); without it a token is used until it is refused. A failed renewal goes unnoticed
// while the old token is valid. `http` and `clock` must outlive the source.
std::unique_ptr<RenewableTokenSource> MakeClientCredentialsSource(ClientCredentials credentials,
                                                                  HttpClient& http,
                                                                  const Clock& clock);

}  // namespace lithify::net

#endif  // LITHIFY_NET_TOKEN_H_
