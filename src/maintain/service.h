// The autonomous half as one object, put together from its configuration: principal, sessions,
// state, scheduler. In mode off there is none (R011).
#ifndef LITHIFY_MAINTAIN_SERVICE_H_
#define LITHIFY_MAINTAIN_SERVICE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "config/config.h"
#include "embed/environment.h"
#include "job/table_sightings.h"
#include "maintain/maintenance_config.h"
#include "maintain/principal.h"
#include "maintain/query_log.h"
#include "maintain/report.h"
#include "maintain/scheduler.h"
#include "maintain/state.h"
#include "maintain/table_sessions.h"
#include "maintain/tree_scheduler.h"
#include "observe/audit_log.h"
#include "observe/metrics.h"
#include "observe/progress.h"
#include "observe/telemetry.h"
#include "storage/store.h"

namespace lithify::maintain {

// Where the status of the last tick is, below the directory of the state file: one JSON object, as
// ReportJson() has it.
std::string StatusPath(const config::HiveConfig& shared, const MaintenanceConfig& config);

// `lithify maintain reset`: asks for the breaker and the back-off of a table, or of a tree and its
// partitions, to end at the next tick. Returns what that ends, as a sentence. kNotFound: nothing is
// known of such a table; the message names those whose breaker is open.
Result<std::string> AskForReset(const Configuration& config, const std::string& table,
                                const std::string& by);

// Whether this is advice without any credential (R020, T2): mode advisory, of a REST catalog, and
// no principal. No request is made then, and only tables that callers touched are known.
bool KnowsWhatCallersTouch(const Configuration& config);

// Ticks one at a time; Stop() by any thread.
class Service {
 public:
  // kInvalid: the mode is off, or there is neither catalog nor tree. Makes no request (R009), but
  // creates the directory of the state file. `told`: of audit records that cannot be written.
  //
  // In mode advisory without a principal, of a REST catalog, no tick makes a request either (R020):
  // it reports the tables of `sightings`, which outlives it; null: there is nothing to report (T2).
  // `fleet`: workers that jobs may go to, which outlive it; null: there are none. `metrics`: where
  // it counts; null: in its own. `telemetry`: where spans go; null: nowhere.
  static Result<std::unique_ptr<Service>> Make(
      const Configuration& config, embed::Environment environment, observe::Progress& progress,
      const std::function<void(const Error&)>& told, const job::TableSightings* sightings = nullptr,
      group::Fleet* fleet = nullptr, observe::Metrics* metrics = nullptr,
      observe::Telemetry* telemetry = nullptr);

  TickReport Tick(const TickOptions& tick);
  // Ticks every scheduler.tick until Stop(); `done` gets each report. What runs longer than the
  // interval delays the next one; it never starts two.
  void Run(const std::function<void(const TickReport&)>& done);
  // A running job ends its group, or gives it up, and commits nothing that it has not sent (R160).
  void Stop();

  const observe::Metrics& metrics() const { return *metrics_; }
  std::string status_path() const { return status_path_; }

 private:
  Service() = default;

  // `catalog` null: of trees alone.
  Status MakeScheduler(const config::HiveConfig& shared, const config::CatalogConfig* catalog,
                       const MaintenanceConfig& own, embed::Environment environment,
                       observe::Progress& progress, const std::function<void(const Error&)>& told,
                       group::Fleet* fleet);

  TickReport Look(const TickOptions& tick);

  SystemClock clock_;
  SystemRandom random_;
  observe::Metrics own_metrics_;
  observe::Metrics* metrics_ = &own_metrics_;
  observe::Telemetry* telemetry_ = nullptr;
  std::unique_ptr<Principal> principal_;     // Null: the catalog knows no identities.
  std::unique_ptr<TableSessions> sessions_;  // Null: there is no catalog.
  std::unique_ptr<observe::AuditLog> audit_;
  std::unique_ptr<storage::Store> state_store_;
  std::unique_ptr<StateFile> state_;
  std::unique_ptr<StateLock> state_lock_;
  std::unique_ptr<QueryLog> reads_;       // Null: none is configured.
  std::unique_ptr<TreeScheduler> trees_;  // Null: there are none.
  std::unique_ptr<Scheduler> scheduler_;  // Null: `sighted_`, and there are no trees.
  bool sighted_ = false;                  // Of tables it knows what callers touched, and no more.
  const job::TableSightings* sightings_ = nullptr;
  SchedulerOptions options_;
  std::string status_path_;
  std::string status_key_;
  Duration interval_ = std::chrono::seconds(60);
  CancelFlag cancel_;
  std::mutex mutex_;
  std::condition_variable stopped_;
};

// The options of a scheduler, from the configuration. kInvalid for a schedule or a name that is
// none.
Result<SchedulerOptions> MakeSchedulerOptions(const config::HiveConfig& shared,
                                              const MaintenanceConfig& config);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_SERVICE_H_
