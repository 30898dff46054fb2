#include "maintain/job_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "base/manual_clock.h"

namespace lithify::maintain {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

// A watch passes a stop on within a fraction of a second.
bool Comes(const CancelFlag& flag) {
  for (int i = 0; i < 500 && !flag.requested(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return flag.requested();
}

TEST(OverrunLimit, IsTheFactorButNeverTooLittle) {
  const OverrunLimits limits{.factor = 4, .at_least = minutes(10)};
  EXPECT_EQ(OverrunLimit(limits, 1), minutes(10));
  EXPECT_EQ(OverrunLimit(limits, 150), minutes(10));
  EXPECT_EQ(OverrunLimit(limits, 300), minutes(20));
  EXPECT_EQ(OverrunLimit(limits, -1), minutes(10));
  EXPECT_EQ(OverrunLimit({.factor = 0}, 300), std::nullopt);
  EXPECT_EQ(OverrunLimit(limits, std::numeric_limits<double>::infinity()), std::nullopt);
  EXPECT_EQ(OverrunLimit(limits, 1e300), std::nullopt);
  EXPECT_EQ(OverrunLimit({.factor = 2, .at_least = Duration::zero()}, 3), seconds(6));
}

TEST(JobWatch, SaysNoOnceTheTimeIsOver) {
  ManualClock clock;
  const CancelFlag outer;
  const JobWatch watch(clock, {.factor = 4, .at_least = minutes(1)}, 30, outer);
  EXPECT_TRUE(watch.Check());
  clock.Sleep(minutes(2));
  EXPECT_TRUE(watch.Check());
  clock.Sleep(seconds(1));
  const Status over = watch.Check();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::kLimit);
  EXPECT_THAT(over.error().ToString(),
              testing::AllOf(HasSubstr("more than 2 min"), HasSubstr("expected to take 30.0 s"),
                             HasSubstr("overrun_factor")));
}

TEST(JobWatch, StopsWhatIsAtWork) {
  ManualClock clock;
  const CancelFlag outer;
  const JobWatch watch(clock, {.factor = 1, .at_least = Duration::zero()}, 0.05, outer);
  ASSERT_TRUE(Comes(watch.cancel()));
  EXPECT_FALSE(watch.Check());
  const Error stopped{Code::kCancelled, "stopped on request", {}, {}};
  EXPECT_EQ(watch.Explained(stopped).code, Code::kLimit);
  // What went wrong before is what it was.
  EXPECT_EQ(watch.Explained({Code::kCorrupt, "broken", {}, {}}).code, Code::kCorrupt);
}

TEST(JobWatch, PassesAStopOn) {
  ManualClock clock;
  CancelFlag outer;
  const JobWatch watch(clock, {}, 1, outer);
  EXPECT_FALSE(watch.cancel().requested());
  outer.Request();
  ASSERT_TRUE(Comes(watch.cancel()));
  EXPECT_TRUE(watch.Check());
  const Error stopped{Code::kCancelled, "stopped on request", {}, {}};
  EXPECT_EQ(watch.Explained(stopped).code, Code::kCancelled);
}

}  // namespace
}  // namespace lithify::maintain
