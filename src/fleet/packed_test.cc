#include "fleet/packed.h"

#include <gtest/gtest.h>

#include <string>

#include "fleet/wire.h"
#include "fleet/wire_world.h"

namespace lithify::fleet {
namespace {

// A list of locations as a rewrite of a real table has them: each differs in some random digits.
std::string Locations(int count) {
  SeededRandom random(3);
  std::string text = R"({"frame":"done","inputs":[)";
  for (int i = 0; i < count; ++i) {
    text += R"({"path":"s3://lake/warehouse/sales/events/data/day=2026-11-29/)" +
            std::to_string(random.Next()) + R"(.parquet","records":125000,"rows_deleted":1250},)";
  }
  return text + "]}";
}

TEST(Packed, WhatIsPackedComesBack) {
  for (const int count : {0, 1, 3, 15, 1000, 20'000}) {
    const std::string text = Locations(count);
    const auto back = Unpacked(Packed(text));
    ASSERT_TRUE(back) << count << ": " << back.error().ToString();
    EXPECT_EQ(*back, text);
  }
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string frame =
        *EncodeFrame(DoneFrame{.group_id = 1, .result = WireWorld(seed).Result()});
    EXPECT_EQ(Unpacked(Packed(frame)).value(), frame) << seed;
  }
}

TEST(Packed, LocationsTakeAFractionOfTheirText) {
  const std::string text = Locations(15);
  EXPECT_LT(Packed(text).size() * 4, text.size());
}

TEST(Packed, WhatIsShortOrDoesNotGainStaysAsItIs) {
  const std::string progress = *EncodeFrame(ProgressFrame{.group_id = 1, .bytes_read = 2});
  EXPECT_EQ(Packed(progress), progress);
  std::string noise;
  SeededRandom random(1);
  for (int i = 0; i < 4000; ++i) noise += static_cast<char>(random.Next());
  EXPECT_EQ(Packed(noise), noise);
}

// Its seal is what tells a frame that was changed; here nothing may crash.
TEST(Packed, CutOffItIsRefusedAndChangedItDoesNoHarm) {
  const std::string text = Locations(15);
  const std::string packed = Packed(text);
  for (size_t i = 1; i < packed.size(); ++i) {
    EXPECT_FALSE(Unpacked(std::string_view(packed).substr(0, i))) << i;
  }
  int refused = 0;
  for (size_t i = 1; i < packed.size(); ++i) {
    std::string changed = packed;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    const auto back = Unpacked(changed);
    refused += back ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

TEST(Packed, ASizeBeyondTheLargestAnswerIsRefusedBeforeAnythingIsAllocated) {
  const auto back = Unpacked(std::string("Z\xff\xff\xff\xff") + "xxxx");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::kLimit);
}

}  // namespace
}  // namespace lithify::fleet
