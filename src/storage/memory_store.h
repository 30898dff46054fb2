// A Store in memory with the contract of the real ones, and the seams that simulations need.
// Unpublished writers show as "<key>.<16 hex digits>.tmp", as in LocalStore; their numbers count
// up, so that a simulation replays exactly. Versions are those of LocalStore.
#ifndef LITHIFY_STORAGE_MEMORY_STORE_H_
#define LITHIFY_STORAGE_MEMORY_STORE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "storage/store.h"

namespace lithify::storage {

class MemoryStore final : public Store {
 public:
  // `clock` gives modification times; it and the store must outlive all readers and writers.
  explicit MemoryStore(const Clock& clock) : clock_(clock) {}

  Result<ObjectInfo> Stat(const std::string& key) override;
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override;
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override;
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override;
  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override;
  Status PutNew(const std::string& key, std::string_view bytes) override;
  Status PutIf(const std::string& key, std::string_view bytes, const std::string& version) override;
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override;
  Status Remove(const std::string& key) override;
  bool small_reads_are_cheap() const override { return true; }
  std::string Describe() const override { return "memory:"; }

  // Test seams. kNotFound if the key is absent.
  Status SetModified(const std::string& key, Time modified);
  // All keys, sorted, temporaries too.
  std::vector<std::string> Keys() const;

 private:
  friend class MemoryWriter;

  // Appended chunks are immutable and shared with readers.
  using Bytes = std::shared_ptr<const std::string>;
  struct Object {
    std::vector<Bytes> chunks;
    int64_t size = 0;
    Time modified;
    std::string version;  // Once it was asked for.
  };

  // All bytes in one piece; joins the chunks in place. Needs mutex_.
  static Bytes Whole(Object& object);
  static const std::string& Version(Object& object);
  static ObjectInfo InfoOf(const std::string& key, Object& object);
  Object MakeObject(std::string_view bytes) const;
  // kConflict or kInvalid where no object can be made under this key. Needs mutex_.
  Status CheckFree(const std::string& key) const;
  Result<Object*> Find(const std::string& key);

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_;
  uint64_t temporaries_ = 0;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_MEMORY_STORE_H_
