// A Store for simulations: a hook before and after every operation decides what goes wrong.
//
// The hook gets the verb ("Stat", "Get", "Open" (OpenKnown, too), "List", "PutNew", "PutIf",
// "Create", "Remove", and "ReadAt", "Append", "Publish" on the key of the reader or writer;
// RemoveMany is a "Remove" of each key) and whether it comes before the operation. An error before:
// the operation does not happen. An error after: it has happened, and the caller does not get to
// know (kUnknownOutcome, or a crash). The hook may also block, to let other actors run.
//
// kCancelled from the hook is a crash: from then on every operation of this store, its readers and
// writers fails with kCancelled, without the hook, and discards no longer reach the inner store:
// temporaries stay, as after SIGKILL. They are held until the FaultyStore is destroyed, so keep a
// crashed one until the end of its world.
//
// Thread-safe if the hook is.
#ifndef LITHIFY_STORAGE_FAULTY_STORE_H_
#define LITHIFY_STORAGE_FAULTY_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "storage/store.h"

namespace lithify::storage {

class FaultyStore final : public Store {
 public:
  using Hook = std::function<Status(std::string_view op, const std::string& key, bool before)>;

  // `store` must outlive this; this must outlive its readers and writers.
  FaultyStore(Store& store, Hook hook) : store_(store), hook_(std::move(hook)) {}

  Result<ObjectInfo> Stat(const std::string& key) override;
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override;
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override;
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override;
  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override;
  Status PutNew(const std::string& key, std::string_view bytes) override;
  Status PutIf(const std::string& key, std::string_view bytes, const std::string& version) override;
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override;
  Status Remove(const std::string& key) override;
  bool small_reads_are_cheap() const override { return store_.small_reads_are_cheap(); }
  int64_t writer_buffer_bytes() const override { return store_.writer_buffer_bytes(); }
  std::string Describe() const override { return store_.Describe(); }

  bool crashed() const { return crashed_.load(); }

 private:
  friend class FaultyReader;
  friend class FaultyWriter;

  Status Ask(std::string_view op, const std::string& key, bool before);
  // Hook, operation, hook.
  template <typename F>
  auto Around(std::string_view op, const std::string& key, F operation) -> decltype(operation());
  void Abandon(std::unique_ptr<Writer> writer);

  Store& store_;
  const Hook hook_;
  std::atomic<bool> crashed_{false};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Writer>> abandoned_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_FAULTY_STORE_H_
