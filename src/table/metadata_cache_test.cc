#include "table/metadata_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/parallel.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"
#include "table/iceberg_snapshot.h"

namespace lithify::table {
namespace {

class FarStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<storage::ObjectInfo> Stat(const std::string& key) override {
    ++stats;
    LITHIFY_TRY_ASSIGN(auto info, store_.Stat(key));
    if (!versions) info.version.clear();
    return info;
  }
  Result<storage::Blob> Get(const std::string& key, int64_t max_bytes) override {
    ++gets;
    LITHIFY_TRY_ASSIGN(auto blob, store_.Get(key, max_bytes));
    if (!versions) blob.version.clear();
    return blob;
  }
  bool small_reads_are_cheap() const override { return cheap; }

  std::atomic<int> stats = 0;
  std::atomic<int> gets = 0;
  bool versions = true;
  bool cheap = false;
};

class MetadataCacheTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::string& bytes) {
    (void)memory_.Remove(name);
    ASSERT_TRUE(memory_.PutNew(name, bytes));
  }
  std::string Read(const std::string& name) {
    const auto bytes = cache_.Read(*locations_, "s3://b/" + name);
    return bytes ? **bytes : std::string(CodeName(bytes.error().code));
  }
  // Requests since the last call: "2 reads, 1 looks".
  std::string Asked() {
    std::string text = std::to_string(store_->gets.exchange(0)) + " reads, " +
                       std::to_string(store_->stats) + " looks";
    store_->stats = 0;
    return text;
  }

  SystemClock clock_;
  storage::MemoryStore memory_{clock_};
  std::shared_ptr<FarStore> store_ = std::make_shared<FarStore>(memory_);
  std::unique_ptr<storage::Locations> locations_ = storage::MakeStoreLocations(store_, "s3", "b");
  MetadataCache cache_{100};
};

TEST_F(MetadataCacheTest, OneReadAndThenALookForEachStateOfTheTable) {
  Put("m", "one");
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Asked(), "1 reads, 0 looks");
  cache_.Recheck();
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Asked(), "0 reads, 1 looks");
}

TEST_F(MetadataCacheTest, WhatWasReplacedInPlaceIsReadAgain) {
  Put("m", "one");
  EXPECT_EQ(Read("m"), "one");
  Put("m", "two");
  EXPECT_EQ(Read("m"), "one") << "one state of the table has one content";
  cache_.Recheck();
  EXPECT_EQ(Read("m"), "two");
  EXPECT_EQ(Read("m"), "two");
  EXPECT_EQ(Asked(), "2 reads, 1 looks");
  EXPECT_EQ(cache_.bytes(), 3);
}

TEST_F(MetadataCacheTest, WhatIsGoneIsNotFound) {
  Put("m", "one");
  EXPECT_EQ(Read("m"), "one");
  ASSERT_TRUE(memory_.Remove("m"));
  cache_.Recheck();
  EXPECT_EQ(Read("m"), std::string(CodeName(Code::kNotFound)));
  const auto error = cache_.Read(*locations_, "s3://b/m").error();
  EXPECT_THAT(error.ToString(), testing::HasSubstr("s3://b/m"));
  EXPECT_EQ(Read("other"), std::string(CodeName(Code::kNotFound)));
}

TEST_F(MetadataCacheTest, WithoutVersionsEveryReadIsOne) {
  store_->versions = false;
  Put("m", "one");
  EXPECT_EQ(Read("m"), "one");
  Put("m", "two");
  EXPECT_EQ(Read("m"), "two");
  EXPECT_EQ(cache_.bytes(), 0);
}

TEST_F(MetadataCacheTest, WhereReadsAreCheapNothingIsKept) {
  store_->cheap = true;
  Put("m", "one");
  EXPECT_EQ(Read("m"), "one");
  cache_.Add(*store_, "s3://b/m", "other", "v");
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(cache_.bytes(), 0);
  EXPECT_EQ(Asked(), "2 reads, 0 looks");
}

TEST_F(MetadataCacheTest, WhatWasWrittenIsNotReadButLookedAt) {
  Put("m", "one");
  cache_.Add(*store_, "s3://b/m", "one", memory_.Stat("m")->version);
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Asked(), "0 reads, 0 looks");
  cache_.Recheck();
  EXPECT_EQ(Read("m"), "one");
  EXPECT_EQ(Asked(), "0 reads, 1 looks");
  cache_.Add(*store_, "s3://b/m", "forged", "of no version");
  cache_.Recheck();
  EXPECT_EQ(Read("m"), "one");
}

TEST_F(MetadataCacheTest, BoundedAndWhatIsOfNoUseAnyMoreGoesFirst) {
  for (const std::string name : {"a", "b", "c"}) Put(name, std::string(40, name[0]));
  Put("large", std::string(101, 'x'));
  EXPECT_EQ(Read("large").size(), 101U);
  EXPECT_EQ(cache_.bytes(), 0);
  Read("a");
  Read("b");
  Read("c");
  EXPECT_EQ(cache_.bytes(), 80);
  Asked();
  Read("a");
  Read("b");
  EXPECT_EQ(Asked(), "0 reads, 0 looks");
  Read("c");
  EXPECT_EQ(Asked(), "1 reads, 0 looks");
  cache_.Recheck();
  Read("b");
  Read("c");
  EXPECT_EQ(Asked(), "1 reads, 1 looks");
  EXPECT_EQ(cache_.bytes(), 80);
  Read("c");
  Read("b");
  EXPECT_EQ(Asked(), "0 reads, 0 looks");
}

TEST_F(MetadataCacheTest, ManyThreads) {
  for (int i = 0; i < 8; ++i) Put("m" + std::to_string(i), "content " + std::to_string(i));
  ForEach(400, 8, [&](size_t i) {
    if (i % 50 == 0) cache_.Recheck();
    EXPECT_EQ(Read("m" + std::to_string(i % 8)), "content " + std::to_string(i % 8));
  });
  EXPECT_EQ(cache_.bytes(), 8 * 9);
}

TEST_F(MetadataCacheTest, ASourceWithoutACacheReadsEachTime) {
  Put("m", "one");
  const MetadataSource source(*locations_);
  EXPECT_EQ(**source.Read("s3://b/m"), "one");
  EXPECT_EQ(**source.Read("s3://b/m"), "one");
  EXPECT_EQ(Asked(), "2 reads, 0 looks");
  const MetadataSource kept(*locations_, &cache_);
  EXPECT_EQ(**kept.Read("s3://b/m"), "one");
  EXPECT_EQ(**kept.Read("s3://b/m"), "one");
  EXPECT_EQ(Asked(), "1 reads, 0 looks");
}

}  // namespace
}  // namespace lithify::table
