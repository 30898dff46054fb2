#include "rewrite/writer_properties.h"

#include <arrow/util/compression.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "rewrite/footer.h"
#include "rewrite/read_plan.h"

namespace lithify::rewrite {
namespace {

// How one output column is encoded, from what its inputs did.
struct ColumnEncoding {
  bool dictionary = false;
  parquet::Encoding::type plain = parquet::Encoding::PLAIN;
  bool bloom_filter = false;
};

EncodingSet SetOf(std::initializer_list<PageEncoding> encodings) {
  EncodingSet set;
  for (const PageEncoding encoding : encodings) set.Add(static_cast<int32_t>(encoding));
  return set;
}

// Looks at one chunk: was its dictionary worth it? The share of distinct values tells.
struct ChunkEncoding {
  bool dictionary_used = false;
  bool dictionary_abandoned = false;
  double distinct_share = 0;
  parquet::Encoding::type plain = parquet::Encoding::PLAIN;
};

// Those of values, neither plain nor with a dictionary.
constexpr parquet::Encoding::type kOfValues[] = {
    parquet::Encoding::DELTA_BINARY_PACKED, parquet::Encoding::DELTA_LENGTH_BYTE_ARRAY,
    parquet::Encoding::DELTA_BYTE_ARRAY, parquet::Encoding::BYTE_STREAM_SPLIT};

Result<ChunkEncoding> InspectChunk(const InputSource& in, int group, int leaf) {
  static const EncodingSet kDictionary =
      SetOf({PageEncoding::kPlainDictionary, PageEncoding::kRleDictionary});
  ChunkEncoding found;
  const StoredChunk chunk = in.footer->Chunk(group, leaf);
  found.dictionary_used = chunk.encodings.Without(kDictionary) != chunk.encodings;
  found.dictionary_abandoned = !chunk.data_page_encodings.Without(kDictionary).empty();
  for (const auto encoding : kOfValues) {
    if (chunk.encodings.Has(static_cast<PageEncoding>(encoding))) found.plain = encoding;
  }
  if (!found.dictionary_used || found.dictionary_abandoned || chunk.num_values == 0) return found;
  RawPage page;
  LITHIFY_TRY_ASSIGN(const bool any, OpenFirstHeader(in.Pages(), group, leaf)->Next(&page));
  if (any && page.header.type == PageType::kDictionary) {
    found.distinct_share =
        static_cast<double>(page.header.num_values) / static_cast<double>(chunk.num_values);
  }
  return found;
}

// Encodings that hold for the physical type of the output.
bool FitsType(parquet::Encoding::type encoding, const OutputLeaf& leaf) {
  using parquet::Encoding;
  using parquet::Type;
  switch (encoding) {
    case Encoding::DELTA_BINARY_PACKED:
      return leaf.physical == Type::INT32 || leaf.physical == Type::INT64;
    case Encoding::DELTA_LENGTH_BYTE_ARRAY: return leaf.physical == Type::BYTE_ARRAY;
    case Encoding::DELTA_BYTE_ARRAY:
      return leaf.physical == Type::BYTE_ARRAY || leaf.physical == Type::FIXED_LEN_BYTE_ARRAY;
    case Encoding::BYTE_STREAM_SPLIT:
      return leaf.physical != Type::BOOLEAN && leaf.physical != Type::BYTE_ARRAY &&
             leaf.physical != Type::INT96;
    case Encoding::RLE: return leaf.physical == Type::BOOLEAN;
    default: return false;
  }
}

Result<std::vector<ColumnEncoding>> ChooseEncodings(const OpenedGroup& group,
                                                    const OutputShape& shape) {
  constexpr double kDistinctShareMax = 0.5;
  const std::set<size_t> sample = {0, group.inputs.size() / 2, group.inputs.size() - 1};
  if (group.ahead != nullptr) {
    for (const size_t i : sample) {
      group.ahead->Expect(PlanFirstHeaders(*group.inputs[i], group.ahead->extent_bytes_max()));
    }
  }
  std::vector<ColumnEncoding> chosen(group.leaves.size());
  for (size_t leaf = 0; leaf < group.leaves.size(); ++leaf) {
    int seen = 0;
    int worth = 0;
    ColumnEncoding& out = chosen[leaf];
    for (const size_t i : sample) {
      const InputSource& in = *group.inputs[i];
      const LeafSource& source = in.leaves[leaf];
      if (source.levels_only || in.footer->num_row_groups() == 0) continue;
      LITHIFY_TRY_ASSIGN(const ChunkEncoding chunk,
                         GuardParquet(in.key + ": column " + group.leaves[leaf].path,
                                      [&] { return InspectChunk(in, 0, source.input_leaf); }));
      ++seen;
      if (chunk.dictionary_used && !chunk.dictionary_abandoned &&
          chunk.distinct_share <= kDistinctShareMax) {
        ++worth;
      }
      if (FitsType(chunk.plain, group.leaves[leaf])) out.plain = chunk.plain;
    }
    const std::string& path = group.leaves[leaf].path;
    // A column that only stands in for what files lack has few values, but for row ids.
    const bool repeats =
        seen == 0 && std::ranges::any_of(group.inputs, [&](const auto& in) {
          const LeafSource& source = in->leaves[leaf];
          return source.fill.has_value() || (source.inherited && !source.inherited->plus_position);
        });
    out.dictionary = (repeats || (seen > 0 && 2 * worth > seen)) &&
                     group.leaves[leaf].physical != parquet::Type::BOOLEAN &&
                     std::ranges::find(shape.plain_columns, path) == shape.plain_columns.end();
    out.bloom_filter = std::ranges::find(shape.bloom_columns, path) != shape.bloom_columns.end();
    for (const auto& in : group.inputs) {
      const LeafSource& source = in->leaves[leaf];
      if (source.levels_only || in->footer->num_row_groups() == 0) continue;
      if (in->footer->Chunk(0, source.input_leaf).bloom_filter_offset) {
        out.bloom_filter = true;  // P19: an input has one, so the output has one, rebuilt.
      }
    }
    if (group.leaves[leaf].physical == parquet::Type::BOOLEAN) out.bloom_filter = false;
  }
  return chosen;
}

}  // namespace

Result<arrow::Compression::type> CodecOf(const std::string& name) {
  if (name == "zstd") return arrow::Compression::ZSTD;
  if (name == "snappy") return arrow::Compression::SNAPPY;
  if (name == "lz4_raw") return arrow::Compression::LZ4;
  if (name == "gzip") return arrow::Compression::GZIP;
  if (name == "none") return arrow::Compression::UNCOMPRESSED;
  return Fail(Code::kInvalid, "unknown codec " + name, "",
              "use zstd, snappy, lz4_raw, gzip or none");
}

Result<std::shared_ptr<parquet::WriterProperties>> MakeProperties(const OpenedGroup& group,
                                                                  const OutputShape& shape,
                                                                  BoundedPool& pool) {
  LITHIFY_TRY_ASSIGN(const auto codec, CodecOf(shape.codec));
  parquet::WriterProperties::Builder builder;
  builder.memory_pool(pool.soft())
      ->created_by(std::string(kCreatedBy))
      ->compression(codec)
      ->data_pagesize(shape.page_bytes)
      ->max_row_group_length(std::max<int64_t>(shape.row_group_rows, 1))
      ->enable_write_page_index()
      ->enable_page_checksum()
      ->disable_dictionary();
  if (codec == arrow::Compression::ZSTD || codec == arrow::Compression::GZIP) {
    builder.compression_level(shape.codec_level);
  }
  LITHIFY_TRY_ASSIGN(const auto encodings, ChooseEncodings(group, shape));
  if (group.ahead != nullptr) group.ahead->End(kFirstHeadersRound);
  for (size_t leaf = 0; leaf < encodings.size(); ++leaf) {
    const std::string& path = group.leaves[leaf].path;
    if (encodings[leaf].dictionary) {
      builder.enable_dictionary(path);
    } else if (encodings[leaf].plain != parquet::Encoding::PLAIN) {
      builder.encoding(path, encodings[leaf].plain);
    }
    if (encodings[leaf].bloom_filter) {
      builder.enable_bloom_filter(path, parquet::BloomFilterOptions{});
    }
  }
  return builder.build();
}

}  // namespace lithify::rewrite
