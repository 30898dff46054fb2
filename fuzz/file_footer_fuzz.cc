// A hostile footer, without its file: what we see in it against what Arrow sees. Either may refuse
// what the other takes, of bytes that no writer made; where both read it, they read the same.
#include <arrow/buffer.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <memory>
#include <optional>
#include <string>

#include "fuzz_input.h"
#include "rewrite/file_footer.h"

namespace lithify::fuzz {
namespace {

// What `make` gives, or nothing where Arrow throws.
template <typename Make>
auto Try(Make&& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const parquet::ParquetException&) {
    return std::nullopt;
  }
}

void SameStatistics(const rewrite::Footer& footer, const rewrite::StoredChunk& chunk,
                    const parquet::ColumnDescriptor& column,
                    const parquet::ColumnChunkMetaData& wanted) {
  const auto stated = footer.TrustedStatistics(chunk, column);
  Require(stated.has_value() == wanted.is_stats_set(), "which statistics count");
  if (!stated) return;
  const auto arrows = wanted.encoded_statistics();
  Require(stated->has_min == arrows->has_min && stated->min() == arrows->min(), "the minimum");
  Require(stated->has_max == arrows->has_max && stated->max() == arrows->max(), "the maximum");
  Require(
      stated->has_null_count == arrows->has_null_count && stated->null_count == arrows->null_count,
      "the nulls");
  Require(stated->is_min_value_exact == arrows->is_min_value_exact &&
              stated->is_max_value_exact == arrows->is_max_value_exact,
          "which bounds are values");
}

void SameChunk(const rewrite::Footer& footer, int g, int c,
               const parquet::ColumnChunkMetaData& wanted) {
  const rewrite::StoredChunk chunk = footer.Chunk(g, c);
  Require(chunk.file_path == wanted.file_path(), "the path");
  Require(chunk.encrypted == (wanted.crypto_metadata() != nullptr), "encryption");
  Require(chunk.codec == Try([&] { return wanted.compression(); }), "the codec");
  Require(chunk.num_values == wanted.num_values(), "the values");
  Require(chunk.total_compressed_size == wanted.total_compressed_size() &&
              chunk.total_uncompressed_size == wanted.total_uncompressed_size(),
          "the sizes");
  Require(chunk.data_page_offset == wanted.data_page_offset() &&
              chunk.dictionary_page_offset.has_value() == wanted.has_dictionary_page() &&
              chunk.dictionary_page_offset.value_or(0) == wanted.dictionary_page_offset() &&
              chunk.bloom_filter_offset == wanted.bloom_filter_offset(),
          "the places");
  const auto same_place = [](const auto& place, const auto& other) {
    return place.has_value() == other.has_value() &&
           (!place || (place->offset == other->offset && place->length == other->length));
  };
  Require(same_place(chunk.column_index, wanted.GetColumnIndexLocation()) &&
              same_place(chunk.offset_index, wanted.GetOffsetIndexLocation()),
          "the indexes");
  SameStatistics(footer, chunk, *footer.schema().Column(c), wanted);
  const auto sizes = wanted.size_statistics();
  Require(chunk.sizes.has_value() == (sizes != nullptr), "statistics of sizes");
  if (sizes == nullptr) return;
  Require(
      chunk.sizes->definition_level_histogram.Values() == sizes->definition_level_histogram &&
          chunk.sizes->repetition_level_histogram.Values() == sizes->repetition_level_histogram &&
          chunk.sizes->unencoded_byte_array_data_bytes == sizes->unencoded_byte_array_data_bytes,
      "the levels");
}

void SamePairs(const rewrite::Footer& footer, const parquet::FileMetaData& wanted) {
  const auto pairs = footer.Pairs();
  const auto& others = wanted.key_value_metadata();
  Require(std::ssize(pairs) == (others == nullptr ? 0 : others->size()), "the pairs");
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    Require(pairs[i].first == others->key(at) && pairs[i].second == others->value(at), "a pair");
  }
}

void Same(const rewrite::Footer& footer, const parquet::FileMetaData& wanted) {
  Require(footer.num_rows() == wanted.num_rows(), "the rows");
  Require(footer.created_by() == wanted.created_by(), "the writer");
  Require(footer.encryption_algorithm_set() == wanted.is_encryption_algorithm_set(), "encryption");
  Require(footer.schema().Equals(*wanted.schema()), "the schema");
  SamePairs(footer, wanted);
  Require(footer.num_row_groups() == wanted.num_row_groups(), "the row groups");
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    const auto group = wanted.RowGroup(g);
    const rewrite::StoredRowGroup& ours = footer.row_group(g);
    Require(ours.num_rows == group->num_rows() &&
                ours.total_byte_size == group->total_byte_size() &&
                ours.total_compressed_size == group->total_compressed_size() &&
                ours.num_columns == group->num_columns(),
            "a row group");
    if (ours.num_columns != footer.num_columns()) continue;
    for (int c = 0; c < ours.num_columns; ++c) {
      const auto chunk = Try([&] { return group->ColumnChunk(c); });
      if (chunk) SameChunk(footer, g, c, **chunk);
    }
  }
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  namespace rewrite = lithify::rewrite;
  const auto bytes = arrow::Buffer::FromString(std::string(fuzz::Text(data, size)));
  rewrite::FileKinds kinds;
  const auto parsed = fuzz::Try([&] { return rewrite::Footer::Parse(bytes, kinds); });
  if (!parsed || !fuzz::Gave(*parsed)) return 0;
  const rewrite::Footer& footer = ***parsed;
  bool encrypted = footer.encryption_algorithm_set();
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    for (int c = 0; c < footer.row_group(g).num_columns; ++c) {
      encrypted = encrypted || footer.Chunk(g, c).encrypted;
    }
  }
  // Such a file is not read, nor what the footer says of keys.
  if (encrypted) return 0;
  const auto arrows =
      fuzz::Try([&] { return parquet::FileMetaData::Make(data, static_cast<int64_t>(size)); });
  if (arrows) fuzz::Same(footer, **arrows);
  return 0;
}
