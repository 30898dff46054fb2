#include "storage/scoped_locations.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "storage/forwarding_store.h"

namespace lithify::storage {

// What one store's part of the scope is, and what was written in it.
class ScopedStore final : public ForwardingStore {
 public:
  ScopedStore(std::shared_ptr<Store> store, std::function<void()> on_step)
      : ForwardingStore(*store), owner_(std::move(store)), on_step_(std::move(on_step)) {}

  void AllowKey(const std::string& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
  }
  void AllowReading(const std::string& prefix) {
    const std::lock_guard lock(mutex_);
    readable_.insert(prefix);
  }
  void AllowWriting(const std::string& prefix) {
    const std::lock_guard lock(mutex_);
    writable_.insert(prefix);
  }

  Result<ObjectInfo> Stat(const std::string& key) override {
    LITHIFY_TRY(MayRead(key));
    return Stepped(store_.Stat(key));
  }
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override {
    LITHIFY_TRY(MayRead(key));
    return Stepped(store_.Get(key, max_bytes));
  }
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override;
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override;
  Status ListPages(const std::string& prefix, ListDepth, const ListVisitor&) override {
    return Denied("listed", prefix);
  }
  Status PutNew(const std::string& key, std::string_view bytes) override {
    LITHIFY_TRY(MayWrite(key));
    LITHIFY_TRY(Stepped(store_.PutNew(key, bytes)));
    Written(key);
    return {};
  }
  Status PutIf(const std::string& key, std::string_view, const std::string&) override {
    return Denied("replaced", key);
  }
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override;
  Status Remove(const std::string& key) override {
    LITHIFY_TRY(MayRemove(key));
    return Stepped(store_.Remove(key));
  }
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override {
    std::vector<Status> results;
    for (const std::string& key : keys) results.push_back(Remove(key));
    return results;
  }
  Result<std::vector<ObjectInfo>> AbortStaleUploads(const std::string& prefix, Time,
                                                    const std::function<bool(const std::string&)>&,
                                                    bool) override {
    return Denied("cleaned up", prefix);
  }

  void Step() const {
    if (on_step_) on_step_();
  }
  template <typename R>
  R Stepped(R result) const {
    Step();
    return result;
  }
  void Written(const std::string& key) {
    const std::lock_guard lock(mutex_);
    written_.insert(key);
  }

 private:
  std::unexpected<Error> Denied(std::string_view what, const std::string& key) const {
    return Fail(Code::kDenied,
                "it is not of the table, and may not be " + std::string(what) + " for it", key,
                "files of a table that lie outside of its location and its write.data.path cannot "
                "be rewritten by a worker");
  }
  static bool IsBelow(const std::set<std::string>& prefixes, const std::string& key) {
    return std::ranges::any_of(prefixes, [&](const std::string& prefix) {
      return key.starts_with(prefix) && key.size() > prefix.size();
    });
  }
  Status MayRead(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    if (keys_.contains(key) || written_.contains(key) || IsBelow(readable_, key)) return {};
    return Denied("read", key);
  }
  Status MayWrite(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    if (IsBelow(writable_, key)) return {};
    return Denied("written", key);
  }
  Status MayRemove(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    if (written_.contains(key)) return {};
    return Denied("removed", key);
  }

  const std::shared_ptr<Store> owner_;
  const std::function<void()> on_step_;
  mutable std::mutex mutex_;
  std::set<std::string> keys_;
  std::set<std::string> readable_;  // "t/", or empty for all.
  std::set<std::string> writable_;
  std::set<std::string> written_;
};

namespace {

class SteppedReader final : public Reader {
 public:
  SteppedReader(std::unique_ptr<Reader> inner, const ScopedStore& store)
      : inner_(std::move(inner)), store_(store) {}
  int64_t size() const override { return inner_->size(); }
  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    return store_.Stepped(inner_->ReadAt(offset, out));
  }

 private:
  const std::unique_ptr<Reader> inner_;
  const ScopedStore& store_;
};

class ScopedWriter final : public Writer {
 public:
  ScopedWriter(std::unique_ptr<Writer> inner, ScopedStore& store, std::string key)
      : inner_(std::move(inner)), store_(store), key_(std::move(key)) {}
  Status Append(std::span<const std::byte> bytes) override {
    return store_.Stepped(inner_->Append(bytes));
  }
  int64_t size() const override { return inner_->size(); }
  Status Flush() override { return store_.Stepped(inner_->Flush()); }
  Status Publish() override {
    LITHIFY_TRY(store_.Stepped(inner_->Publish()));
    store_.Written(key_);
    return {};
  }
  void Discard() noexcept override { inner_->Discard(); }

 private:
  const std::unique_ptr<Writer> inner_;
  ScopedStore& store_;
  const std::string key_;
};

}  // namespace

Result<std::unique_ptr<Reader>> ScopedStore::Open(const std::string& key) {
  LITHIFY_TRY(MayRead(key));
  LITHIFY_TRY_ASSIGN(auto reader, store_.Open(key));
  Step();
  return std::make_unique<SteppedReader>(std::move(reader), *this);
}

Result<std::unique_ptr<Reader>> ScopedStore::OpenKnown(const ObjectInfo& known) {
  LITHIFY_TRY(MayRead(known.key));
  LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
  Step();
  return std::make_unique<SteppedReader>(std::move(reader), *this);
}

Result<std::unique_ptr<Writer>> ScopedStore::Create(const std::string& key) {
  LITHIFY_TRY(MayWrite(key));
  LITHIFY_TRY_ASSIGN(auto writer, store_.Create(key));
  Step();
  return std::make_unique<ScopedWriter>(std::move(writer), *this, key);
}

ScopedLocations::ScopedLocations(Locations& inner, std::function<void()> on_step)
    : inner_(inner), on_step_(std::move(on_step)) {}

ScopedLocations::~ScopedLocations() = default;

Result<std::shared_ptr<ScopedStore>> ScopedLocations::StoreOf(const Place& place) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ScopedStore>& store = stores_[place.store.get()];
  if (!store) store = std::make_shared<ScopedStore>(place.store, on_step_);
  return store;
}

Result<ScopedLocations::Below> ScopedLocations::PrefixOf(std::string_view place) {
  while (place.ends_with('/')) place.remove_suffix(1);
  // A bucket's root has no key of its own.
  LITHIFY_TRY_ASSIGN(const Place inside, inner_.Resolve(std::string(place) + "/x"));
  LITHIFY_TRY_ASSIGN(auto store, StoreOf(inside));
  return Below{std::move(store), inside.key.substr(0, inside.key.size() - 1)};
}

Status ScopedLocations::AllowReading(std::string_view location) {
  LITHIFY_TRY_ASSIGN(const Place place, inner_.Resolve(location));
  LITHIFY_TRY_ASSIGN(const auto store, StoreOf(place));
  store->AllowKey(place.key);
  return {};
}

Status ScopedLocations::AllowReadingBelow(std::string_view place) {
  LITHIFY_TRY_ASSIGN(const Below below, PrefixOf(place));
  below.store->AllowReading(below.prefix);
  return {};
}

Status ScopedLocations::AllowWritingBelow(std::string_view place) {
  LITHIFY_TRY_ASSIGN(const Below below, PrefixOf(place));
  below.store->AllowWriting(below.prefix);
  return {};
}

Result<Place> ScopedLocations::Resolve(std::string_view location) {
  LITHIFY_TRY_ASSIGN(Place place, inner_.Resolve(location));
  LITHIFY_TRY_ASSIGN(auto store, StoreOf(place));
  return Place{std::move(store), std::move(place.key)};
}

Result<std::string> ScopedLocations::Canonical(std::string_view location) {
  return inner_.Canonical(location);
}

}  // namespace lithify::storage
