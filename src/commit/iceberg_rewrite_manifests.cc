// IcebergCommitter::RewriteManifests: the same files in fewer manifests.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_manifests.h"
#include "commit/iceberg_publish.h"
#include "commit/iceberg_snapshot.h"
#include "commit/iceberg_validation.h"
#include "table/iceberg_snapshot.h"

namespace lithify::commit {
namespace {

using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;

constexpr int kAttempts = 4;
// Entries are sorted in memory: so many manifests of the target size are taken together.
constexpr int64_t kTargetsPerBatch = 8;
// Larger ones nobody could read.
constexpr int64_t kTargetBytesMax = int64_t{1} << 30;

// Some small manifests of one spec and content, and how many shall replace them.
struct Batch {
  int spec_id = 0;
  ManifestContent content = ManifestContent::kData;
  std::vector<size_t> manifests;
  int64_t bytes = 0;
  int64_t outputs = 0;
};

// Worth it only where fewer manifests come out, so that a second run finds nothing to do.
void CloseBatch(Batch batch, int64_t target, std::vector<Batch>& batches) {
  batch.outputs = std::max<int64_t>(1, (batch.bytes + target - 1) / target);
  if (batch.outputs < static_cast<int64_t>(batch.manifests.size())) {
    batches.push_back(std::move(batch));
  }
}

std::vector<Batch> PlanBatches(const std::vector<ManifestFile>& manifests, int64_t target,
                               std::optional<int> spec_id) {
  std::map<std::pair<int, ManifestContent>, Batch> open;
  std::vector<Batch> batches;
  for (size_t i = 0; i < manifests.size(); ++i) {
    const ManifestFile& manifest = manifests[i];
    if (spec_id && manifest.partition_spec_id != *spec_id) continue;
    if (!table::HasLiveFiles(manifest) || manifest.manifest_length >= target / 4 * 3) continue;
    Batch& batch = open[{manifest.partition_spec_id, manifest.content}];
    if (batch.bytes + manifest.manifest_length > target * kTargetsPerBatch) {
      CloseBatch(std::exchange(batch, Batch{}), target, batches);
    }
    batch.spec_id = manifest.partition_spec_id;
    batch.content = manifest.content;
    batch.manifests.push_back(i);
    batch.bytes += std::max<int64_t>(manifest.manifest_length, 1);
  }
  for (auto& [key, batch] : open) CloseBatch(std::move(batch), target, batches);
  return batches;
}

bool ByPartition(const ManifestEntry& a, const ManifestEntry& b) {
  const iceberg::PartitionKey key_a{a.file.spec_id, a.file.partition};
  const iceberg::PartitionKey key_b{b.file.spec_id, b.file.partition};
  if (key_a < key_b) return true;
  if (key_b < key_a) return false;
  return std::pair(a.file.file_path, a.file.content_offset) <
         std::pair(b.file.file_path, b.file.content_offset);
}

// A column that was promoted and later dropped has the type of its day in each manifest.
void Widen(std::vector<iceberg::Type>& types, const std::vector<iceberg::Type>& others) {
  for (size_t i = 0; i < types.size() && i < others.size(); ++i) {
    const bool longer =
        types[i].kind == iceberg::TypeKind::kInt && others[i].kind == iceberg::TypeKind::kLong;
    const bool wider = types[i].kind == iceberg::TypeKind::kDecimal &&
                       others[i].kind == iceberg::TypeKind::kDecimal &&
                       types[i].precision < others[i].precision;
    if (longer || wider) types[i] = others[i];
  }
}

// The live entries of a batch, in as many new manifests as it shall have. Returns their number.
Result<int64_t> WriteBatch(const IcebergCommitServices& services,
                           const iceberg::TableMetadata& table,
                           const std::vector<ManifestFile>& manifests, const Batch& batch,
                           SnapshotBuilder& builder, const CancelFlag& cancel) {
  const iceberg::PartitionSpec* spec = table.FindSpec(batch.spec_id);
  if (spec == nullptr) {
    return Fail(Code::kCorrupt, "unknown partition spec",
                manifests[batch.manifests.front()].manifest_path);
  }
  LiveEntries all;
  for (const size_t i : batch.manifests) {
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(LiveEntries live, ReadLiveEntries(services.source(), table, manifests[i]));
    if (all.entries.empty()) all.partition_types = live.partition_types;
    Widen(all.partition_types, live.partition_types);
    std::ranges::move(live.entries, std::back_inserter(all.entries));
  }
  std::ranges::sort(all.entries, ByPartition);
  const auto total = static_cast<int64_t>(all.entries.size());
  const int64_t outputs = std::clamp<int64_t>(batch.outputs, 0, total);
  for (int64_t i = 0; i < outputs; ++i) {
    const auto begin = all.entries.begin() + total * i / outputs;
    const auto end = all.entries.begin() + total * (i + 1) / outputs;
    LiveEntries part{{std::make_move_iterator(begin), std::make_move_iterator(end)},
                     all.partition_types};
    LITHIFY_TRY(builder.AddExisting(std::move(part), *spec, batch.content));
  }
  return total;
}

class ManifestAttempt {
 public:
  ManifestAttempt(IcebergCommitServices& services, const IcebergCommitter::ManifestRewrite& request,
                  const CommitMark& mark, const CancelFlag& cancel)
      : services_(services), request_(request), mark_(mark), cancel_(cancel) {}

  Result<std::optional<Proposal>> Run(const catalog::LoadedTable& loaded, MetadataFiles& files,
                                      int attempt);

 private:
  IcebergCommitServices& services_;
  const IcebergCommitter::ManifestRewrite& request_;
  const CommitMark& mark_;
  const CancelFlag& cancel_;
};

Result<std::optional<Proposal>> ManifestAttempt::Run(const catalog::LoadedTable& loaded,
                                                     MetadataFiles& files, int attempt) {
  const iceberg::TableMetadata& table = loaded.metadata;
  if (table.has_encryption) return Fail(Code::kUnsupported, "the table is encrypted");
  const auto ref = table.refs.find(request_.branch);
  if (ref == table.refs.end() && table.RefSnapshot(request_.branch) == nullptr) return std::nullopt;
  LITHIFY_TRY_ASSIGN(const iceberg::Snapshot* head, BranchHead(table, request_.branch));
  LITHIFY_TRY_ASSIGN(const auto manifests, ManifestsOf(services_.source(), table, *head));
  const std::vector<Batch> batches = PlanBatches(
      manifests, std::min(request_.target_size_bytes, kTargetBytesMax), request_.spec_id);
  if (batches.empty()) return std::nullopt;
  if (request_.before_change) LITHIFY_TRY(request_.before_change());

  SnapshotBuilder builder(services_.source(), table, head, files, services_.random);
  std::vector<bool> replaced(manifests.size(), false);
  int64_t entries = 0;
  int64_t rewritten = 0;
  for (const Batch& batch : batches) {
    for (const size_t i : batch.manifests) replaced[i] = true;
    rewritten += static_cast<int64_t>(batch.manifests.size());
    LITHIFY_TRY_ASSIGN(const int64_t live,
                       WriteBatch(services_, table, manifests, batch, builder, cancel_));
    entries += live;
  }
  for (size_t i = 0; i < manifests.size(); ++i) {
    if (!replaced[i]) LITHIFY_TRY(builder.Keep(manifests[i]));
  }

  SnapshotSummary summary = builder.counts().Build(head->summary);
  summary["manifests-created"] = std::to_string(builder.written());
  summary["manifests-kept"] = std::to_string(builder.kept());
  summary["manifests-replaced"] = std::to_string(rewritten);
  summary["entries-processed"] = std::to_string(entries);
  // Not a compaction of data: table_health must not take it for one (R078).
  AddStamp(SnapshotStamp{request_.job_id, mark_.fingerprint, request_.trigger, request_.principal,
                         /*maintenance_keys=*/false},
           summary);
  Proposal proposal;
  LITHIFY_TRY_ASSIGN(proposal.snapshot,
                     builder.Finish(std::move(summary), services_.clock.Now(), attempt));
  proposal.manifests_kept = builder.kept();
  proposal.manifests_written = builder.written();
  proposal.manifests_replaced = rewritten;
  return proposal;
}

}  // namespace

Result<IcebergCommitter::ManifestRewriteResult> IcebergCommitter::RewriteManifests(
    const ManifestRewrite& request, const CancelFlag& cancel) {
  if (request.job_id.empty()) return Fail(Code::kInternal, "a commit needs a job id");
  if (request.target_size_bytes < 1024) {
    return Fail(Code::kInvalid, "a manifest's target size is at least 1024 bytes");
  }
  const std::vector<std::string> parts = {"rewrite_manifests " + request.branch};
  const CommitMark mark{request.job_id, CommitFingerprint(request.job_id, parts)};
  SnapshotPublisher publisher(services_, request.ident, request.branch, mark, kAttempts);
  ManifestAttempt attempt(services_, request, mark, cancel);
  LITHIFY_TRY_ASSIGN(const CommittedSnapshot committed,
                     publisher.Run([&](const catalog::LoadedTable& loaded, MetadataFiles& files,
                                       int number) { return attempt.Run(loaded, files, number); },
                                   cancel));
  // What is in the table, not what an attempt had in mind.
  if (committed.snapshot_id == 0) return ManifestRewriteResult{};
  return ManifestRewriteResult{.snapshot_id = committed.snapshot_id,
                               .rewritten = committed.manifests_replaced,
                               .added = committed.manifests_written};
}

}  // namespace lithify::commit
