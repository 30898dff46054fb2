#include "maintain/principal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <thread>
#include <type_traits>

#include "base/manual_clock.h"
#include "net/scripted_server.h"

namespace lithify::maintain {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// Tripwire 4 of the design: it can be moved and nothing else. That nobody but Principal makes one
// is shown by scripts/separation_test.py, where the compiler refuses it.
static_assert(std::is_move_constructible_v<JobCredential>);
static_assert(std::is_move_assignable_v<JobCredential>);
static_assert(!std::is_copy_constructible_v<JobCredential>);
static_assert(!std::is_copy_assignable_v<JobCredential>);
static_assert(!std::is_default_constructible_v<JobCredential>);
static_assert(!std::is_copy_constructible_v<Principal>);
template <typename T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };
static_assert(Printable<Secret>);  // The control.
static_assert(!Printable<JobCredential>);
static_assert(!Printable<Principal>);
static_assert(!Printable<PrincipalConfig>);

net::ScriptedAnswer TokenAnswer(const std::string& token) {
  return net::Answer(
      200, "{\"access_token\":\"" + token + "\",\"token_type\":\"Bearer\",\"expires_in\":300}");
}

struct World {
  explicit World(net::ScriptedServer::Script script) : server(std::move(script)) {
    config.token_endpoint = server.Url("/token");
    config.client_id = "sqe-maintenance";
    config.client_secret = Secret("tops3cr3t");
    config.scope = "PRINCIPAL_ROLE:sqe_maintenance";
  }
  Result<std::unique_ptr<Principal>> Make() {
    net::HttpOptions options;
    options.proxy = "";
    return Principal::Make(config, clock, random, std::move(options));
  }
  JobCredential Mint(const std::string& job) {
    return std::move(Make().value()->Mint(job).value());
  }

  net::ScriptedServer server;
  ManualClock clock;
  SeededRandom random{7};
  PrincipalConfig config;
};

struct Counting : World {
  Counting() : World([this](const auto&) { return TokenAnswer("t" + std::to_string(++count)); }) {}
  std::atomic<int> count{0};
};

// R009.
TEST(Principal, RefusesWhatIsNotWholeAndAsksNobody) {
  Counting world;
  ASSERT_TRUE(world.Make());
  const auto refused = [&](const auto& spoil) {
    const PrincipalConfig good = world.config;
    spoil(world.config);
    const auto made = world.Make();
    world.config = good;
    EXPECT_FALSE(made);
    return made ? std::string() : made.error().ToString();
  };
  EXPECT_THAT(refused([](auto& c) { c.token_endpoint = ""; }), HasSubstr("token_endpoint"));
  EXPECT_THAT(refused([](auto& c) { c.token_endpoint = "http://id.example/token"; }),
              HasSubstr("https"));
  EXPECT_THAT(refused([](auto& c) { c.client_id = ""; }), HasSubstr("client_id"));
  EXPECT_THAT(refused([](auto& c) { c.client_secret = Secret(); }), HasSubstr("no secret"));
  const std::string twice = refused([](auto& c) { c.client_secret_file = "/x"; });
  EXPECT_THAT(twice, HasSubstr("more than one secret"));
  EXPECT_THAT(twice, Not(HasSubstr("s3cr3t")));
  EXPECT_THAT(refused([](auto& c) { c.ca_file = "/nowhere/ca.pem"; }), HasSubstr("/nowhere"));
  EXPECT_EQ(world.server.connections(), 0);
}

// R004, R008.
TEST(Principal, MintsATokenOfItsOwnForEachJob) {
  Counting world;
  const auto principal = world.Make().value();
  const auto one = principal->Mint("one");
  const auto two = principal->Mint("two");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->tokens()->Token()->Reveal(), "t1");
  EXPECT_EQ(two->tokens()->Token()->Reveal(), "t2");
  EXPECT_EQ(one->session_id(), "maintenance-job-one");
  EXPECT_EQ(one->job_id(), "one");
  EXPECT_EQ(one->user_id(), "sqe-maintenance");
  EXPECT_EQ(world.server.Requests().at(0).body,
            "grant_type=client_credentials&scope=PRINCIPAL_ROLE%3Asqe_maintenance&"
            "client_id=sqe-maintenance&client_secret=tops3cr3t");
  EXPECT_EQ(principal->Mint("").error().code, Code::kInvalid);
  EXPECT_EQ(world.count, 2);
}

TEST(Principal, TheNameForLogsIsConfigured) {
  Counting world;
  world.config.user_id = "night shift";
  EXPECT_EQ(world.Mint("one").user_id(), "night shift");
}

// R004: what the job left behind anywhere is dead.
TEST(JobCredential, DiesWithTheJob) {
  Counting world;
  std::shared_ptr<net::TokenSource> left;
  {
    const JobCredential credential = world.Mint("one");
    left = credential.tokens();
    EXPECT_EQ(left->Token()->Reveal(), "t1");
  }
  const auto after = left->Token();
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Code::kDenied);
  EXPECT_THAT(after.error().message, HasSubstr("the credential of job one was dropped"));
  EXPECT_EQ(left->Invalidate(Secret("t1")).error().code, Code::kDenied);
  EXPECT_EQ(world.count, 1);  // And nobody is asked for another.
}

TEST(JobCredential, MovesAndStaysOne) {
  Counting world;
  std::optional<JobCredential> first(world.Mint("one"));
  const auto tokens = first->tokens();
  JobCredential second(std::move(*first));
  first.reset();
  EXPECT_EQ(tokens->Token()->Reveal(), "t1");
  EXPECT_EQ(second.job_id(), "one");
  JobCredential third = world.Mint("two");
  const auto of_two = third.tokens();
  third = std::move(second);  // What it held before is dropped.
  EXPECT_FALSE(of_two->Token());
  EXPECT_EQ(tokens->Token()->Reveal(), "t1");
  EXPECT_EQ(third.session_id(), "maintenance-job-one");
}

TEST(JobCredential, OutlivesItsPrincipal) {
  Counting world;
  auto principal = world.Make().value();
  JobCredential credential = std::move(principal->Mint("one").value());
  principal.reset();
  ASSERT_TRUE(credential.Renew(seconds(60)));
  EXPECT_EQ(credential.tokens()->Token()->Reveal(), "t2");
}

// A token that comes in after the drop goes to nobody.
TEST(JobCredential, DroppedWhileSomebodyWaitsForATokenGivesNone) {
  std::atomic<int> count{0};
  std::atomic<bool> asked{false};
  World world([&](const auto&) {
    net::ScriptedAnswer answer = TokenAnswer("t" + std::to_string(++count));
    if (count == 2) {
      asked = true;
      answer.before = std::chrono::milliseconds(300);
    }
    return answer;
  });
  std::optional<JobCredential> credential(world.Mint("one"));
  const auto tokens = credential->tokens();
  ASSERT_TRUE(tokens->Invalidate(Secret("t1")));
  std::optional<Result<Secret>> waited;
  std::thread waiter([&] { waited = tokens->Token(); });
  for (int i = 0; i < 5000 && !asked; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  credential.reset();
  waiter.join();
  EXPECT_EQ(count, 2);
  ASSERT_FALSE(*waited);
  EXPECT_EQ(waited->error().code, Code::kDenied);
}

// R012, T9: the token that commits is not the one that the job began with.
TEST(JobCredential, RenewsRightBeforeACommit) {
  Counting world;
  JobCredential credential = world.Mint("one");
  EXPECT_EQ(credential.tokens()->Token()->Reveal(), "t1");
  ASSERT_TRUE(credential.Renew(seconds(60)));
  EXPECT_EQ(credential.tokens()->Token()->Reveal(), "t2");
  EXPECT_EQ(credential.Renew(seconds(301)).error().code, Code::kLimit);
}

// R298: the job fails and says why; nothing of the secret is in it.
TEST(Principal, MintSaysWhyThereIsNoToken) {
  World down([](const auto&) { return net::Answer(503, "busy"); });
  const auto transient = down.Make().value()->Mint("one");
  ASSERT_FALSE(transient);
  EXPECT_EQ(transient.error().code, Code::kTransient);
  EXPECT_THAT(transient.error().ToString(), HasSubstr("principal, job one"));
  World denied([](const auto&) {
    return net::Answer(401, R"({"error":"invalid_client","error_description":"tops3cr3t"})");
  });
  const auto refused = denied.Make().value()->Mint("one");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().ToString(), Not(HasSubstr("tops3cr3t")));
}

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    std::string name = "/tmp/lithify-principal-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~SecretFile() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& text) {
    std::ofstream(path()) << text;
    chmod(path().c_str(), 0600);
  }
  std::string path() const { return directory_ + "/secret"; }
  std::string directory_;
};

// A secret is replaced without a restart.
TEST_F(SecretFile, IsReadForEveryToken) {
  Counting world;
  world.config.client_secret = Secret();
  world.config.client_secret_file = path();
  Write("first\n");
  JobCredential credential = world.Mint("one");
  Write("second\n");
  ASSERT_TRUE(credential.Renew(seconds(60)));
  EXPECT_THAT(world.server.Requests().at(0).body, testing::EndsWith("client_secret=first"));
  EXPECT_THAT(world.server.Requests().at(1).body, testing::EndsWith("client_secret=second"));
  chmod(path().c_str(), 0644);
  EXPECT_EQ(credential.Renew(seconds(60)).error().code, Code::kDenied);
  EXPECT_EQ(world.count, 2);
}

}  // namespace
}  // namespace lithify::maintain
