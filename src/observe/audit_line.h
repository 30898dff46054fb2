// One line of the audit log: event to text, text to record, and the hash that chains them. Private
// to this module.
#ifndef LITHIFY_OBSERVE_AUDIT_LINE_H_
#define LITHIFY_OBSERVE_AUDIT_LINE_H_

#include <cstdint>
#include <expected>
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

// Goes over the lines of a log, oldest first, across all that it consists of.
class ChainWalker {
 public:
  enum class Trouble {
    kUnreadable,  // No line of a log at all.
    kEdited,      // The line's own hash is not that of its bytes.
    kGap,         // Lines before it are missing.
    kReordered,   // It belongs further up, or is there twice.
    kBroken,      // It does not continue the line before it, though its number does.
    kTorn,        // The torn fragment before it is not the one that it covers.
  };
  struct Break {
    Trouble trouble;
    std::string what;
    std::optional<uint64_t> seq;        // That the line gives itself.
    std::optional<AuditRecord> record;  // Unless the line itself is wrong.
  };

  // The record, or nullopt for a part of a torn fragment. After a Break the walk goes on behind the
  // line, so that one fault is told once. `ended`: the line had its newline.
  std::expected<std::optional<AuditRecord>, Break> Line(std::string_view line, bool ended);

  uint64_t next_seq() const { return next_seq_; }
  bool in_fragment() const { return fragment_.has_value(); }
  int64_t fragments() const { return fragments_; }  // That records cover.

 private:
  Break SkipWrong(std::string_view line, Error error);

  uint64_t next_seq_ = 0;
  std::optional<std::string> hash_ = std::string(64, '0');  // nullopt: nobody knows.
  std::optional<std::string> fragment_;
  int64_t fragments_ = 0;
};

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_LINE_H_
