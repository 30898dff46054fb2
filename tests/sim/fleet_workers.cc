#include "fleet_workers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "group/table_group.h"
#include "rewrite/parquet_runner.h"

namespace lithify::sim {
namespace {

using fleet::LinkError;
using fleet::LinkResult;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kMemory = int64_t{64} << 20;
constexpr Duration kUnadopted = minutes(10);

std::unexpected<LinkError> Lost(std::string what) {
  return std::unexpected(LinkError{true, {Code::kTransient, std::move(what), "", ""}});
}

class Fixed final : public fleet::Discovery {
 public:
  explicit Fixed(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {}
  Result<std::vector<std::string>> Find() override { return addresses_; }

 private:
  const std::vector<std::string> addresses_;
};

}  // namespace

void FleetCounts::Add(const FleetCounts& other) {
  groups += other.groups;
  failures += other.failures;
  refusals += other.refusals;
  killed += other.killed;
  lost_answers += other.lost_answers;
  adoptions += other.adoptions;
  lost_adoptions += other.lost_adoptions;
  lies += other.lies;
  misleading += other.misleading;
  dropped += other.dropped;
  reaped += other.reaped;
  retries += other.retries;
  hedges += other.hedges;
}

// Calls wait in a queue until their time has come.
class SimWorkers::QueuedCalls final : public fleet::Calls {
 public:
  QueuedCalls(SimWorkers& world, Process process) : world_(world), process_(std::move(process)) {}

  void Begin(Call call) override {
    if (dead_ && call.kind != Kind::kResult) return;
    Dice& dice = world_.dice_;
    Duration takes = milliseconds(dice.Between(1, dice.OneIn(10) ? 9000 : 60));
    int life = 0;
    std::string known;
    if (call.kind == Kind::kCompact) {
      Worker& worker = world_.workers_[static_cast<size_t>(call.worker)];
      life = worker.life;
      known = known_[call.worker];
      ++worker.running;
      takes = milliseconds(dice.Between(10, 20'000)) * worker.slow;
    }
    queue_.emplace(std::pair(process_.clock.Monotonic() + takes, ++number_),
                   Queued{std::move(call), life, std::move(known)});
  }

  void Wait(std::unique_lock<std::mutex>& lock, Duration at_most) override {
    lock.unlock();
    if (dead_) {
      if (!FinishResult()) world_.clock_.Advance(at_most);
    } else if (!process_.step()) {
      FinishUnheard();
    } else {
      RunNext(at_most);
    }
    lock.lock();
  }
  void Wake() override {}
  void Close() override { Die(); }

  // The process died. What workers were told to do they may do all the same.
  void FinishUnheard() {
    for (auto& [at, queued] : Bury()) {
      if (queued.call.kind != Kind::kCompact) continue;
      life_ = queued.life;
      known_as_ = queued.known;
      if (world_.dice_.OneIn(2)) queued.call.run();
      --world_.workers_[static_cast<size_t>(queued.call.worker)].running;
    }
  }
  void Die() {
    if (dead_) return;
    for (auto& [at, queued] : Bury()) {
      if (queued.call.kind != Kind::kCompact) continue;
      --world_.workers_[static_cast<size_t>(queued.call.worker)].running;
    }
  }
  bool dead() const { return dead_; }
  const Process& process() const { return process_; }
  // Of its worker, when the call that runs was begun; and what the coordinator took it for.
  int life() const { return life_; }
  const std::string& known_as() const { return known_as_; }
  // What a worker has told the coordinator of itself.
  void Know(int worker, std::string id) { known_[worker] = std::move(id); }

 private:
  struct Queued {
    Call call;
    int life = 0;
    std::string known;
  };

  using Queue = std::map<std::pair<Duration, int64_t>, Queued>;

  // What was to be done by others. What the job itself was at is left, and comes to its end without
  // anything of the world.
  Queue Bury() {
    dead_ = true;
    Queue rest = std::exchange(queue_, {});
    for (auto at = rest.begin(); at != rest.end();) {
      const auto next = std::next(at);
      if (at->second.call.kind == Kind::kResult) queue_.insert(rest.extract(at));
      at = next;
    }
    return rest;
  }
  bool FinishResult() {
    if (queue_.empty()) return false;
    const auto queued = std::move(queue_.extract(queue_.begin()).mapped());
    queued.call.run();
    return true;
  }

  void RunNext(Duration at_most) {
    const Duration now = process_.clock.Monotonic();
    if (queue_.empty()) return world_.clock_.Advance(at_most);
    const Duration due = queue_.begin()->first.first;
    if (due > now + at_most) {
      return world_.clock_.Advance(std::min<Duration>(due - now, seconds(1)));
    }
    if (due > now) world_.clock_.Advance(due - now);
    auto queued = std::move(queue_.extract(queue_.begin()).mapped());
    life_ = queued.life;
    known_as_ = queued.known;
    const int worker = queued.call.kind == Kind::kCompact ? queued.call.worker : -1;
    queued.call.run();
    if (worker >= 0) --world_.workers_[static_cast<size_t>(worker)].running;
  }

  SimWorkers& world_;
  const Process process_;
  Queue queue_;
  int64_t number_ = 0;
  int life_ = 0;
  std::string known_as_;
  std::map<int, std::string> known_;
  bool dead_ = false;
};

class SimWorkers::Link final : public fleet::WorkerLink {
 public:
  Link(SimWorkers& world, int index, QueuedCalls& calls, bool& deceived)
      : world_(world), index_(index), calls_(calls), deceived_(deceived) {}

  LinkResult<fleet::WorkerStatus> AskStatus(Duration) override {
    const Worker& it = worker();
    if (it.cut_off || OneIn(30)) return Lost("no answer");
    calls_.Know(index_, world_.IdOf(index_));
    return fleet::WorkerStatus{.id = world_.IdOf(index_),
                               .version = "sim",
                               .inflight = it.running,
                               .max_inflight_groups = it.cap,
                               .memory_bytes = kMemory * it.cap,
                               .draining = OneIn(100)};
  }

  LinkResult<group::GroupResult> Compact(const fleet::GroupOrder& order, const fleet::LinkTimes&,
                                         const OnProgress& on_progress,
                                         const CancelFlag& cancel) override {
    const std::string life = calls_.known_as();
    const std::tuple key{order.task.job_id, order.task.metadata_location, order.task.number, life};
    if (world_.failed_.contains(key)) {
      world_.hooks_.violate("a group was given to the worker that had failed with it");
    }
    auto result = Attempted(order, on_progress, cancel);
    if (!result && result.error().transport && result.error().error.code == Code::kTransient &&
        !cancel.requested()) {
      ++world_.counts_.failures;
      world_.failed_.insert(key);
    }
    world_.hooks_.trace(actor(), "group " + std::to_string(order.task.number) + " at " + life +
                                     ": " + (result ? "done" : result.error().error.ToString()));
    return result;
  }

  LinkResult<void> Adopt(const std::string& attempt, Duration) override {
    Worker& it = worker();
    world_.hooks_.trace(actor(), "adopt " + attempt + " at " + world_.IdOf(index_));
    if (it.cut_off || OneIn(20)) return Lost("not reached");
    const auto at = it.attempts.find(attempt);
    if (at == it.attempts.end()) {
      return std::unexpected(LinkError{false, {Code::kNotFound, "no such attempt", "", ""}});
    }
    at->second.adopted = true;
    ++world_.counts_.adoptions;
    if (!OneIn(15)) return {};
    ++world_.counts_.lost_adoptions;
    return Lost("the answer was lost");
  }

  LinkResult<void> Drop(const std::string& attempt, Duration) override {
    Worker& it = worker();
    if (it.cut_off || OneIn(10)) return Lost("not reached");
    it.dropped.insert(attempt);
    const auto at = it.attempts.find(attempt);
    if (at == it.attempts.end()) return {};
    if (at->second.adopted) {
      world_.hooks_.violate("an attempt is dropped after its adoption");
      return {};
    }
    const auto outputs = std::move(at->second.outputs);
    it.attempts.erase(at);
    ++world_.counts_.dropped;
    world_.Remove(actor(), outputs);
    return {};
  }

  LinkResult<void> Refresh(const std::string&, const std::vector<storage::Loan>&,
                           Duration) override {
    return {};
  }

 private:
  Worker& worker() { return world_.workers_[static_cast<size_t>(index_)]; }
  int actor() const { return calls_.process().actor; }
  bool OneIn(uint64_t n) { return world_.dice_.OneIn(n); }

  LinkResult<group::GroupResult> Attempted(const fleet::GroupOrder& order,
                                           const OnProgress& on_progress,
                                           const CancelFlag& cancel) {
    if (worker().life != calls_.life()) return Lost("connection reset");
    if (worker().cut_off || worker().broken) return Lost("nothing was heard for two minutes");
    if (worker().dropped.contains(order.attempt)) return Lost("dropped");
    if (OneIn(25)) {
      ++world_.counts_.refusals;
      return std::unexpected(LinkError{true, {Code::kLimit, "full", "", ""}});
    }
    const WorkerProcess process = world_.hooks_.new_process(actor());
    auto result = world_.Rewrite(order, process);
    // Others ran meanwhile.
    if (process.crashed()) world_.Kill(worker());
    if (worker().life != calls_.life()) return Lost("connection reset");
    if (!result) {
      const bool transport = result.error().code == Code::kTransient;
      return std::unexpected(LinkError{transport, std::move(result.error())});
    }
    if (worker().dropped.contains(order.attempt)) {
      world_.Remove(actor(), result->outputs);
      return Lost("dropped");
    }
    worker().attempts[order.attempt] = {result->outputs, world_.clock_.Now(), false};
    ++world_.counts_.groups;
    if (OneIn(12)) {
      ++world_.counts_.lost_answers;
      return Lost("the answer was lost");
    }
    if (cancel.requested()) return Lost("stopped on request");
    on_progress(1);
    if (worker().misleads) world_.Mislead(*result);
    if (worker().liar && OneIn(3) && world_.Lie(*result)) deceived_ = true;
    return std::move(*result);
  }

  SimWorkers& world_;
  const int index_;
  QueuedCalls& calls_;
  bool& deceived_;
};

class SimWorkers::RealCoordinator final : public Coordinator {
 public:
  RealCoordinator(SimWorkers& world, Process process) : world_(world) {
    auto calls = std::make_unique<QueuedCalls>(world, process);
    calls_ = calls.get();
    fleet::DispatcherOptions options;
    options.placement.group_attempts = static_cast<int>(world.dice_.Between(2, 6));
    options.placement.hedge_gain = milliseconds(world.dice_.Between(0, 4000));
    dispatcher_ = std::make_unique<fleet::Dispatcher>(
        fleet::DispatcherServices{.discovery = std::make_unique<Fixed>(world.addresses()),
                                  .make_link =
                                      [this](const std::string& address) {
                                        const int index = std::stoi(address.substr(1));
                                        return std::make_unique<Link>(world_, index, *calls_,
                                                                      deceived_);
                                      },
                                  .clock = process.clock,
                                  .random = world.random_,
                                  .calls = std::move(calls)},
        options);
  }
  ~RealCoordinator() override {
    calls_->Die();
    world_.counts_.retries += static_cast<uint64_t>(dispatcher_->counters().retries);
    world_.counts_.hedges += static_cast<uint64_t>(dispatcher_->counters().hedges);
  }
  group::Fleet& fleet() override { return *dispatcher_; }
  void Kill() override { calls_->Die(); }
  bool deceived() const override { return deceived_; }

 private:
  SimWorkers& world_;
  QueuedCalls* calls_ = nullptr;
  bool deceived_ = false;
  std::unique_ptr<fleet::Dispatcher> dispatcher_;
};

SimWorkers::SimWorkers(Dice& dice, SimClock& clock, Random& random, FleetHooks hooks)
    : dice_(dice), clock_(clock), random_(random), hooks_(std::move(hooks)) {
  const int64_t count = dice_.Between(1, 4);
  for (int64_t w = 0; w < count; ++w) {
    Worker worker;
    worker.cap = static_cast<int>(dice_.Between(1, 2));
    worker.broken = w > 0 && dice_.OneIn(6);
    worker.liar = dice_.OneIn(10);
    worker.misleads = dice_.OneIn(2);
    worker.slow = dice_.OneIn(5) ? 20 : 1;
    workers_.push_back(std::move(worker));
  }
}

std::vector<std::string> SimWorkers::addresses() const {
  std::vector<std::string> addresses;
  for (size_t w = 0; w < workers_.size(); ++w) addresses.push_back("w" + std::to_string(w));
  return addresses;
}

std::string SimWorkers::IdOf(int worker) const {
  return "w" + std::to_string(worker) + "." +
         std::to_string(workers_[static_cast<size_t>(worker)].life);
}

std::unique_ptr<SimWorkers::Coordinator> SimWorkers::NewCoordinator(Process process) {
  return std::make_unique<RealCoordinator>(*this, std::move(process));
}

// What it had done and not given away is nobody's from here on.
void SimWorkers::Kill(Worker& worker) {
  ++counts_.killed;
  ++worker.life;
  worker.attempts.clear();
  worker.dropped.clear();
}

void SimWorkers::Shake() {
  Worker& worker = workers_[dice_.Below(workers_.size())];
  switch (dice_.Below(4)) {
    case 0: return Kill(worker);
    case 1: worker.cut_off = !worker.cut_off; return;
    case 2: worker.slow = dice_.OneIn(2) ? 20 : 1; return;
    default: worker.cut_off = false;
  }
}

void SimWorkers::Remove(int actor, const std::vector<iceberg::DataFile>& outputs) {
  if (outputs.empty()) return;
  const WorkerProcess process = hooks_.new_process(actor);
  [[maybe_unused]] const auto left = group::RemoveOutputs(*process.locations, outputs);
}

void SimWorkers::Reap(int actor, bool all) {
  for (Worker& worker : workers_) {
    std::vector<iceberg::DataFile> old;
    for (auto at = worker.attempts.begin(); at != worker.attempts.end();) {
      const Attempt& attempt = at->second;
      const bool ripe = all || clock_.Now() - attempt.done >= kUnadopted;
      if (attempt.adopted || !ripe) {
        ++at;
        continue;
      }
      ++counts_.reaped;
      std::ranges::copy(attempt.outputs, std::back_inserter(old));
      at = worker.attempts.erase(at);
    }
    Remove(actor, old);
  }
}

Result<group::GroupResult> SimWorkers::Rewrite(const fleet::GroupOrder& order,
                                               const WorkerProcess& process) {
  const CancelFlag cancel;
  const group::GroupServices services{
      *process.locations,
      [](storage::Store& store) { return rewrite::MakeParquetRunner(store, kMemory); }, clock_,
      random_};
  LITHIFY_TRY_ASSIGN(const auto table,
                     group::OpenedTable::Open(*process.locations, order.task.metadata_location,
                                              order.task.snapshot_id, 1, cancel));
  LITHIFY_TRY_ASSIGN(const auto files, group::FindFiles(table->view(), order.task));
  const group::GroupBounds bounds{.threads = 1, .memory_bytes = order.memory_bytes};
  return group::RewriteGroup(services, table->view(), order.task, files, bounds, cancel);
}

// That delete files name no files but those of the group: they would go, with what they say of
// others. Nobody believes it, and so nobody complains.
void SimWorkers::Mislead(group::GroupResult& result) {
  for (auto& [location, paths] : result.named_paths) {
    const size_t before = paths.size();
    std::erase_if(paths, [&](const std::string& path) {
      return std::ranges::none_of(result.inputs,
                                  [&](const auto& input) { return input.path == path; });
    });
    if (paths.size() != before) ++counts_.misleading;
  }
}

// False: there was nothing to lie about.
bool SimWorkers::Lie(group::GroupResult& result) {
  if (result.outputs.empty()) return false;
  ++counts_.lies;
  iceberg::DataFile& output = result.outputs.front();
  switch (dice_.Below(9)) {
    case 0: ++output.record_count; break;
    case 1: output.file_path = result.inputs.front().path; break;
    case 2: output.file_path.insert(output.file_path.rfind('/'), "/elsewhere"); break;
    case 3: output.spec_id = 1 - output.spec_id; break;
    case 4: result.outputs.push_back(output); break;
    case 5: result.inputs.front().path = output.file_path; break;
    case 6:
      ++result.rows_deleted;
      --result.report.rows_out;
      break;
    case 7:
      for (auto& input : result.inputs) input.records += input.rows_deleted;
      ++result.inputs.front().records;
      break;
    default: result.outputs.pop_back(); break;
  }
  return true;
}

}  // namespace lithify::sim
