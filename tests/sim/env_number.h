// Numbers that a run of the simulations is given by its environment.
#ifndef LITHIFY_TESTS_SIM_ENV_NUMBER_H_
#define LITHIFY_TESTS_SIM_ENV_NUMBER_H_

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

namespace lithify::sim {

// nullopt: it is not set, or, with a failure of the test, no number.
inline std::optional<uint64_t> EnvNumber(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) {
    ADD_FAILURE() << name << " is no number: " << view;
    return std::nullopt;
  }
  return value;
}

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_ENV_NUMBER_H_
