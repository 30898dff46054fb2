#include "net/user_grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/scripted_server.h"

namespace lithify::net {
namespace {

using testing::HasSubstr;
using testing::Not;

struct World {
  explicit World(ScriptedServer::Script script) : server(std::move(script)) {
    HttpOptions options;
    options.proxy = "";
    http = std::move(OpenHttpClient(options).value());
    client.token_endpoint = server.Url("/token");
    client.client_id = "lithify";
  }
  ScriptedServer server;
  std::unique_ptr<HttpClient> http;
  GrantClient client;
};

ScriptedAnswer Token(const ScriptedRequest&) {
  return Answer(200, R"({"access_token":"t1","token_type":"Bearer","expires_in":300})");
}

TEST(UserGrant, PasswordByAPublicClient) {
  World world(Token);
  const auto issued =
      GetTokenByPassword(*world.http, world.client, "alice", Secret("p&ss w\xc3\xb6rd"), "openid");
  ASSERT_TRUE(issued) << issued.error().ToString();
  EXPECT_EQ(issued->token.Reveal(), "t1");
  EXPECT_EQ(issued->lifetime, std::chrono::seconds(300));
  const auto request = world.server.Requests().at(0);
  EXPECT_EQ(request.headers.count("authorization"), 0u);
  EXPECT_EQ(request.body,
            "grant_type=password&username=alice&password=p%26ss%20w%C3%B6rd&scope=openid&"
            "client_id=lithify");
}

TEST(UserGrant, ConfidentialClient) {
  World world(Token);
  world.client.client_secret = Secret("s3cr3t");
  ASSERT_TRUE(GetTokenByPassword(*world.http, world.client, "alice", Secret("x"), ""));
  const auto request = world.server.Requests().at(0);
  EXPECT_EQ(request.headers.at("authorization"), "Basic " + EncodeBase64("lithify:s3cr3t"));
  EXPECT_EQ(request.body, "grant_type=password&username=alice&password=x");
}

TEST(UserGrant, Exchange) {
  World world(Token);
  const auto issued = ExchangeToken(*world.http, world.client, Secret("brought"), "lake", "");
  ASSERT_TRUE(issued);
  EXPECT_EQ(world.server.Requests().at(0).body,
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&"
            "subject_token=brought&"
            "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&"
            "requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&"
            "audience=lake&client_id=lithify");
}

TEST(UserGrant, RefusalsTellNoSecret) {
  World world([](const ScriptedRequest&) {
    return Answer(401, R"({"error":"invalid_grant","error_description":"hunter2 is wrong"})");
  });
  const auto denied = GetTokenByPassword(*world.http, world.client, "alice", Secret("hunter2"), "");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
  EXPECT_THAT(denied.error().ToString(),
              HasSubstr("the user gets no token: status 401: invalid_grant: *** is wrong"));
  const auto exchanged = ExchangeToken(*world.http, world.client, Secret("hunter2"), "lake", "");
  ASSERT_FALSE(exchanged);
  EXPECT_THAT(exchanged.error().ToString(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(exchanged.error().ToString(), HasSubstr("the user's token gets no token"));
}

TEST(UserGrant, LostAnswersAreWorthARetry) {
  World world(
      [](const ScriptedRequest&) { return ScriptedAnswer{"", ScriptedAnswer::Then::kReset}; });
  EXPECT_EQ(GetTokenByPassword(*world.http, world.client, "a", Secret("b"), "").error().code,
            Code::kTransient);
}

}  // namespace
}  // namespace lithify::net
