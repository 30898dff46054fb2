#include "rewrite/column_splice.h"

#include <arrow/buffer.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "rewrite/chunk_survey.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/filter_values.h"
#include "rewrite/index_pages.h"
#include "rewrite/input_chunk.h"
#include "rewrite/masked_pages.h"
#include "rewrite/masked_statistics.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_builder.h"
#include "rewrite/page_codec.h"
#include "rewrite/page_values.h"
#include "rewrite/raw_pages.h"
#include "rewrite/releveled_pages.h"

namespace lithify::rewrite {
namespace {

using parquet::Type;
using Way = InputChunk::Dictionary;

constexpr DictionaryBounds kUnionBounds{kMiB, 1 << 20};
constexpr int64_t kMappedEntriesMax = 2 << 20;  // Of all dictionaries of one column together.
// Of a page that is taken apart and put together; all its indices and levels are in memory.
constexpr int32_t kDecodedValuesMax = 4 << 20;
constexpr int64_t kGatheredMax = int64_t{1} << 44;

// Readers mend what these versions wrote as they read it, by the name in the footer (PARQUET-246,
// PARQUET-816; ARROW-10353): under our name nobody would.
bool NeedsMending(const Footer& footer) {
  static const parquet::ApplicationVersion kJava("parquet-mr", 1, 8, 0);
  static const parquet::ApplicationVersion kCpp("parquet-cpp", 2, 0, 0);
  return footer.writer_version().VersionLt(kJava) || footer.writer_version().VersionLt(kCpp);
}

// Whether values and levels go on as they are.
Status CheckSource(const LeafSource& source, const OutputLeaf& output) {
  if (source.inherited) return Leave("row lineage is added");
  if (source.fill) return Leave("a default fills it");
  if (source.must_be_null) return Leave("its type is null");
  if (source.levels_only || source.input_leaf < 0) return Leave("an input lacks it");
  if (source.conversion != Conversion::kNone) return Leave("another type");
  // Each level stays apart from the others, and that of values is that of values.
  const std::vector<int16_t>& map = source.definition_map;
  const bool rises = std::ranges::adjacent_find(map, std::greater_equal<>()) == map.end();
  if (!rises || map.back() != output.definition_max) return Leave("nested in another way");
  return {};
}

// What becomes of each level; empty: all stay.
std::vector<uint32_t> LevelMapOf(const LeafSource& source) {
  std::vector<uint32_t> map(source.definition_map.begin(), source.definition_map.end());
  // It rises from 0 or more: each is itself if the last one is.
  if (map.back() + 1 == map.size()) map.clear();
  return map;
}

class Splice final : public ColumnSplice {
 public:
  Splice(const ColumnSpliceOptions& options, PageCodec codec)
      : options_(options),
        value_bytes_(PlainBytesOf(options.output).value_or(PageBuilderOptions::kBoolean)),
        codec_(std::move(codec)),
        union_(std::max(0, value_bytes_), kUnionBounds),
        merged_(options.column),
        survey_(options_),
        bytes_(options_) {}

  // An error of code kUnsupported, kCorrupt or kLimit, here and from Survey(): it is for the recode
  // tier.
  Status LookAtFooters(const std::vector<std::unique_ptr<InputSource>>& inputs,
                       const std::vector<GroupPlace>& places) {
    for (const GroupPlace& place : places) LITHIFY_TRY(AddChunk(*inputs[place.input], place));
    return chunks_.empty() ? Leave("it has no rows") : Status();
  }

  Status Survey() {
    for (InputChunk& chunk : chunks_) {
      current_ = &chunk;
      const bool by_headers = TellsByHeaders(chunk);
      if (!by_headers) LITHIFY_TRY(bytes_.Hold(chunk));
      LITHIFY_TRY(Mask(chunk));
      // The look for the mask has verified them.
      const auto pages =
          by_headers ? bytes_.OpenHeaders(chunk) : Open(chunk, chunk.mask == nullptr);
      ChunkSurvey::Dictionary dictionary;
      LITHIFY_TRY(survey_.Look(*pages, chunk, dictionary));
      if (dictionary.header) LITHIFY_TRY(Consider(chunk, dictionary));
      plain_values_ = plain_values_ || chunk.other_values ||
                      (chunk.dictionary == Way::kUnfolded && chunk.entries > 0);
    }
    LITHIFY_TRY(ChooseWays());
    LITHIFY_TRY(ChooseJoins());
    CountWays();
    return {};
  }

  bool moves_only() const override {
    return !options_.bloom_filter && rows_dropped_ + counts_.transcoded + counts_.united +
                                             counts_.joined + counts_.gathered ==
                                         0;
  }
  const SpliceCounts& counts() const override { return counts_; }
  int64_t rows_dropped() const override { return rows_dropped_; }
  std::string current_input() const override {
    return current_ == nullptr ? std::string() : current_->in->key;
  }

  Status Write(RawColumn& to) override {
    to_ = &to;
    if (union_.size() > 0) LITHIFY_TRY(WriteDictionary(to));
    PageBuilderOptions options;
    options.shape = {options_.output.definition_max, options_.output.repetition_max};
    options.value_bytes = value_bytes_;
    options.page_bytes = options_.page_bytes;
    options.page_bytes_max = options_.page_bytes_max;
    options.statistics = &merged_;
    builder_.emplace(options,
                     [this](const PageHeader& header, std::span<const uint8_t> body,
                            const RawColumn::Facts& facts) -> Status {
                       packed_.clear();
                       LITHIFY_TRY(codec_.Compress(body, &packed_));
                       to_->WriteData(header, BytesOf(packed_), {}, facts);
                       return {};
                     });
    for (InputChunk& chunk : chunks_) {
      current_ = &chunk;
      LITHIFY_TRY(WriteChunk(chunk));
      bytes_.Release(chunk);
    }
    LITHIFY_TRY(builder_->Flush());
    builder_.reset();
    // Many columns may wait for the end of the row group.
    for (std::string* buffer : {&unpacked_, &mapped_, &packed_}) std::string().swap(*buffer);
    to.SetStatistics(merged_.statistics(options_.statistics_bytes_max), merged_.sizes());
    return {};
  }

 private:
  Status AddChunk(const InputSource& in, const GroupPlace& place) {
    if (in.footer->row_group(place.group).num_rows == 0) return {};
    LITHIFY_TRY(CheckColumn(in, options_));
    const LeafSource& source = in.leaves[static_cast<size_t>(options_.leaf)];
    const StoredChunk stated = in.footer->Chunk(place.group, source.input_leaf);
    LITHIFY_TRY_ASSIGN(InputChunk chunk, DescribeChunk(in, place, options_.leaf, stated, merged_));
    chunk.transcoded = stated.codec != options_.codec;
    LITHIFY_TRY_ASSIGN(chunk.codec, CodecOf(stated.codec.value()));
    chunk.widened = chunk.shape.definition_max == 0 && options_.output.definition_max > 0;
    if (!chunk.widened) chunk.level_map = LevelMapOf(source);
    chunk.deletes = in.deleted != nullptr && in.deleted->CountBelow(chunk.first_row + chunk.rows) !=
                                                 in.deleted->CountBelow(chunk.first_row);
    // What is left of a chunk without some of its rows shows as it is written.
    if (!chunk.deletes) merged_.Add(stated, chunk.stated, chunk.nulls, source.definition_map);
    chunks_.push_back(std::move(chunk));
    return {};
  }

  // What unpacks pages of this codec; kUnsupported if nothing does.
  Result<PageCodec*> CodecOf(arrow::Compression::type codec) {
    if (codec == options_.codec) return &codec_;
    const auto known = input_codecs_.find(codec);
    if (known != input_codecs_.end()) return &known->second;
    LITHIFY_TRY_ASSIGN(PageCodec made, PageCodec::Make(codec));
    return &input_codecs_.emplace(codec, std::move(made)).first->second;
  }

  // --------------------------------------------------------------------------------- reading

  // Whether the first look most likely needs a few headers only.
  static bool TellsByHeaders(const InputChunk& chunk) {
    return ChunkBytes::MayGoByHeaders(chunk) && !chunk.deletes && !chunk.has_dictionary;
  }

  // The pages without deleted rows.
  std::unique_ptr<PageSource> Open(const InputChunk& chunk, bool verify_crc,
                                   MaskWitness* witness = nullptr) {
    auto pages = bytes_.Open(chunk, verify_crc);
    if (chunk.mask == nullptr) return pages;
    return std::make_unique<MaskedPages>(*chunk.mask, std::move(pages), *chunk.codec,
                                         OrderOf(*options_.column), witness);
  }

  // The pages with the output's levels, where those that are there are others.
  std::unique_ptr<PageSource> Relevel(const InputChunk& chunk,
                                      std::unique_ptr<PageSource> pages) const {
    if (chunk.level_map.empty()) return pages;
    return std::make_unique<ReleveledPages>(std::move(pages), chunk.shape, chunk.level_map,
                                            options_.output.definition_max, *chunk.codec);
  }

  // Levels of what Relevel() gives.
  LevelShape WrittenShape(const InputChunk& chunk) const {
    if (chunk.level_map.empty()) return chunk.shape;
    return {options_.output.definition_max, options_.output.repetition_max};
  }

  MaskedChunk ToMask(const InputChunk& chunk) const {
    MaskedChunk masked;
    masked.shape = chunk.shape;
    masked.form = FormOf(*options_.column);
    masked.deleted = chunk.in->deleted.get();
    masked.first_row = chunk.first_row;
    masked.rows = chunk.rows_in_group;
    masked.page_bytes_max = options_.page_bytes_max / 4;
    return masked;
  }

  // Finds out what the deleted rows are in the pages, if there are any.
  Status Mask(InputChunk& chunk) {
    if (!chunk.deletes) return {};
    LITHIFY_TRY_ASSIGN(PageMask mask,
                       PageMask::Make(ToMask(chunk), *bytes_.Open(chunk, true), *chunk.codec));
    chunk.mask = std::make_unique<const PageMask>(std::move(mask));
    chunk.rows = chunk.mask->rows();
    rows_dropped_ += chunk.mask->rows_left();
    return {};
  }

  // A page's body as it is stored: packed now, of a page that was made anew, or that comes in
  // another codec. Levels of version 2 come in front.
  struct PackedParts {
    std::span<const uint8_t> front;
    std::span<const uint8_t> rest;
  };
  Result<PackedParts> Pack(const InputChunk& chunk, RawPage& page) {
    if (page.packed && !chunk.transcoded) return PackedParts{{}, page.body};
    PageHeader& header = page.header;
    const bool v2 = header.type == PageType::kDataV2;
    const auto levels = static_cast<size_t>(v2 ? header.v2_level_bytes() : 0);
    std::span<const uint8_t> values = page.body.subspan(levels);
    if (page.packed && (!v2 || header.is_compressed)) {
      const int64_t size = header.uncompressed_page_size - static_cast<int64_t>(levels);
      unpacked_.clear();
      LITHIFY_TRY(chunk.codec->Decompress(values, size, &unpacked_));
      values = BytesOf(unpacked_);
    }
    header.crc.reset();
    header.uncompressed_page_size = static_cast<int32_t>(levels + values.size());
    packed_.clear();
    // No reader needs to unpack nothing.
    const bool packs = !v2 || !values.empty();
    if (packs) LITHIFY_TRY(codec_.Compress(values, &packed_));
    header.is_compressed = packs && options_.codec != arrow::Compression::UNCOMPRESSED;
    return PackedParts{page.body.first(levels), BytesOf(packed_)};
  }

  // A dictionary page's values.
  static Status UnpackDictionary(const InputChunk& chunk, std::span<const uint8_t> body,
                                 bool packed, int64_t size, std::string* plain) {
    if (packed) return chunk.codec->Decompress(body, size, plain);
    plain->assign(reinterpret_cast<const char*>(body.data()), body.size());
    return {};
  }

  // -------------------------------------------------------------------------------- choosing

  // What the chunk's dictionary could become; which of these it becomes is chosen when all have
  // been looked at.
  //
  // Writers make first pages with a dictionary, then others, and Spark's vectorized reader takes
  // values that lie before a page with a dictionary for indices into it. So only dictionaries
  // before all other values are united.
  Status Consider(InputChunk& chunk, ChunkSurvey::Dictionary& dictionary) {
    const PageHeader& header = *dictionary.header;
    chunk.entries = header.num_values;
    chunk.dictionary_bytes = header.uncompressed_page_size;
    if (survey_.Unfold(chunk, dictionary)) return {};
    chunk.dictionary = Way::kGathered;
    if (chunk.entries == 0) return {};
    // No sum of these overflows.
    chunk.gathered_bytes =
        std::min(kGatheredMax, chunk.dictionary_bytes * chunk.folded.values / chunk.entries);
    // Entries that only deleted rows used are not written.
    if (chunk.mask != nullptr && chunk.mask->keeps_unused()) return {};
    if (options_.plain_only || union_closed_ || plain_values_ || chunk.after_others) return {};
    unpacked_.clear();
    LITHIFY_TRY(UnpackDictionary(chunk, BytesOf(dictionary.body), dictionary.packed,
                                 header.uncompressed_page_size, &unpacked_));
    LITHIFY_TRY_ASSIGN(auto mapping, union_.Add(BytesOf(unpacked_), header.num_values));
    mapped_entries_ += chunk.entries;
    union_closed_ = !mapping || mapped_entries_ > kMappedEntriesMax;
    if (!mapping) return {};
    chunk.mapped = true;
    chunk.mapping = std::move(*mapping);
    if (chunk.mapping.identity) chunk.mapping.to = {};
    mapped_values_ += chunk.folded.values;
    // Nothing like that many entries is of use where hardly one comes twice.
    constexpr int64_t kEntriesToJudge = 1 << 14;
    if (union_.size() >= kEntriesToJudge && !UnionIsWorthIt()) union_closed_ = true;
    return {};
  }

  // As the recode tier judges dictionaries.
  bool UnionIsWorthIt() const { return union_.size() > 0 && union_.size() * 2 <= mapped_values_; }

  // Unites where it pays; what remains is gathered.
  Status ChooseWays() {
    const bool unite = UnionIsWorthIt();
    if (!unite) union_.Clear();
    int64_t entries = 0;
    int64_t values = 0;
    int64_t folded_bytes = 0;
    int64_t plain_bytes = 0;
    for (InputChunk& chunk : chunks_) {
      if (chunk.dictionary != Way::kGathered) continue;
      if (unite && chunk.mapped) {
        chunk.dictionary = Way::kUnited;
        continue;
      }
      if (chunk.folded_values_max > kDecodedValuesMax) return Leave("a page of very many values");
      chunk.mapping = {};
      entries += chunk.entries;
      values += chunk.folded.values;
      folded_bytes += chunk.dictionary_bytes + chunk.folded.bytes;
      plain_bytes += chunk.gathered_bytes;
    }
    // The recode tier makes a dictionary, too, until it is full, and then pages of values.
    const bool wanted = options_.dictionary_wanted && !options_.plain_only && !union_closed_;
    const double growth = wanted ? 1.3 : 16;
    const bool larger =
        static_cast<double>(plain_bytes) > growth * static_cast<double>(folded_bytes);
    return larger && entries * 2 < values ? Leave("its dictionaries are of use") : Status();
  }

  Status ChooseJoins() {
    InputChunk::Amount moved;
    for (InputChunk& chunk : chunks_) {
      InputChunk::Amount movable = chunk.plain;
      if (chunk.dictionary == Way::kUnited) movable.Add(chunk.folded);
      chunk.joined = AreSmall(options_, movable);
      if (!chunk.joined) moved.Add(movable);
      moved.Add(chunk.rigid);
      if (chunk.dictionary == Way::kUnfolded) {
        moved.Add({1, chunk.dictionary_bytes, chunk.unfolded->header.num_values});
      }
      if (chunk.dictionary == Way::kGathered && options_.output.repetition_max > 0 &&
          chunk.gathered_bytes > options_.page_bytes_max) {
        return Leave("rows that are gathered may be large");
      }
    }
    return AreSmall(options_, moved) ? Leave("its pages are small") : Status();
  }

  void CountWays() {
    for (const InputChunk& chunk : chunks_) {
      const bool same = chunk.mapping.identity && chunk.entries == union_.size();
      if (chunk.dictionary == Way::kGathered) {
        ++counts_.gathered;
      } else if (chunk.joined) {
        ++counts_.joined;
      } else if (chunk.dictionary == Way::kUnited && !same) {
        ++counts_.united;
      } else if (chunk.transcoded) {
        ++counts_.transcoded;
      } else {
        ++(chunk.dictionary == Way::kUnfolded ? counts_.unfolded : counts_.copied);
      }
    }
  }

  // --------------------------------------------------------------------------------- writing

  Status WriteDictionary(RawColumn& to) {
    PageHeader header;
    header.type = PageType::kDictionary;
    header.encoding = PageEncoding::kPlain;
    header.num_values = static_cast<int32_t>(union_.size());
    header.uncompressed_page_size = static_cast<int32_t>(union_.plain().size());
    packed_.clear();
    LITHIFY_TRY(codec_.Compress(BytesOf(union_.plain()), &packed_));
    to.WriteDictionary(header, BytesOf(packed_));
    return Filter(BytesOf(union_.plain()), union_.size());
  }

  // Values into the chunk's filter, if it has one.
  Status Filter(std::span<const uint8_t> plain, int64_t count) {
    if (to_->bloom_filter() == nullptr) return {};
    return InsertPlain(FormOf(*options_.column), plain, count, *to_->bloom_filter());
  }

  Status FilterPage(PageEncoding encoding, const UnpackedPage& unpacked) {
    if (to_->bloom_filter() == nullptr) return {};
    LITHIFY_TRY_ASSIGN(const auto plain, ToPlain(encoding, FormOf(*options_.column),
                                                 unpacked.values, unpacked.parts.present, &plain_));
    return Filter(plain, unpacked.parts.present);
  }

  Status WriteChunk(const InputChunk& chunk) {
    const StatedBounds bounds(chunk, merged_);
    if (chunk.mask == nullptr) return WritePages(chunk, bounds, nullptr);
    auto stated = chunk.stated.value_or(parquet::EncodedStatistics());
    if (chunk.nulls) stated.set_null_count(*chunk.nulls);
    const auto of_page = [&](const RawPage& page) { return bounds.Of(page); };
    MaskedStatistics left(ToMask(chunk), OrderOf(*options_.column), std::move(stated), of_page,
                          *chunk.codec);
    LITHIFY_TRY(WritePages(chunk, bounds, &left));
    LITHIFY_TRY_ASSIGN(auto known,
                       left.Finish(*chunk.mask, [&] { return bytes_.Open(chunk, false); }));
    merged_.AddPart(std::move(known), chunk.mask->entries(), chunk.shape.definition_max == 0);
    return {};
  }

  Status WritePages(const InputChunk& chunk, const StatedBounds& stated, MaskWitness* witness) {
    // What was kept has been verified.
    const auto pages = Relevel(chunk, Open(chunk, chunk.held == nullptr, witness));
    dictionary_.reset();
    size_t at = 0;
    RawPage page;
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, pages->Next(&page));
      if (!more) break;
      LITHIFY_TRY(options_.pool->Check());
      if (!page.header.is_data()) {
        LITHIFY_TRY(TakeDictionary(chunk, page));
        continue;
      }
      if (page.header.num_values == 0) continue;
      if (at == chunk.pages.size()) return Fail(Changed());
      const InputChunk::Page& seen = chunk.pages[at++];
      if (page.header.uses_dictionary() && chunk.dictionary == Way::kUnfolded) continue;
      const auto bounds = stated.Of(page);
      if (Rebuilds(chunk, page)) {
        // The bounds of all values are bounds of each page; but values of deleted rows are not to
        // live on in them.
        const bool loose = !bounds && chunk.mask == nullptr;
        LITHIFY_TRY(Rebuild(chunk, seen, page, loose ? chunk.stated : bounds));
      } else {
        LITHIFY_TRY(Move(chunk, seen, page, bounds));
      }
    }
    if (at != chunk.pages.size()) return Fail(Changed());
    return {};
  }

  Status TakeDictionary(const InputChunk& chunk, RawPage& page) {
    if (chunk.dictionary == Way::kUnfolded) {
      LITHIFY_TRY(builder_->Flush());
      LITHIFY_TRY(WriteUnfolded(chunk, page));
    }
    if (chunk.dictionary != Way::kGathered) return {};
    std::string plain;
    LITHIFY_TRY(UnpackDictionary(chunk, page.body, page.packed, page.header.uncompressed_page_size,
                                 &plain));
    LITHIFY_TRY_ASSIGN(
        dictionary_, PlainDictionary::Make(std::move(plain), page.header.num_values, value_bytes_));
    return Filter(dictionary_->plain(), dictionary_->size());
  }

  bool Rebuilds(const InputChunk& chunk, const RawPage& page) const {
    const PageHeader& header = page.header;
    const bool folded = header.uses_dictionary();
    if (folded && chunk.dictionary == Way::kGathered) return true;
    if (!folded && !Joins(header.encoding, options_.output.physical)) return false;
    // A page that was made anew has to be packed in any case.
    if (!chunk.joined && page.packed) return false;
    return header.num_values <= kDecodedValuesMax &&
           header.uncompressed_page_size < options_.page_bytes &&
           header.uncompressed_page_size <= options_.page_bytes_max / 4;
  }

  // ------------------------------------------------------------------------------ rebuilding

  Status Rebuild(const InputChunk& chunk, const InputChunk::Page& seen, const RawPage& page,
                 const std::optional<parquet::EncodedStatistics>& bounds) {
    const PageHeader& header = page.header;
    LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                       UnpackPage(page, WrittenShape(chunk), *chunk.codec, &unpacked_));
    if (unpacked.parts.rows != seen.rows || unpacked.parts.begins_row != seen.begins_row) {
      return Fail(Changed());
    }
    PagePiece piece;
    piece.entries = header.num_values;
    piece.parts = unpacked.parts;
    piece.parts.values = unpacked.values;
    piece.statistics = bounds ? &*bounds : nullptr;
    if (!header.uses_dictionary()) {
      LITHIFY_TRY(FilterPage(header.encoding, unpacked));
      return builder_->AddPlain(piece, header.encoding);
    }
    if (chunk.dictionary == Way::kUnited) {
      return builder_->AddIndices(piece, chunk.entries, chunk.mapping.to);
    }
    if (chunk.dictionary != Way::kGathered || !dictionary_) return Fail(Changed());
    return builder_->AddGathered(piece, *dictionary_);
  }

  // --------------------------------------------------------------------------------- moving

  Status Move(const InputChunk& chunk, const InputChunk::Page& seen, RawPage& page,
              const std::optional<parquet::EncodedStatistics>& bounds) {
    LITHIFY_TRY(builder_->Flush());
    const RawColumn::Facts facts{seen.rows, seen.begins_row, bounds ? &*bounds : nullptr};
    if (!chunk.trusted) page.header.statistics.reset();
    if (!page.header.uses_dictionary()) {
      if (to_->bloom_filter() != nullptr) {
        LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                           UnpackPage(page, WrittenShape(chunk), *chunk.codec, &unpacked_));
        LITHIFY_TRY(FilterPage(page.header.encoding, unpacked));
      }
      return Put(chunk, page, facts);
    }
    if (chunk.dictionary != Way::kUnited) return Fail(Changed());
    return MoveIndices(chunk, page, facts);
  }

  Status Put(const InputChunk& chunk, RawPage& page, const RawColumn::Facts& facts) {
    LITHIFY_TRY_ASSIGN(const PackedParts parts, Pack(chunk, page));
    PutParts(chunk, page.header, parts.front, parts.rest, facts);
    return {};
  }

  // A page without definition levels gets some in front where the output's has them.
  void PutParts(const InputChunk& chunk, PageHeader header, std::span<const uint8_t> front,
                std::span<const uint8_t> rest, const RawColumn::Facts& facts) {
    if (!chunk.widened) return to_->WriteData(header, front, rest, facts);
    levels_in_front_.clear();
    AppendLevelRun(options_.output.definition_max, header.num_values,
                   options_.output.definition_max, &levels_in_front_);
    if (header.type == PageType::kData) {
      header.is_compressed = options_.codec != arrow::Compression::UNCOMPRESSED;
    }
    header.type = PageType::kDataV2;
    header.num_nulls = 0;
    header.num_rows = header.num_values;
    header.repetition_levels_byte_length = 0;
    header.definition_levels_byte_length = static_cast<int32_t>(levels_in_front_.size());
    header.uncompressed_page_size += header.definition_levels_byte_length;
    header.crc.reset();
    to_->WriteData(header, BytesOf(levels_in_front_), rest, facts);
  }

  Status WriteUnfolded(const InputChunk& chunk, RawPage& page) {
    PageHeader header = chunk.unfolded->header;
    if (chunk.mask != nullptr) {
      // Of the entries that are left.
      header.statistics = page.header.statistics;
      if (header.statistics) header.statistics->null_count = header.num_nulls;
    }
    const bool alone = chunk.plain.pages + chunk.rigid.pages == 0 && chunk.mask == nullptr;
    const auto own = alone && chunk.stated
                         ? chunk.stated
                         : merged_.OfPage(header, chunk.trusted || chunk.mask != nullptr,
                                          chunk.shape.definition_max == 0);
    RawColumn::Facts facts = chunk.unfolded->facts;
    facts.statistics = own ? &*own : nullptr;
    if (!chunk.trusted) header.statistics.reset();
    std::span<const uint8_t> body;
    if (to_->bloom_filter() != nullptr && chunk.entries > 0) {
      unpacked_.clear();
      LITHIFY_TRY(UnpackDictionary(chunk, page.body, page.packed,
                                   page.header.uncompressed_page_size, &unpacked_));
      LITHIFY_TRY(Filter(BytesOf(unpacked_), chunk.entries));
    }
    if (header.type == PageType::kData || chunk.entries > 0) {
      LITHIFY_TRY_ASSIGN(const PackedParts parts, Pack(chunk, page));
      body = parts.rest;
    }
    to_->WriteData(header, BytesOf(chunk.unfolded->levels), body, facts);
    return {};
  }

  // A page of indices into the chunk's dictionary becomes one of indices into the united one.
  Status MoveIndices(const InputChunk& chunk, RawPage& page, const RawColumn::Facts& facts) {
    PageHeader& header = page.header;
    header.encoding = PageEncoding::kRleDictionary;
    if (chunk.mapping.identity && chunk.entries == union_.size()) {
      return Put(chunk, page, facts);
    }
    LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                       UnpackPage(page, WrittenShape(chunk), *chunk.codec, &unpacked_));
    const int64_t present = unpacked.parts.present;
    if (present == 0 || chunk.mapping.identity) {
      // An index beyond the own dictionary must not come to mean a value of another file.
      LITHIFY_TRY(CheckIndices(unpacked.values, present, static_cast<uint64_t>(chunk.entries)));
      return Put(chunk, page, facts);
    }
    const bool v1 = header.type == PageType::kData;
    const std::span<const uint8_t> levels = unpacked.parts.levels;
    mapped_.assign(reinterpret_cast<const char*>(levels.data()), v1 ? levels.size() : 0);
    // A width of no bits is right for one entry, but some readers stumble over it.
    LITHIFY_TRY(AppendMappedIndices(unpacked.values, present, chunk.mapping.to,
                                    std::max(1, BitWidth(chunk.mapping.max)), &mapped_));
    packed_.clear();
    LITHIFY_TRY(codec_.Compress(BytesOf(mapped_), &packed_));
    header.crc.reset();
    header.uncompressed_page_size = static_cast<int32_t>(mapped_.size());
    if (v1) {
      PutParts(chunk, header, {}, BytesOf(packed_), facts);
      return {};
    }
    header.is_compressed = options_.codec != arrow::Compression::UNCOMPRESSED;
    header.uncompressed_page_size += header.v2_level_bytes();
    PutParts(chunk, header, levels, BytesOf(packed_), facts);
    return {};
  }

  const ColumnSpliceOptions options_;
  const int value_bytes_;
  PageCodec codec_;                                             // Of the output.
  std::map<arrow::Compression::type, PageCodec> input_codecs_;  // Others.
  DictionaryUnion union_;
  bool union_closed_ = false;  // Nothing more is added.
  MergedStatistics merged_;
  ChunkSurvey survey_;
  ChunkBytes bytes_;
  std::vector<InputChunk> chunks_;
  const InputChunk* current_ = nullptr;
  SpliceCounts counts_;
  int64_t rows_dropped_ = 0;
  int64_t mapped_entries_ = 0;
  int64_t mapped_values_ = 0;  // That the union stands for.
  bool plain_values_ = false;  // Values without a dictionary lie in the chunks looked at so far.
  // While it is written.
  RawColumn* to_ = nullptr;
  std::optional<PageBuilder> builder_;
  std::optional<PlainDictionary> dictionary_;  // Of a chunk that is gathered.
  // Used again and again.
  std::string unpacked_;
  std::string plain_;
  std::string mapped_;
  std::string packed_;
  std::string levels_in_front_;
};

// The pages' own story is for the recode tier to tell, with file and column: reasons are few.
std::string ReasonOf(const Error& error) {
  switch (error.code) {
    case Code::kCorrupt: return "its pages look damaged";
    case Code::kLimit: return "a page does not fit the memory bound";
    default: return error.message;
  }
}

}  // namespace

Status CheckColumn(const InputSource& in, const ColumnSpliceOptions& options) {
  const LeafSource& source = in.leaves[static_cast<size_t>(options.leaf)];
  const OutputLeaf& output = options.output;
  LITHIFY_TRY(CheckSource(source, output));
  if (NeedsMending(*in.footer)) return Leave("written by a version whose values readers mend");
  const parquet::ColumnDescriptor& column = *in.footer->schema().Column(source.input_leaf);
  if (column.physical_type() != output.physical) return Leave("another type");
  if (column.max_definition_level() + 1 != std::ssize(source.definition_map) ||
      column.max_repetition_level() != output.repetition_max) {
    return Leave("nested in another way");
  }
  if (output.physical == Type::FIXED_LEN_BYTE_ARRAY &&
      (column.type_length() != output.type_length || output.type_length <= 0)) {
    return Leave("another type");
  }
  return {};
}

Result<std::string> WhyFootersForbid(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                     const std::vector<GroupPlace>& places,
                                     const ColumnSpliceOptions& options) {
  LITHIFY_TRY_ASSIGN(PageCodec codec, PageCodec::Make(options.codec, options.codec_level));
  Splice splice(options, std::move(codec));
  auto looked = GuardParquet("column " + options.output.path,
                             [&] { return splice.LookAtFooters(inputs, places); });
  if (looked) return std::string();
  if (IsForNextTier(looked.error().code)) return ReasonOf(looked.error());
  return Fail(std::move(looked.error()));
}

Result<SurveyedColumn> SurveyColumn(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                    const std::vector<GroupPlace>& places,
                                    const ColumnSpliceOptions& options) {
  LITHIFY_TRY_ASSIGN(PageCodec codec, PageCodec::Make(options.codec, options.codec_level));
  auto splice = std::make_unique<Splice>(options, std::move(codec));
  auto looked = GuardParquet("column " + options.output.path, [&]() -> Status {
    LITHIFY_TRY(splice->LookAtFooters(inputs, places));
    return splice->Survey();
  });
  if (looked) return SurveyedColumn{std::move(splice), {}};
  if (IsForNextTier(looked.error().code)) return SurveyedColumn{nullptr, ReasonOf(looked.error())};
  return Fail(std::move(looked.error()).In(splice->current_input()));
}

}  // namespace lithify::rewrite
