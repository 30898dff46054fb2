// Errors as values. A code is a decision for the caller, not a description of the origin
// (docs/ARCHITECTURE.md, "Errors"). No exception crosses a module boundary.
//
// Thread safety: plain values.
#ifndef LITHIFY_BASE_RESULT_H_
#define LITHIFY_BASE_RESULT_H_

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace lithify {

enum class Code {
  kInvalid,         // The request or its input is wrong: report it, a retry gives the same.
  kNotFound,        // The thing asked for is absent.
  kDenied,          // Not allowed: fail loudly, audit, never retry.
  kConflict,        // Somebody else changed it first: load again and plan again.
  kUnknownOutcome,  // It may have been published: look for it, never clean up.
  kTransient,       // Retry elsewhere or later, bounded.
  kCorrupt,         // A check failed: stop, keep the evidence.
  kLimit,           // A configured bound was met: shrink the work or raise the bound.
  kUnsupported,     // Skip this item and say why.
  kCancelled,       // The user asked to stop: nothing was changed by the step that returns it.
  kInternal,        // A bug in lithify.
};

// Stable lower-case name ("not_found"), used in JSON output, audit events and metrics.
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;  // What happened and why, without a trailing full stop.
  std::string context;  // Where: a key, a column, a file; outermost first, joined by ": ".
  std::string hint;     // What to do next; may be empty.

  // "corrupt: data/x.parquet: footer says 3 rows, read 2 (next: …)".
  std::string ToString() const;
  // Returns the same error with `where` put before the context, unless it begins with it already
  // (callers name the partition, callees the file in it).
  Error In(std::string_view where) &&;
  Error Hint(std::string next) && {
    hint = std::move(next);
    return std::move(*this);
  }
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> Fail(Code code, std::string message, std::string context = {},
                                   std::string hint = {}) {
  return std::unexpected<Error>(
      Error{code, std::move(message), std::move(context), std::move(hint)});
}
inline std::unexpected<Error> Fail(Error error) { return std::unexpected<Error>(std::move(error)); }

#define LITHIFY_CONCAT_(a, b) a##b
#define LITHIFY_CONCAT(a, b) LITHIFY_CONCAT_(a, b)

// Evaluates a Status or Result<T>; returns its error from the enclosing function.
#define LITHIFY_TRY(expr)                                                             \
  do {                                                                                \
    auto&& lithify_status_ = (expr);                                                  \
    if (!lithify_status_) return ::lithify::Fail(std::move(lithify_status_.error())); \
  } while (false)

// LITHIFY_TRY_ASSIGN(auto x, F()): binds the value or returns the error.
#define LITHIFY_TRY_ASSIGN(decl, expr) \
  LITHIFY_TRY_ASSIGN_IMPL_(LITHIFY_CONCAT(lithify_result_, __COUNTER__), decl, expr)
#define LITHIFY_TRY_ASSIGN_IMPL_(tmp, decl, expr)           \
  auto tmp = (expr);                                        \
  if (!tmp) return ::lithify::Fail(std::move(tmp.error())); \
  decl = std::move(*tmp)

// Always on, in release too: a broken invariant ends the process before it can publish anything.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);
#define LITHIFY_CHECK(condition, message)                                              \
  do {                                                                                 \
    if (!(condition)) ::lithify::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)

}  // namespace lithify

#endif  // LITHIFY_BASE_RESULT_H_
