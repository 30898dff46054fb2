#include "embed/table_buckets.h"

#include <gtest/gtest.h>

#include "storage/locations.h"

namespace lithify::embed {
namespace {

using Properties = std::map<std::string, std::string>;

Properties Keys(const std::string& id) {
  return {{"s3.access-key-id", id}, {"s3.secret-access-key", "secret of " + id}};
}

TEST(Loans, StorageCredentialsGoBeforeTheConfiguration) {
  catalog::LoadedTable table;
  table.config = Keys("general");
  table.config["s3.endpoint"] = "http://store:9000";
  table.config["client.region"] = "eu-1";
  auto loans = LoansOf(table).value();
  ASSERT_EQ(loans.size(), 1U);
  EXPECT_EQ(loans[0].prefix, "");
  EXPECT_EQ(loans[0].settings.access_key_id, "general");
  EXPECT_EQ(loans[0].settings.secret_access_key.Reveal(), "secret of general");
  EXPECT_EQ(loans[0].settings.addressing, storage::S3Addressing::kAuto);
  EXPECT_FALSE(loans[0].expires);

  Properties own = Keys("own");
  own["s3.session-token"] = "token";
  own["s3.session-token-expires-at-ms"] = "1796000000123";
  own["s3.path-style-access"] = "true";
  own["s3.region"] = "not this one";
  table.credentials = {{"s3://lake/t", own}, {"gs://lake", {{"gcs.oauth2.token", "x"}}}};
  loans = LoansOf(table).value();
  ASSERT_EQ(loans.size(), 1U);
  EXPECT_EQ(loans[0].prefix, "s3://lake/t");
  EXPECT_EQ(loans[0].settings.access_key_id, "own");
  EXPECT_EQ(loans[0].settings.session_token.Reveal(), "token");
  EXPECT_EQ(loans[0].settings.endpoint, "http://store:9000");
  EXPECT_EQ(loans[0].settings.region, "eu-1");
  EXPECT_EQ(loans[0].settings.addressing, storage::S3Addressing::kPath);
  EXPECT_EQ(loans[0].expires, Time(std::chrono::milliseconds(1796000000123)));
}

TEST(Loans, NoneAndHalfOfOne) {
  catalog::LoadedTable table;
  EXPECT_TRUE(LoansOf(table)->empty());
  table.config = {{"s3.endpoint", "http://store"}};
  EXPECT_TRUE(LoansOf(table)->empty());
  table.config = {{"s3.access-key-id", "id"}};
  EXPECT_EQ(LoansOf(table).error().code, Code::kCorrupt);
  table.config = {{"s3.secret-access-key", "hush"}};
  const auto half = LoansOf(table);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().ToString().find("hush"), std::string::npos);
  // No time that a clock could compare with.
  table.config = Keys("id");
  for (const char* time : {"", "soon", "-5", "9223372036854775807", "17e9"}) {
    table.config["s3.session-token-expires-at-ms"] = time;
    EXPECT_FALSE(LoansOf(table)->front().expires) << time;
  }
}

class TableBucketsTest : public testing::Test {
 protected:
  std::unique_ptr<TableBuckets> Make(storage::S3Settings own, TableBuckets::Lender lender) {
    return std::make_unique<TableBuckets>(std::move(own), Environment{}, std::move(lender), clock_,
                                          random_);
  }
  SystemClock clock_;
  SeededRandom random_{1};
};

TEST_F(TableBucketsTest, OneBucketIsOneStore) {
  int asked = 0;
  const auto buckets = Make({}, [&]() -> Result<catalog::LoadedTable> {
    ++asked;
    catalog::LoadedTable table;
    table.credentials = {{"s3://lake/t/", Keys("own")}};
    return table;
  });
  const auto locations = storage::MakeLakeLocations(
      [&](const auto& bucket, const auto& location) { return buckets->Open(bucket, location); });
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(*locations->Canonical("s3a://lake/t/x"), "s3://lake/t/x");
  EXPECT_EQ(asked, 0);
  const auto one = locations->Resolve("s3://lake/t/data/x");
  ASSERT_TRUE(one) << one.error().ToString();
  EXPECT_EQ(one->key, "t/data/x");
  EXPECT_EQ(one->store->Describe(), "s3://lake");
  EXPECT_EQ(locations->Resolve("s3n://lake/t/y")->store, one->store);
  EXPECT_EQ(asked, 1);
  // Another place than what it lends for.
  const auto denied = locations->Resolve("s3://lake/other/x");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
  EXPECT_EQ(locations->Resolve("s3://lake").error().code, Code::kInvalid);
  EXPECT_EQ(locations->Resolve("gs://lake/x").error().code, Code::kUnsupported);
  EXPECT_EQ(*locations->Canonical("file:///tmp/x"), "file:///tmp/x");
}

TEST_F(TableBucketsTest, OwnKeysAreForWhatNobodyLendsKeysFor) {
  storage::S3Settings own;
  own.access_key_id = "mine";
  own.secret_access_key = Secret("hush");
  const auto lent = Make(own, [&]() -> Result<catalog::LoadedTable> {
    catalog::LoadedTable table;
    table.credentials = {{"s3://lake/t/", Keys("own")}};
    return table;
  });
  EXPECT_NE(*lent->Open("lake", "s3://lake/t/x"), *lent->Open("lake", "s3://lake/other"));
  const auto none = Make(own, [&] { return Result<catalog::LoadedTable>(catalog::LoadedTable()); });
  EXPECT_EQ(*none->Open("lake", "s3://lake/t/x"), *none->Open("lake", "s3://lake/other"));
  const auto nobody = Make(own, nullptr);
  EXPECT_TRUE(nobody->Open("lake", "s3://lake/t/x"));
  // A denial of the catalog is not worked around.
  const auto denied =
      Make(own, []() -> Result<catalog::LoadedTable> { return Fail(Code::kDenied, "no"); });
  EXPECT_EQ(denied->Open("lake", "s3://lake/t/x").error().code, Code::kDenied);
}

TEST_F(TableBucketsTest, WhatGoesToOthersHasNoKeysOfThisProcess) {
  storage::S3Settings own;
  own.access_key_id = "mine";
  own.secret_access_key = Secret("my secret");
  EXPECT_TRUE(Make(own, {})->Lend()->empty());
  own.endpoint = "http://inside:9000";
  own.ca_file = "/etc/ca.pem";
  int asked = 0;
  const auto buckets = Make(own, [&]() -> Result<catalog::LoadedTable> {
    catalog::LoadedTable table;
    table.credentials = {{"s3://lake/t/", Keys(std::to_string(++asked))}};
    table.config = {{"s3.endpoint", "http://outside"}, {"client.region", "eu-1"}};
    return table;
  });
  for (const char* id : {"1", "2"}) {
    const auto loans = buckets->Lend();
    ASSERT_TRUE(loans) << loans.error().ToString();
    ASSERT_EQ(loans->size(), 1U);
    const storage::Loan& loan = loans->front();
    EXPECT_EQ(loan.prefix, "s3://lake/t/");
    EXPECT_EQ(loan.settings.endpoint, "http://inside:9000");
    EXPECT_EQ(loan.settings.region, "eu-1");
    EXPECT_EQ(loan.settings.access_key_id, id);
    EXPECT_EQ(loan.settings.secret_access_key.Reveal(), std::string("secret of ") + id);
    EXPECT_EQ(loan.settings.ca_file, "");
  }
}

}  // namespace
}  // namespace lithify::embed
