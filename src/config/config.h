// The configuration of the plain-Parquet job: TOML file, environment, flags above both (R044,
// R048). Unknown keys and values out of range are errors that name the key and the allowed range.
// All problems are collected and reported together (R043). docs/CONFIGURATION.md lists every key.
#ifndef LITHIFY_CONFIG_CONFIG_H_
#define LITHIFY_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hive.h"
#include "base/result.h"
#include "base/row_order.h"
#include "base/secret.h"
#include "config/auth.h"
#include "config/fleet.h"
#include "config/section.h"
#include "plan/hive_plan.h"
#include "rewrite/group_runner.h"
#include "storage/s3_settings.h"

namespace lithify::config {

// One [catalogs.NAME]: an Iceberg catalog that tables are named by ("NAME.sales.orders").
struct CatalogConfig {
  std::string name;
  std::string uri;  // "sqlite:///lake/catalog.db", "https://host/api/catalog".
  // REST: which of the server's warehouses. SQLite: the location below which new tables go.
  std::string warehouse;
  Secret token;           // REST: a bearer token; or:
  std::string client_id;  // REST: OAuth2 client credentials.
  Secret client_secret;
  std::string oauth2_server_uri;  // Token endpoint. Empty: <uri>/v1/oauth/tokens.
  std::string scope;
  std::vector<std::pair<std::string, std::string>> headers;  // REST: on every request.
  bool vended_credentials = true;  // REST: ask it to lend credentials for the storage of a table.
};

// Where the status page is unless it is told. Taken by another program, there is none.
inline constexpr std::string_view kPageListenDefault = "127.0.0.1:50080";

// [server]: the interactive Flight SQL server. It has no field for a credential of its own.
struct ServerConfig {
  std::string listen = "127.0.0.1:50051";  // Host and port; port 0: any free one.
  std::string tls_cert_file;               // PEM, with the chain.
  std::string tls_key_file;
  std::string tls_client_ca_file;  // Clients must show a certificate of it. Empty: none asked for.
  bool allow_plaintext = false;    // Without TLS beyond loopback.
  std::string health_listen;       // HTTP, for probes: host and port. Empty: none.
  // HTTP, for the status page: host and port. Empty: none.
  std::string page_listen = std::string(kPageListenDefault);
  // By which browsers reach it, beside `localhost` and addresses in numbers.
  std::vector<std::string> page_hosts;
  std::string catalog;  // Of names without one. Empty: the only one there is.
  // Tables of REST catalogs whose locations are local files: every caller who may create a table
  // could make this process read and write files of its own user.
  bool local_files = false;
  int statements_max = 256;          // Running at once, in all;
  int statements_per_user_max = 64;  // of one user.
  int jobs_max = 8;                  // Procedures that change tables, likewise.
  int jobs_per_user_max = 4;
  int64_t request_bytes_max = kMiB;
  int64_t result_bytes_max = 16 * kGiB;                // Of one statement.
  int64_t statement_memory_bytes = 512 * kMiB;         // Of one SELECT.
  Duration statement_timeout = std::chrono::hours(1);  // Of one SELECT; 0: none.
  Duration client_stall = std::chrono::minutes(5);     // A result that nobody takes ends; 0: never.
  Duration session_idle = std::chrono::seconds(900);
  Duration session_max = std::chrono::seconds(28'800);
  Duration drain = std::chrono::seconds(30);  // Calls may end for so long when it stops.
};

struct AuditLogConfig {
  std::string path;               // Empty: where the tree or the catalog has it.
  int64_t max_bytes = 0;          // A larger file is continued in a new one; 0: never.
  std::string signing_key;        // PEM file of an Ed25519 key; empty: nothing is signed.
  std::string on_error = "fail";  // Or "continue" (R178).
};

struct HiveConfig {
  std::string preset = "ourios";     // "ourios" or "none" (then [[series]] is required).
  std::vector<SeriesLayout> series;  // Resolved.
  std::string audit_series;
  plan::HiveOptions options;
  rewrite::OutputShape shape;
  // Of rows of trees, one term each, as base/order_text.h reads it; or one curve. Empty: as they
  // are.
  std::vector<std::string> sort;
  rewrite::Verify verify = rewrite::Verify::kSample;
  Duration interval = std::chrono::seconds(300);  // --watch.
  Duration claim_ttl = std::chrono::minutes(15);  // 0: no claims.
  int jobs = 0;                                   // 0: all cores.
  int partitions_at_once = 0;                     // 0: half of the jobs, at least one (Q5).
  int64_t memory_bytes = kGiB;
  std::string spill_directory;  // Where sorting keeps what does not fit; empty: config/spill.h.
  int64_t spill_bytes_max = 0;  // 0: as much as the disk has.
  int64_t io_limit_bytes_per_second = 0;  // Read and written together; 0: none.
  bool direct_io = true;                  // Long outputs go past the page cache.
  bool low_priority = true;               // nice, and idle I/O class where allowed.
  AuditLogConfig audit_log;
  storage::S3Settings s3;
  AuthConfig auth;
  std::vector<CatalogConfig> catalogs;  // In the order of the file.
  ServerConfig server;
  FleetConfig fleet;
};

// `toml` may be empty; `file_name` is for messages. `getenv` gives a variable's value or nullopt.
// Environment names are LITHIFY_ + SECTION__FIELD in upper case. ${NAME} in a string value of the
// file is replaced by that variable (R034); an unset one is an error that names it. What lies below
// [maintenance], in the file and in the environment, is passed over unread: that is of another
// module, and so are its secrets (R002).
Result<HiveConfig> LoadHiveConfig(
    std::string_view toml, std::string_view file_name,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<Override>& flags);

// What `sort` says, of a configuration that was loaded; nullopt: nothing.
std::optional<RowOrder> SortOrderOf(const HiveConfig& config);

// The effective configuration as TOML, every key with its value (`lithify config`).
std::string DumpHiveConfig(const HiveConfig& config);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_CONFIG_H_
