#include "maintain/tree_scheduler.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "job/maintenance_log.h"
#include "maintain/run_budget.h"

namespace lithify::maintain {
namespace {

using job::Outcome;
using job::PartitionOutcome;

constexpr std::string_view kTree = "tree:";
constexpr const char* kProcedure = "compact";
constexpr size_t kProblemsMax = 20;  // Told of one tree at one tick.

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

std::string Waiting(const std::string& key, const std::string& partition) {
  return key + "\n" + partition;
}

// What third-party code throws ends one tree's turn, not the process.
template <typename F>
auto Guarded(const F& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& e) {
    return lithify::Fail(Code::kInternal, e.what());
  }
}

// What one sweep did, added up.
struct Sum {
  int64_t committed = 0;
  int64_t attempted = 0;  // Rewrites, however they ended.
  int64_t adopted = 0;
  int64_t lost = 0;
  int64_t files_in = 0;
  int64_t files_out = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  Duration took = Duration::zero();  // Of the commits.
  std::vector<const Error*> failures;
};

Sum SumOf(const job::SweepReport& swept) {
  Sum sum;
  for (const PartitionOutcome& one : swept.partitions) {
    const bool tried = one.outcome == Outcome::kCommitted || one.outcome == Outcome::kLostRace ||
                       (one.outcome == Outcome::kFailed && !one.plan.inputs.empty());
    sum.attempted += tried ? 1 : 0;
    sum.lost += one.outcome == Outcome::kLostRace ? 1 : 0;
    sum.adopted += std::ssize(one.adopted);
    if (one.outcome == Outcome::kFailed && one.error) sum.failures.push_back(&*one.error);
    if (one.outcome != Outcome::kCommitted) continue;
    ++sum.committed;
    sum.files_in += std::ssize(one.plan.inputs);
    sum.files_out += std::ssize(one.outputs);
    sum.bytes_in += one.plan.bytes_in;
    sum.bytes_out += one.bytes_out;
    sum.took += one.took;
  }
  for (const Error& error : swept.errors) sum.failures.push_back(&error);
  return sum;
}

std::string Counted(int64_t n, const char* one, const char* many) {
  return FormatCount(n) + " " + (n == 1 ? one : many);
}

// `stopped`: why, if it was.
std::string Told(const Sum& sum, const job::SweepReport& swept, const Error& stopped) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (sum.committed > 0) add(Counted(sum.committed, "partition", "partitions") + " compacted");
  if (sum.adopted > 0) add(Counted(sum.adopted, "late file", "late files") + " adopted");
  if (!swept.gc.removed.empty()) {
    add(Counted(std::ssize(swept.gc.removed), "dead file", "dead files") + " removed");
  }
  if (sum.lost > 0)
    add(Counted(sum.lost, "partition", "partitions") + " lost to another compactor");
  if (swept.cancelled) add(stopped.ToString());
  if (!sum.failures.empty()) {
    add(FormatCount(std::ssize(sum.failures)) + " failed: " + sum.failures.front()->ToString());
  }
  return out;
}

void Shout(const TreeTick& tick, const std::string& root, const Error& error) {
  const std::string next = "make it readable, or take it out of maintenance.trees";
  tick.shout({.what = "unreadable_tree",
              .where = root,
              .why = error.ToString(),
              .next = error.hint.empty() ? next : error.hint},
             error);
}

// An error that says something of the moment, not of what is in the tree.
bool Passes(const Error& error) {
  const plan::OutcomeClass of = plan::ClassOf(error.code);
  return of == plan::OutcomeClass::kRetry || of == plan::OutcomeClass::kFailure;
}

}  // namespace

std::string TreeKey(std::string_view root) { return std::string(kTree) + std::string(root); }

bool IsTreeKey(std::string_view key) {
  return key.starts_with(kTree) && IsTreeRoot(key.substr(kTree.size()));
}

bool IsTreeRoot(std::string_view name) {
  return name.starts_with('/') || name.find("://") != std::string_view::npos;
}

TreeScheduler::TreeScheduler(TreeOptions options, OpenTree open, Clock& clock)
    : options_([&options] {
        // Nothing of a tree says cheaply that it has changed, and who seals needs no quiet.
        options.schedule.on_event = false;
        options.schedule.quiet = Duration::zero();
        return std::move(options);
      }()),
      open_(std::move(open)),
      clock_(clock) {}

bool TreeScheduler::IsShared(std::string_view root) const {
  return root.find("://") != std::string_view::npos && !root.starts_with("file:") &&
         std::ranges::find(options_.roots, root) != options_.roots.end();
}

void TreeScheduler::Tick(const TreeTick& tick) {
  Forget(tick.state);
  std::vector<Work> work;
  Ranking ranking;
  for (const std::string& root : options_.roots) {
    if (tick.cancel.requested()) return;
    auto decided = Decide(tick, root);
    if (!decided) continue;
    LookInto(tick, *decided, ranking);
    work.push_back(std::move(*decided));
  }
  Rank(tick, work, ranking);
  if (!tick.acts) return;
  for (Work& one : work) {
    if (tick.cancel.requested()) return;
    Run(tick, one, ranking);
  }
}

// --- looking -----------------------------------------------------------------------------------

// Of trees that are not listed any more nothing is kept.
void TreeScheduler::Forget(MaintenanceState& state) const {
  std::set<std::string> keys;
  for (const std::string& root : options_.roots) keys.insert(TreeKey(root));
  const auto gone = [&keys](const auto& one) {
    return IsTreeKey(one.first) && !keys.contains(one.first.substr(0, one.first.find('\n')));
  };
  std::erase_if(state.tables, gone);
  std::erase_if(state.waiting_since, gone);
}

// Nullopt: it is not looked into at this tick.
std::optional<TreeScheduler::Work> TreeScheduler::Decide(const TreeTick& tick,
                                                         const std::string& root) {
  Work work;
  work.root = root;
  work.key = TreeKey(root);
  plan::ScheduleOptions schedule = options_.schedule;
  schedule.on_demand = tick.on_demand;
  plan::TableHistory& history = tick.state.tables[work.key];
  const Time now = clock_.Now();
  std::string forgotten = plan::Observe(history, schedule, {.now = now});
  if (!forgotten.empty()) tick.report.warnings.push_back(work.key + ": " + forgotten);
  work.verdict = plan::DecideDue(history, schedule, work.key, now);
  TableReport report{
      .table = root, .gate = TableGate::kOptedIn, .gate_reason = "it is in maintenance.trees"};
  if (!work.verdict.warning.empty()) report.warnings.push_back(work.verdict.warning);
  report.due = plan::DueName(work.verdict.due);
  report.reason = work.verdict.reason;
  report.next = work.verdict.until ? work.verdict.until : work.verdict.next_fire;
  // What the last try met holds until one passes, and is told until then (R025).
  if (tick.acts && history.last_code == Code::kDenied &&
      work.verdict.due == plan::Due::kBackingOff) {
    Shout(tick, root, Error{Code::kDenied, history.last_reason, {}, {}});
  }
  work.report = tick.report.tables.size();
  tick.report.tables.push_back(std::move(report));
  if (!tick.looks_at_all && work.verdict.due != plan::Due::kDue) return std::nullopt;
  return work;
}

Result<const TreeScheduler::Seen*> TreeScheduler::Look(const TreeTick& tick, Work& work) {
  std::unique_ptr<Tree>& tree = open_trees_[work.root];
  if (!tree) {
    LITHIFY_TRY_ASSIGN(tree, open_(work.root));
  }
  work.tree = tree.get();
  const auto known = seen_.find(work.root);
  const Time now = clock_.Now();
  if (known != seen_.end() && !tick.acts && !tick.afresh && known->second.at <= now &&
      now - known->second.at < kLookLife) {
    return &known->second;
  }
  LITHIFY_TRY_ASSIGN(const job::StatusReport status, tree->Look(tick.cancel));
  return &(seen_[work.root] = ToSeen(work, status));
}

void TreeScheduler::LookInto(const TreeTick& tick, Work& work, Ranking& ranking) {
  const auto looked = Guarded([&] { return Look(tick, work); });
  TableReport& report = tick.report.tables[work.report];
  if (!looked) {
    // What is open may be what is broken.
    open_trees_.erase(work.root);
    seen_.erase(work.root);
    work.tree = nullptr;
    work.error = looked.error();
    report.reason = work.error->ToString();
    if (tick.cancel.requested()) return;
    Shout(tick, work.root, *work.error);
    return;
  }
  const Seen& seen = **looked;
  report.small_files = seen.small_files;
  report.est_rewrite_bytes = seen.rewrite_bytes;
  for (const std::string& problem : seen.problems) report.warnings.push_back(problem);
  work.first = ranking.candidates.size();
  work.count = seen.candidates.size();
  for (plan::MaintenanceCandidate candidate : seen.candidates) {
    Hold(tick, work, candidate);
    ranking.candidates.push_back(std::move(candidate));
  }
  // Of partitions that are gone nothing is kept.
  const std::set<std::string> there(seen.partitions.begin(), seen.partitions.end());
  const std::string prefix = Waiting(work.key, "");
  const auto gone = [&](const auto& one) {
    return one.first.starts_with(prefix) && !there.contains(one.first.substr(prefix.size()));
  };
  std::erase_if(tick.state.tables, gone);
  std::erase_if(tick.state.waiting_since, gone);
}

TreeScheduler::Seen TreeScheduler::ToSeen(const Work& work, const job::StatusReport& status) const {
  Seen seen;
  seen.at = clock_.Now();
  std::optional<plan::MaintenanceCandidate> idle;
  for (const job::PartitionStatus& one : status.partitions) {
    seen.partitions.push_back(one.state.id.key_prefix);
    if (one.error) seen.problems.push_back(one.error->ToString());
    seen.small_files += one.plan.small_files;
    plan::MaintenanceCandidate candidate = ToCandidate(work, one);
    seen.rewrite_bytes += candidate.bytes_in;
    if (candidate.files_in > 0 || one.error) {
      seen.candidates.push_back(std::move(candidate));
    } else if (!idle) {
      idle = std::move(candidate);
    }
  }
  // Of a tree in which nothing is planned, one partition says why.
  if (seen.candidates.empty() && idle) seen.candidates.push_back(std::move(*idle));
  for (const Error& error : status.errors) seen.problems.push_back(error.ToString());
  for (const table::SkippedPath& skipped : status.skipped_paths) {
    seen.problems.push_back(skipped.key + " is left alone: " + skipped.reason);
  }
  if (seen.problems.size() > kProblemsMax) {
    const size_t more = seen.problems.size() - kProblemsMax;
    seen.problems.resize(kProblemsMax);
    seen.problems.push_back("and " + std::to_string(more) + " more");
  }
  return seen;
}

plan::MaintenanceCandidate TreeScheduler::ToCandidate(const Work& work,
                                                      const job::PartitionStatus& status) const {
  const PartitionId& id = status.state.id;
  plan::PartitionPlan planned = status.plan;
  if (status.error) {
    planned = {};
    planned.reason = status.error->ToString();
  }
  // Each partition is a table of its own to the planner, since each is a commit of its own.
  plan::MaintenanceCandidate candidate =
      plan::CandidateOf(work.key, id.key_prefix, id.key_prefix, planned, work.tree->options());
  candidate.append_share = 1;  // Writers add files; a rewrite goes on from what they added.
  const Time now = clock_.Now();
  std::optional<Time> newest;
  for (const HiveFile& file : status.state.files) {
    if (!newest || *newest < file.modified) newest = file.modified;
  }
  if (newest) candidate.seconds_since_write = std::max(0.0, Seconds(now - *newest));
  if (status.last_compaction) {
    candidate.seconds_since_compaction = std::max(0.0, Seconds(now - *status.last_compaction));
  }
  const Duration retention = work.tree->options().retention;
  if (retention > Duration::zero() && id.end) {
    candidate.seconds_to_expiry = std::max(0.0, Seconds(*id.end + retention - now));
  }
  if (options_.read_life && id.end) {
    candidate.read_life_days = std::max(0.0, Seconds(*id.end + *options_.read_life - now) / 86'400);
  }
  return candidate;
}

// Partitions that failed back off by themselves.
plan::ScheduleOptions TreeScheduler::OfPartitions() const {
  plan::ScheduleOptions schedule = options_.schedule;
  schedule.on_demand = true;
  return schedule;
}

// What is known of the candidate from before: how long it waits, and what keeps it from its turn.
void TreeScheduler::Hold(const TreeTick& tick, const Work& work,
                         plan::MaintenanceCandidate& candidate) const {
  const Time now = clock_.Now();
  const std::string name = Waiting(work.key, candidate.partition);
  const auto since = tick.state.waiting_since.find(name);
  if (since != tick.state.waiting_since.end()) {
    candidate.waiting_seconds = std::max(0.0, Seconds(now - since->second));
  }
  const auto hold = [&](const plan::DueVerdict& verdict) {
    if (verdict.due == plan::Due::kBackingOff && verdict.until) {
      candidate.backing_off_seconds = std::max(1e-3, Seconds(*verdict.until - now));
    }
    if (verdict.due == plan::Due::kBreakerOpen) candidate.breaker = verdict.reason;
  };
  hold(work.verdict);
  const auto failed = tick.state.tables.find(name);
  if (failed == tick.state.tables.end()) return;
  plan::Observe(failed->second, OfPartitions(), {.now = now});
  hold(plan::DecideDue(failed->second, OfPartitions(), name, now));
}

// --- deciding ----------------------------------------------------------------------------------

void TreeScheduler::Rank(const TreeTick& tick, const std::vector<Work>& work, Ranking& ranking) {
  const Time now = clock_.Now();
  ranking.plan = plan::PlanMaintenance(
      ranking.candidates,
      RemainingOf(options_.ranking, options_.schedule.cron, now, tick.state.run),
      tick.state.tree_priors);
  if (tick.acts && !ranking.candidates.empty()) {
    tick.state.tree_priors.overdue_credit = ranking.plan.overdue_credit;
  }
  const size_t tables = tick.report.plan.size();  // Ranked by themselves.
  for (const Work& one : work) {
    for (size_t i = one.first; i < one.first + one.count; ++i) {
      const plan::MaintenanceCandidate& candidate = ranking.candidates[i];
      const plan::MaintenanceDecision& decision = ranking.plan.decisions[i];
      const std::string name = Waiting(one.key, candidate.partition);
      if (decision.rank == 0) {
        tick.state.waiting_since.erase(name);
      } else {
        tick.state.waiting_since.emplace(name, now);
      }
      tick.report.plan.push_back(LineOf(one.root, kProcedure, candidate, decision));
    }
  }
  std::ranges::sort(tick.report.plan.begin() + static_cast<std::ptrdiff_t>(tables),
                    tick.report.plan.end(), std::less(), [](const PlanLine& line) {
                      return std::tuple(line.rank == 0, line.rank, line.table, line.partition);
                    });
}

// --- running -----------------------------------------------------------------------------------

void TreeScheduler::Run(const TreeTick& tick, Work& work, const Ranking& ranking) {
  JobLine line{.job_id = tick.new_job_id(),
               .table = work.root,
               .procedure = kProcedure,
               .status = std::string(job::log_status::kFailed),
               .reason = {},
               .started = clock_.Now()};
  if (work.error) return Failed(tick, work, std::move(line), *work.error);
  std::vector<job::ChosenPartition> chosen;
  double predicted_wall = 0;
  for (const plan::MaintenanceJob& planned : ranking.plan.jobs) {
    const size_t at = planned.candidates.front();
    if (at < work.first || at >= work.first + work.count) continue;
    chosen.push_back({.key_prefix = ranking.candidates[at].partition, .bytes_max = planned.bytes});
    line.predicted_seconds += planned.compute_seconds;
    predicted_wall += planned.wall_seconds;
  }
  tick.running(work.key, line.started);
  const Duration begin = clock_.Monotonic();
  const JobWatch watch(clock_, options_.overrun, predicted_wall, tick.cancel);
  auto swept = Guarded([&] { return work.tree->Sweep(std::move(chosen), watch.cancel()); });
  line.ended = clock_.Now();
  line.actual_seconds =
      Seconds(clock_.Monotonic() - begin) * static_cast<double>(work.tree->threads());
  tick.state.running.erase(work.key);
  seen_.erase(work.root);
  if (!swept) {
    open_trees_.erase(work.root);
    return Failed(tick, work, std::move(line), watch.Explained(swept.error()));
  }
  Settle(tick, work, ranking, *swept,
         watch.Explained({Code::kCancelled, "stopped on request", {}, {}}), std::move(line));
}

// Nothing came of it.
void TreeScheduler::Failed(const TreeTick& tick, const Work& work, JobLine line,
                           const Error& error) {
  line.ended = clock_.Now();
  line.reason = error.ToString();
  plan::Record(
      tick.state.tables[work.key], options_.schedule,
      {.started = line.started, .ended = line.ended, .code = error.code, .reason = line.reason});
  tick.done(std::move(line));
}

void TreeScheduler::Settle(const TreeTick& tick, const Work& work, const Ranking& ranking,
                           const job::SweepReport& swept, const Error& stopped, JobLine line) {
  const Sum sum = SumOf(swept);
  line.files_in = sum.files_in;
  line.files_out = sum.files_out;
  line.bytes_in = sum.bytes_in;
  line.bytes_out = sum.bytes_out;
  line.reason = Told(sum, swept, stopped);
  const bool did = sum.committed > 0 || sum.adopted > 0 || !swept.gc.removed.empty();
  if (!sum.failures.empty() || swept.cancelled) {
    line.status = did ? job::log_status::kPartial : job::log_status::kFailed;
  } else {
    line.status = did ? job::log_status::kSuccess : job::log_status::kSkipped;
  }
  if (line.reason.empty() && work.count > 0) {
    line.reason = ranking.plan.decisions[work.first].reason;
  }
  for (const Error& error : swept.gc.errors) {
    tick.report.warnings.push_back(work.root + ": " + error.ToString());
  }

  int64_t tried_bytes = 0;
  for (const PartitionOutcome& one : swept.partitions) {
    if (one.outcome != Outcome::kSkipped) tried_bytes += one.plan.bytes_in;
  }
  Spend(tick.state.run, work.key,
        {.bytes = tried_bytes, .seconds = line.actual_seconds, .commits = sum.attempted});
  if (sum.committed > 0) {
    plan::MaintenanceOutcome outcome;
    outcome.partitions = sum.committed;
    outcome.files = sum.files_in;
    outcome.bytes = sum.bytes_in;
    outcome.files_removed = sum.files_in - sum.files_out;
    outcome.compute_seconds =
        Seconds(sum.took) * static_cast<double>(work.tree->threads_per_partition());
    outcome.wall_seconds = Seconds(swept.took);
    tick.state.tree_priors = plan::Calibrate(tick.state.tree_priors, outcome);
  } else if (swept.cancelled && stopped.code == Code::kLimit) {
    plan::MaintenanceOutcome outcome;
    outcome.result = plan::MaintenanceOutcome::Result::kOverran;
    for (const plan::MaintenanceJob& planned : ranking.plan.jobs) {
      const size_t at = planned.candidates.front();
      if (at < work.first || at >= work.first + work.count) continue;
      ++outcome.partitions;
      outcome.files += planned.files;
      outcome.bytes += planned.bytes;
    }
    outcome.compute_seconds = line.actual_seconds;
    tick.state.tree_priors = plan::Calibrate(tick.state.tree_priors, outcome);
  }

  Remember(tick.state, work, swept, line);
  plan::RunOutcome outcome{.started = line.started, .ended = line.ended};
  if (swept.cancelled) {
    outcome.code = stopped.code;
  } else if (sum.committed == 0 && !sum.failures.empty() &&
             std::ranges::all_of(sum.failures, [](const Error* e) { return Passes(*e); })) {
    outcome.code = sum.failures.front()->code;
  }
  if (outcome.code) outcome.reason = line.reason;
  plan::Record(tick.state.tables[work.key], options_.schedule, outcome);
  tick.done(std::move(line));
}

// How each partition fared.
void TreeScheduler::Remember(MaintenanceState& state, const Work& work,
                             const job::SweepReport& swept, const JobLine& line) const {
  for (const PartitionOutcome& one : swept.partitions) {
    const std::string name = Waiting(work.key, one.id.key_prefix);
    if (one.outcome == Outcome::kCommitted) state.waiting_since.erase(name);
    if (one.outcome == Outcome::kFailed && one.error &&
        plan::ClassOf(one.error->code) != plan::OutcomeClass::kSettled) {
      plan::Record(state.tables[name], OfPartitions(),
                   {.started = line.started,
                    .ended = line.ended,
                    .code = one.error->code,
                    .reason = one.error->ToString()});
    } else if (one.outcome == Outcome::kCommitted ||
               one.plan.verdict != plan::Verdict::kNotChosen) {
      if (one.outcome != Outcome::kCancelled) state.tables.erase(name);
    }
  }
}

}  // namespace lithify::maintain
