// The pages of one column chunk as raw bytes: header parsed, body neither decompressed nor decoded.
#ifndef LITHIFY_REWRITE_RAW_PAGES_H_
#define LITHIFY_REWRITE_RAW_PAGES_H_

#include <arrow/io/type_fwd.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/text.h"
#include "rewrite/page_header.h"

namespace lithify::rewrite {

// Where the pages of a chunk lie, from its metadata.
struct ChunkRange {
  int64_t start = 0;       // See ChunkStart().
  int64_t bytes = 0;       // total_compressed_size.
  int64_t num_values = 0;  // With nulls, over all data pages.
  // Bytes that the chunk may have beyond `bytes`: kOldDictionaryPadding for files of parquet-mr
  // 1.2.8 and older, which left the dictionary's header out of the size (PARQUET-816); else 0.
  int64_t padding = 0;
};

inline constexpr int64_t kOldDictionaryPadding = 100;

// Where the first page is: at the dictionary if it is stated, and in front of the data. Some
// writers state a dictionary at 0 or behind the data; then there is none, as Arrow sees it.
int64_t ChunkStart(int64_t data_page_offset, std::optional<int64_t> dictionary_page_offset);

struct RawPagesOptions {
  bool verify_crc = true;     // Of pages that have one; a mismatch is kCorrupt.
  int64_t read_bytes = kMiB;  // One read asks for so many, more where one page needs it.
  // A page that is larger, compressed or not, is kLimit; no memory is taken for it.
  int64_t page_bytes_max = kGiB;
  // Next() reads headers only, and Load() a body: for a look at chunks whose bytes lie at hand.
  bool bodies_on_demand = false;
  // Pages hold exactly the range's values and bytes; else they end where its bytes do.
  bool exact = true;
};

// Spans are valid until the next call of Next().
struct RawPage {
  PageHeader header;
  int64_t offset = 0;      // Of the header, in the file.
  size_t header_size = 0;  // Bytes.
  int64_t ordinal = 0;     // Of a data page: how many came before it in the file.
  std::span<const uint8_t> header_bytes;
  std::span<const uint8_t> body;   // As stored: header.compressed_page_size bytes.
  std::span<const uint8_t> whole;  // Header and body, to be copied as they are.
  // False: the page was made anew. `body` is what it unpacks to, levels of version 2 in front, and
  // is for the caller to pack; there is nothing else to copy.
  bool packed = true;
  // False: body and whole are not there yet, see PageSource::Load().
  bool loaded = true;
};

// Where pages come from, one after the other. One thread at a time.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // As RawPages::Next().
  virtual Result<bool> Next(RawPage* page) = 0;
  // The body of the page that Next() gave last, if it is not there.
  virtual Status Load(RawPage* /*page*/) { return {}; }
};

// One thread at a time.
class RawPages final : public PageSource {
 public:
  // The buffer is of `pool`. `file_size` bounds the range.
  RawPages(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t file_size,
           const ChunkRange& range, const RawPagesOptions& options, arrow::MemoryPool* pool);
  // The bytes of the range, which are in memory; offsets count from its start.
  RawPages(std::shared_ptr<arrow::Buffer> bytes, const ChunkRange& range,
           const RawPagesOptions& options);
  RawPages(const RawPages&) = delete;
  RawPages& operator=(const RawPages&) = delete;
  ~RawPages() override;

  // The next data or dictionary page; index pages and those of unknown types are passed over.
  // False: that was the last one, and the pages hold exactly the range's values and bytes, if that
  // is asked for. kCorrupt where they do not, or the file is shorter than the range, or a
  // dictionary is not the first page. A chunk of no values has no pages, whatever its bytes: Arrow
  // does not look at them, either. Errors name offsets; the caller adds file and column. After an
  // error or false it says the same again.
  Result<bool> Next(RawPage* page) override;
  Status Load(RawPage* page) override;

  int64_t values_seen() const { return values_; }
  // The page at hand is done with: its memory is given back, if it is much.
  void Release();

 private:
  Result<bool> Advance(RawPage* page);
  Status Fill(RawPage* page);
  Result<std::span<const uint8_t>> Ensure(int64_t bytes);
  Result<size_t> ReadHeader(PageHeader* header);
  Status CheckSizes(const PageHeader& header, int64_t header_bytes) const;
  Status Count(const PageHeader& header);

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  const ChunkRange range_;
  const RawPagesOptions options_;
  arrow::MemoryPool* const pool_ = nullptr;
  const std::shared_ptr<arrow::Buffer> bytes_;  // Null: read from the file.
  int64_t end_ = 0;   // Where reading stops: the end of the range with its padding.
  int64_t at_ = 0;    // Of the next page, in the file.
  int64_t past_ = 0;  // Bytes of the page at at_ that was given out without its body.
  int64_t values_ = 0;
  bool dictionary_ = false;
  int64_t data_pages_ = 0;
  Result<bool> last_{true};
  std::unique_ptr<arrow::ResizableBuffer> buffer_;
  int64_t held_from_ = 0;  // File offset of the buffer's first byte, and how many it holds.
  int64_t held_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RAW_PAGES_H_
