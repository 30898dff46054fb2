// Writes one Parquet file row group by row group, like parquet::ParquetFileWriter, but columns are
// made of pages that are there already (RawColumn), and give up their memory as soon as they can.
#ifndef LITHIFY_REWRITE_FILE_WRITER_H_
#define LITHIFY_REWRITE_FILE_WRITER_H_

#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/bloom_filter_writer.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "rewrite/raw_column.h"

namespace lithify::rewrite {

// Throws Parquet's exceptions. One thread at a time, but for the columns of AllColumns().
class FileWriter {
 public:
  FileWriter(std::shared_ptr<arrow::io::OutputStream> sink,
             const std::shared_ptr<parquet::schema::GroupNode>& schema,
             std::shared_ptr<parquet::WriterProperties> properties);

  const parquet::SchemaDescriptor& schema() const { return schema_; }

  void StartRowGroup();
  // The row group's next column, written to the file as it grows; close it before the next one.
  RawColumn* NextColumn();
  // Instead: all columns of the row group. Those made in memory may each belong to another thread;
  // others are written when it is their turn to be closed.
  enum class Making { kInMemory, kInTurn };
  std::vector<RawColumn*> AllColumns(const std::vector<Making>& making);
  // Columns are closed in schema order: that writes what they hold to the file.
  void CloseColumn(size_t column);
  // Instead: the row group's next column, made before by itself (MakeWaitingColumn()), and closed.
  void AddColumn(RawColumn& waiting, const RawColumn::WriteBytes& write);
  // Each column is closed and has `rows` rows.
  void EndRowGroup(int64_t rows);

  // Writes the indexes and the footer.
  std::shared_ptr<parquet::FileMetaData> Close(
      const std::shared_ptr<const arrow::KeyValueMetadata>& pairs);
  // Of the footer, without its length and the magic number; after Close().
  int64_t footer_bytes() const { return footer_bytes_; }

 private:
  struct Column {
    std::unique_ptr<RawColumn> pages;
    int64_t rows = -1;  // Known once closed.
  };
  RawColumn::Targets NextTargets();
  RawColumn* MakeColumn(bool in_memory);

  const std::shared_ptr<arrow::io::OutputStream> sink_;
  const std::shared_ptr<parquet::WriterProperties> properties_;
  parquet::SchemaDescriptor schema_;
  std::unique_ptr<parquet::FileMetaDataBuilder> metadata_;
  std::unique_ptr<parquet::PageIndexBuilder> page_index_;
  std::unique_ptr<parquet::BloomFilterBuilder> bloom_filters_;
  parquet::RowGroupMetaDataBuilder* row_group_ = nullptr;
  int64_t row_group_bytes_ = 0;  // Uncompressed, of the closed columns.
  std::vector<Column> columns_;
  int64_t footer_bytes_ = 0;
};

// A column chunk for a file of these properties that is not there yet; its pages are held in memory
// of the properties' pool.
std::unique_ptr<RawColumn> MakeWaitingColumn(const parquet::SchemaDescriptor& schema, int column,
                                             const parquet::WriterProperties& properties);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FILE_WRITER_H_
