// How large the files of a table are meant to be, and how many of them some bytes become. One rule
// for the planner, which decides whether a rewrite gains anything, and for whoever rewrites.
#ifndef LITHIFY_BASE_FILE_SIZES_H_
#define LITHIFY_BASE_FILE_SIZES_H_

#include <cstdint>

namespace lithify {

// Outputs are never exactly as large as their inputs were. A result that is up to 10 % smaller must
// not be a candidate again, so an eighth is kept in reserve wherever a size decides. Stops at the
// largest number.
int64_t WithReserve(int64_t bytes);

// Bytes; 0 < min <= target < max.
struct FileSizes {
  int64_t target = 0;
  int64_t min = 0;
  int64_t max = 0;
  bool operator==(const FileSizes&) const = default;

  // How many files `bytes` become, at least 1: as near to the target as goes, but none near the
  // minimum, and none above the maximum. Never falls as `bytes` grows; the fixed point rests on
  // that.
  int64_t Outputs(int64_t bytes) const;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_FILE_SIZES_H_
