// I21: many deletes in one request, whose answer tells of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/sigv4.h"
#include "storage/s3_scripted.h"
#include "storage/s3_store.h"

namespace lithify::storage {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string Gone(const std::string& key) { return "<Deleted><Key>" + key + "</Key></Deleted>"; }
std::string Kept(const std::string& key, const std::string& code) {
  return "<Error><Key>" + key + "</Key><Code>" + code + "</Code><Message>no</Message></Error>";
}

class S3DeleteTest : public S3ClientTest {
 protected:
  static Script::Answer Says(const std::string& elements) {
    return Plain(200,
                 "<?xml version=\"1.0\"?><DeleteResult "
                 "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
                     elements + "</DeleteResult>");
  }
  std::vector<std::string> Delete(const std::vector<std::string>& keys) {
    std::vector<std::string> out;
    for (const Status& status : client_.DeleteMany(keys)) {
      out.emplace_back(status ? "gone" : CodeName(status.error().code));
    }
    return out;
  }
};

TEST_F(S3DeleteTest, I21_OneRequestWithItsChecksum) {
  Expect({Says(Gone("a&amp;b") + Gone("c"))});
  EXPECT_THAT(Delete({"c", "a&b", "c"}), ElementsAre("gone", "gone", "gone"));
  ASSERT_EQ(http_.requests.size(), 1u);
  EXPECT_EQ(http_.requests[0].method, HttpMethod::kPost);
  EXPECT_EQ(http_.requests[0].url, "http://127.0.0.1:9000/lake/?delete=");
  EXPECT_EQ(Sent(0),
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Object><Key>a&amp;b</Key></Object><Object><Key>c</Key></Object></Delete>");
  EXPECT_EQ(HeaderOf(http_.requests[0], "content-md5"), net::ContentMd5(Sent(0)));
  EXPECT_EQ(net::ContentMd5("abc"), "kAFQmDzST7DWlj99KOF/cg==");
  EXPECT_TRUE(Delete({}).empty());
}

TEST_F(S3DeleteTest, I21_EachKeyHasAnErrorOfItsOwn) {
  Expect({Says(Gone("a") + Kept("b", "AccessDenied") + Kept("c", "NoSuchKey") +
               Kept("d", "MethodNotAllowed"))});
  EXPECT_THAT(Delete({"d", "c", "b", "a"}), ElementsAre("invalid", "gone", "denied", "gone"));
  Expect({Says(Kept("b", "AccessDenied"))});
  const std::string keys[] = {"b"};
  EXPECT_THAT(client_.DeleteMany(keys)[0].error().ToString(),
              HasSubstr("s3://lake/b: the store answers AccessDenied"));
}

TEST_F(S3DeleteTest, I21_WhatFailedForNowIsTriedAgainAlone) {
  Expect({Says(Kept("a", "InternalError") + Gone("b") + Kept("c", "SlowDown")),
          Says(Gone("a") + Kept("c", "SlowDown")), Says(Gone("c"))});
  EXPECT_THAT(Delete({"a", "b", "c"}), ElementsAre("gone", "gone", "gone"));
  EXPECT_THAT(Sent(1), Not(HasSubstr("<Key>b</Key>")));
  EXPECT_THAT(Sent(2), Not(HasSubstr("<Key>a</Key>")));
  EXPECT_EQ(waits_.size(), 2u);
  Expect({Says(Kept("a", "SlowDown")), Says(Kept("a", "SlowDown")), Says(Kept("a", "SlowDown")),
          Says(Kept("a", "SlowDown"))});
  EXPECT_THAT(Delete({"a"}), ElementsAre("transient"));
  EXPECT_EQ(http_.requests.size(), 4u);
}

// What the store is silent about may be there still: asked for again, by a request of its own.
TEST_F(S3DeleteTest, I21_AKeyWithoutAnAnswerIsNotCountedAsDeleted) {
  Expect({Says(Gone("a") + Gone("another")), Plain(204)});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("gone", "gone"));
  EXPECT_EQ(http_.requests[1].method, HttpMethod::kDelete);
  EXPECT_EQ(http_.requests[1].url, "http://127.0.0.1:9000/lake/b");
  Expect({Says(Gone("a")), Plain(403)});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("gone", "denied"));
}

TEST_F(S3DeleteTest, KeysThatNoXmlCanHoldGoAlone) {
  Expect({Says(Gone("a")), Plain(204)});
  EXPECT_THAT(Delete({"b\x01", "a"}), ElementsAre("gone", "gone"));
  EXPECT_THAT(Sent(0), EndsWith("<Object><Key>a</Key></Object></Delete>"));
  EXPECT_THAT(Sent(0), Not(HasSubstr("<Key>b")));
  EXPECT_EQ(http_.requests[1].url, "http://127.0.0.1:9000/lake/b%01");
}

TEST_F(S3DeleteTest, AStoreThatKnowsNoSuchRequestIsAskedOnceOnly) {
  Expect({ErrorAnswer(501, "NotImplemented"), Plain(204), Plain(204), Plain(204)});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("gone", "gone"));
  EXPECT_THAT(Delete({"c"}), ElementsAre("gone"));
  EXPECT_EQ(http_.requests.size(), 4u);
  EXPECT_EQ(http_.requests[3].method, HttpMethod::kDelete);
}

TEST_F(S3DeleteTest, AListThatIsRefusedGoesOneByOne) {
  Expect({ErrorAnswer(400, "MalformedXML"), Plain(204), Plain(400), Says(Gone("c"))});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("gone", "invalid"));
  EXPECT_THAT(Delete({"c"}), ElementsAre("gone"));
}

TEST_F(S3DeleteTest, WhatFailsAsAWholeFailsForEach) {
  Expect({ErrorAnswer(403, "AccessDenied")});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("denied", "denied"));
  Expect({Lost(), Lost(), Lost(), Lost()});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("transient", "transient"));
  for (const char* bad : {"", "<html>", "<html/>"}) {
    Expect({Plain(200, bad)});
    EXPECT_THAT(Delete({"a", "b"}), ElementsAre("corrupt", "corrupt")) << bad;
  }
  // An error after the status was sent.
  Expect({ErrorAnswer(200, "InternalError"), Says(Gone("a") + Gone("b"))});
  EXPECT_THAT(Delete({"a", "b"}), ElementsAre("gone", "gone"));
}

TEST_F(S3DeleteTest, AThousandPerRequest) {
  std::vector<std::string> keys;
  std::string first;
  for (int i = 0; i < 1001; ++i) {
    keys.push_back("k" + std::to_string(10'000 + i));
    if (i < 1000) first += Gone(keys.back());
  }
  Expect({Says(first), Says(Gone(keys.back()))});
  const auto deleted = Delete(keys);
  EXPECT_EQ(deleted.size(), 1001u);
  EXPECT_EQ(std::ranges::count(deleted, "gone"), 1001);
  EXPECT_EQ(http_.requests.size(), 2u);
}

TEST_F(S3DeleteTest, TheStoreAnswersInTheOrderOfTheKeysAndOnlyForGoodOnes) {
  S3Store store(client_, "p/");
  Expect({Says(Gone("p/a") + Kept("p/b", "AccessDenied"))});
  const std::vector<std::string> keys = {"b", "../x", "a", ""};
  const auto removed = store.RemoveMany(keys);
  ASSERT_EQ(removed.size(), 4u);
  EXPECT_EQ(removed[0].error().code, Code::kDenied);
  EXPECT_EQ(removed[1].error().code, Code::kInvalid);
  EXPECT_TRUE(removed[2]);
  EXPECT_EQ(removed[3].error().code, Code::kInvalid);
}

}  // namespace
}  // namespace lithify::storage
