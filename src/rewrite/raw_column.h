// A column chunk of an output written as pages that are there already: their bytes, offsets, page
// index and metadata, without a value being encoded.
#ifndef LITHIFY_REWRITE_RAW_COLUMN_H_
#define LITHIFY_REWRITE_RAW_COLUMN_H_

#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/memory_pool.h>
#include <parquet/bloom_filter.h>
#include <parquet/geospatial/statistics.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>
#include <parquet/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rewrite/page_header.h"

namespace lithify::rewrite {

// A data page with all that is known of it.
struct MadePage {
  PageHeader header;
  std::string body;  // Unpacked.
  int64_t rows = 0;  // That begin in it.
  bool begins_row = true;
  std::optional<parquet::EncodedStatistics> statistics;
  parquet::SizeStatistics sizes;
};

// Throws Parquet's exceptions. One thread at a time.
class RawColumn {
 public:
  struct Targets {
    std::shared_ptr<arrow::io::OutputStream> sink;
    parquet::ColumnChunkMetaDataBuilder* metadata = nullptr;
    parquet::ColumnIndexBuilder* column_index = nullptr;  // Null: none is wanted.
    parquet::OffsetIndexBuilder* offset_index = nullptr;  // Likewise.
    parquet::BloomFilter* bloom_filter = nullptr;         // Likewise.
  };
  // With `pool`, pages wait in memory until Close(); else they go to the sink at once, which is
  // this column's alone from the first page to Close().
  RawColumn(Targets targets, arrow::MemoryPool* pool);
  // For a file that is not there yet: pages wait in memory until TakeBytes(), and what is said of
  // them until CloseInto().
  RawColumn(std::unique_ptr<parquet::BlockSplitBloomFilter> filter, arrow::MemoryPool* pool);

  // What a data page holds, as far as it is known.
  struct Facts {
    int64_t rows = 0;        // That begin in it.
    bool begins_row = true;  // Whether its first entry begins a row.
    // Null: unknown, and the chunk gets no column index.
    const parquet::EncodedStatistics* statistics = nullptr;
    // Null: unknown. What is known of one data page is of all of the chunk.
    const parquet::SizeStatistics* sizes = nullptr;
  };

  // Before all data pages, at most once. Of the header, the sizes and the checksum are set here:
  // `body` as stored is what is written.
  void WriteDictionary(PageHeader header, std::span<const uint8_t> body);
  // The body may come in two pieces. A header's checksum is that of the body, or absent.
  void WriteData(PageHeader header, std::span<const uint8_t> front, std::span<const uint8_t> rest,
                 const Facts& facts);

  // A page that has been packed.
  void WriteData(const MadePage& page, std::span<const uint8_t> packed);

  // What the footer says of the chunk besides.
  void SetStatistics(const parquet::EncodedStatistics& statistics,
                     const parquet::SizeStatistics& sizes);
  void SetGeoStatistics(const parquet::geospatial::EncodedGeoStatistics& statistics);
  // Completes the chunk; returns its uncompressed bytes, headers included.
  int64_t Close();

  // Of a chunk without targets, once: its pages as they lie in a file.
  std::shared_ptr<arrow::Buffer> TakeBytes();
  // Completes it in a file: `write` puts the bytes that were taken there. As Close().
  using WriteBytes = std::function<void(arrow::io::OutputStream& sink)>;
  int64_t CloseInto(Targets targets, const WriteBytes& write);

  // To be filled with every value of the chunk; null: there is none.
  parquet::BloomFilter* bloom_filter() const {
    return filter_ != nullptr ? filter_.get() : to_.bloom_filter;
  }
  int64_t rows() const { return rows_; }
  int64_t data_pages() const { return data_pages_; }
  int64_t uncompressed_bytes() const { return uncompressed_bytes_; }  // Headers included.
  int64_t compressed_bytes() const { return compressed_bytes_; }      // Likewise.
  // Of all that was written: another content gives another number.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Written {
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  // What the indexes say of a data page.
  struct IndexedPage {
    Written at;
    int64_t first_row = 0;
    parquet::EncodedStatistics statistics;
    parquet::SizeStatistics sizes;
  };
  Written Put(PageHeader& header, std::span<const uint8_t> front, std::span<const uint8_t> rest);
  int64_t Complete(int64_t base);
  void WriteIndexes(int64_t base);

  Targets to_;
  std::unique_ptr<parquet::BlockSplitBloomFilter> filter_;  // Without targets.
  std::shared_ptr<arrow::io::BufferOutputStream> held_;     // Null: written through.
  std::optional<int64_t> start_;                            // In the sink, once written through.
  std::string header_;
  int64_t compressed_bytes_ = 0;
  int64_t uncompressed_bytes_ = 0;
  std::optional<int64_t> dictionary_at_;
  std::optional<int64_t> data_at_;
  std::map<parquet::Encoding::type, int32_t> dictionary_encodings_;
  std::map<parquet::Encoding::type, int32_t> data_encodings_;
  bool offsets_wanted_ = true;  // Until a page begins within a row.
  bool bounds_wanted_ = true;   // Until a page comes of which nothing is known.
  std::vector<IndexedPage> pages_;
  std::optional<parquet::EncodedStatistics> statistics_;
  std::optional<parquet::SizeStatistics> sizes_;
  std::optional<parquet::geospatial::EncodedGeoStatistics> geo_statistics_;
  int64_t values_ = 0;
  int64_t rows_ = 0;
  int64_t data_pages_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RAW_COLUMN_H_
