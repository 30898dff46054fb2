// A new snapshot: its manifests, its manifest list and its summary [Snapshots], [Manifests],
// [Manifest Lists], [Row Lineage]. Nothing here decides; nothing here touches the catalog.
//
// Every file is read back and compared entry by entry with what it was to say: kCorrupt if it
// differs. Thread safety: one thread.
#ifndef LITHIFY_COMMIT_ICEBERG_SNAPSHOT_H_
#define LITHIFY_COMMIT_ICEBERG_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "commit/iceberg_manifests.h"
#include "table/metadata_cache.h"

namespace lithify::commit {

using SnapshotSummary = std::map<std::string, std::string>;

// The numbers of a snapshot summary, under the names that Iceberg's Java library writes [Optional
// Snapshot Summary Fields].
class SummaryCounts {
 public:
  // kCorrupt where a sum is beyond 64 bits.
  Status Added(const iceberg::DataFile& file) { return Count(file, added_); }
  Status Removed(const iceberg::DataFile& file) { return Count(file, removed_); }
  int64_t removed_delete_files() const { return removed_.delete_files; }
  // With totals carried on from the parent, where it has them.
  SnapshotSummary Build(const SnapshotSummary& parent) const;

 private:
  struct Side {
    int64_t data_files = 0;
    int64_t records = 0;
    int64_t bytes = 0;
    int64_t delete_files = 0;
    int64_t position_delete_files = 0;
    int64_t dvs = 0;
    int64_t equality_delete_files = 0;
    int64_t position_deletes = 0;
    int64_t equality_deletes = 0;
  };
  Status Count(const iceberg::DataFile& file, Side& side);

  Side added_;
  Side removed_;
  std::set<iceberg::PartitionKey> partitions_;
};

// Who made a snapshot.
struct SnapshotStamp {
  std::string job_id;
  std::string fingerprint;
  std::string trigger;
  std::string principal;                            // Empty: not stamped.
  bool maintenance_keys = true;                     // sqe.maintenance.* too (R112).
  std::map<std::string, std::string> summary = {};  // More of it; ours goes above.
};
void AddStamp(const SnapshotStamp& stamp, SnapshotSummary& summary);

// Random, positive, and not the id of a snapshot that the table has or had.
int64_t NewSnapshotId(const iceberg::TableMetadata& table, Random& random);

class SnapshotBuilder {
 public:
  // On top of `parent`, the head of the branch; null: it will be the first.
  SnapshotBuilder(const table::MetadataSource& source, const iceberg::TableMetadata& table,
                  const iceberg::Snapshot* parent, MetadataFiles& files, Random& random);

  int64_t snapshot_id() const { return snapshot_id_; }
  int64_t sequence_number() const { return sequence_number_; }
  int64_t written() const { return written_; }
  int64_t kept() const { return kept_; }

  // Carries a manifest over, unless the list says that nothing in it is live. Counts that a v1 list
  // left out are filled in where the table's version demands them.
  Status Keep(iceberg::ManifestFile manifest);
  // Writes a manifest anew: live entries as EXISTING with their numbers, those that `removed` names
  // as DELETED by this snapshot. Returns how many those are.
  Result<int64_t> Rewrite(const iceberg::ManifestFile& manifest,
                          const std::function<bool(const iceberg::ManifestEntry&)>& removed);
  // New files of one spec, after manifests of it have been rewritten: its partition types are
  // theirs. Their data sequence number is given, or inherited if unset; the file sequence number
  // and the first row id are inherited always.
  Status AddDataFiles(std::span<const iceberg::DataFile> files, const iceberg::PartitionSpec& spec,
                      std::optional<int64_t> data_sequence_number);
  // Live entries of other manifests, gathered in a new one.
  Status AddExisting(LiveEntries live, const iceberg::PartitionSpec& spec,
                     iceberg::ManifestContent content);
  SummaryCounts& counts() { return counts_; }

  // Writes the manifest list. New data first, deletes last.
  Result<iceberg::Snapshot> Finish(SnapshotSummary summary, Time now, int attempt);

 private:
  Status Write(const LiveEntries& content_of, const iceberg::PartitionSpec& spec,
               iceberg::ManifestContent content, std::vector<iceberg::ManifestFile>& to);
  Status CheckManifest(const iceberg::ManifestFile& manifest,
                       std::span<const iceberg::ManifestEntry> expected) const;
  Status CheckList(const std::string& location,
                   std::span<const iceberg::ManifestFile> expected) const;
  std::string codec() const;

  table::MetadataSource source_;
  const iceberg::TableMetadata& table_;
  const iceberg::Snapshot* parent_;
  MetadataFiles& files_;
  int64_t snapshot_id_;
  int64_t sequence_number_;
  int64_t written_ = 0;
  int64_t kept_ = 0;
  SummaryCounts counts_;
  std::map<int, std::vector<iceberg::Type>> partition_types_;  // By spec, of rewritten manifests.
  std::vector<iceberg::ManifestFile> new_data_;
  std::vector<iceberg::ManifestFile> data_;
  std::vector<iceberg::ManifestFile> deletes_;
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_SNAPSHOT_H_
