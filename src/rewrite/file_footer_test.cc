// Our view of footers against Arrow's, field by field: of files as writers make them, of footers
// of old and strange writers, and of damaged ones (P3, P17, P20, R309).
#include "rewrite/file_footer.h"

#include <arrow/buffer.h>
#include <arrow/util/key_value_metadata.h>
#include <gtest/gtest.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rewrite/footer.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/thrift_compact.h"

namespace lithify::rewrite {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The footer at the end of a file.
std::string FooterBytes(const std::string& file) {
  uint32_t length = 0;
  std::memcpy(&length, file.data() + file.size() - 8, sizeof length);
  return file.substr(file.size() - 8 - length, length);
}

Result<std::shared_ptr<const Footer>> Parse(const std::string& bytes, FileKinds& kinds) {
  try {
    return Footer::Parse(arrow::Buffer::FromString(bytes), kinds);
  } catch (const parquet::ParquetException& e) {
    return Fail(Code::kCorrupt, e.what());
  }
}

Result<std::shared_ptr<const Footer>> Parse(const std::string& bytes) {
  FileKinds kinds;
  return Parse(bytes, kinds);
}

std::shared_ptr<parquet::FileMetaData> ParseAsArrow(const std::string& bytes) {
  try {
    return parquet::FileMetaData::Make(bytes.data(), std::ssize(bytes));
  } catch (const parquet::ParquetException&) {
    return nullptr;
  }
}

void ExpectSameStatistics(const Footer& footer, const StoredChunk& chunk,
                          const parquet::ColumnDescriptor& column,
                          const parquet::ColumnChunkMetaData& wanted) {
  const auto stated = footer.TrustedStatistics(chunk, column);
  SCOPED_TRACE(column.ToString());
  ASSERT_EQ(stated.has_value(), wanted.is_stats_set());
  if (!stated) return;
  const auto arrows = wanted.encoded_statistics();
  ASSERT_NE(arrows, nullptr);
  EXPECT_EQ(stated->has_min, arrows->has_min);
  EXPECT_EQ(stated->has_max, arrows->has_max);
  EXPECT_EQ(stated->min(), arrows->min());
  EXPECT_EQ(stated->max(), arrows->max());
  EXPECT_EQ(stated->is_min_value_exact, arrows->is_min_value_exact);
  EXPECT_EQ(stated->is_max_value_exact, arrows->is_max_value_exact);
  EXPECT_EQ(stated->has_null_count, arrows->has_null_count);
  EXPECT_EQ(stated->null_count, arrows->null_count);
  EXPECT_EQ(stated->has_distinct_count, arrows->has_distinct_count);
  EXPECT_EQ(stated->distinct_count, arrows->distinct_count);
}

void ExpectSamePlace(const std::optional<parquet::IndexLocation>& place,
                     const std::optional<parquet::IndexLocation>& wanted) {
  ASSERT_EQ(place.has_value(), wanted.has_value());
  if (!place) return;
  EXPECT_EQ(place->offset, wanted->offset);
  EXPECT_EQ(place->length, wanted->length);
}

void ExpectSameEncodings(const StoredChunk& chunk, const parquet::ColumnChunkMetaData& wanted) {
  EncodingSet encodings;
  for (const auto encoding : wanted.encodings()) {
    encodings.Add(encoding >= parquet::Encoding::UNDEFINED ? -1 : encoding);
  }
  EncodingSet of_data;
  for (const auto& counted : wanted.encoding_stats()) {
    const bool data = counted.page_type == parquet::PageType::DATA_PAGE ||
                      counted.page_type == parquet::PageType::DATA_PAGE_V2;
    if (!data || counted.count <= 0) continue;
    of_data.Add(counted.encoding >= parquet::Encoding::UNDEFINED ? -1 : counted.encoding);
  }
  // Numbers that Arrow does not know are to us those of other encodings, or of none that is known.
  const auto same = [](const EncodingSet& ours, const EncodingSet& arrows) {
    for (int number = 0; number < parquet::Encoding::UNDEFINED; ++number) {
      if (ours.Has(PageEncoding{number}) != arrows.Has(PageEncoding{number})) return false;
    }
    return ours.empty() == arrows.empty();
  };
  EXPECT_TRUE(same(chunk.encodings, encodings));
  EXPECT_TRUE(same(chunk.data_page_encodings, of_data));
}

void ExpectSameChunk(const Footer& footer, int g, int c,
                     const parquet::ColumnChunkMetaData& wanted) {
  const StoredChunk chunk = footer.Chunk(g, c);
  EXPECT_EQ(chunk.file_path, wanted.file_path());
  EXPECT_EQ(chunk.encrypted, wanted.crypto_metadata() != nullptr);
  ExpectSamePlace(chunk.column_index, wanted.GetColumnIndexLocation());
  ExpectSamePlace(chunk.offset_index, wanted.GetOffsetIndexLocation());
  if (chunk.codec) {
    EXPECT_EQ(*chunk.codec, wanted.compression());
  } else {
    EXPECT_THROW((void)wanted.compression(), parquet::ParquetException);
  }
  ExpectSameEncodings(chunk, wanted);
  EXPECT_EQ(chunk.num_values, wanted.num_values());
  EXPECT_EQ(chunk.total_uncompressed_size, wanted.total_uncompressed_size());
  EXPECT_EQ(chunk.total_compressed_size, wanted.total_compressed_size());
  EXPECT_EQ(chunk.data_page_offset, wanted.data_page_offset());
  EXPECT_EQ(chunk.dictionary_page_offset.has_value(), wanted.has_dictionary_page());
  EXPECT_EQ(chunk.dictionary_page_offset.value_or(0), wanted.dictionary_page_offset());
  EXPECT_EQ(chunk.bloom_filter_offset, wanted.bloom_filter_offset());
  EXPECT_EQ(chunk.bloom_filter_length, wanted.bloom_filter_length());
  ExpectSameStatistics(footer, chunk, *footer.schema().Column(c), wanted);
  const auto sizes = wanted.size_statistics();
  ASSERT_EQ(chunk.sizes.has_value(), sizes != nullptr);
  if (sizes == nullptr) return;
  EXPECT_EQ(chunk.sizes->definition_level_histogram.Values(), sizes->definition_level_histogram);
  EXPECT_EQ(chunk.sizes->repetition_level_histogram.Values(), sizes->repetition_level_histogram);
  EXPECT_EQ(chunk.sizes->unencoded_byte_array_data_bytes, sizes->unencoded_byte_array_data_bytes);
}

Pairs PairsOf(const Footer& footer) {
  Pairs pairs;
  for (const auto& [key, value] : footer.Pairs()) pairs.emplace_back(key, value);
  return pairs;
}

Pairs PairsOf(const parquet::FileMetaData& footer) {
  Pairs pairs;
  const auto& all = footer.key_value_metadata();
  for (int64_t i = 0; all != nullptr && i < all->size(); ++i) {
    pairs.emplace_back(all->key(i), all->value(i));
  }
  return pairs;
}

// Returns the number of chunks that were compared: those that Arrow shows.
int ExpectSame(const Footer& footer, const parquet::FileMetaData& wanted) {
  EXPECT_EQ(footer.num_rows(), wanted.num_rows());
  EXPECT_EQ(footer.created_by(), wanted.created_by());
  EXPECT_EQ(footer.writer_version().application_, wanted.writer_version().application_);
  EXPECT_TRUE(footer.writer_version().VersionEq(wanted.writer_version()));
  EXPECT_EQ(footer.encryption_algorithm_set(), wanted.is_encryption_algorithm_set());
  EXPECT_TRUE(footer.schema().Equals(*wanted.schema()));
  EXPECT_EQ(PairsOf(footer), PairsOf(wanted));
  EXPECT_EQ(footer.num_columns(), wanted.num_columns());
  EXPECT_EQ(footer.num_row_groups(), wanted.num_row_groups());
  int compared = 0;
  for (int g = 0; g < std::min(footer.num_row_groups(), wanted.num_row_groups()); ++g) {
    const auto group = wanted.RowGroup(g);
    EXPECT_EQ(footer.row_group(g).num_rows, group->num_rows());
    EXPECT_EQ(footer.row_group(g).total_byte_size, group->total_byte_size());
    EXPECT_EQ(footer.row_group(g).total_compressed_size, group->total_compressed_size());
    EXPECT_EQ(footer.row_group(g).num_columns, group->num_columns());
    if (footer.row_group(g).num_columns != footer.num_columns()) continue;
    for (int c = 0; c < group->num_columns(); ++c) {
      std::unique_ptr<parquet::ColumnChunkMetaData> chunk;
      try {
        chunk = group->ColumnChunk(c);
      } catch (const parquet::ParquetException&) {
        continue;
      }
      ExpectSameChunk(footer, g, c, *chunk);
      ++compared;
    }
  }
  return compared;
}

int ExpectSameAsArrow(const std::string& bytes) {
  const auto wanted = ParseAsArrow(bytes);
  const auto footer = Parse(bytes);
  EXPECT_NE(wanted, nullptr);
  EXPECT_TRUE(footer.has_value()) << footer.error().ToString();
  return wanted && footer ? ExpectSame(**footer, *wanted) : -1;
}

// ------------------------------------------------------------------------- files of Arrow's writer

std::shared_ptr<arrow::Table> Mixed() {
  const auto schema = arrow::schema(
      {arrow::field("id", arrow::int64(), false), arrow::field("name", arrow::utf8()),
       arrow::field("price", arrow::float64()), arrow::field("when", arrow::date32()),
       arrow::field("ok", arrow::boolean()), arrow::field("n", arrow::uint32()),
       arrow::field("nothing", arrow::int32()), arrow::field("key", arrow::fixed_size_binary(2)),
       arrow::field("tags", arrow::list(arrow::utf8()))},
      arrow::key_value_metadata({"a", "a"}, {"1", ""}));
  return MakeTable(schema, {"[1, 2, 3, 4]", R"(["b", null, "", "zz"])", "[0.5, null, -1, NaN]",
                            "[1, 2, null, 4]", "[true, false, null, true]",
                            "[1, 4294967295, null, 0]", "[null, null, null, null]",
                            R"(["ab", "zz", null, "aa"])", R"([["x", null], [], null, ["y"]])"});
}

std::string Written(const std::function<void(parquet::WriterProperties::Builder&)>& set,
                    int64_t row_group_rows = 1 << 20) {
  parquet::WriterProperties::Builder builder;
  set(builder);
  return FooterBytes(WriteParquet(*Mixed(), row_group_rows, builder.build()));
}

std::vector<std::string> WrittenFooters() {
  using Builder = parquet::WriterProperties::Builder;
  std::vector<std::string> footers;
  footers.push_back(Written([](Builder&) {}));
  footers.push_back(Written([](Builder&) {}, 1));
  footers.push_back(Written([](Builder& b) { b.disable_statistics(); }));
  footers.push_back(Written([](Builder& b) { b.disable_dictionary(); }));
  footers.push_back(Written([](Builder& b) {
    b.enable_write_page_index()->enable_bloom_filter("id", parquet::BloomFilterOptions{});
  }));
  footers.push_back(Written([](Builder& b) {
    b.version(parquet::ParquetVersion::PARQUET_1_0)->compression(arrow::Compression::SNAPPY);
  }));
  footers.push_back(Written([](Builder& b) {
    b.data_page_version(parquet::ParquetDataPageVersion::V2)
        ->compression(arrow::Compression::ZSTD)
        ->encoding("id", parquet::Encoding::DELTA_BINARY_PACKED)
        ->disable_dictionary("id");
  }));
  footers.push_back(Written([](Builder& b) { b.created_by("parquet-mr version 1.8.1"); }));
  footers.push_back(Written([](Builder& b) { b.created_by("parquet-mr version 1.6.0rc3"); }));
  footers.push_back(Written([](Builder& b) { b.created_by("parquet-cpp version 1.2.0"); }));
  footers.push_back(Written([](Builder& b) { b.created_by(""); }));
  return footers;
}

TEST(FileFooter, OfFilesIsWhatArrowSees) {
  for (const std::string& footer : WrittenFooters()) EXPECT_GE(ExpectSameAsArrow(footer), 9);
  const auto none = MakeTable(arrow::schema({arrow::field("a", arrow::int64())}), {"[]"});
  EXPECT_GE(ExpectSameAsArrow(FooterBytes(WriteParquet(*none))), 0);
}

TEST(FileFooter, FilesOfOneSchemaAndWriterShareIt) {
  FileKinds kinds;
  const auto one = Parse(Written([](auto&) {}), kinds);
  const auto two = Parse(Written([](auto& b) { b.disable_dictionary(); }, 2), kinds);
  const auto other = Parse(Written([](auto& b) { b.created_by("other"); }), kinds);
  ASSERT_TRUE(one && two && other);
  EXPECT_EQ(&(*one)->kind(), &(*two)->kind());
  EXPECT_NE(&(*one)->kind(), &(*other)->kind());
  EXPECT_GT((*one)->memory_bytes(), (*two)->memory_bytes());
  const auto tree = (*one)->kind().Tree();
  ASSERT_TRUE(tree);
  EXPECT_EQ(*tree, *(*two)->kind().Tree());
}

// Of very many schemas only the last ones are kept, and footers keep their own.
TEST(FileFooter, KindsAreForgottenWhenTheyAreMany) {
  FileKinds kinds;
  const std::string first = Written([](auto& b) { b.created_by("first"); });
  const auto kept = Parse(first, kinds);
  ASSERT_TRUE(kept);
  for (int i = 0; i < 40; ++i) {
    const std::string writer = std::to_string(i) + std::string(1 << 15, 'w');
    ASSERT_TRUE(Parse(Written([&](auto& b) { b.created_by(writer); }), kinds));
  }
  const auto again = Parse(first, kinds);
  ASSERT_TRUE(again);
  EXPECT_NE(&(*kept)->kind(), &(*again)->kind());
  EXPECT_TRUE((*kept)->schema().Equals((*again)->schema()));
}

// ------------------------------------------------------------------------------- footers by hand

// A list of structs, each written by a call.
template <typename Element>
std::string Structs(int count, Element&& element) {
  std::string list(1, static_cast<char>(count << 4 | kStruct));
  for (int i = 0; i < count; ++i) {
    CompactWriter out(list);
    element(out, i);
    out.End();
  }
  return list;
}

std::string Numbers(CompactType type, const std::vector<int64_t>& numbers) {
  std::string list(1, static_cast<char>(static_cast<int>(numbers.size()) << 4 | type));
  for (const int64_t n : numbers) list += static_cast<char>(n << 1 ^ n >> 63);  // Of one byte each.
  return list;
}

const std::string kOnePath = std::string("\x18\x01", 2) + "c";

struct Made {
  int32_t physical = 1;  // INT32
  int32_t converted = -1;
  std::optional<std::string> created_by = "parquet-mr version 1.12.0";
  bool column_orders = true;
  bool num_rows = true;
  bool encrypted = false;
  // Of the ColumnMetaData.
  int32_t codec = 0;
  std::string encodings = Numbers(kI32, {0, 3});
  bool path = true;
  bool num_values = true;
  bool required_rest = true;
  std::function<void(CompactWriter&)> optional_fields = [](CompactWriter&) {};  // From 10 on.
  std::function<void(CompactWriter&)> chunk_fields = [](CompactWriter&) {};     // From 4 on.
  std::function<void(CompactWriter&)> group_fields = [](CompactWriter&) {};
};

std::string Make(const Made& made) {
  std::string footer;
  CompactWriter out(footer);
  out.Int32(1, 1);
  out.RawList(2, Structs(2, [&](CompactWriter& element, int i) {
                if (i == 1) element.Int32(1, made.physical);
                if (i == 1 && made.physical == 7) element.Int32(2, 4);
                if (i == 1) element.Int32(3, 1);
                element.Binary(4, i == 0 ? "root" : "c");
                if (i == 0) element.Int32(5, 1);
                if (i == 1 && made.converted >= 0) element.Int32(6, made.converted);
              }));
  if (made.num_rows) out.Int64(3, 4);
  out.RawList(4, Structs(1, [&](CompactWriter& group, int) {
                group.RawList(1, Structs(1, [&](CompactWriter& chunk, int) {
                                chunk.Int64(2, 4);
                                chunk.Struct(3, [&] {
                                  chunk.Int32(1, made.physical);
                                  chunk.RawList(2, made.encodings);
                                  if (made.path) chunk.RawList(3, kOnePath);
                                  chunk.Int32(4, made.codec);
                                  if (made.num_values) chunk.Int64(5, 4);
                                  if (made.required_rest) {
                                    chunk.Int64(6, 60);
                                    chunk.Int64(7, 50);
                                    chunk.Int64(9, 4);
                                  }
                                  made.optional_fields(chunk);
                                });
                                made.chunk_fields(chunk);
                              }));
                group.Int64(2, 60);
                group.Int64(3, 4);
                made.group_fields(group);
              }));
  if (made.created_by) out.Binary(6, *made.created_by);
  if (made.column_orders) {
    out.RawList(7, Structs(1, [](CompactWriter& order, int) { order.Struct(1, [] {}); }));
  }
  if (made.encrypted) {
    out.Struct(8, [&] { out.Struct(1, [] {}); });
  }
  out.End();
  return footer;
}

// Statistics of 4-byte values, in one or both pairs of fields.
auto Stated(bool old_pair, bool new_pair, const std::string& min = "aaaa",
            const std::string& max = "bbbb") {
  return [=](CompactWriter& out) {
    out.Struct(12, [&] {
      if (old_pair) {
        out.Binary(1, max);
        out.Binary(2, min);
      }
      out.Int64(3, 1);
      if (!new_pair) return;
      out.Int64(4, 2);
      out.Binary(5, max);
      out.Binary(6, min);
      out.Bool(7, true);
      out.Bool(8, false);
    });
  };
}

TEST(FileFooter, WhichStatisticsCountIsAsInArrow) {
  const char* const writers[] = {"parquet-mr version 1.12.0",
                                 "parquet-mr version 1.7.0",
                                 "parquet-mr",
                                 "parquet-mr version 1.9.0",
                                 "parquet-cpp version 1.2.0",
                                 "parquet-cpp version 1.5.0",
                                 "impala version 2.0.0",
                                 ""};
  int trusted = 0;
  for (const char* writer : writers) {
    for (const int32_t physical : {0, 1, 2, 3, 4, 5, 6, 7}) {
      for (const int32_t converted : {-1, 0, 13}) {  // None, UTF8, UINT_32.
        if (converted == 0 && physical != 6) continue;
        if (converted == 13 && physical != 1) continue;
        for (int pairs = 0; pairs < 8; ++pairs) {
          Made made;
          made.created_by = writer;
          if (*writer == '\0') made.created_by.reset();
          made.physical = physical;
          made.converted = converted;
          made.column_orders = (pairs & 4) != 0;
          made.optional_fields = Stated((pairs & 1) != 0, (pairs & 2) != 0);
          SCOPED_TRACE(std::string(writer) + ", type " + std::to_string(physical) + ", converted " +
                       std::to_string(converted) + ", pairs " + std::to_string(pairs));
          const std::string bytes = Make(made);
          EXPECT_EQ(ExpectSameAsArrow(bytes), 1);
          const auto footer = Parse(bytes);
          ASSERT_TRUE(footer);
          trusted += (*footer)
                         ->TrustedStatistics((*footer)->Chunk(0, 0), *(*footer)->schema().Column(0))
                         .has_value();
          // One bound for all values, which is right in every order.
          made.optional_fields = Stated((pairs & 1) != 0, (pairs & 2) != 0, "aaaa", "aaaa");
          EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1);
        }
      }
    }
  }
  EXPECT_GT(trusted, 100);
}

TEST(FileFooter, OptionalFieldsAreAsInArrow) {
  Made made;
  made.optional_fields = [](CompactWriter& out) {
    out.Int64(10, 5);
    out.Int64(11, 4);
    out.RawList(13, Structs(2, [](CompactWriter& counted, int i) {
                  counted.Int32(1, i == 0 ? 0 : 2);
                  counted.Int32(2, i == 0 ? 8 : 0);
                  counted.Int32(3, 7);
                }));
    out.Int64(14, 99);
    out.Int32(15, 33);
    out.Struct(16, [&] { out.RawList(3, Numbers(kI64, {1, 3})); });
  };
  made.chunk_fields = [](CompactWriter& out) {
    out.Int64(4, 100);
    out.Int32(5, 20);
    out.Int64(6, 120);
    out.Int32(7, 30);
  };
  made.group_fields = [](CompactWriter& out) { out.Int64(6, 50); };
  const std::string bytes = Make(made);
  EXPECT_EQ(ExpectSameAsArrow(bytes), 1);
  const auto footer = Parse(bytes);
  ASSERT_TRUE(footer);
  const StoredChunk chunk = (*footer)->Chunk(0, 0);
  EXPECT_EQ(chunk.dictionary_page_offset, 4);
  EXPECT_EQ(chunk.bloom_filter_offset, 99);
  EXPECT_EQ(chunk.offset_index->length, 20);
  EXPECT_EQ(chunk.column_index->offset, 120);
  EXPECT_TRUE(chunk.data_page_encodings.Has(PageEncoding::kRleDictionary));
  EXPECT_FALSE(chunk.data_page_encodings.Has(PageEncoding::kPlain));
  EXPECT_EQ(chunk.sizes->definition_level_histogram.Values(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ((*footer)->row_group(0).total_compressed_size, 50);

  made.chunk_fields = [](CompactWriter& out) { out.Int64(4, 100); };  // Without its length.
  EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1);
  made.chunk_fields = [](CompactWriter& out) { out.Struct(8, [&] { out.Struct(1, [] {}); }); };
  EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1);
  made.encrypted = true;
  EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1);
}

TEST(FileFooter, NumbersThatAreUnknownHere) {
  Made made;
  made.encodings = Numbers(kI32, {0, 50, -3, 10});
  for (const int32_t codec : {0, 1, 2, 3, 4, 5, 6, 7, 8, 99, -1}) {
    made.codec = codec;
    EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1) << codec;
    const auto footer = Parse(Make(made));
    ASSERT_TRUE(footer);
    EXPECT_EQ((*footer)->Chunk(0, 0).codec.has_value(), codec >= 0 && codec <= 7) << codec;
  }
  made.physical = 2;
  made.optional_fields = [](CompactWriter& out) { out.Int32(40, 1); };
  EXPECT_EQ(ExpectSameAsArrow(Make(made)), 1);
}

TEST(FileFooter, WhatIsRequiredMustBeThere) {
  const auto expect_corrupt = [](const Made& made) {
    const std::string bytes = Make(made);
    EXPECT_EQ(ParseAsArrow(bytes), nullptr);
    const auto footer = Parse(bytes);
    ASSERT_FALSE(footer);
    EXPECT_EQ(footer.error().code, Code::kCorrupt);
  };
  Made made;
  made.num_rows = false;
  expect_corrupt(made);
  made = {};
  made.path = false;
  expect_corrupt(made);
  made = {};
  made.num_values = false;
  expect_corrupt(made);
  made = {};
  made.required_rest = false;
  expect_corrupt(made);
}

TEST(FileFooter, ElementsOfAnotherTypeAreRefused) {
  Made made;
  made.encodings = Numbers(kI64, {0, 3});
  const auto footer = Parse(Make(made));
  ASSERT_FALSE(footer);
  EXPECT_EQ(footer.error().code, Code::kCorrupt);
}

TEST(FileFooter, WhatIsNotReadIsRefusedWithTheReason) {
  constexpr int64_t kFileBytes = 1000;
  const auto reason = [](const Made& made) {
    return UnsupportedReason(**Parse(Make(made)), kFileBytes);
  };
  Made made;
  EXPECT_EQ(reason(made), "");
  made.codec = 8;
  EXPECT_EQ(reason(made), "column c has a codec that is not known here");
  made.codec = 3;
  EXPECT_EQ(reason(made), "column c has codec lzo, which is not supported here");
  made = {};
  made.encrypted = true;
  EXPECT_EQ(reason(made), "the file has encrypted columns");
  made = {};
  made.chunk_fields = [](CompactWriter& out) { out.Struct(8, [&] { out.Struct(1, [] {}); }); };
  EXPECT_EQ(reason(made), "column c is encrypted");
  for (const auto& levels : {std::vector<int64_t>{1}, {1, 2, 1}}) {
    made = {};
    made.optional_fields = [&](CompactWriter& out) {
      out.Struct(16, [&] { out.RawList(3, Numbers(kI64, levels)); });
    };
    ASSERT_FALSE(reason(made));
    EXPECT_EQ(reason(made).error().code, Code::kCorrupt);
    // As Arrow has it.
    const auto arrows = ParseAsArrow(Make(made));
    EXPECT_THROW((void)arrows->RowGroup(0)->ColumnChunk(0), parquet::ParquetException);
  }
}

// ------------------------------------------------------------------------------- damaged footers

TEST(FileFooter, CutOffAnywhereIsCorrupt) {
  const std::string whole = Written([](auto& b) { b.enable_write_page_index(); }, 2);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto footer = Parse(whole.substr(0, size));
    ASSERT_FALSE(footer) << size;
    EXPECT_EQ(footer.error().code, Code::kCorrupt);
  }
}

TEST(FileFooter, WhatComesAfterIsPassedOver) {
  EXPECT_EQ(ExpectSameAsArrow(Make({}) + "signature"), 1);
}

// Whatever bytes are changed: where both read a footer, they read the same.
TEST(FileFooter, DamagedOnesAreReadAsArrowReadsThem) {
  std::mt19937 random(20261130);
  std::vector<std::string> footers = WrittenFooters();
  Made made;
  made.optional_fields = Stated(true, true);
  footers.push_back(Make(made));
  int read = 0;
  for (const std::string& footer : footers) {
    for (int i = 0; i < 1500; ++i) {
      std::string bytes = footer;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int n = 0; n < changes; ++n) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(random() % 2 == 0 ? byte ^ 1 << random() % 8 : random());
      }
      const auto ours = Parse(bytes);
      const auto arrows = ParseAsArrow(bytes);
      if (!ours) {
        EXPECT_EQ(ours.error().code, Code::kCorrupt);
        continue;
      }
      if (arrows == nullptr) continue;
      ++read;
      ExpectSame(**ours, *arrows);
      if (HasFailure()) FAIL() << "change " << i;
    }
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace lithify::rewrite
