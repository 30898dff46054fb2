#include "rewrite/page_threads.h"

#include <arrow/buffer.h>
#include <parquet/column_page.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/page_codec.h"

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

// ------------------------------------------------------------------------------------ PackAside

// One page on its way through the codec.
class PackAside::Slot final : public PageThreads::Task {
 public:
  explicit Slot(PageCodec codec) : codec_(std::move(codec)) {}

  // Swaps the pages.
  void Fill(MadePage& page) {
    std::swap(page_, page);
    done_ = false;
  }
  bool done() const { return done_; }
  const MadePage& page() const { return page_; }
  // Throws what packing threw.
  std::span<const uint8_t> packed() const {
    if (error_) std::rethrow_exception(error_);
    return BytesOf(packed_);
  }
  // After a page that was larger than any that is kept.
  void Shrink() {
    page_.body = {};
    packed_ = {};
  }

  void Work() override {
    try {
      packed_.clear();
      const auto packed = codec_.Compress(BytesOf(page_.body), &packed_);
      if (!packed) throw parquet::ParquetStatusException(ToArrow(packed.error()));
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  bool Finish() override {
    done_ = true;
    return false;
  }

 private:
  PageCodec codec_;
  MadePage page_;
  std::string packed_;
  std::exception_ptr error_;
  bool done_ = false;  // Under the lock.
};

PackAside::PackAside(arrow::Compression::type codec, std::optional<int> level, PageThreads& threads,
                     Sink sink)
    : threads_(threads), sink_(std::move(sink)) {
  // One for each thread to work on, one to wait for each, one to fill.
  for (int i = 0; i < threads.size() + 2; ++i) {
    auto made = PageCodec::Make(codec, level);
    if (!made) throw parquet::ParquetStatusException(ToArrow(made.error()));
    free_.push_back(std::make_unique<Slot>(std::move(*made)));
  }
}

PackAside::~PackAside() {
  for (const auto& slot : busy_) threads_.Drop(*slot);
}

void PackAside::Write(MadePage& page) {
  const bool large = std::ssize(page.body) > threads_.page_bytes_max();
  while (!busy_.empty() && (large || free_.empty())) WriteOldest();
  busy_.push_back(std::move(free_.back()));
  free_.pop_back();
  Slot& slot = *busy_.back();
  slot.Fill(page);
  {
    auto lock = threads_.Lock();
    threads_.Start(slot, lock);
  }
  if (large) {
    WriteOldest();
    slot.Shrink();
  }
}

void PackAside::WriteOldest() {
  Slot& slot = *busy_.front();
  {
    auto lock = threads_.Lock();
    threads_.WorkUntil(lock, [&] { return slot.done(); });
  }
  free_.push_back(std::move(busy_.front()));
  busy_.pop_front();
  sink_(slot.page(), slot.packed());
}

void PackAside::Drain() {
  while (!busy_.empty()) WriteOldest();
}

}  // namespace lithify::rewrite
