// How many requests a sweep of real Parquet makes of a store where each is a round trip, and that
// none that is spared hides that a file is another one by now (R183, R313).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "hooked_runner.h"
#include "job/hive_job.h"
#include "job_world.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/parquet_runner.h"
#include "storage/counting_store.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using storage::CountingStore;
using storage::FaultyStore;
using testing::Each;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using Numbers = std::multiset<int64_t>;

const std::string kSealed = sim::JobWorld::Hour("10");
const std::string kManifest = kSealed + "manifest.json";

std::string FileOf(int64_t number) {
  const auto schema = arrow::schema({arrow::field("n", arrow::int64(), false)});
  return rewrite::WriteParquet(*rewrite::MakeTable(schema, {"[" + std::to_string(number) + "]"}));
}

std::string NameOf(int64_t number) { return "f" + std::to_string(number) + ".parquet"; }

class HiveRequests : public testing::Test {
 protected:
  HiveRequests() {
    world_.settings.options.small_file_bytes = kMiB;
    world_.settings.options.target_file_bytes = 4 * kMiB;
    world_.settings.options.file_bytes_min = 2 * kMiB;
    world_.settings.options.file_bytes_max = 8 * kMiB;
    world_.settings.threads = 4;
  }

  // One row in each file.
  void PutFiles(int64_t count) {
    for (int64_t n = 1; n <= count; ++n) {
      ASSERT_TRUE(world_.store.PutNew(kSealed + NameOf(n), FileOf(n)));
    }
    world_.clock.Advance(std::chrono::hours(48));
  }
  // In as many bytes.
  void Replace(int64_t number, int64_t by, bool as_old) {
    const std::string key = kSealed + NameOf(number);
    const auto before = *world_.store.Stat(key);
    ASSERT_TRUE(world_.store.Remove(key));
    ASSERT_TRUE(world_.store.PutNew(key, FileOf(by)));
    ASSERT_EQ(world_.store.Stat(key)->size, before.size);
    if (as_old) {
      ASSERT_TRUE(world_.store.SetModified(key, before.modified));
    }
  }
  Numbers Rows() {
    Numbers rows;
    for (const std::string& name : world_.Manifest(kSealed).files) {
      const auto table = rewrite::ReadParquet(world_.store.Get(kSealed + name, kMiB)->bytes);
      const auto& column = static_cast<const arrow::Int64Array&>(*table->column(0)->chunk(0));
      for (int64_t r = 0; r < column.length(); ++r) rows.insert(column.Value(r));
    }
    return rows;
  }
  PartitionOutcome Sweep(const std::function<void()>& before_rewrite = {}) {
    far_.Forget();
    sim::HookedRunner hooked(*runner_, [&](const rewrite::GroupRequest&) {
      if (before_rewrite) before_rewrite();
    });
    HiveJob job({far_, hooked, world_.clock, world_.random, *world_.audit, world_.progress, {}, {}},
                world_.settings);
    auto report = job.Sweep({}, false, CancelFlag());
    EXPECT_TRUE(report && report->partitions.size() == 1);
    return std::move(report->partitions.at(0));
  }
  // Of the inputs, by "verb name", and how many of all others, by verb.
  std::pair<std::map<std::string, int>, std::map<std::string, int>> Requests() {
    std::pair<std::map<std::string, int>, std::map<std::string, int>> counts;
    for (const auto& request : far_.requests()) {
      if (request.key.starts_with(kSealed + "f")) {
        ++counts.first[request.verb + " " + request.key.substr(kSealed.size())];
      } else {
        ++counts.second[request.verb];
      }
    }
    return counts;
  }

  sim::JobWorld world_;
  FaultyStore::Hook hook_ = [](std::string_view, const std::string&, bool) { return Status(); };
  FaultyStore faulty_{world_.store, [this](std::string_view op, const std::string& key,
                                           bool before) { return hook_(op, key, before); }};
  CountingStore far_{faulty_, std::chrono::microseconds(0)};
  std::unique_ptr<rewrite::GroupRunner> runner_ = rewrite::MakeParquetRunner(far_);
};

// The footer, for the plan and the first manifest, and the rows.
TEST_F(HiveRequests, TwoPerFileOfAFirstCompaction) {
  PutFiles(40);
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
  const auto [of_inputs, others] = Requests();
  EXPECT_THAT(of_inputs, SizeIs(40));
  EXPECT_THAT(of_inputs, Each(Pair(testing::StartsWith("ReadAt f"), 2)));
  // To find the partitions of two series, to plan the one, for the first manifest, before the swap.
  EXPECT_EQ(others.at("List"), 5);
  // The manifest, after the two listings in the middle and after each publication.
  EXPECT_EQ(others.at("Get"), 4);
  EXPECT_EQ(Rows().size(), 40u);
  EXPECT_EQ(world_.Manifest(kSealed).generation, 2u);
}

// Under a manifest the footers that were read for one plan serve the next.
TEST_F(HiveRequests, WhatIsKnownOfAFileIsNotReadAgain) {
  PutFiles(5);
  hook_ = [](std::string_view op, const std::string& key, bool before) -> Status {
    if (op == "PutIf" && key == kManifest && before) return Fail(Code::kDenied, "not now", key);
    return {};
  };
  EXPECT_EQ(Sweep().outcome, Outcome::kFailed);
  hook_ = [](std::string_view, const std::string&, bool) { return Status(); };
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
  EXPECT_THAT(Requests().first, Each(Pair(testing::StartsWith("ReadAt f"), 1)));
  EXPECT_EQ(Rows(), (Numbers{1, 2, 3, 4, 5}));
}

// By its version alone, which the listing told.
TEST_F(HiveRequests, R313AFileThatIsReplacedBeforeTheRewriteIsNotRewritten) {
  PutFiles(5);
  EXPECT_EQ(Sweep([&] { Replace(2, 7, true); }).outcome, Outcome::kLostRace);
  EXPECT_THAT(world_.Names(kSealed), SizeIs(5));
  // Its facts are read anew, and so is it.
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
  const auto of_inputs = Requests().first;
  EXPECT_EQ(of_inputs.at("ReadAt f1.parquet"), 1);
  EXPECT_EQ(of_inputs.at("ReadAt f2.parquet"), 2);
  EXPECT_EQ(Rows(), (Numbers{1, 3, 4, 5, 7}));
}

TEST_F(HiveRequests, R313AFileThatIsReplacedBeforeTheFirstManifestIsLookedAtAgain) {
  PutFiles(5);
  int listings = 0;
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    if (op != "List" || key != kSealed || !before || ++listings != 2) return {};
    Replace(2, 7, false);
    return {};
  };
  const auto outcome = Sweep();
  EXPECT_EQ(outcome.outcome, Outcome::kFailed);
  EXPECT_THAT(outcome.error->ToString(), HasSubstr("replaced while it was rewritten"));
  const auto of_inputs = Requests().first;
  EXPECT_EQ(of_inputs.at("ReadAt f1.parquet"), 2);
  EXPECT_EQ(of_inputs.at("ReadAt f2.parquet"), 3);
  EXPECT_EQ(Rows(), (Numbers{1, 3, 4, 5, 7}));
  EXPECT_EQ(world_.Manifest(kSealed).generation, 1u);
}

// One that is no Parquet any more is seen before a manifest names it.
TEST_F(HiveRequests, AFileThatIsDamagedBeforeTheFirstManifestIsSeen) {
  PutFiles(5);
  int listings = 0;
  hook_ = [&](std::string_view op, const std::string& key, bool before) -> Status {
    if (op != "List" || key != kSealed || !before || ++listings != 2) return {};
    EXPECT_TRUE(world_.store.Remove(kSealed + "f2.parquet"));
    EXPECT_TRUE(world_.store.PutNew(kSealed + "f2.parquet", "half a file"));
    return {};
  };
  const auto outcome = Sweep();
  EXPECT_EQ(outcome.outcome, Outcome::kFailed);
  EXPECT_EQ(outcome.error->code, Code::kCorrupt);
  EXPECT_THAT(world_.Names(kSealed), SizeIs(5));
}

}  // namespace
}  // namespace lithify::job
