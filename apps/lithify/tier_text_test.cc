#include "tier_text.h"

#include <gtest/gtest.h>

namespace lithify::cli {
namespace {

TEST(TierText, HasReasonsTheMostFrequentFirst) {
  const TierCounts tiers{{"copy", 8}, {"recode", 1255}, {"splice", 120}};
  const TierCounts recoded{{"an input lacks it", 5}, {"another codec", 1200}, {"zz", 50}};
  EXPECT_EQ(TierText(tiers, recoded, false),
            "copy 8, splice 120, recode 1,255: another codec 1,200, zz 50, an input lacks it 5");
  EXPECT_EQ(TierText(tiers, recoded, true),
            "copy 8, splice up to 120, recode 1,255: another codec 1,200, zz 50, an input lacks it "
            "5");
  EXPECT_EQ(TierText({{"recode", 2}}, {{"another type", 2}}, true), "recode 2: another type 2");
  EXPECT_EQ(TierText({{"splice", 3}}, {}, false), "splice 3");
  EXPECT_EQ(TierText({}, {}, true), "");
}

TEST(TierText, JsonHasEveryColumn) {
  EXPECT_TRUE(TierPlanJson(std::nullopt).is_null());
  rewrite::TierPlan plan;
  plan.row_groups = 2;
  plan.tiers = {{"recode", 1}, {"splice", 3}};
  plan.recoded = {{"another type", 1}};
  plan.columns = {{"a.b", {{"recode", 1}, {"splice", 3}}, {{"another type", 1}}}};
  EXPECT_EQ(TierPlanJson(plan).dump(),
            R"({"row_groups":2,"tiers":{"recode":1,"splice":3},"recoded":{"another type":1},)"
            R"("columns":[{"column":"a.b","tiers":{"recode":1,"splice":3},)"
            R"("recoded":{"another type":1}}]})");
}

}  // namespace
}  // namespace lithify::cli
