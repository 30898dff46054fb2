#include "serve/job_registry.h"

#include <algorithm>
#include <utility>

namespace lithify::serve {
namespace {

constexpr size_t kTextMax = 2000;  // Of a message or an error.

// Not in the middle of a character.
std::string Shortened(std::string_view text) {
  if (text.size() <= kTextMax) return std::string(text);
  size_t size = kTextMax;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return std::string(text.substr(0, size)) + "…";
}

}  // namespace

struct RunningJob::Record {
  std::string id;
  std::string owner;
  std::string owner_name;
  std::string procedure;
  std::string table;
  Time started;
  Duration began;  // Monotonic.

  CancelFlag cancel;
  std::atomic<int64_t> bytes_total{0};
  std::atomic<int64_t> bytes_done{0};
  std::atomic<int64_t> items_total{0};
  std::atomic<int64_t> items_done{0};

  mutable std::mutex line_mutex;
  std::string line;

  // Under the registry's mutex.
  JobState state = JobState::kRunning;
  std::optional<Time> finished;
  Duration ended{};  // Monotonic.
  std::string error;
};

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kRunning: return "running";
    case JobState::kDone: return "done";
    case JobState::kFailed: return "failed";
    case JobState::kCancelled: return "cancelled";
  }
  return "failed";
}

RunningJob::RunningJob(JobRegistry& registry, std::shared_ptr<Record> record)
    : registry_(registry), record_(std::move(record)) {}

RunningJob::~RunningJob() {
  End(Fail(Code::kInternal, "the job ended without an outcome", record_->table));
}

const std::string& RunningJob::id() const { return record_->id; }
const CancelFlag& RunningJob::cancel() const { return record_->cancel; }
void RunningJob::End(const Status& outcome) { registry_.End(*record_, outcome); }

void RunningJob::AddTotal(int64_t bytes, int64_t items) {
  record_->bytes_total.fetch_add(bytes, std::memory_order_relaxed);
  record_->items_total.fetch_add(items, std::memory_order_relaxed);
}
void RunningJob::AddBytes(int64_t bytes) {
  record_->bytes_done.fetch_add(bytes, std::memory_order_relaxed);
}
void RunningJob::AddItem() { record_->items_done.fetch_add(1, std::memory_order_relaxed); }
void RunningJob::Line(std::string_view text) {
  std::lock_guard lock(record_->line_mutex);
  record_->line = Shortened(text);
}

Result<std::unique_ptr<RunningJob>> JobRegistry::Begin(const Caller& caller, std::string procedure,
                                                       std::string table) {
  std::lock_guard lock(mutex_);
  RemoveOld();
  if (stopping_) return Fail(Code::kCancelled, "the server is stopping", "job");
  const auto own = running_by_owner_.find(caller.owner);
  if (own != running_by_owner_.end() && own->second >= limits_.running_per_owner) {
    return Fail(Code::kLimit,
                "the caller runs " + std::to_string(own->second) + " jobs, as many as are allowed",
                "job", "wait until one ends, or cancel one");
  }
  if (running_ >= limits_.running) {
    return Fail(Code::kLimit, "the server runs as many jobs as it may", "job", "try again later");
  }
  auto record = std::make_shared<Record>();
  record->id = MakeUuidV7(clock_, random_);
  record->owner = caller.owner;
  record->owner_name = caller.name;
  record->procedure = std::move(procedure);
  record->table = std::move(table);
  record->started = clock_.Now();
  record->began = clock_.Monotonic();
  const bool added = jobs_.emplace(record->id, record).second;
  LITHIFY_CHECK(added, "a random job id came twice");
  ++running_by_owner_[caller.owner];
  ++running_;
  return std::unique_ptr<RunningJob>(new RunningJob(*this, std::move(record)));
}

void JobRegistry::End(Record& record, const Status& outcome) {
  std::lock_guard lock(mutex_);
  if (record.state != JobState::kRunning) return;
  if (outcome) {
    record.state = JobState::kDone;
  } else {
    const bool cancelled = outcome.error().code == Code::kCancelled;
    record.state = cancelled ? JobState::kCancelled : JobState::kFailed;
    record.error = Shortened(outcome.error().ToString());
  }
  record.ended = clock_.Monotonic();
  // Whatever the wall clock does: no job ends before it starts.
  record.finished = record.started + (record.ended - record.began);
  const auto own = running_by_owner_.find(record.owner);
  if (--own->second == 0) running_by_owner_.erase(own);
  --running_;
  finished_.push_back(record.id);
  RemoveOld();
}

void JobRegistry::RemoveOld() {
  const Duration now = clock_.Monotonic();
  while (!finished_.empty()) {
    const auto oldest = jobs_.find(finished_.front());
    const bool kept =
        finished_.size() <= limits_.finished && now - oldest->second->ended < limits_.finished_life;
    if (kept) return;
    jobs_.erase(oldest);
    finished_.pop_front();
  }
}

JobInfo JobRegistry::InfoOf(const Record& record) {
  JobInfo info;
  info.id = record.id;
  info.owner_name = record.owner_name;
  info.procedure = record.procedure;
  info.table = record.table;
  info.state = record.state;
  info.cancel_requested = record.cancel.requested();
  info.bytes_total = record.bytes_total.load(std::memory_order_relaxed);
  info.bytes_done = record.bytes_done.load(std::memory_order_relaxed);
  info.items_total = record.items_total.load(std::memory_order_relaxed);
  info.items_done = record.items_done.load(std::memory_order_relaxed);
  {
    std::lock_guard lock(record.line_mutex);
    info.message = record.line;
  }
  info.started = record.started;
  info.finished = record.finished;
  info.error = record.error;
  return info;
}

std::vector<JobInfo> JobRegistry::List(const Caller& caller) {
  std::lock_guard lock(mutex_);
  RemoveOld();
  std::vector<JobInfo> out;
  for (auto at = jobs_.rbegin(); at != jobs_.rend(); ++at) {
    if (at->second->owner == caller.owner) out.push_back(InfoOf(*at->second));
  }
  // Ids are in order to the millisecond only, and a wall clock may go back.
  std::ranges::stable_sort(out, std::ranges::greater(), &JobInfo::started);
  return out;
}

Status JobRegistry::Cancel(const Caller& caller, const std::string& id) {
  std::lock_guard lock(mutex_);
  RemoveOld();
  const auto at = jobs_.find(id);
  if (at == jobs_.end() || at->second->owner != caller.owner) {
    return Fail(Code::kNotFound, "the caller has no such job", "job " + Shortened(id));
  }
  if (at->second->state != JobState::kRunning) {
    return Fail(Code::kInvalid,
                "it is " + std::string(JobStateName(at->second->state)) + " already", "job " + id);
  }
  at->second->cancel.Request();
  return {};
}

void JobRegistry::CancelAll() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& [id, record] : jobs_) {
    if (record->state == JobState::kRunning) record->cancel.Request();
  }
}

size_t JobRegistry::Running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

}  // namespace lithify::serve
