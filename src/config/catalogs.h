// The [catalogs.NAME] tables. Private to this module.
#ifndef LITHIFY_CONFIG_CATALOGS_H_
#define LITHIFY_CONFIG_CATALOGS_H_

#include <string>
#include <vector>

#include "config/config.h"
#include "config/sources.h"

namespace lithify::config {

// What is wrong is added to `problems`, one line each.
std::vector<CatalogConfig> ReadCatalogs(const std::vector<CatalogTable>& tables,
                                        std::vector<std::string>& problems);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_CATALOGS_H_
