// IcebergCommitter::CommitRewrite: what is read, in which order, and what is written.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_guard.h"
#include "commit/iceberg_manifests.h"
#include "commit/iceberg_new_files.h"
#include "commit/iceberg_publish.h"
#include "commit/iceberg_snapshot.h"
#include "commit/iceberg_validation.h"
#include "table/iceberg_snapshot.h"
#include "table/iceberg_value.h"

namespace lithify::commit {
namespace {

using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::PartitionKey;

constexpr std::string_view kPlanAgain = "load the table and plan again";

const table::ManifestReadOptions kLivePaths{.metrics = false, .live_only = true, .bounds_of = {}};
const table::ManifestReadOptions kLiveDeletes{
    .metrics = false, .live_only = true, .bounds_of = {iceberg::kFilePathFieldId}};
const table::ManifestReadOptions kAllPaths{.metrics = false, .live_only = false, .bounds_of = {}};

Canonical CanonicalBy(storage::Locations& locations) {
  return [&locations](std::string_view location) {
    auto canonical = locations.Canonical(location);
    return canonical ? std::move(*canonical) : std::string(location);
  };
}

// One attempt: validates a request on one state of the table and writes the new snapshot's files.
class RewriteAttempt {
 public:
  RewriteAttempt(IcebergCommitServices& services, const RewriteCommit& request,
                 const std::string& fingerprint, const catalog::LoadedTable& loaded,
                 MetadataFiles& files, const CancelFlag& cancel)
      : services_(services),
        request_(request),
        fingerprint_(fingerprint),
        table_(loaded.metadata),
        files_(files),
        cancel_(cancel),
        canonical_(CanonicalBy(services.locations)),
        input_paths_(canonical_),
        index_(canonical_),
        covered_(input_paths_, canonical_) {
    for (const iceberg::DataFile& output : request_.outputs) outputs_.insert(output.file_path);
  }

  Result<std::optional<Proposal>> Run(int attempt) {
    Status checked = CheckTable();
    if (checked) checked = ReadLists();
    if (!checked) return Fail(UnlessCommittedBefore(std::move(checked.error())));
    LITHIFY_TRY(FindCoveredDeletes());
    LITHIFY_TRY(FindInputs());
    LITHIFY_TRY(CheckInputsWerePlanned());
    LITHIFY_TRY(CheckDeletes());
    LITHIFY_TRY(CheckNewDataFiles(services_.locations, table_, request_.outputs));
    return Produce(attempt);
  }

 private:
  struct Found {
    PartitionKey partition;
    int64_t sequence_number = 0;
    size_t manifest = 0;  // Index into head_.
  };

  std::unexpected<Error> Conflict(std::string message, std::string context = {}) const {
    return Fail(Code::kConflict, std::move(message), std::move(context), std::string(kPlanAgain));
  }

  Status CheckTable();
  Error UnlessCommittedBefore(Error conflict);
  Status CheckNotOutput(std::string_view path) const;
  Result<std::vector<ManifestFile>> Manifests(const iceberg::Snapshot& snapshot);
  Status ReadLists();
  Status FindCoveredDeletes();
  bool MayMatter(const ManifestFile& manifest) const;
  Status FindInputs();
  Status VisitLive(size_t manifest, ManifestEntry&& entry);
  Status CheckInputsWerePlanned();
  Result<DeleteChanges> ChangedDeletes();
  bool ReachesArrivals(const DeleteFacts& facts) const;
  Status ReadReaching(const ManifestFile& manifest,
                      const std::function<void(DeleteFacts&&)>& visit);
  Result<std::set<DeleteFacts::Key>> RemovedByThisJob();
  Status CheckDeletes();
  Result<std::optional<Proposal>> Produce(int attempt);
  Status RewriteManifestsOf(SnapshotBuilder& builder);

  IcebergCommitServices& services_;
  const RewriteCommit& request_;
  const std::string& fingerprint_;
  const iceberg::TableMetadata& table_;
  MetadataFiles& files_;
  const CancelFlag& cancel_;
  Canonical canonical_;

  const iceberg::Snapshot* head_snapshot_ = nullptr;
  const iceberg::Snapshot* planned_snapshot_ = nullptr;
  std::vector<const iceberg::Snapshot*> after_;  // Newer than the planned one, newest first.
  std::vector<ManifestFile> head_;
  std::vector<ManifestFile> planned_;
  std::unordered_set<std::string_view> head_paths_;
  std::unordered_set<std::string_view> planned_paths_;

  PathSet input_paths_;
  std::unordered_map<std::string_view, const RewriteCommit::Input*> inputs_;
  std::set<PartitionKey> output_partitions_;
  // Unset: not known of every input.
  std::optional<std::set<PartitionKey>> input_partitions_ = std::set<PartitionKey>();
  std::unordered_set<std::string_view> outputs_;
  std::unordered_map<std::string_view, Found> found_;
  InputIndex index_;
  PartitionBalance balance_;
  CoveredDeletes covered_;
  std::map<DeleteFacts::Key, size_t> covered_manifest_;  // Index into head_.
};

Status RewriteAttempt::CheckTable() {
  if (table_.has_encryption) {
    return Fail(Code::kUnsupported, "the table is encrypted", request_.ident.ToString());
  }
  if (!request_.table_uuid.empty() && request_.table_uuid != table_.table_uuid) {
    return Conflict("another table has the name now", request_.ident.ToString());
  }
  LITHIFY_TRY_ASSIGN(head_snapshot_, BranchHead(table_, request_.branch));
  if (request_.format_version != 0 && request_.format_version != table_.format_version) {
    return Conflict("the format version changed from " + std::to_string(request_.format_version) +
                    " to " + std::to_string(table_.format_version) + " after the plan");
  }
  if (request_.schema_id != table_.current_schema_id) {
    return Conflict("the schema changed from " + std::to_string(request_.schema_id) + " to " +
                    std::to_string(table_.current_schema_id) + " after the plan");
  }
  if (request_.default_spec_id && *request_.default_spec_id != table_.default_spec_id) {
    return Conflict("the partition spec changed from " + std::to_string(*request_.default_spec_id) +
                    " to " + std::to_string(table_.default_spec_id) + " after the plan");
  }
  LITHIFY_TRY_ASSIGN(after_, SnapshotsAfter(table_, *head_snapshot_, request_.planned_snapshot_id));
  planned_snapshot_ = table_.FindSnapshot(request_.planned_snapshot_id);
  // Less, and deletes that were applied would apply again, to rows that came after them; more, and
  // deletes that came since would not.
  if (planned_snapshot_->sequence_number != request_.planned_sequence_number) {
    return Fail(Code::kInternal, "the planned snapshot has sequence number " +
                                     std::to_string(planned_snapshot_->sequence_number) + ", not " +
                                     std::to_string(request_.planned_sequence_number));
  }
  return {};
}

// An output that is live shows that this request was committed once, and that its snapshot has
// expired since: whoever took that for a failure would remove live files.
Status RewriteAttempt::CheckNotOutput(std::string_view path) const {
  if (!outputs_.contains(path)) return {};
  return Fail(Code::kUnknownOutcome, "an output is in the table already", std::string(path),
              "keep all files; the snapshot that added it has expired");
}

// The conflict, unless it is the trace of our own success.
Error RewriteAttempt::UnlessCommittedBefore(Error conflict) {
  if (conflict.code != Code::kConflict || head_snapshot_ == nullptr) return conflict;
  const auto manifests = Manifests(*head_snapshot_);
  if (!manifests) return manifests.error();
  const auto visit = [&](ManifestEntry&& entry) { return CheckNotOutput(entry.file.file_path); };
  for (const ManifestFile& manifest : *manifests) {
    if (manifest.content != ManifestContent::kData || !table::HasLiveFiles(manifest)) continue;
    const auto may_hold = [&](const iceberg::DataFile& output) {
      return MayHold(table_, manifest, PartitionKey{output.spec_id, output.partition});
    };
    if (std::ranges::none_of(request_.outputs, may_hold)) continue;
    Status read = ForEachEntry(services_.source(), table_, manifest, kLivePaths, visit);
    if (!read) return std::move(read.error());
  }
  return conflict;
}

Result<std::vector<ManifestFile>> RewriteAttempt::Manifests(const iceberg::Snapshot& snapshot) {
  return ManifestsOf(services_.source(), table_, snapshot);
}

Status RewriteAttempt::ReadLists() {
  LITHIFY_TRY_ASSIGN(head_, Manifests(*head_snapshot_));
  if (after_.empty()) {
    planned_ = head_;
  } else {
    LITHIFY_TRY_ASSIGN(planned_, Manifests(*planned_snapshot_));
  }
  for (const ManifestFile& manifest : head_) {
    if (!head_paths_.insert(manifest.manifest_path).second) {
      return Fail(Code::kCorrupt, "a manifest is listed twice", manifest.manifest_path);
    }
  }
  for (const ManifestFile& manifest : planned_) planned_paths_.insert(manifest.manifest_path);
  for (const RewriteCommit::Input& input : request_.inputs) {
    input_paths_.Add(input.path);
    inputs_.emplace(input.path, &input);
    if (!input.partition) input_partitions_.reset();
    if (input_partitions_) input_partitions_->insert(*input.partition);
  }
  for (const iceberg::DataFile& output : request_.outputs) {
    const PartitionKey partition{output.spec_id, output.partition};
    output_partitions_.insert(partition);
    balance_.In(partition, output.record_count);
  }
  return {};
}

// Those covered deletes that the head has. What is gone was removed by somebody else, which the
// check of changed deletes judges.
Status RewriteAttempt::FindCoveredDeletes() {
  std::map<DeleteFacts::Key, const DeleteRef*> wanted;
  for (const DeleteRef& ref : request_.removed_deletes) {
    wanted.emplace(DeleteFacts::Key{ref.path, ref.content_offset.value_or(-1)}, &ref);
  }
  for (size_t i = 0; i < head_.size() && !wanted.empty(); ++i) {
    if (head_[i].content != ManifestContent::kDeletes || !table::HasLiveFiles(head_[i])) continue;
    const iceberg::PartitionSpec* spec = table_.FindSpec(head_[i].partition_spec_id);
    if (spec == nullptr) {
      return Fail(Code::kCorrupt, "unknown partition spec", head_[i].manifest_path);
    }
    const auto visit = [&](ManifestEntry&& entry) -> Status {
      DeleteFacts facts = MakeDeleteFacts(entry, *spec);
      const auto at = wanted.find(facts.key());
      if (at == wanted.end()) return {};
      covered_manifest_.emplace(facts.key(), i);
      covered_.Add(facts, at->second->paths);
      wanted.erase(at);
      return {};
    };
    LITHIFY_TRY(ForEachEntry(services_.source(), table_, head_[i], kLiveDeletes, visit));
  }
  for (const iceberg::DataFile& output : request_.outputs) {
    covered_.Output(PartitionKey{output.spec_id, output.partition},
                    request_.planned_sequence_number);
  }
  return {};
}

// Whether a data manifest of the head can hold an input, an output that must not be there, or a
// file that needs a covered delete.
bool RewriteAttempt::MayMatter(const ManifestFile& manifest) const {
  if (manifest.content != ManifestContent::kData || !table::HasLiveFiles(manifest)) return false;
  const auto may_hold = [&](const PartitionKey& partition) {
    return MayHold(table_, manifest, partition);
  };
  if (covered_.open() && covered_.MayNeed(manifest.min_sequence_number, may_hold)) return true;
  return !input_partitions_ || std::ranges::any_of(*input_partitions_, may_hold) ||
         std::ranges::any_of(output_partitions_, may_hold);
}

Status RewriteAttempt::FindInputs() {
  for (size_t i = 0; i < head_.size(); ++i) {
    LITHIFY_TRY(cancel_.Check());
    if (!MayMatter(head_[i])) continue;
    LITHIFY_TRY(
        ForEachEntry(services_.source(), table_, head_[i], kLivePaths,
                     [&](ManifestEntry&& entry) { return VisitLive(i, std::move(entry)); }));
  }
  if constexpr (!guard::kIcebergInputsLive) return {};
  for (const RewriteCommit::Input& input : request_.inputs) {
    if (!found_.contains(input.path)) return Conflict("an input is not live any more", input.path);
  }
  return {};
}

Status RewriteAttempt::VisitLive(size_t manifest, ManifestEntry&& entry) {
  const iceberg::DataFile& file = entry.file;
  const auto input = inputs_.find(file.file_path);
  if (input == inputs_.end()) {
    LITHIFY_TRY(CheckNotOutput(file.file_path));
    if (!covered_.open()) return {};
    covered_.Stays(file.file_path, PartitionKey{head_[manifest].partition_spec_id, file.partition},
                   entry.sequence_number);
    return {};
  }
  const PartitionKey partition{head_[manifest].partition_spec_id, file.partition};
  const RewriteCommit::Input& claim = *input->second;
  if (claim.records != file.record_count) {
    return Fail(Code::kCorrupt,
                "the table says " + std::to_string(file.record_count) + " rows, " +
                    std::to_string(claim.records) + " were read",
                file.file_path);
  }
  if (!found_.emplace(claim.path, Found{partition, entry.sequence_number, manifest}).second) {
    return Fail(Code::kUnsupported, "a data file is in the table twice", file.file_path,
                "remove one of its entries with the engine that made them");
  }
  index_.Add(claim.path, partition, entry.sequence_number);
  balance_.Out(partition, claim.records - claim.rows_deleted);
  return {};
}

// The inputs of today are those of the plan, not files of the same name that were added again.
Status RewriteAttempt::CheckInputsWerePlanned() {
  std::unordered_map<std::string_view, const Found*> open;
  for (const auto& [path, found] : found_) {
    if (!planned_paths_.contains(head_[found.manifest].manifest_path)) open.emplace(path, &found);
  }
  const auto visit = [&](ManifestEntry&& entry) -> Status {
    const auto at = open.find(entry.file.file_path);
    if (at == open.end()) return {};
    if (entry.sequence_number != at->second->sequence_number) {
      return Conflict("an input was removed and added again after the plan", entry.file.file_path);
    }
    open.erase(at);
    return {};
  };
  for (const ManifestFile& manifest : planned_) {
    if (open.empty()) break;
    if (manifest.content != ManifestContent::kData || !table::HasLiveFiles(manifest)) continue;
    if (head_paths_.contains(manifest.manifest_path)) continue;
    LITHIFY_TRY(ForEachEntry(services_.source(), table_, manifest, kLivePaths, visit));
  }
  if (open.empty()) return {};
  return Conflict("an input was not live in the planned snapshot",
                  std::string(open.begin()->first));
}

// --- deletes -----------------------------------------------------------------------------------

// Rows that come from another partition meet the equality deletes of their new one, which were
// never meant for them (I1): a new one there matters, whether it reaches an input or not.
bool RewriteAttempt::ReachesArrivals(const DeleteFacts& facts) const {
  if constexpr (!guard::kIcebergArrivals) return false;
  return facts.content == iceberg::FileContent::kEqualityDeletes && !facts.unpartitioned &&
         facts.sequence_number > request_.planned_sequence_number &&
         output_partitions_.contains(facts.partition) && !balance_.StaysIn(facts.partition);
}

Status RewriteAttempt::ReadReaching(const ManifestFile& manifest,
                                    const std::function<void(DeleteFacts&&)>& visit) {
  const iceberg::PartitionSpec* spec = table_.FindSpec(manifest.partition_spec_id);
  if (spec == nullptr) {
    return Fail(Code::kCorrupt, "unknown partition spec", manifest.manifest_path);
  }
  return ForEachEntry(services_.source(), table_, manifest, kLiveDeletes,
                      [&](ManifestEntry&& entry) -> Status {
                        DeleteFacts facts = MakeDeleteFacts(entry, *spec);
                        if (index_.Reaches(facts) || ReachesArrivals(facts))
                          visit(std::move(facts));
                        return {};
                      });
}

// What differs between the planned snapshot and the head, of the deletes that reach a row of ours.
// A manifest that both list says the same in both.
Result<DeleteChanges> RewriteAttempt::ChangedDeletes() {
  using Version = std::pair<DeleteFacts::Key, int64_t>;
  std::map<Version, DeleteFacts> before;
  DeleteChanges changes;
  const auto differs = [&](const ManifestFile& manifest,
                           const std::unordered_set<std::string_view>& others) {
    return manifest.content == ManifestContent::kDeletes && table::HasLiveFiles(manifest) &&
           !others.contains(manifest.manifest_path);
  };
  for (const ManifestFile& manifest : planned_) {
    if (!differs(manifest, head_paths_)) continue;
    LITHIFY_TRY(ReadReaching(manifest, [&](DeleteFacts&& facts) {
      Version version{facts.key(), facts.sequence_number};
      before.insert_or_assign(std::move(version), std::move(facts));
    }));
  }
  for (const ManifestFile& manifest : head_) {
    if (!differs(manifest, planned_paths_)) continue;
    LITHIFY_TRY(ReadReaching(manifest, [&](DeleteFacts&& facts) {
      if (before.erase(Version{facts.key(), facts.sequence_number}) > 0) return;
      changes.added.push_back(std::move(facts));
    }));
  }
  for (auto& [version, facts] : before) changes.removed.push_back(std::move(facts));
  return changes;
}

// Deletes that earlier commits of this job removed: they had checked that no live file needs them.
Result<std::set<DeleteFacts::Key>> RewriteAttempt::RemovedByThisJob() {
  std::set<DeleteFacts::Key> removed;
  for (const iceberg::Snapshot* snapshot : after_) {
    const auto job = snapshot->summary.find(std::string(kJobIdKey));
    if (job == snapshot->summary.end() || job->second != request_.job_id) continue;
    LITHIFY_TRY_ASSIGN(const auto manifests, Manifests(*snapshot));
    const auto visit = [&](ManifestEntry&& entry) -> Status {
      if (entry.status == iceberg::EntryStatus::kDeleted &&
          entry.snapshot_id == snapshot->snapshot_id) {
        removed.emplace(entry.file.file_path, entry.file.content_offset.value_or(-1));
      }
      return {};
    };
    for (const ManifestFile& manifest : manifests) {
      if (manifest.content != ManifestContent::kDeletes ||
          manifest.added_snapshot_id != snapshot->snapshot_id) {
        continue;
      }
      LITHIFY_TRY(ForEachEntry(services_.source(), table_, manifest, kAllPaths, visit));
    }
  }
  return removed;
}

Status RewriteAttempt::CheckDeletes() {
  LITHIFY_TRY_ASSIGN(const DeleteChanges changes, ChangedDeletes());
  std::set<DeleteFacts::Key> own;
  if (!changes.removed.empty()) {
    LITHIFY_TRY_ASSIGN(own, RemovedByThisJob());
  }
  DeleteRules rules;
  rules.planned_sequence_number = request_.planned_sequence_number;
  rules.rows_stay_in = [&](const PartitionKey& partition) { return balance_.StaysIn(partition); };
  rules.removed_by_this_job = [&](const DeleteFacts& facts) { return own.contains(facts.key()); };
  return CheckDeleteChanges(changes, rules);
}

// --- the new snapshot ----------------------------------------------------------------------------

Status RewriteAttempt::RewriteManifestsOf(SnapshotBuilder& builder) {
  std::vector<int64_t> expected(head_.size(), 0);
  for (const auto& [path, found] : found_) ++expected[found.manifest];
  std::set<DeleteFacts::Key> removable;
  for (const DeleteFacts& facts : covered_.Removable()) {
    ++expected[covered_manifest_.at(facts.key())];
    removable.insert(facts.key());
  }
  const auto is_removed = [&](const ManifestEntry& entry) {
    if (entry.file.content == iceberg::FileContent::kData) {
      return found_.contains(entry.file.file_path);
    }
    return removable.contains(
        DeleteFacts::Key{entry.file.file_path, entry.file.content_offset.value_or(-1)});
  };
  for (size_t i = 0; i < head_.size(); ++i) {
    LITHIFY_TRY(cancel_.Check());
    if (expected[i] == 0) {
      LITHIFY_TRY(builder.Keep(head_[i]));
      continue;
    }
    LITHIFY_TRY_ASSIGN(const int64_t removed, builder.Rewrite(head_[i], is_removed));
    if (removed != expected[i]) {
      return Fail(Code::kCorrupt,
                  std::to_string(removed) + " entries would be removed instead of " +
                      std::to_string(expected[i]),
                  head_[i].manifest_path);
    }
  }
  return {};
}

Result<std::optional<Proposal>> RewriteAttempt::Produce(int attempt) {
  if (request_.inputs.empty() && covered_.Removable().empty()) return std::nullopt;
  SnapshotBuilder builder(services_.source(), table_, head_snapshot_, files_, services_.random);
  std::map<int, std::vector<iceberg::DataFile>> by_spec;
  for (const iceberg::DataFile& output : request_.outputs)
    by_spec[output.spec_id].push_back(output);
  std::optional<int64_t> sequence_number = request_.planned_sequence_number;
  if constexpr (!guard::kIcebergSequencePin) sequence_number.reset();
  LITHIFY_TRY(RewriteManifestsOf(builder));
  const int64_t replaced = builder.written();
  for (const auto& [spec_id, outputs] : by_spec) {
    LITHIFY_TRY(builder.AddDataFiles(outputs, *table_.FindSpec(spec_id), sequence_number));
  }

  SnapshotSummary summary = builder.counts().Build(head_snapshot_->summary);
  summary["manifests-created"] = std::to_string(builder.written());
  summary["manifests-kept"] = std::to_string(builder.kept());
  summary["manifests-replaced"] = std::to_string(replaced);
  AddStamp(SnapshotStamp{.job_id = request_.job_id,
                         .fingerprint = fingerprint_,
                         .trigger = request_.trigger,
                         .principal = request_.principal,
                         .summary = request_.summary},
           summary);
  Proposal proposal;
  LITHIFY_TRY_ASSIGN(proposal.snapshot,
                     builder.Finish(std::move(summary), services_.clock.Now(), attempt));
  proposal.manifests_kept = builder.kept();
  proposal.manifests_written = builder.written();
  proposal.manifests_replaced = replaced;
  proposal.delete_files_removed = builder.counts().removed_delete_files();
  return proposal;
}

}  // namespace

Result<CommittedSnapshot> IcebergCommitter::CommitRewrite(const RewriteCommit& request,
                                                          const CancelFlag& cancel) {
  LITHIFY_TRY(CheckRewriteClaims(request));
  const std::string fingerprint = RewriteFingerprint(request);
  SnapshotPublisher publisher(services_, request.ident, request.branch,
                              CommitMark{request.job_id, fingerprint}, request.commit_attempts);
  return publisher.Run(
      [&](const catalog::LoadedTable& loaded, MetadataFiles& files, int attempt) {
        return RewriteAttempt(services_, request, fingerprint, loaded, files, cancel).Run(attempt);
      },
      cancel);
}

}  // namespace lithify::commit
