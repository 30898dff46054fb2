// lithifyd, the coordinator: the interactive server and, beside it, the half that works on its own;
// each built from a configuration of its own, neither knows of the other. They share this process's
// address space and nothing else (docs/THREAT_MODEL.md): lithify-serve and lithify-maintain, each
// under a user of its own, are the stronger way to run them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "config/section.h"
#include "daemon/daemon.h"
#include "embed/environment.h"
#include "embed/hive_session.h"
#include "job/table_sightings.h"
#include "maintain/maintenance_config.h"
#include "maintenance_half.h"
#include "serve/server.h"
#include "workers/open_fleet.h"

namespace lithify {
namespace {

constexpr const char* kProgram = "lithifyd";

constexpr const char* kFooter = R"(Example:
  lithifyd --config /etc/lithify.toml
  lithifyd --config /etc/lithify.toml --check

It serves as lithify-serve does, and maintains as lithify-maintain does, if maintenance.mode is not
"off" and maintenance.scheduler.enabled is not false. It stops on SIGTERM and SIGINT: running
statements have server.drain to end, and nothing is committed by maintenance after that.
Configuration: the sections of both programs, of one file; LITHIFY_<SECTION>__<FIELD>;
--set KEY=VALUE. See docs/SERVER.md and docs/MAINTENANCE.md.)";

struct Options {
  std::string config_file;
  std::vector<std::string> set;
  bool check = false;
};

// One file, read twice: what the interactive half is made of has no field for the other's.
struct Configurations {
  config::HiveConfig serve;
  maintain::Configuration maintain;

  // Advice is given unless it is not wanted; it changes nothing.
  bool maintains() const {
    return maintain.maintenance.mode != maintain::Mode::kOff &&
           maintain.maintenance.scheduler.enabled.value_or(true);
  }
};

Result<Configurations> Load(const Options& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, config::ParseOverrides(options.set));
  std::vector<config::Override> serve_overrides;
  for (const config::Override& one : overrides) {
    if (!config::IsOthers(one.key)) serve_overrides.push_back(one);
  }
  Configurations out;
  LITHIFY_TRY_ASSIGN(out.serve, embed::LoadConfig("", options.config_file,
                                                  embed::ProcessEnvironment(), serve_overrides));
  LITHIFY_TRY_ASSIGN(
      out.maintain,
      maintain::LoadConfiguration(options.config_file, embed::ProcessEnvironment(), overrides));
  return out;
}

void TellStart(const serve::Server& server, const Configurations& config) {
  std::printf("lithify serves Flight SQL at %s, catalogs: %s\n", server.location().c_str(),
              server.catalogs().c_str());
  if (!server.probes().empty()) {
    std::printf("lithify answers probes at %s\n", server.probes().c_str());
  }
  const maintain::MaintenanceConfig& maintenance = config.maintain.maintenance;
  if (config.maintains()) {
    std::printf("lithify maintains %s, mode %s\n", maintenance.catalog.c_str(),
                std::string(maintain::ModeName(maintenance.mode)).c_str());
  } else if (maintenance.mode != maintain::Mode::kOff) {
    std::puts("maintenance.scheduler.enabled is false: nothing is maintained by itself");
  }
  if (!server.page().empty()) std::puts(server.page().c_str());
  std::fflush(stdout);
}

Result<int> Coordinate(const Options& options) {
  LITHIFY_TRY_ASSIGN(const Configurations config, Load(options));
  daemon::Warn(kProgram, config.maintain.warnings);
  const auto tell = [](const std::string& line) { daemon::Tell(kProgram, line); };
  // What the halves have in common: names and totals of tables, one way, and only where there is no
  // principal that could ask for more (T2).
  std::unique_ptr<job::TableSightings> sightings;
  if (config.maintains() && maintain::KnowsWhatCallersTouch(config.maintain)) {
    sightings =
        std::make_unique<job::TableSightings>(config.maintain.maintenance.property_prefixes);
  }
  // Each half has its own: nothing that the one sends to workers passes through the other.
  const auto told = [&tell](const std::string& line) { tell("workers: " + line); };
  LITHIFY_TRY_ASSIGN(const auto workers, apps::OpenFleet(config.serve.fleet, told));
  LITHIFY_TRY_ASSIGN(const auto server,
                     serve::Server::Make(
                         config.serve, LITHIFY_VERSION,
                         [&tell](const Error& error) { tell("audit: " + error.ToString()); },
                         sightings.get(), workers ? &workers->fleet() : nullptr));
  daemon::Warn(kProgram, server->Warnings());
  if (options.check) return daemon::kDone;

  const daemon::StopSignals signals;
  std::unique_ptr<MaintenanceHalf> maintenance;  // R011: in mode off there is none.
  if (config.maintains()) {
    LITHIFY_TRY_ASSIGN(maintenance, MaintenanceHalf::Make(config.maintain, tell, sightings.get()));
  }
  LITHIFY_TRY(server->Start());
  TellStart(*server, config);
  if (maintenance) {
    maintenance->Start([] { kill(getpid(), SIGTERM); });
  }
  signals.Wait();
  tell("stopping");
  // Both at once: the one gives up its job while statements of the other come to their end.
  if (maintenance) maintenance->Stop();
  server->Stop();
  const bool died = maintenance && maintenance->died();
  maintenance.reset();
  return died ? daemon::kFailed : daemon::kDone;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Serves callers as themselves, and maintains tables on its own, as its own identity.",
      kProgram);
  app.set_version_flag("--version", "lithifyd " LITHIFY_VERSION);
  app.footer(kFooter);
  Options options;
  app.add_option("--config", options.config_file, "Configuration file (TOML)");
  app.add_option("--set", options.set, "KEY=VALUE, above file and environment; may be repeated");
  app.add_flag("--check", options.check, "Check the configuration, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? daemon::kDone : daemon::kUsage;
  }
  const auto done = Coordinate(options);
  return done ? *done : daemon::Finish(kProgram, Fail(done.error()));
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  return lithify::daemon::Run(lithify::kProgram, [&] { return lithify::Main(argc, argv); });
}
