#include "group/table_group.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/from_exception.h"
#include "base/order_mark.h"
#include "group/deletes.h"
#include "group/live_files.h"
#include "group/repartition.h"
#include "group/target.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_order.h"
#include "table/iceberg_snapshot.h"

namespace lithify::group {
namespace {

// Adds one partition's report to that of its group, in which each input counts once. What the scan
// and the rewrite counted, each on its own, must agree (R100).
Status CountPart(const rewrite::SplitRows& split, const PartitionPart& part,
                 const rewrite::GroupReport& report, rewrite::GroupReport& group) {
  if (report.rows_out != part.rows || report.rows_per_input.size() != part.files.size()) {
    return Fail(Code::kCorrupt,
                std::to_string(report.rows_out) + " rows were written instead of " +
                    std::to_string(part.rows),
                "output-spec-id", "please report this; nothing was committed");
  }
  for (size_t i = 0; i < part.files.size(); ++i) {
    const size_t file = part.files[i];
    if (report.rows_per_input[i] != split.rows_per_file[file]) {
      return Fail(Code::kCorrupt,
                  "an input had " + std::to_string(split.rows_per_file[file]) + " rows and then " +
                      std::to_string(report.rows_per_input[i]),
                  "output-spec-id", "somebody changes the file; nothing was committed");
    }
    group.rows_per_input[file] = report.rows_per_input[i];
  }
  group.rows_out += report.rows_out;
  group.bytes_out += report.bytes_out;
  for (const auto& [tier, chunks] : report.tiers) group.tiers[tier] += chunks;
  for (const auto& [way, chunks] : report.splices) group.splices[way] += chunks;
  for (const auto& [why, chunks] : report.recoded) group.recoded[why] += chunks;
  std::ranges::copy(report.notes, std::back_inserter(group.notes));
  return {};
}

int64_t Whole(double bytes) {
  constexpr double kMost = 4e18;
  return static_cast<int64_t>(std::clamp(bytes, 0.0, kMost));
}

iceberg::DataFile ToDataFile(const iceberg::PartitionKey& key, const std::string& location,
                             const rewrite::OutputFile& output, std::optional<int> sort_order_id) {
  iceberg::DataFile file;
  file.content = iceberg::FileContent::kData;
  file.file_path = location + output.name;
  file.file_format = "PARQUET";
  file.spec_id = key.spec_id;
  file.partition = key.values;
  file.record_count = output.rows;
  file.file_size_in_bytes = output.size;
  file.column_sizes = output.metrics.column_sizes;
  file.value_counts = output.metrics.value_counts;
  file.null_value_counts = output.metrics.null_value_counts;
  file.nan_value_counts = output.metrics.nan_value_counts;
  file.lower_bounds = output.metrics.lower_bounds;
  file.upper_bounds = output.metrics.upper_bounds;
  file.split_offsets = output.split_offsets;
  file.sort_order_id = sort_order_id;
  return file;
}

// Under which bounds and how the rows of one partition are written.
struct PartOptions {
  int outputs = 1;
  int outputs_max = 0;  // 0: no bound.
  int64_t memory_bytes = 0;
  std::function<void(int64_t)> on_progress = {};
};

// One group, one use.
class TableGroup {
 public:
  TableGroup(const GroupServices& services, const TableView& view, const GroupTask& task,
             const std::vector<int32_t>& data_files, const GroupBounds& bounds,
             const CancelFlag& cancel)
      : services_(services),
        view_(view),
        task_(task),
        data_files_(data_files),
        bounds_(bounds),
        cancel_(cancel) {}

  Result<GroupResult> Rewrite() {
    result_.snapshot_id = task_.snapshot_id;
    Status done;
    try {
      done = RewriteInto();
    } catch (const std::exception& e) {
      done = Fail(FromException(e, task_.table));
    }
    if (done) return std::move(result_);
    // Nobody has heard of them. The outputs of a part that failed itself are its runner's business.
    for (const std::string& left : RemoveOutputs(services_.locations, result_.outputs)) {
      done.error().message += "; an output of a failed attempt stays: " + left;
    }
    return Fail(ByLocation(std::move(done.error())));
  }

  Result<rewrite::TierPlan> Explain() {
    auto plan = ExplainIt();
    if (plan) return plan;
    return Fail(ByLocation(std::move(plan.error())));
  }

 private:
  const iceberg::LiveDataFile& File(int32_t index) const {
    return view_.live.data_files[static_cast<size_t>(index)];
  }
  const iceberg::PartitionKey& Partition(const iceberg::LiveDataFile& file) const {
    return view_.live.partitions[static_cast<size_t>(file.partition)];
  }

  Result<iceberg::PartitionKey> OnePartition() const {
    const int32_t partition = File(data_files_.front()).partition;
    const auto same = [&](int32_t index) { return File(index).partition == partition; };
    if (std::ranges::all_of(data_files_, same)) return Partition(File(data_files_.front()));
    return Fail(Code::kInternal, "the files of one group are of several partitions", task_.table);
  }

  // What a file is stamped with must be true whoever planned it.
  Status CheckStamp() const {
    if (!task_.sort_order_id) return {};
    const auto declared = table::OrderWithId(*task_.sort_order_id, view_.metadata);
    if (declared && task_.order == *declared) return {};
    return Fail(Code::kInvalid,
                "the order of the rows is not sort order " + std::to_string(*task_.sort_order_id) +
                    " of the table",
                task_.table, "load the table and plan again");
  }

  Status RewriteInto() {
    if (data_files_.empty()) return Fail(Code::kInternal, "a group without files", task_.table);
    if (task_.order && task_.output_spec_id) {
      return Fail(Code::kInvalid, "rows cannot be sorted while they move to another partition spec",
                  task_.table);
    }
    LITHIFY_TRY(CheckStamp());
    LITHIFY_TRY(cancel_.Check());
    LITHIFY_TRY_ASSIGN(auto inputs, MakeInputs());
    const DeleteScope scope{.locations = services_.locations,
                            .live = view_.live,
                            .index = view_.index,
                            .target = view_.delete_target,
                            .memory_bytes = bounds_.memory_bytes / 2,
                            .cancel = cancel_};
    LITHIFY_TRY_ASSIGN(auto deletes, ResolveDeletes(scope, data_files_, inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].deleted = deletes.files[i].rows;
      const int64_t deleted = deletes.files[i].by_position + deletes.files[i].by_equality;
      const iceberg::LiveDataFile& file = File(data_files_[i]);
      result_.inputs.push_back({.path = file.path,
                                .records = file.records,
                                .rows_deleted = deleted,
                                .partition = Partition(file)});
      result_.rows_deleted += deleted;
    }
    for (auto& [index, paths] : deletes.named_paths) {
      const auto& file = view_.live.delete_files[static_cast<size_t>(index)];
      result_.named_paths.emplace(file.path, std::move(paths));
    }
    if (task_.output_spec_id) {
      LITHIFY_TRY(Repartition(inputs));
    } else {
      LITHIFY_TRY_ASSIGN(const auto key, OnePartition());
      const PartOptions options{.outputs = std::max(1, task_.outputs),
                                .outputs_max = static_cast<int>(data_files_.size()),
                                .memory_bytes = bounds_.memory_bytes,
                                .on_progress = bounds_.on_progress};
      LITHIFY_TRY_ASSIGN(result_.report, RewritePart(key, std::move(inputs), options));
    }
    // The same sums by another way: what the runner counted against what the deletes say (R100).
    const rewrite::GroupReport& report = result_.report;
    if (report.rows_in - report.rows_out != result_.rows_deleted) {
      return Fail(Code::kCorrupt,
                  "rows read " + std::to_string(report.rows_in) + ", written " +
                      std::to_string(report.rows_out) + ", deleted " +
                      std::to_string(result_.rows_deleted),
                  task_.table, "please report this; nothing was committed");
    }
    return {};
  }

  Result<rewrite::TierPlan> ExplainIt() {
    if (task_.output_spec_id) {
      return Fail(Code::kUnsupported, "tiers are not explained where rows move", task_.table);
    }
    LITHIFY_TRY(cancel_.Check());
    LITHIFY_TRY_ASSIGN(auto inputs, MakeInputs());
    LITHIFY_TRY_ASSIGN(const auto key, OnePartition());
    std::vector<std::string> notes;
    const PartOptions options{.outputs = std::max(1, task_.outputs),
                              .memory_bytes = bounds_.memory_bytes};
    LITHIFY_TRY_ASSIGN(const auto request, MakeRequest(DataLocation(view_.metadata, key),
                                                       std::move(inputs), options, notes));
    return services_.make_runner(*store_)->Explain(request, cancel_);
  }

  Result<std::vector<rewrite::InputFile>> MakeInputs() {
    std::map<int32_t, std::vector<std::pair<int, iceberg::Value>>> constants;  // By partition.
    std::vector<rewrite::InputFile> inputs;
    inputs.reserve(data_files_.size());
    for (const int32_t index : data_files_) {
      const iceberg::LiveDataFile& file = File(index);
      LITHIFY_TRY_ASSIGN(auto place, services_.locations.Resolve(file.path));
      if (!store_) store_ = place.store;
      if (store_ != place.store) {
        return Fail(Code::kUnsupported, "the files of one group are in several stores", file.path);
      }
      const auto [values, added] = constants.try_emplace(file.partition);
      if (added) values->second = IdentityValues(view_.metadata, Partition(file));
      inputs.push_back({.key = std::move(place.key),
                        .size = file.size,
                        .deleted = nullptr,
                        .records = file.records,
                        .first_row_id = file.first_row_id,
                        .data_sequence_number = file.sequence_number,
                        .constants = values->second});
    }
    return inputs;
  }

  Result<rewrite::GroupRequest> MakeRequest(const std::string& location,
                                            std::vector<rewrite::InputFile> inputs,
                                            const PartOptions& options,
                                            std::vector<std::string>& notes) {
    LITHIFY_TRY_ASSIGN(const auto place, services_.locations.Resolve(location + "x"));
    if (place.store != store_) {
      return Fail(Code::kUnsupported, "the data location is in another store than the inputs",
                  location);
    }
    rewrite::GroupRequest request;
    request.job_id = task_.job_id;
    request.partition = place.key.substr(0, place.key.size() - 1);
    request.inputs = std::move(inputs);
    request.table = view_.target;
    request.shape = MakeShape(view_.metadata, task_.sizes, notes);
    request.shape.outputs = options.outputs;
    request.shape.outputs_max = options.outputs_max;
    request.verify = task_.verify;
    request.threads = bounds_.threads;
    request.memory_bytes = options.memory_bytes;
    std::string suffix;
    if (task_.order) {
      request.ordering = std::make_shared<const rewrite::Ordering>(
          rewrite::Ordering{.order = *task_.order,
                            .spill_directory = bounds_.spill_directory,
                            .spill_bytes_max = bounds_.spill_bytes_max});
      suffix = OrderSuffix(*task_.order, task_.job_id, task_.number);
    }
    request.new_name = [this, suffix = suffix + ".parquet"] {
      return MakeUuidV7(services_.clock, services_.random) + suffix;
    };
    request.turn_to_load = bounds_.turn_to_load;
    request.on_progress = options.on_progress;
    return request;
  }

  // Writes the rows of the inputs that are not deleted to one partition; adds the outputs to the
  // result, also where they are to be removed after an error.
  Result<rewrite::GroupReport> RewritePart(const iceberg::PartitionKey& key,
                                           std::vector<rewrite::InputFile> inputs,
                                           const PartOptions& options) {
    const std::string location = DataLocation(view_.metadata, key);
    std::vector<std::string> notes;
    LITHIFY_TRY_ASSIGN(const auto request,
                       MakeRequest(location, std::move(inputs), options, notes));
    const auto runner = services_.make_runner(*store_);
    LITHIFY_TRY_ASSIGN(auto report, runner->Run(request, cancel_));
    std::ranges::move(notes, std::back_inserter(report.notes));
    for (const rewrite::OutputFile& output : report.outputs) {
      result_.outputs.push_back(ToDataFile(key, location, output, task_.sort_order_id));
    }
    return report;
  }

  // Each partition of the output spec is a part of its own; the sums are over the group.
  Status Repartition(const std::vector<rewrite::InputFile>& inputs) {
    LITHIFY_TRY_ASSIGN(const auto rule, MakePartitionRule(view_.metadata, *task_.output_spec_id,
                                                          task_.max_output_partitions));
    const rewrite::ScanBounds scan{.memory_bytes = bounds_.memory_bytes / 2, .cancel = &cancel_};
    LITHIFY_TRY_ASSIGN(const auto split,
                       rewrite::SplitByPartition(*store_, *view_.target, rule, inputs, scan));
    // Of metadata that may be damaged: no sum of these overflows.
    double bytes = 0;
    double records = 0;
    for (const int32_t index : data_files_) {
      bytes += static_cast<double>(File(index).size);
      records += static_cast<double>(File(index).records);
    }
    int64_t rows_all = 0;
    for (const rewrite::PartitionRows& partition : split.partitions) rows_all += partition.rows;
    const double row_bytes = records > 0 ? bytes / records : 0;
    rewrite::GroupReport& report = result_.report;
    report.rows_per_input.assign(inputs.size(), -1);
    int64_t rows_done = 0;
    int64_t bytes_done = 0;
    for (size_t number = 0; number < PartsOf(split); ++number) {
      LITHIFY_TRY(cancel_.Check());
      PartitionPart part = MakePart(split, number, *task_.output_spec_id, inputs);
      const int64_t part_bytes = Whole(row_bytes * static_cast<double>(part.rows));
      const PartOptions options{.outputs = static_cast<int>(
                                    std::min<int64_t>(task_.sizes.Outputs(part_bytes), INT32_MAX)),
                                .memory_bytes = PartMemory(bounds_.memory_bytes)};
      LITHIFY_TRY_ASSIGN(const auto written,
                         RewritePart(part.key, std::move(part.inputs), options));
      LITHIFY_TRY(CountPart(split, part, written, report));
      rows_done += part.rows;
      // Of the input's bytes, which each part reads anew.
      const double share =
          rows_all > 0 ? static_cast<double>(rows_done) / static_cast<double>(rows_all) : 1;
      const int64_t until = Whole(share * bytes);
      if (bounds_.on_progress) bounds_.on_progress(until - bytes_done);
      bytes_done = until;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (report.rows_per_input[i] < 0) {
        return Fail(Code::kInternal, "an input was not read", inputs[i].key);
      }
      report.rows_in += report.rows_per_input[i];
      report.bytes_in += inputs[i].size;
    }
    report.rows_deleted = report.rows_in - report.rows_out;
    return {};
  }

  // What is a key to the store is a location in the table.
  Error ByLocation(Error error) const {
    for (const int32_t index : data_files_) {
      const std::string& path = File(index).path;
      const auto place = services_.locations.Resolve(path);
      if (place) error = storage::NameByLocation(std::move(error), place->key, path);
    }
    const auto home = services_.locations.Resolve(view_.metadata.location);
    if (home && error.context.starts_with(home->key + "/")) {
      error.context.replace(0, home->key.size(), view_.metadata.location);
    }
    return error;
  }

  const GroupServices& services_;
  const TableView& view_;
  const GroupTask& task_;
  const std::vector<int32_t>& data_files_;
  const GroupBounds& bounds_;
  const CancelFlag& cancel_;
  std::shared_ptr<storage::Store> store_;  // That the inputs are in.
  GroupResult result_;
};

}  // namespace

int64_t PartMemory(int64_t memory_bytes) { return memory_bytes / 4 * 3; }

Result<std::shared_ptr<const OpenedTable>> OpenedTable::Open(storage::Locations& locations,
                                                             const std::string& metadata_location,
                                                             int64_t snapshot_id, int threads,
                                                             const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const std::string text, table::ReadMetadataFile(locations, metadata_location));
  std::shared_ptr<OpenedTable> opened(new OpenedTable());
  LITHIFY_TRY_ASSIGN(opened->metadata_, table::ParseTableMetadata(text, metadata_location));
  const iceberg::TableMetadata& metadata = opened->metadata_;
  if (metadata.has_encryption) {
    return Fail(Code::kUnsupported, "the table is encrypted", metadata_location);
  }
  const auto is_head = [&](const auto& ref) {
    return ref.second.is_branch && ref.second.snapshot_id == snapshot_id;
  };
  const auto snapshot =
      std::ranges::find(metadata.snapshots, snapshot_id, &iceberg::Snapshot::snapshot_id);
  const bool head =
      metadata.current_snapshot_id == snapshot_id || std::ranges::any_of(metadata.refs, is_head);
  if (!head || snapshot == metadata.snapshots.end()) {
    return Fail(Code::kConflict,
                "snapshot " + std::to_string(snapshot_id) + " is no branch's head in this metadata",
                metadata_location, "load the table and plan again");
  }
  LITHIFY_TRY_ASSIGN(opened->target_, MakeTarget(metadata));
  opened->delete_target_ = WithDroppedColumns(*opened->target_, metadata);
  LITHIFY_TRY_ASSIGN(opened->live_,
                     LoadLiveFiles(locations, metadata, *snapshot,
                                   {.filter = nullptr, .threads = threads, .cancel = &cancel}));
  opened->index_.emplace(opened->live_);
  return opened;
}

TableView OpenedTable::view() const {
  return {.metadata = metadata_,
          .live = live_,
          .index = *index_,
          .target = target_,
          .delete_target = delete_target_};
}

Result<std::vector<int32_t>> FindFiles(const TableView& view, const GroupTask& task) {
  std::unordered_map<std::string_view, int32_t> wanted;
  for (const std::string& path : task.data_files) {
    if (!wanted.emplace(path, -1).second) {
      return Fail(Code::kInvalid, "a file is named twice", path);
    }
  }
  for (size_t i = 0; i < view.live.data_files.size(); ++i) {
    const auto found = wanted.find(view.live.data_files[i].path);
    if (found != wanted.end()) found->second = static_cast<int32_t>(i);
  }
  std::vector<int32_t> indices;
  indices.reserve(task.data_files.size());
  for (const std::string& path : task.data_files) {
    const int32_t index = wanted.at(path);
    if (index < 0) {
      return Fail(Code::kConflict, "the file is not live in the snapshot", path,
                  "load the table and plan again");
    }
    indices.push_back(index);
  }
  return indices;
}

Result<GroupResult> RewriteGroup(const GroupServices& services, const TableView& view,
                                 const GroupTask& task, const std::vector<int32_t>& data_files,
                                 const GroupBounds& bounds, const CancelFlag& cancel) {
  return TableGroup(services, view, task, data_files, bounds, cancel).Rewrite();
}

Result<rewrite::TierPlan> ExplainGroup(const GroupServices& services, const TableView& view,
                                       const GroupTask& task,
                                       const std::vector<int32_t>& data_files,
                                       const GroupBounds& bounds, const CancelFlag& cancel) {
  return TableGroup(services, view, task, data_files, bounds, cancel).Explain();
}

std::vector<std::string> RemoveOutputs(storage::Locations& locations,
                                       const std::vector<iceberg::DataFile>& outputs) {
  std::vector<std::string> left;
  for (const iceberg::DataFile& file : outputs) {
    const auto place = locations.Resolve(file.file_path);
    const Status removed = place ? place->store->Remove(place->key) : Fail(Error(place.error()));
    if (!removed && removed.error().code != Code::kNotFound) {
      left.push_back(file.file_path + ": " + removed.error().ToString());
    }
  }
  return left;
}

}  // namespace lithify::group
