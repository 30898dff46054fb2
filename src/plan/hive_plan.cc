#include "plan/hive_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/guard.h"
#include "base/random.h"
#include "plan/unknown_time.h"

namespace lithify::plan {
namespace {

using FileRefs = std::vector<const HiveFile*>;

constexpr Duration kExpiryMargin = std::chrono::hours(24);

int64_t BytesOf(const FileRefs& files) {
  int64_t bytes = 0;
  for (const HiveFile* file : files) bytes += file->size;
  return bytes;
}

std::string Files(size_t n) { return std::to_string(n) + (n == 1 ? " file" : " files"); }

FileRefs LiveFiles(const HivePartitionState& state) {
  FileRefs live;
  for (const HiveFile& file : state.files) {
    if (file.state == FileState::kLive || file.state == FileState::kLate) live.push_back(&file);
  }
  return live;
}

// Why the partition may not be rewritten at `now`, whatever its files are like.
std::optional<std::pair<Verdict, std::string>> CheckTime(const PartitionId& id,
                                                         const FileRefs& live,
                                                         const HiveOptions& options, Time now) {
  Time sealed_from;
  std::string what;
  if (id.end) {
    sealed_from = *id.end + options.grace;
    what = "the bucket ends at " + FormatTime(*id.end);
  } else {
    Time newest = Time::min();
    for (const HiveFile* file : live) newest = std::max(newest, file->modified);
    sealed_from = newest + options.grace;
    what = "the newest file is of " + FormatTime(newest);
  }
  if (now < sealed_from) {
    return std::pair(Verdict::kNotSealed, what + " and the grace is " +
                                              FormatDuration(options.grace) + ": sealed in " +
                                              FormatDuration(sealed_from - now));
  }
  if (options.retention > Duration::zero() && id.end) {
    const Time removed_at = *id.end + options.retention;
    if (removed_at - now < kExpiryMargin) {
      return std::pair(Verdict::kExpiring, "retention removes it at " + FormatTime(removed_at) +
                                               ", less than 24 h away: not worth moving");
    }
  }
  return std::nullopt;
}

// A set of inputs with what would come of it.
struct Choice {
  FileRefs inputs;
  int64_t bytes = 0;
  int64_t outputs = 0;
  size_t left = 0;  // Files that belong to it and exceed what one plan may take.
  bool reduces() const { return outputs < static_cast<int64_t>(inputs.size()); }
};

// Takes out what exceeds the bounds of one plan. The smallest files stay in: no other set of as
// many files gives fewer outputs, so a partition that can be reduced is (T19), and what comes of
// this plan is merged with the rest as soon as it is among the smallest. Returns how many were
// taken out.
size_t Cap(FileRefs& inputs, const HiveOptions& options) {
  const size_t all = inputs.size();
  const auto smaller = [](const HiveFile* a, const HiveFile* b) {
    return std::tie(a->size, a->name) < std::tie(b->size, b->name);
  };
  if (std::cmp_greater(all, options.max_input_files) || BytesOf(inputs) > options.max_input_bytes) {
    std::ranges::sort(inputs, smaller);
    int64_t bytes = 0;
    size_t taken = 0;
    while (taken < all && std::cmp_less(taken, options.max_input_files) &&
           inputs[taken]->size <= options.max_input_bytes - bytes) {
      bytes += inputs[taken++]->size;
    }
    inputs.resize(taken);
  }
  return all - inputs.size();
}

// What would stay one small file takes in the smallest other file: at once, so that the next sweep
// has nothing left to do. One file alone always gets a partner: without one it could only move.
void AddPartner(FileRefs& inputs, const FileRefs& live, const HiveOptions& options) {
  const int64_t bytes = BytesOf(inputs);
  if (inputs.empty() || (inputs.size() > 1 && bytes >= options.small_file_bytes)) return;
  if (std::cmp_greater_equal(inputs.size(), options.max_input_files)) return;
  const int64_t most = std::min(options.file_bytes_max, options.max_input_bytes);
  const int64_t room = inputs.size() == 1 ? most : std::min(most, options.target_file_bytes);
  const std::unordered_set<const HiveFile*> taken(inputs.begin(), inputs.end());
  const HiveFile* partner = nullptr;
  for (const HiveFile* file : live) {
    if (file->size > room - bytes || taken.contains(file)) continue;
    if (partner == nullptr || file->size < partner->size) partner = file;
  }
  if (partner != nullptr) inputs.push_back(partner);
}

Choice MakeChoice(FileRefs inputs, const FileRefs& live, const HiveOptions& options) {
  Choice choice;
  choice.inputs = std::move(inputs);
  choice.left = Cap(choice.inputs, options);
  // What is left joins in one of the next plans.
  if (choice.left == 0) AddPartner(choice.inputs, live, options);
  std::ranges::sort(choice.inputs, {}, &HiveFile::name);
  choice.bytes = BytesOf(choice.inputs);
  const int64_t target = std::max<int64_t>(1, options.target_file_bytes);
  choice.outputs = std::max<int64_t>(1, choice.bytes / target + (choice.bytes % target != 0));
  return choice;
}

// The widest set that gives fewer files: all below the band, if there are many, else the small
// ones (T19: a plan that does not give fewer files is none).
Choice ChooseInputs(const FileRefs& live, const HiveOptions& options) {
  FileRefs small;
  FileRefs below_band;
  for (const HiveFile* file : live) {
    if (file->size < options.small_file_bytes) small.push_back(file);
    if (file->size < std::max(options.small_file_bytes, options.file_bytes_min)) {
      below_band.push_back(file);
    }
  }
  if (static_cast<int64_t>(below_band.size()) > options.min_files) {
    Choice wide = MakeChoice(std::move(below_band), live, options);
    if (wide.reduces() || small.empty()) return wide;
  }
  return MakeChoice(std::move(small), live, options);
}

// "37 live files > 4 and 37 below 128.0 MiB".
std::string TriggerSentence(const PartitionPlan& plan, const HiveOptions& options) {
  std::string text;
  const bool many = plan.live_files > options.min_files;
  if (many) {
    text = std::to_string(plan.live_files) + " live files > " + std::to_string(options.min_files);
  }
  if (plan.small_files > 0) {
    text += (many ? " and " : "") + std::to_string(plan.small_files) +
            (many                    ? ""
             : plan.small_files == 1 ? " live file"
                                     : " live files") +
            " below " + FormatBytes(options.small_file_bytes);
  }
  return text;
}

std::string IrreducibleReason(const Choice& choice, const HiveOptions& options) {
  if (choice.inputs.empty()) {
    return "but none is below " + FormatBytes(options.small_file_bytes) + " and not more than " +
           std::to_string(options.min_files) + " are below " + FormatBytes(options.file_bytes_min);
  }
  if (choice.left > 0) {
    return "but the " + Files(choice.inputs.size()) + " (" + FormatBytes(choice.bytes) +
           ") that one plan may take would not become fewer";
  }
  if (choice.inputs.size() == 1) {
    return "but there is no other file to merge its " + FormatBytes(choice.bytes) + " with up to " +
           FormatBytes(options.file_bytes_max);
  }
  return "but " + Files(choice.inputs.size()) + " (" + FormatBytes(choice.bytes) +
         ") would become " + std::to_string(choice.outputs) + " again at " +
         FormatBytes(options.target_file_bytes) + " each";
}

// A choice that reduces, as a candidate, unless one of its inputs cannot be read.
void FillCandidate(const HivePartitionState& state, const Choice& choice,
                   const HiveOptions& options, PartitionPlan& plan) {
  if (const HiveFile* file = UnnameableFile(state)) {
    plan.verdict = Verdict::kUnsupported;
    plan.reason = "a manifest cannot name " + JsonQuote(file->name) +
                  ", so its rows would vanish: rename or remove it";
    return;
  }
  for (const HiveFile* file : choice.inputs) {
    if (file->unsupported.empty()) continue;
    plan.verdict = Verdict::kUnsupported;
    plan.reason = file->name + ": " + file->unsupported;
    return;
  }
  plan.verdict = Verdict::kCandidate;
  for (const HiveFile* file : choice.inputs) plan.inputs.push_back(file->name);
  plan.bytes_in = choice.bytes;
  LITHIFY_CHECK(choice.outputs < std::numeric_limits<int>::max(), "outputs below inputs");
  plan.outputs = static_cast<int>(choice.outputs);
  plan.reason = TriggerSentence(plan, options) + ": " + Files(choice.inputs.size()) + " (" +
                FormatBytes(choice.bytes) + ") become " + std::to_string(choice.outputs);
  if (choice.left > 0) plan.reason += "; " + Files(choice.left) + " more in the next sweeps";
}

FileState ClassifyUnlisted(const HiveFile& file, bool has_lineage, Time manifest_modified) {
  if (has_lineage) return FileState::kLate;
  // Another writer's manifest: what it superseded may still lie here, so only a file that is
  // certainly younger than the manifest is new data (Q4).
  if (file.modified <= manifest_modified) return FileState::kAmbiguous;
  const std::optional<Time> created = UuidV7Time(file.name);
  if (created && *created <= manifest_modified) return FileState::kAmbiguous;
  return FileState::kLate;
}

// Grace, one file at a time.
class GcPlanner {
 public:
  GcPlanner(const HivePartitionState& state, const HiveOptions& options, Time now)
      : has_manifest_(state.manifest.has_value()), grace_(options.gc_grace), now_(now) {
    if (!has_manifest_) return;
    for (const std::string& name : state.manifest->manifest.files) live_.insert(name);
    for (const RetiredFile& file : state.manifest->manifest.retired) retired_[file.name] = &file;
  }

  std::pair<GcAction, std::string> Decide(const HiveFile& file) const {
    if (live_.contains(file.name)) return {GcAction::kKeep, "live"};
    switch (file.state) {
      case FileState::kTemporary: return IfOld(file, GcAction::kRemove, "temporary file");
      case FileState::kClaim: return IfOld(file, GcAction::kRemoveClaim, "claim");
      case FileState::kRetired: return DecideRetired(file);
      case FileState::kOwnOrphan:
        if (!has_manifest_) {
          return {GcAction::kKeep, "output of an attempt, but without a manifest readers count it"};
        }
        return IfOld(file, GcAction::kFenceRemove, "output of an attempt that did not commit");
      case FileState::kLive: return {GcAction::kKeep, "live"};
      case FileState::kLate: return {GcAction::kKeep, "late data, to be adopted"};
      case FileState::kAmbiguous: return {GcAction::kKeep, AmbiguousReason(file)};
      case FileState::kUnreadable:
        return {GcAction::kKeep, "not in the manifest and its footer cannot be read"};
      case FileState::kOther: return {GcAction::kKeep, "not a file of lithify's"};
    }
    return {GcAction::kKeep, "unknown state"};
  }

 private:
  std::string AmbiguousReason(const HiveFile& file) const {
    const auto record = retired_.find(file.name);
    if (record != retired_.end() && ReusesName(file, *record->second)) {
      return "written under the name of a file that was retired at " +
             FormatTime(record->second->at);
    }
    return "not in the manifest that another writer left: late or dead, nobody can tell";
  }

  std::pair<GcAction, std::string> DecideRetired(const HiveFile& file) const {
    const auto record = retired_.find(file.name);
    if (record == retired_.end()) {
      return {GcAction::kKeep, "no record of its retirement"};
    }
    const RetiredFile& retired = *record->second;
    if (ReusesName(file, retired)) return {GcAction::kKeep, AmbiguousReason(file)};
    if (retired.reason == RetiredFile::Reason::kForeign) {
      return {GcAction::kKeep, "was there, unlisted, when lithify took over: late or dead"};
    }
    const std::string what =
        retired.reason == RetiredFile::Reason::kFenced ? "fenced" : "superseded";
    if (retired.at <= kUnknownTime) {
      return {GcAction::kKeep, what + " at an unknown time"};
    }
    if (!Old(retired.at)) {
      return {GcAction::kKeepYoung,
              what + " at " + FormatTime(retired.at) + ", " + Wait(retired.at)};
    }
    return IfOld(file, GcAction::kRemove, what + " at " + FormatTime(retired.at));
  }

  std::pair<GcAction, std::string> IfOld(const HiveFile& file, GcAction action,
                                         const std::string& what) const {
    if (file.modified <= kUnknownTime) {
      return {GcAction::kKeep, what + ", modified at an unknown time"};
    }
    if (!Old(file.modified)) {
      return {GcAction::kKeepYoung,
              what + ", modified at " + FormatTime(file.modified) + ", " + Wait(file.modified)};
    }
    return {action, what + ", modified at " + FormatTime(file.modified) + ", past the grace of " +
                        FormatDuration(grace_)};
  }

  bool Old(Time t) const { return !guard::kGrace || now_ - t >= grace_; }

  std::string Wait(Time t) const {
    if (t > now_) return "which is in the future";
    return "kept for another " + FormatDuration(t + grace_ - now_);
  }

  bool has_manifest_;
  Duration grace_;
  Time now_;
  std::unordered_set<std::string_view> live_;
  std::unordered_map<std::string_view, const RetiredFile*> retired_;
};

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kCandidate: return "candidate";
    case Verdict::kNotSealed: return "not_sealed";
    case Verdict::kNothingToGain: return "nothing_to_gain";
    case Verdict::kIrreducible: return "irreducible";
    case Verdict::kExpiring: return "expiring";
    case Verdict::kUnsupported: return "unsupported";
    case Verdict::kEmpty: return "empty";
    case Verdict::kClaimed: return "claimed";
    case Verdict::kNotChosen: return "not_chosen";
  }
  return "empty";
}

PartitionPlan PlanPartition(const HivePartitionState& state, const HiveOptions& options, Time now) {
  PartitionPlan plan;
  const FileRefs live = LiveFiles(state);
  plan.live_files = static_cast<int64_t>(live.size());
  plan.live_bytes = BytesOf(live);
  plan.small_files = std::count_if(live.begin(), live.end(), [&](const HiveFile* file) {
    return file->size < options.small_file_bytes;
  });
  if (live.empty()) {
    plan.reason = "0 live files";
    return plan;
  }
  if (auto wait = CheckTime(state.id, live, options, now)) {
    std::tie(plan.verdict, plan.reason) = std::move(*wait);
    return plan;
  }
  if (plan.live_files <= options.min_files && plan.small_files == 0) {
    plan.verdict = Verdict::kNothingToGain;
    plan.reason = std::to_string(plan.live_files) +
                  (plan.live_files == 1 ? " live file" : " live files") + ", not more than " +
                  std::to_string(options.min_files) + ", and none below " +
                  FormatBytes(options.small_file_bytes);
    return plan;
  }
  const Choice choice = ChooseInputs(live, options);
  if (!choice.reduces()) {
    plan.verdict = Verdict::kIrreducible;
    plan.reason = TriggerSentence(plan, options) + ", " + IrreducibleReason(choice, options);
    return plan;
  }
  FillCandidate(state, choice, options, plan);
  return plan;
}

Time SealingNow(Time now, const HivePartitionState& state) {
  for (const HiveFile& file : state.files) now = std::max(now, file.modified);
  return now;
}

void ClassifyFiles(HivePartitionState& state, Time manifest_modified) {
  std::unordered_set<std::string_view> live;
  std::unordered_map<std::string_view, const RetiredFile*> retired;
  if (state.manifest) {
    for (const std::string& name : state.manifest->manifest.files) live.insert(name);
    for (const RetiredFile& file : state.manifest->manifest.retired) {
      retired.emplace(file.name, &file);
    }
  }
  for (HiveFile& file : state.files) {
    const auto record = retired.find(file.name);
    if (file.name.ends_with(".tmp") && file.name.find('/') == std::string::npos) {
      file.state = FileState::kTemporary;
    } else if (file.name == kClaimName) {
      file.state = FileState::kClaim;
    } else if (!IsLiveFileName(file.name)) {
      file.state = FileState::kOther;
    } else if (!state.manifest || live.contains(file.name)) {
      file.state = FileState::kLive;
    } else if (record != retired.end()) {
      const bool undecided = record->second->reason == RetiredFile::Reason::kForeign ||
                             ReusesName(file, *record->second);
      file.state = undecided ? FileState::kAmbiguous : FileState::kRetired;
    } else {
      file.state = ClassifyUnlisted(file, state.manifest->manifest.has_lineage, manifest_modified);
    }
  }
}

std::vector<std::string> MissingLiveFiles(const HivePartitionState& state) {
  std::vector<std::string> missing;
  if (!state.manifest) return missing;
  std::unordered_set<std::string_view> present;
  for (const HiveFile& file : state.files) present.insert(file.name);
  for (const std::string& name : state.manifest->manifest.files) {
    if (!present.contains(name)) missing.push_back(name);
  }
  return missing;
}

const HiveFile* UnnameableFile(const HivePartitionState& state) {
  if (state.manifest) return nullptr;
  for (const HiveFile& file : state.files) {
    const std::string_view name = file.name;
    if (file.state == FileState::kOther && name.ends_with(".parquet") && !name.starts_with('.') &&
        name.find('/') == std::string_view::npos) {
      return &file;
    }
  }
  return nullptr;
}

bool ReusesName(const HiveFile& file, const RetiredFile& retired) {
  return retired.reason != RetiredFile::Reason::kForeign && retired.at > kUnknownTime &&
         file.modified > retired.at;
}

std::vector<GcDecision> PlanGc(const HivePartitionState& state, const HiveOptions& options,
                               Time now) {
  const GcPlanner planner(state, options, now);
  std::vector<GcDecision> decisions;
  decisions.reserve(state.files.size());
  for (const HiveFile& file : state.files) {
    GcDecision decision{file.name, file.size, GcAction::kKeep, {}};
    std::tie(decision.action, decision.reason) = planner.Decide(file);
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace lithify::plan
