#include "storage/s3_pace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace lithify::storage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(S3Pace, HalvesAtAComplaintAndRecoversByOneASecond) {
  S3Pace pace;
  std::vector<std::unique_ptr<S3Pace::Turn>> turns;
  for (int i = 0; i < 16; ++i) turns.push_back(std::make_unique<S3Pace::Turn>(pace));
  EXPECT_EQ(pace.limit(), S3Pace::kNoLimit);
  pace.Answered(seconds(1));
  EXPECT_EQ(pace.limit(), S3Pace::kNoLimit);
  pace.Throttled(seconds(10));
  EXPECT_EQ(pace.limit(), 8);
  // The others of the same burst.
  pace.Throttled(seconds(10) + milliseconds(999));
  EXPECT_EQ(pace.limit(), 8);
  pace.Answered(seconds(10) + milliseconds(999));
  EXPECT_EQ(pace.limit(), 8);
  for (int i = 0; i < 100; ++i) pace.Answered(seconds(11));
  EXPECT_EQ(pace.limit(), 9);
  pace.Throttled(seconds(12));
  EXPECT_EQ(pace.limit(), 4);
  turns.clear();
  // Never less than one, whoever complains.
  for (int i = 13; i < 20; ++i) pace.Throttled(seconds(i));
  EXPECT_EQ(pace.limit(), 1);
  for (int i = 20; i < 20 + S3Pace::kNoLimit - 2; ++i) pace.Answered(seconds(i));
  EXPECT_EQ(pace.limit(), S3Pace::kNoLimit - 1);
  pace.Answered(seconds(1000));
  EXPECT_EQ(pace.limit(), S3Pace::kNoLimit);
}

TEST(S3Pace, NoMoreAreUnderWayThanMayBe) {
  S3Pace pace;
  {
    S3Pace::Turn one(pace);
    S3Pace::Turn two(pace);
    S3Pace::Turn three(pace);
    S3Pace::Turn four(pace);
    pace.Throttled(seconds(1));
  }
  ASSERT_EQ(pace.limit(), 2);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        S3Pace::Turn turn(pace);
        const int with = ++now;
        int seen = most.load();
        while (with > seen && !most.compare_exchange_weak(seen, with)) {
        }
        std::this_thread::yield();
        --now;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
  EXPECT_EQ(now, 0);
}

// Who waits goes on when the limit is lifted again.
TEST(S3Pace, WhoWaitsGetsTheirTurn) {
  S3Pace pace;
  std::optional<S3Pace::Turn> first(std::in_place, pace);
  pace.Throttled(seconds(1));
  ASSERT_EQ(pace.limit(), 1);
  std::atomic<int> done{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      S3Pace::Turn turn(pace);
      ++done;
    });
  }
  EXPECT_EQ(done, 0);
  first.reset();
  threads.clear();
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace lithify::storage
