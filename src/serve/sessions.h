// Sessions of callers (R016): ids for clients that keep state between calls. A session gives
// nobody a right: each call authenticates its caller, and the session must be the caller's own.
#ifndef LITHIFY_SERVE_SESSIONS_H_
#define LITHIFY_SERVE_SESSIONS_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "serve/caller.h"
#include "serve/keyed_hash.h"

namespace lithify::serve {

struct SessionLimits {
  Duration idle = std::chrono::seconds(900);
  Duration absolute = std::chrono::seconds(28'800);
  size_t per_owner = 100;
  size_t total = 10'000;
};

// Thread-safe. Keeps no token: a session is bound to its caller's by a hash with a key of its own.
class Sessions {
 public:
  // `clock` and `random` must outlive it; `random` must be one that nobody can guess.
  Sessions(SessionLimits limits, const Clock& clock, Random& random)
      : limits_(limits), clock_(clock), random_(random), hash_(random) {}

  // Its id: 32 hexadecimal digits, of 128 random bits. kLimit: the caller, or everybody together,
  // has as many as are allowed.
  Result<std::string> Open(const Caller& caller);
  // Its options. The session goes on for another idle time. kDenied where it is not there, has
  // ended, or is bound to another token: which of them is not told.
  Result<std::map<std::string, std::string>> Use(const std::string& id, const Caller& caller);
  // nullopt: unset. The same errors; kLimit for a long value.
  Status SetOption(const std::string& id, const Caller& caller, const std::string& name,
                   const std::optional<std::string>& value);
  // The same errors.
  Status Close(const std::string& id, const Caller& caller);
  // That have not ended.
  size_t Count();

 private:
  struct Session {
    std::string owner;
    std::string token_hash;
    Duration opened;  // Monotonic, like all of them: no jump of the wall clock ends a session.
    Duration used;
    std::map<std::string, std::string> options;
  };
  using Map = std::map<std::string, Session>;

  bool Ended(const Session& session, Duration now) const;
  std::string HashOf(const Caller& caller) const;
  // Needs mutex_. The caller's own session, or end().
  Map::iterator Own(const std::string& id, const Caller& caller);
  Map::iterator Remove(Map::iterator at);
  void RemoveEnded();

  const SessionLimits limits_;
  const Clock& clock_;
  Random& random_;
  const KeyedHash hash_;

  std::mutex mutex_;
  Map sessions_;
  std::map<std::string, size_t> owned_;  // How many, by owner.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SESSIONS_H_
