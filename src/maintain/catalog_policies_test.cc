#include "maintain/catalog_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace lithify::maintain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Time kNow = ParseTime("2026-11-30T12:00:00Z").value();

struct Asked {
  Result<catalog::AppliedPolicy> answer = catalog::AppliedPolicy{};
  int times = 0;
  CatalogPolicies policies = {};
  Result<CatalogPolicies::Answer> At(Duration later, const std::string& key = "lake.s.t") {
    return policies.Of(key, kNow + later, [this] {
      ++times;
      return answer;
    });
  }
};

catalog::AppliedPolicy Off() {
  return {.policy = catalog::CompactionPolicy{.name = "p",
                                              .enable = false,
                                              .target_file_size_bytes = 5,
                                              .config = {{"a", "b"}},
                                              .inherited = true},
          .warnings = {"w"}};
}

TEST(CatalogPolicies, AnAnswerHoldsForMinutes) {
  Asked asked{.answer = Off()};
  const auto first = asked.At(Duration::zero());
  ASSERT_TRUE(first && first->policy);
  EXPECT_EQ(first->policy->name, "p");
  EXPECT_FALSE(first->policy->enable);
  EXPECT_EQ(first->policy->target_file_size_bytes, 5);
  EXPECT_EQ(first->policy->config.at("a"), "b");
  EXPECT_THAT(first->warnings, ElementsAre("w"));
  EXPECT_TRUE(asked.At(CatalogPolicies::kLife - std::chrono::seconds(1))->policy);
  EXPECT_EQ(asked.times, 1);
  asked.answer = catalog::AppliedPolicy{};
  EXPECT_FALSE(asked.At(CatalogPolicies::kLife)->policy);
  EXPECT_EQ(asked.times, 2);
  // A clock that went back does not make an answer live for ever.
  EXPECT_TRUE(asked.At(Duration::zero()));
  EXPECT_EQ(asked.times, 3);
  EXPECT_TRUE(asked.At(Duration::zero(), "lake.s.other"));
  EXPECT_EQ(asked.times, 4);
}

TEST(CatalogPolicies, WhatIsNotThereIsNoPolicyAndIsTold) {
  for (const Code code : {Code::kNotFound, Code::kDenied, Code::kUnsupported}) {
    Asked asked{.answer = Fail(code, "no such thing")};
    const auto answer = asked.At(Duration::zero());
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->policy);
    EXPECT_THAT(answer->warnings, ElementsAre(HasSubstr("no such thing")));
    EXPECT_TRUE(asked.At(std::chrono::seconds(1)));
    EXPECT_EQ(asked.times, 1);
  }
}

TEST(CatalogPolicies, NoAnswerLeavesWhatIsKnown) {
  for (const Code code : {Code::kTransient, Code::kCorrupt, Code::kInvalid, Code::kCancelled}) {
    Asked asked{.answer = Fail(code, "no answer")};
    ASSERT_FALSE(asked.At(Duration::zero()));
    EXPECT_EQ(asked.At(Duration::zero()).error().code, code);
    asked.answer = Off();
    ASSERT_TRUE(asked.At(Duration::zero()));
    asked.answer = Fail(code, "no answer");
    const auto kept = asked.At(CatalogPolicies::kLife);
    ASSERT_TRUE(kept && kept->policy);
    EXPECT_FALSE(kept->policy->enable);
    EXPECT_THAT(kept->warnings, ElementsAre("w", HasSubstr("no answer")));
    EXPECT_TRUE(asked.At(CatalogPolicies::kLife));
    EXPECT_EQ(asked.times, 5);  // It is asked again each time.
  }
}

TEST(CatalogPolicies, OfTablesThatAreGoneNothingIsKept) {
  Asked asked{.answer = Off()};
  ASSERT_TRUE(asked.At(Duration::zero()));
  asked.policies.Keep([](const std::string&) { return false; });
  ASSERT_TRUE(asked.At(Duration::zero()));
  EXPECT_EQ(asked.times, 2);
}

}  // namespace
}  // namespace lithify::maintain
