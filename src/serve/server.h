// The interactive half as one object, put together from its configuration: authenticator, catalogs
// as callers see them, sessions, jobs, audit log, listener.
#ifndef LITHIFY_SERVE_SERVER_H_
#define LITHIFY_SERVE_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "group/fleet.h"
#include "job/table_sightings.h"

namespace lithify::serve {

// Thread safety: one thread at a time.
class Server {
 public:
  // kInvalid: the configuration does not do for a server, as TableAccess::Make and
  // MakeAuthenticator tell. Starts no thread, opens no file, makes no request. `told` gets what
  // cannot be written to the audit log; any thread. `version` is what clients are told.
  // `sightings`, unless null, is told of each table that is loaded for a caller, and outlives it;
  // so does `fleet`, which callers' jobs may go to.
  static Result<std::unique_ptr<Server>> Make(const config::HiveConfig& config, std::string version,
                                              std::function<void(const Error&)> told,
                                              job::TableSightings* sightings = nullptr,
                                              group::Fleet* fleet = nullptr);
  virtual ~Server() = default;

  // Of the configuration, to be told at the start; they stop nothing.
  virtual std::vector<std::string> Warnings() const = 0;
  virtual std::string catalogs() const = 0;  // "lake, other", sorted.

  // Opens the audit log and listens, on threads of its own. Once. Errors as Listener::Start and
  // ListenForProbes, and of the audit log.
  virtual Status Start() = 0;
  // Once started: "grpc+tls://0.0.0.0:50051", with the port that was taken.
  virtual std::string location() const = 0;
  // Likewise, of what probes ask: "http://127.0.0.1:8081"; empty: there is none.
  virtual std::string probes() const = 0;
  // Likewise, about the status page, as a sentence: where it is, or why it is not; empty: it is not
  // wanted.
  virtual std::string page() const = 0;
  // Once started: no new calls; running ones have server.drain to end, then they are cancelled.
  // Blocks.
  virtual void Stop() = 0;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SERVER_H_
