// lithify audit verify: what was done to an audit log.
#include "observe/audit_verify.h"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

using observe::AuditFinding;
using observe::AuditVerification;

struct Options {
  CommonOptions common;  // `root` is PATH.
  std::vector<std::string> public_keys = {};
  std::string checkpoints = {};
};

Json FindingsJson(const AuditVerification& result) {
  Json out = Json::array();
  for (const AuditFinding& finding : result.findings) {
    out.push_back({{"fault", observe::FaultName(finding.fault)},
                   {"file", finding.file},
                   {"line", finding.line > 0 ? Json(finding.line) : Json()},
                   {"seq", finding.seq ? Json(*finding.seq) : Json()},
                   {"what", finding.what}});
  }
  return out;
}

Json ResultJson(const AuditVerification& result, const std::string& path) {
  return {{"path", path},
          {"ok", result.ok()},
          {"files", result.files},
          {"bytes", result.bytes},
          {"records", result.records},
          {"last_seq", result.last_seq ? Json(*result.last_seq) : Json()},
          {"torn_fragments", result.torn_fragments},
          {"torn_tail", result.torn_tail},
          {"checkpoints", result.checkpoints},
          {"checkpoints_signed", result.checkpoints_signed},
          {"signed_through", result.signed_through ? Json(*result.signed_through) : Json()},
          {"findings", FindingsJson(result)},
          {"findings_left_off", result.findings_left_off},
          {"notes", result.notes}};
}

std::string ResultText(const AuditVerification& result, const std::string& path, bool colour) {
  std::string out = path + ": " + FormatCount(result.records) + " records in " +
                    FormatCount(std::ssize(result.files)) + " files, " + FormatBytes(result.bytes) +
                    "\n";
  if (result.signed_through) {
    out += "signed through seq " + std::to_string(*result.signed_through) + ", by " +
           FormatCount(result.checkpoints_signed) + " checkpoints\n";
  }
  if (result.torn_fragments > 0) {
    out += FormatCount(result.torn_fragments) + " torn lines, left by processes that died\n";
  }
  for (const std::string& note : result.notes) out += "  note: " + Printable(note) + "\n";
  if (result.ok()) return out + Paint("whole", Tone::kGood, colour) + "\n";
  TextTable table({{"fault"}, {"file"}, {"line", Align::kRight}, {"seq", Align::kRight}, {"what"}});
  for (const AuditFinding& finding : result.findings) {
    table.AddRow({{std::string(observe::FaultName(finding.fault)), Tone::kBad},
                  {Printable(finding.file)},
                  {finding.line > 0 ? std::to_string(finding.line) : ""},
                  {finding.seq ? std::to_string(*finding.seq) : ""},
                  {Printable(finding.what)}});
  }
  out += "\n" + table.Render(colour);
  if (result.findings_left_off > 0) {
    out += "and " + FormatCount(result.findings_left_off) + " more\n";
  }
  return out + "keep the files as they are, as evidence\n";
}

int Show(const Options& options, const std::string& path, const AuditVerification& result) {
  bool printed = true;
  if (options.common.json) {
    printed = PrintJson(ResultJson(result, path));
  } else if (!options.common.quiet || !result.ok()) {
    printed = Print(ResultText(result, path, ColourOn(STDOUT_FILENO)));
  }
  if (!result.ok()) return kMismatch;
  return printed ? kDone : kFailed;
}

int Unread(const Error& error) {
  PrintError(error);
  return error.code == Code::kCancelled ? kStopped : kUnreadable;
}

int VerifyFile(const Options& options, const std::string& path) {
  const CancelFlag& cancel = CatchSignals();
  observe::AuditVerifyOptions wanted{.keys = {}, .checkpoints = options.checkpoints};
  for (const std::string& file : options.public_keys) {
    auto key = observe::AuditPublicKey::Load(file);
    if (!key) {
      PrintError(key.error());
      return kUsage;
    }
    wanted.keys.push_back(std::move(*key));
  }
  SystemClock clock;
  const auto progress = StartProgress(options.common, clock, "audit verify");
  const auto result = observe::VerifyAuditLog(path, wanted, *progress, cancel);
  progress->Finish();
  if (!result) return Unread(result.error());
  return Show(options, path, *result);
}

// Objects in a bucket: they are not signed, and the first fault ends the walk.
int VerifyObjects(const Options& options, embed::HiveSession& session) {
  if (!options.public_keys.empty() || !options.checkpoints.empty()) {
    return Report({.code = Code::kInvalid,
                   .message = "an audit log in a bucket is not signed",
                   .context = session.audit_path(),
                   .hint = "leave --public-key and --checkpoints out"});
  }
  const auto records = session.audit().ReadAll();
  if (!records && records.error().code != Code::kCorrupt) return Unread(records.error());
  AuditVerification result;
  result.files = {session.audit_path()};
  result.notes = {"objects are not signed: that records were cut off at the end cannot be found"};
  if (records) {
    result.records = std::ssize(*records);
    if (!records->empty()) result.last_seq = records->back().seq;
  } else {
    result.findings.push_back({.fault = observe::AuditFault::kBroken,
                               .file = records.error().context,
                               .line = 0,
                               .seq = std::nullopt,
                               .what = records.error().message});
  }
  return Show(options, session.audit_path(), result);
}

int Run(const Options& options) {
  const std::string& path = options.common.root;
  struct stat info{};
  const bool tree = path.find("://") != std::string::npos ||
                    (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode));
  if (!path.empty() && !tree) return VerifyFile(options, path);
  if (path.empty()) {
    const auto config = LoadConfig(options.common);
    if (!config) return Report(config.error());
    if (!config->audit_log.path.empty()) return VerifyFile(options, config->audit_log.path);
    return Report({.code = Code::kInvalid,
                   .message = "no audit log is named, and audit_log.path is not set",
                   .context = {},
                   .hint = "give the path of a log, or the root of a tree"});
  }
  int code = kDone;
  const auto session = OpenSession(options.common, code);
  if (!session) return code;
  const bool objects = session->audit_path().find("://") != std::string::npos;
  return objects ? VerifyObjects(options, *session) : VerifyFile(options, session->audit_path());
}

}  // namespace

void AddAuditVerify(CLI::App& audit, Command& chosen) {
  CLI::App* command = audit.add_subcommand(
      "verify", "Look for edits, gaps, reordered lines and a tail that was cut off");
  const auto options = std::make_shared<Options>();
  command->add_option("PATH", options->common.root,
                      "The log's file, or the root of a tree (default: audit_log.path)");
  command
      ->add_option("--public-key", options->public_keys,
                   "PEM file of who signs the checkpoints; may be repeated")
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--checkpoints", options->checkpoints,
                      "A copy of the checkpoints (default: PATH.checkpoints)");
  AddConfigOptions(*command, options->common);
  AddJson(*command, options->common);
  AddProgressOptions(*command, options->common);
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
