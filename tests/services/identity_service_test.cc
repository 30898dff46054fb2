// Who callers are, by a real identity provider: Keycloak (keycloak.sh, keycloak/*.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "net/jws.h"
#include "net/jwt_signed.h"
#include "serve/identity.h"

namespace lithify::serve {
namespace {

using config::AuthConfig;
using config::AuthProvider;
using net::EncodeBase64Url;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;
using Json = nlohmann::json;

// The machine's, and what was slept: nobody waits for a token to end.
class AheadClock final : public Clock {
 public:
  Time Now() const override { return system_.Now() + ahead_; }
  Duration Monotonic() const override { return system_.Monotonic() + ahead_; }
  void Sleep(Duration d) override { ahead_ += d; }

 private:
  SystemClock system_;
  Duration ahead_{};
};

class Identity : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ =
        std::filesystem::temp_directory_path() / ("lithify-keycloak-" + std::to_string(getpid()));
    base_ = Run("start '" + directory_.string() + "'");
    ASSERT_TRUE(base_.starts_with("http://127.0.0.1:")) << "the service did not start: " << base_;
    http_ = net::OpenHttpClient({.ca_file = {}, .proxy = ""}).value();
    (void)Token("lithify");  // The first takes a while.
  }
  static void TearDownTestSuite() {
    http_.reset();
    Run("stop '" + directory_.string() + "'");
    std::filesystem::remove_all(directory_);
  }

  // The script's output without the line's end.
  static std::string Run(const std::string& arguments) {
    std::FILE* pipe = popen(("'" LITHIFY_KEYCLOAK "' " + arguments).c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }

  static std::string Realm(const std::string& name) { return base_ + "/realms/" + name; }

  static net::HttpResponse Call(net::HttpMethod method, const std::string& url,
                                const std::string& body, const std::string& type,
                                const std::string& token = "") {
    net::HttpRequest request;
    request.method = method;
    request.url = url;
    request.headers = {{"Content-Type", type}};
    if (!token.empty()) request.authorization = Secret("Bearer " + token);
    request.body = body;
    auto response = http_->Send(request, net::HttpLimits(seconds(10), seconds(60), 1 << 22));
    EXPECT_TRUE(response) << response.error().ToString();
    return response ? *response : net::HttpResponse{};
  }
  // All that the token endpoint gives: access_token, id_token, refresh_token.
  static Json Tokens(const std::string& client, const std::string& realm = "lithify",
                     const std::string& user = "alice",
                     const std::string& password = "wonderland") {
    const auto response =
        Call(net::HttpMethod::kPost, Realm(realm) + "/protocol/openid-connect/token",
             net::EncodeForm({{"grant_type", "password"},
                              {"username", user},
                              {"password", password},
                              {"client_id", client},
                              {"scope", "openid"}}),
             "application/x-www-form-urlencoded");
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }
  static std::string Token(const std::string& client, const std::string& realm = "lithify") {
    return Tokens(client, realm).at("access_token").get<std::string>();
  }
  static std::string Part(const std::string& token, size_t n) {
    return net::DecodeBase64Url((*net::SplitJws(token))[n]).value();
  }

  AuthConfig Config() const {
    AuthConfig auth;
    auth.providers = {AuthProvider::kOidcPassword, AuthProvider::kBearer};
    auth.issuer = Realm("lithify");
    auth.audience = "lake";
    auth.client_id = "lithify";
    auth.roles_claim = "realm_access.roles";
    auth.leeway = seconds(0);
    auth.keys_life = seconds(10);
    return auth;
  }
  Authenticator& Auth() {
    if (!authenticator_) authenticator_ = MakeAuthenticator(auth_, clock_, random_, "").value();
    return *authenticator_;
  }
  Result<Caller> Come(const std::string& header) {
    LITHIFY_TRY_ASSIGN(const Credentials credentials, ParseAuthorization(header));
    return Auth().Authenticate(credentials);
  }
  Caller Good(const std::string& token) {
    auto caller = Come("Bearer " + token);
    EXPECT_TRUE(caller) << caller.error().ToString();
    return caller ? *caller : Caller{};
  }
  std::string Refused(const std::string& token) {
    const auto caller = Come("Bearer " + token);
    if (caller) return "taken";
    EXPECT_EQ(caller.error().code, Code::kDenied) << caller.error().ToString();
    EXPECT_THAT(caller.error().ToString(), Not(HasSubstr(token)));
    return caller.error().ToString();
  }

  static inline std::filesystem::path directory_;
  static inline std::string base_;
  static inline std::unique_ptr<net::HttpClient> http_;
  AheadClock clock_;
  SystemRandom random_;
  AuthConfig auth_ = Config();
  std::unique_ptr<Authenticator> authenticator_;
};

TEST_F(Identity, UserAndPassword) {
  const auto caller = Come("Basic " + net::EncodeBase64("alice:wonderland"));
  ASSERT_TRUE(caller) << caller.error().ToString();
  EXPECT_EQ(caller->name, "alice");
  EXPECT_EQ(caller->email, "alice@example.org");
  EXPECT_EQ(caller->issuer, Realm("lithify"));
  EXPECT_THAT(caller->roles, UnorderedElementsAre("analyst", "steward"));
  EXPECT_TRUE(caller->verified);
  EXPECT_TRUE(caller->issued);
  ASSERT_TRUE(caller->expires_at);
  EXPECT_GT(*caller->expires_at, clock_.Now() + seconds(200));
  EXPECT_LE(*caller->expires_at, clock_.Now() + seconds(300));
  // The client goes on with the token that it was given.
  const Caller later = Good(caller->token.Reveal());
  EXPECT_EQ(later.owner, caller->owner);
  const auto bob = Come("Basic " + net::EncodeBase64("bob:builder"));
  ASSERT_TRUE(bob);
  EXPECT_NE(bob->owner, caller->owner);
  EXPECT_THAT(bob->roles, UnorderedElementsAre("analyst"));

  for (const char* wrong : {"alice:builder", "alice:", "nobody:wonderland"}) {
    const auto refused = Come("Basic " + net::EncodeBase64(wrong));
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, Code::kDenied);
    EXPECT_THAT(refused.error().ToString(), HasSubstr("Invalid user credentials"));
    EXPECT_THAT(refused.error().ToString(), Not(HasSubstr("wonderland")));
  }
}

TEST_F(Identity, EveryAlgorithmOfTheProvider) {
  for (const auto& [client, algorithm] : std::map<std::string, std::string>{{"lithify", "RS256"},
                                                                            {"es256", "ES256"},
                                                                            {"es512", "ES512"},
                                                                            {"ps256", "PS256"},
                                                                            {"eddsa", "EdDSA"}}) {
    const std::string token = Token(client);
    EXPECT_EQ(Json::parse(Part(token, 0)).at("alg"), algorithm);
    clock_.Sleep(seconds(10));  // Keycloak makes a key at the first token that needs it.
    EXPECT_EQ(Good(token).name, "alice") << client;
  }
}

TEST_F(Identity, AnotherAudienceIssuerOrRealm) {
  EXPECT_THAT(Refused(Token("console")), HasSubstr("another audience than lake"));
  const std::string theirs = Token("lithify", "other");
  EXPECT_EQ(Json::parse(Part(theirs, 1)).at("aud"), "lake");
  EXPECT_THAT(Refused(theirs), HasSubstr("does not publish"));
  // By the other realm's keys it is signed well, and still of another issuer.
  authenticator_.reset();
  auth_.jwks_url = Realm("other") + "/protocol/openid-connect/certs";
  EXPECT_THAT(Refused(theirs), HasSubstr("another issuer than"));
  // A discovery document of another issuer than the one that was configured.
  authenticator_.reset();
  auth_ = Config();
  auth_.issuer += "/";
  const auto wrong = Come("Bearer " + Token("lithify"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kCorrupt);
  EXPECT_THAT(wrong.error().ToString(), HasSubstr("document of another issuer"));
}

TEST_F(Identity, ForgedAndTampered) {
  const std::string good = Token("lithify");
  ASSERT_EQ(Good(good).name, "alice");
  const std::string header = Part(good, 0);
  const std::string kid = Json::parse(header).at("kid");
  Json claims = Json::parse(Part(good, 1));
  // Another key by the same name, with Keycloak's own claims.
  const net::SigningKey forger(kid, "RS256");
  EXPECT_THAT(Refused(forger.Sign(claims.dump())), HasSubstr("signature is not made"));
  claims["preferred_username"] = "admin";
  claims["realm_access"]["roles"] = {"everything"};
  const std::string signature = good.substr(good.rfind('.'));
  const std::string first = good.substr(0, good.find('.') + 1);
  EXPECT_THAT(Refused(first + EncodeBase64Url(claims.dump()) + signature),
              HasSubstr("signature is not made"));
  Json none = Json::parse(header);
  none["alg"] = "none";
  const std::string unsigned_token =
      EncodeBase64Url(none.dump()) + "." + EncodeBase64Url(claims.dump()) + ".";
  EXPECT_THAT(Refused(unsigned_token), HasSubstr("not a signed JWT"));
  EXPECT_THAT(Refused(unsigned_token + signature.substr(1)), HasSubstr("not allowed"));
  const net::SigningKey shared(kid, "HS256");
  EXPECT_THAT(Refused(shared.Sign(claims.dump())), HasSubstr("not allowed"));
  const net::SigningKey unknown("made up", "RS256");
  EXPECT_THAT(Refused(unknown.Sign(claims.dump())), HasSubstr("does not publish"));
}

// What else the provider gives with an access token is none.
TEST_F(Identity, OtherTokensOfTheProvider) {
  const Json tokens = Tokens("lithify");
  EXPECT_THAT(Refused(tokens.at("id_token")), HasSubstr("another audience"));
  EXPECT_THAT(Refused(tokens.at("refresh_token")), HasSubstr("not allowed"));
}

TEST_F(Identity, TokensEnd) {
  const std::string token = Token("lithify");
  const std::string brief = Token("brief");
  const Caller caller = Good(brief);
  // Q14: it lives for a minute.
  EXPECT_TRUE(CheckTokenLife(caller, clock_.Now(), seconds(1)));
  EXPECT_FALSE(CheckTokenLife(caller, clock_.Now(), seconds(60)));
  clock_.Sleep(seconds(61));
  EXPECT_THAT(Refused(brief), HasSubstr("expired at"));
  EXPECT_EQ(Good(token).name, "alice");
  clock_.Sleep(seconds(240));
  EXPECT_THAT(Refused(token), HasSubstr("expired at"));
  // An issuer whose clock is ahead of ours.
  clock_.Sleep(-seconds(600));
  EXPECT_THAT(Refused(token), HasSubstr("issued in the future"));
}

TEST_F(Identity, Exchange) {
  auth_.providers = {AuthProvider::kTokenExchange};
  auth_.client_id = "exchanger";
  auth_.client_secret = Secret("not a secret");
  const std::string brought = Token("lithify");
  const Caller caller = Good(brought);
  EXPECT_EQ(caller.name, "alice");
  EXPECT_NE(caller.token.Reveal(), brought);
  EXPECT_EQ(Json::parse(Part(caller.token.Reveal(), 1)).at("aud"), "lake");
  EXPECT_THAT(Refused(Token("lithify", "other")), HasSubstr("the user's token gets no token"));
  // One that was not made for lithify at all.
  EXPECT_THAT(Refused(Token("console")), HasSubstr("gets no token"));
}

// The keys of the realm change while tokens are out.
TEST_F(Identity, RotatedKeys) {
  const std::string old = Token("lithify");
  EXPECT_EQ(Good(old).name, "alice");
  const std::string admin = [] {
    const auto response =
        Call(net::HttpMethod::kPost, Realm("master") + "/protocol/openid-connect/token",
             net::EncodeForm({{"grant_type", "password"},
                              {"username", "admin"},
                              {"password", "not a secret"},
                              {"client_id", "admin-cli"}}),
             "application/x-www-form-urlencoded");
    return Json::parse(response.body).at("access_token").get<std::string>();
  }();
  const std::string components = base_ + "/admin/realms/lithify/components";
  const Json added = {{"name", "rotated"},
                      {"providerId", "rsa-generated"},
                      {"providerType", "org.keycloak.keys.KeyProvider"},
                      {"config",
                       {{"priority", {"500"}},
                        {"algorithm", {"RS256"}},
                        {"keySize", {"2048"}},
                        {"enabled", {"true"}},
                        {"active", {"true"}}}}};
  EXPECT_EQ(
      Call(net::HttpMethod::kPost, components, added.dump(), "application/json", admin).status,
      201);
  const std::string fresh = Token("lithify");
  EXPECT_NE(Json::parse(Part(fresh, 0)).at("kid"), Json::parse(Part(old, 0)).at("kid"));
  clock_.Sleep(seconds(10));  // Until the keys may be asked for again.
  EXPECT_EQ(Good(fresh).name, "alice");
  EXPECT_EQ(Good(old).name, "alice");
  // The old key goes, and with it the tokens that it signed.
  const Json all =
      Json::parse(Call(net::HttpMethod::kGet, components + "?type=org.keycloak.keys.KeyProvider",
                       "", "application/json", admin)
                      .body);
  int removed = 0;
  for (const Json& component : all) {
    if (component.at("providerId") != "rsa-generated" || component.at("name") == "rotated")
      continue;
    const std::string url = components + "/" + component.at("id").get<std::string>();
    removed += Call(net::HttpMethod::kDelete, url, "", "application/json", admin).status == 204;
  }
  EXPECT_GE(removed, 1);
  clock_.Sleep(seconds(10));
  EXPECT_EQ(Good(fresh).name, "alice");
  EXPECT_THAT(Refused(old), HasSubstr("does not publish"));
}

}  // namespace
}  // namespace lithify::serve
