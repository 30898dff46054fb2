#include "net/user_grant.h"

#include <utility>
#include <vector>

#include "net/token_endpoint.h"

namespace lithify::net {
namespace {

constexpr char kAccessToken[] = "urn:ietf:params:oauth:token-type:access_token";

TokenRequest MakeRequest(const GrantClient& client) {
  TokenRequest request;
  request.endpoint = client.token_endpoint;
  request.client_id = client.client_id;
  request.client_secret = client.client_secret;
  request.authentication = client.client_secret.empty() ? TokenRequest::Authentication::kNone
                                                        : TokenRequest::Authentication::kBasic;
  request.timeout = client.timeout;
  return request;
}

}  // namespace

Result<IssuedToken> GetTokenByPassword(HttpClient& http, const GrantClient& client,
                                       const std::string& user, const Secret& password,
                                       const std::string& scope) {
  TokenRequest request = MakeRequest(client);
  request.fields = {
      {"grant_type", "password"}, {"username", user}, {"password", password.Reveal()}};
  if (!scope.empty()) request.fields.emplace_back("scope", scope);
  request.who = "the user";
  request.hide = {password};
  request.hint_when_denied = "check the user's name and password";
  return AskTokenEndpoint(http, std::move(request));
}

Result<IssuedToken> ExchangeToken(HttpClient& http, const GrantClient& client,
                                  const Secret& subject_token, const std::string& audience,
                                  const std::string& scope) {
  TokenRequest request = MakeRequest(client);
  request.fields = {{"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
                    {"subject_token", subject_token.Reveal()},
                    {"subject_token_type", kAccessToken},
                    {"requested_token_type", kAccessToken}};
  if (!audience.empty()) request.fields.emplace_back("audience", audience);
  if (!scope.empty()) request.fields.emplace_back("scope", scope);
  request.who = "the user's token";
  request.hide = {subject_token};
  request.hint_when_denied = "get a new token, and see that it may be exchanged for the audience";
  return AskTokenEndpoint(http, std::move(request));
}

}  // namespace lithify::net
