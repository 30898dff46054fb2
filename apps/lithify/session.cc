#include "session.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

CancelFlag g_cancel;
std::unique_ptr<apps::OpenedTelemetry> g_telemetry;

extern "C" void OnSignal(int) {
  if (g_cancel.requested()) _exit(kStopped);
  g_cancel.Request();
}

}  // namespace

void AddRoot(CLI::App& command, CommonOptions& options) {
  command
      .add_option("ROOT", options.root,
                  "Directory of the tree, the parent of the series, or s3://bucket/prefix")
      ->required();
}

void AddConfigOptions(CLI::App& command, CommonOptions& options) {
  command.add_option("--config", options.config_file,
                     "Configuration file (default: ROOT/lithify.toml if it is there)");
  command
      .add_option("--set", options.set,
                  "Set one configuration key, like --set compaction.min_files=8; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

void AddJson(CLI::App& command, CommonOptions& options) {
  command.add_flag("--json", options.json, "Print one JSON document instead of text");
}

void AddProgressOptions(CLI::App& command, CommonOptions& options) {
  command.add_flag("-q,--quiet", options.quiet, "Print errors only");
  command.add_flag("--no-progress", options.no_progress, "No progress bar and no progress lines");
}

void AddFilters(CLI::App& command, FilterOptions& filters) {
  command.add_option("--partition", filters.partition,
                     "Only partitions below this path, like data/tenant_id=a/year=2026");
  command.add_option("--tenant", filters.tenant, "Only this tenant");
  command.add_option("--since", filters.since,
                     "Only partitions that end after this UTC time, like 2026-11-29T16");
  command.add_option("--series", filters.series, "Only this series, like data");
}

void AddOverride(CLI::App& command, CommonOptions& options, const std::string& flag,
                 const std::string& key, const std::string& what) {
  command
      .add_option_function<std::string>(
          flag,
          [&options, flag, key](const std::string& value) {
            options.overrides.push_back({.key = key, .value = value, .source = flag});
          },
          what + " (" + key + ")")
      ->type_name("VALUE");
}

Result<std::vector<config::Override>> Overrides(const CommonOptions& options) {
  LITHIFY_TRY_ASSIGN(auto out, config::ParseOverrides(options.set));
  out.insert(out.end(), options.overrides.begin(), options.overrides.end());
  return out;
}

Result<config::HiveConfig> LoadConfig(const CommonOptions& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, Overrides(options));
  return embed::LoadConfig(options.root, options.config_file, embed::ProcessEnvironment(),
                           overrides, [] { return g_cancel.requested(); });
}

Result<table::PartitionFilter> MakeFilter(const FilterOptions& filters, const std::string& root) {
  table::PartitionFilter out;
  out.series = filters.series;
  out.tenant = filters.tenant;
  if (!filters.partition.empty()) out.partition = embed::KeyBelow(root, filters.partition);
  if (!filters.since.empty()) {
    auto since = ParseTime(filters.since);
    if (!since) return Fail(std::move(since.error()).In("--since"));
    out.since = *since;
  }
  return out;
}

apps::OpenedTelemetry& ProcessTelemetry() {
  if (!g_telemetry) {
    g_telemetry = std::make_unique<apps::OpenedTelemetry>("lithify", [](const std::string& line) {
      std::fprintf(stderr, "lithify: %s\n", line.c_str());
    });
  }
  return *g_telemetry;
}

void EndTelemetry() { g_telemetry.reset(); }

std::unique_ptr<embed::HiveSession> OpenSession(const CommonOptions& options, int& exit_code) {
  auto config = LoadConfig(options);
  if (!config) {
    exit_code = Report(config.error());
    return nullptr;
  }
  if (config->low_priority) embed::LowerThreadPriority();
  auto session =
      embed::HiveSession::Open(options.root, std::move(*config), embed::ProcessEnvironment());
  if (!session) {
    PrintError(session.error());
    exit_code = session.error().code == Code::kUnsupported ? kUsage : kUnreadable;
    return nullptr;
  }
  (*session)->StopWhen([] { return g_cancel.requested(); });
  (*session)->OnAuditError(PrintUnrecorded);
  (*session)->Observe(&ProcessTelemetry().metrics(), ProcessTelemetry().telemetry());
  return std::move(*session);
}

std::unique_ptr<observe::Progress> StartProgress(const CommonOptions& options, const Clock& clock,
                                                 std::string label) {
  const bool shown = !options.quiet && !options.no_progress;
  return observe::MakeProgress(
      STDERR_FILENO,
      shown ? observe::DetectProgressMode(STDERR_FILENO) : observe::ProgressMode::kNone, clock,
      std::move(label));
}

CancelFlag& CatchSignals() {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A write over the limit of a file's size (ulimit -f) is an error that says so.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
  return g_cancel;
}

int ExitFor(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
    case Code::kUnsupported: return kUsage;
    case Code::kCancelled: return kStopped;
    default: return kUnreadable;
  }
}

std::string ErrorText(const Error& error) {
  std::string out = std::string(CodeName(error.code)) + ": ";
  if (!error.context.empty()) out += Printable(error.context) + ": ";
  // The lines of a configuration error stay lines.
  for (const char c : error.message) out += c == '\n' ? std::string("\n") : Printable({&c, 1});
  if (!error.hint.empty()) out += "\n  next: " + Printable(error.hint);
  return out;
}

void PrintError(const Error& error) {
  std::fprintf(stderr, "%s %s\n", Paint("lithify:", Tone::kBad, ColourOn(STDERR_FILENO)).c_str(),
               ErrorText(error).c_str());
}

void PrintUnrecorded(const Error& error) {
  Error told = error;
  told.message += "; the work goes on without the record (audit_log.on_error)";
  PrintError(told);
}

int Report(const Error& error) {
  PrintError(error);
  return ExitFor(error);
}

bool Print(std::string_view text) {
  const bool ok =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!ok) std::fprintf(stderr, "lithify: cannot write to stdout: %s\n", std::strerror(errno));
  return ok;
}

bool PrintJson(const Json& json) {
  return Print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

bool ColourOn(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  return observe::DetectProgressMode(fd) == observe::ProgressMode::kBar;
}

bool UnicodeOn() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

Json ToJson(const Error& error) {
  return {{"code", CodeName(error.code)},
          {"message", error.message},
          {"context", error.context},
          {"hint", error.hint}};
}

Json ToJson(const PartitionId& id) {
  Json values = Json::object();
  for (const auto& [name, value] : id.values) values[name] = value;
  return {{"partition", id.key_prefix},
          {"series", id.series},
          {"tenant", id.tenant},
          {"values", std::move(values)},
          {"start", id.start ? Json(FormatTime(*id.start)) : Json()},
          {"end", id.end ? Json(FormatTime(*id.end)) : Json()}};
}

Json ToJson(const std::vector<table::SkippedPath>& skipped) {
  Json out = Json::array();
  for (const table::SkippedPath& path : skipped) {
    out.push_back({{"key", path.key}, {"reason", path.reason}});
  }
  return out;
}

std::string TimeOrDash(const std::optional<Time>& time) {
  // To the second: nobody compares compactions by the microsecond.
  return time ? FormatTime(*time).substr(0, 19) + "Z" : "-";
}

}  // namespace lithify::cli
