// The only code that changes an Iceberg table: one snapshot of operation `replace` for a rewrite
// (R108-R115), the expiry of snapshots, rewritten manifests, a rollback, and rows appended to the
// maintenance log. Every call makes new
// metadata files and then one commit through the catalog. A refusal of the catalog is believed only
// after a look at the table: where that fails, the outcome is unknown.
//
// Errors: kConflict somebody changed what the plan was made on: nothing was changed and this
// attempt's metadata files are removed; load and plan again. kUnknownOutcome it may be applied, or
// is, but could not be confirmed: nothing is removed, and outputs must stay (I8, R302). kCorrupt a
// conservation check failed: nothing was committed. kDenied the catalog says no, or finds the
// change itself wrong. kNotFound the table is gone. kInternal the request is wrong. All codes but
// kUnknownOutcome mean that nothing of ours is in the table.
// Thread-safe.
#ifndef LITHIFY_COMMIT_ICEBERG_COMMIT_H_
#define LITHIFY_COMMIT_ICEBERG_COMMIT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/iceberg.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "storage/locations.h"
#include "table/metadata_cache.h"

namespace lithify::commit {

struct IcebergCommitServices {
  catalog::Catalog& catalog;
  storage::Locations& locations;
  const Clock& clock;
  Random& random;
  // Waits before a retry or another look. Unset: the thread sleeps.
  std::function<void(Duration)> sleep = {};
  // Of the caller's job: manifests that it has read come from here. Null: there is none.
  table::MetadataCache* cache = nullptr;

  table::MetadataSource source() const { return {locations, cache}; }
};

// A live delete file or deletion vector, named so that one vector of a shared Puffin is meant.
struct DeleteRef {
  std::string path;
  std::optional<int64_t> content_offset;  // Deletion vectors.
  // Every data file that a position delete file names, where it references no single one and the
  // caller has read it. Without them such a file goes only if no live data file of its partition
  // is within the bounds of its paths (R102).
  std::vector<std::string> paths = {};
  auto operator<=>(const DeleteRef&) const = default;
};

struct RewriteCommit {
  catalog::TableIdent ident;
  std::string branch = "main";
  std::string job_id;              // UUIDv7; in the summary, and how we know our own commit.
  std::string trigger = "manual";  // manual | scheduled.
  std::string principal;           // Empty: not stamped.
  // More properties of the snapshot, for the catalog to read; none that lithify sets itself.
  std::map<std::string, std::string> summary = {};
  int64_t planned_snapshot_id = 0;      // The plan was made on this snapshot of the branch.
  int64_t planned_sequence_number = 0;  // Data sequence number of the outputs (v2, v3).
  int schema_id = 0;                    // Written with this schema; a change since is a conflict.

  struct Input {
    std::string path;  // As in the metadata.
    int64_t records = 0;
    int64_t rows_deleted = 0;  // That this job left out.
    // Where it is, if known for all inputs: manifests that cannot hold one are not read.
    std::optional<iceberg::PartitionKey> partition = {};
  };
  std::vector<Input> inputs;
  std::vector<iceberg::DataFile> outputs;  // Complete, with spec_id and partition.
  // Covered: they apply to no live row any more. Those that something in the newest state still
  // needs stay, and those that are gone already are no error.
  std::vector<DeleteRef> removed_deletes;
  // Against harmless concurrent commits. On a table that does not change there are 4 at most.
  int commit_attempts = 4;

  // As planned; a change since is a conflict (R304). Unset: not checked.
  std::string table_uuid;
  std::optional<int> default_spec_id = {};
  // 0: not checked. Outputs of a v2 table lack the row ids of v3 [Row Lineage] (I22).
  int format_version = 0;
};

// New data files for a table of our own (the maintenance log). Of tables that hold other people's
// rows nothing but CommitRewrite() changes the files.
struct AppendCommit {
  catalog::TableIdent ident;
  std::string branch = "main";
  std::string job_id;              // UUIDv7, new for each request; how we know our own commit.
  std::string trigger = "manual";  // For the summary, as the principal; empty: not stamped.
  std::string principal;
  // The files were made for this table and with this schema; a change since is a conflict.
  std::string table_uuid;
  int schema_id = 0;
  // Complete, with spec_id and partition; all of one spec, which may be an older one.
  std::vector<iceberg::DataFile> files;

  // What the caller looked at before it decided to append.
  struct Head {
    std::optional<int64_t> snapshot_id;  // Unset: the branch had no snapshot.
  };
  // The append happens on top of this head, or not at all (R152). Unset: on whatever there is.
  std::optional<Head> expected = {};
  // Against concurrent commits, where nothing is expected. With `expected` only refusals that left
  // the head as it was are tried again.
  int commit_attempts = 8;
};

// Data files that leave a table of our own (the maintenance log) with all of their rows. No rows of
// other people's tables are removed by anything.
struct RemovalCommit {
  catalog::TableIdent ident;
  std::string branch = "main";
  std::string job_id;              // UUIDv7, new for each request; how we know our own commit.
  std::string trigger = "manual";  // For the summary, as the principal; empty: not stamped.
  std::string principal;
  // The rule was made for this table and with this schema; a change since is a conflict.
  std::string table_uuid;
  int schema_id = 0;
  // Of a live data file, with the bounds of `bounds_of` where its manifest has them. By the file
  // alone: it is asked anew in each attempt.
  std::function<bool(const iceberg::DataFile&)> leaves;
  std::vector<int> bounds_of;  // Field ids.
  int commit_attempts = 4;
};

struct CommittedSnapshot {
  int64_t snapshot_id = 0;  // 0: there was nothing to change any more, so nothing was committed.
  int64_t sequence_number = 0;
  int attempts = 1;
  int64_t manifests_kept = 0;
  int64_t manifests_written = 0;
  int64_t manifests_replaced = 0;
  int64_t delete_files_removed = 0;
  int64_t records_removed = 0;  // Of all files that left, replaced ones too.
  // An earlier attempt of this job had landed although its reply was lost.
  bool found_after_unknown = false;
};

struct PropertiesChange {
  catalog::LoadedTable table;  // As it is now.
  bool changed = false;        // By this call.
};

class IcebergCommitter {
 public:
  explicit IcebergCommitter(IcebergCommitServices services) : services_(std::move(services)) {}

  // Checks, on the newest metadata and anew in each attempt:
  // - conservation: rows of outputs == records of inputs - rows deleted (T33);
  // - the planned snapshot is an ancestor of the branch's head (I9: kConflict if it is gone), and
  //   the planned sequence number is its own;
  // - every input is live in the head (I5) as it was in the planned snapshot;
  // - the deletes that can reach an input are those of the planned snapshot: none was added that
  //   references it in any partition, be it by equal path bounds, or no single file and its
  //   partition and path bounds include it (I4, I11, T14), and none was removed or replaced, unless
  //   by this job;
  // - schema, default spec, format version and uuid are as planned (R304, I22);
  // - outputs lie under the table's data location, are not in the table, exist, have the stated
  //   size.
  // New equality deletes are no conflict: outputs keep the planned data sequence number (I1, R110).
  // But where rows move to another partition, those of the old and of the new one are: they would
  // miss the rows, or meet rows that they were not for.
  // Deletes are kept unless they are in `removed_deletes` and nothing needs them (I6). All new
  // metadata is read back before the commit: it must hold every entry of the head but what is
  // removed here, so every delete that applies to a live file stays live (I1).
  // A request that is in the table already, by job, inputs and outputs, is a success.
  Result<CommittedSnapshot> CommitRewrite(const RewriteCommit& request, const CancelFlag& cancel);

  // One snapshot of operation `append`: the files in a manifest of their own, and all manifests of
  // the head as they are; in a table without a snapshot the first one. Row ids of version 3 are
  // assigned. kConflict, too: the branch's head is not the expected one; then nothing was changed
  // and look again. A request that is in the table already, by job and files, is a success, also
  // if the head has moved on since.
  // The files must lie under the table's data location, exist, and have the stated size. They
  // belong to the caller: who gets any code but kUnknownOutcome may remove them.
  Result<CommittedSnapshot> CommitAppend(const AppendCommit& request, const CancelFlag& cancel);

  // One snapshot of operation `delete`: the files that leave are in no live entry any more, all
  // others are as they were. Snapshot id 0: none leaves, and nothing was committed. The files
  // themselves stay until the snapshots before it expire.
  Result<CommittedSnapshot> CommitRemoval(const RemovalCommit& request, const CancelFlag& cancel);

  struct Expiry {
    catalog::TableIdent ident;
    std::string metadata_location;  // The plan was made on exactly this metadata.
    std::vector<int64_t> snapshot_ids;
    std::vector<std::string> refs;
  };
  // kConflict if the table moved on: plan again. Deletes no file.
  // A ref that somebody makes between the load and the commit and that points to an expired
  // snapshot is a conflict in catalogs that apply changes here. In a REST catalog only the refs
  // that were there are asserted: servers may drop the new ref with its snapshot.
  Result<catalog::LoadedTable> CommitExpiry(const Expiry& request);

  struct ManifestRewrite {
    catalog::TableIdent ident;
    std::string branch = "main";
    std::string job_id;
    std::string trigger = "manual";
    std::string principal;
    int64_t target_size_bytes = int64_t{8} << 20;
    std::optional<int> spec_id;  // Only manifests of this spec. Unset: all.
    // Called where there is something to gain, before anything is written; once for each attempt.
    // Its error ends the call. Unset: nothing.
    std::function<Status()> before_change = {};
  };
  struct ManifestRewriteResult {
    std::optional<int64_t> snapshot_id;  // Unset: nothing to gain, and nothing was committed.
    int64_t rewritten = 0;               // Of the snapshot; 0 without one.
    int64_t added = 0;
  };
  // Merges small manifests of one spec and content, sorted by partition; entries keep their
  // numbers (I10); nothing to gain is no commit.
  Result<ManifestRewriteResult> RewriteManifests(const ManifestRewrite& request,
                                                 const CancelFlag& cancel);

  // Points the branch at an ancestor of its head. kInvalid if it is none.
  Result<catalog::LoadedTable> Rollback(const catalog::TableIdent& ident, const std::string& branch,
                                        int64_t snapshot_id);

  // Sets and removes properties of the table; other changes that are made meanwhile do not matter.
  // To remove one that is not there is no error. kInvalid if a key is in both. Where all is as it
  // should be already, the catalog is asked whether it could be changed: a success is never told to
  // who may not write. `before_change`, unless null, is called before the first commit is sent, and
  // ends the call with its error.
  Result<PropertiesChange> ChangeProperties(const catalog::TableIdent& ident,
                                            const std::map<std::string, std::string>& set,
                                            const std::vector<std::string>& remove,
                                            const std::function<Status()>& before_change = {});

 private:
  IcebergCommitServices services_;
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_COMMIT_H_
