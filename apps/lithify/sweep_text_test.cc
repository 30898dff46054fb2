#include "sweep_text.h"

#include <gtest/gtest.h>

namespace lithify::cli {
namespace {

using job::Outcome;
using plan::Verdict;

job::PartitionOutcome Partition(std::string key, Outcome outcome, Verdict verdict) {
  job::PartitionOutcome out;
  out.id.series = "data";
  out.id.key_prefix = std::move(key);
  out.id.tenant = "a";
  out.id.values = {{"tenant_id", "a"}};
  out.plan.verdict = verdict;
  out.outcome = outcome;
  return out;
}

job::PartitionOutcome Committed() {
  job::PartitionOutcome out =
      Partition("data/tenant_id=a/", Outcome::kCommitted, Verdict::kCandidate);
  out.plan.inputs = {"a.parquet", "b.parquet", "c.parquet"};
  out.plan.bytes_in = 300 * kMiB;
  out.outputs = {"z.parquet"};
  out.bytes_out = 250 * kMiB;
  out.rows = 153600;
  out.generation = 2;
  out.took = std::chrono::milliseconds(2900);
  return out;
}

TEST(PartitionLine, SaysWhatHappened) {
  EXPECT_EQ(PartitionLine(Committed()),
            "committed  data/tenant_id=a/  3 -> 1 file  300.0 MiB -> 250.0 MiB  153,600 rows  "
            "generation 2  2.9 s");
  job::PartitionOutcome adopted = Partition("data/b/", Outcome::kAdopted, Verdict::kNotSealed);
  adopted.adopted = {"x.parquet"};
  EXPECT_EQ(PartitionLine(adopted), "adopted    data/b/  1 late file adopted");
  EXPECT_EQ(PartitionLine(Partition("p/", Outcome::kLostRace, Verdict::kCandidate)),
            "lost race  p/  another compactor was first");
}

TEST(DryRunText, OneRowPerPartitionWithTheNumberThatDecided) {
  job::SweepReport report;
  job::PartitionOutcome planned = Partition("data/a/", Outcome::kPlanned, Verdict::kCandidate);
  planned.plan.reason = "32 live files, more than 4";
  planned.plan.inputs = {"a.parquet", "b.parquet"};
  planned.plan.live_files = 32;
  planned.plan.outputs = 1;
  planned.plan.bytes_in = 300 * kMiB;
  planned.tier_plan.emplace();
  planned.tier_plan->row_groups = 3;
  planned.tier_plan->tiers = {{"recode", 24}, {"splice", 120}};
  planned.tier_plan->recoded = {{"an input lacks it", 4}, {"another codec", 20}};
  job::PartitionOutcome broken = Partition("data/c/", Outcome::kPlanned, Verdict::kCandidate);
  broken.plan.live_files = 1;
  broken.notes = {"a rewrite would fail: corrupt"};
  job::PartitionOutcome young = Partition("data/b/", Outcome::kSkipped, Verdict::kNotSealed);
  young.plan.reason = "sealed in 3 min";
  young.plan.live_files = 2;
  report.partitions = {planned, young, broken};
  report.skipped_paths = {{.key = "data/x/", .reason = "not canonical"}};
  EXPECT_EQ(
      DryRunText(report, {.threads = 1}, false),
      "partition  verdict     files  outputs    to move  row groups  tiers, in column chunks       "
      "                                      estimate  reason\n"
      "data/a/    candidate      32        1  300.0 MiB           3  splice up to 120, recode 24: "
      "another codec 20, an input lacks it 4     3.9 s  32 live files, more than 4\n"
      "data/b/    not sealed      2                                                                "
      "                                                sealed in 3 min\n"
      "data/c/    candidate       1        0        0 B                                            "
      "                                        100 ms\n"
      "left alone: data/x/: not canonical\n"
      "\n"
      "would compact 2 partitions of 3: 2 -> 1 file, moving 300.0 MiB in about 4.0 s (estimate, at "
      "80.0 MiB/s for each of 1 thread, plus 100 ms per partition and 2 ms per file)\n"
      "column chunks by tier: splice up to 120, recode 24: another codec 20, an input lacks it 4\n"
      "note: data/c/: a rewrite would fail: corrupt\n");
}

TEST(SweepText, CountsEveryOutcome) {
  job::SweepReport report;
  report.partitions = {Committed(),
                       Partition("b/", Outcome::kSkipped, Verdict::kNotSealed),
                       Partition("c/", Outcome::kSkipped, Verdict::kIrreducible),
                       Partition("d/", Outcome::kSkipped, Verdict::kNotSealed),
                       Partition("e/", Outcome::kFailed, Verdict::kCandidate),
                       Partition("f/", Outcome::kLostRace, Verdict::kCandidate),
                       Partition("g/", Outcome::kAdopted, Verdict::kNothingToGain),
                       Partition("h/", Outcome::kSkipped, Verdict::kClaimed)};
  report.gc.removed = {{.key = "x", .size = kMiB, .reason = "r"}};
  report.reconciled = 1;
  report.took = std::chrono::seconds(3);
  EXPECT_EQ(SweepText(report, false),
            "compacted  1 partition: 3 -> 1 file, 300.0 MiB -> 250.0 MiB, 153,600 rows\n"
            "adopted    late files in 1 partition\n"
            "lost race  1 partition: another compactor was first, nothing of ours is visible\n"
            "skipped    4 partitions: 2 not sealed, 1 irreducible, 1 claimed\n"
            "failed     1 partition, left as they were\n"
            "reconciled 1 job of processes that died\n"
            "removed    1 dead file, 1.0 MiB\n"
            "took       3.0 s\n");
}

TEST(SweepText, TellsTiersAndWhyOfAllThatWasCommitted) {
  job::SweepReport report;
  job::PartitionOutcome first = Committed();
  first.tiers = {{"recode", 4}, {"splice", 8}};
  first.recoded = {{"another type", 4}};
  job::PartitionOutcome second = Committed();
  second.tiers = {{"recode", 5}};
  second.recoded = {{"its pages are small", 5}};
  report.partitions = {first, second};
  EXPECT_EQ(SweepText(report, false),
            "compacted  2 partitions: 6 -> 2 files, 600.0 MiB -> 500.0 MiB, 307,200 rows\n"
            "tiers      splice 8, recode 9: its pages are small 5, another type 4\n"
            "took       0 ms\n");
  const Json json = SweepJson(report, "/lake", false, {.threads = 1});
  EXPECT_EQ(json["partitions"][0]["recoded"]["another type"], 4);
}

TEST(SweepText, AnEmptyTree) {
  EXPECT_EQ(SweepText({}, false), "no partitions found\ntook       0 ms\n");
}

TEST(SweepJson, HasTotalsAndErrors) {
  job::SweepReport report;
  job::PartitionOutcome failed = Partition("b/", Outcome::kFailed, Verdict::kCandidate);
  failed.error = Error{.code = Code::kCorrupt, .message = "m", .context = "c", .hint = "h"};
  report.partitions = {Committed(), failed};
  const Json json = SweepJson(report, "/lake", false, {.threads = 1});
  EXPECT_EQ(json["root"], "/lake");
  EXPECT_EQ(json["dry_run"], false);
  EXPECT_EQ(json["counts"]["committed"], 1);
  EXPECT_EQ(json["counts"]["failed"], 1);
  EXPECT_EQ(json["counts"]["skipped"], 0);
  EXPECT_EQ(json["totals"]["files_in"], 3);
  EXPECT_EQ(json["totals"]["files_out"], 1);
  EXPECT_EQ(json["totals"]["rows"], 153600);
  EXPECT_EQ(json["partitions"][0]["outputs"][0], "z.parquet");
  EXPECT_EQ(json["partitions"][0]["values"]["tenant_id"], "a");
  EXPECT_TRUE(json["partitions"][0]["error"].is_null());
  EXPECT_EQ(json["partitions"][1]["error"]["code"], "corrupt");
  EXPECT_EQ(json["partitions"][1]["error"]["hint"], "h");
}

TEST(GcText, TellsRemovedAndKeptWithReasons) {
  job::GcReport report;
  report.removed = {{.key = "p/a.parquet", .size = 10, .reason = "superseded 2 h ago"}};
  report.kept = {{.key = "p/b.tmp", .size = 5, .reason = "young"}};
  EXPECT_EQ(GcText(report, true, false),
            "action    file         size  reason\n"
            "would go  p/a.parquet  10 B  superseded 2 h ago\n"
            "kept      p/b.tmp       5 B  young\n"
            "\n"
            "would remove 1 file, 10 B; kept 1 file that may go later or not at all\n");
  EXPECT_EQ(GcText({}, false, false),
            "removed 0 files, 0 B; kept 0 files that may go later or not at all\n");
}

TEST(ErrorText, KeepsLinesOfConfigurationErrorsAndNothingElse) {
  EXPECT_EQ(ErrorText({.code = Code::kInvalid,
                       .message = "2 problems:\n  a\x1b",
                       .context = "f",
                       .hint = "do\nthat"}),
            "invalid: f: 2 problems:\n  a?\n  next: do?that");
}

TEST(Overrides, SetAndFlags) {
  CommonOptions options;
  options.set = {"compaction.min_files=8", "output.plain_columns="};
  options.overrides = {{.key = "limits.jobs", .value = "2", .source = "--jobs"}};
  const auto overrides = Overrides(options);
  ASSERT_TRUE(overrides);
  ASSERT_EQ(overrides->size(), 3U);
  EXPECT_EQ((*overrides)[0].key, "compaction.min_files");
  EXPECT_EQ((*overrides)[0].value, "8");
  EXPECT_EQ((*overrides)[1].value, "");
  EXPECT_EQ((*overrides)[2].source, "--jobs");
  options.set = {"limits.jobs"};
  EXPECT_FALSE(Overrides(options));
}

TEST(MakeFilter, KeysPathsAndTimes) {
  const auto filter =
      MakeFilter({.partition = "data/tenant_id=a/", .since = "2026-11-29T16"}, "/x");
  ASSERT_TRUE(filter);
  EXPECT_EQ(filter->partition, "data/tenant_id=a");
  EXPECT_EQ(FormatTime(*filter->since), "2026-11-29T16:00:00.000000Z");
  const auto path = MakeFilter({.partition = "/usr/bin"}, "/usr");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->partition, "bin");
  EXPECT_FALSE(MakeFilter({.since = "yesterday"}, "/x"));
}

TEST(ExitFor, MapsCodes) {
  const auto exit_for = [](Code code) {
    return ExitFor(Error{.code = code, .message = {}, .context = {}, .hint = {}});
  };
  EXPECT_EQ(exit_for(Code::kInvalid), kUsage);
  EXPECT_EQ(exit_for(Code::kUnsupported), kUsage);
  EXPECT_EQ(exit_for(Code::kCancelled), kStopped);
  EXPECT_EQ(exit_for(Code::kDenied), kUnreadable);
  EXPECT_EQ(exit_for(Code::kNotFound), kUnreadable);
}

}  // namespace
}  // namespace lithify::cli
