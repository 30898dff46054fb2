// Levels and indices against a naive model, bit by bit; and what cut off or hostile bytes give
// (P20, R309).
#include "rewrite/index_pages.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace lithify::rewrite {
namespace {

using Values = std::vector<uint32_t>;

// --- The model: one bit or one value at a time.

void ModelVarint(uint64_t value, std::string& out) {
  while (value > 127) {
    out += static_cast<char>(value % 128 + 128);
    value /= 128;
  }
  out += static_cast<char>(value);
}

std::string ModelRun(uint32_t value, uint64_t count, int width) {
  std::string out;
  ModelVarint(count * 2, out);
  for (int i = 0; i < (width + 7) / 8; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}

std::string ModelPacked(Values values, int width) {
  values.resize((values.size() + 7) / 8 * 8);
  std::string out;
  ModelVarint(values.size() / 8 * 2 + 1, out);
  const size_t begin = out.size();
  out.resize(begin + values.size() / 8 * static_cast<size_t>(width));
  size_t bit = 0;
  for (const uint32_t value : values) {
    for (int i = 0; i < width; ++i, ++bit) {
      if ((value >> i & 1) != 0) {
        out[begin + bit / 8] = static_cast<char>(out[begin + bit / 8] | 1 << bit % 8);
      }
    }
  }
  return out;
}

Values ModelDecode(std::string_view hybrid, int width, size_t count) {
  Values out;
  size_t at = 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(hybrid.at(i)); };
  while (out.size() < count) {
    uint64_t head = 0;
    for (int shift = 0;; shift += 7) {
      head |= uint64_t{byte(at) & 127U} << shift;
      if (byte(at++) < 128) break;
    }
    if (head % 2 == 0) {
      uint32_t value = 0;
      for (int i = 0; i < (width + 7) / 8; ++i) value |= uint32_t{byte(at++)} << (8 * i);
      out.insert(out.end(), head / 2, value);
      continue;
    }
    for (size_t i = 0; i < head / 2 * 8; ++i) {
      uint32_t value = 0;
      for (int b = 0; b < width; ++b) {
        const size_t bit = i * static_cast<size_t>(width) + static_cast<size_t>(b);
        value |= uint32_t{byte(at + bit / 8) >> bit % 8 & 1U} << b;
      }
      out.push_back(value);
    }
    at += head / 2 * static_cast<size_t>(width);
  }
  out.resize(count);
  return out;
}

// --- Arbitrary values: stretches of noise and of equal values.

class Any {
 public:
  explicit Any(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t n) { return random_() % n; }
  Values Stretches(int width) {
    const uint64_t bound = uint64_t{1} << width;
    Values out;
    for (uint64_t i = Below(8); i > 0; --i) {
      const uint64_t length = Below(4) == 0 ? Below(3000) : Below(40);
      const auto value = static_cast<uint32_t>(Below(bound));
      const bool equal = Below(2) == 0;
      for (uint64_t k = 0; k < length; ++k) {
        out.push_back(equal ? value : static_cast<uint32_t>(Below(bound)));
      }
    }
    return out;
  }
  // A hybrid as some other writer may cut it into runs; fills up `values` where that must be.
  std::string Hybrid(Values& values, int width) {
    std::string out;
    size_t at = 0;
    while (at < values.size()) {
      const size_t left = values.size() - at;
      if (Below(2) == 0) {
        const size_t count = 1 + Below(left);
        std::fill_n(values.begin() + static_cast<ptrdiff_t>(at), count, values[at]);
        out += ModelRun(values[at], count, width);
        at += count;
      } else {
        size_t count = std::min<size_t>(left, 8 * (1 + Below(200)));
        const auto from = values.begin() + static_cast<ptrdiff_t>(at);
        out += ModelPacked(Values(from, from + static_cast<ptrdiff_t>(count)), width);
        at += count;
      }
    }
    return out;
  }

 private:
  std::mt19937_64 random_;  // NOLINT: seeded, of a test
};

Result<Values> Decode(std::string_view hybrid, int width, size_t count,
                      uint64_t bound = uint64_t{1} << 32) {
  // Exactly as long as the values: what is written or read beyond shows with sanitizers.
  Values out(count, 0xdeadbeef);
  const std::vector<uint8_t> exact(hybrid.begin(), hybrid.end());
  LITHIFY_TRY(DecodeHybrid(exact, width, static_cast<int64_t>(count), bound, out.data()));
  return out;
}

Code CodeOf(const Result<Values>& result) { return result ? Code::kInternal : result.error().code; }

TEST(IndexPagesTest, IndicesAreCheckedWithoutBeingKept) {
  std::string body;
  AppendIndices(Values{0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1}, 2, &body);
  EXPECT_TRUE(CheckIndices(BytesOf(body), 17, 3));
  EXPECT_FALSE(CheckIndices(BytesOf(body), 17, 2));
  EXPECT_TRUE(CheckIndices(BytesOf(body), 2, 2 + 1));
  EXPECT_FALSE(CheckIndices(BytesOf(body), 100, 3));
  EXPECT_FALSE(CheckIndices({}, 1, 3));
  EXPECT_TRUE(CheckIndices({}, 0, 0));
  EXPECT_FALSE(CheckIndices(BytesOf("\x21\x02\x01"), 1, 3));
  // As many as a header may claim are one run.
  std::string run = "\x01";
  AppendLevelRun(1, int64_t{1} << 31, 1, &run);
  EXPECT_TRUE(CheckIndices(BytesOf(run), int64_t{1} << 31, 2));
  EXPECT_FALSE(CheckIndices(BytesOf(run), int64_t{1} << 31, 1));
}

TEST(IndexPagesTest, NumbersAreCountedAndReplaced) {
  Values numbers = {3, 3, 1, 3};
  EXPECT_EQ(MaxOf(numbers), 3U);
  EXPECT_EQ(MaxOf({}), 0U);
  EXPECT_FALSE(AllAre(numbers, 3));
  EXPECT_TRUE(AllAre(Values(100, 7), 7));
  EXPECT_TRUE(AllAre({}, 7));
  EXPECT_EQ(CountOf(numbers, 3), 3);
  EXPECT_EQ(CountOf({}, 3), 0);
  Replace(numbers, Values{9, 8, 7, 6});
  EXPECT_EQ(numbers, (Values{6, 6, 8, 6}));
}

TEST(IndexPagesTest, BooleansOfBothEncodings) {
  Values out(10);
  ASSERT_TRUE(DecodeBooleans(PageEncoding::kPlain, BytesOf("\x05\x02"), 10, out.data()));
  EXPECT_EQ(out, (Values{1, 0, 1, 0, 0, 0, 0, 0, 0, 1}));
  std::string plain;
  AppendBooleans(out, &plain);
  EXPECT_EQ(plain, "\x05\x02");
  EXPECT_FALSE(DecodeBooleans(PageEncoding::kPlain, BytesOf("\x05"), 9, out.data()));
  std::string runs;
  AppendWithLength("\x14\x01", &runs);
  ASSERT_TRUE(DecodeBooleans(PageEncoding::kRle, BytesOf(runs), 10, out.data()));
  EXPECT_EQ(out, Values(10, 1));
  EXPECT_FALSE(DecodeBooleans(PageEncoding::kRle, BytesOf(runs), 11, out.data()));
  EXPECT_FALSE(DecodeBooleans(PageEncoding::kRle, BytesOf("\x09"), 1, out.data()));
  EXPECT_TRUE(DecodeBooleans(PageEncoding::kRle, {}, 0, out.data()));
}

TEST(IndexPagesTest, BitWidthHoldsTheNumber) {
  EXPECT_EQ(BitWidth(0), 0);
  EXPECT_EQ(BitWidth(1), 1);
  EXPECT_EQ(BitWidth(2), 2);
  EXPECT_EQ(BitWidth(255), 8);
  EXPECT_EQ(BitWidth(256), 9);
  EXPECT_EQ(BitWidth(0xffffffffU), 32);
}

TEST(IndexPagesTest, TheExampleOfTheFormat) {
  // Encodings.md: 0 to 7 in 3 bits are 10001000 11000110 11111010.
  std::string out;
  AppendHybrid(Values{0, 1, 2, 3, 4, 5, 6, 7}, 3, &out);
  EXPECT_EQ(out, "\x03\x88\xc6\xfa");
}

TEST(IndexPagesTest, RunsAndGroupsAreWrittenAsTheyFall) {
  std::string out;
  AppendHybrid(Values(7, 1), 1, &out);
  EXPECT_EQ(out, "\x03\x7f");
  out.clear();
  AppendHybrid(Values(8, 1), 1, &out);
  EXPECT_EQ(out, "\x10\x01");
  out.clear();
  // The run fills up the group before it, and 9 of its 14 values are left for a run.
  Values values = {0, 1, 2};
  values.insert(values.end(), 14, 3);
  AppendHybrid(values, 2, &out);
  EXPECT_EQ(out, std::string("\x03\xe4\xff\x12\x03", 5));
  out.clear();
  AppendHybrid(Values{}, 5, &out);
  EXPECT_EQ(out, "");
  AppendHybrid(Values(1000, 0), 0, &out);
  EXPECT_EQ(out, "\xd0\x0f");
  out.clear();
  AppendHybrid(Values(8, 0x010203), 17, &out);
  EXPECT_EQ(out, "\x10\x03\x02\x01");
}

TEST(IndexPagesTest, EveryWidthIsPackedAsTheModelPacks) {
  for (int width = 0; width <= 32; ++width) {
    Any any(static_cast<uint64_t>(width));
    for (const size_t count : {1U, 7U, 8U, 31U, 32U, 33U, 64U, 500U, 8192U}) {
      Values values;
      for (size_t i = 0; i < count; ++i) {
        // No 8 equal ones in a row.
        values.push_back(static_cast<uint32_t>(width == 0   ? 0
                                               : i % 8 == 0 ? 0
                                               : i % 8 == 1 ? (uint64_t{1} << width) - 1
                                                            : any.Below(uint64_t{1} << width)));
      }
      std::string out = "before";
      AppendHybrid(values, width, &out);
      ASSERT_EQ(out.substr(0, 6), "before");
      out = out.substr(6);
      if (width > 0) {
        EXPECT_EQ(out, ModelPacked(values, width)) << width << " " << count;
      }
      EXPECT_EQ(Decode(out, width, count).value(), values) << width << " " << count;
      EXPECT_EQ(Decode(ModelPacked(values, width), width, count).value(), values);
    }
  }
}

TEST(IndexPagesTest, WhatIsWrittenIsWhatTheModelReads) {
  const bool ok = rc::check("encode", [](uint64_t seed) {
    Any any(seed);
    const int width = static_cast<int>(any.Below(33));
    const Values values = any.Stretches(width);
    std::string out;
    AppendHybrid(values, width, &out);
    RC_ASSERT(ModelDecode(out, width, values.size()) == values);
    RC_ASSERT(Decode(out, width, values.size()).value() == values);
  });
  EXPECT_TRUE(ok);
}

TEST(IndexPagesTest, AnyCutIntoRunsIsReadAndMapped) {
  const bool ok = rc::check("decode and map", [](uint64_t seed) {
    Any any(seed);
    const int width = static_cast<int>(any.Below(13));
    Values values = any.Stretches(width);
    const std::string hybrid = any.Hybrid(values, width);
    RC_ASSERT(Decode(hybrid, width, values.size()).value() == values);
    const size_t fewer = any.Below(values.size() + 1);
    const Values first(values.begin(), values.begin() + static_cast<ptrdiff_t>(fewer));
    RC_ASSERT(Decode(hybrid, width, fewer).value() == first);

    const int new_width = static_cast<int>(any.Below(33));
    Values mapping(uint64_t{1} << width);
    for (auto& to : mapping) to = static_cast<uint32_t>(any.Below(uint64_t{1} << new_width));
    Values expected = first;
    for (auto& value : expected) value = mapping[value];
    std::string mapped;
    RC_ASSERT(AppendMappedHybrid(BytesOf(hybrid), width, static_cast<int64_t>(fewer), mapping,
                                 new_width, &mapped)
                  .has_value());
    RC_ASSERT(ModelDecode(mapped, new_width, fewer) == expected);

    // A mapping, or a bound, that ends before the largest value.
    if (fewer == 0) return;
    const uint32_t largest = *std::ranges::max_element(first);
    mapping.resize(largest);
    const auto refused = AppendMappedHybrid(BytesOf(hybrid), width, static_cast<int64_t>(fewer),
                                            mapping, new_width, &mapped);
    RC_ASSERT((!refused && refused.error().code == Code::kCorrupt));
    RC_ASSERT(CodeOf(Decode(hybrid, width, fewer, largest)) == Code::kCorrupt);
    RC_ASSERT(Decode(hybrid, width, fewer, uint64_t{largest} + 1).value() == first);
  });
  EXPECT_TRUE(ok);
}

TEST(IndexPagesTest, LevelsAreCountedAsTheModelCounts) {
  const bool ok = rc::check("count", [](uint64_t seed) {
    Any any(seed);
    const int max = 1 + static_cast<int>(any.Below(any.Below(2) == 0 ? 2 : 40));
    Values values = any.Stretches(10);
    for (auto& value : values) value %= static_cast<uint32_t>(max) + 1;
    const std::string hybrid = any.Hybrid(values, BitWidth(static_cast<uint32_t>(max)));
    const size_t count = any.Below(values.size() + 1);
    for (const int wanted : {0, max, max / 2}) {
      const auto found = CountLevel(BytesOf(hybrid), max, static_cast<int64_t>(count), wanted);
      RC_ASSERT(*found == std::count(values.begin(), values.begin() + static_cast<ptrdiff_t>(count),
                                     static_cast<uint32_t>(wanted)));
    }
  });
  EXPECT_TRUE(ok);
}

TEST(IndexPagesTest, LevelsAboveTheMaximumAreCorrupt) {
  const auto count = [](const std::string& hybrid, int max) {
    const auto found = CountLevel(BytesOf(hybrid), max, 8, 0);
    return found ? Code::kInternal : found.error().code;
  };
  EXPECT_EQ(count(ModelRun(3, 8, 2), 2), Code::kCorrupt);
  EXPECT_EQ(count(ModelPacked({0, 1, 2, 3, 0, 0, 0, 0}, 2), 2), Code::kCorrupt);
  EXPECT_EQ(count(ModelRun(2, 8, 1), 1), Code::kCorrupt);
  EXPECT_EQ(count(ModelRun(3, 8, 2), 3), Code::kInternal);
}

TEST(IndexPagesTest, CutOffBytesAreCorruptAndPaddingIsNot) {
  const Values values = {1, 2, 3, 4, 5, 6, 7, 0, 1, 2};
  const std::string packed = ModelPacked(values, 3);
  ASSERT_EQ(packed.size(), 7U);
  // 10 values of 3 bits are in 4 bytes behind the head; the other 2 are padding.
  EXPECT_EQ(Decode(packed.substr(0, 5), 3, 10).value(), values);
  EXPECT_EQ(CodeOf(Decode(packed.substr(0, 4), 3, 10)), Code::kCorrupt);
  EXPECT_EQ(CodeOf(Decode(packed, 3, 17)), Code::kCorrupt);
  EXPECT_EQ(Decode(packed + "more", 3, 10).value(), values);

  const std::string run = ModelRun(70'000, 5, 17);
  for (size_t size = 0; size < run.size(); ++size) {
    EXPECT_EQ(CodeOf(Decode(run.substr(0, size), 17, 5)), Code::kCorrupt) << size;
  }
  EXPECT_EQ(Decode(run, 17, 5).value(), Values(5, 70'000));
  EXPECT_EQ(CodeOf(Decode(run, 17, 6)), Code::kCorrupt);
}

TEST(IndexPagesTest, HostileRunsAreRefused) {
  EXPECT_EQ(CodeOf(Decode("", 1, 1)), Code::kCorrupt);
  EXPECT_EQ(CodeOf(Decode(std::string(100, '\0'), 1, 1)), Code::kCorrupt);      // Runs of 0.
  EXPECT_EQ(CodeOf(Decode("\x01\x01\x01", 1, 1)), Code::kCorrupt);              // No groups.
  EXPECT_EQ(CodeOf(Decode("\xff\xff\xff\xff\xff\x01", 1, 1)), Code::kCorrupt);  // 36 bits.
  EXPECT_EQ(CodeOf(Decode("\xff\xff\xff\xff\x1f", 1, 1)), Code::kCorrupt);      // 33 bits.
  EXPECT_EQ(CodeOf(Decode("\xff\xff\xff\xff\x0f", 32, 1000)), Code::kCorrupt);  // Cut off.
  EXPECT_EQ(CodeOf(Decode("\x02\x01", 33, 1)), Code::kCorrupt);
  EXPECT_EQ(CodeOf(Decode("\x02\x01", -1, 1)), Code::kCorrupt);
  // A run of 2^31 - 1 values gives no more than are wanted.
  EXPECT_EQ(Decode("\xfe\xff\xff\xff\x0f\x01", 1, 3).value(), Values(3, 1));
  // Width 0 with and without runs.
  EXPECT_EQ(Decode("", 0, 5).value(), Values(5, 0));
  EXPECT_EQ(Decode("\xff\xff\xff\xff\x0f", 0, 5).value(), Values(5, 0));
  EXPECT_EQ(CodeOf(Decode("", 0, 5, 0)), Code::kCorrupt);  // Nothing is less than 0.
}

TEST(IndexPagesTest, AnyBytesAreReadOrRefused) {
  const bool ok = rc::check("no harm", [](std::vector<uint8_t> bytes, uint64_t seed) {
    Any any(seed);
    const int width = static_cast<int>(any.Below(33));
    const size_t count = any.Below(5000);
    Values out(count);
    const Values mapping(100, 7);
    std::string mapped;
    const auto decoded = DecodeHybrid(bytes, width, static_cast<int64_t>(count), 100, out.data());
    const auto done =
        AppendMappedHybrid(bytes, width, static_cast<int64_t>(count), mapping, 3, &mapped);
    RC_ASSERT(decoded.has_value() == done.has_value());
    // RC_ASSERT evaluates both sides unless there are two parentheses.
    RC_ASSERT((decoded || decoded.error().code == Code::kCorrupt));
    RC_ASSERT((!done || ModelDecode(mapped, 3, count) == Values(count, 7)));
    PageHeader header;
    header.num_values = static_cast<int32_t>(count);
    const auto parts = TakeApart(header, bytes, {1, 1});
    RC_ASSERT((parts || parts.error().code == Code::kCorrupt));
    RC_ASSERT((!parts || (parts->present >= 0 && parts->present <= header.num_values)));
  });
  EXPECT_TRUE(ok);
}

TEST(IndexPagesTest, IndicesHaveTheirWidthInFront) {
  std::string body;
  AppendIndices(Values{2, 0, 1}, 2, &body);
  EXPECT_EQ(body, std::string("\x02\x03\x12\x00", 4));
  Values out(3);
  ASSERT_TRUE(DecodeIndices(BytesOf(body), 3, 3, out.data()));
  EXPECT_EQ(out, (Values{2, 0, 1}));
  EXPECT_FALSE(DecodeIndices(BytesOf(body), 3, 2, out.data()));
  EXPECT_FALSE(DecodeIndices({}, 1, 2, out.data()));
  EXPECT_TRUE(DecodeIndices({}, 0, 0, out.data()));
  EXPECT_FALSE(DecodeIndices(BytesOf("\x21\x02\x01"), 1, 3, out.data()));

  std::string mapped;
  ASSERT_TRUE(AppendMappedIndices(BytesOf(body), 3, Values{9, 8, 7}, 4, &mapped));
  ASSERT_TRUE(DecodeIndices(BytesOf(mapped), 3, 10, out.data()));
  EXPECT_EQ(out, (Values{7, 9, 8}));
  EXPECT_EQ(mapped.front(), 4);
  EXPECT_FALSE(AppendMappedIndices({}, 1, Values{9}, 4, &mapped));
  mapped.clear();
  ASSERT_TRUE(AppendMappedIndices({}, 0, Values{}, 4, &mapped));
  EXPECT_EQ(mapped, "\x04");
}

TEST(IndexPagesTest, AMappedRunCostsNoMoreThanItsBytes) {
  std::string mapped;
  ASSERT_TRUE(AppendMappedHybrid(BytesOf(ModelRun(1, (1U << 31) - 1, 1)), 1, (1U << 31) - 1,
                                 Values{0, 300}, 9, &mapped));
  EXPECT_EQ(mapped, ModelRun(300, 1U << 30, 9) + ModelRun(300, (1U << 30) - 1, 9));
}

TEST(IndexPagesTest, CountsUpFindsEveryDeviation) {
  Values values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i) + 77;
  EXPECT_TRUE(CountsUp(values, 77));
  EXPECT_FALSE(CountsUp(values, 76));
  EXPECT_TRUE(CountsUp({}, 5));
  for (const size_t at : {0U, 1U, 1023U, 1024U, 4999U}) {
    Values changed = values;
    changed[at] ^= 0x80000000U;
    EXPECT_FALSE(CountsUp(changed, 77)) << at;
  }
  EXPECT_TRUE(CountsUp(Values{0xfffffffeU, 0xffffffffU}, 0xfffffffeU));
  EXPECT_FALSE(CountsUp(Values{0xfffffffeU, 0xffffffffU, 0}, 0xfffffffeU));
}

// --- Pages taken apart.

PageHeader V1(int32_t num_values) {
  PageHeader header;
  header.num_values = num_values;
  return header;
}

TEST(IndexPagesTest, AV1PageIsTakenApart) {
  const std::string repetition = ModelPacked({0, 1, 1, 0, 0, 2, 0, 0}, 2);
  const std::string definition = ModelRun(3, 5, 2) + ModelRun(1, 3, 2);
  std::string levels;
  AppendWithLength(repetition, &levels);
  AppendWithLength(definition, &levels);
  const std::string body = levels + "values";
  const auto parts = TakeApart(V1(8), BytesOf(body), {3, 2});
  ASSERT_TRUE(parts) << parts.error().ToString();
  EXPECT_EQ(parts->present, 5);
  EXPECT_EQ(parts->rows, 5);
  EXPECT_TRUE(parts->begins_row);
  EXPECT_EQ(parts->levels.size(), levels.size());
  EXPECT_EQ(parts->repetition.size(), repetition.size());
  EXPECT_EQ(parts->definition.data(), parts->levels.data() + 8 + repetition.size());
  EXPECT_EQ(std::string(parts->values.begin(), parts->values.end()), "values");
  for (size_t size = 0; size < levels.size(); ++size) {
    const auto cut = TakeApart(V1(8), BytesOf(body).first(size), {3, 2});
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().code, Code::kCorrupt);
  }
}

TEST(IndexPagesTest, AV2PageIsTakenApart) {
  const std::string repetition = ModelRun(1, 2, 1) + ModelRun(0, 2, 1);
  const std::string definition = ModelPacked({1, 0, 1, 1}, 1);
  const std::string body = repetition + definition + "packed";
  PageHeader header = V1(4);
  header.type = PageType::kDataV2;
  header.repetition_levels_byte_length = static_cast<int32_t>(repetition.size());
  header.definition_levels_byte_length = static_cast<int32_t>(definition.size());
  const auto parts = TakeApart(header, BytesOf(body), {1, 1});
  ASSERT_TRUE(parts) << parts.error().ToString();
  EXPECT_EQ(parts->present, 3);
  EXPECT_EQ(parts->rows, 2);
  EXPECT_FALSE(parts->begins_row);
  EXPECT_EQ(std::string(parts->values.begin(), parts->values.end()), "packed");
  EXPECT_FALSE(TakeApart(header, BytesOf(body).first(5), {1, 1}));
  header.definition_levels_byte_length = 1;
  EXPECT_FALSE(TakeApart(header, BytesOf(body), {1, 1}));
}

TEST(IndexPagesTest, AFlatRequiredPageIsAllValues) {
  PageHeader header = V1(3);
  // As parquet-java writes for levels that are not there.
  header.definition_level_encoding = PageEncoding::kBitPacked;
  header.repetition_level_encoding = PageEncoding::kBitPacked;
  const auto parts = TakeApart(header, BytesOf("abc"), {0, 0});
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->present, 3);
  EXPECT_EQ(parts->rows, 3);
  EXPECT_TRUE(parts->levels.empty());
  EXPECT_EQ(parts->values.size(), 3U);
  EXPECT_EQ(TakeApart(header, BytesOf("abcdefgh"), {1, 0}).error().code, Code::kUnsupported);
  EXPECT_EQ(TakeApart(header, BytesOf("abcdefgh"), {0, 1}).error().code, Code::kUnsupported);
  EXPECT_EQ(TakeApart(V1(0), {}, {2, 1})->rows, 0);
}

TEST(IndexPagesTest, ARunOfLevelsIsReadAgain) {
  std::string hybrid;
  AppendLevelRun(3, 100, 3, &hybrid);
  EXPECT_EQ(hybrid, ModelRun(3, 100, 2));
  EXPECT_EQ(CountLevel(BytesOf(hybrid), 3, 100, 3).value(), 100);
  std::string body;
  AppendLevelRunV1(0, 9, 1, &body);
  AppendLevelRunV1(2, 9, 2, &body);
  AppendLevelRunV1(0, 9, 0, &body);
  const auto parts = TakeApart(V1(9), BytesOf(body), {2, 1});
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->rows, 9);
  EXPECT_EQ(parts->present, 9);
  EXPECT_TRUE(parts->values.empty());
}

}  // namespace
}  // namespace lithify::rewrite
