// A store that hands every call on to another one. Stores that change one verb begin with it.
#ifndef LITHIFY_STORAGE_FORWARDING_STORE_H_
#define LITHIFY_STORAGE_FORWARDING_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/store.h"

namespace lithify::storage {

// As thread-safe as the other one.
class ForwardingStore : public Store {
 public:
  // `store` outlives this.
  explicit ForwardingStore(Store& store) : store_(store) {}

  Result<ObjectInfo> Stat(const std::string& key) override { return store_.Stat(key); }
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override {
    return store_.Get(key, max_bytes);
  }
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override { return store_.Open(key); }
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override {
    return store_.OpenKnown(known);
  }
  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override {
    return store_.ListPages(prefix, depth, visit);
  }
  Status PutNew(const std::string& key, std::string_view bytes) override {
    return store_.PutNew(key, bytes);
  }
  Status PutIf(const std::string& key, std::string_view bytes,
               const std::string& version) override {
    return store_.PutIf(key, bytes, version);
  }
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override {
    return store_.Create(key);
  }
  Status Remove(const std::string& key) override { return store_.Remove(key); }
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override {
    return store_.RemoveMany(keys);
  }
  Result<std::vector<ObjectInfo>> AbortStaleUploads(
      const std::string& prefix, Time before,
      const std::function<bool(const std::string& key)>& is_ours, bool dry_run) override {
    return store_.AbortStaleUploads(prefix, before, is_ours, dry_run);
  }
  Duration clock_skew() const override { return store_.clock_skew(); }
  bool small_reads_are_cheap() const override { return store_.small_reads_are_cheap(); }
  int64_t writer_buffer_bytes() const override { return store_.writer_buffer_bytes(); }
  std::string Describe() const override { return store_.Describe(); }

 protected:
  Store& store_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_FORWARDING_STORE_H_
