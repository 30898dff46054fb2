#include "serve/statement_store.h"

#include <gtest/gtest.h>

#include <set>

#include "base/manual_clock.h"
#include "serve/running_statements.h"

namespace lithify::serve {
namespace {

using std::chrono::minutes;

StoredStatement Statement(const std::string& text) {
  auto planned = std::make_shared<PlannedStatement>();
  planned->text = text;
  return {.planned = std::move(planned), .parameters = nullptr};
}

class StatementStoreTest : public testing::Test {
 protected:
  std::string Text(StatementStore& store, const std::string& handle, const std::string& owner) {
    const auto got = store.Get(handle, owner);
    return got ? got->planned->text : std::string(CodeName(got.error().code));
  }

  ManualClock clock_;
  SeededRandom random_{7};
};

TEST_F(StatementStoreTest, AHandleIsItsOwnersAlone) {
  StatementStore store(clock_, random_, {});
  const std::string handle = store.Add("alice", Statement("a")).value();
  EXPECT_EQ(handle.size(), 32U);
  EXPECT_EQ(Text(store, handle, "alice"), "a");
  // Another's, and one that nobody has, look alike.
  const auto others = store.Get(handle, "bob");
  const auto nobodys = store.Get(std::string(32, '0'), "bob");
  ASSERT_FALSE(others);
  ASSERT_FALSE(nobodys);
  EXPECT_EQ(others.error().ToString(), nobodys.error().ToString());
  EXPECT_FALSE(store.Take(handle, "bob"));
  EXPECT_FALSE(store.Bind(handle, "bob", nullptr));
  store.Remove(handle, "bob");
  EXPECT_EQ(Text(store, handle, "alice"), "a");
  EXPECT_TRUE(store.Take(handle, "alice"));
  EXPECT_EQ(Text(store, handle, "alice"), "not_found");
}

TEST_F(StatementStoreTest, UnusedHandlesAreForgotten) {
  StatementStore store(clock_, random_, {.idle = minutes(15)});
  const std::string used = store.Add("alice", Statement("used")).value();
  const std::string unused = store.Add("alice", Statement("unused")).value();
  clock_.Sleep(minutes(10));
  EXPECT_EQ(Text(store, used, "alice"), "used");
  clock_.Sleep(minutes(10));
  EXPECT_EQ(Text(store, unused, "alice"), "not_found");
  EXPECT_EQ(Text(store, used, "alice"), "used");
  EXPECT_EQ(store.size(), 1U);
}

TEST_F(StatementStoreTest, ThereAreOnlySoMany) {
  StatementStore store(clock_, random_, {.all = 3, .of_owner = 2});
  const std::string first = store.Add("alice", Statement("1")).value();
  ASSERT_TRUE(store.Add("alice", Statement("2")));
  EXPECT_EQ(store.Add("alice", Statement("3")).error().code, Code::kLimit);
  ASSERT_TRUE(store.Add("bob", Statement("4")));
  EXPECT_EQ(store.Add("carol", Statement("5")).error().code, Code::kLimit);
  store.Remove(first, "alice");
  EXPECT_TRUE(store.Add("carol", Statement("5")));
}

TEST_F(StatementStoreTest, OfTicketsTheOldestGoes) {
  StatementStore store(clock_, random_, {.all = 3, .of_owner = 2, .oldest_goes = true});
  const std::string bobs = store.Add("bob", Statement("b")).value();
  const std::string first = store.Add("alice", Statement("1")).value();
  const std::string second = store.Add("alice", Statement("2")).value();
  const std::string third = store.Add("alice", Statement("3")).value();
  // Her own, not the oldest of all.
  EXPECT_EQ(Text(store, first, "alice"), "not_found");
  EXPECT_EQ(Text(store, second, "alice"), "2");
  EXPECT_EQ(Text(store, third, "alice"), "3");
  EXPECT_EQ(Text(store, bobs, "bob"), "b");
  // Everybody's are too many: what was used longest ago.
  EXPECT_EQ(Text(store, second, "alice"), "2");
  ASSERT_TRUE(store.Add("carol", Statement("c")));
  EXPECT_EQ(Text(store, third, "alice"), "not_found");
  EXPECT_EQ(store.size(), 3U);
}

TEST_F(StatementStoreTest, RandomUseKeepsItsCounts) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom choices(seed);
    StatementStore store(clock_, random_, {.all = 20, .of_owner = 5, .oldest_goes = seed % 2 == 0});
    std::vector<std::pair<std::string, std::string>> handles;  // With owners.
    for (int step = 0; step < 300; ++step) {
      const std::string owner = "o" + std::to_string(choices.Next() % 6);
      if (choices.Next() % 2 == 0) {
        if (auto handle = store.Add(owner, Statement("x"))) handles.emplace_back(*handle, owner);
      } else if (!handles.empty()) {
        const auto [handle, own] = handles[choices.Next() % handles.size()];
        EXPECT_FALSE(store.Get(handle, own + "x"));
        if (choices.Next() % 2 == 0) store.Remove(handle, own);
      }
      clock_.Sleep(std::chrono::seconds(choices.Next() % 30));
    }
    EXPECT_LE(store.size(), 20U);
    clock_.Sleep(minutes(16));
    EXPECT_FALSE(store.Get("", ""));
    EXPECT_EQ(store.size(), 0U);
  }
}

TEST(RunningStatements, BoundsStopsAndDrains) {
  RunningStatements running({.all = 3, .of_owner = 2});
  std::set<std::string> stopped;
  const auto begin = [&](const std::string& owner, const std::string& handle) {
    return running.Begin(owner, handle, [&stopped, handle] { stopped.insert(handle); });
  };
  auto first = begin("alice", "a");
  auto second = begin("alice", "b");
  EXPECT_EQ(begin("alice", "c").error().code, Code::kTransient);
  auto third = begin("bob", "d");
  EXPECT_EQ(begin("carol", "e").error().code, Code::kTransient);
  EXPECT_EQ(running.count(), 3U);
  EXPECT_FALSE(running.Stop("bob", "a"));
  EXPECT_FALSE(running.Stop("alice", ""));
  EXPECT_TRUE(running.Stop("alice", "a"));
  EXPECT_EQ(stopped, std::set<std::string>{"a"});
  first->reset();
  EXPECT_FALSE(running.Stop("alice", "a"));
  EXPECT_TRUE(begin("carol", "e"));
  EXPECT_FALSE(running.draining());
  EXPECT_FALSE(running.Drain(std::chrono::milliseconds(1)));
  EXPECT_TRUE(running.draining());
  EXPECT_EQ(begin("carol", "f").error().code, Code::kTransient);
  running.StopAll();
  EXPECT_EQ(stopped, (std::set<std::string>{"a", "b", "d"}));
  second->reset();
  third->reset();
  EXPECT_TRUE(running.Drain(std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace lithify::serve
