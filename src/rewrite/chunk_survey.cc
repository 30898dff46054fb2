#include "rewrite/chunk_survey.h"

#include <algorithm>
#include <span>
#include <utility>

#include "rewrite/masked_statistics.h"

namespace lithify::rewrite {
namespace {

using parquet::Type;

// A dictionary that becomes a page or is looked at, and the entries of that page.
constexpr int32_t kDictionaryBytesMax = 8 << 20;
constexpr int64_t kUnfoldedValuesMax = int64_t{2} << 20;

bool Fits(PageEncoding encoding, Type::type type) {
  switch (encoding) {
    case PageEncoding::kPlain: return true;
    case PageEncoding::kRle: return type == Type::BOOLEAN;
    case PageEncoding::kDeltaBinaryPacked: return type == Type::INT32 || type == Type::INT64;
    case PageEncoding::kDeltaLengthByteArray: return type == Type::BYTE_ARRAY;
    case PageEncoding::kDeltaByteArray:
      return type == Type::BYTE_ARRAY || type == Type::FIXED_LEN_BYTE_ARRAY;
    case PageEncoding::kByteStreamSplit:
      return type != Type::BOOLEAN && type != Type::BYTE_ARRAY && type != Type::INT96;
    default: return false;
  }
}

Status AddLevels(std::span<const uint8_t> hybrid, int max, int64_t count,
                 std::vector<uint32_t>& into) {
  if (max == 0) return {};
  const size_t before = into.size();
  into.resize(before + static_cast<size_t>(count));
  const auto top = static_cast<uint32_t>(max);
  return DecodeHybrid(hybrid, BitWidth(top), count, uint64_t{top} + 1, into.data() + before);
}

}  // namespace

bool Joins(PageEncoding encoding, Type::type type) {
  return encoding == PageEncoding::kPlain ||
         (encoding == PageEncoding::kRle && type == Type::BOOLEAN);
}

bool AreSmall(const ColumnSpliceOptions& options, const InputChunk::Amount& amount) {
  return amount.pages > 0 && amount.bytes / amount.pages < options.page_bytes_min &&
         amount.values / amount.pages < options.page_values_min;
}

Status ChunkSurvey::Look(PageSource& pages, InputChunk& chunk, Dictionary& dictionary) {
  int64_t rows = 0;
  RawPage page;
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, pages.Next(&page));
    if (!more) break;
    if (!page.header.is_data()) {
      if (dictionary.judged) LITHIFY_TRY(pages.Load(&page));
      LITHIFY_TRY(KeepDictionary(page, dictionary));
      continue;
    }
    // Some readers take an empty page for the end of the chunk: none is written.
    if (page.header.num_values == 0) continue;
    const bool judged = dictionary.judged && page.header.uses_dictionary();
    if (judged || LooksAtLevels(page.header, chunk)) {
      LITHIFY_TRY(pages.Load(&page));
    }
    InputChunk::Page seen;
    LITHIFY_TRY(LookAtPage(page, chunk, dictionary, seen));
    if (chunk.pages.empty() && !seen.begins_row) return Leave("it does not begin with a row");
    rows += seen.rows;
    chunk.pages.push_back(seen);
  }
  if (rows != chunk.rows || chunk.pages.empty()) {
    return Fail(Code::kCorrupt, "it has another number of rows than its row group");
  }
  if (chunk.folded.pages == 0) dictionary.header.reset();
  return {};
}

Status ChunkSurvey::KeepDictionary(const RawPage& page, Dictionary& dictionary) const {
  const PageEncoding encoding = page.header.encoding;
  if (encoding != PageEncoding::kPlain && encoding != PageEncoding::kPlainDictionary) {
    return Leave("its dictionary is encoded in an unknown way");
  }
  dictionary.header = page.header;
  if (!dictionary.judged) {
    dictionary.in_order = false;
    return {};
  }
  if (page.header.uncompressed_page_size > kDictionaryBytesMax) {
    return Leave("its dictionary is large");
  }
  dictionary.packed = page.packed;
  dictionary.body.assign(reinterpret_cast<const char*>(page.body.data()), page.body.size());
  return {};
}

Status ChunkSurvey::LookAtPage(const RawPage& page, InputChunk& chunk, Dictionary& dictionary,
                               InputChunk::Page& seen) {
  const PageHeader& header = page.header;
  seen.rows = header.num_values;
  if (header.type == PageType::kData &&
      ((chunk.shape.definition_max > 0 && header.definition_level_encoding != PageEncoding::kRle) ||
       (chunk.shape.repetition_max > 0 &&
        header.repetition_level_encoding != PageEncoding::kRle))) {
    return Leave("its levels are encoded in an old way");
  }
  const bool unpacks = chunk.transcoded || header.uses_dictionary() || options_.bloom_filter ||
                       (header.type == PageType::kData &&
                        (chunk.shape.repetition_max > 0 || !chunk.level_map.empty()));
  if (unpacks && header.uncompressed_page_size > options_.page_bytes_max / 4) {
    return Leave("a page that is unpacked is large");
  }
  if (header.uses_dictionary()) return LookAtIndices(page, chunk, dictionary, seen);
  const Type::type physical = options_.output.physical;
  if (!Fits(header.encoding, physical)) return Leave("an unknown encoding");
  if (options_.bloom_filter && !HasPlainForm(header.encoding, FormOf(*options_.column))) {
    return Leave("a filter is made of its values");
  }
  LITHIFY_TRY(LookAtLevels(page, chunk, seen));
  (Joins(header.encoding, physical) ? chunk.plain : chunk.rigid).Add(header);
  chunk.other_values = chunk.other_values || seen.has_values;
  return {};
}

Status ChunkSurvey::LookAtIndices(const RawPage& page, InputChunk& chunk, Dictionary& dictionary,
                                  InputChunk::Page& seen) {
  const PageHeader& header = page.header;
  if (!dictionary.header || !PlainBytesOf(options_.output)) return Leave("it has no dictionary");
  chunk.folded.Add(header);
  chunk.folded_values_max = std::max(chunk.folded_values_max, header.num_values);
  if (chunk.other_values) chunk.after_others = true;
  dictionary.statistics = header.statistics;
  if (chunk.plain.pages + chunk.rigid.pages > 0) dictionary.in_order = false;
  if (dictionary.in_order) dictionary.in_order = MayCountUp(header, chunk, dictionary);
  if (!dictionary.in_order) return LookAtLevels(page, chunk, seen);
  LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                     UnpackPage(page, chunk.shape, *chunk.codec, &unpacked_));
  LITHIFY_TRY(CheckLevels(header, unpacked.parts, chunk, seen));
  return CountUp(header, unpacked, chunk, dictionary);
}

// Whether the header does not tell the rows of a page.
bool ChunkSurvey::LooksAtLevels(const PageHeader& header, const InputChunk& chunk) {
  if (header.type == PageType::kDataV2 || chunk.shape.repetition_max > 0) return true;
  // Only a page of very few bytes can be one of nulls alone.
  constexpr int32_t kNullsBytesMax = 1024;
  return chunk.shape.definition_max > 0 && !header.uses_dictionary() &&
         header.uncompressed_page_size <= kNullsBytesMax;
}

// Counts the rows of a page. Those of a flat column are its entries.
Status ChunkSurvey::LookAtLevels(const RawPage& page, const InputChunk& chunk,
                                 InputChunk::Page& seen) {
  if (page.header.type == PageType::kDataV2) {
    LITHIFY_TRY_ASSIGN(const PageParts parts, TakeApart(page.header, page.body, chunk.shape));
    return CheckLevels(page.header, parts, chunk, seen);
  }
  if (!LooksAtLevels(page.header, chunk)) return {};
  LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                     UnpackPage(page, chunk.shape, *chunk.codec, &unpacked_));
  return CheckLevels(page.header, unpacked.parts, chunk, seen);
}

Status ChunkSurvey::CheckLevels(const PageHeader& header, const PageParts& parts,
                                const InputChunk& chunk, InputChunk::Page& seen) const {
  seen.rows = parts.rows;
  seen.begins_row = parts.begins_row;
  seen.has_values = parts.present > 0;
  if (header.type == PageType::kData) return {};
  const bool nulls_right =
      chunk.shape.repetition_max > 0 || header.num_nulls == header.num_values - parts.present;
  if (header.num_rows != parts.rows || !nulls_right) return Leave("its headers are wrong");
  return {};
}

// False where the indices cannot be 0, 1, 2, … without looking at them.
bool ChunkSurvey::MayCountUp(const PageHeader& header, const InputChunk& chunk,
                             const Dictionary& dictionary) const {
  const int64_t entries = dictionary.header->num_values;
  if (dictionary.values + header.num_values > kUnfoldedValuesMax) return false;
  if (chunk.shape.definition_max == 0) return dictionary.used + header.num_values <= entries;
  // What the writer says of nulls is a hint here and no more.
  return !chunk.nulls ||
         dictionary.used + header.num_values - std::min<int64_t>(*chunk.nulls, header.num_values) <=
             entries;
}

Status ChunkSurvey::CountUp(const PageHeader& header, const UnpackedPage& unpacked,
                            const InputChunk& chunk, Dictionary& dictionary) {
  const int64_t present = unpacked.parts.present;
  const int64_t entries = dictionary.header->num_values;
  if (dictionary.used + present > entries) {
    dictionary.in_order = false;
    return {};
  }
  indices_.resize(static_cast<size_t>(present));
  if (present > 0) {
    LITHIFY_TRY(
        DecodeIndices(unpacked.values, present, static_cast<uint64_t>(entries), indices_.data()));
  }
  if (!CountsUp(indices_, static_cast<uint32_t>(dictionary.used))) {
    dictionary.in_order = false;
    return {};
  }
  if (dictionary.values == 0) dictionary.begins_row = unpacked.parts.begins_row;
  dictionary.used += present;
  dictionary.rows += unpacked.parts.rows;
  dictionary.values += header.num_values;
  LITHIFY_TRY(AddLevels(unpacked.parts.definition, chunk.shape.definition_max, header.num_values,
                        dictionary.definition));
  return AddLevels(unpacked.parts.repetition, chunk.shape.repetition_max, header.num_values,
                   dictionary.repetition);
}

// Without levels, pages of version 1 and 2 have the same body; with them, those of version 2 have
// the levels apart from it.
bool ChunkSurvey::Unfold(InputChunk& chunk, const Dictionary& dictionary) const {
  const bool own = dictionary.in_order && dictionary.used == dictionary.header->num_values;
  const int32_t bytes = dictionary.header->uncompressed_page_size;
  if (!own || AreSmall(options_, {1, bytes, dictionary.values})) {
    return false;
  }
  chunk.dictionary = InputChunk::Dictionary::kUnfolded;
  chunk.unfolded = std::make_unique<InputChunk::Unfolded>();
  PageHeader& page = chunk.unfolded->header;
  page.encoding = PageEncoding::kPlain;
  page.num_values = static_cast<int32_t>(dictionary.values);
  chunk.unfolded->facts.rows = dictionary.rows;
  chunk.unfolded->facts.begins_row = dictionary.begins_row;
  if (chunk.folded.pages == 1) page.statistics = dictionary.statistics;
  page.uncompressed_page_size = bytes;
  const int definition_max = options_.output.definition_max;
  const int repetition_max = options_.output.repetition_max;
  if (definition_max == 0 && repetition_max == 0) {
    page.type = PageType::kData;
    if (!chunk.transcoded) page.crc = dictionary.header->crc;
    return true;
  }
  page.type = PageType::kDataV2;
  std::string& levels = chunk.unfolded->levels;
  if (repetition_max > 0) {
    AppendHybrid(dictionary.repetition, BitWidth(static_cast<uint32_t>(repetition_max)), &levels);
  }
  page.repetition_levels_byte_length = static_cast<int32_t>(levels.size());
  if (chunk.widened) {
    AppendLevelRun(definition_max, dictionary.values, definition_max, &levels);
  } else if (definition_max > 0) {
    std::vector<uint32_t> definition = dictionary.definition;
    if (!chunk.level_map.empty()) Replace(definition, chunk.level_map);
    AppendHybrid(definition, BitWidth(static_cast<uint32_t>(definition_max)), &levels);
  }
  page.definition_levels_byte_length =
      static_cast<int32_t>(levels.size()) - page.repetition_levels_byte_length;
  page.num_nulls = static_cast<int32_t>(dictionary.values - dictionary.used);
  page.num_rows = static_cast<int32_t>(dictionary.rows);
  // No reader needs to unpack nothing.
  if (dictionary.used == 0) page.uncompressed_page_size = 0;
  page.is_compressed = options_.codec != arrow::Compression::UNCOMPRESSED && dictionary.used > 0;
  page.uncompressed_page_size += static_cast<int32_t>(levels.size());
  return true;
}

}  // namespace lithify::rewrite
