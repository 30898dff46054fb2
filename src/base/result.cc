#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace lithify {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not_found";
    case Code::kDenied: return "denied";
    case Code::kConflict: return "conflict";
    case Code::kUnknownOutcome: return "unknown_outcome";
    case Code::kTransient: return "transient";
    case Code::kCorrupt: return "corrupt";
    case Code::kLimit: return "limit";
    case Code::kUnsupported: return "unsupported";
    case Code::kCancelled: return "cancelled";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

std::string Error::ToString() const {
  std::string out(CodeName(code));
  out += ": ";
  if (!context.empty()) {
    out += context;
    out += ": ";
  }
  out += message;
  if (!hint.empty()) {
    out += " (next: ";
    out += hint;
    out += ")";
  }
  return out;
}

Error Error::In(std::string_view where) && {
  if (where.empty() || context.starts_with(where)) return std::move(*this);
  context = context.empty() ? std::string(where) : std::string(where) + ": " + context;
  return std::move(*this);
}

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "lithify: invariant broken at %s:%d: %s: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace lithify
