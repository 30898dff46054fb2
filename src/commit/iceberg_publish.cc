#include "commit/iceberg_publish.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "commit/iceberg_guard.h"
#include "table/iceberg_snapshot.h"

namespace lithify::commit {
namespace {

constexpr int kLooks = 6;

// Of attempts on a table that does not change: whatever the catalog refuses them for, it is no
// other writer's commit.
constexpr int kAttemptsHere = 4;
constexpr int kPatience = 3;  // Doublings of the pause.

// Of a snapshot that an earlier attempt or call made, as its summary tells.
CommittedSnapshot FromSummary(const iceberg::Snapshot& snapshot) {
  const auto number = [&](const char* key) {
    const auto at = snapshot.summary.find(key);
    int64_t value = 0;
    if (at != snapshot.summary.end()) {
      std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
    }
    return value;
  };
  CommittedSnapshot committed;
  committed.snapshot_id = snapshot.snapshot_id;
  committed.sequence_number = snapshot.sequence_number;
  committed.manifests_kept = number("manifests-kept");
  committed.manifests_written = number("manifests-created");
  committed.manifests_replaced = number("manifests-replaced");
  committed.delete_files_removed = number("removed-delete-files");
  committed.records_removed = number("deleted-records");
  return committed;
}

}  // namespace

bool IsKnownFailure(Code code) {
  return code == Code::kConflict || code == Code::kTransient || code == Code::kDenied ||
         code == Code::kInvalid || code == Code::kNotFound || code == Code::kUnsupported ||
         code == Code::kCancelled;
}

Error AsRefusal(Error error) {
  if (error.code == Code::kInvalid) error.code = Code::kDenied;
  return error;
}

std::unexpected<Error> NameTakenOver(const catalog::TableIdent& ident) {
  return Fail(Code::kConflict, "another table has this name now", ident.ToString(),
              "see what became of the table");
}

Status CheckAsSeen(const catalog::TableIdent& ident, const std::string& table_uuid, int schema_id,
                   const iceberg::TableMetadata& table) {
  constexpr const char* kLookAgain = "load the table and look again";
  const std::string name = ident.ToString();
  if (table.has_encryption) return Fail(Code::kUnsupported, "the table is encrypted", name);
  if (table_uuid != table.table_uuid) {
    return Fail(Code::kConflict, "another table has the name now", name, kLookAgain);
  }
  if (schema_id != table.current_schema_id) {
    return Fail(Code::kConflict,
                "the schema changed from " + std::to_string(schema_id) + " to " +
                    std::to_string(table.current_schema_id),
                name, kLookAgain);
  }
  return {};
}

void Pause(const IcebergCommitServices& services, int tries) {
  const Duration wait = std::min<Duration>(
      std::chrono::milliseconds(50) * (1 << std::min(tries, 7)), std::chrono::seconds(5));
  if (services.sleep) return services.sleep(wait);
  SystemClock().Sleep(wait);
}

Result<catalog::LoadedTable> LoadPatiently(const IcebergCommitServices& services,
                                           const catalog::TableIdent& ident) {
  for (int tries = 0;; ++tries) {
    auto loaded = services.catalog.LoadTable(ident);
    if (loaded || loaded.error().code != Code::kTransient || tries + 1 == kLooks) return loaded;
    Pause(services, tries);
  }
}

std::vector<table::TableRequirement> BranchRequirements(const iceberg::TableMetadata& table,
                                                        const std::string& branch) {
  const iceberg::Snapshot* head = table.RefSnapshot(branch);
  std::optional<int64_t> head_id;
  if (head != nullptr) head_id = head->snapshot_id;
  return {table::AssertTableUuid{table.table_uuid}, table::AssertRefSnapshotId{branch, head_id},
          table::AssertCurrentSchemaId{table.current_schema_id},
          table::AssertDefaultSpecId{table.default_spec_id},
          table::AssertDefaultSortOrderId{table.default_sort_order_id}};
}

Result<const iceberg::Snapshot*> BranchHead(const iceberg::TableMetadata& table,
                                            const std::string& branch) {
  const auto ref = table.refs.find(branch);
  if (ref != table.refs.end() && !ref->second.is_branch) {
    return Fail(Code::kInvalid, "a tag cannot be changed", "ref " + branch, "name a branch");
  }
  const iceberg::Snapshot* head = table.RefSnapshot(branch);
  if (head == nullptr) {
    return Fail(Code::kConflict, "the branch has no snapshot any more", "ref " + branch,
                "load the table and plan again");
  }
  return head;
}

Result<CommittedSnapshot> SnapshotPublisher::Run(const Prepare& prepare, const CancelFlag& cancel) {
  // Who may not commit is told so rather than what the catalog says to a look.
  LITHIFY_TRY(services_.catalog.MayCommit());
  for (attempt_ = 1;; ++attempt_) {
    LITHIFY_TRY_ASSIGN(const catalog::LoadedTable loaded, Look());
    LITHIFY_TRY(CheckSameTable(loaded.metadata));
    if constexpr (guard::kIcebergUnknownOutcome) {
      if (const iceberg::Snapshot* own = FindMarked(loaded.metadata, mark_)) {
        CommittedSnapshot committed = FromSummary(*own);
        committed.attempts = std::max(attempt_ - 1, 1);
        committed.found_after_unknown = true;
        return committed;
      }
    }
    LITHIFY_TRY(SettleLost(loaded.metadata));
    BelieveRefusals();
    if (attempt_ > 1 && IsFinal(loaded)) return FailKnown(AsRefusal(last_error_));
    if (loaded.metadata_location != base_location_) attempts_here_ = 0;
    if (attempt_ > attempts_ || attempts_here_ == kAttemptsHere) return Exhausted();
    base_location_ = loaded.metadata_location;
    ++attempts_here_;
    LITHIFY_TRY_ASSIGN(const auto done, Attempt(loaded, prepare, cancel));
    if (done) return *done;
    // A table that did not move after a refusal is not contended but locked, perhaps: for longer.
    Pause(services_, attempts_here_ > 1 ? attempt_ + kPatience : attempt_ - 1);
  }
}

// Whether another attempt would end as the last one did.
bool SnapshotPublisher::IsFinal(const catalog::LoadedTable& now) const {
  switch (last_error_.code) {
    case Code::kDenied:
    case Code::kNotFound:
    case Code::kUnsupported: return true;
    // A catalog finds a snapshot wrong whose sequence number or row ids somebody took on another
    // branch meanwhile; on an unchanged table it is wrong in itself.
    case Code::kInvalid: return now.metadata_location == base_location_;
    default: return false;
  }
}

// The newest state. While an attempt's outcome is open, every error is worth another look.
Result<catalog::LoadedTable> SnapshotPublisher::Look() {
  const bool open = doubted_ || !lost_.empty();
  Result<catalog::LoadedTable> loaded = LoadPatiently(services_, ident_);
  const auto dropped = [&] {
    return !loaded && loaded.error().code == Code::kNotFound && lost_.empty() &&
           last_error_.code == Code::kNotFound;
  };
  const auto stopped = [&] { return !loaded && loaded.error().code == Code::kCancelled; };
  for (int tries = 1; !loaded && open && !dropped() && !stopped() && tries < kLooks; ++tries) {
    Pause(services_, tries);
    loaded = services_.catalog.LoadTable(ident_);
  }
  if (loaded) return loaded;
  if (dropped()) BelieveRefusals();
  return FailKnown(std::move(loaded.error()));
}

void SnapshotPublisher::BelieveRefusals() {
  doubted_ = false;
  for (MetadataFiles& files : refused_) files.Remove();
  refused_.clear();
}

// Another table of the same name says nothing of what became of ours, but that ours was not there
// when the catalog refused: that is what a conflict, and a table that is not found, are about.
Status SnapshotPublisher::CheckSameTable(const iceberg::TableMetadata& table) {
  if (table_uuid_.empty()) table_uuid_ = table.table_uuid;  // Version 1 may lack it.
  if (table.table_uuid == table_uuid_) return {};
  const Code code = last_error_.code;
  if (code == Code::kConflict || code == Code::kNotFound) BelieveRefusals();
  return FailKnown(NameTakenOver(ident_).error());
}

// Not found: whether the lost attempts are dead, may still land, or cannot be told.
Status SnapshotPublisher::SettleLost(const iceberg::TableMetadata& table) {
  std::vector<Lost> open;
  bool unknown = false;
  for (Lost& lost : lost_) {
    const Fate fate = FateOf(lost.attempt, table, branch_);
    unknown |= fate == Fate::kUnknown;
    if (fate == Fate::kDead) {
      lost.files.Remove();
    } else {
      open.push_back(std::move(lost));
    }
  }
  lost_ = std::move(open);
  if (!unknown) return {};
  return FailKnown(Error{Code::kConflict,
                         "the table moved on, and the snapshots in between are gone",
                         ident_.ToString(),
                         {}});
}

// An error after which nothing of ours is in the table, unless an earlier attempt may still land or
// a refusal was not looked into.
std::unexpected<Error> SnapshotPublisher::FailKnown(Error error) const {
  if (lost_.empty() && !doubted_) return Fail(std::move(error));
  return Fail(Code::kUnknownOutcome,
              "a commit may or may not be applied: " + last_error_.ToString() +
                  "; what was tried next: " + error.ToString(),
              ident_.ToString(),
              "look for job " + mark_.job_id + " in the snapshots before anything else");
}

std::unexpected<Error> SnapshotPublisher::Exhausted() const {
  Error error = AsRefusal(last_error_);
  if (error.code == Code::kConflict && attempts_here_ > 0) {
    error.message = "the catalog refused " + std::to_string(attempts_here_) +
                    " attempts although the table did not change, the last: " + error.message;
    error.hint = "see in the catalog's log why it refuses";
  } else if (error.code == Code::kConflict) {
    error.message = "lost " + std::to_string(attempt_ - 1) +
                    " attempts against concurrent writers, the last: " + error.message;
    error.hint = "load the table and plan again";
  }
  return FailKnown(std::move(error));
}

Result<std::optional<CommittedSnapshot>> SnapshotPublisher::Attempt(
    const catalog::LoadedTable& loaded, const Prepare& prepare, const CancelFlag& cancel) {
  // What the job has read before is what this state has only if it still is as it was.
  if (services_.cache != nullptr) services_.cache->Recheck();
  MetadataFiles files(services_.source(), loaded.metadata, services_.clock, services_.random);
  const auto prepared = [&]() -> Result<std::optional<Proposal>> {
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(auto proposal, prepare(loaded, files, attempt_));
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY(services_.catalog.MayCommit());
    return proposal;
  }();
  if (!prepared) {
    files.Remove();
    return FailKnown(prepared.error());
  }
  if (!*prepared) {
    files.Remove();
    return std::optional(CommittedSnapshot{.attempts = attempt_});
  }
  return Send(loaded, **prepared, std::move(files));
}

Result<std::optional<CommittedSnapshot>> SnapshotPublisher::Send(const catalog::LoadedTable& loaded,
                                                                 const Proposal& proposal,
                                                                 MetadataFiles files) {
  const iceberg::TableMetadata& table = loaded.metadata;
  iceberg::SnapshotRef ref;
  if (const auto at = table.refs.find(branch_); at != table.refs.end()) ref = at->second;
  ref.snapshot_id = proposal.snapshot.snapshot_id;
  const auto requirements = BranchRequirements(table, branch_);
  const std::vector<table::TableUpdate> updates = {table::AddSnapshot{proposal.snapshot},
                                                   table::SetSnapshotRef{branch_, ref}};
  auto now = services_.catalog.CommitTable(ident_, requirements, updates);
  if (now && now->metadata.FindSnapshot(proposal.snapshot.snapshot_id) != nullptr) {
    LITHIFY_TRY_ASSIGN(CommittedSnapshot committed, Confirm(*now, proposal));
    return std::optional(committed);
  }
  last_error_ = now ? Error{Code::kUnknownOutcome,
                            "the catalog's answer does not show the new snapshot",
                            ident_.ToString(),
                            {}}
                    : std::move(now.error());
  const Code code = last_error_.code;
  const bool unsent = code == Code::kTransient || code == Code::kCancelled;
  if (unsent || (IsKnownFailure(code) && services_.catalog.AnswersOnce())) {
    files.Remove();
    return std::nullopt;
  }
  if (IsKnownFailure(code) || !guard::kIcebergUnknownOutcome) {
    doubted_ = guard::kIcebergUnknownOutcome;
    refused_.push_back(std::move(files));
    return std::nullopt;
  }
  lost_.push_back(
      Lost{LostAttempt{proposal.snapshot.parent_snapshot_id, proposal.snapshot.sequence_number},
           std::move(files)});
  return std::nullopt;
}

// It is committed: whatever is found wrong now, nothing may be cleaned up.
Result<CommittedSnapshot> SnapshotPublisher::Confirm(const catalog::LoadedTable& now,
                                                     const Proposal& proposal) {
  const iceberg::Snapshot& snapshot = proposal.snapshot;
  const auto wrong = [&](const std::string& what) {
    return Fail(Code::kUnknownOutcome,
                "snapshot " + std::to_string(snapshot.snapshot_id) + " is committed, but " + what,
                ident_.ToString(), "keep all files; look at the table before anything else");
  };
  const iceberg::Snapshot* found = now.metadata.FindSnapshot(snapshot.snapshot_id);
  if (found->manifest_list != snapshot.manifest_list ||
      found->sequence_number != snapshot.sequence_number) {
    return wrong("the catalog shows it with another manifest list or sequence number");
  }
  if (services_.cache != nullptr) services_.cache->Recheck();
  const auto manifests = table::SnapshotManifests(services_.source(), now.metadata, *found);
  if (!manifests) return wrong("it cannot be read: " + manifests.error().ToString());
  const auto listed = static_cast<int64_t>(manifests->size());
  if (listed != proposal.manifests_kept + proposal.manifests_written) {
    return wrong("its list has " + std::to_string(listed) + " manifests");
  }
  CommittedSnapshot committed;
  committed.snapshot_id = snapshot.snapshot_id;
  committed.sequence_number = snapshot.sequence_number;
  committed.attempts = attempt_;
  committed.manifests_kept = proposal.manifests_kept;
  committed.manifests_written = proposal.manifests_written;
  committed.manifests_replaced = proposal.manifests_replaced;
  committed.delete_files_removed = proposal.delete_files_removed;
  committed.records_removed = FromSummary(snapshot).records_removed;
  return committed;
}

}  // namespace lithify::commit
