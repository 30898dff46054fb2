#include "serve/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "base/manual_clock.h"

namespace lithify::serve {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

Caller CallerWith(const std::string& token, const std::string& owner) {
  Caller caller;
  caller.token = Secret(token);
  caller.name = owner;
  caller.owner = "subject:" + owner;
  return caller;
}

struct World {
  explicit World(SessionLimits limits = {}) : sessions(limits, clock, random) {}
  ManualClock clock;
  SeededRandom random{7};
  Sessions sessions;
  Caller alice = CallerWith("token-a", "alice");
  Caller bob = CallerWith("token-b", "bob");
};

TEST(Sessions, IdsAreLongAndOwn) {
  World world;
  const std::string id = world.sessions.Open(world.alice).value();
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(world.sessions.Use(id, world.alice));
  std::set<std::string> ids;
  for (int i = 0; i < 50; ++i) ids.insert(world.sessions.Open(world.bob).value());
  EXPECT_EQ(ids.size(), 50u);
}

TEST(Sessions, AnotherTokenIsRefusedAndChangesNothing) {
  World world;
  const std::string id = world.sessions.Open(world.alice).value();
  const Caller renewed = CallerWith("token-a2", "alice");
  Caller nobody;
  nobody.anonymous = true;
  nobody.owner = "anonymous";
  for (const Caller& other : {world.bob, renewed, nobody}) {
    const auto used = world.sessions.Use(id, other);
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().code, Code::kDenied);
    EXPECT_EQ(used.error().ToString(), world.sessions.Use("f00", other).error().ToString());
    EXPECT_FALSE(world.sessions.Close(id, other));
  }
  // Nor does it keep the session alive.
  world.clock.Sleep(seconds(899));
  EXPECT_FALSE(world.sessions.Use(id, world.bob));
  world.clock.Sleep(seconds(1));
  EXPECT_FALSE(world.sessions.Use(id, world.alice));
}

TEST(Sessions, IdleAndAbsoluteEnds) {
  World world;
  const std::string id = world.sessions.Open(world.alice).value();
  Duration passed{};
  while (passed + seconds(899) < seconds(28'800)) {
    world.clock.Sleep(seconds(899));
    passed += seconds(899);
    ASSERT_TRUE(world.sessions.Use(id, world.alice));
  }
  world.clock.Sleep(seconds(28'799) - passed);
  EXPECT_TRUE(world.sessions.Use(id, world.alice));
  world.clock.Sleep(seconds(1));
  EXPECT_FALSE(world.sessions.Use(id, world.alice));
  EXPECT_EQ(world.sessions.Count(), 0u);
}

TEST(Sessions, CloseAndLimits) {
  World world({.per_owner = 2, .total = 3});
  const std::string first = world.sessions.Open(world.alice).value();
  ASSERT_TRUE(world.sessions.Open(world.alice));
  const auto third = world.sessions.Open(world.alice);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kLimit);
  EXPECT_THAT(third.error().message, HasSubstr("2 sessions already"));
  ASSERT_TRUE(world.sessions.Open(world.bob));
  const auto fourth = world.sessions.Open(world.bob);
  ASSERT_FALSE(fourth);
  EXPECT_THAT(fourth.error().message, HasSubstr("as many sessions as it may"));
  EXPECT_TRUE(world.sessions.Close(first, world.alice));
  EXPECT_FALSE(world.sessions.Close(first, world.alice));
  EXPECT_TRUE(world.sessions.Open(world.alice));
  // Ended ones count no more.
  world.clock.Sleep(seconds(900));
  EXPECT_TRUE(world.sessions.Open(world.alice));
  EXPECT_EQ(world.sessions.Count(), 1u);
}

// Against a model that keeps tokens and times in clear.
TEST(Sessions, RandomUse) {
  struct Known {
    int caller;
    Duration opened;
    Duration used;
  };
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    World world({.idle = minutes(5), .absolute = minutes(30), .per_owner = 3, .total = 7});
    SeededRandom random(seed);
    const std::vector<Caller> callers = {world.alice, world.bob, CallerWith("token-c", "carol"),
                                         CallerWith("token-a2", "alice")};
    std::map<std::string, Known> model;
    std::vector<std::string> ids = {"", "0123"};
    for (int step = 0; step < 400; ++step) {
      const Duration now = world.clock.Monotonic();
      std::erase_if(model, [&](const auto& entry) {
        return now - entry.second.used >= minutes(5) || now - entry.second.opened >= minutes(30);
      });
      const auto who = static_cast<int>(random.Next() % callers.size());
      const Caller& caller = callers[static_cast<size_t>(who)];
      const std::string id = ids[random.Next() % ids.size()];
      const auto known = model.find(id);
      const bool own = known != model.end() && known->second.caller == who;
      switch (random.Next() % 4) {
        case 0: {
          const auto owned = std::ranges::count_if(model, [&](const auto& entry) {
            return callers[static_cast<size_t>(entry.second.caller)].owner == caller.owner;
          });
          const auto opened = world.sessions.Open(caller);
          ASSERT_EQ(opened.has_value(), owned < 3 && model.size() < 7) << seed << " " << step;
          if (!opened) break;
          model[*opened] = {who, now, now};
          ids.push_back(*opened);
          break;
        }
        case 1:
          ASSERT_EQ(world.sessions.Use(id, caller).has_value(), own) << seed << " " << step;
          if (own) known->second.used = now;
          break;
        case 2:
          if (random.Next() % 4 != 0) break;
          ASSERT_EQ(world.sessions.Close(id, caller).has_value(), own) << seed << " " << step;
          if (own) model.erase(known);
          break;
        default: world.clock.Sleep(seconds(static_cast<int64_t>(random.Next() % 90)));
      }
      if (step % 50 == 0) {
        const Duration later = world.clock.Monotonic();
        std::erase_if(model, [&](const auto& entry) {
          return later - entry.second.used >= minutes(5) ||
                 later - entry.second.opened >= minutes(30);
        });
        ASSERT_EQ(world.sessions.Count(), model.size()) << seed << " " << step;
      }
    }
  }
}

TEST(Sessions, ManyThreads) {
  World world({.per_owner = 1000, .total = 1000});
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Caller own = CallerWith("token-" + std::to_string(t), std::to_string(t));
      for (int i = 0; i < 100; ++i) {
        const std::string id = world.sessions.Open(own).value();
        good += world.sessions.Use(id, own).has_value();
        good += !world.sessions.Use(id, world.alice).has_value();
        if (i % 2 == 0) good += world.sessions.Close(id, own).has_value();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 4 * 250);
  EXPECT_EQ(world.sessions.Count(), 200u);
}

TEST(KeyedHash, DependsOnKeyAndText) {
  SeededRandom random(1);
  const KeyedHash a(random);
  const KeyedHash b(random);
  EXPECT_EQ(a.Of("x").size(), 64u);
  EXPECT_EQ(a.Of("x"), a.Of("x"));
  EXPECT_NE(a.Of("x"), a.Of("y"));
  EXPECT_NE(a.Of("x"), b.Of("x"));
  EXPECT_TRUE(SameText("ab", "ab"));
  EXPECT_FALSE(SameText("ab", "ac"));
  EXPECT_FALSE(SameText("ab", "abc"));
}

}  // namespace
}  // namespace lithify::serve
