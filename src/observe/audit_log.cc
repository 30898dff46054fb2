#include "observe/audit_log.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

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
    std::pair{Phase::kRecorded, std::string_view("recorded")},
};

constexpr std::array kKinds = {
    std::pair{AuditKind::kMaintenance, std::string_view("maintenance")},
    std::pair{AuditKind::kQuery, std::string_view("query")},
    std::pair{AuditKind::kAuth, std::string_view("auth")},
    std::pair{AuditKind::kSession, std::string_view("session")},
    std::pair{AuditKind::kGrant, std::string_view("grant")},
    std::pair{AuditKind::kAdminDdl, std::string_view("admin_ddl")},
    std::pair{AuditKind::kPolicyDecision, std::string_view("policy_decision")},
};

std::string_view StatementType(Phase phase) {
  switch (phase) {
    case Phase::kAdopted: return kHiveAdopt;
    case Phase::kCollected: return "hive_collect";
    default: return "hive_compact";
  }
}

bool IsFailure(const AuditEvent& event) {
  return event.phase == Phase::kAborted || event.phase == Phase::kUnknown ||
         (event.phase == Phase::kRecorded && event.failed);
}

void PutText(Json& out, const char* name, const std::string& text) {
  if (!text.empty()) out[name] = text;
}

Json ActorObject(const AuditEvent& event) {
  Json actor = {{"username", event.actor}};
  PutText(actor, "subject", event.subject);
  if (!event.roles.empty()) actor["roles"] = event.roles;
  if (!event.groups.empty()) actor["groups"] = event.groups;
  return actor;
}

// What was changed, or was to be.
void PutChange(const AuditEvent& event, Json& out) {
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
  PutText(out, "row_digest", event.row_digest);
}

// Who asked for it, with what words (R169).
void PutRequest(const AuditEvent& event, Json& out) {
  PutText(out, "error_code", event.error_code);
  PutText(out, "session_id", event.session_id);
  PutText(out, "client_ip", event.client_ip);
  PutText(out, "query_id", event.query_id);
  if (!event.query_text.empty()) {
    out["query"] = {{"text", event.query_text}, {"query_hash", event.query_hash}};
  }
  if (event.duration_ms) out["timing"] = {{"duration_ms", *event.duration_ms}};
  if (event.resources.empty()) return;
  Json resources = Json::array();
  for (const AuditResource& resource : event.resources) {
    resources.push_back({{"catalog", resource.catalog},
                         {"namespace", resource.namespace_parts},
                         {"name", resource.name},
                         {"object_type", resource.object_type}});
  }
  out["resources"] = std::move(resources);
}

Json EventObject(const AuditEvent& event) {
  const bool change = event.kind == AuditKind::kMaintenance;
  Json out;
  out["time"] = FormatTime(event.time);
  out["kind"] = KindName(event.kind);
  out["statement_type"] =
      change && event.procedure.empty() ? std::string(StatementType(event.phase)) : event.procedure;
  if (change) {
    out["phase"] = PhaseName(event.phase);
    out["job_id"] = event.job_id;
  }
  out["actor"] = ActorObject(event);
  out["status"] = IsFailure(event) ? "failure" : "success";
  if (change) PutChange(event, out);
  PutText(out, "error", event.error);
  PutText(out, "emitted_file", event.emitted_file);
  PutRequest(event, out);
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
  std::vector<std::string> Texts(const char* name, bool required = true) {
    const Json* found = Find(name, required, [](const Json& j) {
      if (!j.is_array()) return false;
      for (const Json& item : j) {
        if (!item.is_string()) return false;
      }
      return true;
    });
    return found == nullptr ? std::vector<std::string>() : found->get<std::vector<std::string>>();
  }
  const Json* Object(const char* name, bool required = true) {
    return Find(name, required, [](const Json& j) { return j.is_object(); });
  }
  const Json* Array(const char* name) {
    return Find(name, false, [](const Json& j) { return j.is_array(); });
  }
  // What is wrong with a member of this one.
  void Take(const Members& inner, const char* name) {
    if (!inner.problem().empty()) Refuse(name);
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

void ParsePhase(Members& members, AuditEvent& event) {
  const std::string phase = members.Text("phase");
  for (const auto& [value, name] : kPhases) {
    if (name != phase || value == Phase::kRecorded) continue;
    event.phase = value;
    return;
  }
  members.Refuse("phase");
}

void ParseChange(Members& members, const Json& object, AuditEvent& event) {
  ParsePhase(members, event);
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
}

void ParseResources(Members& members, AuditEvent& event) {
  const Json* resources = members.Array("resources");
  if (resources == nullptr) return;
  for (const Json& item : *resources) {
    Members inner(item);
    event.resources.push_back({.catalog = inner.Text("catalog"),
                               .namespace_parts = inner.Texts("namespace"),
                               .name = inner.Text("name"),
                               .object_type = inner.Text("object_type")});
    members.Take(inner, "resources");
  }
}

void ParseRequest(Members& members, AuditEvent& event) {
  event.error_code = members.Text("error_code", false);
  event.session_id = members.Text("session_id", false);
  event.client_ip = members.Text("client_ip", false);
  event.query_id = members.Text("query_id", false);
  if (const Json* query = members.Object("query", false)) {
    Members inner(*query);
    event.query_text = inner.Text("text");
    event.query_hash = inner.Text("query_hash");
    members.Take(inner, "query");
  }
  if (const Json* timing = members.Object("timing", false)) {
    Members inner(*timing);
    event.duration_ms = inner.Number("duration_ms");
    members.Take(inner, "timing");
  }
  ParseResources(members, event);
}

Result<AuditEvent> ParseEvent(const Json& object) {
  Members members(object);
  AuditEvent event;
  const std::string kind = members.Text("kind");
  const auto known = std::ranges::find(kKinds, kind, [](const auto& pair) { return pair.second; });
  if (known == kKinds.end()) {
    members.Refuse("kind");
  } else {
    event.kind = known->first;
  }
  if (auto time = ParseTime(members.Text("time"))) {
    event.time = *time;
  } else {
    members.Refuse("time");
  }
  if (event.kind == AuditKind::kMaintenance) {
    ParseChange(members, object, event);
  } else {
    event.phase = Phase::kRecorded;
    event.procedure = members.Text("statement_type");
    event.failed = members.Text("status") == "failure";
  }
  event.error = members.Text("error", false);
  event.emitted_file = members.Text("emitted_file", false);
  if (const Json* actor = members.Object("actor")) {
    Members inner(*actor);
    event.actor = inner.Text("username");
    event.subject = inner.Text("subject", false);
    event.roles = inner.Texts("roles", false);
    event.groups = inner.Texts("groups", false);
    members.Take(inner, "actor");
  }
  ParseRequest(members, event);
  if (!members.problem().empty()) return Fail(Code::kCorrupt, members.problem());
  return event;
}

class MemoryAuditLog final : public AuditLog {
 public:
  Status Append(const AuditEvent& event) override {
    std::lock_guard lock(mutex_);
    const uint64_t seq = head_.next_seq;
    AuditEvent written = PrepareAuditEvent(event);
    written.actor = event.actor;  // As it was given: worlds do not depend on who runs them.
    MakeAuditLine(written, {}, head_);
    records_.push_back({.event = std::move(written), .seq = seq, .hash = head_.hash});
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

std::string AuditEventJson(const AuditEvent& event) { return Dump(EventObject(event)); }

std::string_view KindName(AuditKind kind) {
  for (const auto& [value, name] : kKinds) {
    if (value == kind) return name;
  }
  return "maintenance";
}

AuditEvent PrepareAuditEvent(AuditEvent event) {
  if (event.actor.empty()) event.actor = UserOfThisProcess();
  event.error = Redact(event.error);
  event.query_text = Redact(event.query_text);
  if (event.query_text.empty()) {
    event.query_hash.clear();
    return event;
  }
  event.query_hash = Sha256Hex(event.query_text);
  if (event.query_text.size() > kAuditQueryBytesMax) {
    size_t bytes = kAuditQueryBytesMax;
    // Not in the middle of a character.
    while (bytes > 0 && (static_cast<unsigned char>(event.query_text[bytes]) & 0xc0) == 0x80) {
      --bytes;
    }
    event.query_text.resize(bytes);
    event.query_text += "…";
  }
  return event;
}

std::string_view PhaseName(AuditEvent::Phase phase) {
  for (const auto& [value, name] : kPhases) {
    if (value == phase) return name;
  }
  return "unknown";
}

std::unique_ptr<AuditLog> OpenMemoryAuditLog() { return std::make_unique<MemoryAuditLog>(); }

}  // namespace lithify::observe
