// Entries in, file out: what other readers see of it, and what it states of its values.
#include "rewrite/column_encoder.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/page_index.h>
#include <parquet/statistics.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/file_writer.h"
#include "rewrite/pages_fixture.h"

namespace lithify::rewrite {
namespace {

using parquet::Repetition;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;

constexpr int kFixedBytes = 5;

enum class Shape { kRequired, kOptional, kList };

std::shared_ptr<GroupNode> SchemaOf(parquet::Type::type type, Shape shape) {
  const int length = type == parquet::Type::FIXED_LEN_BYTE_ARRAY ? kFixedBytes : -1;
  const auto leaf = [&](Repetition::type repetition) {
    return PrimitiveNode::Make("c", repetition, type, parquet::ConvertedType::NONE, length);
  };
  NodePtr column;
  switch (shape) {
    case Shape::kRequired: column = leaf(Repetition::REQUIRED); break;
    case Shape::kOptional: column = leaf(Repetition::OPTIONAL); break;
    case Shape::kList:
      column = GroupNode::Make(
          "l", Repetition::OPTIONAL,
          {GroupNode::Make("list", Repetition::REPEATED, {leaf(Repetition::OPTIONAL)})},
          parquet::ConvertedType::LIST);
  }
  return std::static_pointer_cast<GroupNode>(
      GroupNode::Make("schema", Repetition::REQUIRED, {column}));
}

// Values of any type as bytes.
template <typename T>
std::string TextOf(const T& value) {
  if constexpr (std::is_same_v<T, parquet::ByteArray>) {
    return {reinterpret_cast<const char*>(value.ptr), value.len};
  } else if constexpr (std::is_same_v<T, parquet::FixedLenByteArray>) {
    return {reinterpret_cast<const char*>(value.ptr), kFixedBytes};
  } else {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
}

template <typename T>
T ValueOf(const std::string& text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  if constexpr (std::is_same_v<T, parquet::ByteArray>) {
    return {static_cast<uint32_t>(text.size()), bytes};
  } else if constexpr (std::is_same_v<T, parquet::FixedLenByteArray>) {
    return T(bytes);
  } else {
    T value{};
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
}

// A column's entries.
struct Column {
  std::vector<int16_t> definition;
  std::vector<int16_t> repetition;
  std::vector<std::string> values;
  int64_t rows = 0;
  bool operator==(const Column&) const = default;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Pick(100) < percent; }

  template <typename T>
  std::string Value() {
    if constexpr (std::is_same_v<T, bool>) return std::string(1, static_cast<char>(Pick(2)));
    if constexpr (std::is_same_v<T, parquet::ByteArray>) {
      std::string text(static_cast<size_t>(Chance(5) ? Pick(300) : Pick(20)), '\0');
      for (char& c : text) c = static_cast<char>(Chance(50) ? 'a' + Pick(3) : Pick(256));
      return text;
    }
    if constexpr (std::is_floating_point_v<T>) {
      constexpr T kOdd[] = {T(0), -T(0), std::numeric_limits<T>::quiet_NaN(),
                            std::numeric_limits<T>::infinity()};
      return TextOf(Chance(10) ? kOdd[Pick(4)] : static_cast<T>(Pick(2000) - 1000) / 8);
    }
    std::string text(std::is_same_v<T, parquet::FixedLenByteArray> ? kFixedBytes : sizeof(T), 0);
    for (char& c : text) c = static_cast<char>(Chance(50) ? 0 : Pick(256));
    return text;
  }

  template <typename T>
  std::vector<std::string> Values(int count) {
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) values.push_back(Value<T>());
    return values;
  }

  // Of values out of `pool`.
  Column Entries(Shape shape, int rows, const std::vector<std::string>& pool) {
    Column column;
    column.rows = rows;
    const int nulls = Chance(30) ? 0 : Chance(10) ? 100 : Pick(60);
    const auto add = [&](int16_t definition, int16_t repetition, int16_t max) {
      if (max > 0) column.definition.push_back(definition);
      if (shape == Shape::kList) column.repetition.push_back(repetition);
      if (definition == max)
        column.values.push_back(pool[static_cast<size_t>(Pick(static_cast<int>(pool.size())))]);
    };
    for (int row = 0; row < rows; ++row) {
      const bool null = Chance(nulls);
      switch (shape) {
        case Shape::kRequired: add(0, 0, 0); break;
        case Shape::kOptional: add(null ? 0 : 1, 0, 1); break;
        case Shape::kList:
          if (null) {
            add(static_cast<int16_t>(Pick(2)), 0, 3);
            break;
          }
          const int items = Chance(2) ? Pick(3000) + 1 : Pick(4) + 1;
          for (int i = 0; i < items; ++i) add(Chance(nulls) ? 2 : 3, i > 0 ? 1 : 0, 3);
      }
    }
    return column;
  }

 private:
  std::mt19937_64 random_;
};

int64_t LevelsOf(const Column& column) {
  return std::max(
      {std::ssize(column.definition), std::ssize(column.repetition), std::ssize(column.values)});
}

// How entries are handed over: stretches, folded or not, with the dictionary's order and spares.
struct Handing {
  struct Stretch {
    int64_t levels = 0;
    bool folded = false;
    bool other_dictionary = false;
  };
  std::vector<Stretch> stretches;
  std::vector<std::vector<std::string>> dictionaries;
};

Handing AnyHanding(Draw& any, const Column& column, const std::vector<std::string>& pool) {
  Handing handing;
  int64_t left = LevelsOf(column);
  const int folded = any.Chance(50) ? 100 : any.Pick(101);
  while (left > 0) {
    const int64_t levels = std::min<int64_t>(left, 1 + any.Pick(3000));
    handing.stretches.push_back({levels, any.Chance(folded), any.Chance(20)});
    left -= levels;
  }
  for (int i = 0; i < 3; ++i) {
    auto dictionary = pool;
    for (size_t at = dictionary.size(); at > 1; --at) {
      std::swap(dictionary[at - 1],
                dictionary[static_cast<size_t>(any.Pick(static_cast<int>(at)))]);
    }
    // Twice the same entry, and one that may never be used.
    dictionary.push_back(pool.front());
    handing.dictionaries.push_back(std::move(dictionary));
  }
  return handing;
}

template <typename DType>
std::string FileOf(const std::shared_ptr<parquet::WriterProperties>& properties, Shape shape,
                   const Column& column, const Handing& handing, PageThreads* threads = nullptr) {
  using T = typename DType::c_type;
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  FileWriter writer(sink, SchemaOf(DType::type_num, shape), properties);
  writer.StartRowGroup();
  RawColumn& to = *writer.NextColumn();
  const auto options = EncoderOptions(*properties, writer.schema().Column(0));
  const auto made = MakeColumnEncoder(options, to, threads);
  auto& encoder = static_cast<TypedColumnEncoder<DType>&>(**made);
  ValueDictionary<T> dictionary;
  std::vector<T> entries;
  size_t next = 0;
  int64_t level = 0;
  int64_t value = 0;
  for (const auto& stretch : handing.stretches) {
    EntrySpan span;
    span.levels = span.present = stretch.levels;
    if (!column.definition.empty()) {
      span.definition = column.definition.data() + level;
      const int16_t max = shape == Shape::kList ? 3 : 1;
      span.present = std::count(span.definition, span.definition + span.levels, max);
    }
    if (!column.repetition.empty()) span.repetition = column.repetition.data() + level;
    if constexpr (!std::is_same_v<T, bool>) {
      if (dictionary.serial == 0 || stretch.other_dictionary) {
        next = (next + 1) % handing.dictionaries.size();
        entries.clear();
        for (const auto& text : handing.dictionaries[next]) entries.push_back(ValueOf<T>(text));
        dictionary.values = entries;
        ++dictionary.serial;
      }
    }
    std::vector<uint32_t> indices;
    const auto values = std::make_unique<T[]>(static_cast<size_t>(span.present) + 1);
    for (int64_t i = 0; i < span.present; ++i) {
      const std::string& text = column.values[static_cast<size_t>(value + i)];
      values[static_cast<size_t>(i)] = ValueOf<T>(text);
      const auto& all = handing.dictionaries[next];
      if (stretch.folded) {
        indices.push_back(static_cast<uint32_t>(std::ranges::find(all, text) - all.begin()));
      }
    }
    if (stretch.folded && !std::is_same_v<T, bool>) {
      encoder.AddFolded(span, indices.data(), dictionary);
    } else {
      encoder.Add(span, values.get());
    }
    level += stretch.levels;
    value += span.present;
  }
  encoder.Finish();
  writer.CloseColumn(0);
  writer.EndRowGroup(column.rows);
  writer.Close(nullptr);
  return sink->Finish().ValueOrDie()->ToString();
}

// The same file by Arrow's own writer.
template <typename DType>
std::string ByArrow(const std::shared_ptr<parquet::WriterProperties>& properties, Shape shape,
                    const Column& column) {
  using T = typename DType::c_type;
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  auto writer =
      parquet::ParquetFileWriter::Open(sink, SchemaOf(DType::type_num, shape), properties);
  auto* to =
      static_cast<parquet::TypedColumnWriter<DType>*>(writer->AppendRowGroup()->NextColumn());
  const auto values = std::make_unique<T[]>(column.values.size() + 1);
  for (size_t i = 0; i < column.values.size(); ++i) values[i] = ValueOf<T>(column.values[i]);
  to->WriteBatch(LevelsOf(column), column.definition.data(), column.repetition.data(),
                 values.get());
  writer->Close();
  return sink->Finish().ValueOrDie()->ToString();
}

std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& bytes) {
  parquet::ReaderProperties properties;
  properties.set_page_checksum_verification(true);
  return parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)), properties);
}

template <typename DType>
Column Read(parquet::ParquetFileReader& reader, const Column& like) {
  using T = typename DType::c_type;
  const auto column =
      std::static_pointer_cast<parquet::TypedColumnReader<DType>>(reader.RowGroup(0)->Column(0));
  Column read;
  read.rows = reader.metadata()->num_rows();
  const int64_t levels = LevelsOf(like) + 1;
  std::vector<int16_t> definition(static_cast<size_t>(levels));
  std::vector<int16_t> repetition(static_cast<size_t>(levels));
  const auto values = std::make_unique<T[]>(static_cast<size_t>(levels));
  while (column->HasNext()) {
    int64_t present = 0;
    const int64_t some =
        column->ReadBatch(levels, definition.data(), repetition.data(), values.get(), &present);
    if (!like.definition.empty()) {
      read.definition.insert(read.definition.end(), definition.begin(), definition.begin() + some);
    }
    if (!like.repetition.empty()) {
      read.repetition.insert(read.repetition.end(), repetition.begin(), repetition.begin() + some);
    }
    for (int64_t i = 0; i < present; ++i)
      read.values.push_back(TextOf(values[static_cast<size_t>(i)]));
  }
  return read;
}

// What the footer says of the chunk.
std::string Stated(parquet::ParquetFileReader& reader) {
  const auto chunk = reader.metadata()->RowGroup(0)->ColumnChunk(0);
  std::string all = std::to_string(chunk->num_values());
  const auto statistics = chunk->encoded_statistics();
  if (statistics != nullptr) {
    all += " min " + (statistics->has_min ? statistics->min() : "-");
    all += " max " + (statistics->has_max ? statistics->max() : "-");
    all += " nulls " + std::to_string(statistics->has_null_count ? statistics->null_count : -1);
  }
  const auto sizes = chunk->size_statistics();
  if (sizes != nullptr) {
    for (const int64_t n : sizes->definition_level_histogram) all += " d" + std::to_string(n);
    for (const int64_t n : sizes->repetition_level_histogram) all += " r" + std::to_string(n);
    all += " b" + std::to_string(sizes->unencoded_byte_array_data_bytes.value_or(-1));
  }
  return all;
}

// Entries of each page, by the rows at which the offset index lets it begin.
std::vector<Column> Split(const Column& column, const std::vector<int64_t>& first_rows,
                          Shape shape) {
  std::vector<Column> pages;
  const int16_t max = shape == Shape::kList ? 3 : shape == Shape::kOptional ? 1 : 0;
  int64_t row = -1;
  size_t value = 0;
  for (int64_t i = 0; i < LevelsOf(column); ++i) {
    const auto at = static_cast<size_t>(i);
    if (column.repetition.empty() || column.repetition[at] == 0) {
      if (pages.size() < first_rows.size() && ++row == first_rows[pages.size()]) {
        pages.emplace_back();
      } else if (pages.size() == first_rows.size()) {
        ++row;
      }
      ++pages.back().rows;
    }
    Column& page = pages.back();
    if (max > 0) page.definition.push_back(column.definition[at]);
    if (!column.repetition.empty()) page.repetition.push_back(column.repetition[at]);
    if (max == 0 || column.definition[at] == max) page.values.push_back(column.values[value++]);
  }
  return pages;
}

// Whether a page begins within a row: the dictionary was over all its bounds there.
bool TearsARow(const std::string& bytes, const Column& column) {
  if (column.repetition.empty()) return false;
  size_t at = 0;
  for (const PageOf& page : PagesOf(bytes)) {
    if (!page.header.is_data()) continue;
    if (column.repetition[at] != 0) return true;
    at += static_cast<size_t>(page.header.num_values);
  }
  return false;
}

// Every page's own bounds, nulls and sizes, as Arrow counts them.
template <typename DType>
void CheckIndex(const std::string& bytes, parquet::ParquetFileReader& reader, const Column& column,
                Shape shape, int64_t page_rows) {
  using T = typename DType::c_type;
  const auto group = reader.GetPageIndexReader()->RowGroup(0);
  // An index by rows needs pages that begin with one.
  const bool indexed = group != nullptr;
  RC_ASSERT(indexed != TearsARow(bytes, column));
  if (!indexed) return;
  const auto offsets = group->GetOffsetIndex(0);
  const bool has_offsets = offsets != nullptr;
  RC_ASSERT(has_offsets);
  std::vector<int64_t> first_rows;
  for (const auto& page : offsets->page_locations()) first_rows.push_back(page.first_row_index);
  const auto pages = Split(column, first_rows, shape);
  RC_ASSERT(pages.size() == first_rows.size());
  const auto* const descr = reader.metadata()->schema()->Column(0);
  const auto index = group->GetColumnIndex(0);
  bool complete = descr->sort_order() != parquet::SortOrder::UNKNOWN;
  for (size_t p = 0; p < pages.size(); ++p) {
    const Column& page = pages[p];
    RC_ASSERT(page.rows <= page_rows);
    if constexpr (std::is_same_v<T, parquet::ByteArray>) {
      int64_t total = 0;
      for (const auto& text : page.values) total += std::ssize(text);
      RC_ASSERT(offsets->unencoded_byte_array_data_bytes()[p] == total);
    }
    if (!complete) continue;
    const auto expected = parquet::MakeStatistics<DType>(descr);
    const auto values = std::make_unique<T[]>(page.values.size() + 1);
    for (size_t i = 0; i < page.values.size(); ++i) values[i] = ValueOf<T>(page.values[i]);
    expected->Update(values.get(), std::ssize(page.values),
                     LevelsOf(page) - std::ssize(page.values));
    // A page of NaNs alone has no bounds, and then there is no index.
    complete = expected->HasMinMax() || page.values.empty();
    if (!complete || index == nullptr) continue;
    RC_ASSERT(index->null_pages()[p] == page.values.empty());
    RC_ASSERT(index->null_counts()[p] == expected->null_count());
    if (page.values.empty()) continue;
    RC_ASSERT(index->encoded_min_values()[p] == expected->EncodeMin());
    RC_ASSERT(index->encoded_max_values()[p] == expected->EncodeMax());
  }
  RC_ASSERT((index != nullptr) == complete);
}

template <typename DType>
void CheckFilter(parquet::ParquetFileReader& reader, const Column& column) {
  using T = typename DType::c_type;
  if constexpr (!std::is_same_v<T, bool>) {
    const auto filter = reader.GetBloomFilterReader().RowGroup(0)->GetColumnBloomFilter(0);
    const bool has_filter = filter != nullptr;
    RC_ASSERT(has_filter);
    for (const auto& text : column.values) {
      const T value = ValueOf<T>(text);
      uint64_t hash = 0;
      if constexpr (std::is_same_v<T, parquet::FixedLenByteArray>) {
        hash = filter->Hash(&value, kFixedBytes);
      } else if constexpr (std::is_same_v<T, parquet::ByteArray> ||
                           std::is_same_v<T, parquet::Int96>) {
        hash = filter->Hash(&value);
      } else {
        hash = filter->Hash(value);
      }
      RC_ASSERT(filter->FindHash(hash));
    }
  }
}

// The dictionary has what pages refer to, each once, and nothing else.
template <typename DType>
void CheckDictionary(const std::string& bytes, const Column& column, int64_t bytes_max, bool flat) {
  const auto pages = PagesOf(bytes);
  bool all = true;
  for (const PageOf& page : pages) {
    if (page.header.is_data() && !page.header.uses_dictionary()) all = false;
  }
  if (pages.front().header.type != PageType::kDictionary) return;
  const int64_t size = pages.front().header.uncompressed_page_size;
  if (flat) RC_ASSERT(size <= bytes_max);
  const std::set<std::string> distinct(column.values.begin(), column.values.end());
  if (all) RC_ASSERT(pages.front().header.num_values == std::ssize(distinct));
  RC_ASSERT(pages.front().header.num_values <= std::ssize(distinct));
  RC_TAG(all ? "a dictionary to the end" : "a dictionary that was given up");
}

template <typename DType>
parquet::Encoding::type AnyEncoding(Draw& any) {
  using parquet::Encoding;
  using T = typename DType::c_type;
  std::vector<Encoding::type> known = {Encoding::PLAIN, Encoding::PLAIN};
  if (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
    known.push_back(Encoding::DELTA_BINARY_PACKED);
  }
  if (std::is_same_v<T, parquet::ByteArray>) known.push_back(Encoding::DELTA_LENGTH_BYTE_ARRAY);
  if (std::is_same_v<T, parquet::ByteArray> || std::is_same_v<T, parquet::FixedLenByteArray>) {
    known.push_back(Encoding::DELTA_BYTE_ARRAY);
  }
  if (std::is_floating_point_v<T>) known.push_back(Encoding::BYTE_STREAM_SPLIT);
  return known[static_cast<size_t>(any.Pick(static_cast<int>(known.size())))];
}

template <typename DType>
void CheckAny(uint64_t seed) {
  using T = typename DType::c_type;
  Draw any(seed);
  const auto shape = static_cast<Shape>(any.Pick(3));
  const auto pool = any.Values<T>(1 + any.Pick(any.Chance(50) ? 10 : 3000));
  const Column column = any.Entries(shape, 1 + any.Pick(4000), pool);
  const int64_t dictionary_bytes = any.Chance(50) ? kMiB : 1 + any.Pick(8000);
  parquet::WriterProperties::Builder builder;
  builder.enable_write_page_index()
      ->enable_page_checksum()
      ->compression(any.Chance(50) ? parquet::Compression::ZSTD
                                   : parquet::Compression::UNCOMPRESSED)
      ->data_pagesize(1 + any.Pick(20'000))
      ->dictionary_pagesize_limit(dictionary_bytes);
  const bool folds = any.Chance(70);
  if (!folds) builder.disable_dictionary()->encoding(AnyEncoding<DType>(any));
  const bool filtered = any.Chance(50) && !std::is_same_v<T, bool>;
  const std::string path = shape == Shape::kList ? "l.list.c" : "c";
  if (filtered) builder.enable_bloom_filter(path, parquet::BloomFilterOptions{});
  const auto properties = builder.build();
  const Handing handing = AnyHanding(any, column, pool);

  const std::string bytes = FileOf<DType>(properties, shape, column, handing);
  const auto reader = Open(bytes);
  RC_ASSERT(Read<DType>(*reader, column) == column);
  RC_ASSERT(Stated(*reader) == Stated(*Open(ByArrow<DType>(properties, shape, column))));
  CheckIndex<DType>(bytes, *reader, column, shape, properties->max_rows_per_page());
  if (filtered) CheckFilter<DType>(*reader, column);
  CheckDictionary<DType>(bytes, column, dictionary_bytes, shape != Shape::kList);
  // Whether values come folded shows nowhere (R232), nor do threads.
  Handing unfolded = handing;
  for (auto& stretch : unfolded.stretches) stretch.folded = false;
  RC_ASSERT(FileOf<DType>(properties, shape, column, unfolded) == bytes);
  PageThreads threads(2, 4000);
  RC_ASSERT(FileOf<DType>(properties, shape, column, handing, &threads) == bytes);
  RC_TAG(folds ? "folds" : "does not fold");
}

TEST(ColumnEncoder, P3_P17_P19_AnyColumnIsWhatArrowsWriterMakesOfIt) {
  const bool ok = rc::check("encoder", [](uint64_t seed) {
    switch (seed % 8) {
      case 0: return CheckAny<parquet::BooleanType>(seed);
      case 1: return CheckAny<parquet::Int32Type>(seed);
      case 2: return CheckAny<parquet::Int64Type>(seed);
      case 3: return CheckAny<parquet::Int96Type>(seed);
      case 4: return CheckAny<parquet::FloatType>(seed);
      case 5: return CheckAny<parquet::DoubleType>(seed);
      case 6: return CheckAny<parquet::ByteArrayType>(seed);
      default: return CheckAny<parquet::FLBAType>(seed);
    }
  });
  EXPECT_TRUE(ok);
}

std::string Number(int64_t n) { return TextOf(n); }

std::vector<PageHeader> HeadersOf(const std::string& bytes) {
  std::vector<PageHeader> headers;
  for (const PageOf& page : PagesOf(bytes)) headers.push_back(page.header);
  return headers;
}

Handing InOne(const Column& column) {
  return {{{LevelsOf(column), false, false}}, {column.values}};
}

TEST(ColumnEncoder, PagesHaveTwentyThousandRows) {
  Column column;
  column.rows = 50'000;
  for (int64_t i = 0; i < column.rows; ++i) column.values.push_back(Number(i % 3));
  const auto headers = HeadersOf(FileOf<parquet::Int64Type>(
      parquet::default_writer_properties(), Shape::kRequired, column, InOne(column)));
  ASSERT_EQ(headers.size(), 4U);
  EXPECT_EQ(headers[0].num_values, 3);
  EXPECT_EQ(headers[1].num_values, 20'000);
  EXPECT_EQ(headers[2].num_values, 20'000);
  EXPECT_EQ(headers[3].num_values, 10'000);
}

// 16,384 entries that are mostly new are enough to see that there will be more.
TEST(ColumnEncoder, AHopelessDictionaryIsGivenUpEarly) {
  Column column;
  column.rows = 60'000;
  for (int64_t i = 0; i < column.rows; ++i) column.values.push_back(Number(i));
  const auto headers = HeadersOf(FileOf<parquet::Int64Type>(
      parquet::default_writer_properties(), Shape::kRequired, column, InOne(column)));
  ASSERT_EQ(headers.size(), 5U);
  EXPECT_EQ(headers[0].num_values, 16'384);
  EXPECT_EQ(headers[1].encoding, PageEncoding::kRleDictionary);
  EXPECT_EQ(headers[1].num_values, 16'384);
  EXPECT_EQ(headers[2].encoding, PageEncoding::kPlain);
  EXPECT_EQ(headers[2].num_values, 20'000);
}

// One that values come from twice and more goes on to its bound.
TEST(ColumnEncoder, AFullDictionaryIsGivenUp) {
  Column column;
  column.rows = 90'000;
  for (int64_t i = 0; i < column.rows; ++i) column.values.push_back(Number(i / 3));
  const auto properties =
      parquet::WriterProperties::Builder().dictionary_pagesize_limit(8 * 20'000)->build();
  const auto headers =
      HeadersOf(FileOf<parquet::Int64Type>(properties, Shape::kRequired, column, InOne(column)));
  ASSERT_EQ(headers.size(), 6U);
  // Up to the unit of 1,024 values that has no room.
  EXPECT_LE(headers[0].num_values, 20'000);
  EXPECT_GE(headers[0].num_values, 20'000 - 1'024 / 3 - 1);
  EXPECT_EQ(headers[3].encoding, PageEncoding::kRleDictionary);
  EXPECT_EQ(headers[4].encoding, PageEncoding::kPlain);
}

// A row is not torn apart for a dictionary that is full.
TEST(ColumnEncoder, ARowOfManyEntriesStaysOnItsPage) {
  Column column;
  column.rows = 2;
  for (int64_t i = 0; i < 10'000; ++i) {
    column.values.push_back(Number(i));
    column.definition.push_back(3);
    column.repetition.push_back(i == 0 || i == 9'000 ? 0 : 1);
  }
  const auto properties = parquet::WriterProperties::Builder()
                              .dictionary_pagesize_limit(8'000)
                              ->data_pagesize(1'000)
                              ->enable_write_page_index()
                              ->build();
  const auto bytes = FileOf<parquet::Int64Type>(properties, Shape::kList, column, InOne(column));
  const auto headers = HeadersOf(bytes);
  ASSERT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers[0].num_values, 9'000);
  EXPECT_EQ(headers[1].num_values, 9'000);
  EXPECT_EQ(headers[2].encoding, PageEncoding::kPlain);
  EXPECT_EQ(headers[2].num_values, 1'000);
  const auto reader = Open(bytes);
  const auto index = reader->GetPageIndexReader()->RowGroup(0);
  ASSERT_NE(index, nullptr);
  EXPECT_NE(index->GetOffsetIndex(0), nullptr);
}

// Little memory bounds what one row may take, and it says so; it is no damage.
TEST(ColumnEncoder, ARowThatMemoryDoesNotHold) {
  const auto properties = parquet::WriterProperties::Builder().disable_dictionary()->build();
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  FileWriter writer(sink, SchemaOf(parquet::Type::BYTE_ARRAY, Shape::kRequired), properties);
  writer.StartRowGroup();
  auto options = EncoderOptions(*properties, writer.schema().Column(0));
  options.row_bytes_max = 10'000;
  const auto made = MakeColumnEncoder(options, *writer.NextColumn(), nullptr);
  auto& encoder = static_cast<TypedColumnEncoder<parquet::ByteArrayType>&>(**made);
  const std::string long_text(9'996, 'a');
  const std::string longer_text(9'997, 'a');
  const auto add = [&](const std::string& text) {
    return GuardParquet("column c", [&]() -> Status {
      const auto value = ValueOf<parquet::ByteArray>(text);
      encoder.Add({nullptr, nullptr, 1, 1}, &value);
      return {};
    });
  };
  EXPECT_TRUE(add(long_text));
  encoder.Finish();
  const auto refused = add(longer_text);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
}

}  // namespace
}  // namespace lithify::rewrite
