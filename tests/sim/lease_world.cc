#include "lease_world.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "base/text.h"
#include "catalog/memory_catalog.h"
#include "iceberg_engine.h"
#include "iceberg_oracle.h"
#include "job/iceberg_job.h"
#include "job/maintenance_log.h"
#include "maintain/lease.h"
#include "rewrite/parquet_runner.h"
#include "sim_scheduler.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::sim {
namespace {

using catalog::LoadedTable;
using catalog::MemoryCatalog;
using catalog::TableIdent;
using maintain::ClaimResult;
using Fault = MemoryCatalog::Fault;

constexpr Duration kTtl = std::chrono::seconds(300);
constexpr Duration kSkewMax = std::chrono::hours(1);
constexpr const char* kKey = "lake.ns.t";

int64_t ToMs(Time t) {
  return std::chrono::floor<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

// Every claim is acquired, whoever else has it; and every call fails.
class LyingLease final : public maintain::Lease {
 public:
  explicit LyingLease(bool fails) : fails_(fails) {}
  Result<ClaimResult> Claim(const std::string& key, Duration, const CancelFlag&) override {
    return Answer(key);
  }
  Result<ClaimResult> Renew(const maintain::OwnClaim& claim, Duration, const CancelFlag&) override {
    return Answer(claim.key);
  }
  Status Release(const maintain::OwnClaim&, const CancelFlag&) override { return {}; }
  std::string_view name() const override { return "lying"; }

 private:
  Result<ClaimResult> Answer(const std::string& key) const {
    if (fails_) return Fail(Code::kTransient, "told to fail");
    ClaimResult result;
    result.claim = {key, "yours", Time::max()};
    return result;
  }
  const bool fails_;
};

class World;

// A process, and the world as it sees it.
struct Process {
  int actor = -1;
  Duration skew{};
  bool faults = false;
  int64_t crash_in = -1;  // Operations of the catalog left; negative: never.
  bool crashed = false;
  // By its own knowledge it has the key until then, by its own clock.
  std::optional<Time> believes_until;
  std::shared_ptr<storage::FaultyStore> store;  // Does nothing for a process that is gone.
  std::unique_ptr<storage::Locations> locations;
  std::unique_ptr<catalog::Catalog> catalog;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<observe::AuditLog> audit;
  std::unique_ptr<job::MaintenanceLog> log;
  std::unique_ptr<maintain::Lease> lease;
};

class World {
 public:
  World(LeaseKind kind, uint64_t seed, bool trace)
      : kind_(kind),
        dice_(seed),
        clock_(*ParseTime("2026-11-29T22:30")),
        random_(seed),
        store_(std::make_shared<storage::MemoryStore>(clock_)),
        locations_(storage::MakeStoreLocations(store_, "s3", "b")),
        catalog_(*locations_, clock_, random_, "s3://b/log"),
        oracle_(*store_),
        scheduler_(dice_, clock_),
        tracing_(trace),
        skewed_(dice_.OneIn(2)),
        fault_one_in_(dice_.OneIn(3) ? 0 : static_cast<uint64_t>(dice_.Between(4, 20))) {
    shape_.ident = TableIdent{{"ns"}, "t"};
    shape_.format_version = dice_.OneIn(2) ? 2 : 3;
    shape_.partitions = dice_.Between(1, 2);
    shape_.specs = {static_cast<int>(dice_.Below(2))};
  }

  LeaseReport Run() {
    SetHooks();
    Populate();
    if (!report_.violation) {
      const auto coordinators = dice_.Between(2, 4);
      for (int64_t i = 1; i <= coordinators; ++i) {
        AddActor("coordinator-" + std::to_string(i), dice_.Between(2, 5), &World::Tick);
      }
      AddActor("engine", dice_.Between(2, 6), &World::Write);
      scheduler_.Run();
    }
    while (!late_.empty() && !report_.violation) Deliver();
    if (!report_.violation) Judge(oracle_.CheckAll());
    report_.steps = scheduler_.steps();
    return std::move(report_);
  }

 private:
  class ProcessCatalog;
  class ProcessClock;
  class ProcessAudit;

  struct Late {
    TableIdent ident;
    std::vector<table::TableRequirement> requirements;
    std::vector<table::TableUpdate> updates;
  };

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
  void Switch(Process& process) {
    if (process.actor >= 0 && !report_.violation) scheduler_.Yield(process.actor);
    current_ = &process;
  }
  Status Survive(Process& process) {
    if (process.crash_in > 0 && --process.crash_in == 0) {
      process.crashed = true;
      process.believes_until.reset();
      ++report_.crashes;
      Trace(process.actor, "CRASH");
    }
    if (process.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    return {};
  }
  Status Enter(Process& process, const std::string& what, const TableIdent& ident) {
    if (process.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    Switch(process);
    if (!late_.empty() && dice_.OneIn(15)) Deliver();
    if (skewed_ && process.actor >= 0 && dice_.OneIn(40)) SetSkew(process);
    Trace(process.actor, what + " " + ident.ToString());
    return Survive(process);
  }
  // So that any two clocks differ by less than the lease allows for.
  void SetSkew(Process& process) {
    if (!skewed_) return;
    process.skew = std::chrono::seconds(dice_.Between(-1700, 1700));
  }

  // --- the catalog -------------------------------------------------------------------------------

  void SetHooks() {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this](const TableIdent&) { return std::exchange(next_fault_, Fault::kNone); };
    hooks.before_apply = hooks.before_swap = [this](const TableIdent&) { Switch(*current_); };
    hooks.before_answer = [this](const TableIdent& ident) {
      ident == shape_.ident ? Observe() : JudgeLog();
      Switch(*current_);
    };
    catalog_.set_hooks(std::move(hooks));
  }

  void Observe() {
    const auto table = catalog_.LoadTable(shape_.ident);
    if (!table) return Violate(table.error().ToString());
    const auto replaces = oracle_.replaces();
    Judge(oracle_.Observe(table->metadata, table->metadata_location));
    if (report_.violation || oracle_.replaces() == replaces) return;
    ++report_.commits;
    const iceberg::Snapshot* head = table->metadata.RefSnapshot("main");
    if (head == nullptr || !head->parent_snapshot_id) return;
    std::set<std::string> after;
    for (const auto& entry : oracle_.view(head->snapshot_id).data) {
      after.insert(entry.file.file_path);
    }
    for (const auto& entry : oracle_.view(*head->parent_snapshot_id).data) {
      const std::string& path = entry.file.file_path;
      if (after.contains(path)) continue;
      if (!rewritten_.insert(path).second) Violate(path + " was rewritten by two commits");
    }
  }

  // At most one live claim, by the world's clock.
  void JudgeLog() {
    if (kind_ != LeaseKind::kCatalog) return;
    job::MaintenanceLog log({catalog_, *locations_, clock_, random_, [](Duration) {}, 1},
                            job::DefaultLogIdent());
    const auto view = log.Read({}, CancelFlag());
    if (!view) return Violate("the log: " + view.error().ToString());
    JudgeClaims(maintain::ClaimsOf(view->rows, kKey));
  }
  void JudgeClaims(const std::vector<maintain::ClaimState>& claims) {
    std::string live;
    for (const maintain::ClaimState& claim : claims) {
      if (claim.ended || claim.until_ms <= ToMs(clock_.Now())) continue;
      if (!live.empty()) {
        return Violate("two live claims: of " + live + " and of " + claim.holder);
      }
      live = claim.holder;
    }
  }
  void JudgeBeliefs() {
    if (kind_ != LeaseKind::kCatalog || skewed_) return;
    std::string holder;
    for (const auto& process : processes_) {
      if (!process->believes_until || *process->believes_until <= clock_.Now()) continue;
      const std::string& name = scheduler_.NameOf(process->actor);
      if (!holder.empty()) return Violate(holder + " and " + name + " both hold the key");
      holder = name;
    }
  }

  Result<LoadedTable> Commit(Process& process, const TableIdent& ident,
                             std::span<const table::TableRequirement> requirements,
                             std::span<const table::TableUpdate> updates) {
    LITHIFY_TRY(Enter(process, "CommitTable", ident));
    Fault fault = Fault::kNone;
    if (process.faults && fault_one_in_ > 0 && dice_.OneIn(fault_one_in_)) {
      switch (dice_.Below(7)) {
        case 0:
        case 1: fault = Fault::kConflict; break;
        case 2: fault = Fault::kLostBeforeApply; break;
        case 3:
        case 4: fault = Fault::kLostAfterApply; break;
        case 5:
          late_.push_back(Late{
              ident, {requirements.begin(), requirements.end()}, {updates.begin(), updates.end()}});
          ++report_.unknown_outcomes;
          Trace(process.actor, "  -> reply lost, will be applied later");
          return Fail(Code::kUnknownOutcome, "injected: applied later");
        default: fault = Fault::kDenied;
      }
      Trace(process.actor, "  -> fault " + std::to_string(static_cast<int>(fault)));
    }
    const bool lost = fault == Fault::kLostBeforeApply || fault == Fault::kLostAfterApply;
    report_.unknown_outcomes += lost ? 1 : 0;
    next_fault_ = fault;
    auto done = catalog_.CommitTable(ident, requirements, updates);
    if (!done) Trace(process.actor, "  -> " + done.error().ToString());
    LITHIFY_TRY(Survive(process));
    return done;
  }

  void Deliver() {
    const auto at = late_.begin() + static_cast<ptrdiff_t>(dice_.Below(late_.size()));
    const Late late = std::move(*at);
    late_.erase(at);
    Process* const running = std::exchange(current_, &network_);
    const auto done = catalog_.CommitTable(late.ident, late.requirements, late.updates);
    current_ = running;
    if (done) ++report_.late_commits;
    Trace(-1, std::string("a late commit was ") + (done ? "applied" : "refused"));
  }

  // --- processes ---------------------------------------------------------------------------------

  Process& NewProcess(int actor);

  void Populate() {
    const Status created = catalog_.CreateTable(shape_.ident, FirstMetadata(shape_));
    if (!created) return Violate(created.error().ToString());
    if (const auto made = job::InitMaintenanceLog(catalog_, job::DefaultLogIdent(), ""); !made) {
      return Violate(made.error().ToString());
    }
    Process& setup = NewProcess(-1);
    current_ = &setup;
    Observe();
    ForeignEngine engine = Engine(setup);
    for (int64_t n = dice_.Between(3, 6); n > 0; --n) engine.Append("main");
  }

  ForeignEngine Engine(Process& process) {
    return ForeignEngine(
        {*process.catalog, *process.locations, *process.clock, random_, dice_, oracle_, shape_});
  }

  // An actor that does so many operations; a crashed process is followed by a new one.
  void AddActor(const std::string& name, int64_t count, void (World::*work)(Process&)) {
    const auto id = std::make_shared<int>(-1);
    *id = scheduler_.Add(name, [this, id, count, work] {
      Process* process = &StartProcess(*id);
      for (int64_t n = count; n > 0 && !report_.violation; --n) {
        if (process->crashed) process = &StartProcess(*id);
        (this->*work)(*process);
        for (int64_t idle = dice_.Between(0, 60); idle > 0 && !report_.violation; --idle) {
          Switch(*process);
        }
      }
    });
  }
  Process& StartProcess(int actor) {
    Process& process = NewProcess(actor);
    current_ = &process;
    process.faults = true;
    if (scheduler_.NameOf(actor) == "engine") return process;
    if (dice_.OneIn(3)) process.crash_in = dice_.Between(1, 60);
    SetSkew(process);
    return process;
  }

  void Write(Process& process) {
    ForeignEngine engine = Engine(process);
    Trace(process.actor, "# " + (dice_.OneIn(2) ? engine.Append("main") : engine.Run("main")));
  }

  // As a coordinator does: claim, work, renew, release. Errors of a lease stop nothing (R292).
  void Tick(Process& process) {
    const CancelFlag cancel;
    auto claim = process.lease->Claim(kKey, kTtl, cancel);
    if (process.crashed || report_.violation) return;
    Believe(process, claim);
    if (claim && claim->kind == ClaimResult::Kind::kHeld) return;
    const bool leased = claim.has_value();
    maintain::OwnClaim own = leased ? claim->claim : maintain::OwnClaim{};
    if (!Compact(process)) return;
    if (leased && dice_.OneIn(2)) {
      const auto renewed = process.lease->Renew(own, kTtl, cancel);
      if (process.crashed || report_.violation) return;
      Believe(process, renewed);
      if (renewed && renewed->kind == ClaimResult::Kind::kAcquired) own = renewed->claim;
      if (!Compact(process)) return;
    }
    process.believes_until.reset();
    if (!leased || dice_.OneIn(10)) return;  // Now and then somebody forgets.
    const Status released = process.lease->Release(own, cancel);
    Trace(process.actor, released ? "# released" : "# " + released.error().ToString());
  }

  void Believe(Process& process, const Result<ClaimResult>& answer) {
    if (!answer) {
      ++report_.errors;
      Trace(process.actor, "# unleased: " + answer.error().ToString());
      return;
    }
    Trace(process.actor, "# " + std::string(maintain::ClaimKindName(answer->kind)) +
                             (answer->holder.empty() ? "" : " by " + answer->holder) +
                             (answer->stolen_from.empty() ? "" : ", stolen"));
    switch (answer->kind) {
      case ClaimResult::Kind::kAcquired:
        ++(answer->reacquired ? report_.reacquired : report_.acquired);
        report_.stolen += answer->stolen_from.empty() ? 0 : 1;
        process.believes_until = answer->claim.until;
        break;
      case ClaimResult::Kind::kHeld: ++report_.held; break;
      case ClaimResult::Kind::kLost:
        ++report_.lost;
        process.believes_until.reset();
        break;
    }
    JudgeBeliefs();
  }

  // False: the process is gone, or the world is.
  bool Compact(Process& process) {
    ++report_.jobs;
    report_.overlapping += at_work_ > 0 ? 1 : 0;
    ++at_work_;
    job::IcebergSettings settings;
    settings.verify = rewrite::Verify::kCounts;
    settings.memory_bytes = int64_t{64} << 20;
    const auto make_runner = [](storage::Store& store) {
      return rewrite::MakeParquetRunner(store, int64_t{64} << 20);
    };
    job::IcebergJob job({*process.catalog, *process.locations, make_runner, *process.clock, random_,
                         *process.audit, *progress_},
                        settings);
    job::RewriteRequest request;
    request.ident = shape_.ident;
    request.options.target_file_size_bytes = 1 << 20;
    request.options.min_input_files = 2;
    request.max_attempts = 2;
    const auto result = job.RewriteDataFiles(request, CancelFlag());
    --at_work_;
    Trace(process.actor, "# rewrite: " + (result ? std::string(RewriteStatusName(result->status))
                                                 : result.error().ToString()));
    if (process.crashed || report_.violation) return false;
    if (result) {
      report_.wasted += static_cast<uint64_t>(result->attempts - 1);
      return true;
    }
    report_.wasted += 1;
    const Code code = result.error().code;
    if (code != Code::kConflict && code != Code::kUnknownOutcome && code != Code::kDenied &&
        code != Code::kTransient) {
      Violate("false alarm: " + result.error().ToString());
    }
    return true;
  }

  const LeaseKind kind_;
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
  const bool skewed_;            // Clocks differ.
  const uint64_t fault_one_in_;  // 0: no faults in this world.
  std::vector<std::unique_ptr<Process>> processes_;
  Process network_;               // On whose behalf late commits arrive.
  Process* current_ = &network_;  // That runs now.
  Fault next_fault_ = Fault::kNone;
  std::vector<Late> late_;
  std::set<std::string> rewritten_;  // Data files that a commit of ours replaced.
  int at_work_ = 0;
  LeaseReport report_;
};

class World::ProcessCatalog final : public catalog::Catalog {
 public:
  ProcessCatalog(World& world, Process& process) : world_(world), process_(process) {}
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return world_.catalog_.ListNamespaces(parent);
  }
  Result<std::vector<TableIdent>> ListTables(const std::vector<std::string>& parts) override {
    return world_.catalog_.ListTables(parts);
  }
  Result<LoadedTable> LoadTable(const TableIdent& ident) override {
    LITHIFY_TRY(world_.Enter(process_, "LoadTable", ident));
    return world_.catalog_.LoadTable(ident);
  }
  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override {
    return world_.Commit(process_, ident, requirements, updates);
  }
  std::string Describe() const override { return "memory:"; }

 private:
  World& world_;
  Process& process_;
};

// Others run while a process sleeps.
class World::ProcessClock final : public Clock {
 public:
  ProcessClock(World& world, Process& process) : world_(world), process_(process) {}
  Time Now() const override { return world_.clock_.Now() + process_.skew; }
  Duration Monotonic() const override { return world_.clock_.Monotonic(); }
  void Sleep(Duration d) override {
    if (process_.crashed || world_.report_.violation) return;
    world_.clock_.Advance(d);
    world_.Switch(process_);
  }

 private:
  World& world_;
  Process& process_;
};

class World::ProcessAudit final : public observe::AuditLog {
 public:
  Status Append(const observe::AuditEvent& /*event*/) override { return {}; }
  Result<std::vector<observe::AuditRecord>> ReadAll(bool* /*torn_tail*/) override {
    return Fail(Code::kUnsupported, "nobody reads it here");
  }
};

Process& World::NewProcess(int actor) {
  processes_.push_back(std::make_unique<Process>());
  Process& process = *processes_.back();
  process.actor = actor;
  process.store = std::make_shared<storage::FaultyStore>(
      *store_, [&process](std::string_view, const std::string&, bool) -> Status {
        if (process.crashed) return Fail(Code::kCancelled, "crashed");
        return {};
      });
  process.locations = storage::MakeStoreLocations(process.store, "s3", "b");
  process.catalog = std::make_unique<ProcessCatalog>(*this, process);
  process.clock = std::make_unique<ProcessClock>(*this, process);
  process.audit = std::make_unique<ProcessAudit>();
  process.log = std::make_unique<job::MaintenanceLog>(
      job::MaintenanceLogServices{*process.catalog, *process.locations, *process.clock, random_,
                                  [&process](Duration d) { process.clock->Sleep(d); }, 1},
      job::DefaultLogIdent());
  const std::string holder = "host-" + std::to_string(processes_.size());
  switch (kind_) {
    case LeaseKind::kCatalog:
      process.lease = maintain::MakeCatalogLease(
          *process.log, {.holder = holder, .skew_max = kSkewMax}, *process.clock, random_);
      break;
    case LeaseKind::kNone: process.lease = maintain::MakeNoLease(*process.clock, random_); break;
    case LeaseKind::kFailing: process.lease = std::make_unique<LyingLease>(true); break;
    case LeaseKind::kLying: process.lease = std::make_unique<LyingLease>(false); break;
  }
  return process;
}

}  // namespace

void LeaseReport::Add(const LeaseReport& other) {
  steps += other.steps;
  acquired += other.acquired;
  reacquired += other.reacquired;
  stolen += other.stolen;
  held += other.held;
  lost += other.lost;
  errors += other.errors;
  jobs += other.jobs;
  overlapping += other.overlapping;
  commits += other.commits;
  wasted += other.wasted;
  unknown_outcomes += other.unknown_outcomes;
  late_commits += other.late_commits;
  crashes += other.crashes;
}

LeaseReport RunLeaseWorld(LeaseKind kind, uint64_t seed, bool trace) {
  return World(kind, seed, trace).Run();
}

std::optional<uint64_t> RunLeaseSeeds(LeaseKind kind, uint64_t first, uint64_t count,
                                      LeaseReport& total) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    LeaseReport report = RunLeaseWorld(kind, seed, false);
    total.Add(report);
    if (report.violation) {
      total.violation = std::move(report.violation);
      return seed;
    }
  }
  return std::nullopt;
}

}  // namespace lithify::sim
