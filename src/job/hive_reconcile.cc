#include "job/hive_reconcile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "job/hive_events.h"
#include "job/hive_load.h"
#include "table/hive_manifest.h"

namespace lithify::job {
namespace {

using observe::AuditEvent;
using observe::AuditRecord;
using Phase = AuditEvent::Phase;

// One attempt to publish: job, partition, generation.
using Attempt = std::tuple<std::string, std::string, uint64_t>;

Attempt AttemptOf(const AuditEvent& event) {
  return {event.job_id, event.partition, event.generation};
}

bool IsAdoption(const AuditEvent& event) {
  return event.phase == Phase::kAdopted || event.procedure == observe::kHiveAdopt;
}

// What the log knows of one attempt.
struct Trail {
  const AuditEvent* intent = nullptr;
  const AuditEvent* committed = nullptr;
  bool adopted = false;
  bool aborted = false;
  bool unknown = false;
};

struct History {
  std::map<Attempt, Trail> trails;
  std::set<std::string> emitted;   // Keys of event files.
  std::set<std::string> consumed;  // Keys that were inputs of an attempt.
  std::map<std::pair<std::string, uint64_t>, std::string> committed_by;  // -> job id.
  // Keys of late files -> the attempts at adopting them that may have been the one.
  std::multimap<std::string, Attempt> adoptions;
};

// Of one tree.
History ReadHistory(const std::vector<AuditRecord>& records, const std::string& tree) {
  History history;
  for (const AuditRecord& record : records) {
    const AuditEvent& event = record.event;
    if (event.phase == Phase::kRecorded) continue;  // What a server was asked.
    if (event.tree != tree || !event.table.empty()) continue;
    if (event.phase == Phase::kEmitted) history.emitted.insert(event.emitted_file);
    if (event.phase == Phase::kCollected || event.phase == Phase::kEmitted) continue;
    Trail& trail = history.trails[AttemptOf(event)];
    switch (event.phase) {
      case Phase::kIntent:
        trail.intent = &event;
        if (IsAdoption(event)) break;
        for (const std::string& name : event.inputs) {
          history.consumed.insert(event.partition + name);
        }
        break;
      case Phase::kCommitted:
        trail.committed = &event;
        history.committed_by[{event.partition, event.generation}] = event.job_id;
        break;
      case Phase::kAdopted:
        trail.adopted = true;
        history.committed_by[{event.partition, event.generation}] = event.job_id;
        break;
      case Phase::kAborted: trail.aborted = true; break;
      case Phase::kUnknown: trail.unknown = true; break;
      default: break;
    }
  }
  for (const auto& [attempt, trail] : history.trails) {
    if (trail.intent == nullptr || !IsAdoption(*trail.intent) || trail.aborted) continue;
    for (const std::string& name : trail.intent->inputs) {
      history.adoptions.emplace(trail.intent->partition + name, attempt);
    }
  }
  return history;
}

enum class Fate { kCommitted, kAdopted, kAborted, kUnknown, kWait };

struct Finding {
  Fate fate = Fate::kWait;
  std::string why;
};

class Reconciler {
 public:
  Reconciler(const HiveServices& services, const HiveSettings& settings, SweepReport& report)
      : services_(services), settings_(settings), report_(report) {}

  void Run(const CancelFlag& cancel) {
    auto records = services_.audit.ReadAll();
    if (!records) {
      report_.errors.push_back(std::move(records.error()).In("audit log"));
      return;
    }
    History history = ReadHistory(*records, settings_.audit_tree);
    for (auto& [attempt, trail] : history.trails) {
      if (cancel.requested()) return;
      if (trail.intent != nullptr && trail.committed == nullptr && !trail.adopted &&
          !trail.aborted) {
        Decide(history, *trail.intent, trail);
      }
      if (trail.committed != nullptr) EmitMissing(history, trail);
    }
  }

 private:
  void Decide(const History& history, const AuditEvent& intent, Trail& trail) {
    auto finding =
        IsAdoption(intent) ? FindAdoption(history, intent, trail) : Find(history, intent);
    if (!finding) {
      report_.errors.push_back(std::move(finding.error()).In("outcome of job " + intent.job_id));
      return;
    }
    if (finding->fate == Fate::kWait) return;
    if (finding->fate == Fate::kUnknown && trail.unknown) return;  // It was said before.
    if (finding->fate == Fate::kCommitted) {
      // Its job may be alive, have given this generation up, and be committed under a later one: it
      // said so before that, so that after the look at the manifest the log has it.
      auto settled = IsSettledNow(intent);
      if (!settled) {
        report_.errors.push_back(std::move(settled.error()).In("audit log"));
        return;
      }
      if (*settled) return;
    }
    AuditEvent outcome = intent;
    outcome.time = services_.clock.Now();
    outcome.phase = finding->fate == Fate::kCommitted ? Phase::kCommitted
                    : finding->fate == Fate::kAdopted ? Phase::kAdopted
                    : finding->fate == Fate::kAborted ? Phase::kAborted
                                                      : Phase::kUnknown;
    outcome.error = finding->why;
    if (Status appended = services_.audit.Append(outcome); !appended) {
      report_.errors.push_back(std::move(appended.error()).In("audit log"));
      return;
    }
    if (finding->fate == Fate::kUnknown) {
      services_.progress.Line("the outcome of job " + intent.job_id + " in " + intent.partition +
                              " (generation " + std::to_string(intent.generation) +
                              ") cannot be told: " + finding->why);
      return;
    }
    ++report_.reconciled;
    trail.adopted = finding->fate == Fate::kAdopted;
    trail.aborted = finding->fate == Fate::kAborted;
    if (finding->fate == Fate::kCommitted) {
      reconciled_.push_back(std::make_unique<AuditEvent>(std::move(outcome)));
      trail.committed = reconciled_.back().get();
    }
  }

  Result<bool> IsSettledNow(const AuditEvent& intent) {
    LITHIFY_TRY_ASSIGN(const std::vector<AuditRecord> records, services_.audit.ReadAll());
    const History now = ReadHistory(records, settings_.audit_tree);
    const auto trail = now.trails.find(AttemptOf(intent));
    return trail != now.trails.end() &&
           (trail->second.committed != nullptr || trail->second.adopted || trail->second.aborted);
  }

  Result<Finding> Find(const History& history, const AuditEvent& intent) {
    LITHIFY_TRY_ASSIGN(const auto snapshot, table::ReadManifest(services_.store, intent.partition));
    if (!snapshot) {
      return Finding{Fate::kUnknown, "manifest.json is gone, although the attempt built on one"};
    }
    const HiveManifest& manifest = snapshot->manifest;
    if (manifest.generation < intent.generation) return FindUndecided(intent);
    if (manifest.generation == intent.generation && manifest.has_lineage) {
      if (manifest.job_id == intent.job_id && Shows(manifest, intent)) {
        return Finding{Fate::kCommitted, {}};
      }
      // By the same job: its adoption or fence, not its swap.
      return Finding{Fate::kAborted, "job " + manifest.job_id + " published this generation" +
                                         (manifest.job_id == intent.job_id ? " without it" : "")};
    }
    return FindOvertaken(history, intent, manifest);
  }

  // `trail` is what the log had of it when it was read. The manifest may show the work of others
  // who announced it later, so the log is read again before anything is concluded.
  Result<Finding> FindAdoption(const History& history, const AuditEvent& intent,
                               const Trail& trail) {
    LITHIFY_TRY_ASSIGN(const auto snapshot, table::ReadManifest(services_.store, intent.partition));
    if (!snapshot) return Finding{Fate::kUnknown, "manifest.json is gone"};
    // The next generation decides, and the files themselves bring that about: they are late still.
    if (snapshot->manifest.generation < intent.generation) return Finding{};
    if (trail.unknown) {
      // Said before; it only gets better once there is something new in the log.
      Finding before = JudgeAdoption(history, intent, snapshot->manifest);
      if (before.fate == Fate::kUnknown) return before;
    }
    LITHIFY_TRY_ASSIGN(const std::vector<AuditRecord> records, services_.audit.ReadAll());
    const History now = ReadHistory(records, settings_.audit_tree);
    const auto current = now.trails.find(AttemptOf(intent));
    if (current == now.trails.end()) return Finding{};  // Somebody moved the log away.
    if (current->second.adopted || current->second.aborted) return Finding{};
    return JudgeAdoption(now, intent, snapshot->manifest);
  }

  // Which files an adoption made visible is certain, but not, once later generations are there,
  // whether it was this one or another adoption of the same files whose process died as well.
  static Finding JudgeAdoption(const History& history, const AuditEvent& intent,
                               const HiveManifest& manifest) {
    const bool all_known = std::ranges::all_of(intent.inputs, [&](const std::string& name) {
      const RetiredFile* record = FindRetired(manifest, name);
      return IsLive(manifest, name) || history.consumed.contains(intent.partition + name) ||
             (record != nullptr && record->reason != RetiredFile::Reason::kForeign);
    });
    if (manifest.generation == intent.generation && manifest.has_lineage) {
      if (manifest.job_id == intent.job_id && all_known) return {Fate::kAdopted, {}};
      return {Fate::kAborted, "job " + manifest.job_id + " published this generation"};
    }
    const auto winner = history.committed_by.find({intent.partition, intent.generation});
    if (winner != history.committed_by.end() && winner->second != intent.job_id) {
      return {Fate::kAborted, "job " + winner->second + " published this generation"};
    }
    if (!manifest.has_lineage) {
      return {Fate::kUnknown, "another writer replaced the manifest (generation " +
                                  std::to_string(manifest.generation) + ")"};
    }
    if (!all_known) return {Fate::kAborted, "its files are in no generation"};
    return FindAdopter(history, intent);
  }

  static Finding FindAdopter(const History& history, const AuditEvent& intent) {
    bool open = intent.inputs.empty();
    for (const std::string& name : intent.inputs) {
      const auto [begin, end] = history.adoptions.equal_range(intent.partition + name);
      for (auto other = begin; other != end; ++other) {
        const Trail& trail = history.trails.at(other->second);
        if (other->second == AttemptOf(intent) || trail.aborted) continue;
        if (trail.adopted) {
          return {Fate::kAborted, "job " + std::get<0>(other->second) + " adopted " + name};
        }
        open = true;
      }
    }
    if (!open) return {Fate::kAdopted, {}};
    return {Fate::kUnknown, "its files are live, but another adoption may have made them so"};
  }

  // That the generation is what the attempt wanted to publish.
  static bool Shows(const HiveManifest& manifest, const AuditEvent& intent) {
    const auto is_live = [&](const std::string& name) { return IsLive(manifest, name); };
    if (!intent.outputs.empty()) return std::ranges::any_of(intent.outputs, is_live);
    return std::ranges::none_of(intent.inputs, is_live);
  }

  // The generation of the attempt is still to come: its process may be alive. It cannot commit any
  // more once its outputs are gone, which the garbage collection sees to behind a fence. Without
  // outputs (no input had a row) only the next generation decides; its inputs bring that about.
  Result<Finding> FindUndecided(const AuditEvent& intent) {
    if (intent.outputs.empty()) return Finding{};
    if (services_.clock.Now() - intent.time <= settings_.options.gc_grace) return Finding{};
    for (const std::string& name : intent.outputs) {
      auto info = services_.store.Stat(intent.partition + name);
      if (info) return Finding{};
      if (info.error().code != Code::kNotFound) return Fail(std::move(info.error()));
    }
    return Finding{Fate::kAborted, "its process ended before the commit; nothing was published"};
  }

  // Later generations were published, on top of the attempt or instead of it.
  static Finding FindOvertaken(const History& history, const AuditEvent& intent,
                               const HiveManifest& manifest) {
    for (const std::string& name : intent.inputs) {
      const RetiredFile* record = FindRetired(manifest, name);
      if (record != nullptr && record->job_id == intent.job_id &&
          record->reason == RetiredFile::Reason::kSuperseded) {
        return {Fate::kCommitted, {}};
      }
    }
    for (const std::string& name : intent.outputs) {
      const RetiredFile* record = FindRetired(manifest, name);
      if (IsLive(manifest, name) || history.consumed.contains(intent.partition + name) ||
          (record != nullptr && record->reason == RetiredFile::Reason::kSuperseded)) {
        return {Fate::kCommitted, {}};
      }
    }
    const auto winner = history.committed_by.find({intent.partition, intent.generation});
    if (winner != history.committed_by.end() && winner->second != intent.job_id) {
      return {Fate::kAborted, "job " + winner->second + " published this generation"};
    }
    if (!manifest.has_lineage) {
      return {Fate::kUnknown, "another writer replaced the manifest (generation " +
                                  std::to_string(manifest.generation) + ")"};
    }
    return {Fate::kAborted, "its outputs are in no generation; generation " +
                                std::to_string(manifest.generation) + " is live"};
  }

  void EmitMissing(History& history, const Trail& trail) {
    const AuditEvent& committed = *trail.committed;
    if (settings_.audit_series.empty() || committed.emitted_file.empty()) return;
    if (!history.emitted.insert(committed.emitted_file).second) return;
    const Time time = trail.intent != nullptr ? trail.intent->time : committed.time;
    if (Status emitted = EmitEvent(services_, committed, time); !emitted) {
      report_.errors.push_back(std::move(emitted.error()).In("event of job " + committed.job_id));
    }
  }

  const HiveServices& services_;
  const HiveSettings& settings_;
  SweepReport& report_;
  std::vector<std::unique_ptr<AuditEvent>> reconciled_;  // Trails point into it.
};

}  // namespace

void Reconcile(const HiveServices& services, const HiveSettings& settings, const CancelFlag& cancel,
               SweepReport& report) {
  Reconciler(services, settings, report).Run(cancel);
}

}  // namespace lithify::job
