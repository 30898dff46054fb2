#include "serve/audit_trail.h"

#include <utility>

namespace lithify::serve {

AuditTrail::AuditTrail(std::unique_ptr<observe::AuditLog> log, Told told)
    : log_(std::move(log)), told_(std::move(told)), writer_([this] { Write(); }) {}

AuditTrail::~AuditTrail() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  writer_.join();
}

void AuditTrail::Record(observe::AuditEvent event) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < kWaitingMax; });
  waiting_.push_back(std::move(event));
  changed_.notify_all();
}

void AuditTrail::Write() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const observe::AuditEvent event = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    lock.unlock();
    if (const Status written = log_->Append(event); !written && told_) told_(written.error());
    lock.lock();
  }
}

}  // namespace lithify::serve
