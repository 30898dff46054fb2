// The splice tier: which columns are moved, how, and what the outputs state of them.
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/statistics.h>

#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "rewrite/file_writer.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_codec.h"
#include "rewrite/page_header.h"
#include "rewrite/splice_fixture.h"
#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using parquet::Encoding;
using parquet::WriterProperties;

TEST_F(SpliceTest, PlainPagesAreCopiedByteForByte) {
  std::vector<std::string> bodies;
  for (int i = 0; i < 3; ++i) {
    PutColumn(Longs(i * 10'000), Plain(), false);
    bodies.push_back(PagesOf(Bytes("in" + std::to_string(inputs_ - 1) + ".parquet"))[0].body);
  }
  ExpectWays({{"copied", 3}});
  EXPECT_EQ(report_.tiers, (Ways{{"splice", 3}}));
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pages[i].body, bodies[i]);
    EXPECT_EQ(
        pages[i].header.crc,
        Crc32(std::span(reinterpret_cast<const uint8_t*>(bodies[i].data()), bodies[i].size())));
  }
}

TEST_F(SpliceTest, FooterAndIndexesTellWhatTheChunkHolds) {
  for (int i = 0; i < 3; ++i) PutColumn(Longs(i * 10'000), Plain(), false);
  ExpectWays({{"copied", 3}});
  const auto reader = Open(output_);
  const auto group = reader->metadata()->RowGroup(0);
  const auto chunk = group->ColumnChunk(0);
  EXPECT_EQ(group->num_rows(), 3 * kRows);
  EXPECT_EQ(chunk->num_values(), 3 * kRows);
  EXPECT_FALSE(chunk->has_dictionary_page());
  EXPECT_EQ(chunk->data_page_offset(), 4);
  ASSERT_EQ(chunk->encoding_stats().size(), 1U);
  EXPECT_EQ(chunk->encoding_stats()[0].encoding, Encoding::PLAIN);
  EXPECT_EQ(chunk->encoding_stats()[0].count, 3);
  const auto stats = std::static_pointer_cast<parquet::Int64Statistics>(chunk->statistics());
  EXPECT_EQ(stats->min(), 0);
  EXPECT_EQ(stats->max(), 20'000 + kRows - 1);
  EXPECT_EQ(stats->null_count(), 0);
  EXPECT_FALSE(stats->HasDistinctCount());
  const auto indexes = reader->GetPageIndexReader()->RowGroup(0);
  const auto offsets = indexes->GetOffsetIndex(0)->page_locations();
  ASSERT_EQ(offsets.size(), 3U);
  EXPECT_EQ(offsets[0].offset, 4);
  EXPECT_EQ(offsets[2].first_row_index, 2 * kRows);
  EXPECT_EQ(offsets[2].offset + offsets[2].compressed_page_size,
            4 + chunk->total_compressed_size());
  const auto bounds =
      std::static_pointer_cast<parquet::Int64ColumnIndex>(indexes->GetColumnIndex(0));
  EXPECT_EQ(bounds->min_values(), (std::vector<int64_t>{0, 10'000, 20'000}));
  EXPECT_EQ(bounds->boundary_order(), parquet::BoundaryOrder::Ascending);
  const auto again = runner_->VerifyFile("p/" + report_.outputs[0].name, RowRule{}, cancel_);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(again->rows, 3 * kRows);
}

// Writers of a page index leave out statistics in page headers.
TEST_F(SpliceTest, ThePageIndexOfAnInputGoesOn) {
  PutColumn(Longs(7), Plain([](auto& builder) {
              builder.enable_write_page_index()->data_pagesize(16'000)->write_batch_size(500);
            }),
            false);
  const std::string input = Bytes("in0.parquet");
  ASSERT_FALSE(PagesOf(input)[0].header.statistics);
  PutColumn(Longs(-5), Plain(), false);
  ExpectWays({{"copied", 2}});
  const auto of = [](const std::string& bytes) {
    const auto reader = Open(bytes);
    return std::static_pointer_cast<parquet::Int64ColumnIndex>(
        reader->GetPageIndexReader()->RowGroup(0)->GetColumnIndex(0));
  };
  const auto before = of(input);
  const auto after = of(output_);
  ASSERT_NE(after, nullptr);
  auto least = before->min_values();
  auto most = before->max_values();
  ASSERT_GT(least.size(), 2U);
  least.push_back(-5);
  most.push_back(-5 + kRows - 1);
  EXPECT_EQ(after->min_values(), least);
  EXPECT_EQ(after->max_values(), most);
}

TEST_F(SpliceTest, EncodingsAndPageVersionsAreKept) {
  const auto v2 = [](auto& builder) {
    builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  };
  PutColumn(Longs(0), Plain());
  PutColumn(Longs(7), Plain(v2));
  PutColumn(Longs(1), Plain([](auto& b) { b.encoding(Encoding::DELTA_BINARY_PACKED); }));
  PutColumn(Longs(2), Plain([&](auto& b) {
              b.encoding(Encoding::BYTE_STREAM_SPLIT);
              v2(b);
            }));
  request_.shape.splice_page_bytes_min = 0;
  ExpectWays({{"copied", 4}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[1].header.type, PageType::kDataV2);
  EXPECT_EQ(pages[2].header.encoding, PageEncoding::kDeltaBinaryPacked);
  EXPECT_EQ(pages[3].header.encoding, PageEncoding::kByteStreamSplit);
}

TEST_F(SpliceTest, SmallDictionariesAreUnited) {
  PutColumn(Texts("a", 10, true), Properties());
  PutColumn(Texts("b", 20, true), Properties());
  PutColumn(Texts("a", 12, true), Properties([](auto& builder) {
              builder.data_page_version(parquet::ParquetDataPageVersion::V2);
            }));
  ExpectWays({{"united", 3}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[0].header.type, PageType::kDictionary);
  EXPECT_EQ(pages[0].header.num_values, 32);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(pages[i].header.encoding, PageEncoding::kRleDictionary);
  }
  const auto footer = Open(output_)->metadata();
  const auto chunk = footer->RowGroup(0)->ColumnChunk(0);
  EXPECT_EQ(chunk->dictionary_page_offset(), 4);
  EXPECT_GT(chunk->data_page_offset(), 4);
  EXPECT_EQ(chunk->encoded_statistics()->min(), "a0");
  EXPECT_EQ(chunk->encoded_statistics()->max(), "b9");
  EXPECT_EQ(chunk->encoded_statistics()->null_count, 3 * 714);
}

TEST_F(SpliceTest, P19_AFilterIsMadeOfTheUnitedDictionary) {
  const auto filtered = Properties(
      [](auto& builder) { builder.enable_bloom_filter("c", parquet::BloomFilterOptions{}); });
  PutColumn(Texts("a", 10, true), filtered);
  PutColumn(Texts("b", 20, true), Properties());
  ExpectWays({{"united", 2}});
  const auto reader = Open(output_);
  const auto filter = reader->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
  ASSERT_NE(filter, nullptr);
  const auto has = [&](const std::string& value) {
    return filter->FindHash(filter->Hash(std::string_view(value)));
  };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(has("a" + std::to_string(i)));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(has("b" + std::to_string(i)));
  int wrong = 0;
  for (int i = 20; i < 220; ++i) wrong += has("b" + std::to_string(i)) ? 1 : 0;
  EXPECT_LT(wrong, 50);
  // Of longs, the hash is that of eight bytes.
  request_.inputs.clear();
  expected_.clear();
  PutColumn(Longs(-3, 7, 100), filtered);
  ExpectWays({{"copied", 1}});
  const auto other = Open(output_);
  const auto longs = other->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
  ASSERT_NE(longs, nullptr);
  for (int64_t i = 0; i < 100; ++i) EXPECT_TRUE(longs->FindHash(longs->Hash(-3 + 7 * i)));
}

TEST_F(SpliceTest, PagesThatShareOneDictionaryAreCopied) {
  for (int i = 0; i < 3; ++i) PutColumn(Texts("v", 50, false), Properties());
  ExpectWays({{"copied", 3}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  const auto input = PagesOf(Bytes("in0.parquet"));
  EXPECT_EQ(pages[3].body, input[1].body);
}

TEST_F(SpliceTest, ADictionaryUsedOncePerEntryBecomesAPlainPage) {
  PutColumn(Longs(0), Properties(), false);
  PutColumn(Longs(kRows), Properties(), false);
  const auto input = PagesOf(Bytes("in1.parquet"));
  ASSERT_EQ(input[0].header.type, PageType::kDictionary);
  ExpectWays({{"unfolded", 2}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[1].header.type, PageType::kData);
  EXPECT_EQ(pages[1].header.encoding, PageEncoding::kPlain);
  EXPECT_EQ(pages[1].header.num_values, kRows);
  EXPECT_EQ(pages[1].body, input[0].body);
}

TEST_F(SpliceTest, WithNullsTheUnfoldedPageHasLevelsInFront) {
  const auto many_pages = [](auto& builder) { builder.data_pagesize(512)->write_batch_size(100); };
  PutColumn(Texts("x", kRows, true), Properties());
  PutColumn(Texts("y", kRows, false), Properties(many_pages));
  const auto input = PagesOf(Bytes("in0.parquet"));
  ExpectWays({{"unfolded", 2}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[0].header.type, PageType::kDataV2);
  EXPECT_EQ(pages[0].header.num_nulls, 714);
  EXPECT_EQ(pages[0].header.num_rows, kRows);
  const auto levels = static_cast<size_t>(pages[0].header.definition_levels_byte_length);
  EXPECT_EQ(pages[0].body.substr(levels), input[0].body);
}

TEST_F(SpliceTest, ADictionaryThatWasGivenUpIsFollowedByItsPlainPages) {
  // 1,000 longs fit the dictionary; the rest of each file is plain.
  const auto fallback = [](auto& builder) {
    builder.dictionary_pagesize_limit(8000)->write_batch_size(100)->data_pagesize(4000);
  };
  PutColumn(Longs(0, 1, 300), Properties());
  PutColumn(Longs(0), Properties(fallback));
  PutColumn(Longs(1 << 20), Plain());
  request_.shape.splice_page_bytes_min = 0;
  ExpectWays({{"unfolded", 1}, {"copied", 2}});
  const auto pages = PagesOf(output_);
  EXPECT_EQ(pages[0].header.type, PageType::kDictionary);
  EXPECT_EQ(pages[0].header.num_values, 300);
}

// Spark's vectorized reader takes plain values before a page with a dictionary for its indices.
TEST_F(SpliceTest, PagesWithADictionaryNeverFollowOthers) {
  PutColumn(Longs(0, 1, 300), Properties());
  PutColumn(Longs(1 << 20), Plain());
  PutColumn(Longs(0, 1, 3000), Properties());
  request_.shape.splice_page_bytes_min = 0;
  ExpectWays({{"copied", 2}, {"gathered", 1}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[1].header.encoding, PageEncoding::kRleDictionary);
  EXPECT_EQ(pages[2].header.encoding, PageEncoding::kPlain);
  EXPECT_EQ(pages[3].header.encoding, PageEncoding::kPlain);
  EXPECT_EQ(pages[3].header.num_values, kRows);
}

// The recode tier makes less of them.
TEST_F(SpliceTest, DictionariesThatAreOfUseAreNotGathered) {
  PutColumn(Longs(1 << 20), Plain());
  for (int i = 0; i < 2; ++i) PutColumn(Texts("a text of some length ", 30, false), Properties());
  expected_.clear();
  request_.inputs.clear();
  PutColumn(Texts("of one length and another ", kRows, false), Plain());
  for (int i = 0; i < 2; ++i) PutColumn(Texts("a text of some length ", 30, false), Properties());
  ExpectWays({});
}

TEST_F(SpliceTest, NestedColumnsKeepTheirLevels) {
  for (const bool second_version : {false, true}) {
    const auto properties = Properties([&](auto& builder) {
      builder.data_pagesize(2000)->write_batch_size(64);
      if (second_version) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
    });
    arrow::ListBuilder lists(arrow::default_memory_pool(),
                             std::make_shared<arrow::StringBuilder>());
    auto& items = static_cast<arrow::StringBuilder&>(*lists.value_builder());
    int next = 0;
    for (int i = 0; i < kRows; ++i) {
      if (i % 11 == 5) {
        ASSERT_TRUE(lists.AppendNull().ok());
        continue;
      }
      ASSERT_TRUE(lists.Append().ok());
      for (int k = 0; k < i % 4; ++k) {
        ASSERT_TRUE(
            (next % 5 == 4 ? items.AppendNull() : items.Append("item" + std::to_string(next)))
                .ok());
        ++next;
      }
    }
    const auto column = lists.Finish().ValueOrDie();
    PutColumn(column, properties);
  }
  ExpectWays({{"unfolded", 2}});
}

TEST_F(SpliceTest, ARequiredColumnBecomesOptionalWithLevelsInFront) {
  const auto v2 = [](auto& builder) {
    builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  };
  PutColumn(Longs(0), Plain(), true);
  PutColumn(Longs(10'000), Plain(), false);
  PutColumn(Longs(20'000), Plain(v2), false);
  PutColumn(Longs(30'000), Properties(), false);
  for (auto& table : expected_) table = OneColumn(table->column(0)->chunk(0));
  const auto input = PagesOf(Bytes("in1.parquet"));
  ExpectWays({{"copied", 3}, {"unfolded", 1}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[1].header.type, PageType::kDataV2);
  EXPECT_EQ(pages[1].header.num_rows, kRows);
  const auto levels = static_cast<size_t>(pages[1].header.definition_levels_byte_length);
  EXPECT_EQ(pages[1].body.substr(levels), input[0].body);
  const auto footer = Open(output_)->metadata();
  const auto chunk = footer->RowGroup(0)->ColumnChunk(0);
  EXPECT_EQ(chunk->encoded_statistics()->null_count, 0);
  EXPECT_EQ(chunk->size_statistics()->definition_level_histogram,
            (std::vector<int64_t>{0, 4 * kRows}));
}

// Spark's writers take what is required from the rows that they are given, not from the table.
TEST_F(SpliceTest, PartsThatAreRequiredInSomeFilesGetOtherLevels) {
  const auto v2 = [](auto& builder) {
    builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  };
  const auto lists = [](bool nullable, int64_t first) {
    const auto data = Lists(first, kRows)->data()->Copy();
    data->type = arrow::list(arrow::field("element", arrow::int64(), nullable));
    return arrow::MakeArray(data);
  };
  PutColumn(lists(true, 0), Plain());
  PutColumn(lists(false, 10'000), Plain());
  PutColumn(lists(false, 20'000), Plain(v2));
  PutColumn(lists(false, 30'000), Plain(), false);
  const auto input = PagesOf(Bytes("in2.parquet"));
  for (size_t i = 0; i < expected_.size(); ++i) {
    expected_[i] = OneColumn(lists(true, static_cast<int64_t>(i) * 10'000));
  }
  ExpectWays({{"copied", 4}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 4U);
  const auto packed = [](const auto& page) {
    return page.body.substr(static_cast<size_t>(page.header.v2_level_bytes()));
  };
  EXPECT_EQ(pages[2].header.type, PageType::kDataV2);
  EXPECT_EQ(packed(pages[2]), packed(input[0]));
  const auto footer = Open(output_)->metadata();
  const auto chunk = footer->RowGroup(0)->ColumnChunk(0);
  const int64_t empty = 4 * kRows / 3 + 1;
  const int64_t entries = chunk->num_values();
  EXPECT_EQ(chunk->size_statistics()->definition_level_histogram,
            (std::vector<int64_t>{0, empty, 0, entries - empty}));
  EXPECT_EQ(chunk->encoded_statistics()->null_count, empty);
}

// The leaf is required, what it is in is not; a file requires both.
TEST_F(SpliceTest, PartsOfStructsThatAreRequiredInSomeFiles) {
  const auto part = [](bool nullable, const std::shared_ptr<arrow::Array>& values, bool nulls) {
    arrow::TypedBufferBuilder<bool> valid;
    for (int i = 0; i < kRows; ++i) EXPECT_TRUE(valid.Append(!nulls || i % 5 != 2).ok());
    return std::make_shared<arrow::StructArray>(
        arrow::struct_({arrow::field("v", values->type(), nullable)}), kRows,
        arrow::ArrayVector{values}, valid.Finish().ValueOrDie());
  };
  PutColumn(part(true, Texts("a", 10, true), true), Properties());
  PutColumn(part(false, Texts("b", 10, false), true), Properties());
  PutColumn(part(false, Texts("c", 10, false), false), Properties(), false);
  PutColumn(part(false, Texts("d", kRows, false), true), Plain());
  expected_.clear();
  expected_ = {OneColumn(part(true, Texts("a", 10, true), true)),
               OneColumn(part(true, Texts("b", 10, false), true)),
               OneColumn(part(true, Texts("c", 10, false), false)),
               OneColumn(part(true, Texts("d", kRows, false), true))};
  ExpectWays({{"united", 3}, {"copied", 1}});
}

TEST_F(SpliceTest, DictionariesOfRequiredAndOptionalColumnsAreUnited) {
  PutColumn(Texts("a", 10, true), Properties(), true);
  PutColumn(Texts("b", 10, false), Properties(), false);
  PutColumn(Texts("a", 10, false, 300), Properties(), false);
  for (auto& table : expected_) table = OneColumn(table->column(0)->chunk(0));
  ExpectWays({{"united", 2}, {"joined", 1}});
}

TEST_F(SpliceTest, ARowGroupThatIsCutIsRecoded) {
  for (int i = 0; i < 2; ++i) PutColumn(Longs(i * 10'000), Plain());
  Request().shape.row_group_rows = 1200;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->tiers, (Ways{{"recode", 2}}));
}

TEST_F(SpliceTest, WhatItDoesNotTakeIsRecoded) {
  const auto expect_recoded = [this](const char* why) {
    SCOPED_TRACE(why);
    ExpectWays({});
    request_ = GroupRequest{};
    expected_.clear();
  };
  PutColumn(Longs(0), Plain([](auto& b) { b.encoding(Encoding::DELTA_BINARY_PACKED); }));
  request_.shape.bloom_columns = {"c"};
  expect_recoded("P19: a filter is built from values, which these pages do not show");
  for (int i = 0; i < 2; ++i) {
    PutColumn(Longs(0, 1, 0, 100),
              Plain([](auto& b) { b.encoding(Encoding::DELTA_BINARY_PACKED); }));
  }
  expect_recoded("small pages that cannot be joined");
  PutColumn(Longs(0), Plain());
  request_.shape.splice = false;
  expect_recoded("not asked for");
}

TEST_F(SpliceTest, RowGroupsWithDeletedRowsAreSplicedBetweenThoseThatHaveNone) {
  for (int i = 0; i < 3; ++i) PutColumn(Longs(i * 10'000), Plain());
  auto deleted = std::make_shared<PositionSet>();
  deleted->Add(17);
  request_.inputs[1].deleted = deleted;
  Request().shape.row_group_rows = 2 * kRows;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->splices, (Ways{{"copied", 3}}));
  EXPECT_EQ(report->rows_in, 3 * kRows);
  EXPECT_EQ(report->rows_deleted, 1);
  EXPECT_EQ(report->rows_out, 3 * kRows - 1);
  const auto values =
      std::static_pointer_cast<arrow::Int64Array>(Output(*report)->column(0)->chunk(0));
  EXPECT_EQ(values->Value(kRows + 16), 10'016);
  EXPECT_EQ(values->Value(kRows + 17), 10'018);
}

// Files of a table that must come out equal end between row groups, and those between inputs where
// inputs are small: cut row groups could not be spliced (I27).
TEST_F(SpliceTest, I27_EqualFilesOfATableAreSplicedWhereInputsAreSmall) {
  auto table = std::make_shared<TableTarget>();
  table->schema.fields = {Column(1, "a", iceberg::TypeKind::kLong)};
  request_.table = table;
  const auto schema = arrow::schema({IdField(1, "a", arrow::int64())});
  for (int i = 0; i < 160; ++i) {
    const auto rows = arrow::Table::Make(schema, {Longs(i * 1000, 1, 0, 1000)});
    Put("f" + std::to_string(i) + ".parquet", WriteParquet(*rows, 1 << 20, Plain()));
  }
  Request().shape.outputs = 2;
  request_.shape.splice_page_values_min = 1000;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->tiers, (Ways{{"splice", 160}}));
  ASSERT_EQ(report->outputs.size(), 2U);
  EXPECT_NEAR(static_cast<double>(report->outputs[0].rows), 80'000, 10'000);
  const auto all =
      std::static_pointer_cast<arrow::Int64Array>(Output(*report)->column(0)->chunk(0));
  ASSERT_EQ(all->length(), 160'000);
  for (int64_t i = 0; i < all->length(); i += 999) EXPECT_EQ(all->Value(i), i);
}

// Three files of three row groups of 2,500 rows; output row groups take two of them. Wherever the
// deleted rows are, columns find their way past them between row groups that are spliced.
TEST_F(SpliceTest, R100_DeletedRowsBeforeBetweenAndBehindSplicedRowGroups) {
  constexpr int64_t kGroup = 2500;
  constexpr int64_t kFile = 3 * kGroup;
  using Range = std::pair<int64_t, int64_t>;  // Of rows of all files together.
  const std::vector<std::vector<Range>> patterns = {
      {{3, 4}},                            // In the first row group of a file.
      {{kGroup - 10, kGroup}},             // The last rows of a row group,
      {{2 * kGroup - 10, 2 * kGroup}},     // or of an output row group.
      {{kGroup, 2 * kGroup}},              // Whole row groups: in the middle,
      {{0, kGroup}},                       // at the beginning,
      {{kFile - kGroup, kFile}},           // at the end of a file,
      {{kFile, 2 * kFile}},                // a whole file,
      {{kFile - kGroup, kFile + kGroup}},  // over the border between files.
      {{kFile - 5, kFile}, {2 * kFile, 2 * kFile + kGroup + 7}},
  };
  const auto schema = arrow::schema(
      {arrow::field("a", arrow::int64()), arrow::field("l", arrow::list(arrow::int64()))});
  std::vector<std::shared_ptr<arrow::Table>> files;
  for (int64_t f = 0; f < 3; ++f) {
    files.push_back(arrow::Table::Make(
        schema, {Longs(f * kFile, 1, 0, kFile), Lists(f * kFile, static_cast<int>(kFile))}));
    Put("f" + std::to_string(f) + ".parquet", WriteParquet(*files.back(), kGroup, Plain()));
  }
  const auto all = arrow::ConcatenateTables(files).ValueOrDie();
  for (const auto& pattern : patterns) {
    std::vector<std::shared_ptr<arrow::Table>> kept;
    int64_t at = 0;
    for (auto& input : request_.inputs) input.deleted.reset();
    for (const auto& [first, last] : pattern) {
      for (int64_t row = first; row < last; ++row) {
        InputFile& input = request_.inputs[static_cast<size_t>(row / kFile)];
        auto deleted = input.deleted ? std::make_shared<PositionSet>(*input.deleted)
                                     : std::make_shared<PositionSet>();
        deleted->Add(row % kFile);
        input.deleted = deleted;
      }
      kept.push_back(all->Slice(at, first - at));
      at = last;
    }
    kept.push_back(all->Slice(at));
    const auto expected = arrow::ConcatenateTables(kept).ValueOrDie()->CombineChunks().ValueOrDie();
    for (const Verify verify : {Verify::kFull, Verify::kSample}) {
      for (const int64_t memory : {int64_t{1} << 30, int64_t{1} << 19}) {
        SCOPED_TRACE(testing::Message() << "from row " << pattern.front().first << ", "
                                        << (verify == Verify::kFull ? "full" : "sample") << ", "
                                        << memory << " bytes");
        Request();
        request_.verify = verify;
        request_.memory_bytes = memory;
        request_.shape.row_group_rows = 2 * kGroup;
        request_.shape.splice_page_values_min = 1000;
        const auto report = runner_->Run(request_, cancel_);
        ASSERT_TRUE(report) << report.error().ToString();
        EXPECT_GT(report->splices.at("copied"), 0);
        EXPECT_EQ(report->rows_out, expected->num_rows());
        EXPECT_TRUE(Output(*report)->Equals(*expected, false));
      }
    }
  }
}

// The dictionary was given up after some pages, and all rows of these are deleted: what was in it
// must not live on as a bound.
TEST_F(SpliceTest, P17_ValuesOfADictionaryThatOnlyDeletedRowsUsedAreNoBounds) {
  arrow::StringBuilder builder;
  for (int i = 0; i < kRows; ++i) {
    ASSERT_TRUE(builder.Append((i < 100 ? "zz" : "b") + std::to_string(i)).ok());
  }
  PutColumn(builder.Finish().ValueOrDie(), Properties([](auto& b) {
              b.dictionary_pagesize_limit(2048)->data_pagesize(512)->write_batch_size(100);
            }));
  int64_t folded = 0;
  for (const PageOf& page : PagesOf(Bytes("in0.parquet"))) {
    if (page.header.is_data() && page.header.uses_dictionary()) folded += page.header.num_values;
  }
  ASSERT_GE(folded, 100);
  ASSERT_LT(folded, kRows / 2);
  auto deleted = std::make_shared<PositionSet>();
  for (int64_t row = 0; row < folded; ++row) deleted->Add(row);
  request_.inputs[0].deleted = deleted;
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->tiers, (Ways{{"splice", 1}}));
  const auto footer = Open(Bytes(report->outputs[0].name))->metadata();
  const auto stated = footer->RowGroup(0)->ColumnChunk(0)->encoded_statistics();
  ASSERT_TRUE(stated->has_max);
  EXPECT_EQ(stated->max(), "b999");
  EXPECT_EQ(Bytes(report->outputs[0].name).find("zz"), std::string::npos);
}

TEST_F(SpliceTest, R232_ThreadsDoNotChangeTheBytes) {
  const auto schema =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::utf8()),
                     arrow::field("c", arrow::utf8())});
  for (int i = 0; i < 3; ++i) {
    const auto table = arrow::Table::Make(
        schema, {Longs(i), Texts("b" + std::to_string(i), 9, true), Texts("c", kRows, true)});
    Put("t" + std::to_string(i) + ".parquet", WriteParquet(*table, 1 << 20, Properties()));
  }
  ExpectOneOutput([](const GroupReport& report) {
    EXPECT_EQ(report.splices, (Ways{{"unfolded", 6}, {"united", 3}}));
  });
}

TEST_F(SpliceTest, WithoutALookAtTheValuesThereIsNoDigest) {
  for (int i = 0; i < 3; ++i) PutColumn(Longs(i * 10'000), Plain());
  ExpectWays({{"copied", 3}});
  EXPECT_TRUE(report_.digest_complete);
  EXPECT_EQ(report_.digest_in.columns.size(), 1U);
  auto facts = runner_->Inspect({.key = "p/" + report_.outputs[0].name});
  ASSERT_TRUE(facts && facts->mark);
  EXPECT_EQ(facts->mark->digest, report_.digest_in);
  for (const Verify verify : {Verify::kSample, Verify::kCounts}) {
    Request();
    request_.verify = verify;
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_FALSE(report->digest_complete);
    EXPECT_EQ(report->digest_in, (ContentDigest{3 * kRows, {}, {}}));
    facts = runner_->Inspect({.key = "p/" + report->outputs[0].name});
    ASSERT_TRUE(facts && facts->mark);
    EXPECT_FALSE(facts->mark->digest);
    const auto verified = runner_->VerifyFile("p/" + report->outputs[0].name, RowRule{}, cancel_);
    ASSERT_TRUE(verified) << verified.error().ToString();
    EXPECT_FALSE(verified->recorded);
    EXPECT_EQ(verified->digest, report_.digest_in);
  }
}

TEST_F(SpliceTest, R222_RowsOfSplicedColumnsAreHeldAgainstTheirPath) {
  PutColumn(Texts("t", 1, false), Properties());
  request_.verify = Verify::kCounts;
  Request().rows.tenant_column = "c";
  request_.verify = Verify::kCounts;
  request_.rows.tenant = "t0";
  const auto right = runner_->Run(request_, cancel_);
  ASSERT_TRUE(right) << right.error().ToString();
  EXPECT_EQ(right->splices, (Ways{{"copied", 1}}));
  request_.rows.tenant = "t1";
  const auto wrong = runner_->Run(request_, cancel_);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kCorrupt);
}

TEST_F(SpliceTest, ADamagedPageIsRefusedWithFileAndColumn) {
  const auto checked = Plain([](auto& builder) { builder.enable_page_checksum(); });
  PutColumn(Longs(0), checked);
  std::string bytes = WriteParquet(*OneColumn(Longs(5)), 1 << 20, checked);
  bytes[200] ^= 1;
  Put("bad.parquet", bytes);
  Request().verify = Verify::kCounts;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
  EXPECT_NE(report.error().context.find("p/bad.parquet"), std::string::npos);
  EXPECT_NE(report.error().context.find("column c"), std::string::npos);
}

// ------------------------------------------------------------------------------- pages rebuilt

TEST_F(SpliceTest, SmallPlainPagesAreJoined) {
  for (int i = 0; i < 30; ++i) PutColumn(Longs(i * 1000, 1, 0, 100), Plain(), false);
  ExpectWays({{"joined", 30}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].header.type, PageType::kData);
  EXPECT_EQ(pages[0].header.num_values, 3000);
  const auto index = std::static_pointer_cast<parquet::Int64ColumnIndex>(
      Open(output_)->GetPageIndexReader()->RowGroup(0)->GetColumnIndex(0));
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->min_values(), std::vector<int64_t>{0});
  EXPECT_EQ(index->max_values(), std::vector<int64_t>{29'099});
  EXPECT_EQ(index->null_counts(), std::vector<int64_t>{0});
}

TEST_F(SpliceTest, JoinedPagesEndAtTheBounds) {
  for (int i = 0; i < 25; ++i) PutColumn(Longs(i * 1000, 1, 0, 1000), Plain(), false);
  request_.shape.splice_page_bytes_min = 1 << 20;
  ExpectWays({{"joined", 25}});
  auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[0].header.num_values, 20'000);
  Request().shape.page_bytes = 50'000;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  pages = PagesOf(Bytes(report->outputs[0].name));
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages[0].header.uncompressed_page_size, 56'000);
}

TEST_F(SpliceTest, SmallPagesOfEveryKindAreJoined) {
  arrow::BooleanBuilder flags;
  arrow::FixedSizeBinaryBuilder keys(arrow::fixed_size_binary(5));
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE((i % 9 == 4 ? flags.AppendNull() : flags.Append(i % 3 == 0)).ok());
    ASSERT_TRUE(keys.Append(i % 2 == 0 ? "abcde" : "vwxyz").ok());
  }
  const auto flag = flags.Finish().ValueOrDie();
  const auto key = keys.Finish().ValueOrDie();
  const auto v2 = [](auto& builder) {
    builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  };
  const std::vector<std::shared_ptr<arrow::Array>> columns = {
      flag,
      key,
      Texts("t", 1000, true, 150),
      Texts("u", 3, true, 150),
      Lists(7, 150),
      arrow::MakeArrayOfNull(arrow::utf8(), 150).ValueOrDie()};
  for (const auto& column : columns) {
    for (const bool dictionary : {false, true}) {
      SCOPED_TRACE(column->type()->ToString() + (dictionary ? " dictionary" : " plain"));
      request_ = GroupRequest{};
      expected_.clear();
      for (int i = 0; i < 6; ++i) {
        const auto with = [&](auto& builder) {
          if (i % 2 == 1) v2(builder);
        };
        PutColumn(column->Slice(i, 100 + i), dictionary ? Properties(with) : Plain(with));
      }
      const auto report = Run();
      ASSERT_TRUE(report) << report.error().ToString();
      EXPECT_EQ(report->tiers, (Ways{{"splice", 6}}));
      const int64_t rebuilt = report->splices.contains("joined") ? report->splices.at("joined") : 0;
      const int64_t gathered =
          report->splices.contains("gathered") ? report->splices.at("gathered") : 0;
      EXPECT_EQ(rebuilt + gathered, 6);
      const auto all =
          arrow::ConcatenateTables(expected_).ValueOrDie()->CombineChunks().ValueOrDie();
      const std::string output = Bytes(report->outputs[0].name);
      EXPECT_TRUE(ReadParquet(output)->Equals(*all, false)) << ReadParquet(output)->ToString();
      EXPECT_LE(PagesOf(output).size(), 2U);
    }
  }
}

TEST_F(SpliceTest, DictionariesOfSmallPagesAreUnitedAndThePagesJoined) {
  for (int i = 0; i < 40; ++i) {
    PutColumn(Texts(i % 2 == 0 ? "a" : "b", 20, true, 100), Properties());
  }
  ExpectWays({{"joined", 40}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages[0].header.num_values, 40);
  EXPECT_EQ(pages[1].header.encoding, PageEncoding::kRleDictionary);
  EXPECT_EQ(pages[1].header.num_values, 4000);
}

TEST_F(SpliceTest, DictionariesWithoutUseAreGathered) {
  for (int i = 0; i < 3; ++i) {
    // All values come twice, but not in a row, in all files other ones.
    PutColumn(Longs(i * 100'000, 3, kRows * 2 / 3), Properties());
  }
  ExpectWays({{"gathered", 3}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].header.encoding, PageEncoding::kPlain);
  EXPECT_EQ(pages[0].header.num_values, 3 * kRows);
  EXPECT_FALSE(Open(output_)->metadata()->RowGroup(0)->ColumnChunk(0)->has_dictionary_page());
}

TEST_F(SpliceTest, DictionariesBeyondTheUnionAreGathered) {
  // 150,000 texts of 7 letters: more than the union of dictionaries may have.
  for (int i = 0; i < 2; ++i) {
    arrow::StringBuilder builder;
    for (int k = 0; k < 300'000; ++k) {
      ASSERT_TRUE(builder.Append(std::to_string(1'000'000 + i * 150'000 + k % 150'000)).ok());
    }
    PutColumn(builder.Finish().ValueOrDie(),
              Properties([](auto& b) { b.dictionary_pagesize_limit(8 << 20); }));
  }
  ExpectWays({{"gathered", 2}});
  for (const PageOf& page : PagesOf(output_)) {
    EXPECT_EQ(page.header.encoding, PageEncoding::kPlain);
    EXPECT_LE(page.header.uncompressed_page_size, (1 << 20) + (1 << 18) + 100);
  }
}

TEST_F(SpliceTest, ADictionaryThatIsNotWantedIsGathered) {
  PutColumn(Texts("a", 10, true), Properties());
  PutColumn(Texts("b", 10, true, 50), Properties());
  request_.shape.plain_columns = {"c"};
  ExpectWays({{"gathered", 2}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages[0].header.encoding, PageEncoding::kPlain);
}

// The filter of the output's one chunk.
std::unique_ptr<parquet::BloomFilter> FilterOf(const std::string& bytes) {
  return Open(bytes)->GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
}

void Filtered(WriterProperties::Builder& builder) {
  builder.enable_bloom_filter("c", parquet::BloomFilterOptions{});
}

TEST_F(SpliceTest, P19_AFilterHasTheTextsOfEachWay) {
  const auto expect = [this](int values, const Ways& ways) {
    SCOPED_TRACE(ways.begin()->first);
    ExpectWays(ways);
    const auto filter = FilterOf(output_);
    ASSERT_NE(filter, nullptr);
    const auto has = [&](const std::string& value) {
      return filter->FindHash(filter->Hash(std::string_view(value)));
    };
    for (int i = 0; i < values; ++i) {
      if (i % 7 == 3) continue;  // Null.
      EXPECT_TRUE(has("a" + std::to_string(i)));
    }
    int wrong = 0;
    for (int i = 0; i < 1000; ++i) wrong += has("b" + std::to_string(i)) ? 1 : 0;
    EXPECT_LT(wrong, 50);
    request_ = GroupRequest{};
    expected_.clear();
  };
  PutColumn(Texts("a", kRows, true), Properties(Filtered));
  expect(kRows, {{"unfolded", 1}});
  PutColumn(Texts("a", kRows, true), Plain(Filtered));
  expect(kRows, {{"copied", 1}});
  PutColumn(Texts("a", kRows, true), Plain([](auto& builder) {
              builder.data_page_version(parquet::ParquetDataPageVersion::V2);
              Filtered(builder);
            }));
  expect(kRows, {{"copied", 1}});
  PutColumn(Texts("a", 100, true, 100), Plain(Filtered));
  PutColumn(Texts("a", 100, true, 100), Plain(Filtered));
  expect(100, {{"joined", 2}});
  PutColumn(Texts("a", 10, true), Properties(Filtered));
  request_.shape.plain_columns = {"c"};
  expect(10, {{"gathered", 1}});
}

TEST_F(SpliceTest, P19_AFilterHasTheNumbersOfEachEncoding) {
  for (const auto encoding : {Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT}) {
    PutColumn(Longs(-3, 7), Plain([&](auto& builder) {
                builder.encoding(encoding);
                Filtered(builder);
              }));
    ExpectWays({{"copied", 1}});
    const auto filter = FilterOf(output_);
    ASSERT_NE(filter, nullptr);
    for (int64_t i = 0; i < kRows; ++i) {
      ASSERT_TRUE(filter->FindHash(filter->Hash(-3 + 7 * i))) << i;
    }
    int wrong = 0;
    for (int64_t i = 0; i < 1000; ++i) wrong += filter->FindHash(filter->Hash(-4 - i)) ? 1 : 0;
    EXPECT_LT(wrong, 50);
    request_ = GroupRequest{};
    expected_.clear();
  }
}

// Of a large chunk the headers are read first, and each page when it is moved.
TEST_F(SpliceTest, LargeChunksAreReadPageByPage) {
  constexpr int kMany = 100'000;
  const auto large = [](bool v2) {
    return Plain([=](auto& builder) {
      builder.compression(arrow::Compression::UNCOMPRESSED)->enable_page_checksum();
      if (v2) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
    });
  };
  for (const bool v2 : {false, true}) {
    request_ = GroupRequest{};
    request_.shape.codec = "none";
    expected_.clear();
    PutColumn(Longs(0, 3, 0, kMany), large(v2));
    PutColumn(Longs(7, 1, 0, kMany), large(v2));
    ExpectWays({{"copied", 2}});
    EXPECT_EQ(PagesOf(output_).size(), 2 * PagesOf(Bytes(request_.inputs[0].key.substr(2))).size());
  }
  // A bit that flipped is noticed while the page is moved, and nothing is published.
  std::string damaged = Bytes(request_.inputs[0].key.substr(2));
  damaged[damaged.size() / 2] ^= 1;
  Put("damaged.parquet", damaged);
  request_.verify = Verify::kCounts;
  const auto report = Run();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
  EXPECT_NE(report.error().ToString().find("damaged.parquet"), std::string::npos);
}

TEST_F(SpliceTest, LargePagesAreMovedBetweenSmallOnesInOrder) {
  PutColumn(Longs(0, 1, 0, 50), Plain(), false);
  PutColumn(Longs(1000), Plain(), false);
  PutColumn(Longs(10'000, 1, 0, 50), Plain(), false);
  PutColumn(Longs(11'000, 1, 0, 50), Plain(), false);
  const auto input = PagesOf(Bytes("in1.parquet"));
  ExpectWays({{"joined", 3}, {"copied", 1}});
  const auto pages = PagesOf(output_);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[1].body, input[0].body);
  EXPECT_EQ(pages[2].header.num_values, 100);
}

TEST_F(SpliceTest, R232_ThreadsDoNotChangeJoinedPages) {
  const auto schema =
      arrow::schema({arrow::field("a", arrow::int64()), arrow::field("b", arrow::utf8()),
                     arrow::field("c", arrow::utf8())});
  for (int i = 0; i < 30; ++i) {
    const auto table = arrow::Table::Make(
        schema, {Longs(i, 1, 0, 70), Texts("b" + std::to_string(i % 4), 9, true, 70),
                 Texts("c", 60, true, 70)});
    Put("t" + std::to_string(i) + ".parquet", WriteParquet(*table, 1 << 20, Properties()));
  }
  ExpectOneOutput(
      [](const GroupReport& report) { EXPECT_EQ(report.tiers, (Ways{{"splice", 90}})); });
}

// ------------------------------------------------------------------------------- hostile pages

std::shared_ptr<parquet::schema::GroupNode> OneLong() {
  using parquet::schema::GroupNode;
  return std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", parquet::Repetition::REQUIRED,
                      {parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::REQUIRED,
                                                            parquet::Type::INT64)}));
}

// A file of one required column of longs: a dictionary of `entries` and one page of `indices`,
// each with one byte.
std::string Folded(const std::vector<int64_t>& entries, const std::string& indices) {
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  FileWriter writer(sink, OneLong(), parquet::default_writer_properties());
  writer.StartRowGroup();
  RawColumn* column = writer.NextColumn();
  PageHeader header;
  header.type = PageType::kDictionary;
  header.num_values = static_cast<int32_t>(entries.size());
  const std::string values(reinterpret_cast<const char*>(entries.data()),
                           entries.size() * sizeof(int64_t));
  header.uncompressed_page_size = static_cast<int32_t>(values.size());
  column->WriteDictionary(header, BytesOf(values));
  header = PageHeader();
  header.encoding = PageEncoding::kRleDictionary;
  header.num_values = static_cast<int32_t>(indices.size());
  std::string body = "\x08";
  for (const char index : indices) body += std::string("\x02", 1) + index;
  header.uncompressed_page_size = static_cast<int32_t>(body.size());
  const auto rows = static_cast<int64_t>(indices.size());
  column->WriteData(header, BytesOf(body), {}, RawColumn::Facts{rows, true, nullptr});
  writer.CloseColumn(0);
  writer.EndRowGroup(rows);
  writer.Close(nullptr);
  return sink->Finish().ValueOrDie()->ToString();
}

TEST_F(SpliceTest, AnIndexBeyondItsDictionaryNeverMeansAValueOfAnotherFile) {
  for (const bool damaged_first : {true, false}) {
    request_ = GroupRequest{};
    const std::string good = Folded({7, 8, 9, 10}, {0, 0, 1, 2, 3, 3});
    const std::string bad = Folded({7, 8}, {0, 0, 1, 3});
    Put("a" + std::to_string(inputs_++) + ".parquet", damaged_first ? bad : good);
    Put("b" + std::to_string(inputs_++) + ".parquet", damaged_first ? good : bad);
    Request();
    request_.shape.codec = "none";
    request_.shape.splice_page_bytes_min = request_.shape.splice_page_values_min = 0;
    request_.verify = Verify::kCounts;
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
    EXPECT_NE(report.error().context.find("column c"), std::string::npos);
  }
}

TEST_F(SpliceTest, AnIndexBeyondItsDictionaryIsRefusedInPagesThatAreRebuilt) {
  for (const bool gathered : {true, false}) {
    request_ = GroupRequest{};
    Put("a" + std::to_string(inputs_++) + ".parquet",
        Folded({7, 8, 9, 10}, {0, 0, 1, 2, 3, 3, 1, 0}));
    Put("b" + std::to_string(inputs_++) + ".parquet", Folded({7, 8}, {0, 0, 1, 3}));
    Request();
    request_.shape.codec = "none";
    if (gathered) request_.shape.plain_columns = {"c"};
    request_.verify = Verify::kCounts;
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
    EXPECT_NE(report.error().context.find("column c"), std::string::npos);
  }
}

TEST_F(SpliceTest, HandMadeDictionariesAreUnited) {
  Put("a.parquet", Folded({7, 8, 9, 10}, {0, 0, 1, 2, 3, 3}));
  Put("b.parquet", Folded({8, 11}, {0, 0, 1, 1}));
  Request();
  request_.shape.codec = "none";
  request_.shape.splice_page_bytes_min = request_.shape.splice_page_values_min = 0;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->splices, (Ways{{"united", 2}}));
  const auto column = Output(*report)->column(0)->chunk(0);
  EXPECT_TRUE(column->Equals(FromJson(arrow::int64(), "[7, 7, 8, 9, 10, 10, 8, 8, 11, 11]")))
      << column->ToString();
}

// ---------------------------------------------------------------------------------- statistics

// A footer with one chunk of ten values, as a writer of that name would state it.
struct Stated {
  parquet::EncodedStatistics statistics;
  std::string created_by = "parquet-rs version 53.0.0";
};

class StatisticsTest : public testing::Test {
 protected:
  StatisticsTest() {
    SetColumn(parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::OPTIONAL,
                                                   parquet::Type::DOUBLE));
  }
  void SetColumn(const parquet::schema::NodePtr& node) {
    schema_.Init(parquet::schema::GroupNode::Make("schema", parquet::Repetition::REQUIRED, {node}));
  }

  parquet::EncodedStatistics Merge(const std::vector<Stated>& chunks) {
    MergedStatistics merged(schema_.Column(0));
    for (const Stated& chunk : chunks) {
      const auto properties = WriterProperties::Builder().created_by(chunk.created_by)->build();
      auto builder = parquet::FileMetaDataBuilder::Make(&schema_, properties);
      auto* group = builder->AppendRowGroup();
      auto* column = group->NextColumnChunk();
      if (chunk.statistics.is_set()) column->SetStatistics(chunk.statistics);
      column->Finish(10, 0, -1, 4, 100, 100, false, false, {}, {{Encoding::PLAIN, 1}});
      group->set_num_rows(10);
      group->Finish(100);
      // As read back: then the writer's name and version are known.
      const std::string bytes = builder->Finish()->SerializeToString();
      FileKinds kinds;
      const auto footer = Footer::Parse(arrow::Buffer::FromString(bytes), kinds).value();
      const StoredChunk stored = footer->Chunk(0, 0);
      const auto told = merged.OfChunk(*footer, stored, *footer->schema().Column(0));
      const std::vector<int16_t> levels = schema_.Column(0)->max_definition_level() == 0
                                              ? std::vector<int16_t>{0}
                                              : std::vector<int16_t>{0, 1};
      merged.Add(stored, told.bounds, told.nulls, levels);
    }
    return merged.statistics(4096);
  }

  static std::string Bits(double value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static parquet::EncodedStatistics Range(std::string min, std::string max, int64_t nulls = 0) {
    parquet::EncodedStatistics statistics;
    statistics.set_min(std::move(min)).set_max(std::move(max)).set_null_count(nulls);
    statistics.set_is_signed(true);
    return statistics;
  }
  static parquet::EncodedStatistics Nulls(int64_t nulls) {
    return parquet::EncodedStatistics().set_null_count(nulls);
  }

  parquet::SchemaDescriptor schema_;
};

TEST_F(StatisticsTest, BoundsAndCountsOfAllChunks) {
  auto all = Range(Bits(-2), Bits(5), 1);
  all.set_distinct_count(7);
  const auto merged = Merge({{all}, {Range(Bits(-7), Bits(3), 2)}, {Nulls(10)}});
  EXPECT_EQ(merged.min(), Bits(-7));
  EXPECT_EQ(merged.max(), Bits(5));
  EXPECT_EQ(merged.null_count, 13);
  EXPECT_FALSE(merged.has_distinct_count);
}

TEST_F(StatisticsTest, P17_WhatOneChunkDoesNotSayIsUnknown) {
  const auto merged = Merge({{Range(Bits(1), Bits(2), 3)}, {{}}});
  EXPECT_FALSE(merged.has_min);
  EXPECT_FALSE(merged.has_max);
  EXPECT_FALSE(merged.has_null_count);
  // Nulls only in part: the values that are there have unknown bounds.
  EXPECT_FALSE(Merge({{Range(Bits(1), Bits(2), 3)}, {Nulls(9)}}).has_min);
  EXPECT_TRUE(Merge({{Range(Bits(1), Bits(2), 3)}, {Nulls(9)}}).has_null_count);
  EXPECT_EQ(Merge({{Nulls(10)}, {Nulls(10)}}).null_count, 20);
  // More nulls than values is no count.
  EXPECT_FALSE(Merge({{Range(Bits(1), Bits(2), 11)}}).has_null_count);
}

TEST_F(StatisticsTest, P17_BoundsOfNanAndOfTheWrongOrderAreDropped) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Merge({{Range(Bits(1), Bits(2))}, {Range(Bits(nan), Bits(2))}}).has_min);
  EXPECT_FALSE(Merge({{Range(Bits(1), Bits(2))}, {Range(Bits(1), Bits(nan))}}).has_max);
  EXPECT_FALSE(Merge({{Range(Bits(3), Bits(2))}}).has_min);
  EXPECT_FALSE(Merge({{Range("abc", Bits(2))}}).has_min);
}

TEST_F(StatisticsTest, P17_AZeroBoundStandsForBothZeros) {
  const auto merged = Merge({{Range(Bits(0.0), Bits(-0.0))}});
  EXPECT_EQ(merged.min(), Bits(-0.0));
  EXPECT_EQ(merged.max(), Bits(0.0));
}

TEST_F(StatisticsTest, P3_ExactnessGoesWithTheBound) {
  SetColumn(parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::OPTIONAL,
                                                 parquet::LogicalType::String(),
                                                 parquet::Type::BYTE_ARRAY));
  auto cut = Range("b", "y");
  cut.is_min_value_exact = false;
  cut.is_max_value_exact = false;
  auto whole = Range("c", "z");
  whole.is_min_value_exact = true;
  whole.is_max_value_exact = true;
  const auto merged = Merge({{cut}, {whole}});
  EXPECT_EQ(merged.min(), "b");
  EXPECT_EQ(merged.is_min_value_exact, false);
  EXPECT_EQ(merged.max(), "z");
  EXPECT_EQ(merged.is_max_value_exact, true);
  auto same = Range("b", "z");
  same.is_min_value_exact = true;
  EXPECT_EQ(Merge({{cut}, {same}}).is_min_value_exact, true);
  EXPECT_EQ(Merge({{same}, {whole}}).is_max_value_exact, true);
  EXPECT_FALSE(Merge({{Range("b", "y")}}).is_min_value_exact.has_value());
}

TEST_F(StatisticsTest, P17_OrdersThatAWriterMayNotKnowAreNotTrusted) {
  SetColumn(parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::OPTIONAL,
                                                 parquet::LogicalType::String(),
                                                 parquet::Type::BYTE_ARRAY));
  const auto from = [&](const std::string& created_by) {
    return Merge({{Range("a", "b"), created_by}}).has_min;
  };
  EXPECT_TRUE(from("parquet-rs version 53.0.0"));
  EXPECT_TRUE(from("DuckDB version v1.5.6 (build abc)"));
  EXPECT_TRUE(from("parquet-mr version 1.14.0 (build abc)"));
  EXPECT_FALSE(from("parquet-mr version 1.9.0 (build abc)"));
  EXPECT_FALSE(from("impala version 2.0"));
  EXPECT_FALSE(from(""));
}

TEST_F(StatisticsTest, P17_LongBoundsAreLeftOut) {
  SetColumn(parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::OPTIONAL,
                                                 parquet::LogicalType::String(),
                                                 parquet::Type::BYTE_ARRAY));
  const auto merged = Merge({{Range("a", std::string(5000, 'z'), 2)}});
  EXPECT_TRUE(merged.has_min);
  EXPECT_FALSE(merged.has_max);
  EXPECT_EQ(merged.null_count, 2);
}

TEST_F(StatisticsTest, UnsignedAndDecimalOrders) {
  using parquet::LogicalType;
  SetColumn(parquet::schema::PrimitiveNode::Make(
      "c", parquet::Repetition::OPTIONAL, LogicalType::Int(32, false), parquet::Type::INT32));
  const std::string high("\xff\xff\xff\xff", 4);
  const std::string low("\x01\x00\x00\x00", 4);
  auto merged = Merge({{Range(high, high)}, {Range(low, low)}});
  EXPECT_EQ(merged.min(), low);
  EXPECT_EQ(merged.max(), high);
  SetColumn(parquet::schema::PrimitiveNode::Make("c", parquet::Repetition::OPTIONAL,
                                                 LogicalType::Decimal(5, 2),
                                                 parquet::Type::FIXED_LEN_BYTE_ARRAY, 3));
  const std::string minus("\xff\xff\xfe", 3);
  const std::string plus("\x00\x00\x02", 3);
  merged = Merge({{Range(plus, plus)}, {Range(minus, minus)}});
  EXPECT_EQ(merged.min(), minus);
  EXPECT_EQ(merged.max(), plus);
  // Of another length than the type's it is no value.
  EXPECT_FALSE(Merge({{Range("ab", "cd")}}).has_min);
}

}  // namespace
}  // namespace lithify::rewrite
