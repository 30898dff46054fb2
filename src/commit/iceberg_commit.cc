// Changes that make no new snapshot: expiry and rollback.
#include "commit/iceberg_commit.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "commit/iceberg_publish.h"
#include "commit/iceberg_validation.h"

namespace lithify::commit {
namespace {

constexpr int kAttempts = 4;

// What a look at the table says of a change that makes no snapshot.
enum class Shown { kDone, kNotDone, kOverrun };

struct PlainChange {
  const catalog::TableIdent& ident;
  std::string table_uuid;
  std::vector<table::TableRequirement> requirements;
  std::vector<table::TableUpdate> updates;
  std::function<Shown(const catalog::LoadedTable&)> look;
};

// Commits; after a lost reply looks whether it was applied, and sends the same change again if not:
// its requirements make it harmless to land twice. A refusal, too, is believed only after a look.
Result<catalog::LoadedTable> CommitPlain(const IcebergCommitServices& services,
                                         const PlainChange& change) {
  std::optional<Error> lost;
  for (int attempt = 1;; ++attempt) {
    if (Status may = services.catalog.MayCommit(); !may) {
      if (!lost) return Fail(std::move(may.error()));
      return Fail(Code::kUnknownOutcome,
                  "a change may or may not be applied: " + lost->ToString() +
                      "; what was tried next: " + may.error().ToString(),
                  change.ident.ToString(), "look at the table before anything else");
    }
    auto done = services.catalog.CommitTable(change.ident, change.requirements, change.updates);
    if (done) return done;
    const Code code = done.error().code;
    if (!IsKnownFailure(code)) lost = done.error();
    if (!lost && code == Code::kTransient) {
      if (attempt == kAttempts) return done;
      Pause(services, attempt - 1);
      continue;
    }
    if (!lost && code == Code::kCancelled) return done;  // Not sent, and nobody is asked any more.
    const auto refused = [&] { return Fail(AsRefusal(done.error())); };
    if (!lost && services.catalog.AnswersOnce()) return refused();
    Pause(services, attempt - 1);
    auto now = LoadPatiently(services, change.ident);
    const auto fail_unknown = [&](const std::string& why) {
      const Error& first = lost ? *lost : done.error();
      return Fail(Code::kUnknownOutcome,
                  "a change may or may not be applied: " + first.ToString() + "; " + why,
                  change.ident.ToString(), "look at the table before anything else");
    };
    if (!now) {
      const bool dropped = code == Code::kNotFound && now.error().code == Code::kNotFound;
      if (!lost && dropped) return refused();
      return fail_unknown("looking again failed: " + now.error().ToString());
    }
    // Another table of the same name says nothing of what became of ours (iceberg_publish.h).
    if (now->metadata.table_uuid != change.table_uuid) {
      if (!lost && (code == Code::kConflict || code == Code::kNotFound)) {
        return NameTakenOver(change.ident);
      }
      return fail_unknown("another table has this name now");
    }
    const Shown shown = change.look(*now);
    if (shown == Shown::kDone) return now;
    if (!lost) return refused();
    if (shown == Shown::kOverrun) {
      return Fail(Code::kConflict, "somebody else changed the table first", change.ident.ToString(),
                  "load the table and plan again");
    }
    if (attempt == kAttempts) return fail_unknown("it is not there yet");
  }
}

std::unexpected<Error> MovedOn(const catalog::TableIdent& ident, const std::string& what) {
  return Fail(Code::kConflict, what, ident.ToString(), "load the table and plan again");
}

Status CheckExpiry(const IcebergCommitter::Expiry& request, const iceberg::TableMetadata& table) {
  const std::set<int64_t> going(request.snapshot_ids.begin(), request.snapshot_ids.end());
  const std::set<std::string> refs(request.refs.begin(), request.refs.end());
  if (going.empty() && refs.empty()) return Fail(Code::kInternal, "an expiry of nothing");
  if (refs.contains("main")) return Fail(Code::kInvalid, "the main branch does not expire");
  for (const std::string& ref : refs) {
    if (!table.refs.contains(ref)) return Fail(Code::kInvalid, "there is no ref " + ref);
  }
  for (const int64_t id : going) {
    if (table.FindSnapshot(id) != nullptr) continue;
    return Fail(Code::kInvalid, "there is no snapshot " + std::to_string(id));
  }
  // Removing a snapshot drops the refs to it: the last look at what they keep (I14, I15).
  for (const auto& [name, ref] : table.refs) {
    if (refs.contains(name) || !going.contains(ref.snapshot_id)) continue;
    return Fail(Code::kInvalid, "snapshot " + std::to_string(ref.snapshot_id) + " is the head of " +
                                    name + " and stays");
  }
  if (table.current_snapshot_id && going.contains(*table.current_snapshot_id)) {
    return Fail(Code::kInvalid, "the current snapshot does not expire");
  }
  return {};
}

}  // namespace

Result<catalog::LoadedTable> IcebergCommitter::CommitExpiry(const Expiry& request) {
  LITHIFY_TRY_ASSIGN(const catalog::LoadedTable loaded, LoadPatiently(services_, request.ident));
  const iceberg::TableMetadata& table = loaded.metadata;
  if (loaded.metadata_location != request.metadata_location) {
    return MovedOn(request.ident, "the table changed after the expiry was planned");
  }
  LITHIFY_TRY(CheckExpiry(request, table));
  std::vector<table::TableRequirement> requirements = {table::AssertTableUuid{table.table_uuid}};
  for (const auto& [name, ref] : table.refs) {
    requirements.emplace_back(table::AssertRefSnapshotId{name, ref.snapshot_id});
  }
  std::vector<table::TableUpdate> updates;
  for (const std::string& ref : request.refs) updates.emplace_back(table::RemoveSnapshotRef{ref});
  if (!request.snapshot_ids.empty()) {
    updates.emplace_back(table::RemoveSnapshots{request.snapshot_ids});
  }
  const auto look = [&](const catalog::LoadedTable& now) {
    const auto there = [&](int64_t id) { return now.metadata.FindSnapshot(id) != nullptr; };
    const auto named = [&](const std::string& ref) { return now.metadata.refs.contains(ref); };
    if (std::ranges::none_of(request.snapshot_ids, there) &&
        std::ranges::none_of(request.refs, named)) {
      return Shown::kDone;
    }
    return now.metadata_location == loaded.metadata_location ? Shown::kNotDone : Shown::kOverrun;
  };
  return CommitPlain(services_,
                     PlainChange{request.ident, table.table_uuid, requirements, updates, look});
}

Result<catalog::LoadedTable> IcebergCommitter::Rollback(const catalog::TableIdent& ident,
                                                        const std::string& branch,
                                                        int64_t snapshot_id) {
  LITHIFY_TRY_ASSIGN(catalog::LoadedTable loaded, LoadPatiently(services_, ident));
  const iceberg::TableMetadata& table = loaded.metadata;
  LITHIFY_TRY_ASSIGN(const iceberg::Snapshot* head, BranchHead(table, branch));
  if (!SnapshotsAfter(table, *head, snapshot_id)) {
    return Fail(Code::kInvalid,
                "snapshot " + std::to_string(snapshot_id) + " is no ancestor of snapshot " +
                    std::to_string(head->snapshot_id) + ", the head of " + branch,
                ident.ToString(), "roll back to one of its ancestors");
  }
  if (head->snapshot_id == snapshot_id) return loaded;
  iceberg::SnapshotRef ref;
  if (const auto at = table.refs.find(branch); at != table.refs.end()) ref = at->second;
  ref.snapshot_id = snapshot_id;
  const int64_t old_head = head->snapshot_id;
  const auto look = [&](const catalog::LoadedTable& now) {
    const iceberg::Snapshot* at = now.metadata.RefSnapshot(branch);
    if (at != nullptr && at->snapshot_id == snapshot_id) return Shown::kDone;
    return at != nullptr && at->snapshot_id == old_head ? Shown::kNotDone : Shown::kOverrun;
  };
  return CommitPlain(services_, PlainChange{ident,
                                            table.table_uuid,
                                            {table::AssertTableUuid{table.table_uuid},
                                             table::AssertRefSnapshotId{branch, old_head}},
                                            {table::SetSnapshotRef{branch, ref}},
                                            look});
}

Result<PropertiesChange> IcebergCommitter::ChangeProperties(
    const catalog::TableIdent& ident, const std::map<std::string, std::string>& set,
    const std::vector<std::string>& remove, const std::function<Status()>& before_change) {
  for (const std::string& key : remove) {
    if (set.contains(key)) {
      return Fail(Code::kInvalid, "property \"" + key + "\" cannot be set and removed at once",
                  ident.ToString());
    }
  }
  const auto as_wanted = [&](const iceberg::TableMetadata& table) {
    const auto is_set = [&](const auto& wanted) {
      const auto at = table.properties.find(wanted.first);
      return at != table.properties.end() && at->second == wanted.second;
    };
    return std::ranges::all_of(set, is_set) && std::ranges::none_of(remove, [&](const auto& key) {
             return table.properties.contains(key);
           });
  };
  std::vector<table::TableUpdate> updates;
  if (!set.empty()) updates.emplace_back(table::SetProperties{set});
  if (!remove.empty()) updates.emplace_back(table::RemoveProperties{remove});
  const auto look = [&](const catalog::LoadedTable& now) {
    return as_wanted(now.metadata) ? Shown::kDone : Shown::kNotDone;
  };
  for (int attempt = 1;; ++attempt) {
    LITHIFY_TRY_ASSIGN(catalog::LoadedTable loaded, LoadPatiently(services_, ident));
    if (updates.empty() || as_wanted(loaded.metadata)) {
      LITHIFY_TRY(services_.catalog.MayCommit());
      LITHIFY_TRY(services_.catalog.CheckMayWrite(loaded));
      return PropertiesChange{std::move(loaded), false};
    }
    if (before_change && attempt == 1) LITHIFY_TRY(before_change());
    const std::string& uuid = loaded.metadata.table_uuid;
    auto done = CommitPlain(
        services_, PlainChange{ident, uuid, {table::AssertTableUuid{uuid}}, updates, look});
    if (done) return PropertiesChange{*std::move(done), true};
    // Somebody else changed something else.
    if (done.error().code != Code::kConflict || attempt == kAttempts) {
      return Fail(std::move(done.error()));
    }
    Pause(services_, attempt - 1);
  }
}

}  // namespace lithify::commit
