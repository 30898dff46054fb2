// The quantile of a value among samples of its column, as one of 2^16 cells.
//
// Cells divide what was sampled, not the range of values: each takes as many rows as another, but
// that a value which is frequent takes the room of many and is one. Others keep theirs: samples of
// fewer rows than there are cells fall into a cell each.
//
// Thread safety: adding is one thread's, looking up any number's, each with keys of its own.
#ifndef LITHIFY_SORT_CURVE_CELLS_H_
#define LITHIFY_SORT_CURVE_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sort/key_rows.h"

namespace lithify::sort {

// Cell 0 is that of nulls, and of nothing else.
inline constexpr uint32_t kCellOfNulls = 0;
inline constexpr uint32_t kCellMax = 0xFFFF;
// Of the key of a sample only so much is kept.
inline constexpr size_t kSampledRestBytes = 248;

class CurveCells {
 public:
  // From the keys of the samples that are not null, in any order.
  explicit CurveCells(const KeyRows& samples);
  // Cells of the first `rows` keys; not for nulls. Greater values have no smaller cells.
  void Look(const KeyRows& keys, size_t rows, uint32_t* cells) const;

 private:
  // Where the order of keys that begin as all samples do goes on.
  struct Word {
    uint64_t bytes = 0;     // The next eight bytes.
    std::string_view rest;  // And what follows them.
  };

  Word WordOf(const KeyRows& keys, size_t row) const;
  int BeginsAs(const KeyRows& keys, size_t row) const;
  size_t AmongEqual(size_t until, std::string_view rest) const;
  std::string_view rest(size_t cut) const {
    return std::string_view(rests_).substr(ends_[cut], ends_[cut + 1] - ends_[cut]);
  }

  std::string shared_;           // The bytes that the keys of all samples begin with.
  std::vector<uint64_t> words_;  // Of the least key of each cell, ascending.
  std::string rests_;
  std::vector<size_t> ends_;     // Of words' rests; begins with 0.
  std::vector<uint32_t> cells_;  // By the number of cuts that are not greater.
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_CURVE_CELLS_H_
