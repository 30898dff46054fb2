#include "storage/locations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "storage/memory_store.h"

namespace lithify::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A directory of its own, by its real path.
class LocalLocationsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/locations-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = fs::canonical(pattern).string();
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  std::string Canonical(const std::string& location) {
    const Result<std::string> canonical = locations_->Canonical(location);
    return canonical ? *canonical : canonical.error().ToString();
  }
  std::string Read(const std::string& location) {
    const Result<Place> place = locations_->Resolve(location);
    if (!place) return place.error().ToString();
    const Result<Blob> blob = place->store->Get(place->key, 1000);
    return blob ? blob->bytes : blob.error().ToString();
  }

  std::string root_;
  std::unique_ptr<Locations> locations_ = MakeLocalLocations();
};

TEST_F(LocalLocationsTest, I17R183OneObjectHasOneSpelling) {
  Write("t/x", "here");
  const std::string canonical = "file://" + root_ + "/t/x";
  for (const std::string& spelling :
       {"file:" + root_ + "/t/x", "file://" + root_ + "/t/x", "FILE://" + root_ + "/t/x",
        root_ + "/t/x", "/" + root_ + "//t///x", "file:///" + root_ + "/t/x",
        "file://" + root_ + "/t/x/", "file://localhost" + root_ + "/t/x",
        "file://LocalHost" + root_ + "//t/x"}) {
    EXPECT_EQ(Canonical(spelling), canonical) << spelling;
    EXPECT_EQ(Read(spelling), "here") << spelling;
    const Result<Place> place = locations_->Resolve(spelling);
    ASSERT_TRUE(place);
    EXPECT_EQ("/" + place->key, root_ + "/t/x");
  }
  EXPECT_EQ(locations_->Resolve(root_ + "/a")->store, locations_->Resolve(root_ + "/b")->store);
}

TEST_F(LocalLocationsTest, I17CharactersOfThePathAreTakenAsTheyAre) {
  for (const std::string name :
       {"a%20b", "a b", "a+b", "day=2026-11-29", "\xc3\xa9t\xc3\xa9", "a?b", "a#b", "%", "a:b"}) {
    Write("t/" + name + "/" + name, name);
    EXPECT_EQ(Canonical("file://" + root_ + "/t/" + name + "/" + name),
              "file://" + root_ + "/t/" + name + "/" + name);
    EXPECT_EQ(Read("file:" + root_ + "/t/" + name + "/" + name), name);
  }
  EXPECT_NE(Canonical("/t/a%20b"), Canonical("/t/a b"));
}

TEST_F(LocalLocationsTest, WhatIsNotCertainIsAnError) {
  const auto code = [this](const std::string& location) {
    const Result<std::string> canonical = locations_->Canonical(location);
    const Result<Place> place = locations_->Resolve(location);
    EXPECT_FALSE(canonical) << location;
    EXPECT_FALSE(place) << location;
    if (canonical || place) return Code::kInternal;
    EXPECT_EQ(canonical.error().code, place.error().code);
    return place.error().code;
  };
  for (const std::string& location :
       {std::string(), std::string("x"), std::string("t/x"), std::string("file:x"),
        std::string("file:"), std::string("/"), std::string("file:///"),
        std::string("file://host/x"), std::string("file://localhost.example/x"),
        std::string("file://localhost:80/x"), std::string("file://localhost"),
        std::string("file://localhost/"), std::string("//localhost/../x"), std::string("/t/../x"),
        std::string("/t/./x"), std::string("/t/.."), std::string("/t\0x", 4)}) {
    EXPECT_EQ(code(location), Code::kInvalid) << location;
  }
  EXPECT_EQ(code("s3://bucket/x"), Code::kUnsupported);
  EXPECT_EQ(code("hdfs:/x"), Code::kUnsupported);
  EXPECT_THAT(Canonical("file://host/x"), HasSubstr("three slashes"));
}

TEST_F(LocalLocationsTest, ALakeBehindALinkHasOneSpelling) {
  Write("disk/lake/t/data/x", "here");
  fs::create_directory_symlink(root_ + "/disk/lake", root_ + "/lake");
  fs::create_directory_symlink(root_ + "/lake", root_ + "/again");
  const std::string real = "file://" + root_ + "/disk/lake";
  EXPECT_EQ(Canonical(root_ + "/lake/t/data/x"), real + "/t/data/x");
  EXPECT_EQ(Canonical(root_ + "/again/t/data/x"), real + "/t/data/x");
  EXPECT_EQ(Canonical(root_ + "/lake"), real);
  EXPECT_EQ(Canonical(root_ + "/lake/t"), real + "/t");
  EXPECT_EQ(Read(root_ + "/again/t/data/x"), "here");
  // What does not exist yet, too.
  EXPECT_EQ(Canonical(root_ + "/lake/t/new/deep/x"), real + "/t/new/deep/x");
  const Place place = locations_->Resolve(root_ + "/lake/t/new/x").value();
  EXPECT_TRUE(place.store->PutNew(place.key, "new"));
  EXPECT_EQ(Read(root_ + "/disk/lake/t/new/x"), "new");
}

TEST_F(LocalLocationsTest, LinksToFilesAndLinksThatComeLaterAreRefused) {
  Write("t/x", "here");
  Write("other/x", "elsewhere");
  fs::create_symlink(root_ + "/other/x", root_ + "/t/link");
  EXPECT_EQ(Canonical(root_ + "/t/link"), "file://" + root_ + "/t/link");
  EXPECT_THAT(Read(root_ + "/t/link"), HasSubstr("denied"));
  EXPECT_EQ(Read(root_ + "/t/x"), "here");
  fs::rename(root_ + "/t", root_ + "/t-moved");
  fs::create_directory_symlink(root_ + "/other", root_ + "/t");
  EXPECT_THAT(Read(root_ + "/t/x"), HasSubstr("denied"));
  fs::create_directory_symlink(root_ + "/nowhere", root_ + "/dangling");
  EXPECT_THAT(Canonical(root_ + "/dangling/a/x"), HasSubstr("is a link that leads nowhere"));
}

TEST(Locations, R183OnlyAnotherKindOfStorageIsElsewhereForCertain) {
  for (const char* far : {"s3://b/t", "S3A://b/t", "gs://b/t", "hdfs://h/t", "hdfs:/t",
                          "wasb://c/t", "abfss://c@a/t"}) {
    EXPECT_TRUE(IsElsewhere("file:///lake/t", far)) << far;
  }
  for (const char* local : {"file:///t", "file:/t", "file://localhost/t", "/t"}) {
    EXPECT_TRUE(IsElsewhere("s3://b/t", local)) << local;
    EXPECT_FALSE(IsElsewhere("file:///lake/t", local)) << local;
  }
  // The same under another name, perhaps: another bucket or protocol, a host's disk, what is
  // mounted.
  for (const char* doubt : {"gs://b/t", "hdfs://h/t", "s3://other/t", "s3a://b/t", "dbfs:/t",
                            "viewfs://c/t", "", "t", "s3:t"}) {
    EXPECT_FALSE(IsElsewhere("s3://b/t", doubt)) << doubt;
  }
  for (const char* doubt : {"file://host/t", "nfs://host/t", "local:/t", "", "lake/t", "s3:t"}) {
    EXPECT_FALSE(IsElsewhere("file:///lake/t", doubt)) << doubt;
  }
}

TEST(StoreLocations, OneSpellingUnderOneAuthority) {
  const SystemClock clock;
  const auto store = std::make_shared<MemoryStore>(clock);
  const auto locations = MakeStoreLocations(store, "s3a", "bucket");
  for (const char* spelling : {"s3://bucket/t/x", "s3a://bucket/t/x", "s3n://bucket/t/x/"}) {
    EXPECT_EQ(*locations->Canonical(spelling), "s3://bucket/t/x");
    EXPECT_EQ(locations->Resolve(spelling)->key, "t/x");
    EXPECT_EQ(locations->Resolve(spelling)->store, store);
  }
  EXPECT_EQ(*locations->Canonical("s3://bucket/a%20b/c=d+e"), "s3://bucket/a%20b/c=d+e");
  const auto code = [&locations](const char* location) {
    return locations->Canonical(location).error().code;
  };
  for (const char* other :
       {"s3://other/t/x", "s3://bucket:9000/t/x", "gs://bucket/t/x", "file:///x"}) {
    EXPECT_EQ(code(other), Code::kUnsupported) << other;
  }
  // In an object store a doubled slash is another object: no guess.
  for (const char* wrong : {"s3://bucket//t/x", "s3://bucket/t//x", "s3://bucket/t/x//", "/t/x",
                            "s3://bucket", "s3://bucket/", "s3://bucket/../x", ""}) {
    EXPECT_EQ(code(wrong), Code::kInvalid) << wrong;
  }
  const auto memory = MakeStoreLocations(store, "memory", "");
  EXPECT_EQ(*memory->Canonical("memory:/t/x"), "memory:///t/x");
  EXPECT_EQ(memory->Resolve("memory:///t/x")->key, "t/x");
}

}  // namespace
}  // namespace lithify::storage
