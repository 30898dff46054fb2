// Dictionaries united by their bytes (P3: no value becomes another), within bounds.
#include "rewrite/dictionary_union.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace lithify::rewrite {
namespace {

using Texts = std::vector<std::string>;

constexpr DictionaryBounds kAmple{1 << 30, 1 << 30};

std::string Plain(const Texts& texts, bool lengths) {
  std::string out;
  for (const auto& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    for (int i = 0; lengths && i < 4; ++i) out += static_cast<char>(length >> (8 * i));
    out += text;
  }
  return out;
}

Result<std::optional<DictionaryMapping>> Add(DictionaryUnion& into, std::string_view plain,
                                             size_t count) {
  // Exactly as long as the page, so that sanitizers see reads beyond.
  const std::vector<uint8_t> exact(plain.begin(), plain.end());
  return into.Add(exact, static_cast<int64_t>(count));
}

DictionaryMapping MustAdd(DictionaryUnion& into, const Texts& texts, bool lengths) {
  auto added = Add(into, Plain(texts, lengths), texts.size());
  EXPECT_TRUE(added && *added);
  return added && *added ? **added : DictionaryMapping{};
}

std::string Bits(double value) {
  std::string out(sizeof(value), '\0');
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

TEST(DictionaryUnionTest, TheFirstDictionaryIsKeptAsItIs) {
  DictionaryUnion united(DictionaryUnion::kByteArray, kAmple);
  const auto first = MustAdd(united, {"b", "", "abc"}, true);
  EXPECT_EQ(first.to, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(first.identity);
  EXPECT_EQ(first.max, 2U);
  const auto second = MustAdd(united, {"abc", "d", "b"}, true);
  EXPECT_EQ(second.to, (std::vector<uint32_t>{2, 3, 0}));
  EXPECT_FALSE(second.identity);
  EXPECT_EQ(second.max, 3U);
  const auto prefix = MustAdd(united, {"b", ""}, true);
  EXPECT_TRUE(prefix.identity);
  EXPECT_EQ(united.size(), 4);
  EXPECT_EQ(united.plain(), Plain({"b", "", "abc", "d"}, true));
  const auto none = MustAdd(united, {}, true);
  EXPECT_TRUE(none.identity && none.to.empty() && none.max == 0);
}

TEST(DictionaryUnionTest, AValueThatIsThereTwiceIsOne) {
  DictionaryUnion united(4, kAmple);
  const auto mapping = MustAdd(united, {"aaaa", "bbbb", "aaaa"}, false);
  EXPECT_EQ(mapping.to, (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_FALSE(mapping.identity);
  EXPECT_EQ(united.plain(), "aaaabbbb");
}

TEST(DictionaryUnionTest, BytesDecideWhatIsEqual) {
  DictionaryUnion united(8, kAmple);
  const std::string nan = Bits(std::bit_cast<double>(uint64_t{0x7ff8000000000000}));
  const std::string other_nan = Bits(std::bit_cast<double>(uint64_t{0xfff8000000000001}));
  const auto mapping = MustAdd(united, {Bits(0.0), Bits(-0.0), nan, other_nan, nan}, false);
  EXPECT_EQ(mapping.to, (std::vector<uint32_t>{0, 1, 2, 3, 2}));
}

TEST(DictionaryUnionTest, TooMuchLeavesTheUnionAsItWas) {
  DictionaryUnion entries(1, {1000, 3});
  (void)MustAdd(entries, {"a", "b"}, false);
  const auto four = Add(entries, "bcde", 4);
  ASSERT_TRUE(four.has_value());
  EXPECT_FALSE(four->has_value());
  EXPECT_EQ(entries.plain(), "ab");
  EXPECT_EQ(entries.size(), 2);
  EXPECT_EQ(MustAdd(entries, {"e", "b", "a"}, false).to, (std::vector<uint32_t>{2, 1, 0}));
  EXPECT_EQ(entries.plain(), "abe");

  DictionaryUnion bytes(DictionaryUnion::kByteArray, {10, 1000});
  (void)MustAdd(bytes, {"ab"}, true);
  EXPECT_FALSE(Add(bytes, Plain({"abc"}, true), 1).value().has_value());
  EXPECT_EQ(MustAdd(bytes, {""}, true).to, (std::vector<uint32_t>{1}));
  EXPECT_EQ(bytes.plain().size(), 10U);
  DictionaryUnion nothing(4, {0, 0});
  EXPECT_FALSE(Add(nothing, "aaaa", 1).value().has_value());
  EXPECT_TRUE(Add(nothing, "", 0).value().has_value());
}

TEST(DictionaryUnionTest, ADamagedPageLeavesTheUnionAsItWas) {
  DictionaryUnion united(DictionaryUnion::kByteArray, kAmple);
  (void)MustAdd(united, {"one"}, true);
  const std::string plain = Plain({"two", "three"}, true);
  for (size_t size = 0; size < plain.size(); ++size) {
    const auto added = Add(united, plain.substr(0, size), 2);
    ASSERT_FALSE(added.has_value()) << size;
    EXPECT_EQ(added.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(Add(united, plain, 3).has_value());
  EXPECT_FALSE(Add(united, std::string("\xff\xff\xff\xff", 4), 1).has_value());
  EXPECT_FALSE(united.Add({}, -1).has_value());
  EXPECT_FALSE(united.Add({}, int64_t{1} << 62).has_value());
  // A long value where the next ones should be.
  EXPECT_FALSE(Add(united, Plain({std::string(100, 'x')}, true), 20).has_value());
  EXPECT_EQ(united.plain(), Plain({"one"}, true));
  EXPECT_EQ(united.size(), 1);
  EXPECT_EQ(MustAdd(united, {"three", "one"}, true).to, (std::vector<uint32_t>{1, 0}));
}

// Against a list that is searched from its beginning.
TEST(DictionaryUnionTest, AnyDictionariesAreUnitedAsTheModelUnites) {
  const bool ok = rc::check("union", [](uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const int width = static_cast<int>(below(3) == 0 ? 0 : below(17) + 1);
    const DictionaryBounds bounds{static_cast<int64_t>(1 + below(6000)),
                                  static_cast<int64_t>(1 + below(600))};
    DictionaryUnion united(width, bounds);
    Texts model;
    for (uint64_t round = 1 + below(5); round > 0; --round) {
      Texts texts(below(300));
      for (auto& text : texts) {
        text.resize(width == 0 ? below(9) : static_cast<size_t>(width));
        for (char& c : text) c = static_cast<char>(below(width == 1 ? 256 : 3));
      }
      Texts grown = model;
      std::vector<uint32_t> to;
      for (const auto& text : texts) {
        const auto found = std::ranges::find(grown, text);
        to.push_back(static_cast<uint32_t>(found - grown.begin()));
        if (found == grown.end()) grown.push_back(text);
      }
      const bool fits = static_cast<int64_t>(grown.size()) <= bounds.entries_max &&
                        static_cast<int64_t>(Plain(grown, width == 0).size()) <= bounds.bytes_max;
      const auto added = Add(united, Plain(texts, width == 0), texts.size());
      RC_ASSERT(added.has_value());
      RC_ASSERT(added->has_value() == fits);
      if (fits) {
        model = grown;
        RC_ASSERT((*added)->to == to);
        RC_ASSERT((*added)->max == (to.empty() ? 0 : *std::ranges::max_element(to)));
        bool identity = true;
        for (size_t i = 0; i < to.size(); ++i) identity = identity && to[i] == i;
        RC_ASSERT((*added)->identity == identity);
      }
      RC_ASSERT(united.plain() == Plain(model, width == 0));
      RC_ASSERT(united.size() == static_cast<int64_t>(model.size()));
    }
  });
  EXPECT_TRUE(ok);
}

TEST(DictionaryUnionTest, MemoryIsToldAbout) {
  DictionaryUnion united(8, kAmple);
  std::string plain(800'000, '\0');
  for (uint64_t i = 0; i < 100'000; ++i) std::memcpy(plain.data() + i * 8, &i, sizeof(i));
  ASSERT_TRUE(Add(united, plain, 100'000).value().has_value());
  EXPECT_EQ(united.size(), 100'000);
  EXPECT_GE(united.memory_bytes(), 100'000 * (8 + 8 + 16));
  EXPECT_LE(united.memory_bytes(), 100'000 * (16 + 16 + 64));
}

}  // namespace
}  // namespace lithify::rewrite
