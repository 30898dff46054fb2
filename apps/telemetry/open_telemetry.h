// Telemetry as the environment of this process asks for it (docs/TELEMETRY.md).
#ifndef LITHIFY_APPS_TELEMETRY_OPEN_TELEMETRY_H_
#define LITHIFY_APPS_TELEMETRY_OPEN_TELEMETRY_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "observe/metrics.h"
#include "observe/telemetry.h"

namespace lithify::apps {

// What a process counts, and whoever sends it. Outlives all that it is given to.
class OpenedTelemetry {
 public:
  // `program` is the name of the service where the environment has no other. `tell` gets what is
  // wrong with the environment, and that something does not get through; any thread. Nothing of
  // that stops anything.
  OpenedTelemetry(std::string_view program, std::function<void(const std::string&)> tell);

  observe::Metrics& metrics() { return metrics_; }
  observe::Telemetry* telemetry() { return telemetry_.get(); }  // Null: nothing is sent.

 private:
  SystemClock clock_;
  SystemRandom random_;
  observe::Metrics metrics_;
  std::unique_ptr<observe::Telemetry> telemetry_;
};

}  // namespace lithify::apps

#endif  // LITHIFY_APPS_TELEMETRY_OPEN_TELEMETRY_H_
