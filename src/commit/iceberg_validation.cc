#include "commit/iceberg_validation.h"

#include <algorithm>
#include <set>

#include "base/digest.h"
#include "commit/iceberg_guard.h"

namespace lithify::commit {
namespace {

using iceberg::FileContent;
using iceberg::PartitionKey;

std::unexpected<Error> Conflict(std::string message, std::string context = {}) {
  return Fail(Code::kConflict, std::move(message), std::move(context),
              "load the table and plan again");
}

// FNV-1a from two offsets, finished so that sums of them do not cancel.
void HashInto(std::string_view text, Digest128& sum) {
  uint64_t halves[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  for (uint64_t& hash : halves) {
    for (const char c : text) {
      hash ^= static_cast<unsigned char>(c);
      hash *= 0x100000001b3u;
    }
    hash ^= hash >> 30;
    hash *= 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 27;
    hash *= 0x94d049bb133111ebu;
    hash ^= hash >> 31;
  }
  sum.Add(halves[0], halves[1]);
}

// Bounds may be cut short: a lower one is then a prefix, which is still lower; an upper one that
// was not raised after the cut is a prefix of what it bounds.
bool BoundsInclude(std::string_view lower, std::string_view upper, std::string_view path) {
  if (!lower.empty() && path < lower) return false;
  return upper.empty() || path <= upper || path.starts_with(upper);
}

bool BoundsInclude(const DeleteFacts& file, std::string_view path, std::string_view canonical_path,
                   const Canonical& canonical) {
  if (BoundsInclude(file.lower_path, file.upper_path, path)) return true;
  const auto in_canonical = [&](const std::string& bound) {
    return bound.empty() ? std::string() : canonical(bound);
  };
  return BoundsInclude(in_canonical(file.lower_path), in_canonical(file.upper_path),
                       canonical_path);
}

// Whether a delete with this sequence number applies to data with that one [Scan Planning].
bool AppliesBySequence(FileContent content, int64_t delete_sequence, int64_t data_sequence) {
  return content == FileContent::kEqualityDeletes ? data_sequence < delete_sequence
                                                  : data_sequence <= delete_sequence;
}

Status CheckOutputClaims(const RewriteCommit& request, int64_t rows_expected) {
  std::set<std::string_view> paths;
  for (const RewriteCommit::Input& input : request.inputs) paths.insert(input.path);
  int64_t rows = 0;
  for (const iceberg::DataFile& output : request.outputs) {
    const std::string& path = output.file_path;
    if (output.content != FileContent::kData || path.empty() || output.file_format != "PARQUET") {
      return Fail(Code::kInternal, "an output is not a Parquet data file", path);
    }
    if (output.record_count <= 0 || output.file_size_in_bytes <= 0) {
      return Fail(Code::kCorrupt,
                  "an output claims " + std::to_string(output.record_count) + " rows in " +
                      std::to_string(output.file_size_in_bytes) + " bytes",
                  path);
    }
    if (!paths.insert(path).second) {
      return Fail(Code::kInternal, "an output is an input or given twice", path);
    }
    if (__builtin_add_overflow(rows, output.record_count, &rows)) {
      return Fail(Code::kCorrupt, "the rows of the outputs overflow", path);
    }
  }
  if (rows != rows_expected) {
    return Fail(Code::kCorrupt, "rows are not conserved: " + std::to_string(rows_expected) +
                                    " must stay, the outputs hold " + std::to_string(rows));
  }
  return {};
}

}  // namespace

Status CheckRewriteClaims(const RewriteCommit& request) {
  if (request.job_id.empty()) return Fail(Code::kInternal, "a commit needs a job id");
  if (request.commit_attempts < 1) return Fail(Code::kInternal, "commit_attempts is not positive");
  if (request.inputs.empty() && (request.removed_deletes.empty() || !request.outputs.empty())) {
    return Fail(Code::kInternal, "a rewrite commit without inputs");
  }
  std::set<std::string_view> paths;
  int64_t rows = 0;
  for (const RewriteCommit::Input& input : request.inputs) {
    if (input.path.empty() || !paths.insert(input.path).second) {
      return Fail(Code::kInternal, "an input is given twice, or has no path", input.path);
    }
    if (input.records < 0 || input.rows_deleted < 0 || input.rows_deleted > input.records) {
      return Fail(Code::kCorrupt,
                  std::to_string(input.rows_deleted) + " rows of " + std::to_string(input.records) +
                      " are said to be deleted",
                  input.path);
    }
    if (__builtin_add_overflow(rows, input.records - input.rows_deleted, &rows)) {
      return Fail(Code::kCorrupt, "the rows of the inputs overflow", input.path);
    }
  }
  return CheckOutputClaims(request, rows);
}

std::string CommitFingerprint(std::string_view job_id, std::span<const std::string> parts) {
  Digest128 sum;
  HashInto(job_id, sum);
  for (const std::string& part : parts) HashInto(part, sum);
  return sum.ToHex();
}

std::string RewriteFingerprint(const RewriteCommit& request) {
  std::vector<std::string> parts;
  for (const RewriteCommit::Input& input : request.inputs) parts.push_back("in " + input.path);
  for (const iceberg::DataFile& file : request.outputs) parts.push_back("out " + file.file_path);
  // Without inputs the deletes are the request; otherwise which of them go is a detail.
  if (request.inputs.empty()) {
    for (const DeleteRef& ref : request.removed_deletes) {
      parts.push_back("del " + std::to_string(ref.content_offset.value_or(-1)) + " " + ref.path);
    }
  }
  return CommitFingerprint(request.job_id, parts);
}

Result<std::vector<const iceberg::Snapshot*>> SnapshotsAfter(const iceberg::TableMetadata& table,
                                                             const iceberg::Snapshot& head,
                                                             int64_t ancestor) {
  std::vector<const iceberg::Snapshot*> after;
  std::unordered_map<int64_t, const iceberg::Snapshot*> by_id;
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    by_id.emplace(snapshot.snapshot_id, &snapshot);
  }
  const std::string planned = "snapshot " + std::to_string(ancestor);
  if (!by_id.contains(ancestor)) {
    return Conflict(planned + ", which the plan was made on, has been expired");
  }
  const iceberg::Snapshot* at = &head;
  // A chain is never longer than there are snapshots: damaged metadata may hold a cycle.
  while (at->snapshot_id != ancestor && after.size() <= table.snapshots.size()) {
    after.push_back(at);
    const auto parent = at->parent_snapshot_id ? by_id.find(*at->parent_snapshot_id) : by_id.end();
    if (parent == by_id.end()) break;
    at = parent->second;
  }
  if (at->snapshot_id != ancestor) {
    return Conflict(planned + ", which the plan was made on, is not an ancestor of snapshot " +
                    std::to_string(head.snapshot_id) + " that the table knows of");
  }
  return after;
}

const iceberg::Snapshot* FindMarked(const iceberg::TableMetadata& table, const CommitMark& mark) {
  // All snapshots, not the branch's alone: one that somebody rolled back still owns its files.
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    const auto job = snapshot.summary.find(std::string(kJobIdKey));
    const auto commit = snapshot.summary.find(std::string(kCommitIdKey));
    if (job == snapshot.summary.end() || commit == snapshot.summary.end()) continue;
    if (job->second == mark.job_id && commit->second == mark.fingerprint) return &snapshot;
  }
  return nullptr;
}

namespace {

// Whether the parents of the head lead to a snapshot that has none: then no other was ever below.
bool IsWholeHistory(const iceberg::TableMetadata& table, const iceberg::Snapshot& head) {
  const iceberg::Snapshot* at = &head;
  for (size_t steps = 0; at != nullptr && steps <= table.snapshots.size(); ++steps) {
    if (!at->parent_snapshot_id) return true;
    at = table.FindSnapshot(*at->parent_snapshot_id);
  }
  return false;
}

}  // namespace

Fate FateOf(const LostAttempt& attempt, const iceberg::TableMetadata& table,
            const std::string& branch) {
  // A sequence number is given once, so a snapshot that takes the attempt's shuts it out for good.
  const bool numbered = table.format_version >= 2;
  if (numbered && table.last_sequence_number < attempt.sequence_number) return Fate::kOpen;
  const iceberg::Snapshot* head = table.RefSnapshot(branch);
  if (head == nullptr) return Fate::kUnknown;
  const bool known = attempt.base_snapshot_id
                         ? SnapshotsAfter(table, *head, *attempt.base_snapshot_id).has_value()
                         : IsWholeHistory(table, *head);
  if (!known) return Fate::kUnknown;
  // Without numbers it could land again after a rollback to its base.
  return numbered ? Fate::kDead : Fate::kOpen;
}

// --- deletes ---------------------------------------------------------------------------------

std::string DeleteFacts::Describe() const {
  if (content_offset >= 0) {
    return "deletion vector " + path + " at " + std::to_string(content_offset);
  }
  return (content == FileContent::kEqualityDeletes ? "equality delete file "
                                                   : "position delete file ") +
         path;
}

bool Unpartitioned(const iceberg::PartitionSpec& spec) {
  return std::ranges::all_of(
      spec.fields, [](const iceberg::PartitionField& field) { return field.transform == "void"; });
}

DeleteFacts MakeDeleteFacts(const iceberg::ManifestEntry& entry,
                            const iceberg::PartitionSpec& spec) {
  const iceberg::DataFile& file = entry.file;
  DeleteFacts facts;
  facts.content = file.content;
  facts.path = file.file_path;
  facts.content_offset = file.content_offset.value_or(-1);
  facts.sequence_number = entry.sequence_number;
  facts.partition = PartitionKey{spec.spec_id, file.partition};
  facts.unpartitioned = Unpartitioned(spec);
  if (file.content != FileContent::kPositionDeletes) return facts;
  facts.referenced = file.referenced_data_file.value_or("");
  for (const auto& [id, bound] : file.lower_bounds) {
    if (id == iceberg::kFilePathFieldId) facts.lower_path = bound;
  }
  for (const auto& [id, bound] : file.upper_bounds) {
    if (id == iceberg::kFilePathFieldId) facts.upper_path = bound;
  }
  // Planners and readers take such a file for one of this path alone, whatever its partition.
  if (facts.referenced.empty() && facts.lower_path == facts.upper_path) {
    facts.referenced = facts.lower_path;
    facts.by_bounds = !facts.referenced.empty();
  }
  return facts;
}

bool PathSet::Add(std::string_view path) {
  spellings_.emplace(path);
  return paths_.insert(canonical_(path)).second;
}

bool PathSet::Contains(std::string_view path) const {
  if (spellings_.contains(path)) return true;
  return !paths_.empty() && paths_.contains(canonical_(path));
}

void InputIndex::Add(std::string_view path, const PartitionKey& partition,
                     int64_t sequence_number) {
  std::string canonical = canonical_(path);
  sequence_by_canonical_.emplace(canonical, sequence_number);
  partitions_[partition].push_back(
      Member{std::string(path), std::move(canonical), sequence_number});
  sequence_min_ = std::min(sequence_min_, sequence_number);
}

bool InputIndex::Reaches(const DeleteFacts& file) const {
  if (size() == 0) return false;
  const auto in_time = [&](const Member& member) {
    return AppliesBySequence(file.content, file.sequence_number, member.sequence_number);
  };
  if (file.content == FileContent::kEqualityDeletes) {
    if (file.unpartitioned) {
      return AppliesBySequence(file.content, file.sequence_number, sequence_min_);
    }
    const auto members = partitions_.find(file.partition);
    return members != partitions_.end() && std::ranges::any_of(members->second, in_time);
  }
  if (!file.referenced.empty()) {
    const auto input = sequence_by_canonical_.find(canonical_(file.referenced));
    if (input != sequence_by_canonical_.end() &&
        AppliesBySequence(file.content, file.sequence_number, input->second)) {
      return true;
    }
    if (!file.by_bounds) return false;
  }
  const auto members = partitions_.find(file.partition);
  if (members == partitions_.end()) return false;
  return std::ranges::any_of(members->second, [&](const Member& member) {
    return in_time(member) && BoundsInclude(file, member.path, member.canonical, canonical_);
  });
}

Status CheckDeleteChanges(const DeleteChanges& changes, const DeleteRules& rules) {
  if constexpr (!guard::kIcebergValidation) return {};
  for (const DeleteFacts& file : changes.added) {
    if (file.content == FileContent::kEqualityDeletes &&
        file.sequence_number > rules.planned_sequence_number &&
        (file.unpartitioned || rules.rows_stay_in(file.partition))) {
      continue;
    }
    return Conflict("a delete that can reach rows of this rewrite was added after the plan",
                    file.Describe());
  }
  for (const DeleteFacts& file : changes.removed) {
    if (rules.removed_by_this_job(file)) continue;
    return Conflict("a delete that could reach an input was removed or replaced after the plan",
                    file.Describe());
  }
  return {};
}

// --- covered deletes ---------------------------------------------------------------------------

void CoveredDeletes::OpenPath(std::string_view path, size_t index) {
  if (inputs_.Contains(path)) return;
  by_path_[std::string(path)].push_back(index);
  std::string canonical = canonical_(path);
  if (canonical != path) by_path_[std::move(canonical)].push_back(index);
  by_path_sequence_max_ = std::max(by_path_sequence_max_, deletes_[index].file.sequence_number);
}

void CoveredDeletes::Add(const DeleteFacts& file, std::span<const std::string> paths) {
  const size_t index = deletes_.size();
  deletes_.push_back(Covered{file, false});
  const DeleteFacts& added = deletes_.back().file;
  const auto widen = [&](Scope& scope) {
    scope.sequence_max = std::max(scope.sequence_max, added.sequence_number);
  };
  if (added.content == FileContent::kEqualityDeletes) {
    widen(added.unpartitioned ? everywhere_ : partitions_[added.partition]);
    return;
  }
  if (!added.referenced.empty()) OpenPath(added.referenced, index);
  for (const std::string& path : paths) OpenPath(path, index);
  if (paths.empty() && (added.referenced.empty() || added.by_bounds)) {
    Scope& scope = partitions_[added.partition];
    widen(scope);
    scope.positional.push_back(index);
  }
}

void CoveredDeletes::NeedByPath(std::string_view path, int64_t sequence_number) {
  const auto need = [&](std::string_view spelling) {
    const auto at = by_path_.find(spelling);
    if (at == by_path_.end()) return false;
    for (const size_t index : at->second) {
      Covered& covered = deletes_[index];
      covered.needed |=
          AppliesBySequence(covered.file.content, covered.file.sequence_number, sequence_number);
    }
    return true;
  };
  if (by_path_.empty() || need(path)) return;
  need(canonical_(path));
}

void CoveredDeletes::Stays(std::string_view path, const PartitionKey& partition,
                           int64_t sequence_number) {
  NeedByPath(path, sequence_number);
  const auto note = [&](Scope& scope) {
    if (!scope.stays_min || sequence_number < *scope.stays_min) scope.stays_min = sequence_number;
  };
  note(everywhere_);
  if (partitions_.empty()) return;
  const auto at = partitions_.find(partition);
  if (at == partitions_.end()) return;
  note(at->second);
  for (const size_t index : at->second.positional) {
    Covered& covered = deletes_[index];
    if (covered.needed || sequence_number > covered.file.sequence_number) continue;
    covered.needed = BoundsInclude(covered.file, path, canonical_(path), canonical_);
  }
}

void CoveredDeletes::Output(const PartitionKey& partition, int64_t sequence_number) {
  const auto note = [&](Scope& scope) {
    if (!scope.stays_min || sequence_number < *scope.stays_min) scope.stays_min = sequence_number;
  };
  note(everywhere_);
  const auto at = partitions_.find(partition);
  if (at != partitions_.end()) note(at->second);
}

bool CoveredDeletes::open() const {
  return !by_path_.empty() || !partitions_.empty() || everywhere_.sequence_max >= 0;
}

bool CoveredDeletes::MayNeed(int64_t min_sequence_number,
                             const std::function<bool(const PartitionKey&)>& may_hold) const {
  if (!by_path_.empty() && min_sequence_number <= by_path_sequence_max_) return true;
  if (min_sequence_number < everywhere_.sequence_max) return true;
  return std::ranges::any_of(partitions_, [&](const auto& scope) {
    return min_sequence_number <= scope.second.sequence_max && may_hold(scope.first);
  });
}

std::vector<DeleteFacts> CoveredDeletes::Removable() const {
  std::vector<DeleteFacts> removable;
  for (const Covered& covered : deletes_) {
    bool needed = covered.needed;
    if (covered.file.content == FileContent::kEqualityDeletes) {
      const Scope& scope =
          covered.file.unpartitioned ? everywhere_ : partitions_.at(covered.file.partition);
      needed = scope.stays_min && *scope.stays_min < covered.file.sequence_number;
    }
    if (!needed) removable.push_back(covered.file);
  }
  return removable;
}

}  // namespace lithify::commit
