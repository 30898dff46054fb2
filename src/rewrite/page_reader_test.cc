// Pages as ReadPages() gives them are those of Arrow's own page reader.
#include "rewrite/page_reader.h"

#include <arrow/util/compression.h>
#include <parquet/column_page.h>
#include <parquet/file_reader.h>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/file_writer.h"
#include "rewrite/page_codec.h"
#include "rewrite/splice_fixture.h"

namespace lithify::rewrite {
namespace {

using arrow::Compression;
using Builder = parquet::WriterProperties::Builder;

std::shared_ptr<arrow::io::RandomAccessFile> InMemory(const std::string& bytes) {
  return std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes));
}

// A file in memory whose bytes are copied as they are read, as those of a file on a disk are.
class Copying final : public arrow::io::RandomAccessFile {
 public:
  explicit Copying(std::shared_ptr<arrow::io::RandomAccessFile> file) : file_(std::move(file)) {}
  arrow::Status Close() override { return {}; }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return file_->Tell(); }
  arrow::Status Seek(int64_t position) override { return file_->Seek(position); }
  arrow::Result<int64_t> GetSize() override { return file_->GetSize(); }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override { return file_->Read(bytes, out); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    return file_->Read(bytes);
  }
  arrow::Result<int64_t> ReadAt(int64_t at, int64_t bytes, void* out) override {
    return file_->ReadAt(at, bytes, out);
  }

 private:
  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
};

struct Opened {
  explicit Opened(const std::string& bytes, bool copying = false)
      : reader(Open(bytes)), footer(FooterOf(bytes)) {
    in.file = InMemory(bytes);
    if (copying) in.file = std::make_shared<Copying>(in.file);
    in.size = std::ssize(bytes);
    in.footer = footer.get();
    in.pool = arrow::default_memory_pool();
  }
  std::unique_ptr<parquet::ParquetFileReader> reader;
  std::shared_ptr<const Footer> footer;
  PagesFile in;
};

void ExpectSamePage(const parquet::Page& page, const parquet::Page& wanted) {
  EXPECT_EQ(page.type(), wanted.type());
  EXPECT_EQ(std::string_view(*page.buffer()), std::string_view(*wanted.buffer()));
  if (page.type() == parquet::PageType::DICTIONARY_PAGE) {
    const auto& a = static_cast<const parquet::DictionaryPage&>(page);
    const auto& b = static_cast<const parquet::DictionaryPage&>(wanted);
    EXPECT_EQ(a.num_values(), b.num_values());
    EXPECT_EQ(a.encoding(), b.encoding());
    EXPECT_EQ(a.is_sorted(), b.is_sorted());
    return;
  }
  const auto& a = static_cast<const parquet::DataPage&>(page);
  const auto& b = static_cast<const parquet::DataPage&>(wanted);
  EXPECT_EQ(a.num_values(), b.num_values());
  EXPECT_EQ(a.encoding(), b.encoding());
  EXPECT_EQ(a.uncompressed_size(), b.uncompressed_size());
  if (page.type() == parquet::PageType::DATA_PAGE) {
    const auto& v1 = static_cast<const parquet::DataPageV1&>(page);
    const auto& other = static_cast<const parquet::DataPageV1&>(wanted);
    EXPECT_EQ(v1.definition_level_encoding(), other.definition_level_encoding());
    EXPECT_EQ(v1.repetition_level_encoding(), other.repetition_level_encoding());
    return;
  }
  const auto& v2 = static_cast<const parquet::DataPageV2&>(page);
  const auto& other = static_cast<const parquet::DataPageV2&>(wanted);
  EXPECT_EQ(v2.num_rows(), other.num_rows());
  EXPECT_EQ(v2.num_nulls(), other.num_nulls());
  EXPECT_EQ(v2.definition_levels_byte_length(), other.definition_levels_byte_length());
  EXPECT_EQ(v2.repetition_levels_byte_length(), other.repetition_levels_byte_length());
}

// Returns the number of pages.
int ExpectSamePages(const Opened& file) {
  int pages = 0;
  for (int g = 0; g < file.footer->num_row_groups(); ++g) {
    for (int c = 0; c < file.footer->num_columns(); ++c) {
      const auto ours = ReadPages(file.in, g, c);
      const auto arrows = file.reader->RowGroup(g)->GetColumnPageReader(c);
      while (true) {
        const auto page = ours->NextPage();
        const auto wanted = arrows->NextPage();
        EXPECT_EQ(page == nullptr, wanted == nullptr);
        if (page == nullptr || wanted == nullptr) break;
        ExpectSamePage(*page, *wanted);
        ++pages;
      }
    }
  }
  return pages;
}

TEST(PageReader, PagesAreThoseOfArrowsReader) {
  for (const auto codec : {Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP,
                           Compression::ZSTD, Compression::LZ4, Compression::LZ4_HADOOP}) {
    for (const bool v2 : {false, true}) {
      SCOPED_TRACE(arrow::util::Codec::GetCodecAsString(codec) + (v2 ? " 2" : " 1"));
      Builder builder;
      builder.compression(codec)->data_pagesize(3000)->write_batch_size(100);
      builder.enable_page_checksum();
      if (v2) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
      builder.disable_dictionary("long");
      const auto nulls = arrow::MakeArrayOfNull(arrow::utf8(), kRows).ValueOrDie();
      const auto table = arrow::Table::Make(
          arrow::schema({arrow::field("long", arrow::int64()), arrow::field("text", arrow::utf8()),
                         arrow::field("list", arrow::list(arrow::int64())),
                         arrow::field("null", arrow::utf8())}),
          {Longs(5), Texts("t", 700, true), Lists(0, kRows), nulls});
      const std::string bytes = WriteParquet(*table, 2000, builder.build());
      EXPECT_GT(ExpectSamePages(Opened(bytes)), 30);
      Opened copying(bytes, true);
      for (const int64_t read_bytes : {int64_t{1}, int64_t{5000}, kMiB}) {
        copying.in.read_bytes = read_bytes;
        EXPECT_GT(ExpectSamePages(copying), 30);
      }
    }
  }
}

// A file of one required column of longs, with one page that `change` alters, one without values
// behind it if asked for, and a footer that names `writer`.
std::string OnePage(const std::string& writer,
                    const std::function<void(PageHeader&, std::string&)>& change,
                    bool empty_page_behind = false) {
  const std::string plain(8000, 'x');
  PageHeader header;
  header.num_values = 1000;
  header.uncompressed_page_size = 8000;
  std::string body;
  EXPECT_TRUE(PageCodec::Make(Compression::ZSTD)->Compress(BytesOf(plain), &body));
  change(header, body);
  const auto properties = Builder().compression(Compression::ZSTD)->created_by(writer)->build();
  return FileOfPages(properties, 1000, [&](RawColumn& column) {
    column.WriteData(header, BytesOf(body), {}, RawColumn::Facts{1000, true, nullptr});
    if (empty_page_behind) {
      column.WriteData(PageHeader(), {}, {}, RawColumn::Facts{0, true, nullptr});
    }
  });
}

void MakeV2(PageHeader& header, std::string&) {
  header.type = PageType::kDataV2;
  header.num_rows = 1000;
  header.is_compressed = false;
}

TEST(PageReader, WritersOfOldSayOfPackedPagesThatTheyAreNot) {
  const Opened old(OnePage("parquet-cpp version 1.5.1-SNAPSHOT", MakeV2));
  EXPECT_EQ(ExpectSamePages(old), 1);
  EXPECT_EQ(ReadPages(old.in, 0, 0)->NextPage()->size(), 8000);
  const Opened other(OnePage("parquet-mr version 1.13.0", MakeV2));
  EXPECT_EQ(ExpectSamePages(other), 1);
  EXPECT_LT(ReadPages(other.in, 0, 0)->NextPage()->size(), 8000);
}

// Arrow's reader has seen all values and stops.
TEST(PageReader, BytesBehindTheLastValueAreNotLookedAt) {
  std::string bytes = OnePage("x version 1.0.0", [](PageHeader&, std::string&) {}, true);
  const auto chunk_end = [&] {
    const auto footer = Open(bytes)->metadata();
    const auto chunk = footer->RowGroup(0)->ColumnChunk(0);
    return static_cast<size_t>(chunk->data_page_offset() + chunk->total_compressed_size());
  }();
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(chunk_end) - 12, 12, '\xff');
  const Opened file(bytes);
  EXPECT_EQ(ExpectSamePages(file), 1);
  auto pages = OpenChunk(file.in, 0, 0);
  RawPage page;
  ASSERT_TRUE(pages->Next(&page).value());
  EXPECT_EQ(pages->Next(&page).error().code, Code::kCorrupt);
}

Error ErrorOf(const std::string& bytes) {
  const Opened file(bytes);
  const Status read = GuardParquet("here", [&]() -> Status {
    (void)ReadPages(file.in, 0, 0)->NextPage();
    return {};
  });
  return read ? Error{} : read.error();
}

TEST(PageReader, PagesThatAreNotWhatTheirHeadersSayAreRefused) {
  const auto with = [](const std::function<void(PageHeader&, std::string&)>& change) {
    return ErrorOf(OnePage("x version 1.0.0", change));
  };
  EXPECT_EQ(with([](PageHeader& header, std::string&) { ++header.uncompressed_page_size; }).code,
            Code::kCorrupt);
  EXPECT_EQ(with([](PageHeader& header, std::string&) { --header.uncompressed_page_size; }).code,
            Code::kCorrupt);
  EXPECT_EQ(with([](PageHeader&, std::string& body) { body.resize(body.size() - 3); }).code,
            Code::kCorrupt);
  const Error sum = with([](PageHeader& header, std::string&) { header.crc = 1; });
  EXPECT_EQ(sum.code, Code::kCorrupt);
  EXPECT_NE(sum.message.find("checksum"), std::string::npos);
}

// A few bytes that claim to be very many ask for no more than the pool has.
TEST(PageReader, MemoryIsThatOfThePool) {
  Opened file(OnePage("x version 1.0.0", [](PageHeader& header, std::string&) {
    header.uncompressed_page_size = 1 << 30;
  }));
  BoundedPool pool(kMiB);
  file.in.pool = pool.hard();
  const Status read = GuardParquet("here", [&]() -> Status {
    (void)ReadPages(file.in, 0, 0)->NextPage();
    return {};
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kLimit);
}

}  // namespace
}  // namespace lithify::rewrite
