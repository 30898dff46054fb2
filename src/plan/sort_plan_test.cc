#include "plan/sort_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/order_mark.h"
#include "base/text.h"
#include "plan/iceberg_plan.h"
#include "plan/iceberg_world_test.h"

namespace lithify::plan {
namespace {

using iceberg::KeyRange;
using iceberg::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int64_t kTarget = 100 * kMiB;

RowOrder ByTs(Curve curve = Curve::kNone) {
  OrderField field;
  field.field_id = 1;
  field.column = "ts";
  return {.fields = {field}, .curve = curve};
}

class SortPlan : public testing::Test {
 protected:
  SortPlan() {
    world_.AddPartition();
    options_.target_file_size_bytes = kTarget;
    options_.strategy = Strategy::kSort;
    options_.sort = SortTarget{.order = ByTs(), .sort_order_id = 3, .ranges = true};
  }

  // Of good size, and of the wanted order, if nothing else is said.
  int32_t Add(const KeyRange& keys, int64_t size = kTarget, std::optional<int> stamp = 3) {
    iceberg::LiveDataFile& file = world_.AddFile(0, size);
    file.sort_order_id = stamp;
    world_.live.key_ranges.push_back(keys);
    return static_cast<int32_t>(world_.live.data_files.size()) - 1;
  }
  int32_t Add(int64_t lower, int64_t upper, int64_t size = kTarget, std::optional<int> stamp = 3) {
    return Add(KeyRange{.lower = lower, .upper = upper}, size, stamp);
  }
  int32_t AddText(const std::string& lower, const std::string& upper) {
    return Add(KeyRange{.lower = lower, .upper = upper});
  }
  iceberg::LiveDataFile& File(int32_t at) {
    return world_.live.data_files[static_cast<size_t>(at)];
  }
  void Mark(int32_t at, const std::string& job, int64_t group = 0) {
    File(at).path = "data/" + std::to_string(1'000'000'000 + at) +
                    OrderSuffix(options_.sort->order, job, group) + ".parquet";
  }

  RewritePlan Plan() const {
    return PlanRewrite(world_.live, iceberg::DeleteIndex(world_.live), options_);
  }
  std::vector<std::vector<int32_t>> Groups() const {
    std::vector<std::vector<int32_t>> groups;
    for (const FileGroup& group : Plan().groups) groups.push_back(group.data_files);
    return groups;
  }
  std::string Verdict() const { return Plan().partitions.at(0).reason; }

  World world_;
  RewriteOptions options_;
};

// W1, T8: what overlaps is rewritten, whatever its size, and nothing else.
TEST_F(SortPlan, W1OnlyFilesThatShareKeysAreRewritten) {
  Add(0, 9);
  const int32_t a = Add(10, 25);
  const int32_t b = Add(20, 30);
  Add(30, 40);  // Touches.
  const RewritePlan plan = Plan();
  ASSERT_EQ(plan.groups.size(), 1);
  EXPECT_THAT(plan.groups[0].data_files, ElementsAre(a, b));
  EXPECT_TRUE(plan.groups[0].sorted);
  EXPECT_EQ(plan.groups[0].outputs, 2);
  EXPECT_EQ(plan.groups[0].reason,
            "2 files: 2 files that share a ts with others (up to 2 at a time): 200.0 MiB become 2 "
            "files");
  EXPECT_EQ(plan.partitions[0].reason, "1 group, up to 2 files share a ts");
  ASSERT_TRUE(plan.partitions[0].files_per_key);
  EXPECT_GT(plan.partitions[0].files_per_key->before, plan.partitions[0].files_per_key->after);
}

TEST_F(SortPlan, T8AnOrderedPartitionIsNoCandidateWhoeverWroteIt) {
  for (int i = 0; i < 20; ++i) Add(i * 10, i * 10 + 10);
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_EQ(Plan().partitions[0].state, PartitionState::kNothingToGain);
  EXPECT_EQ(Verdict(), "in order: no two files share a ts");
  EXPECT_EQ(Plan().skip_reason, "no eligible groups");
}

TEST_F(SortPlan, ChainsOfOverlapAreOneGroupAndApartOnesAreTwo) {
  const int32_t a = Add(0, 10);
  const int32_t c = Add(15, 30);
  const int32_t b = Add(5, 20);
  const int32_t d = Add(100, 110);
  const int32_t e = Add(105, 120);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(a, c, b), ElementsAre(d, e)));
}

TEST_F(SortPlan, APointWithinARangeOverlapsAndOneAtItsEndDoesNot) {
  Add(0, 10);
  Add(10, 10);
  Add(10, 20);
  EXPECT_THAT(Groups(), IsEmpty());
  const int32_t range = Add(30, 40);
  const int32_t point = Add(35, 35);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(range, point)));
}

// iceberg#16330.
TEST_F(SortPlan, FilesOfAnotherSortOrderAreRewrittenThoughTheyShareNoKeys) {
  Add(0, 9);
  const int32_t none = Add(10, 19, kTarget, std::nullopt);
  Add(20, 29);
  const int32_t other = Add(30, 39, kTarget, 2);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(none), ElementsAre(other)));
  EXPECT_THAT(Plan().groups[0].reason, HasSubstr("1 file not known to be in the order ts"));
  // Of an order that has no id, files have no stamp to tell by.
  options_.sort->sort_order_id = std::nullopt;
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(SortPlan, SmallNeighboursAreMergedAndJoinWhatIsRewritten) {
  options_.min_input_files = 3;
  std::vector<int32_t> small;
  for (int i = 0; i < 3; ++i) small.push_back(Add(i * 10, i * 10 + 9, kTarget / 10));
  Add(30, 39);
  Add(40, 49, kTarget / 10);  // Two alone are too few.
  Add(50, 59, kTarget / 10);
  EXPECT_THAT(Groups(), ElementsAre(small));
  Add(52, 55);
  EXPECT_THAT(Groups(), ElementsAre(small, ElementsAre(4, 5, 6)));
}

TEST_F(SortPlan, SmallFilesOnBothSidesOfAGoodOneStayApart) {
  options_.min_input_files = 2;
  Add(0, 9, kTarget / 10);
  Add(10, 19);
  Add(20, 29, kTarget / 10);
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_EQ(Plan().partitions[0].state, PartitionState::kTooFewFiles);
  EXPECT_THAT(Verdict(), HasSubstr("fewer than 2 small files lie side by side"));
}

// Merged over it, they would share keys with what must stay.
TEST_F(SortPlan, NothingIsMovedAcrossAFileThatMustStay) {
  options_.min_input_files = 2;
  Add(0, 9, kTarget / 10);
  File(Add(10, 19)).unsupported = "ORC file";
  Add(20, 29, kTarget / 10);
  EXPECT_THAT(Groups(), IsEmpty());
  File(1).unsupported = {};
  File(1).may_match = false;
  EXPECT_THAT(Groups(), IsEmpty());
  // Nor where it reaches over the gap from before.
  world_.live.key_ranges[1] = {.lower = int64_t{-5}, .upper = int64_t{40}};
  EXPECT_THAT(Groups(), IsEmpty());
  world_.live.key_ranges[1] = {.lower = int64_t{-5}, .upper = int64_t{9}};
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 2)));
}

TEST_F(SortPlan, DeletesMakeACandidate) {
  const int32_t file = Add(0, 9);
  Add(10, 19);
  world_.AddPositionDeletes(file, 50);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(file)));
  EXPECT_THAT(Plan().groups[0].reason, HasSubstr("1 file with many deletes"));
}

TEST_F(SortPlan, UnknownBoundsReachOverEverything) {
  Add(0, 9);
  Add(10, 19);
  Add(KeyRange{});
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST_F(SortPlan, NullsLieOnTheirSide) {
  // Two files with nulls share them, wherever their values are.
  Add({.lower = 0, .upper = 9, .nulls = true});
  Add({.lower = 20, .upper = 29, .nulls = true});
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1)));
  // One with nulls first and lowest values is in order, and one of nulls alone before it.
  world_.live.data_files.pop_back();
  world_.live.key_ranges.pop_back();
  Add({.nulls = true, .no_values = true});
  Add(20, 29);
  EXPECT_THAT(Groups(), IsEmpty());
  // With nulls last, the values between lie within.
  options_.sort->order.fields[0].nulls_first = false;
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 2)));
  // Descending and last, they are at the low end again.
  options_.sort->order.fields[0].ascending = false;
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(SortPlan, NaNsLieAboveAllValues) {
  Add({.lower = 0.5, .upper = 1.5, .nans = true});
  Add({.lower = -2.5, .upper = -1.5});
  EXPECT_THAT(Groups(), IsEmpty());
  Add({.lower = 2.5, .upper = 3.5});
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 2)));
}

TEST_F(SortPlan, AFileWithoutRowsLiesNowhere) {
  Add(0, 9);
  Add(KeyRange{.no_values = true}, 1000);
  EXPECT_THAT(Groups(), IsEmpty());
}

// What one sort wrote shares no keys, also where cut bounds look as if it did.
TEST_F(SortPlan, FilesOfOneRunDoNotOverlap) {
  for (int i = 0; i < 4; ++i)
    Mark(AddText("https://example", "https://examplf-" + std::to_string(i)), "job");
  EXPECT_THAT(Groups(), IsEmpty());
  AddText("https://example", "https://examplg");
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_EQ(Verdict(), "1 group, up to 2 files share a ts");
}

TEST_F(SortPlan, CutBoundsOfNeighboursTouch) {
  AddText("abc", "abd");
  AddText("abd", "abe");
  AddText("abd", "xyz");
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_TRUE(IsNextBound(std::string("ab"), std::string("ac")));
  EXPECT_TRUE(IsNextBound(std::string("a\x7f"), std::string("a\xc2\x80")));
  EXPECT_TRUE(IsNextBound(std::string("\xed\x9f\xbf"), std::string("\xee\x80\x80")));
  EXPECT_TRUE(IsNextBound(std::string("a\xfe"), std::string("a\xff")));
  EXPECT_FALSE(IsNextBound(std::string("ab"), std::string("ad")));
  EXPECT_FALSE(IsNextBound(std::string("ab"), std::string("ab")));
  EXPECT_FALSE(IsNextBound(std::string("ab"), std::string("ac\x01")));
  EXPECT_FALSE(IsNextBound(std::string(), std::string("a")));
  EXPECT_FALSE(IsNextBound(Value(int64_t{1}), Value(int64_t{2})));
}

TEST_F(SortPlan, OverlapBelowTheThresholdIsTolerated) {
  options_.min_overlap_depth = 3;
  Add(0, 10);
  Add(5, 15);
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_EQ(Verdict(), "in order: up to 2 files share a ts, fewer than 3 (min_overlap_depth)");
  Add(6, 8);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST_F(SortPlan, ATooLargeClusterIsCutInTheOrderOfKeys) {
  options_.max_file_group_size_bytes = 2 * kTarget;
  for (int i = 0; i < 4; ++i) Add(40 - i * 10, 60 - i * 10);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(2, 3), ElementsAre(0, 1)));
  EXPECT_THAT(Verdict(), HasSubstr("cut where a group is full"));
  options_.max_file_group_size_bytes = kTarget;
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_THAT(Verdict(), HasSubstr("no two of them fit into one group"));
}

TEST_F(SortPlan, RowsBoundAGroup) {
  options_.max_sorted_group_records = 200;
  for (int i = 0; i < 3; ++i) Add(0, 10);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1)));
}

TEST_F(SortPlan, RewriteAllTakesWhatIsInOrder) {
  options_.rewrite_all = true;
  Add(0, 9);
  Add(10, 19);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(Plan().groups[0].reason, HasSubstr("in order (rewrite_all)"));
}

// --- curves, and bounds that tell nothing ---

class CubePlan : public SortPlan {
 protected:
  CubePlan() {
    options_.sort = SortTarget{.order = ByTs(Curve::kZOrder)};
    options_.min_input_files = 5;
  }
  int32_t AddCube(const std::string& job, int files, int64_t size = kTarget) {
    const auto first = static_cast<int32_t>(world_.live.data_files.size());
    for (int i = 0; i < files; ++i) Mark(Add(KeyRange{}, size, std::nullopt), job);
    return first;
  }
};

TEST_F(CubePlan, FilesWithoutACubeAreSortedTogetherOnce) {
  Add(KeyRange{}, kTarget, std::nullopt);
  Add(KeyRange{}, kTarget, std::nullopt);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(Plan().groups[0].reason,
            "2 files: of 2 sorts, 2 files not known to be in the order zorder(ts): 200.0 MiB "
            "become 2 files");
  EXPECT_EQ(Plan().partitions[0].files_per_key->before, 2);
  EXPECT_EQ(Plan().partitions[0].files_per_key->after, 1);
  Mark(0, "job");
  Mark(1, "job");
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_EQ(Verdict(), "in order: all of one sort");
}

// A curve through two columns gives each of them the root of the files.
TEST_F(CubePlan, ACurveOpensAShareOfItsFiles) {
  options_.sort->order.fields.push_back({.field_id = 2, .column = "b"});
  for (int i = 0; i < 16; ++i) Add(KeyRange{}, kTarget, std::nullopt);
  const auto files = Plan().partitions[0].files_per_key;
  EXPECT_DOUBLE_EQ(files->before, 16);
  EXPECT_DOUBLE_EQ(files->after, 4);
}

TEST_F(CubePlan, OneFileIsSortedToo) {
  Add(KeyRange{}, kTarget, std::nullopt);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0)));
}

TEST_F(CubePlan, LargeCubesAreLeftAloneAndSmallOnesJoinWhatIsNew) {
  AddCube("large", 9);
  const int32_t small = AddCube("small", 2);
  EXPECT_THAT(Groups(), IsEmpty());
  const int32_t fresh = Add(KeyRange{}, kTarget / 10, std::nullopt);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(small, small + 1, fresh)));
}

TEST_F(CubePlan, SmallCubesAreMerged) {
  AddCube("one", 2);
  AddCube("two", 2);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1, 2, 3)));
  options_.min_overlap_depth = 3;
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(CubePlan, ACubeOfAnotherCurveIsNone) {
  AddCube("one", 9);
  options_.sort->order.curve = Curve::kHilbert;
  EXPECT_EQ(Groups().at(0).size(), 9);
}

TEST_F(CubePlan, DeletesTakeOnlyTheirFilesFromALargeCube) {
  AddCube("large", 10);
  world_.AddPositionDeletes(4, 50);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(4)));
  // Unless the rest of the cube would be a small one.
  world_.AddPositionDeletes(5, 50);
  world_.AddPositionDeletes(6, 50);
  EXPECT_EQ(Groups().at(0).size(), 10);
}

TEST_F(CubePlan, ManySmallFilesOfOneCubeAreMerged) {
  AddCube("one", 5, kTarget / 10);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
}

TEST_F(CubePlan, AsManyCubesAsBeforeAreNoGain) {
  options_.max_file_group_size_bytes = 2 * kTarget;
  AddCube("one", 2);
  AddCube("two", 2);
  // So bounded, two targets are a large cube.
  EXPECT_THAT(Groups(), IsEmpty());
  options_.max_file_group_size_bytes = 5 * kTarget;
  EXPECT_EQ(Groups().size(), 1);
  options_.max_sorted_group_records = 200;
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_THAT(Verdict(), HasSubstr("no two of them fit"));
}

// Metrics are off for the key: the same rules, with the stamp for what others wrote.
TEST_F(CubePlan, OrdersWhoseBoundsTellNothingGoByRunsToo) {
  options_.sort = SortTarget{.order = ByTs(), .sort_order_id = 3, .ranges = true};
  Add(KeyRange{}, kTarget, 3);
  EXPECT_THAT(Groups(), IsEmpty());
  Add(KeyRange{}, kTarget, 3);
  EXPECT_THAT(Groups(), ElementsAre(ElementsAre(0, 1)));
  Mark(0, "job");
  Mark(1, "job");
  EXPECT_THAT(Groups(), IsEmpty());
}

}  // namespace
}  // namespace lithify::plan
