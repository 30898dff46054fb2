#include "net/jwks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "base/manual_clock.h"
#include "net/jwt_signed.h"
#include "net/scripted_server.h"

namespace lithify::net {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

const SigningKey& Key(int i) {
  static const SigningKey keys[] = {{"k0", "ES256"}, {"k1", "ES256"}};
  return keys[i];
}

struct World {
  World() : server([this](const ScriptedRequest& request) { return Serve(request); }) {
    HttpOptions http_options;
    http_options.proxy = "";
    http = std::move(OpenHttpClient(http_options).value());
  }
  ScriptedAnswer Serve(const ScriptedRequest& request) {
    std::lock_guard lock(mutex);
    if (request.target.ends_with("/.well-known/openid-configuration")) {
      return Answer(200, discovery);
    }
    if (!home.empty() && request.target != home) return Answer(404, "");
    ScriptedAnswer answer = Answer(status, body);
    answer.before = wait;
    return answer;
  }
  void Publish(int new_status, const std::string& new_body) {
    std::lock_guard lock(mutex);
    status = new_status;
    body = new_body;
  }
  KeySource& Source() {
    if (!source) {
      if (options.jwks_url.empty() && options.issuer.empty())
        options.jwks_url = server.Url("/jwks");
      source = MakeJwksSource(options, *http, clock);
    }
    return *source;
  }
  std::string Find(const std::string& id) {
    const auto key = Source().Find(id, "ES256");
    return key ? key->id : key.error().ToString();
  }
  size_t requests() const { return server.Requests().size(); }

  std::mutex mutex;
  int status = 200;
  std::string body = JwksOf({&Key(0)});
  std::string discovery;
  std::string home;  // Where the keys are; empty: everywhere.
  std::chrono::milliseconds wait{0};
  ScriptedServer server;
  std::unique_ptr<HttpClient> http;
  ManualClock clock;
  JwksOptions options;
  std::unique_ptr<KeySource> source;
};

TEST(JwksSource, KeepsKeysForTheirLife) {
  World world;
  EXPECT_EQ(world.Find("k0"), "k0");
  world.clock.Sleep(minutes(10) - seconds(1));
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 1u);
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 2u);
}

TEST(JwksSource, AnUnknownKeyIsAskedForOnce) {
  World world;
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_THAT(world.Find("k1"), HasSubstr("does not publish"));
  EXPECT_EQ(world.requests(), 1u);  // They have just come.
  world.clock.Sleep(seconds(10));
  EXPECT_THAT(world.Find("k1"), HasSubstr("denied"));
  EXPECT_EQ(world.requests(), 2u);
  for (int i = 0; i < 100; ++i) (void)world.Find("made up " + std::to_string(i));
  EXPECT_EQ(world.requests(), 2u);
  // Rotated: the new key is found, and the old one is no more.
  world.Publish(200, JwksOf({&Key(1)}));
  world.clock.Sleep(seconds(10));
  EXPECT_EQ(world.Find("k1"), "k1");
  EXPECT_EQ(world.requests(), 3u);
  EXPECT_THAT(world.Find("k0"), HasSubstr("does not publish"));
}

TEST(JwksSource, OneFetchForAll) {
  World world;
  world.wait = std::chrono::milliseconds(100);
  world.Source();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { right += world.Find("k0") == "k0"; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(world.requests(), 1u);
}

TEST(JwksSource, OldKeysServeOnForAWhile) {
  World world;
  EXPECT_EQ(world.Find("k0"), "k0");
  world.Publish(503, "");
  world.clock.Sleep(minutes(30));
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 2u);
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 2u);  // Not at every call.
  // What is not known now may be known to the issuer.
  EXPECT_EQ(world.Source().Find("k1", "ES256").error().code, Code::kTransient);
  world.clock.Sleep(minutes(30) - seconds(1));
  EXPECT_EQ(world.Find("k0"), "k0");
  world.clock.Sleep(seconds(1));
  EXPECT_EQ(world.Source().Find("k0", "ES256").error().code, Code::kTransient);
  world.Publish(200, JwksOf({&Key(0)}));
  world.clock.Sleep(seconds(10));
  EXPECT_EQ(world.Find("k0"), "k0");
}

TEST(JwksSource, ErrorsByCause) {
  const std::vector<std::tuple<int, std::string, Code>> cases = {
      {500, "", Code::kTransient}, {429, "", Code::kTransient}, {404, "", Code::kInvalid},
      {302, "", Code::kInvalid},   {200, "{}", Code::kCorrupt}, {200, "<html>", Code::kCorrupt}};
  for (const auto& [status, body, code] : cases) {
    World world;
    world.Publish(status, body);
    const auto key = world.Source().Find("k0", "ES256");
    ASSERT_FALSE(key) << status;
    EXPECT_EQ(key.error().code, code) << key.error().ToString();
    EXPECT_THAT(key.error().ToString(), HasSubstr("the issuer's keys"));
    (void)world.Find("k0");
    EXPECT_EQ(world.requests(), 1u);  // The pause holds after failures, too.
  }
  World large;
  large.options.max_bytes = 100;
  EXPECT_EQ(large.Source().Find("k0", "ES256").error().code, Code::kLimit);
}

TEST(JwksSource, Discovery) {
  World world;
  world.options.issuer = world.server.Url("/realms/a");
  world.discovery = R"({"issuer":")" + world.options.issuer + R"(","jwks_uri":")" +
                    world.server.Url("/keys") + R"(","token_endpoint":")" +
                    world.server.Url("/token") + "\"}";
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.server.Requests().at(0).target, "/realms/a/.well-known/openid-configuration");
  EXPECT_EQ(world.server.Requests().at(1).target, "/keys");
  const auto found = Discover(world.options.issuer, *world.http, seconds(5));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->token_endpoint, world.server.Url("/token"));
}

// Where the keys were is asked once; when they are there no more, the issuer is.
TEST(JwksSource, KeysThatMoved) {
  World world;
  world.options.issuer = world.server.Url("/realms/a");
  const auto move_to = [&](const std::string& target) {
    std::lock_guard lock(world.mutex);
    world.home = target;
    world.discovery = R"({"issuer":")" + world.options.issuer + R"(","jwks_uri":")" +
                      world.server.Url(target) + "\"}";
  };
  move_to("/keys");
  EXPECT_EQ(world.Find("k0"), "k0");
  world.clock.Sleep(minutes(10));
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 3u);  // Discovery, keys, keys.
  move_to("/new-keys");
  world.clock.Sleep(minutes(10));
  EXPECT_EQ(world.Find("k0"), "k0");
  EXPECT_EQ(world.requests(), 4u);
  world.Publish(200, JwksOf({&Key(1)}));
  world.clock.Sleep(seconds(10));
  EXPECT_EQ(world.Find("k1"), "k1");
  EXPECT_EQ(world.server.Requests().back().target, "/new-keys");
}

TEST(JwksSource, DiscoveryOfSomebodyElse) {
  World world;
  world.options.issuer = world.server.Url("/realms/a");
  const std::string issuer = R"({"issuer":")" + world.options.issuer + "\"";
  const auto refused = [&](const std::string& document) {
    {
      std::lock_guard lock(world.mutex);
      world.discovery = document;
    }
    const auto found = Discover(world.options.issuer, *world.http, seconds(5));
    if (found) return std::string("taken");
    EXPECT_EQ(found.error().code, Code::kCorrupt);
    return found.error().message;
  };
  EXPECT_THAT(refused(R"({"issuer":"http://evil","jwks_uri":"https://evil/k"})"),
              HasSubstr("another issuer"));
  EXPECT_THAT(refused(R"({"jwks_uri":"https://evil/k"})"), HasSubstr("another issuer"));
  EXPECT_THAT(refused(issuer + "}"), HasSubstr("jwks_uri"));
  EXPECT_THAT(refused(issuer + R"(,"jwks_uri":"http://id.example/k"})"), HasSubstr("jwks_uri"));
  EXPECT_THAT(
      refused(issuer + R"(,"jwks_uri":"https://id.example/k","token_endpoint":"http://x"})"),
      HasSubstr("token_endpoint"));
  EXPECT_EQ(refused(issuer + R"(,"jwks_uri":"https://id.example/k"})"), "taken");
  EXPECT_THAT(refused("7"), HasSubstr("not JSON"));
}

TEST(PrivateUrl, HttpsOrThisMachine) {
  for (const char* url : {"https://id.example/x", "HTTPS://id.example", "http://127.0.0.1:80/x",
                          "http://localhost:8080", "http://[::1]:8080/x"}) {
    EXPECT_TRUE(IsPrivateUrl(url)) << url;
  }
  for (const char* url :
       {"http://id.example/x", "http://127.0.0.1.evil.example/", "ftp://localhost",
        "http://localhost.evil.example", "http://user@localhost/", "https://user:p@id.example/", "",
        "localhost"}) {
    EXPECT_FALSE(IsPrivateUrl(url)) << url;
  }
}

}  // namespace
}  // namespace lithify::net
