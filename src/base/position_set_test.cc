// Position sets against std::set, and the portable 64-bit roaring format byte by byte.
#include "base/position_set.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <set>
#include <vector>

#include "base/random.h"

namespace lithify {
namespace {

constexpr int64_t kKey = int64_t{1} << 32;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges RangesOf(const PositionSet& set, int64_t first = 0, int64_t last = kMax) {
  Ranges ranges;
  set.ForEachRange(first, last,
                   [&](int64_t begin, int64_t end) { ranges.push_back({begin, end}); });
  return ranges;
}

Ranges RangesOf(const std::set<int64_t>& set, int64_t first, int64_t last) {
  Ranges ranges;
  for (auto at = set.lower_bound(first); at != set.end() && *at < last; ++at) {
    if (!ranges.empty() && ranges.back().second == *at) {
      ++ranges.back().second;
    } else {
      ranges.push_back({*at, *at + 1});
    }
  }
  return ranges;
}

TEST(PositionSet, CountsDistinctPositions) {  // T13.
  PositionSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.MaxOr(-1), -1);
  EXPECT_EQ(RangesOf(set), Ranges{});
  set.Add(5);
  set.Add(5);
  const std::vector<int64_t> many = {7, 5, 6, 7, kKey + 1, 0, kKey - 1, kKey};
  set.AddMany(many);
  EXPECT_EQ(set.size(), 7);
  EXPECT_TRUE(set.Contains(kKey));
  EXPECT_FALSE(set.Contains(kKey + 2));
  EXPECT_FALSE(set.Contains(-1));
  EXPECT_EQ(set.MaxOr(-1), kKey + 1);
  EXPECT_EQ(RangesOf(set), (Ranges{{0, 1}, {5, 8}, {kKey - 1, kKey + 2}}));
  EXPECT_EQ(RangesOf(set, 6, kKey), (Ranges{{6, 8}, {kKey - 1, kKey}}));
  EXPECT_EQ(RangesOf(set, 6, 6), Ranges{});
  EXPECT_EQ(set.CountBelow(-3), 0);
  EXPECT_EQ(set.CountBelow(0), 0);
  EXPECT_EQ(set.CountBelow(1), 1);
  EXPECT_EQ(set.CountBelow(7), 3);
  EXPECT_EQ(set.CountBelow(kKey), 5);
  EXPECT_EQ(set.CountBelow(kKey + 1), 6);
  EXPECT_EQ(set.CountBelow(kMax), 7);
}

TEST(PositionSet, TakesTheGreatestPositionAndLeavesOutNegativeOnes) {
  PositionSet set;
  set.Add(-1);
  set.AddMany(std::vector<int64_t>{-5, std::numeric_limits<int64_t>::min()});
  set.AddRange(-5, 0);
  EXPECT_TRUE(set.empty());
  set.AddRange(-5, 2);
  set.Add(kMax);
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.MaxOr(-1), kMax);
  EXPECT_EQ(set.CountBelow(kMax), 2);
  EXPECT_EQ(RangesOf(set), (Ranges{{0, 2}}));  // kMax is not below the end.
  auto back = PositionSet::Deserialize(set.Serialize());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->MaxOr(-1), kMax);
}

TEST(PositionSet, ComplementEndsWhereItIsTold) {
  PositionSet set;
  EXPECT_EQ(RangesOf(set.Complement(0)), Ranges{});
  EXPECT_EQ(RangesOf(set.Complement(-5)), Ranges{});
  EXPECT_EQ(RangesOf(set.Complement(3)), (Ranges{{0, 3}}));
  set.AddRange(0, 2);
  set.AddRange(5, 70'000);
  set.Add(kKey + 1);
  EXPECT_EQ(RangesOf(set.Complement(1)), Ranges{});
  EXPECT_EQ(RangesOf(set.Complement(6)), (Ranges{{2, 5}}));
  EXPECT_EQ(RangesOf(set.Complement(70'003)), (Ranges{{2, 5}, {70'000, 70'003}}));
  // Beyond 2^32 by number: listing them would take seconds.
  EXPECT_EQ(set.Complement(kKey).size(), kKey - 69'997);
  const PositionSet others = set.Complement(kKey + 3);
  EXPECT_EQ(others.CountBelow(kKey), kKey - 69'997);
  EXPECT_TRUE(others.Contains(kKey));
  EXPECT_FALSE(others.Contains(kKey + 1));
  EXPECT_TRUE(others.Contains(kKey + 2));
  EXPECT_FALSE(others.Contains(kKey + 3));
  EXPECT_EQ(others.size() + set.size(), kKey + 3);
}

TEST(PositionSet, CopiesShareNothingAndMovesLeaveAnEmptySet) {
  PositionSet a;
  a.AddRange(0, 100'000);
  PositionSet b = a;
  b.Add(200'000);
  EXPECT_EQ(a.size(), 100'000);
  EXPECT_EQ(b.size(), 100'001);
  PositionSet c = std::move(b);
  EXPECT_EQ(c.size(), 100'001);
  b = a;
  b.Unite(c);
  b.Unite(b);
  EXPECT_EQ(b.size(), 100'001);
  EXPECT_EQ(a.size(), 100'000);
  EXPECT_LT(b.memory_bytes(), 100'000);
}

// Positions that meet every kind of container: near each other, scattered, beyond 2^32.
int64_t AnyPosition() {
  const int64_t base = *rc::gen::element<int64_t>(0, 65536 * 3, kKey - 70, kKey * 5, kMax - 70'000);
  return base + *rc::gen::inRange<int64_t>(0, *rc::gen::element<int64_t>(64, 70'000));
}

TEST(PositionSet, IsASetOfIntegers) {
  const bool holds = rc::check([] {
    PositionSet set;
    std::set<int64_t> model;
    const int steps = *rc::gen::inRange(1, 12);
    for (int i = 0; i < steps; ++i) {
      switch (*rc::gen::inRange(0, 5)) {
        case 0: {
          const int64_t position = AnyPosition();
          set.Add(position);
          model.insert(position);
          break;
        }
        case 1: {
          std::vector<int64_t> many(static_cast<size_t>(*rc::gen::inRange(0, 100)));
          for (int64_t& one : many) one = AnyPosition();
          set.AddMany(many);
          model.insert(many.begin(), many.end());
          break;
        }
        case 2: {
          const int64_t begin = AnyPosition();
          const int64_t end =
              std::min(begin, kMax - 20'000) + *rc::gen::inRange<int64_t>(0, 20'000);
          set.AddRange(begin, end);
          for (int64_t p = begin; p < end; ++p) model.insert(model.end(), p);
          break;
        }
        case 3: {  // Every second one: a bit set.
          std::vector<int64_t> many;
          const int64_t begin = std::min(AnyPosition(), kMax - 20'000);
          for (int64_t p = begin; p < begin + 12'000; p += 2) many.push_back(p);
          PositionSet other;
          other.AddMany(many);
          set.Unite(other);
          model.insert(many.begin(), many.end());
          break;
        }
        default: {
          auto back = PositionSet::Deserialize(set.Serialize());
          RC_ASSERT(back.has_value());
          RC_ASSERT(back->Serialize() == set.Serialize());
          set = std::move(*back);
        }
      }
    }
    RC_ASSERT(set.size() == static_cast<int64_t>(model.size()));
    RC_ASSERT(set.MaxOr(-1) == (model.empty() ? -1 : *model.rbegin()));
    const int64_t first = AnyPosition();
    const int64_t last = AnyPosition();
    RC_ASSERT(RangesOf(set, first, last) == RangesOf(model, first, last));
    RC_ASSERT(RangesOf(set, 0, kMax) == RangesOf(model, 0, kMax));
    RC_ASSERT(set.CountBelow(first) == std::distance(model.begin(), model.lower_bound(first)));
    RC_ASSERT(set.Contains(first) == model.contains(first));
    for (const int64_t near : {last - 1, last, model.empty() ? 0 : *model.begin()}) {
      RC_ASSERT(set.Contains(near) == model.contains(near));
    }
  });
  EXPECT_TRUE(holds);
}

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

constexpr int kNoRuns = 0x3a;  // Low byte of cookie 12346.
constexpr int kRuns = 0x3b;

TEST(PositionSetFormat, WritesTheDocumentedLayout) {
  EXPECT_EQ(PositionSet().Serialize(), Bytes({0, 0, 0, 0, 0, 0, 0, 0}));
  PositionSet set;
  set.Add(1);
  set.Add(3);
  set.Add(kKey + 0x10002);
  EXPECT_EQ(set.Serialize(),
            Bytes({2, 0, 0, 0, 0,       0,    0, 0,              // Bitmaps.
                   0, 0, 0, 0, kNoRuns, 0x30, 0, 0, 1, 0, 0, 0,  // Key 0, one container:
                   0, 0, 1, 0, 16,      0,    0, 0, 1, 0, 3, 0,  // key, count - 1, offset.
                   1, 0, 0, 0, kNoRuns, 0x30, 0, 0, 1, 0, 0, 0,  // Key 1.
                   1, 0, 0, 0, 16,      0,    0, 0, 2, 0}));
  PositionSet runs;
  runs.AddRange(10, 1010);
  EXPECT_EQ(runs.Serialize(), Bytes({1,     0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                     kRuns, 0x30, 0,    0, 1,     // One container, of runs:
                                     0,     0,    0xe7, 3, 1, 0,  // 1000 members in 1 run,
                                     10,    0,    0xe7, 3}));     // 10 and 999 more.
}

TEST(PositionSetFormat, ReadsEmptyBitmapsThatFillGaps) {
  const auto set = PositionSet::Deserialize(
      Bytes({2, 0, 0, 0, 0,     0,    0, 0, 0, 0, 0, 0, kNoRuns, 0x30, 0, 0, 0, 0, 0, 0,  //
             1, 0, 0, 0, kRuns, 0x30, 0, 0, 1, 0, 0, 0, 0,       1,    0, 9, 0, 0, 0}));
  ASSERT_TRUE(set.has_value()) << set.error().ToString();
  EXPECT_EQ(RangesOf(*set), (Ranges{{kKey + 9, kKey + 10}}));
}

struct Damage {
  const char* name;
  std::string bytes;
  const char* says;
};

TEST(PositionSetFormat, RefusesWhatBreaksAnInvariant) {
  const std::string head = Bytes({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const std::string array = Bytes({kNoRuns, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0, 0});
  const std::string run = Bytes({kRuns, 0x30, 0, 0, 1, 0, 0});
  const std::string bits =
      Bytes({kNoRuns, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x10, 16, 0, 0, 0});  // 4097 values.
  const std::vector<Damage> damages = {
      {"empty", "", "shorter than 8 bytes"},
      {"huge count", Bytes({0, 0, 0, 0, 0, 0, 0, 0x7f}), "cut off before bitmap 0"},
      {"no cookie", head, "cut off before a cookie"},
      {"negative key", Bytes({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80}), "above 2^63"},
      {"keys not ascending",
       Bytes({2, 0, 0, 0, 0, 0, 0, 0}) + head.substr(8) + array + Bytes({1, 0, 2, 0}) +
           head.substr(8),
       "order of their keys"},
      {"cookie", head + Bytes({1, 2, 3, 4}), "unknown cookie 67305985"},
      {"too many containers", head + Bytes({kNoRuns, 0x30, 0, 0, 1, 0, 1, 0}), "65537 containers"},
      {"cut in array", head + array + Bytes({1, 0, 2}), "cut off in an array"},
      {"array not ascending", head + array + Bytes({2, 0, 1, 0}), "array values"},
      {"array with twins", head + array + Bytes({2, 0, 2, 0}), "array values"},
      {"trailing", head + array + Bytes({1, 0, 2, 0, 0}), "1 bytes too many"},
      {"bit set", head + bits + std::string(8192, '\xff'), "65536 bits, its header says 4097"},
      {"cut in bit set", head + bits + std::string(8191, '\0'), "cut off in a bit set"},
      {"no run", head + run + Bytes({0, 0, 0, 0}), "runs hold 0 values"},
      {"run count", head + run + Bytes({5, 0, 1, 0, 9, 0, 3, 0}), "runs hold 4 values"},
      {"cut in runs", head + run + Bytes({5, 0, 2, 0, 9, 0, 3, 0}), "cut off in runs"},
      {"run too long", head + run + Bytes({5, 0, 1, 0, 0xff, 0xff, 5, 0}), "leaves its container"},
      {"runs overlap", head + run + Bytes({5, 0, 2, 0, 1, 0, 3, 0, 4, 0, 0, 0}),
       "runs are not in order"},
      {"runs touch", head + run + Bytes({5, 0, 2, 0, 1, 0, 3, 0, 5, 0, 1, 0}),
       "runs are not in order"},
      {"containers not ascending",
       head + Bytes({kNoRuns, 0x30, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0}) +
           Bytes({24, 0, 0, 0, 26, 0, 0, 0, 1, 0, 1, 0}),
       "container keys"},
  };
  for (const Damage& damage : damages) {
    const auto set = PositionSet::Deserialize(damage.bytes);
    ASSERT_FALSE(set.has_value()) << damage.name;
    EXPECT_EQ(set.error().code, Code::kCorrupt);
    EXPECT_NE(set.error().message.find(damage.says), std::string::npos)
        << damage.name << ": " << set.error().ToString();
  }
}

// Uses a set in every way; for damaged ones that are still bitmaps.
int64_t Exercise(PositionSet& set) {
  int64_t sum = set.size() + set.MaxOr(0) % 7 + set.CountBelow(70'000) + set.memory_bytes();
  set.ForEachRange(0, 1 << 20, [&](int64_t begin, int64_t end) { sum += end - begin; });
  PositionSet other;
  other.AddRange(100, 5000);
  other.Unite(set);
  set.AddRange(60'000, 70'000);
  for (int64_t i = 0; i < 200'000; i += 777) set.Add(i);
  return sum + other.size() + static_cast<int64_t>(set.Serialize().size());
}

TEST(PositionSetFormat, DamagedBytesNeverCrash) {
  PositionSet set;
  set.AddRange(3, 900);
  for (int64_t i = 0; i < 30'000; i += 3) set.Add(65536 + i);
  for (int64_t i = 0; i < 500; ++i) set.Add(200'000 + i * i);
  set.Add(kKey * 3 + 17);
  const std::string good = set.Serialize();
  SeededRandom random(20'261'129);
  int accepted = 0;
  int64_t sum = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    const uint64_t edits = 1 + random.Next() % 3;
    for (uint64_t i = 0; i < edits; ++i) {
      // Headers are few bytes of many: aim at them every second time.
      const size_t reach = random.Next() % 2 == 0 ? 64 : bytes.size();
      const size_t at = random.Next() % std::min(reach, bytes.size());
      switch (random.Next() % 4) {
        case 0: bytes[at] = static_cast<char>(random.Next()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random.Next() % 8))); break;
        case 2: bytes.resize(at + 1); break;
        default: bytes.erase(at, 1 + random.Next() % 4); break;
      }
      if (bytes.empty()) break;
    }
    // A block of its own size, so that a sanitizer sees each byte read beyond it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    auto read = PositionSet::Deserialize({exact.data(), exact.size()});
    if (!read) {
      EXPECT_EQ(read.error().code, Code::kCorrupt);
      continue;
    }
    ++accepted;
    sum += Exercise(*read);
  }
  EXPECT_GT(accepted, 20);  // Some damage gives another bitmap; most does not.
  EXPECT_LT(accepted, 10'000);
  EXPECT_NE(sum, 0);
}

}  // namespace
}  // namespace lithify
