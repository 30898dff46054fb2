#include "rewrite/page_builder.h"

#include <gtest/gtest.h>

#include <list>
#include <numeric>

#include "rewrite/dictionary_union.h"

namespace lithify::rewrite {
namespace {

using Numbers = std::vector<uint32_t>;

std::string Longs(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

std::string Texts(const std::vector<std::string>& values) {
  std::string plain;
  for (const auto& value : values) AppendWithLength(value, &plain);
  return plain;
}

// One page given away.
struct Given {
  PageHeader header;
  std::string body;
  int64_t rows = 0;
  bool begins_row = true;
};

class PageBuilderTest : public testing::Test {
 protected:
  PageBuilderTest() {
    options_.value_bytes = 8;
    options_.page_bytes = 1 << 20;
    options_.page_bytes_max = 1 << 24;
  }
  PageBuilder& Builder() {
    if (!builder_) {
      builder_.emplace(options_,
                       [this](const PageHeader& header, std::span<const uint8_t> body,
                              const RawColumn::Facts& facts) -> Status {
                         given_.push_back({header, std::string(body.begin(), body.end()),
                                           facts.rows, facts.begins_row});
                         return {};
                       });
    }
    return *builder_;
  }

  // A piece with these levels and values; no levels, where a maximum is 0.
  PagePiece Piece(const Numbers& definition, const Numbers& repetition, std::string values,
                  int64_t entries = -1) {
    PageHeader header;
    std::string& body = bodies_.emplace_back();
    const auto add = [&](const Numbers& levels, int max) {
      if (max == 0) return;
      std::string hybrid;
      AppendHybrid(levels, BitWidth(static_cast<uint32_t>(max)), &hybrid);
      AppendWithLength(hybrid, &body);
    };
    add(repetition, options_.shape.repetition_max);
    add(definition, options_.shape.definition_max);
    body += values;
    header.num_values = static_cast<int32_t>(entries >= 0 ? entries : std::ssize(definition));
    PagePiece piece;
    piece.entries = header.num_values;
    const auto parts = TakeApart(header, BytesOf(body), options_.shape);
    EXPECT_TRUE(parts) << parts.error().ToString();
    piece.parts = *parts;
    return piece;
  }
  PagePiece Flat(const std::vector<int64_t>& values) {
    return Piece({}, {}, Longs(values), std::ssize(values));
  }

  // Levels and what follows them, of a page that was given away.
  PageParts Parts(size_t page) const {
    const auto parts = TakeApart(given_[page].header, BytesOf(given_[page].body), options_.shape);
    EXPECT_TRUE(parts) << parts.error().ToString();
    return *parts;
  }
  std::string Values(size_t page) const {
    const auto values = Parts(page).values;
    return {values.begin(), values.end()};
  }
  Numbers Decoded(size_t page, std::span<const uint8_t> hybrid, int max) const {
    Numbers levels(static_cast<size_t>(given_[page].header.num_values));
    EXPECT_TRUE(DecodeHybrid(hybrid, BitWidth(static_cast<uint32_t>(max)), std::ssize(levels),
                             static_cast<uint64_t>(max) + 1, levels.data()));
    return levels;
  }
  Numbers IndicesOf(size_t page) const {
    const PageParts parts = Parts(page);
    Numbers indices(static_cast<size_t>(parts.present));
    EXPECT_TRUE(DecodeIndices(parts.values, parts.present, 1 << 20, indices.data()));
    return indices;
  }

  PageBuilderOptions options_;
  std::list<std::string> bodies_;
  std::optional<PageBuilder> builder_;
  std::vector<Given> given_;
};

TEST_F(PageBuilderTest, PlainPagesBecomeOne) {
  ASSERT_TRUE(Builder().AddPlain(Flat({1, 2}), PageEncoding::kPlain));
  // What is behind the last value is no value.
  ASSERT_TRUE(Builder().AddPlain(Piece({}, {}, Longs({3}) + "junk", 1), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Flat({4}), PageEncoding::kPlain));
  EXPECT_TRUE(given_.empty());
  ASSERT_TRUE(Builder().Flush());
  ASSERT_EQ(given_.size(), 1U);
  EXPECT_EQ(given_[0].header.num_values, 4);
  EXPECT_EQ(given_[0].header.encoding, PageEncoding::kPlain);
  EXPECT_EQ(given_[0].body, Longs({1, 2, 3, 4}));
  EXPECT_EQ(given_[0].header.uncompressed_page_size, 32);
  EXPECT_EQ(given_[0].rows, 4);
  EXPECT_TRUE(Builder().empty());
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(given_.size(), 1U);
}

TEST_F(PageBuilderTest, AllPresentIsOneRun) {
  options_.shape.definition_max = 1;
  ASSERT_TRUE(Builder().AddPlain(Piece({1, 1, 1}, {}, Longs({1, 2, 3})), PageEncoding::kPlain));
  // Of a required column.
  PagePiece required;
  required.entries = required.parts.present = required.parts.rows = 2;
  const std::string values = Longs({4, 5});
  required.parts.values = BytesOf(values);
  ASSERT_TRUE(Builder().AddPlain(required, PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  std::string expected;
  AppendLevelRunV1(1, 5, 1, &expected);
  EXPECT_EQ(given_[0].body, expected + Longs({1, 2, 3, 4, 5}));
}

TEST_F(PageBuilderTest, LevelsAndNullsFollowEachOther) {
  options_.shape.definition_max = 1;
  ASSERT_TRUE(Builder().AddPlain(Piece({1, 0, 1}, {}, Longs({1, 3})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Piece({0, 0}, {}, ""), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Piece({1}, {}, Longs({6})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(Decoded(0, Parts(0).definition, 1), (Numbers{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(Values(0), Longs({1, 3, 6}));
}

TEST_F(PageBuilderTest, PagesEndAtRowsAndBytes) {
  options_.page_rows = 4;
  std::vector<int64_t> values(10);
  std::iota(values.begin(), values.end(), 0);
  ASSERT_TRUE(Builder().AddPlain(Flat({7, 8, 9}), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Flat(values), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  ASSERT_EQ(given_.size(), 4U);
  EXPECT_EQ(given_[0].body, Longs({7, 8, 9, 0}));
  EXPECT_EQ(given_[3].body, Longs({9}));
  builder_.reset();
  given_.clear();
  options_.page_rows = 20'000;
  options_.page_bytes = 40;
  ASSERT_TRUE(Builder().AddPlain(Flat(values), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  for (const Given& page : given_) EXPECT_LE(page.body.size(), 50U);
  std::string all;
  for (const Given& page : given_) all += page.body;
  EXPECT_EQ(all, Longs(values));
}

TEST_F(PageBuilderTest, RowsOfNestedColumnsStayWhole) {
  options_.shape = {1, 1};
  options_.page_rows = 2;
  // Rows of 2, 1 and 3 entries.
  ASSERT_TRUE(Builder().AddPlain(
      Piece({1, 1, 0, 1, 1, 1}, {0, 1, 0, 0, 1, 1}, Longs({1, 2, 4, 5, 6})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  ASSERT_EQ(given_.size(), 2U);
  EXPECT_EQ(Decoded(0, Parts(0).repetition, 1), (Numbers{0, 1, 0}));
  EXPECT_EQ(Decoded(0, Parts(0).definition, 1), (Numbers{1, 1, 0}));
  EXPECT_EQ(Values(0), Longs({1, 2}));
  EXPECT_EQ(given_[0].rows, 2);
  EXPECT_EQ(Decoded(1, Parts(1).repetition, 1), (Numbers{0, 1, 1}));
  EXPECT_EQ(Values(1), Longs({4, 5, 6}));
}

TEST_F(PageBuilderTest, APageThatBeginsWithinARowGoesOnWithIt) {
  options_.shape = {1, 1};
  options_.page_rows = 1;
  ASSERT_TRUE(Builder().AddPlain(Piece({1, 1}, {0, 1}, Longs({1, 2})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Piece({1, 1}, {1, 0}, Longs({3, 4})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  ASSERT_EQ(given_.size(), 2U);
  EXPECT_EQ(Values(0), Longs({1, 2, 3}));
  EXPECT_EQ(given_[0].rows, 1);
  EXPECT_EQ(Values(1), Longs({4}));
  // Where nothing is open, it cannot.
  ASSERT_TRUE(Builder().AddPlain(Piece({1}, {1}, Longs({5})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_FALSE(given_[2].begins_row);
  EXPECT_EQ(given_[2].rows, 0);
}

TEST_F(PageBuilderTest, ByteArraysAreTakenByTheirLengths) {
  options_.value_bytes = DictionaryUnion::kByteArray;
  ASSERT_TRUE(
      Builder().AddPlain(Piece({}, {}, Texts({"a", "", "bcd"}) + "junk", 3), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Piece({}, {}, Texts({"e"}), 1), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(given_[0].body, Texts({"a", "", "bcd", "e"}));
}

TEST_F(PageBuilderTest, ValuesThatAreCutOffAreRefused) {
  EXPECT_EQ(Builder().AddPlain(Piece({}, {}, Longs({1}), 2), PageEncoding::kPlain).error().code,
            Code::kCorrupt);
  builder_.reset();
  options_.value_bytes = DictionaryUnion::kByteArray;
  std::string text = Texts({"abc", "def"});
  text.pop_back();
  EXPECT_EQ(Builder().AddPlain(Piece({}, {}, text, 2), PageEncoding::kPlain).error().code,
            Code::kCorrupt);
  EXPECT_EQ(Builder()
                .AddPlain(Piece({}, {},
                                std::string("\xff\xff\xff\xff"
                                            "abc",
                                            7),
                                1),
                          PageEncoding::kPlain)
                .error()
                .code,
            Code::kCorrupt);
  builder_.reset();
  options_.value_bytes = PageBuilderOptions::kBoolean;
  EXPECT_EQ(Builder().AddPlain(Piece({}, {}, "\x01", 9), PageEncoding::kPlain).error().code,
            Code::kCorrupt);
  builder_.reset();
  options_.value_bytes = 8;
  EXPECT_EQ(
      Builder().AddIndices(Piece({}, {}, std::string("\x02\x04\x03", 3), 2), 3, {}).error().code,
      Code::kCorrupt);
}

TEST_F(PageBuilderTest, BooleansOfBothEncodings) {
  options_.value_bytes = PageBuilderOptions::kBoolean;
  ASSERT_TRUE(Builder().AddPlain(Piece({}, {}, "\x05", 3), PageEncoding::kPlain));
  std::string runs;
  AppendWithLength(std::string("\x08\x01", 2), &runs);  // Four times true.
  ASSERT_TRUE(Builder().AddPlain(Piece({}, {}, runs, 4), PageEncoding::kRle));
  ASSERT_TRUE(
      Builder().AddPlain(Piece({}, {}, std::string("\x00\x02", 2), 10), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(given_[0].header.num_values, 17);
  // 101 1111 0000000001, the first in the lowest bit.
  EXPECT_EQ(given_[0].body, std::string("\x7d\x00\x01", 3));
}

TEST_F(PageBuilderTest, IndicesAreMappedAndKeepTheirRuns) {
  std::string indices;
  AppendIndices(Numbers(20, 1), 2, &indices);
  const Numbers mapping = {5, 300, 7};
  ASSERT_TRUE(Builder().AddIndices(Piece({}, {}, indices, 20), 3, mapping));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(given_[0].header.encoding, PageEncoding::kRleDictionary);
  EXPECT_EQ(given_[0].body, std::string("\x09\x28\x2c\x01", 4));
  indices.clear();
  AppendIndices(Numbers{0, 1, 2, 0}, 2, &indices);
  ASSERT_TRUE(Builder().AddIndices(Piece({}, {}, indices, 4), 3, mapping));
  ASSERT_TRUE(Builder().AddIndices(Piece({}, {}, indices, 4), 3, {}));
  ASSERT_TRUE(Builder().Flush());
  EXPECT_EQ(IndicesOf(1), (Numbers{5, 300, 7, 5, 0, 1, 2, 0}));
}

TEST_F(PageBuilderTest, OtherKindsEndThePageButNotNulls) {
  options_.shape.definition_max = 1;
  std::string indices;
  AppendIndices(Numbers{0, 2}, 2, &indices);
  ASSERT_TRUE(Builder().AddPlain(Piece({0}, {}, ""), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddIndices(Piece({1, 1}, {}, indices), 3, {}));
  ASSERT_TRUE(Builder().AddPlain(Piece({0}, {}, ""), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().AddPlain(Piece({1}, {}, Longs({9})), PageEncoding::kPlain));
  ASSERT_TRUE(Builder().Flush());
  ASSERT_EQ(given_.size(), 2U);
  EXPECT_EQ(given_[0].header.num_values, 4);
  EXPECT_EQ(IndicesOf(0), (Numbers{0, 2}));
  EXPECT_EQ(Values(1), Longs({9}));
}

TEST_F(PageBuilderTest, IndicesAreGathered) {
  for (const int width : {3, 4, 8, 12, 16, 20}) {
    SCOPED_TRACE(width);
    options_.value_bytes = width;
    builder_.reset();
    given_.clear();
    std::string plain;
    for (int i = 0; i < 5 * width; ++i) plain.push_back(static_cast<char>(i));
    const auto dictionary = PlainDictionary::Make(plain + "junk", 5, width);
    ASSERT_TRUE(dictionary);
    std::string indices;
    AppendIndices(Numbers{4, 0, 4, 2}, 3, &indices);
    ASSERT_TRUE(Builder().AddGathered(Piece({}, {}, indices, 4), *dictionary));
    ASSERT_TRUE(Builder().Flush());
    const auto bytes = static_cast<size_t>(width);
    const auto value = [&](size_t i) { return plain.substr(i * bytes, bytes); };
    EXPECT_EQ(given_[0].body, value(4) + value(0) + value(4) + value(2));
    EXPECT_EQ(given_[0].header.encoding, PageEncoding::kPlain);
  }
}

TEST_F(PageBuilderTest, ByteArraysAreGathered) {
  options_.value_bytes = DictionaryUnion::kByteArray;
  const std::vector<std::string> values = {"", "short", std::string(20, 'm'),
                                           std::string(100, 'l')};
  const auto dictionary = PlainDictionary::Make(Texts(values), 4, options_.value_bytes);
  ASSERT_TRUE(dictionary);
  Numbers numbers;
  std::vector<std::string> expected;
  for (uint32_t i = 0; i < 500; ++i) {
    numbers.push_back(i * 7 % 4);
    expected.push_back(values[i * 7 % 4]);
  }
  EXPECT_EQ(dictionary->BytesOf(numbers), std::ssize(Texts(expected)));
  std::string indices;
  AppendIndices(numbers, 2, &indices);
  options_.page_bytes = 1000;
  ASSERT_TRUE(Builder().AddGathered(Piece({}, {}, indices, 500), *dictionary));
  ASSERT_TRUE(Builder().Flush());
  std::string all;
  for (const Given& page : given_) {
    EXPECT_LE(page.body.size(), 1250U);
    all += page.body;
  }
  EXPECT_EQ(all, Texts(expected));
  EXPECT_GT(given_.size(), 10U);
}

TEST_F(PageBuilderTest, DictionariesThatAreCutOffAreRefused) {
  EXPECT_FALSE(PlainDictionary::Make(Longs({1}), 2, 8));
  EXPECT_FALSE(PlainDictionary::Make(Texts({"ab"}), 2, DictionaryUnion::kByteArray));
  std::string text = Texts({"abc"});
  text.pop_back();
  EXPECT_FALSE(PlainDictionary::Make(text, 1, DictionaryUnion::kByteArray));
  const auto none = PlainDictionary::Make("", 0, DictionaryUnion::kByteArray);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->size(), 0);
}

TEST_F(PageBuilderTest, ARowBeyondTheHardBoundIsRefused) {
  options_.value_bytes = DictionaryUnion::kByteArray;
  options_.page_bytes_max = 1000;
  const auto added = Builder().AddPlain(Piece({}, {}, Texts({"a", std::string(2000, 'x')}), 2),
                                        PageEncoding::kPlain);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kLimit);
}

}  // namespace
}  // namespace lithify::rewrite
