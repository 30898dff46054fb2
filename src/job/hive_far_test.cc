// Garbage of a tree where each request is a round trip: many files go together, for the same
// reasons as one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "hooked_runner.h"
#include "job/hive_job.h"
#include "job_world.h"
#include "sim_runner.h"
#include "storage/counting_store.h"
#include "storage/faulty_store.h"
#include "storage/forwarding_store.h"

namespace lithify::job {
namespace {

using storage::FaultyStore;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Rows = std::multiset<std::string>;

const std::string kSealed = sim::JobWorld::Hour("10");
const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};
constexpr auto kMinute = std::chrono::minutes(1);

class HiveFar : public testing::Test {
 protected:
  // Five inputs that are past their grace, and the output.
  void Retire() {
    world_.WriteFive(kSealed);
    ASSERT_TRUE(world_.Sweep());
    world_.clock.Advance(61 * kMinute);
  }

  // What was asked for since the partition was loaded, in words.
  GcReport Collect(storage::CountingStore& store) {
    store.Forget();
    auto report = world_.Job(store).Collect({}, false, CancelFlag());
    EXPECT_TRUE(report);
    requests_.clear();
    bool loaded = false;
    for (const auto& request : store.requests()) {
      requests_.push_back(request.verb + " " + request.key.substr(request.key.rfind('/') + 1));
      // The load ends with the manifest, of which the listing told the time.
      if (!loaded && requests_.back() == "Get manifest.json") requests_.clear();
      loaded = loaded || requests_.empty();
    }
    return *report;
  }

  // Something that happens once, before or after a request of this kind for that key, and only
  // when the partition was loaded.
  void At(std::string_view op, const std::string& key, bool before, std::function<Status()> event) {
    hook_ = [this, op, key, before, event, loaded = false](
                std::string_view at, const std::string& of, bool is_before) mutable -> Status {
      if (at == "Get" && of == kSealed + "manifest.json" && !is_before) loaded = true;
      if (!loaded || at != op || of != key || is_before != before || happened_) return {};
      happened_ = true;
      return event();
    };
  }

  sim::JobWorld world_;
  FaultyStore::Hook hook_ = [](std::string_view, const std::string&, bool) { return Status(); };
  FaultyStore faulty_{world_.store, [this](std::string_view op, const std::string& key,
                                           bool before) { return hook_(op, key, before); }};
  storage::CountingStore far_{faulty_, std::chrono::microseconds(0)};
  std::vector<std::string> requests_;
  bool happened_ = false;
};

TEST_F(HiveFar, R235OneListingOneLookOneRemoval) {
  Retire();
  EXPECT_THAT(Collect(far_).removed, SizeIs(5));
  EXPECT_THAT(requests_, ElementsAre("List ", "Get manifest.json", "RemoveMany f1.parquet"));
  EXPECT_THAT(world_.Names(kSealed), SizeIs(2));
  EXPECT_EQ(world_.LiveRows(kSealed), kFiveRows);
  EXPECT_EQ(world_.Events().back().phase, observe::AuditEvent::Phase::kCollected);
  EXPECT_THAT(world_.Events().back().inputs, SizeIs(5));
}

TEST_F(HiveFar, OnDisksEachFileIsLookedAt) {
  Retire();
  storage::CountingStore near(world_.store, std::chrono::microseconds(0), true);
  EXPECT_THAT(Collect(near).removed, SizeIs(5));
  std::vector<std::string> expected;
  for (const char* name : {"f1", "f2", "f3", "f4", "f5"}) {
    const std::string file = std::string(name) + ".parquet";
    expected.insert(expected.end(), {"Stat " + file, "Get manifest.json", "RemoveMany " + file});
  }
  EXPECT_THAT(requests_, ElementsAreArray(expected));
}

TEST_F(HiveFar, AThousandFilesAtATime) {
  Retire();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(world_.store.PutNew(kSealed + "x" + std::to_string(i) + ".parquet.tmp", "half"));
  }
  world_.clock.Advance(61 * kMinute);
  const GcReport report = Collect(far_);
  EXPECT_THAT(report.removed, SizeIs(2005));
  EXPECT_THAT(report.errors, IsEmpty());
  // 2,007 files are three pages, 1,007 are two.
  EXPECT_THAT(requests_, ElementsAre("List ", "List ", "List ", "Get manifest.json",
                                     "RemoveMany f1.parquet", "List ", "List ", "Get manifest.json",
                                     testing::StartsWith("RemoveMany x"), "List ",
                                     "Get manifest.json", testing::StartsWith("RemoveMany x")));
  EXPECT_THAT(world_.Names(kSealed), SizeIs(2));
}

TEST_F(HiveFar, AFileThatChangedSinceItWasJudgedStays) {
  Retire();
  At("List", kSealed, true, [&] {
    EXPECT_TRUE(world_.store.Remove(kSealed + "f1.parquet"));
    world_.Write(kSealed, "f1", {"new"});
    EXPECT_TRUE(world_.store.Remove(kSealed + "f2.parquet"));
    return Status();
  });
  const GcReport report = Collect(far_);
  ASSERT_TRUE(happened_);
  EXPECT_THAT(report.removed, SizeIs(3));
  EXPECT_THAT(report.errors, IsEmpty());
  ASSERT_THAT(report.kept, SizeIs(1));
  EXPECT_EQ(report.kept[0].key, kSealed + "f1.parquet");
  EXPECT_THAT(report.kept[0].reason, HasSubstr("changed since it was listed"));
  EXPECT_TRUE(world_.Names(kSealed).contains("f1.parquet"));
}

TEST_F(HiveFar, T23TheManifestIsReadAfterTheListing) {
  Retire();
  // Another compactor makes two of the files live again, at the last moment.
  const std::string key = kSealed + "manifest.json";
  At("Get", key, true, [&]() -> Status {
    const auto current = table::ReadManifest(world_.store, kSealed);
    HiveManifest next = (*current)->manifest;
    ++next.generation;
    next.files = {"f1.parquet", "f2.parquet"};
    std::erase_if(next.retired, [](const RetiredFile& file) { return file.name < "f3"; });
    return world_.store.PutIf(key, table::SerializeManifest(next).value(), (*current)->version);
  });
  const GcReport report = Collect(far_);
  ASSERT_TRUE(happened_);
  EXPECT_THAT(report.removed, SizeIs(3));
  ASSERT_THAT(report.kept, SizeIs(2));
  EXPECT_THAT(report.kept[0].reason, HasSubstr("not garbage any more"));
  EXPECT_EQ(world_.LiveRows(kSealed), (Rows{"r1", "r2"}));
}

TEST_F(HiveFar, NothingGoesWithoutBothLooks) {
  Retire();
  for (const auto& [op, key] : {std::pair("List", kSealed), {"Get", kSealed + "manifest.json"}}) {
    SCOPED_TRACE(op);
    happened_ = false;
    At(op, key, true, [] { return Fail(Code::kTransient, "try later"); });
    const GcReport report = Collect(far_);
    ASSERT_TRUE(happened_);
    EXPECT_THAT(report.removed, IsEmpty());
    ASSERT_THAT(report.errors, SizeIs(1));
    EXPECT_EQ(report.errors[0].code, Code::kTransient);
    EXPECT_THAT(report.errors[0].context, HasSubstr(kSealed));
    EXPECT_THAT(world_.Names(kSealed), SizeIs(7));
  }
}

TEST_F(HiveFar, R241EachKeyFailsForItself) {
  Retire();
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    if (op != "Remove" || !before) return {};
    if (key.ends_with("f1.parquet")) return Fail(Code::kNotFound, "no such object", key);
    if (key.ends_with("f2.parquet")) return Fail(Code::kTransient, "slow down", key);
    if (key.ends_with("f3.parquet")) return Fail(Code::kDenied, "not allowed", key);
    return {};
  };
  const GcReport report = Collect(far_);
  ASSERT_THAT(report.removed, SizeIs(2));
  EXPECT_EQ(report.removed[0].key, kSealed + "f4.parquet");
  EXPECT_EQ(report.removed[1].key, kSealed + "f5.parquet");
  ASSERT_THAT(report.errors, SizeIs(2));
  EXPECT_EQ(report.errors[0].code, Code::kTransient);
  EXPECT_THAT(report.errors[0].context, HasSubstr("f2.parquet"));
  EXPECT_EQ(report.errors[1].code, Code::kDenied);
  EXPECT_THAT(report.errors[1].context, HasSubstr("f3.parquet"));
}

// Of an attempt that died before its swap.
TEST_F(HiveFar, OrphansGoBehindTheFence) {
  world_.WriteFive(kSealed);
  world_.settings.options.target_file_bytes = 20;
  world_.settings.options.file_bytes_max = 1000;
  FaultyStore dying(world_.store, [](std::string_view op, const std::string& key, bool before) {
    const bool dies = op == "PutIf" && before;
    return dies ? Status(Fail(Code::kCancelled, "crash", key)) : Status();
  });
  ASSERT_TRUE(world_.Sweep(dying));
  ASSERT_THAT(world_.Names(kSealed), SizeIs(8));  // With two orphans.
  world_.clock.Advance(61 * kMinute);
  std::vector<std::string> verbs;
  hook_ = [&](std::string_view op, const std::string&, bool before) -> Status {
    if (before && (op == "PutIf" || op == "List" || op == "Remove")) verbs.emplace_back(op);
    return {};
  };
  GcReport report = Collect(far_);
  EXPECT_THAT(report.removed, SizeIs(2));
  EXPECT_THAT(std::vector<std::string>(verbs.end() - 4, verbs.end()),
              ElementsAre("PutIf", "List", "Remove", "Remove"));
  EXPECT_THAT(requests_.back(), testing::StartsWith("RemoveMany "));
  EXPECT_THAT(world_.Names(kSealed), SizeIs(6));
  EXPECT_EQ(world_.Manifest(kSealed).generation, 2U);
  EXPECT_EQ(world_.LiveRows(kSealed), kFiveRows);
}

TEST_F(HiveFar, AFenceThatFailsLeavesTheOrphans) {
  world_.WriteFive(kSealed);
  FaultyStore dying(world_.store, [](std::string_view op, const std::string& key, bool before) {
    const bool dies = op == "PutIf" && before;
    return dies ? Status(Fail(Code::kCancelled, "crash", key)) : Status();
  });
  ASSERT_TRUE(world_.Sweep(dying));
  world_.clock.Advance(61 * kMinute);
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    return op == "PutIf" && before ? Status(Fail(Code::kDenied, "not allowed", key)) : Status();
  };
  EXPECT_THAT(Collect(far_).removed, IsEmpty());
  EXPECT_THAT(world_.Names(kSealed), SizeIs(7));
}

// Outputs that were written for nothing, and those of which that is not sure.
TEST_F(HiveFar, OutputsAreDiscardedTogether) {
  world_.settings.options.target_file_bytes = 20;
  world_.settings.options.file_bytes_max = 1000;
  world_.WriteFive(kSealed);
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    return op == "PutIf" && before ? Status(Fail(Code::kDenied, "read-only", key)) : Status();
  };
  ASSERT_TRUE(world_.Sweep(far_));
  EXPECT_THAT(world_.Names(kSealed), SizeIs(6));  // Five inputs and the manifest.
  const auto requests = far_.requests();
  ASSERT_GE(requests.size(), 2u);
  EXPECT_EQ(requests[requests.size() - 2].verb, "Get");
  EXPECT_EQ(requests[requests.size() - 2].key, kSealed + "manifest.json");
  EXPECT_EQ(requests.back().verb, "RemoveMany");
  EXPECT_EQ(std::ranges::count(requests, "RemoveMany", &storage::CountingStore::Request::verb), 1);

  // H5: applied, whatever the store says.
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    return op == "PutIf" && !before ? Status(Fail(Code::kDenied, "so it says", key)) : Status();
  };
  ASSERT_TRUE(world_.Sweep(far_));
  EXPECT_THAT(world_.Manifest(kSealed).files, SizeIs(2));
  EXPECT_EQ(world_.LiveRows(kSealed), kFiveRows);
}

// Of two partitions one loads at a time, so that it reads while the other writes.
TEST(HiveLoads, PartitionsTakeTurns) {
  for (const bool far : {false, true}) {
    sim::JobWorld world;
    for (const char* hour : {"10", "11", "12", "13"}) world.WriteFive(sim::JobWorld::Hour(hour));
    world.clock.Advance(std::chrono::hours(48));
    world.settings.threads = 2;
    world.settings.partitions_at_once = 2;
    storage::CountingStore store(world.store, std::chrono::microseconds(0), !far);
    sim::SimRunner inner(store);
    std::mutex mutex;
    int free = 0;
    int taken = 0;
    std::vector<Turns::Turn> held;
    sim::HookedRunner runner(inner, [&](const rewrite::GroupRequest& request) {
      CancelFlag at_once;
      at_once.Request();
      const std::lock_guard lock(mutex);
      if (auto turn = request.turn_to_load(at_once)) {
        ++free;
        held.push_back(std::move(*turn));  // Until another one has asked.
      } else {
        ++taken;
        held.clear();
      }
    });
    HiveJob job({store, runner, world.clock, world.random, *world.audit, world.progress, {}, {}},
                world.settings);
    EXPECT_EQ(job.Sweep({}, false, CancelFlag())->Count(Outcome::kCommitted), 4);
    EXPECT_EQ(free, 2);
    EXPECT_EQ(taken, 2);
  }
}

class BufferingStore final : public storage::ForwardingStore {
 public:
  BufferingStore(storage::Store& store, int64_t bytes) : ForwardingStore(store), bytes_(bytes) {}
  int64_t writer_buffer_bytes() const override { return bytes_; }

 private:
  const int64_t bytes_;
};

TEST(HiveMemory, FewerPartitionsAtOnceWhereWritersHoldMuch) {
  // What a writer holds, and how many partitions are worked on at once then.
  for (const auto& [bytes, at_once] :
       {std::pair<int64_t, int>{0, 8}, {32 * kMiB, 8}, {48 * kMiB, 5}, {kGiB, 1}}) {
    sim::JobWorld world;
    for (int hour = 10; hour < 18; ++hour)
      world.WriteFive(sim::JobWorld::Hour(std::to_string(hour)));
    world.clock.Advance(std::chrono::hours(48));
    world.settings.threads = 16;
    world.settings.partitions_at_once = 8;
    world.settings.memory_bytes = kGiB;
    BufferingStore store(world.store, bytes);
    sim::SimRunner inner(store);
    std::mutex mutex;
    std::set<int64_t> memory;
    std::set<int> threads;
    sim::HookedRunner runner(inner, [&](const rewrite::GroupRequest& request) {
      const std::lock_guard lock(mutex);
      memory.insert(request.memory_bytes);
      threads.insert(request.threads);
    });
    HiveJob job({store, runner, world.clock, world.random, *world.audit, world.progress, {}, {}},
                world.settings);
    const auto report = job.Sweep({}, false, CancelFlag());
    EXPECT_EQ(report->Count(Outcome::kCommitted), 8);
    EXPECT_THAT(memory, ElementsAre(kGiB / at_once));
    EXPECT_THAT(threads, ElementsAre(16 / at_once));
  }
}

}  // namespace
}  // namespace lithify::job
