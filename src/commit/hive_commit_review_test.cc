// What a review of the committer found: inputs that are not what was rewritten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "commit/hive_commit.h"
#include "storage/counting_store.h"
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

// Where every request is a round trip, one listing tells of all inputs; what is otherwise there is
// asked for by itself.
TEST_F(HiveCommitReview, R313InputsInAFarStoreAreLookedAtTogether) {
  for (const char* name : {"c.parquet", "d.parquet"}) {
    ASSERT_TRUE(store_.PutNew(kPrefix + name, "four"));
  }
  const auto adopted = committer_.Adopt(Scope(), base_, {"c.parquet", "d.parquet"}, {});
  ASSERT_TRUE(adopted) << adopted.error().ToString();
  request_.planned = *adopted;
  for (const char* name : {"c.parquet", "d.parquet"}) {
    request_.inputs.emplace_back(name);
    request_.inputs_as_planned.push_back(store_.Stat(kPrefix + name).value());
  }
  storage::CountingStore far(store_, std::chrono::microseconds(0));
  HiveCommitter committer(far);
  const auto asked = [&far] {
    std::vector<std::string> keys;
    for (const auto& request : far.requests()) {
      if (request.verb == "Stat") keys.push_back(request.key);
    }
    far.Forget();
    return keys;
  };
  const Time before = request_.inputs_as_planned[2].modified;
  ASSERT_TRUE(store_.SetModified(kPrefix + "c.parquet", before + std::chrono::microseconds(1)));
  const auto replaced = committer.Swap(Scope(), request_);
  ASSERT_FALSE(replaced);
  EXPECT_THAT(replaced.error().ToString(), HasSubstr("input was replaced while it was rewritten"));
  EXPECT_EQ(asked(), std::vector<std::string>{kPrefix + "c.parquet"});

  ASSERT_TRUE(store_.Remove(kPrefix + "c.parquet"));
  const auto vanished = committer.Swap(Scope(), request_);
  ASSERT_FALSE(vanished);
  EXPECT_THAT(vanished.error().ToString(), HasSubstr("input vanished"));
  EXPECT_EQ(asked(), std::vector<std::string>{kPrefix + "c.parquet"});
  EXPECT_EQ(Current(), adopted->manifest);

  ASSERT_TRUE(store_.PutNew(kPrefix + "c.parquet", "four"));
  ASSERT_TRUE(store_.SetModified(kPrefix + "c.parquet", before));
  const auto swapped = committer.Swap(Scope(), request_);
  ASSERT_TRUE(swapped) << swapped.error().ToString();
  EXPECT_EQ(asked(), std::vector<std::string>());
}

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
