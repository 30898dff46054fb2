#include "catalog/polaris_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "net/http.h"
#include "net/scripted_server.h"
#include "net/token.h"

namespace lithify::catalog {
namespace {

using net::Answer;
using net::ScriptedAnswer;
using net::ScriptedRequest;
using net::ScriptedServer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// As Polaris answers: content is JSON in a string.
std::string Policy(const std::string& name, const std::string& content, bool inherited,
                   const std::string& type = "system.data-compaction") {
  std::string escaped;
  for (const char c : content)
    escaped += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return R"({"policy-type":")" + type + R"(","inheritable":true,"name":")" + name +
         R"(","description":"for all","content":")" + escaped + R"(","version":0,"inherited":)" +
         (inherited ? "true" : "false") + R"(,"namespace":["governance"]})";
}

std::string Page(const std::vector<std::string>& policies, const std::string& token = "null") {
  std::string list;
  for (const std::string& one : policies) list += (list.empty() ? "" : ",") + one;
  return R"({"next-page-token":)" + token + R"(,"applicable-policies":[)" + list + "]}";
}

AppliedPolicy Chosen(const std::string& body) {
  auto page = ParseApplicablePolicies(body);
  if (!page) throw std::runtime_error(page.error().ToString());
  return ChoosePolicy(std::move(page->policies));
}

TEST(PolarisPolicies, TheContentIsReadFromItsString) {
  const AppliedPolicy got = Chosen(Page({Policy(
      "nightly",
      R"({"version":"2025-02-03","enable":true,"target_file_size_bytes":134217728,)"
      R"("config":{"compaction_strategy":"bin-pack","min-input-files":7,"on":true,"x":null}})",
      true)}));
  EXPECT_THAT(got.warnings, IsEmpty());
  EXPECT_EQ(
      got.policy,
      (CompactionPolicy{
          .name = "nightly",
          .enable = true,
          .target_file_size_bytes = 134217728,
          .config = {{"compaction_strategy", "bin-pack"}, {"min-input-files", "7"}, {"on", "true"}},
          .inherited = true}));
}

TEST(PolarisPolicies, NoneAndOtherTypesAreNone) {
  EXPECT_FALSE(Chosen(Page({})).policy);
  EXPECT_FALSE(
      Chosen(Page({Policy("s", R"({"enable":false})", true, "system.snapshot-expiry")})).policy);
}

// The table's own above what it inherits, wherever it stands in the list.
TEST(PolarisPolicies, TheTablesOwnHolds) {
  const std::string own = Policy("own", R"({"enable":true})", false);
  const std::string above = Policy("above", R"({"enable":false})", true);
  EXPECT_EQ(Chosen(Page({above, own})).policy->name, "own");
  EXPECT_EQ(Chosen(Page({own, above})).policy->name, "own");
  const AppliedPolicy both = Chosen(Page({Policy("yes", R"({"enable":true})", true), above}));
  EXPECT_EQ(both.policy->name, "above");  // Whoever says no.
  EXPECT_THAT(both.warnings, ElementsAre(HasSubstr("2 policies")));
}

TEST(PolarisPolicies, WhatCannotBeReadKeepsTheTableOut) {
  for (const char* content : {"", "no JSON {", "[1]", "{}", R"({"enable":"true"})",
                              R"({"enable":1})", R"({"enable":null})"}) {
    const AppliedPolicy got = Chosen(Page({Policy("p", content, true)}));
    ASSERT_TRUE(got.policy) << content;
    EXPECT_FALSE(got.policy->enable) << content;
    EXPECT_THAT(got.warnings, ElementsAre(HasSubstr("policy p: "))) << content;
  }
}

TEST(PolarisPolicies, WrongMembersAreToldAndDoNotHold) {
  const AppliedPolicy got = Chosen(Page(
      {Policy("p",
              R"({"version":"2031-01-01","enable":true,"target_file_size_bytes":"big","new":{},)"
              R"("config":{"a":[1],"b":"c"}})",
              false)}));
  EXPECT_TRUE(got.policy->enable);
  EXPECT_FALSE(got.policy->target_file_size_bytes);
  EXPECT_THAT(got.policy->config, ElementsAre(std::pair<const std::string, std::string>("b", "c")));
  EXPECT_THAT(got.warnings, SizeIs(3));
  EXPECT_THAT(Chosen(Page({Policy("p", R"({"enable":true,"config":[]})", false)})).warnings,
              ElementsAre(HasSubstr("config is no object")));
}

TEST(PolarisPolicies, AnAnswerThatIsNoneIsCorrupt) {
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"applicable-policies":{}})", R"({"applicable-policies":[1]})",
        R"({"applicable-policies":[{"name":"p"}]})",
        R"({"applicable-policies":[{"policy-type":"system.data-compaction","name":7}]})",
        R"({"applicable-policies":[{"policy-type":"system.data-compaction","name":"p"}]})",
        R"({"applicable-policies":[],"next-page-token":3})"}) {
    const auto page = ParseApplicablePolicies(body);
    ASSERT_FALSE(page) << body;
    EXPECT_EQ(page.error().code, Code::kCorrupt) << body;
  }
}

constexpr char kConfig[] = R"({"defaults":{},"overrides":{"prefix":"lake"}})";
constexpr char kTyped[] = "&policyType=system.data-compaction";

// Polaris on a server that plays `answers`.
struct World {
  explicit World(std::vector<ScriptedAnswer> script, std::string config = kConfig)
      : answers(script.begin(), script.end()), server([this, config](const ScriptedRequest& r) {
          if (r.target.starts_with("/api/catalog/v1/config")) return Answer(200, config);
          if (answers.empty()) return Answer(599, "the script is at its end");
          ScriptedAnswer answer = answers.front();
          answers.pop_front();
          return answer;
        }) {
    net::HttpOptions options;
    options.proxy = "";
    http = std::move(net::OpenHttpClient(options).value());
    RestOptions rest;
    rest.uri = server.Url("/api/catalog");
    rest.max_attempts = 1;
    catalog = OpenRestCatalog(std::move(rest), *http, &tokens, clock, random).value();
  }
  Result<AppliedPolicy> Get(const TableIdent& ident = {{"sales", "eu"}, "orders"}) {
    return GetCompactionPolicy(*catalog, ident);
  }
  // Of what came after the configuration was read.
  std::vector<ScriptedRequest> Requests() const {
    std::vector<ScriptedRequest> requests = server.Requests();
    requests.erase(requests.begin());
    return requests;
  }

  std::deque<ScriptedAnswer> answers;
  ScriptedServer server;
  std::unique_ptr<net::HttpClient> http;
  net::StaticToken tokens{Secret("token")};
  SystemClock clock;
  SeededRandom random{7};
  std::unique_ptr<RestCatalog> catalog;
};

TEST(PolarisPolicies, ItAsksAsThePolarisApiSays) {
  World world({Answer(200, Page({Policy("a", R"({"enable":true})", true)}))});
  const auto got = world.Get();
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(got->policy->name, "a");
  const auto requests = world.Requests();
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].method, "GET");
  EXPECT_THAT(requests[0].target,
              testing::StartsWith("/api/catalog/polaris/v1/lake/applicable-policies?"
                                  "namespace=sales%1Feu&target-name=orders" +
                                  std::string(kTyped)));
  EXPECT_EQ(requests[0].headers.at("authorization"), "Bearer token");
}

TEST(PolarisPolicies, PagesAreReadToTheLast) {
  World world({Answer(200, Page({}, R"("t 1")")),
               Answer(200, Page({Policy("b", R"({"enable":false})", false)}))});
  const auto got = world.Get();
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(got->policy->name, "b");
  ASSERT_THAT(world.Requests(), SizeIs(2));
  EXPECT_THAT(world.Requests()[1].target,
              testing::AnyOf(HasSubstr("pageToken=t+1"), HasSubstr("pageToken=t%201")));
  World circle({Answer(200, Page({}, R"("t")")), Answer(200, Page({}, R"("t")"))});
  EXPECT_EQ(circle.Get().error().code, Code::kCorrupt);
}

TEST(PolarisPolicies, RefusalsKeepTheirMeaning) {
  const std::pair<int, Code> cases[] = {{404, Code::kNotFound},
                                        {403, Code::kDenied},
                                        {501, Code::kUnsupported},
                                        {503, Code::kTransient},
                                        {400, Code::kInvalid}};
  for (const auto& [status, code] : cases) {
    World world({Answer(status, R"({"error":{"message":"no","type":"X","code":1}})")});
    const auto got = world.Get();
    ASSERT_FALSE(got) << status;
    EXPECT_EQ(got.error().code, code) << status;
    EXPECT_THAT(got.error().ToString(), HasSubstr("sales.eu.orders"));
  }
  World broken({Answer(200, "{")});
  EXPECT_EQ(broken.Get().error().code, Code::kCorrupt);
}

// A server that lists its endpoints is not asked for others; both ways of writing one count.
TEST(PolarisPolicies, WhatIsNotOfferedIsNotAsked) {
  const auto config = [](const std::string& endpoint) {
    return R"({"defaults":{},"overrides":{"prefix":"lake"},"endpoints":[")" + endpoint + R"("]})";
  };
  World without({}, config("GET /v1/{prefix}/namespaces"));
  EXPECT_EQ(without.Get().error().code, Code::kUnsupported);
  EXPECT_THAT(without.Requests(), IsEmpty());
  for (const char* slash : {"", "/"}) {
    World with({Answer(200, Page({}))},
               config(std::string("GET ") + slash + "polaris/v1/{prefix}/applicable-policies"));
    const auto got = with.Get();
    ASSERT_TRUE(got) << got.error().ToString();
    EXPECT_FALSE(got->policy);
  }
}

}  // namespace
}  // namespace lithify::catalog
