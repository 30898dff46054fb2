#include "job/hive_load.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/from_exception.h"
#include "base/guard.h"
#include "base/parallel.h"
#include "base/text.h"
#include "table/hive_manifest.h"

namespace lithify::job {
namespace {

// A partition is listed again this often while it changes under the reader.
constexpr int kReadsMax = 5;

struct Raw {
  HivePartitionState state;
  std::vector<std::string> missing;  // Live in the manifest, not in the listing.
  std::string irregular;             // The first link or special file with a data file's name.
  // When the manifest was published, if the listing shows the very version that was read.
  std::optional<Time> published;
};

// Lists, then reads the manifest, once. nullopt: the two do not fit, try again.
Result<std::optional<Raw>> ReadOnce(storage::Store& store, const PartitionId& id) {
  Raw raw;
  raw.state.id = id;
  LITHIFY_TRY_ASSIGN(const auto listing, store.List(id.key_prefix));
  std::optional<storage::ObjectInfo> listed_manifest;
  for (const storage::ObjectInfo& object : listing) {
    std::string name = object.key.substr(id.key_prefix.size());
    if (name.empty() || name.ends_with('/')) continue;  // Nested keys are not ours (R200).
    if (name == table::kManifestName) {
      listed_manifest = object;
      continue;
    }
    if (!object.regular) {
      if (raw.irregular.empty() && IsLiveFileName(name)) raw.irregular = std::move(name);
      continue;
    }
    raw.state.files.push_back({.name = std::move(name),
                               .size = object.size,
                               .modified = object.modified,
                               .version = object.version,
                               .state = FileState::kOther,
                               .rows = std::nullopt,
                               .unsupported = {}});
  }
  LITHIFY_TRY_ASSIGN(raw.state.manifest, table::ReadManifest(store, id.key_prefix));
  if (raw.state.manifest.has_value() != listed_manifest.has_value()) return std::optional<Raw>();
  if (listed_manifest && !listed_manifest->version.empty() &&
      listed_manifest->version == raw.state.manifest->version) {
    raw.published = listed_manifest->modified;
  }
  raw.missing = plan::MissingLiveFiles(raw.state);
  std::ranges::sort(raw.state.files, {}, &HiveFile::name);
  return raw;
}

Result<Raw> ReadStable(storage::Store& store, const PartitionId& id) {
  std::string version_with_missing;
  for (int read = 0; read < kReadsMax; ++read) {
    LITHIFY_TRY_ASSIGN(std::optional<Raw> raw, ReadOnce(store, id));
    if (!raw) continue;
    if (raw->missing.empty()) return std::move(*raw);
    // Two equal versions around a listing: the manifest was current while the file was absent.
    if (raw->state.manifest->version == version_with_missing) {
      return Fail(Code::kCorrupt,
                  "the manifest (generation " +
                      std::to_string(raw->state.manifest->manifest.generation) + ") names " +
                      raw->missing.front() + ", which does not exist (" +
                      std::to_string(raw->missing.size()) + " missing)",
                  id.key_prefix,
                  "restore the file from a backup; lithify leaves this partition alone until then");
    }
    version_with_missing = raw->state.manifest->version;
  }
  return Fail(Code::kConflict, "the partition kept changing while it was read", id.key_prefix,
              "the next sweep tries again");
}

// To be asked after the manifest was read, so that it is never the time of an older one.
Result<Time> ManifestTime(storage::Store& store, const PartitionId& id) {
  auto info = store.Stat(id.key_prefix + std::string(table::kManifestName));
  if (!info && info.error().code == Code::kNotFound) {
    return Fail(Code::kConflict, "the manifest disappeared while it was read", id.key_prefix);
  }
  if (!info) return Fail(std::move(info.error()).In(id.key_prefix));
  return info->modified;
}

void FindReusedNames(LoadedPartition& loaded) {
  if (!loaded.state.manifest || loaded.trouble) return;
  // Of thousands of files in the grace period, each is one of thousands of records.
  std::unordered_map<std::string_view, const RetiredFile*> retired;
  for (const RetiredFile& record : loaded.state.manifest->manifest.retired) {
    retired.try_emplace(record.name, &record);
  }
  for (const HiveFile& file : loaded.state.files) {
    if (file.state != FileState::kAmbiguous) continue;
    const auto record = retired.find(file.name);
    if (record == retired.end() || !plan::ReusesName(file, *record->second)) continue;
    loaded.trouble = Error{Code::kCorrupt,
                           "a file was written under the name of a retired one (retired at " +
                               FormatTime(record->second->at) + ", modified at " +
                               FormatTime(file.modified) + "); names must be unique",
                           loaded.state.id.key_prefix + file.name, "rename it to have it adopted"};
    return;
  }
}

storage::ObjectInfo ObjectOf(const HivePartitionState& state, const HiveFile& file) {
  return {.key = state.id.key_prefix + file.name,
          .size = file.size,
          .modified = file.modified,
          .version = file.version};
}

// As they were listed, in the order of the state's files.
std::vector<storage::ObjectInfo> ObjectsOf(const HivePartitionState& state, FileState wanted) {
  std::vector<storage::ObjectInfo> objects;
  for (const HiveFile& file : state.files) {
    if (file.state == wanted) objects.push_back(ObjectOf(state, file));
  }
  return objects;
}

// One per object, in their order.
std::vector<Result<rewrite::FileFacts>> InspectAll(const HiveServices& services,
                                                   const std::vector<storage::ObjectInfo>& objects,
                                                   int threads) {
  std::vector<Result<rewrite::FileFacts>> facts(objects.size());
  ForEach(objects.size(), threads, [&](size_t i) {
    try {
      facts[i] = services.runner.Inspect(objects[i]);
    } catch (const std::exception& e) {
      facts[i] = Fail(FromException(e, objects[i].key));
    }
  });
  return facts;
}

// Rows of the files that the manifest names, whatever they are called; nullopt if one of them
// cannot be read.
Result<std::optional<int64_t>> CountLiveRows(const HiveServices& services,
                                             const HivePartitionState& state, int threads) {
  int64_t rows = 0;
  std::vector<storage::ObjectInfo> objects;
  for (const std::string& name : state.manifest->manifest.files) {
    const auto file = std::ranges::lower_bound(state.files, name, {}, &HiveFile::name);
    const bool listed = file != state.files.end() && file->name == name;
    objects.push_back(listed ? ObjectOf(state, *file)
                             : storage::ObjectInfo{.key = state.id.key_prefix + name});
  }
  auto inspected = InspectAll(services, objects, threads);
  for (size_t i = 0; i < objects.size(); ++i) {
    auto& facts = inspected[i];
    if (facts) {
      rows += facts->rows;
    } else if (facts.error().code == Code::kCorrupt || facts.error().code == Code::kNotFound) {
      return std::optional<int64_t>();
    } else {
      return Fail(std::move(facts.error()).In(objects[i].key));
    }
  }
  return rows;
}

// Over another writer's manifest, a file with just as many rows as all that is live may be what
// that writer's compactor made of it and did not get to publish: adopted, it would show all rows
// twice.
Status DoubtForeignOutputs(const HiveServices& services, LoadedPartition& loaded, int threads) {
  if (!loaded.state.manifest || loaded.state.manifest->manifest.has_lineage) return {};
  if (loaded.Names(FileState::kLate).empty()) return {};
  LITHIFY_TRY_ASSIGN(const std::optional<int64_t> live,
                     CountLiveRows(services, loaded.state, threads));
  for (HiveFile& file : loaded.state.files) {
    if (file.state != FileState::kLate || (live && file.rows != *live)) continue;
    file.state = FileState::kAmbiguous;
    loaded.foreign.push_back(file.name);
    loaded.notes.push_back(
        file.name + " is not adopted: " +
        (live ? "it has as many rows as all files of another writer's manifest together, and may "
                "be that writer's unfinished compaction of them"
              : "not all files of another writer's manifest can be read, so it may hold their "
                "rows"));
  }
  return {};
}

enum class Look { kKeep, kDrop };

void PlaceMarked(const rewrite::OutputMark& mark, const std::string& key, LoadedPartition& loaded,
                 HiveFile& file) {
  if (mark.partition == loaded.state.id.key_prefix) {
    if (guard::kMarkCheck) file.state = FileState::kOwnOrphan;
    return;
  }
  file.state = FileState::kAmbiguous;
  if (loaded.trouble) return;
  loaded.trouble = Error{Code::kCorrupt,
                         "this file is the output of a compaction of " + mark.partition + " (job " +
                             mark.job_id + "); it was moved or copied here",
                         key, "move it away; its rows belong to the other partition"};
}

Result<Look> PlaceUnlisted(const HiveServices& services, const plan::HiveOptions& options,
                           Result<rewrite::FileFacts> facts, LoadedPartition& loaded,
                           HiveFile& file) {
  const std::string key = loaded.state.id.key_prefix + file.name;
  if (facts) {
    file.rows = facts->rows;
    file.unsupported = facts->unsupported;
    if (facts->mark) PlaceMarked(*facts->mark, key, loaded, file);
    return Look::kKeep;
  }
  // Retired and removed by somebody since the listing: it never was late.
  if (facts.error().code == Code::kNotFound) return Look::kDrop;
  if (facts.error().code != Code::kCorrupt) return Fail(std::move(facts.error()).In(key));
  file.state = FileState::kUnreadable;
  if (services.clock.Now() - file.modified <= options.gc_grace) {
    loaded.notes.push_back(file.name +
                           " cannot be read yet, and is left alone: " + facts.error().message);
  } else if (!loaded.trouble) {
    loaded.trouble = std::move(facts.error())
                         .In(key)
                         .Hint(
                             "no manifest lists this file and it is no readable Parquet: repair "
                             "or remove it by hand; lithify never does");
  }
  return Look::kKeep;
}

}  // namespace

std::vector<std::string> LoadedPartition::Names(FileState wanted) const {
  std::vector<std::string> names;
  for (const HiveFile& file : state.files) {
    if (file.state == wanted) names.push_back(file.name);
  }
  return names;
}

int FootersAtOnce(const HiveServices& services, const HiveSettings& settings, int threads) {
  if (services.store.small_reads_are_cheap()) return threads;
  return std::max(threads, settings.looks_at_once);
}

Result<LoadedPartition> LoadPartition(const HiveServices& services,
                                      const plan::HiveOptions& options, const PartitionId& id,
                                      int threads) {
  LITHIFY_TRY_ASSIGN(Raw raw, ReadStable(services.store, id));
  LoadedPartition loaded;
  loaded.state = std::move(raw.state);
  LITHIFY_TRY(RepairRetiredTimes(services.store, loaded.state, raw.published));
  Time manifest_modified;  // Decides only over another writer's.
  if (loaded.state.manifest && !loaded.state.manifest->manifest.has_lineage) {
    LITHIFY_TRY_ASSIGN(manifest_modified, ManifestTime(services.store, id));
  }
  plan::ClassifyFiles(loaded.state, manifest_modified);
  if (!raw.irregular.empty()) {
    loaded.irregular = true;
    loaded.trouble = Error{Code::kUnsupported,
                           "is a symbolic link or special file, which lithify does not follow",
                           id.key_prefix + raw.irregular, "replace it by the file itself"};
  }
  FindReusedNames(loaded);
  loaded.foreign = loaded.Names(FileState::kAmbiguous);
  auto inspected = InspectAll(services, ObjectsOf(loaded.state, FileState::kLate), threads);
  auto next = inspected.begin();
  std::vector<HiveFile> kept;
  kept.reserve(loaded.state.files.size());
  for (HiveFile& file : loaded.state.files) {
    if (file.state == FileState::kLate) {
      LITHIFY_TRY_ASSIGN(const Look look,
                         PlaceUnlisted(services, options, std::move(*next++), loaded, file));
      if (look == Look::kDrop) continue;
    }
    kept.push_back(std::move(file));
  }
  loaded.state.files = std::move(kept);
  LITHIFY_TRY(DoubtForeignOutputs(services, loaded, threads));
  return loaded;
}

Status RepairRetiredTimes(storage::Store& store, HivePartitionState& state,
                          std::optional<Time> published) {
  if (!state.manifest) return {};
  HiveManifest& manifest = state.manifest->manifest;
  const auto is_own = [&](const RetiredFile& file) { return file.job_id == manifest.job_id; };
  if (!std::ranges::any_of(manifest.retired, is_own)) return {};
  if (!published) {
    LITHIFY_TRY_ASSIGN(published, ManifestTime(store, state.id));
  }
  for (RetiredFile& file : manifest.retired) {
    if (is_own(file)) file.at = std::max(file.at, *published);
  }
  return {};
}

Status InspectLive(const HiveServices& services, LoadedPartition& loaded, int threads) {
  auto inspected = InspectAll(services, ObjectsOf(loaded.state, FileState::kLive), threads);
  auto next = inspected.begin();
  for (HiveFile& file : loaded.state.files) {
    if (file.state != FileState::kLive) continue;
    const std::string key = loaded.state.id.key_prefix + file.name;
    Result<rewrite::FileFacts>& facts = *next++;
    if (!facts) return Fail(std::move(facts.error()).In(key));
    file.rows = facts->rows;
    file.unsupported = facts->unsupported;
    if (loaded.state.manifest || !facts->mark || !guard::kMarkCheck) continue;
    return Fail(Code::kCorrupt,
                "manifest.json is missing but compaction outputs are present: " + file.name +
                    " was written by job " + facts->mark->job_id,
                loaded.state.id.key_prefix,
                "restore manifest.json: the last committed event of this partition in the audit "
                "log (lithify audit) names the generation, its inputs and its outputs");
  }
  return {};
}

std::vector<std::string> FindGone(const HivePartitionState& state) {
  std::vector<std::string> gone;
  if (!state.manifest) return gone;
  std::set<std::string_view> listed;
  for (const HiveFile& file : state.files) listed.insert(file.name);
  for (const RetiredFile& file : state.manifest->manifest.retired) {
    if (!listed.contains(file.name)) gone.push_back(file.name);
  }
  return gone;
}

const SeriesLayout& LayoutOf(const HiveSettings& settings, const PartitionId& id) {
  const auto found = std::ranges::find(settings.series, id.series, &SeriesLayout::name);
  LITHIFY_CHECK(found != settings.series.end(), "a partition of an unknown series: " + id.series);
  return *found;
}

rewrite::RowRule MakeRowRule(const SeriesLayout& layout, const PartitionId& id) {
  rewrite::RowRule rule;
  rule.tenant_column = layout.tenant_row_column;
  rule.tenant = id.tenant;
  rule.time_columns = layout.time_row_columns;
  rule.start = id.start;
  rule.end = id.end;
  for (size_t i = 0; i < layout.columns.size() && i < id.values.size(); ++i) {
    const ColumnRole role = layout.columns[i].role;
    // Parts of the time are not compared one by one: a file may well have a column `hour` of its
    // own, in another time zone.
    const bool compared = role == ColumnRole::kOther ||
                          (role == ColumnRole::kTenant && layout.tenant_row_column.empty());
    if (compared) rule.path_values.push_back(id.values[i]);
  }
  return rule;
}

bool IsLive(const HiveManifest& manifest, const std::string& name) {
  return std::ranges::find(manifest.files, name) != manifest.files.end();
}

const RetiredFile* FindRetired(const HiveManifest& manifest, const std::string& name) {
  const auto found = std::ranges::find(manifest.retired, name, &RetiredFile::name);
  return found == manifest.retired.end() ? nullptr : &*found;
}

}  // namespace lithify::job
