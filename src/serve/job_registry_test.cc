#include "serve/job_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/manual_clock.h"

namespace lithify::serve {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Caller Named(const std::string& name) {
  Caller caller;
  caller.name = name;
  caller.owner = "subject:" + name;
  return caller;
}

struct World {
  explicit World(JobLimits limits = {}) : jobs(limits, clock, random) {}
  std::unique_ptr<RunningJob> Begin(const Caller& caller, const std::string& table = "lake.a.t") {
    auto job = jobs.Begin(caller, "rewrite_data_files", table);
    EXPECT_TRUE(job) << job.error().ToString();
    return job ? std::move(*job) : nullptr;
  }
  ManualClock clock;
  SeededRandom random{3};
  JobRegistry jobs;
  Caller alice = Named("alice");
  Caller bob = Named("bob");
};

TEST(JobRegistry, ShowsAJobFromBeginToEnd) {
  World world;
  auto job = world.Begin(world.alice);
  EXPECT_EQ(UuidV7Time(job->id()), world.clock.Now());
  job->AddTotal(1000, 4);
  job->AddBytes(300);
  job->AddItem();
  job->Line("one group is slow");
  world.clock.Sleep(seconds(5));
  auto listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(1));
  const JobInfo& info = listed[0];
  EXPECT_EQ(info.id, job->id());
  EXPECT_EQ(info.owner_name, "alice");
  EXPECT_EQ(info.procedure, "rewrite_data_files");
  EXPECT_EQ(info.table, "lake.a.t");
  EXPECT_EQ(info.state, JobState::kRunning);
  EXPECT_EQ(info.bytes_total, 1000);
  EXPECT_EQ(info.bytes_done, 300);
  EXPECT_EQ(info.items_total, 4);
  EXPECT_EQ(info.items_done, 1);
  EXPECT_EQ(info.message, "one group is slow");
  EXPECT_EQ(info.started, Time{seconds(1'800'000'000)});
  EXPECT_FALSE(info.finished);
  job->End({});
  job->End(Fail(Code::kInternal, "too late"));
  job.reset();
  listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].state, JobState::kDone);
  EXPECT_EQ(listed[0].finished, listed[0].started + seconds(5));
  EXPECT_EQ(listed[0].error, "");
  EXPECT_EQ(world.jobs.Running(), 0u);
}

TEST(JobRegistry, EndsByCause) {
  World world;
  world.Begin(world.alice)->End(Fail(Code::kConflict, "somebody was faster"));
  world.clock.Sleep(seconds(1));
  world.Begin(world.alice)->End(Fail(Code::kCancelled, "stopped on request"));
  world.clock.Sleep(seconds(1));
  (void)world.Begin(world.alice);  // Gone without an outcome.
  const auto listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(3));
  EXPECT_EQ(listed[0].state, JobState::kFailed);
  EXPECT_THAT(listed[0].error, HasSubstr("without an outcome"));
  EXPECT_EQ(listed[1].state, JobState::kCancelled);
  EXPECT_EQ(listed[2].state, JobState::kFailed);
  EXPECT_THAT(listed[2].error, HasSubstr("somebody was faster"));
}

TEST(JobRegistry, EverybodySeesAndCancelsTheirOwn) {
  World world;
  auto hers = world.Begin(world.alice);
  auto his = world.Begin(world.bob);
  ASSERT_THAT(world.jobs.List(world.bob), SizeIs(1));
  EXPECT_EQ(world.jobs.List(world.bob)[0].id, his->id());
  EXPECT_THAT(world.jobs.List(Named("carol")), IsEmpty());
  // Another's job and none at all are told apart by nothing but the id.
  const Status foreign = world.jobs.Cancel(world.bob, hers->id());
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, Code::kNotFound);
  EXPECT_EQ(foreign.error().message, world.jobs.Cancel(world.bob, "none").error().message);
  EXPECT_FALSE(hers->cancel().requested());
  ASSERT_TRUE(world.jobs.Cancel(world.alice, hers->id()));
  EXPECT_TRUE(hers->cancel().requested());
  EXPECT_FALSE(his->cancel().requested());
  EXPECT_TRUE(world.jobs.List(world.alice)[0].cancel_requested);
  hers->End(hers->cancel().Check());
  const Status again = world.jobs.Cancel(world.alice, hers->id());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalid);
  EXPECT_THAT(again.error().message, HasSubstr("cancelled already"));
}

// The same name is not the same owner.
TEST(JobRegistry, NamesOwnNothing) {
  World world;
  auto job = world.Begin(world.alice);
  Caller forged = Named("mallory");
  forged.name = "alice";
  EXPECT_THAT(world.jobs.List(forged), IsEmpty());
  EXPECT_FALSE(world.jobs.Cancel(forged, job->id()));
}

TEST(JobRegistry, Limits) {
  World world({.running_per_owner = 2, .running = 3});
  auto a = world.Begin(world.alice);
  auto b = world.Begin(world.alice);
  const auto refused = world.jobs.Begin(world.alice, "p", "t");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
  EXPECT_THAT(refused.error().message, HasSubstr("the caller runs 2 jobs"));
  auto c = world.Begin(world.bob);
  EXPECT_THAT(world.jobs.Begin(world.bob, "p", "t").error().message, HasSubstr("the server runs"));
  EXPECT_EQ(world.jobs.Running(), 3u);
  a.reset();
  EXPECT_NE(world.Begin(world.alice), nullptr);
}

TEST(JobRegistry, EndedJobsGoByAgeAndNumber) {
  World world({.running_per_owner = 10, .finished_life = minutes(10), .finished = 3});
  auto running = world.Begin(world.alice, "running");
  for (int i = 0; i < 5; ++i) {
    world.clock.Sleep(seconds(1));
    world.Begin(world.alice, std::to_string(i))->End({});
  }
  auto listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(4));
  EXPECT_EQ(listed[0].table, "4");
  EXPECT_EQ(listed[2].table, "2");
  EXPECT_EQ(listed[3].table, "running");
  world.clock.Sleep(minutes(10) - seconds(1));
  EXPECT_THAT(world.jobs.List(world.alice), SizeIs(2));
  world.clock.Sleep(seconds(1));
  listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].table, "running");
}

TEST(JobRegistry, CancelAllEndsTheServer) {
  World world;
  auto hers = world.Begin(world.alice);
  auto his = world.Begin(world.bob);
  world.jobs.CancelAll();
  EXPECT_TRUE(hers->cancel().requested());
  EXPECT_TRUE(his->cancel().requested());
  EXPECT_EQ(world.jobs.Begin(world.alice, "p", "t").error().code, Code::kCancelled);
}

TEST(JobRegistry, LongTextsAreCut) {
  World world;
  auto job = world.Begin(world.alice);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ä";
  job->Line(text);
  job->End(Fail(Code::kInternal, text));
  const JobInfo info = world.jobs.List(world.alice)[0];
  EXPECT_LE(info.message.size(), 2003u);
  EXPECT_LE(info.error.size(), 2003u);
  EXPECT_TRUE(info.message.ends_with("ä…"));
}

// Everything at once; for the thread sanitizer, and the sums must be right.
TEST(JobRegistry, ManyThreads) {
  World world({.running_per_owner = 1000, .running = 1000, .finished = 100'000});
  constexpr int kThreads = 4;
  constexpr int kJobs = 60;
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      for (const JobInfo& info : world.jobs.List(world.alice)) {
        EXPECT_LE(info.items_done, 10);
        (void)world.jobs.Cancel(world.bob, info.id);
      }
      (void)world.jobs.Running();
    }
  });
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) {
        auto job = world.Begin(world.alice);
        job->AddTotal(100, 10);
        std::thread worker([&] {
          for (int step = 0; step < 10; ++step) {
            job->AddBytes(10);
            job->AddItem();
            job->Line("step " + std::to_string(step));
          }
        });
        if ((i + t) % 3 == 0) {
          ASSERT_TRUE(world.jobs.Cancel(world.alice, job->id()));
        }
        worker.join();
        const Status status = job->cancel().Check();
        cancelled += !status;
        job->End(status);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  watcher.join();
  const auto listed = world.jobs.List(world.alice);
  ASSERT_THAT(listed, SizeIs(kThreads * kJobs));
  int seen = 0;
  for (const JobInfo& info : listed) {
    EXPECT_EQ(info.bytes_done, 100);
    EXPECT_EQ(info.items_done, 10);
    EXPECT_EQ(info.message, "step 9");
    seen += info.state == JobState::kCancelled;
  }
  EXPECT_EQ(seen, cancelled);
  EXPECT_EQ(seen, kThreads * kJobs / 3);
  EXPECT_EQ(world.jobs.Running(), 0u);
}

}  // namespace
}  // namespace lithify::serve
