#include "telemetry/open_telemetry.h"

#include <utility>
#include <vector>

#include "config/section.h"
#include "observe/telemetry_options.h"

namespace lithify::apps {

OpenedTelemetry::OpenedTelemetry(std::string_view program,
                                 std::function<void(const std::string&)> tell) {
  std::vector<std::string> warnings;
  auto options = observe::ReadTelemetryOptions(config::ProcessEnvironment(), program, warnings);
  for (const std::string& warning : warnings) tell("telemetry: " + warning);
  auto started = observe::Telemetry::Start(
      std::move(options),
      {.metrics = metrics_,
       .clock = clock_,
       .random = random_,
       .version = LITHIFY_VERSION,
       .on_trouble = [tell](const std::string& what) { tell("telemetry: " + what); }});
  if (started) {
    telemetry_ = std::move(*started);
  } else {
    tell("telemetry: nothing is sent: " + started.error().ToString());
  }
}

}  // namespace lithify::apps
