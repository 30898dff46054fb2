#include "plan/estimate.h"

#include <gtest/gtest.h>

namespace lithify::plan {
namespace {

TEST(EstimateTime, IsBytesOverThreadsOrTheIoLimit) {
  const int64_t second = kBytesPerSecondPerThread;
  EXPECT_EQ(EstimateTime({.bytes = second}, {.threads = 1}), std::chrono::seconds(1));
  EXPECT_EQ(EstimateTime({.bytes = 4 * second}, {.threads = 2}), std::chrono::seconds(2));
  // Read and written: 2 bytes per byte of input.
  EXPECT_EQ(EstimateTime({.bytes = second}, {.threads = 8, .io_limit_bytes_per_second = second}),
            std::chrono::seconds(2));
  EXPECT_EQ(EstimateTime({}, {.threads = 1}), Duration::zero());
}

// Many small partitions take their time although there is nearly nothing to move.
TEST(EstimateTime, HasAFixedCostPerPartitionAndPerFile) {
  const Work work{.partitions = 1000, .files = 6000, .bytes = kBytesPerSecondPerThread};
  EXPECT_EQ(EstimateTime(work, {.threads = 1}), std::chrono::seconds(1 + 100 + 12));
  EXPECT_EQ(EstimateTime(work, {.threads = 4, .partitions_at_once = 2}),
            std::chrono::milliseconds(250 + 56'000));
  // One partition runs alone, and none costs nothing.
  EXPECT_EQ(EstimateTime({.partitions = 1}, {.threads = 4, .partitions_at_once = 2}),
            kTimePerPartition);
  EXPECT_EQ(EstimateTime({}, {.threads = 4, .partitions_at_once = 0}), Duration::zero());
}

}  // namespace
}  // namespace lithify::plan
