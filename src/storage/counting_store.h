// Test-only: a store that writes down who asked for what; if need be, one as far away as an object
// store, where every request takes a while and small reads are not cheap.
#ifndef LITHIFY_STORAGE_COUNTING_STORE_H_
#define LITHIFY_STORAGE_COUNTING_STORE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "storage/forwarding_store.h"

namespace lithify::storage {

// As thread-safe as the other one.
class CountingStore final : public ForwardingStore {
 public:
  struct Request {
    // "Stat", "Get", "Open", "ReadAt", "List" (each page), "Remove", "RemoveMany".
    std::string verb;
    std::string key;     // Of the first, if there are many.
    int64_t offset = 0;  // Of reads.
    int64_t bytes = 0;
    std::thread::id thread;
  };
  struct Counts {
    int64_t requests = 0;
    int64_t bytes = 0;
    int64_t repeated_bytes = 0;  // That had been read before.
    int64_t at_once = 0;         // The most requests that were under way together.
  };

  // `store` outlives this; this outlives its readers.
  CountingStore(Store& store, std::chrono::microseconds latency, bool cheap = false)
      : ForwardingStore(store), latency_(latency), cheap_(cheap) {}

  Result<ObjectInfo> Stat(const std::string& key) override {
    const Under under(*this, {"Stat", key, 0, 0, {}});
    return store_.Stat(key);
  }
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override {
    const Under under(*this, {"Get", key, 0, max_bytes, {}});
    return store_.Get(key, max_bytes);
  }
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override {
    const Under under(*this, {"Open", key, 0, 0, {}});
    LITHIFY_TRY_ASSIGN(auto reader, store_.Open(key));
    return std::make_unique<CountingReader>(*this, key, std::move(reader));
  }
  // From afar that is no request.
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override {
    std::optional<Under> under;
    if (cheap_) under.emplace(*this, Request{"Open", known.key, 0, 0, {}});
    LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
    return std::make_unique<CountingReader>(*this, known.key, std::move(reader));
  }
  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override {
    bool none = true;
    LITHIFY_TRY(store_.ListPages(prefix, depth, [&](std::vector<ObjectInfo> page) -> Status {
      none = false;
      {
        const Under under(*this, {"List", prefix, 0, 0, {}});
      }
      return visit(std::move(page));
    }));
    if (none) const Under under(*this, {"List", prefix, 0, 0, {}});
    return {};
  }
  Status Remove(const std::string& key) override {
    const Under under(*this, {"Remove", key, 0, 0, {}});
    return store_.Remove(key);
  }
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override {
    const Under under(*this, {"RemoveMany", keys.empty() ? "" : keys.front(), 0, 0, {}});
    return store_.RemoveMany(keys);
  }
  bool small_reads_are_cheap() const override { return cheap_; }

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
    most_ = 0;
  }
  // Of requests for keys that contain `part`.
  Counts Count(std::string_view part = {}) const {
    const std::lock_guard lock(mutex_);
    Counts counts;
    counts.at_once = most_;
    std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> ranges;
    for (const Request& request : requests_) {
      if (request.key.find(part) == std::string::npos) continue;
      ++counts.requests;
      counts.bytes += request.bytes;
      if (request.bytes > 0) {
        ranges[request.key].emplace_back(request.offset, request.offset + request.bytes);
      }
    }
    int64_t distinct = 0;
    for (auto& [key, of_key] : ranges) {
      std::ranges::sort(of_key);
      int64_t end = 0;
      for (const auto& [from, to] : of_key) {
        distinct += std::max<int64_t>(0, to - std::max(end, from));
        end = std::max(end, to);
      }
    }
    counts.repeated_bytes = counts.bytes - distinct;
    return counts;
  }

 private:
  class Under {
   public:
    Under(CountingStore& store, Request request) : store_(store) {
      request.thread = std::this_thread::get_id();
      {
        const std::lock_guard lock(store.mutex_);
        store.requests_.push_back(std::move(request));
        store.most_ = std::max(store.most_, ++store.under_way_);
      }
      if (store.latency_.count() > 0) std::this_thread::sleep_for(store.latency_);
    }
    ~Under() {
      const std::lock_guard lock(store_.mutex_);
      --store_.under_way_;
    }
    Under(const Under&) = delete;
    Under& operator=(const Under&) = delete;

   private:
    CountingStore& store_;
  };

  class CountingReader final : public Reader {
   public:
    CountingReader(CountingStore& store, std::string key, std::unique_ptr<Reader> reader)
        : store_(store), key_(std::move(key)), reader_(std::move(reader)) {}
    int64_t size() const override { return reader_->size(); }
    Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
      const int64_t bytes = std::clamp<int64_t>(reader_->size() - offset, 0, std::ssize(out));
      const Under under(store_, {"ReadAt", key_, offset, bytes, {}});
      return reader_->ReadAt(offset, out);
    }

   private:
    CountingStore& store_;
    const std::string key_;
    const std::unique_ptr<Reader> reader_;
  };

  const std::chrono::microseconds latency_;
  const bool cheap_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  int64_t under_way_ = 0;
  int64_t most_ = 0;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_COUNTING_STORE_H_
