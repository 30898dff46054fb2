#include "maintain/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "job/maintenance_log.h"
#include "job/table_looks.h"
#include "maintain/refusal.h"
#include "maintain/run_budget.h"
#include "maintain/tree_scheduler.h"
#include "plan/shortened.h"

namespace lithify::maintain {
namespace {

using observe::AuditEvent;
using observe::AuditKind;

constexpr size_t kReasonBytesMax = 2000;  // Of a row of the log.

int64_t Millis(Time t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

Time FromMillis(int64_t millis) { return Time(std::chrono::milliseconds(millis)); }

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

std::string Shortened(const std::string& text) { return plan::Shortened(text, kReasonBytesMax); }

// What to grant, in the words of Polaris: R023, R031.
constexpr const char* kGrantRead =
    "if its owner opted in, grant TABLE_READ_DATA on it (or its namespace) to the catalog role of "
    "the maintenance principal";
constexpr const char* kGrantWrite =
    "grant TABLE_READ_DATA and TABLE_WRITE_DATA on its namespace to the catalog role of the "
    "maintenance principal, or take the property away";
constexpr const char* kGrantList =
    "if it is there, grant TABLE_LIST and TABLE_READ_DATA on it to the catalog role of the "
    "maintenance principal; else take it out of maintenance.namespaces";
constexpr const char* kGrantNamespaces =
    "name them in maintenance.namespaces, or grant NAMESPACE_LIST on the catalog to the catalog "
    "role of the maintenance principal";

// Renews a lease while a job runs. An error, or a lease that was lost, changes nothing (R296).
class LeaseKeeper {
 public:
  LeaseKeeper(Lease& lease, OwnClaim claim, Duration ttl, const CancelFlag& cancel)
      : lease_(lease), claim_(std::move(claim)), ttl_(ttl), cancel_(cancel), thread_([this] {
          Keep();
        }) {}
  ~LeaseKeeper() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    static_cast<void>(lease_.Release(claim_, CancelFlag()));
  }
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

 private:
  void Keep() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, ttl_ / 2, [this] { return ending_; })) {
      lock.unlock();
      auto renewed = lease_.Renew(claim_, ttl_, cancel_);
      lock.lock();
      if (!renewed) continue;
      if (renewed->kind != ClaimResult::Kind::kAcquired) return;
      claim_ = renewed->claim;
    }
  }

  Lease& lease_;
  OwnClaim claim_;
  const Duration ttl_;
  const CancelFlag& cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

// Of two options: whether they find the same to do.
bool SameCandidates(const plan::RewriteOptions& a, const plan::RewriteOptions& b) {
  return a.target_file_size_bytes == b.target_file_size_bytes &&
         a.min_input_files == b.min_input_files &&
         a.delete_file_threshold == b.delete_file_threshold && a.strategy == b.strategy &&
         a.sort_order == b.sort_order && a.binpack_if_unsorted == b.binpack_if_unsorted;
}

// Whether a grant of the catalog may be what is missing; some say of what they withhold that it is
// not there.
bool MayBeGrant(const Error& error) {
  return error.code == Code::kNotFound ||
         (error.code == Code::kDenied && RefuserOf(error.ToString()) == Refuser::kCatalog);
}

bool IsBounded(const plan::MaintenanceBudget& budget) {
  return budget.bytes > 0 || budget.seconds > 0 || budget.commits > 0;
}

// Gate 3: the catalog's own answer.
Status MayWrite(catalog::Catalog& catalog, const catalog::TableIdent& ident) {
  LITHIFY_TRY_ASSIGN(const auto table, catalog.LoadTable(ident));
  return catalog.CheckMayWrite(table);
}

struct FollowedUp {
  std::string told;     // For the record.
  int64_t commits = 0;  // Of the table's catalog.
};
using FollowUpCall =
    std::function<Result<FollowedUp>(job::IcebergJob&, const plan::TablePolicy&, JobLine&)>;

// What is written down of a removal: files that are still there are no success.
std::string TellRemoved(const job::RemovedFiles& done, std::string what, JobLine& line) {
  if (done.failed.empty()) return what;
  line.status = job::log_status::kPartial;
  return what + "; " + std::to_string(done.failed.size()) +
         " files could not be removed, the first: " + done.failed.front().ToString();
}

// Rows of the log that are of no rewrite begin with their procedure: see Done().
bool IsOfRewrite(const job::LogRow& row) {
  for (const std::string_view other :
       {"rewrite_manifests", "expire_snapshots", "remove_orphan_files"}) {
    if (row.error && row.error->starts_with(other)) return false;
  }
  return true;
}

// A table that is looked into at this tick.
struct Work {
  std::string key;  // "lake.sales.orders".
  catalog::TableIdent ident;
  plan::TablePolicy policy;
  plan::ScheduleOptions schedule;
  plan::DueVerdict verdict;
  size_t report = 0;  // Index into TickReport::tables.
  std::optional<Error> error;
  bool told = false;                           // That it was refused the last time.
  bool unwritable = false;                     // That is the error: not that it cannot be read.
  std::shared_ptr<const job::TableDebt> debt;  // Null: see `error`.
  size_t first = 0;                            // Its candidates, in the list of all.
  size_t count = 0;
};

class TickRun {
 public:
  TickRun(const SchedulerServices& services, const SchedulerOptions& options,
          const TickOptions& tick, MaintenanceState& state, TableDebts& debts,
          CatalogPolicies& policies, const CancelFlag& cancel)
      : services_(services),
        options_(options),
        tick_(tick),
        state_(state),
        debts_(debts),
        policies_(policies),
        cancel_(cancel) {}

  TickReport Run();
  bool log_missing = false;  // In and out.
  bool seen_log = false;     // Likewise.

 private:
  Time Now() const { return services_.clock.Now(); }
  std::string NewJobId() { return MakeUuidV7(services_.clock, services_.random); }
  std::function<bool()> Stop() const {
    return [this] { return cancel_.requested(); };
  }
  // A catalog without identities, and trees, know none.
  std::string actor() const {
    return services_.sessions != nullptr ? services_.sessions->actor() : std::string("lithify");
  }
  bool acting() const { return options_.mode == Mode::kActive && !tick_.plan_only; }

  Status Look();
  void RunTables();
  void RunTrees();
  void LookAt(const job::NamespaceLook& look);
  void LookAt(const job::TableLook& look);
  void TellUnloaded(const job::TableLook& look, const std::string& key);
  void TellGate(const Work& work, TableReport& report);
  bool AskPolicy(const job::TableLook& look, Work& work, TableReport& report);
  void Forget(const std::vector<job::NamespaceLook>& looks);
  Status OpenLog();
  void ReadLog();
  void LookInto(TableSession& session);
  void LookInto(TableSession& session, Work& work);
  void ForgetWaits(const std::string& key, const job::TableDebt& debt);
  void Rank();
  void ShowPlan(const Work& work);
  void SettleUnchosen();
  void RunJobs();
  void RunJob(const plan::MaintenanceJob& planned);
  void RunClaimed(Work& work, const plan::MaintenanceJob& planned, JobLine& line);
  Result<job::RewriteResult> Rewrite(Work& work, const plan::MaintenanceJob& planned,
                                     const JobWatch& watch, JobLine& line, bool& began);
  void FollowUp(Work& work);
  void FollowUpUnchosen();
  void Follow(Work& work, const std::string& procedure, const std::string& property,
              bool plan::TablePolicy::* wanted, const FollowUpCall& call);
  void TellDenied(const Work& work, const job::RemovedFiles& done);
  void Learn(const Work& work, const plan::MaintenanceJob& planned, const job::RewriteResult* done,
             const std::optional<Error>& error, bool overran, const JobLine& line);
  bool IsSpent(const Work& work);
  void SpendMore(const Work& work, double seconds, int64_t commits);
  void MarkRunning(const std::string& key, Time started);
  void Settle(Work& work, const JobLine& line, const std::optional<Error>& error);
  void Done(JobLine line);
  void WriteRows();
  void TellUnwritten(const std::vector<job::LogRow>& rows, const std::string& why);
  void WriteLog();
  void CountTables();

  // Loud: an audit event, a count, and a line of the report.
  void Shout(LoudLine line, const catalog::TableIdent* ident, Code code);
  // The same, of a table that may not be worked on: `grant` helps if it was the catalog's refusal.
  // A row of the log, too.
  void Refused(const Work& work, const std::string& why, const char* grant);
  void LogRefusal(const LoudLine& line);
  void Audit(const AuditEvent& event);
  AuditEvent Recorded(const std::string& procedure, const std::string& job_id) const;

  const SchedulerServices& services_;
  const SchedulerOptions& options_;
  const TickOptions& tick_;
  MaintenanceState& state_;
  TableDebts& debts_;
  CatalogPolicies& policies_;
  const CancelFlag& cancel_;

  std::unique_ptr<TableSession> session_;  // For looking around.
  std::mutex mutex_;                       // Of all that jobs change.
  TickReport report_;
  std::vector<Work> work_;
  std::vector<plan::MaintenanceCandidate> candidates_;
  plan::MaintenancePlan plan_;
  std::vector<Work*> unchosen_;  // That had their turn without a rewrite.
  std::vector<job::LogRow> rows_;
  std::set<std::string> refused_;  // Tables that have a row of it in `rows_`, or had.
  bool appended_ = false;          // To the log, by this tick.
  std::unique_ptr<TableSession> log_session_;
  std::optional<job::MaintenanceLog> log_;
  std::unique_ptr<Lease> lease_;
};

AuditEvent TickRun::Recorded(const std::string& procedure, const std::string& job_id) const {
  AuditEvent event;
  event.phase = AuditEvent::Phase::kRecorded;
  event.kind = AuditKind::kPolicyDecision;
  event.time = services_.clock.Now();
  event.procedure = procedure;
  event.job_id = job_id;
  event.actor = actor();
  if (!job_id.empty()) event.session_id = "maintenance-job-" + job_id;
  return event;
}

void TickRun::Audit(const AuditEvent& event) {
  if (Status written = services_.audit.Append(event); !written) {
    const std::lock_guard lock(mutex_);
    report_.warnings.push_back("audit log: " + written.error().ToString());
  }
}

void TickRun::Shout(LoudLine line, const catalog::TableIdent* ident, Code code) {
  services_.metrics.Add(metric::kLithifyMaintenanceRefused, 1,
                        {{attribute::kLithifyReason, line.what}});
  if (!tick_.plan_only) {
    AuditEvent event = Recorded(
        options_.mode == Mode::kActive ? "maintenance_active" : "maintenance_advisory", {});
    event.failed = true;
    event.error_code = CodeName(code);
    event.error = line.what + ": " + line.why;
    if (ident != nullptr) {
      event.resources = {{.catalog = options_.catalog,
                          .namespace_parts = ident->namespace_parts,
                          .name = ident->name,
                          .object_type = ident->name.empty() ? "namespace" : "table"}};
    }
    Audit(event);
  }
  const std::lock_guard lock(mutex_);
  report_.loud.push_back(std::move(line));
}

void TickRun::Refused(const Work& work, const std::string& why, const char* grant) {
  const LoudLine line = TellRefusal(work.key, why, grant);
  Shout(line, &work.ident, Code::kDenied);
  if (acting() && options_.log) LogRefusal(line);
}

// One row a tick of each table, however often it was refused at it. Not of trigger `scheduled`:
// whoever asks what was run (ReadLog) would read them all.
void TickRun::LogRefusal(const LoudLine& line) {
  job::LogRow row;
  row.job_id = NewJobId();
  row.table_name = line.where;
  row.trigger = job::log_trigger::kScheduler;
  row.principal = actor();
  row.started_at_ms = row.finished_at_ms = Millis(Now());
  row.status = job::log_status::kFailed;
  row.error = Shortened(line.what + ": " + line.why + "; next: " + line.next);
  const std::lock_guard lock(mutex_);
  if (refused_.insert(line.where).second) rows_.push_back(std::move(row));
}

TickReport TickRun::Run() {
  report_.mode = ModeName(options_.mode);
  report_.catalog = options_.catalog;
  report_.principal = actor();
  report_.began = Now();
  services_.metrics.Add(metric::kLithifyMaintenanceTicks, 1);
  if (services_.reads != nullptr) {
    if (Status read = services_.reads->Refresh(report_.began); !read) {
      report_.warnings.push_back("query log: " + read.error().ToString());
    }
  }
  if (services_.sessions != nullptr) RunTables();
  if (services_.trees != nullptr && !cancel_.requested()) RunTrees();
  if (acting()) WriteLog();
  CountTables();
  report_.ended = Now();
  return std::move(report_);
}

void TickRun::RunTables() {
  if (Status looked = Look(); !looked) {
    services_.metrics.Add(metric::kLithifyMaintenanceTickErrors, 1,
                          {{attribute::kErrorType, std::string(CodeName(looked.error().code))}});
    report_.error = looked.error();
    LoudLine line = TellRefusal(options_.catalog, looked.error().ToString(), kGrantNamespaces);
    if (line.what == "no_grant" && !options_.namespaces) {
      line.what = "unlisted_namespaces";
    } else if (line.what != "no_credential" && line.what != "token_refused") {
      line.what = "no_tables";
      line.next = looked.error().hint;
    }
    Shout(std::move(line), nullptr, looked.error().code);
    return;
  }
  Rank();
  if (!acting()) return;
  SettleUnchosen();
  RunJobs();
  FollowUpUnchosen();
}

// After the tables, with what they left of the budgets: a tree needs no catalog, and none that does
// not answer keeps it waiting.
void TickRun::RunTrees() {
  services_.trees->Tick(
      {.on_demand = tick_.on_demand,
       .acts = acting(),
       .looks_at_all = tick_.plan_only || options_.mode == Mode::kAdvisory,
       .afresh = tick_.plan_only || tick_.on_demand,
       .state = state_,
       .report = report_,
       .new_job_id = [this] { return NewJobId(); },
       .running = [this](const std::string& key, Time started) { MarkRunning(key, started); },
       .done =
           [this](JobLine line) {
             services_.metrics.Add(metric::kLithifyMaintenanceRewritten,
                                   static_cast<double>(line.bytes_in));
             Done(std::move(line));
           },
       .shout = [this](LoudLine line,
                       const Error& error) { Shout(std::move(line), nullptr, error.code); },
       .cancel = cancel_});
}

// --- looking -----------------------------------------------------------------------------------

Status TickRun::Look() {
  SessionRequest around;
  around.job_id = NewJobId();
  around.procedure = "table_health";
  around.stop = Stop();
  around.looks_around = true;
  LITHIFY_TRY_ASSIGN(session_, services_.sessions->Open(around));
  LITHIFY_TRY_ASSIGN(
      const auto looks,
      job::LookAtTables(session_->catalog(), {.namespaces = options_.namespaces}, cancel_));
  if (acting() && options_.log) {
    if (Status opened = OpenLog(); !opened) {
      report_.warnings.push_back("maintenance log: " + opened.error().ToString());
    } else {
      ReadLog();
    }
  }
  for (const job::NamespaceLook& look : looks) LookAt(look);
  Forget(looks);
  LookInto(*session_);
  return cancel_.Check();
}

void TickRun::LookAt(const job::NamespaceLook& look) {
  // Of what was found by listing, whoever may not see it need not: nobody said that it counts.
  if (look.error && options_.namespaces) {
    const catalog::TableIdent ident{.namespace_parts = look.parts, .name = {}};
    Shout({.what = "unreadable_namespace",
           .where = options_.catalog + "." + catalog::NamespaceName(look.parts),
           .why = look.error->ToString(),
           .next = MayBeGrant(*look.error) ? kGrantList : look.error->hint},
          &ident, look.error->code);
  }
  for (const job::TableLook& table : look.tables) LookAt(table);
}

void TickRun::TellUnloaded(const job::TableLook& look, const std::string& key) {
  const Error& error = *look.error;
  TableReport report{.table = key, .gate = TableGate::kUnreadable, .gate_reason = error.ToString()};
  if (error.code == Code::kNotFound) {
    // It was dropped meanwhile, most likely; a catalog may hide so what it has listed.
    report.gate = TableGate::kGone;
    report.gate_reason = "listed, and not there when it was loaded: " + report.gate_reason;
  } else if (options_.namespaces || error.code != Code::kDenied) {
    Shout({.what = "unreadable_table",
           .where = key,
           .why = error.ToString(),
           .next = MayBeGrant(error) ? kGrantRead : error.hint},
          &look.ident, error.code);
  }
  report_.tables.push_back(std::move(report));
}

void TickRun::LookAt(const job::TableLook& look) {
  const std::string key = options_.catalog + "." + look.ident.ToString();
  if (options_.log && look.ident == *options_.log) return;  // Kept small apart from all others.
  if (look.error) return TellUnloaded(look, key);
  TableReport report{.table = key, .gate = TableGate::kUnreadable, .gate_reason = {}};
  Work work;
  work.key = key;
  work.ident = look.ident;
  work.policy = plan::ResolvePolicy(look.properties, options_.defaults, std::nullopt);
  if (!work.policy.enabled && options_.mode == Mode::kActive) {
    TellGate(work, report);
    report_.tables.push_back(std::move(report));
    return;
  }
  work.schedule = options_.schedule;
  work.schedule.cron = work.policy.schedule;
  work.schedule.on_demand = tick_.on_demand;
  plan::TableHistory& history = state_.tables[key];
  const Time now = Now();
  plan::Sighting sighting;
  sighting.now = now;
  if (look.snapshot_id != 0) {
    sighting.snapshot_id = look.snapshot_id;
    sighting.snapshot_at = FromMillis(look.snapshot_ms);
  }
  if (std::string forgotten = plan::Observe(history, work.schedule, sighting); !forgotten.empty()) {
    report_.warnings.push_back(key + ": " + forgotten);
  }
  work.verdict = plan::DecideDue(history, work.schedule, key, now);
  if (!work.verdict.warning.empty()) report.warnings.push_back(work.verdict.warning);
  report.due = plan::DueName(work.verdict.due);
  report.reason = work.verdict.reason;
  report.next = work.verdict.until ? work.verdict.until : work.verdict.next_fire;
  // R025: what the last try met holds until one passes, and is told until then.
  const bool tries = acting() && work.verdict.due == plan::Due::kDue;
  work.told = options_.mode == Mode::kActive && history.last_code == Code::kDenied && !tries;
  if (work.told) Refused(work, history.last_reason, kGrantWrite);
  bool looked_into =
      tick_.plan_only || options_.mode == Mode::kAdvisory || work.verdict.due == plan::Due::kDue;
  if (looked_into) looked_into = AskPolicy(look, work, report);
  TellGate(work, report);
  work.report = report_.tables.size();
  report_.tables.push_back(std::move(report));
  if (!looked_into) return;
  work_.push_back(std::move(work));
}

void TickRun::TellGate(const Work& work, TableReport& report) {
  report.gate = work.policy.enabled ? TableGate::kOptedIn : TableGate::kNotOptedIn;
  report.gate_reason = work.policy.enabled_reason;
  if (!work.policy.enabled && options_.mode == Mode::kActive) return;
  for (const plan::PolicyWarning& warning : work.policy.warnings) {
    report.warnings.push_back(warning.message);
  }
}

// Of a table that would be looked into. False: it is left alone at this tick.
bool TickRun::AskPolicy(const job::TableLook& look, Work& work, TableReport& report) {
  catalog::RestCatalog* const rest = options_.catalog_policies ? session_->rest() : nullptr;
  if (rest == nullptr) return true;
  auto answer = policies_.Of(work.key, Now(),
                             [&] { return catalog::GetCompactionPolicy(*rest, look.ident); });
  if (!answer) {
    report.reason =
        "whether the catalog's policies allow it is not known: " + answer.error().ToString();
    report.warnings.push_back(report.reason);
    return false;
  }
  std::ranges::move(answer->warnings, std::back_inserter(report.warnings));
  work.policy = plan::ResolvePolicy(look.properties, options_.defaults, answer->policy);
  return work.policy.enabled || options_.mode != Mode::kActive;
}

// Of tables that are not there any more nothing is kept, unless they may just be hidden.
void TickRun::Forget(const std::vector<job::NamespaceLook>& looks) {
  std::set<std::string> there;
  for (const job::NamespaceLook& look : looks) {
    if (look.error) return;
    for (const job::TableLook& table : look.tables) {
      there.insert(options_.catalog + "." + table.ident.ToString());
    }
  }
  const auto kept = [&](const std::string& key) { return there.contains(key) || IsTreeKey(key); };
  std::erase_if(state_.tables, [&](const auto& one) { return !kept(one.first); });
  std::erase_if(debts_, [&](const auto& one) { return !kept(one.first); });
  std::erase_if(state_.waiting_since,
                [&](const auto& one) { return !kept(one.first.substr(0, one.first.find('\n'))); });
  policies_.Keep(kept);
}

void TickRun::LookInto(TableSession& session) {
  for (Work& work : work_) {
    if (cancel_.requested()) return;
    LookInto(session, work);
  }
}

// Of partitions that are no candidates any more.
void TickRun::ForgetWaits(const std::string& key, const job::TableDebt& debt) {
  std::set<std::string> there;
  for (const auto& candidate : debt.candidates) there.insert(key + "\n" + candidate.partition);
  auto at = state_.waiting_since.lower_bound(key + "\n");
  while (at != state_.waiting_since.end() && at->first.starts_with(key + "\n")) {
    at = there.contains(at->first) ? std::next(at) : state_.waiting_since.erase(at);
  }
}

void TickRun::LookInto(TableSession& session, Work& work) {
  std::shared_ptr<const job::TableDebt>& known = debts_[work.key];
  const auto& seen = state_.tables[work.key].snapshot_id;
  if (!known || known->snapshot_id != seen.value_or(0) ||
      !SameCandidates(known->options, plan::RewriteOptionsOf(work.policy))) {
    job::IcebergSettings settings;
    settings.trigger = "scheduled";
    settings.principal = actor();
    const auto load = [&]() -> Result<job::TableDebt> {
      LITHIFY_TRY_ASSIGN(const auto reading, session.ForReading(work.ident));
      auto job = reading->MakeJob(services_.progress, settings);
      return job::LoadTableDebt(job, work.ident, plan::RewriteOptionsOf(work.policy),
                                services_.clock);
    };
    auto loaded = load();
    if (!loaded) {
      known.reset();
      work.error = std::move(loaded.error());
      // Where no job is to fail by it, it would be told nowhere.
      if (acting()) return;
      const std::string why = work.error->ToString();
      if (work.error->code == Code::kDenied && !work.told) Refused(work, why, kGrantRead);
      report_.tables[work.report].warnings.push_back("it cannot be looked into: " + why);
      return;
    }
    known = std::make_shared<const job::TableDebt>(std::move(*loaded));
    ForgetWaits(work.key, *known);
  }
  work.debt = known;
  TableReport& report = report_.tables[work.report];
  report.small_files = known->small_files;
  report.delete_files = known->delete_files;
  report.est_rewrite_bytes = known->rewrite_bytes;
  // Before it takes a place in a budget that others could have, it asks.
  const bool in_budget =
      IsBounded(options_.ranking.per_run) || IsBounded(options_.ranking.per_namespace);
  if (acting() && !known->candidates.empty() &&
      (in_budget || state_.tables[work.key].last_code == Code::kDenied)) {
    Status may = MayWrite(session.catalog(), work.ident);
    if (!may && may.error().code == Code::kDenied) {
      work.error = std::move(may.error());
      work.unwritable = true;
      return;
    }
  }
  const Time now = Now();
  job::TableReads reads =
      services_.reads != nullptr ? services_.reads->Of(work.key) : job::TableReads();
  reads.life = work.policy.read_life;
  work.first = candidates_.size();
  work.count = known->candidates.size();
  for (plan::MaintenanceCandidate& candidate : known->At(now, reads)) {
    const auto since = state_.waiting_since.find(work.key + "\n" + candidate.partition);
    if (since != state_.waiting_since.end()) {
      candidate.waiting_seconds = std::max(0.0, Seconds(now - since->second));
    }
    if (work.verdict.due == plan::Due::kBackingOff && work.verdict.until) {
      candidate.backing_off_seconds = std::max(1e-3, Seconds(*work.verdict.until - now));
    }
    if (work.verdict.due == plan::Due::kBreakerOpen) candidate.breaker = work.verdict.reason;
    candidates_.push_back(std::move(candidate));
  }
}

// --- deciding ----------------------------------------------------------------------------------

void TickRun::Rank() {
  const Time now = Now();
  plan_ = plan::PlanMaintenance(
      candidates_, RemainingOf(options_.ranking, options_.schedule.cron, now, state_.run),
      state_.priors);
  if (acting()) state_.priors.overdue_credit = plan_.overdue_credit;
  for (const Work& work : work_) {
    ShowPlan(work);
    for (size_t i = work.first; i < work.first + work.count; ++i) {
      const std::string name = work.key + "\n" + candidates_[i].partition;
      if (plan_.decisions[i].rank == 0) {
        state_.waiting_since.erase(name);
      } else {
        state_.waiting_since.emplace(name, now);
      }
    }
  }
  std::ranges::sort(report_.plan, [](const PlanLine& a, const PlanLine& b) {
    const auto key = [](const PlanLine& line) {
      return std::tuple(line.rank == 0, line.rank, line.table, line.partition);
    };
    return key(a) < key(b);
  });
}

void TickRun::ShowPlan(const Work& work) {
  for (size_t i = work.first; i < work.first + work.count; ++i) {
    const plan::MaintenanceCandidate& candidate = candidates_[i];
    const plan::MaintenanceDecision& decision = plan_.decisions[i];
    report_.plan.push_back(
        LineOf(work.key, plan::MaintenanceKindName(candidate.kind), candidate, decision));
  }
}

// Tables that were due and of which nothing is run have had their turn (R297): the next fire comes.
void TickRun::SettleUnchosen() {
  std::set<size_t> chosen;
  for (const plan::MaintenanceJob& planned : plan_.jobs) {
    chosen.insert(planned.candidates.begin(), planned.candidates.end());
  }
  for (Work& work : work_) {
    bool runs = false;
    const plan::MaintenanceDecision* best = nullptr;
    for (size_t i = work.first; i < work.first + work.count; ++i) {
      runs = runs || chosen.contains(i);
      const plan::MaintenanceDecision& decision = plan_.decisions[i];
      if (decision.verdict == plan::MaintenanceVerdict::kNothingPlanned && best != nullptr)
        continue;
      if (best == nullptr || decision.score > best->score) best = &decision;
    }
    if (runs) continue;
    const Time now = Now();
    JobLine line{.job_id = NewJobId(),
                 .table = work.key,
                 .procedure = "rewrite_data_files",
                 .status = std::string(job::log_status::kSkipped),
                 .reason = best != nullptr ? best->reason : std::string("the table is empty"),
                 .started = now,
                 .ended = now};
    if (work.error) {
      line.status = job::log_status::kFailed;
      line.reason = work.error->ToString();
      if (work.error->code == Code::kDenied) {
        Refused(work, line.reason, work.unwritable ? kGrantWrite : kGrantRead);
      }
    }
    Settle(work, line, work.error);
    if (!work.error) unchosen_.push_back(&work);
    Done(std::move(line));
  }
}

// Last, with what the rewrites left of the budget.
void TickRun::FollowUpUnchosen() {
  for (Work* work : unchosen_) {
    if (cancel_.requested() || IsSpent(*work)) continue;
    FollowUp(*work);
  }
}

// --- running -----------------------------------------------------------------------------------

void TickRun::RunJobs() {
  ForEach(plan_.jobs.size(), options_.jobs_at_once, [this](size_t i) {
    if (!cancel_.requested()) RunJob(plan_.jobs[i]);
  });
}

void TickRun::RunJob(const plan::MaintenanceJob& planned) {
  Work* work = nullptr;
  for (Work& one : work_) {
    const size_t first = planned.candidates.front();
    if (first >= one.first && first < one.first + one.count) work = &one;
  }
  if (work == nullptr) return;
  JobLine line{.job_id = NewJobId(),
               .table = work->key,
               .procedure = "rewrite_data_files",
               .status = std::string(job::log_status::kFailed),
               .reason = {},
               .predicted_seconds = planned.compute_seconds,
               .started = Now()};
  std::unique_ptr<LeaseKeeper> keeper;
  if (lease_) {
    auto claim = lease_->Claim(work->key, options_.lease_ttl, cancel_);
    AuditEvent event = Recorded("maintenance_lease", line.job_id);
    event.resources = {{.catalog = options_.catalog,
                        .namespace_parts = work->ident.namespace_parts,
                        .name = work->ident.name,
                        .object_type = "table"}};
    if (!claim) {
      // R292: whether there is a lease changes nothing but who does the work.
      const std::lock_guard lock(mutex_);
      report_.warnings.push_back(work->key +
                                 ": no lease, going on without: " + claim.error().ToString());
    } else if (claim->kind != ClaimResult::Kind::kAcquired) {
      services_.metrics.Add(metric::kLithifyMaintenanceLeaseSkipped, 1);
      const std::lock_guard lock(mutex_);
      report_.tables[work->report].reason = "another coordinator works on it: " + claim->holder +
                                            ", until " + FormatTime(claim->until);
      return;  // R293: not settled; the next tick looks again.
    } else {
      event.query_text =
          claim->stolen_from.empty()
              ? "acquired until " + FormatTime(claim->claim.until)
              : "stolen from " + claim->stolen_from + ", until " + FormatTime(claim->claim.until);
      Audit(event);
      if (options_.lease == LeaseKind::kCatalog) {
        keeper = std::make_unique<LeaseKeeper>(*lease_, claim->claim, options_.lease_ttl, cancel_);
      }
    }
  }
  if (IsSpent(*work)) {
    const std::lock_guard lock(mutex_);
    report_.tables[work->report].reason = "the run's budget is spent: left for a later tick";
    return;
  }
  MarkRunning(work->key, line.started);
  try {
    RunClaimed(*work, planned, line);
  } catch (const std::exception& e) {
    line.reason = std::string("internal: ") + e.what();
    line.ended = Now();
    Settle(*work, line, Error{Code::kInternal, line.reason, {}, {}});
    Done(std::move(line));
  }
  WriteRows();  // Before the lease goes: who takes it over sees them.
}

void TickRun::RunClaimed(Work& work, const plan::MaintenanceJob& planned, JobLine& line) {
  const Duration begin = services_.clock.Monotonic();
  bool began = false;
  const JobWatch watch(services_.clock, options_.overrun, planned.wall_seconds, cancel_);
  auto done = Rewrite(work, planned, watch, line, began);
  if (!done) done = Fail(watch.Explained(std::move(done.error())));
  line.ended = Now();
  line.actual_seconds = Seconds(services_.clock.Monotonic() - begin) *
                        static_cast<double>(std::max(1, options_.ranking.model.threads));
  std::optional<Error> error;
  if (done) {
    line.status = done->status == job::RewriteStatus::kCommitted ? job::log_status::kSuccess
                  : done->status == job::RewriteStatus::kPartial ? job::log_status::kPartial
                                                                 : job::log_status::kSkipped;
    line.reason = done->reason;
    line.files_in = done->files_rewritten + done->delete_files_removed;
    line.files_out = done->files_added;
    line.bytes_in = done->bytes_in;
    line.bytes_out = done->bytes_out;
    line.rows_removed = done->rows_removed;
    line.snapshot_id = done->snapshot_id;
    services_.metrics.Add(metric::kLithifyMaintenanceRewritten,
                          static_cast<double>(done->bytes_in));
  } else {
    error = std::move(done.error());
    line.status = job::log_status::kFailed;
    line.reason = error->ToString();
    if (error->code == Code::kUnsupported) line.status = job::log_status::kSkipped;
    if (error->code == Code::kDenied) Refused(work, line.reason, kGrantWrite);
  }
  // What was refused at the gate cost nothing, and says nothing about what rewriting costs.
  const bool overran = error && error->code == Code::kLimit && !watch.Check();
  if (began) Learn(work, planned, done ? &*done : nullptr, error, overran, line);
  Settle(work, line, error);
  const bool well = !error;
  Done(std::move(line));
  if (well) FollowUp(work);
}

// `began`: whether it came through the gates.
Result<job::RewriteResult> TickRun::Rewrite(Work& work, const plan::MaintenanceJob& planned,
                                            const JobWatch& watch, JobLine& line, bool& began) {
  SessionRequest open;
  open.job_id = line.job_id;
  open.procedure = "rewrite_data_files";
  open.ident = work.ident;
  open.opted_in = [this](const OptInCatalog::Properties& now) {
    return plan::ResolvePolicy(now, options_.defaults, std::nullopt).enabled;
  };
  open.property = options_.defaults.prefixes.front() + ".enabled";
  open.may_commit = [&watch] { return watch.Check(); };
  open.stop = [&watch] { return watch.cancel().requested(); };
  LITHIFY_TRY_ASSIGN(auto session, services_.sessions->Open(open));
  // Gate 3, before anything is read: R023, R025.
  LITHIFY_TRY(MayWrite(session->catalog(), work.ident));
  job::IcebergSettings settings;
  settings.trigger = "scheduled";
  settings.principal = actor();
  settings.job_id = line.job_id;
  // Polaris: a writer that comes second may roll this snapshot back instead of failing.
  if (options_.conflict_rollback) {
    settings.summary["polaris.internal.conflict-resolution.by-operation-type.replace"] = "rollback";
  }
  job::RewriteRequest request;
  request.ident = work.ident;
  request.options = plan::RewriteOptionsOf(work.policy);
  request.options.only_partitions.emplace();
  for (const size_t candidate : planned.candidates) {
    request.options.only_partitions->push_back(work.debt->partitions[candidate - work.first]);
  }
  if (work.policy.max_concurrent_file_group_rewrites) {
    request.groups_at_once_max = *work.policy.max_concurrent_file_group_rewrites;
  }
  began = true;
  return session->MakeJob(services_.progress, settings).RewriteDataFiles(request, watch.cancel());
}

// In this order, and never beside the rewrite: R072, T12. Each is a job of its own, with a
// credential of its own, and stops if its own property goes. What they take is taken from the
// budget. They belong to the turn of their table, which they end: else a budget of one commit would
// never see a snapshot expire.
void TickRun::FollowUp(Work& work) {
  using plan::TablePolicy;
  Follow(work, "rewrite_manifests", "rewrite-manifests.enabled",
         &plan::TablePolicy::rewrite_manifests,
         [&](job::IcebergJob& job, const TablePolicy&, JobLine& line) -> Result<FollowedUp> {
           LITHIFY_TRY_ASSIGN(const auto done, job.RewriteManifests(work.ident, cancel_));
           line.files_in = done.rewritten;
           line.files_out = done.added;
           line.snapshot_id = done.snapshot_id;
           if (!done.snapshot_id) return FollowedUp{.told = "nothing to gain"};
           return FollowedUp{.told = {}, .commits = 1};
         });
  Follow(work, "expire_snapshots", "expire-snapshots.enabled", &plan::TablePolicy::expire_snapshots,
         [&](job::IcebergJob& job, const TablePolicy& policy, JobLine& line) -> Result<FollowedUp> {
           plan::ExpireOptions options;
           if (policy.expire_older_than) options.older_than = Now() - *policy.expire_older_than;
           if (policy.expire_retain_last) options.retain_last = policy.expire_retain_last;
           LITHIFY_TRY_ASSIGN(const auto done,
                              job.ExpireSnapshots(work.ident, options, false, cancel_));
           line.files_in = done.files_removed;
           TellDenied(work, done);
           return FollowedUp{
               .told = TellRemoved(
                   done, std::to_string(done.snapshots_removed) + " snapshots expired", line),
               .commits = done.snapshots_removed > 0 ? 1 : 0};
         });
  Follow(
      work, "remove_orphan_files", "remove-orphan-files.enabled",
      &plan::TablePolicy::remove_orphan_files,
      [&](job::IcebergJob& job, const TablePolicy& policy, JobLine& line) -> Result<FollowedUp> {
        plan::OrphanOptions options;
        options.older_than = Now() - policy.orphan_older_than;
        LITHIFY_TRY_ASSIGN(const auto done,
                           job.RemoveOrphanFiles(work.ident, options, false, cancel_));
        line.files_in = done.files_removed;
        line.bytes_in = done.bytes;
        TellDenied(work, done);
        return FollowedUp{
            .told = TellRemoved(done, std::to_string(done.files_removed) + " files removed", line)};
      });
}

// Files that stay because the storage does not let them be removed do so until somebody is told.
void TickRun::TellDenied(const Work& work, const job::RemovedFiles& done) {
  const auto denied = std::ranges::find(done.failed, Code::kDenied, &Error::code);
  if (denied != done.failed.end()) Refused(work, denied->ToString(), kGrantWrite);
}

void TickRun::Follow(Work& work, const std::string& procedure, const std::string& property,
                     bool plan::TablePolicy::* wanted, const FollowUpCall& call) {
  if (!(work.policy.*wanted) || cancel_.requested()) return;
  JobLine line{.job_id = NewJobId(),
               .table = work.key,
               .procedure = procedure,
               .status = std::string(job::log_status::kFailed),
               .reason = {},
               .started = Now()};
  const auto run = [&]() -> Result<FollowedUp> {
    LITHIFY_TRY_ASSIGN(
        auto session,
        services_.sessions->Open({.job_id = line.job_id,
                                  .procedure = procedure,
                                  .ident = work.ident,
                                  .opted_in =
                                      [this, wanted](const OptInCatalog::Properties& properties) {
                                        const auto now = plan::ResolvePolicy(
                                            properties, options_.defaults, std::nullopt);
                                        return now.enabled && now.*wanted;
                                      },
                                  .property = options_.defaults.prefixes.front() + "." + property,
                                  .stop = Stop()}));
    job::IcebergSettings settings;
    settings.trigger = "scheduled";
    settings.principal = actor();
    settings.job_id = line.job_id;
    // As the owner has it now: what a rewrite took hours for may have been changed meanwhile.
    LITHIFY_TRY_ASSIGN(const auto table, session->catalog().LoadTable(work.ident));
    const auto policy =
        plan::ResolvePolicy(table.metadata.properties, options_.defaults, std::nullopt);
    auto job = session->MakeJob(services_.progress, settings);
    return call(job, policy, line);
  };
  const Duration begin = services_.clock.Monotonic();
  auto done = run();
  line.ended = Now();
  // One thread works: what it takes by the clock.
  line.actual_seconds = Seconds(services_.clock.Monotonic() - begin);
  SpendMore(work, line.actual_seconds, done ? done->commits : 0);
  if (done) {
    if (line.status == job::log_status::kFailed) line.status = job::log_status::kSuccess;
    line.reason = std::move(done->told);
  } else {
    line.status = job::log_status::kFailed;
    line.reason = done.error().ToString();
    if (done.error().code == Code::kDenied) Refused(work, line.reason, kGrantWrite);
  }
  Done(std::move(line));
}

// --- records -----------------------------------------------------------------------------------

void TickRun::Learn(const Work& work, const plan::MaintenanceJob& planned,
                    const job::RewriteResult* done, const std::optional<Error>& error, bool overran,
                    const JobLine& line) {
  plan::MaintenanceOutcome outcome;
  using Kind = plan::MaintenanceOutcome::Result;
  outcome.result = !error                           ? Kind::kCommitted
                   : error->code == Code::kConflict ? Kind::kConflict
                   : overran                        ? Kind::kOverran
                                                    : Kind::kFailed;
  outcome.partitions = static_cast<int64_t>(planned.candidates.size());
  outcome.files = planned.files;
  outcome.bytes = planned.bytes;
  outcome.compute_seconds = line.actual_seconds;
  outcome.wall_seconds = Seconds(line.ended - line.started);
  const std::lock_guard lock(mutex_);
  for (const size_t candidate : planned.candidates) {
    const plan::MaintenanceCandidate& one = candidates_[candidate];
    outcome.commits_per_hour +=
        one.commits_per_hour.value_or(state_.priors.commits_per_hour) * (1 - one.append_share);
  }
  if (done != nullptr) {
    outcome.files = done->files_rewritten;
    outcome.bytes = done->bytes_in;
    outcome.files_removed = done->files_rewritten - done->files_added;
    outcome.delete_files_removed = done->delete_files_removed;
    outcome.delete_rows_removed = done->rows_removed;
  }
  const bool worked = done == nullptr || done->status != job::RewriteStatus::kSkipped;
  if (worked) state_.priors = plan::Calibrate(state_.priors, outcome);
  Spend(state_.run, catalog::NamespaceName(work.ident.namespace_parts),
        {.bytes = worked ? planned.bytes : 0,
         .seconds = line.actual_seconds,
         .commits = worked ? 1 : 0});
  if (done != nullptr) {
    for (const size_t candidate : planned.candidates) {
      state_.waiting_since.erase(work.key + "\n" + candidates_[candidate].partition);
    }
  }
}

void TickRun::Settle(Work& work, const JobLine& line, const std::optional<Error>& error) {
  plan::RunOutcome outcome;
  outcome.started = line.started;
  outcome.ended = line.ended;
  if (error) {
    outcome.code = error->code;
    outcome.reason = error->ToString();
  }
  outcome.snapshot_id = line.snapshot_id;
  if (!outcome.snapshot_id && work.debt && work.debt->snapshot_id != 0) {
    outcome.snapshot_id = work.debt->snapshot_id;
  }
  const std::lock_guard lock(mutex_);
  plan::Record(state_.tables[work.key], work.schedule, outcome);
  state_.running.erase(work.key);
}

// Jobs that took longer than they were expected to, and what followed them, leave less for those
// after them.
bool TickRun::IsSpent(const Work& work) {
  const auto spent = [](const plan::MaintenanceBudget& budget, const BudgetUse& use) {
    return (budget.seconds > 0 && use.seconds >= budget.seconds) ||
           (budget.commits > 0 && use.commits >= budget.commits);
  };
  const std::string name_space = catalog::NamespaceName(work.ident.namespace_parts);
  const std::lock_guard lock(mutex_);
  if (spent(options_.ranking.per_run, state_.run.all)) return true;
  const auto own = options_.ranking.of_namespace.find(name_space);
  const auto use = state_.run.of_namespace.find(name_space);
  return use != state_.run.of_namespace.end() &&
         spent(own != options_.ranking.of_namespace.end() ? own->second
                                                          : options_.ranking.per_namespace,
               use->second);
}

void TickRun::SpendMore(const Work& work, double seconds, int64_t commits) {
  const std::lock_guard lock(mutex_);
  Spend(state_.run, catalog::NamespaceName(work.ident.namespace_parts),
        {.bytes = 0, .seconds = seconds, .commits = commits});
}

// Before the first byte is read: a table that takes its process down must not do so again at once.
void TickRun::MarkRunning(const std::string& key, Time started) {
  const std::lock_guard lock(mutex_);
  state_.running[key] = started;
  if (Status saved = services_.state.Save(state_); !saved) {
    report_.warnings.push_back("state: " + saved.error().ToString());
  }
}

void TickRun::Done(JobLine line) {
  services_.metrics.Add(
      metric::kLithifyMaintenanceJobs, 1,
      {{attribute::kLithifyProcedure, line.procedure}, {attribute::kLithifyOutcome, line.status}});
  if (line.status == job::log_status::kSkipped)
    services_.metrics.Add(metric::kLithifyMaintenanceSkipped, 1);
  if (line.status != job::log_status::kSuccess && line.status != job::log_status::kPartial) {
    AuditEvent event = Recorded("maintenance_active", line.job_id);
    event.failed = line.status == job::log_status::kFailed;
    if (event.failed) event.error_code = "MaintenanceJobFailed";
    event.error = event.failed ? line.reason : std::string();
    event.query_text = line.procedure + " of " + line.table + ": " + line.status +
                       (line.reason.empty() ? "" : ": " + line.reason);
    Audit(event);
  }
  job::LogRow row;
  row.job_id = line.job_id;
  row.table_name = line.table;
  row.trigger = job::log_trigger::kScheduled;
  row.principal = actor();
  row.started_at_ms = Millis(line.started);
  row.finished_at_ms = Millis(line.ended);
  row.status = line.status;
  row.files_in = line.files_in;
  row.files_out = line.files_out;
  row.bytes_in = line.bytes_in;
  row.bytes_out = line.bytes_out;
  row.rows_removed = line.rows_removed;
  row.snapshot_id = line.snapshot_id;
  // The table has no column for the procedure: the rewrite is what it is for.
  if (line.procedure != "rewrite_data_files") {
    row.error = Shortened(line.procedure + (line.reason.empty() ? "" : ": " + line.reason));
  } else if (!line.reason.empty()) {
    row.error = Shortened(line.reason);
  }
  const std::lock_guard lock(mutex_);
  rows_.push_back(std::move(row));
  report_.jobs.push_back(std::move(line));
}

Status TickRun::OpenLog() {
  LITHIFY_TRY_ASSIGN(log_session_, services_.sessions->Open({.job_id = NewJobId(),
                                                             .procedure = "maintenance_log",
                                                             .ident = *options_.log,
                                                             .stop = Stop()}));
  log_.emplace(
      job::MaintenanceLogServices{.catalog = log_session_->catalog(),
                                  .locations = log_session_->locations(),
                                  .clock = services_.clock,
                                  .random = services_.random,
                                  .sleep = [this](Duration d) { services_.clock.Sleep(d); }},
      *options_.log);
  if (options_.lease == LeaseKind::kCatalog) {
    lease_ =
        MakeCatalogLease(*log_, {.holder = options_.holder}, services_.clock, services_.random);
  } else {
    lease_ = MakeNoLease(services_.clock, services_.random);
  }
  if (services_.around_lease) lease_ = services_.around_lease(std::move(lease_));
  return {};
}

// What other coordinators did, or this one before its file was lost (R157).
void TickRun::ReadLog() {
  if (seen_log && options_.lease == LeaseKind::kNone) return;
  job::LogFilter filter;
  filter.trigger = std::string(job::log_trigger::kScheduled);
  filter.leases = false;
  filter.finished_after_ms = Millis(Now() - options_.schedule.catch_up);
  auto view = log_->Read(filter, cancel_);
  const bool was_missing = log_missing;
  log_missing = !view && view.error().code == Code::kNotFound;
  services_.metrics.Set(metric::kLithifyMaintenanceLogMissing, log_missing ? 1 : 0);
  if (!view) {
    // R299: that it is missing is told once.
    if (!log_missing) {
      report_.warnings.push_back("maintenance log: " + view.error().ToString());
    } else if (!was_missing) {
      report_.warnings.push_back("there is no maintenance log " + options_.log->ToString() +
                                 ": jobs run without leases and history; `lithify init-state " +
                                 options_.catalog + "` makes it");
    }
    if (log_missing) {
      // R299: efficiency and history alone.
      log_.reset();
      lease_.reset();
    }
    return;
  }
  seen_log = true;
  for (const job::LogRow& row : view->rows) {
    const bool settled = row.status == job::log_status::kSuccess ||
                         row.status == job::log_status::kPartial ||
                         row.status == job::log_status::kSkipped;
    if (!settled || !IsOfRewrite(row)) continue;
    std::string key = row.table_name;
    if (IsTreeRoot(key)) {
      if (services_.trees == nullptr || !services_.trees->IsShared(key)) continue;
      key = TreeKey(key);
    }
    plan::RecordSettled(state_.tables[key], options_.schedule, FromMillis(row.started_at_ms));
  }
}

// What has ended so far: a process that is killed later does not take it with it.
void TickRun::WriteRows() {
  std::vector<job::LogRow> rows;
  {
    const std::lock_guard lock(mutex_);
    rows.swap(rows_);
  }
  if (rows.empty()) return;
  if (!log_) return TellUnwritten(rows, "there is none to write to");
  auto written = log_->Append(rows, CancelFlag());
  if (!written) {
    TellUnwritten(rows, written.error().ToString() +
                            (written.error().code == Code::kDenied
                                 ? "; grant TABLE_WRITE_DATA on it to the catalog role of the "
                                   "maintenance principal"
                                 : ""));
    return;
  }
  const std::lock_guard lock(mutex_);
  appended_ = true;
}

// R025: what is told at every tick is told here where the log does not have it. That there is no
// log was told once, and holds up nothing (R299): of jobs alone nothing is said again.
void TickRun::TellUnwritten(const std::vector<job::LogRow>& rows, const std::string& why) {
  const auto refusals =
      std::ranges::count(rows, job::log_trigger::kScheduler, &job::LogRow::trigger);
  if (!options_.log || (!log_ && refusals == 0)) return;
  const std::lock_guard lock(mutex_);
  report_.warnings.push_back("maintenance log " + options_.log->ToString() +
                             ": rows that are not written: " + std::to_string(rows.size()) +
                             ", of refusals " + std::to_string(refusals) + ": " + why);
}

void TickRun::WriteLog() {
  WriteRows();
  // Whether it is worth it, the log's own files say.
  if (!log_ || !appended_ || cancel_.requested()) return;
  job::IcebergSettings settings;
  settings.trigger = "scheduled";
  settings.principal = actor();
  auto done =
      job::CompactMaintenanceLog(log_session_->Services(services_.progress), settings,
                                 *options_.log, {.keep_rows = options_.log_rows_kept}, cancel_);
  if (!done) {
    report_.warnings.push_back("maintenance log: compaction: " + done.error().ToString());
  }
}

void TickRun::CountTables() {
  for (const metric::Instrument* gauge :
       {&metric::kLithifyTableSmallFiles, &metric::kLithifyTableDeleteFiles,
        &metric::kLithifyTableRewriteDebt}) {
    services_.metrics.Forget(*gauge);
  }
  for (const TableReport& table : report_.tables) {
    const observe::Attributes of{{attribute::kLithifyTable, table.table}};
    const auto set = [&](const metric::Instrument& gauge, const std::optional<int64_t>& value) {
      if (value) services_.metrics.Set(gauge, static_cast<double>(*value), of);
    };
    set(metric::kLithifyTableSmallFiles, table.small_files);
    set(metric::kLithifyTableDeleteFiles, table.delete_files);
    set(metric::kLithifyTableRewriteDebt, table.est_rewrite_bytes);
  }
}

}  // namespace

// What was run and what must not be run again is not known: nothing is, and nothing is written
// over.
TickReport Scheduler::WithoutState(Error error) {
  services_.metrics.Add(metric::kLithifyMaintenanceTickErrors, 1,
                        {{attribute::kErrorType, std::string(CodeName(error.code))}});
  TickReport report;
  report.mode = ModeName(options_.mode);
  report.catalog = options_.catalog;
  report.began = report.ended = services_.clock.Now();
  report.loud.push_back({.what = "no_state",
                         .where = {},
                         .why = "the state file cannot be loaded: " + error.ToString(),
                         .next = error.hint});
  report.error = std::move(error);
  return report;
}

// Of a tree its partitions, too, which have breakers of their own.
void Scheduler::TakeResets(std::vector<std::string>& warnings) {
  const auto requests = services_.state.TakeResets();
  if (!requests) {
    warnings.push_back("resets: " + requests.error().ToString());
    return;
  }
  for (const ResetRequest& request : *requests) {
    const std::string key = IsTreeRoot(request.table) ? TreeKey(request.table) : request.table;
    int64_t found = 0;
    for (auto& [name, history] : state_->tables) {
      if (name != key && !name.starts_with(key + "\n")) continue;
      plan::ForgetFailures(history);
      ++found;
    }
    AuditEvent event;
    event.phase = AuditEvent::Phase::kRecorded;
    event.kind = AuditKind::kPolicyDecision;
    event.time = services_.clock.Now();
    event.procedure = "maintenance_reset";
    event.actor = request.by;
    event.query_text = "breaker and back-off of " + request.table + " end, as asked for at " +
                       FormatTime(request.at) + (found > 0 ? "" : ": there is no such table");
    if (Status written = services_.audit.Append(event); !written) {
      warnings.push_back("audit log: " + written.error().ToString());
    }
    if (found == 0) warnings.push_back("reset of " + request.table + ": there is no such table");
  }
}

TickReport Scheduler::Tick(const TickOptions& tick, const CancelFlag& cancel) {
  std::vector<std::string> warnings;
  if (!state_) {
    auto loaded = services_.state.Load();
    if (!loaded) return WithoutState(std::move(loaded.error()));
    state_ = std::move(*loaded);
    for (plan::MaintenancePriors* priors : {&state_->priors, &state_->tree_priors}) {
      priors->life_days = options_.life_days;
      priors->selective_share = options_.selective_share;
    }
  }
  if (!tick.plan_only && !recovered_) {
    recovered_ = true;
    for (const auto& [table, started] : state_->running) {
      plan::Record(state_->tables[table], options_.schedule,
                   {.started = started,
                    .ended = services_.clock.Now(),
                    .code = Code::kTransient,
                    .reason = "the process ended in the middle of it",
                    .snapshot_id = {}});
      warnings.push_back(table + ": the last job was cut off: its process ended");
    }
    state_->running.clear();
  }
  if (!tick.plan_only) TakeResets(warnings);
  TickRun run(services_, options_, tick, *state_, debts_, policies_, cancel);
  run.log_missing = log_missing_;
  run.seen_log = seen_log_;
  TickReport report = run.Run();
  log_missing_ = run.log_missing;
  seen_log_ = run.seen_log;
  if (!tick.plan_only) {
    if (Status saved = services_.state.Save(*state_); !saved) {
      warnings.push_back("state: " + saved.error().ToString());
    }
  }
  report.warnings.insert(report.warnings.begin(), warnings.begin(), warnings.end());
  return report;
}

}  // namespace lithify::maintain
