#include "embed/audit.h"

#include <utility>

#include "observe/audit_checkpoint.h"

namespace lithify::embed {
namespace {

std::unique_ptr<observe::AuditLog> AsConfigured(const config::AuditLogConfig& config,
                                                std::unique_ptr<observe::AuditLog> log,
                                                AuditErrorHandler told) {
  if (config.on_error != "continue") return log;
  return observe::MakeLenientAuditLog(std::move(log), std::move(told));
}

}  // namespace

Result<std::unique_ptr<observe::AuditLog>> OpenAuditFile(const config::AuditLogConfig& config,
                                                         const std::string& path,
                                                         AuditErrorHandler told) {
  observe::AuditFileOptions options;
  options.max_bytes = config.max_bytes;
  if (!config.signing_key.empty()) {
    auto signer = observe::AuditSigner::Load(config.signing_key);
    if (!signer) return Fail(std::move(signer.error()).In("audit_log.signing_key"));
    options.signer = std::move(*signer);
  }
  return AsConfigured(config, observe::OpenFileAuditLog(path, std::move(options)), std::move(told));
}

Result<std::unique_ptr<observe::AuditLog>> OpenAuditObjects(const config::AuditLogConfig& config,
                                                            storage::Store& store,
                                                            const std::string& prefix,
                                                            AuditErrorHandler told) {
  if (!config.signing_key.empty()) {
    return Fail(Code::kInvalid, "an audit log in a bucket is not signed", "audit_log.signing_key",
                "set audit_log.path to a local file, or leave the key out");
  }
  return AsConfigured(config, observe::OpenStoreAuditLog(store, prefix), std::move(told));
}

}  // namespace lithify::embed
