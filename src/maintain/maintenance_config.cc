#include "maintain/maintenance_config.h"

#include <algorithm>
#include <span>

#include "base/random.h"
#include "embed/hive_session.h"
#include "embed/iceberg_session.h"
#include "net/client_assertion.h"
#include "net/jwks.h"
#include "plan/cron.h"
#include "storage/secret_file.h"

namespace lithify::maintain {
namespace {

using config::AddProblem;
using config::MemberOf;
using config::Raw;
using MaintenanceField = config::Field<MaintenanceConfig>;
using Lines = std::vector<std::string>;

constexpr std::string_view kSection = "maintenance";
constexpr int64_t kTiB = 1024 * kGiB;
constexpr int64_t kHour = 3600;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kCommitsMax = 1'000'000'000;

// Not written at all where it is not set.
MaintenanceField EnabledField() {
  return {"maintenance.scheduler.enabled",
          [](MaintenanceConfig& c, const Raw& raw) -> Status {
            c.scheduler.enabled = config::ReadBool(raw);
            if (!c.scheduler.enabled) return config::Wrong(raw, "true or false");
            return {};
          },
          [](const MaintenanceConfig& c) -> std::string {
            if (!c.scheduler.enabled) return {};
            return *c.scheduler.enabled ? "true" : "false";
          }};
}

// An empty list would read as "all" to us and as "none" to whoever wrote it.
MaintenanceField NamespacesField() {
  return {"maintenance.namespaces",
          [](MaintenanceConfig& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(auto names, config::ReadList(raw));
            if (names.empty()) {
              return Fail(Code::kInvalid, "must name at least one; leave it out for all");
            }
            c.namespaces = std::move(names);
            return {};
          },
          [](const MaintenanceConfig& c) {
            return c.namespaces.empty() ? std::string() : config::TomlList(c.namespaces);
          }};
}

#define AT(member) MemberOf<MaintenanceConfig>([](auto& c) -> auto& { return c.member; })

std::vector<MaintenanceField> PrincipalFields() {
  return {
      config::TextField("maintenance.principal.token_endpoint", AT(principal.token_endpoint)),
      config::TextField("maintenance.principal.client_id", AT(principal.client_id)),
      config::SecretField("maintenance.principal.client_secret", AT(principal.client_secret)),
      config::TextField("maintenance.principal.client_secret_file",
                        AT(principal.client_secret_file)),
      config::TextField("maintenance.principal.private_key_file", AT(principal.private_key_file)),
      config::TextField("maintenance.principal.key_id", AT(principal.key_id)),
      config::ChoiceField("maintenance.principal.key_algorithm", {"", "RS256", "PS256", "ES256"},
                          AT(principal.key_algorithm)),
      config::TextField("maintenance.principal.scope", AT(principal.scope)),
      config::TextField("maintenance.principal.user_id", AT(principal.user_id)),
      config::ListField("maintenance.principal.roles", AT(principal.roles)),
      config::SecondsField("maintenance.principal.refresh_skew_secs", 0, kHour, false,
                           AT(principal.refresh_skew)),
      config::TextField("maintenance.principal.ca_file", AT(principal.ca_file)),
  };
}

std::vector<MaintenanceField> SchedulerFields() {
  return {
      EnabledField(),
      config::SecondsField("maintenance.scheduler.tick_secs", 1, kDay, false, AT(scheduler.tick)),
      config::TextField("maintenance.scheduler.schedule", AT(scheduler.schedule)),
      config::SecondsField("maintenance.scheduler.jitter_secs", 0, kDay, false,
                           AT(scheduler.jitter)),
      config::CountField("maintenance.scheduler.max_concurrent_jobs", 1, 1024,
                         AT(scheduler.max_concurrent_jobs)),
      config::NamedField("maintenance.scheduler.lease", kLeaseKinds, AT(scheduler.lease)),
      config::SecondsField("maintenance.scheduler.lease_ttl_secs", 1, kDay, false,
                           AT(scheduler.lease_ttl)),
      config::TextField("maintenance.scheduler.state_table", AT(scheduler.state_table)),
      config::CountField("maintenance.scheduler.log_retention_days", 0, 36'600,
                         AT(scheduler.log_retention_days)),
      config::BoolField("maintenance.scheduler.single_scheduler_acknowledged",
                        AT(scheduler.single_scheduler_acknowledged)),
      config::SecondsField("maintenance.scheduler.quiet_secs", 0, 7 * kDay, false,
                           AT(scheduler.quiet)),
      config::SecondsField("maintenance.scheduler.catch_up_secs", 0, 366 * kDay, false,
                           AT(scheduler.catch_up)),
      config::BoolField("maintenance.scheduler.on_change", AT(scheduler.on_change)),
      config::SecondsField("maintenance.scheduler.min_interval_secs", 0, 366 * kDay, false,
                           AT(scheduler.min_interval)),
      config::CountField("maintenance.scheduler.failures_max", 0, 1000, AT(scheduler.failures_max)),
      config::SecondsField("maintenance.scheduler.breaker_cooldown_secs", 0, 366 * kDay, false,
                           AT(scheduler.breaker_cooldown)),
      config::SecondsField("maintenance.scheduler.backoff_secs", 0, 7 * kDay, false,
                           AT(scheduler.backoff)),
      config::SecondsField("maintenance.scheduler.backoff_max_secs", 0, 366 * kDay, false,
                           AT(scheduler.backoff_max)),
      config::TextField("maintenance.scheduler.state_file", AT(scheduler.state_file)),
  };
}

std::vector<MaintenanceField> WorkFields() {
  return {
      config::BytesField("maintenance.compaction.target_file_size_bytes", kMiB, kTiB, false,
                         AT(compaction.target_file_size_bytes)),
      config::CountField("maintenance.compaction.min_input_files", 1, 1'000'000,
                         AT(compaction.min_input_files)),
      config::CountField("maintenance.compaction.delete_file_threshold", 1, 1'000'000,
                         AT(compaction.delete_file_threshold)),
      config::NamedField("maintenance.compaction.strategy", kStrategies, AT(compaction.strategy)),
      config::BytesField("maintenance.budget.bytes", kMiB, 1024 * kTiB, true, AT(budget.bytes)),
      config::SecondsField("maintenance.budget.seconds", 1, 366 * kDay, true, AT(budget.seconds)),
      config::CountField("maintenance.budget.commits", 0, kCommitsMax, AT(budget.commits)),
      config::BytesField("maintenance.budget.namespace_bytes", kMiB, 1024 * kTiB, true,
                         AT(budget.namespace_bytes)),
      config::SecondsField("maintenance.budget.namespace_seconds", 1, 366 * kDay, true,
                           AT(budget.namespace_seconds)),
      config::CountField("maintenance.budget.namespace_commits", 0, kCommitsMax,
                         AT(budget.namespace_commits)),
      config::CountField("maintenance.budget.gain_percent_min", 0, 1'000'000,
                         AT(budget.gain_percent_min)),
      config::CountField("maintenance.budget.overrun_factor", 0, 1000, AT(budget.overrun_factor)),
      config::SecondsField("maintenance.budget.overrun_min_secs", 0, 7 * kDay, false,
                           AT(budget.overrun_min)),
      config::CountField("maintenance.reads.life_days", 1, 3660, AT(reads.life_days)),
      config::CountField("maintenance.reads.partition_days", 0, 36'600, AT(reads.partition_days)),
      config::CountField("maintenance.reads.selective_percent", 0, 100,
                         AT(reads.selective_percent)),
      config::BoolField("maintenance.polaris.conflict_rollback", AT(polaris.conflict_rollback)),
      config::BoolField("maintenance.polaris.policies", AT(polaris.policies)),
  };
}

std::vector<MaintenanceField> AllFields() {
  std::vector<MaintenanceField> all = {
      config::NamedField("maintenance.mode", kModes, AT(mode)),
      config::TextField("maintenance.catalog", AT(catalog)),
      NamespacesField(),
      config::ListField("maintenance.property_prefixes", AT(property_prefixes)),
      config::TextField("maintenance.query_log", AT(query_log)),
      config::ListField("maintenance.trees", AT(trees)),
  };
  for (auto&& part : {PrincipalFields(), SchedulerFields(), WorkFields()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

#undef AT

std::span<const MaintenanceField> Fields() {
  static const std::vector<MaintenanceField> fields = AllFields();
  return fields;
}

// What each value allows and all together do not (R042, R043).
class Checker {
 public:
  Checker(MaintenanceConfig& config, const config::HiveConfig& shared, std::string where)
      : config_(config), shared_(shared), where_(std::move(where)) {}

  void Check() {
    CheckNames();
    CheckScheduler();
    // What is off needs nothing: no catalog, no secret, no file.
    if (config_.mode == Mode::kOff) return;
    const config::CatalogConfig* catalog = ResolveCatalog();
    const bool rest = catalog != nullptr && embed::IsRestCatalog(catalog->uri);
    if (catalog == nullptr && config_.trees.empty() && problems.empty()) {
      Problem("catalog", "there is nothing to maintain: define a [catalogs.NAME], or list trees");
    }
    if (!config_.principal.empty()) {
      CheckPrincipal();
      CompareClients();
      if (!rest) Warn("principal", "is not used: only a REST catalog knows identities");
    } else if (rest) {
      MissPrincipal(*catalog);
    }
    if (config_.polaris.policies && !rest) {
      Warn("polaris.policies", "is not used: only a REST catalog may have policies");
    }
    if (catalog != nullptr) CheckLease();
  }

  Lines problems;
  Lines warnings;

 private:
  void Problem(std::string_view key, std::string_view what) {
    AddProblem(problems, where_, std::string(kSection) + "." + std::string(key), what);
  }
  void Warn(std::string_view key, std::string_view what) {
    AddProblem(warnings, where_, std::string(kSection) + "." + std::string(key), what);
  }

  static bool IsDotted(std::string_view name) {
    return !name.empty() && name.front() != '.' && name.back() != '.' &&
           name.find("..") == std::string_view::npos;
  }

  void CheckNames() {
    for (const std::string& name : config_.namespaces) {
      if (!IsDotted(name)) Problem("namespaces", "\"" + name + "\" is no dotted name");
    }
    if (config_.property_prefixes.empty()) {
      Problem("property_prefixes", "must name at least one, or no table can opt in");
    }
    for (const std::string& prefix : config_.property_prefixes) {
      if (IsDotted(prefix) && prefix.find(' ') == std::string::npos) continue;
      Problem("property_prefixes",
              "\"" + prefix + "\" is not allowed; it must be like \"sqe.maintenance\"");
    }
    for (const std::string& tree : config_.trees) {
      if (tree.starts_with('/') || tree.find("://") != std::string::npos) continue;
      Problem("trees", "\"" + tree + "\" must be an absolute path or s3://bucket/prefix");
    }
    const std::string& table = config_.scheduler.state_table;
    if (!IsDotted(table) || table.find('.') == std::string::npos) {
      Problem("scheduler.state_table", "\"" + table + "\" must be a namespace and a table");
    }
  }

  void CheckScheduler() {
    if (const auto cron = plan::ParseCron(config_.scheduler.schedule); !cron) {
      Problem("scheduler.schedule", cron.error().ToString());
    }
    if (config_.scheduler.backoff > config_.scheduler.backoff_max) {
      Problem("scheduler.backoff_secs", "must be at most maintenance.scheduler.backoff_max_secs");
    }
  }

  // One catalog for a process (Q16).
  const config::CatalogConfig* ResolveCatalog() {
    const auto& catalogs = shared_.catalogs;
    if (config_.catalog.empty()) {
      if (catalogs.size() > 1) {
        Problem("catalog", "is needed: there is more than one [catalogs.NAME]");
      }
      if (catalogs.size() != 1) return nullptr;
      config_.catalog = catalogs.front().name;
      return &catalogs.front();
    }
    const auto found = std::ranges::find(catalogs, config_.catalog, &config::CatalogConfig::name);
    if (found != catalogs.end()) return &*found;
    std::vector<std::string_view> names;
    for (const auto& catalog : catalogs) names.push_back(catalog.name);
    Problem("catalog", "there is no [catalogs." + config_.catalog + "]" +
                           config::Suggestion(config_.catalog, names));
    return nullptr;
  }

  void MissPrincipal(const config::CatalogConfig& catalog) {
    if (config_.mode == Mode::kActive) {  // R006, R283.
      Problem("principal", "is needed: mode = \"active\" changes tables of catalog \"" +
                               catalog.name +
                               "\", and nobody else's identity is used for that. Set " +
                               "token_endpoint, client_id and a secret");
      return;
    }
    // T2.
    Warn("principal", "is not set: nothing is known of catalog \"" + catalog.name +
                          "\" but of tables that callers of a server in this process have touched");
  }

  void CheckPrincipal() {
    const PrincipalConfig& principal = config_.principal;
    if (principal.token_endpoint.empty()) {
      Problem("principal.token_endpoint", "is needed");
    } else if (!net::IsPrivateUrl(principal.token_endpoint)) {
      Problem("principal.token_endpoint",
              "must be an https URL without user and fragment (http only to 127.0.0.1, [::1] or "
              "localhost)");
    }
    if (principal.client_id.empty()) Problem("principal.client_id", "is needed");
    CheckSecret(principal);
  }

  void CheckSecret(const PrincipalConfig& principal) {
    const int secrets = (principal.client_secret.empty() ? 0 : 1) +
                        (principal.client_secret_file.empty() ? 0 : 1) +
                        (principal.private_key_file.empty() ? 0 : 1);
    if (secrets != 1) {
      Problem("principal.client_secret",
              secrets == 0 ? "is needed, or client_secret_file, or private_key_file"
                           : "client_secret, client_secret_file and private_key_file exclude each "
                             "other");
      return;
    }
    if (principal.private_key_file.empty()) {
      if (!principal.key_id.empty() || !principal.key_algorithm.empty()) {
        Problem("principal.key_id", "and key_algorithm go with private_key_file");
      }
      if (principal.client_secret_file.empty()) return;
      if (const auto secret = storage::ReadSecretLine(principal.client_secret_file); !secret) {
        Problem("principal.client_secret_file", secret.error().ToString());
      }
      return;
    }
    const auto signs = TrySigning(principal);
    if (!signs) Problem("principal.private_key_file", signs.error().ToString());
  }

  // Better now than at night.
  static Status TrySigning(const PrincipalConfig& principal) {
    net::ClientKey key{.pem = {}, .key_id = principal.key_id, .algorithm = principal.key_algorithm};
    LITHIFY_TRY_ASSIGN(key.pem, storage::ReadSecretFile(principal.private_key_file));
    const SystemClock clock;
    SystemRandom random;
    const auto assertion =
        net::SignClientAssertion(key, principal.client_id, principal.token_endpoint, clock, random);
    if (!assertion) return Fail(Error(assertion.error()).In(principal.private_key_file));
    return {};
  }

  // R007, R284: whose client it is, is what the identity provider knows of it.
  void CompareClients() {
    const std::string& id = config_.principal.client_id;
    if (id.empty()) return;
    const auto warn = [&](const std::string& key) {
      Warn("principal.client_id", "is that of " + key + ", too: give what works on its own a " +
                                      "client of its own, or its grants are those of both");
    };
    if (id == shared_.auth.client_id) warn("[auth]");
    for (const auto& catalog : shared_.catalogs) {
      if (id == catalog.client_id) warn("[catalogs." + catalog.name + "]");
    }
  }

  // R037 supports it, the original's rule of R042 is no error here: a lease saves work, no more.
  void CheckLease() {
    if (config_.scheduler.lease != LeaseKind::kNone || !config_.scheduler_runs() ||
        config_.scheduler.single_scheduler_acknowledged) {
      return;
    }
    Warn("scheduler.lease",
         "is \"none\": a second scheduler would do the same work again, and lose it at its "
         "commits. If there is none, say so: single_scheduler_acknowledged = true");
  }

  MaintenanceConfig& config_;
  const config::HiveConfig& shared_;
  const std::string where_;
};

}  // namespace

std::string_view ModeName(Mode mode) {
  for (const auto& [value, name] : kModes) {
    if (value == mode) return name;
  }
  return "";
}

Result<LoadedMaintenance> LoadMaintenanceConfig(const config::Sources& sources,
                                                const config::HiveConfig& shared) {
  LoadedMaintenance loaded;
  Lines problems;
  const auto values = config::ReadSection(sources, kSection, config::KeysOf(Fields()), problems);
  config::ApplyAll(values, Fields(), loaded.config, problems);
  if (!problems.empty()) return config::FailWith(problems);
  Checker checker(loaded.config, shared,
                  sources.file_name.empty() ? "configuration" : std::string(sources.file_name));
  checker.Check();
  if (!checker.problems.empty()) return config::FailWith(checker.problems);
  loaded.warnings = std::move(checker.warnings);
  return loaded;
}

Result<Configuration> LoadConfiguration(const std::string& config_file,
                                        const config::Environment& environment,
                                        const std::vector<config::Override>& flags) {
  std::string text;
  if (!config_file.empty()) {
    LITHIFY_TRY_ASSIGN(text, embed::ReadConfigFile(config_file));
  }
  std::vector<config::Override> shared_flags;
  for (const config::Override& flag : flags) {
    if (!config::IsOthers(flag.key)) shared_flags.push_back(flag);
  }
  Configuration out;
  LITHIFY_TRY_ASSIGN(out.shared,
                     config::LoadHiveConfig(text, config_file, environment, shared_flags));
  auto own = LoadMaintenanceConfig({text, config_file, environment, flags}, out.shared);
  Wipe(text);  // A secret may stand in it.
  if (!own) return Fail(std::move(own.error()));
  out.maintenance = std::move(own->config);
  out.warnings = std::move(own->warnings);
  return out;
}

std::string DumpMaintenanceConfig(const MaintenanceConfig& config) {
  return config::DumpFields(Fields(), config);
}

}  // namespace lithify::maintain
