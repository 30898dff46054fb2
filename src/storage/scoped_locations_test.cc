#include "storage/scoped_locations.h"

#include <gtest/gtest.h>

#include "storage/memory_store.h"

namespace lithify::storage {
namespace {

class ScopedLocationsTest : public testing::Test {
 protected:
  ScopedLocationsTest() {
    for (const char* key : {"t/metadata/1.json", "t/data/a", "t2/data/b", "tt", "other/x"}) {
      EXPECT_TRUE(memory_->PutNew(key, "bytes")) << key;
    }
    EXPECT_TRUE(scoped_.AllowReadingBelow("s3://lake/t/"));
    EXPECT_TRUE(scoped_.AllowWritingBelow("s3://lake/t/data"));
  }
  Store& store() { return *scoped_.Resolve("s3://lake/t/x")->store; }
  static std::span<const std::byte> Bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  SystemClock clock_;
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>(clock_);
  std::unique_ptr<Locations> inner_ = MakeStoreLocations(memory_, "s3", "lake");
  int steps_ = 0;
  ScopedLocations scoped_{*inner_, [this] { ++steps_; }};
};

TEST_F(ScopedLocationsTest, ReadsWhatIsBelow) {
  EXPECT_EQ(store().Get("t/data/a", 100)->bytes, "bytes");
  EXPECT_TRUE(store().Stat("t/metadata/1.json"));
  EXPECT_TRUE(store().Open("t/data/a"));
  EXPECT_TRUE(store().OpenKnown({.key = "t/data/a", .size = 5}));
  EXPECT_EQ(store().Get("t/absent", 100).error().code, Code::kNotFound);
}

TEST_F(ScopedLocationsTest, ReadsNothingElse) {
  for (const char* key : {"t2/data/b", "tt", "other/x", "t", "absent"}) {
    EXPECT_EQ(store().Get(key, 100).error().code, Code::kDenied) << key;
    EXPECT_EQ(store().Stat(key).error().code, Code::kDenied) << key;
    EXPECT_EQ(store().Open(key).error().code, Code::kDenied) << key;
    EXPECT_EQ(store().OpenKnown({.key = key, .size = 5}).error().code, Code::kDenied) << key;
  }
  // The control: the store has them.
  EXPECT_TRUE(memory_->Get("other/x", 100));
  EXPECT_TRUE(scoped_.AllowReading("s3://lake/other/x"));
  EXPECT_TRUE(store().Get("other/x", 100));
  EXPECT_EQ(store().Get("other/xy", 100).error().code, Code::kDenied);
}

TEST_F(ScopedLocationsTest, WritesNewObjectsBelow) {
  EXPECT_TRUE(store().PutNew("t/data/new", "x"));
  EXPECT_EQ(store().PutNew("t/data/a", "x").error().code, Code::kConflict);
  auto writer = store().Create("t/data/p=1/streamed");
  ASSERT_TRUE(writer);
  EXPECT_TRUE((*writer)->Append(Bytes("abc")));
  EXPECT_TRUE((*writer)->Publish());
  EXPECT_EQ(memory_->Get("t/data/p=1/streamed", 100)->bytes, "abc");
  for (const char* key : {"t/metadata/2.json", "t/x", "t2/data/x", "t/data2", "x"}) {
    EXPECT_EQ(store().PutNew(key, "x").error().code, Code::kDenied) << key;
    EXPECT_EQ(store().Create(key).error().code, Code::kDenied) << key;
    EXPECT_FALSE(memory_->Stat(key)) << key;
  }
}

TEST_F(ScopedLocationsTest, ReplacesAndListsNothing) {
  const std::string version = memory_->Get("t/data/a", 100)->version;
  EXPECT_EQ(store().PutIf("t/data/a", "x", version).error().code, Code::kDenied);
  EXPECT_EQ(memory_->Get("t/data/a", 100)->bytes, "bytes");
  EXPECT_EQ(store().List("t/data/").error().code, Code::kDenied);
  EXPECT_EQ(store()
                .AbortStaleUploads(
                    "t/", Time(), [](const auto&) { return true; }, false)
                .error()
                .code,
            Code::kDenied);
}

TEST_F(ScopedLocationsTest, RemovesItsOwnAlone) {
  EXPECT_EQ(store().Remove("t/data/a").error().code, Code::kDenied);
  // To have tried to write it makes it nobody's.
  EXPECT_FALSE(store().PutNew("t/data/a", "x"));
  auto writer = store().Create("t/data/a");
  if (writer) {
    EXPECT_FALSE((*writer)->Publish());
  }
  EXPECT_EQ(store().Remove("t/data/a").error().code, Code::kDenied);
  ASSERT_TRUE(store().PutNew("t/data/new", "x"));
  const std::vector<std::string> keys = {"t/data/new", "t/data/a", "other/x"};
  const auto removed = store().RemoveMany(keys);
  EXPECT_TRUE(removed[0]);
  EXPECT_EQ(removed[1].error().code, Code::kDenied);
  EXPECT_EQ(removed[2].error().code, Code::kDenied);
  EXPECT_TRUE(memory_->Stat("t/data/a"));
  EXPECT_FALSE(memory_->Stat("t/data/new"));
}

TEST_F(ScopedLocationsTest, AWholeBucket) {
  ScopedLocations all(*inner_, nullptr);
  EXPECT_EQ(all.Resolve("s3://lake/other/x")->store->Get("other/x", 9).error().code, Code::kDenied);
  EXPECT_TRUE(all.AllowReadingBelow("s3://lake"));
  EXPECT_TRUE(all.Resolve("s3://lake/other/x")->store->Get("other/x", 9));
  EXPECT_FALSE(all.AllowReadingBelow("s3://another"));
}

TEST_F(ScopedLocationsTest, OneStoreAndStepsAreTold) {
  EXPECT_EQ(scoped_.Resolve("s3://lake/t/a")->store, scoped_.Resolve("s3a://lake/other")->store);
  EXPECT_EQ(*scoped_.Canonical("s3a://lake/t/a"), "s3://lake/t/a");
  const int before = steps_;
  const auto reader = store().Open("t/data/a");
  std::byte out[5];
  EXPECT_EQ((*reader)->ReadAt(0, out).value(), 5);
  EXPECT_GT(steps_, before + 1);
  const int denied = steps_;
  EXPECT_FALSE(store().Get("other/x", 9));
  EXPECT_EQ(steps_, denied);
}

}  // namespace
}  // namespace lithify::storage
