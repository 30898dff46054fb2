// One line of the audit log: event to text, text to record, and the hash that chains them. Private
// to this module.
#ifndef LITHIFY_OBSERVE_AUDIT_LINE_H_
#define LITHIFY_OBSERVE_AUDIT_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "observe/audit_log.h"

namespace lithify::observe {

// Where the chain stands: what the next record continues from.
struct ChainHead {
  uint64_t next_seq = 0;
  std::string hash = std::string(64, '0');
};

struct AuditLine {
  AuditRecord record;
  std::string prev_hash;
  std::string torn;  // Hash of the fragment before this line; empty: there was none.
};

// What ends a torn fragment. No record can end so.
inline constexpr std::string_view kTornMark = " #torn";

// Who appends, where the event does not say.
std::string UserOfThisProcess();

std::string Sha256Hex(std::string_view bytes);

// The event as it is written: somebody did it, secrets are masked, long texts are cut.
AuditEvent PrepareAuditEvent(AuditEvent event);

// The line without its newline, continuing `head`; moves `head` on.
std::string MakeAuditLine(const AuditEvent& event, std::string_view torn_hash, ChainHead& head);

// The inverse, with the line's own hash checked. kCorrupt with the reason.
Result<AuditLine> ParseAuditLine(std::string_view line);

// kCorrupt unless `line` continues `head`, with exactly `fragment` (the bytes of a torn fragment,
// or nullopt) before it; moves `head` on.
Status Continue(const AuditLine& line, const std::optional<std::string>& fragment, ChainHead& head);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_LINE_H_
