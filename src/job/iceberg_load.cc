#include "job/iceberg_load.h"

#include "group/live_files.h"
#include "group/target.h"
#include "job/iceberg_job.h"

namespace lithify::job {

Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error) {
  if (error.code != Code::kNotFound) return error;
  const auto now = services.catalog.LoadTable(seen.ident);
  if (!now && now.error().code != Code::kNotFound) {
    // Nobody knows why the file is gone: that the table could not be loaded decides what to do.
    Error failed = now.error();
    failed.message += "; it was to tell why a file is gone: " + error.ToString();
    return failed;
  }
  if (!now || now->metadata_location == seen.metadata_location) return error;
  return {Code::kConflict, "the table changed while it was read: " + error.ToString(),
          seen.ident.ToString(), "try again"};
}

Result<iceberg::LiveSet> LoadLiveSet(storage::Locations& locations,
                                     const iceberg::TableMetadata& table,
                                     const iceberg::Snapshot& snapshot, const std::string& where) {
  auto live = group::LoadLiveFiles(locations, table, snapshot, {});
  if (!live) return Fail(std::move(live.error()).In(where));
  return live;
}

plan::RewriteOptions WithTableDefaults(plan::RewriteOptions options,
                                       const iceberg::TableMetadata& table) {
  const FileSizes sizes = group::WithTableDefaults({.target = options.target_file_size_bytes,
                                                    .min = options.min_file_size_bytes,
                                                    .max = options.max_file_size_bytes},
                                                   table);
  options.target_file_size_bytes = sizes.target;
  options.min_file_size_bytes = sizes.min;
  options.max_file_size_bytes = sizes.max;
  return options;
}

}  // namespace lithify::job
