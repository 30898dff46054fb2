// Seeded fleets under a random order of events, with failures of every kind. What must hold in all
// of them: each group ends exactly once, a result is used only after its adoption, caps and memory
// are kept, groups are started largest first, no group returns to the life of a worker that failed
// with it, a job ends well while a worker is left that never failed, and the same events give the
// same actions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/draw.h"
#include "fleet/placement.h"

namespace lithify::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Action::Kind;

constexpr uint64_t kSeeds = 3000;

struct SimulatedWorker {
  int life = 0;
  int cap = 1;
  int64_t memory = 0;
  bool reliable = false;
  bool draining = false;
  int running = 0;  // By our count of starts and ends.
  int64_t memory_used = 0;
};

class Fleet {
 public:
  explicit Fleet(uint64_t seed) : draw_(seed), placement_(DrawOptions()) {
    std::vector<std::string> addresses;
    for (int64_t n = draw_.Between(1, 6); n > 0; --n) {
      addresses.push_back("w" + std::to_string(workers_.size()));
      workers_.push_back({.cap = static_cast<int>(draw_.Between(1, 3)),
                          .memory = draw_.OneIn(2) ? 0 : draw_.Between(50, 400)});
    }
    workers_[0].reliable = calm_ = draw_.OneIn(2);
    Do(placement_.SetWorkers(addresses, now_));
  }

  void Run() {
    for (int64_t n = draw_.Between(1, 3); n > 0; --n) AddJob();
    for (int step = 0; step < 20'000 && open_jobs_ > 0; ++step) {
      Step();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(open_jobs_, 0) << "no end";
    for (const auto& [id, job] : jobs_) {
      if (job.stopped) continue;
      for (size_t g = 0; g < job.ends.size(); ++g) EXPECT_EQ(job.ends[g], 1) << "group " << g;
      if (calm_ && !job.application) {
        EXPECT_EQ(job.failed, 0) << "with a worker that never fails";
      }
    }
  }

  std::string trace() const { return trace_; }

 private:
  struct Job {
    std::vector<GroupSize> sizes;
    std::vector<int> ends;
    std::set<size_t> waiting;
    int failed = 0;
    bool stopped = false;
    bool ended = false;
    bool application = false;
  };
  struct Attempt {
    int64_t job = 0;
    size_t group = 0;
    int worker = 0;
    std::string life;  // As the coordinator knew it.
    int64_t memory = 0;
    bool calling = true;
    bool finished = false;
    bool adopted = false;
    bool adopting = false;
    bool cancelled = false;
    bool hedge = false;
  };

  PlacementOptions DrawOptions() {
    PlacementOptions options;
    options.group_attempts = 12;
    options.hedge_gain = milliseconds(draw_.Between(0, 5000));
    options.adopt_tries = static_cast<int>(draw_.Between(1, 3));
    options.attempts_max = static_cast<int>(draw_.OneIn(4) ? draw_.Between(1, 4) : 100);
    most_ = options.attempts_max;
    return options;
  }

  void AddJob() {
    Job job;
    for (int64_t n = draw_.Between(0, 12); n > 0; --n) {
      job.waiting.insert(job.sizes.size());
      job.sizes.push_back({draw_.Between(1, 1000), draw_.OneIn(3) ? 0 : draw_.Between(1, 500)});
    }
    job.ends.resize(job.sizes.size());
    ++open_jobs_;
    const auto id = static_cast<int64_t>(jobs_.size());
    jobs_[id] = job;
    auto [number, actions] = placement_.AddJob(job.sizes, now_);
    ASSERT_EQ(number, id);
    Do(actions);
  }

  // --- what the coordinator does -----------------------------------------------------------------

  void Do(const Actions& actions) {
    for (const Action& action : actions) {
      trace_ += std::to_string(static_cast<int>(action.kind)) + ":" +
                std::to_string(action.worker) + ":" + std::to_string(action.group) + ":" +
                std::to_string(action.attempt) + " ";
      DoOne(action);
    }
    while (!undecided_.empty()) {
      const int64_t job = undecided_.back();
      undecided_.pop_back();
      if (!jobs_.at(job).stopped) Do(placement_.GoOn(job, now_));
    }
  }

  void DoOne(const Action& action) {
    const int64_t id = action.attempt;
    switch (action.kind) {
      case Kind::kProbe: EXPECT_TRUE(probes_.insert(action.worker).second); break;
      case Kind::kStart: OnStart(action); break;
      case Kind::kCancel: attempts_.at(id).cancelled = true; break;
      case Kind::kDrop:
        EXPECT_FALSE(attempts_.at(id).adopted) << "an adopted result is dropped";
        break;
      case Kind::kAdopt:
        EXPECT_TRUE(attempts_.at(id).finished);
        EXPECT_FALSE(attempts_.at(id).adopting);
        attempts_.at(id).adopting = true;
        break;
      case Kind::kGroupDone: {
        EXPECT_TRUE(attempts_.at(id).adopted);
        EXPECT_EQ(attempts_.at(id).group, static_cast<size_t>(action.group));
        ++jobs_.at(action.job).ends[static_cast<size_t>(action.group)];
        break;
      }
      case Kind::kGroupFailed:
        ++jobs_.at(action.job).ends[static_cast<size_t>(action.group)];
        ++jobs_.at(action.job).failed;
        undecided_.push_back(action.job);
        jobs_.at(action.job).waiting.erase(static_cast<size_t>(action.group));
        break;
      case Kind::kJobEnded:
        EXPECT_FALSE(std::exchange(jobs_.at(action.job).ended, true));
        --open_jobs_;
        break;
    }
  }

  void OnStart(const Action& action) {
    auto& worker = workers_[static_cast<size_t>(action.worker)];
    Job& job = jobs_.at(action.job);
    const auto group = static_cast<size_t>(action.group);
    EXPECT_FALSE(job.stopped || job.ended);
    EXPECT_EQ(job.ends[group], 0) << "begun after its end";
    if (!action.hedge) {
      EXPECT_EQ(job.waiting.erase(group), 1U) << "given out twice";
      // Nothing larger could have been started there instead.
      for (const size_t other : job.waiting) {
        if (failed_.contains({action.job, other}) || job.sizes[other].memory_bytes > 0) continue;
        if (worker.memory > 0) continue;
        EXPECT_LE(job.sizes[other].bytes, job.sizes[group].bytes);
      }
    }
    EXPECT_LE(++worker.running, worker.cap);
    worker.memory_used += action.memory_bytes;
    if (worker.memory > 0) {
      EXPECT_LE(worker.memory_used, worker.memory);
    }
    EXPECT_LE(++active_, most_);
    const std::string life = placement_.workers()[static_cast<size_t>(action.worker)].id;
    EXPECT_FALSE(failures_.contains({action.job, group, action.worker, life}))
        << "on the worker that failed with it";
    const bool fresh = attempts_
                           .emplace(action.attempt, Attempt{.job = action.job,
                                                            .group = group,
                                                            .worker = action.worker,
                                                            .life = life,
                                                            .memory = action.memory_bytes,
                                                            .hedge = action.hedge})
                           .second;
    EXPECT_TRUE(fresh);
  }

  void EndCall(Attempt& attempt) {
    attempt.calling = false;
    auto& worker = workers_[static_cast<size_t>(attempt.worker)];
    --worker.running;
    worker.memory_used -= attempt.memory;
    --active_;
  }

  // --- what the world does -----------------------------------------------------------------------

  void Step() {
    now_ += milliseconds(draw_.Between(0, 2000));
    if (draw_.OneIn(3)) return Do(placement_.Tick(now_));
    if (!probes_.empty() && draw_.OneIn(2)) return AnswerProbe();
    if (draw_.OneIn(60)) return Change();
    std::vector<int64_t> open;
    for (const auto& [id, attempt] : attempts_) {
      if (attempt.calling || attempt.adopting) open.push_back(id);
    }
    if (open.empty()) return Do(placement_.Tick(now_));
    const int64_t id = open[static_cast<size_t>(draw_.Between(0, std::ssize(open) - 1))];
    Attempt& attempt = attempts_.at(id);
    if (attempt.adopting) return AnswerAdopt(id, attempt);
    AnswerCall(id, attempt);
  }

  std::string IdOf(int w) const {
    return "w" + std::to_string(w) + "." + std::to_string(workers_[static_cast<size_t>(w)].life);
  }

  void AnswerProbe() {
    const int w = *probes_.begin();
    probes_.erase(probes_.begin());
    const auto& worker = workers_[static_cast<size_t>(w)];
    if (!worker.reliable && draw_.OneIn(6)) return Do(placement_.OnProbeFailed(w, "silent", now_));
    // Others of a restarted life are gone, by the answer that tells of it.
    const std::string id = IdOf(w);
    for (auto& [number, attempt] : attempts_) {
      if (attempt.worker != w || attempt.life == id || attempt.adopting) continue;
      const Job& job = jobs_.at(attempt.job);
      const bool open = attempt.calling || attempt.finished;
      if (open && !attempt.cancelled && !attempt.adopted) Remember(attempt, job);
    }
    Do(placement_.OnStatus(w,
                           {.id = id,
                            .inflight = worker.running,
                            .max_inflight_groups = worker.cap,
                            .memory_bytes = worker.memory,
                            .draining = worker.draining},
                           now_));
  }

  // A group whose attempt failed waits again, unless another attempt is under way.
  void Remember(const Attempt& attempt, const Job& job) {
    failures_.insert({attempt.job, attempt.group, attempt.worker, attempt.life});
    failed_.insert({attempt.job, attempt.group});
    if (!job.stopped && job.ends[attempt.group] == 0) {
      jobs_.at(attempt.job).waiting.insert(attempt.group);
    }
  }

  void Change() {
    auto& worker = workers_[static_cast<size_t>(draw_.Between(0, std::ssize(workers_) - 1))];
    if (worker.reliable) return;
    if (draw_.OneIn(2)) {
      ++worker.life;
    } else {
      worker.draining = !worker.draining;
    }
    if (draw_.OneIn(3)) {
      const int64_t id = draw_.Between(0, std::ssize(jobs_) - 1);
      if (jobs_.at(id).ended) return;
      jobs_.at(id).stopped = true;
      jobs_.at(id).waiting.clear();
      Do(draw_.OneIn(2) ? placement_.StopJob(id, now_) : placement_.AbandonJob(id, now_));
    }
  }

  void AnswerAdopt(int64_t id, Attempt& attempt) {
    attempt.adopting = false;
    const auto& worker = workers_[static_cast<size_t>(attempt.worker)];
    if (!worker.reliable && draw_.OneIn(5)) {
      const bool transport = draw_.OneIn(2);
      if (!transport) Remember(attempt, jobs_.at(attempt.job));
      if (transport) failed_.insert({attempt.job, attempt.group});
      if (transport) jobs_.at(attempt.job).waiting.insert(attempt.group);
      if (jobs_.at(attempt.job).stopped) jobs_.at(attempt.job).waiting.clear();
      return Do(placement_.OnAdoptFailed(id, transport, {Code::kNotFound, "gone", "", ""}, now_));
    }
    attempt.adopted = true;
    Do(placement_.OnAdopted(id, now_));
  }

  void AnswerCall(int64_t id, Attempt& attempt) {
    auto& worker = workers_[static_cast<size_t>(attempt.worker)];
    if (!attempt.cancelled && draw_.OneIn(2)) {
      placement_.OnProgress(id, draw_.Between(0, 1000), now_);
      return;
    }
    EndCall(attempt);
    const bool refused = !attempt.cancelled && draw_.OneIn(20);
    const bool lost = attempt.life != IdOf(attempt.worker) || (!worker.reliable && draw_.OneIn(5));
    Job& job = jobs_.at(attempt.job);
    if (refused) {
      failed_.insert({attempt.job, attempt.group});
      if (!job.stopped) job.waiting.insert(attempt.group);
      return Do(placement_.OnRefused(id, {Code::kLimit, "full", "", ""}, now_));
    }
    if (lost) {
      if (!attempt.cancelled) Remember(attempt, job);
      return Do(placement_.OnFailed(id, true, {Code::kTransient, "reset", "", ""}, now_));
    }
    if (!attempt.cancelled && !calm_ && draw_.OneIn(60)) {
      job.application = true;
      return Do(placement_.OnFailed(id, false, {Code::kCorrupt, "wrong", "", ""}, now_));
    }
    attempt.finished = true;
    Do(placement_.OnFinished(id, now_));
  }

  Draw draw_;
  bool calm_ = false;
  int most_ = 0;
  Placement placement_;
  Duration now_ = seconds(1000);
  std::vector<SimulatedWorker> workers_;
  std::map<int64_t, Job> jobs_;
  std::vector<int64_t> undecided_;
  int open_jobs_ = 0;
  int active_ = 0;
  std::map<int64_t, Attempt> attempts_;
  std::set<int> probes_;
  std::set<std::tuple<int64_t, size_t, int, std::string>> failures_;
  std::set<std::pair<int64_t, size_t>> failed_;
  std::string trace_;
};

TEST(PlacementProperty, EveryGroupEndsOnceWithinAllBounds) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fleet fleet(seed);
    fleet.Run();
    if (HasFailure()) return;
  }
}

TEST(PlacementProperty, TheSameEventsGiveTheSameActions) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Fleet one(seed);
    Fleet two(seed);
    one.Run();
    two.Run();
    EXPECT_EQ(one.trace(), two.trace()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lithify::fleet
