#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace lithify {
namespace {

TEST(ForEachTest, RunsEveryNumberOnce) {
  for (const int threads : {-1, 0, 1, 2, 7}) {
    std::vector<std::atomic<int>> runs(100);
    ForEach(runs.size(), threads, [&](size_t i) { ++runs[i]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1) << threads;
  }
}

TEST(ForEachTest, OneThreadIsTheCallersInOrder) {
  std::vector<size_t> order;
  ForEach(5, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(ForEachTest, NoMoreThreadsThanNumbers) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ForEach(1, 8, [&](size_t) {
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
  ForEach(0, 8, [&](size_t) { FAIL(); });
}

TEST(TryForEachTest, StartsNoMoreAfterAFailure) {
  int started = 0;
  const Status status = TryForEach(10, 1, [&](size_t i) -> Status {
    ++started;
    if (i >= 3) return Fail(Code::kCorrupt, "number " + std::to_string(i));
    return {};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "number 3");
  EXPECT_EQ(started, 4);
}

TEST(TryForEachTest, TellsTheFirstInOrderOfThoseThatFailed) {
  std::atomic<int> waiting{0};
  const Status status = TryForEach(2, 2, [&](size_t i) -> Status {
    // Both are under way before either fails.
    ++waiting;
    while (waiting < 2) std::this_thread::yield();
    return Fail(Code::kCorrupt, "number " + std::to_string(i));
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "number 0");
}

}  // namespace
}  // namespace lithify
