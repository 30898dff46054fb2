// Writers whose parts go up by several threads.
#include "storage/s3_writer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/text.h"
#include "storage/s3_scripted.h"

namespace lithify::storage {
namespace {

// A store that takes uploads, as several threads send them.
class Uploads final : public net::HttpClient {
 public:
  Result<HttpResponse> Send(const HttpRequest& request, const net::HttpLimits&) override {
    std::unique_lock lock(mutex_);
    const std::string query =
        request.url.substr(std::min(request.url.find('?'), request.url.size()));
    if (query == "?uploads=") {
      return HttpResponse{200, {}, "<R><UploadId>u</UploadId></R>"};
    }
    if (request.method == HttpMethod::kDelete) {
      log.push_back("abort");
      return HttpResponse{204, {}, ""};
    }
    if (request.method == HttpMethod::kPost) {
      completed = request.body;
      log.push_back("complete");
      return HttpResponse{200, {}, "<CompleteMultipartUploadResult/>"};
    }
    if (query.empty()) {
      parts[0] = request.body;
      return HttpResponse{200, {{"etag", "\"whole\""}}, ""};
    }
    const int number = std::stoi(query.substr(query.find("partNumber=") + 11));
    most = std::max(most, ++now);
    changed_.notify_all();
    // Until another one comes, where there shall be more than one at once.
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return most >= together; });
    --now;
    ++tries;
    changed_.notify_all();
    log.push_back("part");
    if (refused.contains(number)) return HttpResponse{refused.at(number), {}, ""};
    parts[number] = request.body;
    return HttpResponse{200, {{"etag", "\"e" + std::to_string(number) + "\""}}, ""};
  }
  void AwaitTries(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return tries >= count; });
  }

  std::map<int, std::string> parts;
  std::map<int, int> refused;  // By a status.
  std::string completed;
  std::vector<std::string> log;
  int together = 1;
  int now = 0;
  int most = 0;
  int tries = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class S3WriterTest : public testing::Test {
 protected:
  static S3Options Options() {
    S3Options options;
    options.bucket = "lake";
    options.endpoint = "http://127.0.0.1:9000";
    options.path_style = true;
    options.attempts = 1'000'000;
    return options;
  }
  static std::span<const std::byte> Bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  // `count` parts and a half, each of its own letter.
  static std::string Content(int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += std::string(kS3PartBytes, static_cast<char>('a' + i));
    return out + std::string(kS3PartBytes / 2, 'z');
  }

  TestClock clock_;
  SystemRandom random_;
  Uploads http_;
  Credentials credentials_;
  S3Client client_{Options(),
                   http_,
                   credentials_,
                   clock_,
                   [](Duration) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); },
                   random_};
};

TEST(S3PartBytes, TenThousandPartsAreAllThatAnObjectMayHave) {
  int64_t all = 0;
  for (int number = 1; number <= kS3PartsMax; ++number) all += S3PartBytes(number);
  EXPECT_GE(all, 5 * 1024 * kGiB);
  EXPECT_EQ(S3PartBytes(1), 16 * kMiB);
  EXPECT_EQ(S3PartBytes(900), 16 * kMiB);
  EXPECT_EQ(S3PartBytes(901), 32 * kMiB);
  EXPECT_EQ(S3PartBytes(kS3PartsMax), kGiB);
}

TEST_F(S3WriterTest, PartsGoUpTwoAtOnceAndEndUpInOrder) {
  const std::string content = Content(4);
  http_.together = 2;
  S3Writer writer(client_, "x");
  // Pieces that fit no part.
  for (size_t at = 0; at < content.size(); at += 5'000'000) {
    ASSERT_TRUE(writer.Append(Bytes(std::string_view(content).substr(at, 5'000'000))));
  }
  EXPECT_EQ(writer.size(), std::ssize(content));
  ASSERT_TRUE(writer.Publish());
  EXPECT_EQ(http_.most, 2);
  std::string got;
  for (const auto& [number, bytes] : http_.parts) got += bytes;
  EXPECT_TRUE(got == content);
  std::string list = "<CompleteMultipartUpload>";
  for (const auto& [number, bytes] : http_.parts) {
    const std::string name = std::to_string(number);
    list += "<Part><PartNumber>" + name + "</PartNumber><ETag>&quot;e" + name +
            "&quot;</ETag><ChecksumSHA256>" + net::EncodeBase64(net::Sha256(bytes)) +
            "</ChecksumSHA256></Part>";
  }
  EXPECT_EQ(http_.completed, list + "</CompleteMultipartUpload>");
  EXPECT_EQ(http_.parts.size(), 5u);
  EXPECT_EQ(http_.log.back(), "complete");
}

TEST_F(S3WriterTest, WhatFitsOnePartIsOneRequest) {
  S3Writer writer(client_, "x");
  ASSERT_TRUE(writer.Append(Bytes(std::string(kS3PartBytes - 1, 'a'))));
  ASSERT_TRUE(writer.Publish());
  ASSERT_EQ(http_.parts.size(), 1u);
  EXPECT_EQ(std::ssize(http_.parts[0]), kS3PartBytes - 1);
  EXPECT_EQ(writer.Append(Bytes("x")).error().code, Code::kInternal);
}

TEST_F(S3WriterTest, APartThatFailsIsToldAndNothingIsPublished) {
  for (int bad = 1; bad <= 5; ++bad) {
    http_.refused = {{bad, 403}};
    http_.log.clear();
    http_.completed.clear();
    {
      S3Writer writer(client_, "x");
      Status appended = writer.Append(Bytes(Content(4)));
      Status published = writer.Publish();
      ASSERT_FALSE(published);
      EXPECT_EQ(published.error().code, appended ? Code::kDenied : appended.error().code);
      EXPECT_FALSE(writer.Append(Bytes("x")));
      EXPECT_FALSE(writer.Publish());
    }
    EXPECT_EQ(http_.completed, "");
    // The last that happens, and once: after it no part comes in.
    EXPECT_EQ(http_.log.back(), "abort");
    EXPECT_EQ(std::ranges::count(http_.log, "abort"), 1);
  }
}

TEST_F(S3WriterTest, FlushLeavesNothingToSend) {
  for (const std::string& content : {Content(1), std::string("few")}) {
    http_.parts.clear();
    http_.completed.clear();
    S3Writer writer(client_, "x");
    ASSERT_TRUE(writer.Append(Bytes(content)));
    ASSERT_TRUE(writer.Flush());
    std::string got;
    for (const auto& [number, bytes] : http_.parts) got += bytes;
    EXPECT_TRUE(got == content);
    EXPECT_EQ(http_.completed, "");
    EXPECT_EQ(writer.Append(Bytes("x")).error().code, Code::kInternal);
    const size_t parts = http_.log.size();
    ASSERT_TRUE(writer.Publish());
    EXPECT_EQ(http_.log.size(), parts + 1);
    EXPECT_EQ(http_.log.back(), "complete");
  }
  http_.refused = {{2, 403}};
  {
    S3Writer writer(client_, "x");
    ASSERT_TRUE(writer.Append(Bytes(Content(1))));
    EXPECT_EQ(writer.Flush().error().code, Code::kDenied);
    EXPECT_EQ(writer.Publish().error().code, Code::kDenied);
  }
  EXPECT_EQ(http_.log.back(), "abort");
}

// T28: as soon as the request that is under way has ended, not after all its repetitions.
TEST_F(S3WriterTest, T28_DiscardEndsTheRepetitionsAndAbortsLast) {
  http_.refused = {{1, 503}, {2, 503}};
  S3Writer writer(client_, "x");
  ASSERT_TRUE(writer.Append(Bytes(Content(2))));
  http_.AwaitTries(3);
  writer.Discard();
  EXPECT_EQ(http_.log.back(), "abort");
  EXPECT_EQ(std::ranges::count(http_.log, "abort"), 1);
  EXPECT_LT(http_.tries, 1'000'000);
  EXPECT_EQ(writer.Publish().error().code, Code::kInternal);
}

}  // namespace
}  // namespace lithify::storage
