#include "base/digest.h"

#include <gtest/gtest.h>

namespace lithify {
namespace {

TEST(Digest128, EachHalfWrapsForItself) {
  Digest128 d{.lo = ~0ULL, .hi = 1};
  d.Add(1, 0);
  EXPECT_EQ(d, (Digest128{.lo = 0, .hi = 1}));
  d.Add(Digest128{.lo = 5, .hi = ~0ULL});
  EXPECT_EQ(d, (Digest128{.lo = 5, .hi = 0}));
}

TEST(Digest128, OrderDoesNotMatterButMultiplicityDoes) {
  const Digest128 x{.lo = 0xfedcba9876543210ULL, .hi = 3};
  const Digest128 y{.lo = 0xffffffff00000001ULL, .hi = 9};
  Digest128 xy = x;
  xy.Add(y);
  Digest128 yx = y;
  yx.Add(x);
  EXPECT_EQ(xy, yx);
  Digest128 xxy = xy;
  xxy.Add(x);
  EXPECT_NE(xy, xxy);
}

TEST(Digest128, HexRoundTrips) {
  const Digest128 d{.lo = 0x0123456789abcdefULL, .hi = 0x00000000000000ffULL};
  EXPECT_EQ(d.ToHex(), "00000000000000ff0123456789abcdef");
  EXPECT_EQ(Digest128::FromHex(d.ToHex()).value(), d);
  for (const char* text :
       {"", "00", "00000000000000FF0123456789abcdef", "00000000000000ff0123456789abcdeg",
        "x0000000000000ff0123456789abcdef", "00000000000000ff0123456789abcdef0"}) {
    ASSERT_FALSE(Digest128::FromHex(text)) << text;
    EXPECT_EQ(Digest128::FromHex(text).error().code, Code::kInvalid);
  }
}

TEST(ContentDigest, SumsAndNamesWhatDiffers) {
  ContentDigest a{.rows = 2, .row = {.lo = 5}, .columns = {{"x", {.lo = 1}}}};
  const ContentDigest b{
      .rows = 3, .row = {.lo = 7}, .columns = {{"x", {.lo = 2}}, {"y", {.lo = 4}}}};
  a.Add(b);
  const ContentDigest sum{
      .rows = 5, .row = {.lo = 12}, .columns = {{"x", {.lo = 3}}, {"y", {.lo = 4}}}};
  EXPECT_EQ(a, sum);
  EXPECT_EQ(a.Difference(sum), "");
  ContentDigest other = sum;
  other.row.lo = 13;
  EXPECT_EQ(a.Difference(other),
            "whole rows: 0000000000000000000000000000000c != 0000000000000000000000000000000d");
  other.columns["y"].lo = 6;
  EXPECT_EQ(a.Difference(other),
            "column y: 00000000000000000000000000000004 != 00000000000000000000000000000006");
  other.columns.erase("y");
  EXPECT_EQ(a.Difference(other), "column y: only on one side");
  EXPECT_EQ(other.Difference(a), "column y: only on one side");
  other.rows = 6;
  EXPECT_EQ(a.Difference(other), "rows: 5 != 6");
}

}  // namespace
}  // namespace lithify
