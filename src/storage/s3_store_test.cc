// S3Store over a store that answers by script.
#include "storage/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "storage/faulty_store.h"
#include "storage/forwarding_store.h"
#include "storage/s3_scripted.h"
#include "storage/throttled_store.h"

namespace lithify::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Object(const std::string& key) {
  return "<Contents><Key>" + key +
         "</Key><Size>12</Size><LastModified>2026-11-29T16:20:00Z</LastModified></Contents>";
}

class S3StoreScript : public S3ClientTest {
 protected:
  static Script::Answer Page(const std::string& elements, const std::string& next = {}) {
    return Plain(200, "<ListBucketResult><IsTruncated>" +
                          std::string(next.empty() ? "false" : "true") +
                          "</IsTruncated><NextContinuationToken>" + next +
                          "</NextContinuationToken>" + elements + "</ListBucketResult>");
  }
  Status List(ListDepth depth) {
    listed_.clear();
    return store_.ListPages("d/", depth, [this](std::vector<ObjectInfo> page) -> Status {
      EXPECT_FALSE(page.empty());
      for (const auto& info : page) listed_.push_back(info.key + (info.regular ? "" : " odd"));
      return {};
    });
  }
  // Bytes from `offset` on of an object that has so many.
  static Script::Answer Part(const std::string& bytes, int64_t offset, int64_t size,
                             const std::string& etag) {
    return Plain(206, bytes,
                 {{"content-range", "bytes " + std::to_string(offset) + "-" +
                                        std::to_string(offset + std::ssize(bytes) - 1) + "/" +
                                        std::to_string(size)},
                  {"etag", etag}});
  }
  static Script::Answer Told(int64_t size, const std::string& etag, const std::string& modified) {
    return Plain(
        200, "",
        {{"content-length", std::to_string(size)}, {"etag", etag}, {"last-modified", modified}});
  }
  // Two bytes from offset 3, of 12.
  Result<std::string> Read(Reader& reader) {
    std::string got(2, ' ');
    LITHIFY_TRY_ASSIGN(const int64_t some,
                       reader.ReadAt(3, std::as_writable_bytes(std::span(got))));
    return got.substr(0, static_cast<size_t>(some));
  }
  Result<std::string> Read(const ObjectInfo& known) {
    const auto reader = store_.OpenKnown(known);
    EXPECT_TRUE(reader && http_.requests.empty());
    return Read(**reader);
  }
  static Code CodeOf(const Result<std::string>& result) {
    return result ? Code::kInternal : result.error().code;
  }
  S3Store store_{client_, "p/"};
  std::vector<std::string> listed_;
  // As the listing says.
  const ObjectInfo known_{.key = "d/a",
                          .size = 12,
                          .modified = *ParseTime("2026-11-29T16:20:00Z"),
                          .version = "\"one\""};
};
constexpr const char* kItsTime = "Sun, 29 Nov 2026 16:20:00 GMT";

TEST_F(S3StoreScript, ARequestPerThousandObjectsOfAllLevels) {
  Expect({Page(Object("p/d/a") + Object("p/d/b/c"), "one"), Page("", "two"),
          Page(Object("p/d/b/d/e") + Object("p/d/b/"))});
  ASSERT_TRUE(List(ListDepth::kAll));
  EXPECT_THAT(listed_, ElementsAre("d/a", "d/b/c", "d/b/d/e"));
  ASSERT_EQ(http_.requests.size(), 3u);
  EXPECT_THAT(http_.requests[0].url, HasSubstr("prefix=p%2Fd%2F"));
  EXPECT_THAT(http_.requests[0].url, Not(HasSubstr("delimiter")));
  EXPECT_THAT(http_.requests[2].url, HasSubstr("continuation-token=two"));
  Expect({Page(Object("p/d/a") + "<CommonPrefixes><Prefix>p/d/b/</Prefix></CommonPrefixes>")});
  ASSERT_TRUE(List(ListDepth::kChildren));
  EXPECT_THAT(listed_, ElementsAre("d/a", "d/b/"));
  EXPECT_THAT(http_.requests[0].url, HasSubstr("delimiter=%2F"));
}

// R183: no other object is meant by "a//b" than that one, and it is not for us.
TEST_F(S3StoreScript, R183_NamesThatAreNoKeysAreSeenAndNotTouched) {
  Expect({Page(Object("p/d/a//b") + Object("p/d/../x") + Object("p/d/y"))});
  ASSERT_TRUE(List(ListDepth::kAll));
  EXPECT_THAT(listed_, ElementsAre("d/a//b odd", "d/../x odd", "d/y"));
}

TEST_F(S3StoreScript, AListingThatIsNoneIsAnError) {
  Expect({Page(Object("q/d/a"))});
  EXPECT_EQ(List(ListDepth::kAll).error().code, Code::kCorrupt);
  Expect({Page("<CommonPrefixes><Prefix>d/b/</Prefix></CommonPrefixes>")});
  EXPECT_EQ(List(ListDepth::kChildren).error().code, Code::kCorrupt);
  // It would never end.
  Expect({Page(Object("p/d/a"), "one"), Page(Object("p/d/a"), "one")});
  EXPECT_EQ(List(ListDepth::kAll).error().code, Code::kCorrupt);
}

TEST_F(S3StoreScript, ListingsTellVersions) {
  const auto version = [&](const std::string& etag) {
    Expect({Page("<Contents><Key>p/d/a</Key><Size>12</Size>" + etag +
                 "<LastModified>2026-11-29T16:20:00Z</LastModified></Contents>")});
    return store_.List("d/").value().at(0).version;
  };
  EXPECT_EQ(version("<ETag>&quot;one&quot;</ETag>"), "\"one\"");
  EXPECT_EQ(version("<ETag>one</ETag>"), "\"one\"");
  EXPECT_EQ(version("<ETag>W/&quot;one&quot;</ETag>"), "");
  EXPECT_EQ(version("<ETag></ETag>"), "");
  EXPECT_EQ(version(""), "");
  Expect({Told(12, "\"one\"", kItsTime)});
  EXPECT_EQ(store_.Stat("d/a").value(), known_);
}

TEST_F(S3StoreScript, WhatIsKnownIsReadWithoutAHead) {
  Expect({Part("de", 3, 12, "\"one\""), Part("de", 3, 12, "\"one\"")});
  const auto reader = store_.OpenKnown(known_).value();
  EXPECT_EQ(Read(*reader).value(), "de");
  EXPECT_EQ(Read(*reader).value(), "de");
  ASSERT_EQ(http_.requests.size(), 2u);
  for (const HttpRequest& request : http_.requests) {
    EXPECT_EQ(request.method, HttpMethod::kGet);
    EXPECT_EQ(HeaderOf(request, "if-match"), "\"one\"");
  }
  // Where only the size is known, it is the version of the first answer.
  Expect({Part("de", 3, 12, "\"one\""), ErrorAnswer(412, "PreconditionFailed")});
  const auto sized = store_.OpenKnown({.key = "d/a", .size = 12}).value();
  EXPECT_EQ(Read(*sized).value(), "de");
  EXPECT_EQ(CodeOf(Read(*sized)), Code::kConflict);
  ASSERT_EQ(http_.requests.size(), 2u);
  EXPECT_FALSE(HeaderOf(http_.requests[0], "if-match"));
  EXPECT_EQ(HeaderOf(http_.requests[1], "if-match"), "\"one\"");
  // A store that does not heed the condition is not believed.
  Expect({Part("de", 3, 12, "\"one\""), Part("xy", 3, 12, "\"two\"")});
  const auto heedless = store_.OpenKnown({.key = "d/a", .size = 12}).value();
  EXPECT_EQ(Read(*heedless).value(), "de");
  EXPECT_EQ(CodeOf(Read(*heedless)), Code::kConflict);
}

TEST_F(S3StoreScript, WhatWasReplacedSinceItWasListedIsNotRead) {
  const auto gone = ErrorAnswer(412, "PreconditionFailed");
  for (const auto& now :
       {Told(13, "\"two\"", kItsTime), Told(12, "\"two\"", "Sun, 29 Nov 2026 16:20:01 GMT"),
        Told(12, "\"one\"", kItsTime)}) {
    for (const auto& answer : {gone, Part("xy", 3, 12, "\"two\"")}) {
      Expect({answer, now});
      const auto read = Read(known_);
      EXPECT_EQ(CodeOf(read), Code::kConflict);
      EXPECT_THAT(read.error().ToString(), HasSubstr("s3://lake/p/d/a"));
      EXPECT_EQ(http_.requests.size(), 2u);
    }
  }
  Expect({ErrorAnswer(404, "NoSuchKey")});
  EXPECT_EQ(CodeOf(Read(known_)), Code::kNotFound);
}

// Some stores list objects that were made of parts under another ETag than they answer with.
TEST_F(S3StoreScript, AnotherETagInListingsIsNoOtherObject) {
  for (const auto& first : {ErrorAnswer(412, "PreconditionFailed"), Part("de", 3, 12, "\"two\"")}) {
    Expect({first, Told(12, "\"two\"", kItsTime), Part("de", 3, 12, "\"two\""),
            Part("de", 3, 12, "\"two\""), ErrorAnswer(412, "PreconditionFailed")});
    const auto reader = store_.OpenKnown(known_).value();
    EXPECT_EQ(Read(*reader).value(), "de");
    EXPECT_EQ(Read(*reader).value(), "de");
    EXPECT_EQ(CodeOf(Read(*reader)), Code::kConflict);
    ASSERT_EQ(http_.requests.size(), 5u);
    EXPECT_EQ(http_.requests[1].method, HttpMethod::kHead);
    for (const size_t i : {2u, 3u, 4u}) {
      EXPECT_EQ(HeaderOf(http_.requests[i], "if-match"), "\"two\"");
    }
  }
}

// A size that is wrong, as in a table's metadata, is never the end of the file.
TEST_F(S3StoreScript, AnotherSizeThanIsKnownIsAnError) {
  const ObjectInfo sized{.key = "d/a", .size = 12};
  for (const auto& answer :
       {Part("de", 3, 13, "\"one\""), Part("de", 3, 11, "\"one\""), Part("d", 3, 4, "\"one\""),
        Plain(416, "", {{"content-range", "bytes */2"}}), Plain(200, "0123456789", {})}) {
    Expect({answer});
    const auto read = Read(sized);
    EXPECT_EQ(CodeOf(read), Code::kCorrupt);
    EXPECT_THAT(read.error().ToString(), HasSubstr("and not the 12"));
  }
  Expect({Plain(416), Plain(416)});
  EXPECT_EQ(CodeOf(Read(sized)), Code::kCorrupt);
}

TEST_F(S3StoreScript, TellsWhatItsWritersHold) {
  EXPECT_EQ(store_.writer_buffer_bytes(), 48 * kMiB);
  ThrottledStore throttled(store_, clock_, kMiB);
  EXPECT_EQ(throttled.writer_buffer_bytes(), 48 * kMiB);
  const ForwardingStore forwarding(store_);
  EXPECT_EQ(forwarding.writer_buffer_bytes(), 48 * kMiB);
  FaultyStore faulty(store_, [](std::string_view, const std::string&, bool) { return Status(); });
  EXPECT_EQ(faulty.writer_buffer_bytes(), 48 * kMiB);
}

}  // namespace
}  // namespace lithify::storage
