// The dispatcher on real threads, with workers in memory.
#include "fleet/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace lithify::fleet {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Where = group::Placement::Where;

LinkError Transport(std::string what) {
  return {true, {Code::kTransient, std::move(what), "", ""}};
}

// One worker: what it is asked is written down, and what it answers is up to the test.
struct FakeWorker {
  std::mutex mutex;
  std::condition_variable changed;
  WorkerStatus status;
  bool reachable = true;
  bool holds = false;      // Rewrites do not end before this is taken back.
  size_t lets = SIZE_MAX;  // So many rewrites end, and later ones do not.
  std::function<std::optional<LinkError>(const GroupOrder&)> fails = {};
  bool adopt_lost = false;
  std::vector<GroupOrder> orders;
  std::vector<std::string> adopted;
  std::vector<std::string> dropped;
  std::vector<std::vector<storage::Loan>> refreshed;
  int running = 0;
  int most = 0;

  void Let(const std::function<void()>& change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
  // Bounded: a test that waits in vain fails.
  bool WaitFor(const std::function<bool()>& met) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(20), met);
  }
};

class FakeLink final : public WorkerLink {
 public:
  explicit FakeLink(FakeWorker& worker) : worker_(worker) {}

  LinkResult<WorkerStatus> AskStatus(Duration) override {
    const std::lock_guard lock(worker_.mutex);
    if (!worker_.reachable) return std::unexpected(Transport("connection refused"));
    WorkerStatus status = worker_.status;
    status.inflight = worker_.running;
    return status;
  }

  LinkResult<group::GroupResult> Compact(const GroupOrder& order, const LinkTimes&,
                                         const OnProgress& on_progress,
                                         const CancelFlag& cancel) override {
    std::unique_lock lock(worker_.mutex);
    worker_.orders.push_back(order);
    worker_.most = std::max(worker_.most, ++worker_.running);
    const bool late = worker_.orders.size() > worker_.lets;
    worker_.changed.notify_all();
    lock.unlock();
    on_progress(1);
    lock.lock();
    while ((worker_.holds || late) && !cancel.requested()) {
      worker_.changed.wait_for(lock, milliseconds(20));
    }
    --worker_.running;
    worker_.changed.notify_all();
    if (cancel.requested()) {
      return std::unexpected(LinkError{true, {Code::kCancelled, "stopped", "", ""}});
    }
    if (worker_.fails) {
      if (auto error = worker_.fails(order)) return std::unexpected(std::move(*error));
    }
    lock.unlock();
    on_progress(7);
    group::GroupResult result;
    result.rows_deleted = order.task.number;  // To know it by.
    result.report.bytes_in = 10;
    result.report.bytes_out = 6;
    return result;
  }

  LinkResult<void> Adopt(const std::string& attempt, Duration) override {
    const std::lock_guard lock(worker_.mutex);
    if (worker_.adopt_lost) return std::unexpected(Transport("reset"));
    worker_.adopted.push_back(attempt);
    return {};
  }
  LinkResult<void> Drop(const std::string& attempt, Duration) override {
    worker_.Let([&] { worker_.dropped.push_back(attempt); });
    return {};
  }
  LinkResult<void> Refresh(const std::string&, const std::vector<storage::Loan>& loans,
                           Duration) override {
    worker_.Let([&] { worker_.refreshed.push_back(loans); });
    return {};
  }

 private:
  FakeWorker& worker_;
};

class FixedDiscovery final : public Discovery {
 public:
  explicit FixedDiscovery(Result<std::vector<std::string>> found) : found_(std::move(found)) {}
  Result<std::vector<std::string>> Find() override { return found_; }

 private:
  const Result<std::vector<std::string>> found_;
};

// As real time, and what a test adds to it.
struct Hasty final : Clock {
  std::atomic<int64_t> ahead = 0;
  SystemClock real;
  Time Now() const override { return real.Now() + Duration(ahead.load()); }
  Duration Monotonic() const override { return real.Monotonic() + Duration(ahead.load()); }
  void Sleep(Duration d) override { real.Sleep(d); }
};

class DispatcherTest : public testing::Test {
 protected:
  void Begin(int workers, const DispatcherOptions& options = {}) {
    std::vector<std::string> addresses;
    for (int w = 0; w < workers; ++w) {
      addresses.push_back("w" + std::to_string(w));
      workers_.push_back(std::make_unique<FakeWorker>());
      workers_.back()->status.id = "id" + std::to_string(w);
    }
    Make(std::move(addresses), options);
  }
  void Make(Result<std::vector<std::string>> found, const DispatcherOptions& options) {
    dispatcher_ = std::make_unique<Dispatcher>(
        DispatcherServices{
            .discovery = std::make_unique<FixedDiscovery>(std::move(found)),
            .make_link = [this](const std::string& address) -> Result<std::unique_ptr<WorkerLink>> {
              if (address == "?") return Fail(Code::kInvalid, "is no address");
              return std::make_unique<FakeLink>(
                  *workers_[static_cast<size_t>(std::stoi(address.substr(1)))]);
            },
            .clock = clock_,
            .random = random_,
            .calls = std::make_unique<ThreadCalls>(CallThreads{.compact = 16}),
            .on_job =
                [this](const group::FleetStory& story) {
                  const std::lock_guard lock(story_mutex_);
                  story_ = story;
                }},
        options);
  }
  static std::vector<group::FleetGroup> Groups(int count) {
    std::vector<group::FleetGroup> groups;
    for (int n = 0; n < count; ++n) {
      group::FleetGroup group;
      group.task.job_id = "job";
      group.task.number = 100 + n;
      group.bytes = 10;
      groups.push_back(group);
    }
    return groups;
  }
  Status Run(const std::vector<group::FleetGroup>& groups, const group::FleetJob& job = {}) {
    // All workers are known before the first group goes: "w0" gets it.
    [[maybe_unused]] const auto placed = dispatcher_->Place({}, cancel_);
    return dispatcher_->Run(
        groups, job,
        [&](size_t index, Result<group::GroupResult> result) {
          const bool good = result.has_value();
          const std::lock_guard lock(results_mutex_);
          EXPECT_TRUE(results_.emplace(index, std::move(result)).second) << "twice: " << index;
          return good || go_on_;
        },
        cancel_);
  }
  // What became of it is of the group that it says it is of.
  void ExpectDone(int groups) {
    ASSERT_THAT(results_, SizeIs(groups));
    for (const auto& [index, result] : results_) {
      ASSERT_TRUE(result) << result.error().ToString();
      EXPECT_EQ(result->rows_deleted, 100 + static_cast<int64_t>(index));
    }
  }

  SystemClock clock_;
  SystemRandom random_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::mutex results_mutex_;
  std::map<size_t, Result<group::GroupResult>> results_;
  bool go_on_ = false;
  CancelFlag cancel_;
  std::mutex story_mutex_;  // Two jobs may end at a time.
  group::FleetStory story_;
};

TEST_F(DispatcherTest, PlacesByHowManyAreHealthy) {
  DispatcherOptions options;
  options.min_workers = 2;
  Begin(3, options);
  workers_[2]->reachable = false;
  const auto place = dispatcher_->Place({}, cancel_);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->where, Where::kFleet);
  EXPECT_EQ(place->healthy, 2);
  EXPECT_EQ(place->reason, "2 of 3 workers are healthy, 2 needed");
  workers_[1]->reachable = false;
}

TEST_F(DispatcherTest, AutoIsLocalBelowTheFloorAndRequireFails) {
  DispatcherOptions options;
  options.min_workers = 2;
  Begin(1, options);
  const auto place = dispatcher_->Place({}, cancel_);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->where, Where::kLocal);
  EXPECT_EQ(place->reason, "1 of 1 worker is healthy, 2 needed");

  options.distribution = group::Distribution::kRequire;
  workers_[0]->reachable = false;
  Make(std::vector<std::string>{"w0"}, options);
  const auto refused = dispatcher_->Place({}, cancel_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
  EXPECT_THAT(refused.error().message, HasSubstr("insufficient_workers: 0 of 1 worker"));
  EXPECT_THAT(refused.error().message, HasSubstr("connection refused"));

  options.distribution = group::Distribution::kLocal;
  Make(std::vector<std::string>{"w0"}, options);
  EXPECT_EQ(dispatcher_->Place({}, cancel_)->where, Where::kLocal);
  // What is asked for is above what is configured.
  EXPECT_FALSE(dispatcher_->Place(group::Distribution::kRequire, cancel_));
  workers_[0]->Let([&] { workers_[0]->reachable = true; });
}

TEST_F(DispatcherTest, AnAddressThatIsNoneIsNoWorker) {
  DispatcherOptions options;
  options.distribution = group::Distribution::kRequire;
  Make(std::vector<std::string>{"?"}, options);
  EXPECT_THAT(dispatcher_->Place({}, cancel_).error().message,
              HasSubstr("0 of 1 worker is healthy, 1 needed; ?: invalid: is no address"));
}

TEST_F(DispatcherTest, RequireTellsWhyDiscoveryFoundNobody) {
  DispatcherOptions options;
  options.distribution = group::Distribution::kRequire;
  Make(Fail(Code::kNotFound, "cannot be looked at", "workers.json"), options);
  const auto refused = dispatcher_->Place({}, cancel_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("workers.json"));
}

TEST_F(DispatcherTest, EveryGroupIsDoneOnceAndAdoptedBeforeThat) {
  Begin(3);
  for (auto& worker : workers_) worker->status.max_inflight_groups = 2;
  std::atomic<int64_t> read = 0;
  int told = 0;
  const auto status = Run(Groups(40), {.on_progress = [&](int64_t bytes) { read += bytes; },
                                       .on_end =
                                           [&](const group::FleetStory& story) {
                                             ++told;
                                             EXPECT_THAT(story.groups, SizeIs(40));
                                             for (const auto& group : story.groups) {
                                               EXPECT_GE(story.took, group.took);
                                               EXPECT_GT(group.took, Duration::zero());
                                               EXPECT_EQ(group.bytes_in, 10);
                                               EXPECT_EQ(group.bytes_out, 6);
                                             }
                                           }});
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(status) << status.error().ToString();
  ExpectDone(40);
  size_t adopted = 0;
  for (const auto& worker : workers_) {
    EXPECT_LE(worker->most, 2);
    EXPECT_THAT(worker->orders, testing::Not(IsEmpty()));
    EXPECT_THAT(worker->dropped, IsEmpty());
    adopted += worker->adopted.size();
  }
  EXPECT_EQ(adopted, 40U);
  EXPECT_EQ(read, 400) << "each byte once";
  EXPECT_THAT(story_.groups, SizeIs(40));
  EXPECT_EQ(story_.job_id, "job");
  EXPECT_THAT(story_.groups[3].worker, HasSubstr(" (id"));
  EXPECT_EQ(dispatcher_->counters().groups_done, 40);
  EXPECT_EQ(dispatcher_->queue(), QueueLengths{});
}

TEST_F(DispatcherTest, TwoJobsAtATime) {
  Begin(2);
  std::map<size_t, int> done[2];
  std::mutex mutex;
  ASSERT_TRUE(dispatcher_->Place({}, cancel_));  // Both workers are known.
  std::vector<std::jthread> threads;
  for (auto& of_job : done) {
    threads.emplace_back([&] {
      const auto groups = Groups(20);
      EXPECT_TRUE(dispatcher_->Run(
          groups, {},
          [&](size_t index, Result<group::GroupResult> result) {
            const std::lock_guard lock(mutex);
            of_job[index] += result ? 1 : 100;
            return true;
          },
          cancel_));
    });
  }
  threads.clear();
  for (const auto& of_job : done) {
    EXPECT_THAT(of_job, SizeIs(20));
    for (const auto& [index, count] : of_job) EXPECT_EQ(count, 1);
  }
  for (const auto& worker : workers_) EXPECT_EQ(worker->most, 1);
}

TEST_F(DispatcherTest, ABrokenWorkerCostsNothingButItsTime) {
  Begin(2);
  workers_[0]->fails = [](const GroupOrder&) { return Transport("connection reset"); };
  ASSERT_TRUE(Run(Groups(6)));
  ExpectDone(6);
  EXPECT_THAT(workers_[1]->adopted, SizeIs(6));
  EXPECT_THAT(workers_[0]->orders, SizeIs(1));
  const group::GroupStory& first = story_.groups.at(0);
  EXPECT_EQ(first.worker, "w1 (id1)");
  EXPECT_EQ(first.attempts, 2);
  EXPECT_THAT(first.failures, ElementsAre(HasSubstr("w0: transient: connection reset")));
  EXPECT_EQ(story_.groups.at(5).attempts, 1);
  EXPECT_THAT(story_.groups.at(5).failures, IsEmpty());
  const auto& retried = results_.at(0)->report.notes;
  ASSERT_THAT(retried, SizeIs(1));
  EXPECT_THAT(retried[0], HasSubstr("rewritten by worker w1 (id1); failed at w0: transient"));
  EXPECT_EQ(dispatcher_->counters().retries, 1);
}

TEST_F(DispatcherTest, AFullWorkerIsAskedAgainLater) {
  Begin(1);
  int refusals = 2;
  workers_[0]->fails = [&](const GroupOrder&) -> std::optional<LinkError> {
    if (refusals-- <= 0) return std::nullopt;
    return LinkError{true, {Code::kLimit, "full", "", ""}};
  };
  ASSERT_TRUE(Run(Groups(1)));
  ExpectDone(1);
  EXPECT_EQ(dispatcher_->counters().refusals, 2);
  EXPECT_EQ(dispatcher_->counters().retries, 0);
}

TEST_F(DispatcherTest, AnErrorOfTheApplicationStopsTheJobIfTheCallerSaysSo) {
  Begin(2);
  workers_[1]->holds = true;
  workers_[0]->fails = [](const GroupOrder&) {
    return LinkError{false, {Code::kCorrupt, "counts differ", "", ""}};
  };
  ASSERT_TRUE(Run(Groups(8)));
  ASSERT_THAT(results_, SizeIs(1));
  EXPECT_EQ(results_.begin()->second.error().code, Code::kCorrupt);
  EXPECT_THAT(workers_[0]->orders, SizeIs(1));
  EXPECT_TRUE(workers_[1]->WaitFor([&] {
    return workers_[1]->dropped.size() == workers_[1]->orders.size() && workers_[1]->running == 0;
  }));
}

// Of a caller that looks at results: how many at a time, and whether it was let go on.
struct Looking {
  std::mutex mutex;
  std::condition_variable changed;
  int now = 0;
  int most = 0;
  std::set<size_t> seen;
  bool released = false;

  // Bounded, like all waiting here.
  bool Look(size_t index) {
    std::unique_lock lock(mutex);
    seen.insert(index);
    most = std::max(most, ++now);
    changed.notify_all();
    const bool good = changed.wait_for(lock, seconds(20), [&] { return released; });
    --now;
    return good;
  }
  bool WaitFor(const std::function<bool()>& met) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(20), met);
  }
  void Release() {
    const std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
};

TEST_F(DispatcherTest, SeveralResultsAreLookedAtAtATimeAndNoMore) {
  Begin(3);
  for (auto& worker : workers_) worker->status.max_inflight_groups = 4;
  Looking looking;
  constexpr size_t kGroups = 30;
  std::jthread others([&] {
    // All of them were rewritten meanwhile: what looks holds up nothing else.
    EXPECT_TRUE(looking.WaitFor([&] { return looking.now == group::kResultsAtOnce; }));
    for (int n = 0; n < 1000 && dispatcher_->counters().groups_done < int64_t{kGroups}; ++n) {
      clock_.Sleep(milliseconds(20));
    }
    EXPECT_EQ(dispatcher_->counters().groups_done, int64_t{kGroups});
    looking.Release();
  });
  const auto groups = Groups(kGroups);
  EXPECT_TRUE(dispatcher_->Run(
      groups, {},
      [&](size_t index, Result<group::GroupResult> result) {
        EXPECT_TRUE(result);
        EXPECT_TRUE(looking.Look(index));
        return true;
      },
      cancel_));
  EXPECT_EQ(looking.most, group::kResultsAtOnce);
  EXPECT_EQ(looking.now, 0);
  EXPECT_THAT(looking.seen, SizeIs(kGroups));
}

TEST_F(DispatcherTest, AFailureWaitsForNoResult) {
  Begin(2);
  for (auto& worker : workers_) worker->status.max_inflight_groups = 8;
  Looking looking;
  workers_[1]->fails = [&](const GroupOrder&) -> std::optional<LinkError> {
    EXPECT_TRUE(
        looking.WaitFor([&] { return looking.released || looking.now == group::kResultsAtOnce; }));
    return LinkError{false, {Code::kCorrupt, "counts differ", "", ""}};
  };
  const auto groups = Groups(60);
  int failures = 0;
  [[maybe_unused]] const auto placed = dispatcher_->Place({}, cancel_);
  EXPECT_TRUE(dispatcher_->Run(
      groups, {},
      [&](size_t index, Result<group::GroupResult> result) {
        if (result) return looking.Look(index);
        ++failures;
        looking.Release();
        return false;
      },
      cancel_));
  EXPECT_EQ(failures, 1) << "the first ends the job";
  EXPECT_EQ(looking.now, 0) << "those that were looked at came to their end";
  dispatcher_.reset();  // Other calls of the worker still wait for what is local here.
}

TEST_F(DispatcherTest, AResultThatIsRefusedStopsTheJobAndOthersInHandAreSeen) {
  Begin(1);
  workers_[0]->status.max_inflight_groups = 4;
  workers_[0]->lets = 2;
  const auto groups = Groups(40);
  std::set<size_t> seen;
  std::mutex mutex;
  EXPECT_TRUE(dispatcher_->Run(
      groups, {},
      [&](size_t index, Result<group::GroupResult> result) {
        EXPECT_TRUE(result);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(seen.insert(index).second);
        return seen.size() != 2;
      },
      cancel_));
  EXPECT_LE(workers_[0]->orders.size(), 6U) << "the rest is not begun";
  // Whose outputs came into the caller's hands was told, the others' are dropped.
  EXPECT_THAT(seen, SizeIs(2));
  EXPECT_THAT(workers_[0]->adopted, SizeIs(2));
  EXPECT_TRUE(workers_[0]->WaitFor([&] {
    return workers_[0]->adopted.size() + workers_[0]->dropped.size() >= workers_[0]->orders.size();
  }));
}

TEST_F(DispatcherTest, AStopWaitsForResultsThatAreBeingLookedAt) {
  Begin(2);
  Looking looking;
  std::jthread stopper([&] {
    EXPECT_TRUE(looking.WaitFor([&] { return looking.now > 0; }));
    cancel_.Request();
    clock_.Sleep(milliseconds(300));
    looking.Release();
  });
  const auto groups = Groups(8);
  const auto status = dispatcher_->Run(
      groups, {}, [&](size_t index, Result<group::GroupResult>) { return looking.Look(index); },
      cancel_);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_TRUE(looking.released);
  EXPECT_EQ(looking.now, 0);
}

TEST_F(DispatcherTest, OrTheOthersGoOn) {
  Begin(2);
  go_on_ = true;
  for (auto& worker : workers_) {
    worker->fails = [](const GroupOrder& order) -> std::optional<LinkError> {
      if (order.task.number != 103) return std::nullopt;
      return LinkError{false, {Code::kCorrupt, "counts differ", "", ""}};
    };
  }
  ASSERT_TRUE(Run(Groups(8)));
  ASSERT_THAT(results_, SizeIs(8));
  for (const auto& [index, result] : results_) EXPECT_EQ(result.has_value(), index != 3);
}

TEST_F(DispatcherTest, AStopIsHeardAndWorkersAreTold) {
  Begin(2);
  for (auto& worker : workers_) worker->holds = true;
  std::jthread stopper([&] {
    workers_[0]->WaitFor([&] { return workers_[0]->running == 1; });
    cancel_.Request();
  });
  EXPECT_EQ(Run(Groups(8)).error().code, Code::kCancelled);
  EXPECT_THAT(results_, IsEmpty());
  for (auto& worker : workers_) {
    EXPECT_TRUE(worker->WaitFor([&] { return worker->dropped.size() == worker->orders.size(); }));
  }
}

TEST_F(DispatcherTest, ADispatcherThatStopsEndsItsJobs) {
  Begin(1);
  workers_[0]->holds = true;
  std::jthread stopper([&] {
    workers_[0]->WaitFor([&] { return workers_[0]->running == 1; });
    dispatcher_->Stop();
  });
  EXPECT_EQ(Run(Groups(2)).error().code, Code::kCancelled);
  EXPECT_EQ(Run(Groups(2)).error().code, Code::kCancelled);
  EXPECT_EQ(dispatcher_->Place({}, cancel_).error().code, Code::kCancelled);
}

TEST_F(DispatcherTest, WhatCannotBeTakenOverIsDoneAgainElsewhere) {
  DispatcherOptions options;
  options.placement.adopt_tries = 1;
  Begin(2, options);
  workers_[0]->adopt_lost = true;
  ASSERT_TRUE(Run(Groups(1)));
  ExpectDone(1);
  EXPECT_THAT(workers_[1]->adopted, SizeIs(1));
  EXPECT_THAT(workers_[0]->dropped, IsEmpty()) << "nobody knows whose the outputs are";
  EXPECT_THAT(results_.at(0)->report.notes, Contains(HasSubstr("could not be taken over")));
}

TEST_F(DispatcherTest, KeysGoAlongAndAreRenewedBeforeTheyEnd) {
  Begin(1);
  workers_[0]->holds = true;
  int lent = 0;
  const auto loans = [&]() -> Result<std::vector<storage::Loan>> {
    storage::Loan loan;
    loan.prefix = "s3://b/" + std::to_string(++lent);
    // Already so short that they are asked for again as soon as that is allowed at all.
    loan.expires = clock_.Now() + (lent == 1 ? Duration(seconds(1)) : Duration(hours(9)));
    return std::vector{loan};
  };
  Hasty hasty;  // Half a minute passes at once.
  dispatcher_ = std::make_unique<Dispatcher>(
      DispatcherServices{
          .discovery = std::make_unique<FixedDiscovery>(std::vector<std::string>{"w0"}),
          .make_link = [&](const std::string&) { return std::make_unique<FakeLink>(*workers_[0]); },
          .clock = hasty,
          .random = random_,
          .calls = std::make_unique<ThreadCalls>(CallThreads{})},
      DispatcherOptions{});
  std::jthread others([&] {
    workers_[0]->WaitFor([&] { return workers_[0]->running == 1; });
    hasty.ahead += Duration(seconds(31)).count();
    workers_[0]->WaitFor([&] { return !workers_[0]->refreshed.empty(); });
    workers_[0]->Let([&] { workers_[0]->holds = false; });
  });
  ASSERT_TRUE(Run(Groups(2), {.loans = loans}));
  others.join();
  ExpectDone(2);
  EXPECT_EQ(lent, 2);
  ASSERT_THAT(workers_[0]->orders, SizeIs(2));
  EXPECT_EQ(workers_[0]->orders[0].loans[0].prefix, "s3://b/1");
  EXPECT_EQ(workers_[0]->orders[1].loans[0].prefix, "s3://b/2");
  ASSERT_THAT(workers_[0]->refreshed, SizeIs(1));
  EXPECT_EQ(workers_[0]->refreshed[0][0].prefix, "s3://b/2");
  dispatcher_.reset();
}

TEST_F(DispatcherTest, WithoutKeysNothingBegins) {
  Begin(1);
  const auto status = Run(Groups(1), {.loans = []() -> Result<std::vector<storage::Loan>> {
                            return Fail(Code::kDenied, "no");
                          }});
  EXPECT_EQ(status.error().code, Code::kDenied);
  EXPECT_THAT(workers_[0]->orders, IsEmpty());
}

class QueueFile : public DispatcherTest {
 protected:
  // Without the time.
  std::string Read() const {
    std::ifstream file(path_);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return text.substr(0, text.find(",\"written_at_ms\":"));
  }
  int64_t WrittenAt() const {
    std::ifstream file(path_);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const size_t at = text.find("_ms\":");
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + 5));
  }
  bool WaitFor(const std::function<bool()>& met) {
    for (int n = 0; n < 1000; ++n) {
      if (met()) return true;
      clock_.Sleep(milliseconds(20));
    }
    return false;
  }
  void Begin() {
    DispatcherOptions options;
    options.queue_file = path_.string();
    workers_.push_back(std::make_unique<FakeWorker>());
    workers_[0]->status.id = "id0";
    workers_[0]->holds = true;
    dispatcher_ = std::make_unique<Dispatcher>(
        DispatcherServices{
            .discovery = std::make_unique<FixedDiscovery>(std::vector<std::string>{"w0"}),
            .make_link =
                [this](const std::string&) { return std::make_unique<FakeLink>(*workers_[0]); },
            .clock = hasty_,
            .random = random_,
            .calls = std::make_unique<ThreadCalls>(CallThreads{})},
        options);
  }
  ~QueueFile() override {
    dispatcher_.reset();
    std::filesystem::remove(path_);
  }

  Hasty hasty_;
  const std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) /
                                      ("queue-" + MakeUuidV7(clock_, random_) + ".json");
};

TEST_F(QueueFile, IsWrittenForThoseWhoAddWorkersAndGoesWithTheLastJob) {
  Begin();
  std::string seen;
  std::jthread others([&] {
    EXPECT_TRUE(WaitFor([&] {
      seen = Read();
      return seen.find("\"running_groups\":1") != std::string::npos;
    }));
    workers_[0]->Let([&] { workers_[0]->holds = false; });
  });
  ASSERT_TRUE(Run(Groups(3)));
  others.join();
  EXPECT_EQ(seen, "{\"waiting_groups\":2,\"waiting_bytes\":20,\"running_groups\":1");
  EXPECT_TRUE(WaitFor([&] { return !std::filesystem::exists(path_); }));
}

TEST_F(QueueFile, IsWrittenAnewThoughNothingChanged) {
  Begin();
  int64_t first = 0;
  int64_t second = 0;
  std::string before;
  std::string after;
  std::jthread others([&] {
    EXPECT_TRUE(WaitFor([&] { return Read().find("\"running_groups\":1") != std::string::npos; }));
    // What is said at once again is nothing new.
    first = WrittenAt();
    before = Read();
    hasty_.ahead += Duration(kQueuePeriod).count();
    EXPECT_TRUE(WaitFor([&] { return WrittenAt() >= first + 10'000; }));
    second = WrittenAt();
    after = Read();
    workers_[0]->Let([&] { workers_[0]->holds = false; });
  });
  ASSERT_TRUE(Run(Groups(2)));
  others.join();
  EXPECT_EQ(before, after);
  EXPECT_LT(second - first, 60'000);
}

// Whoever is stopped in the middle of a job leaves nothing that looks as if it waited.
TEST_F(QueueFile, GoesWhenAJobIsStopped) {
  Begin();
  std::jthread stopper([&] {
    EXPECT_TRUE(WaitFor([&] { return Read().find("\"running_groups\":1") != std::string::npos; }));
    dispatcher_->Stop();
  });
  EXPECT_EQ(Run(Groups(2)).error().code, Code::kCancelled);
  dispatcher_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace lithify::fleet
