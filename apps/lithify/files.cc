// lithify files: the live set of one partition, for scripts and engines.
#include <filesystem>
#include <memory>

#include "base/text.h"
#include "commands.h"

namespace lithify::cli {
namespace {

struct Options {
  CommonOptions common;  // `root` may be empty.
  std::string partition;
  bool zero = false;
};

struct Place {
  std::string root;
  std::string key_prefix;  // With the trailing slash.
};

bool IsPartition(const config::HiveConfig& config, const std::string& key_prefix) {
  for (const SeriesLayout& layout : config.series) {
    if (table::ParsePartition(layout, key_prefix)) return true;
  }
  return false;
}

// Below --root: a key, or a path that leads there.
Result<Place> PlaceBelow(const std::string& root, const std::string& partition) {
  LITHIFY_TRY_ASSIGN(const embed::Root place, embed::ParseRoot(root));
  std::string absolute;
  if (!place.s3) {
    std::error_code error;
    absolute = std::filesystem::canonical(place.path, error).string();
    if (error) {
      return Fail(Code::kNotFound, "the root cannot be opened: " + error.message(), place.path);
    }
  } else {
    absolute = place.s3->ToString();
  }
  return Place{.root = absolute, .key_prefix = embed::KeyBelow(absolute, partition) + "/"};
}

// The nearest directory above that has a layout in which the path is a partition.
Result<Place> FindPlace(const Options& options) {
  if (!options.common.root.empty()) return PlaceBelow(options.common.root, options.partition);
  LITHIFY_TRY_ASSIGN(const embed::Root place, embed::ParseRoot(options.partition));
  if (place.s3) {
    return Fail(Code::kInvalid, "the root of a tree in a bucket is not looked for",
                options.partition, "name it with --root s3://bucket/prefix");
  }
  const std::string& local = place.path;
  std::error_code error;
  const auto absolute = std::filesystem::canonical(local, error);
  if (error || !std::filesystem::is_directory(absolute, error)) {
    return Fail(Code::kNotFound, "the partition is no directory that exists", local,
                "give the path of a partition directory, or --root and a key below it");
  }
  for (auto above = absolute; above.has_relative_path();) {
    above = above.parent_path();
    CommonOptions common = options.common;
    common.root = above.string();
    LITHIFY_TRY_ASSIGN(const config::HiveConfig config, LoadConfig(common));
    const std::string key = absolute.lexically_relative(above).string() + "/";
    if (IsPartition(config, key)) return Place{.root = above.string(), .key_prefix = key};
  }
  return Fail(Code::kInvalid, "no directory above has a layout in which this is a partition",
              absolute.string(), "name the root with --root, or its layout with --config");
}

int Run(Options options) {
  const CancelFlag& cancel = CatchSignals();
  auto place = FindPlace(options);
  if (!place) return Report(place.error());
  options.common.root = place->root;
  int code = kDone;
  const auto session = OpenSession(options.common, code);
  if (!session) return code;
  const auto progress = StartProgress({.quiet = true}, session->clock(), "files");
  const auto work = session->Begin(*progress, cancel);
  const auto state = work->job().LiveFiles(place->key_prefix);
  if (!state) return Report(state.error());
  std::string text;
  Json files = Json::array();
  for (const HiveFile& file : state->files) {
    if (file.state != FileState::kLive) continue;
    const std::string path = session->root() + (session->root().ends_with('/') ? "" : "/") +
                             state->id.key_prefix + file.name;
    text += path + (options.zero ? '\0' : '\n');
    files.push_back({{"path", path}, {"name", file.name}, {"bytes", file.size}});
  }
  if (!options.common.json) return Print(text) ? kDone : kFailed;
  Json out = ToJson(state->id);
  out["root"] = session->root();
  out["generation"] = state->manifest ? state->manifest->manifest.generation : 0;
  out["files"] = std::move(files);
  return PrintJson(out) ? kDone : kFailed;
}

}  // namespace

void AddFiles(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("files", "Absolute paths of the live files of one partition");
  const auto options = std::make_shared<Options>();
  command->add_option("PARTITION", options->partition, "Path of the partition's directory")
      ->required();
  command->add_option("--root", options->common.root,
                      "Directory of the tree (default: found above PARTITION)");
  CLI::Option* zero =
      command->add_flag("-0,--null", options->zero, "End each path with a NUL, not a newline");
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  command->get_option("--json")->excludes(zero);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
