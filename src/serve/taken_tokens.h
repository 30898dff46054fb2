// Which tokens a catalog has taken: of those that nobody checks here (no auth.issuer), only these
// get anything done that asks no catalog by itself, such as SELECT 1. Private to this module.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_TAKEN_TOKENS_H_
#define LITHIFY_SERVE_TAKEN_TOKENS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "serve/table_access.h"

namespace lithify::serve {

class TakenTokens {
 public:
  // How long a catalog's word counts, unless the token says that it ends before.
  static constexpr Duration kLife = std::chrono::minutes(5);
  static constexpr size_t kKept = 10'000;

  explicit TakenTokens(const Clock& clock) : clock_(clock) {}

  // A success at once for callers who were checked here, who need no token, or whose token one of
  // the catalogs took a while ago. Else the catalogs are asked, as the caller: their configuration,
  // and the namespaces, as some give the former to everybody. That these may not be listed (403) is
  // told to somebody who is known. kDenied: none takes the token; kTransient: that could not be
  // told.
  Status Check(const TableAccess& access, const CallContext& call, const CancelFlag& cancel);

 private:
  bool Knows(const std::string& owner);
  void Keep(const Caller& caller);

  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Duration> until_;  // Monotonic, by owner: a hash, and no token.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_TAKEN_TOKENS_H_
