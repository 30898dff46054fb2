#include "base/file_sizes.h"

#include <algorithm>
#include <limits>

namespace lithify {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

int64_t WithReserve(int64_t bytes) {
  int64_t sum = 0;
  return __builtin_add_overflow(bytes, bytes / 8 + 1, &sum) ? std::numeric_limits<int64_t>::max()
                                                            : sum;
}

int64_t FileSizes::Outputs(int64_t bytes) const {
  bytes = std::max<int64_t>(bytes, 0);
  const int64_t nearest = bytes / target + (bytes % target >= target - target / 2);
  const int64_t large_enough = bytes / WithReserve(min);
  return std::max({int64_t{1}, std::min(nearest, large_enough), CeilDivide(bytes, max)});
}

}  // namespace lithify
