#include "embed/environment.h"

#include <optional>

namespace lithify::embed {

storage::S3Access::Environment LookUpIn(const Environment& environment) {
  return [environment](const std::string& name) -> std::optional<std::string> {
    for (const auto& [variable, value] : environment) {
      if (variable == name) return value;
    }
    return std::nullopt;
  };
}

}  // namespace lithify::embed
