// [maintenance]: what works on its own, on whose tables, as whom. The section belongs to this
// module, so that the interactive server cannot even name a field of it: config::LoadHiveConfig
// passes it over unread (R002, R003). docs/CONFIGURATION.md lists every key.
#ifndef LITHIFY_MAINTAIN_MAINTENANCE_CONFIG_H_
#define LITHIFY_MAINTAIN_MAINTENANCE_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "config/config.h"
#include "config/section.h"
#include "plan/iceberg_plan.h"

namespace lithify::maintain {

// The ladder (R019): each step does what the one before it does, and more.
enum class Mode {
  kOff,       // Nothing is constructed (R011).
  kAdvisory,  // Reports, and touches nothing.
  kActive,    // Compacts the tables whose owners opted in.
};
inline constexpr std::array kModes = {std::pair{Mode::kOff, std::string_view("off")},
                                      std::pair{Mode::kAdvisory, std::string_view("advisory")},
                                      std::pair{Mode::kActive, std::string_view("active")}};
std::string_view ModeName(Mode mode);

// Efficiency only (R142, R145): nothing that is safe with a lease is unsafe without.
enum class LeaseKind { kNone, kCatalog };
inline constexpr std::array kLeaseKinds = {
    std::pair{LeaseKind::kNone, std::string_view("none")},
    std::pair{LeaseKind::kCatalog, std::string_view("catalog")}};

using plan::Strategy;
inline constexpr std::array kStrategies = {
    std::pair{Strategy::kBinpack, std::string_view("binpack")},
    std::pair{Strategy::kSort, std::string_view("sort")},
    std::pair{Strategy::kZorder, std::string_view("zorder")}};

// [maintenance.principal]: the identity that works on its own (R034, R038). It shows itself by one
// of client_secret, client_secret_file and private_key_file.
struct PrincipalConfig {
  std::string token_endpoint;
  std::string client_id;
  Secret client_secret;
  // Read again for every token, so that they can be replaced while the process runs.
  std::string client_secret_file;
  std::string private_key_file;  // PEM: RSA or EC P-256 [RFC 7523].
  std::string key_id;            // `kid` of what it signs; empty: none.
  std::string key_algorithm;     // "RS256", "PS256", "ES256"; empty: what the key is for.
  std::string scope;             // "PRINCIPAL_ROLE:sqe_maintenance"; empty: none.
  // What audit and log rows call it; empty: the client id. `roles` are for the same and give no
  // right: that is the catalog's to say.
  std::string user_id;
  std::vector<std::string> roles;
  Duration refresh_skew = std::chrono::seconds(60);
  std::string ca_file;  // PEM with the trusted roots of the endpoint; empty: the system's.

  // Nothing of it is set.
  bool empty() const { return *this == PrincipalConfig(); }
  bool operator==(const PrincipalConfig&) const = default;
};

// [maintenance.scheduler] (R035, R039).
struct SchedulerConfig {
  // As written; what counts is MaintenanceConfig::scheduler_runs().
  std::optional<bool> enabled;
  Duration tick = std::chrono::seconds(60);
  std::string schedule = "0 2 * * *";  // Five cron fields, in UTC.
  Duration jitter = std::chrono::seconds(900);
  int max_concurrent_jobs = 1;
  LeaseKind lease = LeaseKind::kCatalog;
  Duration lease_ttl = std::chrono::seconds(300);
  std::string state_table = "sqe_system.maintenance_log";  // Namespace and table.
  int log_retention_days = 90;  // Rows of it that are older go. 0: all stay.
  bool single_scheduler_acknowledged = false;
  Duration quiet = Duration::zero();           // A table is left alone so long after a commit.
  Duration catch_up = std::chrono::hours(24);  // Fires that were missed so long ago count (R157).
  bool on_change = false;                      // Also when a table's snapshot changed.
  Duration min_interval = std::chrono::hours(1);  // Between two runs of one table.
  int failures_max = 5;                           // In a row; then its breaker opens. 0: never.
  Duration breaker_cooldown = std::chrono::hours(24);  // Then one try is let through.
  Duration backoff = std::chrono::minutes(5);     // After the first failure; doubled with each,
  Duration backoff_max = std::chrono::hours(24);  // up to this.
  std::string state_file;  // What is kept where there is no state table; empty: the default place.
};

// [maintenance.compaction] (R036, R040): what a table that sets nothing is compacted by.
struct CompactionConfig {
  int64_t target_file_size_bytes = 512 * kMiB;
  int min_input_files = 5;
  int delete_file_threshold = 2;
  Strategy strategy = Strategy::kBinpack;
};

// [maintenance.budget]: no run does more than this. 0: no bound.
struct BudgetConfig {
  int64_t bytes = 0;
  Duration seconds = Duration::zero();
  int64_t commits = 0;
  // Of one namespace in one run.
  int64_t namespace_bytes = 0;
  Duration namespace_seconds = Duration::zero();
  int64_t namespace_commits = 0;
  // A rewrite runs only if the queries that it is expected to save take so much of the time that it
  // takes itself; 0: whatever there is to do.
  int gain_percent_min = 100;
  // A job that takes so many times as long as predicted is stopped; 0: never. And never before
  // `overrun_min`.
  int overrun_factor = 4;
  Duration overrun_min = std::chrono::minutes(10);
};

// [maintenance.reads]: what is assumed of reads where nothing tells.
struct ReadsConfig {
  int life_days = 30;          // What a rewrite saves is counted for so long at most.
  int partition_days = 0;      // So long after its time a partition is read; 0: nobody knows.
  int selective_percent = 50;  // Of the reads of a table with a sort order: those by its key.
};

// [maintenance.polaris]: what only that catalog knows.
struct PolarisConfig {
  bool conflict_rollback =
      false;              // Compaction yields to writers: its snapshots may be rolled back.
  bool policies = false;  // Its inherited system.data-compaction policies are defaults.
};

struct MaintenanceConfig {
  Mode mode = Mode::kOff;
  std::string catalog;  // The name of a [catalogs.NAME]. Resolved: empty where there is none.
  // The operator's own list, dotted names (R032). Empty: the catalog is asked for all of them.
  std::vector<std::string> namespaces;
  // Of the table properties that opt in and override; the most restrictive value wins (R054).
  std::vector<std::string> property_prefixes = {"sqe.maintenance", "lithify.maintenance"};
  // The audit log of the Flight SQL server, whose SELECTs tell how often tables are read; empty:
  // nobody knows.
  std::string query_log;
  std::vector<std::string> trees;  // Roots of hive-partitioned Parquet.
  PrincipalConfig principal;
  SchedulerConfig scheduler;
  CompactionConfig compaction;
  BudgetConfig budget;
  ReadsConfig reads;
  PolarisConfig polaris;

  // `mode = "active"` implies it unless the file says otherwise (R047).
  bool scheduler_runs() const {
    return mode != Mode::kOff && scheduler.enabled.value_or(mode == Mode::kActive);
  }
};

struct LoadedMaintenance {
  MaintenanceConfig config;
  std::vector<std::string> warnings;  // To be told at the start; they stop nothing (R284).
};

// Reads the section from where `shared`, the rest of the same configuration, was read. kInvalid
// with the list of all problems (R043): unknown keys and values, what does not fit together, and,
// unless the mode is off, a principal that is needed and missing (R283) or not whole, and files
// with its secret that cannot be read or that others may read.
Result<LoadedMaintenance> LoadMaintenanceConfig(const config::Sources& sources,
                                                const config::HiveConfig& shared);

// The whole configuration of a process that works on its own.
struct Configuration {
  config::HiveConfig shared;
  MaintenanceConfig maintenance;
  std::vector<std::string> warnings;
};

// Both halves, of the same file (none: empty), environment and flags: each flag goes to the half
// that knows its key. kInvalid as config::LoadHiveConfig and LoadMaintenanceConfig.
Result<Configuration> LoadConfiguration(const std::string& config_file,
                                        const config::Environment& environment,
                                        const std::vector<config::Override>& flags);

// Every key with its value, as TOML; secrets as "***".
std::string DumpMaintenanceConfig(const MaintenanceConfig& config);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_MAINTENANCE_CONFIG_H_
