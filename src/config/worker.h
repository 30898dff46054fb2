// [worker]: the process that rewrites file groups for a coordinator, and has nothing else: no
// catalog, no identity, no table of its own (docs/FLEET.md). Its program reads this section alone.
#ifndef LITHIFY_CONFIG_WORKER_H_
#define LITHIFY_CONFIG_WORKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/text.h"
#include "config/section.h"
#include "storage/s3_settings.h"

namespace lithify::config {

struct WorkerConfig {
  std::string listen = "127.0.0.1:0";  // Host and port; port 0: any free one.
  std::string id;                      // For people; empty: "worker".
  Secret secret;                       // That requests are signed with; or a file with it:
  std::string secret_file;
  std::string tls_cert;  // PEM, with the chain; with tls_key.
  std::string tls_key;
  std::string tls_client_ca;       // Coordinators must show a certificate of it; empty: none.
  bool insecure_loopback = false;  // Without TLS, on this machine; then without a secret, too.
  int max_inflight_groups = 2;
  int threads = 0;  // Of all groups together. 0: all cores.
  int64_t memory_bytes = 4 * kGiB;
  std::string spill_directory;  // Where sorting keeps what does not fit; empty: config/spill.h.
  int64_t spill_bytes_max = 0;  // Of each group; 0: as much as the disk has.
  Duration drain = std::chrono::seconds(30);  // What runs may end for so long when it stops.
  Duration unadopted = std::chrono::minutes(10);
  bool local_files = false;
  std::vector<std::string> endpoints;  // That keys may be sent to; empty: all.
  storage::S3Settings s3;              // [worker.s3].
};

// kInvalid: all that is wrong with it, one line each.
Result<WorkerConfig> LoadWorkerConfig(const Sources& sources);
// As TOML, secrets as "***".
std::string DumpWorkerConfig(const WorkerConfig& config);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_WORKER_H_
