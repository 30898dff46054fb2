// Page headers: what was written is read again, what others write is read, and nothing that bytes
// can say does harm (P20, R309).
#include "rewrite/page_header.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <string_view>
#include <vector>

namespace lithify::rewrite {
namespace {

std::string Written(const PageHeader& header) {
  std::string out;
  AppendPageHeader(header, &out);
  return out;
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

std::string FromHex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

PageHeader DataV1() {
  PageHeader header;
  header.uncompressed_page_size = 1000;
  header.compressed_page_size = 300;
  header.num_values = 64;
  header.encoding = PageEncoding::kRleDictionary;
  return header;
}

PageHeader DataV2() {
  PageHeader header;
  header.type = PageType::kDataV2;
  header.uncompressed_page_size = 100;
  header.compressed_page_size = 90;
  header.crc = 0xfedcba98U;
  header.num_values = 20;
  header.num_nulls = 3;
  header.num_rows = 7;
  header.encoding = PageEncoding::kDeltaByteArray;
  header.definition_levels_byte_length = 6;
  header.repetition_levels_byte_length = 5;
  header.is_compressed = false;
  return header;
}

PageHeader Dictionary() {
  PageHeader header;
  header.type = PageType::kDictionary;
  header.uncompressed_page_size = 8;
  header.compressed_page_size = 8;
  header.num_values = 2;
  header.is_sorted = false;
  return header;
}

PageStatistics AllStatistics() {
  PageStatistics statistics;
  statistics.max = "zz";
  statistics.min = std::string("\0a", 2);
  statistics.null_count = 0;
  statistics.distinct_count = int64_t{1} << 40;
  statistics.max_value = std::string(300, 'm');
  statistics.min_value = "";
  statistics.is_max_value_exact = false;
  statistics.is_min_value_exact = true;
  statistics.nan_count = -1;
  return statistics;
}

Code ErrorOf(std::string_view bytes) {
  PageHeader header = DataV1();
  const auto parsed = ParsePageHeader(BytesOf(bytes), &header);
  EXPECT_FALSE(parsed.has_value()) << *parsed;
  EXPECT_EQ(header, DataV1()) << "changed by an error";
  return parsed ? Code::kInternal : parsed.error().code;
}

TEST(PageHeaderTest, BytesAreThoseOfTheCompactProtocol) {
  // Field by field: type 0, sizes 1000 and 300, V1 part {64, RLE_DICTIONARY, RLE, RLE}.
  EXPECT_EQ(Hex(Written(DataV1())),
            "1500"
            "15d00f"
            "15d804"
            "2c"
            "158001"
            "1510"
            "1506"
            "1506"
            "00"
            "00");
  // Type 3, sizes, a checksum with its highest bit, V2 part with a false boolean.
  EXPECT_EQ(Hex(Written(DataV2())),
            "1506"
            "15c801"
            "15b401"
            "15cf959a12"
            "4c"
            "1528"
            "1506"
            "150e"
            "150e"
            "150c"
            "150a"
            "12"
            "00"
            "00");
  EXPECT_EQ(Hex(Written(Dictionary())),
            "1504"
            "1510"
            "1510"
            "4c"
            "1504"
            "1500"
            "12"
            "00"
            "00");
}

TEST(PageHeaderTest, EveryKindOfPageIsReadAsItWasWritten) {
  std::vector<PageHeader> headers = {DataV1(), DataV2(), Dictionary()};
  for (size_t i = 0; i < 2; ++i) {
    headers.push_back(headers[i]);
    headers.back().statistics = AllStatistics();
    headers.back().crc = 0;
    headers.push_back(headers[i]);
    headers.back().statistics = PageStatistics{};
  }
  headers.push_back(Dictionary());
  headers.back().is_sorted = std::nullopt;
  PageHeader index;
  index.type = PageType::kIndex;
  index.compressed_page_size = 5;
  headers.push_back(index);
  for (const PageHeader& header : headers) {
    const std::string bytes = Written(header);
    PageHeader read;
    const auto size = ParsePageHeader(BytesOf(bytes + "body"), &read);
    ASSERT_TRUE(size) << size.error().ToString();
    EXPECT_EQ(*size, bytes.size());
    EXPECT_EQ(read, header);
  }
}

TEST(PageHeaderTest, EveryBeginningOfAHeaderNeedsMore) {
  PageHeader header = DataV2();
  header.statistics = AllStatistics();
  const std::string bytes = Written(header);
  for (size_t size = 0; size < bytes.size(); ++size) {
    PageHeader read = Dictionary();
    const auto parsed = ParsePageHeader(BytesOf(bytes).first(size), &read);
    ASSERT_TRUE(parsed) << size << ": " << parsed.error().ToString();
    EXPECT_EQ(*parsed, 0U) << size;
    EXPECT_EQ(read, Dictionary()) << size;
  }
}

TEST(PageHeaderTest, UnknownFieldsArePassedOver) {
  const std::string plain = Hex(Written(DataV1()));
  const std::string without_end = plain.substr(0, plain.size() - 2);
  const std::vector<std::string> fields = {
      "51",                      // 10: true
      "530a",                    // a byte
      "5480ffffffffffffffff01",  // a number
      "57"
      "0102030405060708",  // a double
      "5803616263",        // a string
      "59"
      "35"
      "020406",  // a list of 3 numbers
      "59"
      "f1"
      "10"
      "01020101010201020101010201020102",  // 16 booleans
      "5a"
      "18"
      "0161",  // a set of one string
      "5b"
      "00",  // an empty map
      "5b"
      "02"
      "58"
      "02"
      "0161"
      "04"
      "0162",  // 2 pairs of number and string
      "5c"
      "15021502"
      "2c00"
      "00",  // a structure with one in it
      "5d"
      "000102030405060708090a0b0c0d0e0f",  // a UUID
      "05"
      "9001"
      "02",  // a field whose number stands alone
  };
  for (const std::string& field : fields) {
    const std::string bytes = FromHex(without_end + field + "00");
    PageHeader read;
    const auto size = ParsePageHeader(BytesOf(bytes), &read);
    ASSERT_TRUE(size) << field << ": " << size.error().ToString();
    EXPECT_EQ(*size, bytes.size()) << field;
    EXPECT_EQ(read, DataV1()) << field;
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      const auto parsed = ParsePageHeader(BytesOf(bytes).first(cut), &read);
      ASSERT_TRUE(parsed) << field << ": " << parsed.error().ToString();
      EXPECT_EQ(*parsed, 0U) << field;
    }
  }
}

TEST(PageHeaderTest, AFieldOfAnotherTypeCountsAsMissing) {
  // The encoding as a string.
  EXPECT_EQ(ErrorOf(FromHex("150015101510"
                            "2c"
                            "1502"
                            "180161"
                            "15061506"
                            "0000")),
            Code::kCorrupt);
  // Of a V2 page a V1 part only.
  EXPECT_EQ(ErrorOf(FromHex("150615101510"
                            "2c"
                            "1502"
                            "1500"
                            "15061506"
                            "0000")),
            Code::kCorrupt);
}

TEST(PageHeaderTest, AnUnknownPageTypeHasSizesOnly) {
  PageHeader read;
  const auto size = ParsePageHeader(BytesOf(FromHex("1512"
                                                    "1504"
                                                    "1506"
                                                    "00")),
                                    &read);
  ASSERT_TRUE(size) << size.error().ToString();
  EXPECT_EQ(static_cast<int>(read.type), 9);
  EXPECT_EQ(read.compressed_page_size, 3);
  EXPECT_FALSE(read.is_data());
}

TEST(PageHeaderTest, ImpossibleSizesAreCorrupt) {
  const auto broken = [](PageHeader header, auto change) {
    change(header);
    return ErrorOf(Written(header));
  };
  EXPECT_EQ(broken(DataV1(), [](auto& h) { h.compressed_page_size = -1; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV1(), [](auto& h) { h.uncompressed_page_size = -1; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV1(), [](auto& h) { h.num_values = -64; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV1(), [](auto& h) { h.encoding = PageEncoding{-1}; }), Code::kCorrupt);
  EXPECT_EQ(broken(Dictionary(), [](auto& h) { h.num_values = -1; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.num_nulls = 21; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.num_nulls = -1; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.num_rows = 21; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.definition_levels_byte_length = -6; }),
            Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.repetition_levels_byte_length = 85; }),
            Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.compressed_page_size = 10; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(), [](auto& h) { h.uncompressed_page_size = 10; }), Code::kCorrupt);
  EXPECT_EQ(broken(DataV2(),
                   [](auto& h) {
                     h.definition_levels_byte_length = 0x7fffffff;
                     h.repetition_levels_byte_length = 0x7fffffff;
                   }),
            Code::kCorrupt);
}

TEST(PageHeaderTest, BytesThatAreNoHeaderAreCorrupt) {
  EXPECT_EQ(ErrorOf(FromHex("00")), Code::kCorrupt);          // No field at all.
  EXPECT_EQ(ErrorOf(FromHex("10")), Code::kCorrupt);          // A stop with a number.
  EXPECT_EQ(ErrorOf(FromHex("1e")), Code::kCorrupt);          // No such type.
  EXPECT_EQ(ErrorOf(FromHex("0580800402")), Code::kCorrupt);  // A field number of 32768.
  EXPECT_EQ(ErrorOf("PAR1"), Code::kCorrupt);
  EXPECT_EQ(ErrorOf(FromHex("15ffffffffffffffffffff01")), Code::kCorrupt);  // 70 bits.
  EXPECT_EQ(ErrorOf(FromHex("15808080802000")), Code::kCorrupt);            // 34 bits for 32.
  EXPECT_EQ(ErrorOf(FromHex("a91e")), Code::kCorrupt);  // A list of elements of no type.
}

TEST(PageHeaderTest, DepthAndLengthAreBounded) {
  EXPECT_EQ(ErrorOf(std::string(100'000, '\x1c')), Code::kCorrupt);
  std::string lists = FromHex("a9");
  lists.append(100'000, '\x19');
  EXPECT_EQ(ErrorOf(lists), Code::kCorrupt);
  // A string, a list and a map of 2^31 bytes or elements: no more bytes could make them good.
  EXPECT_EQ(ErrorOf(FromHex("a88080808008")), Code::kLimit);
  EXPECT_EQ(ErrorOf(FromHex("a9f58080808008")), Code::kLimit);
  EXPECT_EQ(ErrorOf(FromHex("ab808080800855")), Code::kLimit);
  // Endless fields.
  std::string fields;
  while (fields.size() <= kPageHeaderBytesMax) fields += FromHex("051400");
  EXPECT_EQ(ErrorOf(fields), Code::kLimit);
}

TEST(PageHeaderTest, AnyBytesGiveAHeaderThatHoldsOrAnError) {
  const bool ok = rc::check("no harm", [](std::vector<uint8_t> noise, uint32_t seed) {
    PageHeader start = seed % 3 == 0 ? DataV1() : seed % 3 == 1 ? DataV2() : Dictionary();
    start.statistics = AllStatistics();
    std::string bytes = Written(start);
    for (size_t i = 0; i + 1 < noise.size(); i += 2) {
      bytes[(noise[i] * 256U + seed) % bytes.size()] = static_cast<char>(noise[i + 1]);
    }
    PageHeader read;
    const auto size = ParsePageHeader(BytesOf(bytes), &read);
    if (!size) {
      RC_ASSERT(size.error().code == Code::kCorrupt || size.error().code == Code::kLimit);
      return;
    }
    if (*size == 0) return;
    RC_ASSERT(*size <= bytes.size());
    RC_ASSERT(read.compressed_page_size >= 0);
    RC_ASSERT(read.num_values >= 0);
    RC_ASSERT(read.v2_level_bytes() <= read.compressed_page_size);
    PageHeader again;
    const std::string rewritten = Written(read);
    RC_ASSERT(ParsePageHeader(BytesOf(rewritten), &again).value() == rewritten.size());
    RC_ASSERT(again == read);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace lithify::rewrite
