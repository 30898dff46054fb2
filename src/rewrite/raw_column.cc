#include "rewrite/raw_column.h"

#include <arrow/buffer.h>
#include <parquet/exception.h>

#include <limits>
#include <string>
#include <utility>

#include "rewrite/page_codec.h"
#include "rewrite/row_hash.h"

namespace lithify::rewrite {
namespace {

constexpr int64_t kHeldBytes = 64 << 10;

parquet::Encoding::type ToParquet(PageEncoding encoding) {
  return static_cast<parquet::Encoding::type>(encoding);
}

}  // namespace

RawColumn::RawColumn(Targets targets, arrow::MemoryPool* pool) : to_(std::move(targets)) {
  if (pool != nullptr) {
    PARQUET_ASSIGN_OR_THROW(held_, arrow::io::BufferOutputStream::Create(kHeldBytes, pool));
  }
}

RawColumn::RawColumn(std::unique_ptr<parquet::BlockSplitBloomFilter> filter,
                     arrow::MemoryPool* pool)
    : RawColumn(Targets{}, pool) {
  filter_ = std::move(filter);
}

RawColumn::Written RawColumn::Put(PageHeader& header, std::span<const uint8_t> front,
                                  std::span<const uint8_t> rest) {
  const size_t size = front.size() + rest.size();
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw parquet::ParquetException("a page of more than 2 GiB");
  }
  header.compressed_page_size = static_cast<int32_t>(size);
  if (!header.crc) header.crc = Crc32(rest, Crc32(front));
  header_.clear();
  AppendPageHeader(header, &header_);
  if (!held_ && !start_) {
    PARQUET_ASSIGN_OR_THROW(start_, to_.sink->Tell());
  }
  arrow::io::OutputStream& out = held_ ? *held_ : *to_.sink;
  // Whether in memory or not, offsets count from the chunk's start until it is closed.
  const Written written{compressed_bytes_, static_cast<int64_t>(header_.size() + size)};
  PARQUET_THROW_NOT_OK(out.Write(header_.data(), static_cast<int64_t>(header_.size())));
  for (const auto part : {front, rest}) {
    if (!part.empty()) {
      PARQUET_THROW_NOT_OK(out.Write(part.data(), static_cast<int64_t>(part.size())));
    }
  }
  compressed_bytes_ += written.bytes;
  uncompressed_bytes_ += static_cast<int64_t>(header_.size()) + header.uncompressed_page_size;
  fingerprint_ = HashMix(fingerprint_ + *header.crc);
  return written;
}

void RawColumn::WriteDictionary(PageHeader header, std::span<const uint8_t> body) {
  if (dictionary_at_ || data_at_) {
    throw parquet::ParquetException("a dictionary page that is not the first page");
  }
  dictionary_at_ = Put(header, body, {}).offset;
  ++dictionary_encodings_[ToParquet(header.encoding)];
}

void RawColumn::WriteData(PageHeader header, std::span<const uint8_t> front,
                          std::span<const uint8_t> rest, const Facts& facts) {
  const Written written = Put(header, front, rest);
  if (!data_at_) data_at_ = written.offset;
  ++data_encodings_[ToParquet(header.encoding)];
  // An index by rows needs pages that begin with one.
  offsets_wanted_ = offsets_wanted_ && facts.begins_row;
  bounds_wanted_ = bounds_wanted_ && facts.statistics != nullptr;
  if (offsets_wanted_) {
    IndexedPage& page = pages_.emplace_back();
    page.at = written;
    page.first_row = rows_;
    if (facts.statistics != nullptr) page.statistics = *facts.statistics;
    if (facts.sizes != nullptr) page.sizes = *facts.sizes;
  } else {
    pages_ = {};
  }
  values_ += header.num_values;
  rows_ += facts.rows;
  ++data_pages_;
}

void RawColumn::WriteData(const MadePage& page, std::span<const uint8_t> packed) {
  WriteData(
      page.header, packed, {},
      {page.rows, page.begins_row, page.statistics ? &*page.statistics : nullptr, &page.sizes});
}

void RawColumn::SetStatistics(const parquet::EncodedStatistics& statistics,
                              const parquet::SizeStatistics& sizes) {
  if (statistics.is_set()) statistics_ = statistics;
  if (sizes.is_set()) sizes_ = sizes;
}

void RawColumn::SetGeoStatistics(const parquet::geospatial::EncodedGeoStatistics& statistics) {
  geo_statistics_ = statistics;
}

// A builder that is not finished writes nothing. One index is of no use to readers without the
// other: they find pages through the offsets.
void RawColumn::WriteIndexes(int64_t base) {
  if (to_.offset_index == nullptr || !offsets_wanted_) return;
  for (const IndexedPage& page : pages_) {
    to_.offset_index->AddPage(page.at.offset, static_cast<int32_t>(page.at.bytes), page.first_row,
                              page.sizes.unencoded_byte_array_data_bytes);
  }
  to_.offset_index->Finish(base);
  if (to_.column_index == nullptr || !bounds_wanted_) return;
  for (const IndexedPage& page : pages_) to_.column_index->AddPage(page.statistics, page.sizes);
  to_.column_index->Finish();
}

int64_t RawColumn::Complete(int64_t base) {
  if (!data_at_) throw parquet::ParquetException("a column chunk without a data page");
  if (statistics_) to_.metadata->SetStatistics(*statistics_);
  if (sizes_) to_.metadata->SetSizeStatistics(*sizes_);
  if (geo_statistics_) to_.metadata->SetGeoStatistics(*geo_statistics_);
  WriteIndexes(base);
  pages_ = {};
  to_.metadata->Finish(values_, dictionary_at_ ? base + *dictionary_at_ : 0, -1, base + *data_at_,
                       compressed_bytes_, uncompressed_bytes_, dictionary_at_.has_value(), false,
                       dictionary_encodings_, data_encodings_);
  return uncompressed_bytes_;
}

int64_t RawColumn::Close() {
  int64_t base = start_.value_or(0);
  if (held_) {
    PARQUET_ASSIGN_OR_THROW(base, to_.sink->Tell());
    PARQUET_THROW_NOT_OK(to_.sink->Write(TakeBytes()));
  }
  return Complete(base);
}

std::shared_ptr<arrow::Buffer> RawColumn::TakeBytes() {
  PARQUET_ASSIGN_OR_THROW(auto bytes, held_->Finish());
  held_.reset();
  return bytes;
}

int64_t RawColumn::CloseInto(Targets targets, const WriteBytes& write) {
  to_ = std::move(targets);
  PARQUET_ASSIGN_OR_THROW(const int64_t base, to_.sink->Tell());
  write(*to_.sink);
  PARQUET_ASSIGN_OR_THROW(const int64_t end, to_.sink->Tell());
  if (end - base != compressed_bytes_) {
    throw parquet::ParquetException("a column chunk of " + std::to_string(compressed_bytes_) +
                                    " bytes was put into a file with " +
                                    std::to_string(end - base));
  }
  if (filter_ != nullptr) {
    auto* filter = dynamic_cast<parquet::BlockSplitBloomFilter*>(to_.bloom_filter);
    if (filter == nullptr) throw parquet::ParquetException("a filter of an unknown kind");
    *filter = std::move(*filter_);
    filter_.reset();
  }
  return Complete(base);
}

}  // namespace lithify::rewrite
