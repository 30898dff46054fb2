// The paths that position delete files name, read with few bytes (R102).
#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "rewrite/delete_scan.h"
#include "rewrite/table_fixture.h"
#include "storage/counting_store.h"

namespace lithify::rewrite {
namespace {

std::string PathNumber(int i) {
  return "s3://bucket/warehouse/table/data/part-" + std::to_string(i) + ".parquet";
}

// How writers lay out a position delete file.
struct DeleteLayout {
  const char* name;
  bool dictionary = true;
  int64_t dictionary_bytes = 1 << 20;  // Above it plain pages follow: pages of both kinds.
  int64_t row_group_rows = 1 << 20;
  int64_t page_bytes = 1 << 20;
  parquet::Compression::type codec = parquet::Compression::ZSTD;
  bool statistics = true;
  parquet::ParquetDataPageVersion pages = parquet::ParquetDataPageVersion::V1;
  bool page_index = false;
  int64_t requests_max = 2;
  bool joined = false;  // So small are row groups that all of them come together.
};

void PrintTo(const DeleteLayout& layout, std::ostream* out) { *out << layout.name; }

class DeletePathsTest : public testing::Test {
 protected:
  static arrow::FieldVector Fields() {
    return {IdField(iceberg::kFilePathFieldId, "file_path", arrow::utf8(), false),
            IdField(iceberg::kPosFieldId, "pos", arrow::int64(), false)};
  }
  int64_t Put(const std::string& bytes) {
    EXPECT_TRUE(memory_.PutNew("d.parquet", bytes));
    return std::ssize(bytes);
  }

  SystemClock clock_;
  storage::MemoryStore memory_{clock_};
  storage::CountingStore far_{memory_, std::chrono::microseconds(0)};
  ScanBounds bounds_;
};

class PathBytesTest : public DeletePathsTest, public testing::WithParamInterface<DeleteLayout> {
 protected:
  static constexpr int kRows = 200'000;
  static constexpr int kFiles = 40;
  // Sorted by path and position, as the specification wants it.
  void PutFile() {
    const DeleteLayout& layout = GetParam();
    arrow::StringBuilder paths;
    arrow::Int64Builder positions;
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(paths.Append(PathNumber(1000 + i / (kRows / kFiles))).ok());
      ASSERT_TRUE(positions.Append((int64_t{i} * 7919) % 1'000'003).ok());
    }
    const auto table = arrow::Table::Make(
        arrow::schema(Fields()),
        arrow::ArrayVector{paths.Finish().ValueOrDie(), positions.Finish().ValueOrDie()});
    parquet::WriterProperties::Builder properties;
    properties.compression(layout.codec)
        ->data_pagesize(layout.page_bytes)
        ->dictionary_pagesize_limit(layout.dictionary_bytes)
        ->data_page_version(layout.pages);
    if (!layout.dictionary) properties.disable_dictionary();
    if (!layout.statistics) properties.disable_statistics();
    if (layout.page_index) properties.enable_write_page_index();
    size_ = Put(WriteParquet(*table, layout.row_group_rows, properties.build()));
  }
  // Bytes of the path column's chunks, as the footer states them.
  int64_t ColumnBytes() {
    const auto file = parquet::ParquetFileReader::Open(std::make_shared<arrow::io::BufferReader>(
        arrow::Buffer::FromString(memory_.Get("d.parquet", 1 << 30)->bytes)));
    int64_t bytes = 0;
    for (int g = 0; g < file->metadata()->num_row_groups(); ++g) {
      bytes += file->metadata()->RowGroup(g)->ColumnChunk(0)->total_compressed_size();
    }
    return bytes;
  }
  static std::vector<std::string> Expected() {
    std::vector<std::string> paths;
    for (int f = 0; f < kFiles; ++f) paths.push_back(PathNumber(1000 + f));
    return paths;
  }

  int64_t size_ = 0;
};

TEST_P(PathBytesTest, PathsCostLittleMoreThanTheirColumn) {
  PutFile();
  const auto paths = ReadPositionDeletePaths(far_, "d.parquet", size_, bounds_);
  ASSERT_TRUE(paths) << paths.error().ToString();
  EXPECT_EQ(*paths, Expected());
  const auto counts = far_.Count("d.parquet");
  EXPECT_LE(counts.requests, GetParam().requests_max);
  // A footer that is larger than it should be is asked for anew.
  EXPECT_LE(counts.repeated_bytes, 4 * 1024);
  EXPECT_LE(counts.bytes, (GetParam().joined ? size_ : ColumnBytes()) + 8 * 1024) << "of " << size_;
}

// Sizes of metadata may be wrong, and unknown.
TEST_P(PathBytesTest, TheFileDecidesWhereItEnds) {
  PutFile();
  for (const int64_t size : {int64_t{-1}, size_ - 1, size_ + 1, int64_t{0}, int64_t{12}}) {
    const auto paths = ReadPositionDeletePaths(far_, "d.parquet", size, bounds_);
    ASSERT_TRUE(paths) << size << ": " << paths.error().ToString();
    EXPECT_EQ(*paths, Expected()) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PathBytesTest,
    testing::Values(
        DeleteLayout{.name = "Dictionary"}, DeleteLayout{.name = "Plain", .dictionary = false},
        DeleteLayout{.name = "PlainUncompressed",
                     .dictionary = false,
                     .codec = parquet::Compression::UNCOMPRESSED,
                     .requests_max = 5},
        DeleteLayout{.name = "Fallback", .dictionary_bytes = 500, .page_bytes = 20'000},
        DeleteLayout{.name = "RowGroups", .row_group_rows = 20'000, .requests_max = 12},
        DeleteLayout{
            .name = "SmallRowGroups", .row_group_rows = 1'000, .requests_max = 3, .joined = true},
        DeleteLayout{.name = "SmallPages", .page_bytes = 1'000},
        DeleteLayout{.name = "LikeSpark",
                     .page_bytes = 20'000,
                     .codec = parquet::Compression::GZIP,
                     .pages = parquet::ParquetDataPageVersion::V1,
                     .page_index = true},
        DeleteLayout{.name = "NoStatistics", .statistics = false},
        DeleteLayout{.name = "PagesV2",
                     .codec = parquet::Compression::SNAPPY,
                     .pages = parquet::ParquetDataPageVersion::V2}),
    [](const auto& of) { return of.param.name; });

// Damage within what is read is found as by who reads all, in a file too large to be read whole.
TEST_F(DeletePathsTest, ADamagedFileNamesNothingByHalves) {
  arrow::StringBuilder paths;
  arrow::Int64Builder positions;
  for (int i = 0; i < 6'000; ++i) {
    ASSERT_TRUE(paths.Append(PathNumber(i / 700)).ok());
    ASSERT_TRUE(positions.Append((int64_t{i} * 7919) % 1'000'003).ok());
  }
  const auto table = arrow::Table::Make(
      arrow::schema(Fields()),
      arrow::ArrayVector{paths.Finish().ValueOrDie(), positions.Finish().ValueOrDie()});
  parquet::WriterProperties::Builder properties;
  properties.disable_dictionary("pos")->compression(parquet::Compression::SNAPPY);
  const std::string whole = WriteParquet(*table, 2'500, properties.build());
  ASSERT_GT(whole.size(), 24U << 10);
  int refused = 0;
  for (size_t at = 4; at < whole.size(); at += at + 6'000 < whole.size() ? 53 : 11) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    (void)memory_.Remove("d.parquet");
    Put(damaged);
    const auto few = ReadPositionDeletePaths(far_, "d.parquet", std::ssize(damaged), bounds_);
    const auto near = ReadPositionDeletePaths(memory_, "d.parquet", -1, bounds_);
    ASSERT_EQ(few.has_value(), near.has_value()) << at;
    refused += few ? 0 : 1;
    if (few) {
      EXPECT_EQ(*few, *near) << at;
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace lithify::rewrite
