// Writes one Parquet file row group by row group, like parquet::ParquetFileWriter and with the same
// bytes, but lets other threads compress the pages of a column that is streamed, and gives up the
// memory of columns that are encoded in memory as soon as it can. A column may also be made of
// pages that are there already (RawColumn).
#ifndef LITHIFY_REWRITE_FILE_WRITER_H_
#define LITHIFY_REWRITE_FILE_WRITER_H_

#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/bloom_filter_writer.h>
#include <parquet/column_writer.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "rewrite/page_threads.h"
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
  // With `threads`, they compress its pages where that cannot change the bytes.
  parquet::ColumnWriter* NextColumn(PageThreads* threads);
  // Likewise, as pages.
  RawColumn* NextRawColumn();
  // Instead: all columns of the row group. Those made in memory may each belong to another thread;
  // a column of pages may also be written when it is its turn to be closed.
  enum class Making { kEncoded, kPagesInMemory, kPagesInTurn };
  struct Target {
    parquet::ColumnWriter* writer = nullptr;  // One of the two is not null.
    RawColumn* raw = nullptr;
  };
  std::vector<Target> AllColumns(const std::vector<Making>& making);
  // Columns are closed in schema order: that writes what they hold to the file.
  void CloseColumn(size_t column);
  // Each column is closed and has `rows` rows.
  void EndRowGroup(int64_t rows);

  // Writes the indexes and the footer.
  std::shared_ptr<parquet::FileMetaData> Close(
      const std::shared_ptr<const arrow::KeyValueMetadata>& pairs);

 private:
  struct Column {
    std::shared_ptr<parquet::ColumnWriter> writer;
    std::unique_ptr<RawColumn> raw;
    int64_t aside_bytes = 0;  // Uncompressed, of pages that other threads compressed.
    int64_t rows = -1;        // Known once closed.
  };
  std::unique_ptr<Column> MakeColumn(bool in_memory, PageThreads* threads);
  std::unique_ptr<Column> MakeRawColumn(bool in_memory);

  const std::shared_ptr<arrow::io::OutputStream> sink_;
  const std::shared_ptr<parquet::WriterProperties> properties_;
  parquet::SchemaDescriptor schema_;
  std::unique_ptr<parquet::FileMetaDataBuilder> metadata_;
  std::unique_ptr<parquet::PageIndexBuilder> page_index_;
  std::unique_ptr<parquet::BloomFilterBuilder> bloom_filters_;
  parquet::RowGroupMetaDataBuilder* row_group_ = nullptr;
  int64_t row_group_bytes_ = 0;  // Uncompressed, of the closed columns.
  std::vector<std::unique_ptr<Column>> columns_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FILE_WRITER_H_
