// What a review of the loop found: reused names, links, foreign outputs, rebased swaps, logs of two
// trees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "commit/hive_commit.h"
#include "hooked_runner.h"
#include "job/hive_job.h"
#include "job_world.h"
#include "storage/faulty_store.h"
#include "storage/local_store.h"

namespace lithify::job {
namespace {

using observe::AuditEvent;
using sim::JobWorld;
using storage::FaultyStore;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Rows = std::multiset<std::string>;

const std::string kSealed = JobWorld::Hour("10");
const Rows kFiveRows = {"r1", "r2", "r3", "r4", "r5"};
constexpr auto kMinute = std::chrono::minutes(1);

const PartitionOutcome& Only(const Result<SweepReport>& report) {
  EXPECT_THAT(report->partitions, SizeIs(1));
  return report->partitions.front();
}

std::string ErrorOf(const PartitionOutcome& outcome) {
  return outcome.error ? outcome.error->ToString() : "";
}

// T22, R238: the record is of the file that was there, not of its name.
TEST(HiveReview, AFileUnderARetiredNameIsNeverRemoved) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep());
  world.clock.Advance(kMinute);
  ASSERT_TRUE(world.store.Remove(kSealed + "f1.parquet"));
  world.Write(kSealed, "f1", {"new"});
  world.clock.Advance(std::chrono::hours(48));
  const auto report = world.Sweep();
  EXPECT_THAT(report->gc.removed, SizeIs(4));
  ASSERT_THAT(report->gc.kept, SizeIs(1));
  EXPECT_EQ(report->gc.kept.front().key, kSealed + "f1.parquet");
  EXPECT_THAT(report->gc.kept.front().reason, HasSubstr("under the name of a file"));
  EXPECT_TRUE(world.Names(kSealed).contains("f1.parquet"));
  EXPECT_EQ(Only(report).outcome, Outcome::kFailed);
  EXPECT_EQ(Only(report).error->code, Code::kCorrupt);
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr("names must be unique"));
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr("rename it to have it adopted"));
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr(kSealed + "f1.parquet"));

  // As it says.
  ASSERT_TRUE(world.store.Remove(kSealed + "f1.parquet"));
  world.Write(kSealed, "f1_again", {"new"});
  EXPECT_EQ(Only(world.Sweep()).outcome, Outcome::kCommitted);
  EXPECT_EQ(world.LiveRows(kSealed), (Rows{"new", "r1", "r2", "r3", "r4", "r5"}));
}

// Between the listing and the removal.
TEST(HiveReview, AFileThatChangedSinceTheListingIsNotRemoved) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Sweep());
  world.clock.Advance(std::chrono::hours(2));
  const std::string key = kSealed + "f1.parquet";
  bool replaced = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& at, bool before) {
    if (!before || replaced || op != "Stat" || at != key) return Status();
    replaced = true;
    EXPECT_TRUE(world.store.Remove(key));
    world.Write(kSealed, "f1", {"new"});
    return Status();
  });
  const auto report = world.Job(seen).Collect({}, false, CancelFlag());
  EXPECT_THAT(report->removed, SizeIs(4));
  ASSERT_THAT(report->kept, SizeIs(1));
  EXPECT_THAT(report->kept.front().reason, HasSubstr("changed since it was listed"));
  EXPECT_TRUE(world.Names(kSealed).contains("f1.parquet"));
}

// R315: a writer whose clock is ahead. Its file is retired like any other.
TEST(HiveReview, AnInputFromTheFutureIsNoReusedName) {
  JobWorld world;
  world.WriteFive(kSealed);
  const Time ahead = world.clock.Now() + 10 * kMinute;
  ASSERT_TRUE(world.store.SetModified(kSealed + "f1.parquet", ahead));
  ASSERT_EQ(Only(world.Sweep()).outcome, Outcome::kCommitted);
  EXPECT_EQ(Only(world.Sweep()).outcome, Outcome::kSkipped);
  world.clock.Advance(std::chrono::hours(2));
  EXPECT_THAT(world.Sweep()->gc.removed, SizeIs(5));
}

// T20, R313: what was read is not what the swap would retire.
TEST(HiveReview, AnInputThatIsReplacedDuringTheRewriteStaysLive) {
  JobWorld world;
  world.WriteFive(kSealed);
  bool replaced = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
    if (!before || replaced || op != "Publish") return Status();
    replaced = true;
    world.clock.Advance(kMinute);
    EXPECT_TRUE(world.store.Remove(kSealed + "f1.parquet"));
    world.Write(kSealed, "f1", {"r9"});  // Of the same size.
    return Status();
  });
  const auto report = world.Sweep(seen);
  EXPECT_EQ(Only(report).outcome, Outcome::kFailed);
  EXPECT_EQ(Only(report).error->code, Code::kCorrupt);
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr("input was replaced while it was rewritten"));
  EXPECT_EQ(world.LiveRows(kSealed), (Rows{"r9", "r2", "r3", "r4", "r5"}));
}

// The same world on a local directory, where there are links.
class HiveReviewLocal : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "hive_review_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    store_ = storage::OpenLocalStore(root_).value();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& row) {
    sim::SimFile file;
    file.rows = {row};
    ASSERT_TRUE(store_->PutNew(kSealed + name, sim::EncodeSimFile(file)));
  }
  void Link(const std::string& name) {
    std::filesystem::create_symlink(root_ + "/elsewhere", root_ + "/" + kSealed + name);
  }
  bool HasManifest() { return store_->Stat(kSealed + "manifest.json").has_value(); }

  JobWorld world_;
  std::string root_;
  std::unique_ptr<storage::Store> store_;
};

// T19, R215: readers that glob follow the link, so that a first generation would hide its rows.
TEST_F(HiveReviewLocal, ALinkBlocksBootstrapAdoptionAndCompaction) {
  for (const char* name : {"f1.parquet", "f2.parquet", "f3.parquet"}) Write(name, name);
  Link("linked.parquet");
  auto report = world_.Sweep(*store_);
  EXPECT_EQ(Only(report).outcome, Outcome::kFailed);
  EXPECT_EQ(Only(report).error->code, Code::kUnsupported);
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr(kSealed + "linked.parquet"));
  EXPECT_THAT(ErrorOf(Only(report)), HasSubstr("replace it by the file itself"));
  EXPECT_FALSE(HasManifest());

  std::filesystem::remove(root_ + "/" + kSealed + "linked.parquet");
  Link("notes.txt");  // Nobody's data.
  ASSERT_EQ(Only(world_.Sweep(*store_)).outcome, Outcome::kCommitted);
  Link("linked.parquet");
  Write("late.parquet", "late");
  report = world_.Sweep(*store_);
  EXPECT_EQ(Only(report).error->code, Code::kUnsupported);
  EXPECT_THAT(Only(report).adopted, IsEmpty());
  EXPECT_EQ(Only(report).generation, 2U);
}

// The check at planning time is not enough: it may appear during the rewrite.
TEST_F(HiveReviewLocal, ALinkOrAnUnnameableFileThatComesLaterBlocksTheBootstrap) {
  for (const bool link : {true, false}) {
    const std::string name = link ? "linked.parquet" : "_hidden.parquet";
    if (link) {
      for (const char* file : {"f1.parquet", "f2.parquet", "f3.parquet"}) Write(file, file);
    }
    FaultyStore seen(*store_, [&](std::string_view op, const std::string&, bool before) {
      const std::string path = root_ + "/" + kSealed + name;
      if (!before || op != "Create" ||
          std::filesystem::exists(symlink_status(std::filesystem::path(path)))) {
        return Status();
      }
      if (link) {
        Link(name);
      } else {
        Write(name, "hidden");
      }
      return Status();
    });
    const auto report = world_.Sweep(seen);
    EXPECT_EQ(Only(report).outcome, Outcome::kFailed);
    EXPECT_EQ(Only(report).error->code, Code::kUnsupported);
    EXPECT_THAT(ErrorOf(Only(report)), HasSubstr(kSealed + name));
    EXPECT_FALSE(HasManifest());
    std::filesystem::remove(root_ + "/" + kSealed + name);
  }
}

// Q4, T22: another writer's compactor that died between its output and its manifest.
TEST(HiveReview, AForeignOutputWithAllRowsIsNotAdopted) {
  JobWorld world;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.store.PutNew(
      kSealed + "manifest.json",
      R"({"generation":1,"files":["f1.parquet","f2.parquet","f3.parquet","f4.parquet",)"
      R"("f5.parquet"]})"));
  world.clock.Advance(kMinute);
  world.Write(kSealed, "all", {"r1", "r2", "r3", "r4", "r5"});
  world.Write(kSealed, "late", {"r6"});
  EXPECT_THAT(Only(world.Sweep()).adopted, ElementsAre("late.parquet"));
  const Rows six = {"r1", "r2", "r3", "r4", "r5", "r6"};
  EXPECT_EQ(world.LiveRows(kSealed), six);
  world.clock.Advance(std::chrono::hours(48));
  const auto report = world.Sweep();
  EXPECT_EQ(world.LiveRows(kSealed), six);
  ASSERT_THAT(report->gc.kept, SizeIs(1));
  EXPECT_EQ(report->gc.kept.front().key, kSealed + "all.parquet");
  EXPECT_TRUE(world.Names(kSealed).contains("all.parquet"));
}

TEST(HiveReview, WithoutTheForeignRowCountNothingIsAdopted) {
  JobWorld world;
  ASSERT_TRUE(world.store.PutNew(kSealed + "f1.parquet", "damaged"));
  ASSERT_TRUE(
      world.store.PutNew(kSealed + "manifest.json", R"({"generation":1,"files":["f1.parquet"]})"));
  world.clock.Advance(kMinute);
  world.Write(kSealed, "late", {"r6"});
  EXPECT_THAT(Only(world.Sweep()).adopted, IsEmpty());
  EXPECT_EQ(world.Manifest(kSealed).generation, 1U);
  EXPECT_FALSE(world.Manifest(kSealed).has_lineage);
}

// Its manifest was replaced between our listing and our reading: a file that is younger than the
// listed manifest may be older than the one that was read.
TEST(HiveReview, TheForeignManifestsTimeIsThatOfTheOneThatWasRead) {
  JobWorld world;
  world.WriteFive(kSealed);
  const std::string key = kSealed + "manifest.json";
  const std::string one = R"({"generation":1,"files":["f1.parquet","f2.parquet"]})";
  const std::string two = R"({"generation":2,"files":["f1.parquet","f2.parquet"]})";
  ASSERT_TRUE(world.store.PutNew(key, one));
  world.clock.Advance(kMinute);
  world.Write(kSealed, "superseded", {"x"});
  world.clock.Advance(kMinute);
  bool replaced = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string& at, bool before) {
    if (replaced || before || op != "List" || at != kSealed) return Status();
    replaced = true;
    return world.store.PutIf(key, two, world.store.Get(key, 1000)->version);
  });
  EXPECT_THAT(Only(world.Sweep(seen)).adopted, IsEmpty());
  EXPECT_EQ(world.LiveRows(kSealed), (Rows{"r1", "r2"}));
}

// Another compactor: adopts what is late, and compacts nothing.
void AdoptAsAnother(JobWorld& world, const std::string& name) {
  world.Write(kSealed, name, {name});
  const auto settings = world.settings;
  world.settings.options.min_files = 100;
  world.settings.options.small_file_bytes = 1;
  EXPECT_EQ(world.Sweep()->Count(Outcome::kAdopted), 1);
  world.settings = settings;
}

// R216, R310: late files that trickle in must not make every rewrite futile.
TEST(HiveReview, AnAdoptionDuringTheRewriteDoesNotCostIt) {
  for (const std::string moment : {"Publish", "PutIf"}) {
    JobWorld world;
    world.WriteFive(kSealed);
    ASSERT_TRUE(world.Sweep());  // So that there is a manifest.
    world.Write(kSealed, "g1", {"g1"});
    AdoptAsAnother(world, "g2");
    ASSERT_EQ(world.Manifest(kSealed).generation, 3U);
    bool adopted = false;
    FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
      // The first "Create" comes before BeforePublish().
      if (before && !adopted && op == (moment == "Publish" ? "Create" : "PutIf")) {
        adopted = true;
        AdoptAsAnother(world, "g3");
      }
      return Status();
    });
    const auto report = world.Sweep(seen);
    ASSERT_TRUE(adopted);
    EXPECT_EQ(Only(report).outcome, Outcome::kCommitted) << ErrorOf(Only(report));
    EXPECT_EQ(Only(report).generation, 5U);
    EXPECT_EQ(world.Manifest(kSealed).generation, 5U);
    EXPECT_EQ(world.LiveRows(kSealed), (Rows{"g1", "g2", "g3", "r1", "r2", "r3", "r4", "r5"}));
    EXPECT_THAT(world.Manifest(kSealed).files, Contains("g3.parquet"));
    const std::vector<std::string> phases = world.Phases();
    if (moment == "PutIf") {
      // T25: what is committed is what was announced.
      EXPECT_THAT(
          std::vector(phases.end() - 6, phases.end()),
          ElementsAre("intent 4", "intent 4", "adopted 4", "aborted 4", "intent 5", "committed 5"));
    } else {
      EXPECT_THAT(std::vector(phases.end() - 3, phases.end()),
                  ElementsAre("adopted 4", "intent 5", "committed 5"));
    }
    EXPECT_EQ(world.Sweep()->reconciled, 0);
  }
}

TEST(HiveReview, ARebaseIsBounded) {
  JobWorld world;
  world.WriteFive(kSealed);
  int swaps = 0;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
    if (before && op == "PutIf") AdoptAsAnother(world, "g" + std::to_string(++swaps));
    return Status();
  });
  EXPECT_EQ(Only(world.Sweep(seen)).outcome, Outcome::kLostRace);
  EXPECT_EQ(swaps, 4);
  EXPECT_EQ(world.LiveRows(kSealed), (Rows{"r1", "r2", "r3", "r4", "r5", "g1", "g2", "g3", "g4"}));
  EXPECT_THAT(world.Names(kSealed), SizeIs(10));  // Our output is gone.
}

// T23, H3: a fence means that the output is somebody's to remove, also once it is gone.
TEST(HiveReview, AFencedOutputIsNeverCommittedOnANewBase) {
  for (const bool record_gone : {false, true}) {
    JobWorld world;
    world.WriteFive(kSealed);
    bool fenced = false;
    FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
      if (!before || fenced || op != "PutIf") return Status();
      fenced = true;
      world.clock.Advance(std::chrono::hours(2));
      if (record_gone) {
        EXPECT_THAT(world.Job().Collect({}, false, CancelFlag())->removed, SizeIs(1));
        AdoptAsAnother(world, "late");  // Drops the record.
        EXPECT_THAT(world.Manifest(kSealed).retired, IsEmpty());
      } else {
        FaultyStore keeps(world.store, [](std::string_view what, const std::string&, bool) {
          return what == "Remove" ? Status(Fail(Code::kDenied, "no")) : Status();
        });
        EXPECT_THAT(world.Job(keeps).Collect({}, false, CancelFlag())->errors, SizeIs(1));
        EXPECT_THAT(world.Manifest(kSealed).retired, SizeIs(1));
      }
      return Status();
    });
    EXPECT_EQ(Only(world.Sweep(seen)).outcome, Outcome::kLostRace);
    Rows rows = kFiveRows;
    if (record_gone) rows.insert("late");
    EXPECT_EQ(world.LiveRows(kSealed), rows);
  }
}

// T25, R247: keys are relative to the root, so that two trees have the same ones.
TEST(HiveReview, RecordsOfAnotherTreeAreNotReconciled) {
  JobWorld world;
  world.settings.audit_tree = "/lake/one";
  world.WriteFive(kSealed);
  FaultyStore dying(world.store, [&](std::string_view op, const std::string& key, bool before) {
    const bool dies = op == "PutIf" && !before;
    return dies ? Status(Fail(Code::kCancelled, "crash", key)) : Status();
  });
  ASSERT_TRUE(world.Sweep(dying));
  auto log = observe::OpenMemoryAuditLog();
  for (const AuditEvent& event : world.Events()) {
    EXPECT_EQ(event.tree, "/lake/one");
    if (event.phase != AuditEvent::Phase::kIntent) continue;
    ASSERT_TRUE(log->Append(event));
  }
  world.audit = std::move(log);
  world.settings.audit_tree = "/lake/two";
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2"));
  world.settings.audit_tree = "/lake/one";
  EXPECT_EQ(world.Sweep()->reconciled, 1);
  EXPECT_THAT(world.Phases(), ElementsAre("intent 2", "committed 2"));
  EXPECT_EQ(world.Events().back().tree, "/lake/one");
  // Nor shown as this tree's.
  world.settings.audit_tree = "/lake/two";
  world.clock.Advance(std::chrono::hours(2));
  ASSERT_THAT(world.Sweep()->gc.removed, SizeIs(5));
  EXPECT_EQ(world.Events().back().tree, "/lake/two");
}

// R247: a job publishes adoptions and fences, too.
TEST(HiveReview, AGenerationOfTheSameJobIsNotYetItsSwap) {
  for (const bool outputs : {true, false}) {
    JobWorld world;
    world.settings.options.min_files = 100;
    world.settings.options.small_file_bytes = 1;
    world.WriteFive(kSealed);
    commit::HiveCommitter committer(world.store);
    ASSERT_TRUE(committer.Bootstrap(
        {kSealed, "job", world.clock.Now(), {}},
        {"f1.parquet", "f2.parquet", "f3.parquet", "f4.parquet", "f5.parquet"}));
    AuditEvent intent;
    intent.time = world.clock.Now();
    intent.job_id = "job";
    intent.series = "data";
    intent.tenant = "a";
    intent.partition = kSealed;
    intent.inputs = {"f1.parquet", "f2.parquet"};
    if (outputs) intent.outputs = {"out.parquet"};
    intent.generation = 1;
    ASSERT_TRUE(world.audit->Append(intent));
    EXPECT_EQ(world.Sweep()->reconciled, 1);
    EXPECT_THAT(world.Phases(), ElementsAre("intent 1", "aborted 1"));
    // What is a swap is found as before.
    intent.generation = 2;
    ASSERT_TRUE(world.audit->Append(intent));
    commit::SwapRequest request;
    request.planned = *table::ReadManifest(world.store, kSealed).value();
    request.inputs = intent.inputs;
    if (outputs) {
      world.Write(kSealed, "out", {"r1", "r2"});
      const int64_t size = world.store.Stat(kSealed + "out.parquet")->size;
      request.outputs = {{"out.parquet", size, 2}};
      request.rows_in = request.rows_out = 2;
    }
    ASSERT_TRUE(committer.Swap({kSealed, "job", world.clock.Now(), {}}, request));
    EXPECT_EQ(world.Sweep()->reconciled, 1);
    EXPECT_EQ(world.Phases().back(), "committed 2");
  }
}

// A job that is alive and gives a generation up while another process looks: the later swap must
// not count as the earlier one.
TEST(HiveReview, AnAttemptThatIsSettledMeanwhileIsNotReconciled) {
  JobWorld world;
  world.WriteFive(kSealed);
  bool adopted = false;
  FaultyStore seen(world.store, [&](std::string_view op, const std::string&, bool before) {
    if (op == "PutIf" && before && !adopted) {
      adopted = true;
      AdoptAsAnother(world, "late");
    }
    return Status();
  });
  // The other process has read the log, with the first intent alone, and then loses its CPU until
  // the commit.
  class LateReader final : public observe::AuditLog {
   public:
    explicit LateReader(observe::AuditLog& log) : log_(log) {}
    Status Append(const AuditEvent& event) override { return log_.Append(event); }
    Result<std::vector<observe::AuditRecord>> ReadAll(bool* torn) override {
      auto records = log_.ReadAll(torn);
      if (reads_++ == 0) {
        std::erase_if(*records, [](const auto& record) {
          return record.event.generation != 2 || record.event.phase != AuditEvent::Phase::kIntent;
        });
      }
      return records;
    }

   private:
    observe::AuditLog& log_;
    int reads_ = 0;
  };
  ASSERT_EQ(Only(world.Sweep(seen)).outcome, Outcome::kCommitted);
  const std::vector<std::string> phases = world.Phases();
  EXPECT_THAT(phases, ElementsAre("intent 2", "intent 2", "adopted 2", "aborted 2", "intent 3",
                                  "committed 3"));
  world.settings.options.min_files = 100;  // Nothing new is compacted.
  world.settings.options.small_file_bytes = 1;
  auto log = std::move(world.audit);
  world.audit = std::make_unique<LateReader>(*log);
  EXPECT_EQ(world.Sweep()->reconciled, 0);
  world.audit = std::move(log);
  EXPECT_EQ(world.Phases(), phases);
}

// R240: nothing that one partition does ends the others, or the process.
TEST(HiveReview, AnExceptionFailsItsPartitionAlone) {
  for (const bool memory : {true, false}) {
    JobWorld world;
    world.WriteFive(kSealed);
    world.WriteFive(JobWorld::Hour("09"));
    world.settings.threads = world.settings.partitions_at_once = 2;
    sim::SimRunner inner(world.store);
    sim::HookedRunner runner(inner, [&](const rewrite::GroupRequest& request) {
      if (request.partition != kSealed) return;
      if (memory) throw std::bad_alloc();
      throw std::runtime_error("surprise");
    });
    HiveJob job({world.store, runner, world.clock, world.random, *world.audit, world.progress},
                world.settings);
    const auto report = job.Sweep({}, false, CancelFlag(), [](const PartitionOutcome& outcome) {
      if (outcome.outcome == Outcome::kCommitted) throw std::runtime_error("from a callback");
    });
    ASSERT_TRUE(report);
    EXPECT_EQ(report->Count(Outcome::kCommitted), 1);
    EXPECT_EQ(report->Count(Outcome::kFailed), 1);
    const PartitionOutcome& failed = report->partitions[1];
    EXPECT_EQ(failed.id.key_prefix, kSealed);
    ASSERT_TRUE(failed.error);
    EXPECT_EQ(failed.error->code, memory ? Code::kLimit : Code::kInternal);
    EXPECT_THAT(ErrorOf(failed), HasSubstr(memory ? "out of memory" : "surprise"));
    ASSERT_THAT(report->errors, SizeIs(1));
    EXPECT_THAT(report->errors.front().message, HasSubstr("from a callback"));
  }
}

}  // namespace
}  // namespace lithify::job
