// The autonomous half's loop (R153): look at the tables of the configured namespaces, pass the
// three gates, decide what is due and what is worth it, and run it; each table as a job of its own,
// with a credential of its own. It can call the maintenance procedures and nothing else (R005).
//
// A tick:
//   1. one load of every table; namespaces and tables that the catalog withholds are told loudly
//      (R025, T3), and stop nothing else;
//   2. gate 2, the owner's property (R023, R028): a table without it is not looked into (R026);
//   3. when: plan/schedule.h; what first and what not at all: plan/maintenance_plan.h;
//   4. gate 3, the grant: the catalog is asked whether it would take a change, before a row is
//   read;
//   5. lease, rewrite, what the owner wants to follow it, release, records;
//   6. the trees (maintain/tree_scheduler.h), by the same rules.
// In mode advisory it ends after 3 and writes nothing anywhere but here.
//
// Thread safety: one tick at a time.
#ifndef LITHIFY_MAINTAIN_SCHEDULER_H_
#define LITHIFY_MAINTAIN_SCHEDULER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "job/maintenance_candidates.h"
#include "maintain/catalog_policies.h"
#include "maintain/job_watch.h"
#include "maintain/lease.h"
#include "maintain/maintenance_config.h"
#include "maintain/report.h"
#include "maintain/state.h"
#include "maintain/table_sessions.h"
#include "observe/audit_log.h"
#include "observe/metrics.h"
#include "observe/progress.h"
#include "plan/maintenance_plan.h"
#include "plan/maintenance_policy.h"
#include "plan/schedule.h"

namespace lithify::maintain {

class TreeScheduler;

// Reads of tables, from a query log. Thread-safe.
class ReadCounts {
 public:
  virtual ~ReadCounts() = default;
  // What was logged up to now is counted then. Once a tick.
  virtual Status Refresh(Time now) = 0;
  virtual job::TableReads Of(const std::string& table) const = 0;  // "lake.sales.orders".
};

struct SchedulerOptions {
  Mode mode = Mode::kActive;
  std::string catalog;  // Its name, the first part of the tables'.
  // Unset: all of the catalog.
  std::optional<std::vector<std::vector<std::string>>> namespaces;
  plan::ScheduleOptions schedule;      // `cron` is the table's own, if it has one.
  plan::MaintenanceDefaults defaults;  // Of tables that say nothing.
  // Of [maintenance.reads]: not learned, so what the configuration says holds.
  double life_days = plan::MaintenancePriors().life_days;
  double selective_share = plan::MaintenancePriors().selective_share;
  plan::MaintenanceOptions ranking;  // The budgets are of all ticks from one fire to the next.
  OverrunLimits overrun;
  int jobs_at_once = 1;
  // The table of runs and leases; unset: there is none.
  std::optional<catalog::TableIdent> log;
  Duration log_rows_kept = Duration::zero();  // 0: for ever.
  LeaseKind lease = LeaseKind::kCatalog;
  Duration lease_ttl = std::chrono::seconds(300);
  std::string holder;  // Of leases.
  // [maintenance.polaris]
  bool conflict_rollback = false;
  bool catalog_policies = false;
};

struct SchedulerServices {
  TableSessions* sessions = nullptr;  // Null: there is no catalog.
  Clock& clock;
  Random& random;
  observe::AuditLog& audit;
  observe::Metrics& metrics;
  StateFile& state;
  observe::Progress& progress;
  ReadCounts* reads = nullptr;
  TreeScheduler* trees = nullptr;  // Null: there are none.
  // Around the lease that the options ask for; for simulations. Empty: nothing.
  std::function<std::unique_ptr<Lease>(std::unique_ptr<Lease>)> around_lease = {};
};

struct TickOptions {
  bool on_demand = false;  // Every table is due, quiet or not; back-off and breaker hold.
  bool plan_only = false;  // Nothing is run or recorded: `lithify maintain plan`.
};

using TableDebts = std::map<std::string, std::shared_ptr<const job::TableDebt>>;

class Scheduler {
 public:
  Scheduler(SchedulerServices services, SchedulerOptions options)
      : services_(std::move(services)), options_(std::move(options)) {}

  // What went wrong is in the report; whatever it is, the next tick tries again.
  TickReport Tick(const TickOptions& tick, const CancelFlag& cancel);

 private:
  SchedulerServices services_;
  const SchedulerOptions options_;
  TickReport WithoutState(Error error);
  void TakeResets(std::vector<std::string>& warnings);

  std::optional<MaintenanceState> state_;  // Loaded at the first tick.
  bool recovered_ = false;                 // Jobs that were cut off are taken in.
  TableDebts debts_;
  CatalogPolicies policies_;
  bool seen_log_ = false;     // Runs of the log are in `state_`.
  bool log_missing_ = false;  // As the last tick found it.
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_SCHEDULER_H_
