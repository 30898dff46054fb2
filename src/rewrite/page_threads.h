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
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/properties.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

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

// A writer of a column without a dictionary that hands its pages, compressed by `threads`, to
// `pages` in order, on the thread that calls it. `pages` compresses with `codec`. Adds the
// uncompressed bytes written to `bytes`, since it cannot return them page by page.
std::unique_ptr<parquet::PageWriter> CompressAside(std::unique_ptr<parquet::PageWriter> pages,
                                                   parquet::Compression::type codec,
                                                   const parquet::CodecOptions& options,
                                                   PageThreads& threads, arrow::MemoryPool* pool,
                                                   int64_t& bytes);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_THREADS_H_
