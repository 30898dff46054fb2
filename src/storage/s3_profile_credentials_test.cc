#include "storage/s3_profile_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "net/sigv4.h"
#include "storage/s3_credentials_scripted.h"

namespace lithify::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class S3ProfileCredentialsTest : public S3CredentialsTest {
 protected:
  S3ProfileCredentialsTest() {
    environment_ = {{"HOME", "/h"}, {"AWS_PROFILE", "A"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
    options_.region = "eu-west-1";
    // Gives keys named after the role.
    http_.answer = [](const HttpRequest& request) -> Result<HttpResponse> {
      const size_t role = request.body.find("role%2F");
      if (role == std::string::npos) return HttpResponse{404, {}, ""};
      const std::string name =
          request.body.substr(role + 7, request.body.find('&', role) - role - 7);
      const bool web = request.body.starts_with("Action=AssumeRoleWithWebIdentity&");
      return Ok(StsAnswer(web ? "AssumeRoleWithWebIdentity" : "AssumeRole", name));
    };
  }
  // With this ~/.aws/config, the profile A.
  Result<net::AwsCredentials> With(const std::string& config) {
    files_["/h/.aws/config"] = config;
    http_.requests.clear();
    return Get();
  }
  std::string ErrorWith(const std::string& config) {
    const auto got = With(config);
    if (got) return "no error";
    EXPECT_EQ(got.error().code, Code::kInvalid) << got.error().ToString();
    EXPECT_THAT(got.error().ToString(), Not(HasSubstr("hush")));
    return got.error().ToString();
  }
  // Who signed each of the requests to STS.
  std::vector<std::string> Signers() const {
    std::vector<std::string> signers;
    for (const HttpRequest& request : http_.requests) {
      const std::string& line = request.authorization.Reveal();
      const size_t id = line.find("Credential=");
      signers.push_back(id == std::string::npos ? "nobody"
                                                : line.substr(id + 11, line.find('/') - id - 11));
    }
    return signers;
  }
};

constexpr char kKeysOfB[] = "aws_access_key_id = b\naws_secret_access_key = hush\n";

// --- roles ---------------------------------------------------------------------------------------

TEST_F(S3ProfileCredentialsTest, ARoleIsAssumedWithTheSourcesKeys) {
  const auto got = With(std::string("[profile A]\nrole_arn = arn:aws:iam::1:role/One\n"
                                    "source_profile = B\n[profile B]\n") +
                        kKeysOfB);
  EXPECT_EQ(got.value(), Made("One"));
  EXPECT_THAT(Signers(), ElementsAre("b"));
  const HttpRequest& request = http_.requests[0];
  EXPECT_EQ(request.url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_EQ(request.body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2FOne&"
            "RoleSessionName=lithify");
  EXPECT_THAT(request.authorization.Reveal(),
              HasSubstr("/20261130/eu-west-1/sts/aws4_request,SignedHeaders=content-type;host;"
                        "x-amz-content-sha256;x-amz-date,"));
  EXPECT_EQ(HeaderIn(request, "x-amz-content-sha256"), net::Sha256Hex(request.body));
  EXPECT_EQ(HeaderIn(request, "x-amz-security-token"), "none");
}

TEST_F(S3ProfileCredentialsTest, TheRolesSettingsGoAlong) {
  environment_["AWS_ENDPOINT_URL_STS"] = "https://STS.example:8443/path";
  const auto got = With(
      "[profile A]\nrole_arn = arn:aws:iam::1:role/One\nsource_profile = B\n"
      "role_session_name = me\nexternal_id = a b\nduration_seconds = 900\n"
      "[profile B]\naws_access_key_id = b\naws_secret_access_key = s\naws_session_token = t\n");
  EXPECT_EQ(got.value(), Made("One"));
  EXPECT_EQ(http_.requests[0].url, "https://sts.example:8443/path");
  EXPECT_EQ(http_.requests[0].body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2FOne&"
            "RoleSessionName=me&ExternalId=a%20b&DurationSeconds=900");
  EXPECT_EQ(HeaderIn(http_.requests[0], "x-amz-security-token"), "t");
}

TEST_F(S3ProfileCredentialsTest, RolesAreChained) {
  EXPECT_EQ(With(std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n"
                             "[profile B]\nrole_arn = arn:role/B\nsource_profile = C\n"
                             "[profile C]\naws_access_key_id = c\naws_secret_access_key = hush\n"))
                .value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("c", "B"));
  EXPECT_EQ(HeaderIn(http_.requests[1], "x-amz-security-token"), "BToken");
  // Keys of a source go before its role, those of the first profile after its own.
  EXPECT_EQ(With(std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n"
                             "aws_access_key_id = wrong\naws_secret_access_key = wrong\n"
                             "[profile B]\nrole_arn = arn:role/B\nsource_profile = C\n") +
                 kKeysOfB + "[profile C]\naws_access_key_id = wrong\n")
                .value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("b"));
  // Its own ones, if it says so.
  EXPECT_EQ(With(std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = A\n") + kKeysOfB)
                .value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("b"));
}

TEST_F(S3ProfileCredentialsTest, ProfilesThatGoInACircleAreNamed) {
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = B\n"
                        "aws_access_key_id = a\naws_secret_access_key = hush\n"
                        "[profile B]\nrole_arn = r\nsource_profile = C\n"
                        "[profile C]\nrole_arn = r\nsource_profile = A\n"),
              HasSubstr("the profiles go in a circle: A -> B -> C -> A"));
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = A\n"),
              HasSubstr("the profiles go in a circle: A -> A"));
  EXPECT_TRUE(http_.requests.empty());
}

TEST_F(S3ProfileCredentialsTest, R267_SettingsThatAreNotWholeNameTheKey) {
  const std::string b = std::string("[profile B]\n") + kKeysOfB;
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\n"),
              HasSubstr("profile A: source_profile or credential_source is missing"));
  EXPECT_THAT(ErrorWith("[profile A]\nsource_profile = B\n" + b),
              HasSubstr("profile A: role_arn is missing (next: source_profile needs it)"));
  EXPECT_THAT(ErrorWith("[profile A]\nweb_identity_token_file = /t\n"),
              HasSubstr("role_arn is missing (next: web_identity_token_file needs it)"));
  EXPECT_THAT(ErrorWith("[profile A]\ncredential_source = Environment\n"),
              HasSubstr("role_arn is missing (next: credential_source needs it)"));
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = B\n"
                        "credential_source = Environment\n" +
                        b),
              HasSubstr("source_profile and credential_source are both set"));
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = absent\n"),
              HasSubstr("profile A: source_profile: there is no profile absent"));
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = B\n"
                        "[profile B]\naws_secret_access_key = hush\n"),
              HasSubstr("profile A: profile B: aws_access_key_id is missing"));
  EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\ncredential_source = Elsewhere\n"),
              HasSubstr("\"Elsewhere\" is no source"));
  for (const char* seconds : {"899", "43201", "900s", "-1", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(ErrorWith("[profile A]\nrole_arn = r\nsource_profile = B\nduration_seconds = " +
                          std::string(seconds) + "\n" + b),
                HasSubstr("duration_seconds: \"" + std::string(seconds) + "\" is no number"));
  }
  EXPECT_TRUE(http_.requests.empty());
  const auto none =
      With("[profile A]\nrole_arn = r\nsource_profile = B\n[profile B]\nregion = x\n");
  EXPECT_EQ(none.error().code, Code::kDenied);
  EXPECT_THAT(none.error().ToString(), HasSubstr("source_profile B: there are no credentials"));
}

TEST_F(S3ProfileCredentialsTest, ARoleThatWantsAOneTimePasswordIsRefused) {
  EXPECT_THAT(ErrorWith(std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n"
                                    "mfa_serial = arn:mfa\n[profile B]\n") +
                        kKeysOfB),
              HasSubstr("profile A: the role wants a one-time password (mfa_serial)"));
  EXPECT_TRUE(http_.requests.empty());
  // Beside keys it means nothing.
  EXPECT_TRUE(With(std::string("[profile A]\nmfa_serial = arn:mfa\n") + kKeysOfB));
}

TEST_F(S3ProfileCredentialsTest, SourcesWithoutAProfile) {
  const auto sts = http_.answer;
  http_.answer = [sts](const HttpRequest& request) -> Result<HttpResponse> {
    if (request.url.ends_with("/api/token")) return Ok("t");
    if (request.url.ends_with("/security-credentials/")) return Ok("role");
    if (request.method == HttpMethod::kGet) {
      const std::string id = request.url.ends_with("/role") ? "instance" : "container";
      return Ok(R"({"AccessKeyId":")" + id + R"(","SecretAccessKey":"s","Token":"t"})");
    }
    return sts(request);
  };
  const std::string role = "[profile A]\nrole_arn = arn:role/A\ncredential_source = ";
  environment_.erase("AWS_EC2_METADATA_DISABLED");
  EXPECT_EQ(With(role + "Ec2InstanceMetadata\n").value(), Made("A"));
  EXPECT_EQ(Signers().back(), "instance");
  environment_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/x";
  EXPECT_EQ(With(role + "EcsContainer\n").value(), Made("A"));
  EXPECT_EQ(Signers().back(), "container");
  environment_.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  EXPECT_EQ(With(role + "EcsContainer\n").error().code, Code::kDenied);
  environment_["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_EQ(With(role + "Ec2InstanceMetadata\n").error().code, Code::kDenied);
  // The environment's keys would have gone before the profile.
  EXPECT_EQ(With(role + "Environment\n").error().code, Code::kDenied);
}

TEST_F(S3ProfileCredentialsTest, AWebIdentityOfAProfile) {
  files_["/token"] = "the token\n";
  EXPECT_EQ(With("[profile A]\nrole_arn = arn:role/W\nweb_identity_token_file = /token\n"
                 "role_session_name = me\n")
                .value(),
            Made("W"));
  EXPECT_EQ(http_.requests[0].body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Arole%2FW&"
            "RoleSessionName=me&WebIdentityToken=the%20token");
  EXPECT_THAT(Signers(), ElementsAre("nobody"));
  EXPECT_EQ(With("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n"
                 "[profile B]\nrole_arn = arn:role/W\nweb_identity_token_file = /token\n")
                .value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("nobody", "W"));
  files_.erase("/token");
  EXPECT_THAT(With("[profile A]\nrole_arn = arn:role/W\nweb_identity_token_file = /token\n")
                  .error()
                  .ToString(),
              HasSubstr("profile A: web_identity_token_file: /token"));
}

TEST_F(S3ProfileCredentialsTest, WhatStsAnswersIsJudged) {
  const std::string config =
      std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n[profile B]\n") +
      kKeysOfB;
  struct Case {
    int status;
    std::string body;
    Code code;
    const char* message;
  };
  const std::vector<Case> kCases = {
      {403,
       "<ErrorResponse><Error><Code>AccessDenied</Code><Message>hush</Message></Error>"
       "</ErrorResponse>",
       Code::kDenied, "it answers 403 AccessDenied"},
      {400, "<ErrorResponse><Error><Code>hush hush</Code></Error></ErrorResponse>", Code::kDenied,
       "it answers 400"},
      {400, "hush", Code::kDenied, "it answers 400"},
      {301, "", Code::kDenied, "it answers 301"},
      {500, "<x", Code::kTransient, "it answers 500"},
      {429, "", Code::kTransient, "it answers 429"},
      {200, "hush", Code::kCorrupt, ""},
      {200, "", Code::kCorrupt, ""},
      {200, "<AssumeRoleResponse/>", Code::kCorrupt, "the answer has no credentials"},
      {200, StsAnswer("AssumeRoleWithWebIdentity", "hush"), Code::kCorrupt,
       "the answer has no credentials"},
      {200,
       "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>hush</AccessKeyId>"
       "</Credentials></AssumeRoleResult></AssumeRoleResponse>",
       Code::kCorrupt, "the answer has no secret access key"},
      {200, "<!DOCTYPE x><AssumeRoleResponse/>", Code::kCorrupt, ""},
  };
  for (const Case& one : kCases) {
    http_.answer = [&](const HttpRequest&) { return HttpResponse{one.status, {}, one.body}; };
    const auto got = With(config);
    ASSERT_FALSE(got) << one.body;
    EXPECT_EQ(got.error().code, one.code) << one.body;
    EXPECT_THAT(got.error().ToString(), HasSubstr(one.message));
    EXPECT_THAT(got.error().ToString(), Not(HasSubstr("hush")));
  }
  http_.answer = [](const HttpRequest&) { return Fail(Code::kUnknownOutcome, "lost"); };
  EXPECT_EQ(With(config).error().code, Code::kTransient);
}

TEST_F(S3ProfileCredentialsTest, AClockThatIsWrongIsMendedByTheStsOnce) {
  const std::string config =
      std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n[profile B]\n") +
      kKeysOfB;
  const auto sts = http_.answer;
  std::string date = "Mon, 30 Nov 2026 02:00:00 GMT";
  http_.answer = [&, sts](const HttpRequest& request) -> Result<HttpResponse> {
    if (HeaderIn(request, "x-amz-date") == "20261130T020000Z") return sts(request);
    return HttpResponse{403, {{"date", date}}, ""};
  };
  EXPECT_EQ(With(config).value(), Made("A"));
  EXPECT_EQ(http_.requests.size(), 2u);
  date = "Mon, 30 Nov 2026 03:00:00 GMT";
  EXPECT_EQ(With(config).error().code, Code::kDenied);
  EXPECT_EQ(http_.requests.size(), 2u);
  date = "Mon, 30 Nov 2026 00:03:00 GMT";
  EXPECT_EQ(With(config).error().code, Code::kDenied);
  EXPECT_EQ(http_.requests.size(), 1u);
}

// A region becomes part of the host that a secret is sent to.
TEST_F(S3ProfileCredentialsTest, ARegionIsOneLabelOfAHost) {
  for (const char* region : {"evil.example/", "x y", "a.b", "", "-a", "@evil"}) {
    options_.region = region;
    EXPECT_THAT(ErrorWith(std::string("[profile A]\nrole_arn = r\nsource_profile = B\n"
                                      "[profile B]\n") +
                          kKeysOfB),
                HasSubstr("is no name of a region"));
  }
  EXPECT_TRUE(http_.requests.empty());
  options_.region = "cn-north-1";
  EXPECT_TRUE(With(std::string("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n"
                               "[profile B]\n") +
                   kKeysOfB));
  EXPECT_EQ(http_.requests[0].url, "https://sts.cn-north-1.amazonaws.com.cn/");
}

// --- programs ------------------------------------------------------------------------------------

class CredentialProcessTest : public S3ProfileCredentialsTest {
 protected:
  CredentialProcessTest() { std::filesystem::create_directories(directory_); }
  ~CredentialProcessTest() override { std::filesystem::remove_all(directory_); }
  // A profile whose program does this.
  std::string Program(const std::string& script, const std::string& arguments = "") {
    const std::string path = directory_ + "/program";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return "[profile A]\ncredential_process = \"" + path + "\" " + arguments + "\n";
  }
  const std::string directory_ =
      testing::TempDir() + "/credential process " + std::to_string(getpid());
};

TEST_F(CredentialProcessTest, WhatItPrintsAreTheCredentials) {
  EXPECT_EQ(
      With(Program(R"(echo "{\"Version\":1,\"AccessKeyId\":\"$1\",\"SecretAccessKey\":\"$2\"}")",
                   "'the id' $HOME"))
          .error()
          .message,
      "the credentials have characters that no credential has");
  EXPECT_EQ(
      With(Program(R"(echo "{\"Version\":1,\"AccessKeyId\":\"$1\",\"SecretAccessKey\":\"$2\"}")",
                   "the-id $HOME"))
          .value(),
      (net::AwsCredentials{"the-id", Secret("$HOME"), Secret()}));
  // As the source of a role.
  std::string config =
      Program(R"(echo '{"Version":1,"AccessKeyId":"p","SecretAccessKey":"s","SessionToken":"t"}')");
  config.replace(config.find("[profile A]"), 11, "[profile B]");
  EXPECT_EQ(With("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n" + config).value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("p"));
  // Keys go before it.
  EXPECT_EQ(With(Program("exit 1") + kKeysOfB).value().access_key_id, "b");
}

TEST_F(CredentialProcessTest, ItIsRunAgainBeforeTheyRunOut) {
  files_["/h/.aws/config"] =
      Program("echo x >> '" + directory_ + "/runs'; n=$(wc -l < '" + directory_ +
              "/runs'); echo '{\"Version\":1,\"AccessKeyId\":\"id'$n'\",\"SecretAccessKey\":\"s\","
              "\"Expiration\":\"2026-11-30T01:00:00+00:00\"}'");
  const auto source = std::move(Make().value());
  EXPECT_EQ(source->Get().value().access_key_id, "id1");
  clock_.now += std::chrono::minutes(54);
  EXPECT_EQ(source->Get().value().access_key_id, "id1");
  clock_.now += std::chrono::minutes(2);
  EXPECT_EQ(source->Get().value().access_key_id, "id2");
}

TEST_F(CredentialProcessTest, RubbishIsAnErrorThatHoldsNothingOfIt) {
  for (const char* output :
       {"", "hush", "[]", "null", "{}", R"({"Version":1})", R"({"Version":1,"AccessKeyId":"hush"})",
        R"({"AccessKeyId":"hush","SecretAccessKey":"hush"})",
        R"({"Version":2,"AccessKeyId":"hush","SecretAccessKey":"hush"})",
        R"({"Version":"1","AccessKeyId":"hush","SecretAccessKey":"hush"})",
        R"({"Version":1,"AccessKeyId":"hush","SecretAccessKey":""})",
        R"({"Version":1,"AccessKeyId":"hush","SecretAccessKey":7})",
        R"({"Version":1,"AccessKeyId":"hush","SecretAccessKey":"hush","Expiration":"hush"})"}) {
    const auto got = With(Program("echo hush >&2; printf '%s' '" + std::string(output) + "'"));
    ASSERT_FALSE(got) << output;
    EXPECT_EQ(got.error().code, Code::kCorrupt) << output;
    EXPECT_THAT(got.error().ToString(), HasSubstr("profile A: credential_process: "));
    EXPECT_THAT(got.error().ToString(), Not(HasSubstr("hush"))) << output;
  }
  const auto failed = With(Program("echo hush; echo hush >&2; exit 2", "--password hush"));
  EXPECT_EQ(failed.error().code, Code::kDenied);
  EXPECT_THAT(failed.error().ToString(), HasSubstr("it ended with status 2"));
  EXPECT_THAT(failed.error().ToString(), Not(HasSubstr("hush")));
  const auto much = With(Program("head -c 3000000 /dev/zero; echo hush"));
  EXPECT_EQ(much.error().code, Code::kDenied);
  EXPECT_THAT(much.error().ToString(), HasSubstr("it writes more than 65536 bytes"));
  EXPECT_THAT(ErrorWith("[profile A]\ncredential_process = \"/bin/x hush\n"),
              HasSubstr("the command ends within quotes"));
  EXPECT_THAT(ErrorWith("[profile A]\ncredential_process = /nonexistent/x hush\n"),
              HasSubstr("/nonexistent/x: it cannot be run"));
}

TEST_F(CredentialProcessTest, OneThatHangsEndsWithTheStop) {
  options_.stop = [] { return true; };
  EXPECT_EQ(With(Program("sleep 600")).error().code, Code::kCancelled);
}

// --- single sign-on ------------------------------------------------------------------------------

class SingleSignOnTest : public S3ProfileCredentialsTest {
 protected:
  SingleSignOnTest() {
    // SHA-1 of "corp", and of the start URL.
    files_["/h/.aws/sso/cache/" + *net::Sha1Hex("corp") + ".json"] = Token("2026-11-30T00:30:00Z");
    files_["/h/.aws/sso/cache/" + *net::Sha1Hex("https://corp.awsapps.com/start") + ".json"] =
        Token("2026-11-30T00:30:00UTC");
    http_.answer = [](const HttpRequest&) {
      return Ok(R"({"roleCredentials":{"accessKeyId":"S","secretAccessKey":"SSecret",)"
                R"("sessionToken":"SToken","expiration":1796004000000}})");
    };
  }
  static std::string Token(const std::string& expires) {
    return R"({"accessToken":"hush","expiresAt":")" + expires + R"(","region":"us-east-1"})";
  }
  static constexpr char kSession[] =
      "[sso-session corp]\nsso_region = us-east-1\nsso_start_url = "
      "https://corp.awsapps.com/start\n";
  static constexpr char kProfile[] =
      "[profile A]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Read Only\n";
};

TEST_F(SingleSignOnTest, TheTokenIsExchangedForTheRole) {
  EXPECT_EQ(net::Sha1Hex("abc").value(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(With(std::string(kProfile) + kSession).value(), Made("S"));
  EXPECT_EQ(http_.requests[0].url,
            "https://portal.sso.us-east-1.amazonaws.com/federation/credentials?"
            "account_id=123456789012&role_name=Read%20Only");
  EXPECT_EQ(HeaderIn(http_.requests[0], "x-amz-sso_bearer_token"), "hush");
  EXPECT_TRUE(http_.requests[0].authorization.empty());
  // Without a session, as it was before there were any.
  EXPECT_EQ(With("[profile A]\nsso_start_url = https://corp.awsapps.com/start\n"
                 "sso_region = eu-west-1\nsso_account_id = 1\nsso_role_name = R\n")
                .value(),
            Made("S"));
  EXPECT_THAT(http_.requests[0].url, HasSubstr("https://portal.sso.eu-west-1.amazonaws.com/"));
  // As the source of a role, and before keys.
  http_.answer = [](const HttpRequest& request) {
    return request.method == HttpMethod::kGet
               ? Ok(R"({"roleCredentials":{"accessKeyId":"S","secretAccessKey":"SSecret",)"
                    R"("sessionToken":"SToken","expiration":1796004000000}})")
               : Ok(StsAnswer("AssumeRole", "A"));
  };
  std::string source = std::string(kProfile) + kSession;
  source.replace(source.find("[profile A]"), 11, "[profile B]");
  EXPECT_EQ(With("[profile A]\nrole_arn = arn:role/A\nsource_profile = B\n" + source).value(),
            Made("A"));
  EXPECT_THAT(Signers(), ElementsAre("nobody", "S"));
}

TEST_F(SingleSignOnTest, WithoutATokenItSaysWhatToDo) {
  const auto told = [&](const char* why) {
    const auto got = With(std::string(kProfile) + kSession);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().ToString(),
              "denied: profile A: " + std::string(why) + " (next: run: aws sso login --profile A)");
  };
  std::string& file = files_["/h/.aws/sso/cache/" + *net::Sha1Hex("corp") + ".json"];
  file = Token("2026-11-30T00:00:00Z");
  told("the sign-on has run out");
  for (const char* damaged : {"", "hush", "{}", R"({"accessToken":"hush"})",
                              R"({"accessToken":"","expiresAt":"2026-11-30T00:30:00Z"})",
                              R"({"accessToken":"hush","expiresAt":"hush"})"}) {
    file = damaged;
    told("the cached token of the sign-on is damaged");
  }
  EXPECT_TRUE(http_.requests.empty());
  file = Token("2026-11-30T00:30:00Z");
  http_.answer = [](const HttpRequest&) { return HttpResponse{401, {}, "hush"}; };
  told("the sign-on is not valid any more");
  files_.erase("/h/.aws/sso/cache/" + *net::Sha1Hex("corp") + ".json");
  told("nobody has signed on");
}

TEST_F(SingleSignOnTest, R267_SettingsThatAreNotWholeNameTheKey) {
  for (const char* key : {"sso_account_id", "sso_role_name"}) {
    std::string config = std::string(kProfile) + kSession;
    config.replace(config.find(key), 3, "xxx");
    EXPECT_THAT(ErrorWith(config), HasSubstr(std::string("profile A: ") + key + " is missing"));
  }
  for (const char* key : {"sso_region", "sso_start_url"}) {
    std::string config = std::string(kProfile) + kSession;
    config.replace(config.find(key), 3, "xxx");
    EXPECT_THAT(ErrorWith(config), HasSubstr(std::string("profile A: ") + key + " is missing"));
  }
  EXPECT_THAT(ErrorWith(kProfile), HasSubstr("there is no [sso-session corp]"));
  EXPECT_THAT(ErrorWith(std::string(kProfile) + "sso_region = eu-west-1\n" + kSession),
              HasSubstr("sso_region is another one than that of [sso-session corp]"));
  std::string region = std::string(kProfile) + kSession;
  region.replace(region.find("us-east-1"), 9, "evil.com/");
  EXPECT_THAT(ErrorWith(region), HasSubstr("sso_region: \"evil.com/\" is no name of a region"));
  EXPECT_TRUE(http_.requests.empty());
}

TEST_F(SingleSignOnTest, TheTokenGoesNowhereUnencrypted) {
  for (const char* url :
       {"http://example.com", "http://127.0.0.1.evil:1", "ftp://x", "https://x?y"}) {
    environment_["AWS_ENDPOINT_URL_SSO"] = url;
    EXPECT_EQ(With(std::string(kProfile) + kSession).error().code, Code::kInvalid) << url;
    EXPECT_TRUE(http_.requests.empty());
  }
  for (const char* url : {"http://127.0.0.1:1", "https://sso.example/"}) {
    environment_["AWS_ENDPOINT_URL_SSO"] = url;
    EXPECT_TRUE(With(std::string(kProfile) + kSession)) << url;
    EXPECT_THAT(http_.requests[0].url, HasSubstr("/federation/credentials?"));
  }
}

TEST_F(SingleSignOnTest, WhatThePortalAnswersIsJudged) {
  for (const auto& [status, body, code] : std::vector<std::tuple<int, const char*, Code>>{
           {403, R"({"__type":"ForbiddenException","message":"hush"})", Code::kDenied},
           {404, "hush", Code::kDenied},
           {503, "hush", Code::kTransient},
           {200, "hush", Code::kCorrupt},
           {200, R"({"roleCredentials":"hush"})", Code::kCorrupt},
           {200, R"({"roleCredentials":{"accessKeyId":"hush","secretAccessKey":"hush"}})",
            Code::kCorrupt},
           {200,
            R"({"roleCredentials":{"accessKeyId":"hush","secretAccessKey":"hush",)"
            R"("expiration":99999999999999999999}})",
            Code::kCorrupt},
           {200,
            R"({"roleCredentials":{"accessKeyId":"hush","secretAccessKey":"hush",)"
            R"("expiration":-1}})",
            Code::kCorrupt}}) {
    http_.answer = [&](const HttpRequest&) { return HttpResponse{status, {}, body}; };
    const auto got = With(std::string(kProfile) + kSession);
    ASSERT_FALSE(got) << body;
    EXPECT_EQ(got.error().code, code) << body;
    EXPECT_THAT(got.error().ToString(), Not(HasSubstr("hush"))) << body;
  }
}

}  // namespace
}  // namespace lithify::storage
