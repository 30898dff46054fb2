#include "config/auth.h"

#include <algorithm>

#include "config/sources.h"

namespace lithify::config {
namespace {

// As net::IsPrivateUrl: passwords, tokens and the keys that are trusted go over no other wires.
bool IsPrivateUrl(std::string_view url) {
  const auto rest_after = [&](std::string_view scheme) {
    return url.starts_with(scheme) ? url.substr(scheme.size()) : std::string_view();
  };
  const bool plain = std::ranges::all_of(url, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || url.find_first_of("#\\") != std::string_view::npos) return false;
  const std::string_view secure = rest_after("https://");
  const std::string_view open = rest_after("http://");
  const std::string_view rest = secure.empty() ? open : secure;
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  if (authority.empty() || authority.front() == ':' || authority.find('@') != authority.npos) {
    return false;
  }
  if (!secure.empty()) return true;
  for (const std::string_view own : {"127.0.0.1", "[::1]", "localhost"}) {
    if (authority == own || authority.starts_with(std::string(own) + ":")) return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const AuthConfig& auth, std::string_view where, std::vector<std::string>& problems)
      : auth_(auth), where_(where), problems_(problems) {}

  void Check() {
    Url("issuer", auth_.issuer);
    Url("jwks_url", auth_.jwks_url);
    Url("token_endpoint", auth_.token_endpoint);
    if (auth_.issuer.find('?') != std::string::npos) Problem("issuer", "must have no query");
    CheckGrants();
    CheckOrder();
    if (!auth_.audience.empty() && !auth_.Verifies() && !auth_.Uses(AuthProvider::kTokenExchange)) {
      Problem("audience", "cannot be checked without auth.issuer or auth.jwks_url");
    }
    if (auth_.subject_claim.empty()) {
      Problem("subject_claim", "is needed: the claim that says who it is, like \"sub\"");
    }
    if (auth_.keys_life > auth_.keys_life_max) {
      Problem("keys_life", "must be at most auth.keys_life_max");
    }
    if (auth_.Uses(AuthProvider::kAnonymous) && auth_.anonymous_user.empty()) {
      Problem("anonymous_user", "is needed by the provider \"anonymous\"");
    }
  }

 private:
  void Problem(std::string_view key, std::string_view what) {
    AddProblem(problems_, where_, "auth." + std::string(key), what);
  }

  void Url(std::string_view key, const std::string& url) {
    if (url.empty() || IsPrivateUrl(url)) return;
    Problem(key,
            "must be an https URL without user and fragment (http only to 127.0.0.1, [::1] or "
            "localhost)");
  }

  void CheckGrants() {
    for (const AuthProvider provider :
         {AuthProvider::kOidcPassword, AuthProvider::kTokenExchange}) {
      if (!auth_.Uses(provider)) continue;
      const std::string by =
          " is needed by the provider \"" + std::string(AuthProviderName(provider)) + "\"";
      if (auth_.client_id.empty()) Problem("client_id", by.substr(1));
      if (auth_.token_endpoint.empty() && auth_.issuer.empty()) {
        Problem("token_endpoint", "or auth.issuer" + by);
      }
    }
    if (auth_.Uses(AuthProvider::kTokenExchange) && auth_.audience.empty()) {
      Problem("audience", "is needed by the provider \"token_exchange\": the catalog's");
    }
    if (!auth_.client_secret.empty() && auth_.client_id.empty()) {
      Problem("client_secret", "goes with auth.client_id");
    }
  }

  // What would never be reached.
  void CheckOrder() {
    if (auth_.providers.empty()) {
      Problem("providers", "must name at least one, or nobody can come in");
    }
    if (auth_.Uses(AuthProvider::kOidcPassword) && !auth_.Uses(AuthProvider::kBearer)) {
      Problem("providers",
              "\"oidc_password\" needs \"bearer\" beside it: a client goes on with the "
              "token that it is given");
    }
    bool takes_all = false;
    for (const AuthProvider provider : auth_.providers) {
      if (provider == AuthProvider::kTokenExchange && takes_all) {
        Problem("providers",
                "\"token_exchange\" after \"bearer\" is never reached: without auth.issuer or "
                "auth.jwks_url the latter takes every token");
      }
      takes_all = takes_all || (provider == AuthProvider::kBearer && !auth_.Verifies());
    }
  }

  const AuthConfig& auth_;
  const std::string_view where_;
  std::vector<std::string>& problems_;
};

}  // namespace

std::string_view AuthProviderName(AuthProvider provider) {
  for (const auto& [value, name] : kAuthProviders) {
    if (value == provider) return name;
  }
  return "";
}

bool AuthConfig::Uses(AuthProvider provider) const {
  return std::ranges::find(providers, provider) != providers.end();
}

void CheckAuth(const AuthConfig& auth, std::string_view where, std::vector<std::string>& problems) {
  Checker(auth, where, problems).Check();
}

}  // namespace lithify::config
