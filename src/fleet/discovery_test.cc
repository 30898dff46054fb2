#include "fleet/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace lithify::fleet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(WorkerAddress, IsStrict) {
  EXPECT_EQ(ParseWorkerAddress("10.0.0.3:9140").value(), (net::Address{"10.0.0.3", 9140}));
  EXPECT_EQ(ParseWorkerAddress("[::1]:9140").value(), (net::Address{"::1", 9140}));
  EXPECT_EQ((net::Address{"::1", 9140}).ToString(), "[::1]:9140");
  EXPECT_EQ((net::Address{"a.b", 1}).ToString(), "a.b:1");
  for (const char* wrong : {"", "a", "a:", ":1", "a:0", "a:65536", "a:1x", "::1:9140", "[a]:1",
                            "a b:1", "grpc://a:1", "[]:1", "a:-1"}) {
    const auto at = ParseWorkerAddress(wrong);
    ASSERT_FALSE(at) << wrong;
    EXPECT_EQ(at.error().code, Code::kInvalid) << wrong;
  }
}

TEST(Discovery, AListIsSortedAndChecked) {
  const auto list = MakeListDiscovery({"b:2", "a:1"});
  ASSERT_TRUE(list);
  EXPECT_THAT((*list)->Find().value(), ElementsAre("a:1", "b:2"));
  EXPECT_THAT(MakeListDiscovery({"a:1", "a:1"}).error().message, HasSubstr("twice"));
  EXPECT_THAT(MakeListDiscovery({"a"}).error().message, HasSubstr("host:port"));
}

TEST(Discovery, ANameIsResolvedAnewEachTime) {
  std::vector<std::string> hosts = {"10.0.0.2", "10.0.0.1", "fd00::1", "10.0.0.1"};
  bool down = false;
  const auto dns = MakeDnsDiscovery(
      "workers.lake:9140", [&](const std::string& host) -> Result<std::vector<std::string>> {
        EXPECT_EQ(host, "workers.lake");
        if (down) return Fail(Code::kTransient, "no answer");
        return hosts;
      });
  ASSERT_TRUE(dns);
  EXPECT_THAT((*dns)->Find().value(),
              ElementsAre("10.0.0.1:9140", "10.0.0.2:9140", "[fd00::1]:9140"));
  hosts = {};
  EXPECT_THAT((*dns)->Find().value(), IsEmpty());
  down = true;
  EXPECT_FALSE((*dns)->Find());
}

TEST(Discovery, TheLoopbackNameHasAddresses) {
  const auto found = ResolveHost("localhost");
  ASSERT_TRUE(found) << found.error().ToString();
  EXPECT_THAT(*found, testing::Contains(testing::AnyOf("127.0.0.1", "::1")));
}

TEST(WorkersFile, IsStrictAboutWhatItNeeds) {
  EXPECT_THAT(ParseWorkersFile(R"({"version": 1, "more": {}, "workers": [
      {"address": "b:2", "id": "x"}, {"address": "a:1"}, {"address": "a:1"}]})")
                  .value(),
              ElementsAre("a:1", "b:2"));
  EXPECT_THAT(ParseWorkersFile(R"({"version": 1, "workers": []})").value(), IsEmpty());
  for (const char* wrong :
       {"", "[]", "{", R"({"workers": []})", R"({"version": 2, "workers": []})",
        R"({"version": 1})", R"({"version": 1, "workers": {}})",
        R"({"version": 1, "workers": ["a:1"]})", R"({"version": 1, "workers": [{"id": "x"}]})",
        R"({"version": 1, "workers": [{"address": 7}]})",
        R"({"version": 1, "workers": [{"address": "a"}]})"}) {
    EXPECT_FALSE(ParseWorkersFile(wrong)) << wrong;
  }
}

class WorkersFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("workers-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
             testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) {
    const std::string scratch = path_.string() + ".new";
    std::ofstream(scratch) << text;
    std::filesystem::rename(scratch, path_);
  }
  std::filesystem::path path_;
};

TEST_F(WorkersFileTest, IsReadAgainWhenItChanges) {
  const auto discovery = MakeFileDiscovery(path_.string()).value();
  EXPECT_EQ(discovery->Find().error().code, Code::kNotFound);
  Write(R"({"version": 1, "workers": [{"address": "a:1"}]})");
  EXPECT_THAT(discovery->Find().value(), ElementsAre("a:1"));
  EXPECT_THAT(discovery->Find().value(), ElementsAre("a:1"));
  Write("{");
  const auto bad = discovery->Find();
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().context, path_.string());
  EXPECT_FALSE(discovery->Find()) << "it says so each time";
  Write(R"({"version": 1, "workers": [{"address": "b:1"}, {"address": "c:1"}]})");
  EXPECT_THAT(discovery->Find().value(), ElementsAre("b:1", "c:1"));
}

TEST_F(WorkersFileTest, AHugeOneIsRefused) {
  Write(std::string(kWorkersFileBytesMax + 1, ' '));
  EXPECT_EQ(MakeFileDiscovery(path_.string()).value()->Find().error().code, Code::kLimit);
}

}  // namespace
}  // namespace lithify::fleet
