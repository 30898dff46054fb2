// The messages of OTLP 1 as bytes: metrics, spans and log records as an exporter sends them
// [opentelemetry-proto]. Only what lithify sends is here; the fields are those of the published
// .proto files, and a test holds the bytes against the classes that those files generate
// (docs/decisions/2026-12-01-otlp-by-hand.md).
#ifndef LITHIFY_OBSERVE_OTLP_H_
#define LITHIFY_OBSERVE_OTLP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/trace_context.h"
#include "observe/metrics.h"

namespace lithify::observe {

using AttributeValue = std::variant<std::string, int64_t, bool>;
using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

struct SpanData {
  enum class Kind { kInternal = 1, kServer = 2, kClient = 3 };
  TraceContext context;
  std::string parent_span_id;  // Empty: a root.
  std::string name;
  Kind kind = Kind::kInternal;
  Time start;
  Time end;
  AttributeList attributes;
  bool failed = false;
  std::string error;
};

struct LogRecord {
  enum class Severity { kInfo = 9, kWarn = 13, kError = 17 };
  Time time;
  Severity severity = Severity::kInfo;
  std::string event = {};  // Of the registry, or empty.
  std::string body = {};
  AttributeList attributes = {};
  TraceContext context = {};  // May be none.
};

struct ExportScope {
  AttributeList resource;
  std::string version;  // Of lithify.
};

enum class Temporality { kCumulative, kDelta };

// Points of one instrument must stand together. Sums and histograms began at `start`; with kDelta,
// counters and histograms are what came since then.
std::string EncodeMetrics(const ExportScope& scope, std::span<const MetricPoint> points,
                          Temporality temporality, Time start, Time now);
std::string EncodeSpans(const ExportScope& scope, std::span<const SpanData> spans);
std::string EncodeLogs(const ExportScope& scope, std::span<const LogRecord> records);

// How many items the receiver of a request rejected, by its answer's body; 0 if it says nothing.
int64_t RejectedItems(std::string_view response);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_OTLP_H_
