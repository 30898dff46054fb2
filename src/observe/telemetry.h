// Sends what a process tells of itself by OTLP over HTTP: metrics at an interval, spans and log
// records in batches. Never on the way of the work: a queue per signal is bounded, what does not
// fit is dropped and counted (lithify.telemetry.dropped), and requests are made by threads of their
// own.
#ifndef LITHIFY_OBSERVE_TELEMETRY_H_
#define LITHIFY_OBSERVE_TELEMETRY_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/trace_context.h"
#include "observe/metrics.h"
#include "observe/otlp.h"
#include "observe/telemetry_options.h"

namespace lithify::observe {

// Thread-safe.
class Telemetry {
 public:
  struct Services {
    Metrics& metrics;  // Outlives it; what is dropped is counted there.
    Clock& clock;
    Random& random;
    std::string version;  // Of lithify.
    // That a signal does not get through, once until it does again; by threads of this object.
    std::function<void(const std::string&)> on_trouble;
  };

  // Null where `options` send nothing. kInvalid for a CA file that cannot be read.
  static Result<std::unique_ptr<Telemetry>> Start(TelemetryOptions options, Services services);
  virtual ~Telemetry() = default;  // Shutdown(), within two seconds.

  virtual void Emit(SpanData span) = 0;
  virtual void Emit(LogRecord record) = 0;
  // A new span's place: in the parent's trace, or at the begin of one.
  virtual TraceContext MakeContext(const TraceContext& parent) = 0;
  virtual Time Now() const = 0;
  // Sends what there is, for so long at most. Nothing is sent after it.
  virtual void Shutdown(Duration most) = 0;
};

// From here to its end, which is told. Without telemetry it tells nothing, and passes its parent
// on. One thread.
class Span {
 public:
  // `telemetry` may be null.
  Span(Telemetry* telemetry, std::string name, const TraceContext& parent = {},
       SpanData::Kind kind = SpanData::Kind::kInternal);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  const TraceContext& context() const { return data_.context; }
  void Set(std::string key, AttributeValue value);
  void Fail(const Error& error);

 private:
  Telemetry* const telemetry_;
  SpanData data_;
};

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_TELEMETRY_H_
