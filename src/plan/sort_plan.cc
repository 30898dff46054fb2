#include "plan/sort_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

namespace lithify::plan {
namespace {

using iceberg::KeyRange;
using iceberg::Value;

constexpr int kStableRunTargets = 8;

int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// --- where a file lies ---------------------------------------------------------------------------

// A place on the axis of keys: values have nulls on one side, and NaN below the upper one.
struct Place {
  enum Level { kBottom, kNullsLow, kValue, kNaN, kNullsHigh, kTop };
  Level level = kBottom;
  const Value* value = nullptr;  // Of kValue.
};

int Compare(const Place& a, const Place& b) {
  if (a.level != b.level) return a.level < b.level ? -1 : 1;
  return a.level == Place::kValue ? iceberg::CompareValues(*a.value, *b.value) : 0;
}

struct Span {
  Place low;
  Place high;
  bool known = true;
};

Span SpanOf(const SortFile& file, bool nulls_low) {
  const KeyRange* keys = file.keys;
  const Span everywhere{{Place::kBottom, nullptr}, {Place::kTop, nullptr}, false};
  if (keys == nullptr) return everywhere;
  const Place nulls{nulls_low ? Place::kNullsLow : Place::kNullsHigh, nullptr};
  const Place nans{Place::kNaN, nullptr};
  std::optional<Span> span;
  const auto take = [&span](const Place& low, const Place& high) {
    if (!span) span = Span{low, high};
    if (Compare(low, span->low) < 0) span->low = low;
    if (Compare(high, span->high) > 0) span->high = high;
  };
  if (!keys->no_values) {
    if (iceberg::IsNull(keys->lower) || iceberg::IsNull(keys->upper)) return everywhere;
    Place low{Place::kValue, &keys->lower};
    Place high{Place::kValue, &keys->upper};
    // Bounds that somebody wrote the wrong way round.
    if (Compare(high, low) < 0) std::swap(low, high);
    take(low, high);
  }
  if (keys->nans) take(nans, nans);
  if (keys->nulls) take(nulls, nulls);
  // Without a row it lies nowhere.
  return span.value_or(Span{{Place::kBottom, nullptr}, {Place::kBottom, nullptr}});
}

// Whether what ends at `high` shares keys with what begins at `low`, beyond touching it.
bool Reaches(const Place& high, const Place& low) {
  if (Compare(high, low) <= 0) return false;
  return high.level != Place::kValue || low.level != Place::kValue ||
         !IsNextBound(*low.value, *high.value);
}

// --- files that share keys -----------------------------------------------------------------------

// Files that share keys with each other, directly or by others; nothing else shares keys with them.
struct Cluster {
  std::vector<size_t> files;  // By their low ends.
  int depth = 1;
  int64_t overlapping = 0;
  bool dirty = false;
  bool mergeable = false;  // One small file, which may join its neighbours.
  bool barrier = false;    // Something that stays has keys between this and the next one.
  int64_t bytes = 0;
  int64_t live_bytes = 0;
  int64_t records = 0;
};

class RangePlanner {
 public:
  RangePlanner(std::span<const SortFile> files, const SortRules& rules)
      : files_(files), rules_(rules), spans_(files.size()) {
    for (size_t i = 0; i < files.size(); ++i) spans_[i] = SpanOf(files[i], rules.nulls_low);
  }

  SortedPartition Plan() {
    MakeClusters();
    for (Cluster& cluster : clusters_) Judge(cluster);
    for (size_t begin = 0; begin < clusters_.size();) {
      size_t end = begin;
      while (end < clusters_.size() && Moves(clusters_[end])) {
        if (clusters_[end++].barrier) break;
      }
      if (end > begin) PlanStretch(begin, end);
      begin = std::max(end, begin + 1);
    }
    return std::move(out_);
  }

 private:
  static bool Moves(const Cluster& cluster) { return cluster.dirty || cluster.mergeable; }

  // Sweeps over the axis, with the files that reach over each place.
  void MakeClusters() {
    std::vector<size_t> order(files_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, [this](size_t a, size_t b) {
      const int low = Compare(spans_[a].low, spans_[b].low);
      if (low != 0) return low < 0;
      const int high = Compare(spans_[a].high, spans_[b].high);
      return high != 0 ? high < 0 : a < b;
    });
    const auto ends_later = [this](size_t a, size_t b) {
      const int high = Compare(spans_[a].high, spans_[b].high);
      return high != 0 ? high > 0 : a > b;
    };
    std::priority_queue<size_t, std::vector<size_t>, decltype(ends_later)> active(ends_later);
    std::unordered_map<size_t, int> runs;  // Of the active ones.
    overlaps_.assign(files_.size(), false);
    const std::vector<size_t> run_of = NumberRuns();
    std::optional<Place> stays;  // As far as files reach that stay.
    std::optional<Place> reach;  // And as the last cluster does.
    for (const size_t at : order) {
      const Span& span = spans_[at];
      if (!files_[at].touchable) {
        if (!stays || Compare(span.high, *stays) > 0) stays = span.high;
        continue;
      }
      while (!active.empty() && !Reaches(spans_[active.top()].high, spans_[at].low)) {
        const auto run = runs.find(run_of[active.top()]);
        if (--run->second == 0) runs.erase(run);
        active.pop();
      }
      if (active.empty()) {
        // A file that stays and lies between this and the last one, or reaches over what is
        // between.
        if (stays && reach && Compare(*stays, *reach) > 0) clusters_.back().barrier = true;
        clusters_.emplace_back();
        reach.reset();
      }
      if (!reach || Compare(span.high, *reach) > 0) reach = span.high;
      Cluster& cluster = clusters_.back();
      cluster.files.push_back(at);
      active.push(at);
      ++runs[run_of[at]];
      cluster.depth = std::max(cluster.depth, static_cast<int>(std::ssize(runs)));
      // The one that reaches farthest tells of the others well enough: it is told, not decided on.
      if (runs.size() > 1) overlaps_[at] = true;
    }
  }

  // Files without a run are one each.
  std::vector<size_t> NumberRuns() const {
    std::map<std::string_view, size_t> known;
    std::vector<size_t> numbers(files_.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      const std::string_view run = files_[i].run;
      numbers[i] = run.empty() ? i : known.try_emplace(run, i).first->second;
    }
    return numbers;
  }

  void Judge(Cluster& cluster) {
    int64_t small = 0;
    int64_t small_bytes = 0;
    for (const size_t at : cluster.files) {
      const SortFile& file = files_[at];
      cluster.bytes = Add(cluster.bytes, file.size);
      cluster.live_bytes = Add(cluster.live_bytes, file.live_size);
      cluster.records = Add(cluster.records, file.records);
      cluster.dirty = cluster.dirty || file.stale || file.delete_heavy || rules_.rewrite_all;
      cluster.overlapping += overlaps_[at];
      if (file.small) {
        ++small;
        small_bytes = Add(small_bytes, file.live_size);
      }
    }
    cluster.overlapping += cluster.overlapping > 0;  // The first of them.
    out_.depth = std::max(out_.depth, cluster.depth);
    cluster.dirty = cluster.dirty || cluster.depth >= std::max(2, rules_.min_overlap_depth);
    if (cluster.files.size() == 1) {
      cluster.mergeable = !cluster.dirty && small == 1;
    } else if (!cluster.dirty) {
      // Bounds tell of overlap where there is none, or where it is tolerated: small files are not.
      cluster.dirty = small >= std::max(2, rules_.min_input_files) &&
                      rules_.sizes.Outputs(WithReserve(small_bytes)) < small;
    }
  }

  struct Piece {
    std::vector<const Cluster*> clusters;
    int64_t bytes = 0;
    int64_t live_bytes = 0;
    int64_t records = 0;
    int64_t files = 0;
    bool dirty = false;

    void Take(const Cluster& cluster) {
      clusters.push_back(&cluster);
      bytes = Add(bytes, cluster.bytes);
      live_bytes = Add(live_bytes, cluster.live_bytes);
      records = Add(records, cluster.records);
      files += std::ssize(cluster.files);
      dirty = dirty || cluster.dirty;
    }
  };

  bool Fits(int64_t bytes, int64_t records, int64_t files) const {
    return bytes <= rules_.group_bytes_max && records <= rules_.group_records_max &&
           files <= rules_.group_files_max;
  }
  bool Fit(const Piece& piece, const Cluster& cluster) const {
    return Fits(Add(piece.bytes, cluster.bytes), Add(piece.records, cluster.records),
                piece.files + std::ssize(cluster.files));
  }

  // Whether small files that share no keys are worth merging; as for bin-packing.
  bool Worth(const Piece& piece) {
    if (piece.dirty) return true;
    const bool enough =
        piece.files >= rules_.min_input_files || piece.live_bytes > rules_.sizes.target;
    if (!enough || piece.files < 2) {
      out_.too_few = true;
      return false;
    }
    return rules_.sizes.Outputs(WithReserve(piece.live_bytes)) < piece.files;
  }

  // Neighbours on the axis, between whose keys no other file lies: cut into groups where one has
  // enough for an output, since between clusters a cut costs nothing.
  void PlanStretch(size_t begin, size_t end) {
    std::vector<Piece> pieces;
    for (size_t c = begin; c < end; ++c) {
      const bool full = !pieces.empty() && pieces.back().live_bytes >= rules_.sizes.target;
      if (pieces.empty() || full || !Fit(pieces.back(), clusters_[c])) pieces.emplace_back();
      pieces.back().Take(clusters_[c]);
    }
    for (const Piece& piece : pieces) {
      if (Worth(piece)) Keep(piece);
    }
  }

  void Keep(const Piece& piece) {
    if (piece.clusters.size() == 1 && !Fits(piece.bytes, piece.records, piece.files)) {
      return Cut(*piece.clusters.front());
    }
    SortGroup group;
    for (const Cluster* cluster : piece.clusters) {
      std::ranges::copy(cluster->files, std::back_inserter(group.files));
      group.depth = std::max(group.depth, cluster->depth);
      group.overlapping += cluster->overlapping;
    }
    std::ranges::sort(group.files);
    out_.groups.push_back(std::move(group));
  }

  // More files than a group may have: cut by their low ends. What overlaps across a cut is left to
  // the next run, which finds narrower files. The first group always has files of two runs, or it
  // would not be a cluster: so every run gets somewhere.
  void Cut(const Cluster& cluster) {
    std::vector<size_t> part;
    int64_t bytes = 0;
    int64_t records = 0;
    Place reach;
    const auto close = [&] {
      if (IsWorthIt(part)) {
        SortGroup group{.files = part, .depth = cluster.depth, .cut = true};
        group.overlapping = std::ssize(part);
        std::ranges::sort(group.files);
        out_.groups.push_back(std::move(group));
      } else if (!part.empty()) {
        out_.does_not_fit = true;
      }
      part.clear();
      bytes = records = 0;
    };
    for (const size_t at : cluster.files) {
      const SortFile& file = files_[at];
      // Nothing is merged across keys that it has none of: others of the cluster do.
      if (!part.empty() &&
          (!Reaches(reach, spans_[at].low) ||
           !Fits(Add(bytes, file.size), Add(records, file.records), std::ssize(part) + 1))) {
        close();
      }
      if (part.empty() || Compare(spans_[at].high, reach) > 0) reach = spans_[at].high;
      part.push_back(at);
      bytes = Add(bytes, file.size);
      records = Add(records, file.records);
    }
    close();
  }

  bool IsWorthIt(const std::vector<size_t>& part) const {
    if (part.empty()) return false;
    const std::string_view run = files_[part.front()].run;
    return std::ranges::any_of(part, [&](size_t at) {
      const SortFile& file = files_[at];
      return file.stale || file.delete_heavy || rules_.rewrite_all || file.run != run ||
             (run.empty() && at != part.front());
    });
  }

  std::span<const SortFile> files_;
  const SortRules& rules_;
  std::vector<Span> spans_;
  std::vector<bool> overlaps_;
  std::vector<Cluster> clusters_;
  SortedPartition out_;
};

// --- where bounds tell nothing -------------------------------------------------------------------

// What one sort wrote together is a run (of a curve: a cube). Files of one run share no keys; two
// runs are taken to share all.
class RunPlanner {
 public:
  RunPlanner(std::span<const SortFile> files, const SortRules& rules)
      : files_(files), rules_(rules) {
    out_.by_runs = true;
  }

  SortedPartition Plan() {
    MakeRuns();
    std::vector<size_t> candidates;
    size_t runs = 0;
    bool due = false;
    int64_t small = 0;
    int64_t small_bytes = 0;
    for (const Run& run : runs_) {
      const bool stable = !rules_.rewrite_all && run.sound_bytes >= StableRunBytes(rules_);
      const size_t before = candidates.size();
      for (const size_t at : run.files) {
        const SortFile& file = files_[at];
        const bool must = rules_.rewrite_all || file.stale || file.delete_heavy;
        if (stable && !must) continue;
        candidates.push_back(at);
        due = due || must;
        if (!file.small) continue;
        ++small;
        small_bytes = Add(small_bytes, file.live_size);
      }
      runs += candidates.size() > before;
    }
    out_.depth = std::max(1, static_cast<int>(runs_.size()));
    // Rows that were sorted may take less, so that one run leaves many small files.
    const bool many_small = small >= std::max(2, rules_.min_input_files) &&
                            rules_.sizes.Outputs(WithReserve(small_bytes)) < small;
    const bool deep = static_cast<int64_t>(runs) >= std::max(2, rules_.min_overlap_depth);
    if (!due && !deep && !many_small) {
      out_.too_few = runs > 1;
      return std::move(out_);
    }
    Pack(candidates, static_cast<int>(runs), due || many_small);
    return std::move(out_);
  }

 private:
  struct Run {
    std::vector<size_t> files;
    int64_t sound_bytes = 0;  // Of those that may stay.
  };

  // In the order of their first files.
  void MakeRuns() {
    std::map<std::string_view, size_t> known;
    for (size_t i = 0; i < files_.size(); ++i) {
      const SortFile& file = files_[i];
      if (!file.touchable) continue;
      size_t at = runs_.size();
      if (!file.run.empty()) at = known.try_emplace(file.run, at).first->second;
      if (at == runs_.size()) runs_.emplace_back();
      runs_[at].files.push_back(i);
      if (!file.stale && !file.delete_heavy) {
        runs_[at].sound_bytes = Add(runs_[at].sound_bytes, file.live_size);
      }
    }
  }

  void Pack(const std::vector<size_t>& candidates, int runs, bool due) {
    std::vector<SortGroup> groups;
    int64_t bytes = 0;
    int64_t records = 0;
    for (const size_t at : candidates) {
      const SortFile& file = files_[at];
      const bool fits = !groups.empty() && Add(bytes, file.size) <= rules_.group_bytes_max &&
                        Add(records, file.records) <= rules_.group_records_max &&
                        std::ssize(groups.back().files) < rules_.group_files_max;
      if (!fits) {
        groups.push_back({.depth = runs});
        bytes = records = 0;
      }
      groups.back().files.push_back(at);
      bytes = Add(bytes, file.size);
      records = Add(records, file.records);
    }
    // As many runs as before are no gain.
    if (!due && std::ssize(groups) >= runs) {
      out_.does_not_fit = true;
      return;
    }
    for (SortGroup& group : groups) {
      if (!IsWorthIt(group)) continue;
      group.cut = groups.size() > 1;
      group.overlapping = std::ssize(group.files);
      std::ranges::sort(group.files);
      out_.groups.push_back(std::move(group));
    }
  }

  bool IsWorthIt(const SortGroup& group) const {
    const std::string_view run = files_[group.files.front()].run;
    int64_t small = 0;
    int64_t small_bytes = 0;
    for (const size_t at : group.files) {
      const SortFile& file = files_[at];
      if (rules_.rewrite_all || file.stale || file.delete_heavy || file.run != run) return true;
      if (run.empty() && at != group.files.front()) return true;
      small += file.small;
      if (file.small) small_bytes = Add(small_bytes, file.live_size);
    }
    return small >= std::max(2, rules_.min_input_files) &&
           rules_.sizes.Outputs(WithReserve(small_bytes)) < small;
  }

  std::span<const SortFile> files_;
  const SortRules& rules_;
  std::vector<Run> runs_;
  SortedPartition out_;
};

bool IsKnown(const SortFile& file) {
  return file.keys != nullptr && (file.keys->no_values || (!iceberg::IsNull(file.keys->lower) &&
                                                           !iceberg::IsNull(file.keys->upper)));
}

// The bytes of one character at the end of `text`; 1 where it is no UTF-8.
size_t LastCharacter(std::string_view text) {
  size_t bytes = 1;
  while (bytes < std::min<size_t>(4, text.size()) &&
         (static_cast<unsigned char>(text[text.size() - bytes]) & 0xc0) == 0x80) {
    ++bytes;
  }
  return bytes;
}

uint32_t CodePoint(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character.front());
  uint32_t code = static_cast<unsigned char>(character.front()) & (0xffU >> (character.size() + 1));
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
}

}  // namespace

bool IsNextBound(const Value& lower, const Value& upper) {
  const auto* low = std::get_if<std::string>(&lower);
  const auto* high = std::get_if<std::string>(&upper);
  if (low == nullptr || high == nullptr || low->empty() || high->empty()) return false;
  // As bytes, of binary.
  if (low->size() == high->size() &&
      low->compare(0, low->size() - 1, *high, 0, high->size() - 1) == 0 &&
      static_cast<unsigned char>(low->back()) + 1 == static_cast<unsigned char>(high->back())) {
    return true;
  }
  const size_t low_last = LastCharacter(*low);
  const size_t high_last = LastCharacter(*high);
  const std::string_view low_rest(*low);
  const std::string_view high_rest(*high);
  if (low_rest.substr(0, low->size() - low_last) != high_rest.substr(0, high->size() - high_last)) {
    return false;
  }
  const uint32_t a = CodePoint(low_rest.substr(low->size() - low_last));
  const uint32_t b = CodePoint(high_rest.substr(high->size() - high_last));
  return b == a + 1 || (a == 0xd7ff && b == 0xe000);  // There are no characters between.
}

int64_t StableRunBytes(const SortRules& rules) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(rules.sizes.target, kStableRunTargets, &bytes)) {
    bytes = std::numeric_limits<int64_t>::max();
  }
  return std::min(bytes, rules.group_bytes_max / 2);
}

SortedPartition PlanSortedPartition(std::span<const SortFile> files, const SortRules& rules) {
  const bool ranges = rules.ranges && std::ranges::any_of(files, [](const SortFile& file) {
                        return file.touchable && IsKnown(file);
                      });
  return ranges ? RangePlanner(files, rules).Plan() : RunPlanner(files, rules).Plan();
}

}  // namespace lithify::plan
