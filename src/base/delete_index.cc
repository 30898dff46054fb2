#include "base/delete_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace lithify::iceberg {
namespace {

constexpr int64_t kNoSequence = std::numeric_limits<int64_t>::max();

bool Unbounded(const LiveDeleteFile& file) { return file.upper_path.empty(); }

// A lower bound that is not known is empty, and so below every path.
bool InBounds(const LiveDeleteFile& file, std::string_view path) {
  return file.lower_path <= path && (Unbounded(file) || path <= file.upper_path);
}

// The least value of any range of a fixed array.
class RangeMinimum {
 public:
  explicit RangeMinimum(const std::vector<int64_t>& values)
      : size_(values.size()), least_(2 * values.size()) {
    std::copy(values.begin(), values.end(), least_.begin() + static_cast<ptrdiff_t>(size_));
    for (size_t i = size_; i-- > 1;) least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
  }

  int64_t Of(size_t begin, size_t end) const {
    int64_t least = kNoSequence;
    for (begin += size_, end += size_; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) least = std::min(least, least_[begin++]);
      if (end % 2 == 1) least = std::min(least, least_[--end]);
    }
    return least;
  }

 private:
  size_t size_;
  std::vector<int64_t> least_;
};

}  // namespace

DeleteIndex::DeleteIndex(const LiveSet& live) : live_(live), by_partition_(live.partitions.size()) {
  std::vector<std::vector<int32_t>> positions(live.partitions.size());
  for (size_t i = 0; i < live.delete_files.size(); ++i) {
    const LiveDeleteFile& file = live.delete_files[i];
    const auto index = static_cast<int32_t>(i);
    const auto partition = static_cast<size_t>(file.partition);
    if (file.content == FileContent::kEqualityDeletes) {
      (live.unpartitioned[partition] ? global_ : by_partition_[partition].equality)
          .push_back(index);
    } else if (!file.referenced_data_file.empty()) {
      by_path_[file.referenced_data_file].push_back(index);
    } else {
      positions[partition].push_back(index);
    }
  }
  const auto newest_first = [&](int32_t a, int32_t b) {
    return live.delete_files[static_cast<size_t>(a)].sequence_number >
           live.delete_files[static_cast<size_t>(b)].sequence_number;
  };
  std::sort(global_.begin(), global_.end(), newest_first);
  for (size_t i = 0; i < by_partition_.size(); ++i) {
    Partition& partition = by_partition_[i];
    std::sort(partition.equality.begin(), partition.equality.end(), newest_first);
    if (!positions[i].empty()) partition.positions = BuildTree(std::move(positions[i]));
  }
}

DeleteIndex::PathTree DeleteIndex::BuildTree(std::vector<int32_t> deletes) const {
  const auto file = [&](int32_t i) -> const LiveDeleteFile& {
    return live_.delete_files[static_cast<size_t>(i)];
  };
  PathTree tree;
  tree.deletes = std::move(deletes);
  std::sort(tree.deletes.begin(), tree.deletes.end(),
            [&](int32_t a, int32_t b) { return file(a).lower_path < file(b).lower_path; });
  tree.leaves = std::bit_ceil(tree.deletes.size());
  tree.nodes.resize(2 * tree.leaves);
  for (size_t i = 0; i < tree.deletes.size(); ++i) {
    const LiveDeleteFile& one = file(tree.deletes[i]);
    tree.nodes[tree.leaves + i] = {one.sequence_number, one.upper_path, Unbounded(one)};
  }
  for (size_t i = tree.leaves; i-- > 1;) {
    const PathTree::Node& left = tree.nodes[2 * i];
    const PathTree::Node& right = tree.nodes[2 * i + 1];
    tree.nodes[i] = {std::max(left.max_sequence, right.max_sequence),
                     std::max(left.max_upper, right.max_upper), left.unbounded || right.unbounded};
  }
  return tree;
}

// Visits the leaves below `node` that come before `end` and can include the file.
void DeleteIndex::Search(const PathTree& tree, size_t node, size_t end, const LiveDataFile& file,
                         std::vector<int32_t>& found) const {
  // The first leaf below a node: as many steps down to the left as the leaves are deep.
  size_t first = node;
  while (first < tree.leaves) first *= 2;
  if (first - tree.leaves >= end) return;
  const PathTree::Node& bounds = tree.nodes[node];
  if (bounds.max_sequence < file.sequence_number) return;
  if (!bounds.unbounded && bounds.max_upper < file.path) return;
  if (node >= tree.leaves) {
    found.push_back(tree.deletes[node - tree.leaves]);
    return;
  }
  Search(tree, 2 * node, end, file, found);
  Search(tree, 2 * node + 1, end, file, found);
}

bool DeleteIndex::ForPath(const LiveDataFile& file, std::vector<int32_t>& found) const {
  if (by_path_.empty()) return false;
  const auto entry = by_path_.find(file.path);
  if (entry == by_path_.end()) return false;
  bool vector = false;
  for (const int32_t index : entry->second) {
    const LiveDeleteFile& one = live_.delete_files[static_cast<size_t>(index)];
    if (one.sequence_number < file.sequence_number) continue;
    if (one.deletion_vector && !vector) {
      vector = true;
      found.clear();
    }
    if (one.deletion_vector || !vector) found.push_back(index);
  }
  return vector;
}

std::vector<int32_t> DeleteIndex::AppliesTo(int32_t data_file) const {
  const LiveDataFile& file = live_.data_files[static_cast<size_t>(data_file)];
  const Partition& partition = by_partition_[static_cast<size_t>(file.partition)];
  std::vector<int32_t> found;
  const bool vector = ForPath(file, found);
  const PathTree& tree = partition.positions;
  if (!vector && !tree.deletes.empty()) {
    const auto end = std::partition_point(tree.deletes.begin(), tree.deletes.end(), [&](int32_t i) {
      return live_.delete_files[static_cast<size_t>(i)].lower_path <= file.path;
    });
    Search(tree, 1, static_cast<size_t>(end - tree.deletes.begin()), file, found);
  }
  for (const std::vector<int32_t>* equality : {&partition.equality, &global_}) {
    for (const int32_t index : *equality) {
      const LiveDeleteFile& one = live_.delete_files[static_cast<size_t>(index)];
      if (one.sequence_number <= file.sequence_number) break;
      found.push_back(index);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int32_t> DeleteIndex::Dangling() const {
  std::vector<bool> used(live_.delete_files.size());
  std::vector<int64_t> oldest(by_partition_.size(), kNoSequence);
  std::vector<std::vector<int32_t>> without_vector(by_partition_.size());
  std::vector<int32_t> found;
  for (size_t i = 0; i < live_.data_files.size(); ++i) {
    const LiveDataFile& file = live_.data_files[i];
    const auto partition = static_cast<size_t>(file.partition);
    oldest[partition] = std::min(oldest[partition], file.sequence_number);
    found.clear();
    const bool vector = ForPath(file, found);
    for (const int32_t index : found) used[static_cast<size_t>(index)] = true;
    if (!vector && !by_partition_[partition].positions.deletes.empty()) {
      without_vector[partition].push_back(static_cast<int32_t>(i));
    }
  }
  const auto mark_equality = [&](const std::vector<int32_t>& deletes, int64_t oldest_data) {
    for (const int32_t index : deletes) {
      const auto at = static_cast<size_t>(index);
      if (oldest_data < live_.delete_files[at].sequence_number) used[at] = true;
    }
  };
  for (size_t i = 0; i < by_partition_.size(); ++i) {
    mark_equality(by_partition_[i].equality, oldest[i]);
    MarkPositions(by_partition_[i], std::move(without_vector[i]), used);
  }
  mark_equality(global_, std::accumulate(oldest.begin(), oldest.end(), kNoSequence,
                                         [](int64_t a, int64_t b) { return std::min(a, b); }));
  std::vector<int32_t> dangling;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) dangling.push_back(static_cast<int32_t>(i));
  }
  return dangling;
}

void DeleteIndex::MarkPositions(const Partition& deletes, std::vector<int32_t> files,
                                std::vector<bool>& used) const {
  if (files.empty()) return;
  const auto data = [&](int32_t i) -> const LiveDataFile& {
    return live_.data_files[static_cast<size_t>(i)];
  };
  const auto oldest = *std::min_element(files.begin(), files.end(), [&](int32_t a, int32_t b) {
    return data(a).sequence_number < data(b).sequence_number;
  });
  // Most are decided by the oldest data file, without sorting paths.
  std::vector<size_t> undecided;
  for (const int32_t index : deletes.positions.deletes) {
    const auto at = static_cast<size_t>(index);
    const LiveDeleteFile& one = live_.delete_files[at];
    if (data(oldest).sequence_number > one.sequence_number) continue;
    if (InBounds(one, data(oldest).path)) {
      used[at] = true;
    } else {
      undecided.push_back(at);
    }
  }
  if (undecided.empty()) return;
  std::sort(files.begin(), files.end(),
            [&](int32_t a, int32_t b) { return data(a).path < data(b).path; });
  std::vector<int64_t> sequences;
  sequences.reserve(files.size());
  for (const int32_t i : files) sequences.push_back(data(i).sequence_number);
  const RangeMinimum least(sequences);
  for (const size_t at : undecided) {
    const LiveDeleteFile& one = live_.delete_files[at];
    const auto begin = std::partition_point(
        files.begin(), files.end(), [&](int32_t i) { return data(i).path < one.lower_path; });
    const auto end = std::partition_point(begin, files.end(), [&](int32_t i) {
      return Unbounded(one) || data(i).path <= one.upper_path;
    });
    used[at] = least.Of(static_cast<size_t>(begin - files.begin()),
                        static_cast<size_t>(end - files.begin())) <= one.sequence_number;
  }
}

}  // namespace lithify::iceberg
