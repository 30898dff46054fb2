#include "rewrite/page_threads.h"

#include <arrow/buffer.h>
#include <arrow/util/compression.h>
#include <parquet/column_page.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

namespace lithify::rewrite {
namespace {

constexpr size_t kAheadPages = 3;

// Buffers of about one size, used again and again: fresh memory costs more than the copy into it.
class Buffers {
 public:
  explicit Buffers(arrow::MemoryPool* pool) : pool_(pool) {}

  std::shared_ptr<arrow::ResizableBuffer> Take(int64_t size) {
    std::shared_ptr<arrow::ResizableBuffer> buffer;
    if (free_.empty()) {
      PARQUET_ASSIGN_OR_THROW(buffer, arrow::AllocateResizableBuffer(size, pool_));
    } else {
      buffer = std::move(free_.back());
      free_.pop_back();
      PARQUET_THROW_NOT_OK(buffer->Resize(size, false));
    }
    return buffer;
  }
  void GiveBack(std::shared_ptr<arrow::ResizableBuffer> buffer) {
    if (buffer != nullptr) free_.push_back(std::move(buffer));
  }

 private:
  arrow::MemoryPool* const pool_;
  std::vector<std::shared_ptr<arrow::ResizableBuffer>> free_;
};

std::shared_ptr<parquet::Page> WithBuffer(const parquet::Page& page,
                                          const std::shared_ptr<arrow::Buffer>& buffer) {
  using parquet::PageType;
  switch (page.type()) {
    case PageType::DICTIONARY_PAGE: {
      const auto& in = static_cast<const parquet::DictionaryPage&>(page);
      return std::make_shared<parquet::DictionaryPage>(buffer, in.num_values(), in.encoding(),
                                                       in.is_sorted());
    }
    case PageType::DATA_PAGE: {
      const auto& in = static_cast<const parquet::DataPageV1&>(page);
      return std::make_shared<parquet::DataPageV1>(
          buffer, in.num_values(), in.encoding(), in.definition_level_encoding(),
          in.repetition_level_encoding(), in.uncompressed_size(), in.statistics(),
          in.first_row_index(), in.size_statistics());
    }
    case PageType::DATA_PAGE_V2: {
      const auto& in = static_cast<const parquet::DataPageV2&>(page);
      return std::make_shared<parquet::DataPageV2>(
          buffer, in.num_values(), in.num_nulls(), in.num_rows(), in.encoding(),
          in.definition_levels_byte_length(), in.repetition_levels_byte_length(),
          in.uncompressed_size(), in.is_compressed(), in.statistics(), in.first_row_index(),
          in.size_statistics());
    }
    default: throw parquet::ParquetException("a page of a type that no reader returns");
  }
}

// Members without a note are shared, and touched under the lock only.
class AheadReader final : public parquet::PageReader, private PageThreads::Task {
 public:
  AheadReader(std::unique_ptr<parquet::PageReader> pages, PageThreads& threads,
              arrow::MemoryPool* pool)
      : pages_(std::move(pages)), threads_(threads), buffers_(pool) {}
  ~AheadReader() override { threads_.Drop(*this); }

  std::shared_ptr<parquet::Page> NextPage() override {
    auto lock = threads_.Lock();
    // The page before is done with.
    ahead_bytes_ -= current_.size();
    buffers_.GiveBack(std::move(current_.own));
    current_ = {};
    StartIfRoom(lock);
    threads_.WorkUntil(lock, [&] { return !ahead_.empty() || ended_; });
    if (ahead_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return nullptr;
    }
    current_ = std::move(ahead_.front());
    ahead_.pop_front();
    StartIfRoom(lock);
    return current_.page;
  }

  // Before the first page is asked for.
  void set_max_page_header_size(uint32_t size) override { pages_->set_max_page_header_size(size); }

 private:
  struct Held {
    std::shared_ptr<parquet::Page> page;
    std::shared_ptr<arrow::ResizableBuffer> own;  // Null: the page lies in the reader's buffer.
    int64_t size() const { return page == nullptr ? 0 : page->size(); }
    bool borrows() const { return page != nullptr && own == nullptr; }
  };

  bool Room() const {
    return !ended_ && ahead_.size() < kAheadPages && ahead_bytes_ < threads_.page_bytes_max() &&
           !current_.borrows() && (ahead_.empty() || !ahead_.back().borrows());
  }
  void StartIfRoom(const std::unique_lock<std::mutex>& lock) {
    if (started_ || !Room()) return;
    started_ = true;
    threads_.Start(*this, lock);
  }

  void Work() override {
    fetched_ = {};
    failed_ = nullptr;
    try {
      auto page = pages_->NextPage();
      // The reader's buffer lives until its next page only.
      if (page != nullptr && page->size() <= threads_.page_bytes_max()) {
        {
          auto lock = threads_.Lock();
          fetched_.own = buffers_.Take(page->size());
        }
        if (page->size() > 0) {
          std::memcpy(fetched_.own->mutable_data(), page->data(),
                      static_cast<size_t>(page->size()));
        }
        page = WithBuffer(*page, fetched_.own);
      }
      fetched_.page = std::move(page);
    } catch (...) {
      failed_ = std::current_exception();
    }
  }

  bool Finish() override {
    if (fetched_.page == nullptr) {
      ended_ = true;
      error_ = std::exchange(failed_, nullptr);
    } else {
      ahead_bytes_ += fetched_.size();
      ahead_.push_back(std::exchange(fetched_, {}));
    }
    started_ = Room();
    return started_;
  }

  const std::unique_ptr<parquet::PageReader> pages_;  // Of the task, while it runs.
  PageThreads& threads_;
  Held fetched_;               // Of the task, while it runs.
  std::exception_ptr failed_;  // Likewise.
  Buffers buffers_;
  std::deque<Held> ahead_;
  int64_t ahead_bytes_ = 0;  // And of the current page.
  Held current_;
  bool started_ = false;
  bool ended_ = false;
  std::exception_ptr error_;
};

// One page on its way through the codec.
class Slot final : public PageThreads::Task {
 public:
  Slot(std::unique_ptr<arrow::util::Codec> codec, arrow::MemoryPool* pool)
      : codec_(std::move(codec)), buffers_(pool), out_(buffers_.Take(0)) {}

  void Fill(const parquet::DataPageV1& page, bool copy) {
    if (!copy) {
      in_ = page.buffer();
    } else {
      buffers_.GiveBack(std::move(own_));
      own_ = buffers_.Take(page.size());
      if (page.size() > 0) {
        std::memcpy(own_->mutable_data(), page.data(), static_cast<size_t>(page.size()));
      }
      in_ = own_;
    }
    page_.emplace(out_, page.num_values(), page.encoding(), page.definition_level_encoding(),
                  page.repetition_level_encoding(), page.uncompressed_size(), page.statistics(),
                  page.first_row_index(), page.size_statistics());
    done_ = false;
  }

  bool done() const { return done_; }

  // The page, compressed; throws what the compression threw.
  const parquet::DataPageV1& Take() {
    in_.reset();
    if (error_) std::rethrow_exception(error_);
    return *page_;
  }

  // After a page that was larger than any that is kept.
  void Shrink() {
    in_.reset();
    PARQUET_THROW_NOT_OK(out_->Resize(0, true));
  }

  void Work() override {
    try {
      PARQUET_THROW_NOT_OK(out_->Resize(codec_->MaxCompressedLen(in_->size(), in_->data()), false));
      PARQUET_ASSIGN_OR_THROW(
          const int64_t size,
          codec_->Compress(in_->size(), in_->data(), out_->size(), out_->mutable_data()));
      PARQUET_THROW_NOT_OK(out_->Resize(size, false));
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  bool Finish() override {
    done_ = true;
    return false;
  }

 private:
  const std::unique_ptr<arrow::util::Codec> codec_;
  Buffers buffers_;
  std::shared_ptr<arrow::ResizableBuffer> own_;
  std::shared_ptr<arrow::Buffer> in_;
  const std::shared_ptr<arrow::ResizableBuffer> out_;
  std::optional<parquet::DataPageV1> page_;
  std::exception_ptr error_;
  bool done_ = false;  // Under the lock.
};

class AsideWriter final : public parquet::PageWriter {
 public:
  AsideWriter(std::unique_ptr<parquet::PageWriter> pages, parquet::Compression::type codec,
              const parquet::CodecOptions& options, PageThreads& threads, arrow::MemoryPool* pool,
              int64_t& bytes)
      : pages_(std::move(pages)), threads_(threads), bytes_(bytes) {
    // One for each thread to work on, one to wait for each, one to fill.
    for (int i = 0; i < threads.size() + 2; ++i) {
      free_.push_back(std::make_unique<Slot>(parquet::GetCodec(codec, options), pool));
    }
  }
  ~AsideWriter() override {
    for (const auto& slot : busy_) threads_.Drop(*slot);
  }

  // The column writer would compress each page itself, before this one sees it.
  bool has_compressor() override { return false; }
  void Compress(const arrow::Buffer& from, arrow::ResizableBuffer* into) override {
    pages_->Compress(from, into);
  }

  int64_t WriteDataPage(const parquet::DataPage& page) override {
    if (page.type() != parquet::PageType::DATA_PAGE) {
      throw parquet::ParquetException("only data pages of version 1 are compressed aside");
    }
    const auto& data = static_cast<const parquet::DataPageV1&>(page);
    const bool large = page.size() > threads_.page_bytes_max();
    while (!busy_.empty() && (large || free_.empty())) WriteOldest();
    busy_.push_back(std::move(free_.back()));
    free_.pop_back();
    Slot& slot = *busy_.back();
    slot.Fill(data, !large);
    {
      auto lock = threads_.Lock();
      threads_.Start(slot, lock);
    }
    if (large) {
      WriteOldest();
      slot.Shrink();
    }
    return 0;
  }

  int64_t WriteDictionaryPage(const parquet::DictionaryPage& page) override {
    Drain();
    bytes_ += pages_->WriteDictionaryPage(page);
    return 0;
  }

  void Close(bool has_dictionary, bool fallback) override {
    Drain();
    pages_->Close(has_dictionary, fallback);
  }

  int64_t total_compressed_bytes_written() const override {
    return pages_->total_compressed_bytes_written();
  }

 private:
  void WriteOldest() {
    Slot& slot = *busy_.front();
    {
      auto lock = threads_.Lock();
      threads_.WorkUntil(lock, [&] { return slot.done(); });
    }
    free_.push_back(std::move(busy_.front()));
    busy_.pop_front();
    bytes_ += pages_->WriteDataPage(slot.Take());
  }
  void Drain() {
    while (!busy_.empty()) WriteOldest();
  }

  const std::unique_ptr<parquet::PageWriter> pages_;
  PageThreads& threads_;
  int64_t& bytes_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::deque<std::unique_ptr<Slot>> busy_;  // In the order of their pages.
};

}  // namespace

PageThreads::PageThreads(int threads, int64_t page_bytes_max) : page_bytes_max_(page_bytes_max) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
  } catch (const std::system_error&) {
    // Those that there are do the work.
  }
}

PageThreads::~PageThreads() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void PageThreads::Start(Task& task, const std::unique_lock<std::mutex>& /*lock*/) {
  waiting_.push_back(&task);
  changed_.notify_all();
}

void PageThreads::RunOne(std::unique_lock<std::mutex>& lock) {
  Task* const task = waiting_.front();
  waiting_.pop_front();
  running_.push_back(task);
  lock.unlock();
  task->Work();
  lock.lock();
  const bool again = task->Finish();
  std::erase(running_, task);
  if (std::erase(dropped_, task) == 0 && again) waiting_.push_back(task);
  changed_.notify_all();
}

void PageThreads::WorkUntil(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  while (!done()) {
    if (waiting_.empty()) {
      changed_.wait(lock);
    } else {
      RunOne(lock);
    }
  }
}

void PageThreads::Drop(Task& task) {
  std::unique_lock lock(mutex_);
  std::erase(waiting_, &task);
  if (std::ranges::find(running_, &task) == running_.end()) return;
  dropped_.push_back(&task);
  changed_.wait(lock, [&] { return std::ranges::find(running_, &task) == running_.end(); });
}

void PageThreads::Serve() {
  std::unique_lock lock(mutex_);
  WorkUntil(lock, [&] { return stopping_; });
}

std::unique_ptr<parquet::PageReader> ReadAhead(std::unique_ptr<parquet::PageReader> pages,
                                               PageThreads& threads, arrow::MemoryPool* pool) {
  return std::make_unique<AheadReader>(std::move(pages), threads, pool);
}

std::unique_ptr<parquet::PageWriter> CompressAside(std::unique_ptr<parquet::PageWriter> pages,
                                                   parquet::Compression::type codec,
                                                   const parquet::CodecOptions& options,
                                                   PageThreads& threads, arrow::MemoryPool* pool,
                                                   int64_t& bytes) {
  return std::make_unique<AsideWriter>(std::move(pages), codec, options, threads, pool, bytes);
}

}  // namespace lithify::rewrite
