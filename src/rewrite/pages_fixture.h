// Test-only: the pages of a Parquet file as they are stored, and files made of pages.
#ifndef LITHIFY_REWRITE_PAGES_FIXTURE_H_
#define LITHIFY_REWRITE_PAGES_FIXTURE_H_

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/file_writer.h"
#include "rewrite/page_header.h"
#include "rewrite/raw_column.h"

namespace lithify::rewrite {

// Header and body, as stored.
struct PageOf {
  PageHeader header;
  std::string body;
  bool operator==(const PageOf&) const = default;
};

// The pages of a chunk.
inline std::vector<PageOf> PagesOf(const std::string& bytes, int group = 0, int column = 0) {
  const auto reader = parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
  const auto chunk = reader->metadata()->RowGroup(group)->ColumnChunk(column);
  int64_t at =
      chunk->has_dictionary_page() ? chunk->dictionary_page_offset() : chunk->data_page_offset();
  const int64_t end = at + chunk->total_compressed_size();
  std::vector<PageOf> pages;
  while (at < end) {
    PageOf page;
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + at;
    const auto length =
        ParsePageHeader(std::span(data, static_cast<size_t>(end - at)), &page.header);
    EXPECT_TRUE(length && *length > 0);
    const auto size = static_cast<size_t>(page.header.compressed_page_size);
    page.body.assign(reinterpret_cast<const char*>(data) + *length, size);
    at += static_cast<int64_t>(*length + size);
    pages.push_back(std::move(page));
  }
  return pages;
}

// A file of one required column "c" of so many longs, of this logical type if any; `write` puts its
// pages.
inline std::string FileOfPages(
    const std::shared_ptr<parquet::WriterProperties>& properties, int64_t rows,
    const std::function<void(RawColumn&)>& write,
    const std::shared_ptr<const parquet::LogicalType>& logical = parquet::LogicalType::None()) {
  using parquet::schema::GroupNode;
  const auto schema = std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", parquet::Repetition::REQUIRED,
                      {parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::REQUIRED,
                                                            logical, parquet::Type::INT64)}));
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  FileWriter writer(sink, schema, properties);
  writer.StartRowGroup();
  write(*writer.NextColumn());
  writer.CloseColumn(0);
  writer.EndRowGroup(rows);
  writer.Close(nullptr);
  return sink->Finish().ValueOrDie()->ToString();
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGES_FIXTURE_H_
