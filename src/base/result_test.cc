#include "base/result.h"

#include <gtest/gtest.h>

#include <set>

#include "base/cancel.h"

namespace lithify {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(Code::kInvalid, "odd", "Half", "pass an even number");
  return n / 2;
}

Result<int> Quarter(int n) {
  LITHIFY_TRY_ASSIGN(const int half, Half(n));
  LITHIFY_TRY_ASSIGN(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int n) {
  LITHIFY_TRY(Half(n));
  return {};
}

TEST(Result, TryPassesValuesAndErrorsOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).error().ToString(), "invalid: Half: odd (next: pass an even number)");
  EXPECT_TRUE(CheckEven(2));
  EXPECT_EQ(CheckEven(3).error().code, Code::kInvalid);
}

TEST(Error, InPutsTheOutermostPlaceFirst) {
  Error error{Code::kCorrupt, "footer says 3 rows, read 2", "", ""};
  EXPECT_EQ(error.ToString(), "corrupt: footer says 3 rows, read 2");
  error = std::move(error).In("x.parquet").In("data/");
  EXPECT_EQ(error.ToString(), "corrupt: data/: x.parquet: footer says 3 rows, read 2");
  error = std::move(error).Hint("restore it");
  EXPECT_EQ(error.ToString(),
            "corrupt: data/: x.parquet: footer says 3 rows, read 2 (next: restore it)");
}

TEST(CodeName, IsOneOfAKind) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    names.insert(CodeName(static_cast<Code>(code)));
  }
  EXPECT_EQ(names.size(), 11U);
  EXPECT_EQ(CodeName(Code::kUnknownOutcome), "unknown_outcome");
}

TEST(CancelFlag, FailsOnceAsked) {
  CancelFlag flag;
  EXPECT_TRUE(flag.Check());
  flag.Request();
  EXPECT_TRUE(flag.requested());
  EXPECT_EQ(flag.Check().error().code, Code::kCancelled);
}

TEST(CheckDeathTest, EndsTheProcessWithThePlaceAndTheReason) {
  EXPECT_DEATH(LITHIFY_CHECK(1 + 1 == 3, "sums"), "invariant broken at .*1 \\+ 1 == 3: sums");
}

}  // namespace
}  // namespace lithify
