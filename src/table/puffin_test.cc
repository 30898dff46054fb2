// Puffin files and deletion vectors against the documented layout and against bytes that other
// implementations wrote.
#include "table/puffin.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/clock.h"
#include "base/random.h"
#include "storage/memory_store.h"

namespace lithify::table {
namespace {

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

// The positions 0, 2, 3, 100000, 300000 to 300199 and 2^32 + 7: bitmaps serialized by pyroaring
// 1.2.0, checksum by Python's zlib.
constexpr std::string_view kForeignVector =
    "00000045d1d339640200000000000000000000003b3002000400000200010000000400c7000000020003"
    "00a0860100e093c700010000003a3000000100000000000000100000000700fbdcd357";

PositionSet ForeignPositions() {
  PositionSet positions;
  positions.AddMany(std::vector<int64_t>{0, 2, 3, 100'000, (int64_t{1} << 32) + 7});
  positions.AddRange(300'000, 300'200);
  return positions;
}

TEST(DeletionVector, ReadsWhatAnotherImplementationWrote) {
  const auto positions = DecodeDeletionVector(FromHex(kForeignVector), "dv");
  ASSERT_TRUE(positions.has_value()) << positions.error().ToString();
  EXPECT_EQ(positions->size(), 205);
  EXPECT_EQ(positions->Serialize(), ForeignPositions().Serialize());
}

TEST(DeletionVector, WritesTheSameBytes) {
  EXPECT_EQ(ToHex(EncodeDeletionVector(ForeignPositions())), kForeignVector);
  EXPECT_EQ(ToHex(EncodeDeletionVector(PositionSet())), "0000000cd1d339640000000000000000bf18480c");
}

void ExpectCorrupt(const Result<PositionSet>& result, std::string_view says) {
  ASSERT_FALSE(result.has_value()) << says;
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_EQ(result.error().context, "dv.puffin");
  EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().ToString();
}

TEST(DeletionVector, EveryFlippedBitIsNoticed) {
  const std::string good = FromHex(kForeignVector);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeDeletionVector(bytes, "dv.puffin").has_value()) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    const std::vector<char> exact(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(DecodeDeletionVector({exact.data(), exact.size()}, "dv.puffin").has_value());
  }
}

TEST(DeletionVector, TellsWhatDoesNotHold) {
  const std::string good = FromHex(kForeignVector);
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return DecodeDeletionVector(bytes, "dv.puffin");
  };
  ExpectCorrupt(DecodeDeletionVector("", "dv.puffin"), "of 0 bytes");
  ExpectCorrupt(with(3, 0), "length is 0, its blob holds 69");
  ExpectCorrupt(with(0, '\xff'), "length is 4278190149");
  ExpectCorrupt(with(4, 0), "magic");
  ExpectCorrupt(with(good.size() - 1, 0), "checksum");
  ExpectCorrupt(DecodeDeletionVector(good + '\0', "dv.puffin"), "its blob holds 70");
  // A right checksum over a wrong bitmap.
  ExpectCorrupt(
      DecodeDeletionVector(FromHex("0000000cd1d33964010000000000000073b24892"), "dv.puffin"),
      "not a 64-bit roaring bitmap: cut off before bitmap 0");
}

class ReadDeletionVectorTest : public testing::Test {
 protected:
  void SetUp() override {
    blobs_.resize(2);
    for (PuffinBlob& blob : blobs_) {
      blob.type = "deletion-vector-v1";
      blob.properties["referenced-data-file"] = "s3://b/t/data/\xc3\xa9.parquet";
    }
    PositionSet one;
    one.Add(9);
    file_ =
        WritePuffin(blobs_, {EncodeDeletionVector(ForeignPositions()), EncodeDeletionVector(one)},
                    {{"created-by", "lithify"}});
    ASSERT_TRUE(store_.PutNew("dv.puffin", file_).has_value());
  }
  Result<PositionSet> Read(int64_t offset, int64_t size, int64_t records) {
    return ReadDeletionVector(store_, "dv.puffin", offset, size, records);
  }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  std::vector<PuffinBlob> blobs_;
  std::string file_;
};

TEST_F(ReadDeletionVectorTest, ReadsOneOfASharedFile) {
  const auto first = Read(blobs_[0].offset, blobs_[0].length, 205);
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  EXPECT_EQ(first->MaxOr(-1), (int64_t{1} << 32) + 7);
  const auto second = Read(blobs_[1].offset, blobs_[1].length, 1);
  ASSERT_TRUE(second.has_value()) << second.error().ToString();
  EXPECT_TRUE(second->Contains(9));
}

TEST_F(ReadDeletionVectorTest, RefusesWhatTheMetadataDoesNotSay) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const int64_t offset = blobs_[0].offset;
  const int64_t length = blobs_[0].length;
  ExpectCorrupt(Read(offset, length, 204), "has 205 positions, record_count says 204");
  ExpectCorrupt(Read(offset, length, -1), "record_count says -1");
  ExpectCorrupt(Read(offset + 1, length, 205), "length is");
  ExpectCorrupt(Read(offset, length + 1, 205), "length is 69, its blob holds 70");
  ExpectCorrupt(Read(-1, length, 205), "outside of the file's");
  ExpectCorrupt(Read(offset, -1, 205), "outside of the file's");
  ExpectCorrupt(Read(offset, kMax, 205), "outside of the file's");
  ExpectCorrupt(Read(kMax, kMax, 205), "outside of the file's");
  const auto absent = ReadDeletionVector(store_, "other.puffin", offset, length, 205);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

TEST_F(ReadDeletionVectorTest, TheFooterTellsTheBlobs) {
  const auto blobs = ReadPuffinFooter(file_, "dv.puffin");
  ASSERT_TRUE(blobs.has_value()) << blobs.error().ToString();
  ASSERT_EQ(blobs->size(), 2U);
  EXPECT_EQ((*blobs)[0].type, "deletion-vector-v1");
  EXPECT_EQ((*blobs)[0].offset, 4);
  EXPECT_EQ((*blobs)[0].length, 77);
  EXPECT_EQ((*blobs)[0].snapshot_id, -1);
  EXPECT_EQ((*blobs)[0].sequence_number, -1);
  EXPECT_EQ((*blobs)[0].compression_codec, "");
  EXPECT_EQ((*blobs)[0].properties, blobs_[0].properties);
  EXPECT_EQ((*blobs)[1].offset, 81);
  EXPECT_EQ((*blobs)[1].fields, std::vector<int>{});
}

std::string FileOf(const std::string& payload, int flags = 0) {
  std::string file = "PFA1ABCDPFA1" + payload;
  for (int i = 0; i < 4; ++i) file.push_back(static_cast<char>(payload.size() >> (8 * i)));
  file += static_cast<char>(flags);
  return file + std::string(3, '\0') + "PFA1";
}

TEST(PuffinFooter, ReadsEveryField) {
  const auto blobs = ReadPuffinFooter(
      FileOf(R"({"blobs":[{"type":"apache-datasketches-theta-v1","fields":[1,2],)"
             R"("snapshot-id":9223372036854775807,"sequence-number":3,"offset":5,"length":3,)"
             R"("compression-codec":"zstd","properties":{"ndv":"3"},"later":[{}]}],)"
             R"("properties":{"created-by":"x"}})"),
      "f");
  ASSERT_TRUE(blobs.has_value()) << blobs.error().ToString();
  ASSERT_EQ(blobs->size(), 1U);
  const PuffinBlob& blob = blobs->front();
  EXPECT_EQ(blob.type, "apache-datasketches-theta-v1");
  EXPECT_EQ(blob.fields, (std::vector<int>{1, 2}));
  EXPECT_EQ(blob.snapshot_id, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(blob.sequence_number, 3);
  EXPECT_EQ(blob.offset, 5);
  EXPECT_EQ(blob.length, 3);
  EXPECT_EQ(blob.compression_codec, "zstd");
  EXPECT_EQ(blob.properties, (std::map<std::string, std::string>{{"ndv", "3"}}));
}

TEST(PuffinFooter, CompressedFootersAreNotSupported) {
  for (const auto& [flags, says] :
       {std::pair{1, "LZ4-compressed Puffin footer"}, std::pair{2, "unknown Puffin flags 2"}}) {
    const auto blobs = ReadPuffinFooter(FileOf(R"({"blobs":[]})", flags), "f");
    ASSERT_FALSE(blobs.has_value());
    EXPECT_EQ(blobs.error().code, Code::kUnsupported);
    EXPECT_NE(blobs.error().message.find(says), std::string::npos) << blobs.error().ToString();
  }
}

TEST(PuffinFooter, TellsWhichFieldIsWrong) {
  const auto blob = [](const std::string& changed) {
    return R"({"blobs":[{"type":"t","fields":[],"snapshot-id":1,"sequence-number":1,"offset":4,)"
           R"("length":4,)" +
           changed + "}]}";
  };
  ASSERT_TRUE(ReadPuffinFooter(FileOf(blob(R"("x":1)")), "f").has_value());
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{", "no JSON object"},
      {std::string(100'000, '['), "no JSON object"},
      {"{}", "blobs is missing"},
      {R"({"blobs":{}})", "blobs is no list"},
      {R"({"blobs":[1]})", "blobs[0]. is no object"},
      {R"({"blobs":[{}]})", "blobs[0].type is missing"},
      {R"({"blobs":[],"properties":{"a":1}})", "properties has a value that is no text"},
      {blob(R"("type":1)"), "blobs[0].type is no text"},
      {blob(R"("fields":[2147483648])"), "blobs[0].fields has a value"},
      {blob(R"("fields":7)"), "blobs[0].fields is no list"},
      {blob(R"("snapshot-id":1.5)"), "blobs[0].snapshot-id is no 64-bit integer"},
      {blob(R"("sequence-number":9223372036854775808)"), "blobs[0].sequence-number is no 64-bit"},
      {blob(R"("offset":3)"), "blobs[0].offset is outside"},
      {blob(R"("offset":9)"), "blobs[0].offset is outside"},
      {blob(R"("length":5)"), "blobs[0].length leads outside"},
      {blob(R"("length":-1)"), "blobs[0].length leads outside"},
      {blob(R"("length":9223372036854775807)"), "blobs[0].length leads outside"},
      {blob(R"("compression-codec":1)"), "blobs[0].compression-codec is no text"},
      {blob(R"("properties":[])"), "blobs[0].properties is no object"},
  };
  for (const auto& [payload, says] : wrong) {
    const auto blobs = ReadPuffinFooter(FileOf(payload), "f");
    ASSERT_FALSE(blobs.has_value()) << says;
    EXPECT_EQ(blobs.error().code, Code::kCorrupt);
    EXPECT_NE(blobs.error().message.find(says), std::string::npos) << blobs.error().ToString();
    EXPECT_EQ(blobs.error().context, "f");
  }
}

TEST(PuffinFooter, DamagedFilesNeverCrash) {
  std::vector<PuffinBlob> blobs(1);
  blobs[0].type = "deletion-vector-v1";
  blobs[0].properties["cardinality"] = "205";
  const std::string good = WritePuffin(blobs, {FromHex(kForeignVector)}, {});
  ASSERT_TRUE(ReadPuffinFooter(good, "f").has_value());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ReadPuffinFooter(good.substr(0, size), "f").has_value()) << size;
  }
  SeededRandom random(4);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    // The footer, which is at the end.
    const size_t at = 77 + random.Next() % (bytes.size() - 77);
    bytes[at] = static_cast<char>(random.Next());
    const auto read = ReadPuffinFooter(bytes, "f");
    if (!read) {
      EXPECT_TRUE(read.error().code == Code::kCorrupt || read.error().code == Code::kUnsupported);
      continue;
    }
    ++accepted;
    for (const PuffinBlob& blob : *read) {
      ASSERT_GE(blob.offset, 4);
      ASSERT_GE(blob.length, 0);
      ASSERT_LE(blob.offset + blob.length, static_cast<int64_t>(bytes.size()));
    }
  }
  EXPECT_GT(accepted, 100);  // A changed letter of a property.
  EXPECT_LT(accepted, 19'000);
}

}  // namespace
}  // namespace lithify::table
