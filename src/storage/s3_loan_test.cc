#include "storage/s3_loan.h"

#include <gtest/gtest.h>

#include <utility>

namespace lithify::storage {
namespace {

Loan Of(std::string prefix) { return {.prefix = std::move(prefix), .settings = {}, .expires = {}}; }

TEST(Loans, TheLongestPrefixCounts) {
  const std::vector<Loan> loans = {Of("s3"), Of("s3://lake/t"), Of("s3a://lake/t/data/"),
                                   Of("s3://lake/tea")};
  const auto prefix = [&](const char* location) { return FindLoan(loans, location)->prefix; };
  EXPECT_EQ(prefix("s3://lake/t/metadata/x"), "s3://lake/t");
  EXPECT_EQ(prefix("s3://lake/t/data/x"), "s3a://lake/t/data/");
  EXPECT_EQ(prefix("s3://lake/tea/x"), "s3://lake/tea");
  EXPECT_EQ(prefix("s3://lake/team/x"), "s3");
  EXPECT_EQ(FindLoan({Of("s3://lake/t")}, "s3://lake/team/x"), nullptr);
  EXPECT_EQ(FindLoan({Of("")}, "s3://other/x")->prefix, "");
}

}  // namespace
}  // namespace lithify::storage
