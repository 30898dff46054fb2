#include "plan/key_overlap.h"

#include <algorithm>
#include <utility>

namespace lithify::plan {
namespace {

// A closed range of ranks: of the distinct bounds, in their order.
struct Ranks {
  size_t lower = 0;
  size_t upper = 0;
};

bool IsKnown(const KeyedFile& file) {
  return file.keys != nullptr && !iceberg::IsNull(file.keys->lower) &&
         !iceberg::IsNull(file.keys->upper);
}

// Of each file that has bounds; `count` is how many distinct ones there are.
std::vector<Ranks> RanksOf(std::span<const KeyedFile> files, size_t& count) {
  struct Bound {
    const iceberg::Value* value;
    size_t* rank;
  };
  std::vector<Ranks> ranks(files.size());
  std::vector<Bound> bounds;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!IsKnown(files[i])) continue;
    bounds.push_back({&files[i].keys->lower, &ranks[i].lower});
    bounds.push_back({&files[i].keys->upper, &ranks[i].upper});
  }
  std::ranges::sort(bounds, [](const Bound& a, const Bound& b) {
    return iceberg::CompareValues(*a.value, *b.value) < 0;
  });
  count = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (i > 0 && iceberg::CompareValues(*bounds[i - 1].value, *bounds[i].value) != 0) ++count;
    *bounds[i].rank = count;
  }
  count += bounds.empty() ? 0 : 1;
  // Bounds that somebody wrote the wrong way round.
  for (Ranks& range : ranks) {
    if (range.upper < range.lower) std::swap(range.lower, range.upper);
  }
  return ranks;
}

// So many files reach over each rank.
class Depths {
 public:
  explicit Depths(size_t ranks) : changes_(ranks + 1, 0) {}
  void Add(const Ranks& range) {
    ++changes_[range.lower];
    --changes_[range.upper + 1];
  }
  void AddEverywhere() { ++everywhere_; }

  // By the weight of each rank.
  double Mean(const std::vector<double>& weights) const {
    double sum = 0;
    double all = 0;
    int64_t depth = 0;
    for (size_t rank = 0; rank < weights.size(); ++rank) {
      depth += changes_[rank];
      sum += weights[rank] * static_cast<double>(depth);
      all += weights[rank];
    }
    return sum / all + static_cast<double>(everywhere_);
  }

 private:
  std::vector<int64_t> changes_;
  int64_t everywhere_ = 0;
};

// Each key is in one of the outputs, whatever the inputs were; where none of these is known, it is
// not known where.
void AddSorted(std::span<const KeyedFile> files, const std::vector<Ranks>& ranks,
               const KeyedMerge& merge, Depths& depths) {
  std::optional<Ranks> hull;
  for (const size_t at : merge.files) {
    if (!IsKnown(files[at])) return depths.AddEverywhere();
    if (!hull) hull = ranks[at];
    hull->lower = std::min(hull->lower, ranks[at].lower);
    hull->upper = std::max(hull->upper, ranks[at].upper);
  }
  depths.Add(*hull);
}

// What the outputs of a merge reach over: inputs are written one after the other, so one that lies
// across a border is in both.
void AddOutputs(std::span<const KeyedFile> files, const std::vector<Ranks>& ranks,
                const KeyedMerge& merge, Depths& depths) {
  struct Output {
    bool used = false;
    bool known = true;
    Ranks range;
  };
  if (merge.outputs <= 0 || merge.files.empty()) return;
  if (merge.sorted) return AddSorted(files, ranks, merge, depths);
  int64_t bytes = 0;
  for (const size_t at : merge.files) bytes += std::max<int64_t>(files[at].bytes, 1);
  const auto count = std::min(static_cast<size_t>(merge.outputs), merge.files.size());
  const double each = static_cast<double>(bytes) / static_cast<double>(count);
  std::vector<Output> outputs(count);
  const auto output_at = [&](int64_t offset) {
    return std::min(count - 1, static_cast<size_t>(static_cast<double>(offset) / each));
  };
  int64_t begin = 0;
  for (const size_t at : merge.files) {
    const int64_t end = begin + std::max<int64_t>(files[at].bytes, 1);
    for (size_t o = output_at(begin); o <= output_at(end - 1); ++o) {
      Output& output = outputs[o];
      const Ranks& range = ranks[at];
      output.known = output.known && IsKnown(files[at]);
      output.range.lower = output.used ? std::min(output.range.lower, range.lower) : range.lower;
      output.range.upper = output.used ? std::max(output.range.upper, range.upper) : range.upper;
      output.used = true;
    }
    begin = end;
  }
  for (const Output& output : outputs) {
    if (!output.used) continue;
    if (output.known) {
      depths.Add(output.range);
    } else {
      depths.AddEverywhere();
    }
  }
}

}  // namespace

std::optional<FilesPerKey> FilesPerKeyOf(std::span<const KeyedFile> files,
                                         std::span<const KeyedMerge> merges) {
  size_t count = 0;
  const std::vector<Ranks> ranks = RanksOf(files, count);
  if (count == 0) return std::nullopt;
  std::vector<bool> merged(files.size(), false);
  for (const KeyedMerge& merge : merges) {
    for (const size_t at : merge.files) merged[at] = true;
  }
  std::vector<double> weights(count, 0);
  Depths before(count);
  Depths after(count);
  for (size_t i = 0; i < files.size(); ++i) {
    if (!IsKnown(files[i])) {
      before.AddEverywhere();
      if (!merged[i]) after.AddEverywhere();
      continue;
    }
    const double rows = static_cast<double>(std::max<int64_t>(files[i].rows, 1));
    weights[ranks[i].lower] += rows / 2;
    weights[ranks[i].upper] += rows / 2;
    before.Add(ranks[i]);
    if (!merged[i]) after.Add(ranks[i]);
  }
  for (const KeyedMerge& merge : merges) AddOutputs(files, ranks, merge, after);
  return FilesPerKey{.before = before.Mean(weights), .after = after.Mean(weights)};
}

}  // namespace lithify::plan
