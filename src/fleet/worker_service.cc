#include "fleet/worker_service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/text.h"
#include "base/turns.h"

namespace lithify::fleet {
namespace {

// Of adopted attempts so many are remembered, for who asks again.
constexpr size_t kAdoptedMax = 10'000;
constexpr auto kTick = std::chrono::milliseconds(100);

// Nothing was begun.
std::unexpected<LinkError> Refused(std::string message) {
  return std::unexpected(
      LinkError{.transport = true, .error = {Code::kLimit, std::move(message), {}, {}}});
}
std::unexpected<LinkError> Application(Error error) {
  return std::unexpected(LinkError{.transport = false, .error = std::move(error)});
}

enum class State { kRunning, kFinished, kAdopted, kGone };

struct Attempt {
  // Until its thread began.
  GroupOrder order;
  int64_t memory_bytes = 0;
  std::shared_ptr<GroupAttempt> work;
  CancelFlag cancel;
  std::atomic<int64_t> bytes{0};
  std::atomic<uint64_t> steps{0};
  std::atomic<bool> waits{false};  // For its turn to load.
  // Under the service's mutex.
  State state = State::kRunning;
  bool dropped = false;  // Nobody wants what comes of it.
  bool stopped = false;  // The worker stops.
  std::optional<group::GroupResult> result;
  std::optional<LinkError> error;
  Duration finished_at{};
  std::thread thread;
};
using AttemptPtr = std::shared_ptr<Attempt>;

class Service final : public WorkerService {
 public:
  Service(WorkerOptions options, OpenAttempt open, const Clock& clock)
      : options_(std::move(options)),
        open_(std::move(open)),
        clock_(clock),
        loads_(rewrite::LoadsAtOnce(options_.max_inflight_groups)) {
    keeper_ = std::thread([this] { Keep(); });
  }

  ~Service() override {
    Drain(Duration::zero());
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    keeper_.join();
  }

  LinkResult<std::unique_ptr<Follower>> Begin(const GroupOrder& order) override;

  LinkResult<void> Adopt(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    if (adopted_.contains(name)) return {};
    const auto found = attempts_.find(name);
    if (found != attempts_.end() && found->second->state == State::kRunning) {
      return Application({Code::kInvalid, "the attempt still runs", name, {}});
    }
    if (found == attempts_.end() || found->second->state != State::kFinished) {
      return Application({Code::kNotFound,
                          "no such outputs are here: they were removed, or the worker was started "
                          "anew",
                          name,
                          {}});
    }
    found->second->state = State::kAdopted;
    adopted_.insert(name);
    adopted_order_.push_back(name);
    if (adopted_order_.size() > kAdoptedMax) {
      adopted_.erase(adopted_order_.front());
      adopted_order_.pop_front();
    }
    changed_.notify_all();
    return {};
  }

  LinkResult<void> Drop(const std::string& name) override {
    AttemptPtr attempt;
    {
      const std::lock_guard lock(mutex_);
      if (adopted_.contains(name)) {
        return Application({Code::kInvalid, "the outputs were adopted: they stay", name, {}});
      }
      const auto found = attempts_.find(name);
      if (found == attempts_.end()) return {};
      attempt = found->second;
    }
    Forsake(attempt, "dropped on request");
    return {};
  }

  LinkResult<void> Refresh(const std::string& name,
                           const std::vector<storage::Loan>& loans) override {
    std::shared_ptr<GroupAttempt> work;
    {
      const std::lock_guard lock(mutex_);
      const auto found = attempts_.find(name);
      if (found != attempts_.end()) work = found->second->work;
    }
    if (!work) return Application({Code::kNotFound, "no such attempt is here", name, {}});
    work->Refresh(loans);
    return {};
  }

  WorkerStatus AskStatus() const override {
    const std::lock_guard lock(mutex_);
    WorkerStatus status;
    status.id = options_.id;
    status.version = options_.version;
    status.inflight = running_;
    status.max_inflight_groups = options_.max_inflight_groups;
    status.memory_bytes = options_.memory_bytes;
    status.draining = draining_;
    return status;
  }

  void Drain(Duration patience) override {
    std::vector<AttemptPtr> left;
    {
      std::unique_lock lock(mutex_);
      draining_ = true;
      changed_.wait_for(lock, patience, [this] { return !Busy(); });
      for (const auto& [name, attempt] : attempts_) {
        left.push_back(attempt);
        attempt->stopped = attempt->stopped || attempt->state == State::kRunning;
      }
    }
    for (const AttemptPtr& attempt : left) Forsake(attempt, "the worker stops");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0 && removing_ == 0; });
  }

  // Of all attempts, so far.
  uint64_t steps() const { return steps_; }

  // The last frame, once there is one within `wait`.
  std::optional<Frame> WaitFor(const AttemptPtr& attempt, Duration wait) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, wait, [&] { return attempt->state != State::kRunning; });
    if (attempt->state == State::kRunning) return std::nullopt;
    if (attempt->result && attempt->state != State::kGone) {
      return DoneFrame{.group_id = attempt->order.task.number, .result = *attempt->result};
    }
    if (attempt->error) return FailedFrame{*attempt->error};
    return FailedFrame{
        {.transport = true, .error = {Code::kTransient, "the outputs were removed", {}, {}}}};
  }

  // Stops it, or removes its outputs, unless they are somebody else's by now.
  void Forsake(const AttemptPtr& attempt, const std::string& why) {
    std::optional<group::GroupResult> result;
    {
      const std::lock_guard lock(mutex_);
      attempt->dropped = attempt->dropped || attempt->state == State::kRunning;
      attempt->cancel.Request();
      if (attempt->state != State::kFinished) return;
      attempt->state = State::kGone;
      result = std::move(attempt->result);
      attempt->result.reset();
      ++removing_;
    }
    Remove(attempt, *result, why);
    const std::lock_guard lock(mutex_);
    --removing_;
    changed_.notify_all();
  }

 private:
  bool Busy() const {
    return running_ > 0 || removing_ > 0 || std::ranges::any_of(attempts_, [](const auto& entry) {
             return entry.second->state == State::kFinished;
           });
  }

  void Tell(const std::string& line) const {
    if (options_.told) options_.told(line);
  }

  Result<Turns::Turn> TurnToLoad(Attempt& attempt, const CancelFlag& cancel) {
    attempt.waits = true;
    auto turn = loads_.Take(cancel);
    attempt.waits = false;
    return turn;
  }

  void Remove(const AttemptPtr& attempt, const group::GroupResult& result, const std::string& why) {
    Tell("attempt " + attempt->order.attempt + ": " + why + ": removing " +
         FormatCount(static_cast<int64_t>(result.outputs.size())) + " outputs");
    for (const std::string& left : attempt->work->RemoveOutputs(result)) {
      Tell("attempt " + attempt->order.attempt + ": an output stays: " + left);
    }
  }

  void Run(const AttemptPtr& attempt) {
    Result<group::GroupResult> result = Fail(Code::kInternal, "did not run");
    try {
      const auto on_progress = [this, raw = attempt.get()](int64_t bytes) {
        raw->bytes += bytes;
        ++raw->steps;
        ++steps_;
      };
      result = attempt->work->Run(on_progress, attempt->cancel);
    } catch (const std::exception& e) {
      result = Fail(Code::kInternal, std::string("unexpected exception: ") + e.what());
    }
    End(attempt, std::move(result));
  }

  void End(const AttemptPtr& attempt, Result<group::GroupResult> result) {
    if (!result) {
      Tell("attempt " + attempt->order.attempt + " failed: " + result.error().ToString());
    }
    std::optional<group::GroupResult> unwanted;
    {
      const std::lock_guard lock(mutex_);
      --running_;
      memory_taken_ -= attempt->memory_bytes;
      attempt->finished_at = clock_.Monotonic();
      if (result && !attempt->dropped) {
        attempt->state = State::kFinished;
        attempt->result = *std::move(result);
      } else {
        attempt->state = State::kGone;
        attempt->error = ErrorOf(*attempt, result);
        if (result) unwanted = *std::move(result);
        if (unwanted) ++removing_;
      }
      changed_.notify_all();
    }
    if (!unwanted) return;
    Remove(attempt, *unwanted, "nobody wants it any more");
    const std::lock_guard lock(mutex_);
    --removing_;
    changed_.notify_all();
  }

  static LinkError ErrorOf(const Attempt& attempt, const Result<group::GroupResult>& result) {
    // What became of it is known, but whether because of us is not: the group may go elsewhere.
    if (attempt.stopped && (result || result.error().code == Code::kCancelled)) {
      return {.transport = true, .error = {Code::kTransient, "the worker stops", {}, {}}};
    }
    if (result) {
      return {.transport = false, .error = {Code::kCancelled, "stopped on request", {}, {}}};
    }
    // By its code it may pass elsewhere: a store that cannot be reached from here, say.
    return {.transport = result.error().code == Code::kTransient, .error = result.error()};
  }

  // Removes what nobody took, and forgets what has ended.
  void Keep() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      std::vector<AttemptPtr> late;
      std::vector<std::thread> ended;
      const Duration now = clock_.Monotonic();
      for (auto at = attempts_.begin(); at != attempts_.end();) {
        const AttemptPtr& attempt = at->second;
        if (attempt->state == State::kFinished &&
            now - attempt->finished_at >= options_.unadopted) {
          late.push_back(attempt);
        }
        const bool over = attempt->state == State::kAdopted || attempt->state == State::kGone;
        if (over) ended.push_back(std::move(attempt->thread));
        at = over ? attempts_.erase(at) : std::next(at);
      }
      lock.unlock();
      for (std::thread& thread : ended) thread.join();
      for (const AttemptPtr& attempt : late) Forsake(attempt, "nobody adopted it");
      lock.lock();
      changed_.wait_for(lock, kTick, [this] { return ends_; });
    }
    // Drained: nothing runs.
    for (auto& [name, attempt] : attempts_) {
      if (attempt->thread.joinable()) attempt->thread.join();
    }
  }

  const WorkerOptions options_;
  const OpenAttempt open_;
  const Clock& clock_;
  Turns loads_;
  std::atomic<uint64_t> steps_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, AttemptPtr> attempts_;
  std::set<std::string, std::less<>> adopted_;
  std::deque<std::string> adopted_order_;
  int running_ = 0;
  int removing_ = 0;
  int64_t memory_taken_ = 0;
  bool draining_ = false;
  bool ends_ = false;
  std::thread keeper_;
};

class ServiceFollower final : public WorkerService::Follower {
 public:
  ServiceFollower(Service& service, AttemptPtr attempt)
      : service_(service), attempt_(std::move(attempt)) {}
  ~ServiceFollower() override {
    if (!over_) service_.Forsake(attempt_, "the caller has gone");
  }

  std::optional<Frame> Next(Duration wait) override {
    if (over_) return std::nullopt;
    if (auto last = service_.WaitFor(attempt_, wait)) {
      over_ = true;
      return last;
    }
    const uint64_t steps = attempt_->steps;
    const uint64_t all_steps = service_.steps();
    // While it waits for others it moves as long as they do.
    const bool others_moved = attempt_->waits && all_steps != all_steps_;
    ProgressFrame frame{.group_id = attempt_->order.task.number,
                        .bytes_read = std::max<int64_t>(attempt_->bytes, 0),
                        .moved = steps != steps_ || others_moved};
    steps_ = steps;
    all_steps_ = all_steps;
    return frame;
  }

 private:
  Service& service_;
  const AttemptPtr attempt_;
  uint64_t steps_ = 0;      // Of the attempt, as told,
  uint64_t all_steps_ = 0;  // and of all.
  bool over_ = false;
};

LinkResult<std::unique_ptr<WorkerService::Follower>> Service::Begin(const GroupOrder& order) {
  auto attempt = std::make_shared<Attempt>();
  const std::lock_guard lock(mutex_);
  if (draining_) return Refused("the worker stops");
  if (attempts_.contains(order.attempt) || adopted_.contains(order.attempt)) {
    return Application({Code::kInvalid, "the attempt is known already", order.attempt, {}});
  }
  if (running_ >= options_.max_inflight_groups) {
    return Refused("the worker is full: " + std::to_string(running_) + " groups");
  }
  // Who asks for more than all of it gets all of it, once that is free.
  const int64_t share = options_.memory_bytes / std::max(1, options_.max_inflight_groups);
  attempt->memory_bytes =
      std::min(order.memory_bytes > 0 ? order.memory_bytes : share, options_.memory_bytes);
  if (attempt->memory_bytes > options_.memory_bytes - memory_taken_) {
    return Refused("the worker is full: " + FormatBytes(options_.memory_bytes - memory_taken_) +
                   " are left, and " + FormatBytes(attempt->memory_bytes) + " are needed");
  }
  const GroupGrant grant{
      .threads = std::max(1, options_.threads / std::max(1, options_.max_inflight_groups)),
      .memory_bytes = attempt->memory_bytes,
      // The attempt has the work, and the work has this.
      .turn_to_load = [this, raw = attempt.get()](const CancelFlag& cancel) {
        return TurnToLoad(*raw, cancel);
      }};
  auto work = open_(order, grant);
  if (!work) return Application(std::move(work.error()));
  attempt->order = order;
  attempt->order.loans.clear();  // The work has them.
  attempt->work = *std::move(work);
  attempts_.emplace(order.attempt, attempt);
  ++running_;
  memory_taken_ += attempt->memory_bytes;
  Tell(DescribeOrder(order));
  attempt->thread = std::thread([this, attempt] { Run(attempt); });
  return std::make_unique<ServiceFollower>(*this, attempt);
}

}  // namespace

std::unique_ptr<WorkerService> WorkerService::Make(WorkerOptions options, OpenAttempt open,
                                                   const Clock& clock) {
  return std::make_unique<Service>(std::move(options), std::move(open), clock);
}

}  // namespace lithify::fleet
