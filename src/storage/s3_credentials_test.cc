#include "storage/s3_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/s3_credentials_scripted.h"

namespace lithify::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(S3CredentialsTest, GivenOnesGoBeforeAllOthers) {
  environment_ = {{"AWS_ACCESS_KEY_ID", "env"}, {"AWS_SECRET_ACCESS_KEY", "env secret"}};
  options_.access_key_id = "given";
  options_.secret_access_key = Secret("given secret");
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"given", Secret("given secret"), Secret()}));
}

TEST_F(S3CredentialsTest, R267_HalfOfAPairIsAnErrorThatNamesTheOtherHalf) {
  options_.access_key_id = "given";
  EXPECT_EQ(Make().error().ToString(),
            "invalid: S3 credentials: secret_access_key is missing (next: give both, or neither)");
  options_ = {};
  options_.secret_access_key = Secret("hush hush");
  EXPECT_THAT(Make().error().ToString(), HasSubstr("access_key_id is missing"));
  EXPECT_THAT(Make().error().ToString(), Not(HasSubstr("hush")));
  options_ = {};
  environment_ = {{"AWS_SECRET_ACCESS_KEY", "hush hush"}};
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_ACCESS_KEY_ID is missing"));
  EXPECT_THAT(Get().error().ToString(), Not(HasSubstr("hush")));
  environment_ = {{"HOME", "/h"}};
  files_ = {{"/h/.aws/credentials", "[default]\naws_access_key_id = x\n"}};
  EXPECT_THAT(Get().error().ToString(), HasSubstr("aws_secret_access_key is missing"));
  environment_ = {{"AWS_ROLE_ARN", "arn"}};
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE is missing"));
}

TEST_F(S3CredentialsTest, TheEnvironment) {
  environment_ = {{"AWS_ACCESS_KEY_ID", "id"},
                  {"AWS_SECRET_ACCESS_KEY", "secret"},
                  {"AWS_SESSION_TOKEN", "token"}};
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"id", Secret("secret"), Secret("token")}));
  EXPECT_TRUE(http_.requests.empty());
}

TEST_F(S3CredentialsTest, Profiles) {
  environment_ = {{"HOME", "/h"}};
  files_ = {{"/h/.aws/credentials",
             "# mine\n[default]\naws_access_key_id=a\naws_secret_access_key = s=1 \r\n"
             "[other]\n aws_access_key_id = b\n aws_secret_access_key=t\n"},
            {"/h/.aws/config",
             "[profile third]\naws_access_key_id = c\naws_secret_access_key = u\n"
             "aws_session_token = v\n"}};
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"a", Secret("s=1"), Secret()}));
  environment_["AWS_PROFILE"] = "other";
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"b", Secret("t"), Secret()}));
  environment_["AWS_PROFILE"] = "third";
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"c", Secret("u"), Secret("v")}));
  environment_["AWS_PROFILE"] = "absent";
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_PROFILE absent: there is no such profile"));
  environment_ = {{"AWS_SHARED_CREDENTIALS_FILE", "/elsewhere"}};
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_SHARED_CREDENTIALS_FILE"));
}

TEST_F(S3CredentialsTest, AWebIdentityIsExchangedAtTheRegionsSts) {
  environment_ = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "arn:aws:x/y"}};
  files_ = {{"/token", "the token\n"}};
  options_.region = "eu-west-1";
  http_.answer = [](const HttpRequest&) {
    return Ok(StsAnswer("AssumeRoleWithWebIdentity", "id"));
  };
  EXPECT_EQ(Get().value(), Made("id"));
  ASSERT_EQ(http_.requests.size(), 1u);
  EXPECT_EQ(http_.requests[0].url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_EQ(http_.requests[0].body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Ax%2Fy&"
            "RoleSessionName=lithify&WebIdentityToken=the%20token");
  http_.answer = [](const HttpRequest&) { return HttpResponse{403, {}, "the token"}; };
  EXPECT_EQ(Get().error().code, Code::kDenied);
  EXPECT_THAT(Get().error().ToString(), Not(HasSubstr("the token")));
}

TEST_F(S3CredentialsTest, AContainers) {
  environment_ = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/creds"},
                  {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/auth"}};
  files_ = {{"/auth", "bearer\n"}};
  http_.answer = [](const HttpRequest&) {
    return Ok(R"({"AccessKeyId":"id","SecretAccessKey":"secret","Token":"token",)"
              R"("Expiration":"2026-11-30T01:00:00Z"})");
  };
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"id", Secret("secret"), Secret("token")}));
  EXPECT_EQ(http_.requests[0].authorization.Reveal(), "bearer");
  EXPECT_TRUE(http_.requests[0].direct);
  for (const char* bad :
       {"", "[]", "{}", R"({"AccessKeyId":"id"})", R"({"SecretAccessKey":"hush hush"})",
        R"({"AccessKeyId":"id","SecretAccessKey":"hush\r\nhush"})",
        R"({"AccessKeyId":"id","SecretAccessKey":"hush","Expiration":"hush hush"})",
        R"({"AccessKeyId":"id","SecretAccessKey":["hush"]})"}) {
    http_.answer = [bad](const HttpRequest&) { return Ok(bad); };
    EXPECT_EQ(Get().error().code, Code::kCorrupt) << bad;
    EXPECT_THAT(Get().error().ToString(), Not(HasSubstr("hush"))) << bad;
  }
}

TEST_F(S3CredentialsTest, AContainersTokenLeavesTheMachineOnlyEncrypted) {
  http_.answer = [](const HttpRequest&) {
    return Ok(R"({"AccessKeyId":"id","SecretAccessKey":"secret","Token":"token"})");
  };
  environment_ = {{"AWS_CONTAINER_AUTHORIZATION_TOKEN", "bearer"}};
  for (const char* url : {"http://example.com/creds", "http://10.0.0.1/", "http://127.0.0.1.evil/",
                          "http://[fd00::1]/x", "http://169.254.170.99/", "ftp://x", "x"}) {
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    EXPECT_EQ(Get().error().code, Code::kInvalid) << url;
    EXPECT_TRUE(http_.requests.empty()) << url;
  }
  for (const char* url :
       {"https://example.com/creds", "http://127.0.0.1:8080/creds", "http://localhost/x",
        "http://[::1]:99/x", "http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]/v1"}) {
    environment_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    EXPECT_TRUE(Get()) << url;
    EXPECT_EQ(http_.requests.back().url, url);
    EXPECT_EQ(http_.requests.back().authorization.Reveal(), "bearer");
  }
  // The path goes before the URL.
  environment_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/x";
  EXPECT_TRUE(Get());
  EXPECT_EQ(http_.requests.back().url, "http://169.254.170.2/v2/x");
  environment_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = ".evil/";
  EXPECT_EQ(Get().error().code, Code::kInvalid);
}

TEST_F(S3CredentialsTest, AnInstances) {
  http_.answer = [](const HttpRequest& request) -> Result<HttpResponse> {
    if (request.method == HttpMethod::kPut) return Ok("metadata token");
    EXPECT_EQ(request.headers[0].second, "metadata token");
    if (request.url.ends_with("/security-credentials/")) return Ok("the role\n");
    EXPECT_TRUE(request.url.ends_with("/security-credentials/the%20role")) << request.url;
    return Ok(R"({"AccessKeyId":"id","SecretAccessKey":"secret","Token":"token"})");
  };
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"id", Secret("secret"), Secret("token")}));
  EXPECT_EQ(http_.requests[0].url, "http://169.254.169.254/latest/api/token");
  EXPECT_EQ(http_.requests[0].headers[0].second, "21600");
  for (const HttpRequest& request : http_.requests) EXPECT_TRUE(request.direct);
  environment_ = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"}};
  EXPECT_TRUE(Get());
  EXPECT_EQ(http_.requests.back().url.substr(0, 22), "http://[fd00:ec2::254]");
  environment_ = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1/"}};
  EXPECT_TRUE(Get());
  EXPECT_EQ(http_.requests.back().url.substr(0, 26), "http://127.0.0.1:1/latest/");
  http_.requests.clear();
  for (const char* value : {"true", "TRUE"}) {
    environment_ = {{"AWS_EC2_METADATA_DISABLED", value}};
    EXPECT_EQ(Get().error().code, Code::kDenied);
    EXPECT_THAT(Get().error().ToString(), HasSubstr("no credentials for S3 were found"));
  }
  EXPECT_TRUE(http_.requests.empty());
}

TEST_F(S3CredentialsTest, AnInstanceThatHasNoneOrAnswersWithAnError) {
  std::string body = R"({"Code":"AssumeRoleUnauthorizedAccess","Message":"hush"})";
  int status = 200;
  http_.answer = [&](const HttpRequest& request) -> Result<HttpResponse> {
    if (request.method == HttpMethod::kPut) return Ok("metadata token");
    if (request.url.ends_with("/security-credentials/")) return HttpResponse{status, {}, "role"};
    return Ok(body);
  };
  EXPECT_EQ(Get().error().code, Code::kDenied);
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AssumeRoleUnauthorizedAccess"));
  EXPECT_THAT(Get().error().ToString(), Not(HasSubstr("hush")));
  status = 404;
  EXPECT_THAT(Get().error().ToString(), HasSubstr("no credentials for S3 were found"));
  status = 500;
  EXPECT_EQ(Get().error().code, Code::kTransient);
}

// A profile that has no credentials of its own leaves the choice to what comes after it.
TEST_F(S3CredentialsTest, AProfileWithoutCredentialsIsPassedOver) {
  environment_ = {{"HOME", "/h"},
                  {"AWS_PROFILE", "west"},
                  {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/creds"}};
  files_ = {{"/h/.aws/config", "[profile west]\nregion = us-west-2\n"}};
  http_.answer = [](const HttpRequest&) {
    return Ok(R"({"AccessKeyId":"id","SecretAccessKey":"secret"})");
  };
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"id", Secret("secret"), Secret()}));
}

// Lent for less than the time between two tries.
TEST_F(S3CredentialsTest, I34_ShortOnesAreRenewedBeforeTheyRunOut) {
  int fetched = 0;
  const auto source = MakeRenewedCredentials(
      [&]() -> Result<LeasedCredentials> {
        return LeasedCredentials{{"id" + std::to_string(++fetched), Secret("s"), Secret()},
                                 clock_.now + std::chrono::seconds(4)};
      },
      clock_);
  for (const auto& [seconds, id] : std::vector<std::pair<int, std::string>>{
           {0, "id1"}, {1, "id1"}, {1, "id2"}, {1, "id2"}, {1, "id3"}, {9, "id4"}}) {
    clock_.now += std::chrono::seconds(seconds);
    EXPECT_EQ(source->Get().value().access_key_id, id);
  }
}

TEST_F(S3CredentialsTest, I34_TheyAreRenewedBeforeTheyRunOut) {
  int fetched = 0;
  bool fails = false;
  const auto source = MakeRenewedCredentials(
      [&]() -> Result<LeasedCredentials> {
        if (fails) return Fail(Code::kTransient, "not now");
        ++fetched;
        return LeasedCredentials{{"id" + std::to_string(fetched), Secret("s"), Secret()},
                                 clock_.now + std::chrono::hours(1)};
      },
      clock_);
  EXPECT_EQ(source->Get().value().access_key_id, "id1");
  clock_.now += std::chrono::minutes(54);
  EXPECT_EQ(source->Get().value().access_key_id, "id1");
  clock_.now += std::chrono::minutes(2);
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  // A renewal that fails goes unnoticed while there are valid ones, and is not tried all the time.
  clock_.now += std::chrono::minutes(56);
  fails = true;
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  fails = false;
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  clock_.now += std::chrono::minutes(1);
  EXPECT_EQ(source->Get().value().access_key_id, "id3");
  // Run out.
  clock_.now += std::chrono::hours(2);
  fails = true;
  EXPECT_EQ(source->Get().error().code, Code::kTransient);
}

TEST_F(S3CredentialsTest, I34_OnesThatAreRefusedAreFetchedAnew) {
  int fetched = 0;
  const auto source = MakeRenewedCredentials(
      [&]() -> Result<LeasedCredentials> {
        ++fetched;
        return LeasedCredentials{{"id" + std::to_string(fetched), Secret("s"), Secret()}, {}};
      },
      clock_);
  const auto first = source->Get().value();
  EXPECT_TRUE(source->Invalidate(first));
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  // Somebody else noticed already.
  EXPECT_TRUE(source->Invalidate(first));
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  EXPECT_EQ(fetched, 2);
}

// While one thread asks for new ones, the others go on with those that are still valid, and all
// that have none wait for the one answer, or the one failure.
TEST_F(S3CredentialsTest, I34_OneThreadRenewsAndTheOthersGoOn) {
  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  bool may_answer = true;
  int fetched = 0;
  const auto source = MakeRenewedCredentials(
      [&]() -> Result<LeasedCredentials> {
        std::unique_lock lock(mutex);
        asked = true;
        changed.notify_all();
        changed.wait(lock, [&] { return may_answer; });
        ++fetched;
        if (fetched == 3) return Fail(Code::kDenied, "no more");
        return LeasedCredentials{{"id" + std::to_string(fetched), Secret("s"), Secret()},
                                 clock_.now + std::chrono::hours(1)};
      },
      clock_);
  ASSERT_EQ(source->Get().value().access_key_id, "id1");
  clock_.now += std::chrono::minutes(56);
  may_answer = asked = false;
  std::jthread renewing([&] { EXPECT_EQ(source->Get().value().access_key_id, "id2"); });
  const auto wait_until_asked = [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked; });
  };
  const auto let_answer = [&] {
    const std::lock_guard lock(mutex);
    may_answer = true;
    changed.notify_all();
  };
  wait_until_asked();
  EXPECT_EQ(source->Get().value().access_key_id, "id1");
  let_answer();
  renewing.join();
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  EXPECT_EQ(fetched, 2);

  ASSERT_TRUE(source->Invalidate(source->Get().value()));
  may_answer = asked = false;
  std::vector<std::jthread> waiting;
  waiting.emplace_back([&] { EXPECT_EQ(source->Get().error().message, "no more"); });
  wait_until_asked();
  std::atomic<int> others = 0;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      ++others;
      const auto got = source->Get();
      // Whoever comes after the failure asks anew.
      EXPECT_TRUE(got ? got->access_key_id == "id4" : got.error().message == "no more");
    });
  }
  while (others < 4) std::this_thread::yield();
  let_answer();
  waiting.clear();
  EXPECT_LE(fetched, 4);
}

// With a clock that is wrong all of them look as if they had run out: that is for the store to say.
TEST_F(S3CredentialsTest, OnesThatCameAsRunOutAreNotAskedForEachTime) {
  int fetched = 0;
  const auto source = MakeRenewedCredentials(
      [&]() -> Result<LeasedCredentials> {
        ++fetched;
        return LeasedCredentials{{"id" + std::to_string(fetched), Secret("s"), Secret()},
                                 clock_.now - std::chrono::hours(1)};
      },
      clock_);
  const auto first = source->Get().value();
  EXPECT_EQ(source->Get().value(), first);
  clock_.now += std::chrono::seconds(31);
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
  ASSERT_TRUE(source->Invalidate(source->Get().value()));
  EXPECT_EQ(source->Get().value().access_key_id, "id3");
}

TEST(ParseExpiration, AsAllOfThemWriteIt) {
  const Time noon =
      Time(std::chrono::sys_days(std::chrono::year(2026) / 11 / 30)) + std::chrono::hours(12);
  for (const char* text :
       {"2026-11-30T12:00:00Z", "2026-11-30T12:00:00UTC", "2026-11-30T12:00:00+00:00",
        "2026-11-30T13:30:00+01:30", "2026-11-30T07:00:00-0500", "2026-11-30T12:00:00.000000Z"}) {
    EXPECT_EQ(ParseExpiration(text).value(), noon) << text;
  }
  for (const char* text :
       {"", "noon", "2026-11-30T12:00:00+1", "2026-11-30T12:00:00+aa:bb", "2026-13-30T12:00:00Z"}) {
    EXPECT_EQ(ParseExpiration(text).error().code, Code::kCorrupt) << text;
  }
}

}  // namespace
}  // namespace lithify::storage
