#include "iceberg_engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>

#include "commit/iceberg_commit.h"
#include "parquet_columns.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_value.h"
#include "table/puffin.h"

namespace lithify::sim {
namespace {

using iceberg::DataFile;
using iceberg::EntryStatus;
using iceberg::FileContent;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;

constexpr int kAttempts = 3;

std::string Long(int64_t value) {
  iceberg::Type type;
  type.kind = iceberg::TypeKind::kLong;
  return table::ValueToBytes(type, iceberg::Value(value));
}

SimColumn MakeColumn(int id, const char* name, SimColumn::Kind kind, bool required) {
  SimColumn column;
  column.field_id = id;
  column.name = name;
  column.kind = kind;
  column.required = required;
  return column;
}

// `lineage`: with the columns of row lineage, the second of which is null.
std::string EncodeRows(const std::vector<Row>& rows, bool lineage) {
  std::vector<SimColumn> columns = {MakeColumn(kIdField, "id", SimColumn::Kind::kLong, true),
                                    MakeColumn(kValueField, "v", SimColumn::Kind::kLong, false),
                                    MakeColumn(kPartitionField, "p", SimColumn::Kind::kInt, false)};
  if (lineage) {
    columns.push_back(MakeColumn(iceberg::kRowIdFieldId, "_row_id", SimColumn::Kind::kLong, false));
    columns.push_back(MakeColumn(iceberg::kLastUpdatedFieldId, "_last_updated_sequence_number",
                                 SimColumn::Kind::kLong, false));
  }
  for (const Row& row : rows) {
    columns[0].numbers.emplace_back(row.id);
    columns[1].numbers.push_back(row.v);
    columns[2].numbers.emplace_back(row.p);
    if (!lineage) continue;
    columns[3].numbers.push_back(row.row_id);
    columns[4].numbers.emplace_back();
  }
  return EncodeColumns(columns);
}

// Whole, or cut short: then the upper one is raised above all that begins like it.
void SetPathBounds(std::string lower, std::string upper, Dice& dice, DataFile& file) {
  if (dice.OneIn(3)) {
    const auto length = static_cast<size_t>(dice.Between(8, 40));
    if (length < lower.size()) lower.resize(length);
    if (length < upper.size()) {
      upper.resize(length);
      ++upper.back();
    }
  }
  file.lower_bounds = {{iceberg::kFilePathFieldId, lower}};
  file.upper_bounds = {{iceberg::kFilePathFieldId, upper}};
}

std::vector<iceberg::Value> PartitionOf(int spec_id, int64_t p) {
  if (spec_id == 1) return {};
  return {iceberg::Value(p)};
}

}  // namespace

std::string FirstMetadata(const TableShape& shape) {
  const std::string fields =
      R"("type":"struct","fields":[{"id":1,"name":"id","required":true,"type":"long"},)"
      R"({"id":2,"name":"v","required":false,"type":"long"},)"
      R"({"id":3,"name":"p","required":false,"type":"int"}])";
  std::string text = R"({"format-version":)" + std::to_string(shape.format_version) +
                     R"(,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":")" +
                     std::string(kTableRoot) + R"(","last-updated-ms":1,"last-column-id":3,)" +
                     R"("schemas":[{"schema-id":0,)" + fields + "}]," +
                     R"("partition-specs":[{"spec-id":0,"fields":[)" +
                     R"({"source-id":3,"field-id":1000,"name":"p","transform":"identity"}]},)" +
                     R"({"spec-id":1,"fields":[]}],"current-schema-id":0,"default-spec-id":)" +
                     std::to_string(shape.specs.back()) + R"(,"last-partition-id":1000,)" +
                     R"("sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,)" +
                     R"("last-sequence-number":0,)";
  if (shape.format_version >= 3) text += R"("next-row-id":0,)";
  return text + R"("properties":{"write.metadata.previous-versions-max":"5"},"snapshots":[]})";
}

std::string ForeignEngine::Run(const std::string& branch) {
  switch (services_.dice.Below(10)) {
    case 0:
    case 1: return Append(branch);
    case 2: return Retry(branch, &ForeignEngine::MakeEquality, true);
    case 3: return Retry(branch, &ForeignEngine::MakeUpsert, true);
    case 4: return Retry(branch, &ForeignEngine::MakeWholeFiles, false);
    case 5:
    case 6: return Retry(branch, &ForeignEngine::MakeUpdate, false);
    default: return Retry(branch, &ForeignEngine::MakePositions, false);
  }
}

std::string ForeignEngine::Append(const std::string& branch) {
  return Retry(branch, &ForeignEngine::MakeAppend, true);
}

// What does not look at the table's rows is made once; what does is made anew in each attempt.
std::string ForeignEngine::Retry(const std::string& branch, Make make, bool keep_files) {
  Change change;
  for (int attempt = 1;; ++attempt) {
    const auto base = Load(branch);
    if (!base) return base.error().ToString();
    if (attempt == 1 || !keep_files) {
      change = {};
      if (Status made = (this->*make)(*base, change); !made) return made.error().ToString();
    }
    if (change.effect.kind.empty()) return "nothing to do";
    const Status done = Commit(branch, *base, change);
    const std::string what = change.effect.kind + " on " + branch + ": ";
    if (done) return what + "committed";
    if (done.error().code != Code::kConflict || attempt == kAttempts) {
      return what + done.error().ToString();
    }
  }
}

Result<ForeignEngine::Base> ForeignEngine::Load(const std::string& branch) {
  Base base;
  LITHIFY_TRY_ASSIGN(base.table, services_.catalog.LoadTable(services_.shape.ident));
  base.head = base.table.metadata.RefSnapshot(branch);
  if (base.head == nullptr && branch != "main") return Fail(Code::kNotFound, "no such branch");
  if (base.head != nullptr) base.view = &services_.oracle.view(base.head->snapshot_id);
  return base;
}

// --- the commit ----------------------------------------------------------------------------------

Result<std::string> ForeignEngine::Put(const std::string& directory, const std::string& suffix,
                                       std::string_view bytes) {
  const std::string location = std::string(kTableRoot) + "/" + directory + "/" +
                               MakeUuidV7(services_.clock, services_.random) + suffix;
  LITHIFY_TRY_ASSIGN(const storage::Place place, services_.locations.Resolve(location));
  LITHIFY_TRY(place.store->PutNew(place.key, bytes));
  return location;
}

Result<ManifestFile> ForeignEngine::WriteManifest(const Base& base,
                                                  const iceberg::Snapshot& snapshot,
                                                  std::vector<ManifestEntry> entries, int spec_id,
                                                  ManifestContent content) {
  table::ManifestWriteOptions options;
  options.format_version = base.table.metadata.format_version;
  options.spec = *base.table.metadata.FindSpec(spec_id);
  options.schema = base.table.metadata.schema();
  options.content = content;
  options.snapshot_id = snapshot.snapshot_id;
  options.codec = "null";
  LITHIFY_TRY_ASSIGN(table::WrittenManifest written, table::WriteManifest(entries, options));
  LITHIFY_TRY_ASSIGN(written.file.manifest_path, Put("metadata", "-m0.avro", written.bytes));
  written.file.sequence_number = snapshot.sequence_number;
  if (written.file.min_sequence_number == table::kInheritSequenceNumber) {
    written.file.min_sequence_number = snapshot.sequence_number;
  }
  return written.file;
}

Status ForeignEngine::AddNewManifests(const Base& base, const Change& change,
                                      const iceberg::Snapshot& snapshot,
                                      std::vector<ManifestFile>& manifests) {
  std::map<std::pair<int, bool>, std::vector<ManifestEntry>> groups;
  for (const DataFile& file : change.added) {
    ManifestEntry entry;
    entry.status = EntryStatus::kAdded;
    entry.snapshot_id = snapshot.snapshot_id;
    entry.sequence_number = table::kInheritSequenceNumber;
    entry.file_sequence_number = table::kInheritSequenceNumber;
    entry.file = file;
    groups[{file.spec_id, file.content == FileContent::kData}].push_back(std::move(entry));
  }
  for (auto& [key, entries] : groups) {
    LITHIFY_TRY_ASSIGN(
        ManifestFile manifest,
        WriteManifest(base, snapshot, std::move(entries), key.first,
                      key.second ? ManifestContent::kData : ManifestContent::kDeletes));
    manifests.push_back(std::move(manifest));
  }
  return {};
}

// The parent's manifests: those with removed files are written anew, and now and then small ones
// are merged, as Iceberg's merging append does (I10).
Status ForeignEngine::CarryManifests(const Base& base, const std::set<DeleteName>& removed,
                                     const iceberg::Snapshot& snapshot,
                                     std::vector<ManifestFile>& manifests) {
  const bool merge = services_.dice.OneIn(4);
  std::map<std::pair<int, ManifestContent>, std::vector<ManifestEntry>> merged;
  for (const ManifestFile& manifest : base.view->manifests) {
    LITHIFY_TRY_ASSIGN(const storage::Place place,
                       services_.locations.Resolve(manifest.manifest_path));
    LITHIFY_TRY_ASSIGN(const storage::Blob blob, place.store->Get(place.key, 1 << 24));
    std::vector<ManifestEntry> entries;
    bool any = false;
    LITHIFY_TRY(table::ReadManifest(blob.bytes, manifest, base.table.metadata, {},
                                    [&](ManifestEntry&& entry) -> Status {
                                      if (entry.status == EntryStatus::kDeleted) return {};
                                      entry.status = EntryStatus::kExisting;
                                      if (removed.contains(NameOf(entry))) {
                                        entry.status = EntryStatus::kDeleted;
                                        entry.snapshot_id = snapshot.snapshot_id;
                                        any = true;
                                      }
                                      entries.push_back(std::move(entry));
                                      return {};
                                    }));
    if (merge) {
      auto& to = merged[{manifest.partition_spec_id, manifest.content}];
      std::ranges::move(entries, std::back_inserter(to));
    } else if (any) {
      LITHIFY_TRY_ASSIGN(ManifestFile written,
                         WriteManifest(base, snapshot, std::move(entries),
                                       manifest.partition_spec_id, manifest.content));
      manifests.push_back(std::move(written));
    } else if (!entries.empty()) {
      manifests.push_back(manifest);
    }
  }
  for (auto& [key, entries] : merged) {
    if (entries.empty()) continue;
    LITHIFY_TRY_ASSIGN(ManifestFile written,
                       WriteManifest(base, snapshot, std::move(entries), key.first, key.second));
    manifests.push_back(std::move(written));
  }
  return {};
}

// Iceberg's Java core drops deletes that are older than the oldest live data, by what the manifest
// list says of it (I1).
std::set<DeleteName> ForeignEngine::TooOld(const Base& base,
                                           const std::set<DeleteName>& removed) const {
  int64_t oldest = base.table.metadata.last_sequence_number;
  for (const ManifestFile& manifest : base.view->manifests) {
    if (manifest.content != ManifestContent::kData) continue;
    oldest = std::min(oldest, manifest.min_sequence_number);
  }
  std::set<DeleteName> all = removed;
  for (const ManifestEntry& entry : base.view->deletes) {
    if (entry.sequence_number < oldest) all.insert(NameOf(entry));
  }
  return all;
}

Result<iceberg::Snapshot> ForeignEngine::MakeSnapshot(const Base& base, const Change& change) {
  const iceberg::TableMetadata& table = base.table.metadata;
  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = static_cast<int64_t>(services_.random.Next() >> 1);
  snapshot.sequence_number = table.last_sequence_number + 1;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      services_.clock.Now().time_since_epoch());
  snapshot.timestamp_ms = std::max<int64_t>(now.count(), table.last_updated_ms);
  if (base.head != nullptr) snapshot.parent_snapshot_id = base.head->snapshot_id;
  snapshot.schema_id = table.current_schema_id;
  snapshot.summary = {{"operation", change.operation}};

  std::vector<ManifestFile> manifests;
  LITHIFY_TRY(AddNewManifests(base, change, snapshot, manifests));
  if (base.view != nullptr) {
    const auto removed = services_.dice.OneIn(2) ? TooOld(base, change.removed) : change.removed;
    LITHIFY_TRY(CarryManifests(base, removed, snapshot, manifests));
  }
  table::ManifestListHeader header;
  header.format_version = table.format_version;
  header.snapshot_id = snapshot.snapshot_id;
  header.parent_snapshot_id = snapshot.parent_snapshot_id;
  header.sequence_number = snapshot.sequence_number;
  header.codec = "null";
  if (table.format_version >= 3) header.first_row_id = table.next_row_id;
  LITHIFY_TRY_ASSIGN(const auto list, table::WriteManifestList(manifests, header));
  if (table.format_version >= 3) {
    snapshot.first_row_id = table.next_row_id;
    snapshot.added_rows = list.next_row_id - table.next_row_id;
  }
  LITHIFY_TRY_ASSIGN(snapshot.manifest_list, Put("metadata", "-list.avro", list.bytes));
  return snapshot;
}

Status ForeignEngine::Commit(const std::string& branch, const Base& base, const Change& change) {
  LITHIFY_TRY_ASSIGN(const iceberg::Snapshot snapshot, MakeSnapshot(base, change));
  services_.oracle.Expect(snapshot.snapshot_id, change.effect);
  iceberg::SnapshotRef ref;
  ref.snapshot_id = snapshot.snapshot_id;
  std::optional<int64_t> head;
  if (base.head != nullptr) head = base.head->snapshot_id;
  const std::vector<table::TableRequirement> requirements = {
      table::AssertTableUuid{base.table.metadata.table_uuid},
      table::AssertRefSnapshotId{branch, head}};
  const std::vector<table::TableUpdate> updates = {table::AddSnapshot{snapshot},
                                                   table::SetSnapshotRef{branch, ref}};
  LITHIFY_TRY(services_.catalog.CommitTable(services_.shape.ident, requirements, updates));
  return {};
}

// --- rows ----------------------------------------------------------------------------------------

std::vector<Row> ForeignEngine::NewRows(int64_t count) {
  Dice& dice = services_.dice;
  Row like;
  like.spec_id = services_.shape.specs[dice.Below(services_.shape.specs.size())];
  like.p = static_cast<int64_t>(dice.Below(static_cast<uint64_t>(services_.shape.partitions)));
  std::vector<Row> rows;
  for (; count > 0; --count) {
    Row row = like;
    row.id = services_.shape.next_id++;
    if (!dice.OneIn(8)) {
      row.v = static_cast<int64_t>(dice.Below(static_cast<uint64_t>(services_.shape.values)));
    }
    rows.push_back(row);
  }
  return rows;
}

// One data file for the rows of each spec and partition.
Status ForeignEngine::AddRows(std::vector<Row> rows, Change& change) {
  std::map<std::pair<int, int64_t>, std::vector<Row>> groups;
  for (const Row& row : rows) groups[{row.spec_id, row.p}].push_back(row);
  for (const auto& [key, group] : groups) {
    const bool lineage =
        std::ranges::any_of(group, [](const Row& r) { return r.row_id.has_value(); });
    const std::string bytes = EncodeRows(group, lineage);
    DataFile file;
    LITHIFY_TRY_ASSIGN(file.file_path, Put("data", ".parquet", bytes));
    file.file_format = "PARQUET";
    file.spec_id = key.first;
    file.partition = PartitionOf(key.first, key.second);
    file.record_count = static_cast<int64_t>(group.size());
    file.file_size_in_bytes = static_cast<int64_t>(bytes.size());
    const auto [low, high] = std::ranges::minmax_element(group, {}, &Row::id);
    file.lower_bounds = {{kIdField, Long(low->id)}};
    file.upper_bounds = {{kIdField, Long(high->id)}};
    change.added.push_back(std::move(file));
  }
  std::ranges::copy(rows, std::back_inserter(change.effect.added));
  return {};
}

Status ForeignEngine::MakeAppend(const Base& /*base*/, Change& change) {
  change.effect.kind = "append";
  for (int64_t n = services_.dice.Between(1, 3); n > 0; --n) {
    LITHIFY_TRY(AddRows(NewRows(services_.dice.Between(1, 5)), change));
  }
  return {};
}

// --- equality deletes
// ------------------------------------------------------------------------------

// Some of the table's rows, or values, whether they are there or not.
Status ForeignEngine::AddEquality(const Base& base, Change& change) {
  Dice& dice = services_.dice;
  const std::vector<Row> like = NewRows(1);
  services_.shape.next_id -= 1;
  DataFile file;
  file.content = FileContent::kEqualityDeletes;
  file.file_format = "PARQUET";
  file.spec_id = like[0].spec_id;
  file.partition = PartitionOf(file.spec_id, like[0].p);
  switch (dice.Below(4)) {
    case 0: file.equality_ids = {kValueField}; break;
    case 1: file.equality_ids = {kIdField, kValueField}; break;
    default: file.equality_ids = {kIdField};
  }
  std::vector<SimColumn> columns;
  for (const int id : file.equality_ids) {
    columns.push_back(
        MakeColumn(id, id == kIdField ? "id" : "v", SimColumn::Kind::kLong, id == kIdField));
  }
  const Rows none;
  const Rows& rows = base.view == nullptr ? none : base.view->rows;
  const bool by_value = file.equality_ids.front() == kValueField;
  file.record_count = by_value ? 1 : dice.Between(1, 4);
  for (int64_t n = file.record_count; n > 0; --n) {
    Row row = like[0];
    if (!rows.empty()) {
      row = std::next(rows.begin(), static_cast<ptrdiff_t>(dice.Below(rows.size())))->second;
    }
    Effect::Equality equality;
    equality.ids = file.equality_ids;
    equality.spec_id = file.spec_id;
    equality.everywhere = file.spec_id == 1;
    equality.p = like[0].p;
    for (size_t c = 0; c < columns.size(); ++c) {
      equality.key.push_back(columns[c].field_id == kIdField ? row.id : row.v);
      columns[c].numbers.push_back(equality.key.back());
    }
    change.effect.equality.push_back(std::move(equality));
  }
  const std::string bytes = EncodeColumns(columns);
  file.file_size_in_bytes = static_cast<int64_t>(bytes.size());
  LITHIFY_TRY_ASSIGN(file.file_path, Put("data", "-eq.parquet", bytes));
  change.added.push_back(std::move(file));
  return {};
}

Status ForeignEngine::MakeEquality(const Base& base, Change& change) {
  change.operation = "delete";
  change.effect.kind = "equality deletes";
  for (int64_t n = services_.dice.Between(1, 2); n > 0; --n) LITHIFY_TRY(AddEquality(base, change));
  return {};
}

// The deletes of a snapshot do not reach the rows that it adds.
Status ForeignEngine::MakeUpsert(const Base& base, Change& change) {
  LITHIFY_TRY(MakeEquality(base, change));
  change.operation = "overwrite";
  change.effect.kind = "upsert";
  return AddRows(NewRows(services_.dice.Between(1, 3)), change);
}

// --- position deletes and deletion vectors
// ---------------------------------------------------------

Status ForeignEngine::DeletePositions(const Base& base, const Positions& positions,
                                      Change& change) {
  for (const auto& [path, of_file] : positions) {
    for (const auto& [pos, id] : base.view->live_rows.at(path)) {
      if (of_file.contains(pos)) change.effect.removed.insert(id);
    }
  }
  return services_.shape.format_version >= 3 ? AddVectors(base, positions, change)
                                             : AddPositionFiles(base, positions, change);
}

// A file for each data file, or one for all of a partition, with bounds or without.
Status ForeignEngine::AddPositionFiles(const Base& base, const Positions& positions,
                                       Change& change) {
  Dice& dice = services_.dice;
  const bool by_file = dice.OneIn(2);
  std::map<std::string, std::pair<DataFile, Positions>> files;
  for (const ManifestEntry& entry : base.view->data) {
    const auto at = positions.find(entry.file.file_path);
    if (at == positions.end()) continue;
    std::string group = at->first;
    if (!by_file) {
      group = std::to_string(entry.file.spec_id);
      if (entry.file.spec_id == 0) {
        group += "/" + std::to_string(std::get<int64_t>(entry.file.partition[0]));
      }
    }
    auto& [file, named] = files[group];
    file.spec_id = entry.file.spec_id;
    file.partition = entry.file.partition;
    named.insert(*at);
  }
  for (auto& [group, item] : files) {
    auto& [file, named] = item;
    std::vector<SimColumn> columns = {
        MakeColumn(iceberg::kFilePathFieldId, "file_path", SimColumn::Kind::kText, true),
        MakeColumn(iceberg::kPosFieldId, "pos", SimColumn::Kind::kLong, true)};
    for (const auto& [path, of_file] : named) {
      for (const int64_t pos : of_file) {
        columns[0].texts.push_back(path);
        columns[1].numbers.emplace_back(pos);
      }
    }
    const std::string bytes = EncodeColumns(columns);
    file.content = FileContent::kPositionDeletes;
    file.file_format = "PARQUET";
    file.record_count = static_cast<int64_t>(columns[0].texts.size());
    file.file_size_in_bytes = static_cast<int64_t>(bytes.size());
    if (!dice.OneIn(3)) SetPathBounds(named.begin()->first, named.rbegin()->first, dice, file);
    if (named.size() == 1 && dice.OneIn(2)) file.referenced_data_file = named.begin()->first;
    LITHIFY_TRY_ASSIGN(file.file_path, Put("data", "-pos.parquet", bytes));
    change.added.push_back(std::move(file));
  }
  return {};
}

// One vector per data file, which takes the place of the one before; all in one Puffin file.
Status ForeignEngine::AddVectors(const Base& base, const Positions& positions, Change& change) {
  std::vector<table::PuffinBlob> blobs;
  std::vector<std::string> payloads;
  std::vector<DataFile> files;
  for (const ManifestEntry& entry : base.view->data) {
    const std::string& path = entry.file.file_path;
    const auto at = positions.find(path);
    if (at == positions.end()) continue;
    PositionSet set = base.view->gone.at(path);
    for (const int64_t pos : at->second) set.Add(pos);
    table::PuffinBlob blob;
    blob.type = "deletion-vector-v1";
    blob.fields = {iceberg::kPosFieldId};
    blob.properties = {{"referenced-data-file", path}, {"cardinality", std::to_string(set.size())}};
    blobs.push_back(std::move(blob));
    payloads.push_back(table::EncodeDeletionVector(set));
    DataFile file;
    file.content = FileContent::kPositionDeletes;
    file.file_format = "PUFFIN";
    file.spec_id = entry.file.spec_id;
    file.partition = entry.file.partition;
    file.record_count = set.size();
    file.referenced_data_file = path;
    files.push_back(std::move(file));
  }
  for (const ManifestEntry& entry : base.view->deletes) {
    if (!entry.file.deletion_vector()) continue;
    if (positions.contains(*entry.file.referenced_data_file)) change.removed.insert(NameOf(entry));
  }
  const std::string bytes = table::WritePuffin(blobs, payloads, {});
  LITHIFY_TRY_ASSIGN(const std::string location, Put("data", ".puffin", bytes));
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].file_path = location;
    files[i].file_size_in_bytes = static_cast<int64_t>(bytes.size());
    files[i].content_offset = blobs[i].offset;
    files[i].content_size_in_bytes = blobs[i].length;
    change.added.push_back(std::move(files[i]));
  }
  return {};
}

Status ForeignEngine::MakePositions(const Base& base, Change& change) {
  if (base.view == nullptr || base.view->data.empty()) return {};
  Dice& dice = services_.dice;
  Positions positions;
  for (int64_t n = dice.Between(1, 3); n > 0; --n) {
    const ManifestEntry& entry = base.view->data[dice.Below(base.view->data.size())];
    // Any row, also one that is deleted already (T13).
    for (int64_t k = dice.Between(1, entry.file.record_count); k > 0; --k) {
      positions[entry.file.file_path].insert(
          static_cast<int64_t>(dice.Below(static_cast<uint64_t>(entry.file.record_count))));
    }
  }
  change.operation = "delete";
  change.effect.kind =
      services_.shape.format_version >= 3 ? "deletion vectors" : "position deletes";
  return DeletePositions(base, positions, change);
}

// Rows get a new value: deleted where they are and written anew, with their row ids. Together with
// a new row or two.
Status ForeignEngine::MakeUpdate(const Base& base, Change& change) {
  if (base.view == nullptr || base.view->rows.empty()) return {};
  Dice& dice = services_.dice;
  Positions positions;
  std::vector<Row> rows;
  for (int64_t n = dice.Between(1, 3); n > 0; --n) {
    const ManifestEntry& entry = base.view->data[dice.Below(base.view->data.size())];
    for (const auto& [pos, id] : base.view->live_rows.at(entry.file.file_path)) {
      if (dice.OneIn(2) || !positions[entry.file.file_path].insert(pos).second) continue;
      Row row = base.view->rows.at(id);
      row.v = dice.Between(0, services_.shape.values - 1);
      row.last_updated.reset();
      rows.push_back(row);
    }
    if (positions[entry.file.file_path].empty()) positions.erase(entry.file.file_path);
  }
  if (positions.empty()) return {};
  if (dice.OneIn(2)) std::ranges::move(NewRows(1), std::back_inserter(rows));
  change.operation = "overwrite";
  change.effect.kind = "update";
  LITHIFY_TRY(DeletePositions(base, positions, change));
  return AddRows(std::move(rows), change);
}

Status ForeignEngine::MakeWholeFiles(const Base& base, Change& change) {
  if (base.view == nullptr || base.view->data.empty()) return {};
  Dice& dice = services_.dice;
  const bool vectors_too = dice.OneIn(2);
  std::set<std::string> paths;
  for (int64_t n = dice.Between(1, 2); n > 0; --n) {
    const ManifestEntry& entry = base.view->data[dice.Below(base.view->data.size())];
    paths.insert(entry.file.file_path);
    change.removed.insert(NameOf(entry));
    for (const auto& [pos, id] : base.view->live_rows.at(entry.file.file_path)) {
      change.effect.removed.insert(id);
    }
  }
  for (const ManifestEntry& entry : base.view->deletes) {
    const auto& referenced = entry.file.referenced_data_file;
    if (vectors_too && referenced && paths.contains(*referenced)) {
      change.removed.insert(NameOf(entry));
    }
  }
  change.operation = "delete";
  change.effect.kind = "removal of whole files";
  return {};
}

}  // namespace lithify::sim
