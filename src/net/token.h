// Where a bearer token comes from. What talks to a service holds a TokenSource, never a token: so
// a token can run out and be renewed, and no configuration struct carries one around.
#ifndef LITHIFY_NET_TOKEN_H_
#define LITHIFY_NET_TOKEN_H_

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
  // How the client shows its secret [RFC 6749, 2.3.1].
  enum class Authentication { kBasic, kForm };
  Authentication authentication = Authentication::kBasic;
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
std::unique_ptr<TokenSource> MakeClientCredentialsSource(ClientCredentials credentials,
                                                         HttpClient& http, const Clock& clock);

}  // namespace lithify::net

#endif  // LITHIFY_NET_TOKEN_H_
