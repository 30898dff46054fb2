// A new file's bytes on their way to the disk, from its start to its end.
//
// They are gathered into two buffers; one is written while the other is filled. What a long file
// has beyond its first kCachedBytes goes past the page cache (O_DIRECT), where the file system can:
// that saves the kernel a copy of each byte and does not displace what others have cached. Where it
// cannot, or once it refuses, writing goes on through the page cache.
//
// Thread safety: it belongs to one thread at a time.
#ifndef LITHIFY_STORAGE_LOCAL_STREAM_H_
#define LITHIFY_STORAGE_LOCAL_STREAM_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/text.h"

namespace lithify::storage {

class LocalStream {
 public:
  static constexpr int64_t kBufferBytes = 2 * kMiB;
  static constexpr int64_t kCachedBytes = 4 * kBufferBytes;
  // What a stream holds in memory.
  static constexpr int64_t kMemoryBytes = 2 * kBufferBytes;

  enum class Mode {
    kCached,     // Leaves writing back to the kernel.
    kWriteBack,  // Starts it early, and is never far ahead of it.
    kDirect,     // Likewise, and past the page cache beyond kCachedBytes.
  };

  // `fd` is open for writing, empty, and outlives the stream; `where` is for messages.
  LocalStream(int fd, std::string where, Mode mode);
  ~LocalStream() { Abandon(); }
  LocalStream(const LocalStream&) = delete;
  LocalStream& operator=(const LocalStream&) = delete;

  // Copies them. An error may be that of bytes appended before; it stays.
  Status Append(std::span<const std::byte> bytes);
  // Writes what is left, gives up its memory, and leaves the file open without O_DIRECT. Nothing
  // may be appended after it. Does not sync.
  Status Finish();

  // Waits for what is being written; what was not, and Finish did not see, is lost. `fd` is not
  // used any more.
  void Abandon() noexcept;

  int64_t size() const { return size_; }
  // Of them, those that were handed to the thread that writes past the page cache.
  int64_t direct_bytes() const { return direct_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  using Buffer = std::unique_ptr<std::byte[], Free>;

  Status WriteFilled();
  bool StartDirect();
  Status HandOver();
  Status WaitForDisk();
  void WriteDirectly();
  Status WriteDirect(int64_t offset, std::span<const std::byte> bytes);
  Status StartWriteback();

  const int fd_;
  const std::string where_;
  const Mode mode_;
  std::array<Buffer, 2> buffers_;  // Allocated when needed; [0] is being filled.
  size_t filled_ = 0;              // Bytes of it.
  int64_t size_ = 0;
  int64_t written_ = 0;       // Handed to the kernel or the thread.
  int64_t written_back_ = 0;  // Write-back was started up to here.
  int64_t direct_bytes_ = 0;
  bool direct_tried_ = false;
  std::optional<Error> failure_;

  std::thread writer_;  // While writing directly.
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  bool busy_ = false;  // buffers_[1] is the thread's, to be written at busy_at_.
  bool stop_ = false;
  int64_t busy_at_ = 0;
  bool refused_ = false;  // The file system does not take direct writes after all.
  Status outcome_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_LOCAL_STREAM_H_
