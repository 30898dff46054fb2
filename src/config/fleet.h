// [fleet]: workers that rewrite file groups for this coordinator (docs/CONFIGURATION.md). Whoever
// opens tables makes a fleet of it, if it names any.
#ifndef LITHIFY_CONFIG_FLEET_H_
#define LITHIFY_CONFIG_FLEET_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"

namespace lithify::config {

struct FleetConfig {
  std::string distribution = "auto";  // Or "local", "require" (R136).
  std::string discovery = "list";     // Or "dns", "file":
  std::vector<std::string> workers;   // "host:port" each;
  std::string dns;                    // "name:port", all of whose addresses are workers;
  std::string workers_file;           // JSON that somebody else keeps.
  Secret secret;                      // That requests are signed with; or a file with it:
  std::string secret_file;
  std::string tls_ca;  // PEM with the roots of the workers' certificates; empty: the system's.
  // That the workers' certificates must have; empty: that of `dns`, else each one's address.
  std::string tls_server_name;
  std::string tls_cert;  // PEM, shown to workers that ask for it; with tls_key.
  std::string tls_key;
  bool insecure_loopback = false;  // Without TLS, to workers on this machine.
  int min_workers = 1;
  int max_inflight_groups_per_worker = 0;  // 0: as each worker says.
  int group_attempts = 3;
  Duration silence = std::chrono::seconds(120);  // Without a sign of life, an attempt has failed;
  Duration attempt = std::chrono::hours(1);      // and after so long in any case.
  bool hedge = true;
  std::string queue_file;  // Empty: none.

  // Whether there is anybody to ask.
  bool configured() const { return discovery != "list" || !workers.empty(); }
  bool operator==(const FleetConfig&) const = default;
};

// Values that are each allowed, but not together; what is wrong is added to `problems`.
void CheckFleet(const FleetConfig& fleet, std::string_view where,
                std::vector<std::string>& problems);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_FLEET_H_
