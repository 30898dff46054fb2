// lithify audit: the history of compactions, with its chain checked.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/text.h"
#include "commands.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

using Phase = observe::AuditEvent::Phase;

Tone ToneOf(Phase phase) {
  switch (phase) {
    case Phase::kCommitted:
    case Phase::kAdopted:
    case Phase::kEmitted: return Tone::kGood;
    case Phase::kAborted:
    case Phase::kUnknown: return Tone::kBad;
    case Phase::kIntent:
    case Phase::kCollected:
    case Phase::kRecorded: return Tone::kDim;
  }
  return Tone::kPlain;
}

std::string FilesText(const observe::AuditEvent& event) {
  std::string in = FormatCount(static_cast<int64_t>(event.inputs.size()));
  if (event.phase == Phase::kCollected) return in;
  return in + " -> " + FormatCount(static_cast<int64_t>(event.outputs.size()));
}

// The partition, the table, or what was asked.
std::string SubjectOf(const observe::AuditEvent& event) {
  if (!event.partition.empty()) return event.partition;
  if (!event.table.empty()) return event.procedure + " " + event.table;
  return event.procedure;
}

std::string RecordsText(const std::vector<observe::AuditRecord>& records, bool colour) {
  if (records.empty()) return "nothing is recorded\n";
  TextTable table({{"seq", Align::kRight},
                   {"time"},
                   {"phase"},
                   {"what"},
                   {"files", Align::kRight},
                   {"bytes", Align::kRight},
                   {"rows", Align::kRight},
                   {"generation", Align::kRight},
                   {"by"},
                   {"error"}});
  for (const observe::AuditRecord& record : records) {
    const observe::AuditEvent& event = record.event;
    table.AddRow({{std::to_string(record.seq)},
                  {TimeOrDash(event.time)},
                  {std::string(observe::PhaseName(event.phase)), ToneOf(event.phase)},
                  {SubjectOf(event)},
                  {FilesText(event)},
                  {FormatBytes(event.bytes_in) + " -> " + FormatBytes(event.bytes_out)},
                  {FormatCount(event.rows)},
                  {std::to_string(event.generation)},
                  {event.actor},
                  {event.error}});
  }
  return table.Render(colour);
}

Json RecordsJson(const std::vector<observe::AuditRecord>& records) {
  Json out = Json::array();
  for (const observe::AuditRecord& record : records) {
    Json item = Json::parse(observe::AuditEventJson(record.event));
    item["seq"] = record.seq;
    item["hash"] = record.hash;
    out.push_back(std::move(item));
  }
  return out;
}

int Run(const CommonOptions& options) {
  int code = kDone;
  const auto session = OpenSession(options, code);
  if (!session) return code;
  bool torn = false;
  const auto records = session->audit().ReadAll(&torn);
  if (!records) {
    PrintError(records.error());
    return records.error().code == Code::kCorrupt ? kMismatch : kUnreadable;
  }
  if (torn) {
    std::fprintf(stderr,
                 "lithify: %s: the last line is torn: a process died while it wrote it; it was "
                 "never acknowledged and does not count\n",
                 session->audit_path().c_str());
  }
  bool printed = false;
  if (options.json) {
    printed = PrintJson({{"root", session->root()},
                         {"path", session->audit_path()},
                         {"torn_tail", torn},
                         {"records", RecordsJson(*records)}});
  } else {
    printed = Print(RecordsText(*records, ColourOn(STDOUT_FILENO)));
  }
  return printed ? kDone : kFailed;
}

}  // namespace

void AddAudit(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("audit", "The recorded history of compactions");
  const auto options = std::make_shared<CommonOptions>();
  CLI::Option* root =
      command->add_option("ROOT", options->root,
                          "Directory of the tree, the parent of the series, or s3://bucket/prefix");
  AddConfigOptions(*command, *options);
  AddJson(*command, *options);
  AddAuditVerify(*command, chosen);
  command->callback([command, root, options, &chosen] {
    if (command->got_subcommand("verify")) return;
    if (root->count() == 0) throw CLI::RequiredError("ROOT");
    chosen = [options] { return Run(*options); };
  });
}

}  // namespace lithify::cli
