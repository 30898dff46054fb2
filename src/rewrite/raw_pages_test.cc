// Chunks of files that Arrow wrote, walked as raw pages: every byte is accounted for, and what is
// put together again from the parts is what Arrow's readers accept (P20, R309).
#include "rewrite/raw_pages.h"

#include <arrow/util/compression.h>
#include <parquet/column_page.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <rapidcheck.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "rewrite/arbitrary_table.h"
#include "rewrite/arrow_io.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/index_pages.h"
#include "rewrite/page_codec.h"

namespace lithify::rewrite {
namespace {

std::string Text(std::span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

std::shared_ptr<arrow::io::BufferReader> MakeFile(std::string bytes) {
  return std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(std::move(bytes)));
}

ChunkRange RangeOf(const parquet::ColumnChunkMetaData& chunk) {
  ChunkRange range;
  range.start = ChunkStart(chunk.data_page_offset(),
                           chunk.has_dictionary_page()
                               ? std::optional<int64_t>(chunk.dictionary_page_offset())
                               : std::nullopt);
  range.bytes = chunk.total_compressed_size();
  range.num_values = chunk.num_values();
  return range;
}

struct Page {
  PageHeader header;
  std::string whole;
  std::string body;
};

// Headers are all that is read, and the body of every other page: the same pages.
void ExpectOnDemand(const std::string& bytes, const ChunkRange& range, RawPagesOptions options,
                    const std::vector<Page>& expected) {
  options.bodies_on_demand = true;
  options.read_bytes = 64;
  RawPages pages(MakeFile(bytes), static_cast<int64_t>(bytes.size()), range, options,
                 arrow::default_memory_pool());
  RawPage page;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto more = pages.Next(&page);
    ASSERT_TRUE(more && *more) << i;
    EXPECT_FALSE(page.loaded);
    EXPECT_EQ(page.header.num_values, expected[i].header.num_values);
    EXPECT_EQ(page.header.compressed_page_size, expected[i].header.compressed_page_size);
    if (i % 2 == 1) continue;
    ASSERT_TRUE(pages.Load(&page));
    ASSERT_TRUE(pages.Load(&page)) << "it is there already";
    EXPECT_EQ(Text(page.whole), expected[i].whole);
    EXPECT_EQ(Text(page.body), expected[i].body);
  }
  EXPECT_FALSE(pages.Next(&page).value());
}

// Or the error that ended the walk.
Result<std::vector<Page>> Walk(const std::string& bytes, const ChunkRange& range,
                               const RawPagesOptions& options = {}) {
  RawPages pages(MakeFile(bytes), static_cast<int64_t>(bytes.size()), range, options,
                 arrow::default_memory_pool());
  std::vector<Page> out;
  RawPage page;
  while (true) {
    const auto more = pages.Next(&page);
    if (!more) {
      const auto again = pages.Next(&page);
      EXPECT_FALSE(again.has_value());
      return Fail(more.error());
    }
    if (!*more) {
      EXPECT_FALSE(pages.Next(&page).value());
      EXPECT_EQ(pages.values_seen(), range.num_values);
      ExpectOnDemand(bytes, range, options, out);
      return out;
    }
    EXPECT_EQ(Text(page.header_bytes) + Text(page.body), Text(page.whole));
    EXPECT_EQ(bytes.substr(static_cast<size_t>(page.offset), page.whole.size()), Text(page.whole));
    out.push_back(Page{page.header, Text(page.whole), Text(page.body)});
  }
}

Code CodeOf(const Result<std::vector<Page>>& walked) {
  return walked ? Code::kInternal : walked.error().code;
}

std::string PageBytes(PageHeader header, std::string_view body) {
  header.compressed_page_size = static_cast<int32_t>(body.size());
  std::string out;
  AppendPageHeader(header, &out);
  out += body;
  return out;
}

std::unique_ptr<parquet::PageReader> ArrowPages(const std::string& chunk_bytes,
                                                const parquet::ColumnChunkMetaData& chunk,
                                                const parquet::ColumnDescriptor& descr) {
  parquet::ReaderProperties properties;
  properties.set_page_checksum_verification(true);
  return parquet::PageReader::Open(MakeFile(chunk_bytes), chunk.num_values(), chunk.compression(),
                                   properties, descr);
}

void ExpectSamePages(parquet::PageReader& expected, parquet::PageReader& actual) {
  while (true) {
    const auto want = expected.NextPage();
    const auto have = actual.NextPage();
    ASSERT_EQ(want == nullptr, have == nullptr);
    if (want == nullptr) return;
    ASSERT_EQ(want->type(), have->type());
    ASSERT_EQ(want->buffer()->ToString(), have->buffer()->ToString());
    if (want->type() == parquet::PageType::DICTIONARY_PAGE) continue;
    const auto& a = static_cast<const parquet::DataPage&>(*want);
    const auto& b = static_cast<const parquet::DataPage&>(*have);
    ASSERT_EQ(a.num_values(), b.num_values());
    ASSERT_EQ(a.encoding(), b.encoding());
    ASSERT_EQ(a.statistics().min(), b.statistics().min());
    ASSERT_EQ(a.statistics().max(), b.statistics().max());
    ASSERT_EQ(a.statistics().has_null_count, b.statistics().has_null_count);
    ASSERT_EQ(a.statistics().null_count, b.statistics().null_count);
  }
}

// Levels and indices of every page of one chunk; returns rows, and entries that are no values.
std::pair<int64_t, int64_t> CheckParts(const std::vector<Page>& pages,
                                       const parquet::ColumnChunkMetaData& chunk,
                                       const parquet::ColumnDescriptor& descr) {
  auto codec = PageCodec::Make(chunk.compression()).value();
  const LevelShape shape{descr.max_definition_level(), descr.max_repetition_level()};
  int64_t rows = 0;
  int64_t nulls = 0;
  int64_t dictionary = 0;
  for (const Page& page : pages) {
    const PageHeader& header = page.header;
    if (header.type == PageType::kDictionary) {
      dictionary = header.num_values;
      continue;
    }
    std::string body;
    if (header.type == PageType::kDataV2) {
      const auto levels = static_cast<size_t>(header.v2_level_bytes());
      body = page.body.substr(0, levels);
      const auto values = BytesOf(page.body).subspan(levels);
      if (header.is_compressed) {
        const auto status = codec.Decompress(
            values, header.uncompressed_page_size - header.v2_level_bytes(), &body);
        EXPECT_TRUE(status) << status.error().ToString();
      } else {
        body += Text(values);
      }
    } else {
      const auto status =
          codec.Decompress(BytesOf(page.body), header.uncompressed_page_size, &body);
      EXPECT_TRUE(status) << status.error().ToString();
    }
    const auto parts = TakeApart(header, BytesOf(body), shape);
    EXPECT_TRUE(parts) << parts.error().ToString();
    if (header.type == PageType::kDataV2) {
      EXPECT_EQ(parts->rows, header.num_rows);
      EXPECT_EQ(header.num_values - parts->present, header.num_nulls);
      EXPECT_TRUE(parts->begins_row);
    }
    if (header.uses_dictionary()) {
      std::vector<uint32_t> indices(static_cast<size_t>(parts->present));
      const auto decoded = DecodeIndices(parts->values, parts->present,
                                         static_cast<uint64_t>(dictionary), indices.data());
      EXPECT_TRUE(decoded) << decoded.error().ToString();
    }
    rows += parts->rows;
    nulls += header.num_values - parts->present;
  }
  return {rows, nulls};
}

TEST(RawPagesTest, ChunksOfArbitraryFilesAreWalkedAndPutTogetherAgain) {
  const bool ok = rc::check("walk", [](uint64_t seed) {
    Arbitrary any(seed);
    const int rows = any.Chance(10) ? 0 : any.Pick(300);
    const auto field = arrow::field("c", any.Type(3), any.Chance(70));
    const auto schema = arrow::schema({field});
    const std::string bytes = WriteParquet(*MakeTable(schema, {any.Column(*field, rows)}),
                                           1 + any.Pick(300), any.Properties());
    const auto reader = parquet::ParquetFileReader::Open(MakeFile(bytes));
    for (int g = 0; g < reader->metadata()->num_row_groups(); ++g) {
      const auto group = reader->metadata()->RowGroup(g);
      for (int c = 0; c < group->num_columns(); ++c) {
        const auto chunk = group->ColumnChunk(c);
        const auto& descr = *reader->metadata()->schema()->Column(c);
        RawPagesOptions options;
        options.read_bytes = 1 + any.Pick(3000);
        const auto pages = Walk(bytes, RangeOf(*chunk), options);
        if (!pages) RC_FAIL(pages.error().ToString());
        std::string copied;
        std::string rewritten;
        for (Page page : *pages) {
          copied += page.whole;
          page.header.crc = Crc32(BytesOf(page.body));
          rewritten += PageBytes(page.header, page.body);
        }
        if (chunk->num_values() > 0) {
          RC_ASSERT(copied == bytes.substr(static_cast<size_t>(RangeOf(*chunk).start),
                                           static_cast<size_t>(chunk->total_compressed_size())));
        }
        const auto expected = reader->RowGroup(g)->GetColumnPageReader(c);
        const auto actual = ArrowPages(rewritten, *chunk, descr);
        ExpectSamePages(*expected, *actual);
        const auto [seen_rows, nulls] = CheckParts(*pages, *chunk, descr);
        RC_ASSERT(seen_rows == group->num_rows());
        const auto statistics = chunk->statistics();
        if (statistics != nullptr && statistics->HasNullCount()) {
          RC_ASSERT(nulls == statistics->null_count());
        }
        RC_ASSERT(!::testing::Test::HasFailure());
      }
    }
  });
  EXPECT_TRUE(ok);
}

// --- One chunk by hand.

constexpr auto kLevelless = std::string_view("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", 16);

struct Chunk {
  std::string bytes = "PAR1";
  ChunkRange range;
};

Chunk MakeChunk() {
  Chunk chunk;
  PageHeader dictionary;
  dictionary.type = PageType::kDictionary;
  dictionary.uncompressed_page_size = 16;
  dictionary.num_values = 2;
  dictionary.crc = Crc32(BytesOf(kLevelless));
  PageHeader data;
  data.uncompressed_page_size = 16;
  data.num_values = 2;
  data.crc = Crc32(BytesOf(kLevelless));
  PageHeader index;
  index.type = PageType::kIndex;
  chunk.bytes += PageBytes(dictionary, kLevelless) + PageBytes(data, kLevelless) +
                 PageBytes(index, "index") + PageBytes(data, kLevelless);
  chunk.range = {4, static_cast<int64_t>(chunk.bytes.size()) - 4, 4, 0};
  chunk.bytes += "behind";
  return chunk;
}

TEST(RawPagesTest, PagesThatAreNoDataArePassedOver) {
  const Chunk chunk = MakeChunk();
  for (const int64_t read_bytes : {1, 7, 30, 1000}) {
    RawPagesOptions options;
    options.read_bytes = read_bytes;
    const auto pages = Walk(chunk.bytes, chunk.range, options);
    ASSERT_TRUE(pages) << pages.error().ToString();
    ASSERT_EQ(pages->size(), 3U);
    EXPECT_EQ((*pages)[0].header.type, PageType::kDictionary);
    EXPECT_EQ((*pages)[2].body, kLevelless);
  }
  const auto empty = Walk(chunk.bytes, {4, 0, 0, 0});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
  // A dictionary without data pages, whose offset Arrow writes as 0.
  EXPECT_TRUE(Walk(chunk.bytes, {0, 30, 0, 0}).value().empty());
}

TEST(RawPagesTest, CountsThatDoNotAddUpAreCorrupt) {
  const Chunk chunk = MakeChunk();
  const auto with = [&](auto change) {
    ChunkRange range = chunk.range;
    change(range);
    return CodeOf(Walk(chunk.bytes, range));
  };
  EXPECT_EQ(with([](ChunkRange&) {}), Code::kInternal);
  EXPECT_EQ(with([](auto& r) { r.num_values = 3; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.num_values = 5; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.num_values = -1; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.bytes += 6; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.bytes += 7; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.bytes = std::numeric_limits<int64_t>::max(); }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.bytes = -1; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.start = -1; }), Code::kCorrupt);
  EXPECT_EQ(with([](auto& r) { r.start = 1000; }), Code::kCorrupt);
  for (int64_t bytes = 0; bytes < chunk.range.bytes; ++bytes) {
    EXPECT_EQ(with([&](auto& r) { r.bytes = bytes; }), Code::kCorrupt) << bytes;
  }
}

TEST(RawPagesTest, AFileThatIsShorterThanItSaysIsCorrupt) {
  const Chunk chunk = MakeChunk();
  RawPages pages(MakeFile(chunk.bytes.substr(0, 60)), static_cast<int64_t>(chunk.bytes.size()),
                 chunk.range, {}, arrow::default_memory_pool());
  RawPage page;
  const auto first = pages.Next(&page);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kCorrupt);
}

TEST(RawPagesTest, ChecksumsAreVerifiedWhereThereAreAny) {
  Chunk chunk = MakeChunk();
  chunk.bytes[chunk.bytes.size() - 7] ^= 1;
  EXPECT_EQ(CodeOf(Walk(chunk.bytes, chunk.range)), Code::kCorrupt);
  RawPagesOptions options;
  options.verify_crc = false;
  EXPECT_EQ(Walk(chunk.bytes, chunk.range, options).value().size(), 3U);
}

TEST(RawPagesTest, TheDictionaryComesFirstAndOnce) {
  PageHeader dictionary;
  dictionary.type = PageType::kDictionary;
  PageHeader data;
  data.num_values = 1;
  const std::string one = PageBytes(dictionary, "");
  const std::string two = PageBytes(data, "");
  const auto walk = [](const std::string& bytes) {
    return CodeOf(Walk(bytes, {0, static_cast<int64_t>(bytes.size()), 1, 0}));
  };
  EXPECT_EQ(walk(one + two), Code::kInternal);
  EXPECT_EQ(walk(two + one), Code::kCorrupt);
  EXPECT_EQ(walk(one + one + two), Code::kCorrupt);
}

TEST(RawPagesTest, HugePagesTakeNoMemory) {
  PageHeader data;
  data.num_values = 1;
  data.compressed_page_size = 2'000'000'000;
  data.uncompressed_page_size = 10;
  std::string bytes;
  AppendPageHeader(data, &bytes);
  const auto size = static_cast<int64_t>(bytes.size());
  RawPagesOptions options;
  options.page_bytes_max = 1'000'000;
  EXPECT_EQ(CodeOf(Walk(bytes, {0, size, 1, 0}, options)), Code::kLimit);
  options.page_bytes_max = 4'000'000'000;
  EXPECT_EQ(CodeOf(Walk(bytes, {0, size, 1, 0}, options)), Code::kCorrupt);
  // A small body that claims to unpack to much.
  data.uncompressed_page_size = 2'000'000'000;
  bytes = PageBytes(data, "x");
  options.page_bytes_max = 1'000'000;
  EXPECT_EQ(CodeOf(Walk(bytes, {0, static_cast<int64_t>(bytes.size()), 1, 0}, options)),
            Code::kLimit);
  // The bound of the pool holds, too.
  BoundedPool pool(1000);
  data.uncompressed_page_size = 5000;
  bytes = PageBytes(data, std::string(5000, 'x'));
  RawPages pages(MakeFile(bytes), static_cast<int64_t>(bytes.size()),
                 {0, static_cast<int64_t>(bytes.size()), 1, 0}, {}, pool.hard());
  RawPage page;
  EXPECT_EQ(pages.Next(&page).error().code, Code::kLimit);
}

// parquet-mr 1.2.8 left the dictionary's header out of total_compressed_size (PARQUET-816).
TEST(RawPagesTest, OldFilesHaveBytesBeyondTheirSize) {
  Chunk chunk = MakeChunk();
  chunk.bytes += std::string(200, 'x');
  chunk.range.bytes -= 21;
  EXPECT_EQ(CodeOf(Walk(chunk.bytes, chunk.range)), Code::kCorrupt);
  chunk.range.padding = kOldDictionaryPadding;
  EXPECT_EQ(Walk(chunk.bytes, chunk.range).value().size(), 3U);
}

TEST(RawPagesTest, AChunkStartsAtItsDictionaryIfThatIsInFront) {
  EXPECT_EQ(ChunkStart(100, 4), 4);
  EXPECT_EQ(ChunkStart(100, std::nullopt), 100);
  EXPECT_EQ(ChunkStart(100, 0), 100);
  EXPECT_EQ(ChunkStart(100, -1), 100);
  EXPECT_EQ(ChunkStart(100, 100), 100);
  EXPECT_EQ(ChunkStart(100, 200), 100);
}

TEST(RawPagesTest, AnyBytesAreWalkedOrRefused) {
  const bool ok = rc::check("no harm", [](std::vector<uint8_t> noise) {
    Chunk chunk = MakeChunk();
    for (size_t i = 0; i + 1 < noise.size(); i += 2) {
      chunk.bytes[noise[i] % chunk.bytes.size()] = static_cast<char>(noise[i + 1]);
    }
    RawPagesOptions options;
    options.page_bytes_max = 1000;
    options.verify_crc = noise.size() % 2 == 0;
    const auto walked = Walk(chunk.bytes, chunk.range, options);
    RC_ASSERT(
        (walked || walked.error().code == Code::kCorrupt || walked.error().code == Code::kLimit));
  });
  EXPECT_TRUE(ok);
}

// --- Bodies.

TEST(PageCodecTest, TheChecksumIsGzips) {
  EXPECT_EQ(Crc32(BytesOf("123456789")), 0xcbf43926U);
  EXPECT_EQ(Crc32(BytesOf("6789"), Crc32(BytesOf("12345"))), 0xcbf43926U);
  EXPECT_EQ(Crc32({}), 0U);
}

TEST(PageCodecTest, WhatIsPackedIsUnpackedToTheSame) {
  std::string plain;
  for (int i = 0; i < 5000; ++i) plain += std::to_string(i * i);
  using arrow::Compression;
  for (const auto codec :
       {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP, Compression::BROTLI,
        Compression::ZSTD, Compression::LZ4, Compression::LZ4_HADOOP}) {
    auto made = PageCodec::Make(codec);
    ASSERT_TRUE(made) << made.error().ToString();
    std::string packed = "before";
    const auto size = made->Compress(BytesOf(plain), &packed);
    ASSERT_TRUE(size) << size.error().ToString();
    EXPECT_EQ(packed.size(), 6U + static_cast<size_t>(*size));
    EXPECT_EQ(packed.substr(0, 6), "before");
    const auto stored = BytesOf(packed).subspan(6);
    std::string out = "x";
    ASSERT_TRUE(made->Decompress(stored, static_cast<int64_t>(plain.size()), &out));
    EXPECT_EQ(out, "x" + plain);
    for (const int64_t wrong : {-1, 1, -static_cast<int>(plain.size()) - 1}) {
      const auto status =
          made->Decompress(stored, static_cast<int64_t>(plain.size()) + wrong, &out);
      ASSERT_FALSE(status) << static_cast<int>(codec) << " " << wrong;
      EXPECT_EQ(status.error().code, Code::kCorrupt);
      EXPECT_EQ(out, "x" + plain);
    }
    EXPECT_FALSE(
        made->Decompress(stored.first(9), static_cast<int64_t>(plain.size()), &out).has_value());
    EXPECT_EQ(out, "x" + plain);
    EXPECT_TRUE(made->Decompress({}, 0, &out));
  }
  EXPECT_EQ(PageCodec::Make(Compression::LZO).error().code, Code::kUnsupported);
  EXPECT_EQ(PageCodec::Make(Compression::SNAPPY, 3).error().code, Code::kUnsupported);
  EXPECT_TRUE(PageCodec::Make(Compression::ZSTD, 3));
}

// --- Two dictionary-coded chunks become one, and Arrow reads the values of both.

class Splice {
 public:
  explicit Splice(int value_bytes) : united_(value_bytes, {1 << 20, 1 << 20}) {}

  void Add(const std::string& file) {
    const auto metadata = parquet::ParquetFileReader::Open(MakeFile(file))->metadata();
    const auto chunk = metadata->RowGroup(0)->ColumnChunk(0);
    auto codec = PageCodec::Make(chunk->compression()).value();
    DictionaryMapping mapping;
    const auto walked = Walk(file, RangeOf(*chunk));
    ASSERT_TRUE(walked);
    for (const Page& page : *walked) {
      std::string body;
      ASSERT_TRUE(codec.Decompress(BytesOf(page.body), page.header.uncompressed_page_size, &body));
      if (page.header.type == PageType::kDictionary) {
        mapping = united_.Add(BytesOf(body), page.header.num_values).value().value();
        continue;
      }
      ASSERT_TRUE(page.header.uses_dictionary());
      const auto parts = TakeApart(page.header, BytesOf(body), {1, 0}).value();
      std::string mapped = Text(parts.levels);
      ASSERT_TRUE(AppendMappedIndices(parts.values, parts.present, mapping.to,
                                      BitWidth(mapping.max), &mapped));
      PageHeader header = page.header;
      header.uncompressed_page_size = static_cast<int32_t>(mapped.size());
      header.crc = Crc32(BytesOf(mapped));
      pages_ += PageBytes(header, mapped);
    }
  }

  std::string Chunk() const {
    PageHeader header;
    header.type = PageType::kDictionary;
    header.num_values = static_cast<int32_t>(united_.size());
    header.uncompressed_page_size = static_cast<int32_t>(united_.plain().size());
    header.crc = Crc32(BytesOf(united_.plain()));
    return PageBytes(header, united_.plain()) + pages_;
  }
  int64_t entries() const { return united_.size(); }

 private:
  DictionaryUnion united_;
  std::string pages_;
};

TEST(RawPagesTest, UnitedDictionariesAndMappedIndicesAreReadByArrow) {
  std::vector<std::string> files;
  std::vector<int64_t> expected;
  std::vector<int16_t> expected_levels;
  for (int f = 0; f < 3; ++f) {
    std::string json = "[";
    for (int i = 0; i < 3000; ++i) {
      const bool null = i % 11 == f;
      // Long runs in the second half.
      const int64_t value = i < 1500 ? (i * 7919 + f * 13) % (97 << f) : i / 400 + f;
      json += (i > 0 ? "," : "") + (null ? "null" : std::to_string(value));
      if (!null) expected.push_back(value);
      expected_levels.push_back(null ? 0 : 1);
    }
    const auto table = MakeTable(arrow::schema({arrow::field("n", arrow::int64())}), {json + "]"});
    files.push_back(WriteParquet(*table, 1 << 20,
                                 parquet::WriterProperties::Builder()
                                     .compression(arrow::Compression::SNAPPY)
                                     ->data_pagesize(700)
                                     ->write_batch_size(100)
                                     ->build()));
  }
  Splice splice(8);
  for (const auto& file : files) splice.Add(file);
  ASSERT_FALSE(HasFailure());
  std::vector<int64_t> distinct = expected;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  EXPECT_EQ(splice.entries(), static_cast<int64_t>(distinct.size()));

  const auto metadata = parquet::ParquetFileReader::Open(MakeFile(files[0]))->metadata();
  parquet::ReaderProperties properties;
  properties.set_page_checksum_verification(true);
  auto pages =
      parquet::PageReader::Open(MakeFile(splice.Chunk()), 9000, arrow::Compression::UNCOMPRESSED,
                                properties, *metadata->schema()->Column(0));
  const auto column = parquet::ColumnReader::Make(metadata->schema()->Column(0), std::move(pages));
  auto& reader = static_cast<parquet::Int64Reader&>(*column);
  std::vector<int64_t> values(expected.size() + 1);
  std::vector<int16_t> levels(9001);
  size_t level_at = 0;
  size_t value_at = 0;
  while (reader.HasNext()) {
    int64_t read = 0;
    level_at += static_cast<size_t>(reader.ReadBatch(static_cast<int64_t>(levels.size() - level_at),
                                                     levels.data() + level_at, nullptr,
                                                     values.data() + value_at, &read));
    value_at += static_cast<size_t>(read);
  }
  levels.resize(level_at);
  values.resize(value_at);
  EXPECT_EQ(levels, expected_levels);
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace lithify::rewrite
