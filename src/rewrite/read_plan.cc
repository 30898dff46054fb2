#include "rewrite/read_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {
namespace {

using storage::Extent;

// The rounds in which something is read.
struct Rounds {
  int64_t first = 0;
  int64_t last = 0;
  auto operator<=>(const Rounds&) const = default;
};

// Extents in the order in which they are read.
class Extents {
 public:
  // Parts at most `gap_bytes` apart come together.
  explicit Extents(int64_t bytes_max, int64_t gap_bytes = kGapBytes)
      : bytes_max_(std::max<int64_t>(1, bytes_max)), gap_bytes_(gap_bytes) {}

  // The next file; what it has in memory needs no reading.
  void Begin(const InputSource& in) {
    in_ = in.file->supports_zero_copy() ? nullptr : &in;
    claimed_ = 0;
  }
  bool begun() const { return in_ != nullptr; }
  const InputSource& in() const { return *in_; }

  // A part of that file, `rank` earlier or later than others of the round. A damaged footer may
  // claim any place: what is not in the file is nobody's.
  void Add(int64_t offset, int64_t bytes, Rounds rounds, size_t rank) {
    if (offset < 0 || bytes <= 0 || offset >= in_->size) return;
    bytes = std::min(bytes, in_->size - offset);
    // Parts that overlap are those of a damaged file: no more of them than it has bytes.
    if (bytes > in_->size - claimed_) return;
    claimed_ += bytes;
    pieces_.push_back({rounds, offset, bytes, rank});
  }

  // Joins the parts of the file that lie close together, and cuts what is longer than one request.
  void End() {
    std::ranges::sort(pieces_, {}, [](const Piece& p) { return std::tie(p.rounds, p.offset); });
    for (auto first = pieces_.cbegin(); first != pieces_.cend();) {
      int64_t end = first->offset + first->bytes;
      auto last = first + 1;
      for (; last != pieces_.cend() && last->rounds == first->rounds; ++last) {
        if (last->offset - end > gap_bytes_) break;
        end = std::max(end, last->offset + last->bytes);
      }
      Cut(std::span(first, last), end);
      first = last;
    }
    pieces_.clear();
  }

  std::vector<Extent> Take() {
    std::ranges::stable_sort(
        extents_, {}, [](const Ranked& r) { return std::pair(r.extent.first_round, r.rank); });
    std::vector<Extent> taken;
    taken.reserve(extents_.size());
    for (Ranked& ranked : extents_) taken.push_back(std::move(ranked.extent));
    return taken;
  }

 private:
  struct Piece {
    Rounds rounds;
    int64_t offset = 0;
    int64_t bytes = 0;
    size_t rank = 0;
  };
  struct Ranked {
    Extent extent;
    size_t rank = 0;
  };

  // Into equal extents from the first of the pieces up to `end`.
  void Cut(std::span<const Piece> pieces, int64_t end) {
    const int64_t begin = pieces.front().offset;
    const int64_t count = (end - begin - 1) / bytes_max_ + 1;
    const int64_t width = (end - begin - 1) / count + 1;
    auto piece = pieces.begin();
    for (int64_t at = begin; at < end; at += width) {
      const int64_t to = std::min(end, at + width);
      Ranked part{
          {in_->key, at, to - at, 0, pieces.front().rounds.first, pieces.front().rounds.last},
          std::numeric_limits<size_t>::max()};
      while (piece != pieces.end() && piece->offset + piece->bytes <= at) ++piece;
      for (auto p = piece; p != pieces.end() && p->offset < to; ++p) {
        const int64_t from = std::max(at, p->offset);
        part.extent.wanted += std::max<int64_t>(0, std::min(to, p->offset + p->bytes) - from);
        part.rank = std::min(part.rank, p->rank);
      }
      part.extent.wanted = std::min(part.extent.wanted, part.extent.bytes);
      if (part.extent.wanted > 0) extents_.push_back(std::move(part));
    }
  }

  const int64_t bytes_max_;
  const int64_t gap_bytes_;
  const InputSource* in_ = nullptr;
  int64_t claimed_ = 0;  // Of that file.
  std::vector<Piece> pieces_;
  std::vector<Ranked> extents_;
};

void AddChunk(Extents& extents, const StoredChunk& chunk, Rounds rounds, size_t rank) {
  extents.Add(ChunkStart(chunk.data_page_offset, chunk.dictionary_page_offset),
              chunk.total_compressed_size, rounds, rank);
}

void AddIndexes(Extents& extents, const StoredChunk& chunk, Rounds rounds, size_t rank) {
  for (const auto& place : {chunk.column_index, chunk.offset_index}) {
    if (place) extents.Add(place->offset, place->length, rounds, rank);
  }
}

// Rows of a file's row groups that survive, as they come one after the other.
class Survivors {
 public:
  explicit Survivors(const InputSource& in) : in_(in) {}
  int64_t Of(int g) {
    const int64_t rows = in_.footer->row_group(g).num_rows;
    const int64_t survive = rows - DeletedRows(in_, first_row_, rows);
    first_row_ += rows;
    return survive;
  }

 private:
  const InputSource& in_;
  int64_t first_row_ = 0;
};

// In which row groups of the outputs surviving rows come to lie, one after the other.
class RoundOfRows {
 public:
  explicit RoundOfRows(const std::vector<RowGroupPlan>& plan) : plan_(plan) {}
  // Of the next so many, at least one; they are no more than the plan's.
  Rounds Next(int64_t rows) {
    Rounds rounds;
    PassFull();
    rounds.first = static_cast<int64_t>(at_);
    while (at_ + 1 < plan_.size() && rows > plan_[at_].rows - used_) {
      rows -= plan_[at_].rows - used_;
      used_ = 0;
      ++at_;
    }
    used_ += rows;
    rounds.last = static_cast<int64_t>(at_);
    return rounds;
  }

 private:
  void PassFull() {
    while (at_ + 1 < plan_.size() && used_ >= plan_[at_].rows) {
      used_ = 0;
      ++at_;
    }
  }
  const std::vector<RowGroupPlan>& plan_;
  size_t at_ = 0;
  int64_t used_ = 0;
};

// The row groups of a file that are read, with their rounds.
std::vector<std::pair<int, Rounds>> RoundsOf(const InputSource& in, RoundOfRows& rounds) {
  std::vector<std::pair<int, Rounds>> read;
  Survivors survivors(in);
  for (int g = 0; g < in.footer->num_row_groups(); ++g) {
    const int64_t rows = survivors.Of(g);
    if (rows > 0) read.emplace_back(g, rounds.Next(rows));
  }
  return read;
}

}  // namespace

std::vector<Extent> PlanReads(const OpenedGroup& group, const std::vector<RowGroupPlan>& plan,
                              const std::vector<size_t>& order, bool pages_move,
                              int64_t extent_bytes_max) {
  Extents extents(extent_bytes_max);
  RoundOfRows rounds_of_rows(plan);
  for (const auto& in : group.inputs) {
    const auto groups = RoundsOf(*in, rounds_of_rows);
    extents.Begin(*in);
    if (!extents.begun() || groups.empty()) continue;
    // Indexes lie together at the end, whatever their row groups.
    const Rounds all{groups.front().second.first, groups.back().second.last};
    for (const auto& [g, rounds] : groups) {
      const RowGroupPlan& first = plan[static_cast<size_t>(rounds.first)];
      for (size_t rank = 0; rank < order.size(); ++rank) {
        const int column = in->leaves[order[rank]].input_leaf;
        if (column < 0) continue;
        const StoredChunk chunk = in->footer->Chunk(g, column);
        AddChunk(extents, chunk, rounds, rank);
        if (!pages_move || !first.whole) continue;
        AddIndexes(extents, chunk, all, rank);
        if (!first.moved || !chunk.bloom_filter_offset) continue;
        extents.Add(*chunk.bloom_filter_offset, chunk.bloom_filter_length.value_or(0), rounds,
                    rank);
      }
    }
    extents.End();
  }
  return extents.Take();
}

std::vector<Extent> PlanFirstHeaders(const InputSource& in, int64_t extent_bytes_max) {
  // So little of so much is wanted that bytes count more than requests, which go out together.
  Extents extents(extent_bytes_max, kGapBytes / 4);
  extents.Begin(in);
  if (!extents.begun() || in.footer->num_row_groups() == 0) return {};
  for (size_t leaf = 0; leaf < in.leaves.size(); ++leaf) {
    if (in.leaves[leaf].input_leaf < 0) continue;
    const StoredChunk chunk = in.footer->Chunk(0, in.leaves[leaf].input_leaf);
    // Only what a dictionary begins with is looked at.
    if (!chunk.dictionary_page_offset) continue;
    extents.Add(ChunkStart(chunk.data_page_offset, chunk.dictionary_page_offset),
                std::min(chunk.total_compressed_size, kFirstHeaderBytes),
                {kFirstHeadersRound, kFirstHeadersRound}, leaf);
  }
  extents.End();
  return extents.Take();
}

std::vector<Extent> PlanColumn(const OpenedGroup& group, size_t leaf, const GroupPlace& start,
                               int64_t rows, int64_t round, int64_t extent_bytes_max) {
  Extents extents(extent_bytes_max);
  for (size_t i = start.input; i < group.inputs.size() && rows > 0; ++i) {
    const InputSource& in = *group.inputs[i];
    Survivors survivors(in);
    extents.Begin(in);
    for (int g = 0; g < in.footer->num_row_groups() && rows > 0; ++g) {
      const int64_t survive = survivors.Of(g);
      const int column = in.leaves[leaf].input_leaf;
      if (i == start.input && g < start.group) continue;
      if (survive == 0) continue;
      if (extents.begun() && column >= 0) {
        AddChunk(extents, in.footer->Chunk(g, column), {round, round}, 0);
      }
      rows -= survive;
    }
    if (extents.begun()) extents.End();
  }
  return extents.Take();
}

std::vector<Extent> PlanReading(const OpenedGroup& file,
                                const std::vector<std::vector<bool>>& wanted,
                                int64_t extent_bytes_max) {
  Extents extents(extent_bytes_max);
  const InputSource& in = *file.inputs.front();
  extents.Begin(in);
  if (!extents.begun()) return {};
  for (size_t g = 0; g < wanted.size(); ++g) {
    const Rounds round{static_cast<int64_t>(g), static_cast<int64_t>(g)};
    for (size_t leaf = 0; leaf < wanted[g].size(); ++leaf) {
      const int column = in.leaves[leaf].input_leaf;
      if (!wanted[g][leaf] || column < 0) continue;
      AddChunk(extents, in.footer->Chunk(static_cast<int>(g), column), round, leaf);
    }
  }
  extents.End();
  return extents.Take();
}

}  // namespace lithify::rewrite
