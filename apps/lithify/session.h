// What all commands share: options, the opened tree, signals, output.
#ifndef LITHIFY_APPS_LITHIFY_SESSION_H_
#define LITHIFY_APPS_LITHIFY_SESSION_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "embed/hive_session.h"
#include "exit_code.h"
#include "table/hive_layout.h"
#include "telemetry/open_telemetry.h"

namespace lithify::cli {

using Json = nlohmann::ordered_json;

// What main runs after parsing: the chosen command.
using Command = std::function<int()>;

struct CommonOptions {
  std::string root = {};
  std::string config_file = {};
  std::vector<std::string> set = {};  // "key=value".
  bool json = false;
  bool quiet = false;
  bool no_progress = false;
  // Flags that are short for a --set.
  std::vector<config::Override> overrides = {};
};

struct FilterOptions {
  std::string series = {};
  std::string partition = {};
  std::string tenant = {};
  std::string since = {};
};

void AddRoot(CLI::App& command, CommonOptions& options);
void AddConfigOptions(CLI::App& command, CommonOptions& options);
void AddJson(CLI::App& command, CommonOptions& options);
void AddProgressOptions(CLI::App& command, CommonOptions& options);
void AddFilters(CLI::App& command, FilterOptions& filters);
// `flag` sets `key`, above file and environment.
void AddOverride(CLI::App& command, CommonOptions& options, const std::string& flag,
                 const std::string& key, const std::string& what);

// --set and the flags, as overrides. kInvalid for one without '='.
Result<std::vector<config::Override>> Overrides(const CommonOptions& options);
Result<config::HiveConfig> LoadConfig(const CommonOptions& options);
// `root` is for "--partition" given as a path.
Result<table::PartitionFilter> MakeFilter(const FilterOptions& filters, const std::string& root);

// Of this process; begun by the first call. What it has is sent by EndTelemetry(), within two
// seconds, or not at all.
apps::OpenedTelemetry& ProcessTelemetry();
void EndTelemetry();

// Loads the configuration and opens the tree; lowers the priority of the process if that says so.
// On failure the reason is on stderr, and `exit_code` is set.
std::unique_ptr<embed::HiveSession> OpenSession(const CommonOptions& options, int& exit_code);

// A bar on a terminal, plain lines elsewhere; nothing with --quiet or --no-progress.
std::unique_ptr<observe::Progress> StartProgress(const CommonOptions& options, const Clock& clock,
                                                 std::string label);

// The first SIGINT or SIGTERM raises the flag, the second ends the process at once.
CancelFlag& CatchSignals();

// The exit code for an operation that failed as a whole.
int ExitFor(const Error& error);
// "lithify: …" on stderr, what to do next on a line of its own.
void PrintError(const Error& error);
// Of a record of the audit log that could not be written, where that stops nothing.
void PrintUnrecorded(const Error& error);
std::string ErrorText(const Error& error);
// Prints and gives the exit code.
int Report(const Error& error);

// Writes to stdout, all of it. False (with a message) if that fails, e.g. on a full disk.
bool Print(std::string_view text);
bool PrintJson(const Json& json);

bool ColourOn(int fd);
bool UnicodeOn();

Json ToJson(const Error& error);
Json ToJson(const PartitionId& id);
Json ToJson(const std::vector<table::SkippedPath>& skipped);
std::string TimeOrDash(const std::optional<Time>& time);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_SESSION_H_
