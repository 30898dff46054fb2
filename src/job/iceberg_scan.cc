#include "job/iceberg_scan.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/delete_index.h"
#include "base/text.h"
#include "group/deletes.h"
#include "group/live_files.h"
#include "group/target.h"
#include "job/iceberg_load.h"
#include "rewrite/table_batches.h"
#include "table/iceberg_filter.h"

namespace lithify::job {
namespace {

constexpr int64_t kBatchBytes = 4 * kMiB;
constexpr int64_t kBatchRows = 32 * 1024;
constexpr auto kPoll = std::chrono::milliseconds(50);
// Deletes are resolved for so many files together: a delete file may be of many data files, and is
// read once for each of these.
constexpr size_t kChunkFilesMax = 64;
constexpr int64_t kChunkRowsMax = 20'000'000;

// Data files whose deletes are resolved together.
struct Chunk {
  std::vector<int32_t> files;
  std::mutex mutex;
  bool resolved = false;
  std::optional<Error> error;
  std::map<int32_t, std::shared_ptr<const PositionSet>> rows;  // Taken by the file's reader.
};

class Scan final : public IcebergScan {
 public:
  Scan(storage::Locations& locations, const ScanRequest& request)
      : locations_(locations),
        cancel_(request.cancel),
        threads_(std::max(request.threads, 1)),
        memory_bytes_(std::max<int64_t>(request.memory_bytes, 16 * kMiB)) {}

  ~Scan() override {
    stop_.Request();
    changed_.notify_all();
    workers_.clear();
  }
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  Status Open(const iceberg::TableMetadata& table, const ScanVersion& version,
              const ScanRequest& request) {
    LITHIFY_TRY_ASSIGN(auto target, group::MakeTarget(table));
    target_ = *target;
    target_.row_lineage = false;
    delete_target_ = group::WithDroppedColumns(target_, table);
    target_.schema = *version.schema;
    target_.schema.fields.clear();
    for (const int id : request.field_ids) {
      const auto& fields = version.schema->fields;
      const auto field = std::ranges::find(fields, id, &iceberg::Field::id);
      if (field == fields.end()) {
        return Fail(Code::kInternal, "the schema has no column " + std::to_string(id));
      }
      target_.schema.fields.push_back(*field);
    }
    if (version.snapshot == nullptr) return {};
    std::optional<table::FileFilter> filter;
    if (auto parsed = table::FileFilter::Parse(request.where, *version.schema)) {
      filter = std::move(*parsed);
    }
    LITHIFY_TRY_ASSIGN(live_, group::LoadLiveFiles(locations_, table, *version.snapshot,
                                                   {.filter = filter ? &*filter : nullptr,
                                                    .matching_only = !request.count_live,
                                                    .threads = threads_,
                                                    .cancel = cancel_}));
    index_ = std::make_unique<iceberg::DeleteIndex>(live_);
    for (const iceberg::PartitionKey& key : live_.partitions) {
      constants_.push_back(group::IdentityValues(table, key));
    }
    MakeChunks();
    return StartWorkers();
  }

  Result<bool> Next(ArrowArray* out) override {
    std::unique_lock lock(mutex_);
    while (true) {
      if (error_) return Fail(*error_);
      LITHIFY_TRY(cancel_->Check());
      if (!batches_.empty()) break;
      if (working_ == 0) return false;
      changed_.wait_for(lock, kPoll);
    }
    batches_.front().MoveTo(out);
    batches_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  int64_t files_live() const override { return std::ssize(live_.data_files); }
  int64_t files_read() const override { return std::ssize(files_); }

 private:
  struct File {
    int32_t index = 0;       // Of the live set.
    Chunk* chunk = nullptr;  // Null: no delete applies to it.
  };

  void MakeChunks() {
    int64_t rows = 0;
    for (int32_t i = 0; i < std::ssize(live_.data_files); ++i) {
      const iceberg::LiveDataFile& file = live_.data_files[static_cast<size_t>(i)];
      if (!file.may_match) continue;
      files_.push_back({i, nullptr});
      if (index_->AppliesTo(i).empty()) continue;
      if (chunks_.empty() || chunks_.back()->files.size() == kChunkFilesMax ||
          rows + file.records > kChunkRowsMax) {
        chunks_.push_back(std::make_unique<Chunk>());
        rows = 0;
      }
      chunks_.back()->files.push_back(i);
      rows += file.records;
      files_.back().chunk = chunks_.back().get();
    }
  }

  Status StartWorkers() {
    const size_t most = std::min(files_.size(), static_cast<size_t>(threads_));
    for (size_t i = 0; i < most; ++i) {
      {
        const std::lock_guard lock(mutex_);
        ++working_;
      }
      try {
        workers_.emplace_back([this] { Work(); });
      } catch (const std::system_error& e) {
        const std::lock_guard lock(mutex_);
        --working_;
        if (i > 0) return {};
        return Fail(Code::kTransient, e.what(), "", "lower the threads, or raise the limits");
      }
    }
    return {};
  }

  void Work() {
    while (true) {
      std::optional<size_t> file;
      {
        const std::lock_guard lock(mutex_);
        if (next_file_ < files_.size() && !error_) file = next_file_++;
      }
      if (!file) break;
      if (auto read = Read(files_[*file]); !read) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(read.error());
        break;
      }
    }
    {
      const std::lock_guard lock(mutex_);
      --working_;
    }
    changed_.notify_all();
  }

  // With its place in the store.
  Result<rewrite::InputFile> InputOf(const iceberg::LiveDataFile& file,
                                     std::shared_ptr<storage::Store>& store) const {
    LITHIFY_TRY_ASSIGN(auto place, locations_.Resolve(file.path));
    store = std::move(place.store);
    return rewrite::InputFile{.key = std::move(place.key),
                              .size = file.size,
                              .records = file.records,
                              .data_sequence_number = file.sequence_number,
                              .constants = constants_[static_cast<size_t>(file.partition)]};
  }

  Status Read(const File& of) {
    LITHIFY_TRY(Check());
    const iceberg::LiveDataFile& file = live_.data_files[static_cast<size_t>(of.index)];
    if (!file.unsupported.empty()) {
      return Fail(Code::kUnsupported, "a file is not read: " + std::string(file.unsupported),
                  file.path);
    }
    std::shared_ptr<const PositionSet> deleted;
    if (of.chunk != nullptr) {
      LITHIFY_TRY_ASSIGN(deleted, DeletedRows(*of.chunk, of.index));
    }
    if (target_.schema.fields.empty()) return CountRows(file, deleted.get());
    std::shared_ptr<storage::Store> store;
    LITHIFY_TRY_ASSIGN(auto input, InputOf(file, store));
    input.deleted = std::move(deleted);
    auto read = ReadInput(*store, input);
    if (read) return {};
    return Fail(
        Explain(storage::NameByLocation(std::move(read.error()), input.key, file.path), file.path));
  }

  Status ReadInput(storage::Store& store, const rewrite::InputFile& input) {
    const rewrite::BatchOptions options{.memory_bytes = memory_bytes_ / 4 * 3 / threads_,
                                        .batch_bytes = kBatchBytes,
                                        .batch_rows = kBatchRows,
                                        .cancel = &stop_};
    LITHIFY_TRY_ASSIGN(const auto batches,
                       rewrite::OpenFileBatches(store, input, target_, options));
    while (true) {
      LITHIFY_TRY_ASSIGN(auto batch, batches->Next());
      if (!batch) return {};
      LITHIFY_TRY(Push(std::move(batch)));
    }
  }

  // What the metadata says of a file is believed here: it is not opened.
  Status CountRows(const iceberg::LiveDataFile& file, const PositionSet* deleted) {
    if (deleted != nullptr && deleted->MaxOr(-1) >= file.records) {
      return Fail(Code::kCorrupt,
                  "row " + std::to_string(deleted->MaxOr(-1)) + " is deleted, the file has " +
                      std::to_string(file.records) + " rows",
                  file.path, "a delete file or the metadata is damaged");
    }
    const int64_t rows = file.records - (deleted == nullptr ? 0 : deleted->size());
    if (rows == 0) return {};
    return Push(rewrite::MakeRowCount(rows));
  }

  Result<std::shared_ptr<const PositionSet>> DeletedRows(Chunk& chunk, int32_t file) {
    const std::lock_guard lock(chunk.mutex);
    if (!chunk.resolved) {
      if (auto resolved = Resolve(chunk); !resolved) chunk.error = std::move(resolved.error());
      chunk.resolved = true;
    }
    if (chunk.error) return Fail(*chunk.error);
    return std::exchange(chunk.rows[file], nullptr);
  }

  Status Resolve(Chunk& chunk) {
    std::vector<rewrite::InputFile> inputs;
    for (const int32_t index : chunk.files) {
      std::shared_ptr<storage::Store> store;
      LITHIFY_TRY_ASSIGN(auto input, InputOf(live_.data_files[static_cast<size_t>(index)], store));
      inputs.push_back(std::move(input));
    }
    const group::DeleteScope scope{.locations = locations_,
                                   .live = live_,
                                   .index = *index_,
                                   .target = delete_target_,
                                   .memory_bytes = memory_bytes_ / 4 / threads_,
                                   .cancel = stop_};
    auto deletes = group::ResolveDeletes(scope, chunk.files, inputs);
    if (!deletes) return Fail(Explain(std::move(deletes.error()), ""));
    for (size_t i = 0; i < chunk.files.size(); ++i) {
      chunk.rows[chunk.files[i]] = std::move(deletes->files[i].rows);
    }
    return {};
  }

  static Error Explain(Error error, std::string_view path) {
    if (error.code == Code::kNotFound) {
      error.hint = "the snapshot may have been expired meanwhile: run the statement again";
    }
    return path.empty() ? error : std::move(error).In(path);
  }

  Status Check() const {
    LITHIFY_TRY(cancel_->Check());
    return stop_.Check();
  }

  // Waits for room.
  Status Push(rewrite::ArrowBatch batch) {
    std::unique_lock lock(mutex_);
    const size_t most = 2 * static_cast<size_t>(threads_);
    while (true) {
      LITHIFY_TRY(Check());
      if (error_) return Fail(Code::kCancelled, "another file could not be read");
      if (batches_.size() < most) break;
      changed_.wait_for(lock, kPoll);
    }
    batches_.push_back(std::move(batch));
    lock.unlock();
    changed_.notify_all();
    return {};
  }

  storage::Locations& locations_;
  const CancelFlag* const cancel_;
  const int threads_;
  const int64_t memory_bytes_;
  rewrite::TableTarget target_;         // With the columns to read.
  rewrite::TableTarget delete_target_;  // With all, also those that are gone.
  iceberg::LiveSet live_;
  std::unique_ptr<iceberg::DeleteIndex> index_;
  std::vector<std::vector<std::pair<int, iceberg::Value>>> constants_;  // By partition.
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<File> files_;

  CancelFlag stop_;  // Of the workers.
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_file_ = 0;
  int working_ = 0;
  std::deque<rewrite::ArrowBatch> batches_;
  std::optional<Error> error_;
  std::vector<std::jthread> workers_;  // Last: they use all of the above.
};

}  // namespace

Result<ScanVersion> FindVersion(const iceberg::TableMetadata& table, std::string_view version) {
  ScanVersion out{nullptr, &table.schema()};
  if (version.empty()) {
    if (table.current_snapshot_id) out.snapshot = table.FindSnapshot(*table.current_snapshot_id);
    if (table.current_snapshot_id && out.snapshot == nullptr) {
      return Fail(Code::kCorrupt, "the current snapshot is not in the table's metadata");
    }
    return out;
  }
  out.snapshot = table.RefSnapshot(version);
  int64_t id = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), id);
  if (out.snapshot == nullptr && error == std::errc() && end == version.data() + version.size()) {
    out.snapshot = table.FindSnapshot(id);
  }
  if (out.snapshot == nullptr) {
    return Fail(Code::kNotFound, "the table has no snapshot, branch or tag " + std::string(version),
                "", "system.snapshots lists those that there are");
  }
  if (out.snapshot->schema_id) {
    const iceberg::Schema* schema = table.FindSchema(*out.snapshot->schema_id);
    if (schema != nullptr) out.schema = schema;
  }
  return out;
}

std::vector<iceberg::Field> ScanColumns(const iceberg::Schema& schema) {
  std::vector<iceberg::Field> columns;
  for (const iceberg::Field& field : schema.fields) {
    // Of type unknown nothing is stored.
    if (field.type.kind != iceberg::TypeKind::kUnknown && rewrite::HasBatches(field.type)) {
      columns.push_back(field);
    }
  }
  return columns;
}

Result<ScanPlan> PlanScan(storage::Locations& locations, const iceberg::TableMetadata& table,
                          const ScanVersion& version, const ScanRequest& request) {
  ScanPlan plan;
  if (version.snapshot == nullptr) return plan;
  std::optional<table::FileFilter> filter;
  if (auto parsed = table::FileFilter::Parse(request.where, *version.schema)) {
    filter = std::move(*parsed);
  }
  LITHIFY_TRY_ASSIGN(const iceberg::LiveSet live,
                     group::LoadLiveFiles(locations, table, *version.snapshot,
                                          {.filter = filter ? &*filter : nullptr,
                                           .threads = std::max(request.threads, 1),
                                           .cancel = request.cancel}));
  const iceberg::DeleteIndex index(live);
  std::set<int32_t> deletes;
  for (int32_t i = 0; i < std::ssize(live.data_files); ++i) {
    const iceberg::LiveDataFile& file = live.data_files[static_cast<size_t>(i)];
    ++plan.files_live;
    if (!file.may_match) continue;
    ++plan.files;
    plan.bytes += file.size;
    plan.records += file.records;
    for (const int32_t one : index.AppliesTo(i)) deletes.insert(one);
  }
  plan.delete_files = std::ssize(deletes);
  return plan;
}

Result<std::unique_ptr<IcebergScan>> OpenScan(storage::Locations& locations,
                                              const iceberg::TableMetadata& table,
                                              const ScanVersion& version,
                                              const ScanRequest& request) {
  auto scan = std::make_unique<Scan>(locations, request);
  LITHIFY_TRY(scan->Open(table, version, request));
  return scan;
}

}  // namespace lithify::job
