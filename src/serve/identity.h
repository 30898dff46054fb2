// From what a client presents to the caller that its statements run as (R001, R013 to R015, R018).
//
// The providers of the configuration are asked in their order. Each takes credentials of its kind
// only; of several that take the same kind, the first that is satisfied decides. Credentials that
// are refused never become anonymous, and never anybody else (R305).
//
// There is no provider for a machine without a caller, and none can be made from here (R003): no
// code of this module asks for a client's own token, which scripts/dependency_test.py checks in its
// symbols.
#ifndef LITHIFY_SERVE_IDENTITY_H_
#define LITHIFY_SERVE_IDENTITY_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"
#include "config/auth.h"
#include "serve/caller.h"

namespace lithify::serve {

struct Credentials {
  enum class Kind { kNone, kBearer, kBasic };
  Kind kind = Kind::kNone;
  Secret token;      // kBearer.
  std::string user;  // kBasic.
  Secret password;
};

// Of the value of an Authorization header (or Flight's "authorization"); empty: kNone. kDenied for
// other schemes and damaged values.
Result<Credentials> ParseAuthorization(std::string_view value);

// Thread-safe.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  // kDenied: refused, or nothing was sent; kTransient: the identity provider can't be asked;
  // kInvalid, kCorrupt, kLimit: what it is or answers is wrong, see the configuration. No message
  // has a token or a password.
  virtual Result<Caller> Authenticate(const Credentials& credentials) = 0;
  // For the log, at each start: what is open to everybody, or wider than it looks (R014).
  virtual std::vector<std::string> Warnings() const = 0;
};

// `auth` has been checked (config::CheckAuth). Asks nobody yet. kInvalid if the CA file can't be
// read. `proxy`: as net::HttpOptions has it. `clock` and `random` must outlive it.
Result<std::unique_ptr<Authenticator>> MakeAuthenticator(
    const config::AuthConfig& auth, const Clock& clock, Random& random,
    std::optional<std::string> proxy = std::nullopt);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_IDENTITY_H_
