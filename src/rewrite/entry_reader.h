// Levels and values of one column chunk, page by page: what parquet::ColumnReader does, but values
// that lie in a dictionary can be taken as its indices, of any page that has some.
#ifndef LITHIFY_REWRITE_ENTRY_READER_H_
#define LITHIFY_REWRITE_ENTRY_READER_H_

#include <arrow/memory_pool.h>
#include <parquet/column_reader.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <cstdint>
#include <memory>
#include <span>

namespace lithify::rewrite {

// Throws Parquet's exceptions: pages that are cut off, levels above their maximum, indices beyond
// the dictionary, encodings that are unknown. One thread at a time.
class EntryReader {
 public:
  virtual ~EntryReader() = default;

  const parquet::ColumnDescriptor* descr() const { return descr_; }
  parquet::Type::type type() const { return descr_->physical_type(); }

  // Whether the next entries' values are indices; false also at the end.
  virtual bool folded() = 0;
  // Passes over up to `entries`; returns how many, 0 at the end or at an empty page.
  virtual int64_t Skip(int64_t entries) = 0;

 protected:
  explicit EntryReader(const parquet::ColumnDescriptor* descr) : descr_(descr) {}

 private:
  const parquet::ColumnDescriptor* const descr_;
};

template <typename DType>
class TypedEntryReader : public EntryReader {
 public:
  using T = typename DType::c_type;

  // Reads up to `most` entries of one page, and in `present` how many of them have a value; returns
  // how many, 0 at the end or at an empty page. Levels whose maximum is 0 are not written. What
  // values point to lives until the next call.
  virtual int64_t Read(int64_t most, int16_t* definition, int16_t* repetition, T* values,
                       int64_t* present) = 0;
  // Likewise where folded(): each index is one of dictionary().
  virtual int64_t ReadIndices(int64_t most, int16_t* definition, int16_t* repetition,
                              uint32_t* indices, int64_t* present) = 0;
  // All values of the chunk's dictionary, where folded() was true. They live as long as the reader.
  virtual std::span<const T> dictionary() const = 0;

 protected:
  using EntryReader::EntryReader;
};

// Of the column's physical type. `descr` outlives the reader; buffers are of `pool`.
std::unique_ptr<EntryReader> MakeEntryReader(const parquet::ColumnDescriptor* descr,
                                             std::unique_ptr<parquet::PageReader> pages,
                                             arrow::MemoryPool* pool);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ENTRY_READER_H_
