// Where values come from: the TOML file, and the series in it. Private to this module.
#ifndef LITHIFY_CONFIG_SOURCES_H_
#define LITHIFY_CONFIG_SOURCES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace lithify::config {

// One [[series]], with the keys as written.
struct SeriesTable {
  std::vector<Assignment> values;  // Keys without the "series." prefix.
  std::string source;
};

// One [catalogs.NAME], with the keys as written.
struct CatalogTable {
  std::string name;
  std::vector<Assignment> values;  // Keys without the "catalogs.NAME." prefix.
  std::string source;
};

struct FileContent {
  std::vector<Assignment> values;
  std::vector<SeriesTable> series;
  std::vector<CatalogTable> catalogs;
};

// Reads the file; what is wrong is added to `problems`, one line each.
FileContent ReadFileContent(std::string_view toml, std::string_view file_name,
                            const Environment& environment, std::vector<std::string>& problems);

// The variables below `section`: LITHIFY_<SECTION>__<FIELD>. Empty: all but those that IsOthers().
std::vector<Assignment> ReadEnvironment(const Environment& environment, std::string_view section);

// "compaction.min_files" -> "LITHIFY_COMPACTION__MIN_FILES".
std::string EnvironmentName(std::string_view key);

// The layout that one [[series]] describes.
SeriesLayout ReadSeries(const SeriesTable& table, std::vector<std::string>& problems);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_SOURCES_H_
