// Knows what each snapshot of a simulated Iceberg table must hold, and judges the table after every
// commit and every removal of a file.
#ifndef LITHIFY_TESTS_SIM_ICEBERG_ORACLE_H_
#define LITHIFY_TESTS_SIM_ICEBERG_ORACLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "iceberg_view.h"

namespace lithify::sim {

// What a snapshot of another engine does to the rows of its parent: equality deletes and removals
// first, then the additions.
struct Effect {
  struct Equality {
    std::vector<int> ids;  // Field ids.
    std::vector<std::optional<int64_t>> key;
    int spec_id = 0;
    bool everywhere = false;  // Of an unpartitioned spec.
    int64_t p = 0;
  };
  std::string kind;  // For messages.
  std::vector<Equality> equality;
  std::set<int64_t> removed;  // Ids.
  std::vector<Row> added;     // With a row_id if the row had one before.
};

// Sums over the snapshots that one job made, from their summaries.
struct JobTotals {
  std::set<int64_t> snapshots;  // Their ids.
  int64_t added_files = 0;
  int64_t removed_files = 0;
  int64_t removed_deletes = 0;
  int64_t added_records = 0;
  int64_t removed_records = 0;
};

// Each check returns nothing, or what is wrong.
class IcebergOracle {
 public:
  explicit IcebergOracle(storage::MemoryStore& store) : store_(store), reader_(store) {}

  // Before the commit is sent. A snapshot that nobody announced must change no row.
  void Expect(int64_t snapshot_id, Effect effect) { effects_[snapshot_id] = std::move(effect); }
  // A rollback that somebody sent, and may land at any time.
  void ExpectRollback(const std::string& branch, int64_t snapshot_id) {
    rollbacks_.emplace(branch, snapshot_id);
  }
  // Rewrites may move rows to another partition spec, and do nothing else to them.
  void AllowMoves() { moves_ = true; }
  // This job was told to have changed nothing: none of its snapshots may be there, or come.
  std::optional<std::string> ExpectNothingOf(const std::string& job_id);

  // The table changed, or not.
  std::optional<std::string> Observe(const iceberg::TableMetadata& table,
                                     const std::string& metadata_location);
  // A file was removed.
  std::optional<std::string> Removed(const std::string& key) const;
  // Reads every snapshot that is left, anew.
  std::optional<std::string> CheckAll() const;
  // Every file of the store is one that the table refers to.
  std::optional<std::string> CheckNoGarbage() const;

  const SnapshotView& view(int64_t snapshot_id) const { return *snapshots_.at(snapshot_id).view; }
  const iceberg::TableMetadata& table() const { return table_; }
  const JobTotals& totals(const std::string& job_id) { return jobs_[job_id]; }
  int64_t commits() const { return commits_; }
  int64_t replaces() const { return replaces_; }

 private:
  struct Known {
    std::shared_ptr<const Rows> rows;
    std::shared_ptr<const SnapshotView> view;
  };

  std::optional<std::string> ObserveSnapshot(const iceberg::TableMetadata& table,
                                             const iceberg::Snapshot& snapshot);
  std::optional<std::string> Apply(const Effect& effect, const iceberg::TableMetadata& table,
                                   const iceberg::Snapshot& snapshot, const SnapshotView& view,
                                   Rows& rows) const;
  std::optional<std::string> CheckReplace(const iceberg::TableMetadata& table,
                                          const SnapshotView& before, const SnapshotView& after);
  std::optional<std::string> CheckRowIds(const iceberg::TableMetadata& table,
                                         const iceberg::Snapshot& snapshot,
                                         const SnapshotView& view);
  std::optional<std::string> CheckRefs(const iceberg::TableMetadata& table) const;
  std::optional<std::string> CountJob(const iceberg::Snapshot& snapshot);

  storage::MemoryStore& store_;
  SnapshotReader reader_;
  bool started_ = false;
  iceberg::TableMetadata table_;
  std::string metadata_location_;
  std::map<int64_t, Effect> effects_;
  std::set<std::pair<std::string, int64_t>> rollbacks_;
  std::map<int64_t, Known> snapshots_;  // All that ever were.
  std::map<std::string, JobTotals> jobs_;
  std::set<std::string> failed_jobs_;
  bool moves_ = false;
  std::map<int64_t, std::pair<int64_t, std::string>> row_ids_;  // First -> (end, path).
  std::map<std::string, int64_t> first_row_ids_;                // By path.
  int64_t commits_ = 0;
  int64_t replaces_ = 0;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_ICEBERG_ORACLE_H_
