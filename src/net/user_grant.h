// Tokens of a user, by an OAuth2 token endpoint: with the user's name and password, or in exchange
// for a token that the user brought. There is no way here to a token for a client itself: what acts
// for users must not be able to act as somebody else (R003).
#ifndef LITHIFY_NET_USER_GRANT_H_
#define LITHIFY_NET_USER_GRANT_H_

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"

namespace lithify::net {

struct IssuedToken {
  Secret token;
  std::optional<Duration> lifetime;  // As the endpoint says; it need not.
};

struct GrantClient {
  std::string token_endpoint;
  std::string client_id;
  Secret client_secret;  // Empty: a public client. Else shown by HTTP Basic.
  // Of one request: somebody waits for it, and passwords are slow to check on purpose.
  Duration timeout = std::chrono::seconds(15);
};

// Both: kDenied: the endpoint says no; kTransient: worth a retry; kInvalid: the configuration is
// wrong; kCorrupt, kUnsupported: an answer that is no bearer token. Messages have neither
// password nor token. Thread-safe.

// The resource owner's password [RFC 6749, 4.3].
Result<IssuedToken> GetTokenByPassword(HttpClient& http, const GrantClient& client,
                                       const std::string& user, const Secret& password,
                                       const std::string& scope);

// An access token for an access token [RFC 8693], for `audience`.
Result<IssuedToken> ExchangeToken(HttpClient& http, const GrantClient& client,
                                  const Secret& subject_token, const std::string& audience,
                                  const std::string& scope);

}  // namespace lithify::net

#endif  // LITHIFY_NET_USER_GRANT_H_
