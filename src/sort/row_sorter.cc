#include "sort/row_sorter.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "base/text.h"
#include "sort/key_merge.h"
#include "sort/key_runs.h"
#include "sort/key_sort.h"
#include "sort/key_store.h"

namespace lithify::sort {
namespace {

constexpr uint64_t kRowsMax = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMemoryMin = 64 * kKiB;  // Less is taken as that much.
// Runs that came in order are merged rather than sorted as far as not more of them overlap.
constexpr size_t kOrderedRunsMax = 16;

// Some rows in a row of the store.
struct Segment {
  RowRange rows;
  bool ordered = false;
};

class ExternalSorter final : public RowSorter {
 public:
  explicit ExternalSorter(const RowSorterOptions& options)
      : options_(options),
        memory_(std::max(options.memory_bytes, kMemoryMin)),
        store_(ChunkBits(memory_)),
        ordered_min_(static_cast<uint32_t>(store_.chunk_rows() / 16)) {
    bounds_.bytes = std::clamp(memory_ / 32, 4 * kKiB, 256 * kKiB);
    bounds_.rows = static_cast<uint32_t>(bounds_.bytes / 16);
  }

  Status Add(KeyRows& keys, bool begins) override {
    return Caught([&] { return AddKeys(keys, begins); });
  }
  Result<SortedRows> Finish() override {
    return Caught([&] { return FinishRows(); });
  }

 private:
  Status AddKeys(KeyRows& keys, bool begins);
  Result<SortedRows> FinishRows();
  static int ChunkBits(int64_t memory) {
    const auto rows = static_cast<uint64_t>(memory / (kSortRowBytes * 16));
    return std::clamp(static_cast<int>(std::bit_width(rows)) - 1, 7, 16);
  }

  size_t SliceRows(const KeyRows& keys, size_t from) const;
  // What the rows that are held will take while they are sorted.
  int64_t Needed() const {
    return static_cast<int64_t>(unordered_) * kSortRowBytes +
           static_cast<int64_t>(store_.size() - unordered_) * int64_t{sizeof(uint64_t)} +
           store_.rest_memory_bytes();
  }
  // That one thread takes to spill, or to read one run.
  int64_t ReaderBytes() const { return bounds_.bytes * 2; }
  int64_t WritersBytes() const { return threads() * ReaderBytes() * 2; }
  int threads() const { return std::max(options_.threads, 1); }

  void Judge(const KeyRows& keys, size_t from, size_t count, bool begins);
  // Worth being a run as it is: it is long, or goes on before or after what is in memory.
  bool IsRun(const Segment& segment) const {
    return segment.ordered && (segment.rows.count >= ordered_min_ ||
                               &segment == &segments_.front() || &segment == &segments_.back());
  }
  void Note(size_t first, size_t count, bool ordered, bool follows);
  Result<std::vector<Run>> MakeRuns();
  Status Spill(std::vector<Run>& runs);
  Status Flush();
  Status MergeSome(std::vector<Run>& runs, size_t most);
  MergeOptions ForMerge(int threads_at_once) const {
    return {&store_, &differ_, threads_at_once, options_.cancel};
  }

  const RowSorterOptions options_;
  const int64_t memory_;
  BlockBounds bounds_;
  KeyStore store_;
  const uint32_t ordered_min_;     // Rows that are worth being a run as they came.
  std::vector<Segment> segments_;  // Of the store.
  size_t unordered_ = 0;           // Rows of them.
  Pages sorted_;                   // Rows of the store, once they are sorted.
  size_t sorted_rows_ = 0;
  RowBits differ_;  // By row, of all: whether its key is another than that of the row before.
  bool in_order_ = true;
  uint64_t last_prefix_ = 0;  // Of the last row.
  std::string last_rest_;
  std::vector<Run> spilled_;
  std::shared_ptr<SpillFile> file_;
  int64_t files_bytes_ = 0;  // In files before that one.
  int64_t runs_ = 0;
  int64_t runs_spilled_ = 0;
};

// As many as fit into a chunk, and whose rests are few bytes.
size_t ExternalSorter::SliceRows(const KeyRows& keys, size_t from) const {
  size_t count = std::min(keys.size() - from, store_.room());
  if (!keys.has_rests()) return count;
  const uint64_t begin = from == 0 ? 0 : keys.ends[from - 1];
  const auto most = static_cast<uint64_t>(memory_ / 16);
  while (count > 1 && keys.ends[from + count - 1] - begin > most) count /= 2;
  return count;
}

Status ExternalSorter::AddKeys(KeyRows& keys, bool begins) {
  for (size_t from = 0; from < keys.size();) {
    if (options_.cancel != nullptr) LITHIFY_TRY(options_.cancel->Check());
    const size_t count = SliceRows(keys, from);
    if (count > kRowsMax - differ_.size()) {
      return Fail(Code::kLimit, "more than 4,294,967,295 rows to sort at a time", {},
                  "sort fewer files at a time");
    }
    Judge(keys, from, count, begins && from == 0);
    LITHIFY_TRY(store_.Append(keys, from, count));
    from += count;
    if (Needed() + WritersBytes() > memory_) LITHIFY_TRY(Flush());
  }
  keys.Clear();
  return {};
}

// Where rows are in order, and which keys begin: before they are in the store.
void ExternalSorter::Judge(const KeyRows& keys, size_t from, size_t count, bool begins) {
  const size_t first = differ_.size();
  differ_.Resize(first + count);
  uint64_t* const words = differ_.words().data();
  uint64_t word = 0;
  std::vector<size_t> descents;
  size_t descents_count = 0;
  const size_t descents_max = count / ordered_min_ + (begins ? 1 : 0);
  uint64_t before = last_prefix_;
  std::string_view rest_before = last_rest_;
  const bool rests = keys.has_rests() || !rest_before.empty();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t prefix = keys.prefixes[from + i];
    bool differs = prefix != before;
    bool descends = prefix < before;
    if (rests) {
      const std::string_view rest = keys.rest(from + i);
      if (!differs) {
        const int order = rest.compare(rest_before);
        differs = order != 0;
        descends = order < 0;
      }
      rest_before = rest;
    }
    before = prefix;
    if (first + i == 0) {
      differs = true;
      descends = false;
    }
    const size_t bit = (first + i) % 64;
    word |= uint64_t{differs} << bit;
    if (bit == 63 || i + 1 == count) words[(first + i) / 64] |= std::exchange(word, 0);
    // Beyond these nobody asks where they are.
    if (descents_count <= descents_max && descends) descents.push_back(i);
    descents_count += descends ? 1 : 0;
  }
  last_prefix_ = before;
  last_rest_ = std::string(rest_before);
  in_order_ = in_order_ && descents_count == 0;
  if (descents_count > descents_max) return Note(first, count, false, false);
  size_t begin = 0;
  // Another input is a run of its own even if it goes on after the one before: others may have to
  // go in between.
  bool follows = !begins || segments_.empty() || segments_.back().rows.count < ordered_min_;
  for (const size_t descent : descents) {
    if (descent > begin) Note(first + begin, descent - begin, true, follows);
    begin = descent;
    follows = false;
  }
  Note(first + begin, count - begin, true, follows);
}

// `follows`: they go on with the rows before, if those are in order.
void ExternalSorter::Note(size_t first, size_t count, bool ordered, bool follows) {
  if (!ordered) unordered_ += count;
  const auto rows = static_cast<uint32_t>(count);
  if (!segments_.empty() && segments_.back().ordered == ordered && (follows || !ordered)) {
    segments_.back().rows.count += rows;
  } else {
    segments_.push_back({{static_cast<uint32_t>(first), rows}, ordered});
  }
}

// Of what is in memory, where it stays.
Result<std::vector<Run>> ExternalSorter::MakeRuns() {
  std::vector<Run> runs;
  for (const Segment& segment : segments_) {
    if (!IsRun(segment)) continue;
    AddStored(store_, segment.rows, bounds_, runs.emplace_back());
  }
  const auto ordered = static_cast<int64_t>(runs.size());
  // They stay apart: what a later one would go in between of is not known yet.
  const bool sort_all = ChainRuns(runs).size() > kOrderedRunsMax;
  if (sort_all) {
    runs.clear();
  } else {
    runs_ += ordered;
  }
  std::vector<RowRange> unordered;
  size_t count = 0;
  for (const Segment& segment : segments_) {
    if (!sort_all && IsRun(segment)) continue;
    count += segment.rows.count;
    if (!unordered.empty() &&
        unordered.back().first + unordered.back().count == segment.rows.first) {
      unordered.back().count += segment.rows.count;
    } else {
      unordered.push_back(segment.rows);
    }
  }
  if (count == 0) return runs;
  LITHIFY_TRY_ASSIGN(sorted_, SortKeys(store_, unordered, threads(), options_.cancel));
  sorted_rows_ = count;
  runs.push_back(MakeSortedRun(store_, sorted_.as<KeyRow>(), count, bounds_));
  ++runs_;
  return runs;
}

Status ExternalSorter::Spill(std::vector<Run>& runs) {
  // Few files, and yet not all in one: space is given back file by file.
  if (file_ == nullptr || file_->size() > files_bytes_ / 16) {
    if (file_ != nullptr) files_bytes_ += file_->size();
    LITHIFY_TRY_ASSIGN(file_, options_.spill->Create());
  }
  for (Run& run : runs) {
    LITHIFY_TRY(SpillRun(store_, file_, threads(), options_.cancel, run));
    spilled_.push_back(std::move(run));
    ++runs_spilled_;
  }
  runs.clear();
  store_.Clear();
  segments_.clear();
  unordered_ = 0;
  sorted_ = Pages();
  sorted_rows_ = 0;
  return {};
}

Status ExternalSorter::Flush() {
  if (options_.spill == nullptr) {
    return Fail(Code::kLimit,
                "the keys of " + FormatCount(static_cast<int64_t>(differ_.size())) +
                    " rows need more than the " + FormatBytes(memory_) + " of memory to sort in",
                {}, "raise the memory, or give a directory to spill to");
  }
  LITHIFY_TRY_ASSIGN(std::vector<Run> runs, MakeRuns());
  return Spill(runs);
}

// Merges runs on the disk until there are at most so many: the smallest first.
Status ExternalSorter::MergeSome(std::vector<Run>& runs, size_t most) {
  while (runs.size() > most) {
    std::ranges::stable_sort(runs, std::greater<>(), &Run::rows);
    const size_t count = std::min(most, runs.size() - most + 1);
    const std::span<const Run> smallest = std::span<const Run>(runs).last(count);
    LITHIFY_TRY_ASSIGN(std::shared_ptr<SpillFile> file, options_.spill->Create());
    RunWriter writer(std::move(file), bounds_);
    LITHIFY_TRY(MergeToRun(smallest, ForMerge(1), writer));
    LITHIFY_TRY_ASSIGN(Run merged, writer.Finish());
    runs.resize(runs.size() - count);
    runs.push_back(std::move(merged));
  }
  return {};
}

Result<SortedRows> ExternalSorter::FinishRows() {
  SortedRows out;
  const size_t rows = differ_.size();
  out.runs_spilled = runs_spilled_;
  if (in_order_) {
    out.rows.resize(rows);
    std::iota(out.rows.begin(), out.rows.end(), 0U);
    out.key_begins = std::move(differ_);
    out.in_order = true;
    out.runs = rows == 0 ? 0 : 1;
    return out;
  }
  LITHIFY_TRY_ASSIGN(std::vector<Run> runs, MakeRuns());
  const auto held = [&] {
    return static_cast<int64_t>(sorted_rows_ * sizeof(KeyRow)) +
           static_cast<int64_t>((store_.size() - sorted_rows_) * sizeof(uint64_t)) +
           store_.rest_memory_bytes();
  };
  const bool any_spilled = !spilled_.empty();
  if (any_spilled) {
    const auto readers = static_cast<int64_t>(spilled_.size() + runs.size());
    if (!runs.empty() && held() + readers * ReaderBytes() > memory_) LITHIFY_TRY(Spill(runs));
    std::ranges::move(spilled_, std::back_inserter(runs));
    spilled_.clear();
    file_.reset();
  }
  runs = ChainRuns(std::move(runs));
  int at_once = threads();
  if (any_spilled) {
    const auto readers = std::max<int64_t>((memory_ - held()) / ReaderBytes(), 2);
    LITHIFY_TRY(MergeSome(runs, static_cast<size_t>(readers)));
    at_once = static_cast<int>(
        std::clamp<int64_t>(readers / static_cast<int64_t>(runs.size()), 1, threads()));
  }
  LITHIFY_TRY(MergeToRows(runs, ForMerge(at_once), out));
  out.runs = runs_;
  out.runs_spilled = runs_spilled_;
  return out;
}

}  // namespace

std::unique_ptr<RowSorter> MakeRowSorter(const RowSorterOptions& options) {
  return std::make_unique<ExternalSorter>(options);
}

}  // namespace lithify::sort
