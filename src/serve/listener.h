// The Flight SQL listener: calls of clients to the executor, each as its caller. Arrow Flight stays
// behind this header.
//
// Thread safety: Start and Stop by one thread.
#ifndef LITHIFY_SERVE_LISTENER_H_
#define LITHIFY_SERVE_LISTENER_H_

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "config/config.h"
#include "serve/audit_trail.h"
#include "serve/executor.h"
#include "serve/identity.h"
#include "serve/sessions.h"

namespace lithify::serve {

class Listener {
 public:
  // Everything is borrowed.
  struct Services {
    const config::ServerConfig& config;
    Authenticator& authenticator;
    Executor& executor;
    JobRegistry& jobs;
    Sessions& sessions;
    AuditTrail& audit;
    const Clock& clock;
    Random& random;
    std::string version;
  };

  virtual ~Listener() = default;

  // Listens, on threads of its own. kInvalid: an address, certificate or key that will not do, or
  // plaintext beyond loopback without server.allow_plaintext.
  static Result<std::unique_ptr<Listener>> Start(const Services& services);

  // "grpc+tls://0.0.0.0:50051", with the port that was taken.
  virtual std::string location() const = 0;
  // Whether it ends: no statement begins any more. Any thread.
  virtual bool draining() const = 0;
  // No new calls; running ones have server.drain to end, then they are cancelled. Blocks.
  virtual void Stop() = 0;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_LISTENER_H_
