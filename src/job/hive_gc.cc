#include "job/hive_gc.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "commit/hive_commit.h"
#include "table/hive_claim.h"
#include "table/hive_manifest.h"

namespace lithify::job {
namespace {

using plan::GcAction;
using plan::GcDecision;

// How many files go together, after one look at the manifest. Where a request is a round trip, as
// many as one request removes; the looks take few.
size_t RemovalsPerLook(const storage::Store& store) {
  return store.small_reads_are_cheap() ? 1 : 1000;
}

// True if `name` may go, judged by the manifest as it is right now. `recorded`: it must be in the
// retired list.
bool MayRemove(const std::optional<ManifestSnapshot>& manifest, const std::string& name,
               bool recorded) {
  if (!guard::kReread) return true;
  if (!manifest) return !recorded;
  if (IsLive(manifest->manifest, name)) return false;
  if (!recorded) return true;
  const RetiredFile* record = FindRetired(manifest->manifest, name);
  return record != nullptr && record->reason != RetiredFile::Reason::kForeign;
}

// True if nobody can be at work under this claim. One that is no claim of a lithify's stays.
Result<bool> IsDeadClaim(const HiveServices& services, const std::string& key) {
  LITHIFY_TRY_ASSIGN(const storage::Blob blob, services.store.Get(key, table::kClaimBytesMax));
  const auto claim = table::ParseClaim(blob.bytes);
  return claim && (!table::IsLiveClaim(*claim, services.clock.Now()) ||
                   services.memory->IsAbandoned(*claim));
}

class Collector {
 public:
  Collector(const HiveServices& services, const HiveSettings& settings,
            const LoadedPartition& loaded, const std::string& job_id, GcReport& report)
      : services_(services),
        settings_(settings),
        loaded_(loaded),
        id_(loaded.state.id),
        job_id_(job_id),
        report_(report) {
    for (const HiveFile& file : loaded.state.files) files_[file.name] = &file;
  }

  bool Run(bool dry_run, const CancelFlag& cancel) {
    std::vector<GcDecision> removals;
    std::vector<GcDecision> orphans;
    for (GcDecision& decision :
         plan::PlanGc(loaded_.state, settings_.options, services_.clock.Now())) {
      switch (decision.action) {
        case GcAction::kRemove: removals.push_back(std::move(decision)); break;
        case GcAction::kRemoveClaim:
          if (IsDeadClaim(decision)) removals.push_back(std::move(decision));
          break;
        case GcAction::kFenceRemove:
          if (loaded_.state.manifest->manifest.has_lineage) {
            orphans.push_back(std::move(decision));
          } else {
            // A fence would build on a manifest whose unlisted files are not known yet.
            decision.reason += ", kept until lithify takes over this manifest";
            Report(report_.kept, decision);
          }
          break;
        case GcAction::kKeepYoung: Report(report_.kept, decision); break;
        case GcAction::kKeep:
          if (Undecided(decision.name)) Report(report_.kept, decision);
          break;
      }
    }
    if (dry_run) {
      for (const GcDecision& decision : removals) Report(report_.removed, decision);
      for (const GcDecision& decision : orphans) Report(report_.removed, decision);
      return false;
    }
    if (removals.empty() && orphans.empty()) return false;
    if (Status clock = storage::CheckClock(services_.store); !clock) {
      report_.errors.push_back(std::move(clock.error()).In(id_.key_prefix));
      return false;
    }
    RemoveAll(removals, &cancel);
    const bool fenced = !orphans.empty() && !cancel.requested() && Fence(orphans);
    Audit();
    return fenced;
  }

 private:
  bool IsDeadClaim(const GcDecision& decision) {
    const std::string key = id_.key_prefix + decision.name;
    auto dead = job::IsDeadClaim(services_, key);
    if (dead && *dead) return true;
    if (dead) {
      Report(report_.kept, {decision.name, decision.size, GcAction::kKeep,
                            "a claim that has not expired, or not one of lithify's"});
    } else if (dead.error().code != Code::kNotFound) {
      report_.errors.push_back(std::move(dead.error()).In(key));
    }
    return false;
  }

  bool Undecided(const std::string& name) const {
    const FileState state = files_.at(name)->state;
    return state == FileState::kAmbiguous || state == FileState::kUnreadable;
  }

  void Report(std::vector<GcReport::Item>& items, const GcDecision& decision) const {
    items.push_back({id_.key_prefix + decision.name, decision.size, decision.reason});
  }

  // `cancel` may be null.
  void RemoveAll(std::span<const GcDecision> decisions, const CancelFlag* cancel) {
    const size_t most = RemovalsPerLook(services_.store);
    while (!decisions.empty() && (cancel == nullptr || !cancel->requested())) {
      const auto some = decisions.first(std::min(most, decisions.size()));
      decisions = decisions.subspan(some.size());
      Status removed = most == 1 ? RemoveOne(some.front()) : RemoveTogether(some);
      if (removed) continue;
      report_.unremoved += std::ssize(some);
      report_.errors.push_back(std::move(removed.error()));
    }
  }

  Status RemoveOne(const GcDecision& decision) {
    const std::string key = id_.key_prefix + decision.name;
    const auto info = services_.store.Stat(key);
    if (!info && info.error().code == Code::kNotFound) return {};
    if (!info) return Fail(Error(info.error()).In(key));
    Status removed;
    if (IsAsListed(decision, *info)) removed = RemoveUnneeded({&decision});
    return removed ? Status() : Fail(std::move(removed.error()).In(key));
  }

  // One new listing, one look at the manifest, one removal.
  Status RemoveTogether(std::span<const GcDecision> decisions) {
    std::unordered_map<std::string_view, const GcDecision*> by_name;
    for (const GcDecision& decision : decisions) by_name.emplace(decision.name, &decision);
    std::vector<const GcDecision*> unchanged;
    Status done = services_.store.ListPages(
        id_.key_prefix, storage::ListDepth::kChildren,
        [&](const std::vector<storage::ObjectInfo>& page) -> Status {
          for (const storage::ObjectInfo& object : page) {
            const auto found =
                by_name.find(std::string_view(object.key).substr(id_.key_prefix.size()));
            if (found == by_name.end()) continue;
            if (IsAsListed(*found->second, object)) unchanged.push_back(found->second);
            by_name.erase(found);
          }
          return {};
        });
    if (done && !unchanged.empty()) {
      std::ranges::sort(unchanged, {}, &GcDecision::name);
      done = RemoveUnneeded(unchanged);
    }
    return done ? Status() : Fail(std::move(done.error()).In(id_.key_prefix));
  }

  // It was judged by what the listing said of it.
  bool IsAsListed(const GcDecision& decision, const storage::ObjectInfo& now) const {
    const HiveFile& listed = *files_.at(decision.name);
    if (now.size == listed.size && now.modified == listed.modified) return true;
    report_.kept.push_back({now.key, now.size, "it was changed since it was listed"});
    return false;
  }

  // After another look at the manifest.
  Status RemoveUnneeded(const std::vector<const GcDecision*>& decisions) {
    std::optional<ManifestSnapshot> manifest;
    if (guard::kReread) {
      LITHIFY_TRY_ASSIGN(manifest, table::ReadManifest(services_.store, id_.key_prefix));
    }
    std::vector<const GcDecision*> unneeded;
    std::vector<std::string> keys;
    for (const GcDecision* decision : decisions) {
      const std::string key = id_.key_prefix + decision->name;
      const bool recorded = decision->action == GcAction::kFenceRemove
                                ? guard::kFence
                                : files_.at(decision->name)->state == FileState::kRetired;
      if (!MayRemove(manifest, decision->name, recorded)) {
        report_.kept.push_back({key, decision->size, "the manifest changed: not garbage any more"});
        continue;
      }
      unneeded.push_back(decision);
      keys.push_back(key);
    }
    if (keys.empty()) return {};
    std::vector<Status> removed = services_.store.RemoveMany(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (removed[i]) {
        Report(report_.removed, *unneeded[i]);
        removed_.push_back(unneeded[i]->name);
        bytes_ += unneeded[i]->size;
      } else if (removed[i].error().code != Code::kNotFound) {
        ++report_.unremoved;
        report_.errors.push_back(std::move(removed[i].error()).In(keys[i]));
      }
    }
    return {};
  }

  // Whoever wrote these outputs planned on this manifest or an older one. Once it is replaced, that
  // attempt cannot commit, and only then are its outputs dead.
  bool Fence(const std::vector<GcDecision>& orphans) {
    if (guard::kFence) {
      std::vector<std::string> names;
      for (const GcDecision& decision : orphans) names.push_back(decision.name);
      commit::HiveCommitter committer(services_.store);
      auto fenced = committer.Fence({.key_prefix = id_.key_prefix,
                                     .job_id = job_id_,
                                     .now = services_.clock.Now(),
                                     .gone = FindGone(loaded_.state)},
                                    *loaded_.state.manifest, names);
      if (!fenced) {
        // Somebody published meanwhile: the next sweep looks again.
        if (fenced.error().code != Code::kConflict) {
          report_.errors.push_back(std::move(fenced.error()).In(id_.key_prefix));
        }
        return true;
      }
    }
    RemoveAll(orphans, nullptr);
    return true;
  }

  void Audit() {
    if (removed_.empty()) return;
    observe::AuditEvent event;
    event.phase = observe::AuditEvent::Phase::kCollected;
    event.time = services_.clock.Now();
    event.job_id = job_id_;
    event.tree = settings_.audit_tree;
    event.series = id_.series;
    event.tenant = id_.tenant;
    event.partition = id_.key_prefix;
    event.inputs = removed_;
    event.bytes_in = bytes_;
    event.generation = loaded_.generation();
    Status appended = services_.audit.Append(event);
    if (!appended) report_.errors.push_back(std::move(appended.error()).In("audit log"));
  }

  const HiveServices& services_;
  const HiveSettings& settings_;
  const LoadedPartition& loaded_;
  const PartitionId& id_;
  const std::string& job_id_;
  GcReport& report_;
  std::map<std::string, const HiveFile*> files_;
  std::vector<std::string> removed_;
  int64_t bytes_ = 0;
};

}  // namespace

bool CollectPartition(const HiveServices& services, const HiveSettings& settings,
                      const LoadedPartition& loaded, const std::string& job_id, bool dry_run,
                      const CancelFlag& cancel, GcReport& report) {
  return Collector(services, settings, loaded, job_id, report).Run(dry_run, cancel);
}

void CollectUploads(const HiveServices& services, const HiveSettings& settings,
                    const std::vector<PartitionId>& partitions, bool dry_run, GcReport& report) {
  std::set<std::string_view> prefixes;
  for (const PartitionId& id : partitions) prefixes.insert(id.key_prefix);
  // Named as we name outputs, in a partition that was asked for.
  const auto is_ours = [&](const std::string& key) {
    const size_t name = key.rfind('/') + 1;
    return prefixes.contains(std::string_view(key).substr(0, name)) && key.ends_with(".parquet") &&
           UuidV7Time(std::string_view(key).substr(name));
  };
  const Time before = services.clock.Now() - settings.options.gc_grace;
  auto aborted = services.store.AbortStaleUploads("", before, is_ours, true);
  if (aborted && !aborted->empty() && !dry_run) {
    if (Status clock = storage::CheckClock(services.store); !clock) {
      aborted = Fail(std::move(clock.error()));
    } else {
      aborted = services.store.AbortStaleUploads("", before, is_ours, false);
    }
  }
  if (!aborted) {
    report.errors.push_back(std::move(aborted.error()).In("uploads that were never completed"));
    return;
  }
  for (const storage::ObjectInfo& upload : *aborted) {
    report.removed.push_back({upload.key, 0,
                              "an upload that was begun at " + FormatTime(upload.modified) +
                                  " and never completed, past the grace of " +
                                  FormatDuration(settings.options.gc_grace)});
  }
}

void DiscardOutputs(const HiveServices& services, const PartitionId& id,
                    const std::vector<std::string>& names, std::vector<std::string>& notes) {
  const size_t most = RemovalsPerLook(services.store);
  for (std::span<const std::string> left = names; !left.empty();) {
    const auto some = left.first(std::min(most, left.size()));
    left = left.subspan(some.size());
    auto snapshot = table::ReadManifest(services.store, id.key_prefix);
    if (!snapshot) {
      notes.push_back("outputs are left to the garbage collection: " + snapshot.error().ToString());
      return;
    }
    std::vector<std::string> keys;
    for (const std::string& name : some) {
      // Fenced by somebody: theirs to remove. Live: then it did commit, whatever we were told.
      const bool named = *snapshot && (IsLive((*snapshot)->manifest, name) ||
                                       FindRetired((*snapshot)->manifest, name) != nullptr);
      if (!named || !guard::kReread) keys.push_back(id.key_prefix + name);
    }
    if (keys.empty()) continue;
    const std::vector<Status> removed = services.store.RemoveMany(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (removed[i] || removed[i].error().code == Code::kNotFound) continue;
      notes.push_back(keys[i].substr(id.key_prefix.size()) +
                      " is left to the garbage collection: " + removed[i].error().ToString());
    }
  }
}

}  // namespace lithify::job
