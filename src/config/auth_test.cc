#include "config/auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.h"

namespace lithify::config {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Problem(const std::string& auth) {
  const auto config = LoadHiveConfig("[auth]\n" + auth, "lithify.toml", {}, {});
  if (config) return "none";
  EXPECT_EQ(config.error().code, Code::kInvalid);
  return config.error().message;
}

AuthConfig Good(const std::string& auth) {
  const auto config = LoadHiveConfig("[auth]\n" + auth, "lithify.toml", {}, {});
  EXPECT_TRUE(config) << config.error().ToString();
  return config ? config->auth : AuthConfig{};
}

TEST(AuthConfig, Defaults) {
  const AuthConfig auth = Good("");
  EXPECT_THAT(auth.providers, ElementsAre(AuthProvider::kBearer));
  EXPECT_FALSE(auth.Verifies());
  EXPECT_EQ(auth.subject_claim, "sub");
  EXPECT_EQ(auth.username_claim, "preferred_username");
  EXPECT_EQ(auth.roles_claim, "");
  EXPECT_EQ(auth.leeway, seconds(60));
  EXPECT_EQ(auth.keys_life, minutes(10));
  EXPECT_EQ(auth.keys_life_max, hours(1));
  EXPECT_EQ(auth.anonymous_user, "anonymous");
  EXPECT_THAT(auth.anonymous_roles, IsEmpty());
}

constexpr const char* kAll =
    R"(providers = ["oidc_password", "bearer", "token_exchange", "anonymous"]
issuer = "https://id.example/realms/lithify"
jwks_url = "https://id.example/keys"
audience = "lake"
subject_claim = "uid"
username_claim = "upn"
email_claim = "mail"
roles_claim = "realm_access.roles"
groups_claim = "groups"
leeway = "5s"
keys_life = "1min"
keys_life_max = "2h"
token_endpoint = "http://127.0.0.1:8080/token"
client_id = "lithify"
client_secret = "s3cr3t"
scope = "openid"
ca_file = "/etc/ca.pem"
anonymous_user = "dev"
anonymous_roles = ["a", "b"]
)";

TEST(AuthConfig, EveryKeyAndBack) {
  const AuthConfig auth = Good(kAll);
  EXPECT_THAT(auth.providers, ElementsAre(AuthProvider::kOidcPassword, AuthProvider::kBearer,
                                          AuthProvider::kTokenExchange, AuthProvider::kAnonymous));
  EXPECT_EQ(auth.issuer, "https://id.example/realms/lithify");
  EXPECT_EQ(auth.client_secret.Reveal(), "s3cr3t");
  EXPECT_THAT(auth.anonymous_roles, ElementsAre("a", "b"));
  HiveConfig config = *LoadHiveConfig("", "", {}, {});
  config.auth = auth;
  const std::string dump = DumpHiveConfig(config);
  EXPECT_THAT(dump, Not(HasSubstr("s3cr3t")));
  AuthConfig again = LoadHiveConfig(dump, "dump", {}, {})->auth;
  EXPECT_EQ(again.client_secret.Reveal(), "***");
  again.client_secret = auth.client_secret;
  EXPECT_EQ(again, auth);
}

// R003: four providers, all of which begin with a caller. Whoever adds a fifth reads this first.
TEST(AuthConfig, NoProviderIsForAMachine) {
  std::vector<std::string_view> names;
  for (const auto& [provider, name] : kAuthProviders) {
    EXPECT_EQ(AuthProviderName(provider), name);
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("bearer", "oidc_password", "token_exchange", "anonymous"));
  for (const char* machine : {"client_credentials", "oidc_m2m", "m2m", "service_account", "aws_iam",
                              "api_key", "mtls", "maintenance", "principal", "Bearer", ""}) {
    EXPECT_THAT(Problem("providers = [\"" + std::string(machine) + "\"]"),
                HasSubstr("auth.providers"))
        << machine;
  }
  EXPECT_THAT(Problem(R"(providers = ["client_credentials"])"),
              HasSubstr("nothing here is for a machine"));
}

TEST(AuthConfig, WhatDoesNotFitTogetherIsToldAtOnce) {
  const std::string all = Problem(R"(providers = ["bearer", "token_exchange", "anonymous"]
jwks_url = ""
subject_claim = ""
anonymous_user = ""
keys_life = "2h"
)");
  for (const char* words :
       {"auth.client_id: is needed by the provider \"token_exchange\"",
        "auth.token_endpoint: or auth.issuer is needed by the provider \"token_exchange\"",
        "auth.audience: is needed by", "\"token_exchange\" after \"bearer\" is never reached",
        "auth.subject_claim: is needed", "auth.anonymous_user: is needed",
        "auth.keys_life: must be at most auth.keys_life_max"}) {
    EXPECT_THAT(all, HasSubstr(words));
  }
  EXPECT_THAT(Problem("providers = []"), HasSubstr("nobody can come in"));
  EXPECT_THAT(Problem("audience = \"lake\""), HasSubstr("cannot be checked"));
  EXPECT_THAT(Problem("client_secret = \"hunter2\""), HasSubstr("goes with auth.client_id"));
  EXPECT_THAT(Problem("client_secret = \"hunter2\""), Not(HasSubstr("hunter2")));
  EXPECT_THAT(Problem("providers = [\"oidc_password\", \"bearer\"]"), HasSubstr("auth.client_id"));
  EXPECT_THAT(Problem("providers = [\"oidc_password\"]"), HasSubstr("needs \"bearer\" beside it"));
  EXPECT_EQ(Problem("providers = [\"oidc_password\", \"bearer\"]\nclient_id = \"c\"\n"
                    "issuer = \"https://id.example\""),
            "none");
}

TEST(AuthConfig, AddressesArePrivate) {
  for (const char* key : {"issuer", "jwks_url", "token_endpoint"}) {
    const auto with = [&](const std::string& url) {
      return Problem(std::string(key) + " = \"" + url + "\"");
    };
    for (const char* url : {"http://id.example/x", "http://127.0.0.1.evil.example", "ftp://x",
                            "http://localhost.evil.example", "https://u:p@id.example", "id.example",
                            "http://127.0.0.1@evil.example/", "https://", "https://:80/",
                            "https://id.example/#x", "https://id .example"}) {
      EXPECT_THAT(with(url), HasSubstr("must be an https URL")) << key << " " << url;
    }
    for (const char* url : {"https://id.example/x", "http://127.0.0.1:8080/x", "http://localhost",
                            "http://[::1]:80/x"}) {
      EXPECT_EQ(with(url), "none") << key << " " << url;
    }
  }
  EXPECT_THAT(Problem("issuer = \"https://id.example/?x=1\""), HasSubstr("must have no query"));
}

TEST(AuthConfig, Ranges) {
  EXPECT_THAT(Problem("leeway = \"6min\""), HasSubstr("auth.leeway"));
  EXPECT_THAT(Problem("keys_life = \"1s\""), HasSubstr("auth.keys_life"));
  EXPECT_THAT(Problem("jwks_uri = \"x\""), HasSubstr("did you mean \"auth.jwks_url\"?"));
}

}  // namespace
}  // namespace lithify::config
