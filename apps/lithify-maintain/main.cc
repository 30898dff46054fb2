// lithify-maintain: the half that works on its own, as an identity of its own, and nothing else: no
// listener, no statement, no caller (docs/CONFIGURATION.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "daemon/daemon.h"
#include "embed/environment.h"
#include "maintain/maintenance_config.h"
#include "maintain/principal.h"
#include "net/http.h"

namespace lithify {
namespace {

constexpr const char* kProgram = "lithify-maintain";

constexpr const char* kFooter = R"(Example:
  lithify-maintain --config /etc/lithify.toml --check
  lithify-maintain --config /etc/lithify.toml --check-principal

Configuration: [maintenance], [catalogs.NAME], [s3], [limits] and [audit_log] of the file;
LITHIFY_<SECTION>__<FIELD>; --set KEY=VALUE. See docs/CONFIGURATION.md.)";

struct Options {
  std::string config_file;
  std::vector<std::string> set;
  bool check = false;
  bool check_principal = false;
  bool print_config = false;
};

// Gets a token as a job does, and drops it.
Status CheckPrincipal(const maintain::MaintenanceConfig& config) {
  if (config.principal.empty()) {
    return Fail(Code::kInvalid, "there is none", "maintenance.principal");
  }
  const SystemClock clock;
  SystemRandom random;
  LITHIFY_TRY_ASSIGN(const auto principal,
                     maintain::Principal::Make(config.principal, clock, random));
  LITHIFY_TRY(principal->Mint(MakeUuidV7(clock, random)));
  std::printf("client %s gets a token from %s\n", principal->client_id().c_str(),
              net::UrlForMessages(config.principal.token_endpoint).c_str());
  return {};
}

Status Maintain(const Options& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, config::ParseOverrides(options.set));
  LITHIFY_TRY_ASSIGN(
      const maintain::Configuration config,
      maintain::LoadConfiguration(options.config_file, embed::ProcessEnvironment(), overrides));
  daemon::Warn(kProgram, config.warnings);
  if (options.print_config) {
    std::fputs(maintain::DumpMaintenanceConfig(config.maintenance).c_str(), stdout);
    return {};
  }
  if (options.check) return {};
  // Nothing is constructed (R011).
  if (config.maintenance.mode == maintain::Mode::kOff) {
    std::puts("maintenance.mode is \"off\": there is nothing to do");
    return {};
  }
  if (options.check_principal) return CheckPrincipal(config.maintenance);
  return Fail(Code::kInvalid, "say what to do: --check, --check-principal or --print-config");
}

int Main(int argc, char** argv) {
  CLI::App app("Maintains tables on its own, as its own identity.", kProgram);
  app.set_version_flag("--version", "lithify-maintain " LITHIFY_VERSION);
  app.footer(kFooter);
  Options options;
  app.add_option("--config", options.config_file, "Configuration file (TOML)");
  app.add_option("--set", options.set, "KEY=VALUE, above file and environment; may be repeated");
  app.add_flag("--check", options.check, "Check the configuration, and end");
  app.add_flag("--check-principal", options.check_principal,
               "Get a token as the principal, drop it, and end");
  app.add_flag("--print-config", options.print_config,
               "Print [maintenance] as it is in effect, without secrets, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? daemon::kDone : daemon::kUsage;
  }
  return daemon::Finish(kProgram, Maintain(options));
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  return lithify::daemon::Run(lithify::kProgram, [&] { return lithify::Main(argc, argv); });
}
