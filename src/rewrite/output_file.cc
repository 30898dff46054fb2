#include "rewrite/output_file.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/file_metrics.h"
#include "rewrite/footer.h"
#include "rewrite/metadata_merge.h"

namespace lithify::rewrite {
namespace {

// What the outputs may have besides: columns that a table's schema adds to files or widens.
int64_t AddedBytes(const OpenedGroup& group, const GroupRequest& request) {
  if (!request.table) return 0;
  int64_t bytes = 0;
  for (const auto& in : group.inputs) {
    int64_t width = 0;
    for (const LeafSource& source : in->leaves) {
      if (source.fill) width += std::ssize(*source.fill);
      if (source.inherited || source.conversion != Conversion::kNone) width += sizeof(int64_t);
    }
    bytes += width * in->footer->num_rows();
  }
  return bytes;
}

// For the mark. Thousands of names would weigh on everybody who opens the file: then the audit log
// tells them, by the job, as of a table the snapshot tells what an output replaced.
std::vector<std::string> InputNames(const OpenedGroup& group, const GroupRequest& request) {
  constexpr size_t kNamesBytesMax = 4096;
  std::vector<std::string> names;
  if (request.table) return names;
  size_t bytes = 0;
  for (const auto& in : group.inputs) {
    names.push_back(in->key.substr(request.partition.size()));
    bytes += names.back().size();
    if (bytes > kNamesBytesMax) return {};
  }
  return names;
}

}  // namespace

std::map<std::string, std::string> OutputMetadata(const OpenedGroup& group,
                                                  const GroupRequest& request,
                                                  std::vector<std::string>* notes) {
  std::vector<std::map<std::string, std::string>> metadata;
  for (const auto& in : group.inputs) {
    std::map<std::string, std::string> pairs;
    for (const auto& [key, value] : in->footer->Pairs()) {
      // Of a table's columns its own schema tells.
      if (!request.table || !DescribesSchema(std::string(key))) pairs[std::string(key)] = value;
    }
    metadata.push_back(std::move(pairs));
  }
  return MergeMetadata(metadata, group.one_schema, notes);
}

OutputMark MarkOf(const OpenedGroup& group, const GroupRequest& request) {
  return OutputMark{request.job_id, request.partition, InputNames(group, request), {}};
}

Status CheckAccounts(const OpenedGroup& group, const GroupRequest& request,
                     const GroupReport& report) {
  if (request.shape.outputs_max > 0 &&
      std::cmp_greater(report.outputs.size(), request.shape.outputs_max)) {
    return Fail(Code::kUnsupported,
                "it would make " + std::to_string(report.outputs.size()) + " files of " +
                    std::to_string(group.inputs.size()),
                "", "raise compaction.file_bytes_max, or lower compaction.target_file_bytes");
  }
  const int64_t claimed =
      std::accumulate(report.rows_per_input.begin(), report.rows_per_input.end(), int64_t{0});
  if (report.rows_in != claimed || report.rows_out != report.rows_in - report.rows_deleted) {
    return Fail(Code::kCorrupt, "row accounting failed: footers " + std::to_string(claimed) +
                                    ", read " + std::to_string(report.rows_in) + ", deleted " +
                                    std::to_string(report.rows_deleted) + ", written " +
                                    std::to_string(report.rows_out));
  }
  constexpr int64_t kGrowthFloorBytes = kMiB;
  const auto bound =
      static_cast<int64_t>(static_cast<double>(report.bytes_in) * request.shape.growth_max) +
      kGrowthFloorBytes + AddedBytes(group, request);
  if (request.shape.growth_max > 0 && report.bytes_out > bound) {
    return Fail(Code::kUnsupported,
                "the outputs would have " + FormatBytes(report.bytes_out) + " for inputs of " +
                    FormatBytes(report.bytes_in),
                "", "choose a stronger output.codec, or raise output.growth_max");
  }
  return {};
}

OutputFileWriter::OutputFileWriter(std::string name, std::unique_ptr<storage::Writer> writer,
                                   const OpenedGroup& group,
                                   const std::shared_ptr<parquet::WriterProperties>& properties,
                                   const std::map<std::string, std::string>& metadata,
                                   const CancelFlag& cancel)
    : name_(std::move(name)), writer_(std::move(writer)) {
  for (const auto& [key, value] : metadata) pairs_->Append(key, value);
  file_ = std::make_unique<FileWriter>(MakeArrowSink(*writer_, &cancel),
                                       ToParquet(*group.output_schema), properties);
}

void OutputFileWriter::AddRowGroup(const ContentDigest& digest, bool complete) {
  digest_.Add(digest);
  complete_ = complete_ && complete;
  ++row_groups_;
}

Status OutputFileWriter::Close(OutputMark mark, const TableTarget* table) {
  if (complete_) {
    mark.digest = digest_;
  } else {
    digest_ = ContentDigest{digest_.rows, {}, {}};
  }
  auto pairs = std::make_shared<arrow::KeyValueMetadata>();
  for (const auto& [key, value] : EncodeMark(mark)) pairs->Append(key, value);
  const auto footer = file_->Close(pairs_->Merge(*pairs));
  footer_bytes_ = file_->footer_bytes();
  file_.reset();
  if (table == nullptr) return {};
  LITHIFY_TRY_ASSIGN(metrics_, MetricsOf(*footer, *table));
  for (int g = 0; g < footer->num_row_groups(); ++g) {
    const auto chunk = footer->RowGroup(g)->ColumnChunk(0);
    const int64_t data = chunk->data_page_offset();
    split_offsets_.push_back(
        chunk->has_dictionary_page() ? std::min(data, chunk->dictionary_page_offset()) : data);
  }
  return {};
}

OutputFile OutputFileWriter::Describe() const {
  return OutputFile{name_,   writer_->size(), digest_.rows,   row_groups_,
                    digest_, metrics_,        split_offsets_, footer_bytes_};
}

}  // namespace lithify::rewrite
