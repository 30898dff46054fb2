// How rewriting scales over workers, by a discrete-event simulation on the code that places groups
// in production (src/fleet/placement.h): only workers, their network and time are made up. For more
// workers than a machine has, and for what goes wrong with some of them.
//
// The model: groups with sizes by Zipf's law; a worker has one rate, which its groups share, and no
// group gets more than a rate of its own; all workers share the store's rate; some workers are
// slow; workers die now and then, are noticed at once or after a silence, and come back as others;
// the coordinator checks as many results at a time as it does in production.
//
// Rates are those that ./dev bench fleet measured and wrote to bench/fleet_rates.json, or else the
// defaults below, which are round numbers and said to be. Where there are measured ones the model
// is held against the run that they are of, before it is asked about others.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/random.h"
#include "fleet/placement.h"
#include "group/fleet.h"

namespace lithify::fleet {
namespace {

struct Parameters {
  std::vector<int> workers = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000};
  int64_t groups = 0;  // In all; 0: so many per worker:
  int64_t groups_per_worker = 40;
  double group_mib = 512;     // On average.
  double zipf = 0.5;          // Exponent; 0: all the same.
  double largest_mib = 4096;  // The planner's bound on a group.
  std::vector<double> sizes;  // Of all groups, in MiB; empty: as above.
  int cap = 2;
  double worker_mib_s = 100;  // Of one worker, whatever bounds it.
  double group_mib_s = 100;   // Of one group, likewise.
  double store_mib_s = 0;     // Of all together; 0: no bound.
  double slow_share = 0.02;   // Of workers;
  double slow_factor = 5;     // their rate is divided by that.
  double mtbf_hours = 200;    // Of one worker; 0: none dies.
  double restart_s = 30;
  double silent_share = 0.3;  // Of deaths that are noticed only by their silence.
  double silence_s = 120;
  double latency_s = 0.01;  // Of a call.
  double start_s = 0.5;     // Of a group, before its first byte: metadata and footers.
  double check_s = 0.02;    // Of a result, in the coordinator,
  int check_at_once = group::kResultsAtOnce;
  bool hedge = true;
  int attempts = 3;
  uint64_t seed = 1;
};

struct Outcome {
  double seconds = 0;
  double ideal = 0;      // All bytes at all rates, and not faster than the largest group.
  double alone = 0;      // One worker that is never slow and never dies.
  double group_p50 = 0;  // Of a group, from the order to the result that was used.
  double group_p99 = 0;
  double stragglers = 0;    // Share of groups that took more than twice the median time per MiB.
  double wait_p99 = 0;      // Of a group, from the job's begin to its start.
  double tail = 0;          // From the first idle worker with nothing left to begin until the end.
  double idle_share = 0;    // Of the workers' time, that was not spent on a group.
  double wasted_share = 0;  // Of bytes read, of those whose result was not used.
  PlacementCounters counters;
  double placement_s = 0;  // Of real time, in the code that places.
  int64_t events = 0;
  bool failed = false;
};

class Uniform {
 public:
  explicit Uniform(uint64_t seed) : random_(seed) {}
  double operator()() { return static_cast<double>(random_.Next() >> 11) / 9007199254740992.0; }
  double Exponential(double mean) { return -mean * std::log(1 - (*this)()); }

 private:
  SeededRandom random_;
};

Duration Micros(double s) { return Duration(std::llround(s * 1e6)); }

class Model {
 public:
  Model(const Parameters& parameters, int workers)
      : p_(parameters), draw_(parameters.seed), placement_(Options()), workers_(workers) {
    if (p_.sizes.empty()) {
      MakeGroups(p_.groups > 0 ? p_.groups : p_.groups_per_worker * workers);
    }
    for (const double mib : p_.sizes) AddGroup(mib);
    const double all = p_.store_mib_s > 0 ? p_.store_mib_s / workers : p_.worker_mib_s;
    for (auto& worker : workers_) {
      worker.rate = std::min(p_.worker_mib_s, all);
      if (draw_() < p_.slow_share) worker.rate /= p_.slow_factor;
      if (workers_.size() == 1) worker.rate = std::min(p_.worker_mib_s, all);
    }
  }

  Outcome Run() {
    std::vector<std::string> addresses;
    for (size_t w = 0; w < workers_.size(); ++w) {
      addresses.push_back("w" + std::to_string(w));
      if (p_.mtbf_hours > 0) At(draw_.Exponential(p_.mtbf_hours * 3600), Kind::kDeath, w);
    }
    Place([&] { return placement_.SetWorkers(addresses, Micros(now_)); });
    Place([&] { return placement_.AddJob(sizes_, Micros(now_)).second; });
    At(1, Kind::kTick, 0);
    constexpr double kYear = 366.0 * 86'400;
    while (!ended_ && !events_.empty() && now_ < kYear) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      ++out_.events;
      Handle(event);
    }
    Summarize();
    return out_;
  }

 private:
  enum class Kind { kTick, kProbe, kWork, kBegun, kDeath, kBack, kLost, kAdopt };
  struct Event {
    double at = 0;
    int64_t number = 0;
    Kind kind = Kind::kTick;
    size_t index = 0;  // Of a worker, or an attempt.
    int64_t version = 0;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  struct Attempt {
    size_t group = 0;
    size_t worker = 0;
    int life = 0;
    double started = 0;
    double ended = 0;
    double left = 0;  // MiB.
    bool begun = false;
    bool over = false;
  };
  struct Worker {
    double rate = 0;
    int life = 0;
    bool dead = false;
    std::vector<int64_t> running;  // Attempts that read.
    double since = 0;              // When their progress was counted last.
    int64_t version = 0;
    double busy = 0;
  };

  PlacementOptions Options() const {
    PlacementOptions options;
    options.hedge = p_.hedge;
    options.group_attempts = p_.attempts;
    options.attempts_max = 1 << 20;
    return options;
  }

  void MakeGroups(int64_t count) {
    std::vector<double> weights;
    double sum = 0;
    for (int64_t g = 0; g < count; ++g) {
      weights.push_back(1 / std::pow(static_cast<double>(g + 1), p_.zipf));
      sum += weights.back();
    }
    const double all = p_.group_mib * static_cast<double>(count);
    for (const double weight : weights) {
      const double mib = std::clamp(all * weight / sum, 1.0, p_.largest_mib);
      AddGroup(mib);
    }
  }
  void AddGroup(double mib) {
    sizes_.push_back({.bytes = static_cast<int64_t>(mib * 1024 * 1024)});
    total_ += mib;
    largest_ = std::max(largest_, mib);
  }
  double Mib(size_t group) const { return static_cast<double>(sizes_[group].bytes) / 1048576.0; }

  void At(double after, Kind kind, size_t index, int64_t version = 0) {
    events_.push({now_ + after, ++number_, kind, index, version});
  }

  template <typename F>
  void Place(F call) {
    const auto begin = std::chrono::steady_clock::now();
    const Actions actions = call();
    out_.placement_s +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const Action& action : actions) Do(action);
  }

  void Do(const Action& action) {
    using A = Action::Kind;
    switch (action.kind) {
      case A::kProbe: return At(p_.latency_s, Kind::kProbe, static_cast<size_t>(action.worker));
      case A::kAdopt: return At(p_.latency_s, Kind::kAdopt, static_cast<size_t>(action.attempt));
      case A::kStart: {
        Attempt& attempt = attempts_[action.attempt];
        attempt.group = static_cast<size_t>(action.group);
        attempt.worker = static_cast<size_t>(action.worker);
        attempt.life = workers_[attempt.worker].life;
        attempt.left = Mib(attempt.group);
        attempt.started = now_;
        waits_.try_emplace(attempt.group, now_);
        At(p_.start_s + p_.latency_s, Kind::kBegun, static_cast<size_t>(action.attempt));
        return;
      }
      case A::kCancel: return Cancel(action.attempt);
      case A::kGroupDone: {
        double& free = *std::ranges::min_element(checkers_);
        free = std::max(free, now_) + p_.check_s;
        last_ = std::max(last_, free);
        const Attempt& attempt = attempts_.at(action.attempt);
        took_.push_back({attempt.ended - attempt.started, Mib(attempt.group)});
        used_ += Mib(static_cast<size_t>(action.group));
        return;
      }
      case A::kGroupFailed: out_.failed = true; return;
      case A::kJobEnded: ended_ = true; return;
      case A::kDrop: return;
    }
  }

  // --- workers -----------------------------------------------------------------------------------

  double RateOfEach(const Worker& worker) const {
    const double share = worker.rate / static_cast<double>(worker.running.size());
    return std::min(share, p_.group_mib_s);
  }

  // Counts what was read since the last time.
  void Advance(Worker& worker) {
    if (!worker.running.empty()) {
      const double each = RateOfEach(worker) * (now_ - worker.since);
      for (const int64_t id : worker.running) attempts_.at(id).left -= each;
      read_ += each * static_cast<double>(worker.running.size());
      worker.busy += now_ - worker.since;
    }
    worker.since = now_;
  }

  // When the first of its groups will be done, as things are.
  void Schedule(size_t w) {
    Worker& worker = workers_[w];
    ++worker.version;
    if (worker.running.empty()) return;
    double least = attempts_.at(worker.running.front()).left;
    for (const int64_t id : worker.running) least = std::min(least, attempts_.at(id).left);
    At(std::max(0.0, least) / RateOfEach(worker), Kind::kWork, w, worker.version);
  }

  void Cancel(int64_t id) {
    Attempt& attempt = attempts_.at(id);
    if (attempt.over) return;
    attempt.over = true;
    Worker& worker = workers_[attempt.worker];
    Advance(worker);
    std::erase(worker.running, id);
    Schedule(attempt.worker);
    At(p_.latency_s, Kind::kLost, static_cast<size_t>(id));
  }

  void Handle(const Event& event) {
    switch (event.kind) {
      case Kind::kTick: return Tick();
      case Kind::kProbe: return Probe(event.index);
      case Kind::kBegun: return Begun(static_cast<int64_t>(event.index));
      case Kind::kWork:
        if (workers_[event.index].version == event.version) Work(event.index);
        return;
      case Kind::kDeath: return Die(event.index);
      case Kind::kBack:
        workers_[event.index].dead = false;
        At(draw_.Exponential(p_.mtbf_hours * 3600), Kind::kDeath, event.index);
        return;
      case Kind::kLost: {
        const Error error{Code::kTransient, "connection reset", "", ""};
        const auto id = static_cast<int64_t>(event.index);
        return Place([&] { return placement_.OnFailed(id, true, error, Micros(now_)); });
      }
      case Kind::kAdopt: return Adopt(static_cast<int64_t>(event.index));
    }
  }

  void Tick() {
    for (auto& worker : workers_) {
      if (std::fmod(now_, 5.0) >= 1.0) break;  // Progress comes every five seconds.
      Advance(worker);
      for (const int64_t id : worker.running) {
        const Attempt& attempt = attempts_.at(id);
        const double done = Mib(attempt.group) - std::max(0.0, attempt.left);
        placement_.OnProgress(id, static_cast<int64_t>(done * 1048576), Micros(now_));
      }
    }
    Place([&] { return placement_.Tick(Micros(now_)); });
    const QueueLengths queue = placement_.queue();
    const bool idle = std::ranges::any_of(
        workers_, [](const Worker& worker) { return !worker.dead && worker.running.empty(); });
    if (!tail_since_ && queue.waiting_groups == 0 && idle) tail_since_ = now_;
    if (!ended_) At(1, Kind::kTick, 0);
  }

  void Probe(size_t w) {
    const Worker& worker = workers_[w];
    const int index = static_cast<int>(w);
    if (worker.dead) {
      return Place([&] { return placement_.OnProbeFailed(index, "refused", Micros(now_)); });
    }
    const WorkerFacts facts{.id = std::to_string(w) + "." + std::to_string(worker.life),
                            .inflight = placement_.ViewOf(index).running,
                            .max_inflight_groups = p_.cap};
    Place([&] { return placement_.OnStatus(index, facts, Micros(now_)); });
  }

  void Begun(int64_t id) {
    Attempt& attempt = attempts_.at(id);
    if (attempt.over) return;
    Worker& worker = workers_[attempt.worker];
    if (worker.dead || worker.life != attempt.life) {
      attempt.over = true;
      return At(0, Kind::kLost, static_cast<size_t>(id));
    }
    Advance(worker);
    attempt.begun = true;
    worker.running.push_back(id);
    Schedule(attempt.worker);
  }

  void Work(size_t w) {
    Worker& worker = workers_[w];
    Advance(worker);
    std::vector<int64_t> done;
    constexpr double kRounding = 1e-6;
    for (const int64_t id : worker.running) {
      if (attempts_.at(id).left <= kRounding) done.push_back(id);
    }
    for (const int64_t id : done) {
      std::erase(worker.running, id);
      attempts_.at(id).over = true;
      attempts_.at(id).ended = now_;
    }
    Schedule(w);
    for (const int64_t id : done) {
      Place([&] { return placement_.OnFinished(id, Micros(now_)); });
    }
  }

  void Die(size_t w) {
    Worker& worker = workers_[w];
    Advance(worker);
    ++deaths_;
    ++worker.life;
    worker.dead = true;
    const double heard = draw_() < p_.silent_share ? p_.silence_s : p_.latency_s;
    for (const int64_t id : worker.running) {
      attempts_.at(id).over = true;
      At(heard, Kind::kLost, static_cast<size_t>(id));
    }
    worker.running.clear();
    Schedule(w);
    At(p_.restart_s, Kind::kBack, w);
  }

  void Adopt(int64_t id) {
    const Attempt& attempt = attempts_.at(id);
    if (workers_[attempt.worker].life == attempt.life) {
      return Place([&] { return placement_.OnAdopted(id, Micros(now_)); });
    }
    const Error gone{Code::kNotFound, "no such attempt", "", ""};
    Place([&] { return placement_.OnAdoptFailed(id, false, gone, Micros(now_)); });
  }

  void Summarize() {
    const auto count = static_cast<double>(workers_.size());
    out_.seconds = std::max(now_, last_);
    const double each =
        p_.store_mib_s > 0 ? std::min(p_.worker_mib_s, p_.store_mib_s / count) : p_.worker_mib_s;
    out_.ideal = std::max(total_ / (each * count), largest_ / std::min(each, p_.group_mib_s));
    out_.alone =
        total_ / (p_.store_mib_s > 0 ? std::min(p_.worker_mib_s, p_.store_mib_s) : p_.worker_mib_s);
    std::vector<double> waits;
    for (const auto& [group, at] : waits_) waits.push_back(at);
    std::ranges::sort(waits);
    if (!waits.empty()) out_.wait_p99 = waits[(waits.size() - 1) * 99 / 100];
    SummarizeGroups();
    out_.tail = tail_since_ ? out_.seconds - *tail_since_ : 0;
    double busy = 0;
    for (const Worker& worker : workers_) busy += worker.busy;
    out_.idle_share = 1 - busy / (count * out_.seconds);
    out_.wasted_share = read_ > 0 ? std::max(0.0, 1 - used_ / read_) : 0;
    out_.counters = placement_.counters();
    out_.failed = out_.failed || !ended_;
  }

  void SummarizeGroups() {
    if (took_.empty()) return;
    std::vector<double> seconds;
    std::vector<double> paces;
    for (const auto& [took, mib] : took_) {
      seconds.push_back(took);
      paces.push_back(took / mib);
    }
    std::ranges::sort(seconds);
    std::ranges::sort(paces);
    out_.group_p50 = seconds[(seconds.size() - 1) / 2];
    out_.group_p99 = seconds[(seconds.size() - 1) * 99 / 100];
    const double slow = 2 * paces[(paces.size() - 1) / 2];
    const auto behind = std::ranges::count_if(paces, [&](double pace) { return pace > slow; });
    out_.stragglers = static_cast<double>(behind) / static_cast<double>(paces.size());
  }

  const Parameters& p_;
  Uniform draw_;
  Placement placement_;
  std::vector<Worker> workers_;
  std::vector<GroupSize> sizes_;
  std::map<int64_t, Attempt> attempts_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<size_t, double> waits_;
  std::vector<std::pair<double, double>> took_;  // Seconds and MiB of each group.
  double now_ = 0;
  int64_t number_ = 0;
  int64_t deaths_ = 0;
  double total_ = 0;  // MiB.
  double largest_ = 0;
  double read_ = 0;
  double used_ = 0;
  std::vector<double> checkers_ = std::vector<double>(static_cast<size_t>(p_.check_at_once));
  double last_ = 0;
  std::optional<double> tail_since_;
  bool ended_ = false;
  Outcome out_;
};

void PrintRow(int workers, const Outcome& o) {
  std::array<char, 400> line;
  std::snprintf(
      line.data(), line.size(),
      "| %d | %.0f | %.2f | %.1f%% | %.1f | %.1f | %.1f%% | %.0f | %.0f | %.1f%% | %.1f%% | %lld | "
      "%lld | %lld | %.1f%% | %.1f |%s",
      workers, o.seconds, o.alone / o.seconds, 100 * o.ideal / o.seconds, o.group_p50, o.group_p99,
      100 * o.stragglers, o.wait_p99, o.tail, 100 * o.idle_share, 100 * o.wasted_share,
      static_cast<long long>(o.counters.attempts), static_cast<long long>(o.counters.retries),
      static_cast<long long>(o.counters.hedges), 100 * o.placement_s / o.seconds,
      1e6 * o.placement_s / static_cast<double>(std::max<int64_t>(1, o.events)),
      o.failed ? " FAILED" : "");
  std::cout << line.data() << "\n";
}

// --- measured rates ------------------------------------------------------------------------------

// As bench/fleet.py writes them.
struct Measured {
  std::string what;  // When, where and on what.
  int workers = 0;
  int cap = 0;
  double link_mib_s = 0;
  double worker_mib_s = 0;   // Of input, of one worker that has all groups.
  double cpu_s_per_mib = 0;  // Of a worker, per MiB of input.
  double read_mib_s = 0;     // Of a worker, through its link, while it is at work.
  double write_mib_s = 0;
  double latency_s = 0;
  double order_s = 0;
  double check_s = 0;
  double overhead_s = 0;  // Plan and commit.
  double alone_s = 0;     // Of the whole job, by the coordinator alone,
  double one_s = 0;       // by one worker,
  double fleet_s = 0;     // and by all.
  double group_p50 = 0;
  double group_p99 = 0;
  std::vector<double> sizes;
};

std::optional<Measured> ReadMeasured(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  const auto json = nlohmann::json::parse(file);
  Measured m;
  m.what = json.at("what");
  m.workers = json.at("workers");
  m.cap = json.at("cap");
  m.link_mib_s = json.at("link_mib_s");
  m.worker_mib_s = json.at("worker_mib_s");
  m.cpu_s_per_mib = json.at("cpu_s_per_mib");
  m.read_mib_s = json.at("read_mib_s");
  m.write_mib_s = json.at("write_mib_s");
  m.latency_s = json.at("latency_s");
  m.order_s = json.at("order_s");
  m.check_s = json.at("check_s");
  m.overhead_s = json.at("overhead_s");
  m.alone_s = json.at("alone_s");
  m.one_s = json.at("one_s");
  m.fleet_s = json.at("fleet_s");
  m.group_p50 = json.at("group_p50_s");
  m.group_p99 = json.at("group_p99_s");
  m.sizes = json.at("group_mib").get<std::vector<double>>();
  return m;
}

// As measured; `link_mib_s`, `cores`: of the workers that are asked about, 0: as they were.
void Calibrate(const Measured& m, double link_mib_s, double cores, Parameters& p) {
  p.cap = m.cap;
  p.latency_s = m.latency_s;
  p.start_s = m.order_s;
  p.check_s = m.check_s;
  p.worker_mib_s = m.worker_mib_s;
  if (link_mib_s > 0) p.worker_mib_s *= link_mib_s / m.link_mib_s;
  if (cores > 0) p.worker_mib_s = std::min(p.worker_mib_s, cores / m.cpu_s_per_mib);
  p.group_mib_s = p.worker_mib_s;
}

// The run that the rates are of, with nothing slow and nobody dying, next to what was measured. One
// worker is where the rate comes from; several are what the model says by itself.
void Validate(const Measured& m, Parameters p) {
  p.sizes = m.sizes;
  p.slow_share = 0;
  p.mtbf_hours = 0;
  const Outcome one = Model(p, 1).Run();
  const Outcome all = Model(p, m.workers).Run();
  const double one_s = one.seconds + m.overhead_s;
  const double all_s = all.seconds + m.overhead_s;
  std::printf("| %zu groups, %.0f MiB | model | measured | difference |\n|---|---|---|---|\n",
              m.sizes.size(), std::accumulate(m.sizes.begin(), m.sizes.end(), 0.0));
  const auto row = [](const std::string& name, double model, double measured) {
    std::printf("| %s | %.2f | %.2f | %+.1f%% |\n", name.c_str(), model, measured,
                100 * (model / measured - 1));
  };
  const std::string several = std::to_string(m.workers) + " workers";
  row("1 worker, s (calibrated by it)", one_s, m.one_s);
  row(several + ", s", all_s, m.fleet_s);
  row(several + ", times the coordinator alone", m.alone_s / all_s, m.alone_s / m.fleet_s);
  row(several + ", times one worker", one_s / all_s, m.one_s / m.fleet_s);
  row(several + ", p50 of groups, s", all.group_p50, m.group_p50);
  row(several + ", p99 of groups, s", all.group_p99, m.group_p99);
  std::printf("\n");
}

void PrintRates(const Parameters& p, const std::optional<Measured>& m) {
  if (m) {
    std::printf(
        "Rates as measured: %s. A worker read %.2f MiB/s and wrote %.2f MiB/s through a link of "
        "%.2f MiB/s; %.4f s of CPU per MiB of input; a request %.1f ms, an order until its first "
        "byte %.0f ms, the check of a result %.1f ms.\n\n",
        m->what.c_str(), m->read_mib_s, m->write_mib_s, m->link_mib_s, m->cpu_s_per_mib,
        1000 * m->latency_s, 1000 * m->order_s, 1000 * m->check_s);
    Validate(*m, p);
  } else {
    std::printf("Rates are the defaults of this program, and not measured.\n\n");
  }
}

void PrintAsked(const Parameters& p) {
  std::printf(
      "Asked: %.2f MiB/s of input per worker, %d groups at a time; %.0f ms until the first byte, "
      "%.1f ms per check, %d at a time; %.1f%% of workers %.0f times slower, one death per worker "
      "in %.0f hours, of which %.0f%% are noticed by silence of %.0f s; %lld groups per worker of "
      "%.0f MiB on average.\n\n",
      p.worker_mib_s, p.cap, 1000 * p.start_s, 1000 * p.check_s, p.check_at_once,
      100 * p.slow_share, p.slow_factor, p.mtbf_hours, 100 * p.silent_share, p.silence_s,
      static_cast<long long>(p.groups_per_worker), p.group_mib);
  std::fflush(stdout);
}

}  // namespace
}  // namespace lithify::fleet

int main(int argc, char** argv) {
  using lithify::fleet::Model;
  lithify::fleet::Parameters p;
  std::string rates = "bench/fleet_rates.json";
  double link_mib_s = 0;
  double cores = 0;
  CLI::App app{"How rewriting scales over workers: a model on the real placement code."};
  app.add_option("--rates", rates,
                 "measured rates, as ./dev bench fleet writes them; where there "
                 "is no such file, or \"\": the defaults")
      ->capture_default_str()
      ->take_last();
  app.add_option("--link", link_mib_s, "MiB/s of a worker's link instead of the measured one");
  app.add_option("--cores", cores, "of a worker: what the measured CPU time per MiB allows");
  app.add_option("--workers", p.workers, "numbers of workers")->delimiter(',');
  app.add_option("--groups", p.groups, "groups in all; 0: --groups-per-worker");
  app.add_option("--groups-per-worker", p.groups_per_worker);
  app.add_option("--group-mib", p.group_mib, "mean size of a group");
  app.add_option("--largest-mib", p.largest_mib, "largest group");
  app.add_option("--zipf", p.zipf, "exponent of the sizes; 0: all the same");
  // These and other rates are above measured ones.
  app.add_option("--cap", p.cap, "groups that a worker has at a time");
  app.add_option("--worker-rate", p.worker_mib_s, "MiB/s of one worker");
  app.add_option("--group-rate", p.group_mib_s, "MiB/s of one group at most");
  app.add_option("--store-rate", p.store_mib_s, "MiB/s of all workers together; 0: no bound");
  app.add_option("--slow-share", p.slow_share, "share of workers that are slow");
  app.add_option("--slow-factor", p.slow_factor, "by so much");
  app.add_option("--mtbf", p.mtbf_hours, "hours until a worker dies; 0: never");
  app.add_option("--restart", p.restart_s, "seconds until it is back");
  app.add_option("--silent-share", p.silent_share, "share of deaths that only silence tells of");
  app.add_option("--silence", p.silence_s, "seconds of it");
  app.add_option("--latency", p.latency_s, "seconds of a call");
  app.add_option("--start", p.start_s, "seconds of a group before its first byte");
  app.add_option("--check", p.check_s, "seconds of the coordinator per result");
  app.add_option("--check-at-once", p.check_at_once, "results")->check(CLI::PositiveNumber);
  app.add_option("--attempts", p.attempts, "that may fail, of one group");
  app.add_flag("!--no-hedge", p.hedge, "no group is repeated");
  app.add_option("--seed", p.seed);
  // Read twice: what is said on the command line is above what the file says.
  CLI11_PARSE(app, argc, argv);
  std::optional<lithify::fleet::Measured> measured;
  try {
    if (!rates.empty()) measured = lithify::fleet::ReadMeasured(rates);
  } catch (const std::exception& e) {
    std::cerr << "fleet_model: " << rates << ": " << e.what() << "; measure anew\n";
    return 1;
  }
  if (measured) lithify::fleet::Calibrate(*measured, 0, 0, p);
  lithify::fleet::PrintRates(p, measured);
  if (measured) lithify::fleet::Calibrate(*measured, link_mib_s, cores, p);
  p.workers.clear();
  CLI11_PARSE(app, argc, argv);
  if (p.workers.empty()) p.workers = lithify::fleet::Parameters().workers;
  lithify::fleet::PrintAsked(p);

  std::cout
      << "| workers | s | times one worker | efficiency | p50 of groups, s | p99 of groups, s | "
         "stragglers | p99 wait, s | tail, s | idle | wasted "
         "bytes | attempts | retries | repeats | placement, of a core | µs per event |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  bool failed = false;
  for (const int workers : p.workers) {
    const auto outcome = Model(p, workers).Run();
    PrintRow(workers, outcome);
    failed = failed || outcome.failed;
  }
  return failed ? 1 : 0;
}
