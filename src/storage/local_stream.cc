#include "storage/local_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "storage/local_files.h"

namespace lithify::storage {
namespace {

// Of memory and of places in the file, for direct writes: a page, which is a multiple of what
// nearly every device asks for. One that asks for more refuses, and is written to otherwise.
constexpr size_t kAlignment = 4096;
constexpr int64_t kWindow = 8 * kMiB;

static_assert(LocalStream::kBufferBytes % kAlignment == 0);

bool SetDirect(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

LocalStream::LocalStream(int fd, std::string where, Mode mode)
    : fd_(fd), where_(std::move(where)), mode_(mode) {}

Status LocalStream::Append(std::span<const std::byte> bytes) {
  if (failure_) return Fail(*failure_);
  while (!bytes.empty()) {
    if (buffers_[0] == nullptr) {
      buffers_[0].reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBufferBytes)));
      if (buffers_[0] == nullptr) {
        failure_ = Error{Code::kLimit, "out of memory", where_, "raise --memory or lower --jobs"};
        return Fail(*failure_);
      }
    }
    const size_t take = std::min(bytes.size(), static_cast<size_t>(kBufferBytes) - filled_);
    std::memcpy(buffers_[0].get() + filled_, bytes.data(), take);
    bytes = bytes.subspan(take);
    filled_ += take;
    size_ += static_cast<int64_t>(take);
    if (filled_ < static_cast<size_t>(kBufferBytes)) break;
    if (auto written = WriteFilled(); !written) {
      failure_ = written.error();
      return written;
    }
  }
  return {};
}

Status LocalStream::Finish() {
  if (failure_) return Fail(*failure_);
  Status done;
  if (writer_.joinable()) {
    done = WaitForDisk();
    Abandon();
  }
  if (done && filled_ > 0) {
    done = WriteFully(fd_, written_, std::span(buffers_[0].get(), filled_), where_);
  }
  if (!done) failure_ = done.error();
  written_ = size_;
  filled_ = 0;
  for (Buffer& buffer : buffers_) buffer.reset();
  return done;
}

// The buffer is full: its bytes go to the kernel, or to the thread that writes directly.
Status LocalStream::WriteFilled() {
  if (writer_.joinable() || StartDirect()) {
    LITHIFY_TRY(HandOver());
  } else {
    LITHIFY_TRY(WriteFully(fd_, written_, std::span(buffers_[0].get(), filled_), where_));
    written_ += static_cast<int64_t>(filled_);
    if (mode_ != Mode::kCached) LITHIFY_TRY(StartWriteback());
  }
  filled_ = 0;
  return {};
}

bool LocalStream::StartDirect() {
  if (mode_ != Mode::kDirect || direct_tried_ || written_ < kCachedBytes) return false;
  direct_tried_ = true;
  if (!SetDirect(fd_, true)) return false;
  try {
    writer_ = std::thread([this] { WriteDirectly(); });
  } catch (const std::system_error&) {  // No more threads for this process.
    SetDirect(fd_, false);
    return false;
  }
  return true;
}

void LocalStream::Abandon() noexcept {
  if (!writer_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  writer_.join();
  SetDirect(fd_, false);
}

// Gives the filled buffer to the thread, once that is done with the other one.
Status LocalStream::HandOver() {
  LITHIFY_TRY(WaitForDisk());
  if (refused_) {  // The thread is idle: it is ours to read.
    Abandon();
    LITHIFY_TRY(WriteFully(fd_, written_, std::span(buffers_[0].get(), filled_), where_));
    written_ += static_cast<int64_t>(filled_);
    written_back_ = written_;
    return {};
  }
  std::swap(buffers_[0], buffers_[1]);
  {
    std::lock_guard lock(mutex_);
    busy_ = true;
    busy_at_ = written_;
  }
  changed_.notify_all();
  written_ += kBufferBytes;
  direct_bytes_ += kBufferBytes;
  return {};
}

Status LocalStream::WaitForDisk() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  return outcome_;
}

void LocalStream::WriteDirectly() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) return;
    const int64_t at = busy_at_;
    lock.unlock();
    Status written =
        WriteDirect(at, std::span(buffers_[1].get(), static_cast<size_t>(kBufferBytes)));
    lock.lock();
    outcome_ = std::move(written);
    busy_ = false;
    changed_.notify_all();
  }
}

// Through the page cache, for good, from where the file system refuses.
Status LocalStream::WriteDirect(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL) {
      {
        std::lock_guard lock(mutex_);
        refused_ = true;
      }
      SetDirect(fd_, false);
      return WriteFully(fd_, offset, bytes, where_);
    }
    if (put < 0) return Fail(ErrnoError(errno, "write", where_));
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += put;
  }
  return {};
}

// Writes back window by window and waits for the last but one, so that a long output neither fills
// the page cache with dirty pages, at the cost of the host's other writers, nor leaves all the work
// to the final fsync. A failed write-back is an error here already; where the call is not
// supported, fsync does it all.
Status LocalStream::StartWriteback() {
  while (written_ - written_back_ >= kWindow) {
    int rc = sync_file_range(fd_, written_back_, kWindow, SYNC_FILE_RANGE_WRITE);
    if (rc == 0 && written_back_ >= kWindow) {
      rc = sync_file_range(
          fd_, written_back_ - kWindow, kWindow,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    if (rc != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
      return Fail(ErrnoError(errno, "write", where_));
    }
    written_back_ += kWindow;
  }
  return {};
}

}  // namespace lithify::storage
