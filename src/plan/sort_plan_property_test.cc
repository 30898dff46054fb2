// What must hold for any files of any keys: rows are simulated, so that what bounds tell is what
// rows have.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/draw.h"
#include "base/order_mark.h"
#include "base/text.h"
#include "plan/iceberg_plan.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

using iceberg::KeyRange;

constexpr int64_t kNull = std::numeric_limits<int64_t>::min();  // Sorts first.
constexpr int64_t kRowBytes = kKiB;

// As text their bounds are cut, and neighbours look as if they shared keys.
enum class Keys { kNumbers, kTexts, kNone };

std::string TextOf(int64_t key) {
  std::string digits = std::to_string(key);
  return "key-" + std::string(6 - std::min<size_t>(6, digits.size()), '0') + digits;
}

struct SortWorld {
  World world;
  std::vector<std::vector<int64_t>> rows;  // By data file.
  Keys keys = Keys::kNumbers;
  size_t cut = 8;      // Characters of a bound.
  int64_t shared = 0;  // Keys that end one output of the last rewrite and begin the next.

  void Add(int32_t partition, std::vector<int64_t> keys_of, int64_t sequence, double factor = 1) {
    const auto count = std::ssize(keys_of);
    world.AddFile(partition, static_cast<int64_t>(static_cast<double>(count * kRowBytes) * factor),
                  count, sequence);
    world.live.key_ranges.push_back(RangeOf(keys_of));
    rows.push_back(std::move(keys_of));
  }

  KeyRange RangeOf(const std::vector<int64_t>& of) const {
    KeyRange range;
    std::vector<int64_t> values;
    for (const int64_t key : of) {
      if (key == kNull) {
        range.nulls = true;
      } else {
        values.push_back(key);
      }
    }
    range.no_values = values.empty();
    if (values.empty() || keys == Keys::kNone) return range;
    const auto [low, high] = std::ranges::minmax(values);
    if (keys == Keys::kNumbers) {
      range.lower = low;
      range.upper = high;
    } else {
      std::string upper = TextOf(high);
      if (upper.size() > cut) {
        upper.resize(cut);
        ++upper.back();
      }
      range.lower = TextOf(low).substr(0, cut);
      range.upper = upper;
    }
    return range;
  }
};

RowOrder Order(Curve curve) {
  OrderField field;
  field.field_id = 1;
  field.column = "k";
  return {.fields = {field}, .curve = curve};
}

RewriteOptions DrawOptions(Draw& draw, Curve curve) {
  RewriteOptions options;
  options.target_file_size_bytes = draw.Between(20, 200) * kRowBytes;
  options.min_input_files = static_cast<int>(draw.Between(1, 6));
  options.strategy = Strategy::kSort;
  options.sort = SortTarget{.order = Order(curve), .ranges = curve == Curve::kNone};
  if (curve == Curve::kNone && draw.OneIn(2)) options.sort->sort_order_id = 1;
  if (draw.OneIn(4)) options.min_overlap_depth = static_cast<int>(draw.Between(2, 5));
  return options;
}

std::vector<int64_t> DrawRows(Draw& draw, int64_t most) {
  const int64_t count = draw.OneIn(30) ? 0 : draw.Between(1, draw.OneIn(2) ? most : most / 8 + 1);
  const int64_t low = draw.Between(0, 900);
  const int64_t width = draw.OneIn(5) ? 0 : draw.Between(0, draw.OneIn(3) ? 1000 : 60);
  const bool nulls = draw.OneIn(8);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(nulls && draw.OneIn(2) ? kNull : low + draw.Between(0, width));
  }
  return rows;
}

SortWorld DrawWorld(Draw& draw, const RewriteOptions& options, Keys keys) {
  SortWorld world;
  world.keys = keys;
  world.cut = static_cast<size_t>(draw.Between(5, 11));
  world.world.live.sequence_number = 10;
  const int64_t partitions = draw.Between(1, 3);
  for (int64_t p = 0; p < partitions; ++p) world.world.AddPartition();
  const int64_t rows_most = options.target_file_size_bytes / kRowBytes * 2;
  for (int64_t n = draw.Between(0, 25); n > 0; --n) {
    world.Add(static_cast<int32_t>(draw.Between(0, partitions - 1)), DrawRows(draw, rows_most),
              draw.Between(1, 10));
    iceberg::LiveDataFile& file = world.world.live.data_files.back();
    if (draw.OneIn(25)) file.unsupported = "ORC data";
    if (draw.OneIn(25)) file.may_match = false;
    if (draw.OneIn(2)) file.sort_order_id = static_cast<int>(draw.Between(0, 2));
    if (draw.OneIn(10) && file.records > 0) {
      world.world.AddPositionDeletes(static_cast<int32_t>(world.rows.size()) - 1,
                                     draw.Between(1, file.records));
    }
  }
  return world;
}

RewritePlan PlanOf(const SortWorld& world, const RewriteOptions& options) {
  return PlanRewrite(world.world.live, iceberg::DeleteIndex(world.world.live), options);
}

// The rows of each group, sorted and cut into its outputs; deletes of its inputs are gone, and the
// rows that they name stay, for simplicity.
SortWorld After(const SortWorld& before, const RewriteOptions& options, const RewritePlan& plan,
                const std::string& job, double factor) {
  SortWorld after;
  after.keys = before.keys;
  after.cut = before.cut;
  after.world.names = before.world.names + 1000;
  after.world.live.partitions = before.world.live.partitions;
  after.world.live.unpartitioned = before.world.live.unpartitioned;
  after.world.live.sequence_number = before.world.live.sequence_number + 1;
  std::set<int32_t> rewritten;
  for (const FileGroup& group : plan.groups) {
    rewritten.insert(group.data_files.begin(), group.data_files.end());
  }
  std::set<std::string> gone;
  for (size_t i = 0; i < before.rows.size(); ++i) {
    const iceberg::LiveDataFile& file = before.world.live.data_files[i];
    if (rewritten.contains(static_cast<int32_t>(i))) {
      gone.insert(file.path);
      continue;
    }
    after.world.live.data_files.push_back(file);
    after.world.live.key_ranges.push_back(before.world.live.key_ranges[i]);
    after.rows.push_back(before.rows[i]);
  }
  for (const iceberg::LiveDeleteFile& file : before.world.live.delete_files) {
    if (!gone.contains(file.referenced_data_file)) after.world.live.delete_files.push_back(file);
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const FileGroup& group = plan.groups[g];
    std::vector<int64_t> rows;
    for (const int32_t at : group.data_files) {
      const auto& of = before.rows[static_cast<size_t>(at)];
      rows.insert(rows.end(), of.begin(), of.end());
    }
    std::ranges::sort(rows);
    const auto outputs = std::min<size_t>(static_cast<size_t>(group.outputs), rows.size());
    for (size_t o = 0; o < outputs; ++o) {
      const auto from = static_cast<std::ptrdiff_t>(rows.size() * o / outputs);
      const auto to = static_cast<std::ptrdiff_t>(rows.size() * (o + 1) / outputs);
      after.Add(group.partition, {rows.begin() + from, rows.begin() + to},
                before.world.live.sequence_number, factor);
      after.shared +=
          o > 0 && rows[static_cast<size_t>(from) - 1] == rows[static_cast<size_t>(from)];
      iceberg::LiveDataFile& file = after.world.live.data_files.back();
      file.path.resize(file.path.size() - std::string(".parquet").size());
      file.path += OrderSuffix(options.sort->order, job, static_cast<int64_t>(g)) + ".parquet";
      file.sort_order_id = options.sort->sort_order_id;
    }
  }
  return after;
}

// What every plan keeps to.
std::string CheckPlan(const SortWorld& world, const RewriteOptions& options,
                      const RewritePlan& plan) {
  std::set<int32_t> seen;
  for (const FileGroup& group : plan.groups) {
    int64_t bytes = 0;
    int64_t records = 0;
    for (const int32_t at : group.data_files) {
      const iceberg::LiveDataFile& file = world.world.live.data_files[static_cast<size_t>(at)];
      if (!seen.insert(at).second) return "a file is in two groups";
      if (file.partition != group.partition) return "a group mixes partitions";
      if (!file.may_match || !file.unsupported.empty()) return "a file must not be touched";
      bytes += file.size;
      records += file.records;
    }
    if (!group.sorted) return "a group is not sorted";
    if (bytes != group.bytes || records != group.records) return "wrong sums";
    if (group.outputs < 1 || group.outputs > std::ssize(group.data_files)) return "wrong outputs";
    if (group.data_files.size() > 1 &&
        (bytes > options.max_file_group_size_bytes ||
         std::ssize(group.data_files) > options.max_file_group_files ||
         records > options.max_sorted_group_records)) {
      return "a group is too large";
    }
  }
  if (plan.groups.empty() == plan.skip_reason.empty()) return "wrong skip_reason";
  const TableHealth health =
      AssessHealth({}, world.world.live, iceberg::DeleteIndex(world.world.live), options);
  if (health.eligible_groups != std::ssize(plan.groups)) return "health disagrees";
  return "";
}

// For each key that any row has, how many files reach over it: the sum.
int64_t Opened(const SortWorld& world) {
  int64_t opened = 0;
  for (size_t p = 0; p < world.world.live.partitions.size(); ++p) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    std::set<int64_t> keys;
    for (size_t i = 0; i < world.rows.size(); ++i) {
      if (world.world.live.data_files[i].partition != static_cast<int32_t>(p)) continue;
      if (world.rows[i].empty()) continue;
      const auto [low, high] = std::ranges::minmax(world.rows[i]);
      ranges.emplace_back(low, high);
      keys.insert(world.rows[i].begin(), world.rows[i].end());
    }
    for (const int64_t key : keys) {
      opened += std::ranges::count_if(
          ranges, [key](const auto& range) { return range.first <= key && key <= range.second; });
    }
  }
  return opened;
}

// Pairs of files that may be rewritten and share more than an end.
int64_t Overlaps(const SortWorld& world) {
  int64_t overlaps = 0;
  for (size_t i = 0; i < world.rows.size(); ++i) {
    for (size_t j = i + 1; j < world.rows.size(); ++j) {
      const auto& a = world.world.live.data_files[i];
      const auto& b = world.world.live.data_files[j];
      const bool touchable =
          a.may_match && b.may_match && a.unsupported.empty() && b.unsupported.empty();
      if (!touchable || a.partition != b.partition) continue;
      if (world.rows[i].empty() || world.rows[j].empty()) continue;
      const auto [a_low, a_high] = std::ranges::minmax(world.rows[i]);
      const auto [b_low, b_high] = std::ranges::minmax(world.rows[j]);
      overlaps += a_high > b_low && b_high > a_low;
    }
  }
  return overlaps;
}

constexpr uint64_t kSeeds = 1000;

TEST(SortPlanProperty, T8OneRunIsAFixedPoint) {
  int64_t rewritten = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    const RewriteOptions options = DrawOptions(draw, Curve::kNone);
    const SortWorld world = DrawWorld(draw, options, Keys::kNumbers);
    const RewritePlan plan = PlanOf(world, options);
    ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
    rewritten += std::ssize(plan.groups);
    for (const double factor : {1.0, 0.9, 1.1}) {
      const SortWorld after = After(world, options, plan, "job", factor);
      const RewritePlan again = PlanOf(after, options);
      ASSERT_TRUE(again.groups.empty())
          << "seed " << seed << ", factor " << factor << ": " << again.groups[0].reason;
      ASSERT_LE(after.rows.size(), world.rows.size()) << "seed " << seed;
      if (options.min_overlap_depth == 2) {
        ASSERT_EQ(Overlaps(after), 0) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(rewritten, static_cast<int64_t>(kSeeds));  // Or nothing was tried.
}

TEST(SortPlanProperty, OverlapOnlyShrinks) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    RewriteOptions options = DrawOptions(draw, Curve::kNone);
    if (draw.OneIn(2)) {
      options.max_file_group_size_bytes = options.target_file_size_bytes * draw.Between(1, 6);
    }
    const SortWorld world = DrawWorld(draw, options, Keys::kNumbers);
    const SortWorld after = After(world, options, PlanOf(world, options), "job", 1.0);
    ASSERT_LE(Opened(after), Opened(world) + after.shared) << "seed " << seed;
  }
}

// Whatever bounds cut the groups: soon there is nothing to do, and while two files fit into one
// group no two share keys then.
TEST(SortPlanProperty, AnyGroupsConverge) {
  int64_t runs_most = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    RewriteOptions options = DrawOptions(draw, Curve::kNone);
    options.min_overlap_depth = 2;
    options.max_file_group_size_bytes = options.target_file_size_bytes * draw.Between(10, 60) / 10;
    options.max_file_group_files = static_cast<int>(draw.Between(2, 8));
    if (draw.OneIn(3)) {
      options.max_sorted_group_records =
          options.target_file_size_bytes / kRowBytes * draw.Between(1, 8);
    }
    if (draw.OneIn(3)) {
      options.budget_bytes = options.target_file_size_bytes * draw.Between(1, 60) / 10;
    }
    SortWorld world = DrawWorld(draw, options, Keys::kNumbers);
    int64_t runs = 0;
    for (RewritePlan plan = PlanOf(world, options); !plan.groups.empty();
         plan = PlanOf(world, options)) {
      ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
      ASSERT_LE(++runs, 100) << "seed " << seed << ": " << plan.groups[0].reason;
      world = After(world, options, plan, "job" + std::to_string(runs), 1.0);
    }
    runs_most = std::max(runs_most, runs);
    const RewritePlan last = PlanOf(world, options);
    const bool stuck = std::ranges::any_of(last.partitions, [](const PartitionVerdict& verdict) {
      return verdict.reason.find("fit into one group") != std::string::npos;
    });
    if (!stuck) {
      ASSERT_EQ(Overlaps(world), 0) << "seed " << seed;
    }
  }
  EXPECT_GT(runs_most, 1);
}

// Cut bounds hide where files end: a few runs may be needed, and then there is rest.
TEST(SortPlanProperty, CutBoundsComeToRest) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    const RewriteOptions options = DrawOptions(draw, Curve::kNone);
    SortWorld world = DrawWorld(draw, options, Keys::kTexts);
    int runs = 0;
    for (RewritePlan plan = PlanOf(world, options); !plan.groups.empty();
         plan = PlanOf(world, options)) {
      ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
      ASSERT_LE(++runs, 4) << "seed " << seed << ": " << plan.groups[0].reason;
      world = After(world, options, plan, "job" + std::to_string(runs), 1.0);
    }
  }
}

// Curves, hashes, and keys without metrics: by what wrote the files.
TEST(SortPlanProperty, CubesAreAFixedPoint) {
  for (const auto& [curve, keys] :
       {std::pair{Curve::kZOrder, Keys::kNumbers}, {Curve::kNone, Keys::kNone}}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Draw draw(seed);
      const RewriteOptions options = DrawOptions(draw, curve);
      const SortWorld world = DrawWorld(draw, options, keys);
      const RewritePlan plan = PlanOf(world, options);
      ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
      for (const double factor : {1.0, 0.9, 1.1}) {
        const RewritePlan again = PlanOf(After(world, options, plan, "job", factor), options);
        ASSERT_TRUE(again.groups.empty())
            << "seed " << seed << ", factor " << factor << ": " << again.groups[0].reason;
      }
    }
  }
}

// New files come all the time: what is stable is not touched again, so that each byte is rewritten
// a few times at most.
TEST(SortPlanProperty, CubesOfAGrowingPartitionAreRewrittenRarely) {
  Draw draw(1);
  RewriteOptions options = DrawOptions(draw, Curve::kHilbert);
  options.target_file_size_bytes = 20 * kRowBytes;
  options.min_overlap_depth = 2;
  SortWorld world;
  world.keys = Keys::kNone;
  world.world.AddPartition();
  int64_t added = 0;
  int64_t moved = 0;
  for (int tick = 0; tick < 200; ++tick) {
    for (int i = 0; i < 8; ++i) world.Add(0, std::vector<int64_t>(5, i), tick + 1);
    added += 40;
    const RewritePlan plan = PlanOf(world, options);
    for (const FileGroup& group : plan.groups) moved += group.records;
    world = After(world, options, plan, "job" + std::to_string(tick), 1.0);
  }
  EXPECT_LT(moved, added * 4);
  EXPECT_GT(moved, added);
}

TEST(SortPlanProperty, CubesConvergeWhateverCutsThem) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    RewriteOptions options = DrawOptions(draw, Curve::kZOrder);
    options.max_file_group_size_bytes = options.target_file_size_bytes * draw.Between(10, 60) / 10;
    options.max_file_group_files = static_cast<int>(draw.Between(2, 8));
    SortWorld world = DrawWorld(draw, options, Keys::kNone);
    int runs = 0;
    for (RewritePlan plan = PlanOf(world, options); !plan.groups.empty();
         plan = PlanOf(world, options)) {
      ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
      ASSERT_LE(++runs, 40) << "seed " << seed << ": " << plan.groups[0].reason;
      world = After(world, options, plan, "job" + std::to_string(runs), 1.0);
    }
  }
}

TEST(SortPlanProperty, TheSameInputGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Draw draw(seed);
    const RewriteOptions options = DrawOptions(draw, Curve::kNone);
    const SortWorld world = DrawWorld(draw, options, Keys::kNumbers);
    const RewritePlan a = PlanOf(world, options);
    const RewritePlan b = PlanOf(world, options);
    ASSERT_EQ(a.groups.size(), b.groups.size());
    for (size_t i = 0; i < a.groups.size(); ++i) {
      ASSERT_EQ(a.groups[i].data_files, b.groups[i].data_files);
      ASSERT_EQ(a.groups[i].reason, b.groups[i].reason);
    }
  }
}

TEST(SortPlanProperty, AMillionFilesThatOverlapInPairs) {
  World world;
  for (int p = 0; p < 1000; ++p) world.AddPartition();
  for (int64_t i = 0; i < 1'000'000; ++i) {
    world.AddFile(static_cast<int32_t>(i % 1000), 512 * kMiB, 1000);
    const int64_t at = i / 1000;
    KeyRange& range = world.live.key_ranges.emplace_back();
    range.lower = at * 10;
    range.upper = at * 10 + (at % 2 == 0 ? 15 : 9);
  }
  RewriteOptions options;
  options.strategy = Strategy::kSort;
  options.sort = SortTarget{.order = Order(Curve::kNone), .ranges = true};
  const RewritePlan plan = PlanRewrite(world.live, iceberg::DeleteIndex(world.live), options);
  EXPECT_EQ(plan.groups.size(), 500'000);
}

}  // namespace
}  // namespace lithify::plan
