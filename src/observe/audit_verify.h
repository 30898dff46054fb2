// Looks for what was done to an audit log: all of it, not only the first.
#ifndef LITHIFY_OBSERVE_AUDIT_VERIFY_H_
#define LITHIFY_OBSERVE_AUDIT_VERIFY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "observe/audit_checkpoint.h"
#include "observe/progress.h"

namespace lithify::observe {

enum class AuditFault {
  kUnreadable,     // No line of a log.
  kEdited,         // The line's bytes are not those that were hashed.
  kGap,            // Lines are missing before it.
  kReordered,      // It belongs further up, or is there twice.
  kBroken,         // It does not continue the line before it.
  kTorn,           // What a crash left before it was altered, removed or added.
  kCutTail,        // A signed checkpoint is of a record that the log does not have any more.
  kRewritten,      // A signed checkpoint is of another record with this number.
  kBadSignature,   // A checkpoint was altered, or made by somebody without the key.
  kNoCheckpoints,  // A public key was given, and nothing is signed with it.
};
std::string_view FaultName(AuditFault fault);  // "cut_tail".

struct AuditFinding {
  AuditFault fault = AuditFault::kUnreadable;
  std::string file;
  int64_t line = 0;             // From 1; 0: not of a line.
  std::optional<uint64_t> seq;  // Of the record, where it is known.
  std::string what;
};

struct AuditVerification {
  std::vector<std::string> files;  // Oldest first.
  int64_t bytes = 0;
  int64_t records = 0;  // Lines that are whole, in the right place or not.
  std::optional<uint64_t> last_seq;
  int64_t torn_fragments = 0;              // Left by crashes, and covered by the record after them.
  bool torn_tail = false;                  // One that no record covers yet: never acknowledged.
  int64_t checkpoints = 0;                 // That could be read.
  int64_t checkpoints_signed = 0;          // By one of the keys that were given.
  std::optional<uint64_t> signed_through;  // No record up to this one can be missing or another.
  std::vector<AuditFinding> findings;
  static constexpr size_t kFindingsMax = 1000;
  int64_t findings_left_off = 0;
  std::vector<std::string> notes;  // What could not be checked, and what would be needed.
  bool ok() const { return findings.empty(); }
};

struct AuditVerifyOptions {
  // Of those who may have signed; empty: a cut tail cannot be found.
  std::vector<std::shared_ptr<const AuditPublicKey>> keys = {};
  std::string checkpoints =
      {};  // The file; empty: beside the log. A copy from elsewhere is better.
};

// Of the log at `path` with its older parts. An absent log is kNotFound; other errors are those of
// reading, and kCancelled. What is appended meanwhile is not looked at.
Result<AuditVerification> VerifyAuditLog(const std::string& path, const AuditVerifyOptions& options,
                                         Progress& progress, const CancelFlag& cancel);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_VERIFY_H_
