// What a reader of an Iceberg table sees: the plain rules of scan planning over manifests, file by
// file and row by row, without any of the code that plans or rewrites [Scan Planning].
#ifndef LITHIFY_TESTS_SIM_ICEBERG_VIEW_H_
#define LITHIFY_TESTS_SIM_ICEBERG_VIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "base/position_set.h"
#include "base/result.h"
#include "storage/memory_store.h"

namespace lithify::sim {

// The simulated table: columns id (unique), v (few values, or null) and p (the partition).
inline constexpr int kIdField = 1;
inline constexpr int kValueField = 2;
inline constexpr int kPartitionField = 3;
inline constexpr std::string_view kTableRoot = "s3://b/t";

struct Row {
  int64_t id = 0;
  std::optional<int64_t> v;
  int64_t p = 0;
  int spec_id = 0;  // Of the file that it is in; a rewrite keeps it, unless it moves rows.
  // Format version 3.
  std::optional<int64_t> row_id;
  std::optional<int64_t> last_updated;
  bool operator==(const Row&) const = default;
  std::string ToString() const;
};
using Rows = std::map<int64_t, Row>;  // By id.

// Key in the store of a location below kTableRoot.
std::string KeyOf(std::string_view location);

// One snapshot, read completely.
struct SnapshotView {
  std::vector<iceberg::ManifestFile> manifests;
  std::vector<iceberg::ManifestEntry> data;     // Live.
  std::vector<iceberg::ManifestEntry> deletes;  // Live.
  Rows rows;
  // By path of a live data file: its live rows as (position, id), and positions that are gone.
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> live_rows;
  std::map<std::string, PositionSet> gone;
  std::set<std::string> keys;   // Of everything that it refers to and a reader needs.
  std::set<std::string> named;  // Of files that entries of status DELETED name.
};

// Names a delete: its path, and where in the file (deletion vectors; else -1).
using DeleteName = std::pair<std::string, int64_t>;
DeleteName NameOf(const iceberg::ManifestEntry& entry);

// Reads whole snapshots. Files never change under their name, so that what was parsed is kept.
class SnapshotReader {
 public:
  explicit SnapshotReader(storage::MemoryStore& store) : store_(store) {}

  // kCorrupt for what a reader must not find: a file that is gone, listed twice, or tells another
  // number of rows, two vectors of one file, a row that is there twice.
  Result<SnapshotView> Read(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot);

  // Whether a delete entry applies to a data file by the rules alone; for position deletes also by
  // the paths that are in the file.
  Result<bool> Applies(const iceberg::TableMetadata& table, const iceberg::ManifestEntry& deletes,
                       const iceberg::ManifestEntry& data);

 private:
  using Key = std::vector<std::optional<int64_t>>;
  struct DeleteContent {
    std::map<std::string, PositionSet> positions;  // By data file.
    std::set<Key> keys;                            // Of an equality delete, by its ids.
    int64_t records = 0;
  };
  struct FileRow {
    Row row;
    std::optional<int64_t> row_id;
    std::optional<int64_t> last_updated;
  };

  Result<std::string> Get(const std::string& location);
  Status ReadManifests(const iceberg::TableMetadata& table, SnapshotView& view);
  Result<const std::vector<FileRow>*> DataOf(const iceberg::ManifestEntry& entry);
  Result<const DeleteContent*> DeletesOf(const iceberg::ManifestEntry& entry);
  Result<DeleteContent> ReadDeletes(const iceberg::ManifestEntry& entry);
  Status ReadFile(const iceberg::TableMetadata& table, const iceberg::ManifestEntry& entry,
                  SnapshotView& view);

  storage::MemoryStore& store_;
  std::map<std::string, std::vector<FileRow>> data_;
  std::map<DeleteName, DeleteContent> deletes_;
  // By path and what its entries inherit.
  std::map<std::tuple<std::string, int64_t, int64_t>, std::vector<iceberg::ManifestEntry>>
      manifests_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_ICEBERG_VIEW_H_
