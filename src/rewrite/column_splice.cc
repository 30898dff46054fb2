#include "rewrite/column_splice.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "rewrite/dictionary_union.h"
#include "rewrite/index_pages.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_codec.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {
namespace {

using parquet::Type;

constexpr DictionaryBounds kUnionBounds{kMiB, 1 << 20};
constexpr int64_t kMappedEntriesMax = 2 << 20;  // Of all dictionaries of one column together.
// A dictionary that becomes a page, and the entries of that page.
constexpr int32_t kUnfoldedBytesMax = 8 << 20;
constexpr int64_t kUnfoldedValuesMax = int64_t{2} << 20;

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

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

// Bytes of one value in a dictionary; nullopt: the type has none.
std::optional<int> ValueBytes(const OutputLeaf& leaf) {
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

// Readers mend what these versions wrote as they read it, by the name in the footer (PARQUET-246,
// PARQUET-816; ARROW-10353): under our name nobody would.
bool NeedsMending(const parquet::FileMetaData& footer) {
  static const parquet::ApplicationVersion kJava("parquet-mr", 1, 8, 0);
  static const parquet::ApplicationVersion kCpp("parquet-cpp", 2, 0, 0);
  return footer.writer_version().VersionLt(kJava) || footer.writer_version().VersionLt(kCpp);
}

// What the recode tier has to do, and why.
std::unexpected<Error> Leave(std::string why) { return Fail(Code::kUnsupported, std::move(why)); }

bool Small(const ColumnSpliceOptions& options, int64_t pages, int64_t bytes, int64_t values) {
  return bytes / pages < options.page_bytes_min && values / pages < options.page_values_min;
}

// One input chunk, as far as it is known from looking at its pages.
struct Chunk {
  const InputSource* in = nullptr;
  int group = 0;
  int column = 0;  // Of the input.
  int64_t rows = 0;
  ChunkRange range;
  std::shared_ptr<arrow::Buffer> held;  // Its bytes; null: to be read again.
  bool trusted = false;                 // What its pages' headers say of values.

  enum class Dictionary { kNone, kUnited, kUnfolded };
  Dictionary dictionary = Dictionary::kNone;
  int64_t entries = 0;        // Of the dictionary.
  DictionaryMapping mapping;  // kUnited.
  // kUnfolded: the one page that stands for all that use the dictionary.
  PageHeader unfolded;
  std::string unfolded_levels;
  RawColumn::Facts unfolded_facts;

  struct Page {
    int64_t rows = 0;
    bool begins_row = true;
    bool has_values = true;  // False: known to have none but nulls.
  };
  std::vector<Page> pages;  // Data pages of the input.
  int64_t written_pages = 0;

  const parquet::ColumnDescriptor& descriptor() const {
    return *in->footer->schema()->Column(column);
  }
};

// What the footer says of a chunk; made when it is needed, since there may be very many.
struct ChunkMetadata {
  explicit ChunkMetadata(const Chunk& of)
      : group(of.in->footer->RowGroup(of.group)), chunk(group->ColumnChunk(of.column)) {}
  std::unique_ptr<parquet::RowGroupMetaData> group;
  std::unique_ptr<parquet::ColumnChunkMetaData> chunk;
};

class Splice final : public ColumnSplice {
 public:
  Splice(const std::vector<std::unique_ptr<InputSource>>& inputs,
         const std::vector<GroupPlace>& places, const ColumnSpliceOptions& options, PageCodec codec)
      : options_(options),
        shape_{options.output.definition_max, options.output.repetition_max},
        codec_(std::move(codec)),
        union_(ValueBytes(options.output).value_or(1), kUnionBounds),
        merged_(options.column) {
    for (const GroupPlace& place : places) {
      Chunk chunk;
      chunk.in = inputs[place.input].get();
      chunk.group = place.group;
      chunk.column = chunk.in->leaves[static_cast<size_t>(options.leaf)].input_leaf;
      const ChunkMetadata metadata(chunk);
      chunk.rows = metadata.group->num_rows();
      if (chunk.rows == 0) continue;
      chunk.range.start =
          ChunkStart(metadata.chunk->data_page_offset(), metadata.chunk->has_dictionary_page(),
                     metadata.chunk->dictionary_page_offset());
      chunk.range.bytes = metadata.chunk->total_compressed_size();
      chunk.range.num_values = metadata.chunk->num_values();
      chunk.trusted = merged_.Trusts(*chunk.in->footer, *metadata.chunk, chunk.descriptor());
      chunks_.push_back(std::move(chunk));
    }
  }
  ~Splice() override { *options_.hold_bytes += held_bytes_; }

  // An error of code kUnsupported, kCorrupt or kLimit: it is for the recode tier.
  Status Survey() {
    for (Chunk& chunk : chunks_) {
      current_ = &chunk;
      LITHIFY_TRY(Hold(chunk));
      const ChunkMetadata metadata(chunk);
      LITHIFY_TRY(Look(chunk, *metadata.chunk));
      merged_.Add(*chunk.in->footer, *metadata.chunk, chunk.descriptor());
    }
    if (Small(options_, pages_, bytes_, values_)) return Leave("its pages are small");
    for (const Chunk& chunk : chunks_) {
      const bool same = chunk.mapping.identity && chunk.entries == union_.size();
      switch (chunk.dictionary) {
        case Chunk::Dictionary::kNone: ++counts_.copied; break;
        case Chunk::Dictionary::kUnfolded: ++counts_.unfolded; break;
        case Chunk::Dictionary::kUnited: ++(same ? counts_.copied : counts_.united); break;
      }
    }
    return {};
  }

  bool moves_only() const override { return counts_.united == 0; }
  const SpliceCounts& counts() const override { return counts_; }
  std::string current_input() const override {
    return current_ == nullptr ? std::string() : current_->in->key;
  }

  Status Write(RawColumn& to) override {
    if (union_.size() > 0) LITHIFY_TRY(WriteDictionary(to));
    for (Chunk& chunk : chunks_) {
      current_ = &chunk;
      LITHIFY_TRY(WriteChunk(chunk, to));
      Release(chunk);
    }
    to.SetStatistics(merged_.statistics(options_.statistics_bytes_max), merged_.sizes());
    return {};
  }

 private:
  // --------------------------------------------------------------------------------- reading

  // Keeps the bytes of the chunk, if there is room: to read them once.
  Status Hold(Chunk& chunk) {
    const int64_t bytes = chunk.range.bytes;
    if (options_.hold_bytes->fetch_sub(bytes) < bytes) {
      *options_.hold_bytes += bytes;
      return {};
    }
    held_bytes_ += bytes;
    auto buffer = arrow::AllocateBuffer(bytes, options_.pool->hard());
    if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
    auto got = chunk.in->file->ReadAt(chunk.range.start, bytes, (*buffer)->mutable_data());
    if (!got.ok()) return Fail(FromArrow(got.status()));
    if (*got != bytes) return Fail(Code::kCorrupt, "the file is shorter than its footer says");
    chunk.held = std::move(*buffer);
    return {};
  }

  void Release(Chunk& chunk) {
    if (chunk.held == nullptr) return;
    chunk.held.reset();
    held_bytes_ -= chunk.range.bytes;
    *options_.hold_bytes += chunk.range.bytes;
  }

  std::unique_ptr<RawPages> Open(const Chunk& chunk, bool verify_crc) const {
    RawPagesOptions options;
    options.verify_crc = verify_crc;
    options.page_bytes_max = options_.page_bytes_max;
    if (chunk.held == nullptr) {
      return std::make_unique<RawPages>(chunk.in->file, chunk.in->size, chunk.range, options,
                                        options_.pool->hard());
    }
    ChunkRange range = chunk.range;
    range.start = 0;
    return std::make_unique<RawPages>(std::make_shared<arrow::io::BufferReader>(chunk.held),
                                      range.bytes, range, options, options_.pool->hard());
  }

  // A data page's levels and unpacked values. Spans live until the next call, or the page's end.
  struct Unpacked {
    PageParts parts;
    std::span<const uint8_t> values;
  };
  Result<Unpacked> Unpack(const RawPage& page) {
    const PageHeader& header = page.header;
    Unpacked out;
    unpacked_.clear();
    if (header.type == PageType::kData) {
      LITHIFY_TRY(codec_.Decompress(page.body, header.uncompressed_page_size, &unpacked_));
      LITHIFY_TRY_ASSIGN(out.parts, TakeApart(header, Bytes(unpacked_), shape_));
      out.values = out.parts.values;
      return out;
    }
    LITHIFY_TRY_ASSIGN(out.parts, TakeApart(header, page.body, shape_));
    out.values = out.parts.values;
    const int64_t size = int64_t{header.uncompressed_page_size} - header.v2_level_bytes();
    if (!header.is_compressed) return out;
    if (size > 0) LITHIFY_TRY(codec_.Decompress(out.values, size, &unpacked_));
    out.values = Bytes(unpacked_);
    return out;
  }

  // --------------------------------------------------------------------------------- looking

  // What is known of a chunk's dictionary while its pages are looked at.
  struct Dictionary {
    std::optional<PageHeader> header;
    std::string packed;
    int64_t data_pages = 0;  // That use it.
    int64_t data_bytes = 0;  // Theirs, unpacked.
    int64_t used = 0;        // Entries, in order, so far.
    bool in_order = true;
    int64_t rows = 0;
    int64_t values = 0;
    bool begins_row = true;
    std::vector<uint32_t> definition;
    std::vector<uint32_t> repetition;
    std::optional<PageStatistics> statistics;  // Of its only page.
    bool after_others = false;  // A page that uses it comes after one with values that does not.
  };

  Status Look(Chunk& chunk, const parquet::ColumnChunkMetaData& metadata) {
    Dictionary dictionary;
    const auto pages = Open(chunk, true);
    int64_t rows = 0;
    int64_t others = 0;
    bool other_values = false;
    RawPage page;
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, pages->Next(&page));
      if (!more) break;
      if (!page.header.is_data()) {
        LITHIFY_TRY(KeepDictionary(page, dictionary));
        continue;
      }
      // Some readers take an empty page for the end of the chunk: none is written.
      if (page.header.num_values == 0) continue;
      Chunk::Page seen;
      LITHIFY_TRY(LookAtData(metadata, page, others > 0, dictionary, seen));
      if (chunk.pages.empty() && !seen.begins_row) return Leave("it does not begin with a row");
      rows += seen.rows;
      values_ += page.header.num_values;
      if (!page.header.uses_dictionary()) {
        ++others;
        other_values = other_values || seen.has_values;
        bytes_ += page.header.uncompressed_page_size;
      } else if (other_values) {
        dictionary.after_others = true;
      }
      chunk.pages.push_back(seen);
    }
    if (rows != chunk.rows || chunk.pages.empty()) {
      return Fail(Code::kCorrupt, "it has another number of rows than its row group");
    }
    if (options_.bloom_filter && others > 0) return Leave("a filter is made of its values");
    chunk.written_pages = others;
    if (dictionary.data_pages > 0) LITHIFY_TRY(Decide(chunk, dictionary));
    // As writers make them: first pages that use the dictionary, then others. Spark's vectorized
    // reader takes values that lie before a page with a dictionary for indices into it.
    if (chunk.dictionary == Chunk::Dictionary::kUnited &&
        (dictionary.after_others || plain_values_)) {
      return Leave("pages with a dictionary would come after others");
    }
    const bool unfolded_values =
        chunk.dictionary == Chunk::Dictionary::kUnfolded && dictionary.used > 0;
    plain_values_ = plain_values_ || other_values || unfolded_values;
    pages_ += chunk.written_pages;
    return {};
  }

  static Status KeepDictionary(const RawPage& page, Dictionary& dictionary) {
    const PageEncoding encoding = page.header.encoding;
    if (encoding != PageEncoding::kPlain && encoding != PageEncoding::kPlainDictionary) {
      return Leave("its dictionary is encoded in an unknown way");
    }
    if (page.header.uncompressed_page_size > kUnfoldedBytesMax) {
      return Leave("its dictionary is large");
    }
    dictionary.header = page.header;
    dictionary.packed.assign(reinterpret_cast<const char*>(page.body.data()), page.body.size());
    return {};
  }

  Status LookAtData(const parquet::ColumnChunkMetaData& metadata, const RawPage& page,
                    bool after_others, Dictionary& dictionary, Chunk::Page& seen) {
    const PageHeader& header = page.header;
    seen.rows = header.num_values;
    if (header.type == PageType::kData &&
        ((shape_.definition_max > 0 && header.definition_level_encoding != PageEncoding::kRle) ||
         (shape_.repetition_max > 0 && header.repetition_level_encoding != PageEncoding::kRle))) {
      return Leave("its levels are encoded in an old way");
    }
    const bool unpacks =
        header.uses_dictionary() || (header.type == PageType::kData && shape_.repetition_max > 0);
    if (unpacks && header.uncompressed_page_size > options_.page_bytes_max / 4) {
      return Leave("a page that is unpacked is large");
    }
    if (!header.uses_dictionary()) {
      if (!Fits(header.encoding, options_.output.physical)) return Leave("an unknown encoding");
      return LookAtLevels(page, seen);
    }
    if (!dictionary.header || !ValueBytes(options_.output)) return Leave("it has no dictionary");
    ++dictionary.data_pages;
    dictionary.statistics = header.statistics;
    if (after_others) dictionary.in_order = false;
    if (dictionary.in_order) dictionary.in_order = MayCountUp(metadata, header, dictionary);
    dictionary.data_bytes += header.uncompressed_page_size;
    if (!dictionary.in_order) return LookAtLevels(page, seen);
    LITHIFY_TRY_ASSIGN(const Unpacked unpacked, Unpack(page));
    LITHIFY_TRY(CheckLevels(header, unpacked.parts, seen));
    return CountUp(header, unpacked, dictionary);
  }

  // Counts the rows of a page. Those of a flat column are its entries.
  Status LookAtLevels(const RawPage& page, Chunk::Page& seen) {
    if (page.header.type == PageType::kDataV2) {
      LITHIFY_TRY_ASSIGN(const PageParts parts, TakeApart(page.header, page.body, shape_));
      return CheckLevels(page.header, parts, seen);
    }
    // Only a page of very few bytes can be one of nulls alone.
    constexpr int32_t kNullsBytesMax = 1024;
    const bool may_be_null = shape_.definition_max > 0 && !page.header.uses_dictionary() &&
                             page.header.uncompressed_page_size <= kNullsBytesMax;
    if (shape_.repetition_max == 0 && !may_be_null) return {};
    LITHIFY_TRY_ASSIGN(const Unpacked unpacked, Unpack(page));
    return CheckLevels(page.header, unpacked.parts, seen);
  }

  Status CheckLevels(const PageHeader& header, const PageParts& parts, Chunk::Page& seen) const {
    seen = {parts.rows, parts.begins_row, parts.present > 0};
    if (header.type == PageType::kData) return {};
    const bool nulls_right =
        shape_.repetition_max > 0 || header.num_nulls == header.num_values - parts.present;
    if (header.num_rows != parts.rows || !nulls_right) return Leave("its headers are wrong");
    return {};
  }

  // False where the indices cannot be 0, 1, 2, … without looking at them.
  bool MayCountUp(const parquet::ColumnChunkMetaData& metadata, const PageHeader& header,
                  const Dictionary& dictionary) const {
    const int64_t entries = dictionary.header->num_values;
    if (dictionary.values + header.num_values > kUnfoldedValuesMax) return false;
    if (shape_.definition_max == 0) return dictionary.used + header.num_values <= entries;
    // What the writer says of nulls is a hint here and no more.
    const auto stated = metadata.encoded_statistics();
    const bool hint = stated != nullptr && stated->has_null_count && stated->null_count >= 0;
    return !hint || dictionary.used + header.num_values -
                            std::min<int64_t>(stated->null_count, header.num_values) <=
                        entries;
  }

  Status CountUp(const PageHeader& header, const Unpacked& unpacked, Dictionary& dictionary) {
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
    LITHIFY_TRY(AddLevels(unpacked.parts.definition, shape_.definition_max, header.num_values,
                          dictionary.definition));
    return AddLevels(unpacked.parts.repetition, shape_.repetition_max, header.num_values,
                     dictionary.repetition);
  }

  static Status AddLevels(std::span<const uint8_t> hybrid, int max, int64_t count,
                          std::vector<uint32_t>& into) {
    if (max == 0) return {};
    const size_t before = into.size();
    into.resize(before + static_cast<size_t>(count));
    const auto top = static_cast<uint32_t>(max);
    return DecodeHybrid(hybrid, BitWidth(top), count, uint64_t{top} + 1, into.data() + before);
  }

  // What becomes of the chunk's dictionary.
  Status Decide(Chunk& chunk, Dictionary& dictionary) {
    const PageHeader& header = *dictionary.header;
    chunk.entries = header.num_values;
    if (dictionary.in_order && dictionary.used == chunk.entries && !options_.bloom_filter) {
      chunk.dictionary = Chunk::Dictionary::kUnfolded;
      ++chunk.written_pages;
      bytes_ += header.uncompressed_page_size;
      Unfold(chunk, dictionary);
      return {};
    }
    if (options_.plain_only) return Leave("a dictionary is not wanted");
    if (chunk.entries == 0) return Leave("its dictionary is empty");
    chunk.dictionary = Chunk::Dictionary::kUnited;
    chunk.written_pages += dictionary.data_pages;
    bytes_ += dictionary.data_bytes;
    unpacked_.clear();
    LITHIFY_TRY(
        codec_.Decompress(Bytes(dictionary.packed), header.uncompressed_page_size, &unpacked_));
    LITHIFY_TRY_ASSIGN(auto mapping, union_.Add(Bytes(unpacked_), header.num_values));
    if (!mapping) return Leave("its dictionaries are large together");
    chunk.mapping = std::move(*mapping);
    if (chunk.mapping.identity) chunk.mapping.to = {};
    mapped_entries_ += std::ssize(chunk.mapping.to);
    if (mapped_entries_ > kMappedEntriesMax) return Leave("its dictionaries are many");
    return {};
  }

  // The header and levels of the page that a dictionary becomes. Without levels, pages of version 1
  // and 2 have the same body; with them, those of version 2 have the levels apart from it.
  void Unfold(Chunk& chunk, const Dictionary& dictionary) {
    PageHeader& page = chunk.unfolded;
    page.encoding = PageEncoding::kPlain;
    page.num_values = static_cast<int32_t>(dictionary.values);
    chunk.unfolded_facts.rows = dictionary.rows;
    chunk.unfolded_facts.begins_row = dictionary.begins_row;
    if (dictionary.data_pages == 1) page.statistics = dictionary.statistics;
    page.uncompressed_page_size = dictionary.header->uncompressed_page_size;
    if (shape_.definition_max == 0 && shape_.repetition_max == 0) {
      page.type = PageType::kData;
      page.crc = dictionary.header->crc;
      return;
    }
    page.type = PageType::kDataV2;
    std::string& levels = chunk.unfolded_levels;
    if (shape_.repetition_max > 0) {
      AppendHybrid(dictionary.repetition, BitWidth(static_cast<uint32_t>(shape_.repetition_max)),
                   &levels);
    }
    page.repetition_levels_byte_length = static_cast<int32_t>(levels.size());
    if (shape_.definition_max > 0) {
      AppendHybrid(dictionary.definition, BitWidth(static_cast<uint32_t>(shape_.definition_max)),
                   &levels);
    }
    page.definition_levels_byte_length =
        static_cast<int32_t>(levels.size()) - page.repetition_levels_byte_length;
    page.num_nulls = static_cast<int32_t>(dictionary.values - dictionary.used);
    page.num_rows = static_cast<int32_t>(dictionary.rows);
    // No reader needs to unpack nothing.
    if (dictionary.used == 0) page.uncompressed_page_size = 0;
    page.is_compressed = options_.codec != arrow::Compression::UNCOMPRESSED && dictionary.used > 0;
    page.uncompressed_page_size += static_cast<int32_t>(levels.size());
  }

  // --------------------------------------------------------------------------------- writing

  Status WriteDictionary(RawColumn& to) {
    PageHeader header;
    header.type = PageType::kDictionary;
    header.encoding = PageEncoding::kPlain;
    header.num_values = static_cast<int32_t>(union_.size());
    header.uncompressed_page_size = static_cast<int32_t>(union_.plain().size());
    packed_.clear();
    LITHIFY_TRY(codec_.Compress(Bytes(union_.plain()), &packed_));
    to.WriteDictionary(header, Bytes(packed_));
    if (to.bloom_filter() != nullptr) FillFilter(*to.bloom_filter());
    return {};
  }

  // All values of the chunk are in the united dictionary.
  void FillFilter(parquet::BloomFilter& filter) const {
    std::string_view rest = union_.plain();
    const int value_bytes = ValueBytes(options_.output).value_or(0);
    for (int64_t i = 0; i < union_.size(); ++i) {
      auto length = static_cast<size_t>(value_bytes);
      if (value_bytes == DictionaryUnion::kByteArray) {
        uint32_t stated = 0;
        std::memcpy(&stated, rest.data(), sizeof stated);
        rest.remove_prefix(sizeof stated);
        length = stated;
      }
      // The hash of any value is that of its plain bytes.
      filter.InsertHash(filter.Hash(rest.substr(0, length)));
      rest.remove_prefix(length);
    }
  }

  Status WriteChunk(const Chunk& chunk, RawColumn& to) {
    // What was kept has been verified.
    const auto pages = Open(chunk, chunk.held == nullptr);
    const ChunkMetadata metadata(chunk);
    const auto alone = chunk.written_pages == 1
                           ? merged_.OfChunk(*chunk.in->footer, *metadata.chunk, chunk.descriptor())
                           : std::nullopt;
    const auto index = alone ? nullptr : ReadIndex(chunk, *metadata.chunk);
    size_t at = 0;
    RawPage page;
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, pages->Next(&page));
      if (!more) break;
      LITHIFY_TRY(options_.pool->Check());
      if (!page.header.is_data()) {
        if (chunk.dictionary == Chunk::Dictionary::kUnfolded) WriteUnfolded(chunk, page, alone, to);
        continue;
      }
      if (page.header.num_values == 0) continue;
      if (at == chunk.pages.size()) return Fail(Changed());
      const Chunk::Page& seen = chunk.pages[at++];
      const bool folded = page.header.uses_dictionary();
      if (folded && chunk.dictionary == Chunk::Dictionary::kUnfolded) continue;
      if (folded && chunk.dictionary == Chunk::Dictionary::kNone) return Fail(Changed());
      auto own = alone ? alone : merged_.OfPage(page.header, chunk.trusted);
      if (!own && index) own = merged_.OfIndexed(*index, at - 1, page.header.num_values);
      const RawColumn::Facts facts{seen.rows, seen.begins_row, own ? &*own : nullptr};
      if (!chunk.trusted) page.header.statistics.reset();
      if (folded) {
        LITHIFY_TRY(WriteFolded(chunk, page, facts, to));
      } else {
        to.WriteData(page.header, page.body, {}, facts);
      }
    }
    if (at != chunk.pages.size()) return Fail(Changed());
    return {};
  }

  // The input's own bounds of its data pages; null: there are none, or none to rely on.
  std::unique_ptr<parquet::ColumnIndex> ReadIndex(
      const Chunk& chunk, const parquet::ColumnChunkMetaData& metadata) const {
    constexpr int32_t kIndexBytesMax = 4 << 20;
    const auto place = metadata.GetColumnIndexLocation();
    if (!chunk.trusted || !place || place->length <= 0 || place->length > kIndexBytesMax ||
        place->offset < 0 || place->offset > chunk.in->size - place->length) {
      return nullptr;
    }
    try {
      PARQUET_ASSIGN_OR_THROW(const auto bytes,
                              chunk.in->file->ReadAt(place->offset, place->length));
      auto index = parquet::ColumnIndex::Make(chunk.descriptor(), bytes->data(), bytes->size(),
                                              parquet::default_reader_properties());
      const size_t pages = chunk.pages.size();
      const bool fits = index->null_pages().size() == pages &&
                        index->encoded_min_values().size() == pages &&
                        index->encoded_max_values().size() == pages &&
                        (!index->has_null_counts() || index->null_counts().size() == pages);
      return fits ? std::move(index) : nullptr;
    } catch (const std::exception&) {
      // It is damaged or cannot be read: the output does without.
      return nullptr;
    }
  }

  static Error Changed() {
    return Error{Code::kCorrupt, "the file changed while it was read", "",
                 "find out who writes to it; files of a table are never changed in place"};
  }

  void WriteUnfolded(const Chunk& chunk, const RawPage& page,
                     const std::optional<parquet::EncodedStatistics>& alone, RawColumn& to) const {
    PageHeader header = chunk.unfolded;
    RawColumn::Facts facts = chunk.unfolded_facts;
    const auto own = alone ? alone : merged_.OfPage(header, chunk.trusted);
    facts.statistics = own ? &*own : nullptr;
    if (!chunk.trusted) header.statistics.reset();
    const bool empty = header.type == PageType::kDataV2 && chunk.entries == 0;
    to.WriteData(header, Bytes(chunk.unfolded_levels),
                 empty ? std::span<const uint8_t>() : page.body, facts);
  }

  // A page of indices into the chunk's dictionary becomes one of indices into the united one.
  Status WriteFolded(const Chunk& chunk, RawPage& page, const RawColumn::Facts& facts,
                     RawColumn& to) {
    PageHeader& header = page.header;
    header.encoding = PageEncoding::kRleDictionary;
    if (chunk.mapping.identity && chunk.entries == union_.size()) {
      to.WriteData(header, page.body, {}, facts);
      return {};
    }
    LITHIFY_TRY_ASSIGN(const Unpacked unpacked, Unpack(page));
    const int64_t present = unpacked.parts.present;
    if (present == 0 || chunk.mapping.identity) {
      // An index beyond the own dictionary must not come to mean a value of another file.
      indices_.resize(static_cast<size_t>(present));
      if (present > 0) {
        LITHIFY_TRY(DecodeIndices(unpacked.values, present, static_cast<uint64_t>(chunk.entries),
                                  indices_.data()));
      }
      to.WriteData(header, page.body, {}, facts);
      return {};
    }
    const bool v1 = header.type == PageType::kData;
    const std::span<const uint8_t> levels = unpacked.parts.levels;
    mapped_.assign(reinterpret_cast<const char*>(levels.data()), v1 ? levels.size() : 0);
    // A width of no bits is right for one entry, but some readers stumble over it.
    LITHIFY_TRY(AppendMappedIndices(unpacked.values, present, chunk.mapping.to,
                                    std::max(1, BitWidth(chunk.mapping.max)), &mapped_));
    packed_.clear();
    LITHIFY_TRY(codec_.Compress(Bytes(mapped_), &packed_));
    header.crc.reset();
    header.uncompressed_page_size = static_cast<int32_t>(mapped_.size());
    if (v1) {
      to.WriteData(header, Bytes(packed_), {}, facts);
      return {};
    }
    header.is_compressed = options_.codec != arrow::Compression::UNCOMPRESSED;
    header.uncompressed_page_size += header.v2_level_bytes();
    to.WriteData(header, levels, Bytes(packed_), facts);
    return {};
  }

  const ColumnSpliceOptions options_;
  const LevelShape shape_;
  PageCodec codec_;
  DictionaryUnion union_;
  MergedStatistics merged_;
  std::vector<Chunk> chunks_;
  const Chunk* current_ = nullptr;
  SpliceCounts counts_;
  int64_t held_bytes_ = 0;
  int64_t mapped_entries_ = 0;
  bool plain_values_ = false;  // Values without a dictionary lie in the chunks looked at so far.
  // Of the pages that will be written, about.
  int64_t pages_ = 0;
  int64_t bytes_ = 0;
  int64_t values_ = 0;
  // Used again and again.
  std::string unpacked_;
  std::string mapped_;
  std::string packed_;
  std::vector<uint32_t> indices_;
};

bool SourceFits(const LeafSource& source, const OutputLeaf& output) {
  if (source.input_leaf < 0 || source.levels_only || source.must_be_null || source.fill ||
      source.inherited || source.conversion != Conversion::kNone) {
    return false;
  }
  // Levels pass through as they are.
  if (std::ssize(source.definition_map) != output.definition_max + 1) return false;
  for (size_t level = 0; level < source.definition_map.size(); ++level) {
    if (source.definition_map[level] != static_cast<int16_t>(level)) return false;
  }
  return true;
}

bool ChunkFits(const InputSource& in, int group_number, int64_t first_row,
               const ColumnSpliceOptions& options) {
  const LeafSource& source = in.leaves[static_cast<size_t>(options.leaf)];
  const OutputLeaf& output = options.output;
  if (!SourceFits(source, output) || NeedsMending(*in.footer)) return false;
  const parquet::ColumnDescriptor& column = *in.footer->schema()->Column(source.input_leaf);
  if (column.physical_type() != output.physical ||
      column.max_definition_level() != output.definition_max ||
      column.max_repetition_level() != output.repetition_max) {
    return false;
  }
  if (output.physical == Type::FIXED_LEN_BYTE_ARRAY && column.type_length() != output.type_length) {
    return false;
  }
  const auto group = in.footer->RowGroup(group_number);
  if (in.deleted != nullptr &&
      in.deleted->CountBelow(first_row + group->num_rows()) != in.deleted->CountBelow(first_row)) {
    return false;
  }
  const auto chunk = group->ColumnChunk(source.input_leaf);
  return chunk->compression() == options.codec;
}

int64_t RowsBefore(const InputSource& in, int group) {
  int64_t rows = 0;
  for (int g = 0; g < group; ++g) rows += in.footer->RowGroup(g)->num_rows();
  return rows;
}

}  // namespace

bool MayBeSpliced(const std::vector<std::unique_ptr<InputSource>>& inputs,
                  const std::vector<GroupPlace>& places, const ColumnSpliceOptions& options) {
  int64_t bytes = 0;
  int64_t values = 0;
  int64_t chunks = 0;
  for (const GroupPlace& place : places) {
    const InputSource& in = *inputs[place.input];
    const auto group = in.footer->RowGroup(place.group);
    if (group->num_rows() == 0) continue;
    const int64_t first_row = in.deleted == nullptr ? 0 : RowsBefore(in, place.group);
    if (!ChunkFits(in, place.group, first_row, options)) return false;
    const auto chunk = group->ColumnChunk(in.leaves[static_cast<size_t>(options.leaf)].input_leaf);
    ++chunks;
    // A damaged footer may claim any number: no sum of these overflows.
    bytes += std::clamp<int64_t>(chunk->total_uncompressed_size(), 0, kGiB);
    values += std::clamp<int64_t>(chunk->num_values(), 0, kGiB);
  }
  // Each chunk has a page at least.
  return chunks > 0 && !Small(options, chunks, bytes, values);
}

Result<std::unique_ptr<ColumnSplice>> SurveyColumn(
    const std::vector<std::unique_ptr<InputSource>>& inputs, const std::vector<GroupPlace>& places,
    const ColumnSpliceOptions& options) {
  LITHIFY_TRY_ASSIGN(PageCodec codec, PageCodec::Make(options.codec, options.codec_level));
  auto splice = std::make_unique<Splice>(inputs, places, options, std::move(codec));
  auto looked = GuardParquet("column " + options.output.path, [&] { return splice->Survey(); });
  if (looked) return std::unique_ptr<ColumnSplice>(std::move(splice));
  switch (looked.error().code) {
    case Code::kCorrupt:
    case Code::kUnsupported:
    case Code::kLimit: return std::unique_ptr<ColumnSplice>();
    default: return Fail(std::move(looked.error()).In(splice->current_input()));
  }
}

}  // namespace lithify::rewrite
