#include "job/iceberg_rewrite.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <set>
#include <unordered_set>

#include "base/from_exception.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/turns.h"
#include "group/live_files.h"
#include "group/repartition.h"
#include "group/target.h"
#include "job/explained_files.h"
#include "job/fleet_result.h"
#include "job/iceberg_audit.h"
#include "job/iceberg_files.h"
#include "job/iceberg_guard.h"
#include "job/iceberg_load.h"
#include "table/iceberg_filter.h"

namespace lithify::job {
namespace {

using Phase = observe::AuditEvent::Phase;

// From this conflict on, partitions that others write to are left to a later run (I33).
constexpr int kConflictsOfHotPartition = 2;

// Against commits that do no harm, like appends: what was rewritten stays right, so that trying
// again costs only metadata (R053 has 4 for writers, who do not carry hours of work). While the
// table does not move there are few.
constexpr int kCommitAttempts = 20;

// Of a file of the table that cannot be read.
constexpr const char* kDamagedFileHint =
    "restore the file from a backup; or take it out of the table: roll back to a snapshot without "
    "it, or have its rows deleted";

// Of manifests that are kept from the plan to the commit.
constexpr int64_t kMetadataBytesMin = 4 * kMiB;
constexpr int64_t kMetadataBytesMax = 256 * kMiB;

// The positions of rows that move take up to 4 bytes each, of a quarter of the memory.
constexpr int64_t kMovedRecordBytes = 16;
constexpr int64_t kMovedRecordsMin = 1 << 20;

// A row takes 17 bytes of its group while it is sorted (rewrite/sorted_rewrite.cc), of what reading
// ahead and uploads leave of the memory, which keys and values need, too.
constexpr int64_t kSortedRecordBytes = 80;
constexpr int64_t kSortedRecordsMin = 1 << 16;
constexpr int64_t kSortedRecordsMax = (int64_t{1} << 32) - 1;

Duration BackOff(int attempt) { return std::chrono::milliseconds(50) * (1 << (attempt - 1)); }

}  // namespace

IcebergRewrite::IcebergRewrite(const IcebergServices& services, const IcebergSettings& settings,
                               const RewriteRequest& request, const CancelFlag& cancel)
    : services_(services),
      settings_(settings),
      request_(request),
      cancel_(cancel),
      metadata_(std::clamp(settings.memory_bytes / 16, kMetadataBytesMin, kMetadataBytesMax)),
      committer_({services.catalog, services.locations, services.clock, services.random,
                  [&services](Duration d) { services.clock.Sleep(d); }, &metadata_}) {
  result_.table = request.ident.ToString();
  result_.job_id = JobId(services, settings);
  options_ = request.options;
}

Result<RewriteResult> IcebergRewrite::Run() {
  if (request_.max_attempts < 1) return Fail(Code::kInvalid, "max-attempts must be at least 1");
  for (int attempt = 1;; ++attempt) {
    result_.attempts = attempt;
    auto done = Attempt();
    if (done && *done) return std::move(result_);
    if (done) continue;
    if (done.error().code != Code::kConflict) return Fail(std::move(done.error()));
    LITHIFY_TRY(CheckMovedOn(done.error()));
    if (attempt >= request_.max_attempts) {
      return Fail(std::move(done.error())
                      .Hint("other writers were faster " + std::to_string(attempt) +
                            " times; try again later, or with a smaller max-file-group-size-bytes "
                            "or partial progress"));
    }
    LearnFromConflict();
    services_.clock.Sleep(BackOff(attempt));
    LITHIFY_TRY(cancel_.Check());
  }
}

// Another plan of the same metadata would end the same way, and one of another table is not what
// was asked for.
Status IcebergRewrite::CheckMovedOn(const Error& conflict) {
  const auto now = services_.catalog.LoadTable(request_.ident);
  if (!now) return {};  // The next attempt says why.
  LITHIFY_TRY(SameTable(table_, *now));
  if (now->metadata_location == table_.metadata_location) return Fail(conflict);
  return {};
}

Result<bool> IcebergRewrite::Attempt() {
  LITHIFY_TRY(Load());
  if (NothingToDo()) return true;
  if (request_.dry_run) {
    result_.status = RewriteStatus::kPlanned;
    result_.reason = "dry run";
    LITHIFY_TRY(Explain());
    return true;
  }
  LITHIFY_TRY_ASSIGN(const Way way, PlaceGroups());
  if (way == Way::kNotNow) return true;
  // Written before anything becomes visible; a log that cannot be written stops the job (R178).
  LITHIFY_TRY(Audit(Phase::kIntent));
  auto outcome = [&]() -> Result<bool> {
    if (result_.plan.groups.empty()) return CommitDangling();
    LITHIFY_TRY(way == Way::kFleet ? RewriteOnFleet() : RewriteGroups());
    LITHIFY_TRY(SortFailures());
    return CommitAll();
  }();
  if (!outcome) {
    Error& error = outcome.error();
    if (!result_.snapshot_ids.empty()) error.message += "; " + Landed();
    const bool unknown = error.code == Code::kUnknownOutcome;
    // While the outcome is unknown the outputs may be the table's only copy (R302).
    if (!unknown || !guard::kIcebergKeepUnknown) {
      for (GroupWork& work : work_) RemoveOutputs(work);
    }
    if (Status audited = Audit(unknown ? Phase::kUnknown : Phase::kAborted, error.ToString());
        !audited) {
      result_.notes.push_back("audit log: " + audited.error().ToString());
    }
  }
  return outcome;
}

// What this attempt plans with.
Status IcebergRewrite::Resolve(const iceberg::TableMetadata& metadata) {
  LITHIFY_TRY_ASSIGN(options_, ResolveOptions(options_, metadata));
  if (options_.sort) {
    // A group's numbers of rows must fit its share of the memory.
    options_.max_sorted_group_records = std::clamp<int64_t>(
        settings_.memory_bytes / kSortedRecordBytes, kSortedRecordsMin, kSortedRecordsMax);
  } else if (!options_.sort_order.empty() && options_.unsorted_because.empty() &&
             result_.attempts == 1) {
    result_.notes.push_back(
        "sort_order is ignored: the strategy is binpack, which leaves rows in "
        "their order");
  }
  if (request_.output_spec_id) {
    // Whether it can be followed is told before anything is read.
    const auto rule = group::MakePartitionRule(metadata, *request_.output_spec_id,
                                               request_.max_output_partitions);
    if (!rule) return Fail(Error(rule.error()));
    options_.output_spec_id = request_.output_spec_id;
    const int64_t memory = settings_.memory_bytes / std::max(1, settings_.threads);
    options_.max_moved_group_records = std::max(kMovedRecordsMin, memory / kMovedRecordBytes);
  }
  return plan::CheckOptions(options_);
}

Status IcebergRewrite::Load() {
  work_.clear();
  stop_ = false;
  LITHIFY_TRY_ASSIGN(table_, LoadAudited(services_, request_.ident, Event(Phase::kIntent)));
  metadata_.Recheck();
  const iceberg::TableMetadata& metadata = table_.metadata;
  if (metadata.has_encryption) {
    return Fail(Code::kUnsupported, "the table is encrypted", result_.table);
  }
  LITHIFY_TRY(Resolve(metadata));
  result_.live = {};
  result_.plan = {};
  index_.reset();
  const iceberg::Snapshot* head = metadata.RefSnapshot(request_.branch);
  if (head == nullptr) {
    if (request_.branch != "main") {
      return Fail(Code::kNotFound, "no branch \"" + request_.branch + "\"", result_.table);
    }
    result_.plan.skip_reason = "empty table";
    return {};
  }
  snapshot_ = *head;
  LITHIFY_TRY_ASSIGN(target_, group::MakeTarget(metadata));
  delete_target_ = group::WithDroppedColumns(*target_, metadata);
  LITHIFY_TRY_ASSIGN(const auto filter,
                     table::FileFilter::Parse(request_.where, metadata.schema()));
  const PlanKey by = options_.sort ? KeyOf(options_, metadata) : PlanKey();
  const group::LiveSetOptions load{.filter = request_.where.empty() ? nullptr : &filter,
                                   .key = by.field,
                                   .key_transform = by.transform,
                                   .threads = settings_.threads,
                                   .cancel = &cancel_};
  auto live = group::LoadLiveFiles({services_.locations, &metadata_}, metadata, snapshot_, load);
  if (!live) {
    return Fail(IfMovedOn(services_, table_, std::move(live.error())).In(result_.table));
  }
  result_.live = std::move(*live);
  index_.emplace(result_.live);
  result_.plan = plan::PlanRewrite(result_.live, *index_, options_);
  writer_bytes_ = WriterBytes();
  result_.partition_names.clear();
  for (const iceberg::PartitionKey& key : result_.live.partitions) {
    result_.partition_names.push_back(group::PartitionName(metadata, key));
  }
  return {};
}

bool IcebergRewrite::NothingToDo() {
  for (const auto& [reason, files] : result_.plan.unsupported) {
    if (result_.attempts == 1) {
      result_.notes.push_back(FormatCount(files) + " files left alone: " + reason);
    }
  }
  if (!result_.plan.groups.empty()) return false;
  // Dangling deletes alone are worth a commit when they are asked for.
  const bool asked = request_.remove_dangling_deletes && index_ && !request_.dry_run;
  if (asked && !Covered({}).empty()) return false;
  if (result_.status != RewriteStatus::kPartial) result_.status = RewriteStatus::kSkipped;
  result_.reason = result_.plan.skip_reason;
  return true;
}

// Of the store in which the files lie, and the outputs with them.
int64_t IcebergRewrite::WriterBytes() const {
  if (result_.plan.groups.empty()) return 0;
  const auto file = static_cast<size_t>(result_.plan.groups.front().data_files.front());
  const auto place = services_.locations.Resolve(result_.live.data_files[file].path);
  return place ? place->store->writer_buffer_bytes() : 0;  // Else the group's rewrite says why.
}

// Each writes one output at a time, and a runner pays for that output's writer with a quarter of
// its memory at most: no more groups than pay for it in full.
int IcebergRewrite::GroupsAtOnce() const {
  const auto& groups = result_.plan.groups;
  int64_t most = settings_.threads;
  if (request_.groups_at_once_max > 0) most = std::min<int64_t>(most, request_.groups_at_once_max);
  if (writer_bytes_ > 0) {
    const bool moves = std::ranges::any_of(groups, &plan::FileGroup::moves);
    const int64_t memory =
        moves ? group::PartMemory(settings_.memory_bytes) : settings_.memory_bytes;
    most = std::min(most, memory / 4 / writer_bytes_);
  }
  for (const plan::FileGroup& group : groups) {
    if (!group.sorted || group.records <= 0) continue;
    most = std::min(most, settings_.memory_bytes / kSortedRecordBytes / group.records);
  }
  return static_cast<int>(std::clamp<int64_t>(most, 1, std::max<int64_t>(1, std::ssize(groups))));
}

int64_t IcebergRewrite::GroupMemory() const {
  return std::max<int64_t>(1, settings_.memory_bytes / GroupsAtOnce());
}

Status IcebergRewrite::Explain() {
  const auto& groups = result_.plan.groups;
  int64_t files = 0;
  std::vector<size_t> chosen;
  bool moved = false;
  bool left = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    moved = moved || groups[g].moves;
    left = left || (!groups[g].moves && files >= kExplainedFilesMax);
    if (groups[g].moves || left) continue;
    files += std::ssize(groups[g].data_files);
    chosen.push_back(g);
  }
  result_.tier_plans.resize(groups.size());
  std::vector<std::optional<Error>> errors(chosen.size());
  ForEach(chosen.size(), GroupsAtOnce(), [&](size_t i) {
    try {
      auto plan = ExplainGroup(chosen[i]);
      if (plan)
        result_.tier_plans[chosen[i]] = std::move(*plan);
      else
        errors[i] = WithHint(std::move(plan.error()));
    } catch (const std::exception& e) {
      errors[i] = FromException(e, result_.table);
    }
  });
  LITHIFY_TRY(cancel_.Check());
  for (const auto& error : errors) {
    if (error) result_.notes.push_back("a rewrite would fail: " + error->ToString());
  }
  if (left) result_.notes.push_back(WhyNotExplained());
  if (moved) {
    result_.notes.push_back(
        "tiers are not explained where rows move to another partition spec: they depend on rows");
  }
  return {};
}

Result<rewrite::TierPlan> IcebergRewrite::ExplainGroup(size_t g) {
  return group::ExplainGroup(GroupParts(), View(), Task(g), result_.plan.groups[g].data_files,
                             {.memory_bytes = GroupMemory()}, cancel_);
}

group::GroupServices IcebergRewrite::GroupParts() const {
  return {services_.locations, services_.make_runner, services_.clock, services_.random};
}

group::TableView IcebergRewrite::View() const {
  return {.metadata = table_.metadata,
          .live = result_.live,
          .index = *index_,
          .target = target_,
          .delete_target = delete_target_};
}

group::GroupTask IcebergRewrite::Task(size_t g) const {
  const plan::FileGroup& group = result_.plan.groups[g];
  group::GroupTask task{.job_id = result_.job_id,
                        .number = static_cast<int64_t>(g),
                        .table = result_.table,
                        .metadata_location = table_.metadata_location,
                        .snapshot_id = snapshot_.snapshot_id,
                        .outputs = std::max(1, group.outputs),
                        .sizes = plan::SizesOf(options_),
                        .max_output_partitions = request_.max_output_partitions,
                        .verify = settings_.verify};
  if (group.moves) task.output_spec_id = options_.output_spec_id;
  if (group.sorted) {
    task.order = options_.sort->order;
    task.sort_order_id = options_.sort->sort_order_id;
  }
  task.data_files.reserve(group.data_files.size());
  for (const int32_t index : group.data_files) {
    task.data_files.push_back(result_.live.data_files[static_cast<size_t>(index)].path);
  }
  return task;
}

Status IcebergRewrite::RewriteGroups() {
  const auto& groups = result_.plan.groups;
  int64_t bytes = 0;
  for (const plan::FileGroup& group : groups) bytes += group.bytes;
  services_.progress.AddTotal(bytes, static_cast<int64_t>(groups.size()));
  const int at_once = GroupsAtOnce();
  Turns loads(rewrite::LoadsAtOnce(at_once));
  const group::GroupBounds bounds{
      .threads = std::max(1, settings_.threads / at_once),
      .memory_bytes = GroupMemory(),
      .spill_directory = settings_.spill_directory,
      .spill_bytes_max = settings_.spill_bytes_max,
      .on_progress = [this](int64_t done) { services_.progress.AddBytes(done); },
      .turn_to_load = [&loads](const CancelFlag& cancel) { return loads.Take(cancel); }};
  work_.resize(groups.size());
  ForEach(groups.size(), at_once, [&](size_t i) {
    if (stop_.load()) return;
    work_[i] = RewriteGroup(i, bounds);
    services_.progress.AddItem();
    const auto& error = work_[i].error;
    if (error && error->code != Code::kUnsupported && !request_.partial_progress) stop_ = true;
  });
  return cancel_.Check();
}

Result<IcebergRewrite::Way> IcebergRewrite::PlaceGroups() {
  result_.distributed = false;
  result_.fleet.reset();
  if (result_.plan.groups.empty()) return Way::kHere;
  if (services_.fleet == nullptr) {
    if (request_.distribution != group::Distribution::kRequire) return Way::kHere;
    return Fail(Code::kUnsupported, "there are no workers to rewrite on", "distributed",
                "configure [fleet], or leave it away");
  }
  auto placement = services_.fleet->Place(request_.distribution, cancel_);
  if (placement) {
    result_.distributed = placement->where == group::Placement::Where::kFleet;
    result_.notes.push_back(
        std::string(result_.distributed ? "on workers: " : "in this process: ") +
        placement->reason);
    return result_.distributed ? Way::kFleet : Way::kHere;
  }
  Error error = std::move(placement.error()).In(result_.table);
  const bool waits =
      error.code == Code::kLimit && error.message.starts_with(group::kInsufficientWorkers);
  // What nobody waits for is tried again by itself, and is no failure until then (R291).
  if (!waits || settings_.trigger != "scheduled") return Fail(std::move(error));
  if (result_.status != RewriteStatus::kPartial) result_.status = RewriteStatus::kSkipped;
  result_.reason = error.message;
  LITHIFY_TRY(Audit(Phase::kAborted, error.ToString()));
  return Way::kNotNow;
}

Status IcebergRewrite::RewriteOnFleet() {
  const auto& groups = result_.plan.groups;
  std::vector<group::FleetGroup> tasks;
  int64_t bytes = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    tasks.push_back({.task = Task(g), .bytes = groups[g].bytes, .memory_bytes = GroupMemory()});
    bytes += groups[g].bytes;
  }
  services_.progress.AddTotal(bytes, std::ssize(groups));
  work_.resize(groups.size());
  group::FleetJob job;
  if (services_.loans) job.loans = [this] { return services_.loans(request_.ident); };
  job.on_progress = [this](int64_t done) { services_.progress.AddBytes(done); };
  // Of several groups at a time: each has its own place in work_, whose order is the plan's.
  const auto take = [&](size_t g, Result<group::GroupResult> result) {
    TakeResult(tasks[g].task, std::move(result));
    const auto& error = work_[g].error;
    return !error || error->code == Code::kUnsupported || request_.partial_progress;
  };
  job.on_end = [this](const group::FleetStory& story) {
    result_.fleet.emplace(FleetReport{.story = story});
  };
  const Status ran = services_.fleet->Run(tasks, job, take, cancel_);
  if (result_.fleet) {
    for (const GroupWork& work : work_) result_.fleet->checked += work.checked;
    result_.notes.push_back(FleetSummary(result_.fleet->story));
  }
  LITHIFY_TRY(Status(ran));
  LITHIFY_TRY(cancel_.Check());
  if (!guard::kFleetNamedPaths) return {};
  return NamePathsHere();
}

// From several threads at a time, each for another group.
void IcebergRewrite::TakeResult(const group::GroupTask& task, Result<group::GroupResult> result) {
  const auto g = static_cast<size_t>(task.number);
  GroupWork& work = work_[g];
  if (result) {
    work.result = std::move(*result);
    Status right;
    const Duration begin = services_.clock.Monotonic();
    try {
      right = CheckFleetResult({GroupParts(), View(), task, result_.plan.groups[g].data_files},
                               work.result);
    } catch (const std::exception& e) {
      right = Fail(FromException(e, result_.table));
    }
    work.checked = services_.clock.Monotonic() - begin;
    work.done = right.has_value();
    // What was not found right is not removed: it may name files that are the table's.
    work.keep_outputs = !work.done;
    if (!right) work.error = WithHint(std::move(right.error()));
  } else {
    work.error = WithHint(std::move(result.error()));
  }
  services_.progress.AddItem();
}

// What workers say of delete files is not believed.
Status IcebergRewrite::NamePathsHere() {
  const auto& groups = result_.plan.groups;
  std::vector<int32_t> inputs;
  for (size_t g = 0; g < groups.size(); ++g) {
    work_[g].result.named_paths.clear();
    if (work_[g].done) std::ranges::copy(groups[g].data_files, std::back_inserter(inputs));
  }
  const auto read = ReadNamedPaths(GroupParts(), View(), inputs, settings_.threads, cancel_);
  // As of an input, below: a delete file that is gone was expired after somebody's commit.
  if (!read) return Fail(IfMovedOn(services_, table_, read.error()));
  const NamedPaths& named = *read;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!work_[g].done) continue;
    for (const int32_t data_file : groups[g].data_files) {
      for (const int32_t index : index_->AppliesTo(data_file)) {
        const auto paths = named.find(index);
        if (paths == named.end()) continue;
        const auto& file = result_.live.delete_files[static_cast<size_t>(index)];
        work_[g].result.named_paths.emplace(file.path, paths->second);
      }
    }
  }
  CheckTogether(named);
  return {};
}

// What no result tells alone.
void IcebergRewrite::CheckTogether(const NamedPaths& named) {
  std::set<std::string> outputs;
  for (size_t g = 0; g < work_.size(); ++g) {
    GroupWork& work = work_[g];
    if (!work.done) continue;
    Status right = CheckDeletesSeen(View(), result_.plan.groups[g].data_files, named, work.result);
    if (right) right = CheckOutputsApart(work.result, outputs);
    if (right) continue;
    work.done = false;
    work.keep_outputs = true;
    work.error = std::move(right.error());
  }
}

IcebergRewrite::GroupWork IcebergRewrite::RewriteGroup(size_t g, const group::GroupBounds& bounds) {
  GroupWork work;
  try {
    auto result = group::RewriteGroup(GroupParts(), View(), Task(g),
                                      result_.plan.groups[g].data_files, bounds, cancel_);
    if (result) {
      work.done = true;
      work.result = std::move(*result);
    } else {
      work.error = WithHint(std::move(result.error()));
    }
  } catch (const std::exception& e) {
    work.error = FromException(e, result_.table);
  }
  return work;
}

// What helps against a damaged file is another thing in a table than in a tree of files.
Error IcebergRewrite::WithHint(Error error) const {
  const auto named = [&](const auto& file) { return storage::IsNamed(error, file.path); };
  if (error.code == Code::kCorrupt && (std::ranges::any_of(result_.live.data_files, named) ||
                                       std::ranges::any_of(result_.live.delete_files, named))) {
    error.hint = kDamagedFileHint;
  }
  return error;
}

Status IcebergRewrite::SortFailures() {
  size_t failed = 0;
  const Error* first = nullptr;
  for (GroupWork& work : work_) {
    if (!work.error) continue;
    ++failed;
    RemoveOutputs(work);
    const bool fatal = work.error->code != Code::kUnsupported && !request_.partial_progress;
    if (fatal && first == nullptr) first = &*work.error;
    if (!fatal) result_.notes.push_back("group left alone: " + work.error->ToString());
  }
  if (first == nullptr && failed < work_.size()) return {};
  if (first == nullptr) first = &*work_.front().error;
  // An input that is gone was replaced by somebody and expired: the table has moved on (I9).
  return Fail(IfMovedOn(services_, table_, *first));
}

std::vector<commit::DeleteRef> IcebergRewrite::Covered(const std::vector<size_t>& groups) const {
  std::unordered_set<std::string_view> replaced;
  std::map<std::string_view, const std::vector<std::string>*> named;
  for (size_t g = 0; g < work_.size(); ++g) {
    // Earlier commits of this job have replaced their inputs, too.
    if (!work_[g].committed && std::ranges::find(groups, g) == groups.end()) continue;
    for (const auto& input : work_[g].result.inputs) replaced.insert(input.path);
    for (const auto& [path, paths] : work_[g].result.named_paths) named[path] = &paths;
  }
  // Deletes that some remaining live file needs, by the rules of scan planning.
  const auto& live = result_.live;
  std::vector<bool> needed(live.delete_files.size(), false);
  std::vector<bool> candidate(live.delete_files.size(), false);
  std::unordered_set<std::string_view> remaining;
  for (size_t i = 0; i < live.data_files.size(); ++i) {
    const bool gone = replaced.contains(live.data_files[i].path);
    if (!gone) remaining.insert(live.data_files[i].path);
    for (const int32_t index : index_->AppliesTo(static_cast<int32_t>(i))) {
      (gone ? candidate : needed)[static_cast<size_t>(index)] = true;
    }
  }
  if (request_.remove_dangling_deletes) {
    for (const int32_t index : index_->Dangling()) candidate[static_cast<size_t>(index)] = true;
  }
  std::vector<commit::DeleteRef> covered;
  for (size_t d = 0; d < live.delete_files.size(); ++d) {
    const iceberg::LiveDeleteFile& file = live.delete_files[d];
    if (!candidate[d]) continue;
    const std::vector<std::string>* paths = nullptr;
    if (const auto found = named.find(file.path); found != named.end()) paths = found->second;
    // A position delete file that was read is needed only by files that it names (R102).
    const bool by_paths = paths != nullptr && std::ranges::none_of(*paths, [&](const auto& path) {
                            return remaining.contains(path);
                          });
    if (needed[d] && !by_paths) continue;
    commit::DeleteRef ref{.path = file.path, .content_offset = std::nullopt, .paths = {}};
    if (file.deletion_vector) ref.content_offset = file.content_offset;
    if (paths != nullptr) ref.paths = *paths;
    covered.push_back(std::move(ref));
  }
  return covered;
}

Result<commit::CommittedSnapshot> IcebergRewrite::CommitGroups(const std::vector<size_t>& groups) {
  commit::RewriteCommit request;
  request.ident = request_.ident;
  request.branch = request_.branch;
  request.job_id = result_.job_id;
  request.trigger = settings_.trigger;
  request.principal = settings_.principal;
  request.summary = settings_.summary;
  request.planned_snapshot_id = snapshot_.snapshot_id;
  request.planned_sequence_number = snapshot_.sequence_number;
  request.schema_id = table_.metadata.current_schema_id;
  request.table_uuid = table_.metadata.table_uuid;
  request.format_version = table_.metadata.format_version;
  request.default_spec_id = table_.metadata.default_spec_id;
  for (const size_t g : groups) {
    for (const group::GroupInput& input : work_[g].result.inputs) {
      request.inputs.push_back({.path = input.path,
                                .records = input.records,
                                .rows_deleted = input.rows_deleted,
                                .partition = input.partition});
    }
    std::ranges::copy(work_[g].result.outputs, std::back_inserter(request.outputs));
  }
  request.removed_deletes = Covered(groups);
  request.commit_attempts = kCommitAttempts;
  return committer_.CommitRewrite(request, cancel_);
}

Result<bool> IcebergRewrite::CommitAll() {
  std::vector<size_t> done;
  for (size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].done) done.push_back(i);
  }
  if (request_.partial_progress) {
    const size_t commits = std::clamp<size_t>(
        static_cast<size_t>(std::max(1, request_.partial_progress_max_commits)), 1, done.size());
    std::vector<std::vector<size_t>> batches(commits);
    for (size_t i = 0; i < done.size(); ++i) batches[i * commits / done.size()].push_back(done[i]);
    return PartialCommits(batches);
  }
  LITHIFY_TRY_ASSIGN(const auto committed, CommitGroups(done));
  Count(done, committed);
  result_.status =
      done.size() == work_.size() ? RewriteStatus::kCommitted : RewriteStatus::kPartial;
  result_.reason = done.size() == work_.size() ? "" : "some groups were left alone";
  return true;
}

Result<bool> IcebergRewrite::CommitDangling() {
  LITHIFY_TRY_ASSIGN(const auto committed, CommitGroups({}));
  if (committed.snapshot_id != 0) {
    Count({}, committed);
    result_.reason = "dangling deletes only";
    return true;
  }
  result_.status = RewriteStatus::kSkipped;
  result_.reason = "the dangling deletes are gone already";
  LITHIFY_TRY(Audit(Phase::kAborted, result_.reason));
  return true;
}

Result<bool> IcebergRewrite::PartialCommits(const std::vector<std::vector<size_t>>& batches) {
  std::optional<Error> failed;
  size_t landed = 0;
  for (const std::vector<size_t>& batch : batches) {
    auto committed = CommitGroups(batch);
    if (committed) {
      ++landed;
      Count(batch, *committed);
      continue;
    }
    Error error = std::move(committed.error());
    if (error.code == Code::kUnknownOutcome) {
      // Nobody knows whose these are: they stay, and so does everything after them unwritten.
      for (const size_t g : batch) work_[g].result.outputs.clear();
      for (GroupWork& work : work_) RemoveOutputs(work);
      return Fail(std::move(error));
    }
    result_.notes.push_back("a commit of " + std::to_string(batch.size()) +
                            " groups failed: " + error.ToString());
    for (const size_t g : batch) RemoveOutputs(work_[g]);
    if (!failed) failed = std::move(error);
  }
  if (landed == 0 && failed) return Fail(std::move(*failed));
  const bool whole =
      !failed && std::ranges::all_of(work_, [](const GroupWork& work) { return work.done; });
  result_.status = whole ? RewriteStatus::kCommitted : RewriteStatus::kPartial;
  result_.reason = failed ? failed->ToString() : (whole ? "" : "some groups were left alone");
  return true;
}

void IcebergRewrite::LearnFromConflict() {
  if (result_.plan.groups.empty()) return;  // It was no plan that met others.
  auto now = services_.catalog.LoadTable(request_.ident);
  if (!now) return;
  const iceberg::Snapshot* head = now->metadata.RefSnapshot(request_.branch);
  if (head == nullptr) return;
  metadata_.Recheck();
  auto live = group::LoadLiveFiles({services_.locations, &metadata_}, now->metadata, *head, {});
  if (!live) return;
  std::unordered_set<std::string_view> data;
  std::set<std::pair<std::string_view, int64_t>> deletes;
  for (const auto& file : live->data_files) data.insert(file.path);
  for (const auto& file : result_.live.delete_files) {
    deletes.emplace(file.path, file.content_offset);
  }
  std::set<iceberg::PartitionKey> hot;
  for (const auto& file : result_.live.data_files) {
    if (!data.contains(file.path)) {
      hot.insert(result_.live.partitions[static_cast<size_t>(file.partition)]);
    }
  }
  for (const auto& file : live->delete_files) {
    if (!deletes.contains({file.path, file.content_offset})) {
      hot.insert(live->partitions[static_cast<size_t>(file.partition)]);
    }
  }
  for (const iceberg::PartitionKey& key : hot) {
    if (++conflicts_[key] != kConflictsOfHotPartition) continue;
    options_.skip_partitions.push_back(key);
    result_.notes.push_back("a partition is left to a later run: others changed it during " +
                            std::to_string(kConflictsOfHotPartition) + " attempts");
  }
  // A smaller job is exposed for a shorter time.
  int64_t bytes = 0;
  for (const plan::FileGroup& group : result_.plan.groups) bytes += group.bytes;
  options_.budget_bytes = std::max<int64_t>(bytes / 2, options_.target_file_size_bytes);
}

void IcebergRewrite::Count(const std::vector<size_t>& groups,
                           const commit::CommittedSnapshot& committed) {
  result_.snapshot_id = committed.snapshot_id;
  result_.snapshot_ids.push_back(committed.snapshot_id);
  result_.delete_files_removed += committed.delete_files_removed;
  result_.status = RewriteStatus::kCommitted;
  observe::AuditEvent event = Event(Phase::kCommitted);
  event.snapshot_id = committed.snapshot_id;
  for (const size_t g : groups) {
    GroupWork& work = work_[g];
    work.committed = true;
    const group::GroupResult& done = work.result;
    ++result_.groups;
    result_.files_rewritten += static_cast<int64_t>(done.inputs.size());
    result_.files_added += static_cast<int64_t>(done.outputs.size());
    result_.bytes_in += done.report.bytes_in;
    result_.bytes_out += done.report.bytes_out;
    result_.rows_in += done.report.rows_in;
    result_.rows_out += done.report.rows_out;
    result_.rows_removed += done.rows_deleted;
    event.rows += done.report.rows_out;
    event.bytes_in += done.report.bytes_in;
    event.bytes_out += done.report.bytes_out;
    for (const auto& [tier, chunks] : done.report.tiers) result_.tiers[tier] += chunks;
    for (const auto& [way, chunks] : done.report.splices) result_.splices[way] += chunks;
    for (const auto& [why, chunks] : done.report.recoded) result_.recoded[why] += chunks;
    std::ranges::copy(done.report.notes, std::back_inserter(result_.notes));
    work.result.outputs.clear();  // They are the table's now.
  }
  std::ranges::sort(result_.notes);
  const auto repeated = std::ranges::unique(result_.notes);
  result_.notes.erase(repeated.begin(), repeated.end());
  if (Status audited = services_.audit.Append(event); !audited) {
    result_.notes.push_back("audit log: " + audited.error().ToString());
  }
}

void IcebergRewrite::RemoveOutputs(GroupWork& work) {
  if (work.keep_outputs) return;
  for (const std::string& left : group::RemoveOutputs(services_.locations, work.result.outputs)) {
    result_.notes.push_back("an output of a failed attempt stays: " + left);
  }
  work.result.outputs.clear();
}

std::string IcebergRewrite::Landed() const {
  std::string ids;
  for (const int64_t id : result_.snapshot_ids) {
    ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  }
  return "committed before that, and in the table: snapshots " + ids;
}

observe::AuditEvent IcebergRewrite::Event(observe::AuditEvent::Phase phase) const {
  observe::AuditEvent event =
      MakeEvent(services_, settings_, request_.ident, result_.procedure, result_.job_id);
  event.phase = phase;
  return event;
}

Status IcebergRewrite::Audit(observe::AuditEvent::Phase phase, const std::string& error) {
  observe::AuditEvent event = Event(phase);
  event.error = error;
  if (phase == Phase::kIntent) {
    for (const plan::FileGroup& group : result_.plan.groups) event.bytes_in += group.bytes;
  }
  return services_.audit.Append(event);
}

}  // namespace lithify::job
