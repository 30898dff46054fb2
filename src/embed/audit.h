// The audit log as configured, the same for every kind of session.
#ifndef LITHIFY_EMBED_AUDIT_H_
#define LITHIFY_EMBED_AUDIT_H_

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "observe/audit_log.h"
#include "storage/store.h"

namespace lithify::embed {

// Of a record that could not be written, where the work goes on without it
// (audit_log.on_error = "continue"). Called by any thread.
using AuditErrorHandler = std::function<void(const Error&)>;

// A file at `path`. kInvalid, kNotFound or kDenied for a signing key that cannot be used.
Result<std::unique_ptr<observe::AuditLog>> OpenAuditFile(const config::AuditLogConfig& config,
                                                         const std::string& path,
                                                         AuditErrorHandler told);

// Objects below `prefix`. kInvalid where a signing key is set: these are not signed.
Result<std::unique_ptr<observe::AuditLog>> OpenAuditObjects(const config::AuditLogConfig& config,
                                                            storage::Store& store,
                                                            const std::string& prefix,
                                                            AuditErrorHandler told);

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_AUDIT_H_
