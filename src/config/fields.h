// The list of all keys of HiveConfig outside [[series]] and [catalogs.NAME]. Private to this
// module.
#ifndef LITHIFY_CONFIG_FIELDS_H_
#define LITHIFY_CONFIG_FIELDS_H_

#include <span>
#include <string_view>

#include "config/config.h"
#include "config/section.h"

namespace lithify::config {

using HiveField = Field<HiveConfig>;

// In the order of the documentation and the dump; keys of one section are together.
std::span<const HiveField> Fields();
const HiveField* FindField(std::string_view key);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_FIELDS_H_
