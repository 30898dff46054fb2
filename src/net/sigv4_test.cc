// The examples of the Amazon S3 API reference, "Authenticating Requests: Using the Authorization
// Header": the same requests give the signatures that are printed there.
#include "net/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lithify::net {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr std::string_view kNoBody =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

AwsCredentials Example() {
  return {"AKIAIOSFODNN7EXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), Secret()};
}

Time ExampleTime() { return Time(std::chrono::sys_days(std::chrono::year(2013) / 5 / 24)); }

SigV4Request Request(HttpMethod method, std::string path) {
  SigV4Request request;
  request.method = method;
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = std::move(path);
  request.payload_sha256 = std::string(kNoBody);
  return request;
}

std::string Signature(const SigV4Request& request) {
  return SignV4(request, Example(), {"us-east-1"}, ExampleTime()).authorization.Reveal();
}

TEST(SigV4Test, ARange) {
  SigV4Request request = Request(HttpMethod::kGet, "/test.txt");
  request.headers = {{"range", "bytes=0-9"}};
  EXPECT_EQ(Signature(request),
            "AWS4-HMAC-SHA256 "
            "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4Test, AnUpload) {
  SigV4Request request = Request(HttpMethod::kPut, "/test%24file.text");
  request.headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  request.payload_sha256 = Sha256Hex("Welcome to Amazon S3.");
  EXPECT_EQ(request.payload_sha256,
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  EXPECT_THAT(
      Signature(request),
      EndsWith("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SigV4Test, AQueryWithoutAValue) {
  SigV4Request request = Request(HttpMethod::kGet, "/");
  request.query = {{"lifecycle", ""}};
  EXPECT_THAT(
      Signature(request),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SigV4Test, AListing) {
  SigV4Request request = Request(HttpMethod::kGet, "/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_THAT(
      Signature(request),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4Test, TemporaryCredentialsSendAndSignTheirToken) {
  AwsCredentials credentials = Example();
  credentials.session_token = Secret("the token");
  const SigV4Signed made =
      SignV4(Request(HttpMethod::kGet, "/"), credentials, {"eu-west-1"}, ExampleTime());
  EXPECT_THAT(made.headers, testing::Contains(std::pair<std::string, std::string>(
                                "x-amz-security-token", "the token")));
  EXPECT_THAT(made.authorization.Reveal(), HasSubstr("x-amz-date;x-amz-security-token,"));
  EXPECT_THAT(made.authorization.Reveal(), HasSubstr("/20130524/eu-west-1/s3/aws4_request"));
}

TEST(SigV4Test, QueriesAreSortedAsTheyAreSent) {
  EXPECT_EQ(QueryString({{"b", "2"}, {"a b", "x/y"}, {"a", "2"}, {"a", "1"}, {"A", ""}}),
            "A=&a=1&a=2&a%20b=x%2Fy&b=2");
}

}  // namespace
}  // namespace lithify::net
