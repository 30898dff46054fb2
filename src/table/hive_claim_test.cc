#include "table/hive_claim.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lithify::table {
namespace {

HiveClaim Claim() {
  return {.holder = "host-a-17-0123456789abcdef",
          .job_id = "019e5c1f-0000-7000-8000-000000000000",
          .claimed_at = *ParseTime("2026-11-29T12:00"),
          .expires_at = *ParseTime("2026-11-29T12:15:00.000001Z")};
}

TEST(HiveClaim, Q3IsOneLineOfJson) {
  EXPECT_EQ(SerializeClaim(Claim()),
            "{\"holder\":\"host-a-17-0123456789abcdef\","
            "\"job_id\":\"019e5c1f-0000-7000-8000-000000000000\","
            "\"claimed_at\":\"2026-11-29T12:00:00.000000Z\","
            "\"expires_at\":\"2026-11-29T12:15:00.000001Z\"}\n");
  EXPECT_EQ(ParseClaim(SerializeClaim(Claim())).value(), Claim());
}

TEST(HiveClaim, OthersMayAddMembers) {
  const auto claim =
      ParseClaim(R"({"v":[1],"holder":"h","job_id":"j","claimed_at":"2026-11-29T12:00:00Z",)"
                 R"("expires_at":"2026-11-29T12:01:00Z"})");
  ASSERT_TRUE(claim) << claim.error().ToString();
  EXPECT_EQ(claim->holder, "h");
}

TEST(HiveClaim, EverythingElseIsCorrupt) {
  std::string large = SerializeClaim(Claim());
  large.insert(large.size() - 1, 4096, ' ');
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{"), std::string("pid 17\n"),
        std::string(4000, '['), large,
        std::string(
            R"({"holder":1,"job_id":"j","claimed_at":"2026-11-29","expires_at":"2026-11-29"})"),
        std::string(R"({"holder":"h","job_id":"j","claimed_at":"2026-11-29"})"),
        std::string(
            R"({"holder":"h","job_id":"j","claimed_at":"now","expires_at":"2026-11-29"})")}) {
    const auto claim = ParseClaim(text);
    ASSERT_FALSE(claim) << text;
    EXPECT_EQ(claim.error().code, Code::kCorrupt);
  }
}

TEST(HiveClaim, ExpiresAtItsTimeAndAfterADayAtTheLatest) {
  HiveClaim claim = Claim();
  EXPECT_TRUE(IsLiveClaim(claim, claim.expires_at - Duration(1)));
  EXPECT_FALSE(IsLiveClaim(claim, claim.expires_at));
  EXPECT_TRUE(IsLiveClaim(claim, claim.expires_at - kClaimTtlMax));
  EXPECT_FALSE(IsLiveClaim(claim, claim.expires_at - kClaimTtlMax - Duration(1)));
  claim.expires_at = Time::max();
  EXPECT_FALSE(IsLiveClaim(claim, claim.claimed_at));
  EXPECT_FALSE(IsLiveClaim(claim, Time::max()));
}

}  // namespace
}  // namespace lithify::table
