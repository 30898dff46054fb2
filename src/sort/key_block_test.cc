#include "sort/key_block.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/random.h"

namespace lithify::sort {
namespace {

KeyBlock MakeBlock(SeededRandom& random, size_t count, uint64_t step, uint64_t rows, size_t rest) {
  KeyBlock out;
  out.count = count;
  uint64_t prefix = random.Next() >> 2;
  uint32_t row = static_cast<uint32_t>(random.Next());
  for (size_t i = 0; i < count; ++i) {
    prefix += step == 0 ? 0 : random.Next() % step;
    // 0: rows follow each other.
    row = rows == 0 ? row + 1 : static_cast<uint32_t>(random.Next() % rows);
    out.prefixes.push_back(prefix);
    out.rows.push_back(row);
    if (rest == 0) continue;
    out.bytes.append(random.Next() % (rest + 1), static_cast<char>(random.Next()));
    out.ends.push_back(out.bytes.size());
  }
  return out;
}

TEST(KeyBlock, AnEmptyBlock) {
  KeyBlockCodec codec;
  std::vector<uint8_t> packed;
  ASSERT_TRUE(codec.Encode(KeyBlock(), packed));
  KeyBlock back;
  ASSERT_TRUE(codec.Decode(packed, back));
  EXPECT_EQ(back.count, 0U);
}

TEST(KeyBlock, AnyKeysComeBack) {
  KeyBlockCodec codec;
  const bool held = rc::check("encoded and decoded", [&] {
    SeededRandom random(*rc::gen::arbitrary<uint64_t>());
    const uint64_t step = uint64_t{1} << *rc::gen::inRange(0, 62);
    const KeyBlock block =
        MakeBlock(random, *rc::gen::element<size_t>(1, 2, 127, 128, 129, 1000), step >> 1,
                  *rc::gen::element<uint64_t>(0, 1, 2, 1000, UINT32_MAX),
                  *rc::gen::element<size_t>(0, 0, 1, 40, 3000));
    std::vector<uint8_t> packed;
    RC_ASSERT(codec.Encode(block, packed).has_value());
    KeyBlock back;
    RC_ASSERT(codec.Decode(packed, back).has_value());
    RC_ASSERT(back.count == block.count);
    RC_ASSERT(back.prefixes == block.prefixes);
    RC_ASSERT(back.rows == block.rows);
    RC_ASSERT(back.bytes == block.bytes);
    RC_ASSERT(back.ends == block.ends);
  });
  EXPECT_TRUE(held);
}

// Wraps around, and needs all 64 bits.
TEST(KeyBlock, TheEndsOfAllNumbers) {
  KeyBlock block;
  block.count = 3;
  block.prefixes = {0, 0, UINT64_MAX};
  block.rows = {UINT32_MAX - 1, 0, UINT32_MAX};
  KeyBlockCodec codec;
  std::vector<uint8_t> packed;
  ASSERT_TRUE(codec.Encode(block, packed));
  KeyBlock back;
  ASSERT_TRUE(codec.Decode(packed, back));
  EXPECT_EQ(back.prefixes, block.prefixes);
  EXPECT_EQ(back.rows, block.rows);
}

TEST(KeyBlock, FewBitsForWhatIsNear) {
  SeededRandom random(1);
  KeyBlockCodec codec;
  std::vector<uint8_t> packed;
  // Rows that follow each other: a few bytes in all; prefixes 8 bits each.
  ASSERT_TRUE(codec.Encode(MakeBlock(random, 10000, 256, 0, 0), packed));
  EXPECT_LT(packed.size(), 10500U);
  // Of 2^20 rows: 20 bits each.
  ASSERT_TRUE(codec.Encode(MakeBlock(random, 10000, 256, 1 << 20, 0), packed));
  EXPECT_LT(packed.size(), 10500U + 25000 + 500);
}

// Checksums are for accidents; what gets past them must not do harm either.
TEST(KeyBlock, OtherBytesAreRefusedOrAreKeys) {
  SeededRandom random(3);
  KeyBlockCodec codec;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const KeyBlock block = MakeBlock(random, 300, 1000, round % 3 == 0 ? 0 : 5000, round % 2 * 8);
    std::vector<uint8_t> packed;
    ASSERT_TRUE(codec.Encode(block, packed));
    const uint64_t sum = KeyBlockCodec::Checksum(packed);
    if (round % 4 == 0) {
      packed.resize(random.Next() % packed.size());
    } else {
      packed[random.Next() % packed.size()] ^= static_cast<uint8_t>(random.Next() % 255 + 1);
    }
    EXPECT_NE(KeyBlockCodec::Checksum(packed), sum);
    KeyBlock back;
    const Status decoded = codec.Decode(packed, back);
    if (!decoded) {
      EXPECT_EQ(decoded.error().code, Code::kCorrupt);
      ++refused;
      continue;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < back.count; ++i) bytes += back.rest(i).size();
    EXPECT_EQ(bytes, back.bytes.size());
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lithify::sort
