// Pages of one column at a time, decoded ahead and compressed aside by other threads.
//
// Where one column holds most of the bytes, columns in parallel leave the other threads idle and
// hold the whole row group in memory. Here one thread does a column's own work (levels, values,
// hashes) in order and streams it to the file, while the others do what lies before and after it:
// read and decompress its next pages, compress those that it has made. The bytes written are the
// same as without.
#ifndef LITHIFY_REWRITE_PAGE_THREADS_H_
#define LITHIFY_REWRITE_PAGE_THREADS_H_

#include <arrow/memory_pool.h>
#include <arrow/util/type_fwd.h>
#include <parquet/column_reader.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "rewrite/raw_column.h"

namespace lithify::rewrite {

class PageThreads {
 public:
  // A piece of work; its owner keeps it until it has run or was dropped.
  class Task {
   public:
    virtual ~Task() = default;
    // Without the lock; never throws.
    virtual void Work() = 0;
    // Afterwards, under the lock of the threads: what others may now see. True: run it again.
    virtual bool Finish() = 0;
  };

  // Fewer than `threads`, down to none, where the system has no more: then those who wait work.
  // Pages above `page_bytes_max` are taken one at a time and never copied, and no more bytes than
  // that are read ahead: memory counts more than overlap.
  PageThreads(int threads, int64_t page_bytes_max);
  PageThreads(const PageThreads&) = delete;
  PageThreads& operator=(const PageThreads&) = delete;
  ~PageThreads();

  int64_t page_bytes_max() const { return page_bytes_max_; }
  int size() const { return static_cast<int>(threads_.size()); }
  // What tasks and their owners share is only touched under this lock.
  std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }
  // The caller holds `lock`.
  void Start(Task& task, const std::unique_lock<std::mutex>& lock);
  // Works on what waits until `done`, which is asked under the lock.
  void WorkUntil(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  // Takes the task back, or waits for the end of its run; it is not run again.
  void Drop(Task& task);

 private:
  void Serve();
  void RunOne(std::unique_lock<std::mutex>& lock);

  const int64_t page_bytes_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task*> waiting_;
  std::vector<Task*> running_;
  std::vector<Task*> dropped_;  // While they run: not to be run again.
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

// The pages of `pages`, read ahead by `threads`, which outlive the result. Buffers are of `pool`.
std::unique_ptr<parquet::PageReader> ReadAhead(std::unique_ptr<parquet::PageReader> pages,
                                               PageThreads& threads, arrow::MemoryPool* pool);

// Packs the data pages of one column by `threads`, which outlive this, and hands them on in order,
// on the thread that calls. Throws what packing or the sink threw.
class PackAside {
 public:
  using Sink = std::function<void(const MadePage& page, std::span<const uint8_t> packed)>;
  // kUnsupported codecs throw.
  PackAside(arrow::Compression::type codec, std::optional<int> level, PageThreads& threads,
            Sink sink);
  PackAside(const PackAside&) = delete;
  PackAside& operator=(const PackAside&) = delete;
  // Pages that were not handed on are lost.
  ~PackAside();

  // Takes the page, and leaves one whose body has room.
  void Write(MadePage& page);
  // Hands on all that is left.
  void Drain();

 private:
  class Slot;
  void WriteOldest();

  PageThreads& threads_;
  const Sink sink_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::deque<std::unique_ptr<Slot>> busy_;  // In the order of their pages.
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_THREADS_H_
