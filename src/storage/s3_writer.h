// An object on its way to S3: one request if it is small, else parts that several threads upload
// while the next one is filled.
#ifndef LITHIFY_STORAGE_S3_WRITER_H_
#define LITHIFY_STORAGE_S3_WRITER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "storage/s3_client.h"
#include "storage/store.h"

namespace lithify::storage {

// Small parts cost requests, large ones memory.
inline constexpr int64_t kS3PartBytes = int64_t{16} * 1024 * 1024;
inline constexpr int kS3PartsMax = 10'000;  // The API's.

// Of the part with this number, from 1: 16 MiB, and more as an object becomes so long that 10,000
// parts would not do. All of them together are 5 TiB, which is what an object may have.
int64_t S3PartBytes(int number);

// What a writer holds: the part that is filled and those under way.
inline constexpr int64_t kS3WriterBytes = 3 * kS3PartBytes;

// Memory: kS3WriterBytes; behind the first 14 GiB of an object twice the size of a part, at most
// 2 GiB. After Flush nothing.
//
// What goes wrong with a part is told by the next Append or Publish, and by all that follow.
// Discard waits for the requests that are under way: a part that comes after its upload was aborted
// would stay.
class S3Writer final : public Writer {
 public:
  // The client outlives it. `key` is the bucket's.
  S3Writer(S3Client& client, std::string key) : client_(client), key_(std::move(key)) {}
  ~S3Writer() override { Discard(); }
  S3Writer(const S3Writer&) = delete;
  S3Writer& operator=(const S3Writer&) = delete;

  int64_t size() const override { return size_; }
  Status Append(std::span<const std::byte> bytes) override;
  Status Flush() override;
  Status Publish() override;
  void Discard() noexcept override;

 private:
  Status CheckOpen() const;
  Status AppendAll(std::span<const std::byte> bytes);
  // Sends what is held, and waits for all that is under way.
  Status FlushAll();
  Status PublishAll();
  // Hands the filled part to a thread.
  Status SendPart();
  // The oldest part that is under way.
  Status Take();

  S3Client& client_;
  const std::string key_;
  std::string part_;
  std::string upload_id_;  // Empty: none was begun.
  std::string write_id_;
  std::vector<S3Part> parts_;  // Those that have arrived.
  std::atomic<bool> given_up_{false};
  std::deque<std::future<Result<S3Part>>> under_way_;
  std::optional<Error> failure_;
  int64_t size_ = 0;
  bool flushed_ = false;
  bool open_ = true;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_WRITER_H_
