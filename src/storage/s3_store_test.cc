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
  S3Store store_{client_, "p/"};
  std::vector<std::string> listed_;
};

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
