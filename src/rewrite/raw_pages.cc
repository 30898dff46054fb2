#include "rewrite/raw_pages.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/page_codec.h"

namespace lithify::rewrite {
namespace {

std::unexpected<Error> Corrupt(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "", "restore the file from its source");
}

// A range that lies within the file.
Status CheckRange(const ChunkRange& range, int64_t file_size) {
  if (range.num_values < 0 || range.padding < 0) {
    return Corrupt("a column chunk of " + std::to_string(range.num_values) + " values");
  }
  if (range.start < 0 || range.bytes < 0 || range.start > file_size ||
      range.bytes > file_size - range.start) {
    return Corrupt("a column chunk of " + std::to_string(range.bytes) + " bytes at " +
                   std::to_string(range.start) + " in a file of " + std::to_string(file_size));
  }
  return {};
}

}  // namespace

int64_t ChunkStart(int64_t data_page_offset, std::optional<int64_t> dictionary_page_offset) {
  const int64_t dictionary = dictionary_page_offset.value_or(0);
  return dictionary > 0 && dictionary < data_page_offset ? dictionary : data_page_offset;
}

RawPages::RawPages(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t file_size,
                   const ChunkRange& range, const RawPagesOptions& options, arrow::MemoryPool* pool)
    : file_(std::move(file)), range_(range), options_(options), pool_(pool), at_(range.start) {
  if (const Status checked = CheckRange(range, file_size); !checked) {
    last_ = Fail(checked.error());
    return;
  }
  const int64_t behind = file_size - range.start - range.bytes;
  end_ = range.start + range.bytes + std::min(range.padding, behind);
  held_from_ = range.start;
}

RawPages::RawPages(std::shared_ptr<arrow::Buffer> bytes, const ChunkRange& range,
                   const RawPagesOptions& options)
    : range_(0, range.bytes, range.num_values, 0), options_(options), bytes_(std::move(bytes)) {
  if (const Status checked = CheckRange(range_, bytes_->size()); !checked) {
    last_ = Fail(checked.error());
  }
  end_ = range_.bytes;
}

RawPages::~RawPages() = default;

Result<bool> RawPages::Next(RawPage* page) {
  if (last_ && *last_) last_ = Advance(page);
  return last_;
}

void RawPages::Release() {
  if (buffer_ == nullptr || buffer_->size() <= options_.read_bytes) return;
  buffer_.reset();
  held_from_ = at_;
  held_ = 0;
}

Result<bool> RawPages::Advance(RawPage* page) {
  // Where writers made no data page, they state its offset as 0.
  if (range_.num_values == 0) return false;
  at_ += std::exchange(past_, 0);
  while (options_.exact ? at_ < range_.start + range_.bytes || values_ < range_.num_values
                        : at_ < end_) {
    LITHIFY_TRY_ASSIGN(const size_t header_size, ReadHeader(&page->header));
    const auto header_bytes = static_cast<int64_t>(header_size);
    LITHIFY_TRY(CheckSizes(page->header, header_bytes));
    page->offset = at_;
    page->header_size = header_size;
    page->ordinal = data_pages_;
    page->packed = true;
    page->loaded = false;
    if (!options_.bodies_on_demand) LITHIFY_TRY(Fill(page));
    LITHIFY_TRY(Count(page->header));
    past_ = header_bytes + page->header.compressed_page_size;
    if (page->header.is_data() || page->header.type == PageType::kDictionary) return true;
    at_ += std::exchange(past_, 0);
  }
  return false;
}

Status RawPages::Load(RawPage* page) {
  if (page->loaded) return {};
  if (Status filled = Fill(page); !filled) {
    last_ = Fail(filled.error());
    return filled;
  }
  return {};
}

// The page at at_, whose header has been read.
Status RawPages::Fill(RawPage* page) {
  const size_t header_size = page->header_size;
  const auto bytes = header_size + static_cast<size_t>(page->header.compressed_page_size);
  LITHIFY_TRY_ASSIGN(const auto held, Ensure(static_cast<int64_t>(bytes)));
  page->whole = held.first(bytes);
  page->header_bytes = page->whole.first(header_size);
  page->body = page->whole.subspan(header_size);
  page->loaded = true;
  if (options_.verify_crc && page->header.crc && Crc32(page->body) != *page->header.crc) {
    return Corrupt("the checksum of the page at " + std::to_string(at_) + " is wrong");
  }
  return {};
}

// At least `bytes` from at_ on, or all that there are up to the end.
Result<std::span<const uint8_t>> RawPages::Ensure(int64_t bytes) {
  bytes = std::min(bytes, end_ - at_);
  if (bytes_ != nullptr) return std::span(bytes_->data() + at_, static_cast<size_t>(end_ - at_));
  int64_t kept = std::max<int64_t>(0, held_from_ + held_ - at_);
  if (kept < bytes) {
    const int64_t want =
        std::min(std::max(bytes, std::max<int64_t>(options_.read_bytes, 1)), end_ - at_);
    if (buffer_ == nullptr || buffer_->size() < want) {
      auto larger = arrow::AllocateResizableBuffer(want, pool_);
      if (!larger.ok()) return Fail(FromArrow(larger.status()));
      if (kept > 0)
        std::memcpy((*larger)->mutable_data(), buffer_->data() + (at_ - held_from_),
                    static_cast<size_t>(kept));
      buffer_ = std::move(*larger);
    } else if (kept > 0) {
      std::memmove(buffer_->mutable_data(), buffer_->data() + (at_ - held_from_),
                   static_cast<size_t>(kept));
    }
    held_from_ = at_;
    held_ = kept;
    while (held_ < want) {
      const auto got = file_->ReadAt(at_ + held_, want - held_, buffer_->mutable_data() + held_);
      if (!got.ok()) return Fail(FromArrow(got.status()));
      if (*got <= 0) {
        return Corrupt("the file ends at " + std::to_string(at_ + held_) +
                       ", within a column chunk");
      }
      held_ += *got;
    }
    kept = held_;
  }
  return std::span(buffer_->data() + (at_ - held_from_), static_cast<size_t>(kept));
}

Result<size_t> RawPages::ReadHeader(PageHeader* header) {
  // Most headers are shorter; statistics can make them long.
  int64_t want = 256;
  while (at_ < end_) {
    LITHIFY_TRY_ASSIGN(const auto held, Ensure(want));
    auto parsed = ParsePageHeader(held, header);
    if (!parsed) return Fail(std::move(parsed.error()).In("offset " + std::to_string(at_)));
    if (*parsed > 0) return *parsed;
    if (static_cast<int64_t>(held.size()) >= end_ - at_) break;
    want = static_cast<int64_t>(held.size()) * 2;
  }
  return Corrupt("the column chunk ends at " + std::to_string(end_) + " after " +
                 std::to_string(values_) + " of " + std::to_string(range_.num_values) + " values");
}

Status RawPages::CheckSizes(const PageHeader& header, int64_t header_bytes) const {
  const int64_t largest = std::max(header.compressed_page_size, header.uncompressed_page_size);
  if (largest > options_.page_bytes_max) {
    return Fail(Code::kLimit,
                "the page at " + std::to_string(at_) + " has " + FormatBytes(largest) +
                    ", more than " + FormatBytes(options_.page_bytes_max),
                "", "raise --memory; the file may be damaged");
  }
  if (header_bytes + header.compressed_page_size > end_ - at_) {
    return Corrupt("the page at " + std::to_string(at_) + " of " +
                   std::to_string(header.compressed_page_size) +
                   " bytes reaches behind its column chunk, which ends at " + std::to_string(end_));
  }
  return {};
}

Status RawPages::Count(const PageHeader& header) {
  if (header.type == PageType::kDictionary) {
    if (dictionary_ || data_pages_ > 0) {
      return Corrupt("the dictionary at " + std::to_string(at_) + " is not the first page");
    }
    dictionary_ = true;
  }
  if (!header.is_data()) return {};
  ++data_pages_;
  values_ += header.num_values;
  if (options_.exact && values_ > range_.num_values) {
    return Corrupt("pages of more than the " + std::to_string(range_.num_values) +
                   " values of their column chunk, at " + std::to_string(at_));
  }
  return {};
}

}  // namespace lithify::rewrite
