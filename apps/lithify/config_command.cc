// lithify config: the configuration as it is in effect.
#include <memory>

#include "commands.h"
#include "config/config.h"

namespace lithify::cli {

void AddConfig(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "config", "Print the effective configuration as TOML: file, environment and --set together");
  const auto options = std::make_shared<CommonOptions>();
  command->add_option("ROOT", options->root, "Directory of the tree, for its lithify.toml");
  AddConfigOptions(*command, *options);
  command->callback([options, &chosen] {
    chosen = [options]() -> int {
      const auto config = LoadConfig(*options);
      if (!config) return Report(config.error());
      return Print(config::DumpHiveConfig(*config)) ? kDone : kFailed;
    };
  });
}

}  // namespace lithify::cli
