// The principal at a real identity provider: Keycloak (keycloak.sh). Its clients are made here, by
// the provider's own interface for administrators, which also takes their rights away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "maintain/principal.h"
#include "net/client_key_pair.h"
#include "net/http.h"

namespace lithify::maintain {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

class PrincipalService : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ =
        std::filesystem::temp_directory_path() / ("lithify-principal-" + std::to_string(getpid()));
    base_ = Run("start '" + directory_.string() + "'");
    ASSERT_TRUE(base_.starts_with("http://127.0.0.1:")) << "the service did not start: " << base_;
    http_ = net::OpenHttpClient({.ca_file = {}, .proxy = ""}).value();
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
  static std::string Admin() {
    const auto response =
        Call(net::HttpMethod::kPost, base_ + "/realms/master/protocol/openid-connect/token",
             net::EncodeForm({{"grant_type", "password"},
                              {"username", "admin"},
                              {"password", "not a secret"},
                              {"client_id", "admin-cli"}}),
             "application/x-www-form-urlencoded");
    return Json::parse(response.body).at("access_token").get<std::string>();
  }
  static std::string Clients() { return base_ + "/admin/realms/lithify/clients"; }

  // A client that can do nothing but get a token for itself; `more` over what is usual.
  static void MakeClient(const std::string& id, const Json& more) {
    Json client = {{"clientId", id},
                   {"enabled", true},
                   {"publicClient", false},
                   {"serviceAccountsEnabled", true},
                   {"standardFlowEnabled", false},
                   {"directAccessGrantsEnabled", false},
                   {"attributes", {{"access.token.lifespan", "120"}}}};
    client.merge_patch(more);
    EXPECT_EQ(
        Call(net::HttpMethod::kPost, Clients(), client.dump(), "application/json", Admin()).status,
        201);
  }
  static void MakeKeyClient(const std::string& id, const net::ClientKeyPair& pair,
                            const std::string& algorithm) {
    const std::string key =
        pair.PublicJson(R"(,"kid":"one","use":"sig","alg":")" + algorithm + "\"");
    MakeClient(id, {{"clientAuthenticatorType", "client-jwt"},
                    {"attributes",
                     {{"use.jwks.string", "true"},
                      {"jwks.string", R"({"keys":[)" + key + "]}"},
                      {"token.endpoint.auth.signing.alg", algorithm}}}});
  }
  // Changes the client as its administrator does.
  static void ChangeClient(const std::string& id, const Json& more) {
    const std::string admin = Admin();
    Json client = Json::parse(Call(net::HttpMethod::kGet, Clients() + "?clientId=" + id, "",
                                   "application/json", admin)
                                  .body)
                      .at(0);
    client.merge_patch(more);
    EXPECT_EQ(Call(net::HttpMethod::kPut, Clients() + "/" + client.at("id").get<std::string>(),
                   client.dump(), "application/json", admin)
                  .status,
              204);
  }

  static PrincipalConfig For(const std::string& client) {
    PrincipalConfig config;
    config.token_endpoint = base_ + "/realms/lithify/protocol/openid-connect/token";
    config.client_id = client;
    return config;
  }
  static std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_ / name;
    std::ofstream(path) << text;
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path.string();
  }
  std::unique_ptr<Principal> Make(const PrincipalConfig& config) {
    return Principal::Make(config, clock_, random_, {.ca_file = {}, .proxy = ""}).value();
  }
  static Json Claims(const JobCredential& credential) {
    const std::string token = credential.tokens()->Token().value().Reveal();
    std::string part = token.substr(token.find('.') + 1);
    part.resize(part.find('.'));
    for (char& c : part) c = c == '-' ? '+' : c == '_' ? '/' : c;
    part.append((4 - part.size() % 4) % 4, '=');
    return Json::parse(net::DecodeBase64(part).value());
  }

  static inline std::filesystem::path directory_;
  static inline std::string base_;
  static inline std::unique_ptr<net::HttpClient> http_;
  SystemClock clock_;
  SystemRandom random_;
};

TEST_F(PrincipalService, ASecretGetsATokenOfItsOwnForEachJobAndBeforeACommit) {
  MakeClient("maintenance", {{"secret", "not a secret either"}});
  PrincipalConfig config = For("maintenance");
  config.client_secret = Secret("not a secret either");
  const auto principal = Make(config);
  auto one = principal->Mint("one");
  auto two = principal->Mint("two");
  ASSERT_TRUE(one && two) << (one ? two : one).error().ToString();
  EXPECT_EQ(Claims(*one).at("azp"), "maintenance");
  EXPECT_EQ(Claims(*one).at("preferred_username"), "service-account-maintenance");
  EXPECT_NE(Claims(*one).at("jti"), Claims(*two).at("jti"));
  const Json before = Claims(*one).at("jti");
  ASSERT_TRUE(one->Renew(seconds(60)));
  EXPECT_NE(Claims(*one).at("jti"), before);
  const auto longer = one->Renew(seconds(3600));  // Than the realm gives.
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, Code::kLimit);

  config.client_secret = Secret("another one");
  const auto refused = Make(config)->Mint("one");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().ToString(), Not(HasSubstr("another one")));
}

// RFC 7523, by the judgement of somebody else's code.
TEST_F(PrincipalService, APrivateKeyOfEachKind) {
  const net::ClientKeyPair rsa(EVP_RSA_gen(2048));
  const net::ClientKeyPair ec(EVP_EC_gen("P-256"));
  for (const std::string algorithm : {"RS256", "PS256", "ES256"}) {
    const net::ClientKeyPair& pair = algorithm == "ES256" ? ec : rsa;
    const std::string id = "key-" + algorithm;
    MakeKeyClient(id, pair, algorithm);
    PrincipalConfig config = For(id);
    config.private_key_file = Write("key.pem", pair.Pem().Reveal());
    config.key_id = "one";
    config.key_algorithm = algorithm;
    auto credential = Make(config)->Mint("one");
    ASSERT_TRUE(credential) << algorithm << ": " << credential.error().ToString();
    EXPECT_EQ(Claims(*credential).at("azp"), id);
    EXPECT_TRUE(credential->Renew(seconds(60)));  // No assertion is used twice.
    // Another key by the same name.
    const net::ClientKeyPair other(algorithm == "ES256" ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048));
    Write("key.pem", other.Pem().Reveal());
    const auto refused = credential->Renew(seconds(60));
    ASSERT_FALSE(refused) << algorithm;
    EXPECT_EQ(refused.error().code, Code::kDenied) << refused.error().ToString();
  }
}

// R012: whose client was taken away commits nothing, though its token would still be taken.
TEST_F(PrincipalService, AClientThatIsTakenAwayIsRefusedBeforeTheCommit) {
  MakeClient("taken", {{"secret", "s"}});
  PrincipalConfig config = For("taken");
  config.client_secret = Secret("s");
  auto credential = Make(config)->Mint("one");
  ASSERT_TRUE(credential) << credential.error().ToString();
  ASSERT_TRUE(credential->Renew(seconds(60)));
  ChangeClient("taken", {{"enabled", false}});
  const auto refused = credential->Renew(seconds(60));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied) << refused.error().ToString();
  EXPECT_TRUE(credential->tokens()->Token());
}

TEST_F(PrincipalService, ASecretIsReplacedWithoutARestart) {
  MakeClient("replaced", {{"secret", "first"}});
  PrincipalConfig config = For("replaced");
  config.client_secret_file = Write("secret", "first\n");
  auto credential = Make(config)->Mint("one");
  ASSERT_TRUE(credential) << credential.error().ToString();
  ChangeClient("replaced", {{"secret", "second"}});
  EXPECT_EQ(credential->Renew(seconds(60)).error().code, Code::kDenied);
  Write("secret", "second\n");
  EXPECT_TRUE(credential->Renew(seconds(60)));
}

// The last one: nobody is there any more.
TEST_F(PrincipalService, WhileTheProviderIsDownWhatLivesLongEnoughCommits) {
  MakeClient("lonely", {{"secret", "s"}});
  PrincipalConfig config = For("lonely");
  config.client_secret = Secret("s");
  const auto principal = Make(config);
  auto credential = principal->Mint("one");
  ASSERT_TRUE(credential) << credential.error().ToString();
  Run("stop '" + directory_.string() + "'");
  EXPECT_TRUE(credential->Renew(seconds(1)));
  EXPECT_EQ(credential->Renew(seconds(121)).error().code, Code::kTransient);
  EXPECT_EQ(principal->Mint("two").error().code, Code::kTransient);
}

}  // namespace
}  // namespace lithify::maintain
