// Keys of rows as bytes that compare like the rows: the first eight of them as a number, so that
// most comparisons look at nothing else.
#ifndef LITHIFY_SORT_KEY_ROWS_H_
#define LITHIFY_SORT_KEY_ROWS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lithify::sort {

// Some rows' keys. A key is its prefix, most significant byte first, and then its rest, of any
// length (none where keys have at most eight bytes; a shorter key has zero bytes at the end of its
// prefix, and whoever encodes keys sees to it that no two different keys look alike so).
struct KeyRows {
  std::vector<uint64_t> prefixes;  // By row.
  std::string bytes;               // The rests, one after the other.
  std::vector<uint64_t> ends;      // By row, of its rest in `bytes`; empty: no key has a rest.

  size_t size() const { return prefixes.size(); }
  bool has_rests() const { return !ends.empty(); }
  std::string_view rest(size_t row) const {
    if (ends.empty()) return {};
    const uint64_t begin = row == 0 ? 0 : ends[row - 1];
    return std::string_view(bytes).substr(begin, ends[row] - begin);
  }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(prefixes.capacity() * sizeof(uint64_t) + bytes.capacity() +
                                ends.capacity() * sizeof(uint64_t));
  }
  // Keeps what was allocated.
  void Clear() {
    prefixes.clear();
    bytes.clear();
    ends.clear();
  }
};

// Negative, 0 or positive.
inline int CompareKeys(const KeyRows& a, size_t i, const KeyRows& b, size_t j) {
  if (a.prefixes[i] != b.prefixes[j]) return a.prefixes[i] < b.prefixes[j] ? -1 : 1;
  return a.rest(i).compare(b.rest(j));  // As unsigned bytes (std::char_traits<char>).
}

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_ROWS_H_
