#include <utility>

#include "observe/audit_log.h"

namespace lithify::observe {
namespace {

class LenientAuditLog final : public AuditLog {
 public:
  LenientAuditLog(std::unique_ptr<AuditLog> log, std::function<void(const Error&)> told)
      : log_(std::move(log)), told_(std::move(told)) {}

  Status Append(const AuditEvent& event) override {
    if (const Status appended = log_->Append(event); !appended && told_) told_(appended.error());
    return {};
  }
  Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail) override {
    return log_->ReadAll(torn_tail);
  }

 private:
  const std::unique_ptr<AuditLog> log_;
  const std::function<void(const Error&)> told_;
};

}  // namespace

std::unique_ptr<AuditLog> MakeLenientAuditLog(std::unique_ptr<AuditLog> log,
                                              std::function<void(const Error&)> told) {
  return std::make_unique<LenientAuditLog>(std::move(log), std::move(told));
}

}  // namespace lithify::observe
