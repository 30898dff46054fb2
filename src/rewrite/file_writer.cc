#include "rewrite/file_writer.h"

#include <parquet/exception.h>
#include <parquet/file_writer.h>

#include <string>
#include <utility>

namespace lithify::rewrite {

FileWriter::FileWriter(std::shared_ptr<arrow::io::OutputStream> sink,
                       const std::shared_ptr<parquet::schema::GroupNode>& schema,
                       std::shared_ptr<parquet::WriterProperties> properties)
    : sink_(std::move(sink)), properties_(std::move(properties)) {
  schema_.Init(schema);
  metadata_ = parquet::FileMetaDataBuilder::Make(&schema_, properties_);
  bloom_filters_ = parquet::BloomFilterBuilder::Make(&schema_, properties_.get());
  if (properties_->page_index_enabled()) page_index_ = parquet::PageIndexBuilder::Make(&schema_);
  PARQUET_THROW_NOT_OK(sink_->Write(parquet::kParquetMagic, sizeof parquet::kParquetMagic));
}

void FileWriter::StartRowGroup() {
  row_group_ = metadata_->AppendRowGroup();
  if (page_index_) page_index_->AppendRowGroup();
  bloom_filters_->AppendRowGroup();
  row_group_bytes_ = 0;
  columns_.clear();
}

RawColumn::Targets FileWriter::NextTargets() {
  const auto ordinal = static_cast<int>(columns_.size());
  RawColumn::Targets to;
  to.sink = sink_;
  to.metadata = row_group_->NextColumnChunk();
  const auto path = to.metadata->descr()->path();
  if (page_index_ != nullptr && properties_->page_index_enabled(path)) {
    to.offset_index = page_index_->GetOffsetIndexBuilder(ordinal);
    if (properties_->statistics_enabled(path)) {
      to.column_index = page_index_->GetColumnIndexBuilder(ordinal);
    }
  }
  to.bloom_filter = bloom_filters_->CreateBloomFilter(ordinal);
  return to;
}

RawColumn* FileWriter::MakeColumn(bool in_memory) {
  columns_.push_back({std::make_unique<RawColumn>(
      NextTargets(), in_memory ? properties_->memory_pool() : nullptr)});
  return columns_.back().pages.get();
}

RawColumn* FileWriter::NextColumn() { return MakeColumn(false); }

std::vector<RawColumn*> FileWriter::AllColumns(const std::vector<Making>& making) {
  std::vector<RawColumn*> all;
  for (const Making made : making) all.push_back(MakeColumn(made == Making::kInMemory));
  return all;
}

void FileWriter::CloseColumn(size_t column) {
  Column& closing = columns_[column];
  row_group_bytes_ += closing.pages->Close();
  closing.rows = closing.pages->rows();
  closing.pages.reset();
}

void FileWriter::AddColumn(RawColumn& waiting, const RawColumn::WriteBytes& write) {
  row_group_bytes_ += waiting.CloseInto(NextTargets(), write);
  columns_.push_back({nullptr, waiting.rows()});
}

void FileWriter::EndRowGroup(int64_t rows) {
  if (std::ssize(columns_) != schema_.num_columns()) {
    throw parquet::ParquetException("a row group lacks columns");
  }
  for (const Column& column : columns_) {
    if (column.rows == rows) continue;
    throw parquet::ParquetException("a column was written with " + std::to_string(column.rows) +
                                    " rows instead of " + std::to_string(rows));
  }
  row_group_->set_num_rows(rows);
  row_group_->Finish(row_group_bytes_);
}

std::shared_ptr<parquet::FileMetaData> FileWriter::Close(
    const std::shared_ptr<const arrow::KeyValueMetadata>& pairs) {
  using parquet::IndexKind;
  metadata_->SetIndexLocations(IndexKind::kBloomFilter, bloom_filters_->WriteTo(sink_.get()));
  if (page_index_) {
    page_index_->Finish();
    const auto written = page_index_->WriteTo(sink_.get());
    metadata_->SetIndexLocations(IndexKind::kColumnIndex, written.column_index_locations);
    metadata_->SetIndexLocations(IndexKind::kOffsetIndex, written.offset_index_locations);
  }
  std::shared_ptr<parquet::FileMetaData> footer = metadata_->Finish(pairs);
  constexpr int64_t kTailBytes = 8;
  PARQUET_ASSIGN_OR_THROW(const int64_t begin, sink_->Tell());
  parquet::WriteFileMetaData(*footer, sink_.get());
  PARQUET_ASSIGN_OR_THROW(const int64_t end, sink_->Tell());
  footer_bytes_ = end - begin - kTailBytes;
  return footer;
}

std::unique_ptr<RawColumn> MakeWaitingColumn(const parquet::SchemaDescriptor& schema, int column,
                                             const parquet::WriterProperties& properties) {
  // As the file will have it, whose builder is not there yet.
  const auto filters = parquet::BloomFilterBuilder::Make(&schema, &properties);
  filters->AppendRowGroup();
  std::unique_ptr<parquet::BlockSplitBloomFilter> filter;
  if (parquet::BloomFilter* const made = filters->CreateBloomFilter(column)) {
    auto* const blocks = dynamic_cast<parquet::BlockSplitBloomFilter*>(made);
    if (blocks == nullptr) throw parquet::ParquetException("a filter of an unknown kind");
    filter = std::make_unique<parquet::BlockSplitBloomFilter>(std::move(*blocks));
  }
  return std::make_unique<RawColumn>(std::move(filter), properties.memory_pool());
}

}  // namespace lithify::rewrite
