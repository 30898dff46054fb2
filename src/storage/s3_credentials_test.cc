#include "storage/s3_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace lithify::storage {
namespace {

using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;
using testing::HasSubstr;
using testing::Not;

class TestClock final : public Clock {
 public:
  Time Now() const override { return now; }
  Duration Monotonic() const override { return {}; }
  void Sleep(Duration) override {}
  Time now = ParseTimeOrDie();

 private:
  static Time ParseTimeOrDie() {
    return Time(std::chrono::sys_days(std::chrono::year(2026) / 11 / 30));
  }
};

class Answers final : public net::HttpClient {
 public:
  Result<HttpResponse> Send(const HttpRequest& request, const net::HttpLimits&) override {
    requests.push_back(request);
    return answer(request);
  }
  std::vector<HttpRequest> requests;
  std::function<Result<HttpResponse>(const HttpRequest&)> answer =
      [](const HttpRequest&) -> Result<HttpResponse> {
    return Fail(Code::kTransient, "nobody is there");
  };
};

class S3CredentialsTest : public testing::Test {
 protected:
  Result<net::AwsCredentials> Get() {
    auto made = Make();
    if (!made) return Fail(std::move(made.error()));
    return (*made)->Get();
  }
  Result<std::unique_ptr<S3Credentials>> Make() {
    options_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
    options_.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files_.find(path);
      if (found == files_.end()) return Fail(Code::kNotFound, "no such file", path);
      return found->second;
    };
    return MakeS3Credentials(options_, http_, clock_);
  }
  static Result<HttpResponse> Ok(std::string body) {
    return HttpResponse{200, {}, std::move(body)};
  }

  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> files_;
  S3CredentialOptions options_;
  TestClock clock_;
  Answers http_;
};

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
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_PROFILE absent: the profile has no keys"));
  environment_ = {{"AWS_SHARED_CREDENTIALS_FILE", "/elsewhere"}};
  EXPECT_THAT(Get().error().ToString(), HasSubstr("AWS_SHARED_CREDENTIALS_FILE"));
}

TEST_F(S3CredentialsTest, AWebIdentityIsExchangedAtTheRegionsSts) {
  environment_ = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"}, {"AWS_ROLE_ARN", "arn:aws:x/y"}};
  files_ = {{"/token", "the token\n"}};
  options_.region = "eu-west-1";
  http_.answer = [](const HttpRequest&) {
    return Ok(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/\">"
        "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id</AccessKeyId>"
        "<SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>"
        "<Expiration>2026-11-30T01:00:00Z</Expiration></Credentials>"
        "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
  };
  EXPECT_EQ(Get().value(), (net::AwsCredentials{"id", Secret("secret"), Secret("session")}));
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
  for (const char* bad : {"", "[]", "{}", R"({"AccessKeyId":"id"})"}) {
    http_.answer = [bad](const HttpRequest&) { return Ok(bad); };
    EXPECT_EQ(Get().error().code, Code::kCorrupt) << bad;
  }
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
  environment_ = {{"AWS_EC2_METADATA_DISABLED", "true"}};
  EXPECT_EQ(Get().error().code, Code::kDenied);
  EXPECT_THAT(Get().error().ToString(), HasSubstr("no credentials for S3 were found"));
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

}  // namespace
}  // namespace lithify::storage
