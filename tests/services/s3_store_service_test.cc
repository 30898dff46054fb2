// The contract of storage::Store on a real S3 server (seaweedfs.sh), and what is S3's own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/random.h"
#include "net/http.h"
#include "storage/s3_client.h"
#include "storage/s3_store.h"
#include "store_contract.h"

namespace lithify::storage {
namespace {

// The server, for all tests.
class Server final : public testing::Environment {
 public:
  static std::string endpoint;

  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("lithify-s3-" + std::to_string(getpid()));
    endpoint = Run("start");
    ASSERT_TRUE(endpoint.starts_with("http://127.0.0.1:"))
        << "the service did not start: " << endpoint;
  }
  void TearDown() override {
    Run("stop");
    std::filesystem::remove_all(directory_);
  }

 private:
  // The script's output without the line's end.
  std::string Run(const std::string& verb) const {
    const std::string command =
        "'" LITHIFY_S3_SERVICE "' " + verb + " '" + directory_.string() + "'";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }

  std::filesystem::path directory_;
};
std::string Server::endpoint;
const testing::Environment* const kServer = testing::AddGlobalTestEnvironment(new Server);

class FixedCredentials final : public S3Credentials {
 public:
  explicit FixedCredentials(std::string_view secret) : secret_(secret) {}
  Result<net::AwsCredentials> Get() override {
    return net::AwsCredentials{"lithify", secret_, Secret()};
  }
  Status Invalidate(const net::AwsCredentials&) override { return Fail(Code::kDenied, "fixed"); }

 private:
  const Secret secret_;
};

struct S3World final : World {
  explicit S3World(std::string_view secret = "not a secret") : credentials(secret) {
    http = net::OpenHttpClient({.ca_file = {}, .proxy = ""}).value();
    S3Options options;
    options.bucket = "lake";
    options.endpoint = Server::endpoint;
    options.path_style = true;
    client = std::make_unique<S3Client>(
        options, *http, credentials, clock, [this](Duration d) { clock.Sleep(d); }, random);
    s3 = std::make_unique<S3Store>(*client, MakeUuidV7(clock, random) + "/");
  }
  Store& store() override { return *s3; }

  SystemClock clock;
  SystemRandom random;
  FixedCredentials credentials;
  std::unique_ptr<net::HttpClient> http;
  std::unique_ptr<S3Client> client;
  std::unique_ptr<S3Store> s3;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::Values("S3"),
                         [](const auto& param) { return param.param; });

class S3StoreTest : public testing::Test {
 protected:
  S3Store& store() { return *world_.s3; }
  S3World world_;
};

TEST_F(S3StoreTest, Q2_TheServerHonoursConditions) {
  const Status probed = store().Probe("probe");
  EXPECT_TRUE(probed) << probed.error().ToString();
  EXPECT_TRUE(store().List("").value().empty());
}

TEST_F(S3StoreTest, AKeyMayLieBelowAnother) {
  ASSERT_TRUE(store().PutNew("f", "x"));
  ASSERT_TRUE(store().PutNew("f/g", "y"));
  EXPECT_EQ(store().Get("f", 9).value().bytes, "x");
  EXPECT_EQ(store().Get("f/g", 9).value().bytes, "y");
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
  const std::string prefix = store().Describe().substr(std::string("s3://lake/").size()) + "/";
  for (const char* name : {"p/ours.parquet", "p/theirs.bin"}) {
    const auto upload = world_.client->CreateUpload(prefix + name, "id");
    ASSERT_TRUE(upload) << upload.error().ToString();
    ASSERT_TRUE(world_.client->UploadPart(prefix + name, *upload, 1, bytes));
  }
  const auto ours = [](const std::string& key) { return key.ends_with(".parquet"); };
  const Time now = world_.clock.Now();
  EXPECT_EQ(store().AbortStaleUploads("p/", now - std::chrono::hours(1), ours).value(), 0);
  EXPECT_EQ(store().AbortStaleUploads("q/", now + std::chrono::hours(1), ours).value(), 0);
  EXPECT_EQ(store().AbortStaleUploads("p/", now + std::chrono::hours(1), ours).value(), 1);
  EXPECT_EQ(store().AbortStaleUploads("p/", now + std::chrono::hours(1), ours).value(), 0);
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
  const std::string prefix = store().Describe().substr(std::string("s3://lake/").size()) + "/";
  EXPECT_TRUE(world_.client->ListUploads(prefix, {}).value().uploads.empty());
  EXPECT_TRUE(store().List("p/").value().empty());
}

TEST_F(S3StoreTest, AWrongSecretIsToldAndNotShown) {
  S3World wrong("another secret");
  const Error denied = wrong.s3->Get("x", 9).error();
  EXPECT_EQ(denied.code, Code::kDenied);
  EXPECT_EQ(denied.ToString().find("another secret"), std::string::npos);
}

}  // namespace

std::unique_ptr<World> MakeWorld(const std::string& /*kind*/) {
  return std::make_unique<S3World>();
}

}  // namespace lithify::storage
