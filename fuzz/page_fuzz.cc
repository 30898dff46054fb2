// A hostile column chunk: page headers, pages, levels, indices, dictionaries; what was read is
// written and read again.
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/memory_pool.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/index_pages.h"
#include "rewrite/page_header.h"
#include "rewrite/raw_pages.h"

namespace lithify::fuzz {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr int64_t kValuesMax = 1 << 16;

Bytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void Header(Bytes bytes) {
  rewrite::PageHeader header;
  const auto size = rewrite::ParsePageHeader(bytes, &header);
  if (!Gave(size) || *size == 0) return;
  Require(*size <= bytes.size(), "a header within its bytes");
  Require(header.v2_level_bytes() <= header.compressed_page_size, "levels within their page");
  std::string written;
  rewrite::AppendPageHeader(header, &written);
  rewrite::PageHeader again;
  Require(Must(rewrite::ParsePageHeader(AsBytes(written), &again), "a header of ours") ==
              written.size(),
          "a whole header");
  Require(again == header, "the header as it was");
}

// As indices of any width and into a dictionary of any size.
void Indices(Bytes values, int64_t count, uint32_t dictionary_size) {
  std::vector<uint32_t> indices(static_cast<size_t>(count));
  const auto read = rewrite::DecodeIndices(values, count, dictionary_size, indices.data());
  std::vector<uint32_t> mapping(dictionary_size);
  for (uint32_t i = 0; i < dictionary_size; ++i) mapping[i] = dictionary_size - 1 - i;
  std::string mapped;
  const int width = rewrite::BitWidth(dictionary_size);
  const auto done = rewrite::AppendMappedIndices(values, count, mapping, width, &mapped);
  Require(Gave(read) == Gave(done), "what can be read can be mapped");
  if (!read) return;
  std::vector<uint32_t> again(indices.size());
  Require(Gave(rewrite::DecodeIndices(AsBytes(mapped), count, dictionary_size, again.data())),
          "mapped indices");
  for (size_t i = 0; i < indices.size(); ++i) {
    Require(again[i] == mapping[indices[i]], "each index mapped");
  }
  (void)rewrite::CountsUp(indices, 0);
  std::string written;
  rewrite::AppendIndices(indices, width, &written);
  Require(Gave(rewrite::DecodeIndices(AsBytes(written), count, dictionary_size, again.data())),
          "indices of ours");
  Require(again == indices, "the indices as they were");
}

void Dictionary(Bytes plain, int64_t num_values, int value_bytes) {
  rewrite::DictionaryUnion united(value_bytes, {4096, 300});
  const auto first = united.Add(plain, num_values);
  const std::string before = united.plain();
  if (Gave(first) && *first) {
    Require((*first)->to.size() == static_cast<size_t>(num_values), "all values");
  } else {
    Require(before.empty() && united.size() == 0, "nothing stays of what was refused");
  }
  const auto second = united.Add(AsBytes(before), united.size());
  Require(Must(second, "a dictionary of ours").value().identity, "the dictionary as it was");
  Require(united.plain() == before, "nothing new");
}

void Pages(Bytes chunk, int64_t num_values, rewrite::LevelShape shape) {
  auto file = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(chunk.data(), static_cast<int64_t>(chunk.size())));
  const auto size = static_cast<int64_t>(chunk.size());
  rewrite::RawPagesOptions options;
  options.read_bytes = 64;
  options.page_bytes_max = 1 << 20;
  options.verify_crc = num_values % 2 == 0;
  rewrite::RawPages pages(std::move(file), size, {0, size, num_values, 0}, options,
                          arrow::default_memory_pool());
  rewrite::RawPage page;
  uint32_t dictionary_size = 0;
  while (true) {
    const auto more = pages.Next(&page);
    if (!Gave(more) || !*more) return;
    if (page.header.type == rewrite::PageType::kDictionary) {
      dictionary_size = static_cast<uint32_t>(std::min<int64_t>(page.header.num_values, 5000));
      Dictionary(page.body, page.header.num_values, 8);
      continue;
    }
    const auto parts = rewrite::TakeApart(page.header, page.body, shape);
    if (!Gave(parts)) continue;
    Require(parts->present >= 0 && parts->present <= page.header.num_values, "present values");
    Require(parts->rows >= 0 && parts->rows <= page.header.num_values, "rows that begin");
    if (parts->present <= kValuesMax) Indices(parts->values, parts->present, dictionary_size);
  }
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  fuzz::Taker taker(fuzz::Text(data, size));
  const uint8_t kind = taker.Byte();
  const uint8_t detail = taker.Byte();
  const fuzz::Bytes rest = fuzz::AsBytes(taker.Bytes(size));
  switch (kind % 4) {
    case 0: fuzz::Header(rest); break;
    case 1: fuzz::Pages(rest, detail, {detail % 3, detail / 3 % 3}); break;
    case 2: fuzz::Indices(rest, detail * 16, 1U << (detail % 13)); break;
    default: fuzz::Dictionary(rest, detail, detail % 18); break;
  }
  return 0;
}
