// lithify serve, maintain, daemon, worker and sql: lithify-serve, lithify-maintain, lithifyd,
// lithify-worker and lithify-sql, beside this program.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"

namespace lithify::cli {
namespace {

// Does not come back if it works.
int Replace(const std::string& program, std::vector<std::string> arguments) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / program).string();
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), program);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  std::fprintf(stderr, "lithify: cannot run %s: %s\n  next: install it beside lithify\n",
               path.c_str(), std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  return kFailed;
}

void AddProgram(CLI::App& app, Command& chosen, const std::string& name, const std::string& program,
                const std::string& what) {
  CLI::App* command = app.add_subcommand(name, what);
  command->prefix_command();
  command->set_help_flag();  // The program's own.
  command->callback([command, program, &chosen] {
    // In the order in which they were given.
    chosen = [arguments = command->remaining(), program] { return Replace(program, arguments); };
  });
}

}  // namespace

void AddServe(CLI::App& app, Command& chosen) {
  AddProgram(app, chosen, "serve", "lithify-serve",
             "The Flight SQL server: procedures and SELECT, as the caller");
}

void AddMaintain(CLI::App& app, Command& chosen) {
  AddProgram(app, chosen, "maintain", "lithify-maintain",
             "Maintenance on its own, as its own identity");
}

void AddDaemon(CLI::App& app, Command& chosen) {
  AddProgram(app, chosen, "daemon", "lithifyd", "The server and maintenance in one process");
}

void AddWorker(CLI::App& app, Command& chosen) {
  AddProgram(app, chosen, "worker", "lithify-worker",
             "Rewrite file groups for a coordinator elsewhere");
}

void AddSql(CLI::App& app, Command& chosen) {
  AddProgram(app, chosen, "sql", "lithify-sql", "Send SQL statements to a Flight SQL server");
}

}  // namespace lithify::cli
