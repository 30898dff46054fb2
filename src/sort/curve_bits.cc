#include "sort/curve_bits.h"

#include "base/result.h"

namespace lithify::sort {
namespace {

__extension__ typedef unsigned __int128 UInt128;

// One step of the undoing of rotations and reflections: without a branch, and over all rows of a
// block, so that it becomes a loop of a few vector instructions.
void Unturn(uint32_t bit, std::vector<uint32_t>& first, std::vector<uint32_t>& column) {
  const uint32_t below = bit - 1;
  const size_t n = first.size();
  uint32_t* const __restrict x = first.data();
  uint32_t* const __restrict y = column.data();
  for (size_t i = 0; i < n; ++i) {
    const uint32_t set = (y[i] & bit) != 0 ? below : 0;
    const uint32_t exchanged = (x[i] ^ y[i]) & below & ~set;
    x[i] ^= set | exchanged;
    y[i] ^= exchanged;
  }
}

}  // namespace

void HilbertCoordinates(std::span<std::vector<uint32_t>> columns) {
  constexpr uint32_t kTop = uint32_t{1} << (kCoordinateBits - 1);
  std::vector<uint32_t>& first = columns[0];
  for (uint32_t bit = kTop; bit > 1; bit >>= 1) {
    for (uint32_t& x : first) x ^= (x & bit) != 0 ? bit - 1 : 0;
    for (std::vector<uint32_t>& column : columns.subspan(1)) Unturn(bit, first, column);
  }
  // Gray code.
  for (size_t d = 1; d < columns.size(); ++d) {
    for (size_t i = 0; i < first.size(); ++i) columns[d][i] ^= columns[d - 1][i];
  }
  std::vector<uint32_t>& last = columns.back();
  for (size_t i = 0; i < first.size(); ++i) {
    // All bits below a set one are turned, once for each: a sum of all that are above, modulo two.
    uint32_t turned = last[i] >> 1;
    turned ^= turned >> 1;
    turned ^= turned >> 2;
    turned ^= turned >> 4;
    turned ^= turned >> 8;
    for (std::vector<uint32_t>& column : columns) column[i] ^= turned;
  }
}

Interleaver::Interleaver(size_t dimensions) : dimensions_(dimensions) {
  for (size_t byte = 0; byte < spread_.size(); ++byte) {
    for (size_t bit = 0; bit < 8; ++bit) {
      spread_[byte] |= uint64_t{byte >> bit & 1} << (bit * dimensions);
    }
  }
}

void Interleaver::Interleave(std::span<const std::vector<uint32_t>> columns, size_t rows,
                             uint64_t* high, uint64_t* low) const {
  const size_t n = dimensions_;
  LITHIFY_CHECK(n > 0 && columns.size() == n, "a position has coordinates in all dimensions");
  if (!wide()) {
    const auto left = static_cast<int>(64 - n * kCoordinateBits);
    for (size_t i = 0; i < rows; ++i) {
      uint64_t position = 0;
      for (size_t d = 0; d < n; ++d) {
        const uint32_t x = columns[d][i];
        position = position << 1 | spread_[x >> 8] << (8 * n) | spread_[x & 0xFF];
      }
      high[i] = position << left;
    }
    return;
  }
  const auto left = static_cast<int>(128 - n * kCoordinateBits);
  for (size_t i = 0; i < rows; ++i) {
    uint64_t of_high_bytes = 0;
    uint64_t of_low_bytes = 0;
    for (size_t d = 0; d < n; ++d) {
      const uint32_t x = columns[d][i];
      of_high_bytes = of_high_bytes << 1 | spread_[x >> 8];
      of_low_bytes = of_low_bytes << 1 | spread_[x & 0xFF];
    }
    const UInt128 position = (UInt128{of_high_bytes} << (8 * n) | of_low_bytes) << left;
    high[i] = static_cast<uint64_t>(position >> 64);
    low[i] = static_cast<uint64_t>(position);
  }
}

}  // namespace lithify::sort
