// The audit log: what lithify was about to change and what came of it, one JSON object per line,
// chained by hash (R169, R170, R178, T25). An intent is written before each commit; its outcome
// after. Not to be confused with the `audit/` Parquet series of a hive tree (T34).
//
// Line: {"time","kind","statement_type","phase","job_id","actor":{…},"status",…event fields…,
// "integrity":{"seq","prev_hash","hash"}} where hash = sha256(prev_hash || the line with "hash" set
// to ""), genesis 64 zeros, seq from 0. Loss of the tail cannot be found by the chain alone: signed
// checkpoints are for that (observe/audit_checkpoint.h).
//
// A record is a line that ends with a newline. A crash while appending leaves a torn fragment
// without one: it never was acknowledged, is no part of the chain, and stays as evidence. The next
// append ends it with " #torn", starts a new line, and covers the fragment with
// "integrity"."torn" = sha256 of its bytes; so a fragment that was altered or added later is found.
#ifndef LITHIFY_OBSERVE_AUDIT_LOG_H_
#define LITHIFY_OBSERVE_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::observe {

// AuditEvent::procedure of the intent and the failure of an adoption of late files.
inline constexpr std::string_view kHiveAdopt = "hive_adopt";

enum class AuditKind {
  kMaintenance,     // A step of a change of data: has a phase other than kRecorded.
  kQuery,           // A statement that read, or was refused.
  kAuth,            // Somebody proved who they are, or failed to.
  kSession,         // Begun, ended.
  kGrant,           // Rights were given or taken.
  kAdminDdl,        // Properties of a table were changed.
  kPolicyDecision,  // Something was allowed or denied by a rule.
};

// What a statement was about.
struct AuditResource {
  std::string catalog = {};
  std::vector<std::string> namespace_parts = {};
  std::string name = {};
  std::string object_type = {};  // "table", "view", "namespace", "job".
  bool operator==(const AuditResource&) const = default;
};

// One step of one hive compaction (R243), or of one procedure on an Iceberg table (R056): then
// `table` is set, and the hive members (series, tenant, partition, generation) are empty. Or, of
// another kind, what happened at a server (R169): then none of these is set, the phase is
// kRecorded, and the members from `failed` on tell it.
struct AuditEvent {
  enum class Phase {
    kIntent,     // About to publish.
    kCommitted,  // The swap is known to have happened.
    kAborted,    // Known not to have happened; `error` says why.
    kUnknown,    // Cannot be told; loud.
    kAdopted,    // Late files were made visible.
    kCollected,  // Files were removed; `inputs` names them.
    kEmitted,    // The event is in the audit/ series, as file `emitted_file`.
    kRecorded,   // No step of a change: of all kinds but kMaintenance.
  };
  Phase phase = Phase::kIntent;
  Time time;
  std::string job_id;
  std::string series;
  std::string tenant;
  std::string partition;  // Key prefix, with the trailing slash.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  int64_t rows = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  uint64_t generation = 0;  // That was or would be published.
  std::string row_digest;   // Hex; of the rows of the inputs.
  std::string error;
  std::string emitted_file;  // Key of the Parquet event file, for kCommitted and kEmitted.
  std::string actor = {};    // Who ran it. Empty: Append writes the user of this process.
  std::string tree = {};     // Root of the tree, in a log that several share; else empty.
  // "rewrite_data_files"; the statement type of the line. Of hive events it is empty, except that
  // intent and failure of an adoption have kHiveAdopt. Of the other kinds it is "select", "login",
  // ….
  std::string procedure = {};
  std::string table = {};    // "sales.orders", as the catalog knows it.
  std::string catalog = {};  // Where the table is: "sqlite:///lake/catalog.db".
  int64_t snapshot_id = 0;   // That the table got; 0: none.

  // Of any kind; what is empty is left out of the line.
  AuditKind kind = AuditKind::kMaintenance;
  bool failed = false;          // Of phase kRecorded; the others tell it by themselves.
  std::string error_code = {};  // CodeName() of `error`.
  std::string subject = {};     // Of the actor, as the identity provider calls it.
  std::vector<std::string> roles = {};
  std::vector<std::string> groups = {};
  std::string session_id = {};
  std::string client_ip = {};
  std::string query_id = {};
  std::string query_text = {};
  // SHA-256 of the redacted text, in full where the log has it cut. Append fills it.
  std::string query_hash = {};
  std::optional<int64_t> duration_ms = {};
  std::vector<AuditResource> resources = {};
};

// The text with secrets in it masked as "***": tokens (bearer, basic, JWT), values of keys whose
// names say secret, password, token, credential or key, access keys, private keys, credentials in
// URLs, e-mail addresses and card numbers (R171). It errs on the side of masking.
std::string Redact(std::string_view text);
// Texts of statements are kept so far.
inline constexpr size_t kAuditQueryBytesMax = size_t{16} * 1024;

struct AuditRecord {
  AuditEvent event;
  uint64_t seq = 0;
  std::string hash;
};

// Thread-safe, and safe between processes on one tree.
class AuditLog {
 public:
  virtual ~AuditLog() = default;
  // Durable on success. Secrets in `query_text` and `error` are masked before anything is written.
  virtual Status Append(const AuditEvent& event) = 0;
  // All records, oldest first. kCorrupt, with the line number, where the chain does not hold; a
  // torn last line (crash while appending) is reported by `torn_tail` and skipped. An absent file
  // has no records.
  virtual Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail = nullptr) = 0;
};

class AuditSigner;  // observe/audit_checkpoint.h

struct AuditFileOptions {
  // A file that would become larger is closed, renamed to "<path>.<seq of its first record, 20
  // digits>", and continued in a new one, whose first record goes on with the chain. 0: never.
  int64_t max_bytes = 0;
  // Signs where the chain stands, in "<path>.checkpoints": after so many records, at the first
  // record that is so much later than what is not signed yet, and when the log is closed. Null:
  // nothing is signed.
  std::shared_ptr<const AuditSigner> signer = {};
  uint64_t checkpoint_records = 100;
  Duration checkpoint_age = std::chrono::minutes(10);
};

// `path` is a local file, created with its directory at the first append. Appends of all processes
// are put in order by flock on the file (kUnsupported where the file system has none). All files of
// the log are read. Append may give an error although the record is written, if its checkpoint
// could not be: the next append tries again.
std::unique_ptr<AuditLog> OpenFileAuditLog(std::string path, AuditFileOptions options = {});
// `log`, but an Append that fails succeeds, and `told` gets its error: for those to whom going on
// is worth more than the record (R178). `told` is called by any thread.
std::unique_ptr<AuditLog> MakeLenientAuditLog(std::unique_ptr<AuditLog> log,
                                              std::function<void(const Error&)> told);
// Objects below `prefix` (a key and a slash), for trees in an object store: each is named by the
// sequence number of its first line, "<20 digits>.jsonl". A record is appended to the last one by a
// write with a condition, until it has kAuditObjectBytes; then the next begins. No line is ever
// torn. What several processes append is put in order by the store; kTransient if it was somebody
// else's turn too often. `store` outlives it.
inline constexpr int64_t kAuditObjectBytes = int64_t{256} * 1024;
std::unique_ptr<AuditLog> OpenStoreAuditLog(storage::Store& store, std::string prefix);
// For tests, simulations and roots without a place for it.
std::unique_ptr<AuditLog> OpenMemoryAuditLog();

// The event as one line of JSON without the integrity part (also the form of `lithify audit
// --json`).
std::string AuditEventJson(const AuditEvent& event);
std::string_view PhaseName(AuditEvent::Phase phase);
std::string_view KindName(AuditKind kind);  // "policy_decision".

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_AUDIT_LOG_H_
