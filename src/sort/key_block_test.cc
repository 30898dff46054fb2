#include "sort/key_block.h"

#include <gtest/gtest.h>

namespace lithify::sort {
namespace {

TEST(KeyBlock, AnEmptyBlock) {
  KeyBlockCodec codec;
  std::vector<uint8_t> packed;
  ASSERT_TRUE(codec.Encode(KeyBlock(), packed));
  KeyBlock back;
  ASSERT_TRUE(codec.Decode(packed, back));
  EXPECT_EQ(back.count, 0U);
}

}  // namespace
}  // namespace lithify::sort
