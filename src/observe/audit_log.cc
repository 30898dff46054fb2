#include "observe/audit_log.h"

#include <openssl/evp.h>

#include <array>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "observe/audit_line.h"

namespace lithify::observe {
namespace {

using Json = nlohmann::ordered_json;
using Phase = AuditEvent::Phase;

constexpr std::array kPhases = {
    std::pair{Phase::kIntent, std::string_view("intent")},
    std::pair{Phase::kCommitted, std::string_view("committed")},
    std::pair{Phase::kAborted, std::string_view("aborted")},
    std::pair{Phase::kUnknown, std::string_view("unknown")},
    std::pair{Phase::kAdopted, std::string_view("adopted")},
    std::pair{Phase::kCollected, std::string_view("collected")},
    std::pair{Phase::kEmitted, std::string_view("emitted")},
};

std::string_view StatementType(Phase phase) {
  switch (phase) {
    case Phase::kAdopted: return kHiveAdopt;
    case Phase::kCollected: return "hive_collect";
    default: return "hive_compact";
  }
}

bool IsFailure(Phase phase) { return phase == Phase::kAborted || phase == Phase::kUnknown; }

Json EventObject(const AuditEvent& event) {
  Json out;
  out["time"] = FormatTime(event.time);
  out["kind"] = "maintenance";
  out["statement_type"] =
      event.procedure.empty() ? std::string(StatementType(event.phase)) : event.procedure;
  out["phase"] = PhaseName(event.phase);
  out["job_id"] = event.job_id;
  out["actor"] = {{"username", event.actor}};
  out["status"] = IsFailure(event.phase) ? "failure" : "success";
  if (!event.tree.empty()) out["tree"] = event.tree;
  if (event.table.empty()) {
    out["series"] = event.series;
    out["tenant"] = event.tenant;
    out["partition"] = event.partition;
  } else {
    out["catalog"] = event.catalog;
    out["table"] = event.table;
    if (event.snapshot_id != 0) out["snapshot_id"] = event.snapshot_id;
  }
  out["inputs"] = event.inputs;
  out["outputs"] = event.outputs;
  out["rows"] = event.rows;
  out["bytes_in"] = event.bytes_in;
  out["bytes_out"] = event.bytes_out;
  if (event.table.empty()) out["generation"] = event.generation;
  if (!event.row_digest.empty()) out["row_digest"] = event.row_digest;
  if (!event.error.empty()) out["error"] = event.error;
  if (!event.emitted_file.empty()) out["emitted_file"] = event.emitted_file;
  return out;
}

// Text that is not UTF-8 cannot be JSON: its bad bytes become U+FFFD rather than an exception.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Reads members of one object; remembers the first that is absent or of another type.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  std::string Text(const char* name, bool required = true) {
    const Json* found = Find(name, required, [](const Json& j) { return j.is_string(); });
    return found == nullptr ? std::string() : found->get<std::string>();
  }
  int64_t Number(const char* name) {
    const Json* found = Find(name, true, [](const Json& j) { return j.is_number_integer(); });
    return found == nullptr ? 0 : found->get<int64_t>();
  }
  uint64_t Unsigned(const char* name) {
    const Json* found = Find(name, true, [](const Json& j) { return j.is_number_unsigned(); });
    return found == nullptr ? 0 : found->get<uint64_t>();
  }
  std::vector<std::string> Texts(const char* name) {
    const Json* found = Find(name, true, [](const Json& j) {
      if (!j.is_array()) return false;
      for (const Json& item : j) {
        if (!item.is_string()) return false;
      }
      return true;
    });
    return found == nullptr ? std::vector<std::string>() : found->get<std::vector<std::string>>();
  }
  const Json* Object(const char* name) {
    return Find(name, true, [](const Json& j) { return j.is_object(); });
  }
  void Refuse(const char* name) {
    if (problem_.empty()) problem_ = std::string("member \"") + name + "\" is absent or malformed";
  }
  const std::string& problem() const { return problem_; }

 private:
  template <typename Predicate>
  const Json* Find(const char* name, bool required, Predicate fits) {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      if (required) Refuse(name);
      return nullptr;
    }
    if (!fits(*found)) {
      Refuse(name);
      return nullptr;
    }
    return &*found;
  }

  const Json& object_;
  std::string problem_;
};

Result<AuditEvent> ParseEvent(const Json& object) {
  Members members(object);
  AuditEvent event;
  const std::string phase = members.Text("phase");
  bool known = false;
  for (const auto& [value, name] : kPhases) {
    if (name != phase) continue;
    event.phase = value;
    known = true;
  }
  if (!known) members.Refuse("phase");
  if (auto time = ParseTime(members.Text("time"))) {
    event.time = *time;
  } else {
    members.Refuse("time");
  }
  event.job_id = members.Text("job_id");
  event.tree = members.Text("tree", false);
  event.table = members.Text("table", false);
  const bool hive = event.table.empty();
  event.procedure = members.Text("statement_type", !hive);
  // Where it is what the phase says, it is left empty.
  if (hive && event.procedure == StatementType(event.phase)) event.procedure.clear();
  if (!hive) {
    event.catalog = members.Text("catalog");
    if (object.contains("snapshot_id")) event.snapshot_id = members.Number("snapshot_id");
  }
  event.series = members.Text("series", hive);
  event.tenant = members.Text("tenant", hive);
  event.partition = members.Text("partition", hive);
  event.inputs = members.Texts("inputs");
  event.outputs = members.Texts("outputs");
  event.rows = members.Number("rows");
  event.bytes_in = members.Number("bytes_in");
  event.bytes_out = members.Number("bytes_out");
  if (hive) event.generation = members.Unsigned("generation");
  event.row_digest = members.Text("row_digest", false);
  event.error = members.Text("error", false);
  event.emitted_file = members.Text("emitted_file", false);
  if (const Json* actor = members.Object("actor")) {
    Members inner(*actor);
    event.actor = inner.Text("username");
    if (!inner.problem().empty()) members.Refuse("actor");
  }
  if (!members.problem().empty()) return Fail(Code::kCorrupt, members.problem());
  return event;
}

class MemoryAuditLog final : public AuditLog {
 public:
  Status Append(const AuditEvent& event) override {
    std::lock_guard lock(mutex_);
    const uint64_t seq = head_.next_seq;
    MakeAuditLine(event, {}, head_);
    records_.push_back({.event = event, .seq = seq, .hash = head_.hash});
    return {};
  }

  Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail) override {
    std::lock_guard lock(mutex_);
    if (torn_tail != nullptr) *torn_tail = false;
    return records_;
  }

 private:
  std::mutex mutex_;
  ChainHead head_;
  std::vector<AuditRecord> records_;
};

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  const int ok =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  LITHIFY_CHECK(ok == 1 && size == 32, "SHA-256 is not available from OpenSSL");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(64);
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

// The integrity object is the last member and its hash the last of it, so that a line always ends
// with `"hash":"<64 digits>"}}` and can be checked byte for byte, without serialising it again.
constexpr std::string_view kBlankEnd = "\"hash\":\"\"}}";
constexpr size_t kEndSize = kBlankEnd.size() + 64;

std::string MakeAuditLine(const AuditEvent& event, std::string_view torn_hash, ChainHead& head) {
  Json object = EventObject(event);
  Json& integrity = object["integrity"];
  integrity["seq"] = head.next_seq;
  integrity["prev_hash"] = head.hash;
  if (!torn_hash.empty()) integrity["torn"] = torn_hash;
  integrity["hash"] = "";
  std::string line = Dump(object);
  LITHIFY_CHECK(line.ends_with(kBlankEnd), "an audit line must end with its hash");
  head.hash = Sha256Hex(head.hash + line);
  head.next_seq += 1;
  line.insert(line.size() - 3, head.hash);
  return line;
}

Result<AuditLine> ParseAuditLine(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return Fail(Code::kCorrupt, "not a JSON object");
  Members members(object);
  const Json* integrity = members.Object("integrity");
  if (integrity == nullptr) return Fail(Code::kCorrupt, members.problem());
  Members chain(*integrity);
  AuditLine out;
  out.record.seq = chain.Unsigned("seq");
  out.record.hash = chain.Text("hash");
  out.prev_hash = chain.Text("prev_hash");
  out.torn = chain.Text("torn", false);
  if (!chain.problem().empty()) return Fail(Code::kCorrupt, "integrity: " + chain.problem());

  if (out.record.hash.size() != 64 || line.size() < kEndSize ||
      line.substr(line.size() - kEndSize) != "\"hash\":\"" + out.record.hash + "\"}}") {
    return Fail(Code::kCorrupt, "the line does not end with its hash");
  }
  std::string hashed = out.prev_hash;
  hashed += line.substr(0, line.size() - kEndSize);
  hashed += kBlankEnd;
  if (Sha256Hex(hashed) != out.record.hash) {
    return Fail(Code::kCorrupt, "the line was altered: its hash does not match its bytes");
  }
  LITHIFY_TRY_ASSIGN(out.record.event, ParseEvent(object));
  return out;
}

Status Continue(const AuditLine& line, const std::optional<std::string>& fragment,
                ChainHead& head) {
  if (line.record.seq != head.next_seq) {
    return Fail(Code::kCorrupt, "expected seq " + std::to_string(head.next_seq) + ", found " +
                                    std::to_string(line.record.seq) +
                                    ": lines were removed, added or reordered");
  }
  if (line.prev_hash != head.hash) {
    return Fail(Code::kCorrupt, "prev_hash is not the hash of the record before it");
  }
  if (line.torn != (fragment ? Sha256Hex(*fragment) : std::string())) {
    return Fail(Code::kCorrupt, "the torn fragment before this line is not the one it covers");
  }
  head.hash = line.record.hash;
  head.next_seq += 1;
  return {};
}

std::string AuditEventJson(const AuditEvent& event) { return Dump(EventObject(event)); }

std::string_view PhaseName(AuditEvent::Phase phase) {
  for (const auto& [value, name] : kPhases) {
    if (value == phase) return name;
  }
  return "unknown";
}

std::unique_ptr<AuditLog> OpenMemoryAuditLog() { return std::make_unique<MemoryAuditLog>(); }

}  // namespace lithify::observe
