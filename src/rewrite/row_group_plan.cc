#include "rewrite/row_group_plan.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lithify::rewrite {
namespace {

// What an input row group, or what is left of it, adds to a plan.
struct Load {
  int64_t rows = 0;
  int64_t bytes = 0;
  int64_t input_bytes = 0;
  int64_t progress_bytes = 0;
};

class Planner {
 public:
  Planner(int64_t bytes_max, int64_t rows_max, bool filled)
      : bytes_max_(bytes_max), rows_max_(rows_max), filled_(filled) {}

  Status Add(const InputSource& in, size_t input, int group, int64_t first_row) {
    const auto chunks = in.footer->RowGroup(group);
    const int64_t rows_in = chunks->num_rows();
    Load load;
    load.rows = rows_in - DeletedRows(in, first_row, rows_in);
    load.bytes = ShareOf(chunks->total_byte_size(), load.rows, rows_in);
    load.input_bytes = ShareOf(chunks->total_compressed_size(), load.rows, rows_in);
    load.progress_bytes = std::max<int64_t>(0, chunks->total_compressed_size());
    if (load.rows == 0) {
      open_.progress_bytes += load.progress_bytes;
      return {};
    }
    bool whole = true;
    if (filled_ && open_.rows > 0 && !Small(load)) whole = !FillUp(load);
    if (open_.rows + load.rows > rows_max_ || open_.bytes + load.bytes > bytes_max_) Close();
    if (load.rows <= rows_max_ && load.bytes <= bytes_max_) {
      Put(load);
      open_.whole = open_.whole && whole;
      if (whole) open_.places.push_back(GroupPlace{input, group, first_row});
      return {};
    }
    return Cut(load, in.key, rows_in);
  }

  std::vector<RowGroupPlan> Take() {
    Close();
    return std::move(plan_);
  }

 private:
  bool Small(const Load& load) const {
    return load.rows <= rows_max_ / 8 && load.bytes <= bytes_max_ / 8;
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
    const bool over = open_.rows + load.rows > rows_max_ || open_.bytes + load.bytes > bytes_max_;
    if (room <= 0 || !over) return false;
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
  const bool filled_;
  std::vector<RowGroupPlan> plan_;
  RowGroupPlan open_;
};

// Files are cut between row groups, so each of several planned files needs some (H7): with four
// of them, none is off its share by more than an eighth (I27).
int64_t RowGroupBytes(const OpenedGroup& group, const GroupRequest& request, int outputs) {
  int64_t total = 0;
  for (const auto& in : group.inputs) {
    int64_t bytes = 0;
    for (int g = 0; g < in->footer->num_row_groups(); ++g) {
      bytes += std::max<int64_t>(0, in->footer->RowGroup(g)->total_byte_size());
    }
    const int64_t rows = in->footer->num_rows();
    total += ShareOf(bytes, rows - DeletedRows(*in, 0, rows), rows);
  }
  const int64_t pieces = outputs > 1 && request.table ? int64_t{4} * outputs : outputs;
  return std::min(request.shape.row_group_bytes, std::max<int64_t>(1, total / pieces));
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

Result<std::vector<RowGroupPlan>> PlanRowGroups(const OpenedGroup& group,
                                                const GroupRequest& request) {
  const int outputs = std::max(1, request.shape.outputs);
  Planner planner(RowGroupBytes(group, request, outputs), request.shape.row_group_rows,
                  outputs > 1 && request.table != nullptr);
  for (size_t input = 0; input < group.inputs.size(); ++input) {
    const InputSource& in = *group.inputs[input];
    int64_t first_row = 0;
    for (int g = 0; g < in.footer->num_row_groups(); ++g) {
      LITHIFY_TRY(planner.Add(in, input, g, first_row));
      first_row += in.footer->RowGroup(g)->num_rows();
    }
  }
  return planner.Take();
}

}  // namespace lithify::rewrite
