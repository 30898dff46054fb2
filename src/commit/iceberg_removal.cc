// IcebergCommitter::CommitRemoval: whole data files of a table of our own leave it.
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

Result<std::optional<Proposal>> Prepare(IcebergCommitServices& services,
                                        const RemovalCommit& request, const CommitMark& mark,
                                        const iceberg::TableMetadata& table, MetadataFiles& files,
                                        int attempt, const CancelFlag& cancel) {
  LITHIFY_TRY(CheckAsSeen(request.ident, request.table_uuid, request.schema_id, table));
  LITHIFY_TRY_ASSIGN(const iceberg::Snapshot* head, BranchHead(table, request.branch));
  LITHIFY_TRY_ASSIGN(auto manifests, ManifestsOf(services.source(), table, *head));
  const auto leaves = [&](const ManifestEntry& entry) { return request.leaves(entry.file); };
  const table::ManifestReadOptions bounds{
      .metrics = false, .live_only = true, .bounds_of = request.bounds_of};
  std::vector<bool> changes(manifests.size(), false);
  bool any = false;
  for (size_t i = 0; i < manifests.size(); ++i) {
    LITHIFY_TRY(cancel.Check());
    if (manifests[i].content != ManifestContent::kData || !table::HasLiveFiles(manifests[i]))
      continue;
    LITHIFY_TRY(ForEachEntry(services.source(), table, manifests[i], bounds,
                             [&](ManifestEntry&& entry) -> Status {
                               if (leaves(entry)) changes[i] = any = true;
                               return {};
                             }));
  }
  if (!any) return std::nullopt;

  SnapshotBuilder builder(services.source(), table, head, files, services.random);
  int64_t replaced = 0;
  for (size_t i = 0; i < manifests.size(); ++i) {
    if (!changes[i]) {
      LITHIFY_TRY(builder.Keep(std::move(manifests[i])));
      continue;
    }
    LITHIFY_TRY(builder.Rewrite(manifests[i], leaves));
    ++replaced;
  }
  SnapshotSummary summary = builder.counts().Build(head->summary);
  summary["manifests-created"] = std::to_string(builder.written());
  summary["manifests-kept"] = std::to_string(builder.kept());
  summary["manifests-replaced"] = std::to_string(replaced);
  AddStamp(SnapshotStamp{mark.job_id, mark.fingerprint, request.trigger, request.principal,
                         /*maintenance_keys=*/false},
           summary);
  summary["operation"] = "delete";
  Proposal proposal;
  LITHIFY_TRY_ASSIGN(proposal.snapshot,
                     builder.Finish(std::move(summary), services.clock.Now(), attempt));
  proposal.manifests_kept = builder.kept();
  proposal.manifests_written = builder.written();
  proposal.manifests_replaced = replaced;
  return proposal;
}

}  // namespace

Result<CommittedSnapshot> IcebergCommitter::CommitRemoval(const RemovalCommit& request,
                                                          const CancelFlag& cancel) {
  if (request.job_id.empty()) return Fail(Code::kInternal, "a commit needs a job id");
  if (!request.leaves) return Fail(Code::kInternal, "a removal without a rule");
  const std::vector<std::string> parts = {"remove from " + request.branch};
  const CommitMark mark{request.job_id, CommitFingerprint(request.job_id, parts)};
  SnapshotPublisher publisher(services_, request.ident, request.branch, mark,
                              request.commit_attempts);
  return publisher.Run(
      [&](const catalog::LoadedTable& loaded, MetadataFiles& files, int attempt) {
        return Prepare(services_, request, mark, loaded.metadata, files, attempt, cancel);
      },
      cancel);
}

}  // namespace lithify::commit
