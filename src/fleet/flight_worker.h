// A worker behind Arrow Flight: actions of docs/FLEET.md to its service. Arrow stays behind this
// header.
//
// Thread safety: Stop by one thread; all else by any.
#ifndef LITHIFY_FLEET_FLIGHT_WORKER_H_
#define LITHIFY_FLEET_FLIGHT_WORKER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"
#include "fleet/seal.h"
#include "fleet/worker_service.h"

namespace lithify::fleet {

struct FlightWorkerOptions {
  std::string listen = "127.0.0.1:0";
  // PEM texts. Without a certificate it listens on loopback alone (R137).
  std::string tls_cert;
  Secret tls_key;
  std::string tls_client_ca;  // Callers must show a certificate of it; empty: none is asked for.
  std::function<void(const std::string&)> told = {};  // A line of the log; any thread.
};

class FlightWorker {
 public:
  // What it needs outlives it.
  struct Services {
    WorkerService& service;
    std::string id;  // As that of the service.
    FleetKey key;
    const Clock& clock;
  };

  virtual ~FlightWorker() = default;
  // Listens, on threads of its own. kInvalid: an address, certificate or key that will not do, or
  // no TLS beyond loopback.
  static Result<std::unique_ptr<FlightWorker>> Start(FlightWorkerOptions options,
                                                     Services services);

  // "127.0.0.1:50061", with the port that was taken.
  virtual std::string address() const = 0;
  // After the service was drained: ends what is still told.
  virtual void Stop() = 0;
};

// Whether it may listen so, without doing it: what Start() would refuse of addresses and TLS.
Status CheckListening(const FlightWorkerOptions& options);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_FLIGHT_WORKER_H_
