#include "fleet/order_storage.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lithify::fleet {
namespace {

using storage::Loan;

Loan Of(std::string prefix, std::string endpoint = {}) {
  Loan loan;
  loan.prefix = std::move(prefix);
  loan.settings.endpoint = std::move(endpoint);
  loan.settings.access_key_id = "id";
  loan.settings.secret_access_key = Secret("key");
  return loan;
}

class OrderStorageTest : public testing::Test {
 protected:
  OrderStorage& Make(const OrderStorageOptions& options, std::vector<Loan> loans) {
    storage_ = std::make_unique<OrderStorage>(options, std::move(loans), nullptr, clock_, random_);
    return *storage_;
  }
  SystemClock clock_;
  SeededRandom random_{1};
  std::unique_ptr<OrderStorage> storage_;
};

TEST_F(OrderStorageTest, KeysOfTheOrderForItsPlacesAlone) {
  OrderStorage& storage = Make({}, {Of("s3://lake/t"), Of("s3://lake/u")});
  const auto one = storage.Resolve("s3://lake/t/data/x");
  ASSERT_TRUE(one) << one.error().ToString();
  EXPECT_EQ(one->key, "t/data/x");
  EXPECT_EQ(storage.Resolve("s3a://lake/t/y")->store, one->store);
  EXPECT_NE(storage.Resolve("s3://lake/u/y")->store, one->store);
  const auto other = storage.Resolve("s3://lake/other/x");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kDenied);
  EXPECT_NE(other.error().hint.find("[worker.s3]"), std::string::npos);
}

TEST_F(OrderStorageTest, KeysOfTheMachineAreNotTaken) {
  setenv("AWS_ACCESS_KEY_ID", "id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "key", 1);
  OrderStorage& storage = Make({}, {});
  EXPECT_EQ(storage.Resolve("s3://lake/t/x").error().code, Code::kDenied);
  unsetenv("AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST_F(OrderStorageTest, OwnKeysByConfiguration) {
  OrderStorageOptions options;
  options.s3.access_key_id = "id";
  options.s3.secret_access_key = Secret("key");
  OrderStorage& storage = Make(options, {Of("s3://lake/t")});
  EXPECT_TRUE(storage.Resolve("s3://lake/other/x"));
  // A loan without keys names a place, and no more.
  Loan empty;
  empty.prefix = "s3://lake";
  EXPECT_TRUE(Make(options, {empty}).Resolve("s3://lake/x"));
  EXPECT_EQ(Make({}, {empty}).Resolve("s3://lake/x").error().code, Code::kDenied);
}

TEST_F(OrderStorageTest, KeysGoToAllowedEndpointsAlone) {
  OrderStorageOptions options;
  options.endpoints = {"https://store:9000/"};
  EXPECT_TRUE(Make(options, {Of("s3://lake", "https://store:9000")}).Resolve("s3://lake/x"));
  for (const char* endpoint : {"", "https://store:9001", "http://store:9000", "http://10.0.0.1"}) {
    const auto refused = Make(options, {Of("s3://lake", endpoint)}).Resolve("s3://lake/x");
    ASSERT_FALSE(refused) << endpoint;
    EXPECT_EQ(refused.error().code, Code::kDenied);
  }
  // The control.
  EXPECT_TRUE(Make({}, {Of("s3://lake", "http://10.0.0.1")}).Resolve("s3://lake/x"));
  // The worker's own goes before the order's.
  options.s3.endpoint = "https://own:9000";
  EXPECT_TRUE(Make(options, {Of("s3://lake", "http://10.0.0.1")}).Resolve("s3://lake/x"));
}

TEST_F(OrderStorageTest, LocalFilesWhereTheyAreAllowed) {
  for (const char* location : {"file:///etc/passwd", "/etc/passwd", "gs://lake/x"}) {
    EXPECT_EQ(Make({}, {}).Resolve(location).error().code, Code::kDenied) << location;
    EXPECT_EQ(Make({}, {}).Canonical(location).error().code, Code::kDenied) << location;
  }
  OrderStorageOptions options;
  options.local_files = true;
  EXPECT_TRUE(Make(options, {}).Resolve("file:///etc/passwd"));
  EXPECT_EQ(Make(options, {}).Resolve("gs://lake/x").error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace lithify::fleet
