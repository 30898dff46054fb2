// The keys in memory, in the order they came, in chunks of as many rows each.
//
// Thread safety: any number of threads may read.
#ifndef LITHIFY_SORT_KEY_STORE_H_
#define LITHIFY_SORT_KEY_STORE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sort/key_rows.h"
#include "sort/pages.h"

namespace lithify::sort {

class KeyStore {
 public:
  // 2^row_bits rows to a chunk.
  explicit KeyStore(int row_bits) : row_bits_(row_bits) {}

  uint32_t first_row() const { return first_row_; }
  size_t size() const { return size_; }
  size_t chunk_rows() const { return size_t{1} << row_bits_; }
  bool has_rests() const { return has_rests_; }
  // Of rests alone.
  int64_t rest_memory_bytes() const { return rest_memory_bytes_; }

  // So many more rows fit into the chunk that the next row goes to.
  size_t room() const { return chunk_rows() - (size_ & (chunk_rows() - 1)); }
  // The next `count` rows, at most room() of them, from `from` of `keys`.
  Status Append(const KeyRows& keys, size_t from, size_t count) {
    const size_t at = size_ & (chunk_rows() - 1);
    if (at == 0) {
      Chunk chunk;
      LITHIFY_TRY_ASSIGN(chunk.prefixes, Pages::Make(chunk_rows() * sizeof(uint64_t)));
      chunks_.push_back(std::move(chunk));
    }
    Chunk& chunk = chunks_.back();
    std::copy_n(keys.prefixes.begin() + static_cast<ptrdiff_t>(from), count,
                chunk.prefixes.as<uint64_t>() + at);
    if (keys.has_rests() || !chunk.ends.empty()) AppendRests(keys, from, count, at, chunk);
    size_ += count;
    return {};
  }

  // Of a row that is held. Prefixes are next to each other up to ChunkEnd().
  const uint64_t* prefixes(uint32_t row) const {
    const size_t at = row - first_row_;
    return chunks_[at >> row_bits_].prefixes.as<uint64_t>() + (at & (chunk_rows() - 1));
  }
  uint32_t ChunkEnd(uint32_t row) const {
    const size_t end = (((row - first_row_) >> row_bits_) + 1) << row_bits_;
    return first_row_ + static_cast<uint32_t>(std::min(end, size_));
  }
  std::string_view rest(uint32_t row) const {
    const size_t at = row - first_row_;
    const Chunk& chunk = chunks_[at >> row_bits_];
    if (chunk.ends.empty()) return {};
    const size_t i = at & (chunk_rows() - 1);
    const uint64_t begin = i == 0 ? 0 : chunk.ends[i - 1];
    return {chunk.bytes.data() + begin, chunk.ends[i] - begin};
  }

  // Forgets the prefixes of the chunks that have no row outside of these.
  void DropPrefixes(uint32_t first, uint32_t count) {
    size_t chunk = ((first - first_row_) + chunk_rows() - 1) >> row_bits_;
    while (chunk < chunks_.size() &&
           std::min((chunk + 1) << row_bits_, size_) <= first - first_row_ + size_t{count}) {
      chunks_[chunk++].prefixes = Pages();
    }
  }
  // Forgets all rows; the next one has the number that it had anyway.
  void Clear() {
    first_row_ += static_cast<uint32_t>(size_);
    size_ = 0;
    rest_memory_bytes_ = 0;
    chunks_.clear();
  }

 private:
  struct Chunk {
    Pages prefixes;
    std::string bytes;           // The rests.
    std::vector<uint64_t> ends;  // In `bytes`, by row; empty: there is no rest in here.
  };

  static int64_t RestMemory(const Chunk& chunk) {
    return static_cast<int64_t>(chunk.bytes.capacity() + chunk.ends.capacity() * sizeof(uint64_t));
  }

  void AppendRests(const KeyRows& keys, size_t from, size_t count, size_t at, Chunk& chunk) {
    rest_memory_bytes_ -= RestMemory(chunk);
    has_rests_ = true;
    if (chunk.ends.empty()) {
      chunk.ends.reserve(chunk_rows());
      chunk.ends.assign(at, 0);
    }
    if (!keys.has_rests()) {
      chunk.ends.insert(chunk.ends.end(), count, chunk.bytes.size());
    } else if (count > 0) {
      const uint64_t begin = from == 0 ? 0 : keys.ends[from - 1];
      const uint64_t base = chunk.bytes.size();
      chunk.bytes.append(keys.bytes, begin, keys.ends[from + count - 1] - begin);
      for (size_t i = from; i < from + count; ++i) {
        chunk.ends.push_back(base + (keys.ends[i] - begin));
      }
    }
    rest_memory_bytes_ += RestMemory(chunk);
  }

  const int row_bits_;
  uint32_t first_row_ = 0;
  size_t size_ = 0;
  bool has_rests_ = false;  // Of any row ever.
  int64_t rest_memory_bytes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_STORE_H_
