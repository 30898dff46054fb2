// lithify-serve: the interactive server, and nothing else: no scheduler, no identity of its own
// (docs/SERVER.md).
#include <malloc.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
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

// As those of the command line (docs/CLI.md).
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

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

void PrintError(const Error& error) {
  std::fprintf(stderr, "lithify-serve: %s\n", error.ToString().c_str());
}

Result<config::HiveConfig> LoadConfig(const Options& options) {
  std::vector<config::Override> overrides;
  for (const std::string& item : options.set) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) {
      return Fail(Code::kInvalid, "\"" + item + "\" is no KEY=VALUE", "--set");
    }
    overrides.push_back(
        {.key = item.substr(0, equals), .value = item.substr(equals + 1), .source = "--set"});
  }
  return embed::LoadConfig("", options.config_file, embed::ProcessEnvironment(), overrides);
}

// The whole server, from its configuration to the signal that ends it.
Status Serve(const Options& options) {
  LITHIFY_TRY_ASSIGN(config::HiveConfig config, LoadConfig(options));
  // One log for all that the server does, whatever catalog it is in.
  if (config.audit_log.path.empty()) config.audit_log.path = embed::StatePath("server.audit.jsonl");
  const config::ServerConfig& server = config.server;
  SystemClock clock;
  SystemRandom random;
  const auto warn = [](const Error& error) {
    std::fprintf(stderr, "lithify-serve: audit: %s\n", error.ToString().c_str());
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
  for (const std::string& warning : authenticator->Warnings()) {
    std::fprintf(stderr, "lithify-serve: warning: %s\n", warning.c_str());
  }
  if (options.check) return {};

  // Signals come to this thread alone: all others begin after it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
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
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "lithify-serve: stopping\n");
  listener->Stop();
  return {};
}

int Main(int argc, char** argv) {
  // Callers' tokens are in memory while their statements run: no core file, and nobody else's look
  // into it (R267).
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Memory that is freed is overwritten, that of the libraries too, through which tokens pass:
  // nothing of a caller stays. A rewrite takes 2 to 4 % more processor time by it.
  mallopt(M_PERTURB, 0xa5);
  // Nobody reads our warnings any more: no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
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
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  const Status served = Serve(options);
  if (served) return kDone;
  PrintError(served.error());
  return served.error().code == Code::kInvalid ? kUsage : kFailed;
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  try {
    return lithify::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lithify-serve: internal: %s\n", error.what());
    return lithify::kFailed;
  }
}
