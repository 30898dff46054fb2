// Which delete files apply to which data files of one live set (Iceberg, "Scan Planning"):
//   a deletion vector: to the data file it references, data sequence <= its own; position delete
//     files are ignored for a data file that has one;
//   a position delete file that references one file: likewise;
//   any other position delete file: same partition (spec and tuple), data sequence <= its own, and
//     the bounds of the paths it names include the data file;
//   an equality delete file: data sequence < its own, and same partition or an unpartitioned spec.
// A data file with more than one vector, which the specification forbids, gets all of them. The
// specification wants the partition of a delete that references one file to be the file's own, but
// readers (Iceberg's Java core, pyiceberg) go by the path alone, and so must who applies deletes
// for good: a row that every reader hides must not come back.
//
// Building takes time for sorting the deletes; a question takes time for its answer, not for the
// number of deletes, as far as sequence numbers and path bounds tell them apart.
//
// Thread safety: read-only after construction. Borrows the live set.
#ifndef LITHIFY_BASE_DELETE_INDEX_H_
#define LITHIFY_BASE_DELETE_INDEX_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/iceberg.h"

namespace lithify::iceberg {

class DeleteIndex {
 public:
  explicit DeleteIndex(const LiveSet& live);

  // Indices into live.delete_files, ascending.
  std::vector<int32_t> AppliesTo(int32_t data_file) const;
  // Indices into live.delete_files of those that apply to no live data file ("dangling"),
  // ascending.
  std::vector<int32_t> Dangling() const;

 private:
  // Position delete files of one partition that may name several data files: an interval tree over
  // the path bounds, in an array (the children of node n are 2n and 2n + 1).
  struct PathTree {
    struct Node {
      int64_t max_sequence = -1;
      std::string_view max_upper;
      bool unbounded = false;  // One of them may name any path above its lower bound.
    };
    std::vector<int32_t> deletes;  // By lower path bound.
    std::vector<Node> nodes;
    size_t leaves = 0;
  };
  struct Partition {
    PathTree positions;
    std::vector<int32_t> equality;  // By sequence number, greatest first.
  };

  PathTree BuildTree(std::vector<int32_t> deletes) const;
  void Search(const PathTree& tree, size_t node, size_t end, const LiveDataFile& file,
              std::vector<int32_t>& found) const;
  // Deletes that name this data file alone; returns whether one is a deletion vector.
  bool ForPath(const LiveDataFile& file, std::vector<int32_t>& found) const;
  void MarkPositions(const Partition& deletes, std::vector<int32_t> files,
                     std::vector<bool>& used) const;

  const LiveSet& live_;
  std::unordered_map<std::string_view, std::vector<int32_t>> by_path_;  // Referenced data file.
  std::vector<Partition> by_partition_;                                 // Of all other deletes.
  std::vector<int32_t> global_;  // Equality deletes of unpartitioned specs, ordered as above.
};

}  // namespace lithify::iceberg

#endif  // LITHIFY_BASE_DELETE_INDEX_H_
