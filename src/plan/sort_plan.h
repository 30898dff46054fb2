// Which files of one partition a sort rewrites, and which together: by how much their key ranges
// overlap. Pure; part of plan/iceberg_plan.h, which decides about everything else.
//
// docs/COMPACTION.md, "Sorting", states the candidate set and the fixed point.
#ifndef LITHIFY_PLAN_SORT_PLAN_H_
#define LITHIFY_PLAN_SORT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/file_sizes.h"
#include "base/iceberg.h"

namespace lithify::plan {

// A live file of the partition, oldest first.
struct SortFile {
  int64_t size = 0;
  int64_t live_size = 0;  // Without rows that are known to be deleted.
  int64_t records = 0;
  bool touchable = true;  // Else it stays, and nothing is moved across it.
  bool small = false;
  bool delete_heavy = false;
  bool stale = false;                       // Its own rows are not known to be in the order.
  const iceberg::KeyRange* keys = nullptr;  // Null: nothing is known.
  // Which files it was written with by one sort in this order: among them no two share keys. Empty:
  // with none.
  std::string_view run = {};
};

struct SortRules {
  FileSizes sizes = {};
  int min_input_files = 5;
  int min_overlap_depth = 2;
  bool rewrite_all = false;
  bool ranges = true;     // `keys` are of the order's first key, and tell where a file lies in it.
  bool nulls_low = true;  // Nulls lie below all values, in the order of values.
  int64_t group_bytes_max = 0;
  int64_t group_files_max = 0;
  int64_t group_records_max = 0;
};

struct SortGroup {
  std::vector<size_t> files = {};  // Indices, ascending.
  int depth = 1;                   // So many runs share a key, at most, before the rewrite.
  int64_t overlapping = 0;         // Files that share keys with one of another run.
  bool cut = false;  // Of files that overlap others of another group: too many for one.
};

struct SortedPartition {
  std::vector<SortGroup> groups;  // In the order of keys. No file is in two of them.
  int depth = 1;                  // Of the whole partition.
  bool too_few = false;           // Small files are left since there are too few of them.
  bool does_not_fit = false;      // Overlap is left since no group may hold two of the files.
  bool by_runs = false;           // Bounds tell nothing: what wrote the files decided.
};

SortedPartition PlanSortedPartition(std::span<const SortFile> files, const SortRules& rules);

// Runs that are at least so large are left alone where bounds tell nothing.
int64_t StableRunBytes(const SortRules& rules);

// For metadata that cuts bounds: `upper` is what a cut to the same length makes of a text that
// begins like `lower`, so that nothing need lie between them.
bool IsNextBound(const iceberg::Value& lower, const iceberg::Value& upper);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_SORT_PLAN_H_
