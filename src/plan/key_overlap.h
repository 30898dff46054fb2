// How many data files a read of one value of the sort key opens, before a rewrite and after it: by
// the bounds that manifests have, without a look at a file. Pure.
#ifndef LITHIFY_PLAN_KEY_OVERLAP_H_
#define LITHIFY_PLAN_KEY_OVERLAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/iceberg.h"

namespace lithify::plan {

// A data file of a partition.
struct KeyedFile {
  // Null: its bounds are not known, and every read opens it.
  const iceberg::KeyRange* keys = nullptr;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Files that become `outputs` files, in this order, each of about as many bytes.
struct KeyedMerge {
  std::vector<size_t> files;  // Indices; a file is in one merge at most.
  int64_t outputs = 1;
  bool sorted = false;  // By the key: no two outputs share one, but for their ends.
};

// Averages over the keys of the partition, for which the bounds of its files stand, by their rows.
struct FilesPerKey {
  double before = 0;
  double after = 0;  // An output holds whatever lies between the bounds of its inputs.
};

// nullopt: no file has bounds. n files take O(n log n) comparisons of values.
std::optional<FilesPerKey> FilesPerKeyOf(std::span<const KeyedFile> files,
                                         std::span<const KeyedMerge> merges);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_KEY_OVERLAP_H_
