// The pages of a column chunk as Parquet's column readers take them, read by RawPages and unpacked
// by PageCodec: of small pages, what Arrow's own page reader makes anew for each costs more than
// they do.
#ifndef LITHIFY_REWRITE_PAGE_READER_H_
#define LITHIFY_REWRITE_PAGE_READER_H_

#include <parquet/column_reader.h>

#include <cstdint>
#include <memory>

#include "base/text.h"
#include "rewrite/file_footer.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {

// A file whose chunks are read; whoever has made it keeps what it points to.
struct PagesFile {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  int64_t size = 0;
  const Footer* footer = nullptr;
  arrow::MemoryPool* pool = nullptr;  // Of buffers that are read into.
  int64_t read_bytes = kMiB;          // One read asks for so many.
};

// The pages of one chunk as they are stored, checksums verified.
std::unique_ptr<RawPages> OpenChunk(const PagesFile& in, int row_group, int column);

// So much of a chunk's beginning has the header of its first page, if not always.
inline constexpr int64_t kFirstHeaderBytes = int64_t{4} << 10;
// Likewise, for a look at the first header alone; bodies come on demand.
std::unique_ptr<RawPages> OpenFirstHeader(const PagesFile& in, int row_group, int column);

// Likewise, unpacked. As with Arrow's own page reader, a page lives until the next one is asked
// for, and pages end with the one that reaches the chunk's number of values, or where its bytes do.
// Throws Parquet's exceptions; errors of storage and of pages come out of GuardParquet() as they
// are.
std::unique_ptr<parquet::PageReader> ReadPages(const PagesFile& in, int row_group, int column);

// A column reader on these pages.
std::shared_ptr<parquet::ColumnReader> ReadColumn(const PagesFile& in, int row_group, int column);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_READER_H_
