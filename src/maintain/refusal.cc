#include "maintain/refusal.h"

#include <map>
#include <mutex>
#include <utility>

#include "embed/table_buckets.h"
#include "maintain/principal.h"
#include "storage/forwarding_store.h"

namespace lithify::maintain {
namespace {

using storage::ObjectInfo;
using storage::Reader;
using storage::Store;
using storage::Writer;

constexpr std::string_view kCatalogRefuses = "the catalog refuses";
constexpr std::string_view kTokenRefused = "the catalog takes no such token";
constexpr std::string_view kStorageRefuses = "the storage refuses to ";

constexpr const char* kCheckPrincipal =
    "`lithify-maintain --check-principal` asks for a token and tells what is wrong";
constexpr const char* kCheckTrust =
    "see that the catalog trusts the identity provider of maintenance.principal, and takes the "
    "audience and the scope of its tokens";

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <typename T>
Result<T> Asked(Result<T> result) {
  if (!result) return Fail(OfCatalog(std::move(result.error())));
  return result;
}

// With what a place was to be reached.
Error OfStorage(Error error, std::string_view action, const std::string& access) {
  if (error.code != Code::kDenied) return error;
  if (Has(error.ToString(), embed::kAskedToLend)) return OfCatalog(std::move(error));
  if (Has(error.context, kStorageRefuses)) return error;
  error.hint = "let " + access + " " + std::string(action) + " there" +
               (error.hint.empty() ? "" : ": " + error.hint);
  return std::move(error).In(std::string(kStorageRefuses) + std::string(action));
}

// One store's refusals, which its readers and writers have too.
class Marks {
 public:
  explicit Marks(std::string access) : access_(std::move(access)) {}
  template <typename T>
  Result<T> operator()(std::string_view action, Result<T> result) const {
    if (!result) return Fail(OfStorage(std::move(result.error()), action, access_));
    return result;
  }

 private:
  const std::string access_;
};

constexpr std::string_view kOpen = "open";
constexpr std::string_view kRead = "read";
constexpr std::string_view kList = "list";
constexpr std::string_view kWrite = "write";
constexpr std::string_view kRemove = "remove";

class MarkedReader final : public Reader {
 public:
  MarkedReader(std::unique_ptr<Reader> reader, Marks marks)
      : reader_(std::move(reader)), marks_(std::move(marks)) {}
  int64_t size() const override { return reader_->size(); }
  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    return marks_(kRead, reader_->ReadAt(offset, out));
  }

 private:
  const std::unique_ptr<Reader> reader_;
  const Marks marks_;
};

class MarkedWriter final : public Writer {
 public:
  MarkedWriter(std::unique_ptr<Writer> writer, Marks marks)
      : writer_(std::move(writer)), marks_(std::move(marks)) {}
  Status Append(std::span<const std::byte> bytes) override {
    return marks_(kWrite, writer_->Append(bytes));
  }
  int64_t size() const override { return writer_->size(); }
  Status Flush() override { return marks_(kWrite, writer_->Flush()); }
  Status Publish() override { return marks_(kWrite, writer_->Publish()); }
  void Discard() noexcept override { writer_->Discard(); }

 private:
  const std::unique_ptr<Writer> writer_;
  const Marks marks_;
};

class MarkedStore final : public storage::ForwardingStore {
 public:
  MarkedStore(std::shared_ptr<Store> store, Marks marks)
      : ForwardingStore(*store), owned_(std::move(store)), marks_(std::move(marks)) {}

  Result<ObjectInfo> Stat(const std::string& key) override {
    return marks_(kRead, store_.Stat(key));
  }
  Result<storage::Blob> Get(const std::string& key, int64_t max_bytes) override {
    return marks_(kRead, store_.Get(key, max_bytes));
  }
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override {
    return Marked(store_.Open(key));
  }
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override {
    return Marked(store_.OpenKnown(known));
  }
  Status ListPages(const std::string& prefix, storage::ListDepth depth,
                   const storage::ListVisitor& visit) override {
    // What the visitor meets is no refusal to list.
    bool by_visitor = false;
    Status listed = store_.ListPages(prefix, depth, [&](std::vector<ObjectInfo> page) {
      Status seen = visit(std::move(page));
      by_visitor = !seen;
      return seen;
    });
    return by_visitor ? std::move(listed) : marks_(kList, std::move(listed));
  }
  Status PutNew(const std::string& key, std::string_view bytes) override {
    return marks_(kWrite, store_.PutNew(key, bytes));
  }
  Status PutIf(const std::string& key, std::string_view bytes,
               const std::string& version) override {
    return marks_(kWrite, store_.PutIf(key, bytes, version));
  }
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(auto writer, marks_(kWrite, store_.Create(key)));
    return std::make_unique<MarkedWriter>(std::move(writer), marks_);
  }
  Status Remove(const std::string& key) override { return marks_(kRemove, store_.Remove(key)); }
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override {
    std::vector<Status> removed = store_.RemoveMany(keys);
    for (Status& one : removed) one = marks_(kRemove, std::move(one));
    return removed;
  }
  Result<std::vector<ObjectInfo>> AbortStaleUploads(
      const std::string& prefix, Time before,
      const std::function<bool(const std::string& key)>& is_ours, bool dry_run) override {
    return marks_(kRemove, store_.AbortStaleUploads(prefix, before, is_ours, dry_run));
  }

 private:
  Result<std::unique_ptr<Reader>> Marked(Result<std::unique_ptr<Reader>> opened) const {
    LITHIFY_TRY_ASSIGN(auto reader, marks_(kRead, std::move(opened)));
    return std::make_unique<MarkedReader>(std::move(reader), marks_);
  }

  const std::shared_ptr<Store> owned_;
  const Marks marks_;
};

class RefusalLocations final : public storage::Locations {
 public:
  RefusalLocations(std::unique_ptr<storage::Locations> locations, DescribeAccess access)
      : locations_(std::move(locations)), access_(std::move(access)) {}

  Result<storage::Place> Resolve(std::string_view location) override {
    auto place = locations_->Resolve(location);
    if (!place) {
      const std::string hint = place.error().hint;
      Error error = OfStorage(std::move(place.error()), kOpen, access_(location));
      if (!hint.empty()) error.hint = hint;  // What is missing is known better there.
      return Fail(std::move(error));
    }
    // One store stays one: by that it is known which places files may be moved between.
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Store>& marked = stores_[place->store.get()];
    if (!marked) {
      marked = std::make_shared<MarkedStore>(place->store, Marks(access_(location)));
    }
    return storage::Place{marked, std::move(place->key)};
  }
  Result<std::string> Canonical(std::string_view location) override {
    return locations_->Canonical(location);
  }

 private:
  const std::unique_ptr<storage::Locations> locations_;
  const DescribeAccess access_;
  std::mutex mutex_;
  std::map<const Store*, std::shared_ptr<Store>> stores_;  // Each keeps its own alive.
};

// As ToString() puts it at the end.
std::string HintIn(std::string_view text) {
  constexpr std::string_view kNext = " (next: ";
  const size_t at = text.rfind(kNext);
  if (at == std::string_view::npos || !text.ends_with(')')) return {};
  text.remove_prefix(at + kNext.size());
  text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

Error OfCatalog(Error error) {
  if (error.code != Code::kDenied || Has(error.ToString(), kPrincipalToken)) return error;
  // Nobody was asked.
  if (Has(error.message, "certificate is not trusted")) return error;
  const bool token =
      error.message.starts_with("status 401") || error.message.starts_with("status 419");
  return std::move(error).In(token ? kTokenRefused : kCatalogRefuses);
}

Refuser RefuserOf(std::string_view text) {
  if (Has(text, kPrincipalToken)) return Refuser::kPrincipal;
  if (Has(text, kStorageRefuses)) return Refuser::kStorage;
  if (Has(text, kTokenRefused)) return Refuser::kCatalogToken;
  return Has(text, kCatalogRefuses) ? Refuser::kCatalog : Refuser::kOther;
}

LoudLine TellRefusal(std::string where, std::string why, std::string_view grant) {
  LoudLine line{.what = {}, .where = std::move(where), .why = {}, .next = {}};
  switch (RefuserOf(why)) {
    case Refuser::kPrincipal:
      line.what = "no_credential";
      line.next = kCheckPrincipal;
      break;
    case Refuser::kCatalogToken:
      line.what = "token_refused";
      line.next = kCheckTrust;
      break;
    case Refuser::kCatalog:
      line.what = "no_grant";
      line.next = grant;
      break;
    case Refuser::kStorage:
      line.what = "no_storage_access";
      line.next = HintIn(why);
      break;
    case Refuser::kOther:
      line.what = "refused";
      line.next = HintIn(why);
      break;
  }
  line.why = std::move(why);
  return line;
}

Result<std::vector<std::vector<std::string>>> RefusalCatalog::ListNamespaces(
    const std::vector<std::string>& parent) {
  return Asked(ForwardingCatalog::ListNamespaces(parent));
}
Result<std::vector<catalog::TableIdent>> RefusalCatalog::ListTables(
    const std::vector<std::string>& namespace_parts) {
  return Asked(ForwardingCatalog::ListTables(namespace_parts));
}
Result<catalog::LoadedTable> RefusalCatalog::LoadTable(const catalog::TableIdent& ident) {
  return Asked(ForwardingCatalog::LoadTable(ident));
}
Result<std::string> RefusalCatalog::MetadataLocation(const catalog::TableIdent& ident) {
  return Asked(ForwardingCatalog::MetadataLocation(ident));
}
Status RefusalCatalog::MayCommit() { return Asked(ForwardingCatalog::MayCommit()); }
Status RefusalCatalog::CheckMayWrite(const catalog::LoadedTable& table) {
  return Asked(ForwardingCatalog::CheckMayWrite(table));
}
Result<catalog::LoadedTable> RefusalCatalog::CommitTable(
    const catalog::TableIdent& ident, std::span<const table::TableRequirement> requirements,
    std::span<const table::TableUpdate> updates) {
  return Asked(ForwardingCatalog::CommitTable(ident, requirements, updates));
}

std::unique_ptr<storage::Locations> MakeRefusalLocations(
    std::unique_ptr<storage::Locations> locations, DescribeAccess access) {
  return std::make_unique<RefusalLocations>(std::move(locations), std::move(access));
}

}  // namespace lithify::maintain
