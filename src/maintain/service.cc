#include "maintain/service.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "catalog/catalog.h"
#include "embed/audit.h"
#include "embed/iceberg_session.h"
#include "maintain/hive_tree.h"
#include "maintain/lease.h"
#include "maintain/sighted_tables.h"
#include "storage/local_store.h"

namespace lithify::maintain {
namespace {

std::string StateFilePath(const MaintenanceConfig& config) {
  if (!config.scheduler.state_file.empty()) return config.scheduler.state_file;
  const std::string name = config.catalog.empty() ? "" : config.catalog + ".";
  return embed::StatePath("maintenance." + name + "json");
}

const config::CatalogConfig* FindCatalog(const config::HiveConfig& shared,
                                         const std::string& name) {
  const auto found = std::ranges::find(shared.catalogs, name, &config::CatalogConfig::name);
  return found == shared.catalogs.end() ? nullptr : &*found;
}

int Cores(const config::HiveConfig& shared) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return shared.jobs > 0 ? shared.jobs : cores;
}

plan::MaintenanceBudget Budget(int64_t bytes, Duration seconds, int64_t commits) {
  return {.bytes = bytes,
          .seconds = std::chrono::duration<double>(seconds).count(),
          .commits = commits};
}

}  // namespace

bool KnowsWhatCallersTouch(const Configuration& config) {
  const MaintenanceConfig& own = config.maintenance;
  const config::CatalogConfig* catalog = FindCatalog(config.shared, own.catalog);
  return own.mode == Mode::kAdvisory && own.principal.empty() && catalog != nullptr &&
         embed::IsRestCatalog(catalog->uri);
}

std::string StatusPath(const config::HiveConfig&, const MaintenanceConfig& config) {
  std::filesystem::path path(StateFilePath(config));
  return path.replace_extension(".status.json").string();
}

Result<std::string> AskForReset(const Configuration& config, const std::string& table,
                                const std::string& by) {
  const MaintenanceConfig& own = config.maintenance;
  LITHIFY_TRY_ASSIGN(const SchedulerOptions options, MakeSchedulerOptions(config.shared, own));
  const std::filesystem::path path(StateFilePath(own));
  LITHIFY_TRY_ASSIGN(const auto store, storage::OpenLocalStore(path.parent_path().string()));
  StateFile file(*store, path.filename().string());
  LITHIFY_TRY_ASSIGN(const MaintenanceState state, file.Load());
  const SystemClock clock;
  const Time now = clock.Now();
  const std::string key = IsTreeRoot(table) ? TreeKey(table) : table;
  bool known = false;
  std::string ends;
  std::string open;
  for (const auto& [name, history] : state.tables) {
    const bool asked = name == key || name.starts_with(key + "\n");
    known = known || asked;
    const plan::DueVerdict verdict = plan::DecideDue(history, options.schedule, name, now);
    const bool breaker = verdict.due == plan::Due::kBreakerOpen;
    std::string shown = IsTreeKey(name) ? name.substr(TreeKey("").size()) : name;
    std::ranges::replace(shown, '\n', ' ');
    if (breaker) open += (open.empty() ? "" : ", ") + shown;
    if (asked && (breaker || history.attempts_in_row > 0 || history.failures_in_row > 0)) {
      ends += shown + ": " + (breaker ? verdict.reason : "failed: " + history.last_reason) + "\n";
    }
  }
  if (!known) {
    return Fail(Code::kNotFound, "nothing is known of such a table", table,
                open.empty() ? "no breaker is open" : "open are those of " + open);
  }
  LITHIFY_TRY(file.AskForReset({.table = table, .by = by, .at = now}));
  return ends.empty() ? table + ": nothing keeps it from its turn\n"
                      : ends + "ends at the next tick\n";
}

Result<SchedulerOptions> MakeSchedulerOptions(const config::HiveConfig& shared,
                                              const MaintenanceConfig& config) {
  SchedulerOptions options;
  options.mode = config.mode;
  options.catalog = config.catalog;
  if (!config.namespaces.empty()) {
    options.namespaces.emplace();
    for (const std::string& name : config.namespaces) {
      // A namespace is written as a table's would be, without the table.
      auto ident = catalog::ParseTableIdent(name + ".x");
      if (!ident) return Fail(std::move(ident.error()).In("maintenance.namespaces"));
      options.namespaces->push_back(std::move(ident->namespace_parts));
    }
  }
  const SchedulerConfig& scheduler = config.scheduler;
  auto cron = plan::ParseCron(scheduler.schedule);
  if (!cron) return Fail(std::move(cron.error()).In("maintenance.scheduler.schedule"));
  options.schedule.cron = *cron;
  options.schedule.jitter = scheduler.jitter;
  options.schedule.catch_up = std::max<Duration>(scheduler.catch_up, std::chrono::minutes(1));
  options.schedule.quiet = scheduler.quiet;
  options.schedule.on_event = scheduler.on_change;
  options.schedule.min_interval = scheduler.min_interval;
  options.schedule.backoff_min = std::max<Duration>(scheduler.backoff, std::chrono::seconds(1));
  options.schedule.backoff_max = std::max(scheduler.backoff_max, options.schedule.backoff_min);
  options.schedule.breaker_failures = scheduler.failures_max;
  options.schedule.breaker_cooldown = scheduler.breaker_cooldown;
  options.defaults.schedule = *cron;
  options.defaults.prefixes = config.property_prefixes;
  options.defaults.target_file_size_bytes = config.compaction.target_file_size_bytes;
  options.defaults.min_input_files = config.compaction.min_input_files;
  options.defaults.delete_file_threshold = config.compaction.delete_file_threshold;
  options.defaults.strategy = config.compaction.strategy;
  if (config.reads.partition_days > 0) {
    options.defaults.read_life = std::chrono::hours(24) * config.reads.partition_days;
  }
  options.life_days = config.reads.life_days;
  options.selective_share = config.reads.selective_percent / 100.0;
  const BudgetConfig& budget = config.budget;
  options.ranking.per_run = Budget(budget.bytes, budget.seconds, budget.commits);
  options.ranking.per_namespace =
      Budget(budget.namespace_bytes, budget.namespace_seconds, budget.namespace_commits);
  // With a budget all tables of a fire are ranked against each other: those whose turn comes early
  // would have it all, every time.
  const plan::MaintenanceBudget none;
  const auto bounded = [&](const plan::MaintenanceBudget& one) {
    return one.bytes != none.bytes || one.seconds != none.seconds || one.commits != none.commits;
  };
  if (bounded(options.ranking.per_run) || bounded(options.ranking.per_namespace)) {
    options.schedule.jitter = Duration::zero();
  }
  // The threshold must be above 0: next to nothing lets everything pass.
  options.ranking.threshold = std::max(1e-9, budget.gain_percent_min / 100.0);
  options.overrun = {.factor = static_cast<double>(budget.overrun_factor),
                     .at_least = budget.overrun_min};
  options.jobs_at_once = scheduler.max_concurrent_jobs;
  options.ranking.model.threads = std::max(1, Cores(shared) / options.jobs_at_once);
  if (!scheduler.state_table.empty() && !config.catalog.empty()) {
    auto ident = catalog::ParseTableIdent(scheduler.state_table);
    if (!ident) return Fail(std::move(ident.error()).In("maintenance.scheduler.state_table"));
    options.log = std::move(*ident);
  }
  options.log_rows_kept = std::chrono::hours(24) * scheduler.log_retention_days;
  options.lease = scheduler.lease;
  options.lease_ttl = scheduler.lease_ttl;
  options.holder = ProcessHolder();
  options.conflict_rollback = config.polaris.conflict_rollback;
  options.catalog_policies = config.polaris.policies;
  LITHIFY_TRY(plan::CheckSchedule(options.schedule));
  LITHIFY_TRY(plan::CheckMaintenanceOptions(options.ranking));
  return options;
}

Result<std::unique_ptr<Service>> Service::Make(
    const Configuration& config, embed::Environment environment, observe::Progress& progress,
    const std::function<void(const Error&)>& told, const job::TableSightings* sightings,
    group::Fleet* fleet, observe::Metrics* metrics, observe::Telemetry* telemetry) {
  const MaintenanceConfig& own = config.maintenance;
  if (own.mode == Mode::kOff) {
    return Fail(Code::kInvalid, "the mode is \"off\"", "maintenance.mode",
                "set it to \"advisory\" or \"active\"");
  }
  const config::CatalogConfig* catalog = FindCatalog(config.shared, own.catalog);
  if (catalog == nullptr && own.trees.empty()) {
    return Fail(Code::kInvalid, "there is nothing to maintain", "maintenance.catalog",
                "add a [catalogs.NAME] section, or list trees");
  }
  std::unique_ptr<Service> service(new Service());
  if (metrics != nullptr) service->metrics_ = metrics;
  service->telemetry_ = telemetry;
  LITHIFY_TRY_ASSIGN(service->options_, MakeSchedulerOptions(config.shared, own));
  const std::filesystem::path state(StateFilePath(own));
  std::error_code error;
  std::filesystem::create_directories(state.parent_path(), error);
  LITHIFY_TRY_ASSIGN(service->state_store_, storage::OpenLocalStore(state.parent_path().string()));
  service->status_path_ = StatusPath(config.shared, own);
  service->status_key_ = std::filesystem::path(service->status_path_).filename().string();
  service->interval_ = own.scheduler.tick;
  service->sightings_ = sightings;
  service->sighted_ = KnowsWhatCallersTouch(config);
  if (service->sighted_) catalog = nullptr;  // Not to be asked.
  if (catalog == nullptr && own.trees.empty()) return service;
  LITHIFY_TRY(service->MakeScheduler(config.shared, catalog, own, std::move(environment), progress,
                                     told, fleet));
  return service;
}

Status Service::MakeScheduler(const config::HiveConfig& shared,
                              const config::CatalogConfig* catalog, const MaintenanceConfig& own,
                              embed::Environment environment, observe::Progress& progress,
                              const std::function<void(const Error&)>& told, group::Fleet* fleet) {
  if (catalog != nullptr && !own.principal.empty() && embed::IsRestCatalog(catalog->uri)) {
    LITHIFY_TRY_ASSIGN(principal_, Principal::Make(own.principal, clock_, random_));
  }
  config::HiveConfig logged = shared;
  if (logged.audit_log.path.empty()) {
    logged.audit_log.path = embed::StatePath("maintenance.audit.jsonl");
  }
  LITHIFY_TRY_ASSIGN(audit_, embed::OpenAuditFile(logged.audit_log, logged.audit_log.path, told));
  if (!own.trees.empty()) {
    // With the configuration's own audit log: one tree, one log, whoever compacts it.
    trees_ = std::make_unique<TreeScheduler>(
        TreeOptions{.roots = own.trees,
                    .schedule = options_.schedule,
                    .ranking = options_.ranking,
                    .overrun = options_.overrun,
                    .read_life = options_.defaults.read_life},
        OpenHiveTrees(shared, environment, progress, cancel_, told, *metrics_, telemetry_), clock_);
  }
  if (catalog != nullptr) {
    sessions_ = MakeTableSessions(logged, *catalog, principal_.get(), std::move(environment),
                                  options_.ranking.model.threads, fleet, telemetry_);
  }
  const std::string file = std::filesystem::path(StateFilePath(own)).filename().string();
  state_ = std::make_unique<StateFile>(*state_store_, file);
  state_lock_ = std::make_unique<StateLock>(StateFilePath(own) + ".lock");
  if (!own.query_log.empty()) reads_ = std::make_unique<QueryLog>(own.query_log);
  scheduler_ = std::make_unique<Scheduler>(SchedulerServices{.sessions = sessions_.get(),
                                                             .clock = clock_,
                                                             .random = random_,
                                                             .audit = *audit_,
                                                             .metrics = *metrics_,
                                                             .state = *state_,
                                                             .progress = progress,
                                                             .reads = reads_.get(),
                                                             .trees = trees_.get()},
                                           options_);
  return {};
}

TickReport Service::Look(const TickOptions& tick) {
  if (!sighted_) return scheduler_->Tick(tick, cancel_);
  if (!scheduler_) return ReportSighted(sightings_, options_, clock_, *metrics_);
  TickReport trees = scheduler_->Tick(tick, cancel_);
  TickReport report = ReportSighted(sightings_, options_, clock_, *metrics_);
  std::ranges::move(trees.tables, std::back_inserter(report.tables));
  std::ranges::move(trees.plan, std::back_inserter(report.plan));
  std::ranges::move(trees.loud, std::back_inserter(report.loud));
  std::ranges::move(trees.warnings, std::back_inserter(report.warnings));
  return report;
}

TickReport Service::Tick(const TickOptions& tick) {
  if (!tick.plan_only && state_lock_) {
    if (Status held = state_lock_->Take(); !held) {
      TickReport report;
      report.mode = ModeName(options_.mode);
      report.catalog = options_.catalog;
      report.began = report.ended = clock_.Now();
      report.loud.push_back({.what = "not_alone",
                             .where = {},
                             .why = held.error().ToString(),
                             .next = held.error().hint});
      report.error = std::move(held.error());
      return report;
    }
  }
  TickReport report = Look(tick);
  // What another process knows by callers of its own is not overwritten by who knows nothing.
  if (!tick.plan_only && (scheduler_ || sightings_ != nullptr)) {
    if (Status kept = ReplaceObject(*state_store_, status_key_, ReportJson(report, metrics_));
        !kept) {
      report.warnings.push_back("status: " + kept.error().ToString());
    }
  }
  return report;
}

void Service::Run(const std::function<void(const TickReport&)>& done) {
  while (!cancel_.requested()) {
    const Duration begin = clock_.Monotonic();
    done(Tick({}));
    const Duration left = interval_ - (clock_.Monotonic() - begin);
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, std::max(left, Duration::zero()),
                      [this] { return cancel_.requested(); });
  }
}

void Service::Stop() {
  {
    const std::lock_guard lock(mutex_);
    cancel_.Request();
  }
  stopped_.notify_all();
}

}  // namespace lithify::maintain
