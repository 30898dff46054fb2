#include "lithify/compactor.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/cancel.h"
#include "embed/hive_session.h"

namespace lithify {
namespace {

Compactor::PartitionEvent MakeEvent(const job::PartitionOutcome& outcome) {
  Compactor::PartitionEvent event;
  event.partition = outcome.id.key_prefix;
  event.outcome = job::OutcomeName(outcome.outcome);
  if (outcome.error) event.error = outcome.error->ToString();
  event.generation = outcome.generation;
  event.files_in = static_cast<int64_t>(outcome.plan.inputs.size());
  event.files_out = static_cast<int64_t>(outcome.outputs.size());
  event.bytes_in = outcome.plan.bytes_in;
  event.bytes_out = outcome.bytes_out;
  event.rows = outcome.rows;
  return event;
}

Compactor::SweepSummary Summarise(const job::SweepReport& report) {
  Compactor::SweepSummary summary;
  summary.partitions = static_cast<int64_t>(report.partitions.size());
  summary.committed = report.Count(job::Outcome::kCommitted);
  summary.adopted = report.Count(job::Outcome::kAdopted);
  summary.skipped = report.Count(job::Outcome::kSkipped);
  summary.lost_races = report.Count(job::Outcome::kLostRace);
  summary.failed = report.Count(job::Outcome::kFailed);
  for (const job::PartitionOutcome& partition : report.partitions) {
    // Stopping on request is no failure.
    if (partition.error && partition.error->code != Code::kCancelled) {
      summary.errors.push_back(partition.error->ToString());
    }
    if (partition.outcome != job::Outcome::kCommitted) continue;
    summary.files_in += static_cast<int64_t>(partition.plan.inputs.size());
    summary.files_out += static_cast<int64_t>(partition.outputs.size());
    summary.bytes_in += partition.plan.bytes_in;
    summary.bytes_out += partition.bytes_out;
    summary.rows += partition.rows;
  }
  for (const auto* errors : {&report.errors, &report.gc.errors}) {
    for (const Error& error : *errors) {
      if (error.code != Code::kCancelled) summary.errors.push_back(error.ToString());
    }
  }
  summary.files_removed = static_cast<int64_t>(report.gc.removed.size());
  summary.cancelled = report.cancelled;
  summary.took = report.took;
  return summary;
}

// What the caller's code throws must neither end a thread of ours nor hide what a sweep did.
template <typename F, typename... Args>
void Call(std::vector<std::string>& errors, const F& callback, const Args&... args) {
  if (!callback) return;
  try {
    callback(args...);
  } catch (const std::exception& e) {
    errors.push_back(std::string("internal: an event callback threw an exception: ") + e.what());
  } catch (...) {
    errors.emplace_back("internal: an event callback threw an exception");
  }
}

std::string Unexpected(const std::exception& e) {
  return std::string("internal: unexpected exception: ") + e.what();
}

}  // namespace

class Compactor::Impl {
 public:
  explicit Impl(std::unique_ptr<embed::HiveSession> session) : session_(std::move(session)) {
    session_->StopWhen([this] {
      const CancelFlag* const cancel = sweeping_;
      return cancel != nullptr && cancel->requested();
    });
  }

  SweepSummary RunOnce(const Events& events) {
    SweepSummary summary;
    const CancelFlag never;
    try {
      // On a thread of its own: a lowered priority cannot be raised again, and the caller keeps
      // his.
      std::jthread([&] { summary = Sweep(events, never); }).join();
    } catch (const std::exception& e) {
      summary.errors.push_back(Unexpected(e));
    }
    return summary;
  }

  bool Start(std::chrono::milliseconds interval, Events events) {
    const std::lock_guard lock(mutex_);
    // While Stop() waits for it, the loop runs still. Not waited for: this may be a callback of it.
    if (stopping_ || loop_.joinable() || interval <= std::chrono::milliseconds::zero()) {
      return false;
    }
    try {
      auto cancel = std::make_shared<CancelFlag>();
      loop_ = std::jthread([this, interval, events = std::move(events), cancel] {
        Loop(interval, events, *cancel);
      });
      cancel_ = std::move(cancel);
    } catch (const std::exception&) {
      return false;  // No memory, or no more threads.
    }
    return true;
  }

  void Stop() {
    std::jthread ending;
    {
      std::unique_lock lock(mutex_);
      stopped_.wait(lock, [this] { return !stopping_; });  // Another Stop() is at it.
      if (!loop_.joinable()) return;
      stopping_ = true;
      cancel_->Request();
      ending = std::move(loop_);
    }
    wake_.notify_all();
    ending.join();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = false;
    }
    stopped_.notify_all();
  }

 private:
  void Loop(std::chrono::milliseconds interval, const Events& events, const CancelFlag& cancel) {
    while (!cancel.requested()) {
      Sweep(events, cancel);
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, interval, [&] { return cancel.requested(); });
    }
  }

  SweepSummary Sweep(const Events& events, const CancelFlag& cancel) {
    const std::lock_guard turn(sweep_mutex_);
    // All requests are made within the sweep.
    sweeping_ = &cancel;
    SweepSummary summary = SweepOrFail(events, cancel);
    sweeping_ = nullptr;
    return summary;
  }

  SweepSummary SweepOrFail(const Events& events, const CancelFlag& cancel) {
    try {
      return SweepOnce(events, cancel);
    } catch (const std::exception& e) {
      SweepSummary summary;
      summary.errors.push_back(Unexpected(e));
      Call(summary.errors, events.on_error, Unexpected(e));
      return summary;
    }
  }

  SweepSummary SweepOnce(const Events& events, const CancelFlag& cancel) {
    if (session_->config().low_priority) embed::LowerThreadPriority();
    if (Status writable = session_->CheckWrites(); !writable) {
      SweepSummary refused;
      refused.cancelled = writable.error().code == Code::kCancelled;
      if (refused.cancelled) return refused;
      refused.errors.push_back(writable.error().ToString());
      Call(refused.errors, events.on_error, std::string(refused.errors.front()));
      return refused;
    }
    const auto progress = observe::MakeSilentProgress();
    std::vector<std::string> unrecorded;
    session_->OnAuditError([&](const Error& error) { unrecorded.push_back(error.ToString()); });
    const auto work = session_->Begin(*progress, cancel);
    std::mutex calls;
    std::vector<std::string> thrown;
    const auto report =
        work->job().Sweep({}, false, cancel, [&](const job::PartitionOutcome& outcome) {
          if (!events.on_partition || outcome.outcome == job::Outcome::kSkipped) return;
          const std::lock_guard one(calls);
          Call(thrown, events.on_partition, MakeEvent(outcome));
        });
    session_->OnAuditError({});
    SweepSummary summary;
    if (report) {
      summary = Summarise(*report);
    } else {
      summary.cancelled = report.error().code == Code::kCancelled;
      if (!summary.cancelled) {
        summary.errors.push_back(report.error().ToString());
        Call(thrown, events.on_error, summary.errors.front());
      }
    }
    summary.errors.insert(summary.errors.end(), unrecorded.begin(), unrecorded.end());
    summary.errors.insert(summary.errors.end(), thrown.begin(), thrown.end());
    if (report) Call(summary.errors, events.on_sweep, summary);
    return summary;
  }

  const std::unique_ptr<embed::HiveSession> session_;
  std::mutex sweep_mutex_;                            // One sweep at a time.
  std::atomic<const CancelFlag*> sweeping_{nullptr};  // Of the sweep that is under way.
  std::mutex mutex_;                                  // Guards what follows.
  std::condition_variable wake_;
  std::condition_variable stopped_;
  bool stopping_ = false;               // A Stop() waits for the end of the loop.
  std::shared_ptr<CancelFlag> cancel_;  // Of loop_, which holds it as well.
  std::jthread loop_;
};

std::unique_ptr<Compactor> Compactor::Open(Options options, std::string* error) try {
  const auto fail = [&](const Error& e) {
    if (error != nullptr) *error = e.ToString();
    return nullptr;
  };
  if (!options.config_file.empty() && !options.config_text.empty()) {
    return fail({.code = Code::kInvalid,
                 .message = "both config_file and config_text are given",
                 .context = {},
                 .hint = "give one of them"});
  }
  std::vector<config::Override> overrides;
  for (auto& [key, value] : options.overrides) {
    overrides.push_back({.key = key, .value = value, .source = "Compactor::Options::overrides"});
  }
  std::vector<std::pair<std::string, std::string>> environment;
  if (options.use_environment) environment = embed::ProcessEnvironment();
  auto config =
      options.config_text.empty()
          ? embed::LoadConfig(options.root, options.config_file, environment, overrides)
          : config::LoadHiveConfig(options.config_text, "config_text", environment, overrides);
  if (!config) return fail(config.error());
  auto session = embed::HiveSession::Open(options.root, std::move(*config), environment);
  if (!session) return fail(session.error());
  return std::unique_ptr<Compactor>(new Compactor(std::make_unique<Impl>(std::move(*session))));
} catch (const std::exception& e) {
  if (error != nullptr) *error = Unexpected(e);
  return nullptr;
}

Compactor::Compactor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Compactor::~Compactor() { impl_->Stop(); }
Compactor::SweepSummary Compactor::RunOnce(const Events& events) { return impl_->RunOnce(events); }
bool Compactor::Start(std::chrono::milliseconds interval, Events events) {
  return impl_->Start(interval, std::move(events));
}
void Compactor::Stop() { impl_->Stop(); }

}  // namespace lithify
