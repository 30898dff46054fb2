#include "rewrite/page_reader.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <parquet/column_page.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>

#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/page_codec.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {
namespace {

[[noreturn]] void Throw(const Error& error) {
  throw parquet::ParquetStatusException(ToArrow(error));
}

parquet::Encoding::type ToParquet(PageEncoding encoding) {
  return encoding > PageEncoding::kByteStreamSplit ? parquet::Encoding::UNKNOWN
                                                   : static_cast<parquet::Encoding::type>(encoding);
}

class UnpackedPages final : public parquet::PageReader {
 public:
  UnpackedPages(std::unique_ptr<RawPages> pages, int64_t num_values, std::optional<PageCodec> codec,
                bool always_compressed, arrow::MemoryPool* pool)
      : pages_(std::move(pages)),
        num_values_(num_values),
        codec_(std::move(codec)),
        always_compressed_(always_compressed),
        pool_(pool) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    if (pages_->values_seen() >= num_values_) return nullptr;
    const auto more = pages_->Next(&page_);
    if (!more) Throw(more.error());
    if (!*more) return nullptr;
    const PageHeader& header = page_.header;
    const bool v2 = header.type == PageType::kDataV2;
    const auto levels = static_cast<size_t>(v2 ? header.v2_level_bytes() : 0);
    const bool packed = !v2 || header.is_compressed || always_compressed_;
    const auto body = codec_ && packed ? Unpack(levels) : Wrap();
    const parquet::Encoding::type encoding = ToParquet(header.encoding);
    switch (header.type) {
      case PageType::kDictionary:
        return std::make_shared<parquet::DictionaryPage>(body, header.num_values, encoding,
                                                         header.is_sorted.value_or(false));
      case PageType::kDataV2:
        return std::make_shared<parquet::DataPageV2>(
            body, header.num_values, header.num_nulls, header.num_rows, encoding,
            header.definition_levels_byte_length, header.repetition_levels_byte_length,
            header.uncompressed_page_size, header.is_compressed);
      default:
        return std::make_shared<parquet::DataPageV1>(
            body, header.num_values, encoding, ToParquet(header.definition_level_encoding),
            ToParquet(header.repetition_level_encoding), header.uncompressed_page_size);
    }
  }

  // Headers have a bound of their own.
  void set_max_page_header_size(uint32_t) override {}

 private:
  std::shared_ptr<arrow::Buffer> Wrap() const {
    return std::make_shared<arrow::Buffer>(page_.body.data(), std::ssize(page_.body));
  }

  // Levels of version 2 come in front as they are.
  std::shared_ptr<arrow::Buffer> Unpack(size_t levels) {
    const int32_t size = page_.header.uncompressed_page_size;
    if (plain_ == nullptr) {
      PARQUET_ASSIGN_OR_THROW(plain_, arrow::AllocateResizableBuffer(size, pool_));
    } else {
      PARQUET_THROW_NOT_OK(plain_->Resize(size, false));
    }
    const std::span<uint8_t> out(plain_->mutable_data(), static_cast<size_t>(size));
    if (levels > 0) std::memcpy(out.data(), page_.body.data(), levels);
    const Status unpacked = codec_->DecompressTo(page_.body.subspan(levels), out.subspan(levels));
    if (!unpacked) Throw(unpacked.error());
    pages_->Release();
    return plain_;
  }

  const std::unique_ptr<RawPages> pages_;
  const int64_t num_values_;
  std::optional<PageCodec> codec_;  // None: bodies are stored as they are.
  // Writers of old said of compressed pages of version 2 that they are not (ARROW-10353).
  const bool always_compressed_;
  arrow::MemoryPool* const pool_;
  RawPage page_;
  std::shared_ptr<arrow::ResizableBuffer> plain_;  // Of the page at hand.
};

std::unique_ptr<RawPages> Open(const PagesFile& in, int row_group, int column,
                               RawPagesOptions options) {
  static const parquet::ApplicationVersion kPadded("parquet-mr", 1, 2, 9);
  const StoredChunk chunk = in.footer->Chunk(row_group, column);
  ChunkRange range;
  range.start = ChunkStart(chunk.data_page_offset, chunk.dictionary_page_offset);
  range.bytes = chunk.total_compressed_size;
  range.num_values = chunk.num_values;
  if (in.footer->writer_version().VersionLt(kPadded)) range.padding = kOldDictionaryPadding;
  options.page_bytes_max = std::numeric_limits<int32_t>::max();
  options.exact = false;
  if (in.file->supports_zero_copy() && range.padding == 0) {
    PARQUET_ASSIGN_OR_THROW(auto bytes, in.file->ReadAt(range.start, range.bytes));
    if (bytes->size() == range.bytes) {
      return std::make_unique<RawPages>(std::move(bytes), range, options);
    }
  }
  return std::make_unique<RawPages>(in.file, in.size, range, options, in.pool);
}

}  // namespace

std::unique_ptr<RawPages> OpenChunk(const PagesFile& in, int row_group, int column) {
  RawPagesOptions options;
  options.read_bytes = in.read_bytes;
  return Open(in, row_group, column, options);
}

std::unique_ptr<RawPages> OpenFirstHeader(const PagesFile& in, int row_group, int column) {
  RawPagesOptions options;
  options.read_bytes = kFirstHeaderBytes;
  options.bodies_on_demand = true;
  return Open(in, row_group, column, options);
}

std::unique_ptr<parquet::PageReader> ReadPages(const PagesFile& in, int row_group, int column) {
  static const parquet::ApplicationVersion kAlwaysCompressed("parquet-cpp", 2, 0, 0);
  const StoredChunk chunk = in.footer->Chunk(row_group, column);
  std::optional<PageCodec> codec;
  if (chunk.codec != arrow::Compression::UNCOMPRESSED) {
    auto made = PageCodec::Make(chunk.codec.value());
    if (!made) Throw(made.error());
    codec = std::move(*made);
  }
  return std::make_unique<UnpackedPages>(
      OpenChunk(in, row_group, column), chunk.num_values, std::move(codec),
      in.footer->writer_version().VersionLt(kAlwaysCompressed), in.pool);
}

std::shared_ptr<parquet::ColumnReader> ReadColumn(const PagesFile& in, int row_group, int column) {
  return parquet::ColumnReader::Make(in.footer->schema().Column(column),
                                     ReadPages(in, row_group, column), in.pool);
}

}  // namespace lithify::rewrite
