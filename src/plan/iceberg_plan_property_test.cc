// What must hold for any live set and any options: the fixed point (I27), and what groups are.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/draw.h"
#include "base/text.h"
#include "plan/iceberg_plan.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

using iceberg::DeleteIndex;

struct Shape {
  bool deletes = true;
  bool any_bounds = true;    // Else such that every size above the minimum can be made.
  bool group_limit = false;  // By bytes: a partition may need several groups.
};

RewriteOptions DrawOptions(Draw& draw, const Shape& shape) {
  RewriteOptions options;
  const int64_t target = draw.Between(100, 1000) * kKiB;
  options.target_file_size_bytes = target;
  if (draw.OneIn(2)) options.min_file_size_bytes = draw.Between(1, target - 1);
  if (shape.any_bounds) {
    if (draw.OneIn(2)) options.max_file_size_bytes = draw.Between(target + 1, target * 4);
  } else if (options.min_file_size_bytes > 0) {
    const int64_t least = options.min_file_size_bytes / 4 * 9 + 20;
    options.max_file_size_bytes = draw.Between(std::max(target + 1, least), target * 4);
  }
  options.min_input_files = static_cast<int>(draw.Between(1, 8));
  if (draw.OneIn(3)) options.delete_file_threshold = static_cast<int>(draw.Between(1, 4));
  if (draw.OneIn(3)) {
    options.delete_ratio_threshold = static_cast<double>(draw.Between(0, 100)) / 100;
  }
  options.rewrite_job_order = static_cast<JobOrder>(draw.Between(0, 4));
  if (shape.group_limit) options.max_file_group_size_bytes = target * draw.Between(5, 20) / 2;
  return options;
}

int64_t DrawSize(Draw& draw, int64_t target) {
  switch (draw.Between(0, 4)) {
    case 0: return draw.Between(0, target / 50);
    case 1: return draw.Between(target / 2, target);
    case 2: return draw.Between(target, target * 2);
    case 3: return draw.OneIn(4) ? draw.Between(target * 2, target * 12) : target / 3;
    default: return draw.Between(0, target);
  }
}

void DrawDeletes(Draw& draw, World& world) {
  const auto files = static_cast<int32_t>(world.live.data_files.size());
  const int64_t newest = world.live.sequence_number;
  for (int32_t i = 0; i < files; ++i) {
    if (!draw.OneIn(4)) continue;
    const iceberg::LiveDataFile file = world.live.data_files[static_cast<size_t>(i)];
    auto& deletes = world.AddPositionDeletes(i, draw.Between(0, file.records * 5 / 4),
                                             draw.Between(file.sequence_number, newest));
    deletes.deletion_vector = draw.OneIn(2);
  }
  const auto partitions = std::ssize(world.live.partitions);
  for (int64_t n = draw.Between(0, 6); n > 0; --n) {
    const auto partition = static_cast<int32_t>(draw.Between(0, partitions - 1));
    if (draw.OneIn(2)) {
      world.AddEqualityDeletes(partition, draw.Between(1, 100), draw.Between(1, newest));
    } else {
      // Not those of the planned snapshot itself: they count for its outputs as long as they live
      // (docs/COMPACTION.md, "What is not guaranteed").
      world.AddPartitionDeletes(partition, draw.Between(1, 100), draw.Between(1, newest - 1));
    }
  }
}

World DrawWorld(Draw& draw, const RewriteOptions& options, const Shape& shape) {
  World world;
  world.live.sequence_number = draw.Between(2, 20);
  const int64_t partitions = draw.Between(1, 4);
  for (int64_t p = 0; p < partitions; ++p) {
    world.AddPartition({.spec_id = static_cast<int>(draw.Between(0, 1)), .values = {p}});
  }
  if (draw.OneIn(3)) {
    world.AddPartition({.spec_id = 2, .values = {}});
  }
  const int64_t last = std::ssize(world.live.partitions) - 1;
  for (int64_t n = draw.OneIn(2) ? draw.Between(0, 12) : draw.Between(0, 120); n > 0; --n) {
    auto& file = world.AddFile(
        static_cast<int32_t>(draw.Between(0, last)), DrawSize(draw, options.target_file_size_bytes),
        draw.Between(0, 10'000), draw.Between(1, world.live.sequence_number));
    if (draw.OneIn(20)) file.unsupported = "ORC data";
    if (draw.OneIn(20)) file.may_match = false;
  }
  if (shape.deletes) DrawDeletes(draw, world);
  return world;
}

RewritePlan PlanOf(const World& world, const RewriteOptions& options) {
  return PlanRewrite(world.live, DeleteIndex(world.live), options);
}

// What every plan keeps to; a text that says what is broken, or nothing.
std::string CheckPlan(const World& world, const RewriteOptions& options, const RewritePlan& plan) {
  std::set<int32_t> seen;
  int64_t bytes_planned = 0;
  for (const FileGroup& group : plan.groups) {
    int64_t bytes = 0;
    int64_t records = 0;
    for (const int32_t at : group.data_files) {
      const iceberg::LiveDataFile& file = world.live.data_files[static_cast<size_t>(at)];
      if (!seen.insert(at).second) return "a file is in two groups";
      if (file.partition != group.partition) return "a group mixes partitions";
      if (!file.may_match || !file.unsupported.empty()) return "a file must not be touched";
      bytes += file.size;
      records += file.records;
    }
    bytes_planned += bytes;
    if (bytes != group.bytes || records != group.records) return "wrong sums";
    if (group.live_records > group.records) return "more rows than there are";
    if (group.outputs < 1 || group.outputs > std::ssize(group.data_files)) return "wrong outputs";
    if (group.data_files.size() > 1 &&
        (bytes > options.max_file_group_size_bytes ||
         std::ssize(group.data_files) > options.max_file_group_files ||
         records > options.max_file_group_records)) {
      return "a group is too large";
    }
    const bool fewer = group.outputs < std::ssize(group.data_files);
    if (!fewer && !options.rewrite_all && group.reason.find("deletes") == std::string::npos) {
      return "nothing is gained: " + group.reason;
    }
  }
  if (options.budget_bytes > 0 && plan.groups.size() > 1 && bytes_planned > options.budget_bytes) {
    return "over the budget";
  }
  if (plan.groups.empty() == plan.skip_reason.empty()) return "wrong skip_reason";
  const TableHealth health = AssessHealth({}, world.live, DeleteIndex(world.live), options);
  if (health.eligible_groups != std::ssize(plan.groups)) return "health disagrees on groups";
  if (health.est_rewrite_bytes != bytes_planned) return "health disagrees on bytes";
  return "";
}

// The first run may do anything, the second nothing.
std::string CheckFixedPoint(uint64_t seed, const Shape& shape) {
  Draw draw(seed);
  const RewriteOptions options = DrawOptions(draw, shape);
  if (const Status ok = CheckOptions(options); !ok) return ok.error().ToString();
  const World world = DrawWorld(draw, options, shape);
  const RewritePlan plan = PlanOf(world, options);
  if (const std::string broken = CheckPlan(world, options, plan); !broken.empty()) return broken;
  for (const double factor : {1.0, 0.9, 1.1}) {
    const World after = AfterRewrite(world, plan, factor);
    if (after.live.data_files.size() > world.live.data_files.size()) return "more files";
    const RewritePlan again = PlanOf(after, options);
    if (!again.groups.empty()) {
      return "planned again at " + std::to_string(factor) + ": " + again.groups[0].reason +
             " after " + (plan.groups.empty() ? plan.skip_reason : plan.groups[0].reason);
    }
  }
  return "";
}

constexpr uint64_t kSeeds = 5000;

TEST(IcebergPlanProperty, I27OneGroupAPartitionIsAFixedPointForAnyOptions) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(CheckFixedPoint(seed, {}), "") << "seed " << seed;
  }
}

TEST(IcebergPlanProperty, I27SeveralGroupsAreAFixedPointWithoutDeletes) {
  const Shape shape{.deletes = false, .any_bounds = false, .group_limit = true};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(CheckFixedPoint(seed, shape), "") << "seed " << seed;
  }
}

// The same with generated sizes and bounds, which shrink to a small counterexample.
TEST(IcebergPlanProperty, I27AnySizesAndBounds) {
  EXPECT_TRUE(rc::check("planned once", [](const std::vector<uint16_t>& sizes, uint16_t min,
                                           uint16_t max, uint8_t min_input_files) {
    constexpr int64_t kTarget = 16'384;
    RewriteOptions options;
    options.target_file_size_bytes = kTarget * kKiB;
    options.min_file_size_bytes = min % kTarget * kKiB;
    options.max_file_size_bytes = max == 0 ? 0 : (kTarget + max) * kKiB;
    options.min_input_files = 1 + min_input_files % 10;
    World world;
    world.AddPartition();
    for (const uint16_t size : sizes) world.AddFile(0, size * kKiB);
    const RewritePlan plan = PlanOf(world, options);
    RC_ASSERT(CheckPlan(world, options, plan) == "");
    for (const double factor : {1.0, 0.9, 1.1}) {
      RC_ASSERT(PlanOf(AfterRewrite(world, plan, factor), options).groups.empty());
    }
  }));
}

// Whatever bounds cut the groups: every run gives fewer files, and soon there is nothing to do.
TEST(IcebergPlanProperty, I27AnyBoundsConverge) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Draw draw(seed);
    RewriteOptions options = DrawOptions(draw, {});
    options.max_file_group_size_bytes = options.target_file_size_bytes * draw.Between(10, 60) / 10;
    options.max_file_group_files = static_cast<int>(draw.Between(2, 20));
    if (draw.OneIn(2)) options.max_file_group_records = draw.Between(1, 100'000);
    if (draw.OneIn(3)) {
      options.budget_bytes = options.target_file_size_bytes * draw.Between(1, 100) / 10;
    }
    World world = DrawWorld(draw, options, {});
    int runs = 0;
    for (RewritePlan plan = PlanOf(world, options); !plan.groups.empty();
         plan = PlanOf(world, options)) {
      ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
      ASSERT_LE(++runs, 150) << "seed " << seed << ": " << plan.groups[0].reason;
      const size_t files = world.live.data_files.size();
      const bool deletes = plan.groups[0].reason.find("deletes") != std::string::npos;
      world = AfterRewrite(world, plan, 1.0);
      ASSERT_LE(world.live.data_files.size(), files - !deletes) << "seed " << seed;
    }
  }
}

TEST(IcebergPlanProperty, RewriteAllTakesEveryFileOnce) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Draw draw(seed);
    RewriteOptions options = DrawOptions(draw, {.group_limit = true});
    options.rewrite_all = true;
    const World world = DrawWorld(draw, options, {});
    const RewritePlan plan = PlanOf(world, options);
    ASSERT_EQ(CheckPlan(world, options, plan), "") << "seed " << seed;
    int64_t planned = 0;
    for (const FileGroup& group : plan.groups) planned += std::ssize(group.data_files);
    int64_t rewritable = 0;
    for (const auto& file : world.live.data_files) {
      rewritable += file.may_match && file.unsupported.empty();
    }
    ASSERT_EQ(planned, rewritable) << "seed " << seed;
  }
}

TEST(IcebergPlanProperty, TheSameInputGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Draw draw(seed);
    const RewriteOptions options = DrawOptions(draw, {.group_limit = true});
    const World world = DrawWorld(draw, options, {});
    const RewritePlan a = PlanOf(world, options);
    const RewritePlan b = PlanOf(world, options);
    ASSERT_EQ(a.groups.size(), b.groups.size());
    for (size_t i = 0; i < a.groups.size(); ++i) {
      ASSERT_EQ(a.groups[i].data_files, b.groups[i].data_files);
      ASSERT_EQ(a.groups[i].reason, b.groups[i].reason);
    }
  }
}

TEST(IcebergPlanProperty, AMillionFilesInTenThousandPartitions) {
  World world;
  for (int p = 0; p < 10'000; ++p) world.AddPartition();
  for (int i = 0; i < 1'000'000; ++i) {
    const int32_t partition = i % 10'000;
    // Nine small ones to one of good size; the last partitions have good ones only.
    const bool small = partition < 9'000 && i / 10'000 % 10 != 0;
    world.AddFile(partition, small ? 8 * kMiB : 512 * kMiB, 1000, 1 + i / 10'000);
  }
  const RewritePlan plan = PlanOf(world, {});
  EXPECT_EQ(plan.groups.size(), 9'000);
  EXPECT_EQ(plan.partitions.size(), 10'000);
  for (const FileGroup& group : plan.groups) {
    ASSERT_EQ(group.data_files.size(), 90);
    ASSERT_EQ(group.outputs, 1);
  }
}

}  // namespace
}  // namespace lithify::plan
