#include "hive_oracle.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim_runner.h"
#include "table/hive_manifest.h"

namespace lithify::sim {
namespace {

using Phase = observe::AuditEvent::Phase;

std::string PrefixOf(const std::string& key) { return key.substr(0, key.rfind('/') + 1); }

std::string EventRowOf(const std::string& prefix, uint64_t generation) {
  // "data/tenant_id=a/date=…/hour=…/"
  const size_t tenant = prefix.find('=') + 1;
  const size_t path = prefix.find('/', tenant);
  return EventRow(prefix.substr(tenant, path - tenant),
                  prefix.substr(path + 1, prefix.size() - path - 2), generation);
}

}  // namespace

std::string EventRow(const std::string& tenant, const std::string& time_path, uint64_t generation) {
  return "event|" + tenant + "|" + time_path + "|" + std::to_string(generation);
}

const HiveOracle::Parsed& HiveOracle::FileOf(const std::string& key) {
  const auto found = files_.find(key);
  if (found != files_.end()) return found->second;
  Parsed parsed;
  const auto blob = store_.Get(key, 1 << 20);
  if (auto file = blob ? DecodeSimFile(blob->bytes) : Result<SimFile>(Fail(blob.error())); file) {
    parsed.marked = file->mark.has_value();
    parsed.rows = std::move(file->rows);
  }
  return files_[key] = std::move(parsed);
}

std::optional<std::string> HiveOracle::Collect(const std::string& prefix,
                                               const std::vector<std::string>& files,
                                               std::set<std::string>& rows) {
  for (const std::string& name : files) {
    for (const std::string& row : FileOf(prefix + name).rows) {
      if (!rows.insert(row).second) return "row " + row + " is seen twice in " + prefix;
    }
  }
  return std::nullopt;
}

void HiveOracle::Acknowledge(const std::string& prefix, const std::vector<std::string>& rows) {
  partitions_[prefix].acknowledged.insert(rows.begin(), rows.end());
}

void HiveOracle::Record(Partition& partition, const HiveManifest& next) {
  ++generations_;
  std::set<std::string> before;
  for (const RetiredFile& file : partition.manifest.retired) before.insert(file.name);
  const std::set<std::string> live(partition.manifest.files.begin(),
                                   partition.manifest.files.end());
  const bool grows = std::ranges::any_of(
      next.files, [&](const std::string& name) { return !live.contains(name); });
  for (const RetiredFile& file : next.retired) {
    if (before.contains(file.name)) continue;
    if (file.reason == RetiredFile::Reason::kFenced) ++fences_;
    if (file.reason != RetiredFile::Reason::kSuperseded) continue;
    partition.superseded[file.name] = clock_.Now();
    if (partition.swaps.emplace(next.generation, next.job_id).second) ++swaps_;
  }
  if (grows && next.generation > 1 && !partition.swaps.contains(next.generation)) {
    partition.adoptions.emplace(next.generation, next.job_id);
  }
  partition.manifest = next;
}

std::optional<std::string> HiveOracle::CheckGeneration(const std::string& prefix,
                                                       Partition& partition,
                                                       const std::string& bytes) {
  const auto next = table::ParseManifest(bytes);
  if (!next) return prefix + ": " + next.error().ToString();
  if (next->generation != partition.manifest.generation + 1) {
    return prefix + ": generation " + std::to_string(next->generation) + " after " +
           std::to_string(partition.manifest.generation);
  }
  std::set<std::string> rows;
  if (auto twice = Collect(prefix, next->files, rows)) return twice;
  for (const std::string& row : partition.visible) {
    if (!rows.contains(row)) {
      return prefix + ": row " + row + " was visible and is not in generation " +
             std::to_string(next->generation);
    }
  }
  partition.visible = std::move(rows);
  partition.manifest_bytes = bytes;
  Record(partition, *next);
  return std::nullopt;
}

std::optional<std::string> HiveOracle::CheckGrace(Partition& partition,
                                                  const std::set<std::string>& names) {
  for (auto at = partition.superseded.begin(); at != partition.superseded.end();) {
    if (names.contains(at->first)) {
      ++at;
      continue;
    }
    if (clock_.Now() - at->second < gc_grace_) return at->first + " was removed within its grace";
    at = partition.superseded.erase(at);
  }
  return std::nullopt;
}

std::optional<std::string> HiveOracle::Check(const std::string& key) {
  const std::string prefix = PrefixOf(key);
  Partition& partition = partitions_[prefix];
  const auto listing = store_.List(prefix);
  std::set<std::string> names;
  for (const storage::ObjectInfo& object : *listing) {
    std::string name = object.key.substr(prefix.size());
    if (IsLiveFileName(name)) names.insert(std::move(name));
  }
  const auto blob = store_.Get(prefix + std::string(table::kManifestName), 1 << 20);
  std::set<std::string> safe;
  if (!blob) {
    if (!partition.manifest_bytes.empty()) return prefix + ": the manifest is gone";
    if (auto twice = Collect(prefix, {names.begin(), names.end()}, safe)) {
      return *twice + " (no manifest)";
    }
  } else {
    if (blob->bytes != partition.manifest_bytes) {
      if (auto wrong = CheckGeneration(prefix, partition, blob->bytes)) return wrong;
    }
    if (auto wrong = CheckGrace(partition, names)) return prefix + ": " + *wrong;
    safe = partition.visible;
    std::set<std::string> known;
    for (const std::string& name : partition.manifest.files) {
      if (!names.contains(name)) return prefix + ": live file " + name + " does not exist";
      known.insert(name);
    }
    for (const RetiredFile& file : partition.manifest.retired) known.insert(file.name);
    for (const std::string& name : names) {
      if (known.contains(name)) continue;
      const Parsed& file = FileOf(prefix + name);
      if (!file.marked) safe.insert(file.rows.begin(), file.rows.end());
    }
  }
  for (const std::string& row : partition.acknowledged) {
    if (!safe.contains(row)) return prefix + ": acknowledged row " + row + " is lost";
  }
  return std::nullopt;
}

std::optional<std::string> HiveOracle::CheckRest() {
  for (auto& [prefix, partition] : partitions_) {
    if (auto wrong = Check(prefix)) return "at rest: " + *wrong;
    if (partition.manifest_bytes.empty()) continue;
    for (const std::string& row : partition.acknowledged) {
      if (!partition.visible.contains(row)) {
        return "at rest: " + prefix + ": row " + row + " is not visible";
      }
    }
    std::set<std::string> live(partition.manifest.files.begin(), partition.manifest.files.end());
    live.insert(std::string(table::kManifestName));
    const auto listing = store_.List(prefix);
    for (const storage::ObjectInfo& object : *listing) {
      if (!live.contains(object.key.substr(prefix.size()))) {
        return "at rest: garbage is left: " + object.key;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> HiveOracle::CheckAdoptions(
    const std::vector<observe::AuditRecord>& records) {
  using Attempt = std::tuple<std::string, uint64_t, std::string>;
  std::map<Attempt, std::set<Phase>> attempts;
  for (const auto& record : records) {
    const observe::AuditEvent& event = record.event;
    const bool adopted = event.phase == Phase::kAdopted;
    if (!adopted && event.procedure != observe::kHiveAdopt) continue;
    std::set<Phase>& phases = attempts[{event.partition, event.generation, event.job_id}];
    if (event.phase != Phase::kIntent && phases.empty()) return "history: unannounced adoption";
    phases.insert(event.phase);
  }
  std::set<Attempt> real;
  for (const auto& [prefix, partition] : partitions_) {
    for (const auto& [generation, job] : partition.adoptions) {
      real.emplace(prefix, generation, job);
      if (!attempts.contains({prefix, generation, job})) {
        return "history: adoption " + std::to_string(generation) + " of " + prefix +
               " was not announced";
      }
    }
  }
  for (const auto& [attempt, phases] : attempts) {
    const std::string what = "history: adoption " + std::to_string(std::get<1>(attempt)) + " of " +
                             std::get<0>(attempt) + " by " + std::get<2>(attempt);
    const bool settled = phases.contains(Phase::kAdopted) || phases.contains(Phase::kAborted);
    if (!settled && !phases.contains(Phase::kUnknown)) return what + " is open";
    if (phases.contains(Phase::kAdopted) && !real.contains(attempt)) return what + " is false";
    if (phases.contains(Phase::kAborted) && real.contains(attempt)) {
      return what + " is a false abort";
    }
  }
  return std::nullopt;
}

std::optional<std::string> HiveOracle::CheckHistory(
    const std::vector<observe::AuditRecord>& records, bool events) {
  if (auto wrong = CheckAdoptions(records)) return wrong;
  using Attempt = std::tuple<std::string, uint64_t, std::string>;
  std::set<Attempt> intents;
  std::set<Attempt> committed;
  std::set<Attempt> aborted;
  for (const auto& record : records) {
    const observe::AuditEvent& event = record.event;
    if (event.procedure == observe::kHiveAdopt) continue;  // CheckAdoptions.
    const Attempt attempt(event.partition, event.generation, event.job_id);
    if (event.phase == Phase::kIntent) intents.insert(attempt);
    if (event.phase == Phase::kAborted) aborted.insert(attempt);
    if (event.phase != Phase::kCommitted) continue;
    if (!intents.contains(attempt)) return "history: a commit without an intent before it";
    committed.insert(attempt);
  }
  std::set<Attempt> real;
  std::set<std::string> expected;
  for (const auto& [prefix, partition] : partitions_) {
    for (const auto& [generation, job] : partition.swaps) {
      real.emplace(prefix, generation, job);
      expected.insert(EventRowOf(prefix, generation));
    }
  }
  for (const Attempt& attempt : intents) {
    const std::string what = "history: generation " + std::to_string(std::get<1>(attempt)) +
                             " of " + std::get<0>(attempt) + " by " + std::get<2>(attempt);
    if (committed.contains(attempt) && !real.contains(attempt)) return what + " is a false commit";
    if (!committed.contains(attempt) && real.contains(attempt)) return what + " has no outcome";
    if (aborted.contains(attempt) && real.contains(attempt)) return what + " is a false abort";
    if (!committed.contains(attempt) && !aborted.contains(attempt)) return what + " is open";
  }
  if (committed != real) return "history: commits on record are not those that happened";
  if (!events) return std::nullopt;
  std::set<std::string> found;
  for (const std::string& key : store_.Keys()) {
    if (!key.starts_with("audit/") || !key.ends_with(".parquet")) continue;
    for (const std::string& row : FileOf(key).rows) {
      if (!found.insert(row).second) return "history: event " + row + " twice";
    }
  }
  if (found != expected) {
    return "history: " + std::to_string(found.size()) + " events for " +
           std::to_string(expected.size()) + " commits";
  }
  return std::nullopt;
}

}  // namespace lithify::sim
