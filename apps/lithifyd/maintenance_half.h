// The autonomous half of lithifyd, on a thread of its own. In mode off there is none of it (R011).
#ifndef LITHIFY_APPS_LITHIFYD_MAINTENANCE_HALF_H_
#define LITHIFY_APPS_LITHIFYD_MAINTENANCE_HALF_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "job/table_sightings.h"
#include "maintain/service.h"
#include "observe/progress.h"
#include "telemetry/open_telemetry.h"
#include "workers/open_fleet.h"

namespace lithify {

class MaintenanceHalf {
 public:
  // As maintain::Service::Make. `tell` gets lines for the log, from any thread.
  static Result<std::unique_ptr<MaintenanceHalf>> Make(const maintain::Configuration& config,
                                                       std::function<void(const std::string&)> tell,
                                                       const job::TableSightings* sightings);
  // Stops.
  ~MaintenanceHalf();
  MaintenanceHalf(const MaintenanceHalf&) = delete;
  MaintenanceHalf& operator=(const MaintenanceHalf&) = delete;

  // Ticks until Stop(). `died` is called if it ends by itself, which is a bug: once.
  void Start(std::function<void()> died);
  void Stop();  // Asks it to; does not wait.
  bool died() const { return died_; }

 private:
  explicit MaintenanceHalf(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  const std::function<void(const std::string&)> tell_;
  const std::unique_ptr<observe::Progress> progress_ = observe::MakeSilentProgress();
  std::unique_ptr<apps::OpenedTelemetry> observed_;
  std::unique_ptr<apps::OpenedFleet> workers_;  // Null: none are configured.
  std::unique_ptr<maintain::Service> service_;
  std::atomic<bool> died_{false};
  std::thread thread_;
};

}  // namespace lithify

#endif  // LITHIFY_APPS_LITHIFYD_MAINTENANCE_HALF_H_
