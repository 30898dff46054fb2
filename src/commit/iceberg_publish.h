// From a proposed change to a certain outcome: the optimistic loop around Catalog::CommitTable.
//
// A reply that is lost is resolved by looking for our own snapshot before anything else; metadata
// files are removed only once no commit can refer to them (I8, R115, R302).
#ifndef LITHIFY_COMMIT_ICEBERG_PUBLISH_H_
#define LITHIFY_COMMIT_ICEBERG_PUBLISH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "commit/iceberg_commit.h"
#include "commit/iceberg_manifests.h"
#include "commit/iceberg_validation.h"

namespace lithify::commit {

// Whether CommitTable's error says, by its contract, that the commit was not applied: kTransient,
// which is given for nothing but a request that was not sent or was taken back, kCancelled for one
// that was not sent either, and the refusals kConflict, kDenied, kInvalid, kNotFound and
// kUnsupported. All others, as kInternal, kCorrupt and kLimit, are promised by no catalog and count
// as an unknown outcome.
//
// A refusal is believed only after a look at the table: something between us and the catalog may
// have sent the request twice, and then it is the answer to the second of which the first was
// applied. Where the look fails the outcome is unknown.
//
// No look is needed where Catalog::AnswersOnce(). A catalog that says kNotFound to the commit and
// to the look as well is believed too: there is no table that could have the commit in it, unless
// somebody renamed it in between.
bool IsKnownFailure(Code code);

// What a caller gets of a catalog's last word. kInvalid becomes kDenied: it is the catalog that
// finds lithify's request wrong, not lithify the caller's.
Error AsRefusal(Error error);

// kConflict: what has the name now is another table.
std::unexpected<Error> NameTakenOver(const catalog::TableIdent& ident);

// Before a change of a table of our own (the maintenance log). kUnsupported: it is encrypted;
// kConflict: it is another table than the caller saw, or has another schema.
Status CheckAsSeen(const catalog::TableIdent& ident, const std::string& table_uuid, int schema_id,
                   const iceberg::TableMetadata& table);

// Waits 50 ms before the second try, twice as long before each further one, 5 s at most (R118).
void Pause(const IcebergCommitServices& services, int tries);

// Loads the table; tries again, a bounded number of times, where that may help.
Result<catalog::LoadedTable> LoadPatiently(const IcebergCommitServices& services,
                                           const catalog::TableIdent& ident);

struct Proposal {
  iceberg::Snapshot snapshot;
  int64_t manifests_kept = 0;
  int64_t manifests_written = 0;
  int64_t manifests_replaced = 0;
  int64_t delete_files_removed = 0;
};

class SnapshotPublisher {
 public:
  // Validates on this state of the table and writes the new metadata; nullopt: nothing to change.
  using Prepare = std::function<Result<std::optional<Proposal>>(const catalog::LoadedTable& loaded,
                                                                MetadataFiles& files, int attempt)>;

  SnapshotPublisher(IcebergCommitServices& services, catalog::TableIdent ident, std::string branch,
                    CommitMark mark, int attempts)
      : services_(services),
        ident_(std::move(ident)),
        branch_(std::move(branch)),
        mark_(std::move(mark)),
        attempts_(attempts) {}

  Result<CommittedSnapshot> Run(const Prepare& prepare, const CancelFlag& cancel);

 private:
  Result<std::optional<CommittedSnapshot>> Attempt(const catalog::LoadedTable& loaded,
                                                   const Prepare& prepare,
                                                   const CancelFlag& cancel);
  Result<std::optional<CommittedSnapshot>> Send(const catalog::LoadedTable& loaded,
                                                const Proposal& proposal, MetadataFiles files);
  Result<CommittedSnapshot> Confirm(const catalog::LoadedTable& now, const Proposal& proposal);
  Result<catalog::LoadedTable> Look();
  bool IsFinal(const catalog::LoadedTable& now) const;
  Status CheckSameTable(const iceberg::TableMetadata& table);
  void BelieveRefusals();
  Status SettleLost(const iceberg::TableMetadata& table);
  std::unexpected<Error> FailKnown(Error error) const;
  std::unexpected<Error> Exhausted() const;

  IcebergCommitServices& services_;
  catalog::TableIdent ident_;
  std::string branch_;
  CommitMark mark_;
  int attempts_;
  int attempt_ = 0;
  int attempts_here_ = 0;  // On the metadata that the last one was made on.
  std::string table_uuid_;

  struct Lost {
    LostAttempt attempt;
    MetadataFiles files;
  };
  std::vector<Lost> lost_;              // Outcome not known.
  std::vector<MetadataFiles> refused_;  // Removed once a look has confirmed it.
  bool doubted_ = false;                // No look has confirmed the last refusal yet.
  std::string base_location_;           // Of the metadata that the last attempt was made on.
  Error last_error_;
};

// The requirements of every change of a branch (R115).
std::vector<table::TableRequirement> BranchRequirements(const iceberg::TableMetadata& table,
                                                        const std::string& branch);
// The branch's head; kConflict if the branch is gone, kInvalid if it is a tag.
Result<const iceberg::Snapshot*> BranchHead(const iceberg::TableMetadata& table,
                                            const std::string& branch);

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_ICEBERG_PUBLISH_H_
