// Positions along space-filling curves, from coordinates of 16 bits in two to eight dimensions.
//
// Thread safety: pure functions, but for the scratch that a caller brings.
#ifndef LITHIFY_SORT_CURVE_BITS_H_
#define LITHIFY_SORT_CURVE_BITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lithify::sort {

inline constexpr size_t kCoordinateBits = 16;

// Replaces coordinates in place, one column per dimension, all of the same number of rows, by such
// that interleaving their bits gives positions along the Hilbert curve (Skilling 2004). A
// bijection.
void HilbertCoordinates(std::span<std::vector<uint32_t>> columns);

// Interleaves bits: the most significant one of the first column comes first. Positions have 16
// bits per dimension, the first one the uppermost of all: of `high`, then of `low`.
class Interleaver {
 public:
  explicit Interleaver(size_t dimensions);
  // Whether positions have more than 64 bits.
  bool wide() const { return dimensions_ * kCoordinateBits > 64; }
  // `low` may be null unless wide().
  void Interleave(std::span<const std::vector<uint32_t>> columns, size_t rows, uint64_t* high,
                  uint64_t* low) const;

 private:
  size_t dimensions_;
  std::array<uint64_t, 256> spread_{};  // The bits of a byte, `dimensions_` apart.
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_CURVE_BITS_H_
