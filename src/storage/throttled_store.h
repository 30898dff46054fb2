// A Store that keeps object bytes read and written under a rate (`--io-limit`): a token bucket over
// both, shared by all threads, with a burst of 250 ms.
//
// Readers and writers wait, in slices, and give kCancelled when `cancel` is raised. The small
// metadata verbs (Get, PutNew, PutIf) never wait, so that a commit is not held up half-way; their
// bytes are charged to whoever comes next. Thread-safe.
#ifndef LITHIFY_STORAGE_THROTTLED_STORE_H_
#define LITHIFY_STORAGE_THROTTLED_STORE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/cancel.h"
#include "base/clock.h"
#include "storage/forwarding_store.h"

namespace lithify::storage {

class TokenBucket {
 public:
  // `bytes_per_second` > 0.
  TokenBucket(Clock& clock, int64_t bytes_per_second, const CancelFlag* cancel);
  // The largest piece to charge at once.
  int64_t slice() const { return slice_; }
  // Waits until the bucket is not in debt, then takes `bytes`, at the price of a debt.
  Status Wait(int64_t bytes);
  void Charge(int64_t bytes);

 private:
  // Brings tokens_ up to date. Needs mutex_.
  void Refill();

  Clock& clock_;
  const double rate_;  // Bytes per microsecond.
  const double burst_;
  const int64_t slice_;
  const CancelFlag* cancel_;
  std::mutex mutex_;
  double tokens_;
  Duration at_;
};

class ThrottledStore final : public ForwardingStore {
 public:
  // All of them must outlive this store and its readers and writers; `cancel` may be null.
  ThrottledStore(Store& store, Clock& clock, int64_t bytes_per_second,
                 const CancelFlag* cancel = nullptr)
      : ForwardingStore(store), bucket_(clock, bytes_per_second, cancel) {}

  Result<Blob> Get(const std::string& key, int64_t max_bytes) override;
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override;
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override;
  Status PutNew(const std::string& key, std::string_view bytes) override;
  Status PutIf(const std::string& key, std::string_view bytes, const std::string& version) override;
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override;

 private:
  TokenBucket bucket_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_THROTTLED_STORE_H_
