#include "commit/iceberg_new_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "table/iceberg_value.h"

namespace lithify::commit {
namespace {

// Where data files of the table may lie, canonical, with a trailing slash.
Result<std::vector<std::string>> DataLocations(storage::Locations& locations,
                                               const iceberg::TableMetadata& table) {
  std::vector<std::string> roots;
  for (const std::string& location : {table.location, table.Property("write.data.path", ""),
                                      table.Property("write.object-storage.path", ""),
                                      table.Property("write.folder-storage.path", "")}) {
    if (location.empty()) continue;
    // As the parent of a file, since only parents may be links.
    constexpr std::string_view kFile = "_";
    std::string file = location;
    while (file.ends_with('/')) file.pop_back();
    file.append("/").append(kFile);
    LITHIFY_TRY_ASSIGN(std::string root, locations.Canonical(file));
    root.resize(root.size() - kFile.size());
    roots.push_back(std::move(root));
  }
  return roots;
}

}  // namespace

Status CheckNewDataFiles(storage::Locations& locations, const iceberg::TableMetadata& table,
                         std::span<const iceberg::DataFile> files) {
  LITHIFY_TRY_ASSIGN(const std::vector<std::string> roots, DataLocations(locations, table));
  for (const iceberg::DataFile& output : files) {
    const std::string& path = output.file_path;
    const iceberg::PartitionSpec* spec = table.FindSpec(output.spec_id);
    if (spec == nullptr || spec->fields.size() != output.partition.size()) {
      return Fail(Code::kInternal,
                  "an output's partition does not fit spec " + std::to_string(output.spec_id),
                  path);
    }
    for (const iceberg::PartitionField& field : spec->fields) {
      if (table::ParseTransform(field.transform).kind != table::Transform::Kind::kUnknown) continue;
      return Fail(Code::kUnsupported,
                  "no file may be written under the unknown transform " + field.transform, path);
    }
    LITHIFY_TRY_ASSIGN(const std::string place_name, locations.Canonical(path));
    const auto below = [&](const std::string& root) { return place_name.starts_with(root); };
    if (std::ranges::none_of(roots, below)) {
      return Fail(Code::kInternal, "an output is not below the table's data location", path);
    }
    LITHIFY_TRY_ASSIGN(const storage::Place place, locations.Resolve(path));
    const auto info = place.store->Stat(place.key);
    if (!info && info.error().code != Code::kNotFound) return Fail(Error(info.error()).In(path));
    if (!info) return Fail(Code::kCorrupt, "an output is gone", path);
    if (info->size != output.file_size_in_bytes) {
      return Fail(Code::kCorrupt,
                  "an output has " + std::to_string(info->size) + " bytes instead of " +
                      std::to_string(output.file_size_in_bytes),
                  path);
    }
  }
  return {};
}

}  // namespace lithify::commit
