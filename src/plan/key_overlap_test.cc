#include "plan/key_overlap.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace lithify::plan {
namespace {

using iceberg::KeyRange;
using iceberg::Value;

// Files of these ranges, of ten rows and ten bytes each.
struct World {
  explicit World(const std::vector<std::pair<int64_t, int64_t>>& of) {
    for (const auto& [lower, upper] : of) ranges.push_back({Value(lower), Value(upper)});
    for (const KeyRange& range : ranges) files.push_back({&range, 10, 10});
  }
  FilesPerKey Of(const std::vector<KeyedMerge>& merges) const {
    return FilesPerKeyOf(files, merges).value();
  }
  std::vector<KeyRange> ranges;
  std::vector<KeyedFile> files;
};

TEST(KeyOverlap, FilesApartAreOpenedOneAtATimeHoweverManyThereAre) {
  const World world({{0, 9}, {10, 19}, {20, 29}, {30, 39}});
  const FilesPerKey depth = world.Of({{.files = {0, 1, 2, 3}, .outputs = 1}});
  EXPECT_EQ(depth.before, 1);
  EXPECT_EQ(depth.after, 1);
}

TEST(KeyOverlap, FilesOfAllKeysAreAllOpened) {
  const World world({{0, 99}, {0, 99}, {0, 99}, {0, 99}});
  EXPECT_EQ(world.Of({{.files = {0, 1, 2, 3}, .outputs = 1}}).before, 4);
  EXPECT_EQ(world.Of({{.files = {0, 1, 2, 3}, .outputs = 1}}).after, 1);
  // Bin-packing alone keeps the outputs as wide as the inputs.
  EXPECT_EQ(world.Of({{.files = {0, 1, 2, 3}, .outputs = 2}}).after, 2);
  // What is not in a merge stays.
  EXPECT_EQ(world.Of({{.files = {0, 1}, .outputs = 1}}).after, 3);
  EXPECT_EQ(world.Of({}).after, 4);
  EXPECT_EQ(world.Of({{.files = {0, 1}, .outputs = 0}}).after, 2);
}

// A read of 50 opens the output of 0 to 9 and 90 to 99, where it opened one file.
TEST(KeyOverlap, MergingWhatIsFarApartCostsReads) {
  const World world({{0, 9}, {90, 99}, {40, 59}});
  const FilesPerKey depth = world.Of({{.files = {0, 1}, .outputs = 1}});
  EXPECT_EQ(depth.before, 1);
  EXPECT_DOUBLE_EQ(depth.after, 4.0 / 3);
}

TEST(KeyOverlap, RowsWeigh) {
  World world({{0, 9}, {0, 9}, {20, 29}});
  world.files[2].rows = 180;
  EXPECT_DOUBLE_EQ(world.Of({}).before, (20 * 2 + 180 * 1) / 200.0);
}

TEST(KeyOverlap, WithoutBoundsAFileIsAlwaysOpened) {
  World world({{0, 9}, {10, 19}, {0, 0}});
  world.files[2].keys = nullptr;
  EXPECT_EQ(world.Of({}).before, 2);
  EXPECT_EQ(world.Of({{.files = {0, 1}, .outputs = 1}}).after, 2);
  EXPECT_EQ(world.Of({{.files = {0, 2}, .outputs = 1}}).after, 1.5);
  world.ranges[0].upper = Value();
  EXPECT_EQ(world.Of({}).before, 3);
  world.files[0].keys = world.files[1].keys = nullptr;
  EXPECT_FALSE(FilesPerKeyOf(world.files, {}));
  EXPECT_FALSE(FilesPerKeyOf({}, {}));
}

TEST(KeyOverlap, TextsAreOrderedAsBytes) {
  const std::vector<KeyRange> ranges = {{Value(std::string("a")), Value(std::string("m"))},
                                        {Value(std::string("k")), Value(std::string("z"))}};
  const std::vector<KeyedFile> files = {{&ranges[0], 1, 1}, {&ranges[1], 1, 1}};
  EXPECT_EQ(FilesPerKeyOf(files, {})->before, 1.5);
}

// --- against counting one by one -----------------------------------------------------------------

struct Span {
  int64_t lower;
  int64_t upper;
};

// The mean over the bounds of all files, each by its rows, of how many spans reach over it.
double Counted(const World& world, const std::vector<Span>& spans, size_t everywhere) {
  double sum = 0;
  double all = 0;
  for (const KeyedFile& file : world.files) {
    if (file.keys == nullptr) continue;
    for (const Value& bound : {file.keys->lower, file.keys->upper}) {
      const int64_t key = std::get<int64_t>(bound);
      const auto opened = std::ranges::count_if(
          spans, [&](const Span& s) { return s.lower <= key && key <= s.upper; });
      sum += static_cast<double>(file.rows) / 2 * static_cast<double>(opened);
      all += static_cast<double>(file.rows) / 2;
    }
  }
  return sum / all + static_cast<double>(everywhere);
}

Span SpanOf(const KeyedFile& file) {
  return {std::get<int64_t>(file.keys->lower), std::get<int64_t>(file.keys->upper)};
}

TEST(KeyOverlap, IsWhatCountingGives) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    SeededRandom random(seed);
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.Next() % static_cast<uint64_t>(high - low + 1));
    };
    std::vector<std::pair<int64_t, int64_t>> ranges;
    const int64_t n = between(1, 40);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t lower = between(0, 50);
      ranges.emplace_back(lower, lower + between(0, between(0, 1) == 0 ? 3 : 50));
    }
    World world(ranges);
    std::vector<KeyedMerge> merges(static_cast<size_t>(between(0, 3)));
    std::vector<Span> before;
    std::vector<Span> after;
    size_t unknown_before = 0;
    size_t unknown_after = 0;
    for (size_t i = 0; i < world.files.size(); ++i) {
      KeyedFile& file = world.files[i];
      file.rows = between(1, 100);
      file.bytes = between(1, 100);
      if (between(1, 10) == 1 && i > 0) file.keys = nullptr;
      const auto at = static_cast<size_t>(between(0, static_cast<int64_t>(merges.size())));
      if (at < merges.size()) merges[at].files.push_back(i);
      if (file.keys != nullptr) {
        before.push_back(SpanOf(file));
        if (at == merges.size()) after.push_back(before.back());
      } else {
        ++unknown_before;
        if (at == merges.size()) ++unknown_after;
      }
    }
    // One output each: it reaches from the least to the greatest.
    for (const KeyedMerge& merge : merges) {
      if (merge.files.empty()) continue;
      bool known = true;
      Span span{1000, -1};
      for (const size_t i : merge.files) {
        known = known && world.files[i].keys != nullptr;
        if (!known) break;
        const Span one = SpanOf(world.files[i]);
        span = {std::min(span.lower, one.lower), std::max(span.upper, one.upper)};
      }
      if (known) {
        after.push_back(span);
      } else {
        ++unknown_after;
      }
    }
    const FilesPerKey depth = FilesPerKeyOf(world.files, merges).value();
    RC_ASSERT(std::abs(depth.before - Counted(world, before, unknown_before)) < 1e-9);
    RC_ASSERT(std::abs(depth.after - Counted(world, after, unknown_after)) < 1e-9);
    // Every key that stands for others is in a file itself, and no read opens more than all.
    RC_ASSERT(depth.before >= 1);
    RC_ASSERT(depth.before <= static_cast<double>(world.files.size()) + 1e-9);
    // As many outputs as inputs, one after the other: nothing changes but what lies on a border.
    for (KeyedMerge& merge : merges) {
      merge.outputs = static_cast<int64_t>(merge.files.size());
      for (const size_t i : merge.files) world.files[i].bytes = 10;
    }
    const FilesPerKey same = FilesPerKeyOf(world.files, merges).value();
    RC_ASSERT(std::abs(same.after - same.before) < 1e-9);
  }));
}

}  // namespace
}  // namespace lithify::plan
