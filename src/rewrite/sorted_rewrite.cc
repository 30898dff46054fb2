#include "rewrite/sorted_rewrite.h"

#include <arrow/buffer.h>
#include <parquet/exception.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>

#include "base/parallel.h"
#include "base/text.h"
#include "rewrite/column_copy.h"
#include "rewrite/column_encoder.h"
#include "rewrite/held_column.h"
#include "rewrite/output_file.h"
#include "rewrite/row_check.h"
#include "rewrite/row_group_plan.h"
#include "rewrite/row_hash.h"
#include "rewrite/row_keys.h"
#include "rewrite/scattered_column.h"
#include "rewrite/spilling_column.h"
#include "rewrite/tier_plan.h"
#include "rewrite/writer_properties.h"
#include "sort/spill.h"

namespace lithify::rewrite {
namespace {

constexpr int64_t kCopyBytes = 1 << 20;  // Of a chunk, on its way to the file.

Status CheckPermutation(const std::vector<uint32_t>& rows, int64_t count) {
  if (std::ssize(rows) != count) {
    return Fail(Code::kCorrupt, "row accounting failed: of " + std::to_string(count) + " rows " +
                                    std::to_string(rows.size()) + " got a rank");
  }
  std::vector<bool> seen(rows.size());
  for (const uint32_t row : rows) {
    if (row >= rows.size() || seen[row]) {
      return Fail(Code::kInternal, "a row got two ranks, or one that is none");
    }
    seen[row] = true;
  }
  return {};
}

// A column chunk of an output that is encoded, and waits for its file.
struct WaitingChunk {
  std::unique_ptr<RawColumn> column;
  std::shared_ptr<arrow::Buffer> bytes;  // Null: they are on the disk.
  const sort::SpillFile* file = nullptr;
  int64_t offset = 0;
  int64_t size = 0;
};

class SortedRewriter {
 public:
  SortedRewriter(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                 BoundedPool& pool, const CancelFlag& cancel)
      : store_(store), group_(group), request_(request), reading_(pool), cancel_(cancel) {}

  Result<RecodeResult> Run() {
    schema_.Init(ToParquet(*group_.output_schema));
    for (const auto& in : group_.inputs) {
      const int64_t rows = in->footer->num_rows();
      result_.report.rows_per_input.push_back(rows);
      result_.report.bytes_in += in->size;
      rows_ += rows - (in->deleted == nullptr ? 0 : in->deleted->size());
    }
    LITHIFY_TRY(PlanMemory());
    if (!request_.ordering->spill_directory.empty()) {
      LITHIFY_TRY_ASSIGN(spill_, sort::SpillDirectory::Open(request_.ordering->spill_directory,
                                                            request_.ordering->spill_bytes_max));
    }
    LITHIFY_TRY_ASSIGN(sorted_, Order());
    if (sorted_.in_order) return InOrder();
    LITHIFY_TRY(CheckPermutation(sorted_.rows, rows_));
    auto done = GuardParquet(request_.partition, [&] { return Rewrite(); });
    if (pool_->exhausted()) reading_.MarkExhausted();
    return done;
  }

 private:
  bool digested() const { return request_.verify != Verify::kCounts; }

  // -------------------------------------------------------------------------------------- memory

  // What each row takes until the end: its place in the order and its hash, a bit or two, and its
  // rank, for columns that are scattered.
  Status PlanMemory() {
    constexpr int64_t kBytesPerRow = 2 * sizeof(uint32_t) + sizeof(uint64_t) + 1;
    const int64_t ranks = rows_ * kBytesPerRow;
    const int64_t all = reading_.bytes_max();
    // Pages of inputs, on their way.
    const int64_t reading = all / 8;
    memory_ = all - reading - ranks;
    if (memory_ < all / 8) {
      return Fail(Code::kLimit,
                  "to sort " + std::to_string(rows_) + " rows takes " + FormatBytes(ranks) +
                      " besides their values, which is more than the memory bound allows",
                  request_.partition, "raise --memory, or lower max_file_group_size_bytes");
    }
    pool_.emplace(memory_);
    wait_bytes_ = memory_ / 4;
    return {};
  }

  Result<sort::SortedRows> Order() {
    sort::RowSorterOptions options;
    options.memory_bytes = memory_ / 2;
    options.threads = request_.threads;
    options.spill = spill_.get();
    options.cancel = &cancel_;
    return OrderRows(group_, request_, options, reading_, cancel_);
  }

  // About what a column takes that is held as a whole. A damaged footer may claim any number: no
  // sum of these overflows.
  int64_t HeldBytes(size_t leaf) const {
    int64_t bytes = 0;
    for (const auto& in : group_.inputs) {
      const LeafSource& source = in->leaves[leaf];
      if (source.levels_only || source.input_leaf < 0) continue;
      for (int g = 0; g < in->footer->num_row_groups(); ++g) {
        bytes += std::clamp<int64_t>(
            in->footer->Chunk(g, source.input_leaf).total_uncompressed_size, 0, 1024 * kGiB);
      }
    }
    // What a dictionary shortens still takes a number per row.
    bytes = std::max<int64_t>(bytes, rows_ * static_cast<int64_t>(sizeof(uint32_t)));
    return bytes + rows_ * HeldRowBytes(*Descriptor(leaf)) + kMiB;
  }

  // ------------------------------------------------------------------------------------- columns

  // Nothing is to be brought into order: pages may go as they are.
  Result<RecodeResult> InOrder() {
    GroupRequest plain = request_;
    plain.ordering = nullptr;
    sorted_ = {};
    pool_.reset();
    LITHIFY_TRY_ASSIGN(auto done, Recode(store_, group_, plain, reading_, cancel_));
    done.report.came_in_order = true;
    return done;
  }

  Result<RecodeResult> Rewrite() {
    static const RowRule kNoRule;
    LITHIFY_TRY_ASSIGN(checker_, RowChecker::Make(request_.table ? kNoRule : request_.rows,
                                                  *group_.output_schema));
    LITHIFY_TRY_ASSIGN(properties_, MakeProperties(group_, request_.shape, *pool_));
    result_.report.notes = group_.notes;
    metadata_ = OutputMetadata(group_, request_, &result_.report.notes);
    for (size_t leaf = 0; leaf < group_.leaves.size(); ++leaf) {
      held_bytes_.push_back(HeldBytes(leaf));
    }
    cuts_ = CutRanks(sorted_.key_begins, RowGroupRowsMax(), std::max(1, request_.shape.outputs));
    sorted_.key_begins = {};
    rows_read_.emplace(rows_, checker_->time_columns(), digested());
    chunks_.resize(group_.leaves.size());
    digests_.resize(group_.leaves.size());
    LITHIFY_TRY(WriteColumns());
    LITHIFY_TRY(
        checker_->CheckTimes(rows_read_->times(), [&](int64_t row) { return PlaceOf(row); }));
    LITHIFY_TRY(PutTogether());
    return Account();
  }

  int64_t RowGroupRowsMax() const {
    int64_t bytes = 0;
    for (const int64_t held : held_bytes_) bytes += held - kMiB;
    const int64_t row_bytes = std::max<int64_t>(1, bytes / std::max<int64_t>(1, rows_));
    return std::clamp<int64_t>(request_.shape.row_group_bytes / row_bytes, 1,
                               request_.shape.row_group_rows);
  }

  const parquet::ColumnDescriptor* Descriptor(size_t leaf) const {
    return schema_.Column(static_cast<int>(leaf));
  }

  // Columns that fit side by side go side by side; each of the others gets all threads and all
  // memory, one after the other.
  Status WriteColumns() {
    const std::vector<int64_t>& bytes = held_bytes_;
    const int64_t room = memory_ - wait_bytes_;
    const auto threads = static_cast<int64_t>(std::max(1, request_.threads));
    std::vector<size_t> order(bytes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t leaf) { return bytes[leaf]; });
    const auto fits = [&](size_t leaf) { return bytes[leaf] <= room / threads; };
    const auto first_fitting = std::ranges::find_if(order, fits);
    const auto total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
    const auto write = [&](size_t leaf, int64_t memory, int inner) -> Status {
      LITHIFY_TRY(cancel_.Check());
      LITHIFY_TRY(WriteColumn(leaf, bytes[leaf], memory, inner));
      ReportProgress(bytes[leaf], total);
      return {};
    };
    // One column with most of the bytes would keep the other threads waiting in the end.
    for (auto leaf = order.begin(); leaf != first_fitting; ++leaf) {
      LITHIFY_TRY(write(*leaf, room, request_.threads));
    }
    const std::span<const size_t> rest(first_fitting, order.end());
    if (std::ssize(rest) < threads) {
      for (const size_t leaf : rest) LITHIFY_TRY(write(leaf, room, request_.threads));
      return {};
    }
    return TryForEach(rest.size(), request_.threads,
                      [&](size_t i) { return write(rest[i], room / threads, 1); });
  }

  // With `threads` and so much memory; it is expected to take `bytes`.
  Status WriteColumn(size_t leaf, int64_t bytes, int64_t room, int threads) {
    chunks_[leaf].resize(cuts_.size());
    return GuardParquet("column " + group_.leaves[leaf].path, [&]() -> Status {
      std::unique_ptr<sort::SpillFile> file;
      std::vector<size_t> parts;  // Of the row groups, the first of each.
      SpillingColumnOptions options;
      options.column = Descriptor(leaf);
      options.rows = rows_;
      options.held_bytes_max = bytes <= room ? room : 0;
      options.pool = pool_->hard();
      if (spill_ != nullptr) {
        options.scatter = [&](int64_t found) {
          parts = Parts(std::max(bytes, found), room / 2);
          return Scatter(leaf, parts, room / 4, file);
        };
      }
      const auto column = MakeSpillingColumn(options);
      LITHIFY_TRY(Collect(leaf, column->collector()));
      if (column->held() == nullptr) {
        return WriteScattered(leaf, *column->scattered(), parts, threads);
      }
      LITHIFY_CHECK(column->held()->rows() == rows_, "a column that holds other rows than it got");
      return TryForEach(cuts_.size(), threads, [&](size_t g) {
        const auto [begin, end] = cuts_[g];
        return WriteChunk(
            leaf, g, *column->held(),
            std::span(sorted_.rows)
                .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      });
    });
  }

  // Reads all rows of a column into `collector`.
  Status Collect(size_t leaf, ColumnEncoder& collector) {
    ColumnCopyOptions options;
    options.leaf = static_cast<int>(leaf);
    options.output = group_.leaves[leaf];
    options.rule = checker_->For(options.leaf);
    options.pool = &reading_;
    const auto copy = MakeColumnCopy(group_.inputs, options);
    const auto read = [&]() -> Status {
      LITHIFY_TRY_ASSIGN(digests_[leaf], copy->Copy(rows_, &collector, *rows_read_));
      return copy->Finish();
    };
    auto done = read();
    if (!done) return Fail(std::move(done.error()).In(copy->current_input()));
    if (copy->rows_dropped() != RowsIn() - rows_) {
      return Fail(Code::kCorrupt, "row accounting failed: " + std::to_string(copy->rows_dropped()) +
                                      " rows were left out instead of " +
                                      std::to_string(RowsIn() - rows_));
    }
    collector.Finish();
    return {};
  }

  // Row groups in parts that fit the memory one at a time.
  std::vector<size_t> Parts(int64_t bytes, int64_t part_bytes) const {
    const int64_t count =
        std::clamp<int64_t>(bytes / std::max(kMiB, part_bytes) + 1, 1, std::ssize(cuts_));
    std::vector<size_t> parts;
    for (int64_t part = 0; part < count; ++part) {
      parts.push_back(static_cast<size_t>(part * std::ssize(cuts_) / count));
    }
    return parts;
  }

  std::unique_ptr<ScatteredColumn> Scatter(size_t leaf, const std::vector<size_t>& parts,
                                           int64_t buffer_bytes,
                                           std::unique_ptr<sort::SpillFile>& file) {
    std::vector<int64_t> bounds;
    for (const size_t part : parts) bounds.push_back(cuts_[part].first);
    bounds.push_back(rows_);
    auto created = spill_->Create();
    if (!created) throw parquet::ParquetStatusException(ToArrow(created.error()));
    file = std::move(*created);
    return ScatterColumn(Descriptor(leaf), Ranks(), bounds, *file, pool_->hard(), buffer_bytes);
  }

  Status WriteScattered(size_t leaf, ScatteredColumn& column, const std::vector<size_t>& parts,
                        int threads) {
    for (size_t part = 0; part < parts.size(); ++part) {
      LITHIFY_TRY(cancel_.Check());
      const size_t first = parts[part];
      const size_t last = part + 1 < parts.size() ? parts[part + 1] : cuts_.size();
      LITHIFY_TRY_ASSIGN(const auto held, column.Take(part));
      LITHIFY_TRY(TryForEach(last - first, threads, [&](size_t i) {
        const auto [begin, end] = cuts_[first + i];
        const int64_t base = cuts_[first].first;
        return WriteChunk(leaf, first + i, *held.column,
                          std::span(held.rows).subspan(static_cast<size_t>(begin - base),
                                                       static_cast<size_t>(end - begin)));
      }));
    }
    return {};
  }

  // By row, what sorted_.rows has by rank. Made for the first column that needs it.
  std::span<const uint32_t> Ranks() {
    std::lock_guard lock(mutex_);
    if (ranks_.empty()) {
      ranks_.resize(sorted_.rows.size());
      for (size_t rank = 0; rank < sorted_.rows.size(); ++rank) {
        ranks_[sorted_.rows[rank]] = static_cast<uint32_t>(rank);
      }
    }
    return ranks_;
  }

  Status WriteChunk(size_t leaf, size_t row_group, const HeldColumn& held,
                    std::span<const uint32_t> rows) {
    LITHIFY_TRY(cancel_.Check());
    return GuardParquet("column " + group_.leaves[leaf].path, [&]() -> Status {
      WaitingChunk& chunk = chunks_[leaf][row_group];
      chunk.column = MakeWaitingColumn(schema_, static_cast<int>(leaf), *properties_);
      auto options = EncoderOptions(*properties_, Descriptor(leaf));
      options.row_bytes_max = std::max({memory_ / 4, 2 * request_.shape.page_bytes, 2 * kMiB});
      LITHIFY_TRY_ASSIGN(const auto encoder, MakeColumnEncoder(options, *chunk.column, nullptr));
      held.Encode(rows, *encoder);
      encoder->Finish();
      chunk.bytes = chunk.column->TakeBytes();
      chunk.size = chunk.bytes->size();
      LITHIFY_TRY(pool_->Check());
      return Wait(chunk);
    });
  }

  // Leaves the chunk's bytes in memory, or puts them on the disk.
  Status Wait(WaitingChunk& chunk) {
    if (waiting_.fetch_add(chunk.size) + chunk.size <= wait_bytes_) {
      // It grew in steps, and has room that nothing is going to use.
      if (auto* grown = dynamic_cast<arrow::ResizableBuffer*>(chunk.bytes.get())) {
        PARQUET_THROW_NOT_OK(grown->Resize(chunk.size, true));
      }
      return {};
    }
    waiting_.fetch_sub(chunk.size);
    if (spill_ == nullptr) {
      return Fail(Code::kLimit,
                  "the encoded columns take more than " + FormatBytes(wait_bytes_) +
                      ", and there is no directory to spill to",
                  request_.partition, "raise --memory, or set a spill directory");
    }
    std::lock_guard lock(mutex_);
    if (chunks_file_ == nullptr) {
      LITHIFY_TRY_ASSIGN(chunks_file_, spill_->Create());
    }
    LITHIFY_TRY_ASSIGN(chunk.offset, chunks_file_->Append(std::span(
                                         chunk.bytes->data(), static_cast<size_t>(chunk.size))));
    chunk.file = chunks_file_.get();
    chunk.bytes.reset();
    return {};
  }

  void ReportProgress(int64_t bytes, int64_t total) {
    if (!request_.on_progress) return;
    std::lock_guard lock(mutex_);
    bytes_done_ += bytes;
    const auto done = static_cast<int64_t>(static_cast<double>(result_.report.bytes_in) *
                                           static_cast<double>(bytes_done_) /
                                           static_cast<double>(std::max<int64_t>(1, total)));
    request_.on_progress(done - std::exchange(progress_, done));
  }

  // --------------------------------------------------------------------------------------- files

  Status PutTogether() {
    std::vector<int64_t> bytes(cuts_.size(), 0);
    for (const auto& column : chunks_) {
      for (size_t g = 0; g < column.size(); ++g) bytes[g] += column[g].size;
    }
    const OutputShape& shape = request_.shape;
    int64_t files = std::max(1, shape.outputs);
    if (shape.file_size_bytes_target > 0) {
      const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
      files = std::clamp<int64_t>(
          (total + shape.file_size_bytes_target - 1) / shape.file_size_bytes_target, 1, files);
    }
    size_t row_group = 0;
    for (const size_t count :
         ShareRowGroups(bytes, static_cast<int>(files), shape.file_size_bytes_max)) {
      LITHIFY_TRY(WriteFile(row_group, row_group + count));
      row_group += count;
    }
    return {};
  }

  Status WriteFile(size_t first, size_t last) {
    // All outputs are published together in the end: only one of them may hold memory until then.
    if (!result_.writers.empty()) LITHIFY_TRY(result_.writers.back()->Flush());
    const std::string name = request_.new_name();
    LITHIFY_TRY_ASSIGN(auto writer, store_.Create(request_.partition + name));
    OutputFileWriter output(name, std::move(writer), group_, properties_, metadata_, cancel_);
    for (size_t g = first; g < last; ++g) {
      LITHIFY_TRY(cancel_.Check());
      output.file().StartRowGroup();
      for (auto& column : chunks_) {
        AddChunk(output.file(), column[g]);
      }
      const auto [begin, end] = cuts_[g];
      output.file().EndRowGroup(end - begin);
      AddDigest(output, begin, end);
    }
    LITHIFY_TRY(output.Close(MarkOf(group_, request_), request_.table.get()));
    result_.report.outputs.push_back(output.Describe());
    result_.writers.push_back(output.TakeWriter());
    return {};
  }

  void AddChunk(FileWriter& file, WaitingChunk& chunk) {
    file.AddColumn(*chunk.column, [&](arrow::io::OutputStream& sink) {
      if (chunk.bytes != nullptr) {
        PARQUET_THROW_NOT_OK(sink.Write(chunk.bytes));
        return;
      }
      copy_.resize(static_cast<size_t>(std::min(kCopyBytes, chunk.size)));
      for (int64_t at = 0; at < chunk.size; at += kCopyBytes) {
        const auto some =
            std::span(copy_).first(static_cast<size_t>(std::min(kCopyBytes, chunk.size - at)));
        if (auto read = chunk.file->Read(chunk.offset + at, some); !read) {
          throw parquet::ParquetStatusException(ToArrow(read.error()));
        }
        PARQUET_THROW_NOT_OK(sink.Write(some.data(), std::ssize(some)));
      }
    });
    chunk = {};
  }

  // What reading a row group back must give: the rows that belong there by their ranks, whole, and
  // in that order.
  void AddDigest(OutputFileWriter& output, int64_t begin, int64_t end) {
    ContentDigest digest;
    digest.rows = end - begin;
    output.AddRowGroup(digest, false);
    if (!digested()) return;
    RowGroupRows rows(end - begin, 0, true);
    std::vector<uint64_t> hashes(static_cast<size_t>(end - begin));
    for (size_t i = 0; i < hashes.size(); ++i) {
      hashes[i] = rows_read_->hash(sorted_.rows[static_cast<size_t>(begin) + i]);
    }
    rows.AddHashes(0, hashes.data(), hashes.size());
    digest.row = rows.RowDigest();
    RowGroupDigest& expected = result_.row_groups.emplace_back();
    expected.output = static_cast<int>(result_.report.outputs.size());
    expected.row_group = output.row_groups() - 1;
    expected.digest = std::move(digest);
    expected.places = rows.PlaceSum();
    expected.rows_only = true;
  }

  // ---------------------------------------------------------------------------------- accounting

  int64_t RowsIn() const {
    const auto& rows = result_.report.rows_per_input;
    return std::accumulate(rows.begin(), rows.end(), int64_t{0});
  }

  // The input file that row number `row` comes from, and its number among those of the file.
  std::pair<std::string, int64_t> PlaceOf(int64_t row) const {
    for (const auto& in : group_.inputs) {
      const int64_t rows =
          in->footer->num_rows() - (in->deleted == nullptr ? 0 : in->deleted->size());
      if (row < rows) return {in->key, row};
      row -= rows;
    }
    return {request_.partition, row};
  }

  Result<RecodeResult> Account() {
    GroupReport& report = result_.report;
    // Every column was read to its end, and each left out as many rows as are deleted (Collect()).
    report.rows_in = RowsIn();
    report.rows_deleted = report.rows_in - rows_;
    for (const OutputFile& output : report.outputs) {
      report.rows_out += output.rows;
      report.bytes_out += output.size;
    }
    report.digest_in.rows = rows_;
    report.digest_complete = digested();
    if (digested()) {
      report.digest_in.row = rows_read_->RowDigest();
      for (size_t leaf = 0; leaf < digests_.size(); ++leaf) {
        report.digest_in.columns[group_.leaves[leaf].path].Add(digests_[leaf]);
      }
    }
    int64_t chunks = 0;
    for (const auto& in : group_.inputs) {
      int64_t first = 0;
      for (int g = 0; g < in->footer->num_row_groups(); ++g) {
        const int64_t rows = in->footer->row_group(g).num_rows;
        if (rows > DeletedRows(*in, first, rows)) chunks += std::ssize(group_.leaves);
        first += rows;
      }
    }
    report.tiers["recode"] = chunks;
    report.recoded[WhyRecoded(request_, false)] = chunks;
    if (spill_ != nullptr) report.spilled_bytes = spill_->bytes_most();
    LITHIFY_TRY(CheckAccounts(group_, request_, report));
    return std::move(result_);
  }

  storage::Store& store_;
  OpenedGroup& group_;
  const GroupRequest& request_;
  BoundedPool& reading_;
  const CancelFlag& cancel_;
  int64_t rows_ = 0;        // That are not deleted.
  int64_t memory_ = 0;      // Of keys, then of columns.
  int64_t wait_bytes_ = 0;  // Of that, for encoded chunks.
  std::optional<BoundedPool> pool_;
  std::shared_ptr<sort::SpillDirectory> spill_;  // Null: there is none.
  sort::SortedRows sorted_;
  std::vector<uint32_t> ranks_;
  std::optional<RowChecker> checker_;
  std::shared_ptr<parquet::WriterProperties> properties_;
  std::map<std::string, std::string> metadata_;
  std::vector<int64_t> held_bytes_;  // By leaf.
  parquet::SchemaDescriptor schema_;
  std::vector<std::pair<int64_t, int64_t>> cuts_;  // Ranks of each row group.
  std::optional<RowGroupRows> rows_read_;          // In the inputs' order.
  std::vector<Digest128> digests_;                 // By leaf.
  std::mutex mutex_;
  std::unique_ptr<sort::SpillFile> chunks_file_;
  std::vector<std::vector<WaitingChunk>> chunks_;  // By leaf and row group.
  std::atomic<int64_t> waiting_{0};                // Bytes of chunks in memory.
  std::vector<uint8_t> copy_;
  int64_t bytes_done_ = 0;
  int64_t progress_ = 0;
  RecodeResult result_;
};

}  // namespace

std::vector<std::pair<int64_t, int64_t>> CutRanks(const sort::RowBits& key_begins, int64_t rows_max,
                                                  int outputs) {
  const auto rows = static_cast<int64_t>(key_begins.size());
  std::vector<std::pair<int64_t, int64_t>> cuts;
  if (rows == 0) return cuts;
  const int64_t files = std::clamp<int64_t>(outputs, 1, rows);
  const int64_t per_file = (rows + files - 1) / files;
  const int64_t count =
      std::min(rows, files * std::max<int64_t>(1, (per_file + rows_max - 1) / rows_max));
  // How far an end may move to where a key ends.
  const int64_t near = rows / count / 8;
  int64_t begin = 0;
  for (int64_t i = 1; i <= count && begin < rows; ++i) {
    int64_t end = i == count ? rows : std::max(begin + 1, i * rows / count);
    if (end < rows) {
      for (int64_t away = 0; away <= near; ++away) {
        const auto ends_at = [&](int64_t rank) {
          return rank > begin && rank < rows && key_begins[static_cast<size_t>(rank)];
        };
        if (ends_at(end - away)) {
          end -= away;
          break;
        }
        if (ends_at(end + away)) {
          end += away;
          break;
        }
      }
    }
    cuts.emplace_back(begin, end);
    begin = end;
  }
  return cuts;
}

std::vector<size_t> ShareRowGroups(std::span<const int64_t> bytes, int files, int64_t bytes_max) {
  std::vector<size_t> counts;
  const auto total = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  double written = 0;
  int64_t file_bytes = 0;
  size_t count = 0;
  for (const int64_t some : bytes) {
    bool ends = count > 0 && bytes_max > 0 && file_bytes + some > bytes_max;
    if (count > 0 && std::ssize(counts) + 1 < files) {
      // Where the next row group would pass the share by more than it falls short now, end here.
      const double share = total * static_cast<double>(counts.size() + 1) / files;
      ends = ends || written + static_cast<double>(some) - share > share - written;
    }
    if (ends) {
      counts.push_back(count);
      count = 0;
      file_bytes = 0;
    }
    ++count;
    file_bytes += some;
    written += static_cast<double>(some);
  }
  if (count > 0) counts.push_back(count);
  return counts;
}

Result<RecodeResult> RewriteSorted(storage::Store& store, OpenedGroup& group,
                                   const GroupRequest& request, BoundedPool& pool,
                                   const CancelFlag& cancel) {
  return GuardParquet(request.partition,
                      [&] { return SortedRewriter(store, group, request, pool, cancel).Run(); });
}

}  // namespace lithify::rewrite
