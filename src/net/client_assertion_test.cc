#include "net/client_assertion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/manual_clock.h"
#include "net/client_key_pair.h"
#include "net/http.h"
#include "net/jws.h"
#include "net/scripted_server.h"
#include "net/token.h"

namespace lithify::net {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const ClientKeyPair& Rsa() {
  static const ClientKeyPair pair(EVP_RSA_gen(2048));
  return pair;
}
const ClientKeyPair& Ec() {
  static const ClientKeyPair pair(EVP_EC_gen("P-256"));
  return pair;
}

// What the identity provider has of it: judged by cjose, which has nothing to do with the signer.
JsonWebKey PublicOf(const ClientKeyPair& pair) {
  JsonWebKey key;
  key.type = pair.ec() ? "EC" : "RSA";
  key.curve = pair.ec() ? "P-256" : "";
  key.json = pair.PublicJson();
  return key;
}

struct World {
  Result<Secret> Sign(const ClientKey& key) {
    return SignClientAssertion(key, "lithify", "https://id.example/token", clock, random);
  }
  ManualClock clock;
  SeededRandom random{7};
};

TEST(ClientAssertion, IsSignedByTheKeyAndSaysWhoForWhomAndForHowLong) {
  World world;
  struct Case {
    const ClientKeyPair& pair;
    std::string asked;
    std::string used;
  };
  for (const Case& c :
       {Case{Rsa(), "", "RS256"}, Case{Rsa(), "RS256", "RS256"}, Case{Rsa(), "PS256", "PS256"},
        Case{Ec(), "", "ES256"}, Case{Ec(), "ES256", "ES256"}}) {
    const auto assertion = world.Sign({c.pair.Pem(), "key-1", c.asked});
    ASSERT_TRUE(assertion) << assertion.error().ToString();
    const auto parts = SplitJws(assertion->Reveal());
    ASSERT_TRUE(parts);
    EXPECT_EQ(Json::parse(*DecodeBase64Url((*parts)[0])),
              (Json{{"alg", c.used}, {"typ", "JWT"}, {"kid", "key-1"}}));
    const auto payload = VerifyJws(assertion->Reveal(), c.used, PublicOf(c.pair));
    ASSERT_TRUE(payload) << c.used << ": " << payload.error().ToString();
    Json claims = Json::parse(*payload);
    EXPECT_TRUE(UuidV7Time(claims["jti"].get<std::string>()));
    claims.erase("jti");
    EXPECT_EQ(claims, (Json{{"iss", "lithify"},
                            {"sub", "lithify"},
                            {"aud", "https://id.example/token"},
                            {"iat", 1'800'000'000},
                            {"exp", 1'800'000'060}}));
    // Another key's: the judge can say no.
    const ClientKeyPair other(c.used == "ES256" ? EVP_EC_gen("P-256") : EVP_RSA_gen(2048));
    EXPECT_FALSE(VerifyJws(assertion->Reveal(), c.used, PublicOf(other)));
  }
}

// ECDSA's numbers are padded: one in 128 signatures has a short one.
TEST(ClientAssertion, EveryEcdsaSignatureVerifies) {
  World world;
  for (int i = 0; i < 300; ++i) {
    const auto assertion = world.Sign({Ec().Pem(), "", ""});
    ASSERT_TRUE(assertion && VerifyJws(assertion->Reveal(), "ES256", PublicOf(Ec()))) << i;
  }
}

TEST(ClientAssertion, NoTwoAreTheSame) {
  World world;
  const auto id = [&] {
    const auto assertion = world.Sign({Ec().Pem(), "", ""});
    return Json::parse(*DecodeBase64Url((*SplitJws(assertion->Reveal()))[1]))["jti"].dump();
  };
  EXPECT_NE(id(), id());
}

TEST(ClientAssertion, KeysThatAreNoneAreRefusedWithoutAWordOfThem) {
  World world;
  const ClientKeyPair ed(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const ClientKeyPair p384(EVP_EC_gen("P-384"));
  const ClientKeyPair small(EVP_RSA_gen(1024));
  struct Case {
    ClientKey key;
    const char* words;
  };
  const std::vector<Case> cases{
      {{Secret("tops3cr3t"), "", ""}, "no private key in PEM"},
      {{Secret(""), "", ""}, "no private key in PEM"},
      {{Rsa().Pem("word"), "", ""}, "with a password"},
      {{ed.Pem(), "", ""}, "neither RSA nor EC"},
      {{p384.Pem(), "", ""}, "P-256"},
      {{small.Pem(), "", ""}, "less than 2048 bits"},
      {{Rsa().Pem(), "", "ES256"}, "cannot sign with \"ES256\""},
      {{Ec().Pem(), "", "RS256"}, "cannot sign with \"RS256\""},
      {{Rsa().Pem(), "", "none"}, "cannot sign with \"none\""},
  };
  for (const Case& c : cases) {
    const auto assertion = world.Sign(c.key);
    ASSERT_FALSE(assertion) << c.words;
    EXPECT_EQ(assertion.error().code, Code::kInvalid);
    EXPECT_THAT(assertion.error().ToString(), HasSubstr(c.words));
    EXPECT_THAT(assertion.error().ToString(), Not(HasSubstr("s3cr3t")));
  }
}

// The endpoint sees the assertion in the place of a secret, another one at each request.
TEST(ClientAssertion, GetsATokenForTheClient) {
  ScriptedServer server([&](const ScriptedRequest&) {
    return Answer(200, R"({"access_token":"t1","token_type":"Bearer","expires_in":0})");
  });
  World world;
  HttpOptions options;
  options.proxy = "";
  const auto http = std::move(OpenHttpClient(options).value());
  ClientCredentials credentials;
  credentials.token_endpoint = server.Url("/token");
  credentials.client_id = "lithify";
  credentials.authentication = ClientCredentials::Authentication::kAssertion;
  credentials.proof = [&] {
    return SignClientAssertion({Ec().Pem(), "key-1", ""}, "lithify", server.Url("/token"),
                               world.clock, world.random);
  };
  const auto source = MakeClientCredentialsSource(credentials, *http, world.clock);
  ASSERT_TRUE(source->Token());
  ASSERT_TRUE(source->Token());
  const std::string before =
      "grant_type=client_credentials&client_id=lithify&client_assertion_type="
      "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=";
  ASSERT_EQ(server.Requests().size(), 2u);
  std::string last;
  for (const ScriptedRequest& request : server.Requests()) {
    EXPECT_EQ(request.headers.count("authorization"), 0u);
    ASSERT_TRUE(request.body.starts_with(before)) << request.body;
    const std::string assertion = request.body.substr(before.size());
    EXPECT_TRUE(VerifyJws(assertion, "ES256", PublicOf(Ec())));
    EXPECT_NE(assertion, last);
    last = assertion;
  }
}

}  // namespace
}  // namespace lithify::net
