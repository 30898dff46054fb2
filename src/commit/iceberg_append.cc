// IcebergCommitter::CommitAppend: new files on top of the head, nothing else changes.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_manifests.h"
#include "commit/iceberg_new_files.h"
#include "commit/iceberg_publish.h"
#include "commit/iceberg_snapshot.h"
#include "commit/iceberg_validation.h"

namespace lithify::commit {
namespace {

constexpr const char* kLookAgain = "load the table and look again";

Status CheckRequest(const AppendCommit& request) {
  if (request.job_id.empty()) return Fail(Code::kInternal, "a commit needs a job id");
  if (request.files.empty()) return Fail(Code::kInternal, "an append of nothing");
  for (const iceberg::DataFile& file : request.files) {
    if (file.content != iceberg::FileContent::kData) {
      return Fail(Code::kInternal, "an append of deletes", file.file_path);
    }
    if (file.spec_id != request.files.front().spec_id) {
      return Fail(Code::kInternal, "an append to several specs", file.file_path);
    }
    if (file.record_count <= 0 || file.file_size_in_bytes <= 0) {
      return Fail(Code::kInternal, "an append of an empty file", file.file_path);
    }
  }
  return {};
}

std::string HeadText(const std::optional<int64_t>& id) {
  return id ? "snapshot " + std::to_string(*id) : "no snapshot";
}

Status CheckTable(const AppendCommit& request, const iceberg::TableMetadata& table,
                  const iceberg::Snapshot* head) {
  const std::string name = request.ident.ToString();
  LITHIFY_TRY(CheckAsSeen(request.ident, request.table_uuid, request.schema_id, table));
  const auto ref = table.refs.find(request.branch);
  if (ref != table.refs.end() && !ref->second.is_branch) {
    return Fail(Code::kInvalid, "a tag cannot be changed", "ref " + request.branch);
  }
  if (head == nullptr && request.branch != "main") {
    return Fail(Code::kConflict, "there is no branch " + request.branch, name, kLookAgain);
  }
  if (!request.expected) return {};
  std::optional<int64_t> now;
  if (head != nullptr) now = head->snapshot_id;
  if (now == request.expected->snapshot_id) return {};
  return Fail(Code::kConflict,
              "somebody else was first: there was " + HeadText(request.expected->snapshot_id) +
                  ", and there is " + HeadText(now),
              name, kLookAgain);
}

// The totals of a table that has no snapshot, for the first to go on from.
SnapshotSummary NoTotals() {
  return {{"total-data-files", "0"},       {"total-records", "0"},
          {"total-files-size", "0"},       {"total-delete-files", "0"},
          {"total-position-deletes", "0"}, {"total-equality-deletes", "0"}};
}

Result<std::optional<Proposal>> Prepare(IcebergCommitServices& services,
                                        const AppendCommit& request, const CommitMark& mark,
                                        const iceberg::TableMetadata& table, MetadataFiles& files,
                                        int attempt) {
  const iceberg::Snapshot* head = table.RefSnapshot(request.branch);
  LITHIFY_TRY(CheckTable(request, table, head));
  LITHIFY_TRY(CheckNewDataFiles(services.locations, table, request.files));
  SnapshotBuilder builder(services.source(), table, head, files, services.random);
  if (head != nullptr) {
    LITHIFY_TRY_ASSIGN(auto manifests, ManifestsOf(services.source(), table, *head));
    for (iceberg::ManifestFile& manifest : manifests) {
      LITHIFY_TRY(builder.Keep(std::move(manifest)));
    }
  }
  LITHIFY_TRY(builder.AddDataFiles(request.files, *table.FindSpec(request.files.front().spec_id),
                                   std::nullopt));

  SnapshotSummary summary = builder.counts().Build(head == nullptr ? NoTotals() : head->summary);
  summary["manifests-created"] = std::to_string(builder.written());
  summary["manifests-kept"] = std::to_string(builder.kept());
  summary["manifests-replaced"] = "0";
  AddStamp(SnapshotStamp{mark.job_id, mark.fingerprint, request.trigger, request.principal,
                         /*maintenance_keys=*/false},
           summary);
  summary["operation"] = "append";
  Proposal proposal;
  LITHIFY_TRY_ASSIGN(proposal.snapshot,
                     builder.Finish(std::move(summary), services.clock.Now(), attempt));
  proposal.manifests_kept = builder.kept();
  proposal.manifests_written = builder.written();
  return proposal;
}

}  // namespace

Result<CommittedSnapshot> IcebergCommitter::CommitAppend(const AppendCommit& request,
                                                         const CancelFlag& cancel) {
  LITHIFY_TRY(CheckRequest(request));
  std::vector<std::string> parts = {"append " + request.branch};
  for (const iceberg::DataFile& file : request.files) parts.push_back("add " + file.file_path);
  const CommitMark mark{request.job_id, CommitFingerprint(request.job_id, parts)};
  SnapshotPublisher publisher(services_, request.ident, request.branch, mark,
                              request.commit_attempts);
  return publisher.Run(
      [&](const catalog::LoadedTable& loaded, MetadataFiles& files, int attempt) {
        return Prepare(services_, request, mark, loaded.metadata, files, attempt);
      },
      cancel);
}

}  // namespace lithify::commit
