#include "net/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/jws.h"
#include "net/jwt_signed.h"

namespace lithify::net {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr Time kNow{seconds(1'800'000'000)};

// Keys of RSA take a while to make.
const SigningKey& Rsa() {
  static const SigningKey key("rsa", "RS256");
  return key;
}
const SigningKey& Other() {
  static const SigningKey key("rsa", "RS256");  // The same id.
  return key;
}

class FixedKeys final : public KeySource {
 public:
  explicit FixedKeys(const std::string& jwks) : keys_(ParseJwks(jwks).value()) {}
  Result<JsonWebKey> Find(const std::string& id, const std::string& algorithm) override {
    return ChooseKey(keys_, id, algorithm);
  }

 private:
  const std::vector<JsonWebKey> keys_;
};

JwtRules Rules() {
  JwtRules rules;
  rules.issuer = "https://id.example/realms/lithify";
  rules.audience = "lake";
  rules.roles_claim = "realm_access.roles";
  return rules;
}

// What a usual token says; a later member of `more` replaces none.
std::string Claims(const std::string& more = "", const std::string& exp = "1800000300") {
  return R"({"iss":"https://id.example/realms/lithify","aud":["account","lake"],"sub":"u-1",)"
         R"("preferred_username":"alice","email":"alice@example.org","iat":1799999990,)"
         R"("realm_access":{"roles":["analyst","steward"]},"exp":)" +
         exp + more + "}";
}

Result<JwtClaims> Verify(const std::string& token, const std::string& jwks,
                         const JwtRules& rules = Rules(), Time now = kNow) {
  FixedKeys keys(jwks);
  return VerifyJwt(token, keys, rules, now);
}

std::string Refusal(const std::string& token, const std::string& jwks,
                    const JwtRules& rules = Rules(), Time now = kNow) {
  const auto claims = Verify(token, jwks, rules, now);
  if (claims) return "taken";
  EXPECT_EQ(claims.error().code, Code::kDenied);
  const std::string text = claims.error().ToString();
  // No part of the token is told.
  for (size_t at = 0; at < token.size();) {
    const size_t dot = std::min(token.find('.', at), token.size());
    if (dot > at + 8) {
      EXPECT_THAT(text, Not(HasSubstr(token.substr(at, dot - at))));
    }
    at = dot + 1;
  }
  return text;
}

std::string RefusedClaims(const std::string& claims, const JwtRules& rules = Rules()) {
  return Refusal(Rsa().Sign(claims), JwksOf({&Rsa()}), rules);
}

TEST(Jwt, SaysWhoItIs) {
  const auto claims = Verify(Rsa().Sign(Claims()), JwksOf({&Rsa()}));
  ASSERT_TRUE(claims) << claims.error().ToString();
  EXPECT_EQ(claims->issuer, "https://id.example/realms/lithify");
  EXPECT_EQ(claims->subject, "u-1");
  EXPECT_EQ(claims->username, "alice");
  EXPECT_EQ(claims->email, "alice@example.org");
  EXPECT_THAT(claims->roles, ElementsAre("analyst", "steward"));
  EXPECT_THAT(claims->groups, IsEmpty());
  EXPECT_EQ(claims->expires_at, kNow + seconds(300));
}

TEST(Jwt, EveryAlgorithmAndNoOtherKey) {
  for (const std::string& algorithm : JwtAlgorithms()) {
    const SigningKey key("k", algorithm);
    const SigningKey other("k", algorithm);
    const std::string token = key.Sign(Claims());
    const auto claims = Verify(token, JwksOf({&key}));
    ASSERT_TRUE(claims) << algorithm << ": " << claims.error().ToString();
    EXPECT_EQ(claims->subject, "u-1");
    EXPECT_THAT(Refusal(token, JwksOf({&other})), HasSubstr("signature is not made")) << algorithm;
    JwtRules none = Rules();
    std::erase(none.algorithms, algorithm);
    EXPECT_THAT(Refusal(token, JwksOf({&key}), none), HasSubstr("not allowed")) << algorithm;
  }
  EXPECT_EQ(JwtAlgorithms().size(), 10u);
}

// [RFC 8037, A.4], made by others.
TEST(Jwt, Ed25519OfTheRfc) {
  JsonWebKey key{.id = "",
                 .type = "OKP",
                 .curve = "Ed25519",
                 .algorithm = "",
                 .json = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"};
  const std::string token =
      "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
      "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
  const auto text = VerifyJws(token, "EdDSA", key);
  ASSERT_TRUE(text) << text.error().ToString();
  EXPECT_EQ(*text, "Example of Ed25519 signing");
}

// The classics: no signature, and the public key as a shared secret.
TEST(Jwt, NeverNoneAndNeverHmac) {
  const std::string jwks = JwksOf({&Rsa()});
  for (const char* algorithm : {"none", "None", "NONE", "", "HS256", "HS384", "HS512", "dir"}) {
    const std::string header =
        EncodeBase64Url(R"({"alg":")" + std::string(algorithm) + R"(","kid":"rsa"})");
    const std::string body = header + "." + EncodeBase64Url(Claims()) + ".";
    EXPECT_THAT(Refusal(body + "AAAA", jwks), HasSubstr("not allowed")) << algorithm;
    EXPECT_THAT(Refusal(body, jwks), HasSubstr("not a signed JWT")) << algorithm;
    JwtRules rules = Rules();
    rules.algorithms = {algorithm};  // Whatever somebody configures.
    EXPECT_THAT(Refusal(body + "AAAA", jwks, rules), HasSubstr("not allowed")) << algorithm;
  }
  const SigningKey shared("rsa", "HS256");
  EXPECT_THAT(Refusal(shared.Sign(Claims()), jwks), HasSubstr("not allowed"));
  // A set that publishes a shared secret has no key for us.
  EXPECT_THAT(ParseJwks(R"({"keys":[{"kty":"oct","kid":"rsa","k":"c2VjcmV0"}]})").value(),
              IsEmpty());
}

TEST(Jwt, TheKeyMustBeForTheAlgorithm) {
  const SigningKey p256("k", "ES256");
  const SigningKey p384("k", "ES384");
  const std::string token = p256.Sign(Claims());
  EXPECT_THAT(Refusal(token, JwksOf({&p384})), HasSubstr("does not publish"));
  EXPECT_THAT(Refusal(Rsa().Sign(Claims()), JwksOf({&Rsa()}, R"(,"alg":"RS512")")),
              HasSubstr("does not publish"));
  EXPECT_THAT(Refusal(Rsa().Sign(Claims()), JwksOf({&Rsa()}, R"(,"use":"enc")")),
              HasSubstr("does not publish"));
  EXPECT_THAT(Refusal(Rsa().Sign(Claims()), JwksOf({&Rsa()}, R"(,"key_ops":["encrypt"])")),
              HasSubstr("does not publish"));
  EXPECT_TRUE(Verify(Rsa().Sign(Claims()),
                     JwksOf({&Rsa()}, R"(,"use":"sig","alg":"RS256","key_ops":["verify"])")));
  const JsonWebKey wrong{
      .id = "k", .type = "EC", .curve = "P-384", .algorithm = "", .json = p384.PublicJson()};
  EXPECT_THAT(VerifyJws(token, "ES256", wrong).error().message, HasSubstr("not for the token's"));
  JsonWebKey narrow = ParseJwks(JwksOf({&Rsa()})).value().at(0);
  const std::string by_rsa = Rsa().Sign(Claims());
  EXPECT_TRUE(VerifyJws(by_rsa, "RS256", narrow));
  narrow.algorithm = "RS512";
  EXPECT_THAT(VerifyJws(by_rsa, "RS256", narrow).error().message, HasSubstr("not for the token's"));
  const SigningKey weak("k", "RS256", 1024);
  EXPECT_THAT(Refusal(weak.Sign(Claims()), JwksOf({&weak})), HasSubstr("less than 2048 bits"));
}

TEST(Jwt, TheKeyIsTheNamedOneOrTheOnlyOne) {
  const SigningKey second("second", "RS256");
  const std::string both = JwksOf({&Rsa(), &second});
  EXPECT_TRUE(Verify(second.Sign(Claims()), both));
  EXPECT_THAT(Refusal(Other().Sign(Claims()), both), HasSubstr("signature is not made"));
  const std::string unnamed = Rsa().SignWith({{"alg", "RS256"}}, Claims());
  EXPECT_TRUE(Verify(unnamed, JwksOf({&Rsa()})));
  EXPECT_THAT(Refusal(unnamed, both), HasSubstr("does not name its key"));
  EXPECT_THAT(Refusal(Rsa().SignWith({{"alg", "RS256"}, {"kid", "third"}}, Claims()), both),
              HasSubstr("does not publish"));
}

// Each byte of a token matters.
TEST(Jwt, TamperingIsFound) {
  const std::string good = Rsa().Sign(Claims());
  const std::string jwks = JwksOf({&Rsa()});
  ASSERT_TRUE(Verify(good, jwks));
  int tried = 0;
  for (size_t at = 0; at + 1 < good.size(); at += 7) {  // The last character has unused bits.
    std::string token = good;
    token[at] = token[at] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(Verify(token, jwks)) << at;
    ++tried;
  }
  EXPECT_GT(tried, 80);
  for (size_t size = 0; size < good.size(); size += 11) {
    EXPECT_FALSE(Verify(good.substr(0, size), jwks)) << size;
  }
  const size_t dot = good.find('.');
  const std::string bob = EncodeBase64Url(R"({"iss":"https://id.example/realms/lithify",)"
                                          R"("aud":"lake","sub":"bob","exp":1800000300})");
  EXPECT_THAT(Refusal(good.substr(0, dot + 1) + bob + good.substr(good.rfind('.')), jwks),
              HasSubstr("signature is not made"));
  EXPECT_THAT(Refusal(good + ".more", jwks), HasSubstr("not a signed JWT"));
  EXPECT_THAT(Refusal(good + "\n", jwks), HasSubstr("not a signed JWT"));
  EXPECT_THAT(Refusal(std::string(20'000, 'a'), jwks), HasSubstr("longer than"));
}

TEST(Jwt, Headers) {
  const std::string jwks = JwksOf({&Rsa()});
  EXPECT_TRUE(Verify(Rsa().Sign(Claims(), "at+jwt"), jwks));
  EXPECT_TRUE(Verify(Rsa().Sign(Claims(), ""), jwks));
  EXPECT_THAT(Refusal(Rsa().Sign(Claims(), "logout+jwt"), jwks), HasSubstr("\"typ\""));
  const auto with = [&](const std::string& header) {
    return Refusal(EncodeBase64Url(header) + "." + EncodeBase64Url(Claims()) + ".AAAA", jwks);
  };
  EXPECT_THAT(with(R"({"alg":"RS256","crit":["b64"],"b64":false})"), HasSubstr("crit"));
  EXPECT_THAT(with(R"({"alg":"RS256","alg":"none"})"), HasSubstr("header is damaged"));
  EXPECT_THAT(with(R"(["RS256"])"), HasSubstr("header is damaged"));
  EXPECT_THAT(with(R"({"alg":["RS256"]})"), HasSubstr("not allowed"));
  EXPECT_THAT(with(R"({"alg":"RS256","kid":7})"), HasSubstr("kid"));
  EXPECT_THAT(with(R"({"alg":"RS256","kid":")" + std::string(600, 'k') + "\"}"), HasSubstr("kid"));
}

TEST(Jwt, IssuerAndAudience) {
  JwtRules rules = Rules();
  rules.issuer = "https://id.example/realms/other";
  EXPECT_THAT(RefusedClaims(Claims(), rules), HasSubstr("another issuer than https://id.example"));
  rules = Rules();
  rules.audience = "lak";
  EXPECT_THAT(RefusedClaims(Claims(), rules), HasSubstr("another audience than lak"));
  rules.audience = "";
  rules.issuer = "";
  EXPECT_TRUE(Verify(Rsa().Sign(R"({"sub":"x","exp":1800000300})"), JwksOf({&Rsa()}), rules));
  EXPECT_THAT(RefusedClaims(R"({"sub":"x","exp":1800000300})"), HasSubstr("another issuer"));
  const std::string issuer = R"({"iss":"https://id.example/realms/lithify","sub":"x",)";
  EXPECT_THAT(RefusedClaims(issuer + R"("exp":1800000300})"), HasSubstr("another audience"));
  EXPECT_THAT(RefusedClaims(issuer + R"("exp":1800000300,"aud":{"lake":1}})"),
              HasSubstr("another audience"));
  EXPECT_EQ(RefusedClaims(issuer + R"("exp":1800000300,"aud":"lake"})"), "taken");
}

TEST(Jwt, LifeWithLeeway) {
  const std::string token = Rsa().Sign(Claims(R"(,"nbf":1800000100)"));
  const std::string jwks = JwksOf({&Rsa()});
  const auto at = [&](int64_t offset) {
    return Refusal(token, jwks, Rules(), kNow + seconds(offset));
  };
  EXPECT_THAT(at(39), HasSubstr("not valid before 2027-01-15T08:01:40"));
  EXPECT_EQ(at(40), "taken");
  EXPECT_EQ(at(359), "taken");
  EXPECT_THAT(at(360), HasSubstr("expired at 2027-01-15T08:05:00"));
  const std::string issued = R"(,"nbf":0)";
  EXPECT_THAT(Refusal(Rsa().Sign(Claims(issued)), jwks, Rules(), kNow - seconds(71)),
              HasSubstr("issued in the future"));
  EXPECT_EQ(Refusal(Rsa().Sign(Claims(issued)), jwks, Rules(), kNow - seconds(70)), "taken");
  JwtRules strict = Rules();
  strict.leeway = seconds(0);
  EXPECT_THAT(Refusal(token, jwks, strict, kNow + seconds(300)), HasSubstr("expired"));
  EXPECT_EQ(Refusal(token, jwks, strict, kNow + seconds(299)), "taken");
}

TEST(Jwt, TimesThatAreNone) {
  for (const char* exp : {"\"1800000300\"", "-1", "1e300", "null", "true", "[1]"}) {
    EXPECT_THAT(RefusedClaims(Claims("", exp)), HasSubstr("\"exp\" is not a time")) << exp;
  }
  EXPECT_EQ(RefusedClaims(Claims("", "1800000300.5")), "taken");
  EXPECT_THAT(
      RefusedClaims(R"({"iss":"https://id.example/realms/lithify","aud":"lake","sub":"x"})"),
      HasSubstr("has no end"));
  EXPECT_THAT(RefusedClaims(Claims(R"(,"nbf":"now")")), HasSubstr("\"nbf\" is not a time"));
}

TEST(Jwt, ClaimsByPath) {
  JwtRules rules = Rules();
  const auto roles = [&](const std::string& path, const std::string& more) {
    rules.roles_claim = path;
    const auto claims = Verify(Rsa().Sign(Claims(more)), JwksOf({&Rsa()}), rules);
    if (!claims) return std::vector<std::string>{claims.error().message};
    return claims->roles;
  };
  EXPECT_THAT(roles("", ""), IsEmpty());
  EXPECT_THAT(roles("nowhere.at.all", ""), IsEmpty());  // T30: no role is no role.
  EXPECT_THAT(roles("scope", R"(,"scope":"openid  email ")"), ElementsAre("openid", "email"));
  EXPECT_THAT(roles("https://x.example/roles", R"(,"https://x.example/roles":["a"])"),
              ElementsAre("a"));
  EXPECT_THAT(
      roles("resource_access.my.app.roles", R"(,"resource_access":{"my.app":{"roles":["b","c"]}})"),
      ElementsAre("b", "c"));
  EXPECT_THAT(roles("realm_access", ""), ElementsAre(HasSubstr("is not a list")));
  EXPECT_THAT(roles("r", R"(,"r":["a",7])"), ElementsAre(HasSubstr("is not a list")));
  EXPECT_THAT(roles("r", R"(,"r":["a\nb"])"), ElementsAre(HasSubstr("is not a list")));
  rules = Rules();
  rules.username_claim = "upn";
  rules.groups_claim = "groups";
  const auto claims = Verify(Rsa().Sign(Claims(R"(,"groups":["g"])")), JwksOf({&Rsa()}), rules);
  ASSERT_TRUE(claims);
  EXPECT_EQ(claims->username, "");
  EXPECT_THAT(claims->groups, ElementsAre("g"));
}

TEST(Jwt, DamagedClaims) {
  EXPECT_THAT(RefusedClaims("[]"), HasSubstr("claims are damaged"));
  EXPECT_THAT(RefusedClaims("not json"), HasSubstr("claims are damaged"));
  EXPECT_THAT(RefusedClaims(Claims(R"(,"sub":"u-2")")), HasSubstr("claims are damaged"));
  std::string deep = R"(,"d":)";
  for (int i = 0; i < 40; ++i) deep += "[";
  for (int i = 0; i < 40; ++i) deep += "]";
  EXPECT_THAT(RefusedClaims(Claims(deep)), HasSubstr("claims are damaged"));
  JwtRules rules = Rules();
  rules.subject_claim = "uid";
  EXPECT_THAT(RefusedClaims(Claims(), rules), HasSubstr("names nobody in \"uid\""));
  EXPECT_THAT(RefusedClaims(Claims(R"(,"uid":7)"), rules), HasSubstr("not a plain text"));
  EXPECT_THAT(RefusedClaims(Claims(R"(,"uid":"a\nb")"), rules), HasSubstr("not a plain text"));
}

TEST(Jwt, UnverifiedExpiryIsOnlyRead) {
  EXPECT_EQ(UnverifiedJwtExpiry(Other().Sign(Claims())), kNow + seconds(300));
  EXPECT_EQ(UnverifiedJwtExpiry(Other().Sign(R"({"sub":"x"})")), std::nullopt);
  for (const char* opaque : {"", "abc", "a.b.c", "principal:root", "...", "gho_16C7e42F292c69"}) {
    EXPECT_EQ(UnverifiedJwtExpiry(opaque), std::nullopt) << opaque;
    EXPECT_FALSE(LooksLikeJwt(opaque)) << opaque;
  }
  EXPECT_TRUE(LooksLikeJwt(Other().Sign("{}")));
}

TEST(Jwks, WhatIsNone) {
  for (const char* text : {"", "[]", "{}", R"({"keys":{}})", "<html>"}) {
    EXPECT_EQ(ParseJwks(text).error().code, Code::kCorrupt) << text;
  }
  EXPECT_THAT(ParseJwks(R"({"keys":[7,{"kty":"RSA"},{"kty":"OKP","crv":"X25519","x":"AA"},)"
                        R"({"kty":7},{"kty":"EC","crv":"P-256","x":"AA"}]})")
                  .value(),
              IsEmpty());
  // Damaged numbers are found when the key is used.
  const std::string token = Rsa().Sign(Claims());
  EXPECT_THAT(Refusal(token, R"({"keys":[{"kty":"RSA","kid":"rsa","n":"AA","e":"AQAB"}]})"),
              HasSubstr("denied"));
  // cjose would end the process over the first.
  for (const char* number : {"uuuuu=uu", "AQAB==", "!", "AQA\\n", "A", "a+/b"}) {
    const std::string jwks =
        R"({"keys":[{"kty":"RSA","kid":"rsa","n":")" + std::string(number) +
        R"(","e":"AQAB"},{"kty":"EC","kid":"e","crv":"P-256","x":"AAAA","y":")" + number +
        R"("},{"kty":"OKP","crv":"Ed25519","kid":"k","x":")" + number + "\"}]}";
    EXPECT_THAT(ParseJwks(jwks).value(), IsEmpty()) << number;
    EXPECT_THAT(Refusal(token, jwks), HasSubstr("does not publish")) << number;
  }
}

}  // namespace
}  // namespace lithify::net
