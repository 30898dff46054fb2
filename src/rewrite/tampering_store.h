// Test-only: a Store whose new objects are changed behind their writer's back, as a fault of the
// writer's, of memory or of a disk would; and faults of Parquet files that no reader can see, since
// sizes, counts and checksums fit.
#ifndef LITHIFY_REWRITE_TAMPERING_STORE_H_
#define LITHIFY_REWRITE_TAMPERING_STORE_H_

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/page_codec.h"
#include "rewrite/page_header.h"
#include "storage/forwarding_store.h"

namespace lithify::rewrite {

class TamperingStore final : public storage::ForwardingStore {
 public:
  // Gets the bytes of an object that is about to be published.
  using Tamper = std::function<void(const std::string& key, std::string& bytes)>;

  // `store` outlives this; this outlives its writers.
  TamperingStore(storage::Store& store, Tamper tamper)
      : ForwardingStore(store), tamper_(std::move(tamper)) {}

  Result<std::unique_ptr<storage::Writer>> Create(const std::string& key) override {
    return std::unique_ptr<storage::Writer>(std::make_unique<HeldWriter>(*this, key));
  }

 private:
  class HeldWriter final : public storage::Writer {
   public:
    HeldWriter(TamperingStore& store, std::string key) : store_(store), key_(std::move(key)) {}
    Status Append(std::span<const std::byte> bytes) override {
      bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }
    int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
    Status Publish() override {
      store_.tamper_(key_, bytes_);
      return store_.store_.PutNew(key_, bytes_);
    }
    void Discard() noexcept override { bytes_.clear(); }

   private:
    TamperingStore& store_;
    const std::string key_;
    std::string bytes_;
  };

  const Tamper tamper_;
};

// A page of a file: its place, and what its header says.
struct PlacedPage {
  size_t start = 0;
  size_t header_bytes = 0;
  PageHeader header;
  size_t body() const { return start + header_bytes; }
  size_t bytes() const { return header_bytes + static_cast<size_t>(header.compressed_page_size); }
};

// The pages of one column chunk.
inline std::vector<PlacedPage> PagesOf(const std::string& file, int row_group, int column) {
  const auto reader = parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(file)));
  const auto chunk = reader->metadata()->RowGroup(row_group)->ColumnChunk(column);
  int64_t at = chunk->data_page_offset();
  if (chunk->has_dictionary_page()) at = std::min(at, chunk->dictionary_page_offset());
  const int64_t end = at + chunk->total_compressed_size();
  std::vector<PlacedPage> pages;
  while (at < end) {
    PlacedPage page;
    page.start = static_cast<size_t>(at);
    const auto length = ParsePageHeader(
        {reinterpret_cast<const uint8_t*>(file.data()) + at, static_cast<size_t>(end - at)},
        &page.header);
    page.header_bytes = *length;
    at += static_cast<int64_t>(page.bytes());
    pages.push_back(page);
  }
  return pages;
}

// Gives the page the checksum of its body; false, and nothing is changed, if the header would get
// another length.
inline bool Seal(std::string& file, PlacedPage page) {
  const auto* body = reinterpret_cast<const uint8_t*>(file.data()) + page.body();
  page.header.crc = Crc32({body, static_cast<size_t>(page.header.compressed_page_size)});
  std::string written;
  AppendPageHeader(page.header, &written);
  if (written.size() != page.header_bytes) return false;
  file.replace(page.start, written.size(), written);
  return true;
}

// Changes one bit of the page's last bytes, which are values, and the checksum with it.
inline bool FlipBit(std::string& file, const PlacedPage& page) {
  const size_t end = page.start + page.bytes();
  for (size_t back = 1; back <= std::min<size_t>(64, page.bytes()); ++back) {
    file[end - back] ^= 1;
    if (Seal(file, page)) return true;
    file[end - back] ^= 1;
  }
  return false;
}

// Exchanges two values of `width` bytes that differ, so that all indices to them mean the other.
inline bool SwapValues(std::string& file, const PlacedPage& page, size_t width) {
  const auto values = static_cast<size_t>(page.header.num_values);
  char* body = file.data() + page.body();
  for (size_t i = 0; i < values; ++i) {
    for (size_t j = i + 1; j < values; ++j) {
      char* a = body + i * width;
      char* b = body + j * width;
      if (std::memcmp(a, b, width) == 0) continue;
      std::swap_ranges(a, a + width, b);
      if (Seal(file, page)) return true;
      std::swap_ranges(a, a + width, b);
    }
  }
  return false;
}

// Exchanges two data pages of one length.
inline bool SwapPages(std::string& file, const std::vector<PlacedPage>& pages) {
  for (size_t i = 0; i < pages.size(); ++i) {
    for (size_t j = i + 1; j < pages.size(); ++j) {
      if (!pages[i].header.is_data() || pages[i].bytes() != pages[j].bytes()) continue;
      char* a = file.data() + pages[i].start;
      char* b = file.data() + pages[j].start;
      if (std::memcmp(a, b, pages[i].bytes()) == 0) continue;
      std::swap_ranges(a, a + pages[i].bytes(), b);
      return true;
    }
  }
  return false;
}

// Puts a data page in the place of another one of its length: some rows twice, others never.
inline bool RepeatPage(std::string& file, const std::vector<PlacedPage>& pages) {
  for (size_t i = 0; i + 1 < pages.size(); ++i) {
    const PlacedPage& page = pages[i];
    const PlacedPage& next = pages[i + 1];
    if (!page.header.is_data() || page.bytes() != next.bytes()) continue;
    const std::string copy = file.substr(page.start, page.bytes());
    if (file.compare(next.start, next.bytes(), copy) == 0) continue;
    file.replace(next.start, next.bytes(), copy);
    return true;
  }
  return false;
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TAMPERING_STORE_H_
