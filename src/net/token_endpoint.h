// One request to an OAuth2 token endpoint. Private to this module: the grants that exist are
// net/token.h (a client for itself) and net/user_grant.h (a user), and nobody else makes one up.
#ifndef LITHIFY_NET_TOKEN_ENDPOINT_H_
#define LITHIFY_NET_TOKEN_ENDPOINT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"
#include "net/user_grant.h"

namespace lithify::net {

// Not empty, and nothing in it that could end a header.
bool IsHeaderSafe(std::string_view token);

struct TokenRequest {
  std::string endpoint;
  // grant_type first; values are wiped once they are sent.
  std::vector<std::pair<std::string, std::string>> fields;
  std::string client_id;
  Secret client_secret;
  // How the client shows itself [RFC 6749, 2.3.1]; kAssertion: `client_secret` is what it signed
  // [RFC 7523, 2.2]; kNone: a public client, by its id alone.
  enum class Authentication { kBasic, kForm, kAssertion, kNone };
  Authentication authentication = Authentication::kBasic;
  Duration timeout = std::chrono::seconds(5);
  std::string who;               // "client 'lithify'", for messages.
  std::vector<Secret> hide;      // In what the endpoint says, besides the client's secret.
  std::string hint_when_denied;  // "check the user name and the password".
};

// kDenied: the endpoint says no; kTransient: worth a retry (a token that was issued and got lost
// does no harm); kInvalid: it is no token endpoint; kCorrupt: an answer that is no token;
// kUnsupported: a token that is no bearer token.
Result<IssuedToken> AskTokenEndpoint(HttpClient& http, TokenRequest request);

}  // namespace lithify::net

#endif  // LITHIFY_NET_TOKEN_ENDPOINT_H_
