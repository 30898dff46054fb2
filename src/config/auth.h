// [auth]: how callers of the interactive server say who they are. It is all about callers: the
// identity that works on its own is [maintenance.principal], which nothing here can name (R003).
#ifndef LITHIFY_CONFIG_AUTH_H_
#define LITHIFY_CONFIG_AUTH_H_

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"

namespace lithify::config {

// Each begins with what the caller presents; none is for a machine that has no caller.
enum class AuthProvider {
  kBearer,         // A bearer token, which goes on to the catalog as it is.
  kOidcPassword,   // User and password, for which the identity provider gives a token.
  kTokenExchange,  // A bearer token, for which it gives one for the catalog.
  kAnonymous,      // Nothing: for development.
};
inline constexpr std::array kAuthProviders = {
    std::pair{AuthProvider::kBearer, std::string_view("bearer")},
    std::pair{AuthProvider::kOidcPassword, std::string_view("oidc_password")},
    std::pair{AuthProvider::kTokenExchange, std::string_view("token_exchange")},
    std::pair{AuthProvider::kAnonymous, std::string_view("anonymous")}};
std::string_view AuthProviderName(AuthProvider provider);

struct AuthConfig {
  // Tried in this order.
  std::vector<AuthProvider> providers = {AuthProvider::kBearer};
  // Who signs tokens. With neither, tokens are not checked here, but by the catalog alone.
  std::string issuer;
  std::string jwks_url;  // Empty: what the issuer's discovery document says.
  std::string audience;  // Of the token that goes to the catalog.
  // As net::JwtRules has them.
  std::string subject_claim = "sub";
  std::string username_claim = "preferred_username";
  std::string email_claim = "email";
  std::string roles_claim;
  std::string groups_claim;
  Duration leeway = std::chrono::seconds(60);
  Duration keys_life = std::chrono::minutes(10);
  Duration keys_life_max = std::chrono::hours(1);
  // Where tokens are got, for kOidcPassword and kTokenExchange. Empty: what the issuer's discovery
  // document says.
  std::string token_endpoint;
  std::string client_id;
  Secret client_secret;  // Empty: a public client.
  std::string scope;
  std::string ca_file;  // PEM with the trusted roots, for all of these hosts; empty: the system's.
  std::string anonymous_user = "anonymous";
  std::vector<std::string> anonymous_roles;

  bool Uses(AuthProvider provider) const;
  // Whether tokens are checked here.
  bool Verifies() const { return !issuer.empty() || !jwks_url.empty(); }
  bool operator==(const AuthConfig&) const = default;
};

// Values that are each allowed, but not together; what is wrong is added to `problems`.
void CheckAuth(const AuthConfig& auth, std::string_view where, std::vector<std::string>& problems);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_AUTH_H_
