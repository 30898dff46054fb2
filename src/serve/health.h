// What probes ask over HTTP: whether the server is alive, and whether it takes statements.
#ifndef LITHIFY_SERVE_HEALTH_H_
#define LITHIFY_SERVE_HEALTH_H_

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "http/listener.h"

namespace lithify::serve {

// Answers on `listen`, which is server.health_listen, until it is destroyed:
//   /healthz  200: the process answers; to be started anew if it does not
//   /readyz   200, or 503 while `draining` says so, which any thread may call: no new statements
// It tells nothing else, and needs no token. Errors as http::Listener::Start.
Result<std::unique_ptr<http::Listener>> ListenForProbes(const std::string& listen,
                                                        std::function<bool()> draining);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_HEALTH_H_
