#include "fleet/dispatcher.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <fstream>
#include <utility>

#include "base/text.h"

namespace lithify::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = Action::Kind;

constexpr Duration kTick = seconds(1);
constexpr Duration kLook = milliseconds(100);  // How soon a stop is heard.
constexpr Duration kStopWait = milliseconds(800);
constexpr Duration kFarewell = seconds(2);
constexpr Duration kAnswerAge = seconds(2);  // An answer so young is not asked for again.
constexpr Duration kRestOfAnswers = seconds(1);
constexpr Duration kKeysMargin = minutes(10);
constexpr Duration kKeysPause = seconds(30);
constexpr size_t kNamesMax = 1 << 16;
constexpr size_t kNotesMax = 100;

// To a worker that cannot be spoken with at all.
class NoLink final : public WorkerLink {
 public:
  explicit NoLink(Error error) : error_{true, std::move(error)} {}
  LinkResult<WorkerStatus> AskStatus(Duration) override { return std::unexpected(error_); }
  LinkResult<group::GroupResult> Compact(const GroupOrder&, const LinkTimes&, const OnProgress&,
                                         const CancelFlag&) override {
    return std::unexpected(error_);
  }
  LinkResult<void> Adopt(const std::string&, Duration) override { return std::unexpected(error_); }
  LinkResult<void> Drop(const std::string&, Duration) override { return std::unexpected(error_); }
  LinkResult<void> Refresh(const std::string&, const std::vector<storage::Loan>&,
                           Duration) override {
    return std::unexpected(error_);
  }

 private:
  const LinkError error_;
};

std::string Name(const std::string& address, const std::string& id) {
  return id.empty() ? address : address + " (" + id + ")";
}

std::string QueueText(const QueueLengths& lengths, Time now) {
  const auto ms = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count();
  return "{\"waiting_groups\":" + std::to_string(lengths.waiting_groups) +
         ",\"waiting_bytes\":" + std::to_string(lengths.waiting_bytes) +
         ",\"running_groups\":" + std::to_string(lengths.running_groups) +
         ",\"written_at_ms\":" + std::to_string(ms) + "}\n";
}

// Who reads sees the old text or the new one.
bool Replace(const std::string& path, const std::string& text) {
  const std::string scratch = path + ".new";
  {
    std::ofstream file(scratch, std::ios::binary | std::ios::trunc);
    file << text;
    if (!file.flush().good()) return false;
  }
  return std::rename(scratch.c_str(), path.c_str()) == 0;
}

}  // namespace

struct Dispatcher::Job {
  const std::vector<group::FleetGroup>& groups;
  const group::FleetJob& request;
  int64_t number = -1;
  std::deque<std::pair<size_t, Error>> failed = {};
  std::deque<std::pair<size_t, group::GroupResult>> finished = {};
  int taking = 0;  // Results that the caller is looking at.
  bool ended = false;
  bool stopped = false;
  std::optional<Duration> abandon_at = {};
  std::vector<storage::Loan> loans = {};
  int64_t keys = 0;  // Counts how often they were lent.
  std::optional<Duration> renew_at = {};
  group::FleetStory story = {};

  // What a group's attempts read, told once. Its own lock: the caller's function is called with it,
  // and not after the job has ended.
  std::mutex progress_mutex = {};
  std::vector<int64_t> told = {};
  bool closed = false;

  bool delivered() const { return failed.empty() && finished.empty() && taking == 0; }

  void Tell(size_t group, int64_t bytes) {
    const std::lock_guard lock(progress_mutex);
    if (closed || !request.on_progress) return;
    const int64_t more = std::min(bytes, groups[group].bytes) - told[group];
    if (more <= 0) return;
    told[group] += more;
    request.on_progress(more);
  }
  void Close() {
    const std::lock_guard lock(progress_mutex);
    closed = true;
  }
};

struct Dispatcher::Attempt {
  std::shared_ptr<Job> job;
  size_t group = 0;
  int worker = 0;
  std::string name;
  int64_t memory_bytes = 0;
  Duration begun{};
  Duration took{};
  CancelFlag cancel;
  std::optional<group::GroupResult> result;
  bool sent = false;  // Its order has left.
  bool calling = true;
  int64_t keys = 0;  // As Job::keys.
  bool refreshing = false;
  std::optional<Duration> refresh_at;
  int64_t read = 0;
};

Dispatcher::Dispatcher(DispatcherServices services, DispatcherOptions options)
    : services_(std::move(services)),
      options_(std::move(options)),
      placement_(options_.placement) {}

Dispatcher::~Dispatcher() {
  Stop();
  std::unique_lock lock(mutex_);
  LITHIFY_CHECK(jobs_.empty(), "a fleet outlives its jobs");
  const Duration until = Now() + kFarewell;
  while (controls_ > 0 && Now() < until) services_.calls->Wait(lock, kLook);
  lock.unlock();
  services_.calls->Close();  // Calls use everything else.
}

void Dispatcher::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  services_.calls->Wake();
}

std::vector<WorkerView> Dispatcher::workers() const {
  const std::lock_guard lock(mutex_);
  return placement_.workers();
}
std::vector<group::FleetWorker> Dispatcher::Workers() const {
  std::vector<group::FleetWorker> all;
  for (const WorkerView& worker : workers()) {
    all.push_back({.state = worker.draining ? "draining" : std::string(HealthName(worker.health)),
                   .groups = worker.running + worker.others,
                   .slots = worker.cap});
  }
  return all;
}
PlacementCounters Dispatcher::counters() const {
  const std::lock_guard lock(mutex_);
  return placement_.counters();
}
QueueLengths Dispatcher::queue() const {
  const std::lock_guard lock(mutex_);
  return placement_.queue();
}

// --- calls ---------------------------------------------------------------------------------------

void Dispatcher::Apply(const Actions& actions) {
  for (const Action& action : actions) ApplyOne(action);
  if (!actions.empty()) services_.calls->Wake();
}

void Dispatcher::ApplyOne(const Action& action) {
  switch (action.kind) {
    case Kind::kProbe: return BeginProbe(action.worker);
    case Kind::kStart: return BeginCompact(action);
    case Kind::kAdopt: return BeginAdopt(action);
    case Kind::kDrop: return BeginDrop(action.worker, action.attempt);
    case Kind::kGroupDone: return GroupDone(action);
    case Kind::kCancel:
      if (const auto at = attempts_.find(action.attempt); at != attempts_.end()) {
        at->second->cancel.Request();
      }
      return;
    case Kind::kGroupFailed: {
      Job& job = *jobs_.at(action.job);
      job.failed.emplace_back(static_cast<size_t>(action.group), action.error);
      return;
    }
    case Kind::kJobEnded: jobs_.at(action.job)->ended = true; return;
  }
}

std::shared_ptr<WorkerLink> Dispatcher::LinkOf(int worker) {
  auto& link = links_[worker];
  if (link != nullptr) return link;
  auto made = services_.make_link(placement_.AddressOf(worker));
  if (made)
    link = std::move(*made);
  else
    link = std::make_shared<NoLink>(std::move(made.error()));
  return link;
}

void Dispatcher::BeginProbe(int worker) {
  probing_.insert(worker);
  services_.calls->Begin(
      {.kind = Calls::Kind::kProbe, .worker = worker, .run = [this, worker, link = LinkOf(worker)] {
         const auto status = link->AskStatus(options_.status_timeout);
         const std::lock_guard lock(mutex_);
         probing_.erase(worker);
         if (!status) {
           Apply(placement_.OnProbeFailed(worker, status.error().error.ToString(), Now()));
         } else {
           Apply(placement_.OnStatus(worker,
                                     {.id = status->id,
                                      .inflight = status->inflight,
                                      .max_inflight_groups = status->max_inflight_groups,
                                      .memory_bytes = status->memory_bytes,
                                      .draining = status->draining},
                                     Now()));
         }
         services_.calls->Wake();
       }});
}

void Dispatcher::BeginCompact(const Action& action) {
  auto attempt = std::make_shared<Attempt>();
  attempt->job = jobs_.at(action.job);
  attempt->group = static_cast<size_t>(action.group);
  attempt->worker = action.worker;
  attempt->name = MakeUuidV7(services_.clock, services_.random);
  attempt->memory_bytes = action.memory_bytes;
  attempt->begun = Now();
  group::GroupStory& story = attempt->job->story.groups[attempt->group];
  ++story.attempts;
  story.repeated |= action.hedge;
  names_[action.attempt] = attempt->name;
  if (names_.size() > kNamesMax) names_.erase(names_.begin());
  attempts_[action.attempt] = attempt;
  services_.calls->Begin({.kind = Calls::Kind::kCompact,
                          .worker = action.worker,
                          .bytes = attempt->job->groups[attempt->group].bytes,
                          .run = [this, id = action.attempt, attempt,
                                  link = LinkOf(action.worker)] { Compact(id, attempt, *link); }});
}

void Dispatcher::Compact(int64_t id, const std::shared_ptr<Attempt>& attempt, WorkerLink& link) {
  GroupOrder order;
  {
    const std::lock_guard lock(mutex_);
    // A job that has ended has no groups any more.
    if (attempt->cancel.requested() || !jobs_.contains(attempt->job->number)) {
      return CompactEnded(id, *attempt,
                          std::unexpected(LinkError{
                              true, {Code::kCancelled, "stopped before it was begun", "", ""}}));
    }
    order.task = attempt->job->groups[attempt->group].task;
    order.attempt = attempt->name;
    order.loans = attempt->job->loans;
    order.memory_bytes = attempt->memory_bytes;
    attempt->keys = attempt->job->keys;
    attempt->sent = true;
  }
  const auto on_progress = [this, id, attempt](int64_t bytes) {
    int64_t read = 0;
    {
      const std::lock_guard lock(mutex_);
      read = attempt->read += bytes;
      placement_.OnProgress(id, read, Now());
    }
    attempt->job->Tell(attempt->group, read);
  };
  auto result = link.Compact(order, options_.times, on_progress, attempt->cancel);
  const std::lock_guard lock(mutex_);
  CompactEnded(id, *attempt, std::move(result));
}

void Dispatcher::CompactEnded(int64_t id, Attempt& attempt, LinkResult<group::GroupResult> result) {
  attempt.calling = false;
  const std::shared_ptr<Attempt> keep = attempts_.at(id);
  const bool cancelled = attempt.cancel.requested();
  if (!result && !cancelled && !attempt.job->ended) {
    attempt.job->story.groups[attempt.group].failures.push_back(
        placement_.AddressOf(attempt.worker) + ": " + result.error().error.ToString());
  }
  Actions actions;
  if (result) {
    attempt.result = std::move(*result);
    attempt.took = Now() - attempt.begun;
    actions = placement_.OnFinished(id, Now());
  } else if (result.error().transport && result.error().error.code == Code::kLimit) {
    actions = placement_.OnRefused(id, result.error().error, Now());
  } else {
    actions = placement_.OnFailed(id, result.error().transport, result.error().error, Now());
  }
  if (!result || cancelled) attempts_.erase(id);
  Apply(actions);
  services_.calls->Wake();
}

void Dispatcher::Control(int worker, std::function<void(WorkerLink&)> call) {
  ++controls_;
  services_.calls->Begin({.kind = Calls::Kind::kControl,
                          .worker = worker,
                          .run = [this, link = LinkOf(worker), call = std::move(call)] {
                            call(*link);
                            const std::lock_guard lock(mutex_);
                            --controls_;
                            services_.calls->Wake();
                          }});
}

void Dispatcher::BeginAdopt(const Action& action) {
  Control(action.worker, [this, id = action.attempt,
                          name = names_.at(action.attempt)](WorkerLink& link) {
    const auto adopted = link.Adopt(name, options_.control_timeout);
    const std::lock_guard lock(mutex_);
    if (adopted) return Apply(placement_.OnAdopted(id, Now()));
    const LinkError& error = adopted.error();
    if (const auto at = attempts_.find(id); at != attempts_.end() && !at->second->job->ended) {
      at->second->job->story.groups[at->second->group].failures.push_back(
          placement_.AddressOf(at->second->worker) +
          ": its outputs could not be taken over: " + error.error.ToString());
    }
    Apply(placement_.OnAdoptFailed(id, error.transport, error.error, Now()));
  });
}

void Dispatcher::BeginDrop(int worker, int64_t attempt) {
  const auto name = names_.find(attempt);
  if (name == names_.end()) return;
  if (const auto at = attempts_.find(attempt); at != attempts_.end()) {
    const bool sent = at->second->sent;
    if (!at->second->calling) attempts_.erase(at);
    if (!sent) return;  // Then it never will be.
  }
  Control(worker, [this, text = name->second](WorkerLink& link) {
    // Best effort: the worker removes by itself what nobody adopts.
    [[maybe_unused]] const auto dropped = link.Drop(text, options_.control_timeout);
  });
}

void Dispatcher::GroupDone(const Action& action) {
  const auto at = attempts_.find(action.attempt);
  LITHIFY_CHECK(at != attempts_.end() && at->second->result, "a result that is used was given");
  Job& job = *jobs_.at(action.job);
  const auto group = static_cast<size_t>(action.group);
  const WorkerView& view = placement_.ViewOf(action.worker);
  group::GroupStory& story = job.story.groups[group];
  group::GroupResult result = std::move(*at->second->result);
  story.worker = Name(view.address, view.id);
  story.took = at->second->took;
  story.bytes_in = result.report.bytes_in;
  story.bytes_out = result.report.bytes_out;
  attempts_.erase(at);
  if (!story.failures.empty() || story.repeated) {
    std::string note = "rewritten by worker " + story.worker;
    if (story.repeated) note += ", as the first of two";
    for (const std::string& failure : story.failures) note += "; failed at " + failure;
    result.report.notes.push_back(std::move(note));
  }
  job.finished.emplace_back(group, std::move(result));
}

// --- workers -------------------------------------------------------------------------------------

void Dispatcher::Note(const std::string& text) {
  if (notes_.size() >= kNotesMax || !notes_.insert(text).second) return;
  for (const auto& [id, job] : jobs_) job->story.notes.push_back(text);
}

bool Dispatcher::DueForDiscovery() const {
  return !discovering_ && (!discovered_ || Now() - *discovered_ >= options_.discovery_period);
}

void Dispatcher::BeginDiscovery() {
  discovering_ = true;
  services_.calls->Begin({.kind = Calls::Kind::kProbe, .run = [this] {
                            auto found = services_.discovery->Find();
                            const std::lock_guard lock(mutex_);
                            discovering_ = false;
                            discovered_ = Now();
                            if (found) {
                              Apply(placement_.SetWorkers(*found, Now()));
                            } else {
                              Note("workers: " + found.error().ToString());
                            }
                            services_.calls->Wake();
                          }});
}

bool Dispatcher::Enough() const {
  return placement_.healthy() >= std::max(1, options_.min_workers);
}

// False: a stop was asked for.
bool Dispatcher::WaitForWorkers(std::unique_lock<std::mutex>& lock, const CancelFlag& cancel) {
  Duration until = Now() + options_.place_timeout;
  if (DueForDiscovery()) BeginDiscovery();
  bool asked = false;
  std::optional<Duration> enough_since;
  while (Now() < until) {
    if (cancel.requested() || stopping_) return false;
    if (!discovering_ && !asked) {
      Apply(placement_.ProbeAll(Now(), kAnswerAge));
      asked = true;
    }
    if (asked && probing_.empty()) break;
    if (!enough_since && asked && Enough()) {
      // How many there are in all is good to know, but not worth the time-outs of the dead.
      enough_since = Now();
      until = std::min(until, Now() + kRestOfAnswers);
    }
    services_.calls->Wait(lock, kLook);
  }
  return true;
}

group::Placement Dispatcher::Judge(int healthy, int listed) const {
  group::Placement place;
  place.healthy = healthy;
  place.reason = std::to_string(healthy) + " of " + std::to_string(listed) +
                 (listed == 1 ? " worker is healthy, " : " workers are healthy, ") +
                 std::to_string(std::max(1, options_.min_workers)) + " needed";
  if (Enough()) place.where = group::Placement::Where::kFleet;
  return place;
}

Result<group::Placement> Dispatcher::Place(std::optional<group::Distribution> asked,
                                           const CancelFlag& cancel) {
  const group::Distribution distribution = asked.value_or(options_.distribution);
  group::Placement place;
  if (distribution == group::Distribution::kLocal) {
    place.reason = asked ? "asked for" : "fleet.distribution is \"local\"";
    return place;
  }
  std::unique_lock lock(mutex_);
  if (!WaitForWorkers(lock, cancel)) return Fail(Code::kCancelled, "stopped on request");
  place = Judge(placement_.healthy(), placement_.listed());
  if (place.where == group::Placement::Where::kFleet ||
      distribution == group::Distribution::kAuto) {
    return place;
  }
  std::string message = std::string(group::kInsufficientWorkers) + ": " + place.reason;
  for (const WorkerView& view : placement_.workers()) {
    if (!view.listed || view.last_error.empty() || view.health == Health::kHealthy) continue;
    message += "; " + view.address + ": " + view.last_error;
    break;  // One says enough.
  }
  for (const std::string& note : notes_) message += "; " + note;
  return Fail(Code::kLimit, std::move(message), "fleet",
              "start workers, see whether they can be reached, or rewrite without \"require\"");
}

void Dispatcher::Tick() {
  if (ticked_ && Now() - *ticked_ < kTick) return;
  ticked_ = Now();
  if (DueForDiscovery()) BeginDiscovery();
  Apply(placement_.Tick(Now()));
  OfferKeys();
  TendQueueFile();
}

void Dispatcher::TendQueueFile() {
  if (options_.queue_file.empty() || writing_queue_) return;
  std::optional<QueueLengths> lengths;
  if (!jobs_.empty()) lengths = placement_.queue();
  if (written_ == lengths && (!lengths || Now() - written_at_ < kQueuePeriod)) return;
  writing_queue_ = true;
  written_ = lengths;
  written_at_ = Now();
  ++controls_;
  const std::string text = lengths ? QueueText(*lengths, services_.clock.Now()) : std::string();
  services_.calls->Begin({.kind = Calls::Kind::kControl, .run = [this, text] {
                            const bool good = text.empty()
                                                  ? std::remove(options_.queue_file.c_str()) == 0 ||
                                                        errno == ENOENT
                                                  : Replace(options_.queue_file, text);
                            const std::lock_guard lock(mutex_);
                            writing_queue_ = false;
                            --controls_;
                            if (!good)
                              Note("fleet.queue_file cannot be written: " + options_.queue_file);
                            // The last job ended meanwhile, and nobody else would come to it.
                            if (jobs_.empty()) TendQueueFile();
                            services_.calls->Wake();
                          }});
}

// --- keys ----------------------------------------------------------------------------------------

void Dispatcher::SetLoans(Job& job, std::vector<storage::Loan> loans) {
  job.loans = std::move(loans);
  ++job.keys;
  job.renew_at.reset();
  std::optional<Time> first;
  for (const storage::Loan& loan : job.loans) {
    if (loan.expires) first = std::min(first.value_or(*loan.expires), *loan.expires);
  }
  if (!first) return;
  const Duration left = *first - services_.clock.Now();
  const Duration margin = std::min<Duration>(kKeysMargin, left / 3);
  job.renew_at = Now() + std::max<Duration>(left - margin, kKeysPause);
}

void Dispatcher::RenewLoans(std::unique_lock<std::mutex>& lock, Job& job) {
  if (!job.renew_at || Now() < *job.renew_at) return;
  lock.unlock();
  auto loans = job.request.loans();
  lock.lock();
  if (loans) {
    SetLoans(job, std::move(*loans));
    OfferKeys();
  } else {
    job.renew_at = Now() + kKeysPause;
    Note("keys cannot be renewed: " + loans.error().ToString());
  }
}

// To attempts that have older ones.
void Dispatcher::OfferKeys() {
  for (auto& [id, attempt] : attempts_) {
    const bool running = attempt->sent && attempt->calling && !attempt->cancel.requested();
    if (!running || attempt->refreshing || attempt->keys == attempt->job->keys) continue;
    if (attempt->refresh_at && Now() < *attempt->refresh_at) continue;
    BeginRefresh(attempt->worker, id, *attempt);
  }
}

void Dispatcher::BeginRefresh(int worker, int64_t id, Attempt& attempt) {
  attempt.refreshing = true;
  const int64_t keys = attempt.job->keys;
  Control(worker,
          [this, id, keys, name = attempt.name, loans = attempt.job->loans](WorkerLink& link) {
            const auto done = link.Refresh(name, loans, options_.control_timeout);
            const std::lock_guard lock(mutex_);
            const auto at = attempts_.find(id);
            if (at == attempts_.end()) return;
            at->second->refreshing = false;
            // Refused for good: the call of the attempt says what has become of it.
            if (done || !done.error().transport) at->second->keys = keys;
            at->second->refresh_at = Now() + kKeysPause / 2;
          });
}

// --- jobs ----------------------------------------------------------------------------------------

Status Dispatcher::Run(const std::vector<group::FleetGroup>& groups, const group::FleetJob& request,
                       const Done& done, const CancelFlag& cancel) {
  LITHIFY_TRY(cancel.Check());
  const auto job = std::make_shared<Job>(groups, request);
  job->told.resize(groups.size());
  job->story.groups.resize(groups.size());
  std::vector<GroupSize> sizes;
  for (size_t g = 0; g < groups.size(); ++g) {
    sizes.push_back({groups[g].bytes, groups[g].memory_bytes});
    job->story.groups[g].number = groups[g].task.number;
    job->story.groups[g].bytes = groups[g].bytes;
    job->story.job_id = groups[g].task.job_id;
  }
  std::vector<storage::Loan> loans;
  if (request.loans) {
    LITHIFY_TRY_ASSIGN(loans, request.loans());
  }
  std::unique_lock lock(mutex_);
  if (stopping_) return Fail(Code::kCancelled, "stopped on request");
  SetLoans(*job, std::move(loans));
  const Duration begun = Now();
  auto [number, actions] = placement_.AddJob(sizes, Now());
  job->number = number;
  jobs_[number] = job;
  Apply(actions);
  const Status status = Loop(lock, job, done, cancel);
  jobs_.erase(number);
  // Results that nobody could take over.
  std::erase_if(attempts_,
                [&](const auto& item) { return item.second->job == job && !item.second->calling; });
  TendQueueFile();
  lock.unlock();
  job->Close();
  job->story.took = Now() - begun;
  if (request.on_end) request.on_end(job->story);
  if (services_.on_job) services_.on_job(job->story);
  return status;
}

Status Dispatcher::Loop(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Job>& job,
                        const Done& done, const CancelFlag& cancel) {
  bool cancelled = false;
  for (;;) {
    Deliver(lock, job, done);
    if (job->ended && job->delivered()) break;
    if ((cancel.requested() || stopping_) && !cancelled) {
      cancelled = true;
      job->stopped = true;
      job->abandon_at = Now() + kStopWait;
      Apply(placement_.StopJob(job->number, Now()));
      continue;
    }
    if (job->abandon_at && !job->ended && Now() >= *job->abandon_at) {
      Apply(placement_.AbandonJob(job->number, Now()));
      // A result may still be looked at, by a thread that needs the lock in the end.
      if (job->ended) continue;
    }
    Tick();
    RenewLoans(lock, *job);
    const bool more =
        !job->failed.empty() || (!job->finished.empty() && job->taking < group::kResultsAtOnce);
    if (!more && !(job->ended && job->delivered())) services_.calls->Wait(lock, kLook);
  }
  if (cancelled) return Fail(Code::kCancelled, "stopped on request");
  return {};
}

// Failures first, and here: what ends a job waits for no result to be looked at.
void Dispatcher::Deliver(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Job>& job,
                         const Done& done) {
  while (!job->failed.empty()) {
    auto [group, error] = std::move(job->failed.front());
    job->failed.pop_front();
    if (job->stopped) continue;
    lock.unlock();
    const bool go_on = done(group, Fail(std::move(error)));
    lock.lock();
    Decided(*job, true, go_on);
  }
  while (!job->finished.empty() && job->taking < group::kResultsAtOnce) {
    const auto item =
        std::make_shared<std::pair<size_t, group::GroupResult>>(std::move(job->finished.front()));
    job->finished.pop_front();
    ++job->taking;
    services_.calls->Begin({.kind = Calls::Kind::kResult, .run = [this, job, item, &done] {
                              TakeResult(*job, item->first, std::move(item->second), done);
                            }});
  }
}

void Dispatcher::TakeResult(Job& job, size_t group, group::GroupResult result, const Done& done) {
  job.Tell(group, job.groups[group].bytes);
  const bool go_on = done(group, std::move(result));
  const std::lock_guard lock(mutex_);
  --job.taking;
  Decided(job, false, go_on);
  services_.calls->Wake();
}

void Dispatcher::Decided(Job& job, bool failed, bool go_on) {
  if (job.stopped) return;
  if (go_on) {
    if (failed) Apply(placement_.GoOn(job.number, Now()));
    return;
  }
  job.stopped = true;
  job.abandon_at = Now() + options_.control_timeout;
  Apply(placement_.StopJob(job.number, Now()));
}

}  // namespace lithify::fleet
