#include "rewrite/input_chunk.h"

#include <parquet/exception.h>
#include <parquet/properties.h>

#include <utility>

#include "base/text.h"

namespace lithify::rewrite {
namespace {

using parquet::Type;

// The bytes of an index; null: it is not there, or too large.
std::shared_ptr<arrow::Buffer> ReadIndex(const InputSource& in,
                                         const std::optional<parquet::IndexLocation>& place) {
  constexpr int32_t kIndexBytesMax = 4 << 20;
  if (!place || place->length <= 0 || place->length > kIndexBytesMax || place->offset < 0 ||
      place->offset > in.size - place->length) {
    return nullptr;
  }
  PARQUET_ASSIGN_OR_THROW(auto bytes, in.file->ReadAt(place->offset, place->length));
  return bytes;
}

// The input's own bounds of its data pages; null: there are none, or none to rely on.
std::unique_ptr<parquet::ColumnIndex> ReadColumnIndex(const InputChunk& chunk) {
  if (!chunk.trusted) return nullptr;
  try {
    const auto bytes = ReadIndex(*chunk.in, chunk.index_place);
    if (bytes == nullptr) return nullptr;
    auto index = parquet::ColumnIndex::Make(chunk.descriptor(), bytes->data(),
                                            static_cast<uint32_t>(bytes->size()),
                                            parquet::default_reader_properties());
    const size_t pages = index->null_pages().size();
    const bool fits = (chunk.mask != nullptr || pages == chunk.pages.size()) &&
                      index->encoded_min_values().size() == pages &&
                      index->encoded_max_values().size() == pages &&
                      (!index->has_null_counts() || index->null_counts().size() == pages);
    return fits ? std::move(index) : nullptr;
  } catch (const std::exception&) {
    // It is damaged or cannot be read: the output does without.
    return nullptr;
  }
}

// Of BYTE_ARRAY values, per page; empty: unknown.
std::vector<int64_t> ReadByteSizes(const InputChunk& chunk) {
  try {
    const auto bytes = ReadIndex(*chunk.in, chunk.offsets_place);
    if (bytes == nullptr) return {};
    return parquet::OffsetIndex::Make(bytes->data(), static_cast<uint32_t>(bytes->size()),
                                      parquet::default_reader_properties())
        ->unencoded_byte_array_data_bytes();
  } catch (const std::exception&) {
    return {};
  }
}

// The sum, if there are `count` numbers and none is negative; else -1.
int64_t SumOf(std::span<const int64_t> numbers, size_t count) {
  int64_t sum = 0;
  for (const int64_t n : numbers) {
    if (n < 0 || __builtin_add_overflow(sum, n, &sum)) return -1;
  }
  return numbers.size() == count ? sum : -1;
}

// Page `page`'s part of the histograms of all pages, one after the other.
std::span<const int64_t> PartOf(const std::vector<int64_t>& histograms, size_t page, int max) {
  const size_t size = static_cast<size_t>(max) + 1;
  return std::span(histograms).subspan(page * size, size);
}

Error Short() {
  return Error{Code::kCorrupt, "the file is shorter than its footer says", "",
               "restore the file from its source"};
}

}  // namespace

std::optional<int> PlainBytesOf(const OutputLeaf& leaf) {
  switch (leaf.physical) {
    case Type::INT32:
    case Type::FLOAT: return 4;
    case Type::INT64:
    case Type::DOUBLE: return 8;
    case Type::INT96: return 12;
    case Type::BYTE_ARRAY: return DictionaryUnion::kByteArray;
    case Type::FIXED_LEN_BYTE_ARRAY:
      if (leaf.type_length > 0) return leaf.type_length;
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::unexpected<Error> Leave(std::string why) { return Fail(Code::kUnsupported, std::move(why)); }

bool IsForNextTier(Code code) {
  return code == Code::kUnsupported || code == Code::kCorrupt || code == Code::kLimit;
}

Error Changed() {
  return Error{Code::kCorrupt, "the file changed while it was read", "",
               "find out who writes to it; files of a table are never changed in place"};
}

Result<InputChunk> DescribeChunk(const InputSource& in, const GroupPlace& place, int leaf,
                                 const StoredChunk& stated, const MergedStatistics& merged) {
  InputChunk chunk;
  chunk.in = &in;
  chunk.group = place.group;
  chunk.first_row = place.first_row;
  const LeafSource& source = in.leaves[static_cast<size_t>(leaf)];
  chunk.column = source.input_leaf;
  chunk.rows = chunk.rows_in_group = in.footer->row_group(place.group).num_rows;
  chunk.range.start = ChunkStart(stated.data_page_offset, stated.dictionary_page_offset);
  chunk.range.bytes = stated.total_compressed_size;
  chunk.range.num_values = stated.num_values;
  chunk.has_dictionary = chunk.range.start != stated.data_page_offset;
  if (chunk.range.start < 0 || chunk.range.bytes < 0 || chunk.range.bytes > in.size ||
      chunk.range.start > in.size - chunk.range.bytes) {
    return Leave("its pages are not in the file");
  }
  const parquet::ColumnDescriptor& column = chunk.descriptor();
  chunk.shape = {column.max_definition_level(), column.max_repetition_level()};
  MergedStatistics::Stated told = merged.OfChunk(*in.footer, stated, column);
  chunk.trusted = told.trusted;
  chunk.stated = std::move(told.bounds);
  chunk.nulls = told.nulls;
  chunk.index_place = stated.column_index;
  chunk.offsets_place = stated.offset_index;
  return chunk;
}

// ------------------------------------------------------------------------------------ ChunkBytes

Status ChunkBytes::Hold(InputChunk& chunk) {
  const int64_t bytes = chunk.range.bytes;
  if (chunk.in->file->supports_zero_copy()) {
    auto part = chunk.in->file->ReadAt(chunk.range.start, bytes);
    if (!part.ok()) return Fail(FromArrow(part.status()));
    if ((*part)->size() != bytes) return Fail(Short());
    chunk.held = std::move(*part);
    return {};
  }
  if (options_.hold_bytes->fetch_sub(bytes) < bytes) {
    *options_.hold_bytes += bytes;
    return {};
  }
  held_bytes_ += bytes;
  chunk.held_bytes = bytes;
  auto buffer = arrow::AllocateBuffer(bytes, options_.pool->hard());
  if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
  auto got = chunk.in->file->ReadAt(chunk.range.start, bytes, (*buffer)->mutable_data());
  if (!got.ok()) return Fail(FromArrow(got.status()));
  if (*got != bytes) return Fail(Short());
  chunk.held = std::move(*buffer);
  return {};
}

void ChunkBytes::Release(InputChunk& chunk) {
  chunk.held.reset();
  held_bytes_ -= chunk.held_bytes;
  *options_.hold_bytes += chunk.held_bytes;
  chunk.held_bytes = 0;
}

std::unique_ptr<PageSource> ChunkBytes::Open(const InputChunk& chunk, bool verify_crc) const {
  RawPagesOptions options;
  options.verify_crc = verify_crc;
  options.page_bytes_max = options_.page_bytes_max;
  if (chunk.held == nullptr) {
    return std::make_unique<RawPages>(chunk.in->file, chunk.in->size, chunk.range, options,
                                      options_.pool->hard());
  }
  return std::make_unique<RawPages>(chunk.held, chunk.range, options);
}

// What is read and written page by page goes through the processor's cache, and a whole chunk does
// not.
bool ChunkBytes::MayGoByHeaders(const InputChunk& chunk) {
  constexpr int64_t kBytesWorth = 256 * kKiB;
  return chunk.in->small_reads_are_cheap && chunk.range.bytes >= kBytesWorth &&
         chunk.shape.repetition_max == 0;
}

std::unique_ptr<PageSource> ChunkBytes::OpenHeaders(const InputChunk& chunk) const {
  RawPagesOptions options;
  options.read_bytes = 4 * kKiB;
  options.page_bytes_max = options_.page_bytes_max;
  options.bodies_on_demand = true;
  return std::make_unique<RawPages>(chunk.in->file, chunk.in->size, chunk.range, options,
                                    options_.pool->hard());
}

// ---------------------------------------------------------------------------------- StatedBounds

StatedBounds::StatedBounds(const InputChunk& chunk, const MergedStatistics& merged)
    : chunk_(chunk),
      merged_(merged),
      alone_(chunk.stated && chunk.pages.size() == 1 && !chunk.deletes),
      index_(alone_ ? nullptr : ReadColumnIndex(chunk)) {}

std::optional<parquet::EncodedStatistics> StatedBounds::Of(const RawPage& page) const {
  if (alone_) return chunk_.stated;
  const bool required = chunk_.shape.definition_max == 0;
  // What is in the header of a page that was made anew we stated ourselves.
  auto own = merged_.OfPage(page.header, chunk_.trusted || !page.packed, required);
  const auto at = static_cast<size_t>(page.ordinal);
  const bool indexed = page.packed || !page.header.statistics;
  if (!own && indexed && index_ && at < index_->null_pages().size()) {
    own = merged_.OfIndexed(*index_, at, page.header.num_values, required);
  }
  return own;
}

// ----------------------------------------------------------------------------------- StatedSizes

std::vector<parquet::SizeStatistics> StatedSizes(const InputChunk& chunk,
                                                 const parquet::ColumnIndex* index,
                                                 const parquet::SizeStatistics& of_chunk) {
  const size_t count = chunk.pages.size();
  if (count == 1) return {of_chunk};
  std::vector<parquet::SizeStatistics> sizes(count);
  const int definition_max = chunk.shape.definition_max;
  const int repetition_max = chunk.shape.repetition_max;
  const auto levels = [&](int max) { return count * (static_cast<size_t>(max) + 1); };
  // The levels of each page are as many as they should be, and those that begin rows as counted.
  bool definition = index != nullptr && definition_max > 0 &&
                    index->definition_level_histograms().size() == levels(definition_max);
  bool repetition = index != nullptr && repetition_max > 0 &&
                    index->repetition_level_histograms().size() == levels(repetition_max);
  definition = definition && (repetition || repetition_max == 0);
  for (size_t i = 0; i < count; ++i) {
    int64_t entries = chunk.pages[i].rows;
    if (repetition) {
      const auto part = PartOf(index->repetition_level_histograms(), i, repetition_max);
      entries = part.front() == entries ? SumOf(part, part.size()) : -1;
      sizes[i].repetition_level_histogram.assign(part.begin(), part.end());
    }
    if (definition) {
      const auto part = PartOf(index->definition_level_histograms(), i, definition_max);
      if (SumOf(part, part.size()) != entries) entries = -1;
      sizes[i].definition_level_histogram.assign(part.begin(), part.end());
    }
    if (entries < 0) return {};
  }
  const auto& bytes_of_chunk = of_chunk.unencoded_byte_array_data_bytes;
  if (!bytes_of_chunk) return sizes;
  const std::vector<int64_t> bytes = ReadByteSizes(chunk);
  if (SumOf(bytes, count) != *bytes_of_chunk) return sizes;
  for (size_t i = 0; i < count; ++i) sizes[i].unencoded_byte_array_data_bytes = bytes[i];
  return sizes;
}

}  // namespace lithify::rewrite
