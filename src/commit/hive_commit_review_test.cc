// What a review of the committer found: inputs that are not what was rewritten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "commit/hive_commit.h"
#include "storage/memory_store.h"
#include "table/hive_manifest.h"

namespace lithify::commit {
namespace {

using testing::HasSubstr;

const std::string kPrefix = "data/hour=07/";

class HiveCommitReview : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a.parquet", "b.parquet", "out.parquet"}) {
      ASSERT_TRUE(store_.PutNew(kPrefix + name, "four"));
    }
    base_ = committer_.Bootstrap(Scope(), {"a.parquet", "b.parquet"}).value();
    request_.planned = base_;
    request_.inputs = {"a.parquet", "b.parquet"};
    for (const std::string& name : request_.inputs) {
      request_.inputs_as_planned.push_back(store_.Stat(kPrefix + name).value());
    }
    request_.outputs = {{"out.parquet", 4, 10}};
    request_.rows_in = request_.rows_out = 10;
  }

  CommitScope Scope() { return CommitScope{kPrefix, "job-1", clock_.Now(), {}}; }
  HiveManifest Current() { return table::ReadManifest(store_, kPrefix).value()->manifest; }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  HiveCommitter committer_{store_};
  ManifestSnapshot base_;
  SwapRequest request_;
};

TEST_F(HiveCommitReview, R313AnInputOfAnotherTimeOrSizeIsCorrupt) {
  const Time before = request_.inputs_as_planned[1].modified;
  ASSERT_TRUE(store_.SetModified(kPrefix + "b.parquet", before + std::chrono::microseconds(1)));
  auto swapped = committer_.Swap(Scope(), request_);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().code, Code::kCorrupt);
  EXPECT_THAT(swapped.error().ToString(), HasSubstr("input was replaced while it was rewritten"));
  EXPECT_EQ(Current(), base_.manifest);

  ASSERT_TRUE(store_.Remove(kPrefix + "b.parquet"));
  ASSERT_TRUE(store_.PutNew(kPrefix + "b.parquet", "longer"));
  ASSERT_TRUE(store_.SetModified(kPrefix + "b.parquet", before));
  EXPECT_EQ(committer_.Swap(Scope(), request_).error().code, Code::kCorrupt);
  EXPECT_EQ(Current(), base_.manifest);

  request_.inputs_as_planned.clear();  // Not checked.
  EXPECT_TRUE(committer_.Swap(Scope(), request_));
}

TEST_F(HiveCommitReview, R313AReplacedInputIsALostRaceIfTheManifestMoved) {
  ASSERT_TRUE(store_.PutNew(kPrefix + "late.parquet", "late"));
  ASSERT_TRUE(committer_.Adopt(Scope(), base_, {"late.parquet"}, {}));
  ASSERT_TRUE(store_.SetModified(kPrefix + "b.parquet", clock_.Now() + std::chrono::hours(1)));
  EXPECT_EQ(committer_.Swap(Scope(), request_).error().code, Code::kConflict);
}

TEST_F(HiveCommitReview, R315ARecordIsNeverOlderThanItsFile) {
  const Time ahead = clock_.Now() + std::chrono::hours(3);
  ASSERT_TRUE(store_.SetModified(kPrefix + "a.parquet", ahead));
  request_.inputs_as_planned[0].modified = ahead;
  ASSERT_TRUE(committer_.Swap(Scope(), request_));
  const HiveManifest manifest = Current();
  ASSERT_EQ(manifest.retired.size(), 2U);
  EXPECT_EQ(manifest.retired[0].at, ahead);
  EXPECT_LT(manifest.retired[1].at, ahead);
}

TEST_F(HiveCommitReview, AllInputsAreDescribedOrNone) {
  request_.inputs_as_planned.pop_back();
  EXPECT_EQ(committer_.Swap(Scope(), request_).error().code, Code::kInternal);
  EXPECT_EQ(Current(), base_.manifest);
}

}  // namespace
}  // namespace lithify::commit
