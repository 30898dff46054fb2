// The only code that changes which rows a hive partition has: bootstrap, adoption, swap, fence.
// Each is one compare-and-swap of manifest.json, and each returns the manifest it published.
//
// Errors: kConflict somebody else published first: nothing of ours is visible, load and plan
// again. kUnknownOutcome survives only if looking again failed too: never clean up. kCorrupt a
// conservation check failed: nothing was published. kTransient it was not there when looked for:
// the same call may be tried again, but a delayed request may still land, so outputs stay until a
// fence. kInternal the caller's request is wrong. Thread-safe.
//
// The returned snapshot has an empty version if the publication is certain but its version could
// not be had any more (somebody published on top of it): building on it gives kConflict.
#ifndef LITHIFY_COMMIT_HIVE_COMMIT_H_
#define LITHIFY_COMMIT_HIVE_COMMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hive.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::commit {

// What every publication needs.
struct CommitScope {
  std::string key_prefix;  // Of the partition, with the trailing slash.
  std::string job_id;
  Time now;
  // Retired files that a listing made before the base was read no longer shows: their records are
  // dropped, since names are never used again, unless a look finds the file there after all.
  std::vector<std::string> gone;
};

// What a rewrite claims; checked here again, whatever the caller checked.
struct SwapRequest {
  ManifestSnapshot planned;         // The generation that the plan was made on.
  std::vector<std::string> inputs;  // All live in `planned`.
  // What the listing that was planned on said of each input, in the order of `inputs`: one that is
  // not so any more was not what was rewritten. Empty: not checked.
  std::vector<storage::ObjectInfo> inputs_as_planned;
  struct Output {
    std::string name;
    int64_t size = 0;
    int64_t rows = 0;
  };
  std::vector<Output> outputs;
  int64_t rows_in = 0;
  int64_t rows_out = 0;
};

class HiveCommitter {
 public:
  explicit HiveCommitter(storage::Store& store) : store_(store) {}

  // Generation 1 naming `files`, only if there is no manifest (R215, T20).
  Result<ManifestSnapshot> Bootstrap(const CommitScope& scope,
                                     const std::vector<std::string>& files);
  // Next generation: the same files plus `late`, and `foreign` recorded as untouchable (Q4, H1).
  // Needed, even with both lists empty, before a Swap or Fence on a manifest without lineage.
  Result<ManifestSnapshot> Adopt(const CommitScope& scope, const ManifestSnapshot& base,
                                 const std::vector<std::string>& late,
                                 const std::vector<std::string>& foreign);
  // Next generation: live files minus inputs plus outputs; inputs retired (R212 step 3).
  // Checks rows_out == rows_in, inputs live, present and as they were planned, outputs new, present
  // and of the stated size.
  Result<ManifestSnapshot> Swap(const CommitScope& scope, const SwapRequest& request);
  // Next generation with the same live files: a compactor that planned on `base` can no longer
  // commit, so its unpublished outputs `orphans` are dead and may be removed.
  Result<ManifestSnapshot> Fence(const CommitScope& scope, const ManifestSnapshot& base,
                                 const std::vector<std::string>& orphans);

 private:
  storage::Store& store_;
};

}  // namespace lithify::commit

#endif  // LITHIFY_COMMIT_HIVE_COMMIT_H_
