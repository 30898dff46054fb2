#include "rewrite/arrow_io.h"

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "rewrite/footer.h"

namespace lithify::rewrite {
namespace {

class ErrorDetail final : public arrow::StatusDetail {
 public:
  explicit ErrorDetail(Error error) : error_(std::move(error)) {}
  const char* type_id() const override { return kTypeId; }
  std::string ToString() const override { return error_.ToString(); }
  const Error& error() const { return error_; }

  static constexpr const char* kTypeId = "lithify::Error";

 private:
  Error error_;
};

// Where an Arrow file is, which of ours have nothing else of their own.
class PositionedFile : public arrow::io::RandomAccessFile {
 public:
  explicit PositionedFile(int64_t size) : size_(size) { set_mode(arrow::io::FileMode::READ); }

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return size_; }
  arrow::Result<int64_t> Read(int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, nbytes, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, nbytes));
    position_ += buffer->size();
    return buffer;
  }
  using arrow::io::RandomAccessFile::ReadAt;

 protected:
  // A damaged footer may claim any length: never beyond the file's end.
  int64_t Within(int64_t position, int64_t nbytes) const {
    return std::clamp<int64_t>(nbytes, 0, std::max<int64_t>(0, size_ - position));
  }

 private:
  const int64_t size_;
  int64_t position_ = 0;
  bool closed_ = false;
};

class HeldFile final : public PositionedFile {
 public:
  HeldFile(std::shared_ptr<arrow::Buffer> bytes, const CancelFlag* cancel)
      : PositionedFile(bytes->size()), bytes_(std::move(bytes)), cancel_(cancel) {}

  bool supports_zero_copy() const override { return true; }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const auto part, ReadAt(position, nbytes));
    std::copy_n(part->data(), part->size(), static_cast<uint8_t*>(out));
    return part->size();
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override {
    if (cancel_ != nullptr) {
      if (auto go_on = cancel_->Check(); !go_on) return ToArrow(go_on.error());
    }
    if (position < 0 || nbytes < 0) return arrow::Status::Invalid("negative offset or length");
    return arrow::SliceBuffer(bytes_, std::min(position, bytes_->size()), Within(position, nbytes));
  }

 private:
  const std::shared_ptr<arrow::Buffer> bytes_;
  const CancelFlag* cancel_;
};

class ArrowFile final : public PositionedFile {
 public:
  ArrowFile(ReaderCache& cache, std::string key, int64_t size, const CancelFlag* cancel)
      : PositionedFile(size), cache_(cache), key_(std::move(key)), cancel_(cancel) {}

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override {
    if (cancel_ != nullptr) {
      if (auto go_on = cancel_->Check(); !go_on) return ToArrow(go_on.error());
    }
    if (position < 0 || nbytes < 0) return arrow::Status::Invalid("negative offset or length");
    auto got = cache_.ReadAt(key_, position,
                             std::span(static_cast<std::byte*>(out), static_cast<size_t>(nbytes)));
    if (!got) return ToArrow(got.error());
    return *got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override {
    nbytes = Within(position, nbytes);
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(nbytes));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, nbytes, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  ReaderCache& cache_;
  const std::string key_;
  const CancelFlag* cancel_;
};

class JoinedFile final : public PositionedFile {
 public:
  JoinedFile(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t size,
             std::vector<ByteRange> joined, arrow::MemoryPool* pool)
      : PositionedFile(size), file_(std::move(file)), joined_(std::move(joined)), pool_(pool) {}

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t nbytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const bool here, Fetch(position, nbytes));
    if (!here) return file_->ReadAt(position, nbytes, out);
    std::copy_n(bytes_->data() + (position - held_.begin), nbytes, static_cast<uint8_t*>(out));
    return nbytes;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t nbytes) override {
    ARROW_ASSIGN_OR_RAISE(const bool here, Fetch(position, nbytes));
    if (!here) return file_->ReadAt(position, nbytes);
    return arrow::SliceBuffer(bytes_, position - held_.begin, nbytes);
  }

 private:
  // True: these bytes are in the range that is held.
  arrow::Result<bool> Fetch(int64_t position, int64_t nbytes) {
    const auto holds = [&](const ByteRange& range) {
      return position >= range.begin && nbytes >= 0 && nbytes <= range.end - position;
    };
    if (bytes_ != nullptr && holds(held_)) return true;
    const auto found = std::ranges::find_if(joined_, holds);
    if (found == joined_.end()) return false;
    bytes_.reset();
    const int64_t size = found->end - found->begin;
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bytes, arrow::AllocateBuffer(size, pool_));
    ARROW_ASSIGN_OR_RAISE(const int64_t got,
                          file_->ReadAt(found->begin, size, bytes->mutable_data()));
    if (got != size) return arrow::Status::IOError("the file became shorter while it was read");
    bytes_ = std::move(bytes);
    held_ = *found;
    return true;
  }

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const std::vector<ByteRange> joined_;
  arrow::MemoryPool* const pool_;
  std::shared_ptr<arrow::Buffer> bytes_;
  ByteRange held_;
};

class ArrowSink final : public arrow::io::OutputStream {
 public:
  ArrowSink(storage::Writer& writer, const CancelFlag* cancel) : writer_(writer), cancel_(cancel) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Write(const void* data, int64_t nbytes) override {
    if (cancel_ != nullptr) {
      if (auto go_on = cancel_->Check(); !go_on) return ToArrow(go_on.error());
    }
    auto done =
        writer_.Append(std::span(static_cast<const std::byte*>(data), static_cast<size_t>(nbytes)));
    if (!done) return ToArrow(done.error());
    position_ += nbytes;
    return arrow::Status::OK();
  }

 private:
  storage::Writer& writer_;
  const CancelFlag* cancel_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

arrow::Status ToArrow(const Error& error) {
  return arrow::Status(arrow::StatusCode::IOError, error.ToString(),
                       std::make_shared<ErrorDetail>(error));
}

Error FromArrow(const arrow::Status& status) {
  if (status.detail() != nullptr && status.detail()->type_id() == ErrorDetail::kTypeId) {
    return static_cast<const ErrorDetail&>(*status.detail()).error();
  }
  if (status.IsOutOfMemory()) {
    return Error{Code::kLimit, "the memory bound does not hold this data: " + status.message(), "",
                 "raise --memory, or lower --jobs"};
  }
  if (status.IsNotImplemented()) return Error{Code::kUnsupported, status.message(), "", ""};
  return Error{Code::kCorrupt, status.message(), "", ""};
}

Status BoundedPool::Check() {
  if (counted_.bytes_allocated() <= bytes_max_) return {};
  capped_.exhausted = true;
  return Fail(FromArrow(arrow::Status::OutOfMemory("over ", bytes_max_, " bytes")));
}

int64_t ReadAheadBytes(const storage::Store& store, int64_t memory_bytes) {
  return store.small_reads_are_cheap() ? 0 : memory_bytes / 6;
}

int64_t FooterReadBytes(const storage::Store& store, int64_t size) {
  if (store.small_reads_are_cheap()) return kFooterReadBytes;
  return std::clamp(size / 16, kFooterReadBytes, 8 * kFooterReadBytes);
}

ReaderCache::ReaderCache(storage::Store& store, size_t open_max)
    : store_(store),
      open_max_(store.small_reads_are_cheap() ? open_max : std::numeric_limits<size_t>::max()) {}

ReaderCache::ReaderCache(storage::Store& store, size_t open_max, int64_t ahead_bytes,
                         const CancelFlag* cancel)
    : ReaderCache(store, open_max) {
  // With less there is no room for several requests that are worth it.
  if (ahead_bytes < kMiB) return;
  ahead_ = std::make_unique<storage::ReadAhead>([this](const std::string& key) { return Get(key); },
                                                ahead_bytes, cancel);
}

Result<int64_t> ReaderCache::ReadAt(const std::string& key, int64_t offset,
                                    std::span<std::byte> out) {
  if (ahead_ != nullptr) return ahead_->ReadAt(key, offset, out);
  LITHIFY_TRY_ASSIGN(const auto reader, Get(key));
  return reader->ReadAt(offset, out);
}

void ReaderCache::Know(const storage::ObjectInfo& object) {
  std::lock_guard lock(mutex_);
  known_.insert_or_assign(object.key, object);
}

Result<std::unique_ptr<storage::Reader>> ReaderCache::Open(const std::string& key) {
  storage::ObjectInfo known;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) known = found->second;
  }
  return known.key.empty() ? store_.Open(key) : store_.OpenKnown(known);
}

Result<std::shared_ptr<storage::Reader>> ReaderCache::Get(const std::string& key) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.end(), entries_, found->second);
      return found->second->reader;
    }
  }
  LITHIFY_TRY_ASSIGN(std::unique_ptr<storage::Reader> opened, Open(key));
  std::lock_guard lock(mutex_);
  // Another thread may have opened it meanwhile.
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->reader;
  if (entries_.size() >= open_max_) {
    by_key_.erase(entries_.front().key);
    entries_.pop_front();
  }
  const auto entry = entries_.insert(entries_.end(), Entry{key, std::move(opened)});
  by_key_.emplace(entry->key, entry);
  return entry->reader;
}

std::shared_ptr<arrow::io::RandomAccessFile> MakeArrowFile(ReaderCache& cache,
                                                           const storage::ObjectInfo& object,
                                                           const CancelFlag* cancel) {
  cache.Know(object);
  return std::make_shared<ArrowFile>(cache, object.key, object.size, cancel);
}

Result<std::shared_ptr<arrow::io::RandomAccessFile>> ReadArrowFile(
    storage::Store& store, const storage::ObjectInfo& object, arrow::MemoryPool* pool,
    const CancelFlag* cancel) {
  if (cancel != nullptr) LITHIFY_TRY(cancel->Check());
  auto allocated = arrow::AllocateBuffer(object.size, pool);
  if (!allocated.ok()) return Fail(FromArrow(allocated.status()));
  std::shared_ptr<arrow::Buffer> bytes = std::move(*allocated);
  const auto out = std::span(reinterpret_cast<std::byte*>(bytes->mutable_data()),
                             static_cast<size_t>(object.size));
  LITHIFY_TRY_ASSIGN(const auto reader, store.OpenKnown(object));
  LITHIFY_TRY_ASSIGN(const int64_t got, reader->ReadAt(0, out));
  LITHIFY_TRY(storage::CheckSize(object, got));
  return std::make_shared<HeldFile>(std::move(bytes), cancel);
}

std::shared_ptr<arrow::io::RandomAccessFile> JoinedReads(
    std::shared_ptr<arrow::io::RandomAccessFile> file, const std::vector<ByteRange>& ranges,
    int64_t gap_bytes, int64_t bytes_max, arrow::MemoryPool* pool) {
  const auto told = file->GetSize();
  if (!told.ok()) return file;
  const int64_t size = *told;
  std::vector<ByteRange> joined;
  bool joins = false;  // Whether the last one has several ranges.
  for (const ByteRange& range : ranges) {
    // A damaged footer may claim any place.
    if (range.begin < 0 || range.end <= range.begin || range.end > size) continue;
    if (!joined.empty()) {
      ByteRange& last = joined.back();
      const int64_t gap = range.begin - last.end;
      if (gap >= 0 && gap <= gap_bytes && range.end - last.begin <= bytes_max) {
        last.end = range.end;
        joins = true;
        continue;
      }
      if (!joins) joined.pop_back();
    }
    joined.push_back(range);
    joins = false;
  }
  if (!joined.empty() && !joins) joined.pop_back();
  if (joined.empty()) return file;
  return std::make_shared<JoinedFile>(std::move(file), size, std::move(joined), pool);
}

std::shared_ptr<arrow::io::OutputStream> MakeArrowSink(storage::Writer& writer,
                                                       const CancelFlag* cancel) {
  return std::make_shared<ArrowSink>(writer, cancel);
}

}  // namespace lithify::rewrite
