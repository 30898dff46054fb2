// The copy tier: well-sized row groups go to the output as they are.
#include "rewrite/column_move.h"

#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "rewrite/page_codec.h"
#include "rewrite/page_header.h"
#include "rewrite/pages_fixture.h"
#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using parquet::Encoding;
using parquet::WriterProperties;
using Tiers = std::map<std::string, int64_t>;

constexpr int kLarge =
    6000;  // Rows of a row group that is well sized here, and of one that is not.
constexpr int kSmall = 400;

std::shared_ptr<WriterProperties> Properties(
    const std::function<void(WriterProperties::Builder&)>& with = {}) {
  WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD)->data_pagesize(8 << 10);
  if (with) with(builder);
  return builder.build();
}

// Unique and repeated values, nulls, lists, and a column of nulls alone.
std::shared_ptr<arrow::Table> Rows(int64_t first, int rows) {
  arrow::Int64Builder ids;
  arrow::StringBuilder texts;
  arrow::DoubleBuilder reals;
  arrow::BooleanBuilder flags;
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int64Builder>());
  auto& items = static_cast<arrow::Int64Builder&>(*lists.value_builder());
  arrow::StringBuilder nothing;
  bool ok = true;
  for (int64_t i = first; i < first + rows; ++i) {
    ok = ok && ids.Append(i).ok();
    ok = ok && (i % 7 == 3 ? texts.AppendNull() : texts.Append("t" + std::to_string(i % 50))).ok();
    ok = ok && reals.Append(static_cast<double>(i * 7919 % 10'007) / 8).ok();
    ok = ok && flags.Append(i % 3 == 0).ok() && lists.Append().ok();
    for (int64_t k = 0; k < i % 3; ++k) ok = ok && items.Append(i % 5).ok();
    ok = ok && nothing.AppendNull().ok();
  }
  EXPECT_TRUE(ok);
  const std::vector<std::shared_ptr<arrow::Array>> columns = {
      ids.Finish().ValueOrDie(),   texts.Finish().ValueOrDie(), reals.Finish().ValueOrDie(),
      flags.Finish().ValueOrDie(), lists.Finish().ValueOrDie(), nothing.Finish().ValueOrDie()};
  const auto schema = arrow::schema(
      {arrow::field("id", arrow::int64(), false), arrow::field("text", arrow::utf8()),
       arrow::field("real", arrow::float64()), arrow::field("flag", arrow::boolean(), false),
       arrow::field("list", columns[4]->type()), arrow::field("nothing", arrow::utf8())});
  return arrow::Table::Make(schema, columns);
}

constexpr int kColumns = 6;

std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& bytes) {
  return parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
}

// Without their checksums, which are those of their bodies.
std::vector<PageOf> CheckedPagesOf(const std::string& bytes, int group, int column) {
  std::vector<PageOf> pages = PagesOf(bytes, group, column);
  for (PageOf& page : pages) {
    if (page.header.crc) {
      EXPECT_EQ(*page.header.crc, Crc32(BytesOf(page.body)));
    }
    page.header.crc.reset();
  }
  return pages;
}

class ColumnMoveTest : public RunnerTest {
 protected:
  ColumnMoveTest() {
    Request();
    request_.shape.row_group_rows = 10'000;
    request_.shape.splice_page_bytes_min = 0;
    request_.shape.splice_page_values_min = 0;
    request_.verify = Verify::kSample;
  }

  std::string PutRows(const arrow::Table& rows,
                      const std::shared_ptr<WriterProperties>& properties) {
    const std::string bytes = WriteParquet(rows, 1 << 20, properties);
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
    expected_.push_back(ReadParquet(bytes));
    return bytes;
  }

  // Runs as the request says; all rows are there, in order.
  void Expect(const Tiers& tiers) {
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report->tiers, tiers);
    const auto all = arrow::ConcatenateTables(expected_).ValueOrDie()->CombineChunks().ValueOrDie();
    const auto actual = Output(*report);
    EXPECT_TRUE(actual->Equals(*all, false)) << actual->ToString() << all->ToString();
    ASSERT_EQ(report->outputs.size(), 1U);
    output_ = Bytes(report->outputs[0].name);
  }

  // The group of `moved` is that of `in`, but for where it lies and for checksums.
  void ExpectMoved(const std::string& in, int in_group, int out_group) {
    const auto reader = Open(in);
    const auto written = Open(output_);
    const auto group = reader->metadata()->RowGroup(in_group);
    const auto moved = written->metadata()->RowGroup(out_group);
    ASSERT_EQ(moved->num_rows(), group->num_rows());
    for (int c = 0; c < group->num_columns(); ++c) {
      SCOPED_TRACE("column " + std::to_string(c));
      EXPECT_EQ(CheckedPagesOf(output_, out_group, c), CheckedPagesOf(in, in_group, c));
      const auto from = group->ColumnChunk(c);
      const auto to = moved->ColumnChunk(c);
      EXPECT_EQ(to->num_values(), from->num_values());
      EXPECT_EQ(to->has_dictionary_page(), from->has_dictionary_page());
      EXPECT_EQ(std::set(to->encodings().begin(), to->encodings().end()),
                std::set(from->encodings().begin(), from->encodings().end()));
      ExpectStatistics(*to, *from);
      ExpectIndexes(*reader, in_group, *written, out_group, c);
    }
  }

  static void ExpectStatistics(const parquet::ColumnChunkMetaData& to,
                               const parquet::ColumnChunkMetaData& from) {
    const auto stated = to.encoded_statistics();
    const auto right = from.encoded_statistics();
    ASSERT_EQ(stated == nullptr, right == nullptr);
    if (stated == nullptr) return;
    EXPECT_EQ(stated->null_count, right->null_count);
    EXPECT_EQ(stated->has_min, right->has_min);
    EXPECT_EQ(stated->min(), right->min());
    EXPECT_EQ(stated->max(), right->max());
    const auto sizes = to.size_statistics();
    const auto right_sizes = from.size_statistics();
    ASSERT_EQ(sizes == nullptr, right_sizes == nullptr);
    if (sizes == nullptr) return;
    EXPECT_EQ(sizes->definition_level_histogram, right_sizes->definition_level_histogram);
    EXPECT_EQ(sizes->repetition_level_histogram, right_sizes->repetition_level_histogram);
    EXPECT_EQ(sizes->unencoded_byte_array_data_bytes, right_sizes->unencoded_byte_array_data_bytes);
  }

  static void ExpectIndexes(parquet::ParquetFileReader& from, int in_group,
                            parquet::ParquetFileReader& to, int out_group, int c) {
    const auto offsets = to.GetPageIndexReader()->RowGroup(out_group)->GetOffsetIndex(c);
    ASSERT_NE(offsets, nullptr);
    if (!from.metadata()->RowGroup(in_group)->ColumnChunk(c)->GetOffsetIndexLocation()) return;
    const auto in = from.GetPageIndexReader()->RowGroup(in_group);
    const auto& pages = offsets->page_locations();
    const auto in_offsets = in->GetOffsetIndex(c);
    const auto& in_pages = in_offsets->page_locations();
    ASSERT_EQ(pages.size(), in_pages.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      EXPECT_EQ(pages[i].first_row_index, in_pages[i].first_row_index);
    }
    EXPECT_EQ(offsets->unencoded_byte_array_data_bytes(),
              in_offsets->unencoded_byte_array_data_bytes());
    const auto bounds = to.GetPageIndexReader()->RowGroup(out_group)->GetColumnIndex(c);
    const auto in_bounds = in->GetColumnIndex(c);
    ASSERT_EQ(bounds == nullptr, in_bounds == nullptr);
    if (bounds == nullptr) return;
    EXPECT_EQ(bounds->null_pages(), in_bounds->null_pages());
    EXPECT_EQ(bounds->encoded_min_values(), in_bounds->encoded_min_values());
    EXPECT_EQ(bounds->encoded_max_values(), in_bounds->encoded_max_values());
    EXPECT_EQ(bounds->boundary_order(), in_bounds->boundary_order());
    EXPECT_EQ(bounds->null_counts(), in_bounds->null_counts());
    EXPECT_EQ(bounds->definition_level_histograms(), in_bounds->definition_level_histograms());
    EXPECT_EQ(bounds->repetition_level_histograms(), in_bounds->repetition_level_histograms());
  }

  // They are those of the data pages of a flat column of the output.
  void ExpectLocations(const std::vector<parquet::PageLocation>& pages, int group, int column) {
    const auto footer = Open(output_)->metadata();
    const auto chunk = footer->RowGroup(group)->ColumnChunk(column);
    int64_t at = chunk->data_page_offset();
    int64_t row = 0;
    for (const parquet::PageLocation& page : pages) {
      EXPECT_EQ(page.offset, at);
      EXPECT_EQ(page.first_row_index, row);
      PageHeader header;
      const auto bytes = BytesOf(output_).subspan(static_cast<size_t>(at));
      ASSERT_TRUE(ParsePageHeader(bytes, &header).value_or(0) > 0);
      at += page.compressed_page_size;
      row += header.num_values;
    }
    EXPECT_EQ(row, chunk->num_values());
  }

  std::vector<std::shared_ptr<arrow::Table>> expected_;
  std::string output_;
};

TEST_F(ColumnMoveTest, ALargeRowGroupIsMovedAndSmallOnesBehindItAreUnited) {
  for (const bool v2 : {false, true}) {
    for (const bool indexed : {false, true}) {
      for (const bool dictionary : {false, true}) {
        SCOPED_TRACE(std::to_string(v2) + std::to_string(indexed) + std::to_string(dictionary));
        request_.inputs.clear();
        expected_.clear();
        const auto codec = indexed ? arrow::Compression::ZSTD : arrow::Compression::SNAPPY;
        request_.shape.codec = indexed ? "zstd" : "snappy";
        const auto properties = Properties([&](auto& b) {
          b.compression(codec);
          if (v2) b.data_page_version(parquet::ParquetDataPageVersion::V2);
          if (indexed) b.enable_write_page_index()->enable_page_checksum();
          if (!dictionary) b.disable_dictionary();
        });
        const std::string large = PutRows(*Rows(0, kLarge), properties);
        for (int i = 0; i < 3; ++i) PutRows(*Rows(kLarge + i * kSmall, kSmall), properties);
        Expect({{"copy", kColumns}, {"splice", 3 * kColumns}});
        ASSERT_EQ(Open(output_)->metadata()->num_row_groups(), 2);
        ExpectMoved(large, 0, 0);
      }
    }
  }
}

// With checksums in the input, nothing changes but where it lies.
TEST_F(ColumnMoveTest, SizesAndOffsetsAreThoseOfTheInputAtAnotherPlace) {
  const auto properties =
      Properties([](auto& b) { b.enable_write_page_index()->enable_page_checksum(); });
  PutRows(*Rows(0, 2000), properties);
  const std::string large = PutRows(*Rows(2000, kLarge), properties);
  Expect({{"copy", kColumns}, {"splice", kColumns}});
  const auto reader = Open(large);
  const auto written = Open(output_);
  const auto in = reader->metadata()->RowGroup(0);
  const auto out = written->metadata()->RowGroup(1);
  EXPECT_EQ(out->total_byte_size(), in->total_byte_size());
  EXPECT_EQ(out->total_compressed_size(), in->total_compressed_size());
  for (int c = 0; c < kColumns; ++c) {
    const auto from = in->ColumnChunk(c);
    const auto to = out->ColumnChunk(c);
    EXPECT_EQ(to->total_compressed_size(), from->total_compressed_size());
    EXPECT_EQ(to->total_uncompressed_size(), from->total_uncompressed_size());
    ASSERT_EQ(to->has_dictionary_page(), from->has_dictionary_page());
    if (to->has_dictionary_page()) {
      EXPECT_EQ(to->data_page_offset() - to->dictionary_page_offset(),
                from->data_page_offset() - from->dictionary_page_offset());
    }
    const auto& pages = from->encoding_stats();
    const auto& moved = to->encoding_stats();
    ASSERT_EQ(moved.size(), pages.size());
    for (size_t i = 0; i < pages.size(); ++i) EXPECT_EQ(moved[i].count, pages[i].count);
  }
}

TEST_F(ColumnMoveTest, LevelsAndBytesOfPagesAreStatedAsInTheInput) {
  const auto properties = Properties([](auto& b) {
    b.enable_write_page_index()->data_pagesize(1 << 10)->write_batch_size(500);
    b.set_size_statistics_level(parquet::SizeStatisticsLevel::PageAndColumnChunk);
  });
  const std::string large = PutRows(*Rows(0, kLarge), properties);
  Expect({{"copy", kColumns}});
  ExpectMoved(large, 0, 0);
  const auto written = Open(output_);
  const auto indexes = written->GetPageIndexReader()->RowGroup(0);
  // Two levels of repetition and four of definition in each page; texts have bytes.
  const auto lists = indexes->GetColumnIndex(4);
  const size_t pages = lists->null_pages().size();
  EXPECT_GT(pages, 1U);
  EXPECT_EQ(lists->repetition_level_histograms().size(), 2 * pages);
  EXPECT_EQ(lists->definition_level_histograms().size(), 4 * pages);
  const auto texts = indexes->GetOffsetIndex(1);
  EXPECT_EQ(texts->unencoded_byte_array_data_bytes().size(), texts->page_locations().size());
}

TEST_F(ColumnMoveTest, ItsOwnDictionaryStaysWhateverTheOthersDo) {
  // All values are unique: the splice tier would unfold or gather them.
  const auto properties = Properties([](auto& b) { b.data_pagesize(4 << 10); });
  const std::string large = PutRows(*Rows(0, kLarge), properties);
  Expect({{"copy", kColumns}});
  ExpectMoved(large, 0, 0);
  EXPECT_TRUE(Open(output_)->metadata()->RowGroup(0)->ColumnChunk(0)->has_dictionary_page());
}

TEST_F(ColumnMoveTest, P16_UpToFourTimesTheRowsIsMovedInsteadOfCut) {
  request_.shape.row_group_rows = kLarge / 4;
  const std::string large = PutRows(*Rows(0, kLarge), Properties());
  Expect({{"copy", kColumns}});
  ExpectMoved(large, 0, 0);
  request_.shape.row_group_rows = kLarge / 4 - 1;
  Expect({{"recode", kColumns}});
  EXPECT_EQ(Open(output_)->metadata()->num_row_groups(), 5);
}

TEST_F(ColumnMoveTest, WhatDoesNotFitGoesThroughTheOtherTiersColumnByColumn) {
  PutRows(*Rows(0, kLarge), Properties());
  request_.shape.plain_columns = {"text"};
  Expect({{"copy", kColumns - 1}, {"splice", 1}});
  EXPECT_FALSE(Open(output_)->metadata()->RowGroup(0)->ColumnChunk(1)->has_dictionary_page());
  request_.shape.plain_columns.clear();
  request_.shape.bloom_columns = {"real"};
  // Its filter is made of its dictionary.
  Expect({{"copy", kColumns - 1}, {"splice", 1}});
  EXPECT_TRUE(Open(output_)->metadata()->RowGroup(0)->ColumnChunk(2)->bloom_filter_offset());
  // Required here, optional in another file.
  request_.shape.bloom_columns.clear();
  auto optional = Rows(kLarge, kSmall);
  optional =
      optional->SetColumn(0, arrow::field("id", arrow::int64()), optional->column(0)).ValueOrDie();
  PutRows(*optional, Properties());
  expected_[0] = arrow::Table::Make(expected_[1]->schema(), expected_[0]->columns());
  Expect({{"copy", kColumns - 1}, {"splice", kColumns + 1}});
}

// The larger part of it must be moved: else it is united with others, as any other.
TEST_F(ColumnMoveTest, OneThatIsMostlyInAnotherCodecIsMadeAsAWhole) {
  const auto with = [](const char* name) {
    return Properties(
        [name](auto& b) { b.disable_dictionary()->compression(name, arrow::Compression::SNAPPY); });
  };
  // Flags are a few bytes, and as many texts the most there are.
  const auto texts = Rows(0, kLarge)->SelectColumns({1, 3}).ValueOrDie();
  PutRows(*texts, with("flag"));
  PutRows(*texts->Slice(0, kSmall), with("flag"));
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->tiers.at("copy"), 1);
  EXPECT_EQ(Open(Bytes(report->outputs[0].name))->metadata()->num_row_groups(), 2);
  request_.inputs.clear();
  PutRows(*texts, with("text"));
  PutRows(*texts->Slice(0, kSmall), with("text"));
  const auto made = runner_->Run(request_, cancel_);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_FALSE(made->tiers.contains("copy"));
  EXPECT_EQ(Open(Bytes(made->outputs[0].name))->metadata()->num_row_groups(), 1);
}

TEST_F(ColumnMoveTest, AColumnThatTheFileLacksIsMadeBesideThoseThatAreMoved) {
  const auto all = Rows(0, kLarge);
  const std::string large = PutRows(*all->RemoveColumn(1).ValueOrDie(), Properties());
  PutRows(*Rows(kLarge, kSmall), Properties());
  const auto nulls = arrow::MakeArrayOfNull(arrow::utf8(), kLarge).ValueOrDie();
  expected_[0] = expected_[0]
                     ->AddColumn(1, all->field(1), std::make_shared<arrow::ChunkedArray>(nulls))
                     .ValueOrDie();
  // By name, a column that is new in a later file comes last.
  const auto reordered = [](const std::shared_ptr<arrow::Table>& table) {
    return table->SelectColumns({0, 2, 3, 4, 5, 1}).ValueOrDie();
  };
  for (auto& table : expected_) table = reordered(table);
  Expect({{"copy", kColumns - 1}, {"recode", 1}, {"splice", kColumns}});
}

TEST_F(ColumnMoveTest, SmallPagesAreLeftToBeJoined) {
  request_.shape.splice_page_bytes_min = 64 << 10;
  request_.shape.splice_page_values_min = 4096;
  PutRows(*Rows(0, kLarge)->SelectColumns({0}).ValueOrDie(),
          Properties([](auto& b) { b.disable_dictionary()->data_pagesize(1 << 10); }));
  Expect({{"splice", 1}});
  EXPECT_EQ(PagesOf(output_, 0, 0).size(), 1U);
}

TEST_F(ColumnMoveTest, DeletedRowsAreNotMoved) {
  PutRows(*Rows(0, kLarge), Properties());
  auto deleted = std::make_shared<PositionSet>();
  deleted->Add(17);
  request_.inputs[0].deleted = deleted;
  expected_ = {expected_[0]->Slice(0, 17), expected_[0]->Slice(18)};
  Expect({{"splice", kColumns}});
}

TEST_F(ColumnMoveTest, R232_ThreadsMemoryAndVerificationDoNotChangeTheBytes) {
  PutRows(*Rows(0, kLarge), Properties());
  PutRows(*Rows(kLarge, kSmall), Properties());
  std::vector<std::string> files;
  for (const int threads : {1, 3}) {
    for (const int64_t memory : {int64_t{1} << 30, int64_t{1} << 21}) {
      for (const Verify verify : {Verify::kCounts, Verify::kSample}) {
        request_.threads = threads;
        request_.memory_bytes = memory;
        request_.verify = verify;
        Expect({{"copy", kColumns}, {"splice", kColumns}});
        files.push_back(output_);
      }
    }
  }
  for (const std::string& file : files) EXPECT_EQ(file, files[0]);
}

TEST_F(ColumnMoveTest, FullVerificationReadsWhatWasMoved) {
  PutRows(*Rows(0, kLarge), Properties());
  request_.verify = Verify::kFull;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->tiers, (Tiers{{"copy", kColumns}}));
  EXPECT_TRUE(report->digest_complete);
  EXPECT_EQ(report->digest_in.columns.size(), size_t{kColumns});
  request_.shape.splice = false;
  const auto recoded = runner_->Run(request_, cancel_);
  ASSERT_TRUE(recoded) << recoded.error().ToString();
  EXPECT_EQ(recoded->digest_in, report->digest_in);
}

// ------------------------------------------------------------------------------ Bloom filters

std::string BitsOf(const std::string& file, int group, int column) {
  const auto reader = Open(file);
  const auto filter = reader->GetBloomFilterReader().RowGroup(group)->GetColumnBloomFilter(column);
  if (filter == nullptr) return {};
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  filter->WriteTo(sink.get());
  return sink->Finish().ValueOrDie()->ToString();
}

TEST_F(ColumnMoveTest, P19_TheFilterOfTheInputGoesAlong) {
  const auto filtered = Properties([](auto& b) {
    for (const char* name : {"id", "real"}) {
      b.enable_bloom_filter(name, parquet::BloomFilterOptions{1000, 0.01, false});
    }
    b.disable_dictionary();
  });
  const std::string large = PutRows(*Rows(0, kLarge), filtered);
  Expect({{"copy", kColumns}});
  EXPECT_EQ(BitsOf(output_, 0, 0), BitsOf(large, 0, 0));
  EXPECT_EQ(BitsOf(output_, 0, 2), BitsOf(large, 0, 2));
  EXPECT_FALSE(BitsOf(output_, 0, 0).empty());
  EXPECT_TRUE(BitsOf(output_, 0, 1).empty());
}

// A number of the footer, as Thrift's compact protocol has it.
std::string ZigZag(int64_t n) {
  auto left = static_cast<uint64_t>(n) << 1;
  std::string bytes;
  while (left >= 0x80) {
    bytes += static_cast<char>(left | 0x80);
    left >>= 7;
  }
  bytes += static_cast<char>(left);
  return bytes;
}

// `file` with another number in the place of each `from` in its footer.
std::string Forged(std::string file, int64_t from, int64_t to) {
  const std::string old = ZigZag(from);
  const std::string forged = ZigZag(to);
  EXPECT_EQ(old.size(), forged.size());
  uint32_t footer = 0;
  std::memcpy(&footer, file.data() + file.size() - 8, sizeof footer);
  int count = 0;
  for (size_t at = file.size() - 8 - footer;
       (at = file.find(old, at)) != std::string::npos && at < file.size() - 8; at += old.size()) {
    file.replace(at, old.size(), forged);
    ++count;
  }
  EXPECT_GT(count, 0);
  return file;
}

TEST_F(ColumnMoveTest, P19_AFilterThatIsNotThereIsMadeAnew) {
  const auto filtered = Properties(
      [](auto& b) { b.enable_bloom_filter("id", parquet::BloomFilterOptions{1000, 0.01, false}); });
  const std::string large = WriteParquet(*Rows(0, kLarge), 1 << 20, filtered);
  const int64_t offset =
      *Open(large)->metadata()->RowGroup(0)->ColumnChunk(0)->bloom_filter_offset();
  const std::string damaged[] = {Forged(large, offset, offset + 1),
                                 Forged(large, offset, (int64_t{1} << 20) - 1)};
  for (const std::string& bytes : damaged) {
    request_.inputs.clear();
    Put("bad" + std::to_string(inputs_++) + ".parquet", bytes);
    expected_ = {Rows(0, kLarge)};
    Expect({{"copy", kColumns - 1}, {"splice", 1}});
    const auto reader = Open(output_);
    const auto filter = reader->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
    ASSERT_NE(filter, nullptr);
    for (int64_t i = 0; i < kLarge; ++i) EXPECT_TRUE(filter->FindHash(filter->Hash(i)));
  }
}

// ------------------------------------------------------------------------------------- damage

TEST_F(ColumnMoveTest, P17_AnIndexThatIsNotThereIsLeftOutOrTakenFromThePages) {
  const auto indexed = Properties([](auto& b) { b.enable_write_page_index(); });
  const std::string large = WriteParquet(*Rows(0, kLarge), 1 << 20, indexed);
  const auto reader = Open(large);
  const auto chunk = reader->metadata()->RowGroup(0)->ColumnChunk(2);
  const int64_t bounds = chunk->GetColumnIndexLocation()->offset;
  const int64_t offsets = chunk->GetOffsetIndexLocation()->offset;
  constexpr int64_t kNowhere = (int64_t{1} << 20) - 1;
  const std::string damaged[] = {Forged(large, bounds, bounds + 1), Forged(large, bounds, kNowhere),
                                 Forged(large, offsets, offsets + 1),
                                 Forged(large, offsets, kNowhere)};
  for (const std::string& bytes : damaged) {
    request_.inputs.clear();
    Put("bad" + std::to_string(inputs_++) + ".parquet", bytes);
    expected_ = {Rows(0, kLarge)};
    Expect({{"copy", kColumns}});
    const auto written = Open(output_);
    const auto pages = written->GetPageIndexReader()->RowGroup(0)->GetOffsetIndex(2);
    ASSERT_NE(pages, nullptr);
    ExpectLocations(pages->page_locations(), 0, 2);
  }
}

TEST_F(ColumnMoveTest, R100_OtherCountsThanThoseOfThePagesAreRefused) {
  const std::string large = WriteParquet(*Rows(0, kLarge), 1 << 20, Properties());
  // Of rows as of values.
  for (const int64_t claimed : {kLarge - 1, kLarge + 1}) {
    request_.inputs.clear();
    Put("bad" + std::to_string(inputs_++) + ".parquet", Forged(large, kLarge, claimed));
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt);
  }
}

TEST_F(ColumnMoveTest, R100_RowsOfNestedColumnsAreCountedByTheirLevels) {
  const auto lists = Rows(0, kLarge)->SelectColumns({4}).ValueOrDie();
  const std::string large = WriteParquet(*lists, 1 << 20, Properties());
  // The file and its row group claim a row less; the values are as they are.
  Put("bad.parquet", Forged(large, kLarge, kLarge - 1));
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
}

TEST_F(ColumnMoveTest, ADamagedPageIsRefusedWithFileAndColumn) {
  const auto checked = Properties([](auto& b) { b.enable_page_checksum(); });
  std::string bytes = WriteParquet(*Rows(0, kLarge), 1 << 20, checked);
  bytes[2000] ^= 1;
  Put("bad.parquet", bytes);
  request_.verify = Verify::kCounts;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
  EXPECT_NE(report.error().context.find("p/bad.parquet"), std::string::npos);
  EXPECT_NE(report.error().context.find("column id"), std::string::npos);
}

}  // namespace
}  // namespace lithify::rewrite
