// Chunks in another codec than the output's: their pages are unpacked and packed again, and nothing
// else of them changes.
#include <arrow/util/compression.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/page_index.h>

#include <random>

#include "rewrite/file_writer.h"
#include "rewrite/page_codec.h"
#include "rewrite/splice_fixture.h"

namespace lithify::rewrite {
namespace {

using arrow::Compression;
using parquet::Encoding;
using Builder = parquet::WriterProperties::Builder;

struct OutputCodec {
  const char* name;
  Compression::type codec;
};
constexpr OutputCodec kOutputs[] = {{"none", Compression::UNCOMPRESSED},
                                    {"snappy", Compression::SNAPPY},
                                    {"gzip", Compression::GZIP},
                                    {"zstd", Compression::ZSTD},
                                    {"lz4_raw", Compression::LZ4}};

std::vector<Compression::type> InputCodecs() {
  std::vector<Compression::type> codecs;
  for (const auto codec :
       {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP, Compression::ZSTD,
        Compression::LZ4, Compression::LZ4_HADOOP, Compression::BROTLI}) {
    if (arrow::util::Codec::IsAvailable(codec)) codecs.push_back(codec);
  }
  return codecs;
}

void V2(Builder& builder) { builder.data_page_version(parquet::ParquetDataPageVersion::V2); }

class SpliceCodecTest : public SpliceTest {
 protected:
  void Begin(const char* codec) {
    request_ = GroupRequest{};
    expected_.clear();
    request_.shape.codec = codec;
    request_.shape.splice_page_bytes_min = request_.shape.splice_page_values_min = 0;
  }

  // The footer names the codec, sizes are those of the pages, and each page unpacks with it to the
  // size and has the checksum that its header states.
  void CheckChunk(Compression::type codec) const {
    const auto footer = Open(output_)->metadata();
    const auto group = footer->RowGroup(0);
    const auto chunk = group->ColumnChunk(0);
    EXPECT_EQ(chunk->compression(), codec);
    auto unpacker = PageCodec::Make(codec);
    ASSERT_TRUE(unpacker);
    int64_t stored = 0;
    int64_t unpacked = 0;
    int64_t values = 0;
    for (const PageOf& page : PagesOf(output_)) {
      const PageHeader& header = page.header;
      EXPECT_EQ(header.crc, Crc32(BytesOf(page.body)));
      const bool v2 = header.type == PageType::kDataV2;
      const int64_t levels = v2 ? header.v2_level_bytes() : 0;
      std::string plain;
      if (!v2 || header.is_compressed) {
        const Status status =
            unpacker->Decompress(BytesOf(page.body).subspan(static_cast<size_t>(levels)),
                                 header.uncompressed_page_size - levels, &plain);
        EXPECT_TRUE(status) << status.error().ToString();
      } else {
        EXPECT_EQ(header.uncompressed_page_size, header.compressed_page_size);
      }
      std::string text;
      AppendPageHeader(header, &text);
      stored += std::ssize(text) + header.compressed_page_size;
      unpacked += std::ssize(text) + header.uncompressed_page_size;
      if (header.is_data()) values += header.num_values;
    }
    EXPECT_EQ(chunk->total_compressed_size(), stored);
    EXPECT_EQ(chunk->total_uncompressed_size(), unpacked);
    EXPECT_EQ(chunk->num_values(), values);
  }

  // Of column c, files that are each written in one of these ways.
  void PutEach(const std::vector<std::shared_ptr<arrow::Array>>& columns, Compression::type codec,
               const std::vector<std::function<void(Builder&)>>& ways, bool dictionary) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto with = [&](Builder& builder) {
        builder.compression(codec);
        ways[i % ways.size()](builder);
      };
      PutColumn(columns[i], dictionary ? Properties(with) : Plain(with));
    }
  }

  // All pages of all inputs, unpacked.
  static std::vector<std::string> Unpacked(const std::string& bytes) {
    auto codec =
        PageCodec::Make(Open(bytes)->metadata()->RowGroup(0)->ColumnChunk(0)->compression());
    std::vector<std::string> bodies;
    for (const PageOf& page : PagesOf(bytes)) {
      const auto levels = static_cast<size_t>(
          page.header.type == PageType::kDataV2 ? page.header.v2_level_bytes() : 0);
      std::string body = page.body.substr(0, levels);
      if (page.header.type == PageType::kDataV2 && !page.header.is_compressed) {
        body = page.body;
      } else {
        EXPECT_TRUE(codec->Decompress(
            BytesOf(page.body).subspan(levels),
            page.header.uncompressed_page_size - static_cast<int64_t>(levels), &body));
      }
      bodies.push_back(std::move(body));
    }
    return bodies;
  }
};

TEST_F(SpliceCodecTest, EveryCodecBecomesEveryOther) {
  const auto none = [](Builder&) {};
  const auto delta = [](Builder& b) { b.encoding(Encoding::DELTA_BINARY_PACKED); };
  const auto delta_v2 = [](Builder& b) {
    b.encoding(Encoding::DELTA_BINARY_PACKED);
    V2(b);
  };
  const auto streams = [](Builder& b) { b.encoding(Encoding::BYTE_STREAM_SPLIT); };
  for (const Compression::type from : InputCodecs()) {
    for (const OutputCodec& to : kOutputs) {
      SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(from) + " to " + to.name);
      const std::string way = from == to.codec ? "copied" : "transcoded";
      Begin(to.name);
      std::vector<std::shared_ptr<arrow::Array>> longs;
      for (int i = 0; i < 5; ++i) longs.push_back(Longs(i * 10'000));
      PutEach(longs, from, {none, V2, delta, delta_v2, streams}, false);
      std::vector<std::string> before;
      for (const auto& input : request_.inputs) {
        for (auto& body : Unpacked(Bytes(input.key.substr(2)))) before.push_back(std::move(body));
      }
      ExpectWays({{way, 5}});
      CheckChunk(to.codec);
      EXPECT_EQ(Unpacked(output_), before);

      Begin(to.name);
      PutEach({Texts("a", 10, true), Texts("b", 20, true), Texts("a", 12, false)}, from, {none, V2},
              true);
      ExpectWays({{"united", 3}});
      CheckChunk(to.codec);

      Begin(to.name);
      PutEach({Texts("a", 10, true), Texts("a", 10, true), Texts("a", 10, true)}, from, {none, V2},
              true);
      ExpectWays({{way, 3}});
      CheckChunk(to.codec);

      Begin(to.name);
      PutEach({Texts("x", kRows, true), Texts("y", kRows, false)}, from, {none, V2}, true);
      ExpectWays({{from == to.codec ? "unfolded" : "transcoded", 2}});
      CheckChunk(to.codec);

      Begin(to.name);
      PutEach({Lists(0, kRows), Lists(kRows, kRows), Lists(0, 10)}, from, {none, V2}, false);
      ExpectWays({{way, 3}});
      CheckChunk(to.codec);
    }
  }
}

TEST_F(SpliceCodecTest, ChunksOfSeveralCodecsLieInOneColumn) {
  Begin("zstd");
  for (const auto codec : {Compression::SNAPPY, Compression::ZSTD, Compression::GZIP}) {
    PutColumn(Longs(10'000 * inputs_), Plain([&](Builder& b) { b.compression(codec); }));
  }
  const auto input = PagesOf(Bytes("in1.parquet"));
  ExpectWays({{"copied", 1}, {"transcoded", 2}});
  CheckChunk(Compression::ZSTD);
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[1].body, input[0].body);
  const auto bounds = std::static_pointer_cast<parquet::Int64ColumnIndex>(
      Open(output_)->GetPageIndexReader()->RowGroup(0)->GetColumnIndex(0));
  ASSERT_NE(bounds, nullptr);
  EXPECT_EQ(bounds->min_values(), (std::vector<int64_t>{0, 10'000, 20'000}));
  EXPECT_EQ(bounds->max_values(), (std::vector<int64_t>{4'999, 14'999, 24'999}));
}

// A level is the writer's own affair: the bytes are good as they are.
TEST_F(SpliceCodecTest, AnotherLevelIsNoOtherCodec) {
  Begin("zstd");
  request_.shape.codec_level = 9;
  PutColumn(Longs(0), Plain([](Builder& b) { b.compression_level(1); }));
  const auto input = PagesOf(Bytes("in0.parquet"));
  ExpectWays({{"copied", 1}});
  EXPECT_EQ(PagesOf(output_)[0].body, input[0].body);
}

TEST_F(SpliceCodecTest, LevelsOfVersionTwoStayInFrontAndUnpacked) {
  Begin("zstd");
  PutColumn(Texts("t", kRows, true), Plain([](Builder& b) {
              b.compression(Compression::SNAPPY);
              V2(b);
            }));
  const auto input = PagesOf(Bytes("in0.parquet"));
  ExpectWays({{"transcoded", 1}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].header.type, PageType::kDataV2);
  EXPECT_TRUE(pages[0].header.is_compressed);
  EXPECT_EQ(pages[0].header.num_nulls, 714);
  const int32_t levels = input[0].header.definition_levels_byte_length;
  ASSERT_EQ(pages[0].header.definition_levels_byte_length, levels);
  EXPECT_EQ(pages[0].body.substr(0, static_cast<size_t>(levels)),
            input[0].body.substr(0, static_cast<size_t>(levels)));
  EXPECT_EQ(pages[0].header.uncompressed_page_size, input[0].header.uncompressed_page_size);
}

TEST_F(SpliceCodecTest, PagesOfNullsHaveNothingToPack) {
  for (const OutputCodec& to : kOutputs) {
    SCOPED_TRACE(to.name);
    Begin(to.name);
    const auto nulls = arrow::MakeArrayOfNull(arrow::utf8(), kRows).ValueOrDie();
    for (const bool v2 : {false, true}) {
      PutColumn(
          nulls, Plain([&](Builder& b) {
            b.compression(to.codec == Compression::GZIP ? Compression::SNAPPY : Compression::GZIP);
            if (v2) V2(b);
          }));
    }
    ExpectWays({{"transcoded", 2}});
    CheckChunk(to.codec);
    const auto pages = PagesOf(output_);
    ASSERT_EQ(pages.size(), 2U);
    EXPECT_FALSE(pages[1].header.is_compressed);
    EXPECT_EQ(pages[1].header.compressed_page_size, pages[1].header.definition_levels_byte_length);
  }
}

TEST_F(SpliceCodecTest, PagesThatGrowWhenTheyArePacked) {
  std::mt19937_64 random(7);
  arrow::FixedSizeBinaryBuilder noise(arrow::fixed_size_binary(8));
  for (int i = 0; i < kRows; ++i) {
    const uint64_t value = random();
    ASSERT_TRUE(noise.Append(reinterpret_cast<const uint8_t*>(&value)).ok());
  }
  const auto column = noise.Finish().ValueOrDie();
  for (const OutputCodec& to : kOutputs) {
    if (to.codec == Compression::UNCOMPRESSED) continue;
    SCOPED_TRACE(to.name);
    Begin(to.name);
    PutEach({column, column}, Compression::UNCOMPRESSED, {[](Builder&) {}, V2}, false);
    ExpectWays({{"transcoded", 2}});
    CheckChunk(to.codec);
    for (const PageOf& page : PagesOf(output_)) {
      EXPECT_GT(page.header.compressed_page_size, page.header.uncompressed_page_size);
    }
  }
}

TEST_F(SpliceCodecTest, RequiredColumnsOfAnotherCodecBecomeOptional) {
  for (const OutputCodec& to : kOutputs) {
    SCOPED_TRACE(to.name);
    Begin(to.name);
    const auto with = [&](bool v2) {
      return [&to, v2](Builder& b) {
        b.compression(to.codec == Compression::SNAPPY ? Compression::ZSTD : Compression::SNAPPY);
        if (v2) V2(b);
      };
    };
    PutColumn(Longs(0), Plain(with(false)), true);
    PutColumn(Longs(10'000), Plain(with(false)), false);
    PutColumn(Longs(20'000), Plain(with(true)), false);
    PutColumn(Longs(30'000), Properties(with(false)), false);
    for (auto& table : expected_) table = OneColumn(table->column(0)->chunk(0));
    ExpectWays({{"transcoded", 4}});
    CheckChunk(to.codec);
    const auto pages = PagesOf(output_);
    ASSERT_EQ(pages.size(), 4U);
    EXPECT_EQ(pages[1].header.type, PageType::kDataV2);
    EXPECT_EQ(pages[1].header.is_compressed, to.codec != Compression::UNCOMPRESSED);
  }
}

TEST_F(SpliceCodecTest, SmallPagesAreJoinedAndValuesGathered) {
  for (const auto from : InputCodecs()) {
    SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(from));
    Begin("zstd");
    request_.shape.splice_page_bytes_min = 8192;
    request_.shape.splice_page_values_min = 4096;
    const auto with = [&](Builder& b) {
      b.compression(from);
      if (inputs_ % 2 == 0) V2(b);
    };
    for (int i = 0; i < 10; ++i) PutColumn(Texts("t", 90, true, 100), Plain(with));
    ExpectWays({{"joined", 10}});
    CheckChunk(Compression::ZSTD);

    Begin("zstd");
    request_.shape.plain_columns = {"c"};
    request_.shape.bloom_columns = {"c"};
    for (int i = 0; i < 2; ++i) PutColumn(Texts("t", 4000, false), Properties(with));
    ExpectWays({{"gathered", 2}});
    CheckChunk(Compression::ZSTD);
    const auto filter = Open(output_)->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
    ASSERT_NE(filter, nullptr);
    for (int i = 0; i < 4000; ++i) {
      EXPECT_TRUE(filter->FindHash(filter->Hash(std::string_view("t" + std::to_string(i)))));
    }
  }
}

TEST_F(SpliceCodecTest, R093_RowsAreDeletedFromPagesOfAnotherCodec) {
  const std::vector<std::shared_ptr<arrow::Array>> columns = {
      Longs(0), Texts("unique", kRows, true), Texts("few", 20, true), Lists(0, kRows)};
  for (const auto& column : columns) {
    for (const bool dictionary : {false, true}) {
      for (const OutputCodec& to : kOutputs) {
        SCOPED_TRACE(column->type()->ToString() + (dictionary ? " dictionary " : " plain ") +
                     to.name);
        Begin(to.name);
        for (const bool v2 : {false, true}) {
          const auto with = [&](Builder& b) {
            b.compression(to.codec == Compression::SNAPPY ? Compression::GZIP
                                                          : Compression::SNAPPY);
            b.data_pagesize(4000)->write_batch_size(100);
            if (v2) V2(b);
          };
          PutColumn(column, dictionary ? Properties(with) : Plain(with));
          const auto deleted = std::make_shared<PositionSet>();
          for (const int64_t row : {0, 1, 2, 700, 1800, 4999}) deleted->Add(row);
          for (int64_t row = 2000; row < 3500; ++row) deleted->Add(row);
          request_.inputs.back().deleted = deleted;
          const auto all = expected_.back();
          std::vector<std::shared_ptr<arrow::Table>> kept;
          int64_t from = 0;
          for (int64_t row = 0; row <= kRows; ++row) {
            if (row < kRows && !deleted->Contains(row)) continue;
            kept.push_back(all->Slice(from, row - from));
            from = row + 1;
          }
          expected_.back() =
              arrow::ConcatenateTables(kept).ValueOrDie()->CombineChunks().ValueOrDie();
        }
        const auto report = Run();
        ASSERT_TRUE(report) << report.error().ToString();
        EXPECT_EQ(report->tiers, (Ways{{"splice", 2}}));
        ASSERT_EQ(report->outputs.size(), 1U);
        output_ = Bytes(report->outputs[0].name);
        CheckChunk(to.codec);
        const auto wanted =
            arrow::ConcatenateTables(expected_).ValueOrDie()->CombineChunks().ValueOrDie();
        EXPECT_TRUE(Output(*report)->Equals(*wanted, false));
      }
    }
  }
}

TEST_F(SpliceCodecTest, R232_ThreadsDoNotChangeTheBytes) {
  for (int i = 0; i < 6; ++i) {
    const auto table = arrow::Table::Make(
        arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::utf8()),
                       arrow::field("c", arrow::int64())}),
        {Longs(i * 10'000), Texts("b", 30, true), Longs(i)});
    Put("f" + std::to_string(i) + ".parquet",
        WriteParquet(*table, 1 << 20,
                     Properties([](Builder& b) { b.compression(Compression::SNAPPY); })));
  }
  ExpectOneOutput(
      [](const GroupReport& report) { EXPECT_EQ(report.splices, (Ways{{"transcoded", 18}})); });
}

// ------------------------------------------------------------------------------- hostile pages

// A file of one required column of longs in `codec`, with one page; `change` alters its header and
// its body.
std::string OnePage(Compression::type codec,
                    const std::function<void(PageHeader&, std::string&)>& change) {
  std::vector<int64_t> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  const std::string plain(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(int64_t));
  PageHeader header;
  header.num_values = 1000;
  header.uncompressed_page_size = static_cast<int32_t>(plain.size());
  std::string body;
  EXPECT_TRUE(PageCodec::Make(codec)->Compress(BytesOf(plain), &body));
  change(header, body);
  const auto properties = Properties([&](Builder& b) { b.compression(codec); });
  return FileOfPages(properties, 1000, [&](RawColumn& column) {
    column.WriteData(header, BytesOf(body), {}, RawColumn::Facts{1000, true, nullptr});
  });
}

TEST_F(SpliceCodecTest, ValuesOfVersionTwoThatAreNotPackedArePacked) {
  Begin("zstd");
  const std::string bytes = OnePage(Compression::SNAPPY, [](PageHeader& header, std::string& body) {
    header.type = PageType::kDataV2;
    header.num_rows = header.num_values;
    header.is_compressed = false;
    std::string plain;
    EXPECT_TRUE(PageCodec::Make(Compression::SNAPPY)
                    ->Decompress(BytesOf(body), header.uncompressed_page_size, &plain));
    body = plain;
  });
  expected_.push_back(ReadParquet(bytes));
  Put("a.parquet", bytes);
  ExpectWays({{"transcoded", 1}});
  CheckChunk(Compression::ZSTD);
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_TRUE(pages[0].header.is_compressed);
  EXPECT_LT(pages[0].header.compressed_page_size, 4000);
}

TEST_F(SpliceCodecTest, APageThatIsNotWhatItsHeaderSaysIsRefused) {
  const std::function<void(PageHeader&, std::string&)> damages[] = {
      [](PageHeader& header, std::string&) { header.uncompressed_page_size += 1; },
      [](PageHeader& header, std::string&) { header.uncompressed_page_size -= 1; },
      [](PageHeader&, std::string& body) { body.resize(body.size() / 2); },
      [](PageHeader&, std::string& body) { body.clear(); }};
  for (const auto from : InputCodecs()) {
    for (size_t i = 0; i < std::size(damages); ++i) {
      SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(from) + std::to_string(i));
      Begin(from == Compression::ZSTD ? "snappy" : "zstd");
      const std::string name = "bad" + std::to_string(inputs_++) + ".parquet";
      Put(name, OnePage(from, damages[i]));
      Request().verify = Verify::kCounts;
      const auto report = runner_->Run(request_, cancel_);
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
      EXPECT_NE(report.error().context.find(name), std::string::npos);
      EXPECT_NE(report.error().context.find("column c"), std::string::npos);
    }
  }
}

// A few bytes that claim to be very many are left to the tier that reads in pieces.
TEST_F(SpliceCodecTest, ALargePageIsNotUnpackedInOnePiece) {
  Begin("zstd");
  const std::string name = "large.parquet";
  Put(name, OnePage(Compression::SNAPPY, [](PageHeader& header, std::string&) {
        header.uncompressed_page_size = 60 << 20;
      }));
  Request().verify = Verify::kCounts;
  request_.memory_bytes = 64 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().code == Code::kCorrupt || report.error().code == Code::kLimit)
      << report.error().ToString();
}

}  // namespace
}  // namespace lithify::rewrite
