#include "fleet/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lithify::fleet {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Action::Kind;

// An action in a few characters: "start 0>1#2" is group 0 on worker 1 as attempt 2.
std::string Show(const Action& a) {
  const std::string attempt = "#" + std::to_string(a.attempt);
  switch (a.kind) {
    case Kind::kProbe: return "probe " + std::to_string(a.worker);
    case Kind::kStart:
      return (a.hedge ? "hedge " : "start ") + std::to_string(a.group) + ">" +
             std::to_string(a.worker) + attempt;
    case Kind::kCancel: return "cancel " + attempt;
    case Kind::kDrop: return "drop " + attempt;
    case Kind::kAdopt: return "adopt " + attempt;
    case Kind::kGroupDone: return "done " + std::to_string(a.group) + attempt;
    case Kind::kGroupFailed: return "failed " + std::to_string(a.group);
    case Kind::kJobEnded: return "ended " + std::to_string(a.job);
  }
  return "";
}

std::vector<std::string> Show(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions) texts.push_back(Show(action));
  return texts;
}

Error Refused() { return {Code::kTransient, "connection refused", "", ""}; }

class PlacementTest : public testing::Test {
 protected:
  // Workers "w0", "w1", … that are well, with ids "id0", …
  void Begin(int workers, int cap = 1, int64_t memory = 0, PlacementOptions options = {}) {
    placement_ = Placement(options);
    std::vector<std::string> addresses;
    for (int w = 0; w < workers; ++w) addresses.push_back("w" + std::to_string(w));
    placement_.SetWorkers(addresses, now_);
    for (int w = 0; w < workers; ++w) Answer(w, cap, memory);
  }
  WorkerFacts Facts(int w, int cap, int64_t memory = 0) {
    return {.id = "id" + std::to_string(w), .max_inflight_groups = cap, .memory_bytes = memory};
  }
  Actions Answer(int w, int cap = 1, int64_t memory = 0) {
    WorkerFacts facts = Facts(w, cap, memory);
    facts.inflight = placement_.workers()[static_cast<size_t>(w)].running;
    return placement_.OnStatus(w, facts, now_);
  }
  Actions Add(const std::vector<int64_t>& bytes, int64_t memory = 0) {
    std::vector<GroupSize> sizes;
    for (const int64_t size : bytes) sizes.push_back({size, memory});
    return placement_.AddJob(sizes, now_).second;
  }
  Health HealthOf(size_t w) { return placement_.workers()[w].health; }

  Duration now_ = seconds(1000);
  Placement placement_{PlacementOptions{}};
};

TEST_F(PlacementTest, TheLargestFirstAndAFreedSlotIsFilledAtOnce) {
  Begin(2);
  EXPECT_THAT(Show(Add({10, 30, 20, 40})), ElementsAre("start 3>0#0", "start 1>1#1"));
  EXPECT_EQ(placement_.queue(),
            (QueueLengths{.waiting_groups = 2, .waiting_bytes = 30, .running_groups = 2}));
  // The worker is free while its outputs are taken over.
  EXPECT_THAT(Show(placement_.OnFinished(1, now_)), ElementsAre("adopt #1", "start 2>1#2"));
  EXPECT_THAT(Show(placement_.OnAdopted(1, now_)), ElementsAre("done 1#1"));
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), ElementsAre("adopt #0", "start 0>0#3"));
  EXPECT_THAT(Show(placement_.OnFinished(2, now_)), ElementsAre("adopt #2"));
  EXPECT_THAT(Show(placement_.OnAdopted(2, now_)), ElementsAre("done 2#2"));
  EXPECT_THAT(Show(placement_.OnFinished(3, now_)), ElementsAre("adopt #3"));
  EXPECT_THAT(Show(placement_.OnAdopted(3, now_)), ElementsAre("done 0#3"));
  EXPECT_THAT(Show(placement_.OnAdopted(0, now_)), ElementsAre("done 3#0", "ended 0"));
  EXPECT_EQ(placement_.counters().groups_done, 4);
  EXPECT_EQ(placement_.counters().bytes_done, 100);
}

TEST_F(PlacementTest, NothingToDoEndsAtOnce) {
  Begin(1);
  EXPECT_THAT(Show(Add({})), ElementsAre("ended 0"));
}

TEST_F(PlacementTest, CapsAreTheSmallerOfTheWorkersAndOurs) {
  PlacementOptions options;
  options.max_inflight_groups_per_worker = 2;
  Begin(1, 3, 0, options);
  EXPECT_THAT(Show(Add({3, 2, 1})), ElementsAre("start 0>0#0", "start 1>0#1"));
}

TEST_F(PlacementTest, SlotsOfOtherCoordinatorsAreTheirs) {
  Begin(2, 2);
  WorkerFacts facts = Facts(0, 2);
  facts.inflight = 2;
  placement_.OnStatus(0, facts, now_);
  EXPECT_THAT(Show(Add({3, 2, 1})), ElementsAre("start 0>1#0", "start 1>1#1"));
  facts.inflight = 1;
  EXPECT_THAT(Show(placement_.OnStatus(0, facts, now_)), ElementsAre("start 2>0#2"));
}

TEST_F(PlacementTest, MemoryIsABoundAndALargeGroupIsNotPassedByForEver) {
  Begin(1, 4, 100);
  placement_.AddJob({{50, 60}, {40, 30}, {30, 30}}, now_);  // 0 and 1 start, 2 has no room.
  EXPECT_EQ(placement_.workers()[0].memory_used, 90);
  // A group that wants more than there is gets all of it, alone, and before smaller ones.
  const auto [job, none] = placement_.AddJob({{90, 500}}, now_);
  EXPECT_THAT(none, IsEmpty());
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), ElementsAre("adopt #0"));
  const Actions last = placement_.OnFinished(1, now_);
  ASSERT_THAT(Show(last), ElementsAre("adopt #1", "start 2>0#2"));
}

TEST_F(PlacementTest, WhatFailsInTransportGoesToAnotherWorkerAndTheOneRests) {
  Begin(2);
  EXPECT_THAT(Show(Add({20, 10})), ElementsAre("start 0>0#0", "start 1>1#1"));
  EXPECT_THAT(Show(placement_.OnFailed(0, true, Refused(), now_)), IsEmpty());
  EXPECT_EQ(HealthOf(0), Health::kUnhealthy);
  EXPECT_EQ(placement_.healthy(), 1);
  EXPECT_THAT(Show(placement_.OnFinished(1, now_)), ElementsAre("adopt #1", "start 0>1#2"));
  EXPECT_EQ(placement_.counters().retries, 1);
  EXPECT_THAT(Show(placement_.Tick(now_ + seconds(4))), IsEmpty());
  now_ += seconds(5);
  EXPECT_THAT(Show(placement_.Tick(now_)), ElementsAre("probe 0", "probe 1"));
  // It answers: it is well again, and told what it was not told.
  EXPECT_THAT(Show(Answer(0)), ElementsAre("drop #0"));
  EXPECT_EQ(HealthOf(0), Health::kHealthy);
  // The next failure rests it for longer.
  Add({5});
  placement_.OnFailed(3, true, Refused(), now_);
  EXPECT_THAT(Show(placement_.Tick(now_ + seconds(9))), testing::Not(testing::Contains("probe 0")));
  EXPECT_THAT(Show(placement_.Tick(now_ + seconds(10))), testing::Contains("probe 0"));
}

TEST_F(PlacementTest, AnAnswerFromBeforeTheFailureIsNoRecovery) {
  Begin(2);
  Add({10});
  placement_.Tick(now_ + seconds(6));  // Asks both.
  placement_.OnFailed(0, true, Refused(), now_ + seconds(7));
  Answer(0);
  EXPECT_EQ(HealthOf(0), Health::kUnhealthy);
}

TEST_F(PlacementTest, AGroupThatFailedOnEveryHealthyWorkerFails) {
  Begin(2);
  Add({20});
  placement_.OnFailed(0, true, Refused(), now_);
  now_ += seconds(6);
  placement_.Tick(now_);
  Answer(0);  // Well, but not for this group.
  Answer(1);
  const Actions last = placement_.OnFailed(1, true, Refused(), now_);
  EXPECT_THAT(Show(last), IsEmpty());  // Worker 1 may come back as another.
  now_ += seconds(5);
  placement_.Tick(now_);
  const Actions end = Answer(1);
  ASSERT_THAT(Show(end), ElementsAre("drop #1", "failed 0", "ended 0"));
  EXPECT_THAT(end[1].error.message, HasSubstr("failed on every healthy worker, 2 of 2"));
  EXPECT_THAT(end[1].error.message, HasSubstr("connection refused"));
}

TEST_F(PlacementTest, AttemptsAreBounded) {
  PlacementOptions options;
  options.group_attempts = 2;
  Begin(3, 1, 0, options);
  Add({20});
  EXPECT_THAT(Show(placement_.OnFailed(0, true, Refused(), now_)), ElementsAre("start 0>1#1"));
  const Actions end = placement_.OnFailed(1, true, Refused(), now_);
  ASSERT_THAT(Show(end), ElementsAre("failed 0", "ended 0"));
  EXPECT_EQ(end[0].error.code, Code::kTransient);
  EXPECT_EQ(end[0].error.message, "failed 2 times, the last time with: connection refused");
}

TEST_F(PlacementTest, WithoutAnyWorkerAJobWaitsAndThenFails) {
  Begin(0);
  EXPECT_THAT(Show(Add({20, 10})), IsEmpty());
  placement_.Tick(now_);
  EXPECT_THAT(Show(placement_.Tick(now_ + seconds(29))), IsEmpty());
  const Actions end = placement_.Tick(now_ + seconds(30));
  ASSERT_THAT(Show(end), ElementsAre("failed 0", "failed 1", "ended 0"));
  EXPECT_EQ(end[0].error.message, "no worker is healthy, of 0 known ones");
}

TEST_F(PlacementTest, AWorkerThatComesInTimeTakesWhatWaits) {
  Begin(0);
  Add({20});
  placement_.Tick(now_);
  EXPECT_THAT(Show(placement_.SetWorkers({"a"}, now_ + seconds(20))), ElementsAre("probe 0"));
  EXPECT_THAT(Show(placement_.OnStatus(0, Facts(0, 1), now_ + seconds(20))),
              ElementsAre("start 0>0#0"));
}

TEST_F(PlacementTest, AFailureOfTheApplicationIsNotTriedElsewhere) {
  Begin(2);
  Add({20, 10, 5, 4});
  const Error corrupt{Code::kCorrupt, "rows do not match", "", ""};
  const Actions end = placement_.OnFailed(0, false, corrupt, now_);
  ASSERT_THAT(Show(end), ElementsAre("failed 0"));
  EXPECT_EQ(end[0].error.code, Code::kCorrupt);
  EXPECT_EQ(HealthOf(0), Health::kHealthy);
  // What to do with the others is the job's to say; nothing is begun before.
  EXPECT_THAT(Show(placement_.Tick(now_)), IsEmpty());
  EXPECT_THAT(Show(placement_.StopJob(0, now_)), ElementsAre("cancel #1", "drop #1", "ended 0"));
  EXPECT_EQ(placement_.workers()[1].running, 1);  // Until its call returns.
  EXPECT_THAT(Show(placement_.OnFailed(1, true, Refused(), now_)), IsEmpty());
  EXPECT_EQ(placement_.workers()[1].running, 0);
  EXPECT_EQ(HealthOf(1), Health::kHealthy);
}

TEST_F(PlacementTest, AfterAFailureTheOthersGoOnWhenToldSo) {
  Begin(1);
  Add({20, 10});
  EXPECT_THAT(Show(placement_.OnFailed(0, false, Refused(), now_)), ElementsAre("failed 0"));
  EXPECT_THAT(Show(placement_.GoOn(0, now_)), ElementsAre("start 1>0#1"));
}

TEST_F(PlacementTest, ARefusalIsNoFailure) {
  Begin(1);
  Add({20});
  const Error full{Code::kLimit, "full", "", ""};
  EXPECT_THAT(Show(placement_.OnRefused(0, full, now_)), IsEmpty());
  EXPECT_EQ(HealthOf(0), Health::kHealthy);
  EXPECT_THAT(Show(placement_.Tick(now_ + seconds(1))), ElementsAre("probe 0"));
  EXPECT_THAT(Show(Answer(0)), ElementsAre("start 0>0#1"));
  EXPECT_EQ(placement_.counters().retries, 0);
}

TEST_F(PlacementTest, DrainingWorkersFinishWhatTheyHave) {
  Begin(1, 2);
  EXPECT_THAT(Show(Add({20})), ElementsAre("start 0>0#0"));
  WorkerFacts facts = Facts(0, 2);
  facts.draining = true;
  placement_.OnStatus(0, facts, now_);
  EXPECT_EQ(placement_.healthy(), 0);
  EXPECT_THAT(Show(Add({10})), IsEmpty());
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), ElementsAre("adopt #0"));
  EXPECT_THAT(Show(placement_.OnAdopted(0, now_)), ElementsAre("done 0#0", "ended 0"));
}

TEST_F(PlacementTest, ARestartedWorkerHasLostWhatItDid) {
  Begin(2);
  Add({20});
  WorkerFacts facts = Facts(0, 1);
  facts.id = "another";
  EXPECT_THAT(Show(placement_.OnStatus(0, facts, now_)),
              ElementsAre("cancel #0", "drop #0", "start 0>1#1"));
  EXPECT_EQ(placement_.counters().restarts, 1);
  EXPECT_THAT(Show(placement_.OnFailed(0, true, Refused(), now_)), IsEmpty());
  EXPECT_EQ(HealthOf(0), Health::kHealthy);
}

TEST_F(PlacementTest, OneWorkerAtTwoAddressesIsOne) {
  placement_.SetWorkers({"a", "b"}, now_);
  placement_.OnStatus(0, Facts(7, 1), now_);
  placement_.OnStatus(1, Facts(7, 1), now_);
  EXPECT_EQ(placement_.healthy(), 1);
  EXPECT_THAT(Show(Add({20, 10})), ElementsAre("start 0>0#0"));
}

TEST_F(PlacementTest, ALostAnswerToAnAdoptionIsAskedForAgainAndThenNotUsed) {
  Begin(2);
  Add({20});
  placement_.OnFinished(0, now_);
  for (int n = 0; n < 2; ++n) {
    EXPECT_THAT(placement_.OnAdoptFailed(0, true, Refused(), now_), IsEmpty());
    now_ += seconds(1);
    EXPECT_THAT(Show(placement_.Tick(now_)), testing::Contains("adopt #0"));
  }
  // Nobody knows: nothing of it is dropped.
  EXPECT_THAT(Show(placement_.OnAdoptFailed(0, true, Refused(), now_)), ElementsAre("start 0>1#1"));
  EXPECT_THAT(placement_.OnAdopted(0, now_), IsEmpty());
}

TEST_F(PlacementTest, WhatAWorkerHasRemovedIsDoneAgain) {
  Begin(2);
  Add({20});
  placement_.OnFinished(0, now_);
  const Error gone{Code::kNotFound, "no such attempt", "", ""};
  EXPECT_THAT(Show(placement_.OnAdoptFailed(0, false, gone, now_)), ElementsAre("start 0>1#1"));
  EXPECT_EQ(HealthOf(0), Health::kHealthy);
}

TEST_F(PlacementTest, AWorkerThatForgotItsResultIsAskedWhetherItWasRestarted) {
  Begin(1);
  Add({20});
  placement_.OnFinished(0, now_);
  const Error gone{Code::kNotFound, "no such attempt", "", ""};
  // The only worker is not taken for one that failed before it has said that it is the same.
  EXPECT_THAT(Show(placement_.OnAdoptFailed(0, false, gone, now_)), IsEmpty());
  EXPECT_THAT(Show(placement_.Tick(now_)), ElementsAre("probe 0"));
  EXPECT_THAT(Show(placement_.OnStatus(0, {.id = "id0, restarted"}, now_)),
              ElementsAre("start 0>0#1"));
}

TEST_F(PlacementTest, AWorkerThatForgotItsResultInOneLifeFailedWithTheGroup) {
  Begin(1);
  Add({20});
  placement_.OnFinished(0, now_);
  const Error gone{Code::kNotFound, "no such attempt", "", ""};
  placement_.OnAdoptFailed(0, false, gone, now_);
  placement_.Tick(now_);
  const Actions actions = Answer(0);
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions[0].kind, Action::Kind::kGroupFailed);
  // Nothing of the table is missing.
  EXPECT_EQ(actions[0].error.code, Code::kTransient);
  EXPECT_THAT(actions[0].error.message, HasSubstr("no longer has its result"));
}

TEST_F(PlacementTest, ALaggingGroupIsRepeatedOnceAndTheFirstResultCounts) {
  Begin(3);
  Add({1000, 1000});
  now_ += seconds(100);
  placement_.OnFinished(1, now_);  // 10 bytes a second.
  placement_.OnAdopted(1, now_);
  placement_.OnProgress(0, 100, now_);  // One byte a second: 900 s are left, 100 s anew.
  const auto only = [](const std::vector<std::string>& texts) {
    std::vector<std::string> rest;
    for (const auto& text : texts) {
      if (!text.starts_with("probe")) rest.push_back(text);
    }
    return rest;
  };
  EXPECT_THAT(only(Show(placement_.Tick(now_))), ElementsAre("hedge 0>1#2"));
  EXPECT_THAT(only(Show(placement_.Tick(now_ + seconds(1)))), IsEmpty());
  EXPECT_THAT(Show(placement_.OnFinished(2, now_)), ElementsAre("adopt #2"));
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), IsEmpty());  // A spare, for the time being.
  EXPECT_THAT(Show(placement_.OnAdopted(2, now_)), ElementsAre("done 0#2", "drop #0", "ended 0"));
  EXPECT_EQ(placement_.counters().hedges_won, 1);
}

TEST_F(PlacementTest, TheSpareIsUsedIfTheFirstCannotBeAdopted) {
  PlacementOptions options;
  options.adopt_tries = 1;
  Begin(3, 1, 0, options);
  Add({1000, 1000});
  now_ += seconds(100);
  placement_.OnFinished(1, now_);
  placement_.OnAdopted(1, now_);
  placement_.OnProgress(0, 100, now_);
  placement_.Tick(now_);
  placement_.OnFinished(2, now_);
  placement_.OnFinished(0, now_);
  EXPECT_THAT(Show(placement_.OnAdoptFailed(2, true, Refused(), now_)), ElementsAre("adopt #0"));
  EXPECT_THAT(Show(placement_.OnAdopted(0, now_)), ElementsAre("done 0#0", "ended 0"));
}

TEST_F(PlacementTest, NothingIsRepeatedWhereItSavesNothing) {
  Begin(3);
  Add({1000, 1000});
  now_ += seconds(100);
  placement_.OnFinished(1, now_);
  placement_.OnProgress(0, 900, now_);  // 11 s are left.
  for (const std::string& text : Show(placement_.Tick(now_))) {
    EXPECT_THAT(text, testing::StartsWith("probe"));
  }
}

TEST_F(PlacementTest, JobsShareTheSlots) {
  Begin(2);
  Add({100, 90, 80});
  Add({2, 1});
  // The freed slot is the second job's, small as its groups are.
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), ElementsAre("adopt #0", "start 0>0#2"));
  EXPECT_THAT(Show(placement_.OnFinished(1, now_)), ElementsAre("adopt #1", "start 2>1#3"));
}

TEST_F(PlacementTest, AStoppedJobStillGetsWhatIsBeingAdopted) {
  Begin(2);
  Add({20, 10});
  placement_.OnFinished(0, now_);
  EXPECT_THAT(Show(placement_.StopJob(0, now_)), ElementsAre("cancel #1", "drop #1"));
  EXPECT_THAT(Show(placement_.OnAdopted(0, now_)), ElementsAre("done 0#0", "ended 0"));
}

TEST_F(PlacementTest, AnAbandonedJobEndsAtOnce) {
  Begin(2);
  Add({20, 10});
  placement_.OnFinished(0, now_);
  EXPECT_THAT(Show(placement_.AbandonJob(0, now_)), ElementsAre("cancel #1", "drop #1", "ended 0"));
  EXPECT_THAT(placement_.OnAdopted(0, now_), IsEmpty());
}

TEST_F(PlacementTest, WhatDiscoveryNoLongerListsGetsNothingNew) {
  Begin(2);
  Add({20});
  placement_.SetWorkers({"w1"}, now_);
  EXPECT_EQ(placement_.listed(), 1);
  EXPECT_THAT(Show(Add({10, 5})), ElementsAre("start 0>1#1"));
  EXPECT_THAT(Show(placement_.OnFinished(0, now_)), ElementsAre("adopt #0"));
}

}  // namespace
}  // namespace lithify::fleet
