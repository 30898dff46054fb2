#include "base/file_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace lithify {
namespace {

constexpr FileSizes kSizes{.target = 1000, .min = 750, .max = 1800};

TEST(FileSizes, AsNearToTheTargetAsGoes) {
  EXPECT_EQ(kSizes.Outputs(-1), 1);
  EXPECT_EQ(kSizes.Outputs(0), 1);
  EXPECT_EQ(kSizes.Outputs(1000), 1);
  EXPECT_EQ(kSizes.Outputs(1499), 1);
  EXPECT_EQ(kSizes.Outputs(3000), 3);
}

TEST(FileSizes, NoneNearTheMinimumNoneAboveTheMaximum) {
  int64_t before = 1;
  for (int64_t bytes = 0; bytes < 20'000; ++bytes) {
    const int64_t outputs = kSizes.Outputs(bytes);
    ASSERT_GE(outputs, before) << bytes;  // Never falls.
    ASSERT_LE(bytes / outputs, kSizes.max) << bytes;
    if (outputs > 1 && outputs > (bytes + kSizes.max - 1) / kSizes.max) {
      ASSERT_GE(bytes / outputs, kSizes.min) << bytes;
    }
    before = outputs;
  }
}

TEST(FileSizes, HostileNumbersDoNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(WithReserve(most), most);
  EXPECT_EQ(WithReserve(800), 901);
  EXPECT_GT(kSizes.Outputs(most), 1);
  EXPECT_EQ((FileSizes{.target = most, .min = most, .max = most}).Outputs(most), 1);
}

}  // namespace
}  // namespace lithify
