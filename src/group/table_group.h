// One file group of an Iceberg table, rewritten: by the process that planned it, or by a worker to
// whom the group is nothing but names. Neither catalog nor planner nor commit is known here: what
// to leave out, the schema and all that is in metadata is derived from the table's own metadata
// (R124, R125), and every row is accounted for before a result is given (R100).
//
// Thread safety: the functions may run for several groups of one view at a time.
#ifndef LITHIFY_GROUP_TABLE_GROUP_H_
#define LITHIFY_GROUP_TABLE_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/delete_index.h"
#include "base/file_sizes.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "base/row_order.h"
#include "rewrite/group_runner.h"
#include "storage/locations.h"

namespace lithify::group {

// What is to be rewritten and how, by names alone: nothing in it is believed about rows.
struct GroupTask {
  std::string job_id;             // Of the whole job; a UUIDv7.
  int64_t number = 0;             // Of the group in its plan (group_id of R129).
  std::string table;              // "sales.orders", for messages.
  std::string metadata_location;  // Of the metadata that the plan was made on.
  int64_t snapshot_id = 0;        // That the plan was made on.
  // Locations as the manifests have them, in the order of the outputs' rows.
  std::vector<std::string> data_files = {};
  int outputs = 1;       // Planned, where rows stay in their partition.
  FileSizes sizes = {};  // As the plan had them, with the table's defaults.
  // Rows move to this partition spec of their table; unset: they stay in their partition.
  std::optional<int> output_spec_id = {};
  int64_t max_output_partitions = 1000;
  // Rows are brought into this order; unset: they stay as they are. Only where rows stay in their
  // partition.
  std::optional<RowOrder> order = {};
  // Of the table's sort orders the one that `order` is, which the outputs are stamped with; unset:
  // none of them, and they are stamped with none.
  std::optional<int> sort_order_id = {};
  rewrite::Verify verify = rewrite::Verify::kSample;
  bool operator==(const GroupTask&) const = default;
};

struct GroupBounds {
  int threads = 1;
  int64_t memory_bytes = 0;
  std::string spill_directory = {};  // For tasks with an order: as of rewrite::Ordering.
  int64_t spill_bytes_max = 0;
  std::function<void(int64_t)> on_progress = {};  // Bytes of input since the last call; any thread.
  rewrite::TurnToLoad turn_to_load = {};          // As of rewrite::GroupRequest.
};

struct GroupInput {
  std::string path;  // As in the metadata.
  int64_t records = 0;
  int64_t rows_deleted = 0;  // That this rewrite left out.
  iceberg::PartitionKey partition;
};

struct GroupResult {
  int64_t snapshot_id = 0;                 // By which the group was rewritten: the task's.
  std::vector<GroupInput> inputs;          // In the task's order.
  std::vector<iceberg::DataFile> outputs;  // Complete, as an entry of a manifest needs them.
  // Of each position delete file that was read, by its location: all data files that it names, also
  // those outside of the group (R102).
  std::map<std::string, std::vector<std::string>> named_paths;
  rewrite::GroupReport report;
  int64_t rows_deleted = 0;  // report.rows_in - report.rows_out.
};

// Of the memory of a group whose rows move, what its rewrite has: the rest holds their positions.
int64_t PartMemory(int64_t memory_bytes);

// A table at one snapshot, as groups are rewritten from it. Borrows everything.
struct TableView {
  const iceberg::TableMetadata& metadata;
  const iceberg::LiveSet& live;
  const iceberg::DeleteIndex& index;
  std::shared_ptr<const rewrite::TableTarget> target;
  const rewrite::TableTarget& delete_target;  // With the columns that only deletes may compare.
};

// The same, read by somebody who has nothing but the metadata's location.
class OpenedTable {
 public:
  // kConflict, before any manifest is read, if no branch's head in this metadata is `snapshot_id`
  // (R131). kCorrupt, kUnsupported, kNotFound and what the store gives, with the location.
  static Result<std::shared_ptr<const OpenedTable>> Open(storage::Locations& locations,
                                                         const std::string& metadata_location,
                                                         int64_t snapshot_id, int threads,
                                                         const CancelFlag& cancel);
  TableView view() const;

 private:
  OpenedTable() = default;
  iceberg::TableMetadata metadata_;
  iceberg::LiveSet live_;
  std::optional<iceberg::DeleteIndex> index_;
  std::shared_ptr<const rewrite::TableTarget> target_;
  rewrite::TableTarget delete_target_;
};

struct GroupServices {
  storage::Locations& locations;
  std::function<std::unique_ptr<rewrite::GroupRunner>(storage::Store&)> make_runner;
  const Clock& clock;
  Random& random;
};

// Indices of the task's files into LiveSet::data_files. kConflict if one is not live in it.
Result<std::vector<int32_t>> FindFiles(const TableView& view, const GroupTask& task);

// `data_files` are the task's, as FindFiles() gives them. Errors: as of rewrite::GroupRunner::Run()
// and ResolveDeletes(); on each nothing of the group is left in the store, except after
// kUnknownOutcome. kCorrupt: any count that does not match.
Result<GroupResult> RewriteGroup(const GroupServices& services, const TableView& view,
                                 const GroupTask& task, const std::vector<int32_t>& data_files,
                                 const GroupBounds& bounds, const CancelFlag& cancel);

// What footers tell of the tiers that RewriteGroup() will choose. kUnsupported where rows move.
Result<rewrite::TierPlan> ExplainGroup(const GroupServices& services, const TableView& view,
                                       const GroupTask& task,
                                       const std::vector<int32_t>& data_files,
                                       const GroupBounds& bounds, const CancelFlag& cancel);

// Removes what a rewrite wrote, only where it is certain that no commit refers to it (I8). What
// could not be removed is told, "<location>: <error>"; a file that is gone already is no error.
std::vector<std::string> RemoveOutputs(storage::Locations& locations,
                                       const std::vector<iceberg::DataFile>& outputs);

}  // namespace lithify::group

#endif  // LITHIFY_GROUP_TABLE_GROUP_H_
