#include "rewrite/row_group_plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/text.h"
#include "rewrite/column_move.h"
#include "rewrite/writer_properties.h"

namespace lithify::rewrite {
namespace {

// What an input row group, or what is left of it, adds to a plan.
struct Load {
  int64_t rows = 0;
  int64_t bytes = 0;
  int64_t input_bytes = 0;
  int64_t progress_bytes = 0;
};

struct Bounds {
  // Of row groups that are made.
  int64_t bytes_max = 0;
  int64_t rows_max = 0;
  bool filled = false;
  // Of those that are moved: one of the two, and both.
  bool moves = false;
  int64_t moved_bytes_min = 0;
  int64_t moved_rows_min = 0;
  int64_t moved_bytes_max = 0;
  int64_t moved_rows_max = 0;
};

// What can be moved of input row groups, by their footers.
class MovableColumns {
 public:
  static Result<MovableColumns> Make(const OpenedGroup& group, const OutputShape& shape) {
    LITHIFY_TRY_ASSIGN(const auto codec, CodecOf(shape.codec));
    MovableColumns movable;
    for (size_t leaf = 0; leaf < group.leaves.size(); ++leaf) {
      movable.columns_.push_back(FooterOptions(group, shape, codec, leaf));
    }
    return movable;
  }

  // Bytes of a row group's columns that cannot.
  int64_t BytesLeft(const InputSource& in, const GroupPlace& place) const {
    constexpr int64_t kInheritedBytes = 8;
    int64_t bytes = 0;
    for (const ColumnSpliceOptions& options : columns_) {
      const LeafSource& source = in.leaves[static_cast<size_t>(options.leaf)];
      if (source.inherited) bytes += kInheritedBytes * in.footer->row_group(place.group).num_rows;
      if (source.input_leaf < 0 || MayBeMoved(in, place, options)) continue;
      const int64_t own = in.footer->Chunk(place.group, source.input_leaf).total_uncompressed_size;
      bytes += std::clamp<int64_t>(own, 0, 1024 * kGiB);
    }
    return bytes;
  }

 private:
  std::vector<ColumnSpliceOptions> columns_;
};

class Planner {
 public:
  Planner(const Bounds& bounds, const MovableColumns& movable)
      : bytes_max_(bounds.bytes_max),
        rows_max_(bounds.rows_max),
        bounds_(bounds),
        movable_(movable) {}

  Status Add(const InputSource& in, size_t input, int group, int64_t first_row) {
    const StoredRowGroup& chunks = in.footer->row_group(group);
    const int64_t rows_in = chunks.num_rows;
    Load load;
    load.rows = rows_in - DeletedRows(in, first_row, rows_in);
    load.bytes = ShareOf(chunks.total_byte_size, load.rows, rows_in);
    load.input_bytes = ShareOf(chunks.total_compressed_size, load.rows, rows_in);
    load.progress_bytes = std::max<int64_t>(0, chunks.total_compressed_size);
    if (load.rows == 0) {
      open_.progress_bytes += load.progress_bytes;
      return {};
    }
    const GroupPlace place{input, group, first_row};
    const bool moved = load.rows == rows_in && IsMoved(load, in, place);
    if (moved || StaysWhole(load, in, place)) {
      Close();
      Put(load);
      open_.places.push_back(place);
      open_.moved = moved;
      Close();
      return {};
    }
    bool whole = true;
    if (bounds_.filled && open_.rows > 0 && !Small(load.rows, load.bytes)) whole = !FillUp(load);
    if (!Fits(load)) Close();
    if (load.rows <= rows_max_ && load.bytes <= bytes_max_) {
      Put(load);
      open_.whole = open_.whole && whole;
      if (whole) open_.places.push_back(place);
      return {};
    }
    return Cut(load, in.key, rows_in);
  }

  std::vector<RowGroupPlan> Take() {
    Close();
    return std::move(plan_);
  }

 private:
  bool Small(int64_t rows, int64_t bytes) const {
    return rows <= rows_max_ / 8 && bytes <= bytes_max_ / 8;
  }

  // Together with what is open.
  bool Fits(const Load& load) const {
    return load.rows <= rows_max_ - open_.rows && load.bytes <= bytes_max_ - open_.bytes;
  }

  bool IsMoved(const Load& load, const InputSource& in, const GroupPlace& place) const {
    const bool large = load.bytes >= bounds_.moved_bytes_min || load.rows >= bounds_.moved_rows_min;
    if (!bounds_.moves || !large || load.bytes > bounds_.moved_bytes_max ||
        load.rows > bounds_.moved_rows_max) {
      return false;
    }
    if (open_.rows > 0 && Small(open_.rows, open_.bytes) && Fits(load)) return false;
    return movable_.BytesLeft(in, place) <= load.bytes / 2;
  }

  // What has more rows than a row group that is made, but no more than one that is moved, would
  // have to be decoded to be cut; with its deleted rows left out, most of its pages can be moved.
  bool StaysWhole(const Load& load, const InputSource& in, const GroupPlace& place) const {
    return bounds_.moves && load.rows > rows_max_ && load.rows <= bounds_.moved_rows_max &&
           load.bytes <= bytes_max_ && movable_.BytesLeft(in, place) <= load.bytes / 2;
  }

  void Put(const Load& load) {
    open_.rows += load.rows;
    open_.bytes += load.bytes;
    open_.input_bytes += load.input_bytes;
    open_.progress_bytes += load.progress_bytes;
  }

  void Close() {
    if (open_.rows > 0) plan_.push_back(std::exchange(open_, {}));
  }

  // As many of the rows as there is room for go to the open row group; true if some do.
  bool FillUp(Load& load) {
    const int64_t room = std::min({load.rows - 1, rows_max_ - open_.rows,
                                   ShareOf(load.rows, bytes_max_ - open_.bytes, load.bytes)});
    if (room <= 0 || Fits(load)) return false;
    const Load part{room, ShareOf(load.bytes, room, load.rows),
                    ShareOf(load.input_bytes, room, load.rows),
                    ShareOf(load.progress_bytes, room, load.rows)};
    Put(part);
    open_.whole = false;
    load.rows -= part.rows;
    load.bytes -= part.bytes;
    load.input_bytes -= part.input_bytes;
    load.progress_bytes -= part.progress_bytes;
    return true;
  }

  Status Cut(const Load& load, const std::string& key, int64_t rows_in) {
    constexpr int64_t kRowGroupsMax = 100'000;
    const int64_t pieces = std::min(
        load.rows, std::max((load.rows - 1) / rows_max_, (load.bytes - 1) / bytes_max_) + 1);
    if (pieces > kRowGroupsMax - std::ssize(plan_)) {
      return Fail(Code::kLimit, "more than 100,000 row groups would be written", key,
                  "the file claims " + std::to_string(rows_in) + " rows; check it");
    }
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t piece = load.rows / pieces + (i < load.rows % pieces ? 1 : 0);
      plan_.push_back(RowGroupPlan{piece,
                                   load.bytes / pieces,
                                   load.input_bytes / pieces,
                                   load.progress_bytes / pieces,
                                   {},
                                   false});
    }
    return {};
  }

  const int64_t bytes_max_;
  const int64_t rows_max_;
  const Bounds bounds_;
  const MovableColumns& movable_;
  std::vector<RowGroupPlan> plan_;
  RowGroupPlan open_;
};

// Uncompressed, of the rows that survive.
int64_t UncompressedBytes(const OpenedGroup& group) {
  int64_t total = 0;
  for (const auto& in : group.inputs) {
    int64_t bytes = 0;
    for (int g = 0; g < in->footer->num_row_groups(); ++g) {
      bytes += std::max<int64_t>(0, in->footer->row_group(g).total_byte_size);
    }
    const int64_t rows = in->footer->num_rows();
    total += ShareOf(bytes, rows - DeletedRows(*in, 0, rows), rows);
  }
  return total;
}

Bounds BoundsOf(const OpenedGroup& group, const GroupRequest& request) {
  const auto times = [](int64_t n, int64_t factor) {
    return std::min(n, std::numeric_limits<int64_t>::max() / factor) * factor;
  };
  const OutputShape& shape = request.shape;
  const int outputs = std::max(1, shape.outputs);
  const int64_t total = UncompressedBytes(group);
  // Files are cut between row groups, so each of several planned files needs some (H7): with four
  // of them, none is off its share by more than an eighth (I27).
  const int64_t quarter = std::max<int64_t>(1, total / (int64_t{4} * outputs));
  Bounds bounds;
  bounds.filled = outputs > 1 && request.table != nullptr;
  bounds.rows_max = shape.row_group_rows;
  bounds.bytes_max = std::min(shape.row_group_bytes,
                              bounds.filled ? quarter : std::max<int64_t>(1, total / outputs));
  // A second attempt with less memory has lower bounds, here too.
  bounds.moves = shape.splice;
  bounds.moved_bytes_min = shape.row_group_bytes / 2 + 1;
  bounds.moved_rows_min = shape.row_group_rows / 2 + 1;
  bounds.moved_rows_max = times(shape.row_group_rows, 4);
  bounds.moved_bytes_max = times(shape.row_group_bytes, 2);
  if (outputs > 1) bounds.moved_bytes_max = std::min(bounds.moved_bytes_max, quarter);
  if (shape.file_size_bytes_max > 0) {
    bounds.moved_bytes_max = std::min(bounds.moved_bytes_max, shape.file_size_bytes_max / 4);
  }
  bounds.moved_bytes_max = std::max(bounds.moved_bytes_max, bounds.bytes_max);
  return bounds;
}

}  // namespace

int64_t ShareOf(int64_t bytes, int64_t rows, int64_t rows_in) {
  bytes = std::max<int64_t>(0, bytes);
  if (rows == rows_in) return bytes;
  return static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(rows) /
                              static_cast<double>(rows_in));
}

int64_t DeletedRows(const InputSource& in, int64_t first, int64_t rows) {
  if (in.deleted == nullptr) return 0;
  return in.deleted->CountBelow(first + rows) - in.deleted->CountBelow(first);
}

ColumnSpliceOptions FooterOptions(const OpenedGroup& group, const OutputShape& shape,
                                  arrow::Compression::type codec, size_t leaf) {
  ColumnSpliceOptions options;
  options.leaf = static_cast<int>(leaf);
  options.output = group.leaves[leaf];
  options.codec = codec;
  options.plain_only =
      std::ranges::find(shape.plain_columns, options.output.path) != shape.plain_columns.end();
  return options;
}

Result<std::vector<RowGroupPlan>> PlanRowGroups(const OpenedGroup& group,
                                                const GroupRequest& request) {
  LITHIFY_TRY_ASSIGN(const MovableColumns movable, MovableColumns::Make(group, request.shape));
  Planner planner(BoundsOf(group, request), movable);
  for (size_t input = 0; input < group.inputs.size(); ++input) {
    const InputSource& in = *group.inputs[input];
    int64_t first_row = 0;
    for (int g = 0; g < in.footer->num_row_groups(); ++g) {
      LITHIFY_TRY(planner.Add(in, input, g, first_row));
      first_row += in.footer->row_group(g).num_rows;
    }
  }
  return planner.Take();
}

}  // namespace lithify::rewrite
