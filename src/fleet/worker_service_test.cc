#include "fleet/worker_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fleet/scripted_attempt.h"

namespace lithify::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WorkerServiceTest : public testing::Test {
 protected:
  WorkerService& Make(Duration unadopted = std::chrono::minutes(10)) {
    WorkerOptions options;
    options.id = "w/1";
    options.version = "0.1.0";
    options.max_inflight_groups = 2;
    options.threads = 5;
    options.memory_bytes = 1000;
    options.unadopted = unadopted;
    service_ = WorkerService::Make(options, script_.Opener(), clock_);
    return *service_;
  }
  // The last frame.
  static Frame LastOf(WorkerService::Follower& follower) {
    for (int i = 0; i < 3000; ++i) {
      auto frame = follower.Next(milliseconds(10));
      EXPECT_TRUE(frame);
      if (!frame) break;
      if (!std::holds_alternative<ProgressFrame>(*frame)) return *frame;
    }
    ADD_FAILURE() << "no last frame";
    return AcceptedFrame();
  }
  static LinkError ErrorOf(const Frame& frame) {
    const auto* failed = std::get_if<FailedFrame>(&frame);
    EXPECT_NE(failed, nullptr);
    return failed == nullptr ? LinkError{} : failed->error;
  }
  // An attempt that was run to its end.
  std::unique_ptr<WorkerService::Follower> Finished(const std::string& name) {
    auto follower = service_->Begin(OrderOf(name));
    EXPECT_TRUE(follower);
    script_.End(name, result_);
    EXPECT_TRUE(std::holds_alternative<DoneFrame>(LastOf(**follower)));
    return *std::move(follower);
  }

  SystemClock clock_;
  Script script_;
  group::GroupResult result_ = WireWorld(7).Result();
  std::unique_ptr<WorkerService> service_;
};

TEST_F(WorkerServiceTest, ToldHowFarItIsAndWhatCameOfIt) {
  WorkerService& service = Make();
  auto follower = service.Begin(OrderOf("a", 17));
  ASSERT_TRUE(follower);
  ASSERT_TRUE(script_.WaitForStart("a"));
  EXPECT_EQ(service.AskStatus().inflight, 1);
  EXPECT_EQ(std::get<ProgressFrame>(*(*follower)->Next(milliseconds(1))),
            (ProgressFrame{.group_id = 17, .bytes_read = 0, .moved = false}));
  script_.Move("a", 500);
  EXPECT_EQ(std::get<ProgressFrame>(*(*follower)->Next(milliseconds(1))),
            (ProgressFrame{.group_id = 17, .bytes_read = 500, .moved = true}));
  // Nothing moves: that is told, too.
  EXPECT_FALSE(std::get<ProgressFrame>(*(*follower)->Next(milliseconds(1))).moved);
  script_.Move("a", 0);
  EXPECT_TRUE(std::get<ProgressFrame>(*(*follower)->Next(milliseconds(1))).moved);
  script_.End("a", result_);
  const Frame last = LastOf(**follower);
  EXPECT_EQ(std::get<DoneFrame>(last).group_id, 17);
  EXPECT_EQ(Difference(std::get<DoneFrame>(last).result, result_), "");
  EXPECT_FALSE((*follower)->Next(milliseconds(1)));
  EXPECT_EQ(service.AskStatus().inflight, 0);
  EXPECT_EQ(script_.removed(), 0);
}

TEST_F(WorkerServiceTest, AdoptedOutputsStayWhateverComes) {
  WorkerService& service = Make();
  auto follower = Finished("a");
  EXPECT_TRUE(service.Adopt("a"));
  EXPECT_TRUE(service.Adopt("a"));  // Asked again.
  EXPECT_EQ(service.Drop("a").error().error.code, Code::kInvalid);
  follower.reset();
  service_.reset();
  EXPECT_EQ(script_.removed(), 0);
}

TEST_F(WorkerServiceTest, DroppedOutputsAreGone) {
  WorkerService& service = Make();
  const auto follower = Finished("a");
  EXPECT_TRUE(service.Drop("a"));
  EXPECT_EQ(script_.removed(), 1);
  const auto late = service.Adopt("a");
  ASSERT_FALSE(late);
  EXPECT_FALSE(late.error().transport);
  EXPECT_EQ(late.error().error.code, Code::kNotFound);
  EXPECT_TRUE(service.Drop("a"));
  service_.reset();
  EXPECT_EQ(script_.removed(), 1);
}

TEST_F(WorkerServiceTest, NobodyTakesThem) {
  WorkerService& service = Make(milliseconds(50));
  const auto follower = Finished("a");
  EXPECT_TRUE(script_.WaitForRemovals(1));
  EXPECT_EQ(service.Adopt("a").error().error.code, Code::kNotFound);
}

// The control of the one above: with the time that there is by default they stay.
TEST_F(WorkerServiceTest, TheyWaitForWhoTakesThem) {
  WorkerService& service = Make();
  const auto follower = Finished("a");
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(script_.removed(), 0);
  EXPECT_TRUE(service.Adopt("a"));
}

TEST_F(WorkerServiceTest, WhoIsGoneWantsNothing) {
  WorkerService& service = Make();
  auto follower = service.Begin(OrderOf("a"));
  ASSERT_TRUE(script_.WaitForStart("a"));
  follower->reset();
  EXPECT_TRUE(script_.WaitForCancel("a"));
  EXPECT_EQ(service.Adopt("a").error().error.code == Code::kNotFound ||
                service.Adopt("a").error().error.code == Code::kInvalid,
            true);
}

// Done in the same moment: what it wrote is removed.
TEST_F(WorkerServiceTest, DroppedWhileItEnds) {
  WorkerService& service = Make();
  script_.IgnoreCancel();
  auto follower = service.Begin(OrderOf("a"));
  ASSERT_TRUE(script_.WaitForStart("a"));
  EXPECT_TRUE(service.Drop("a"));
  ASSERT_TRUE(script_.WaitForCancel("a"));
  script_.End("a", result_);
  EXPECT_TRUE(script_.WaitForRemovals(1));
  EXPECT_EQ(ErrorOf(LastOf(**follower)).error.code, Code::kCancelled);
  EXPECT_EQ(service.Adopt("a").error().error.code, Code::kNotFound);
}

TEST_F(WorkerServiceTest, RunningOnesAreNotAdopted) {
  WorkerService& service = Make();
  auto follower = service.Begin(OrderOf("a"));
  EXPECT_EQ(service.Adopt("a").error().error.code, Code::kInvalid);
  EXPECT_EQ(service.Adopt("b").error().error.code, Code::kNotFound);
}

TEST_F(WorkerServiceTest, FullAndNoMore) {
  WorkerService& service = Make();
  auto one = service.Begin(OrderOf("a"));
  auto two = service.Begin(OrderOf("b"));
  ASSERT_TRUE(one && two);
  const auto three = service.Begin(OrderOf("c"));
  ASSERT_FALSE(three);
  EXPECT_TRUE(three.error().transport);
  EXPECT_EQ(three.error().error.code, Code::kLimit);
  script_.End("a", result_);
  LastOf(**one);
  EXPECT_TRUE(service.Begin(OrderOf("c")));  // Done ones take no place.
}

TEST_F(WorkerServiceTest, MemoryAndThreadsAreShared) {
  WorkerService& service = Make();
  GroupOrder large = OrderOf("large");
  large.memory_bytes = 700;
  auto one = service.Begin(large);
  ASSERT_TRUE(one);
  EXPECT_EQ(script_.grant("large").memory_bytes, 700);
  EXPECT_EQ(script_.grant("large").threads, 2);
  const auto refused = service.Begin(OrderOf("b"));  // Half of all.
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().transport);
  GroupOrder small = OrderOf("small");
  small.memory_bytes = 300;
  auto two = service.Begin(small);
  EXPECT_TRUE(two);
  script_.EndAll(result_);
  LastOf(**one);
  LastOf(**two);
  GroupOrder huge = OrderOf("huge");
  huge.memory_bytes = 1 << 30;
  EXPECT_TRUE(service.Begin(huge));
  EXPECT_EQ(script_.grant("huge").memory_bytes, 1000);
}

// Of two attempts one loads at a time. Who waits moves as long as others do, or it would be given
// up for nothing; and not longer, or nobody would ever give up.
TEST_F(WorkerServiceTest, TheyTakeTurnsAtLoading) {
  WorkerService& service = Make();
  auto one = service.Begin(OrderOf("a"));
  auto two = service.Begin(OrderOf("b"));
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(script_.WaitForStart("a") && script_.WaitForStart("b"));
  const auto moved = [](const auto& follower) {
    return std::get<ProgressFrame>(*(*follower)->Next(milliseconds(1))).moved;
  };
  script_.Move("a", 0);
  EXPECT_FALSE(moved(two));  // It does not wait yet.
  CancelFlag cancel;
  auto turn = script_.grant("a").turn_to_load(cancel);
  ASSERT_TRUE(turn);
  std::atomic<bool> loads = false;
  std::thread second([&] {
    EXPECT_TRUE(script_.grant("b").turn_to_load(cancel));
    loads = true;
  });
  bool waits = false;
  for (int i = 0; i < 3000 && !waits; ++i) {
    script_.Move("a", 0);
    waits = moved(two);
  }
  EXPECT_TRUE(waits);
  EXPECT_FALSE(moved(two));
  script_.Move("a", 100);
  EXPECT_TRUE(moved(two));
  EXPECT_FALSE(loads);
  turn->reset();
  second.join();
  EXPECT_TRUE(loads);
  script_.Move("a", 100);
  EXPECT_FALSE(moved(two));
  script_.Move("b", 0);
  EXPECT_TRUE(moved(two));
  script_.EndAll(result_);
  LastOf(**one);
  LastOf(**two);
}

TEST_F(WorkerServiceTest, AnAttemptIsMadeOnce) {
  WorkerService& service = Make();
  const auto follower = Finished("a");
  const auto again = service.Begin(OrderOf("a"));
  ASSERT_FALSE(again);
  EXPECT_FALSE(again.error().transport);
  EXPECT_EQ(again.error().error.code, Code::kInvalid);
  ASSERT_TRUE(service.Adopt("a"));
  EXPECT_FALSE(service.Begin(OrderOf("a")));
}

TEST_F(WorkerServiceTest, FailuresByTheirKind) {
  WorkerService& service = Make();
  for (const auto& [code, transport] : {std::pair{Code::kConflict, false},
                                        {Code::kCorrupt, false},
                                        {Code::kDenied, false},
                                        {Code::kUnknownOutcome, false},
                                        {Code::kTransient, true}}) {
    const std::string name(CodeName(code).substr(0, 3));
    auto follower = service.Begin(OrderOf(name));
    ASSERT_TRUE(follower);
    script_.End(name, Fail(code, "why", "where"));
    const LinkError error = ErrorOf(LastOf(**follower));
    EXPECT_EQ(error.transport, transport) << CodeName(code);
    EXPECT_EQ(error.error.code, code);
    EXPECT_EQ(error.error.message, "why");
  }
  script_.RefuseWith({Code::kDenied, "not here", {}, {}});
  const auto refused = service.Begin(OrderOf("x"));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().transport);
  EXPECT_EQ(refused.error().error.code, Code::kDenied);
  EXPECT_EQ(service.AskStatus().inflight, 0);
  EXPECT_EQ(script_.removed(), 0);
}

TEST_F(WorkerServiceTest, FreshKeys) {
  WorkerService& service = Make();
  auto follower = service.Begin(OrderOf("a"));
  const std::vector<storage::Loan> loans = {{.prefix = "s3://lake", .settings = {}, .expires = {}}};
  EXPECT_TRUE(service.Refresh("a", loans));
  EXPECT_EQ(script_.loans("a"), loans);
  EXPECT_EQ(service.Refresh("b", loans).error().error.code, Code::kNotFound);
}

TEST_F(WorkerServiceTest, StoppingItRunsToTheEndOfItsPatience) {
  WorkerService& service = Make();
  const auto done = Finished("done");
  auto running = service.Begin(OrderOf("running"));
  ASSERT_TRUE(script_.WaitForStart("running"));
  service.Drain(milliseconds(100));
  EXPECT_EQ(script_.removed(), 1);
  const LinkError error = ErrorOf(LastOf(**running));
  EXPECT_TRUE(error.transport);
  EXPECT_EQ(error.error.message, "the worker stops");
  const auto refused = service.Begin(OrderOf("late"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().transport);
  EXPECT_TRUE(service.AskStatus().draining);
}

TEST_F(WorkerServiceTest, StoppingItWaitsForWhatRunsAndForWhoTakesIt) {
  WorkerService& service = Make();
  auto follower = service.Begin(OrderOf("a"));
  std::atomic<bool> drained = false;
  std::thread stops([&] {
    service.Drain(seconds(30));
    drained = true;
  });
  while (!service.AskStatus().draining) std::this_thread::yield();
  script_.End("a", result_);
  EXPECT_TRUE(std::holds_alternative<DoneFrame>(LastOf(**follower)));
  EXPECT_FALSE(drained);
  EXPECT_TRUE(service.Adopt("a"));
  stops.join();
  EXPECT_EQ(script_.removed(), 0);
}

// Adopted or removed, and never both, whoever comes first.
TEST_F(WorkerServiceTest, AdoptAndDropAtOnce) {
  WorkerService& service = Make();
  int adopted = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "a" + std::to_string(i);
    const auto follower = Finished(name);
    const int before = script_.removed();
    std::thread drops([&] { (void)service.Drop(name); });
    const auto taken = service.Adopt(name);
    drops.join();
    EXPECT_EQ(taken ? 0 : 1, script_.removed() - before) << i;
    adopted += taken ? 1 : 0;
  }
  EXPECT_GT(adopted, 0);
}

}  // namespace
}  // namespace lithify::fleet
