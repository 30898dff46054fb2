#include "config/fleet.h"

#include "base/text.h"
#include "config/section.h"

namespace lithify::config {
namespace {

// The key that a way of discovery needs must be there, and no other one.
void CheckWay(std::string_view way, std::string_view key, bool given, const FleetConfig& fleet,
              std::string_view where, std::vector<std::string>& problems) {
  const bool used = fleet.discovery == way;
  // A list may be empty: then there are no workers.
  if (used && !given && way != "list") {
    AddProblem(problems, where, key,
               "is needed with fleet.discovery = " + JsonQuote(fleet.discovery));
  }
  if (!used && given) {
    AddProblem(problems, where, key,
               "goes with fleet.discovery = " + JsonQuote(way) + ", which is " +
                   JsonQuote(fleet.discovery));
  }
}

}  // namespace

void CheckFleet(const FleetConfig& fleet, std::string_view where,
                std::vector<std::string>& problems) {
  CheckWay("list", "fleet.workers", !fleet.workers.empty(), fleet, where, problems);
  CheckWay("dns", "fleet.dns", !fleet.dns.empty(), fleet, where, problems);
  CheckWay("file", "fleet.workers_file", !fleet.workers_file.empty(), fleet, where, problems);
  if (!fleet.secret.empty() && !fleet.secret_file.empty()) {
    AddProblem(problems, where, "fleet.secret", "and fleet.secret_file exclude each other");
  }
  if (fleet.tls_cert.empty() != fleet.tls_key.empty()) {
    AddProblem(problems, where, fleet.tls_cert.empty() ? "fleet.tls_cert" : "fleet.tls_key",
               std::string("is missing; it goes with ") +
                   (fleet.tls_cert.empty() ? "fleet.tls_key" : "fleet.tls_cert"));
  }
  if (fleet.insecure_loopback &&
      !(fleet.tls_ca.empty() && fleet.tls_cert.empty() && fleet.tls_server_name.empty())) {
    AddProblem(problems, where, "fleet.insecure_loopback",
               "leaves TLS out; it does not go with fleet.tls_ca, fleet.tls_cert and "
               "fleet.tls_server_name");
  }
  if (fleet.distribution == "require" && !fleet.configured()) {
    AddProblem(problems, where, "fleet.workers",
               "names nobody, but fleet.distribution is \"require\"");
  }
  if (!fleet.configured()) return;
  // T29: an empty secret would be none at all.
  if (fleet.secret.empty() && fleet.secret_file.empty()) {
    AddProblem(
        problems, where, "fleet.secret",
        "or fleet.secret_file is needed where there are workers: requests are signed with it");
  }
  if (fleet.silence > fleet.attempt) {
    AddProblem(problems, where, "fleet.silence",
               "is " + FormatDuration(fleet.silence) +
                   ", but must be at most fleet.attempt, which "
                   "is " +
                   FormatDuration(fleet.attempt));
  }
}

}  // namespace lithify::config
