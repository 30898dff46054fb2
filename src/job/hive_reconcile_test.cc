#include "job/hive_reconcile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using observe::AuditEvent;
using sim::JobWorld;
using storage::FaultyStore;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kSealed = JobWorld::Hour("10");

// Sweeps as a process that dies at the swap: right before it, or right after it was applied.
void DieAtTheSwap(JobWorld& world, bool applied) {
  FaultyStore dying(world.store, [&](std::string_view op, const std::string& key, bool before) {
    const bool dies = op == "PutIf" && before != applied;
    return dies ? Status(Fail(Code::kCancelled, "crash", key)) : Status();
  });
  ASSERT_TRUE(world.Sweep(dying).has_value());
}

// The log as the dead process left it: what it appended after its crash never happened.
void KeepIntents(JobWorld& world) {
  auto log = observe::OpenMemoryAuditLog();
  for (const AuditEvent& event : world.Events()) {
    if (event.phase != AuditEvent::Phase::kIntent) continue;
    ASSERT_TRUE(log->Append(event).has_value());
  }
  world.audit = std::move(log);
}

std::vector<std::string> EventFiles(JobWorld& world) {
  std::vector<std::string> keys;
  for (const std::string& key : world.store.Keys()) {
    if (key.starts_with("audit/")) keys.push_back(key);
  }
  return keys;
}

TEST(HiveReconcile, T25_FindsACommitWithoutOutcomeAndWritesItsEvent) {
  JobWorld world;
  world.settings.audit_series = "audit";
  world.WriteFive(kSealed);
  DieAtTheSwap(world, true);
  KeepIntents(world);
  ASSERT_THAT(world.Phases(), ElementsAre("intent 2"));
  EXPECT_THAT(EventFiles(world), SizeIs(0));
  const std::string key = world.Events().front().emitted_file;
  const std::string when = FormatTime(world.Events().front().time);

  world.clock.Advance(std::chrono::minutes(1));
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2", "emitted 2"));
  EXPECT_EQ(world.Events()[1].rows, 5);
  // R245: by tenant and day of the event, under the name that the intent gave it.
  EXPECT_THAT(EventFiles(world), ElementsAre(key));
  EXPECT_THAT(key, HasSubstr("audit/tenant_id=a/date=2026-11-29/"));
  const auto file = sim::DecodeSimFile(world.store.Get(key, 1000)->bytes);
  EXPECT_THAT(file->rows, ElementsAre("a|date=2026-11-29/hour=10|2|" + when));

  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_THAT(world.Phases(), SizeIs(3));
}

TEST(HiveReconcile, WaitsForAYoungAttemptAndAbortsItOnceFenced) {
  JobWorld world;
  world.WriteFive(kSealed);
  DieAtTheSwap(world, false);
  KeepIntents(world);
  world.settings.options.min_files = 100;  // No new compaction in this test.
  world.settings.options.small_file_bytes = 1;
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2"));
  // Past the grace its output still exists, so that it might still commit.
  world.clock.Advance(std::chrono::minutes(61));
  EXPECT_EQ(world.Sweep()->reconciled, 0);  // But this sweep fences it.
  EXPECT_EQ(world.Manifest(kSealed).generation, 2U);
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "collected 1", "aborted 2"));
  EXPECT_THAT(world.Events().back().error, HasSubstr("published this generation"));
}

TEST(HiveReconcile, AbortsAnAttemptWhoseOutputsAreGone) {
  JobWorld world;
  world.WriteFive(kSealed);
  DieAtTheSwap(world, false);
  KeepIntents(world);
  world.settings.options.min_files = 100;
  world.settings.options.small_file_bytes = 1;
  ASSERT_TRUE(world.store.Remove(kSealed + world.Events().front().outputs.front()).has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  world.clock.Advance(std::chrono::minutes(61));
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "aborted 2"));
}

// Its process may be alive still, and nothing can be fenced: only the next generation decides.
TEST(HiveReconcile, WaitsForAnAttemptWithoutOutputs) {
  JobWorld world;
  for (const char* name : {"e1", "e2", "e3", "e4", "e5"}) world.Write(kSealed, name, {});
  DieAtTheSwap(world, false);
  KeepIntents(world);
  ASSERT_THAT(world.Events().front().outputs, SizeIs(0));
  world.settings.options.min_files = 100;
  world.settings.options.small_file_bytes = 1;
  world.clock.Advance(std::chrono::hours(5));
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2"));
  world.Write(kSealed, "late", {"r1"});
  ASSERT_EQ(world.Sweep()->Count(Outcome::kAdopted), 1);
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_EQ(world.Phases().back(), "aborted 2");
}

TEST(HiveReconcile, AnotherJobsGenerationMeansAborted) {
  JobWorld world;
  world.WriteFive(kSealed);
  DieAtTheSwap(world, false);
  KeepIntents(world);
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "intent 2", "committed 2", "aborted 2"));
  EXPECT_EQ(world.Events().front().job_id, world.Events().back().job_id);
}

// Later generations were built on the attempt: its outputs were inputs of the next compaction, and
// even their records are gone.
TEST(HiveReconcile, AnOvertakenCommitIsFoundByItsOutputs) {
  JobWorld world;
  world.WriteFive(kSealed);
  DieAtTheSwap(world, true);
  auto first = world.Events().front();
  KeepIntents(world);
  auto hidden = std::move(world.audit);  // Another host's log, which knows nothing of the first.
  world.audit = observe::OpenMemoryAuditLog();
  world.Write(kSealed, "late", {"r6"});
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  ASSERT_EQ(world.Manifest(kSealed).generation, 4U);
  const std::vector<AuditEvent> later = world.Events();
  world.audit = std::move(hidden);

  // By the retired record of its input …
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2"));

  // … and without any record, by the later intent.
  world.audit = observe::OpenMemoryAuditLog();
  ASSERT_TRUE(world.audit->Append(first).has_value());
  for (const AuditEvent& event : later) ASSERT_TRUE(world.audit->Append(event).has_value());
  const auto snapshot = table::ReadManifest(world.store, kSealed);
  HiveManifest bare = (*snapshot)->manifest;
  for (const RetiredFile& file : bare.retired) {
    ASSERT_TRUE(world.store.Remove(kSealed + file.name).has_value());
  }
  bare.retired.clear();
  bare.generation = 5;
  ASSERT_TRUE(
      world.store
          .PutIf(kSealed + "manifest.json", *table::SerializeManifest(bare), (*snapshot)->version)
          .has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_EQ(world.Phases().back(), "committed 2");
}

TEST(HiveReconcile, SaysOnceThatAnOutcomeCannotBeTold) {
  JobWorld world;
  world.WriteFive(kSealed);
  DieAtTheSwap(world, false);
  KeepIntents(world);
  const auto snapshot = table::ReadManifest(world.store, kSealed);
  ASSERT_TRUE(
      world.store
          .PutIf(kSealed + "manifest.json", R"({"generation":9,"files":[]})", (*snapshot)->version)
          .has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_EQ(world.Phases()[1], "unknown 2");
  ASSERT_FALSE(world.progress.lines.empty());
  EXPECT_THAT(world.progress.lines.front(), HasSubstr("cannot be told"));
  const size_t records = world.Phases().size();
  ASSERT_TRUE(world.Sweep().has_value());
  EXPECT_EQ(world.Phases().size(), records);
}

// --- Adoptions ---

// A compacted partition of generation 2, a late file, and an empty log.
void CompactAndWriteLate(JobWorld& world) {
  world.WriteFive(kSealed);
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  world.Write(kSealed, "late", {"r6"});
  world.audit = observe::OpenMemoryAuditLog();
}

AuditEvent AdoptionIntent(const std::string& job, uint64_t generation, const std::string& file) {
  AuditEvent event;
  event.job_id = job;
  event.procedure = observe::kHiveAdopt;
  event.series = "data";
  event.tenant = "a";
  event.partition = kSealed;
  event.inputs = {file};
  event.generation = generation;
  return event;
}

TEST(HiveReconcile, T25AnAdoptionIsAnnounced) {
  JobWorld world;
  CompactAndWriteLate(world);
  std::vector<std::string> at_publication;
  FaultyStore seen(world.store, [&](std::string_view op, const auto&, bool before) -> Status {
    if (op == "PutIf" && before && at_publication.empty()) at_publication = world.Phases();
    return {};
  });
  ASSERT_TRUE(world.Sweep(seen).has_value());
  EXPECT_THAT(at_publication, ElementsAre("intent 3"));
  EXPECT_THAT(world.Phases(), ElementsAre("intent 3", "adopted 3", "intent 4", "committed 4"));
  const std::vector<AuditEvent> events = world.Events();
  EXPECT_EQ(events[0].procedure, observe::kHiveAdopt);
  EXPECT_THAT(events[0].inputs, ElementsAre("late.parquet"));
  EXPECT_EQ(events[0].job_id, events[1].job_id);
  EXPECT_EQ(events[0].rows, 1);
  EXPECT_EQ(events[2].procedure, "");
}

TEST(HiveReconcile, T25FindsAnAdoptionWithoutOutcome) {
  for (const bool applied : {true, false}) {
    JobWorld world;
    CompactAndWriteLate(world);
    DieAtTheSwap(world, applied);
    KeepIntents(world);
    ASSERT_THAT(world.Phases(), ElementsAre("intent 3"));
    const std::string dead = world.Events().front().job_id;
    EXPECT_EQ(world.Sweep()->reconciled, applied ? 1 : 0);
    if (applied) {
      EXPECT_THAT(world.Phases(), ElementsAre("intent 3", "adopted 3", "intent 4", "committed 4"));
      EXPECT_EQ(world.Events()[1].job_id, dead);
      continue;
    }
    EXPECT_EQ(world.Sweep()->reconciled, 1);
    EXPECT_THAT(world.Phases(), ElementsAre("intent 3", "intent 3", "adopted 3", "intent 4",
                                            "committed 4", "aborted 3"));
    EXPECT_EQ(world.Events().back().job_id, dead);
    EXPECT_EQ(world.Events().back().procedure, observe::kHiveAdopt);
    EXPECT_EQ(world.Sweep()->reconciled, 0);
  }
}

TEST(HiveReconcile, AnOvertakenAdoptionIsFoundByItsFiles) {
  JobWorld world;
  CompactAndWriteLate(world);
  DieAtTheSwap(world, true);
  KeepIntents(world);
  auto hidden = std::move(world.audit);  // Another host's log, which knows nothing of the first.
  world.audit = observe::OpenMemoryAuditLog();
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  ASSERT_EQ(world.Manifest(kSealed).generation, 4U);
  world.audit = std::move(hidden);
  const AuditEvent ghost = AdoptionIntent("ghost-job", 3, "ghost.parquet");
  ASSERT_TRUE(world.audit->Append(ghost).has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 2);
  EXPECT_THAT(world.Phases(),
              testing::UnorderedElementsAre("intent 3", "intent 3", "adopted 3", "aborted 3"));
}

// The store does not tell that our adoption was applied, and somebody publishes over it: to us that
// looks like a lost race.
TEST(HiveReconcile, AnAdoptionThatLooksLostMayBeTheOne) {
  for (const bool applied : {true, false}) {
    JobWorld world;
    CompactAndWriteLate(world);
    bool struck = false;
    FaultyStore seen(world.store, [&](std::string_view op, const std::string& key, bool before) {
      if (op != "PutIf" || before == applied || struck) return Status();
      struck = true;
      world.Write(kSealed, "later", {"r7"});
      EXPECT_TRUE(world.Sweep().has_value());  // Adopts, and compacts.
      return Status(applied ? Status(Fail(Code::kUnknownOutcome, "injected", key)) : Status());
    });
    ASSERT_TRUE(world.Sweep(seen).has_value());
    ASSERT_TRUE(struck);
    const std::string ours = world.Events().front().job_id;
    ASSERT_TRUE(world.Sweep().has_value());
    std::vector<std::string> phases;
    for (const AuditEvent& event : world.Events()) {
      if (event.job_id != ours || event.generation != 3) continue;
      phases.push_back(std::string(observe::PhaseName(event.phase)));
    }
    EXPECT_THAT(phases, ElementsAre("intent", applied ? "adopted" : "aborted"));
  }
}

// The log was read before another job announced, published and recorded the same adoption, and the
// manifest after that.
TEST(HiveReconcile, AnAdoptionIsNotJudgedByAnOldLog) {
  class LateReader final : public observe::AuditLog {
   public:
    explicit LateReader(observe::AuditLog& log) : log_(log) {}
    Status Append(const AuditEvent& event) override { return log_.Append(event); }
    Result<std::vector<observe::AuditRecord>> ReadAll(bool* torn) override {
      auto records = log_.ReadAll(torn);
      if (reads_++ == 0) records->resize(1);
      return records;
    }

   private:
    observe::AuditLog& log_;
    int reads_ = 0;
  };
  JobWorld world;
  CompactAndWriteLate(world);
  ASSERT_TRUE(world.audit->Append(AdoptionIntent("dead", 3, "late.parquet")).has_value());
  ASSERT_TRUE(world.Sweep().has_value());
  ASSERT_THAT(world.Phases(),
              ElementsAre("intent 3", "intent 3", "adopted 3", "intent 4", "committed 4"));
  auto log = std::move(world.audit);
  world.audit = std::make_unique<LateReader>(*log);
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  world.audit = std::move(log);
  EXPECT_EQ(world.Phases().back(), "aborted 3");
  EXPECT_EQ(world.Events().back().job_id, "dead");
}

TEST(HiveReconcile, WhichOfTwoDeadAdoptionsItWasCannotBeTold) {
  JobWorld world;
  CompactAndWriteLate(world);
  ASSERT_TRUE(world.Sweep().has_value());
  world.audit = observe::OpenMemoryAuditLog();
  const AuditEvent one = AdoptionIntent("job-1", 3, "late.parquet");
  AuditEvent two = AdoptionIntent("job-2", 3, "late.parquet");
  ASSERT_TRUE(world.audit->Append(one).has_value());
  ASSERT_TRUE(world.audit->Append(two).has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 3", "intent 3", "unknown 3", "unknown 3"));
  ASSERT_TRUE(world.Sweep().has_value());
  EXPECT_EQ(world.Phases().size(), 4U);  // Said once.
  // One of them was alive after all, and says what it knows.
  two.phase = AuditEvent::Phase::kAdopted;
  ASSERT_TRUE(world.audit->Append(two).has_value());
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_EQ(world.Phases().back(), "aborted 3");
  EXPECT_EQ(world.Events().back().job_id, "job-1");
}

TEST(HiveEvents, AreWrittenOnceAndCompactedLikeData) {  // R209, R243-R247
  JobWorld world;
  world.settings.audit_series = "audit";
  for (const char* hour : {"01", "02", "03", "04", "05"}) world.WriteFive(JobWorld::Hour(hour));
  ASSERT_EQ(world.Sweep()->Count(Outcome::kCommitted), 5);
  ASSERT_THAT(EventFiles(world), SizeIs(5));
  EXPECT_EQ(world.Events().back().phase, AuditEvent::Phase::kEmitted);

  // A lost "emitted" line: the file is found, not written again.
  auto log = observe::OpenMemoryAuditLog();
  for (const AuditEvent& event : world.Events()) {
    if (event.phase == AuditEvent::Phase::kEmitted) continue;
    ASSERT_TRUE(log->Append(event).has_value());
  }
  world.audit = std::move(log);
  ASSERT_FALSE(world.Sweep()->failed());
  EXPECT_THAT(EventFiles(world), SizeIs(5));
  EXPECT_THAT(world.Phases(), SizeIs(15));

  world.clock.Advance(std::chrono::hours(14));  // Past the day and its grace (R210).
  EXPECT_EQ(world.Sweep()->Count(Outcome::kCommitted), 1);
  EXPECT_THAT(world.LiveRows("audit/tenant_id=a/date=2026-11-29/"), SizeIs(5));
  EXPECT_THAT(world.Names("audit/tenant_id=a/date=2026-11-30/"), SizeIs(1));
}

}  // namespace
}  // namespace lithify::job
