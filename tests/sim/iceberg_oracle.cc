#include "iceberg_oracle.h"

#include <algorithm>
#include <charconv>

namespace lithify::sim {
namespace {

using iceberg::ManifestEntry;

std::string Name(int64_t snapshot_id) { return "snapshot " + std::to_string(snapshot_id); }

int64_t Summary(const iceberg::Snapshot& snapshot, const char* key) {
  const auto at = snapshot.summary.find(key);
  int64_t value = 0;
  if (at != snapshot.summary.end()) {
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
  }
  return value;
}

bool Matches(const Effect::Equality& equality, const Row& row) {
  if (!equality.everywhere && (row.spec_id != equality.spec_id || row.p != equality.p)) {
    return false;
  }
  for (size_t i = 0; i < equality.ids.size(); ++i) {
    const std::optional<int64_t> value = equality.ids[i] == kIdField ? row.id : row.v;
    if (value != equality.key[i]) return false;
  }
  return true;
}

// The first difference; nothing if there is none.
std::optional<std::string> Difference(const Rows& expected, const Rows& found) {
  for (const auto& [id, row] : expected) {
    const auto at = found.find(id);
    if (at == found.end()) return "lost row " + row.ToString();
    if (at->second != row) {
      return "row " + row.ToString() + " reads as " + at->second.ToString();
    }
  }
  for (const auto& [id, row] : found) {
    if (!expected.contains(id)) return "unexpected row " + row.ToString();
  }
  return std::nullopt;
}

// The rows, in the specs that a snapshot has them in.
std::shared_ptr<const Rows> Moved(const Rows& rows, const SnapshotView& view) {
  auto moved = std::make_shared<Rows>(rows);
  for (auto& [id, row] : *moved) {
    const auto found = view.rows.find(id);
    if (found != view.rows.end()) row.spec_id = found->second.spec_id;
  }
  return moved;
}

std::map<DeleteName, const ManifestEntry*> ByName(const std::vector<ManifestEntry>& entries) {
  std::map<DeleteName, const ManifestEntry*> by_name;
  for (const ManifestEntry& entry : entries) by_name.emplace(NameOf(entry), &entry);
  return by_name;
}

}  // namespace

std::optional<std::string> IcebergOracle::ExpectNothingOf(const std::string& job_id) {
  failed_jobs_.insert(job_id);
  const auto at = jobs_.find(job_id);
  if (at == jobs_.end() || at->second.snapshots.empty()) return std::nullopt;
  return "job " + job_id + " says that it changed nothing, but the table has a snapshot of it";
}

std::optional<std::string> IcebergOracle::Observe(const iceberg::TableMetadata& table,
                                                  const std::string& metadata_location) {
  if (started_ && metadata_location == metadata_location_) return std::nullopt;
  if (started_) ++commits_;
  if (!store_.Stat(KeyOf(metadata_location))) return "the metadata file is not there";
  if (table.last_sequence_number < table_.last_sequence_number ||
      table.next_row_id < table_.next_row_id || table.last_updated_ms < table_.last_updated_ms) {
    return "a counter of the table went back";
  }
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    if (snapshots_.contains(snapshot.snapshot_id)) continue;
    if (auto wrong = ObserveSnapshot(table, snapshot)) {
      return Name(snapshot.snapshot_id) + ": " + *wrong;
    }
  }
  if (auto wrong = CheckRefs(table)) return wrong;
  table_ = table;
  metadata_location_ = metadata_location;
  started_ = true;
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::ObserveSnapshot(const iceberg::TableMetadata& table,
                                                          const iceberg::Snapshot& snapshot) {
  auto read = reader_.Read(table, snapshot);
  if (!read) return read.error().ToString();
  Known known;
  known.view = std::make_shared<const SnapshotView>(std::move(*read));
  const Known* parent = nullptr;
  if (snapshot.parent_snapshot_id) {
    const auto at = snapshots_.find(*snapshot.parent_snapshot_id);
    if (at == snapshots_.end()) return "its parent was never there";
    parent = &at->second;
  }
  if (auto wrong = CountJob(snapshot)) return wrong;
  if (table.format_version >= 3) {
    if (auto wrong = CheckRowIds(table, snapshot, *known.view)) return wrong;
  }
  const auto effect = effects_.find(snapshot.snapshot_id);
  if (effect != effects_.end()) {
    Rows rows = parent == nullptr ? Rows() : *parent->rows;
    if (auto wrong = Apply(effect->second, table, snapshot, *known.view, rows)) return wrong;
    known.rows = std::make_shared<const Rows>(std::move(rows));
  } else {
    if (parent == nullptr) return "nobody announced it";
    if (snapshot.summary.at("operation") != "replace") return "nobody announced it";
    ++replaces_;
    known.rows = parent->rows;
    if (moves_) known.rows = Moved(*parent->rows, *known.view);
  }
  if (auto wrong = Difference(*known.rows, known.view->rows)) {
    const std::string kind = effect == effects_.end() ? "a rewrite" : effect->second.kind;
    return "after " + kind + ": " + *wrong;
  }
  if (effect == effects_.end()) {
    if (auto wrong = CheckReplace(table, *parent->view, *known.view)) return wrong;
  }
  snapshots_.emplace(snapshot.snapshot_id, std::move(known));
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::CountJob(const iceberg::Snapshot& snapshot) {
  const auto job = snapshot.summary.find("lithify.job-id");
  if (job == snapshot.summary.end()) return std::nullopt;
  if (failed_jobs_.contains(job->second)) {
    return "job " + job->second + " has said that it changed nothing";
  }
  JobTotals& totals = jobs_[job->second];
  totals.snapshots.insert(snapshot.snapshot_id);
  totals.added_files += Summary(snapshot, "added-data-files");
  totals.removed_files += Summary(snapshot, "deleted-data-files");
  totals.removed_deletes += Summary(snapshot, "removed-delete-files");
  totals.added_records += Summary(snapshot, "added-records");
  totals.removed_records += Summary(snapshot, "deleted-records");
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::Apply(const Effect& effect,
                                                const iceberg::TableMetadata& table,
                                                const iceberg::Snapshot& snapshot,
                                                const SnapshotView& view, Rows& rows) const {
  for (const Effect::Equality& equality : effect.equality) {
    std::erase_if(rows, [&](const auto& item) { return Matches(equality, item.second); });
  }
  for (const int64_t id : effect.removed) rows.erase(id);
  for (Row row : effect.added) {
    if (table.format_version >= 3) {
      row.last_updated = snapshot.sequence_number;
      if (!row.row_id) {
        // New rows get ids from the range of this snapshot: which, the first reader tells.
        const auto found = view.rows.find(row.id);
        if (found == view.rows.end()) return "lost new row " + row.ToString();
        row.row_id = found->second.row_id;
        if (!row.row_id || *row.row_id < table_.next_row_id || *row.row_id >= table.next_row_id) {
          return "a new row has an id that is not of this snapshot: " + found->second.ToString();
        }
      }
    }
    rows.insert_or_assign(row.id, row);
  }
  return std::nullopt;
}

// Only for snapshots that change no row (I1, I5, I6, I10, I26, R102).
std::optional<std::string> IcebergOracle::CheckReplace(const iceberg::TableMetadata& table,
                                                       const SnapshotView& before,
                                                       const SnapshotView& after) {
  const auto numbers = [](const ManifestEntry& entry) {
    return std::tuple(entry.snapshot_id, entry.sequence_number, entry.file_sequence_number,
                      entry.file.first_row_id);
  };
  for (const auto& [old_entries, new_entries] :
       {std::pair(&before.data, &after.data), std::pair(&before.deletes, &after.deletes)}) {
    const auto was = ByName(*old_entries);
    for (const ManifestEntry& entry : *new_entries) {
      const auto at = was.find(NameOf(entry));
      if (at != was.end() && numbers(*at->second) != numbers(entry)) {
        return "an entry that stays has other numbers: " + entry.file.file_path;
      }
      if (at == was.end() && entry.file.content != iceberg::FileContent::kData) {
        return "a rewrite added a delete: " + entry.file.file_path;
      }
      if (at == was.end() && entry.file.record_count == 0) {
        return "a rewrite added a file without rows: " + entry.file.file_path;
      }
    }
  }
  const auto still = ByName(after.deletes);
  for (const ManifestEntry& gone : before.deletes) {
    if (still.contains(NameOf(gone))) continue;
    for (const ManifestEntry& data : after.data) {
      const auto applies = reader_.Applies(table, gone, data);
      if (!applies) return applies.error().ToString();
      if (*applies) {
        return "delete " + gone.file.file_path + " was removed, but it applies to live file " +
               data.file.file_path;
      }
    }
  }
  return std::nullopt;
}

// First row ids of data files never overlap, whenever the files lived [Row Lineage].
std::optional<std::string> IcebergOracle::CheckRowIds(const iceberg::TableMetadata& table,
                                                      const iceberg::Snapshot& snapshot,
                                                      const SnapshotView& view) {
  if (!snapshot.first_row_id || *snapshot.first_row_id < table_.next_row_id) {
    return "its first-row-id is not the table's next-row-id";
  }
  if (*snapshot.first_row_id + snapshot.added_rows.value_or(0) > table.next_row_id) {
    return "next-row-id was not moved past its rows";
  }
  for (const ManifestEntry& entry : view.data) {
    const std::string& path = entry.file.file_path;
    if (!entry.file.first_row_id) return "a data file has no first_row_id: " + path;
    const int64_t first = *entry.file.first_row_id;
    const int64_t end = first + entry.file.record_count;
    if (const auto known = first_row_ids_.find(path); known != first_row_ids_.end()) {
      if (known->second != first) return "first_row_id of a file changed: " + path;
      continue;
    }
    if (end > table.next_row_id) return "row ids beyond next-row-id: " + path;
    const auto above = row_ids_.lower_bound(first);
    if (above != row_ids_.end() && above->first < end) {
      return "row ids of " + path + " overlap those of " + above->second.second;
    }
    if (above != row_ids_.begin() && std::prev(above)->second.first > first) {
      return "row ids of " + path + " overlap those of " + std::prev(above)->second.second;
    }
    first_row_ids_.emplace(path, first);
    if (end > first) row_ids_.emplace(first, std::pair(end, path));
  }
  return std::nullopt;
}

// Refs only move to a new child of where they were, or by a rollback; nobody removes one here.
std::optional<std::string> IcebergOracle::CheckRefs(const iceberg::TableMetadata& table) const {
  for (const auto& [name, ref] : table.refs) {
    if (table.FindSnapshot(ref.snapshot_id) == nullptr) return "ref " + name + " dangles";
  }
  for (const auto& [name, old_ref] : table_.refs) {
    const auto at = table.refs.find(name);
    if (at == table.refs.end()) return "ref " + name + " is gone";
    const int64_t now = at->second.snapshot_id;
    if (now == old_ref.snapshot_id) continue;
    if (!old_ref.is_branch) return "tag " + name + " moved";
    const iceberg::Snapshot* head = table.FindSnapshot(now);
    const bool child =
        head->parent_snapshot_id == old_ref.snapshot_id && table_.FindSnapshot(now) == nullptr;
    if (!child && !rollbacks_.contains({name, now})) {
      return "branch " + name + " moved to " + Name(now) + ", which is no child of its head";
    }
  }
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::Removed(const std::string& key) const {
  for (const iceberg::Snapshot& snapshot : table_.snapshots) {
    if (snapshots_.at(snapshot.snapshot_id).view->keys.contains(key)) {
      return key + " was removed, but " + Name(snapshot.snapshot_id) + " needs it";
    }
  }
  if (key == KeyOf(metadata_location_)) return "the current metadata file was removed";
  for (const auto& entry : table_.metadata_log) {
    if (KeyOf(entry.metadata_file) == key) return key + " was removed: it is in the metadata log";
  }
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::CheckAll() const {
  SnapshotReader reader(store_);
  for (const iceberg::Snapshot& snapshot : table_.snapshots) {
    const auto view = reader.Read(table_, snapshot);
    if (!view) return Name(snapshot.snapshot_id) + ": " + view.error().ToString();
    if (auto wrong = Difference(*snapshots_.at(snapshot.snapshot_id).rows, view->rows)) {
      return Name(snapshot.snapshot_id) + " has changed: " + *wrong;
    }
  }
  return std::nullopt;
}

std::optional<std::string> IcebergOracle::CheckNoGarbage() const {
  std::set<std::string> referenced = {KeyOf(metadata_location_)};
  for (const auto& entry : table_.metadata_log) referenced.insert(KeyOf(entry.metadata_file));
  for (const iceberg::Snapshot& snapshot : table_.snapshots) {
    const SnapshotView& seen = view(snapshot.snapshot_id);
    referenced.insert(seen.keys.begin(), seen.keys.end());
    referenced.insert(seen.named.begin(), seen.named.end());
  }
  for (const std::string& key : store_.Keys()) {
    if (!referenced.contains(key)) return "garbage is left: " + key;
  }
  return std::nullopt;
}

}  // namespace lithify::sim
