#include "base/turns.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lithify {
namespace {

class TurnsTest : public testing::Test {
 protected:
  std::future<Result<Turns::Turn>> Ask(Turns& turns, const CancelFlag& cancel) {
    const int before = turns.waiting();
    auto asked = std::async(std::launch::async, [&] { return turns.Take(cancel); });
    while (turns.waiting() == before) std::this_thread::yield();
    return asked;
  }

  CancelFlag go_on_;
};

TEST_F(TurnsTest, SoManyAtOnceAndAtLeastOne) {
  for (const auto& [at_once, expected] : {std::pair{-1, 1}, {0, 1}, {1, 1}, {3, 3}}) {
    Turns turns(at_once);
    std::vector<Turns::Turn> taken;
    for (int i = 0; i < expected; ++i) taken.push_back(turns.Take(go_on_).value());
    auto next = Ask(turns, go_on_);
    EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    Turns::Turn copy = taken.back();
    taken.pop_back();
    EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    EXPECT_EQ(turns.waiting(), 1);
    copy.reset();
    EXPECT_TRUE(next.get());
    EXPECT_EQ(turns.waiting(), 0);
  }
}

TEST_F(TurnsTest, InTheOrderOfAsking) {
  Turns turns(1);
  auto first = turns.Take(go_on_);
  std::vector<std::future<void>> all;
  std::mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    all.push_back(std::async(std::launch::async, [&, i] {
      const auto turn = turns.Take(go_on_);
      const std::lock_guard lock(mutex);
      order.push_back(i);
    }));
    while (turns.waiting() <= i) std::this_thread::yield();
  }
  first->reset();
  for (auto& one : all) one.get();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Whoever gives up waiting holds nobody up.
TEST_F(TurnsTest, WhoIsStoppedGoesAway) {
  Turns turns(1);
  auto held = turns.Take(go_on_);
  CancelFlag stop;
  auto stopped = Ask(turns, stop);
  auto next = Ask(turns, go_on_);
  stop.Request();
  EXPECT_EQ(stopped.get().error().code, Code::kCancelled);
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  held->reset();
  EXPECT_TRUE(next.get());
}

}  // namespace
}  // namespace lithify
