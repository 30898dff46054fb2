// lithify-serve: the interactive server, and nothing else: no scheduler, no identity of its own
// (docs/SERVER.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "daemon/daemon.h"
#include "embed/audit.h"
#include "embed/environment.h"
#include "embed/hive_session.h"
#include "embed/iceberg_session.h"
#include "serve/audit_trail.h"
#include "serve/executor.h"
#include "serve/identity.h"
#include "serve/job_registry.h"
#include "serve/listener.h"
#include "serve/sessions.h"
#include "serve/table_access.h"

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
      config::HiveConfig config,
      embed::LoadConfig("", options.config_file, embed::ProcessEnvironment(), overrides));
  // One log for all that the server does, whatever catalog it is in.
  if (config.audit_log.path.empty()) config.audit_log.path = embed::StatePath("server.audit.jsonl");
  const config::ServerConfig& server = config.server;
  SystemClock clock;
  SystemRandom random;
  const auto warn = [](const Error& error) {
    daemon::Tell(kProgram, "audit: " + error.ToString());
  };
  LITHIFY_TRY_ASSIGN(auto access, serve::TableAccess::Make(config, clock, warn));
  LITHIFY_TRY_ASSIGN(const auto authenticator,
                     serve::MakeAuthenticator(config.auth, clock, random));
  serve::JobRegistry jobs({.running_per_owner = static_cast<size_t>(server.jobs_per_user_max),
                           .running = static_cast<size_t>(server.jobs_max)},
                          clock, random);
  serve::Sessions sessions({.idle = server.session_idle, .absolute = server.session_max}, clock,
                           random);
  serve::Executor executor(std::move(access), jobs);
  daemon::Warn(kProgram, authenticator->Warnings());
  if (options.check) return {};

  const daemon::StopSignals signals;
  LITHIFY_TRY_ASSIGN(auto log, embed::OpenAuditFile(config.audit_log, config.audit_log.path, warn));
  serve::AuditTrail audit(std::move(log), warn);
  LITHIFY_TRY_ASSIGN(const auto listener, serve::Listener::Start({.config = server,
                                                                  .authenticator = *authenticator,
                                                                  .executor = executor,
                                                                  .jobs = jobs,
                                                                  .sessions = sessions,
                                                                  .audit = audit,
                                                                  .clock = clock,
                                                                  .random = random,
                                                                  .version = LITHIFY_VERSION}));
  std::string catalogs;
  for (const std::string& name : executor.access().catalogs()) {
    catalogs += (catalogs.empty() ? "" : ", ") + name;
  }
  std::printf("lithify serves Flight SQL at %s, catalogs: %s\n", listener->location().c_str(),
              catalogs.c_str());
  std::fflush(stdout);
  signals.Wait();
  daemon::Tell(kProgram, "stopping");
  listener->Stop();
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
