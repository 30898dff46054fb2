// Entries as Arrow's column reader gives them, folded or not; and pages that lie.
#include "rewrite/entry_reader.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/text.h"
#include "rewrite/arbitrary_table.h"
#include "rewrite/index_pages.h"
#include "rewrite/page_reader.h"
#include "rewrite/pages_fixture.h"
#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {
namespace {

std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& bytes) {
  return parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
}

// Levels and values of a chunk, one after the other.
struct Seen {
  std::vector<int16_t> definition;
  std::vector<int16_t> repetition;
  std::vector<std::string> values;
  bool operator==(const Seen&) const = default;
};

template <typename T>
std::string TextOf(const T& value, int length) {
  if constexpr (std::is_same_v<T, parquet::ByteArray>) {
    return {reinterpret_cast<const char*>(value.ptr), value.len};
  } else if constexpr (std::is_same_v<T, parquet::FixedLenByteArray>) {
    return {reinterpret_cast<const char*>(value.ptr), static_cast<size_t>(length)};
  } else {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
}

template <typename DType>
struct Room {
  using T = typename DType::c_type;
  explicit Room(const parquet::ColumnDescriptor& column) : column_(column) {}

  void Take(int64_t levels, int64_t present, bool folded, std::span<const T> dictionary,
            Seen& seen) {
    const auto count = static_cast<size_t>(levels);
    if (column_.max_definition_level() > 0) {
      seen.definition.insert(seen.definition.end(), definition, definition + count);
    }
    if (column_.max_repetition_level() > 0) {
      seen.repetition.insert(seen.repetition.end(), repetition, repetition + count);
    }
    for (int64_t i = 0; i < present; ++i) {
      const auto at = static_cast<size_t>(i);
      seen.values.push_back(
          TextOf(folded ? dictionary[indices[at]] : values[at], column_.type_length()));
    }
  }

  static constexpr int64_t kMost = 100;
  int16_t definition[kMost] = {};
  int16_t repetition[kMost] = {};
  uint32_t indices[kMost] = {};
  T values[kMost] = {};

 private:
  const parquet::ColumnDescriptor& column_;
};

template <typename DType>
Seen ByArrow(parquet::ParquetFileReader& file, int group, int leaf) {
  const auto column = std::static_pointer_cast<parquet::TypedColumnReader<DType>>(
      file.RowGroup(group)->Column(leaf));
  Room<DType> room(*column->descr());
  Seen seen;
  // It takes an empty page for the end.
  for (int empty = 0; empty < 100;) {
    if (!column->HasNext()) {
      ++empty;
      continue;
    }
    int64_t present = 0;
    const int64_t levels =
        column->ReadBatch(room.kMost, room.definition, room.repetition, room.values, &present);
    room.Take(levels, present, false, {}, seen);
  }
  return seen;
}

PagesFile FileOf(const std::string& bytes, const std::shared_ptr<const Footer>& footer) {
  return {std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)),
          std::ssize(bytes), footer.get(), arrow::default_memory_pool(), kMiB};
}

template <typename DType>
Seen ByEntries(const PagesFile& file, int group, int leaf, Arbitrary& any, bool unfolds) {
  const auto made =
      MakeEntryReader(file.footer->schema().Column(leaf), ReadPages(file, group, leaf), file.pool);
  auto& column = static_cast<TypedEntryReader<DType>&>(*made);
  Room<DType> room(*column.descr());
  Seen seen;
  int empty = 0;
  while (empty < 100) {  // A page may be empty, and so is the end.
    int64_t present = 0;
    const bool folded = !unfolds && column.folded();
    const int64_t most = 1 + any.Pick(room.kMost);
    const int64_t levels =
        folded ? column.ReadIndices(most, room.definition, room.repetition, room.indices, &present)
               : column.Read(most, room.definition, room.repetition, room.values, &present);
    room.Take(levels, present, folded, column.dictionary(), seen);
    empty = levels == 0 ? empty + 1 : 0;
  }
  return seen;
}

template <typename DType>
void CheckChunk(parquet::ParquetFileReader& arrow, const PagesFile& file, int group, int leaf,
                Arbitrary& any) {
  const Seen expected = ByArrow<DType>(arrow, group, leaf);
  RC_ASSERT(ByEntries<DType>(file, group, leaf, any, false) == expected);
  RC_ASSERT(ByEntries<DType>(file, group, leaf, any, true) == expected);
  // Skipping leaves out as many as it says.
  const auto column =
      MakeEntryReader(file.footer->schema().Column(leaf), ReadPages(file, group, leaf), file.pool);
  if (column->descr()->max_definition_level() > 0 || expected.values.empty()) return;
  auto& typed = static_cast<TypedEntryReader<DType>&>(*column);
  Room<DType> room(*column->descr());
  const int64_t skipped = column->Skip(1 + any.Pick(200));
  int64_t present = 0;
  typed.Read(1, room.definition, room.repetition, room.values, &present);
  if (present == 0) return;
  RC_ASSERT(TextOf(room.values[0], column->descr()->type_length()) ==
            expected.values[static_cast<size_t>(skipped)]);
}

TEST(EntryReader, AnyFileAsArrowReadsIt) {
  const bool ok = rc::check("entries", [](uint64_t seed) {
    Arbitrary any(seed);
    const auto field = arrow::field("c", any.Type(2), any.Chance(70));
    const auto table = MakeTable(arrow::schema({field}), {any.Column(*field, 1 + any.Pick(400))});
    const std::string bytes = WriteParquet(*table, 1 + any.Pick(300), any.Properties());
    const auto footer = FooterOf(bytes);
    const PagesFile file = FileOf(bytes, footer);
    const auto arrow = Open(bytes);
    for (int g = 0; g < footer->num_row_groups(); ++g) {
      for (int leaf = 0; leaf < footer->schema().num_columns(); ++leaf) {
        using parquet::Type;
        switch (footer->schema().Column(leaf)->physical_type()) {
          case Type::BOOLEAN: CheckChunk<parquet::BooleanType>(*arrow, file, g, leaf, any); break;
          case Type::INT32: CheckChunk<parquet::Int32Type>(*arrow, file, g, leaf, any); break;
          case Type::INT64: CheckChunk<parquet::Int64Type>(*arrow, file, g, leaf, any); break;
          case Type::INT96: CheckChunk<parquet::Int96Type>(*arrow, file, g, leaf, any); break;
          case Type::FLOAT: CheckChunk<parquet::FloatType>(*arrow, file, g, leaf, any); break;
          case Type::DOUBLE: CheckChunk<parquet::DoubleType>(*arrow, file, g, leaf, any); break;
          case Type::BYTE_ARRAY:
            CheckChunk<parquet::ByteArrayType>(*arrow, file, g, leaf, any);
            break;
          default: CheckChunk<parquet::FLBAType>(*arrow, file, g, leaf, any);
        }
      }
    }
  });
  EXPECT_TRUE(ok);
}

// ------------------------------------------------------------------------------- hostile pages

std::string Longs(std::initializer_list<int64_t> values) {
  std::string plain;
  for (const int64_t value : values) {
    plain.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return plain;
}

PageHeader HeaderOf(PageType type, PageEncoding encoding, int32_t values, const std::string& body) {
  PageHeader header;
  header.type = type;
  header.encoding = encoding;
  header.num_values = values;
  header.uncompressed_page_size = static_cast<int32_t>(body.size());
  return header;
}

std::string IndexBody(std::vector<uint32_t> indices, int width) {
  std::string body;
  AppendIndices(indices, width, &body);
  return body;
}

// A dictionary said to have so many values, and one page of indices.
std::string FoldedFile(
    const std::string& dictionary, int32_t entries, const std::string& indices, int32_t values,
    const std::shared_ptr<const parquet::LogicalType>& logical = parquet::LogicalType::None()) {
  const auto properties =
      parquet::WriterProperties::Builder().compression(parquet::Compression::UNCOMPRESSED)->build();
  return FileOfPages(
      properties, values,
      [&](RawColumn& column) {
        if (entries >= 0) {
          column.WriteDictionary(
              HeaderOf(PageType::kDictionary, PageEncoding::kPlain, entries, dictionary),
              BytesOf(dictionary));
        }
        column.WriteData(HeaderOf(PageType::kData, PageEncoding::kRleDictionary, values, indices),
                         {}, BytesOf(indices), {values, true, nullptr, nullptr});
      },
      logical);
}

std::shared_ptr<const parquet::LogicalType> TimeIn(parquet::LogicalType::TimeUnit::unit unit) {
  return parquet::LogicalType::Timestamp(true, unit);
}

class HostilePages : public RunnerTest {
 protected:
  // Rewritten, decoding everything, and verified: neither gets anywhere.
  void ExpectCorrupt(const std::string& bytes, const std::string& message) {
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
    const std::string key = request_.inputs.back().key;
    Request().shape.splice = false;
    const auto keys = store_.Keys();
    for (const Verify verify : {Verify::kFull, Verify::kCounts}) {
      request_.verify = verify;
      const auto report = runner_->Run(request_, cancel_);
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
      EXPECT_NE(report.error().ToString().find(message), std::string::npos)
          << report.error().ToString();
      EXPECT_NE(report.error().ToString().find(key), std::string::npos);
    }
    EXPECT_EQ(store_.Keys(), keys);
    const auto read = runner_->VerifyFile(key, RowRule{}, cancel_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kCorrupt) << read.error().ToString();
    request_.inputs.pop_back();
  }
};

TEST_F(HostilePages, AControlIsRewritten) {
  Put("in.parquet", FoldedFile(Longs({10, 20, 30}), 3, IndexBody({2, 0, 1, 2}, 2), 4));
  Request().shape.splice = false;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(
      Output(*report)->column(0)->chunk(0)->Equals(*FromJson(arrow::int64(), "[30, 10, 20, 30]")));
}

// P12: an entry that does not fit the finer unit is an error where a row has it, and only there.
TEST_F(HostilePages, AnEntryThatCannotBeConverted) {
  using Unit = parquet::LogicalType::TimeUnit;
  const std::string millis = Longs({7, std::numeric_limits<int64_t>::max()});
  Put("micros.parquet", FoldedFile(Longs({5}), 1, IndexBody({0, 0}, 1), 2, TimeIn(Unit::MICROS)));
  Put("millis.parquet", FoldedFile(millis, 2, IndexBody({0, 0, 0}, 1), 3, TimeIn(Unit::MILLIS)));
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_TRUE(Output(*report)->column(0)->chunk(0)->Equals(
      *FromJson(arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"), "[5, 5, 7000, 7000, 7000]")));
  Put("used.parquet", FoldedFile(millis, 2, IndexBody({0, 1, 0}, 1), 3, TimeIn(Unit::MILLIS)));
  const auto refused = Run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported) << refused.error().ToString();
  EXPECT_NE(refused.error().ToString().find("p/used.parquet"), std::string::npos);
}

TEST_F(HostilePages, IndicesBeyondTheDictionary) {
  const std::string three = Longs({10, 20, 30});
  ExpectCorrupt(FoldedFile(three, 3, IndexBody({2, 0, 3, 2}, 2), 4), "beyond its dictionary");
  ExpectCorrupt(FoldedFile(three, 3, IndexBody({2, 0, 0xffffffff, 1}, 32), 4),
                "beyond its dictionary");
  // As a run.
  ExpectCorrupt(FoldedFile(three, 3, IndexBody(std::vector<uint32_t>(4000, 3), 2), 4000),
                "beyond its dictionary");
  ExpectCorrupt(FoldedFile("", 0, IndexBody({0, 0, 0, 0}, 1), 4), "beyond its dictionary");
}

TEST_F(HostilePages, ADictionaryThatClaimsTooMuch) {
  ExpectCorrupt(FoldedFile(Longs({10, 20}), 3, IndexBody({0, 1}, 2), 2), "3 values in 16 bytes");
  ExpectCorrupt(FoldedFile(Longs({10, 20}), 2'000'000'000, IndexBody({0, 1}, 2), 2),
                "2000000000 values in 16 bytes");
}

TEST_F(HostilePages, IndicesWithoutADictionaryOrCutOff) {
  ExpectCorrupt(FoldedFile("", -1, IndexBody({0, 1}, 2), 2), "without a dictionary");
  const std::string some = IndexBody({0, 1, 0, 1, 1, 0, 0, 1}, 1);
  ExpectCorrupt(FoldedFile(Longs({10, 20}), 2, some, 4000), "");
  ExpectCorrupt(FoldedFile(Longs({10, 20}), 2, "", 2), "");
}

}  // namespace
}  // namespace lithify::rewrite
