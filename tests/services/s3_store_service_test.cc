// The contract of storage::Store on real S3 servers, and what is S3's own.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "s3_service.h"
#include "store_contract.h"

namespace lithify::storage {
namespace {

const testing::Environment* const kServer = testing::AddGlobalTestEnvironment(new S3Server);

struct ContractWorld final : World {
  Store& store() override { return *world.s3; }
  S3World world{S3Server::endpoint};
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values("S3"),
                         [](const auto& param) { return param.param; });

// Turns a bit of what is put, so many times, and counts.
class Damaging final : public net::HttpClient {
 public:
  explicit Damaging(net::HttpClient& inner) : inner_(inner) {}
  Result<net::HttpResponse> Send(const net::HttpRequest& request,
                                 const net::HttpLimits& limits) override {
    ++requests;
    if (request.method != net::HttpMethod::kPut || left == 0) return inner_.Send(request, limits);
    --left;
    net::HttpRequest damaged = request;
    damaged.body[damaged.body.size() / 2] ^= 1;
    return inner_.Send(damaged, limits);
  }
  std::atomic<int> left{0};
  std::atomic<int> requests{0};

 private:
  net::HttpClient& inner_;
};

class S3StoreTest : public testing::Test {
 protected:
  S3Store& store() { return *world_.s3; }
  S3World world_{S3Server::endpoint};
  Damaging http_{*world_.http};
  S3Client client_{world_.client->options(), http_,        world_.credentials, world_.clock,
                   [](Duration) {},          world_.random};
  S3Store over_{client_, world_.prefix};
};

// That the body's hash is signed is not enough: not every server looks at it.
TEST_F(S3StoreTest, WhatComesDamagedIsSentAgain) {
  http_.left = 1;
  const Status put = over_.PutNew("x", "bytes");
  ASSERT_TRUE(put) << put.error().ToString();
  EXPECT_EQ(over_.Get("x", 9).value().bytes, "bytes");
  http_.left = 2;
  const std::string content(20 * kMiB, 'x');
  auto writer = over_.Create("y").value();
  ASSERT_TRUE(writer->Append(Bytes(content)));
  ASSERT_TRUE(writer->Publish());
  EXPECT_EQ(http_.left, 0);
  EXPECT_TRUE(over_.Get("y", kGiB).value().bytes == content);
  http_.left = client_.options().attempts;
  EXPECT_EQ(over_.PutNew("z", "bytes").error().code, Code::kTransient);
  EXPECT_EQ(http_.left, 0);
  EXPECT_EQ(over_.Stat("z").error().code, Code::kNotFound);
}

TEST_F(S3StoreTest, I21_ManyAreRemovedWithOneRequest) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) {
    keys.push_back("d/" + std::to_string(i % 3) + "/" + std::to_string(i));
    ASSERT_TRUE(over_.PutNew(keys.back(), "x"));
  }
  http_.requests = 0;
  for (const Status& removed : over_.RemoveMany(keys)) {
    EXPECT_TRUE(removed) << removed.error().ToString();
  }
  EXPECT_EQ(http_.requests, 1);
  ASSERT_TRUE(over_.ListPages("", ListDepth::kAll, [](std::vector<ObjectInfo> page) -> Status {
    return Fail(Code::kInternal, page.front().key);
  }));
  EXPECT_EQ(http_.requests, 2);
}

TEST_F(S3StoreTest, Q2_TheServerHonoursConditions) {
  const Status probed = store().Probe("probe");
  EXPECT_TRUE(probed) << probed.error().ToString();
  EXPECT_TRUE(store().List("").value().empty());
}

// A server that keeps objects as files cannot have both: then the second is refused.
TEST_F(S3StoreTest, AKeyMayLieBelowAnother) {
  ASSERT_TRUE(store().PutNew("f", "x"));
  const Status below = store().PutNew("f/g", "y");
  EXPECT_EQ(store().Get("f", 9).value().bytes, "x");
  if (S3ServerName() == "versitygw") {
    EXPECT_EQ(below.error().code, Code::kConflict);
    EXPECT_EQ(store().List("f/").value().size(), 0u);
  } else {
    EXPECT_TRUE(below);
    EXPECT_EQ(store().Get("f/g", 9).value().bytes, "y");
  }
}

// R238, H3: what was opened is read as it was, or not at all.
TEST_F(S3StoreTest, AReaderNeverReadsAnotherObject) {
  ASSERT_TRUE(store().PutNew("x", "old"));
  auto reader = store().Open("x").value();
  std::string got(3, ' ');
  const auto out = std::as_writable_bytes(std::span(got));
  ASSERT_EQ(reader->ReadAt(0, out).value(), 3);
  ASSERT_TRUE(store().PutIf("x", "new!", store().Get("x", 9).value().version));
  EXPECT_EQ(reader->ReadAt(0, out).error().code, Code::kConflict);
  ASSERT_TRUE(store().Remove("x"));
  EXPECT_EQ(reader->ReadAt(0, out).error().code, Code::kNotFound);
  EXPECT_EQ(got, "old");
}

TEST_F(S3StoreTest, ListingsGoOnOverPages) {
  std::vector<std::string> expected;
  for (int i = 0; i < 1100; ++i) {
    const std::string key = "d/k" + std::to_string(10'000 + i);
    ASSERT_TRUE(store().PutNew(key, ""));
    expected.push_back(key);
  }
  std::vector<std::string> keys;
  const auto listed = store().List("d/").value();
  for (const auto& info : listed) keys.push_back(info.key);
  EXPECT_EQ(keys, expected);
}

// T28: uploads of a process that died.
TEST_F(S3StoreTest, T28_StaleUploadsOfOursAreAborted) {
  const std::string bytes(17 * kMiB, 'x');
  const std::string prefix = world_.prefix;
  for (const char* name : {"p/ours.parquet", "p/theirs.bin"}) {
    const auto upload = world_.client->CreateUpload(prefix + name, "id");
    ASSERT_TRUE(upload) << upload.error().ToString();
    ASSERT_TRUE(world_.client->UploadPart(prefix + name, *upload, 1, bytes));
  }
  const auto ours = [](const std::string& key) { return key.ends_with(".parquet"); };
  const Time now = world_.clock.Now();
  const auto aborted = [&](const std::string& below, Time before, bool dry_run) {
    std::vector<std::string> keys;
    const auto infos = store().AbortStaleUploads(below, before, ours, dry_run).value();
    for (const ObjectInfo& info : infos) keys.push_back(info.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(aborted("p/", now - std::chrono::hours(1), false), Keys());
  EXPECT_EQ(aborted("q/", now + std::chrono::hours(1), false), Keys());
  EXPECT_EQ(aborted("p/", now + std::chrono::hours(1), true), Keys{"p/ours.parquet"});
  EXPECT_EQ(aborted("", now + std::chrono::hours(1), false), Keys{"p/ours.parquet"});
  EXPECT_EQ(aborted("p/", now + std::chrono::hours(1), false), Keys());
  const auto left = world_.client->ListUploads(prefix, {}).value();
  ASSERT_EQ(left.uploads.size(), 1u);
  EXPECT_EQ(left.uploads[0].key, prefix + "p/theirs.bin");
}

// A writer that is dropped half-way leaves no upload behind.
TEST_F(S3StoreTest, T28_AWriterThatIsDroppedAbortsItsUpload) {
  const std::string bytes(20 * kMiB, 'x');
  {
    auto writer = store().Create("p/x").value();
    ASSERT_TRUE(writer->Append(Bytes(bytes)));
  }
  const std::string prefix = world_.prefix;
  EXPECT_TRUE(world_.client->ListUploads(prefix, {}).value().uploads.empty());
  EXPECT_TRUE(store().List("p/").value().empty());
}

TEST_F(S3StoreTest, AWrongSecretIsToldAndNotShown) {
  S3World wrong(S3Server::endpoint, "another secret");
  const Error denied = wrong.s3->Get("x", 9).error();
  EXPECT_EQ(denied.code, Code::kDenied);
  EXPECT_EQ(denied.ToString().find("another secret"), std::string::npos);
}

}  // namespace

std::unique_ptr<World> MakeWorld(const std::string& /*kind*/) {
  return std::make_unique<ContractWorld>();
}

}  // namespace lithify::storage
