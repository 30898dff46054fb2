// What decides whether an Iceberg commit may go ahead: pure functions of plain values, no I/O
// [Commit Conflict Resolution and Retry], [Scan Planning].
//
// Paths are compared in one canonical spelling, and doubt counts as a hit: a false conflict costs a
// new plan, a missed one a row.
#ifndef LITHIFY_COMMIT_ICEBERG_VALIDATION_H_
#define LITHIFY_COMMIT_ICEBERG_VALIDATION_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "commit/iceberg_commit.h"

namespace lithify::commit {

using Canonical = std::function<std::string(std::string_view)>;

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

// --- the request -------------------------------------------------------------------------------

// Conservation and shape: what needs no look at the table. kCorrupt, kInternal.
Status CheckRewriteClaims(const RewriteCommit& request);

// Names one request by its job, inputs, outputs and deletes, in any order: two batches of one job
// differ in it, a repeated request does not (I8, I30). 32 hexadecimal digits.
std::string CommitFingerprint(std::string_view job_id, std::span<const std::string> parts);
std::string RewriteFingerprint(const RewriteCommit& request);

// The rows that each partition loses and gets; 0 where they stay. Of several specs only one can be
// written to, so equal counts in a partition mean the same rows.
class PartitionBalance {
 public:
  void Out(const iceberg::PartitionKey& partition, int64_t rows) { rows_[partition] -= rows; }
  void In(const iceberg::PartitionKey& partition, int64_t rows) { rows_[partition] += rows; }
  bool StaysIn(const iceberg::PartitionKey& partition) const {
    const auto at = rows_.find(partition);
    return at == rows_.end() || at->second == 0;
  }

 private:
  std::map<iceberg::PartitionKey, int64_t> rows_;
};

// --- history -----------------------------------------------------------------------------------

// The snapshots from the head down to, but without, `ancestor`, newest first. kConflict if the
// chain does not lead there (I9).
Result<std::vector<const iceberg::Snapshot*>> SnapshotsAfter(const iceberg::TableMetadata& table,
                                                             const iceberg::Snapshot& head,
                                                             int64_t ancestor);

// How we know our own commit in a table: keys of the snapshot summary.
struct CommitMark {
  std::string job_id;
  std::string fingerprint;
};
inline constexpr std::string_view kJobIdKey = "lithify.job-id";
inline constexpr std::string_view kCommitIdKey = "lithify.commit-id";

// The snapshot that carries the mark, on any branch or none; null: there is none.
const iceberg::Snapshot* FindMarked(const iceberg::TableMetadata& table, const CommitMark& mark);

// An attempt whose reply was lost.
struct LostAttempt {
  std::optional<int64_t>
      base_snapshot_id;  // The head that it was to follow; unset: to be the first.
  int64_t sequence_number = 0;
};
enum class Fate {
  kOpen,     // Not applied; it may still be, as long as nothing takes its place.
  kDead,     // Not applied, and never will be.
  kUnknown,  // Cannot be told: its snapshot may have come and gone.
};
// For a table in which FindMarked() finds nothing.
Fate FateOf(const LostAttempt& attempt, const iceberg::TableMetadata& table,
            const std::string& branch);

// --- deletes and what they reach ---------------------------------------------------------------

// What one live entry of a delete manifest says of its scope.
struct DeleteFacts {
  iceberg::FileContent content = iceberg::FileContent::kPositionDeletes;
  std::string path;
  int64_t content_offset = -1;  // -1: none.
  int64_t sequence_number = 0;
  iceberg::PartitionKey partition;
  bool unpartitioned = false;
  std::string referenced;  // By referenced_data_file or equal bounds; empty: may name any file.
  // `referenced` is known from the bounds alone, which a writer may have cut short.
  bool by_bounds = false;
  std::string lower_path;  // Bounds of the paths it names; empty: unknown. May be cut short.
  std::string upper_path;

  // One and the same delete in two snapshots.
  using Key = std::pair<std::string, int64_t>;
  Key key() const { return {path, content_offset}; }
  std::string Describe() const;  // "position delete file x", "deletion vector x at 4".
};
DeleteFacts MakeDeleteFacts(const iceberg::ManifestEntry& entry,
                            const iceberg::PartitionSpec& spec);
bool Unpartitioned(const iceberg::PartitionSpec& spec);  // No field but void ones.

// A set of paths in which a path is found in any of its spellings.
class PathSet {
 public:
  explicit PathSet(Canonical canonical) : canonical_(std::move(canonical)) {}
  // False if it was there already.
  bool Add(std::string_view path);
  bool Contains(std::string_view path) const;
  size_t size() const { return paths_.size(); }

 private:
  Canonical canonical_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> paths_;      // Canonical.
  std::unordered_set<std::string, StringHash, std::equal_to<>> spellings_;  // As added.
};

// The data files that a rewrite replaces, as the head has them.
class InputIndex {
 public:
  explicit InputIndex(Canonical canonical) : canonical_(std::move(canonical)) {}
  void Add(std::string_view path, const iceberg::PartitionKey& partition, int64_t sequence_number);
  size_t size() const { return sequence_by_canonical_.size(); }
  // Whether the delete may apply to a row of an input. A position delete that references a file
  // reaches it in any partition; one that may name any file, those of its partition within its
  // bounds.
  bool Reaches(const DeleteFacts& file) const;

 private:
  struct Member {
    std::string path;
    std::string canonical;
    int64_t sequence_number = 0;
  };
  Canonical canonical_;
  std::unordered_map<std::string, int64_t> sequence_by_canonical_;
  std::map<iceberg::PartitionKey, std::vector<Member>> partitions_;
  int64_t sequence_min_ = std::numeric_limits<int64_t>::max();
};

// Deletes that reach an input and are not the same in both states: kConflict naming the first, with
// two exceptions. A new equality delete above the planned sequence number applies to the outputs as
// it does to the inputs (I1, R110), if the rows stay in the partition that it is for. What this job
// itself removed, it had applied (R121).
struct DeleteChanges {
  std::vector<DeleteFacts> added;
  std::vector<DeleteFacts> removed;
};
struct DeleteRules {
  int64_t planned_sequence_number = 0;
  std::function<bool(const iceberg::PartitionKey&)> rows_stay_in;
  std::function<bool(const DeleteFacts&)> removed_by_this_job;
};
Status CheckDeleteChanges(const DeleteChanges& changes, const DeleteRules& rules);

// Which covered deletes something still needs: a live data file that stays, or an output (I6,
// R102).
class CoveredDeletes {
 public:
  CoveredDeletes(const PathSet& inputs, Canonical canonical)
      : inputs_(inputs), canonical_(std::move(canonical)) {}

  // `paths`: all that it names, if known.
  void Add(const DeleteFacts& file, std::span<const std::string> paths);
  // A data file that stays live, after the last Add().
  void Stays(std::string_view path, const iceberg::PartitionKey& partition,
             int64_t sequence_number);
  // An output, after the last Add(): no position delete can name it.
  void Output(const iceberg::PartitionKey& partition, int64_t sequence_number);

  // Whether any data file has to be shown to Stays().
  bool open() const;
  // Whether a data manifest may hold a file that needs one: by the least data sequence number in
  // it and whether it may hold files of a partition.
  bool MayNeed(int64_t min_sequence_number,
               const std::function<bool(const iceberg::PartitionKey&)>& may_hold) const;
  // Those that nothing needs.
  std::vector<DeleteFacts> Removable() const;

 private:
  struct Covered {
    DeleteFacts file;
    bool needed = false;
  };
  struct Scope {
    std::vector<size_t> positional;      // Position deletes that may name any file of it.
    int64_t sequence_max = -1;           // The greatest of all deletes in it.
    std::optional<int64_t> stays_min{};  // The least data sequence number that stays.
  };
  void OpenPath(std::string_view path, size_t index);
  void NeedByPath(std::string_view path, int64_t sequence_number);

  const PathSet& inputs_;
  Canonical canonical_;
  std::vector<Covered> deletes_;
  // Named paths that are no inputs, in the spelling of the delete and the canonical one.
  std::unordered_map<std::string, std::vector<size_t>, StringHash, std::equal_to<>> by_path_;
  int64_t by_path_sequence_max_ = -1;
  std::map<iceberg::PartitionKey, Scope> partitions_;
  Scope everywhere_;  // Equality deletes of unpartitioned specs.
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_VALIDATION_H_
