#include "table/hive_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using plan::Verdict;
using sim::JobWorld;
using storage::FaultyStore;
using table::HiveClaim;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Rows = std::multiset<std::string>;

const std::string kSealed = JobWorld::Hour("10");
const std::string kLock = kSealed + "_compaction.lock";
const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};
constexpr auto kTtl = std::chrono::minutes(15);

class HiveClaimWorld : public testing::Test {
 protected:
  HiveClaimWorld() {
    world_.settings.claim_ttl = kTtl;
    world_.WriteFive(kSealed);
  }

  HiveClaim Another(Duration ttl) const {
    return {.holder = "another-1-00",
            .job_id = "j",
            .claimed_at = world_.clock.Now(),
            .expires_at = world_.clock.Now() + ttl};
  }
  void Put(const HiveClaim& claim) { PutText(table::SerializeClaim(claim)); }
  void PutText(const std::string& text) {
    ASSERT_TRUE(world_.store.PutNew(kLock, text).has_value());
  }
  std::string Text() {
    const auto blob = world_.store.Get(kLock, 1 << 20);
    return blob ? blob->bytes : "";
  }
  // The only partition of a sweep.
  PartitionOutcome Sweep() { return Sweep(world_.store); }
  PartitionOutcome Sweep(storage::Store& seen) { return Only(world_.Sweep(seen)); }
  static PartitionOutcome Only(const Result<SweepReport>& report) {
    EXPECT_EQ(report->partitions.size(), 1U);
    return report->partitions.front();
  }

  JobWorld world_;
};

TEST_F(HiveClaimWorld, Q3ClaimsWhileItRewritesAndNotBeforeOrAfter) {
  std::string at_work;
  std::vector<std::string> writes;
  FaultyStore seen(world_.store, [&](std::string_view op, const std::string& key, bool before) {
    if (before && op != "Get" && op != "List" && op != "Stat") {
      writes.push_back(std::string(op) + " " + key.substr(kSealed.size(), 16));
    }
    if (before && op == "Create") at_work = Text();
    return Status();
  });
  const PartitionOutcome outcome = Sweep(seen);
  EXPECT_EQ(outcome.outcome, Outcome::kCommitted);
  EXPECT_THAT(outcome.notes, IsEmpty());
  const auto claim = table::ParseClaim(at_work);
  ASSERT_TRUE(claim) << at_work;
  EXPECT_EQ(claim->job_id, world_.Events().back().job_id);
  EXPECT_EQ(claim->expires_at - claim->claimed_at, kTtl);
  EXPECT_EQ(writes.front(), "PutNew _compaction.lock");
  EXPECT_EQ(writes.back(), "Remove _compaction.lock");
  EXPECT_EQ(Text(), "");
  // Nothing to do: nothing to claim.
  writes.clear();
  EXPECT_EQ(Sweep(seen).outcome, Outcome::kSkipped);
  EXPECT_THAT(writes, IsEmpty());
}

TEST_F(HiveClaimWorld, Q3SomebodyElsesLiveClaimMeansToSkip) {
  Put(Another(kTtl));
  const std::string before = Text();
  const auto report = world_.Sweep();
  const PartitionOutcome outcome = Only(report);
  EXPECT_EQ(outcome.outcome, Outcome::kSkipped);
  EXPECT_EQ(outcome.plan.verdict, Verdict::kClaimed);
  EXPECT_EQ(outcome.plan.reason,
            "claimed by another-1-00 until " + FormatTime(world_.clock.Now() + kTtl));
  EXPECT_THAT(outcome.plan.inputs, IsEmpty());
  EXPECT_FALSE(report->failed());
  EXPECT_EQ(world_.Manifest(kSealed).generation, 0U);
  EXPECT_EQ(Text(), before);
  EXPECT_EQ(world_.progress.total_bytes, 0);

  world_.clock.Advance(kTtl);
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
  EXPECT_EQ(Text(), "");
}

TEST_F(HiveClaimWorld, ALateFileOfAClaimedPartitionIsAdopted) {
  ASSERT_EQ(Sweep().outcome, Outcome::kCommitted);
  world_.Write(kSealed, "late", {"r6"});
  Put(Another(kTtl));
  const PartitionOutcome outcome = Sweep();
  EXPECT_EQ(outcome.outcome, Outcome::kAdopted);
  EXPECT_EQ(outcome.plan.verdict, Verdict::kClaimed);
  EXPECT_EQ(world_.LiveRows(kSealed).size(), 6U);
}

TEST_F(HiveClaimWorld, AClaimThatRunsForMoreThanADayIsNotBelieved) {
  Put(Another(table::kClaimTtlMax + kTtl));
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
}

TEST_F(HiveClaimWorld, WithoutATtlNoClaimIsMadeOrHeeded) {
  world_.settings.claim_ttl = Duration::zero();
  Put(Another(kTtl));
  const std::string before = Text();
  EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
  EXPECT_EQ(Text(), before);
}

TEST_F(HiveClaimWorld, OwnClaimsAndThoseOfDeadProcessesAreNotWaitedFor) {
  for (const bool own : {true, false}) {
    JobWorld world;
    world.settings.claim_ttl = kTtl;
    world.WriteFive(kSealed);
    HiveClaim claim = Another(kTtl);
    if (own) claim.holder = "me";
    ASSERT_TRUE(world.store.PutNew(kLock, table::SerializeClaim(claim)).has_value());
    world.memory = std::make_shared<SweepMemory>(
        "me", [](const std::string& holder) { return holder == "another-1-00"; });
    EXPECT_EQ(Only(world.Sweep()).outcome, Outcome::kCommitted);
    EXPECT_EQ(world.Names(kSealed).count("_compaction.lock"), 0U);
  }
}

// But one of this process that is at work is.
TEST_F(HiveClaimWorld, TwoJobsOfOneProcessRespectEachOther) {
  world_.memory = std::make_shared<SweepMemory>("me");
  bool asked = false;
  FaultyStore seen(world_.store, [&](std::string_view op, const std::string&, bool before) {
    if (before && op == "Create" && !asked) {
      asked = true;
      EXPECT_EQ(Sweep().plan.verdict, Verdict::kClaimed);
    }
    return Status();
  });
  EXPECT_EQ(Sweep(seen).outcome, Outcome::kCommitted);
  EXPECT_TRUE(asked);
}

TEST_F(HiveClaimWorld, EveryFailureMeansToGoOnWithoutAClaim) {
  for (const std::string failing : {"PutNew", "Get", "PutIf", "Remove"}) {
    for (const bool applied : {false, true}) {
      JobWorld world;
      world.settings.claim_ttl = kTtl;
      world.WriteFive(kSealed);
      if (failing == "Get" || failing == "PutIf") {
        ASSERT_TRUE(
            world.store.PutNew(kLock, table::SerializeClaim(Another(Duration(-1)))).has_value());
      }
      FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
        const bool strikes = op == failing && key == kLock && before != applied;
        return strikes ? Status(Fail(Code::kUnknownOutcome, "injected", key)) : Status();
      });
      const PartitionOutcome outcome = Only(world.Sweep(seen));
      EXPECT_EQ(outcome.outcome, Outcome::kCommitted) << failing;
      // The next look shows a claim that was taken over.
      const size_t notes = failing == "PutIf" && applied ? 0 : 1;
      EXPECT_THAT(outcome.notes, testing::Each(HasSubstr("injected"))) << failing;
      EXPECT_EQ(outcome.notes.size(), notes) << failing;
      EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
      // What was put and is not known to be is removed as well.
      const bool left =
          failing == "Get" || (failing == "PutIf" && !applied) || (failing == "Remove" && !applied);
      EXPECT_EQ(world.Names(kSealed).count("_compaction.lock"), left ? 1U : 0U) << failing;
    }
  }
}

// H5: the claim is looked for before it is done without.
TEST_F(HiveClaimWorld, ALostAnswerIsNoFailure) {
  for (const std::string failing : {"PutNew", "PutIf"}) {
    for (const bool applied : {false, true}) {
      JobWorld world;
      world.settings.claim_ttl = kTtl;
      world.WriteFive(kSealed);
      if (failing == "PutIf") {
        ASSERT_TRUE(
            world.store.PutNew(kLock, table::SerializeClaim(Another(Duration(-1)))).has_value());
      }
      bool lost = false;
      bool claimed = false;
      FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
        if (op == "Create")
          claimed =
              table::ParseClaim(world.store.Get(kLock, 9999)->bytes)->holder != "another-1-00";
        if (lost || op != failing || key != kLock || before == applied) return Status();
        lost = true;
        return Status(Fail(Code::kUnknownOutcome, "injected", key));
      });
      const PartitionOutcome outcome = Only(world.Sweep(seen));
      EXPECT_EQ(outcome.outcome, Outcome::kCommitted) << failing;
      EXPECT_TRUE(lost && claimed) << failing << applied;
      EXPECT_THAT(outcome.notes, IsEmpty()) << failing << applied;
      EXPECT_EQ(world.Names(kSealed).count("_compaction.lock"), 0U) << failing << applied;
    }
  }
}

TEST_F(HiveClaimWorld, AFileThatIsNoClaimIsLeftAlone) {
  PutText("pid 17\n");
  const PartitionOutcome outcome = Sweep();
  EXPECT_EQ(outcome.outcome, Outcome::kCommitted);
  EXPECT_THAT(outcome.notes, ElementsAre(HasSubstr("goes on without a claim")));
  world_.clock.Advance(std::chrono::hours(30));
  const auto report = world_.Sweep();
  EXPECT_EQ(Text(), "pid 17\n");
  EXPECT_FALSE(report->failed());
}

TEST_F(HiveClaimWorld, IsRenewedByProgress) {
  std::vector<Time> expiries;
  FaultyStore seen(world_.store, [&](std::string_view op, const std::string& key, bool before) {
    // Loading is over once there is a claim.
    if (before && op == "Get" && key.ends_with(".parquet") && !Text().empty()) {
      world_.clock.Advance(std::chrono::minutes(4));
    }
    if (before && op == "Create") expiries.push_back(table::ParseClaim(Text())->expires_at);
    return Status();
  });
  const Time begin = world_.clock.Now();
  EXPECT_EQ(Sweep(seen).outcome, Outcome::kCommitted);
  // Half of the 15 minutes are over after the second input, and again after the fourth.
  EXPECT_THAT(expiries, ElementsAre(begin + std::chrono::minutes(16) + kTtl));
  EXPECT_EQ(Text(), "");
}

TEST_F(HiveClaimWorld, AClaimThatWasTakenOverIsTheOthers) {
  bool taken = false;
  FaultyStore seen(world_.store, [&](std::string_view op, const std::string& key, bool before) {
    if (before && op == "Get" && key.ends_with(".parquet") && !Text().empty() && !taken) {
      taken = true;
      world_.clock.Advance(std::chrono::minutes(20));
      EXPECT_TRUE(world_.store.Remove(kLock).has_value());
      Put(Another(kTtl));
    }
    return Status();
  });
  const PartitionOutcome outcome = Sweep(seen);
  EXPECT_EQ(outcome.outcome, Outcome::kCommitted);
  EXPECT_THAT(outcome.notes, ElementsAre(HasSubstr("another-1-00 has taken it over")));
  EXPECT_THAT(Text(), HasSubstr("another-1-00"));
}

TEST_F(HiveClaimWorld, IsReleasedWhenTheWorkFailsOrStops) {
  for (const Code code : {Code::kCorrupt, Code::kTransient, Code::kConflict, Code::kUnknownOutcome,
                          Code::kCancelled}) {
    FaultyStore seen(world_.store, [&](std::string_view op, const std::string& key, bool before) {
      // (kCancelled from the hook would be a crash.)
      const bool strikes = op == "Create" && before && code != Code::kCancelled;
      return strikes ? Status(Fail(code, "injected", key)) : Status();
    });
    CancelFlag cancel;
    FaultyStore stopping(seen, [&](std::string_view op, const std::string&, bool before) {
      if (op == "Create" && before && code == Code::kCancelled) cancel.Request();
      return Status();
    });
    const auto report = world_.Job(stopping).Sweep({}, false, cancel);
    EXPECT_NE(Only(report).outcome, Outcome::kCommitted);
    EXPECT_TRUE(Only(report).error.has_value());
    EXPECT_EQ(Text(), "") << CodeName(code);
  }
}

// The other one finishes between our plan and our claim: its work is not done again.
TEST_F(HiveClaimWorld, LooksAgainAfterClaiming) {
  bool other = false;
  int created = 0;
  FaultyStore seen(world_.store, [&](std::string_view op, const std::string& key, bool before) {
    if (before && op == "PutNew" && key == kLock && !other) {
      other = true;
      EXPECT_EQ(Sweep().outcome, Outcome::kCommitted);
    }
    created += op == "Create";
    return Status();
  });
  const PartitionOutcome outcome = Sweep(seen);
  EXPECT_TRUE(other);
  EXPECT_EQ(outcome.outcome, Outcome::kSkipped);
  EXPECT_EQ(outcome.plan.verdict, Verdict::kIrreducible);
  EXPECT_EQ(outcome.generation, 2U);
  EXPECT_EQ(created, 0);
  EXPECT_EQ(Text(), "");
}

TEST_F(HiveClaimWorld, CollectionTakesClaimsOfDeadProcessesAfterTheGrace) {
  ASSERT_EQ(Sweep().outcome, Outcome::kCommitted);
  Put(Another(std::chrono::hours(20)));
  world_.memory = std::make_shared<SweepMemory>("me", [](const std::string&) { return true; });
  EXPECT_TRUE(world_.Job().Collect({}, false, CancelFlag()).has_value());
  EXPECT_NE(Text(), "");
  world_.clock.Advance(std::chrono::hours(1));
  EXPECT_TRUE(world_.Job().Collect({}, false, CancelFlag()).has_value());
  EXPECT_EQ(Text(), "");
}

TEST_F(HiveClaimWorld, CollectionTakesExpiredClaimsAfterTheGrace) {
  ASSERT_EQ(Sweep().outcome, Outcome::kCommitted);
  Put(Another(std::chrono::hours(3)));
  const auto collect = [&](bool dry_run) {
    return *world_.Job().Collect({}, dry_run, CancelFlag());
  };
  const auto is_claim = [](const GcReport::Item& item) { return item.key == kLock; };
  // Young; then old and live; then expired.
  EXPECT_THAT(collect(false).removed, Not(Contains(testing::Truly(is_claim))));
  world_.clock.Advance(std::chrono::hours(3) - Duration(1));
  GcReport live = collect(false);
  EXPECT_THAT(live.removed, Not(Contains(testing::Truly(is_claim))));
  EXPECT_THAT(live.kept, Contains(testing::Truly(is_claim)));
  world_.clock.Advance(Duration(1));
  EXPECT_THAT(collect(true).removed, Contains(testing::Truly(is_claim)));
  EXPECT_NE(Text(), "");
  EXPECT_THAT(collect(false).removed, Contains(testing::Truly(is_claim)));
  EXPECT_EQ(Text(), "");
  EXPECT_THAT(collect(false).errors, IsEmpty());
}

}  // namespace
}  // namespace lithify::job
