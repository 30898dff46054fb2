#include "iceberg_world.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "catalog/memory_catalog.h"
#include "iceberg_engine.h"
#include "iceberg_oracle.h"
#include "job/iceberg_job.h"
#include "rewrite/parquet_runner.h"
#include "sim_scheduler.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::sim {
namespace {

using catalog::LoadedTable;
using catalog::MemoryCatalog;
using catalog::TableIdent;
using observe::AuditEvent;
using storage::FaultyStore;

class World;

// A process, and the world as it sees it. It crashes once, at most.
struct Session {
  int actor = -1;
  bool store_faults = false;
  bool catalog_faults = false;
  int64_t crash_in = -1;  // Operations left; negative: never.
  bool crashed = false;
  bool denied = false;          // The catalog was told to deny a commit of it.
  std::optional<Time> working;  // Since when it may have written what is not committed yet.
  std::set<std::string> removed;
  std::vector<AuditEvent> events;
  CancelFlag stop;  // Once it has crashed.

  std::shared_ptr<FaultyStore> store;
  std::unique_ptr<storage::Locations> locations;
  std::unique_ptr<catalog::Catalog> catalog;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<observe::AuditLog> audit;
  std::unique_ptr<SimWorkers::Coordinator> coordinator;  // With workers.
};

class World {
 public:
  World(uint64_t seed, bool trace, Who who)
      : dice_(seed),
        clock_(*ParseTime("2026-11-29T12:00")),
        random_(seed),
        store_(std::make_shared<storage::MemoryStore>(clock_)),
        locations_(storage::MakeStoreLocations(store_, "s3", "b")),
        catalog_(*locations_, clock_, random_),
        oracle_(*store_),
        scheduler_(dice_, clock_),
        tracing_(trace),
        moves_(seed % 4 == 3),
        fault_one_in_(dice_.OneIn(3) ? 0 : static_cast<uint64_t>(dice_.Between(6, 40))) {
    shape_.ident = TableIdent{{"ns"}, "t"};
    shape_.format_version = dice_.OneIn(2) ? 2 : 3;
    shape_.partitions = dice_.Between(1, 3);
    constexpr uint64_t kSpecChoices = 4;
    switch (dice_.Below(kSpecChoices)) {
      case 0: shape_.specs = {1}; break;
      case 1: shape_.specs = {0, 1}; break;
      default: shape_.specs = {0};
    }
    if (moves_) oracle_.AllowMoves();
    if (who == Who::kWorkers) MakeWorkers();
  }

  IcebergReport Run() {
    SetHooks();
    Populate();
    if (!report_.violation) {
      AddActors();
      scheduler_.Run();
    }
    // Those who are gone say nothing more.
    for (const auto& session : sessions_) session->coordinator.reset();
    if (!report_.violation) Rest();
    if (workers_) report_.fleet = workers_->counts();
    report_.steps = scheduler_.steps();
    report_.commits = static_cast<uint64_t>(oracle_.commits());
    report_.replaces = static_cast<uint64_t>(oracle_.replaces());
    return std::move(report_);
  }

 private:
  class SessionCatalog;
  class SessionClock;
  class SessionAudit;

  // A commit whose reply was lost, and which the server gets later.
  struct Late {
    std::vector<table::TableRequirement> requirements;
    std::vector<table::TableUpdate> updates;
    Time since;
  };

  // --- the world's rules -------------------------------------------------------------------------

  void Violate(std::string what) {
    Trace(-1, "VIOLATION " + what);
    if (!report_.violation) report_.violation = std::move(what);
  }
  void Judge(const std::optional<std::string>& wrong) {
    if (wrong) Violate(*wrong);
  }
  void Trace(int actor, const std::string& text) {
    if (!tracing_) return;
    report_.trace.push_back(FormatTime(clock_.Now()).substr(0, 23) + " " +
                            (actor < 0 ? std::string("world") : scheduler_.NameOf(actor)) + " " +
                            text);
  }

  // Others may run before it returns.
  void Switch(Session& session) {
    if (session.actor >= 0 && !report_.violation) scheduler_.Yield(session.actor);
    current_ = &session;
  }
  Status Survive(Session& session) {
    if (session.crash_in > 0 && --session.crash_in == 0) {
      session.crashed = true;
      session.stop.Request();
      ++report_.crashes;
      Trace(session.actor, "CRASH");
    }
    if (session.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    return {};
  }
  bool Strikes(bool faults) { return faults && fault_one_in_ > 0 && dice_.OneIn(fault_one_in_); }

  Status BeforeStore(Session& session, std::string_view op, const std::string& key) {
    if (session.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    const bool quiet = op == "ReadAt" || op == "Append" || op == "Stat" || op == "Create";
    if (!quiet) {
      Switch(session);
      MaybeDeliver();
      Trace(session.actor, std::string(op) + " " + key);
    }
    LITHIFY_TRY(Survive(session));
    // A read of a few rows has many steps: not each may fail, or nothing ever succeeds.
    if (quiet || !dice_.OneIn(4) || !Strikes(session.store_faults)) return {};
    const bool publishes = op == "PutNew" || op == "Publish";
    Trace(session.actor, "  -> fault, not done");
    return Fail(publishes && dice_.OneIn(2) ? Code::kUnknownOutcome : Code::kTransient, "injected",
                key);
  }
  Status AfterStore(Session& session, std::string_view op, const std::string& key) {
    if (op == "Remove") {
      session.removed.insert(key);
      Judge(oracle_.Removed(key));
    }
    LITHIFY_TRY(Survive(session));
    const bool publishes = op == "PutNew" || op == "Publish";
    if (!publishes || !dice_.OneIn(4) || !Strikes(session.store_faults)) return {};
    Trace(session.actor, "  -> fault, done");
    return Fail(Code::kUnknownOutcome, "injected: done", key);
  }

  // --- the catalog -------------------------------------------------------------------------------

  void SetHooks() {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this](const TableIdent&) {
      return std::exchange(next_fault_, MemoryCatalog::Fault::kNone);
    };
    hooks.before_apply = hooks.before_swap = [this](const TableIdent&) { Switch(*current_); };
    hooks.before_answer = [this](const TableIdent&) {
      Observe();
      Switch(*current_);
    };
    catalog_.set_hooks(std::move(hooks));
  }

  void Observe() {
    const auto table = catalog_.LoadTable(shape_.ident);
    if (!table) return Violate(table.error().ToString());
    const int64_t before = oracle_.commits();
    Judge(oracle_.Observe(table->metadata, table->metadata_location));
    if (oracle_.commits() == before) return;
    const iceberg::Snapshot* head = table->metadata.RefSnapshot("main");
    Trace(current_->actor,
          "  => main is at " + (head == nullptr ? std::string("nothing")
                                                : std::to_string(head->snapshot_id) + " (" +
                                                      head->summary.at("operation") + ", seq " +
                                                      std::to_string(head->sequence_number) + ")"));
  }

  Result<LoadedTable> Commit(Session& session,
                             std::span<const table::TableRequirement> requirements,
                             std::span<const table::TableUpdate> updates) {
    LITHIFY_TRY(EnterCatalog(session, "CommitTable"));
    using Fault = MemoryCatalog::Fault;
    Fault fault = Fault::kNone;
    if (session.catalog_faults && fault_one_in_ > 0 && dice_.OneIn(2 + fault_one_in_ / 4)) {
      switch (dice_.Below(8)) {
        case 0:
        case 1: fault = Fault::kConflict; break;
        case 2:
        case 3: fault = Fault::kLostBeforeApply; break;
        case 4:
        case 5: fault = Fault::kLostAfterApply; break;
        case 6:
          late_.push_back(Late{{requirements.begin(), requirements.end()},
                               {updates.begin(), updates.end()},
                               session.working.value_or(clock_.Now())});
          ++report_.unknown_outcomes;
          Trace(session.actor, "  -> reply lost, will be applied later");
          return Fail(Code::kUnknownOutcome, "injected: applied later");
        default:
          if (dice_.OneIn(4)) {
            fault = Fault::kDenied;
            session.denied = true;
          }
      }
    }
    if (fault != Fault::kNone) {
      Trace(session.actor, "  -> fault " + std::to_string(static_cast<int>(fault)));
    }
    const bool lost = fault == Fault::kLostBeforeApply || fault == Fault::kLostAfterApply;
    report_.unknown_outcomes += lost ? 1 : 0;
    next_fault_ = fault;
    auto done = catalog_.CommitTable(shape_.ident, requirements, updates);
    if (!done && done.error().code == Code::kConflict) ++report_.lost_races;
    if (!done) Trace(session.actor, "  -> " + done.error().ToString());
    LITHIFY_TRY(Survive(session));
    return done;
  }

  Status EnterCatalog(Session& session, const std::string& what) {
    if (session.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    Switch(session);
    MaybeDeliver();
    Trace(session.actor, what);
    return Survive(session);
  }

  void MaybeDeliver() {
    if (!late_.empty() && dice_.OneIn(15)) Deliver();
  }

  // One of the late commits arrives.
  void Deliver() {
    const auto at = late_.begin() + static_cast<ptrdiff_t>(dice_.Below(late_.size()));
    const Late late = std::move(*at);
    late_.erase(at);
    Session* const running = std::exchange(current_, &network_);
    const auto done = catalog_.CommitTable(shape_.ident, late.requirements, late.updates);
    current_ = running;
    if (done) ++report_.late_commits;
    Trace(-1, std::string("a late commit was ") + (done ? "applied" : "refused"));
  }

  // --- sessions ----------------------------------------------------------------------------------

  Session& NewSession(int actor);

  // What it writes from here on is not committed yet.
  void Begin(Session& session) {
    session.working = clock_.Now();
    session.removed.clear();
    session.events.clear();
    session.denied = false;
  }
  void End(Session& session) { session.working.reset(); }

  Time OldestAtWork() const {
    Time oldest = clock_.Now();
    for (const auto& session : sessions_) {
      if (session->working) oldest = std::min(oldest, *session->working);
    }
    for (const Late& late : late_) oldest = std::min(oldest, late.since);
    return oldest;
  }

  void MakeWorkers() {
    workers_ = std::make_unique<SimWorkers>(
        dice_, clock_, random_,
        FleetHooks{.violate = [this](const std::string& what) { Violate(what); },
                   .trace = [this](int actor, const std::string& text) { Trace(actor, text); },
                   .new_process =
                       [this](int actor) {
                         Session& session = NewSession(actor);
                         session.store_faults = actor >= 0;
                         if (actor >= 0 && dice_.OneIn(15)) session.crash_in = dice_.Between(1, 60);
                         return WorkerProcess{session.locations.get(),
                                              [&session] { return session.crashed; }};
                       }});
  }

  // Its jobs give their groups to workers.
  void Distribute(Session& session) {
    session.coordinator = workers_->NewCoordinator(
        {.actor = session.actor, .clock = *session.clock, .step = [this, &session] {
           if (!session.crashed) Switch(session);
           const bool alive = Survive(session).has_value();
           if (!alive) session.stop.Request();
           return alive;
         }});
  }

  void TendWorkers(Session& session) {
    if (dice_.OneIn(2)) workers_->Shake();
    workers_->Reap(session.actor, false);
  }

  job::IcebergJob Job(Session& session, int64_t memory_bytes = int64_t{64} << 20) {
    job::IcebergSettings settings;
    settings.principal = dice_.OneIn(2) ? "robot" : "";
    settings.verify = dice_.OneIn(3) ? rewrite::Verify::kFull : rewrite::Verify::kCounts;
    settings.memory_bytes = memory_bytes;
    const auto make_runner = [](storage::Store& store) {
      return rewrite::MakeParquetRunner(store, int64_t{64} << 20);
    };
    group::Fleet* fleet = session.coordinator ? &session.coordinator->fleet() : nullptr;
    return job::IcebergJob({.catalog = *session.catalog,
                            .locations = *session.locations,
                            .make_runner = make_runner,
                            .clock = *session.clock,
                            .random = random_,
                            .audit = *session.audit,
                            .progress = *progress_,
                            .fleet = fleet},
                           settings);
  }

  ForeignEngine Engine(Session& session) {
    return ForeignEngine(
        {*session.catalog, *session.locations, *session.clock, random_, dice_, oracle_, shape_});
  }

  // --- actors ------------------------------------------------------------------------------------

  void Populate() {
    const Status created = catalog_.CreateTable(shape_.ident, FirstMetadata(shape_));
    if (!created) return Violate(created.error().ToString());
    Session& setup = NewSession(-1);
    current_ = &setup;
    Observe();
    ForeignEngine engine = Engine(setup);
    for (int64_t n = dice_.Between(2, 5); n > 0; --n) Tell(setup, engine.Append("main"));
    for (int64_t n = dice_.Between(0, 2); n > 0; --n) Tell(setup, engine.Run("main"));
    if (dice_.OneIn(3)) MakeRef(setup, "audit", true);
  }

  void AddActors() {
    const auto rewriters = dice_.Between(1, 2);
    for (int64_t i = 1; i <= rewriters; ++i) {
      AddActor("rewriter-" + std::to_string(i), 2, 4, &World::Rewrite);
    }
    const auto engines = dice_.Between(1, 3);
    for (int64_t i = 1; i <= engines; ++i) {
      AddActor("engine-" + std::to_string(i), 3, 8, &World::Write);
    }
    AddActor("maintenance", 2, 6, &World::Maintain);
    if (dice_.OneIn(3)) AddActor("cleaner", 1, 3, &World::RemoveOrphans);
    if (workers_) AddActor("workers", 6, 20, &World::TendWorkers);
  }

  // An actor that does so many operations; a crashed process is followed by a new one.
  void AddActor(const std::string& name, int64_t least, int64_t most,
                void (World::*work)(Session&)) {
    const auto id = std::make_shared<int>(-1);
    const int64_t count = dice_.Between(least, most);
    *id = scheduler_.Add(name, [this, id, count, work] {
      Session* session = &StartProcess(*id);
      for (int64_t n = count; n > 0 && !report_.violation; --n) {
        if (session->crashed) session = &StartProcess(*id);
        Begin(*session);
        (this->*work)(*session);
        End(*session);
        for (int64_t idle = dice_.Between(0, 20); idle > 0 && !report_.violation; --idle) {
          Switch(*session);
        }
      }
    });
  }

  Session& StartProcess(int actor) {
    Session& session = NewSession(actor);
    current_ = &session;
    session.catalog_faults = true;
    session.store_faults = !scheduler_.NameOf(actor).starts_with("engine");
    if (dice_.OneIn(3)) session.crash_in = dice_.Between(1, 500);
    if (workers_ && scheduler_.NameOf(actor).starts_with("rewriter")) Distribute(session);
    return session;
  }

  std::string RandomBranch() {
    const bool has_other = oracle_.table().refs.contains("audit");
    return has_other && dice_.OneIn(5) ? "audit" : "main";
  }

  void Tell(const Session& session, const std::string& what) { Trace(session.actor, "# " + what); }

  void Write(Session& session) { Tell(session, Engine(session).Run(RandomBranch())); }

  plan::RewriteOptions RandomOptions() {
    plan::RewriteOptions options;
    switch (dice_.Below(3)) {
      case 0: options.target_file_size_bytes = 2500; break;
      case 1: options.target_file_size_bytes = 6000; break;
      default: options.target_file_size_bytes = 1 << 20;
    }
    options.min_input_files = static_cast<int>(dice_.Between(2, 4));
    options.delete_file_threshold = static_cast<int>(dice_.Between(0, 2));
    options.rewrite_all = dice_.OneIn(4);
    if (dice_.OneIn(3)) {
      options.max_file_group_size_bytes = options.target_file_size_bytes + dice_.Between(0, 6000);
    }
    if (dice_.OneIn(6)) options.max_file_group_files = 3;
    return options;
  }

  void Rewrite(Session& session) {
    job::RewriteRequest request;
    request.ident = shape_.ident;
    request.branch = RandomBranch();
    request.options = RandomOptions();
    request.partial_progress = dice_.OneIn(3);
    request.partial_progress_max_commits = static_cast<int>(dice_.Between(1, 3));
    request.max_attempts = static_cast<int>(dice_.Between(1, 4));
    request.remove_dangling_deletes = dice_.OneIn(3);
    if (dice_.OneIn(6)) request.where = "id < " + std::to_string(dice_.Between(1, 60));
    request.dry_run = dice_.OneIn(15);
    if (moves_ && dice_.OneIn(2)) request.output_spec_id = static_cast<int>(dice_.Below(2));
    const auto result = Job(session).RewriteDataFiles(request, session.stop);
    JudgeRewrite(session, request, result);
  }

  void JudgeRewrite(Session& session, const job::RewriteRequest& request,
                    const Result<job::RewriteResult>& result) {
    Tell(session,
         "rewrite_data_files: " +
             (result ? result->reason + ", files " + std::to_string(result->files_rewritten) +
                           " -> " + std::to_string(result->files_added)
                     : result.error().ToString()));
    if (session.crashed || report_.violation) return;
    if (!result) return JudgeError(session, result.error());
    JudgeAudit(session);
    const JobTotals& totals = oracle_.totals(result->job_id);
    const bool changed = result->status == job::RewriteStatus::kCommitted ||
                         result->status == job::RewriteStatus::kPartial;
    report_.rewrites += changed ? 1 : 0;
    report_.retries += static_cast<uint64_t>(result->attempts - 1);
    if (!changed || request.dry_run) Judge(oracle_.ExpectNothingOf(result->job_id));
    JudgeSnapshot(result->snapshot_id, totals);
    if (result->files_added > result->files_rewritten && !request.output_spec_id) {
      Violate("more files than before");
    }
    const auto differs = [&](const char* what, int64_t told, int64_t is) {
      if (told == is) return;
      Violate(std::string("the result tells ") + std::to_string(told) + " " + what +
              ", the summaries " + std::to_string(is));
    };
    const auto committed =
        std::ranges::count(session.events, AuditEvent::Phase::kCommitted, &AuditEvent::phase);
    differs("commits in the audit log", committed, std::ssize(totals.snapshots));
    differs("files rewritten", result->files_rewritten, totals.removed_files);
    differs("files added", result->files_added, totals.added_files);
    differs("delete files removed", result->delete_files_removed, totals.removed_deletes);
    differs("rows in", result->rows_in, totals.removed_records);
    differs("rows out", result->rows_out, totals.added_records);
    differs("rows removed", result->rows_removed, totals.removed_records - totals.added_records);
  }

  void JudgeSnapshot(const std::optional<int64_t>& told, const JobTotals& totals) {
    if (told ? totals.snapshots.contains(*told) : totals.snapshots.empty()) return;
    Violate("the result tells of snapshot " + std::to_string(told.value_or(0)) +
            ", the table has " + std::to_string(totals.snapshots.size()) + " of the job");
  }

  // Under faults a job may fail, but never because it takes a healthy table for a damaged one; and
  // a failure that claims to be known is one.
  void JudgeError(Session& session, const Error& error) {
    if (session.crashed || report_.violation) return;
    const bool deceived = session.coordinator && session.coordinator->deceived();
    const bool alarm = (error.code == Code::kCorrupt && !deceived) ||
                       error.code == Code::kInternal || error.code == Code::kInvalid ||
                       error.code == Code::kUnsupported || error.code == Code::kNotFound ||
                       (error.code == Code::kDenied && !session.denied);
    if (alarm) return Violate("false alarm: " + error.ToString());
    JudgeAudit(session);
    if (error.code == Code::kUnknownOutcome) return;
    for (const AuditEvent& event : session.events) {
      if (!event.job_id.empty()) Judge(oracle_.ExpectNothingOf(event.job_id));
    }
  }

  void JudgeAudit(const Session& session) {
    if (session.events.empty()) return;
    if (session.events.back().phase == AuditEvent::Phase::kIntent) {
      Violate("an intent of " + session.events.back().procedure + " has no outcome");
    }
  }

  void Maintain(Session& session) {
    switch (dice_.Below(10)) {
      case 0:
      case 1:
      case 2:
      case 3: return Expire(session);
      case 4:
      case 5: return RemoveOrphans(session);
      case 6:
      case 7: return RewriteManifests(session);
      case 8: return MakeRef(session, "tag-" + std::to_string(++tags_), false);
      default: return RollBack(session);
    }
  }

  void Expire(Session& session) {
    plan::ExpireOptions options;
    options.older_than = clock_.Now() - std::chrono::minutes(dice_.Between(0, 90));
    options.retain_last = static_cast<int>(dice_.Between(1, 4));
    // Now and then so little that it takes several passes.
    const int64_t memory = ++expiries_ % 3 == 0 ? 16 << 10 : 64 << 20;
    const auto result =
        Job(session, memory).ExpireSnapshots(shape_.ident, options, dice_.OneIn(10), CancelFlag());
    report_.snapshots_expired += result ? static_cast<uint64_t>(result->snapshots_removed) : 0;
    report_.files_expired += session.removed.size();
    JudgeRemoval(session, result);
  }

  void RemoveOrphans(Session& session) {
    plan::OrphanOptions options;
    options.older_than = OldestAtWork() - std::chrono::milliseconds(1);
    options.age_min = Duration::zero();
    options.force = true;
    const auto result =
        Job(session).RemoveOrphanFiles(shape_.ident, options, dice_.OneIn(10), CancelFlag());
    report_.orphans += session.removed.size();
    JudgeRemoval(session, result);
  }

  void JudgeRemoval(Session& session, const Result<job::RemovedFiles>& result) {
    Tell(session, result ? result->procedure + ": " + result->status : result.error().ToString());
    if (session.crashed || report_.violation) return;
    if (!result) return JudgeError(session, result.error());
    JudgeAudit(session);
    std::set<std::string> told;
    for (const std::string& location : result->files) told.insert(KeyOf(location));
    if (result->dry_run) told.clear();
    for (const std::string& key : session.removed) {
      if (!told.contains(key)) return Violate(key + " was removed, but is not reported");
    }
    for (const Error& error : result->failed) JudgeError(session, error);
  }

  void RewriteManifests(Session& session) {
    const auto result = Job(session).RewriteManifests(shape_.ident, CancelFlag());
    Tell(session, result ? "rewrite_manifests: " + std::to_string(result->rewritten) + " -> " +
                               std::to_string(result->added)
                         : result.error().ToString());
    if (session.crashed || report_.violation) return;
    if (!result) return JudgeError(session, result.error());
    JudgeAudit(session);
    JudgeSnapshot(result->snapshot_id, oracle_.totals(result->job_id));
  }

  // To one of the last few ancestors of main.
  void RollBack(Session& session) {
    const iceberg::Snapshot* to = oracle_.table().RefSnapshot("main");
    for (int64_t n = dice_.Between(1, 3); n > 0 && to != nullptr; --n) {
      to = to->parent_snapshot_id ? oracle_.table().FindSnapshot(*to->parent_snapshot_id) : nullptr;
    }
    if (to == nullptr) return;
    const int64_t id = to->snapshot_id;
    oracle_.ExpectRollback("main", id);
    const auto result = Job(session).RollbackToSnapshot(shape_.ident, id);
    Tell(session, result ? "rolled back to " + std::to_string(id) : result.error().ToString());
    if (session.crashed || report_.violation || result) return;
    // Somebody else may have rolled back further, or expired it.
    if (result.error().code != Code::kInvalid) JudgeError(session, result.error());
  }

  void MakeRef(Session& session, const std::string& name, bool branch) {
    const auto table = session.catalog->LoadTable(shape_.ident);
    if (!table) return;
    const iceberg::Snapshot* head = table->metadata.RefSnapshot("main");
    if (head == nullptr) return;
    iceberg::SnapshotRef ref;
    ref.snapshot_id = head->snapshot_id;
    ref.is_branch = branch;
    const std::vector<table::TableRequirement> requirements = {
        table::AssertRefSnapshotId{"main", head->snapshot_id},
        table::AssertRefSnapshotId{name, std::nullopt}};
    const std::vector<table::TableUpdate> updates = {table::SetSnapshotRef{name, ref}};
    const auto done = session.catalog->CommitTable(shape_.ident, requirements, updates);
    Tell(session, name + (done ? " set" : ": " + done.error().ToString()));
  }

  // --- the end -----------------------------------------------------------------------------------

  // No faults and no others any more.
  void Rest() {
    while (!late_.empty() && !report_.violation) Deliver();
    for (const auto& session : sessions_) session->working.reset();
    Session& session = NewSession(-1);
    current_ = &session;
    if (!report_.violation) RestRewrites(session);
    if (!report_.violation) RestManifests(session);
    clock_.Advance(std::chrono::hours(30));
    if (workers_ && !report_.violation) workers_->Reap(-1, true);
    if (!report_.violation) RestRemovals(session);
    if (!report_.violation) Judge(oracle_.CheckAll());
    if (!report_.violation) Judge(oracle_.CheckNoGarbage());
  }

  void RestRewrites(Session& session) {
    job::RewriteRequest request;
    request.ident = shape_.ident;
    request.options.target_file_size_bytes = 1 << 20;
    request.options.min_input_files = 2;
    request.options.delete_file_threshold = 1;
    request.remove_dangling_deletes = true;
    for (int round = 1; round <= 2 && !report_.violation; ++round) {
      Begin(session);
      const auto health = Job(session).GetTableHealth(shape_.ident, request.options);
      const auto result = Job(session).RewriteDataFiles(request, CancelFlag());
      if (!health) return Violate("at rest: " + health.error().ToString());
      if (!result) return Violate("at rest: " + result.error().ToString());
      JudgeRewrite(session, request, result);
      if (health->health.eligible_groups != std::ssize(result->plan.groups)) {
        return Violate("health and plan do not agree (R079)");
      }
      if (round == 2 && (result->status != job::RewriteStatus::kSkipped ||
                         !result->plan.groups.empty() || result->snapshot_id)) {
        return Violate("rewrites do not come to rest: " + result->reason);
      }
    }
    const iceberg::Snapshot* head = oracle_.table().RefSnapshot("main");
    if (head == nullptr) return;
    const SnapshotView& view = oracle_.view(head->snapshot_id);
    if (!view.deletes.empty()) {
      Violate("a delete is left at rest: " + view.deletes.front().file.file_path);
    }
  }

  void RestManifests(Session& session) {
    for (int round = 1; round <= 2 && !report_.violation; ++round) {
      Begin(session);
      const auto result = Job(session).RewriteManifests(shape_.ident, CancelFlag());
      if (!result) return Violate("at rest: " + result.error().ToString());
      if (round == 2 && result->snapshot_id) Violate("manifests do not come to rest");
    }
  }

  void RestRemovals(Session& session) {
    plan::ExpireOptions expire;
    expire.older_than = clock_.Now();
    expire.retain_last = 1;
    Begin(session);
    const auto expired = Job(session).ExpireSnapshots(shape_.ident, expire, false, CancelFlag());
    if (!expired) return Violate("at rest: " + expired.error().ToString());
    JudgeRemoval(session, expired);
    plan::OrphanOptions orphans;
    orphans.force = true;
    // What the expiry itself left behind is younger.
    clock_.Advance(std::chrono::hours(30));
    orphans.older_than = clock_.Now() - std::chrono::hours(25);
    Begin(session);
    const auto removed = Job(session).RemoveOrphanFiles(shape_.ident, orphans, false, CancelFlag());
    if (!removed) return Violate("at rest: " + removed.error().ToString());
    JudgeRemoval(session, removed);
  }

  Dice dice_;
  SimClock clock_;
  SeededRandom random_;
  std::shared_ptr<storage::MemoryStore> store_;
  std::unique_ptr<storage::Locations> locations_;
  MemoryCatalog catalog_;
  TableShape shape_;
  IcebergOracle oracle_;
  Scheduler scheduler_;
  const std::unique_ptr<observe::Progress> progress_ = observe::MakeSilentProgress();
  const bool tracing_;
  const bool moves_;             // Rewrites may move rows to another partition spec.
  const uint64_t fault_one_in_;  // 0: no faults in this world.
  std::vector<std::unique_ptr<Session>> sessions_;
  Session network_;             // On whose behalf late commits arrive.
  Session* current_ = nullptr;  // That runs now.
  std::unique_ptr<SimWorkers> workers_;
  MemoryCatalog::Fault next_fault_ = MemoryCatalog::Fault::kNone;
  std::vector<Late> late_;
  int tags_ = 0;
  int expiries_ = 0;
  IcebergReport report_;
};

class World::SessionCatalog final : public catalog::Catalog {
 public:
  SessionCatalog(World& world, Session& session) : world_(world), session_(session) {}

  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return world_.catalog_.ListNamespaces(parent);
  }
  Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override {
    LITHIFY_TRY(world_.EnterCatalog(session_, "ListTables"));
    return world_.catalog_.ListTables(namespace_parts);
  }
  Result<LoadedTable> LoadTable(const TableIdent& ident) override {
    LITHIFY_TRY(world_.EnterCatalog(session_, "LoadTable"));
    if (world_.dice_.OneIn(3) && world_.Strikes(session_.store_faults)) {
      world_.Trace(session_.actor, "  -> fault");
      return Fail(Code::kTransient, "injected");
    }
    return world_.catalog_.LoadTable(ident);
  }
  Result<LoadedTable> CommitTable(const TableIdent& /*ident*/,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override {
    return world_.Commit(session_, requirements, updates);
  }
  std::string Describe() const override { return "memory:"; }

 private:
  World& world_;
  Session& session_;
};

// Others run while a process sleeps.
class World::SessionClock final : public Clock {
 public:
  SessionClock(World& world, Session& session) : world_(world), session_(session) {}
  Time Now() const override { return world_.clock_.Now(); }
  Duration Monotonic() const override { return world_.clock_.Monotonic(); }
  void Sleep(Duration d) override {
    if (session_.crashed || world_.report_.violation) return;
    world_.clock_.Advance(d);
    world_.Switch(session_);
  }

 private:
  World& world_;
  Session& session_;
};

class World::SessionAudit final : public observe::AuditLog {
 public:
  SessionAudit(World& world, Session& session) : world_(world), session_(session) {}
  Status Append(const AuditEvent& event) override {
    LITHIFY_TRY(world_.Survive(session_));
    session_.events.push_back(event);
    world_.Trace(session_.actor, "audit: " + std::string(observe::PhaseName(event.phase)) + " " +
                                     event.procedure + " " + event.error);
    return {};
  }
  Result<std::vector<observe::AuditRecord>> ReadAll(bool* /*torn_tail*/) override {
    return Fail(Code::kUnsupported, "nobody reads it here");
  }

 private:
  World& world_;
  Session& session_;
};

Session& World::NewSession(int actor) {
  sessions_.push_back(std::make_unique<Session>());
  Session& session = *sessions_.back();
  session.actor = actor;
  session.store = std::make_shared<FaultyStore>(
      *store_, [this, &session](std::string_view op, const std::string& key, bool before) {
        return before ? BeforeStore(session, op, key) : AfterStore(session, op, key);
      });
  session.locations = storage::MakeStoreLocations(session.store, "s3", "b");
  session.catalog = std::make_unique<SessionCatalog>(*this, session);
  session.clock = std::make_unique<SessionClock>(*this, session);
  session.audit = std::make_unique<SessionAudit>(*this, session);
  return session;
}

}  // namespace

void IcebergReport::Add(const IcebergReport& other) {
  steps += other.steps;
  commits += other.commits;
  replaces += other.replaces;
  rewrites += other.rewrites;
  retries += other.retries;
  lost_races += other.lost_races;
  unknown_outcomes += other.unknown_outcomes;
  late_commits += other.late_commits;
  crashes += other.crashes;
  snapshots_expired += other.snapshots_expired;
  files_expired += other.files_expired;
  orphans += other.orphans;
  fleet.Add(other.fleet);
}

IcebergReport RunIcebergWorld(uint64_t seed, bool trace, Who who) {
  return World(seed, trace, who).Run();
}

std::optional<uint64_t> RunIcebergSeeds(uint64_t first, uint64_t count, IcebergReport& total,
                                        Who who) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    IcebergReport report = RunIcebergWorld(seed, false, who);
    total.Add(report);
    if (report.violation) {
      total.violation = std::move(report.violation);
      return seed;
    }
  }
  return std::nullopt;
}

}  // namespace lithify::sim
