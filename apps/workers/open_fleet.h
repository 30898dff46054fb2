// The fleet that a configuration names, for the programs that open tables. A piece of its own,
// since configurations and workers know nothing of each other.
#ifndef LITHIFY_APPS_WORKERS_OPEN_FLEET_H_
#define LITHIFY_APPS_WORKERS_OPEN_FLEET_H_

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/fleet.h"
#include "group/fleet.h"

namespace lithify::apps {

class OpenedFleet {
 public:
  virtual ~OpenedFleet() = default;
  virtual group::Fleet& fleet() = 0;
  // Jobs end as if they were cancelled, now and later. Any thread.
  virtual void Stop() = 0;
};

// Null: the configuration names no workers. Reads secrets and certificates; makes no request.
// kInvalid, kDenied: what is wrong with them. `told` gets a line for each failure of a worker, and
// for what discovery and keys had to say; any thread. Empty: nobody is told.
Result<std::unique_ptr<OpenedFleet>> OpenFleet(const config::FleetConfig& config,
                                               std::function<void(const std::string&)> told);

}  // namespace lithify::apps

#endif  // LITHIFY_APPS_WORKERS_OPEN_FLEET_H_
