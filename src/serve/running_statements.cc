#include "serve/running_statements.h"

#include <iterator>
#include <utility>

namespace lithify::serve {

RunningStatements::Slot::Slot(RunningStatements& running, std::list<RunningStatement>::iterator at)
    : running_(running), at_(at) {}

RunningStatements::Slot::~Slot() {
  const std::lock_guard lock(running_.mutex_);
  const auto owned = running_.by_owner_.find(at_->owner);
  if (--owned->second == 0) running_.by_owner_.erase(owned);
  running_.running_.erase(at_);
  running_.ended_.notify_all();
}

Result<std::unique_ptr<RunningStatements::Slot>> RunningStatements::Begin(
    const std::string& owner, const std::string& handle, std::function<void()> stop) {
  const std::lock_guard lock(mutex_);
  if (draining_) {
    return Fail(Code::kTransient, "the server is about to end", {}, "connect again in a moment");
  }
  const auto owned = by_owner_.find(owner);
  const bool too_many = running_.size() >= limits_.all;
  if (too_many || (owned != by_owner_.end() && owned->second >= limits_.of_owner)) {
    return Fail(Code::kTransient,
                too_many ? "as many statements run as the server allows"
                         : "you run as many statements as you may at once",
                too_many ? "server.statements_max" : "server.statements_per_user_max",
                "try again when one has ended");
  }
  running_.push_back({.owner = owner, .handle = handle, .stop = std::move(stop)});
  ++by_owner_[owner];
  return std::unique_ptr<Slot>(new Slot(*this, std::prev(running_.end())));
}

bool RunningStatements::Stop(const std::string& owner, const std::string& handle) {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (const RunningStatement& statement : running_) {
    if (handle.empty() || statement.handle != handle || statement.owner != owner) continue;
    statement.stop();
    found = true;
  }
  return found;
}

bool RunningStatements::Drain(Duration wait) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return ended_.wait_for(lock, wait, [this] { return running_.empty(); });
}

void RunningStatements::StopAll() {
  const std::lock_guard lock(mutex_);
  for (const RunningStatement& statement : running_) statement.stop();
}

bool RunningStatements::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

size_t RunningStatements::count() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

}  // namespace lithify::serve
