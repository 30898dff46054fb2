// The rows that a group leaves out: every delete that applies to one of its files, in whatever
// form, as row positions. Derived from the live set alone, so that whoever rewrites a group can
// derive it again (R094, R125).
#ifndef LITHIFY_GROUP_DELETES_H_
#define LITHIFY_GROUP_DELETES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/delete_index.h"
#include "base/iceberg.h"
#include "base/position_set.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "storage/locations.h"

namespace lithify::group {

struct FileDeletes {
  std::shared_ptr<const PositionSet> rows;  // Null: none.
  int64_t by_position = 0;                  // Distinct rows (T13).
  int64_t by_equality = 0;                  // Distinct rows that no position delete names.
};

struct GroupDeletes {
  std::vector<FileDeletes> files;  // In the order of the group's inputs.
  // What the position delete files that were read name, by index into LiveSet::delete_files: all
  // paths, also of files outside the group (R102).
  std::map<int32_t, std::vector<std::string>> named_paths;
};

struct DeleteScope {
  storage::Locations& locations;
  const iceberg::LiveSet& live;
  const iceberg::DeleteIndex& index;
  const rewrite::TableTarget& target;
  int64_t memory_bytes = 0;
  const CancelFlag& cancel;
};

// `data_files` are indices into LiveSet::data_files; `inputs`, in the same order, are as they will
// be rewritten, with constants and sequence numbers. kUnsupported if a delete that applies cannot
// be read; whatever reading it gives otherwise. Never an incomplete answer (R094).
Result<GroupDeletes> ResolveDeletes(const DeleteScope& scope,
                                    const std::vector<int32_t>& data_files,
                                    const std::vector<rewrite::InputFile>& inputs);

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_DELETES_H_
