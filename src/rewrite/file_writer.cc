#include "rewrite/file_writer.h"

#include <arrow/util/compression.h>
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

std::unique_ptr<FileWriter::Column> FileWriter::MakeColumn(bool in_memory, PageThreads* threads) {
  const auto ordinal = static_cast<int>(columns_.size());
  // Ordinals in the file are for encryption only.
  constexpr int16_t kNoOrdinal = -1;
  auto* metadata = row_group_->NextColumnChunk();
  const auto path = metadata->descr()->path();
  const bool indexed = page_index_ != nullptr && properties_->page_index_enabled(path);
  const auto codec = properties_->compression(path);
  const parquet::CodecOptions options = properties_->codec_options(path)
                                            ? *properties_->codec_options(path)
                                            : parquet::CodecOptions();
  auto pages = parquet::PageWriter::Open(
      sink_, codec, metadata, kNoOrdinal, kNoOrdinal, properties_->memory_pool(), in_memory,
      nullptr, nullptr, properties_->page_checksum_enabled(),
      indexed && properties_->statistics_enabled(path) ? page_index_->GetColumnIndexBuilder(ordinal)
                                                       : nullptr,
      indexed ? page_index_->GetOffsetIndexBuilder(ordinal) : nullptr, options);
  auto column = std::make_unique<Column>();
  // With a dictionary, the pages wait in the column writer until the dictionary is written: they
  // had better be compressed by then.
  if (threads != nullptr && pages->has_compressor() && !properties_->dictionary_enabled(path) &&
      properties_->data_page_version() == parquet::ParquetDataPageVersion::V1) {
    pages = CompressAside(std::move(pages), codec, options, *threads, properties_->memory_pool(),
                          column->aside_bytes);
  }
  column->writer = parquet::ColumnWriter::Make(metadata, std::move(pages), properties_.get(),
                                               bloom_filters_->CreateBloomFilter(ordinal));
  return column;
}

std::unique_ptr<FileWriter::Column> FileWriter::MakeRawColumn(bool in_memory) {
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
  auto column = std::make_unique<Column>();
  column->raw =
      std::make_unique<RawColumn>(std::move(to), in_memory ? properties_->memory_pool() : nullptr);
  return column;
}

parquet::ColumnWriter* FileWriter::NextColumn(PageThreads* threads) {
  columns_.push_back(MakeColumn(false, threads));
  return columns_.back()->writer.get();
}

RawColumn* FileWriter::NextRawColumn() {
  columns_.push_back(MakeRawColumn(false));
  return columns_.back()->raw.get();
}

std::vector<FileWriter::Target> FileWriter::AllColumns(const std::vector<Making>& making) {
  std::vector<Target> all;
  for (const Making made : making) {
    columns_.push_back(made == Making::kEncoded ? MakeColumn(true, nullptr)
                                                : MakeRawColumn(made == Making::kPagesInMemory));
    all.push_back(Target{columns_.back()->writer.get(), columns_.back()->raw.get()});
  }
  return all;
}

void FileWriter::CloseColumn(size_t column) {
  Column& closing = *columns_[column];
  if (closing.raw) {
    row_group_bytes_ += closing.raw->Close();
    closing.rows = closing.raw->rows();
    closing.raw.reset();
    return;
  }
  row_group_bytes_ += closing.writer->Close();
  row_group_bytes_ += closing.aside_bytes;
  closing.rows = closing.writer->rows_written();
  closing.writer.reset();
}

void FileWriter::EndRowGroup(int64_t rows) {
  if (std::ssize(columns_) != schema_.num_columns()) {
    throw parquet::ParquetException("a row group lacks columns");
  }
  for (const auto& column : columns_) {
    if (column->rows == rows) continue;
    throw parquet::ParquetException("a column was written with " + std::to_string(column->rows) +
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
  parquet::WriteFileMetaData(*footer, sink_.get());
  return footer;
}

}  // namespace lithify::rewrite
