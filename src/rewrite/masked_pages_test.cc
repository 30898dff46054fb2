// Chunks of files that Arrow wrote, without their deleted rows: what Arrow reads of the pages that
// are left are the rows that survive, for arbitrary columns and deletes (R093), and what is stated
// of them is what Arrow's writer states of those rows.
#include "rewrite/masked_pages.h"

#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "rewrite/arbitrary_table.h"
#include "rewrite/file_writer.h"
#include "rewrite/masked_statistics.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/plain_values.h"

namespace lithify::rewrite {
namespace {

using parquet::Encoding;
using parquet::WriterProperties;
using Builder = WriterProperties::Builder;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::shared_ptr<arrow::io::BufferReader> MakeFile(const std::string& bytes) {
  return std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes));
}

std::shared_ptr<arrow::Table> OneColumn(const std::shared_ptr<arrow::DataType>& type,
                                        const std::string& json, bool nullable) {
  return MakeTable(arrow::schema({arrow::field("c", type, nullable)}), {json});
}

std::shared_ptr<arrow::Table> Without(const arrow::Table& rows, const PositionSet& deleted) {
  std::vector<std::shared_ptr<arrow::Table>> kept = {rows.Slice(0, 0)};
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    if (!deleted.Contains(row)) kept.push_back(rows.Slice(row, 1));
  }
  return arrow::ConcatenateTables(kept).ValueOrDie()->CombineChunks().ValueOrDie();
}

PositionSet Set(const std::vector<int64_t>& positions) {
  PositionSet set;
  set.AddMany(positions);
  return set;
}

// One column chunk, to be masked.
class Chunk {
 public:
  Chunk(const std::string& bytes, int column, int group, int64_t first_row,
        const PositionSet& deleted)
      : bytes_(bytes),
        column_(column),
        in_group_(group),
        reader_(parquet::ParquetFileReader::Open(MakeFile(bytes))),
        group_(reader_->metadata()->RowGroup(group)),
        chunk_(group_->ColumnChunk(column)),
        descriptor_(reader_->metadata()->schema()->Column(column)),
        codec_(PageCodec::Make(chunk_->compression()).value()),
        merged_(descriptor_) {
    masked_.shape = {descriptor_->max_definition_level(), descriptor_->max_repetition_level()};
    masked_.form = FormOf(*descriptor_);
    masked_.deleted = &deleted;
    masked_.first_row = first_row;
    masked_.rows = group_->num_rows();
    masked_.page_bytes_max = kMiB;
  }

  std::unique_ptr<PageSource> Open() const {
    ChunkRange range;
    range.start = ChunkStart(chunk_->data_page_offset(),
                             chunk_->has_dictionary_page()
                                 ? std::optional<int64_t>(chunk_->dictionary_page_offset())
                                 : std::nullopt);
    range.bytes = chunk_->total_compressed_size();
    range.num_values = chunk_->num_values();
    return std::make_unique<RawPages>(MakeFile(bytes_), static_cast<int64_t>(bytes_.size()), range,
                                      RawPagesOptions{}, arrow::default_memory_pool());
  }

  Result<PageMask> Mask() { return PageMask::Make(masked_, *Open(), codec_); }

  struct Page {
    PageHeader header;
    std::string body;
    bool packed = true;
    int64_t ordinal = 0;
  };
  std::vector<Page> Pages(const PageMask& mask, MaskWitness* witness) {
    auto pages = TryPages(mask, witness);
    if (!pages) ADD_FAILURE() << pages.error().ToString();
    return pages.value_or(std::vector<Page>());
  }
  Result<std::vector<Page>> TryPages(const PageMask& mask, MaskWitness* witness) {
    MaskedPages source(mask, Open(), codec_, OrderOf(*descriptor_), witness);
    std::vector<Page> pages;
    RawPage page;
    while (true) {
      const auto more = source.Next(&page);
      if (!more) return Fail(more.error());
      if (!*more) return pages;
      pages.push_back(
          Page{page.header, {page.body.begin(), page.body.end()}, page.packed, page.ordinal});
    }
  }

  MaskedStatistics Statistics() {
    const auto footer = FooterOf(bytes_);
    const auto told = merged_.OfChunk(*footer, footer->Chunk(in_group_, column_), *descriptor_);
    auto stated = told.bounds.value_or(parquet::EncodedStatistics());
    if (told.nulls) stated.set_null_count(*told.nulls);
    return {masked_, OrderOf(*descriptor_), std::move(stated),
            [this](const RawPage& page) { return merged_.OfPage(page.header, true); }, codec_};
  }

  // Writes the pages as a chunk of `to`, packed.
  void Write(const PageMask& mask, const std::vector<Page>& pages, RawColumn& to) {
    std::string packed;
    for (const Page& page : pages) {
      PageHeader header = page.header;
      const auto levels =
          static_cast<size_t>(header.type == PageType::kDataV2 ? header.v2_level_bytes() : 0);
      std::span<const uint8_t> front = BytesOf(page.body);
      std::span<const uint8_t> rest;
      if (!page.packed) {
        packed.clear();
        ASSERT_TRUE(codec_.Compress(front.subspan(levels), &packed));
        header.is_compressed = chunk_->compression() != arrow::Compression::UNCOMPRESSED;
        front = front.first(levels);
        rest = BytesOf(packed);
      }
      if (!header.is_data()) {
        to.WriteDictionary(header, page.packed ? front : rest);
        continue;
      }
      if (header.num_values == 0) continue;
      UnpackedPage unpacked;
      std::string buffer;
      RawPage raw;
      raw.header = page.header;
      raw.body = BytesOf(page.body);
      raw.packed = page.packed;
      unpacked = UnpackPage(raw, masked_.shape, codec_, &buffer).value();
      rows_ += unpacked.parts.rows;
      to.WriteData(header, front, rest, {unpacked.parts.rows, true, nullptr});
    }
    EXPECT_EQ(rows_, mask.rows());
  }

  const parquet::ColumnDescriptor& descriptor() const { return *descriptor_; }
  const parquet::RowGroupMetaData& group() const { return *group_; }
  PageCodec& codec() { return codec_; }

 private:
  const std::string& bytes_;
  const int column_;
  const int in_group_;
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  std::unique_ptr<parquet::RowGroupMetaData> group_;
  std::unique_ptr<parquet::ColumnChunkMetaData> chunk_;
  const parquet::ColumnDescriptor* descriptor_;
  PageCodec codec_;
  MergedStatistics merged_;
  MaskedChunk masked_;
  int64_t rows_ = 0;
};

std::shared_ptr<WriterProperties> Uncompressed(const std::function<void(Builder&)>& with = {}) {
  Builder builder;
  builder.compression(arrow::Compression::UNCOMPRESSED)->write_batch_size(4)->data_pagesize(16);
  // With a page index, Arrow states nothing in the pages' headers.
  builder.disable_write_page_index();
  if (with) with(builder);
  return builder.build();
}

// Pages of four longs each.
std::string FourByFour(const std::function<void(Builder&)>& with = {}) {
  const auto table =
      OneColumn(arrow::int64(), "[10,11,12,13,20,21,22,23,30,31,32,33,40,41,42,43]", false);
  return WriteParquet(*table, 1 << 20, Uncompressed([&](Builder& builder) {
    builder.disable_dictionary();
    if (with) with(builder);
  }));
}

TEST(MaskedPagesTest, R093_PagesAreKeptCutOrDropped) {
  const std::string bytes = FourByFour();
  const PositionSet deleted = Set({1, 4, 5, 6, 7, 15});
  Chunk chunk(bytes, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  EXPECT_EQ(mask->rows(), 10);
  EXPECT_EQ(mask->rows_left(), 6);
  EXPECT_EQ(mask->entries(), 10);
  EXPECT_EQ(mask->data_pages(), 4);
  const auto pages = chunk.Pages(*mask, nullptr);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[0].body, Raw<int64_t>({10, 12, 13}));
  EXPECT_EQ(pages[0].header.num_values, 3);
  EXPECT_EQ(pages[0].header.uncompressed_page_size, 24);
  EXPECT_FALSE(pages[0].packed);
  EXPECT_FALSE(pages[0].header.crc);
  EXPECT_FALSE(pages[0].header.statistics);
  EXPECT_EQ(pages[1].body, Raw<int64_t>({30, 31, 32, 33}));
  EXPECT_TRUE(pages[1].packed);
  EXPECT_EQ(pages[1].ordinal, 2);
  EXPECT_TRUE(pages[1].header.statistics);
  EXPECT_EQ(pages[2].body, Raw<int64_t>({40, 41, 42}));
}

TEST(MaskedPagesTest, PositionsAreThoseOfTheFile) {
  const std::string bytes = FourByFour();
  const PositionSet deleted = Set({3, 1000, 1009, 1016});
  Chunk chunk(bytes, 0, 0, 1000, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  EXPECT_EQ(mask->rows(), 14);
  const auto pages = chunk.Pages(*mask, nullptr);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[0].body, Raw<int64_t>({11, 12, 13}));
  EXPECT_EQ(pages[2].body, Raw<int64_t>({30, 32, 33}));
}

TEST(MaskedPagesTest, NoRowOfAChunkSurvives) {
  const std::string bytes = FourByFour();
  PositionSet deleted;
  deleted.AddRange(0, 16);
  Chunk chunk(bytes, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  EXPECT_EQ(mask->rows(), 0);
  EXPECT_TRUE(chunk.Pages(*mask, nullptr).empty());
}

// A value that is deleted must not live on in a dictionary.
TEST(MaskedPagesTest, EntriesThatOnlyDeletedRowsUsedGo) {
  const auto table = OneColumn(
      arrow::utf8(), R"(["ann","bob","ann","cid","ann","ann","ann","ann","dan","ann","dan","ann"])",
      false);
  const std::string bytes = WriteParquet(*table, 1 << 20, Uncompressed());
  const PositionSet deleted = Set({1, 3});
  Chunk chunk(bytes, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  MaskedStatistics statistics = chunk.Statistics();
  const auto pages = chunk.Pages(*mask, &statistics);
  ASSERT_EQ(pages[0].header.type, PageType::kDictionary);
  EXPECT_EQ(pages[0].header.num_values, 2);
  EXPECT_EQ(pages[0].body, std::string("\3\0\0\0ann\3\0\0\0dan", 14));
  EXPECT_EQ(pages[0].header.statistics->min_value, "ann");
  std::vector<uint32_t> all;
  for (size_t i = 1; i < pages.size(); ++i) {
    std::vector<uint32_t> indices(static_cast<size_t>(pages[i].header.num_values));
    ASSERT_FALSE(pages[i].packed);
    ASSERT_TRUE(DecodeIndices(BytesOf(pages[i].body), std::ssize(indices), 2, indices.data()));
    all.insert(all.end(), indices.begin(), indices.end());
  }
  EXPECT_EQ(all, (std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 1, 0, 1, 0}));
  const auto known = statistics.Finish(*mask, [&] { return chunk.Open(); });
  ASSERT_TRUE(known);
  EXPECT_EQ(known->min(), "ann");
  EXPECT_EQ(known->max(), "dan");
}

// Numbers that count up again when the gaps are closed can still become a page of their own; what
// is used in any order, hardly once each, is of no use as a dictionary.
TEST(MaskedPagesTest, DictionariesOfManyValuesAreRenumberedOnlyIfTheyCountUp) {
  const auto up = OneColumn(arrow::int32(), "[5, 3, 9, 7, 1, 8]", false);
  const std::string ordered = WriteParquet(*up, 1 << 20, Uncompressed());
  const PositionSet deleted = Set({1, 4});
  Chunk chunk(ordered, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  EXPECT_FALSE(mask->keeps_unused());
  const auto pages = chunk.Pages(*mask, nullptr);
  EXPECT_EQ(pages[0].body, Raw<int32_t>({5, 9, 7, 8}));
  const auto mixed = OneColumn(arrow::int32(), "[5, 3, 9, 7, 1, 5, 9]", false);
  const std::string unordered = WriteParquet(*mixed, 1 << 20, Uncompressed());
  Chunk other(unordered, 0, 0, 0, deleted);
  const auto other_mask = other.Mask();
  ASSERT_TRUE(other_mask) << other_mask.error().ToString();
  EXPECT_TRUE(other_mask->keeps_unused());
  MaskedStatistics statistics = other.Statistics();
  const auto whole = other.Pages(*other_mask, &statistics);
  EXPECT_EQ(whole[0].header.num_values, 5);
  EXPECT_TRUE(whole[0].packed);
  const auto known = statistics.Finish(*other_mask, [&] { return other.Open(); });
  ASSERT_TRUE(known);
  EXPECT_EQ(known->min(), Raw<int32_t>({5}));
  EXPECT_EQ(known->max(), Raw<int32_t>({9}));
}

// Whoever only counts need not see the values.
TEST(MaskedPagesTest, WithoutAWitnessLargePagesComeWithoutTheirBody) {
  constexpr int kRows = 20'000;
  arrow::Int64Builder values;
  for (int64_t i = 0; i < kRows; ++i) ASSERT_TRUE(values.Append(i).ok());
  const auto table = arrow::Table::Make(arrow::schema({arrow::field("c", arrow::int64())}),
                                        {values.Finish().ValueOrDie()});
  const std::string bytes = WriteParquet(*table, 1 << 20, Uncompressed([](Builder& builder) {
    builder.disable_dictionary()->data_pagesize(1 << 20);
  }));
  PositionSet deleted;
  deleted.AddRange(0, kRows / 2);
  Chunk chunk(bytes, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  const auto sketch = chunk.Pages(*mask, nullptr);
  ASSERT_EQ(sketch.size(), 1U);
  EXPECT_EQ(sketch[0].header.num_values, kRows / 2);
  EXPECT_TRUE(sketch[0].body.empty());
  MaskedStatistics statistics = chunk.Statistics();
  const auto pages = chunk.Pages(*mask, &statistics);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(std::ssize(pages[0].body), pages[0].header.uncompressed_page_size);
  EXPECT_NEAR(sketch[0].header.uncompressed_page_size, pages[0].header.uncompressed_page_size, 16);
  EXPECT_EQ(pages[0].header.statistics->min_value, Raw<int64_t>({kRows / 2}));
  EXPECT_EQ(pages[0].header.statistics->max_value, Raw<int64_t>({kRows - 1}));
}

TEST(MaskedPagesTest, PagesThatCannotBeCutAreLeftToOthers) {
  const std::string bytes =
      FourByFour([](Builder& builder) { builder.encoding("c", Encoding::DELTA_BINARY_PACKED); });
  const PositionSet one = Set({1});
  EXPECT_EQ(Chunk(bytes, 0, 0, 0, one).Mask().error().code, Code::kUnsupported);
  // As a whole they can go.
  PositionSet page;
  page.AddRange(4, 8);
  Chunk chunk(bytes, 0, 0, 0, page);
  const auto mask = chunk.Mask();
  ASSERT_TRUE(mask) << mask.error().ToString();
  EXPECT_EQ(chunk.Pages(*mask, nullptr).size(), 3U);
}

// Of the chunk [10, 43], with the deletes as given.
parquet::EncodedStatistics KnownAfter(const std::string& bytes, const PositionSet& deleted,
                                      int* opened) {
  Chunk chunk(bytes, 0, 0, 0, deleted);
  const auto mask = chunk.Mask();
  MaskedStatistics statistics = chunk.Statistics();
  (void)chunk.Pages(*mask, &statistics);
  return statistics
      .Finish(*mask,
              [&] {
                ++*opened;
                return chunk.Open();
              })
      .value();
}

// Engines answer MIN and MAX from what is stated.
TEST(MaskedStatisticsTest, P17_BoundsAreThoseOfTheRowsThatSurvive) {
  const std::string bytes = FourByFour();
  int opened = 0;
  const auto known = KnownAfter(bytes, Set({0, 12, 13, 14, 15}), &opened);
  EXPECT_EQ(known.min(), Raw<int64_t>({11}));
  EXPECT_EQ(known.max(), Raw<int64_t>({33}));
  EXPECT_EQ(known.is_min_value_exact, true);
  EXPECT_EQ(known.null_count, 0);
  EXPECT_EQ(opened, 0);
}

TEST(MaskedStatisticsTest, PagesAreReadAgainOnlyWhereABoundMayBeGone) {
  // The page index is not looked at here.
  const std::string bytes = FourByFour([](Builder& builder) { builder.enable_write_page_index(); });
  int opened = 0;
  auto known = KnownAfter(bytes, Set({5}), &opened);
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(known.min(), Raw<int64_t>({10}));
  EXPECT_EQ(known.max(), Raw<int64_t>({43}));
  known = KnownAfter(bytes, Set({0}), &opened);
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(known.min(), Raw<int64_t>({11}));
  EXPECT_EQ(known.max(), Raw<int64_t>({43}));
  known = KnownAfter(bytes, Set({12, 13, 14, 15}), &opened);
  EXPECT_EQ(opened, 2);
  EXPECT_EQ(known.max(), Raw<int64_t>({33}));
}

TEST(PlainValuesTest, ValuesAreSplit) {
  const EntryRange ranges[] = {{1, 2}, {3, 5}};
  std::string kept;
  std::string left;
  const std::string texts("\1\0\0\0a\0\0\0\0\2\0\0\0bc\1\0\0\0d\1\0\0\0e", 25);
  const PlainForm form{PlainForm::Kind::kByteArray, 0};
  ASSERT_TRUE(SplitPlain(form, BytesOf(texts), 5, ranges, &kept, &left));
  EXPECT_EQ(kept, std::string("\0\0\0\0\1\0\0\0d\1\0\0\0e", 14));
  EXPECT_EQ(left, std::string("\1\0\0\0a\2\0\0\0bc", 11));
  EXPECT_EQ(SplitPlain(form, BytesOf(texts), 6, ranges, &kept, &left).error().code, Code::kCorrupt);
  kept.clear();
  const std::string bits("\x1d", 1);  // 1, 0, 1, 1, 1
  ASSERT_TRUE(SplitPlain({PlainForm::Kind::kBoolean, 0}, BytesOf(bits), 5, ranges, &kept, nullptr));
  EXPECT_EQ(kept, std::string("\x06", 1));
}

TEST(PlainValuesTest, BoundsGoByTheOrderOfTheType) {
  const auto bounds = [](PlainForm form, ValueOrder order, const std::string& plain, int64_t n) {
    ValueBounds of(form, order);
    EXPECT_TRUE(of.Add(BytesOf(plain), n));
    return std::pair(of.min().value_or("none"), of.max().value_or("none"));
  };
  const PlainForm four{PlainForm::Kind::kFixed, 4};
  const std::string numbers = Raw<int32_t>({1, -1, 2});
  EXPECT_EQ(bounds(four, ValueOrder::kSigned, numbers, 3),
            std::pair(Raw<int32_t>({-1}), Raw<int32_t>({2})));
  EXPECT_EQ(bounds(four, ValueOrder::kUnsigned, numbers, 3),
            std::pair(Raw<int32_t>({1}), Raw<int32_t>({-1})));
  EXPECT_EQ(bounds(four, ValueOrder::kFloat, Raw<float>({NAN, 2, -3, NAN}), 4),
            std::pair(Raw<float>({-3}), Raw<float>({2})));
  EXPECT_EQ(bounds(four, ValueOrder::kFloat, Raw<float>({NAN}), 1),
            std::pair(std::string("none"), std::string("none")));
  const PlainForm two{PlainForm::Kind::kFixed, 2};
  const std::string pairs("\x7f\x01\x80\x00\x00\x05", 6);
  EXPECT_EQ(bounds(two, ValueOrder::kSignedBytes, pairs, 3),
            std::pair(std::string("\x80\0", 2), std::string("\x7f\x01", 2)));
  EXPECT_EQ(bounds(two, ValueOrder::kBytes, pairs, 3),
            std::pair(std::string("\0\x05", 2), std::string("\x80\0", 2)));
}

// ------------------------------------------------------------------------------ all of it at once

std::shared_ptr<WriterProperties> AnyProperties(Arbitrary& any, const arrow::Schema& schema) {
  const arrow::Compression::type codecs[] = {arrow::Compression::UNCOMPRESSED,
                                             arrow::Compression::SNAPPY, arrow::Compression::ZSTD};
  Builder builder;
  builder.compression(codecs[any.Pick(3)])
      ->data_pagesize(16 << any.Pick(8))
      ->write_batch_size(1 + any.Pick(50))
      ->dictionary_pagesize_limit(16 << any.Pick(10));
  if (any.Chance(50)) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  if (any.Chance(50)) builder.disable_write_page_index();
  if (any.Chance(20)) builder.disable_statistics();
  if (!any.Chance(40)) return builder.build();
  builder.disable_dictionary();
  for (const auto& field : schema.fields()) {
    const auto id = field->type()->id();
    const bool number = id == arrow::Type::INT32 || id == arrow::Type::DOUBLE;
    if (number && any.Chance(60)) builder.encoding(field->name(), Encoding::BYTE_STREAM_SPLIT);
    if (id == arrow::Type::BOOL && any.Chance(60)) builder.encoding(field->name(), Encoding::RLE);
  }
  return builder.build();
}

PositionSet AnyRows(Arbitrary& any, int64_t rows) {
  PositionSet deleted;
  if (rows == 0) return deleted;
  const auto row = [&] { return any.Pick(static_cast<int>(rows)); };
  switch (any.Pick(5)) {
    case 0: deleted.Add(any.Chance(50) ? 0 : rows - 1); break;
    case 1: {
      const int64_t first = row();
      deleted.AddRange(first, first + 1 + any.Pick(static_cast<int>(rows - first)));
      break;
    }
    case 2: deleted.AddRange(0, rows); break;
    default:
      for (int i = 0, n = 1 + any.Pick(static_cast<int>(rows)); i < n; ++i) deleted.Add(row());
  }
  return deleted;
}

void ExpectTrue(const parquet::EncodedStatistics& stated, const std::string& filtered, int column) {
  const auto reader = parquet::ParquetFileReader::Open(MakeFile(filtered));
  const auto right = reader->metadata()->RowGroup(0)->ColumnChunk(column)->encoded_statistics();
  RC_ASSERT(right != nullptr);
  if (stated.has_null_count) RC_ASSERT(stated.null_count == right->null_count);
  if (!stated.has_min) return;
  MergedStatistics merged(reader->metadata()->schema()->Column(column));
  merged.AddPart(stated, int64_t{1} << 40, false);
  const auto clean = merged.statistics(1 << 20);
  RC_ASSERT(clean.has_min && right->has_min);
  RC_ASSERT(clean.min() == right->min());
  RC_ASSERT(clean.max() == right->max());
  RC_TAG("bounds");
}

// Writes what survives of all columns, and checks what is stated of each.
void CheckMasked(const std::string& bytes, const arrow::Table& table, const PositionSet& deleted) {
  const auto expected = Without(table, deleted);
  const std::string filtered = WriteParquet(*expected, 1 << 20);
  const auto reader = parquet::ParquetFileReader::Open(MakeFile(bytes));
  const auto* schema = reader->metadata()->schema();
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  Builder builder;
  builder.compression(reader->metadata()->RowGroup(0)->ColumnChunk(0)->compression());
  FileWriter writer(sink,
                    std::static_pointer_cast<parquet::schema::GroupNode>(schema->schema_root()),
                    builder.build());
  writer.StartRowGroup();
  for (int c = 0; c < schema->num_columns(); ++c) {
    Chunk chunk(bytes, c, 0, 0, deleted);
    const auto mask = chunk.Mask();
    if (!mask) RC_FAIL(mask.error().ToString());
    RC_ASSERT(mask->rows() == expected->num_rows());
    MaskedStatistics statistics = chunk.Statistics();
    RawColumn* column = writer.NextColumn();
    chunk.Write(*mask, chunk.Pages(*mask, &statistics), *column);
    writer.CloseColumn(static_cast<size_t>(c));
    const auto known = statistics.Finish(*mask, [&] { return chunk.Open(); });
    if (!known) RC_FAIL(known.error().ToString());
    ExpectTrue(*known, filtered, c);
  }
  writer.EndRowGroup(expected->num_rows());
  (void)writer.Close(reader->metadata()->key_value_metadata());
  const auto actual = ReadParquet(sink->Finish().ValueOrDie()->ToString());
  if (!actual->Equals(*expected, false)) {
    RC_FAIL("expected " + expected->ToString() + "\nactual " + actual->ToString());
  }
}

TEST(MaskedPagesPropertyTest, WhatIsLeftAreTheRowsThatSurvive) {
  const bool ok = rc::check("mask", [](uint64_t seed) {
    Arbitrary any(seed);
    arrow::FieldVector fields;
    std::vector<std::string> json;
    const int rows = 1 + any.Pick(200);
    for (int i = 0, n = 1 + any.Pick(3); i < n; ++i) {
      fields.push_back(arrow::field("c" + std::to_string(i), any.Type(2), any.Chance(60)));
      json.push_back(any.Column(*fields.back(), rows));
    }
    const auto schema = arrow::schema(fields);
    const auto table = MakeTable(schema, json);
    const std::string bytes = WriteParquet(*table, 1 << 20, AnyProperties(any, *schema));
    const auto written = ReadParquet(bytes);
    const PositionSet deleted = AnyRows(any, rows);
    if (deleted.size() == rows) return;
    CheckMasked(bytes, *written, deleted);
  });
  EXPECT_TRUE(ok);
}

// A damaged chunk gives an error or pages that add up, never a crash.
TEST(MaskedPagesPropertyTest, DamagedPagesAreErrorsOrAddUp) {
  const bool ok = rc::check("damage", [](uint64_t seed) {
    Arbitrary any(seed);
    const auto field = arrow::field("c", any.Type(2), any.Chance(60));
    const int rows = 1 + any.Pick(200);
    const auto schema = arrow::schema({field});
    std::string bytes = WriteParquet(*MakeTable(schema, {any.Column(*field, rows)}), 1 << 20,
                                     AnyProperties(any, *schema));
    const PositionSet deleted = AnyRows(any, rows);
    uint32_t footer = 0;
    std::memcpy(&footer, bytes.data() + bytes.size() - 8, sizeof footer);
    const int pages_end = static_cast<int>(bytes.size()) - static_cast<int>(footer) - 12;
    for (int i = 0, n = 1 + any.Pick(3); i < n; ++i) {
      bytes[static_cast<size_t>(4 + any.Pick(pages_end))] ^= static_cast<char>(1 << any.Pick(8));
    }
    Chunk chunk(bytes, 0, 0, 0, deleted);
    const auto mask = chunk.Mask();
    RC_TAG(mask ? "masked" : "refused");
    if (!mask) return;
    RC_ASSERT(mask->rows() == rows - deleted.size());
    MaskedStatistics statistics = chunk.Statistics();
    const auto pages = chunk.TryPages(*mask, &statistics);
    if (!pages) return;
    int64_t entries = 0;
    for (const auto& page : *pages) {
      if (page.header.is_data()) entries += page.header.num_values;
    }
    RC_ASSERT(entries == mask->entries());
    (void)statistics.Finish(*mask, [&] { return chunk.Open(); });
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace lithify::rewrite
