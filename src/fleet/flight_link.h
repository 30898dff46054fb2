// A WorkerLink over Arrow Flight. Arrow stays behind this header.
//
// Before anything is sent, the worker proves that it knows the fleet's secret; requests are signed
// by its clock. What it says is believed once its seal was compared.
//
// Transport: not reached, cut off, silent, too slow, and what the worker itself calls so.
// Application: a signature that does not fit on either side (kDenied), an answer that makes no
// sense (kCorrupt), and what the worker calls so; kCancelled by the caller.
#ifndef LITHIFY_FLEET_FLIGHT_LINK_H_
#define LITHIFY_FLEET_FLIGHT_LINK_H_

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"
#include "fleet/seal.h"
#include "fleet/worker_link.h"

namespace lithify::fleet {

struct FlightLinkOptions {
  std::string address;  // "10.0.0.7:50061".
  bool tls = true;      // Off: on loopback alone.
  // PEM texts.
  std::string ca;           // Trusted roots; empty: the system's.
  std::string client_cert;  // For workers that ask for one; with its key, or neither.
  Secret client_key;
  std::string server_name;  // That the certificate must have; empty: that of the address.
};

// Nothing is sent yet. `clock` and `random` outlive it. kInvalid: an address that is none,
// plaintext beyond loopback, half of a pair. Destroying it waits for calls to end that were given
// up: up to half a minute for a worker that does not answer.
Result<std::unique_ptr<WorkerLink>> OpenFlightLink(FlightLinkOptions options, FleetKey key,
                                                   const Clock& clock, Random& random);

// Whether a worker answers there, without any secret: for probes. kTransient: it does not.
Status ProbeWorker(const FlightLinkOptions& options, Duration timeout);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_FLIGHT_LINK_H_
