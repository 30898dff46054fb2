// Between our storage interface and Arrow's: files, streams, errors and bounded memory.
//
// A storage error keeps its code on the way through Arrow and Parquet exceptions and comes out of
// GuardParquet() as it went in.
#ifndef LITHIFY_REWRITE_ARROW_IO_H_
#define LITHIFY_REWRITE_ARROW_IO_H_

#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <parquet/exception.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "storage/read_ahead.h"
#include "storage/store.h"

namespace lithify::rewrite {

// An Arrow status that carries `error` unchanged.
arrow::Status ToArrow(const Error& error);
// The carried error, or a code fitting the status: out of memory is kLimit, anything else about
// bytes is kCorrupt.
Error FromArrow(const arrow::Status& status);

// Runs `body` (returning Status or Result<T>) and turns every exception into an Error in `where`.
template <typename Body>
auto GuardParquet(const std::string& where, Body&& body) -> decltype(body()) {
  try {
    auto result = body();
    if (!result) return Fail(std::move(result.error()).In(where));
    return result;
  } catch (const parquet::ParquetStatusException& e) {
    return Fail(FromArrow(e.status()).In(where));
  } catch (const parquet::ParquetException& e) {
    return Fail(Code::kCorrupt, e.what(), where);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kLimit, "out of memory", where, "raise --memory or lower --jobs");
  } catch (const std::system_error& e) {
    return Fail(Code::kTransient, e.what(), where, "lower --jobs, or raise the system's limits");
  } catch (const std::length_error& e) {
    return Fail(Code::kLimit, "a size that no memory holds", where, "the file may be damaged");
  } catch (const std::exception& e) {
    return Fail(Code::kCorrupt, e.what(), where);
  }
}

// Of a bound on the memory of a rewrite, what is for reading ahead where reads are requests. It
// holds what goes into one row group of an output, which are at most as large (BoundShape()).
int64_t ReadAheadBytes(const storage::Store& store, int64_t memory_bytes);

// Objects of up to so many bytes are read whole where reads are requests: to transfer them takes
// about as long as two round trips, and their parts would take more of these.
inline constexpr int64_t kWholeBytes = int64_t{4} << 20;

// What one read for the footer of a file of that size asks for: where reads are requests up to what
// some hundred columns take, but little of what will be read again.
int64_t FooterReadBytes(const storage::Store& store, int64_t size);

// Keeps at most `open_max` objects of one store open and opens them again on demand, so that a
// group may have more inputs than the process may have descriptors. Where to open one is a request,
// they all stay open. Thread-safe.
class ReaderCache {
 public:
  ReaderCache(storage::Store& store, size_t open_max);
  // Likewise, and reads ahead with so much memory, 0: not; see ReadAheadBytes().
  ReaderCache(storage::Store& store, size_t open_max, int64_t ahead_bytes,
              const CancelFlag* cancel);
  Result<std::shared_ptr<storage::Reader>> Get(const std::string& key);
  // It will be opened by this; see Store::OpenKnown().
  void Know(const storage::ObjectInfo& object);
  // As the reader's.
  Result<int64_t> ReadAt(const std::string& key, int64_t offset, std::span<std::byte> out);
  storage::Store& store() const { return store_; }
  storage::ReadAhead* ahead() const { return ahead_.get(); }  // May be null.

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<storage::Reader> reader;
  };
  Result<std::unique_ptr<storage::Reader>> Open(const std::string& key);

  storage::Store& store_;
  const size_t open_max_;
  std::mutex mutex_;
  std::unordered_map<std::string, storage::ObjectInfo> known_;
  std::list<Entry> entries_;  // Most recently used last.
  std::unordered_map<std::string_view, std::list<Entry>::iterator>
      by_key_;                                 // Of the entries' keys.
  std::unique_ptr<storage::ReadAhead> ahead_;  // Reads through this.
};

// An object of the store of `cache` as an Arrow file. Reads fail with kCancelled once `cancel` is
// raised, and as those of Store::OpenKnown().
std::shared_ptr<arrow::io::RandomAccessFile> MakeArrowFile(ReaderCache& cache,
                                                           const storage::ObjectInfo& object,
                                                           const CancelFlag* cancel);

// The whole object, read now, as an Arrow file in memory; its buffers are parts of that one. For
// objects so small that opening and reading them for each column costs more than their bytes.
// Errors as of Store::OpenKnown(); kLimit if `pool` is full.
Result<std::shared_ptr<arrow::io::RandomAccessFile>> ReadArrowFile(
    storage::Store& store, const storage::ObjectInfo& object, arrow::MemoryPool* pool,
    const CancelFlag* cancel);

struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// `file` for who reads these ranges, in order, and next to nothing else: those at most `gap_bytes`
// apart come together by one read, of up to `bytes_max`, whose bytes are of `pool` and kept until
// the next one. All other reads are those of `file`.
std::shared_ptr<arrow::io::RandomAccessFile> JoinedReads(
    std::shared_ptr<arrow::io::RandomAccessFile> file, const std::vector<ByteRange>& ranges,
    int64_t gap_bytes, int64_t bytes_max, arrow::MemoryPool* pool);

// Appends to `writer`, which the caller keeps, publishes or discards. Close() publishes nothing.
std::shared_ptr<arrow::io::OutputStream> MakeArrowSink(storage::Writer& writer,
                                                       const CancelFlag* cancel);

// Allocates through Arrow's default pool, counts for itself, bounds by `bytes_max`.
class BoundedPool {
 public:
  explicit BoundedPool(int64_t bytes_max)
      : bytes_max_(bytes_max),
        counted_(arrow::default_memory_pool()),
        capped_(&counted_, bytes_max) {}
  // Refuses what goes over the bound: for readers, whose every allocation is checked.
  arrow::MemoryPool* hard() { return &capped_; }
  // Counts, and never refuses: for encoders, which do not survive a refusal (Arrow's dictionary
  // tables ignore it and crash). Their users call Check() after each batch.
  arrow::MemoryPool* soft() { return &counted_; }
  int64_t bytes_max() const { return bytes_max_; }
  // kLimit once the two together are over the bound.
  Status Check();
  // True once the bound was met.
  bool exhausted() const { return capped_.exhausted; }
  // By another pool, whose memory is part of this one's.
  void MarkExhausted() { capped_.exhausted = true; }

 private:
  struct Capped final : arrow::CappedMemoryPool {
    using arrow::CappedMemoryPool::CappedMemoryPool;
    using arrow::MemoryPool::Allocate;
    using arrow::MemoryPool::Reallocate;
    arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
      return Note(arrow::CappedMemoryPool::Allocate(size, alignment, out));
    }
    arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                             uint8_t** out) override {
      return Note(arrow::CappedMemoryPool::Reallocate(old_size, new_size, alignment, out));
    }
    arrow::Status Note(arrow::Status status) {
      if (status.IsOutOfMemory()) exhausted = true;
      return status;
    }
    std::atomic<bool> exhausted{false};
  };
  const int64_t bytes_max_;
  arrow::ProxyMemoryPool counted_;
  Capped capped_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ARROW_IO_H_
