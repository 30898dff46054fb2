#include "job/hive_partition_run.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "job/explained_files.h"
#include "job/hive_events.h"
#include "job/hive_gc.h"
#include "table/hive_manifest.h"

namespace lithify::job {
namespace {

using observe::AuditEvent;
using Phase = AuditEvent::Phase;

constexpr int kAdoptionsMax = 3;
constexpr int kSwapsMax = 3;  // Of one swap that is known not to have been applied.
constexpr int kRebasesMax = 3;

// Errors that depend on what is in the tree and in the configuration, not on the moment.
bool IsLasting(Code code) {
  return code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kInvalid ||
         code == Code::kLimit || code == Code::kInternal;
}

}  // namespace

PartitionRun::PartitionRun(const HiveServices& services, const HiveSettings& settings,
                           const PartitionId& id, RunShare share, bool dry_run,
                           const CancelFlag& cancel)
    : services_(services),
      settings_(settings),
      id_(id),
      share_(share),
      footers_at_once_(FootersAtOnce(services, settings, share.threads)),
      dry_run_(dry_run),
      cancel_(cancel),
      job_id_(MakeUuidV7(services.clock, services.random)),
      committer_(services.store),
      begin_(services.clock.Monotonic()) {
  outcome_.id = id;
}

PartitionOutcome PartitionRun::Run(GcReport& gc) {
  Status done = Prepare(&gc);
  if (done) done = CarryOut();
  return End(std::move(done));
}

PartitionRun::Looked PartitionRun::Look(GcReport& gc) {
  only_looks_ = true;
  Status done = Prepare(&gc);
  if (done && outcome_.plan.verdict == plan::Verdict::kCandidate) {
    // What loading has to say is said by who loads it anew; so is what a dry run would adopt.
    if (dry_run_) outcome_.adopted.clear();
    outcome_.took = services_.clock.Monotonic() - begin_;
    return {.outcome = std::move(outcome_), .candidate = true};
  }
  if (done) done = CarryOut();
  return {.outcome = End(std::move(done)), .candidate = false};
}

PartitionOutcome PartitionRun::Resume(PartitionOutcome looked) {
  outcome_.adopted = std::move(looked.adopted);
  outcome_.notes = std::move(looked.notes);
  outcome_.took = looked.took;
  Status done = Prepare(nullptr);
  if (done) done = CarryOut();
  return End(std::move(done));
}

PartitionOutcome PartitionRun::End(Status done) {
  if (claim_) {
    claim_->Release();
    for (std::string& note : claim_->TakeNotes()) outcome_.notes.push_back(std::move(note));
  }
  if (!done) {
    if (rewriting_ && IsLasting(done.error().code)) RememberFailure(done.error());
    switch (done.error().code) {
      case Code::kCancelled: outcome_.outcome = Outcome::kCancelled; break;
      case Code::kConflict: outcome_.outcome = Outcome::kLostRace; break;
      default: outcome_.outcome = Outcome::kFailed; break;
    }
    outcome_.error = std::move(done.error());
  }
  outcome_.generation = loaded_.generation();
  outcome_.notes.insert(outcome_.notes.end(), loaded_.notes.begin(), loaded_.notes.end());
  outcome_.took += services_.clock.Monotonic() - begin_;
  if (services_.metrics != nullptr) outcome_.live_file_bytes = LiveFileBytes();
  return std::move(outcome_);
}

std::vector<int64_t> PartitionRun::LiveFileBytes() const {
  const bool committed = outcome_.outcome == Outcome::kCommitted;
  std::unordered_set<std::string_view> gone;
  if (committed) gone.insert(outcome_.plan.inputs.begin(), outcome_.plan.inputs.end());
  std::vector<int64_t> sizes;
  for (const HiveFile& file : loaded_.state.files) {
    const bool live = file.state == FileState::kLive || file.state == FileState::kLate;
    if (live && !gone.contains(file.name)) sizes.push_back(file.size);
  }
  if (committed) sizes.insert(sizes.end(), output_bytes_.begin(), output_bytes_.end());
  return sizes;
}

Status PartitionRun::Prepare(GcReport* gc) {
  LITHIFY_TRY(cancel_.Check());
  LITHIFY_TRY(Load());
  if (gc != nullptr) LITHIFY_TRY(Collect(*gc));
  LITHIFY_TRY(cancel_.Check());
  return Decide();
}

Status PartitionRun::CarryOut() {
  if (!dry_run_ && outcome_.plan.verdict == plan::Verdict::kCandidate) {
    LITHIFY_TRY(cancel_.Check());
    LITHIFY_TRY(CheckFailedBefore());
    LITHIFY_TRY(Claim());
  }
  if (outcome_.plan.verdict != plan::Verdict::kCandidate) {
    outcome_.outcome = outcome_.adopted.empty() || dry_run_ ? Outcome::kSkipped : Outcome::kAdopted;
    return {};
  }
  services_.progress.AddTotal(outcome_.plan.bytes_in, 0);
  if (dry_run_) {
    outcome_.outcome = Outcome::kPlanned;
    return Explain();
  }
  LITHIFY_TRY(cancel_.Check());
  LITHIFY_TRY(TakeOver());
  return Rewrite();
}

Status PartitionRun::Decide() {
  if (loaded_.irregular) return Fail(*loaded_.trouble);
  LITHIFY_TRY(Adopt());
  if (loaded_.trouble) return Fail(*loaded_.trouble);
  return Plan();
}

Status PartitionRun::Load() {
  LITHIFY_TRY_ASSIGN(loaded_, LoadPartition(services_, settings_.options, id_, footers_at_once_));
  return {};
}

Status PartitionRun::Collect(GcReport& gc) {
  if (!CollectPartition(services_, settings_, loaded_, job_id_, dry_run_, cancel_, gc)) return {};
  return Load();
}

Status PartitionRun::Adopt() {
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::string> late = loaded_.Names(FileState::kLate);
    if (late.empty()) return {};
    if (dry_run_) {
      outcome_.adopted = late;
      return {};
    }
    Status adopted = AdoptOnce(late);
    if (adopted) return {};
    if (adopted.error().code != Code::kConflict || attempt == kAdoptionsMax) {
      return Fail(std::move(adopted.error()).In(id_.key_prefix));
    }
    LITHIFY_TRY(cancel_.Check());
    LITHIFY_TRY(Load());
  }
}

Status PartitionRun::AdoptOnce(const std::vector<std::string>& late) {
  // `foreign` is empty unless the manifest is another writer's.
  const std::vector<std::string> foreign =
      loaded_.state.manifest->manifest.has_lineage ? std::vector<std::string>() : loaded_.foreign;
  AuditEvent event = MakeAdoption(late);
  if (Status intent = services_.audit.Append(event); !intent) {
    // T25: nothing is published without its intent on record.
    return Fail(std::move(intent.error()).In("audit log: the intent could not be recorded"));
  }
  auto published = committer_.Adopt(Scope(), *loaded_.state.manifest, late, foreign);
  event.time = services_.clock.Now();
  if (!published) {
    RecordFailedAdoption(std::move(event), published.error());
    return Fail(std::move(published.error()));
  }
  loaded_.state.manifest = std::move(*published);
  for (HiveFile& file : loaded_.state.files) {
    if (file.state == FileState::kLate) file.state = FileState::kLive;
  }
  event.phase = Phase::kAdopted;
  outcome_.adopted.insert(outcome_.adopted.end(), late.begin(), late.end());
  if (!foreign.empty()) {
    outcome_.notes.push_back(std::to_string(foreign.size()) +
                             " unlisted files of another writer are neither read nor removed");
  }
  Append(event);
  return {};
}

void PartitionRun::RecordFailedAdoption(AuditEvent event, const Error& error) {
  event.error = error.ToString();
  if (error.code == Code::kUnknownOutcome || error.code == Code::kTransient) {
    // Not there now may be there later: a delayed request.
    event.phase = Phase::kUnknown;
    if (error.code == Code::kUnknownOutcome) services_.progress.Line(event.error);
    return Append(event);
  }
  if (error.code == Code::kConflict) {
    // Somebody may have published over our adoption before we could see that it was applied. Where
    // this is not ruled out, the next sweep finds the outcome.
    const auto now = table::ReadManifest(services_.store, id_.key_prefix);
    const bool anothers = now && *now && (*now)->manifest.generation == event.generation &&
                          (*now)->manifest.job_id != job_id_;
    if (!anothers) return;
  }
  event.phase = Phase::kAborted;
  Append(event);
}

AuditEvent PartitionRun::MakeAdoption(const std::vector<std::string>& late) const {
  AuditEvent event = MakeEvent(Phase::kIntent);
  event.procedure = observe::kHiveAdopt;
  event.inputs = late;
  for (const HiveFile& file : loaded_.state.files) {
    if (file.state != FileState::kLate) continue;
    event.rows += file.rows.value_or(0);
    event.bytes_in += file.size;
  }
  event.generation = loaded_.generation() + 1;
  return event;
}

Status PartitionRun::TakeOver() {
  if (!loaded_.state.manifest || loaded_.state.manifest->manifest.has_lineage) return {};
  return AdoptOnce({});
}

Status PartitionRun::Plan() {
  const Time local = services_.clock.Now();
  const Time now = plan::SealingNow(local, loaded_.state);
  outcome_.plan = plan::PlanPartition(loaded_.state, settings_.options, now);
  Choose();
  if (only_looks_ && outcome_.plan.verdict == plan::Verdict::kCandidate) return {};
  if (now - local > settings_.options.grace) {
    services_.progress.Line("the newest object in " + id_.key_prefix + " is " +
                            FormatDuration(now - local) +
                            " ahead of this machine's clock; check the clocks (R315)");
  }
  if (outcome_.plan.verdict != plan::Verdict::kCandidate) return {};
  // Only now is it worth to open the files: rows, and what cannot be rewritten.
  Status inspected = InspectLive(services_, loaded_, footers_at_once_);
  if (!inspected && inspected.error().code == Code::kNotFound) {
    return Fail(Vanished(std::move(inspected.error())));
  }
  LITHIFY_TRY(std::move(inspected));
  outcome_.plan = plan::PlanPartition(loaded_.state, settings_.options, now);
  Choose();
  return {};
}

void PartitionRun::Choose() {
  plan::PartitionPlan& plan = outcome_.plan;
  if (!settings_.only_partitions || plan.verdict != plan::Verdict::kCandidate) return;
  const auto chosen =
      std::ranges::find(*settings_.only_partitions, id_.key_prefix, &ChosenPartition::key_prefix);
  const bool known = chosen != settings_.only_partitions->end();
  if (known && plan.bytes_in <= chosen->bytes_max) return;
  plan.reason = known ? "it has grown to " + FormatBytes(plan.bytes_in) + " of inputs since " +
                            FormatBytes(chosen->bytes_max) + " of it were chosen"
                      : "others come first";
  plan.verdict = plan::Verdict::kNotChosen;
  plan.inputs.clear();
  plan.bytes_in = 0;
  plan.outputs = 0;
}

Status PartitionRun::Claim() {
  if (settings_.claim_ttl <= Duration::zero()) return {};
  claim_.emplace(services_, id_, job_id_, settings_.claim_ttl);
  if (const auto other = claim_->Take()) {
    plan::PartitionPlan& plan = outcome_.plan;
    plan.verdict = plan::Verdict::kClaimed;
    plan.reason = "claimed by " + other->holder + " until " + FormatTime(other->expires_at);
    plan.inputs.clear();
    plan.bytes_in = 0;
    plan.outputs = 0;
    return {};
  }
  // Between our look and our claim somebody may have done the work and gone.
  const auto now = table::ReadManifest(services_.store, id_.key_prefix);
  if (!now) return {};  // No matter of the claim: the rewrite looks again.
  const std::string planned = loaded_.state.manifest ? loaded_.state.manifest->version : "";
  if (planned == (*now ? (*now)->version : "")) return {};
  LITHIFY_TRY(Load());
  return Decide();
}

Status PartitionRun::CheckFailedBefore() {
  auto error =
      services_.memory->Recall(id_.key_prefix, PlanIdentity(), services_.clock.Monotonic());
  if (!error) return {};
  return Fail(std::move(*error));
}

void PartitionRun::RememberFailure(const Error& error) {
  services_.memory->Remember(id_.key_prefix, PlanIdentity(), error, services_.clock.Now(),
                             services_.clock.Monotonic());
}

uint64_t PartitionRun::PlanIdentity() const {
  std::string all = std::to_string(loaded_.generation());
  for (const std::string& name : outcome_.plan.inputs) {
    all += '/' + name;
    const auto file = std::ranges::lower_bound(loaded_.state.files, name, {}, &HiveFile::name);
    if (file == loaded_.state.files.end() || file->name != name) continue;
    all += '/' + std::to_string(file->size) + '/' +
           std::to_string(file->modified.time_since_epoch().count());
  }
  // Two of them with one hash would cost a few sweeps.
  return std::hash<std::string>()(all);
}

rewrite::GroupRequest PartitionRun::MakeRequest() {
  rewrite::GroupRequest request;
  request.job_id = job_id_;
  request.partition = id_.key_prefix;
  std::unordered_map<std::string_view, const HiveFile*> files;
  for (const HiveFile& file : loaded_.state.files) files.try_emplace(file.name, &file);
  for (const std::string& name : outcome_.plan.inputs) {
    const auto found = files.find(name);
    LITHIFY_CHECK(found != files.end(), "the plan names a file that is not there");
    const HiveFile& file = *found->second;
    request.inputs.push_back({.key = id_.key_prefix + name,
                              .size = file.size,
                              .version = file.version,
                              .modified = file.modified});
    inputs_as_planned_.push_back({id_.key_prefix + name, file.size, file.modified});
  }
  request.rows = MakeRowRule(LayoutOf(settings_, id_), id_);
  request.ordering = settings_.ordering;
  request.shape = settings_.shape;
  request.shape.outputs = outcome_.plan.outputs;
  request.shape.outputs_max = static_cast<int>(request.inputs.size()) - 1;
  request.shape.file_size_bytes_target = settings_.options.target_file_bytes;
  request.verify = settings_.verify;
  request.threads = share_.threads;
  request.memory_bytes = share_.memory_bytes;
  request.new_name = [this] { return MakeUuidV7(services_.clock, services_.random) + ".parquet"; };
  if (share_.loads != nullptr) {
    request.turn_to_load = [this](const CancelFlag& cancel) { return share_.loads->Take(cancel); };
  }
  request.before_publish = [this] { return BeforePublish(); };
  request.on_progress = [this](int64_t bytes) {
    services_.progress.AddBytes(bytes);
    if (claim_) claim_->Renew();
  };
  return request;
}

Status PartitionRun::Explain() {
  const auto files = std::ssize(outcome_.plan.inputs);
  if (share_.explained_files_left->fetch_sub(files) <= 0) {
    outcome_.notes.push_back(WhyNotExplained());
    return {};
  }
  auto plan = services_.runner.Explain(MakeRequest(), cancel_);
  if (plan) {
    outcome_.tier_plan = std::move(*plan);
  } else if (plan.error().code == Code::kCancelled) {
    return Fail(std::move(plan.error()));
  } else {
    outcome_.notes.push_back("a rewrite would fail: " + plan.error().ToString());
  }
  return {};
}

Status PartitionRun::Rewrite() {
  rewriting_ = true;
  observe::Span span(services_.telemetry, "rewrite partition", services_.trace);
  span.Set(attribute::kOuriosTenant, id_.tenant);
  auto report = services_.runner.Run(MakeRequest(), cancel_);
  if (!report) {
    Error error = std::move(report.error()).In(id_.key_prefix);
    if (error.code == Code::kNotFound) error = Vanished(std::move(error));
    if (error.code == Code::kUnknownOutcome) services_.progress.Line(error.ToString());
    span.Fail(error);
    return Fail(std::move(error));
  }
  outcome_.notes.insert(outcome_.notes.end(), report->notes.begin(), report->notes.end());
  outcome_.tiers = report->tiers;
  outcome_.splices = report->splices;
  outcome_.recoded = report->recoded;
  if (!guard::kBootstrap && !loaded_.state.manifest) LITHIFY_TRY(Bootstrap());
  // Not cancelled any more: the work is done, and what is left is short.
  observe::Span commit(services_.telemetry, "commit", span.context());
  Status committed = Commit(*report);
  if (!committed) commit.Fail(committed.error());
  return committed;
}

Error PartitionRun::Vanished(Error error) const {
  auto now = table::ReadManifest(services_.store, id_.key_prefix);
  if (!now) return error;
  const std::string planned = loaded_.state.manifest ? loaded_.state.manifest->version : "";
  const std::string current = now->has_value() ? (*now)->version : "";
  if (planned == current) return error;
  error.code = Code::kConflict;
  error.message += "; the manifest moved on meanwhile";
  return error;
}

Status PartitionRun::BeforePublish() {
  if (claim_) claim_->Renew();
  if (loaded_.state.manifest) return CheckUnmoved();
  return guard::kBootstrap ? Bootstrap() : Status();
}

Status PartitionRun::CheckUnmoved() {
  LITHIFY_TRY_ASSIGN(const auto current, table::ReadManifest(services_.store, id_.key_prefix));
  if (current && current->version == loaded_.state.manifest->version) return {};
  return Rebase({});
}

Status PartitionRun::Rebase(const std::vector<std::string>& outputs) {
  const auto lost = [&](const std::string& why) {
    return Fail(Code::kConflict, "another generation was published during the rewrite" + why,
                id_.key_prefix, "the next sweep plans again");
  };
  if (rebases_ == kRebasesMax) return lost(", again and again");
  HivePartitionState current;
  current.id = id_;
  LITHIFY_TRY_ASSIGN(current.manifest, table::ReadManifest(services_.store, id_.key_prefix));
  if (!current.manifest) return lost("");
  const HiveManifest& manifest = current.manifest->manifest;
  if (!manifest.has_lineage || manifest.generation <= loaded_.generation()) return lost("");
  for (const std::string& name : outcome_.plan.inputs) {
    if (!IsLive(manifest, name)) return lost(", in which " + name + " is not live");
  }
  for (const std::string& name : outputs) {
    // The record of a fenced output goes once the file is gone.
    if (FindRetired(manifest, name) == nullptr &&
        services_.store.Stat(id_.key_prefix + name).has_value()) {
      continue;
    }
    return lost(", and output " + name + " was fenced");
  }
  LITHIFY_TRY(RepairRetiredTimes(services_.store, current));
  ++rebases_;
  loaded_.state.manifest = std::move(current.manifest);
  return {};
}

Status PartitionRun::Bootstrap() {
  // A fresh look: readers without a manifest see all files that are here now, so the first
  // generation must name those, not the ones at planning time (R215, T20).
  LITHIFY_TRY_ASSIGN(LoadedPartition fresh,
                     LoadPartition(services_, settings_.options, id_, footers_at_once_));
  if (fresh.state.manifest) {
    return Fail(Code::kConflict, "somebody else published the first generation", id_.key_prefix,
                "the next sweep plans again");
  }
  if (fresh.trouble) return Fail(*fresh.trouble);
  if (const HiveFile* file = plan::UnnameableFile(fresh.state)) {
    return Fail(Code::kUnsupported, "a manifest cannot name this file, so its rows would vanish",
                id_.key_prefix + file->name, "rename or remove it");
  }
  if (guard::kBootstrap) LITHIFY_TRY(InspectLive(services_, fresh, footers_at_once_));
  std::vector<std::string> live = fresh.Names(FileState::kLive);
  if (!guard::kBootstrap) {
    // Broken on purpose: by now the outputs are visible, as in the order that the origin states.
    live = loaded_.Names(FileState::kLive);
  }
  const std::unordered_set<std::string_view> here(live.begin(), live.end());
  for (const std::string& name : outcome_.plan.inputs) {
    if (here.contains(name)) continue;
    return Fail(Code::kNotFound, "it vanished before the first generation was published",
                id_.key_prefix + name, "nothing was changed; find out who removed it");
  }
  auto published = committer_.Bootstrap(Scope(), live);
  if (!published) return Fail(std::move(published.error()).In(id_.key_prefix));
  loaded_.state = std::move(fresh.state);
  loaded_.state.manifest = std::move(*published);
  return {};
}

Status PartitionRun::Commit(const rewrite::GroupReport& report) {
  outcome_.rows = report.rows_out;
  outcome_.bytes_out = report.bytes_out;
  AuditEvent event = MakeEvent(Phase::kIntent);
  event.inputs = outcome_.plan.inputs;
  for (const rewrite::OutputFile& output : report.outputs) {
    event.outputs.push_back(output.name);
    output_bytes_.push_back(output.size);
  }
  event.rows = report.rows_out;
  event.bytes_in = report.bytes_in;
  event.bytes_out = report.bytes_out;
  if (report.digest_complete) event.row_digest = report.digest_in.row.ToHex();
  event.generation = loaded_.generation() + 1;
  auto event_key = MakeEventKey(services_, settings_, id_.tenant, event.time);
  Status intent;
  if (event_key) {
    event.emitted_file = *event_key;
    intent = services_.audit.Append(event);
  } else {
    intent = Fail(std::move(event_key.error()));
  }
  if (!intent) {
    // T25: no commit without its intent on record.
    DiscardOutputs(services_, id_, event.outputs, outcome_.notes);
    return Fail(std::move(intent.error()).In("audit log: the intent could not be recorded"));
  }
  auto published = Swap(report, event);
  if (!published) return SwapFailed(std::move(published.error()), std::move(event));
  return Finish(std::move(*published), std::move(event));
}

Result<ManifestSnapshot> PartitionRun::Swap(const rewrite::GroupReport& report, AuditEvent& event) {
  commit::SwapRequest request;
  request.planned = *loaded_.state.manifest;
  request.inputs = outcome_.plan.inputs;
  request.inputs_as_planned = inputs_as_planned_;
  for (const rewrite::OutputFile& output : report.outputs) {
    request.outputs.push_back({.name = output.name, .size = output.size, .rows = output.rows});
  }
  request.rows_in = report.rows_in;
  request.rows_out = report.rows_out;
  bool may_come = false;  // One that was not there when we looked, and may be on its way still.
  for (int attempt = 1;; ++attempt) {
    auto published = committer_.Swap(Scope(), request);
    if (published) return published;
    if (published.error().code == Code::kConflict) {
      if (!Rebase(event.outputs)) return published;
      LITHIFY_TRY(RecordRebase(event, published.error()));
      request.planned = *loaded_.state.manifest;
      // On what it was made for, another generation has been published: it can come no more.
      may_come = false;
      attempt = 0;
    } else if (published.error().code != Code::kTransient || attempt == kSwapsMax) {
      // What ended this try, a stop perhaps, says nothing of the ones before it.
      const bool transient = published.error().code == Code::kTransient;
      if (may_come && !transient) published.error().code = Code::kUnknownOutcome;
      return published;
    } else {
      may_come = true;
    }
  }
}

// T25 holds for each generation that is tried: the one that did not come is settled before the next
// is announced.
Status PartitionRun::RecordRebase(AuditEvent& event, const Error& why) {
  const Time first = event.time;
  event.phase = Phase::kAborted;
  event.time = services_.clock.Now();
  event.error = why.ToString();
  Status recorded = services_.audit.Append(event);
  event.error.clear();
  if (recorded) {
    event.phase = Phase::kIntent;
    event.time = first;  // Its event file is named already, by this time.
    event.generation = loaded_.generation() + 1;
    recorded = services_.audit.Append(event);
  }
  if (recorded) return {};
  return Fail(std::move(recorded.error()).In("audit log: the intent could not be recorded"));
}

Status PartitionRun::SwapFailed(Error error, AuditEvent event) {
  event.time = services_.clock.Now();
  event.error = error.ToString();
  error = std::move(error).In(id_.key_prefix);
  if (error.code == Code::kUnknownOutcome || error.code == Code::kTransient) {
    // The outputs may be live, or a delayed request may still make them so: nothing is removed. The
    // next sweeps reconcile, or collect them behind a fence.
    event.phase = Phase::kUnknown;
    services_.progress.Line(error.ToString());
    Append(event);
    return Fail(std::move(error));
  }
  event.phase = Phase::kAborted;
  // kCorrupt: the outputs are evidence; the garbage collection takes them after its grace.
  if (error.code != Code::kCorrupt) {
    DiscardOutputs(services_, id_, event.outputs, outcome_.notes);
  }
  Append(event);
  return Fail(std::move(error));
}

Status PartitionRun::Finish(ManifestSnapshot published, AuditEvent event) {
  loaded_.state.manifest = std::move(published);
  services_.memory->Forget(id_.key_prefix);
  outcome_.outcome = Outcome::kCommitted;
  outcome_.outputs = event.outputs;
  const Time intent_time = event.time;
  event.phase = Phase::kCommitted;
  event.time = services_.clock.Now();
  // From here on nothing turns the commit into a failure (R241): the next sweep finds the intent
  // without outcome, or the outcome without event, and completes it.
  if (Status recorded = services_.audit.Append(event); !recorded) {
    outcome_.notes.push_back("committed, but the audit log says so only after the next sweep: " +
                             recorded.error().ToString());
    return {};
  }
  if (event.emitted_file.empty()) return {};
  if (Status emitted = EmitEvent(services_, event, intent_time); !emitted) {
    outcome_.notes.push_back("committed, but its event is written by the next sweep: " +
                             emitted.error().ToString());
  }
  return {};
}

void PartitionRun::Append(const AuditEvent& event) {
  if (Status appended = services_.audit.Append(event); !appended) {
    outcome_.notes.push_back("audit log: " + appended.error().ToString());
  }
}

commit::CommitScope PartitionRun::Scope() const {
  return {.key_prefix = id_.key_prefix,
          .job_id = job_id_,
          .now = services_.clock.Now(),
          .gone = FindGone(loaded_.state)};
}

AuditEvent PartitionRun::MakeEvent(Phase phase) const {
  AuditEvent event;
  event.phase = phase;
  event.time = services_.clock.Now();
  event.job_id = job_id_;
  event.tree = settings_.audit_tree;
  event.series = id_.series;
  event.tenant = id_.tenant;
  event.partition = id_.key_prefix;
  return event;
}

}  // namespace lithify::job
