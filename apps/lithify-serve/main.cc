// lithify-serve: the interactive server, and nothing else: no scheduler, no identity of its own
// (docs/SERVER.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "daemon/daemon.h"
#include "embed/environment.h"
#include "embed/hive_session.h"
#include "serve/server.h"
#include "workers/open_fleet.h"

namespace lithify {
namespace {

constexpr const char* kProgram = "lithify-serve";

constexpr const char* kFooter = R"(Example:
  lithify-serve --config /etc/lithify.toml
  lithify-serve --config dev.toml --set auth.providers=anonymous --set server.local_files=true

It stops on SIGTERM and SIGINT: running statements have server.drain to end.
Configuration: [server], [auth], [catalogs.NAME] and [limits] of the file;
LITHIFY_<SECTION>__<FIELD>; --set KEY=VALUE. See docs/SERVER.md.)";

struct Options {
  std::string config_file;
  std::vector<std::string> set;
  bool check = false;
};

// The whole server, from its configuration to the signal that ends it.
Status Serve(const Options& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, config::ParseOverrides(options.set));
  LITHIFY_TRY_ASSIGN(
      const config::HiveConfig config,
      embed::LoadConfig("", options.config_file, embed::ProcessEnvironment(), overrides));
  LITHIFY_TRY_ASSIGN(const auto workers, apps::OpenFleet(config.fleet, [](const auto& line) {
                       daemon::Tell(kProgram, "workers: " + line);
                     }));
  LITHIFY_TRY_ASSIGN(const auto server, serve::Server::Make(
                                            config, LITHIFY_VERSION,
                                            [](const Error& error) {
                                              daemon::Tell(kProgram, "audit: " + error.ToString());
                                            },
                                            nullptr, workers ? &workers->fleet() : nullptr));
  daemon::Warn(kProgram, server->Warnings());
  if (options.check) return {};

  const daemon::StopSignals signals;
  LITHIFY_TRY(server->Start());
  std::printf("lithify serves Flight SQL at %s, catalogs: %s\n", server->location().c_str(),
              server->catalogs().c_str());
  if (!server->probes().empty()) {
    std::printf("lithify answers probes at %s\n", server->probes().c_str());
  }
  if (!server->page().empty()) std::puts(server->page().c_str());
  std::fflush(stdout);
  signals.Wait();
  daemon::Tell(kProgram, "stopping");
  server->Stop();
  return {};
}

int Main(int argc, char** argv) {
  CLI::App app("Serves the Iceberg procedures and SELECT over Flight SQL, always as the caller.",
               "lithify-serve");
  app.set_version_flag("--version", "lithify-serve " LITHIFY_VERSION);
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
  return daemon::Finish(kProgram, Serve(options));
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  return lithify::daemon::Run(lithify::kProgram, [&] { return lithify::Main(argc, argv); });
}
