// Sweeps of many partitions where each request is a round trip: they are looked at together, and
// what needs a rewrite is loaded anew for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "hooked_runner.h"
#include "job/hive_job.h"
#include "job_world.h"
#include "sim_runner.h"
#include "storage/counting_store.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using plan::Verdict;
using sim::JobWorld;
using storage::CountingStore;
using storage::FaultyStore;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Rows = std::multiset<std::string>;

const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};

std::string Hour(int hour) { return JobWorld::Hour((hour < 10 ? "0" : "") + std::to_string(hour)); }

class HiveLooks : public testing::Test {
 protected:
  // Partitions of one file, of which some have five.
  void Fill(int hours, const std::set<int>& candidates, int first = 0) {
    for (int hour = first; hour < first + hours; ++hour) {
      if (candidates.contains(hour)) {
        world_.WriteFive(Hour(hour));
      } else {
        world_.Write(Hour(hour), "only", {"row"});
      }
    }
    world_.clock.Advance(std::chrono::hours(48));
  }
  SweepReport Sweep(bool dry_run = false) {
    far_.Forget();
    auto report = world_.Job(far_).Sweep({}, dry_run, cancel_);
    EXPECT_TRUE(report);
    return std::move(*report);
  }
  static const PartitionOutcome& Of(const SweepReport& report, int hour) {
    const auto found = std::ranges::find_if(
        report.partitions,
        [&](const PartitionOutcome& outcome) { return outcome.id.key_prefix == Hour(hour); });
    EXPECT_NE(found, report.partitions.end());
    return *found;
  }
  static int Count(const CountingStore& store, std::string_view verb, const std::string& key) {
    return static_cast<int>(std::ranges::count_if(store.requests(), [&](const auto& request) {
      return request.verb == verb && request.key == key;
    }));
  }
  // What happens before the n-th listing of a partition, from 1; one thread at a time.
  void AtListing(int hour, int n, std::function<void()> event) {
    hook_ = [=, this, listings = 0](std::string_view op, const std::string& key,
                                    bool before) mutable -> Status {
      const std::lock_guard lock(mutex_);
      if (op == "List" && key == Hour(hour) && before && ++listings == n) event();
      return {};
    };
  }

  JobWorld world_;
  CancelFlag cancel_;
  std::mutex mutex_;
  FaultyStore::Hook hook_ = [](std::string_view, const std::string&, bool) { return Status(); };
  FaultyStore faulty_{world_.store, [this](std::string_view op, const std::string& key,
                                           bool before) { return hook_(op, key, before); }};
  CountingStore far_{faulty_, std::chrono::microseconds(0)};
};

TEST_F(HiveLooks, EightPartitionsAreLookedAtTogether) {
  Fill(20, {3, 11});
  // The first eight wait for each other, and nobody comes between.
  std::condition_variable changed;
  int under_way = 0;
  int most = 0;
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    if (op != "List" || key.find("hour=") == std::string::npos) return {};
    std::unique_lock lock(mutex_);
    under_way += before ? 1 : -1;
    most = std::max(most, under_way);
    changed.notify_all();
    if (before) changed.wait_for(lock, std::chrono::seconds(1), [&] { return most >= 8; });
    return {};
  };
  const SweepReport report = Sweep();
  EXPECT_EQ(most, 8);
  ASSERT_THAT(report.partitions, SizeIs(20));
  for (int hour = 0; hour < 20; ++hour) {
    const bool candidate = hour == 3 || hour == 11;
    const PartitionOutcome& outcome = report.partitions[static_cast<size_t>(hour)];
    EXPECT_EQ(outcome.id.key_prefix, Hour(hour));
    EXPECT_EQ(outcome.outcome, candidate ? Outcome::kCommitted : Outcome::kSkipped);
    if (candidate) continue;
    EXPECT_EQ(Count(far_, "List", Hour(hour)), 1);
    EXPECT_EQ(far_.Count(Hour(hour)).requests, 2);
  }
  // Looked at, loaded anew, before the first manifest, before the swap.
  EXPECT_EQ(Count(far_, "List", Hour(3)), 4);
  EXPECT_EQ(world_.LiveRows(Hour(3)), kFiveRows);
  EXPECT_EQ(world_.LiveRows(Hour(11)), kFiveRows);
  EXPECT_EQ(world_.progress.done_items, 20);
}

// Nothing of this where to look is cheap.
TEST_F(HiveLooks, OnDisksAPartitionIsLoadedOnce) {
  Fill(20, {3, 11});
  CountingStore near(world_.store, std::chrono::microseconds(0), true);
  ASSERT_EQ(world_.Job(near).Sweep({}, false, cancel_)->Count(Outcome::kCommitted), 2);
  EXPECT_EQ(Count(near, "List", Hour(3)), 2);  // And before the first manifest.
  EXPECT_EQ(near.Count().at_once, 1);
}

TEST_F(HiveLooks, WhatIsDoneByOthersSinceTheLookIsNotDoneAgain) {
  Fill(3, {1});
  AtListing(1, 2, [&] { EXPECT_EQ(world_.Sweep()->Count(Outcome::kCommitted), 1); });
  const SweepReport report = Sweep();
  EXPECT_EQ(Of(report, 1).outcome, Outcome::kSkipped);
  EXPECT_EQ(Of(report, 1).plan.verdict, Verdict::kIrreducible);
  EXPECT_EQ(Of(report, 1).generation, 2u);
  EXPECT_EQ(world_.LiveRows(Hour(1)), kFiveRows);
  EXPECT_THAT(world_.Phases(), ElementsAre("intent 2", "committed 2"));
}

TEST_F(HiveLooks, WhatCameSinceTheLookIsRewrittenToo) {
  Fill(3, {1});
  AtListing(1, 2, [&] { world_.Write(Hour(1), "f6", {"r6"}); });
  EXPECT_THAT(Of(Sweep(), 1).plan.inputs, SizeIs(6));
  EXPECT_EQ(world_.LiveRows(Hour(1)), (Rows{"r1", "r2", "r3", "r4", "r5", "r6"}));
  // And what has gone is no input.
  Fill(3, {4}, 3);
  AtListing(4, 2, [&] { EXPECT_TRUE(world_.store.Remove(Hour(4) + "f5.parquet")); });
  EXPECT_EQ(Of(Sweep(), 4).outcome, Outcome::kCommitted);
  EXPECT_EQ(world_.LiveRows(Hour(4)), (Rows{"r1", "r2", "r3", "r4"}));
}

// Q4, H1: late files are adopted by the look, and told of once; so is garbage.
TEST_F(HiveLooks, WhatALookDidIsInTheOutcome) {
  Fill(3, {1});
  ASSERT_EQ(Sweep().Count(Outcome::kCommitted), 1);
  for (const char* n : {"a", "b", "c", "d", "e"}) world_.Write(Hour(1), n, {n});
  ASSERT_TRUE(world_.store.PutNew(Hour(1) + "x.parquet.tmp", "half"));
  const auto keys = world_.store.Keys();
  for (const bool dry_run : {true, false}) {
    const SweepReport report = Sweep(dry_run);
    EXPECT_EQ(Of(report, 1).outcome, dry_run ? Outcome::kPlanned : Outcome::kCommitted);
    EXPECT_THAT(Of(report, 1).adopted, SizeIs(5));
    EXPECT_EQ(Of(report, 1).generation, dry_run ? 2u : 4u);
    EXPECT_TRUE(std::ranges::count_if(report.gc.kept, [](const GcReport::Item& item) {
                  return item.key.ends_with(".tmp");
                }) == 1);
    if (dry_run) {
      EXPECT_EQ(world_.store.Keys(), keys);
    }
  }
  EXPECT_EQ(world_.LiveRows(Hour(1)),
            (Rows{"r1", "r2", "r3", "r4", "r5", "a", "b", "c", "d", "e"}));
}

TEST_F(HiveLooks, ReportsAreInTheOrderOfPartitions) {
  Fill(3, {0, 1, 2});
  ASSERT_EQ(Sweep().Count(Outcome::kCommitted), 3);
  world_.clock.Advance(std::chrono::minutes(61));
  // The first one's garbage goes last.
  std::condition_variable changed;
  int done = 0;
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    if (op != "Remove") return {};
    std::unique_lock lock(mutex_);
    if (!before) ++done;
    changed.notify_all();
    if (before && key.starts_with(Hour(0))) {
      changed.wait_for(lock, std::chrono::seconds(1), [&] { return done >= 10; });
    }
    return {};
  };
  const SweepReport report = Sweep();
  ASSERT_THAT(report.gc.removed, SizeIs(15));
  EXPECT_TRUE(std::ranges::is_sorted(report.gc.removed, {}, &GcReport::Item::key));
}

TEST_F(HiveLooks, R240OneLookThatFailsIsOneOutcome) {
  Fill(6, {1, 4});
  hook_ = [](std::string_view op, const std::string& key, bool before) -> Status {
    if (op == "List" && key == Hour(2) && before) return Fail(Code::kTransient, "slow down", key);
    return {};
  };
  std::vector<std::string> told;
  sim::SimRunner inner(far_);
  sim::HookedRunner runner(inner, [](const rewrite::GroupRequest& request) {
    if (request.partition == Hour(4)) throw std::runtime_error("a bug of a library");
  });
  HiveJob job({far_, runner, world_.clock, world_.random, *world_.audit, world_.progress, {}, {}},
              world_.settings);
  const auto report = job.Sweep({}, false, cancel_, [&](const PartitionOutcome& outcome) {
    told.push_back(outcome.id.key_prefix);
  });
  EXPECT_EQ(Of(*report, 1).outcome, Outcome::kCommitted);
  EXPECT_EQ(Of(*report, 2).error->code, Code::kTransient);
  EXPECT_THAT(Of(*report, 4).error->ToString(), HasSubstr("a bug of a library"));
  EXPECT_EQ(report->Count(Outcome::kSkipped), 3);
  // Each once; those that are rewritten come last.
  ASSERT_THAT(told, SizeIs(6));
  EXPECT_THAT(std::vector(told.begin() + 4, told.end()), ElementsAre(Hour(1), Hour(4)));
  EXPECT_THAT(std::set(told.begin(), told.end()), SizeIs(6));
}

TEST_F(HiveLooks, CancelledNothingIsRewritten) {
  Fill(20, {3, 11});
  world_.settings.looks_at_once = 1;
  AtListing(15, 1, [&] { cancel_.Request(); });
  const SweepReport report = Sweep();
  EXPECT_TRUE(report.cancelled);
  EXPECT_EQ(Of(report, 3).outcome, Outcome::kCancelled);
  EXPECT_EQ(Of(report, 11).outcome, Outcome::kCancelled);
  EXPECT_EQ(Of(report, 15).outcome, Outcome::kCancelled);
  EXPECT_EQ(Of(report, 19).outcome, Outcome::kCancelled);
  EXPECT_EQ(Of(report, 14).outcome, Outcome::kSkipped);
  EXPECT_EQ(report.Count(Outcome::kCommitted), 0);
  EXPECT_THAT(world_.Phases(), IsEmpty());
}

// A compacted partition has records of its inputs for good, whose times are held against the
// manifest's: the listing tells that, if it shows the version that is read.
TEST_F(HiveLooks, H3TheTimeOfTheManifestIsTheListings) {
  Fill(3, {0, 1, 2});
  ASSERT_EQ(Sweep().Count(Outcome::kCommitted), 3);
  // The swap is applied long after the clock was read.
  const std::string manifest = Hour(1) + "manifest.json";
  const Time applied = world_.clock.Now() + std::chrono::minutes(50);
  ASSERT_TRUE(world_.store.SetModified(manifest, applied));
  world_.clock.Advance(std::chrono::minutes(61));
  EXPECT_THAT(Sweep(true).gc.removed, SizeIs(10));
  EXPECT_EQ(far_.Count("hour=").requests, 3 * 2);
  // One that is published between the two is asked for its time.
  hook_ = [&, done = false](std::string_view op, const std::string& key,
                            bool before) mutable -> Status {
    if (op != "List" || key != Hour(2) || before || done) return {};
    done = true;
    const auto now = table::ReadManifest(world_.store, Hour(2));
    HiveManifest next = (*now)->manifest;
    ++next.generation;
    return world_.store.PutIf(Hour(2) + "manifest.json", table::SerializeManifest(next).value(),
                              (*now)->version);
  };
  EXPECT_THAT(Sweep(true).gc.removed, SizeIs(5));
  EXPECT_EQ(Count(far_, "Stat", Hour(2) + "manifest.json"), 1);
  EXPECT_EQ(far_.Count("hour=").requests, 3 * 2 + 1);
}

TEST_F(HiveLooks, StatusAndCollectionSayWhatTheyDoOnDisks) {
  Fill(12, {1, 4, 7});
  ASSERT_EQ(Sweep().Count(Outcome::kCommitted), 3);
  world_.clock.Advance(std::chrono::minutes(61));
  const auto far = world_.Job(far_).GetStatus({}, cancel_);
  const auto near = world_.Job().GetStatus({}, cancel_);
  ASSERT_THAT(far->partitions, SizeIs(12));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(far->partitions[i].state.id.key_prefix, near->partitions[i].state.id.key_prefix);
    EXPECT_EQ(far->partitions[i].plan.reason, near->partitions[i].plan.reason);
    EXPECT_EQ(far->partitions[i].last_compaction, near->partitions[i].last_compaction);
  }
  const auto keys = [](const GcReport& report) {
    std::vector<std::string> names;
    for (const GcReport::Item& item : report.removed) names.push_back(item.key);
    return names;
  };
  const auto dry = world_.Job().Collect({}, true, cancel_);
  EXPECT_THAT(dry->removed, SizeIs(15));
  EXPECT_EQ(keys(*world_.Job(far_).Collect({}, true, cancel_)), keys(*dry));
  EXPECT_EQ(keys(*world_.Job(far_).Collect({}, false, cancel_)), keys(*dry));
  cancel_.Request();
  EXPECT_EQ(world_.Job(far_).Collect({}, false, cancel_).error().code, Code::kCancelled);
  EXPECT_EQ(world_.Job(far_).GetStatus({}, cancel_).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace lithify::job
