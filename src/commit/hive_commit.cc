#include "commit/hive_commit.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/guard.h"
#include "table/hive_manifest.h"

namespace lithify::commit {
namespace {

using Names = std::unordered_set<std::string_view>;
using storage::Store;

std::string ManifestKey(const CommitScope& scope) {
  return scope.key_prefix + std::string(table::kManifestName);
}

std::unexpected<Error> Conflict(std::string message) {
  return Fail(Code::kConflict, std::move(message), {}, "load the partition and plan again");
}

// A name that is about to enter the manifest: valid, new to it, and given once.
Status CheckNewNames(const HiveManifest& base, const std::vector<std::string>& names,
                     std::string_view what) {
  const Names live(base.files.begin(), base.files.end());
  Names seen;
  for (const RetiredFile& file : base.retired) seen.insert(file.name);
  for (const std::string& name : names) {
    const std::string which = std::string(what) + " " + name.substr(0, 300);
    if (!IsLiveFileName(name)) return Fail(Code::kInternal, which + " is not a valid file name");
    if (live.contains(name)) return Fail(Code::kInternal, which + " is live already");
    if (!seen.insert(name).second) {
      return Fail(Code::kInternal, which + " is retired already, or given twice");
    }
  }
  return {};
}

// What a Swap or Fence builds on must know the fate of every unlisted file: otherwise dead files
// of another writer would look like late data afterwards, and come back to life.
Status CheckLineage(const ManifestSnapshot& base) {
  if (base.manifest.has_lineage) return {};
  return Fail(Code::kInternal, "the manifest is another writer's: its unlisted files are not known",
              {}, "adopt the partition first");
}

// The same rows as `base`, one generation on, under this job's name. Records of files that are
// gone are dropped, but only those that a look confirms: a dropped record of a file that is still
// there would turn dead rows into late data.
Result<HiveManifest> NextManifest(Store& store, const CommitScope& scope,
                                  const HiveManifest& base) {
  if (base.generation == std::numeric_limits<uint64_t>::max()) {
    return Fail(Code::kLimit, "the generation counter is at its end");
  }
  HiveManifest next = base;
  next.generation = base.generation + 1;
  next.has_lineage = true;
  next.job_id = scope.job_id;
  const Names gone(scope.gone.begin(), scope.gone.end());
  std::erase_if(next.retired, [&](const RetiredFile& file) {
    if (!gone.contains(file.name)) return false;
    const auto info = store.Stat(scope.key_prefix + file.name);
    return !info && info.error().code == Code::kNotFound;
  });
  return next;
}

void Retire(HiveManifest& manifest, const CommitScope& scope, const std::string& name,
            RetiredFile::Reason reason) {
  manifest.retired.push_back(RetiredFile{name, scope.now, reason, scope.job_id});
}

// Never earlier than the files' own times, which may be ahead of our clock: a file that is younger
// than its record counts as another one under the same name.
void RetireInputs(HiveManifest& manifest, const CommitScope& scope, const SwapRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    Retire(manifest, scope, request.inputs[i], RetiredFile::Reason::kSuperseded);
    if (request.inputs_as_planned.empty()) continue;
    Time& at = manifest.retired.back().at;
    at = std::max(at, request.inputs_as_planned[i].modified);
  }
}

// One publication: the compare-and-swap and, if its outcome is not plain, the look at what is
// there now.
class Publication {
 public:
  // `base` is nullptr for the first generation. `swap`, if given, is what may prove the commit
  // even under a later generation.
  Publication(Store& store, const CommitScope& scope, const ManifestSnapshot* base,
              const SwapRequest* swap)
      : store_(store), scope_(scope), key_(ManifestKey(scope)), base_(base), swap_(swap) {}

  Result<ManifestSnapshot> Run(const HiveManifest& next) {
    LITHIFY_TRY_ASSIGN(const std::string text, table::SerializeManifest(next));
    // An empty version is what a superseded snapshot carries.
    if (base_ != nullptr && base_->version.empty()) {
      return Conflict("generation " + std::to_string(base_->manifest.generation) +
                      " is not the current one any more");
    }
    Status put = Put(text);
    if (put) return Published(next, text);
    const Code code = put.error().code;
    if (code == Code::kConflict || code == Code::kUnknownOutcome || code == Code::kTransient) {
      return Resolve(next, text, put.error());
    }
    return Fail(std::move(put.error()));
  }

 private:
  Status Put(const std::string& text) {
    if constexpr (!guard::kCompareAndSwap) {
      const auto current = store_.Get(key_, table::kManifestBytesMax);
      if (current) return store_.PutIf(key_, text, current->version);
      return store_.PutNew(key_, text);
    }
    return base_ == nullptr ? store_.PutNew(key_, text) : store_.PutIf(key_, text, base_->version);
  }

  // It is published; what is left is its version. If that cannot be had, the next publication on
  // this snapshot conflicts, which is the truth if somebody came later and harmless if not.
  Result<ManifestSnapshot> Published(const HiveManifest& next, const std::string& text) {
    auto blob = store_.Get(key_, table::kManifestBytesMax);
    if (!blob || blob->bytes != text) return ManifestSnapshot{next, {}};
    return ManifestSnapshot{next, std::move(blob->version)};
  }

  // The store does not know, or says that somebody was first, which may have been our own request,
  // sent twice (H5). What is there now decides.
  Result<ManifestSnapshot> Resolve(const HiveManifest& next, const std::string& text,
                                   const Error& cause) {
    const auto unknown = [&](const Error& why) {
      return Fail(Code::kUnknownOutcome,
                  "generation " + std::to_string(next.generation) +
                      " may or may not be published: " + cause.ToString() +
                      "; looking again failed too: " + why.ToString(),
                  key_, "look at manifest.json for job " + scope_.job_id + " before anything else");
    };
    auto blob = store_.Get(key_, table::kManifestBytesMax);
    if (!blob && blob.error().code != Code::kNotFound) return unknown(blob.error());
    if (!blob && base_ == nullptr) return NotCommitted(cause);
    if (!blob) return Conflict("manifest.json is gone");
    if (blob->bytes == text) return ManifestSnapshot{next, std::move(blob->version)};
    if (base_ != nullptr && blob->version == base_->version) return NotCommitted(cause);
    const auto current = table::ParseManifest(blob->bytes);
    if (!current) return unknown(current.error());
    if (ShowsSwap(*current)) return ManifestSnapshot{next, {}};
    return Conflict("somebody else published generation " + std::to_string(current->generation));
  }

  std::unexpected<Error> NotCommitted(const Error& cause) {
    return Fail(Code::kTransient, "not committed: " + cause.message, key_, "try again");
  }

  // A later generation that was built on our swap has our outputs live or superseded, or, for a
  // swap without outputs, our inputs retired by this job. A fenced output proves the contrary.
  bool ShowsSwap(const HiveManifest& current) const {
    if (swap_ == nullptr) return false;
    const Names live(current.files.begin(), current.files.end());
    Names superseded;
    Names retired_by_us;
    for (const RetiredFile& file : current.retired) {
      if (file.reason != RetiredFile::Reason::kSuperseded) continue;
      superseded.insert(file.name);
      if (file.job_id == scope_.job_id) retired_by_us.insert(file.name);
    }
    if (swap_->outputs.empty()) {
      return std::ranges::all_of(
          swap_->inputs, [&](const std::string& name) { return retired_by_us.contains(name); });
    }
    return std::ranges::all_of(swap_->outputs, [&](const SwapRequest::Output& output) {
      return live.contains(output.name) || superseded.contains(output.name);
    });
  }

  Store& store_;
  const CommitScope& scope_;
  std::string key_;
  const ManifestSnapshot* base_;
  const SwapRequest* swap_;
};

// The claims of a rewrite that need no look at the store.
Status CheckClaims(const SwapRequest& request) {
  if (request.rows_in != request.rows_out || request.rows_in < 0) {
    return Fail(Code::kCorrupt, "rows are not conserved: " + std::to_string(request.rows_in) +
                                    " in, " + std::to_string(request.rows_out) + " out");
  }
  int64_t rows = 0;
  std::vector<std::string> names;
  for (const SwapRequest::Output& output : request.outputs) {
    if (output.rows < 0 || __builtin_add_overflow(rows, output.rows, &rows)) {
      return Fail(Code::kCorrupt, "impossible row count " + std::to_string(output.rows),
                  output.name);
    }
    names.push_back(output.name);
  }
  if (rows != request.rows_out) {
    return Fail(Code::kCorrupt, "the outputs have " + std::to_string(rows) + " rows, not " +
                                    std::to_string(request.rows_out));
  }
  const HiveManifest& planned = request.planned.manifest;
  const Names live(planned.files.begin(), planned.files.end());
  Names seen;
  if (request.inputs.empty()) return Fail(Code::kInternal, "a swap without inputs");
  if (!request.inputs_as_planned.empty() &&
      request.inputs_as_planned.size() != request.inputs.size()) {
    return Fail(Code::kInternal, "not all inputs are described");
  }
  for (const std::string& name : request.inputs) {
    if (!live.contains(name)) return Fail(Code::kInternal, "input " + name + " is not live");
    if (!seen.insert(name).second) return Fail(Code::kInternal, "input " + name + " given twice");
  }
  return CheckNewNames(planned, names, "output");
}

// A file of the plan is not as it was: a lost race if the manifest moved on, else damage (R313).
Status Lost(Store& store, const CommitScope& scope, const ManifestSnapshot& planned, Code code,
            const std::string& name, const std::string& what) {
  LITHIFY_TRY_ASSIGN(const auto current, table::ReadManifest(store, scope.key_prefix));
  if (!current || current->version != planned.version) {
    return Conflict(name + " " + what + " and the manifest moved on");
  }
  return Fail(code, what + " although the manifest did not move on", name,
              "nothing was published; find out who removed or changed it");
}

// What is there under names of a partition, right now. Where each request is a round trip, one
// listing answers for many; what it shows otherwise than expected is asked for by itself, since a
// listing may lag behind.
class PresentFiles {
 public:
  PresentFiles(Store& store, const std::string& key_prefix)
      : store_(store), key_prefix_(key_prefix) {}

  // Worth it for some more files than a listing is requests.
  Status Expect(size_t files) {
    constexpr size_t kFew = 4;
    if (store_.small_reads_are_cheap() || files < kFew) return {};
    return store_.ListPages(key_prefix_, storage::ListDepth::kChildren,
                            [&](std::vector<storage::ObjectInfo> page) -> Status {
                              for (storage::ObjectInfo& info : page) {
                                std::string name = info.key.substr(key_prefix_.size());
                                listed_.insert_or_assign(std::move(name), std::move(info));
                              }
                              return {};
                            });
  }

  Result<storage::ObjectInfo> Look(const std::string& name, int64_t size,
                                   std::optional<Time> modified) {
    if (const auto found = listed_.find(name); found != listed_.end()) {
      const storage::ObjectInfo& info = found->second;
      const bool expected = info.size == size && (!modified || info.modified == *modified);
      if (info.regular && expected) return info;
    }
    return store_.Stat(key_prefix_ + name);
  }

 private:
  Store& store_;
  const std::string& key_prefix_;
  std::unordered_map<std::string, storage::ObjectInfo> listed_;
};

Status CheckPresent(Store& store, const CommitScope& scope, const SwapRequest& request) {
  PresentFiles files(store, scope.key_prefix);
  LITHIFY_TRY(files.Expect(request.inputs.size() + request.outputs.size()));
  for (const SwapRequest::Output& output : request.outputs) {
    const auto info = files.Look(output.name, output.size, std::nullopt);
    if (!info && info.error().code != Code::kNotFound) return Fail(info.error());
    if (!info) {
      return Lost(store, scope, request.planned, Code::kCorrupt, output.name, "output vanished");
    }
    if (info->size != output.size) {
      return Fail(Code::kCorrupt,
                  "the output has " + std::to_string(info->size) + " bytes, not the " +
                      std::to_string(output.size) + " that were written",
                  output.name, "nothing was published; the inputs are untouched");
    }
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string& name = request.inputs[i];
    const bool compared = !request.inputs_as_planned.empty();
    const storage::ObjectInfo planned =
        compared ? request.inputs_as_planned[i] : storage::ObjectInfo();
    const auto info = compared ? files.Look(name, planned.size, planned.modified)
                               : store.Stat(scope.key_prefix + name);
    if (!info && info.error().code != Code::kNotFound) return Fail(info.error());
    if (!info) return Lost(store, scope, request.planned, Code::kCorrupt, name, "input vanished");
    if (!compared) continue;
    if (info->size != planned.size || info->modified != planned.modified) {
      return Lost(store, scope, request.planned, Code::kCorrupt, name,
                  "input was replaced while it was rewritten");
    }
  }
  return {};
}

}  // namespace

Result<ManifestSnapshot> HiveCommitter::Bootstrap(const CommitScope& scope,
                                                  const std::vector<std::string>& files) {
  HiveManifest next;
  for (const std::string& name : files) {
    if (!IsLiveFileName(name)) {
      return Fail(Code::kInvalid, "a manifest cannot name this file", scope.key_prefix + name,
                  "rename or remove it");
    }
  }
  next.generation = 1;
  next.files = files;
  std::ranges::sort(next.files);
  next.has_lineage = true;
  next.job_id = scope.job_id;
  return Publication(store_, scope, nullptr, nullptr).Run(next);
}

Result<ManifestSnapshot> HiveCommitter::Adopt(const CommitScope& scope,
                                              const ManifestSnapshot& base,
                                              const std::vector<std::string>& late,
                                              const std::vector<std::string>& foreign) {
  std::vector<std::string> names = late;
  names.insert(names.end(), foreign.begin(), foreign.end());
  LITHIFY_TRY(CheckNewNames(base.manifest, names, "late file"));
  LITHIFY_TRY_ASSIGN(HiveManifest next, NextManifest(store_, scope, base.manifest));
  next.files.insert(next.files.end(), late.begin(), late.end());
  std::ranges::sort(next.files);
  for (const std::string& name : foreign) {
    Retire(next, scope, name, RetiredFile::Reason::kForeign);
  }
  return Publication(store_, scope, &base, nullptr).Run(next);
}

Result<ManifestSnapshot> HiveCommitter::Swap(const CommitScope& scope, const SwapRequest& request) {
  LITHIFY_TRY(CheckLineage(request.planned));
  LITHIFY_TRY(CheckClaims(request));
  LITHIFY_TRY_ASSIGN(HiveManifest next, NextManifest(store_, scope, request.planned.manifest));
  const Names inputs(request.inputs.begin(), request.inputs.end());
  std::erase_if(next.files, [&](const std::string& name) { return inputs.contains(name); });
  for (const SwapRequest::Output& output : request.outputs) next.files.push_back(output.name);
  std::ranges::sort(next.files);
  RetireInputs(next, scope, request);
  // Last, so that the look is as close to the swap as it can be.
  LITHIFY_TRY(CheckPresent(store_, scope, request));
  return Publication(store_, scope, &request.planned, &request).Run(next);
}

Result<ManifestSnapshot> HiveCommitter::Fence(const CommitScope& scope,
                                              const ManifestSnapshot& base,
                                              const std::vector<std::string>& orphans) {
  LITHIFY_TRY(CheckLineage(base));
  LITHIFY_TRY(CheckNewNames(base.manifest, orphans, "orphan"));
  LITHIFY_TRY_ASSIGN(HiveManifest next, NextManifest(store_, scope, base.manifest));
  for (const std::string& name : orphans) Retire(next, scope, name, RetiredFile::Reason::kFenced);
  return Publication(store_, scope, &base, nullptr).Run(next);
}

}  // namespace lithify::commit
