#include "job/hive_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "commit/hive_commit.h"
#include "job_world.h"
#include "reread_schedule.h"
#include "storage/faulty_store.h"
#include "storage/forwarding_store.h"

namespace lithify::job {
namespace {

using plan::Verdict;
using sim::JobWorld;
using storage::FaultyStore;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Rows = std::multiset<std::string>;

const std::string kSealed = JobWorld::Hour("10");
const std::string kOpen = JobWorld::Hour("12");
const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};
constexpr auto kMinute = std::chrono::minutes(1);

bool IsWrite(std::string_view op) {
  return op == "PutNew" || op == "PutIf" || op == "Create" || op == "Append" || op == "Publish" ||
         op == "Remove";
}

// The outcome of the partition with this prefix.
const PartitionOutcome& Of(const Result<SweepReport>& report, const std::string& prefix) {
  for (const PartitionOutcome& outcome : report->partitions) {
    if (outcome.id.key_prefix == prefix) return outcome;
  }
  ADD_FAILURE() << "no outcome for " << prefix;
  static const PartitionOutcome kNone;
  return kNone;
}

void PutManifest(JobWorld& world, const std::string& prefix, const std::string& json) {
  ASSERT_TRUE(world.store.PutNew(prefix + "manifest.json", json).has_value());
}

TEST(HiveSweep, CompactsASealedPartitionAndThenRests) {
  JobWorld world;
  world.WriteFive(kSealed);
  world.WriteFive(kOpen);
  const auto report = world.Sweep();
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  const PartitionOutcome& sealed = Of(report, kSealed);
  ASSERT_EQ(sealed.outcome, Outcome::kCommitted) << (sealed.error ? sealed.error->ToString() : "");
  EXPECT_EQ(sealed.generation, 2U);  // After the bootstrap (R215).
  EXPECT_EQ(sealed.rows, 5);
  EXPECT_THAT(sealed.outputs, SizeIs(1));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_EQ(world.Manifest(kSealed).files, sealed.outputs);
  EXPECT_EQ(Of(report, kOpen).plan.verdict, Verdict::kNotSealed);
  EXPECT_FALSE(report->failed());
  EXPECT_EQ(world.progress.total_bytes, world.progress.done_bytes);
  EXPECT_EQ(world.progress.done_items, 2);

  // R206, T19: a fixed point.
  const auto again = world.Sweep();
  EXPECT_EQ(Of(again, kSealed).plan.verdict, Verdict::kIrreducible);
  EXPECT_EQ(again->Count(Outcome::kSkipped), 2);
  EXPECT_EQ(world.Manifest(kSealed).generation, 2U);
}

TEST(HiveSweep, H7_SplitsByTheTarget) {
  JobWorld world;
  world.settings.options.target_file_bytes = 20;
  world.settings.options.file_bytes_max = 1000;
  world.WriteFive(kSealed);  // 7 bytes each.
  const auto report = world.Sweep();
  EXPECT_THAT(Of(report, kSealed).outputs, SizeIs(2));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
}

TEST(HiveSweep, WorksOnSeveralPartitionsAtOnce) {
  JobWorld world;
  for (const char* hour : {"01", "02", "03", "04", "05", "06"}) {
    world.WriteFive(JobWorld::Hour(hour));
  }
  world.settings.threads = 4;
  world.settings.partitions_at_once = 3;
  int called = 0;
  const auto report =
      world.Job().Sweep({}, false, CancelFlag(), [&](const PartitionOutcome&) { ++called; });
  EXPECT_EQ(report->Count(Outcome::kCommitted), 6);
  EXPECT_EQ(called, 6);
  EXPECT_EQ(world.LiveRows(JobWorld::Hour("06")), kFiveRows);
}

TEST(HiveSweep, OnlyChosenPartitionsAreRewritten) {
  JobWorld world;
  const std::string other = JobWorld::Hour("09");
  const std::string grown = JobWorld::Hour("08");
  for (const std::string& prefix : {kSealed, other, grown}) world.WriteFive(prefix);
  ASSERT_TRUE(world.Sweep());
  // A late file everywhere, and so much that each is a candidate again.
  for (const std::string& prefix : {kSealed, other, grown}) {
    for (const char* name : {"l1", "l2", "l3", "l4", "l5"}) world.Write(prefix, name, {name});
  }
  const int64_t bytes = world.Job().GetStatus({}, CancelFlag())->partitions.back().plan.bytes_in;
  ASSERT_GT(bytes, 0);
  world.settings.only_partitions = {{.key_prefix = kSealed, .bytes_max = bytes},
                                    {.key_prefix = grown, .bytes_max = bytes - 1}};
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kCommitted);
  for (const std::string& prefix : {other, grown}) {
    EXPECT_EQ(Of(report, prefix).outcome, Outcome::kAdopted) << prefix;
    EXPECT_EQ(Of(report, prefix).plan.verdict, Verdict::kNotChosen) << prefix;
    EXPECT_THAT(Of(report, prefix).plan.inputs, IsEmpty());
    EXPECT_THAT(world.LiveRows(prefix), SizeIs(10));
  }
  EXPECT_THAT(Of(report, grown).plan.reason, HasSubstr("has grown"));
  world.settings.only_partitions.emplace();
  EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 0);
  world.settings.only_partitions.reset();
  EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 2);
}

TEST(HiveSweep, IntentIsOnRecordBeforeTheSwap) {  // T25
  JobWorld world;
  world.WriteFive(kSealed);
  std::vector<std::string> at_swap;
  FaultyStore seen(world.store, [&](std::string_view op, const auto&, bool before) -> Status {
    if (op == "PutIf" && before) at_swap = world.Phases();
    return {};
  });
  ASSERT_TRUE(world.Sweep(seen).has_value());
  EXPECT_THAT(at_swap, ElementsAre("intent 2"));
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2"));
  const auto events = world.Events();
  EXPECT_EQ(events[0].outputs, world.Manifest(kSealed).files);
  EXPECT_EQ(events[0].job_id, events[1].job_id);
  EXPECT_EQ(events[0].row_digest.size(), 32U);
  EXPECT_THAT(events[1].inputs, SizeIs(5));
}

class DeniedAudit final : public observe::AuditLog {
 public:
  Status Append(const observe::AuditEvent&) override {
    return Fail(Code::kDenied, "read-only file system");
  }
  Result<std::vector<observe::AuditRecord>> ReadAll(bool*) override {
    return std::vector<observe::AuditRecord>();
  }
};

TEST(HiveSweep, WithoutAnIntentNothingIsCommitted) {  // T25
  JobWorld world;
  world.WriteFive(kSealed);
  world.audit = std::make_unique<DeniedAudit>();
  const auto report = world.Sweep();
  const PartitionOutcome& outcome = Of(report, kSealed);
  EXPECT_EQ(outcome.outcome, Outcome::kFailed);
  EXPECT_EQ(outcome.error->code, Code::kDenied);
  EXPECT_TRUE(report->failed());
  // The bootstrap stands: it shows the same files. The outputs are gone.
  EXPECT_EQ(world.Manifest(kSealed).generation, 1U);
  EXPECT_THAT(world.Names(kSealed), SizeIs(6));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
}

TEST(HiveSweep, WithoutAnIntentNothingIsAdopted) {  // T25
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.Write(kSealed, "late", {"r6"});
  world.audit = std::make_unique<DeniedAudit>();
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kDenied);
  EXPECT_EQ(world.Manifest(kSealed).generation, 2U);
}

TEST(HiveSweep, H1_AdoptsALateFileAndCompactsIt) {  // Q4, T22, R204
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.clock.Advance(kMinute);
  world.Write(kSealed, "late", {"r6"});
  const auto report = world.Sweep();
  const PartitionOutcome& outcome = Of(report, kSealed);
  EXPECT_EQ(outcome.outcome, Outcome::kCommitted);
  EXPECT_THAT(outcome.adopted, ElementsAre("late.parquet"));
  EXPECT_EQ(world.LiveRows(kSealed), (Rows{"r1", "r2", "r3", "r4", "r5", "r6"}));
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2", "intent 3", "adopted 3",
                                          "intent 4", "committed 4"));
}

TEST(HiveSweep, H1_AdoptsInAnOpenPartition) {
  JobWorld world;
  world.WriteFive(kOpen);
  PutManifest(world, kOpen, R"({"generation":1,"files":["f1.parquet","f2.parquet"]})");
  world.clock.Advance(kMinute);
  world.Write(kOpen, "late", {"r6"});
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kOpen).outcome, Outcome::kAdopted);
  EXPECT_EQ(Of(report, kOpen).plan.verdict, Verdict::kNotSealed);
  EXPECT_EQ(world.LiveRows(kOpen), (Rows{"r1", "r2", "r6"}));
}

TEST(HiveSweep, T22_TakesOverAForeignManifest) {
  JobWorld world;
  world.WriteFive(kSealed);
  world.Write(kSealed, "unlisted", {"dead or late"});
  world.clock.Advance(kMinute);
  PutManifest(world, kSealed,
              R"({"generation":7,"files":["f1.parquet","f2.parquet","f3.parquet","f4.parquet",)"
              R"("f5.parquet"],"owner":{"team":"x"}})");
  const auto report = world.Sweep();
  ASSERT_EQ(Of(report, kSealed).outcome, Outcome::kCommitted);
  const HiveManifest manifest = world.Manifest(kSealed);
  EXPECT_EQ(manifest.generation, 9U);                   // Take-over, then swap.
  EXPECT_THAT(manifest.extra_json, HasSubstr("team"));  // R218
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  ASSERT_FALSE(manifest.retired.empty());
  EXPECT_EQ(manifest.retired.front().name, "unlisted.parquet");
  EXPECT_EQ(manifest.retired.front().reason, RetiredFile::Reason::kForeign);

  world.clock.Advance(std::chrono::hours(48));
  const auto later = world.Sweep();
  EXPECT_THAT(later->gc.removed, SizeIs(5));  // The inputs.
  ASSERT_THAT(later->gc.kept, SizeIs(1));
  EXPECT_EQ(later->gc.kept.front().key, kSealed + "unlisted.parquet");
  EXPECT_TRUE(world.Names(kSealed).contains("unlisted.parquet"));
}

TEST(HiveGc, H2_KeepsYoungTemporaries) {
  JobWorld world;
  world.WriteFive(kOpen);
  ASSERT_TRUE(world.store.PutNew(kOpen + "x.parquet.tmp", "half a fi").has_value());
  world.clock.Advance(59 * kMinute);
  auto report = world.Job().Collect({}, false, CancelFlag());
  EXPECT_THAT(report->removed, IsEmpty());
  ASSERT_THAT(report->kept, SizeIs(1));
  EXPECT_EQ(report->kept.front().key, kOpen + "x.parquet.tmp");
  world.clock.Advance(2 * kMinute);
  report = world.Job().Collect({}, true, CancelFlag());
  EXPECT_THAT(report->removed, SizeIs(1));
  EXPECT_TRUE(world.Names(kOpen).contains("x.parquet.tmp"));  // That was a dry run.
  report = world.Job().Collect({}, false, CancelFlag());
  EXPECT_THAT(report->removed, SizeIs(1));
  EXPECT_THAT(world.Names(kOpen), SizeIs(5));
  EXPECT_THAT(world.Phases(), ElementsAre("collected 0"));
}

TEST(HiveGc, H3_KeepsRetiredFilesUntilTheGrace) {  // R238, T24
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.clock.Advance(59 * kMinute);
  EXPECT_THAT(world.Sweep()->gc.kept, SizeIs(5));
  EXPECT_THAT(world.Names(kSealed), SizeIs(7));
  world.clock.Advance(2 * kMinute);
  EXPECT_THAT(world.Sweep()->gc.removed, SizeIs(5));
  EXPECT_THAT(world.Names(kSealed), SizeIs(2));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_EQ(world.Events().back().phase, observe::AuditEvent::Phase::kCollected);
  EXPECT_THAT(world.Events().back().inputs, SizeIs(5));
}

// A compactor that lost its CPU between its clock and its swap: the grace counts from the swap.
TEST(HiveGc, H3_CountsTheGraceFromTheSwapNotFromItsClock) {
  JobWorld world;
  world.WriteFive(kSealed);
  FaultyStore slow(world.store, [&](std::string_view op, const auto&, bool before) -> Status {
    if (op == "PutIf" && before) world.clock.Advance(std::chrono::hours(3));
    return {};
  });
  ASSERT_TRUE(world.Sweep(slow).has_value());
  EXPECT_THAT(world.Sweep()->gc.removed, IsEmpty());
  // Nor does a later generation forget it.
  world.Write(kSealed, "late", {"r6"});
  world.settings.options.min_files = 100;
  world.settings.options.small_file_bytes = 1;
  ASSERT_EQ(world.Sweep()->Count(Outcome::kAdopted), 1);
  world.clock.Advance(59 * kMinute);
  EXPECT_THAT(world.Sweep()->gc.removed, IsEmpty());
  world.clock.Advance(2 * kMinute);
  EXPECT_THAT(world.Sweep()->gc.removed, SizeIs(5));
}

TEST(HiveGc, T23_LooksAgainBeforeEachRemoval) {
  const auto loss = sim::RunRereadSchedule();
  EXPECT_FALSE(loss.has_value()) << *loss;
}

TEST(HiveGc, CountsFailedRemovals) {  // R241, R311
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.clock.Advance(61 * kMinute);
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
    const bool fails = before && op == "Remove" && key.ends_with("f3.parquet");
    return fails ? Status(Fail(Code::kDenied, "not allowed", key)) : Status();
  });
  const auto report = world.Sweep(seen);
  EXPECT_THAT(report->gc.removed, SizeIs(4));
  ASSERT_THAT(report->gc.errors, SizeIs(1));
  EXPECT_EQ(report->gc.errors.front().code, Code::kDenied);
  EXPECT_EQ(report->Count(Outcome::kFailed), 0);
}

// The outputs of an attempt that died: fenced, then removed, and never read.
TEST(HiveGc, FencesTheOutputsOfADeadAttempt) {
  JobWorld world;
  world.WriteFive(kSealed);
  FaultyStore dying(world.store, [](std::string_view op, const std::string& key, bool before) {
    const bool dies = op == "PutIf" && before;
    return dies ? Status(Fail(Code::kCancelled, "crash", key)) : Status();
  });
  ASSERT_TRUE(world.Sweep(dying).has_value());
  ASSERT_THAT(world.Names(kSealed), SizeIs(7));  // With manifest and dead output.
  const std::string dead = world.Events().back().outputs.front();
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);

  // A young one may belong to a living compactor; this sweep competes with it.
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  EXPECT_TRUE(world.Names(kSealed).contains(dead));
  world.clock.Advance(61 * kMinute);
  ASSERT_TRUE(world.Sweep().has_value());
  EXPECT_FALSE(world.Names(kSealed).contains(dead));
  EXPECT_EQ(world.Manifest(kSealed).generation, 3U);
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
}

// T23, T27, R310: both planned on one generation; the second to publish changes nothing and
// removes what it wrote.
TEST(HiveRace, OneOfTwoWinsAndTheLoserCleansUp) {
  JobWorld world;
  world.WriteFive(kSealed);
  bool raced = false;
  FaultyStore seen(world.store, [&](std::string_view op, const auto&, bool before) -> Status {
    if (op != "PutIf" || !before || raced) return {};
    raced = true;
    EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
    return {};
  });
  const auto report = world.Sweep(seen);
  ASSERT_TRUE(raced);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kLostRace);
  EXPECT_FALSE(report->failed());
  const HiveManifest manifest = world.Manifest(kSealed);
  EXPECT_EQ(manifest.generation, 2U);
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_THAT(world.Names(kSealed), SizeIs(7));  // Five inputs, one output, the manifest.
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "intent 2", "committed 2", "aborted 2"));
}

TEST(HiveRace, TheFirstGenerationHasOneWinner) {  // R215
  JobWorld world;
  world.WriteFive(kSealed);
  bool raced = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
    if (op == "PutNew" && key.ends_with("manifest.json") && before && !raced) {
      raced = true;
      EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
    }
    return Status();
  });
  EXPECT_EQ(Of(world.Sweep(seen), kSealed).outcome, Outcome::kLostRace);
  ASSERT_TRUE(raced);
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_THAT(world.Names(kSealed), SizeIs(7));
}

TEST(HiveRace, AnInputThatVanishesWithTheManifestMovingOnIsALostRace) {  // R313
  JobWorld world;
  world.WriteFive(kSealed);
  PutManifest(world, kSealed,
              R"({"generation":1,"files":["f1.parquet","f2.parquet","f3.parquet","f4.parquet",)"
              R"("f5.parquet"]})");
  int reads = 0;
  bool moved = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
    if (op != "Get" || !before || !key.ends_with("f3.parquet") || ++reads < 2) return Status();
    if (moved) {
      EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
      world.clock.Advance(61 * kMinute);
      EXPECT_THAT(world.Sweep()->gc.removed, SizeIs(5));
      moved = false;
    } else {
      EXPECT_TRUE(world.store.Remove(key).has_value());
    }
    return Status();
  });
  // Case a: nobody moved the manifest: an error.
  auto report = world.Sweep(seen);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kNotFound);
  EXPECT_THAT(Of(report, kSealed).error->ToString(), HasSubstr("f3.parquet"));
  // Case b.
  world.Write(kSealed, "f3", {"r3"});
  reads = 0;
  moved = true;
  report = world.Sweep(seen);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kLostRace);
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
}

TEST(HiveSweep, DryRunWritesNothing) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.Write(kSealed, "late", {"r6"});                                // To adopt.
  ASSERT_TRUE(world.store.PutNew(kSealed + "y.tmp", "").has_value());  // To collect.
  world.clock.Advance(std::chrono::hours(5));
  const std::vector<std::string> keys = world.store.Keys();
  const std::vector<std::string> phases = world.Phases();
  FaultyStore seen(world.store, [](std::string_view op, const std::string& key, bool) -> Status {
    if (!IsWrite(op)) return {};
    ADD_FAILURE() << op << " " << key;
    return Fail(Code::kDenied, "a dry run writes", key);
  });
  const auto report = world.Job(seen).Sweep({}, true, CancelFlag());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kPlanned);
  EXPECT_THAT(Of(report, kSealed).adopted, ElementsAre("late.parquet"));
  EXPECT_EQ(Of(report, kSealed).plan.inputs.size(), 2U);
  ASSERT_TRUE(Of(report, kSealed).tier_plan);
  EXPECT_EQ(Of(report, kSealed).tier_plan->row_groups, 1);
  EXPECT_EQ(Of(report, kSealed).tier_plan->recoded.at("it has no pages"), 2);
  EXPECT_THAT(report->gc.removed, SizeIs(6));
  EXPECT_EQ(world.store.Keys(), keys);
  EXPECT_EQ(world.Phases(), phases);
}

TEST(HiveSweep, ADryRunOpensABoundedNumberOfFilesToExplainTiers) {
  JobWorld world;
  for (const std::string hour : {"00", "01", "02", "03"}) {
    for (int i = 0; i < 2500; ++i) {
      world.Write(JobWorld::Hour(hour), "f" + std::to_string(i), {"r"});
    }
  }
  world.WriteFive(JobWorld::Hour("04"));
  const auto report = world.Job().Sweep({}, true, CancelFlag());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->Count(Outcome::kPlanned), 5);
  EXPECT_TRUE(Of(report, JobWorld::Hour("03")).tier_plan);
  EXPECT_FALSE(Of(report, JobWorld::Hour("04")).tier_plan);
  EXPECT_THAT(Of(report, JobWorld::Hour("04")).notes,
              ElementsAre("tiers are not explained: 10,000 files were opened for others; ask for "
                          "fewer at once"));
}

// A rewrite that fails is told of before it is tried.
TEST(HiveSweep, ADryRunSaysWhatARewriteWouldFailWith) {
  JobWorld world;
  world.WriteFive(kSealed);
  int reads = 0;
  FaultyStore seen(world.store,
                   [&](std::string_view op, const std::string& key, bool before) -> Status {
                     // It is read once for the plan.
                     if (!before || !key.ends_with("f3.parquet") || op != "Get" || ++reads < 2)
                       return {};
                     return Fail(Code::kCorrupt, "told so", key);
                   });
  const auto report = world.Job(seen).Sweep({}, true, CancelFlag());
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kPlanned);
  EXPECT_FALSE(Of(report, kSealed).tier_plan);
  EXPECT_THAT(Of(report, kSealed).notes,
              ElementsAre("a rewrite would fail: corrupt: " + kSealed + "f3.parquet: told so"));
}

TEST(HiveSweep, OneBadPartitionDoesNotStopTheOthers) {  // R240, R308, R217
  JobWorld world;
  world.WriteFive(kSealed);
  const std::string bad = JobWorld::Hour("08");
  world.WriteFive(bad);
  PutManifest(world, bad, R"({"generation":1,"files":["../../x.parquet"]})");
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, bad).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, bad).error->code, Code::kCorrupt);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kCommitted);
  EXPECT_TRUE(report->failed());
  EXPECT_THAT(world.Names(bad), SizeIs(6));
}

TEST(HiveSweep, NamesAMissingLiveFile) {
  JobWorld world;
  world.WriteFive(kSealed);
  PutManifest(world, kSealed, R"({"generation":1,"files":["f1.parquet","gone.parquet"]})");
  world.clock.Advance(std::chrono::hours(2));
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kCorrupt);
  EXPECT_THAT(Of(report, kSealed).error->message, HasSubstr("gone.parquet"));
  EXPECT_THAT(world.Names(kSealed), SizeIs(6));
  EXPECT_EQ(world.Manifest(kSealed).generation, 1U);
}

TEST(HiveSweep, StopsIfTheManifestWasLost) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  ASSERT_TRUE(world.store.Remove(kSealed + "manifest.json").has_value());
  world.clock.Advance(std::chrono::hours(5));
  const auto report = world.Sweep();
  const PartitionOutcome& outcome = Of(report, kSealed);
  EXPECT_EQ(outcome.outcome, Outcome::kFailed);
  EXPECT_EQ(outcome.error->code, Code::kCorrupt);
  EXPECT_THAT(outcome.error->message,
              HasSubstr("manifest.json is missing but compaction outputs are present"));
  EXPECT_THAT(outcome.error->hint, HasSubstr("audit"));
  EXPECT_THAT(world.Names(kSealed), SizeIs(6));
}

TEST(HiveSweep, RefusesTheOutputOfAnotherPartition) {  // R222
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  sim::SimFile file;
  file.mark.emplace();
  file.mark->job_id = "j";
  file.mark->partition = JobWorld::Hour("09");
  file.rows = {"x"};
  ASSERT_TRUE(world.store.PutNew(kSealed + "moved.parquet", sim::EncodeSimFile(file)).has_value());
  world.clock.Advance(std::chrono::hours(5));
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kCorrupt);
  EXPECT_THAT(Of(report, kSealed).error->message, HasSubstr("hour=09"));
  EXPECT_TRUE(world.Names(kSealed).contains("moved.parquet"));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
}

TEST(HiveSweep, LeavesUnreadableFilesAlone) {  // P20
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  ASSERT_TRUE(world.store.PutNew(kSealed + "torn.parquet", "").has_value());
  auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kSkipped);  // Young: only a note.
  EXPECT_THAT(Of(report, kSealed).notes, ElementsAre(HasSubstr("torn.parquet")));
  world.clock.Advance(61 * kMinute);
  report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kCorrupt);
  EXPECT_TRUE(world.Names(kSealed).contains("torn.parquet"));
}

TEST(HiveSweep, SkipsWhatCannotBeRewritten) {  // P21
  JobWorld world;
  world.WriteFive(kSealed);
  world.Write(kSealed, "secret", {"encrypted"});
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kSkipped);
  EXPECT_EQ(Of(report, kSealed).plan.verdict, Verdict::kUnsupported);
  EXPECT_THAT(Of(report, kSealed).plan.reason, HasSubstr("secret.parquet"));
  EXPECT_EQ(world.Manifest(kSealed).generation, 0U);
}

TEST(HiveSweep, CorruptInputFailsThePartition) {  // R309
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.store.PutNew(kSealed + "torn.parquet", "xx").has_value());
  const auto report = world.Sweep();
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_THAT(Of(report, kSealed).error->context, HasSubstr("torn.parquet"));
  EXPECT_THAT(world.Names(kSealed), SizeIs(6));
}

TEST(HiveSweep, StopsOnRequest) {
  JobWorld world;
  world.WriteFive(kSealed);
  CancelFlag cancel;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool) -> Status {
    if (op == "Create") cancel.Request();
    return {};
  });
  const auto report = world.Job(seen).Sweep({}, false, cancel);
  EXPECT_TRUE(report->cancelled);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kCancelled);
  EXPECT_THAT(world.Names(kSealed), SizeIs(5));  // No temporary, no manifest.
}

TEST(HiveSweep, R315_WarnsOfASlowClock) {
  JobWorld world;
  world.WriteFive(kOpen);
  ASSERT_TRUE(
      world.store.SetModified(kOpen + "f1.parquet", world.clock.Now() + std::chrono::hours(2))
          .has_value());
  EXPECT_EQ(Of(world.Sweep(), kOpen).outcome, Outcome::kCommitted);
  EXPECT_THAT(world.progress.lines, ElementsAre(HasSubstr("ahead of this machine's clock")));
}

TEST(HiveSweep, UnknownOutcomeRemovesNothing) {
  JobWorld world;
  world.WriteFive(kSealed);
  bool lost = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
    if (op == "PutIf" && !before) {
      lost = true;
      return Status(Fail(Code::kUnknownOutcome, "timed out", key));
    }
    const bool look = lost && op == "Get" && key.ends_with("manifest.json");
    return look ? Status(Fail(Code::kTransient, "timed out", key)) : Status();
  });
  const auto report = world.Sweep(seen);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kUnknownOutcome);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "unknown 2"));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);  // It had been published.
  // The next sweep finds out.
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_EQ(world.Phases().back(), "committed 2");
}

// P30, H5: the swap was applied although the store says that it failed, with a code by which
// nothing can have happened. The outputs are live: only the look before each removal knows.
TEST(HiveSweep, H5_OutputsThatAreLiveAreNotDiscarded) {
  for (const Code code : {Code::kDenied, Code::kLimit, Code::kInvalid}) {
    SCOPED_TRACE(CodeName(code));
    JobWorld world;
    world.WriteFive(kSealed);
    FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
      return op == "PutIf" && !before ? Status(Fail(code, "so it says", key)) : Status();
    });
    const auto report = world.Sweep(seen);
    EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
    EXPECT_EQ(Of(report, kSealed).error->code, code);
    const HiveManifest manifest = world.Manifest(kSealed);
    EXPECT_EQ(manifest.generation, 2U);
    ASSERT_THAT(manifest.files, SizeIs(1));
    EXPECT_TRUE(world.Names(kSealed).contains(manifest.files.front()));
    EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
    world.clock.Advance(61 * kMinute);
    EXPECT_THAT(world.Sweep()->gc.removed, SizeIs(5));
    EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  }
}

TEST(HiveSweep, H5_AppliedAndFoundIsCommitted) {
  for (const Code code : {Code::kConflict, Code::kTransient, Code::kUnknownOutcome}) {
    SCOPED_TRACE(CodeName(code));
    JobWorld world;
    world.WriteFive(kSealed);
    FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
      return op == "PutIf" && !before ? Status(Fail(code, "so it says", key)) : Status();
    });
    EXPECT_EQ(Of(world.Sweep(seen), kSealed).outcome, Outcome::kCommitted);
    EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
    EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2"));
  }
}

// A plain failure: what was written for nothing goes.
TEST(HiveSweep, OutputsOfAFailedSwapAreDiscarded) {
  JobWorld world;
  world.WriteFive(kSealed);
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
    return op == "PutIf" && before ? Status(Fail(Code::kDenied, "read-only", key)) : Status();
  });
  EXPECT_EQ(Of(world.Sweep(seen), kSealed).error->code, Code::kDenied);
  EXPECT_THAT(world.Names(kSealed), SizeIs(6));  // Five inputs and the manifest.
  EXPECT_EQ(world.Manifest(kSealed).generation, 1U);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "aborted 2"));
}

// Holds the first replacement of an object back, and says that it timed out; later ones fail as
// they are told to.
class DelayingStore final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Code later = Code::kTransient;

  // The delayed request lands.
  Status Land() { return store_.PutIf(key_, bytes_, version_); }

  Status PutIf(const std::string& key, std::string_view bytes,
               const std::string& version) override {
    if (!key_.empty()) return Fail(later, "not this time", key);
    key_ = key;
    bytes_ = bytes;
    version_ = version;
    return Fail(Code::kTransient, "timed out", key);
  }

 private:
  std::string key_;
  std::string bytes_;
  std::string version_;
};

// R302, P30: not there when looked for, but the request is still under way.
TEST(HiveSweep, H5_ADelayedSwapFindsItsOutputs) {
  JobWorld world;
  world.WriteFive(kSealed);
  DelayingStore delaying(world.store);
  const auto report = world.Sweep(delaying);
  EXPECT_EQ(Of(report, kSealed).outcome, Outcome::kFailed);
  EXPECT_EQ(Of(report, kSealed).error->code, Code::kTransient);
  EXPECT_EQ(world.Manifest(kSealed).generation, 1U);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "unknown 2"));

  ASSERT_TRUE(delaying.Land());
  EXPECT_EQ(world.Manifest(kSealed).generation, 2U);
  ASSERT_THAT(world.Manifest(kSealed).files, SizeIs(1));
  EXPECT_TRUE(world.Names(kSealed).contains(world.Manifest(kSealed).files.front()));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_EQ(world.Phases().back(), "committed 2");
}

// R302: a stop, or a refusal, that ends a later try says nothing of the one that is under way.
TEST(HiveSweep, H5_WhatEndsALaterTrySaysNothingOfADelayedOne) {
  for (const Code code : {Code::kCancelled, Code::kDenied, Code::kInvalid}) {
    SCOPED_TRACE(CodeName(code));
    JobWorld world;
    world.WriteFive(kSealed);
    DelayingStore delaying(world.store);
    delaying.later = code;
    EXPECT_EQ(Of(world.Sweep(delaying), kSealed).error->code, Code::kUnknownOutcome);
    EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "unknown 2"));
    ASSERT_TRUE(delaying.Land());
    EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
    EXPECT_EQ(world.Sweep()->reconciled, 1);
    EXPECT_EQ(world.Phases().back(), "committed 2");
  }
}

// The same request that never lands: the next sweeps do the work, and the outputs go in the end.
TEST(HiveSweep, H5_ALostSwapLeavesOutputsToTheCollection) {
  JobWorld world;
  world.WriteFive(kSealed);
  DelayingStore delaying(world.store);
  ASSERT_EQ(Of(world.Sweep(delaying), kSealed).error->code, Code::kTransient);
  EXPECT_THAT(world.Names(kSealed), SizeIs(7));  // With the output.
  ASSERT_EQ(Of(world.Sweep(), kSealed).outcome, Outcome::kCommitted);
  world.clock.Advance(61 * kMinute);
  ASSERT_TRUE(world.Sweep());  // Inputs go; the orphan is fenced and goes.
  EXPECT_THAT(world.Names(kSealed), SizeIs(2));
  EXPECT_EQ(world.LiveRows(kSealed), kFiveRows);
  EXPECT_FALSE(delaying.Land());  // Too late: fenced.
}

TEST(HiveSweep, RefusesWrongSettings) {
  JobWorld world;
  world.settings.audit_series = "nowhere";
  EXPECT_EQ(world.Sweep().error().code, Code::kInvalid);
  world.settings.audit_series = "audit";
  EXPECT_TRUE(world.Sweep().has_value());
  world.settings.threads = 0;
  EXPECT_EQ(world.Sweep().error().code, Code::kInvalid);
  world.settings.series.clear();
  EXPECT_EQ(world.Sweep().error().code, Code::kInvalid);
}

TEST(HiveStatus, ShowsPlanGenerationAndLastCompaction) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  const Time committed = world.clock.Now();
  world.clock.Advance(kMinute);
  world.WriteFive(kOpen);
  const auto status = world.Job().GetStatus({}, CancelFlag());
  ASSERT_THAT(status->partitions, SizeIs(2));
  EXPECT_EQ(status->partitions[0].plan.verdict, Verdict::kIrreducible);
  EXPECT_EQ(status->partitions[0].state.manifest->manifest.generation, 2U);
  EXPECT_EQ(status->partitions[0].last_compaction, committed);
  EXPECT_EQ(status->partitions[1].plan.live_files, 5);
  EXPECT_FALSE(status->partitions[1].last_compaction.has_value());

  const auto live = world.Job().LiveFiles(kSealed.substr(0, kSealed.size() - 1));
  ASSERT_TRUE(live.has_value()) << live.error().ToString();
  EXPECT_THAT(live->files, SizeIs(6));
  EXPECT_EQ(world.Job().LiveFiles("data/tenant_id=a/date=2026-11-29/hour=03").error().code,
            Code::kNotFound);
  EXPECT_EQ(world.Job().LiveFiles("elsewhere").error().code, Code::kInvalid);
}

TEST(HiveVerify, CountsRowsAndNamesWhatIsWrong) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep().has_value());
  world.Write(kOpen, "w", {"a", "b"});
  auto report = world.Job().Verify({}, CancelFlag());
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->ok());
  EXPECT_EQ(report->rows, 7);
  EXPECT_EQ(report->partitions, 2);
  ASSERT_THAT(report->files, SizeIs(2));
  EXPECT_TRUE(report->files[0].digest_recorded);
  EXPECT_FALSE(report->files[1].digest_recorded);

  ASSERT_TRUE(world.store.PutNew(kOpen + "torn.parquet", "").has_value());
  ASSERT_TRUE(world.store.Remove(kSealed + world.Manifest(kSealed).files.front()).has_value());
  report = world.Job().Verify({}, CancelFlag());
  EXPECT_FALSE(report->ok());
  ASSERT_THAT(report->errors, SizeIs(1));
  EXPECT_THAT(report->errors.front().message, HasSubstr("does not exist"));
  ASSERT_THAT(report->files, SizeIs(2));
  EXPECT_EQ(report->files[0].error->code, Code::kCorrupt);
}

}  // namespace
}  // namespace lithify::job
