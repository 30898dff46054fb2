// The list of all keys outside [[series]]: name, default, range, how to set it and how to print
// it. Loading, environment, flags, messages and the dump all read this one list. Private to this
// module.
#ifndef LITHIFY_CONFIG_FIELDS_H_
#define LITHIFY_CONFIG_FIELDS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace lithify::config {

// A value as it was written, before it is known what the key wants. From the environment and the
// command line it is always text.
struct Raw {
  std::variant<int64_t, double, bool, std::string, std::vector<std::string>> value;
  bool typed = false;  // From TOML, where 8 and "8" differ.
};

struct Field {
  std::string_view key;  // "compaction.min_files".
  // kInvalid, with what is wrong and the allowed range, without the key.
  std::function<Status(HiveConfig&, const Raw&)> set;
  std::function<std::string(const HiveConfig&)> dump;  // As a TOML value.
};

// In the order of the documentation and the dump; keys of one section are together.
std::span<const Field> Fields();
const Field* FindField(std::string_view key);

// The one of `candidates` nearest to `name`, as "; did you mean …?" (with its section before it),
// or nothing if all are far.
std::string Suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view section = {});

std::string TomlText(std::string_view text);
std::string TomlList(const std::vector<std::string>& items);

// Text without control characters; kInvalid otherwise.
Result<std::string> ReadText(const Raw& raw);
// A TOML array of texts, or one text with commas. No empty and no repeated item.
Result<std::vector<std::string>> ReadList(const Raw& raw);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_FIELDS_H_
