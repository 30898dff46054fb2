#include "config/spill.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace lithify::config {

std::string SpillDirectoryOf(const std::string& configured) {
  if (!configured.empty()) return configured;
  std::error_code error;
  std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) temporary = "/tmp";
  return (temporary / ("lithify-" + std::to_string(geteuid()))).string();
}

}  // namespace lithify::config
