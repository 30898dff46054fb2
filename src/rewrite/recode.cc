#include "rewrite/recode.h"

#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/file_writer.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/text.h"
#include "rewrite/footer.h"
#include "rewrite/metadata_merge.h"
#include "rewrite/row_check.h"

namespace lithify::rewrite {
namespace {

// How one output column is encoded, from what its inputs did.
struct ColumnEncoding {
  bool dictionary = false;
  parquet::Encoding::type plain = parquet::Encoding::PLAIN;
  bool bloom_filter = false;
};

// One row group to write.
struct RowGroupPlan {
  int64_t rows = 0;
  int64_t bytes = 0;        // Uncompressed.
  int64_t input_bytes = 0;  // As they lie in the inputs.
};

Result<arrow::Compression::type> CodecOf(const std::string& name) {
  if (name == "zstd") return arrow::Compression::ZSTD;
  if (name == "snappy") return arrow::Compression::SNAPPY;
  if (name == "lz4_raw") return arrow::Compression::LZ4;
  if (name == "gzip") return arrow::Compression::GZIP;
  if (name == "none") return arrow::Compression::UNCOMPRESSED;
  return Fail(Code::kInvalid, "unknown codec " + name, "",
              "use zstd, snappy, lz4_raw, gzip or none");
}

bool IsDictionary(parquet::Encoding::type encoding) {
  return encoding == parquet::Encoding::PLAIN_DICTIONARY ||
         encoding == parquet::Encoding::RLE_DICTIONARY;
}

bool IsLevelsOnly(parquet::Encoding::type encoding) {
  return encoding == parquet::Encoding::RLE || encoding == parquet::Encoding::BIT_PACKED;
}

// Looks at one chunk: was its dictionary worth it? The share of distinct values tells.
struct ChunkEncoding {
  bool dictionary_used = false;
  bool dictionary_abandoned = false;
  double distinct_share = 0;
  parquet::Encoding::type plain = parquet::Encoding::PLAIN;
};

ChunkEncoding InspectChunk(const InputSource& in, int group, int leaf) {
  ChunkEncoding found;
  const auto chunk = in.footer->RowGroup(group)->ColumnChunk(leaf);
  for (const auto encoding : chunk->encodings()) {
    if (IsDictionary(encoding)) {
      found.dictionary_used = true;
    } else if (!IsLevelsOnly(encoding) && encoding != parquet::Encoding::PLAIN) {
      found.plain = encoding;
    }
  }
  for (const auto& stats : chunk->encoding_stats()) {
    const bool data = stats.page_type == parquet::PageType::DATA_PAGE ||
                      stats.page_type == parquet::PageType::DATA_PAGE_V2;
    if (data && stats.count > 0 && !IsDictionary(stats.encoding)) found.dictionary_abandoned = true;
  }
  if (!found.dictionary_used || found.dictionary_abandoned || chunk->num_values() == 0)
    return found;
  const auto page = in.reader->RowGroup(group)->GetColumnPageReader(leaf)->NextPage();
  if (page != nullptr && page->type() == parquet::PageType::DICTIONARY_PAGE) {
    const auto& dictionary = static_cast<const parquet::DictionaryPage&>(*page);
    found.distinct_share =
        static_cast<double>(dictionary.num_values()) / static_cast<double>(chunk->num_values());
  }
  return found;
}

// Encodings that hold for the physical type of the output.
bool FitsType(parquet::Encoding::type encoding, const OutputLeaf& leaf) {
  using parquet::Encoding;
  using parquet::Type;
  switch (encoding) {
    case Encoding::DELTA_BINARY_PACKED:
      return leaf.physical == Type::INT32 || leaf.physical == Type::INT64;
    case Encoding::DELTA_LENGTH_BYTE_ARRAY: return leaf.physical == Type::BYTE_ARRAY;
    case Encoding::DELTA_BYTE_ARRAY:
      return leaf.physical == Type::BYTE_ARRAY || leaf.physical == Type::FIXED_LEN_BYTE_ARRAY;
    case Encoding::BYTE_STREAM_SPLIT:
      return leaf.physical != Type::BOOLEAN && leaf.physical != Type::BYTE_ARRAY &&
             leaf.physical != Type::INT96;
    case Encoding::RLE: return leaf.physical == Type::BOOLEAN;
    default: return false;
  }
}

Result<std::vector<ColumnEncoding>> ChooseEncodings(const OpenedGroup& group,
                                                    const OutputShape& shape) {
  constexpr double kDistinctShareMax = 0.5;
  const std::set<size_t> sample = {0, group.inputs.size() / 2, group.inputs.size() - 1};
  std::vector<ColumnEncoding> chosen(group.leaves.size());
  for (size_t leaf = 0; leaf < group.leaves.size(); ++leaf) {
    int seen = 0;
    int worth = 0;
    ColumnEncoding& out = chosen[leaf];
    for (const size_t i : sample) {
      const InputSource& in = *group.inputs[i];
      const LeafSource& source = in.leaves[leaf];
      if (source.levels_only || in.footer->num_row_groups() == 0) continue;
      LITHIFY_TRY_ASSIGN(const ChunkEncoding chunk,
                         GuardParquet(in.key + ": column " + group.leaves[leaf].path,
                                      [&]() -> Result<ChunkEncoding> {
                                        return InspectChunk(in, 0, source.input_leaf);
                                      }));
      ++seen;
      if (chunk.dictionary_used && !chunk.dictionary_abandoned &&
          chunk.distinct_share <= kDistinctShareMax) {
        ++worth;
      }
      if (FitsType(chunk.plain, group.leaves[leaf])) out.plain = chunk.plain;
    }
    const std::string& path = group.leaves[leaf].path;
    out.dictionary = seen > 0 && 2 * worth > seen &&
                     group.leaves[leaf].physical != parquet::Type::BOOLEAN &&
                     std::ranges::find(shape.plain_columns, path) == shape.plain_columns.end();
    out.bloom_filter = std::ranges::find(shape.bloom_columns, path) != shape.bloom_columns.end();
    for (const auto& in : group.inputs) {
      const LeafSource& source = in->leaves[leaf];
      if (source.levels_only || in->footer->num_row_groups() == 0) continue;
      if (in->footer->RowGroup(0)->ColumnChunk(source.input_leaf)->bloom_filter_offset()) {
        out.bloom_filter = true;  // P19: an input has one, so the output has one, rebuilt.
      }
    }
    if (group.leaves[leaf].physical == parquet::Type::BOOLEAN) out.bloom_filter = false;
  }
  return chosen;
}

Result<std::shared_ptr<parquet::WriterProperties>> MakeProperties(const OpenedGroup& group,
                                                                  const OutputShape& shape,
                                                                  BoundedPool& pool) {
  LITHIFY_TRY_ASSIGN(const auto codec, CodecOf(shape.codec));
  parquet::WriterProperties::Builder builder;
  builder.memory_pool(pool.soft())
      ->created_by(std::string(kCreatedBy))
      ->compression(codec)
      ->data_pagesize(shape.page_bytes)
      ->max_row_group_length(std::max<int64_t>(shape.row_group_rows, 1))
      ->enable_write_page_index()
      ->enable_page_checksum()
      ->disable_dictionary();
  if (codec == arrow::Compression::ZSTD || codec == arrow::Compression::GZIP) {
    builder.compression_level(shape.codec_level);
  }
  LITHIFY_TRY_ASSIGN(const auto encodings, ChooseEncodings(group, shape));
  for (size_t leaf = 0; leaf < encodings.size(); ++leaf) {
    const std::string& path = group.leaves[leaf].path;
    if (encodings[leaf].dictionary) {
      builder.enable_dictionary(path);
    } else if (encodings[leaf].plain != parquet::Encoding::PLAIN) {
      builder.encoding(path, encodings[leaf].plain);
    }
    if (encodings[leaf].bloom_filter) {
      builder.enable_bloom_filter(path, parquet::BloomFilterOptions{});
    }
  }
  return builder.build();
}

// Row groups in rows: whole input row groups together up to the bounds, larger ones cut.
Result<std::vector<RowGroupPlan>> PlanRowGroups(const OpenedGroup& group, int64_t bytes_max,
                                                int64_t rows_max) {
  constexpr int64_t kRowGroupsMax = 100'000;
  std::vector<RowGroupPlan> plan;
  RowGroupPlan open;
  const auto close = [&] {
    if (open.rows > 0) plan.push_back(std::exchange(open, {}));
  };
  for (const auto& in : group.inputs) {
    for (int g = 0; g < in->footer->num_row_groups(); ++g) {
      const auto chunk = in->footer->RowGroup(g);
      const int64_t rows = chunk->num_rows();
      const int64_t bytes = std::max<int64_t>(0, chunk->total_byte_size());
      const int64_t input_bytes = std::max<int64_t>(0, chunk->total_compressed_size());
      if (rows == 0) continue;
      if (open.rows + rows > rows_max || open.bytes + bytes > bytes_max) close();
      if (rows <= rows_max && bytes <= bytes_max) {
        open.rows += rows;
        open.bytes += bytes;
        open.input_bytes += input_bytes;
        continue;
      }
      const int64_t pieces =
          std::min(rows, std::max((rows - 1) / rows_max, (bytes - 1) / bytes_max) + 1);
      if (pieces > kRowGroupsMax - std::ssize(plan)) {
        return Fail(Code::kLimit, "more than 100,000 row groups would be written", in->key,
                    "the file claims " + std::to_string(rows) + " rows; check it");
      }
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t piece = rows / pieces + (i < rows % pieces ? 1 : 0);
        plan.push_back(RowGroupPlan{piece, bytes / pieces, input_bytes / pieces});
      }
    }
  }
  close();
  return plan;
}

// One output file being written.
class Output {
 public:
  Output(std::string name, std::unique_ptr<storage::Writer> writer, const OpenedGroup& group,
         const std::shared_ptr<parquet::WriterProperties>& properties,
         const std::map<std::string, std::string>& metadata, const CancelFlag& cancel)
      : name_(std::move(name)), writer_(std::move(writer)) {
    auto pairs = std::make_shared<arrow::KeyValueMetadata>();
    for (const auto& [key, value] : metadata) pairs->Append(key, value);
    file_ = parquet::ParquetFileWriter::Open(MakeArrowSink(*writer_, &cancel),
                                             ToParquet(*group.output_schema), properties, pairs);
  }

  parquet::ParquetFileWriter& file() { return *file_; }
  int64_t position() const { return writer_->size(); }
  ContentDigest& digest() { return digest_; }
  void AddRowGroup(int64_t rows) {
    rows_ += rows;
    ++row_groups_;
  }
  int row_groups() const { return row_groups_; }

  // Writes the footer, with the mark.
  void Close(OutputMark mark, bool digested) {
    if (digested) mark.digest = digest_;
    auto pairs = std::make_shared<arrow::KeyValueMetadata>();
    for (const auto& [key, value] : EncodeMark(mark)) pairs->Append(key, value);
    file_->AddKeyValueMetadata(pairs);
    file_->Close();
    file_.reset();
  }
  OutputFile Describe() const {
    return OutputFile{name_, writer_->size(), rows_, row_groups_, digest_};
  }
  std::unique_ptr<storage::Writer> TakeWriter() { return std::move(writer_); }

 private:
  const std::string name_;
  std::unique_ptr<storage::Writer> writer_;
  std::unique_ptr<parquet::ParquetFileWriter> file_;
  ContentDigest digest_;
  int64_t rows_ = 0;
  int row_groups_ = 0;
};

class Recoder {
 public:
  Recoder(storage::Store& store, OpenedGroup& group, const GroupRequest& request, BoundedPool& pool,
          const CancelFlag& cancel)
      : store_(store), group_(group), request_(request), pool_(pool), cancel_(cancel) {}

  Result<RecodeResult> Run() {
    LITHIFY_TRY_ASSIGN(checker_, RowChecker::Make(request_.rows, *group_.output_schema));
    LITHIFY_TRY_ASSIGN(properties_, MakeProperties(group_, request_.shape, pool_));
    result_.report.notes = group_.notes;
    std::vector<std::map<std::string, std::string>> metadata;
    for (const auto& in : group_.inputs) {
      std::map<std::string, std::string> pairs;
      if (const auto& kv = in->footer->key_value_metadata()) {
        for (int64_t i = 0; i < kv->size(); ++i) pairs[kv->key(i)] = kv->value(i);
      }
      metadata.push_back(std::move(pairs));
    }
    metadata_ = MergeMetadata(metadata, group_.one_schema, &result_.report.notes);
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
        const auto group = in->footer->RowGroup(g);
        const int64_t columns = group->num_columns();
        most = std::max(most, std::min(2 * group->total_byte_size(), columns * kPageBytes));
      }
    }
    return most;
  }

  void MakeColumns() {
    const bool release = request_.memory_bytes > 0 && OpenPagesBytes() > request_.memory_bytes / 8;
    for (size_t leaf = 0; leaf < group_.leaves.size(); ++leaf) {
      ColumnCopyOptions options;
      options.leaf = static_cast<int>(leaf);
      options.output = group_.leaves[leaf];
      options.rule = checker_->For(options.leaf);
      options.page_bytes = request_.shape.page_bytes;
      options.release = release;
      options.pool = &pool_;
      columns_.push_back(MakeColumnCopy(group_.inputs, options));
    }
    // Wide columns first, so that the threads end together.
    order_.resize(columns_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto& in = *group_.inputs.front();
    if (in.footer->num_row_groups() == 0) return;
    const auto weight = [&](size_t leaf) -> int64_t {
      const LeafSource& source = in.leaves[leaf];
      if (source.levels_only) return 0;
      return in.footer->RowGroup(0)->ColumnChunk(source.input_leaf)->total_uncompressed_size();
    };
    std::ranges::stable_sort(order_, std::greater<>(), weight);
  }

  Status WriteRowGroups() {
    const int outputs = std::max(1, request_.shape.outputs);
    LITHIFY_TRY_ASSIGN(const auto plan, PlanRowGroups(group_, RowGroupBytes(outputs),
                                                      request_.shape.row_group_rows));
    Roll roll;
    for (const RowGroupPlan& group : plan) roll.input_bytes += group.input_bytes;
    std::unique_ptr<Output> output;
    int64_t first_row = 0;
    for (const RowGroupPlan& group : plan) {
      LITHIFY_TRY(cancel_.Check());
      if (output && RollsBefore(group, *output, roll)) {
        roll.closed_bytes += output->position();
        LITHIFY_TRY(CloseOutput(*output));
        output.reset();
      }
      if (!output) {
        LITHIFY_TRY_ASSIGN(output, OpenOutput());
      }
      LITHIFY_TRY(WriteRowGroup(*output, group, first_row));
      first_row += group.rows;
      roll.input_done += group.input_bytes;
    }
    if (output) LITHIFY_TRY(CloseOutput(*output));
    return {};
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
        output.position() + next.input_bytes > shape.file_size_bytes_max) {
      return true;
    }
    if (roll.input_done == 0) return false;
    const double written = static_cast<double>(roll.closed_bytes + output.position());
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

  // Files are cut between row groups, so each of the planned files needs one at least (H7).
  int64_t RowGroupBytes(int outputs) const {
    int64_t total = 0;
    for (const auto& in : group_.inputs) {
      for (int g = 0; g < in->footer->num_row_groups(); ++g) {
        total += std::max<int64_t>(0, in->footer->RowGroup(g)->total_byte_size());
      }
    }
    return std::min(request_.shape.row_group_bytes, std::max<int64_t>(1, total / outputs));
  }

  Result<std::unique_ptr<Output>> OpenOutput() {
    const std::string name = request_.new_name();
    LITHIFY_TRY_ASSIGN(auto writer, store_.Create(request_.partition + name));
    return std::make_unique<Output>(name, std::move(writer), group_, properties_, metadata_,
                                    cancel_);
  }

  Status CloseOutput(Output& output) {
    OutputMark mark{request_.job_id, request_.partition, {}, {}};
    for (const auto& in : request_.inputs) {
      mark.inputs.push_back(in.key.substr(request_.partition.size()));
    }
    output.Close(std::move(mark), digested());
    result_.report.outputs.push_back(output.Describe());
    result_.writers.push_back(output.TakeWriter());
    return {};
  }

  Status WriteRowGroup(Output& output, const RowGroupPlan& plan, int64_t first_row) {
    RowGroupRows shared(plan.rows, checker_->time_columns(), digested());
    std::vector<Digest128> digests(columns_.size());
    const int64_t before = output.position();
    const int threads = Threads();
    if (threads <= 1) {
      auto* writer = output.file().AppendRowGroup();
      for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
        auto* column = writer->NextColumn();
        LITHIFY_TRY(CopyColumn(leaf, column, plan.rows, shared, digests));
        column->Close();
        ReportProgress(plan.input_bytes, static_cast<int64_t>(leaf) + 1);
      }
      writer->Close();
    } else {
      LITHIFY_TRY(CopyColumns(output, plan, threads, shared, digests));
    }
    LITHIFY_CHECK(output.position() >= before, "a file that shrinks while written");
    LITHIFY_TRY(checker_->CheckTimes(shared.times(),
                                     [&](int64_t row) { return PlaceOf(first_row + row); }));
    output.AddRowGroup(plan.rows);
    ContentDigest digest;
    digest.rows = plan.rows;
    if (digested()) {
      digest.row = shared.RowDigest();
      for (size_t leaf = 0; leaf < digests.size(); ++leaf) {
        digest.columns[group_.leaves[leaf].path].Add(digests[leaf]);
      }
    }
    output.digest().Add(digest);
    result_.report.digest_in.Add(digest);
    result_.row_groups.push_back(RowGroupDigest{static_cast<int>(result_.report.outputs.size()),
                                                output.row_groups() - 1, std::move(digest)});
    return {};
  }

  // The input file that row number `row` of the whole group comes from, and its row there.
  std::pair<std::string, int64_t> PlaceOf(int64_t row) const {
    for (const auto& in : group_.inputs) {
      if (row < in->footer->num_rows()) return {in->key, row};
      row -= in->footer->num_rows();
    }
    return {request_.partition, row};
  }

  // Parallel columns keep a writer each until the row group ends; where even their fixed cost would
  // take a good part of the memory, one column after the other it is.
  int Threads() const {
    constexpr int64_t kWriterBytes = 128 * kKiB;
    const auto columns = static_cast<int64_t>(columns_.size());
    if (request_.memory_bytes > 0 && columns * kWriterBytes > request_.memory_bytes / 4) return 1;
    return static_cast<int>(std::min<int64_t>(request_.threads, columns));
  }

  Status CopyColumn(size_t leaf, parquet::ColumnWriter* writer, int64_t rows, RowGroupRows& shared,
                    std::vector<Digest128>& digests) {
    const std::string where = "column " + group_.leaves[leaf].path;
    auto copied = GuardParquet(where, [&]() -> Status {
      LITHIFY_TRY_ASSIGN(digests[leaf], columns_[leaf]->Copy(rows, writer, shared));
      return {};
    });
    if (!copied) return Fail(std::move(copied.error()).In(columns_[leaf]->current_input()));
    return {};
  }

  // Columns in parallel: the row group is held in memory, encoded, until all are done.
  Status CopyColumns(Output& output, const RowGroupPlan& plan, int threads, RowGroupRows& shared,
                     std::vector<Digest128>& digests) {
    auto* writer = output.file().AppendBufferedRowGroup();
    std::vector<parquet::ColumnWriter*> writers;
    for (size_t leaf = 0; leaf < columns_.size(); ++leaf) {
      writers.push_back(writer->column(static_cast<int>(leaf)));
    }
    std::atomic<size_t> next{0};
    std::atomic<int64_t> done{0};
    std::atomic<bool> failed{false};
    std::vector<Status> statuses(columns_.size());
    const auto work = [&] {
      for (size_t i = next++; i < order_.size() && !failed; i = next++) {
        const size_t leaf = order_[i];
        statuses[leaf] = CopyColumn(leaf, writers[leaf], plan.rows, shared, digests);
        if (!statuses[leaf]) failed = true;
        ReportProgress(plan.input_bytes, ++done);
      }
    };
    {
      std::vector<std::jthread> pool;
      try {
        for (int t = 1; t < threads; ++t) pool.emplace_back(work);
      } catch (const std::system_error&) {
        // No more threads to be had: those that run, this one at least, do the work.
      }
      work();
    }
    for (auto& status : statuses) LITHIFY_TRY(std::move(status));
    // Closes the columns one by one in schema order: closing writes a column to the shared sink,
    // and equal inputs must give equal bytes (R232).
    writer->Close();
    return {};
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
    // Every column was read to its end with exactly the rows of its row groups (ColumnCopy), so
    // the digest's rows are counted rows.
    report.rows_in = report.digest_in.rows;
    int64_t chunks = 0;
    for (const auto& in : group_.inputs) {
      chunks += int64_t{in->footer->num_row_groups()} * in->footer->num_columns();
    }
    report.tiers["recode"] = chunks;
    for (const OutputFile& output : report.outputs) {
      report.rows_out += output.rows;
      report.bytes_out += output.size;
    }
    if (request_.shape.outputs_max > 0 &&
        std::cmp_greater(report.outputs.size(), request_.shape.outputs_max)) {
      return Fail(Code::kUnsupported,
                  "it would make " + std::to_string(report.outputs.size()) + " files of " +
                      std::to_string(group_.inputs.size()),
                  "", "raise compaction.file_bytes_max, or lower compaction.target_file_bytes");
    }
    const int64_t claimed =
        std::accumulate(report.rows_per_input.begin(), report.rows_per_input.end(), int64_t{0});
    if (report.rows_in != claimed || report.rows_out != report.rows_in) {
      return Fail(Code::kCorrupt, "row accounting failed: footers " + std::to_string(claimed) +
                                      ", read " + std::to_string(report.rows_in) + ", written " +
                                      std::to_string(report.rows_out));
    }
    constexpr int64_t kGrowthFloorBytes = kMiB;
    const auto bound =
        static_cast<int64_t>(static_cast<double>(report.bytes_in) * request_.shape.growth_max) +
        kGrowthFloorBytes;
    if (request_.shape.growth_max > 0 && report.bytes_out > bound) {
      return Fail(Code::kUnsupported,
                  "the outputs would have " + FormatBytes(report.bytes_out) + " for inputs of " +
                      FormatBytes(report.bytes_in),
                  "", "choose a stronger output.codec, or raise output.growth_max");
    }
    return std::move(result_);
  }

  storage::Store& store_;
  OpenedGroup& group_;
  const GroupRequest& request_;
  BoundedPool& pool_;
  const CancelFlag& cancel_;
  std::optional<RowChecker> checker_;
  std::shared_ptr<parquet::WriterProperties> properties_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::unique_ptr<ColumnCopy>> columns_;
  std::vector<size_t> order_;
  RecodeResult result_;
};

}  // namespace

Result<OpenedGroup> OpenGroup(ReaderCache& cache, const std::vector<InputFile>& inputs,
                              BoundedPool& pool, const CancelFlag* cancel) {
  // Roughly what a parsed footer takes per column chunk, outside of any pool.
  constexpr int64_t kChunkBytes = 1024;
  OpenedGroup group;
  std::vector<const SchemaNode*> schemas;
  int64_t footer_bytes = 0;
  for (const InputFile& input : inputs) {
    auto source = std::make_unique<InputSource>();
    source->key = input.key;
    source->size = input.size;
    auto file = MakeArrowFile(cache, input.key, input.size, cancel);
    LITHIFY_TRY(GuardParquet(input.key, [&]() -> Status {
      LITHIFY_TRY_ASSIGN(source->footer, ReadFooter(*file, input.size));
      LITHIFY_TRY_ASSIGN(const std::string reason, UnsupportedReason(*source->footer, input.size));
      if (!reason.empty()) return Fail(Code::kUnsupported, reason);
      LITHIFY_TRY_ASSIGN(source->schema, ParseSchema(*source->footer->schema()));
      source->reader = parquet::ParquetFileReader::Open(
          file, MakeReaderProperties(*source->footer, pool.hard()), source->footer);
      return {};
    }));
    footer_bytes += kChunkBytes * source->footer->num_row_groups() * source->footer->num_columns();
    if (footer_bytes > pool.bytes_max() / 2) {
      return Fail(Code::kLimit, "the footers of the inputs do not fit the memory bound", input.key,
                  "raise --memory");
    }
    schemas.push_back(source->schema.get());
    group.inputs.push_back(std::move(source));
  }
  LITHIFY_TRY_ASSIGN(group.output_schema, UniteSchemas(schemas, &group.notes));
  group.leaves = OutputLeaves(*group.output_schema);
  for (auto& source : group.inputs) {
    group.one_schema = group.one_schema && group.output_schema->SameAs(*source->schema);
    LITHIFY_TRY_ASSIGN(source->leaves, MapLeaves(*group.output_schema, *source->schema));
    LITHIFY_CHECK(source->leaves.size() == group.leaves.size(), "a leaf without a source");
  }
  return group;
}

Result<RecodeResult> Recode(storage::Store& store, OpenedGroup& group, const GroupRequest& request,
                            BoundedPool& pool, const CancelFlag& cancel) {
  return GuardParquet(request.partition,
                      [&] { return Recoder(store, group, request, pool, cancel).Run(); });
}

}  // namespace lithify::rewrite
