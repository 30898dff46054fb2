#include "hive_world.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/text.h"
#include "hive_oracle.h"
#include "job/hive_job.h"
#include "sim_runner.h"
#include "sim_scheduler.h"
#include "storage/faulty_store.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"
#include "table/hive_claim.h"
#include "table/hive_manifest.h"

namespace lithify::sim {
namespace {

using storage::FaultyStore;

constexpr Duration kGcGrace = std::chrono::hours(1);
constexpr int64_t kMaxBytes = 1 << 20;

// What is done otherwise where each request is a round trip is done so in some worlds: partitions
// are looked at, and loaded anew before a rewrite.
class PlacedStore final : public storage::ForwardingStore {
 public:
  PlacedStore(storage::Store& store, bool far) : ForwardingStore(store), far_(far) {}
  bool small_reads_are_cheap() const override { return !far_; }
  // Disks tell no versions.
  Status ListPages(const std::string& prefix, storage::ListDepth depth,
                   const storage::ListVisitor& visit) override {
    return store_.ListPages(prefix, depth, [&](std::vector<storage::ObjectInfo> page) -> Status {
      for (storage::ObjectInfo& info : page) {
        if (!far_) info.version.clear();
      }
      return visit(std::move(page));
    });
  }

 private:
  const bool far_;
};

std::vector<SeriesLayout> MakeSeries() {
  SeriesLayout data;
  data.name = "data";
  data.prefix = "data";
  data.columns = {
      {"tenant_id", ColumnRole::kTenant}, {"date", ColumnRole::kDate}, {"hour", ColumnRole::kHour}};
  SeriesLayout audit = data;
  audit.name = audit.prefix = "audit";
  audit.columns.pop_back();
  return {data, audit};
}

Result<std::string> EncodeEvents(std::span<const rewrite::CompactionEvent> events) {
  SimFile file;
  for (const rewrite::CompactionEvent& event : events) {
    file.rows.push_back(EventRow(event.tenant_id, event.partition, event.generation));
  }
  return EncodeSimFile(file);
}

Time Start() { return *ParseTime("2026-11-29T12:00"); }

class World {
 public:
  World(uint64_t seed, bool trace)
      : dice_(seed),
        clock_(Start()),
        random_(seed),
        store_(clock_),
        placed_(store_, seed % 2 == 0),
        oracle_(store_, clock_, kGcGrace),
        scheduler_(dice_, clock_),
        audit_(observe::OpenMemoryAuditLog()),
        tracing_(trace),
        series_(MakeSeries()),
        events_(dice_.OneIn(2)),
        fault_one_in_(dice_.OneIn(3) ? 0 : static_cast<uint64_t>(dice_.Between(5, 60))) {
    for (const auto& [tenant, hour] :
         {std::pair("a", "10"), std::pair("a", "12"), std::pair("b", "11")}) {
      const auto id = table::MakePartition(series_[0], {tenant, "2026-11-29", hour});
      prefixes_.push_back(id->key_prefix);
    }
  }

  WorldReport Run() {
    for (int i = 0; i < 2; ++i) settings_.push_back(MakeSettings());
    Populate();
    AddActors();
    scheduler_.Run();
    if (!report_.violation) Rest();
    report_.steps = scheduler_.steps();
    report_.generations = oracle_.generations();
    report_.swaps = oracle_.swaps();
    report_.fences = oracle_.fences();
    return std::move(report_);
  }

 private:
  // A process: it crashes once, at most.
  struct Process {
    int actor = -1;
    bool faults = false;
    int64_t crash_in = -1;  // Operations left; negative: never.
    bool crashed = false;
  };

  // The audit log as one process sees it.
  class ProcessAudit final : public observe::AuditLog {
   public:
    ProcessAudit(World& world, Process& process) : world_(world), process_(process) {}
    Status Append(const observe::AuditEvent& event) override {
      const std::string key = "audit log: " + std::string(observe::PhaseName(event.phase)) + " " +
                              std::to_string(event.generation);
      LITHIFY_TRY(world_.Before(process_, "Append", key));
      LITHIFY_TRY(world_.audit_->Append(event));
      return world_.After(process_, "", key);
    }
    Result<std::vector<observe::AuditRecord>> ReadAll(bool* torn) override {
      LITHIFY_TRY(world_.Before(process_, "ReadAll", "audit log"));
      return world_.audit_->ReadAll(torn);
    }

   private:
    World& world_;
    Process& process_;
  };

  job::HiveSettings MakeSettings() {
    job::HiveSettings settings;
    settings.series = series_;
    settings.looks_at_once = 1;  // A process is one thread here.
    settings.options.gc_grace = kGcGrace;
    if (dice_.OneIn(4)) settings.options.max_input_files = dice_.Between(2, 6);
    settings.claim_ttl = std::chrono::minutes(dice_.OneIn(3) ? 0 : dice_.Between(1, 60));
    settings.options.min_files = static_cast<int>(dice_.Between(1, 4));
    settings.options.small_file_bytes = dice_.Between(100, 400);
    settings.options.target_file_bytes = dice_.Between(150, 600);
    settings.options.file_bytes_min = settings.options.target_file_bytes / 2;
    settings.options.file_bytes_max = settings.options.target_file_bytes * 4;
    if (events_) settings.audit_series = "audit";
    return settings;
  }

  void Violate(std::string what) {
    Trace(-1, "VIOLATION " + what);
    if (!report_.violation) report_.violation = std::move(what);
  }

  void Trace(int actor, const std::string& text) {
    if (!tracing_) return;
    report_.trace.push_back(FormatTime(clock_.Now()).substr(0, 23) + " " +
                            (actor < 0 ? std::string("world") : scheduler_.NameOf(actor)) + " " +
                            text);
  }

  // Before an operation: others may run; then it may fail, or the process may die.
  Status Before(Process& process, std::string_view op, const std::string& key) {
    if (process.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    // The walk over the tree above the partitions is no interesting place to switch.
    const bool walking = op == "List" && key.find("date=") == std::string::npos;
    if (process.actor >= 0 && !walking) scheduler_.Yield(process.actor);
    LITHIFY_TRY(Survive(process));
    Trace(process.actor, std::string(op) + " " + key);
    const bool publishes = op == "PutNew" || op == "PutIf" || op == "Publish";
    if (!Strikes(process, key, publishes)) return {};
    if (publishes && dice_.OneIn(2)) {
      ++report_.unknown_outcomes;
      Trace(process.actor, "  -> unknown outcome, not applied");
      return Fail(Code::kUnknownOutcome, "injected: not applied", key);
    }
    Trace(process.actor, "  -> transient");
    return Fail(Code::kTransient, "injected", key);
  }

  // After it: the oracle looks at what it did.
  Status After(Process& process, std::string_view op, const std::string& key) {
    const bool publishes = op == "PutNew" || op == "PutIf" || op == "Publish";
    if (publishes || op == "Remove") {
      if (auto wrong = oracle_.Check(key)) Violate(*wrong);
    }
    LITHIFY_TRY(Survive(process));
    if (publishes && Strikes(process, key, true)) {
      ++report_.unknown_outcomes;
      Trace(process.actor, "  -> unknown outcome, applied if it could be");
      return Fail(Code::kUnknownOutcome, "injected: applied", key);
    }
    return {};
  }

  // True if an injected fault is due. Publications, the interesting ones, fail more often, and
  // claims most of all: nothing may depend on them.
  bool Strikes(const Process& process, const std::string& key, bool publishes) {
    if (!process.faults || fault_one_in_ == 0) return false;
    if (key.ends_with(kClaimName)) return dice_.OneIn(4);
    return dice_.OneIn(publishes ? 2 + fault_one_in_ / 6 : fault_one_in_);
  }

  Status Survive(Process& process) {
    if (process.crash_in > 0 && --process.crash_in == 0) {
      process.crashed = true;
      ++report_.crashes;
      Trace(process.actor, "CRASH");
    }
    if (process.crashed || report_.violation) return Fail(Code::kCancelled, "crashed");
    return {};
  }

  FaultyStore& Open(Process& process) {
    stores_.push_back(std::make_unique<FaultyStore>(
        placed_, [this, &process](std::string_view op, const std::string& key, bool before) {
          return before ? Before(process, op, key) : After(process, op, key);
        }));
    return *stores_.back();
  }

  Process& NewProcess(int actor) {
    processes_.push_back(std::make_unique<Process>());
    processes_.back()->actor = actor;
    return *processes_.back();
  }

  void Populate() {
    Process& setup = NewProcess(-1);
    FaultyStore& store = Open(setup);
    for (const std::string& prefix : prefixes_) {
      for (int64_t n = dice_.Between(0, 5); n > 0; --n) Write(store, prefix);
    }
  }

  void Write(FaultyStore& store, const std::string& prefix) {
    SimFile file;
    for (int64_t n = dice_.OneIn(20) ? 0 : dice_.Between(1, 12); n > 0; --n) {
      file.rows.push_back("r" + std::to_string(++rows_));
    }
    const std::string bytes = EncodeSimFile(file);
    const std::string key = prefix + MakeUuidV7(clock_, random_) + ".parquet";
    Status written = dice_.OneIn(2) ? store.PutNew(key, bytes) : Stream(store, key, bytes);
    if (written) oracle_.Acknowledge(prefix, file.rows);
  }

  static Status Stream(FaultyStore& store, const std::string& key, const std::string& bytes) {
    LITHIFY_TRY_ASSIGN(auto writer, store.Create(key));
    LITHIFY_TRY(writer->Append(std::as_bytes(std::span(bytes))));
    return writer->Publish();
  }

  void AddActors() {
    AddActor("compactor-1", [this](int actor) { Compact(actor, settings_[0]); });
    AddActor("compactor-2", [this](int actor) { Compact(actor, settings_[1]); });
    AddActor("writer", [this](int actor) {
      FaultyStore& store = Open(NewProcess(actor));
      for (int64_t n = dice_.Between(2, 8); n > 0; --n) {
        Write(store, prefixes_[dice_.Below(prefixes_.size())]);
        Idle(actor, dice_.Between(0, 30));
      }
    });
    AddActor("late-writer", [this](int actor) {
      FaultyStore& store = Open(NewProcess(actor));
      for (int64_t n = dice_.Between(0, 4); n > 0; --n) {
        Idle(actor, dice_.Between(10, 150));
        Write(store, prefixes_[0]);
      }
    });
    AddActor("meddler", [this](int actor) { Meddle(actor); });
    for (const char* name : {"reader-1", "reader-2"}) {
      AddActor(name, [this](int actor) {
        FaultyStore& store = Open(NewProcess(actor));
        for (int64_t n = dice_.Between(2, 10); n > 0 && !report_.violation; --n) {
          Read(actor, store, prefixes_[dice_.Below(prefixes_.size())]);
        }
      });
    }
  }

  // Claims come and go, live, expired or absurd, whoever is at work.
  void Meddle(int actor) {
    FaultyStore& store = Open(NewProcess(actor));
    for (int64_t n = dice_.Between(0, 6); n > 0; --n) {
      Idle(actor, dice_.Between(0, 100));
      const std::string key = prefixes_[dice_.Below(prefixes_.size())] + std::string(kClaimName);
      if (dice_.OneIn(2)) {
        [[maybe_unused]] const Status removed = store.Remove(key);
        continue;
      }
      const Time now = clock_.Now();
      const auto ttl = std::chrono::minutes(dice_.OneIn(8) ? 100'000 : dice_.Between(-60, 120));
      [[maybe_unused]] const Status put =
          store.PutNew(key, table::SerializeClaim({.holder = "meddler",
                                                   .job_id = "m" + std::to_string(n),
                                                   .claimed_at = now,
                                                   .expires_at = now + ttl}));
    }
  }

  void AddActor(const std::string& name, std::function<void(int)> body) {
    const auto id = std::make_shared<int>(-1);
    *id = scheduler_.Add(name, [id, body = std::move(body)] { body(*id); });
  }

  void Idle(int actor, int64_t steps) {
    for (; steps > 0 && !report_.violation; --steps) scheduler_.Yield(actor);
  }

  void Compact(int actor, const job::HiveSettings& settings) {
    for (int64_t sweeps = dice_.Between(2, 6); sweeps > 0 && !report_.violation;) {
      Process& process = NewProcess(actor);
      process.faults = true;
      if (!dice_.OneIn(3)) process.crash_in = dice_.Between(1, 250);
      FaultyStore& store = Open(process);
      SimRunner runner(store);
      ProcessAudit audit(*this, process);
      // What it takes for the end of another process may be none.
      const auto memory =
          std::make_shared<job::SweepMemory>("compactor-" + std::to_string(processes_.size()),
                                             [this](const std::string&) { return dice_.OneIn(4); });
      job::HiveJob job({store, runner, clock_, random_, audit, *progress_, EncodeEvents, memory},
                       settings);
      for (; sweeps > 0 && !process.crashed && !report_.violation; --sweeps) {
        const CancelFlag cancel;
        auto report = job.Sweep({}, false, cancel);
        if (process.crashed) break;  // Not counted as a sweep: the restarted process does it.
        Judge(report);
        Idle(actor, dice_.Between(0, 40));
      }
      if (process.crashed) --sweeps;
    }
  }

  // Under faults a sweep may fail, but never because it takes a healthy tree for a damaged one.
  void Judge(const Result<job::SweepReport>& report) {
    const auto judge = [&](const Error& error) {
      if (error.code == Code::kCorrupt || error.code == Code::kInternal ||
          error.code == Code::kInvalid || error.code == Code::kUnsupported) {
        Violate("false alarm: " + error.ToString());
      }
    };
    if (!report) return judge(report.error());
    for (const Error& error : report->errors) judge(error);
    for (const Error& error : report->gc.errors) judge(error);
    for (const job::PartitionOutcome& outcome : report->partitions) {
      if (outcome.error) judge(*outcome.error);
      if (outcome.outcome == job::Outcome::kLostRace) ++report_.lost_races;
      if (!outcome.adopted.empty()) ++report_.adoptions;
      if (outcome.plan.verdict == plan::Verdict::kClaimed) ++report_.claimed;
    }
  }

  // See the top of hive_world.h for what a reader may expect.
  void Read(int actor, FaultyStore& store, const std::string& prefix) {
    ++report_.reads;
    auto manifest = table::ReadManifest(store, prefix);
    Time since = clock_.Now();
    std::set<std::string> expected;
    std::vector<std::string> files;
    if (manifest && !*manifest) {
      expected = oracle_.acknowledged(prefix);
      const auto listing = store.List(prefix);
      if (!listing) return;
      for (const storage::ObjectInfo& object : *listing) {
        std::string name = object.key.substr(prefix.size());
        if (IsLiveFileName(name)) files.push_back(std::move(name));
      }
      manifest = table::ReadManifest(store, prefix);
      if (manifest && *manifest) since = clock_.Now();
    }
    if (!manifest) {
      if (manifest.error().code != Code::kCancelled) Violate(manifest.error().ToString());
      return;
    }
    if (*manifest) {
      files = (*manifest)->manifest.files;
      expected.clear();
    }
    if (dice_.OneIn(3)) Idle(actor, dice_.Between(0, 150));  // A slow query.
    ReadFiles(store, prefix, files, since, expected);
  }

  void ReadFiles(FaultyStore& store, const std::string& prefix,
                 const std::vector<std::string>& files, Time since,
                 const std::set<std::string>& expected) {
    std::set<std::string> rows;
    for (const std::string& name : files) {
      const auto blob = store.Get(prefix + name, kMaxBytes);
      if (report_.violation) return;
      if (!blob) {
        if (clock_.Now() - since >= kGcGrace) return;  // Too slow: it must start over.
        return Violate("a reader misses " + prefix + name + " within the grace");
      }
      const auto file = DecodeSimFile(blob->bytes);
      if (!file) return Violate(file.error().ToString());
      for (const std::string& row : file->rows) {
        if (!rows.insert(row).second) return Violate("a reader sees row " + row + " twice");
      }
    }
    for (const std::string& row : expected) {
      if (!rows.contains(row)) return Violate("a reader does not see row " + row);
    }
  }

  // No faults and no crashes any more: sweeps, an hour and a day apart, until nothing changes.
  void Rest() {
    constexpr int kRoundsMax = 80;
    constexpr int kQuietRounds = 7;
    Process& process = NewProcess(-1);
    FaultyStore& store = Open(process);
    SimRunner runner(store);
    int quiet = 0;
    for (int round = 0; quiet < kQuietRounds; ++round) {
      if (round == kRoundsMax) return Violate("sweeps do not come to rest");
      bool changed = false;
      for (const job::HiveSettings& settings : settings_) {
        job::HiveJob job({store, runner, clock_, random_, *audit_, *progress_, EncodeEvents},
                         settings);
        const CancelFlag cancel;
        const auto report = job.Sweep({}, false, cancel);
        Judge(report);
        if (report_.violation) return;
        if (!report) return Violate("at rest: " + report.error().ToString());
        changed |= Changed(*report);
        if (report_.violation) return;
      }
      quiet = changed ? 0 : quiet + 1;
      clock_.Advance(round % 5 == 4 ? std::chrono::hours(26) : std::chrono::minutes(70));
    }
    auto wrong = oracle_.CheckRest();
    if (!wrong) wrong = oracle_.CheckHistory(*audit_->ReadAll(), events_);
    if (wrong) Violate(*wrong);
  }

  bool Changed(const job::SweepReport& report) {
    bool changed = !report.gc.removed.empty() || report.reconciled > 0;
    for (const Error& error : report.errors) Violate("at rest: " + error.ToString());
    for (const Error& error : report.gc.errors) Violate("at rest: " + error.ToString());
    for (const job::PartitionOutcome& outcome : report.partitions) {
      if (outcome.error) Violate("at rest: " + outcome.error->ToString());
      changed |= outcome.outcome != job::Outcome::kSkipped;
    }
    return changed;
  }

  Dice dice_;
  SimClock clock_;
  SeededRandom random_;
  storage::MemoryStore store_;
  PlacedStore placed_;
  HiveOracle oracle_;
  Scheduler scheduler_;
  std::unique_ptr<observe::AuditLog> audit_;
  const std::unique_ptr<observe::Progress> progress_ = observe::MakeSilentProgress();
  const bool tracing_;
  const std::vector<SeriesLayout> series_;
  const bool events_;
  const uint64_t fault_one_in_;  // 0: no faults in this world.
  std::vector<std::string> prefixes_;
  std::vector<job::HiveSettings> settings_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<FaultyStore>> stores_;
  uint64_t rows_ = 0;
  WorldReport report_;
};

}  // namespace

WorldReport RunWorld(uint64_t seed, bool trace) { return World(seed, trace).Run(); }

std::optional<uint64_t> RunSeeds(uint64_t first, uint64_t count, WorldReport& total) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    WorldReport report = RunWorld(seed, false);
    total.steps += report.steps;
    total.generations += report.generations;
    total.swaps += report.swaps;
    total.adoptions += report.adoptions;
    total.fences += report.fences;
    total.crashes += report.crashes;
    total.unknown_outcomes += report.unknown_outcomes;
    total.lost_races += report.lost_races;
    total.claimed += report.claimed;
    total.reads += report.reads;
    if (report.violation) {
      total.violation = std::move(report.violation);
      return seed;
    }
  }
  return std::nullopt;
}

}  // namespace lithify::sim
