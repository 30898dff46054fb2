// Attempts that do what a test says, instead of rewriting.
#ifndef LITHIFY_FLEET_SCRIPTED_ATTEMPT_H_
#define LITHIFY_FLEET_SCRIPTED_ATTEMPT_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/wire_world.h"
#include "fleet/worker_service.h"

namespace lithify::fleet {

// What the attempts of one worker do, and what became of them. Thread-safe.
class Script {
 public:
  // Runs go on until End() was called for them, or their cancel flag is set.
  void End(const std::string& attempt, Result<group::GroupResult> result) {
    const std::lock_guard lock(mutex_);
    ends_.insert_or_assign(attempt, std::move(result));
    changed_.notify_all();
  }
  // All that run or will run end with this one.
  void EndAll(const group::GroupResult& result) {
    const std::lock_guard lock(mutex_);
    all_ = result;
    changed_.notify_all();
  }
  void Move(const std::string& attempt, int64_t bytes) {
    GroupAttempt::OnProgress on_progress;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPatience, [&] { return progress_.contains(attempt); });
      on_progress = progress_[attempt];
    }
    if (on_progress) on_progress(bytes);
  }
  bool WaitForStart(const std::string& attempt) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return progress_.contains(attempt); });
  }
  // Until the outputs of so many results were removed.
  bool WaitForRemovals(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return removed_ >= count; });
  }
  bool WaitForCancel(const std::string& attempt) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return cancelled_.contains(attempt); });
  }
  int removed() {
    const std::lock_guard lock(mutex_);
    return removed_;
  }
  std::vector<storage::Loan> loans(const std::string& attempt) {
    const std::lock_guard lock(mutex_);
    return loans_[attempt];
  }
  GroupGrant grant(const std::string& attempt) {
    const std::lock_guard lock(mutex_);
    return grants_[attempt];
  }
  // Ends late, with a result, although it was told to stop.
  void IgnoreCancel() {
    const std::lock_guard lock(mutex_);
    ignore_cancel_ = true;
  }
  void RefuseWith(Error error) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(error);
  }

  WorkerService::OpenAttempt Opener() {
    return [this](const GroupOrder& order,
                  const GroupGrant& grant) -> Result<std::unique_ptr<GroupAttempt>> {
      const std::lock_guard lock(mutex_);
      if (refusal_) return Fail(*refusal_);
      grants_[order.attempt] = grant;
      loans_[order.attempt] = order.loans;
      return std::make_unique<Scripted>(*this, order.attempt);
    };
  }

  static constexpr auto kPatience = std::chrono::seconds(30);

 private:
  class Scripted final : public GroupAttempt {
   public:
    Scripted(Script& script, std::string name) : script_(script), name_(std::move(name)) {}
    Result<group::GroupResult> Run(const OnProgress& on_progress,
                                   const CancelFlag& cancel) override {
      std::unique_lock lock(script_.mutex_);
      script_.progress_[name_] = on_progress;
      script_.changed_.notify_all();
      for (;;) {
        const auto end = script_.ends_.find(name_);
        if (end != script_.ends_.end()) return end->second;
        if (script_.all_) return *script_.all_;
        if (cancel.requested() && script_.cancelled_.insert({name_, true}).second) {
          script_.changed_.notify_all();
        }
        if (cancel.requested() && !script_.ignore_cancel_) {
          return Fail(Code::kCancelled, "stopped on request");
        }
        script_.changed_.wait_for(lock, std::chrono::milliseconds(5));
      }
    }
    void Refresh(const std::vector<storage::Loan>& loans) override {
      const std::lock_guard lock(script_.mutex_);
      script_.loans_[name_] = loans;
    }
    std::vector<std::string> RemoveOutputs(const group::GroupResult&) override {
      const std::lock_guard lock(script_.mutex_);
      ++script_.removed_;
      script_.changed_.notify_all();
      return {};
    }

   private:
    Script& script_;
    const std::string name_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Result<group::GroupResult>> ends_;
  std::optional<group::GroupResult> all_;
  std::map<std::string, GroupAttempt::OnProgress> progress_;
  std::map<std::string, bool> cancelled_;
  std::map<std::string, std::vector<storage::Loan>> loans_;
  std::map<std::string, GroupGrant> grants_;
  std::optional<Error> refusal_;
  bool ignore_cancel_ = false;
  int removed_ = 0;
};

inline GroupOrder OrderOf(const std::string& attempt, int64_t number = 0) {
  GroupOrder order = WireWorld(1).Order();
  order.attempt = attempt;
  order.task.number = number;
  order.memory_bytes = 0;
  order.loans.clear();
  return order;
}

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_SCRIPTED_ATTEMPT_H_
