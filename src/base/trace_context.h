// Where in which trace something happens [W3C Trace Context]: what goes from a client through the
// coordinator to workers, and names a trace in what is committed.
#ifndef LITHIFY_BASE_TRACE_CONTEXT_H_
#define LITHIFY_BASE_TRACE_CONTEXT_H_

#include <optional>
#include <string>
#include <string_view>

namespace lithify {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hex digits, not all zero; empty: no trace.
  std::string span_id;   // 16 of them, likewise.
  bool sampled = false;
  bool operator==(const TraceContext&) const = default;

  bool valid() const { return !trace_id.empty(); }
  // "00-<trace id>-<span id>-01"; empty without a trace.
  std::string ToTraceparent() const;
};

// Of a traceparent header; nullopt for what is none. Later versions are read by what they have in
// common with version 00.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace lithify

#endif  // LITHIFY_BASE_TRACE_CONTEXT_H_
