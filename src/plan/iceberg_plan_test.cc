#include "plan/iceberg_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

using iceberg::DeleteIndex;
using iceberg::FileContent;
using iceberg::LiveSet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Target 100 MiB: candidates are below 75 MiB; outputs are of 84 to 180 MiB.
RewriteOptions Target100() {
  RewriteOptions options;
  options.target_file_size_bytes = 100 * kMiB;
  return options;
}

RewritePlan PlanOf(const World& world, const RewriteOptions& options = Target100()) {
  return PlanRewrite(world.live, DeleteIndex(world.live), options);
}

TEST(IcebergPlanOptions, BadOnesAreNamed) {
  const auto error = [](void (*change)(RewriteOptions&)) {
    RewriteOptions options = Target100();
    change(options);
    const Status status = CheckOptions(options);
    return status ? std::string("ok") : status.error().ToString();
  };
  using O = RewriteOptions;
  EXPECT_EQ(error([](O&) {}), "ok");
  EXPECT_EQ(error([](O& o) { o = O{}; }), "ok");
  EXPECT_EQ(error([](O& o) { o.target_file_size_bytes = 0; }),
            "invalid: target_file_size_bytes: must be between 1 B and 1.0 PiB");
  EXPECT_THAT(error([](O& o) { o.target_file_size_bytes = std::numeric_limits<int64_t>::max(); }),
              HasSubstr("target_file_size_bytes"));
  EXPECT_EQ(error([](O& o) { o.target_file_size_bytes = 1; }), "ok");
  EXPECT_EQ(error([](O& o) { o.min_file_size_bytes = 100 * kMiB; }),
            "invalid: min_file_size_bytes: must be 0 (75 % of the target) or less than the target "
            "(100.0 MiB), or every output would be too small");
  EXPECT_EQ(error([](O& o) { o.min_file_size_bytes = 100 * kMiB - 1; }), "ok");
  EXPECT_THAT(error([](O& o) { o.min_file_size_bytes = -1; }), HasSubstr("min_file_size_bytes"));
  EXPECT_THAT(error([](O& o) { o.max_file_size_bytes = 100 * kMiB; }),
              HasSubstr("max_file_size_bytes: must be 0 (180 % of the target) or more"));
  EXPECT_THAT(error([](O& o) { o.max_file_size_bytes = -1; }), HasSubstr("max_file_size_bytes"));
  EXPECT_EQ(error([](O& o) { o.min_input_files = 0; }),
            "invalid: min_input_files: must be at least 1");
  EXPECT_THAT(error([](O& o) { o.delete_file_threshold = -1; }),
              HasSubstr("delete_file_threshold"));
  for (const double ratio : {-0.1, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    O options;
    options.delete_ratio_threshold = ratio;
    EXPECT_EQ(CheckOptions(options).error().ToString(),
              "invalid: delete_ratio_threshold: must be between 0 (off) and 1");
  }
  EXPECT_THAT(error([](O& o) { o.max_file_group_size_bytes = 100 * kMiB - 1; }),
              HasSubstr("max_file_group_size_bytes: must be at least the target"));
  EXPECT_THAT(error([](O& o) { o.max_file_group_files = 1; }), HasSubstr("max_file_group_files"));
  EXPECT_THAT(error([](O& o) { o.max_file_group_records = 0; }),
              HasSubstr("max_file_group_records"));
  EXPECT_THAT(error([](O& o) { o.budget_bytes = -1; }), HasSubstr("budget_bytes"));
}

// One partition, by sizes in MiB.
struct Case {
  const char* what;
  std::vector<int64_t> sizes_mib;
  PartitionState state;
  std::vector<int32_t> inputs;
  int outputs;
  const char* reason;  // Of the group, or else of the partition.
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.what; }

class IcebergPlanSizes : public testing::TestWithParam<Case> {};

TEST_P(IcebergPlanSizes, AreAsTheTableSays) {
  const Case& c = GetParam();
  World world;
  world.AddPartition();
  for (const int64_t mib : c.sizes_mib) world.AddFile(0, mib * kMiB);
  const RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.partitions.size(), 1);
  EXPECT_EQ(plan.partitions[0].state, c.state) << plan.partitions[0].reason;
  EXPECT_EQ(plan.partitions[0].files, std::ssize(c.sizes_mib));
  if (c.inputs.empty()) {
    EXPECT_THAT(plan.groups, IsEmpty());
    EXPECT_EQ(plan.partitions[0].reason, c.reason);
    return;
  }
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_EQ(plan.groups[0].data_files, c.inputs);
  EXPECT_EQ(plan.groups[0].outputs, c.outputs);
  EXPECT_EQ(plan.groups[0].reason, c.reason);
  // I27: what comes of it is not planned again, also if it is 10 % off.
  for (const double factor : {1.0, 0.9, 1.1}) {
    EXPECT_THAT(PlanOf(AfterRewrite(world, plan, factor)).groups, IsEmpty()) << factor;
  }
}

constexpr auto kCandidate = PartitionState::kCandidate;
constexpr auto kTooFew = PartitionState::kTooFewFiles;
constexpr auto kNothing = PartitionState::kNothingToGain;

INSTANTIATE_TEST_SUITE_P(
    I27, IcebergPlanSizes,
    testing::Values(
        Case{"five tiny files",
             {1, 1, 1, 1, 1},
             kCandidate,
             {0, 1, 2, 3, 4},
             1,
             "5 files below 75.0 MiB: 5.0 MiB become 1 file"},
        Case{"four tiny files are too few",
             {1, 1, 1, 1},
             kTooFew,
             {},
             0,
             "4 files below 75.0 MiB < 5 (min_input_files)"},
        Case{"two files with enough content",
             {70, 70},
             kCandidate,
             {0, 1},
             1,
             "2 files below 75.0 MiB: 140.0 MiB become 1 file"},
        Case{"two files of just the target",
             {50, 50},
             kTooFew,
             {},
             0,
             "2 files below 75.0 MiB < 5 (min_input_files)"},
        Case{"1.1 times the target in five files",
             {22, 22, 22, 22, 22},
             kCandidate,
             {0, 1, 2, 3, 4},
             1,
             "5 files below 75.0 MiB: 110.0 MiB become 1 file"},
        Case{"1.6 times the target in five files",
             {32, 32, 32, 32, 32},
             kCandidate,
             {0, 1, 2, 3, 4},
             1,
             "5 files below 75.0 MiB: 160.0 MiB become 1 file"},
        Case{"1.7 times the target in five files",
             {34, 34, 34, 34, 34},
             kCandidate,
             {0, 1, 2, 3, 4},
             2,
             "5 files below 75.0 MiB: 170.0 MiB become 2 files"},
        Case{"just under the minimum",
             {74, 74, 74, 74, 74},
             kCandidate,
             {0, 1, 2, 3, 4},
             4,
             "5 files below 75.0 MiB: 370.0 MiB become 4 files"},
        Case{"at the minimum",
             {75, 75, 75, 75, 75},
             kNothing,
             {},
             0,
             "no file is too small or has too many deletes"},
        Case{"at the maximum",
             {180, 180, 180, 180, 180},
             kNothing,
             {},
             0,
             "no file is too small or has too many deletes"},
        Case{"all oversized",
             {181, 500, 1000, 181, 181, 181},
             kNothing,
             {},
             0,
             "6 files above 180.0 MiB could only become more"},
        Case{"good ones stay",
             {100, 1, 1, 120, 1, 1, 1, 90},
             kCandidate,
             {1, 2, 4, 5, 6},
             1,
             "5 files below 75.0 MiB: 5.0 MiB become 1 file"},
        Case{"an oversized file is split where small ones pay for it",
             {1, 1, 1, 1, 300, 1, 1, 5000},
             kCandidate,
             {0, 1, 2, 3, 4, 5, 6},
             3,
             "6 files below 75.0 MiB, 1 file above 180.0 MiB: 306.0 MiB become 3 files"},
        Case{"but one is not started for it",
             {1, 1, 300},
             kTooFew,
             {},
             0,
             "2 files below 75.0 MiB < 5 (min_input_files)"},
        Case{"one file", {1}, kTooFew, {}, 0, "1 file below 75.0 MiB < 5 (min_input_files)"},
        Case{"empty files",
             {0, 0, 0, 0, 0},
             kCandidate,
             {0, 1, 2, 3, 4},
             1,
             "5 files below 75.0 MiB: 0 B become 1 file"}));

TEST(IcebergPlan, EmptyTable) {
  World world;
  EXPECT_EQ(PlanOf(world).skip_reason, "empty table");
  world.AddPartition();
  EXPECT_EQ(PlanOf(world).skip_reason, "empty table");
  EXPECT_THAT(PlanOf(world).partitions, IsEmpty());
}

TEST(IcebergPlan, R085SkipReasons) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 4, kMiB);
  EXPECT_EQ(PlanOf(world).skip_reason, "below min_input_files");
  world.AddPartition();
  world.AddFiles(1, 4, kMiB);
  EXPECT_EQ(PlanOf(world).skip_reason, "no eligible groups");
  world.AddFile(1, kMiB);
  EXPECT_EQ(PlanOf(world).skip_reason, "");
}

TEST(IcebergPlan, R090FiftyFilesAndAHundredFiles) {
  World fifty;
  fifty.AddPartition();
  fifty.AddFiles(0, 50, 10 * kMiB);
  RewriteOptions options;
  ASSERT_EQ(PlanOf(fifty, options).groups.size(), 1);
  EXPECT_EQ(PlanOf(fifty, options).groups[0].outputs, 1);
  World hundred;
  hundred.AddPartition();
  hundred.AddFiles(0, 100, 5 * kGiB / 100);
  options.target_file_size_bytes = 256 * kMiB;
  EXPECT_EQ(PlanOf(hundred, options).groups.at(0).outputs, 20);
}

TEST(IcebergPlan, R083I13PartitionsAndSpecsAreNeverMixed) {
  World world;
  world.AddPartition({.spec_id = 0, .values = {int64_t{7}}});
  world.AddPartition({.spec_id = 1, .values = {int64_t{7}}});
  world.AddPartition({.spec_id = 1, .values = {int64_t{8}}});
  for (int i = 0; i < 4; ++i) {
    for (const int32_t partition : {2, 0, 1}) world.AddFile(partition, kMiB);
  }
  EXPECT_THAT(PlanOf(world).groups, IsEmpty());  // Twelve files, but four of each.
  world.AddFile(1, kMiB);
  const RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_EQ(plan.groups[0].partition, 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(2, 5, 8, 11, 12));
  EXPECT_EQ(plan.partitions[0].state, PartitionState::kTooFewFiles);
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kCandidate);
}

TEST(IcebergPlan, I13AGroupLimitGivesNoMoreFilesThanTheBytesNeed) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 12, 60 * kMiB);
  RewriteOptions options = Target100();
  options.max_file_group_size_bytes = 240 * kMiB;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 3);
  int outputs = 0;
  for (const FileGroup& group : plan.groups) {
    EXPECT_EQ(group.bytes, 240 * kMiB);
    outputs += group.outputs;
  }
  EXPECT_EQ(outputs, 6);  // 720 MiB: at most 8.
  EXPECT_EQ(plan.partitions[0].reason, "3 groups");
  EXPECT_THAT(PlanOf(AfterRewrite(world, plan, 0.9), options).groups, IsEmpty());
}

TEST(IcebergPlan, I2AFileIsNeverDivided) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 9, 61 * kMiB);
  RewriteOptions options = Target100();
  options.max_file_group_size_bytes = 200 * kMiB;
  const RewritePlan plan = PlanOf(world, options);
  std::set<int32_t> seen;
  for (const FileGroup& group : plan.groups) {
    EXPECT_LE(group.bytes, 200 * kMiB);
    for (const int32_t file : group.data_files) EXPECT_TRUE(seen.insert(file).second);
  }
  EXPECT_EQ(seen.size(), 9);
}

TEST(IcebergPlan, OutputsAreAsNearToTheTargetAsGoes) {
  const auto outputs = [](int files, int64_t mib, int64_t max_mib) {
    World world;
    world.AddPartition();
    world.AddFiles(0, files, mib * kMiB);
    RewriteOptions options = Target100();
    options.max_file_size_bytes = max_mib * kMiB;
    return PlanOf(world, options).groups.at(0).outputs;
  };
  EXPECT_EQ(outputs(17, 60, 0), 10);  // 1020 MiB.
  EXPECT_EQ(outputs(21, 50, 0), 11);  // 1050 MiB.
  EXPECT_EQ(outputs(21, 49, 0), 10);  // 1029 MiB.
  EXPECT_EQ(outputs(5, 30, 0), 1);    // 150 MiB: two of 75 MiB would be candidates again.
  EXPECT_EQ(outputs(5, 30, 120), 2);  // But none may be above the maximum.
  EXPECT_EQ(outputs(5, 24, 120), 1);
}

TEST(IcebergPlan, AFileGoesToTheFirstGroupThatItFitsInto) {
  World world;
  world.AddPartition();
  for (const int64_t mib : {120, 100, 70}) world.AddFile(0, mib * kMiB);
  RewriteOptions options = Target100();
  options.rewrite_all = true;
  options.max_file_group_size_bytes = 200 * kMiB;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 2);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(0, 2));
  EXPECT_THAT(plan.groups[1].data_files, ElementsAre(1));
  // Of many groups those with room stay open.
  World many;
  many.AddPartition();
  many.AddFile(0, 60 * kMiB);
  many.AddFiles(0, 40, 150 * kMiB);
  many.AddFile(0, 60 * kMiB);
  ASSERT_EQ(PlanOf(many, options).groups.size(), 41);
  EXPECT_THAT(PlanOf(many, options).groups[0].data_files, ElementsAre(0, 41));
}

TEST(IcebergPlan, GroupsKeepTheOrderOfAge) {
  World world;
  world.AddPartition();
  for (const int64_t sequence : {9, 3, 7, 1, 5}) world.AddFile(0, kMiB, 100, sequence);
  EXPECT_THAT(PlanOf(world).groups.at(0).data_files, ElementsAre(3, 1, 4, 2, 0));
}

TEST(IcebergPlan, I3WhatCannotMatchIsNoCandidate) {
  World world;
  world.AddPartition();
  world.AddPartition();
  world.AddFiles(0, 6, kMiB);
  world.AddFiles(1, 5, kMiB);
  for (int i = 6; i < 11; ++i) world.live.data_files[static_cast<size_t>(i)].may_match = false;
  world.live.data_files[2].may_match = false;
  RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(0, 1, 3, 4, 5));
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kFiltered);
  EXPECT_EQ(plan.partitions[1].reason, "no file may match the filter");
  RewriteOptions all = Target100();
  all.rewrite_all = true;
  EXPECT_EQ(PlanOf(world, all).groups.size(), 1);
  for (auto& file : world.live.data_files) file.may_match = false;
  EXPECT_EQ(PlanOf(world, all).skip_reason, "no file may match the filter");
}

TEST(IcebergPlan, UnsupportedFilesAreCountedByReason) {
  World world;
  world.AddPartition();
  world.AddPartition();
  world.AddFiles(0, 6, kMiB);
  world.AddFiles(1, 5, kMiB);
  world.live.data_files[0].unsupported = "ORC data";
  for (size_t i = 6; i < 11; ++i) world.live.data_files[i].unsupported = "encrypted";
  const RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(plan.unsupported, ElementsAre(Pair("ORC data", 1), Pair("encrypted", 5)));
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kUnsupported);
  EXPECT_EQ(plan.partitions[1].reason, "no file can be rewritten: encrypted");
  for (auto& file : world.live.data_files) file.unsupported = "encrypted";
  EXPECT_EQ(PlanOf(world).skip_reason, "no file can be rewritten: encrypted");
}

TEST(IcebergPlan, R094DeletesThatCannotBeReadKeepTheirFiles) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 6, kMiB);
  world.AddPositionDeletes(3, 1);
  world.live.delete_files[0].unsupported = "Avro deletes";
  const RewritePlan plan = PlanOf(world);
  EXPECT_THAT(plan.groups.at(0).data_files, ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(plan.unsupported, ElementsAre(Pair("Avro deletes", 1)));
}

TEST(IcebergPlan, I27ASingleFileWithManyDeletesIsRewrittenOnce) {
  for (const bool vector : {false, true}) {
    World world;
    world.AddPartition();
    world.AddFile(0, 100 * kMiB, 1000);
    world.AddPositionDeletes(0, 299).deletion_vector = vector;
    EXPECT_THAT(PlanOf(world).groups, IsEmpty());
    world.live.delete_files[0].records = 300;
    const RewritePlan plan = PlanOf(world);
    ASSERT_EQ(plan.groups.size(), 1);
    EXPECT_THAT(plan.groups[0].data_files, ElementsAre(0));
    EXPECT_EQ(plan.groups[0].records, 1000);
    EXPECT_EQ(plan.groups[0].live_records, 700);
    EXPECT_EQ(plan.groups[0].outputs, 1);
    EXPECT_EQ(plan.groups[0].reason, "1 file with many deletes: 100.0 MiB become 1 file");
    const World after = AfterRewrite(world, plan, 1.0);
    EXPECT_EQ(after.live.data_files.size(), 1);
    EXPECT_THAT(after.live.delete_files, IsEmpty());
    EXPECT_THAT(PlanOf(after).groups, IsEmpty());
  }
}

TEST(IcebergPlan, DeleteRatioCountsOnlyWhatReachesOneFileAndNotMoreThanItHas) {
  World world;
  world.AddPartition();
  world.AddFile(0, 100 * kMiB, 1000);
  world.AddFile(0, 100 * kMiB, 0);
  world.AddPartitionDeletes(0, 5000, 1);
  world.AddEqualityDeletes(0, 5000, 1);
  EXPECT_THAT(PlanOf(world).groups, IsEmpty());
  world.AddPositionDeletes(0, 900);
  world.AddPositionDeletes(0, 900);  // T13: the same rows again.
  const RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(0));
  EXPECT_EQ(plan.groups[0].live_records, 0);  // I26: there may be nothing left.
  EXPECT_EQ(plan.groups[0].outputs, 1);
  RewriteOptions off = Target100();
  off.delete_ratio_threshold = 0;
  EXPECT_THAT(PlanOf(world, off).groups, IsEmpty());
}

TEST(IcebergPlan, R087DeleteFileThresholdCountsEveryKind) {
  World world;
  world.AddPartition();
  world.AddFile(0, 100 * kMiB, 1000, 1);
  world.AddFile(0, 100 * kMiB, 1000, 5);
  world.live.sequence_number = 9;
  world.AddPositionDeletes(0, 1, 5);
  world.AddPartitionDeletes(0, 1, 5);  // Applies to both.
  world.AddEqualityDeletes(0, 1, 5);   // Only to the older one.
  RewriteOptions options = Target100();
  options.delete_file_threshold = 3;
  EXPECT_THAT(PlanOf(world, options).groups.at(0).data_files, ElementsAre(0));
  options.delete_file_threshold = 4;
  EXPECT_THAT(PlanOf(world, options).groups, IsEmpty());
  options.delete_file_threshold = 1;
  EXPECT_THAT(PlanOf(world, options).groups.at(0).data_files, ElementsAre(0, 1));
}

TEST(IcebergPlan, I26KnownDeletesMakeFewerOutputs) {
  World world;
  world.AddPartition();
  for (int32_t i = 0; i < 4; ++i) {
    world.AddFile(0, 100 * kMiB, 1000);
    world.AddPositionDeletes(i, 750);
  }
  const RewritePlan plan = PlanOf(world);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_EQ(plan.groups[0].bytes, 400 * kMiB);
  EXPECT_EQ(plan.groups[0].live_records, 1000);
  EXPECT_EQ(plan.groups[0].outputs, 1);
  EXPECT_THAT(PlanOf(AfterRewrite(world, plan, 1.0)).groups, IsEmpty());
}

TEST(IcebergPlan, I27SmallFilesGoWithDeletesSoThatNoneIsLeftForTheNextRun) {
  // Four small files are too few, and the fifth is what the deletes leave.
  World world;
  world.AddPartition();
  world.AddFile(0, 100 * kMiB, 1000);
  world.AddPositionDeletes(0, 400);
  world.AddFiles(0, 4, kMiB);
  const RewritePlan plan = PlanOf(world);
  EXPECT_THAT(plan.groups.at(0).data_files, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(plan.groups[0].reason,
            "4 files below 75.0 MiB, 1 file with many deletes: 104.0 MiB become 1 file");
  EXPECT_THAT(PlanOf(AfterRewrite(world, plan, 1.0)).groups, IsEmpty());
}

TEST(IcebergPlan, OutputsAreNeverMoreThanInputsNotEvenWithDeletes) {
  World world;
  world.AddPartition();
  world.AddFile(0, 1000 * kMiB, 1000);
  world.AddPositionDeletes(0, 400);
  const RewritePlan plan = PlanOf(world);
  EXPECT_EQ(plan.groups.at(0).outputs, 1);
  EXPECT_THAT(PlanOf(AfterRewrite(world, plan, 1.0)).groups, IsEmpty());
}

TEST(IcebergPlan, R088RewriteAllTakesEveryFile) {
  World world;
  world.AddPartition();
  world.AddPartition();
  world.AddFile(0, 100 * kMiB);
  world.AddFile(0, 300 * kMiB);
  world.AddFile(1, kMiB);
  RewriteOptions options = Target100();
  options.rewrite_all = true;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 2);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(0, 1));
  EXPECT_EQ(plan.groups[0].outputs, 2);  // Not four.
  EXPECT_EQ(plan.groups[0].reason,
            "1 file above 180.0 MiB, 1 file of good size (rewrite_all): 400.0 MiB become 2 files");
  EXPECT_THAT(plan.groups[1].data_files, ElementsAre(2));
}

TEST(IcebergPlan, I32ManyRowsInFewBytesAreCut) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 10, 20'000, 1'400'000);
  RewriteOptions options = Target100();
  options.max_file_group_records = 7'000'000;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 2);
  for (const FileGroup& group : plan.groups) {
    EXPECT_EQ(group.records, 7'000'000);
    EXPECT_EQ(group.outputs, 1);
  }
  EXPECT_THAT(PlanOf(AfterRewrite(world, plan, 1.0), options).groups, IsEmpty());
}

TEST(IcebergPlan, GroupsHaveAtMostSoManyFiles) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 25, kMiB);
  RewriteOptions options = Target100();
  options.max_file_group_files = 10;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 3);
  EXPECT_EQ(plan.groups[0].data_files.size(), 10);
  EXPECT_EQ(plan.groups[2].data_files.size(), 5);
}

TEST(IcebergPlan, TooFewReasonWhenGroupsAreSmall) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 6, 70 * kMiB);
  RewriteOptions options = Target100();
  options.max_file_group_size_bytes = 100 * kMiB;
  const RewritePlan plan = PlanOf(world, options);
  EXPECT_THAT(plan.groups, IsEmpty());
  EXPECT_EQ(plan.partitions[0].reason,
            "6 files below 75.0 MiB, but no 5 (min_input_files) of them fit into one group");
}

TEST(IcebergPlan, JobOrder) {
  World world;
  for (int32_t p = 0; p < 3; ++p) world.AddPartition();
  world.AddFiles(0, 5, 3 * kMiB);
  world.AddFiles(1, 9, kMiB);
  world.AddFiles(2, 6, 4 * kMiB);
  const auto order = [&](JobOrder by) {
    RewriteOptions options = Target100();
    options.rewrite_job_order = by;
    std::vector<int32_t> partitions;
    for (const FileGroup& group : PlanOf(world, options).groups) {
      partitions.push_back(group.partition);
    }
    return partitions;
  };
  EXPECT_THAT(order(JobOrder::kNone), ElementsAre(0, 1, 2));
  EXPECT_THAT(order(JobOrder::kBytesAsc), ElementsAre(1, 0, 2));
  EXPECT_THAT(order(JobOrder::kBytesDesc), ElementsAre(2, 0, 1));
  EXPECT_THAT(order(JobOrder::kFilesAsc), ElementsAre(0, 2, 1));
  EXPECT_THAT(order(JobOrder::kFilesDesc), ElementsAre(1, 2, 0));
}

TEST(IcebergPlan, I33BudgetTakesGroupsInOrderWhileTheyFit) {
  World world;
  for (int32_t p = 0; p < 4; ++p) world.AddPartition();
  world.AddFiles(0, 5, 30 * kMiB);  // 150 MiB
  world.AddFiles(1, 5, 20 * kMiB);  // 100 MiB
  world.AddFiles(2, 5, 10 * kMiB);  // 50 MiB
  world.AddFiles(3, 2, kMiB);
  RewriteOptions options = Target100();
  options.budget_bytes = 200 * kMiB;
  const RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 2);
  EXPECT_EQ(plan.groups[0].partition, 0);
  EXPECT_EQ(plan.groups[1].partition, 2);
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kSkipped);
  EXPECT_EQ(plan.partitions[1].reason, "beyond the budget of 200.0 MiB: left for the next run");
  EXPECT_EQ(plan.partitions[3].state, PartitionState::kTooFewFiles);
  // Groups are cut to fit it, and one is always made.
  options.budget_bytes = 1;
  const RewritePlan least = PlanOf(world, options);
  ASSERT_EQ(least.groups.size(), 1);
  EXPECT_EQ(least.groups[0].bytes, 100 * kMiB);
}

TEST(IcebergPlan, OnlyThePartitionsThatAreAskedForAreTouched) {
  World world;
  for (const char* day : {"one", "two", "three"}) {
    world.AddPartition({.spec_id = 0, .values = {std::string(day)}});
  }
  for (int32_t p = 0; p < 3; ++p) world.AddFiles(p, 5, kMiB);
  RewriteOptions options = Target100();
  options.only_partitions = {world.live.partitions[1]};
  RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_EQ(plan.groups[0].partition, 1);
  EXPECT_EQ(plan.partitions[0].state, PartitionState::kSkipped);
  EXPECT_EQ(plan.partitions[0].reason, "not one of the partitions that were asked for");
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kCandidate);
  options.only_partitions->clear();
  plan = PlanOf(world, options);
  EXPECT_THAT(plan.groups, IsEmpty());
  EXPECT_EQ(plan.skip_reason, "no eligible groups");
}

TEST(IcebergPlan, I33HotPartitionsAreSkipped) {
  World world;
  const iceberg::PartitionKey hot = {.spec_id = 0, .values = {std::string("today")}};
  world.AddPartition({.spec_id = 0, .values = {std::string("before")}});
  world.AddPartition(hot);
  world.AddFiles(0, 5, kMiB);
  world.AddFiles(1, 5, kMiB);
  RewriteOptions options = Target100();
  options.skip_partitions = {hot};
  RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_EQ(plan.groups[0].partition, 0);
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kSkipped);
  options.skip_partitions.push_back(world.live.partitions[0]);
  plan = PlanOf(world, options);
  EXPECT_THAT(plan.groups, IsEmpty());
  EXPECT_EQ(plan.skip_reason, "all eligible partitions are hot");
}

// Three partitions of spec 0, and one of spec 1 that is well as it is.
World WorldOfTwoSpecs() {
  World world;
  world.AddPartition({.spec_id = 0, .values = {int64_t{9}}});
  world.AddPartition({.spec_id = 1, .values = {int64_t{7}}});
  world.AddPartition({.spec_id = 0, .values = {int64_t{8}}});
  world.AddPartition({.spec_id = 0, .values = {int64_t{7}}});
  world.AddFile(0, 100 * kMiB);
  world.AddFile(1, 100 * kMiB);
  world.AddFile(2, kMiB);
  world.AddFile(3, 500 * kMiB);
  world.AddFile(0, kMiB);
  world.AddFile(1, kMiB);
  return world;
}

TEST(IcebergPlan, Q18RowsMoveToTheOutputSpecWhenAskedTo) {
  const World world = WorldOfTwoSpecs();
  EXPECT_THAT(PlanOf(world).groups, IsEmpty());
  RewriteOptions options = Target100();
  options.output_spec_id = 1;
  RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  const FileGroup& group = plan.groups[0];
  EXPECT_TRUE(group.moves);
  // By the old partitions' values: rows of neighbours are likely to meet again.
  EXPECT_THAT(group.data_files, ElementsAre(3, 2, 0, 4));
  EXPECT_EQ(group.bytes, 602 * kMiB);
  EXPECT_EQ(group.records, 400);
  EXPECT_EQ(group.outputs, 6);
  EXPECT_EQ(group.reason, "4 files of other partition specs: 602.0 MiB move to spec 1");
  EXPECT_EQ(plan.partitions[0].state, PartitionState::kCandidate);
  EXPECT_EQ(plan.partitions[0].reason, "2 files to spec 1");
  EXPECT_EQ(plan.partitions[1].state, PartitionState::kTooFewFiles);
  // Files of the output spec are candidates like ever, in groups of their own.
  options.output_spec_id = 0;
  plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(1, 5));
  // I27: nothing is left of another spec.
  options.output_spec_id = 1;
  World after;
  after.AddPartition({.spec_id = 1, .values = {int64_t{7}}});
  after.AddFile(0, kMiB);
  EXPECT_THAT(PlanOf(after, options).groups, IsEmpty());
}

TEST(IcebergPlan, Q18MovesKeepToLimitsFiltersAndHotPartitions) {
  World world = WorldOfTwoSpecs();
  RewriteOptions options = Target100();
  options.output_spec_id = 1;
  options.max_moved_group_records = 250;  // 100 per file.
  RewritePlan plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 2);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(3, 2));
  EXPECT_THAT(plan.groups[1].data_files, ElementsAre(0, 4));
  EXPECT_EQ(plan.groups[1].partition, 0);

  options = Target100();
  options.output_spec_id = 1;
  options.skip_partitions = {world.live.partitions[2]};
  world.live.data_files[0].may_match = false;
  world.live.data_files[3].unsupported = "ORC data";
  plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(4));
  EXPECT_EQ(plan.partitions[2].state, PartitionState::kSkipped);
  EXPECT_EQ(plan.partitions[3].state, PartitionState::kUnsupported);
  EXPECT_THAT(plan.unsupported, ElementsAre(Pair("ORC data", 1)));

  // The budget takes whole groups, and every partition of one is planned.
  options = Target100();
  options.output_spec_id = 1;
  options.budget_bytes = 100 * kMiB;
  world = WorldOfTwoSpecs();
  plan = PlanOf(world, options);
  ASSERT_EQ(plan.groups.size(), 1);
  for (const FileGroup& group : plan.groups) {
    for (const int32_t file : group.data_files) {
      const auto at =
          static_cast<size_t>(world.live.data_files[static_cast<size_t>(file)].partition);
      EXPECT_EQ(plan.partitions[at].state, PartitionState::kCandidate);
    }
  }
}

TEST(IcebergPlan, OutputsOfOnePartition) {
  EXPECT_EQ(SizesOf(Target100()).Outputs(-1), 1);
  EXPECT_EQ(SizesOf(Target100()).Outputs(0), 1);
  EXPECT_EQ(SizesOf(Target100()).Outputs(149 * kMiB), 1);
  EXPECT_EQ(SizesOf(Target100()).Outputs(300 * kMiB), 3);
}

TEST(IcebergPlan, HostileNumbersDoNotOverflow) {
  World world;
  world.AddPartition();
  const int64_t most = std::numeric_limits<int64_t>::max();
  world.AddFiles(0, 3, most, most);
  world.AddFiles(0, 3, std::numeric_limits<int64_t>::min(), -5);
  for (int32_t i = 0; i < 6; ++i) world.AddPositionDeletes(i, most);
  RewriteOptions options;
  options.rewrite_all = true;
  int64_t files = 0;
  for (const FileGroup& group : PlanOf(world, options).groups) {
    EXPECT_GE(group.bytes, 0);
    EXPECT_GE(group.records, 0);
    EXPECT_LE(group.outputs, std::ssize(group.data_files));
    files += std::ssize(group.data_files);
  }
  EXPECT_EQ(files, 6);
  const TableHealth health = AssessHealth({}, world.live, DeleteIndex(world.live), options);
  EXPECT_EQ(health.total_bytes, most);
  EXPECT_EQ(health.p50_file_bytes, most);
}

TEST(IcebergHealth, R073R081Columns) {
  World world;
  world.AddPartition();
  world.AddFiles(0, 5, 10 * kMiB, 100);
  world.AddFile(0, 100 * kMiB, 1000);
  world.AddFile(0, 99 * kMiB, 500);
  world.AddPositionDeletes(5, 320);
  world.AddEqualityDeletes(0, 80, 1);
  world.AddPositionDeletes(0, 1).referenced_data_file = "gone";
  iceberg::TableMetadata table;
  table.properties["sqe.maintenance.enabled"] = "true";
  const DeleteIndex deletes(world.live);
  const TableHealth health = AssessHealth(table, world.live, deletes, Target100());
  EXPECT_EQ(health.small_files, 6);  // R075: below the target.
  EXPECT_DOUBLE_EQ(health.avg_file_mb, 35.6);
  EXPECT_DOUBLE_EQ(health.delete_ratio, 401.0 / 2000);
  EXPECT_EQ(health.eligible_groups, 1);
  EXPECT_TRUE(health.opted_in);
  EXPECT_EQ(health.live_data_files, 7);
  EXPECT_EQ(health.avg_file_bytes, 249 * kMiB / 7);
  EXPECT_EQ(health.p50_file_bytes, 10 * kMiB);
  EXPECT_EQ(health.total_bytes, 249 * kMiB);
  EXPECT_EQ(health.total_records, 2000);
  EXPECT_EQ(health.delete_files, 3);
  EXPECT_EQ(health.delete_heavy_files, 1);
  EXPECT_EQ(health.dangling_delete_files, 2);
  EXPECT_EQ(health.est_rewrite_bytes, 150 * kMiB);
  EXPECT_FALSE(health.last_compaction_snapshot_ms);
}

TEST(IcebergHealth, R075AnEmptyTableIsAllZeros) {
  const World world;
  const TableHealth health = AssessHealth({}, world.live, DeleteIndex(world.live), {});
  EXPECT_EQ(health.live_data_files, 0);
  EXPECT_EQ(health.avg_file_mb, 0);
  EXPECT_EQ(health.delete_ratio, 0);
  EXPECT_EQ(health.p50_file_bytes, 0);
  EXPECT_EQ(health.eligible_groups, 0);
  EXPECT_FALSE(health.opted_in);
}

TEST(IcebergHealth, R075TheUpperMedian) {
  World world;
  world.AddPartition();
  for (const int64_t size : {4, 1, 3, 2}) world.AddFile(0, size);
  EXPECT_EQ(AssessHealth({}, world.live, DeleteIndex(world.live), {}).p50_file_bytes, 3);
}

TEST(IcebergHealth, R078LastCompaction) {
  const World world;
  iceberg::TableMetadata table;
  const auto add = [&](int64_t ms, std::map<std::string, std::string> summary) {
    iceberg::Snapshot snapshot;
    snapshot.timestamp_ms = ms;
    snapshot.summary = std::move(summary);
    table.snapshots.push_back(snapshot);
  };
  const auto last = [&] {
    return AssessHealth(table, world.live, DeleteIndex(world.live), {}).last_compaction_snapshot_ms;
  };
  add(5, {{"operation", "replace"}});
  EXPECT_EQ(last(), std::nullopt);
  add(3, {{"sqe.maintenance.job-id", "x"}});
  EXPECT_EQ(last(), 3);
  add(7, {{"lithify.maintenance.job-id", "y"}});
  add(6, {{"sqe.maintenance.trigger", "manual"}});
  EXPECT_EQ(last(), 7);
  add(9, {{"lithify.maintenance.job-id", "z"}, {"manifests-replaced", "4"}});
  EXPECT_EQ(last(), 7);
  add(8, {{"lithify.job-id", "v"}, {"manifests-replaced", "4"}, {"deleted-data-files", "2"}});
  EXPECT_EQ(last(), 8);
}

TEST(IcebergHealth, R054OptedInOnlyIfNobodyObjects) {
  const char* sqe = "sqe.maintenance.enabled";
  const char* own = "lithify.maintenance.enabled";
  EXPECT_FALSE(OptedIn({}));
  EXPECT_TRUE(OptedIn({{sqe, "true"}}));
  EXPECT_TRUE(OptedIn({{own, "true"}}));
  EXPECT_TRUE(OptedIn({{sqe, "true"}, {own, "true"}}));
  for (const char* no : {"True", "TRUE", " true", "true ", "1", "yes", "t", ""}) {
    EXPECT_FALSE(OptedIn({{sqe, no}})) << no;  // R028: letter by letter.
    EXPECT_FALSE(OptedIn({{sqe, "true"}, {own, no}})) << no;
  }
  EXPECT_FALSE(OptedIn({{sqe, "true"}, {own, "false"}}));
  EXPECT_FALSE(OptedIn({{sqe, "false"}, {own, "true"}}));
  EXPECT_FALSE(OptedIn({{sqe, "yes"}}));
  EXPECT_FALSE(OptedIn({{sqe, "true"}, {own, ""}}));
  EXPECT_FALSE(OptedIn({{"maintenance.enabled", "true"}}));
  const char* expire = "lithify.maintenance.expire-snapshots.enabled";
  const char* name = "expire-snapshots.enabled";
  EXPECT_TRUE(OptedInTo({{expire, "true"}}, name, kMaintenancePrefixes));
  EXPECT_FALSE(OptedInTo({{sqe, "true"}}, name, kMaintenancePrefixes));
  EXPECT_FALSE(OptedInTo({{expire, "true"}}, name, std::span(kMaintenancePrefixes).first(1)));
}

}  // namespace
}  // namespace lithify::plan
