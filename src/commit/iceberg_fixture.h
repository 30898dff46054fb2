// For tests: an Iceberg table in memory, and other writers that change it through the catalog, each
// with its own snapshot, written without any of the code under test.
#ifndef LITHIFY_COMMIT_ICEBERG_FIXTURE_H_
#define LITHIFY_COMMIT_ICEBERG_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "catalog/memory_catalog.h"
#include "commit/iceberg_commit.h"
#include "storage/memory_store.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_snapshot.h"

namespace lithify::commit {

class StillClock final : public Clock {
 public:
  Time Now() const override { return now; }
  Duration Monotonic() const override { return now.time_since_epoch(); }
  void Sleep(Duration d) override { now += d; }
  Time now = ParseTime("2026-11-29T12:00:00Z").value();
};

inline const std::string kRoot = "s3://b/t";
inline std::string Path(const std::string& name) { return kRoot + "/data/" + name; }

class IcebergTable : public testing::Test {
 protected:
  using Entries = std::map<std::string, iceberg::ManifestEntry>;  // By file name, and offset.

  // Columns id and day; spec 0 by day, spec 1 unpartitioned.
  void Create(int version = 2) {
    std::string text = R"({"format-version":)" + std::to_string(version) +
                       R"(,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":")" +
                       kRoot + R"(","last-updated-ms":1,"last-column-id":2,)";
    const std::string fields =
        R"("type":"struct","fields":[{"id":1,"name":"id","required":false,"type":"long"},)"
        R"({"id":2,"name":"day","required":false,"type":")" +
        day_type_ + R"("}])";
    text += R"("schemas":[{"schema-id":0,)" + fields + R"(},{"schema-id":1,)" + fields + "}],";
    if (version == 1) text += R"("schema":{"schema-id":0,)" + fields + "},";
    const std::string by_day =
        R"([{"source-id":2,"field-id":1000,"name":"day","transform":"identity"}])";
    if (version == 1) text += R"("partition-spec":)" + by_day + ",";
    text += R"("partition-specs":[{"spec-id":0,"fields":)" + by_day +
            R"(},{"spec-id":1,"fields":[]}],)";
    text += R"("current-schema-id":0,"default-spec-id":0,"last-partition-id":1000,)";
    text += sort_order_.empty()
                ? R"("sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,)"
                : R"("sort-orders":[{"order-id":1,"fields":[)" + sort_order_ +
                      R"(]}],"default-sort-order-id":1,)";
    if (version >= 2) text += R"("last-sequence-number":0,)";
    if (version >= 3) text += R"("next-row-id":0,)";
    text += R"("properties":{"owner":"me"},"snapshots":[]})";
    const Status created = catalog_.CreateTable(ident_, text);
    ASSERT_TRUE(created) << created.error().ToString();
  }

  // --- files -----------------------------------------------------------------------------------

  static iceberg::DataFile Data(const std::string& name, int64_t rows = 10, int64_t day = 1) {
    iceberg::DataFile file;
    file.file_path = Path(name);
    file.file_format = "PARQUET";
    file.partition = {iceberg::Value(day)};
    file.record_count = rows;
    file.file_size_in_bytes = 100;
    file.lower_bounds = {{1, std::string("\1\0\0\0\0\0\0\0", 8)}};
    return file;
  }
  static iceberg::DataFile Positions(const std::string& name, const std::string& referenced = {},
                                     int64_t day = 1) {
    iceberg::DataFile file = Data(name, 1, day);
    file.content = iceberg::FileContent::kPositionDeletes;
    file.lower_bounds.clear();
    if (!referenced.empty()) file.referenced_data_file = Path(referenced);
    return file;
  }
  static iceberg::DataFile Equality(const std::string& name, int64_t day = 1) {
    iceberg::DataFile file = Positions(name, {}, day);
    file.content = iceberg::FileContent::kEqualityDeletes;
    file.equality_ids = {1};
    return file;
  }
  static iceberg::DataFile Vector(const std::string& puffin, const std::string& referenced,
                                  int64_t offset = 4, int64_t rows = 1) {
    iceberg::DataFile file = Positions(puffin, referenced);
    file.file_format = "PUFFIN";
    file.record_count = rows;
    file.content_offset = offset;
    file.content_size_in_bytes = 40;
    return file;
  }
  static iceberg::DataFile Unpartitioned(iceberg::DataFile file) {
    file.spec_id = 1;
    file.partition.clear();
    return file;
  }

  // --- what is there -----------------------------------------------------------------------------

  catalog::LoadedTable Load() { return catalog_.LoadTable(ident_).value(); }
  iceberg::Snapshot Head(const std::string& branch = "main") {
    const catalog::LoadedTable table = Load();
    return *table.metadata.RefSnapshot(branch);
  }
  std::vector<iceberg::ManifestFile> Manifests(const iceberg::Snapshot& snapshot) {
    return table::SnapshotManifests(*locations_, Load().metadata, snapshot).value();
  }
  std::vector<iceberg::ManifestEntry> EntriesOf(const iceberg::ManifestFile& manifest) {
    std::vector<iceberg::ManifestEntry> entries;
    const std::string bytes = table::ReadMetadataFile(*locations_, manifest.manifest_path).value();
    const Status read = table::ReadManifest(bytes, manifest, Load().metadata, {},
                                            [&](iceberg::ManifestEntry&& entry) {
                                              entries.push_back(std::move(entry));
                                              return Status();
                                            });
    EXPECT_TRUE(read) << read.error().ToString();
    return entries;
  }
  static std::string NameOf(const iceberg::DataFile& file) {
    std::string name = file.file_path.substr(file.file_path.rfind('/') + 1);
    if (file.content_offset) name += "@" + std::to_string(*file.content_offset);
    return name;
  }
  Entries Live(const iceberg::Snapshot& snapshot) {
    Entries live;
    for (const iceberg::ManifestFile& manifest : Manifests(snapshot)) {
      for (iceberg::ManifestEntry& entry : EntriesOf(manifest)) {
        if (entry.status == iceberg::EntryStatus::kDeleted) continue;
        const std::string name = NameOf(entry.file);
        EXPECT_TRUE(live.emplace(name, std::move(entry)).second) << name << " is live twice";
      }
    }
    return live;
  }
  Entries Live() { return Live(Head()); }
  std::vector<std::string> LiveNames() {
    std::vector<std::string> names;
    for (const auto& [name, entry] : Live()) names.push_back(name);
    return names;
  }

  // --- other writers -----------------------------------------------------------------------------

  struct Change {
    std::string operation = "append";
    std::vector<iceberg::DataFile> added;
    std::set<std::string> removed;  // Names, with the offset of a vector.
    std::string branch = "main";
    std::optional<int64_t> data_sequence_number = {};
  };

  // Like any other engine: the head's manifests, those with removed files written anew, one new
  // manifest per content and spec.
  int64_t Commit(const Change& change) {
    const catalog::LoadedTable loaded = Load();
    const iceberg::TableMetadata& table = loaded.metadata;
    const iceberg::Snapshot* head = table.RefSnapshot(change.branch);
    if (head == nullptr) head = table.RefSnapshot("main");
    iceberg::Snapshot snapshot;
    snapshot.snapshot_id = ++last_id_;
    snapshot.sequence_number = table.format_version >= 2 ? table.last_sequence_number + 1 : 0;
    snapshot.timestamp_ms = table.last_updated_ms + 1;
    if (head != nullptr) snapshot.parent_snapshot_id = head->snapshot_id;
    snapshot.schema_id = table.current_schema_id;
    snapshot.summary = {{"operation", change.operation}};
    CarryTotals(head, change, snapshot);
    std::vector<iceberg::ManifestFile> manifests = NewManifests(change, table, snapshot);
    if (head != nullptr) {
      for (iceberg::ManifestFile& manifest : Manifests(*head)) {
        manifests.push_back(WithoutRemoved(std::move(manifest), change, table, snapshot));
      }
    }
    table::ManifestListHeader header{
        table.format_version,     snapshot.snapshot_id, snapshot.parent_snapshot_id,
        snapshot.sequence_number, std::nullopt,         "null"};
    if (table.format_version >= 3) header.first_row_id = table.next_row_id;
    const auto list = table::WriteManifestList(manifests, header).value();
    if (table.format_version >= 3) {
      snapshot.first_row_id = table.next_row_id;
      snapshot.added_rows = list.next_row_id - table.next_row_id;
    }
    snapshot.manifest_list = Put("list-" + std::to_string(snapshot.snapshot_id), list.bytes);
    iceberg::SnapshotRef ref;
    ref.snapshot_id = snapshot.snapshot_id;
    const std::vector<table::TableUpdate> updates = {table::AddSnapshot{snapshot},
                                                     table::SetSnapshotRef{change.branch, ref}};
    const auto done = catalog_.CommitTable(ident_, {}, updates);
    EXPECT_TRUE(done) << done.error().ToString();
    return snapshot.snapshot_id;
  }
  int64_t Append(std::vector<iceberg::DataFile> files) {
    return Commit({"append", std::move(files), {}});
  }
  int64_t Delete(std::vector<iceberg::DataFile> files) {
    return Commit({"delete", std::move(files), {}});
  }
  int64_t Remove(std::set<std::string> names) { return Commit({"delete", {}, std::move(names)}); }
  void Update(std::vector<table::TableUpdate> updates) {
    const auto done = catalog_.CommitTable(ident_, {}, updates);
    ASSERT_TRUE(done) << done.error().ToString();
  }
  void SetRef(const std::string& name, int64_t snapshot_id, bool is_branch = true) {
    iceberg::SnapshotRef ref;
    ref.snapshot_id = snapshot_id;
    ref.is_branch = is_branch;
    Update({table::SetSnapshotRef{name, ref}});
  }
  void Expire(int64_t snapshot_id) { Update({table::RemoveSnapshots{{snapshot_id}}}); }

  // --- the code under test -----------------------------------------------------------------------

  IcebergCommitter Committer() {
    return IcebergCommitter(
        IcebergCommitServices{*catalog_ref_, *locations_, clock_, random_, [this](Duration d) {
                                slept_.push_back(d);
                                if (on_sleep_) on_sleep_();
                              }});
  }

  // Replaces these files of the head, of ten rows each, by one, which is written.
  RewriteCommit Plan(const std::vector<std::string>& inputs, const std::string& output = "out",
                     int64_t rows_deleted = 0) {
    const iceberg::Snapshot head = Head();
    RewriteCommit request;
    request.ident = ident_;
    request.job_id = "0193a1b2-0000-7000-8000-000000000001";
    request.planned_snapshot_id = head.snapshot_id;
    request.planned_sequence_number = head.sequence_number;
    for (const std::string& input : inputs) request.inputs.push_back({Path(input), 10, 0});
    request.inputs[0].rows_deleted = rows_deleted;
    const auto rows = static_cast<int64_t>(inputs.size()) * 10 - rows_deleted;
    if (rows == 0) return request;
    request.outputs.push_back(Data(output, rows));
    EXPECT_TRUE(store_->PutNew("t/data/" + output, std::string(100, 'x')));
    return request;
  }
  Result<CommittedSnapshot> Run(const RewriteCommit& request) {
    return Committer().CommitRewrite(request, cancel_);
  }

  // Files in the metadata directory but metadata.json.
  std::set<std::string> MetadataKeys() {
    std::set<std::string> keys;
    for (const std::string& key : store_->Keys()) {
      if (key.starts_with("t/metadata/") && !key.ends_with(".json")) keys.insert(key);
    }
    return keys;
  }

  template <typename T>
  static void ExpectFails(const Result<T>& result, Code code, const std::string& message) {
    ASSERT_FALSE(result);
    EXPECT_EQ(CodeName(result.error().code), CodeName(code)) << result.error().ToString();
    EXPECT_THAT(result.error().ToString(), testing::HasSubstr(message));
  }

  StillClock clock_;
  SeededRandom random_{7};
  std::shared_ptr<storage::MemoryStore> store_ = std::make_shared<storage::MemoryStore>(clock_);
  std::unique_ptr<storage::Locations> locations_ = storage::MakeStoreLocations(store_, "s3", "b");
  catalog::MemoryCatalog catalog_{*locations_, clock_, random_};
  catalog::Catalog* catalog_ref_ = &catalog_;
  catalog::TableIdent ident_{{"sales"}, "orders"};
  CancelFlag cancel_;
  std::vector<Duration> slept_;
  std::function<void()> on_sleep_;
  std::string day_type_ = "int";  // Of tables that Create() makes.
  std::string sort_order_;        // Of tables that Create() makes: one field as JSON. Empty: none.

 private:
  std::string Put(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(store_->PutNew("t/metadata/" + name + ".avro", bytes));
    return kRoot + "/metadata/" + name + ".avro";
  }

  static void CarryTotals(const iceberg::Snapshot* head, const Change& change,
                          iceberg::Snapshot& snapshot) {
    int64_t files = head == nullptr ? 0 : std::stoll(head->summary.at("total-data-files"));
    int64_t deletes = head == nullptr ? 0 : std::stoll(head->summary.at("total-delete-files"));
    for (const iceberg::DataFile& file : change.added) {
      (file.content == iceberg::FileContent::kData ? files : deletes) += 1;
    }
    snapshot.summary["total-data-files"] = std::to_string(files);
    snapshot.summary["total-delete-files"] = std::to_string(deletes);
  }

  iceberg::ManifestFile Write(const std::vector<iceberg::ManifestEntry>& entries,
                              const iceberg::TableMetadata& table,
                              const iceberg::Snapshot& snapshot, int spec_id,
                              iceberg::ManifestContent content) {
    table::ManifestWriteOptions options;
    options.format_version = table.format_version;
    options.spec = *table.FindSpec(spec_id);
    options.schema = table.schema();
    options.content = content;
    options.snapshot_id = snapshot.snapshot_id;
    options.codec = "null";
    auto written = table::WriteManifest(entries, options).value();
    written.file.manifest_path = Put("m-" + std::to_string(++manifests_), written.bytes);
    written.file.sequence_number = snapshot.sequence_number;
    if (written.file.min_sequence_number == table::kInheritSequenceNumber) {
      written.file.min_sequence_number = snapshot.sequence_number;
    }
    return written.file;
  }

  std::vector<iceberg::ManifestFile> NewManifests(const Change& change,
                                                  const iceberg::TableMetadata& table,
                                                  const iceberg::Snapshot& snapshot) {
    std::map<std::pair<int, bool>, std::vector<iceberg::ManifestEntry>> groups;
    for (const iceberg::DataFile& file : change.added) {
      iceberg::ManifestEntry entry;
      entry.status = iceberg::EntryStatus::kAdded;
      entry.snapshot_id = snapshot.snapshot_id;
      entry.sequence_number = change.data_sequence_number.value_or(table::kInheritSequenceNumber);
      entry.file_sequence_number = table::kInheritSequenceNumber;
      entry.file = file;
      groups[{file.spec_id, file.content == iceberg::FileContent::kData}].push_back(entry);
    }
    std::vector<iceberg::ManifestFile> manifests;
    for (const auto& [key, entries] : groups) {
      manifests.push_back(
          Write(entries, table, snapshot, key.first,
                key.second ? iceberg::ManifestContent::kData : iceberg::ManifestContent::kDeletes));
    }
    return manifests;
  }

  iceberg::ManifestFile WithoutRemoved(iceberg::ManifestFile manifest, const Change& change,
                                       const iceberg::TableMetadata& table,
                                       const iceberg::Snapshot& snapshot) {
    bool any = false;
    std::vector<iceberg::ManifestEntry> entries;
    for (iceberg::ManifestEntry& entry : EntriesOf(manifest)) {
      if (entry.status == iceberg::EntryStatus::kDeleted) continue;
      entry.status = iceberg::EntryStatus::kExisting;
      if (change.removed.contains(NameOf(entry.file))) {
        entry.status = iceberg::EntryStatus::kDeleted;
        entry.snapshot_id = snapshot.snapshot_id;
        any = true;
      }
      entries.push_back(std::move(entry));
    }
    if (!any) return manifest;
    return Write(entries, table, snapshot, manifest.partition_spec_id, manifest.content);
  }

  int64_t last_id_ = 100;
  int manifests_ = 0;
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_FIXTURE_H_
