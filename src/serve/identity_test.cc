#include "serve/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/manual_clock.h"
#include "net/jwt_signed.h"
#include "net/scripted_server.h"

namespace lithify::serve {
namespace {

using config::AuthConfig;
using config::AuthProvider;
using net::Answer;
using net::EncodeBase64;
using net::ScriptedAnswer;
using net::ScriptedRequest;
using net::ScriptedServer;
using net::SigningKey;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const SigningKey& Key() {
  static const SigningKey key("k", "ES256");
  return key;
}

// An identity provider: discovery, keys, and a token endpoint that answers as it is told.
struct World {
  World() : server([this](const ScriptedRequest& request) { return Serve(request); }) {
    auth.issuer = "";
  }
  ScriptedAnswer Serve(const ScriptedRequest& request) {
    std::lock_guard lock(mutex);
    if (request.target == "/realm/.well-known/openid-configuration") {
      return Answer(200, R"({"issuer":")" + server.Url("/realm") + R"(","jwks_uri":")" +
                             server.Url("/keys") + R"(","token_endpoint":")" + token_endpoint +
                             "\"}");
    }
    if (request.target == "/keys") return Answer(keys_status, net::JwksOf({&Key()}));
    return Answer(status, body);
  }
  void UseIssuer() {
    auth.issuer = server.Url("/realm");
    token_endpoint = server.Url("/token");
    auth.audience = "lake";
    auth.roles_claim = "roles";
  }
  // Good for five minutes.
  std::string Token(const std::string& subject, const std::string& audience = "lake",
                    const SigningKey& key = Key()) {
    return key.Sign(R"({"iss":")" + server.Url("/realm") + R"(","aud":")" + audience +
                    R"(","sub":")" + subject + R"(","preferred_username":"name of )" + subject +
                    R"(","roles":["analyst"],"exp":1800000300})");
  }
  void Issue(const std::string& token) {
    std::lock_guard lock(mutex);
    status = 200;
    body = R"({"access_token":")" + token + R"(","token_type":"Bearer","expires_in":300})";
  }
  void Refuse(int new_status, const std::string& new_body) {
    std::lock_guard lock(mutex);
    status = new_status;
    body = new_body;
  }
  Authenticator& Auth() {
    if (!authenticator) {
      authenticator = std::move(MakeAuthenticator(auth, clock, random, "").value());
    }
    return *authenticator;
  }
  Result<Caller> Come(const std::string& header) {
    const auto credentials = ParseAuthorization(header);
    if (!credentials) return Fail(credentials.error());
    return Auth().Authenticate(*credentials);
  }
  Caller Good(const std::string& header) {
    auto caller = Come(header);
    EXPECT_TRUE(caller) << caller.error().ToString();
    return caller ? *caller : Caller{};
  }
  std::string Refused(const std::string& header, Code code = Code::kDenied) {
    const auto caller = Come(header);
    EXPECT_FALSE(caller);
    if (caller) return "taken";
    EXPECT_EQ(caller.error().code, code) << caller.error().ToString();
    return caller.error().ToString();
  }
  std::vector<ScriptedRequest> Asked(const std::string& target) {
    std::vector<ScriptedRequest> out;
    for (const ScriptedRequest& request : server.Requests()) {
      if (request.target == target) out.push_back(request);
    }
    return out;
  }

  std::mutex mutex;
  std::string token_endpoint;
  int keys_status = 200;
  int status = 500;
  std::string body;
  AuthConfig auth;
  ManualClock clock;
  SeededRandom random{11};
  ScriptedServer server;
  std::unique_ptr<Authenticator> authenticator;
};

std::string Basic(const std::string& user, const std::string& password) {
  return "Basic " + EncodeBase64(user + ":" + password);
}

TEST(Authorization, Parses) {
  EXPECT_EQ(ParseAuthorization("")->kind, Credentials::Kind::kNone);
  const auto bearer = ParseAuthorization("bearer  abc.def");
  ASSERT_TRUE(bearer);
  EXPECT_EQ(bearer->kind, Credentials::Kind::kBearer);
  EXPECT_EQ(bearer->token.Reveal(), "abc.def");
  const auto basic = ParseAuthorization(Basic("alice", "p:w \xc3\xa4"));
  ASSERT_TRUE(basic);
  EXPECT_EQ(basic->kind, Credentials::Kind::kBasic);
  EXPECT_EQ(basic->user, "alice");
  EXPECT_EQ(basic->password.Reveal(), "p:w \xc3\xa4");
  // As ADBC writes it: without the padding.
  for (const char* password : {"x", "xy", "xyz"}) {
    std::string header = Basic("alice", password);
    while (header.ends_with('=')) header.pop_back();
    const auto bare = ParseAuthorization(header);
    ASSERT_TRUE(bare) << header;
    EXPECT_EQ(bare->password.Reveal(), password);
  }
  for (const std::string& bad :
       {std::string("Bearer"), std::string("Bearer "), std::string("Bearer a b"),
        std::string("Bearer a\r\nX: y"), std::string("Basic !!!"), std::string("Basic"),
        "Basic " + EncodeBase64("no colon"), Basic("", "x"), Basic("a\nb", "x"),
        Basic(std::string(600, 'a'), "x"), std::string("Negotiate abc"), std::string("abc"),
        "Bearer " + std::string(30'000, 'a')}) {
    const auto parsed = ParseAuthorization(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Code::kDenied);
  }
}

// R018: what is not checked is not believed.
TEST(Identity, AnOpaqueTokenIsForwardedUntouched) {
  World world;
  const Caller caller = world.Good("Bearer opaque-Token/1+2==");
  EXPECT_EQ(caller.token.Reveal(), "opaque-Token/1+2==");
  EXPECT_EQ(caller.name, "unknown");
  EXPECT_EQ(caller.subject, "");
  EXPECT_THAT(caller.roles, IsEmpty());
  EXPECT_FALSE(caller.verified);
  EXPECT_FALSE(caller.issued);
  EXPECT_FALSE(caller.expires_at);
  EXPECT_THAT(caller.owner, Not(HasSubstr("opaque")));
  EXPECT_EQ(caller.owner, world.Good("Bearer opaque-Token/1+2==").owner);
  EXPECT_NE(caller.owner, world.Good("Bearer opaque-Token/1+3==").owner);

  const std::string unchecked = world.Token("alice");
  const Caller claimed = world.Good("Bearer " + unchecked);
  EXPECT_EQ(claimed.token.Reveal(), unchecked);
  EXPECT_EQ(claimed.name, "unknown");
  EXPECT_THAT(claimed.roles, IsEmpty());
  EXPECT_EQ(claimed.expires_at, Time{seconds(1'800'000'300)});
  EXPECT_THAT(world.server.Requests(), IsEmpty());
}

TEST(Identity, AVerifiedToken) {
  World world;
  world.UseIssuer();
  const std::string token = world.Token("alice");
  const Caller caller = world.Good("Bearer " + token);
  EXPECT_EQ(caller.token.Reveal(), token);
  EXPECT_EQ(caller.name, "name of alice");
  EXPECT_EQ(caller.subject, "alice");
  EXPECT_EQ(caller.issuer, world.auth.issuer);
  EXPECT_THAT(caller.roles, ElementsAre("analyst"));
  EXPECT_TRUE(caller.verified);
  EXPECT_EQ(caller.expires_at, Time{seconds(1'800'000'300)});
  // Another token of the same subject is the same owner.
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Good("Bearer " + world.Token("alice")).owner, caller.owner);
  EXPECT_NE(world.Good("Bearer " + world.Token("bob")).owner, caller.owner);
  EXPECT_EQ(world.Asked("/keys").size(), 1u);

  const SigningKey other("k", "ES256");
  EXPECT_THAT(world.Refused("Bearer " + world.Token("alice", "lake", other)),
              HasSubstr("bearer: token: the signature is not made"));
  EXPECT_THAT(world.Refused("Bearer " + world.Token("alice", "other")),
              HasSubstr("another audience than lake"));
  EXPECT_THAT(world.Refused("Bearer opaque"), HasSubstr("not a signed JWT"));
  EXPECT_THAT(world.Refused(""), HasSubstr("no credentials were sent"));
  EXPECT_THAT(world.Refused(""), HasSubstr("send a bearer token"));
  EXPECT_THAT(world.Refused(Basic("alice", "x")), HasSubstr("of this kind are not taken"));
  world.clock.Sleep(seconds(360));
  EXPECT_THAT(world.Refused("Bearer " + token), HasSubstr("expired"));
}

TEST(Identity, WhileTheIssuerCannotBeAskedNobodyIsDenied) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kBearer, AuthProvider::kTokenExchange,
                          AuthProvider::kAnonymous};
  world.auth.client_id = "lithify";
  world.keys_status = 503;
  EXPECT_THAT(world.Refused("Bearer " + world.Token("alice"), Code::kTransient),
              HasSubstr("status 503"));
  EXPECT_THAT(world.Asked("/token"), IsEmpty());  // Nor is anything else tried.
}

TEST(Identity, PasswordsBecomeTokens) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kOidcPassword, AuthProvider::kBearer};
  world.auth.client_id = "lithify";
  world.auth.scope = "openid";
  const std::string token = world.Token("alice");
  world.Issue(token);
  const Caller caller = world.Good(Basic("alice", "wonder&land"));
  EXPECT_EQ(caller.token.Reveal(), token);
  EXPECT_EQ(caller.name, "name of alice");
  EXPECT_TRUE(caller.verified);
  EXPECT_TRUE(caller.issued);
  const auto asked = world.Asked("/token");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].body,
            "grant_type=password&username=alice&password=wonder%26land&scope=openid&"
            "client_id=lithify");
  // The client goes on with the token, as the same owner.
  const Caller later = world.Good("Bearer " + token);
  EXPECT_FALSE(later.issued);
  EXPECT_EQ(later.owner, caller.owner);
  // Nothing is kept: each time it is asked.
  world.Good(Basic("alice", "wonder&land"));
  EXPECT_EQ(world.Asked("/token").size(), 2u);
  EXPECT_EQ(world.Asked("/realm/.well-known/openid-configuration").size(), 2u);  // Keys; endpoint.

  world.Refuse(401, R"({"error":"invalid_grant","error_description":"wonder is wrong"})");
  const std::string refused = world.Refused(Basic("alice", "wonder"));
  EXPECT_THAT(refused, HasSubstr("oidc_password"));
  EXPECT_THAT(refused, HasSubstr("*** is wrong"));
  world.Refuse(503, "");
  EXPECT_THAT(world.Refused(Basic("alice", "x"), Code::kTransient), HasSubstr("status 503"));
  world.Issue(world.Token("alice", "account"));
  EXPECT_THAT(world.Refused(Basic("alice", "x")),
              HasSubstr("the identity provider's answer: token: it is for another audience"));
}

TEST(Identity, APasswordWithoutCheckedTokens) {
  World world;
  world.auth.providers = {AuthProvider::kOidcPassword, AuthProvider::kBearer};
  world.auth.token_endpoint = world.server.Url("/token");
  world.auth.client_id = "lithify";
  world.Issue("opaque");
  const Caller caller = world.Good(Basic("alice", "x"));
  EXPECT_EQ(caller.name, "alice");
  EXPECT_FALSE(caller.verified);
  EXPECT_EQ(caller.expires_at, world.clock.Now() + seconds(300));
  // What was begun with the password goes on with the token.
  const Caller later = world.Good("Bearer opaque");
  EXPECT_EQ(later.name, "unknown");
  EXPECT_EQ(later.owner, caller.owner);
  world.Issue("another");
  EXPECT_NE(world.Good(Basic("alice", "x")).owner, caller.owner);
}

// The issuer's document must not send passwords elsewhere.
TEST(Identity, ATokenEndpointOnAnotherHostMustBeConfigured) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kOidcPassword};
  world.auth.client_id = "lithify";
  world.token_endpoint = "https://elsewhere.example/token";
  EXPECT_THAT(world.Refused(Basic("alice", "x"), Code::kInvalid),
              HasSubstr("set auth.token_endpoint"));
}

TEST(Identity, TokensAreExchanged) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kTokenExchange};
  world.auth.client_id = "lithify";
  world.auth.client_secret = Secret("s3cr3t");
  const std::string brought = world.Token("alice", "account");
  const std::string given = world.Token("alice");
  world.Issue(given);
  const Caller caller = world.Good("Bearer " + brought);
  EXPECT_EQ(caller.token.Reveal(), given);
  EXPECT_EQ(caller.subject, "alice");
  EXPECT_FALSE(caller.issued);  // The client goes on with its own.
  const auto asked = world.Asked("/token");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_THAT(asked[0].body, HasSubstr("subject_token=" + brought));
  EXPECT_THAT(asked[0].body, HasSubstr("audience=lake"));
  EXPECT_THAT(asked[0].body, HasSubstr("token-exchange"));
  // For a minute it is not asked again, but for another token it is.
  EXPECT_EQ(world.Good("Bearer " + brought).token.Reveal(), given);
  EXPECT_EQ(world.Asked("/token").size(), 1u);
  world.Refuse(400, R"({"error":"invalid_request"})");
  EXPECT_THAT(world.Refused("Bearer other"), HasSubstr("token_exchange: "));
  EXPECT_EQ(world.Asked("/token").size(), 2u);
  world.clock.Sleep(seconds(60));
  EXPECT_THAT(world.Refused("Bearer " + brought), HasSubstr("invalid_request"));
}

// A token in exchange is used again for half of the life that it has left, at most.
TEST(Identity, ExchangedTokensAreNotUsedUpToTheirEnd) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kTokenExchange};
  world.auth.client_id = "lithify";
  world.clock.Sleep(seconds(270));  // Leaves 30 s.
  world.Issue(world.Token("alice"));
  EXPECT_EQ(world.Good("Bearer brought").subject, "alice");
  world.clock.Sleep(seconds(14));
  EXPECT_EQ(world.Good("Bearer brought").subject, "alice");
  EXPECT_EQ(world.Asked("/token").size(), 1u);
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Good("Bearer brought").subject, "alice");
  EXPECT_EQ(world.Asked("/token").size(), 2u);
}

// The same subject of two issuers is two owners.
TEST(Identity, OwnersAreOfAnIssuer) {
  World world;
  world.auth.jwks_url = world.server.Url("/keys");
  const auto owner = [&](const std::string& issuer, const std::string& subject) {
    return world
        .Good("Bearer " + Key().Sign(R"({"iss":")" + issuer + R"(","sub":")" + subject +
                                     R"(","exp":1800000300})"))
        .owner;
  };
  EXPECT_NE(owner("https://a.example/", "u"), owner("https://b.example/", "u"));
  EXPECT_NE(owner("https://a.example/", "u"), owner("https://a.example/u", "u"));
  EXPECT_NE(owner("https://a.example/", "uu"), owner("https://a.example/u", "u"));
  EXPECT_EQ(owner("https://a.example/", "u"), owner("https://a.example/", "u"));
}

TEST(Identity, TheFirstThatIsSatisfiedDecides) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kBearer, AuthProvider::kTokenExchange,
                          AuthProvider::kAnonymous};
  world.auth.client_id = "lithify";
  world.Issue(world.Token("alice"));
  EXPECT_EQ(world.Good("Bearer " + world.Token("bob")).subject, "bob");
  EXPECT_THAT(world.Asked("/token"), IsEmpty());
  EXPECT_EQ(world.Good("Bearer " + world.Token("bob", "account")).subject, "alice");
  world.Refuse(400, R"({"error":"invalid_request"})");
  const std::string refused = world.Refused("Bearer nothing");
  EXPECT_THAT(refused, HasSubstr("bearer: token: it is not a signed JWT"));
  EXPECT_THAT(refused, HasSubstr("invalid_request"));
  EXPECT_TRUE(world.Good("").anonymous);
}

// R014, and: refused credentials never become anonymous (R305).
TEST(Identity, AnonymousIsForThoseWhoSendNothing) {
  World world;
  world.UseIssuer();
  world.auth.providers = {AuthProvider::kBearer, AuthProvider::kAnonymous};
  world.auth.anonymous_user = "dev";
  world.auth.anonymous_roles = {"tester"};
  const Caller caller = world.Good("");
  EXPECT_EQ(caller.name, "dev");
  EXPECT_THAT(caller.roles, ElementsAre("tester"));
  EXPECT_TRUE(caller.anonymous);
  EXPECT_FALSE(caller.verified);
  EXPECT_TRUE(caller.token.empty());
  EXPECT_THAT(world.Refused("Bearer forged"), HasSubstr("not a signed JWT"));
  EXPECT_THAT(world.Refused(Basic("dev", "")), HasSubstr("not taken"));
  EXPECT_THAT(world.Auth().Warnings(),
              ElementsAre(HasSubstr("may use it without credentials, as \"dev\"")));
}

TEST(Identity, Warnings) {
  World world;
  EXPECT_THAT(world.Auth().Warnings(), IsEmpty());
  World keys;
  keys.auth.jwks_url = "https://id.example/keys";
  keys.auth.client_id = "lithify";
  keys.auth.client_secret = Secret("s3cr3t");
  EXPECT_THAT(keys.Auth().Warnings(),
              ElementsAre(HasSubstr("without auth.audience"), HasSubstr("without auth.issuer"),
                          HasSubstr("holds the secret of client \"lithify\"")));
  for (const std::string& line : keys.Auth().Warnings())
    EXPECT_THAT(line, Not(HasSubstr("s3cr3t")));
}

TEST(Identity, ACaFileThatIsNotThere) {
  World world;
  world.auth.ca_file = "/nowhere/ca.pem";
  const auto made = MakeAuthenticator(world.auth, world.clock, world.random, "");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kInvalid);
}

// Q14.
TEST(TokenLife, MustOutlastWhatIsNeeded) {
  Caller caller;
  caller.name = "alice";
  const Time now{seconds(1'800'000'000)};
  EXPECT_TRUE(CheckTokenLife(caller, now, std::chrono::hours(10)));  // Nobody knows.
  caller.expires_at = now + seconds(30);
  EXPECT_TRUE(CheckTokenLife(caller, now, seconds(29)));
  const Status ends = CheckTokenLife(caller, now, seconds(30));
  ASSERT_FALSE(ends);
  EXPECT_EQ(ends.error().code, Code::kDenied);
  EXPECT_THAT(ends.error().ToString(), HasSubstr("token expires before the commit"));
  EXPECT_THAT(ends.error().ToString(), HasSubstr("caller alice"));
  EXPECT_FALSE(CheckTokenLife(caller, now + seconds(31), seconds(0)));
}

}  // namespace
}  // namespace lithify::serve
