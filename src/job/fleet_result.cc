#include "job/fleet_result.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "group/target.h"
#include "rewrite/delete_scan.h"

namespace lithify::job {
namespace {

// Of an output whose worker does not say how large its footer is: most are smaller.
constexpr int64_t kFooterReadBytes = 16 * kKiB;
// Of what a worker says so much is taken: one that lies costs a request, or some bytes.
constexpr int64_t kFooterReadBytesMax = kMiB;
constexpr int64_t kTailBytes = 8;  // The footer's length, and the magic number.

constexpr const char* kHint =
    "nothing was committed; what the worker wrote stays as evidence until orphan files are removed";

std::unexpected<Error> Wrong(std::string message, std::string where) {
  return Fail(Code::kCorrupt, "a worker's result is not right: " + std::move(message),
              std::move(where), kHint);
}

// How many rows the deletes of one file name at least: a deletion vector has as many positions as
// its metadata says. A worker that left a vector out would bring its rows back.
int64_t DeletedAtLeast(const group::TableView& view, int32_t data_file) {
  int64_t least = 0;
  for (const int32_t index : view.index.AppliesTo(data_file)) {
    const iceberg::LiveDeleteFile& file = view.live.delete_files[static_cast<size_t>(index)];
    if (file.deletion_vector) least = std::max(least, file.records);
  }
  return least;
}

// How many rows the deletes of one file name at most; -1: they need not say.
int64_t DeletedAtMost(const group::TableView& view, int32_t data_file) {
  int64_t most = 0;
  for (const int32_t index : view.index.AppliesTo(data_file)) {
    const iceberg::LiveDeleteFile& file = view.live.delete_files[static_cast<size_t>(index)];
    if (file.content != iceberg::FileContent::kPositionDeletes) return -1;
    if (__builtin_add_overflow(most, std::max<int64_t>(file.records, 0), &most)) return -1;
  }
  return most;
}

Status CheckInputs(const FleetCheck& check, const group::GroupResult& result) {
  if (result.inputs.size() != check.data_files.size()) {
    return Wrong(std::to_string(result.inputs.size()) + " inputs instead of " +
                     std::to_string(check.data_files.size()),
                 check.task.table);
  }
  int64_t rows = 0;
  int64_t deleted = 0;
  for (size_t i = 0; i < result.inputs.size(); ++i) {
    const group::GroupInput& input = result.inputs[i];
    const int32_t index = check.data_files[i];
    const auto& file = check.view.live.data_files[static_cast<size_t>(index)];
    const auto& partition = check.view.live.partitions[static_cast<size_t>(file.partition)];
    if (input.path != file.path) return Wrong("another input than " + file.path, input.path);
    if (input.records != file.records || !(input.partition == partition)) {
      return Wrong("an input has other rows or another partition than in the metadata", file.path);
    }
    if (input.rows_deleted < 0 || input.rows_deleted > input.records) {
      return Wrong(std::to_string(input.rows_deleted) + " of " + std::to_string(input.records) +
                       " rows were left out",
                   file.path);
    }
    const int64_t most = DeletedAtMost(check.view, index);
    if (most >= 0 && input.rows_deleted > most) {
      return Wrong(std::to_string(input.rows_deleted) + " rows were left out, deletes name " +
                       std::to_string(most) + " at most",
                   file.path);
    }
    if (const int64_t least = DeletedAtLeast(check.view, index); input.rows_deleted < least) {
      return Wrong(std::to_string(input.rows_deleted) + " rows were left out, deletes name " +
                       std::to_string(least) + " at least",
                   file.path);
    }
    rows += input.records;
    deleted += input.rows_deleted;
  }
  const rewrite::GroupReport& report = result.report;
  if (report.rows_in != rows || result.rows_deleted != deleted ||
      report.rows_in - report.rows_out != deleted) {
    return Wrong("rows in " + std::to_string(report.rows_in) + " of " + std::to_string(rows) +
                     ", out " + std::to_string(report.rows_out) + ", left out " +
                     std::to_string(result.rows_deleted) + " and " + std::to_string(deleted),
                 check.task.table);
  }
  return {};
}

// By output's name, what its worker says of the size of its footer.
using FooterSizes = std::map<std::string_view, int64_t>;

FooterSizes FooterSizesOf(const group::GroupResult& result) {
  FooterSizes sizes;
  for (const rewrite::OutputFile& output : result.report.outputs) {
    sizes.emplace(output.name, output.footer_bytes);
  }
  return sizes;
}

// What passes through a coordinator is to be little: one request, for what is needed alone. The
// size decides nothing but that.
int64_t FirstRead(const FooterSizes& sizes, std::string_view path) {
  const auto said = sizes.find(path.substr(path.rfind('/') + 1));
  if (said == sizes.end() || said->second <= 0) return kFooterReadBytes;
  return std::min(said->second, kFooterReadBytesMax) + kTailBytes;
}

Status CheckFooter(const FleetCheck& check, const iceberg::DataFile& output, int64_t first_read) {
  const auto place = check.services.locations.Resolve(output.file_path);
  if (!place) return Fail(Error(place.error()).In(output.file_path));
  const auto runner = check.services.make_runner(*place->store);
  // It must have the size that the worker says; the commit looks at that again.
  const auto facts =
      runner->Inspect({.key = place->key, .size = output.file_size_in_bytes}, first_read);
  if (!facts && facts.error().code == Code::kNotFound) {
    return Wrong("an output is not there", output.file_path);
  }
  if (!facts) return Fail(Error(facts.error()).In(output.file_path));
  if (facts->rows != output.record_count) {
    return Wrong("an output's footer has " + std::to_string(facts->rows) + " rows, not " +
                     std::to_string(output.record_count),
                 output.file_path);
  }
  if (!facts->mark || facts->mark->job_id != check.task.job_id) {
    return Wrong("an output is not of this job", output.file_path);
  }
  return {};
}

Status CheckOutputs(const FleetCheck& check, const group::GroupResult& result) {
  const auto& first =
      check.view.live.data_files[static_cast<size_t>(check.data_files.front())].partition;
  const iceberg::PartitionKey& own = check.view.live.partitions[static_cast<size_t>(first)];
  std::set<std::string_view> paths;
  const FooterSizes footers = FooterSizesOf(result);
  int64_t rows = 0;
  for (const iceberg::DataFile& output : result.outputs) {
    const std::string& path = output.file_path;
    const iceberg::PartitionKey key{.spec_id = output.spec_id, .values = output.partition};
    const auto& asked = check.task.output_spec_id;
    if (asked ? output.spec_id != *asked : !(key == own)) {
      return Wrong("an output is of another partition than its group", path);
    }
    const std::string location = group::DataLocation(check.view.metadata, key);
    const bool right_below = path.starts_with(location) && path.size() > location.size() &&
                             path.find('/', location.size()) == std::string::npos &&
                             path.ends_with(".parquet");
    if (!right_below) return Wrong("an output is not in " + location, path);
    if (output.content != iceberg::FileContent::kData || output.file_format != "PARQUET" ||
        output.record_count <= 0 || output.file_size_in_bytes <= 0) {
      return Wrong("an output is no Parquet file with rows", path);
    }
    if (output.sort_order_id != check.task.sort_order_id) {
      return Wrong("an output is stamped with another sort order than it was asked for", path);
    }
    if (!paths.insert(path).second) return Wrong("an output is named twice", path);
    rows += output.record_count;
    LITHIFY_TRY(CheckFooter(check, output, FirstRead(footers, path)));
  }
  if (rows != result.report.rows_out) {
    return Wrong("the outputs have " + std::to_string(rows) + " rows, not " +
                     std::to_string(result.report.rows_out),
                 check.task.table);
  }
  return {};
}

}  // namespace

Status CheckFleetResult(const FleetCheck& check, const group::GroupResult& result) {
  if (result.snapshot_id != check.task.snapshot_id) {
    return Wrong("by snapshot " + std::to_string(result.snapshot_id) + ", not " +
                     std::to_string(check.task.snapshot_id),
                 check.task.table);
  }
  LITHIFY_TRY(CheckInputs(check, result));
  return CheckOutputs(check, result);
}

Result<NamedPaths> ReadNamedPaths(const group::GroupServices& services,
                                  const group::TableView& view,
                                  const std::vector<int32_t>& data_files, int threads,
                                  const CancelFlag& cancel) {
  std::set<int32_t> distinct;
  for (const int32_t data_file : data_files) {
    for (const int32_t index : view.index.AppliesTo(data_file)) {
      const iceberg::LiveDeleteFile& file = view.live.delete_files[static_cast<size_t>(index)];
      const bool positions = file.content == iceberg::FileContent::kPositionDeletes;
      if (positions && !file.deletion_vector) distinct.insert(index);
    }
  }
  const std::vector<int32_t> indices(distinct.begin(), distinct.end());
  std::vector<std::vector<std::string>> paths(indices.size());
  const auto read_one = [&](size_t i) -> Status {
    const auto& file = view.live.delete_files[static_cast<size_t>(indices[i])];
    if (!file.referenced_data_file.empty()) {
      paths[i] = {file.referenced_data_file};
      return {};
    }
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(const auto place, services.locations.Resolve(file.path));
    auto read =
        rewrite::ReadPositionDeletePaths(*place.store, place.key, file.size, {.cancel = &cancel});
    if (!read) {
      return Fail(storage::NameByLocation(std::move(read.error()), place.key, file.path));
    }
    paths[i] = std::move(*read);
    return {};
  };
  LITHIFY_TRY(TryForEach(indices.size(), threads, read_one));
  NamedPaths named;
  for (size_t i = 0; i < indices.size(); ++i) named.emplace(indices[i], std::move(paths[i]));
  return named;
}

Status CheckDeletesSeen(const group::TableView& view, const std::vector<int32_t>& data_files,
                        const NamedPaths& named, const group::GroupResult& result) {
  std::map<int32_t, std::set<std::string_view>> sorted;
  for (size_t i = 0; i < data_files.size() && i < result.inputs.size(); ++i) {
    if (result.inputs[i].rows_deleted > 0) continue;
    const std::string& path = view.live.data_files[static_cast<size_t>(data_files[i])].path;
    for (const int32_t index : view.index.AppliesTo(data_files[i])) {
      const auto paths = named.find(index);
      if (paths == named.end()) continue;
      const auto [at, added] = sorted.try_emplace(index);
      if (added) at->second.insert(paths->second.begin(), paths->second.end());
      if (!at->second.contains(path)) continue;
      return Wrong("0 rows were left out, deletes name 1 at least: " +
                       view.live.delete_files[static_cast<size_t>(index)].path,
                   path);
    }
  }
  return {};
}

Status CheckOutputsApart(const group::GroupResult& result, std::set<std::string>& known) {
  for (const iceberg::DataFile& output : result.outputs) {
    if (!known.insert(output.file_path).second) {
      return Wrong("an output is another group's, too", output.file_path);
    }
  }
  return {};
}

}  // namespace lithify::job
