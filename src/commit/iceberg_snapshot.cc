#include "commit/iceberg_snapshot.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_validation.h"
#include "table/iceberg_snapshot.h"

namespace lithify::commit {
namespace {

using iceberg::DataFile;
using iceberg::EntryStatus;
using iceberg::FileContent;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;

// A manifest of this many files with bounds is about as large as writers make them (8 MiB).
constexpr size_t kEntriesPerManifest = 20000;

void SetIfAny(SnapshotSummary& summary, const char* key, int64_t value) {
  if (value > 0) summary[key] = std::to_string(value);
}

// A count of -1 says that a writer did not count.
Status AddTo(int64_t& sum, int64_t count, const std::string& where) {
  if (!__builtin_add_overflow(sum, std::max<int64_t>(count, 0), &sum)) return {};
  return Fail(Code::kCorrupt, "the rows or bytes of a change are more than 64 bits can count",
              where, "look at what the manifests say of this file");
}

// Java leaves out a total that its parent lacks or that would be negative; so do we.
void SetTotal(SnapshotSummary& summary, const SnapshotSummary& parent, const std::string& key,
              int64_t added, int64_t removed) {
  const auto at = parent.find(key);
  if (at == parent.end()) return;
  const std::string& text = at->second;
  int64_t total = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), total);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return;
  if (__builtin_add_overflow(total, added, &total)) return;
  if (__builtin_sub_overflow(total, removed, &total) || total < 0) return;
  summary[key] = std::to_string(total);
}

bool SameFile(const DataFile& a, const DataFile& b) {
  // Floating-point partition values: NaN is equal to itself here.
  const iceberg::PartitionKey key_a{a.spec_id, a.partition};
  const iceberg::PartitionKey key_b{b.spec_id, b.partition};
  if (key_a < key_b || key_b < key_a) return false;
  if (a == b) return true;
  DataFile rest_a = a;
  DataFile rest_b = b;
  rest_a.partition.clear();
  rest_b.partition.clear();
  return rest_a == rest_b;
}

bool SameEntry(const ManifestEntry& a, const ManifestEntry& b) {
  return a.status == b.status && a.snapshot_id == b.snapshot_id &&
         a.sequence_number == b.sequence_number &&
         a.file_sequence_number == b.file_sequence_number && SameFile(a.file, b.file);
}

// What a reader sees of an entry whose numbers are inherited. `next_row_id` counts on for files
// without row ids; unset below version 3 and for deletes.
ManifestEntry AsRead(ManifestEntry entry, int64_t sequence_number,
                     std::optional<int64_t>& next_row_id) {
  for (int64_t* number : {&entry.sequence_number, &entry.file_sequence_number}) {
    if (*number == table::kInheritSequenceNumber) *number = sequence_number;
  }
  DataFile& file = entry.file;
  if (next_row_id && !file.first_row_id && entry.status != EntryStatus::kDeleted) {
    file.first_row_id = next_row_id;
    // Beyond 64 bits there is no next file: the reader refuses it.
    int64_t next = 0;
    if (__builtin_add_overflow(*next_row_id, std::max<int64_t>(file.record_count, 0), &next)) {
      next = std::numeric_limits<int64_t>::max();
    }
    next_row_id = next;
  }
  return entry;
}

}  // namespace

// --- summary -----------------------------------------------------------------------------------

Status SummaryCounts::Count(const DataFile& file, Side& side) {
  partitions_.insert(iceberg::PartitionKey{file.spec_id, file.partition});
  LITHIFY_TRY(AddTo(
      side.bytes,
      file.deletion_vector() ? file.content_size_in_bytes.value_or(0) : file.file_size_in_bytes,
      file.file_path));
  if (file.content == FileContent::kData) {
    side.data_files += 1;
    return AddTo(side.records, file.record_count, file.file_path);
  }
  side.delete_files += 1;
  if (file.content == FileContent::kEqualityDeletes) {
    side.equality_delete_files += 1;
    return AddTo(side.equality_deletes, file.record_count, file.file_path);
  }
  (file.deletion_vector() ? side.dvs : side.position_delete_files) += 1;
  return AddTo(side.position_deletes, file.record_count, file.file_path);
}

SnapshotSummary SummaryCounts::Build(const SnapshotSummary& parent) const {
  SnapshotSummary summary;
  SetIfAny(summary, "added-data-files", added_.data_files);
  SetIfAny(summary, "deleted-data-files", removed_.data_files);
  SetIfAny(summary, "added-records", added_.records);
  SetIfAny(summary, "deleted-records", removed_.records);
  SetIfAny(summary, "added-files-size", added_.bytes);
  SetIfAny(summary, "removed-files-size", removed_.bytes);
  SetIfAny(summary, "removed-delete-files", removed_.delete_files);
  SetIfAny(summary, "removed-position-delete-files", removed_.position_delete_files);
  SetIfAny(summary, "removed-dvs", removed_.dvs);
  SetIfAny(summary, "removed-equality-delete-files", removed_.equality_delete_files);
  SetIfAny(summary, "removed-position-deletes", removed_.position_deletes);
  SetIfAny(summary, "removed-equality-deletes", removed_.equality_deletes);
  summary["changed-partition-count"] = std::to_string(partitions_.size());
  SetTotal(summary, parent, "total-data-files", added_.data_files, removed_.data_files);
  SetTotal(summary, parent, "total-records", added_.records, removed_.records);
  SetTotal(summary, parent, "total-files-size", added_.bytes, removed_.bytes);
  SetTotal(summary, parent, "total-delete-files", added_.delete_files, removed_.delete_files);
  SetTotal(summary, parent, "total-position-deletes", added_.position_deletes,
           removed_.position_deletes);
  SetTotal(summary, parent, "total-equality-deletes", added_.equality_deletes,
           removed_.equality_deletes);
  return summary;
}

void AddStamp(const SnapshotStamp& stamp, SnapshotSummary& summary) {
  for (const auto& [key, value] : stamp.summary) summary.emplace(key, value);
  summary["operation"] = "replace";
  summary["engine-name"] = "lithify";
  summary[std::string(kCommitIdKey)] = stamp.fingerprint;
  const auto set = [&](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    summary["lithify." + name] = value;
    if (stamp.maintenance_keys) summary["sqe.maintenance." + name] = value;
  };
  set("job-id", stamp.job_id);
  set("trigger", stamp.trigger);
  set("principal", stamp.principal);
}

int64_t NewSnapshotId(const iceberg::TableMetadata& table, Random& random) {
  for (;;) {
    const auto id = static_cast<int64_t>(random.Next() >> 1);
    const auto logged = [&](const iceberg::SnapshotLogEntry& entry) {
      return entry.snapshot_id == id;
    };
    if (id > 0 && table.FindSnapshot(id) == nullptr &&
        std::ranges::none_of(table.snapshot_log, logged)) {
      return id;
    }
  }
}

// --- builder -----------------------------------------------------------------------------------

SnapshotBuilder::SnapshotBuilder(const table::MetadataSource& source,
                                 const iceberg::TableMetadata& table,
                                 const iceberg::Snapshot* parent, MetadataFiles& files,
                                 Random& random)
    : source_(source),
      table_(table),
      parent_(parent),
      files_(files),
      snapshot_id_(NewSnapshotId(table, random)),
      sequence_number_(table.format_version >= 2 ? table.last_sequence_number + 1 : 0) {}

std::string SnapshotBuilder::codec() const {
  const std::string name = table_.Property("write.avro.compression-codec", "gzip");
  if (name == "uncompressed") return "null";
  if (name == "zstd") return "zstandard";
  return name == "snappy" ? name : "deflate";
}

Status SnapshotBuilder::Keep(ManifestFile manifest) {
  if (!table::HasLiveFiles(manifest)) return {};
  const bool counted = manifest.added_files_count && manifest.existing_files_count &&
                       manifest.deleted_files_count && manifest.added_rows_count &&
                       manifest.existing_rows_count && manifest.deleted_rows_count;
  if (!counted && table_.format_version >= 2) {
    int64_t files[3] = {};
    int64_t rows[3] = {};
    const table::ManifestReadOptions all{.metrics = false, .live_only = false, .bounds_of = {}};
    LITHIFY_TRY(ForEachEntry(source_, table_, manifest, all, [&](ManifestEntry&& entry) {
      const auto status = static_cast<size_t>(entry.status);
      ++files[status];
      return AddTo(rows[status], entry.file.record_count, manifest.manifest_path);
    }));
    manifest.existing_files_count = files[0];
    manifest.added_files_count = files[1];
    manifest.deleted_files_count = files[2];
    manifest.existing_rows_count = rows[0];
    manifest.added_rows_count = rows[1];
    manifest.deleted_rows_count = rows[2];
  }
  auto& to = manifest.content == ManifestContent::kData ? data_ : deletes_;
  to.push_back(std::move(manifest));
  ++kept_;
  return {};
}

Result<int64_t> SnapshotBuilder::Rewrite(const ManifestFile& manifest,
                                         const std::function<bool(const ManifestEntry&)>& removed) {
  const iceberg::PartitionSpec* spec = table_.FindSpec(manifest.partition_spec_id);
  if (spec == nullptr) {
    return Fail(Code::kCorrupt, "the manifest is of a partition spec that the table lacks",
                manifest.manifest_path);
  }
  LITHIFY_TRY_ASSIGN(LiveEntries live, ReadLiveEntries(source_, table_, manifest));
  int64_t removals = 0;
  for (ManifestEntry& entry : live.entries) {
    entry.status = EntryStatus::kExisting;
    if (!removed(entry)) continue;
    entry.status = EntryStatus::kDeleted;
    entry.snapshot_id = snapshot_id_;
    LITHIFY_TRY(counts_.Removed(entry.file));
    ++removals;
  }
  auto& to = manifest.content == ManifestContent::kData ? data_ : deletes_;
  LITHIFY_TRY(Write(live, *spec, manifest.content, to));
  partition_types_.emplace(spec->spec_id, std::move(live.partition_types));
  return removals;
}

Status SnapshotBuilder::AddDataFiles(std::span<const DataFile> files,
                                     const iceberg::PartitionSpec& spec,
                                     std::optional<int64_t> data_sequence_number) {
  const bool numbered = table_.format_version >= 2;
  const int64_t inherited = numbered ? table::kInheritSequenceNumber : 0;
  const auto types = partition_types_.find(spec.spec_id);
  while (!files.empty()) {
    LiveEntries added;
    if (types != partition_types_.end()) added.partition_types = types->second;
    for (const DataFile& file : files.first(std::min(files.size(), kEntriesPerManifest))) {
      ManifestEntry entry;
      entry.status = EntryStatus::kAdded;
      entry.snapshot_id = snapshot_id_;
      entry.sequence_number = numbered ? data_sequence_number.value_or(inherited) : 0;
      entry.file_sequence_number = inherited;
      entry.file = file;
      entry.file.first_row_id.reset();
      LITHIFY_TRY(counts_.Added(file));
      added.entries.push_back(std::move(entry));
    }
    files = files.subspan(added.entries.size());
    LITHIFY_TRY(Write(added, spec, ManifestContent::kData, new_data_));
  }
  return {};
}

Status SnapshotBuilder::AddExisting(LiveEntries live, const iceberg::PartitionSpec& spec,
                                    ManifestContent content) {
  for (ManifestEntry& entry : live.entries) entry.status = EntryStatus::kExisting;
  return Write(live, spec, content, content == ManifestContent::kData ? new_data_ : deletes_);
}

Status SnapshotBuilder::Write(const LiveEntries& content_of, const iceberg::PartitionSpec& spec,
                              ManifestContent content, std::vector<ManifestFile>& to) {
  table::ManifestWriteOptions options;
  options.format_version = table_.format_version;
  options.spec = spec;
  options.schema = table_.schema();
  options.partition_types = content_of.partition_types;
  options.content = content;
  options.snapshot_id = snapshot_id_;
  options.codec = codec();
  LITHIFY_TRY_ASSIGN(table::WrittenManifest written,
                     table::WriteManifest(content_of.entries, options));
  ManifestFile manifest = std::move(written.file);
  manifest.manifest_path = files_.NextManifest();
  manifest.sequence_number = sequence_number_;
  if (manifest.min_sequence_number == table::kInheritSequenceNumber) {
    manifest.min_sequence_number = sequence_number_;
  }
  LITHIFY_TRY(files_.Put(manifest.manifest_path, written.bytes));
  LITHIFY_TRY(CheckManifest(manifest, content_of.entries));
  to.push_back(std::move(manifest));
  ++written_;
  return {};
}

Status SnapshotBuilder::CheckManifest(const ManifestFile& manifest,
                                      std::span<const ManifestEntry> expected) const {
  const auto differs = [&](const std::string& what) {
    return Fail(Code::kCorrupt, "a new manifest reads back with " + what, manifest.manifest_path);
  };
  ManifestFile listed = manifest;
  std::optional<int64_t> next_row_id;
  if (table_.format_version >= 3 && manifest.content == ManifestContent::kData) {
    next_row_id = table_.next_row_id;
    listed.first_row_id = next_row_id;
  }
  size_t next = 0;
  LITHIFY_TRY(ForEachEntry(source_, table_, listed, {}, [&](ManifestEntry&& entry) -> Status {
    if (next == expected.size()) return differs("more entries than were written");
    const ManifestEntry want = AsRead(expected[next++], sequence_number_, next_row_id);
    if (!SameEntry(entry, want)) return differs("another entry for " + want.file.file_path);
    return {};
  }));
  if (next != expected.size()) return differs("fewer entries than were written");
  return {};
}

Status SnapshotBuilder::CheckList(const std::string& location,
                                  std::span<const ManifestFile> expected) const {
  LITHIFY_TRY_ASSIGN(const auto bytes, source_.Read(location));
  LITHIFY_TRY_ASSIGN(const std::vector<ManifestFile> listed,
                     table::ReadManifestList(*bytes, location));
  const auto differs = [&](const std::string& what) {
    return Fail(Code::kCorrupt, "the new manifest list reads back with " + what, location);
  };
  if (listed.size() != expected.size()) {
    return differs(std::to_string(listed.size()) + " manifests instead of " +
                   std::to_string(expected.size()));
  }
  for (size_t i = 0; i < listed.size(); ++i) {
    const ManifestFile& want = expected[i];
    const ManifestFile& got = listed[i];
    const bool same = got.manifest_path == want.manifest_path && got.content == want.content &&
                      got.partition_spec_id == want.partition_spec_id &&
                      got.sequence_number == want.sequence_number &&
                      got.min_sequence_number == want.min_sequence_number &&
                      got.added_snapshot_id == want.added_snapshot_id &&
                      (!want.first_row_id || got.first_row_id == want.first_row_id);
    if (!same) return differs("other facts of " + want.manifest_path);
  }
  return {};
}

Result<iceberg::Snapshot> SnapshotBuilder::Finish(SnapshotSummary summary, Time now, int attempt) {
  std::vector<ManifestFile> manifests = std::move(new_data_);
  std::ranges::move(data_, std::back_inserter(manifests));
  std::ranges::move(deletes_, std::back_inserter(manifests));

  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = snapshot_id_;
  if (parent_ != nullptr) snapshot.parent_snapshot_id = parent_->snapshot_id;
  snapshot.sequence_number = sequence_number_;
  // A clock that is behind must not put the child before its parent.
  const int64_t now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  snapshot.timestamp_ms = std::max(now_ms, table_.last_updated_ms);
  if (parent_ != nullptr) {
    snapshot.timestamp_ms = std::max(snapshot.timestamp_ms, parent_->timestamp_ms);
  }
  snapshot.manifest_list = files_.ManifestList(snapshot_id_, attempt);
  snapshot.summary = std::move(summary);
  snapshot.schema_id = table_.current_schema_id;

  table::ManifestListHeader header;
  header.format_version = table_.format_version;
  header.snapshot_id = snapshot_id_;
  header.parent_snapshot_id = snapshot.parent_snapshot_id;
  header.sequence_number = sequence_number_;
  header.codec = codec();
  if (table_.format_version >= 3) header.first_row_id = table_.next_row_id;
  LITHIFY_TRY_ASSIGN(const table::WrittenManifestList list,
                     table::WriteManifestList(manifests, header));
  if (table_.format_version >= 3) {
    snapshot.first_row_id = table_.next_row_id;
    snapshot.added_rows = list.next_row_id - table_.next_row_id;
    if (*snapshot.added_rows < 0) return Fail(Code::kCorrupt, "row ids went back");
  }
  LITHIFY_TRY(files_.Put(snapshot.manifest_list, list.bytes));
  LITHIFY_TRY(CheckList(snapshot.manifest_list, manifests));
  return snapshot;
}

}  // namespace lithify::commit
