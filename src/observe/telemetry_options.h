// What OpenTelemetry's standard variables of the environment say of how telemetry is sent.
#ifndef LITHIFY_OBSERVE_TELEMETRY_OPTIONS_H_
#define LITHIFY_OBSERVE_TELEMETRY_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "observe/otlp.h"

namespace lithify::observe {

enum class Signal { kMetrics, kTraces, kLogs };
inline constexpr std::array kSignals = {Signal::kMetrics, Signal::kTraces, Signal::kLogs};
std::string_view SignalName(Signal signal);  // "metrics".

struct SignalOptions {
  std::string url;  // Empty: this signal is not sent.
  std::vector<std::pair<std::string, std::string>> headers;
  Secret authorization;  // The header of that name.
  Duration timeout = std::chrono::seconds(10);
  bool gzip = false;
  std::string ca_file;

  size_t queue_max = 2048;  // Items that wait; what comes in addition is dropped.
  size_t batch_max = 512;
  Duration delay = std::chrono::seconds(5);            // Between batches that are not full.
  Duration export_timeout = std::chrono::seconds(30);  // Of a batch, with all its retries.
};

struct TelemetryOptions {
  std::array<SignalOptions, kSignals.size()> signals;
  AttributeList resource;
  Temporality temporality = Temporality::kCumulative;
  // Of traces that begin here; others are as their parent is, unless `parent_based` is off.
  double sampled_share = 1;
  bool parent_based = true;

  const SignalOptions& Of(Signal signal) const { return signals[static_cast<size_t>(signal)]; }
  SignalOptions& Of(Signal signal) { return signals[static_cast<size_t>(signal)]; }
  bool on() const;  // Whether anything is sent.
};

// Variables that say something else than they may are told in `warnings`, and ignored: telemetry
// stops no work. `program` is service.name where no variable names it.
TelemetryOptions ReadTelemetryOptions(
    const std::vector<std::pair<std::string, std::string>>& environment, std::string_view program,
    std::vector<std::string>& warnings);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_TELEMETRY_OPTIONS_H_
