// Who a statement runs as.
#ifndef LITHIFY_SERVE_CALLER_H_
#define LITHIFY_SERVE_CALLER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"

namespace lithify::serve {

inline constexpr std::string_view kUnknownCaller = "unknown";

struct Caller {
  Secret token;      // Goes on to the catalog; empty: none (anonymous).
  std::string name;  // For people and logs; kUnknownCaller unless somebody trusted says it (R018).
  std::string subject;  // These are empty unless `verified`.
  std::string issuer;
  std::string email;
  std::vector<std::string> roles;  // Empty allows nothing (T30).
  std::vector<std::string> groups;
  // When the token ends, as far as can be told; of a token that is not verified this may end a job
  // early and does nothing else.
  std::optional<Time> expires_at;
  bool verified = false;   // The issuer's signature, and all else, was checked here.
  bool anonymous = false;  // Came without credentials.
  bool issued = false;     // `token` is new to the client: tell it, so that it can go on with it.
  // Who owns what the caller makes: sessions, jobs. The same issuer and subject, or the same token
  // by a hash whose key ends with the process.
  std::string owner;
};

// kDenied, "token expires before the commit", unless the token lives longer than `needed` from now
// (Q14). Fine where nobody knows when it ends.
Status CheckTokenLife(const Caller& caller, Time now, Duration needed);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_CALLER_H_
