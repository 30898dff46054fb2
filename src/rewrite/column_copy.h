// The recode tier for one column: decode values and levels of many inputs, encode them into one
// chunk. Values are never assembled into records or arrays, so any schema is copied as it is. What
// lies in a dictionary stays folded: its entries are converted and hashed once each.
#ifndef LITHIFY_REWRITE_COLUMN_COPY_H_
#define LITHIFY_REWRITE_COLUMN_COPY_H_

#include <arrow/io/interfaces.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/position_set.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/column_encoder.h"
#include "rewrite/leaf_map.h"
#include "rewrite/page_reader.h"
#include "rewrite/page_threads.h"
#include "rewrite/row_check.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// One input file, opened once and shared by all columns, which several threads may read.
struct InputSource {
  std::string key;
  int64_t size = 0;
  std::shared_ptr<const Footer> footer;
  std::shared_ptr<const SchemaNode> schema;    // May be shared with other files.
  std::vector<LeafSource> leaves;              // One per output leaf.
  std::shared_ptr<const PositionSet> deleted;  // Rows that are left out; null: none.
  bool small_reads_are_cheap = false;          // As of its store.
  int counting_leaf = 0;  // Output leaf whose column is read even where no row survives.
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  arrow::MemoryPool* pool = nullptr;  // Of buffers that are read into.

  // Where each read is a request, few chunks take more than one.
  PagesFile Pages() const {
    return {file, size, footer.get(), pool, small_reads_are_cheap ? kMiB : 4 * kMiB};
  }
};

// What the columns of one row group share while they are read: hashes per row, and the raw values
// of the time columns. Thread-safe through its lock.
class RowGroupRows {
 public:
  RowGroupRows(int64_t rows, size_t time_columns, bool hashed);
  bool hashed() const { return !hashes_.empty(); }
  int64_t rows() const { return rows_; }
  // Adds one column's hashes of rows [first, first + n).
  void AddHashes(int64_t first, const uint64_t* hashes, size_t n);
  // Of one row, all columns so far.
  uint64_t hash(size_t row) const { return hashes_[row]; }
  // Only the one thread that reads that time column touches its vector.
  std::vector<int64_t>& time_values(int rank) { return times_[static_cast<size_t>(rank)]; }
  const std::vector<std::vector<int64_t>>& times() const { return times_; }
  Digest128 RowDigest() const;
  // Of the hashes with their rows' numbers: unlike the digests, it changes where values of a column
  // come to lie in other rows. Sums (modulo 2^64) over disjoint columns are those of the columns
  // together.
  uint64_t PlaceSum() const;

 private:
  const int64_t rows_;
  std::mutex mutex_;
  std::vector<uint64_t> hashes_;
  std::vector<std::vector<int64_t>> times_;
};

// Reads one output column across all inputs, in order, as a cursor. One thread at a time.
class ColumnCopy {
 public:
  virtual ~ColumnCopy() = default;

  // The next `rows` rows that are not deleted into `encoder`, which is of the output's physical
  // type and this copy's alone (null: read, check and hash only). Adds this column's row hashes to
  // `shared` and returns the column's digest over these rows (zero if not hashed). kCorrupt if a
  // chunk has more or fewer rows than its row group claims.
  virtual Result<Digest128> Copy(int64_t rows, ColumnEncoder* encoder, RowGroupRows& shared) = 0;
  // Passes over the next `rows` rows that are not deleted without reading them. They are all that
  // survive of some row groups of files, from the first row of one to the last of another; whoever
  // moved them instead left out `dropped` deleted ones among them. Row groups of deleted rows
  // alone, in front of them and between, are not among those, and left out here.
  virtual Status PassOver(int64_t rows, int64_t dropped) = 0;
  // kCorrupt unless every input row was consumed, passed over or left out as deleted.
  virtual Status Finish() = 0;
  // Deleted rows of the inputs that are read to their end, counted as they were left out.
  virtual int64_t rows_dropped() const = 0;
  // Key of the input that is being read, for messages.
  virtual std::string current_input() const = 0;
};

struct ColumnCopyOptions {
  int leaf = 0;  // Output leaf index.
  OutputLeaf output;
  const ColumnRule* rule = nullptr;
  // Close a chunk between two calls even if it is read half-way, and read over its first part
  // again: slower, but without one open page per column.
  bool release = false;
  BoundedPool* pool = nullptr;  // Checked after each batch, if there is one.
  // Read pages ahead of this column, into buffers of `pool`, which there is then; null: none do.
  PageThreads* read_ahead = nullptr;
  // Only these row groups of every input; last -1 means to the end.
  int first_group = 0;
  int last_group = -1;
  // Where to begin: a row group of an input. Those before it are as if passed over; such a copy is
  // not finished.
  size_t start_input = 0;
  int start_group = 0;
};

// `inputs` outlive the copy.
std::unique_ptr<ColumnCopy> MakeColumnCopy(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                           const ColumnCopyOptions& options);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_COLUMN_COPY_H_
