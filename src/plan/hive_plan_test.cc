#include "plan/hive_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "base/random.h"

namespace lithify::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Time At(const char* text) { return ParseTime(text).value(); }

const Time kStart = At("2026-11-29T07:00:00Z");
const Time kEnd = At("2026-11-29T08:00:00Z");
const Time kLater = At("2026-11-30T00:00:00Z");
constexpr Duration kMicro{1};

HivePartitionState Partition(const std::vector<int64_t>& sizes) {
  HivePartitionState state;
  state.id.series = "data";
  state.id.key_prefix = "data/tenant_id=a/year=2026/month=11/day=29/hour=07/";
  state.id.start = kStart;
  state.id.end = kEnd;
  for (size_t i = 0; i < sizes.size(); ++i) {
    HiveFile file;
    file.name = "f" + std::string(i < 10 ? "0" : "") + std::to_string(i) + ".parquet";
    file.size = sizes[i];
    file.modified = kStart;
    file.state = FileState::kLive;
    state.files.push_back(file);
  }
  return state;
}

HiveManifest Manifest(std::vector<std::string> files, bool has_lineage = true) {
  HiveManifest manifest;
  manifest.generation = 3;
  manifest.files = std::move(files);
  manifest.has_lineage = has_lineage;
  return manifest;
}

HiveFile File(std::string name, Time modified, FileState state = FileState::kOther) {
  HiveFile file;
  file.name = std::move(name);
  file.size = 7;
  file.modified = modified;
  file.state = state;
  return file;
}

TEST(HivePlanVerdict, EmptyWithoutLiveFiles) {
  HivePartitionState state = Partition({1, 2});
  state.files[0].state = FileState::kRetired;
  state.files[1].state = FileState::kAmbiguous;
  const PartitionPlan plan = PlanPartition(state, {}, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kEmpty);
  EXPECT_EQ(plan.reason, "0 live files");
  EXPECT_EQ(plan.live_files, 0);
}

TEST(HivePlanVerdict, R202R205SealedInclusiveAtEndPlusGrace) {
  const HivePartitionState state = Partition(std::vector<int64_t>(5, kMiB));
  const HiveOptions options;
  EXPECT_EQ(PlanPartition(state, options, kEnd + options.grace).verdict, Verdict::kCandidate);
  const PartitionPlan early = PlanPartition(state, options, kEnd + options.grace - kMicro);
  EXPECT_EQ(early.verdict, Verdict::kNotSealed);
  EXPECT_EQ(early.live_files, 5);
  EXPECT_THAT(early.inputs, IsEmpty());
  EXPECT_EQ(PlanPartition(state, options, kEnd - std::chrono::minutes(15)).reason,
            "the bucket ends at 2026-11-29T08:00:00.000000Z and the grace is 15 min 00 s: sealed "
            "in 30 min 00 s");
}

TEST(HivePlanVerdict, R201WithoutTimeColumnsTheNewestFileSeals) {
  HivePartitionState state = Partition(std::vector<int64_t>(5, kMiB));
  state.id.start.reset();
  state.id.end.reset();
  state.files[3].modified = kEnd;
  const HiveOptions options;
  EXPECT_EQ(PlanPartition(state, options, kEnd + options.grace).verdict, Verdict::kCandidate);
  const PartitionPlan early = PlanPartition(state, options, kEnd + options.grace - kMicro);
  EXPECT_EQ(early.verdict, Verdict::kNotSealed);
  EXPECT_THAT(early.reason, HasSubstr("the newest file is of 2026-11-29T08:00:00.000000Z"));
}

TEST(HivePlanVerdict, R315SealingNowMovesForwardOnly) {
  HivePartitionState state = Partition({1, 1});
  EXPECT_EQ(SealingNow(kLater, state), kLater);
  state.files[1].modified = kLater + kMicro;
  EXPECT_EQ(SealingNow(kLater, state), kLater + kMicro);
  // A file written early in an open hour does not seal it.
  state.files[1].modified = kStart + std::chrono::minutes(20);
  EXPECT_EQ(PlanPartition(state, {}, SealingNow(kStart, state)).verdict, Verdict::kNotSealed);
}

TEST(HivePlanVerdict, H9ExpiringWithinADay) {
  const HivePartitionState state = Partition(std::vector<int64_t>(5, kMiB));
  HiveOptions options;
  options.retention = std::chrono::days(30);
  const Time removed = kEnd + options.retention;
  EXPECT_EQ(PlanPartition(state, options, removed - std::chrono::hours(24)).verdict,
            Verdict::kCandidate);
  const PartitionPlan late =
      PlanPartition(state, options, removed - std::chrono::hours(24) + kMicro);
  EXPECT_EQ(late.verdict, Verdict::kExpiring);
  EXPECT_EQ(late.reason,
            "retention removes it at 2026-12-29T08:00:00.000000Z, less than 24 h away: not worth "
            "moving");
  options.retention = Duration::zero();
  EXPECT_EQ(PlanPartition(state, options, removed).verdict, Verdict::kCandidate);
}

struct Case {
  const char* what;
  std::vector<int64_t> sizes_mib;
  Verdict verdict;
  std::vector<int> inputs;
  int outputs;
  const char* reason;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.what; }

class HivePlanChoice : public testing::TestWithParam<Case> {};

TEST_P(HivePlanChoice, IsAsTheTableSays) {
  const Case& c = GetParam();
  std::vector<int64_t> sizes;
  for (const int64_t mib : c.sizes_mib) sizes.push_back(mib * kMiB);
  const HivePartitionState state = Partition(sizes);
  const PartitionPlan plan = PlanPartition(state, {}, kLater);
  EXPECT_EQ(VerdictName(plan.verdict), VerdictName(c.verdict)) << plan.reason;
  std::vector<std::string> inputs;
  int64_t bytes = 0;
  for (const int i : c.inputs) {
    inputs.push_back(state.files[static_cast<size_t>(i)].name);
    bytes += sizes[static_cast<size_t>(i)];
  }
  EXPECT_EQ(plan.inputs, inputs);
  EXPECT_EQ(plan.bytes_in, bytes);
  EXPECT_EQ(plan.outputs, c.outputs);
  EXPECT_EQ(plan.reason, c.reason);
  EXPECT_EQ(plan.live_files, static_cast<int64_t>(sizes.size()));
}

INSTANTIATE_TEST_SUITE_P(
    Tables, HivePlanChoice,
    testing::Values(
        Case{"R203 four at the threshold",
             {128, 128, 128, 128},
             Verdict::kNothingToGain,
             {},
             0,
             "4 live files, not more than 4, and none below 128.0 MiB"},
        Case{"R206 one large file",
             {600},
             Verdict::kNothingToGain,
             {},
             0,
             "1 live file, not more than 4, and none below 128.0 MiB"},
        Case{"R203 five at the threshold",
             {128, 128, 128, 128, 128},
             Verdict::kCandidate,
             {0, 1, 2, 3, 4},
             2,
             "5 live files > 4: 5 files (640.0 MiB) become 2"},
        Case{"R203 one below, with its partner",
             {127, 128, 128, 128},
             Verdict::kCandidate,
             {0, 1},
             1,
             "1 live file below 128.0 MiB: 2 files (255.0 MiB) become 1"},
        Case{"T19 one small file alone",
             {1},
             Verdict::kIrreducible,
             {},
             0,
             "1 live file below 128.0 MiB, but there is no other file to merge its 1.0 MiB with up "
             "to 2.0 GiB"},
        Case{"T19 one small and one that is full",
             {1, 600},
             Verdict::kIrreducible,
             {},
             0,
             "1 live file below 128.0 MiB, but 2 files (601.0 MiB) would become 2 again at 512.0 "
             "MiB each"},
        Case{"T19 one small and one exactly fitting",
             {1, 511},
             Verdict::kCandidate,
             {0, 1},
             1,
             "1 live file below 128.0 MiB: 2 files (512.0 MiB) become 1"},
        Case{"T19 no room up to the maximum",
             {1, 2048},
             Verdict::kIrreducible,
             {},
             0,
             "1 live file below 128.0 MiB, but there is no other file to merge its 1.0 MiB with up "
             "to 2.0 GiB"},
        Case{"T19 five in the band",
             {256, 300, 256, 400, 2000},
             Verdict::kIrreducible,
             {},
             0,
             "5 live files > 4, but none is below 128.0 MiB and not more than 4 are below 256.0 "
             "MiB"},
        Case{"two small ones leave the others",
             {1, 300, 1, 700},
             Verdict::kCandidate,
             {0, 1, 2},
             1,
             "2 live files below 128.0 MiB: 3 files (302.0 MiB) become 1"},
        Case{"two small ones and nothing to join",
             {1, 512, 1, 700},
             Verdict::kCandidate,
             {0, 2},
             1,
             "2 live files below 128.0 MiB: 2 files (2.0 MiB) become 1"},
        Case{"the smallest partner",
             {1, 300, 200, 250},
             Verdict::kCandidate,
             {0, 2},
             1,
             "1 live file below 128.0 MiB: 2 files (201.0 MiB) become 1"},
        Case{"many below the band take the middle too",
             {1, 255, 1, 255, 256, 255},
             Verdict::kCandidate,
             {0, 1, 2, 3, 5},
             2,
             "6 live files > 4 and 2 below 128.0 MiB: 5 files (767.0 MiB) become 2"},
        Case{"few below the band leave the middle",
             {1, 255, 1, 256, 256, 255},
             Verdict::kCandidate,
             {0, 1, 2},
             1,
             "6 live files > 4 and 2 below 128.0 MiB: 3 files (257.0 MiB) become 1"},
        Case{"empty files count like any",
             {0, 0},
             Verdict::kCandidate,
             {0, 1},
             1,
             "2 live files below 128.0 MiB: 2 files (0 B) become 1"}));

TEST(HivePlan, ReasonCarriesTheNumbers) {
  const PartitionPlan plan = PlanPartition(Partition(std::vector<int64_t>(37, 88'000)), {}, kLater);
  EXPECT_EQ(plan.reason, "37 live files > 4 and 37 below 128.0 MiB: 37 files (3.1 MiB) become 1");
  EXPECT_EQ(plan.small_files, 37);
  EXPECT_EQ(plan.live_bytes, 37 * 88'000);
}

TEST(HivePlan, H7FortyFilesOfThreeGigabytesBecomeSix) {
  const PartitionPlan plan =
      PlanPartition(Partition(std::vector<int64_t>(40, 3 * kGiB / 40)), {}, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kCandidate);
  EXPECT_EQ(plan.inputs.size(), 40u);
  EXPECT_EQ(plan.outputs, 6);
}

TEST(HivePlan, R204H1LateFilesCountAsLive) {
  HivePartitionState state = Partition({400 * kMiB, kMiB, kMiB});
  state.files[1].state = FileState::kLate;
  state.files[2].state = FileState::kRetired;
  const PartitionPlan plan = PlanPartition(state, {}, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kCandidate);
  EXPECT_EQ(plan.live_files, 2);
  EXPECT_THAT(plan.inputs, ElementsAre("f00.parquet", "f01.parquet"));
}

TEST(HivePlan, UnsupportedInputNamesFileAndReason) {
  HivePartitionState state = Partition({kMiB, kMiB, 600 * kMiB});
  state.files[1].unsupported = "codec LZO";
  PartitionPlan plan = PlanPartition(state, {}, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kUnsupported);
  EXPECT_EQ(plan.reason, "f01.parquet: codec LZO");
  EXPECT_THAT(plan.inputs, IsEmpty());
  EXPECT_EQ(plan.outputs, 0);
  state.files[1].unsupported.clear();
  state.files[2].unsupported = "not an input";
  EXPECT_EQ(PlanPartition(state, {}, kLater).verdict, Verdict::kCandidate);
}

TEST(HivePlan, T20RefusesABootstrapThatWouldHideRows) {
  HivePartitionState state = Partition({kMiB, kMiB});
  state.files.push_back(File("a\\b.parquet", kStart));
  PartitionPlan plan = PlanPartition(state, {}, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kUnsupported);
  EXPECT_THAT(plan.reason, HasSubstr("\"a\\\\b.parquet\""));
  // With a manifest readers never saw it, and files that no glob gives do not matter.
  state.manifest = ManifestSnapshot{Manifest({"f00.parquet", "f01.parquet"}), "v"};
  EXPECT_EQ(PlanPartition(state, {}, kLater).verdict, Verdict::kCandidate);
  state.manifest.reset();
  state.files.back().name = ".hidden.parquet";
  EXPECT_EQ(PlanPartition(state, {}, kLater).verdict, Verdict::kCandidate);
}

TEST(HivePlan, FallsBackToTheSmallFilesIfTheWiderSetDoesNotReduce) {
  HiveOptions options;
  options.target_file_bytes = 200 * kMiB;
  const int64_t middle = 255 * kMiB;
  const HivePartitionState state = Partition({kMiB, middle, kMiB, middle, middle, middle});
  const PartitionPlan plan = PlanPartition(state, options, kLater);
  EXPECT_THAT(plan.inputs, ElementsAre("f00.parquet", "f02.parquet"));
  EXPECT_EQ(plan.outputs, 1);
}

// --- The fixed point (T19) ---

constexpr int kWorlds = 3000;

int64_t Below(Random& random, int64_t n) {
  return static_cast<int64_t>(random.Next() % static_cast<uint64_t>(n));
}

HivePartitionState RandomPartition(Random& random) {
  std::vector<int64_t> sizes(static_cast<size_t>(Below(random, 60)));
  const int64_t scale[] = {kMiB, 130 * kMiB, 300 * kMiB, 600 * kMiB, 3 * kGiB};
  const int64_t widest = 1 + Below(random, 5);
  for (int64_t& size : sizes) size = Below(random, scale[Below(random, widest)]);
  return Partition(sizes);
}

// What a sweep that follows the plan leaves, if the outputs have `percent` of the bytes.
void Apply(const PartitionPlan& plan, int64_t percent, int round, HivePartitionState& state) {
  const std::set<std::string> inputs(plan.inputs.begin(), plan.inputs.end());
  ASSERT_EQ(inputs.size(), plan.inputs.size());
  int64_t bytes = 0;
  const auto erased = std::erase_if(state.files, [&](const HiveFile& file) {
    if (inputs.contains(file.name)) bytes += file.size;
    return inputs.contains(file.name);
  });
  ASSERT_EQ(erased, inputs.size());
  ASSERT_EQ(bytes, plan.bytes_in);
  for (int i = 0; i < plan.outputs; ++i) {
    HiveFile file = File("r" + std::to_string(round) + "-" + std::to_string(i) + ".parquet", kStart,
                         FileState::kLive);
    file.size = bytes * percent / 100 / plan.outputs;
    state.files.push_back(file);
  }
}

// Rounds until there is no candidate.
int RunToFixedPoint(HivePartitionState& state, const HiveOptions& options, Random& random,
                    bool exact) {
  for (int round = 0;; ++round) {
    const PartitionPlan plan = PlanPartition(state, options, kLater);
    EXPECT_FALSE(plan.reason.empty());
    if (plan.verdict != Verdict::kCandidate) return round;
    const size_t before = state.files.size();
    EXPECT_GE(plan.inputs.size(), 2u);
    EXPECT_LE(plan.outputs, std::max<int64_t>(1, (plan.bytes_in + options.target_file_bytes - 1) /
                                                     options.target_file_bytes));
    EXPECT_TRUE(std::ranges::is_sorted(plan.inputs));
    Apply(plan, exact ? 100 : 50 + Below(random, 71), round, state);
    EXPECT_LT(state.files.size(), before);
    if (testing::Test::HasFailure() || round > 100) return round;
  }
}

TEST(HivePlanFixedPoint, T19SecondSweepPlansNothingIfSizesComeOutAsPlanned) {
  int candidates = 0;
  for (int seed = 0; seed < kWorlds; ++seed) {
    SeededRandom random(static_cast<uint64_t>(seed));
    HivePartitionState state = RandomPartition(random);
    const int rounds = RunToFixedPoint(state, {}, random, true);
    ASSERT_LE(rounds, 1) << "seed " << seed;
    candidates += rounds;
  }
  EXPECT_GT(candidates, kWorlds / 2);
}

TEST(HivePlanFixedPoint, T19ConvergesWhateverTheOutputsWeigh) {
  int most = 0;
  for (int seed = 0; seed < kWorlds; ++seed) {
    SeededRandom random(static_cast<uint64_t>(seed));
    HivePartitionState state = RandomPartition(random);
    const int rounds = RunToFixedPoint(state, {}, random, false);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    most = std::max(most, rounds);
  }
  EXPECT_LE(most, 6);
  EXPECT_GE(most, 2);
}

TEST(HivePlanFixedPoint, T19ConvergesUnderAnyOptions) {
  for (int seed = 0; seed < kWorlds; ++seed) {
    SeededRandom random(static_cast<uint64_t>(seed));
    HiveOptions options;
    options.min_files = static_cast<int>(Below(random, 8));
    options.small_file_bytes = Below(random, 800) * kMiB;
    options.target_file_bytes = 1 + Below(random, 900) * kMiB;
    options.file_bytes_min = Below(random, 900) * kMiB;
    options.file_bytes_max = Below(random, 3000) * kMiB;
    HivePartitionState state = RandomPartition(random);
    const size_t files = state.files.size();
    const int rounds = RunToFixedPoint(state, options, random, false);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    ASSERT_LE(static_cast<size_t>(rounds), files) << "seed " << seed;
  }
}

// --- The bounds of one plan ---

TEST(HivePlanCap, TakesTheSmallestAndLeavesTheRest) {
  HiveOptions options;
  options.max_input_files = 3;
  HivePartitionState state = Partition({5 * kMiB, 9 * kMiB, 3 * kMiB, 8 * kMiB, 4 * kMiB});
  PartitionPlan plan = PlanPartition(state, options, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kCandidate);
  EXPECT_THAT(plan.inputs, ElementsAre("f00.parquet", "f02.parquet", "f04.parquet"));
  EXPECT_EQ(plan.outputs, 1);
  EXPECT_EQ(plan.bytes_in, 12 * kMiB);
  EXPECT_EQ(plan.live_files, 5);
  EXPECT_THAT(plan.reason, HasSubstr("3 files (12.0 MiB) become 1; 2 files more in the next"));

  options.max_input_files = 10'000;
  options.max_input_bytes = 13 * kMiB;
  EXPECT_EQ(PlanPartition(state, options, kLater).inputs, plan.inputs);
  options.max_input_bytes = 12 * kMiB;
  EXPECT_EQ(PlanPartition(state, options, kLater).inputs, plan.inputs);
  options.max_input_bytes = 12 * kMiB - 1;
  EXPECT_THAT(PlanPartition(state, options, kLater).inputs,
              ElementsAre("f02.parquet", "f04.parquet"));
  options.max_input_bytes = 29 * kMiB;  // All of them.
  plan = PlanPartition(state, options, kLater);
  EXPECT_THAT(plan.inputs, testing::SizeIs(5));
  EXPECT_EQ(plan.reason.find("more in"), std::string::npos);
}

TEST(HivePlanCap, AnIrreduciblePartSaysSo) {
  HiveOptions options;
  options.max_input_files = 2;
  options.file_bytes_min = options.target_file_bytes;
  const PartitionPlan plan =
      PlanPartition(Partition(std::vector<int64_t>(5, 400 * kMiB)), options, kLater);
  EXPECT_EQ(plan.verdict, Verdict::kIrreducible);
  EXPECT_THAT(plan.reason, HasSubstr("the 2 files (800.0 MiB) that one plan may take"));
}

TEST(HivePlanCap, AHundredThousandFilesTakeThePlansThatTheyNeed) {
  HivePartitionState state;
  state.id = Partition({}).id;
  for (int i = 0; i < 100'000; ++i) {
    state.files.push_back(
        File("g" + std::to_string(100'000 + i) + ".parquet", kStart, FileState::kLive));
  }
  std::vector<size_t> left;
  for (int round = 0; round < 20; ++round) {
    const PartitionPlan plan = PlanPartition(state, {}, kLater);
    if (plan.verdict != Verdict::kCandidate) break;
    EXPECT_LE(plan.inputs.size(), 10'000u);
    Apply(plan, 100, round, state);
    left.push_back(state.files.size());
  }
  // Ten of 10,000 each, and one that merges what came of them.
  ASSERT_THAT(left, testing::SizeIs(11));
  EXPECT_EQ(left[8], 10'009u);
  EXPECT_EQ(left.back(), 1u);
}

// Bounds change how many plans it takes, not where it ends: with a band of at most half the target,
// what is left is what unbounded plans leave, too.
TEST(HivePlanCap, T19ConvergesToAFixedPointOfUnboundedPlans) {
  int bounded = 0;
  for (int seed = 0; seed < kWorlds; ++seed) {
    SeededRandom random(static_cast<uint64_t>(seed));
    HiveOptions free;
    free.min_files = static_cast<int>(1 + Below(random, 8));
    free.target_file_bytes = (2 + Below(random, 900)) * kMiB;
    free.file_bytes_min = 1 + Below(random, free.target_file_bytes / 2);
    free.small_file_bytes = 1 + Below(random, free.file_bytes_min);
    free.file_bytes_max = free.target_file_bytes * (1 + Below(random, 4));
    HiveOptions options = free;
    options.max_input_files = 2 + Below(random, 20);
    options.max_input_bytes = options.file_bytes_max * (1 + Below(random, 3));
    HivePartitionState state = RandomPartition(random);
    const size_t files = state.files.size();
    for (int round = 0;; ++round) {
      const PartitionPlan plan = PlanPartition(state, options, kLater);
      if (plan.verdict != Verdict::kCandidate) break;
      ASSERT_LE(static_cast<size_t>(round), files) << "seed " << seed;
      ASSERT_LE(plan.inputs.size(), static_cast<size_t>(options.max_input_files));
      ASSERT_LE(plan.bytes_in, options.max_input_bytes);
      bounded += plan.inputs != PlanPartition(state, free, kLater).inputs;
      Apply(plan, 50 + Below(random, 71), round, state);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
    ASSERT_NE(PlanPartition(state, free, kLater).verdict, Verdict::kCandidate)
        << "seed " << seed << ": " << PlanPartition(state, free, kLater).reason;
  }
  EXPECT_GT(bounded, kWorlds);
}

// --- Classification ---

const Time kPublished = At("2026-11-29T09:00:00Z");

FileState StateOf(const std::string& name, Time modified, std::optional<HiveManifest> manifest) {
  HivePartitionState state;
  if (manifest) state.manifest = ManifestSnapshot{*std::move(manifest), "v"};
  state.files.push_back(File(name, modified));
  ClassifyFiles(state, kPublished);
  return state.files[0].state;
}

TEST(HiveClassify, WithoutManifestEveryParquetFileIsLive) {
  EXPECT_EQ(StateOf("a.parquet", kLater, {}), FileState::kLive);
  EXPECT_EQ(StateOf("a.parquet.tmp", kLater, {}), FileState::kTemporary);
  EXPECT_EQ(StateOf("manifest.json.1234.tmp", kLater, {}), FileState::kTemporary);
  for (const char* name : {"a.orc", "_a.parquet", ".a.parquet", "sub/a.parquet", "sub/a.tmp",
                           "a.parquet/", "manifest.json", "a\\b.parquet"}) {
    EXPECT_EQ(StateOf(name, kLater, {}), FileState::kOther) << name;
  }
}

TEST(HiveClassify, WithLineageEveryFileHasAFate) {
  HiveManifest manifest = Manifest({"live.parquet"});
  manifest.retired = {{"old.parquet", kPublished, RetiredFile::Reason::kSuperseded, "j"},
                      {"dead.parquet", kPublished, RetiredFile::Reason::kFenced, "j"},
                      {"theirs.parquet", kPublished, RetiredFile::Reason::kForeign, "j"}};
  EXPECT_EQ(StateOf("live.parquet", kStart, manifest), FileState::kLive);
  for (const char* name : {"old.parquet", "dead.parquet"}) {
    EXPECT_EQ(StateOf(name, kPublished, manifest), FileState::kRetired);
    // Younger than its record: another file under its name.
    EXPECT_EQ(StateOf(name, kPublished + kMicro, manifest), FileState::kAmbiguous);
  }
  EXPECT_EQ(StateOf("theirs.parquet", kLater, manifest), FileState::kAmbiguous);
  // H1, T22: unlisted and not retired is acknowledged data, however old it looks.
  EXPECT_EQ(StateOf("new.parquet", kStart, manifest), FileState::kLate);
  EXPECT_EQ(StateOf("live.parquet.tmp", kStart, manifest), FileState::kTemporary);
}

TEST(HiveClassify, Q4ForeignManifestTrustsOnlyYoungerFiles) {
  const HiveManifest foreign = Manifest({"live.parquet"}, false);
  EXPECT_EQ(StateOf("live.parquet", kStart, foreign), FileState::kLive);
  EXPECT_EQ(StateOf("x.parquet", kPublished + kMicro, foreign), FileState::kLate);
  EXPECT_EQ(StateOf("x.parquet", kPublished, foreign), FileState::kAmbiguous);
  EXPECT_EQ(StateOf("x.parquet", Time{}, foreign), FileState::kAmbiguous);

  class FixedClock final : public Clock {
   public:
    explicit FixedClock(Time now) : now_(now) {}
    Time Now() const override { return now_; }
    Duration Monotonic() const override { return {}; }
    void Sleep(Duration) override {}

   private:
    Time now_;
  };
  SeededRandom random(1);
  const std::string same = MakeUuidV7(FixedClock(kPublished), random) + ".parquet";
  const std::string younger =
      MakeUuidV7(FixedClock(kPublished + std::chrono::milliseconds(1)), random) + ".parquet";
  EXPECT_EQ(StateOf(same, kLater, foreign), FileState::kAmbiguous);
  EXPECT_EQ(StateOf(younger, kLater, foreign), FileState::kLate);
  EXPECT_EQ(StateOf(younger, kPublished, foreign), FileState::kAmbiguous);
}

TEST(HiveClassify, MissingLiveFilesAreNamed) {
  HivePartitionState state = Partition({1, 2});
  EXPECT_THAT(MissingLiveFiles(state), IsEmpty());
  state.manifest = ManifestSnapshot{Manifest({"z.parquet", "f01.parquet", "a.parquet"}), "v"};
  EXPECT_THAT(MissingLiveFiles(state), ElementsAre("z.parquet", "a.parquet"));
}

// --- Garbage ---

// kLater, less an hour: exactly at the default grace.
const Time kAtGrace = kLater - std::chrono::hours(1);

GcDecision Decide(HiveFile file, std::optional<RetiredFile> record = {}, bool manifest = true) {
  HivePartitionState state;
  if (manifest) {
    state.manifest = ManifestSnapshot{Manifest({"live.parquet"}), "v"};
    if (record) state.manifest->manifest.retired = {*record};
  }
  state.files = {std::move(file)};
  const std::vector<GcDecision> decisions = PlanGc(state, {}, kLater);
  EXPECT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions[0].name, state.files[0].name);
  EXPECT_EQ(decisions[0].size, 7);
  EXPECT_FALSE(decisions[0].reason.empty());
  return decisions[0];
}

TEST(HiveGc, H2TemporariesLiveThroughTheGrace) {
  const auto action = [](Time modified) {
    return Decide(File("x.parquet.tmp", modified, FileState::kTemporary)).action;
  };
  EXPECT_EQ(action(kAtGrace), GcAction::kRemove);
  EXPECT_EQ(action(kAtGrace + kMicro), GcAction::kKeepYoung);
  EXPECT_EQ(action(kLater), GcAction::kKeepYoung);
  EXPECT_EQ(action(kLater + std::chrono::days(400)), GcAction::kKeepYoung);  // In the future.
  EXPECT_EQ(action(Time{}), GcAction::kKeep);                                // Unknown.
  EXPECT_EQ(action(Time{} + std::chrono::days(1)), GcAction::kKeep);
  EXPECT_EQ(action(Time{} + std::chrono::days(1) + kMicro), GcAction::kRemove);
  EXPECT_EQ(Decide(File("x.parquet.tmp", kAtGrace, FileState::kTemporary)).reason,
            "temporary file, modified at 2026-11-29T23:00:00.000000Z, past the grace of 1 h 00 "
            "min");
  EXPECT_EQ(Decide(File("x.parquet.tmp", kLater + kMicro, FileState::kTemporary)).reason,
            "temporary file, modified at 2026-11-30T00:00:00.000001Z, which is in the future");
}

TEST(HiveGc, H3R238T24RetiredFilesWaitForBothTimes) {
  const auto action = [](Time modified, Time at, RetiredFile::Reason reason) {
    return Decide(File("x.parquet", modified, FileState::kRetired),
                  RetiredFile{"x.parquet", at, reason, "j"})
        .action;
  };
  using enum RetiredFile::Reason;
  for (const auto reason : {kSuperseded, kFenced}) {
    EXPECT_EQ(action(kAtGrace, kAtGrace, reason), GcAction::kRemove);
    EXPECT_EQ(action(kStart, kAtGrace + kMicro, reason), GcAction::kKeepYoung);
    EXPECT_EQ(action(kStart, kLater + std::chrono::days(1), reason), GcAction::kKeepYoung);
    // Younger than its record: not the file that was retired, however old it gets.
    EXPECT_EQ(action(kStart + kMicro, kStart, reason), GcAction::kKeep);
    EXPECT_EQ(action(kLater + std::chrono::days(1), kStart, reason), GcAction::kKeep);
    EXPECT_EQ(action(Time{}, kStart, reason), GcAction::kKeep);
    EXPECT_EQ(action(kStart, Time{}, reason), GcAction::kKeep);
  }
  EXPECT_EQ(action(kStart, kStart, kForeign), GcAction::kKeep);
}

TEST(HiveGc, Q3ClaimsWaitForTheGraceAndForALook) {
  HivePartitionState state;
  state.files = {File("_compaction.lock", kPublished), File("_compaction.lock.parquet", kPublished),
                 File("_compaction.lock.0123456789abcdef.tmp", kPublished)};
  for (const bool manifest : {false, true}) {
    if (manifest) state.manifest = ManifestSnapshot{Manifest({}), "v"};
    ClassifyFiles(state, kPublished);
    EXPECT_EQ(state.files[0].state, FileState::kClaim);
    EXPECT_EQ(state.files[1].state, FileState::kOther);
    EXPECT_EQ(state.files[2].state, FileState::kTemporary);
    const HiveOptions options;
    EXPECT_EQ(PlanGc(state, options, kPublished + options.gc_grace - kMicro)[0].action,
              GcAction::kKeepYoung);
    EXPECT_EQ(PlanGc(state, options, kPublished + options.gc_grace)[0].action,
              GcAction::kRemoveClaim);
  }
}

TEST(HiveGc, OwnOrphansAreFencedFirst) {
  const auto action = [](Time modified, bool manifest) {
    return Decide(File("x.parquet", modified, FileState::kOwnOrphan), {}, manifest).action;
  };
  EXPECT_EQ(action(kAtGrace, true), GcAction::kFenceRemove);
  EXPECT_EQ(action(kAtGrace + kMicro, true), GcAction::kKeepYoung);
  EXPECT_EQ(action(Time{}, true), GcAction::kKeep);
  // Without a manifest readers see it: nothing can be fenced.
  EXPECT_EQ(action(kAtGrace, false), GcAction::kKeep);
}

TEST(HiveGc, T22T23EverythingElseStays) {
  for (const FileState state : {FileState::kLive, FileState::kLate, FileState::kAmbiguous,
                                FileState::kUnreadable, FileState::kOther, FileState::kRetired}) {
    EXPECT_EQ(Decide(File("x.parquet", kStart, state)).action, GcAction::kKeep);
  }
  // Whatever the caller made of it: what the manifest names stays.
  for (const FileState state :
       {FileState::kOwnOrphan, FileState::kTemporary, FileState::kRetired}) {
    EXPECT_EQ(Decide(File("live.parquet", kStart, state),
                     RetiredFile{"live.parquet", kStart, RetiredFile::Reason::kSuperseded, "j"})
                  .action,
              GcAction::kKeep);
  }
}

}  // namespace
}  // namespace lithify::plan
