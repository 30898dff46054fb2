// The order of many rows from their keys, in bounded memory: runs of keys are sorted, those that do
// not fit are spilled, compressed, and merged by a tree of losers. Rows that come in order already,
// file by file, are runs as they are. Only keys come here; the rows themselves stay where they are.
//
// Thread safety: one thread at a time; Add() and Finish() may use several themselves.
#ifndef LITHIFY_SORT_ROW_SORTER_H_
#define LITHIFY_SORT_ROW_SORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "sort/key_rows.h"
#include "sort/spill.h"

namespace lithify::sort {

struct RowSorterOptions {
  // Of keys and of what sorting them takes, 24 bytes a row and its rest; at least 64 KiB are taken.
  // The result comes on top, and up to 4 MiB: stacks of threads, codecs, the index of the blocks on
  // the disk (a thousandth of these).
  int64_t memory_bytes = 0;
  int threads = 1;
  SpillDirectory* spill = nullptr;     // Null: kLimit where the memory does not do.
  const CancelFlag* cancel = nullptr;  // May be null.
};

// One bit per row.
class RowBits {
 public:
  size_t size() const { return size_; }
  bool operator[](size_t row) const { return (words_[row / 64] >> (row % 64) & 1) != 0; }
  void Push(bool bit) {
    if (size_ % 64 == 0) words_.push_back(0);
    words_.back() |= uint64_t{bit} << (size_ % 64);
    ++size_;
  }
  // New bits are 0.
  void Resize(size_t size) {
    words_.resize((size + 63) / 64);
    if (size < size_ && size % 64 != 0) words_.back() &= (uint64_t{1} << (size % 64)) - 1;
    size_ = size;
  }
  // Bit i is bit i % 64 of word i / 64; those after the last are 0.
  const std::vector<uint64_t>& words() const { return words_; }
  std::vector<uint64_t>& words() { return words_; }

 private:
  std::vector<uint64_t> words_;
  size_t size_ = 0;
};

// Rows by rank. Rows are numbered as they were added, from 0.
struct SortedRows {
  std::vector<uint32_t> rows;  // rows[rank]: each number once.
  // By rank: whether the row's key differs from that of the rank before it; true for rank 0.
  RowBits key_begins;
  bool in_order = false;  // rows[i] == i for all: they came in order.
  int64_t runs = 0;       // That were put together, those that came in order among them.
  int64_t runs_spilled = 0;
};

class RowSorter {
 public:
  virtual ~RowSorter() = default;
  // The next rows, as many at a time as suits the caller; equal keys keep the order they were added
  // in. `keys` is left as by Clear(). `begins`: they are the first of another input, which is
  // likely to come in order by itself. kLimit: more than 2^32 - 1 rows, or as SpillFile::Append().
  // After an error the sorter is of no use.
  virtual Status Add(KeyRows& keys, bool begins) = 0;
  // Once, after all. Errors as of Add(); kCorrupt: what was spilled came back as something else.
  virtual Result<SortedRows> Finish() = 0;
};

std::unique_ptr<RowSorter> MakeRowSorter(const RowSorterOptions& options);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_ROW_SORTER_H_
