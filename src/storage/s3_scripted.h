// An S3Client whose store answers by script; for tests.
#ifndef LITHIFY_STORAGE_S3_SCRIPTED_H_
#define LITHIFY_STORAGE_S3_SCRIPTED_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "net/http.h"
#include "storage/s3_client.h"

namespace lithify::storage {

using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;

class TestClock final : public Clock {
 public:
  Time Now() const override { return Time(Duration(1'795'969'200'000'000)); }
  Duration Monotonic() const override { return Duration(monotonic.load()); }
  void Sleep(Duration) override {}
  std::atomic<int64_t> monotonic{0};
};

// Answers one after the other.
class Script final : public net::HttpClient {
 public:
  using Answer = std::function<Result<HttpResponse>(const HttpRequest&)>;
  Result<HttpResponse> Send(const HttpRequest& request, const net::HttpLimits&) override {
    requests.push_back(request);
    if (answers.empty()) return Fail(Code::kInternal, "the script is over");
    const Answer answer = std::move(answers.front());
    answers.pop_front();
    auto response = answer(request);
    if (response && response->status == 206 && !request.into.empty()) {
      if (response->body.size() > request.into.size()) return Fail(Code::kLimit, "too large");
      std::ranges::copy(std::as_bytes(std::span(response->body)), request.into.begin());
      response->placed = std::ssize(std::exchange(response->body, {}));
    }
    return response;
  }
  std::vector<HttpRequest> requests;
  std::deque<Answer> answers;
};

class Credentials final : public S3Credentials {
 public:
  Result<net::AwsCredentials> Get() override {
    if (error) return Fail(*error);
    return net::AwsCredentials{"key" + std::to_string(renewed), Secret("the-secret-itself"),
                               Secret()};
  }
  Status Invalidate(const net::AwsCredentials&) override {
    ++renewed;
    return {};
  }
  int renewed = 0;
  std::optional<Error> error;
};

inline std::optional<std::string> HeaderOf(const HttpRequest& request, std::string_view name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

class S3ClientTest : public testing::Test {
 protected:
  static Script::Answer Plain(int status, std::string body = {},
                              std::vector<std::pair<std::string, std::string>> headers = {}) {
    return [=](const HttpRequest&) -> Result<HttpResponse> {
      return HttpResponse{status, headers, body};
    };
  }
  static Script::Answer ErrorAnswer(int status, const std::string& code) {
    return Plain(status, "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code></Error>");
  }
  // Sent, and no answer came.
  static Script::Answer Lost() {
    return [](const HttpRequest&) -> Result<HttpResponse> {
      return Fail(Code::kUnknownOutcome, "sent, but no whole answer came");
    };
  }
  // A HEAD of an object that was made by the first of the requests.
  Script::Answer MadeByTheFirst() {
    return [this](const HttpRequest&) -> Result<HttpResponse> {
      const auto id = HeaderOf(http_.requests.front(), "x-amz-meta-lithify-write");
      return HttpResponse{200,
                          {{"content-length", "5"},
                           {"etag", "\"mine\""},
                           {"x-amz-meta-lithify-write", id.value_or("none")}},
                          ""};
    };
  }
  void Expect(std::vector<Script::Answer> answers) {
    http_.answers.assign(answers.begin(), answers.end());
    http_.requests.clear();
  }
  static S3Options Options() {
    S3Options options;
    options.bucket = "lake";
    options.endpoint = "http://127.0.0.1:9000";
    options.path_style = true;
    options.attempts = 4;
    return options;
  }
  std::string Sent(size_t request) const { return http_.requests[request].body; }
  Result<std::string> PutNew() { return client_.Put("d/m", "bytes", {.absent = true, .etag = {}}); }

  TestClock clock_;
  SeededRandom random_{7};
  Script http_;
  Credentials credentials_;
  std::vector<Duration> waits_;
  S3Client client_{
      Options(), http_, credentials_, clock_, [this](Duration d) { waits_.push_back(d); }, random_};
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_SCRIPTED_H_
