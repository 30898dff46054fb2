#include "storage/s3_access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>

#include "net/scripted_server.h"

namespace lithify::storage {
namespace {

S3Place Parsed(std::string_view location) {
  const auto place = ParseS3Place(location);
  EXPECT_TRUE(place) << location;
  return place && *place ? **place : S3Place{"none", "none"};
}

TEST(S3Place, AllSchemesAreOne) {
  const S3Place place{"lake", "a/b c"};
  for (const char* scheme : {"s3", "s3a", "s3n", "S3"}) {
    EXPECT_EQ(Parsed(scheme + std::string("://lake/a/b c")), place);
    EXPECT_EQ(Parsed(scheme + std::string("://lake/a/b c/")), place);
  }
  EXPECT_EQ(Parsed("s3://lake"), (S3Place{"lake", ""}));
  EXPECT_EQ(Parsed("s3://lake/"), (S3Place{"lake", ""}));
  for (const char* other : {"/lake/a", "file:///lake", "gs://lake/a", "lake", ""}) {
    const auto parsed = ParseS3Place(other);
    ASSERT_TRUE(parsed) << other;
    EXPECT_FALSE(*parsed) << other;
  }
}

TEST(S3Place, WhatHasNoCertainMeaningIsRefused) {
  for (const char* bad :
       {"s3://", "s3:///a", "s3://ab/x", "s3://user:pass@host/x", "s3://a b/x", "s3://-lake/x",
        "s3://lake//x", "s3://lake/a//b", "s3://lake/a/../b", "s3://lake/a//"}) {
    const auto parsed = ParseS3Place(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Code::kInvalid) << bad;
  }
}

class S3AccessTest : public testing::Test {
 protected:
  Result<std::unique_ptr<S3Access>> Open(S3Settings settings) {
    return S3Access::Open(
        std::move(settings),
        [this](const std::string& name) -> std::optional<std::string> {
          const auto found = environment_.find(name);
          if (found == environment_.end()) return std::nullopt;
          return found->second;
        },
        clock_, random_);
  }

  SystemClock clock_;
  SeededRandom random_{1};
  std::map<std::string, std::string> environment_;
};

TEST_F(S3AccessTest, OnePlaceIsOneStore) {
  const auto access = Open({});
  ASSERT_TRUE(access) << access.error().ToString();
  const auto store = (*access)->Store("lake", "a/");
  EXPECT_EQ(store->Describe(), "s3://lake/a");
  EXPECT_EQ((*access)->Store("lake", "a/"), store);
  EXPECT_NE((*access)->Store("lake", ""), store);
  EXPECT_NE((*access)->Store("lake2", "a/"), store);
}

TEST_F(S3AccessTest, WrongSettingsAreTold) {
  S3Settings half;
  half.access_key_id = "id";
  const auto missing = Open(half);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kInvalid);
  EXPECT_NE(missing.error().message.find("secret_access_key is missing"), std::string::npos);
  for (const char* endpoint : {"localhost:9000", "ftp://host", "https://host/path",
                               "https://user@host", "https://host?x=1"}) {
    S3Settings settings;
    settings.endpoint = endpoint;
    const auto opened = Open(settings);
    ASSERT_FALSE(opened) << endpoint;
    EXPECT_EQ(opened.error().code, Code::kInvalid) << endpoint;
  }
  S3Settings roots;
  roots.ca_file = "/nonexistent/ca.pem";
  EXPECT_FALSE(Open(roots));
  environment_["AWS_CA_BUNDLE"] = "/nonexistent/ca.pem";
  EXPECT_FALSE(Open({}));
}

// The configuration goes before the environment, and S3's own variable before the general one.
TEST_F(S3AccessTest, EndpointsComeFromTheEnvironment) {
  environment_["AWS_ENDPOINT_URL"] = "no url";
  EXPECT_FALSE(Open({}));
  environment_["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9000/";
  EXPECT_TRUE(Open({}));
  environment_["AWS_ENDPOINT_URL_S3"] = "no url either";
  EXPECT_FALSE(Open({}));
  S3Settings settings;
  settings.endpoint = "https://host:9000";
  EXPECT_TRUE(Open(settings));
}

// A clock on which nobody waits.
class SleeplessClock final : public Clock {
 public:
  Time Now() const override { return SystemClock().Now(); }
  Duration Monotonic() const override { return SystemClock().Monotonic(); }
  void Sleep(Duration d) override { slept += d; }
  Duration slept{};
};

TEST_F(S3AccessTest, WhoIsToEndDoesNotPause) {
  S3Settings settings;
  settings.endpoint = "http://127.0.0.1:1";
  settings.access_key_id = "id";
  settings.secret_access_key = Secret("hush");
  SleeplessClock clock;
  bool stop = false;
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const auto access = S3Access::Open(settings, none, clock, random_);
  ASSERT_TRUE(access) << access.error().ToString();
  (*access)->StopWhen([&stop] { return stop; });
  const auto store = (*access)->Store("lake", "");
  EXPECT_EQ(store->Stat("x").error().code, Code::kTransient);
  EXPECT_GT(clock.slept, std::chrono::seconds(1));
  clock.slept = {};
  stop = true;
  EXPECT_EQ(store->Stat("x").error().code, Code::kTransient);
  EXPECT_EQ(clock.slept, Duration::zero());
}

TEST_F(S3AccessTest, WhoIsToEndDoesNotWaitForARequest) {
  std::atomic<bool> stop = false;
  // In the answer's body; the others get nothing at all.
  net::ScriptedServer server([&](const net::ScriptedRequest& request) {
    stop = true;
    const std::string part =
        request.target == "/lake/part"
            ? "HTTP/1.1 206 P\r\nContent-Range: bytes 0-99/100\r\nContent-Length: 100\r\n\r\nx"
            : "";
    return net::ScriptedAnswer{part, net::ScriptedAnswer::Then::kHang};
  });
  S3Settings settings;
  settings.endpoint = server.Url("");
  settings.proxy = Secret("none");
  settings.access_key_id = "id";
  settings.secret_access_key = Secret("hush");
  const auto access = Open(settings);
  ASSERT_TRUE(access) << access.error().ToString();
  (*access)->StopWhen([&stop] { return stop.load(); });
  const auto store = (*access)->Store("lake", "");
  EXPECT_EQ(store->Get("part", 100).error().code, Code::kCancelled);
  stop = false;
  EXPECT_EQ(store->List("x/").error().code, Code::kCancelled);
  // Nobody is asked any more.
  const size_t asked = server.Requests().size();
  EXPECT_EQ(store->PutNew("x", "y").error().code, Code::kCancelled);
  EXPECT_EQ(store->Remove("x").error().code, Code::kCancelled);
  EXPECT_EQ(server.Requests().size(), asked);
}

// Nor for a service of credentials.
TEST_F(S3AccessTest, WhoIsToEndDoesNotWaitForCredentials) {
  std::atomic<bool> stop = false;
  net::ScriptedServer server([&](const net::ScriptedRequest&) {
    stop = true;
    return net::ScriptedAnswer{"", net::ScriptedAnswer::Then::kHang};
  });
  environment_ = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.Url("/creds")},
                  {"AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"}};
  const auto access = Open({});
  ASSERT_TRUE(access) << access.error().ToString();
  (*access)->StopWhen([&stop] { return stop.load(); });
  EXPECT_EQ((*access)->Store("lake", "")->Stat("x").error().code, Code::kCancelled);
  EXPECT_EQ(server.Requests().size(), 1u);
}

// Over real connections: sign-on, two roles, a store, each with what the one before gave.
TEST_F(S3AccessTest, CredentialsOfAProfileReachTheStore) {
  const std::string directory = testing::TempDir() + "/s3_access_chain_" + std::to_string(getpid());
  std::filesystem::create_directories(directory + "/.aws/sso/cache");
  std::ofstream(directory + "/.aws/config")
      << "[profile job]\nrole_arn = arn:role/job\nsource_profile = person\n"
         "[profile person]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\n"
         "[sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://x\n";
  // SHA-1 of "corp".
  std::ofstream(directory + "/.aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json")
      << R"({"accessToken":"bearer","expiresAt":"2099-01-01T00:00:00Z"})";
  const auto signed_by = [](const net::ScriptedRequest& request, const std::string& id) {
    const auto line = request.headers.find("authorization");
    return line != request.headers.end() &&
           line->second.starts_with("AWS4-HMAC-SHA256 Credential=" + id + "/");
  };
  net::ScriptedServer server([&](const net::ScriptedRequest& request) {
    if (request.target == "/federation/credentials?account_id=1&role_name=r" &&
        request.headers.at("x-amz-sso_bearer_token") == "bearer") {
      return net::Answer(200, R"({"roleCredentials":{"accessKeyId":"person","secretAccessKey":"s",)"
                              R"("sessionToken":"t","expiration":4070908800000}})");
    }
    if (request.method == "POST" && request.target == "/" && signed_by(request, "person") &&
        request.body.starts_with("Action=AssumeRole&")) {
      return net::Answer(200,
                         "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>job"
                         "</AccessKeyId><SecretAccessKey>u</SecretAccessKey><SessionToken>v"
                         "</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
                         "</Credentials></AssumeRoleResult></AssumeRoleResponse>");
    }
    if (request.target == "/lake/x" && signed_by(request, "job") &&
        request.headers.at("x-amz-security-token") == "v") {
      return net::ScriptedAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"};
    }
    return net::Answer(403, "");
  });
  environment_ = {{"HOME", directory},
                  {"AWS_PROFILE", "job"},
                  {"AWS_ENDPOINT_URL_S3", server.Url("")},
                  {"AWS_ENDPOINT_URL_STS", server.Url("/")},
                  {"AWS_ENDPOINT_URL_SSO", server.Url("/")}};
  S3Settings settings;
  settings.proxy = Secret("none");
  const auto access = Open(settings);
  ASSERT_TRUE(access) << access.error().ToString();
  for (int i = 0; i < 2; ++i) {
    const auto info = (*access)->Store("lake", "")->Stat("x");
    ASSERT_TRUE(info) << info.error().ToString();
    EXPECT_EQ(info->size, 7);
  }
  EXPECT_EQ(server.Requests().size(), 4u);  // Credentials are asked for once.
  std::filesystem::remove_all(directory);
}

TEST_F(S3AccessTest, WhatIsLeftComesFromTheProfile) {
  const std::string directory = testing::TempDir() + "/s3_access_" + std::to_string(getpid());
  std::filesystem::create_directories(directory + "/.aws");
  std::ofstream(directory + "/.aws/config") << "[default]\nendpoint_url = http://host:9000\n"
                                               "[profile other]\nendpoint_url = no url\n";
  environment_["HOME"] = directory;
  EXPECT_TRUE(Open({}));
  environment_["AWS_PROFILE"] = "other";
  EXPECT_FALSE(Open({}));
  environment_["AWS_ENDPOINT_URL"] = "http://host:9001";
  EXPECT_TRUE(Open({}));
  // A file that was asked for is needed.
  environment_["AWS_CONFIG_FILE"] = directory + "/absent";
  const auto absent = Open({});
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().ToString().find("AWS_CONFIG_FILE"), std::string::npos);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace lithify::storage
