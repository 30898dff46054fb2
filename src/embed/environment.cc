#include "embed/environment.h"

#include <unistd.h>

#include <optional>
#include <string_view>

extern "C" char** environ;

namespace lithify::embed {

Environment ProcessEnvironment() {
  Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

storage::S3Access::Environment LookUpIn(const Environment& environment) {
  return [environment](const std::string& name) -> std::optional<std::string> {
    for (const auto& [variable, value] : environment) {
      if (variable == name) return value;
    }
    return std::nullopt;
  };
}

}  // namespace lithify::embed
