#include "net/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/manual_clock.h"
#include "net/scripted_server.h"

namespace lithify::net {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Then = ScriptedAnswer::Then;

std::unique_ptr<HttpClient> Client() {
  HttpOptions options;
  options.proxy = "";
  return std::move(OpenHttpClient(options).value());
}

ClientCredentials Credentials(const ScriptedServer& server) {
  ClientCredentials credentials;
  credentials.token_endpoint = server.Url("/api/catalog/v1/oauth/tokens");
  credentials.client_id = "lithify";
  credentials.client_secret = Secret("s3cr3t&x");
  credentials.scope = "PRINCIPAL_ROLE:ALL";
  return credentials;
}

std::string TokenBody(const std::string& token, const std::string& more) {
  return "{\"access_token\":\"" + token + "\",\"token_type\":\"bearer\"" + more + "}";
}

struct World {
  explicit World(ScriptedServer::Script script) : server(std::move(script)) {}
  RenewableTokenSource& Source() {
    if (!source) source = MakeClientCredentialsSource(Credentials(server), *http, clock);
    return *source;
  }
  std::string Token() {
    const auto token = Source().Token();
    return token ? token->Reveal() : token.error().ToString();
  }
  ScriptedServer server;
  std::unique_ptr<HttpClient> http = Client();
  ManualClock clock;
  std::unique_ptr<RenewableTokenSource> source;
};

TEST(StaticToken, GivesItAndHasNoOther) {
  StaticToken source(Secret("abc"));
  EXPECT_EQ(source.Token()->Reveal(), "abc");
  EXPECT_EQ(source.Invalidate(Secret("abc")).error().code, Code::kDenied);
  EXPECT_TRUE(source.Invalidate(Secret("older")));
  EXPECT_EQ(StaticToken(Secret("")).Token().error().code, Code::kInvalid);
  const auto broken = StaticToken(Secret("a\r\nX-Evil: 1")).Token();
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().ToString(), Not(HasSubstr("Evil")));
}

TEST(ClientCredentials, BasicRequest) {
  World world([](const ScriptedRequest&) { return Answer(200, TokenBody("t1", "")); });
  EXPECT_EQ(world.Token(), "t1");
  const auto request = world.server.Requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/api/catalog/v1/oauth/tokens");
  EXPECT_EQ(request.headers.at("content-type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(request.headers.at("authorization"), "Basic " + EncodeBase64("lithify:s3cr3t%26x"));
  EXPECT_EQ(request.body, "grant_type=client_credentials&scope=PRINCIPAL_ROLE%3AALL");
}

TEST(ClientCredentials, FormRequest) {
  World world([](const ScriptedRequest&) { return Answer(200, TokenBody("t1", "")); });
  ClientCredentials credentials = Credentials(world.server);
  credentials.authentication = ClientCredentials::Authentication::kForm;
  credentials.scope = "";
  credentials.parameters = {{"audience", "polaris"}};
  EXPECT_EQ(MakeClientCredentialsSource(credentials, *world.http, world.clock)->Token()->Reveal(),
            "t1");
  const auto request = world.server.Requests().at(0);
  EXPECT_EQ(request.headers.count("authorization"), 0u);
  EXPECT_EQ(request.body,
            "grant_type=client_credentials&audience=polaris&client_id=lithify&"
            "client_secret=s3cr3t%26x");
}

// R010: cached, renewed 60 s before it runs out.
TEST(ClientCredentials, CachesUntilTheSkew) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return Answer(200, TokenBody("t" + std::to_string(++count), ",\"expires_in\":3600"));
  });
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(3539));
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Token(), "t2");
  EXPECT_EQ(world.Token(), "t2");
}

TEST(ClientCredentials, ShortLivedTokensAreRenewedAtHalfTheirLife) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return Answer(200, TokenBody("t" + std::to_string(++count), ",\"expires_in\":\"40\""));
  });
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(19));
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Token(), "t2");
}

// An expiry that the endpoint did not state is not made up.
TEST(ClientCredentials, WithoutExpiryItServesUntilRefused) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return Answer(200, TokenBody("t" + std::to_string(++count), ""));
  });
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(std::chrono::hours(10000));
  EXPECT_EQ(world.Token(), "t1");
  ASSERT_TRUE(world.Source().Invalidate(Secret("t1")));
  EXPECT_EQ(world.Token(), "t2");
  ASSERT_TRUE(world.Source().Invalidate(Secret("t1")));  // Refused late: t2 is another one.
  EXPECT_EQ(world.Token(), "t2");
}

TEST(ClientCredentials, ZeroLifetimeIsNotCached) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return Answer(200, TokenBody("t" + std::to_string(++count), ",\"expires_in\":0"));
  });
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(world.Token(), "t2");
}

TEST(ClientCredentials, FailedRenewalGoesUnnoticedWhileTheOldOneIsValid) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return ++count == 1 ? Answer(200, TokenBody("t1", ",\"expires_in\":100")) : Answer(503, "busy");
  });
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(60));
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(count, 2);
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(count, 2);  // Not at every call.
  world.clock.Sleep(seconds(6));
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(count, 3);
  world.clock.Sleep(seconds(40));
  const auto expired = world.Source().Token();
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().code, Code::kTransient);
}

// R010: one fetch for all who wait.
TEST(ClientCredentials, SingleFlight) {
  World world([&](const ScriptedRequest&) {
    ScriptedAnswer answer = Answer(200, TokenBody("t1", ",\"expires_in\":3600"));
    answer.before = std::chrono::milliseconds(100);
    return answer;
  });
  world.Source();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { right += world.Token() == "t1"; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(world.server.Requests().size(), 1u);
}

// R012, T9: a token that serves on is not enough for a commit.
TEST(ClientCredentials, RenewFetchesThoughTheOldOneIsFresh) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return Answer(200, TokenBody("t" + std::to_string(++count), ",\"expires_in\":300"));
  });
  EXPECT_EQ(world.Token(), "t1");
  ASSERT_TRUE(world.Source().Renew(seconds(300)));
  EXPECT_EQ(world.Token(), "t2");
  EXPECT_EQ(count, 2);
}

TEST(ClientCredentials, RenewKeepsTheOldOneWhileTheEndpointIsDownAndThatLivesLongEnough) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return ++count == 1 ? Answer(200, TokenBody("t1", ",\"expires_in\":300")) : Answer(503, "busy");
  });
  EXPECT_EQ(world.Token(), "t1");
  world.clock.Sleep(seconds(200));
  EXPECT_TRUE(world.Source().Renew(seconds(100)));
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(count, 2);
  const auto short_lived = world.Source().Renew(seconds(101));
  ASSERT_FALSE(short_lived);
  EXPECT_EQ(short_lived.error().code, Code::kTransient);
  EXPECT_EQ(world.Token(), "t1");  // Still good for what is no commit.
}

// Who is refused a new token has lost its right, whatever the old one says.
TEST(ClientCredentials, RenewThatIsRefusedIsAnErrorThoughTheOldOneLives) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) {
    return ++count == 1 ? Answer(200, TokenBody("t1", ",\"expires_in\":300"))
                        : Answer(401, R"({"error":"invalid_client"})");
  });
  EXPECT_EQ(world.Token(), "t1");
  EXPECT_EQ(world.Source().Renew(seconds(1)).error().code, Code::kDenied);
}

TEST(ClientCredentials, RenewSaysWhereNoTokenLivesLongEnough) {
  World world(
      [](const ScriptedRequest&) { return Answer(200, TokenBody("t1", ",\"expires_in\":30")); });
  const auto renewed = world.Source().Renew(seconds(31));
  ASSERT_FALSE(renewed);
  EXPECT_EQ(renewed.error().code, Code::kLimit);
  EXPECT_THAT(renewed.error().ToString(), HasSubstr("31.0 s"));
  EXPECT_TRUE(world.Source().Renew(seconds(30)));
  // An end that nobody told is not made up.
  World silent([](const ScriptedRequest&) { return Answer(200, TokenBody("t1", "")); });
  EXPECT_TRUE(silent.Source().Renew(std::chrono::hours(10)));
}

TEST(ClientCredentials, RenewIsASingleFlight) {
  constexpr int kThreads = 8;
  std::atomic<int> begun{0};
  World world([&](const ScriptedRequest&) {
    ScriptedAnswer answer = Answer(200, TokenBody("t1", ",\"expires_in\":3600"));
    // All the others come while the first is under way.
    for (int i = 0; i < 4000 && begun < kThreads; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    answer.before = std::chrono::milliseconds(200);
    return answer;
  });
  world.Source();
  std::vector<std::thread> threads;
  std::atomic<int> renewed{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++begun;
      renewed += world.Source().Renew(seconds(60)).has_value() ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(renewed, kThreads);
  EXPECT_EQ(world.server.Requests().size(), 1u);
}

// What is shown is asked for at each request: a file may have been replaced.
TEST(ClientCredentials, ProofIsAskedForEachTime) {
  std::atomic<int> count{0};
  World world([&](const ScriptedRequest&) { return Answer(200, TokenBody("t1", "")); });
  ClientCredentials credentials = Credentials(world.server);
  credentials.proof = [&]() -> Result<Secret> {
    if (++count == 3) return Fail(Code::kDenied, "the file is gone");
    return Secret("s" + std::to_string(count));
  };
  world.source = MakeClientCredentialsSource(credentials, *world.http, world.clock);
  ASSERT_TRUE(world.Source().Renew(seconds(1)));
  ASSERT_TRUE(world.Source().Renew(seconds(1)));
  EXPECT_EQ(world.Source().Renew(seconds(1)).error().code, Code::kDenied);
  const auto requests = world.server.Requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].headers.at("authorization"), "Basic " + EncodeBase64("lithify:s1"));
  EXPECT_EQ(requests[1].headers.at("authorization"), "Basic " + EncodeBase64("lithify:s2"));
}

TEST(ClientCredentials, ErrorsByCause) {
  struct Case {
    ScriptedAnswer answer;
    Code code;
    const char* words;
  };
  const std::vector<Case> cases{
      {Answer(401, R"({"error":"invalid_client","error_description":"no s3cr3t&x here"})"),
       Code::kDenied, "client 'lithify' gets no token: status 401: invalid_client: no *** here"},
      {Answer(400, R"({"error":"invalid_scope"})"), Code::kDenied, "invalid_scope"},
      {Answer(404, "<html>"), Code::kInvalid, "status 404"},
      {Answer(307, ""), Code::kInvalid, "status 307"},
      {Answer(429, ""), Code::kTransient, "status 429"},
      {Answer(500, "x"), Code::kTransient, "status 500"},
      {{"", Then::kReset}, Code::kTransient, "sent, but no whole answer"},
      {Answer(200, "not json"), Code::kCorrupt, "not a JSON object"},
      {Answer(200, "[]"), Code::kCorrupt, "not a JSON object"},
      {Answer(200, "{}"), Code::kCorrupt, "access_token"},
      {Answer(200, R"({"access_token":7})"), Code::kCorrupt, "access_token"},
      {Answer(200, R"({"access_token":"a\r\nb"})"), Code::kCorrupt, "access_token"},
      {Answer(200, R"({"access_token":""})"), Code::kCorrupt, "access_token"},
      {Answer(200, R"({"access_token":"a","token_type":"mac"})"), Code::kUnsupported, "mac"},
      {Answer(200, R"({"access_token":"a","expires_in":"soon"})"), Code::kCorrupt, "expires_in"},
      {Answer(200, R"({"access_token":"a","expires_in":-1})"), Code::kCorrupt, "expires_in"},
      {Answer(200, R"({"access_token":"a","expires_in":1e300})"), Code::kCorrupt, "expires_in"},
      {Answer(200, std::string(300 * 1024, ' ')), Code::kTransient, "larger than"},
  };
  for (const Case& c : cases) {
    World world([&](const ScriptedRequest&) { return c.answer; });
    const auto token = world.Source().Token();
    ASSERT_FALSE(token) << c.words;
    const std::string text = token.error().ToString();
    EXPECT_EQ(token.error().code, c.code) << text;
    EXPECT_THAT(text, HasSubstr(c.words));
    EXPECT_THAT(text, HasSubstr("token endpoint"));
    EXPECT_THAT(text, Not(HasSubstr("s3cr3t")));
  }
}

}  // namespace
}  // namespace lithify::net
