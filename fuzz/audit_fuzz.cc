// Lines of an audit log and of its checkpoints: read or refused, written again as they were. Texts
// that are masked; events made of any text.
#include "fuzz_input.h"
#include "observe/audit_checkpoint.h"
#include "observe/audit_line.h"
#include "observe/audit_log.h"

namespace lithify::fuzz {
namespace {

using observe::AuditEvent;

void Line(std::string_view line) {
  const auto parsed = observe::ParseAuditLine(line);
  if (!Gave(parsed)) return;
  observe::ChainHead head{.next_seq = parsed->record.seq, .hash = parsed->prev_hash};
  const std::string again = observe::MakeAuditLine(parsed->record.event, parsed->torn, head);
  const auto back = Must(observe::ParseAuditLine(again), "a line of ours");
  Require(
      observe::AuditEventJson(back.record.event) == observe::AuditEventJson(parsed->record.event),
      "the same event");
}

void Walk(std::string_view text) {
  observe::ChainWalker walker;
  int64_t records = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool ended = newline != std::string_view::npos;
    const auto record = walker.Line(text.substr(0, newline), ended);
    if (record && *record) ++records;
    text.remove_prefix(ended ? newline + 1 : text.size());
  }
  Require(records <= static_cast<int64_t>(walker.next_seq()), "each record has a number");
}

void Checkpoint(std::string_view line) {
  const auto checkpoint = observe::ParseCheckpointLine(line);
  if (!Gave(checkpoint)) return;
  const auto again = Must(observe::ParseCheckpointLine(observe::CheckpointLine(*checkpoint)),
                          "a checkpoint of ours");
  Require(again.seq == checkpoint->seq && again.time == checkpoint->time, "the same checkpoint");
}

void Event(std::string_view text) {
  Taker rest(text);
  AuditEvent event;
  event.kind = static_cast<observe::AuditKind>(rest.Byte() % 7);
  if (event.kind != observe::AuditKind::kMaintenance) event.phase = AuditEvent::Phase::kRecorded;
  event.actor = rest.Until('\n');
  event.procedure = rest.Until('\n');
  event.table = rest.Until('\n');
  event.error = rest.Until('\n');
  event.query_text = rest.Bytes(text.size());
  const AuditEvent made = observe::PrepareAuditEvent(event);
  observe::ChainHead head;
  const std::string line = observe::MakeAuditLine(made, {}, head);
  Require(line.find('\n') == std::string::npos, "a line is one line");
  const auto parsed = Must(observe::ParseAuditLine(line), "a line of ours");
  Require(parsed.record.event.kind == made.kind, "the same kind");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = lithify::fuzz::Text(data, size);
  lithify::fuzz::Line(text);
  lithify::fuzz::Walk(text);
  lithify::fuzz::Checkpoint(text);
  lithify::fuzz::Event(text);
  (void)lithify::observe::Redact(text);
  return 0;
}
