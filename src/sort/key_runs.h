// Runs: keys in ascending order, in blocks of which only the first and the last key need be known.
// A block lies in the store (keys that came in order), among sorted KeyRows, or is spilled.
//
// Thread safety: plain values; a BlockReader serves one thread at a time.
#ifndef LITHIFY_SORT_KEY_RUNS_H_
#define LITHIFY_SORT_KEY_RUNS_H_

#include <compare>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/from_exception.h"
#include "base/result.h"
#include "sort/key_block.h"
#include "sort/key_sort.h"
#include "sort/key_store.h"
#include "sort/spill.h"

namespace lithify::sort {

// The order of rows: by key, then by number, so that no two are equal.
struct RowKey {
  uint64_t prefix = 0;
  std::string_view rest;
  uint32_t row = 0;
};

// The first or last key of a block. Of a long rest only the beginning is kept.
struct EdgeKey {
  uint64_t prefix = 0;
  std::string rest;
  uint32_t row = 0;
  bool cut = false;

  static EdgeKey Of(const RowKey& key);
  RowKey key() const { return {prefix, rest, row}; }
};

// Empty: what is kept of them does not tell. (Equal: the same row.)
std::optional<std::strong_ordering> Compare(const EdgeKey& a, const EdgeKey& b);
// That a comes before b, for certain.
bool IsBefore(const EdgeKey& a, const EdgeKey& b);

struct Block {
  uint32_t count = 0;
  bool consecutive = false;  // Rows follow each other, from that of the first key.
  EdgeKey first;
  EdgeKey last;
  const KeyRow* sorted = nullptr;   // Else in the store, by its consecutive rows, or
  std::shared_ptr<SpillFile> file;  // spilled:
  int64_t offset = 0;
  int64_t bytes = 0;
  uint64_t checksum = 0;
};

// May be made of several: each block begins after the one before it ends.
struct Run {
  std::vector<Block> blocks;
  uint64_t rows() const {
    uint64_t out = 0;
    for (const Block& block : blocks) out += block.count;
    return out;
  }
};

// What blocks are cut by.
struct BlockBounds {
  uint32_t rows = 0;
  int64_t bytes = 0;  // Of rows with their rests, but for a single longer one.
};

// Rows that are held in order, each of them first and count; appended to a run.
void AddStored(const KeyStore& store, RowRange range, const BlockBounds& bounds, Run& run);
// `count` rows from `rows`, whose rests are held.
Run MakeSortedRun(const KeyStore& store, const KeyRow* rows, size_t count,
                  const BlockBounds& bounds);

// Puts together runs that follow each other, so that as few as possible are left: as many as
// overlap at one place at most.
std::vector<Run> ChainRuns(std::vector<Run> runs);

// The keys of one block at a time.
class BlockReader {
 public:
  BlockReader(const KeyStore& store, KeyBlockCodec& codec) : store_(&store), codec_(&codec) {}

  // kCorrupt: not what was written.
  Status Load(const Block& block);
  // Lets what comes after it be fetched meanwhile.
  static void WillLoad(const Block& block) {
    if (block.file != nullptr) block.file->WillRead(block.offset, block.bytes);
  }

  // Of the block.
  uint64_t prefix(size_t i) const { return prefixes_[i]; }
  const uint64_t* prefixes() const { return prefixes_; }
  uint32_t row(size_t i) const {
    return rows_ == nullptr ? first_row_ + static_cast<uint32_t>(i) : rows_[i];
  }
  const uint32_t* rows() const { return rows_; }  // Null: they follow each other.
  std::string_view rest(size_t i) const { return spilled_ ? block_.rest(i) : store_->rest(row(i)); }
  RowKey key(size_t i) const { return {prefix(i), rest(i), row(i)}; }
  // Appends it whole.
  void CopyTo(size_t count, KeyBlock& out) const;

 private:
  const KeyStore* store_;
  KeyBlockCodec* codec_;
  KeyBlock block_;
  bool spilled_ = false;
  const uint64_t* prefixes_ = nullptr;
  const uint32_t* rows_ = nullptr;
  uint32_t first_row_ = 0;
};

// Writes keys in ascending order as blocks of a run.
class RunWriter {
 public:
  RunWriter(std::shared_ptr<SpillFile> file, const BlockBounds& bounds)
      : file_(std::move(file)), bounds_(bounds) {}
  Status Add(const RowKey& key) {
    if (block_.count >= bounds_.rows || bytes_ >= bounds_.bytes) LITHIFY_TRY(Flush());
    if (!key.rest.empty() && block_.ends.empty()) block_.ends.assign(block_.count, 0);
    block_.prefixes.push_back(key.prefix);
    block_.rows.push_back(key.row);
    if (!key.rest.empty() || !block_.ends.empty()) {
      block_.bytes.append(key.rest);
      block_.ends.push_back(block_.bytes.size());
    }
    ++block_.count;
    bytes_ += static_cast<int64_t>(sizeof(KeyRow) + key.rest.size());
    return {};
  }
  Result<Run> Finish();

 private:
  Status Flush();

  std::shared_ptr<SpillFile> file_;
  const BlockBounds bounds_;
  KeyBlock block_;
  int64_t bytes_ = 0;
  KeyBlockCodec codec_;
  Run run_;
};

// What `work` returns, or what it throws where memory is at its end, as an error.
template <typename F>
auto Caught(const F& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& e) {
    return Fail(FromException(e, "sort keys"));
  }
}

// Spills the blocks of `run` that are in memory.
Status SpillRun(const KeyStore& store, const std::shared_ptr<SpillFile>& file, int threads,
                const CancelFlag* cancel, Run& run);

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_RUNS_H_
