#include "maintain/lease.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job/maintenance_log_fixture.h"

namespace lithify::maintain {
namespace {

using catalog::MemoryCatalog;
using job::LogRow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Fault = MemoryCatalog::Fault;
using Kind = ClaimResult::Kind;

constexpr Duration kTtl = std::chrono::seconds(300);
constexpr const char* kKey = "lake.sales.orders";

// Another coordinator's clock.
class SkewedClock final : public Clock {
 public:
  explicit SkewedClock(const Clock& real) : real_(real) {}
  Time Now() const override { return real_.Now() + skew; }
  Duration Monotonic() const override { return real_.Monotonic(); }
  void Sleep(Duration /*d*/) override {}
  Duration skew{};

 private:
  const Clock& real_;
};

class LeaseTest : public job::MaintenanceLogWorld {
 protected:
  void SetUp() override { Init(); }

  std::unique_ptr<Lease> Of(const std::string& holder) { return Of(holder, clock_); }
  std::unique_ptr<Lease> Of(const std::string& holder, const Clock& clock) {
    return MakeCatalogLease(log_, {.holder = holder}, clock, random_);
  }
  ClaimResult Claim(Lease& lease, const std::string& key = kKey) {
    const auto result = lease.Claim(key, kTtl, cancel_);
    EXPECT_TRUE(result) << result.error().ToString();
    return result ? *result : ClaimResult{};
  }
  std::vector<LogRow> Rows() { return log_.Read({}, cancel_)->rows; }
  std::vector<std::string> Files() const { return DataFiles(); }

  job::MaintenanceLog log_{Services(), job::DefaultLogIdent()};
  std::unique_ptr<Lease> a_ = Of("a");
  std::unique_ptr<Lease> b_ = Of("b");
};

TEST_F(LeaseTest, R148AClaimIsARowOfTheLog) {
  const ClaimResult claim = Claim(*a_);
  EXPECT_EQ(claim.kind, Kind::kAcquired);
  EXPECT_EQ(claim.claim.key, kKey);
  EXPECT_EQ(claim.claim.until, clock_.Now() + kTtl);
  EXPECT_THAT(claim.stolen_from, IsEmpty());
  EXPECT_FALSE(claim.reacquired);
  LogRow row;
  row.job_id = claim.claim.id;
  row.table_name = kKey;
  row.trigger = "lease";
  row.principal = "a";
  row.started_at_ms = NowMs();
  row.finished_at_ms = NowMs() + 300'000;
  row.status = "claimed";
  EXPECT_THAT(Rows(), ElementsAre(row));
}

TEST_F(LeaseTest, R293WhatAnotherHoldsIsHeldUntilItEnds) {
  const ClaimResult first = Claim(*a_);
  clock_.Sleep(std::chrono::seconds(299));
  const ClaimResult second = Claim(*b_);
  EXPECT_EQ(second.kind, Kind::kHeld);
  EXPECT_EQ(second.holder, "a");
  EXPECT_EQ(second.until, first.claim.until);
  EXPECT_THAT(Rows(), SizeIs(1));
  EXPECT_EQ(Claim(*b_, "lake.sales.other").kind, Kind::kAcquired);
}

TEST_F(LeaseTest, R146StolenOnceItHasRunOut) {
  const ClaimResult first = Claim(*a_);
  clock_.Sleep(kTtl);  // now >= expiry.
  const ClaimResult second = Claim(*b_);
  EXPECT_EQ(second.kind, Kind::kAcquired);
  EXPECT_EQ(second.stolen_from, "a");
  std::vector<std::string> notes;
  for (const LogRow& row : Rows()) {
    if (row.error) notes.push_back(row.status + ": " + *row.error);
  }
  EXPECT_THAT(notes, testing::UnorderedElementsAre(
                         "claimed: stolen from a",
                         "released: stolen by b: ran out at 2027-01-15T08:05:00.000000Z"));
  // R296: the first learns of it.
  const auto renewed = a_->Renew(first.claim, kTtl, cancel_);
  ASSERT_TRUE(renewed);
  EXPECT_EQ(renewed->kind, Kind::kLost);
  EXPECT_EQ(renewed->holder, "b");
  // Its release does no harm to the second.
  EXPECT_TRUE(a_->Release(first.claim, cancel_));
  EXPECT_EQ(Claim(*a_).kind, Kind::kHeld);
}

TEST_F(LeaseTest, R146OwnLiveClaimIsTheSameAgain) {
  const ClaimResult first = Claim(*a_);
  clock_.Sleep(std::chrono::seconds(10));
  const ClaimResult again = Claim(*a_);
  EXPECT_EQ(again.kind, Kind::kAcquired);
  EXPECT_TRUE(again.reacquired);
  EXPECT_EQ(again.claim.id, first.claim.id);
  EXPECT_EQ(again.claim.until, first.claim.until);
  EXPECT_THAT(Rows(), SizeIs(1));
  // And one that has run out is a new one, stolen from nobody.
  clock_.Sleep(kTtl);
  const ClaimResult later = Claim(*a_);
  EXPECT_FALSE(later.reacquired);
  EXPECT_NE(later.claim.id, first.claim.id);
  EXPECT_THAT(later.stolen_from, IsEmpty());
}

TEST_F(LeaseTest, R146RenewedAndReleased) {
  const ClaimResult claim = Claim(*a_);
  clock_.Sleep(kTtl / 2);
  const auto renewed = a_->Renew(claim.claim, kTtl, cancel_);
  ASSERT_TRUE(renewed) << renewed.error().ToString();
  EXPECT_EQ(renewed->kind, Kind::kAcquired);
  EXPECT_EQ(renewed->claim.id, claim.claim.id);
  EXPECT_EQ(renewed->claim.until, clock_.Now() + kTtl);
  clock_.Sleep(kTtl - std::chrono::seconds(1));
  EXPECT_EQ(Claim(*b_).kind, Kind::kHeld);
  ASSERT_TRUE(a_->Release(renewed->claim, cancel_));
  const ClaimResult next = Claim(*b_);
  EXPECT_EQ(next.kind, Kind::kAcquired);
  EXPECT_THAT(next.stolen_from, IsEmpty());
  EXPECT_EQ(a_->Renew(renewed->claim, kTtl, cancel_)->kind, Kind::kLost);
}

// A renewal that is late, but nobody was interested.
TEST_F(LeaseTest, ALateRenewalOfWhatNobodyTookIsOne) {
  const ClaimResult claim = Claim(*a_);
  clock_.Sleep(kTtl + std::chrono::seconds(60));
  EXPECT_EQ(a_->Renew(claim.claim, kTtl, cancel_)->kind, Kind::kAcquired);
  EXPECT_EQ(Claim(*b_).kind, Kind::kHeld);
}

// Both look at a log without rows; the second comes between the look of the first and its commit.
TEST_F(LeaseTest, R152R294TheRaceOnTheFirstClaimHasOneWinner) {
  MemoryCatalog::Hooks hooks;
  std::optional<ClaimResult> other;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (other) return;
    other.emplace();
    other = Claim(*b_);
  };
  catalog_.set_hooks(std::move(hooks));
  const ClaimResult ours = Claim(*a_);
  EXPECT_EQ(other->kind, Kind::kAcquired);
  EXPECT_EQ(ours.kind, Kind::kHeld);
  EXPECT_EQ(ours.holder, "b");
  EXPECT_THAT(Rows(), SizeIs(1));
}

// What others write to the log is in the way of a claim, but not for ever.
TEST_F(LeaseTest, ABusyLogIsTriedAgainWithinBounds) {
  int others = 0;
  int wanted = 5;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&, inside = false](const catalog::TableIdent&) mutable {
    if (inside || others == wanted) return;
    inside = true;
    ++others;
    LogRow row;
    row.trigger = "scheduled";
    EXPECT_TRUE(log_.Append(std::span(&row, 1), cancel_));
    inside = false;
  };
  catalog_.set_hooks(std::move(hooks));
  EXPECT_EQ(Claim(*a_).kind, Kind::kAcquired);
  EXPECT_EQ(others, 5);
  wanted = 100;
  const auto busy = b_->Claim("other", kTtl, cancel_);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Code::kConflict);
  EXPECT_THAT(busy.error().ToString(), HasSubstr("others wrote to the log 6 times"));
  EXPECT_EQ(others, 11);
}

TEST_F(LeaseTest, R302AClaimWhoseReplyWasLostIsOurs) {
  MemoryCatalog::Hooks hooks;
  hooks.fault = [once = false](const catalog::TableIdent&) mutable {
    return std::exchange(once, true) ? Fault::kNone : Fault::kLostAfterApply;
  };
  catalog_.set_hooks(std::move(hooks));
  EXPECT_EQ(Claim(*a_).kind, Kind::kAcquired);
  EXPECT_THAT(Rows(), SizeIs(1));
  // And where it could not be looked for, the next claim finds it.
  hooks.fault = [](const catalog::TableIdent&) { return Fault::kLostAfterApply; };
  hooks.before_load = [this](const catalog::TableIdent&) {};
  catalog_.set_hooks(hooks);
  EXPECT_EQ(Claim(*b_).kind, Kind::kHeld);
}

TEST_F(LeaseTest, R292R299ErrorsAreTheCallersToPassOver) {
  const auto none = MakeCatalogLease(log_, {.holder = "a"}, clock_, random_);
  MemoryCatalog::Hooks hooks;
  hooks.fault = [](const catalog::TableIdent&) { return Fault::kDenied; };
  catalog_.set_hooks(hooks);
  EXPECT_EQ(none->Claim(kKey, kTtl, cancel_).error().code, Code::kDenied);
  EXPECT_THAT(Files(), IsEmpty());
  job::MaintenanceLog missing(Services(), {{"sqe_system"}, "none"});
  const auto lease = MakeCatalogLease(missing, {.holder = "a"}, clock_, random_);
  EXPECT_EQ(lease->Claim(kKey, kTtl, cancel_).error().code, Code::kNotFound);
  EXPECT_EQ(lease->Renew({kKey, "x", {}}, kTtl, cancel_).error().code, Code::kNotFound);
  EXPECT_EQ(lease->Release({kKey, "x", {}}, cancel_).error().code, Code::kNotFound);
}

// R152: the end is judged by the reader's clock.
TEST_F(LeaseTest, ClocksThatDifferByLessThanTheSkew) {
  SkewedClock ahead(clock_);
  const auto c = Of("c", ahead);
  const ClaimResult first = Claim(*a_);
  // By its clock the claim has run out: it is stolen early, and in the log there is one holder.
  ahead.skew = std::chrono::minutes(30);
  EXPECT_EQ(Claim(*c).stolen_from, "a");
  EXPECT_EQ(a_->Renew(first.claim, kTtl, cancel_)->kind, Kind::kLost);
  EXPECT_EQ(Claim(*b_).holder, "c");
  EXPECT_EQ(Claim(*b_).until, clock_.Now() + std::chrono::minutes(30) + kTtl);
}

TEST_F(LeaseTest, AClaimOfAClockThatIsFarAheadDoesNotBlockTheKey) {
  SkewedClock ahead(clock_);
  ahead.skew = std::chrono::hours(24);
  const auto c = Of("c", ahead);
  EXPECT_EQ(Claim(*c).kind, Kind::kAcquired);
  const ClaimResult ours = Claim(*a_);
  EXPECT_EQ(ours.kind, Kind::kAcquired);
  EXPECT_EQ(ours.stolen_from, "c");
  std::string note;
  for (const LogRow& row : Rows()) {
    if (row.status == "released") note = row.error.value_or("");
  }
  EXPECT_THAT(note, HasSubstr("began by a clock that is ahead"));
}

TEST_F(LeaseTest, T17AnOperationCostsTheSameAfterTenThousandRows) {
  std::vector<Cost> costs;
  const auto measure = [&] {
    counting_->Forget();
    const ClaimResult claim = Claim(*a_);
    EXPECT_EQ(claim.kind, Kind::kAcquired);
    costs.push_back(Reads());
    EXPECT_TRUE(a_->Release(claim.claim, cancel_));
    clock_.Sleep(kTtl);
  };
  measure();
  for (int day = 0; day < 10; ++day) {
    clock_.Sleep(std::chrono::hours(24));
    for (int batch = 0; batch < 20; ++batch) {
      std::vector<LogRow> rows(50);
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].job_id = MakeUuidV7(clock_, random_);
        rows[i].table_name = "lake.sales.table" + std::to_string(i);
        rows[i].trigger = i % 5 == 0 ? "scheduled" : "lease";
        rows[i].principal = "host-1-00000000";
        rows[i].started_at_ms = NowMs();
        rows[i].finished_at_ms = NowMs() + 300'000;
        rows[i].status = i % 2 == 0 ? "claimed" : "released";
      }
      ASSERT_TRUE(log_.Append(rows, cancel_));
      clock_.Sleep(std::chrono::minutes(5));
    }
    Compact({.appends_min = 16});
    if (day == 0 || day == 9) measure();
  }
  ASSERT_THAT(costs, SizeIs(3));
  for (size_t i = 0; i < costs.size(); ++i) {
    RecordProperty("requests" + std::to_string(i), std::to_string(costs[i].requests));
    RecordProperty("bytes" + std::to_string(i), std::to_string(costs[i].bytes));
  }
  // After a thousand rows and after ten thousand.
  EXPECT_LE(costs[2].requests, costs[1].requests);
  EXPECT_LE(costs[2].bytes, costs[1].bytes * 3 / 2);
  EXPECT_LE(costs[2].requests, 10);
  EXPECT_LE(costs[2].bytes, 40'000);
}

TEST_F(LeaseTest, NoneIsAlwaysAcquired) {
  const auto none = MakeNoLease(clock_, random_);
  const ClaimResult claim = Claim(*none);
  EXPECT_EQ(claim.kind, Kind::kAcquired);
  EXPECT_EQ(claim.claim.until, clock_.Now() + kTtl);
  EXPECT_NE(Claim(*none).claim.id, claim.claim.id);
  EXPECT_EQ(none->Renew(claim.claim, kTtl, cancel_)->kind, Kind::kAcquired);
  EXPECT_TRUE(none->Release(claim.claim, cancel_));
  EXPECT_THAT(Rows(), IsEmpty());
  EXPECT_EQ(none->name(), "none");
  EXPECT_EQ(a_->name(), "catalog");
}

TEST(Holder, R149IsTheSameForTheLifeOfTheProcess) {
  EXPECT_EQ(ProcessHolder(), ProcessHolder());
  EXPECT_THAT(ProcessHolder(), testing::MatchesRegex("[A-Za-z0-9._-]+-[0-9]+-[0-9a-f]{16}"));
}

// The order of rows says nothing: clocks differ, and compaction moves rows.
TEST(Claims, AreTheSameInEveryOrderOfTheRows) {
  const auto row = [](std::string id, std::string who, int64_t from, int64_t to,
                      std::string status) {
    LogRow out;
    out.job_id = std::move(id);
    out.table_name = "k";
    out.trigger = "lease";
    out.principal = std::move(who);
    out.started_at_ms = from;
    out.finished_at_ms = to;
    out.status = std::move(status);
    return out;
  };
  std::vector<LogRow> rows = {row("1", "a", 10, 20, "claimed"), row("1", "a", 15, 25, "claimed"),
                              row("1", "b", 30, 25, "released"), row("2", "b", 30, 40, "claimed"),
                              row("3", "c", 1, 2, "running")};
  rows.push_back(row("4", "d", 1, 2, "claimed"));
  rows.back().table_name = "other";
  rows.push_back(row("5", "e", 1, 2, "claimed"));
  rows.back().trigger = "scheduled";
  int orders = 0;
  const auto by_id = [](const LogRow& a, const LogRow& b) {
    return std::tie(a.job_id, a.started_at_ms) < std::tie(b.job_id, b.started_at_ms);
  };
  std::ranges::sort(rows, by_id);
  do {
    ++orders;
    const std::vector<ClaimState> claims = ClaimsOf(rows, "k");
    ASSERT_THAT(claims, SizeIs(2));
    EXPECT_EQ(claims[0].id, "1");
    EXPECT_EQ(claims[0].holder, "a");
    EXPECT_EQ(claims[0].started_ms, 10);
    EXPECT_EQ(claims[0].until_ms, 25);
    EXPECT_TRUE(claims[0].ended);
    EXPECT_EQ(claims[1].holder, "b");
    EXPECT_EQ(claims[1].until_ms, 40);
    EXPECT_FALSE(claims[1].ended);
  } while (std::ranges::next_permutation(rows, by_id).found);
  EXPECT_EQ(orders, 5040);
}

}  // namespace
}  // namespace lithify::maintain
