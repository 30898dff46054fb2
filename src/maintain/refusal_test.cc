// Who refused, by words that stay with an error.
#include "maintain/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/manual_clock.h"
#include "embed/table_buckets.h"
#include "maintain/principal.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::maintain {
namespace {

using testing::HasSubstr;
using testing::Not;

// Through a context and back from a text, as through the state file.
Refuser Of(Error error) { return RefuserOf(std::move(error).In("lake.sales.t").ToString()); }

TEST(Refusal, WhoRefused) {
  const auto denied = [](std::string message) {
    return Error{Code::kDenied, std::move(message), "POST https://c/v1/t", {}};
  };
  EXPECT_EQ(Of(OfCatalog(denied("status 403: ForbiddenException: no"))), Refuser::kCatalog);
  EXPECT_EQ(Of(OfCatalog(denied("status 401: no"))), Refuser::kCatalogToken);
  EXPECT_EQ(Of(OfCatalog(denied("status 419: no"))), Refuser::kCatalogToken);
  EXPECT_EQ(Of(OfCatalog(denied("the server's certificate is not trusted: self-signed"))),
            Refuser::kOther);
  EXPECT_EQ(Of(OfCatalog(denied("no token").In(kPrincipalToken))), Refuser::kPrincipal);
  // What is no refusal stays what it is.
  const Error wrong{Code::kInvalid, "status 400", {}, {}};
  EXPECT_EQ(OfCatalog(wrong).ToString(), wrong.ToString());
  // A gate of our own.
  EXPECT_EQ(Of(denied("gc.enabled is \"false\"")), Refuser::kOther);
}

TEST(Refusal, EachLineSaysWhatHelps) {
  const auto tell = [](const Error& error) {
    return TellRefusal("lake.sales.t", error.ToString(), "grant it");
  };
  const Error denied{Code::kDenied, "status 403", {}, "the catalog's hint"};
  EXPECT_EQ(tell(OfCatalog(denied)).what, "no_grant");
  EXPECT_EQ(tell(OfCatalog(denied)).next, "grant it");
  const LoudLine other = tell(denied);
  EXPECT_EQ(other.what, "refused");
  EXPECT_EQ(other.next, "the catalog's hint");
  EXPECT_EQ(other.where, "lake.sales.t");
  EXPECT_EQ(tell(Error(denied).In(kPrincipalToken)).what, "no_credential");
  EXPECT_EQ(tell(OfCatalog({Code::kDenied, "status 401", {}, {}})).what, "token_refused");
}

class StorageRefusal : public testing::Test {
 protected:
  storage::Place At(const std::string& location) {
    auto place = locations_->Resolve(location);
    EXPECT_TRUE(place) << place.error().ToString();
    return std::move(*place);
  }

  static constexpr const char* kX = "s3://b/t/x";
  std::string_view denied_;  // Every operation by this name.
  Code code_ = Code::kDenied;
  ManualClock clock_;
  storage::MemoryStore memory_{clock_};
  std::unique_ptr<storage::Locations> locations_ = MakeRefusalLocations(
      storage::MakeStoreLocations(
          std::make_shared<storage::FaultyStore>(
              memory_,
              [this](std::string_view op, const std::string& key, bool before) -> Status {
                if (!before || op != denied_) return {};
                return Fail(code_, "the store answers 403", "s3://b/" + key, "check them");
              }),
          "s3", "b"),
      [](std::string_view location) { return "keys for " + std::string(location); });
};

TEST_F(StorageRefusal, EachOperationSaysWhatIsRefusedAndToWhom) {
  ASSERT_TRUE(memory_.PutNew("t/x", "content"));
  const storage::Place place = At(kX);
  storage::Store& store = *place.store;
  const auto reader = store.Open("t/x").value();
  const auto write = [&](bool publish) -> Status {
    LITHIFY_TRY_ASSIGN(auto writer, store.Create("t/new"));
    LITHIFY_TRY(writer->Append(std::as_bytes(std::span("x", 1))));
    return publish ? writer->Publish() : Status();
  };
  const auto of = [](const auto& result) {
    return result ? Status() : Status(Fail(Error(result.error())));
  };
  struct Case {
    const char* op;
    const char* action;
    std::function<Status()> act;
  };
  std::byte byte{};
  const std::vector<Case> cases = {
      {"Stat", "read", [&] { return of(store.Stat("t/x")); }},
      {"Get", "read", [&] { return of(store.Get("t/x", 100)); }},
      {"Open", "read", [&] { return of(store.Open("t/x")); }},
      {"ReadAt", "read", [&] { return of(reader->ReadAt(0, std::span(&byte, 1))); }},
      {"List", "list", [&] { return of(store.List("t/")); }},
      {"PutNew", "write", [&] { return store.PutNew("t/y", "y"); }},
      {"PutIf", "write", [&] { return store.PutIf("t/x", "y", "1"); }},
      {"Create", "write", [&] { return write(false); }},
      {"Append", "write", [&] { return write(false); }},
      {"Publish", "write", [&] { return write(true); }},
      {"Remove", "remove", [&] { return store.Remove("t/x"); }},
      {"Remove", "remove",
       [&] { return store.RemoveMany(std::vector<std::string>{"t/x"}).front(); }}};
  for (const Case& one : cases) {
    denied_ = one.op;
    const Status refused = one.act();
    ASSERT_FALSE(refused) << one.op;
    const std::string text = refused.error().ToString();
    EXPECT_EQ(refused.error().code, Code::kDenied) << one.op;
    EXPECT_THAT(text, HasSubstr("the storage refuses to " + std::string(one.action) + ": s3://b/"))
        << one.op;
    const LoudLine line = TellRefusal("lake.sales.t", text, "grant it");
    EXPECT_EQ(line.what, "no_storage_access") << text;
    EXPECT_EQ(line.next,
              "let keys for s3://b/t/x " + std::string(one.action) + " there: check them");
  }
}

TEST_F(StorageRefusal, WhatIsNoRefusalIsLeftAlone) {
  denied_ = "Get";
  code_ = Code::kTransient;
  const auto got = At(kX).store->Get("t/x", 100);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().ToString(), Not(HasSubstr("refuses")));
  // What a visitor of a listing meets is its own.
  ASSERT_TRUE(memory_.PutNew("t/x", "content"));
  denied_ = "";
  const Status visited = At(kX).store->ListPages(
      "t/", storage::ListDepth::kAll,
      [](auto /*page*/) -> Status { return Fail(Code::kDenied, "a rule of ours"); });
  EXPECT_EQ(visited.error().ToString(), "denied: a rule of ours");
}

TEST_F(StorageRefusal, OneStoreStaysOne) {
  EXPECT_EQ(At(kX).store, At("s3://b/t/other").store);
  EXPECT_EQ(At(kX).key, "t/x");
  EXPECT_EQ(locations_->Canonical("s3a://b/t/x"), "s3://b/t/x");
}

// A catalog that is asked for credentials and refuses is the catalog; one that has none to give is
// the storage's side.
TEST(Refusal, WhoLendsRefusesAsACatalog) {
  class Refuses final : public storage::Locations {
   public:
    explicit Refuses(Error error) : error_(std::move(error)) {}
    Result<storage::Place> Resolve(std::string_view) override { return Fail(Error(error_)); }
    Result<std::string> Canonical(std::string_view location) override {
      return std::string(location);
    }

   private:
    const Error error_;
  };
  const auto told = [](Error error) {
    const auto locations = MakeRefusalLocations(std::make_unique<Refuses>(std::move(error)),
                                                [](auto) { return "the keys of [s3]"; });
    return TellRefusal("t", locations->Resolve("s3://b/x").error().ToString(), "grant it");
  };
  const Error refused{Code::kDenied, "status 403: no", "GET https://c", {}};
  EXPECT_EQ(told(Error(refused).In(embed::kAskedToLend)).what, "no_grant");
  const LoudLine none = told({Code::kDenied, "no credentials for S3 were found", {}, "give some"});
  EXPECT_EQ(none.what, "no_storage_access");
  EXPECT_EQ(none.next, "give some");
}

}  // namespace
}  // namespace lithify::maintain
