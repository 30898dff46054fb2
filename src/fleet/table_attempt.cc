#include "fleet/table_attempt.h"

#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "group/table_group.h"
#include "group/target.h"
#include "storage/scoped_locations.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_snapshot.h"

namespace lithify::fleet {
namespace {

using TablePtr = std::shared_ptr<const group::OpenedTable>;

// Tables as groups of the same job see them: not those of another one, which may have been given
// other keys. Thread-safe.
class OpenedTables {
 public:
  // What `open` gives, or gave to an earlier group of the job; one group opens at a time.
  template <typename F>
  Result<TablePtr> Get(const group::GroupTask& task, F open) {
    const std::string key =
        task.job_id + "\n" + std::to_string(task.snapshot_id) + "\n" + task.metadata_location;
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& known : entries_) {
        if (known->key == key) entry = known;
      }
      if (!entry) {
        entry = std::make_shared<Entry>();
        entry->key = key;
        entries_.push_back(entry);
        if (entries_.size() > kEntriesMax) entries_.pop_front();
      }
    }
    const std::lock_guard lock(entry->mutex);
    if (entry->table) return entry->table;
    LITHIFY_TRY_ASSIGN(entry->table, open());
    return entry->table;
  }

 private:
  static constexpr size_t kEntriesMax = 4;
  struct Entry {
    std::string key;
    std::mutex mutex;
    TablePtr table;
  };
  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;
};

// What all attempts of a worker share.
struct Shared {
  Shared(OrderStorageOptions its_storage, MakeRunner its_runner, SpillPlace its_spill,
         Clock& the_clock, Random& the_random)
      : storage(std::move(its_storage)),
        make_runner(std::move(its_runner)),
        spill(std::move(its_spill)),
        clock(the_clock),
        random(the_random) {}
  const OrderStorageOptions storage;
  const MakeRunner make_runner;
  const SpillPlace spill;
  Clock& clock;
  Random& random;
  OpenedTables tables;
};

class TableAttempt final : public GroupAttempt {
 public:
  TableAttempt(std::shared_ptr<Shared> shared, const GroupOrder& order, const GroupGrant& grant)
      : shared_(std::move(shared)),
        task_(order.task),
        grant_(grant),
        storage_(
            shared_->storage, order.loans, [this] { return Stopped(); }, shared_->clock,
            shared_->random),
        scoped_(storage_, [this] { Step(); }) {}

  Result<group::GroupResult> Run(const OnProgress& on_progress, const CancelFlag& cancel) override {
    {
      const std::lock_guard lock(mutex_);
      on_progress_ = on_progress;
      cancel_ = &cancel;
    }
    auto result = Rewrite(on_progress, cancel);
    const std::lock_guard lock(mutex_);
    on_progress_ = nullptr;
    cancel_ = nullptr;  // Outputs are still removed.
    return result;
  }

  void Refresh(const std::vector<storage::Loan>& loans) override { storage_.Refresh(loans); }

  std::vector<std::string> RemoveOutputs(const group::GroupResult& result) override {
    return group::RemoveOutputs(scoped_, result.outputs);
  }

 private:
  Result<group::GroupResult> Rewrite(const OnProgress& on_progress, const CancelFlag& cancel) {
    LITHIFY_TRY(scoped_.AllowReading(task_.metadata_location));
    LITHIFY_TRY_ASSIGN(const TablePtr table,
                       shared_->tables.Get(task_, [&] { return OpenTable(cancel); }));
    LITHIFY_TRY(AllowPlaces(table->view().metadata));
    LITHIFY_TRY_ASSIGN(const auto files, group::FindFiles(table->view(), task_));
    const group::GroupServices services{.locations = scoped_,
                                        .make_runner =
                                            [this](storage::Store& store) {
                                              return shared_->make_runner(store,
                                                                          grant_.memory_bytes);
                                            },
                                        .clock = shared_->clock,
                                        .random = shared_->random};
    const group::GroupBounds bounds{.threads = grant_.threads,
                                    .memory_bytes = grant_.memory_bytes,
                                    .spill_directory = shared_->spill.directory,
                                    .spill_bytes_max = shared_->spill.bytes_max,
                                    .on_progress = on_progress,
                                    .turn_to_load = grant_.turn_to_load};
    return group::RewriteGroup(services, table->view(), task_, files, bounds, cancel);
  }

  Result<TablePtr> OpenTable(const CancelFlag& cancel) {
    // Where the table is, its metadata says; it is read once more for what is in it.
    LITHIFY_TRY_ASSIGN(const std::string text,
                       table::ReadMetadataFile(scoped_, task_.metadata_location));
    LITHIFY_TRY_ASSIGN(const auto metadata,
                       table::ParseTableMetadata(text, task_.metadata_location));
    LITHIFY_TRY(AllowPlaces(metadata));
    return group::OpenedTable::Open(scoped_, task_.metadata_location, task_.snapshot_id,
                                    grant_.threads, cancel);
  }

  Status AllowPlaces(const iceberg::TableMetadata& metadata) {
    std::vector<std::string> places = {metadata.location};
    for (const char* key : {"write.data.path", "write.metadata.path", "write.folder-storage.path",
                            "write.object-storage.path"}) {
      places.push_back(metadata.Property(key, ""));
    }
    // Of another one, nobody knows what else is in it: perhaps the whole bucket.
    const std::string& file = task_.metadata_location;
    const std::string directory = file.substr(0, file.rfind('/'));
    if (directory.ends_with("/metadata")) places.push_back(directory);
    for (const std::string& place : places) {
      if (!place.empty()) LITHIFY_TRY(scoped_.AllowReadingBelow(place));
    }
    // Of no partition: the place of all.
    return scoped_.AllowWritingBelow(group::DataLocation(metadata, {.spec_id = -1, .values = {}}));
  }

  void Step() {
    OnProgress on_progress;
    {
      const std::lock_guard lock(mutex_);
      on_progress = on_progress_;
    }
    if (on_progress) on_progress(0);
  }
  bool Stopped() {
    const std::lock_guard lock(mutex_);
    return cancel_ != nullptr && cancel_->requested();
  }

  const std::shared_ptr<Shared> shared_;
  const group::GroupTask task_;
  const GroupGrant grant_;
  std::mutex mutex_;
  OnProgress on_progress_;
  const CancelFlag* cancel_ = nullptr;  // While it runs.
  OrderStorage storage_;
  storage::ScopedLocations scoped_;
};

}  // namespace

WorkerService::OpenAttempt OpenTableAttempts(OrderStorageOptions options, MakeRunner make_runner,
                                             Clock& clock, Random& random, SpillPlace spill) {
  auto shared = std::make_shared<Shared>(std::move(options), std::move(make_runner),
                                         std::move(spill), clock, random);
  return [shared](const GroupOrder& order,
                  const GroupGrant& grant) -> Result<std::unique_ptr<GroupAttempt>> {
    return std::make_unique<TableAttempt>(shared, order, grant);
  };
}

}  // namespace lithify::fleet
