#include "fleet/placement.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "base/text.h"
#include "fleet/fleet_guard.h"

namespace lithify::fleet {
namespace {

using std::chrono::seconds;

constexpr Duration kAdoptPause = seconds(1);
constexpr Duration kRefusedPause = seconds(1);
constexpr Duration kRefusedPauseMax = seconds(30);
constexpr size_t kOwedMax = 64;  // Drops kept for a worker that cannot be reached.
// An attempt's own pace counts once it has been at work for so long.
constexpr Duration kPaceAfter = seconds(2);
constexpr double kNewestRateShare = 0.3;

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

Duration Doubled(Duration first, int times, Duration most) {
  Duration d = first;
  for (int n = 1; n < times && d < most; ++n) d *= 2;
  return std::min(d, most);
}

}  // namespace

std::string_view HealthName(Health health) {
  switch (health) {
    case Health::kUnknown: return "unknown";
    case Health::kHealthy: return "healthy";
    case Health::kUnhealthy: return "unhealthy";
  }
  return "unknown";
}

// --- workers -------------------------------------------------------------------------------------

Actions Placement::SetWorkers(const std::vector<std::string>& addresses, Duration now) {
  for (Worker& worker : workers_) worker.view.listed = false;
  for (const std::string& address : addresses) {
    const auto [at, added] = by_address_.try_emplace(address, static_cast<int>(workers_.size()));
    if (added) {
      workers_.emplace_back().view.address = address;
      workers_.back().next_probe = now;
    }
    At(at->second).view.listed = true;
  }
  Actions out;
  ProbeDue(now, out);
  Fill(now, out);
  return out;
}

void Placement::Probe(int worker, Actions& out) {
  At(worker).probing = true;
  At(worker).failures_asked = At(worker).failures;
  out.push_back({.kind = Action::Kind::kProbe, .worker = worker});
}

void Placement::ProbeDue(Duration now, Actions& out) {
  for (int w = 0; w < std::ssize(workers_); ++w) {
    const Worker& worker = At(w);
    const bool ours = worker.view.listed || worker.view.running > 0;
    if (ours && !worker.probing && now >= worker.next_probe) Probe(w, out);
  }
}

Actions Placement::ProbeAll(Duration now, Duration age) {
  Actions out;
  for (int w = 0; w < std::ssize(workers_); ++w) {
    const Worker& worker = At(w);
    if (!worker.view.listed || worker.probing) continue;
    const bool fresh =
        worker.view.health == Health::kHealthy && worker.heard && now - *worker.heard < age;
    if (!fresh) Probe(w, out);
  }
  return out;
}

void Placement::NameWorker(int w, const std::string& id) {
  std::string& name = At(w).view.id;
  if (name == id) return;
  if (!name.empty()) by_id_[name].erase(w);
  name = id;
  by_id_[name].insert(w);
}

Actions Placement::OnStatus(int w, const WorkerFacts& facts, Duration now) {
  Actions out;
  Worker& worker = At(w);
  WorkerView& view = worker.view;
  worker.probing = false;
  worker.refusing = false;
  worker.life_doubts = std::max(0, worker.life_doubts - 1);
  worker.heard = now;
  view.draining = facts.draining;
  view.cap = std::max(1, facts.max_inflight_groups);
  if (options_.max_inflight_groups_per_worker > 0) {
    view.cap = std::min(view.cap, options_.max_inflight_groups_per_worker);
  }
  view.memory_bytes = facts.memory_bytes;
  const bool restarted = !view.id.empty() && view.id != facts.id;
  NameWorker(w, facts.id);
  // What it said before it failed is no news.
  if (restarted || worker.failures == worker.failures_asked) view.health = Health::kHealthy;
  if (restarted) {
    Restarted(w, out);
  } else {
    for (const int64_t attempt : worker.owed) {
      out.push_back({.kind = Action::Kind::kDrop, .worker = w, .attempt = attempt});
    }
  }
  worker.owed.clear();
  if (view.health == Health::kHealthy) {
    worker.next_probe = worker.life_doubts > 0 ? now : now + options_.probe_period;
  }
  view.others = std::max(0, facts.inflight - view.running);
  FailStuck(now, out);
  Fill(now, out);
  return out;
}

// What ran in the life before is gone, whatever its calls will say.
void Placement::Restarted(int w, Actions& out) {
  ++counters_.restarts;
  std::vector<int64_t> gone;
  for (const auto& [id, attempt] : attempts_) {
    const bool open = attempt.stage == Stage::kRunning || attempt.stage == Stage::kFinished;
    if (attempt.worker == w && open && attempt.life != At(w).view.id) gone.push_back(id);
  }
  const Error error{.code = Code::kTransient,
                    .message = "the worker was restarted",
                    .context = At(w).view.address,
                    .hint = {}};
  for (const int64_t id : gone) {
    if (attempts_.at(id).calling) {
      out.push_back({.kind = Action::Kind::kCancel, .worker = w, .attempt = id});
    }
    // It may have come to the new life all the same.
    out.push_back({.kind = Action::Kind::kDrop, .worker = w, .attempt = id});
    AttemptFailed(id, error, out);
  }
}

Actions Placement::OnProbeFailed(int w, const std::string& why, Duration now) {
  Actions out;
  At(w).probing = false;
  Rest(At(w), why, now);
  FailStuck(now, out);
  return out;
}

void Placement::Rest(Worker& worker, const std::string& why, Duration now) {
  worker.view.last_error = why;
  ++worker.failures;
  // Calls that fail together are one failure.
  if (worker.view.health == Health::kUnhealthy && now < worker.next_probe) return;
  worker.view.health = Health::kUnhealthy;
  ++worker.failures_in_row;
  worker.next_probe =
      now + Doubled(options_.backoff_min, worker.failures_in_row, options_.backoff_max);
}

// One worker found under two addresses is one worker.
bool Placement::IsAlias(int w) const {
  const auto same = by_id_.find(At(w).view.id);
  if (same == by_id_.end()) return false;
  return std::ranges::any_of(same->second,
                             [&](int other) { return other < w && At(other).well(); });
}

int Placement::healthy() const {
  int count = 0;
  for (int w = 0; w < std::ssize(workers_); ++w) count += At(w).well() && !IsAlias(w) ? 1 : 0;
  return count;
}

int Placement::listed() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const Worker& worker) { return worker.view.listed; }));
}

std::vector<WorkerView> Placement::workers() const {
  std::vector<WorkerView> views;
  for (const Worker& worker : workers_) views.push_back(worker.view);
  return views;
}

// --- jobs ----------------------------------------------------------------------------------------

std::pair<int64_t, Actions> Placement::AddJob(const std::vector<GroupSize>& groups, Duration now) {
  const int64_t id = next_job_++;
  Job& job = jobs_[id];
  job.groups.resize(groups.size());
  job.unsettled = std::ssize(groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    job.groups[g].size = groups[g];
    Enqueue(job, static_cast<int64_t>(g));
  }
  Actions out;
  ProbeDue(now, out);
  MaybeEnd(id, out);
  Fill(now, out);
  return {id, std::move(out)};
}

Actions Placement::GoOn(int64_t id, Duration now) {
  Actions out;
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return out;
  --at->second.undecided;
  Fill(now, out);
  return out;
}

Actions Placement::StopJob(int64_t id, Duration now) {
  Actions out;
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return out;
  Job& job = at->second;
  job.stopped = true;
  job.pending.clear();
  job.pending_bytes = 0;
  std::vector<int64_t> open;
  for (const auto& [attempt_id, attempt] : attempts_) {
    const bool ends = attempt.stage == Stage::kRunning || attempt.stage == Stage::kFinished;
    if (attempt.job == id && ends) open.push_back(attempt_id);
  }
  for (const int64_t attempt : open) Discard(attempt, out);
  MaybeEnd(id, out);
  Fill(now, out);
  return out;
}

Actions Placement::AbandonJob(int64_t id, Duration now) {
  Actions out = StopJob(id, now);
  if (!jobs_.contains(id)) return out;
  std::vector<int64_t> adopting;
  for (const auto& [attempt_id, attempt] : attempts_) {
    if (attempt.job == id && attempt.stage == Stage::kAdopting) adopting.push_back(attempt_id);
  }
  for (const int64_t attempt : adopting) {
    Detach(attempt);
    attempts_.erase(attempt);
  }
  MaybeEnd(id, out);
  return out;
}

void Placement::Enqueue(Job& job, int64_t group) {
  const int64_t bytes = job.groups[static_cast<size_t>(group)].size.bytes;
  if (job.pending.emplace(-bytes, group).second) job.pending_bytes += bytes;
}

void Placement::Dequeue(Job& job, int64_t group) {
  const int64_t bytes = job.groups[static_cast<size_t>(group)].size.bytes;
  if (job.pending.erase({-bytes, group}) > 0) job.pending_bytes -= bytes;
}

void Placement::MaybeEnd(int64_t id, Actions& out) {
  const Job& job = jobs_.at(id);
  if (job.adopting > 0 || (!job.stopped && job.unsettled > 0)) return;
  jobs_.erase(id);
  out.push_back({.kind = Action::Kind::kJobEnded, .job = id});
}

QueueLengths Placement::queue() const {
  QueueLengths lengths;
  for (const auto& [id, job] : jobs_) {
    if (job.stopped) continue;
    lengths.waiting_groups += std::ssize(job.pending);
    lengths.waiting_bytes += job.pending_bytes;
    lengths.running_groups += job.unsettled - std::ssize(job.pending);
  }
  return lengths;
}

// --- which group goes where ----------------------------------------------------------------------

bool Placement::HasSlot(const Worker& worker) const {
  return worker.well() && !worker.refusing &&
         worker.view.running + worker.view.others < worker.view.cap;
}

// What a group asks for, or its share of the worker's memory if that is more: what would be left
// over is of no use to anybody else. One that wants more than there is gets all of it.
int64_t Placement::MemoryOn(const Worker& worker, const GroupSize& size) {
  const WorkerView& view = worker.view;
  if (view.memory_bytes <= 0) return size.memory_bytes;
  return std::min(std::max(size.memory_bytes, view.memory_bytes / view.cap), view.memory_bytes);
}

bool Placement::MayTake(int w, const Group& group) const {
  if (!At(w).well() || IsAlias(w)) return false;
  return !guard::kFleetOtherWorker || !group.failed_on.contains({w, At(w).view.id});
}

// Among those with a free slot: one that has not failed with it in an earlier life, the least busy,
// the fastest. If it fits nowhere for want of memory, the one with the most is held for it: smaller
// groups would otherwise keep it waiting for ever.
std::optional<int> Placement::Choose(const Group& group, std::set<int>& held) const {
  std::optional<int> best;
  std::tuple<bool, int, double> best_rank;
  std::optional<int> roomiest;
  int64_t most_free = 0;
  for (int w = 0; w < std::ssize(workers_); ++w) {
    const Worker& worker = At(w);
    if (!HasSlot(worker) || held.contains(w) || !MayTake(w, group)) continue;
    const int64_t free = worker.view.memory_bytes - worker.view.memory_used;
    if (worker.view.memory_bytes > 0 && MemoryOn(worker, group.size) > free) {
      if (!roomiest || free > most_free) roomiest = w, most_free = free;
      continue;
    }
    const bool failed_before =
        std::ranges::any_of(group.failed_on, [&](const auto& life) { return life.first == w; });
    const std::tuple rank{failed_before, worker.view.running + worker.view.others,
                          -worker.view.bytes_per_second};
    if (best && rank >= best_rank) continue;
    best = w;
    best_rank = rank;
  }
  if (!best && roomiest) held.insert(*roomiest);
  return best;
}

void Placement::Fill(Duration now, Actions& out) {
  std::set<int> held;
  for (bool started = true; started;) {
    started = false;
    if (active_ >= options_.attempts_max) return;
    // The job that has the least at work comes first.
    std::vector<std::pair<int, int64_t>> order;
    for (const auto& [id, job] : jobs_) {
      const bool ready = !job.pending.empty() && job.undecided == 0;
      if (ready) order.emplace_back(job.running, id);
    }
    std::ranges::sort(order);
    for (const auto& [running, id] : order) {
      started = FillOne(jobs_.at(id), id, held, now, out);
      if (started) break;
    }
  }
}

bool Placement::FillOne(Job& job, int64_t id, std::set<int>& held, Duration now, Actions& out) {
  const auto has_free = [&] {
    for (int w = 0; w < std::ssize(workers_); ++w) {
      if (HasSlot(At(w)) && !held.contains(w)) return true;
    }
    return false;
  };
  bool free = has_free();
  for (auto at = job.pending.begin(); free && at != job.pending.end(); ++at) {
    const size_t held_before = held.size();
    const int64_t group = at->second;
    if (const auto worker = Choose(job.groups[static_cast<size_t>(group)], held)) {
      Start(id, group, *worker, false, now, out);
      return true;
    }
    if (held.size() != held_before) free = has_free();
  }
  return false;
}

void Placement::Start(int64_t job_id, int64_t group_id, int w, bool hedge, Duration now,
                      Actions& out) {
  Job& job = jobs_.at(job_id);
  Group& group = job.groups[static_cast<size_t>(group_id)];
  Worker& worker = At(w);
  Dequeue(job, group_id);
  const int64_t id = next_attempt_++;
  Attempt& attempt = attempts_[id];
  attempt.job = job_id;
  attempt.group = group_id;
  attempt.worker = w;
  attempt.life = worker.view.id;
  attempt.hedge = hedge;
  attempt.memory = MemoryOn(worker, group.size);
  attempt.started = now;
  group.attempts.push_back(id);
  group.stuck_since.reset();
  group.hedged = group.hedged || hedge;
  ++job.running;
  ++active_;
  ++worker.view.running;
  worker.view.memory_used += attempt.memory;
  ++counters_.attempts;
  counters_.hedges += hedge ? 1 : 0;
  counters_.retries += !hedge && group.failures > 0 ? 1 : 0;
  out.push_back({.kind = Action::Kind::kStart,
                 .worker = w,
                 .job = job_id,
                 .group = group_id,
                 .attempt = id,
                 .memory_bytes = attempt.memory,
                 .hedge = hedge});
}

// --- what becomes of an attempt ------------------------------------------------------------------

void Placement::OnProgress(int64_t id, int64_t bytes, Duration /*now*/) {
  const auto at = attempts_.find(id);
  if (at != attempts_.end()) at->second.progress = std::max(at->second.progress, bytes);
}

void Placement::CallEnded(Attempt& attempt) {
  LITHIFY_CHECK(attempt.calling, "a call returns once");
  attempt.calling = false;
  Worker& worker = At(attempt.worker);
  --active_;
  --worker.view.running;
  worker.view.memory_used -= attempt.memory;
  if (attempt.stage == Stage::kRunning) --jobs_.at(attempt.job).running;
}

void Placement::Detach(int64_t id) {
  const Attempt& attempt = attempts_.at(id);
  Job& job = jobs_.at(attempt.job);
  if (attempt.stage == Stage::kAdopting) --job.adopting;
  if (attempt.stage == Stage::kRunning && attempt.calling) --job.running;
  std::erase(job.groups[static_cast<size_t>(attempt.group)].attempts, id);
}

void Placement::Discard(int64_t id, Actions& out) {
  Detach(id);
  Attempt& attempt = attempts_.at(id);
  if (attempt.calling) {
    out.push_back({.kind = Action::Kind::kCancel, .worker = attempt.worker, .attempt = id});
  }
  // After a lost answer to an adoption nothing may be removed.
  if (!attempt.adopt_asked) {
    out.push_back({.kind = Action::Kind::kDrop, .worker = attempt.worker, .attempt = id});
  }
  if (attempt.calling)
    attempt.stage = Stage::kCancelled;
  else
    attempts_.erase(id);
}

Actions Placement::OnFinished(int64_t id, Duration now) {
  Actions out;
  const auto at = attempts_.find(id);
  if (at == attempts_.end()) return out;
  Attempt& attempt = at->second;
  CallEnded(attempt);
  if (attempt.stage == Stage::kCancelled) {
    attempts_.erase(at);
    Fill(now, out);
    return out;
  }
  attempt.stage = Stage::kFinished;
  attempt.ended = now;
  Worker& worker = At(attempt.worker);
  worker.failures_in_row = 0;
  worker.refusals_in_row = 0;
  const Group& group = GroupOf(attempt);
  const double took = std::max(Seconds(now - attempt.started), 1e-3);
  const double rate = static_cast<double>(group.size.bytes) / took;
  double& known = worker.view.bytes_per_second;
  known = known <= 0 ? rate : known + kNewestRateShare * (rate - known);
  if (!guard::kFleetAdopt) {
    UseResult(id, out);
  } else if (std::ranges::none_of(group.attempts, [&](int64_t other) {
               return attempts_.at(other).stage == Stage::kAdopting;
             })) {
    Adopt(id, out);
  }
  Fill(now, out);
  return out;
}

Actions Placement::OnRefused(int64_t id, const Error& error, Duration now) {
  Actions out;
  const auto at = attempts_.find(id);
  if (at == attempts_.end()) return out;
  Attempt& attempt = at->second;
  CallEnded(attempt);
  Worker& worker = At(attempt.worker);
  ++counters_.refusals;
  ++worker.refusals_in_row;
  worker.refusing = true;
  worker.view.last_error = error.ToString();
  const Duration pause = Doubled(kRefusedPause, worker.refusals_in_row, kRefusedPauseMax);
  worker.next_probe = std::min(worker.next_probe, now + pause);
  if (attempt.stage != Stage::kCancelled) {
    const auto [job, group] = std::pair(attempt.job, attempt.group);
    Detach(id);
    if (GroupOf(attempt).attempts.empty()) Enqueue(jobs_.at(job), group);
  }
  attempts_.erase(at);
  Fill(now, out);
  return out;
}

Actions Placement::OnFailed(int64_t id, bool transport, const Error& error, Duration now) {
  Actions out;
  const auto at = attempts_.find(id);
  if (at == attempts_.end()) return out;
  Attempt& attempt = at->second;
  CallEnded(attempt);
  if (attempt.stage == Stage::kCancelled) {
    attempts_.erase(at);
    Fill(now, out);
    return out;
  }
  if (!transport) {
    ++counters_.application_failures;
    FailGroup(attempt.job, attempt.group, error, out);
    Fill(now, out);
    return out;
  }
  ++counters_.transport_failures;
  Worker& worker = At(attempt.worker);
  if (worker.view.id == attempt.life) {
    Rest(worker, error.ToString(), now);
    // It may be at work still, and cannot be told now.
    if (worker.owed.size() < kOwedMax) worker.owed.push_back(id);
  }
  AttemptFailed(id, error, out);
  FailStuck(now, out);
  Fill(now, out);
  return out;
}

void Placement::AttemptFailed(int64_t id, const Error& error, Actions& out) {
  Attempt& attempt = attempts_.at(id);
  const auto [job_id, group_id] = std::pair(attempt.job, attempt.group);
  Detach(id);
  Group& group = GroupOf(attempt);
  ++group.failures;
  group.failed_on.emplace(attempt.worker, attempt.life);
  group.last_error = error;
  jobs_.at(job_id).suspects.insert(group_id);
  if (attempt.calling)
    attempt.stage = Stage::kCancelled;
  else
    attempts_.erase(id);
  TryNext(job_id, group_id, out);
}

// After an attempt of the group came to nothing.
void Placement::TryNext(int64_t job_id, int64_t group_id, Actions& out) {
  Job& job = jobs_.at(job_id);
  Group& group = job.groups[static_cast<size_t>(group_id)];
  if (job.stopped) return MaybeEnd(job_id, out);
  bool open = false;
  for (const int64_t other : group.attempts) {
    const Stage stage = attempts_.at(other).stage;
    if (stage == Stage::kAdopting) return;
    open = true;
  }
  for (const int64_t other : group.attempts) {
    if (attempts_.at(other).stage == Stage::kFinished) return Adopt(other, out);
  }
  if (open) return;
  if (group.failures < options_.group_attempts) return Enqueue(job, group_id);
  Error error = group.last_error;
  error.message = "failed " + FormatCount(group.failures) +
                  (group.failures == 1 ? " time" : " times") +
                  ", the last time with: " + error.message;
  FailGroup(job_id, group_id, std::move(error), out);
}

void Placement::Adopt(int64_t id, Actions& out) {
  Attempt& attempt = attempts_.at(id);
  if (attempt.stage != Stage::kAdopting) ++jobs_.at(attempt.job).adopting;
  attempt.stage = Stage::kAdopting;
  attempt.adopt_asked = true;
  attempt.adopt_again.reset();
  ++attempt.adopt_tries;
  out.push_back({.kind = Action::Kind::kAdopt,
                 .worker = attempt.worker,
                 .job = attempt.job,
                 .group = attempt.group,
                 .attempt = id});
}

Actions Placement::OnAdopted(int64_t id, Duration now) {
  Actions out;
  const auto at = attempts_.find(id);
  if (at == attempts_.end() || at->second.stage != Stage::kAdopting) return out;
  UseResult(id, out);
  Fill(now, out);
  return out;
}

void Placement::UseResult(int64_t id, Actions& out) {
  const Attempt attempt = attempts_.at(id);
  Detach(id);
  attempts_.erase(id);
  Job& job = jobs_.at(attempt.job);
  Group& group = job.groups[static_cast<size_t>(attempt.group)];
  WorkerView& view = At(attempt.worker).view;
  ++view.groups_done;
  view.bytes_done += group.size.bytes;
  ++counters_.groups_done;
  counters_.bytes_done += group.size.bytes;
  counters_.hedges_won += attempt.hedge ? 1 : 0;
  --job.unsettled;
  group.settled = true;
  job.suspects.erase(attempt.group);
  out.push_back({.kind = Action::Kind::kGroupDone,
                 .worker = attempt.worker,
                 .job = attempt.job,
                 .group = attempt.group,
                 .attempt = id});
  for (const int64_t other : std::vector(group.attempts)) Discard(other, out);
  MaybeEnd(attempt.job, out);
}

Actions Placement::OnAdoptFailed(int64_t id, bool transport, const Error& error, Duration now) {
  Actions out;
  const auto at = attempts_.find(id);
  if (at == attempts_.end() || at->second.stage != Stage::kAdopting) return out;
  Attempt& attempt = at->second;
  if (transport && attempt.adopt_tries < options_.adopt_tries) {
    // Asked again, it tells for certain: whoever has adopted twice has adopted.
    attempt.adopt_again = now + kAdoptPause;
    return out;
  }
  ++counters_.adoptions_failed;
  Worker& worker = At(attempt.worker);
  Error why = error;
  if (worker.view.id == attempt.life) {
    if (transport) {
      Rest(worker, error.ToString(), now);
    } else {
      // It may have been restarted since it last said who it is. What was asked before does not
      // tell.
      worker.life_doubts = worker.probing ? 2 : 1;
      worker.next_probe = now;
    }
  }
  if (!transport && error.code == Code::kNotFound) {
    // What is missing is a result, and nothing of the table: another attempt may well do.
    why.code = Code::kTransient;
    why.message = "the worker no longer has its result: " + error.message;
  }
  AttemptFailed(id, why, out);
  FailStuck(now, out);
  Fill(now, out);
  return out;
}

void Placement::FailGroup(int64_t job_id, int64_t group_id, Error error, Actions& out) {
  Job& job = jobs_.at(job_id);
  Group& group = job.groups[static_cast<size_t>(group_id)];
  Dequeue(job, group_id);
  job.suspects.erase(group_id);
  group.settled = true;
  --job.unsettled;
  ++job.undecided;
  ++counters_.groups_failed;
  out.push_back({.kind = Action::Kind::kGroupFailed,
                 .job = job_id,
                 .group = group_id,
                 .error = std::move(error)});
  for (const int64_t attempt : std::vector(group.attempts)) {
    // The one that failed has ended, and cleaned up.
    if (attempts_.at(attempt).stage == Stage::kRunning && !attempts_.at(attempt).calling) {
      std::erase(group.attempts, attempt);
      attempts_.erase(attempt);
    } else {
      Discard(attempt, out);
    }
  }
  MaybeEnd(job_id, out);
}

// --- groups that wait in vain --------------------------------------------------------------------

std::optional<Error> Placement::WhyStuck(Group& group, Duration now) const {
  int well = 0;
  int others = 0;
  for (int w = 0; w < std::ssize(workers_); ++w) {
    if (!At(w).view.listed) continue;
    if (MayTake(w, group)) {
      group.stuck_since.reset();
      return std::nullopt;
    }
    ++(At(w).well() && At(w).life_doubts == 0 ? well : others);
  }
  if (!group.stuck_since) group.stuck_since = now;
  const bool hope = others > 0 || well == 0;
  if (hope && now - *group.stuck_since < options_.patience) return std::nullopt;
  if (well == 0) return WhyDark(group);
  Error error = group.last_error;
  error.message = "failed on every healthy worker, " + std::to_string(well) + " of " +
                  std::to_string(well + others) + ", the last time with: " + error.message;
  return error;
}

Error Placement::WhyDark(const Group& group) const {
  std::string message = "no worker is healthy, of " + std::to_string(listed()) + " known ones";
  if (group.failures > 0) message += "; it failed before with: " + group.last_error.message;
  return Error{.code = Code::kTransient,
               .message = std::move(message),
               .context = {},
               .hint =
                   "see whether the workers run and can be reached; or set fleet.distribution "
                   "to \"local\""};
}

void Placement::FailStuck(Duration now, Actions& out) {
  if (jobs_.empty() || healthy() > 0) {
    dark_since_.reset();
  } else if (!dark_since_) {
    dark_since_ = now;
  }
  const bool dark = dark_since_ && now - *dark_since_ >= options_.patience;
  struct Stuck {
    int64_t job;
    int64_t group;
    Error error;
  };
  std::vector<Stuck> stuck;
  for (auto& [id, job] : jobs_) {
    if (dark) {
      for (const auto& [size, index] : job.pending) {
        stuck.push_back({id, index, WhyDark(job.groups[static_cast<size_t>(index)])});
      }
      continue;
    }
    for (const int64_t index : job.suspects) {
      Group& group = job.groups[static_cast<size_t>(index)];
      if (!job.pending.contains({-group.size.bytes, index})) continue;
      if (auto why = WhyStuck(group, now)) stuck.push_back({id, index, std::move(*why)});
    }
  }
  for (Stuck& item : stuck) FailGroup(item.job, item.group, std::move(item.error), out);
}

// --- groups that lag behind ----------------------------------------------------------------------

double Placement::MedianRate() const {
  std::vector<double> rates;
  for (const Worker& worker : workers_) {
    if (worker.view.bytes_per_second > 0) rates.push_back(worker.view.bytes_per_second);
  }
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

std::optional<double> Placement::SecondsLeft(const Attempt& attempt, double median,
                                             Duration now) const {
  const auto& job = jobs_.at(attempt.job);
  const auto bytes = static_cast<double>(job.groups[static_cast<size_t>(attempt.group)].size.bytes);
  const double elapsed = Seconds(now - attempt.started);
  if (attempt.progress > 0 && now - attempt.started >= kPaceAfter) {
    const auto done = static_cast<double>(attempt.progress);
    return std::max(0.0, bytes - done) * elapsed / done;
  }
  if (median <= 0) return std::nullopt;
  // Late already: as long again is as good a guess as any.
  const double expected = bytes / median;
  return elapsed < expected ? expected - elapsed : elapsed;
}

std::optional<int> Placement::IdleWorker(const Group& group) const {
  std::optional<int> best;
  for (int w = 0; w < std::ssize(workers_); ++w) {
    const Worker& worker = At(w);
    if (!HasSlot(worker) || worker.view.running + worker.view.others > 0) continue;
    if (!MayTake(w, group)) continue;
    if (best && worker.view.bytes_per_second <= At(*best).view.bytes_per_second) continue;
    best = w;
  }
  return best;
}

void Placement::Hedge(Duration now, Actions& out) {
  if (!options_.hedge) return;
  for (const auto& [id, job] : jobs_) {
    if (!job.pending.empty()) return;
  }
  const double median = MedianRate();
  std::vector<std::pair<double, int64_t>> lagging;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.stage != Stage::kRunning) continue;
    const Group& group = GroupOf(attempt);
    if (group.hedged || group.attempts.size() != 1) continue;
    if (jobs_.at(attempt.job).undecided > 0) continue;
    if (const auto left = SecondsLeft(attempt, median, now)) lagging.emplace_back(-*left, id);
  }
  std::ranges::sort(lagging);
  for (const auto& [minus_left, id] : lagging) {
    if (active_ >= options_.attempts_max) return;
    const Attempt attempt = attempts_.at(id);
    const Group& group = GroupOf(attempt);
    const auto worker = IdleWorker(group);
    if (!worker) continue;
    double rate = At(*worker).view.bytes_per_second;
    if (rate <= 0) rate = median;
    if (rate <= 0) continue;
    const double anew = static_cast<double>(group.size.bytes) / rate;
    if (-minus_left <= anew + Seconds(options_.hedge_gain)) continue;
    Start(attempt.job, attempt.group, *worker, true, now, out);
  }
}

Actions Placement::Tick(Duration now) {
  Actions out;
  ProbeDue(now, out);
  std::vector<int64_t> again;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.adopt_again && now >= *attempt.adopt_again) again.push_back(id);
  }
  for (const int64_t id : again) Adopt(id, out);
  FailStuck(now, out);
  Fill(now, out);
  Hedge(now, out);
  return out;
}

}  // namespace lithify::fleet
