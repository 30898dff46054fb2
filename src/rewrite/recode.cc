#include "rewrite/recode.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "rewrite/column_encoder.h"
#include "rewrite/column_move.h"
#include "rewrite/column_splice.h"
#include "rewrite/file_writer.h"
#include "rewrite/output_file.h"
#include "rewrite/page_threads.h"
#include "rewrite/read_plan.h"
#include "rewrite/row_check.h"
#include "rewrite/row_group_plan.h"
#include "rewrite/row_hash.h"
#include "rewrite/tier_plan.h"
#include "rewrite/writer_properties.h"

namespace lithify::rewrite {
namespace {

// A column chunk whose values were not read, for the choice of those that are read after all.
struct SplicedChunk {
  int row_group = 0;
  size_t leaf = 0;
  GroupPlace start;  // Where its rows come from, and how many.
  int64_t rows = 0;
  uint64_t fingerprint = 0;  // Of its bytes.
  int64_t bytes = 0;         // Uncompressed.
};

// The columns of one row group on their way.
struct RowGroupWork {
  RowGroupWork(const RowGroupPlan& row_group, size_t columns, size_t time_columns, bool hashed)
      : plan(row_group),
        shared(row_group.rows, time_columns, hashed),
        splices(columns),
        why_recoded(columns),
        decoded(columns, true),
        fingerprints(columns),
        bytes(columns),
        digests(columns) {}
  const RowGroupPlan& plan;
  RowGroupRows shared;
  std::vector<std::unique_ptr<ColumnSplice>> splices;  // Null: recoded.
  std::vector<std::string> why_recoded;                // Of those.
  std::vector<char> decoded;                           // Whether its values are read.
  std::vector<uint64_t> fingerprints;
  std::vector<int64_t> bytes;  // Of those spliced, uncompressed.
  std::vector<Digest128> digests;
};

// One output file being written, and those of its column chunks that were spliced.
struct Output {
  OutputFileWriter file;
  std::vector<SplicedChunk> spliced = {};
};

class Recoder {
 public:
  Recoder(storage::Store& store, OpenedGroup& group, const GroupRequest& request, BoundedPool& pool,
          const CancelFlag& cancel)
      : store_(store), group_(group), request_(request), pool_(pool), cancel_(cancel) {}

  Result<RecodeResult> Run() {
    hold_bytes_ = request_.memory_bytes > 0 ? request_.memory_bytes / 8 : 64 * kMiB;
    // What is read ahead stays in memory as it is.
    if (group_.ahead != nullptr) hold_bytes_ = 0;
    // Rows of a table are where its metadata says, whatever their path.
    static const RowRule kNoRule;
    LITHIFY_TRY_ASSIGN(checker_, RowChecker::Make(request_.table ? kNoRule : request_.rows,
                                                  *group_.output_schema));
    LITHIFY_TRY_ASSIGN(properties_, MakeProperties(group_, request_.shape, pool_));
    result_.report.notes = group_.notes;
    metadata_ = OutputMetadata(group_, request_, &result_.report.notes);
    MakeColumns();
    LITHIFY_TRY(WriteRowGroups());
    LITHIFY_TRY(FinishColumns());
    return Account();
  }

 private:
  bool digested() const { return request_.verify != Verify::kCounts; }

  // Memory that half-read chunks would hold if every column kept its page open.
  int64_t OpenPagesBytes() const {
    constexpr int64_t kPageBytes = 2 * kMiB;
    int64_t most = 0;
    for (const auto& in : group_.inputs) {
      for (int g = 0; g < in->footer->num_row_groups(); ++g) {
        const StoredRowGroup& group = in->footer->row_group(g);
        // A damaged footer may claim any number.
        const int64_t bytes = std::clamp<int64_t>(group.total_byte_size, 0, 1024 * kGiB);
        most = std::max(most, std::min(2 * bytes, group.num_columns * kPageBytes));
      }
    }
    return most;
  }

  void MakeColumns() {
    const bool release = request_.memory_bytes > 0 && OpenPagesBytes() > request_.memory_bytes / 8;
    const std::vector<int64_t> weights = Weights();
    const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
    MakePageThreads(weights, total);
    for (size_t leaf = 0; leaf < group_.leaves.size(); ++leaf) {
      ColumnCopyOptions options;
      options.leaf = static_cast<int>(leaf);
      options.output = group_.leaves[leaf];
      options.rule = checker_->For(options.leaf);
      options.release = release;
      options.pool = &pool_;
      if (IsHeavy(weights[leaf], total)) options.read_ahead = page_threads_.get();
      columns_.push_back(MakeColumnCopy(group_.inputs, options));
    }
    // Wide columns first, so that the threads end together.
    order_.resize(columns_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, std::greater<>(), [&](size_t leaf) { return weights[leaf]; });
  }

  // Uncompressed bytes of each output leaf in one row group of the largest input. A damaged footer
  // may claim any number: no sum of these overflows.
  std::vector<int64_t> Weights() const {
    std::vector<int64_t> weights(group_.leaves.size(), 0);
    const auto in = std::ranges::max_element(group_.inputs, {}, [](const auto& i) {
      return std::pair(i->footer->num_row_groups() > 0, i->size);
    });
    if (in == group_.inputs.end() || (*in)->footer->num_row_groups() == 0) return weights;
    for (size_t leaf = 0; leaf < weights.size(); ++leaf) {
      const LeafSource& source = (*in)->leaves[leaf];
      if (source.levels_only || source.input_leaf < 0) continue;
      const int64_t bytes = (*in)->footer->Chunk(0, source.input_leaf).total_uncompressed_size;
      weights[leaf] = std::clamp<int64_t>(bytes, 0, 1024 * kGiB);
    }
    return weights;
  }

  // Columns that keep pages ahead; never more than a few, however many there are.
  static bool IsHeavy(int64_t weight, int64_t total) { return weight > total / 8; }

  // Where one column has most of the bytes and its chunks have several pages, the threads work on
  // that column's pages; else each works on columns of its own.
  void MakePageThreads(const std::vector<int64_t>& weights, int64_t total) {
    constexpr int kPageThreadsMax = 8;
    constexpr int64_t kPagesWorth = 4 * kMiB;
    const int threads = std::min(request_.threads, kPageThreadsMax);
    if (threads <= 1 || weights.empty()) return;
    const int64_t most = std::ranges::max(weights);
    if (most < kPagesWorth || most <= total / 5 * 3) return;
    const int64_t bytes = request_.memory_bytes > 0
                              ? std::clamp<int64_t>(request_.memory_bytes / 32, kMiB, 8 * kMiB)
                              : 8 * kMiB;
    page_threads_ = std::make_unique<PageThreads>(threads - 1, bytes);
  }

  Status WriteRowGroups() {
    LITHIFY_TRY_ASSIGN(const auto plan, PlanRowGroups(group_, request_));
    const int64_t cut = CutRowGroups(group_, plan) * std::ssize(columns_);
    if (cut > 0) result_.report.recoded[WhyRecoded(request_, false)] += cut;
    Roll roll;
    for (const RowGroupPlan& group : plan) roll.input_bytes += group.input_bytes;
    ExpectReads(plan);
    std::unique_ptr<Output> output;
    int64_t first_row = 0;
    for (const RowGroupPlan& group : plan) {
      LITHIFY_TRY(cancel_.Check());
      if (output && RollsBefore(group, *output, roll)) {
        roll.closed_bytes += output->file.position();
        LITHIFY_TRY(CloseOutput(*output));
        output.reset();
      }
      if (!output) {
        LITHIFY_TRY_ASSIGN(output, OpenOutput());
      }
      LITHIFY_TRY(WriteRowGroup(*output, group, first_row));
      EndRound();
      first_row += group.rows;
      roll.input_done += group.input_bytes;
    }
    if (output) LITHIFY_TRY(CloseOutput(*output));
    return {};
  }

  // Where that helps, tells what will be read: a round is a row group of the outputs.
  void ExpectReads(const std::vector<RowGroupPlan>& plan) {
    if (group_.ahead == nullptr) return;
    std::vector<size_t> order = order_;
    // One column after the other is in their own order.
    if (Threads() <= 1) std::ranges::sort(order);
    group_.ahead->Expect(
        PlanReads(group_, plan, order, request_.shape.splice, group_.ahead->extent_bytes_max()));
  }

  void EndRound() {
    if (group_.ahead != nullptr) group_.ahead->End(round_);
    ++round_;
  }

  // Progress of one group, in bytes, for the decision where a file ends.
  struct Roll {
    int64_t input_bytes = 0;  // Of the whole group.
    int64_t input_done = 0;
    int64_t closed_bytes = 0;  // Of the outputs that are complete.
  };

  // Files get equal shares of what the outputs will have, judged by how the bytes came out so far:
  // another codec must not leave files that the next sweep would merge again (T19). Never more
  // files than planned (H7), but for the hard bound on a file's size.
  bool RollsBefore(const RowGroupPlan& next, const Output& output, const Roll& roll) const {
    const OutputShape& shape = request_.shape;
    if (shape.file_size_bytes_max > 0 &&
        output.file.position() + next.input_bytes > shape.file_size_bytes_max) {
      return true;
    }
    if (roll.input_done == 0) return false;
    const double written = static_cast<double>(roll.closed_bytes + output.file.position());
    const double scale =
        static_cast<double>(roll.input_bytes) / static_cast<double>(roll.input_done);
    const double expected = written * scale;
    double files = std::max(1, shape.outputs);
    if (shape.file_size_bytes_target > 0) {
      files = std::clamp(std::ceil(expected / static_cast<double>(shape.file_size_bytes_target)),
                         1.0, files);
    }
    const auto closed = static_cast<double>(result_.report.outputs.size());
    if (closed + 1 >= files) return false;
    // Where the next row group would pass the share by more than it falls short now, end here.
    const double end = expected * (closed + 1) / files;
    const double after = written + static_cast<double>(next.input_bytes) * written /
                                       static_cast<double>(roll.input_done);
    return after - end > end - written;
  }

  Result<std::unique_ptr<Output>> OpenOutput() {
    // All outputs are published together in the end: only one of them may hold memory until then.
    if (!result_.writers.empty()) LITHIFY_TRY(result_.writers.back()->Flush());
    const std::string name = request_.new_name();
    LITHIFY_TRY_ASSIGN(auto writer, store_.Create(request_.partition + name));
    return std::make_unique<Output>(
        OutputFileWriter(name, std::move(writer), group_, properties_, metadata_, cancel_));
  }

  Status CloseOutput(Output& output) {
    if (digested()) LITHIFY_TRY(SampleOne(output));
    LITHIFY_TRY(output.file.Close(MarkOf(group_, request_), request_.table.get()));
    result_.report.outputs.push_back(output.file.Describe());
    result_.writers.push_back(output.file.TakeWriter());
    return {};
  }

  Status WriteRowGroup(Output& output, const RowGroupPlan& plan, int64_t first_row) {
    RowGroupWork work(plan, columns_.size(), checker_->time_columns(), digested());
    const int64_t before = output.file.position();
    const int threads = Threads();
    FileWriter& file = output.file.file();
    file.StartRowGroup();
    if (threads > 1) LITHIFY_TRY(Survey(work, file.schema(), threads));
    if (threads <= 1 || OnlyMoves(work)) {
      LITHIFY_TRY(StreamColumns(file, work, threads <= 1));
    } else {
      LITHIFY_TRY(CopyColumns(file, work, threads));
    }
    file.EndRowGroup(plan.rows);
    LITHIFY_CHECK(output.file.position() >= before, "a file that shrinks while written");
    LITHIFY_TRY(checker_->CheckTimes(work.shared.times(),
                                     [&](int64_t row) { return PlaceOf(first_row + row); }));
    rows_in_ += plan.rows;
    const size_t spliced_before = output.spliced.size();
    AddDigests(output, work);
    return digested() ? SampleSpliced(output, spliced_before) : Status();
  }

  // What was read of a row group, and what was not.
  void AddDigests(Output& output, const RowGroupWork& work) {
    bool complete = digested();
    ContentDigest digest;
    digest.rows = work.plan.rows;
    for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
      Count(work, leaf);
      if (digested() && work.decoded[leaf]) {
        digest.columns[group_.leaves[leaf].path].Add(work.digests[leaf]);
        continue;
      }
      complete = false;
      if (!work.decoded[leaf]) {
        output.spliced.push_back(SplicedChunk{output.file.row_groups(), leaf,
                                              work.plan.places.front(), work.plan.rows,
                                              work.fingerprints[leaf], work.bytes[leaf]});
      }
    }
    if (complete) digest.row = work.shared.RowDigest();
    output.file.AddRowGroup(digest, complete);
    result_.report.digest_in.Add(digest);
    result_.report.digest_complete = result_.report.digest_complete && complete;
    if (!digested()) return;
    result_.row_groups.push_back(RowGroupDigest{static_cast<int>(result_.report.outputs.size()),
                                                output.file.row_groups() - 1, std::move(digest),
                                                work.shared.PlaceSum(), complete});
  }

  void Count(const RowGroupWork& work, size_t leaf) {
    if (work.splices[leaf] == nullptr) {
      result_.report.recoded[work.why_recoded[leaf]] += std::ssize(work.plan.places);
      return;
    }
    const SpliceCounts& counts = work.splices[leaf]->counts();
    spliced_.moved += counts.moved;
    spliced_.copied += counts.copied;
    spliced_.transcoded += counts.transcoded;
    spliced_.united += counts.united;
    spliced_.unfolded += counts.unfolded;
    spliced_.joined += counts.joined;
    spliced_.gathered += counts.gathered;
  }

  // ---------------------------------------------------------------------------------- splicing

  ColumnSpliceOptions SpliceOptions(size_t leaf, const parquet::ColumnDescriptor* column) {
    ColumnSpliceOptions options =
        FooterOptions(group_, request_.shape, properties_->compression(column->path()), leaf);
    options.column = column;
    const auto codec_options = properties_->codec_options(column->path());
    if (codec_options != nullptr) options.codec_level = codec_options->compression_level;
    options.statistics_bytes_max = properties_->max_statistics_size(column->path());
    options.bloom_filter = properties_->bloom_filter_options(column->path()).has_value();
    options.page_bytes_min = request_.shape.splice_page_bytes_min;
    options.page_values_min = request_.shape.splice_page_values_min;
    options.page_bytes = request_.shape.page_bytes;
    options.dictionary_wanted = properties_->dictionary_enabled(column->path());
    constexpr int64_t kPageBytesMax = 64 * kMiB;
    options.page_bytes_max =
        request_.memory_bytes > 0
            ? std::clamp<int64_t>(request_.memory_bytes / 16, kMiB, kPageBytesMax)
            : kPageBytesMax;
    options.pool = &pool_;
    options.hold_bytes = &hold_bytes_;
    return options;
  }

  // Looks whether the column of this row group can be moved, or made of its inputs' pages.
  Status SurveyColumn(RowGroupWork& work, const parquet::SchemaDescriptor& schema, size_t leaf) {
    work.why_recoded[leaf] = WhyRecoded(request_, work.plan.whole);
    if (!work.why_recoded[leaf].empty()) return {};
    const ColumnSpliceOptions options = SpliceOptions(leaf, schema.Column(static_cast<int>(leaf)));
    const GroupPlace& first = work.plan.places.front();
    const InputSource& in = *group_.inputs[first.input];
    if (work.plan.moved && MayBeMoved(in, first, options)) {
      LITHIFY_TRY_ASSIGN(work.splices[leaf], SurveyMove(in, first, options));
    }
    if (work.splices[leaf] == nullptr) {
      LITHIFY_TRY_ASSIGN(SurveyedColumn surveyed,
                         rewrite::SurveyColumn(group_.inputs, work.plan.places, options));
      work.splices[leaf] = std::move(surveyed.splice);
      work.why_recoded[leaf] = std::move(surveyed.why_not);
    }
    // Rows are held against their path value by value, and against the output where all are.
    work.decoded[leaf] = work.splices[leaf] == nullptr || request_.verify == Verify::kFull ||
                         checker_->For(static_cast<int>(leaf)) != nullptr;
    return {};
  }

  Status Survey(RowGroupWork& work, const parquet::SchemaDescriptor& schema, int threads) {
    return ForEachColumn(threads, [&](size_t leaf) { return SurveyColumn(work, schema, leaf); });
  }

  // Whether writing the row group is no work for the processor.
  static bool OnlyMoves(const RowGroupWork& work) {
    for (size_t leaf = 0; leaf < work.splices.size(); ++leaf) {
      if (work.decoded[leaf] || !work.splices[leaf]->moves_only()) return false;
    }
    return true;
  }

  Status SpliceColumn(RowGroupWork& work, size_t leaf, RawColumn& raw) {
    ColumnSplice& splice = *work.splices[leaf];
    auto written =
        GuardParquet("column " + group_.leaves[leaf].path, [&] { return splice.Write(raw); });
    if (!written) return Fail(std::move(written.error()).In(splice.current_input()));
    work.fingerprints[leaf] = raw.fingerprint();
    work.bytes[leaf] = raw.uncompressed_bytes();
    if (work.decoded[leaf]) return CopyColumn(work, leaf, nullptr);
    auto passed = GuardParquet("column " + group_.leaves[leaf].path, [&] {
      return columns_[leaf]->PassOver(work.plan.rows, splice.rows_dropped());
    });
    if (!passed) return Fail(std::move(passed.error()).In(columns_[leaf]->current_input()));
    return {};
  }

  // Of large chunks fewer are sampled: of twice the bytes, half.
  static uint64_t SampleWeight(const SplicedChunk& chunk) {
    constexpr int64_t kLargeBytes = 16 * kMiB;
    return 1 + static_cast<uint64_t>(chunk.bytes / kLargeBytes);
  }

  static bool IsSampled(const SplicedChunk& chunk) {
    constexpr uint64_t kOneIn = 16;
    return HashMix(chunk.fingerprint) % (kOneIn * SampleWeight(chunk)) == 0;
  }

  // Reads, of the inputs, the values of some column chunks that were spliced, to be compared with
  // the output's: about one in sixteen, of large ones fewer, at least one per output. Which ones
  // follows from what was written, so that a fault cannot keep to the others. Here those from
  // number `first` on, which are of the row group that was written last: its inputs are at hand.
  Status SampleSpliced(Output& output, size_t first) {
    std::vector<const SplicedChunk*> chosen;
    for (const SplicedChunk& chunk : std::span(output.spliced).subspan(first)) {
      if (IsSampled(chunk)) chosen.push_back(&chunk);
    }
    return Sample(chosen);
  }

  // The one of each output.
  Status SampleOne(Output& output) {
    if (output.spliced.empty()) return {};
    const SplicedChunk& one = *std::ranges::min_element(output.spliced, {}, [](const auto& c) {
      return (HashMix(c.fingerprint) >> 32) * SampleWeight(c);
    });
    if (IsSampled(one)) return {};
    if (group_.ahead != nullptr) {
      // Before the next round, and forgotten with it.
      group_.ahead->Expect(PlanColumn(group_, one.leaf, one.start, one.rows, round_ - 1,
                                      group_.ahead->extent_bytes_max()));
    }
    return Sample({&one});
  }

  Status Sample(const std::vector<const SplicedChunk*>& chosen) {
    std::vector<ChunkDigest> digests(chosen.size());
    const auto read = [&](size_t i) -> Status {
      LITHIFY_TRY(cancel_.Check());
      LITHIFY_TRY_ASSIGN(digests[i], DigestInputs(*chosen[i]));
      return {};
    };
    LITHIFY_TRY(TryForEach(chosen.size(), Threads(), read));
    result_.samples.insert(result_.samples.end(), digests.begin(), digests.end());
    return {};
  }

  Result<ChunkDigest> DigestInputs(const SplicedChunk& chunk) {
    ColumnCopyOptions options;
    options.leaf = static_cast<int>(chunk.leaf);
    options.output = group_.leaves[chunk.leaf];
    options.pool = &pool_;
    options.start_input = chunk.start.input;
    options.start_group = chunk.start.group;
    const auto copy = MakeColumnCopy(group_.inputs, options);
    RowGroupRows rows(chunk.rows, 0, true);
    auto digest = GuardParquet("column " + options.output.path,
                               [&] { return copy->Copy(chunk.rows, nullptr, rows); });
    if (!digest) return Fail(std::move(digest.error()).In(copy->current_input()));
    return ChunkDigest{static_cast<int>(result_.report.outputs.size()), chunk.row_group, chunk.leaf,
                       *digest, rows.PlaceSum()};
  }

  // The input file that surviving row number `row` of the whole group comes from, and its number
  // among those of the file.
  std::pair<std::string, int64_t> PlaceOf(int64_t row) const {
    for (const auto& in : group_.inputs) {
      const int64_t rows =
          in->footer->num_rows() - (in->deleted == nullptr ? 0 : in->deleted->size());
      if (row < rows) return {in->key, row};
      row -= rows;
    }
    return {request_.partition, row};
  }

  // Parallel columns keep a writer each until the row group ends; where even their fixed cost would
  // take a good part of the memory, one column after the other it is.
  int Threads() const {
    if (page_threads_) return 1;
    constexpr int64_t kWriterBytes = 128 * kKiB;
    const auto columns = static_cast<int64_t>(columns_.size());
    if (request_.memory_bytes > 0 && columns * kWriterBytes > request_.memory_bytes / 4) return 1;
    return static_cast<int>(std::min<int64_t>(request_.threads, columns));
  }

  // `encoder` null: the values are read and no more.
  Status CopyColumn(RowGroupWork& work, size_t leaf, ColumnEncoder* encoder) {
    const std::string where = "column " + group_.leaves[leaf].path;
    auto copied = GuardParquet(where, [&]() -> Status {
      LITHIFY_TRY_ASSIGN(work.digests[leaf],
                         columns_[leaf]->Copy(work.plan.rows, encoder, work.shared));
      if (encoder != nullptr) encoder->Finish();
      return {};
    });
    if (!copied) return Fail(std::move(copied.error()).In(columns_[leaf]->current_input()));
    return {};
  }

  // Decodes the column and encodes it again. With `threads`, they pack its pages.
  Status EncodeColumn(const FileWriter& file, RowGroupWork& work, size_t leaf, RawColumn& to,
                      PageThreads* threads) {
    auto options = EncoderOptions(*properties_, file.schema().Column(static_cast<int>(leaf)));
    // It is held as it is read, packed and unpacked, and likewise as it is written.
    if (request_.memory_bytes > 0) {
      options.row_bytes_max =
          std::max({request_.memory_bytes / 4, 2 * request_.shape.page_bytes, 2 * kMiB});
    }
    LITHIFY_TRY_ASSIGN(const auto encoder, MakeColumnEncoder(options, to, threads));
    return CopyColumn(work, leaf, encoder.get());
  }

  // One column after the other, straight to the file.
  Status StreamColumns(FileWriter& file, RowGroupWork& work, bool survey) {
    for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
      if (survey) LITHIFY_TRY(SurveyColumn(work, file.schema(), leaf));
      RawColumn& column = *file.NextColumn();
      if (work.splices[leaf] != nullptr) {
        LITHIFY_TRY(SpliceColumn(work, leaf, column));
      } else {
        LITHIFY_TRY(EncodeColumn(file, work, leaf, column, page_threads_.get()));
      }
      file.CloseColumn(leaf);
      ReportProgress(work.plan.progress_bytes, static_cast<int64_t>(leaf) + 1);
    }
    return {};
  }

  // Columns in parallel: each is held in memory, encoded, until those before it are done. Those
  // that are only moved are no work: they go straight to the file in their turn.
  Status CopyColumns(FileWriter& file, RowGroupWork& work, int threads) {
    using Making = FileWriter::Making;
    std::vector<Making> making(columns_.size(), Making::kInMemory);
    for (size_t leaf = 0; leaf < making.size(); ++leaf) {
      if (!work.decoded[leaf] && work.splices[leaf]->moves_only()) making[leaf] = Making::kInTurn;
    }
    const std::vector<RawColumn*> targets = file.AllColumns(making);
    std::atomic<int64_t> done{0};
    std::mutex closing;
    std::vector<bool> copied(columns_.size(), false);
    size_t closed = 0;
    // One by one in schema order: closing writes a column to the file, and equal inputs must give
    // equal bytes (R232).
    const auto close = [&](size_t leaf) -> Status {
      std::lock_guard lock(closing);
      copied[leaf] = true;
      for (; closed < copied.size() && copied[closed]; ++closed) {
        if (making[closed] == Making::kInTurn) {
          LITHIFY_TRY(SpliceColumn(work, closed, *targets[closed]));
        }
        LITHIFY_TRY(GuardParquet(request_.partition, [&]() -> Status {
          file.CloseColumn(closed);
          return {};
        }));
      }
      return {};
    };
    return ForEachColumn(threads, [&](size_t leaf) -> Status {
      if (work.splices[leaf] == nullptr) {
        LITHIFY_TRY(EncodeColumn(file, work, leaf, *targets[leaf], nullptr));
      } else if (making[leaf] == Making::kInMemory) {
        LITHIFY_TRY(SpliceColumn(work, leaf, *targets[leaf]));
      }
      LITHIFY_TRY(close(leaf));
      ReportProgress(work.plan.progress_bytes, ++done);
      return {};
    });
  }

  // The widest column first.
  template <typename F>
  Status ForEachColumn(int threads, const F& body) const {
    return TryForEach(order_.size(), threads, [&](size_t i) { return body(order_[i]); });
  }

  void ReportProgress(int64_t bytes, int64_t columns_done) {
    if (!request_.on_progress) return;
    const auto columns = static_cast<int64_t>(columns_.size());
    request_.on_progress(bytes * columns_done / columns - bytes * (columns_done - 1) / columns);
  }

  Status FinishColumns() {
    for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
      auto finished = GuardParquet("column " + group_.leaves[leaf].path,
                                   [&] { return columns_[leaf]->Finish(); });
      if (!finished) return Fail(std::move(finished.error()).In(columns_[leaf]->current_input()));
    }
    return {};
  }

  Result<RecodeResult> Account() {
    GroupReport& report = result_.report;
    for (const auto& in : group_.inputs) {
      report.bytes_in += in->size;
      report.rows_per_input.push_back(in->footer->num_rows());
    }
    // Every column was read to its end with exactly the rows of its row groups, and left out as
    // many of them as are deleted (ColumnCopy), or the rows of its pages were counted
    // (ColumnSplice), so both numbers are of counted rows.
    if (!columns_.empty()) report.rows_deleted = columns_.front()->rows_dropped();
    report.rows_in = rows_in_ + report.rows_deleted;
    if (!report.digest_complete) report.digest_in = ContentDigest{report.digest_in.rows, {}, {}};
    CountTiers();
    for (const OutputFile& output : report.outputs) {
      report.rows_out += output.rows;
      report.bytes_out += output.size;
    }
    const bool dropped_alike = std::ranges::all_of(columns_, [&](const auto& column) {
      return column->rows_dropped() == report.rows_deleted;
    });
    if (!dropped_alike) {
      return Fail(Code::kCorrupt, "row accounting failed: columns left out other numbers of rows");
    }
    LITHIFY_TRY(CheckAccounts(group_, request_, report));
    return std::move(result_);
  }

  void CountTiers() {
    const std::pair<const char*, int64_t> ways[] = {
        {"copied", spliced_.copied}, {"transcoded", spliced_.transcoded},
        {"united", spliced_.united}, {"unfolded", spliced_.unfolded},
        {"joined", spliced_.joined}, {"gathered", spliced_.gathered}};
    GroupReport& report = result_.report;
    int64_t spliced = 0;
    for (const auto& [way, count] : ways) {
      if (count > 0) report.splices[way] = count;
      spliced += count;
    }
    int64_t recoded = 0;
    for (const auto& [why, count] : report.recoded) recoded += count;
    if (spliced_.moved > 0) report.tiers["copy"] = spliced_.moved;
    if (spliced > 0) report.tiers["splice"] = spliced;
    if (recoded > 0) report.tiers["recode"] = recoded;
  }

  storage::Store& store_;
  OpenedGroup& group_;
  const GroupRequest& request_;
  BoundedPool& pool_;
  const CancelFlag& cancel_;
  std::optional<RowChecker> checker_;
  std::shared_ptr<parquet::WriterProperties> properties_;
  std::map<std::string, std::string> metadata_;
  std::unique_ptr<PageThreads> page_threads_;  // Outlives the columns, whose pages they read.
  std::vector<std::unique_ptr<ColumnCopy>> columns_;
  std::vector<size_t> order_;
  std::atomic<int64_t> hold_bytes_{0};
  int64_t round_ = 0;  // Row groups that were written.
  SpliceCounts spliced_;
  int64_t rows_in_ = 0;  // Of the row groups that were written, counted.
  RecodeResult result_;
};

}  // namespace

Result<RecodeResult> Recode(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                            BoundedPool& pool, const CancelFlag& cancel) {
  return GuardParquet(request.partition,
                      [&] { return Recoder(store, group, request, pool, cancel).Run(); });
}

}  // namespace lithify::rewrite
