#include "iceberg_view.h"

#include <algorithm>

#include "parquet_columns.h"
#include "table/iceberg_manifest.h"
#include "table/puffin.h"

namespace lithify::sim {
namespace {

using iceberg::FileContent;
using iceberg::ManifestEntry;

constexpr int64_t kMaxBytes = 1 << 24;

std::unexpected<Error> Wrong(std::string what, const std::string& where) {
  return Fail(Code::kCorrupt, std::move(what), where);
}

bool Unpartitioned(const iceberg::TableMetadata& table, int spec_id) {
  return table.FindSpec(spec_id)->fields.empty();
}

bool SamePartition(const ManifestEntry& a, const ManifestEntry& b) {
  return a.file.spec_id == b.file.spec_id && a.file.partition == b.file.partition;
}

std::optional<int64_t> Number(const SimColumn* column, size_t i) {
  return column == nullptr ? std::nullopt : column->numbers[i];
}

std::optional<int64_t> ValueOf(const Row& row, int field_id) {
  if (field_id == kIdField) return row.id;
  if (field_id == kValueField) return row.v;
  return row.p;
}

}  // namespace

std::string Row::ToString() const {
  const auto text = [](const std::optional<int64_t>& n) { return n ? std::to_string(*n) : "-"; };
  return "(id " + std::to_string(id) + ", v " + text(v) + ", p " + std::to_string(p) + ", spec " +
         std::to_string(spec_id) + ", row id " + text(row_id) + ", updated " + text(last_updated) +
         ")";
}

std::string KeyOf(std::string_view location) {
  LITHIFY_CHECK(location.starts_with("s3://b/"), "a location of this table");
  return std::string(location.substr(std::string_view("s3://b/").size()));
}

DeleteName NameOf(const ManifestEntry& entry) {
  return {entry.file.file_path, entry.file.content_offset.value_or(-1)};
}

Result<std::string> SnapshotReader::Get(const std::string& location) {
  auto blob = store_.Get(KeyOf(location), kMaxBytes);
  if (!blob) return Wrong("a referenced file cannot be read: " + blob.error().message, location);
  return std::move(blob->bytes);
}

Status SnapshotReader::ReadManifests(const iceberg::TableMetadata& table, SnapshotView& view) {
  std::set<DeleteName> seen;
  std::set<std::string> vectors;
  for (const iceberg::ManifestFile& manifest : view.manifests) {
    if (!view.keys.insert(KeyOf(manifest.manifest_path)).second) {
      return Wrong("a manifest is listed twice", manifest.manifest_path);
    }
    const std::tuple cached(manifest.manifest_path, manifest.sequence_number,
                            manifest.first_row_id.value_or(-1));
    auto at = manifests_.find(cached);
    if (at == manifests_.end()) {
      LITHIFY_TRY_ASSIGN(const std::string bytes, Get(manifest.manifest_path));
      std::vector<ManifestEntry> entries;
      LITHIFY_TRY(table::ReadManifest(bytes, manifest, table, {}, [&](ManifestEntry&& entry) {
        entries.push_back(std::move(entry));
        return Status();
      }));
      at = manifests_.emplace(cached, std::move(entries)).first;
    }
    for (const ManifestEntry& entry : at->second) {
      const std::string& path = entry.file.file_path;
      if (entry.status == iceberg::EntryStatus::kDeleted) {
        view.named.insert(KeyOf(path));
        continue;
      }
      if (!seen.insert(NameOf(entry)).second) return Wrong("a file is live twice", path);
      view.keys.insert(KeyOf(path));
      if (entry.file.deletion_vector() &&
          !vectors.insert(entry.file.referenced_data_file.value_or("")).second) {
        return Wrong("two deletion vectors of one data file", path);
      }
      (entry.file.content == FileContent::kData ? view.data : view.deletes).push_back(entry);
    }
  }
  return {};
}

Result<const std::vector<SnapshotReader::FileRow>*> SnapshotReader::DataOf(
    const ManifestEntry& entry) {
  const std::string& path = entry.file.file_path;
  auto at = data_.find(path);
  if (at == data_.end()) {
    LITHIFY_TRY_ASSIGN(const std::string bytes, Get(path));
    if (static_cast<int64_t>(bytes.size()) != entry.file.file_size_in_bytes) {
      return Wrong("the file has another size than its entry says", path);
    }
    auto columns = DecodeColumns(bytes);
    if (!columns) return Fail(std::move(columns.error()).In(path));
    const SimColumn* id = FindColumn(*columns, kIdField);
    if (id == nullptr) return Wrong("column id is missing", path);
    std::vector<FileRow> rows(id->numbers.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      FileRow& row = rows[i];
      row.row.id = id->numbers[i].value_or(-1);
      row.row.v = Number(FindColumn(*columns, kValueField), i);
      row.row.p = Number(FindColumn(*columns, kPartitionField), i).value_or(-1);
      row.row_id = Number(FindColumn(*columns, iceberg::kRowIdFieldId), i);
      row.last_updated = Number(FindColumn(*columns, iceberg::kLastUpdatedFieldId), i);
    }
    at = data_.emplace(path, std::move(rows)).first;
  }
  if (static_cast<int64_t>(at->second.size()) != entry.file.record_count) {
    return Wrong("the entry says " + std::to_string(entry.file.record_count) + " rows, there are " +
                     std::to_string(at->second.size()),
                 path);
  }
  return &at->second;
}

Result<SnapshotReader::DeleteContent> SnapshotReader::ReadDeletes(const ManifestEntry& entry) {
  const iceberg::DataFile& file = entry.file;
  LITHIFY_TRY_ASSIGN(const std::string bytes, Get(file.file_path));
  DeleteContent content;
  if (file.deletion_vector()) {
    const auto offset = static_cast<size_t>(file.content_offset.value_or(0));
    const auto size = static_cast<size_t>(file.content_size_in_bytes.value_or(0));
    if (offset + size > bytes.size()) return Wrong("a vector is beyond the file", file.file_path);
    LITHIFY_TRY_ASSIGN(
        PositionSet set,
        table::DecodeDeletionVector(std::string_view(bytes).substr(offset, size), file.file_path));
    content.records = set.size();
    content.positions.emplace(file.referenced_data_file.value_or(""), std::move(set));
    return content;
  }
  auto columns = DecodeColumns(bytes);
  if (!columns) return Fail(std::move(columns.error()).In(file.file_path));
  if (file.content == FileContent::kPositionDeletes) {
    const SimColumn* path = FindColumn(*columns, iceberg::kFilePathFieldId);
    const SimColumn* pos = FindColumn(*columns, iceberg::kPosFieldId);
    if (path == nullptr || pos == nullptr) return Wrong("no position deletes", file.file_path);
    for (size_t i = 0; i < path->texts.size(); ++i) {
      content.positions[path->texts[i]].Add(pos->numbers[i].value_or(-1));
    }
    content.records = static_cast<int64_t>(path->texts.size());
    return content;
  }
  for (const int id : file.equality_ids) {
    const SimColumn* column = FindColumn(*columns, id);
    if (column == nullptr) return Wrong("an equality column is missing", file.file_path);
    content.records = static_cast<int64_t>(column->numbers.size());
  }
  for (int64_t i = 0; i < content.records; ++i) {
    Key key;
    for (const int id : file.equality_ids) {
      key.push_back(FindColumn(*columns, id)->numbers[static_cast<size_t>(i)]);
    }
    content.keys.insert(std::move(key));
  }
  return content;
}

Result<const SnapshotReader::DeleteContent*> SnapshotReader::DeletesOf(const ManifestEntry& entry) {
  auto at = deletes_.find(NameOf(entry));
  if (at == deletes_.end()) {
    LITHIFY_TRY_ASSIGN(DeleteContent content, ReadDeletes(entry));
    at = deletes_.emplace(NameOf(entry), std::move(content)).first;
  }
  if (at->second.records != entry.file.record_count) {
    return Wrong("the entry says another number of deletes", entry.file.file_path);
  }
  return &at->second;
}

Result<bool> SnapshotReader::Applies(const iceberg::TableMetadata& table,
                                     const ManifestEntry& deletes, const ManifestEntry& data) {
  if (deletes.file.content == FileContent::kEqualityDeletes) {
    return data.sequence_number < deletes.sequence_number &&
           (SamePartition(deletes, data) || Unpartitioned(table, deletes.file.spec_id));
  }
  if (data.sequence_number > deletes.sequence_number) return false;
  if (deletes.file.referenced_data_file) {
    return *deletes.file.referenced_data_file == data.file.file_path;
  }
  if (!SamePartition(deletes, data)) return false;
  LITHIFY_TRY_ASSIGN(const DeleteContent* content, DeletesOf(deletes));
  return content->positions.contains(data.file.file_path);
}

Status SnapshotReader::ReadFile(const iceberg::TableMetadata& table, const ManifestEntry& entry,
                                SnapshotView& view) {
  const std::string& path = entry.file.file_path;
  LITHIFY_TRY_ASSIGN(const std::vector<FileRow>* rows, DataOf(entry));
  PositionSet by_vector;
  PositionSet by_position;
  bool has_vector = false;
  std::vector<std::pair<const std::vector<int>*, const std::set<Key>*>> equality;
  for (const ManifestEntry& deletes : view.deletes) {
    LITHIFY_TRY_ASSIGN(const bool applies, Applies(table, deletes, entry));
    if (!applies) continue;
    LITHIFY_TRY_ASSIGN(const DeleteContent* content, DeletesOf(deletes));
    if (deletes.file.content == FileContent::kEqualityDeletes) {
      equality.emplace_back(&deletes.file.equality_ids, &content->keys);
      continue;
    }
    const auto named = content->positions.find(path);
    has_vector |= deletes.file.deletion_vector();
    if (named == content->positions.end()) continue;
    (deletes.file.deletion_vector() ? by_vector : by_position).Unite(named->second);
  }
  PositionSet& gone = view.gone[path];
  gone = has_vector ? by_vector : by_position;
  auto& live = view.live_rows[path];
  for (size_t i = 0; i < rows->size(); ++i) {
    const auto pos = static_cast<int64_t>(i);
    Row row = (*rows)[i].row;
    const bool equal = std::ranges::any_of(equality, [&](const auto& deletes) {
      Key key;
      for (const int id : *deletes.first) key.push_back(ValueOf(row, id));
      return deletes.second->contains(key);
    });
    if (gone.Contains(pos) || equal) continue;
    row.spec_id = entry.file.spec_id;
    if (!entry.file.partition.empty() && entry.file.partition[0] != iceberg::Value(row.p)) {
      return Wrong("a row is in the wrong partition: " + row.ToString(), path);
    }
    if (table.format_version >= 3) {
      row.last_updated = (*rows)[i].last_updated.value_or(entry.sequence_number);
      if ((*rows)[i].row_id) {
        row.row_id = (*rows)[i].row_id;
      } else if (entry.file.first_row_id) {
        row.row_id = *entry.file.first_row_id + pos;
      }
    }
    live.emplace_back(pos, row.id);
    const auto [at, added] = view.rows.emplace(row.id, row);
    if (!added) return Wrong("a row is there twice: " + row.ToString(), path);
  }
  return {};
}

Result<SnapshotView> SnapshotReader::Read(const iceberg::TableMetadata& table,
                                          const iceberg::Snapshot& snapshot) {
  SnapshotView view;
  LITHIFY_TRY_ASSIGN(const std::string list, Get(snapshot.manifest_list));
  view.keys.insert(KeyOf(snapshot.manifest_list));
  LITHIFY_TRY_ASSIGN(view.manifests, table::ReadManifestList(list, snapshot.manifest_list));
  LITHIFY_TRY(ReadManifests(table, view));
  for (const ManifestEntry& entry : view.data) LITHIFY_TRY(ReadFile(table, entry, view));
  for (const ManifestEntry& entry : view.deletes) LITHIFY_TRY(DeletesOf(entry));
  for (const std::string& key : view.keys) {
    if (!store_.Stat(key)) return Wrong("a referenced file is gone", key);
  }
  return view;
}

}  // namespace lithify::sim
