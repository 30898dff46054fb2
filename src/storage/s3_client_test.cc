// What a real server does not do on demand: lost answers, throttling, credentials that run out.
#include "storage/s3_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "net/sigv4.h"
#include "storage/s3_scripted.h"
#include "storage/s3_store.h"

namespace lithify::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(S3ClientTest, RequestsGoToTheBucketByPathOrByHost) {
  Expect({Plain(200, "", {{"content-length", "5"}})});
  ASSERT_TRUE(client_.Head("a b/ü=%2F+x"));
  EXPECT_EQ(http_.requests[0].url, "http://127.0.0.1:9000/lake/a%20b/%C3%BC%3D%252F%2Bx");
  S3Options options;
  options.bucket = "lake";
  options.region = "eu-west-1";
  S3Client amazon(options, http_, credentials_, clock_, [](Duration) {}, random_);
  Expect({Plain(200, "", {{"content-length", "5"}})});
  ASSERT_TRUE(amazon.Head("x"));
  EXPECT_EQ(http_.requests[0].url, "https://lake.s3.eu-west-1.amazonaws.com/x");
  EXPECT_THAT(http_.requests[0].authorization.Reveal(), HasSubstr("/eu-west-1/s3/aws4_request"));
}

// H5: the first try was carried out, its answer was lost.
TEST_F(S3ClientTest, H5_ARepeatedWriteThatMeetsItselfHasSucceeded) {
  for (const auto& first : {Lost(), Plain(500), Plain(503)}) {
    Expect({first, Plain(412), MadeByTheFirst()});
    const auto put = PutNew();
    ASSERT_TRUE(put) << put.error().ToString();
    EXPECT_EQ(*put, "\"mine\"");
    EXPECT_EQ(http_.requests[2].method, HttpMethod::kHead);
    // The same write both times.
    EXPECT_EQ(HeaderOf(http_.requests[0], "x-amz-meta-lithify-write"),
              HeaderOf(http_.requests[1], "x-amz-meta-lithify-write"));
  }
}

// H5: likewise where the connection, not the client, was the one to try again.
TEST_F(S3ClientTest, H5_AWriteThatWentOutTwiceIsAskedWhoseItIs) {
  const auto twice = [](const HttpRequest& request) -> Result<HttpResponse> {
    EXPECT_TRUE(request.may_repeat);
    HttpResponse response{412, {}, ""};
    response.repeated = true;
    return response;
  };
  Expect({twice, MadeByTheFirst()});
  EXPECT_EQ(PutNew().value(), "\"mine\"");
  EXPECT_EQ(http_.requests.size(), 2u);
  Expect(
      {twice, Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "another"}})});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
}

// Somebody else's write may have come after ours, on top of it: nobody knows.
TEST_F(S3ClientTest, H5_ARepeatedWriteThatMeetsAnotherIsInDoubt) {
  Expect({Lost(), Plain(412),
          Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "another"}})});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
  // Nor is it known where it cannot be looked up.
  Expect({Lost(), Plain(412), Plain(403)});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
}

TEST_F(S3ClientTest, AWriteThatNeverGotAnAnswerIsInDoubt) {
  Expect({Lost(), Lost(), Lost(), Lost()});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
  EXPECT_EQ(http_.requests.size(), 4u);
  Expect({Plain(503), Plain(503), Plain(503), Plain(503)});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
}

// Nor does an error of a later try say that the first one was not carried out.
TEST_F(S3ClientTest, AWriteThatIsRefusedWhenRepeatedIsInDoubt) {
  const auto no_trust = [](const HttpRequest&) -> Result<HttpResponse> {
    return Fail(Code::kDenied, "the server's certificate is not trusted");
  };
  for (const auto& second :
       std::vector<Script::Answer>{ErrorAnswer(403, "AccessDenied"), Plain(400), no_trust}) {
    Expect({Lost(), second});
    EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
    Expect({Lost(), second});
    EXPECT_EQ(client_.CompleteUpload("x", "u", {}, "id", {.absent = true, .etag = {}}).error().code,
              Code::kUnknownOutcome);
    Expect({second});
    EXPECT_NE(PutNew().error().code, Code::kUnknownOutcome);
  }
  // Of a read it is no matter.
  Expect({Lost(), ErrorAnswer(403, "AccessDenied")});
  EXPECT_EQ(client_.Get("x", 0, 1, "").error().code, Code::kDenied);
}

TEST_F(S3ClientTest, AWriteThatWasNeverTakenIsNot) {
  const auto not_sent = [](const HttpRequest&) -> Result<HttpResponse> {
    return Fail(Code::kTransient, "connection refused");
  };
  Expect({not_sent, not_sent, Plain(429), not_sent});
  EXPECT_EQ(PutNew().error().code, Code::kTransient);
  const auto anothers =
      Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "another"}});
  Expect({not_sent, Plain(412), anothers});
  EXPECT_EQ(PutNew().error().code, Code::kConflict);
  EXPECT_EQ(http_.requests.size(), 3u);
  // A HEAD that is refused is followed by a read, whose answer says why.
  Expect({Plain(412), Plain(403), Plain(403)});
  EXPECT_EQ(PutNew().error().code, Code::kConflict);
  EXPECT_EQ(http_.requests.size(), 3u);
}

// Something on the way repeated it, and passed on the second answer.
TEST_F(S3ClientTest, H5_AWriteThatWasRepeatedOnTheWayHasSucceeded) {
  for (const int status : {409, 412}) {
    Expect({Plain(status), MadeByTheFirst()});
    const auto put = PutNew();
    ASSERT_TRUE(put) << put.error().ToString();
    EXPECT_EQ(*put, "\"mine\"");
    EXPECT_EQ(http_.requests.size(), 2u);
  }
}

// H5: a 409 says that others write at this moment, and nothing of how that ends.
TEST_F(S3ClientTest, H5_TheLoserOfARaceTriesAgain) {
  const auto raced = ErrorAnswer(409, "ConditionalRequestConflict");
  Expect({raced, raced, Plain(200, "", {{"etag", "\"mine\""}})});
  EXPECT_EQ(PutNew().value(), "\"mine\"");
  // It was not carried out: what comes then is a conflict, and not in doubt.
  const auto anothers =
      Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "another"}});
  Expect({raced, Plain(412), anothers});
  EXPECT_EQ(PutNew().error().code, Code::kConflict);
  Expect({raced, raced, raced, raced, Plain(404)});
  EXPECT_EQ(PutNew().error().code, Code::kConflict);
  EXPECT_EQ(http_.requests.size(), 5u);
  const auto complete = [this] {
    return client_.CompleteUpload("x", "u", {}, "id", {.absent = true, .etag = {}});
  };
  Expect({raced, Plain(200, "<R/>")});
  EXPECT_TRUE(complete());
  // It may have ended the upload.
  Expect({raced, ErrorAnswer(404, "NoSuchUpload"), Plain(404)});
  EXPECT_EQ(complete().error().code, Code::kNotFound);
}

// Nor is it known where nobody answers the question whose the object is.
TEST_F(S3ClientTest, H5_AWriteThatCannotBeLookedUpIsInDoubt) {
  const auto fails = [](Code code) {
    return [code](const HttpRequest&) -> Result<HttpResponse> { return Fail(code, "no"); };
  };
  Expect({Plain(412), fails(Code::kCancelled)});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
  Expect({Plain(412), Plain(503), Plain(503), Plain(503), Plain(503)});
  EXPECT_EQ(PutNew().error().code, Code::kUnknownOutcome);
  Expect({Plain(412), Plain(404)});
  EXPECT_EQ(PutNew().error().code, Code::kConflict);
}

// R115: what was given up on may have been done, unless it was never sent.
TEST_F(S3ClientTest, AStopLeavesAWriteInDoubtOnceItWasSent) {
  const auto stopped = [](const HttpRequest&) -> Result<HttpResponse> {
    return Fail(Code::kCancelled, "not sent: stopped on request");
  };
  Expect({stopped});
  EXPECT_EQ(PutNew().error().code, Code::kCancelled);
  EXPECT_TRUE(http_.requests[0].publishes);
  for (const auto& first : {Lost(), Plain(500), Plain(503)}) {
    Expect({first, stopped});
    const auto put = PutNew();
    EXPECT_EQ(put.error().code, Code::kUnknownOutcome);
    EXPECT_THAT(put.error().message, HasSubstr("may have been done"));
    EXPECT_EQ(http_.requests.size(), 2u);
  }
  const auto complete = [this] {
    return client_.CompleteUpload("k", "u", {{"e", "s"}}, "w", {.absent = true, .etag = {}});
  };
  Expect({stopped});
  EXPECT_EQ(complete().error().code, Code::kCancelled);
  EXPECT_TRUE(http_.requests[0].publishes);
  Expect({Lost(), stopped});
  EXPECT_EQ(complete().error().code, Code::kUnknownOutcome);
  // All else may be repeated, and is simply not done.
  Expect({Lost(), stopped});
  EXPECT_EQ(client_.Delete("k").error().code, Code::kCancelled);
  EXPECT_FALSE(http_.requests[0].publishes);
  Expect({Lost(), stopped});
  EXPECT_EQ(client_.UploadPart("k", "u", 1, "x").error().code, Code::kCancelled);
  EXPECT_FALSE(http_.requests[0].publishes);
  Expect({stopped});
  EXPECT_EQ(client_.Get("k", 0, 9, {}).error().code, Code::kCancelled);
  EXPECT_FALSE(http_.requests[0].publishes);
  Expect({stopped});
  EXPECT_EQ(client_.List("", "", "").error().code, Code::kCancelled);
}

TEST_F(S3ClientTest, ReadsAreTriedAgainAndNeverInDoubt) {
  Expect({Lost(), Plain(500), Plain(206, "abc", {{"content-range", "bytes 4-6/100"}})});
  const auto body = client_.Get("x", 4, 3, "\"e\"");
  ASSERT_TRUE(body) << body.error().ToString();
  EXPECT_EQ(body->bytes, "abc");
  EXPECT_EQ(body->head.size, 100);
  EXPECT_EQ(HeaderOf(http_.requests[2], "range"), "bytes=4-6");
  EXPECT_EQ(HeaderOf(http_.requests[2], "if-match"), "\"e\"");
  EXPECT_TRUE(http_.requests[2].stored_form);
  Expect({Lost(), Lost(), Lost(), Lost()});
  EXPECT_EQ(client_.Get("x", 0, 3, "").error().code, Code::kTransient);
}

TEST_F(S3ClientTest, AnotherPartThanAskedForIsAnError) {
  for (const char* range : {"bytes 5-7/100", "bytes 4-6/x", "", "bytes 4-7/100"}) {
    const std::string body = range == std::string("bytes 4-7/100") ? "abcd" : "abc";
    const auto wrong = Plain(206, body, {{"content-range", range}});
    Expect({wrong, wrong, wrong, wrong});
    EXPECT_EQ(client_.Get("x", 4, 3, "").error().code, Code::kCorrupt) << range;
    EXPECT_EQ(http_.requests.size(), 4u);
  }
  // Damage on the way passes.
  Expect({Plain(206, "ab", {{"content-range", "bytes 4-6/100"}}),
          Plain(206, "abc", {{"content-range", "bytes 4-6/100"}})});
  EXPECT_EQ(client_.Get("x", 4, 3, "").value().bytes, "abc");
  // The end of the object.
  Expect({Plain(206, "ab", {{"content-range", "bytes 4-5/6"}})});
  EXPECT_EQ(client_.Get("x", 4, 3, "").value().bytes, "ab");
  Expect({Plain(416)});
  EXPECT_EQ(client_.Get("x", 9, 3, "").value().bytes, "");
}

TEST_F(S3ClientTest, WhatIsReadGoesWhereItIsWanted) {
  std::string place(3, '.');
  const auto out = std::as_writable_bytes(std::span(place));
  Expect({Lost(), Plain(206, "abc", {{"content-range", "bytes 4-6/100"}})});
  const auto head = client_.Read("x", 4, out, "\"e\"");
  ASSERT_TRUE(head) << head.error().ToString();
  EXPECT_EQ(head->size, 100);
  EXPECT_EQ(place, "abc");
  // Of a store that knows no ranges.
  Expect({Plain(200, "0123456789")});
  EXPECT_EQ(client_.Read("x", 4, out, "").value().size, 10);
  EXPECT_EQ(place, "456");
  for (const auto& answer :
       {Plain(206, "abc", {{"content-range", "bytes 5-7/100"}}), Plain(416),
        Plain(206, "ab", {{"content-range", "bytes 4-6/100"}}), Plain(206, "abc")}) {
    Expect({answer, answer, answer, answer});
    EXPECT_EQ(client_.Read("x", 4, out, "").error().code, Code::kCorrupt);
  }
}

TEST_F(S3ClientTest, WhatIsWrittenCarriesItsChecksum) {
  const std::string sum = "J3CJ2RwL308uaGK6fkoHYFEZQx9dE/cm3TUrBvGyBqk=";  // Of "bytes".
  ASSERT_EQ(net::EncodeBase64(net::Sha256("bytes")), sum);
  Expect({Plain(200, "", {{"etag", "\"e\""}})});
  ASSERT_TRUE(PutNew());
  EXPECT_EQ(HeaderOf(http_.requests[0], "x-amz-checksum-sha256"), sum);
  Expect({Plain(200, "<R><UploadId>u</UploadId></R>"), Plain(200, "", {{"etag", "\"p\""}})});
  ASSERT_TRUE(client_.CreateUpload("x", "id"));
  const auto part = client_.UploadPart("x", "u", 1, "bytes");
  ASSERT_TRUE(part);
  EXPECT_EQ(HeaderOf(http_.requests[0], "x-amz-checksum-algorithm"), "SHA256");
  EXPECT_EQ(HeaderOf(http_.requests[1], "x-amz-checksum-sha256"), sum);
  EXPECT_EQ(part->sha256, sum);
  EXPECT_EQ(part->etag, "\"p\"");
}

TEST_F(S3ClientTest, WhatCameDamagedIsSentAgain) {
  for (const char* code : {"BadDigest", "XAmzContentSHA256Mismatch"}) {
    // Refused: nothing is in doubt.
    Expect({ErrorAnswer(400, code), Plain(412)});
    EXPECT_EQ(PutNew().error().code, Code::kConflict);
    Expect({ErrorAnswer(400, code), ErrorAnswer(400, code), ErrorAnswer(400, code),
            ErrorAnswer(400, code)});
    EXPECT_FALSE(PutNew());
    EXPECT_EQ(http_.requests.size(), 4u);
  }
}

TEST_F(S3ClientTest, WaitsGrowAreSpreadAndHeedTheStore) {
  Expect({Plain(503), Plain(503, "", {{"retry-after", "7"}}), Plain(503), Plain(503)});
  EXPECT_FALSE(client_.Head("x"));
  ASSERT_EQ(waits_.size(), 3u);
  EXPECT_GE(waits_[0], std::chrono::milliseconds(50));
  EXPECT_LE(waits_[0], std::chrono::milliseconds(100));
  EXPECT_EQ(waits_[1], std::chrono::seconds(7));
  EXPECT_GE(waits_[2], std::chrono::milliseconds(200));
  EXPECT_LE(waits_[2], std::chrono::milliseconds(400));
}

TEST_F(S3ClientTest, I34_CredentialsThatRanOutAreRenewedOnce) {
  Expect({ErrorAnswer(400, "ExpiredToken"), Plain(200, "", {{"content-length", "5"}})});
  ASSERT_TRUE(client_.Head("x"));
  EXPECT_THAT(http_.requests[0].authorization.Reveal(), HasSubstr("key0/"));
  EXPECT_THAT(http_.requests[1].authorization.Reveal(), HasSubstr("key1/"));
  Expect({ErrorAnswer(403, "ExpiredToken"), ErrorAnswer(403, "ExpiredToken")});
  EXPECT_EQ(client_.Head("x").error().code, Code::kDenied);
  EXPECT_EQ(http_.requests.size(), 2u);
}

// The answer to a HEAD does not say why.
// A token's file that is not there must not pass for an object that is not there.
TEST_F(S3ClientTest, WhyThereAreNoCredentialsSaysNothingOfTheObject) {
  const std::vector<std::pair<Code, Code>> kCodes = {
      {Code::kNotFound, Code::kDenied},          {Code::kConflict, Code::kDenied},
      {Code::kCorrupt, Code::kDenied},           {Code::kLimit, Code::kDenied},
      {Code::kUnsupported, Code::kDenied},       {Code::kInvalid, Code::kInvalid},
      {Code::kUnknownOutcome, Code::kTransient}, {Code::kCancelled, Code::kCancelled}};
  for (const auto& [code, told] : kCodes) {
    Expect({});
    credentials_.error = Error{code, "no keys", "~/.aws", ""};
    EXPECT_EQ(client_.Head("k").error().code, told) << CodeName(code);
    EXPECT_EQ(PutNew().error().code, told) << CodeName(code);
    EXPECT_TRUE(http_.requests.empty());
  }
}

TEST_F(S3ClientTest, I34_AHeadThatIsRefusedAsksWhy) {
  const auto found = Plain(200, "", {{"content-length", "5"}});
  Expect({Plain(400), ErrorAnswer(400, "ExpiredToken"),
          Plain(206, "a", {{"content-range", "bytes 0-0/5"}}), found});
  ASSERT_TRUE(client_.Head("x"));
  EXPECT_EQ(HeaderOf(http_.requests[1], "range"), "bytes=0-0");
  EXPECT_THAT(http_.requests[3].authorization.Reveal(), HasSubstr("key1/"));
  Expect({Plain(403), ErrorAnswer(403, "AccessDenied")});
  EXPECT_THAT(client_.Head("x").error().ToString(), HasSubstr("403 AccessDenied"));
  EXPECT_EQ(http_.requests.size(), 2u);
}

TEST_F(S3ClientTest, AClockThatIsWrongIsMendedByTheStores) {
  const auto found = Plain(200, "", {{"content-length", "5"}});
  const auto skewed = [](const std::string& date) {
    return Plain(403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", {{"date", date}});
  };
  // Ours is 2026-11-29T16:20:00Z.
  Expect({skewed("Sun, 29 Nov 2026 18:20:07 GMT"), found, found});
  ASSERT_TRUE(client_.Head("x"));
  ASSERT_TRUE(client_.Head("x"));
  EXPECT_EQ(HeaderOf(http_.requests[0], "x-amz-date"), "20261129T162000Z");
  EXPECT_EQ(HeaderOf(http_.requests[1], "x-amz-date"), "20261129T182007Z");
  EXPECT_EQ(HeaderOf(http_.requests[2], "x-amz-date"), "20261129T182007Z");
  // It may go back, and once only for a request.
  Expect({skewed("Sun, 29 Nov 2026 15:20:00 GMT"), skewed("Sun, 29 Nov 2026 14:20:00 GMT"),
          ErrorAnswer(403, "AccessDenied")});
  EXPECT_EQ(client_.Get("x", 0, 1, "").error().code, Code::kDenied);
  EXPECT_EQ(HeaderOf(http_.requests[1], "x-amz-date"), "20261129T152000Z");
  EXPECT_EQ(http_.requests.size(), 2u);
}

TEST_F(S3ClientTest, ATimeThatIsNearOrNoneChangesNothing) {
  for (const char* date : {"Sun, 29 Nov 2026 16:23:59 GMT", "yesterday", ""}) {
    Expect({Plain(403, "<Error><Code>AccessDenied</Code></Error>", {{"date", date}})});
    EXPECT_EQ(client_.Get("x", 0, 1, "").error().code, Code::kDenied);
    EXPECT_EQ(http_.requests.size(), 1u);
  }
  // Nor does one that comes with success.
  Expect({Plain(200, "", {{"content-length", "5"}, {"date", "Sun, 29 Nov 2026 18:20:07 GMT"}}),
          Plain(200, "", {{"content-length", "5"}})});
  ASSERT_TRUE(client_.Head("x"));
  ASSERT_TRUE(client_.Head("x"));
  EXPECT_EQ(HeaderOf(http_.requests[1], "x-amz-date"), "20261129T162000Z");
  // But it tells those who go by ages.
  EXPECT_EQ(client_.clock_skew(), std::chrono::hours(2) + std::chrono::seconds(7));
  S3Store store(client_, "");
  const Status clock = CheckClock(store);
  ASSERT_FALSE(clock);
  EXPECT_THAT(clock.error().ToString(), HasSubstr("the store's clock is 2 h 00 min ahead of"));
  Expect({Plain(200, "", {{"content-length", "5"}, {"date", "Sun, 29 Nov 2026 16:16:01 GMT"}})});
  ASSERT_TRUE(client_.Head("x"));
  EXPECT_TRUE(CheckClock(store));
}

TEST_F(S3ClientTest, ErrorsNameWhatAndWhereAndNoSecret) {
  Expect({ErrorAnswer(403, "AccessDenied")});
  const Error denied = client_.Get("d/x", 0, 1, "").error();
  EXPECT_EQ(denied.code, Code::kDenied);
  EXPECT_THAT(denied.ToString(), HasSubstr("s3://lake/d/x"));
  EXPECT_THAT(denied.ToString(), HasSubstr("403 AccessDenied"));
  EXPECT_THAT(denied.ToString(), Not(HasSubstr("the-secret-itself")));
  Expect({ErrorAnswer(404, "NoSuchKey")});
  EXPECT_EQ(client_.Get("d/x", 0, 1, "").error().code, Code::kNotFound);
  Expect({ErrorAnswer(404, "NoSuchBucket")});
  EXPECT_EQ(client_.Get("d/x", 0, 1, "").error().code, Code::kInvalid);
  Expect({Plain(301)});
  EXPECT_THAT(client_.Head("d/x").error().ToString(), HasSubstr("another region"));
}

TEST_F(S3ClientTest, ListingsAreDecodedAndGoOn) {
  Expect({Plain(200,
                "<?xml version=\"1.0\"?><ListBucketResult "
                "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                "<NextContinuationToken>next one</NextContinuationToken>"
                "<Contents><Key>d/a%2Bb+c%0A.parquet</Key><Size>12</Size>"
                "<LastModified>2026-11-29T16:20:00.123Z</LastModified></Contents>"
                "<CommonPrefixes><Prefix>d/x%3D1/</Prefix></CommonPrefixes></ListBucketResult>")});
  const auto page = client_.List("d/", "/", "");
  ASSERT_TRUE(page) << page.error().ToString();
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].key, "d/a+b c\n.parquet");
  EXPECT_EQ(page->objects[0].size, 12);
  // As a HEAD tells it.
  EXPECT_EQ(page->objects[0].modified, ParseTime("2026-11-29T16:20:00Z").value());
  EXPECT_THAT(page->prefixes, ElementsAre("d/x=1/"));
  EXPECT_EQ(page->next, "next one");
  for (const char* bad : {"", "<html>", "<Error/>",
                          "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
                          "<ListBucketResult><Contents><Key>x</Key></Contents></ListBucketResult>",
                          "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult/>"}) {
    Expect({Plain(200, bad)});
    EXPECT_EQ(client_.List("", "", "").error().code, Code::kCorrupt) << bad;
  }
}

TEST_F(S3ClientTest, UploadsAreListedToAnEnd) {
  const auto page = [](const std::string& key, const std::string& id) {
    return Plain(200, "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>" +
                          key + "</NextKeyMarker><NextUploadIdMarker>" + id +
                          "</NextUploadIdMarker></ListMultipartUploadsResult>");
  };
  Expect({page("a", "1"), page("a", "2"), page("a", "2")});
  const auto first = client_.ListUploads("", {});
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = client_.ListUploads("", *first);
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_THAT(http_.requests[1].url, HasSubstr("upload-id-marker=1"));
  // It would never end.
  EXPECT_EQ(client_.ListUploads("", *second).error().code, Code::kCorrupt);
  Expect({page("", "")});
  EXPECT_EQ(client_.ListUploads("", {}).error().code, Code::kCorrupt);
}

TEST_F(S3ClientTest, AnUploadThatFailsAfterItsStatusIsLookedUp) {
  const auto complete = [this] {
    return client_.CompleteUpload("x", "u", {{"\"a\"", "sum"}}, "the id",
                                  {.absent = true, .etag = {}});
  };
  Expect({ErrorAnswer(200, "InternalError"),
          Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "the id"}})});
  EXPECT_TRUE(complete());
  Expect({ErrorAnswer(200, "InternalError"), Plain(404)});
  EXPECT_EQ(complete().error().code, Code::kUnknownOutcome);
  // Completed by the first try: there is no such upload any more.
  Expect({Lost(), ErrorAnswer(404, "NoSuchUpload"),
          Plain(200, "", {{"content-length", "5"}, {"x-amz-meta-lithify-write", "the id"}})});
  EXPECT_TRUE(complete());
  Expect({Plain(412)});
  EXPECT_EQ(complete().error().code, Code::kConflict);
}

// Q2: what the start of a sweep would find out.
TEST_F(S3ClientTest, Q2_AStoreThatIgnoresConditionsIsRefused) {
  std::string object;
  bool there = false;
  const auto heedless = [&](const HttpRequest& request) -> Result<HttpResponse> {
    const auto etag = [&] { return "\"" + net::Sha256Hex(object).substr(0, 32) + "\""; };
    switch (request.method) {
      case HttpMethod::kPut:
        object = request.body;
        there = true;
        return HttpResponse{200, {{"etag", etag()}}, ""};
      case HttpMethod::kDelete: there = false; return HttpResponse{204, {}, ""};
      default: break;
    }
    if (!there) return HttpResponse{404, {}, ""};
    return HttpResponse{200, {{"etag", etag()}}, object};
  };
  Expect(std::vector<Script::Answer>(20, heedless));
  S3Store store(client_, "p/");
  const Status probed = store.Probe("probe");
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, Code::kUnsupported);
  EXPECT_THAT(probed.error().ToString(), HasSubstr("If-None-Match: * replaced an object"));
  EXPECT_FALSE(there);
}

// What is refused is in doubt where an answer was lost before: that says nothing of the store.
TEST_F(S3ClientTest, Q2_AStoreIsNotRefusedForALostAnswer) {
  std::string etag;  // Of the object; empty: there is none.
  int made = 0;
  int until_lost = 0;
  const auto heedful = [&](const HttpRequest& request) -> Result<HttpResponse> {
    if (until_lost-- == 0) return Fail(Code::kUnknownOutcome, "sent, but no whole answer came");
    if (request.url.find("uploads=") != std::string::npos) {
      return HttpResponse{200, {}, "<R><UploadId>u</UploadId></R>"};
    }
    const bool of_upload = request.url.find("uploadId=") != std::string::npos;
    const auto match = HeaderOf(request, "if-match");
    if ((HeaderOf(request, "if-none-match") && !etag.empty()) || (match && *match != etag)) {
      return HttpResponse{412, {}, ""};
    }
    if (request.method == HttpMethod::kDelete) {
      if (!of_upload) etag.clear();
      return HttpResponse{204, {}, ""};
    }
    if (request.method == HttpMethod::kPut && !of_upload) etag = std::to_string(++made);
    if (etag.empty()) return HttpResponse{404, {}, ""};
    const std::string body = request.method == HttpMethod::kHead ? ""
                             : made == 1                         ? "first"
                                                                 : "fourth";
    return HttpResponse{
        200, {{"etag", etag}, {"content-length", std::to_string(body.size())}}, body};
  };
  S3Store store(client_, "p/");
  for (int lost = 0; lost < 18; ++lost) {
    until_lost = lost;
    made = 0;
    Expect(std::vector<Script::Answer>(60, heedful));
    const Status probed = store.Probe("probe");
    EXPECT_TRUE(probed) << lost << ": " << probed.error().ToString();
    EXPECT_EQ(made, 2);
    EXPECT_LT(until_lost, 0);
  }
}

}  // namespace
}  // namespace lithify::storage
