#include "job/hive_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using sim::JobWorld;
using storage::FaultyStore;
using testing::HasSubstr;

const std::string kSealed = JobWorld::Hour("10");
constexpr Duration kStart = std::chrono::hours(100);
constexpr Duration kInterval = std::chrono::minutes(5);

const Error kError{Code::kUnsupported, "it grew", "data/a/", "raise it"};

// "T" for a sweep that tries (and fails), "." for one that is passed over.
std::string Sweeps(SweepMemory& memory, int count, Duration interval) {
  std::string out;
  Duration now = kStart;
  for (int i = 0; i < count; ++i, now += interval) {
    if (memory.Recall("p/", 1, now)) {
      out += '.';
      continue;
    }
    out += 'T';
    memory.Remember("p/", 1, kError, Time(now), now);
  }
  return out;
}

TEST(SweepMemory, PassesOver1Then2Then4Sweeps) {
  SweepMemory memory("me");
  EXPECT_EQ(Sweeps(memory, 26, kInterval), "T.T..T....T........T......");
}

TEST(SweepMemory, TriesAgainAfterSixHoursAtTheLatest) {
  SweepMemory memory("me");
  EXPECT_EQ(Sweeps(memory, 14, std::chrono::hours(2)), "T.T..T..T..T..");
}

TEST(SweepMemory, ForgetsOnceSomethingChanged) {
  SweepMemory memory("me");
  EXPECT_FALSE(memory.Recall("p/", 1, kStart).has_value());
  memory.Remember("p/", 1, kError, Time(kStart), kStart);
  EXPECT_FALSE(memory.Recall("q/", 1, kStart).has_value());
  EXPECT_FALSE(memory.Recall("p/", 2, kStart).has_value());
  EXPECT_FALSE(memory.Recall("p/", 1, kStart).has_value());
  memory.Remember("p/", 1, kError, Time(kStart), kStart);
  memory.Forget("p/");
  EXPECT_FALSE(memory.Recall("p/", 1, kStart).has_value());
}

TEST(SweepMemory, TellsTheOldErrorAsOld) {
  SweepMemory memory("me");
  for (int i = 0; i < 2; ++i) memory.Remember("p/", 1, kError, Time(kStart), kStart);
  const auto first = memory.Recall("p/", 1, kStart);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->code, kError.code);
  EXPECT_EQ(first->context, kError.context);
  EXPECT_EQ(first->hint, kError.hint);
  EXPECT_EQ(first->message,
            "failed before (at 1970-01-05T04:00:00.000000Z), unchanged since: it grew; tried again "
            "after 1 more sweep, or after 6 h 00 min");
  EXPECT_THAT(memory.Recall("p/", 1, kStart)->message, HasSubstr("tried again in the next sweep"));
}

// Known limits of 2026-11-29: an output that grows cost its whole rewrite in every sweep.
TEST(HiveFailedBefore, IsNotPaidForInEverySweep) {
  JobWorld world;
  world.WriteFive(kSealed);
  int rewrites = 0;
  Code code = Code::kUnsupported;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
    if (op != "Create" || !before) return Status();
    ++rewrites;
    return Status(Fail(code, "it grew"));
  });
  HiveJob job = world.Job(seen);
  const auto sweep = [&] {
    const auto report = job.Sweep({}, false, CancelFlag());
    EXPECT_EQ(report->Count(Outcome::kFailed), 1);
    EXPECT_TRUE(report->failed());
    return report->partitions.front().error->message;
  };
  EXPECT_EQ(sweep(), "it grew");
  EXPECT_THAT(sweep(), HasSubstr("unchanged since: it grew"));
  EXPECT_EQ(rewrites, 1);
  EXPECT_EQ(sweep(), "it grew");
  EXPECT_EQ(rewrites, 2);
  EXPECT_THAT(sweep(), HasSubstr("failed before"));
  // Something changes: another file, an input's time.
  world.Write(kSealed, "f6", {"r6"});
  EXPECT_EQ(sweep(), "it grew");
  EXPECT_THAT(sweep(), HasSubstr("failed before"));
  ASSERT_TRUE(world.store.SetModified(kSealed + "f1.parquet", world.clock.Now()).has_value());
  EXPECT_EQ(sweep(), "it grew");
  EXPECT_EQ(rewrites, 4);
  // A dry run tells the plan, and another process knows nothing.
  EXPECT_EQ(job.Sweep({}, true, CancelFlag())->Count(Outcome::kPlanned), 1);
  EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
}

TEST(HiveFailedBefore, WhatMayPassIsTriedAtOnce) {
  JobWorld world;
  world.WriteFive(kSealed);
  int rewrites = 0;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
    if (op != "Create" || !before) return Status();
    return ++rewrites < 3 ? Status(Fail(Code::kTransient, "again")) : Status();
  });
  HiveJob job = world.Job(seen);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(job.Sweep({}, false, CancelFlag())->Count(Outcome::kFailed), 1);
  }
  EXPECT_EQ(job.Sweep({}, false, CancelFlag())->Count(Outcome::kCommitted), 1);
}

}  // namespace
}  // namespace lithify::job
