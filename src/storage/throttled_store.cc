#include "storage/throttled_store.h"

#include <algorithm>

namespace lithify::storage {
namespace {

class ThrottledReader final : public Reader {
 public:
  ThrottledReader(std::unique_ptr<Reader> reader, TokenBucket& bucket)
      : reader_(std::move(reader)), bucket_(bucket) {}

  int64_t size() const override { return reader_->size(); }

  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    if (offset < 0) return reader_->ReadAt(offset, out);
    const int64_t want = std::clamp<int64_t>(size() - offset, 0, static_cast<int64_t>(out.size()));
    int64_t done = 0;
    while (done < want) {
      const int64_t n = std::min(bucket_.slice(), want - done);
      LITHIFY_TRY(bucket_.Wait(n));
      LITHIFY_TRY_ASSIGN(const int64_t got,
                         reader_->ReadAt(offset + done, out.subspan(static_cast<size_t>(done),
                                                                    static_cast<size_t>(n))));
      done += got;
      if (got < n) break;
    }
    return done;
  }

 private:
  std::unique_ptr<Reader> reader_;
  TokenBucket& bucket_;
};

class ThrottledWriter final : public Writer {
 public:
  ThrottledWriter(std::unique_ptr<Writer> writer, TokenBucket& bucket)
      : writer_(std::move(writer)), bucket_(bucket) {}

  Status Append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const size_t n = std::min(static_cast<size_t>(bucket_.slice()), bytes.size());
      LITHIFY_TRY(bucket_.Wait(static_cast<int64_t>(n)));
      LITHIFY_TRY(writer_->Append(bytes.first(n)));
      bytes = bytes.subspan(n);
    }
    return {};
  }
  int64_t size() const override { return writer_->size(); }
  Status Flush() override { return writer_->Flush(); }
  Status Publish() override { return writer_->Publish(); }
  void Discard() noexcept override { writer_->Discard(); }

 private:
  std::unique_ptr<Writer> writer_;
  TokenBucket& bucket_;
};

constexpr Duration kBurst = std::chrono::milliseconds(250);
constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

}  // namespace

TokenBucket::TokenBucket(Clock& clock, int64_t bytes_per_second, const CancelFlag* cancel)
    : clock_(clock),
      rate_(static_cast<double>(bytes_per_second) / 1e6),
      burst_(rate_ * static_cast<double>(kBurst.count())),
      slice_(std::max<int64_t>(1, static_cast<int64_t>(burst_))),
      cancel_(cancel),
      tokens_(burst_),
      at_(clock.Monotonic()) {
  LITHIFY_CHECK(bytes_per_second > 0, "a rate of zero would never end");
}

void TokenBucket::Refill() {
  const Duration now = clock_.Monotonic();
  tokens_ = std::min(burst_, tokens_ + rate_ * static_cast<double>((now - at_).count()));
  at_ = now;
}

void TokenBucket::Charge(int64_t bytes) {
  std::lock_guard lock(mutex_);
  Refill();
  tokens_ -= static_cast<double>(bytes);
}

Status TokenBucket::Wait(int64_t bytes) {
  while (true) {
    if (cancel_ != nullptr) LITHIFY_TRY(cancel_->Check());
    Duration wait;
    {
      std::lock_guard lock(mutex_);
      Refill();
      if (tokens_ >= 0) {
        tokens_ -= static_cast<double>(bytes);
        return {};
      }
      wait = Duration(static_cast<int64_t>(-tokens_ / rate_) + 1);
    }
    clock_.Sleep(std::min(wait, kLongestSleep));
  }
}

Result<Blob> ThrottledStore::Get(const std::string& key, int64_t max_bytes) {
  LITHIFY_TRY_ASSIGN(Blob blob, store_.Get(key, max_bytes));
  bucket_.Charge(static_cast<int64_t>(blob.bytes.size()));
  return blob;
}

Result<std::unique_ptr<Reader>> ThrottledStore::Open(const std::string& key) {
  LITHIFY_TRY_ASSIGN(auto reader, store_.Open(key));
  return std::make_unique<ThrottledReader>(std::move(reader), bucket_);
}

Result<std::unique_ptr<Reader>> ThrottledStore::OpenKnown(const ObjectInfo& known) {
  LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
  return std::make_unique<ThrottledReader>(std::move(reader), bucket_);
}

Status ThrottledStore::PutNew(const std::string& key, std::string_view bytes) {
  bucket_.Charge(static_cast<int64_t>(bytes.size()));
  return store_.PutNew(key, bytes);
}

Status ThrottledStore::PutIf(const std::string& key, std::string_view bytes,
                             const std::string& version) {
  bucket_.Charge(static_cast<int64_t>(bytes.size()));
  return store_.PutIf(key, bytes, version);
}

Result<std::unique_ptr<Writer>> ThrottledStore::Create(const std::string& key) {
  LITHIFY_TRY_ASSIGN(auto writer, store_.Create(key));
  return std::make_unique<ThrottledWriter>(std::move(writer), bucket_);
}

}  // namespace lithify::storage
