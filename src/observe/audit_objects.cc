// The audit log as objects of JSON lines in a store.
#include <optional>
#include <utility>

#include "base/text.h"
#include "observe/audit_line.h"
#include "observe/audit_log.h"

namespace lithify::observe {
namespace {

// One line may be longer than an object should be.
constexpr int64_t kObjectBytesMax = 256 * kMiB;
constexpr int kTries = 100;
constexpr std::string_view kSuffix = ".jsonl";

std::string NameOf(uint64_t seq) {
  std::string digits = std::to_string(seq);
  return std::string(20 - digits.size(), '0') + digits + std::string(kSuffix);
}

std::unexpected<Error> FailChain(std::string why, const std::string& where) {
  return Fail(Code::kCorrupt, std::move(why), where,
              "keep the objects as evidence and find out who changed them; moving them away starts "
              "a new chain");
}

// The last object, and where the chain stands at its end.
struct Last {
  std::string key;  // Empty: there is none.
  storage::Blob blob;
  ChainHead head;
};

// A line that may or may not have been written.
struct Doubt {
  std::string key;
  std::string line;
};

class StoreAuditLog final : public AuditLog {
 public:
  StoreAuditLog(storage::Store& store, std::string prefix)
      : store_(store), prefix_(std::move(prefix)) {}

  Status Append(const AuditEvent& event) override {
    const AuditEvent named = PrepareAuditEvent(event);
    std::optional<Doubt> doubt;
    for (int i = 0; i < kTries; ++i) {
      if (doubt) {
        LITHIFY_TRY_ASSIGN(const bool written, IsWritten(*doubt));
        if (written) return {};
      }
      LITHIFY_TRY_ASSIGN(Last last, FindLast());
      const uint64_t seq = last.head.next_seq;
      const std::string line = MakeAuditLine(named, {}, last.head) + "\n";
      const bool next =
          last.key.empty() || std::ssize(last.blob.bytes) + std::ssize(line) > kAuditObjectBytes;
      const std::string key = next ? prefix_ + NameOf(seq) : last.key;
      const Status put = next ? store_.PutNew(key, line)
                              : store_.PutIf(key, last.blob.bytes + line, last.blob.version);
      if (put) return {};
      if (put.error().code == Code::kUnknownOutcome) {
        doubt = {.key = key, .line = line};
      } else if (put.error().code != Code::kConflict) {
        return put;
      }
    }
    return Fail(Code::kTransient, "others append to the audit log all the time",
                store_.Describe() + "/" + prefix_);
  }

  Result<std::vector<AuditRecord>> ReadAll(bool* torn_tail) override {
    if (torn_tail != nullptr) *torn_tail = false;
    LITHIFY_TRY_ASSIGN(const std::vector<std::string> keys, Keys());
    std::vector<AuditRecord> records;
    ChainWalker walker;
    for (const std::string& key : keys) {
      if (key != prefix_ + NameOf(walker.next_seq())) {
        return FailChain("an object before it is missing", key);
      }
      LITHIFY_TRY_ASSIGN(const storage::Blob blob, store_.Get(key, kObjectBytesMax));
      LITHIFY_TRY(ReadLines(blob.bytes, key, walker, records));
    }
    return records;
  }

 private:
  // Those of the log, in order.
  Result<std::vector<std::string>> Keys() {
    LITHIFY_TRY_ASSIGN(const auto listed, store_.List(prefix_));
    std::vector<std::string> keys;
    for (const storage::ObjectInfo& object : listed) {
      if (object.key.ends_with(kSuffix)) keys.push_back(object.key);
    }
    return keys;
  }

  Result<Last> FindLast() {
    LITHIFY_TRY_ASSIGN(const std::vector<std::string> keys, Keys());
    Last last;
    if (keys.empty()) return last;
    last.key = keys.back();
    LITHIFY_TRY_ASSIGN(last.blob, store_.Get(last.key, kObjectBytesMax));
    const std::string_view text = last.blob.bytes;
    if (!text.ends_with('\n')) return FailChain("its last line has no end", last.key);
    const size_t before = text.substr(0, text.size() - 1).rfind('\n');
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const auto parsed = ParseAuditLine(text.substr(begin, text.size() - 1 - begin));
    if (!parsed) return FailChain(parsed.error().message, last.key + ": last record");
    last.head = {.next_seq = parsed->record.seq + 1, .hash = parsed->record.hash};
    return last;
  }

  // Its number and the hash of all before it make a line the only one of its kind.
  Result<bool> IsWritten(const Doubt& doubt) {
    const auto blob = store_.Get(doubt.key, kObjectBytesMax);
    if (!blob && blob.error().code == Code::kNotFound) return false;
    if (!blob) return Fail(blob.error());
    return blob->bytes.find(doubt.line) != std::string::npos;
  }

  static Status ReadLines(std::string_view text, const std::string& key, ChainWalker& walker,
                          std::vector<AuditRecord>& records) {
    for (int64_t number = 1; !text.empty(); ++number) {
      const size_t newline = text.find('\n');
      const std::string where = key + ": line " + std::to_string(number);
      if (newline == std::string_view::npos) return FailChain("the line has no end", where);
      auto record = walker.Line(text.substr(0, newline), true);
      if (!record) return FailChain(std::move(record.error().what), where);
      // No line is ever torn here.
      if (!*record) return FailChain("not a JSON object", where);
      records.push_back(*std::move(*record));
      text.remove_prefix(newline + 1);
    }
    return {};
  }

  storage::Store& store_;
  const std::string prefix_;
};

}  // namespace

std::unique_ptr<AuditLog> OpenStoreAuditLog(storage::Store& store, std::string prefix) {
  return std::make_unique<StoreAuditLog>(store, std::move(prefix));
}

}  // namespace lithify::observe
