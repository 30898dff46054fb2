#include "job/iceberg_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/parallel.h"
#include "job/iceberg_guard.h"
#include "job/iceberg_load.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_snapshot.h"

namespace lithify::job {
namespace {

constexpr size_t kRemovalsPerLook = 1000;
constexpr int kLooks = 3;
constexpr int kRetries = 3;  // Of removals that failed for now.
constexpr Duration kRetryWait = std::chrono::milliseconds(200);

FileKind KindOf(iceberg::FileContent content) {
  switch (content) {
    case iceberg::FileContent::kData: return FileKind::kData;
    case iceberg::FileContent::kPositionDeletes: return FileKind::kPositionDeletes;
    case iceberg::FileContent::kEqualityDeletes: return FileKind::kEqualityDeletes;
  }
  return FileKind::kOther;
}

// Since when it lies here as it does. A file that was moved or copied in with its old time has been
// here since then only; where the store knows no time at all, nobody does.
Time LastTouched(const storage::ObjectInfo& object) {
  constexpr Time kUnknown{};
  return object.modified > kUnknown ? std::max(object.modified, object.changed) : kUnknown;
}

using Files = std::vector<const Doomed::value_type*>;

// What could not be removed for now, and why.
struct Later {
  const Doomed::value_type* file;
  Error error;
};

// How many files are removed together. Where a request is a round trip, one for many; files that
// are compared with how they were listed are few at a time, so that little time lies in between.
size_t BatchOf(const storage::Store& store, const DoomedFile& first) {
  if (store.small_reads_are_cheap()) return 1;
  return first.listed ? 100 : kRemovalsPerLook;
}

// Whether it is another file than the one that was listed: a writer may have put it there since
// (R184).
Result<bool> HasChanged(storage::Store& store, const std::string& key, const DoomedFile& file) {
  if (!file.listed) return false;
  LITHIFY_TRY_ASSIGN(const auto now, store.Stat(key));
  return now.size != file.listed->size || LastTouched(now) != file.listed->modified;
}

class Removal {
 public:
  Removal(storage::Locations& locations, RemovedFiles& report)
      : locations_(locations), report_(report) {}

  // Removes some of `files` from `at` on, all of one rank and in one store, and moves `at` behind
  // them. Those that are gone already count as removed. Those that fail for now are added to
  // `again`.
  void Some(const Files& files, size_t& at, size_t most, std::vector<Later>& again) {
    keys_.clear();
    batch_.clear();
    const auto first = locations_.Resolve(files[at]->first);
    if (!first) {
      report_.failed.push_back(Error(first.error()).In(files[at]->first));
      ++at;
      return;
    }
    const int rank = RemovalRank(files[at]->second.kind);
    most = std::min(most, BatchOf(*first->store, files[at]->second));
    for (const size_t end = std::min(files.size(), at + most); at < end; ++at) {
      const auto place = locations_.Resolve(files[at]->first);
      if (!place || place->store != first->store) break;
      if (RemovalRank(files[at]->second.kind) != rank) break;
      if (files[at]->second.kept) continue;
      keys_.push_back(place->key);
      batch_.push_back(files[at]);
    }
    LeaveOutChanged(*first->store, again);
    const std::vector<Status> removed = first->store->RemoveMany(keys_);
    for (size_t i = 0; i < batch_.size(); ++i) Count(*batch_[i], removed[i], again);
  }

 private:
  void LeaveOutChanged(storage::Store& store, std::vector<Later>& again) {
    std::vector<Result<bool>> changed(batch_.size(), false);
    ForEach(batch_.size(), kLooksAtOnce,
            [&](size_t i) { changed[i] = HasChanged(store, keys_[i], batch_[i]->second); });
    size_t left = 0;
    for (size_t i = 0; i < batch_.size(); ++i) {
      if (changed[i] && !*changed[i]) {
        if (left != i) keys_[left] = std::move(keys_[i]);
        batch_[left++] = batch_[i];
      } else if (changed[i]) {
        report_.notes.push_back("kept, it changed since it was listed: " + batch_[i]->first);
      } else if (changed[i].error().code != Code::kNotFound) {
        Count(*batch_[i], Fail(changed[i].error()), again);
      }
    }
    keys_.resize(left);
    batch_.resize(left);
  }

  void Count(const Doomed::value_type& file, const Status& removed, std::vector<Later>& again) {
    if (removed || removed.error().code == Code::kNotFound) {
      report_.files.push_back(file.first);
      ++report_.files_removed;
      ++report_.by_kind[std::string(FileKindName(file.second.kind))];
    } else if (removed.error().code == Code::kTransient) {
      again.push_back({&file, removed.error()});
    } else {
      report_.failed.push_back(Error(removed.error()).In(file.first));
    }
  }

  static constexpr int kLooksAtOnce = 8;

  storage::Locations& locations_;
  RemovedFiles& report_;
  std::vector<std::string> keys_;
  Files batch_;
};

}  // namespace

Status SameTable(const catalog::LoadedTable& seen, const catalog::LoadedTable& now) {
  if (now.metadata.table_uuid == seen.metadata.table_uuid) return {};
  return Fail(Code::kConflict, "another table has this name now", seen.ident.ToString(),
              "what is left of the old one is under " + seen.metadata.location);
}

int RemovalRank(FileKind kind) {
  switch (kind) {
    case FileKind::kManifest: return 1;
    case FileKind::kManifestList: return 2;
    case FileKind::kMetadata: return 3;
    default: return 0;
  }
}

std::string_view FileKindName(FileKind kind) {
  switch (kind) {
    case FileKind::kData: return "data";
    case FileKind::kPositionDeletes: return "position_deletes";
    case FileKind::kEqualityDeletes: return "equality_deletes";
    case FileKind::kManifest: return "manifest";
    case FileKind::kManifestList: return "manifest_list";
    case FileKind::kStatistics: return "statistics";
    case FileKind::kMetadata: return "metadata";
    case FileKind::kOther: return "other";
  }
  return "other";
}

Status ReachWalk::One(const std::string& location, FileKind kind, const Visit& visit) {
  LITHIFY_TRY_ASSIGN(const std::string canonical, locations_.Canonical(location));
  visit(canonical, kind);
  return {};
}

Status ReachWalk::Manifest(const iceberg::TableMetadata& table,
                           const iceberg::ManifestFile& manifest, const Visit& visit) {
  LITHIFY_TRY(cancel_.Check());
  LITHIFY_TRY(One(manifest.manifest_path, FileKind::kManifest, visit));
  if (seen_.contains(manifest.manifest_path)) return {};
  LITHIFY_TRY_ASSIGN(const std::string bytes,
                     table::ReadMetadataFile(locations_, manifest.manifest_path));
  const table::ManifestReadOptions read{.metrics = false, .live_only = true, .bounds_of = {}};
  LITHIFY_TRY(table::ReadManifest(
      bytes, manifest, table, read, [&](iceberg::ManifestEntry&& entry) -> Status {
        return One(entry.file.file_path, KindOf(entry.file.content), visit);
      }));
  // Only now: what could not be read whole has to be read by who tries again.
  seen_.insert(manifest.manifest_path);
  return {};
}

Result<int64_t> ReachWalk::CountEntries(const iceberg::TableMetadata& table,
                                        const iceberg::Snapshot& snapshot) {
  // Of a manifest that does not tell: no entry has fewer bytes, packed.
  constexpr int64_t kEntryBytes = 32;
  // Damaged metadata may claim any number: no sum of these overflows.
  const auto within = [](int64_t n) { return std::clamp(n, int64_t{0}, int64_t{1} << 40); };
  LITHIFY_TRY(cancel_.Check());
  LITHIFY_TRY_ASSIGN(const auto manifests, table::SnapshotManifests(locations_, table, snapshot));
  int64_t entries = 0;
  for (const iceberg::ManifestFile& manifest : manifests) {
    if (!seen_.insert(manifest.manifest_path).second) continue;
    const auto& added = manifest.added_files_count;
    const auto& existing = manifest.existing_files_count;
    entries += added && existing && *added >= 0 && *existing >= 0
                   ? within(*added) + within(*existing)
                   : within(manifest.manifest_length / kEntryBytes);
  }
  return entries;
}

Status ReachWalk::Snapshot(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot,
                           const Visit& visit) {
  if (!snapshot.manifest_list.empty()) {
    LITHIFY_TRY(One(snapshot.manifest_list, FileKind::kManifestList, visit));
    if (seen_.contains(snapshot.manifest_list)) return {};
  }
  LITHIFY_TRY_ASSIGN(const auto manifests, table::SnapshotManifests(locations_, table, snapshot));
  for (const iceberg::ManifestFile& manifest : manifests) {
    LITHIFY_TRY(Manifest(table, manifest, visit));
  }
  if (!snapshot.manifest_list.empty()) seen_.insert(snapshot.manifest_list);
  return {};
}

Status ReachWalk::Table(const iceberg::TableMetadata& table, const std::string& metadata_location,
                        const Visit& visit) {
  LITHIFY_TRY(One(metadata_location, FileKind::kMetadata, visit));
  for (const auto& entry : table.metadata_log) {
    LITHIFY_TRY(One(entry.metadata_file, FileKind::kMetadata, visit));
  }
  for (const auto* statistics : {&table.statistics, &table.partition_statistics}) {
    for (const iceberg::StatisticsFile& file : *statistics) {
      LITHIFY_TRY(One(file.path, FileKind::kStatistics, visit));
    }
  }
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    LITHIFY_TRY(Snapshot(table, snapshot, visit));
  }
  return {};
}

size_t PassesFor(int64_t names, int64_t memory_bytes) {
  constexpr int64_t kNameBytes = 512;  // Of one name in memory, with all that is kept of it.
  constexpr int64_t kPassesMax = 1000;
  const int64_t held = std::max<int64_t>(1, memory_bytes / 2 / kNameBytes);
  return static_cast<size_t>(std::clamp<int64_t>(names / held, 0, kPassesMax - 1) + 1);
}

ReachWalk::Visit BothReadings(ReachWalk::Visit visit) {
  return [visit = std::move(visit)](const std::string& canonical, FileKind kind) {
    visit(canonical, kind);
    if (canonical.find('%') == std::string::npos) return;
    if (std::string decoded = storage::PercentDecode(canonical); decoded != canonical) {
      visit(decoded, kind);
    }
  };
}

Status RemoveUnreached(const IcebergServices& services, const catalog::LoadedTable& seen,
                       ReachWalk& walk, Doomed& doomed, const CancelFlag& cancel,
                       RemovedFiles& report) {
  const auto keep = BothReadings([&doomed](const std::string& path, FileKind) {
    if (const auto found = doomed.find(path); found != doomed.end()) found->second.kept = true;
  });
  std::string looked_at;
  const auto look = [&]() -> Status {
    if constexpr (!guard::kIcebergLook) return {};
    // Also what the caller's own commit left, whatever the name stands for a moment later.
    if (looked_at.empty()) LITHIFY_TRY(walk.Table(seen.metadata, seen.metadata_location, keep));
    for (int tries = 1;; ++tries) {
      LITHIFY_TRY_ASSIGN(const auto table, services.catalog.LoadTable(seen.ident));
      LITHIFY_TRY(SameTable(seen, table));
      if (table.metadata_location == looked_at) return {};
      Status walked = walk.Table(table.metadata, table.metadata_location, keep);
      if (walked) {
        looked_at = table.metadata_location;
        return {};
      }
      // Somebody else expired a snapshot meanwhile: the newest state counts.
      Error error = IfMovedOn(services, table, std::move(walked.error()));
      if (error.code != Code::kConflict || tries == kLooks) return Fail(std::move(error));
    }
  };
  LITHIFY_TRY(look());
  std::erase_if(doomed, [](const auto& file) { return file.second.kept; });
  Files order;
  order.reserve(doomed.size());
  for (const auto& file : doomed) order.push_back(&file);
  std::ranges::sort(order, {}, [](const auto* file) {
    return std::pair(RemovalRank(file->second.kind), std::string_view(file->first));
  });
  services.progress.AddTotal(0, static_cast<int64_t>(order.size()));
  Removal removal(services.locations, report);
  std::vector<Later> again;
  for (size_t at = 0, looked = 0; at < order.size();) {
    if (at - looked >= kRemovalsPerLook) {
      LITHIFY_TRY(look());
      looked = at;
    }
    LITHIFY_TRY(cancel.Check());
    const size_t before = at;
    removal.Some(order, at, looked + kRemovalsPerLook - at, again);
    for (size_t i = before; i < at; ++i) services.progress.AddItem();
  }
  // What may pass is tried again when all others are gone (I21).
  for (int tries = 1; !again.empty(); ++tries) {
    services.clock.Sleep(kRetryWait * tries);
    LITHIFY_TRY(look());
    Files tried;
    for (const Later& later : std::exchange(again, {})) tried.push_back(later.file);
    for (size_t at = 0; at < tried.size();) {
      LITHIFY_TRY(cancel.Check());
      removal.Some(tried, at, kRemovalsPerLook, again);
    }
    if (tries < kRetries) continue;
    for (Later& later : std::exchange(again, {})) {
      report.failed.push_back(std::move(later.error).In(later.file->first));
    }
  }
  return {};
}

Status CheckClock(storage::Locations& locations, const iceberg::TableMetadata& table) {
  LITHIFY_TRY_ASSIGN(const auto place, locations.Resolve(table.location + "/x"));
  return storage::CheckClock(*place.store);
}

Status ListBelow(storage::Locations& locations, const std::string& location,
                 const CancelFlag& cancel, Listing& listing) {
  // The store's keys are made into locations again below the canonical form of the start.
  LITHIFY_TRY_ASSIGN(const std::string base, locations.Canonical(location));
  LITHIFY_TRY_ASSIGN(const auto place, locations.Resolve(location));
  const std::string root = place.key + "/";
  return place.store->ListPages(
      root, storage::ListDepth::kAll, [&](const std::vector<storage::ObjectInfo>& page) -> Status {
        LITHIFY_TRY(cancel.Check());
        for (const storage::ObjectInfo& object : page) {
          if (!object.regular) {
            ++listing.irregular;
          } else {
            listing.files.push_back({.location = base + "/" + object.key.substr(root.size()),
                                     .size = object.size,
                                     .modified = LastTouched(object)});
          }
        }
        return {};
      });
}

}  // namespace lithify::job
