// lithify-maintain: the half that works on its own, as an identity of its own, and nothing else: no
// listener, no statement, no caller (docs/CONFIGURATION.md).
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "daemon/daemon.h"
#include "embed/environment.h"
#include "html/write_page.h"
#include "maintain/maintenance_config.h"
#include "maintain/principal.h"
#include "maintain/report.h"
#include "maintain/service.h"
#include "net/http.h"
#include "observe/progress.h"
#include "report_text.h"
#include "telemetry/open_telemetry.h"
#include "workers/open_fleet.h"

namespace lithify {
namespace {

constexpr const char* kProgram = "lithify-maintain";

constexpr const char* kFooter = R"(Example:
  lithify-maintain --config /etc/lithify.toml              runs until it is stopped
  lithify-maintain run-once --config /etc/lithify.toml     one pass, for an external cron
  lithify-maintain plan --config /etc/lithify.toml         what would be done, in which order, why
  lithify-maintain status --config /etc/lithify.toml       what the last tick saw
  lithify-maintain reset --table lake.sales.orders --config /etc/lithify.toml
  lithify-maintain --config /etc/lithify.toml --check

Exit codes: 0 done or nothing to do, 1 something failed or a table is out of reach, 2 wrong usage
or configuration. It stops on SIGTERM and SIGINT: nothing is committed after that.
Configuration: [maintenance], [catalogs.NAME], [s3], [limits] and [audit_log] of the file;
LITHIFY_<SECTION>__<FIELD>; --set KEY=VALUE. See docs/MAINTENANCE.md.)";

enum class Task { kRun, kRunOnce, kPlan, kStatus, kReset };

struct Options {
  std::string config_file;
  std::vector<std::string> set;
  Task task = Task::kRun;
  bool scheduled = false;
  bool json = false;
  bool all = false;
  std::string table;  // kReset.
  std::string html;   // kStatus: a file. Empty: no page.
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

// What must make a script stop: nothing was seen, a gate is shut, a job failed.
bool IsBad(const maintain::TickReport& report) {
  return report.error || !report.loud.empty() ||
         std::ranges::any_of(report.jobs,
                             [](const maintain::JobLine& job) { return job.status == "failed"; });
}

// "lake and 2 trees".
std::string Maintained(const maintain::MaintenanceConfig& config) {
  const size_t trees = config.trees.size();
  std::string text = std::to_string(trees) + (trees == 1 ? " tree" : " trees");
  if (config.catalog.empty()) return text;
  return trees == 0 ? config.catalog : config.catalog + " and " + text;
}

size_t RowsMax(const Options& options) { return options.all ? kAllRows : kRowsShown; }

// The user of this process, for the record.
std::string UserName() {
  std::vector<char> buffer(16 * 1024);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_name;
  }
  return std::to_string(geteuid());
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Result<int> PrintStatus(const maintain::Configuration& config, const Options& options) {
  const std::string path = maintain::StatusPath(config.shared, config.maintenance);
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Fail(Code::kNotFound, "no tick has ended yet, or its status cannot be read", path,
                "start lithify-maintain, as the user who runs this");
  }
  LITHIFY_TRY_ASSIGN(const maintain::TickReport report, maintain::ParseReport(text.str()));
  if (!options.html.empty()) {
    LITHIFY_TRY(apps::WritePage(options.html, {.kind = "maintenance",
                                               .key = "report",
                                               .json = text.str(),
                                               .program = "lithify " LITHIFY_VERSION}));
  } else {
    Print(options.json ? text.str() + "\n"
                       : StatusText(report, isatty(STDOUT_FILENO) == 1, RowsMax(options)));
  }
  // A scheduler that has stopped says nothing: its last words look as if all were well.
  const Duration age = SystemClock().Now() - report.ended;
  if (config.maintenance.scheduler_runs() && age > 10 * config.maintenance.scheduler.tick) {
    daemon::Tell(kProgram, "the last tick ended " + FormatDuration(age) +
                               " ago: it is not running, or a job takes that long");
    return daemon::kFailed;
  }
  return IsBad(report) ? daemon::kFailed : daemon::kDone;
}

Result<int> RunService(const maintain::Configuration& config, const Options& options) {
  // Signals come to the thread that waits for them: all others begin after this.
  const daemon::StopSignals signals;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  SystemClock clock;
  const auto progress =
      options.task == Task::kRunOnce && !options.json
          ? observe::MakeProgress(STDERR_FILENO, observe::DetectProgressMode(STDERR_FILENO), clock,
                                  "maintain")
          : observe::MakeSilentProgress();
  apps::OpenedTelemetry observed(kProgram,
                                 [](const std::string& line) { daemon::Tell(kProgram, line); });
  LITHIFY_TRY_ASSIGN(const auto workers, apps::OpenFleet(config.shared.fleet, [](const auto& line) {
                       daemon::Tell(kProgram, "workers: " + line);
                     }));
  LITHIFY_TRY_ASSIGN(
      const auto service,
      maintain::Service::Make(
          config, embed::ProcessEnvironment(), *progress,
          [](const Error& error) { daemon::Tell(kProgram, "audit: " + error.ToString()); }, nullptr,
          workers ? &workers->fleet() : nullptr, &observed.metrics(), observed.telemetry()));
  std::thread waiter([&] {
    signals.Wait();
    service->Stop();
  });
  int code = daemon::kDone;
  if (options.task == Task::kRun) {
    std::printf("lithify maintains %s, mode %s\n", Maintained(config.maintenance).c_str(),
                std::string(maintain::ModeName(config.maintenance.mode)).c_str());
    std::fflush(stdout);
    service->Run([](const maintain::TickReport& report) {
      if (const std::string line = TickLine(report); !line.empty()) daemon::Tell(kProgram, line);
    });
    daemon::Tell(kProgram, "stopped");
  } else {
    const bool plan = options.task == Task::kPlan;
    const maintain::TickReport report =
        service->Tick({.on_demand = !options.scheduled, .plan_only = plan});
    progress->Finish();
    if (options.json) {
      Print(maintain::ReportJson(report, &service->metrics()) + "\n");
    } else {
      const size_t rows = RowsMax(options);
      Print(plan ? PlanText(report, terminal, rows) : RunText(report, terminal, rows));
    }
    if (IsBad(report)) code = daemon::kFailed;
  }
  kill(getpid(), SIGTERM);  // Nobody but the waiter gets it.
  waiter.join();
  return code;
}

Result<int> Maintain(const Options& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, config::ParseOverrides(options.set));
  LITHIFY_TRY_ASSIGN(
      const maintain::Configuration config,
      maintain::LoadConfiguration(options.config_file, embed::ProcessEnvironment(), overrides));
  daemon::Warn(kProgram, config.warnings);
  if (options.print_config) {
    Print(maintain::DumpMaintenanceConfig(config.maintenance));
    return daemon::kDone;
  }
  if (options.check) return daemon::kDone;
  // Nothing is constructed (R011).
  if (config.maintenance.mode == maintain::Mode::kOff) {
    std::puts("maintenance.mode is \"off\": there is nothing to do");
    return daemon::kDone;
  }
  if (options.check_principal) {
    LITHIFY_TRY(CheckPrincipal(config.maintenance));
    return daemon::kDone;
  }
  if (options.task == Task::kStatus) return PrintStatus(config, options);
  if (options.task == Task::kReset) {
    LITHIFY_TRY_ASSIGN(const std::string ends,
                       maintain::AskForReset(config, options.table, UserName()));
    Print(ends);
    return daemon::kDone;
  }
  if (options.task == Task::kRun && !config.maintenance.scheduler_runs()) {
    std::puts(
        "maintenance.scheduler.enabled is false: run-once and plan work, nothing runs by "
        "itself");
    return daemon::kDone;
  }
  return RunService(config, options);
}

int Main(int argc, char** argv) {
  CLI::App app("Maintains tables on its own, as its own identity.", kProgram);
  app.set_version_flag("--version", "lithify-maintain " LITHIFY_VERSION);
  app.footer(kFooter);
  Options options;
  const auto common = [&options](CLI::App& to) {
    to.add_option("--config", options.config_file, "Configuration file (TOML)");
    to.add_option("--set", options.set, "KEY=VALUE, above file and environment; may be repeated");
  };
  common(app);
  app.add_flag("--check", options.check, "Check the configuration, and end");
  app.add_flag("--check-principal", options.check_principal,
               "Get a token as the principal, drop it, and end");
  app.add_flag("--print-config", options.print_config,
               "Print [maintenance] as it is in effect, without secrets, and end");
  const auto add = [&](const char* name, const char* what, Task task) {
    CLI::App* command = app.add_subcommand(name, what);
    common(*command);
    if (task != Task::kReset) {
      command->add_flag("--json", options.json, "The whole report as JSON");
      command->add_flag("--all", options.all, "All lines, however many");
    }
    command->callback([&options, task] { options.task = task; });
    return command;
  };
  add("run-once", "One pass over all opted-in tables, now", Task::kRunOnce)
      ->add_flag("--scheduled", options.scheduled, "Only tables that are due by their schedule");
  add("plan", "What would be done, in which order, and why: nothing is changed", Task::kPlan);
  add("status", "What the last tick saw and did", Task::kStatus)
      ->add_option("--html", options.html, "Write a page to FILE instead")
      ->type_name("FILE");
  add("reset", "End the breaker and the back-off of a table or tree, at the next tick",
      Task::kReset)
      ->add_option("--table", options.table, "As plan and status name it")
      ->required();
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? daemon::kDone : daemon::kUsage;
  }
  const auto done = Maintain(options);
  return done ? *done : daemon::Finish(kProgram, Fail(done.error()));
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  return lithify::daemon::Run(lithify::kProgram, [&] { return lithify::Main(argc, argv); });
}
