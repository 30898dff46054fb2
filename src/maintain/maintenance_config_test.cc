#include "maintain/maintenance_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "maintain/service.h"
#include "net/client_key_pair.h"

namespace lithify::maintain {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::string_view kRest = R"([catalogs.lake]
uri = "https://catalog.example/api/catalog"
)";
constexpr std::string_view kSqlite = R"([catalogs.lake]
uri = "sqlite:///lake/catalog.db"
)";
constexpr std::string_view kPrincipal = R"([maintenance.principal]
token_endpoint = "https://id.example/token"
client_id = "sqe-maintenance"
client_secret = "tops3cr3t"
)";

// As a binary does it: the rest of the file first.
Result<LoadedMaintenance> Load(const std::string& toml, const config::Environment& environment = {},
                               const std::vector<config::Override>& flags = {}) {
  LITHIFY_TRY_ASSIGN(const auto shared,
                     config::LoadHiveConfig(toml, "lithify.toml", environment, {}));
  return LoadMaintenanceConfig({toml, "lithify.toml", environment, flags}, shared);
}

LoadedMaintenance Good(const std::string& toml, const config::Environment& environment = {},
                       const std::vector<config::Override>& flags = {}) {
  auto loaded = Load(toml, environment, flags);
  EXPECT_TRUE(loaded) << loaded.error().ToString();
  return loaded ? *loaded : LoadedMaintenance{};
}

std::string Problem(const std::string& toml, const config::Environment& environment = {},
                    const std::vector<config::Override>& flags = {}) {
  const auto loaded = Load(toml, environment, flags);
  EXPECT_FALSE(loaded) << toml;
  if (loaded) return {};
  EXPECT_EQ(loaded.error().code, Code::kInvalid);
  return loaded.error().message;
}

std::string Active(std::string_view rest) {
  return "[maintenance]\nmode = \"active\"\n" + std::string(rest);
}

class SecretFiles : public testing::Test {
 protected:
  SecretFiles() {
    std::string name = "/tmp/lithify-maintain-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~SecretFiles() override { std::filesystem::remove_all(directory_); }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::string WriteKey(const std::string& name, mode_t mode = 0600) {
    return Write(name, net::ClientKeyPair(EVP_EC_gen("P-256")).Pem().Reveal(), mode);
  }
  static std::string With(const std::string& lines) {
    return Active(kRest) + "[maintenance.principal]\n" +
           "token_endpoint = \"https://id.example/token\"\nclient_id = \"m\"\n" + lines + "\n";
  }
  std::string directory_;
};

// R033, R039, R040: nothing is done unless somebody says so.
TEST(MaintenanceConfig, Defaults) {
  const auto [c, warnings] = Good("");
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(c.mode, Mode::kOff);
  EXPECT_FALSE(c.scheduler_runs());
  EXPECT_THAT(c.namespaces, IsEmpty());
  EXPECT_THAT(c.property_prefixes, ElementsAre("sqe.maintenance", "lithify.maintenance"));
  EXPECT_TRUE(c.principal.empty());
  EXPECT_EQ(c.principal.refresh_skew, seconds(60));
  EXPECT_EQ(c.scheduler.enabled, std::nullopt);
  EXPECT_EQ(c.scheduler.tick, seconds(60));
  EXPECT_EQ(c.scheduler.schedule, "0 2 * * *");
  EXPECT_EQ(c.scheduler.jitter, seconds(900));
  EXPECT_EQ(c.scheduler.max_concurrent_jobs, 1);
  EXPECT_EQ(c.scheduler.lease, LeaseKind::kCatalog);
  EXPECT_EQ(c.scheduler.lease_ttl, seconds(300));
  EXPECT_EQ(c.scheduler.state_table, "sqe_system.maintenance_log");
  EXPECT_FALSE(c.scheduler.single_scheduler_acknowledged);
  EXPECT_EQ(c.compaction.target_file_size_bytes, 536'870'912);
  EXPECT_EQ(c.compaction.min_input_files, 5);
  EXPECT_EQ(c.compaction.delete_file_threshold, 2);
  EXPECT_EQ(c.compaction.strategy, Strategy::kBinpack);
  EXPECT_EQ(c.budget.bytes, 0);
  EXPECT_FALSE(c.polaris.conflict_rollback);
}

TEST(MaintenanceConfig, WhatTheSchedulerTakesOfIt) {
  auto [c, warnings] = Good("");
  c.catalog = "lake";
  SchedulerOptions options = MakeSchedulerOptions({}, c).value();
  EXPECT_EQ(options.log_rows_kept, std::chrono::days(90));
  EXPECT_EQ(options.life_days, 30);
  EXPECT_EQ(options.selective_share, 0.5);
  EXPECT_EQ(options.defaults.read_life, std::nullopt);
  c.scheduler.log_retention_days = 0;
  c.reads = {.life_days = 7, .partition_days = 3, .selective_percent = 0};
  options = MakeSchedulerOptions({}, c).value();
  EXPECT_EQ(options.log_rows_kept, Duration::zero());
  EXPECT_EQ(options.life_days, 7);
  EXPECT_EQ(options.selective_share, 0);
  EXPECT_EQ(options.defaults.read_life, std::chrono::days(3));
}

// R033 to R038 as the commission writes them, with nothing added but a catalog (R047).
TEST(MaintenanceConfig, TheCommissionsOwnBlockStarts) {
  const std::string toml = std::string(kRest) + R"([maintenance]
mode = "active"

[maintenance.principal]
token_endpoint = "https://idp.example/realms/lake/protocol/openid-connect/token"
client_id = "sqe-maintenance"
client_secret = "${SQE_MAINTENANCE_CLIENT_SECRET}"
scope = "PRINCIPAL_ROLE:sqe_maintenance"
user_id = "maintenance"
roles = ["sqe_maintenance"]
refresh_skew_secs = 60

[maintenance.scheduler]
schedule = "0 2 * * *"
lease = "catalog"

[maintenance.compaction]
target_file_size_bytes = 268435456
strategy = "sort"
)";
  const auto [c, warnings] = Good(toml, {{"SQE_MAINTENANCE_CLIENT_SECRET", "tops3cr3t"}});
  EXPECT_EQ(c.mode, Mode::kActive);
  EXPECT_TRUE(c.scheduler_runs());
  EXPECT_EQ(c.catalog, "lake");
  EXPECT_EQ(c.principal.client_secret.Reveal(), "tops3cr3t");
  EXPECT_EQ(c.principal.scope, "PRINCIPAL_ROLE:sqe_maintenance");
  EXPECT_EQ(c.principal.user_id, "maintenance");
  EXPECT_THAT(c.principal.roles, ElementsAre("sqe_maintenance"));
  EXPECT_EQ(c.compaction.target_file_size_bytes, 268'435'456);
  EXPECT_EQ(c.compaction.strategy, Strategy::kSort);
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_THAT(Problem(toml), HasSubstr("SQE_MAINTENANCE_CLIENT_SECRET is not set"));
}

// R002: another process that reads the same file sees nothing of it, and needs none of its
// variables.
TEST(MaintenanceConfig, OtherReadersPassItOver) {
  const std::string toml = R"([maintenance]
mode = "nonsense"
[maintenance.principal]
client_secret = "${SQE_MAINTENANCE_CLIENT_SECRET}"
no_such_key = [1, 2]
)";
  const config::Environment environment = {
      {"LITHIFY_MAINTENANCE__PRINCIPAL__CLIENT_SECRET", "tops3cr3t"},
      {"LITHIFY_MAINTENANCE__NO_SUCH_KEY", "1"}};
  const auto shared = config::LoadHiveConfig(toml, "lithify.toml", environment, {});
  ASSERT_TRUE(shared) << shared.error().ToString();
  const std::string dump = config::DumpHiveConfig(*shared);
  EXPECT_THAT(dump, Not(HasSubstr("tops3cr3t")));
  EXPECT_THAT(dump, Not(HasSubstr("maintenance")));
  // It is only this section that is passed over,
  EXPECT_FALSE(config::LoadHiveConfig("[maintenence]\nmode = \"off\"\n", "x", {}, {}));
  // and a flag is for whom it is given to.
  const auto flag = config::LoadHiveConfig("", "", {}, {{"maintenance.mode", "active", "--set"}});
  ASSERT_FALSE(flag);
  EXPECT_THAT(flag.error().message, HasSubstr("--set: maintenance.mode: unknown key"));
}

// One file and one list of flags for both halves of the configuration.
TEST_F(SecretFiles, BothHalvesOfOneFile) {
  const std::string file = Write("lithify.toml", Active(kSqlite) + "[limits]\njobs = 1\n");
  const auto both = LoadConfiguration(
      file, {}, {{"limits.jobs", "2", "--set"}, {"maintenance.scheduler.lease", "none", "--set"}});
  ASSERT_TRUE(both) << both.error().ToString();
  EXPECT_EQ(both->shared.jobs, 2);
  EXPECT_EQ(both->maintenance.catalog, "lake");
  EXPECT_EQ(both->maintenance.scheduler.lease, LeaseKind::kNone);
  EXPECT_THAT(both->warnings, ElementsAre(HasSubstr("lithify.toml: maintenance.scheduler.lease")));
  EXPECT_EQ(LoadConfiguration("", {}, {})->maintenance.mode, Mode::kOff);
  EXPECT_FALSE(LoadConfiguration(directory_ + "/none.toml", {}, {}));
  EXPECT_FALSE(LoadConfiguration("", {}, {{"limits.jbs", "2", "--set"}}));
  EXPECT_FALSE(LoadConfiguration("", {}, {{"maintenance.mod", "off", "--set"}}));
}

// R044.
TEST(MaintenanceConfig, FlagsAboveEnvironmentAboveFile) {
  const std::string toml =
      "[maintenance.scheduler]\ntick_secs = 1\njitter_secs = 1\nquiet_secs=1\n";
  const config::Environment environment = {{"LITHIFY_MAINTENANCE__SCHEDULER__JITTER_SECS", "2"},
                                           {"LITHIFY_MAINTENANCE__SCHEDULER__QUIET_SECS", "2"},
                                           {"LITHIFY_MAINTENANCE__TREES", "/a,/b"}};
  const auto [c, warnings] =
      Good(toml, environment, {{"maintenance.scheduler.quiet_secs", "3", "--set"}});
  EXPECT_EQ(c.scheduler.tick, seconds(1));
  EXPECT_EQ(c.scheduler.jitter, seconds(2));
  EXPECT_EQ(c.scheduler.quiet, seconds(3));
  EXPECT_THAT(c.trees, ElementsAre("/a", "/b"));
}

// R048.
TEST(MaintenanceConfig, UnknownKeysAreErrorsWithTheNearestOne) {
  EXPECT_THAT(Problem("[maintenance.principal]\nclient_idd = \"x\"\n"),
              HasSubstr("lithify.toml:2: maintenance.principal.client_idd: unknown key; did you "
                        "mean \"maintenance.principal.client_id\"?"));
  EXPECT_THAT(Problem("[maintenance.princpal]\nclient_id = \"x\"\n"),
              HasSubstr("maintenance.princpal: unknown section; did you mean "
                        "\"maintenance.principal\"?"));
  EXPECT_THAT(Problem("[maintenance]\nlease = \"none\"\n"),
              HasSubstr("did you mean \"maintenance.scheduler.lease\"?"));
  EXPECT_THAT(Problem("[maintenance]\nprincipal = \"x\"\n"), HasSubstr("must be a table"));
  EXPECT_THAT(Problem("maintenance = 1\n"), HasSubstr("must be a table: [maintenance]"));
  EXPECT_THAT(Problem("", {{"LITHIFY_MAINTENANCE__SCHEDULER__TICK", "1"}}),
              HasSubstr("LITHIFY_MAINTENANCE__SCHEDULER__TICK: maintenance.scheduler.tick: unknown "
                        "key; did you mean \"maintenance.scheduler.tick_secs\"?"));
}

// R022, R042, R048.
TEST(MaintenanceConfig, ValuesOutOfRange) {
  const auto in = [](const char* section, const char* line) {
    return Problem("[maintenance" + std::string(section) + "]\n" + line + "\n");
  };
  EXPECT_THAT(in("", "mode = \"on\""), HasSubstr("one of \"off\", \"advisory\", \"active\""));
  EXPECT_THAT(in("", "namespaces = []"), HasSubstr("leave it out for all"));
  EXPECT_THAT(in("", "namespaces = [\"a..b\"]"), HasSubstr("no dotted name"));
  EXPECT_THAT(in("", "property_prefixes = []"), HasSubstr("no table can opt in"));
  EXPECT_THAT(in("", "property_prefixes = [\"sqe.\"]"), HasSubstr("must be like"));
  EXPECT_THAT(in("", "trees = [\"lake\"]"), HasSubstr("an absolute path"));
  EXPECT_THAT(in(".scheduler", "tick_secs = 0"), HasSubstr("from 1 to 86,400"));
  EXPECT_THAT(in(".scheduler", "tick_secs = \"1500ms\""), HasSubstr("whole number of seconds"));
  EXPECT_THAT(in(".scheduler", "lease_ttl_secs = 0"), HasSubstr("from 1 to 86,400"));
  EXPECT_THAT(in(".scheduler", "lease = \"kubernetes\""), HasSubstr("\"none\", \"catalog\""));
  EXPECT_THAT(in(".scheduler", "schedule = \"0 2 * *\""), HasSubstr("a schedule has five"));
  EXPECT_THAT(in(".scheduler", "state_table = \"log\""), HasSubstr("a namespace and a table"));
  EXPECT_THAT(in(".scheduler", "backoff_secs = 10\nbackoff_max_secs = 9"),
              HasSubstr("at most maintenance.scheduler.backoff_max_secs"));
  EXPECT_THAT(in(".compaction", "strategy = \"random\""), HasSubstr("\"zorder\""));
  EXPECT_THAT(in(".compaction", "target_file_size_bytes = 0"), HasSubstr("a size from"));
  EXPECT_THAT(in(".budget", "bytes = 1"), HasSubstr("or 0 for none"));
}

// R043.
TEST(MaintenanceConfig, ProblemsAreCollected) {
  const std::string message =
      Problem(Active(kRest) + "[maintenance.principal]\nscope = \"x\"\nkey_id = \"k\"\n");
  EXPECT_THAT(message, HasSubstr("3 problems"));
  EXPECT_THAT(message, HasSubstr("maintenance.principal.token_endpoint: is needed"));
  EXPECT_THAT(message, HasSubstr("maintenance.principal.client_id: is needed"));
  EXPECT_THAT(message, HasSubstr("maintenance.principal.client_secret: is needed, or"));
}

// R006, R283; T2 for advisory; a SQLite catalog and trees have no identities.
TEST(MaintenanceConfig, WhoNeedsAPrincipal) {
  EXPECT_THAT(Problem(Active(kRest)),
              HasSubstr("maintenance.principal: is needed: mode = \"active\""));
  EXPECT_THAT(Good(Active(kSqlite)).warnings, IsEmpty());
  EXPECT_THAT(Good(Active("trees = [\"/data/lake\"]\n")).warnings, IsEmpty());
  EXPECT_THAT(Good(Active("trees = [\"s3://bucket/lake\"]\n")).warnings, IsEmpty());
  EXPECT_THAT(Problem(Active("")), HasSubstr("nothing to maintain"));
  const std::string advisory = "[maintenance]\nmode = \"advisory\"\n";
  const auto without = Good(advisory + std::string(kRest));
  EXPECT_THAT(without.warnings, ElementsAre(HasSubstr("callers of a server")));
  EXPECT_FALSE(without.config.scheduler_runs());
  EXPECT_THAT(Good(advisory + std::string(kRest) + std::string(kPrincipal)).warnings, IsEmpty());
  EXPECT_THAT(Good(Active(kSqlite) + std::string(kPrincipal)).warnings,
              ElementsAre(HasSubstr("only a REST catalog knows identities")));
}

// What is off needs nothing, and opens no file.
TEST(MaintenanceConfig, OffIsOff) {
  EXPECT_THAT(Good("[maintenance.principal]\nclient_secret_file = \"/nowhere/at/all\"\n").warnings,
              IsEmpty());
}

// Q16.
TEST(MaintenanceConfig, TheCatalogIsNamedOrTheOnlyOne) {
  const std::string two =
      std::string(kRest) + "[catalogs.other]\nuri = \"sqlite:///lake/catalog.db\"\n";
  EXPECT_EQ(Good(Active(kSqlite)).config.catalog, "lake");
  EXPECT_THAT(Problem(Active(two)), HasSubstr("there is more than one [catalogs.NAME]"));
  EXPECT_EQ(Good(Active("catalog = \"other\"\n" + two)).config.catalog, "other");
  EXPECT_THAT(Problem(Active("catalog = \"othr\"\n" + two)),
              HasSubstr("there is no [catalogs.othr]; did you mean \"other\"?"));
}

TEST(MaintenanceConfig, PrincipalsEndpointIsPrivate) {
  const std::string toml = Active(kRest) +
                           "[maintenance.principal]\nclient_id = \"m\"\nclient_secret = "
                           "\"tops3cr3t\"\ntoken_endpoint = ";
  EXPECT_THAT(Problem(toml + "\"http://id.example/token\"\n"), HasSubstr("must be an https URL"));
  EXPECT_THAT(Good(toml + "\"http://127.0.0.1:8080/token\"\n").warnings, IsEmpty());
}

// R007, R284.
TEST(MaintenanceConfig, EqualClientIdsAreAWarning) {
  const auto ids = [](const std::string& more) {
    return Good(Active(kRest) + more + std::string(kPrincipal)).warnings;
  };
  EXPECT_THAT(ids("[auth]\nclient_id = \"sqe\"\n"), IsEmpty());
  EXPECT_THAT(ids("[auth]\nclient_id = \"sqe-maintenance\"\n"),
              ElementsAre(HasSubstr("maintenance.principal.client_id: is that of [auth]")));
  EXPECT_THAT(
      Good(Active("catalog = \"lake\"\n") + std::string(kRest) +
           "client_id = \"sqe-maintenance\"\nclient_secret = \"x\"\n" + std::string(kPrincipal))
          .warnings,
      ElementsAre(HasSubstr("is that of [catalogs.lake]")));
}

// R037: supported. R042's error is a warning: without a lease work is lost, and never a row.
TEST(MaintenanceConfig, LeaseNoneIsSupported) {
  const auto lease = [](const std::string& more) {
    return Good(Active(kSqlite) + "[maintenance.scheduler]\nlease = \"none\"\n" + more).warnings;
  };
  EXPECT_THAT(lease(""), ElementsAre(HasSubstr("single_scheduler_acknowledged = true")));
  EXPECT_THAT(lease("single_scheduler_acknowledged = true\n"), IsEmpty());
  EXPECT_THAT(lease("enabled = false\n"), IsEmpty());
}

// R047.
TEST(MaintenanceConfig, ActiveImpliesTheScheduler) {
  const std::string scheduler = "[maintenance.scheduler]\nenabled = ";
  EXPECT_TRUE(Good(Active(kSqlite)).config.scheduler_runs());
  EXPECT_FALSE(Good(Active(kSqlite) + scheduler + "false\n").config.scheduler_runs());
  const std::string advisory = "[maintenance]\nmode = \"advisory\"\n" + std::string(kSqlite);
  EXPECT_TRUE(Good(advisory + scheduler + "true\n").config.scheduler_runs());
  EXPECT_FALSE(Good(scheduler + "true\n").config.scheduler_runs());
}

// T5: whether a table has an order is each table's matter, not that of the start.
TEST(MaintenanceConfig, T5EveryStrategyStartsWithoutAWarning) {
  for (const auto& [strategy, name] : kStrategies) {
    const std::string section =
        "[maintenance.compaction]\nstrategy = \"" + std::string(name) + "\"\n";
    const auto loaded = Good(Active(kSqlite) + section);
    EXPECT_EQ(loaded.config.compaction.strategy, strategy);
    for (const std::string& warning : loaded.warnings) {
      EXPECT_THAT(warning, Not(HasSubstr("strategy"))) << name;
    }
  }
}

TEST_F(SecretFiles, OneSecretAndOnlyOne) {
  const std::string secret = Write("secret", "tops3cr3t\n");
  const std::string key = WriteKey("key.pem");
  EXPECT_THAT(Good(With("client_secret_file = \"" + secret + "\"")).warnings, IsEmpty());
  EXPECT_THAT(Good(With("private_key_file = \"" + key + "\"\nkey_id = \"k\"")).warnings, IsEmpty());
  EXPECT_THAT(Problem(With("")), HasSubstr("client_secret: is needed, or client_secret_file"));
  for (const std::string& twice :
       {"client_secret = \"x\"\nclient_secret_file = \"" + secret + "\"",
        "client_secret = \"x\"\nprivate_key_file = \"" + key + "\"",
        "client_secret_file = \"" + secret + "\"\nprivate_key_file = \"" + key + "\""}) {
    EXPECT_THAT(Problem(With(twice)), HasSubstr("exclude each other"));
  }
  EXPECT_THAT(Problem(With("client_secret = \"x\"\nkey_id = \"k\"")),
              HasSubstr("go with private_key_file"));
}

TEST_F(SecretFiles, FilesThatWillNotDoAreToldAtTheStart) {
  const auto secret = [](const std::string& path) {
    return Problem(With("client_secret_file = \"" + path + "\""));
  };
  EXPECT_THAT(secret(Write("a", "tops3cr3t\n", 0604)), HasSubstr("everybody on this machine"));
  EXPECT_THAT(secret(Write("b", "tops3cr3t\n", 0602)), HasSubstr("chmod o-rwx"));
  EXPECT_THAT(secret(directory_ + "/none"), HasSubstr("cannot be read"));
  EXPECT_THAT(secret(directory_), HasSubstr("is no file"));
  EXPECT_THAT(secret(Write("c", "")), HasSubstr("is empty"));
  EXPECT_THAT(secret(Write("d", "\n")), HasSubstr("in one line"));
  EXPECT_THAT(secret(Write("e", "tops3cr3t\nmore\n")), HasSubstr("in one line"));
  EXPECT_THAT(secret(Write("e", "tops3cr3t\nmore\n")), Not(HasSubstr("s3cr3t")));
  EXPECT_THAT(secret(Write("f", std::string(70'000, 'x'))), HasSubstr("larger than 64 KiB"));
  ASSERT_EQ(mkfifo((directory_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(secret(directory_ + "/pipe"), HasSubstr("is no file"));
  // Its group may read it: that is how secrets are mounted.
  EXPECT_THAT(Good(With("client_secret_file = \"" + Write("g", "tops3cr3t", 0640) + "\"")).warnings,
              IsEmpty());
  const auto key = [](const std::string& path, const std::string& more = "") {
    return Problem(With("private_key_file = \"" + path + "\"\n" + more));
  };
  EXPECT_THAT(key(WriteKey("h", 0644)), HasSubstr("everybody on this machine"));
  EXPECT_THAT(key(Write("i", "tops3cr3t\n")), HasSubstr("no private key in PEM"));
  EXPECT_THAT(key(WriteKey("j"), "key_algorithm = \"RS256\""), HasSubstr("cannot sign with"));
}

TEST(MaintenanceConfig, DumpIsWhatWasReadWithoutSecrets) {
  const std::string toml = Active("namespaces = [\"sales\", \"web.raw\"]\n") + std::string(kRest) +
                           std::string(kPrincipal) +
                           "[maintenance.scheduler]\nlease = \"none\"\nquiet_secs = 120\n"
                           "[maintenance.budget]\nbytes = \"2TiB\"\n";
  const MaintenanceConfig config = Good(toml).config;
  const std::string dump = DumpMaintenanceConfig(config);
  EXPECT_THAT(dump, Not(HasSubstr("tops3cr3t")));
  EXPECT_THAT(dump, HasSubstr("[maintenance.principal]"));
  EXPECT_THAT(dump, HasSubstr("client_secret = \"***\""));
  EXPECT_THAT(dump, HasSubstr("quiet_secs = 120"));
  const MaintenanceConfig again = Good(std::string(kRest) + dump).config;
  EXPECT_EQ(DumpMaintenanceConfig(again), dump);
  EXPECT_EQ(again.budget.bytes, int64_t{2} * 1024 * kGiB);
  EXPECT_EQ(again.namespaces, config.namespaces);
}

// docs/CONFIGURATION.md lists every key, and no other.
TEST(MaintenanceConfig, ThePageListsEveryKey) {
  std::ifstream page(LITHIFY_CONFIGURATION_PAGE);
  std::string line;
  std::string section;
  std::vector<std::string> listed;
  while (std::getline(page, line)) {
    if (line.starts_with("##")) {
      const size_t open = line.find("[maintenance");
      section = open == std::string::npos ? "" : line.substr(open + 1, line.find(']') - open - 1);
    }
    if (section.empty() || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find('|', 1));
    for (size_t at = 0; (at = cell.find('`', at)) != std::string::npos;) {
      const size_t end = cell.find('`', at + 1);
      listed.push_back(section + "." + cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  // Every key that has a default, and those that have none.
  MaintenanceConfig all;
  all.scheduler.enabled = true;
  all.namespaces = {"a"};
  std::vector<std::string> known;
  std::istringstream dump(DumpMaintenanceConfig(all));
  while (std::getline(dump, line)) {
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos) known.push_back(section + "." + line.substr(0, equals));
  }
  EXPECT_GT(known.size(), 40u);
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(known));
}

}  // namespace
}  // namespace lithify::maintain
