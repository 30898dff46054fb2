// Test-only: numbers drawn from a seed, for worlds that are made at random and can be made again.
#ifndef LITHIFY_BASE_DRAW_H_
#define LITHIFY_BASE_DRAW_H_

#include <cstdint>

#include "base/random.h"

namespace lithify {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  // From 0 to below 1.
  double Unit() { return static_cast<double>(random_.Next() >> 11) * 0x1.0p-53; }

 private:
  SeededRandom random_;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_DRAW_H_
