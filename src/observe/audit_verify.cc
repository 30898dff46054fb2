#include "observe/audit_verify.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "observe/audit_line.h"
#include "observe/audit_posix.h"

namespace lithify::observe {
namespace {

using Trouble = ChainWalker::Trouble;

AuditFault FaultOf(Trouble trouble) {
  switch (trouble) {
    case Trouble::kUnreadable: return AuditFault::kUnreadable;
    case Trouble::kEdited: return AuditFault::kEdited;
    case Trouble::kGap: return AuditFault::kGap;
    case Trouble::kReordered: return AuditFault::kReordered;
    case Trouble::kBroken: return AuditFault::kBroken;
    case Trouble::kTorn: return AuditFault::kTorn;
  }
  return AuditFault::kUnreadable;
}

// A file of the log that is open, with as many bytes of it as count.
struct OpenPart {
  std::string path;
  Descriptor fd{-1};
  int64_t bytes = 0;
};

class Verifier {
 public:
  Verifier(const std::string& path, const AuditVerifyOptions& options, Progress& progress,
           const CancelFlag& cancel)
      : path_(path), options_(options), progress_(progress), cancel_(cancel) {}

  Result<AuditVerification> Run() {
    // Before the log: what is appended and signed meanwhile is not a cut.
    LITHIFY_TRY(ReadCheckpoints());
    LITHIFY_TRY_ASSIGN(const std::vector<OpenPart> parts, OpenParts());
    for (const OpenPart& part : parts) LITHIFY_TRY(Walk(part));
    out_.torn_fragments = walker_.fragments();
    out_.torn_tail = walker_.in_fragment();
    CompareCheckpoints();
    Note();
    return std::move(out_);
  }

 private:
  void Find(AuditFault fault, std::string file, int64_t line, std::optional<uint64_t> seq,
            std::string what) {
    if (out_.findings.size() >= AuditVerification::kFindingsMax) {
      ++out_.findings_left_off;
      return;
    }
    out_.findings.push_back({.fault = fault,
                             .file = std::move(file),
                             .line = line,
                             .seq = seq,
                             .what = std::move(what)});
  }

  std::string CheckpointPath() const {
    return options_.checkpoints.empty() ? CheckpointFile(path_) : options_.checkpoints;
  }

  Status ReadCheckpoints() {
    const std::string file = CheckpointPath();
    const Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0 && errno == ENOENT && options_.checkpoints.empty()) return {};
    if (fd.get() < 0) return FailErrno(errno, "cannot open the checkpoints", file);
    LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), file));
    int64_t unreadable = 0;
    for (LogLines lines(fd.get(), size, file);;) {
      LITHIFY_TRY_ASSIGN(const bool more, lines.Next());
      if (!more) break;
      if (cancel_.requested()) return Fail(Code::kCancelled, "stopped", file);
      if (lines.line().empty()) continue;
      auto checkpoint = ParseCheckpointLine(lines.line());
      if (checkpoint) {
        TakeCheckpoint(std::move(*checkpoint), file, lines.number());
      } else if (lines.ended()) {
        ++unreadable;
      }
    }
    if (unreadable > 0) {
      out_.notes.push_back(std::to_string(unreadable) + " lines of " + file +
                           " are no checkpoints: a process died while it wrote them, or they were "
                           "altered");
    }
    return {};
  }

  void TakeCheckpoint(AuditCheckpoint checkpoint, const std::string& file, int64_t line) {
    ++out_.checkpoints;
    const auto key = std::ranges::find(options_.keys, checkpoint.key_id,
                                       [](const auto& known) { return known->key_id(); });
    if (options_.keys.empty()) {
      checkpoints_.emplace(checkpoint.seq, Mark{std::move(checkpoint.hash), line});
    } else if (key == options_.keys.end()) {
      ++unknown_keys_[checkpoint.key_id];
    } else if (!(*key)->Signed(checkpoint)) {
      Find(AuditFault::kBadSignature, file, line, checkpoint.seq,
           "the signature is not that of key " + checkpoint.key_id);
    } else {
      ++out_.checkpoints_signed;
      checkpoints_.emplace(checkpoint.seq, Mark{std::move(checkpoint.hash), line});
    }
  }

  Result<std::vector<OpenPart>> OpenParts() {
    LITHIFY_TRY_ASSIGN(LogFiles files, OpenLogFiles(path_));
    std::vector<OpenPart> parts;
    for (std::string& older : files.older) {
      Descriptor fd(open(older.c_str(), O_RDONLY | O_CLOEXEC));
      if (fd.get() < 0) return FailErrno(errno, "cannot open a part of the audit log", older);
      LITHIFY_TRY_ASSIGN(const int64_t size, SizeOf(fd.get(), older));
      parts.push_back({.path = std::move(older), .fd = std::move(fd), .bytes = size});
    }
    if (files.active.get() >= 0) {
      parts.push_back({.path = path_, .fd = std::move(files.active), .bytes = files.active_bytes});
    }
    if (parts.empty() && out_.checkpoints == 0) {
      return Fail(Code::kNotFound, "there is no audit log", path_, "give the path of the log");
    }
    for (const OpenPart& part : parts) {
      out_.files.push_back(part.path);
      out_.bytes += part.bytes;
    }
    progress_.AddTotal(out_.bytes, 0);
    return parts;
  }

  Status Walk(const OpenPart& part) {
    LogLines lines(part.fd.get(), part.bytes, part.path);
    for (int64_t told = 0;;) {
      LITHIFY_TRY_ASSIGN(const bool more, lines.Next());
      if (lines.read() > told) {
        progress_.AddBytes(lines.read() - told);
        told = lines.read();
        if (cancel_.requested()) return Fail(Code::kCancelled, "stopped", part.path);
      }
      if (!more) break;
      auto record = walker_.Line(lines.line(), lines.ended());
      if (record) {
        if (*record) See(**record, true);
        continue;
      }
      ChainWalker::Break& broken = record.error();
      if (broken.record) See(*broken.record, broken.trouble != Trouble::kReordered);
      Find(FaultOf(broken.trouble), part.path, lines.number(), broken.seq, std::move(broken.what));
    }
    return {};
  }

  void See(const AuditRecord& record, bool in_place) {
    ++out_.records;
    if (!in_place) return;
    out_.last_seq = std::max(out_.last_seq.value_or(0), record.seq);
    const auto [first, last] = checkpoints_.equal_range(record.seq);
    for (auto it = first; it != last; ++it) it->second.found = record.hash;
  }

  void CompareCheckpoints() {
    const std::string file = CheckpointPath();
    const bool trusted = !options_.keys.empty();
    for (const auto& [seq, mark] : checkpoints_) {
      if (mark.found == mark.hash) {
        if (trusted) out_.signed_through = seq;
        continue;
      }
      const bool beyond = seq >= walker_.next_seq();
      if (beyond) {
        Find(AuditFault::kCutTail, file, mark.line, seq,
             "record " + std::to_string(seq) + " was there, and the log ends before it");
      } else if (mark.found) {
        Find(AuditFault::kRewritten, file, mark.line, seq,
             "record " + std::to_string(seq) + " is not the one that was there");
      }
      // Else the record is missing or unreadable, which was told.
    }
    // Beyond a fault no mark says anything of what lies between.
    if (!out_.ok()) out_.signed_through.reset();
  }

  void Note() {
    for (const auto& [key_id, count] : unknown_keys_) {
      out_.notes.push_back(std::to_string(count) + " checkpoints are signed by key " + key_id +
                           ", whose public key was not given");
    }
    if (out_.torn_tail) {
      out_.notes.emplace_back(
          "the last line is torn: a process died while it wrote it; it was never acknowledged");
    }
    if (options_.keys.empty()) {
      out_.notes.emplace_back(
          out_.checkpoints == 0
              ? "nothing is signed (audit_log.signing_key): that records were cut off at the end, "
                "or the whole log made anew, cannot be found"
              : "no public key was given: the checkpoints may be forged, and with them that "
                "records were cut off at the end");
      return;
    }
    if (out_.checkpoints_signed == 0 && out_.records > 0) {
      Find(AuditFault::kNoCheckpoints, CheckpointPath(), 0, std::nullopt,
           "there is no checkpoint that the given key has signed");
      return;
    }
    if (out_.signed_through && out_.last_seq && *out_.signed_through < *out_.last_seq) {
      out_.notes.push_back("records after seq " + std::to_string(*out_.signed_through) +
                           " are not signed yet: that the last ones were cut off would not be "
                           "found");
    }
  }

  // Of one checkpoint.
  struct Mark {
    std::string hash;
    int64_t line = 0;
    std::optional<std::string> found = {};  // The hash of the record of that number.
  };

  const std::string& path_;
  const AuditVerifyOptions& options_;
  Progress& progress_;
  const CancelFlag& cancel_;
  AuditVerification out_;
  ChainWalker walker_;
  std::multimap<uint64_t, Mark> checkpoints_;
  std::map<std::string, int64_t> unknown_keys_;
};

}  // namespace

std::string_view FaultName(AuditFault fault) {
  switch (fault) {
    case AuditFault::kUnreadable: return "unreadable";
    case AuditFault::kEdited: return "edited";
    case AuditFault::kGap: return "gap";
    case AuditFault::kReordered: return "reordered";
    case AuditFault::kBroken: return "broken_chain";
    case AuditFault::kTorn: return "torn";
    case AuditFault::kCutTail: return "cut_tail";
    case AuditFault::kRewritten: return "rewritten";
    case AuditFault::kBadSignature: return "bad_signature";
    case AuditFault::kNoCheckpoints: return "no_checkpoints";
  }
  return "unreadable";
}

Result<AuditVerification> VerifyAuditLog(const std::string& path, const AuditVerifyOptions& options,
                                         Progress& progress, const CancelFlag& cancel) {
  return Verifier(path, options, progress, cancel).Run();
}

}  // namespace lithify::observe
