#include "maintain/maintenance_config.h"
namespace lithify::maintain {
std::string_view ModeName(Mode mode) {
  for (const auto& [value, name] : kModes) {
    if (value == mode) return name;
  }
  return "";
}
}  // namespace lithify::maintain
