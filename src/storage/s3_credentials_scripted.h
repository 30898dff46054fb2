// Credentials from an environment, files and services that a test makes up.
#ifndef LITHIFY_STORAGE_S3_CREDENTIALS_SCRIPTED_H_
#define LITHIFY_STORAGE_S3_CREDENTIALS_SCRIPTED_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/http.h"
#include "storage/s3_credentials.h"

namespace lithify::storage {

using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;

class CredentialsClock final : public Clock {
 public:
  Time Now() const override { return now; }
  Duration Monotonic() const override { return SystemClock().Monotonic(); }
  void Sleep(Duration) override {}
  Time now = Time(std::chrono::sys_days(std::chrono::year(2026) / 11 / 30));
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
    options_.around.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
    options_.around.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files_.find(path);
      if (found == files_.end()) return Fail(Code::kNotFound, "no such file", path);
      return found->second;
    };
    return MakeS3Credentials(options_, http_, clock_);
  }
  static Result<HttpResponse> Ok(std::string body) {
    return HttpResponse{200, {}, std::move(body)};
  }
  // What STS says to `action`, until 01:00.
  static std::string StsAnswer(const std::string& action, const std::string& id) {
    return "<" + action + "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><" +
           action + "Result><Credentials><AccessKeyId>" + id + "</AccessKeyId><SecretAccessKey>" +
           id + "Secret</SecretAccessKey><SessionToken>" + id +
           "Token</SessionToken><Expiration>2026-11-30T01:00:00Z</Expiration></Credentials></" +
           action + "Result></" + action + "Response>";
  }
  static net::AwsCredentials Made(const std::string& id) {
    return {id, Secret(id + "Secret"), Secret(id + "Token")};
  }
  static std::string HeaderIn(const HttpRequest& request, const std::string& name) {
    for (const auto& [key, value] : request.headers) {
      if (key == name) return value;
    }
    return "none";
  }

  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> files_;
  S3CredentialOptions options_;
  CredentialsClock clock_;
  Answers http_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_CREDENTIALS_SCRIPTED_H_
